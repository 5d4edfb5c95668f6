/* Levels of a frame. Knows nothing of where they go. */
#include "stream/pyramid.h"

#include "nd/halve.h"

#include <inttypes.h>

/* Halvings until both extents are 1. */
static uint32_t most_levels(uint64_t height, uint64_t width)
{
    uint32_t n = 0;
    for (; (height > 1 || width > 1) && n < TG_PYRAMID_MAX; n++) {
        height = height / 2 + height % 2;
        width = width / 2 + width % 2;
    }
    return n;
}

tg_status tg_pyramid_init(tg_pyramid *p, uint64_t height, uint64_t width, tg_dtype dtype,
                          uint32_t n_levels, tg_reduce method, tg_error *err)
{
    char room[16];
    tg_pyramid made = {.dtype = dtype, .method = method, .n_levels = n_levels};
    if (height == 0 || width == 0)
        return tg_fail(err, TG_INVALID, "a pyramid of frames without items");
    if (n_levels > 0 && !tg_halve_can(dtype))
        return tg_fail(err, TG_INVALID, "a pyramid of %s: want integers, floats or bools",
                       tg_dtype_name(dtype, room));
    if (n_levels > most_levels(height, width))
        return tg_fail(err, TG_INVALID,
                       "a pyramid of %" PRIu32 " levels: frames of %" PRIu64 " x %" PRIu64
                       " can be halved %" PRIu32 " times",
                       n_levels, height, width, most_levels(height, width));
    for (uint32_t i = 0; i <= n_levels; i++) {
        tg_shape shape = {2, {height, width}};
        TG_TRY(tg_shape_bytes(&shape, dtype.size, &made.bytes[i], err));
        made.height[i] = height;
        made.width[i] = width;
        height = height / 2 + height % 2;
        width = width / 2 + width % 2;
    }
    *p = made;
    return TG_OK;
}

static tg_halve_method halve_method(tg_reduce r)
{
    switch (r) {
    case TG_REDUCE_MIN:
        return TG_HALVE_MIN;
    case TG_REDUCE_MAX:
        return TG_HALVE_MAX;
    case TG_REDUCE_DECIMATE:
        return TG_HALVE_DECIMATE;
    case TG_REDUCE_MEAN:
        break;
    }
    return TG_HALVE_MEAN;
}

void tg_pyramid_reduce(const tg_pyramid *p, const void *frame, void *const *levels)
{
    const void *from = frame;
    for (uint32_t i = 0; i < p->n_levels; i++) {
        tg_halve(p->dtype, halve_method(p->method), from, (size_t)p->height[i],
                 (size_t)p->width[i], levels[i]);
        from = levels[i];
    }
}
