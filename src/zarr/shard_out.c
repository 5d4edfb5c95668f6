/* A shard on its way to the store. Knows entries and bytes, not what is in them. */
#include "zarr/shard_out.h"

#include <inttypes.h>
#include <string.h>

void tg_shard_out_auto(tg_shard_out *o)
{
    if (o->object != NULL)
        tg_object_abort(o->object);
    tg_object_free(o->object);
    tg_buf_free(&o->whole);
    tg_buf_free(&o->index);
    tg_free(o->entries);
}

tg_status tg_shard_out_init(tg_shard_out *o, tg_array *a, const char *key, tg_error *err)
{
    const tg_array_meta *m = a->meta;
    size_t room = tg_shard_buffer_bytes(m, tg_store_caps(a->store));

    if (room == SIZE_MAX)
        return tg_fail(err, TG_OVER_BUDGET, "a shard that is put whole does not fit memory");
    o->a = a;
    o->key = key;
    o->n_passes = room == 0 && m->index_at_start ? 2 : 1;
    o->entries = tg_alloc_array((size_t)m->n_inner, sizeof *o->entries);
    if (o->entries == NULL)
        return tg_fail(err, TG_NO_MEMORY, "shard index");
    TG_TRY(tg_buf_resize(&o->index, tg_shard_index_bytes(m), err));
    return room == 0 ? TG_OK : tg_buf_resize(&o->whole, room, err);
}

static tg_status write_out(tg_shard_out *o, const uint8_t *data, size_t len,
                           const tg_cancel *cancel, tg_error *err)
{
    const tg_object_options options = {0};

    if (o->object == NULL)
        TG_TRY(tg_object_begin(o->a->store, o->key, options, &o->object, cancel, err));
    return tg_object_write(o->object, data, len, cancel, err);
}

static tg_status write_index(tg_shard_out *o, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(tg_shard_index_encode(o->a->meta, o->entries, o->index.data, err));
    return write_out(o, o->index.data, o->index.len, cancel, err);
}

tg_status tg_shard_out_begin(tg_shard_out *o, int pass, const tg_cancel *cancel, tg_error *err)
{
    const bool index_first = o->a->meta->index_at_start;

    o->pass = pass;
    o->at = index_first ? o->index.len : 0;
    if (pass == 0)
        o->n_stored = 0;
    else if (o->n_stored > 0) /* counted: the index is known now */
        return write_index(o, cancel, err);
    return TG_OK;
}

/* Strings: no bound is known, so the room grows. */
static tg_status gather(tg_shard_out *o, tg_bytes encoded, tg_error *err)
{
    size_t need = tg_add_bytes((size_t)o->at, tg_add_bytes(encoded.len, o->index.len));

    if (need > o->whole.len) {
        TG_AUTO(tg_buf) more = {0};
        TG_TRY(tg_buf_resize(&more, need > SIZE_MAX / 2 ? need : 2 * need, err));
        memcpy(more.data, o->whole.data, (size_t)o->at);
        tg_buf_move(&o->whole, &more);
    }
    memcpy(o->whole.data + o->at, encoded.data, encoded.len);
    return TG_OK;
}

tg_status tg_shard_out_add(tg_shard_out *o, uint64_t i, tg_bytes encoded,
                           const tg_cancel *cancel, tg_error *err)
{
    tg_shard_entry e = {UINT64_MAX, UINT64_MAX};

    if (encoded.data != NULL)
        e = (tg_shard_entry){o->at, encoded.len};
    if (o->pass > 0 && memcmp(&e, &o->entries[i], sizeof e) != 0)
        return tg_fail(err, TG_INVALID,
                       "shard '%.200s', chunk %" PRIu64 ": changed while it was written",
                       o->key, i);
    o->entries[i] = e;
    if (encoded.data == NULL)
        return TG_OK;
    if (o->whole.data != NULL)
        TG_TRY(gather(o, encoded, err));
    else if (o->pass == o->n_passes - 1)
        TG_TRY(write_out(o, encoded.data, encoded.len, cancel, err));
    o->at += encoded.len;
    o->n_stored += o->pass == 0;
    return TG_OK;
}

static tg_status put_whole(tg_shard_out *o, const tg_cancel *cancel, tg_error *err)
{
    const bool index_first = o->a->meta->index_at_start;
    size_t len = (size_t)o->at + (index_first ? 0 : o->index.len);

    TG_TRY(tg_shard_index_encode(o->a->meta, o->entries,
                                 o->whole.data + (index_first ? 0 : o->at), err));
    return tg_store_put(o->a->store, o->key, o->whole.data, len, cancel, err);
}

tg_status tg_shard_out_end(tg_shard_out *o, const tg_cancel *cancel, tg_error *err)
{
    uint64_t len = o->at;

    if (o->n_stored == 0)
        return tg_unit_remove(o->a, o->key, cancel, err);
    if (o->whole.data != NULL)
        return put_whole(o, cancel, err);
    if (!o->a->meta->index_at_start) {
        TG_TRY(write_index(o, cancel, err));
        len += o->index.len;
    }
    TG_TRY(tg_object_seal(o->object, len, cancel, err));
    tg_object_free(tg_steal(o->object));
    return TG_OK;
}
