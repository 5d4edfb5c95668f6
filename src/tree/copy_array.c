/* copy: one array. Its units go through lanes, threads with buffers of their own, in batches of
 * about a second, each of which ends with a commit. Where chunks or types change, a window of
 * items as large as the budget allows is read in parallel, each source chunk once, and then
 * written in parallel; if not even one unit fits, each lane streams its unit through a window
 * of its own. */
#include "base/clock.h"
#include "tree/copy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WALK_LIMIT \
    (UINT64_C(1) << 22)          /* units of a grid that is walked; else the store is listed */
#define FINISHED ((size_t)32768) /* units between two commits */
#define SECOND   INT64_C(1000000000)
#define BLOCK    ((size_t)4 << 20)
#define SMALL    ((size_t)64 << 10) /* spans, lists and the like of a lane */

void copy_array_close(copy_array *c)
{
    if (c->reserved > 0)
        tg_budget_release(tg_runtime_budget(c->j->rt), c->reserved);
    if (c->finished != NULL)
        tg_mutex_destroy(&c->lock);
    tg_array_free(c->a);
    tg_array_free(c->b);
    tg_text_free(&c->listed);
    tg_free(c->done);
    tg_free(c->window.items);
    tg_free(c->finished);
    *c = (copy_array){0};
}

/* --- Can units pass as they are? -------------------------------------------------- */

static tg_status same_chains(const copy_array *c, bool *same, tg_error *err)
{
    TG_AUTO_PTR(tg_json) a = NULL;
    TG_AUTO_PTR(tg_json) b = NULL;

    TG_TRY(tg_chain_write_v3(c->a->meta->chain, &a, err));
    TG_TRY(tg_chain_write_v3(c->b->meta->chain, &b, err));
    *same = tg_json_equal(a, b);
    return TG_OK;
}

static bool is_aligned(const copy_array *c)
{
    const tg_array_meta *m = c->a->meta;

    for (uint32_t i = 0; i < m->info.ndim; i++) {
        uint64_t end = c->box.start[i] + c->box.shape.n[i];
        if (c->box.start[i] % m->shard.n[i] != 0 ||
            (end != m->info.shape[i] && end % m->shard.n[i] != 0))
            return false;
    }
    return true;
}

static tg_status find_mode(copy_array *c, tg_error *err)
{
    const tg_array_meta *a = c->a->meta, *b = c->b->meta;
    bool same = false;

    c->converts =
        a->info.dtype.kind != b->info.dtype.kind || a->info.dtype.size != b->info.dtype.size;
    TG_TRY(same_chains(c, &same, err));
    c->encoded = same && !c->converts && is_aligned(c) && a->info.sharded == b->info.sharded &&
                 tg_shape_equal(&a->chunk, &b->chunk) && tg_shape_equal(&a->shard, &b->shard);
    if (a->info.sharded)
        c->encoded = c->encoded && a->index_at_start == b->index_at_start &&
                     a->index_big_endian == b->index_big_endian &&
                     a->index_crc32c == b->index_crc32c &&
                     memcmp(a->index_order, b->index_order, sizeof a->index_order) == 0;
    if (a->info.dtype.kind == TG_DT_STRING && a->info.ndim != 1 &&
        (!c->encoded || c->j->o->verify))
        return tg_fail(err, TG_UNSUPPORTED,
                       "array '%.200s': strings in %u dimensions can only pass as they are",
                       c->a->path, (unsigned)a->info.ndim);
    if (!c->encoded && tg_chain_bound(b->chain, 0) == SIZE_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "array '%.200s': chunks too large for the codec",
                       c->a->path);
    return TG_OK;
}

/* --- Which units -------------------------------------------------------------------- */

/* The destination's units that a stored source unit touches. */
static tg_status note_unit(void *user, const uint64_t *index, tg_error *err)
{
    copy_array *c = user;
    tg_box unit, cut, units;
    uint64_t at[TG_MAX_NDIM];

    TG_TRY(tg_chunk_box(c->a, true, index, &unit, err));
    if (!tg_box_intersect(&unit, &c->box, &cut))
        return TG_OK;
    for (uint32_t i = 0; i < cut.shape.ndim; i++)
        cut.start[i] -= c->box.start[i];
    tg_grid_cover(&cut, &c->b->meta->shard, &units);
    memcpy(at, units.start, sizeof at);
    do {
        uint64_t number = tg_ravel(&c->grid, at);
        tg_text_add_n(&c->listed, (const char *)&number, sizeof number);
        if (c->listed.len > tg_budget_total(tg_runtime_budget(c->j->rt)) / 4)
            return tg_fail(err, TG_OVER_BUDGET,
                           "array '%.200s': a list of its stored chunks takes more than a "
                           "quarter of the budget",
                           c->a->path);
    } while (tg_box_next(&units, at));
    return tg_text_status(&c->listed, err);
}

static int by_number(const void *x, const void *y)
{
    uint64_t a, b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    return a < b ? -1 : a > b;
}

static uint64_t listed_at(const copy_array *c, uint64_t i)
{
    uint64_t number;
    memcpy(&number, c->listed.data + i * sizeof number, sizeof number);
    return number;
}

static tg_status find_units(copy_array *c, tg_error *err)
{
    tg_shape shape = {.ndim = c->b->meta->info.ndim};

    memcpy(shape.n, c->b->meta->info.shape, sizeof shape.n);
    tg_grid_shape(&shape, &c->b->meta->shard, &c->grid);
    TG_TRY(tg_shape_items(&c->grid, &c->n_units, err));
    c->n_visits = c->n_units;
    if (c->n_units <= WALK_LIMIT)
        return TG_OK;
    tg_text_add_n(&c->listed, "", 0);
    TG_TRY(tg_unit_list(c->a, note_unit, c, c->j->cancel, err));
    size_t n = c->listed.len / sizeof(uint64_t);
    if (n > 1)
        qsort(c->listed.data, n, sizeof(uint64_t), by_number);
    c->n_visits = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t number = listed_at(c, i);
        if (i > 0 && listed_at(c, c->n_visits - 1) == number)
            continue;
        memcpy(c->listed.data + c->n_visits++ * sizeof number, &number, sizeof number);
    }
    return TG_OK;
}

static bool is_listed(const copy_array *c)
{
    return c->listed.data != NULL;
}

/* --- Memory -------------------------------------------------------------------------- */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Bytes of the items of `units` units, clipped to the array. */
static size_t block_bytes(const copy_array *c, const tg_shape *units)
{
    const tg_array_meta *m = c->b->meta;
    size_t bytes = m->info.dtype.size;

    for (uint32_t i = 0; i < units->ndim; i++) {
        uint64_t n = 0;
        if (__builtin_mul_overflow(units->n[i], m->shard.n[i], &n) || n > m->info.shape[i])
            n = m->info.shape[i];
        bytes = tg_mul_bytes(bytes, (size_t)n);
    }
    return bytes;
}

/* As many units along dimension i as are wanted and fit. */
static void extend(copy_array *c, uint32_t i, uint64_t want, size_t cap)
{
    tg_shape more = c->group;

    more.n[i] = want > c->grid.n[i] ? c->grid.n[i] : want;
    while (more.n[i] > c->group.n[i] && block_bytes(c, &more) > cap)
        more.n[i] = more.n[i] / 2 > c->group.n[i] ? more.n[i] / 2 : c->group.n[i];
    c->group.n[i] = more.n[i];
}

/* First so that blocks end where source chunks do, then for parallel work. */
static void choose_group(copy_array *c, size_t cap, size_t enough)
{
    const tg_array_meta *a = c->a->meta, *b = c->b->meta;

    c->group = (tg_shape){.ndim = c->grid.ndim};
    for (uint32_t i = 0; i < c->grid.ndim; i++)
        c->group.n[i] = 1;
    if (c->n_units == 0)
        return;
    for (uint32_t i = c->grid.ndim; i-- > 0;)
        extend(c, i, a->chunk.n[i] / gcd(a->chunk.n[i], b->shard.n[i]), cap);
    for (uint32_t i = c->grid.ndim; i-- > 0;) {
        size_t now = block_bytes(c, &c->group);
        if (now >= enough)
            return;
        extend(c, i, c->group.n[i] * (enough / (now == 0 ? 1 : now) + 1),
               cap < enough ? cap : enough);
    }
}

static size_t lane_bytes(const copy_array *c)
{
    const tg_array_meta *a = c->a->meta, *b = c->b->meta;
    const uint32_t caps = tg_store_caps(c->j->dst);
    size_t bytes = tg_add_bytes(c->a->worst_bytes, c->b->worst_bytes);

    if (c->converts)
        bytes = tg_add_bytes(bytes,
                             tg_add_bytes(a->chunk_bytes, a->chunk_bytes / a->info.dtype.size *
                                                              b->info.dtype.size));
    if (!c->encoded || c->j->o->verify)
        return tg_add_bytes(bytes, SMALL);
    if (!a->info.sharded)
        return tg_add_bytes(tg_encoded_limit(a), SMALL);
    bytes = (caps & TG_STORE_CAN_WRITE_AT) != 0 ? BLOCK : tg_shard_buffer_bytes(a, caps);
    return tg_add_bytes(bytes, tg_add_bytes(SMALL, 2 * tg_shard_index_bytes(a)));
}

static tg_status too_large(const copy_array *c, uint64_t want, uint64_t have, tg_error *err)
{
    return tg_fail(err, TG_OVER_BUDGET,
                   "array '%.200s': copying one chunk takes %" PRIu64 " bytes, %" PRIu64
                   " of the budget are free",
                   c->a->path, want, have);
}

static void plan_streams(copy_array *c, uint64_t free, uint64_t least)
{
    while (c->lanes > 1 && free / c->lanes < tg_add_bytes((size_t)c->lane_bytes, (size_t)least))
        c->lanes--;
    uint64_t most = free / c->lanes;
    c->window_bytes = most > c->lane_bytes ? most - c->lane_bytes : 0;
    tg_shape one = {.ndim = c->grid.ndim};
    for (uint32_t i = 0; i < one.ndim; i++)
        one.n[i] = 1;
    if (c->window_bytes > block_bytes(c, &one))
        c->window_bytes = block_bytes(c, &one);
}

static tg_status plan_memory(copy_array *c, tg_error *err)
{
    tg_budget *budget = tg_runtime_budget(c->j->rt);
    const uint64_t fixed =
        FINISHED * sizeof(uint64_t) + c->listed.cap + (is_listed(c) ? 0 : c->n_units / 8 + 1);
    const uint64_t used = tg_budget_used(budget), total = tg_budget_total(budget);
    uint64_t free = total > used ? total - used : 0;
    const bool strings = c->b->meta->info.dtype.kind == TG_DT_STRING;
    const bool items = (!c->encoded || c->j->o->verify) && !strings;
    tg_shape one = {.ndim = c->grid.ndim};

    free = free > fixed ? free - fixed : 0;
    for (uint32_t i = 0; i < one.ndim; i++)
        one.n[i] = 1;
    c->lane_bytes = lane_bytes(c);
    c->lanes = strings ? 1 : tg_pool_width(tg_runtime_pool(c->j->rt));
    if (strings && c->lane_bytes > free) /* text has no bound: as much as there is */
        c->lane_bytes = free;
    const uint64_t least = items ? c->b->meta->chunk_bytes : 0;
    if (tg_add_bytes((size_t)c->lane_bytes, (size_t)least) > free)
        return too_large(c, tg_add_bytes((size_t)c->lane_bytes, (size_t)least), free, err);
    const size_t unit = block_bytes(c, &one);
    uint32_t lanes = c->lanes;
    while (items && lanes > 1 &&
           (free / lanes < c->lane_bytes || free - lanes * c->lane_bytes < unit))
        lanes--;
    if (items && !is_listed(c) && free > lanes * c->lane_bytes &&
        free - lanes * c->lane_bytes >= unit) {
        c->lanes = lanes;
        choose_group(c, (size_t)(free - lanes * c->lane_bytes), lanes * ((size_t)32 << 20));
        c->window_bytes = block_bytes(c, &c->group);
        c->window.cap = (size_t)c->window_bytes;
        c->reserved = fixed + c->lanes * c->lane_bytes + c->window_bytes;
    } else {
        plan_streams(c, free, least);
        if (!items)
            c->window_bytes = 0;
        c->reserved = fixed + c->lanes * (c->lane_bytes + c->window_bytes);
    }
    tg_status st = tg_budget_reserve(budget, c->reserved, "copying an array", err);
    if (st != TG_OK)
        c->reserved = 0;
    return st;
}

tg_status copy_array_plan(copy_array *c, tg_error *err)
{
    TG_TRY(find_mode(c, err));
    TG_TRY(find_units(c, err));
    return plan_memory(c, err);
}

/* --- Lanes ------------------------------------------------------------------------------ */

static uint64_t n_visits(const copy_array *c)
{
    uint64_t n = 0;

    if (c->group.ndim == 0)
        return c->n_visits;
    return tg_shape_items(&c->visit.shape, &n, NULL) == TG_OK ? n : 0;
}

/* The k-th unit to visit: its place in the grid, and its number. */
static uint64_t unit_at(const copy_array *c, uint64_t k, uint64_t *index)
{
    if (c->group.ndim == 0) {
        uint64_t number = is_listed(c) ? listed_at(c, k) : k;
        tg_unravel(&c->grid, number, index);
        return number;
    }
    tg_unravel(&c->visit.shape, k, index);
    for (uint32_t i = 0; i < c->grid.ndim; i++)
        index[i] += c->visit.start[i];
    return tg_ravel(&c->grid, index);
}

static bool is_done(const copy_array *c, uint64_t number)
{
    return c->done != NULL && !c->verifying && (c->done[number / 8] >> number % 8 & 1) != 0;
}

/* false: the batch is full. */
static bool note_finished(copy_array *c, uint64_t number)
{
    TG_LOCKED(&c->lock);
    c->finished[c->n_finished++] = number;
    /* Others may have one in hand each. */
    return c->n_finished + c->lanes < FINISHED;
}

static tg_status run_unit(copy_lane *l, uint64_t k, tg_error *err)
{
    copy_array *c = l->c;
    uint64_t index[TG_MAX_NDIM];
    const uint64_t number = unit_at(c, k, index);

    if (is_done(c, number)) {
        atomic_fetch_add(&c->j->units_resumed, 1);
        tg_reporter_add(c->j->reporter, 1, 0);
        return TG_OK;
    }
    if (c->group.ndim == 0)
        l->own.loaded = false;
    TG_TRY((c->verifying ? copy_unit_verify : copy_unit_write)(l, index, err));
    tg_reporter_add(c->j->reporter, 1, 0);
    if (c->verifying)
        return TG_OK;
    atomic_fetch_add(&c->j->units, 1);
    if (!note_finished(c, number))
        atomic_store(&c->stop, true);
    return TG_OK;
}

static tg_status run_lane(void *user, uint64_t i, uint32_t worker, tg_error *err)
{
    copy_array *c = user;
    TG_AUTO(copy_lane) l = {.c = c, .own = {.cap = (size_t)c->window_bytes}};
    const uint64_t n = n_visits(c);

    (void)i;
    (void)worker;
    l.window = c->group.ndim > 0 ? &c->window : &l.own;
    while (!atomic_load(&c->stop) && tg_clock_ns() < c->until_ns) {
        uint64_t k = atomic_fetch_add(&c->next, 1);
        if (k >= n)
            return TG_OK;
        tg_status st = tg_cancel_check(c->j->cancel, err);
        if (st == TG_OK)
            st = run_unit(&l, k, err);
        if (st != TG_OK) {
            atomic_store(&c->stop, true);
            return st;
        }
    }
    return TG_OK;
}

/* What is finished becomes durable, also after a failure: it need not be done again. */
static tg_status commit(copy_array *c, tg_error *err)
{
    size_t n = c->n_finished;

    c->n_finished = 0;
    return c->verifying ? TG_OK : copy_commit(c->j, c->number, c->finished, n, err);
}

static tg_status run_visits(copy_array *c, tg_error *err)
{
    const uint64_t n = n_visits(c);

    atomic_store(&c->next, 0);
    while (atomic_load(&c->next) < n) {
        atomic_store(&c->stop, false);
        c->until_ns = tg_clock_ns() + SECOND;
        TG_TRY(
            tg_pool_each(tg_runtime_pool(c->j->rt), c->lanes, run_lane, c, c->j->cancel, err));
        if (tg_clock_ns() - c->j->committed_ns >= SECOND ||
            c->n_finished + c->lanes >= FINISHED)
            TG_TRY(commit(c, err));
    }
    return TG_OK;
}

/* --- Blocks --------------------------------------------------------------------------------
 */

/* Rows of source chunks along the last dimension, cut so that there are some for each lane. */
typedef struct loading {
    copy_array *c;
    tg_box chunks; /* of the source's grid */
    tg_shape rows; /* the same with rows for chunks in the last dimension */
    uint64_t run;  /* chunks of a row */
    uint64_t n;
    atomic_uint_least64_t next;
} loading;

static void plan_loading(loading *g)
{
    copy_array *c = g->c;
    tg_box there = c->window.box;

    for (uint32_t i = 0; i < there.shape.ndim; i++)
        there.start[i] += c->box.start[i];
    tg_grid_cover(&there, &c->a->meta->chunk, &g->chunks);
    g->rows = g->chunks.shape;
    g->run = 1;
    g->n = 1;
    const uint32_t ndim = g->rows.ndim;
    for (uint32_t i = 0; i < ndim; i++)
        g->n *= g->rows.n[i];
    if (ndim == 0)
        return;
    uint64_t last = g->rows.n[ndim - 1], others = g->n / (last == 0 ? 1 : last);
    uint64_t want = 4 * (uint64_t)c->lanes,
             parts = others >= want ? 1 : want / (others == 0 ? 1 : others);
    g->run = parts >= last ? 1 : (last + parts - 1) / parts;
    g->rows.n[ndim - 1] = (last + g->run - 1) / g->run;
    g->n = others * g->rows.n[ndim - 1];
}

static tg_status load_row(copy_lane *l, loading *g, uint64_t k, tg_error *err)
{
    copy_array *c = l->c;
    const tg_shape *chunk = &c->a->meta->chunk;
    uint64_t at[TG_MAX_NDIM];
    tg_box box = {.shape = {.ndim = g->rows.ndim}}, there = c->window.box, part;

    tg_unravel(&g->rows, k, at);
    for (uint32_t i = 0; i < box.shape.ndim; i++) {
        const bool last = i + 1 == box.shape.ndim;
        there.start[i] += c->box.start[i];
        uint64_t first = g->chunks.start[i] + at[i] * (last ? g->run : 1);
        box.start[i] = first * chunk->n[i];
        box.shape.n[i] = (last ? g->run : 1) * chunk->n[i];
    }
    if (!tg_box_intersect(&box, &there, &part))
        return TG_OK;
    for (uint32_t i = 0; i < part.shape.ndim; i++)
        part.start[i] -= c->box.start[i];
    return copy_window_read(l, &c->window, &part, err);
}

static tg_status load_lane(void *user, uint64_t i, uint32_t worker, tg_error *err)
{
    loading *g = user;
    TG_AUTO(copy_lane) l = {.c = g->c};

    (void)i;
    (void)worker;
    for (;;) {
        uint64_t k = atomic_fetch_add(&g->next, 1);
        if (k >= g->n || atomic_load(&g->c->stop))
            return TG_OK;
        tg_status st = tg_cancel_check(g->c->j->cancel, err);
        if (st == TG_OK)
            st = load_row(&l, g, k, err);
        if (st != TG_OK) {
            atomic_store(&g->c->stop, true);
            return st;
        }
    }
}

static tg_status load_block(copy_array *c, tg_error *err)
{
    loading g = {.c = c};

    if (c->window.items == NULL)
        c->window.items = tg_alloc(c->window.cap);
    if (c->window.items == NULL)
        return tg_fail(err, TG_NO_MEMORY, "%zu bytes to copy through", c->window.cap);
    plan_loading(&g);
    atomic_init(&g.next, 0);
    atomic_store(&c->stop, false);
    c->window.loaded = false;
    TG_TRY(tg_pool_each(tg_runtime_pool(c->j->rt), c->lanes, load_lane, &g, c->j->cancel, err));
    c->window.loaded = true;
    return TG_OK;
}

/* The k-th block of units, and its items. */
static void place_block(copy_array *c, const tg_shape *blocks, uint64_t k)
{
    const tg_array_meta *m = c->b->meta;
    uint64_t at[TG_MAX_NDIM];

    tg_unravel(blocks, k, at);
    c->visit.shape.ndim = c->window.box.shape.ndim = c->grid.ndim;
    for (uint32_t i = 0; i < c->grid.ndim; i++) {
        uint64_t first = at[i] * c->group.n[i], left = c->grid.n[i] - first;
        c->visit.start[i] = first;
        c->visit.shape.n[i] = left < c->group.n[i] ? left : c->group.n[i];
        uint64_t start = first * m->shard.n[i], end = m->info.shape[i];
        if (c->visit.shape.n[i] < left)
            end = start + c->visit.shape.n[i] * m->shard.n[i];
        c->window.box.start[i] = start;
        c->window.box.shape.n[i] = end - start;
    }
}

static bool is_block_done(const copy_array *c)
{
    uint64_t index[TG_MAX_NDIM];
    const uint64_t n = n_visits(c);

    for (uint64_t k = 0; k < n; k++)
        if (!is_done(c, unit_at(c, k, index)))
            return false;
    return true;
}

static tg_status run_blocks(copy_array *c, tg_error *err)
{
    tg_shape blocks;
    uint64_t n = 0;

    tg_grid_shape(&c->grid, &c->group, &blocks);
    TG_TRY(tg_shape_items(&blocks, &n, err));
    for (uint64_t k = 0; k < n; k++) {
        place_block(c, &blocks, k);
        if (!is_block_done(c))
            TG_TRY(load_block(c, err));
        TG_TRY(run_visits(c, err));
    }
    return TG_OK;
}

/* --- The array ------------------------------------------------------------------------------
 */

static tg_status run_pass(copy_array *c, tg_error *err)
{
    const tg_shape group = c->group;

    if (c->encoded && !c->verifying) /* bytes pass: no blocks */
        c->group = (tg_shape){0};
    tg_status st = c->group.ndim > 0 ? run_blocks(c, err) : run_visits(c, err);
    c->group = group;
    if (st == TG_OK)
        return commit(c, err);
    tg_status also = commit(c, NULL);
    (void)also; /* the first failure is the one to tell */
    return st;
}

static tg_status read_done(copy_array *c, tg_error *err)
{
    if (!c->j->log.resumed || is_listed(c) || c->n_units == 0)
        return TG_OK;
    c->done = tg_calloc((size_t)(c->n_units / 8 + 1), 1);
    if (c->done == NULL)
        return tg_fail(err, TG_NO_MEMORY, "a list of what is done");
    return copy_log_read(&c->j->log, c->number, c->done, c->n_units, err);
}

tg_status copy_array_run(copy_array *c, tg_error *err)
{
    c->finished = tg_alloc_array(FINISHED, sizeof c->finished[0]);
    if (c->finished == NULL)
        return tg_fail(err, TG_NO_MEMORY, "a list of what is done");
    tg_mutex_init(&c->lock);
    TG_TRY(read_done(c, err));
    TG_TRY(run_pass(c, err));
    if (!c->j->o->verify)
        return TG_OK;
    c->verifying = true;
    return run_pass(c, err);
}
