/* A part of a plan from beginning to end: what it costs, its threads, what is left to do when
 * the last region has ended. */
#include "region/engine.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- What it costs ---------------------------------------------------------------------------
 */

#define MAPPED ((size_t)64 << 10)
#define PAGE   ((size_t)4096)

/* As tg_run_buffer_new() takes it. */
static size_t rounded(size_t bytes)
{
    return bytes < MAPPED ? bytes + 32 : (bytes + PAGE - 1) / PAGE * PAGE;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t scratch_bytes(const tg_array *in, const tg_array *out)
{
    return tg_add_bytes(
        larger(tg_encoded_limit(in->meta), out == NULL ? 0 : tg_encoded_limit(out->meta)),
        TG_SCRATCH_MORE);
}

static size_t index_bytes(const tg_array *a)
{
    return a == NULL || !a->meta->info.sharded ? 0 : tg_shard_index_bytes(a->meta);
}

static size_t entries_bytes(const tg_array *a)
{
    return a == NULL || !a->meta->info.sharded
               ? 0
               : tg_mul_bytes((size_t)a->meta->n_inner, sizeof(tg_shard_entry));
}

static uint64_t context_bytes(const tg_array *in, const tg_array *out, size_t acc_bytes)
{
    size_t n = sizeof(context);

    n = tg_add_bytes(n, tg_chain_context_bytes(in->meta->chain, false));
    n = tg_add_bytes(n, rounded(scratch_bytes(in, out)));
    n = tg_add_bytes(n, rounded(in->meta->chunk_bytes));
    n = tg_add_bytes(n, rounded(larger(index_bytes(in), index_bytes(out))));
    n = tg_add_bytes(n, rounded(larger(entries_bytes(in), entries_bytes(out))));
    if (out == NULL)
        return n;
    n = tg_add_bytes(n, tg_chain_context_bytes(out->meta->chain, false));
    n = tg_add_bytes(n, tg_chain_context_bytes(out->meta->chain, true));
    n = tg_add_bytes(n, rounded(tg_chain_bound(out->meta->chain, 0)));
    n = tg_add_bytes(n, rounded(out->meta->chunk_bytes));
    n = tg_add_bytes(n, rounded(acc_bytes));
    n = tg_add_bytes(n, rounded(entries_bytes(out)));
    return tg_add_bytes(n, TG_FILE_BLOCK);
}

#define COMMIT_BYTES ((uint64_t)256 << 10) /* queue, directories, journal */

/* Of policy labels: numbers of 64 bits on their way, of which the greatest counts. */
static tg_status init_accum(tg_accum *acc, tg_policy policy, tg_dtype dtype,
                            const tg_shape *chunk, const uint64_t *halo, tg_error *err)
{
    return tg_accum_init(acc, policy == TG_POLICY_LABELS ? TG_POLICY_MAX : policy, dtype, chunk,
                         halo, err);
}

uint64_t tg_engine_fixed_bytes(const tg_array *in, const tg_array *out, tg_policy policy)
{
    tg_accum acc = {.bytes = 0};

    if (out != NULL &&
        init_accum(&acc, policy, out->meta->info.dtype, &out->meta->chunk, NULL, NULL) != TG_OK)
        acc.bytes = 0;
    return context_bytes(in, out, acc.bytes) + COMMIT_BYTES + 64 * sizeof(void *);
}

static uint64_t items_of(const tg_shape *s)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < s->ndim; d++)
        if (__builtin_mul_overflow(n, s->n[d], &n))
            return UINT64_MAX;
    return n;
}

static uint64_t items_of_box(const tg_box *b)
{
    return items_of(&b->shape);
}

static uint64_t chunks_of_box(const tg_box *b, const tg_shape *chunk)
{
    tg_box cover;

    tg_grid_cover(b, chunk, &cover);
    return items_of_box(&cover);
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t n;
    return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX / 4
           : n > UINT64_MAX / 4             ? UINT64_MAX / 4
                                            : n;
}

uint64_t tg_plan_region_bytes(void *user, const tg_plan_facts *f, const tg_plan_region *r)
{
    const tg_plan_cost *cost = user;
    const tg_function *fn = cost->fn;
    const size_t masked = f->policy == TG_POLICY_MASK;
    const tg_dtype wide = {TG_DT_UINT, 8};
    const uint32_t least = f->policy == TG_POLICY_LABELS ? wide.size : 1;
    uint64_t n = times(items_of(&r->in), larger(f->in.dtype.size, least));
    tg_accum acc = {.bytes = 0};

    if (fn != NULL && fn->ops->scratch_bytes != NULL)
        n += fn->ops->scratch_bytes(fn, &r->in, &r->write.shape);
    n += tg_mask_bytes(cost->mask, &r->write.shape);
    if (f->out.shape.ndim == 0 && !(fn != NULL && fn->facts.has_out))
        return n;
    const size_t given =
        larger(fn == NULL ? f->out.dtype.size : fn->facts.out_dtype.size, least);
    n += times(items_of_box(&r->write), larger(given, f->out.dtype.size) + masked);
    if (init_accum(&acc, f->policy, f->policy == TG_POLICY_LABELS ? wide : f->out.dtype,
                   &f->out.chunk, NULL, NULL) == TG_OK)
        n += times(chunks_of_box(&r->write, &f->out.chunk), rounded(acc.bytes));
    if (tg_plan_is_ordered(f))
        n += times(items_of_box(&r->write), f->out.dtype.size + masked);
    return n;
}

/* --- The largest of everything
 * ------------------------------------------------------------------ */

static bool is_mine(const engine *e, const tg_plan_region *r)
{
    return !r->empty && (e->o.merge || r->part == e->o.part);
}

static void measure_region(engine *e, uint32_t k, const tg_plan_region *r)
{
    const tg_function *fn = e->o.fn;
    const uint64_t in = times(items_of(&r->in), e->o.in->meta->info.dtype.size);
    const uint64_t ins = chunks_of_box(&r->read, &e->o.in->meta->chunk);
    const tg_plan_link *links;
    uint64_t out = 0, need = 0, scratch = 0;

    if (e->o.out != NULL) {
        const uint32_t n = tg_plan_region_units(e->o.plan, k, &links);
        out = times(items_of_box(&r->write), larger(e->given.size, e->acc.dtype.size) +
                                                 tg_run_fold_bytes(e) - e->acc.dtype.size);
        need = times(chunks_of_box(&r->write, &e->o.out->meta->chunk), e->acc_bytes);
        for (uint32_t i = 0; i < n && tg_run_unit_is_own(e, links[i].at); i++)
            need += sizeof(live_unit) + sizeof(piece) * e->o.out->meta->n_inner;
        if (e->list_order)
            need += times(items_of_box(&r->write), tg_run_fold_bytes(e));
    }
    if (fn->ops->scratch_bytes != NULL)
        scratch = fn->ops->scratch_bytes(fn, &r->in, &r->write.shape);
    scratch += tg_mask_bytes(e->o.mask, &r->write.shape);
    e->max_in = in > e->max_in ? in : e->max_in;
    e->max_out = out > e->max_out ? out : e->max_out;
    e->max_need = need > e->max_need ? need : e->max_need;
    e->scratch = scratch > e->scratch ? scratch : e->scratch;
    if (ins > e->max_ins)
        e->max_ins = ins > UINT32_MAX ? UINT32_MAX : (uint32_t)ins;
}

/* The most bytes of live units at once, in the order of issue: they cannot be evicted. */
static void measure_front(engine *e, uint32_t k, uint32_t *left, uint64_t *now)
{
    const tg_plan_link *links;
    const uint32_t n = tg_plan_region_units(e->o.plan, k, &links);
    const uint64_t bytes = sizeof(live_unit) + sizeof(piece) * e->o.out->meta->n_inner;
    tg_plan_unit unit;

    for (uint32_t i = 0; i < n; i++) {
        if (!tg_run_unit_is_own(e, links[i].at))
            continue;
        assert(left != NULL); /* a unit is of OUT */
        uint32_t *l = &left[links[i].at - e->first_unit];
        if (*l == 0) {
            tg_plan_unit_get(e->o.plan, links[i].at, &unit);
            *l = unit.n_writing + 1;
            *now += bytes;
        }
        if (*now > e->max_records)
            e->max_records = *now;
        if (--*l == 1)
            *now -= bytes;
    }
}

static tg_status measure(engine *e, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) left = NULL;
    uint64_t now = 0;
    tg_plan_region r;

    if (e->o.merge) /* one unit after the other */
        e->max_records = sizeof(live_unit) + sizeof(piece) * e->o.out->meta->n_inner;
    if (e->o.out != NULL) {
        left = tg_calloc((size_t)(e->end_unit - e->first_unit) + 1, sizeof(uint32_t));
        if (left == NULL)
            return tg_fail(err, TG_NO_MEMORY, "units of the part");
    }
    for (uint64_t i = e->first; i < e->end; i++) {
        const uint32_t k = !e->list_order ? tg_plan_issued(e->o.plan, i)
                           : e->reverse   ? (uint32_t)(e->end - 1 - i)
                                          : (uint32_t)i;
        tg_plan_region_get(e->o.plan, k, &r);
        if (!is_mine(e, &r))
            continue;
        measure_region(e, k, &r);
        if (e->o.out != NULL && !e->o.merge)
            measure_front(e, k, left, &now);
    }
    return TG_OK;
}

/* --- Reserving
 * ------------------------------------------------------------------------------------ */

static uint64_t table_bytes(const engine *e)
{
    const uint64_t own = e->end_unit - e->first_unit, n = tg_plan_n_regions(e->o.plan);
    uint64_t bytes = own * (sizeof(void *) + sizeof(uint32_t)) + tg_plan_n_units(e->o.plan) / 8;

    bytes += (e->table_mask + 1) * sizeof(void *) + COMMIT_BYTES;
    if (e->in_place)
        bytes += (n + tg_plan_n_units(e->o.plan) + tg_plan_n_sources(e->o.plan)) * 4;
    if (e->o.skip || e->o.merge)
        bytes += n / 8;
    if (e->o.merge)
        bytes += tg_merge_n_fragments(e->o.plan) * sizeof(merge_fragment);
    if (e->o.rows != NULL)
        bytes += TG_ROW_LOG_BYTES + n * sizeof(uint32_t);
    return bytes;
}

static uint64_t slot_bytes(const engine *e)
{
    return rounded((size_t)e->max_in) + rounded((size_t)e->max_out) + e->scratch +
           (uint64_t)e->max_ins * sizeof(piece *) + sizeof(slot) +
           (e->o.rows != NULL ? TG_ROW_BUFFER : 0);
}

static tg_status reserve_fixed(engine *e, tg_error *err)
{
    const uint64_t total = tg_budget_total(e->budget), used = tg_budget_used(e->budget);
    const uint64_t one = context_bytes(e->o.in, e->o.out, e->acc_bytes);
    const uint64_t floor = table_bytes(e) + e->max_need + e->max_records;
    const uint64_t have = total > used ? total - used : 0;
    uint64_t each = slot_bytes(e);

    /* Half for what is shared, where that can be had. */
    while ((e->n_slots > 1 || e->n_contexts > 1) &&
           floor + e->n_slots * each + e->n_contexts * one > have / 2) {
        if (e->n_contexts > 1 && (e->n_slots == 1 || one * e->n_contexts > each * e->n_slots))
            e->n_contexts--;
        else
            e->n_slots--;
    }
    const uint64_t least = floor + e->n_slots * each + e->n_contexts * one;
    if (least > have)
        return tg_fail(err, TG_OVER_BUDGET,
                       "the largest region takes %" PRIu64 " bytes with its halo, its result "
                       "and the chunks it touches, %" PRIu64 " with all that the run needs; "
                       "--memory leaves %" PRIu64 ": give at least %" PRIu64
                       " bytes, or take smaller regions",
                       each + e->max_need, least, have, least + used);
    e->reserved = least - e->max_need - e->max_records;
    TG_TRY(tg_budget_reserve(e->budget, least, "regions", err));
    e->memory.limit = e->max_need + e->max_records;
    return TG_OK;
}

/* --- Contexts
 * -------------------------------------------------------------------------------------- */

context *tg_run_context_get(engine *e)
{
    TG_LOCKED(&e->lock);
    while (e->free_context == NULL && !e->stop)
        tg_cond_wait(&e->has_context, &e->lock);
    if (e->stop)
        return NULL;
    context *c = e->free_context;
    e->free_context = c->next;
    return c;
}

void tg_run_context_put(engine *e, context *c)
{
    TG_LOCKED(&e->lock);
    c->next = e->free_context;
    e->free_context = c;
    tg_cond_signal(&e->has_context);
}

static uint8_t *make_buffer(size_t bytes, bool *ok)
{
    uint8_t *p = tg_run_buffer_new(bytes);
    *ok &= p != NULL;
    return p;
}

static tg_status open_context(const engine *e, context *c, tg_error *err)
{
    const tg_array *in = e->o.in, *out = e->o.out;
    bool ok = true;

    TG_TRY(tg_chain_context_new(in->meta->chain, false, &c->decode_in, err));
    c->scratch = make_buffer(scratch_bytes(in, out), &ok);
    c->chunk = make_buffer(in->meta->chunk_bytes, &ok);
    c->index = make_buffer(larger(index_bytes(in), index_bytes(out)), &ok);
    c->entries = (void *)make_buffer(larger(entries_bytes(in), entries_bytes(out)), &ok);
    if (out != NULL) {
        TG_TRY(tg_chain_context_new(out->meta->chain, false, &c->decode_out, err));
        TG_TRY(tg_chain_context_new(out->meta->chain, true, &c->encode, err));
        c->encoded = make_buffer(tg_chain_bound(out->meta->chain, 0), &ok);
        c->items = make_buffer(out->meta->chunk_bytes, &ok);
        c->acc = make_buffer(e->acc_bytes, &ok);
        c->made = (void *)make_buffer(entries_bytes(out), &ok);
    }
    return ok ? TG_OK : tg_fail(err, TG_NO_MEMORY, "buffers of a thread");
}

static void close_context(const engine *e, context *c)
{
    const tg_array *in = e->o.in, *out = e->o.out;

    tg_chain_context_free(c->decode_in);
    tg_chain_context_free(c->decode_out);
    tg_chain_context_free(c->encode);
    tg_run_buffer_free(c->scratch, scratch_bytes(in, out));
    tg_run_buffer_free(c->chunk, in->meta->chunk_bytes);
    tg_run_buffer_free(c->index, larger(index_bytes(in), index_bytes(out)));
    tg_run_buffer_free((void *)c->entries, larger(entries_bytes(in), entries_bytes(out)));
    tg_arena_unmap(&c->file.block);
    if (out == NULL)
        return;
    tg_run_buffer_free(c->encoded, tg_chain_bound(out->meta->chain, 0));
    tg_run_buffer_free(c->items, out->meta->chunk_bytes);
    tg_run_buffer_free(c->acc, e->acc_bytes);
    tg_run_buffer_free((void *)c->made, entries_bytes(out));
}

/* --- Who reads what is replaced
 * ---------------------------------------------------------------------- */

/* Units and sources of one array, both by Morton order of their index. */
static int compare_place(const uint64_t *a, const uint64_t *b, const tg_shape *grid)
{
    const uint64_t ma = tg_morton(a, grid->ndim), mb = tg_morton(b, grid->ndim);
    const uint64_t la = tg_ravel(grid, a), lb = tg_ravel(grid, b);

    return ma != mb ? (ma < mb ? -1 : 1) : la != lb ? (la < lb ? -1 : 1) : 0;
}

static tg_status map_sources(engine *e, uint32_t *unit_of, tg_error *err)
{
    const tg_plan *p = e->o.plan;
    const tg_array_meta *m = e->o.out->meta;
    uint64_t index[TG_MAX_NDIM], u = 0;
    tg_plan_unit unit;
    tg_shape grid, shape = {.ndim = m->info.ndim};

    (void)err;
    memcpy(shape.n, m->info.shape, m->info.ndim * sizeof *shape.n);
    tg_grid_shape(&shape, &m->shard, &grid);
    for (uint64_t s = 0; s < tg_plan_n_sources(p); s++) {
        int order = 1;
        tg_plan_source_index(p, s, index);
        for (; u < tg_plan_n_units(p); u++) {
            tg_plan_unit_get(p, u, &unit);
            order = compare_place(unit.index, index, &grid);
            if (order >= 0)
                break;
        }
        unit_of[s] = order == 0 ? (uint32_t)u : UINT32_MAX;
    }
    return TG_OK;
}

static uint32_t missing_units(const engine *e, uint32_t k)
{
    const tg_plan_link *links;
    const uint32_t n = tg_plan_region_units(e->o.plan, k, &links);
    uint32_t missing = 0;

    for (uint32_t i = 0; i < n; i++)
        missing += !tg_run_unit_is_done(e, links[i].at);
    return missing > 0 ? missing : 1; /* its call */
}

static tg_status prepare_readers(engine *e, tg_error *err)
{
    const tg_plan *p = e->o.plan;
    const uint64_t n = tg_plan_n_regions(p), units = tg_plan_n_units(p);
    const uint32_t *sources;
    tg_plan_region r;

    /* One block: readers of units, units missing of regions, units of sources. */
    e->readers = tg_calloc((size_t)(units + n + tg_plan_n_sources(p)) + 1, sizeof *e->readers);
    if (e->readers == NULL)
        return tg_fail(err, TG_NO_MEMORY, "readers of units");
    e->undone = e->readers + units;
    uint32_t *unit_of = e->undone + n;
    TG_TRY(map_sources(e, unit_of, err));
    for (uint64_t k = 0; k < n; k++) {
        tg_plan_region_get(p, k, &r);
        if (!is_mine(e, &r))
            continue;
        e->undone[k] = missing_units(e, (uint32_t)k);
        const uint32_t n_sources = tg_plan_region_sources(p, k, &sources);
        for (uint32_t i = 0; i < n_sources; i++)
            if (unit_of[sources[i]] != UINT32_MAX)
                e->readers[unit_of[sources[i]]]++;
    }
    return TG_OK;
}

/* One of the things that region k waits for is durable; after the last nobody reads its sources
 * for it again. From the committer's thread. */
static void one_less(engine *e, uint32_t k, tg_error *err)
{
    const tg_plan *p = e->o.plan;
    const uint32_t *unit_of = e->undone + tg_plan_n_regions(p);
    const uint32_t *sources;

    if (e->undone[k] == 0 || --e->undone[k] > 0)
        return;
    const uint32_t n = tg_plan_region_sources(p, k, &sources);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t u = unit_of[sources[i]];
        if (u == UINT32_MAX || --e->readers[u] > 0 || !tg_run_unit_is_done(e, u))
            continue;
        if (tg_commit_drop_undo(e->commit, &u, 1, err) != TG_OK)
            tg_run_fail(e, err);
    }
}

static void note_done(void *user, const uint32_t *units, size_t n)
{
    engine *e = user;
    tg_plan_unit unit;
    tg_error err = {0};

    if (e->readers == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = units[i];
        TG_LOCKED(&e->lock); /* past.done is read by who issues */
        e->past.done[u / 8] |= (uint8_t)(1U << (u % 8));
    }
    for (size_t i = 0; i < n; i++) {
        tg_plan_unit_get(e->o.plan, units[i], &unit);
        const uint32_t *regions = tg_plan_unit_regions(e->o.plan, units[i]);
        for (uint32_t k = 0; k < unit.n_writing; k++)
            one_less(e, regions[k], &err);
        if (e->readers[units[i]] == 0 &&
            tg_commit_drop_undo(e->commit, &units[i], 1, &err) != TG_OK)
            tg_run_fail(e, &err);
    }
}

/* --- Beginning
 * --------------------------------------------------------------------------------------- */

static void note_failed(void *user, uint32_t region)
{
    engine *e = user;

    if (e->failed_bits != NULL)
        e->failed_bits[region / 8] |= (uint8_t)(1U << (region % 8));
}

/* What is below must have a place for each item of OUT. */
static tg_status check_base(const engine *e, tg_error *err)
{
    const tg_array_info *in = &e->o.in->meta->info, *out = &e->o.out->meta->info;
    bool same = in->ndim == out->ndim;

    for (uint32_t d = 0; same && d < in->ndim; d++)
        same = in->shape[d] == out->shape[d];
    if (!same)
        return tg_fail(err, TG_INVALID, "--base input: OUT's shape is not IN's");
    tg_status st = tg_cast_check(in->dtype, out->dtype, err);
    if (st != TG_OK)
        tg_error_prefix(err, "--base input");
    return st;
}

static tg_status check(engine *e, tg_error *err)
{
    const tg_function *fn = e->o.fn;

    TG_TRY(tg_pad_parse(e->facts->pad, e->o.in->meta->info.dtype, e->o.in->meta->fill.data,
                        &e->pad, err));
    if (e->o.out == NULL)
        return TG_OK;
    e->given = fn->facts.out_dtype;
    TG_TRY(tg_cast_check(e->given, e->o.out->meta->info.dtype, err));
    if (e->facts->policy == TG_POLICY_LABELS && !e->o.labels)
        return tg_fail(err, TG_UNSUPPORTED, "policy labels: not in parts yet");
    if (e->facts->policy == TG_POLICY_MASK && e->o.mask == NULL && !e->o.merge)
        return tg_fail(err, TG_INVALID, "policy mask: of which masks?");
    if (e->facts->policy == TG_POLICY_USER && fn->ops->fold == NULL)
        return tg_fail(err, TG_INVALID, "policy user: the function brings no fold of its own");
    if (e->base_input)
        TG_TRY(check_base(e, err));
    if (e->facts->read == TG_READ_SEQUENTIAL && e->in_place)
        return tg_fail(err, TG_UNSUPPORTED, "sequential reads in place are not there yet");
    if (tg_chain_bound(e->o.out->meta->chain, 0) == SIZE_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "OUT: its chunks are too large for the codec");
    if (e->o.folder == NULL && e->o.out->meta->info.sharded)
        return tg_fail(err, TG_UNSUPPORTED, "OUT has shards, which need a directory");
    return TG_OK;
}

static bool folds_in_order(const engine *e)
{
    return e->o.out != NULL &&
           (tg_plan_is_ordered(e->facts) || tg_plan_get_stats(e->o.plan)->unclipped > 0);
}

static tg_status set_sizes(engine *e, tg_error *err)
{
    const tg_array *out = e->o.out;
    uint64_t halo[TG_MAX_NDIM];

    e->in_bytes = rounded(e->o.in->meta->chunk_bytes);
    if (out != NULL) {
        for (uint32_t d = 0; d < out->meta->info.ndim; d++)
            halo[d] =
                e->facts->halo[d] / (e->facts->out_step[d] > 0 ? e->facts->out_step[d] : 1);
        TG_TRY(init_accum(&e->acc, e->facts->policy, out->meta->info.dtype, &out->meta->chunk,
                          halo, err));
        e->acc_bytes = rounded(e->acc.bytes);
        e->items_bytes = out->meta->chunk_bytes;
        tg_plan_part_units(e->o.plan, e->o.part, &e->first_unit, &e->end_unit);
        if (e->o.merge) {
            e->first_unit = 0;
            e->end_unit = tg_plan_n_units(e->o.plan);
        }
    }
    e->list_order = e->o.merge || folds_in_order(e) || e->facts->read == TG_READ_SEQUENTIAL;
    e->reverse = e->facts->policy == TG_POLICY_FIRST;
    if (e->list_order) {
        e->first = 0;
        e->end = tg_plan_n_regions(e->o.plan);
    } else {
        tg_plan_part_regions(e->o.plan, e->o.part, &e->first, &e->end);
    }
    e->cursor = e->first;
    uint64_t buckets = 64;
    while (buckets < 65536 &&
           buckets < tg_plan_n_sources(e->o.plan) * tg_plan_source_n_inner(e->o.plan))
        buckets *= 2;
    e->table_mask = buckets - 1;
    return TG_OK;
}

static tg_status make_tables(engine *e, tg_error *err)
{
    e->table = tg_calloc((size_t)e->table_mask + 1, sizeof *e->table);
    e->live = tg_calloc((size_t)(e->end_unit - e->first_unit) + 1, sizeof(live_unit *));
    e->contexts = tg_calloc(e->n_contexts, sizeof *e->contexts);
    e->slots = tg_calloc(e->n_slots, sizeof *e->slots);
    if (e->table == NULL || e->live == NULL || e->contexts == NULL || e->slots == NULL)
        return tg_fail(err, TG_NO_MEMORY, "tables of the run");
    for (uint32_t i = 0; i < e->n_contexts; i++) {
        TG_TRY(open_context(e, &e->contexts[i], err));
        e->contexts[i].next = e->free_context;
        e->free_context = &e->contexts[i];
    }
    for (uint32_t i = 0; i < e->n_slots; i++) {
        slot *s = &e->slots[i];
        bool ok = true;
        s->e = e;
        s->number = i;
        s->in = make_buffer((size_t)e->max_in, &ok);
        s->out = make_buffer((size_t)e->max_out, &ok);
        s->ins = tg_calloc((size_t)e->max_ins + 1, sizeof(piece *));
        s->rows = (tg_row_call){.log = e->o.rows};
        if (e->o.rows != NULL)
            s->rows.buffer = (void *)make_buffer(TG_ROW_BUFFER, &ok);
        if (!ok || s->ins == NULL)
            return tg_fail(err, TG_NO_MEMORY, "buffers of a region");
    }
    return TG_OK;
}

static tg_status open_undo_store(engine *e, tg_error *err)
{
    const tg_store_options options = {.size = sizeof options, .mode = TG_STORE_READ};

    if (e->fresh || e->o.folder == NULL)
        return TG_OK;
    return tg_store_open_fs(&e->undo_store, e->o.folder->path, &options, err);
}

static bool has_border(const engine *e)
{
    return e->o.in_parts && e->o.out != NULL;
}

static tg_status begin_commits(engine *e, tg_error *err)
{
    const tg_commit_options options = {.folder = e->o.folder,
                                       .plan = e->o.plan,
                                       .out = e->o.out,
                                       .part = e->o.part,
                                       .finish = e->o.merge,
                                       .in_parts = e->o.in_parts,
                                       .undo = !e->fresh || e->facts->keep_undo,
                                       .keep_undo = e->facts->keep_undo,
                                       .hold_undo = e->in_place && !e->o.merge,
                                       .interval_ms =
                                           e->facts->commit_ms > 0 ? e->facts->commit_ms : 1000,
                                       .done = note_done,
                                       .user = e};
    if (e->o.folder == NULL || e->o.out == NULL)
        return TG_OK;
    if (e->o.skip && !e->o.merge) {
        e->failed_bits = tg_calloc((size_t)tg_plan_n_regions(e->o.plan) / 8 + 1, 1);
        if (e->failed_bits == NULL)
            return tg_fail(err, TG_NO_MEMORY, "regions that failed");
    }
    TG_TRY(tg_commit_replay(e->o.folder, e->o.plan, e->o.part, e->o.merge, note_failed, e,
                            &e->past, err));
    if (e->past.done == NULL) {
        e->past.done = tg_calloc((size_t)tg_plan_n_units(e->o.plan) / 8 + 1, 1);
        if (e->past.done == NULL)
            return tg_fail(err, TG_NO_MEMORY, "units that are done");
    }
    if (e->o.merge)
        TG_TRY(tg_merge_prepare(e, err));
    else if (e->in_place)
        TG_TRY(prepare_readers(e, err));
    if (has_border(e))
        TG_TRY(tg_border_new(&e->border, e->o.folder, e->o.part, tg_plan_fingerprint(e->o.plan),
                             err));
    return tg_commit_new(&e->commit, &options, &e->past, err);
}

/* --- Running
 * ------------------------------------------------------------------------------------------ */

void tg_run_fail(engine *e, const tg_error *err)
{
    TG_LOCKED(&e->lock);
    /* What others were told to stop for is not the reason. */
    if (e->failed.code == TG_OK || (e->failed.code == TG_CANCELLED && !e->stop))
        e->failed = *err;
    e->stop = true;
    tg_cond_broadcast(&e->turn);
    tg_cond_broadcast(&e->room);
    tg_cond_broadcast(&e->ready);
    tg_cond_broadcast(&e->has_context);
}

static void work(void *user)
{
    slot *s = user;
    engine *e = s->e;

    if (e->o.merge) {
        tg_error err = {0};
        if (tg_merge_run(e, s, &err) != TG_OK)
            tg_run_fail(e, &err);
        return;
    }
    while (tg_run_issue(e, s)) {
        tg_error err = {0};
        if (tg_run_run_region(e, s, &err) != TG_OK)
            tg_run_fail(e, &err);
        tg_reporter_add(e->reporter, 1,
                        times(items_of_box(&s->r.read), e->o.in->meta->info.dtype.size));
    }
}

static void run_threads(engine *e)
{
    tg_error err = {0};

    for (uint32_t i = 0; i < e->n_slots; i++)
        if (tg_thread_start(&e->slots[i].thread, "region", work, &e->slots[i], &err) != TG_OK) {
            tg_run_fail(e, &err);
            break;
        }
    for (uint32_t i = 0; i < e->n_slots; i++)
        tg_thread_join(e->slots[i].thread);
}

/* What was finished is committed, whatever stopped the rest. */
static tg_status end_run(engine *e, tg_error *err)
{
    tg_error late = {0};
    tg_status st = TG_OK;

    if (e->commit != NULL)
        st = tg_commit_flush(e->commit, &late);
    else if (e->o.out != NULL)
        st = tg_store_sync(e->o.out->store, NULL, &late);
    if (st == TG_OK && e->commit != NULL && e->failed.code == TG_OK)
        st = tg_commit_end(e->commit, &late);
    if (st == TG_OK && e->o.rows != NULL)
        st = tg_row_log_sync(e->o.rows, e->failed.code == TG_OK, &late);
    if (st == TG_OK && e->border != NULL && e->failed.code == TG_OK)
        st = tg_border_end(e->border, &late);
    if (e->failed.code != TG_OK) {
        if (err != NULL)
            *err = e->failed;
        return e->failed.code;
    }
    if (st != TG_OK && err != NULL)
        *err = late;
    return st;
}

static void free_units(engine *e)
{
    for (uint64_t i = 0; e->live != NULL && i < e->end_unit - e->first_unit; i++) {
        live_unit *u = e->live[i];
        if (u == NULL)
            continue;
        for (uint32_t k = 0; k < u->n_inner; k++)
            tg_run_piece_drop(e, &u->inner[k]);
        for (parked *q; (q = u->waiting) != NULL;) {
            u->waiting = q->next;
            if (--q->patch->refs == 0) {
                tg_run_buffer_free(q->patch->data, (size_t)q->patch->bytes);
                tg_free(q->patch);
            }
            tg_free(q);
        }
        tg_free(u);
    }
}

static void engine_destroy(engine *e)
{
    tg_commit_free(e->commit);
    tg_border_free(e->border);
    free_units(e);
    for (uint64_t i = 0; e->table != NULL && i <= e->table_mask; i++)
        while (e->table[i] != NULL)
            tg_run_piece_drop(e, e->table[i]);
    while (e->spare_in != NULL) {
        uint8_t *p = e->spare_in;
        memcpy(&e->spare_in, p, sizeof e->spare_in);
        tg_run_buffer_free(p, e->in_bytes);
    }
    while (e->spare_acc != NULL) {
        uint8_t *p = e->spare_acc;
        memcpy(&e->spare_acc, p, sizeof e->spare_acc);
        tg_run_buffer_free(p, e->acc_bytes);
    }
    for (uint32_t i = 0; e->contexts != NULL && i < e->n_contexts; i++)
        close_context(e, &e->contexts[i]);
    for (uint32_t i = 0; e->slots != NULL && i < e->n_slots; i++) {
        tg_run_buffer_free(e->slots[i].in, (size_t)e->max_in);
        tg_run_buffer_free(e->slots[i].out, (size_t)e->max_out);
        tg_run_buffer_free((void *)e->slots[i].rows.buffer, TG_ROW_BUFFER);
        tg_free(e->slots[i].ins);
    }
    tg_free(e->contexts);
    tg_free(e->slots);
    tg_free(e->table);
    tg_free(e->live);
    tg_free(e->readers);
    tg_free(e->failed_bits);
    tg_free(e->fragments);
    tg_commit_past_destroy(&e->past);
    tg_store_free(e->undo_store);
    tg_swap_destroy(&e->swap);
    tg_budget_release(e->budget, e->reserved + e->memory.limit);
    tg_reporter_free(e->reporter);
    for (int i = 0; i < 64; i++)
        tg_mutex_destroy(&e->fold_lock[i]);
    tg_mutex_destroy(&e->lock);
    tg_cond_destroy(&e->turn);
    tg_cond_destroy(&e->room);
    tg_cond_destroy(&e->ready);
    tg_cond_destroy(&e->has_context);
    tg_free(e);
}

static void engine_auto(engine **e)
{
    if (*e != NULL)
        engine_destroy(*e);
}

static tg_status engine_new(engine **out, const tg_engine_options *o, const tg_cancel *cancel,
                            tg_error *err)
{
    engine *e = tg_calloc(1, sizeof *e);

    if (e == NULL)
        return tg_fail(err, TG_NO_MEMORY, "engine");
    e->o = *o;
    if (e->o.n_called == 0)
        e->o.n_called = tg_plan_n_regions(o->plan);
    e->cancel = cancel;
    e->facts = tg_plan_get_facts(o->plan);
    e->budget = tg_runtime_budget(o->rt);
    e->fresh = e->facts->out_new;
    e->in_place = e->facts->in_place && !o->labels;
    e->base_input = e->facts->base == TG_BASE_INPUT && !e->facts->in_place;
    e->n_slots = o->merge ? 1 : o->jobs > 0 ? o->jobs : tg_runtime_threads(o->rt);
    e->n_contexts = 2 * tg_runtime_threads(o->rt);
    if (e->n_contexts > e->n_slots)
        e->n_contexts = e->n_slots;
    e->sample_every_ns = 100000000;
    e->began_ns = tg_clock_ns();
    for (int i = 0; i < 64; i++)
        tg_mutex_init(&e->fold_lock[i]);
    tg_mutex_init(&e->lock);
    tg_cond_init(&e->turn);
    tg_cond_init(&e->room);
    tg_cond_init(&e->ready);
    tg_cond_init(&e->has_context);
    tg_swap_init(&e->swap, o->folder, "swap", 8);
    *out = e;
    return TG_OK;
}

static tg_status run_engine(engine *e, tg_error *err)
{
    uint64_t first, end;
    char swap_name[32];

    TG_TRY(check(e, err));
    TG_TRY(set_sizes(e, err));
    TG_TRY(measure(e, err));
    TG_TRY(reserve_fixed(e, err));
    TG_TRY(make_tables(e, err));
    TG_TRY(begin_commits(e, err));
    TG_TRY(open_undo_store(e, err));
    if (e->o.merge)
        (void)snprintf(swap_name, sizeof swap_name, "swap-finish");
    else
        (void)snprintf(swap_name, sizeof swap_name, "swap-%" PRIu32, e->o.part);
    e->swap.name = swap_name;
    e->swap.slot_bytes = e->acc_bytes < 8 ? 8 : e->acc_bytes;
    tg_plan_part_regions(e->o.plan, e->o.part, &first, &end);
    TG_TRY(tg_reporter_new(&e->reporter, e->o.progress, e->o.progress_user, "apply",
                           end - first, err));
    run_threads(e);
    tg_status st = end_run(e, err);
    tg_run_sample(e, true);
    e->swap.name = "swap";
    return st;
}

tg_status tg_engine_run(const tg_engine_options *options, tg_engine_result *result,
                        const tg_cancel *cancel, tg_error *err)
{
    __attribute__((cleanup(engine_auto))) engine *e = NULL;
    engine *made;

    TG_TRY(engine_new(&made, options, cancel, err));
    e = made;
    tg_status st = run_engine(e, err);
    e->r.parked_peak_bytes = e->memory.parked_peak;
    e->r.memory_peak = e->memory.peak + e->reserved;
    e->r.commits = e->commit == NULL ? 0 : tg_commit_count(e->commit);
    e->r.seconds = (double)(tg_clock_ns() - e->began_ns) * 1e-9;
    *result = e->r;
    return st;
}
