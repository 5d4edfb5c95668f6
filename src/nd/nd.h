/* nd/nd.h - shapes, boxes, chunk grids and strided copies: pure arithmetic that
 * refuses to overflow. No I/O, no memory of its own. */
#ifndef TG_ND_ND_H
#define TG_ND_ND_H

#include "base/error.h"
#include "tidegate/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Dimensions are counted from the slowest (index 0) to the fastest in C order.
 * Coordinates are in items unless a name says chunks. */
typedef struct tg_shape {
    uint32_t ndim; /* 0 to TG_MAX_NDIM */
    uint64_t n[TG_MAX_NDIM];
} tg_shape;

/* Half-open: start[i] <= x < start[i] + shape.n[i]. */
typedef struct tg_box {
    uint64_t start[TG_MAX_NDIM];
    tg_shape shape;
} tg_box;

/* Product of the extents; TG_INVALID if it does not fit 64 bits. 1 for ndim 0. */
TG_MUST_USE tg_status tg_shape_items(const tg_shape *s, uint64_t *items, tg_error *err);
/* items * item_bytes, checked, and that it fits size_t. */
TG_MUST_USE tg_status tg_shape_bytes(const tg_shape *s, size_t item_bytes, size_t *bytes,
                                     tg_error *err);
bool tg_shape_equal(const tg_shape *a, const tg_shape *b);
/* False: empty, and *out is as it was. Of *out only the first ndim places are set; it may be
 * one of the two. */
bool tg_box_intersect(const tg_box *a, const tg_box *b, tg_box *out);
bool tg_box_inside(const tg_box *box, const tg_shape *array);

/* ceil(shape / chunk) per dimension; 0 where the shape is 0. chunk extents are > 0. */
void tg_grid_shape(const tg_shape *array, const tg_shape *chunk, tg_shape *grid);
/* The box of chunks that a box of items touches (its start and shape in chunks). Empty box:
 * empty. Only the first ndim places are set; `chunks` may be `items`. */
void tg_grid_cover(const tg_box *items, const tg_shape *chunk, tg_box *chunks);
/* The items of one chunk, not clipped to the array; false if start or end overflow. */
bool tg_grid_chunk_box(const uint64_t *chunk_index, const tg_shape *chunk, tg_box *items);
/* Walk a box in C order: index (absolute) goes to the next; false after the last. */
bool tg_box_next(const tg_box *box, uint64_t *index);
/* Position in C order of `index` within a grid, and back. */
uint64_t tg_ravel(const tg_shape *grid, const uint64_t *index);
void tg_unravel(const tg_shape *grid, uint64_t linear, uint64_t *index);
/* Morton (Z-order) key of chunk coordinates, for locality; ties never happen within 2^16 per
 * dimension of 4. */
uint64_t tg_morton(const uint64_t *index, uint32_t ndim);

/* Byte strides of a C-ordered (or Fortran-ordered) block. */
void tg_strides_c(const tg_shape *s, size_t item_bytes, int64_t *strides);
void tg_strides_f(const tg_shape *s, size_t item_bytes, int64_t *strides);

/* --- Item types (tidegate/dtype.h has the names that people type) --- */

/* numpy's typestr, as .zarray has it: "<u2", "|b1", ">f8", "|V3", "|O" (a string). *byte_order
 * is '<' or '>', or '|' where there is nothing to swap. */
TG_MUST_USE tg_status tg_dtype_parse_typestr(const char *s, tg_dtype *out, char *byte_order,
                                             tg_error *err);
/* Bytes of the unit that byte order applies to: 1 where it applies to none, half an item of
 * complex numbers. */
size_t tg_dtype_swap_bytes(tg_dtype t);

/* --- Moving items --- */

/* Copy shape items between two strided blocks (byte strides of any sign, 0 allowed in src).
 * Blocks must not overlap. Dimensions that are contiguous in both are merged; transpositions go
 * in cache-sized tiles. */
void tg_nd_copy(void *dst, const int64_t *dst_strides, const void *src,
                const int64_t *src_strides, const tg_shape *shape, size_t item_bytes);
/* Set every item of a strided block to the item_bytes at value. */
void tg_nd_fill(void *dst, const int64_t *dst_strides, const tg_shape *shape, size_t item_bytes,
                const void *value);
/* Are all n items of a contiguous block equal to value, bit by bit (so -0.0 is not 0.0)? */
bool tg_nd_is_fill(const void *data, size_t n, size_t item_bytes, const void *value);
/* Reverse the bytes of each of n units of 2, 4 or 8 bytes; dst may equal src. */
void tg_nd_swap(void *dst, const void *src, size_t n, size_t unit_bytes);

#endif
