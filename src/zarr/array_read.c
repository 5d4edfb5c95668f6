/* Numbers out of chunks: each chunk that a request touches is decoded once, and
 * its part copied to where the caller wants it. */
#include "zarr/array.h"

#include <string.h>

/* What one call keeps from chunk to chunk. */
typedef struct reader {
    tg_array *a;
    tg_box request;
    uint8_t *dst; /* of request.start */
    int64_t strides[TG_MAX_NDIM];
    tg_chain_context *ctx; /* made when the first chunk is there */
    uint8_t *items;        /* one decoded chunk */
} reader;

static void reader_auto(reader *r)
{
    tg_chain_context_free(r->ctx);
    tg_free(r->items);
}

static tg_status make_room(reader *r, tg_error *err)
{
    if (r->ctx == NULL)
        TG_TRY(tg_chain_context_new(r->a->meta->chain, false, &r->ctx, err));
    if (r->items == NULL)
        r->items = tg_alloc(r->a->meta->chunk_bytes);
    return r->items != NULL ? TG_OK : tg_fail(err, TG_NO_MEMORY, "decoded chunk");
}

/* Is the destination of this box one dense block in C order? */
static bool is_dense(const reader *r, const tg_box *box)
{
    int64_t c[TG_MAX_NDIM];

    tg_strides_c(&box->shape, r->a->meta->info.dtype.size, c);
    for (uint32_t i = 0; i < box->shape.ndim; i++)
        if (box->shape.n[i] > 1 && c[i] != r->strides[i])
            return false;
    return true;
}

static tg_status read_chunk(void *user, const uint64_t *chunk_index, tg_bytes encoded,
                            tg_error *err)
{
    reader *r = user;
    const tg_array_meta *m = r->a->meta;
    const size_t item_bytes = m->info.dtype.size;
    int64_t from[TG_MAX_NDIM];
    tg_box box, part;
    uint8_t *dst = r->dst;
    size_t src = 0;

    TG_TRY(tg_chunk_box(r->a, false, chunk_index, &box, err));
    if (!tg_box_intersect(&box, &r->request, &part))
        return TG_OK;
    tg_strides_c(&m->chunk, item_bytes, from);
    for (uint32_t i = 0; i < m->info.ndim; i++) {
        dst += (int64_t)(part.start[i] - r->request.start[i]) * r->strides[i];
        src += (size_t)(part.start[i] - box.start[i]) * (size_t)from[i];
    }
    if (encoded.data == NULL) {
        tg_nd_fill(dst, r->strides, &part.shape, item_bytes, m->fill.data);
        return TG_OK;
    }
    TG_TRY(make_room(r, err));
    if (tg_shape_equal(&part.shape, &m->chunk) && is_dense(r, &part))
        return tg_chain_decode(m->chain, r->ctx, encoded, dst, m->chunk_bytes, err);
    TG_TRY(tg_chain_decode(m->chain, r->ctx, encoded, r->items, m->chunk_bytes, err));
    tg_nd_copy(dst, r->strides, r->items + src, from, &part.shape, item_bytes);
    return TG_OK;
}

tg_status tg_array_read(tg_array *a, const uint64_t *start, const uint64_t *count, void *dst,
                        const int64_t *byte_strides, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(reader) r = {.a = a, .dst = dst};
    TG_AUTO(tg_unit_buffers) b = {0};
    uint64_t index[TG_MAX_NDIM];
    tg_box units;

    if (a->meta->info.dtype.kind == TG_DT_STRING)
        return tg_fail(err, TG_INVALID, "array '%.200s' holds strings", a->path);
    TG_TRY(tg_request_box(a, start, count, &r.request, err));
    if (byte_strides != NULL)
        memcpy(r.strides, byte_strides, a->meta->info.ndim * sizeof r.strides[0]);
    else
        tg_strides_c(&r.request.shape, a->meta->info.dtype.size, r.strides);
    for (uint32_t i = 0; i < r.request.shape.ndim; i++)
        if (count[i] == 0)
            return TG_OK;
    tg_grid_cover(&r.request, &a->meta->shard, &units);
    memcpy(index, units.start, sizeof index);
    do
        TG_TRY(tg_unit_read(a, &b, index, &r.request, 0, read_chunk, &r, cancel, err));
    while (tg_box_next(&units, index));
    return TG_OK;
}
