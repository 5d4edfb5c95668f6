/* Byte 0 names a codec, the rest is what it decodes: data or an error within the room given;
 * data are what their own encoding gives back. */
#include "codec/codecs.h"

#include <stdlib.h>
#include <string.h>

enum { CAP = 1 << 16, CODECS = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tg_status make(unsigned which, tg_codec **c)
{
    tg_blosc_options o = {which / CODECS % TG_BLOSC_COMPRESSORS, 1, which % 3, 1 + which % 17,
                          0};

    switch (which % CODECS) {
    case 0:
        return tg_crc32c_new(c, NULL);
    case 1:
        return tg_zstd_new(c, 1, which & 8, NULL);
    case 2:
        return tg_deflate_new(c, TG_DEFLATE_GZIP, 1, NULL);
    case 3:
        return tg_deflate_new(c, TG_DEFLATE_ZLIB, 1, NULL);
    case 4:
        return tg_lz4_new(c, 1, NULL);
    default:
        return tg_blosc_new(c, &o, NULL);
    }
}

static tg_status run(const tg_codec *c, bool encode, tg_bytes src, tg_buf *out, size_t *n)
{
    void *ctx = NULL;

    if (c->ops->context_new(c, CAP, encode, &ctx, NULL) != TG_OK)
        abort();
    tg_status st =
        (encode ? c->ops->encode : c->ops->decode)(c, ctx, src, out->data, out->len, n, NULL);
    if (ctx != NULL)
        c->ops->context_free(c, ctx);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TG_AUTO(tg_buf) plain = {0};
    TG_AUTO(tg_buf) enc = {0};
    TG_AUTO(tg_buf) again = {0};
    tg_codec *c = NULL;
    size_t n = 0, len = 0, m = 0;

    if (size == 0)
        return 0;
    if (make(data[0], &c) != TG_OK || tg_buf_resize(&plain, CAP, NULL) != TG_OK ||
        tg_buf_resize(&again, CAP, NULL) != TG_OK ||
        tg_buf_resize(&enc, c->ops->bound(c, CAP), NULL) != TG_OK)
        abort();
    tg_status st = run(c, false, (tg_bytes){data + 1, size - 1}, &plain, &n);
    if (st == TG_OK) {
        if (n > CAP || run(c, true, (tg_bytes){plain.data, n}, &enc, &len) != TG_OK ||
            run(c, false, (tg_bytes){enc.data, len}, &again, &m) != TG_OK || m != n ||
            memcmp(plain.data, again.data, n) != 0)
            abort();
    } else if (st != TG_CORRUPT && st != TG_UNSUPPORTED) {
        abort();
    }
    c->ops->free(c);
    return 0;
}
