/* verify: the units of one array, in parallel. Memory for a unit is reserved
 * before it is begun, and what was found is told in order, by one thread. */
#include "tree/verify_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Grids up to this size are walked; beyond it the store is listed: most of them is not there.
 */
#define WALK_LIMIT (UINT64_C(1) << 22)
#define FINDINGS   16 /* told of one unit; the others are counted */

typedef struct finding {
    char what[64];
    tg_error why;
} finding;

typedef struct units {
    verify_job *job;
    tg_array *a;
    bool has_sums;
    tg_shape grid;
    uint64_t n;     /* units to visit */
    uint64_t at;    /* the next of them */
    tg_text listed; /* indexes of stored units, if the grid is too large to walk */
    uint64_t worst; /* bytes reserved for a unit */
} units;

static void units_auto(units *u)
{
    tg_text_free(&u->listed);
}

typedef struct unit {
    units *u;
    uint64_t index[TG_MAX_NDIM];
    uint64_t ok, bad, unverifiable, bytes;
    size_t n_findings;
    finding findings[FINDINGS];
    /* of the work */
    tg_chain_context *ctx;
    uint8_t *items;
} unit;

/* --- One unit --------------------------------------------------------------- */

static void found(unit *x, const char *what, const tg_error *why)
{
    x->bad++;
    if (x->n_findings == FINDINGS)
        return;
    finding *f = &x->findings[x->n_findings++];
    (void)snprintf(f->what, sizeof f->what, "%s", what);
    f->why = *why;
}

static tg_status make_room(unit *x, tg_error *err)
{
    const tg_array_meta *m = x->u->a->meta;

    if (x->ctx == NULL && m->info.dtype.kind != TG_DT_STRING)
        TG_TRY(tg_chain_context_new(m->chain, false, &x->ctx, err));
    if (x->items == NULL)
        x->items = tg_alloc(m->chunk_bytes == 0 ? 1 : m->chunk_bytes);
    return x->items != NULL ? TG_OK : tg_fail(err, TG_NO_MEMORY, "decoded chunk");
}

static tg_status decode(unit *x, tg_bytes encoded, tg_error *err)
{
    const tg_array_meta *m = x->u->a->meta;
    tg_strings strings = {0};

    if (m->info.dtype.kind != TG_DT_STRING)
        return tg_chain_decode(m->chain, x->ctx, encoded, x->items, m->chunk_bytes, err);
    tg_status st =
        tg_chain_decode_strings(m->chain, NULL, encoded, TG_CHUNK_TEXT_BYTES, &strings, err);
    tg_strings_free(&strings);
    return st;
}

static void name_chunk(const unit *x, const uint64_t *chunk_index, char *dst, size_t cap)
{
    const tg_array_meta *m = x->u->a->meta;
    uint64_t inside[TG_MAX_NDIM];

    for (uint32_t i = 0; i < m->info.ndim; i++)
        inside[i] = chunk_index[i] % m->grid.n[i];
    dst[0] = '\0';
    if (m->info.sharded)
        (void)snprintf(dst, cap, "shard %" PRIu64 ", chunk %" PRIu64,
                       tg_ravel(&x->u->grid, x->index), tg_ravel(&m->grid, inside));
}

static tg_status check_chunk(void *user, const uint64_t *chunk_index, tg_bytes encoded,
                             tg_error *err)
{
    unit *x = user;
    tg_error why = {0};
    char what[64];

    if (encoded.data == NULL)
        return TG_OK;
    TG_TRY(make_room(x, err));
    x->bytes += encoded.len;
    tg_status st = decode(x, encoded, &why);
    if (verify_is_finding(st)) {
        name_chunk(x, chunk_index, what, sizeof what);
        found(x, what, &why);
        return TG_OK;
    }
    if (st != TG_OK && err != NULL)
        *err = why;
    if (st == TG_OK && tg_chain_detects_damage(x->u->a->meta->chain))
        x->ok++;
    else if (st == TG_OK && !x->u->has_sums)
        x->unverifiable++;
    return st;
}

/* All of the unit that lies inside the array. */
static tg_status unit_box(const unit *x, tg_box *box, tg_error *err)
{
    const tg_array_info *info = &x->u->a->meta->info;
    tg_box array = {.shape = {.ndim = info->ndim}}, whole;

    memcpy(array.shape.n, info->shape, sizeof array.shape.n);
    TG_TRY(tg_chunk_box(x->u->a, true, x->index, &whole, err));
    (void)tg_box_intersect(&whole, &array, box);
    return TG_OK;
}

static tg_status check_unit(void *user, void *item, uint32_t worker, tg_error *err)
{
    unit *x = item;
    TG_AUTO(tg_unit_buffers) b = {0};
    tg_error why = {0};
    tg_box box;

    (void)user;
    (void)worker;
    TG_TRY(unit_box(x, &box, err));
    tg_status st = tg_unit_read(x->u->a, &b, x->index, &box, TG_CHUNK_TEXT_BYTES, check_chunk,
                                x, x->u->job->cancel, &why);
    if (verify_is_finding(st)) {
        found(x, "", &why);
        st = TG_OK;
    }
    if (st != TG_OK && err != NULL)
        *err = why;
    tg_chain_context_free(tg_steal(x->ctx));
    tg_free(tg_steal(x->items));
    return st;
}

/* --- Handing out and folding ------------------------------------------------- */

static void free_unit(unit *x)
{
    tg_budget_release(tg_runtime_budget(x->u->job->rt), x->u->worst);
    tg_chain_context_free(x->ctx);
    tg_free(x->items);
    tg_free(x);
}

static tg_status next_unit(void *user, void **item, tg_error *err)
{
    units *u = user;
    tg_budget *budget = tg_runtime_budget(u->job->rt);
    const uint32_t ndim = u->grid.ndim;

    if (u->at == u->n)
        return TG_CLOSED;
    TG_TRY(tg_budget_wait(budget, u->worst, 0, "verifying a chunk", u->job->cancel, err));
    unit *x = tg_calloc(1, sizeof *x);
    if (x == NULL) {
        tg_budget_release(budget, u->worst);
        return tg_fail(err, TG_NO_MEMORY, "unit to verify");
    }
    x->u = u;
    if (u->listed.data == NULL)
        tg_unravel(&u->grid, u->at, x->index);
    else
        memcpy(x->index, u->listed.data + u->at * ndim * sizeof x->index[0],
               ndim * sizeof x->index[0]);
    u->at++;
    *item = x;
    return TG_OK;
}

static tg_status fold(void *user, void *item, tg_error *err)
{
    units *u = user;
    unit *x = item;
    char key[TG_KEY_BYTES];

    (void)err;
    tg_unit_key(u->a, x->index, key);
    for (size_t i = 0; i < x->n_findings; i++)
        verify_bad(u->job, key, x->findings[i].what, &x->findings[i].why);
    u->job->result.bad += x->bad - x->n_findings;
    u->job->result.ok += x->ok;
    u->job->result.unverifiable += x->unverifiable;
    u->job->result.bytes += x->bytes;
    tg_reporter_add(u->job->reporter, 1, x->bytes);
    free_unit(x);
    return TG_OK;
}

static void drop(void *user, void *item)
{
    (void)user;
    free_unit(item);
}

/* --- Which units -------------------------------------------------------------- */

static tg_status note_unit(void *user, const uint64_t *index, tg_error *err)
{
    units *u = user;

    for (uint32_t i = 0; i < u->grid.ndim; i++)
        if (index[i] >= u->grid.n[i]) /* behind the shape: not published, not data */
            return TG_OK;
    tg_text_add_n(&u->listed, (const char *)index, u->grid.ndim * sizeof *index);
    u->n++;
    return tg_text_status(&u->listed, err);
}

static tg_status find_units(units *u, tg_error *err)
{
    tg_shape shape = {.ndim = u->a->meta->info.ndim};

    memcpy(shape.n, u->a->meta->info.shape, sizeof shape.n);
    tg_grid_shape(&shape, &u->a->meta->shard, &u->grid);
    if (tg_shape_items(&u->grid, &u->n, NULL) == TG_OK && u->n <= WALK_LIMIT)
        return TG_OK;
    u->n = 0;
    tg_text_add_n(&u->listed, "", 0);
    return tg_unit_list(u->a, note_unit, u, u->job->cancel, err);
}

tg_status verify_units(verify_job *j, tg_array *a, bool has_sums, tg_error *err)
{
    TG_AUTO(units) u = {.job = j, .a = a, .has_sums = has_sums};
    const tg_pipeline pipeline = {.user = &u,
                                  .next = next_unit,
                                  .work = check_unit,
                                  .sink = fold,
                                  .drop = drop,
                                  .depth = 2 * tg_pool_width(tg_runtime_pool(j->rt))};

    TG_TRY(find_units(&u, err));
    if (u.n == 0)
        return TG_OK;
    u.worst = tg_add_bytes(a->worst_bytes, sizeof(unit));
    return tg_pipeline_run(tg_runtime_pool(j->rt), &pipeline, j->cancel, err);
}
