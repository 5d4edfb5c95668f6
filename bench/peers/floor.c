// What the disk takes from one plain file: the floor under every writer of frames. Prints one
// JSON line like the other peers. Knows nothing of Zarr.
//
// floor KEY=VALUE...   mode=buffered  write(2) per frame, fsync at the end
//                      mode=direct    frames copied into aligned blocks, O_DIRECT writes, fsync
//                      at the end
// dir, frames, frame_bytes, scenario; with mode=direct also block (bytes), ring (blocks; from 2
// on a second thread writes while the caller copies) and prealloc (1: fallocate first).
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ALIGN = 4096, POOL_BYTES = 64 << 20 };

typedef struct {
    const char *mode, *dir, *scenario;
    size_t frames, frame_bytes, block_bytes, ring, prealloc;
} config;

// A ring of blocks between the copying caller and the thread that writes them; ring 1 writes in
// the caller.
typedef struct {
    int fd;
    size_t block_bytes, n_blocks;
    uint8_t *blocks;
    off_t offset;         // of the next block in the file
    size_t fill;          // bytes in the block being filled
    pthread_mutex_t lock; // guards filled, written and done
    pthread_cond_t changed;
    uint64_t filled, written; // blocks handed over, blocks on disk
    bool done;
} ring;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static size_t peak_rss_bytes(void)
{
    char line[256];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %zu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

static void write_all(int fd, const uint8_t *data, size_t n, off_t offset)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, data, n, offset);
        if (done <= 0)
            die("pwrite");
        data += done;
        offset += done;
        n -= (size_t)done;
    }
}

// Huge pages where there are any: a block is touched once per turn of the ring.
static uint8_t *touched_pages(size_t bytes)
{
    uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("mmap");
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 1, bytes);
    return p;
}

static uint8_t *block_at(ring *r, uint64_t i)
{
    return r->blocks + i % r->n_blocks * r->block_bytes;
}

static void *write_blocks(void *arg)
{
    ring *r = arg;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (r->written == r->filled && !r->done)
            pthread_cond_wait(&r->changed, &r->lock);
        if (r->written == r->filled)
            break;
        uint64_t i = r->written;
        pthread_mutex_unlock(&r->lock);
        write_all(r->fd, block_at(r, i), r->block_bytes, (off_t)(i * r->block_bytes));
        pthread_mutex_lock(&r->lock);
        r->written++;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

// Hands the full block over and waits until the next one is free.
static void hand_over(ring *r)
{
    r->fill = 0;
    if (r->n_blocks == 1) {
        write_all(r->fd, r->blocks, r->block_bytes, r->offset);
        r->offset += (off_t)r->block_bytes;
        return;
    }
    pthread_mutex_lock(&r->lock);
    r->filled++;
    pthread_cond_broadcast(&r->changed);
    while (r->filled - r->written == r->n_blocks)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void append(ring *r, const uint8_t *data, size_t n)
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

// Frame i of the run: a frame of the pool with its sequence number in the first 8 bytes.
static const uint8_t *stamped(const config *c, uint8_t *pool, size_t n_pool, uint64_t i)
{
    uint8_t *frame = pool + i % n_pool * c->frame_bytes;
    memcpy(frame, &i, c->frame_bytes < sizeof i ? c->frame_bytes : sizeof i);
    return frame;
}

static void write_direct(const config *c, int fd, uint8_t *pool, size_t n_pool)
{
    size_t total = c->frames * c->frame_bytes;
    ring r = {.fd = fd, .block_bytes = c->block_bytes, .n_blocks = c->ring};
    pthread_t thread;

    r.blocks = touched_pages(r.n_blocks * r.block_bytes);
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.changed, NULL);
    if (c->prealloc && posix_fallocate(fd, 0, (off_t)total) != 0)
        die("posix_fallocate");
    if (r.n_blocks > 1 && pthread_create(&thread, NULL, write_blocks, &r) != 0)
        die("pthread_create");

    for (size_t i = 0; i < c->frames; i++)
        append(&r, stamped(c, pool, n_pool, i), c->frame_bytes);
    if (r.fill > 0)
        hand_over(&r); // the tail block is written whole and cut off below

    if (r.n_blocks > 1) {
        pthread_mutex_lock(&r.lock);
        r.done = true;
        pthread_cond_broadcast(&r.changed);
        pthread_mutex_unlock(&r.lock);
        pthread_join(thread, NULL);
    }
    if (ftruncate(fd, (off_t)total) != 0)
        die("ftruncate");
}

static void write_buffered(const config *c, int fd, uint8_t *pool, size_t n_pool)
{
    for (size_t i = 0; i < c->frames; i++)
        write_all(fd, stamped(c, pool, n_pool, i), c->frame_bytes, (off_t)(i * c->frame_bytes));
}

static config parse(int argc, char **argv)
{
    config c = {.mode = "buffered",
                .dir = ".",
                .scenario = "write",
                .frames = 400,
                .frame_bytes = 8 << 20,
                .block_bytes = 8 << 20,
                .ring = 1};
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value) {
            fprintf(stderr, "want KEY=VALUE, got %s\n", argv[i]);
            exit(2);
        }
        *value++ = 0;
        size_t number = strtoull(value, NULL, 10);
        if (!strcmp(argv[i], "mode"))
            c.mode = value;
        else if (!strcmp(argv[i], "dir"))
            c.dir = value;
        else if (!strcmp(argv[i], "scenario"))
            c.scenario = value;
        else if (!strcmp(argv[i], "frames"))
            c.frames = number;
        else if (!strcmp(argv[i], "frame_bytes"))
            c.frame_bytes = number;
        else if (!strcmp(argv[i], "block"))
            c.block_bytes = number;
        else if (!strcmp(argv[i], "ring"))
            c.ring = number;
        else if (!strcmp(argv[i], "prealloc"))
            c.prealloc = number;
        else {
            fprintf(stderr, "unknown key %s\n", argv[i]);
            exit(2);
        }
    }
    if (c.block_bytes % ALIGN || !c.block_bytes || !c.ring || !c.frames || !c.frame_bytes) {
        fprintf(stderr, "block must be a multiple of %d, and all sizes at least 1\n", ALIGN);
        exit(2);
    }
    return c;
}

int main(int argc, char **argv)
{
    config c = parse(argc, argv);
    bool direct = !strcmp(c.mode, "direct");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/floor.%d", c.dir, (int)getpid());

    size_t n_pool = POOL_BYTES / c.frame_bytes;
    n_pool = n_pool < 1 ? 1 : n_pool > c.frames ? c.frames : n_pool;
    uint8_t *pool = touched_pages(n_pool * c.frame_bytes);
    uint32_t seed = 1;
    for (size_t i = 0; i < n_pool * c.frame_bytes; i++)
        pool[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    size_t rss_before = peak_rss_bytes();
    sync();

    double start = now();
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | (direct ? O_DIRECT : 0), 0644);
    if (fd < 0)
        die(path);
    (direct ? write_direct : write_buffered)(&c, fd, pool, n_pool);
    double appended = now() - start;
    if (fsync(fd) != 0 || close(fd) != 0)
        die("fsync");
    double synced = now() - start;
    unlink(path);

    printf("{\"peer\": \"floor-%s\", \"version\": \"-\", \"scenario\": \"%s\", \"config\": {",
           c.mode, c.scenario);
    if (direct)
        printf("\"block\": %zu, \"ring\": %zu, \"prealloc\": %zu", c.block_bytes, c.ring,
               c.prealloc);
    printf("}, \"mib_per_s\": %.1f, \"frames_per_s\": %.1f, \"rss_bytes_peak\": %zu, "
           "\"rss_bytes_before\": %zu, "
           "\"seconds\": {\"append\": %.3f, \"sync\": %.3f}, \"frames\": %zu, \"frame_bytes\": "
           "%zu}\n",
           (double)c.frames * (double)c.frame_bytes / synced / (1 << 20),
           (double)c.frames / synced, peak_rss_bytes(), rss_before, appended, synced - appended,
           c.frames, c.frame_bytes);
    return 0;
}
