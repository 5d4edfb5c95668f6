/* gaussian, as scipy.ndimage.gaussian_filter in doubles (mode reflect), rounded once at the
 * end: separable, one axis after the other, the slowest first. */
#include "region/op_fold.h"
#include "region/op_tile.h"

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

/* Doubles of a tile: it and what is made of it lie in the second cache. */
#define TILE_ITEMS (UINT64_C(1) << 17)

#define LINE 64 /* bytes of a line of the cache */

static uint64_t scratch_gaussian(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    tg_shape tile;
    const uint64_t n = tg_tiles_most(op, out, TILE_ITEMS, &tile);
    (void)in;
    if (n > UINT64_MAX / 64)
        return UINT64_MAX;
    return 3 * n * sizeof(double) + LINE + tg_tiles_scratch(op, out);
}

/* A tile in doubles, the rows `pitch` apart; axis after axis it shrinks to what is wanted. */
typedef struct block {
    tg_shape shape;
    size_t pitch;
    double *a, *b, *line; /* the tile; room for the next; for a row */
} block;

static void load_block(block *b, const tg_tiles *t)
{
    const tg_region_view *in = &t->call.in;
    const int64_t stride = in->strides[in->ndim - 1];
    double *row = b->a;
    tg_rows r;
    b->shape = t->grown;
    b->pitch = (size_t)tg_tiles_pitch(t->grown.n[t->grown.ndim - 1]);
    tg_rows_of(&r, b->shape.ndim, b->shape.n);
    do {
        const char *src = tg_tiles_row(t, r.index);
        double *to = row;
        for (size_t i = 0; i < t->n_runs; to += t->runs[i++].n)
            tg_items_load(to, in->dtype, src + (int64_t)t->runs[i].from * stride,
                          t->runs[i].step * stride, (size_t)t->runs[i].n);
        row += b->pitch;
        memset(to, 0, (size_t)(row - to) * sizeof *to); /* folded, too, but never stored */
    } while (tg_rows_next(&r));
}

/* Not the last axis. */
static void fold_axis(block *b, uint32_t d, const double *w, size_t radius)
{
    size_t outer = 1, inner = b->pitch;
    for (uint32_t k = 0; k + 1 < b->shape.ndim; k++) {
        outer *= k < d ? (size_t)b->shape.n[k] : 1;
        inner *= k > d ? (size_t)b->shape.n[k] : 1;
    }
    const size_t whole = (size_t)b->shape.n[d], kept = whole - 2 * radius;
    const tg_fold f = {w, radius, inner, kept, inner, inner};
    for (size_t o = 0; o < outer; o++)
        tg_fold_run(&f, b->a + (o * whole + radius) * inner, b->b + o * kept * inner);
    b->shape.n[d] = kept;
    double *swap = b->a;
    b->a = b->b;
    b->b = swap;
}

/* Folds along the last axis, a row at a time, and stores. */
static void finish_block(const block *b, const tg_region_view *out, const double *w,
                         size_t radius)
{
    const double *row = b->a;
    tg_rows r;
    tg_rows_of(&r, out->ndim, out->shape);
    const tg_fold f = {w, radius, 1, 1, r.length, 0};
    do {
        if (radius > 0)
            tg_fold_run(&f, row + radius, b->line);
        tg_items_store(out->dtype, tg_rows_at(&r, out, NULL), tg_view_step(out),
                       radius > 0 ? b->line : row, r.length);
        row += b->pitch;
    } while (tg_rows_next(&r));
}

static tg_status call_gaussian(const tg_op *op, const tg_region_call *c,
                               const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_tiles) t = {0};
    if (tg_view_items(&c->out) == 0)
        return TG_OK;
    TG_TRY(tg_tiles_open(&t, op, c, TILE_ITEMS, err));
    const uint32_t last = t.out.ndim - 1;
    const size_t items = (size_t)t.items;
    TG_AUTO(tg_mem_ptr)
    room = tg_alloc_array(3 * items + LINE / sizeof(double), sizeof(double));
    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for three blocks of %zu doubles", items);
    double *first = (double *)(((uintptr_t)room + LINE - 1) / LINE * LINE);
    while (tg_tiles_next(&t)) {
        block b = {.a = first, .b = first + items, .line = first + 2 * items};
        TG_TRY(tg_cancel_check(cancel, err));
        load_block(&b, &t);
        for (uint32_t d = 0; d < last; d++)
            if (op->below[d] > 0)
                fold_axis(&b, d, op->weights[d], (size_t)op->below[d]);
        finish_block(&b, &t.call.out, op->weights[last], (size_t)op->below[last]);
    }
    return TG_OK;
}

const tg_op_kind tg_ops_filter[] = {{"gaussian", "sigma, truncate, axes, dtype", setup_gaussian,
                                     call_gaussian, scratch_gaussian},
                                    {NULL, NULL, NULL, NULL, NULL}};
