/* nd/grid.c - the grid of chunks that an array is cut into. */
#include "nd/nd.h"

#include <assert.h>

void tg_grid_shape(const tg_shape *array, const tg_shape *chunk, tg_shape *grid)
{
    tg_shape g = {.ndim = array->ndim};

    assert(array->ndim == chunk->ndim);
    for (uint32_t i = 0; i < array->ndim; i++)
        g.n[i] = array->n[i] / chunk->n[i] + (array->n[i] % chunk->n[i] != 0);
    *grid = g;
}

void tg_grid_cover(const tg_box *items, const tg_shape *chunk, tg_box *chunks)
{
    assert(items->shape.ndim == chunk->ndim);
    for (uint32_t i = 0; i < chunk->ndim; i++) {
        const uint64_t start = items->start[i], n = items->shape.n[i];
        uint64_t last;
        if (__builtin_add_overflow(start, n - (n > 0), &last))
            last = UINT64_MAX;
        chunks->start[i] = start / chunk->n[i];
        chunks->shape.n[i] = n == 0 ? 0 : last / chunk->n[i] - chunks->start[i] + 1;
    }
    chunks->shape.ndim = chunk->ndim;
}

bool tg_grid_chunk_box(const uint64_t *chunk_index, const tg_shape *chunk, tg_box *items)
{
    tg_box b = {.shape = *chunk};
    uint64_t end;

    for (uint32_t i = 0; i < chunk->ndim; i++)
        if (__builtin_mul_overflow(chunk_index[i], chunk->n[i], &b.start[i]) ||
            __builtin_add_overflow(b.start[i], chunk->n[i], &end))
            return false;
    *items = b;
    return true;
}

uint64_t tg_ravel(const tg_shape *grid, const uint64_t *index)
{
    uint64_t linear = 0;

    for (uint32_t i = 0; i < grid->ndim; i++)
        linear = linear * grid->n[i] + index[i];
    return linear;
}

void tg_unravel(const tg_shape *grid, uint64_t linear, uint64_t *index)
{
    for (uint32_t i = grid->ndim; i-- > 0;) {
        index[i] = linear % grid->n[i];
        linear /= grid->n[i];
    }
}

/* The lowest 64 / ndim bits of each coordinate, interleaved; of two bits of the
 * same weight the one of the slower dimension is the higher. */
uint64_t tg_morton(const uint64_t *index, uint32_t ndim)
{
    uint64_t key = 0;

    if (ndim == 0)
        return 0;
    for (uint32_t bit = 64 / ndim; bit-- > 0;)
        for (uint32_t i = 0; i < ndim; i++)
            key = key << 1 | (index[i] >> bit & 1);
    return key;
}
