/* A unit whose last region was folded: its chunks are encoded, those that no region touched
 * keep their bytes, and the whole goes to a temporary that waits for its commit. */
#include "region/engine.h"

#include <fcntl.h>
#include <string.h>

#define DIRECT_MIN ((uint64_t)1 << 20) /* units below go through the page cache */

/* --- One chunk ------------------------------------------------------------------------------
 */

static tg_status base_items(engine *e, context *c, const live_unit *u, uint32_t inner,
                            tg_error *err)
{
    const tg_array_meta *m = e->o.out->meta;
    const bool covered = !e->o.skip && e->past.n_failed == 0 &&
                         tg_plan_unit_coverage(e->o.plan, u->u, inner) == TG_COVER_FULL;
    int64_t strides[TG_MAX_NDIM];

    if (!covered && (!e->fresh || e->base_input))
        return tg_run_load_base(e, c, u->index, inner, c->items, err);
    tg_strides_c(&m->chunk, m->info.dtype.size, strides);
    tg_nd_fill(c->items, strides, &m->chunk, m->info.dtype.size, m->fill.data);
    return TG_OK;
}

/* The items of a chunk that regions were folded into. */
static tg_status items_of(engine *e, context *c, const live_unit *u, uint32_t inner,
                          const piece *p, const uint8_t **items, tg_error *err)
{
    const uint8_t *acc = p->data;
    uint64_t saturated = 0;

    if (p->state == PIECE_SWAPPED) {
        TG_TRY(tg_swap_in(&e->swap, p->slot, p->sum, c->acc, err));
        acc = c->acc;
    }
    *items = acc;
    if (!e->acc.wide)
        return TG_OK;
    TG_TRY(base_items(e, c, u, inner, err));
    tg_accum_result(&e->acc, acc, c->items, &saturated);
    *items = c->items;
    TG_LOCKED(&e->lock);
    e->r.saturated += saturated;
    return TG_OK;
}

static void forget(engine *e, piece *p)
{
    TG_LOCKED(&e->lock);
    tg_run_piece_drop(e, p);
    p->state = PIECE_EMPTY;
    tg_cond_broadcast(&e->room);
}

static tg_status encode(engine *e, context *c, const uint8_t *items, tg_bytes *out,
                        tg_error *err)
{
    const tg_array_meta *m = e->o.out->meta;
    const size_t size = m->info.dtype.size;
    size_t n = 0;

    *out = (tg_bytes){NULL, 0};
    if (m->info.has_fill && tg_nd_is_fill(items, m->chunk_bytes / size, size, m->fill.data))
        return TG_OK;
    TG_TRY(tg_chain_encode(m->chain, c->encode, (tg_bytes){items, m->chunk_bytes}, c->encoded,
                           tg_chain_bound(m->chain, 0), &n, err));
    *out = (tg_bytes){c->encoded, n};
    return TG_OK;
}

/* Encoded bytes of an inner chunk; data NULL: all fill, or outside the array. */
static tg_status new_bytes(engine *e, context *c, live_unit *u, uint32_t inner, tg_bytes *out,
                           tg_error *err)
{
    const tg_array_meta *m = e->o.out->meta;
    piece *p = &u->inner[inner];
    const uint8_t *items;
    uint64_t inside[TG_MAX_NDIM];

    *out = (tg_bytes){NULL, 0};
    if (p->state != PIECE_EMPTY) {
        TG_TRY(items_of(e, c, u, inner, p, &items, err));
        TG_TRY(encode(e, c, items, out, err));
        forget(e, p);
        return TG_OK;
    }
    if (e->fresh && !e->base_input)
        return TG_OK;
    tg_unravel(&m->grid, inner, inside);
    for (uint32_t d = 0; d < m->info.ndim; d++)
        if ((u->index[d] * m->grid.n[d] + inside[d]) * m->chunk.n[d] >= m->info.shape[d])
            return TG_OK;
    if (e->base_input) {
        TG_TRY(tg_run_load_base(e, c, u->index, inner, c->items, err));
        return encode(e, c, c->items, out, err);
    }
    return tg_run_load_encoded(e, c, e->o.out, u->index, inner, out, err);
}

/* --- The temporary
 * ---------------------------------------------------------------------------- */

static tg_status begin_file(engine *e, context *c, const char *name, uint64_t bytes, int *fd,
                            tg_error *err)
{
    size_t align = 1;

    *fd = tg_sys_open(e->o.folder->dir, name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (*fd < 0)
        return tg_folder_fail(e->o.folder, "make", name, err);
    if (bytes >= DIRECT_MIN && !tg_shard_index_at_start(e->o.out->meta))
        TG_TRY(tg_file_try_direct(*fd, name, true, &align, err));
    if (align > 1)
        TG_TRY(tg_file_preallocate(*fd, bytes, name, err));
    c->reserved = align > 1 ? bytes : 0;
    c->file.fd = *fd;
    c->file.name = name;
    c->file.align = align;
    c->file.gather = align > 1 ? TG_FILE_BLOCK / 4 : 1;
    c->file.fill = 0;
    c->file.end = 0;
    return TG_OK;
}

static tg_status end_file(engine *e, context *c, int *fd, uint64_t *bytes, tg_error *err)
{
    *bytes = tg_appender_at(&c->file);
    TG_TRY(tg_appender_finish(&c->file, NULL, err));
    if (c->reserved > *bytes) /* blocks behind the end are given back */
        TG_TRY(tg_file_truncate(*fd, *bytes, c->file.name, err));
    tg_status st = tg_fd_close(fd, c->file.name, err);
    if (st != TG_OK)
        tg_error_at(err, e->o.folder->path, TG_NO_OFFSET);
    return st;
}

static void count_written(engine *e, uint64_t bytes)
{
    TG_LOCKED(&e->lock);
    e->r.units_written++;
    e->r.bytes_written += bytes;
}

static tg_status put(engine *e, const live_unit *u, tg_bytes bytes, tg_error *err)
{
    char key[TG_KEY_BYTES];

    tg_unit_key(e->o.out, u->index, key);
    if (bytes.data == NULL)
        return tg_unit_remove(e->o.out, key, NULL, err);
    return tg_store_put_lazy(e->o.out->store, key, bytes.data, bytes.len, NULL, err);
}

static tg_status write_alone(engine *e, context *c, live_unit *u, tg_error *err)
{
    TG_AUTO(tg_fd) fd = -1;
    uint64_t bytes = 0;
    char name[48];
    tg_bytes made;

    if (u->inner[0].state == PIECE_EMPTY && !e->base_input) /* its regions have failed */
        return e->commit == NULL ? TG_OK
                                 : tg_commit_add(e->commit, u->u, TG_COMMIT_KEEP, 0, err);
    TG_TRY(new_bytes(e, c, u, 0, &made, err));
    count_written(e, made.len);
    if (e->commit == NULL)
        return put(e, u, made, err);
    if (made.data == NULL)
        return tg_commit_add(e->commit, u->u, TG_COMMIT_REMOVE, 0, err);
    tg_commit_name(e->commit, u->u, name);
    TG_TRY(begin_file(e, c, name, made.len, &fd, err));
    tg_crash_point();
    TG_TRY(tg_appender_write(&c->file, made.data, made.len, NULL, err));
    TG_TRY(end_file(e, c, &fd, &bytes, err));
    tg_crash_point();
    return tg_commit_add(e->commit, u->u, TG_COMMIT_NEW, bytes, err);
}

static tg_status write_index(engine *e, context *c, int fd, tg_error *err)
{
    const tg_array_meta *m = e->o.out->meta;

    TG_TRY(tg_shard_index_encode(m, c->made, c->index, err));
    if (!tg_shard_index_at_start(m))
        return tg_appender_write(&c->file, c->index, tg_shard_index_bytes(m), NULL, err);
    TG_TRY(tg_appender_flush(&c->file, NULL, err));
    return tg_fd_write_at(fd, c->index, tg_shard_index_bytes(m), 0, c->file.name, err);
}

static tg_status write_chunks(engine *e, context *c, live_unit *u, uint64_t *n_stored,
                              tg_error *err)
{
    const tg_array_meta *m = e->o.out->meta;
    tg_bytes made;

    if (tg_shard_index_at_start(m)) {
        memset(c->index, 0, tg_shard_index_bytes(m));
        TG_TRY(tg_appender_write(&c->file, c->index, tg_shard_index_bytes(m), NULL, err));
    }
    for (uint32_t i = 0; i < u->n_inner; i++) {
        TG_TRY(new_bytes(e, c, u, i, &made, err));
        c->made[i] = (tg_shard_entry){UINT64_MAX, UINT64_MAX};
        if (made.data == NULL)
            continue;
        c->made[i] = (tg_shard_entry){tg_appender_at(&c->file), made.len};
        TG_TRY(tg_appender_write(&c->file, made.data, made.len, NULL, err));
        ++*n_stored;
    }
    return TG_OK;
}

static tg_status write_shard(engine *e, context *c, live_unit *u, tg_error *err)
{
    TG_AUTO(tg_fd) fd = -1;
    uint64_t n_stored = 0, bytes = 0;
    char name[48];
    bool touched = e->base_input;

    for (uint32_t i = 0; i < u->n_inner; i++)
        touched |= u->inner[i].state != PIECE_EMPTY;
    if (!touched)
        return tg_commit_add(e->commit, u->u, TG_COMMIT_KEEP, 0, err);
    tg_commit_name(e->commit, u->u, name);
    TG_TRY(
        begin_file(e, c, name, (uint64_t)e->o.out->meta->chunk_bytes * u->n_inner, &fd, err));
    tg_crash_point();
    TG_TRY(write_chunks(e, c, u, &n_stored, err));
    if (n_stored > 0)
        TG_TRY(write_index(e, c, fd, err));
    TG_TRY(end_file(e, c, &fd, &bytes, err));
    tg_crash_point();
    count_written(e, n_stored == 0 ? 0 : bytes);
    if (n_stored > 0)
        return tg_commit_add(e->commit, u->u, TG_COMMIT_NEW, bytes, err);
    TG_TRY(tg_folder_drop(e->o.folder, name, err));
    return tg_commit_add(e->commit, u->u, TG_COMMIT_REMOVE, 0, err);
}

/* --- The end of a unit
 * ------------------------------------------------------------------------ */

static void wait_for_swap(engine *e, live_unit *u)
{
    TG_LOCKED(&e->lock);
    for (uint32_t i = 0; i < u->n_inner; i++)
        while (u->inner[i].state == PIECE_LEAVING)
            tg_cond_wait(&e->ready, &e->lock);
}

tg_status tg_run_flush_unit(engine *e, live_unit *u, tg_error *err)
{
    tg_status st = TG_OK;

    wait_for_swap(e, u);
    context *c = tg_run_context_get(e);
    if (c == NULL)
        st = tg_fail(err, TG_CANCELLED, "stopped");
    else
        st = (e->o.out->meta->info.sharded ? write_shard : write_alone)(e, c, u, err);
    if (c != NULL)
        tg_run_context_put(e, c);
    TG_LOCKED(&e->lock);
    for (uint32_t i = 0; i < u->n_inner; i++)
        tg_run_piece_drop(e, &u->inner[i]);
    e->memory.used -= u->bytes;
    tg_cond_broadcast(&e->room);
    tg_free(u);
    return st;
}
