/* stream/layout.h - where the pixels of a frame lie: in a slab, in a chunk, in a shard, in an
 * array. Pure arithmetic, checked once when the recorder opens; knows no memory and no file.
 *
 * Words. A *slot* is the place of a frame in the order of arrival, from 0. A *layer* holds the
 * chunks that share `k` frames along the fastest outer dimension: all tiles of them. Layers are
 * numbered in the order in which they fill up, which is the order of arrival on the grid of
 * layers. A *shard* is a run of consecutive layers, so at most one shard per level is being
 * written at a time, whatever the order of arrival. A *plane* is one level of the pyramid. */
#ifndef TG_STREAM_LAYOUT_H
#define TG_STREAM_LAYOUT_H

#include "ome/ome.h"
#include "stream/frame_table.h"
#include "stream/pyramid.h"
#include "tidegate/array.h"
#include "tidegate/stream.h"

enum {
    TG_STREAM_DIMS = 5,       /* outer dimensions */
    TG_BLOCK = 4096,          /* unit of O_DIRECT writes: offsets, lengths, addresses */
    TG_PLATE_IMAGES = 100000, /* fields of a plate */
    TG_LIVE_CHUNKS = 255,     /* 16 bytes each and a checksum: one block */
    TG_PLANES = TG_PYRAMID_MAX + 1
};

typedef struct tg_plane {
    uint64_t height, width; /* items */
    uint64_t tile_h, tile_w;
    uint64_t tiles_y, tiles_x;
    uint32_t n_tiles;
    size_t frame_bytes;    /* one dense frame of this level */
    size_t tile_bytes;     /* of one frame in one chunk, overhang included */
    size_t chunk_bytes;    /* k tiles */
    size_t stored_bytes;   /* chunk_bytes, and 4 for the crc32c behind a raw chunk */
    size_t chunk_stride;   /* from one chunk to the next in a slab */
    size_t layer_bytes;    /* all chunks; a multiple of TG_BLOCK */
    uint64_t shard_chunks; /* entries of a shard's index; 1 if not sharded */
    bool staged; /* chunks are gathered in a buffer before they are written: encoded, or so
                    small that whole blocks would waste disk */
} tg_plane;

typedef struct tg_layout {
    tg_dtype dtype;
    int format;
    bool zip;
    bool has_rows; /* false: frames are lines, arrays have no y axis */
    bool axis_last;
    bool sharded, live;
    bool encoded; /* a codec besides crc32c */
    bool checksum;
    /* Outer dimensions of an array come first, n_axes of them; those of a plate behind them:
     * the well and the field, which together say which of the arrays a frame belongs to. */
    uint32_t n_dims;                 /* 0: one frame without an outer dimension */
    uint32_t n_axes;                 /* n_dims, or two less on a plate */
    uint32_t slow;                   /* of the axes the one that arrives as the slowest */
    uint64_t n_images;               /* 1, or all fields of a plate */
    uint64_t extent[TG_STREAM_DIMS]; /* UINT64_MAX: no limit */
    uint32_t order[TG_STREAM_DIMS];  /* order[i]: the dimension at place i of arrival, slowest
                                        first */
    uint64_t k;                      /* frames per chunk along the last axis, n_axes - 1 */
    uint64_t layers[TG_STREAM_DIMS]; /* extent in layers; UINT64_MAX: no limit */
    uint64_t shard_layers[TG_STREAM_DIMS]; /* of one shard, per dimension */
    uint64_t per_shard;                    /* product of shard_layers */
    uint64_t n_open;                       /* layers that fill at the same time */
    uint64_t n_slots;                      /* UINT64_MAX: no limit */
    uint32_t n_planes;
    tg_plane plane[TG_PLANES];
    tg_pyramid pyramid;
} tg_layout;

/* Everything of an array's options that has to do with geometry, checked and with the defaults
 * filled in. TG_INVALID, TG_UNSUPPORTED: the message names the option. */
TG_MUST_USE tg_status tg_layout_init(tg_layout *l, const tg_stream_array *a,
                                     const tg_ome_plate *plate, int format, bool zip,
                                     tg_error *err);
static inline bool tg_layout_is_plate(const tg_layout *l)
{
    return l->n_axes != l->n_dims;
}
/* Fields of each well, and of all of them; 0 without a plate. */
static inline uint64_t tg_layout_fields(const tg_layout *l)
{
    return tg_layout_is_plate(l) ? l->extent[l->n_axes + 1] : 0;
}
static inline uint64_t tg_layout_images(const tg_layout *l)
{
    return tg_layout_is_plate(l) ? l->n_images : 0;
}

/* One array of the store: shape with `slots` of the outermost part, chunk, shard. The vectors
 * have TG_MAX_NDIM places. */
typedef struct tg_layout_vectors {
    uint32_t ndim;
    uint64_t shape[TG_MAX_NDIM], chunk[TG_MAX_NDIM], shard[TG_MAX_NDIM];
} tg_layout_vectors;
void tg_layout_vectors_init(const tg_layout *l, uint32_t plane, tg_layout_vectors *v);
/* The outer part of the shape when `slots` slots are published, whole units of the slowest
 * dimension in arrival only, or with `up` the last one too. */
void tg_layout_shape(const tg_layout *l, uint64_t slots, bool up, uint64_t *outer);
/* The same of one image of a plate, always with its last unit. */
void tg_layout_image_shape(const tg_layout *l, uint64_t image, uint64_t slots, uint64_t *outer);
/* How many of the slots below `slots` are of this image, and which image a slot is of. */
uint64_t tg_layout_image_slots(const tg_layout *l, uint64_t image, uint64_t slots);
uint64_t tg_layout_image(const tg_layout *l, uint64_t slot);
/* The slot of an image's n-th frame in its own order of arrival. */
uint64_t tg_layout_image_slot(const tg_layout *l, uint64_t image, uint64_t n);
/* Slots below the returned number lie in whole units of the slowest axis, in all images. */
uint64_t tg_layout_whole_units(const tg_layout *l, uint64_t slots);
/* Well and field (-1 without a plate) of an index, and the index within that image. */
uint64_t tg_layout_split_index(const tg_layout *l, uint64_t index, int32_t *well,
                               int32_t *field);
/* The reverse: slots covered by the outer part of a shape. */
uint64_t tg_layout_slots_of_shape(const tg_layout *l, const uint64_t *outer);
/* Places of an outer and of a frame's axis in the array. */
uint32_t tg_layout_axis(const tg_layout *l, uint32_t dim);
tg_frame_axes tg_layout_frame_axes(const tg_layout *l);

/* Slots and coordinates (in storage order). */
void tg_layout_coords(const tg_layout *l, uint64_t slot, uint64_t *coords);
uint64_t tg_layout_slot(const tg_layout *l, const uint64_t *coords);
/* A slot's index along the frame axis as the frame table has it: C order in storage. */
uint64_t tg_layout_index(const tg_layout *l, uint64_t slot);
uint64_t tg_layout_slot_of_index(const tg_layout *l, uint64_t index);
/* The layer of a slot, and its place along the chunk. */
uint64_t tg_layout_layer(const tg_layout *l, uint64_t slot, uint64_t *place);
uint64_t tg_layout_slot_in_layer(const tg_layout *l, uint64_t layer, uint64_t place);
/* Frames that belong into a layer: k, or fewer in the last of a limited dimension. */
uint64_t tg_layout_layer_frames(const tg_layout *l, uint64_t layer);
/* Layers below the returned number lie wholly below `slots` slots. */
uint64_t tg_layout_whole_layers(const tg_layout *l, uint64_t slots);
/* Slots below the returned number lie in layers below `layers`. */
uint64_t tg_layout_whole_slots(const tg_layout *l, uint64_t layers);

uint64_t tg_layout_shard(const tg_layout *l, uint64_t layer);
/* The layers of a shard that exist: [first, last). */
void tg_layout_shard_range(const tg_layout *l, uint64_t shard, uint64_t *first, uint64_t *last);
/* Coordinates of the stored unit (shard, or chunk of one tile) for its key. */
uint64_t tg_layout_shard_image(const tg_layout *l, uint64_t shard);
uint64_t tg_layout_layer_image(const tg_layout *l, uint64_t layer);
void tg_layout_shard_unit(const tg_layout *l, uint32_t plane, uint64_t shard, uint64_t *unit);
void tg_layout_chunk_unit(const tg_layout *l, uint32_t plane, uint64_t layer, uint32_t tile,
                          uint64_t *unit);
/* The place of a chunk in its shard's index. */
uint64_t tg_layout_entry(const tg_layout *l, uint32_t plane, uint64_t layer, uint32_t tile);

/* Bytes between a chunk's start in a slab and item (place, y, x) of its tile. */
static inline size_t tg_plane_item(const tg_layout *l, const tg_plane *p, uint64_t place,
                                   uint64_t y, uint64_t x)
{
    uint64_t item = l->axis_last ? (y * p->tile_w + x) * l->k + place
                                 : (place * p->tile_h + y) * p->tile_w + x;
    return (size_t)item * l->dtype.size;
}
/* Is a frame one dense block within a chunk? */
static inline bool tg_plane_is_dense(const tg_layout *l, const tg_plane *p)
{
    return p->n_tiles == 1 && p->tile_h == p->height && p->tile_w == p->width &&
           (!l->axis_last || l->k == 1);
}

#endif
