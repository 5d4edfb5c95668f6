/* nd/copy.c - tg_nd_copy(): a strided copy is brought to its simplest form
 * (fewest axes, in the order of the destination), then run by the loop that
 * fits. Knows no types: items are bytes. */
#include "nd/kernels.h"
#include "nd/nd.h"

#include <string.h>

typedef struct job {
    tg_axis axis[TG_MAX_NDIM]; /* slowest in dst first; extents > 1 */
    uint32_t n;
    size_t unit; /* bytes that lie side by side on both sides */
    char *dst;
    const char *src;
} job;

/* Copying in any order gives the same, so each axis may be walked from its
 * other end, and axes may be sorted. */
static void add_axis(job *j, tg_axis a)
{
    if (a.dst < 0) {
        j->dst += (int64_t)(a.n - 1) * a.dst;
        j->src += (int64_t)(a.n - 1) * a.src;
        a.dst = -a.dst;
        a.src = -a.src;
    }
    uint32_t at = j->n++;
    for (; at > 0 && j->axis[at - 1].dst < a.dst; at--)
        j->axis[at] = j->axis[at - 1];
    j->axis[at] = a;
}

static void merge_axes(job *j)
{
    uint32_t kept = 0;

    for (uint32_t i = 1; i < j->n; i++) {
        tg_axis *outer = &j->axis[kept], inner = j->axis[i];
        if (outer->dst == inner.dst * (int64_t)inner.n &&
            outer->src == inner.src * (int64_t)inner.n)
            *outer = (tg_axis){outer->n * inner.n, inner.dst, inner.src};
        else
            j->axis[++kept] = inner;
    }
    if (j->n > 0)
        j->n = kept + 1;
    const tg_axis *last = &j->axis[kept];
    if (j->n > 0 && last->dst == (int64_t)j->unit && last->src == (int64_t)j->unit) {
        j->unit *= last->n;
        j->n--;
    }
}

static uint64_t distance(int64_t stride)
{
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

static uint32_t fastest_in_src(const job *j)
{
    uint32_t best = j->n - 1;

    for (uint32_t i = 0; i < j->n; i++)
        if (distance(j->axis[i].src) < distance(j->axis[best].src))
            best = i;
    return best;
}

static tg_axis take_axis(job *j, uint32_t i)
{
    tg_axis a = j->axis[i];

    memmove(&j->axis[i], &j->axis[i + 1], (j->n - i - 1) * sizeof a);
    j->n--;
    return a;
}

static inline __attribute__((always_inline)) void copy_row(char *dst, const char *src,
                                                           tg_axis a, const size_t unit)
{
    for (uint64_t i = 0; i < a.n; i++, dst += a.dst, src += a.src)
        memcpy(dst, src, unit);
}

/* The same unit all along: the row is copied from its own beginning, twice as
 * much each time, as long as that stays in the first cache. */
static void repeat_row(char *dst, const char *src, uint64_t n, size_t unit)
{
    size_t len = n * unit, have = unit, most = unit < 16384 ? 16384 - 16384 % unit : unit;

    if (memcmp(src, src + 1, unit - 1) == 0) {
        memset(dst, src[0], len);
        return;
    }
    memcpy(dst, src, unit);
    while (have < len) {
        size_t step = have < most ? have : most;
        step = step < len - have ? step : len - have;
        memcpy(dst + have, dst, step);
        have += step;
    }
}

static void copy_line(char *dst, const char *src, tg_axis a, size_t unit)
{
    if (a.src == 0 && a.dst == (int64_t)unit) {
        repeat_row(dst, src, a.n, unit);
        return;
    }
    switch (unit) {
    case 1:
        copy_row(dst, src, a, 1);
        break;
    case 2:
        copy_row(dst, src, a, 2);
        break;
    case 3:
        copy_row(dst, src, a, 3);
        break;
    case 4:
        copy_row(dst, src, a, 4);
        break;
    case 8:
        copy_row(dst, src, a, 8);
        break;
    case 16:
        copy_row(dst, src, a, 16);
        break;
    default:
        copy_row(dst, src, a, unit);
        break;
    }
}

static bool has_kernel(size_t unit)
{
    return unit == 1 || unit == 2 || unit == 4 || unit == 8 || unit == 16;
}

/* Step dst and src to the next position of the outer axes; false after the last. */
static bool next(job *j, uint64_t *index)
{
    for (uint32_t i = j->n; i-- > 0;) {
        const tg_axis *a = &j->axis[i];
        if (++index[i] < a->n) {
            j->dst += a->dst;
            j->src += a->src;
            return true;
        }
        index[i] = 0;
        j->dst -= (int64_t)(a->n - 1) * a->dst;
        j->src -= (int64_t)(a->n - 1) * a->src;
    }
    return false;
}

static void run(job *j)
{
    uint64_t index[TG_MAX_NDIM] = {0};

    if (j->n == 0) {
        memcpy(j->dst, j->src, j->unit);
        return;
    }
    uint32_t fast = fastest_in_src(j);
    bool crossed = fast != j->n - 1 && has_kernel(j->unit);
    tg_axis rows = take_axis(j, j->n - 1);
    tg_axis cols = crossed ? take_axis(j, fast) : (tg_axis){0};
    do {
        if (crossed)
            tg_copy_transposed(j->dst, j->src, rows, cols, j->unit);
        else
            copy_line(j->dst, j->src, rows, j->unit);
    } while (next(j, index));
}

void tg_nd_copy(void *dst, const int64_t *dst_strides, const void *src,
                const int64_t *src_strides, const tg_shape *shape, size_t item_bytes)
{
    job j = {.unit = item_bytes, .dst = dst, .src = src};

    for (uint32_t i = 0; i < shape->ndim; i++)
        if (shape->n[i] == 0)
            return;
    if (item_bytes == 0)
        return;
    for (uint32_t i = 0; i < shape->ndim; i++)
        if (shape->n[i] > 1)
            add_axis(&j, (tg_axis){shape->n[i], dst_strides[i], src_strides[i]});
    merge_axes(&j);
    run(&j);
}
