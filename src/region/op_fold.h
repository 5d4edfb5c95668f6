/* region/op_fold.h - weighted sums of neighbours along one axis of a block of doubles. */
#ifndef TG_REGION_OP_FOLD_H
#define TG_REGION_OP_FOLD_H

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

#endif
