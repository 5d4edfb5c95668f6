/* store/inflate.h - the two things that a ZIP needs of a compression library,
 * whose header only inflate.c includes. */
#ifndef TG_STORE_INFLATE_H
#define TG_STORE_INFLATE_H

#include "base/error.h"

/* The CRC-32 of ZIP, gzip and PNG; crc is that of the bytes before, 0 at the start. */
uint32_t tg_zip_crc32(uint32_t crc, const void *data, size_t len);

/* Raw deflate data to exactly dst_len bytes: more, less or rubbish is TG_CORRUPT. */
TG_MUST_USE tg_status tg_inflate(const void *src, size_t src_len, void *dst, size_t dst_len,
                                 tg_error *err);

#endif
