/* Recording and reading back: every layout, in whatever way frames are handed in. */
#include "recording.h"

static const tg_dtype u8 = {TG_DT_UINT, 1}, u16 = {TG_DT_UINT, 2};

typedef struct layout_case {
    const char *name;
    tg_stream_array array;
    int format;
    bool zip;
    uint64_t frames;
} layout_case;

#define ARRAY(...) ((tg_stream_array){.size = sizeof(tg_stream_array), __VA_ARGS__})

static void record_case(const layout_case *c)
{
    char name[64];
    tg_error err = {0};
    tg_stream *s = NULL;
    tg_runtime *rt = new_runtime((uint64_t)64 << 20);

    (void)snprintf(name, sizeof name, "%s%s", c->name, c->zip ? ".zip" : "");
    const char *path = scratch(name);
    tg_stream_options o = {.size = sizeof o,
                           .path = path,
                           .format = c->format,
                           .arrays = &c->array,
                           .n_arrays = 1,
                           .commit_interval = 0.05};
    tg_status st = tg_stream_open(rt, &o, &s, &err);
    CHECK_OK(st);
    if (st == TG_OK) {
        size_t items = (size_t)((c->array.height == 0 ? 1 : c->array.height) * c->array.width);
        uint8_t *frame = tg_alloc(items * c->array.dtype.size);
        for (uint64_t i = 0; i < c->frames; i++) {
            make_frame(frame, 0, i, items, c->array.dtype.size); /* the same buffer each time */
            CHECK_OK(tg_stream_append(s, 0, frame, 1, NULL, NULL, NULL, &err));
        }
        tg_free(frame);
        tg_stream_report report = {.size = sizeof report};
        CHECK_OK(tg_stream_close(s, &report, &err));
        CHECK_U64(report.total.offered, c->frames);
        CHECK_U64(report.total.durable, c->frames);
        CHECK_U64(report.total.published, c->frames);
        CHECK_U64(report.extent[0], c->frames);
        tg_free(report.samples);
        if (!c->array.frame_axis_last) {
            CHECK_U64(shape_of(path, "0", 0), c->frames);
            check_frames(path, "0", 0, c->frames);
        }
    }
    CHECK_U64(tg_runtime_memory_used(rt), 0);
    tg_runtime_free(rt);
}

static void layouts(void)
{
    const layout_case cases[] = {
        {"plain", ARRAY(.dtype = u16, .height = 96, .width = 128), 3, false, 20},
        {"gathered", ARRAY(.dtype = u8, .height = 64, .width = 64), 3, false, 700},
        {"k4", ARRAY(.dtype = u16, .height = 30, .width = 50, .chunk_frames = 4), 3, false, 10},
        {"shards of 7", ARRAY(.dtype = u8, .height = 772, .width = 1032, .shard_frames = 7), 3,
         false, 24},
        {"no shards", ARRAY(.dtype = u16, .height = 40, .width = 40, .no_shards = true), 3,
         false, 9},
        {"no shards, k 3",
         ARRAY(.dtype = u16, .height = 40, .width = 40, .no_shards = true, .chunk_frames = 3),
         3, false, 8},
        {"live", ARRAY(.dtype = u16, .height = 100, .width = 100, .live = true), 3, false, 300},
        {"tiles",
         ARRAY(.dtype = u16, .height = 100, .width = 130, .tile_height = 32, .tile_width = 48),
         3, false, 6},
        {"tiles, k 2",
         ARRAY(.dtype = u16, .height = 100, .width = 130, .tile_height = 32, .tile_width = 48,
               .chunk_frames = 2),
         3, false, 7},
        {"zstd", ARRAY(.dtype = u16, .height = 60, .width = 70, .codec = "zstd:1"), 3, false,
         15},
        {"blosc, k 3",
         ARRAY(.dtype = u16, .height = 60, .width = 70, .codec = "blosc:lz4:5:shuffle",
               .chunk_frames = 3),
         3, false, 10},
        {"no checksum", ARRAY(.dtype = u16, .height = 64, .width = 64, .no_checksum = true), 3,
         false, 5},
        {"lines", ARRAY(.dtype = u16, .width = 1000), 3, false, 600},
        {"v2", ARRAY(.dtype = u16, .height = 60, .width = 70), 2, false, 6},
        {"v2 zstd, k 4",
         ARRAY(.dtype = u16, .height = 60, .width = 70, .codec = "zstd:1", .chunk_frames = 4),
         2, false, 6},
        {"zip", ARRAY(.dtype = u16, .height = 60, .width = 70), 3, true, 6},
        {"zip v2 k 4", ARRAY(.dtype = u16, .height = 60, .width = 70, .chunk_frames = 4), 2,
         true, 9},
        {"nothing", ARRAY(.dtype = u16, .height = 60, .width = 70), 3, false, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_row = cases[i].name;
        record_case(&cases[i]);
    }
}

static const struct test tests[] = {{"layouts", layouts}};
TEST_MAIN(tests)
