/* cli/bench_regions.c - the runs of `bench apply`: the engine over regions, a loop in memory, a
 * plain copier, the codec alone. */
#define _GNU_SOURCE /* O_DIRECT, fallocate, nftw, sync */
#include "bench_regions.h"

#include "tidegate/array.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void auto_store(tg_store **s)
{
    tg_store_free(*s);
}
static void auto_array(tg_array **a)
{
    tg_array_free(*a);
}
static void auto_runtime(tg_runtime **rt)
{
    tg_runtime_free(*rt);
}

static double cpu_now(void)
{
    struct rusage u = {0};
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* What was written before goes to the disk, and the pages of `path` are forgotten, so that each
 * run reads from the disk. */
static int forget_file(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)where;
    int fd = kind == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        (void)close(fd);
    }
    return 0;
}

static void settle(const char *path)
{
    sync();
    (void)nftw(path, forget_file, 16, FTW_PHYS); /* NOLINT: one thread here */
}

/* --- The array --------------------------------------------------------------- */

static tg_status make_array(const char *path, const regions_array *like, tg_dtype dtype,
                            const char *codec, tg_store **store, tg_array **array,
                            tg_error *err)
{
    const uint64_t shape[2] = {like->extent, like->extent};
    const uint64_t chunk[2] = {like->chunk, like->chunk};
    tg_store_options so = {.size = sizeof so, .mode = TG_STORE_CREATE, .no_sync = true};
    tg_array_options ao = {.size = sizeof ao,
                           .dtype = dtype,
                           .ndim = 2,
                           .shape = shape,
                           .chunk = chunk,
                           .codec = codec};
    tg_status st = tg_store_open(path, &so, store, NULL, err);
    if (st == TG_OK)
        st = tg_array_create(*store, "", &ao, array, like->cancel, err);
    return st;
}

void regions_make(void *arg, bench_result *result)
{
    const regions_array *a = arg;
    CLI_AUTO(auto_store) tg_store *store = NULL;
    CLI_AUTO(auto_array) tg_array *array = NULL;
    bench_pool pool;
    size_t row_bytes = (size_t)(a->extent * 2);

    result->status = pool_new(&pool, row_bytes, 1 << 20, BENCH_CAMERA, NULL, &result->err);
    if (result->status != TG_OK)
        return;
    result->status = make_array(a->path, a, (tg_dtype){TG_DT_UINT, 2}, a->codec, &store, &array,
                                &result->err);
    /* A row of chunks at a time; the pool's rows follow each other in memory. */
    for (uint64_t y = 0; y < a->extent && result->status == TG_OK; y += a->chunk) {
        uint64_t left = a->extent - y, rows = left < a->chunk ? left : a->chunk;
        const uint64_t start[2] = {y, 0}, count[2] = {rows, a->extent};
        const int64_t strides[2] = {rows <= pool.n ? (int64_t)row_bytes : 0, 2};
        result->status =
            tg_array_write(array, start, count, pool.frames, strides, a->cancel, &result->err);
    }
    if (result->status == TG_OK)
        result->status = tg_store_close(store, &result->err);
    pool_free(&pool);
}

/* --- The engine -------------------------------------------------------------- */

static tg_status apply(const regions_run *run, tg_runtime *rt, tg_store *in, tg_store *out,
                       tg_apply_report *report, tg_error *err)
{
    tg_apply_options o = {.size = sizeof o,
                          .in_store = in,
                          .in_path = "",
                          .out_store = out,
                          .out_path = "",
                          .in_place = out == NULL,
                          .fn = run->fn,
                          .kind = run->fn == NULL ? 'o' : 0,
                          .function = run->function,
                          .rois = run->rois,
                          .policy = run->policy,
                          .codec = run->codec,
                          .jobs = run->jobs};
    return tg_apply(rt, &o, report, run->in->cancel, err);
}

static void take_report(bench_result *result, const tg_apply_report *report)
{
    result->frames = report->calls;
    result->bytes_in = report->bytes_read;
    result->bytes_written = report->bytes_written;
    result->plan_seconds = report->plan_seconds;
    result->in_flight_peak = report->in_flight_peak;
    result->units_read = report->units_read;
    result->units_written = report->units_written;
}

void regions_run_engine(void *arg, bench_result *result)
{
    static tg_apply_report report; /* large */
    const regions_run *run = arg;
    CLI_AUTO(auto_store) tg_store *in = NULL;
    CLI_AUTO(auto_store) tg_store *out = NULL;
    CLI_AUTO(auto_runtime) tg_runtime *rt = NULL;
    tg_runtime_options ro = {
        .size = sizeof ro, .memory_bytes = run->memory_bytes, .threads = run->threads};
    tg_store_options read = {.size = sizeof read,
                             .mode = run->out == NULL ? TG_STORE_READ_WRITE : TG_STORE_READ};
    tg_store_options write = {.size = sizeof write, .mode = TG_STORE_CREATE};

    report = (tg_apply_report){.size = sizeof report};
    result->rss_bytes_before = cli_rss_peak();
    settle(run->in->path);
    double start = bench_now(), cpu = cpu_now();
    tg_status st = tg_runtime_new(&ro, &rt, &result->err);
    if (st == TG_OK)
        st = tg_store_open(run->in->path, &read, &in, NULL, &result->err);
    if (st == TG_OK && run->out != NULL)
        st = tg_store_open(run->out, &write, &out, NULL, &result->err);
    if (st == TG_OK)
        st = apply(run, rt, in, out, &report, &result->err);
    if (st == TG_OK && out != NULL)
        st = tg_store_close(out, &result->err);
    result->seconds = bench_now() - start;
    result->cpu_seconds = cpu_now() - cpu;
    result->status = st;
    take_report(result, &report);
}

/* --- A loop in memory -------------------------------------------------------- */

void regions_run_loop(void *arg, bench_result *result)
{
    const regions_run *run = arg;
    uint64_t extent = run->in->extent;
    size_t bytes = (size_t)(extent * extent) * 2, row = (size_t)run->roi * 2;
    uint16_t *from = pages_new(bytes), *to = pages_new(bytes);
    uint16_t *patch = pages_new((size_t)(run->roi * run->roi) * 2);
    if (from == NULL || to == NULL || patch == NULL) {
        result->status = cli_fail(&result->err, TG_NO_MEMORY, "no memory for two arrays");
        return;
    }
    double start = bench_now(), cpu = cpu_now();
    for (uint64_t y = 0; y + run->roi <= extent; y += run->step)
        for (uint64_t x = 0; x + run->roi <= extent; x += run->step) {
            for (uint64_t i = 0; i < run->roi; i++)
                memcpy(patch + i * run->roi, from + (y + i) * extent + x, row);
            for (uint64_t i = 0; i < run->roi * run->roi; i++)
                patch[i] = (uint16_t)(patch[i] + 2);
            for (uint64_t i = 0; i < run->roi; i++)
                memcpy(to + (y + i) * extent + x, patch + i * run->roi, row);
            result->frames++;
        }
    __asm__ volatile("" : : "r"(to) : "memory");
    result->seconds = bench_now() - start;
    result->cpu_seconds = cpu_now() - cpu;
    result->bytes_in = result->frames * run->roi * run->roi * 2;
    pages_free(from, bytes);
    pages_free(to, bytes);
    pages_free(patch, (size_t)(run->roi * run->roi) * 2);
}

/* --- The plain copier -------------------------------------------------------- */

enum { RING = 4 };

typedef struct copier {
    const regions_run *run;
    int in, out;
    uint64_t blocks;
    unsigned char *ring;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    uint64_t filled, written;
    int failed; /* errno of the first call that failed */
} copier;

static int read_block(int fd, unsigned char *data, size_t n, off_t offset)
{
    while (n > 0) {
        ssize_t k = pread(fd, data, n, offset);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k < 0 ? errno : EIO;
        data += k;
        offset += k;
        n -= (size_t)k;
    }
    return 0;
}

static void *write_blocks(void *arg)
{
    copier *c = arg;
    size_t n = c->run->written;
    for (uint64_t i = 0; i < c->blocks; i++) {
        (void)pthread_mutex_lock(&c->lock);
        while (c->filled == i && c->failed == 0)
            (void)pthread_cond_wait(&c->changed, &c->lock);
        int rc = c->failed;
        (void)pthread_mutex_unlock(&c->lock);
        if (rc == 0)
            rc = bench_write_at(c->out, c->ring + i % RING * c->run->read_bytes, n,
                                (off_t)(i * n));
        (void)pthread_mutex_lock(&c->lock);
        c->failed = c->failed != 0 ? c->failed : rc;
        c->written++;
        (void)pthread_cond_broadcast(&c->changed);
        (void)pthread_mutex_unlock(&c->lock);
        if (rc != 0)
            break;
    }
    return NULL;
}

static int read_blocks(copier *c)
{
    int rc = 0;
    for (uint64_t i = 0; i < c->blocks && rc == 0; i++) {
        (void)pthread_mutex_lock(&c->lock);
        while (c->filled - c->written == RING && c->failed == 0)
            (void)pthread_cond_wait(&c->changed, &c->lock);
        rc = c->failed;
        (void)pthread_mutex_unlock(&c->lock);
        if (rc == 0)
            rc = read_block(c->in, c->ring + i % RING * c->run->read_bytes, c->run->read_bytes,
                            (off_t)(i * c->run->read_bytes));
        (void)pthread_mutex_lock(&c->lock);
        c->failed = c->failed != 0 ? c->failed : rc;
        c->filled++;
        (void)pthread_cond_broadcast(&c->changed);
        (void)pthread_mutex_unlock(&c->lock);
    }
    return rc;
}

static int copy_all(copier *c)
{
    pthread_t writer;
    if (posix_fallocate(c->out, 0, (off_t)(c->blocks * c->run->written)) != 0)
        c->failed = 0; /* a file system without it: the file grows as it is written */
    int rc = pthread_create(&writer, NULL, write_blocks, c);
    if (rc != 0)
        return rc;
    (void)read_blocks(c);
    (void)pthread_join(writer, NULL);
    rc = c->failed;
    return rc == 0 && fsync(c->out) != 0 ? errno : rc;
}

/* The file to read: as much as the blocks take, of noise. */
static int make_input(const char *path, const copier *c)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0644);
    int rc = fd < 0 ? errno : 0;
    memset(c->ring, 0xA5, RING * c->run->read_bytes);
    for (uint64_t i = 0; rc == 0 && i < c->blocks; i++)
        rc = bench_write_at(fd, c->ring, c->run->read_bytes, (off_t)(i * c->run->read_bytes));
    if (rc == 0 && fsync(fd) != 0)
        rc = errno;
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

void regions_run_copier(void *arg, bench_result *result)
{
    const regions_run *run = arg;
    char from[4096];
    copier c = {.run = run, .in = -1, .out = -1};
    uint64_t bytes = run->in->extent * run->in->extent * 2;
    c.blocks = bytes / run->read_bytes;
    c.ring = pages_new(RING * run->read_bytes);
    (void)snprintf(from, sizeof from, "%s.from", run->out);
    (void)pthread_mutex_init(&c.lock, NULL);
    (void)pthread_cond_init(&c.changed, NULL);
    int rc = c.ring == NULL ? ENOMEM : make_input(from, &c);
    result->rss_bytes_before = cli_rss_peak();
    sync();

    double start = bench_now(), cpu = cpu_now();
    if (rc == 0) {
        c.in = open(from, O_RDONLY | O_CLOEXEC | O_DIRECT);
        c.out = open(run->out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0644);
        rc = c.in < 0 || c.out < 0 ? errno : copy_all(&c);
    }
    result->seconds = bench_now() - start;
    result->cpu_seconds = cpu_now() - cpu;
    if (rc != 0) {
        errno = rc;
        result->status = cli_fail_errno(&result->err, run->out, "copy");
        if (rc == EINVAL)
            result->status =
                cli_fail(&result->err, TG_UNSUPPORTED, "no O_DIRECT at '%.200s'", run->out);
    }
    result->frames = c.blocks;
    result->bytes_in = c.blocks * run->read_bytes;
    result->bytes_written = c.blocks * run->written;
    (void)close(c.in);
    (void)close(c.out);
    (void)unlink(from);
    (void)unlink(run->out);
    pages_free(c.ring, RING * run->read_bytes);
}

/* --- The codec alone --------------------------------------------------------- */

typedef struct codec_work {
    const regions_run *run;
    tg_array *in, *out;
    uint64_t first, step; /* chunks */
    tg_status status;
    tg_error err;
} codec_work;

static void one_chunk(codec_work *w, uint64_t k, uint16_t *from, unsigned char *to)
{
    uint64_t side = w->run->in->chunk, across = w->run->in->extent / side;
    const uint64_t start[2] = {k / across * side, k % across * side}, count[2] = {side, side};
    w->status = tg_array_read(w->in, start, count, from, NULL, w->run->in->cancel, &w->err);
    if (w->status != TG_OK)
        return;
    for (uint64_t i = 0; i < side * side; i++)
        to[i] = from[i] > 300;
    w->status = tg_array_write(w->out, start, count, to, NULL, w->run->in->cancel, &w->err);
}

static void *code_chunks(void *arg)
{
    codec_work *w = arg;
    uint64_t side = w->run->in->chunk, across = w->run->in->extent / side;
    size_t items = (size_t)(side * side);
    uint16_t *from = pages_new(items * 2);
    unsigned char *to = pages_new(items);
    if (from != NULL && to != NULL) {
        for (uint64_t k = w->first; k < across * across && w->status == TG_OK; k += w->step)
            one_chunk(w, k, from, to);
    } else {
        w->status = cli_fail(&w->err, TG_NO_MEMORY, "no memory for a chunk");
    }
    pages_free(from, items * 2);
    pages_free(to, items);
    return NULL;
}

enum { MOST_THREADS = 64 };

void regions_run_codec(void *arg, bench_result *result)
{
    const regions_run *run = arg;
    static codec_work work[MOST_THREADS];
    pthread_t thread[MOST_THREADS];
    CLI_AUTO(auto_store) tg_store *in = NULL;
    CLI_AUTO(auto_store) tg_store *out = NULL;
    CLI_AUTO(auto_array) tg_array *from = NULL;
    CLI_AUTO(auto_array) tg_array *to = NULL;
    uint32_t n = run->threads == 0 ? (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) : run->threads;
    n = n > MOST_THREADS ? MOST_THREADS : n;

    result->rss_bytes_before = cli_rss_peak();
    double start = bench_now(), cpu = cpu_now();
    tg_status st = tg_store_open(run->in->path, NULL, &in, NULL, &result->err);
    if (st == TG_OK)
        st = tg_array_open(in, "", &from, run->in->cancel, &result->err);
    if (st == TG_OK)
        st = make_array(run->out, run->in, (tg_dtype){TG_DT_UINT, 1}, run->codec, &out, &to,
                        &result->err);
    uint32_t begun = 0;
    for (uint32_t i = 0; i < n && st == TG_OK; i++) {
        work[i] = (codec_work){.run = run, .in = from, .out = to, .first = i, .step = n};
        if (pthread_create(&thread[i], NULL, code_chunks, &work[i]) != 0)
            st = cli_fail(&result->err, TG_IO, "no thread");
        else
            begun++;
    }
    for (uint32_t i = 0; i < begun; i++) {
        (void)pthread_join(thread[i], NULL);
        if (work[i].status != TG_OK && st == TG_OK) {
            st = work[i].status;
            result->err = work[i].err;
        }
    }
    result->seconds = bench_now() - start;
    result->cpu_seconds = cpu_now() - cpu;
    result->status = st;
    result->bytes_in = run->in->extent * run->in->extent * 2;
    result->frames = result->bytes_in / (run->in->chunk * run->in->chunk * 2);
}
