/* store/inflater.h - parts of a deflated value, without the whole of it in memory.
 *
 * Reading goes on where it stood; further back it begins at the last of at most
 * TG_INFLATER_POINTS states that were kept on the way, so a jump costs one of that many parts
 * of the value at most. Threads: one at a time. */
#ifndef TG_STORE_INFLATER_H
#define TG_STORE_INFLATER_H

#include "base/error.h"
#include "tidegate/cancel.h"

#define TG_INFLATER_POINTS 48
/* What one takes at most: states of zlib of 43 KiB, two blocks. */
#define TG_INFLATER_BYTES ((uint64_t)(TG_INFLATER_POINTS + 2) * (44 << 10) + (160 << 10))

typedef struct tg_inflater tg_inflater;

/* A value of `size` bytes made from the `stored` bytes of raw deflate data at byte `at` of fd,
 * which is borrowed; crc is its checksum, looked at when all was read in order. */
typedef struct tg_deflated {
    int fd;
    uint64_t at, stored, size;
    uint32_t crc;
} tg_deflated;
TG_MUST_USE tg_status tg_inflater_new(tg_inflater **out, const tg_deflated *of, tg_error *err);
void tg_inflater_free(tg_inflater *f); /* may be NULL */
/* Bytes [offset, offset + len), which lie within the value. TG_CORRUPT: damaged, or another
 * size or checksum than said; the inflater is then of no more use. name is for messages. */
TG_MUST_USE tg_status tg_inflater_read(tg_inflater *f, uint64_t offset, size_t len, void *dst,
                                       const char *name, const tg_cancel *cancel,
                                       tg_error *err);

#endif
