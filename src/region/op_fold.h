/* region/op_fold.h - sums of neighbours, weighted or not, along one axis of a block of doubles.
 */
#ifndef TG_REGION_OP_FOLD_H
#define TG_REGION_OP_FOLD_H

#include <stdbool.h>
#include <stddef.h>

/* `rows` rows of `cols` outputs, of rows `row` doubles apart in both blocks; neighbours along
 * the axis lie `step` doubles apart. */
typedef struct tg_fold {
    const double *weights; /* [0, radius] */
    size_t radius, step, rows, cols, row;
} tg_fold;

/* out[x] = in[x] * w[0] + the sum of (in[x - k * step] + in[x + k * step]) * w[k], the farthest
 * first, each product and sum rounded by itself, as scipy's: the same bits on every machine.
 * `in` is the middle of the first output, with all its neighbours around; `out` overlaps
 * nothing. */
void tg_fold_run(const tg_fold *f, const double *in, double *out);

/* Like tg_fold, of `size` items from each place on. */
typedef struct tg_sum {
    size_t size, step, rows, cols, row;
    bool any_order; /* the sums are exact whatever their order */
} tg_sum;

/* out[x] = in[x] + in[x + step] + ..., the first first. */
void tg_fold_sum(const tg_sum *s, const double *in, double *out);
void tg_fold_divide(const double *in, double by, size_t n, double *out);

#endif
