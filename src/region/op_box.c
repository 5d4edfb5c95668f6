/* median, min, max and mean of a box around each item, as scipy.ndimage's median_filter,
 * minimum_filter, maximum_filter and uniform_filter in mode reflect. All but median go one axis
 * after the other. */
#include "region/op_fold.h"
#include "region/op_rank.h"
#include "region/op_tile.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define MOST_SIZE   100001
#define MOST_WINDOW 1000000

/* Keys or doubles of a tile. */
#define TILE_ITEMS (UINT64_C(1) << 17)

enum { BOX_MEDIAN, BOX_MIN, BOX_MAX, BOX_MEAN };

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
    for (uint32_t d = 0; d < ndim; d++)
        n *= (size_t)op->size[d];
    return n;
}

/* Mean works in doubles, the others on keys of the type's own size. */
static size_t item_bytes(const tg_op *op)
{
    return op->method == BOX_MEAN ? sizeof(double) : op->in_dtype.size;
}

#define MOST_LANES 125 /* items of small keys: more are counted */

/* How a median goes over its windows. */
typedef enum way { IN_LANES, COUNTED, SELECTED } way;

static way way_of(const tg_op *op, uint32_t ndim)
{
    const size_t n = window_items(op, ndim);
    if (op->in_dtype.size <= 2)
        return n <= MOST_LANES ? IN_LANES : COUNTED;
    return n <= TG_MOST_MEDIAN ? IN_LANES : SELECTED;
}

/* Bytes that a median needs beside the block: counts and rows, or one window. */
static size_t window_bytes(const tg_op *op, uint32_t ndim)
{
    const size_t n = window_items(op, ndim), size = op->in_dtype.size;
    const way how = op->method == BOX_MEDIAN ? way_of(op, ndim) : IN_LANES;
    return how == COUNTED
               ? n / (size_t)op->size[ndim - 1] * sizeof(void *) + tg_rank_counts_bytes(size)
           : how == SELECTED ? n * size
                             : 0;
}

static uint64_t scratch_box(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    const uint64_t n = tg_block_scratch(op, out, TILE_ITEMS, item_bytes(op));
    (void)in;
    return n < UINT64_MAX && out->ndim > 0 ? n + window_bytes(op, out->ndim) : n;
}

/* --- Work --- */

/* From one block of the axis to the next, in items. */
static size_t stride_of(const tg_block *b, uint32_t d, size_t inner)
{
    return d + 1 < b->shape.ndim ? (size_t)b->shape.n[d] * inner : b->pitch;
}

/* Each item becomes the extreme of it and the one `gap` places on. Blocks of the last axis,
 * rows, go in one, and what lies between them with it; those of others lie `next` items apart
 * then. */
static void fold_pairs(const tg_op *op, tg_block *b, uint32_t d, size_t gap, size_t kept,
                       size_t next)
{
    const bool is_max = op->method == BOX_MAX;
    const char *a = b->a;
    char *to = b->b;
    size_t outer, inner;
    tg_block_axis(b, d, &outer, &inner);
    const size_t stride = stride_of(b, d, inner);
    if (d + 1 == b->shape.ndim)
        tg_rank_pairs(b->item_bytes, is_max, a, gap, outer * stride - gap, to);
    for (size_t o = 0; o < outer && d + 1 < b->shape.ndim; o++)
        tg_rank_pairs(b->item_bytes, is_max, a + o * stride * b->item_bytes, gap * inner,
                      kept * inner, to + o * next * inner * b->item_bytes);
    tg_block_swap(b);
}

/* Of 2, 4, 8 ... neighbours, then of two such spans that overlap. */
static void fold_extreme(const tg_op *op, tg_block *b, uint32_t d)
{
    const size_t size = (size_t)op->size[d], whole = (size_t)b->shape.n[d];
    const size_t last = whole - (size - 1);
    size_t span = 1;
    while (span < size) {
        const size_t gap = 2 * span <= size ? span : size - span;
        span += gap;
        fold_pairs(op, b, d, gap, whole - span + 1, span < size ? whole : last);
    }
    b->shape.n[d] = last;
}

/* Sums of integers that a double holds whatever their order. */
static bool is_exact(const tg_op *op, uint32_t ndim)
{
    const tg_dtype t = op->in_dtype;
    return t.kind != TG_DT_FLOAT && t.size <= 4 &&
           (double)window_items(op, ndim) * ldexp(1, 8 * (int)t.size) <= 0x1p53;
}

static void fold_sums(const tg_op *op, tg_block *b, uint32_t d)
{
    const size_t size = (size_t)op->size[d], last = (size_t)b->shape.n[d] - (size - 1);
    const bool is_row = d + 1 == b->shape.ndim;
    const double *a = b->a;
    double *to = b->b;
    size_t outer, inner;
    tg_block_axis(b, d, &outer, &inner);
    const size_t stride = stride_of(b, d, inner), next = is_row ? b->pitch : last * inner;
    const tg_sum s = {size,
                      inner,
                      is_row ? 1 : last,
                      is_row ? last : inner,
                      inner,
                      is_exact(op, b->shape.ndim)};
    for (size_t o = 0; o < outer; o++)
        tg_fold_sum(&s, a + o * stride, to + o * next);
    b->shape.n[d] = last;
    tg_block_swap(b);
}

static void store_keys(const tg_op *op, const tg_block *b, const tg_region_view *out, char *dst,
                       const void *keys, size_t n)
{
    const tg_dtype in = op->in_dtype;
    if (out->dtype.kind == in.kind && out->dtype.size == in.size) {
        tg_rank_store(in, dst, tg_view_step(out), keys, n);
        return;
    }
    tg_rank_store(in, b->line, in.size, keys, n);
    tg_items_cast(out->dtype, dst, tg_view_step(out), in, b->line, in.size, n);
}

static void store_block(const tg_op *op, const tg_block *b, const tg_region_view *out)
{
    const double window = (double)window_items(op, out->ndim);
    const char *row = b->a;
    double *means = b->line;
    tg_rows r;
    tg_rows_of(&r, out->ndim, out->shape);
    do {
        char *dst = tg_rows_at(&r, out, NULL);
        if (op->method == BOX_MEAN) {
            tg_fold_divide((const double *)(const void *)row, window, r.length, means);
            tg_items_store(out->dtype, dst, tg_view_step(out), means, r.length);
        } else {
            store_keys(op, b, out, dst, row, r.length);
        }
        row += b->pitch * b->item_bytes;
    } while (tg_rows_next(&r));
}

/* --- Medians --- */

/* Where row `of` of the window lies, in items of the block, for the first item of row `index`.
 */
static size_t window_row(const tg_block *b, const uint64_t *index, const tg_rows *of)
{
    size_t at = 0;
    for (uint32_t d = 0; d < of->ndim; d++)
        at = at * (size_t)b->shape.n[d] + (size_t)(index[d] + of->index[d]);
    return at * b->pitch;
}

/* A row of medians in lanes, all windows at once. */
static void median_row(const tg_op *op, const tg_block *b, const uint64_t *index, size_t length)
{
    const void *from[TG_MOST_MEDIAN];
    size_t n = 0;
    tg_rows r;
    tg_rows_of(&r, b->shape.ndim, op->size);
    do {
        const size_t at = window_row(b, index, &r);
        for (size_t i = 0; i < r.length; i++)
            from[n++] = (const char *)b->a + (at + i) * b->item_bytes;
    } while (tg_rows_next(&r));
    tg_rank_medians(b->item_bytes, from, n, length, b->b);
}

/* The same of large windows of small keys: what comes is counted, what goes no longer is. */
static void slide_row(const tg_op *op, const tg_block *b, const uint64_t *index, size_t length,
                      char *room)
{
    const size_t bytes = tg_rank_counts_bytes(b->item_bytes);
    const void **rows = (const void **)(void *)(room + bytes);
    tg_rank_window w = {rows, 0, 0, length};
    tg_rows r;
    tg_rows_of(&r, b->shape.ndim, op->size);
    do
        rows[w.n_rows++] = (const char *)b->a + window_row(b, index, &r) * b->item_bytes;
    while (tg_rows_next(&r));
    w.size = r.length;
    tg_rank_slide(b->item_bytes, &w, (uint32_t *)(void *)room, b->b);
}

/* The same of other large windows, one after the other. */
static void select_row(const tg_op *op, const tg_block *b, const uint64_t *index, size_t length,
                       char *window)
{
    const size_t bytes = b->item_bytes;
    for (size_t i = 0; i < length; i++) {
        size_t n = 0;
        tg_rows r;
        tg_rows_of(&r, b->shape.ndim, op->size);
        do {
            const size_t at = window_row(b, index, &r) + i;
            memcpy(window + n * bytes, (const char *)b->a + at * bytes, r.length * bytes);
            n += r.length;
        } while (tg_rows_next(&r));
        tg_rank_select(bytes, window, n, (char *)b->b + i * bytes);
    }
}

static tg_status run_median(const tg_op *op, const tg_block *b, const tg_region_view *out,
                            char *window, const tg_cancel *cancel, tg_error *err)
{
    const way how = way_of(op, out->ndim);
    tg_rows r;
    assert(how == IN_LANES || window != NULL);
    tg_rows_of(&r, out->ndim, out->shape);
    do {
        TG_TRY(tg_cancel_check(cancel, err));
        if (how == IN_LANES)
            median_row(op, b, r.index, r.length);
        else if (how == COUNTED)
            slide_row(op, b, r.index, r.length, window);
        else
            select_row(op, b, r.index, r.length, window);
        store_keys(op, b, out, tg_rows_at(&r, out, NULL), b->b, r.length);
    } while (tg_rows_next(&r));
    return TG_OK;
}

static tg_status run_box(const tg_op *op, tg_block *b, const tg_region_view *out,
                         const tg_cancel *cancel, tg_error *err)
{
    for (uint32_t d = 0; d < out->ndim; d++) {
        TG_TRY(tg_cancel_check(cancel, err));
        if (op->size[d] > 1 && op->method == BOX_MEAN)
            fold_sums(op, b, d);
        else if (op->size[d] > 1)
            fold_extreme(op, b, d);
    }
    store_block(op, b, out);
    return TG_OK;
}

static tg_status call_box(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                          tg_error *err)
{
    TG_AUTO(tg_tiles) t = {0};
    TG_AUTO(tg_block) b = {0};
    TG_AUTO(tg_mem_ptr) window = NULL;
    const size_t bytes = c->out.ndim > 0 ? window_bytes(op, c->out.ndim) : 0;
    if (tg_view_items(&c->out) == 0)
        return TG_OK;
    TG_TRY(tg_tiles_open(&t, op, c, TILE_ITEMS, err));
    TG_TRY(tg_block_open(&b, &t, item_bytes(op), err));
    window = bytes > 0 ? tg_alloc(bytes) : NULL;
    if (bytes > 0 && window == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a window of %zu bytes", bytes);
    if (window != NULL)
        memset(window, 0, bytes);
    while (tg_tiles_next(&t)) {
        tg_block_load(&b, &t, op->method == BOX_MEAN ? tg_block_doubles : tg_rank_load);
        TG_TRY(op->method == BOX_MEDIAN ? run_median(op, &b, &t.call.out, window, cancel, err)
                                        : run_box(op, &b, &t.call.out, cancel, err));
    }
    return TG_OK;
}

const tg_op_kind tg_ops_box[] = {
    {"median", "size, axes, dtype", setup_median, call_box, scratch_box},
    {"min", "size, axes, dtype", setup_min, call_box, scratch_box},
    {"max", "size, axes, dtype", setup_max, call_box, scratch_box},
    {"mean", "size, axes, dtype", setup_mean, call_box, scratch_box},
    {NULL, NULL, NULL, NULL, NULL}};
