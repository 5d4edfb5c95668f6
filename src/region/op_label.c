/* label: connected components of what is not 0, numbered 1..n in C order of their first item,
 * as scipy.ndimage.label. Parts that meet in the halo only are one component. */
#include "region/op.h"

#include <math.h>
#include <string.h>

/* A slot an item: 0 background; else 1 + the item it hangs on, an earlier one or itself; at
 * the end a root's slot is its number with this bit. */
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

static uint64_t scratch_label(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    uint64_t n = 0;
    (void)op, (void)out;
    return tg_shape_items(in, &n, NULL) != TG_OK || n >= NUMBERED ? UINT64_MAX
                                                                  : n * sizeof(uint32_t);
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
} labelling;

/* Join item i with its neighbours that come earlier: offsets -1, 0, 1 along the active axes
 * from d on, at most `left` of them not 0; `before`: is the offset so far an earlier item? */
static void join_earlier(labelling *l, uint32_t d, int left, bool before, uint32_t i,
                         int64_t other)
{
    if (d == l->shape.ndim) {
        if (before && l->slot[other] != 0)
            join(l->slot, i, (uint32_t)other);
        return;
    }
    join_earlier(l, d + 1, left, before, i, other);
    if (!l->op->active[d] || left == 0)
        return;
    if (l->index[d] > 0)
        join_earlier(l, d + 1, left - 1, true, i, other - l->step[d]);
    if (before && l->index[d] + 1 < l->shape.n[d])
        join_earlier(l, d + 1, left - 1, true, i, other + l->step[d]);
}

static tg_status find_components(labelling *l, const tg_region_view *in,
                                 const tg_cancel *cancel, tg_error *err)
{
    tg_rows r;
    uint32_t i = 0, last = l->shape.ndim - 1;
    int64_t step = tg_view_step(in);
    double v[TG_OP_BLOCK];
    tg_rows_of(&r, in->ndim, in->shape);
    do {
        const char *row = tg_rows_at(&r, in, NULL);
        memcpy(l->index, r.index, r.ndim * sizeof *r.index);
        for (size_t x = 0; x < r.length; x++, i++) {
            if (x % TG_OP_BLOCK == 0) {
                size_t m = r.length - x < TG_OP_BLOCK ? r.length - x : TG_OP_BLOCK;
                tg_items_load(v, in->dtype, row + (int64_t)x * step, step, m);
            }
            l->slot[i] = v[x % TG_OP_BLOCK] != 0 ? i + 1 : 0;
            l->index[last] = x;
            if (l->slot[i] != 0)
                join_earlier(l, 0, (int)l->op->value, false, i, i);
        }
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

static uint32_t number_of(uint32_t *slot, uint32_t i, uint32_t *n)
{
    if (slot[i] == 0)
        return 0;
    while ((slot[i] & NUMBERED) == 0 && slot[i] - 1 != i)
        i = slot[i] - 1;
    if ((slot[i] & NUMBERED) == 0)
        slot[i] = ++*n | NUMBERED;
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
    l.slot = room;
    memcpy(l.shape.n, c->in.shape, sizeof l.shape.n);
    tg_strides_c(&l.shape, 1, l.step);
    tg_call_offset(c, offset);
    TG_TRY(find_components(&l, &c->in, cancel, err));
    store_numbers(&l, c, offset);
    return TG_OK;
}

const tg_op_kind tg_ops_label[] = {
    {"label", "connectivity, axes", setup_label, call_label, scratch_label},
    {NULL, NULL, NULL, NULL, NULL}};
