/* Single chunks and indexes for jobs that divide the work themselves. Memory is
 * theirs, except for the index of tg_shard_index_read(). */
#include "zarr/array.h"

#include <string.h>

/* scratch: encoded index, entries, encoded chunk; the entries first, for their alignment. */
typedef struct layout {
    size_t entries, index, encoded, total;
} layout;

static layout layout_of(const tg_array_meta *m)
{
    layout l = {0, 0, 0, 0};

    if (m->info.sharded) {
        l.index = tg_mul_bytes((size_t)m->n_inner, sizeof(tg_shard_entry));
        l.encoded = tg_add_bytes(l.index, tg_shard_index_bytes(m));
    }
    l.total = tg_add_bytes(l.encoded, tg_encoded_limit(m));
    return l;
}

size_t tg_chunk_scratch_bytes(const tg_array_meta *m)
{
    return layout_of(m).total;
}

static tg_status too_long(uint64_t got, size_t limit, tg_error *err)
{
    return tg_fail(err, TG_CORRUPT, "%llu bytes, %zu are the most that a chunk can be",
                   (unsigned long long)got, limit);
}

static tg_status read_alone(tg_array *a, const char *key, uint8_t *dst, size_t *n,
                            const tg_cancel *cancel, tg_error *err)
{
    const size_t limit = tg_encoded_limit(a->meta);

    tg_status st =
        tg_store_get_into(a->store, key, tg_range_all(), dst, limit, n, NULL, cancel, err);
    return st == TG_OVER_BUDGET ? too_long(*n, limit, err) : st;
}

/* One request for the index, one for the chunk. */
static tg_status read_inner(tg_array *a, const char *key, uint64_t inner, uint8_t *scratch,
                            size_t *n, const tg_cancel *cancel, tg_error *err)
{
    const tg_array_meta *m = a->meta;
    const layout l = layout_of(m);
    const size_t limit = tg_encoded_limit(m);
    tg_shard_entry *entries = (tg_shard_entry *)(void *)scratch;
    const tg_range range = m->index_at_start ? tg_range_at(0, tg_shard_index_bytes(m))
                                             : tg_range_last(tg_shard_index_bytes(m));
    uint64_t total = 0;
    size_t got = 0;

    TG_TRY(tg_store_get_into(a->store, key, range, scratch + l.index, tg_shard_index_bytes(m),
                             &got, &total, cancel, err));
    TG_TRY(tg_shard_index_decode(m, (tg_bytes){scratch + l.index, got}, total, entries, err));
    const tg_shard_entry e = entries[inner];
    if (e.offset == UINT64_MAX)
        return TG_NOT_FOUND;
    if (e.nbytes > limit)
        return too_long(e.nbytes, limit, err);
    *n = (size_t)e.nbytes;
    const tg_span span = {e.offset, *n, scratch + l.encoded};
    return tg_store_get_ranges(a->store, key, &span, 1, cancel, err);
}

tg_status tg_chunk_read(tg_array *a, tg_chain_context *ctx, const uint64_t *chunk_index,
                        uint8_t *scratch, uint8_t *items, bool *missing,
                        const tg_cancel *cancel, tg_error *err)
{
    const tg_array_meta *m = a->meta;
    const size_t at = layout_of(m).encoded;
    uint64_t unit[TG_MAX_NDIM], inside[TG_MAX_NDIM], inner = 0;
    int64_t strides[TG_MAX_NDIM];
    char key[TG_KEY_BYTES];
    size_t n = 0;

    for (uint32_t i = 0; i < m->info.ndim; i++) {
        unit[i] = chunk_index[i] / m->grid.n[i];
        inside[i] = chunk_index[i] % m->grid.n[i];
    }
    tg_unit_key(a, unit, key);
    if (m->info.sharded)
        inner = tg_ravel(&m->grid, inside);
    tg_status st = m->info.sharded ? read_inner(a, key, inner, scratch, &n, cancel, err)
                                   : read_alone(a, key, scratch + at, &n, cancel, err);
    *missing = st == TG_NOT_FOUND;
    if (*missing) {
        tg_strides_c(&m->chunk, m->info.dtype.size, strides);
        tg_nd_fill(items, strides, &m->chunk, m->info.dtype.size, m->fill.data);
        return TG_OK;
    }
    if (st == TG_OK)
        st = tg_chain_decode(m->chain, ctx, (tg_bytes){scratch + at, n}, items, m->chunk_bytes,
                             err);
    return tg_name_chunk(a, key, inner, st, err);
}

tg_status tg_shard_index_read(tg_array *a, const uint64_t *shard_index, tg_shard_entry *entries,
                              uint64_t *value_bytes, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_unit_buffers) b = {0};
    char key[TG_KEY_BYTES];

    tg_unit_key(a, shard_index, key);
    TG_TRY(tg_unit_index(a, &b, key, value_bytes, cancel, err));
    memcpy(entries, b.entries, (size_t)a->meta->n_inner * sizeof *entries);
    return TG_OK;
}
