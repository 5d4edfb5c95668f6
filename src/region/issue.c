/* The serial step: one thread at a time takes the next region, finds the pieces it needs, and
 * reserves memory for those that are not there, by eviction if need be. It waits only for
 * regions in flight, which have all they need. */
#include "base/clock.h"
#include "region/engine.h"

#include <string.h>
#include <unistd.h>

/* --- Buffers ------------------------------------------------------------------------------ */

#define MAPPED_BYTES ((size_t)64 << 10) /* from here on given back to the system when freed */

uint8_t *tg_run_buffer_new(size_t bytes)
{
    tg_arena a = {0};

    if (bytes < MAPPED_BYTES)
        return tg_alloc(bytes == 0 ? 1 : bytes);
    return tg_arena_reserve(&a, bytes, NULL) == TG_OK ? a.data : NULL;
}

/* tg_arena_reserve() rounds up to whole pages. */
void tg_run_buffer_free(uint8_t *p, size_t bytes)
{
    if (p == NULL)
        return;
    if (bytes < MAPPED_BYTES) {
        tg_free(p);
        return;
    }
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    tg_arena a = {p, (bytes + page - 1) / page * page};
    tg_arena_unmap(&a);
}

static uint8_t *take_spare(engine *e, bool is_acc)
{
    void **list = is_acc ? &e->spare_acc : &e->spare_in;
    void *p = *list;

    if (p == NULL)
        return NULL;
    memcpy(list, p, sizeof *list);
    e->spare_bytes -= is_acc ? e->acc_bytes : e->in_bytes;
    (is_acc ? &e->n_spare_acc : &e->n_spare_in)[0]--;
    return p;
}

static void give_spare(engine *e, uint8_t *p, bool is_acc)
{
    void **list = is_acc ? &e->spare_acc : &e->spare_in;
    const size_t bytes = is_acc ? e->acc_bytes : e->in_bytes;

    if (p == NULL)
        return;
    if (bytes < sizeof *list) { /* has no room for the chain */
        tg_run_buffer_free(p, bytes);
        return;
    }
    memcpy(p, list, sizeof *list);
    *list = p;
    e->spare_bytes += bytes;
    (is_acc ? &e->n_spare_acc : &e->n_spare_in)[0]++;
}

/* --- Lists ---------------------------------------------------------------------------------
 */

void tg_run_piece_list(engine *e, piece *p)
{
    piece **oldest = p->is_acc ? &e->oldest_acc : &e->oldest;
    piece **newest = p->is_acc ? &e->newest_acc : &e->newest;

    if (p->listed)
        return;
    p->listed = true;
    p->newer = NULL;
    p->older = *newest;
    if (*newest != NULL)
        (*newest)->newer = p;
    else
        *oldest = p;
    *newest = p;
}

void tg_run_piece_unlist(engine *e, piece *p)
{
    if (!p->listed)
        return;
    p->listed = false;
    *(p->newer != NULL ? &p->newer->older : p->is_acc ? &e->newest_acc : &e->newest) = p->older;
    *(p->older != NULL ? &p->older->newer : p->is_acc ? &e->oldest_acc : &e->oldest) = p->newer;
}

void tg_run_piece_unpin(engine *e, piece *p, bool stays)
{
    if (--p->pins > 0)
        return;
    if (p->state == PIECE_READY) {
        if (stays)
            tg_run_piece_list(e, p);
    } else if (p->counted && p->state != PIECE_LEAVING) {
        give_spare(e, p->data, true); /* reserved for a region that has failed */
        p->data = NULL;
        p->counted = false;
        e->memory.used -= e->acc_bytes;
    }
}

static piece **bucket(engine *e, uint64_t key)
{
    return &e->table[(key * 0x9e3779b97f4a7c15u >> 20) & e->table_mask];
}

static piece *find_chunk(engine *e, uint64_t key)
{
    piece *p = *bucket(e, key);
    while (p != NULL && p->key != key)
        p = p->chain;
    return p;
}

void tg_run_piece_drop(engine *e, piece *p)
{
    tg_run_piece_unlist(e, p);
    give_spare(e, p->data, p->is_acc);
    p->data = NULL;
    if (p->counted)
        e->memory.used -= p->is_acc ? e->acc_bytes : e->in_bytes + sizeof *p;
    p->counted = false;
    if (p->is_acc)
        return;
    piece **at = bucket(e, p->key);
    while (*at != p)
        at = &(*at)->chain;
    *at = p->chain;
    tg_free(p);
}

/* --- Memory --------------------------------------------------------------------------------
 */

/* An accumulator that nobody folds into goes to the swap file; e->lock is let go meanwhile. */
static tg_status swap_out(engine *e, piece *p, tg_error *err)
{
    tg_run_piece_unlist(e, p);
    p->state = PIECE_LEAVING;
    tg_mutex_unlock(&e->lock);
    tg_status st = tg_swap_out(&e->swap, p->data, &p->slot, &p->sum, err);
    tg_mutex_lock(&e->lock);
    p->state = st == TG_OK ? PIECE_SWAPPED : PIECE_READY;
    if (st == TG_OK) {
        e->r.spilled_bytes += e->acc_bytes;
        give_spare(e, p->data, true);
        p->data = NULL;
        p->counted = false;
        e->memory.used -= e->acc_bytes;
    }
    tg_cond_broadcast(&e->ready);
    return st;
}

/* What a region needs that is not there. */
typedef struct needs {
    uint64_t chunks, n_chunks; /* of IN: bytes, number */
    uint64_t rest, n_accs;     /* accumulators, units, room to park; number of the first */
    uint64_t n_units;
} needs;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Bytes that would be held with all that the region needs: spare buffers are used first. */
static uint64_t held(const engine *e, const needs *n)
{
    return e->memory.used + e->spare_bytes + n->rest + n->chunks -
           least(n->n_chunks, e->n_spare_in) * e->in_bytes -
           least(n->n_accs, e->n_spare_acc) * e->acc_bytes;
}

/* More at once than is missing, so that the budget is not asked for each region. */
static bool ask_budget(engine *e, uint64_t more)
{
    const uint64_t asks[] = {more + (more < (1u << 20) ? 1u << 20 : 0), more};

    for (int i = 0; i < 2; i++)
        if (tg_budget_reserve(e->budget, asks[i], "regions", NULL) == TG_OK) {
            e->memory.limit += asks[i];
            return true;
        }
    return false;
}

/* Spare buffers that the region does not need are given back only where the budget has no more:
 * to map and touch a buffer anew costs as much as to fill it. */
static bool fits(engine *e, const needs *n)
{
    while (held(e, n) > e->memory.limit) {
        if (ask_budget(e, held(e, n) - e->memory.limit))
            return true;
        const bool is_acc = e->n_spare_acc > n->n_accs;
        if (!is_acc && e->n_spare_in <= n->n_chunks)
            return false;
        tg_run_buffer_free(take_spare(e, is_acc), is_acc ? e->acc_bytes : e->in_bytes);
    }
    return true;
}

/* One step towards room for `need`. *waited: something was given back, look again. False: there
 * is nothing to evict or to wait for. */
static bool make_room(engine *e, tg_status *st, tg_error *err)
{
    *st = TG_OK;
    if (e->oldest != NULL) {
        tg_run_piece_drop(e, e->oldest);
        return true;
    }
    if (e->oldest_acc != NULL) {
        *st = swap_out(e, e->oldest_acc, err);
        return true;
    }
    if (e->in_flight == 0)
        return false;
    tg_cond_wait(&e->room, &e->lock);
    return true;
}

/* --- What a region touches ------------------------------------------------------------------
 */

bool tg_run_unit_is_done(const engine *e, uint32_t u)
{
    return e->past.done != NULL && (e->past.done[u / 8] >> (u % 8) & 1) != 0;
}

bool tg_run_unit_is_own(const engine *e, uint32_t u)
{
    return u >= e->first_unit && u < e->end_unit;
}

void tg_run_touch_begin(const engine *e, touch_walk *w, const uint64_t *unit_index,
                        const tg_plan_region *r)
{
    const tg_array_meta *m = e->o.out->meta;
    tg_box part; /* only the dimensions that there are are touched, here and below */

    part.shape.ndim = m->info.ndim;
    for (uint32_t d = 0; d < m->info.ndim; d++) {
        w->origin[d] = unit_index[d] * m->grid.n[d];
        part.start[d] = unit_index[d] * m->shard.n[d];
        part.shape.n[d] = m->shard.n[d];
    }
    w->more = tg_box_intersect(&part, &r->write, &part);
    if (!w->more)
        return;
    tg_grid_cover(&part, &m->chunk, &w->cover);
    memcpy(w->at, w->cover.start, m->info.ndim * sizeof *w->at);
}

/* The chunk at a place of the grid as a box of items, and its place in its unit. */
static void place_chunk(const tg_array_meta *m, const uint64_t *at, const uint64_t *origin,
                        tg_box *box, uint64_t *inside)
{
    box->shape.ndim = m->info.ndim;
    for (uint32_t d = 0; d < m->info.ndim; d++) {
        inside[d] = at[d] - origin[d];
        box->start[d] = at[d] * m->chunk.n[d];
        box->shape.n[d] = m->chunk.n[d];
    }
}

static bool wins_some(const engine *e, uint32_t k, const tg_plan_region *r, const tg_box *chunk)
{
    tg_box won, part;

    for (uint32_t i = 0; i < r->n_pieces; i++) {
        tg_plan_piece(e->o.plan, k, i, &won);
        if (tg_box_intersect(&won, chunk, &part))
            return true;
    }
    return r->n_pieces == 0;
}

bool tg_run_touch_next(const engine *e, touch_walk *w, uint32_t k, const tg_plan_region *r,
                       touch *t)
{
    const tg_array_meta *m = e->o.out->meta;
    uint64_t inside[TG_MAX_NDIM];

    while (w->more) {
        place_chunk(m, w->at, w->origin, &t->box, inside);
        t->inner = (uint32_t)tg_ravel(&m->grid, inside);
        w->more = tg_box_next(&w->cover, w->at);
        if (wins_some(e, k, r, &t->box))
            return true;
    }
    return false;
}

void tg_run_chunks_begin(const engine *e, chunk_walk *w, uint32_t k, const tg_plan_region *r)
{
    w->i = 0;
    w->more = false;
    w->n = tg_plan_region_sources(e->o.plan, k, &w->sources);
    tg_grid_cover(&r->read, &e->o.in->meta->chunk, &w->read);
}

static bool next_source(const engine *e, chunk_walk *w)
{
    const tg_array_meta *m = e->o.in->meta;
    uint64_t index[TG_MAX_NDIM];
    tg_box unit;

    unit.shape.ndim = m->info.ndim;
    while (!w->more && w->i < w->n) {
        tg_plan_source_index(e->o.plan, w->sources[w->i++], index);
        for (uint32_t d = 0; d < m->info.ndim; d++) {
            unit.start[d] = w->origin[d] = index[d] * m->grid.n[d];
            unit.shape.n[d] = m->grid.n[d];
        }
        w->more = tg_box_intersect(&unit, &w->read, &w->cover);
        if (w->more)
            memcpy(w->at, w->cover.start, m->info.ndim * sizeof *w->at);
    }
    return w->more;
}

bool tg_run_chunks_next(const engine *e, chunk_walk *w, uint64_t *key, tg_box *box)
{
    const tg_array_meta *m = e->o.in->meta;
    uint64_t inside[TG_MAX_NDIM];

    if (!w->more && !next_source(e, w))
        return false;
    place_chunk(m, w->at, w->origin, box, inside);
    *key = (uint64_t)w->sources[w->i - 1] << 32 | tg_ravel(&m->grid, inside);
    w->more = tg_box_next(&w->cover, w->at);
    return true;
}

/* --- Reserving ------------------------------------------------------------------------------
 */

static size_t unit_bytes(uint32_t n_inner)
{
    return sizeof(live_unit) + n_inner * sizeof(piece);
}

/* Is the unit one that the region is folded into here, now? */
static bool is_folded(const engine *e, const slot *s, uint32_t u, tg_plan_unit *unit)
{
    if ((e->o.merge ? u != s->unit : !tg_run_unit_is_own(e, u)) || tg_run_unit_is_done(e, u))
        return false;
    tg_plan_unit_get(e->o.plan, u, unit);
    return e->o.merge || !(unit->border || unit->foreign_reads);
}

static void pin_units(engine *e, slot *s, needs *n)
{
    const tg_plan_link *links;
    const uint32_t n_links = tg_plan_region_units(e->o.plan, s->k, &links);
    tg_plan_unit unit;
    touch_walk w;
    touch t;

    s->accs_ready = true;
    for (uint32_t i = 0; i < n_links; i++) {
        if (!is_folded(e, s, links[i].at, &unit))
            continue;
        live_unit *u = e->live[links[i].at - e->first_unit];
        if (u == NULL) {
            n->rest += unit_bytes(unit.n_inner);
            n->n_units++;
        }
        if (unit.ordered && s->parked_bytes == 0 && !e->o.merge) {
            uint64_t items = 1;
            for (uint32_t d = 0; d < s->r.write.shape.ndim; d++)
                items *= s->r.write.shape.n[d];
            s->parked_bytes = items * tg_run_fold_bytes(e);
        }
        tg_run_touch_begin(e, &w, unit.index, &s->r);
        while (tg_run_touch_next(e, &w, s->k, &s->r, &t)) {
            piece *p = u == NULL ? NULL : &u->inner[t.inner];
            if (p == NULL || !p->counted) {
                n->rest += e->acc_bytes;
                n->n_accs++;
            }
            s->accs_ready &= p != NULL && p->state == PIECE_READY;
            if (p == NULL)
                continue;
            p->pins++;
            tg_run_piece_unlist(e, p);
        }
    }
    n->rest += s->parked_bytes;
}

static void unpin_units(engine *e, slot *s)
{
    const tg_plan_link *links;
    const uint32_t n_links = tg_plan_region_units(e->o.plan, s->k, &links);
    tg_plan_unit unit;
    touch_walk w;
    touch t;

    for (uint32_t i = 0; i < n_links; i++) {
        live_unit *u =
            tg_run_unit_is_own(e, links[i].at) ? e->live[links[i].at - e->first_unit] : NULL;
        if (u == NULL)
            continue;
        tg_plan_unit_get(e->o.plan, links[i].at, &unit);
        tg_run_touch_begin(e, &w, unit.index, &s->r);
        while (tg_run_touch_next(e, &w, s->k, &s->r, &t)) {
            tg_run_piece_unpin(e, &u->inner[t.inner], true);
        }
    }
    s->parked_bytes = 0;
}

static void pin_chunks(engine *e, slot *s, needs *n)
{
    chunk_walk w;
    uint64_t key;
    tg_box box;

    s->n_ins = 0;
    s->ins_ready = true;
    if (e->o.merge)
        return;
    tg_run_chunks_begin(e, &w, s->k, &s->r);
    while (tg_run_chunks_next(e, &w, &key, &box)) {
        piece *p = find_chunk(e, key);
        if (p == NULL) {
            n->chunks += e->in_bytes + sizeof *p;
            n->n_chunks++;
        } else {
            p->pins++;
            tg_run_piece_unlist(e, p);
        }
        s->ins_ready &= p != NULL && p->state == PIECE_READY;
        s->ins[s->n_ins++] = p;
    }
}

static tg_status make_chunks(engine *e, slot *s, tg_error *err)
{
    chunk_walk w;
    uint64_t key;
    tg_box box;

    if (e->o.merge)
        return TG_OK;
    tg_run_chunks_begin(e, &w, s->k, &s->r);
    for (uint32_t i = 0; tg_run_chunks_next(e, &w, &key, &box); i++) {
        if (s->ins[i] != NULL)
            continue;
        piece *p = tg_calloc(1, sizeof *p);
        if (p == NULL)
            return tg_fail(err, TG_NO_MEMORY, "decoded chunk");
        p->key = key;
        p->pins = 1;
        p->counted = true;
        p->left = tg_plan_source_readers(e->o.plan, (uint32_t)(key >> 32))[(uint32_t)key];
        p->data = take_spare(e, false);
        p->chain = *bucket(e, key);
        *bucket(e, key) = p;
        e->memory.used += e->in_bytes + sizeof *p;
        s->ins[i] = p;
    }
    return TG_OK;
}

static live_unit *make_unit(engine *e, uint32_t at, const tg_plan_unit *unit, tg_error *err)
{
    const size_t bytes = unit_bytes(unit->n_inner);
    live_unit *u = tg_calloc(1, bytes);

    if (u == NULL) {
        (void)tg_fail(err, TG_NO_MEMORY, "unit");
        return NULL;
    }
    u->u = at;
    u->left = unit->n_writing;
    u->ordered = unit->ordered;
    u->full = unit->full;
    u->n_inner = unit->n_inner;
    u->bytes = bytes;
    memcpy(u->index, unit->index, sizeof u->index);
    for (uint32_t i = 0; i < u->n_inner; i++)
        u->inner[i] = (piece){.is_acc = true, .key = i, .slot = TG_NO_SLOT};
    e->live[at - e->first_unit] = u;
    e->memory.used += bytes;
    return u;
}

static tg_status make_units(engine *e, slot *s, tg_error *err)
{
    const tg_plan_link *links;
    const uint32_t n_links = tg_plan_region_units(e->o.plan, s->k, &links);
    tg_plan_unit unit;
    touch_walk w;
    touch t;

    for (uint32_t i = 0; i < n_links; i++) {
        if (!is_folded(e, s, links[i].at, &unit))
            continue;
        live_unit *u = e->live[links[i].at - e->first_unit];
        const bool made = u == NULL;
        if (made)
            u = make_unit(e, links[i].at, &unit, err);
        if (u == NULL)
            return TG_NO_MEMORY;
        tg_run_touch_begin(e, &w, unit.index, &s->r);
        while (tg_run_touch_next(e, &w, s->k, &s->r, &t)) {
            piece *p = &u->inner[t.inner];
            p->pins += made;
            if (p->counted)
                continue;
            p->counted = true;
            e->memory.used += e->acc_bytes;
            if (p->data == NULL)
                p->data = take_spare(e, true);
        }
    }
    return TG_OK;
}

static void unpin_chunks(engine *e, slot *s)
{
    for (uint32_t i = 0; i < s->n_ins; i++)
        if (s->ins[i] != NULL && --s->ins[i]->pins == 0)
            tg_run_piece_list(e, s->ins[i]);
    s->n_ins = 0;
}

/* None is kept: each is read while it is gathered. */
static tg_status pass_chunks(engine *e, slot *s)
{
    chunk_walk w;
    uint64_t key;
    tg_box box;

    tg_run_chunks_begin(e, &w, s->k, &s->r);
    s->ins_ready = false;
    for (s->n_ins = 0; tg_run_chunks_next(e, &w, &key, &box); s->n_ins++)
        s->ins[s->n_ins] = NULL;
    return TG_OK;
}

/* Room for all that the region needs; everything it needs is then there and pinned. A region
 * whose chunks of IN do not fit beside the rest, with nothing else in flight, reads them one
 * after the other while it gathers. */
static tg_status reserve(engine *e, slot *s, tg_error *err)
{
    for (;;) {
        needs n = {0};
        bool passing = false;
        tg_status st;

        s->parked_bytes = 0;
        pin_units(e, s, &n);
        pin_chunks(e, s, &n);
        while (!fits(e, &n)) {
            if (e->oldest == NULL && e->oldest_acc == NULL && e->in_flight > 0)
                break;
            if (!make_room(e, &st, err)) {
                if (n.chunks > 0 || s->n_ins > 0) { /* one after the other, then */
                    unpin_chunks(e, s);
                    n.chunks = n.n_chunks = 0;
                    passing = true;
                    continue;
                }
                unpin_units(e, s);
                return tg_fail(err, TG_OVER_BUDGET,
                               "region %u needs %llu bytes beside the %llu that the run "
                               "holds, %llu is the budget",
                               s->k, (unsigned long long)n.rest,
                               (unsigned long long)(e->memory.used + e->reserved),
                               (unsigned long long)tg_budget_total(e->budget));
            }
            if (st != TG_OK || e->stop)
                return st != TG_OK ? st : TG_CANCELLED;
        }
        if (fits(e, &n)) {
            e->memory.used += s->parked_bytes;
            if (n.n_units + n.n_accs > 0)
                TG_TRY(make_units(e, s, err));
            if (passing)
                return pass_chunks(e, s);
            return n.n_chunks > 0 ? make_chunks(e, s, err) : TG_OK;
        }
        /* Let go, so that what others end can be evicted, and look again. */
        unpin_units(e, s);
        unpin_chunks(e, s);
        tg_cond_wait(&e->room, &e->lock);
        if (e->stop)
            return TG_CANCELLED;
    }
}

/* --- Which is next --------------------------------------------------------------------------
 */

/* Is there a unit that waits for this region? */
static bool is_wanted(const engine *e, uint32_t k, const tg_plan_region *r)
{
    const tg_plan_link *links;
    const uint32_t n = tg_plan_region_units(e->o.plan, k, &links);

    if (e->o.rows != NULL)
        return !tg_row_log_is_done(e->o.rows, k);
    if (r->wins_nothing || n == 0)
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (!tg_run_unit_is_done(e, links[i].at))
            return true;
    return false;
}

static bool take_next(engine *e, slot *s)
{
    while (e->cursor < e->end) {
        const uint64_t i = e->cursor++;
        s->k = !e->list_order ? tg_plan_issued(e->o.plan, i)
               : e->reverse   ? (uint32_t)(e->end - 1 - i)
                              : (uint32_t)i;
        tg_plan_region_get(e->o.plan, s->k, &s->r);
        if (s->r.empty || s->r.part != e->o.part || !is_wanted(e, s->k, &s->r))
            continue;
        return true;
    }
    return false;
}

void tg_run_sample(engine *e, bool force)
{
    const int64_t now = tg_clock_ns();
    tg_engine_sample *list = e->r.samples;

    if (!force && (uint64_t)(now - e->sampled_ns) < e->sample_every_ns)
        return;
    if (e->r.n_samples == TG_SAMPLES) { /* half as many, twice as far apart */
        for (uint32_t i = 0; i < TG_SAMPLES / 2; i++)
            list[i] = list[2 * i + 1];
        e->r.n_samples = TG_SAMPLES / 2;
        e->sample_every_ns *= 2;
    }
    e->sampled_ns = now;
    list[e->r.n_samples++] = (tg_engine_sample){
        .seconds = (double)(now - e->began_ns) * 1e-9,
        .calls = e->r.calls,
        .in_flight = e->in_flight,
        .bytes_read = e->r.bytes_read,
        .bytes_written = e->r.bytes_written,
        .memory_bytes = e->memory.used + e->reserved,
        .failed = e->r.failed,
    };
}

static bool issue_locked(engine *e, slot *s)
{
    tg_error err = {0};

    while (e->issuing && !e->stop)
        tg_cond_wait(&e->turn, &e->lock);
    if (e->stop)
        return false;
    e->issuing = true;
    tg_status st = tg_cancel_check(e->cancel, &err);
    bool have = st == TG_OK && take_next(e, s);
    if (have)
        st = reserve(e, s, &err);
    e->issuing = false;
    if (st != TG_OK) {
        if (!e->stop && e->failed.code == TG_OK)
            e->failed = err;
        e->stop = true;
        have = false;
    }
    if (e->memory.used > e->memory.peak)
        e->memory.peak = e->memory.used;
    if (have) {
        e->in_flight++;
        if (e->in_flight > e->r.in_flight_peak)
            e->r.in_flight_peak = e->in_flight;
        tg_run_sample(e, false);
    }
    if (e->stop) {
        tg_cond_broadcast(&e->ready);
        tg_cond_broadcast(&e->has_context);
        tg_cond_broadcast(&e->turn);
    } else {
        tg_cond_signal(&e->turn);
    }
    return have;
}

static void note_slow(engine *e, uint64_t region, double seconds)
{
    tg_engine_slow *list = e->r.slowest;
    uint32_t i = e->r.n_slowest;

    if (i == TG_SLOWEST && seconds <= list[i - 1].seconds)
        return;
    if (i < TG_SLOWEST)
        e->r.n_slowest++;
    else
        i--;
    for (; i > 0 && list[i - 1].seconds < seconds; i--)
        list[i] = list[i - 1];
    list[i] = (tg_engine_slow){region, seconds};
}

/* What a region did is counted once, when it is over. */
static void end_locked(engine *e, slot *s)
{
    e->in_flight--;
    e->r.calls += s->calls;
    e->r.saturated += s->saturated;
    if (s->calls > 0)
        note_slow(e, s->k, s->seconds);
    e->r.regions += s->ran;
    e->r.failed += s->failed;
    s->running = s->ran = s->failed = false;
    s->calls = 0;
    s->saturated = 0;
    s->seconds = 0;
    tg_cond_broadcast(&e->room);
}

bool tg_run_issue(engine *e, slot *s)
{
    TG_LOCKED_FOR_IO(&e->lock); /* let go while a piece is swapped out */
    if (s->running)
        end_locked(e, s);
    return s->running = issue_locked(e, s);
}

static tg_status issue_fragment_locked(engine *e, slot *s, uint32_t k, tg_error *err)
{
    TG_TRY(tg_cancel_check(e->cancel, err));
    s->k = k;
    tg_plan_region_get(e->o.plan, k, &s->r);
    TG_TRY(reserve(e, s, err));
    if (e->memory.used > e->memory.peak)
        e->memory.peak = e->memory.used;
    e->in_flight++;
    tg_run_sample(e, false);
    return TG_OK;
}

tg_status tg_run_issue_fragment(engine *e, slot *s, uint32_t k, tg_error *err)
{
    TG_LOCKED_FOR_IO(&e->lock); /* let go while a piece is swapped out */
    return issue_fragment_locked(e, s, k, err);
}

void tg_run_end_fragment(engine *e)
{
    TG_LOCKED(&e->lock);
    e->in_flight--;
}
