/* region/stitch.h - from the objects of all regions, and which of them touch, to numbers 1..n:
 * what hangs together gets one number, in the order of the least object of each. Objects are
 * numbers of 64 bits. Takes as much memory as it is given, however many there are; the rest is
 * on the disk. */
#ifndef TG_REGION_STITCH_H
#define TG_REGION_STITCH_H

#include "region/sorter.h"

/* What objects became, in a nameless file. Threads: any number may look. */
typedef struct tg_numbers tg_numbers;

/* objects: pairs (object, 0). touching: pairs of objects (any order). Both may still be added
 * to no more after this. `bytes`: of each sorter that is made, three at once; the numbers take
 * TG_NUMBERS_BYTES. Numbers begin behind `base`. *n: how many there are. */
#define TG_NUMBERS_BYTES ((size_t)320 << 10)
TG_MUST_USE tg_status tg_stitch(tg_numbers **out, tg_sorter *objects, tg_sorter *touching,
                                const tg_folder *folder, size_t bytes, uint64_t base,
                                uint64_t *n, uint64_t *spilled, tg_error *err);
void tg_numbers_free(tg_numbers *t); /* may be NULL */
TG_DEFINE_AUTO_PTR(tg_numbers, tg_numbers_free)

/* What one who looks keeps, so that an object met again costs nothing. {0} at first. */
#define TG_NUMBERS_BLOCK 256 /* pairs of the file that are read together */
typedef struct tg_number_cache {
    tg_pair recent[1024]; /* by the object's lowest bits; number 0: none */
    tg_pair block[TG_NUMBERS_BLOCK];
    uint64_t at, n; /* where the block begins in the file, how many pairs of it */
} tg_number_cache;
/* TG_CORRUPT: there is no such object, or the file is not what was written. */
TG_MUST_USE tg_status tg_number_of(const tg_numbers *t, tg_number_cache *cache, uint64_t object,
                                   uint64_t *number, tg_error *err);

#endif
