/* nd/halve.h - a plane of half the height and width, from blocks of 2 x 2 items.
 *
 * Extents are rounded up: where one is odd the last blocks have one row or one column, and no
 * item is used twice. What becomes of a block:
 *
 *   mean      integers: the exact mean, halves to the even neighbour, in every type up to 64
 * bits and without overflow. Floats: summed in double, left to right and top to bottom,
 *             divided, rounded once to the type; NaN if one is NaN. Bools as the integers 0, 1
 *   min, max  NaN if one is NaN
 *   decimate  the first item of the block */
#ifndef TG_ND_HALVE_H
#define TG_ND_HALVE_H

#include "nd/nd.h"

typedef enum tg_halve_method {
    TG_HALVE_MEAN,
    TG_HALVE_MIN,
    TG_HALVE_MAX,
    TG_HALVE_DECIMATE
} tg_halve_method;

/* Bool, integer and float dtypes. */
bool tg_halve_can(tg_dtype t);
/* src: height x width items, dense, native. dst: ceil(height / 2) x ceil(width / 2), dense;
 * does not overlap src. height and width at least 1. */
void tg_halve(tg_dtype t, tg_halve_method method, const void *src, size_t height, size_t width,
              void *dst);

#endif
