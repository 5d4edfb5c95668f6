/* region/op_median.h - medians of small numbers, many at once. */
#ifndef TG_REGION_OP_MEDIAN_H
#define TG_REGION_OP_MEDIAN_H

#include <stddef.h>
#include <stdint.h>

#define TG_MOST_MEDIAN 125 /* items of a window */

/* to[x] = the item n / 2, from 0, of the sorted from[0][x] ... from[n - 1][x], for x below
 * length. n from 1 to TG_MOST_MEDIAN; `to` overlaps none of them. */
void tg_median_row(const int16_t *const *from, size_t n, size_t length, int16_t *to);

#endif
