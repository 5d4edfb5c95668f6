/* cli/bench_floor.c - what the disk takes from one plain file: the limit that every writer of
 * frames is measured against. Knows nothing of Zarr. */
#define _GNU_SOURCE /* O_DIRECT, fallocate */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define ALIGN 4096

/* Blocks between the copying caller and the thread that writes them. */
typedef struct ring {
    int fd;
    size_t block_bytes, n_blocks;
    unsigned char *blocks;
    size_t fill; /* bytes in the block that is being filled */
    uint64_t total;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    uint64_t filled, written; /* blocks handed over, blocks on the disk */
    bool done;
    int failed; /* errno of the first write that failed */
} ring;

int bench_write_at(int fd, const unsigned char *data, size_t n, off_t offset)
{
    while (n > 0) {
        ssize_t k = pwrite(fd, data, n, offset);
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

static unsigned char *block_at(const ring *r, uint64_t i)
{
    return r->blocks + i % r->n_blocks * r->block_bytes;
}

static void *write_blocks(void *arg)
{
    ring *r = arg;
    (void)pthread_mutex_lock(&r->lock);
    for (;;) {
        while (r->written == r->filled && !r->done)
            (void)pthread_cond_wait(&r->changed, &r->lock);
        if (r->written == r->filled)
            break;
        uint64_t i = r->written;
        (void)pthread_mutex_unlock(&r->lock);
        int rc =
            bench_write_at(r->fd, block_at(r, i), r->block_bytes, (off_t)(i * r->block_bytes));
        (void)pthread_mutex_lock(&r->lock);
        r->failed = r->failed != 0 ? r->failed : rc;
        r->written++;
        (void)pthread_cond_broadcast(&r->changed);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* The full block goes to the writer; waits until the next one is free. */
static void hand_over(ring *r)
{
    r->fill = 0;
    if (r->n_blocks == 1) {
        int rc = bench_write_at(r->fd, r->blocks, r->block_bytes,
                                (off_t)(r->filled * r->block_bytes));
        r->failed = r->failed != 0 ? r->failed : rc;
        r->filled++;
        return;
    }
    (void)pthread_mutex_lock(&r->lock);
    r->filled++;
    (void)pthread_cond_broadcast(&r->changed);
    while (r->filled - r->written == r->n_blocks)
        (void)pthread_cond_wait(&r->changed, &r->lock);
    (void)pthread_mutex_unlock(&r->lock);
}

static void append(ring *r, const unsigned char *data, size_t n)
{
    while (n > 0) {
        size_t room = r->block_bytes - r->fill, part = n < room ? n : room;
        memcpy(block_at(r, r->filled) + r->fill, data, part);
        r->fill += part;
        data += part;
        n -= part;
        if (r->fill == r->block_bytes)
            hand_over(r);
    }
}

static void finish(ring *r, pthread_t thread)
{
    if (r->fill > 0)
        hand_over(r); /* the tail block is written whole, and cut off afterwards */
    if (r->n_blocks == 1)
        return;
    (void)pthread_mutex_lock(&r->lock);
    r->done = true;
    (void)pthread_cond_broadcast(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
    (void)pthread_join(thread, NULL);
}

static int write_direct(const floor_job *job, int fd, bench_pool *pool)
{
    uint64_t total = job->frames * job->frame_bytes;
    ring r = {.fd = fd, .block_bytes = job->block_bytes, .n_blocks = job->ring, .total = total};
    pthread_t thread = pthread_self();
    r.blocks = pages_new(r.n_blocks * r.block_bytes);
    if (r.blocks == NULL)
        return ENOMEM;
    (void)pthread_mutex_init(&r.lock, NULL);
    (void)pthread_cond_init(&r.changed, NULL);
    if (posix_fallocate(fd, 0, (off_t)total) != 0)
        r.failed = 0; /* a file system without it: the file grows as it is written */
    int rc = r.n_blocks > 1 ? pthread_create(&thread, NULL, write_blocks, &r) : 0;
    if (rc == 0) {
        for (uint64_t i = 0; i < job->frames; i++)
            append(&r, pool_frame(pool, i), job->frame_bytes);
        finish(&r, thread);
        rc = r.failed;
    }
    if (rc == 0 && ftruncate(fd, (off_t)total) != 0)
        rc = errno;
    pages_free(r.blocks, r.n_blocks * r.block_bytes);
    return rc;
}

static int write_buffered(const floor_job *job, int fd, bench_pool *pool)
{
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < job->frames; i++)
        rc = bench_write_at(fd, pool_frame(pool, i), job->frame_bytes,
                            (off_t)(i * job->frame_bytes));
    return rc;
}

static void fail(bench_result *result, const char *path, int sys)
{
    errno = sys;
    result->status = cli_fail_errno(&result->err, path, "write");
}

void floor_run(void *arg, bench_result *result)
{
    const floor_job *job = arg;
    bench_pool pool;
    char path[4096];
    result->status =
        pool_new(&pool, job->frame_bytes, job->frames, BENCH_NOISE, NULL, &result->err);
    if (result->status != TG_OK)
        return;
    bench_scratch_name(job->dir, path, sizeof path);
    result->rss_bytes_before = cli_rss_peak();
    sync();

    double start = bench_now();
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | (job->direct ? O_DIRECT : 0),
                  0644);
    if (fd < 0) {
        fail(result, path, errno);
        if (job->direct && errno == EINVAL)
            result->status =
                cli_fail(&result->err, TG_UNSUPPORTED, "no O_DIRECT in '%.200s'", job->dir);
        return;
    }
    int rc = (job->direct ? write_direct : write_buffered)(job, fd, &pool);
    if (rc == 0 && fsync(fd) != 0)
        rc = errno;
    if (close(fd) != 0 && rc == 0)
        rc = errno;
    result->seconds = bench_now() - start;
    (void)unlink(path);
    if (rc != 0)
        fail(result, path, rc);
    result->frames = job->frames;
    result->bytes_in = job->frames * job->frame_bytes;
    pool_free(&pool);
}
