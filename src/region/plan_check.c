/* region/plan_check.c - is what lies in a plan's sections what a plan holds? Sums find damage;
 * this finds what was made to mislead: every position is in bounds, every count is what follows
 * from the rest, so that a run can neither read astray nor wait for what never comes. */
#include "region/plan_state.h"

#include <string.h>

static tg_status bad(tg_error *err, const char *what, uint64_t at)
{
    return tg_fail(err, TG_CORRUPT, "the plan: %s (%llu)", what, (unsigned long long)at);
}

/* --- Sizes ---------------------------------------------------------------- */

static tg_status want(const tg_plan *p, tg_plan_section_id id, uint64_t n, uint64_t item_bytes,
                      bool may_lack, tg_error *err)
{
    uint64_t bytes;
    if (may_lack && p->section[id].bytes == 0)
        return TG_OK;
    return __builtin_mul_overflow(n, item_bytes, &bytes) || p->section[id].bytes != bytes
               ? bad(err, "a section of another size than follows from the header", id)
               : TG_OK;
}

static tg_status count_items(const tg_plan *p, tg_plan_section_id id, uint64_t item_bytes,
                             uint32_t *n, tg_error *err)
{
    uint64_t bytes = p->section[id].bytes;
    if (bytes % item_bytes != 0 || bytes / item_bytes >= UINT32_MAX)
        return bad(err, "a section that holds no whole number of items", id);
    *n = (uint32_t)(bytes / item_bytes);
    return TG_OK;
}

static tg_status check_sizes(tg_plan *p, tg_error *err)
{
    uint64_t box = 2 * (uint64_t)p->ndim * (p->wide ? 8 : 4), n = p->n;
    uint32_t pieces, reads, after;
    bool clips = p->section[TG_PLAN_PIECE_N].bytes != 0;
    bool sequential = p->facts.read == TG_READ_SEQUENTIAL;
    if (n >= UINT32_MAX || p->stats.empty > n)
        return bad(err, "the number of regions", n);
    TG_TRY(count_items(p, TG_PLAN_UNIT, sizeof(tg_plan_unit_record), &p->n_units, err));
    TG_TRY(count_items(p, TG_PLAN_LINK, sizeof(tg_plan_link), &p->n_links, err));
    TG_TRY(count_items(p, TG_PLAN_SOURCE, 8, &p->n_sources, err));
    TG_TRY(count_items(p, TG_PLAN_READ, 4, &reads, err));
    TG_TRY(count_items(p, TG_PLAN_AFTER, 4, &after, err));
    TG_TRY(count_items(p, TG_PLAN_PIECE, box, &pieces, err));
    p->n_issued = (uint32_t)(n - p->stats.empty);
    TG_TRY(want(p, TG_PLAN_BOX, n, box, false, err));
    TG_TRY(want(p, TG_PLAN_LABEL, n, 8, true, err));
    TG_TRY(want(p, TG_PLAN_NAME, n + 1, 8, true, err));
    TG_TRY(want(p, TG_PLAN_ANCHOR, n, 4, false, err));
    TG_TRY(want(p, TG_PLAN_LINK_FIRST, n + 1, 4, false, err));
    TG_TRY(want(p, TG_PLAN_UNIT_FIRST, (uint64_t)p->n_units + 1, 4, false, err));
    TG_TRY(want(p, TG_PLAN_UNIT_REGION, p->n_links, 4, false, err));
    TG_TRY(want(p, TG_PLAN_UNIT_WRITERS, (uint64_t)p->n_units * p->out.n_inner, 4, false, err));
    TG_TRY(want(p, TG_PLAN_UNIT_COVER, (uint64_t)p->n_units * p->out.n_inner, 1, false, err));
    TG_TRY(want(p, TG_PLAN_PIECE_AT, clips ? n : 0, 4, false, err));
    TG_TRY(want(p, TG_PLAN_PIECE_N, clips ? n : 0, 1, false, err));
    TG_TRY(want(p, TG_PLAN_READERS, (uint64_t)p->n_sources * p->in.n_inner, 4, false, err));
    TG_TRY(want(p, TG_PLAN_READ_FIRST, n + 1, 4, false, err));
    TG_TRY(want(p, TG_PLAN_ISSUED, p->n_issued, 4, false, err));
    TG_TRY(want(p, TG_PLAN_PART_UNIT, (uint64_t)p->facts.parts + 1, 4, false, err));
    TG_TRY(want(p, TG_PLAN_PART_ISSUED, (uint64_t)p->facts.parts + 1, 4, false, err));
    TG_TRY(want(p, TG_PLAN_BEFORE, sequential ? n : 0, 4, false, err));
    return want(p, TG_PLAN_AFTER_FIRST, sequential ? n + 1 : 0, 4, false, err);
}

/* --- Lists ---------------------------------------------------------------- */

static uint32_t u32_at(const tg_plan *p, tg_plan_section_id id, uint64_t i)
{
    const uint32_t *v = (const uint32_t *)tg_plan_data(p, id) + i;
    tg_plan_touch(p, v, sizeof *v);
    return *v;
}

/* First places: from 0 to n, never back. */
static tg_status check_first(const tg_plan *p, tg_plan_section_id id, uint64_t n_lists,
                             uint64_t n, tg_error *err)
{
    uint32_t before = 0;
    for (uint64_t i = 0; i <= n_lists; i++) {
        uint32_t at = u32_at(p, id, i);
        if (at < before || at > n || (i == 0 && at != 0))
            return bad(err, "the runs of a list are out of order", id);
        before = at;
    }
    return before == n ? TG_OK : bad(err, "the runs of a list do not end where it does", id);
}

static tg_status check_firsts(const tg_plan *p, tg_error *err)
{
    uint64_t reads = p->section[TG_PLAN_READ].bytes / 4;
    TG_TRY(check_first(p, TG_PLAN_LINK_FIRST, p->n, p->n_links, err));
    TG_TRY(check_first(p, TG_PLAN_UNIT_FIRST, p->n_units, p->n_links, err));
    TG_TRY(check_first(p, TG_PLAN_READ_FIRST, p->n, reads, err));
    TG_TRY(check_first(p, TG_PLAN_PART_UNIT, p->facts.parts, p->n_units, err));
    TG_TRY(check_first(p, TG_PLAN_PART_ISSUED, p->facts.parts, p->n_issued, err));
    if (p->section[TG_PLAN_AFTER_FIRST].bytes != 0)
        return check_first(p, TG_PLAN_AFTER_FIRST, p->n, p->section[TG_PLAN_AFTER].bytes / 4,
                           err);
    return TG_OK;
}

static tg_status check_names(const tg_plan *p, tg_error *err)
{
    uint64_t bytes = p->section[TG_PLAN_NAMES].bytes, before = 0;
    const char *names = tg_plan_data(p, TG_PLAN_NAMES);
    if (p->section[TG_PLAN_NAME].bytes == 0)
        return bytes == 0 ? TG_OK : bad(err, "names of no region", bytes);
    const uint64_t *name = tg_plan_data(p, TG_PLAN_NAME);
    for (uint64_t k = 0; k <= p->n; k++) {
        tg_plan_touch(p, name + k, 8);
        uint64_t at = name[k];
        if (k == 0 ? at != 0 : at <= before || at > bytes)
            return bad(err, "a name's place", k);
        if (k > 0) {
            tg_plan_touch(p, names + at - 1, 1);
            if (names[at - 1] != '\0')
                return bad(err, "a name without an end", k - 1);
        }
        before = at;
    }
    return before == bytes ? TG_OK : bad(err, "names of no region", bytes);
}

/* Places of rings and points; a coordinate may be any. */
static tg_status check_outlines(const tg_plan *p, tg_error *err)
{
    static const tg_plan_section_id of[] = {TG_PLAN_RING, TG_PLAN_POINT, TG_PLAN_XY};
    uint64_t n = p->n;

    for (int i = 0; i < 2 && p->section[TG_PLAN_RING].bytes != 0; i++) {
        const uint64_t *first = tg_plan_data(p, of[i]);
        TG_TRY(want(p, of[i], n + 1, 8, false, err));
        for (uint64_t k = 0; k <= n; k++) {
            tg_plan_touch(p, first + k, 8);
            if (k == 0 ? first[0] != 0 : first[k] < first[k - 1])
                return bad(err, "the outline of a region", k);
        }
        n = first[n];
        if (n >= UINT64_MAX / 16)
            return bad(err, "the number of an outline's points", n);
    }
    if (p->section[TG_PLAN_RING].bytes == 0)
        return p->section[TG_PLAN_POINT].bytes + p->section[TG_PLAN_XY].bytes == 0
                   ? TG_OK
                   : bad(err, "outlines of no region", n);
    return want(p, TG_PLAN_XY, n, 16, false, err);
}

/* --- Boxes ---------------------------------------------------------------- */

static bool lies_in(const uint64_t *b, const uint64_t *within, uint32_t ndim)
{
    for (uint32_t i = 0; i < ndim; i++)
        if (b[i] >= b[ndim + i] || b[i] < within[i] || b[ndim + i] > within[ndim + i])
            return false;
    return true;
}

static tg_status check_pieces(const tg_plan *p, uint64_t k, const uint64_t *write,
                              tg_error *err)
{
    const uint8_t *n = tg_plan_data(p, TG_PLAN_PIECE_N);
    uint64_t b[2 * TG_MAX_NDIM], width = 2 * (uint64_t)p->ndim, item = p->wide ? 8 : 4;
    if (p->section[TG_PLAN_PIECE_N].bytes == 0)
        return TG_OK;
    tg_plan_touch(p, n + k, 1);
    if (n[k] == TG_PLAN_WINS_NOTHING || n[k] == 0)
        return TG_OK;
    uint64_t at = u32_at(p, TG_PLAN_PIECE_AT, k);
    if (n[k] > TG_PLAN_MAX_PIECES ||
        at + n[k] > p->section[TG_PLAN_PIECE].bytes / (width * item))
        return bad(err, "the place of a region's pieces", k);
    for (uint64_t i = at; i < at + n[k]; i++) {
        tg_plan_touch(p, (const uint8_t *)tg_plan_data(p, TG_PLAN_PIECE) + i * width * item,
                      width * item);
        for (uint64_t d = 0; d < width; d++)
            b[d] = tg_plan_coord(tg_plan_data(p, TG_PLAN_PIECE), p->wide, i * width + d);
        if (!lies_in(b, write, p->ndim))
            return bad(err, "a piece that does not lie in its region", k);
    }
    return TG_OK;
}

/* The place of the unit that holds the item at `start`. */
static uint64_t unit_of(const tg_plan_grid *g, const uint64_t *start)
{
    uint64_t index[TG_MAX_NDIM];
    for (uint32_t i = 0; i < g->grid.ndim; i++)
        index[i] = start[i] / g->unit.n[i];
    return tg_ravel(&g->grid, index);
}

static const tg_plan_unit_record *unit_at(const tg_plan *p, uint32_t u)
{
    const tg_plan_unit_record *r =
        (const tg_plan_unit_record *)tg_plan_data(p, TG_PLAN_UNIT) + u;
    tg_plan_touch(p, r, sizeof *r);
    return r;
}

/* Does a box have items in a unit? */
static bool touches(const tg_plan_grid *g, uint64_t linear, const uint64_t *b)
{
    uint64_t index[TG_MAX_NDIM];
    tg_unravel(&g->grid, linear, index);
    for (uint32_t i = 0; i < g->grid.ndim; i++)
        if (index[i] < b[i] / g->unit.n[i] ||
            index[i] > (b[g->grid.ndim + i] - 1) / g->unit.n[i])
            return false;
    return true;
}

static tg_status check_links(const tg_plan *p, uint64_t k, const uint64_t *write, tg_error *err)
{
    const tg_plan_link *links;
    uint32_t n = tg_plan_region_units(p, k, &links);
    bool loses = false;
    if (p->section[TG_PLAN_PIECE_N].bytes != 0)
        loses = ((const uint8_t *)tg_plan_data(p, TG_PLAN_PIECE_N))[k] == TG_PLAN_WINS_NOTHING;
    if ((n == 0) != loses)
        return bad(err, "a region that writes no unit", k);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t u = links[i].at;
        if (u >= p->n_units || (i > 0 && u <= links[i - 1].at))
            return bad(err, "a region's units", k);
        uint32_t first = u32_at(p, TG_PLAN_UNIT_FIRST, u);
        uint32_t end = u32_at(p, TG_PLAN_UNIT_FIRST, (uint64_t)u + 1);
        if (links[i].rank >= end - first ||
            u32_at(p, TG_PLAN_UNIT_REGION, (uint64_t)first + links[i].rank) != k)
            return bad(err, "a unit does not know of a region that writes it", k);
        if (!touches(&p->out, unit_at(p, u)->linear, write))
            return bad(err, "a region that lies elsewhere than its unit", k);
    }
    return TG_OK;
}

static tg_status check_reads(const tg_plan *p, uint64_t k, const uint64_t *read, tg_error *err)
{
    const uint32_t *sources;
    uint32_t n = tg_plan_region_sources(p, k, &sources);
    uint64_t touched = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (sources[i] >= p->n_sources || (i > 0 && sources[i] <= sources[i - 1]))
            return bad(err, "what a region reads", k);
        const uint64_t *linear = (const uint64_t *)tg_plan_data(p, TG_PLAN_SOURCE) + sources[i];
        tg_plan_touch(p, linear, sizeof *linear);
        if (!touches(&p->in, *linear, read))
            return bad(err, "what a region reads lies elsewhere", k);
    }
    for (uint32_t i = 0; i < p->ndim; i++) {
        uint64_t cells =
            (read[p->ndim + i] - 1) / p->in.unit.n[i] - read[i] / p->in.unit.n[i] + 1;
        if (__builtin_mul_overflow(touched, cells, &touched))
            return bad(err, "what a region reads", k);
    }
    return touched == n ? TG_OK : bad(err, "what a region reads", k);
}

static tg_status check_empty(const tg_plan *p, uint64_t k, tg_error *err)
{
    const tg_plan_link *links;
    const uint32_t *sources;
    return tg_plan_region_units(p, k, &links) == 0 &&
                   tg_plan_region_sources(p, k, &sources) == 0
               ? TG_OK
               : bad(err, "a region of no pixels that has units", k);
}

static tg_status check_region(const tg_plan *p, uint64_t k, uint64_t *empty, tg_error *err)
{
    uint64_t b[2 * TG_MAX_NDIM], other[2 * TG_MAX_NDIM], whole[2 * TG_MAX_NDIM] = {0};
    bool nothing = false;
    tg_plan_bounds(p, k, b);
    memcpy(whole + p->ndim, p->in.array.n, p->ndim * sizeof *whole);
    for (uint32_t i = 0; i < p->ndim; i++) {
        nothing = nothing || b[i] == b[p->ndim + i];
        if (b[i] > b[p->ndim + i] || b[p->ndim + i] > whole[p->ndim + i])
            return bad(err, "a region that does not lie in IN", k);
    }
    tg_plan_write_bounds(p, b, other);
    for (uint32_t i = 0; i < p->ndim; i++)
        nothing = nothing || other[i] >= other[p->ndim + i];
    uint32_t anchor = u32_at(p, TG_PLAN_ANCHOR, k);
    if (nothing != (anchor == TG_PLAN_NONE))
        return bad(err, "a region's first unit", k);
    if (nothing) {
        ++*empty;
        return check_empty(p, k, err);
    }
    if (anchor >= p->n_units || unit_at(p, anchor)->linear != unit_of(&p->out, other))
        return bad(err, "a region's first unit", k);
    TG_TRY(check_pieces(p, k, other, err));
    TG_TRY(check_links(p, k, other, err));
    tg_plan_read_bounds(p, b, other);
    return check_reads(p, k, other, err);
}

/* --- Units ---------------------------------------------------------------- */

static uint64_t cells_of(const tg_plan_grid *g)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < g->grid.ndim; i++)
        n *= g->grid.n[i]; /* tg_plan_derive() has seen to it that it fits */
    return n;
}

static tg_status check_units(const tg_plan *p, tg_error *err)
{
    uint64_t cells = cells_of(&p->out), source_cells = cells_of(&p->in);
    uint32_t part = 0;
    for (uint32_t u = 0; u < p->n_units; u++) {
        const tg_plan_unit_record *r = unit_at(p, u);
        if (r->linear >= cells)
            return bad(err, "a unit outside of OUT", u);
        if (u32_at(p, TG_PLAN_UNIT_FIRST, u) == u32_at(p, TG_PLAN_UNIT_FIRST, (uint64_t)u + 1))
            return bad(err, "a unit that no region writes", u);
        while (part < p->facts.parts && u >= u32_at(p, TG_PLAN_PART_UNIT, (uint64_t)part + 1))
            part++;
        if (r->part != part)
            return bad(err, "a unit's part", u);
    }
    for (uint32_t s = 0; s < p->n_sources; s++) {
        const uint64_t *linear = (const uint64_t *)tg_plan_data(p, TG_PLAN_SOURCE) + s;
        tg_plan_touch(p, linear, sizeof *linear);
        if (*linear >= source_cells)
            return bad(err, "a unit outside of IN", s);
    }
    return TG_OK;
}

static tg_status check_cover(const tg_plan *p, tg_error *err)
{
    const uint8_t *cover = tg_plan_data(p, TG_PLAN_UNIT_COVER);
    bool has_out = p->facts.out.shape.ndim != 0;
    for (uint64_t i = 0; i < (uint64_t)p->n_units * p->out.n_inner; i++) {
        uint32_t u = (uint32_t)(i / p->out.n_inner);
        tg_plan_touch(p, cover + i, 1);
        uint32_t n = u32_at(p, TG_PLAN_UNIT_WRITERS, i);
        uint32_t most =
            u32_at(p, TG_PLAN_UNIT_FIRST, (uint64_t)u + 1) - u32_at(p, TG_PLAN_UNIT_FIRST, u);
        if (cover[i] > TG_COVER_FULL || (n == 0) != (cover[i] == TG_COVER_NONE) || n > most ||
            (n > 0 && !has_out))
            return bad(err, "how far a unit is written", u);
    }
    return TG_OK;
}

/* --- Order ---------------------------------------------------------------- */

/* Each region once, those of a part in its run. seen: a bit per region. */
static tg_status check_issued(const tg_plan *p, uint8_t *seen, tg_error *err)
{
    uint32_t part = 0;
    for (uint32_t i = 0; i < p->n_issued; i++) {
        uint32_t k = u32_at(p, TG_PLAN_ISSUED, i);
        if (k >= p->n || (seen[k / 8] >> k % 8 & 1) != 0 || tg_plan_is_empty(p, k))
            return bad(err, "the order of regions", i);
        seen[k / 8] = (uint8_t)(seen[k / 8] | 1U << k % 8);
        while (part < p->facts.parts && i >= u32_at(p, TG_PLAN_PART_ISSUED, (uint64_t)part + 1))
            part++;
        if (unit_at(p, u32_at(p, TG_PLAN_ANCHOR, k))->part != part)
            return bad(err, "a region in another part's run", k);
    }
    return TG_OK;
}

/* A region waits only for earlier ones, for as many as say so. */
static tg_status check_waiting(const tg_plan *p, uint32_t *before, tg_error *err)
{
    for (uint64_t k = 0; k < p->n; k++) {
        const uint32_t *after;
        uint32_t n = tg_plan_after(p, k, &after);
        if (tg_plan_n_before(p, k) != before[k] || (n > 0 && tg_plan_is_empty(p, k)))
            return bad(err, "what a region waits for", k);
        for (uint32_t i = 0; i < n; i++) {
            if (after[i] <= k || after[i] >= p->n || (i > 0 && after[i] <= after[i - 1]) ||
                tg_plan_is_empty(p, after[i]))
                return bad(err, "what a region waits for", k);
            before[after[i]]++;
        }
    }
    return TG_OK;
}

static tg_status check_order(tg_plan *p, tg_error *err)
{
    bool waits = p->section[TG_PLAN_BEFORE].bytes != 0;
    uint64_t bytes = waits ? p->n * sizeof(uint32_t) : p->n / 8 + 1;
    if (p->budget != NULL)
        TG_TRY(tg_budget_reserve(p->budget, bytes + p->n / 8 + 1, "checking the plan", err));
    TG_AUTO(tg_mem_ptr) seen = tg_calloc(p->n / 8 + 1, 1);
    TG_AUTO(tg_mem_ptr) before = tg_calloc(bytes + 1, 1);
    tg_status st = seen != NULL && before != NULL
                       ? check_issued(p, seen, err)
                       : tg_fail(err, TG_NO_MEMORY, "no memory to check a plan");
    if (st == TG_OK && waits)
        st = check_waiting(p, before, err);
    if (p->budget != NULL)
        tg_budget_release(p->budget, bytes + p->n / 8 + 1);
    return st;
}

tg_status tg_plan_check(tg_plan *p, tg_error *err)
{
    uint64_t empty = 0;
    TG_TRY(check_sizes(p, err));
    TG_TRY(check_firsts(p, err));
    TG_TRY(check_names(p, err));
    TG_TRY(check_outlines(p, err));
    TG_TRY(check_units(p, err));
    for (uint64_t k = 0; k < p->n; k++)
        TG_TRY(check_region(p, k, &empty, err));
    if (empty != p->stats.empty)
        return bad(err, "the number of regions without pixels", empty);
    TG_TRY(check_cover(p, err));
    return check_order(p, err);
}
