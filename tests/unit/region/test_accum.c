/* Policies and casts, item by item. */
#include "check.h"
#include "region/accum.h"

#include <math.h>

static void fold_one(tg_policy policy, tg_dtype t, const void *items, size_t n, void *out,
                     uint64_t *saturated)
{
    const tg_shape one = {.ndim = 1, .n = {1}};
    const tg_box box = {.shape = one};
    _Alignas(8) uint8_t acc[32] = {0}, item[16] = {0};
    tg_accum a;
    tg_error err;

    REQUIRE_OK(tg_accum_init(&a, policy, t, &one, NULL, &err));
    REQUIRE(a.bytes <= sizeof acc);
    tg_accum_clear(&a, acc);
    for (size_t i = 0; i < n; i++) {
        tg_patch p = {.data = (const uint8_t *)items + i * t.size, .box = box};
        p.strides[0] = t.size;
        tg_accum_fold(&a, acc, &box, &p, &box);
    }
    tg_accum_result(&a, acc, item, saturated);
    memcpy(out, a.wide ? item : acc, t.size);
}

static void integers(void)
{
    static const struct {
        const char *name;
        tg_policy policy;
        int8_t items[4];
        size_t n;
        int8_t want;
        uint64_t saturated;
    } rows[] = {
        {"max", TG_POLICY_MAX, {-3, 5, 2}, 3, 5, 0},
        {"max of negatives", TG_POLICY_MAX, {-3, -5}, 2, -3, 0},
        {"min", TG_POLICY_MIN, {3, -5, 2}, 3, -5, 0},
        {"or", TG_POLICY_OR, {1, 4}, 2, 5, 0},
        {"and", TG_POLICY_AND, {7, 13}, 2, 5, 0},
        {"sum", TG_POLICY_SUM, {100, -30, 7}, 3, 77, 0},
        {"sum saturates once, at the end", TG_POLICY_SUM, {100, 100, -50, -40}, 4, 110, 0},
        {"sum too large", TG_POLICY_SUM, {100, 100}, 2, 127, 1},
        {"sum too small", TG_POLICY_SUM, {-100, -100}, 2, -128, 1},
        {"mean rounds half to even", TG_POLICY_MEAN, {1, 2}, 2, 2, 0},
        {"mean of a half below", TG_POLICY_MEAN, {2, 3}, 2, 2, 0},
        {"mean of negatives", TG_POLICY_MEAN, {-1, -2}, 2, -2, 0},
        {"mean -2.5", TG_POLICY_MEAN, {-2, -3}, 2, -2, 0},
        {"mean of thirds", TG_POLICY_MEAN, {1, 1, 0}, 3, 1, 0},
        {"blend", TG_POLICY_BLEND, {4, 9, 5}, 3, 6, 0},
        {"nonzero", TG_POLICY_NONZERO, {4, 9, 0}, 3, 9, 0},
        {"last", TG_POLICY_LAST, {4, 9, 0}, 3, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int8_t got = 0;
        uint64_t saturated = 0;
        test_row = rows[i].name;
        fold_one(rows[i].policy, (tg_dtype){TG_DT_INT, 1}, rows[i].items, rows[i].n, &got,
                 &saturated);
        CHECK(got == rows[i].want);
        CHECK_U64(saturated, rows[i].saturated);
    }
    test_row = "";
}

static void floats(void)
{
    const float items[] = {1.5F, NAN, 3}, plain[] = {1e8F, 1, -1e8F};
    uint64_t saturated = 0;
    float got = 0;

    fold_one(TG_POLICY_MAX, (tg_dtype){TG_DT_FLOAT, 4}, items, 3, &got, &saturated);
    CHECK(isnan(got));
    fold_one(TG_POLICY_MIN, (tg_dtype){TG_DT_FLOAT, 4}, items, 3, &got, &saturated);
    CHECK(isnan(got));
    /* In double: the 1 is not lost. */
    fold_one(TG_POLICY_SUM, (tg_dtype){TG_DT_FLOAT, 4}, plain, 3, &got, &saturated);
    CHECK(got > 0.5F && got < 1.5F);
    const uint16_t half[] = {0x3c00, 0x4000, 0xc400}; /* 1, 2, -4 */
    uint16_t h = 0;
    fold_one(TG_POLICY_MAX, (tg_dtype){TG_DT_FLOAT, 2}, half, 3, &h, &saturated);
    CHECK_U64(h, 0x4000);
    fold_one(TG_POLICY_SUM, (tg_dtype){TG_DT_FLOAT, 2}, half, 3, &h, &saturated);
    CHECK_U64(h, 0xbc00);
    CHECK_U64(saturated, 0);
}

static void casts(void)
{
    static const struct {
        const char *name;
        double from;
        int64_t want;
        uint64_t saturated;
    } rows[] = {{"half to even", 2.5, 2, 0},  {"half up to even", 3.5, 4, 0},
                {"below", -0.4, 0, 0},        {"negative", -1, 0, 1},
                {"too large", 255.6, 255, 1}, {"largest", 255.4, 255, 0},
                {"not a number", NAN, 0, 1},  {"infinity", INFINITY, 255, 1}};
    _Alignas(8) uint8_t room[8 * 600];
    uint64_t saturated = 0;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_row = rows[i].name;
        saturated = 0;
        memcpy(room, &rows[i].from, 8);
        tg_cast_items(room, 1, (tg_dtype){TG_DT_FLOAT, 8}, (tg_dtype){TG_DT_UINT, 1},
                      &saturated);
        CHECK_U64(room[0], (uint64_t)rows[i].want);
        CHECK_U64(saturated, rows[i].saturated);
    }
    test_row = "";
    /* In place, over several blocks, growing and shrinking. */
    saturated = 0;
    for (size_t i = 0; i < 600; i++)
        room[i] = (uint8_t)(i * 7);
    tg_cast_items(room, 600, (tg_dtype){TG_DT_UINT, 1}, (tg_dtype){TG_DT_INT, 8}, &saturated);
    tg_cast_items(room, 600, (tg_dtype){TG_DT_INT, 8}, (tg_dtype){TG_DT_FLOAT, 4}, &saturated);
    tg_cast_items(room, 600, (tg_dtype){TG_DT_FLOAT, 4}, (tg_dtype){TG_DT_UINT, 2}, &saturated);
    for (size_t i = 0; i < 600; i++)
        CHECK(((uint16_t *)(void *)room)[i] == (uint8_t)(i * 7));
    CHECK_U64(saturated, 0);
}

static const struct test tests[] = {
    {"integers", integers}, {"floats", floats}, {"casts", casts}};

TEST_MAIN(tests)
