/* Numbers into chunks: what the caller covers is encoded as it is; what it touches
 * is decoded, changed and encoded again. */
#include "zarr/array.h"

#include <string.h>

/* What one call keeps from chunk to chunk. */
typedef struct writer {
    tg_array *a;
    tg_box request;
    const uint8_t *src; /* of request.start */
    int64_t strides[TG_MAX_NDIM];
    tg_chain_context *decode, *encode; /* made when first needed */
    uint8_t *items;                    /* one chunk */
    tg_buf encoded;
} writer;

static void writer_auto(writer *w)
{
    tg_chain_context_free(w->decode);
    tg_chain_context_free(w->encode);
    tg_free(w->items);
    tg_buf_free(&w->encoded);
}

/* The chunk as it was, or fill. */
static tg_status load_items(writer *w, tg_bytes old, bool covered, const tg_box *box,
                            tg_error *err)
{
    const tg_array_meta *m = w->a->meta;
    int64_t strides[TG_MAX_NDIM];
    bool whole = covered;

    if (w->items == NULL)
        w->items = tg_alloc(m->chunk_bytes);
    if (w->items == NULL)
        return tg_fail(err, TG_NO_MEMORY, "decoded chunk");
    if (old.data != NULL) {
        if (w->decode == NULL)
            TG_TRY(tg_chain_context_new(m->chain, false, &w->decode, err));
        return tg_chain_decode(m->chain, w->decode, old, w->items, m->chunk_bytes, err);
    }
    for (uint32_t i = 0; i < m->info.ndim; i++) /* beyond the array's edge lies fill */
        whole &= box->start[i] + box->shape.n[i] <= m->info.shape[i];
    if (!whole) {
        tg_strides_c(&m->chunk, m->info.dtype.size, strides);
        tg_nd_fill(w->items, strides, &m->chunk, m->info.dtype.size, m->fill.data);
    }
    return TG_OK;
}

/* The caller's items of this box, if they lie there as the chunk wants them. */
static const uint8_t *dense_source(const writer *w, const tg_box *box)
{
    int64_t c[TG_MAX_NDIM];
    const uint8_t *src = w->src;

    tg_strides_c(&box->shape, w->a->meta->info.dtype.size, c);
    for (uint32_t i = 0; i < box->shape.ndim; i++) {
        if (box->start[i] < w->request.start[i] ||
            box->start[i] + box->shape.n[i] > w->request.start[i] + w->request.shape.n[i] ||
            (box->shape.n[i] > 1 && c[i] != w->strides[i]))
            return NULL;
        src += (int64_t)(box->start[i] - w->request.start[i]) * w->strides[i];
    }
    return src;
}

static tg_status merge(writer *w, tg_bytes old, const tg_box *box, tg_error *err)
{
    const tg_array_meta *m = w->a->meta;
    const size_t item_bytes = m->info.dtype.size;
    int64_t to[TG_MAX_NDIM];
    const uint8_t *src = w->src;
    size_t dst = 0;
    tg_box part;

    TG_TRY(load_items(w, old, tg_covers(w->a, &w->request, box), box, err));
    (void)tg_box_intersect(box, &w->request, &part);
    tg_strides_c(&m->chunk, item_bytes, to);
    for (uint32_t i = 0; i < m->info.ndim; i++) {
        src += (int64_t)(part.start[i] - w->request.start[i]) * w->strides[i];
        dst += (size_t)(part.start[i] - box->start[i]) * (size_t)to[i];
    }
    tg_nd_copy(w->items + dst, to, src, w->strides, &part.shape, item_bytes);
    return TG_OK;
}

static tg_status make_chunk(void *user, const uint64_t *chunk_index, tg_bytes old,
                            tg_bytes *out, tg_error *err)
{
    writer *w = user;
    const tg_array_meta *m = w->a->meta;
    const size_t item_bytes = m->info.dtype.size;
    size_t n = 0;
    tg_box box;

    TG_TRY(tg_chunk_box(w->a, false, chunk_index, &box, err));
    const uint8_t *items = dense_source(w, &box);
    if (items == NULL) {
        TG_TRY(merge(w, old, &box, err));
        items = w->items;
    }
    *out = (tg_bytes){NULL, 0};
    /* Without a fill value a missing chunk means nothing: then zeros are stored, too. */
    if (m->info.has_fill &&
        tg_nd_is_fill(items, m->chunk_bytes / item_bytes, item_bytes, m->fill.data))
        return TG_OK;
    if (w->encode == NULL)
        TG_TRY(tg_chain_context_new(m->chain, true, &w->encode, err));
    if (w->encoded.data == NULL)
        TG_TRY(tg_buf_resize(&w->encoded, tg_chain_bound(m->chain, 0), err));
    TG_TRY(tg_chain_encode(m->chain, w->encode, (tg_bytes){items, m->chunk_bytes},
                           w->encoded.data, w->encoded.len, &n, err));
    *out = (tg_bytes){w->encoded.data, n};
    return TG_OK;
}

tg_status tg_array_write(tg_array *a, const uint64_t *start, const uint64_t *count,
                         const void *src, const int64_t *byte_strides, const tg_cancel *cancel,
                         tg_error *err)
{
    TG_AUTO(writer) w = {.a = a, .src = src};
    TG_AUTO(tg_unit_buffers) b = {0};
    uint64_t index[TG_MAX_NDIM];
    tg_box units;

    if (a->meta->info.dtype.kind == TG_DT_STRING)
        return tg_fail(err, TG_INVALID, "array '%.200s' holds strings", a->path);
    if (tg_chain_bound(a->meta->chain, 0) == SIZE_MAX)
        return tg_fail(err, TG_UNSUPPORTED,
                       "array '%.200s': its chunks are too large for the "
                       "codec",
                       a->path);
    TG_TRY(tg_request_box(a, start, count, &w.request, err));
    if (byte_strides != NULL)
        memcpy(w.strides, byte_strides, a->meta->info.ndim * sizeof w.strides[0]);
    else
        tg_strides_c(&w.request.shape, a->meta->info.dtype.size, w.strides);
    for (uint32_t i = 0; i < w.request.shape.ndim; i++)
        if (count[i] == 0)
            return TG_OK;
    tg_grid_cover(&w.request, &a->meta->shard, &units);
    memcpy(index, units.start, sizeof index);
    do
        TG_TRY(tg_unit_write(a, &b, index, &w.request, make_chunk, &w, cancel, err));
    while (tg_box_next(&units, index));
    return TG_OK;
}
