/* Units that no region touches, found in a bitmap of all. */
#include "region/base.h"

#include <string.h>

static void mark(uint8_t *bits, const uint64_t *b, const tg_shape *unit, const tg_shape *grid)
{
    tg_box box = {.shape = {.ndim = grid->ndim}}, cover;
    uint64_t at[TG_MAX_NDIM];

    for (uint32_t d = 0; d < grid->ndim; d++) {
        if (b[d] >= b[grid->ndim + d])
            return;
        box.start[d] = b[d];
        box.shape.n[d] = b[grid->ndim + d] - b[d];
    }
    tg_grid_cover(&box, unit, &cover);
    memcpy(at, cover.start, sizeof at);
    do {
        const uint64_t u = tg_ravel(grid, at);
        bits[u / 8] |= (uint8_t)(1U << (u % 8));
    } while (tg_box_next(&cover, at));
}

static uint64_t count_clear(const uint8_t *bits, uint64_t n)
{
    uint64_t clear = 0;

    for (uint64_t u = 0; u < n; u++)
        clear += (bits[u / 8] >> (u % 8) & 1) == 0;
    return clear;
}

static void add_clear(uint64_t *to, const uint8_t *bits, uint64_t n, const tg_shape *unit,
                      const tg_shape *grid)
{
    uint64_t index[TG_MAX_NDIM];

    for (uint64_t u = 0; u < n; u++) {
        if ((bits[u / 8] >> (u % 8) & 1) != 0)
            continue;
        tg_unravel(grid, u, index);
        for (uint32_t d = 0; d < grid->ndim; d++) {
            to[d] = index[d] * unit->n[d];
            to[grid->ndim + d] = to[d] + 1;
        }
        to += (size_t)2 * grid->ndim;
    }
}

tg_status tg_base_regions(uint64_t **bounds, uint64_t *n, const tg_shape *array,
                          const tg_shape *unit, uint64_t limit, tg_error *err)
{
    const size_t width = (size_t)2 * array->ndim, item = width * sizeof(uint64_t);
    tg_shape grid;
    uint64_t units;

    tg_grid_shape(array, unit, &grid);
    TG_TRY(tg_shape_items(&grid, &units, err));
    if (units / 8 > limit)
        return tg_fail(err, TG_OVER_BUDGET, "--base input: %llu units of OUT, for %llu bytes",
                       (unsigned long long)units, (unsigned long long)limit);
    TG_AUTO(tg_mem_ptr) bits = tg_calloc((size_t)units / 8 + 1, 1);
    if (bits == NULL)
        return tg_fail(err, TG_NO_MEMORY, "units of OUT");
    for (uint64_t k = 0; k < *n; k++)
        mark(bits, *bounds + k * width, unit, &grid);
    const uint64_t more = count_clear(bits, units);
    if (*n + more > (limit - units / 8) / item)
        return tg_fail(err, TG_OVER_BUDGET,
                       "--base input: %llu units of OUT that no region touches take more than "
                       "the %llu bytes that are left",
                       (unsigned long long)more, (unsigned long long)limit);
    uint64_t *all = tg_alloc_array((size_t)(*n + more) + 1, item);
    if (all == NULL)
        return tg_fail(err, TG_NO_MEMORY, "boxes of units");
    if (*n > 0)
        memcpy(all, *bounds, (size_t)*n * item);
    add_clear(all + *n * width, bits, units, unit, &grid);
    tg_free(*bounds);
    *bounds = all;
    *n += more;
    return TG_OK;
}
