/* What becomes of frames that are dropped, missing, repeated, leased, skipped; of arrays that
 * end; and what each level of a flush means. */
#include "base/sync.h"
#include "base/sys.h"
#include "recording.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

static const tg_dtype u16 = {TG_DT_UINT, 2};
enum { H = 24, W = 40, ITEMS = H * W };

#define ARRAY(...)                                                                          \
    {                                                                                       \
        .size = sizeof(tg_stream_array), .dtype = {TG_DT_UINT, 2}, .height = H, .width = W, \
        __VA_ARGS__                                                                         \
    }

static tg_runtime *rt;

static tg_stream *open_stream(const char *path, const tg_stream_array *arrays, uint32_t n,
                              uint64_t memory)
{
    tg_stream *s = NULL;
    tg_error err = {0};
    tg_stream_options o = {.size = sizeof o,
                           .path = path,
                           .arrays = arrays,
                           .n_arrays = n,
                           .memory_bytes = memory,
                           .commit_interval = 0.05};
    if (rt == NULL)
        rt = new_runtime((uint64_t)128 << 20);
    if (tg_stream_open(rt, &o, &s, &err) != TG_OK)
        fprintf(stderr, "%s\n", err.msg);
    return s;
}

static tg_status offer(tg_stream *s, uint32_t array, uint64_t sequence,
                       const tg_frame_meta *meta, tg_error *err)
{
    uint16_t frame[ITEMS];
    make_frame((uint8_t *)frame, array, sequence, ITEMS, 2);
    return tg_stream_append(s, array, frame, 1, NULL, meta, NULL, err);
}

static tg_status offer_id(tg_stream *s, uint64_t id, tg_error *err)
{
    tg_frame_meta meta = {.size = sizeof meta, .id = id, .time_device_ns = (int64_t)id * 10};
    return offer(s, 0, id, &meta, err);
}

/* A column of the frame table. */
static uint64_t read_column(const char *path, const char *group, const char *name, void *dst,
                            uint64_t n)
{
    char key[128];
    TG_AUTO_PTR(tg_store) s = open_read(path);
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};
    uint64_t start = 0;
    (void)snprintf(key, sizeof key, "%s%sframes/%s", group, group[0] == '\0' ? "" : "/", name);
    if (s == NULL || tg_array_open(s, key, &a, NULL, NULL) != TG_OK ||
        tg_array_get_info(a, &info, NULL) != TG_OK)
        return UINT64_MAX;
    n = info.shape[0] < n ? info.shape[0] : n;
    if (n > 0 && tg_array_read(a, &start, &n, dst, NULL, NULL, NULL) != TG_OK)
        return UINT64_MAX;
    return info.shape[0];
}

/* The frame at index i of array 0 is that of `sequence` (UINT64_MAX: fill). */
static void check_at(const char *path, uint64_t i, uint64_t sequence)
{
    TG_AUTO_PTR(tg_store) s = open_read(path);
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_error err = {0};
    REQUIRE(s != NULL);
    REQUIRE_OK(tg_array_open(s, "0", &a, NULL, &err));
    if (!frame_equals(a, false, 1, &i, 0, sequence, &err)) {
        fprintf(stderr, "index %" PRIu64 " is not frame %" PRIu64 " %s\n", i, sequence,
                err.msg);
        test_failed(__FILE__, __LINE__, "frame at its index");
    }
}

static void close_well(tg_stream *s, tg_stream_report *report)
{
    tg_error err = {0};
    *report = (tg_stream_report){.size = sizeof *report};
    CHECK_OK(tg_stream_close(s, report, &err));
    tg_free(report->samples);
    report->samples = NULL;
}

/* --- Gaps and numbers -------------------------------------------------------------------- */

enum { FILL = -1 };

typedef struct gap_case {
    const char *name;
    tg_gap_policy on_gap;
    tg_id_kind ids;
    uint64_t id[8];
    int n;
    int index[8]; /* the id found at each index; FILL */
    int n_index;
    int status[12], row_index[12], n_rows;
    uint64_t chunk_frames;
} gap_case;

static void gaps(void)
{
    /* clang-format off: version 14 crashes on rows like these */
    static const gap_case cases[] = {
        {"keep",
         TG_GAP_KEEP,
         TG_ID_64,
         {0, 1, 2, 5, 6},
         5,
         {0, 1, 2, FILL, FILL, 5, 6},
         7,
         {0, 0, 0, 1, 1, 0, 0},
         {0, 1, 2, -1, -1, 5, 6},
         7,
         1},
        {"keep, k 4",
         TG_GAP_KEEP,
         TG_ID_64,
         {0, 1, 2, 5, 6},
         5,
         {0, 1, 2, FILL, FILL, 5, 6},
         7,
         {0, 0, 0, 1, 1, 0, 0},
         {0, 1, 2, -1, -1, 5, 6},
         7,
         4},
        {"compact",
         TG_GAP_COMPACT,
         TG_ID_64,
         {0, 1, 2, 5, 6},
         5,
         {0, 1, 2, 5, 6},
         5,
         {0, 0, 0, 0, 0},
         {0, 1, 2, 3, 4},
         5,
         1},
        {"repeated, keep",
         TG_GAP_KEEP,
         TG_ID_64,
         {7, 8, 8, 6, 9},
         5,
         {7, 8, 9},
         3,
         {0, 0, 6, 6, 0},
         {0, 1, -1, -1, 2},
         5,
         1},
        {"repeated, compact",
         TG_GAP_COMPACT,
         TG_ID_64,
         {7, 8, 8, 6, 9},
         5,
         {7, 8, 8, 6, 9},
         5,
         {0, 0, 6, 6, 0},
         {0, 1, 2, 3, 4},
         5,
         1},
        {"wrap",
         TG_GAP_KEEP,
         TG_ID_GIGE_16,
         {65534, 65535, 1, 2},
         4,
         {65534, 65535, 1, 2},
         4,
         {0, 0, 0, 0},
         {0, 1, 2, 3},
         4,
         1},
        {"wrap with a gap",
         TG_GAP_KEEP,
         TG_ID_GIGE_16,
         {65535, 2},
         2,
         {65535, FILL, 2},
         3,
         {0, 1, 0},
         {0, -1, 2},
         3,
         1},
        {"reset",
         TG_GAP_KEEP,
         TG_ID_64,
         {50000, 50001, 1, 2},
         4,
         {50000, 50001, 1, 2},
         4,
         {0, 0, 7, 0},
         {0, 1, 2, 3},
         4,
         1},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const gap_case *c = &cases[i];
        tg_stream_array a =
            ARRAY(.on_gap = c->on_gap, .ids = c->ids, .chunk_frames = c->chunk_frames);
        tg_stream_report report;
        tg_error err = {0};
        uint8_t status[12] = {0};
        int64_t index[12] = {0};
        test_row = c->name;
        const char *path = scratch(c->name);
        tg_stream *s = open_stream(path, &a, 1, 0);
        REQUIRE(s != NULL);
        for (int j = 0; j < c->n; j++)
            CHECK_OK(offer_id(s, c->id[j], &err));
        close_well(s, &report);
        CHECK_U64(report.total.offered, (uint64_t)c->n);
        CHECK_U64(shape_of(path, "0", 0), (uint64_t)c->n_index);
        for (int j = 0; j < c->n_index; j++)
            check_at(path, (uint64_t)j,
                     c->index[j] == FILL ? UINT64_MAX : (uint64_t)c->index[j]);
        CHECK_U64(read_column(path, "", "status", status, 12), (uint64_t)c->n_rows);
        CHECK_U64(read_column(path, "", "index", index, 12), (uint64_t)c->n_rows);
        for (int j = 0; j < c->n_rows; j++) {
            CHECK_U64(status[j], (uint64_t)c->status[j]);
            CHECK(index[j] == c->row_index[j]);
        }
    }
}

static void hostile_jump(void)
{
    tg_stream_array a = ARRAY(.ids = TG_ID_64, .max_gap = 100);
    tg_stream_report report;
    tg_error err = {0};
    const char *path = scratch("jump");
    tg_stream *s = open_stream(path, &a, 1, 0);

    REQUIRE(s != NULL);
    CHECK_OK(offer_id(s, 5, &err));
    CHECK_STATUS(offer_id(s, 1000000000000, &err), TG_INVALID);
    CHECK(strstr(err.msg, "1000000000000") != NULL && strstr(err.msg, "100") != NULL);
    CHECK_OK(offer_id(s, 105, &err)); /* exactly max_gap */
    close_well(s, &report);
    CHECK_U64(shape_of(path, "0", 0), 101);
    check_at(path, 0, 5);
    check_at(path, 50, UINT64_MAX);
    check_at(path, 100, 105);
    CHECK_U64(report.total.lost, 99);
}

/* --- A full ring ---------------------------------------------------------------------------
 */

/* A disk that takes nothing until the gate is opened: the ring fills, however slow the producer
 * is. */
static struct gate {
    tg_mutex lock;
    tg_cond moved;
    bool closed;
} gate;

static ssize_t gated_pwrite(int fd, const void *data, size_t n, off_t offset)
{
    TG_LOCKED_FOR_IO(&gate.lock);
    while (gate.closed)
        tg_cond_wait(&gate.moved, &gate.lock);
    return tg_sys_kernel.pwrite_fd(fd, data, n, offset);
}

static void set_gate(bool closed)
{
    TG_LOCKED(&gate.lock);
    gate.closed = closed;
    tg_cond_broadcast(&gate.moved);
}

/* Opens the gate once the ring is full: for a producer that waits. */
static void *open_when_full(void *stream)
{
    tg_stream_stats t = {.size = sizeof t};

    do {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        tg_stream_get_stats(stream, 0, &t);
    } while (t.queue_bytes < t.queue_bytes_max);
    set_gate(false);
    return NULL;
}

typedef struct full_case {
    const char *name;
    tg_full_policy policy;
    tg_gap_policy on_gap;
    double timeout;
    const char *codec;
} full_case;

enum { FULL_N = 120, FULL_SIDE = 256 };

/* What was offered, and the offers that were taken, in order. */
typedef struct full_run {
    uint64_t taken[FULL_N], n_taken, refused, timed_out;
} full_run;

/* The gate opens after half of the frames; where the producer waits, before. */
static void offer_all(tg_stream *s, const full_case *c, full_run *run)
{
    static uint16_t frame[FULL_SIDE * FULL_SIDE];
    tg_error err = {0};

    for (uint64_t j = 0; j < FULL_N; j++) {
        tg_status st;
        if (j == FULL_N / 2)
            set_gate(false);
        make_frame((uint8_t *)frame, 0, j, (size_t)FULL_SIDE * FULL_SIDE, 2);
        do {
            st = tg_stream_append(s, 0, frame, 1, NULL, NULL, NULL, &err);
            if (st != TG_TIMED_OUT || c->timeout == 0)
                break;
            run->timed_out++;
            set_gate(false);
        } while (true);
        if (st == TG_BUSY && c->policy == TG_FULL_FAIL) {
            run->refused++;
            continue;
        }
        CHECK_OK(st);
        run->taken[run->n_taken++] = j;
    }
}

/* Every row's frame is where the row says, and of the number that it says. */
static void check_rows(const char *path, const full_run *run, const tg_stream_stats *t)
{
    static uint64_t sequence[FULL_N];
    static int64_t index[FULL_N];
    static uint8_t status[FULL_N];
    uint64_t stored = 0, dropped = 0;
    uint64_t n = read_column(path, "", "sequence", sequence, FULL_N);
    TG_AUTO_PTR(tg_store) store = open_read(path);
    TG_AUTO_PTR(tg_array) array = NULL;
    tg_error err = {0};

    CHECK_U64(n, t->offered);
    CHECK_U64(n, run->n_taken);
    REQUIRE(n <= FULL_N && store != NULL);
    CHECK_U64(read_column(path, "", "index", index, FULL_N), n);
    CHECK_U64(read_column(path, "", "status", status, FULL_N), n);
    REQUIRE_OK(tg_array_open(store, "0", &array, NULL, &err));
    for (uint64_t j = 0; j < n; j++) {
        dropped += status[j] == TG_FRAME_DROPPED;
        if (index[j] < 0)
            continue;
        uint64_t at = (uint64_t)index[j];
        stored++;
        CHECK_U64(sequence[j], j);
        CHECK(frame_equals(array, false, 1, &at, 0, run->taken[j], &err));
    }
    CHECK_U64(stored, t->written);
    CHECK_U64(dropped, t->dropped);
}

static void fill_ring(const full_case *c)
{
    tg_stream_array a = {.size = sizeof a,
                         .dtype = u16,
                         .height = FULL_SIDE,
                         .width = FULL_SIDE,
                         .chunk_frames = 1,
                         .codec = c->codec,
                         .on_full = c->policy,
                         .on_gap = c->on_gap,
                         .timeout = c->timeout,
                         .decimate = 3};
    tg_stream_options o = {.size = sizeof o, .path = "x", .arrays = &a, .n_arrays = 1};
    bool waits = c->policy == TG_FULL_BLOCK && c->timeout == 0;
    uint64_t bytes, least;
    tg_stream_report report;
    full_run run = {.n_taken = 0};
    pthread_t opener;
    tg_error err = {0};

    CHECK_OK(tg_stream_estimate(rt, &o, &bytes, &least, &err));
    const char *path = scratch(c->name);
    tg_stream *s = open_stream(path, &a, 1, least + (1 << 20));
    REQUIRE(s != NULL);
    set_gate(true);
    if (waits)
        REQUIRE(pthread_create(&opener, NULL, open_when_full, s) == 0);
    offer_all(s, c, &run);
    if (waits)
        (void)pthread_join(opener, NULL);
    close_well(s, &report);
    const tg_stream_stats *t = &report.total;
    CHECK(t->queue_bytes_max / sizeof(uint16_t[FULL_SIDE][FULL_SIDE]) < FULL_N / 2);
    CHECK_U64(t->offered, FULL_N - run.refused);
    CHECK_U64(t->written + t->dropped, t->offered);
    CHECK_U64(t->durable, t->written);
    CHECK_U64(t->queue_bytes_peak, t->queue_bytes_max);
    CHECK((t->dropped > 0) == (c->policy != TG_FULL_BLOCK && c->policy != TG_FULL_FAIL));
    CHECK((run.refused > 0) == (c->policy == TG_FULL_FAIL));
    CHECK((run.timed_out > 0) == (c->timeout > 0));
    check_rows(path, &run, t);
    CHECK_U64(shape_of(path, "0", 0), c->on_gap == TG_GAP_COMPACT ? t->written : t->offered);
}

static void full_ring(void)
{
    static const full_case cases[] = {
        {"block", TG_FULL_BLOCK, TG_GAP_KEEP, 0, "none"},
        {"block zstd", TG_FULL_BLOCK, TG_GAP_KEEP, 0, "zstd:1"},
        {"block, time-out", TG_FULL_BLOCK, TG_GAP_KEEP, 0.02, "none"},
        {"fail", TG_FULL_FAIL, TG_GAP_KEEP, 0, "none"},
        {"drop-new keep", TG_FULL_DROP_NEW, TG_GAP_KEEP, 0, "zstd:1"},
        {"drop-new compact", TG_FULL_DROP_NEW, TG_GAP_COMPACT, 0, "none"},
        {"drop-oldest keep", TG_FULL_DROP_OLDEST, TG_GAP_KEEP, 0, "zstd:1"},
        {"drop-oldest compact", TG_FULL_DROP_OLDEST, TG_GAP_COMPACT, 0, "none"},
        {"decimate", TG_FULL_DECIMATE, TG_GAP_COMPACT, 0, "zstd:1"},
    };
    tg_sys table = tg_sys_kernel;

    tg_mutex_init(&gate.lock);
    tg_cond_init(&gate.moved);
    table.pwrite_fd = gated_pwrite;
    if (rt == NULL)
        rt = new_runtime((uint64_t)128 << 20);
    tg_sys_use(&table);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_row = cases[i].name;
        fill_ring(&cases[i]);
    }
    tg_sys_use(NULL);
    tg_cond_destroy(&gate.moved);
    tg_mutex_destroy(&gate.lock);
}

/* --- Leases, skips, notes
 * ---------------------------------------------------------------------- */

static void leases(void)
{
    static const uint64_t ks[] = {1, 4};

    for (int i = 0; i < 2; i++) {
        tg_stream_array a = ARRAY(.chunk_frames = ks[i], .ids = TG_ID_64);
        tg_stream_report report;
        tg_error err = {0};
        const char *path = scratch(i == 0 ? "lease" : "lease4");
        tg_stream *s = open_stream(path, &a, 1, 0);
        static const uint64_t ids[] = {0, 1, 2, 4, 9, 10};
        REQUIRE(s != NULL);
        for (size_t j = 0; j < sizeof ids / sizeof ids[0]; j++) {
            void *frame;
            size_t pitch;
            tg_frame_meta meta = {.size = sizeof meta, .id = ids[j]};
            CHECK_OK(tg_stream_lease(s, 0, &frame, &pitch, &err));
            REQUIRE(frame != NULL);
            CHECK_U64(pitch, W * 2);
            make_frame(frame, 0, ids[j], ITEMS, 2);
            CHECK_STATUS(tg_stream_lease(s, 0, &frame, &pitch, &err), TG_INVALID);
            CHECK_OK(tg_stream_commit(s, 0, &meta, &err));
        }
        void *frame;
        size_t pitch;
        CHECK_OK(tg_stream_lease(s, 0, &frame, &pitch, &err));
        tg_stream_unlease(s, 0);
        CHECK_STATUS(tg_stream_commit(s, 0, NULL, &err), TG_INVALID);
        close_well(s, &report);
        CHECK_U64(shape_of(path, "0", 0), 11);
        for (uint64_t at = 0; at < 11; at++) {
            bool there = at != 3 && (at < 5 || at > 8);
            check_at(path, at, there ? at : UINT64_MAX);
        }
    }
}

static void skips_and_notes(void)
{
    tg_stream_array a = ARRAY(.chunk_frames = 1, .no_shards = true);
    tg_stream_report report;
    tg_error err = {0};
    const char *path = scratch("skip");
    tg_stream *s = open_stream(path, &a, 1, 0);
    uint8_t status[16] = {0};
    uint64_t at[1] = {9};
    uint16_t frame[ITEMS];

    REQUIRE(s != NULL);
    CHECK_OK(offer(s, 0, 0, NULL, &err));
    CHECK_OK(tg_stream_skip(s, 0, 6, "autofocus", &err));
    CHECK_OK(offer(s, 0, 7, NULL, &err));
    make_frame((uint8_t *)frame, 0, 9, ITEMS, 2);
    CHECK_OK(tg_stream_append_at(s, 0, at, frame, NULL, NULL, &err));
    CHECK_STATUS(tg_stream_append_at(s, 0, at, frame, NULL, NULL, &err), TG_INVALID);
    CHECK_OK(tg_stream_note(s, 0, 1, TG_FRAME_PARTIAL, NULL, &err));
    close_well(s, &report);
    CHECK_U64(shape_of(path, "0", 0), 10);
    CHECK_U64(report.total.skipped, 7);
    CHECK_U64(report.total.partial, 1);
    check_at(path, 0, 0);
    check_at(path, 3, UINT64_MAX);
    check_at(path, 7, 7);
    check_at(path, 8, UINT64_MAX);
    check_at(path, 9, 9);
    CHECK_U64(read_column(path, "", "status", status, 16), 11);
    CHECK_U64(status[1], TG_FRAME_SKIPPED);
    CHECK_U64(status[7], TG_FRAME_OK);
    CHECK_U64(status[8], TG_FRAME_SKIPPED);
    CHECK_U64(status[10], TG_FRAME_PARTIAL);
    /* Slots without pixels take no file. */
    char chunk[600];
    (void)snprintf(chunk, sizeof chunk, "%s/0/c/3/0/0", path);
    CHECK(access(chunk, F_OK) != 0);
    (void)snprintf(chunk, sizeof chunk, "%s/0/c/7/0/0", path);
    CHECK(access(chunk, F_OK) == 0);
}

/* --- Levels
 * --------------------------------------------------------------------------------------- */

typedef struct named_array {
    const char *name;
    tg_stream_array array;
} named_array;

enum { N_LEVEL_CASES = 5 };

static named_array level_case(size_t i)
{
    named_array c = {"levels k4", ARRAY(.chunk_frames = 4)};

    if (i == 1) {
        c.name = "levels unsharded";
        c.array.no_shards = true;
    } else if (i == 2) {
        c.name = "levels live";
        c.array.live = true;
    } else if (i == 3) {
        c.name = "levels zstd";
        c.array.codec = "zstd:1";
    } else if (i == 4) {
        c.name = "levels tiles";
        c.array.tile_height = 7;
        c.array.tile_width = 9;
    }
    return c;
}

static void levels(void)
{
    for (size_t i = 0; i < N_LEVEL_CASES; i++) {
        const named_array c = level_case(i);
        tg_stream_report report;
        tg_error err = {0};
        tg_stream_stats t = {.size = sizeof t};
        test_row = c.name;
        const char *path = scratch(c.name);
        tg_stream *s = open_stream(path, &c.array, 1, 0);
        REQUIRE(s != NULL);
        for (uint64_t j = 0; j < 10; j++)
            CHECK_OK(offer(s, 0, j, NULL, &err));
        CHECK_OK(tg_stream_flush(s, TG_LEVEL_DURABLE, 20, &err));
        tg_stream_get_stats(s, 0, &t);
        CHECK_U64(t.durable, 10);
        CHECK_U64(t.written, 10);
        CHECK_OK(tg_stream_flush(s, TG_LEVEL_PUBLISHED, 20, &err));
        tg_stream_get_stats(s, 0, &t);
        CHECK_U64(t.published, 10);
        CHECK_U64(shape_of(path, "0", 0), 10);
        check_frames(path, "0", 0, 10);
        CHECK_OK(tg_stream_flush(s, TG_LEVEL_PUBLISHED, 20, &err)); /* again: nothing to do */
        for (uint64_t j = 10; j < 17; j++) {
            CHECK_OK(offer(s, 0, j, NULL, &err));
            check_frames(path, "0", 0, 10); /* a reader's frames stay while the shard goes on */
        }
        CHECK_OK(tg_stream_flush(s, TG_LEVEL_PUBLISHED, 20, &err));
        check_frames(path, "0", 0, 17);
        for (uint64_t j = 17; j < 20; j++)
            CHECK_OK(offer(s, 0, j, NULL, &err));
        close_well(s, &report);
        CHECK_U64(shape_of(path, "0", 0), 20);
        check_frames(path, "0", 0, 20);
        CHECK_U64(report.total.published, 20);
    }
}

/* --- Several arrays
 * ----------------------------------------------------------------------------------- */

static void several_arrays(void)
{
    const tg_stream_array arrays[] = {ARRAY(.name = "a", .chunk_frames = 1),
                                      ARRAY(.name = "deep/b", .codec = "zstd:1"),
                                      ARRAY(.name = "c", .no_shards = true, .chunk_frames = 2)};
    tg_stream_report report;
    tg_error err = {0}, why = {.code = TG_IO, .msg = "the camera is gone"}, got = {0};
    const char *path = scratch("several");
    tg_stream *s = open_stream(path, arrays, 3, 0);

    REQUIRE(s != NULL);
    for (uint64_t j = 0; j < 9; j++)
        for (uint32_t i = 0; i < 3; i++)
            if (i != 2 || j < 5)
                CHECK_OK(offer(s, i, j, NULL, &err));
    CHECK_OK(tg_stream_end_array(s, 2, &why, &err));
    CHECK_STATUS(offer(s, 2, 5, NULL, &err), TG_IO);
    CHECK(strcmp(err.msg, why.msg) == 0);
    for (int wait = 0; wait < 200; wait++) { /* its end is published while the others go on */
        tg_stream_stats t = {.size = sizeof t};
        tg_stream_get_stats(s, 2, &t);
        if (t.published == 5)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    CHECK_U64(shape_of(path, "c/0", 0), 5);
    CHECK_OK(offer(s, 0, 9, NULL, &err));
    CHECK_STATUS(tg_stream_last_error(s, UINT32_MAX, &got, NULL), TG_IO);
    report = (tg_stream_report){.size = sizeof report};
    CHECK_STATUS(tg_stream_close(s, &report, &err), TG_IO);
    tg_free(report.samples);
    check_frames(path, "a/0", 0, 10);
    check_frames(path, "deep/b/0", 1, 9);
    check_frames(path, "c/0", 2, 5);
    char journal[600];
    (void)snprintf(journal, sizeof journal, "%s.tidegate", path);
    CHECK(access(journal, F_OK) != 0); /* all that was taken is published: nothing to recover */
}

/* --- Wrong use, and modes
 * ------------------------------------------------------------------------------ */

static void wrong_use(void)
{
    tg_stream_array a = ARRAY(.chunk_frames = 1);
    tg_stream_report report;
    tg_error err = {0};
    const char *path = scratch("wrong");
    tg_stream *s = open_stream(path, &a, 1, 0), *other = NULL;
    uint16_t frame[ITEMS] = {0};
    tg_stream_options o = {.size = sizeof o, .path = path, .arrays = &a, .n_arrays = 1};

    REQUIRE(s != NULL);
    CHECK_STATUS(tg_stream_append(s, 1, frame, 1, NULL, NULL, NULL, &err), TG_INVALID);
    CHECK_STATUS(tg_stream_append(s, 0, NULL, 1, NULL, NULL, NULL, &err), TG_INVALID);
    CHECK_STATUS(tg_stream_open(rt, &o, &other, &err), TG_BUSY);
    CHECK(strstr(err.msg, "process") != NULL);
    CHECK_OK(offer(s, 0, 0, NULL, &err));
    tg_stream_cancel(s);
    CHECK_STATUS(offer(s, 0, 1, NULL, &err), TG_CANCELLED);
    close_well(s, &report);
    check_frames(path, "0", 0, 1);
    CHECK_STATUS(tg_stream_open(rt, &o, &other, &err), TG_EXISTS);
    o.path = scratch("no-zarr");
    char command[600];
    (void)snprintf(command, sizeof command, "mkdir '%s' && touch '%s/photo'", o.path, o.path);
    REQUIRE(system(command) == 0);
    o.mode = TG_STREAM_OVERWRITE;
    CHECK_STATUS(tg_stream_open(rt, &o, &other, &err), TG_EXISTS);
    (void)snprintf(command, sizeof command, "%s/photo", o.path);
    CHECK(access(command, F_OK) == 0);
    o.mode = TG_STREAM_CREATE;
    o.path = scratch("too small");
    o.memory_bytes = 8192;
    CHECK_STATUS(tg_stream_open(rt, &o, &other, &err), TG_OVER_BUDGET);
    CHECK(access(o.path, F_OK) != 0);
}

/* T10: three frames over eight: nothing of the older run is left. */
static void overwritten(void)
{
    tg_stream_array a = ARRAY(.chunk_frames = 1, .no_shards = true);
    tg_stream_options o = {.size = sizeof o, .arrays = &a, .n_arrays = 1};
    tg_error err = {0};

    o.path = scratch("over");
    if (rt == NULL)
        rt = new_runtime((uint64_t)128 << 20);
    for (int run = 0; run < 2; run++) {
        tg_stream *s = NULL;
        tg_stream_report report;
        o.mode = run == 0 ? TG_STREAM_CREATE : TG_STREAM_OVERWRITE;
        CHECK_OK(tg_stream_open(rt, &o, &s, &err));
        REQUIRE(s != NULL);
        for (uint64_t j = 0; j < (run == 0 ? 8u : 3u); j++)
            CHECK_OK(offer(s, 0, j, NULL, &err));
        close_well(s, &report);
    }
    CHECK_U64(shape_of(o.path, "0", 0), 3);
    check_frames(o.path, "0", 0, 3);
    char chunk[600];
    (void)snprintf(chunk, sizeof chunk, "%s/0/c/5/0/0", o.path);
    CHECK(access(chunk, F_OK) != 0);
}

static int unlinks_left;

static int few_unlinks(int dir, const char *path, int flags)
{
    if (unlinks_left-- > 0)
        return tg_sys_kernel.unlink_at(dir, path, flags);
    errno = EIO;
    return -1;
}

/* Ended at any moment of the removal, what is left shows no frame that is not there, and may be
 * overwritten. */
static void overwriting_ends(void)
{
    tg_stream_array a = ARRAY(.chunk_frames = 1, .no_shards = true);
    tg_stream_options o = {.size = sizeof o, .arrays = &a, .n_arrays = 1};
    tg_sys table = *tg_sys_table();
    tg_error err = {0};
    char command[600];
    int failed = 0;

    table.unlink_at = few_unlinks;
    o.path = scratch("over and out");
    (void)snprintf(command, sizeof command, "rm -rf '%s.tidegate'", o.path);
    if (rt == NULL)
        rt = new_runtime((uint64_t)128 << 20);
    for (int n = 0; n < 24; n += 4) {
        tg_stream *s = NULL;
        o.mode = TG_STREAM_OVERWRITE;
        CHECK_OK(tg_stream_open(rt, &o, &s, &err));
        for (uint64_t j = 0; s != NULL && j < 4; j++)
            CHECK_OK(offer(s, 0, j, NULL, &err));
        CHECK_OK(tg_stream_close(s, NULL, &err));
        unlinks_left = n;
        tg_sys_use(&table);
        tg_status st = tg_stream_open(rt, &o, &s, &err);
        failed += st != TG_OK;
        if (st == TG_OK)
            tg_stream_free(s);
        tg_sys_use(NULL);
        CHECK(system(command) == 0);
        uint64_t shape = shape_of(o.path, "0", 0);
        CHECK(shape == UINT64_MAX || shape == (st == TG_OK ? 0 : 4));
        if (shape == 4)
            check_frames(o.path, "0", 0, 4);
    }
    CHECK(failed > 3);
}

static void appended(void)
{
    static const named_array cases[] = {
        {"append k1", ARRAY(.chunk_frames = 1, .shard_frames = 4)},
        {"append k4", ARRAY(.chunk_frames = 4, .shard_frames = 8)},
        {"append unsharded", ARRAY(.chunk_frames = 3, .no_shards = true)},
        {"append live", ARRAY(.chunk_frames = 4, .live = true)},
        {"append zstd", ARRAY(.chunk_frames = 4, .codec = "zstd:1")},
    };
    static const uint64_t parts[] = {5, 1, 0, 7, 6};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_stream_options o = {.size = sizeof o, .arrays = &cases[i].array, .n_arrays = 1};
        tg_error err = {0};
        uint64_t n = 0, sequence[32] = {0};
        test_row = cases[i].name;
        o.path = scratch(cases[i].name);
        if (rt == NULL)
            rt = new_runtime((uint64_t)128 << 20);
        for (size_t part = 0; part < sizeof parts / sizeof parts[0]; part++) {
            tg_stream *s = NULL;
            tg_stream_report report;
            o.mode = part == 0 ? TG_STREAM_CREATE : TG_STREAM_APPEND;
            CHECK_OK(tg_stream_open(rt, &o, &s, &err));
            REQUIRE(s != NULL);
            for (uint64_t j = 0; j < parts[part]; j++, n++)
                CHECK_OK(offer(s, 0, n, NULL, &err));
            close_well(s, &report);
            CHECK_U64(shape_of(o.path, "0", 0), n);
            check_frames(o.path, "0", 0, n);
        }
        CHECK_U64(read_column(o.path, "", "sequence", sequence, 32), n);
        for (uint64_t j = 0; j < n; j++)
            CHECK_U64(sequence[j], j);
    }
}

/* --- A disk with little room ------------------------------------------------------------- */

static uint64_t free_bytes;
static int n_allocated;

static int little_is_free(int fd, uint64_t *bytes)
{
    (void)fd;
    *bytes = free_bytes;
    return 0;
}

static int no_room(int fd, off_t at, off_t len)
{
    (void)fd, (void)at, (void)len;
    n_allocated++;
    errno = ENOSPC;
    return -1;
}

/* What fits is recorded, though a whole shard would not: room for it is asked for only where
 * that leaves as much again, and is no condition. */
static void shard_larger_than_the_disk(void)
{
    static const struct {
        const char *name;
        uint64_t free;
        bool asked;
    } rows[] = {{"small disk", 8 << 20, false}, {"quota", UINT64_MAX, true}};
    const tg_stream_array a = ARRAY(.shard_frames = 4096, .chunk_frames = 1); /* 7.5 MiB */
    tg_sys table = *tg_sys_table();
    tg_error err = {0};

    table.free_fd = little_is_free;
    table.allocate_fd = no_room;
    for (int i = 0; i < 2; i++) {
        const char *path = scratch(rows[i].name);
        test_row = rows[i].name;
        free_bytes = rows[i].free;
        n_allocated = 0;
        tg_sys_use(&table);
        tg_stream *s = open_stream(path, &a, 1, (uint64_t)32 << 20);
        for (uint64_t f = 0; s != NULL && f < 9; f++)
            CHECK_OK(offer(s, 0, f, NULL, &err));
        CHECK_OK(tg_stream_close(s, NULL, &err));
        tg_sys_use(NULL);
        CHECK((n_allocated > 0) == rows[i].asked);
        check_frames(path, "0", 0, 9);
    }
    test_row = "";
}

static bool shard_is_there(const char *path, int shard)
{
    char file[512];
    (void)snprintf(file, sizeof file, "%s/0/c/%d/0/0", path, shard);
    return access(file, F_OK) == 0;
}

/* The files of the next shard are made when half of one is written. They go again where no next
 * one comes: it ended, or frames were skipped. */
static void made_ahead(void)
{
    static const struct {
        const char *name;
        uint64_t then; /* index of one more frame; 0: none */
    } rows[] = {{"ends", 0}, {"goes on", 10}, {"skips", 20}};
    const tg_stream_array a = ARRAY(.shard_frames = 8, .chunk_frames = 1, .ids = TG_ID_64,
                                    .on_gap = TG_GAP_KEEP, .max_gap = 100);
    const struct timespec moment = {0, 1000000};
    tg_error err = {0};

    for (int i = 0; i < 3; i++) {
        const char *path = scratch(rows[i].name);
        test_row = rows[i].name;
        tg_stream *s = open_stream(path, &a, 1, (uint64_t)32 << 20);
        for (uint64_t f = 0; f < 6; f++)
            CHECK_OK(offer_id(s, f, &err));
        for (int ms = 0; ms < 120000 && !shard_is_there(path, 1); ms++)
            (void)nanosleep(&moment, NULL);
        CHECK(shard_is_there(path, 1));
        if (rows[i].then > 0)
            CHECK_OK(offer_id(s, rows[i].then, &err));
        CHECK_OK(tg_stream_close(s, NULL, &err));
        CHECK(shard_is_there(path, 1) == (rows[i].then / 8 == 1));
        CHECK(!shard_is_there(path, 3));
        for (uint64_t f = 0; f < 6; f++)
            check_at(path, f, f);
        if (rows[i].then > 0)
            check_at(path, rows[i].then, rows[i].then);
    }
    test_row = "";
}

static const struct test tests[] = {
    {"gaps", gaps},
    {"hostile_jump", hostile_jump},
    {"full_ring", full_ring},
    {"leases", leases},
    {"skips_and_notes", skips_and_notes},
    {"levels", levels},
    {"several_arrays", several_arrays},
    {"wrong_use", wrong_use},
    {"overwritten", overwritten},
    {"overwriting_ends", overwriting_ends},
    {"appended", appended},
    {"shard_larger_than_the_disk", shard_larger_than_the_disk},
    {"made_ahead", made_ahead},
};
TEST_MAIN(tests)
