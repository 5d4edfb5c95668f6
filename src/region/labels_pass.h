/* region/labels_pass.h - the functions that the passes of labels.c run over regions. */
#ifndef TG_REGION_LABELS_PASS_H
#define TG_REGION_LABELS_PASS_H

#include "base/sync.h"
#include "region/function.h"
#include "region/plan.h"
#include "region/stitch.h"

/* Labels of `inner` made unique: (region + 1) << 32 | label. Names and labels of the regions
 * are those of `plan`. */
typedef struct tg_gather_pass {
    tg_function f;
    tg_function *inner;
    const tg_plan *plan;
} tg_gather_pass;
void tg_gather_init(tg_gather_pass *p, tg_function *inner, const tg_plan *plan);

/* Which objects there are and which touch: those of two regions whose items are neighbours.
 * Regions must be read with a halo of 1. */
typedef struct tg_scan_pass {
    tg_function f;
    tg_sorter *objects, *touching;
    int8_t (*offset)[TG_MAX_NDIM]; /* to half of the neighbours of an item */
    uint32_t n_offsets, ndim;
    tg_mutex lock; /* guards the sorters; held for I/O */
} tg_scan_pass;
/* TG_UNSUPPORTED: too many neighbours. */
TG_MUST_USE tg_status tg_scan_init(tg_scan_pass *p, const tg_function_facts *facts,
                                   uint32_t ndim, tg_error *err);
void tg_scan_destroy(tg_scan_pass *p);

/* Objects become their numbers. */
typedef struct tg_number_pass {
    tg_function f;
    const tg_numbers *numbers;
    tg_number_cache *caches; /* one for each call at once */
    const uint8_t *failed;   /* bits of regions that are left out; NULL: none */
} tg_number_pass;
void tg_number_init(tg_number_pass *p, const tg_numbers *numbers, tg_number_cache *caches,
                    const uint8_t *failed);

#endif
