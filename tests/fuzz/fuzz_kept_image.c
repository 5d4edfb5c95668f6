/* fuzz_kept_image.c - blocks and records of kept images: corrupt, or images whose pixels rise
 * within the data set. The first byte chooses: the end of a block; a record, its sums put right
 * so that they stop nothing; or what lies packed in one image of a record. */
#include "base/crc32c.h"
#include "codec/codecs.h"
#include "ims/keeper.h"

#include <stdlib.h>
#include <string.h>

#define PIXELS 300
#define HEAD   ((size_t)TG_N_IMAGES * 12)
#define ROOM   ((size_t)1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_images(const tg_sparse *s)
{
    for (int k = 0; k < TG_N_IMAGES; k++)
        for (uint32_t i = 0; i < s->n[k]; i++)
            if (s->pixels[k][i] >= PIXELS || (i > 0 && s->pixels[k][i] <= s->pixels[k][i - 1]))
                abort();
}

static void decode(uint8_t *record, size_t len)
{
    tg_image_coder *c = NULL;
    tg_sparse s;
    tg_error err = {0};
    size_t at = HEAD;

    for (size_t k = 0; k < TG_N_IMAGES && len >= HEAD; k++) {
        uint32_t n, part;
        memcpy(&n, record + 4 * k, 4);
        memcpy(&part, record + 4 * (TG_N_IMAGES + k), 4);
        if (n == 0 || part > len - at)
            continue;
        const uint32_t crc = tg_crc32c(0, record + at, part);
        memcpy(record + 4 * (2 * TG_N_IMAGES + k), &crc, 4);
        at += part;
    }
    if (tg_image_coder_new(&c, PIXELS, false, NULL) != TG_OK)
        abort();
    if (tg_image_decode(c, (tg_bytes){record, len}, &s, &err) == TG_OK)
        check_images(&s);
    else if (err.code != TG_CORRUPT)
        abort();
    tg_image_coder_free(c);
}

/* A record of one image of n pixels, of what would be packed in it. */
static void decode_plain(const uint8_t *plain, size_t len, uint32_t n)
{
    static uint8_t record[ROOM];
    tg_codec *zstd = NULL;
    void *context = NULL;
    size_t packed = 0;

    if (tg_zstd_new(&zstd, 1, true, NULL) != TG_OK ||
        zstd->ops->context_new(zstd, ROOM / 4, true, &context, NULL) != TG_OK)
        abort();
    memset(record, 0, HEAD);
    if (len <= ROOM / 4 &&
        zstd->ops->encode(zstd, context, (tg_bytes){plain, len}, record + HEAD, ROOM - HEAD,
                          &packed, NULL) == TG_OK) {
        const uint32_t part = (uint32_t)packed;
        memcpy(record, &n, 4);
        memcpy(record + 4 * (size_t)TG_N_IMAGES, &part, 4);
        decode(record, HEAD + packed);
    }
    zstd->ops->context_free(zstd, context);
    zstd->ops->free(zstd);
}

static void read_end(const uint8_t *data, size_t size)
{
    tg_block_end end;
    uint8_t tail[TG_BLOCK_END_BYTES] = {0};
    uint64_t bytes;
    if (size < sizeof tail + sizeof bytes)
        return;
    memcpy(tail, data, sizeof tail);
    memcpy(&bytes, data + sizeof tail, sizeof bytes);
    if (tg_block_end_read(tail, bytes, &end, NULL) == TG_OK &&
        (end.index_at > bytes || (uint64_t)end.n * 32 > bytes - end.index_at))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > ROOM / 4)
        return 0;
    if (data[0] % 3 == 0) {
        read_end(data + 1, size - 1);
    } else if (data[0] % 3 == 1) {
        uint8_t *record = malloc(size - 1);
        if (record == NULL)
            abort();
        memcpy(record, data + 1, size - 1);
        decode(record, size - 1);
        free(record);
    } else {
        decode_plain(data + 2, size - 2, data[1]);
    }
    return 0;
}
