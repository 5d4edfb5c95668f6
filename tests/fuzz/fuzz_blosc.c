/* A Blosc frame whose header is made to fit, so that what is behind it is reached: bytes 0 to 5
 * are compressor and flags, item, decoded size (2), block size (2), the rest streams and their
 * offsets. The sizes that the header can lie about are left to fuzz_codec. */
#include "codec/codecs.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_u32(uint8_t *p, size_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static void make_frame(const uint8_t *data, size_t size, uint8_t *frame, size_t nbytes)
{
    frame[0] = 2;
    frame[1] = 1;
    frame[2] = data[0];
    frame[3] = data[1];
    put_u32(frame + 4, nbytes);
    put_u32(frame + 8, (size_t)(data[4] | data[5] << 8));
    put_u32(frame + 12, 16 + size - 6);
    memcpy(frame + 16, data + 6, size - 6);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tg_blosc_options o = {.level = 5, .item_bytes = 1};
    tg_codec *c = NULL;
    size_t n = 0;

    if (size < 6)
        return 0;
    size_t nbytes = (size_t)(data[2] | data[3] << 8);
    TG_AUTO(tg_mem_ptr) frame = tg_alloc(16 + size - 6);
    TG_AUTO(tg_mem_ptr) out = tg_alloc(nbytes);
    if (frame == NULL || out == NULL || tg_blosc_new(&c, &o, NULL) != TG_OK)
        abort();
    make_frame(data, size, frame, nbytes);
    tg_status st =
        c->ops->decode(c, NULL, (tg_bytes){frame, 16 + size - 6}, out, nbytes, &n, NULL);
    if (st == TG_OK ? n != nbytes : st != TG_CORRUPT)
        abort();
    c->ops->free(c);
    return 0;
}
