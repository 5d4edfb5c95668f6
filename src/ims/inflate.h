/* ims/inflate.h - zlib arrays of an .ibd. */
#ifndef TG_IMS_INFLATE_H
#define TG_IMS_INFLATE_H

#include "base/mem.h"

/* What tg_ims_inflate() takes while it runs. */
#define TG_IMS_INFLATE_BYTES ((size_t)64 << 10)

/* src is one zlib stream that must give exactly n bytes; nothing at all gives 0 bytes.
 * TG_CORRUPT says what it gave. */
TG_MUST_USE tg_status tg_ims_inflate(tg_bytes src, uint8_t *dst, size_t n, tg_error *err);

/* The reverse, at the fastest level, for made-up data: one zlib stream of at most
 * tg_ims_deflate_bound() bytes. */
size_t tg_ims_deflate_bound(size_t n);
TG_MUST_USE tg_status tg_ims_deflate(tg_bytes src, uint8_t *dst, size_t cap, size_t *n,
                                     tg_error *err);

#endif
