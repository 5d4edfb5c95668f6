/* Operations that make one item of many: project (an axis becomes one item long) and downsample
 * (a block of K items along each axis becomes one). Integers are summed exactly; a mean is
 * rounded once, half to even. */
#include "region/op.h"

#include <math.h>
#include <string.h>

__extension__ typedef __int128 int128;

enum { MEAN, MAX, MIN, SUM, NEAREST, MODE };

#define MOST_FACTOR 4096
#define MOST_MODE   512 /* items whose most frequent value is looked for */

/* --- Parameters --- */

static tg_status setup_project(tg_op *op, tg_op_text *t, const tg_function_env *env,
                               tg_error *err)
{
    static const char *const words[] = {"max", "min", "mean", "sum", NULL};
    static const int methods[] = {MAX, MIN, MEAN, SUM};
    const char *name = NULL;
    uint32_t axis = 0;
    int which = 0;
    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(tg_op_string(t, "axis", &name, err));
    if (name == NULL)
        return tg_fail(err, TG_INVALID, "operation 'project' wants axis=NAME or a number");
    tg_status st = tg_op_axis(name, env, &axis, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "operation 'project': parameter 'axis'");
        return st;
    }
    TG_TRY(tg_op_word(t, "method", words, &which, err));
    op->method = methods[which];
    tg_function_facts *f = &op->f.facts;
    for (uint32_t d = 0; d < op->in_shape.ndim; d++)
        op->size[d] = 1;
    op->size[axis] = op->in_shape.n[axis] > 0 ? op->in_shape.n[axis] : 1;
    op->active[axis] = true;
    f->out_step[axis] = op->size[axis];
    f->out_shape.n[axis] = op->in_shape.n[axis] > 0 ? 1 : 0;
    f->in_place = op->in_shape.n[axis] == 1;
    return tg_op_dtype(op, t, err);
}

static tg_status check_factor(const tg_op *op, uint32_t d, double factor, tg_error *err)
{
    if (!(factor >= 1 && factor <= MOST_FACTOR && factor == floor(factor)))
        return tg_fail(err, TG_INVALID, "operation 'downsample': factor got %g, want 1 to %d",
                       factor, MOST_FACTOR);
    /* A region is not grown along an axis of one item: it would see a part of the block. */
    if (factor > 1 && op->in_shape.n[d] > 1 && (double)op->in_shape.n[d] <= factor)
        return tg_fail(err, TG_INVALID,
                       "operation 'downsample': factor got %g for an axis of %zu items, want "
                       "less (project makes one item of an axis)",
                       factor, (size_t)op->in_shape.n[d]);
    return TG_OK;
}

static tg_status check_mode(const tg_op *op, tg_error *err)
{
    double window = 1;
    for (uint32_t d = 0; d < op->in_shape.ndim; d++)
        window *= (double)op->size[d];
    if (op->in_dtype.kind == TG_DT_FLOAT)
        return tg_fail(
            err, TG_UNSUPPORTED,
            "operation 'downsample': method 'mode' of floats, want integers or bool");
    if (window > MOST_MODE)
        return tg_fail(
            err, TG_INVALID,
            "operation 'downsample': method 'mode' of blocks of %g items, want %d at "
            "most",
            window, MOST_MODE);
    return TG_OK;
}

static tg_status setup_downsample(tg_op *op, tg_op_text *t, const tg_function_env *env,
                                  tg_error *err)
{
    static const char *const words[] = {"mean", "max", "min", "nearest", "mode", NULL};
    static const int methods[] = {MEAN, MAX, MIN, NEAREST, MODE};
    double factor[TG_MAX_NDIM];
    bool given = false;
    int which = 0;
    for (uint32_t d = 0; d < TG_MAX_NDIM; d++)
        factor[d] = 1;
    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(tg_op_axes(op, t, env, err));
    TG_TRY(tg_op_per_axis(op, t, "factor", factor, &given, err));
    if (!given)
        return tg_fail(err, TG_INVALID, "operation 'downsample' wants factor=K");
    TG_TRY(tg_op_word(t, "method", words, &which, err));
    op->method = methods[which];
    tg_function_facts *f = &op->f.facts;
    f->in_place = true;
    for (uint32_t d = 0; d < op->in_shape.ndim; d++) {
        TG_TRY(check_factor(op, d, factor[d], err));
        uint64_t k = op->in_shape.n[d] > 1 ? (uint64_t)factor[d] : 1;
        op->size[d] = f->out_step[d] = k;
        op->active[d] = false; /* blocks here, not a whole region */
        f->out_shape.n[d] = op->in_shape.n[d] / k + (op->in_shape.n[d] % k != 0);
        f->in_place = f->in_place && k == 1;
    }
    if (op->method == MODE)
        TG_TRY(check_mode(op, err));
    return tg_op_dtype(op, t, err);
}

/* --- Folding: one item of IN into one of OUT --- */

typedef struct cells {
    union {
        double narrow[TG_OP_BLOCK];
        int128 wide[TG_OP_BLOCK];
    } sum;
    uint64_t n[TG_OP_BLOCK]; /* items folded so far */
} cells;

static bool wins(int method, double v, double best)
{
    if (isnan(best))
        return false;
    return isnan(v) || (method == MAX ? v > best : v < best);
}

static void fold_narrow(int method, double *best, double v, uint64_t n)
{
    if (n == 0)
        *best = v;
    else if (method == MEAN || method == SUM)
        *best += v;
    else if (method != NEAREST && wins(method, v, *best))
        *best = v;
}

static void fold_wide(int method, int128 *best, int128 v, uint64_t n)
{
    if (n == 0)
        *best = v;
    else if (method == MEAN || method == SUM)
        *best += v;
    else if (method != NEAREST && (method == MAX ? v > *best : v < *best))
        *best = v;
}

/* n items `stride` bytes apart: into n cells, or all into the first. */
static void fold_items(cells *to, int method, tg_dtype t, const char *src, int64_t stride,
                       size_t n, bool one)
{
    union {
        double narrow[TG_OP_BLOCK];
        long double wide[TG_OP_BLOCK];
    } block;
    for (size_t at = 0; at < n; at += TG_OP_BLOCK) {
        size_t m = n - at < TG_OP_BLOCK ? n - at : TG_OP_BLOCK;
        const char *s = src + (int64_t)at * stride;
        bool wide = tg_items_wide(t);
        if (wide)
            tg_items_load_wide(block.wide, t, s, stride, m);
        else
            tg_items_load(block.narrow, t, s, stride, m);
        for (size_t i = 0; i < m; i++) {
            size_t k = one ? 0 : i;
            if (wide)
                fold_wide(method, &to->sum.wide[k], (int128)block.wide[i], to->n[k]);
            else
                fold_narrow(method, &to->sum.narrow[k], block.narrow[i], to->n[k]);
            to->n[k]++;
        }
    }
}

/* --- Storing --- */

static int128 divided(int128 sum, uint64_t n)
{
    int128 by = (int128)n, q = sum / by, rest = sum % by;
    if (rest < 0) { /* to the floor */
        q--;
        rest += by;
    }
    if (2 * rest > by || (2 * rest == by && q % 2 != 0))
        q++;
    return q;
}

static void store_cells(const tg_region_call *c, int method, cells *from, char *dst, size_t n)
{
    const bool wide = tg_items_wide(c->in.dtype), whole = c->out.dtype.kind != TG_DT_FLOAT;
    long double items[TG_OP_BLOCK];
    for (size_t i = 0; i < n; i++) {
        if (wide) {
            items[i] = method != MEAN ? (long double)from->sum.wide[i]
                       : whole        ? (long double)divided(from->sum.wide[i], from->n[i])
                               : (long double)from->sum.wide[i] / (long double)from->n[i];
            continue;
        }
        if (method == MEAN)
            from->sum.narrow[i] /= (double)from->n[i];
        if (method == MEAN && c->out.dtype.kind == TG_DT_BOOL)
            from->sum.narrow[i] = rint(from->sum.narrow[i]);
    }
    if (wide)
        tg_items_store_wide(c->out.dtype, dst, tg_view_step(&c->out), items, n);
    else
        tg_items_store(c->out.dtype, dst, tg_view_step(&c->out), from->sum.narrow, n);
}

/* --- Walking --- */

/* Of the items of OUT [first, first + n) of the row at `index`: the block that they are made of
 * is walked in C order, for all n at once. */
typedef struct strip {
    const tg_op *op;
    const tg_region_call *c;
    uint64_t step[TG_MAX_NDIM];
    uint64_t index[TG_MAX_NDIM]; /* of the first, in OUT's block */
    size_t n;
} strip;

static uint64_t block_extent(const strip *s, uint32_t d)
{
    uint64_t left = s->c->region[d] - s->index[d] * s->step[d];
    return left < s->step[d] ? left : s->step[d];
}

/* Of those n items, how many have a k-th item of their block along the last axis. */
static size_t present(const strip *s, uint32_t last, uint64_t k)
{
    uint64_t at = s->index[last] * s->step[last] + k, left;
    if (at >= s->c->region[last])
        return 0;
    left = (s->c->region[last] - at - 1) / s->step[last] + 1;
    return left < s->n ? (size_t)left : s->n;
}

static void fold_strip(const strip *s, cells *to)
{
    const tg_region_view *in = &s->c->in;
    const uint32_t last = in->ndim - 1;
    const int64_t item = in->strides[last];
    uint64_t block[TG_MAX_NDIM] = {0}, offset[TG_MAX_NDIM] = {0};
    tg_rows r;
    for (uint32_t d = 0; d < in->ndim; d++) {
        block[d] = block_extent(s, d);
        offset[d] = s->c->before[d] + s->index[d] * s->step[d];
    }
    tg_rows_of(&r, in->ndim, block);
    do {
        const char *row = tg_rows_at(&r, in, offset);
        if (s->n == 1) {
            fold_items(to, s->op->method, in->dtype, row, item, (size_t)block[last], true);
            continue;
        }
        for (uint64_t k = 0; k < s->step[last]; k++)
            fold_items(to, s->op->method, in->dtype, row + (int64_t)k * item,
                       item * (int64_t)s->step[last], present(s, last, k), false);
    } while (tg_rows_next(&r));
}

/* The value that is there most often, the least of several: labels stay labels. */
static long double most_frequent(long double *v, size_t n)
{
    long double best = v[0];
    size_t most = 0, run = 0;
    for (size_t i = 1; i < n; i++) { /* few items: sorted by insertion */
        long double x = v[i];
        size_t k = i;
        for (; k > 0 && v[k - 1] > x; k--)
            v[k] = v[k - 1];
        v[k] = x;
    }
    for (size_t i = 0; i < n; i++) {
        run = i > 0 && v[i] == v[i - 1] ? run + 1 : 1;
        if (run > most) {
            most = run;
            best = v[i];
        }
    }
    return best;
}

static void mode_strip(const strip *s, char *dst)
{
    const tg_region_view *in = &s->c->in;
    long double v[MOST_MODE] = {0};
    uint64_t block[TG_MAX_NDIM] = {0}, offset[TG_MAX_NDIM] = {0};
    size_t n = 0;
    tg_rows r;
    for (uint32_t d = 0; d < in->ndim; d++) {
        block[d] = block_extent(s, d);
        offset[d] = s->c->before[d] + s->index[d] * s->step[d];
    }
    tg_rows_of(&r, in->ndim, block);
    do {
        tg_items_load_wide(v + n, in->dtype, tg_rows_at(&r, in, offset), tg_view_step(in),
                           r.length);
        n += r.length;
    } while (tg_rows_next(&r));
    v[0] = most_frequent(v, n);
    tg_items_store_wide(s->c->out.dtype, dst, tg_view_step(&s->c->out), v, 1);
}

/* A block that the region cuts would give another value in another region. */
static tg_status check_whole(const strip *s, tg_error *err)
{
    const tg_region_call *c = s->c;
    for (uint32_t d = 0; d < c->in.ndim; d++) {
        uint64_t from = c->in_start[d] + c->before[d], to = from + c->region[d];
        if (!s->op->active[d] &&
            (from % s->step[d] != 0 || (to % s->step[d] != 0 && to != s->op->in_shape.n[d])))
            return tg_fail(err, TG_INVALID,
                           "downsample of items %zu to %zu of dimension %u, which cuts a block "
                           "of %zu",
                           (size_t)from, (size_t)to, d, (size_t)s->step[d]);
    }
    return TG_OK;
}

static tg_status call_reduce(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                             tg_error *err)
{
    strip s = {.op = op, .c = c};
    cells to = {.n = {0}};
    tg_rows r;
    for (uint32_t d = 0; d < c->in.ndim; d++)
        s.step[d] = op->active[d] ? c->region[d] : op->size[d];
    tg_rows_of(&r, c->out.ndim, c->out.shape);
    if (!r.any)
        return TG_OK;
    if (c->in.ndim == 0)
        return tg_fail(err, TG_UNSUPPORTED, "%s of an array without dimensions",
                       op->kind->name);
    TG_TRY(check_whole(&s, err));
    const size_t most = op->method == MODE ? 1 : TG_OP_BLOCK;
    do {
        char *row = tg_rows_at(&r, &c->out, NULL);
        memcpy(s.index, r.index, r.ndim * sizeof *r.index);
        for (size_t at = 0; at < r.length; at += most) {
            s.index[r.ndim] = at;
            s.n = r.length - at < most ? r.length - at : most;
            char *dst = row + (int64_t)at * tg_view_step(&c->out);
            if (op->method == MODE) {
                mode_strip(&s, dst);
                continue;
            }
            memset(to.n, 0, sizeof to.n);
            fold_strip(&s, &to);
            store_cells(c, op->method, &to, dst, s.n);
        }
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

const tg_op_kind tg_ops_reduce[] = {
    {"project", "axis, method, dtype", setup_project, call_reduce, NULL},
    {"downsample", "factor, method, axes, dtype", setup_downsample, call_reduce, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
