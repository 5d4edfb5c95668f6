/* Lists of regions: given back, and made boxes of pixels by a rule. */
#include "region/rois.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void tg_roi_list_destroy(tg_roi_list *l)
{
    tg_free(l->start);
    tg_free(l->length);
    tg_free(l->label);
    tg_free(l->name);
    tg_free(l->names);
    *l = (tg_roi_list){0};
}

/* What counts as a whole pixel: a hundredth, as ngio has it, or as near as the source's float32
 * can come (which ngio's hundredth is not any more beyond some 400,000 pixels). */
static double tolerance(double value, double scale)
{
    const float size = (float)fabs(value);
    const double ulp = (double)nextafterf(size, INFINITY) - (double)size;
    const double least = 2 * ulp / scale;

    return least > 1e-2 ? (least < 0.5 ? least : 0.5) : 1e-2;
}

static double snap(double value, double scale, bool *whole)
{
    const double v = value / scale, near = rint(v);

    if (fabs(v - near) < tolerance(value, scale))
        return near;
    *whole = false;
    return v;
}

typedef struct edges {
    double from, to; /* in pixels, whole */
    bool whole;      /* the edges were, within the tolerance */
} edges;

/* rint() rounds halves to even, as Python does (the rounding mode is never changed). */
static edges apply_rule(tg_px_rule rule, double start, double length, double scale)
{
    edges e = {.whole = true};
    const double s = snap(start, scale, &e.whole), l = snap(length, scale, &e.whole);
    const double raw = start / scale, raw_end = (start + length) / scale;

    switch (rule) {
    case TG_PX_FRACTAL1:
        e.from = rint(raw);
        e.to = rint(raw_end);
        break;
    case TG_PX_NEAREST:
        e.from = floor(raw + 0.5);
        e.to = floor(raw_end + 0.5);
        break;
    case TG_PX_INNER:
        e.from = ceil(s);
        e.to = floor(s + l);
        break;
    case TG_PX_NGIO:
    case TG_PX_OUTER:
        e.from = floor(s);
        e.to = ceil(s + l);
        break;
    }
    return e;
}

typedef struct box_facts {
    bool not_whole, cut, empty;
} box_facts;

static tg_status one_axis(const tg_roi_list *l, uint64_t roi, uint32_t axis, double scale,
                          uint64_t extent, tg_px_rule rule, uint64_t *from, uint64_t *to,
                          box_facts *facts, tg_error *err)
{
    const double start = l->start[roi * l->n_axes + axis];
    const double length = l->length[roi * l->n_axes + axis];

    if (!isfinite(start) || !isfinite(length))
        return tg_fail(err, TG_INVALID, "region %" PRIu64 ", %s: an edge that is no number",
                       roi, l->axes[axis]);
    const edges e = apply_rule(rule, start, length, l->in_pixels ? 1 : scale);
    if (rule == TG_PX_FRACTAL1 && e.from < 0)
        return tg_fail(err, TG_INVALID,
                       "region %" PRIu64 ", %s: begins at %.17g, below 0 (rule fractal1)", roi,
                       l->axes[axis], start);
    const double end = (double)extent;
    const double a = e.from < 0 ? 0 : e.from > end ? end : e.from;
    const double b = e.to > end ? end : e.to < a ? a : e.to;
    facts->not_whole = facts->not_whole || !e.whole;
    facts->cut = facts->cut || e.from < 0 || e.to > end;
    facts->empty = facts->empty || !(b > a);
    *from = (uint64_t)a;
    *to = (uint64_t)b;
    return TG_OK;
}

/* The array's dimension of each axis of the list; UINT32_MAX: it has none. */
static void find_axes(const tg_roi_list *l, const tg_shape *array, const char *const *axes,
                      uint32_t *dim)
{
    for (uint32_t i = 0; i < l->n_axes; i++) {
        dim[i] = UINT32_MAX;
        for (uint32_t k = 0; k < array->ndim; k++)
            if (axes[k] != NULL && strcmp(axes[k], l->axes[i]) == 0)
                dim[i] = k;
    }
}

/* Tables have a z also of images that have none: the first plane is meant. */
static tg_status check_lacking(const tg_roi_list *l, uint64_t roi, uint32_t axis, tg_error *err)
{
    if (l->start[roi * l->n_axes + axis] == 0)
        return TG_OK;
    return tg_fail(err, TG_INVALID,
                   "region %" PRIu64 " begins at %s %.17g, and the array has no axis %s", roi,
                   l->axes[axis], l->start[roi * l->n_axes + axis], l->axes[axis]);
}

static tg_status one_region(const tg_roi_list *l, uint64_t roi, const tg_shape *array,
                            const uint32_t *dim, const double *scale, tg_px_rule rule,
                            uint64_t *bounds, box_facts *facts, tg_error *err)
{
    uint64_t *from = bounds, *to = bounds + array->ndim;

    for (uint32_t k = 0; k < array->ndim; k++) {
        from[k] = 0;
        to[k] = array->n[k];
    }
    for (uint32_t i = 0; i < l->n_axes; i++) {
        const uint32_t k = dim[i];
        if (k == UINT32_MAX)
            TG_TRY(check_lacking(l, roi, i, err));
        else
            TG_TRY(one_axis(l, roi, i, scale == NULL ? 1 : scale[k], array->n[k], rule,
                            &from[k], &to[k], facts, err));
    }
    return TG_OK;
}

tg_status tg_rois_boxes(const tg_roi_list *l, const tg_shape *array, const char *const *axes,
                        const double *scale, tg_px_rule rule, uint64_t *bounds,
                        tg_roi_rounding *rounding, tg_error *err)
{
    tg_roi_rounding r = {.first_not_snapped = UINT64_MAX};
    uint32_t dim[TG_ROI_MAX_AXES];

    find_axes(l, array, axes, dim);
    for (uint64_t i = 0; i < l->n; i++) {
        box_facts facts = {0};
        TG_TRY(one_region(l, i, array, dim, scale, rule, bounds + i * 2 * array->ndim, &facts,
                          err));
        if (facts.not_whole && r.not_snapped++ == 0)
            r.first_not_snapped = i;
        r.clamped += facts.cut;
        r.empty += facts.empty;
    }
    if (rounding != NULL)
        *rounding = r;
    return TG_OK;
}

static const char *const rule_names[] = {"ngio", "fractal1", "nearest", "inner", "outer"};

tg_status tg_px_rule_parse(const char *name, tg_px_rule *out, tg_error *err)
{
    for (size_t i = 0; i < sizeof rule_names / sizeof rule_names[0]; i++)
        if (strcmp(name, rule_names[i]) == 0) {
            *out = (tg_px_rule)i;
            return TG_OK;
        }
    return tg_fail(err, TG_INVALID,
                   "px rule '%.40s': want ngio, fractal1, nearest, inner or outer", name);
}
