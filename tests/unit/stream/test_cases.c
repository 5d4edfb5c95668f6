/* Cases of recording that stand for themselves: a plane without outer dimensions, and eight
 * threads that record side by side. docs/recording-cases.md. */
#include "recording.h"

#include <pthread.h>

enum { H = 24, W = 40, ITEMS = H * W, THREADS = 8, FRAMES = 200 };

#define ARRAY(...)                                                                          \
    {                                                                                       \
        .size = sizeof(tg_stream_array), .dtype = {TG_DT_UINT, 2}, .height = H, .width = W, \
        __VA_ARGS__                                                                         \
    }

static tg_stream *open_stream(tg_runtime *rt, const char *path, const tg_stream_array *arrays,
                              uint32_t n)
{
    tg_stream *s = NULL;
    tg_error err = {0};
    tg_stream_options o = {.size = sizeof o,
                           .path = path,
                           .arrays = arrays,
                           .n_arrays = n,
                           .commit_interval = 0.02};

    if (tg_stream_open(rt, &o, &s, &err) != TG_OK)
        fprintf(stderr, "%s\n", err.msg);
    return s;
}

/* T25: an array of rank 2, and no room for another plane. */
static void single_plane(void)
{
    static const tg_stream_dim none[1];
    const tg_stream_array a = ARRAY(.dims = none, .n_dims = 0);
    tg_runtime *rt = new_runtime((uint64_t)64 << 20);
    const char *path = scratch("plane");
    uint16_t frame[ITEMS], got[ITEMS] = {0};
    tg_error err = {0};
    tg_stream *s = open_stream(rt, path, &a, 1);

    REQUIRE(s != NULL);
    make_frame((uint8_t *)frame, 0, 5, ITEMS, 2);
    CHECK_OK(tg_stream_append(s, 0, frame, 1, NULL, NULL, NULL, &err));
    CHECK(tg_stream_append(s, 0, frame, 1, NULL, NULL, NULL, &err) != TG_OK);
    tg_status closed = tg_stream_close(s, NULL, &err);
    if (closed != TG_OK)
        fprintf(stderr, "close: %s\n", err.msg); /* the second frame's refusal */
    TG_AUTO_PTR(tg_store) store = open_read(path);
    TG_AUTO_PTR(tg_array) array = NULL;
    tg_array_info info = {.size = sizeof info};
    const uint64_t start[2] = {0}, count[2] = {H, W};
    REQUIRE(store != NULL);
    REQUIRE_OK(tg_array_open(store, "0", &array, NULL, &err));
    CHECK_OK(tg_array_get_info(array, &info, &err));
    CHECK_U64(info.ndim, 2);
    CHECK(info.shape[0] == H && info.shape[1] == W);
    CHECK_OK(tg_array_read(array, start, count, got, NULL, NULL, &err));
    CHECK(memcmp(got, frame, sizeof got) == 0);
    tg_runtime_free(rt);
}

typedef struct camera {
    tg_stream *s;
    uint32_t number;
    uint64_t failed;
} camera;

static void *camera_main(void *user)
{
    camera *c = user;
    uint16_t frame[ITEMS];
    tg_error err = {0};
    tg_stream_stats t = {.size = sizeof t};

    for (uint64_t i = 0; i < FRAMES; i++) {
        make_frame((uint8_t *)frame, c->number, i, ITEMS, 2);
        c->failed +=
            tg_stream_append(c->s, c->number, frame, 1, NULL, NULL, NULL, &err) != TG_OK;
        tg_stream_get_stats(c->s, c->number, &t);
        if (i % 64 == 63)
            c->failed += tg_stream_flush(c->s, TG_LEVEL_DURABLE, 60, &err) != TG_OK;
    }
    return NULL;
}

/* T34: each into an array of its own, of every layout. Under ThreadSanitizer, too. */
static void eight_threads(void)
{
    const tg_stream_array arrays[THREADS] = {
        ARRAY(.name = "a", .chunk_frames = 1, .shard_frames = 16),
        ARRAY(.name = "b", .chunk_frames = 4, .shard_frames = 16),
        ARRAY(.name = "c", .no_shards = true, .chunk_frames = 8),
        ARRAY(.name = "d", .codec = "zstd:1", .chunk_frames = 4),
        ARRAY(.name = "e", .codec = "blosc:lz4:5:shuffle", .chunk_frames = 2),
        ARRAY(.name = "deep/f", .chunk_frames = 1),
        ARRAY(.name = "deep/g", .pyramid_levels = 2, .chunk_frames = 1),
        ARRAY(.name = "h", .tile_height = 16, .tile_width = 16)};
    tg_runtime *rt = new_runtime((uint64_t)256 << 20);
    const char *path = scratch("eight");
    tg_stream *s = open_stream(rt, path, arrays, THREADS);
    pthread_t threads[THREADS];
    camera cameras[THREADS];
    tg_error err = {0};

    REQUIRE(s != NULL);
    for (uint32_t i = 0; i < THREADS; i++) {
        cameras[i] = (camera){s, i, 0};
        REQUIRE(pthread_create(&threads[i], NULL, camera_main, &cameras[i]) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK_U64(cameras[i].failed, 0);
    }
    CHECK_OK(tg_stream_close(s, NULL, &err));
    for (uint32_t i = 0; i < THREADS; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s/0", arrays[i].name);
        CHECK_U64(shape_of(path, key, 0), FRAMES);
        check_frames(path, key, i, FRAMES);
    }
    CHECK_U64(tg_runtime_memory_used(rt), 0);
    tg_runtime_free(rt);
}

static const struct test tests[] = {
    {"single_plane", single_plane},
    {"eight_threads", eight_threads},
};
TEST_MAIN(tests)
