/* store/zip_format.h - the records of a ZIP file as numbers
 * (docs/formats/zip.md). All integers are little-endian and may be unaligned. */
#ifndef TG_STORE_ZIP_FORMAT_H
#define TG_STORE_ZIP_FORMAT_H

#include <stdint.h>
#include <string.h>

#define ZIP_LOCAL_SIG     0x04034b50u
#define ZIP_CENTRAL_SIG   0x02014b50u
#define ZIP_END_SIG       0x06054b50u
#define ZIP_END64_SIG     0x06064b50u
#define ZIP_LOCATOR_SIG   0x07064b50u
#define ZIP_LOCAL_BYTES   30
#define ZIP_CENTRAL_BYTES 46
#define ZIP_END_BYTES     22
#define ZIP_END64_BYTES   56
#define ZIP_LOCATOR_BYTES 20
#define ZIP_COMMENT_MAX   65535

#define ZIP_EXTRA_ZIP64 0x0001
#define ZIP_EXTRA_ALIGN                                                  \
    0xd935 /* u16 alignment, then zeros: as Android's zipalign writes it \
            */

#define ZIP_FLAG_ENCRYPTED  0x0001
#define ZIP_FLAG_DESCRIPTOR 0x0008
#define ZIP_FLAG_STRONG     0x0040
#define ZIP_FLAG_UTF8       0x0800
#define ZIP_FLAG_MASKED     0x2000

#define ZIP_STORED   0
#define ZIP_DEFLATED 8

#define ZIP_MADE_BY_UNIX 3
#define ZIP_MAX16        0xffffu
#define ZIP_MAX32        0xffffffffu

static inline uint16_t zip_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t zip_u32(const uint8_t *p)
{
    return (uint32_t)zip_u16(p) | (uint32_t)zip_u16(p + 2) << 16;
}
static inline uint64_t zip_u64(const uint8_t *p)
{
    return (uint64_t)zip_u32(p) | (uint64_t)zip_u32(p + 4) << 32;
}
static inline uint8_t *zip_put16(uint8_t *p, uint64_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    return p + 2;
}
static inline uint8_t *zip_put32(uint8_t *p, uint64_t v)
{
    return zip_put16(zip_put16(p, v), v >> 16);
}
static inline uint8_t *zip_put64(uint8_t *p, uint64_t v)
{
    return zip_put32(zip_put32(p, v), v >> 32);
}
static inline uint64_t zip_min(uint64_t v, uint64_t max)
{
    return v < max ? v : max;
}

#endif
