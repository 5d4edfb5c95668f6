/* Every call that a recorder makes on files fails once, by kind: the error is reported, nothing
 * hangs, and what is left tells the truth. A frame whose row says that it could not be written
 * shows fill value, one whose row says it was shows its own pixels. */
#include "faults.h"
#include "recording.h"

#include <sys/stat.h>

typedef struct workload {
    const char *name;
    tg_stream_array array;
    bool zip;
    uint64_t frames;
} workload;

#define ARRAY(...)                                                                            \
    {                                                                                         \
        .size = sizeof(tg_stream_array), .dtype = {TG_DT_UINT, 2}, .height = 16, .width = 20, \
        __VA_ARGS__                                                                           \
    }

static const workload workloads[] = {
    {"chunk files", ARRAY(.no_shards = true, .chunk_frames = 1), false, 12},
    {"chunk files, k 4", ARRAY(.no_shards = true, .chunk_frames = 4), false, 14},
    {"sharded", ARRAY(.shard_frames = 4, .chunk_frames = 2), false, 14},
    {"live", ARRAY(.live = true, .chunk_frames = 2), false, 9},
    {"zstd", ARRAY(.shard_frames = 6, .chunk_frames = 3, .codec = "zstd:1"), false, 14},
    {"zip", ARRAY(.chunk_frames = 2), true, 9},
};

static long hits[FAULT_KINDS], runs, failed_runs, frames_seen;

/* One recording with the fault in place; *durable: what it had said. */
static tg_status record(const workload *w, const char *path, uint64_t *durable, tg_error *err)
{
    tg_runtime *rt = new_runtime((uint64_t)16 << 20);
    tg_stream *s = NULL;
    tg_stream_options so = {.size = sizeof so,
                            .path = path,
                            .arrays = &w->array,
                            .n_arrays = 1,
                            .commit_interval = 0.005};
    size_t items = (size_t)(w->array.height * w->array.width);
    uint8_t *frame = tg_alloc(items * 2);
    tg_stream_stats t = {.size = sizeof t};
    tg_status st = tg_stream_open(rt, &so, &s, err);

    for (uint64_t i = 0; st == TG_OK && i < w->frames; i++) {
        make_frame(frame, 0, i, items, 2);
        st = tg_stream_append(s, 0, frame, 1, NULL, NULL, NULL, err);
        if (st == TG_OK && i == w->frames / 2)
            st = tg_stream_flush(s, TG_LEVEL_DURABLE, 0, err);
    }
    if (s != NULL) {
        tg_error at_end = {0};
        tg_stream_get_stats(s, UINT32_MAX, &t);
        tg_status closed = tg_stream_close(s, NULL, &at_end);
        if (st == TG_OK && closed != TG_OK && err != NULL)
            *err = at_end;
        st = st == TG_OK ? closed : st;
    }
    *durable = t.durable;
    tg_free(frame);
    tg_runtime_free(rt);
    return st;
}

static bool read_column(tg_store *s, const char *name, uint64_t *rows, void *items, size_t cap)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};
    uint64_t zero = 0;

    if (tg_array_open(s, name, &a, NULL, NULL) != TG_OK ||
        tg_array_get_info(a, &info, NULL) != TG_OK || info.shape[0] > cap)
        return false;
    *rows = info.shape[0];
    return *rows == 0 || tg_array_read(a, &zero, info.shape, items, NULL, NULL, NULL) == TG_OK;
}

enum { MOST = 64 };

/* Each slot of the array is what the frame table says of it. */
static void check_truth(const char *path, uint64_t least)
{
    TG_AUTO_PTR(tg_store) s = open_read(path);
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};
    tg_error err = {0};
    int64_t index[MOST];
    uint8_t status[MOST];
    uint64_t rows = 0, rows_status = 0, row_of[MOST];

    REQUIRE(s != NULL);
    REQUIRE_OK(tg_array_open(s, "0", &a, NULL, &err));
    REQUIRE_OK(tg_array_get_info(a, &info, &err));
    if (info.shape[0] < least)
        fprintf(stderr, "shape %" PRIu64 ", %" PRIu64 " durable\n", info.shape[0], least);
    CHECK(info.shape[0] >= least);
    REQUIRE(info.shape[0] <= MOST);
    if (info.shape[0] == 0)
        return; /* an open that failed may have made no table yet */
    REQUIRE(read_column(s, "frames/index", &rows, index, MOST));
    REQUIRE(read_column(s, "frames/status", &rows_status, status, MOST));
    CHECK(rows == rows_status && rows >= info.shape[0]);
    for (uint64_t i = 0; i < MOST; i++)
        row_of[i] = UINT64_MAX;
    for (uint64_t r = 0; r < rows; r++) {
        CHECK(index[r] >= 0 || status[r] == TG_FRAME_FAILED);
        if (index[r] >= 0 && index[r] < MOST)
            row_of[index[r]] = r;
    }
    for (uint64_t i = 0; i < info.shape[0]; i++) {
        bool failed = row_of[i] == UINT64_MAX;
        frames_seen++;
        if (frame_equals(a, false, 1, &i, 0, failed ? UINT64_MAX : i, &err))
            continue;
        fprintf(stderr,
                "slot %" PRIu64 " of %" PRIu64 ", %" PRIu64 " rows, %s, %" PRIu64
                " durable: %s\n",
                i, info.shape[0], rows, failed ? "failed" : "ok", least, err.msg);
        test_failed(__FILE__, __LINE__, "slot is what its row says");
    }
}

static void check_left(const char *path, uint64_t durable)
{
    tg_runtime *rt = new_runtime((uint64_t)16 << 20);
    tg_error err = {0};
    tg_recover_result r = {.size = sizeof r};
    char lock[600];

    /* Its removal may be what failed; then it names this process, which lives on. */
    (void)snprintf(lock, sizeof lock, "%s.tidegate/lock", path);
    (void)unlink(lock);
    tg_status st = tg_recover(rt, path, &r, &err);

    tg_runtime_free(rt);
    if (st != TG_OK && durable > 0)
        fprintf(stderr, "recover: %s\n", err.msg);
    CHECK(st == TG_OK || durable == 0);
    if (st == TG_OK && shape_of(path, "0", 0) != UINT64_MAX)
        check_truth(path, durable);
}

static void fail_at(const workload *w, long at, int with)
{
    char name[96], row[128], command[1200];
    uint64_t durable;
    tg_error err = {0};

    (void)snprintf(name, sizeof name, "%s-%ld%s", w->name, at, w->zip ? ".zip" : "");
    (void)snprintf(row, sizeof row, "%s, errno %d at call %ld", w->name, with, at);
    test_row = row;
    const char *path = scratch(name);
    faults_use(at, with, at % 2 == 0);
    tg_status st = record(w, path, &durable, &err);
    int hit = atomic_load(&fault_hit);
    faults_end();
    runs++;
    if (hit >= 0)
        hits[hit]++;
    if (st != TG_OK) {
        if (getenv("TG_ERRNO_FROM") != NULL)
            fprintf(stderr, "%s: %s\n", row, err.msg);
        failed_runs++;
        CHECK(hit >= 0);
        CHECK(err.sys == with);
        CHECK(err.msg[0] != '\0' && (err.key[0] != '\0' || strchr(err.msg, '\'') != NULL));
    }
    if (st == TG_OK && shape_of(path, "0", 0) != UINT64_MAX)
        CHECK_U64(shape_of(path, "0", 0), w->frames);
    check_left(path, durable);
    (void)snprintf(command, sizeof command, "rm -rf '%s' '%s.tidegate'", path, path);
    CHECK(system(command) == 0);
    test_row = "";
}

static void fail_everywhere(const workload *w, long step)
{
    static const int with[] = {ENOSPC, EIO, EDQUOT};
    char name[96];
    uint64_t durable;
    tg_error err = {0};

    (void)snprintf(name, sizeof name, "%s-all%s", w->name, w->zip ? ".zip" : "");
    faults_use(0, 0, false);
    tg_status st = record(w, scratch(name), &durable, &err);
    long calls = atomic_load(&fault_count);
    faults_end();
    CHECK_STATUS(st, TG_OK);
    const char *from = getenv("TG_ERRNO_FROM"); /* to look at one call */
    for (long at = from == NULL ? 1 : strtol(from, NULL, 10); at <= calls && test_failures == 0;
         at += step)
        fail_at(w, at, with[at / step % 3]);
}

static void every_call_fails(void)
{
    const char *text = getenv("TG_ERRNO_STEP"), *soak = getenv("TG_SOAK");
    long step = text != NULL ? strtol(text, NULL, 10) : soak != NULL ? 1 : 9;

    const char *only = getenv("TG_ERRNO_ONLY");
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++)
        if (only == NULL || strcmp(only, workloads[i].name) == 0)
            fail_everywhere(&workloads[i], step < 1 ? 1 : step);
    printf("     %ld runs, %ld ended with an error, %ld frames compared; failed by kind:", runs,
           failed_runs, frames_seen);
    for (int i = 0; i < FAULT_KINDS; i++)
        if (hits[i] > 0)
            printf(" %s %ld", fault_names[i], hits[i]);
    printf("\n");
    CHECK(failed_runs > 0 && frames_seen > 0);
    CHECK(hits[FAULT_open_at] > 0 && hits[FAULT_pwrite_fd] > 0 && hits[FAULT_fdatasync_fd] > 0);
    CHECK(hits[FAULT_fsync_fd] > 0 && hits[FAULT_rename_at] > 0 && hits[FAULT_mkdir_at] > 0);
    CHECK(hits[FAULT_close_fd] > 0);
}

/* A journal that ends before what readers see is refused, with both numbers. */
static void cut_journal(void)
{
    const char *path = scratch("cut.zarr");
    tg_runtime *rt = new_runtime((uint64_t)16 << 20);
    tg_stream *s = NULL;
    tg_error err = {0};
    tg_stream_options so = {
        .size = sizeof so, .path = path, .arrays = &workloads[0].array, .n_arrays = 1};
    uint8_t frame[16 * 20 * 2];
    char side[600];

    REQUIRE_OK(tg_stream_open(rt, &so, &s, &err));
    for (uint64_t i = 0; i < 20; i++) {
        make_frame(frame, 0, i, sizeof frame / 2, 2);
        CHECK_OK(tg_stream_append(s, 0, frame, 1, NULL, NULL, NULL, &err));
    }
    CHECK_OK(tg_stream_flush(s, TG_LEVEL_PUBLISHED, 0, &err));
    tg_stream_free(s); /* as if it had been killed */
    CHECK_U64(shape_of(path, "0", 0), 20);
    (void)snprintf(side, sizeof side, "%s.tidegate/lock", path);
    (void)unlink(side);
    (void)snprintf(side, sizeof side, "%s.tidegate/journal", path);
    struct stat st;
    REQUIRE(stat(side, &st) == 0);
    CHECK(truncate(side, st.st_size / 2) == 0);
    CHECK_STATUS(tg_recover(rt, path, NULL, &err), TG_CORRUPT);
    CHECK(strstr(err.msg, "shows 20") != NULL);
    CHECK_U64(shape_of(path, "0", 0), 20);
    check_frames(path, "0", 0, 20);
    tg_runtime_free(rt);
}

static const struct test tests[] = {{"cut_journal", cut_journal},
                                    {"every_call_fails", every_call_fails}};
TEST_MAIN(tests)
