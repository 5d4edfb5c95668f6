/* region/rois.h - a list of regions of interest, as read: in whatever unit the file has, in its
 * order. Becomes pixel boxes by tg_rois_boxes(). Knows no array, no plan. */
#ifndef TG_REGION_ROIS_H
#define TG_REGION_ROIS_H

#include "base/mem.h"
#include "nd/nd.h"

/* Axes that a list speaks of, slowest first; others of the array are taken whole. */
#define TG_ROI_MAX_AXES 8

typedef struct tg_roi_list {
    uint32_t n_axes;
    char axes[TG_ROI_MAX_AXES][16]; /* "t", "z", "y", "x", ... */
    bool in_pixels;                 /* false: lengths, in `unit` */
    char unit[32];                  /* "micrometer", "second" per axis is not told apart */
    uint64_t n;
    double *start;   /* n x n_axes */
    double *length;  /* n x n_axes; start + length is the exclusive end */
    bool exact;      /* all are whole pixels below 2^53: no rounding */
    uint64_t *label; /* n, or NULL: none has one */
    uint64_t *name;  /* n + 1 offsets into names, or NULL: named by position */
    char *names;
} tg_roi_list;

void tg_roi_list_destroy(tg_roi_list *l);

/* Outlines, for lists of GeoJSON and ImageJ; x and y in pixels, of corners: the pixel (0, 0)
 * covers 0..1. {0}: none. */
typedef struct tg_roi_outlines {
    uint64_t n_rings, n_points;
    uint64_t *ring;  /* n + 1: the rings of region i are [ring[i], ring[i + 1]) */
    uint64_t *point; /* n_rings + 1: the points of ring k; the last is not the first again */
    double *xy;      /* 2 x n_points */
} tg_roi_outlines;

/* Pixels of a region: dst (height x width bytes, C order) becomes 1 where the pixel's centre
 * lies inside the region's outline by the even-odd rule, else 0. The corner of dst is the pixel
 * (y, x). A region without an outline is all 1. */
void tg_roi_outline_mask(const tg_roi_outlines *o, uint64_t region, int64_t y, int64_t x,
                         uint64_t height, uint64_t width, uint8_t *dst);

/* How lengths become pixels (regions.md 3.1). */
typedef enum tg_px_rule {
    TG_PX_NGIO, /* default: snap to whole within tolerance, then floor and ceil, clamp */
    TG_PX_FRACTAL1,
    TG_PX_NEAREST,
    TG_PX_INNER,
    TG_PX_OUTER
} tg_px_rule;
TG_MUST_USE tg_status tg_px_rule_parse(const char *name, tg_px_rule *out, tg_error *err);

typedef struct tg_roi_rounding { /* what the rule did */
    uint64_t not_snapped;        /* whose edges were no whole pixels within the tolerance */
    uint64_t clamped;            /* cut at the array's border */
    uint64_t empty;              /* nothing is left: never called */
    uint64_t first_not_snapped;  /* position, UINT64_MAX: none */
} tg_roi_rounding;

/* Boxes of n regions of an array: `bounds` gets, per region, ndim starts and then ndim
 * exclusive ends. axes and scale (pixel size in the list's unit) are the array's, ndim each.
 * scale may be NULL: all 1. TG_INVALID: an axis of the list that the array lacks (unless all
 * begin at 0 on it: tables have a z of images that have none), an edge that is no number,
 * negative under fractal1. */
TG_MUST_USE tg_status tg_rois_boxes(const tg_roi_list *l, const tg_shape *array,
                                    const char *const *axes, const double *scale,
                                    tg_px_rule rule, uint64_t *bounds,
                                    tg_roi_rounding *rounding, tg_error *err);

#endif
