/* cli/bench.c - frames, child processes, scratch folders and statistics of the benchmarks. */
#define _GNU_SOURCE /* MADV_HUGEPAGE, nftw */
#include "bench.h"

#include "tidegate/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- Frames ---------------------------------------------------------------- */

void *pages_new(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 1, bytes);
    return p;
}

void pages_free(void *pages, size_t bytes)
{
    if (pages != NULL)
        (void)munmap(pages, bytes);
}

/* Numerical Recipes' generator: fast, and its high bits are good. */
static uint32_t next(uint32_t *seed)
{
    return *seed = *seed * 1664525u + 1013904223u;
}

static void fill(bench_pool *p, bench_kind kind)
{
    uint32_t seed = 1;
    if (kind == BENCH_NOISE) {
        for (size_t i = 0; i < p->bytes; i++) {
            unsigned char v = (unsigned char)(next(&seed) >> 24);
            p->frames[i] = v != 0 ? v : 1;
        }
        return;
    }
    /* 16-bit counts of a dim scene: a slow ramp and noise of 6 bits. */
    for (size_t i = 0; i + 1 < p->bytes; i += 2) {
        uint32_t v = 200 + (uint32_t)(i / 2 % 4096 / 16) + (next(&seed) >> 26);
        p->frames[i] = (unsigned char)(v & 255);
        p->frames[i + 1] = (unsigned char)(v >> 8);
    }
}

static tg_status fill_from_file(bench_pool *p, const char *file, tg_error *err)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    size_t done = 0;
    while (fd >= 0 && done < p->bytes) {
        ssize_t n = read(fd, p->frames + done, p->bytes - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    if (fd >= 0)
        (void)close(fd);
    if (fd < 0)
        return cli_fail_errno(err, file, "open");
    p->n = done / p->frame_bytes;
    if (p->n == 0)
        return cli_fail(err, TG_INVALID, "'%.200s' holds no whole frame of %zu bytes", file,
                        p->frame_bytes);
    return TG_OK;
}

tg_status pool_new(bench_pool *p, size_t frame_bytes, uint64_t most, bench_kind kind,
                   const char *file, tg_error *err)
{
    size_t n = BENCH_POOL_BYTES / frame_bytes;
    n = n < 1 ? 1 : n > most ? (size_t)most : n;
    *p = (bench_pool){.n = n, .frame_bytes = frame_bytes, .bytes = n * frame_bytes};
    p->frames = pages_new(p->bytes);
    if (p->frames == NULL)
        return cli_fail(err, TG_NO_MEMORY, "no memory for %zu bytes of frames", p->bytes);
    if (file != NULL)
        return fill_from_file(p, file, err);
    fill(p, kind);
    return TG_OK;
}

void pool_free(bench_pool *p)
{
    pages_free(p->frames, p->bytes);
    *p = (bench_pool){0};
}

const void *pool_frame(bench_pool *p, uint64_t i)
{
    unsigned char *frame = p->frames + i % p->n * p->frame_bytes;
    memcpy(frame, &i, p->frame_bytes < sizeof i ? p->frame_bytes : sizeof i);
    return frame;
}

/* --- A child per measurement ------------------------------------------------ */

static bool write_all(int fd, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static bool read_all(int fd, void *data, size_t n)
{
    char *p = data;
    while (n > 0) {
        ssize_t k = read(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static _Noreturn void child(bench_fn fn, void *arg, int to_parent)
{
    bench_result r = {.status = TG_OK};
    fn(arg, &r);
    r.rss_bytes_peak = cli_rss_peak();
    if (r.status == TG_OK && r.seconds > 0) {
        r.frames_per_s = (double)r.frames / r.seconds;
        r.mib_per_s = (double)r.bytes_in / (1 << 20) / r.seconds;
    }
    _exit(write_all(to_parent, &r, sizeof r) ? 0 : 1);
}

void bench_in_child(bench_fn fn, void *arg, bench_result *result)
{
    int ends[2];
    *result = (bench_result){.status = TG_IO};
    if (pipe(ends) != 0) {
        (void)cli_fail(&result->err, TG_IO, "no pipe");
        return;
    }
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        child(fn, arg, ends[1]);
    }
    (void)close(ends[1]);
    int status = 0;
    bool got = pid > 0 && read_all(ends[0], result, sizeof *result);
    (void)close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!got) {
        *result = (bench_result){.status = TG_IO};
        (void)cli_fail(&result->err, TG_IO, "the measuring process ended by %s %d",
                       WIFSIGNALED(status) ? "signal" : "status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

double bench_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void bench_sleep_until(double at)
{
    double left = at - bench_now();
    if (left > 150e-6) {
        left -= 100e-6;
        struct timespec t = {(time_t)left, (long)((left - floor(left)) * 1e9)};
        (void)nanosleep(&t, NULL);
    }
    while (bench_now() < at)
        ;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(double *values, size_t n)
{
    if (n == 0)
        return NAN;
    qsort(values, n, sizeof *values, compare);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* --- Scratch ----------------------------------------------------------------- */

void bench_scratch_name(const char *dir, char *room, size_t cap)
{
    static unsigned n;
    (void)snprintf(room, cap, "%s/tidegate-bench.%ld.%u", dir, (long)getpid(), n++);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

void bench_remove(const char *path)
{
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); /* NOLINT: one thread here */
}

/* --- JSON --------------------------------------------------------------------- */

static void recorder_json(json_out *j, const bench_result *r)
{
    json_u64(j, "published", r->published);
    json_u64(j, "dropped", r->dropped);
    json_double(j, "open_seconds", r->open_seconds);
    json_open(j, "append_us");
    json_double(j, "p50", r->append_us_p50);
    json_double(j, "p99", r->append_us_p99);
    json_double(j, "p999", r->append_us_p999);
    json_double(j, "max", r->append_us_max);
    json_close(j);
    if (r->memcpy_us > 0)
        json_double(j, "memcpy_us", r->memcpy_us);
    if (r->source_fps > 0)
        json_double(j, "source_fps", r->source_fps);
    json_u64(j, "stalls", r->stalls);
    json_double(j, "stall_ms_max", r->stall_ms_max);
    json_double(j, "write_ms_p99", r->write_ms_p99);
    json_double(j, "write_ms_max", r->write_ms_max);
    json_open_list(j, "write_ns_histogram"); /* [from ns, count] of the buckets that hold any */
    for (int i = 0; i < TG_LATENCY_BUCKETS; i++)
        if (r->write_ns[i] > 0) {
            json_open_list(j, NULL);
            json_double(j, NULL, floor(pow(2, i / 2.0)));
            json_u64(j, NULL, r->write_ns[i]);
            json_close_list(j);
        }
    json_close_list(j);
    json_u64(j, "bytes_written", r->bytes_written);
    json_u64(j, "queue_bytes_peak", r->queue_bytes_peak);
    json_u64(j, "budget_bytes", r->budget_bytes);
}

void bench_result_json(json_out *j, const bench_result *r)
{
    if (r->status != TG_OK) {
        json_error(j, "error", &r->err);
        return;
    }
    json_double(j, "seconds", r->seconds);
    json_u64(j, "frames", r->frames);
    json_double(j, "mib_per_s", r->mib_per_s);
    json_double(j, "frames_per_s", r->frames_per_s);
    json_u64(j, "rss_bytes_peak", r->rss_bytes_peak);
    json_u64(j, "rss_bytes_before", r->rss_bytes_before);
    if (r->recorder)
        recorder_json(j, r);
}
