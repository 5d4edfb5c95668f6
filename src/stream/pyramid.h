/* stream/pyramid.h - the smaller levels of one frame, made while it is in memory.
 *
 * Each level halves height and width of the one before, rounded up: where an extent is odd the
 * last block has one row or column, and no pixel is used twice or outside the frame. A frame is
 * reduced by itself, so nothing bleeds between frames or channels. */
#ifndef TG_STREAM_PYRAMID_H
#define TG_STREAM_PYRAMID_H

#include "base/error.h"
#include "tidegate/stream.h"

enum { TG_PYRAMID_MAX = 16 }; /* levels besides level 0 */

typedef struct tg_pyramid {
    tg_dtype dtype;
    tg_reduce method;
    uint32_t n_levels;                                              /* besides level 0 */
    uint64_t height[TG_PYRAMID_MAX + 1], width[TG_PYRAMID_MAX + 1]; /* of level 0, 1, ... */
    size_t bytes[TG_PYRAMID_MAX + 1];                               /* of one frame, dense */
} tg_pyramid;

/* TG_INVALID: more levels than it takes to reach 1 x 1 (says how many there can be), or a dtype
 * that is no integer, float or bool. height and width at least 1. */
TG_MUST_USE tg_status tg_pyramid_init(tg_pyramid *p, uint64_t height, uint64_t width,
                                      tg_dtype dtype, uint32_t n_levels, tg_reduce method,
                                      tg_error *err);
/* Reduce one dense frame of level 0: levels[i] is room of bytes[i + 1] for level i + 1. */
void tg_pyramid_reduce(const tg_pyramid *p, const void *frame, void *const *levels);

#endif
