/* Ranks: the same few loops for keys of four sizes (op_rank_keys.h). */
#include "region/op_rank.h"

#include "base/wider.h"
#include "region/select.h"

#include <string.h>

/* What is turned to make integers of the order of the items. */
typedef struct turns {
    uint64_t sign; /* of all: unsigned items as signed keys, and of one byte the reverse */
    uint64_t rest; /* of negative ones: floats, whose magnitudes go the other way */
} turns;

#define LANE_BYTES 128 /* four vectors: enough independent work for one core */
#define ITSELF(x)  (x)

#define KEY        uint8_t
#define BITS       uint8_t
#define GREATEST   UINT8_MAX
#define NAME(word) word##_8
#include "region/op_rank_keys.h"

#define KEY        int16_t
#define BITS       uint16_t
#define GREATEST   INT16_MAX
#define NAME(word) word##_16
#include "region/op_rank_keys.h"

#define KEY        int32_t
#define BITS       uint32_t
#define GREATEST   INT32_MAX
#define NAME(word) word##_32
#include "region/op_rank_keys.h"

#define KEY        int64_t
#define BITS       uint64_t
#define GREATEST   INT64_MAX
#define NAME(word) word##_64
#include "region/op_rank_keys.h"

typedef uint32_t loose_bits __attribute__((aligned(1), may_alias));

static void turn(tg_dtype t, char *dst, int64_t to, const char *src, int64_t from, size_t n)
{
    const uint64_t sign = UINT64_C(1) << (8 * t.size - 1);
    const bool is_float = t.kind == TG_DT_FLOAT;
    const bool flips = !is_float && (t.kind == TG_DT_INT) == (t.size == 1);
    const turns how = {flips ? sign : 0, is_float ? sign - 1 : 0};
    if (t.size == 1)
        turn_8(dst, to, src, from, n, &how);
    else if (t.size == 2)
        turn_16(dst, to, src, from, n, &how);
    else if (t.size == 4)
        turn_32(dst, to, src, from, n, &how);
    else
        turn_64(dst, to, src, from, n, &how);
}

/* NaN as a conversion by way of doubles leaves it. */
static void quiet_halves(char *p, int64_t stride, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t v;
        memcpy(&v, p + (int64_t)i * stride, sizeof v);
        v = (v & 0x7fff) > 0x7c00 ? 0x7e00 : v;
        memcpy(p + (int64_t)i * stride, &v, sizeof v);
    }
}

static void quiet_singles(char *p, int64_t stride, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        loose_bits *v = (loose_bits *)(p + (int64_t)i * stride);
        *v |= (*v & 0x7fffffff) > 0x7f800000 ? 0x400000 : 0;
    }
}

void tg_rank_load(void *keys, tg_dtype t, const void *src, int64_t stride, size_t n)
{
    turn(t, keys, (int64_t)t.size, src, stride, n);
}

void tg_rank_store(tg_dtype t, void *dst, int64_t stride, const void *keys, size_t n)
{
    turn(t, dst, stride, keys, (int64_t)t.size, n);
    if (t.kind == TG_DT_FLOAT && t.size == 2)
        quiet_halves(dst, stride, n);
    if (t.kind == TG_DT_FLOAT && t.size == 4 && stride == (int64_t)sizeof(float))
        quiet_singles(dst, sizeof(float), n);
    else if (t.kind == TG_DT_FLOAT && t.size == 4)
        quiet_singles(dst, stride, n);
}

void tg_rank_pairs(size_t key_bytes, bool greater, const void *in, size_t gap, size_t n,
                   void *out)
{
    if (key_bytes == 1)
        pairs_8(greater, in, (const uint8_t *)in + gap, n, out);
    else if (key_bytes == 2)
        pairs_16(greater, in, (const int16_t *)in + gap, n, out);
    else if (key_bytes == 4)
        pairs_32(greater, in, (const int32_t *)in + gap, n, out);
    else
        pairs_64(greater, in, (const int64_t *)in + gap, n, out);
}

void tg_rank_medians(size_t key_bytes, const void *const *from, size_t n, size_t length,
                     void *to)
{
    const void *padded[TG_MOST_MEDIAN + 1];

    if (n == 1) {
        memcpy(to, from[0], length * key_bytes);
        return;
    }
    memcpy(padded, from, n * sizeof *from);
    if (n % 2 == 0) /* of an even number the upper one: as if one more lay above all */
        padded[n++] = NULL;
    if (key_bytes == 1)
        medians_8(padded, n, length, to);
    else if (key_bytes == 2)
        medians_16(padded, n, length, to);
    else if (key_bytes == 4)
        medians_32(padded, n, length, to);
    else
        medians_64(padded, n, length, to);
}

void tg_rank_select(size_t key_bytes, void *window, size_t n, void *to)
{
    if (key_bytes == 1)
        select_8(window, n, n / 2);
    else if (key_bytes == 2)
        select_16(window, n, n / 2);
    else if (key_bytes == 4)
        select_32(window, n, n / 2);
    else
        select_64(window, n, n / 2);
    memcpy(to, (char *)window + n / 2 * key_bytes, key_bytes);
}
