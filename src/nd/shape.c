/* nd/shape.c - shapes, boxes and strides. Knows no chunks. */
#include "nd/nd.h"

#include <assert.h>

tg_status tg_shape_items(const tg_shape *s, uint64_t *items, tg_error *err)
{
    uint64_t total = 1;
    bool over = false, empty = false;

    for (uint32_t i = 0; i < s->ndim; i++) {
        empty |= s->n[i] == 0;
        over |= __builtin_mul_overflow(total, s->n[i], &total);
    }
    if (over && !empty)
        return tg_fail(err, TG_INVALID, "shape: more than 2^64 items in %u dimensions",
                       (unsigned)s->ndim);
    *items = empty ? 0 : total;
    return TG_OK;
}

tg_status tg_shape_bytes(const tg_shape *s, size_t item_bytes, size_t *bytes, tg_error *err)
{
    uint64_t items;
    size_t total;

    TG_TRY(tg_shape_items(s, &items, err));
    if (__builtin_mul_overflow(items, item_bytes, &total))
        return tg_fail(err, TG_INVALID, "shape: %llu items of %zu bytes are too many bytes",
                       (unsigned long long)items, item_bytes);
    *bytes = total;
    return TG_OK;
}

bool tg_shape_equal(const tg_shape *a, const tg_shape *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (uint32_t i = 0; i < a->ndim; i++)
        if (a->n[i] != b->n[i])
            return false;
    return true;
}

/* The end of a box along one axis; one that would lie beyond 2^64 lies there. */
static uint64_t end_of(const tg_box *b, uint32_t i)
{
    uint64_t end;
    return __builtin_add_overflow(b->start[i], b->shape.n[i], &end) ? UINT64_MAX : end;
}

/* A box has room for many dimensions; only those that it has are touched. */
bool tg_box_intersect(const tg_box *a, const tg_box *b, tg_box *out)
{
    const uint32_t ndim = a->shape.ndim;

    assert(ndim == b->shape.ndim);
    for (uint32_t i = 0; i < ndim; i++)
        if (a->start[i] >= end_of(b, i) || b->start[i] >= end_of(a, i) || a->shape.n[i] == 0 ||
            b->shape.n[i] == 0)
            return false;
    for (uint32_t i = 0; i < ndim; i++) {
        const uint64_t start = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
        const uint64_t end_a = end_of(a, i), end_b = end_of(b, i);
        out->start[i] = start;
        out->shape.n[i] = (end_a < end_b ? end_a : end_b) - start;
    }
    out->shape.ndim = ndim;
    return true;
}

bool tg_box_inside(const tg_box *box, const tg_shape *array)
{
    if (box->shape.ndim != array->ndim)
        return false;
    for (uint32_t i = 0; i < array->ndim; i++)
        if (box->start[i] > array->n[i] || box->shape.n[i] > array->n[i] - box->start[i])
            return false;
    return true;
}

bool tg_box_next(const tg_box *box, uint64_t *index)
{
    for (uint32_t i = box->shape.ndim; i-- > 0;) {
        if (++index[i] - box->start[i] < box->shape.n[i])
            return true;
        index[i] = box->start[i];
    }
    return false;
}

void tg_strides_c(const tg_shape *s, size_t item_bytes, int64_t *strides)
{
    int64_t step = (int64_t)item_bytes;

    for (uint32_t i = s->ndim; i-- > 0;) {
        strides[i] = step;
        step *= (int64_t)s->n[i];
    }
}

void tg_strides_f(const tg_shape *s, size_t item_bytes, int64_t *strides)
{
    int64_t step = (int64_t)item_bytes;

    for (uint32_t i = 0; i < s->ndim; i++) {
        strides[i] = step;
        step *= (int64_t)s->n[i];
    }
}
