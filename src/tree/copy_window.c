/* copy: items on their way. A window is a block of them, in the destination's type: read from
 * the source's chunks, then written, or compared, chunk by chunk of the destination. */
#include "base/crc32c.h"
#include "nd/convert.h"
#include "tree/copy.h"

#include <string.h>

void copy_lane_auto(copy_lane *l)
{
    tg_unit_buffers_auto(&l->units);
    tg_chain_context_free(l->encode);
    tg_buf_free(&l->encoded);
    tg_free(l->items);
    tg_free(l->staging);
    tg_free(l->converted);
    tg_free(l->own.items);
}

tg_status copy_unit_box(const copy_array *c, const uint64_t *unit, tg_box *box, tg_error *err)
{
    const tg_array_info *info = &c->b->meta->info;
    tg_box array = {.shape = {.ndim = info->ndim}}, whole;

    memcpy(array.shape.n, info->shape, sizeof array.shape.n);
    TG_TRY(tg_chunk_box(c->b, true, unit, &whole, err));
    (void)tg_box_intersect(&whole, &array, box);
    return TG_OK;
}

static tg_status take(uint8_t **room, size_t bytes, tg_error *err)
{
    if (*room == NULL)
        *room = tg_alloc(bytes == 0 ? 1 : bytes);
    return *room != NULL ? TG_OK : tg_fail(err, TG_NO_MEMORY, "a block to copy");
}

/* --- Reading ----------------------------------------------------------------- */

/* Where a box begins in a window. */
static uint8_t *place(const copy_array *c, const copy_window *w, const tg_box *box,
                      int64_t *strides)
{
    uint8_t *at = w->items;

    tg_strides_c(&w->box.shape, c->b->meta->info.dtype.size, strides);
    for (uint32_t i = 0; i < box->shape.ndim; i++)
        at += (int64_t)(box->start[i] - w->box.start[i]) * strides[i];
    return at;
}

/* The part of one source chunk, by way of its own type. */
static tg_status read_converted(copy_lane *l, copy_window *w, const tg_box *part, tg_error *err)
{
    copy_array *c = l->c;
    const tg_array_meta *from = c->a->meta;
    const tg_dtype to = c->b->meta->info.dtype;
    uint64_t start[TG_MAX_NDIM], n = 0;
    int64_t strides[TG_MAX_NDIM], dense[TG_MAX_NDIM];

    TG_TRY(tg_shape_items(&part->shape, &n, err));
    TG_TRY(take(&l->staging, from->chunk_bytes, err));
    TG_TRY(take(&l->converted, from->chunk_bytes / from->info.dtype.size * to.size, err));
    for (uint32_t i = 0; i < part->shape.ndim; i++)
        start[i] = c->box.start[i] + part->start[i];
    TG_TRY(tg_array_read(c->a, start, part->shape.n, l->staging, NULL, c->j->cancel, err));
    uint64_t lost = tg_nd_convert(l->converted, to, l->staging, from->info.dtype, (size_t)n);
    if (!c->verifying)
        atomic_fetch_add(&c->j->saturated, lost);
    uint8_t *dst = place(c, w, part, strides);
    tg_strides_c(&part->shape, to.size, dense);
    tg_nd_copy(dst, strides, l->converted, dense, &part->shape, to.size);
    return TG_OK;
}

tg_status copy_window_read(copy_lane *l, copy_window *w, const tg_box *part, tg_error *err)
{
    copy_array *c = l->c;
    uint64_t start[TG_MAX_NDIM], index[TG_MAX_NDIM];
    int64_t strides[TG_MAX_NDIM];
    tg_box there = *part, chunks, chunk, cut;

    for (uint32_t i = 0; i < part->shape.ndim; i++)
        start[i] = there.start[i] = c->box.start[i] + part->start[i];
    if (!c->converts) {
        uint8_t *dst = place(c, w, part, strides);
        return tg_array_read(c->a, start, part->shape.n, dst, strides, c->j->cancel, err);
    }
    tg_grid_cover(&there, &c->a->meta->chunk, &chunks);
    memcpy(index, chunks.start, sizeof index);
    do {
        TG_TRY(tg_chunk_box(c->a, false, index, &chunk, err));
        if (!tg_box_intersect(&chunk, &there, &cut))
            continue;
        for (uint32_t i = 0; i < cut.shape.ndim; i++)
            cut.start[i] -= c->box.start[i];
        TG_TRY(read_converted(l, w, &cut, err));
    } while (tg_box_next(&chunks, index));
    return TG_OK;
}

static bool holds(const copy_window *w, const tg_box *box)
{
    for (uint32_t i = 0; w->loaded && i < box->shape.ndim; i++)
        if (box->start[i] < w->box.start[i] ||
            box->start[i] + box->shape.n[i] > w->box.start[i] + w->box.shape.n[i])
            return false;
    return w->loaded;
}

/* Chunks follow in C order of the unit: a dimension may grow once those behind it are whole. */
static void grow(const copy_array *c, tg_box *box, const tg_box *unit, size_t cap)
{
    const tg_array_meta *m = c->b->meta;
    size_t bytes = m->info.dtype.size;

    for (uint32_t i = 0; i < box->shape.ndim; i++)
        bytes = tg_mul_bytes(bytes, (size_t)box->shape.n[i]);
    for (uint32_t i = box->shape.ndim; i-- > 0;) {
        uint64_t most = unit->start[i] + unit->shape.n[i] - box->start[i];
        uint64_t k = bytes == 0 || bytes > cap ? 1 : cap / bytes;
        uint64_t n = k > most / m->chunk.n[i] ? most : k * m->chunk.n[i];
        if (n > box->shape.n[i]) {
            bytes = bytes / (size_t)box->shape.n[i] * (size_t)n;
            box->shape.n[i] = n;
        }
        if (box->start[i] != unit->start[i] || box->shape.n[i] != unit->shape.n[i])
            return;
    }
}

tg_status copy_window_hold(copy_lane *l, const tg_box *box, const tg_box *unit_box,
                           tg_error *err)
{
    copy_window *w = l->window;

    if (holds(w, box))
        return TG_OK;
    w->loaded = false;
    TG_TRY(take(&w->items, w->cap, err));
    w->box = *box;
    grow(l->c, &w->box, unit_box, w->cap);
    TG_TRY(copy_window_read(l, w, &w->box, err));
    w->loaded = true;
    return TG_OK;
}

/* --- Writing ------------------------------------------------------------------- */

typedef struct writing {
    copy_lane *l;
    tg_box unit;
} writing;

static tg_status clipped_chunk(const copy_array *c, const uint64_t *index, tg_box *chunk,
                               tg_box *inside, tg_error *err)
{
    const tg_array_info *info = &c->b->meta->info;
    tg_box array = {.shape = {.ndim = info->ndim}};

    memcpy(array.shape.n, info->shape, sizeof array.shape.n);
    TG_TRY(tg_chunk_box(c->b, false, index, chunk, err));
    (void)tg_box_intersect(chunk, &array, inside);
    return TG_OK;
}

static tg_status make_chunk(void *user, const uint64_t *index, tg_bytes old, tg_bytes *out,
                            tg_error *err)
{
    const writing *w = user;
    copy_lane *l = w->l;
    const tg_array_meta *m = l->c->b->meta;
    const size_t item = m->info.dtype.size;
    int64_t from[TG_MAX_NDIM], to[TG_MAX_NDIM];
    tg_box chunk, inside;
    size_t n = 0;

    (void)old; /* units are covered whole */
    TG_TRY(clipped_chunk(l->c, index, &chunk, &inside, err));
    TG_TRY(copy_window_hold(l, &inside, &w->unit, err));
    TG_TRY(take(&l->items, m->chunk_bytes, err));
    tg_strides_c(&m->chunk, item, to);
    if (!tg_shape_equal(&inside.shape, &m->chunk)) /* beyond the edge lies fill */
        tg_nd_fill(l->items, to, &m->chunk, item, m->fill.data);
    const uint8_t *src = place(l->c, l->window, &inside, from);
    tg_nd_copy(l->items, to, src, from, &inside.shape, item);
    *out = (tg_bytes){NULL, 0};
    if (m->info.has_fill && tg_nd_is_fill(l->items, m->chunk_bytes / item, item, m->fill.data))
        return TG_OK;
    if (l->encode == NULL)
        TG_TRY(tg_chain_context_new(m->chain, true, &l->encode, err));
    if (l->encoded.data == NULL)
        TG_TRY(tg_buf_resize(&l->encoded, tg_chain_bound(m->chain, 0), err));
    TG_TRY(tg_chain_encode(m->chain, l->encode, (tg_bytes){l->items, m->chunk_bytes},
                           l->encoded.data, l->encoded.len, &n, err));
    *out = (tg_bytes){l->encoded.data, n};
    return TG_OK;
}

/* Strings lie in one dimension. */
static tg_status copy_strings(copy_lane *l, const tg_box *box, tg_error *err)
{
    copy_array *c = l->c;
    TG_AUTO(tg_strings) s = {.n = (size_t)box->shape.n[0]};
    const size_t limit = (size_t)c->lane_bytes / 8;

    TG_TRY(tg_array_read_strings(c->a, c->box.start[0] + box->start[0], box->shape.n[0], limit,
                                 &s.offsets, &s.text, c->j->cancel, err));
    return tg_array_write_strings(c->b, box->start[0], box->shape.n[0], s.offsets, s.text,
                                  c->j->cancel, err);
}

/* --- Encoded bytes ---------------------------------------------------------------- */

#define BLOCK ((size_t)4 << 20)

static tg_status check_sum(const copy_array *c, const char *key, tg_bytes value, tg_error *err)
{
    if (c->a->meta->info.sharded || !tg_chain_has_crc32c_last(c->a->meta->chain))
        return TG_OK;
    tg_status st = TG_OK;
    uint32_t want = 0;
    if (value.len < 4) {
        st = tg_fail(err, TG_CORRUPT, "%zu bytes, its crc32c alone has 4", value.len);
        return tg_name_chunk(c->a, key, UINT64_MAX, st, err);
    }
    for (int i = 0; i < 4; i++)
        want |= (uint32_t)value.data[value.len - 4 + (size_t)i] << (8 * i);
    uint32_t got = tg_crc32c(0, value.data, value.len - 4);
    if (got == want)
        return TG_OK;
    st = tg_fail(err, TG_CORRUPT, "crc32c: got %08x, want %08x", (unsigned)got, (unsigned)want);
    return tg_name_chunk(c->a, key, UINT64_MAX, st, err);
}

/* A value of any length, block by block. */
static tg_status pass_long(copy_lane *l, const char *from, const char *to, uint64_t size,
                           tg_error *err)
{
    copy_array *c = l->c;
    TG_AUTO_PTR(tg_object) object = NULL;
    const tg_object_options options = {.size_hint = size};
    tg_status st = tg_object_begin(c->j->dst, to, options, &object, c->j->cancel, err);

    for (uint64_t at = 0; st == TG_OK && at < size;) {
        size_t n = size - at < l->encoded.len ? (size_t)(size - at) : l->encoded.len;
        size_t got = 0;
        st = tg_store_get_into(c->j->src, from, tg_range_at(at, n), l->encoded.data, n, &got,
                               NULL, c->j->cancel, err);
        if (st == TG_OK)
            st = tg_object_write(object, l->encoded.data, n, c->j->cancel, err);
        at += n;
    }
    if (st == TG_OK)
        st = tg_object_seal(object, size, c->j->cancel, err);
    if (st != TG_OK && object != NULL)
        tg_object_abort(object);
    return st;
}

static tg_status pass_encoded(copy_lane *l, const uint64_t *unit, bool *there, tg_error *err)
{
    copy_array *c = l->c;
    char from[TG_KEY_BYTES], to[TG_KEY_BYTES];
    uint64_t index[TG_MAX_NDIM], size = 0;
    size_t n = 0;

    for (uint32_t i = 0; i < c->grid.ndim; i++)
        index[i] = unit[i] + c->box.start[i] / c->a->meta->shard.n[i];
    tg_unit_key(c->a, index, from);
    tg_unit_key(c->b, unit, to);
    tg_status st = c->a->meta->info.sharded
                       ? tg_unit_index(c->a, &l->units, from, &size, c->j->cancel, err)
                       : TG_OK;
    *there = st == TG_OK;
    if (st != TG_OK)
        return st == TG_NOT_FOUND ? TG_OK : st;
    if (l->encoded.data == NULL)
        TG_TRY(tg_buf_resize(&l->encoded, (size_t)c->lane_bytes, err));
    if (size > l->encoded.len && (tg_store_caps(c->j->dst) & TG_STORE_CAN_WRITE_AT) != 0)
        return pass_long(l, from, to, size, err);
    st = tg_store_get_into(c->j->src, from, tg_range_all(), l->encoded.data, l->encoded.len, &n,
                           NULL, c->j->cancel, err);
    *there = st == TG_OK;
    if (st == TG_OVER_BUDGET)
        return tg_name_chunk(c->a, from, UINT64_MAX,
                             tg_fail(err, TG_CORRUPT, "%zu bytes, %zu are the most it can have",
                                     n, l->encoded.len),
                             err);
    if (st != TG_OK)
        return st == TG_NOT_FOUND ? TG_OK : st;
    TG_TRY(check_sum(c, from, (tg_bytes){l->encoded.data, n}, err));
    return tg_store_put(c->j->dst, to, l->encoded.data, n, c->j->cancel, err);
}

tg_status copy_unit_write(copy_lane *l, const uint64_t *unit, tg_error *err)
{
    copy_array *c = l->c;
    writing w = {.l = l};
    bool there = false;

    if (c->encoded) {
        TG_TRY(pass_encoded(l, unit, &there, err));
        if (there)
            atomic_fetch_add(&c->j->units_encoded, 1);
        return TG_OK;
    }
    TG_TRY(copy_unit_box(c, unit, &w.unit, err));
    if (c->b->meta->info.dtype.kind == TG_DT_STRING)
        return copy_strings(l, &w.unit, err);
    return tg_unit_write(c->b, &l->units, unit, &w.unit, make_chunk, &w, c->j->cancel, err);
}

/* --- Comparing ------------------------------------------------------------------- */

static tg_status differs(const copy_array *c, const uint64_t *unit, tg_error *err)
{
    char key[TG_KEY_BYTES];

    tg_unit_key(c->b, unit, key);
    tg_status st =
        tg_fail(err, TG_CORRUPT,
                "what was written to '%.200s' is not what was read from the source", key);
    tg_error_at(err, key, TG_NO_OFFSET);
    return st;
}

static bool same_items(const copy_array *c, const copy_window *w, const tg_box *box,
                       const uint8_t *items)
{
    const size_t item = c->b->meta->info.dtype.size;
    int64_t strides[TG_MAX_NDIM], dense[TG_MAX_NDIM];
    uint64_t index[TG_MAX_NDIM];
    const uint8_t *src = place(c, w, box, strides);
    tg_box rows = *box;
    size_t row = item;

    if (box->shape.ndim > 0) {
        row *= (size_t)box->shape.n[box->shape.ndim - 1];
        rows.shape.n[box->shape.ndim - 1] = 1;
    }
    tg_strides_c(&box->shape, item, dense);
    memcpy(index, rows.start, sizeof index);
    do {
        int64_t a = 0, b = 0;
        for (uint32_t i = 0; i < box->shape.ndim; i++) {
            a += (int64_t)(index[i] - box->start[i]) * strides[i];
            b += (int64_t)(index[i] - box->start[i]) * dense[i];
        }
        if (memcmp(src + a, items + b, row) != 0)
            return false;
    } while (tg_box_next(&rows, index));
    return true;
}

static tg_status verify_strings(copy_lane *l, const uint64_t *unit, const tg_box *box,
                                tg_error *err)
{
    copy_array *c = l->c;
    TG_AUTO(tg_strings) x = {.n = (size_t)box->shape.n[0]};
    TG_AUTO(tg_strings) y = {.n = (size_t)box->shape.n[0]};
    const size_t limit = (size_t)c->lane_bytes / 8;
    const size_t n = (size_t)box->shape.n[0];

    TG_TRY(tg_array_read_strings(c->a, c->box.start[0] + box->start[0], n, limit, &x.offsets,
                                 &x.text, c->j->cancel, err));
    TG_TRY(tg_array_read_strings(c->b, box->start[0], n, limit, &y.offsets, &y.text,
                                 c->j->cancel, err));
    bool same = memcmp(x.offsets, y.offsets, (n + 1) * sizeof x.offsets[0]) == 0 &&
                memcmp(x.text, y.text, (size_t)x.offsets[n]) == 0;
    return same ? TG_OK : differs(c, unit, err);
}

tg_status copy_unit_verify(copy_lane *l, const uint64_t *unit, tg_error *err)
{
    copy_array *c = l->c;
    const tg_array_meta *m = c->b->meta;
    uint64_t index[TG_MAX_NDIM];
    tg_box box, chunks, chunk, inside;

    TG_TRY(copy_unit_box(c, unit, &box, err));
    if (m->info.dtype.kind == TG_DT_STRING)
        return verify_strings(l, unit, &box, err);
    TG_TRY(take(&l->items, m->chunk_bytes, err));
    tg_grid_cover(&box, &m->chunk, &chunks);
    memcpy(index, chunks.start, sizeof index);
    do {
        TG_TRY(clipped_chunk(c, index, &chunk, &inside, err));
        TG_TRY(copy_window_hold(l, &inside, &box, err));
        TG_TRY(tg_array_read(c->b, inside.start, inside.shape.n, l->items, NULL, c->j->cancel,
                             err));
        if (!same_items(c, l->window, &inside, l->items))
            return differs(c, unit, err);
    } while (tg_box_next(&chunks, index));
    return TG_OK;
}
