/* region/plan_clip.c - what follows from regions that overlap: the pixels that each wins (last,
 * first), a refusal (error), who waits for whom (sequential). Knows boxes, no units. */
#include "region/plan_join.h"
#include "region/plan_state.h"

#include <stdio.h>
#include <string.h>

enum { LANES = TG_JOIN_LANES, MAX_PIECES = TG_PLAN_MAX_PIECES };

static bool write_box(void *user, uint64_t k, uint64_t *bounds)
{
    const tg_plan *p = user;
    uint64_t region[2 * TG_MAX_NDIM];
    if (tg_plan_is_empty(p, k))
        return false;
    tg_plan_bounds(p, k, region);
    tg_plan_write_bounds(p, region, bounds);
    return true;
}

static uint64_t greatest_extent(const tg_plan *p)
{
    uint64_t most = 0;
    for (uint32_t d = 0; d < p->ndim; d++) {
        most = p->in.array.n[d] > most ? p->in.array.n[d] : most;
        if (d < p->out.array.ndim)
            most = p->out.array.n[d] > most ? p->out.array.n[d] : most;
    }
    return most;
}

static tg_status run(tg_plan *p, const tg_join_walk *walks, uint32_t n_walks,
                     const tg_cancel *cancel, tg_error *err)
{
    uint64_t bytes = tg_join_bytes(p->n, p->ndim, greatest_extent(p));
    tg_join_spec spec = {p->ndim, p->n, write_box, p};
    tg_join *j = NULL;
    if (p->budget != NULL)
        TG_TRY(tg_budget_reserve(p->budget, bytes, "finding regions that overlap", err));
    tg_status st = tg_join_new(&j, &spec, err);
    for (uint32_t i = 0; i < n_walks && st == TG_OK; i++)
        st = tg_join_run(j, &walks[i], cancel, err);
    tg_join_free(j);
    if (p->budget != NULL)
        tg_budget_release(p->budget, bytes);
    return st;
}

static tg_status begin_nothing(void *user, uint32_t lane, uint32_t k, const uint64_t *bounds,
                               tg_error *err)
{
    (void)user, (void)lane, (void)k, (void)bounds, (void)err;
    return TG_OK;
}

static tg_status end_nothing(void *user, uint32_t lane, uint32_t k, tg_error *err)
{
    (void)user, (void)lane, (void)k, (void)err;
    return TG_OK;
}

/* --- Refusing ------------------------------------------------------------- */

enum { MAX_COUNTED = 1 << 26 }; /* pairs; all of a million regions in one place would be 2^39 */

typedef struct refusal {
    uint64_t pairs;
    uint32_t a, b; /* the first pair in list order */
} refusal;

static bool count_pair(void *user, uint32_t lane, uint32_t k, uint32_t other,
                       const uint64_t *bounds)
{
    refusal *r = user;
    (void)lane, (void)bounds;
    if (r->pairs == 0 || k < r->a || (k == r->a && other < r->b)) {
        r->a = k;
        r->b = other;
    }
    if (r->pairs == MAX_COUNTED)
        return false;
    r->pairs++;
    return true;
}

static void name_of(const tg_plan *p, uint32_t k, char *room, size_t cap)
{
    const char *name = tg_plan_name(p, k);
    if (name == NULL)
        (void)snprintf(room, cap, "%u", k);
    else
        (void)snprintf(room, cap, "%u '%.40s'", k, name);
}

static tg_status refuse(const tg_plan *p, const refusal *r, tg_error *err)
{
    char a[64], b[64];
    name_of(p, r->a, a, sizeof a);
    name_of(p, r->b, b, sizeof b);
    return tg_fail(err, TG_INVALID,
                   "regions %s and %s overlap (%s%llu pair%s in all), and the policy is error: "
                   "want another, such as last, max or mean",
                   a, b, r->pairs == MAX_COUNTED ? "more than " : "",
                   (unsigned long long)r->pairs, r->pairs == 1 ? "" : "s");
}

static tg_status refuse_overlaps(tg_plan *p, const tg_cancel *cancel, tg_error *err)
{
    refusal r = {0};
    tg_join_walk walk = {true, NULL, &r, begin_nothing, count_pair, end_nothing};
    TG_TRY(run(p, &walk, 1, cancel, err));
    return r.pairs == 0 ? TG_OK : refuse(p, &r, err);
}

/* --- Clipping ------------------------------------------------------------- */

typedef struct clipped {
    uint64_t *pieces; /* MAX_PIECES boxes, and as many again to work in */
    uint32_t n;
    bool cut;      /* something was taken away */
    bool too_many; /* is folded in order instead */
} clipped;

typedef struct clipper {
    tg_plan *p;
    clipped lanes[LANES];
    tg_plan_vec pieces;
    uint64_t most_hits; /* of all, counted to the end; beyond, a region's end when it is decided
                         */
} clipper;

/* What of box a lies outside of b, which it overlaps, as up to 2 x ndim boxes: slabs along the
 * slowest dimension first. Returns their number; beyond `cap` none is written. */
static uint32_t subtract(const uint64_t *a, const uint64_t *b, uint32_t ndim, uint64_t *out,
                         uint32_t cap)
{
    uint64_t rest[2 * TG_MAX_NDIM];
    uint32_t n = 0, width = 2 * ndim;
    memcpy(rest, a, width * sizeof *rest);
    for (uint32_t d = 0; d < ndim; d++)
        for (uint32_t side = 0; side < 2; side++) {
            if (side == 0 ? rest[d] >= b[d] : rest[ndim + d] <= b[ndim + d])
                continue;
            if (n < cap) {
                uint64_t *slab = out + (size_t)n * width;
                memcpy(slab, rest, width * sizeof *rest);
                slab[side == 0 ? ndim + d : d] = side == 0 ? b[d] : b[ndim + d];
            }
            n++;
            rest[side == 0 ? d : ndim + d] = side == 0 ? b[d] : b[ndim + d];
        }
    return n;
}

static bool meet(const uint64_t *a, const uint64_t *b, uint32_t ndim)
{
    for (uint32_t d = 0; d < ndim; d++)
        if (a[d] >= b[ndim + d] || b[d] >= a[ndim + d])
            return false;
    return true;
}

static void clip(clipped *l, const uint64_t *b, uint32_t ndim)
{
    size_t width = (size_t)2 * ndim;
    uint64_t *fresh = l->pieces + width * MAX_PIECES;
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const uint64_t *a = l->pieces + i * width;
        uint32_t cap = MAX_PIECES - n, more = 1;
        if (meet(a, b, ndim))
            more = subtract(a, b, ndim, fresh + n * width, cap);
        else if (cap > 0)
            memcpy(fresh + n * width, a, width * sizeof *a);
        if (more > cap) {
            l->too_many = true;
            return;
        }
        n += more;
    }
    memcpy(l->pieces, fresh, n * width * sizeof *fresh);
    l->n = n;
}

static tg_status begin_clip(void *user, uint32_t at, uint32_t k, const uint64_t *bounds,
                            tg_error *err)
{
    clipper *c = user;
    clipped *l = &c->lanes[at];
    (void)k, (void)err;
    memcpy(l->pieces, bounds, (size_t)2 * c->p->ndim * sizeof *bounds);
    l->n = 1;
    l->cut = l->too_many = false;
    return TG_OK;
}

static bool hit_clip(void *user, uint32_t at, uint32_t k, uint32_t other,
                     const uint64_t *bounds)
{
    clipper *c = user;
    clipped *l = &c->lanes[at];
    (void)k, (void)other;
    l->cut = true;
    c->p->stats.pairs++;
    if (l->n > 0 && !l->too_many)
        clip(l, bounds, c->p->ndim);
    return (l->n > 0 && !l->too_many) || c->p->stats.pairs < c->most_hits;
}

static tg_status end_clip(void *user, uint32_t at, uint32_t k, tg_error *err)
{
    clipper *c = user;
    tg_plan *p = c->p;
    clipped *l = &c->lanes[at];
    uint8_t *n = (uint8_t *)p->section[TG_PLAN_PIECE_N].data + k;
    if (!l->cut)
        return TG_OK;
    if (l->too_many) {
        p->stats.unclipped++;
        ((uint32_t *)p->section[TG_PLAN_PIECE_AT].data)[k] = TG_PLAN_NONE;
        return TG_OK;
    }
    if (l->n == 0) {
        p->stats.wins_nothing++;
        *n = TG_PLAN_WINS_NOTHING;
        return TG_OK;
    }
    if (c->pieces.n + l->n > UINT32_MAX)
        return tg_fail(err, TG_OVER_BUDGET, "overlaps cut regions into more than %u pieces",
                       UINT32_MAX);
    TG_TRY(tg_plan_vec_room(p, &c->pieces, l->n, err));
    *n = (uint8_t)l->n;
    ((uint32_t *)p->section[TG_PLAN_PIECE_AT].data)[k] = (uint32_t)c->pieces.n;
    uint64_t width = 2 * (uint64_t)p->ndim;
    for (uint64_t i = 0; i < l->n * width; i++)
        tg_plan_set_coord(c->pieces.data, p->wide, c->pieces.n * width + i, l->pieces[i]);
    c->pieces.n += l->n;
    return TG_OK;
}

static tg_status clip_with(clipper *c, const tg_cancel *cancel, tg_error *err)
{
    tg_plan *p = c->p;
    tg_join_walk walk = {.later = p->facts.policy == TG_POLICY_LAST,
                         .user = c,
                         .begin = begin_clip,
                         .hit = hit_clip,
                         .end = end_clip};
    TG_TRY(tg_plan_take(p, TG_PLAN_PIECE_AT, p->n, sizeof(uint32_t), err));
    TG_TRY(tg_plan_take(p, TG_PLAN_PIECE_N, p->n, 1, err));
    TG_TRY(run(p, &walk, 1, cancel, err));
    p->stats.pieces = c->pieces.n;
    p->stats.pairs_capped = p->stats.pairs >= c->most_hits;
    if (p->stats.pairs == 0) {
        tg_plan_drop(p, TG_PLAN_PIECE_AT);
        tg_plan_drop(p, TG_PLAN_PIECE_N);
    }
    return TG_OK;
}

/* A region that was not clipped has no pieces, like one that nothing was taken from, but a
 * place that no piece has: its units are folded in order. */
static tg_status clip_regions(tg_plan *p, const tg_cancel *cancel, tg_error *err)
{
    clipper c = {.p = p,
                 .pieces.item_bytes = (size_t)2 * p->ndim * (p->wide ? 8 : 4),
                 .most_hits = 64 * p->n + (1 << 20)};
    size_t room = (size_t)2 * p->ndim * MAX_PIECES * 2;
    TG_AUTO(tg_mem_ptr) pieces = tg_alloc_array(room * LANES, sizeof(uint64_t));
    if (pieces == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to clip regions");
    for (size_t i = 0; i < LANES; i++)
        c.lanes[i].pieces = (uint64_t *)pieces + i * room;
    tg_status st = clip_with(&c, cancel, err);
    if (st == TG_OK)
        tg_plan_vec_move(p, &c.pieces, TG_PLAN_PIECE);
    else
        tg_plan_vec_free(p, &c.pieces);
    return st;
}

tg_status tg_plan_overlaps(tg_plan *p, const tg_cancel *cancel, tg_error *err)
{
    if (p->facts.policy == TG_POLICY_ERROR)
        return refuse_overlaps(p, cancel, err);
    if (p->facts.out.shape.ndim == 0) /* rows only: nothing to win */
        return TG_OK;
    if (p->facts.policy == TG_POLICY_LAST || p->facts.policy == TG_POLICY_FIRST)
        return clip_regions(p, cancel, err);
    return TG_OK;
}

/* --- Sequential ----------------------------------------------------------- */

/* OUT is IN here, so that boxes of both compare. j < k conflict if k reads what j writes, or j
 * what k writes, or both write a pixel; the halo being one for all, each is: j's box, grown by
 * it, overlaps k's. Clipping at the border takes nothing away that lies in an array's box. */
typedef struct conflicts {
    tg_plan *p;
    uint32_t *before, *after, *next; /* next: where the next of k goes */
} conflicts;

static bool count_conflict(void *user, uint32_t lane, uint32_t k, uint32_t other,
                           const uint64_t *bounds)
{
    conflicts *c = user;
    (void)lane, (void)bounds;
    c->before[other]++;
    c->next[k + 1]++;
    c->p->stats.pairs++;
    return c->p->stats.pairs < UINT32_MAX;
}

static bool put_conflict(void *user, uint32_t lane, uint32_t k, uint32_t other,
                         const uint64_t *bounds)
{
    conflicts *c = user;
    (void)lane, (void)bounds;
    c->after[c->next[k]++] = other;
    return true;
}

/* From counts to first places, and room for all. */
static tg_status place_conflicts(conflicts *c, tg_error *err)
{
    tg_plan *p = c->p;
    if (p->stats.pairs >= UINT32_MAX)
        return tg_fail(err, TG_OVER_BUDGET,
                       "sequential reads: more than %u pairs of regions conflict", UINT32_MAX);
    for (uint64_t k = 0; k < p->n; k++)
        c->next[k + 1] += c->next[k];
    TG_TRY(tg_plan_take(p, TG_PLAN_AFTER, p->stats.pairs, sizeof(uint32_t), err));
    c->after = p->section[TG_PLAN_AFTER].data;
    return TG_OK;
}

tg_status tg_plan_conflicts(tg_plan *p, const tg_cancel *cancel, tg_error *err)
{
    if (p->facts.read != TG_READ_SEQUENTIAL)
        return TG_OK;
    TG_TRY(tg_plan_take(p, TG_PLAN_BEFORE, p->n, sizeof(uint32_t), err));
    TG_TRY(tg_plan_take(p, TG_PLAN_AFTER_FIRST, p->n + 1, sizeof(uint32_t), err));
    conflicts c = {.p = p,
                   .before = p->section[TG_PLAN_BEFORE].data,
                   .next = p->section[TG_PLAN_AFTER_FIRST].data};
    tg_join_walk walk = {true, p->facts.halo, &c, begin_nothing, count_conflict, end_nothing};
    p->stats.pairs = 0;
    TG_TRY(run(p, &walk, 1, cancel, err));
    TG_TRY(place_conflicts(&c, err));
    walk.hit = put_conflict;
    TG_TRY(run(p, &walk, 1, cancel, err));
    /* next[k] is where k's end now, that is where k + 1 begins. */
    memmove(c.next + 1, c.next, p->n * sizeof *c.next);
    c.next[0] = 0;
    for (uint64_t k = 0; k < p->n; k++)
        tg_plan_sort_short(c.after + c.next[k], c.next[k + 1] - c.next[k]);
    return TG_OK;
}
