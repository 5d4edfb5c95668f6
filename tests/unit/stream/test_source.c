/* Frame sources: strings, the synthetic camera's pixels, raw frames from files, pipes, FIFOs.
 */
#include "base/clock.h"
#include "check.h"
#include "stream/source.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const tg_dtype u8 = {TG_DT_UINT, 1}, u16 = {TG_DT_UINT, 2};

static tg_source_frame frame_zero(void)
{
    return (tg_source_frame){.size = sizeof(tg_source_frame)};
}

static tg_status open_spec(const char *spec, tg_source **out, tg_error *err)
{
    tg_source_options o = {.size = sizeof o, .spec = spec};
    return tg_source_open(&o, out, err);
}

/* --- Strings -------------------------------------------------------------- */

static void strings_that_name_sources(void)
{
    static const struct {
        const char *text;
        tg_source_kind kind;
        const char *rest;
        uint64_t height, width;
        uint32_t item;
        double fps;
    } rows[] = {
        {"test:1032x772:u8@53", TG_SOURCE_TEST, "", 772, 1032, 1, 53},
        {"test:4x3:float32", TG_SOURCE_TEST, "", 3, 4, 4, 0},
        {"test:4x3:<u2@0.5", TG_SOURCE_TEST, "", 3, 4, 2, 0.5},
        {"-", TG_SOURCE_RAW, "-", 0, 0, 0, 0},
        {"./test", TG_SOURCE_RAW, "./test", 0, 0, 0, 0},
        {"testing.raw", TG_SOURCE_RAW, "testing.raw", 0, 0, 0, 0},
        {"aravis", TG_SOURCE_ARAVIS, "", 0, 0, 0, 0},
        {"aravis:Fake-1", TG_SOURCE_ARAVIS, "Fake-1", 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_source_spec s = {.kind = TG_SOURCE_RAW};
        test_row = rows[i].text;
        CHECK_STATUS(tg_source_spec_parse(rows[i].text, &s, NULL), TG_OK);
        CHECK_U64(s.kind, rows[i].kind);
        CHECK_U64(s.height, rows[i].height);
        CHECK_U64(s.width, rows[i].width);
        CHECK_U64(s.dtype.size, rows[i].item);
        CHECK(fabs(s.fps - rows[i].fps) < 1e-12);
        if (rows[i].kind != TG_SOURCE_TEST)
            CHECK(strcmp(s.text, rows[i].rest) == 0);
    }
    test_row = "";
}

static void strings_that_do_not(void)
{
    static const char *const rows[] = {
        "",
        "test:",
        "test:4",
        "test:4x3",
        "test:4x3:",
        "test:4x3:u9",
        "test:4x3:string",
        "test:4x3:u8@",
        "test:4x3:u8@0",
        "test:4x3:u8@-1",
        "test:4x3:u8@nan",
        "test:4x3:u8@1e300",
        "test:0x3:u8",
        "test:-4x3:u8",
        "test:4x3x2:u8",
        "test:4:3x2",
        "test:x3:u8",
        "test: 4x3:u8",
        "test:99999999999999999999x1:u8",
        "test:2147483647x2147483647:f8",
        "aravis:",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_source_spec s = {.kind = TG_SOURCE_RAW};
        tg_error err = {0};
        test_row = rows[i];
        CHECK_STATUS(tg_source_spec_parse(rows[i], &s, &err), TG_INVALID);
        CHECK(err.msg[0] != '\0');
        CHECK(s.text == NULL);
    }
    test_row = "";
}

static void names_before_a_source(void)
{
    static const struct {
        const char *text, *name, *source;
    } rows[] = {
        {"test:4x4:u8", "", "test:4x4:u8"},
        {"a=test:4x4:u8", "a", "test:4x4:u8"},
        {"left/cam_1=-", "left/cam_1", "-"},
        {"a=b=c.raw", "a", "b=c.raw"},
        {"./a=b.raw", "", "./a=b.raw"},
        {"/data/a=b.raw", "", "/data/a=b.raw"},
        {"../a=b.raw", "", "../a=b.raw"},
        {"a//b=c", "", "a//b=c"},
        {"=x", "", "=x"},
        {"a b=c", "", "a b=c"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[16] = "?";
        const char *source = NULL;
        test_row = rows[i].text;
        CHECK_STATUS(tg_source_split(rows[i].text, name, sizeof name, &source, NULL), TG_OK);
        CHECK(strcmp(name, rows[i].name) == 0);
        CHECK(source != NULL && strcmp(source, rows[i].source) == 0);
    }
    test_row = "";
    char name[4];
    const char *source = NULL;
    CHECK_STATUS(tg_source_split("four=x", name, sizeof name, &source, NULL), TG_INVALID);
    CHECK_STATUS(tg_source_split("a=", name, sizeof name, &source, NULL), TG_INVALID);
    CHECK_STATUS(tg_source_split("", name, sizeof name, &source, NULL), TG_INVALID);
}

static void options_are_of_their_kind(void)
{
    static const char *const feature[] = {"Width=4"};
    const struct {
        const char *name;
        tg_source_options o;
    } rows[] = {
        {"test with a shape", {.spec = "test:4x4:u8", .height = 4, .width = 4}},
        {"test with a dtype", {.spec = "test:4x4:u8", .dtype = u8}},
        {"test with a feature", {.spec = "test:4x4:u8", .features = feature, .n_features = 1}},
        {"raw without a shape", {.spec = "-", .dtype = u8}},
        {"raw without a dtype", {.spec = "-", .height = 4, .width = 4}},
        {"raw of strings", {.spec = "-", .height = 4, .width = 4, .dtype = {TG_DT_STRING, 0}}},
        {"camera with a shape", {.spec = "aravis", .height = 4, .width = 4}},
        {"a directory", {.spec = "/tmp", .height = 4, .width = 4, .dtype = u8}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_source *s = NULL;
        tg_source_options o = rows[i].o;
        o.size = sizeof o;
        test_row = rows[i].name;
        CHECK_STATUS(tg_source_open(&o, &s, NULL), TG_INVALID);
        CHECK(s == NULL);
    }
    test_row = "no such file";
    tg_source *s = NULL;
    tg_error err = {0};
    tg_source_options o = {
        .size = sizeof o, .spec = "/nowhere/x.raw", .height = 4, .width = 4, .dtype = u8};
    CHECK_STATUS(tg_source_open(&o, &s, &err), TG_NOT_FOUND);
    CHECK(strstr(err.msg, "/nowhere/x.raw") != NULL);
    test_row = "";
}

/* --- The synthetic camera ------------------------------------------------- */

/* The header's formula, word by word. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static uint8_t formula_byte(uint32_t array, uint64_t sequence, uint64_t p, uint64_t m)
{
    uint64_t i = p / 8, b = i / 4096;
    uint64_t key = mix(mix(mix(array + UINT64_C(0x9E3779B97F4A7C15)) + sequence) + b);
    return (uint8_t)(((mix(i % 4096 + 1) ^ key) & m) >> 8 * (p % 8));
}

static void pixels_follow_the_formula(void)
{
    static const struct {
        const char *spec;
        uint64_t mask;
        tg_dtype dtype;
    } rows[] = {
        {"test:131x97:u8", UINT64_MAX, {TG_DT_UINT, 1}},
        {"test:200x333:u16", UINT64_MAX, {TG_DT_UINT, 2}},
        {"test:7x5:int64", UINT64_MAX, {TG_DT_INT, 8}},
        {"test:37x41:f2", 0xBFFFBFFFBFFFBFFF, {TG_DT_FLOAT, 2}},
        {"test:37x41:f4", 0xBFFFFFFFBFFFFFFF, {TG_DT_FLOAT, 4}},
        {"test:37x41:f8", 0xBFFFFFFFFFFFFFFF, {TG_DT_FLOAT, 8}},
        {"test:9x3:complex128", 0xBFFFFFFFFFFFFFFF, {TG_DT_COMPLEX, 16}},
        {"test:21x3:bool", 0x0101010101010101, {TG_DT_BOOL, 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_row = rows[i].spec;
        tg_source *s = NULL;
        tg_source_options o = {.size = sizeof o, .spec = rows[i].spec, .array = 3};
        CHECK_STATUS(tg_source_open(&o, &s, NULL), TG_OK);
        REQUIRE(s != NULL);
        tg_source_info info = {.size = sizeof info};
        tg_source_get_info(s, &info);
        size_t row = (size_t)info.width * info.dtype.size, pitch = row + 5;
        uint8_t *room = calloc(info.height, pitch);
        REQUIRE(room != NULL);
        uint64_t bad = 0;
        for (uint64_t n = 0; n < 3; n++) {
            tg_source_frame f = frame_zero();
            bool pitched = n == 1;
            CHECK_STATUS(
                tg_source_next(s, n == 0 ? NULL : room, pitched ? pitch : 0, &f, NULL, NULL),
                TG_OK);
            CHECK_U64(f.meta.id, n);
            CHECK(f.pixels != NULL && (n == 0) == (f.pixels != room));
            for (uint64_t y = 0; y < info.height; y++) {
                const uint8_t *got = (const uint8_t *)f.pixels + y * (pitched ? pitch : row);
                for (size_t b = 0; b < row; b++)
                    bad += got[b] != formula_byte(3, n, y * row + b, rows[i].mask);
                for (uint64_t x = 0; x < info.width; x++) {
                    uint8_t item[16];
                    tg_source_test_pixel(3, n, y, x, info.width, rows[i].dtype, item);
                    bad += memcmp(item, got + x * info.dtype.size, info.dtype.size) != 0;
                }
            }
        }
        CHECK_U64(bad, 0);
        free(room);
        tg_source_close(s);
    }
    test_row = "";
}

static void every_swap_and_shift_shows(void)
{
    enum { N = 4096 };
    static const struct {
        const char *name;
        uint32_t array;
        uint64_t sequence;
        uint64_t x;
    } rows[] = {{"another array", 1, 7, 0},
                {"another frame", 0, 8, 0},
                {"shifted by one", 0, 7, 1},
                {"shifted by a block", 0, 7, 4096 * 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t same = 0;
        test_row = rows[i].name;
        for (uint64_t x = 0; x < N; x++) {
            uint16_t a = 0, b = 0;
            tg_source_test_pixel(0, 7, 0, x, N, u16, &a);
            tg_source_test_pixel(rows[i].array, rows[i].sequence, 0, x + rows[i].x, N, u16, &b);
            same += a == b;
        }
        CHECK(same < 8); /* by chance: 1 in 65536 each */
    }
    test_row = "";
}

static void paced_frames_are_never_early(void)
{
    tg_source *s = NULL;
    CHECK_STATUS(open_spec("test:4x4:u8@200", &s, NULL), TG_OK);
    REQUIRE(s != NULL);
    int64_t start = 0;
    for (int64_t n = 0; n < 10; n++) {
        tg_source_frame f = frame_zero();
        CHECK_STATUS(tg_source_next(s, NULL, 0, &f, NULL, NULL), TG_OK);
        int64_t now = tg_clock_ns();
        if (n == 0)
            start = now;
        CHECK(now - start >= n * 5000000 - 1000000);
        CHECK_U64((uint64_t)f.meta.time_device_ns, (uint64_t)n * 5000000);
    }
    tg_source_close(s);
}

static void waiting_ends_when_cancelled(void)
{
    tg_source *s = NULL;
    tg_cancel *c = NULL;
    CHECK_STATUS(open_spec("test:4x4:u8@0.001", &s, NULL), TG_OK);
    CHECK_STATUS(tg_cancel_new(&c, NULL), TG_OK);
    REQUIRE(s != NULL && c != NULL);
    tg_source_frame f = frame_zero();
    CHECK_STATUS(tg_source_next(s, NULL, 0, &f, c, NULL), TG_OK);
    tg_cancel_deadline(c, 0.03);
    int64_t start = tg_clock_ns();
    CHECK_STATUS(tg_source_next(s, NULL, 0, &f, c, NULL), TG_TIMED_OUT);
    CHECK(tg_clock_ns() - start < 10 * 1000000000LL);
    tg_source_stop(s);
    CHECK_STATUS(tg_source_next(s, NULL, 0, &f, NULL, NULL), TG_CLOSED);
    tg_source_close(s);
    tg_cancel_free(c);
}

/* --- Raw frames ----------------------------------------------------------- */

static void pause_ms(long ms)
{
    struct timespec t = {0, ms * 1000000};
    (void)nanosleep(&t, NULL);
}

static char dir[] = "/tmp/tg_source_XXXXXX";
static char path[64];

/* A file of n bytes, each its offset times 7. */
static void write_file(size_t n)
{
    FILE *f = fopen(path, "wb");
    for (size_t i = 0; f != NULL && i < n; i++)
        (void)fputc((int)(i * 7 & 0xFF), f);
    if (f != NULL)
        (void)fclose(f);
}

static uint64_t wrong_bytes(const uint8_t *got, size_t n, uint64_t offset)
{
    uint64_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += got[i] != (uint8_t)((offset + i) * 7);
    return bad;
}

/* Read all of `spec`; frames and the bytes of a short last one. */
static void read_all(const char *spec, uint64_t h, uint64_t w, bool pitched, uint64_t *frames,
                     uint64_t *rest)
{
    size_t row = (size_t)w * 2, pitch = pitched ? row + 6 : row;
    tg_source *s = NULL;
    tg_source_options o = {
        .size = sizeof o, .spec = spec, .height = h, .width = w, .dtype = u16};
    uint8_t *room = calloc(h, pitch);
    CHECK_STATUS(tg_source_open(&o, &s, NULL), TG_OK);
    REQUIRE(s != NULL && room != NULL);
    uint64_t bad = 0;
    *frames = *rest = 0;
    tg_status st = TG_OK;
    for (;;) {
        tg_source_frame f = frame_zero();
        st = tg_source_next(s, room, pitched ? pitch : 0, &f, NULL, NULL);
        if (st != TG_OK)
            break;
        if (f.pixels == NULL) {
            CHECK(f.meta.partial);
            *rest = f.bytes;
            continue;
        }
        CHECK(!f.meta.partial && f.meta.time_host_ns > 0 && f.bytes == h * row);
        for (uint64_t y = 0; y < h; y++)
            bad += wrong_bytes((const uint8_t *)f.pixels + y * pitch, row,
                               *frames * h * row + y * row);
        ++*frames;
    }
    CHECK_STATUS(st, TG_CLOSED);
    CHECK_U64(bad, 0);
    tg_source_close(s);
    free(room);
}

static void files_end_whole_or_inside_a_frame(void)
{
    static const struct {
        const char *name;
        uint64_t h, w, bytes;
    } rows[] = {
        {"empty", 4, 8, 0},
        {"one frame", 4, 8, 64},
        {"T11: short last", 4, 8, 124},
        {"one byte more", 4, 8, 129},
        {"less than one", 4, 8, 63},
        {"large frames", 300, 400, 2 * 240000 + 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int pitched = 0; pitched < 2; pitched++) {
            uint64_t frames = 0, rest = 0, frame = rows[i].h * rows[i].w * 2;
            test_row = rows[i].name;
            write_file(rows[i].bytes);
            read_all(path, rows[i].h, rows[i].w, pitched, &frames, &rest);
            CHECK_U64(frames, rows[i].bytes / frame);
            CHECK_U64(rest, rows[i].bytes % frame);
        }
    test_row = "";
}

/* In a child of its own: n bytes in uneven pieces into fd or, if that is -1, the FIFO. */
static pid_t start_writer(int fd, size_t n)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    pause_ms(100); /* a FIFO is opened before its writer is there */
    if (fd < 0)
        fd = open(path, O_WRONLY);
    uint8_t piece[1000];
    for (size_t at = 0, step = 1; at < n; step = (step * 31 + 7) % sizeof piece + 1) {
        size_t part = step < n - at ? step : n - at;
        for (size_t i = 0; i < part; i++)
            piece[i] = (uint8_t)((at + i) * 7);
        ssize_t r = write(fd, piece, part);
        if (r < 0)
            _exit(1);
        at += (size_t)r;
    }
    _exit(0);
}

static void a_fifo_may_be_opened_before_its_writer(void)
{
    (void)unlink(path);
    REQUIRE(mkfifo(path, 0600) == 0);
    pid_t pid = start_writer(-1, 10 * 64 + 5);
    uint64_t frames = 0, rest = 0;
    read_all(path, 4, 8, false, &frames, &rest);
    CHECK_U64(frames, 10);
    CHECK_U64(rest, 5);
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    (void)unlink(path);
}

static void standard_input_is_a_pipe(void)
{
    int ends[2], keep = dup(0);
    REQUIRE(pipe(ends) == 0 && keep >= 0);
    REQUIRE(dup2(ends[0], 0) == 0);
    pid_t pid = start_writer(ends[1], 3 * 240000);
    (void)close(ends[1]);
    (void)close(ends[0]);
    uint64_t frames = 0, rest = 0;
    read_all("-", 300, 400, false, &frames, &rest);
    CHECK_U64(frames, 3);
    CHECK_U64(rest, 0);
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(dup2(keep, 0) == 0); /* that close left standard input open */
    (void)close(keep);
}

static void on_signal(int signal)
{
    (void)signal;
}

static tg_cancel *signal_cancel;
static void *cancel_later(void *reader)
{
    pause_ms(50);
    tg_cancel_request(signal_cancel);
    (void)pthread_kill(*(pthread_t *)reader, SIGUSR1);
    return NULL;
}

static void a_silent_pipe_is_left_when_cancelled(void)
{
    int ends[2], keep = dup(0);
    REQUIRE(pipe(ends) == 0 && keep >= 0 && dup2(ends[0], 0) == 0);
    struct sigaction act = {.sa_handler = on_signal}; /* no SA_RESTART: calls end with EINTR */
    (void)sigaction(SIGUSR1, &act, NULL);
    tg_source *s = NULL;
    tg_source_options o = {.size = sizeof o, .spec = "-", .height = 4, .width = 4, .dtype = u8};
    CHECK_STATUS(tg_source_open(&o, &s, NULL), TG_OK);
    CHECK_STATUS(tg_cancel_new(&signal_cancel, NULL), TG_OK);
    REQUIRE(s != NULL && signal_cancel != NULL);
    pthread_t self = pthread_self(), helper;
    REQUIRE(pthread_create(&helper, NULL, cancel_later, &self) == 0);
    tg_source_frame f = frame_zero();
    CHECK_STATUS(tg_source_next(s, NULL, 0, &f, signal_cancel, NULL), TG_CANCELLED);
    (void)pthread_join(helper, NULL);
    tg_source_close(s);
    tg_cancel_free(signal_cancel);
    (void)dup2(keep, 0);
    (void)close(keep);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static tg_status open_and_read(const char *spec, bool raw)
{
    tg_source *s = NULL;
    tg_source_options o = {.size = sizeof o, .spec = spec};
    if (raw)
        o.height = 4, o.width = 4, o.dtype = u8;
    tg_status st = tg_source_open(&o, &s, NULL);
    tg_source_frame f = frame_zero();
    if (st == TG_OK)
        st = tg_source_next(s, NULL, 0, &f, NULL, NULL);
    tg_source_close(s);
    return st;
}

static void every_allocation_may_fail(void)
{
    write_file(64);
    CHECK_EVERY_ALLOC(open_and_read(path, true));
    CHECK_EVERY_ALLOC(open_and_read("test:8x8:u8", false));
}

static void set_up(void)
{
    REQUIRE(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof path, "%s/frames", dir);
}

static void tear_down(void)
{
    (void)unlink(path);
    CHECK(rmdir(dir) == 0);
}

static const struct test tests[] = {
    {"set up", set_up},
    {"strings that name sources", strings_that_name_sources},
    {"strings that do not", strings_that_do_not},
    {"names before a source", names_before_a_source},
    {"options are of their kind", options_are_of_their_kind},
    {"pixels follow the formula", pixels_follow_the_formula},
    {"every swap and shift shows", every_swap_and_shift_shows},
    {"paced frames are never early", paced_frames_are_never_early},
    {"waiting ends when cancelled", waiting_ends_when_cancelled},
    {"files end whole or inside a frame", files_end_whole_or_inside_a_frame},
    {"a FIFO may be opened before its writer", a_fifo_may_be_opened_before_its_writer},
    {"standard input is a pipe", standard_input_is_a_pipe},
    {"a silent pipe is left when cancelled", a_silent_pipe_is_left_when_cancelled},
    {"every allocation may fail", every_allocation_may_fail},
    {"tear down", tear_down},
};
TEST_MAIN(tests)
