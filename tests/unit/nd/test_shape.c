#include "check.h"
#include "nd/nd.h"
#include "random.h"

#define TOP UINT64_MAX

static void items_and_bytes(void)
{
    static const struct {
        const char *name;
        tg_shape shape;
        size_t item;
        tg_status items_status, bytes_status;
        uint64_t items;
    } rows[] = {
        {"0-d", {0, {0}}, 4, TG_OK, TG_OK, 1},
        {"plain", {3, {2, 3, 4}}, 2, TG_OK, TG_OK, 24},
        {"empty", {2, {5, 0}}, 8, TG_OK, TG_OK, 0},
        {"huge but empty", {3, {TOP, TOP, 0}}, 8, TG_OK, TG_OK, 0},
        {"empty first", {3, {0, TOP, TOP}}, 8, TG_OK, TG_OK, 0},
        {"2^64 - 1 items", {1, {TOP}}, 1, TG_OK, TG_OK, TOP},
        {"bytes overflow", {1, {TOP}}, 2, TG_OK, TG_INVALID, TOP},
        {"bytes just fit", {1, {TOP / 8}}, 8, TG_OK, TG_OK, TOP / 8},
        {"one item too many", {1, {TOP / 8 + 1}}, 8, TG_OK, TG_INVALID, TOP / 8 + 1},
        {"2^64 items",
         {2, {(uint64_t)1 << 32, (uint64_t)1 << 32}},
         1,
         TG_INVALID,
         TG_INVALID,
         0},
        {"wraps to small", {3, {(uint64_t)1 << 63, 2, 3}}, 1, TG_INVALID, TG_INVALID, 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t items = 77;
        size_t bytes = 77;
        test_row = rows[i].name;
        CHECK_STATUS(tg_shape_items(&rows[i].shape, &items, NULL), rows[i].items_status);
        CHECK_U64(items, rows[i].items_status == TG_OK ? rows[i].items : 77);
        CHECK_STATUS(tg_shape_bytes(&rows[i].shape, rows[i].item, &bytes, NULL),
                     rows[i].bytes_status);
        CHECK_U64(bytes, rows[i].bytes_status == TG_OK ? rows[i].items * rows[i].item : 77);
    }
}

static void equality(void)
{
    tg_shape a = {2, {3, 4, 9}}, b = {2, {3, 4, 8}}, c = {2, {3, 5}}, d = {3, {3, 4, 9}};
    CHECK(tg_shape_equal(&a, &b)); /* what lies beyond ndim does not count */
    CHECK(!tg_shape_equal(&a, &c));
    CHECK(!tg_shape_equal(&a, &d));
}

static void boxes_1d(void)
{
    static const struct {
        const char *name;
        uint64_t a[2], b[2]; /* start, extent */
        uint64_t want[2];    /* extent 0: empty */
    } rows[] = {
        {"same", {2, 3}, {2, 3}, {2, 3}},
        {"apart", {0, 3}, {3, 3}, {0, 0}},
        {"overlap", {0, 4}, {3, 3}, {3, 1}},
        {"inside", {0, 9}, {4, 2}, {4, 2}},
        {"empty one", {4, 0}, {0, 9}, {0, 0}},
        {"end of the range", {TOP - 2, 2}, {TOP - 1, 1}, {TOP - 1, 1}},
        {"end beyond range", {TOP - 2, TOP}, {TOP - 1, TOP}, {TOP - 1, 1}},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_box a = {{rows[i].a[0]}, {1, {rows[i].a[1]}}};
        tg_box b = {{rows[i].b[0]}, {1, {rows[i].b[1]}}}, out = {{7}, {1, {7}}};
        test_row = rows[i].name;
        bool some = tg_box_intersect(&a, &b, &out);
        CHECK(some == (rows[i].want[1] != 0));
        CHECK_U64(out.start[0], some ? rows[i].want[0] : 7);
        CHECK_U64(out.shape.n[0], some ? rows[i].want[1] : 7);
        CHECK(tg_box_intersect(&b, &a, &out) == some);
    }
    tg_box point = {{0}, {0, {0}}}, out;
    CHECK(tg_box_intersect(&point, &point, &out));
}

static void inside(void)
{
    tg_shape array = {2, {10, TOP}};
    static const struct {
        const char *name;
        tg_box box;
        bool want;
    } rows[] = {
        {"whole", {{0, 0}, {2, {10, TOP}}}, true},
        {"one too many", {{1, 0}, {2, {10, 1}}}, false},
        {"empty at end", {{10, TOP}, {2, {0, 0}}}, true},
        {"start beyond", {{11, 0}, {2, {0, 1}}}, false},
        {"wraps", {{0, 2}, {2, {1, TOP - 1}}}, false},
        {"other rank", {{0}, {1, {1}}}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_row = rows[i].name;
        CHECK(tg_box_inside(&rows[i].box, &array) == rows[i].want);
    }
}

static void grid_shapes(void)
{
    tg_shape array = {5, {0, 1, 10, 11, TOP}}, chunk = {5, {3, 5, 5, 5, 2}}, grid;
    static const uint64_t want[] = {0, 1, 2, 3, TOP / 2 + 1};

    tg_grid_shape(&array, &chunk, &grid);
    CHECK_U64(grid.ndim, 5);
    for (size_t i = 0; i < 5; i++)
        CHECK_U64(grid.n[i], want[i]);
}

static void grid_covers(void)
{
    static const struct {
        const char *name;
        uint64_t start, n, chunk;
        uint64_t first, count;
    } rows[] = {
        {"one whole chunk", 0, 10, 10, 0, 1},
        {"last item of a chunk", 9, 1, 10, 0, 1},
        {"first item of the next", 10, 1, 10, 1, 1},
        {"across a border", 9, 2, 10, 0, 2},
        {"chunks of one item", 3, 3, 1, 3, 3},
        {"empty at a border", 10, 0, 10, 1, 0},
        {"end of the number range", TOP - 1, 1, 10, (TOP - 1) / 10, 1},
        {"beyond the range", TOP - 1, TOP, 10, (TOP - 1) / 10, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_box items = {{rows[i].start}, {1, {rows[i].n}}}, got;
        tg_shape chunk = {1, {rows[i].chunk}};
        test_row = rows[i].name;
        tg_grid_cover(&items, &chunk, &got);
        CHECK_U64(got.start[0], rows[i].first);
        CHECK_U64(got.shape.n[0], rows[i].count);
    }
}

static void chunk_boxes(void)
{
    tg_shape chunk = {2, {10, (uint64_t)1 << 32}};
    static const struct {
        const char *name;
        uint64_t index[2];
        bool want;
    } rows[] = {
        {"first", {0, 0}, true},
        {"later", {3, 5}, true},
        {"last that fits", {0, ((uint64_t)1 << 32) - 2}, true},
        {"end overflows", {0, ((uint64_t)1 << 32) - 1}, false},
        {"product overflow", {TOP / 2, 0}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_box got;
        test_row = rows[i].name;
        REQUIRE(tg_grid_chunk_box(rows[i].index, &chunk, &got) == rows[i].want);
        if (rows[i].want) {
            CHECK_U64(got.start[0], rows[i].index[0] * 10);
            CHECK_U64(got.start[1], rows[i].index[1] << 32);
            CHECK(tg_shape_equal(&got.shape, &chunk));
        }
    }
}

/* Walking a box visits its positions in the order of their linear index, each once. */
static void walks_and_linear_positions(void)
{
    rng r = {5};

    for (int round = 0; round < 300; round++) {
        tg_box box = {.shape.ndim = (uint32_t)rng_below(&r, 6)};
        uint64_t index[TG_MAX_NDIM], back[TG_MAX_NDIM], rel[TG_MAX_NDIM], n = 0, total;
        for (uint32_t i = 0; i < box.shape.ndim; i++) {
            box.start[i] = rng_below(&r, 1000);
            box.shape.n[i] = 1 + rng_below(&r, 5);
        }
        memcpy(index, box.start, sizeof index);
        REQUIRE_OK(tg_shape_items(&box.shape, &total, NULL));
        do {
            for (uint32_t i = 0; i < box.shape.ndim; i++)
                rel[i] = index[i] - box.start[i];
            REQUIRE(tg_ravel(&box.shape, rel) == n);
            tg_unravel(&box.shape, n, back);
            REQUIRE(memcmp(back, rel, box.shape.ndim * sizeof rel[0]) == 0);
            n++;
        } while (tg_box_next(&box, index));
        CHECK_U64(n, total);
        CHECK(memcmp(index, box.start, box.shape.ndim * sizeof index[0]) == 0);
    }
    tg_box top = {{TOP - 1}, {1, {2}}};
    uint64_t at[1] = {TOP - 1};
    CHECK(tg_box_next(&top, at));
    CHECK(!tg_box_next(&top, at));
}

static void morton_keys(void)
{
    const uint64_t a[2] = {0, 3}, b[2] = {1, 0}, c[2] = {1, 1}, one[1] = {TOP};

    CHECK_U64(tg_morton(a, 2), 5);
    CHECK_U64(tg_morton(b, 2), 2);
    CHECK_U64(tg_morton(c, 2), 3);
    CHECK_U64(tg_morton(one, 1), TOP);
    CHECK_U64(tg_morton(one, 0), 0);
    /* All 2^16 per dimension of 4 differ: each bit of each coordinate has a place of its own.
     */
    uint64_t seen = 0;
    for (uint32_t d = 0; d < 4; d++) {
        for (uint32_t bit = 0; bit < 16; bit++) {
            uint64_t index[4] = {0};
            index[d] = (uint64_t)1 << bit;
            uint64_t key = tg_morton(index, 4);
            CHECK(key != 0 && (key & (key - 1)) == 0 && (seen & key) == 0);
            seen |= key;
        }
    }
    CHECK_U64(seen, TOP);
    const uint64_t many[32] = {3};
    CHECK_U64(tg_morton(many, 32), ((uint64_t)1 << 63) + ((uint64_t)1 << 31));
}

static void strides(void)
{
    tg_shape s = {3, {2, 3, 4}};
    int64_t c[3], f[3];
    static const int64_t want_c[] = {24, 8, 2}, want_f[] = {2, 4, 12};

    tg_strides_c(&s, 2, c);
    tg_strides_f(&s, 2, f);
    CHECK(memcmp(c, want_c, sizeof c) == 0);
    CHECK(memcmp(f, want_f, sizeof f) == 0);
}

static const struct test tests[] = {
    {"items_and_bytes", items_and_bytes},
    {"equality", equality},
    {"boxes_1d", boxes_1d},
    {"inside", inside},
    {"grid_shapes", grid_shapes},
    {"grid_covers", grid_covers},
    {"chunk_boxes", chunk_boxes},
    {"walks_and_linear_positions", walks_and_linear_positions},
    {"morton_keys", morton_keys},
    {"strides", strides},
};

TEST_MAIN(tests)
