/* region/op_tile.h - a filter's region in tiles small enough for the cache, and where the items
 * of `in` around a tile lie. Knows no filter. */
#ifndef TG_REGION_OP_TILE_H
#define TG_REGION_OP_TILE_H

#include "region/op.h"

/* Neighbours in a row of `in`: n items from `from` on, step (1 or -1) apart. */
typedef struct tg_tile_run {
    uint64_t from, n;
    int64_t step;
} tg_tile_run;

typedef struct tg_tiles {
    const tg_op *op;
    const tg_region_call *whole;
    tg_shape out, most;               /* of the region; of a tile */
    uint64_t items;                   /* tg_tiles_most() */
    uint64_t at[TG_MAX_NDIM];         /* of the next tile in the region */
    void *room;                       /* owned: what the pointers below lie in */
    uint64_t *positions[TG_MAX_NDIM]; /* in `in`, of the region grown by the reach */
    tg_tile_run *runs;                /* of a row of the grown tile */
    size_t n_runs;
    uint64_t *from[TG_MAX_NDIM]; /* in `in`, of the grown tile */
    tg_shape grown;              /* the tile and the window's reach around it */
    tg_region_call call;         /* the whole's, but for out: the tile */
} tg_tiles;

/* From one row of a tile to the next, in items: rows begin where a line of the cache does, and
 * lie in different sets of it. */
static inline uint64_t tg_tiles_pitch(uint64_t n)
{
    return ((n + 7) / 8 | 1) * 8;
}
/* The most items, each row as long as its pitch, of a tile that is grown by the reach, given
 * that up to `items` are wanted: a tile stays as long as the window reaches, or some times
 * that, however many that are. No tile of a smaller region has more. UINT64_MAX: too many to
 * count. *tile is set to the most that a tile has along each axis. */
uint64_t tg_tiles_most(const tg_op *op, const tg_shape *out, uint64_t items, tg_shape *tile);
uint64_t tg_tiles_scratch(const tg_op *op, const tg_shape *out); /* bytes, of the room */

/* The call's out has items. TG_UNSUPPORTED: an array without dimensions. */
TG_MUST_USE tg_status tg_tiles_open(tg_tiles *t, const tg_op *op, const tg_region_call *c,
                                    uint64_t items, tg_error *err);
bool tg_tiles_next(tg_tiles *t); /* false: the last one was the last */
void tg_tiles_destroy(tg_tiles *t);
static inline void tg_tiles_auto(tg_tiles *t)
{
    tg_tiles_destroy(t);
}

/* --- A tile as items of a filter's own --- */

/* The tile, and room for the next of its size and for one row. Filters shrink the shape axis
 * after axis to what is wanted and swap a and b; the rows stay `pitch` apart. */
typedef struct tg_block {
    tg_shape shape;
    size_t pitch, item_bytes;
    void *a, *b, *line;
    void *room; /* owned: where they lie */
} tg_block;

/* n items of type t, stride bytes apart, as the filter's own. */
typedef void (*tg_block_load_fn)(void *to, tg_dtype t, const void *src, int64_t stride,
                                 size_t n);

void tg_block_doubles(void *to, tg_dtype t, const void *src, int64_t stride, size_t n);

/* What a call with such a block takes, places of tiles included. */
uint64_t tg_block_scratch(const tg_op *op, const tg_shape *out, uint64_t items,
                          size_t item_bytes);
TG_MUST_USE tg_status tg_block_open(tg_block *b, const tg_tiles *t, size_t item_bytes,
                                    tg_error *err);
void tg_block_destroy(tg_block *b);
static inline void tg_block_auto(tg_block *b)
{
    tg_block_destroy(b);
}
/* a becomes the present tile and its margin, 0 between the rows. */
void tg_block_load(tg_block *b, const tg_tiles *t, tg_block_load_fn load);
void tg_block_swap(tg_block *b);
/* Of axis d: how many blocks of it follow each other, and items from one place to the next. */
void tg_block_axis(const tg_block *b, uint32_t d, size_t *outer, size_t *inner);

#endif
