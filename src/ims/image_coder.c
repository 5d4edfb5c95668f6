/* ims/image_coder.c - sparse images to compressed records and back: pixels as differences,
 * values behind them, zstd around both. */
#include "base/crc32c.h"
#include "codec/codecs.h"
#include "ims/keeper.h"
#include "ims/peak_sort.h"

#include <string.h>

#define LEVEL       1
#define PIXEL_BYTES 9 /* of a pixel at most: a difference, a value */

/* As it lies in the file: little-endian, no padding. */
typedef struct record_head {
    uint32_t n[TG_N_IMAGES]; /* pixels; 0: no image */
    uint32_t len[TG_N_IMAGES];
    uint32_t crc32c[TG_N_IMAGES];
} record_head;
_Static_assert(sizeof(record_head) == (size_t)TG_N_IMAGES * 12, "written as it lies in memory");

struct tg_image_coder {
    uint64_t n_pixels;
    bool encode;
    tg_codec *zstd;
    void *context;
    tg_peak *pixels, *scratch; /* encode: sorted by pixel */
    uint8_t *plain;
    size_t plain_cap;
    uint8_t *record;
    size_t record_cap;
    uint32_t *index; /* decode: TG_N_IMAGES times n_pixels */
    float *values;
};

/* What zstd says of its bound. */
static uint64_t most_packed(uint64_t n)
{
    return n + n / 256 + 128;
}

uint64_t tg_image_record_bytes(uint64_t n_pixels)
{
    return sizeof(record_head) + TG_N_IMAGES * most_packed(n_pixels * PIXEL_BYTES);
}

uint64_t tg_image_coder_bytes(uint64_t n_pixels, bool encode)
{
    const uint64_t plain = n_pixels * PIXEL_BYTES;
    /* sorted twice; or all images at once: the same */
    const uint64_t images = encode
                                ? 2 * n_pixels * sizeof(tg_peak)
                                : TG_N_IMAGES * n_pixels * (sizeof(uint32_t) + sizeof(float));
    return images + plain + tg_image_record_bytes(n_pixels) +
           (encode ? tg_zstd_encoder_bytes(LEVEL, plain) : (uint64_t)256 << 10) + 4096;
}

static tg_status take_room(tg_image_coder *c, tg_error *err)
{
    const size_t n = (size_t)c->n_pixels + 1;
    bool good = true;

    c->plain_cap = n * PIXEL_BYTES;
    c->record_cap = (size_t)tg_image_record_bytes(c->n_pixels);
    c->plain = tg_alloc(c->plain_cap);
    c->record = tg_alloc(c->record_cap);
    if (c->encode) {
        c->pixels = tg_alloc_array(n, sizeof *c->pixels);
        c->scratch = tg_alloc_array(n, sizeof *c->scratch);
        good = c->pixels != NULL && c->scratch != NULL;
    } else {
        c->index = tg_alloc_array(TG_N_IMAGES * n, sizeof *c->index);
        c->values = tg_alloc_array(TG_N_IMAGES * n, sizeof *c->values);
        good = c->index != NULL && c->values != NULL;
    }
    if (!good || c->plain == NULL || c->record == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to keep images of %llu pixels",
                       (unsigned long long)c->n_pixels);
    return c->zstd->ops->context_new(c->zstd, c->plain_cap, c->encode, &c->context, err);
}

tg_status tg_image_coder_new(tg_image_coder **out, uint64_t n_pixels, bool encode,
                             tg_error *err)
{
    TG_AUTO_PTR(tg_image_coder) c = tg_calloc(1, sizeof *c);
    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to keep images");
    c->n_pixels = n_pixels;
    c->encode = encode;
    TG_TRY(tg_zstd_new(&c->zstd, LEVEL, true, err));
    TG_TRY(take_room(c, err));
    *out = tg_steal(c);
    return TG_OK;
}

void tg_image_coder_free(tg_image_coder *c)
{
    if (c == NULL)
        return;
    if (c->context != NULL)
        c->zstd->ops->context_free(c->zstd, c->context);
    if (c->zstd != NULL)
        c->zstd->ops->free(c->zstd);
    tg_free(c->pixels);
    tg_free(c->scratch);
    tg_free(c->plain);
    tg_free(c->record);
    tg_free(c->index);
    tg_free(c->values);
    tg_free(c);
}

tg_buf tg_image_coder_room(tg_image_coder *c)
{
    return (tg_buf){.data = c->record, .len = c->record_cap};
}

/* --- Encoding ----------------------------------------------------------------------------- */

static uint8_t *put_varint(uint8_t *p, uint32_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

/* Differences of the pixels, then the values. */
static size_t lay_out(tg_image_coder *c, uint32_t n)
{
    uint8_t *p = c->plain;
    uint32_t before = 0;
    for (uint32_t i = 0; i < n; i++) {
        p = put_varint(p, c->pixels[i].pixel - before);
        before = c->pixels[i].pixel;
    }
    for (uint32_t i = 0; i < n; i++) {
        memcpy(p, &c->pixels[i].intensity, sizeof(float));
        p += sizeof(float);
    }
    return (size_t)(p - c->plain);
}

tg_touched tg_touched_by(const tg_imager *m)
{
    tg_touched t = {0};
    t.n = tg_imager_pixels(m, &t.pixels);
    for (int k = 0; k < TG_N_IMAGES; k++)
        t.values[k] = tg_imager_image(m, k);
    return t;
}

tg_status tg_image_encode(tg_image_coder *c, const tg_touched *images, tg_bytes *record,
                          tg_error *err)
{
    record_head head = {{0}, {0}, {0}};
    size_t at = sizeof head;

    for (int k = 0; k < TG_N_IMAGES; k++) {
        const float *values = images->values[k];
        uint32_t n = 0;
        for (size_t i = 0; i < images->n && values != NULL; i++)
            if (values[i] != 0)
                c->pixels[n++] = (tg_peak){images->pixels[i], values[i], images->pixels[i]};
        if (n == 0)
            continue;
        tg_peaks_sort(c->pixels, c->scratch, n);
        size_t len = 0;
        const tg_bytes plain = {c->plain, lay_out(c, n)};
        TG_TRY(c->zstd->ops->encode(c->zstd, c->context, plain, c->record + at,
                                    c->record_cap - at, &len, err));
        head.n[k] = n;
        head.len[k] = (uint32_t)len;
        head.crc32c[k] = tg_crc32c(0, c->record + at, len);
        at += len;
    }
    memcpy(c->record, &head, sizeof head);
    *record = (tg_bytes){c->record, at};
    return TG_OK;
}

/* --- Decoding ----------------------------------------------------------------------------- */

static tg_status broken(int k, const char *why, tg_error *err)
{
    return tg_fail(err, TG_CORRUPT, "kept image %d: %s", k, why);
}

static const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, uint32_t *v)
{
    *v = 0;
    for (int shift = 0; p < end && shift < 32; shift += 7) {
        *v |= (uint32_t)(*p & 0x7f) << shift;
        if ((*p++ & 0x80) == 0)
            return p;
    }
    return NULL;
}

static tg_status take_apart(const tg_image_coder *c, int k, uint32_t n, size_t len,
                            tg_sparse *out, tg_error *err)
{
    const uint8_t *p = c->plain, *end = c->plain + len;
    uint32_t *pixels = c->index + (size_t)k * c->n_pixels;
    float *values = c->values + (size_t)k * c->n_pixels;
    uint64_t pixel = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t step;
        p = get_varint(p, end, &step);
        if (p == NULL || (i > 0 && step == 0))
            return broken(k, "pixels do not rise", err);
        pixel += step;
        if (pixel >= c->n_pixels)
            return broken(k, "a pixel beyond the last", err);
        pixels[i] = (uint32_t)pixel;
    }
    if ((size_t)(end - p) != n * sizeof(float))
        return broken(k, "other values than pixels", err);
    memcpy(values, p, n * sizeof(float));
    out->n[k] = n;
    out->pixels[k] = pixels;
    out->values[k] = values;
    return TG_OK;
}

static tg_status decode_one(tg_image_coder *c, int k, const record_head *head, tg_bytes part,
                            tg_sparse *out, tg_error *err)
{
    size_t len = 0;
    if (tg_crc32c(0, part.data, part.len) != head->crc32c[k])
        return broken(k, "another checksum", err);
    TG_TRY(c->zstd->ops->decode(c->zstd, c->context, part, c->plain, c->plain_cap, &len, err));
    return take_apart(c, k, head->n[k], len, out, err);
}

tg_status tg_image_decode(tg_image_coder *c, tg_bytes record, tg_sparse *out, tg_error *err)
{
    record_head head;
    size_t at = sizeof head;

    *out = (tg_sparse){0};
    if (record.len < sizeof head)
        return broken(0, "it ends in its head", err);
    memcpy(&head, record.data, sizeof head);
    for (int k = 0; k < TG_N_IMAGES; k++) {
        if (head.n[k] == 0)
            continue;
        if (head.n[k] > c->n_pixels || head.len[k] > record.len - at)
            return broken(k, "it ends in its middle", err);
        TG_TRY(decode_one(c, k, &head, (tg_bytes){record.data + at, head.len[k]}, out, err));
        at += head.len[k];
    }
    return TG_OK;
}
