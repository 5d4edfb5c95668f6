/* One region, in the thread of its slot: its chunks, the call with no lock held, the fold. */
#include "base/clock.h"
#include "region/engine.h"
#include "region/items.h"

#include <assert.h>
#include <inttypes.h>
#if TG_PLANT == 15
#include <sched.h>
#endif
#include <stdio.h>
#include <string.h>

/* --- In ------------------------------------------------------------------------------------
 */

static void copy_chunk(const engine *e, slot *s, const tg_box *chunk, const uint8_t *items)
{
    const size_t size = e->o.in->meta->info.dtype.size;
    int64_t from[TG_MAX_NDIM], to[TG_MAX_NDIM];
    uint8_t *dst = s->in;
    tg_box part;

    if (!tg_box_intersect(chunk, &s->r.read, &part))
        return;
    tg_strides_c(&chunk->shape, size, from);
    tg_strides_c(&s->r.in, size, to);
    for (uint32_t d = 0; d < part.shape.ndim; d++) {
        items += (int64_t)(part.start[d] - chunk->start[d]) * from[d];
        dst += (int64_t)(part.start[d] - s->r.region.start[d] + s->r.before[d]) * to[d];
    }
    tg_nd_copy(dst, to, items, from, &part.shape, size);
}

/* A chunk that does not fit beside the others. */
static tg_status copy_passing(engine *e, slot *s, uint64_t key, const tg_box *chunk,
                              tg_error *err)
{
    context *c = tg_run_context_get(e);

    if (c == NULL)
        return tg_fail(err, TG_CANCELLED, "stopped");
    tg_status st = tg_run_load_in(e, c, (uint32_t)(key >> 32), (uint32_t)key, c->chunk, err);
    if (st == TG_OK)
        copy_chunk(e, s, chunk, c->chunk);
    tg_run_context_put(e, c);
    return st;
}

static void pad_view(const engine *e, slot *s)
{
    const tg_plan_region *r = &s->r;
    tg_box there = {.shape = r->read.shape};

    for (uint32_t d = 0; d < there.shape.ndim; d++)
        there.start[d] = r->before[d] - (r->region.start[d] - r->read.start[d]);
    tg_pad_fill(&e->pad, s->in, &r->in, &there, e->o.in->meta->info.dtype.size);
}

static tg_status gather(engine *e, slot *s, tg_error *err)
{
    chunk_walk w;
    uint64_t key;
    tg_box box;

    TG_TRY(tg_run_load_pieces(e, s, err));
    tg_run_chunks_begin(e, &w, s->k, &s->r);
    for (uint32_t i = 0; tg_run_chunks_next(e, &w, &key, &box); i++) {
        if (s->ins[i] == NULL)
            TG_TRY(copy_passing(e, s, key, &box, err));
        else
            copy_chunk(e, s, &box, s->ins[i]->data);
    }
    if (e->pad.kind != TG_PAD_NONE)
        pad_view(e, s);
    return TG_OK;
}

/* --- The call --------------------------------------------------------------------------------
 */

static int no_rows(void *user, uint64_t label, const double *values)
{
    (void)user;
    (void)label;
    (void)values;
    return 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): who calls may write through the view */
static void view(tg_region_view *v, uint8_t *data, tg_dtype dtype, const tg_shape *shape)
{
    *v = (tg_region_view){.data = data, .dtype = dtype, .ndim = shape->ndim};
    memcpy(v->shape, shape->n, shape->ndim * sizeof *v->shape);
    tg_strides_c(shape, dtype.size, v->strides);
}

static void make_call(const engine *e, slot *s, tg_region_call *c)
{
    const uint32_t ndim = s->r.read.shape.ndim;
    const tg_plan_region *r = &s->r;

    *c = (tg_region_call){.size = sizeof *c,
                          .roi = s->k,
                          .n_rois = e->o.n_called,
                          .name = r->name == NULL ? "" : r->name,
                          .label = r->label,
                          .row = e->o.rows != NULL ? tg_row_add : no_rows,
                          .row_user = &s->rows,
                          .message = s->message};
    view(&c->in, s->in, e->o.in->meta->info.dtype, &r->in);
    for (uint32_t d = 0; d < ndim; d++) {
        c->in_start[d] = r->region.start[d] - r->before[d];
        c->before[d] = r->before[d];
        c->region[d] = r->region.shape.n[d];
        c->scale[d] = e->facts->scale[d] > 0 ? e->facts->scale[d] : 1;
    }
    s->message[0] = '\0';
    if (!e->o.fn->facts.has_out)
        return;
    view(&c->out, s->out, e->given, &r->write.shape);
    memcpy(c->out_start, r->write.start, ndim * sizeof *c->out_start);
}

static tg_status call_once(engine *e, slot *s, tg_error *err)
{
    const int64_t began = tg_clock_ns();
    tg_region_call c;

    make_call(e, s, &c);
    if (e->o.rows != NULL)
        tg_row_begin(&s->rows, s->k);
    *tg_items_saturated() = 0;
    TG_ASSERT_UNLOCKED();
    tg_status st = e->o.fn->ops->call(e->o.fn, &c, s->number, e->cancel, err);
    s->calls++;
    if (st == TG_OK && !s->r.wins_nothing)
        s->saturated += *tg_items_saturated();
    const double seconds = (double)(tg_clock_ns() - began) * 1e-9;
    s->seconds = seconds > s->seconds ? seconds : s->seconds;
    return st;
}

/* *failed: the region is left out. */
static tg_status call(engine *e, slot *s, bool *failed, tg_error *err)
{
    tg_status st = TG_OK;

    *failed = e->failed_bits != NULL && (e->failed_bits[s->k / 8] >> (s->k % 8) & 1) != 0;
    if (*failed)
        return TG_OK;
    for (uint32_t i = 0; i <= e->o.retries; i++) {
        st = call_once(e, s, err);
        if (st == TG_OK)
            return TG_OK;
        if (st == TG_CANCELLED || tg_cancel_requested(e->cancel))
            return tg_fail(err, TG_CANCELLED, "stopped");
    }
    tg_error_prefix(err, "region %" PRIu32 "%s%.100s%s", s->k, s->r.name == NULL ? "" : " ('",
                    s->r.name == NULL ? "" : s->r.name, s->r.name == NULL ? "" : "')");
    if (!e->o.skip)
        return st;
    *failed = true;
    char why[512];
    (void)snprintf(why, sizeof why, "%s", err == NULL ? "" : err->msg);
    if (err != NULL)
        *err = (tg_error){0};
    if (e->commit != NULL)
        TG_TRY(tg_commit_failed_region(e->commit, s->k, why, err));
    if (e->o.rows != NULL)
        TG_TRY(tg_row_done(&s->rows, why, err));
    TG_LOCKED(&e->lock);
    if (e->r.why[0] == '\0') { /* the others are counted when they are over */
        e->r.first_failed = s->k;
        memcpy(e->r.why, why, sizeof e->r.why);
    }
    return TG_OK;
}

/* --- The fold
 * --------------------------------------------------------------------------------- */

/* Items that no region writes, or that lie outside the array. */
static tg_status fill_acc(engine *e, const live_unit *u, uint32_t inner, uint8_t *acc,
                          tg_error *err)
{
    const tg_array_meta *m = e->o.out->meta;
    const bool covered = !e->o.skip && e->past.n_failed == 0 &&
                         tg_plan_unit_coverage(e->o.plan, u->u, inner) == TG_COVER_FULL;
    int64_t strides[TG_MAX_NDIM];
    uint64_t inside[TG_MAX_NDIM];
    bool out = false;

    tg_accum_clear(&e->acc, acc);
    if (e->acc.wide)
        return TG_OK;
    if (!covered && (!e->fresh || e->base_input)) {
        context *c = tg_run_context_get(e);
        if (c == NULL)
            return tg_fail(err, TG_CANCELLED, "stopped");
        tg_status st = tg_run_load_base(e, c, u->index, inner, acc, err);
        tg_run_context_put(e, c);
        return st;
    }
    tg_unravel(&m->grid, inner, inside);
    for (uint32_t d = 0; d < m->info.ndim; d++)
        out |= (u->index[d] * m->grid.n[d] + inside[d] + 1) * m->chunk.n[d] > m->info.shape[d];
    if (covered && !out)
        return TG_OK;
    tg_strides_c(&m->chunk, m->info.dtype.size, strides);
    tg_nd_fill(acc, strides, &m->chunk, m->info.dtype.size, m->fill.data);
    return TG_OK;
}

static tg_status bring_acc(engine *e, const live_unit *u, uint32_t inner, piece *p,
                           piece_state was, tg_error *err)
{
    if (p->data == NULL)
        p->data = tg_run_buffer_new(e->acc_bytes);
    if (p->data == NULL)
        return tg_fail(err, TG_NO_MEMORY, "accumulator");
    if (was == PIECE_SWAPPED)
        return tg_swap_in(&e->swap, p->slot, p->sum, p->data, err);
    return fill_acc(e, u, inner, p->data, err);
}

tg_status tg_run_ready_acc(engine *e, const live_unit *u, uint32_t inner, piece *p,
                           tg_error *err)
{
    piece_state was;
    {
        TG_LOCKED(&e->lock);
        while (p->state == PIECE_LOADING || p->state == PIECE_LEAVING) {
            if (e->stop)
                return tg_fail(err, TG_CANCELLED, "stopped");
            tg_cond_wait(&e->ready, &e->lock);
        }
        if (p->state == PIECE_READY)
            return TG_OK;
        was = p->state;
        p->state = PIECE_LOADING;
    }
    tg_status st = bring_acc(e, u, inner, p, was, err);
    TG_LOCKED(&e->lock);
    p->state = st == TG_OK ? PIECE_READY : was;
    tg_cond_broadcast(&e->ready);
    return st;
}

static void fold_locked(engine *e, piece *p, const tg_box *chunk, const tg_patch *patch,
                        const tg_box *part)
{
#if TG_PLANT == 15 /* read, change, write back, and nobody else kept out */
    uint8_t *copy = tg_run_buffer_new(e->acc_bytes);
    if (copy == NULL)
        return;
    memcpy(copy, p->data, e->acc_bytes);
    tg_accum_fold(&e->acc, copy, chunk, patch, part);
    sched_yield();
    memcpy(p->data, copy, e->acc_bytes);
    tg_run_buffer_free(copy, e->acc_bytes);
#else
    if (e->acc.note_bytes == 0) { /* pixels that no two regions share */
        tg_accum_fold(&e->acc, p->data, chunk, patch, part);
        return;
    }
    TG_LOCKED(&e->fold_lock[((uintptr_t)p >> 6) % 64]);
    tg_accum_fold(&e->acc, p->data, chunk, patch, part);
#endif
}

/* The plug-in's own fold, over the part that the region writes. */
static tg_status fold_user(engine *e, piece *p, const tg_box *chunk, const tg_patch *patch,
                           const tg_box *part, uint32_t region, tg_error *err)
{
    const size_t size = e->acc.dtype.size;
    tg_region_view base, from;
    int64_t strides[TG_MAX_NDIM];
    uint8_t *at = p->data;
    const uint8_t *src = patch->data;

    tg_strides_c(&chunk->shape, size, strides);
    for (uint32_t d = 0; d < part->shape.ndim; d++) {
        at += (int64_t)(part->start[d] - chunk->start[d]) * strides[d];
        src += (int64_t)(part->start[d] - patch->box.start[d]) * patch->strides[d];
    }
    view(&base, at, e->acc.dtype, &part->shape);
    memcpy(base.strides, strides, part->shape.ndim * sizeof *strides);
    view(&from, NULL, e->acc.dtype, &part->shape);
    from.data = (void *)(uintptr_t)src;
    memcpy(from.strides, patch->strides, part->shape.ndim * sizeof *strides);
    return e->o.fn->ops->fold(e->o.fn, &base, &from, region, err);
}

static tg_status fold_box(engine *e, piece *p, const tg_box *chunk, const tg_patch *patch,
                          const tg_box *box, uint32_t region, tg_error *err)
{
    tg_box part;

    if (!tg_box_intersect(chunk, box, &part))
        return TG_OK;
    if (e->acc.policy == TG_POLICY_USER)
        return fold_user(e, p, chunk, patch, &part, region, err);
    fold_locked(e, p, chunk, patch, &part);
    return TG_OK;
}

/* A whole region into a unit; all its pieces are pinned. ready: and filled, since before they
 * were. */
static tg_status fold_unit(engine *e, live_unit *u, uint32_t k, const tg_plan_region *r,
                           const tg_patch *patch, bool ready, tg_error *err)
{
    tg_box piece_box;
    touch_walk w;
    touch t;

    tg_run_touch_begin(e, &w, u->index, r);
    while (tg_run_touch_next(e, &w, k, r, &t)) {
        piece *p = &u->inner[t.inner];
        if (!ready)
            TG_TRY(tg_run_ready_acc(e, u, t.inner, p, err));
        if (r->n_pieces == 0)
            TG_TRY(fold_box(e, p, &t.box, patch, &r->write, k, err));
        for (uint32_t i = 0; i < r->n_pieces; i++) {
            tg_plan_piece(e->o.plan, k, i, &piece_box);
            TG_TRY(fold_box(e, p, &t.box, patch, &piece_box, k, err));
        }
    }
    return TG_OK;
}

/* The region's part in the unit is over; *last: it was the last one, the unit is the caller's.
 * Nobody may look at the unit after this otherwise. */
static void let_go(engine *e, live_unit *u, uint32_t k, const tg_plan_region *r, bool *last)
{
    touch_walk w;
    touch t;

    tg_run_touch_begin(e, &w, u->index, r);
    while (tg_run_touch_next(e, &w, k, r, &t))
        tg_run_piece_unpin(e, &u->inner[t.inner], u->left > 1);
    *last = --u->left == 0;
    if (*last) {
        e->live[u->u - e->first_unit] = NULL;
        for (uint32_t i = 0; i < u->n_inner; i++)
            tg_run_piece_unlist(e, &u->inner[i]);
    }
    tg_cond_broadcast(&e->room);
}

static uint64_t items_of(const tg_plan_region *r)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < r->write.shape.ndim; d++)
        n *= r->write.shape.n[d];
    return n;
}

static void dense_patch(tg_patch *p, const engine *e, const tg_plan_region *r,
                        const uint8_t *data)
{
    *p = (tg_patch){.data = data, .box = r->write};
    tg_strides_c(&r->write.shape, e->acc.dtype.size, p->strides);
    if (e->facts->policy != TG_POLICY_MASK || data == NULL)
        return;
    p->keep = data + items_of(r) * e->acc.dtype.size;
    tg_strides_c(&r->write.shape, 1, p->keep_strides);
}

static void unref(engine *e, parked_patch *p)
{
    if (--p->refs > 0)
        return;
    e->memory.used -= p->bytes;
    e->memory.parked -= p->bytes;
    tg_run_buffer_free(p->data, (size_t)p->bytes);
    tg_free(p);
    tg_cond_broadcast(&e->room);
}

/* Fold those that waited for their turn. Called with u->folding set by the caller. */
static tg_status fold_waiting(engine *e, live_unit *u, bool *last, tg_error *err)
{
    for (;;) {
        parked *q = NULL;
        {
            TG_LOCKED(&e->lock);
            parked **at = &u->waiting;
            while (*at != NULL && (*at)->rank != u->next)
                at = &(*at)->next;
            q = *at;
            if (q == NULL) {
                u->folding = false;
                return TG_OK;
            }
            *at = q->next;
        }
        tg_plan_region r;
        tg_patch patch;
        tg_plan_region_get(e->o.plan, q->patch->region, &r);
        dense_patch(&patch, e, &r, q->patch->data);
        tg_status st = q->patch->data == NULL
                           ? TG_OK
                           : fold_unit(e, u, q->patch->region, &r, &patch, false, err);
        TG_LOCKED(&e->lock);
        u->next++;
        let_go(e, u, q->patch->region, &r, last);
        unref(e, q->patch);
        tg_free(q);
        if (st != TG_OK || *last)
            return st;
    }
}

/* Keep the region's result until its turn comes; one copy for all its units. */
static tg_status park(engine *e, slot *s, live_unit *u, uint32_t rank, bool failed,
                      parked_patch **copy, tg_error *err)
{
    if (*copy == NULL) {
        parked_patch *p = tg_calloc(1, sizeof *p);
        if (p == NULL)
            return tg_fail(err, TG_NO_MEMORY, "parked result");
        p->region = s->k;
        p->bytes = s->parked_bytes;
        if (!failed) {
            p->data = tg_run_buffer_new((size_t)p->bytes);
            if (p->data == NULL) {
                tg_free(p);
                return tg_fail(err, TG_NO_MEMORY, "parked result");
            }
            memcpy(p->data, s->out, (size_t)p->bytes);
        }
        *copy = p;
        TG_LOCKED(&e->lock);
        p->refs = 1; /* ours, until all units are through */
        s->parked_bytes = 0;
        e->memory.parked += p->bytes;
        if (e->memory.parked > e->memory.parked_peak)
            e->memory.parked_peak = e->memory.parked;
    }
    parked *q = tg_calloc(1, sizeof *q);
    if (q == NULL)
        return tg_fail(err, TG_NO_MEMORY, "parked result");
    q->patch = *copy;
    q->rank = rank;
    TG_LOCKED(&e->lock);
    (*copy)->refs++;
    q->next = u->waiting;
    u->waiting = q;
    return TG_OK;
}

/* May this rank fold now? Then the unit is the caller's to fold into. */
static bool take_turn(engine *e, live_unit *u, uint32_t rank)
{
    TG_LOCKED(&e->lock);
    if (u->folding || u->next != rank)
        return false;
    u->folding = true;
    return true;
}

/* After parking: the turn may have come meanwhile. */
static bool take_waiting(engine *e, live_unit *u)
{
    TG_LOCKED(&e->lock);
    if (u->folding)
        return false;
    for (const parked *q = u->waiting; q != NULL; q = q->next)
        if (q->rank == u->next)
            return u->folding = true;
    return false;
}

static tg_status fold_in_order(engine *e, slot *s, live_unit *u, uint32_t rank, bool failed,
                               parked_patch **copy, bool *last, tg_error *err)
{
    tg_patch patch;

    *last = false;
    if (take_turn(e, u, rank)) {
        dense_patch(&patch, e, &s->r, s->out);
        if (!failed)
            TG_TRY(fold_unit(e, u, s->k, &s->r, &patch, s->accs_ready, err));
        {
            TG_LOCKED(&e->lock);
            u->next++;
            let_go(e, u, s->k, &s->r, last);
        }
        return *last ? TG_OK : fold_waiting(e, u, last, err);
    }
    TG_TRY(park(e, s, u, rank, failed, copy, err));
    return take_waiting(e, u) ? fold_waiting(e, u, last, err) : TG_OK;
}

static tg_status fold_now(engine *e, slot *s, live_unit *u, bool failed, bool *last,
                          tg_error *err)
{
    tg_patch patch;

    dense_patch(&patch, e, &s->r, s->out);
    if (!failed)
        TG_TRY(fold_unit(e, u, s->k, &s->r, &patch, s->accs_ready, err));
    TG_LOCKED(&e->lock);
    let_go(e, u, s->k, &s->r, last);
    return TG_OK;
}

tg_status tg_run_fold_fragment(engine *e, const slot *s, live_unit *u, const tg_patch *patch,
                               bool *last, tg_error *err)
{
    if (patch != NULL)
        TG_TRY(fold_unit(e, u, s->k, &s->r, patch, s->accs_ready, err));
    TG_LOCKED(&e->lock);
    let_go(e, u, s->k, &s->r, last);
    return TG_OK;
}

static tg_status fold_border(engine *e, slot *s, uint32_t at, bool failed, tg_error *err)
{
    assert(e->border != NULL); /* the unit is not only this part's */
    const tg_box unit = tg_plan_unit_box(e->o.plan, at);
    tg_patch patch;
    tg_box cut;

    if (failed || !tg_box_intersect(&unit, &s->r.write, &cut))
        return TG_OK;
    dense_patch(&patch, e, &s->r, s->out);
    return tg_border_add(e->border, at, s->k, &patch, &cut, e->acc.dtype.size, err);
}

/* Only where what is written is what is read does the committer add to what was done. */
static bool is_done(engine *e, uint32_t unit)
{
    if (e->readers == NULL)
        return tg_run_unit_is_done(e, unit);
    TG_LOCKED(&e->lock);
    return tg_run_unit_is_done(e, unit);
}

static tg_status fold_link(engine *e, slot *s, const tg_plan_link *link, bool failed,
                           parked_patch **copy, tg_error *err)
{
    bool last = false;

    if (is_done(e, link->at))
        return TG_OK;
    /* Made when the region was issued, if its unit is folded here: it stays until then. */
    live_unit *u = tg_run_unit_is_own(e, link->at) ? e->live[link->at - e->first_unit] : NULL;
    if (u == NULL)
        return fold_border(e, s, link->at, failed, err);
    if (u->ordered)
        TG_TRY(fold_in_order(e, s, u, link->rank, failed, copy, &last, err));
    else
        TG_TRY(fold_now(e, s, u, failed, &last, err));
    return last ? tg_run_flush_unit(e, u, err) : TG_OK;
}

static tg_status fold_all(engine *e, slot *s, bool failed, tg_error *err)
{
    const tg_plan_link *links;
    const uint32_t n = tg_plan_region_units(e->o.plan, s->k, &links);
    parked_patch *copy = NULL;
    tg_status st = TG_OK;

    for (uint32_t i = 0; i < n && st == TG_OK; i++)
        st = fold_link(e, s, &links[i], failed, &copy, err);
    if (copy == NULL && s->parked_bytes == 0)
        return st;
    TG_LOCKED(&e->lock);
    if (copy != NULL)
        unref(e, copy);
    e->memory.used -= s->parked_bytes;
    s->parked_bytes = 0;
    return st;
}

/* --- All of it
 * -------------------------------------------------------------------------------- */

tg_status tg_run_run_region(engine *e, slot *s, tg_error *err)
{
    bool failed = false;

    if (s->k >= e->o.n_called) { /* its unit is the base and nothing else */
        tg_run_release_pieces(e, s);
        return fold_all(e, s, true, err);
    }
    tg_status st = gather(e, s, err);
    tg_run_release_pieces(e, s);
    TG_TRY(st);
    TG_TRY(call(e, s, &failed, err));
    if (e->o.out != NULL && !failed && !s->r.wins_nothing) {
        uint64_t saturated = 0;
        tg_cast_items(s->out, items_of(&s->r), e->given, e->acc.dtype, &saturated);
        if (e->o.mask != NULL)
            TG_TRY(tg_mask_fill(e->o.mask, e->o.plan, s->k, &s->r,
                                s->out + items_of(&s->r) * e->acc.dtype.size, e->cancel, err));
        s->saturated += saturated;
    }
    if (e->o.out != NULL)
        TG_TRY(fold_all(e, s, failed, err));
    if (e->o.rows != NULL && !failed)
        TG_TRY(tg_row_done(&s->rows, NULL, err));
    s->ran = true;
    s->failed = failed;
    return TG_OK;
}
