/* region/plan.h - the plan of a run: which pixels each region reads and writes, which units it
 * touches, in which order and by which part. Made once, stored as one file, mapped by every
 * process (docs/formats/plan.md). Pure but for that file. */
#ifndef TG_REGION_PLAN_H
#define TG_REGION_PLAN_H

#include "nd/nd.h"
#include "region/function.h"
#include "tidegate/cancel.h"

typedef enum tg_policy {
    TG_POLICY_ERROR,
    TG_POLICY_LAST,
    TG_POLICY_FIRST,
    TG_POLICY_MAX,
    TG_POLICY_MIN,
    TG_POLICY_OR,
    TG_POLICY_AND,
    TG_POLICY_SUM,
    TG_POLICY_MEAN,
    TG_POLICY_BLEND,
    TG_POLICY_NONZERO,
    TG_POLICY_MASK,
    TG_POLICY_LABELS,
    TG_POLICY_USER
} tg_policy;
TG_MUST_USE tg_status tg_policy_parse(const char *name, tg_policy *out, tg_error *err);
const char *tg_policy_name(tg_policy p);

/* Does the result depend on the order in which contributions arrive, so that they must be
 * folded in list order? (last and first do not: their boxes are clipped when planned.) */
bool tg_policy_ordered(tg_policy p, tg_dtype out_dtype);

/* Positions below: regions by list order, units by Morton order of their index (ties: C order).
 * All arrays lie in the mapped plan. */
typedef struct tg_plan tg_plan;

typedef struct tg_plan_region {
    tg_box read;   /* in IN, halo included, clipped */
    tg_box region; /* in IN */
    tg_box write;  /* in OUT; empty: never called */
    uint64_t label;
    const char *name;
    uint32_t part; /* that calls it */
    /* Rectangles of `write` that it wins (last, first), in OUT; 0 pieces: all of write. A
     * region that wins nothing is called all the same. */
    const tg_box *pieces;
    uint32_t n_pieces;
    bool wins_nothing;
} tg_plan_region;

#endif
