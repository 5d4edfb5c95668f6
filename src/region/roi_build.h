/* region/roi_build.h - a tg_roi_set that grows region by region, within a limit of bytes. */
#ifndef TG_REGION_ROI_BUILD_H
#define TG_REGION_ROI_BUILD_H

#include "region/roi_read.h"

/* Numbers of regions below this are exact in doubles. */
#define TG_ROI_EXACT 9007199254740992.0 /* 2^53 */

typedef struct tg_roi_builder {
    tg_roi_set set;
    uint64_t cap, ring_cap, point_cap; /* regions, rings, points that there is room for */
    tg_text names;
    size_t bytes, limit;
} tg_roi_builder;

void tg_roi_builder_auto(tg_roi_builder *b);

/* axes: one letter each ("zyx"), slowest first. unit NULL: pixels. */
void tg_roi_begin(tg_roi_builder *b, const char *format, const char *axes, const char *unit,
                  size_t limit);

typedef struct tg_roi_new {
    const double *start, *length; /* one an axis */
    const char *name;             /* NULL: none */
    size_t name_len;
    uint64_t label; /* 0: none */
} tg_roi_new;
/* TG_CORRUPT: a number that is none, an end before its start, beyond 2^53. */
TG_MUST_USE tg_status tg_roi_add(tg_roi_builder *b, const tg_roi_new *r, tg_error *err);
/* A ring of the region that is added next. Points that repeat the first at the end are cut. */
TG_MUST_USE tg_status tg_roi_add_ring(tg_roi_builder *b, const double *xy, uint64_t n_points,
                                      tg_error *err);
/* Charge `bytes` to the limit, or TG_OVER_BUDGET. */
TG_MUST_USE tg_status tg_roi_charge(tg_roi_builder *b, uint64_t bytes, tg_error *err);
/* The set, whole; b is empty. */
TG_MUST_USE tg_status tg_roi_finish(tg_roi_builder *b, tg_roi_set *out, tg_error *err);

#endif
