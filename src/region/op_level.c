/* Thresholds found from the region itself: otsu (as skimage.filters.threshold_otsu) and
 * percentile (as numpy.percentile, linear). Result: 1 where an item is above it, else 0. */
#include "region/op.h"
#include "region/select.h"

#include <math.h>
#include <string.h>

/* More distinct whole numbers than this are put into `nbins` bins, as floats are. */
#define MOST_LEVELS 65536

/* --- Looking at the region's items --- */

typedef void (*see_fn)(void *user, const double *v, size_t n);

static tg_status see_items(const tg_region_call *c, see_fn see, void *user,
                           const tg_cancel *cancel, tg_error *err)
{
    tg_rows r;
    double v[TG_OP_BLOCK];
    int64_t step = tg_view_step(&c->in);
    tg_rows_of(&r, c->in.ndim, c->region);
    if (!r.any)
        return TG_OK;
    do {
        const char *row = tg_rows_at(&r, &c->in, c->before);
        for (size_t at = 0; at < r.length; at += TG_OP_BLOCK) {
            size_t m = r.length - at < TG_OP_BLOCK ? r.length - at : TG_OP_BLOCK;
            tg_items_load(v, c->in.dtype, row + (int64_t)at * step, step, m);
            see(user, v, m);
        }
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

typedef struct range {
    double low, high;
    uint64_t n, n_nan;
} range;

static void see_range(void *user, const double *v, size_t n)
{
    range *r = user;
    for (size_t i = 0; i < n; i++) {
        r->low = v[i] < r->low ? v[i] : r->low;
        r->high = v[i] > r->high ? v[i] : r->high;
        r->n_nan += isnan(v[i]) != 0;
    }
    r->n += n;
}

/* --- The result --- */

static tg_status mark_above(const tg_region_call *c, double level, const tg_cancel *cancel,
                            tg_error *err)
{
    uint64_t offset[TG_MAX_NDIM];
    tg_rows r;
    double v[TG_OP_BLOCK];
    int64_t from = tg_view_step(&c->in), to = tg_view_step(&c->out);
    tg_call_offset(c, offset);
    tg_rows_of(&r, c->out.ndim, c->out.shape);
    if (!r.any)
        return TG_OK;
    do {
        const char *src = tg_rows_at(&r, &c->in, offset);
        char *dst = tg_rows_at(&r, &c->out, NULL);
        for (size_t at = 0; at < r.length; at += TG_OP_BLOCK) {
            size_t m = r.length - at < TG_OP_BLOCK ? r.length - at : TG_OP_BLOCK;
            tg_items_load(v, c->in.dtype, src + (int64_t)at * from, from, m);
            for (size_t i = 0; i < m; i++)
                v[i] = v[i] > level;
            tg_items_store(c->out.dtype, dst + (int64_t)at * to, to, v, m);
        }
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

/* --- otsu --- */

typedef struct histogram {
    double low, high;
    bool whole; /* a bin a whole number */
    size_t n;
    float *count; /* the reference sums its weights in single precision */
} histogram;

static void count_floats(histogram *h, const double *v, size_t n)
{
    double width = (h->high - h->low) / (double)h->n;
    for (size_t i = 0; i < n; i++) {
        if (isnan(v[i]))
            continue;
        double at = (v[i] - h->low) / (h->high - h->low) * (double)h->n;
        size_t bin = at >= (double)h->n ? h->n - 1 : (size_t)at;
        /* An item on an edge belongs to the bin above it, whatever the division rounds to. */
        if (bin > 0 && v[i] < h->low + (double)bin * width)
            bin--;
        else if (bin + 1 < h->n && v[i] >= h->low + (double)(bin + 1) * width)
            bin++;
        h->count[bin]++;
    }
}

static void see_histogram(void *user, const double *v, size_t n)
{
    histogram *h = user;
    if (!h->whole) {
        count_floats(h, v, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        h->count[(size_t)(v[i] - h->low)]++;
}

static double bin_center(const histogram *h, size_t i)
{
    double width = (h->high - h->low) / (double)h->n;
    if (h->whole)
        return h->low + (double)i;
    return (h->low + (double)i * width + (h->low + (double)(i + 1) * width)) / 2;
}

/* The bin after which the variance between the two classes is greatest; the first of equals. */
static double otsu_of(const histogram *h)
{
    double total_moment = 0, moment = 0, best = -1, level = bin_center(h, 0);
    float total = 0, below = 0;
    for (size_t i = 0; i < h->n; i++) {
        total += h->count[i];
        total_moment += (double)h->count[i] * bin_center(h, i);
    }
    for (size_t i = 0; i + 1 < h->n; i++) {
        below += h->count[i];
        moment += (double)h->count[i] * bin_center(h, i);
        float above = total - below;
        double apart = moment / (double)below - (total_moment - moment) / (double)above;
        double variance = (double)(below * above) * apart * apart;
        if (variance > best) { /* false for NaN: an empty class */
            best = variance;
            level = bin_center(h, i);
        }
    }
    return level;
}

static tg_status setup_otsu(tg_op *op, tg_op_text *t, const tg_function_env *env, tg_error *err)
{
    double bins = 256;
    (void)env;
    TG_TRY(tg_op_need_numbers(op, err));
    op->f.facts.out_dtype = (tg_dtype){TG_DT_UINT, 1};
    TG_TRY(tg_op_number(t, "nbins", &bins, NULL, err));
    if (!(bins >= 2 && bins <= MOST_LEVELS && bins == floor(bins)))
        return tg_fail(err, TG_INVALID, "operation 'otsu': nbins got %g, want 2 to %d", bins,
                       MOST_LEVELS);
    op->size[0] = (uint64_t)bins;
    return TG_OK;
}

static uint64_t scratch_otsu(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    (void)in, (void)out;
    return sizeof(float) * (op->in_dtype.kind == TG_DT_FLOAT ? op->size[0] : MOST_LEVELS);
}

static tg_status call_otsu(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                           tg_error *err)
{
    range r = {INFINITY, -INFINITY, 0, 0};
    TG_TRY(see_items(c, see_range, &r, cancel, err));
    if (!(r.low < r.high)) /* all equal: nothing is above */
        return mark_above(c, r.low, cancel, err);
    if (isinf(r.low) || isinf(r.high))
        return tg_fail(err, TG_INVALID, "otsu of infinite values");
    histogram h = {.low = r.low, .high = r.high, .n = (size_t)op->size[0]};
    h.whole = c->in.dtype.kind != TG_DT_FLOAT && r.high - r.low < MOST_LEVELS;
    if (h.whole)
        h.n = (size_t)(r.high - r.low) + 1;
    TG_AUTO(tg_mem_ptr) room = tg_calloc(h.n, sizeof *h.count);
    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a histogram of %zu bins", h.n);
    h.count = room;
    TG_TRY(see_items(c, see_histogram, &h, cancel, err));
    return mark_above(c, otsu_of(&h), cancel, err);
}

/* --- percentile --- */

static tg_status setup_percentile(tg_op *op, tg_op_text *t, const tg_function_env *env,
                                  tg_error *err)
{
    bool given = false;
    (void)env;
    TG_TRY(tg_op_need_numbers(op, err));
    op->f.facts.out_dtype = (tg_dtype){TG_DT_UINT, 1};
    TG_TRY(tg_op_number(t, "q", &op->value, &given, err));
    if (!given || !(op->value >= 0 && op->value <= 100))
        return tg_fail(err, TG_INVALID, "operation 'percentile' wants q=NUMBER from 0 to 100");
    return TG_OK;
}

static uint64_t scratch_percentile(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    uint64_t n = 0;
    (void)op, (void)out;
    if (tg_shape_items(in, &n, NULL) != TG_OK || n > UINT64_MAX / sizeof(double))
        return UINT64_MAX;
    return n * sizeof(double);
}

typedef struct gathered {
    double *item;
    size_t n;
} gathered;

static void see_gather(void *user, const double *v, size_t n)
{
    gathered *g = user;
    memcpy(g->item + g->n, v, n * sizeof *v);
    g->n += n;
}

#define ITSELF(x) (x)
TG_DEFINE_SELECT(select_kth, double, double, ITSELF)

static double between(double a, double b, double t)
{
    return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t); /* as numpy does */
}

static double percentile_of(double *v, size_t n, double q)
{
    double at = q / 100 * (double)(n - 1);
    size_t k = (size_t)at;
    double t = at - (double)k;
    select_kth(v, n, k);
    double a = v[k], b = a;
    if (k + 1 < n) {
        b = v[k + 1];
        for (size_t i = k + 2; i < n; i++)
            b = v[i] < b ? v[i] : b;
    }
    return between(a, b, t);
}

/* --- Small whole numbers: how often each occurs says which is the k-th --- */

#define N_SMALL 65536

typedef struct small_counts {
    uint32_t *count; /* of the number i + least */
    double least;
} small_counts;

static void see_small(void *user, const double *v, size_t n)
{
    const small_counts *s = user;
    const double least = s->least;
    uint32_t *count = s->count;
    for (size_t i = 0; i < n; i++)
        count[(size_t)(int64_t)(v[i] - least)]++;
}

/* The k-th, and the next: itself where there is more than one of it, or no other. */
static double small_percentile(const small_counts *s, uint64_t n, double q)
{
    const double at = q / 100 * (double)(n - 1);
    const uint64_t k = (uint64_t)at;
    uint64_t before = 0;
    size_t i = 0, next;
    while (before + s->count[i] <= k)
        before += s->count[i++];
    next = i;
    if (before + s->count[i] == k + 1 && k + 1 < n)
        for (next++; s->count[next] == 0;)
            next++;
    return between(s->least + (double)i, s->least + (double)next, at - (double)k);
}

static bool is_small(tg_dtype t, uint64_t n)
{
    return t.kind != TG_DT_FLOAT && t.size <= 2 && n >= N_SMALL && n <= UINT32_MAX;
}

static tg_status call_small_percentile(const tg_op *op, const tg_region_call *c, uint64_t n,
                                       void *room, const tg_cancel *cancel, tg_error *err)
{
    small_counts s = {room, c->in.dtype.kind == TG_DT_INT ? -N_SMALL / 2 : 0};
    memset(room, 0, N_SMALL * sizeof *s.count);
    TG_TRY(see_items(c, see_small, &s, cancel, err));
    return mark_above(c, small_percentile(&s, n, op->value), cancel, err);
}

static tg_status call_percentile(const tg_op *op, const tg_region_call *c,
                                 const tg_cancel *cancel, tg_error *err)
{
    uint64_t n = 1;
    range r = {INFINITY, -INFINITY, 0, 0};
    for (uint32_t d = 0; d < c->in.ndim; d++)
        n *= c->region[d];
    if (n == 0)
        return TG_OK;
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array((size_t)n, sizeof(double));
    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the %zu items of a region", (size_t)n);
    if (is_small(c->in.dtype, n))
        return call_small_percentile(op, c, n, room, cancel, err);
    gathered g = {room, 0};
    TG_TRY(see_items(c, see_gather, &g, cancel, err));
    see_range(&r, g.item, g.n);
    if (r.n_nan > 0) /* numpy's answer is NaN, and nothing is above NaN */
        return mark_above(c, (double)NAN, cancel, err);
    return mark_above(c, percentile_of(g.item, g.n, op->value), cancel, err);
}

const tg_op_kind tg_ops_level[] = {
    {"otsu", "nbins", setup_otsu, call_otsu, scratch_otsu},
    {"percentile", "q", setup_percentile, call_percentile, scratch_percentile},
    {NULL, NULL, NULL, NULL, NULL}};
