#include "check.h"
#include "region/roi_build.h"
#include "region/roi_read.h"

#include <math.h>

static const char *const zyx[] = {"z", "y", "x"};

static void set_one(tg_roi_set *s, const char *axes, const char *unit, const double *start,
                    const double *length)
{
    TG_AUTO(tg_roi_builder) b = {0};
    tg_roi_begin(&b, "json", axes, unit, 1 << 20);
    if (tg_roi_add(&b, &(tg_roi_new){.start = start, .length = length}, NULL) != TG_OK ||
        tg_roi_finish(&b, s, NULL) != TG_OK)
        CHECK(false);
}

/* One axis of 1000 pixels of size ps: [start, start + length) by each rule. */
static void rules(void)
{
    static const struct {
        const char *name;
        double start, length, ps;
        uint64_t want[5][2]; /* ngio, fractal1, nearest, inner, outer */
        bool snaps;
    } rows[] = {
        {"whole", 10, 10, 1, {{10, 20}, {10, 20}, {10, 20}, {10, 20}, {10, 20}}, true},
        {"10.4 to 20.4",
         10.4,
         10,
         1,
         {{10, 21}, {10, 20}, {10, 20}, {11, 20}, {10, 21}},
         false},
        {"10.6 to 20.6",
         10.6,
         10,
         1,
         {{10, 21}, {11, 21}, {11, 21}, {11, 20}, {10, 21}},
         false},
        {"halves, to even",
         10.5,
         10,
         1,
         {{10, 21}, {10, 20}, {11, 21}, {11, 20}, {10, 21}},
         false},
        {"within a hundredth",
         10.009,
         9.995,
         1,
         {{10, 20}, {10, 20}, {10, 20}, {10, 20}, {10, 20}},
         true},
        {"a scale", 5, 5, 0.5, {{10, 20}, {10, 20}, {10, 20}, {10, 20}, {10, 20}}, true},
        {"beyond the end",
         990,
         20,
         1,
         {{990, 1000}, {990, 1000}, {990, 1000}, {990, 1000}, {990, 1000}},
         true},
    };
    const tg_shape array = {1, {1000}};
    const char *const axes[] = {"x"};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int rule = 0; rule < 5; rule++) {
            TG_AUTO(tg_roi_set) s = {0};
            tg_roi_rounding r;
            uint64_t b[2];
            test_row = rows[i].name;
            set_one(&s, "x", "micrometer", &rows[i].start, &rows[i].length);
            REQUIRE_OK(tg_rois_boxes(&s.list, &array, axes, &rows[i].ps, (tg_px_rule)rule, b,
                                     &r, NULL));
            CHECK_U64(b[0], rows[i].want[rule][0]);
            CHECK_U64(b[1], rows[i].want[rule][1]);
            CHECK_U64(r.not_snapped, !rows[i].snaps);
            CHECK_U64(r.first_not_snapped, rows[i].snaps ? UINT64_MAX : 0);
        }
    test_row = "";
}

/* Positions of float32 tables: ngio's hundredth alone fails from some 400,000 pixels on. */
static void float32_positions_snap(void)
{
    const tg_shape array = {1, {UINT64_C(1) << 40}};
    const char *const axes[] = {"x"};
    const double ps = 0.1625;

    for (uint64_t px = 1; px < 20000000; px = px * 5 / 3 + 1) {
        TG_AUTO(tg_roi_set) s = {0};
        const double start = (double)(float)((double)px * ps),
                     length = (double)(float)(2560 * ps);
        tg_roi_rounding r;
        uint64_t b[2];
        set_one(&s, "x", "micrometer", &start, &length);
        REQUIRE_OK(tg_rois_boxes(&s.list, &array, axes, &ps, TG_PX_NGIO, b, &r, NULL));
        CHECK_U64(b[0], px);
        CHECK_U64(b[1], px + 2560);
        CHECK_U64(r.not_snapped, 0);
    }
}

/* A plate's fields of 2160 x 2560 pixels, the pixel size off by a millionth of a micrometre: by
 * the nearest pixel each is that large, and none leaves a gap. */
static void a_grid_of_fields_has_no_gaps(void)
{
    const tg_shape array = {2, {9 * 2160, 8 * 2560}};
    const char *const axes[] = {"y", "x"};
    const double scale[] = {0.1625 + 1e-6, 0.1625 + 1e-6};

    for (int y = 0; y < 9; y++)
        for (int x = 0; x < 8; x++) {
            TG_AUTO(tg_roi_set) s = {0};
            const double start[] = {y * 2160 * 0.1625, x * 2560 * 0.1625};
            const double length[] = {2160 * 0.1625, 2560 * 0.1625};
            uint64_t b[4];
            set_one(&s, "yx", "micrometer", start, length);
            REQUIRE_OK(
                tg_rois_boxes(&s.list, &array, axes, scale, TG_PX_NEAREST, b, NULL, NULL));
            CHECK(b[0] == (uint64_t)y * 2160 && b[2] == (uint64_t)(y + 1) * 2160);
            CHECK(b[1] == (uint64_t)x * 2560 && b[3] == (uint64_t)(x + 1) * 2560);
        }
}

static void axes_that_one_of_them_lacks(void)
{
    static const char *const czyx[] = {"c", "z", "y", "x"};
    const tg_shape array = {4, {3, 5, 10, 20}}, flat = {2, {10, 20}};
    const double scale[] = {1, 2, 0.5, 0.5};
    const double start[] = {0, 1, 2}, length[] = {2, 4, 4}, up[] = {1, 0, 0};
    TG_AUTO(tg_roi_set) s = {0};
    tg_roi_rounding r;
    uint64_t b[8];

    set_one(&s, "zyx", "micrometer", start, length);
    REQUIRE_OK(tg_rois_boxes(&s.list, &array, czyx, scale, TG_PX_NGIO, b, &r, NULL));
    static const uint64_t want[] = {0, 0, 2, 4, 3, 1, 10, 12};
    CHECK(memcmp(b, want, sizeof want) == 0);
    CHECK_U64(r.clamped, 0);
    REQUIRE_OK(tg_rois_boxes(&s.list, &flat, zyx + 1, NULL, TG_PX_NGIO, b, &r, NULL));
    tg_roi_set_destroy(&s);
    set_one(&s, "zyx", "micrometer", up, length);
    CHECK_STATUS(tg_rois_boxes(&s.list, &flat, zyx + 1, NULL, TG_PX_NGIO, b, &r, NULL),
                 TG_INVALID);
}

static void below_zero_and_outside(void)
{
    const tg_shape array = {1, {10}};
    const char *const axes[] = {"x"};
    const double below = -3, five = 5, out = 12;
    TG_AUTO(tg_roi_set) s = {0};
    TG_AUTO(tg_roi_set) far = {0};
    tg_roi_rounding r;
    uint64_t b[2];

    set_one(&s, "x", NULL, &below, &five);
    REQUIRE_OK(tg_rois_boxes(&s.list, &array, axes, NULL, TG_PX_NGIO, b, &r, NULL));
    CHECK(b[0] == 0 && b[1] == 2 && r.clamped == 1 && r.empty == 0);
    CHECK_STATUS(tg_rois_boxes(&s.list, &array, axes, NULL, TG_PX_FRACTAL1, b, &r, NULL),
                 TG_INVALID);
    set_one(&far, "x", NULL, &out, &five);
    REQUIRE_OK(tg_rois_boxes(&far.list, &array, axes, NULL, TG_PX_NGIO, b, &r, NULL));
    CHECK(b[0] == 10 && b[1] == 10 && r.empty == 1);
}

/* --- Grids and JSON -------------------------------------------------------------------------
 */

static void grids(void)
{
    static const struct {
        const char *text;
        uint64_t n;
        double last[6]; /* starts, then lengths of the last one */
        uint32_t n_axes;
    } rows[] = {
        {"4", 6, {4, 8, 4, 3}, 2}, /* of 8 x 11 */
        {"4,11", 2, {4, 0, 4, 11}, 2},
        {"4,6/2,3", 9, {4, 6, 4, 5}, 2},
        {"2,8,11", 3, {4, 0, 0, 1, 8, 11}, 3}, /* of 5 x 8 x 11 */
        {"100", 1, {0, 0, 8, 11}, 2},
        {"1/4", 6, {4, 8, 1, 1}, 2},
        {"8,2/8,10", 2, {0, 10, 8, 1}, 2},
    };
    static const char *const bad[] = {"",  "0",  "4/0",     "4,,4",
                                      "a", "4/", "1,2,3,4", "4,4/4,4,4"};
    const tg_shape array = {3, {5, 8, 11}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_roi_set) s = {0};
        test_row = rows[i].text;
        REQUIRE_OK(tg_roi_grid(&s, rows[i].text, &array, zyx, 1 << 20, NULL));
        CHECK_U64(s.list.n, rows[i].n);
        CHECK(s.list.exact && s.list.in_pixels);
        REQUIRE(s.list.n_axes == rows[i].n_axes && s.list.n > 0);
        const size_t at = (size_t)(s.list.n - 1) * s.list.n_axes, bytes = s.list.n_axes * 8;
        CHECK(memcmp(s.list.start + at, rows[i].last, bytes) == 0);
        CHECK(memcmp(s.list.length + at, rows[i].last + s.list.n_axes, bytes) == 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        TG_AUTO(tg_roi_set) s = {0};
        test_row = bad[i];
        CHECK_STATUS(tg_roi_grid(&s, bad[i], &array, zyx, 1 << 20, NULL), TG_INVALID);
    }
    test_row = "";
    TG_AUTO(tg_roi_set) s = {0};
    CHECK_STATUS(tg_roi_grid(&s, "1", &array, zyx, 1000, NULL), TG_OVER_BUDGET);
}

static tg_status from_json(tg_roi_set *s, const char *text, tg_error *err)
{
    return tg_roi_read_json(s, (tg_bytes){(const uint8_t *)text, strlen(text)}, 1 << 20, err);
}

static void json(void)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"rois\":[]}",
        "{\"axes\":[],\"rois\":[]}",
        "{\"axes\":[\"y\",\"y\"],\"rois\":[]}",
        "{\"axes\":[1],\"rois\":[]}",
        "{\"axes\":[\"y\"],\"rois\":{}}",
        "{\"axes\":[\"y\"],\"unit\":3,\"rois\":[]}",
        "{\"axes\":[\"y\"],\"rois\":[1]}",
        "{\"axes\":[\"y\"],\"rois\":[{\"box\":[[1]]}]}",
        "{\"axes\":[\"y\"],\"rois\":[{\"box\":[[2,1]]}]}",
        "{\"axes\":[\"y\"],\"rois\":[{\"box\":[[1,2],[1,2]]}]}",
        "{\"axes\":[\"y\"],\"rois\":[{\"box\":[[1,2]],\"label\":-1}]}",
        "{\"axes\":[\"y\"],\"rois\":[{\"box\":[[1,2]],\"name\":1}]}"};
    TG_AUTO(tg_roi_set) s = {0};
    TG_AUTO(tg_roi_set) um = {0};

    REQUIRE_OK(from_json(&s,
                         " {\"axes\":[\"y\",\"x\"],\"unit\":\"px\",\"rois\":[{\"name\":\"a\","
                         "\"box\":[[0,64],[32,96]]},{\"label\":18446744073709551615,\"box\":"
                         "[[1,2],[3,4]]}]}",
                         NULL));
    CHECK(s.list.n == 2 && s.list.exact && s.list.in_pixels && s.list.n_axes == 2);
    CHECK(s.list.label[0] == 0 && s.list.label[1] == UINT64_MAX);
    CHECK(s.list.name[1] == 1 && s.list.names[0] == 'a' && s.list.name[2] == 1);
    CHECK(s.list.start[1] == 32 && s.list.length[1] == 64 && s.list.start[3] == 3);
    REQUIRE_OK(from_json(&um,
                         "{\"rois\":[{\"box\":[[0.5,1.5]]}],\"axes\":[\"depth\"],\"unit\":"
                         "\"nanometer\"}",
                         NULL));
    CHECK(!um.list.in_pixels && strcmp(um.list.unit, "nanometer") == 0 && !um.list.exact);
    CHECK(strcmp(um.list.axes[0], "depth") == 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        TG_AUTO(tg_roi_set) none = {0};
        test_row = bad[i];
        CHECK_STATUS(from_json(&none, bad[i], NULL), TG_CORRUPT);
    }
    test_row = "";
}

static const struct test tests[] = {
    {"rules", rules},
    {"float32_positions_snap", float32_positions_snap},
    {"a_grid_of_fields_has_no_gaps", a_grid_of_fields_has_no_gaps},
    {"axes_that_one_of_them_lacks", axes_that_one_of_them_lacks},
    {"below_zero_and_outside", below_zero_and_outside},
    {"grids", grids},
    {"json", json},
};

TEST_MAIN(tests)
