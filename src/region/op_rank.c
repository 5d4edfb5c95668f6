/* Ranks: the same few loops for keys of four sizes (op_rank_keys.h). */
#include "region/op_rank.h"

#include "base/wider.h"
#include "region/select.h"

#include <string.h>

/* What is turned to make integers of the order of the items. */
typedef struct turns {
    uint64_t sign; /* of all: unsigned items as signed keys, and of one byte the reverse */
    uint64_t rest; /* of negative ones: floats, whose magnitudes go the other way */
    uint64_t infinity, keep, quiet; /* of NaN; quiet 0: left alone */
} turns;

#define LANE_BYTES      128 /* four vectors: enough independent work for one core */
#define STEP(key_bytes) ((size_t)16 << 4 * ((key_bytes)-1)) /* keys of a span */
#define ITSELF(x)       (x)

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

static turns turns_of(tg_dtype t)
{
    const uint64_t sign = UINT64_C(1) << (8 * t.size - 1);
    if (t.kind == TG_DT_FLOAT)
        return (turns){.rest = sign - 1};
    return (turns){.sign = (t.kind == TG_DT_INT) == (t.size == 1) ? sign : 0};
}

static void turn(tg_dtype t, const turns *how, char *dst, int64_t to, const char *src,
                 int64_t from, size_t n)
{
    if (t.size == 1)
        turn_8(dst, to, src, from, n, how);
    else if (t.size == 2)
        turn_16(dst, to, src, from, n, how);
    else if (t.size == 4)
        turn_32(dst, to, src, from, n, how);
    else
        turn_64(dst, to, src, from, n, how);
}

void tg_rank_load(void *keys, tg_dtype t, const void *src, int64_t stride, size_t n)
{
    const turns how = turns_of(t);
    turn(t, &how, keys, (int64_t)t.size, src, stride, n);
}

void tg_rank_store(tg_dtype t, void *dst, int64_t stride, const void *keys, size_t n)
{
    turns how = turns_of(t);
    if (t.kind == TG_DT_FLOAT && t.size == 2) {
        how.infinity = 0x7c00;
        how.quiet = 0x7e00;
    } else if (t.kind == TG_DT_FLOAT && t.size == 4) {
        how.infinity = 0x7f800000;
        how.keep = UINT32_MAX;
        how.quiet = 0x400000;
    }
    turn(t, &how, dst, stride, keys, (int64_t)t.size, n);
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

/* --- A window that moves: how often each key is in it, and each span of keys --- */

size_t tg_rank_counts_bytes(size_t key_bytes)
{
    const size_t keys = (size_t)1 << (8 * key_bytes);
    return (keys + keys / STEP(key_bytes)) * sizeof(uint32_t);
}

/* Counts of keys, then of spans of STEP keys. `below` are the items less than key `at`, which
 * begins a span. */
typedef struct slide {
    uint32_t *counts, *spans;
    uint32_t at, below, step;
} slide;

static uint32_t place_of(size_t key_bytes, const char *key)
{
    int16_t v;
    if (key_bytes == 1)
        return (uint8_t)*key;
    memcpy(&v, key, sizeof v);
    return (uint32_t)(v + 32768);
}

TG_INLINE void count(slide *s, uint32_t place, uint32_t by)
{
    s->counts[place] += by;
    s->spans[place / s->step] += by;
    s->below += place < s->at ? by : 0;
}

/* The place of the item that has k before it. */
static uint32_t find(slide *s, uint32_t k)
{
    while (s->below > k) {
        s->at -= s->step;
        s->below -= s->spans[s->at / s->step];
    }
    for (uint32_t n; s->below + (n = s->spans[s->at / s->step]) <= k; s->at += s->step)
        s->below += n;
    uint32_t place = s->at, before = s->below;
    while (before + s->counts[place] <= k)
        before += s->counts[place++];
    return place;
}

static void put(size_t key_bytes, char *to, uint32_t place)
{
    const int16_t v = (int16_t)((int32_t)place - 32768);
    if (key_bytes == 1)
        *to = (char)place;
    else
        memcpy(to, &v, sizeof v);
}

TG_INLINE void slide_row(size_t key_bytes, const tg_rank_window *w, uint32_t *counts, char *to)
{
    const size_t size = w->size;
    const uint32_t k = (uint32_t)(w->n_rows * size / 2);
    slide s = {.step = (uint32_t)STEP(key_bytes)};
    s.counts = counts;
    s.spans = counts + ((size_t)1 << (8 * key_bytes));
    for (size_t r = 0; r < w->n_rows; r++)
        for (size_t i = 0; i < size; i++)
            count(&s, place_of(key_bytes, (const char *)w->rows[r] + i * key_bytes), 1);
    for (size_t x = 0; x < w->length; x++) {
        put(key_bytes, to + x * key_bytes, find(&s, k));
        for (size_t r = 0; r < w->n_rows; r++) {
            const char *row = (const char *)w->rows[r] + x * key_bytes;
            count(&s, place_of(key_bytes, row), UINT32_MAX); /* -1 */
            if (x + 1 < w->length)
                count(&s, place_of(key_bytes, row + size * key_bytes), 1);
        }
    }
    for (size_t r = 0; r < w->n_rows; r++) /* what is still in it */
        for (size_t i = 1; i < size; i++)
            count(
                &s,
                place_of(key_bytes, (const char *)w->rows[r] + (w->length - 1 + i) * key_bytes),
                UINT32_MAX);
}

void tg_rank_slide(size_t key_bytes, const tg_rank_window *w, uint32_t *counts, void *to)
{
    if (key_bytes == 1)
        slide_row(1, w, counts, to);
    else
        slide_row(2, w, counts, to);
}
