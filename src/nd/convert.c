/* Conversion goes through blocks of the widest type of a kind, so that each type is
 * loaded and stored in one place. */
#include "nd/convert.h"

#include "nd/half.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 512 };

/* Items in their widest form. A complex number is two of them. */
typedef struct block {
    enum { WIDE_INT, WIDE_UINT, WIDE_FLOAT } kind;
    size_t n;
    union {
        int64_t i[BLOCK];
        uint64_t u[BLOCK];
        double f[BLOCK];
    } v;
} block;

static bool same(tg_dtype a, tg_dtype b)
{
    return a.kind == b.kind && a.size == b.size;
}

static bool is_real(tg_dtype t)
{
    return t.kind == TG_DT_BOOL || t.kind == TG_DT_INT || t.kind == TG_DT_UINT ||
           t.kind == TG_DT_FLOAT;
}

bool tg_nd_can_convert(tg_dtype from, tg_dtype to)
{
    if (same(from, to))
        return true;
    if (to.kind == TG_DT_COMPLEX)
        return is_real(from) || from.kind == TG_DT_COMPLEX;
    return is_real(from) && is_real(to);
}

/* --- Loading ---------------------------------------------------------------- */

#define LOAD(T, field)                                \
    do {                                              \
        for (size_t k = 0; k < b->n; k++) {           \
            T x;                                      \
            memcpy(&x, src + k * sizeof x, sizeof x); \
            b->v.field[k] = x;                        \
        }                                             \
    } while (0)

static void load_int(block *b, const uint8_t *src, uint32_t size)
{
    b->kind = WIDE_INT;
    if (size == 1)
        LOAD(int8_t, i); /* NOLINT(bugprone-signed-char-misuse): a number, no character */
    else if (size == 2)
        LOAD(int16_t, i);
    else if (size == 4)
        LOAD(int32_t, i);
    else
        LOAD(int64_t, i);
}

static void load_uint(block *b, const uint8_t *src, uint32_t size)
{
    b->kind = WIDE_UINT;
    if (size == 1)
        LOAD(uint8_t, u);
    else if (size == 2)
        LOAD(uint16_t, u);
    else if (size == 4)
        LOAD(uint32_t, u);
    else
        LOAD(uint64_t, u);
}

static void load_float(block *b, const uint8_t *src, uint32_t size)
{
    b->kind = WIDE_FLOAT;
    if (size == 4) {
        LOAD(float, f);
    } else if (size == 8) {
        LOAD(double, f);
    } else {
        for (size_t k = 0; k < b->n; k++) {
            uint16_t x;
            memcpy(&x, src + 2 * k, 2);
            b->v.f[k] = tg_half_to_double(x);
        }
    }
}

static void load(block *b, const uint8_t *src, tg_dtype t)
{
    if (t.kind == TG_DT_INT)
        load_int(b, src, t.size);
    else if (t.kind == TG_DT_FLOAT)
        load_float(b, src, t.size);
    else if (t.kind == TG_DT_COMPLEX)
        load_float(b, src, t.size / 2);
    else
        load_uint(b, src, t.size);
    for (size_t k = 0; t.kind == TG_DT_BOOL && k < b->n; k++)
        b->v.u[k] = b->v.u[k] != 0;
}

/* --- Storing ---------------------------------------------------------------- */

static int64_t as_int(const block *b, size_t k, int64_t most, uint64_t *lost)
{
    const int64_t least = -most - 1;

    if (b->kind == WIDE_UINT) {
        *lost += b->v.u[k] > (uint64_t)most;
        return b->v.u[k] > (uint64_t)most ? most : (int64_t)b->v.u[k];
    }
    if (b->kind == WIDE_INT) {
        int64_t v = b->v.i[k];
        *lost += v > most || v < least;
        return v > most ? most : v < least ? least : v;
    }
    double d = rint(b->v.f[k]);
    if (d >= (double)least && d < -(double)least)
        return (int64_t)d;
    *lost += 1;
    return isnan(d) ? 0 : d < 0 ? least : most;
}

static uint64_t as_uint(const block *b, size_t k, uint64_t most, uint64_t *lost)
{
    if (b->kind == WIDE_UINT) {
        *lost += b->v.u[k] > most;
        return b->v.u[k] > most ? most : b->v.u[k];
    }
    if (b->kind == WIDE_INT) {
        int64_t v = b->v.i[k];
        bool fits = v >= 0 && (uint64_t)v <= most;
        *lost += !fits;
        return fits ? (uint64_t)v : v < 0 ? 0 : most;
    }
    double d = rint(b->v.f[k]);
    const uint64_t half = most / 2 + 1; /* most + 1 may not fit */
    if (d >= 0 && d < 2 * (double)half)
        return (uint64_t)d;
    *lost += !(d == 0); /* -0.0 is 0 */
    return d > 0 ? most : 0;
}

#define STORE(T, expr)                                \
    do {                                              \
        for (size_t k = 0; k < b->n; k++) {           \
            T x = (T)(expr);                          \
            memcpy(dst + k * sizeof x, &x, sizeof x); \
        }                                             \
    } while (0)

static uint64_t store_int(uint8_t *dst, const block *b, uint32_t size)
{
    uint64_t lost = 0;

    if (size == 1)
        STORE(int8_t, as_int(b, k, INT8_MAX, &lost));
    else if (size == 2)
        STORE(int16_t, as_int(b, k, INT16_MAX, &lost));
    else if (size == 4)
        STORE(int32_t, as_int(b, k, INT32_MAX, &lost));
    else
        STORE(int64_t, as_int(b, k, INT64_MAX, &lost));
    return lost;
}

static uint64_t store_uint(uint8_t *dst, const block *b, uint32_t size)
{
    uint64_t lost = 0;

    if (size == 1)
        STORE(uint8_t, as_uint(b, k, UINT8_MAX, &lost));
    else if (size == 2)
        STORE(uint16_t, as_uint(b, k, UINT16_MAX, &lost));
    else if (size == 4)
        STORE(uint32_t, as_uint(b, k, UINT32_MAX, &lost));
    else
        STORE(uint64_t, as_uint(b, k, UINT64_MAX, &lost));
    return lost;
}

static double as_double(const block *b, size_t k)
{
    return b->kind == WIDE_FLOAT ? b->v.f[k]
           : b->kind == WIDE_INT ? (double)b->v.i[k]
                                 : (double)b->v.u[k];
}

/* Straight from the integer: by way of double it would be rounded twice. */
static float as_single(const block *b, size_t k)
{
    return b->kind == WIDE_FLOAT ? (float)b->v.f[k]
           : b->kind == WIDE_INT ? (float)b->v.i[k]
                                 : (float)b->v.u[k];
}

/* n values, `step` bytes from one to the next. */
static uint64_t store_float(uint8_t *dst, const block *b, uint32_t size, size_t step)
{
    uint64_t lost = 0;

    for (size_t k = 0; k < b->n; k++) {
        double d = as_double(b, k);
        if (size == 8) {
            memcpy(dst + k * step, &d, 8);
        } else if (size == 4) {
            float f = as_single(b, k);
            lost += isinf(f) && isfinite(d);
            memcpy(dst + k * step, &f, 4);
        } else {
            uint16_t h = tg_half_from_double(d);
            lost += (h & 0x7fff) == 0x7c00 && isfinite(d);
            memcpy(dst + k * step, &h, 2);
        }
    }
    return lost;
}

static void store_bool(uint8_t *dst, const block *b)
{
    for (size_t k = 0; k < b->n; k++)
        dst[k] = as_double(b, k) != 0;
}

static uint64_t store(uint8_t *dst, const block *b, tg_dtype t, bool from_complex)
{
    switch (t.kind) {
    case TG_DT_INT:
        return store_int(dst, b, t.size);
    case TG_DT_UINT:
        return store_uint(dst, b, t.size);
    case TG_DT_FLOAT:
        return store_float(dst, b, t.size, t.size);
    case TG_DT_COMPLEX:
        if (!from_complex)
            memset(dst, 0, b->n * t.size); /* imaginary parts */
        return store_float(dst, b, t.size / 2, from_complex ? t.size / 2 : t.size);
    default:
        store_bool(dst, b);
        return 0;
    }
}

uint64_t tg_nd_convert(void *dst, tg_dtype to, const void *src, tg_dtype from, size_t n)
{
    const bool complex = from.kind == TG_DT_COMPLEX;
    const size_t most = complex ? BLOCK / 2 : BLOCK;
    uint64_t lost = 0;
    block b;

    if (same(to, from)) {
        memcpy(dst, src, n * to.size);
        return 0;
    }
    for (size_t at = 0; at < n; at += most) {
        size_t items = n - at < most ? n - at : most;
        b.n = complex ? 2 * items : items;
        load(&b, (const uint8_t *)src + at * from.size, from);
        lost += store((uint8_t *)dst + at * to.size, &b, to, complex);
    }
    return lost;
}
