/* Writing what a key holds. A unit that is covered is written without a read;
 * else it is read, changed and written whole, and the chunks of a shard that are
 * not touched keep their bytes as they are. */
#include "zarr/shard_out.h"

#include <inttypes.h>
#include <string.h>

/* Gone, or never there. */
tg_status tg_unit_remove(tg_array *a, const char *key, const tg_cancel *cancel, tg_error *err)
{
    uint64_t bytes = 0;
    tg_status st = TG_OK;

    if ((tg_store_caps(a->store) & TG_STORE_CAN_REMOVE) == 0) { /* a ZIP: only if it matters */
        st = tg_store_size(a->store, key, &bytes, cancel, err);
        if (st == TG_NOT_FOUND)
            return TG_OK;
        if (st != TG_OK)
            return st;
    }
    st = tg_store_remove(a->store, key, cancel, err);
    return st == TG_NOT_FOUND ? TG_OK : st;
}

/* --- Chunks that are stored alone ------------------------------------------ */

typedef struct change {
    tg_make_fn make;
    void *user;
    tg_bytes made;
} change;

static tg_status change_chunk(void *user, const uint64_t *chunk_index, tg_bytes encoded,
                              tg_error *err)
{
    change *c = user;
    return c->make(c->user, chunk_index, encoded, &c->made, err);
}

static tg_status write_alone(tg_array *a, tg_unit_buffers *b, const char *key,
                             const uint64_t *index, bool covered, const tg_box *request,
                             tg_make_fn make, void *user, const tg_cancel *cancel,
                             tg_error *err)
{
    change c = {make, user, {NULL, 0}};

    if (covered)
        TG_TRY(tg_name_chunk(a, key, UINT64_MAX,
                             make(user, index, (tg_bytes){NULL, 0}, &c.made, err), err));
    else
        TG_TRY(tg_unit_read(a, b, index, request, TG_CHUNK_TEXT_BYTES, change_chunk, &c, cancel,
                            err));
    if (c.made.data == NULL)
        return tg_unit_remove(a, key, cancel, err);
    return tg_store_put(a->store, key, c.made.data, c.made.len, cancel, err);
}

/* --- Shards ---------------------------------------------------------------- */

typedef struct rebuild {
    tg_array *a;
    tg_unit_buffers *b; /* index and entries of the old shard */
    const char *key;
    const tg_box *request;
    uint64_t origin[TG_MAX_NDIM]; /* of the shard, in chunks */
    bool has_old;
    tg_make_fn make;
    void *user;
    tg_shard_out out;
    const tg_cancel *cancel;
} rebuild;

static void rebuild_auto(rebuild *r)
{
    tg_shard_out_auto(&r->out);
}

static tg_status old_bytes(rebuild *r, uint64_t i, tg_bytes *old, tg_error *err)
{
    const tg_shard_entry e = r->b->entries[i];
    const size_t limit = tg_encoded_limit(r->a->meta);

    if (e.offset == UINT64_MAX)
        return TG_OK;
    if (e.nbytes > limit)
        return tg_fail(err, TG_CORRUPT,
                       "%" PRIu64 " bytes, %zu are the most that a chunk can be", e.nbytes,
                       limit);
    if (r->b->encoded.data == NULL || r->b->encoded.len < e.nbytes)
        TG_TRY(tg_buf_resize(&r->b->encoded, (size_t)e.nbytes, err));
    const tg_span span = {e.offset, (size_t)e.nbytes, r->b->encoded.data};
    TG_TRY(tg_store_get_ranges(r->a->store, r->key, &span, 1, r->cancel, err));
    *old = (tg_bytes){r->b->encoded.data, (size_t)e.nbytes};
    return TG_OK;
}

/* The bytes of chunk i of the new shard; data NULL: all fill, or outside the array. */
static tg_status new_bytes(rebuild *r, uint64_t i, tg_bytes *out, tg_error *err)
{
    const tg_array_info *info = &r->a->meta->info;
    uint64_t index[TG_MAX_NDIM];
    tg_bytes old = {NULL, 0};
    tg_box box, part;

    tg_unravel(&r->a->meta->grid, i, index);
    for (uint32_t d = 0; d < info->ndim; d++)
        index[d] += r->origin[d];
    TG_TRY(tg_chunk_box(r->a, false, index, &box, err));
    for (uint32_t d = 0; d < info->ndim; d++)
        if (box.start[d] >= info->shape[d])
            return TG_OK;
    const bool touched = tg_box_intersect(&box, r->request, &part);
    if (r->has_old && !(touched && tg_covers(r->a, r->request, &box)))
        TG_TRY(old_bytes(r, i, &old, err));
    if (!touched) {
        *out = old;
        return TG_OK;
    }
    return r->make(r->user, index, old, out, err);
}

static tg_status run_pass(rebuild *r, int pass, tg_error *err)
{
    TG_TRY(tg_shard_out_begin(&r->out, pass, r->cancel, err));
    for (uint64_t i = 0; i < r->a->meta->n_inner; i++) {
        tg_bytes made = {NULL, 0};
        TG_TRY(tg_cancel_check(r->cancel, err));
        TG_TRY(tg_name_chunk(r->a, r->key, i, new_bytes(r, i, &made, err), err));
        TG_TRY(tg_shard_out_add(&r->out, i, made, r->cancel, err));
    }
    return TG_OK;
}

static tg_status write_shard(tg_array *a, tg_unit_buffers *b, const char *key,
                             const uint64_t *unit_index, bool covered, const tg_box *request,
                             tg_make_fn make, void *user, const tg_cancel *cancel,
                             tg_error *err)
{
    TG_AUTO(rebuild)
    r = {.a = a,
         .b = b,
         .key = key,
         .request = request,
         .make = make,
         .user = user,
         .cancel = cancel};
    uint64_t value_bytes = 0;

    for (uint32_t d = 0; d < a->meta->info.ndim; d++)
        r.origin[d] = unit_index[d] * a->meta->grid.n[d];
    if (!covered) {
        tg_status st = tg_unit_index(a, b, key, &value_bytes, cancel, err);
        if (st != TG_OK && st != TG_NOT_FOUND)
            return st;
        r.has_old = st == TG_OK;
    }
    TG_TRY(tg_shard_out_init(&r.out, a, key, err));
    for (int pass = 0; pass < r.out.n_passes; pass++)
        TG_TRY(run_pass(&r, pass, err));
    return tg_shard_out_end(&r.out, cancel, err);
}

tg_status tg_unit_write(tg_array *a, tg_unit_buffers *b, const uint64_t *unit_index,
                        const tg_box *request, tg_make_fn make, void *user,
                        const tg_cancel *cancel, tg_error *err)
{
    char key[TG_KEY_BYTES];
    tg_box unit;

    tg_unit_key(a, unit_index, key);
    TG_TRY(tg_chunk_box(a, true, unit_index, &unit, err));
    return (a->meta->info.sharded ? write_shard : write_alone)(
        a, b, key, unit_index, tg_covers(a, request, &unit), request, make, user, cancel, err);
}
