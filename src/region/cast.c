/* From one type of items to another in place, through blocks of doubles or 64-bit integers. */
#include "nd/half.h"
#include "region/accum.h"

#include <math.h>
#include <string.h>

#define BLOCK 256

/* Items of a block in the widest type of their kind. */
typedef struct lanes {
    enum { LANE_FLOAT, LANE_INT, LANE_UINT } kind;
    union {
        double f[BLOCK];
        int64_t i[BLOCK];
        uint64_t u[BLOCK];
    } v;
} lanes;

static bool is_real(tg_dtype t)
{
    return t.kind == TG_DT_BOOL || t.kind == TG_DT_INT || t.kind == TG_DT_UINT ||
           t.kind == TG_DT_FLOAT;
}

tg_status tg_cast_check(tg_dtype from, tg_dtype to, tg_error *err)
{
    char a[16], b[16];

    if ((from.kind == to.kind && from.size == to.size && from.kind != TG_DT_STRING) ||
        (is_real(from) && is_real(to)))
        return TG_OK;
    return tg_fail(err, TG_INVALID, "items of %s cannot become %s", tg_dtype_name(from, a),
                   tg_dtype_name(to, b));
}

#define LOAD(T, field)                            \
    for (uint64_t k = 0; k < n; k++) {            \
        T x;                                      \
        memcpy(&x, src + k * sizeof x, sizeof x); \
        l->v.field[k] = x;                        \
    }                                             \
    break

static void load(lanes *l, const uint8_t *src, uint64_t n, tg_dtype t)
{
    if (t.kind == TG_DT_INT) {
        l->kind = LANE_INT;
        switch (t.size) {
        case 1:
            /* NOLINTNEXTLINE(bugprone-signed-char-misuse): its sign is meant */
            LOAD(int8_t, i);
        case 2:
            LOAD(int16_t, i);
        case 4:
            LOAD(int32_t, i);
        default:
            LOAD(int64_t, i);
        }
    } else if (t.kind == TG_DT_FLOAT) {
        l->kind = LANE_FLOAT;
        switch (t.size) {
        case 2:
            for (uint64_t k = 0; k < n; k++) {
                uint16_t x;
                memcpy(&x, src + 2 * k, 2);
                l->v.f[k] = tg_half_to_double(x);
            }
            break;
        case 4:
            LOAD(float, f);
        default:
            LOAD(double, f);
        }
    } else {
        l->kind = LANE_UINT;
        switch (t.size) {
        case 1:
            LOAD(uint8_t, u);
        case 2:
            LOAD(uint16_t, u);
        case 4:
            LOAD(uint32_t, u);
        default:
            LOAD(uint64_t, u);
        }
    }
}

static int64_t int_max(uint32_t size)
{
    return (int64_t)(UINT64_MAX >> (65 - 8 * size));
}

/* To a signed integer of `size` bytes. */
static int64_t to_int(const lanes *l, uint64_t k, uint32_t size, uint64_t *saturated)
{
    const int64_t hi = int_max(size), lo = -hi - 1;
    int64_t v;

    if (l->kind == LANE_FLOAT) {
        double x = rint(l->v.f[k]);
        if (isnan(x) || x < (double)lo || x >= -(double)lo) {
            ++*saturated;
            return isnan(x) ? 0 : x < 0 ? lo : hi;
        }
        return (int64_t)x;
    }
    if (l->kind == LANE_UINT) {
        *saturated += l->v.u[k] > (uint64_t)hi;
        return l->v.u[k] > (uint64_t)hi ? hi : (int64_t)l->v.u[k];
    }
    v = l->v.i[k];
    *saturated += v < lo || v > hi;
    return v < lo ? lo : v > hi ? hi : v;
}

static uint64_t to_uint(const lanes *l, uint64_t k, uint32_t size, uint64_t *saturated)
{
    const uint64_t hi = UINT64_MAX >> (64 - 8 * size);

    if (l->kind == LANE_FLOAT) {
        double x = rint(l->v.f[k]);
        if (isnan(x) || x < 0 || x >= ldexp(1.0, (int)(8 * size))) {
            ++*saturated;
            return x > 0 ? hi : 0;
        }
        return (uint64_t)x;
    }
    if (l->kind == LANE_INT && l->v.i[k] < 0) {
        ++*saturated;
        return 0;
    }
    uint64_t v = l->kind == LANE_INT ? (uint64_t)l->v.i[k] : l->v.u[k];
    *saturated += v > hi;
    return v > hi ? hi : v;
}

static double to_float(const lanes *l, uint64_t k)
{
    return l->kind == LANE_FLOAT ? l->v.f[k]
           : l->kind == LANE_INT ? (double)l->v.i[k]
                                 : (double)l->v.u[k];
}

/* float32 of a 64-bit integer directly: by way of double it would be rounded twice. */
static float to_single(const lanes *l, uint64_t k)
{
    return l->kind == LANE_FLOAT ? (float)l->v.f[k]
           : l->kind == LANE_INT ? (float)l->v.i[k]
                                 : (float)l->v.u[k];
}

#define STORE(T, expr)                            \
    for (uint64_t k = 0; k < n; k++) {            \
        T x = (T)(expr);                          \
        memcpy(dst + k * sizeof x, &x, sizeof x); \
    }                                             \
    break

static void store(uint8_t *dst, const lanes *l, uint64_t n, tg_dtype t, uint64_t *saturated)
{
    if (t.kind == TG_DT_BOOL) {
        for (uint64_t k = 0; k < n; k++)
            dst[k] = l->kind == LANE_FLOAT ? l->v.f[k] != 0 : l->v.u[k] != 0;
    } else if (t.kind == TG_DT_FLOAT) {
        switch (t.size) {
        case 2:
            STORE(uint16_t, tg_half_from_double(to_float(l, k)));
        case 4:
            STORE(float, to_single(l, k));
        default:
            STORE(double, to_float(l, k));
        }
    } else if (t.kind == TG_DT_INT) {
        switch (t.size) {
        case 1:
            STORE(int8_t, to_int(l, k, 1, saturated));
        case 2:
            STORE(int16_t, to_int(l, k, 2, saturated));
        case 4:
            STORE(int32_t, to_int(l, k, 4, saturated));
        default:
            STORE(int64_t, to_int(l, k, 8, saturated));
        }
    } else {
        switch (t.size) {
        case 1:
            STORE(uint8_t, to_uint(l, k, 1, saturated));
        case 2:
            STORE(uint16_t, to_uint(l, k, 2, saturated));
        case 4:
            STORE(uint32_t, to_uint(l, k, 4, saturated));
        default:
            STORE(uint64_t, to_uint(l, k, 8, saturated));
        }
    }
}

/* Items that grow are moved from the last block to the first, so that none is written over
 * before it is read. */
void tg_cast_items(uint8_t *data, uint64_t n, tg_dtype from, tg_dtype to, uint64_t *saturated)
{
    const uint64_t blocks = (n + BLOCK - 1) / BLOCK;
    lanes l;

    if (from.kind == to.kind && from.size == to.size)
        return;
    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t at = (to.size > from.size ? blocks - 1 - b : b) * BLOCK;
        uint64_t m = n - at < BLOCK ? n - at : BLOCK;
        load(&l, data + at * from.size, m, from);
        store(data + at * to.size, &l, m, to, saturated);
    }
}
