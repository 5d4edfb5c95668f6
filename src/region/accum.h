/* region/accum.h - what the results of several regions become in one chunk of OUT: the policies
 * as code. Pure: knows no plan, no thread, no file.
 *
 * An accumulator is one block of bytes for one (inner) chunk: a value for each item and, behind
 * all values, a note for each item (nothing, "something was folded", how many, the sum of
 * weights). Accumulators of max, min, or, and, last, first, error, nonzero, mask and user hold
 * OUT's own items, so that what no region writes is there from the start. Those of sum, mean
 * and blend are wider, and are laid over OUT's items at the end. */
#ifndef TG_REGION_ACCUM_H
#define TG_REGION_ACCUM_H

#include "nd/nd.h"
#include "region/plan.h"

typedef struct tg_accum {
    tg_policy policy;
    tg_dtype dtype; /* of OUT */
    tg_shape chunk;
    uint64_t items;
    size_t value_bytes, note_bytes; /* of one item */
    bool wide;                      /* values are not OUT's items */
    uint64_t halo[TG_MAX_NDIM];     /* over which the weights of blend fall, in OUT's items */
    size_t bytes;                   /* of one accumulator */
} tg_accum;

/* halo may be NULL (none). TG_INVALID: the policy has no meaning for the type. */
TG_MUST_USE tg_status tg_accum_init(tg_accum *a, tg_policy policy, tg_dtype dtype,
                                    const tg_shape *chunk, const uint64_t *halo, tg_error *err);
/* Nothing was folded yet. The values of one that is not wide are the caller's to fill, at the
 * start of acc, with what is there before. */
void tg_accum_clear(const tg_accum *a, uint8_t *acc);

/* The result of one region, of OUT's dtype. */
typedef struct tg_patch {
    const uint8_t *data; /* of box.start */
    tg_box box;          /* all that the region writes, in OUT */
    int64_t strides[TG_MAX_NDIM];
    const uint8_t *keep; /* policy mask: a byte for each item; 0: not the region's */
    int64_t keep_strides[TG_MAX_NDIM];
} tg_patch;

/* Fold the items of `part`, which lies in the patch's box and in `chunk`, the box of the
 * accumulator. Not for policies user and labels. */
void tg_accum_fold(const tg_accum *a, uint8_t *acc, const tg_box *chunk, const tg_patch *patch,
                   const tg_box *part);
/* Lay what was folded over the chunk's items (a wide one; else acc begins with them). Adds to
 * *saturated the items that did not fit OUT's type. */
void tg_accum_result(const tg_accum *a, const uint8_t *acc, uint8_t *items,
                     uint64_t *saturated);

/* n items of one type to another, in one buffer with room for either; floats to integers round
 * half to even, what does not fit saturates (NaN: 0) and is counted. Types that are equal are
 * left alone; complex and raw go to nothing else: TG_INVALID. */
TG_MUST_USE tg_status tg_cast_check(tg_dtype from, tg_dtype to, tg_error *err);
void tg_cast_items(uint8_t *data, uint64_t n, tg_dtype from, tg_dtype to, uint64_t *saturated);

#endif
