/* Medians of numbers of up to 16 bits: many windows at once, each lane one of them. What cannot
 * be the median any more is forgotten: of a little more than half of the items the least and
 * the greatest go, and the next one comes, until three are left. */
#include "region/op_median.h"

#include <string.h>

#define LANES 64

typedef struct lanes {
    int16_t v[LANES];
} lanes;

static inline __attribute__((always_inline)) void order(lanes *a, lanes *b)
{
    for (int j = 0; j < LANES; j++) {
        const int16_t x = a->v[j], y = b->v[j];
        a->v[j] = x < y ? x : y;
        b->v[j] = x < y ? y : x;
    }
}

/* The least of s[0, m) comes to the front, the greatest to the end. */
static inline __attribute__((always_inline)) void put_ends(lanes *s, size_t m)
{
    for (size_t i = 0; i < m / 2; i++)
        order(&s[i], &s[m - 1 - i]);
    for (size_t i = 1; i < (m + 1) / 2; i++)
        order(&s[0], &s[i]);
    for (size_t i = m / 2; i < m - 1; i++)
        order(&s[i], &s[m - 1]);
}

static inline void load(lanes *to, const int16_t *from, size_t at, size_t m)
{
    if (from == NULL)
        memset(to, 0, sizeof *to);
    else
        memcpy(to->v, from + at, m * sizeof *from);
    for (size_t j = from == NULL ? 0 : m; j < LANES; j++)
        to->v[j] = INT16_MAX;
}

/* n, odd, from 3 on; items of m <= LANES windows from `at` on. */
static inline __attribute__((always_inline)) void
middle(lanes *s, const int16_t *const *from, size_t n, size_t at, size_t m, int16_t *to)
{
    size_t k = (n + 1) / 2 + 1, next = k;

    for (size_t i = 0; i < k; i++)
        load(&s[i], from[i], at, m);
    for (;; k--) {
        put_ends(s, k);
        if (next == n)
            break;
        load(&s[0], from[next++], at, m);
    }
    memcpy(to + at, s[1].v, m * sizeof *to);
}

static inline __attribute__((always_inline)) void row_of(const int16_t *const *from, size_t n,
                                                         size_t length, int16_t *to)
{
    lanes s[TG_MOST_MEDIAN / 2 + 3] = {{{0}}};

    for (size_t at = 0; at < length; at += LANES)
        middle(s, from, n, at, length - at < LANES ? length - at : LANES, to);
}

static void row_plain(const int16_t *const *from, size_t n, size_t length, int16_t *to)
{
    row_of(from, n, length, to);
}

typedef void (*row_fn)(const int16_t *const *from, size_t n, size_t length, int16_t *to);

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void row_avx2(const int16_t *const *from, size_t n,
                                                     size_t length, int16_t *to)
{
    row_of(from, n, length, to);
}

static row_fn choose_row(void)
{
    return __builtin_cpu_supports("avx2") ? row_avx2 : row_plain;
}
#else
static row_fn choose_row(void)
{
    return row_plain;
}
#endif

void tg_median_row(const int16_t *const *from, size_t n, size_t length, int16_t *to)
{
    const int16_t *padded[TG_MOST_MEDIAN + 1];

    if (n == 1) {
        memcpy(to, from[0], length * sizeof *to);
        return;
    }
    memcpy(padded, from, n * sizeof *from);
    if (n % 2 == 0) /* of an even number the upper one: as if one more lay above all */
        padded[n++] = NULL;
    choose_row()(padded, n, length, to);
}
