/* Operations whose result at an item depends on that item alone (and paste, which only moves
 * items): copy, cast, rescale, clip, add, mul, threshold, fill, paste. */
#include "region/op.h"

#include <math.h>
#include <string.h>

/* --- copy, cast --- */

static tg_status setup_copy(tg_op *op, tg_op_text *t, const tg_function_env *env, tg_error *err)
{
    (void)op, (void)t, (void)env, (void)err;
    return TG_OK;
}

static tg_status setup_cast(tg_op *op, tg_op_text *t, const tg_function_env *env, tg_error *err)
{
    tg_dtype none = {TG_DT_NONE, 0};
    (void)env;
    TG_TRY(tg_op_need_numbers(op, err));
    op->f.facts.out_dtype = none;
    TG_TRY(tg_op_dtype(op, t, err));
    if (op->f.facts.out_dtype.kind == TG_DT_NONE)
        return tg_fail(err, TG_INVALID, "operation 'cast' wants dtype=NAME");
    return TG_OK;
}

static bool same_dtype(tg_dtype a, tg_dtype b)
{
    return a.kind == b.kind && a.size == b.size;
}

static tg_status call_cast(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                           tg_error *err)
{
    uint64_t offset[TG_MAX_NDIM];
    tg_rows r;
    tg_call_offset(c, offset);
    tg_rows_of(&r, c->out.ndim, c->out.shape);
    if (!r.any)
        return TG_OK;
    if (same_dtype(c->in.dtype, c->out.dtype)) {
        tg_shape s = {c->out.ndim, {0}};
        memcpy(s.n, c->out.shape, sizeof s.n);
        tg_nd_copy(c->out.data, c->out.strides, tg_rows_at(&r, &c->in, offset), c->in.strides,
                   &s, c->in.dtype.size);
        return TG_OK;
    }
    TG_TRY(tg_op_need_numbers(op, err));
    do {
        tg_items_cast(c->out.dtype, tg_rows_at(&r, &c->out, NULL), tg_view_step(&c->out),
                      c->in.dtype, tg_rows_at(&r, &c->in, offset), tg_view_step(&c->in),
                      r.length);
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

/* --- arithmetic, in double; 64-bit integers in long double --- */

#define DEFINE_APPLY(name, real)                                  \
    static void name##_add(const tg_op *op, real *v, size_t n)    \
    {                                                             \
        for (size_t i = 0; i < n; i++)                            \
            v[i] += (real)op->value;                              \
    }                                                             \
    static void name##_mul(const tg_op *op, real *v, size_t n)    \
    {                                                             \
        for (size_t i = 0; i < n; i++)                            \
            v[i] *= (real)op->value;                              \
    }                                                             \
    static void name##_clip(const tg_op *op, real *v, size_t n)   \
    {                                                             \
        for (size_t i = 0; i < n; i++) {                          \
            v[i] = v[i] < (real)op->low ? (real)op->low : v[i];   \
            v[i] = v[i] > (real)op->high ? (real)op->high : v[i]; \
        }                                                         \
    }
DEFINE_APPLY(narrow, double)
DEFINE_APPLY(wide, long double)

typedef void (*narrow_fn)(const tg_op *op, double *v, size_t n);
typedef void (*wide_fn)(const tg_op *op, long double *v, size_t n);

static void apply_row(const tg_op *op, const tg_region_call *c, const char *src, char *dst,
                      size_t n, narrow_fn narrow, wide_fn wide)
{
    int64_t from = tg_view_step(&c->in), to = tg_view_step(&c->out);
    union {
        double narrow[TG_OP_BLOCK];
        long double wide[TG_OP_BLOCK];
    } block;
    for (size_t at = 0; at < n; at += TG_OP_BLOCK) {
        size_t m = n - at < TG_OP_BLOCK ? n - at : TG_OP_BLOCK;
        const char *s = src + (int64_t)at * from;
        char *d = dst + (int64_t)at * to;
        if (tg_items_wide(c->in.dtype)) {
            tg_items_load_wide(block.wide, c->in.dtype, s, from, m);
            wide(op, block.wide, m);
            tg_items_store_wide(c->out.dtype, d, to, block.wide, m);
        } else {
            tg_items_load(block.narrow, c->in.dtype, s, from, m);
            narrow(op, block.narrow, m);
            tg_items_store(c->out.dtype, d, to, block.narrow, m);
        }
    }
}

#define JOINED ((size_t)1 << 20)

/* Of dense blocks: the innermost dimensions become one. */
static void join_rows(tg_rows *r)
{
    while (r->ndim > 0 && r->any && r->length * r->n[r->ndim - 1] <= JOINED)
        r->length *= (size_t)r->n[--r->ndim];
}

/* Whole numbers of up to 16 bits that lie side by side, and a whole value: as exact in 32 bits,
 * and several at once. */
#define DEFINE_SMALL_ADD(T, tag, least, greatest)                                  \
    static uint32_t add_##tag(const char *src, char *dst, size_t n, int32_t value) \
    {                                                                              \
        uint32_t over = 0;                                                         \
        for (size_t i = 0; i < n; i++) {                                           \
            T x;                                                                   \
            memcpy(&x, src + i * sizeof x, sizeof x);                              \
            const int32_t sum = x + value;                                         \
            int32_t y = sum < (least) ? (least) : sum;                             \
            y = y > (greatest) ? (greatest) : y;                                   \
            over += y != sum;                                                      \
            x = (T)y;                                                              \
            memcpy(dst + i * sizeof x, &x, sizeof x);                              \
        }                                                                          \
        return over;                                                               \
    }
DEFINE_SMALL_ADD(uint8_t, u8, 0, UINT8_MAX)
DEFINE_SMALL_ADD(uint16_t, u16, 0, UINT16_MAX)
DEFINE_SMALL_ADD(int8_t, i8, INT8_MIN, INT8_MAX)
DEFINE_SMALL_ADD(int16_t, i16, INT16_MIN, INT16_MAX)

static bool add_fast(const tg_op *op, const tg_region_call *c, const char *src, char *dst,
                     size_t n)
{
    static uint32_t (*const of[2][2])(const char *, char *, size_t,
                                      int32_t) = {{add_u8, add_u16}, {add_i8, add_i16}};
    const tg_dtype t = c->in.dtype;
    if (!same_dtype(t, c->out.dtype) || t.size > 2 ||
        (t.kind != TG_DT_UINT && t.kind != TG_DT_INT) ||
        tg_view_step(&c->in) != (int64_t)t.size || tg_view_step(&c->out) != (int64_t)t.size ||
        n > UINT32_MAX || !(fabs(op->value) <= 1 << 20) || op->value != floor(op->value))
        return false;
    *tg_items_saturated() +=
        of[t.kind == TG_DT_INT][t.size - 1](src, dst, n, (int32_t)op->value);
    return true;
}

/* Rows of both sides; rows that follow each other without a gap on both are one, as far as the
 * cancel token is to be looked at now and then. */
static void rows_of(tg_rows *r, const tg_region_call *c, uint64_t *offset)
{
    int64_t in = (int64_t)c->in.dtype.size, out = (int64_t)c->out.dtype.size;
    bool dense = c->in.ndim == c->out.ndim;

    tg_call_offset(c, offset);
    tg_rows_of(r, c->out.ndim, c->out.shape);
    for (uint32_t d = c->out.ndim; dense && d-- > 0;) {
        dense = c->in.shape[d] == c->out.shape[d] && c->in.strides[d] == in &&
                c->out.strides[d] == out;
        in *= (int64_t)c->in.shape[d];
        out *= (int64_t)c->out.shape[d];
    }
    if (dense)
        join_rows(r);
}

static tg_status apply_rows(const tg_op *op, const tg_region_call *c, narrow_fn narrow,
                            wide_fn wide, const tg_cancel *cancel, tg_error *err)
{
    uint64_t offset[TG_MAX_NDIM];
    tg_rows r;
    rows_of(&r, c, offset);
    if (!r.any)
        return TG_OK;
    do {
        const char *src = tg_rows_at(&r, &c->in, offset);
        char *dst = tg_rows_at(&r, &c->out, NULL);
        if (narrow != narrow_add || !add_fast(op, c, src, dst, r.length))
            apply_row(op, c, src, dst, r.length, narrow, wide);
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

static tg_status setup_value(tg_op *op, tg_op_text *t, const tg_function_env *env,
                             tg_error *err)
{
    bool given = false;
    (void)env;
    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(tg_op_number(t, "value", &op->value, &given, err));
    if (!given)
        return tg_fail(err, TG_INVALID, "operation '%s' wants value=NUMBER", op->kind->name);
    return tg_op_dtype(op, t, err);
}

static tg_status call_add(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                          tg_error *err)
{
    return apply_rows(op, c, narrow_add, wide_add, cancel, err);
}

static tg_status call_mul(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                          tg_error *err)
{
    return apply_rows(op, c, narrow_mul, wide_mul, cancel, err);
}

static tg_status setup_clip(tg_op *op, tg_op_text *t, const tg_function_env *env, tg_error *err)
{
    bool low = false, high = false;
    (void)env;
    TG_TRY(tg_op_need_numbers(op, err));
    op->low = -INFINITY;
    op->high = INFINITY;
    TG_TRY(tg_op_number(t, "min", &op->low, &low, err));
    TG_TRY(tg_op_number(t, "max", &op->high, &high, err));
    if (!low && !high)
        return tg_fail(err, TG_INVALID,
                       "operation 'clip' wants min=NUMBER, max=NUMBER or both");
    if (op->low > op->high)
        return tg_fail(err, TG_INVALID, "operation 'clip': min %g is above max %g", op->low,
                       op->high);
    return tg_op_dtype(op, t, err);
}

static tg_status call_clip(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                           tg_error *err)
{
    return apply_rows(op, c, narrow_clip, wide_clip, cancel, err);
}

/* --- rescale: skimage.exposure.rescale_intensity --- */

static tg_status setup_rescale(tg_op *op, tg_op_text *t, const tg_function_env *env,
                               tg_error *err)
{
    (void)env;
    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(tg_op_pair(t, "in_range", op->from, &op->from_given, err));
    TG_TRY(tg_op_pair(t, "out_range", op->to, &op->to_given, err));
    return tg_op_dtype(op, t, err);
}

static void rescale_row(const tg_op *op, double *v, size_t n)
{
    double span = op->from[1] - op->from[0];
    for (size_t i = 0; i < n; i++) {
        double x = v[i] < op->from[0] ? op->from[0] : v[i];
        x = x > op->from[1] ? op->from[1] : x;
        x = span > 0 ? (x - op->from[0]) / span : 0;
        v[i] = x * (op->to[1] - op->to[0]) + op->to[0];
    }
}

static void rescale_row_wide(const tg_op *op, long double *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x = (double)v[i];
        rescale_row(op, &x, 1);
        v[i] = x;
    }
}

/* The least and the greatest value of the region itself, its halo left out. */
static void find_range(const tg_region_call *c, double range[2])
{
    tg_rows r;
    double v[TG_OP_BLOCK];
    tg_rows_of(&r, c->in.ndim, c->region);
    range[0] = INFINITY;
    range[1] = -INFINITY;
    if (!r.any)
        return;
    do {
        const char *row = tg_rows_at(&r, &c->in, c->before);
        for (size_t at = 0; at < r.length; at += TG_OP_BLOCK) {
            size_t m = r.length - at < TG_OP_BLOCK ? r.length - at : TG_OP_BLOCK;
            tg_items_load(v, c->in.dtype, row + (int64_t)at * tg_view_step(&c->in),
                          tg_view_step(&c->in), m);
            for (size_t i = 0; i < m; i++) {
                range[0] = v[i] < range[0] ? v[i] : range[0];
                range[1] = v[i] > range[1] ? v[i] : range[1];
            }
        }
    } while (tg_rows_next(&r));
}

static tg_status call_rescale(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                              tg_error *err)
{
    tg_op mine = *op; /* the ranges of this region */
    if (!op->from_given)
        find_range(c, mine.from);
    if (!op->to_given && c->out.dtype.kind == TG_DT_FLOAT) {
        mine.to[0] = mine.from[0] < 0 ? -1 : 0;
        mine.to[1] = 1;
    } else if (!op->to_given) {
        tg_items_range(c->out.dtype, &mine.to[0], &mine.to[1]);
        if (mine.from[0] >= 0)
            mine.to[0] = 0;
    }
    return apply_rows(&mine, c, rescale_row, rescale_row_wide, cancel, err);
}

/* --- threshold: image > value --- */

static tg_status setup_threshold(tg_op *op, tg_op_text *t, const tg_function_env *env,
                                 tg_error *err)
{
    op->f.facts.out_dtype = (tg_dtype){TG_DT_UINT, 1};
    op->high = 1;
    TG_TRY(tg_op_number(t, "above", &op->high, NULL, err));
    return setup_value(op, t, env, err);
}

static void narrow_threshold(const tg_op *op, double *v, size_t n)
{
    const double value = op->value, high = op->high; /* v may point into op, for all it knows */
    for (size_t i = 0; i < n; i++)
        v[i] = v[i] > value ? high : 0;
}

static void wide_threshold(const tg_op *op, long double *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = v[i] > op->value ? op->high : 0;
}

/* Items side by side, to bytes: at the speed of memory. For whole numbers v > value is
 * v > floor(value). */
static void threshold_u16(const uint16_t *src, uint8_t *dst, size_t n, uint16_t above,
                          uint8_t one)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = src[i] > above ? one : 0;
}

static void threshold_u8(const uint8_t *src, uint8_t *dst, size_t n, uint8_t above, uint8_t one)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = src[i] > above ? one : 0;
}

static bool threshold_fast(const tg_op *op, const tg_region_call *c, const char *src, char *dst,
                           size_t n)
{
    double most = c->in.dtype.size == 1 ? UINT8_MAX : UINT16_MAX;
    bool fits = op->value >= 0 && op->value <= most && op->high >= 0 && op->high <= UINT8_MAX &&
                op->high == floor(op->high);
    if (!fits || c->in.dtype.kind != TG_DT_UINT || c->in.dtype.size > 2 ||
        c->out.dtype.size != 1 || c->out.dtype.kind != TG_DT_UINT ||
        tg_view_step(&c->in) != (int64_t)c->in.dtype.size || tg_view_step(&c->out) != 1)
        return false;
    if (c->in.dtype.size == 1)
        threshold_u8((const uint8_t *)src, (uint8_t *)dst, n, (uint8_t)op->value,
                     (uint8_t)op->high);
    else if ((uintptr_t)src % sizeof(uint16_t) == 0)
        threshold_u16((const uint16_t *)(const void *)src, (uint8_t *)dst, n,
                      (uint16_t)op->value, (uint8_t)op->high);
    else
        return false;
    return true;
}

static tg_status call_threshold(const tg_op *op, const tg_region_call *c,
                                const tg_cancel *cancel, tg_error *err)
{
    uint64_t offset[TG_MAX_NDIM];
    tg_rows r;
    rows_of(&r, c, offset);
    if (!r.any)
        return TG_OK;
    do {
        const char *src = tg_rows_at(&r, &c->in, offset);
        char *dst = tg_rows_at(&r, &c->out, NULL);
        if (!threshold_fast(op, c, src, dst, r.length))
            apply_row(op, c, src, dst, r.length, narrow_threshold, wide_threshold);
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

/* --- fill, for op_mask.c and paste --- */

void tg_op_fill(const tg_op *op, const tg_region_call *c)
{
    tg_shape s = {c->out.ndim, {0}};
    unsigned char item[16] = {0};
    memcpy(s.n, c->out.shape, sizeof s.n);
    tg_items_store(c->out.dtype, item, 0, &op->value, 1);
    tg_nd_fill(c->out.data, c->out.strides, &s, c->out.dtype.size, item);
}

tg_status tg_op_cast(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                     tg_error *err)
{
    return call_cast(op, c, cancel, err);
}

/* --- paste: scipy.ndimage.shift by whole items, order 0, mode constant --- */

static tg_status setup_paste(tg_op *op, tg_op_text *t, const tg_function_env *env,
                             tg_error *err)
{
    double shift[TG_MAX_NDIM] = {0};
    bool given = false;
    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(tg_op_axes(op, t, env, err));
    TG_TRY(tg_op_per_axis(op, t, "shift", shift, &given, err));
    if (!given)
        return tg_fail(err, TG_INVALID, "operation 'paste' wants shift=N,..., one a dimension");
    for (uint32_t d = 0; d < op->in_shape.ndim; d++) {
        if (fabs(shift[d]) > 1e15 || shift[d] != floor(shift[d]))
            return tg_fail(err, TG_INVALID,
                           "operation 'paste': parameter 'shift' got %g, want whole items",
                           shift[d]);
        op->shift[d] = (int64_t)shift[d];
        op->f.facts.halo[d] = (uint64_t)fabs(shift[d]);
    }
    TG_TRY(tg_op_number(t, "cval", &op->value, NULL, err));
    return tg_op_dtype(op, t, err);
}

/* The part of out whose source lies inside in: from *start on, *n items. */
static void overlap(uint64_t out_n, uint64_t in_n, int64_t at, uint64_t *start, uint64_t *n)
{
    int64_t first = at < 0 ? -at : 0;
    int64_t end = (int64_t)in_n - at;
    if (end > (int64_t)out_n)
        end = (int64_t)out_n;
    *start = (uint64_t)first;
    *n = end > first ? (uint64_t)(end - first) : 0;
}

static tg_status call_paste(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                            tg_error *err)
{
    uint64_t offset[TG_MAX_NDIM] = {0};
    tg_region_call part = *c;
    bool empty = false;
    tg_op_fill(op, c);
    tg_call_offset(c, offset);
    for (uint32_t d = 0; d < c->out.ndim; d++) {
        int64_t at = (int64_t)offset[d] - op->shift[d];
        uint64_t start = 0;
        overlap(c->out.shape[d], c->in.shape[d], at, &start, &part.out.shape[d]);
        empty = empty || part.out.shape[d] == 0;
        if (empty)
            return TG_OK;
        part.out.data = (char *)part.out.data + (int64_t)start * c->out.strides[d];
        part.in.data = (char *)part.in.data + (at + (int64_t)start) * c->in.strides[d];
        part.in.shape[d] = part.out.shape[d];
    }
    return call_cast(op, &part, cancel, err);
}

const tg_op_kind tg_ops_pixel[] = {
    {"copy", "", setup_copy, call_cast, NULL},
    {"cast", "dtype", setup_cast, call_cast, NULL},
    {"rescale", "in_range, out_range, dtype", setup_rescale, call_rescale, NULL},
    {"clip", "min, max, dtype", setup_clip, call_clip, NULL},
    {"add", "value, dtype", setup_value, call_add, NULL},
    {"mul", "value, dtype", setup_value, call_mul, NULL},
    {"threshold", "value, above, dtype", setup_threshold, call_threshold, NULL},
    {"paste", "shift, axes, cval, dtype", setup_paste, call_paste, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
