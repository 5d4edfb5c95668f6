/* gaussian, as scipy.ndimage.gaussian_filter in doubles (mode reflect), rounded once at the
 * end: separable, one axis after the other, the slowest first. */
#include "region/op.h"

#include <math.h>
#include <string.h>

#define MOST_RADIUS 100000

static tg_status make_weights(tg_op *op, uint32_t d, double sigma, double truncate,
                              tg_error *err)
{
    double reach = floor(truncate * sigma + 0.5), sum = 1;
    if (!(sigma >= 0 && reach <= MOST_RADIUS))
        return tg_fail(err, TG_INVALID,
                       "operation 'gaussian': sigma got %g, want 0 to a reach of %d items",
                       sigma, MOST_RADIUS);
    size_t radius = sigma > 0 ? (size_t)reach : 0;
    double *w = tg_alloc_array(radius + 1, sizeof *w);
    if (w == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu weights", radius + 1);
    op->weights[d] = w;
    op->below[d] = op->above[d] = op->f.facts.halo[d] = radius;
    w[0] = 1;
    for (size_t i = 1; i <= radius; i++) {
        w[i] = exp(-0.5 / (sigma * sigma) * (double)(i * i));
        sum += 2 * w[i];
    }
    for (size_t i = 0; i <= radius; i++)
        w[i] /= sum;
    return TG_OK;
}

static tg_status setup_gaussian(tg_op *op, tg_op_text *t, const tg_function_env *env,
                                tg_error *err)
{
    bool given = false;
    double truncate = 4;
    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(tg_op_axes(op, t, env, err));
    TG_TRY(tg_op_per_axis(op, t, "sigma", op->sigma, &given, err));
    if (!given)
        return tg_fail(err, TG_INVALID, "operation 'gaussian' wants sigma=NUMBER");
    TG_TRY(tg_op_number(t, "truncate", &truncate, NULL, err));
    for (uint32_t d = 0; d < op->in_shape.ndim; d++)
        TG_TRY(make_weights(op, d, op->sigma[d], truncate, err));
    return tg_op_dtype(op, t, err);
}

/* --- Strips, for the boxes too --- */

#define STRIP_ITEMS (UINT64_C(1) << 17)

uint64_t tg_op_strip(const tg_op *op, const tg_shape *out)
{
    uint64_t row = 1;
    if (out->ndim < 2)
        return out->ndim == 0 ? 1 : out->n[0];
    for (uint32_t d = 1; d < out->ndim; d++)
        if (__builtin_mul_overflow(row, out->n[d] + op->below[d] + op->above[d], &row))
            return out->n[0];
    const uint64_t reach = op->below[0] + op->above[0];
    uint64_t n =
        row > 0 && STRIP_ITEMS / row > 4 * reach ? STRIP_ITEMS / row - reach : 3 * reach;
    n = n > 0 ? n : 1;
    return n < out->n[0] ? n : out->n[0];
}

tg_region_call tg_op_strip_call(const tg_region_call *c, uint64_t start, uint64_t n)
{
    tg_region_call s = *c;
    s.out.data = (char *)c->out.data + (int64_t)start * c->out.strides[0];
    s.out.shape[0] = n;
    return s;
}

/* Two blocks of a strip grown by the reach, and a table of positions. */
static uint64_t scratch_gaussian(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    tg_shape grown = *out;
    uint64_t n = 0, positions = 0;
    (void)in;
    for (uint32_t d = 0; d < out->ndim; d++) {
        grown.n[d] += 2 * op->below[d];
        positions += grown.n[d];
    }
    if (out->ndim > 0)
        grown.n[0] = tg_op_strip(op, out) + 2 * op->below[0];
    if (tg_shape_items(&grown, &n, NULL) != TG_OK || n > UINT64_MAX / 64)
        return UINT64_MAX;
    return 2 * n * sizeof(double) + positions * sizeof(uint64_t);
}

typedef struct grown {
    tg_shape shape;
    uint64_t *from[TG_MAX_NDIM]; /* where in `in` each position lies */
    double *a, *b;
} grown;

static void load_grown(const tg_region_call *c, grown *g)
{
    tg_rows r;
    uint32_t last = g->shape.ndim - 1;
    double *dst = g->a;
    tg_rows_of(&r, g->shape.ndim, g->shape.n);
    do {
        const char *row = c->in.data;
        size_t n = r.length, i = 0;
        for (uint32_t d = 0; d < last; d++)
            row += (int64_t)g->from[d][r.index[d]] * c->in.strides[d];
        while (i < n) { /* runs of neighbours at once */
            size_t m = 1;
            while (i + m < n && g->from[last][i + m] == g->from[last][i] + m)
                m++;
            tg_items_load(dst + i, c->in.dtype,
                          row + (int64_t)g->from[last][i] * c->in.strides[last],
                          c->in.strides[last], m);
            i += m;
        }
        dst += n;
    } while (tg_rows_next(&r));
}

/* out[x] = sum of w[k] * (in[x - k * step] + in[x + k * step]); the farthest first, as scipy.
 */
static inline __attribute__((always_inline)) void fold_symmetric(const double *in, size_t step,
                                                                 const double *w, size_t radius,
                                                                 size_t n, double *out)
{
    size_t x = 0;
    for (; x + 8 <= n; x += 8) {
        const double *at = in + x;
        double sum[8];
        for (int j = 0; j < 8; j++)
            sum[j] = at[j] * w[0];
        for (size_t k = radius; k > 0; k--) {
            const double *low = at - k * step, *high = at + k * step;
            for (int j = 0; j < 8; j++)
                sum[j] += (low[j] + high[j]) * w[k];
        }
        memcpy(out + x, sum, sizeof sum);
    }
    for (; x < n; x++) {
        const double *at = in + x;
        double sum = *at * w[0];
        for (size_t k = radius; k > 0; k--)
            sum += (*(at - k * step) + *(at + k * step)) * w[k];
        out[x] = sum;
    }
}

typedef void (*fold_fn)(const double *in, size_t step, const double *w, size_t radius, size_t n,
                        double *out);

static void fold_plain(const double *in, size_t step, const double *w, size_t radius, size_t n,
                       double *out)
{
    fold_symmetric(in, step, w, radius, n, out);
}

/* The same bits: products and sums are never fused. */
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void
fold_avx2(const double *in, size_t step, const double *w, size_t radius, size_t n, double *out)
{
    fold_symmetric(in, step, w, radius, n, out);
}

static fold_fn choose_fold(void)
{
    return __builtin_cpu_supports("avx2") ? fold_avx2 : fold_plain;
}
#else
static fold_fn choose_fold(void)
{
    return fold_plain;
}
#endif

static void fold_axis(grown *g, uint32_t d, const double *w, size_t radius)
{
    size_t outer = 1, inner = 1;
    for (uint32_t k = 0; k < g->shape.ndim; k++) {
        outer *= k < d ? (size_t)g->shape.n[k] : 1;
        inner *= k > d ? (size_t)g->shape.n[k] : 1;
    }
    size_t whole = (size_t)g->shape.n[d] * inner, kept = whole - 2 * radius * inner;
    const fold_fn fold = choose_fold();
    for (size_t o = 0; o < outer; o++)
        fold(g->a + o * whole + radius * inner, inner, w, radius, kept, g->b + o * kept);
    g->shape.n[d] -= 2 * radius;
    double *swap = g->a;
    g->a = g->b;
    g->b = swap;
}

static void store_grown(const tg_region_call *c, const grown *g)
{
    tg_rows r;
    const double *src = g->a;
    tg_rows_of(&r, c->out.ndim, c->out.shape);
    do {
        tg_items_store(c->out.dtype, tg_rows_at(&r, &c->out, NULL), tg_view_step(&c->out), src,
                       r.length);
        src += r.length;
    } while (tg_rows_next(&r));
}

static tg_status run_gaussian(const tg_op *op, const tg_region_call *c, grown *g,
                              const tg_cancel *cancel, tg_error *err)
{
    load_grown(c, g);
    for (uint32_t d = 0; d < c->out.ndim; d++) {
        TG_TRY(tg_cancel_check(cancel, err));
        if (op->below[d] > 0)
            fold_axis(g, d, op->weights[d], (size_t)op->below[d]);
    }
    store_grown(c, g);
    return TG_OK;
}

static tg_status call_gaussian(const tg_op *op, const tg_region_call *c,
                               const tg_cancel *cancel, tg_error *err)
{
    grown g = {.shape = {c->out.ndim, {0}}};
    tg_shape out = {c->out.ndim, {0}};
    uint64_t items = 1, positions = 0;
    if (tg_view_items(&c->out) == 0)
        return TG_OK;
    if (c->out.ndim == 0)
        return tg_fail(err, TG_UNSUPPORTED, "gaussian of an array without dimensions");
    memcpy(out.n, c->out.shape, sizeof out.n);
    const uint64_t strip = tg_op_strip(op, &out);
    for (uint32_t d = 0; d < c->out.ndim; d++) {
        g.shape.n[d] = c->out.shape[d] + 2 * op->below[d];
        items *= d == 0 ? strip + 2 * op->below[d] : g.shape.n[d];
        positions += g.shape.n[d];
    }
    TG_AUTO(tg_mem_ptr) blocks = tg_alloc_array((size_t)items, 2 * sizeof(double));
    TG_AUTO(tg_mem_ptr) table = tg_alloc_array((size_t)positions, sizeof(uint64_t));
    if (blocks == NULL || table == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for two blocks of %zu doubles",
                       (size_t)items);
    tg_call_reflect(c, op->below, &g.shape, table, g.from);
    for (uint64_t at = 0; at < out.n[0]; at += strip) {
        const uint64_t n = out.n[0] - at < strip ? out.n[0] - at : strip;
        const tg_region_call part = tg_op_strip_call(c, at, n);
        grown s = g;
        for (uint32_t d = 0; d < c->out.ndim; d++)
            s.shape.n[d] = part.out.shape[d] + 2 * op->below[d];
        s.from[0] = g.from[0] + at;
        s.a = blocks;
        s.b = s.a + items;
        TG_TRY(run_gaussian(op, &part, &s, cancel, err));
    }
    return TG_OK;
}

const tg_op_kind tg_ops_filter[] = {{"gaussian", "sigma, truncate, axes, dtype", setup_gaussian,
                                     call_gaussian, scratch_gaussian},
                                    {NULL, NULL, NULL, NULL, NULL}};
