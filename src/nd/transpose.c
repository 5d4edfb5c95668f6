/* nd/transpose.c - two-dimensional transposition at the speed of memory: tiles
 * of a few cache lines, inside them squares of 16-byte vectors that are turned
 * in registers. Written in the vector types of GCC and Clang, so that the same
 * code becomes SSE2 and NEON. */
#include "nd/kernels.h"

#include <stdbool.h>
#include <string.h>

typedef uint8_t v8 __attribute__((vector_size(16)));
typedef uint16_t v16 __attribute__((vector_size(16)));
typedef uint32_t v32 __attribute__((vector_size(16)));
typedef uint64_t v64 __attribute__((vector_size(16)));

#define LO8(a, b) \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HI8(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LO16(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HI16(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LO32(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HI32(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LO64(a, b) __builtin_shufflevector(a, b, 0, 2)
#define HI64(a, b) __builtin_shufflevector(a, b, 1, 3)

/* One round: interleave vector i with vector i + half. log2(n) rounds turn an
 * n x n square. */
#define PAIR(LO, HI, to, from, i, half)                      \
    (to)[(size_t)2 * (i)] = LO((from)[i], (from)[i + half]); \
    (to)[(size_t)2 * (i) + 1] = HI((from)[i], (from)[i + half])
#define ROUND2(LO, HI, to, from) PAIR(LO, HI, to, from, 0, 1)
#define ROUND4(LO, HI, to, from)  \
    PAIR(LO, HI, to, from, 0, 2); \
    PAIR(LO, HI, to, from, 1, 2)
#define ROUND8(LO, HI, to, from)  \
    PAIR(LO, HI, to, from, 0, 4); \
    PAIR(LO, HI, to, from, 1, 4); \
    PAIR(LO, HI, to, from, 2, 4); \
    PAIR(LO, HI, to, from, 3, 4)
#define ROUND16(LO, HI, to, from) \
    PAIR(LO, HI, to, from, 0, 8); \
    PAIR(LO, HI, to, from, 1, 8); \
    PAIR(LO, HI, to, from, 2, 8); \
    PAIR(LO, HI, to, from, 3, 8); \
    PAIR(LO, HI, to, from, 4, 8); \
    PAIR(LO, HI, to, from, 5, 8); \
    PAIR(LO, HI, to, from, 6, 8); \
    PAIR(LO, HI, to, from, 7, 8)

/* square_N(dst, ds, src, ss): rows of src become columns of dst; rows are contiguous, ss and ds
 * apart. */
#define DEFINE_SQUARE(name, type, n, rounds)                             \
    static void name(char *dst, int64_t ds, const char *src, int64_t ss) \
    {                                                                    \
        type a[n], b[n];                                                 \
        for (int i = 0; i < (n); i++)                                    \
            memcpy(&a[i], src + i * ss, 16);                             \
        rounds;                                                          \
        for (int i = 0; i < (n); i++)                                    \
            memcpy(dst + i * ds, &b[i], 16);                             \
    }

DEFINE_SQUARE(square_64, v64, 2, ROUND2(LO64, HI64, b, a))
DEFINE_SQUARE(square_32, v32, 4, ROUND4(LO32, HI32, b, a); memcpy(a, b, sizeof a);
              ROUND4(LO32, HI32, b, a))
DEFINE_SQUARE(square_16, v16, 8, ROUND8(LO16, HI16, b, a); ROUND8(LO16, HI16, a, b);
              ROUND8(LO16, HI16, b, a))
DEFINE_SQUARE(square_8, v8, 16, ROUND16(LO8, HI8, b, a); ROUND16(LO8, HI8, a, b);
              ROUND16(LO8, HI8, b, a); memcpy(a, b, sizeof a); ROUND16(LO8, HI8, b, a))

/* Any strides; the loop along cols is the inner one, as src is read in order there. */
static inline __attribute__((always_inline)) void
copy_units(char *dst, const char *src, tg_axis rows, tg_axis cols, const size_t unit)
{
    for (uint64_t r = 0; r < rows.n; r++) {
        char *d = dst + (int64_t)r * rows.dst;
        const char *s = src + (int64_t)r * rows.src;
        for (uint64_t c = 0; c < cols.n; c++, d += cols.dst, s += cols.src)
            memcpy(d, s, unit);
    }
}

static void copy_any(char *dst, const char *src, tg_axis rows, tg_axis cols, size_t unit)
{
    switch (unit) {
    case 1:
        copy_units(dst, src, rows, cols, 1);
        break;
    case 2:
        copy_units(dst, src, rows, cols, 2);
        break;
    case 4:
        copy_units(dst, src, rows, cols, 4);
        break;
    case 8:
        copy_units(dst, src, rows, cols, 8);
        break;
    default:
        copy_units(dst, src, rows, cols, 16);
        break;
    }
}

static inline __attribute__((always_inline)) void
copy_squares(char *dst, const char *src, tg_axis rows, tg_axis cols, const size_t unit,
             void (*square)(char *, int64_t, const char *, int64_t))
{
    const uint64_t side = 16 / unit;

    for (uint64_t r = 0; r < rows.n; r += side)
        for (uint64_t c = 0; c < cols.n; c += side)
            square(dst + (int64_t)(r * unit) + (int64_t)c * cols.dst, cols.dst,
                   src + (int64_t)r * rows.src + (int64_t)(c * unit), rows.src);
}

static tg_axis cut(tg_axis a, uint64_t n)
{
    return (tg_axis){n, a.dst, a.src};
}

/* One tile. What does not fill a square is copied unit by unit. */
static void copy_tile(char *dst, const char *src, tg_axis rows, tg_axis cols, size_t unit,
                      bool contiguous)
{
    uint64_t side = 16 / unit, r = 0, c = 0;

    if (contiguous && side > 1 && rows.n >= side && cols.n >= side) {
        r = rows.n - rows.n % side;
        c = cols.n - cols.n % side;
        switch (unit) {
        case 1:
            copy_squares(dst, src, cut(rows, r), cut(cols, c), 1, square_8);
            break;
        case 2:
            copy_squares(dst, src, cut(rows, r), cut(cols, c), 2, square_16);
            break;
        case 4:
            copy_squares(dst, src, cut(rows, r), cut(cols, c), 4, square_32);
            break;
        default:
            copy_squares(dst, src, cut(rows, r), cut(cols, c), 8, square_64);
            break;
        }
    }
    copy_any(dst + (int64_t)c * cols.dst, src + (int64_t)c * cols.src, cut(rows, r),
             cut(cols, cols.n - c), unit);
    copy_any(dst + (int64_t)r * rows.dst, src + (int64_t)r * rows.src, cut(rows, rows.n - r),
             cols, unit);
}

void tg_copy_transposed(char *dst, const char *src, tg_axis rows, tg_axis cols, size_t unit)
{
    bool contiguous = rows.dst == (int64_t)unit && cols.src == (int64_t)unit;
    uint64_t line = 64 / unit;
    uint64_t tile_rows = rows.n < line ? rows.n : line;
    /* Few rows make narrow tiles, which may be longer for the same share of the cache. */
    uint64_t tile_cols = line * line / tile_rows;

    for (uint64_t r = 0; r < rows.n; r += tile_rows)
        for (uint64_t c = 0; c < cols.n; c += tile_cols)
            copy_tile(dst + (int64_t)r * rows.dst + (int64_t)c * cols.dst,
                      src + (int64_t)r * rows.src + (int64_t)c * cols.src,
                      cut(rows, rows.n - r < tile_rows ? rows.n - r : tile_rows),
                      cut(cols, cols.n - c < tile_cols ? cols.n - c : tile_cols), unit,
                      contiguous);
}
