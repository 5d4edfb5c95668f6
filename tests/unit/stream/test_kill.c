/* A recorder killed at a system call, then looked at without and with recover. The child tells
 * the parent through shared memory how far it had come; that is the oracle. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif
#include "faults.h"
#include "recording.h"

#include <sys/mman.h>
#include <sys/wait.h>

/* What the child knew when it died. */
typedef struct oracle {
    _Atomic uint64_t offered, written, durable;
    atomic_long calls;
    atomic_long kinds[FAULT_KINDS];
    atomic_bool closed;
} oracle;

typedef struct workload {
    const char *name;
    tg_stream_array array;
    int format;
    bool zip;
    uint64_t frames;
    uint64_t flush_every; /* PUBLISHED (durable in a ZIP); 0: never */
} workload;

#define ARRAY(...)                                   \
    {                                                \
        .size = sizeof(tg_stream_array), __VA_ARGS__ \
    }
#define U8            \
    {                 \
        TG_DT_UINT, 1 \
    }
#define U16           \
    {                 \
        TG_DT_UINT, 2 \
    }

static void note(tg_stream *s, oracle *o)
{
    tg_stream_stats t = {.size = sizeof t};
    tg_stream_get_stats(s, UINT32_MAX, &t);
    atomic_store(&o->offered, t.offered);
    atomic_store(&o->written, t.written);
    atomic_store(&o->durable, t.durable);
}

/* In the child: 0 recorded to the end. */
static int record(const workload *w, const char *path, oracle *o)
{
    tg_stream *s = NULL;
    tg_error err = {0};
    tg_runtime *rt = new_runtime((uint64_t)32 << 20);
    tg_stream_options so = {.size = sizeof so,
                            .path = path,
                            .format = w->format,
                            .arrays = &w->array,
                            .n_arrays = 1,
                            .commit_interval = 0.01};
    size_t items = (size_t)(w->array.height * w->array.width);
    uint8_t *frame = tg_alloc(items * w->array.dtype.size);

    if (tg_stream_open(rt, &so, &s, &err) != TG_OK)
        return 2;
    for (uint64_t i = 0; i < w->frames; i++) {
        make_frame(frame, 0, i, items, w->array.dtype.size);
        if (tg_stream_append(s, 0, frame, 1, NULL, NULL, NULL, &err) != TG_OK)
            return 3;
        note(s, o);
        if (w->flush_every != 0 && (i + 1) % w->flush_every == 0 &&
            tg_stream_flush(s, w->zip ? TG_LEVEL_DURABLE : TG_LEVEL_PUBLISHED, 0, &err) !=
                TG_OK)
            return 4;
        note(s, o);
    }
    if (tg_stream_close(s, NULL, &err) != TG_OK)
        return 5;
    tg_free(frame);
    tg_runtime_free(rt);
    return 0;
}

/* Run the workload with a kill at call `at`; true: it was killed. */
static bool run_child(const workload *w, const char *path, long at, oracle *o)
{
    int status = 0;

    memset(o, 0, sizeof *o);
    pid_t pid = fork();
    if (pid == 0) {
        faults_use(at, 0, false);
        int rc = record(w, path, o);
        atomic_store(&o->closed, rc == 0);
        atomic_store(&o->calls, atomic_load(&fault_count));
        for (int i = 0; i < FAULT_KINDS; i++)
            atomic_store(&o->kinds[i], atomic_load(&fault_kinds[i]));
        _exit(rc);
    }
    if (waitpid(pid, &status, 0) != pid)
        abort();
    if (WIFSIGNALED(status))
        return true;
    CHECK_U64((uint64_t)WEXITSTATUS(status), 0);
    return false;
}

/* Before recover a directory opens, or is not there at all; what it shows is right. */
static void look_before(const workload *w, const char *path, const oracle *o)
{
    uint64_t shape = w->zip ? UINT64_MAX : shape_of(path, "0", 0);

    if (shape == UINT64_MAX)
        return;
    CHECK(shape <= atomic_load(&o->offered) + 1);
    check_frames(path, "0", 0, shape);
}

static void look_after(const char *path, const oracle *o)
{
    tg_runtime *rt = new_runtime((uint64_t)32 << 20);
    tg_error err = {0};
    tg_recover_result r = {.size = sizeof r};
    tg_status st = tg_recover(rt, path, &r, &err);

    if (st != TG_OK && atomic_load(&o->offered) > 0) {
        fprintf(stderr, "%s: %s\n", test_row, err.msg);
        test_failed(__FILE__, __LINE__, "recovered");
    }
    if (st == TG_OK && shape_of(path, "0", 0) != UINT64_MAX) {
        uint64_t shape = shape_of(path, "0", 0);
        CHECK(shape >= atomic_load(&o->durable));
        CHECK(shape >= atomic_load(&o->written));
        CHECK_U64(r.frames_after, shape);
        check_frames(path, "0", 0, shape);
        tg_recover_result again = {.size = sizeof again};
        CHECK_OK(tg_recover(rt, path, &again, &err));
        CHECK_U64(again.repaired, 0);
        CHECK_U64(again.frames_before, shape);
        CHECK_U64(again.frames_after, shape);
    } else if (st == TG_OK) {
        CHECK_U64(atomic_load(&o->written), 0);
    }
    tg_runtime_free(rt);
}

static long kills, kinds_hit[FAULT_KINDS];

static void kill_everywhere(const workload *w, long step)
{
    char name[96], row[128];
    oracle *o =
        mmap(NULL, sizeof *o, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (o == MAP_FAILED)
        abort();
    (void)snprintf(name, sizeof name, "%s-all%s", w->name, w->zip ? ".zip" : "");
    CHECK(!run_child(w, scratch(name), 0, o));
    long calls = atomic_load(&o->calls);
    for (int i = 0; i < FAULT_KINDS; i++)
        kinds_hit[i] += atomic_load(&o->kinds[i]);
    for (long at = 1; at <= calls && test_failures == 0; at += step) {
        (void)snprintf(name, sizeof name, "%s-%ld%s", w->name, at, w->zip ? ".zip" : "");
        (void)snprintf(row, sizeof row, "%s, killed at call %ld of %ld", w->name, at, calls);
        test_row = row;
        const char *path = scratch(name);
        kills += run_child(w, path, at, o);
        look_before(w, path, o);
        if (test_failures > 0)
            fprintf(stderr, "%s: before recover\n", row);
        look_after(path, o);
        if (test_failures > 0 && getenv("TG_KEEP") != NULL)
            (void)kill(getpid(), SIGKILL);
        char command[1200];
        (void)snprintf(command, sizeof command, "rm -rf '%s' '%s.tidegate'", path, path);
        CHECK(system(command) == 0);
    }
    test_row = "";
    (void)munmap(o, sizeof *o);
}

static const workload workloads[] = {
    {"sharded",
     ARRAY(.dtype = U16, .height = 64, .width = 100, .shard_frames = 4, .chunk_frames = 1), 3,
     false, 14, 0},
    {"sharded, k 4, flushed",
     ARRAY(.dtype = U16, .height = 32, .width = 50, .shard_frames = 8, .chunk_frames = 4), 3,
     false, 18, 5},
    {"unsharded",
     ARRAY(.dtype = U16, .height = 32, .width = 50, .no_shards = true, .chunk_frames = 1), 3,
     false, 8, 0},
    {"unsharded, k 3, flushed",
     ARRAY(.dtype = U16, .height = 32, .width = 50, .no_shards = true, .chunk_frames = 3), 3,
     false, 8, 4},
    {"live", ARRAY(.dtype = U8, .height = 64, .width = 64, .live = true, .chunk_frames = 1), 3,
     false, 10, 4},
    {"zstd",
     ARRAY(.dtype = U16, .height = 64, .width = 64, .codec = "zstd:1", .shard_frames = 4,
           .chunk_frames = 1),
     3, false, 12, 0},
    {"zip", ARRAY(.dtype = U16, .height = 32, .width = 50, .chunk_frames = 2), 3, true, 9, 4},
};

static long step_of(void)
{
    const char *text = getenv("TG_KILL_STEP");
    long step = text == NULL ? 7 : strtol(text, NULL, 10);
    return step < 1 ? 1 : step;
}

static void killed_at_calls(void)
{
    const char *only = getenv("TG_KILL_ONLY");
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++)
        if (only == NULL || strcmp(only, workloads[i].name) == 0)
            kill_everywhere(&workloads[i], step_of());
    printf("     %ld kills; calls by kind:", kills);
    for (int i = 0; i < FAULT_KINDS; i++)
        printf(" %s %ld", fault_names[i], kinds_hit[i]);
    printf("\n");
    CHECK(kills > 50);
    CHECK(kinds_hit[FAULT_pwrite_fd] > 0 && kinds_hit[FAULT_fdatasync_fd] > 0);
    CHECK(kinds_hit[FAULT_rename_at] > 0 && kinds_hit[FAULT_unlink_at] > 0);
}

static const struct test tests[] = {{"killed_at_calls", killed_at_calls}};
TEST_MAIN(tests)
