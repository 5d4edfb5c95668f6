/* stream/place.c - from a frame's rows to the tiles of a slab. Two ways: the frame is one dense
 * block (no tiles), which is one copy; or it goes row by row and tile by tile. */
#include "stream/place.h"

#include "base/crc32c.h"

#include <string.h>

void tg_crc_shift_init(tg_crc_shift *s, uint64_t n_bytes)
{
    for (uint32_t byte = 0; byte < 4; byte++)
        for (uint32_t v = 0; v < 256; v++)
            s->t[byte][v] = tg_crc32c_combine(v << (8 * byte), 0, n_bytes);
}

/* Sum of n zero bytes. */
static uint32_t sum_of_zeros(uint64_t n)
{
    static const uint8_t zeros[TG_BLOCK];
    uint32_t sum = 0;

    for (; n > 0; n -= n < TG_BLOCK ? n : TG_BLOCK)
        sum = tg_crc32c(sum, zeros, n < TG_BLOCK ? (size_t)n : TG_BLOCK);
    return sum;
}

static size_t last_tile_row(const tg_layout *l, const tg_plane *p)
{
    return (size_t)(p->width - (p->tiles_x - 1) * p->tile_w) * l->dtype.size;
}

void tg_placer_init(tg_placer *p, const tg_layout *layout)
{
    const tg_plane *plane = &layout->plane[0];

    p->layout = layout;
    p->sum_frame = layout->checksum;
    /* Chunks whose frames lie interleaved are summed when they are whole. */
    p->sum_chunks =
        layout->checksum && !layout->encoded && (!layout->axis_last || layout->k == 1);
    tg_crc_shift_init(&p->by_frame, plane->frame_bytes);
    tg_crc_shift_init(&p->by_run, plane->tile_w * layout->dtype.size);
    tg_crc_shift_init(&p->by_last, last_tile_row(layout, plane));
    tg_crc_shift_init(&p->by_tile, plane->tile_bytes);
    p->fill_sum = sum_of_zeros(plane->tile_bytes);
}

static uint32_t place_dense(const tg_placer *p, uint8_t *dst, uint32_t *sums,
                            const uint8_t *src, size_t n)
{
    if (!p->sum_frame) {
        memcpy(dst, src, n);
        return 0;
    }
    uint32_t sum = tg_crc32c_copy(0, dst, src, n);
    if (p->sum_chunks)
        sums[0] = tg_crc_shift_by(&p->by_frame, sums[0]) ^ sum;
    return sum;
}

/* Items of one row, `n` bytes, into a chunk at the item's address; interleaved chunks take
 * every k-th. */
static uint32_t place_run(const tg_placer *p, uint8_t *dst, const uint8_t *src, size_t n)
{
    size_t item = p->layout->dtype.size, step = (size_t)p->layout->k * item;

    if (p->layout->axis_last && p->layout->k > 1) {
        for (size_t i = 0; i < n; i += item, dst += step)
            memcpy(dst, src + i, item);
        return p->sum_frame ? tg_crc32c(0, src, n) : 0;
    }
    if (p->sum_frame)
        return tg_crc32c_copy(0, dst, src, n);
    memcpy(dst, src, n);
    return 0;
}

/* One row of the frame into its tiles. *sum: of the frame's rows so far. */
static void place_row(const tg_placer *p, uint8_t *data, uint32_t *sums, uint64_t place,
                      uint64_t y, const uint8_t *row, uint32_t *sum)
{
    const tg_layout *l = p->layout;
    const tg_plane *plane = &l->plane[0];
    size_t run = (size_t)plane->tile_w * l->dtype.size, last = last_tile_row(l, plane);
    uint64_t first = y / plane->tile_h * plane->tiles_x;

    for (uint64_t tx = 0; tx < plane->tiles_x; tx++) {
        bool is_last = tx == plane->tiles_x - 1;
        size_t n = is_last ? last : run;
        uint8_t *chunk = data + (first + tx) * plane->chunk_stride;
        uint32_t part = place_run(
            p, chunk + tg_plane_item(l, plane, place, y % plane->tile_h, 0), row + tx * run, n);
        const tg_crc_shift *by = is_last ? &p->by_last : &p->by_run;
        *sum = tg_crc_shift_by(by, *sum) ^ part;
        if (!p->sum_chunks)
            continue;
        uint32_t *s = &sums[first + tx];
        *s = tg_crc_shift_by(by, *s) ^ part;
        if (n <
            run) /* the overhang is zeros: so the arena was mapped, and nobody writes there */
            *s = tg_crc32c_combine(*s, sum_of_zeros(run - n), run - n);
    }
}

/* Rows below the frame that its last tiles have. */
static void sum_overhang(const tg_placer *p, uint32_t *sums)
{
    const tg_plane *plane = &p->layout->plane[0];
    uint64_t rows = plane->tiles_y * plane->tile_h - plane->height;
    uint64_t n = rows * plane->tile_w * p->layout->dtype.size;

    if (n == 0 || !p->sum_chunks)
        return;
    uint32_t zeros = sum_of_zeros(n);
    for (uint64_t tx = 0; tx < plane->tiles_x; tx++) {
        uint32_t *s = &sums[(plane->tiles_y - 1) * plane->tiles_x + tx];
        *s = tg_crc32c_combine(*s, zeros, n);
    }
}

uint32_t tg_place_frame(const tg_placer *p, uint8_t *data, uint32_t *sums, uint64_t place,
                        const tg_frame_view *view, uint8_t *row)
{
    const tg_layout *l = p->layout;
    const tg_plane *plane = &l->plane[0];
    uint32_t sum = 0;

    if (view->dense && tg_plane_is_dense(l, plane))
        return place_dense(p, data + place * plane->frame_bytes, sums, view->base,
                           plane->frame_bytes);
    for (uint64_t y = 0; y < plane->height; y++) {
        const uint8_t *src = row;
        if (view->direct)
            src = tg_frame_view_row(view, y);
        else
            tg_frame_view_read(view, y, 0, (size_t)plane->width, row);
        place_row(p, data, sums, place, y, src, &sum);
    }
    sum_overhang(p, sums);
    return p->sum_frame ? sum : 0;
}

void tg_place_fill(const tg_placer *p, uint8_t *data, uint32_t *sums, uint64_t place)
{
    const tg_layout *l = p->layout;
    const tg_plane *plane = &l->plane[0];
    size_t item = l->dtype.size, n_items = plane->tile_bytes / item;

    for (uint32_t t = 0; t < plane->n_tiles; t++) {
        uint8_t *chunk = data + t * plane->chunk_stride;
        if (l->axis_last && l->k > 1)
            for (size_t i = 0; i < n_items; i++)
                memset(chunk + (i * l->k + place) * item, 0, item);
        else
            memset(chunk + place * plane->tile_bytes, 0, plane->tile_bytes);
        if (p->sum_chunks)
            sums[t] = tg_crc_shift_by(&p->by_tile, sums[t]) ^ p->fill_sum;
    }
}

uint32_t tg_place_leased(const tg_placer *p, const uint8_t *data, uint32_t *sums,
                         uint64_t place)
{
    const tg_plane *plane = &p->layout->plane[0];

    if (!p->sum_frame)
        return 0;
    uint32_t sum = tg_crc32c(0, data + place * plane->frame_bytes, plane->frame_bytes);
    if (p->sum_chunks)
        sums[0] = tg_crc_shift_by(&p->by_frame, sums[0]) ^ sum;
    return sum;
}

void tg_place_seal(const tg_layout *l, uint32_t plane, uint8_t *data, uint32_t *sums,
                   bool summed)
{
    const tg_plane *p = &l->plane[plane];

    if (!l->checksum || l->encoded)
        return;
    for (uint32_t t = 0; t < p->n_tiles; t++) {
        uint8_t *end = data + t * p->chunk_stride + p->chunk_bytes;
        if (!summed)
            sums[t] = tg_crc32c(0, end - p->chunk_bytes, p->chunk_bytes);
        if (p->stored_bytes > p->chunk_bytes)
            for (int i = 0; i < 4; i++)
                end[i] = (uint8_t)(sums[t] >> (8 * i));
    }
}

/* Calls for the run of each row in each tile: address in the slab, in the dense frame, bytes.
 */
typedef void (*run_fn)(const tg_layout *l, uint8_t *in_slab, uint8_t *in_frame, size_t n);

static void each_run(const tg_layout *l, const tg_plane *p, uint8_t *data, uint64_t place,
                     uint8_t *frame, run_fn fn)
{
    size_t item = l->dtype.size, run = (size_t)p->tile_w * item, last = last_tile_row(l, p);

    for (uint64_t y = 0; y < p->height; y++)
        for (uint64_t tx = 0; tx < p->tiles_x; tx++) {
            uint64_t tile = y / p->tile_h * p->tiles_x + tx;
            fn(l, data + tile * p->chunk_stride + tg_plane_item(l, p, place, y % p->tile_h, 0),
               frame + y * p->width * item + tx * run, tx == p->tiles_x - 1 ? last : run);
        }
}

static void run_to_slab(const tg_layout *l, uint8_t *in_slab, uint8_t *in_frame, size_t n)
{
    size_t item = l->dtype.size, step = l->axis_last ? (size_t)l->k * item : item;

    if (step == item)
        memcpy(in_slab, in_frame, n);
    else
        for (size_t i = 0; i < n; i += item, in_slab += step)
            memcpy(in_slab, in_frame + i, item);
}

static void run_to_frame(const tg_layout *l, uint8_t *in_slab, uint8_t *in_frame, size_t n)
{
    size_t item = l->dtype.size, step = l->axis_last ? (size_t)l->k * item : item;

    if (step == item)
        memcpy(in_frame, in_slab, n);
    else
        for (size_t i = 0; i < n; i += item, in_slab += step)
            memcpy(in_frame + i, in_slab, item);
}

/* The other side of a run is only read: which one depends on the function. */
static uint8_t *without_const(const uint8_t *p)
{
    union {
        const uint8_t *from;
        uint8_t *to;
    } u = {p};
    return u.to;
}

void tg_place_dense(const tg_layout *l, const tg_plane *p, uint8_t *data, uint64_t place,
                    const uint8_t *frame)
{
    each_run(l, p, data, place, without_const(frame), run_to_slab);
}

void tg_place_read(const tg_layout *l, const tg_plane *p, const uint8_t *data, uint64_t place,
                   uint8_t *frame)
{
    each_run(l, p, without_const(data), place, frame, run_to_frame);
}
