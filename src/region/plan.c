/* region/plan.c - what a plan tells by position, and the memory it lies in. Makes nothing. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* madvise() */
#endif
#include "region/pad.h"
#include "region/plan_state.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

/* --- Memory --------------------------------------------------------------- */

static tg_status reserve(tg_plan *p, uint64_t bytes, tg_error *err)
{
    if (p->budget != NULL)
        TG_TRY(tg_budget_reserve(p->budget, bytes, "the plan", err));
    p->reserved += bytes;
    return TG_OK;
}

static void release(tg_plan *p, uint64_t bytes)
{
    if (p->budget != NULL)
        tg_budget_release(p->budget, bytes);
    p->reserved -= bytes;
}

tg_status tg_plan_take(tg_plan *p, tg_plan_section_id id, uint64_t n, size_t item_bytes,
                       tg_error *err)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(n, item_bytes, &bytes) || bytes > SIZE_MAX / 2)
        return tg_fail(err, TG_OVER_BUDGET, "the plan: %llu items are too many",
                       (unsigned long long)n);
    TG_TRY(reserve(p, bytes, err));
    void *data = tg_calloc(bytes == 0 ? 1 : (size_t)bytes, 1);
    if (data == NULL) {
        release(p, bytes);
        return tg_fail(err, TG_NO_MEMORY, "no memory for %llu bytes of the plan",
                       (unsigned long long)bytes);
    }
    p->section[id] = (tg_plan_section){data, bytes};
    return TG_OK;
}

void tg_plan_drop(tg_plan *p, tg_plan_section_id id)
{
    tg_free(p->section[id].data);
    release(p, p->section[id].bytes);
    p->section[id] = (tg_plan_section){0};
}

tg_status tg_plan_vec_room(tg_plan *p, tg_plan_vec *v, uint64_t more, tg_error *err)
{
    uint64_t want = v->n + more, cap = v->cap + v->cap / 2;
    if (want <= v->cap)
        return TG_OK;
    if (cap < want)
        cap = want;
    if (cap > SIZE_MAX / 2 / v->item_bytes)
        return tg_fail(err, TG_OVER_BUDGET, "the plan: %llu items are too many",
                       (unsigned long long)cap);
    TG_TRY(reserve(p, cap * v->item_bytes, err));
    uint8_t *data = tg_alloc_array(cap, v->item_bytes);
    if (data == NULL) {
        release(p, cap * v->item_bytes);
        return tg_fail(err, TG_NO_MEMORY, "no memory for %llu bytes of the plan",
                       (unsigned long long)(cap * v->item_bytes));
    }
    if (v->n > 0)
        memcpy(data, v->data, v->n * v->item_bytes);
    tg_free(v->data);
    release(p, v->cap * v->item_bytes);
    v->data = data;
    v->cap = cap;
    return TG_OK;
}

void tg_plan_vec_free(tg_plan *p, tg_plan_vec *v)
{
    tg_free(v->data);
    release(p, v->cap * v->item_bytes);
    *v = (tg_plan_vec){.item_bytes = v->item_bytes};
}

void tg_plan_vec_move(tg_plan *p, tg_plan_vec *v, tg_plan_section_id id)
{
    release(p, (v->cap - v->n) * v->item_bytes); /* pages never touched are not there */
    p->section[id] = (tg_plan_section){v->data, v->n * v->item_bytes};
    *v = (tg_plan_vec){.item_bytes = v->item_bytes};
}

void tg_plan_free(tg_plan *p)
{
    if (p == NULL)
        return;
    if (p->window.base != NULL)
        (void)munmap(p->window.base, p->window.bytes);
    else
        for (int i = 0; i < TG_PLAN_SECTIONS; i++)
            tg_free(p->section[i].data);
    tg_free(p->window.touched);
    release(p, p->reserved);
    tg_json_free(p->header);
    tg_free(p);
}

/* --- The window ----------------------------------------------------------- */

/* The kernel maps what lies around a fault too, by aligned runs of 64 KiB: a slice is a
 * multiple of them, so that what is resident is what was marked. */
enum { SLICE_BITS = 18 };

static void drop_pages(tg_plan_window *w)
{
    /* Marks first: who marks after this and reads before the pages go is counted, though its
     * pages may be gone; the reverse would leave pages that nobody counts. */
    for (uint64_t i = 0; i < w->n_words; i++)
        atomic_store_explicit(&w->touched[i], 0, memory_order_relaxed);
    atomic_store(&w->n_touched, 0);
    (void)madvise(w->base, w->bytes, MADV_DONTNEED);
}

void tg_plan_touch(const tg_plan *p, const void *at, uint64_t bytes)
{
    tg_plan_window *w = (tg_plan_window *)(uintptr_t)&p->window;
    if (w->base == NULL || bytes == 0)
        return;
    uint64_t first = ((uintptr_t)at >> SLICE_BITS) - w->first_slice;
    uint64_t last = (((uintptr_t)at + bytes - 1) >> SLICE_BITS) - w->first_slice;
    for (uint64_t s = first; s <= last; s++) {
        unsigned bit = 1U << s % 32;
        if ((atomic_load_explicit(&w->touched[s / 32], memory_order_relaxed) & bit) != 0)
            continue;
        if ((atomic_fetch_or(&w->touched[s / 32], bit) & bit) != 0)
            continue;
        if (atomic_fetch_add(&w->n_touched, 1) + 1 > w->most)
            drop_pages(w);
    }
}

/* --- Geometry ------------------------------------------------------------- */

static tg_status make_grid(tg_plan_grid *g, const tg_plan_array *a, const char *what,
                           tg_error *err)
{
    uint64_t n, units;
    g->array = a->shape;
    g->chunk = a->chunk;
    g->unit = a->shard;
    if (a->shape.ndim == 0 || a->shape.ndim > TG_MAX_NDIM || a->chunk.ndim != a->shape.ndim ||
        a->shard.ndim != a->shape.ndim)
        return tg_fail(err, TG_INVALID, "%s has %u dimensions, want 1 to %d", what,
                       a->shape.ndim, TG_MAX_NDIM);
    for (uint32_t i = 0; i < a->shape.ndim; i++)
        if (a->chunk.n[i] == 0 || a->shard.n[i] == 0 || a->shard.n[i] % a->chunk.n[i] != 0)
            return tg_fail(err, TG_INVALID, "%s: a chunk of %llu items in a shard of %llu",
                           what, (unsigned long long)a->chunk.n[i],
                           (unsigned long long)a->shard.n[i]);
    tg_grid_shape(&g->array, &g->unit, &g->grid);
    tg_grid_shape(&g->unit, &g->chunk, &g->inner);
    TG_TRY(tg_shape_items(&g->grid, &units, err));
    TG_TRY(tg_shape_items(&g->inner, &n, err));
    if (n >= UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "%s: %llu chunks in a shard", what,
                       (unsigned long long)n);
    g->n_inner = (uint32_t)n;
    return TG_OK;
}

static bool is_wide(const tg_shape *s)
{
    for (uint32_t i = 0; i < s->ndim; i++)
        if (s->n[i] > UINT32_MAX)
            return true;
    return false;
}

static tg_status check_pad(tg_plan *p, tg_error *err)
{
    const tg_plan_facts *f = &p->facts;
    tg_pad_kind kind = TG_PAD_NONE;
    TG_TRY(tg_pad_parse_kind(f->pad, &kind, err));
    p->padded = kind != TG_PAD_NONE;
    for (uint32_t i = 0; i < p->ndim; i++)
        if (f->halo[i] > 0)
            TG_TRY(tg_pad_check(kind, f->halo[i], f->in.shape.n[i], i, err));
    return TG_OK;
}

static tg_status check_steps(const tg_plan *p, tg_error *err)
{
    const tg_plan_facts *f = &p->facts;
    for (uint32_t i = 0; i < p->ndim; i++) {
        if (f->out_step[i] == 0)
            return tg_fail(err, TG_INVALID, "a step of 0 items in dimension %u", i);
        if (f->in_place && (f->out_step[i] != 1 || f->out.shape.n[i] != f->in.shape.n[i]))
            return tg_fail(err, TG_INVALID, "in place: OUT's shape is not IN's");
    }
    return TG_OK;
}

tg_status tg_plan_derive(tg_plan *p, tg_error *err)
{
    tg_plan_facts *f = &p->facts;
    TG_TRY(make_grid(&p->in, &f->in, "IN", err));
    p->ndim = f->in.shape.ndim;
    if (f->out.shape.ndim == 0) { /* rows only: units are IN's, to divide the work by */
        p->out = p->in;
        for (uint32_t i = 0; i < p->ndim; i++)
            f->out_step[i] = 1;
    } else {
        TG_TRY(make_grid(&p->out, &f->out, "OUT", err));
    }
    if (p->out.array.ndim != p->ndim)
        return tg_fail(err, TG_INVALID, "IN has %u dimensions, OUT has %u", p->ndim,
                       p->out.array.ndim);
    TG_TRY(check_steps(p, err));
    TG_TRY(check_pad(p, err));
    p->wide = is_wide(&p->in.array) || is_wide(&p->out.array);
    if (!f->in_place)
        f->read = TG_READ_SNAPSHOT;
    if (f->parts == 0 || f->parts > 1U << 20)
        return tg_fail(err, TG_INVALID, "%u parts: want 1 to 1048576", f->parts);
    if (f->read == TG_READ_SEQUENTIAL && f->parts != 1)
        return tg_fail(err, TG_INVALID,
                       "sequential reads in %u parts: each region sees those before it, which "
                       "only one process can do",
                       f->parts);
    return TG_OK;
}

void tg_plan_bounds(const tg_plan *p, uint64_t k, uint64_t *bounds)
{
    const tg_plan_section *s = &p->section[TG_PLAN_BOX];
    uint64_t item = p->wide ? 8 : 4, n = 2 * (uint64_t)p->ndim;
    tg_plan_touch(p, (uint8_t *)s->data + k * n * item, n * item);
    for (uint32_t i = 0; i < n; i++)
        bounds[i] = tg_plan_coord(s->data, p->wide, k * n + i);
}

void tg_plan_write_bounds(const tg_plan *p, const uint64_t *region, uint64_t *write)
{
    for (uint32_t i = 0; i < p->ndim; i++) {
        uint64_t step = p->facts.out_step[i], from = region[i], to = region[p->ndim + i];
        if (step != 1) {
            from /= step;
            to = to / step + (to % step != 0);
        }
        write[p->ndim + i] = to < p->out.array.n[i] ? to : p->out.array.n[i];
        write[i] = from < write[p->ndim + i] ? from : write[p->ndim + i];
    }
}

void tg_plan_read_bounds(const tg_plan *p, const uint64_t *region, uint64_t *read)
{
    for (uint32_t i = 0; i < p->ndim; i++) {
        uint64_t halo = p->facts.halo[i], from = region[i], to = region[p->ndim + i];
        read[i] = from > halo ? from - halo : 0;
        read[p->ndim + i] = halo > p->in.array.n[i] - to ? p->in.array.n[i] : to + halo;
    }
}

static void box_of(const uint64_t *bounds, uint32_t ndim, tg_box *b)
{
    b->shape.ndim = ndim;
    for (uint32_t i = 0; i < ndim; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.*): ndim places were set, the same ndim */
        b->start[i] = bounds[i];
        b->shape.n[i] = bounds[ndim + i] - bounds[i];
    }
}

/* --- Asking --------------------------------------------------------------- */

#define AT(type, p, id, i) (((const type *)tg_plan_data(p, id)) + (i))

static const uint32_t *at_u32(const tg_plan *p, tg_plan_section_id id, uint64_t i, uint64_t n)
{
    const uint32_t *v = AT(uint32_t, p, id, i);
    tg_plan_touch(p, v, n * sizeof *v);
    return v;
}

static uint32_t get_u32(const tg_plan *p, tg_plan_section_id id, uint64_t i)
{
    return *at_u32(p, id, i, 1);
}

const tg_plan_facts *tg_plan_get_facts(const tg_plan *p)
{
    return &p->facts;
}

uint64_t tg_plan_fingerprint(const tg_plan *p)
{
    return p->fingerprint;
}

uint64_t tg_plan_n_regions(const tg_plan *p)
{
    return p->n;
}

uint64_t tg_plan_n_units(const tg_plan *p)
{
    return p->n_units;
}

const tg_plan_stats *tg_plan_get_stats(const tg_plan *p)
{
    return &p->stats;
}

static void get_pieces(const tg_plan *p, uint64_t k, tg_plan_region *out)
{
    out->n_pieces = 0;
    out->wins_nothing = false;
    if (p->section[TG_PLAN_PIECE_N].bytes == 0)
        return;
    const uint8_t *n = AT(uint8_t, p, TG_PLAN_PIECE_N, k);
    tg_plan_touch(p, n, 1);
    out->wins_nothing = *n == TG_PLAN_WINS_NOTHING;
    out->n_pieces = out->wins_nothing ? 0 : *n;
}

const char *tg_plan_name(const tg_plan *p, uint64_t k)
{
    if (p->section[TG_PLAN_NAME].bytes == 0)
        return NULL;
    const uint64_t *at = AT(uint64_t, p, TG_PLAN_NAME, k);
    tg_plan_touch(p, at, 2 * sizeof *at);
    const char *name = AT(char, p, TG_PLAN_NAMES, at[0]);
    tg_plan_touch(p, name, at[1] - at[0]);
    return name;
}

void tg_plan_region_get(const tg_plan *p, uint64_t k, tg_plan_region *out)
{
    uint64_t region[2 * TG_MAX_NDIM], other[2 * TG_MAX_NDIM];
    assert(k < p->n);
    tg_plan_bounds(p, k, region);
    box_of(region, p->ndim, &out->region);
    tg_plan_read_bounds(p, region, other);
    box_of(other, p->ndim, &out->read);
    out->in.ndim = p->ndim;
    for (uint32_t i = 0; i < p->ndim; i++) {
        const uint64_t halo = p->padded ? p->facts.halo[i] : 0;
        /* NOLINTNEXTLINE(clang-analyzer-core.*): ndim places were set, the same ndim */
        out->before[i] = p->padded ? halo : region[i] - other[i];
        out->in.n[i] = p->padded ? region[p->ndim + i] - region[i] + 2 * halo
                                 : other[p->ndim + i] - other[i];
    }
    tg_plan_write_bounds(p, region, other);
    box_of(other, p->ndim, &out->write);
    out->anchor = get_u32(p, TG_PLAN_ANCHOR, k);
    out->empty = out->anchor == TG_PLAN_NONE;
    out->label = 0;
    out->name = tg_plan_name(p, k);
    out->part = 0;
    if (p->section[TG_PLAN_LABEL].bytes != 0) {
        const uint64_t *label = AT(uint64_t, p, TG_PLAN_LABEL, k);
        tg_plan_touch(p, label, sizeof *label);
        out->label = *label;
    }
    if (!out->empty) {
        const tg_plan_unit_record *u = AT(tg_plan_unit_record, p, TG_PLAN_UNIT, out->anchor);
        tg_plan_touch(p, u, sizeof *u);
        out->part = u->part;
    }
    get_pieces(p, k, out);
}

void tg_plan_piece(const tg_plan *p, uint64_t k, uint32_t i, tg_box *piece)
{
    uint64_t b[2 * TG_MAX_NDIM], n = 2 * (uint64_t)p->ndim, item = p->wide ? 8 : 4;
    uint64_t at = (uint64_t)get_u32(p, TG_PLAN_PIECE_AT, k) + i;
    const tg_plan_section *s = &p->section[TG_PLAN_PIECE];
    tg_plan_touch(p, (uint8_t *)s->data + at * n * item, n * item);
    for (uint32_t d = 0; d < n; d++)
        b[d] = tg_plan_coord(s->data, p->wide, at * n + d);
    box_of(b, p->ndim, piece);
}

void tg_plan_outlines(const tg_plan *p, uint64_t k, tg_roi_outlines *out)
{
    *out = (tg_roi_outlines){0};
    if (p->section[TG_PLAN_RING].bytes == 0)
        return;
    out->ring = p->section[TG_PLAN_RING].data;
    out->point = p->section[TG_PLAN_POINT].data;
    out->xy = p->section[TG_PLAN_XY].data;
    tg_plan_touch(p, out->ring + k, 2 * sizeof *out->ring);
    const uint64_t first = out->ring[k], n = out->ring[k + 1] - first;
    tg_plan_touch(p, out->point + first, (n + 1) * sizeof *out->point);
    const uint64_t from = out->point[first];
    tg_plan_touch(p, out->xy + 2 * from, 16 * (out->point[first + n] - from));
}

/* The run of items that belong to position k. */
static uint32_t run_of(const tg_plan *p, tg_plan_section_id first_id, uint64_t k,
                       uint32_t *first)
{
    const uint32_t *at = at_u32(p, first_id, k, 2);
    *first = at[0];
    return at[1] - at[0];
}

uint32_t tg_plan_region_units(const tg_plan *p, uint64_t k, const tg_plan_link **links)
{
    uint32_t first, n = run_of(p, TG_PLAN_LINK_FIRST, k, &first);
    *links = AT(tg_plan_link, p, TG_PLAN_LINK, first);
    tg_plan_touch(p, *links, n * sizeof **links);
    return n;
}

void tg_plan_unit_get(const tg_plan *p, uint64_t u, tg_plan_unit *out)
{
    const tg_plan_unit_record *r = AT(tg_plan_unit_record, p, TG_PLAN_UNIT, u);
    uint32_t first;
    assert(u < p->n_units);
    tg_plan_touch(p, r, sizeof *r);
    tg_unravel(&p->out.grid, r->linear, out->index);
    out->n_writing = run_of(p, TG_PLAN_UNIT_FIRST, u, &first);
    out->n_reading = r->n_reading;
    out->n_inner = p->out.n_inner;
    out->part = r->part;
    out->border = (r->flags & TG_PLAN_BORDER) != 0;
    out->foreign_reads = (r->flags & TG_PLAN_FOREIGN_READS) != 0;
    out->ordered = (r->flags & TG_PLAN_ORDERED) != 0;
    out->full = (r->flags & TG_PLAN_FULL) != 0;
    out->weight = r->weight;
}

static void clip_unit(const tg_plan_grid *g, uint64_t linear, tg_box *box)
{
    uint64_t index[TG_MAX_NDIM];
    tg_unravel(&g->grid, linear, index);
    box->shape.ndim = g->grid.ndim;
    for (uint32_t i = 0; i < g->grid.ndim; i++) {
        uint64_t left = g->array.n[i] - index[i] * g->unit.n[i];
        box->start[i] = index[i] * g->unit.n[i];
        box->shape.n[i] = left < g->unit.n[i] ? left : g->unit.n[i];
    }
}

tg_box tg_plan_unit_box(const tg_plan *p, uint64_t u)
{
    const tg_plan_unit_record *r = AT(tg_plan_unit_record, p, TG_PLAN_UNIT, u);
    tg_box box;
    tg_plan_touch(p, r, sizeof *r);
    clip_unit(&p->out, r->linear, &box);
    return box;
}

const uint32_t *tg_plan_unit_regions(const tg_plan *p, uint64_t u)
{
    uint32_t first, n = run_of(p, TG_PLAN_UNIT_FIRST, u, &first);
    return at_u32(p, TG_PLAN_UNIT_REGION, first, n);
}

tg_coverage tg_plan_unit_coverage(const tg_plan *p, uint64_t u, uint32_t inner)
{
    const uint8_t *c = AT(uint8_t, p, TG_PLAN_UNIT_COVER, u * p->out.n_inner + inner);
    tg_plan_touch(p, c, 1);
    return (tg_coverage)*c;
}

const uint32_t *tg_plan_unit_writers(const tg_plan *p, uint64_t u)
{
    return at_u32(p, TG_PLAN_UNIT_WRITERS, u * p->out.n_inner, p->out.n_inner);
}

uint64_t tg_plan_n_sources(const tg_plan *p)
{
    return p->n_sources;
}

void tg_plan_source_index(const tg_plan *p, uint64_t s, uint64_t *index)
{
    const uint64_t *linear = AT(uint64_t, p, TG_PLAN_SOURCE, s);
    tg_plan_touch(p, linear, sizeof *linear);
    tg_unravel(&p->in.grid, *linear, index);
}

const uint32_t *tg_plan_source_readers(const tg_plan *p, uint64_t s)
{
    return at_u32(p, TG_PLAN_READERS, s * p->in.n_inner, p->in.n_inner);
}

uint32_t tg_plan_source_n_inner(const tg_plan *p)
{
    return p->in.n_inner;
}

uint32_t tg_plan_region_sources(const tg_plan *p, uint64_t k, const uint32_t **sources)
{
    uint32_t first, n = run_of(p, TG_PLAN_READ_FIRST, k, &first);
    *sources = at_u32(p, TG_PLAN_READ, first, n);
    return n;
}

uint64_t tg_plan_n_issued(const tg_plan *p)
{
    return p->n_issued;
}

uint32_t tg_plan_issued(const tg_plan *p, uint64_t i)
{
    return get_u32(p, TG_PLAN_ISSUED, i);
}

static void part_run(const tg_plan *p, tg_plan_section_id id, uint32_t part, uint64_t *first,
                     uint64_t *end)
{
    const uint32_t *at = at_u32(p, id, part, 2);
    assert(part < p->facts.parts);
    *first = at[0];
    *end = at[1];
}

void tg_plan_part_regions(const tg_plan *p, uint32_t part, uint64_t *first, uint64_t *end)
{
    part_run(p, TG_PLAN_PART_ISSUED, part, first, end);
}

void tg_plan_part_units(const tg_plan *p, uint32_t part, uint64_t *first, uint64_t *end)
{
    part_run(p, TG_PLAN_PART_UNIT, part, first, end);
}

uint32_t tg_plan_n_before(const tg_plan *p, uint64_t k)
{
    return p->section[TG_PLAN_BEFORE].bytes == 0 ? 0 : get_u32(p, TG_PLAN_BEFORE, k);
}

uint32_t tg_plan_after(const tg_plan *p, uint64_t k, const uint32_t **regions)
{
    if (p->section[TG_PLAN_AFTER_FIRST].bytes == 0) {
        *regions = NULL;
        return 0;
    }
    uint32_t first, n = run_of(p, TG_PLAN_AFTER_FIRST, k, &first);
    *regions = at_u32(p, TG_PLAN_AFTER, first, n);
    return n;
}
