/* tests/cli/test_region.c - parts of arrays by name, and walks through them within a room. */
#include "check.h"
#include "cli/region.h"

static void parses(void)
{
    static const uint64_t shape[3] = {4, 6, 5};
    static const struct {
        const char *text;
        uint64_t start[3], count[3];
        int single;
    } rows[] = {
        {NULL, {0, 0, 0}, {4, 6, 5}, 0},        {":", {0, 0, 0}, {4, 6, 5}, 0},
        {"0:2,:,4", {0, 0, 4}, {2, 6, 1}, 4},   {"3", {3, 0, 0}, {1, 6, 5}, 1},
        {"-1,-2:,:3", {3, 4, 0}, {1, 2, 3}, 1}, {"4:4", {4, 0, 0}, {0, 6, 5}, 0},
        {":,:,:-1", {0, 0, 0}, {4, 6, 4}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cli_region r;
        tg_error err = {0};
        test_row = rows[i].text != NULL ? rows[i].text : "all";
        CHECK_STATUS(region_parse(rows[i].text, shape, 3, &r, &err), TG_OK);
        for (int d = 0; d < 3; d++) {
            CHECK_U64(r.start[d], rows[i].start[d]);
            CHECK_U64(r.count[d], rows[i].count[d]);
            CHECK(r.single[d] == (rows[i].single >> d & 1));
        }
    }
    test_row = "";
}

static void refuses(void)
{
    static const uint64_t shape[2] = {4, 6};
    static const char *const rows[] = {"",
                                       "5",
                                       "4",
                                       "-5",
                                       "0:5",
                                       "3:1",
                                       "a",
                                       "0:a",
                                       "1.5",
                                       "0:2:1",
                                       ":,:,:",
                                       ",",
                                       "0:2,",
                                       "--1",
                                       "1e1",
                                       " 1",
                                       "99999999999999999999",
                                       "9223372036854775808",
                                       "-9223372036854775808"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cli_region r;
        tg_error err = {0};
        test_row = rows[i];
        CHECK_STATUS(region_parse(rows[i], shape, 2, &r, &err), TG_INVALID);
        CHECK(err.msg[0] != '\0');
    }
    test_row = "";
}

/* Every item exactly once, in C order, never more than the room. */
static void walk(const char *text, const uint64_t *shape, const uint64_t *chunk, uint32_t ndim,
                 uint64_t most)
{
    cli_region r;
    uint64_t items, seen = 0;
    REQUIRE_OK(region_parse(text, shape, ndim, &r, NULL));
    REQUIRE(region_items(&r, &items));
    region_walk w = {.region = &r, .chunk = chunk, .most = most};
    uint64_t expected[TG_MAX_NDIM];
    memcpy(expected, r.start, sizeof expected);
    while (region_next(&w)) {
        uint64_t n = 1;
        for (uint32_t d = 0; d < ndim; d++) {
            CHECK_U64(w.start[d], expected[d]);
            n *= w.count[d];
        }
        CHECK(n > 0 && n <= most);
        seen += n;
        REQUIRE(seen <= items);
        /* Where the next box begins: the item after the last one of this. */
        uint32_t d = ndim;
        while (d > 0) {
            d--;
            expected[d] = w.start[d] + w.count[d];
            if (expected[d] < r.start[d] + r.count[d])
                break;
            expected[d] = r.start[d];
        }
    }
    CHECK_U64(seen, items);
}

static void walks(void)
{
    static const uint64_t shape[3] = {7, 9, 11}, chunk[3] = {2, 4, 5};
    for (uint64_t most = 1; most < 800; most = most * 3 / 2 + 1) {
        walk(NULL, shape, chunk, 3, most);
        walk("1:6,2:9,3:10", shape, chunk, 3, most);
        walk("5,:,0", shape, chunk, 3, most);
        walk("3:3", shape, chunk, 3, most);
    }
    walk(NULL, shape, chunk, 0, 1);
    walk("2:7", shape, chunk, 1, 3);
}

static void counts_hostile_extents(void)
{
    static const uint64_t shape[3] = {UINT64_MAX, UINT64_MAX, 0};
    cli_region r;
    uint64_t items;
    REQUIRE_OK(region_parse(NULL, shape, 2, &r, NULL));
    CHECK(!region_items(&r, &items));
    REQUIRE_OK(region_parse(NULL, shape, 3, &r, NULL));
    CHECK(region_items(&r, &items) && items == 0);
    REQUIRE_OK(region_parse("0:2,0:3", shape, 2, &r, NULL));
    CHECK(region_items(&r, &items) && items == 6);
}

static const struct test tests[] = {
    {"parses", parses},
    {"refuses", refuses},
    {"walks", walks},
    {"counts_hostile_extents", counts_hostile_extents},
};
TEST_MAIN(tests)
