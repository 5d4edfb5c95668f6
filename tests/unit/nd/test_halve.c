/* Halved planes: the rounding as documented, extremes of every type, odd edges, against a
 * reference that takes blocks apart item by item. */
#include "check.h"
#include "nd/half.h"
#include "nd/halve.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

__extension__ typedef __int128 wide;

static rng random_state = {42};

static const tg_dtype dtypes[] = {
    {TG_DT_BOOL, 1}, {TG_DT_UINT, 1},  {TG_DT_INT, 1},   {TG_DT_UINT, 2},
    {TG_DT_INT, 2},  {TG_DT_UINT, 4},  {TG_DT_INT, 4},   {TG_DT_UINT, 8},
    {TG_DT_INT, 8},  {TG_DT_FLOAT, 2}, {TG_DT_FLOAT, 4}, {TG_DT_FLOAT, 8},
};

/* --- The reference ----------------------------------------------------------- */

static wide int_at(tg_dtype t, const uint8_t *p)
{
    uint64_t v = 0;
    memcpy(&v, p, t.size);
    if (t.kind != TG_DT_INT || t.size == 8)
        return t.kind == TG_DT_INT ? (wide)(int64_t)v : (wide)v;
    uint64_t top = UINT64_C(1) << (8 * t.size - 1);
    return (wide)(int64_t)((v ^ top) - top);
}

static double float_at(tg_dtype t, const uint8_t *p)
{
    uint16_t h = 0;
    float f = 0;
    double d = 0;
    memcpy(t.size == 2 ? (void *)&h : t.size == 4 ? (void *)&f : (void *)&d, p, t.size);
    return t.size == 2 ? tg_half_to_double(h) : t.size == 4 ? (double)f : d;
}

static void put_float(tg_dtype t, double v, uint8_t *p)
{
    uint16_t h = tg_half_from_double(v);
    float f = (float)v;
    memcpy(p,
           t.size == 2   ? (const void *)&h
           : t.size == 4 ? (const void *)&f
                         : (const void *)&v,
           t.size);
}

/* sum / n, halves to even, rounding down first. */
static wide even_mean(wide sum, wide n)
{
    wide q = sum / n, r = sum % n;
    if (r < 0) {
        q--;
        r += n;
    }
    return q + (2 * r > n || (2 * r == n && (q & 1) != 0));
}

static void one_block(tg_dtype t, tg_halve_method m, const uint8_t *const *item, int n,
                      uint8_t *out)
{
    if (m == TG_HALVE_DECIMATE) {
        memcpy(out, item[0], t.size);
        return;
    }
    if (t.kind == TG_DT_FLOAT) {
        double v = float_at(t, item[0]);
        for (int i = 1; i < n; i++) {
            double w = float_at(t, item[i]);
            if (m == TG_HALVE_MEAN)
                v += w;
            else if (isnan(v) || isnan(w))
                v = (double)NAN;
            else
                v = (m == TG_HALVE_MIN ? w < v : w > v) ? w : v; /* of 0 and -0 the first */
        }
        put_float(t, m == TG_HALVE_MEAN ? v / n : v, out);
        return;
    }
    wide v = int_at(t, item[0]);
    for (int i = 1; i < n; i++) {
        wide w = int_at(t, item[i]);
        if (m == TG_HALVE_MEAN)
            v += w;
        else
            v = (w < v) == (m == TG_HALVE_MIN) ? w : v;
    }
    uint64_t bits = (uint64_t)(m == TG_HALVE_MEAN ? even_mean(v, n) : v);
    memcpy(out, &bits, t.size);
}

static void reference(tg_dtype t, tg_halve_method m, const uint8_t *src, size_t h, size_t w,
                      uint8_t *dst)
{
    for (size_t y = 0; y < h; y += 2)
        for (size_t x = 0; x < w; x += 2) {
            const uint8_t *item[4];
            int n = 0;
            for (size_t dy = 0; dy < 2 && y + dy < h; dy++)
                for (size_t dx = 0; dx < 2 && x + dx < w; dx++)
                    item[n++] = src + ((y + dy) * w + x + dx) * t.size;
            one_block(t, m, item, n, dst);
            dst += t.size;
        }
}

/* NaNs may differ in their bits. */
static bool same_item(tg_dtype t, const uint8_t *a, const uint8_t *b)
{
    if (t.kind == TG_DT_FLOAT && isnan(float_at(t, a)) && isnan(float_at(t, b)))
        return true;
    return memcmp(a, b, t.size) == 0;
}

/* --- The tests --------------------------------------------------------------- */

/* Random bytes; some items at the ends of the type's range, some alike. */
static void fill_random(tg_dtype t, uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++, p += t.size) {
        uint64_t v = rng_next(&random_state);
        if (rng_next(&random_state) % 4 == 0)
            v = rng_next(&random_state) % 2 ? UINT64_MAX : 0;
        if (rng_next(&random_state) % 8 == 0)
            v = UINT64_C(1) << (8 * t.size - 1);
        if (t.kind == TG_DT_BOOL)
            v &= 1;
        memcpy(p, &v, t.size);
    }
}

static void every_type_size_and_method(void)
{
    enum { MOST = 70 };
    uint8_t *src = malloc(MOST * MOST * 8), *got = malloc(MOST * MOST * 8),
            *want = malloc(MOST * MOST * 8);
    REQUIRE(src != NULL && got != NULL && want != NULL);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char room[16];
        test_row = tg_dtype_name(dtypes[i], room);
        uint64_t bad = 0;
        for (int trial = 0; trial < 200; trial++) {
            size_t h = 1 + rng_next(&random_state) % MOST,
                   w = 1 + rng_next(&random_state) % MOST;
            if (trial < 9)
                h = 1 + (size_t)trial / 3, w = 1 + (size_t)trial % 3;
            size_t items = ((h + 1) / 2) * ((w + 1) / 2);
            fill_random(dtypes[i], src, h * w);
            for (int m = TG_HALVE_MEAN; m <= TG_HALVE_DECIMATE; m++) {
                memset(got, 0x5A, (items + 1) * dtypes[i].size);
                tg_halve(dtypes[i], (tg_halve_method)m, src, h, w, got);
                reference(dtypes[i], (tg_halve_method)m, src, h, w, want);
                for (size_t k = 0; k < items; k++)
                    bad += !same_item(dtypes[i], got + k * dtypes[i].size,
                                      want + k * dtypes[i].size);
                bad += got[items * dtypes[i].size] != 0x5A; /* nothing behind */
            }
        }
        CHECK_U64(bad, 0);
    }
    test_row = "";
    free(src);
    free(got);
    free(want);
}

/* T28, and the halves. */
static void known_means(void)
{
    const uint8_t bytes[4] = {2, 2, 2, 1}, halves[4] = {0, 1, 1, 0}, odd[4] = {1, 2, 2, 1};
    const uint32_t large[4] = {4000000000, 4000000000, 4000000000, 4000000000};
    const int32_t low[4] = {-2000000000, -2000000000, -2000000000, -2000000000};
    const int8_t negative[4] = {-1, -2, -2, -1};
    const uint64_t top[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX - 1};
    const int64_t bottom[4] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    uint8_t b = 9;
    uint32_t l = 9;
    int32_t n = 9;
    int8_t s = 9;
    uint64_t u = 9;
    int64_t i = 9;
    tg_halve((tg_dtype){TG_DT_UINT, 1}, TG_HALVE_MEAN, bytes, 2, 2, &b);
    CHECK_U64(b, 2); /* 1.75 */
    tg_halve((tg_dtype){TG_DT_UINT, 1}, TG_HALVE_MEAN, halves, 2, 2, &b);
    CHECK_U64(b, 0); /* 0.5: to the even one */
    tg_halve((tg_dtype){TG_DT_UINT, 1}, TG_HALVE_MEAN, odd, 2, 2, &b);
    CHECK_U64(b, 2); /* 1.5 */
    tg_halve((tg_dtype){TG_DT_UINT, 4}, TG_HALVE_MEAN, large, 2, 2, &l);
    CHECK_U64(l, 4000000000);
    tg_halve((tg_dtype){TG_DT_INT, 4}, TG_HALVE_MEAN, low, 2, 2, &n);
    CHECK(n == -2000000000);
    tg_halve((tg_dtype){TG_DT_INT, 1}, TG_HALVE_MEAN, negative, 2, 2, &s);
    CHECK(s == -2); /* -1.5 */
    tg_halve((tg_dtype){TG_DT_UINT, 8}, TG_HALVE_MEAN, top, 2, 2, &u);
    CHECK_U64(u, UINT64_MAX); /* .75 below */
    tg_halve((tg_dtype){TG_DT_INT, 8}, TG_HALVE_MEAN, bottom, 2, 2, &i);
    CHECK(i == INT64_MIN);
}

static void not_a_number_shows(void)
{
    for (int at = 0; at < 4; at++)
        for (int m = TG_HALVE_MEAN; m <= TG_HALVE_MAX; m++) {
            float v[4] = {1, -1, 3, 4}, got = 0;
            v[at] = NAN;
            tg_halve((tg_dtype){TG_DT_FLOAT, 4}, (tg_halve_method)m, v, 2, 2, &got);
            CHECK(isnan(got));
        }
}

static void what_can_be_halved(void)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        CHECK(tg_halve_can(dtypes[i]));
    CHECK(!tg_halve_can((tg_dtype){TG_DT_COMPLEX, 8}));
    CHECK(!tg_halve_can((tg_dtype){TG_DT_STRING, 0}));
    CHECK(!tg_halve_can((tg_dtype){TG_DT_RAW, 2}));
    CHECK(!tg_halve_can((tg_dtype){TG_DT_FLOAT, 16}));
}

static const struct test tests[] = {
    {"every type, size and method", every_type_size_and_method},
    {"known means", known_means},
    {"not a number shows", not_a_number_shows},
    {"what can be halved", what_can_be_halved},
};
TEST_MAIN(tests)
