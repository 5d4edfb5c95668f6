/* median, min, max and mean of a box around each item, as scipy.ndimage's median_filter,
 * minimum_filter, maximum_filter and uniform_filter in mode reflect. All but median go one axis
 * after the other. */
#include "region/op.h"
#include "region/op_median.h"
#include "region/select.h"

#include <math.h>
#include <string.h>

#define MOST_SIZE   100001
#define MOST_WINDOW 1000000

/* --- Strips of dimension 0, so that the scratch stays small --- */

#define STRIP_ITEMS (UINT64_C(1) << 17)

static uint64_t strip_of(const tg_op *op, const tg_shape *out)
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

static tg_region_call strip_call(const tg_region_call *c, uint64_t start, uint64_t n)
{
    tg_region_call s = *c;
    s.out.data = (char *)c->out.data + (int64_t)start * c->out.strides[0];
    s.out.shape[0] = n;
    return s;
}

enum { BOX_MEDIAN, BOX_MIN, BOX_MAX, BOX_MEAN };

/* A number of any type as an unsigned one of the same order, so that 64-bit integers lose
 * nothing; for mean the number itself. */
typedef union cell {
    uint64_t key;
    double value;
} cell;

#define SIGN (UINT64_C(1) << 63)

static cell key_of_double(double v)
{
    cell c = {.value = v};
    c.key = c.key & SIGN ? ~c.key : c.key | SIGN;
    return c;
}

static double double_of_key(cell c)
{
    c.key = c.key & SIGN ? c.key & ~SIGN : ~c.key;
    return c.value;
}

static void load_cells(const tg_op *op, cell *to, tg_dtype t, const char *src, int64_t step,
                       size_t n)
{
    double v[TG_OP_BLOCK];
    long double wide[TG_OP_BLOCK];
    for (size_t at = 0; at < n; at += TG_OP_BLOCK) {
        size_t m = n - at < TG_OP_BLOCK ? n - at : TG_OP_BLOCK;
        const char *from = src + (int64_t)at * step;
        if (op->method != BOX_MEAN && tg_items_wide(t)) {
            tg_items_load_wide(wide, t, from, step, m);
            for (size_t i = 0; i < m; i++)
                to[at + i].key = t.kind == TG_DT_UINT ? (uint64_t)wide[i]
                                                      : (uint64_t)(int64_t)wide[i] ^ SIGN;
            continue;
        }
        tg_items_load(v, t, from, step, m);
        for (size_t i = 0; i < m; i++)
            if (op->method == BOX_MEAN)
                to[at + i].value = v[i];
            else
                to[at + i] = key_of_double(v[i]);
    }
}

static void store_cells(const tg_op *op, tg_dtype in, tg_dtype out, char *dst, int64_t step,
                        const cell *src, size_t n)
{
    double v[TG_OP_BLOCK];
    long double wide[TG_OP_BLOCK];
    for (size_t at = 0; at < n; at += TG_OP_BLOCK) {
        size_t m = n - at < TG_OP_BLOCK ? n - at : TG_OP_BLOCK;
        char *to = dst + (int64_t)at * step;
        if (op->method != BOX_MEAN && tg_items_wide(in)) {
            for (size_t i = 0; i < m; i++)
                wide[i] = in.kind == TG_DT_UINT
                              ? (long double)src[at + i].key
                              : (long double)(int64_t)(src[at + i].key ^ SIGN);
            tg_items_store_wide(out, to, step, wide, m);
            continue;
        }
        for (size_t i = 0; i < m; i++)
            v[i] = op->method == BOX_MEAN ? src[at + i].value : double_of_key(src[at + i]);
        tg_items_store(out, to, step, v, m);
    }
}

/* --- Parameters --- */

static tg_status setup_box(tg_op *op, tg_op_text *t, const tg_function_env *env, int method,
                           tg_error *err)
{
    double size[TG_MAX_NDIM], window = 1;
    bool given = false;
    op->method = method;
    for (uint32_t d = 0; d < TG_MAX_NDIM; d++)
        size[d] = 1;
    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(tg_op_axes(op, t, env, err));
    TG_TRY(tg_op_per_axis(op, t, "size", size, &given, err));
    if (!given)
        return tg_fail(err, TG_INVALID, "operation '%s' wants size=NUMBER", op->kind->name);
    for (uint32_t d = 0; d < op->in_shape.ndim; d++) {
        if (!(size[d] >= 1 && size[d] <= MOST_SIZE && size[d] == floor(size[d])))
            return tg_fail(err, TG_INVALID, "operation '%s': size got %g, want 1 to %d",
                           op->kind->name, size[d], MOST_SIZE);
        window *= size[d];
        op->size[d] = (uint64_t)size[d];
        op->below[d] = op->f.facts.halo[d] = op->size[d] / 2;
        op->above[d] = op->size[d] - op->below[d] - 1;
    }
    if (method == BOX_MEDIAN && window > MOST_WINDOW)
        return tg_fail(err, TG_INVALID,
                       "operation 'median': size got a box of %g items, want "
                       "%d at most",
                       window, MOST_WINDOW);
    return tg_op_dtype(op, t, err);
}

#define DEFINE_SETUP(name, method)                                                      \
    static tg_status setup_##name(tg_op *op, tg_op_text *t, const tg_function_env *env, \
                                  tg_error *err)                                        \
    {                                                                                   \
        return setup_box(op, t, env, method, err);                                      \
    }
DEFINE_SETUP(median, BOX_MEDIAN)
DEFINE_SETUP(min, BOX_MIN)
DEFINE_SETUP(max, BOX_MAX)
DEFINE_SETUP(mean, BOX_MEAN)

static size_t window_items(const tg_op *op, uint32_t ndim)
{
    size_t n = 1;
    for (uint32_t d = 0; op->method == BOX_MEDIAN && d < ndim; d++)
        n *= (size_t)op->size[d];
    return n;
}

/* Numbers of up to 16 bits, and not too many: tg_median_row(). */
static bool is_small(const tg_op *op, uint32_t ndim)
{
    return op->method == BOX_MEDIAN && op->in_dtype.kind != TG_DT_FLOAT &&
           op->in_dtype.size <= 2 && window_items(op, ndim) <= TG_MOST_MEDIAN;
}

/* The region grown by the reach, where each of its positions lies, and a window of median. */
static uint64_t scratch_box(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    tg_shape grown = *out;
    uint64_t n = 0, positions = 0;
    (void)in;
    for (uint32_t d = 0; d < out->ndim; d++) {
        grown.n[d] += op->below[d] + op->above[d];
        positions += grown.n[d];
    }
    if (out->ndim > 0)
        grown.n[0] = strip_of(op, out) + op->below[0] + op->above[0];
    if (tg_shape_items(&grown, &n, NULL) != TG_OK || n > UINT64_MAX / 64)
        return UINT64_MAX;
    return (n + window_items(op, out->ndim)) * sizeof(cell) + positions * sizeof(uint64_t) +
           (is_small(op, out->ndim) ? (n + TG_OP_BLOCK) * sizeof(int16_t) : 0);
}

/* --- Work --- */

typedef struct box {
    const tg_op *op;
    const tg_region_call *c;
    tg_shape shape;              /* of the cells; shrinks with each axis done */
    uint64_t *from[TG_MAX_NDIM]; /* where in `in` each position lies */
    cell *cells, *window;
    int16_t *small; /* of the cells, and room for TG_OP_BLOCK more; NULL: not small */
} box;

static void load_box(const box *b)
{
    const tg_region_view *in = &b->c->in;
    uint32_t last = b->shape.ndim - 1;
    cell *dst = b->cells;
    tg_rows r;
    tg_rows_of(&r, b->shape.ndim, b->shape.n);
    do {
        const char *row = in->data;
        for (uint32_t d = 0; d < last; d++)
            row += (int64_t)b->from[d][r.index[d]] * in->strides[d];
        for (size_t i = 0, m = 0; i < r.length; i += m) { /* runs of neighbours at once */
            const uint64_t *from = b->from[last] + i;
            for (m = 1; i + m < r.length && from[m] == *from + m;)
                m++;
            load_cells(b->op, dst + i, in->dtype, row + (int64_t)*from * in->strides[last],
                       in->strides[last], m);
        }
        dst += r.length;
    } while (tg_rows_next(&r));
}

static cell fold_cells(int method, const cell *at, size_t step, size_t n)
{
    cell best = *at;
    for (size_t k = 1; k < n; k++) {
        cell v = at[k * step];
        if (method == BOX_MEAN)
            best.value += v.value;
        else if (method == BOX_MIN ? v.key < best.key : v.key > best.key)
            best = v;
    }
    return best;
}

/* In place: a result lies where nothing later is read. */
static void fold_axis(box *b, uint32_t d)
{
    size_t outer = 1, inner = 1, size = (size_t)b->op->size[d];
    for (uint32_t k = 0; k < b->shape.ndim; k++) {
        outer *= k < d ? (size_t)b->shape.n[k] : 1;
        inner *= k > d ? (size_t)b->shape.n[k] : 1;
    }
    size_t whole = (size_t)b->shape.n[d] * inner, kept = whole - (size - 1) * inner;
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < kept; i++)
            b->cells[o * kept + i] =
                fold_cells(b->op->method, b->cells + o * whole + i, inner, size);
    b->shape.n[d] -= size - 1;
}

static void divide(const box *b)
{
    uint64_t n = tg_view_items(&b->c->out);
    double window = 1;
    for (uint32_t d = 0; d < b->shape.ndim; d++)
        window *= (double)b->op->size[d];
    for (uint64_t i = 0; i < n; i++)
        b->cells[i].value /= window;
}

#define CELL_KEY(x) ((x).key)
TG_DEFINE_SELECT(select_kth, cell, uint64_t, CELL_KEY)

/* Of the window that begins at `index` of the cells; of an even number the upper one. */
static cell median_at(const box *b, const uint64_t *index)
{
    size_t n = 0;
    tg_rows r;
    tg_rows_of(&r, b->shape.ndim, b->op->size);
    do {
        size_t at = 0;
        for (uint32_t d = 0; d < b->shape.ndim; d++)
            at = at * (size_t)b->shape.n[d] + (size_t)index[d] +
                 (d < r.ndim ? (size_t)r.index[d] : 0);
        memcpy(b->window + n, b->cells + at, r.length * sizeof(cell));
        n += r.length;
    } while (tg_rows_next(&r));
    select_kth(b->window, n, n / 2);
    return b->window[n / 2];
}

/* In place too: the first of a window is read by no later one. */
static tg_status fold_median(const box *b, const tg_cancel *cancel, tg_error *err)
{
    uint64_t index[TG_MAX_NDIM] = {0};
    size_t at = 0;
    tg_rows r;
    tg_rows_of(&r, b->c->out.ndim, b->c->out.shape);
    do {
        TG_TRY(tg_cancel_check(cancel, err));
        memcpy(index, r.index, r.ndim * sizeof *index);
        for (size_t i = 0; i < r.length; i++) {
            index[r.ndim] = i;
            b->cells[at++] = median_at(b, index);
        }
    } while (tg_rows_next(&r));
    return TG_OK;
}

/* Where the items of the window lie for the first item of a row of OUT. */
static size_t window_places(const box *b, const uint64_t *index, const int16_t **from)
{
    size_t n = 0;
    tg_rows r;
    tg_rows_of(&r, b->shape.ndim, b->op->size);
    do {
        size_t at = 0;
        for (uint32_t d = 0; d < b->shape.ndim; d++)
            at =
                at * (size_t)b->shape.n[d] + (d < r.ndim ? (size_t)(index[d] + r.index[d]) : 0);
        for (size_t i = 0; i < r.length; i++)
            from[n++] = b->small + at + i;
    } while (tg_rows_next(&r));
    return n;
}

static tg_status fold_small(const box *b, uint64_t items, const tg_cancel *cancel,
                            tg_error *err)
{
    const bool is_unsigned = b->op->in_dtype.kind == TG_DT_UINT && b->op->in_dtype.size == 2;
    const double offset = is_unsigned ? 32768 : 0;
    const int16_t *from[TG_MOST_MEDIAN];
    int16_t *made = b->small + items;
    cell *to = b->cells;
    tg_rows r;
    for (uint64_t i = 0; i < items; i++)
        b->small[i] = (int16_t)(double_of_key(b->cells[i]) - offset);
    tg_rows_of(&r, b->c->out.ndim, b->c->out.shape);
    do {
        TG_TRY(tg_cancel_check(cancel, err));
        const size_t n = window_places(b, r.index, from);
        for (size_t at = 0; at < r.length; at += TG_OP_BLOCK) {
            const size_t m = r.length - at < TG_OP_BLOCK ? r.length - at : TG_OP_BLOCK;
            tg_median_row(from, n, m, made);
            for (size_t i = 0; i < m; i++)
                *to++ = key_of_double(made[i] + offset);
            for (size_t i = 0; i < n; i++)
                from[i] += m;
        }
    } while (tg_rows_next(&r));
    return TG_OK;
}

static tg_status run_box(box *b, uint64_t items, const tg_cancel *cancel, tg_error *err)
{
    const cell *src = b->cells;
    const tg_region_call *c = b->c;
    tg_rows r;
    load_box(b);
    if (b->small != NULL)
        TG_TRY(fold_small(b, items, cancel, err));
    else if (b->op->method == BOX_MEDIAN)
        TG_TRY(fold_median(b, cancel, err));
    for (uint32_t d = 0; b->op->method != BOX_MEDIAN && d < c->out.ndim; d++) {
        TG_TRY(tg_cancel_check(cancel, err));
        fold_axis(b, d);
    }
    if (b->op->method == BOX_MEAN)
        divide(b);
    tg_rows_of(&r, c->out.ndim, c->out.shape);
    do {
        store_cells(b->op, c->in.dtype, c->out.dtype, tg_rows_at(&r, &c->out, NULL),
                    tg_view_step(&c->out), src, r.length);
        src += r.length;
    } while (tg_rows_next(&r));
    return TG_OK;
}

static tg_status call_box(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                          tg_error *err)
{
    box b = {.op = op, .c = c, .shape = {c->out.ndim, {0}}};
    tg_shape out = {c->out.ndim, {0}};
    uint64_t items = 1, positions = 0;
    if (tg_view_items(&c->out) == 0)
        return TG_OK;
    if (c->out.ndim == 0)
        return tg_fail(err, TG_UNSUPPORTED, "%s of an array without dimensions",
                       op->kind->name);
    memcpy(out.n, c->out.shape, sizeof out.n);
    const uint64_t strip = strip_of(op, &out);
    for (uint32_t d = 0; d < c->out.ndim; d++) {
        b.shape.n[d] = c->out.shape[d] + op->below[d] + op->above[d];
        items *= d == 0 ? strip + op->below[d] + op->above[d] : b.shape.n[d];
        positions += b.shape.n[d];
    }
    size_t window = window_items(op, c->out.ndim);
    TG_AUTO(tg_mem_ptr) cells = tg_alloc_array((size_t)items + window, sizeof(cell));
    TG_AUTO(tg_mem_ptr) table = tg_alloc_array((size_t)positions, sizeof(uint64_t));
    const bool is_tiny = is_small(op, c->out.ndim);
    TG_AUTO(tg_mem_ptr)
    small = is_tiny ? tg_alloc_array((size_t)items + TG_OP_BLOCK, sizeof(int16_t)) : NULL;
    if (cells == NULL || table == NULL || (is_tiny && small == NULL))
        return tg_fail(err, TG_NO_MEMORY, "no memory for a block of %zu numbers",
                       (size_t)items);
    b.small = small;
    b.cells = cells;
    b.window = b.cells + items;
    tg_call_reflect(c, op->below, &b.shape, table, b.from);
    for (uint64_t at = 0; at < out.n[0]; at += strip) {
        const uint64_t n = out.n[0] - at < strip ? out.n[0] - at : strip;
        const tg_region_call part = strip_call(c, at, n);
        box s = b;
        s.c = &part;
        s.shape.n[0] = n + op->below[0] + op->above[0];
        s.from[0] = b.from[0] + at;
        TG_TRY(run_box(&s, items, cancel, err));
    }
    return TG_OK;
}

const tg_op_kind tg_ops_box[] = {
    {"median", "size, axes, dtype", setup_median, call_box, scratch_box},
    {"min", "size, axes, dtype", setup_min, call_box, scratch_box},
    {"max", "size, axes, dtype", setup_max, call_box, scratch_box},
    {"mean", "size, axes, dtype", setup_mean, call_box, scratch_box},
    {NULL, NULL, NULL, NULL, NULL}};
