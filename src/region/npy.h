/* region/npy.h - arrays as .npy files, numpy's own format: what a command of the user's is
 * given, and what it gives back. Knows no regions and no processes. */
#ifndef TG_REGION_NPY_H
#define TG_REGION_NPY_H

#include "nd/nd.h"
#include "tidegate/plugin.h"

/* Of the magic number, version, length and the header itself: a longer one is refused. */
#define TG_NPY_HEADER_MAX ((size_t)64 << 10)

typedef struct tg_npy {
    tg_dtype dtype;
    bool swapped;      /* the other byte order than memory's */
    bool fortran;      /* the first dimension is the fastest */
    tg_shape shape;    /* ndim 0: one item */
    size_t data_start; /* where the items begin */
} tg_npy;

/* Versions 1 to 3 of the format, from the first `len` bytes of a file (as many as there are, or
 * TG_NPY_HEADER_MAX). TG_CORRUPT says at which byte; TG_UNSUPPORTED: records and objects. */
TG_MUST_USE tg_status tg_npy_parse(tg_npy *out, const uint8_t *data, size_t len, tg_error *err);
/* The header of a C-ordered array; returns its length, a multiple of 64. */
size_t tg_npy_header(char room[1280], tg_dtype dtype, const tg_shape *shape);

/* The view, which is C-ordered and dense, as file `name` of the folder. */
TG_MUST_USE tg_status tg_npy_write(int dir, const char *name, const tg_region_view *view,
                                   tg_error *err);
/* The file into the view, which is C-ordered and dense: it must have its type, in any byte
 * order and order of dimensions, and its shape, and not a byte more or less. Waits for nothing:
 * what is no regular file is refused. room: TG_NPY_HEADER_MAX bytes. TG_NOT_FOUND: there is
 * none. */
TG_MUST_USE tg_status tg_npy_read(int dir, const char *name, const tg_region_view *view,
                                  uint8_t *room, tg_error *err);

#endif
