/* From stored units to decoded chunks: of IN, and of OUT as it was before the run. What the run
 * has replaced is read from undo/. */
#include "region/engine.h"
#include "region/items.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- Stored bytes ----------------------------------------------------------------------- */

/* Where the old value of a unit is: its key in OUT or IN, or in undo/. */
typedef struct place {
    tg_store *store;
    char key[TG_KEY_BYTES];
    bool old, none;
} place;

static bool keeps_old(const engine *e, const tg_array *a)
{
    return e->undo_store != NULL && (a == e->o.out || e->in_place);
}

/* Is it in undo/ by now? The link comes before the rename, so what was read from the key itself
 * is old if undo/ has nothing afterwards. */
static bool look_in_undo(const engine *e, const tg_array *a, const uint64_t *index, place *p)
{
    char name[TG_UNDO_BYTES + 8];

    tg_undo_name(a->meta->info.ndim, index, name);
    if (tg_folder_exists(e->o.folder, name)) {
        p->store = e->undo_store;
        (void)snprintf(p->key, sizeof p->key, "%s", name);
        return p->old = true;
    }
    (void)snprintf(name + strlen(name), 9, ".absent");
    if (!tg_folder_exists(e->o.folder, name))
        return false;
    return p->old = p->none = true;
}

static void find(const engine *e, const tg_array *a, const uint64_t *index, place *p)
{
    *p = (place){.store = a->store};
    tg_unit_key(a, index, p->key);
    if (keeps_old(e, a))
        (void)look_in_undo(e, a, index, p);
}

/* Call again with the place in undo/ if the unit was replaced meanwhile. */
static bool moved(const engine *e, const tg_array *a, const uint64_t *index, place *p)
{
    return keeps_old(e, a) && !p->old && look_in_undo(e, a, index, p);
}

static void count_read(engine *e, uint64_t units, uint64_t bytes)
{
    TG_LOCKED(&e->lock);
    e->r.units_read += units;
    e->r.bytes_read += bytes;
}

static tg_status get_alone(engine *e, context *c, const tg_array *a, const uint64_t *index,
                           tg_bytes *out, tg_error *err)
{
    const size_t limit = tg_encoded_limit(a->meta);
    size_t n = 0;
    tg_status st;
    place p;

    find(e, a, index, &p);
    do {
        st = p.none ? TG_NOT_FOUND
                    : tg_store_get_into(p.store, p.key, tg_range_all(), c->scratch, limit, &n,
                                        NULL, e->cancel, err);
    } while (moved(e, a, index, &p));
    if (st == TG_OVER_BUDGET)
        st = tg_name_chunk(a, p.key, UINT64_MAX,
                           tg_fail(err, TG_CORRUPT,
                                   "%zu bytes, %zu are the most that a chunk can be", n, limit),
                           err);
    *out = (tg_bytes){NULL, 0};
    if (st == TG_NOT_FOUND)
        return TG_OK;
    TG_TRY(st);
    *out = (tg_bytes){c->scratch, n};
    count_read(e, 1, n);
    return TG_OK;
}

/* --- Shards ------------------------------------------------------------------------------ */

static tg_status read_index(engine *e, context *c, const tg_array *a, const uint64_t *index,
                            const place *p, tg_error *err)
{
    const tg_array_meta *m = a->meta;
    const size_t bytes = tg_shard_index_bytes(m);
    const tg_range range =
        tg_shard_index_at_start(m) ? tg_range_at(0, bytes) : tg_range_last(bytes);
    uint64_t total = 0;
    size_t n = 0;

    (void)index;
    if (p->none)
        return TG_NOT_FOUND;
    tg_status st =
        tg_store_get_into(p->store, p->key, range, c->index, bytes, &n, &total, e->cancel, err);
    if (st == TG_OK)
        st = tg_shard_index_decode(m, (tg_bytes){c->index, n}, total, c->entries, err);
    if (st == TG_OK)
        count_read(e, 1, n);
    return st == TG_CORRUPT ? tg_name_chunk(a, p->key, UINT64_MAX, st, err) : st;
}

/* The index of the shard into c->entries, unless it is there. */
static tg_status want_index(engine *e, context *c, const tg_array *a, const uint64_t *index,
                            place *p, tg_error *err)
{
    const size_t n = a->meta->info.ndim * sizeof *index;

    if (c->entries_of == a && memcmp(c->entries_unit, index, n) == 0 &&
        c->entries_old == p->old)
        return c->entries_none ? TG_NOT_FOUND : TG_OK;
    c->entries_of = NULL;
    tg_status st = read_index(e, c, a, index, p, err);
    if (st != TG_OK && st != TG_NOT_FOUND)
        return st;
    c->entries_of = a;
    memcpy(c->entries_unit, index, n);
    c->entries_old = p->old;
    c->entries_none = st == TG_NOT_FOUND;
    return st;
}

static tg_status get_inner_at(engine *e, context *c, const tg_array *a, const uint64_t *index,
                              uint32_t inner, place *p, tg_bytes *out, tg_error *err)
{
    const size_t limit = tg_encoded_limit(a->meta);

    *out = (tg_bytes){NULL, 0};
    tg_status st = want_index(e, c, a, index, p, err);
    if (st == TG_NOT_FOUND)
        return TG_OK;
    TG_TRY(st);
    const tg_shard_entry entry = c->entries[inner];
    if (entry.offset == UINT64_MAX)
        return TG_OK;
    if (entry.nbytes > limit)
        return tg_name_chunk(a, p->key, inner,
                             tg_fail(err, TG_CORRUPT,
                                     "%" PRIu64 " bytes, %zu are the most that a chunk can be",
                                     entry.nbytes, limit),
                             err);
    uint8_t *at = c->scratch + entry.offset % TG_SCRATCH_MORE; /* can be read past the cache */
    const tg_span span = {entry.offset, (size_t)entry.nbytes, at};
    TG_TRY(tg_store_get_ranges(p->store, p->key, &span, 1, e->cancel, err));
    *out = (tg_bytes){at, (size_t)entry.nbytes};
    count_read(e, 0, entry.nbytes);
    return TG_OK;
}

tg_status tg_run_load_encoded(engine *e, context *c, const tg_array *a,
                              const uint64_t *unit_index, uint32_t inner, tg_bytes *out,
                              tg_error *err)
{
    tg_status st;
    place p;

    if (!a->meta->info.sharded)
        return get_alone(e, c, a, unit_index, out, err);
    find(e, a, unit_index, &p);
    do {
        st = get_inner_at(e, c, a, unit_index, inner, &p, out, err);
    } while (moved(e, a, unit_index, &p));
    return st;
}

/* --- Decoded chunks ------------------------------------------------------------------------
 */

static tg_status load(engine *e, context *c, const tg_array *a, tg_chain_context *decode,
                      const uint64_t *index, uint32_t inner, uint8_t *items, tg_error *err)
{
    const tg_array_meta *m = a->meta;
    int64_t strides[TG_MAX_NDIM];
    char key[TG_KEY_BYTES];
    tg_bytes encoded;

    TG_TRY(tg_run_load_encoded(e, c, a, index, inner, &encoded, err));
    if (encoded.data == NULL) {
        tg_strides_c(&m->chunk, m->info.dtype.size, strides);
        tg_nd_fill(items, strides, &m->chunk, m->info.dtype.size, m->fill.data);
        return TG_OK;
    }
    tg_status st = tg_chain_decode(m->chain, decode, encoded, items, m->chunk_bytes, err);
    if (st == TG_OK)
        return TG_OK;
    tg_unit_key(a, index, key);
    return tg_name_chunk(a, key, inner, st, err);
}

tg_status tg_run_load_in(engine *e, context *c, uint32_t source, uint32_t inner, uint8_t *items,
                         tg_error *err)
{
    uint64_t index[TG_MAX_NDIM];

    tg_plan_source_index(e->o.plan, source, index);
    return load(e, c, e->o.in, c->decode_in, index, inner, items, err);
}

tg_status tg_run_load_out(engine *e, context *c, const uint64_t *unit_index, uint32_t inner,
                          uint8_t *items, tg_error *err)
{
    return load(e, c, e->o.out, c->decode_out, unit_index, inner, items, err);
}

/* The items that a chunk of IN, in c->chunk, shares with one of OUT. */
static void lay_items(const engine *e, const context *c, const tg_box *from, const tg_box *to,
                      uint8_t *items)
{
    const tg_dtype in = e->o.in->meta->info.dtype, out = e->o.out->meta->info.dtype;
    const uint32_t last = to->shape.ndim == 0 ? 0 : to->shape.ndim - 1;
    int64_t in_step[TG_MAX_NDIM], out_step[TG_MAX_NDIM];
    uint64_t index[TG_MAX_NDIM], n = 1;
    tg_box part, rows;

    if (!tg_box_intersect(from, to, &part))
        return;
    tg_strides_c(&from->shape, in.size, in_step);
    tg_strides_c(&to->shape, out.size, out_step);
    rows = part;
    if (to->shape.ndim > 0) {
        n = part.shape.n[last];
        rows.shape.n[last] = 1;
    }
    memcpy(index, part.start, sizeof index);
    do {
        const uint8_t *src = c->chunk;
        uint8_t *dst = items;
        for (uint32_t d = 0; d < to->shape.ndim; d++) {
            src += (int64_t)(index[d] - from->start[d]) * in_step[d];
            dst += (int64_t)(index[d] - to->start[d]) * out_step[d];
        }
        if (in.kind == out.kind && in.size == out.size)
            memcpy(dst, src, (size_t)n * out.size);
        else
            tg_items_cast(out, dst, out.size, in, src, in.size, (size_t)n);
    } while (tg_box_next(&rows, index));
}

static tg_status load_input(engine *e, context *c, const uint64_t *unit_index, uint32_t inner,
                            uint8_t *items, tg_error *err)
{
    const tg_array_meta *m = e->o.out->meta, *in = e->o.in->meta;
    tg_box array = {.shape = {.ndim = m->info.ndim}}, to = {.shape = m->chunk}, part, cover;
    uint64_t at[TG_MAX_NDIM], unit[TG_MAX_NDIM], inside[TG_MAX_NDIM];
    int64_t strides[TG_MAX_NDIM];

    tg_strides_c(&m->chunk, m->info.dtype.size, strides);
    tg_nd_fill(items, strides, &m->chunk, m->info.dtype.size, m->fill.data);
    memcpy(array.shape.n, m->info.shape, m->info.ndim * sizeof *m->info.shape);
    tg_unravel(&m->grid, inner, inside);
    for (uint32_t d = 0; d < m->info.ndim; d++)
        to.start[d] = (unit_index[d] * m->grid.n[d] + inside[d]) * m->chunk.n[d];
    if (!tg_box_intersect(&to, &array, &part))
        return TG_OK;
    tg_grid_cover(&part, &in->chunk, &cover);
    memcpy(at, cover.start, sizeof at);
    do {
        tg_box from = {.shape = in->chunk};
        for (uint32_t d = 0; d < in->info.ndim; d++) {
            unit[d] = at[d] / in->grid.n[d];
            inside[d] = at[d] % in->grid.n[d];
            from.start[d] = at[d] * in->chunk.n[d];
        }
        TG_TRY(load(e, c, e->o.in, c->decode_in, unit, (uint32_t)tg_ravel(&in->grid, inside),
                    c->chunk, err));
        lay_items(e, c, &from, &to, items);
    } while (tg_box_next(&cover, at));
    return TG_OK;
}

tg_status tg_run_load_base(engine *e, context *c, const uint64_t *unit_index, uint32_t inner,
                           uint8_t *items, tg_error *err)
{
    return (e->base_input ? load_input : tg_run_load_out)(e, c, unit_index, inner, items, err);
}

/* --- Of one region -------------------------------------------------------------------------
 */

/* The next chunk of the region that nobody has begun to read. */
static piece *begin_one(engine *e, slot *s)
{
    TG_LOCKED(&e->lock);
    for (uint32_t i = 0; i < s->n_ins && !e->stop; i++)
        if (s->ins[i] != NULL && s->ins[i]->state == PIECE_EMPTY) {
            s->ins[i]->state = PIECE_LOADING;
            return s->ins[i];
        }
    return NULL;
}

static tg_status fill_one(engine *e, context *c, piece *p, tg_error *err)
{
    if (p->data == NULL)
        p->data = tg_run_buffer_new(e->in_bytes);
    if (p->data == NULL)
        return tg_fail(err, TG_NO_MEMORY, "decoded chunk");
    return tg_run_load_in(e, c, (uint32_t)(p->key >> 32), (uint32_t)p->key, p->data, err);
}

static void end_one(engine *e, piece *p, tg_status st)
{
    TG_LOCKED(&e->lock);
    p->state = st == TG_OK ? PIECE_READY : PIECE_EMPTY;
    tg_cond_broadcast(&e->ready);
}

static bool wants_any(engine *e, const slot *s)
{
    TG_LOCKED(&e->lock);
    for (uint32_t i = 0; i < s->n_ins; i++)
        if (s->ins[i] != NULL && s->ins[i]->state == PIECE_EMPTY)
            return true;
    return false;
}

static tg_status stopped(tg_error *err)
{
    return tg_fail(err, TG_CANCELLED, "stopped: another region has failed");
}

/* Chunks that others are reading. */
static tg_status wait_for_others(engine *e, const slot *s, tg_error *err)
{
    TG_LOCKED(&e->lock);
    for (uint32_t i = 0; i < s->n_ins; i++)
        while (s->ins[i] != NULL && s->ins[i]->state != PIECE_READY) {
            if (e->stop)
                return stopped(err);
            tg_cond_wait(&e->ready, &e->lock);
        }
    return TG_OK;
}

tg_status tg_run_load_pieces(engine *e, slot *s, tg_error *err)
{
    tg_status st = TG_OK;

    if (s->ins_ready) /* and pinned since */
        return TG_OK;
    if (wants_any(e, s)) {
        context *c = tg_run_context_get(e);
        if (c == NULL)
            return stopped(err);
        for (piece *p; st == TG_OK && (p = begin_one(e, s)) != NULL;) {
            st = fill_one(e, c, p, err);
            end_one(e, p, st);
        }
        tg_run_context_put(e, c);
    }
    TG_TRY(st);
    return wait_for_others(e, s, err);
}

void tg_run_release_pieces(engine *e, slot *s)
{
    if (s->n_ins == 0)
        return;
    TG_LOCKED(&e->lock);
    for (uint32_t i = 0; i < s->n_ins; i++) {
        piece *p = s->ins[i];
        if (p == NULL)
            continue;
        p->pins--;
        p->left -= p->left > 0;
        if (p->pins > 0)
            continue;
        if (p->left == 0)
            tg_run_piece_drop(e, p);
        else
            tg_run_piece_list(e, p);
    }
    s->n_ins = 0;
    tg_cond_broadcast(&e->room);
}
