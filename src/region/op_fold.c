/* The sums of gaussian and mean: vectors run over outputs, never over neighbours, so that each
 * output's sum has one order. Columns go a block at a time: all rows of it stay in the first
 * cache. */
#include "region/op_fold.h"

#include "base/wider.h"

#define LANES   ((size_t)4)
#define BLOCK   (4 * LANES) /* four sums at once hide how long an addition takes */
#define COLUMNS (4 * BLOCK)

typedef double vec __attribute__((vector_size(LANES * sizeof(double))));

/* One anywhere in memory: functions that return vectors differ between processors. */
typedef double loose __attribute__((vector_size(LANES * sizeof(double)), aligned(8)));
#define LOAD(from)   (*(const loose *)(from))
#define STORE(to, v) (*(loose *)(to) = (v))

/* The sums of 4 * LANES outputs: four names, not an array, which compilers put in memory. */
TG_INLINE void fold_block(const tg_fold *f, const double *at, double *out)
{
    const double *w = f->weights;
    const size_t step = f->step;
    vec a = LOAD(at) * *w, b = LOAD(at + LANES) * *w;
    vec c = LOAD(at + 2 * LANES) * *w, d = LOAD(at + 3 * LANES) * *w;

    for (size_t k = f->radius; k > 0; k--) {
        const double *low = at - k * step, *high = at + k * step;
        a += (LOAD(low) + LOAD(high)) * w[k];
        b += (LOAD(low + LANES) + LOAD(high + LANES)) * w[k];
        c += (LOAD(low + 2 * LANES) + LOAD(high + 2 * LANES)) * w[k];
        d += (LOAD(low + 3 * LANES) + LOAD(high + 3 * LANES)) * w[k];
    }
    STORE(out, a);
    STORE(out + LANES, b);
    STORE(out + 2 * LANES, c);
    STORE(out + 3 * LANES, d);
}

TG_INLINE void fold_lanes(const tg_fold *f, const double *at, double *out)
{
    vec sum = LOAD(at) * f->weights[0];

    for (size_t k = f->radius; k > 0; k--)
        sum += (LOAD(at - k * f->step) + LOAD(at + k * f->step)) * f->weights[k];
    STORE(out, sum);
}

TG_INLINE double fold_one(const tg_fold *f, const double *at)
{
    double sum = *at * f->weights[0];

    for (size_t k = f->radius; k > 0; k--)
        sum += (*(at - k * f->step) + *(at + k * f->step)) * f->weights[k];
    return sum;
}

TG_INLINE void fold_row(const tg_fold *f, const double *in, size_t n, double *out)
{
    size_t x = 0;

    for (; x + BLOCK <= n; x += BLOCK)
        fold_block(f, in + x, out + x);
    for (; x + LANES <= n; x += LANES)
        fold_lanes(f, in + x, out + x);
    for (; x < n; x++)
        out[x] = fold_one(f, in + x);
}

TG_INLINE void fold_all(const tg_fold *f, const double *in, double *out)
{
    for (size_t x = 0; x < f->cols; x += COLUMNS) {
        const size_t n = f->cols - x < COLUMNS ? f->cols - x : COLUMNS;
        for (size_t y = 0; y < f->rows; y++)
            fold_row(f, in + y * f->row + x, n, out + y * f->row + x);
    }
}

TG_DEFINE_WIDER(run, fold_all, (const tg_fold *f, const double *in, double *out), (f, in, out))

void tg_fold_run(const tg_fold *f, const double *in, double *out)
{
    run(f, in, out);
}

/* --- Sums --- */

TG_INLINE void sum_block(const tg_sum *s, const double *at, double *out)
{
    const size_t step = s->step;
    vec a = LOAD(at), b = LOAD(at + LANES), c = LOAD(at + 2 * LANES), d = LOAD(at + 3 * LANES);

    for (size_t k = 1; k < s->size; k++) {
        at += step;
        a += LOAD(at);
        b += LOAD(at + LANES);
        c += LOAD(at + 2 * LANES);
        d += LOAD(at + 3 * LANES);
    }
    STORE(out, a);
    STORE(out + LANES, b);
    STORE(out + 2 * LANES, c);
    STORE(out + 3 * LANES, d);
}

TG_INLINE void sum_row(const tg_sum *s, const double *in, size_t n, double *out)
{
    size_t x = 0;

    for (; x + BLOCK <= n; x += BLOCK)
        sum_block(s, in + x, out + x);
    for (; x < n; x++) {
        double sum = in[x];
        for (size_t k = 1; k < s->size; k++)
            sum += in[x + k * s->step];
        out[x] = sum;
    }
}

/* From the sum one place before: what comes less what goes. */
TG_INLINE void sum_next(const double *before, const double *gone, const double *come, size_t n,
                        double *out)
{
    size_t x = 0;

    for (; x + LANES <= n; x += LANES)
        STORE(out + x, LOAD(before + x) + (LOAD(come + x) - LOAD(gone + x)));
    for (; x < n; x++)
        out[x] = before[x] + (come[x] - gone[x]);
}

#define FEW 24 /* additions of vectors that take as long as one of a chain */

TG_INLINE void sum_chain(const tg_sum *s, const double *in, size_t n, double *out)
{
    double sum = 0;

    for (size_t k = 0; k < s->size; k++)
        sum += in[k];
    for (size_t x = 0; x < n; x++) {
        out[x] = sum;
        sum += x + 1 < n ? in[x + s->size] - in[x] : 0;
    }
}

TG_INLINE void sum_all(const tg_sum *s, const double *in, double *out)
{
    if (s->any_order && s->step == 1 && s->rows == 1 && s->size > FEW) {
        sum_chain(s, in, s->cols, out);
        return;
    }
    const bool follow = s->any_order && s->step == s->row && s->size > 3;
    for (size_t x = 0; x < s->cols; x += COLUMNS) {
        const size_t n = s->cols - x < COLUMNS ? s->cols - x : COLUMNS;
        for (size_t y = 0; y < s->rows; y++) {
            const double *at = in + y * s->row + x;
            double *to = out + y * s->row + x;
            if (follow && y > 0)
                sum_next(to - s->row, at - s->row, at + (s->size - 1) * s->row, n, to);
            else
                sum_row(s, at, n, to);
        }
    }
}

TG_DEFINE_WIDER(sum, sum_all, (const tg_sum *s, const double *in, double *out), (s, in, out))

void tg_fold_sum(const tg_sum *s, const double *in, double *out)
{
    sum(s, in, out);
}

TG_INLINE void divide_all(const double *in, double by, size_t n, double *out)
{
    for (size_t x = 0; x < n; x++)
        out[x] = in[x] / by;
}

TG_DEFINE_WIDER(divide, divide_all, (const double *in, double by, size_t n, double *out),
                (in, by, n, out))

void tg_fold_divide(const double *in, double by, size_t n, double *out)
{
    divide(in, by, n, out);
}
