/* Halving a plane. One pair of rows at a time: the whole blocks in a loop that vectorises, the
 * odd column, and an odd last row, apart. */
#include "nd/halve.h"

#include "nd/half.h"

#include <assert.h>
#include <math.h>
#include <string.h>

bool tg_halve_can(tg_dtype t)
{
    switch (t.kind) {
    case TG_DT_BOOL:
        return t.size == 1;
    case TG_DT_INT:
    case TG_DT_UINT:
        return t.size == 1 || t.size == 2 || t.size == 4 || t.size == 8;
    case TG_DT_FLOAT:
        return t.size == 2 || t.size == 4 || t.size == 8;
    default:
        return false;
    }
}

/* Names: T the type of an item, W one that holds the sum of four (or, for 64 bits, T itself).
 * Each kind of block is a function of 1, 2 or 4 items. */

/* --- Means ------------------------------------------------------------------
 *
 * Of integers with halves to even: with sum = 4 q + r, r in 0..3, adding 1 and the lowest bit
 * of q carries into q exactly when r is 3, or 2 and q odd. Of two: sum = 2 q + r, adding that
 * bit carries when r is 1 and q odd. >> of a negative number rounds down in every compiler
 * that we build with. */
#define INTEGER_MEANS(T, W)                            \
    static inline T mean4_##T(T a, T b, T c, T d)      \
    {                                                  \
        W sum = (W)((W)a + (W)b + (W)c + (W)d);        \
        return (T)((sum + 1 + ((sum >> 2) & 1)) >> 2); \
    }                                                  \
    static inline T mean2_##T(T a, T b)                \
    {                                                  \
        W sum = (W)((W)a + (W)b);                      \
        return (T)((sum + ((sum >> 1) & 1)) >> 1);     \
    }

/* The same where no type holds the sum: quotients and remainders are added apart. */
#define WIDE_MEANS(T)                                                       \
    static inline T mean4_##T(T a, T b, T c, T d)                           \
    {                                                                       \
        T rest = (T)((a & 3) + (b & 3) + (c & 3) + (d & 3));                \
        T q = (T)((a >> 2) + (b >> 2) + (c >> 2) + (d >> 2) + (rest >> 2)); \
        rest &= 3;                                                          \
        return (T)(q + ((rest + 1 + (q & 1)) >> 2));                        \
    }                                                                       \
    static inline T mean2_##T(T a, T b)                                     \
    {                                                                       \
        T rest = (T)((a & 1) + (b & 1));                                    \
        T q = (T)((a >> 1) + (b >> 1) + (rest >> 1));                       \
        return (T)(q + (((rest & 1) + (q & 1)) >> 1));                      \
    }

#define FLOAT_MEANS(T)                                                   \
    static inline T mean4_##T(T a, T b, T c, T d)                        \
    {                                                                    \
        return (T)(((double)a + (double)b + (double)c + (double)d) / 4); \
    }                                                                    \
    static inline T mean2_##T(T a, T b)                                  \
    {                                                                    \
        return (T)(((double)a + (double)b) / 2);                         \
    }

INTEGER_MEANS(uint8_t, uint32_t)
INTEGER_MEANS(int8_t, int32_t)
INTEGER_MEANS(uint16_t, uint32_t)
INTEGER_MEANS(int16_t, int32_t)
INTEGER_MEANS(uint32_t, uint64_t)
INTEGER_MEANS(int32_t, int64_t)
WIDE_MEANS(uint64_t)
WIDE_MEANS(int64_t)
FLOAT_MEANS(float)
FLOAT_MEANS(double)

/* --- Least and greatest ----------------------------------------------------- */

#define INTEGER_ORDER(T)               \
    static inline T min2_##T(T a, T b) \
    {                                  \
        return b < a ? b : a;          \
    }                                  \
    static inline T max2_##T(T a, T b) \
    {                                  \
        return b > a ? b : a;          \
    }

/* NaN wins: a comparison with one is false, so it is asked for. */
#define FLOAT_ORDER(T)                    \
    static inline T min2_##T(T a, T b)    \
    {                                     \
        return b < a || isnan(b) ? b : a; \
    }                                     \
    static inline T max2_##T(T a, T b)    \
    {                                     \
        return b > a || isnan(b) ? b : a; \
    }

#define OF_FOUR(T)                                       \
    static inline T min4_##T(T a, T b, T c, T d)         \
    {                                                    \
        return min2_##T(min2_##T(a, b), min2_##T(c, d)); \
    }                                                    \
    static inline T max4_##T(T a, T b, T c, T d)         \
    {                                                    \
        return max2_##T(max2_##T(a, b), max2_##T(c, d)); \
    }

INTEGER_ORDER(uint8_t)
INTEGER_ORDER(int8_t)
INTEGER_ORDER(uint16_t)
INTEGER_ORDER(int16_t)
INTEGER_ORDER(uint32_t)
INTEGER_ORDER(int32_t)
INTEGER_ORDER(uint64_t)
INTEGER_ORDER(int64_t)
FLOAT_ORDER(float)
FLOAT_ORDER(double)
OF_FOUR(uint8_t)
OF_FOUR(int8_t)
OF_FOUR(uint16_t)
OF_FOUR(int16_t)
OF_FOUR(uint32_t)
OF_FOUR(int32_t)
OF_FOUR(uint64_t)
OF_FOUR(int64_t)
OF_FOUR(float)
OF_FOUR(double)

/* --- Rows -------------------------------------------------------------------- */

/* dst from rows a and b; b is NULL where a is the odd last one. */
#define ROWS(T, METHOD)                                                                      \
    static void METHOD##_rows_##T(const void *va, const void *vb, size_t width, void *vd)    \
    {                                                                                        \
        const T *restrict a = va, *restrict b = vb;                                          \
        T *restrict d = vd;                                                                  \
        size_t whole = width / 2;                                                            \
        for (size_t x = 0; b != NULL && x < whole; x++)                                      \
            d[x] = METHOD##4_##T(a[2 * x], a[2 * x + 1], b[2 * x], b[2 * x + 1]);            \
        for (size_t x = 0; b == NULL && x < whole; x++)                                      \
            d[x] = METHOD##2_##T(a[2 * x], a[2 * x + 1]);                                    \
        if (width % 2 != 0)                                                                  \
            d[whole] = b == NULL ? a[width - 1] : METHOD##2_##T(a[width - 1], b[width - 1]); \
    }
#define ALL_ROWS(T) ROWS(T, mean) ROWS(T, min) ROWS(T, max)

ALL_ROWS(uint8_t)
ALL_ROWS(int8_t)
ALL_ROWS(uint16_t)
ALL_ROWS(int16_t)
ALL_ROWS(uint32_t)
ALL_ROWS(int32_t)
ALL_ROWS(uint64_t)
ALL_ROWS(int64_t)
ALL_ROWS(float)
ALL_ROWS(double)

/* Half precision goes through double, which holds each value and each sum of four exactly. */
static void half_rows(tg_halve_method method, const uint16_t *a, const uint16_t *b,
                      size_t width, uint16_t *d)
{
    for (size_t x = 0; x < width; x += 2) {
        bool pair = x + 1 < width;
        double v[4] = {tg_half_to_double(a[x])};
        size_t n = 1;
        if (pair)
            v[n++] = tg_half_to_double(a[x + 1]);
        if (b != NULL)
            v[n++] = tg_half_to_double(b[x]);
        if (b != NULL && pair)
            v[n++] = tg_half_to_double(b[x + 1]);
        double got = v[0];
        for (size_t i = 1; i < n; i++)
            got = method == TG_HALVE_MEAN  ? got + v[i]
                  : method == TG_HALVE_MIN ? min2_double(got, v[i])
                                           : max2_double(got, v[i]);
        d[x / 2] = tg_half_from_double(method == TG_HALVE_MEAN ? got / (double)n : got);
    }
}

static void half_mean(const void *a, const void *b, size_t width, void *d)
{
    half_rows(TG_HALVE_MEAN, a, b, width, d);
}
static void half_min(const void *a, const void *b, size_t width, void *d)
{
    half_rows(TG_HALVE_MIN, a, b, width, d);
}
static void half_max(const void *a, const void *b, size_t width, void *d)
{
    half_rows(TG_HALVE_MAX, a, b, width, d);
}

#define FIRST_ITEMS(T)                                                            \
    static void first_##T(const void *va, const void *vb, size_t width, void *vd) \
    {                                                                             \
        const T *restrict a = va;                                                 \
        T *restrict d = vd;                                                       \
        (void)vb;                                                                 \
        for (size_t x = 0; x < (width + 1) / 2; x++)                              \
            d[x] = a[2 * x];                                                      \
    }
FIRST_ITEMS(uint8_t)
FIRST_ITEMS(uint16_t)
FIRST_ITEMS(uint32_t)
FIRST_ITEMS(uint64_t)

/* --- The plane --------------------------------------------------------------- */

typedef void (*rows_fn)(const void *a, const void *b, size_t width, void *dst);

#define METHODS(T)                                \
    {                                             \
        mean_rows_##T, min_rows_##T, max_rows_##T \
    }

static rows_fn find_rows(tg_dtype t, tg_halve_method method)
{
    /* By kind (unsigned, signed, float), log2 of the size, method. */
    static const rows_fn table[3][4][3] = {
        {METHODS(uint8_t), METHODS(uint16_t), METHODS(uint32_t), METHODS(uint64_t)},
        {METHODS(int8_t), METHODS(int16_t), METHODS(int32_t), METHODS(int64_t)},
        {{NULL, NULL, NULL}, {half_mean, half_min, half_max}, METHODS(float), METHODS(double)},
    };
    static const rows_fn first[4] = {first_uint8_t, first_uint16_t, first_uint32_t,
                                     first_uint64_t};
    int size = t.size == 1 ? 0 : t.size == 2 ? 1 : t.size == 4 ? 2 : 3;
    int kind = t.kind == TG_DT_FLOAT ? 2 : t.kind == TG_DT_INT ? 1 : 0;
    return method == TG_HALVE_DECIMATE ? first[size] : table[kind][size][method];
}

void tg_halve(tg_dtype t, tg_halve_method method, const void *src, size_t height, size_t width,
              void *dst)
{
    assert(tg_halve_can(t) && height > 0 && width > 0);
    rows_fn rows = find_rows(t, method);
    const uint8_t *s = src;
    uint8_t *d = dst;
    size_t row = width * t.size;
    for (size_t y = 0; y < height; y += 2) {
        rows(s + y * row, y + 1 < height ? s + (y + 1) * row : NULL, width, d);
        d += (width + 1) / 2 * t.size;
    }
}
