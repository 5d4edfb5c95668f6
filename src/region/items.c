/* Conversions between the number types of arrays, a row at a time. One loop a type: the
 * compiler makes vectors of those whose items lie side by side. */
#include "region/items.h"

#include "base/wider.h"
#include "nd/half.h"

#include <math.h>
#include <string.h>

bool tg_items_number(tg_dtype t)
{
    return t.kind == TG_DT_BOOL || t.kind == TG_DT_INT || t.kind == TG_DT_UINT ||
           t.kind == TG_DT_FLOAT;
}

bool tg_items_wide(tg_dtype t)
{
    return (t.kind == TG_DT_INT || t.kind == TG_DT_UINT) && t.size == 8;
}

#define LOAD(real, T)                                     \
    do {                                                  \
        if (stride == (int64_t)sizeof(T))                 \
            for (size_t i = 0; i < n; i++) {              \
                T v;                                      \
                memcpy(&v, p + i * sizeof v, sizeof v);   \
                dst[i] = (real)v;                         \
            }                                             \
        else                                              \
            for (size_t i = 0; i < n; i++, p += stride) { \
                T v;                                      \
                memcpy(&v, p, sizeof v);                  \
                dst[i] = (real)v;                         \
            }                                             \
    } while (0)

#define LOAD_ALL(real)                                    \
    do {                                                  \
        bool is_signed = t.kind == TG_DT_INT;             \
        if (t.kind == TG_DT_FLOAT && t.size == 2)         \
            for (size_t i = 0; i < n; i++, p += stride) { \
                uint16_t v;                               \
                memcpy(&v, p, sizeof v);                  \
                dst[i] = (real)tg_half_to_double(v);      \
            }                                             \
        else if (t.kind == TG_DT_FLOAT && t.size == 4)    \
            LOAD(real, float);                            \
        else if (t.kind == TG_DT_FLOAT)                   \
            LOAD(real, double);                           \
        else if (t.size == 1 && is_signed)                \
            LOAD(real, int8_t);                           \
        else if (t.size == 1)                             \
            LOAD(real, uint8_t);                          \
        else if (t.size == 2 && is_signed)                \
            LOAD(real, int16_t);                          \
        else if (t.size == 2)                             \
            LOAD(real, uint16_t);                         \
        else if (t.size == 4 && is_signed)                \
            LOAD(real, int32_t);                          \
        else if (t.size == 4)                             \
            LOAD(real, uint32_t);                         \
        else if (is_signed)                               \
            LOAD(real, int64_t);                          \
        else                                              \
            LOAD(real, uint64_t);                         \
    } while (0)

TG_INLINE void load_doubles(double *dst, tg_dtype t, const char *p, int64_t stride, size_t n)
{
    LOAD_ALL(double);
}

TG_DEFINE_WIDER(load, load_doubles,
                (double *dst, tg_dtype t, const char *p, int64_t stride, size_t n),
                (dst, t, p, stride, n))

void tg_items_load(double *dst, tg_dtype t, const void *src, int64_t stride, size_t n)
{
    load(dst, t, src, stride, n);
}

void tg_items_load_wide(long double *dst, tg_dtype t, const void *src, int64_t stride, size_t n)
{
    const char *p = src;
    LOAD_ALL(long double);
}

/* Up to 32 bits: adding 1.5 * 2^52 rounds half to even and leaves the integer in the last bits,
 * without a call. */
#define ROUNDER 6755399441055744.0

/* Of this thread, since it was last set to 0. */
static _Thread_local uint64_t saturated;

uint64_t *tg_items_saturated(void)
{
    return &saturated;
}

#define CLAMPED 64

/* What does not fit even when it is rounded: the greatest is odd, so half above it rounds away
 * from it; the least is even, and half below rounds to it. Mostly all fit, and need no more. */
#define STORE_INT(T, least, greatest)                                       \
    do {                                                                    \
        uint64_t fit = 0;                                                   \
        for (size_t i = 0; i < n; i++)                                      \
            fit += (uint64_t)((src[i] >= (double)(least)-0.5) &             \
                              (src[i] < (double)(greatest) + 0.5));         \
        saturated += n - fit;                                               \
        for (size_t i = 0; i < n && fit == n; i++)                          \
            STORE_ROUNDED(T, src[i], i);                                    \
        for (size_t at = 0; at < n && fit < n; at += CLAMPED) {             \
            const size_t m = n - at < CLAMPED ? n - at : CLAMPED;           \
            double block[CLAMPED]; /* nothing else points to it */          \
            for (size_t i = 0; i < m; i++) {                                \
                double v = src[at + i] == src[at + i] ? src[at + i] : 0;    \
                v = v > (double)(least) ? v : (double)(least);              \
                block[i] = v < (double)(greatest) ? v : (double)(greatest); \
            }                                                               \
            for (size_t i = 0; i < m; i++)                                  \
                STORE_ROUNDED(T, block[i], at + i);                         \
        }                                                                   \
    } while (0)

#define STORE_ROUNDED(T, value, place)                           \
    do {                                                         \
        const double rounded = (value) + ROUNDER;                \
        uint64_t bits;                                           \
        memcpy(&bits, &rounded, sizeof bits);                    \
        const T item = (T)bits;                                  \
        memcpy(p + (int64_t)(place)*stride, &item, sizeof item); \
    } while (0)

#define STORE_NARROW(T, least, greatest)                                 \
    do {                                                                 \
        if (stride == (int64_t)sizeof(T)) {                              \
            stride = sizeof(T); /* known to the compiler in this copy */ \
            STORE_INT(T, least, greatest);                               \
        } else {                                                         \
            STORE_INT(T, least, greatest);                               \
        }                                                                \
    } while (0)

static void store_i64(char *p, int64_t stride, const long double *src, size_t n)
{
    for (size_t i = 0; i < n; i++, p += stride) {
        long double v = rintl(src[i]);
        saturated += !(v < 9223372036854775808.0L && v >= -9223372036854775808.0L);
        int64_t item = isnan(v)                       ? 0
                       : v >= 9223372036854775808.0L  ? INT64_MAX
                       : v <= -9223372036854775808.0L ? INT64_MIN
                                                      : (int64_t)v;
        memcpy(p, &item, sizeof item);
    }
}

static void store_u64(char *p, int64_t stride, const long double *src, size_t n)
{
    for (size_t i = 0; i < n; i++, p += stride) {
        long double v = rintl(src[i]);
        saturated += !(v < 18446744073709551616.0L && v >= 0);
        uint64_t item = isnan(v) || v <= 0             ? 0
                        : v >= 18446744073709551616.0L ? UINT64_MAX
                                                       : (uint64_t)v;
        memcpy(p, &item, sizeof item);
    }
}

#define WIDE_BLOCK 128

static void store_wide_from_double(tg_dtype t, char *p, int64_t stride, const double *src,
                                   size_t n)
{
    long double block[WIDE_BLOCK];
    for (size_t at = 0; at < n; at += WIDE_BLOCK) {
        size_t m = n - at < WIDE_BLOCK ? n - at : WIDE_BLOCK;
        for (size_t i = 0; i < m; i++)
            block[i] = src[at + i];
        tg_items_store_wide(t, p + (int64_t)at * stride, stride, block, m);
    }
}

TG_INLINE void store_floats(char *p, int64_t stride, const double *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = (float)src[i];
        memcpy(p + (int64_t)i * stride, &v, sizeof v);
    }
}

TG_INLINE void store_float(tg_dtype t, char *p, int64_t stride, const double *src, size_t n)
{
    if (t.size == 4 && stride == (int64_t)sizeof(float))
        store_floats(p, sizeof(float), src, n);
    else if (t.size == 4)
        store_floats(p, stride, src, n);
    else
        for (size_t i = 0; i < n; i++, p += stride) {
            uint16_t v = t.size == 2 ? tg_half_from_double(src[i]) : 0;
            memcpy(p, t.size == 2 ? (const void *)&v : &src[i], t.size);
        }
}

/* Not a 64-bit integer. */
TG_INLINE void store_doubles(tg_dtype t, char *p, int64_t stride, const double *src, size_t n)
{
    if (t.kind == TG_DT_FLOAT)
        store_float(t, p, stride, src, n);
    else if (t.kind == TG_DT_BOOL)
        for (size_t i = 0; i < n; i++)
            p[(int64_t)i * stride] = src[i] != 0;
    else if (t.kind == TG_DT_INT && t.size == 1)
        STORE_NARROW(int8_t, INT8_MIN, INT8_MAX);
    else if (t.kind == TG_DT_INT && t.size == 2)
        STORE_NARROW(int16_t, INT16_MIN, INT16_MAX);
    else if (t.kind == TG_DT_INT)
        STORE_NARROW(int32_t, INT32_MIN, INT32_MAX);
    else if (t.size == 1)
        STORE_NARROW(uint8_t, 0, UINT8_MAX);
    else if (t.size == 2)
        STORE_NARROW(uint16_t, 0, UINT16_MAX);
    else
        STORE_NARROW(uint32_t, 0, UINT32_MAX);
}

TG_DEFINE_WIDER(store, store_doubles,
                (tg_dtype t, char *p, int64_t stride, const double *src, size_t n),
                (t, p, stride, src, n))

void tg_items_store(tg_dtype t, void *dst, int64_t stride, const double *src, size_t n)
{
    if (tg_items_wide(t))
        store_wide_from_double(t, dst, stride, src, n);
    else
        store(t, dst, stride, src, n);
}

void tg_items_store_wide(tg_dtype t, void *dst, int64_t stride, const long double *src,
                         size_t n)
{
    double block[WIDE_BLOCK];
    if (t.kind == TG_DT_INT && t.size == 8) {
        store_i64(dst, stride, src, n);
        return;
    }
    if (t.kind == TG_DT_UINT && t.size == 8) {
        store_u64(dst, stride, src, n);
        return;
    }
    for (size_t at = 0; at < n; at += WIDE_BLOCK) {
        size_t m = n - at < WIDE_BLOCK ? n - at : WIDE_BLOCK;
        for (size_t i = 0; i < m; i++)
            block[i] = (double)src[at + i];
        tg_items_store(t, (char *)dst + (int64_t)at * stride, stride, block, m);
    }
}

static void copy_items(size_t size, char *dst, int64_t dst_stride, const char *src,
                       int64_t src_stride, size_t n)
{
    tg_shape s = {1, {n}};
    tg_nd_copy(dst, &dst_stride, src, &src_stride, &s, size);
}

void tg_items_cast(tg_dtype to, void *dst, int64_t dst_stride, tg_dtype from, const void *src,
                   int64_t src_stride, size_t n)
{
    union {
        double narrow[WIDE_BLOCK];
        long double wide[WIDE_BLOCK];
    } block;

    if (to.kind == from.kind && to.size == from.size) {
        copy_items(to.size, dst, dst_stride, src, src_stride, n);
        return;
    }
    for (size_t at = 0; at < n; at += WIDE_BLOCK) {
        size_t m = n - at < WIDE_BLOCK ? n - at : WIDE_BLOCK;
        const char *s = (const char *)src + (int64_t)at * src_stride;
        char *d = (char *)dst + (int64_t)at * dst_stride;
        if (tg_items_wide(from) && tg_items_wide(to)) {
            tg_items_load_wide(block.wide, from, s, src_stride, m);
            tg_items_store_wide(to, d, dst_stride, block.wide, m);
        } else { /* to a narrower integer: what a double rounds is far outside its range */
            tg_items_load(block.narrow, from, s, src_stride, m);
            tg_items_store(to, d, dst_stride, block.narrow, m);
        }
    }
}

void tg_items_range(tg_dtype t, double *least, double *greatest)
{
    int bits = (int)t.size * 8;
    bool is_signed = t.kind == TG_DT_INT;
    *least = is_signed ? -ldexp(1, bits - 1) : 0;
    *greatest = t.kind == TG_DT_BOOL ? 1 : ldexp(1, is_signed ? bits - 1 : bits) - 1;
}

void tg_rows_of(tg_rows *r, uint32_t ndim, const uint64_t *shape)
{
    r->ndim = ndim > 0 ? ndim - 1 : 0;
    r->length = ndim > 0 ? (size_t)shape[ndim - 1] : 1;
    r->any = r->length > 0;
    for (uint32_t d = 0; d < r->ndim; d++) {
        r->index[d] = 0;
        r->n[d] = shape[d];
        r->any = r->any && shape[d] > 0;
    }
}

bool tg_rows_next(tg_rows *r)
{
    for (uint32_t d = r->ndim; d-- > 0;) {
        if (++r->index[d] < r->n[d])
            return true;
        r->index[d] = 0;
    }
    return false;
}

char *tg_rows_at(const tg_rows *r, const tg_region_view *v, const uint64_t *offset)
{
    int64_t at = 0;
    for (uint32_t d = 0; d < r->ndim; d++)
        at += (int64_t)(r->index[d] + (offset != NULL ? offset[d] : 0)) * v->strides[d];
    if (v->ndim > 0 && offset != NULL)
        at += (int64_t)offset[v->ndim - 1] * v->strides[v->ndim - 1];
    return (char *)v->data + at;
}

int64_t tg_view_step(const tg_region_view *v)
{
    return v->ndim > 0 ? v->strides[v->ndim - 1] : (int64_t)v->dtype.size;
}

void tg_call_offset(const tg_region_call *c, uint64_t *offset)
{
    for (uint32_t d = 0; d < c->in.ndim; d++)
        offset[d] =
            c->out.ndim == c->in.ndim && c->out.shape[d] == c->in.shape[d] ? 0 : c->before[d];
}

static uint64_t mirrored(int64_t x, uint64_t n)
{
    int64_t period = 2 * (int64_t)n;
    x %= period;
    x = x < 0 ? x + period : x;
    return (uint64_t)(x < (int64_t)n ? x : period - 1 - x);
}

void tg_call_reflect(const tg_region_call *c, const uint64_t *below, const tg_shape *block,
                     uint64_t *table, uint64_t *from[TG_MAX_NDIM])
{
    uint64_t offset[TG_MAX_NDIM], *at = table;

    tg_call_offset(c, offset);
    for (uint32_t d = 0; d < TG_MAX_NDIM; d++)
        from[d] = at;
    for (uint32_t d = 0; d < block->ndim; d++) {
        from[d] = at;
        for (uint64_t i = 0; i < block->n[d]; i++)
            *at++ = mirrored((int64_t)(offset[d] + i) - (int64_t)below[d], c->in.shape[d]);
    }
}

uint64_t tg_view_items(const tg_region_view *v)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < v->ndim; d++)
        n *= v->shape[d];
    return n;
}
