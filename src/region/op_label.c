/* label: connected components of what is not 0, numbered 1..n in C order of their first item,
 * as scipy.ndimage.label. Parts that meet in the halo only are one component. */
#include "region/op.h"

#include <math.h>
#include <string.h>

/* A slot an item: 0 background; else 1 + the item it hangs on, an earlier one or itself; at
 * the end a slot is its item's number with this bit. */
#define NUMBERED UINT32_C(0x80000000)

static tg_status setup_label(tg_op *op, tg_op_text *t, const tg_function_env *env,
                             tg_error *err)
{
    uint32_t n_active = 0;
    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(tg_op_axes(op, t, env, err));
    op->f.facts.out_dtype = (tg_dtype){TG_DT_UINT, 4};
    op->f.facts.labels = true;
    for (uint32_t d = 0; d < op->in_shape.ndim; d++)
        n_active += op->active[d];
    op->value = 1;
    TG_TRY(tg_op_number(t, "connectivity", &op->value, NULL, err));
    if (n_active > 0 &&
        !(op->value >= 1 && op->value <= n_active && op->value == floor(op->value)))
        return tg_fail(err, TG_INVALID, "operation 'label': connectivity got %g, want 1 to %u",
                       op->value, n_active);
    op->f.facts.connectivity = (uint32_t)op->value;
    memcpy(op->f.facts.across, op->active, sizeof op->active);
    return TG_OK;
}

/* A neighbour that comes earlier: -1, 0 or 1 along each active axis, not 0 along `connectivity`
 * of them at most. */
typedef struct neighbour {
    int64_t place; /* from the item, in items */
    int8_t along[TG_MAX_NDIM];
} neighbour;

#define MOST_NEIGHBOURS 1e9 /* more take too long for any region */

/* Half of the ways to move along 1 to `connectivity` of the axes. */
static double count_neighbours(const tg_op *op, const tg_shape *in)
{
    double n = 0, ways = 1;
    uint32_t axes = 0;
    for (uint32_t d = 0; d < in->ndim; d++)
        axes += op->active[d] && in->n[d] > 1;
    for (uint32_t k = 1; k <= axes && k <= op->value; k++) {
        ways *= 2.0 * (axes - k + 1) / k;
        n += ways / 2;
    }
    return rint(n);
}

/* A list of neighbours, and two of places. */
static size_t list_bytes(size_t n)
{
    return n * (sizeof(neighbour) + 2 * sizeof(int64_t)) + 1;
}

static uint64_t scratch_label(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    uint64_t n = 0;
    const double most = count_neighbours(op, in);
    (void)out;
    if (tg_shape_items(in, &n, NULL) != TG_OK || n >= NUMBERED || most > MOST_NEIGHBOURS)
        return UINT64_MAX;
    return n * sizeof(uint32_t) + list_bytes((size_t)most);
}

static uint32_t root_of(uint32_t *slot, uint32_t i)
{
    while (slot[i] - 1 != i) {
        slot[i] = slot[slot[i] - 1]; /* halves the path */
        i = slot[i] - 1;
    }
    return i;
}

static void join(uint32_t *slot, uint32_t a, uint32_t b)
{
    a = root_of(slot, a);
    b = root_of(slot, b);
    if (a < b)
        slot[b] = a + 1;
    else
        slot[a] = b + 1;
}

typedef struct labelling {
    const tg_op *op;
    tg_shape shape;
    int64_t step[TG_MAX_NDIM]; /* in items */
    uint64_t index[TG_MAX_NDIM];
    uint32_t *slot;
    neighbour *all; /* earlier_neighbours() */
    size_t n_all;
    int64_t *inner,
        *edge; /* places of those that lie inside: for most of a row, for its ends */
} labelling;

/* Along the axes from d on, at most `left` of them; `before`: is b so far an earlier item? The
 * one before in the row comes first. */
static void find_neighbours(labelling *l, uint32_t d, int left, bool before, neighbour b)
{
    if (d == l->shape.ndim) {
        if (before)
            l->all[l->n_all++] = b;
        return;
    }
    find_neighbours(l, d + 1, left, before, b);
    if (!l->op->active[d] || left == 0 || l->shape.n[d] < 2)
        return;
    for (int along = -1; along <= (before ? 1 : -1); along += 2) {
        neighbour moved = b;
        moved.along[d] = (int8_t)along;
        moved.place += along * l->step[d];
        find_neighbours(l, d + 1, left - 1, true, moved);
    }
}

static bool lies_inside(const labelling *l, const neighbour *b, uint32_t ndim)
{
    for (uint32_t d = 0; d < ndim; d++)
        if ((b->along[d] < 0 && l->index[d] == 0) ||
            (b->along[d] > 0 && l->index[d] + 1 >= l->shape.n[d]))
            return false;
    return true;
}

/* Item i hangs on itself, or on what the first of its neighbours hangs on. */
static void add_item(uint32_t *slot, uint32_t i, const int64_t *places, size_t n)
{
    slot[i] = i + 1;
    for (size_t k = 0; k < n; k++) {
        const uint32_t other = (uint32_t)(i + places[k]);
        if (slot[other] == 0 || slot[other] == slot[i])
            continue;
        if (slot[i] == i + 1)
            slot[i] = slot[other];
        else
            join(slot, i, other);
    }
}

/* The places of those that lie inside along the first ndim axes; how many. */
static size_t places_inside(const labelling *l, uint32_t ndim, int64_t *to)
{
    size_t n = 0;
    for (size_t k = 0; k < l->n_all; k++)
        if (lies_inside(l, &l->all[k], ndim))
            to[n++] = l->all[k].place;
    return n;
}

static void add_row(labelling *l, const tg_region_view *in, const char *row, uint32_t first,
                    size_t length)
{
    const uint32_t ndim = l->shape.ndim, last = ndim - 1;
    const int64_t step = tg_view_step(in);
    const size_t n_inner = places_inside(l, last, l->inner);
    double v[TG_OP_BLOCK];
    for (size_t x = 0; x < length; x++) {
        const uint32_t i = first + (uint32_t)x;
        if (x % TG_OP_BLOCK == 0) {
            const size_t m = length - x < TG_OP_BLOCK ? length - x : TG_OP_BLOCK;
            tg_items_load(v, in->dtype, row + (int64_t)x * step, step, m);
        }
        l->slot[i] = 0;
        l->index[last] = x;
        if (v[x % TG_OP_BLOCK] == 0)
            continue;
        if (x == 0 || x + 1 == length)
            add_item(l->slot, i, l->edge, places_inside(l, ndim, l->edge));
        else
            add_item(l->slot, i, l->inner, n_inner);
    }
}

static tg_status find_components(labelling *l, const tg_region_view *in,
                                 const tg_cancel *cancel, tg_error *err)
{
    tg_rows r;
    uint32_t i = 0;
    find_neighbours(l, 0, (int)l->op->value, false, (neighbour){0, {0}});
    tg_rows_of(&r, in->ndim, in->shape);
    do {
        memcpy(l->index, r.index, r.ndim * sizeof *r.index);
        add_row(l, in, tg_rows_at(&r, in, NULL), i, r.length);
        i += (uint32_t)r.length;
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

static uint32_t number_of(uint32_t *slot, uint32_t i, uint32_t *n)
{
    const uint32_t item = i;
    if (slot[i] == 0)
        return 0;
    while ((slot[i] & NUMBERED) == 0 && slot[i] - 1 != i)
        i = slot[i] - 1;
    if ((slot[i] & NUMBERED) == 0)
        slot[i] = ++*n | NUMBERED;
    slot[item] = slot[i]; /* what hangs on it need not go on */
    return slot[i] & ~NUMBERED;
}

static void store_numbers(const labelling *l, const tg_region_call *c, const uint64_t *offset)
{
    tg_rows r;
    uint32_t n = 0, last = l->shape.ndim - 1;
    double v[TG_OP_BLOCK];
    int64_t step = tg_view_step(&c->out);
    tg_rows_of(&r, c->out.ndim, c->out.shape);
    do {
        char *row = tg_rows_at(&r, &c->out, NULL);
        uint64_t at = offset[last];
        for (uint32_t d = 0; d < last; d++)
            at += (r.index[d] + offset[d]) * (uint64_t)l->step[d];
        for (size_t x = 0; x < r.length; x += TG_OP_BLOCK) {
            size_t m = r.length - x < TG_OP_BLOCK ? r.length - x : TG_OP_BLOCK;
            for (size_t k = 0; k < m; k++)
                v[k] = number_of(l->slot, (uint32_t)(at + x + k), &n);
            tg_items_store(c->out.dtype, row + (int64_t)x * step, step, v, m);
        }
    } while (tg_rows_next(&r));
}

static tg_status call_label(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                            tg_error *err)
{
    uint64_t offset[TG_MAX_NDIM], n = tg_view_items(&c->in);
    labelling l = {.op = op, .shape = {c->in.ndim, {0}}};
    if (tg_view_items(&c->out) == 0)
        return TG_OK;
    if (c->in.ndim == 0 || n >= NUMBERED)
        return tg_fail(err, TG_UNSUPPORTED, "label of %zu items in %u dimensions", (size_t)n,
                       c->in.ndim);
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array((size_t)n, sizeof(uint32_t));
    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the labels of %zu items", (size_t)n);
    memcpy(l.shape.n, c->in.shape, sizeof l.shape.n);
    const double n_neighbours = count_neighbours(op, &l.shape);
    if (n_neighbours > MOST_NEIGHBOURS)
        return tg_fail(err, TG_UNSUPPORTED, "label with %g neighbours an item",
                       2 * n_neighbours);
    const size_t most = (size_t)n_neighbours;
    TG_AUTO(tg_mem_ptr) list = tg_alloc(list_bytes(most));
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu neighbours", most);
    l.all = list;
    l.inner = (int64_t *)(l.all + most);
    l.edge = l.inner + most;
    l.slot = room;
    tg_strides_c(&l.shape, 1, l.step);
    tg_call_offset(c, offset);
    TG_TRY(find_components(&l, &c->in, cancel, err));
    store_numbers(&l, c, offset);
    return TG_OK;
}

const tg_op_kind tg_ops_label[] = {
    {"label", "connectivity, axes", setup_label, call_label, scratch_label},
    {NULL, NULL, NULL, NULL, NULL}};
