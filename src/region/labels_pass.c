/* Items in loops over rows; what is around them is labels.c's. */
#include "region/labels_pass.h"

#include "region/accum.h"

#include <inttypes.h>
#include <string.h>

static const tg_dtype wide = {TG_DT_UINT, 8};

static uint64_t items_of(const tg_region_view *v)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < v->ndim; d++)
        n *= v->shape[d];
    return n;
}

static void keep(tg_function *f)
{
    (void)f; /* lies in its owner */
}

/* --- Gather ------------------------------------------------------------------------------- */

static tg_status make_unique(uint64_t *items, uint64_t n, uint64_t roi, tg_error *err)
{
    const uint64_t of = (roi + 1) << 32;

    for (uint64_t i = 0; i < n; i++) {
        if (items[i] > UINT32_MAX)
            return tg_fail(err, TG_UNSUPPORTED,
                           "label %" PRIu64 ": a region's own labels must be below 2^32",
                           items[i]);
        items[i] |= items[i] == 0 ? 0 : of;
    }
    return TG_OK;
}

static tg_status call_gather(tg_function *f, const tg_region_call *call, uint32_t slot,
                             const tg_cancel *cancel, tg_error *err)
{
    tg_gather_pass *p = (tg_gather_pass *)f;
    const tg_dtype given = p->inner->facts.out_dtype;
    const uint64_t n = items_of(&call->out);
    tg_shape shape = {.ndim = call->out.ndim};
    tg_region_call c = *call;
    uint64_t bad = 0;
    tg_plan_region r;

    tg_plan_region_get(p->plan, call->roi, &r);
    c.name = r.name == NULL ? "" : r.name;
    c.label = r.label;
    c.out.dtype = given;
    memcpy(shape.n, call->out.shape, sizeof shape.n);
    tg_strides_c(&shape, given.size, c.out.strides);
    TG_TRY(p->inner->ops->call(p->inner, &c, slot, cancel, err));
    tg_cast_items(call->out.data, n, given, wide, &bad);
    if (bad > 0)
        return tg_fail(err, TG_INVALID, "%" PRIu64 " labels are below 0", bad);
    return make_unique(call->out.data, n, call->roi, err);
}

static uint64_t scratch_of_gather(const tg_function *f, const tg_shape *in, const tg_shape *out)
{
    const tg_function *inner = ((const tg_gather_pass *)f)->inner;
    return inner->ops->scratch_bytes == NULL ? 0 : inner->ops->scratch_bytes(inner, in, out);
}

void tg_gather_init(tg_gather_pass *p, tg_function *inner, const tg_plan *plan)
{
    static const tg_function_ops ops = {
        .call = call_gather, .scratch_bytes = scratch_of_gather, .free = keep};

    *p = (tg_gather_pass){
        .f = {.ops = &ops, .facts = inner->facts}, .inner = inner, .plan = plan};
    p->f.facts.out_dtype = wide;
}

/* --- Scan --------------------------------------------------------------------------------- */

#define BATCH 128

typedef struct batch {
    tg_scan_pass *p;
    tg_sorter *to;
    tg_pair pair[BATCH];
    size_t n;
} batch;

static tg_status flush(batch *b, tg_error *err)
{
    TG_LOCKED_FOR_IO(&b->p->lock);
    TG_TRY(tg_sorter_add(b->to, b->pair, b->n, err));
    b->n = 0;
    return TG_OK;
}

static tg_status add(batch *b, uint64_t x, uint64_t y, tg_error *err)
{
    if (b->n > 0 && b->pair[b->n - 1].a == x && b->pair[b->n - 1].b == y)
        return TG_OK;
    if (b->n == BATCH)
        TG_TRY(flush(b, err));
    b->pair[b->n++] = (tg_pair){x, y};
    return TG_OK;
}

/* A row of the region in its view. */
typedef struct scan_row {
    const tg_region_call *c;
    uint64_t index[TG_MAX_NDIM]; /* in the view */
    const uint64_t *items;
    uint64_t n;
} scan_row;

/* The neighbours of the row in one direction; *from, *to: of which items there are any. NULL:
 * of none. */
static const uint64_t *neighbours(const scan_row *r, const int8_t *offset, uint64_t *from,
                                  uint64_t *to)
{
    const tg_region_view *v = &r->c->in;
    const uint32_t last = v->ndim - 1;
    int64_t at = 0;

    for (uint32_t d = 0; d < last; d++) {
        if ((offset[d] < 0 && r->index[d] == 0) ||
            (offset[d] > 0 && r->index[d] + 1 >= v->shape[d]))
            return NULL;
        at += offset[d] * (v->strides[d] / (int64_t)sizeof(uint64_t));
    }
    *from = offset[last] < 0 && r->index[last] == 0 ? 1 : 0;
    *to = offset[last] > 0 && r->index[last] + r->n >= v->shape[last] ? r->n - 1 : r->n;
    return r->items + at + offset[last];
}

static tg_status scan_touching(batch *b, const scan_row *r, tg_error *err)
{
    for (uint32_t i = 0; i < b->p->n_offsets; i++) {
        uint64_t from = 0, to = 0;
        const uint64_t *other = neighbours(r, b->p->offset[i], &from, &to);
        if (other == NULL || r->items == NULL)
            continue;
        for (uint64_t x = from; x < to; x++) {
            const uint64_t one = r->items[x], two = other[x];
            if ((one ^ two) >> 32 != 0 && one != 0 && two != 0)
                TG_TRY(add(b, one > two ? one : two, one > two ? two : one, err));
        }
    }
    return TG_OK;
}

/* Where a run of equal items begins that the row above does not go on with. */
static tg_status scan_objects(batch *b, const scan_row *r, bool has_above, tg_error *err)
{
    const tg_region_view *v = &r->c->in;
    const int64_t up = v->ndim < 2 ? 0 : v->strides[v->ndim - 2] / (int64_t)sizeof(uint64_t);

    for (uint64_t x = 0; x < r->n; x++) {
        const uint64_t one = r->items[x];
        if (one == 0 || (x > 0 && r->items[x - 1] == one) ||
            (has_above && r->items[(int64_t)x - up] == one))
            continue;
        TG_TRY(add(b, one, 0, err));
    }
    return TG_OK;
}

static tg_status call_scan(tg_function *f, const tg_region_call *c, uint32_t slot,
                           const tg_cancel *cancel, tg_error *err)
{
    tg_scan_pass *p = (tg_scan_pass *)f;
    batch objects = {.p = p, .to = p->objects}, touching = {.p = p, .to = p->touching};
    const uint32_t last = p->ndim - 1;
    tg_box rows = {.shape = {.ndim = p->ndim}};
    scan_row r = {.c = c, .n = c->region[last]};

    (void)slot;
    memcpy(rows.start, c->before, p->ndim * sizeof *rows.start);
    memcpy(rows.shape.n, c->region, p->ndim * sizeof *rows.shape.n);
    rows.shape.n[last] = 1;
    memcpy(r.index, rows.start, sizeof r.index);
    do {
        const char *at = c->in.data;
        for (uint32_t d = 0; d < p->ndim; d++)
            at += (int64_t)r.index[d] * c->in.strides[d];
        r.items = (const uint64_t *)(const void *)at;
        const bool has_above = p->ndim > 1 && r.index[last - 1] > c->before[last - 1];
        TG_TRY(scan_objects(&objects, &r, has_above, err));
        TG_TRY(scan_touching(&touching, &r, err));
    } while (tg_box_next(&rows, r.index));
    TG_TRY(tg_cancel_check(cancel, err));
    TG_TRY(flush(&objects, err));
    return flush(&touching, err);
}

enum { MOST_OFFSETS = 1 << 16 };

/* All offsets of -1, 0, 1 from dimension d on, of which at most `left` are not 0 and the first
 * that is not is 1. */
static bool add_offsets(tg_scan_pass *p, const tg_function_facts *facts, uint32_t d,
                        uint32_t left, int8_t *now, bool begun)
{
    if (d == p->ndim) {
        if (!begun)
            return true;
        if (p->n_offsets == MOST_OFFSETS)
            return false;
        if (p->offset != NULL)
            memcpy(p->offset[p->n_offsets], now, TG_MAX_NDIM);
        p->n_offsets++;
        return true;
    }
    now[d] = 0;
    if (!add_offsets(p, facts, d + 1, left, now, begun))
        return false;
    for (int8_t step = begun ? -1 : 1; left > 0 && facts->across[d] && step <= 1; step += 2) {
        now[d] = step;
        if (!add_offsets(p, facts, d + 1, left - 1, now, true))
            return false;
    }
    now[d] = 0;
    return true;
}

tg_status tg_scan_init(tg_scan_pass *p, const tg_function_facts *facts, uint32_t ndim,
                       tg_error *err)
{
    static const tg_function_ops ops = {.call = call_scan, .free = keep};
    int8_t now[TG_MAX_NDIM] = {0};

    *p = (tg_scan_pass){.f = {.ops = &ops}, .ndim = ndim};
    tg_mutex_init(&p->lock);
    for (uint32_t d = 0; d < TG_MAX_NDIM; d++)
        p->f.facts.out_step[d] = 1;
    const uint32_t connectivity = facts->connectivity == 0 ? 1 : facts->connectivity;
    bool fit = add_offsets(p, facts, 0, connectivity, now, false); /* counts them */
    if (!fit)
        return tg_fail(err, TG_UNSUPPORTED, "connectivity %u: an item has too many neighbours",
                       connectivity);
    p->offset = tg_calloc((size_t)p->n_offsets + 1, sizeof *p->offset);
    if (p->offset == NULL)
        return tg_fail(err, TG_NO_MEMORY, "neighbours of items");
    p->n_offsets = 0;
    (void)add_offsets(p, facts, 0, connectivity, now, false);
    return TG_OK;
}

void tg_scan_destroy(tg_scan_pass *p)
{
    tg_free(p->offset);
    tg_mutex_destroy(&p->lock);
}

/* --- Number ------------------------------------------------------------------------------- */

static tg_status number_row(const tg_number_pass *p, tg_number_cache *cache,
                            const uint64_t *from, uint64_t *to, uint64_t n, tg_error *err)
{
    uint64_t object = 0, number = 0;

    for (uint64_t x = 0; x < n; x++) {
        if (from[x] != object) {
            object = from[x];
            number = 0;
            if (object != 0)
                TG_TRY(tg_number_of(p->numbers, cache, object, &number, err));
        }
        to[x] = number;
    }
    return TG_OK;
}

static tg_status call_number(tg_function *f, const tg_region_call *c, uint32_t slot,
                             const tg_cancel *cancel, tg_error *err)
{
    const tg_number_pass *p = (const tg_number_pass *)f;
    const uint32_t ndim = c->out.ndim, last = ndim - 1;
    uint64_t index[TG_MAX_NDIM] = {0};
    tg_box rows = {.shape = {.ndim = ndim}};

    if (p->failed != NULL && (p->failed[c->roi / 8] >> (c->roi % 8) & 1) != 0)
        return tg_fail(err, TG_IO, "its call had failed");
    memcpy(rows.shape.n, c->out.shape, ndim * sizeof *rows.shape.n);
    rows.shape.n[last] = 1;
    do {
        const char *from = c->in.data;
        char *to = c->out.data;
        for (uint32_t d = 0; d < ndim; d++) {
            from += (int64_t)(index[d] + c->before[d]) * c->in.strides[d];
            to += (int64_t)index[d] * c->out.strides[d];
        }
        TG_TRY(number_row(p, &p->caches[slot], (const uint64_t *)(const void *)from,
                          (uint64_t *)(void *)to, c->out.shape[last], err));
    } while (tg_box_next(&rows, index));
    return tg_cancel_check(cancel, err);
}

void tg_number_init(tg_number_pass *p, const tg_numbers *numbers, tg_number_cache *caches,
                    const uint8_t *failed)
{
    static const tg_function_ops ops = {.call = call_number, .free = keep};

    *p = (tg_number_pass){
        .f = {.ops = &ops}, .numbers = numbers, .caches = caches, .failed = failed};
    p->f.facts.has_out = true;
    p->f.facts.out_dtype = wide;
}
