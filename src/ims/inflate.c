/* ims/inflate.c - zlib behind one call: the only file of ims that includes its header. */
#include "ims/inflate.h"

#include <limits.h>
#include <zlib.h>

static tg_status run(z_stream *z, tg_bytes src, uint8_t *dst, size_t n, tg_error *err)
{
    uint8_t one_more = 0;
    size_t in = 0, out = 0;

    for (;;) {
        size_t part = src.len - in < INT_MAX ? src.len - in : INT_MAX;
        size_t room = n - out < INT_MAX ? n - out : INT_MAX;
        /* a byte beyond what is wanted shows that there is more */
        uint8_t *to = room > 0 ? dst + out : &one_more;
        z->next_in = (Bytef *)(uintptr_t)(src.data + in);
        z->avail_in = (unsigned)part;
        z->next_out = to;
        z->avail_out = room > 0 ? (unsigned)room : 1;
        unsigned before = z->avail_out;
        int rc = inflate(z, Z_NO_FLUSH);
        in += part - z->avail_in;
        size_t made = before - z->avail_out;
        if (room == 0 && made > 0)
            return tg_fail(err, TG_CORRUPT, "inflates to more than %zu bytes", n);
        out += room > 0 ? made : 0;
        if (rc == Z_STREAM_END)
            break;
        if (rc != Z_OK || (made == 0 && in == src.len))
            return tg_fail(err, TG_CORRUPT, "zlib stream %s after %zu of %zu bytes",
                           in == src.len ? "ends" : "is broken", out, n);
    }
    if (out != n)
        return tg_fail(err, TG_CORRUPT, "inflates to %zu bytes, want %zu", out, n);
    return TG_OK;
}

tg_status tg_ims_inflate(tg_bytes src, uint8_t *dst, size_t n, tg_error *err)
{
    z_stream z = {.zalloc = tg_zlib_alloc, .zfree = tg_zlib_free};

    if (src.len == 0 && n == 0)
        return TG_OK;
    if (inflateInit(&z) != Z_OK)
        return tg_fail(err, TG_NO_MEMORY, "no memory to inflate");
    tg_status st = run(&z, src, dst, n, err);
    (void)inflateEnd(&z);
    return st;
}

size_t tg_ims_deflate_bound(size_t n)
{
    return compressBound((uLong)n);
}

tg_status tg_ims_deflate(tg_bytes src, uint8_t *dst, size_t cap, size_t *n, tg_error *err)
{
    z_stream z = {.zalloc = tg_zlib_alloc, .zfree = tg_zlib_free};

    if (src.len > UINT_MAX || cap > UINT_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "an array of %zu bytes", src.len);
    if (deflateInit(&z, Z_BEST_SPEED) != Z_OK)
        return tg_fail(err, TG_NO_MEMORY, "no memory to deflate");
    z.next_in = (Bytef *)(uintptr_t)src.data;
    z.avail_in = (unsigned)src.len;
    z.next_out = dst;
    z.avail_out = (unsigned)cap;
    int rc = deflate(&z, Z_FINISH);
    *n = cap - z.avail_out;
    (void)deflateEnd(&z);
    return rc == Z_STREAM_END
               ? TG_OK
               : tg_fail(err, TG_INVALID, "%zu bytes do not deflate into %zu", src.len, cap);
}
