/* region/plan_index.c - which units regions write and read, in which order they are issued, and
 * which part has what. */
#include "region/plan_sort.h"
#include "region/plan_state.h"

#include <string.h>

/* --- Units that were seen ------------------------------------------------- */

/* Places in the grid, numbered as they come; looked up by hash. */
typedef struct seen {
    tg_plan *p;
    tg_plan_vec linear; /* uint64_t: of each number */
    uint32_t *slots;    /* number + 1; 0: free */
    uint32_t bits;      /* 2^bits slots */
    uint64_t last;      /* the one asked for before: neighbours follow each other */
    uint32_t last_number;
} seen;

static uint64_t slot_of(const seen *s, uint64_t linear)
{
    return linear * 0x9E3779B97F4A7C15U >> (64 - s->bits);
}

static uint64_t place_at(const seen *s, uint32_t number)
{
    return ((const uint64_t *)(const void *)s->linear.data)[number];
}

/* The slot that holds it, or the free one where it belongs. */
static uint64_t find_slot(const seen *s, uint64_t linear)
{
    uint64_t at = slot_of(s, linear), mask = ((uint64_t)1 << s->bits) - 1;
    while (s->slots[at] != 0 && place_at(s, s->slots[at] - 1) != linear)
        at = (at + 1) & mask;
    return at;
}

static tg_status more_slots(seen *s, tg_error *err)
{
    uint32_t *old = s->slots, old_bits = s->bits, bits = s->bits == 0 ? 10 : s->bits + 2;
    uint64_t bytes = sizeof *old << bits, old_bytes = old == NULL ? 0 : sizeof *old << old_bits;
    if (s->p->budget != NULL)
        TG_TRY(tg_budget_reserve(s->p->budget, bytes, "the plan's units", err));
    uint32_t *slots = tg_calloc((size_t)1 << bits, sizeof *slots);
    if (slots == NULL) {
        if (s->p->budget != NULL)
            tg_budget_release(s->p->budget, bytes);
        return tg_fail(err, TG_NO_MEMORY, "no memory for the plan's units");
    }
    s->slots = slots;
    s->bits = bits;
    for (uint64_t i = 0; i < s->linear.n; i++)
        slots[find_slot(s, place_at(s, (uint32_t)i))] = (uint32_t)i + 1;
    tg_free(old);
    if (s->p->budget != NULL)
        tg_budget_release(s->p->budget, old_bytes);
    return TG_OK;
}

static void seen_free(seen *s)
{
    if (s->p->budget != NULL && s->slots != NULL)
        tg_budget_release(s->p->budget, sizeof *s->slots << s->bits);
    tg_free(s->slots);
    tg_plan_vec_free(s->p, &s->linear);
}

/* The number of a unit, a new one if it was not seen. */
static tg_status number_of(seen *s, uint64_t linear, uint32_t *number, tg_error *err)
{
    if (linear == s->last && s->linear.n > 0) {
        *number = s->last_number;
        return TG_OK;
    }
    if (s->slots == NULL || s->linear.n >> (s->bits - 1) != 0)
        TG_TRY(more_slots(s, err));
    uint64_t at = find_slot(s, linear);
    if (s->slots[at] == 0) {
        if (s->linear.n >= UINT32_MAX - 1)
            return tg_fail(err, TG_OVER_BUDGET, "regions touch more than %u units", UINT32_MAX);
        TG_TRY(tg_plan_vec_room(s->p, &s->linear, 1, err));
        ((uint64_t *)(void *)s->linear.data)[s->linear.n++] = linear;
        s->slots[at] = (uint32_t)s->linear.n;
    }
    s->last = linear;
    s->last_number = *number = s->slots[at] - 1;
    return TG_OK;
}

/* The number of a unit that was seen. */
static uint32_t number_seen(const seen *s, uint64_t linear)
{
    return s->slots[find_slot(s, linear)] - 1;
}

/* position[number]: by Morton order of the index, ties in C order. */
static void sort_units(const seen *s, const tg_plan_grid *g, tg_plan_key *keys,
                       tg_plan_key *room, uint32_t *position)
{
    uint64_t n = s->linear.n, index[TG_MAX_NDIM], ties = 0, most = 0;
    for (uint64_t i = 0; i < n; i++)
        keys[i] = (tg_plan_key){place_at(s, (uint32_t)i), (uint32_t)i};
    for (uint32_t d = 0; d < g->grid.ndim; d++)
        ties |= (g->grid.n[d] - 1) >> (64 / g->grid.ndim - 1) >> 1;
    if (ties != 0)
        tg_plan_sort(keys, room, n, 64);
    for (uint64_t i = 0; i < n; i++) {
        tg_unravel(&g->grid, keys[i].key, index);
        keys[i].key = tg_morton(index, g->grid.ndim);
        most |= keys[i].key;
    }
    tg_plan_sort(keys, room, n, tg_plan_bits(most));
    for (uint64_t i = 0; i < n; i++)
        position[keys[i].at] = (uint32_t)i;
}

/* --- Cells that a box touches --------------------------------------------- */

typedef struct cells {
    uint32_t ndim;
    uint64_t lo[TG_MAX_NDIM], hi[TG_MAX_NDIM]; /* both inclusive */
} cells;

typedef struct divider { /* most grids have powers of two */
    uint64_t by[TG_MAX_NDIM];
    uint32_t shift[TG_MAX_NDIM]; /* 64: none */
} divider;

static void make_divider(divider *d, const tg_shape *unit)
{
    for (uint32_t i = 0; i < unit->ndim; i++) {
        uint64_t n = unit->n[i];
        d->by[i] = n;
        d->shift[i] = (n & (n - 1)) == 0 ? tg_plan_bits(n) - 1 : 64;
    }
}

static uint64_t divide(const divider *d, uint32_t i, uint64_t v)
{
    return d->shift[i] < 64 ? v >> d->shift[i] : v / d->by[i];
}

/* Returns how many, UINT64_MAX if more than fit. The box is not empty. */
static uint64_t cells_of(const divider *d, const uint64_t *bounds, uint32_t ndim, cells *c)
{
    uint64_t n = 1;
    c->ndim = ndim;
    for (uint32_t i = 0; i < ndim; i++) {
        c->lo[i] = divide(d, i, bounds[i]);
        c->hi[i] = divide(d, i, bounds[ndim + i] - 1);
        if (__builtin_mul_overflow(n, c->hi[i] - c->lo[i] + 1, &n))
            return UINT64_MAX;
    }
    return n;
}

static bool next_cell(const cells *c, uint64_t *index)
{
    for (uint32_t i = c->ndim; i-- > 0;) {
        if (++index[i] <= c->hi[i])
            return true;
        index[i] = c->lo[i];
    }
    return false;
}

/* --- Links ---------------------------------------------------------------- */

typedef struct linker {
    tg_plan *p;
    seen units, sources;
    divider unit, source;
    tg_plan_vec links, reads; /* tg_plan_link and uint32_t, by numbers */
    tg_plan_vec counts;       /* uint32_t per number: regions that write it */
    tg_plan_key *keys, *room;
    uint32_t *position; /* by number */
    uint64_t scratch_bytes;
    cells *pieces; /* of the region at hand */
    uint32_t n_pieces;
} linker;

static void linker_free(linker *l)
{
    seen_free(&l->units);
    seen_free(&l->sources);
    tg_plan_vec_free(l->p, &l->links);
    tg_plan_vec_free(l->p, &l->reads);
    tg_plan_vec_free(l->p, &l->counts);
    tg_free(l->keys);
    tg_free(l->room);
    tg_free(l->position);
    tg_free(l->pieces);
    if (l->p->budget != NULL)
        tg_budget_release(l->p->budget, l->scratch_bytes);
}

/* Does the region win a pixel of this cell? */
static bool wins_cell(const linker *l, const uint64_t *index)
{
    if (l->n_pieces == 0)
        return true;
    for (uint32_t i = 0; i < l->n_pieces; i++) {
        const cells *c = &l->pieces[i];
        bool inside = true;
        for (uint32_t d = 0; d < c->ndim && inside; d++)
            /* NOLINTNEXTLINE(clang-analyzer-core.*): ndim places were set, the same ndim */
            inside = index[d] >= c->lo[d] && index[d] <= c->hi[d];
        if (inside)
            return true;
    }
    return false;
}

/* The cells of each piece; false: the region wins nothing. */
static bool get_pieces(linker *l, uint64_t k)
{
    tg_plan *p = l->p;
    uint64_t b[2 * TG_MAX_NDIM], width = 2 * (uint64_t)p->ndim;
    l->n_pieces = 0;
    if (p->section[TG_PLAN_PIECE_N].bytes == 0)
        return true;
    uint8_t n = ((const uint8_t *)tg_plan_data(p, TG_PLAN_PIECE_N))[k];
    uint64_t at = ((const uint32_t *)tg_plan_data(p, TG_PLAN_PIECE_AT))[k];
    if (n == TG_PLAN_WINS_NOTHING)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        for (uint64_t d = 0; d < width; d++)
            b[d] = tg_plan_coord(tg_plan_data(p, TG_PLAN_PIECE), p->wide, (at + i) * width + d);
        (void)cells_of(&l->unit, b, p->ndim, &l->pieces[i]);
    }
    l->n_pieces = n;
    return true;
}

static tg_status too_many(tg_error *err)
{
    return tg_fail(err, TG_OVER_BUDGET, "regions touch units more than %u times in all",
                   UINT32_MAX);
}

static tg_status link_unit(linker *l, const uint64_t *index, tg_error *err)
{
    uint32_t number;
    TG_TRY(number_of(&l->units, tg_ravel(&l->p->out.grid, index), &number, err));
    if (number >= l->counts.n) {
        TG_TRY(tg_plan_vec_room(l->p, &l->counts, 1, err));
        ((uint32_t *)(void *)l->counts.data)[l->counts.n++] = 0;
    }
    uint32_t rank = ((uint32_t *)(void *)l->counts.data)[number]++;
    ((tg_plan_link *)(void *)l->links.data)[l->links.n++] = (tg_plan_link){number, rank};
    return TG_OK;
}

static tg_status link_region(linker *l, uint64_t k, const uint64_t *region, tg_error *err)
{
    uint64_t write[2 * TG_MAX_NDIM];
    cells c;
    tg_plan_write_bounds(l->p, region, write);
    if (!get_pieces(l, k))
        return TG_OK;
    uint64_t n = cells_of(&l->unit, write, l->p->ndim, &c);
    if (n > UINT32_MAX - l->links.n)
        return too_many(err);
    TG_TRY(tg_plan_vec_room(l->p, &l->links, n, err));
    uint64_t index[TG_MAX_NDIM];
    memcpy(index, c.lo, sizeof c.lo[0] * c.ndim);
    do {
        if (wins_cell(l, index))
            TG_TRY(link_unit(l, index, err));
    } while (next_cell(&c, index));
    return TG_OK;
}

static tg_status link_sources(linker *l, const uint64_t *region, tg_error *err)
{
    uint64_t read[2 * TG_MAX_NDIM], index[TG_MAX_NDIM];
    cells c;
    tg_plan_read_bounds(l->p, region, read);
    uint64_t n = cells_of(&l->source, read, l->p->ndim, &c);
    if (n > UINT32_MAX - l->reads.n)
        return too_many(err);
    TG_TRY(tg_plan_vec_room(l->p, &l->reads, n, err));
    memcpy(index, c.lo, sizeof c.lo[0] * c.ndim);
    do {
        uint32_t number;
        TG_TRY(number_of(&l->sources, tg_ravel(&l->p->in.grid, index), &number, err));
        /* NOLINTNEXTLINE(clang-analyzer-core.*): number_of() set it */
        ((uint32_t *)(void *)l->reads.data)[l->reads.n++] = number;
    } while (next_cell(&c, index));
    return TG_OK;
}

static tg_status link_all(linker *l, const tg_cancel *cancel, tg_error *err)
{
    tg_plan *p = l->p;
    uint64_t region[2 * TG_MAX_NDIM];
    TG_TRY(tg_plan_take(p, TG_PLAN_LINK_FIRST, p->n + 1, sizeof(uint32_t), err));
    TG_TRY(tg_plan_take(p, TG_PLAN_READ_FIRST, p->n + 1, sizeof(uint32_t), err));
    uint32_t *link_first = p->section[TG_PLAN_LINK_FIRST].data;
    uint32_t *read_first = p->section[TG_PLAN_READ_FIRST].data;
    TG_TRY(tg_plan_vec_room(p, &l->links, p->n, err));
    TG_TRY(tg_plan_vec_room(p, &l->reads, p->n, err));
    for (uint64_t k = 0; k < p->n; k++) {
        if (k % 4096 == 0)
            TG_TRY(tg_cancel_check(cancel, err));
        if (!tg_plan_is_empty(p, k)) {
            tg_plan_bounds(p, k, region);
            TG_TRY(link_region(l, k, region, err));
            TG_TRY(link_sources(l, region, err));
        }
        link_first[k + 1] = (uint32_t)l->links.n;
        read_first[k + 1] = (uint32_t)l->reads.n;
    }
    return TG_OK;
}

/* Room to sort either kind of unit. */
static tg_status take_scratch(linker *l, tg_error *err)
{
    uint64_t n =
        l->units.linear.n > l->sources.linear.n ? l->units.linear.n : l->sources.linear.n;
    uint64_t bytes = n * (2 * sizeof(tg_plan_key) + sizeof(uint32_t));
    if (l->p->budget != NULL)
        TG_TRY(tg_budget_reserve(l->p->budget, bytes, "sorting the plan's units", err));
    l->scratch_bytes = bytes;
    l->keys = tg_alloc_array(n + 1, sizeof *l->keys);
    l->room = tg_alloc_array(n + 1, sizeof *l->room);
    l->position = tg_alloc_array(n + 1, sizeof *l->position);
    return l->keys != NULL && l->room != NULL && l->position != NULL
               ? TG_OK
               : tg_fail(err, TG_NO_MEMORY, "no memory to sort the plan's units");
}

/* --- Units in their order ------------------------------------------------- */

/* Ascending, in place: a region's links are few, or many once. */
static void sort_links(tg_plan_link *v, uint32_t n)
{
    uint32_t gap = 1;
    while (gap < n / 3)
        gap = gap * 3 + 1;
    for (; gap > 0; gap /= 3)
        for (uint32_t i = gap; i < n; i++) {
            tg_plan_link x = v[i];
            uint32_t at = i;
            for (; at >= gap && v[at - gap].at > x.at; at -= gap)
                v[at] = v[at - gap];
            v[at] = x;
        }
}

void tg_plan_sort_short(uint32_t *v, uint32_t n)
{
    uint32_t gap = 1;
    while (gap < n / 3)
        gap = gap * 3 + 1;
    for (; gap > 0; gap /= 3)
        for (uint32_t i = gap; i < n; i++) {
            uint32_t x = v[i], at = i;
            for (; at >= gap && v[at - gap] > x; at -= gap)
                v[at] = v[at - gap];
            v[at] = x;
        }
}

/* Anchors by number, while places can be looked up: min corners of what regions write, each in
 * a unit that some region writes, for its pixel there is won by one. */
static void find_anchors(linker *l)
{
    tg_plan *p = l->p;
    uint32_t *anchor = p->section[TG_PLAN_ANCHOR].data;
    uint64_t region[2 * TG_MAX_NDIM], write[2 * TG_MAX_NDIM], index[TG_MAX_NDIM];
    for (uint64_t k = 0; k < p->n; k++) {
        if (tg_plan_is_empty(p, k))
            continue;
        tg_plan_bounds(p, k, region);
        tg_plan_write_bounds(p, region, write);
        for (uint32_t i = 0; i < p->ndim; i++)
            index[i] = divide(&l->unit, i, write[i]);
        anchor[k] = l->position[number_seen(&l->units, tg_ravel(&p->out.grid, index))];
    }
}

static tg_status make_units(linker *l, tg_error *err)
{
    tg_plan *p = l->p;
    TG_TRY(tg_plan_take(p, TG_PLAN_UNIT, p->n_units, sizeof(tg_plan_unit_record), err));
    TG_TRY(
        tg_plan_take(p, TG_PLAN_UNIT_FIRST, (uint64_t)p->n_units + 1, sizeof(uint32_t), err));
    TG_TRY(tg_plan_take(p, TG_PLAN_UNIT_REGION, p->n_links, sizeof(uint32_t), err));
    tg_plan_unit_record *unit = p->section[TG_PLAN_UNIT].data;
    uint32_t *first = p->section[TG_PLAN_UNIT_FIRST].data;
    const uint32_t *counts = (const uint32_t *)(const void *)l->counts.data;
    for (uint32_t i = 0; i < p->n_units; i++) {
        unit[l->position[i]].linear = place_at(&l->units, i);
        first[l->position[i] + 1] = counts[i];
        if (counts[i] > p->stats.most_writing)
            p->stats.most_writing = counts[i];
    }
    for (uint32_t i = 0; i < p->n_units; i++)
        first[i + 1] += first[i];
    return TG_OK;
}

/* Numbers become positions; the list of each unit is filled. */
static void settle_links(linker *l)
{
    tg_plan *p = l->p;
    tg_plan_link *links = p->section[TG_PLAN_LINK].data;
    const uint32_t *at = tg_plan_data(p, TG_PLAN_LINK_FIRST);
    const uint32_t *first = tg_plan_data(p, TG_PLAN_UNIT_FIRST);
    uint32_t *region = p->section[TG_PLAN_UNIT_REGION].data;
    for (uint64_t k = 0; k < p->n; k++) {
        for (uint32_t i = at[k]; i < at[k + 1]; i++) {
            uint32_t u = l->position[links[i].at], n = first[u + 1] - first[u];
            links[i].at = u;
            if (p->facts.policy == TG_POLICY_FIRST)
                links[i].rank = n - 1 - links[i].rank;
            region[first[u] + links[i].rank] = (uint32_t)k;
        }
        sort_links(links + at[k], at[k + 1] - at[k]);
    }
}

static void mark_ordered(tg_plan *p)
{
    tg_plan_unit_record *unit = p->section[TG_PLAN_UNIT].data;
    const uint32_t *at = tg_plan_data(p, TG_PLAN_LINK_FIRST);
    const tg_plan_link *links = tg_plan_data(p, TG_PLAN_LINK);
    const uint32_t *piece = tg_plan_data(p, TG_PLAN_PIECE_AT);
    bool all = tg_plan_is_ordered(&p->facts);
    for (uint32_t u = 0; u < p->n_units && all; u++)
        unit[u].flags |= TG_PLAN_ORDERED;
    if (p->stats.unclipped == 0)
        return;
    for (uint64_t k = 0; k < p->n; k++)
        for (uint32_t i = at[k]; piece[k] == TG_PLAN_NONE && i < at[k + 1]; i++)
            unit[links[i].at].flags |= TG_PLAN_ORDERED;
}

static tg_status make_order(tg_plan *p, tg_error *err)
{
    const uint32_t *anchor = tg_plan_data(p, TG_PLAN_ANCHOR);
    p->n_issued = (uint32_t)(p->n - p->stats.empty);
    TG_TRY(tg_plan_take(p, TG_PLAN_ISSUED, p->n_issued, sizeof(uint32_t), err));
    uint32_t *issued = p->section[TG_PLAN_ISSUED].data;
    TG_AUTO(tg_mem_ptr) room = tg_calloc((size_t)p->n_units + 1, sizeof(uint32_t));
    uint32_t *next = room;
    if (next == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to order %u units", p->n_units);
    for (uint64_t k = 0; k < p->n; k++)
        if (anchor[k] != TG_PLAN_NONE)
            next[anchor[k] + 1]++;
    for (uint32_t u = 0; u < p->n_units; u++)
        next[u + 1] += next[u];
    for (uint64_t k = 0; k < p->n; k++)
        if (anchor[k] != TG_PLAN_NONE)
            issued[next[anchor[k]]++] = (uint32_t)k;
    return TG_OK;
}

/* --- Sources -------------------------------------------------------------- */

/* Count a region at each inner chunk of one source that its read box touches. */
static void count_inner(const tg_plan *p, const divider *chunk, const uint64_t *read,
                        uint64_t linear, uint32_t *readers)
{
    uint64_t unit[TG_MAX_NDIM], b[2 * TG_MAX_NDIM], index[TG_MAX_NDIM];
    cells c;
    tg_unravel(&p->in.grid, linear, unit);
    for (uint32_t i = 0; i < p->ndim; i++) {
        uint64_t from = unit[i] * p->in.unit.n[i], to = p->in.unit.n[i];
        b[i] = read[i] > from ? read[i] - from : 0;
        b[p->ndim + i] = read[p->ndim + i] - from < to ? read[p->ndim + i] - from : to;
    }
    (void)cells_of(chunk, b, p->ndim, &c);
    memcpy(index, c.lo, sizeof c.lo[0] * c.ndim);
    do
        readers[tg_ravel(&p->in.inner, index)]++;
    while (next_cell(&c, index));
}

static void count_readers(linker *l)
{
    tg_plan *p = l->p;
    const uint32_t *at = tg_plan_data(p, TG_PLAN_READ_FIRST);
    uint32_t *reads = p->section[TG_PLAN_READ].data;
    uint32_t *readers = p->section[TG_PLAN_READERS].data;
    const uint64_t *linear = tg_plan_data(p, TG_PLAN_SOURCE);
    uint64_t region[2 * TG_MAX_NDIM], read[2 * TG_MAX_NDIM];
    divider chunk;
    make_divider(&chunk, &p->in.chunk);
    for (uint64_t k = 0; k < p->n; k++) {
        for (uint32_t i = at[k]; i < at[k + 1]; i++)
            reads[i] = l->position[reads[i]];
        tg_plan_sort_short(reads + at[k], at[k + 1] - at[k]);
        if (p->in.n_inner == 1) {
            for (uint32_t i = at[k]; i < at[k + 1]; i++)
                readers[reads[i]]++;
            continue;
        }
        if (at[k] == at[k + 1])
            continue;
        tg_plan_bounds(p, k, region);
        tg_plan_read_bounds(p, region, read);
        for (uint32_t i = at[k]; i < at[k + 1]; i++)
            count_inner(p, &chunk, read, linear[reads[i]],
                        readers + (uint64_t)reads[i] * p->in.n_inner);
    }
}

static tg_status make_sources(linker *l, tg_error *err)
{
    tg_plan *p = l->p;
    p->n_sources = (uint32_t)l->sources.linear.n;
    TG_TRY(tg_plan_take(p, TG_PLAN_SOURCE, p->n_sources, sizeof(uint64_t), err));
    TG_TRY(tg_plan_take(p, TG_PLAN_READERS, (uint64_t)p->n_sources * p->in.n_inner,
                        sizeof(uint32_t), err));
    sort_units(&l->sources, &p->in, l->keys, l->room, l->position);
    uint64_t *linear = p->section[TG_PLAN_SOURCE].data;
    for (uint32_t i = 0; i < p->n_sources; i++)
        linear[l->position[i]] = place_at(&l->sources, i);
    tg_plan_vec_move(p, &l->reads, TG_PLAN_READ);
    count_readers(l);
    return TG_OK;
}

static tg_status index_with(linker *l, const tg_cancel *cancel, tg_error *err)
{
    tg_plan *p = l->p;
    TG_TRY(link_all(l, cancel, err));
    TG_TRY(take_scratch(l, err));
    p->n_units = (uint32_t)l->units.linear.n;
    p->n_links = (uint32_t)l->links.n;
    sort_units(&l->units, &p->out, l->keys, l->room, l->position);
    tg_plan_vec_move(p, &l->links, TG_PLAN_LINK);
    TG_TRY(make_units(l, err));
    settle_links(l);
    find_anchors(l);
    mark_ordered(p);
    TG_TRY(make_order(p, err));
    return make_sources(l, err);
}

tg_status tg_plan_index(tg_plan *p, const tg_cancel *cancel, tg_error *err)
{
    linker l = {.p = p,
                .units = {.p = p, .linear.item_bytes = sizeof(uint64_t)},
                .sources = {.p = p, .linear.item_bytes = sizeof(uint64_t)},
                .links.item_bytes = sizeof(tg_plan_link),
                .reads.item_bytes = sizeof(uint32_t),
                .counts.item_bytes = sizeof(uint32_t)};
    make_divider(&l.unit, &p->out.unit);
    make_divider(&l.source, &p->in.unit);
    l.pieces = tg_alloc_array(TG_PLAN_MAX_PIECES, sizeof *l.pieces);
    tg_status st = l.pieces != NULL ? index_with(&l, cancel, err)
                                    : tg_fail(err, TG_NO_MEMORY, "no memory for the plan");
    linker_free(&l);
    return st;
}

/* --- Parts ---------------------------------------------------------------- */

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t volume(const uint64_t *bounds, uint32_t ndim)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(n, bounds[ndim + i] - bounds[i], &n))
            return UINT64_MAX;
    return n;
}

/* What a unit costs its owner: the items that the regions anchored in it read and make, and its
 * own. */
static void weigh(tg_plan *p)
{
    tg_plan_unit_record *unit = p->section[TG_PLAN_UNIT].data;
    const uint32_t *anchor = tg_plan_data(p, TG_PLAN_ANCHOR);
    uint64_t region[2 * TG_MAX_NDIM], b[2 * TG_MAX_NDIM];
    for (uint32_t u = 0; u < p->n_units; u++) {
        tg_box box = tg_plan_unit_box(p, u);
        uint64_t n = 1;
        for (uint32_t i = 0; i < p->ndim; i++)
            if (__builtin_mul_overflow(n, box.shape.n[i], &n))
                n = UINT64_MAX;
        unit[u].weight = n;
        p->stats.items = add(p->stats.items, n);
    }
    for (uint64_t k = 0; k < p->n; k++) {
        if (anchor[k] == TG_PLAN_NONE)
            continue;
        tg_plan_bounds(p, k, region);
        tg_plan_read_bounds(p, region, b);
        uint64_t *weight = &unit[anchor[k]].weight;
        *weight = add(*weight, volume(b, p->ndim));
        tg_plan_write_bounds(p, region, b);
        *weight = add(*weight, volume(b, p->ndim));
    }
    /* Sums of them must fit what the cut is made in. */
    for (uint32_t u = 0; u < p->n_units; u++)
        if (unit[u].weight >> 60 != 0)
            unit[u].weight = (uint64_t)1 << 60;
}

static tg_status cut_units(tg_plan *p, uint64_t *weights, uint64_t *first, tg_error *err)
{
    tg_plan_unit_record *unit = p->section[TG_PLAN_UNIT].data;
    uint32_t *part_unit = p->section[TG_PLAN_PART_UNIT].data, parts = p->facts.parts;
    for (uint32_t u = 0; u < p->n_units; u++)
        weights[u] = unit[u].weight;
    TG_TRY(tg_units_cut(weights, p->n_units, parts, first, err));
    for (uint32_t i = 0; i < parts; i++)
        for (uint64_t u = first[i]; u < first[i + 1]; u++)
            unit[u].part = i;
    for (uint32_t i = 0; i <= parts; i++)
        part_unit[i] = (uint32_t)first[i];
    return TG_OK;
}

/* Regions follow their anchors, so those of a part are a run too. */
static void cut_regions(tg_plan *p)
{
    const uint32_t *issued = tg_plan_data(p, TG_PLAN_ISSUED);
    const uint32_t *anchor = tg_plan_data(p, TG_PLAN_ANCHOR);
    const tg_plan_unit_record *unit = tg_plan_data(p, TG_PLAN_UNIT);
    uint32_t *first = p->section[TG_PLAN_PART_ISSUED].data, at = 0;
    for (uint32_t part = 0; part <= p->facts.parts; part++) {
        while (at < p->n_issued && unit[anchor[issued[at]]].part < part)
            at++;
        first[part] = at;
    }
}

static void mark_borders(tg_plan *p)
{
    tg_plan_unit_record *unit = p->section[TG_PLAN_UNIT].data;
    const uint32_t *anchor = tg_plan_data(p, TG_PLAN_ANCHOR);
    const uint32_t *first = tg_plan_data(p, TG_PLAN_UNIT_FIRST);
    const uint32_t *region = tg_plan_data(p, TG_PLAN_UNIT_REGION);
    for (uint32_t u = 0; u < p->n_units; u++) {
        for (uint32_t i = first[u]; i < first[u + 1]; i++)
            if (unit[anchor[region[i]]].part != unit[u].part)
                unit[u].flags |= TG_PLAN_BORDER;
        if ((unit[u].flags & TG_PLAN_BORDER) != 0) {
            tg_box box = tg_plan_unit_box(p, u);
            uint64_t n = 0;
            if (tg_shape_items(&box.shape, &n, NULL) != TG_OK)
                n = UINT64_MAX;
            p->stats.border_units++;
            p->stats.border_items = add(p->stats.border_items, n);
        }
    }
}

/* In place the units are among the sources, in the same order. */
static void count_reading(tg_plan *p)
{
    tg_plan_unit_record *unit = p->section[TG_PLAN_UNIT].data;
    const uint32_t *anchor = tg_plan_data(p, TG_PLAN_ANCHOR);
    const uint32_t *at = tg_plan_data(p, TG_PLAN_READ_FIRST);
    const uint32_t *read = tg_plan_data(p, TG_PLAN_READ);
    const uint64_t *linear = tg_plan_data(p, TG_PLAN_SOURCE);
    uint32_t *of_source = p->section[TG_PLAN_PART_ISSUED].data; /* scratch, see caller */
    uint32_t u = 0;
    for (uint32_t s = 0; s < p->n_sources; s++) {
        bool same = u < p->n_units && unit[u].linear == linear[s];
        of_source[s] = same ? u : TG_PLAN_NONE;
        u += same;
    }
    for (uint64_t k = 0; k < p->n; k++)
        for (uint32_t i = at[k]; i < at[k + 1]; i++) {
            if (of_source[read[i]] == TG_PLAN_NONE)
                continue;
            tg_plan_unit_record *r = &unit[of_source[read[i]]];
            r->n_reading++;
            if (unit[anchor[k]].part != r->part)
                r->flags |= TG_PLAN_FOREIGN_READS;
        }
}

tg_status tg_plan_divide(tg_plan *p, tg_error *err)
{
    uint64_t parts = (uint64_t)p->facts.parts + 1;
    TG_AUTO(tg_mem_ptr) first = tg_alloc_array(parts, sizeof(uint64_t));
    TG_AUTO(tg_mem_ptr) weights = tg_alloc_array((size_t)p->n_units + 1, sizeof(uint64_t));
    if (first == NULL || weights == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %u parts", p->facts.parts);
    weigh(p);
    TG_TRY(tg_plan_take(p, TG_PLAN_PART_UNIT, parts, sizeof(uint32_t), err));
    TG_TRY(cut_units(p, weights, first, err));
    mark_borders(p);
    if (p->facts.in_place) {
        TG_TRY(tg_plan_take(p, TG_PLAN_PART_ISSUED, p->n_sources, sizeof(uint32_t), err));
        count_reading(p);
        tg_plan_drop(p, TG_PLAN_PART_ISSUED);
    }
    TG_TRY(tg_plan_take(p, TG_PLAN_PART_ISSUED, parts, sizeof(uint32_t), err));
    cut_regions(p);
    return TG_OK;
}
