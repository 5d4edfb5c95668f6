/* region/plan_join.h - pairs of boxes that overlap: a packed tree over them, walked for 16
 * neighbours at a time, so that n boxes with h hits take O(n log n + h) where boxes are spread
 * as regions are. Knows no plan. */
#ifndef TG_REGION_PLAN_JOIN_H
#define TG_REGION_PLAN_JOIN_H

#include "base/error.h"
#include "tidegate/cancel.h"
#include "tidegate/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tg_join tg_join;

typedef struct tg_join_spec {
    uint32_t ndim;
    uint64_t n; /* below 2^32 */
    /* Starts and ends (2 x ndim) of box i; false: it is empty, and in no pair. */
    bool (*box)(void *user, uint64_t i, uint64_t *bounds);
    void *user;
} tg_join_spec;

/* Bytes that a tree of n boxes takes while it is made and after; none ends beyond `extent`. */
uint64_t tg_join_bytes(uint64_t n, uint32_t ndim, uint64_t extent);
TG_MUST_USE tg_status tg_join_new(tg_join **out, const tg_join_spec *spec, tg_error *err);
void tg_join_free(tg_join *j);

/* Every pair (k, other) whose boxes overlap, with other > k (later) or other < k: first done =
 * false and begin(k), then hit(k, other, box of other) in no special order but always the same,
 * then end(k). k comes in the order of the tree, 16 of them at a time. grow: the box of k is
 * first grown by so much per dimension, on both sides. hit returns false: no more of this k. */
typedef struct tg_join_walk {
    bool later;
    const uint64_t *grow; /* ndim, or NULL */
    void *user;
    tg_status (*begin)(void *user, uint32_t lane, uint32_t k, const uint64_t *bounds,
                       tg_error *err);
    bool (*hit)(void *user, uint32_t lane, uint32_t k, uint32_t other, const uint64_t *bounds);
    tg_status (*end)(void *user, uint32_t lane, uint32_t k, tg_error *err);
} tg_join_walk;
enum { TG_JOIN_LANES = 16 };
TG_MUST_USE tg_status tg_join_run(const tg_join *j, const tg_join_walk *walk,
                                  const tg_cancel *cancel, tg_error *err);

#endif
