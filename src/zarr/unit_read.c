/* Reading what a key holds: a chunk with one request; of a shard its index, then
 * the chunks that are wanted, gathered into few requests. */
#include "zarr/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SPANS 64 /* chunks of one request */

void tg_unit_buffers_auto(tg_unit_buffers *b)
{
    tg_buf_free(&b->encoded);
    tg_buf_free(&b->index);
    tg_free(b->entries);
    tg_free(b->order);
}

static tg_status at_least(tg_buf *b, size_t n, tg_error *err)
{
    return b->data != NULL && b->len >= n ? TG_OK : tg_buf_resize(b, n == 0 ? 1 : n, err);
}

tg_status tg_name_chunk(const tg_array *a, const char *key, uint64_t inner, tg_status st,
                        tg_error *err)
{
    if (st == TG_OK || st == TG_CANCELLED || st == TG_TIMED_OUT)
        return st;
    if (a->meta->info.sharded && inner != UINT64_MAX)
        tg_error_prefix(err, "shard '%.180s', chunk %" PRIu64, key, inner);
    else
        tg_error_prefix(err, "%s '%.180s'", a->meta->info.sharded ? "shard" : "chunk", key);
    tg_error_at(err, key, TG_NO_OFFSET);
    return st;
}

/* --- Chunks that are stored alone ------------------------------------------ */

/* Strings have no bound but the one that the caller sets. */
static size_t encoded_limit(const tg_array *a, size_t text_limit)
{
    if (a->meta->info.dtype.kind != TG_DT_STRING)
        return tg_encoded_limit(a->meta);
    return tg_add_bytes(tg_chain_bound(a->meta->chain, text_limit), 4096);
}

static tg_status too_long(const tg_array *a, uint64_t got, size_t limit, tg_error *err)
{
    bool text = a->meta->info.dtype.kind == TG_DT_STRING;
    return tg_fail(err, text ? TG_OVER_BUDGET : TG_CORRUPT,
                   "%" PRIu64 " bytes, %zu are the most that %s", got, limit,
                   text ? "may be read" : "a chunk can be");
}

static tg_status get_chunk(tg_array *a, tg_unit_buffers *b, const char *key, size_t limit,
                           tg_bytes *out, const tg_cancel *cancel, tg_error *err)
{
    size_t n = 0;

    if (a->meta->info.dtype.kind == TG_DT_STRING) {
        TG_TRY(tg_store_get(a->store, key, tg_range_all(), limit, &b->encoded, cancel, err));
        n = b->encoded.len;
        TG_TRY(at_least(&b->encoded, 1, err));
    } else {
        TG_TRY(at_least(&b->encoded, limit, err));
        tg_status st = tg_store_get_into(a->store, key, tg_range_all(), b->encoded.data, limit,
                                         &n, NULL, cancel, err);
        if (st == TG_OVER_BUDGET)
            return tg_name_chunk(a, key, 0, too_long(a, n, limit, err), err);
        if (st != TG_OK)
            return st;
    }
    *out = (tg_bytes){b->encoded.data, n};
    return TG_OK;
}

static tg_status read_alone(tg_array *a, tg_unit_buffers *b, const char *key,
                            const uint64_t *index, size_t text_limit, tg_chunk_fn fn,
                            void *user, const tg_cancel *cancel, tg_error *err)
{
    tg_bytes encoded = {NULL, 0};

    tg_status st = get_chunk(a, b, key, encoded_limit(a, text_limit), &encoded, cancel, err);
    if (st != TG_OK && st != TG_NOT_FOUND)
        return st;
    return tg_name_chunk(a, key, UINT64_MAX, fn(user, index, encoded, err), err);
}

/* --- Shards ---------------------------------------------------------------- */

/* A shard that is not there costs no index; a huge one is measured before room is made. */
static tg_status index_room(tg_array *a, tg_unit_buffers *b, const char *key,
                            const tg_cancel *cancel, tg_error *err)
{
    const size_t bytes = tg_shard_index_bytes(a->meta);
    uint64_t size = 0;

    if (bytes > (size_t)1 << 20) {
        TG_TRY(tg_store_size(a->store, key, &size, cancel, err));
        if (size < bytes)
            return tg_name_chunk(a, key, UINT64_MAX,
                                 tg_fail(err, TG_CORRUPT,
                                         "%" PRIu64 " bytes, its index alone has %zu", size,
                                         bytes),
                                 err);
    }
    TG_TRY(at_least(&b->index, bytes, err));
    if (b->entries != NULL)
        return TG_OK;
    b->entries = tg_alloc_array((size_t)a->meta->n_inner, sizeof *b->entries);
    return b->entries != NULL ? TG_OK : tg_fail(err, TG_NO_MEMORY, "shard index");
}

tg_status tg_unit_index(tg_array *a, tg_unit_buffers *b, const char *key, uint64_t *value_bytes,
                        const tg_cancel *cancel, tg_error *err)
{
    const size_t bytes = tg_shard_index_bytes(a->meta);
    const tg_range range =
        a->meta->index_at_start ? tg_range_at(0, bytes) : tg_range_last(bytes);
    size_t n = 0;

    TG_TRY(index_room(a, b, key, cancel, err));
    tg_status st = tg_store_get_into(a->store, key, range, b->index.data, bytes, &n,
                                     value_bytes, cancel, err);
    if (st == TG_OK)
        st = tg_shard_index_decode(a->meta, (tg_bytes){b->index.data, n}, *value_bytes,
                                   b->entries, err);
    /* A value shorter than its index is the shard's fault; others name themselves. */
    return st == TG_CORRUPT ? tg_name_chunk(a, key, UINT64_MAX, st, err) : st;
}

/* The chunks of one unit that a request touches, walked in C order. */
typedef struct walk {
    tg_array *a;
    tg_unit_buffers *b;
    const char *key;
    tg_box chunks;                /* in the array's grid of chunks */
    uint64_t origin[TG_MAX_NDIM]; /* of the unit, in chunks */
    size_t limit;
    tg_chunk_fn fn;
    void *user;
    const tg_cancel *cancel;
} walk;

static uint64_t place_in_unit(const walk *w, const uint64_t *index)
{
    uint64_t inside[TG_MAX_NDIM];

    for (uint32_t i = 0; i < w->a->meta->info.ndim; i++)
        inside[i] = index[i] - w->origin[i];
    return tg_ravel(&w->a->meta->grid, inside);
}

/* Chunks whose bytes come with one request. */
typedef struct batch {
    uint64_t index[SPANS][TG_MAX_NDIM];
    tg_shard_entry entry[SPANS]; /* offset UINT64_MAX: not stored */
    size_t at[SPANS];            /* in the buffer */
    uint64_t inner[SPANS];
    size_t n, bytes;
} batch;

static tg_status fetch(const walk *w, const batch *t, tg_error *err)
{
    tg_span spans[SPANS];
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++) {
        if (t->entry[i].offset == UINT64_MAX)
            continue;
        /* Sorted by insertion: they nearly always are already. */
        tg_span s = {t->entry[i].offset, (size_t)t->entry[i].nbytes,
                     w->b->encoded.data + t->at[i]};
        size_t k = n++;
        for (; k > 0 && spans[k - 1].offset > s.offset; k--)
            spans[k] = spans[k - 1];
        spans[k] = s;
    }
    return n == 0 ? TG_OK : tg_store_get_ranges(w->a->store, w->key, spans, n, w->cancel, err);
}

static tg_status visit(const walk *w, batch *t, tg_error *err)
{
    TG_TRY(fetch(w, t, err));
    for (size_t i = 0; i < t->n; i++) {
        tg_bytes encoded = {NULL, 0};
        if (t->entry[i].offset != UINT64_MAX)
            encoded = (tg_bytes){w->b->encoded.data + t->at[i], (size_t)t->entry[i].nbytes};
        TG_TRY(tg_cancel_check(w->cancel, err));
        TG_TRY(tg_name_chunk(w->a, w->key, t->inner[i],
                             w->fn(w->user, t->index[i], encoded, err), err));
    }
    t->n = 0;
    t->bytes = 0;
    return TG_OK;
}

/* Room for this chunk in the buffer; what the batch holds is visited first if there is none.
 * Strings: the buffer grows to what the chunk has, below the limit. */
static tg_status add_chunk(const walk *w, batch *t, const uint64_t *index, tg_error *err)
{
    const uint64_t inner = place_in_unit(w, index);
    const tg_shard_entry e = w->b->entries[inner];
    const uint64_t nbytes = e.offset == UINT64_MAX ? 0 : e.nbytes;

    if (nbytes > w->limit)
        return tg_name_chunk(w->a, w->key, inner, too_long(w->a, nbytes, w->limit, err), err);
    if (t->n == SPANS || (t->n > 0 && nbytes > w->b->encoded.len - t->bytes))
        TG_TRY(visit(w, t, err));
    TG_TRY(at_least(&w->b->encoded, (size_t)nbytes, err));
    memcpy(t->index[t->n], index, sizeof t->index[0]);
    t->entry[t->n] = e;
    t->at[t->n] = t->bytes;
    t->inner[t->n++] = inner;
    t->bytes += (size_t)nbytes;
    return TG_OK;
}

static tg_status read_shard(const walk *w, tg_error *err)
{
    uint64_t index[TG_MAX_NDIM], value_bytes = 0;
    TG_AUTO(tg_mem_ptr) room = NULL;
    batch *t = NULL;

    tg_status st = tg_unit_index(w->a, w->b, w->key, &value_bytes, w->cancel, err);
    bool missing = st == TG_NOT_FOUND;
    if (st != TG_OK && !missing)
        return st;
    memcpy(index, w->chunks.start, sizeof index);
    if (missing) {
        do
            TG_TRY(w->fn(w->user, index, (tg_bytes){NULL, 0}, err));
        while (tg_box_next(&w->chunks, index));
        return TG_OK;
    }
    if (w->a->meta->info.dtype.kind != TG_DT_STRING)
        TG_TRY(at_least(&w->b->encoded, tg_gather_bytes(w->a->meta), err));
    room = tg_calloc(1, sizeof *t);
    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "shard");
    t = room;
    do
        TG_TRY(add_chunk(w, t, index, err));
    while (tg_box_next(&w->chunks, index));
    return visit(w, t, err);
}

tg_status tg_unit_read(tg_array *a, tg_unit_buffers *b, const uint64_t *unit_index,
                       const tg_box *request, size_t text_limit, tg_chunk_fn fn, void *user,
                       const tg_cancel *cancel, tg_error *err)
{
    char key[TG_KEY_BYTES];
    tg_box unit, part;

    tg_unit_key(a, unit_index, key);
    if (!a->meta->info.sharded)
        return read_alone(a, b, key, unit_index, text_limit, fn, user, cancel, err);
    walk w = {.a = a, .b = b, .key = key, .fn = fn, .user = user, .cancel = cancel};
    w.limit = encoded_limit(a, text_limit);
    TG_TRY(tg_chunk_box(a, true, unit_index, &unit, err));
    if (!tg_box_intersect(&unit, request, &part))
        return TG_OK;
    tg_grid_cover(&part, &a->meta->chunk, &w.chunks);
    for (uint32_t i = 0; i < a->meta->info.ndim; i++)
        w.origin[i] = unit_index[i] * a->meta->grid.n[i];
    return read_shard(&w, err);
}
