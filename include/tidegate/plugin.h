/* tidegate/plugin.h - what a function over regions is given and gives back: the ABI of
 * `apply --plugin FILE.so`, and of functions that a program hands to tg_apply. */
#ifndef TG_PLUGIN_H
#define TG_PLUGIN_H

#include "tidegate/dtype.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a member of tg_region_call is added; a plug-in that wants a newer one is refused.
 */
#define TG_PLUGIN_VERSION 1

/* A strided block of items, slowest dimension first; strides in bytes, of any sign. */
typedef struct tg_region_view {
    void *data;
    tg_dtype dtype;
    uint32_t ndim;
    uint64_t shape[TG_MAX_NDIM];
    int64_t strides[TG_MAX_NDIM];
} tg_region_view;

/* One call. All is borrowed for its length. `in` is only read; `out` is to be filled whole (its
 * content before the call means nothing). `in` is the region grown by the halo and clipped to
 * the array, or padded: in[before : before + region] is the region itself. */
typedef struct tg_region_call {
    size_t size;  /* sizeof(tg_region_call) of the caller */
    uint64_t roi; /* position in the list, from 0 */
    uint64_t n_rois;
    const char *name; /* UTF-8, not unique */
    uint64_t label;   /* 0: the region has none */
    tg_region_view in;
    tg_region_view out;              /* data NULL, ndim 0: the operation makes a table only */
    uint64_t in_start[TG_MAX_NDIM];  /* of in, in IN's items (clipped part) */
    uint64_t out_start[TG_MAX_NDIM]; /* of out, in OUT's items */
    uint64_t before[TG_MAX_NDIM];    /* margin of in before the region, in items */
    uint64_t region[TG_MAX_NDIM];    /* the region's extent, in IN's items */
    double scale[TG_MAX_NDIM];       /* of one item, in the axis' unit; 1 where IN says none */
    /* Add a row to the output table; values: one double a column, as the operation names them.
     * Rows of a call appear in the order in which they were added, calls in list order. Returns
     * 0, or not 0 where the call must end (give that back). */
    int (*row)(void *row_user, uint64_t label, const double *values);
    void *row_user;
    char *message; /* room of 256 bytes for why it failed */
} tg_region_call;

/* 0: done. Anything else: this region failed, `message` says why. Any number of calls overlap
 * in time, in any order; each takes effect once. */
typedef int (*tg_region_fn)(const tg_region_call *call, void *user);

#ifdef __cplusplus
}
#endif
#endif
