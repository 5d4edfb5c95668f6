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
    tg_region_view out; /* data NULL, ndim 0: the operation makes a table only */
    /* Of in, in IN's items: with `before` added the region's. Before the array (padded): as a
     * number below 0 in two's complement. */
    uint64_t in_start[TG_MAX_NDIM];
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

/* --- A plug-in: a shared object with one of these in it
 * ---------------------------------------
 *
 *     const tg_plugin tg_plugin_main = {TG_PLUGIN_MAGIC, TG_PLUGIN_VERSION, NULL, call, NULL,
 * NULL};
 *
 * `--plugin FILE.so` takes the object named tg_plugin_main, `--plugin FILE.so:SYM` the one
 * named SYM: a file may hold several. It needs this header and links nothing of ours
 * (examples/plugin_unsharp.c). */
#define TG_PLUGIN_MAGIC UINT64_C(0x6e69676c70646774) /* "tgdplgin" */

/* What IN is, and what the plug-in makes of it. Borrowed for the length of open. */
typedef struct tg_plugin_setup {
    size_t size; /* sizeof(tg_plugin_setup) of the caller */
    tg_dtype in_dtype;
    uint32_t ndim;
    uint64_t in_shape[TG_MAX_NDIM];
    const char *axes[TG_MAX_NDIM]; /* "" where IN has no name for it */
    double scale[TG_MAX_NDIM];     /* of one item, in the axis' unit; 1 where IN says none */
    uint32_t jobs;                 /* most calls at once */
    /* To be set; what is there is the default. */
    tg_dtype out_dtype;         /* IN's, or what --dtype says: of tg_region_call.out */
    uint64_t halo[TG_MAX_NDIM]; /* 0: the least that a call must see around its region */
    uint64_t scratch_bytes;     /* 0: the most that one call takes beyond in and out */
    char *message;              /* room of 256 bytes for why it failed */
} tg_plugin_setup;

typedef struct tg_plugin {
    uint64_t magic;   /* TG_PLUGIN_MAGIC */
    uint32_t version; /* TG_PLUGIN_VERSION that it was built with; a newer one is refused */
    /* Once, before the first call. NULL: nothing to set. *state is what the others are given as
     * `user`. 0, or not 0: the run is refused, `message` says why. */
    int (*open)(tg_plugin_setup *setup, void **state);
    tg_region_fn call;
    /* Policy `user`: fold `patch`, what region `roi` made, into `base`, what is there so far
     * (at first OUT's old content, or fill value). Both have OUT's type and one shape. In the
     * order of the list for each pixel; calls for different chunks overlap. 0, or not 0: the
     * run ends. NULL: there is none. */
    int (*fold)(const tg_region_view *base, const tg_region_view *patch, uint64_t roi,
                void *user);
    void (*close)(void *state); /* once, after the last call, if open has succeeded; or NULL */
} tg_plugin;

#ifdef __cplusplus
}
#endif
#endif
