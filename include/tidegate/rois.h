/* tidegate/rois.h - lists of regions of interest: read from what people have, looked at, made
 * pixels of an array, written for others. The formats are in docs/formats/regions.md. */
#ifndef TG_ROIS_H
#define TG_ROIS_H

#include "tidegate/cancel.h"
#include "tidegate/runtime.h"
#include "tidegate/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TG_ROIS_AXES 8

/* A list, whole in memory, which is the runtime's until it is freed. Threads: read-only after
 * open, so any number may look; write and free as one. */
typedef struct tg_rois tg_rois;

typedef struct tg_rois_options {
    size_t size; /* sizeof(tg_rois_options) */
    /* "FILE.json" "FILE.csv" "FILE.geojson" "FILE.zip" "FILE.roi" "table:NAME"
     * "grid:SIZE[/STEP]" "labels:PATH" */
    const char *rois;
    /* The image: its group, or an array of it, in a store that outlives the list. store NULL:
     * none; then neither tables, grids and label images, nor pixels of lengths. */
    tg_store *store;
    const char *image;
    const char *px_rule; /* "ngio" (NULL), "fractal1", "nearest", "inner", "outer" */
    /* The list becomes whole pixels of the image's array, by the rule; axes beside y and x that
     * all regions take whole are left out. */
    bool to_pixels;
} tg_rois_options;

/* TG_NOT_FOUND: no such file, table or image; TG_CORRUPT: what it holds is no list of regions,
 * or could mean two things; TG_UNSUPPORTED: a form that is not read; TG_OVER_BUDGET: it does
 * not fit what the runtime has free. */
TG_API TG_MUST_USE tg_status tg_rois_open(tg_runtime *rt, const tg_rois_options *options,
                                          tg_rois **out, const tg_cancel *cancel,
                                          tg_error *err);
TG_API void tg_rois_free(tg_rois *r); /* may be NULL */

typedef struct tg_rois_info {
    size_t size; /* sizeof(tg_rois_info), set by the caller */
    uint64_t n;
    uint32_t n_axes;
    const char *axis[TG_ROIS_AXES]; /* slowest first; borrowed from the list, as all below */
    const char *unit;               /* "px", or of lengths ("micrometer"; t is in seconds) */
    const char *format;             /* "csv", "geojson", "imagej", "json", "table", ... */
    const char *labels;             /* the label image whose objects the regions are, or NULL */
    const char *array;              /* path of the image's array, or NULL: no image was named */
    uint32_t ndim;                  /* of that array */
    /* What the rule did, or would do, with that array: regions whose edges are no whole pixels
     * within the tolerance (and the first of them), that are cut at the border, that are empty.
     */
    uint64_t not_snapped, first_not_snapped, clamped, empty;
} tg_rois_info;
TG_API TG_MUST_USE tg_status tg_rois_get_info(const tg_rois *r, tg_rois_info *info,
                                              tg_error *err);

typedef struct tg_rois_region {
    size_t size;      /* sizeof(tg_rois_region), set by the caller */
    const char *name; /* name_len bytes, not terminated; borrowed; NULL: none */
    size_t name_len;
    uint64_t label; /* 0: none */
    double start[TG_ROIS_AXES], end[TG_ROIS_AXES];
} tg_rois_region;
TG_API TG_MUST_USE tg_status tg_rois_get(const tg_rois *r, uint64_t i, tg_rois_region *region,
                                         tg_error *err);

typedef struct tg_rois_write_options {
    size_t size; /* sizeof(tg_rois_write_options) */
    /* "FILE.json", "FILE.csv", "FILE.geojson", or "table:NAME" below the image that the list
     * was opened with, whose store must have been opened for writing. */
    const char *to;
    const char *backend; /* of a table: "anndata" (NULL), "csv", "json" */
    bool overwrite;      /* replace a file or table of this name */
} tg_rois_write_options;
/* TG_EXISTS: it is there; TG_UNSUPPORTED: axes, unit or boxes that the format has no form for.
 */
TG_API TG_MUST_USE tg_status tg_rois_write(const tg_rois *r,
                                           const tg_rois_write_options *options,
                                           const tg_cancel *cancel, tg_error *err);

#ifdef __cplusplus
}
#endif
#endif
