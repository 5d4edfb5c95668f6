/* region/mask.h - policy mask: which pixels of its box are a region's own, those of its object
 * in a label image, or those inside its outline. */
#ifndef TG_REGION_MASK_H
#define TG_REGION_MASK_H

#include "region/plan.h"
#include "zarr/array.h"

/* labels: path of a label image in the store; NULL: outlines are meant, which are the plan's.
 * Of the facts IN, OUT, its steps and axes are looked at. TG_INVALID, with both numbers: the
 * label image is not as long as IN, OUT is smaller than IN; IN has no axes y and x. */
TG_MUST_USE tg_status tg_mask_open(tg_mask **out, const tg_plan_facts *f, tg_store *store,
                                   const char *labels, const tg_cancel *cancel, tg_error *err);
void tg_mask_free(tg_mask *m); /* may be NULL */

/* The label image and its path; NULL: there is none. */
const tg_array *tg_mask_array(const tg_mask *m);
const char *tg_mask_path(const tg_mask *m);

/* Bytes that tg_mask_fill() takes for a box of this shape, at most; they are the caller's to
 * reserve. m NULL: none. */
uint64_t tg_mask_bytes(const tg_mask *m, const tg_shape *write);
/* keep: a byte for each item that region k writes, C order: 1 its own, 0 not. An item is its
 * own where the label image has its label (a region without one: any but 0). Any thread. */
TG_MUST_USE tg_status tg_mask_fill(const tg_mask *m, const tg_plan *plan, uint64_t k,
                                   const tg_plan_region *r, uint8_t *keep,
                                   const tg_cancel *cancel, tg_error *err);

#endif
