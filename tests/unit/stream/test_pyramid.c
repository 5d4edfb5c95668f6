/* Pyramids: extents and each level from the one before, frame by frame. */
#include "check.h"
#include "nd/halve.h"
#include "stream/pyramid.h"

#include <stdlib.h>

static void extents_round_up(void)
{
    static const struct {
        const char *name;
        uint64_t height, width;
        uint32_t levels;
        uint64_t last_height, last_width;
    } rows[] = {
        {"none", 5, 7, 0, 5, 7},       {"even", 512, 256, 3, 64, 32},
        {"odd", 5, 7, 2, 2, 2},        {"down to one", 5, 7, 3, 1, 1},
        {"a line", 1, 1000, 10, 1, 1}, {"one item", 1, 1, 0, 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_pyramid p = {.n_levels = 99};
        tg_dtype u16 = {TG_DT_UINT, 2};
        test_row = rows[i].name;
        CHECK_STATUS(tg_pyramid_init(&p, rows[i].height, rows[i].width, u16, rows[i].levels,
                                     TG_REDUCE_MEAN, NULL),
                     TG_OK);
        CHECK_U64(p.n_levels, rows[i].levels);
        CHECK_U64(p.height[p.n_levels], rows[i].last_height);
        CHECK_U64(p.width[p.n_levels], rows[i].last_width);
        CHECK_U64(p.bytes[p.n_levels], rows[i].last_height * rows[i].last_width * 2);
        CHECK_U64(p.bytes[0], rows[i].height * rows[i].width * 2);
    }
    test_row = "";
}

static void what_has_no_pyramid(void)
{
    static const struct {
        const char *name, *says;
        uint64_t height, width;
        tg_dtype dtype;
        uint32_t levels;
    } rows[] = {
        {"a level too many", "3 times", 5, 7, {TG_DT_UINT, 2}, 4},
        {"one item", "0 times", 1, 1, {TG_DT_UINT, 2}, 1},
        {"more than there can be", "16 times", UINT32_MAX, 1, {TG_DT_UINT, 1}, 17},
        {"complex", "complex64", 4, 4, {TG_DT_COMPLEX, 8}, 1},
        {"nothing", "without items", 0, 4, {TG_DT_UINT, 2}, 1},
        {"beyond memory", "", UINT64_MAX / 2, 4, {TG_DT_UINT, 8}, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_pyramid p = {.n_levels = 99};
        tg_error err = {0};
        test_row = rows[i].name;
        CHECK_STATUS(tg_pyramid_init(&p, rows[i].height, rows[i].width, rows[i].dtype,
                                     rows[i].levels, TG_REDUCE_MEAN, &err),
                     TG_INVALID);
        CHECK(strstr(err.msg, rows[i].says) != NULL);
        CHECK_U64(p.n_levels, 99);
    }
    test_row = "";
}

static void each_level_from_the_one_before(void)
{
    enum { H = 37, W = 53, LEVELS = 5 };
    static const tg_halve_method methods[] = {TG_HALVE_MEAN, TG_HALVE_MIN, TG_HALVE_MAX,
                                              TG_HALVE_DECIMATE};
    tg_dtype u16 = {TG_DT_UINT, 2};
    uint16_t frame[H * W], want[2][H * W], room[LEVELS][H * W];
    for (int i = 0; i < H * W; i++)
        frame[i] = (uint16_t)(i * 40503 >> 3);
    for (int m = TG_REDUCE_MEAN; m <= TG_REDUCE_DECIMATE; m++) {
        tg_pyramid p = {.n_levels = 0};
        void *levels[LEVELS];
        CHECK_STATUS(tg_pyramid_init(&p, H, W, u16, LEVELS, (tg_reduce)m, NULL), TG_OK);
        for (int i = 0; i < LEVELS; i++) {
            levels[i] = room[i];
            memset(room[i], 0x5A, sizeof room[i]);
        }
        tg_pyramid_reduce(&p, frame, levels);
        const uint16_t *from = frame;
        size_t h = H, w = W;
        for (int i = 0; i < LEVELS; i++) {
            tg_halve(u16, methods[m], from, h, w, want[i % 2]);
            h = (h + 1) / 2;
            w = (w + 1) / 2;
            CHECK(memcmp(room[i], want[i % 2], h * w * 2) == 0);
            CHECK_U64(room[i][h * w], 0x5A5A);
            from = want[i % 2];
        }
    }
}

static const struct test tests[] = {
    {"extents round up", extents_round_up},
    {"what has no pyramid", what_has_no_pyramid},
    {"each level from the one before", each_level_from_the_one_before},
};
TEST_MAIN(tests)
