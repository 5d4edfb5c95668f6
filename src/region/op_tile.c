/* Tiles of a filter's region. Each is grown by the window's reach and read for itself, so what
 * a filter does on the margins is done again by the neighbour: a tile is halved only as long as
 * it stays long beside the reach. */
#include "region/op_tile.h"

#include <string.h>

static uint64_t reach_of(const tg_op *op, uint32_t d)
{
    return op->below[d] + op->above[d];
}

/* Axis 0 is folded first, before any margin is worked on: its margin costs reading alone. The
 * rows of the last one are what vectors run over. */
static uint64_t least_extent(const tg_op *op, uint32_t d, uint32_t ndim)
{
    const uint64_t n = d == 0 && ndim > 1 ? reach_of(op, d) / 2 : 2 * reach_of(op, d);
    const uint64_t least = d + 1 == ndim ? 64 : 1;
    return n > least ? n : least;
}

static uint64_t grown_items(const tg_op *op, const tg_shape *tile)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < tile->ndim; d++) {
        const uint64_t extent = tile->n[d] + reach_of(op, d);
        if (__builtin_mul_overflow(n, d + 1 < tile->ndim ? extent : tg_tiles_pitch(extent), &n))
            return UINT64_MAX;
    }
    return n;
}

/* Halves the axis that is longest beside its reach; false: all are as short as they may be. */
static bool halve(const tg_op *op, tg_shape *tile)
{
    uint32_t best = tile->ndim;
    uint64_t longest = 0;
    for (uint32_t d = 0; d < tile->ndim; d++) {
        const uint64_t ratio = tile->n[d] / (reach_of(op, d) + 1) + 1;
        if (tile->n[d] > least_extent(op, d, tile->ndim) && ratio > longest) {
            longest = ratio;
            best = d;
        }
    }
    if (best == tile->ndim)
        return false;
    const uint64_t half = (tile->n[best] + 1) / 2;
    const uint64_t least = least_extent(op, best, tile->ndim);
    tile->n[best] = half > least ? half : least;
    return true;
}

uint64_t tg_tiles_most(const tg_op *op, const tg_shape *out, uint64_t items, tg_shape *tile)
{
    uint64_t n = 0;
    *tile = *out;
    while ((n = grown_items(op, tile)) > items && halve(op, tile)) {
    }
    /* A smaller region may be halved less often. */
    return n < items && !tg_shape_equal(tile, out) ? items : n;
}

/* Positions of the grown region along all axes, and the runs of its longest row. */
uint64_t tg_tiles_scratch(const tg_op *op, const tg_shape *out)
{
    uint64_t positions = 0, last = 0;
    for (uint32_t d = 0; d < out->ndim; d++) {
        last = out->n[d] + reach_of(op, d);
        positions += last;
    }
    return positions * sizeof(uint64_t) + last * sizeof(tg_tile_run);
}

tg_status tg_tiles_open(tg_tiles *t, const tg_op *op, const tg_region_call *c, uint64_t items,
                        tg_error *err)
{
    tg_shape grown = {c->out.ndim, {0}};
    memset(t, 0, sizeof *t);
    if (c->out.ndim == 0)
        return tg_fail(err, TG_UNSUPPORTED, "%s of an array without dimensions",
                       op->kind->name);
    t->op = op;
    t->whole = c;
    t->out.ndim = c->out.ndim;
    memcpy(t->out.n, c->out.shape, sizeof t->out.n);
    t->items = tg_tiles_most(op, &t->out, items, &t->most);
    for (uint32_t d = 0; d < grown.ndim; d++)
        grown.n[d] = t->out.n[d] + reach_of(op, d);
    const size_t bytes = (size_t)tg_tiles_scratch(op, &t->out);
    t->room = tg_alloc(bytes);
    if (t->room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu bytes of places", bytes);
    t->runs = t->room;
    tg_call_reflect(c, op->below, &grown, (uint64_t *)(t->runs + grown.n[grown.ndim - 1]),
                    t->positions);
    return TG_OK;
}

static void find_runs(tg_tiles *t)
{
    const uint32_t last = t->grown.ndim - 1;
    const uint64_t *from = t->from[last], n = t->grown.n[last];
    t->n_runs = 0;
    for (uint64_t i = 0, m = 1; i < n; i += m, m = 1) {
        const uint64_t step = i + 1 < n && from[i + 1] + 1 == from[i] ? UINT64_MAX : 1;
        while (i + m < n && from[i + m] == from[i + m - 1] + step)
            m++;
        t->runs[t->n_runs++] = (tg_tile_run){from[i], m, (int64_t)step};
    }
}

bool tg_tiles_next(tg_tiles *t)
{
    const uint32_t ndim = t->out.ndim;
    if (t->at[0] >= t->out.n[0])
        return false;
    t->call = *t->whole;
    t->grown.ndim = ndim;
    for (uint32_t d = 0; d < ndim; d++) {
        const uint64_t rest = t->out.n[d] - t->at[d];
        const uint64_t n = rest < t->most.n[d] ? rest : t->most.n[d];
        t->call.out.shape[d] = n;
        t->call.out.data =
            (char *)t->call.out.data + (int64_t)t->at[d] * t->call.out.strides[d];
        t->grown.n[d] = n + reach_of(t->op, d);
        t->from[d] = t->positions[d] + t->at[d];
    }
    find_runs(t);
    for (uint32_t d = ndim; d-- > 0;) {
        t->at[d] += t->most.n[d];
        if (t->at[d] < t->out.n[d] || d == 0)
            break;
        t->at[d] = 0;
    }
    return true;
}

void tg_tiles_destroy(tg_tiles *t)
{
    tg_free(t->room);
    t->room = NULL;
}

/* --- Blocks --- */

#define LINE 64 /* bytes of a line of the cache */

uint64_t tg_block_scratch(const tg_op *op, const tg_shape *out, uint64_t items,
                          size_t item_bytes)
{
    tg_shape tile;
    const uint64_t n = tg_tiles_most(op, out, items, &tile);
    if (n > UINT64_MAX / 64)
        return UINT64_MAX;
    return 3 * n * item_bytes + LINE + tg_tiles_scratch(op, out);
}

tg_status tg_block_open(tg_block *b, const tg_tiles *t, size_t item_bytes, tg_error *err)
{
    const size_t bytes = (size_t)t->items * item_bytes;
    memset(b, 0, sizeof *b);
    b->item_bytes = item_bytes;
    b->room = tg_alloc_array(3 * (size_t)t->items + LINE / item_bytes, item_bytes);
    if (b->room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for three blocks of %zu bytes", bytes);
    b->a = (char *)b->room + (LINE - (uintptr_t)b->room % LINE) % LINE;
    b->b = (char *)b->a + bytes;
    b->line = (char *)b->b + bytes;
    return TG_OK;
}

void tg_block_destroy(tg_block *b)
{
    tg_free(b->room);
    b->room = NULL;
}

/* Row `index` (all but the last dimension) of the grown tile: its runs count from here. */
static const char *source_row(const tg_tiles *t, const uint64_t *index)
{
    const char *row = t->call.in.data;
    for (uint32_t d = 0; d + 1 < t->grown.ndim; d++)
        row += (int64_t)t->from[d][index[d]] * t->call.in.strides[d];
    return row;
}

void tg_block_doubles(void *to, tg_dtype t, const void *src, int64_t stride, size_t n)
{
    tg_items_load(to, t, src, stride, n);
}

void tg_block_load(tg_block *b, const tg_tiles *t, tg_block_load_fn load)
{
    const tg_region_view *in = &t->call.in;
    const int64_t stride = in->strides[in->ndim - 1];
    char *row = b->a;
    tg_rows r;
    b->shape = t->grown;
    b->pitch = (size_t)tg_tiles_pitch(t->grown.n[t->grown.ndim - 1]);
    tg_rows_of(&r, b->shape.ndim, b->shape.n);
    do {
        const char *src = source_row(t, r.index);
        char *to = row;
        for (size_t i = 0; i < t->n_runs; to += t->runs[i++].n * b->item_bytes)
            load(to, in->dtype, src + (int64_t)t->runs[i].from * stride,
                 t->runs[i].step * stride, (size_t)t->runs[i].n);
        row += b->pitch * b->item_bytes;
        memset(to, 0, (size_t)(row - to)); /* filtered, too, but never stored */
    } while (tg_rows_next(&r));
}

void tg_block_swap(tg_block *b)
{
    void *a = b->a;
    b->a = b->b;
    b->b = a;
}

void tg_block_axis(const tg_block *b, uint32_t d, size_t *outer, size_t *inner)
{
    const uint32_t last = b->shape.ndim - 1;
    *outer = 1;
    *inner = d < last ? b->pitch : 1;
    for (uint32_t k = 0; k <= last; k++) {
        *outer *= k < d ? (size_t)b->shape.n[k] : 1;
        *inner *= k > d && k < last ? (size_t)b->shape.n[k] : 1;
    }
}
