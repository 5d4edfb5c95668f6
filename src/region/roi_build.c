/* Sets of regions, built one by one. All arrays grow by doubling, and every growth is charged
 * before it is made. */
#include "region/roi_build.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void tg_roi_outlines_destroy(tg_roi_outlines *o)
{
    tg_free(o->ring);
    tg_free(o->point);
    tg_free(o->xy);
    *o = (tg_roi_outlines){0};
}

void tg_roi_set_destroy(tg_roi_set *s)
{
    tg_roi_list_destroy(&s->list);
    tg_free(s->labels);
    tg_roi_outlines_destroy(&s->outlines);
    *s = (tg_roi_set){0};
}

void tg_roi_builder_auto(tg_roi_builder *b)
{
    tg_roi_set_destroy(&b->set);
    tg_text_free(&b->names);
}

void tg_roi_begin(tg_roi_builder *b, const char *format, const char *axes, const char *unit,
                  size_t limit)
{
    tg_roi_list *l = &b->set.list;

    (void)snprintf(b->set.format, sizeof b->set.format, "%s", format);
    for (l->n_axes = 0; axes[l->n_axes] != '\0'; l->n_axes++)
        l->axes[l->n_axes][0] = axes[l->n_axes];
    l->in_pixels = unit == NULL;
    (void)snprintf(l->unit, sizeof l->unit, "%s", unit == NULL ? "px" : unit);
    l->exact = l->in_pixels;
    b->limit = limit;
}

tg_status tg_roi_charge(tg_roi_builder *b, uint64_t bytes, tg_error *err)
{
    if (bytes > b->limit - b->bytes)
        return tg_fail(err, TG_OVER_BUDGET,
                       "a list of regions that takes more than %zu bytes (%" PRIu64
                       " regions so far), and no more may be used",
                       b->limit, b->set.list.n);
    b->bytes += (size_t)bytes;
    return TG_OK;
}

/* Room for `cap` items where there are n in use of `had`; what it held is given back. */
static tg_status regrow(tg_roi_builder *b, void **p, uint64_t n, uint64_t had, uint64_t cap,
                        size_t item, tg_error *err)
{
    TG_TRY(tg_roi_charge(b, cap * item, err));
    void *more = tg_calloc((size_t)cap, item);
    if (more == NULL)
        return tg_fail(err, TG_NO_MEMORY, "%" PRIu64 " regions", b->set.list.n);
    if (n > 0)
        memcpy(more, *p, (size_t)n * item);
    tg_free(*p);
    *p = more;
    b->bytes -= (size_t)(had * item);
    return TG_OK;
}

static tg_status regrow_doubles(tg_roi_builder *b, double **p, uint64_t n, uint64_t had,
                                uint64_t cap, size_t each, tg_error *err)
{
    void *q = *p;
    const tg_status st = regrow(b, &q, n, had, cap, each * sizeof(double), err);
    *p = q;
    return st;
}

static tg_status regrow_u64(tg_roi_builder *b, uint64_t **p, uint64_t n, uint64_t had,
                            uint64_t cap, tg_error *err)
{
    void *q = *p;
    const tg_status st = regrow(b, &q, n, had, cap, sizeof(uint64_t), err);
    *p = q;
    return st;
}

/* One more region than there is room for. The arrays of n + 1 items have room for cap + 1. */
static tg_status grow(tg_roi_builder *b, tg_error *err)
{
    tg_roi_list *l = &b->set.list;
    const uint64_t had = b->cap, cap = had == 0 ? 64 : 2 * had;
    const uint64_t had1 = had == 0 ? 0 : had + 1, n1 = had == 0 ? 0 : l->n + 1;

    TG_TRY(regrow_doubles(b, &l->start, l->n, had, cap, l->n_axes, err));
    TG_TRY(regrow_doubles(b, &l->length, l->n, had, cap, l->n_axes, err));
    if (l->label != NULL)
        TG_TRY(regrow_u64(b, &l->label, l->n, had, cap, err));
    if (l->name != NULL)
        TG_TRY(regrow_u64(b, &l->name, n1, had1, cap + 1, err));
    if (b->set.outlines.ring != NULL)
        TG_TRY(regrow_u64(b, &b->set.outlines.ring, n1, had1, cap + 1, err));
    b->cap = cap;
    return TG_OK;
}

/* What not every list has is there from the first region on that has it: 0 before. */
static tg_status need_u64(tg_roi_builder *b, uint64_t **p, uint64_t n, tg_error *err)
{
    if (*p != NULL)
        return TG_OK;
    return regrow_u64(b, p, 0, 0, n, err);
}

static tg_status check_edges(const tg_roi_builder *b, const tg_roi_new *r, bool *exact,
                             tg_error *err)
{
    const tg_roi_list *l = &b->set.list;

    for (uint32_t i = 0; i < l->n_axes; i++) {
        const double start = r->start[i], length = r->length[i], end = start + length;
        if (!isfinite(start) || !isfinite(length))
            return tg_fail(err, TG_CORRUPT, "%s: an edge that is no number", l->axes[i]);
        if (length < 0)
            return tg_fail(err, TG_CORRUPT, "%s: the end %.17g lies before the start %.17g",
                           l->axes[i], end, start);
        if (fabs(start) > TG_ROI_EXACT || fabs(end) > TG_ROI_EXACT)
            return tg_fail(err, TG_CORRUPT, "%s: %.17g to %.17g is beyond 2^53", l->axes[i],
                           start, end);
        *exact = *exact && start == floor(start) && length == floor(length);
    }
    return TG_OK;
}

static tg_status add_name(tg_roi_builder *b, const tg_roi_new *r, tg_error *err)
{
    if (r->name == NULL || r->name_len == 0)
        return TG_OK;
    TG_TRY(need_u64(b, &b->set.list.name, b->cap + 1, err));
    TG_TRY(tg_roi_charge(b, 2 * (uint64_t)r->name_len, err)); /* as it grows */
    tg_text_add_n(&b->names, r->name, r->name_len);
    return tg_text_status(&b->names, err);
}

tg_status tg_roi_add(tg_roi_builder *b, const tg_roi_new *r, tg_error *err)
{
    tg_roi_list *l = &b->set.list;
    bool exact = l->exact;

    TG_TRY(check_edges(b, r, &exact, err));
    if (l->n == b->cap)
        TG_TRY(grow(b, err));
    TG_TRY(add_name(b, r, err));
    if (r->label != 0)
        TG_TRY(need_u64(b, &l->label, b->cap, err));
    if (b->set.outlines.n_rings > 0)
        TG_TRY(need_u64(b, &b->set.outlines.ring, b->cap + 1, err));
    memcpy(l->start + l->n * l->n_axes, r->start, l->n_axes * sizeof(double));
    memcpy(l->length + l->n * l->n_axes, r->length, l->n_axes * sizeof(double));
    if (l->label != NULL)
        l->label[l->n] = r->label;
    l->exact = exact;
    l->n++;
    if (l->name != NULL)
        l->name[l->n] = b->names.len;
    if (b->set.outlines.ring != NULL)
        b->set.outlines.ring[l->n] = b->set.outlines.n_rings;
    return TG_OK;
}

static tg_status room_for_ring(tg_roi_builder *b, uint64_t n_points, tg_error *err)
{
    tg_roi_outlines *o = &b->set.outlines;

    if (o->n_rings == b->ring_cap) {
        const uint64_t had = b->ring_cap, cap = had == 0 ? 64 : 2 * had;
        TG_TRY(regrow_u64(b, &o->point, had == 0 ? 0 : o->n_rings + 1, had == 0 ? 0 : had + 1,
                          cap + 1, err));
        b->ring_cap = cap;
    }
    if (n_points > b->point_cap - o->n_points) {
        const uint64_t least = o->n_points + n_points, twice = 2 * b->point_cap;
        const uint64_t cap = least > twice ? least : twice;
        TG_TRY(regrow_doubles(b, &o->xy, o->n_points, b->point_cap, cap, 2, err));
        b->point_cap = cap;
    }
    return TG_OK;
}

tg_status tg_roi_add_ring(tg_roi_builder *b, const double *xy, uint64_t n_points, tg_error *err)
{
    tg_roi_outlines *o = &b->set.outlines;

    while (n_points > 1 && xy[0] == xy[2 * n_points - 2] && xy[1] == xy[2 * n_points - 1])
        n_points--;
    TG_TRY(room_for_ring(b, n_points, err));
    memcpy(o->xy + 2 * o->n_points, xy, (size_t)n_points * 2 * sizeof(double));
    o->n_points += n_points;
    o->n_rings++;
    o->point[o->n_rings] = o->n_points;
    return TG_OK;
}

tg_status tg_roi_finish(tg_roi_builder *b, tg_roi_set *out, tg_error *err)
{
    tg_roi_list *l = &b->set.list;

    if (b->cap == 0)
        TG_TRY(grow(b, err)); /* a list of none has arrays all the same */
    if (l->name != NULL) {
        tg_text_add(&b->names, "");
        TG_TRY(tg_text_status(&b->names, err));
        l->names = tg_text_steal(&b->names);
    }
    *out = b->set;
    b->set = (tg_roi_set){0};
    return TG_OK;
}

/* --- Outlines as pixels ----------------------------------------------------------------------
 */

/* Where the edges of a ring cross the row of pixel centres at cy: flip the first pixel whose
 * centre lies at or right of the crossing. An edge counts at its lower end and not at its upper
 * one, so that a vertex on the row counts once. */
static void flip_crossings(const double *xy, uint64_t n, double cy, int64_t x, uint64_t width,
                           uint8_t *row)
{
    for (uint64_t i = 0; i < n; i++) {
        const double *a = xy + 2 * i, *c = xy + 2 * (i + 1 == n ? 0 : i + 1);
        if ((a[1] <= cy) == (c[1] <= cy))
            continue;
        const double at = a[0] + (cy - a[1]) * (c[0] - a[0]) / (c[1] - a[1]);
        const double first = ceil(at - 0.5) - (double)x;
        if (first < (double)width)
            row[first <= 0 ? 0 : (uint64_t)first] ^= 1;
    }
}

void tg_roi_outline_mask(const tg_roi_outlines *o, uint64_t region, int64_t y, int64_t x,
                         uint64_t height, uint64_t width, uint8_t *dst)
{
    const bool has = o->ring != NULL && o->ring[region] < o->ring[region + 1];

    memset(dst, has ? 0 : 1, (size_t)(height * width));
    for (uint64_t i = 0; has && i < height; i++) {
        uint8_t *row = dst + i * width;
        for (uint64_t k = o->ring[region]; k < o->ring[region + 1]; k++)
            flip_crossings(o->xy + 2 * o->point[k], o->point[k + 1] - o->point[k],
                           (double)y + (double)i + 0.5, x, width, row);
        for (uint64_t k = 1; k < width; k++) /* inside from an odd crossing to the next */
            row[k] ^= row[k - 1];
    }
}
