/* store/inflate.c - deflate and CRC-32 by libdeflate. Knows no ZIP. */
#include "store/inflate.h"

#include <libdeflate.h>

uint32_t tg_zip_crc32(uint32_t crc, const void *data, size_t len)
{
    return libdeflate_crc32(crc, data, len);
}

tg_status tg_inflate(const void *src, size_t src_len, void *dst, size_t dst_len, tg_error *err)
{
    size_t used = 0, got = 0;
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();

    if (d == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a decompressor");
    enum libdeflate_result rc =
        libdeflate_deflate_decompress_ex(d, src, src_len, dst, dst_len, &used, &got);
    libdeflate_free_decompressor(d);
    if (rc == LIBDEFLATE_INSUFFICIENT_SPACE)
        return tg_fail(err, TG_CORRUPT, "deflate data makes more than the %zu bytes wanted",
                       dst_len);
    if (rc != LIBDEFLATE_SUCCESS)
        return tg_fail(err, TG_CORRUPT, "deflate data is damaged");
    if (got != dst_len || used != src_len)
        return tg_fail(err, TG_CORRUPT,
                       "deflate data: %zu of %zu bytes make %zu, want %zu from all of them",
                       used, src_len, got, dst_len);
    return TG_OK;
}
