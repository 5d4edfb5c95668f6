/* The geometry: counted by brute force over small shapes, against the closed forms. */
#include "../../check.h"
#include "exec/exec.h"
#include "stream/layout.h"

static const tg_dtype u16 = {TG_DT_UINT, 2};

typedef struct shape_case {
    const char *name;
    uint32_t n;
    uint64_t extent[4], arrival[4];
    uint64_t k, shard_bytes;
    uint64_t open;
} shape_case;

static void make(const shape_case *c, tg_layout *l)
{
    tg_stream_dim dims[4];
    tg_error err = {0};

    for (uint32_t d = 0; d < c->n; d++)
        dims[d] = (tg_stream_dim){"d", c->extent[d], c->arrival[d], NULL, 0};
    tg_stream_array a = {.size = sizeof a,
                         .dtype = u16,
                         .height = 8,
                         .width = 16,
                         .dims = dims,
                         .n_dims = c->n,
                         .chunk_frames = c->k,
                         .shard_bytes = c->shard_bytes};
    if (tg_layout_init(l, &a, NULL, 3, false, &err) != TG_OK) {
        fprintf(stderr, "%s: %s\n", c->name, err.msg);
        test_failed(__FILE__, __LINE__, "layout");
        *l = (tg_layout){0};
    }
}

/* Slots go once through all coordinates, in the order of arrival. */
static void check_slots(const shape_case *c, const tg_layout *l, uint64_t n)
{
    uint64_t coords[TG_STREAM_DIMS], place, before = 0;

    for (uint64_t slot = 0; slot < n; slot++) {
        tg_layout_coords(l, slot, coords);
        for (uint32_t d = 0; d < c->n; d++)
            CHECK(coords[d] < l->extent[d]);
        CHECK_U64(tg_layout_slot(l, coords), slot);
        CHECK_U64(tg_layout_slot_of_index(l, tg_layout_index(l, slot)), slot);
        uint64_t layer = tg_layout_layer(l, slot, &place);
        CHECK(place < tg_layout_layer_frames(l, layer));
        CHECK_U64(tg_layout_slot_in_layer(l, layer, place), slot);
        if (l->n_open == 1)
            CHECK(layer >= before);
        before = layer;
    }
}

/* Layers below whole_layers(s) have all their slots below s, and whole_slots() is the reverse.
 */
static void check_layers(const tg_layout *l, uint64_t n, uint64_t n_layers)
{
    uint64_t place;

    for (uint64_t s = 0; s <= n; s++) {
        uint64_t whole = tg_layout_whole_layers(l, s);
        for (uint64_t layer = 0; layer < n_layers; layer++) {
            uint64_t last =
                tg_layout_slot_in_layer(l, layer, tg_layout_layer_frames(l, layer) - 1);
            CHECK((last < s) == (layer < whole));
        }
    }
    for (uint64_t layers = 0; layers <= n_layers; layers++) {
        uint64_t slots = tg_layout_whole_slots(l, layers);
        for (uint64_t s = 0; s < slots; s++)
            CHECK(tg_layout_layer(l, s, &place) < layers);
    }
}

/* Shards are runs of layers; each entry of an index belongs to one chunk. */
static void check_shards(const tg_layout *l, uint64_t n_layers)
{
    uint64_t first, last, unit[TG_MAX_NDIM], chunk[TG_MAX_NDIM];
    uint8_t used[512];

    for (uint64_t layer = 0; layer < n_layers; layer++) {
        uint64_t shard = tg_layout_shard(l, layer);
        tg_layout_shard_range(l, shard, &first, &last);
        CHECK(first <= layer && layer < last);
        tg_layout_shard_unit(l, 0, shard, unit);
        tg_layout_chunk_unit(l, 0, layer, 0, chunk);
        for (uint32_t d = 0; d < l->n_dims; d++) {
            uint32_t axis = tg_layout_axis(l, d);
            CHECK_U64(chunk[axis] / l->shard_layers[d], unit[axis]);
        }
    }
    for (uint64_t shard = 0; n_layers > 0 && shard <= tg_layout_shard(l, n_layers - 1);
         shard++) {
        memset(used, 0, sizeof used);
        tg_layout_shard_range(l, shard, &first, &last);
        for (uint64_t layer = first; layer < last; layer++)
            for (uint32_t t = 0; t < l->plane[0].n_tiles; t++) {
                uint64_t e = tg_layout_entry(l, 0, layer, t);
                CHECK(e < l->plane[0].shard_chunks && e < sizeof used && used[e] == 0);
                used[e] = 1;
            }
    }
}

static void brute_force(void)
{
    /* clang-format off: version 14 crashes on rows like these */
    static const shape_case cases[] = {
        {"t", 1, {20}, {0}, 1, 1, 1},
        {"t, k 3", 1, {20}, {0}, 3, 4096, 1},
        {"t z", 2, {4, 6}, {0, 1}, 1, 2048, 1},
        {"t z, k 4", 2, {4, 6}, {0, 1}, 4, 4096, 1},
        {"z t: t arrives first", 2, {4, 6}, {1, 0}, 1, 2048, 1},
        {"z t: t arrives first, k 4", 2, {4, 6}, {1, 0}, 4, 4096, 4},
        {"t c z as t z c", 3, {3, 2, 5}, {0, 2, 1}, 1, 1024, 1},
        {"t c z as t z c, k 2", 3, {3, 2, 5}, {0, 2, 1}, 2, 4096, 2},
        {"p t c z as z c t p, k 2", 4, {2, 3, 2, 3}, {3, 2, 1, 0}, 2, 8192, 12},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_layout l;
        uint64_t n = 1, n_layers = 1;
        test_row = cases[i].name;
        make(&cases[i], &l);
        for (uint32_t d = 0; d < l.n_dims; d++) {
            n *= l.extent[d];
            n_layers *= l.layers[d];
        }
        CHECK_U64(l.n_slots, n);
        CHECK_U64(l.n_open, cases[i].open);
        check_slots(&cases[i], &l, n);
        check_layers(&l, n, n_layers);
        check_shards(&l, n_layers);
    }
}

static void shapes_grow(void)
{
    static const shape_case c = {"t c z", 3, {0, 2, 5}, {0, 2, 1}, 1, 0, 1};
    tg_layout l;
    uint64_t outer[TG_STREAM_DIMS];

    make(&c, &l);
    const struct {
        uint64_t slots, floor, ceil;
    } rows[] = {{0, 0, 0}, {1, 0, 1}, {9, 0, 1}, {10, 1, 1}, {11, 1, 2}, {20, 2, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_layout_shape(&l, rows[i].slots, false, outer);
        CHECK_U64(outer[0], rows[i].floor);
        CHECK_U64(outer[1], 2);
        CHECK_U64(outer[2], 5);
        tg_layout_shape(&l, rows[i].slots, true, outer);
        CHECK_U64(outer[0], rows[i].ceil);
    }
}

typedef struct bad_case {
    const char *name;
    tg_stream_array array;
    int format;
    bool zip;
    tg_status want;
} bad_case;

#define ARRAY(...)                                                             \
    {                                                                          \
        .size = sizeof(tg_stream_array), .dtype = {TG_DT_UINT, 2}, __VA_ARGS__ \
    }

static void refused(void)
{
    static const tg_stream_dim twice[] = {{"a", 2, 0, NULL, 0}, {"b", 2, 0, NULL, 0}};
    static const tg_stream_dim endless[] = {{"a", 2, 0, NULL, 0}, {"b", 0, 1, NULL, 0}};
    static const tg_stream_dim short_one[] = {{"a", 2, 0, NULL, 0}};
    static const bad_case cases[] = {
        {"no width", ARRAY(.height = 4), 3, false, TG_INVALID},
        {"tile too high", ARRAY(.height = 4, .width = 4, .tile_height = 5), 3, false,
         TG_INVALID},
        {"shards in format 2", ARRAY(.height = 4, .width = 4, .shard_frames = 2), 2, false,
         TG_UNSUPPORTED},
        {"shards in a ZIP", ARRAY(.height = 4, .width = 4, .live = true), 3, true,
         TG_UNSUPPORTED},
        {"two shard sizes", ARRAY(.height = 4, .width = 4, .shard_frames = 2, .shard_bytes = 9),
         3, false, TG_INVALID},
        {"shards and none",
         ARRAY(.height = 4, .width = 4, .shard_frames = 2, .no_shards = true), 3, false,
         TG_INVALID},
        {"shard no multiple of k",
         ARRAY(.height = 4, .width = 4, .shard_frames = 7, .chunk_frames = 2), 3, false,
         TG_INVALID},
        {"live with too many chunks",
         ARRAY(.height = 400, .width = 400, .live = true, .tile_height = 10, .tile_width = 10),
         3, false, TG_INVALID},
        {"arrival twice", ARRAY(.height = 4, .width = 4, .dims = twice, .n_dims = 2), 3, false,
         TG_INVALID},
        {"endless inside", ARRAY(.height = 4, .width = 4, .dims = endless, .n_dims = 2), 3,
         false, TG_INVALID},
        {"k beyond extent",
         ARRAY(.height = 4, .width = 4, .dims = short_one, .n_dims = 1, .chunk_frames = 3), 3,
         false, TG_INVALID},
        {"enormous", ARRAY(.height = (uint64_t)1 << 40, .width = (uint64_t)1 << 40), 3, false,
         TG_INVALID},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_layout l;
        tg_error err = {0};
        test_row = cases[i].name;
        CHECK_STATUS(
            tg_layout_init(&l, &cases[i].array, NULL, cases[i].format, cases[i].zip, &err),
            cases[i].want);
        CHECK(err.msg[0] != '\0');
    }
}

/* A plate's slots, counted one by one: which image each is of, how many an image has, where its
 * n-th lies, in every order. */
static void fields_of_a_plate(void)
{
    static const char *const orders[] = {
        "\"well\",\"field\",\"frame\"", "\"well\",\"frame\",\"field\"",
        "\"field\",\"well\",\"frame\"", "\"field\",\"frame\",\"well\"",
        "\"frame\",\"well\",\"field\"", "\"frame\",\"field\",\"well\""};
    const tg_stream_dim dims[] = {{"t", 0, 0, NULL, 0}, {"z", 2, 1, NULL, 0}};

    for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
        TG_AUTO_PTR(tg_ome_plate) plate = NULL;
        char text[160];
        tg_layout l;
        tg_stream_array a = {.size = sizeof a,
                             .dtype = u16,
                             .height = 8,
                             .width = 16,
                             .dims = dims,
                             .n_dims = 2,
                             .chunk_frames = 1};
        (void)snprintf(text, sizeof text,
                       "{\"rows\":1,\"columns\":3,\"fields\":2,\"frames\":6,\"order\":[%s]}",
                       orders[o]);
        test_row = orders[o];
        CHECK_STATUS(tg_ome_plate_parse(&plate, text, strlen(text), NULL), TG_OK);
        REQUIRE(plate != NULL);
        CHECK_STATUS(tg_layout_init(&l, &a, plate, 3, false, NULL), TG_OK);
        CHECK_U64(l.n_slots, 36);
        CHECK_U64(l.extent[0], 3);
        CHECK(l.sharded == (o == 0 || o == 2));
        uint64_t seen[6] = {0};
        for (uint64_t slot = 0; slot < l.n_slots; slot++) {
            uint64_t image, frame, place;
            int32_t well, field;
            for (uint64_t i = 0; i < 6; i++)
                CHECK_U64(tg_layout_image_slots(&l, i, slot), seen[i]);
            CHECK_STATUS(tg_ome_plate_locate(plate, slot, &image, &frame, NULL), TG_OK);
            CHECK_U64(tg_layout_image(&l, slot), image);
            CHECK_U64(tg_layout_image_slot(&l, image, frame), slot);
            uint64_t layer = tg_layout_layer(&l, slot, &place);
            CHECK_U64(tg_layout_layer_image(&l, layer), image);
            CHECK_U64(tg_layout_shard_image(&l, tg_layout_shard(&l, layer)), image);
            uint64_t index = tg_layout_index(&l, slot);
            CHECK_U64(tg_layout_slot_of_index(&l, index), slot);
            CHECK_U64(tg_layout_split_index(&l, index, &well, &field), frame);
            CHECK_U64((uint64_t)well * 2 + (uint64_t)field, image);
            uint64_t whole = tg_layout_whole_units(&l, slot);
            CHECK(whole <= slot);
            for (uint64_t i = 0; i < 6; i++)
                CHECK_U64(tg_layout_image_slots(&l, i, whole) % 2, 0);
            seen[image]++;
        }
        for (uint64_t i = 0; i < 6; i++)
            CHECK_U64(tg_layout_image_slots(&l, i, 36), 6);
    }
    test_row = "";
}

/* What a plate takes is in the estimate; what would move frames to other fields is refused. */
static void plates_and_options(void)
{
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    tg_error err = {0};
    uint64_t none = 0, small = 0, large = 0, least = 0;
    tg_stream_array a[2] = {{.size = sizeof a[0],
                             .dtype = u16,
                             .height = 8,
                             .width = 16,
                             .chunk_frames = 1,
                             .no_shards = true},
                            {.size = sizeof a[0], .name = "b", .dtype = u16, .width = 16}};
    tg_stream_options o = {
        .size = sizeof o, .path = "/nowhere/x.zarr", .arrays = a, .n_arrays = 1};

    CHECK_STATUS(tg_runtime_new(NULL, &rt, NULL), TG_OK);
    CHECK_STATUS(tg_stream_estimate(rt, &o, &least, &none, &err), TG_OK);
    o.plate = "{\"rows\":1,\"columns\":1,\"frames\":9}";
    CHECK_STATUS(tg_stream_estimate(rt, &o, &least, &small, &err), TG_OK);
    o.plate = "{\"rows\":32,\"columns\":48,\"fields\":9,\"frames\":9}";
    CHECK_STATUS(tg_stream_estimate(rt, &o, &least, &large, &err), TG_OK);
    CHECK(none < small);
    CHECK(small + 1536 * 1024 < large);

    a[0].name = "a";
    o.n_arrays = 2;
    CHECK_STATUS(tg_stream_estimate(rt, &o, &least, &large, &err), TG_UNSUPPORTED);
    o.n_arrays = 1;
    a[0].on_gap = TG_GAP_COMPACT;
    CHECK_STATUS(tg_stream_estimate(rt, &o, &least, &large, &err), TG_UNSUPPORTED);
    a[0].on_gap = TG_GAP_KEEP;
    a[0].on_full = TG_FULL_DROP_OLDEST;
    CHECK_STATUS(tg_stream_estimate(rt, &o, &least, &large, &err), TG_UNSUPPORTED);
    a[0].on_full = TG_FULL_BLOCK;
    o.ome = "none";
    CHECK_STATUS(tg_stream_estimate(rt, &o, &least, &large, &err), TG_INVALID);
    o.ome = NULL;
    o.plate = "{\"rows\":[\"frames\"],\"columns\":1,\"frames\":9}";
    CHECK_STATUS(tg_stream_estimate(rt, &o, &least, &large, &err), TG_INVALID);
    CHECK(strstr(err.msg, "frame table") != NULL);
}

static const struct test tests[] = {
    {"brute_force", brute_force},
    {"shapes_grow", shapes_grow},
    {"refused", refused},
    {"fields of a plate", fields_of_a_plate},
    {"plates and options", plates_and_options},
};
TEST_MAIN(tests)
