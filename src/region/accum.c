/* The policies, a row at a time. Integers are summed in 64 bits, floats in double and in the
 * order in which they are folded. */
#include "region/accum.h"

#include "nd/half.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* --- What an accumulator is ---------------------------------------------------- */

static tg_status no_meaning(tg_policy policy, tg_dtype dtype, tg_error *err)
{
    char name[16];

    return tg_fail(err, TG_INVALID, "policy '%s' has no meaning for items of %s",
                   tg_policy_name(policy), tg_dtype_name(dtype, name));
}

static bool is_number(tg_dtype t)
{
    return t.kind == TG_DT_BOOL || t.kind == TG_DT_INT || t.kind == TG_DT_UINT ||
           t.kind == TG_DT_FLOAT;
}

static bool has_policy(tg_policy policy, tg_dtype t)
{
    switch (policy) {
    case TG_POLICY_ERROR:
    case TG_POLICY_LAST:
    case TG_POLICY_FIRST:
    case TG_POLICY_MASK:
        return t.kind != TG_DT_STRING && t.kind != TG_DT_NONE;
    case TG_POLICY_OR:
    case TG_POLICY_AND:
        return is_number(t) && t.kind != TG_DT_FLOAT;
    case TG_POLICY_LABELS:
        return t.kind == TG_DT_UINT || t.kind == TG_DT_INT;
    default:
        return is_number(t);
    }
}

static void set_widths(tg_accum *a)
{
    a->value_bytes = a->dtype.size;
    switch (a->policy) {
    case TG_POLICY_MAX:
    case TG_POLICY_MIN:
    case TG_POLICY_OR:
    case TG_POLICY_AND:
        a->note_bytes = 1;
        break;
    case TG_POLICY_SUM:
        a->note_bytes = 1, a->wide = true;
        break;
    case TG_POLICY_MEAN:
        a->note_bytes = sizeof(uint32_t), a->wide = true;
        break;
    case TG_POLICY_BLEND:
        a->note_bytes = sizeof(double), a->wide = true;
        break;
    default:
        a->note_bytes = 0;
        break;
    }
    if (a->wide)
        a->value_bytes = 8;
}

tg_status tg_accum_init(tg_accum *a, tg_policy policy, tg_dtype dtype, const tg_shape *chunk,
                        const uint64_t *halo, tg_error *err)
{
    *a = (tg_accum){.policy = policy, .dtype = dtype, .chunk = *chunk};
    if (!has_policy(policy, dtype))
        return no_meaning(policy, dtype, err);
    set_widths(a);
    TG_TRY(tg_shape_items(chunk, &a->items, err));
    TG_TRY(tg_shape_bytes(chunk, a->value_bytes + a->note_bytes, &a->bytes, err));
    if (halo != NULL)
        memcpy(a->halo, halo, chunk->ndim * sizeof *halo);
    return TG_OK;
}

void tg_accum_clear(const tg_accum *a, uint8_t *acc)
{
    if (a->wide)
        memset(acc, 0, a->bytes);
    else if (a->note_bytes > 0)
        memset(acc + a->items * a->value_bytes, 0, a->items * a->note_bytes);
}

/* --- Rows ---------------------------------------------------------------------- */

/* One row of a patch onto one row of values and notes, n items each, all dense but the patch.
 */
typedef struct row {
    uint8_t *value, *note;
    const uint8_t *src;
    int64_t step; /* of src, in bytes */
    uint64_t n;
    double weight; /* of the outer dimensions, blend */
    const tg_accum *a;
    uint64_t at, width; /* place of src in the patch's last dimension, and its extent */
} row;

static double weight_of(uint64_t at, uint64_t width, uint64_t halo)
{
    uint64_t near = at < width - 1 - at ? at : width - 1 - at;
    return near >= halo ? 1 : (double)(near + 1) / (double)(halo + 1);
}

static double load_half(const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return tg_half_to_double(bits);
}

/* For each type: the item at src as T, values as V. Items side by side have a loop of their
 * own, without a branch in it, of which the compiler makes vectors. */
#define EACH_ITEM(T, ...)                                    \
    do {                                                     \
        const uint8_t *p = r->src;                           \
        const uint64_t n = r->n;                             \
        T x;                                                 \
        if (r->step == (int64_t)sizeof(T))                   \
            for (uint64_t k = 0; k < n; k++) {               \
                memcpy(&x, p + k * sizeof x, sizeof x);      \
                __VA_ARGS__                                  \
            }                                                \
        else                                                 \
            for (uint64_t k = 0; k < n; k++, p += r->step) { \
                memcpy(&x, p, sizeof x);                     \
                __VA_ARGS__                                  \
            }                                                \
    } while (0)

/* `with`: of what was there, `had`, and of x. The first item of all is taken as it is. */
#define JOIN(name, T, with)                    \
    static void name(const row *r)             \
    {                                          \
        T *restrict v = (T *)(void *)r->value; \
        uint8_t *restrict note = r->note;      \
        EACH_ITEM(T, {                         \
            const T had = v[k];                \
            const T joined = (T)(with);        \
            v[k] = note[k] != 0 ? joined : x;  \
            note[k] = 1;                       \
        });                                    \
    }
/* NaN wins, whichever side it is on. */
#define PICKS(T, tag)                               \
    JOIN(max_##tag, T, x > had || x != x ? x : had) \
    JOIN(min_##tag, T, x < had || x != x ? x : had)
#define BITS(T, tag)           \
    JOIN(or_##tag, T, had | x) \
    JOIN(and_##tag, T, had &x)
/* Sums of integers wrap at 64 bits, in two's complement, as unsigned ones. */
#define SUMS(T, V, tag)                            \
    static void sum_##tag(const row *r)            \
    {                                              \
        V *restrict v = (V *)(void *)r->value;     \
        uint8_t *restrict note = r->note;          \
        EACH_ITEM(T, {                             \
            v[k] += (V)x;                          \
            note[k] = 1;                           \
        });                                        \
    }                                              \
    static void mean_##tag(const row *r)           \
    {                                              \
        V *restrict v = (V *)(void *)r->value;     \
        uint32_t *restrict note = (void *)r->note; \
        EACH_ITEM(T, {                             \
            v[k] += (V)x;                          \
            note[k]++;                             \
        });                                        \
    }
#define BLENDS(T, tag)                                                   \
    static void blend_##tag(const row *r)                                \
    {                                                                    \
        const uint64_t halo = r->a->halo[r->a->chunk.ndim - 1];          \
        double *restrict v = (double *)(void *)r->value;                 \
        double *restrict note = (double *)(void *)r->note;               \
        EACH_ITEM(T, {                                                   \
            double w = r->weight * weight_of(r->at + k, r->width, halo); \
            v[k] += w * (double)x;                                       \
            note[k] += w;                                                \
        });                                                              \
    }

#define INTEGER(T, V, tag) PICKS(T, tag) BITS(T, tag) SUMS(T, V, tag) BLENDS(T, tag)
#define FLOATING(T, tag)   PICKS(T, tag) SUMS(T, double, tag) BLENDS(T, tag)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wfloat-equal"
INTEGER(uint8_t, uint64_t, u8)
INTEGER(uint16_t, uint64_t, u16)
INTEGER(uint32_t, uint64_t, u32)
INTEGER(uint64_t, uint64_t, u64)
INTEGER(int8_t, uint64_t, i8)
INTEGER(int16_t, uint64_t, i16)
INTEGER(int32_t, uint64_t, i32)
INTEGER(int64_t, uint64_t, i64)
FLOATING(float, f32)
FLOATING(double, f64)
#pragma GCC diagnostic pop

/* float16 has no type of its own here: its rows go one by one. */
static void pick_half(const row *r, bool max)
{
    const uint8_t *p = r->src;

    for (uint64_t k = 0; k < r->n; k++, p += r->step) {
        double x = load_half(p), v = load_half(r->value + 2 * k);
        if (!r->note[k] || isnan(x) || (max ? x > v : x < v))
            memcpy(r->value + 2 * k, p, 2);
        r->note[k] = 1;
    }
}
static void max_f16(const row *r)
{
    pick_half(r, true);
}
static void min_f16(const row *r)
{
    pick_half(r, false);
}
static void sum_f16(const row *r)
{
    const uint8_t *p = r->src;

    for (uint64_t k = 0; k < r->n; k++, p += r->step) {
        ((double *)(void *)r->value)[k] += load_half(p);
        r->note[k] = 1;
    }
}
static void mean_f16(const row *r)
{
    const uint8_t *p = r->src;

    for (uint64_t k = 0; k < r->n; k++, p += r->step) {
        ((double *)(void *)r->value)[k] += load_half(p);
        ((uint32_t *)(void *)r->note)[k]++;
    }
}
static void blend_f16(const row *r)
{
    const uint64_t halo = r->a->halo[r->a->chunk.ndim - 1];
    const uint8_t *p = r->src;

    for (uint64_t k = 0; k < r->n; k++, p += r->step) {
        double w = r->weight * weight_of(r->at + k, r->width, halo);
        ((double *)(void *)r->value)[k] += w * load_half(p);
        ((double *)(void *)r->note)[k] += w;
    }
}

/* Not zero: any bit is set, of a float but the sign. */
#define NONZERO(T, tag)                                            \
    static void nonzero_##tag(const row *r)                        \
    {                                                              \
        T *restrict v = (T *)(void *)r->value;                     \
        const bool is_float = r->a->dtype.kind == TG_DT_FLOAT;     \
        const T mask = is_float ? (T)((T) ~(T)0 >> 1) : (T) ~(T)0; \
        EACH_ITEM(T, { v[k] = (x & mask) != 0 ? x : v[k]; });      \
    }
NONZERO(uint8_t, 1)
NONZERO(uint16_t, 2)
NONZERO(uint32_t, 4)
NONZERO(uint64_t, 8)

typedef void (*row_fn)(const row *r);

static row_fn fold_of(const tg_accum *a)
{
#define FIVE(tag)                                                                     \
    {                                                                                 \
        max_##tag, min_##tag, or_##tag, and_##tag, sum_##tag, mean_##tag, blend_##tag \
    }
#define FLOATS(tag)                                                          \
    {                                                                        \
        max_##tag, min_##tag, NULL, NULL, sum_##tag, mean_##tag, blend_##tag \
    }
    static const row_fn nonzero[4] = {nonzero_1, nonzero_2, nonzero_4, nonzero_8};
    static const row_fn unsigned_rows[4][7] = {FIVE(u8), FIVE(u16), FIVE(u32), FIVE(u64)};
    static const row_fn signed_rows[4][7] = {FIVE(i8), FIVE(i16), FIVE(i32), FIVE(i64)};
    static const row_fn float_rows[4][7] = {{NULL}, FLOATS(f16), FLOATS(f32), FLOATS(f64)};
#undef FIVE
#undef FLOATS
    const row_fn(*rows)[7] = a->dtype.kind == TG_DT_INT     ? signed_rows
                             : a->dtype.kind == TG_DT_FLOAT ? float_rows
                                                            : unsigned_rows;
    const int width = a->dtype.size == 1   ? 0
                      : a->dtype.size == 2 ? 1
                      : a->dtype.size == 4 ? 2
                                           : 3;

    if (a->policy == TG_POLICY_NONZERO)
        return nonzero[width];
    return rows[width][a->policy - TG_POLICY_MAX];
}

/* --- Folding ------------------------------------------------------------------- */

static bool is_copy(tg_policy p)
{
    return p == TG_POLICY_ERROR || p == TG_POLICY_LAST || p == TG_POLICY_FIRST;
}

static void copy_kept(const tg_accum *a, uint8_t *value, const tg_patch *patch,
                      const uint8_t *src, const uint64_t *index, uint64_t n)
{
    const uint32_t last = a->chunk.ndim - 1;
    const uint8_t *keep = patch->keep;

    for (uint32_t d = 0; d <= last; d++)
        keep += (int64_t)(index[d] - patch->box.start[d]) * patch->keep_strides[d];
    for (uint64_t k = 0; k < n; k++)
        if (keep[(int64_t)k * patch->keep_strides[last]])
            memcpy(value + k * a->dtype.size, src + (int64_t)k * patch->strides[last],
                   a->dtype.size);
}

/* The bytes of an item in the patch and its place in the chunk. */
static void locate(const tg_accum *a, const tg_box *chunk, const tg_patch *patch,
                   const uint64_t *index, const uint8_t **src, uint64_t *place)
{
    *src = patch->data;
    *place = 0;
    for (uint32_t d = 0; d < a->chunk.ndim; d++) {
        *src += (int64_t)(index[d] - patch->box.start[d]) * patch->strides[d];
        *place = *place * a->chunk.n[d] + (index[d] - chunk->start[d]);
    }
}

static void fold_copy(const tg_accum *a, uint8_t *acc, const tg_box *chunk,
                      const tg_patch *patch, const tg_box *part)
{
    int64_t to[TG_MAX_NDIM];
    const uint8_t *src;
    uint64_t place;

    locate(a, chunk, patch, part->start, &src, &place);
    tg_strides_c(&a->chunk, a->dtype.size, to);
    tg_nd_copy(acc + place * a->dtype.size, to, src, patch->strides, &part->shape,
               a->dtype.size);
}

static double outer_weight(const tg_accum *a, const tg_patch *patch, const uint64_t *index)
{
    double w = 1;

    for (uint32_t d = 0; d + 1 < a->chunk.ndim; d++)
        w *= weight_of(index[d] - patch->box.start[d], patch->box.shape.n[d], a->halo[d]);
    return w;
}

/* Rows one below the other; r is the first of them, at index. */
static void fold_sheet(const tg_accum *a, const tg_patch *patch, const tg_box *part,
                       uint64_t *index, row r)
{
    const uint32_t ndim = a->chunk.ndim;
    const row_fn fold = a->policy == TG_POLICY_MASK ? NULL : fold_of(a);
    const uint64_t n = ndim < 2 ? 1 : part->shape.n[ndim - 2];
    const uint64_t width = ndim < 2 ? 0 : a->chunk.n[ndim - 1];
    const int64_t down = ndim < 2 ? 0 : patch->strides[ndim - 2];

    for (uint64_t y = 0; y < n; y++) {
        if (a->policy == TG_POLICY_BLEND)
            r.weight = outer_weight(a, patch, index);
        if (fold == NULL)
            copy_kept(a, r.value, patch, r.src, index, r.n);
        else
            fold(&r);
        r.src += down;
        r.value += width * a->value_bytes;
        r.note += width * a->note_bytes;
        if (ndim >= 2)
            index[ndim - 2]++;
    }
    if (ndim >= 2)
        index[ndim - 2] -= n;
}

void tg_accum_fold(const tg_accum *a, uint8_t *acc, const tg_box *chunk, const tg_patch *patch,
                   const tg_box *part)
{
    if (is_copy(a->policy)) {
        fold_copy(a, acc, chunk, patch, part);
        return;
    }
    const uint32_t last = a->chunk.ndim == 0 ? 0 : a->chunk.ndim - 1;
    uint64_t index[TG_MAX_NDIM], place;
    tg_box sheets = *part; /* the rows of each lie along the last dimension but one */

    memcpy(index, part->start, sizeof index);
    if (a->chunk.ndim > 0)
        sheets.shape.n[last] = 1;
    if (last > 0)
        sheets.shape.n[last - 1] = 1;
    do {
        row r = {.a = a, .n = a->chunk.ndim == 0 ? 1 : part->shape.n[last], .weight = 1};
        locate(a, chunk, patch, index, &r.src, &place);
        r.value = acc + place * a->value_bytes;
        r.note = acc + a->items * a->value_bytes + place * a->note_bytes;
        if (a->chunk.ndim > 0) {
            r.step = patch->strides[last];
            r.at = index[last] - patch->box.start[last];
            r.width = patch->box.shape.n[last];
        }
        fold_sheet(a, patch, part, index, r);
    } while (tg_box_next(&sheets, index));
}

/* --- Results ------------------------------------------------------------------- */

/* sum / n to the nearest, ties to even, for a sum of either sign. */
static int64_t divide_even(int64_t sum, uint32_t n)
{
    assert(n > 0); /* only what was folded has a result */
    int64_t q = sum / (int64_t)n, r = sum % (int64_t)n;

    if (r < 0) {
        r += n;
        q--;
    }
    if (2 * r > (int64_t)n || (2 * r == (int64_t)n && (q & 1) != 0))
        q++;
    return q;
}

static uint64_t divide_even_u(uint64_t sum, uint32_t n)
{
    assert(n > 0);
    uint64_t q = sum / n, r = sum % n;

    return 2 * r > n || (2 * r == n && (q & 1) != 0) ? q + 1 : q;
}

static bool folded(const tg_accum *a, const uint8_t *note, uint64_t k)
{
    if (a->policy == TG_POLICY_SUM)
        return note[k] != 0;
    if (a->policy == TG_POLICY_MEAN)
        return ((const uint32_t *)(const void *)note)[k] != 0;
    return ((const double *)(const void *)note)[k] > 0;
}

/* The result of item k as eight bytes of the type *t. */
static void result_of(const tg_accum *a, const uint8_t *acc, const uint8_t *note, uint64_t k,
                      uint8_t item[8], tg_dtype *t)
{
    const bool is_float = a->dtype.kind == TG_DT_FLOAT || a->policy == TG_POLICY_BLEND;
    double f;
    int64_t i;
    uint64_t u;

    memcpy(item, acc + 8 * k, 8);
    *t = (tg_dtype){is_float                     ? TG_DT_FLOAT
                    : a->dtype.kind == TG_DT_INT ? TG_DT_INT
                                                 : TG_DT_UINT,
                    8};
    if (a->policy == TG_POLICY_SUM)
        return;
    const uint32_t n =
        a->policy == TG_POLICY_MEAN ? ((const uint32_t *)(const void *)note)[k] : 0;
    if (is_float) {
        memcpy(&f, item, 8);
        f /= a->policy == TG_POLICY_MEAN ? (double)n : ((const double *)(const void *)note)[k];
        memcpy(item, &f, 8);
    } else if (t->kind == TG_DT_INT) {
        memcpy(&i, item, 8);
        i = divide_even(i, n);
        memcpy(item, &i, 8);
    } else {
        memcpy(&u, item, 8);
        u = divide_even_u(u, n);
        memcpy(item, &u, 8);
    }
}

void tg_accum_result(const tg_accum *a, const uint8_t *acc, uint8_t *items, uint64_t *saturated)
{
    const uint8_t *note = acc + a->items * a->value_bytes;
    uint8_t item[8];
    tg_dtype t;

    if (!a->wide)
        return;
    for (uint64_t k = 0; k < a->items; k++) {
        if (!folded(a, note, k))
            continue;
        result_of(a, acc, note, k, item, &t);
        tg_cast_items(item, 1, t, a->dtype, saturated);
        memcpy(items + k * a->dtype.size, item, a->dtype.size);
    }
}
