/* region/plan_cover.c - how far each inner chunk of each unit is written, and by how many
 * regions. Where boxes are known to be apart their areas tell; else the union is walked. */
#include "region/plan_state.h"

#include <string.h>

enum { UNDECIDED = TG_COVER_FULL + 1, MAX_DEPTH = 160 };

typedef struct cover {
    tg_plan *p;
    uint32_t ndim, width; /* 2 x ndim */
    uint64_t *area;       /* per inner chunk: items written, each box counted by itself */
    uint32_t *stamp;      /* place in the unit's list, + 1, of the last that wrote it */
    uint64_t scratch_bytes;
    uint64_t start[TG_MAX_NDIM], extent[TG_MAX_NDIM]; /* of the unit, within the array */
    uint32_t *writers;
    uint8_t *state;

    tg_plan_vec boxes; /* of the unit at hand, width x uint64_t, from the unit's start */
    tg_plan_vec list;  /* uint32_t: those that still matter, a run per depth */
    uint64_t steps;    /* left to decide in */
} cover;

typedef struct span { /* starts and ends */
    uint64_t lo[TG_MAX_NDIM], hi[TG_MAX_NDIM];
} span;

static uint64_t volume(const span *s, uint32_t ndim)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(n, s->hi[i] - s->lo[i], &n))
            return UINT64_MAX;
    return n;
}

/* --- The boxes of a unit -------------------------------------------------- */

/* Box i of region k, from the unit's start, cut to the unit; false: nothing is left, or there
 * is no such box (*end). */
static bool get_box(const cover *c, uint32_t k, uint32_t i, span *out, bool *end)
{
    const tg_plan *p = c->p;
    uint64_t b[2 * TG_MAX_NDIM];
    uint32_t n = 0;
    if (p->section[TG_PLAN_PIECE_N].bytes != 0)
        n = ((const uint8_t *)tg_plan_data(p, TG_PLAN_PIECE_N))[k];
    *end = i >= (n == 0 ? 1 : n);
    if (*end)
        return false;
    if (n == 0) {
        uint64_t region[2 * TG_MAX_NDIM];
        tg_plan_bounds(p, k, region);
        tg_plan_write_bounds(p, region, b);
    } else {
        uint64_t at = ((const uint32_t *)tg_plan_data(p, TG_PLAN_PIECE_AT))[k] + (uint64_t)i;
        for (uint32_t d = 0; d < c->width; d++)
            b[d] = tg_plan_coord(tg_plan_data(p, TG_PLAN_PIECE), p->wide, at * c->width + d);
    }
    for (uint32_t d = 0; d < c->ndim; d++) {
        uint64_t end_d = c->start[d] + c->extent[d];
        /* NOLINTNEXTLINE(clang-analyzer-core.*): ndim places were set, the same ndim */
        uint64_t lo = b[d] > c->start[d] ? b[d] : c->start[d];
        uint64_t hi = b[c->ndim + d] < end_d ? b[c->ndim + d] : end_d;
        if (lo >= hi)
            return false;
        out->lo[d] = lo - c->start[d];
        out->hi[d] = hi - c->start[d];
    }
    return true;
}

/* The items of an inner chunk, from the unit's start, within the array; false: none. */
static bool chunk_span(const cover *c, const uint64_t *index, span *out)
{
    for (uint32_t d = 0; d < c->ndim; d++) {
        uint64_t n = c->p->out.chunk.n[d];
        out->lo[d] = index[d] * n;
        if (out->lo[d] >= c->extent[d])
            return false;
        out->hi[d] = n < c->extent[d] - out->lo[d] ? out->lo[d] + n : c->extent[d];
    }
    return true;
}

static void add_to_chunk(cover *c, const uint64_t *index, const span *box, uint32_t place)
{
    span part, chunk;
    uint64_t at = tg_ravel(&c->p->out.inner, index);
    if (!chunk_span(c, index, &chunk))
        return;
    for (uint32_t d = 0; d < c->ndim; d++) {
        part.lo[d] = box->lo[d] > chunk.lo[d] ? box->lo[d] : chunk.lo[d];
        part.hi[d] = box->hi[d] < chunk.hi[d] ? box->hi[d] : chunk.hi[d];
    }
    uint64_t n = volume(&part, c->ndim);
    if (n == volume(&chunk, c->ndim))
        c->state[at] = TG_COVER_FULL; /* by itself */
    c->area[at] = n > UINT64_MAX - c->area[at] ? UINT64_MAX : c->area[at] + n;
    if (c->stamp[at] != place + 1) {
        c->stamp[at] = place + 1;
        c->writers[at]++;
    }
}

static void add_box(cover *c, const span *box, uint32_t place)
{
    uint64_t first[TG_MAX_NDIM] = {0}, last[TG_MAX_NDIM] = {0}, index[TG_MAX_NDIM];
    for (uint32_t d = 0; d < c->ndim; d++) {
        index[d] = first[d] = box->lo[d] / c->p->out.chunk.n[d];
        last[d] = (box->hi[d] - 1) / c->p->out.chunk.n[d];
    }
    for (;;) {
        add_to_chunk(c, index, box, place);
        uint32_t d = c->ndim;
        while (d > 0 && ++index[d - 1] > last[d - 1]) {
            index[d - 1] = first[d - 1];
            d--;
        }
        if (d == 0)
            return;
    }
}

/* --- Exact unions --------------------------------------------------------- */

static const uint64_t *box_at(const cover *c, uint32_t i)
{
    return (const uint64_t *)(const void *)c->boxes.data + (uint64_t)i * c->width;
}

/* Of list[first, end) those that overlap s go to the list's end. *whole: one contains it.
 * false: no room or no steps left. */
static bool filter(cover *c, const span *s, uint64_t first, uint64_t end, bool *whole)
{
    uint32_t *list = (uint32_t *)(void *)c->list.data;
    *whole = false;
    c->list.n = end;
    if (c->steps < end - first)
        return false;
    c->steps -= end - first;
    for (uint64_t i = first; i < end; i++) {
        const uint64_t *b = box_at(c, list[i]);
        bool meets = true, contains = true;
        for (uint32_t d = 0; d < c->ndim; d++) {
            meets &= b[d] < s->hi[d] && b[c->ndim + d] > s->lo[d];
            contains &= b[d] <= s->lo[d] && b[c->ndim + d] >= s->hi[d];
        }
        if (!meets)
            continue;
        *whole = *whole || contains;
        if (c->list.n == c->list.cap)
            return false;
        list[c->list.n++] = list[i];
    }
    return true;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* An edge inside s, near the middle of the longest dimension that has one. */
static uint32_t find_cut(const cover *c, const span *s, uint64_t first, uint64_t end,
                         uint64_t *cut)
{
    const uint32_t *list = (const uint32_t *)(const void *)c->list.data;
    uint32_t best = TG_MAX_NDIM;
    for (uint64_t i = first; i < end; i++) {
        const uint64_t *b = box_at(c, list[i]);
        for (uint32_t e = 0; e < c->width; e++) {
            uint32_t d = e % c->ndim;
            uint64_t middle = s->lo[d] + (s->hi[d] - s->lo[d]) / 2;
            if (b[e] <= s->lo[d] || b[e] >= s->hi[d])
                continue;
            bool longer =
                best == TG_MAX_NDIM || s->hi[d] - s->lo[d] > s->hi[best] - s->lo[best];
            if (longer || (d == best && distance(b[e], middle) < distance(*cut, middle))) {
                best = d;
                *cut = b[e];
            }
        }
    }
    return best;
}

/* Do boxes of list[first, end) cover s? Not certain: false, which only costs a read. */
static bool is_covered(cover *c, const span *s, uint64_t first, uint64_t end, uint32_t depth)
{
    bool whole;
    uint64_t cut = 0;
    if (depth == MAX_DEPTH || !filter(c, s, first, end, &whole))
        return false;
    if (whole)
        return true;
    uint64_t from = end, to = c->list.n;
    uint32_t d = find_cut(c, s, from, to, &cut);
    if (from == to || d == TG_MAX_NDIM)
        return false;
    span half = *s;
    half.hi[d] = cut;
    if (!is_covered(c, &half, from, to, depth + 1))
        return false;
    half = *s;
    half.lo[d] = cut;
    return is_covered(c, &half, from, to, depth + 1);
}

/* Decide the inner chunks in [lo, hi), of which list[first, end) may cover some. */
static void decide(cover *c, const span *chunks, uint64_t first, uint64_t end)
{
    span items, last_chunk;
    uint64_t last[TG_MAX_NDIM];
    bool whole, found;
    uint32_t longest = 0;
    for (uint32_t d = 0; d < c->ndim; d++) {
        last[d] = chunks->hi[d] - 1;
        if (chunks->hi[d] - chunks->lo[d] > chunks->hi[longest] - chunks->lo[longest])
            longest = d;
    }
    if (!chunk_span(c, chunks->lo, &items) || !chunk_span(c, last, &last_chunk))
        return; /* cut to the array by the caller */
    memcpy(items.hi, last_chunk.hi, sizeof items.hi[0] * c->ndim);
    found = filter(c, &items, first, end, &whole);
    uint64_t from = end, to = c->list.n;
    /* NOLINTNEXTLINE(clang-analyzer-core.*): ndim places were set, the same ndim */
    if (chunks->hi[longest] - chunks->lo[longest] == 1) {
        uint8_t *state = &c->state[tg_ravel(&c->p->out.inner, chunks->lo)];
        if (*state == UNDECIDED)
            *state =
                found && is_covered(c, &items, from, to, 0) ? TG_COVER_FULL : TG_COVER_PARTIAL;
        return;
    }
    if (!found) { /* the list is not whole: nothing more is certain */
        from = first;
        to = end;
    }
    span half = *chunks;
    uint64_t middle = chunks->lo[longest] + (chunks->hi[longest] - chunks->lo[longest]) / 2;
    half.hi[longest] = middle;
    decide(c, &half, from, to);
    half = *chunks;
    half.lo[longest] = middle;
    decide(c, &half, from, to);
}

static tg_status collect(cover *c, uint32_t u, tg_error *err)
{
    const uint32_t *first = tg_plan_data(c->p, TG_PLAN_UNIT_FIRST);
    const uint32_t *region = tg_plan_data(c->p, TG_PLAN_UNIT_REGION);
    bool end = false;
    span box;
    c->boxes.n = 0;
    for (uint32_t i = first[u]; i < first[u + 1]; i++)
        for (uint32_t piece = 0; piece == 0 || !end; piece++) {
            if (!get_box(c, region[i], piece, &box, &end))
                continue;
            TG_TRY(tg_plan_vec_room(c->p, &c->boxes, 1, err));
            uint64_t *b = (uint64_t *)(void *)c->boxes.data + c->boxes.n * c->width;
            memcpy(b, box.lo, c->ndim * sizeof *b);
            memcpy(b + c->ndim, box.hi, c->ndim * sizeof *b);
            c->boxes.n++;
        }
    return TG_OK;
}

static tg_status decide_unit(cover *c, uint32_t u, tg_error *err)
{
    span chunks;
    TG_TRY(collect(c, u, err));
    c->list.n = 0;
    TG_TRY(tg_plan_vec_room(c->p, &c->list, 24 * c->boxes.n + 1024, err));
    uint32_t *list = (uint32_t *)(void *)c->list.data;
    for (uint64_t i = 0; i < c->boxes.n; i++)
        list[i] = (uint32_t)i;
    c->steps = 400 * c->boxes.n + 100000;
    for (uint32_t d = 0; d < c->ndim; d++) {
        uint64_t n = c->p->out.chunk.n[d];
        chunks.lo[d] = 0;
        chunks.hi[d] = c->extent[d] / n + (c->extent[d] % n != 0);
    }
    decide(c, &chunks, 0, c->boxes.n);
    return TG_OK;
}

/* --- Units ---------------------------------------------------------------- */

/* State of each inner chunk as far as areas tell. Returns whether one is left undecided. */
static bool judge(cover *c, uint32_t u)
{
    const tg_plan *p = c->p;
    const tg_plan_unit_record *r = (const tg_plan_unit_record *)tg_plan_data(p, TG_PLAN_UNIT);
    bool keeps = tg_policy_keeps_base(p->facts.policy), open = false;
    bool apart = (p->facts.policy == TG_POLICY_ERROR || p->facts.policy == TG_POLICY_LAST ||
                  p->facts.policy == TG_POLICY_FIRST) &&
                 (r[u].flags & TG_PLAN_ORDERED) == 0;
    for (uint32_t i = 0; i < p->out.n_inner; i++) {
        uint64_t index[TG_MAX_NDIM];
        span chunk;
        if (c->writers[i] == 0)
            continue;
        if (c->state[i] == TG_COVER_FULL && !keeps)
            continue;
        tg_unravel(&p->out.inner, i, index);
        bool all = chunk_span(c, index, &chunk) && c->area[i] >= volume(&chunk, c->ndim);
        c->state[i] = TG_COVER_PARTIAL;
        if (all && !keeps)
            c->state[i] = apart ? TG_COVER_FULL : UNDECIDED;
        open = open || c->state[i] == UNDECIDED;
    }
    return open;
}

static void begin_unit(cover *c, uint32_t u)
{
    tg_box box = tg_plan_unit_box(c->p, u);
    uint32_t n = c->p->out.n_inner;
    memcpy(c->start, box.start, sizeof c->start[0] * c->ndim);
    memcpy(c->extent, box.shape.n, sizeof c->extent[0] * c->ndim);
    memset(c->area, 0, n * sizeof *c->area);
    memset(c->stamp, 0, n * sizeof *c->stamp);
    c->writers = (uint32_t *)c->p->section[TG_PLAN_UNIT_WRITERS].data + (uint64_t)u * n;
    c->state = (uint8_t *)c->p->section[TG_PLAN_UNIT_COVER].data + (uint64_t)u * n;
}

static bool is_full(const cover *c)
{
    for (uint32_t i = 0; i < c->p->out.n_inner; i++) {
        uint64_t index[TG_MAX_NDIM];
        span chunk;
        if (c->state[i] == TG_COVER_FULL)
            continue;
        tg_unravel(&c->p->out.inner, i, index);
        if (chunk_span(c, index, &chunk))
            return false;
    }
    return true;
}

static tg_status cover_unit(cover *c, uint32_t u, tg_error *err)
{
    const uint32_t *first = tg_plan_data(c->p, TG_PLAN_UNIT_FIRST);
    const uint32_t *region = tg_plan_data(c->p, TG_PLAN_UNIT_REGION);
    tg_plan_unit_record *r = c->p->section[TG_PLAN_UNIT].data;
    bool end = false;
    span box;
    begin_unit(c, u);
    for (uint32_t i = first[u]; i < first[u + 1]; i++)
        for (uint32_t piece = 0; piece == 0 || !end; piece++)
            if (get_box(c, region[i], piece, &box, &end))
                add_box(c, &box, i - first[u]);
    if (judge(c, u))
        TG_TRY(decide_unit(c, u, err));
    if (is_full(c))
        r[u].flags |= TG_PLAN_FULL;
    return TG_OK;
}

static tg_status cover_all(cover *c, const tg_cancel *cancel, tg_error *err)
{
    tg_plan *p = c->p;
    uint64_t n = p->out.n_inner, bytes = n * (sizeof *c->area + sizeof *c->stamp);
    if (p->budget != NULL)
        TG_TRY(tg_budget_reserve(p->budget, bytes, "a shard's coverage", err));
    c->scratch_bytes = bytes;
    c->area = tg_alloc_array(n, sizeof *c->area);
    c->stamp = tg_alloc_array(n, sizeof *c->stamp);
    if (c->area == NULL || c->stamp == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the coverage of %u chunks",
                       p->out.n_inner);
    for (uint32_t u = 0; u < p->n_units; u++) {
        TG_TRY(tg_cancel_check(cancel, err));
        TG_TRY(cover_unit(c, u, err));
    }
    return TG_OK;
}

tg_status tg_plan_cover(tg_plan *p, const tg_cancel *cancel, tg_error *err)
{
    cover c = {.p = p,
               .ndim = p->ndim,
               .width = 2 * p->ndim,
               .boxes.item_bytes = (size_t)2 * p->ndim * sizeof(uint64_t),
               .list.item_bytes = sizeof(uint32_t)};
    uint64_t n = (uint64_t)p->n_units * p->out.n_inner;
    TG_TRY(tg_plan_take(p, TG_PLAN_UNIT_WRITERS, n, sizeof(uint32_t), err));
    TG_TRY(tg_plan_take(p, TG_PLAN_UNIT_COVER, n, 1, err));
    if (p->facts.out.shape.ndim == 0)
        return TG_OK;
    tg_status st = cover_all(&c, cancel, err);
    tg_free(c.area);
    tg_free(c.stamp);
    tg_plan_vec_free(p, &c.boxes);
    tg_plan_vec_free(p, &c.list);
    if (p->budget != NULL)
        tg_budget_release(p->budget, c.scratch_bytes);
    return st;
}
