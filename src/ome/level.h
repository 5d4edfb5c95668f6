/* ome/level.h - one level of an NGFF image as a reader sees it: which array, its axes, how
 * large a pixel is. For 0.4 and 0.5 alike. */
#ifndef TG_OME_LEVEL_H
#define TG_OME_LEVEL_H

#include "tidegate/array.h"

#define TG_OME_NAME_BYTES 64

typedef struct tg_ome_level {
    char array[1024]; /* its path in the store */
    char image[1024]; /* path of the image's group: tables/ and labels/ lie below it */
    bool in_image;    /* false: an array of no image; image is the group above it */
    uint32_t level;   /* place in the image's list of datasets */
    uint32_t ndim;
    uint64_t shape[TG_MAX_NDIM];
    /* By the image's axes, else the array's dimension_names ("" where these leave one out). An
     * array that names none has d0, d1, ..., z, y, x. */
    char axis[TG_MAX_NDIM][TG_OME_NAME_BYTES], unit[TG_MAX_NDIM][TG_OME_NAME_BYTES];
    double scale[TG_MAX_NDIM]; /* dataset's times the image's; 1 where none is said */
} tg_ome_level;

/* path: an image's group (its first level is meant) or an array. TG_NOT_FOUND: no node there;
 * TG_INVALID: a group that is no image; TG_CORRUPT: the image's metadata does not fit the
 * array, or a scale is not above 0. */
TG_MUST_USE tg_status tg_ome_level_read(tg_ome_level *out, tg_store *store, const char *path,
                                        const tg_cancel *cancel, tg_error *err);

#endif
