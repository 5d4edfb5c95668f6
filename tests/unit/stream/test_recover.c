/* What recover refuses, and what it does when memory runs out: every allocation of the recorder
 * and of recover fails once. No durable frame is lost by that, and nothing is said to be done
 * that is not. */
#include "base/sys.h"
#include "recording.h"
#include "stream/recover_model.h"

#include <fcntl.h>
#include <sys/stat.h>

#define ARRAY(...)                                                                            \
    {                                                                                         \
        .size = sizeof(tg_stream_array), .dtype = {TG_DT_UINT, 2}, .height = 16, .width = 20, \
        __VA_ARGS__                                                                           \
    }
enum { ITEMS = 16 * 20, FRAMES = 11, MEMORY = 32 << 20 };

typedef struct workload {
    const char *name;
    tg_stream_array array;
    bool zip;
    const char *plate; /* all frames go to its first field; NULL: none */
    int format;
    uint64_t frames;
} workload;

static const workload workloads[] = {
    {"chunk files, k 4", ARRAY(.no_shards = true, .chunk_frames = 4), false, NULL, 3, FRAMES},
    {"sharded", ARRAY(.shard_frames = 4, .chunk_frames = 2), false, NULL, 3, FRAMES},
    {"live", ARRAY(.live = true, .chunk_frames = 1), false, NULL, 3, FRAMES},
    {"zstd", ARRAY(.shard_frames = 6, .chunk_frames = 3, .codec = "zstd:1"), false, NULL, 3,
     FRAMES},
    {"pyramid", ARRAY(.chunk_frames = 1, .pyramid_levels = 1, .shard_frames = 4), false, NULL,
     3, FRAMES},
    {"zip", ARRAY(.chunk_frames = 2), true, NULL, 3, FRAMES},
    {"plate", ARRAY(.chunk_frames = 2, .pyramid_levels = 1), false,
     "{\"rows\":1,\"columns\":2,\"frames\":11}", 3, FRAMES},
    {"zip, plate", ARRAY(.chunk_frames = 3), true, "{\"rows\":1,\"columns\":2,\"frames\":11}",
     3, FRAMES},
};
enum { N_WORKLOADS = sizeof workloads / sizeof workloads[0] };

static const char *array_of(const workload *w)
{
    return w->plate == NULL ? "0" : "A/1/0/0";
}

/* A line for sh; $P is the path of the store. */
static void shell(const char *line, const char *path)
{
    CHECK(setenv("P", path, 1) == 0 && system(line) == 0);
}

static void remove_store(const char *path)
{
    shell("rm -rf \"$P\" \"$P\".tidegate", path);
}

static const char *store_name(const workload *w, const char *kind)
{
    char name[96];

    (void)snprintf(name, sizeof name, "%s %s%s", kind, w->name, w->zip ? ".zip" : "");
    return scratch(name);
}

/* Record; *durable: what was durable when the last call but close had returned. */
static tg_status record(const workload *w, const char *path, bool killed, uint64_t *durable,
                        tg_error *err)
{
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    tg_runtime_options ro = {.size = sizeof ro, .memory_bytes = MEMORY, .threads = 2};
    tg_stream *s = NULL;
    tg_stream_stats t = {.size = sizeof t};
    tg_stream_options so = {.size = sizeof so,
                            .path = path,
                            .format = w->format,
                            .plate = w->plate,
                            .arrays = &w->array,
                            .n_arrays = 1,
                            .commit_interval = 0.005};
    uint8_t frame[ITEMS * 2];

    *durable = 0;
    tg_status st = tg_runtime_new(&ro, &rt, err);
    if (st == TG_OK)
        st = tg_stream_open(rt, &so, &s, err);
    for (uint64_t i = 0; st == TG_OK && i < w->frames; i++) {
        make_frame(frame, 0, i, ITEMS, 2);
        st = tg_stream_append(s, 0, frame, 1, NULL, NULL, NULL, err);
        if (st == TG_OK && i % 5 == 4)
            st = tg_stream_flush(s, TG_LEVEL_DURABLE, 0, err);
    }
    if (s == NULL)
        return st;
    if (st == TG_OK && killed)
        st = tg_stream_flush(s, TG_LEVEL_DURABLE, 0, err);
    tg_stream_get_stats(s, UINT32_MAX, &t);
    *durable = t.durable;
    if (killed) {
        tg_stream_free(s);
        return st;
    }
    tg_error at_end = {0};
    tg_status closed = tg_stream_close(s, NULL, &at_end);
    if (st == TG_OK && closed != TG_OK)
        *err = at_end;
    return st == TG_OK ? closed : st;
}

/* A recording that was given up after its last frame was durable, as by a kill. */
static void leave_behind(const workload *w, const char *path)
{
    uint64_t durable;
    tg_error err = {0};

    CHECK_OK(record(w, path, true, &durable, &err));
    CHECK_U64(durable, w->frames);
    shell("rm -f \"$P\".tidegate/lock", path);
}

static tg_status recover_with(uint64_t memory, const char *path, tg_recover_result *r,
                              tg_error *err)
{
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    tg_runtime_options ro = {.size = sizeof ro, .memory_bytes = memory, .threads = 2};

    TG_TRY(tg_runtime_new(&ro, &rt, err));
    tg_status st = tg_recover(rt, path, r, err);
    CHECK_U64(tg_runtime_memory_used(rt), 0);
    return st;
}

/* --- Frames are counted along the frame axes -----------------------------------------------
 */

static const tg_stream_dim outer[] = {{.name = "t", .arrival = 0},
                                      {.name = "c", .extent = 2, .arrival = 2},
                                      {.name = "z", .extent = 3, .arrival = 1}};
static const tg_stream_dim none[1];

#define OUTER .dims = outer, .n_dims = 3
#define PLANE .dims = none, .n_dims = 0
static const workload shapes[] = {
    {"(N, H, W)", ARRAY(.chunk_frames = 2), false, NULL, 3, FRAMES},
    {"(H, W, N)", ARRAY(.chunk_frames = 2, .frame_axis_last = true), false, NULL, 3, FRAMES},
    {"(H, W, N), v2", ARRAY(.frame_axis_last = true), false, NULL, 2, FRAMES},
    {"(H, W, N)", ARRAY(.frame_axis_last = true), true, NULL, 3, FRAMES},
    {"(t, c, z, H, W)", ARRAY(OUTER), false, NULL, 3, 12},
    {"(t, c, z, H, W), v2", ARRAY(OUTER), false, NULL, 2, 12},
    {"(H, W, t, c, z)", ARRAY(OUTER, .frame_axis_last = true), false, NULL, 3, 12},
    {"(t, c, z, H, W)", ARRAY(OUTER), true, NULL, 3, 12},
    {"plane", ARRAY(PLANE), false, NULL, 3, 1},
    {"plane, v2", ARRAY(PLANE), false, NULL, 2, 1},
    {"plane", ARRAY(PLANE), true, NULL, 3, 1},
    {"plate", ARRAY(.chunk_frames = 2), false, "{\"rows\":1,\"columns\":2,\"frames\":6}", 3,
     12},
    {"plate, outer", ARRAY(OUTER), false, "{\"rows\":1,\"columns\":2,\"frames\":6}", 3, 12},
    {"plate, outer, v2", ARRAY(OUTER), false, "{\"rows\":1,\"columns\":2,\"frames\":6}", 2, 12},
};

/* By whatever way recover comes to count them. */
static void check_count(const char *path, uint64_t before, uint64_t after)
{
    tg_recover_result r = {.size = sizeof r};
    tg_error err = {0};

    tg_status st = recover_with(MEMORY, path, &r, &err);
    CHECK_OK(st);
    CHECK(r.frames_before <= before);
    CHECK_U64(r.frames_after, after);
}

static void frames_are_counted(void)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const workload *w = &shapes[i];
        const char *path = store_name(w, "counted");
        uint64_t n = w->frames, durable;
        tg_error err = {0};

        test_row = path;
        leave_behind(w, path);
        check_count(path, n, n);
        check_count(path, n, n);
        remove_store(path);
        CHECK_OK(record(w, path, false, &durable, &err));
        check_count(path, n, n);
        remove_store(path);
    }
    test_row = "";
}

/* Killed before its journal had its name, or after it was removed: what lies beside it goes. */
static void files_without_a_journal(void)
{
    const char *path = scratch("remains");
    uint64_t durable;
    tg_error err = {0};

    CHECK_OK(record(&shapes[0], path, false, &durable, &err));
    shell("mkdir \"$P\".tidegate && cd \"$P\".tidegate && touch journal.new tail-0 shard-0-0",
          path);
    check_count(path, FRAMES, FRAMES);
    shell("test ! -e \"$P\".tidegate", path);
    remove_store(path);
}

/* What a user or another program did to the attribute is told, or made the best of. */
static void frame_axes_that_cannot_be(void)
{
    static const struct {
        const char *change;
        tg_status want;
    } rows[] = {
        {"s/\"frame_axes\"/\"other\"/", TG_OK},
        {"s/\"frame_axes\": *\\[/&7/", TG_CORRUPT},
        {"s/\"frame_axes\": *\\[/&2,/", TG_CORRUPT},
        {"s/\"frame_axes\": *\\[/&-1,/", TG_CORRUPT},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[256];
        uint64_t durable;
        tg_error err = {0};
        tg_recover_result r = {.size = sizeof r};
        const char *path = scratch("axes");

        test_row = rows[i].change;
        CHECK_OK(record(&shapes[0], path, false, &durable, &err));
        (void)snprintf(line, sizeof line,
                       "tr -d '\\n' <\"$P\"/frames/zarr.json | sed '%s' >\"$P\"/new "
                       "&& ! cmp -s \"$P\"/new \"$P\"/frames/zarr.json && mv \"$P\"/new "
                       "\"$P\"/frames/zarr.json",
                       rows[i].change);
        shell(line, path);
        CHECK_STATUS(recover_with(MEMORY, path, &r, &err), rows[i].want);
        CHECK(rows[i].want == TG_OK ? r.frames_after == FRAMES
                                    : strstr(err.msg, "frame_axes") != NULL);
        remove_store(path);
    }
    test_row = "";
}

/* --- A journal that is refused ------------------------------------------------------------ */

static uint64_t file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* T49: by name, and nothing is touched; cut inside of a record, it ends before it. */
static void journal_is_refused(void)
{
    static const struct {
        const char *name, *change;
        tg_status want;
        const char *words;
    } rows[] = {
        {"magic", "printf X | dd conv=notrunc bs=1 of=\"$P\".tidegate/journal 2>/dev/null",
         TG_CORRUPT, "no magic"},
        /* Major version 2, and the sum of that header. */
        {"version",
         "printf '\\2' | dd conv=notrunc bs=1 seek=8 of=\"$P\".tidegate/journal 2>/dev/null && "
         "printf '\\0' | dd conv=notrunc bs=1 seek=9 of=\"$P\".tidegate/journal 2>/dev/null",
         TG_UNSUPPORTED, "version 2"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = scratch(rows[i].name);
        tg_error err = {0};
        char journal[600];
        uint8_t header[24];
        test_row = rows[i].name;
        leave_behind(&workloads[0], path);
        shell(rows[i].change, path);
        (void)snprintf(journal, sizeof journal, "%s.tidegate/journal", path);
        FILE *f = fopen(journal, "r+b");
        REQUIRE(f != NULL && fread(header, 1, sizeof header, f) == sizeof header);
        uint32_t sum = tg_crc32c(0, header, 20);
        CHECK(fseek(f, 20, SEEK_SET) == 0 && fwrite(&sum, 4, 1, f) == 1 && fclose(f) == 0);
        uint64_t before = shape_of(path, "0", 0), bytes = file_bytes(journal);
        tg_status st = recover_with(MEMORY, path, NULL, &err);
        CHECK_STATUS(st, rows[i].want);
        CHECK(strstr(err.msg, rows[i].words) != NULL && strstr(err.msg, "journal") != NULL);
        CHECK_U64(shape_of(path, "0", 0), before);
        CHECK_U64(file_bytes(journal), bytes);
    }
}

/* Records added to a journal of a recorder that is no more. */
static void add_rows(const char *path, uint64_t n)
{
    char journal[600];
    tg_record_log log;
    tg_error err = {0};
    /* No rows, and no slots that were not there: only something to remember until a commit. */
    const tg_record_rows r = {.first = FRAMES, .slots = FRAMES, .frames = FRAMES};

    (void)snprintf(journal, sizeof journal, "%s.tidegate/journal", path);
    tg_record_log_init(&log);
    CHECK_OK(tg_journal_open(&log.journal, AT_FDCWD, journal, TG_RECORD_KIND, TG_RECORD_MAJOR,
                             1 << 16, &err));
    for (uint64_t i = 0; i < n && test_failures == 0; i++)
        CHECK_OK(tg_record_rows_add(&log, &r, &err));
    CHECK_OK(tg_record_flush(&log, &err));
    tg_record_log_destroy(&log);
}

/* What the journal says is held under the budget: refused with both numbers, not grown. */
static void journal_beyond_the_budget(void)
{
    const char *path = scratch("huge");
    tg_error err = {0};
    tg_recover_result r = {.size = sizeof r};

    leave_behind(&workloads[1], path);
    add_rows(path, 200000);
    tg_mem_reset();
    CHECK_STATUS(recover_with(4 << 20, path, &r, &err), TG_OVER_BUDGET);
    CHECK(strstr(err.msg, "4194304") != NULL && strstr(err.msg, "wants") != NULL);
    CHECK(tg_mem_highwater() < (5 << 20));
    CHECK_OK(recover_with(64 << 20, path, &r, &err));
    CHECK_U64(r.frames_after, FRAMES);
    check_frames(path, "0", 0, FRAMES);
}

/* One record that is larger than the budget is not read at all. */
static void record_beyond_the_budget(void)
{
    const char *path = scratch("long");
    char journal[600];
    tg_journal *j = NULL;
    tg_error err = {0};
    const size_t bytes = 48 << 20;
    uint8_t *data = tg_calloc(bytes, 1);

    leave_behind(&workloads[1], path);
    (void)snprintf(journal, sizeof journal, "%s.tidegate/journal", path);
    CHECK_OK(
        tg_journal_open(&j, AT_FDCWD, journal, TG_RECORD_KIND, TG_RECORD_MAJOR, 1 << 16, &err));
    CHECK_OK(tg_journal_add(j, 99, (tg_bytes){data, bytes}, (tg_bytes){data, 0},
                            (tg_bytes){data, 0}, &err));
    CHECK_OK(tg_journal_close(j, &err));
    tg_journal_free(j);
    tg_free(data);
    tg_mem_reset();
    CHECK_STATUS(recover_with(MEMORY, path, NULL, &err), TG_OVER_BUDGET);
    CHECK(tg_mem_highwater() < MEMORY + (1 << 20));
    CHECK_OK(recover_with(64 << 20, path, NULL, &err));
    check_frames(path, "0", 0, FRAMES);
}

/* --- A journal of very many records ------------------------------------------------------- */

enum { MANY = 100000, FAR = 1000 };

/* A layer's records, the last layer's first, each with a commit: what a search through all that
 * came before would take hours for. */
static void add_layer(tg_record_log *log, uint64_t layer, uint64_t shard)
{
    static const uint8_t chunk[TG_RECORD_CHUNK_BYTES];
    tg_error err = {0};
    const tg_record_tail tail = {
        .slot = layer * 4, .layer = layer, .offset = layer * 64, .nbytes = ITEMS * 2};
    const tg_record_layer l = {.n_chunks = 1, .layer = layer, .shard = shard, .chunks = chunk};
    const tg_record_rows rows = {.first = FRAMES, .slots = FRAMES, .frames = FRAMES};

    CHECK_OK(tg_record_rows_add(log, &rows, &err));
    CHECK_OK(tg_record_tail_add(log, &tail, &err));
    CHECK_OK(tg_record_layer_add(log, &l, &err));
    uint64_t covered = tg_record_bytes(log);
    CHECK_OK(tg_record_commit_add(log, &covered, 1, &err));
}

static void add_many(const char *path, bool sharded)
{
    char journal[600];
    tg_record_log log;
    tg_error err = {0};

    (void)snprintf(journal, sizeof journal, "%s.tidegate/journal", path);
    tg_record_log_init(&log);
    CHECK_OK(tg_journal_open(&log.journal, AT_FDCWD, journal, TG_RECORD_KIND, TG_RECORD_MAJOR,
                             1 << 16, &err));
    for (uint64_t i = 0; i < MANY && test_failures == 0; i++) {
        tg_record_sealed begun = {.shard = FAR + i};
        CHECK_OK(tg_record_begun_add(&log, &begun, &err));
    }
    for (uint64_t i = MANY; i-- > 0 && test_failures == 0;) {
        tg_record_sealed sealed = {.shard = FAR + i};
        add_layer(&log, sharded ? (FAR + i) * 2 : FAR + i, FAR + i);
        if (sharded && i % 2 == 0)
            CHECK_OK(tg_record_sealed_add(&log, &sealed, &err));
    }
    CHECK_OK(tg_record_flush(&log, &err));
    tg_record_log_destroy(&log);
}

static void many_records(void)
{
    for (int sharded = 0; sharded < 2; sharded++) {
        const char *path = scratch(sharded ? "many sharded" : "many");
        char journal[600];
        tg_model m;
        tg_error err = {0};
        tg_runtime *rt = new_runtime((uint64_t)256 << 20);
        test_row = path;
        leave_behind(&workloads[sharded], path);
        add_many(path, sharded != 0);
        (void)snprintf(journal, sizeof journal, "%s.tidegate/journal", path);
        tg_status st = tg_model_read(&m, tg_runtime_budget(rt), AT_FDCWD, journal, &err);
        CHECK_OK(st);
        if (st == TG_OK) {
            const tg_found_lane *n = &m.lanes[0];
            CHECK_U64(n->layers.n, 0);
            CHECK(n->tails.n <= FRAMES);
            CHECK(n->shards.n >= (sharded ? MANY / 2 : 0) && n->shards.n <= MANY / 2 + 4);
            CHECK_U64(tg_map_get(&n->begun, FAR), 0);
            tg_model_free(&m);
        }
        CHECK_U64(tg_runtime_memory_used(rt), 0);
        tg_runtime_free(rt);
    }
    test_row = "";
}

/* --- Every allocation fails once ---------------------------------------------------------- */

static long failed_runs, swept;

/* In CI a share of them, another one of each layout; all with TG_SOAK=1. */
static long step_of(void)
{
    return getenv("TG_SOAK") == NULL ? 13 : 1;
}

/* After the failure there is room again: what was durable is there, or comes back. */
static void check_left(const workload *w, const char *path, uint64_t durable)
{
    tg_recover_result r = {.size = sizeof r};
    tg_error err = {0};

    shell("rm -f \"$P\".tidegate/lock", path);
    tg_status st = recover_with(MEMORY, path, &r, &err);
    if (st != TG_OK && durable > 0)
        fprintf(stderr, "recover: %s\n", err.msg);
    CHECK(st == TG_OK || durable == 0);
    uint64_t shape = st == TG_OK ? shape_of(path, array_of(w), 0) : UINT64_MAX;
    if (shape == UINT64_MAX) {
        CHECK_U64(durable, 0);
        return;
    }
    CHECK(shape >= durable && shape <= (uint64_t)FRAMES);
    check_frames(path, array_of(w), 0, durable);
}

static bool record_fails_at(const workload *w, long at)
{
    char row[128];
    const char *path = store_name(w, "record");
    uint64_t durable;
    tg_error err = {0};

    (void)snprintf(row, sizeof row, "%s, allocation %ld", w->name, at);
    test_row = row;
    size_t live = tg_mem_live();
    tg_mem_fail_at(at);
    tg_status st = record(w, path, false, &durable, &err);
    tg_mem_fail_at(0);
    CHECK_U64(tg_mem_live(), live);
    if (st != TG_OK) {
        CHECK_STATUS(st, TG_NO_MEMORY);
        CHECK(err.msg[0] != '\0');
        failed_runs++;
    }
    if (st == TG_OK) {
        CHECK_U64(shape_of(path, array_of(w), 0), FRAMES);
        durable = FRAMES;
    }
    check_left(w, path, durable);
    remove_store(path);
    test_row = "";
    return st != TG_OK;
}

/* Until many in a row were not reached any more. */
static void recorder_out_of_memory(void)
{
    for (size_t i = 0; i < N_WORKLOADS; i++) {
        long step = step_of();
        int well = 0;
        for (long at = 1 + (long)i; well < 4 && at < 20000 && test_failures == 0; at += step) {
            well = record_fails_at(&workloads[i], at) ? 0 : well + 1;
            swept++;
        }
    }
    printf("     %ld runs, %ld ended with an error\n", swept, failed_runs);
    CHECK(failed_runs > N_WORKLOADS * 3);
}

static bool recover_fails_at(const workload *w, const char *path, long at)
{
    char row[128];
    tg_recover_result r = {.size = sizeof r};
    tg_error err = {0};

    (void)snprintf(row, sizeof row, "%s, recover, allocation %ld", w->name, at);
    test_row = row;
    shell("rm -rf \"$P\" \"$P\".tidegate && cp -a \"$P\".kept \"$P\"", path);
    shell("cp -a \"$P\".kept.tidegate \"$P\".tidegate", path);
    size_t live = tg_mem_live();
    tg_mem_fail_at(at);
    tg_status st = recover_with(MEMORY, path, &r, &err);
    tg_mem_fail_at(0);
    CHECK_U64(tg_mem_live(), live);
    if (st != TG_OK) {
        CHECK_STATUS(st, TG_NO_MEMORY);
        failed_runs++;
        shell("rm -f \"$P\".tidegate/lock", path);
    }
    tg_recover_result again = {.size = sizeof again};
    CHECK_OK(recover_with(MEMORY, path, &again, &err));
    CHECK_U64(again.frames_after, FRAMES);
    check_frames(path, array_of(w), 0, FRAMES);
    test_row = "";
    return st != TG_OK;
}

static void recover_out_of_memory(void)
{
    failed_runs = 0;
    for (size_t i = 0; i < N_WORKLOADS; i++) {
        const char *path = store_name(&workloads[i], "recover");
        int well = 0;
        leave_behind(&workloads[i], path);
        shell("mv \"$P\" \"$P\".kept && mv \"$P\".tidegate \"$P\".kept.tidegate", path);
        for (long at = 1 + (long)i; well < 2 && at < 20000 && test_failures == 0;
             at += step_of())
            well = recover_fails_at(&workloads[i], path, at) ? 0 : well + 1;
    }
    printf("     %ld ended with an error\n", failed_runs);
    CHECK(failed_runs > N_WORKLOADS);
}

static const struct test tests[] = {
    {"journal_is_refused", journal_is_refused},
    {"journal_beyond_the_budget", journal_beyond_the_budget},
    {"record_beyond_the_budget", record_beyond_the_budget},
    {"frames_are_counted", frames_are_counted},
    {"files_without_a_journal", files_without_a_journal},
    {"frame_axes_that_cannot_be", frame_axes_that_cannot_be},
    {"many_records", many_records},
    {"recorder_out_of_memory", recorder_out_of_memory},
    {"recover_out_of_memory", recover_out_of_memory},
};
TEST_MAIN(tests)
