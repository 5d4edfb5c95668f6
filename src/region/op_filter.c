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

static uint64_t scratch_gaussian(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    (void)in;
    return tg_block_scratch(op, out, TILE_ITEMS, sizeof(double));
}

/* Not the last axis. */
static void fold_axis(tg_block *b, uint32_t d, const double *w, size_t radius)
{
    const double *a = b->a;
    double *to = b->b;
    size_t outer, inner;
    tg_block_axis(b, d, &outer, &inner);
    const size_t whole = (size_t)b->shape.n[d], kept = whole - 2 * radius;
    const tg_fold f = {w, radius, inner, kept, inner, inner};
    for (size_t o = 0; o < outer; o++)
        tg_fold_run(&f, a + (o * whole + radius) * inner, to + o * kept * inner);
    b->shape.n[d] = kept;
    tg_block_swap(b);
}

/* Folds along the last axis, a row at a time, and stores. */
static void finish_block(const tg_block *b, const tg_region_view *out, const double *w,
                         size_t radius)
{
    const double *row = b->a;
    double *line = b->line;
    tg_rows r;
    tg_rows_of(&r, out->ndim, out->shape);
    const tg_fold f = {w, radius, 1, 1, r.length, 0};
    do {
        if (radius > 0)
            tg_fold_run(&f, row + radius, line);
        tg_items_store(out->dtype, tg_rows_at(&r, out, NULL), tg_view_step(out),
                       radius > 0 ? line : row, r.length);
        row += b->pitch;
    } while (tg_rows_next(&r));
}

static tg_status call_gaussian(const tg_op *op, const tg_region_call *c,
                               const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_tiles) t = {0};
    TG_AUTO(tg_block) b = {0};
    if (tg_view_items(&c->out) == 0)
        return TG_OK;
    TG_TRY(tg_tiles_open(&t, op, c, TILE_ITEMS, err));
    TG_TRY(tg_block_open(&b, &t, sizeof(double), err));
    const uint32_t last = t.out.ndim - 1;
    while (tg_tiles_next(&t)) {
        TG_TRY(tg_cancel_check(cancel, err));
        tg_block_load(&b, &t, tg_block_doubles);
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
