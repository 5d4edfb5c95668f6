/* ims/keeper.c - two halves of memory: one is filled while the other is written out. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fdopendir */
#endif
#include "ims/keeper.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/sync.h"
#include "base/sys.h"
#include "chem/sort.h"
#include "exec/exec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC       0x4d494754u /* "TGIM" */
#define MAJOR       1u
#define INDEX_SHARE 288 /* bytes of a half for each place in its index */
#define ENDING      ".blk"
#define NAME_BYTES  64

/* As they lie in the file: little-endian, no padding. */
typedef struct block_head {
    uint32_t magic, major, job, n_pixels;
} block_head;

typedef struct entry {
    uint64_t hash[2];
    uint64_t offset;
    uint32_t len, unused;
} entry;

typedef struct block_tail {
    uint64_t index_at, index_bytes;
    uint32_t n, index_crc32c, job, n_pixels;
    uint32_t major, magic;
} block_tail;
_Static_assert(sizeof(block_head) == 16, "written as it lies in memory");
_Static_assert(sizeof(entry) == 32, "written as it lies in memory");
_Static_assert(sizeof(block_tail) == TG_BLOCK_END_BYTES, "written as it lies in memory");

typedef struct half {
    uint8_t *bytes;
    size_t used;
    entry *index;
    uint32_t n, block;
} half;

struct tg_keeper {
    tg_fd dir;
    char *path; /* of that folder */
    char prefix[40];
    uint32_t job, n_pixels;
    size_t cap; /* of a half */
    uint32_t cap_index;
    tg_budget *budget;
    uint64_t reserved;
    tg_mutex lock; /* guards all below */
    tg_cond changed;
    half halves[2];
    int active;
    bool writing; /* the other half */
    uint32_t next_block;
    uint64_t spilled;
};

static int by_hash(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    for (int i = 0; i < 2; i++)
        if (x->hash[i] != y->hash[i])
            return x->hash[i] < y->hash[i] ? -1 : 1;
    return 0;
}

/* --- Blocks ------------------------------------------------------------------------------ */

static void block_name(const tg_keeper *k, uint32_t block, char name[NAME_BYTES])
{
    (void)snprintf(name, NAME_BYTES, "%s-%06u" ENDING, k->prefix, block);
}

static tg_status write_all(const tg_keeper *k, half *h, int fd, const char *name,
                           uint64_t *bytes, tg_error *err)
{
    block_tail tail = {.index_at = h->used,
                       .index_bytes = (uint64_t)h->n * sizeof(entry),
                       .n = h->n,
                       .job = k->job,
                       .n_pixels = k->n_pixels,
                       .major = MAJOR,
                       .magic = MAGIC};

    tg_heap_sort(h->index, h->n, sizeof *h->index, by_hash);
    tail.index_crc32c = tg_crc32c(0, h->index, tail.index_bytes);
    TG_TRY(tg_fd_write_at(fd, h->bytes, h->used, 0, name, err));
    TG_TRY(tg_fd_write_at(fd, h->index, tail.index_bytes, tail.index_at, name, err));
    *bytes = tail.index_at + tail.index_bytes + sizeof tail;
    return tg_fd_write_at(fd, &tail, sizeof tail, tail.index_at + tail.index_bytes, name, err);
}

/* Nobody adds to this half meanwhile. */
static tg_status write_block(tg_keeper *k, half *h, tg_error *err)
{
    char name[NAME_BYTES];
    uint64_t bytes = 0;

    block_name(k, h->block, name);
    TG_AUTO(tg_fd) fd = tg_sys_open(k->dir, name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0)
        return tg_fail_errno(err, "make '%s/%s'", k->path, name);
    tg_status st = write_all(k, h, fd, name, &bytes, err);
    if (st == TG_OK)
        st = tg_fd_close(&fd, name, err);
    if (st != TG_OK) {
        (void)tg_sys_unlink(k->dir, name, 0);
        return st;
    }
    TG_LOCKED(&k->lock);
    k->spilled += bytes;
    return TG_OK;
}

tg_status tg_block_end_read(const uint8_t tail[TG_BLOCK_END_BYTES], uint64_t size,
                            tg_block_end *out, tg_error *err)
{
    block_tail t;
    memcpy(&t, tail, sizeof t);
    if (t.magic != MAGIC)
        return tg_fail(err, TG_CORRUPT, "a block of images ends in its middle");
    if (t.major != MAJOR)
        return tg_fail(err, TG_UNSUPPORTED, "a block of images of version %u, this knows %u",
                       t.major, MAJOR);
    if (t.index_bytes != (uint64_t)t.n * sizeof(entry) || size < sizeof t ||
        t.index_bytes > size - sizeof t || t.index_at != size - sizeof t - t.index_bytes)
        return tg_fail(err, TG_CORRUPT, "a block of images of %llu bytes, its index at %llu",
                       (unsigned long long)size, (unsigned long long)t.index_at);
    *out = (tg_block_end){t.index_at, t.n, t.job, t.n_pixels, t.index_crc32c};
    return TG_OK;
}

/* --- Making ------------------------------------------------------------------------------- */

uint64_t tg_keeper_least_bytes(uint64_t n_pixels)
{
    const uint64_t one = tg_image_record_bytes(n_pixels) + sizeof(block_head);
    return 2 * (one + one / 8 + 16 * sizeof(entry));
}

static tg_status open_folder(tg_keeper *k, const tg_ims_side *side, tg_error *err)
{
    const size_t n = strlen(side->path) + sizeof TG_SPILL_NAME + 1;
    k->path = tg_alloc(n);
    if (k->path == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a path");
    (void)snprintf(k->path, n, "%s/%s", side->path, TG_SPILL_NAME);
    if (tg_sys_mkdir(side->dir, TG_SPILL_NAME, 0777) != 0 && errno != EEXIST)
        return tg_fail_errno(err, "make '%s'", k->path);
    k->dir = tg_sys_open(side->dir, TG_SPILL_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (k->dir < 0)
        return tg_fail_errno(err, "open '%s'", k->path);
    (void)snprintf(k->prefix, sizeof k->prefix, "%ld-%llx", (long)getpid(),
                   (unsigned long long)tg_clock_ns());
    return TG_OK;
}

static void begin_half(tg_keeper *k, half *h)
{
    const block_head head = {MAGIC, MAJOR, k->job, k->n_pixels};
    memcpy(h->bytes, &head, sizeof head);
    h->used = sizeof head;
    h->n = 0;
    h->block = k->next_block++;
}

static tg_status take_room(tg_keeper *k, uint64_t room_bytes, tg_error *err)
{
    const size_t each = (size_t)(room_bytes / 2);
    k->cap_index = (uint32_t)(each / INDEX_SHARE);
    k->cap = each - k->cap_index * sizeof(entry);
    if (k->budget != NULL) {
        TG_TRY(tg_budget_reserve(k->budget, room_bytes, "kept images", err));
        k->reserved = room_bytes;
    }
    for (int i = 0; i < 2; i++) {
        k->halves[i].bytes = tg_alloc(k->cap);
        k->halves[i].index = tg_alloc_array(k->cap_index, sizeof(entry));
        if (k->halves[i].bytes == NULL || k->halves[i].index == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory to keep images");
    }
    begin_half(k, &k->halves[0]);
    return TG_OK;
}

tg_status tg_keeper_new(tg_keeper **out, const tg_ims_side *side, uint32_t job,
                        uint64_t n_pixels, uint64_t room_bytes, tg_budget *budget,
                        tg_error *err)
{
    const uint64_t least = tg_keeper_least_bytes(n_pixels);
    if (room_bytes < least || n_pixels > UINT32_MAX)
        return tg_fail(err, TG_OVER_BUDGET, "keeping images wants %llu bytes, got %llu",
                       (unsigned long long)least, (unsigned long long)room_bytes);
    TG_AUTO_PTR(tg_keeper) k = tg_calloc(1, sizeof *k);
    if (k == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to keep images");
    tg_mutex_init(&k->lock);
    tg_cond_init(&k->changed);
    k->dir = -1;
    k->job = job;
    k->n_pixels = (uint32_t)n_pixels;
    k->budget = budget;
    TG_TRY(open_folder(k, side, err));
    TG_TRY(take_room(k, room_bytes, err));
    *out = tg_steal(k);
    return TG_OK;
}

void tg_keeper_free(tg_keeper *k)
{
    if (k == NULL)
        return;
    for (int i = 0; i < 2; i++) {
        tg_free(k->halves[i].bytes);
        tg_free(k->halves[i].index);
    }
    tg_fd_auto(&k->dir);
    tg_free(k->path);
    if (k->budget != NULL)
        tg_budget_release(k->budget, k->reserved);
    tg_cond_destroy(&k->changed);
    tg_mutex_destroy(&k->lock);
    tg_free(k);
}

/* --- Adding ------------------------------------------------------------------------------- */

static void put(half *h, const uint64_t hash[2], tg_bytes record, tg_image_ref *ref)
{
    memcpy(h->bytes + h->used, record.data, record.len);
    h->index[h->n++] = (entry){{hash[0], hash[1]}, h->used, (uint32_t)record.len, 0};
    *ref = (tg_image_ref){{hash[0], hash[1]}, h->used, (uint32_t)record.len, h->block};
    h->used += record.len;
}

/* Put it where there is room; or name the half that is to be written first, and begin the
 * other. Waits while that one is still being written. */
static half *put_or_turn(tg_keeper *k, const uint64_t hash[2], tg_bytes record,
                         tg_image_ref *ref)
{
    TG_LOCKED(&k->lock);
    for (;;) {
        half *h = &k->halves[k->active];
        if (record.len <= k->cap - h->used && h->n < k->cap_index) {
            put(h, hash, record, ref);
            return NULL;
        }
        if (!k->writing) {
            k->writing = true;
            k->active = 1 - k->active;
            begin_half(k, &k->halves[k->active]);
            return h;
        }
        tg_cond_wait(&k->changed, &k->lock);
    }
}

static tg_status write_turned(tg_keeper *k, half *full, tg_error *err)
{
    tg_status st = write_block(k, full, err);
    TG_LOCKED(&k->lock);
    k->writing = false;
    tg_cond_broadcast(&k->changed);
    return st;
}

tg_status tg_keeper_add(tg_keeper *k, const uint64_t hash[2], tg_bytes record,
                        tg_image_ref *ref, tg_error *err)
{
    if (record.len > k->cap - sizeof(block_head))
        return tg_fail(err, TG_OVER_BUDGET, "images of %zu bytes, there is room for %zu",
                       record.len, k->cap - sizeof(block_head));
    for (half *full; (full = put_or_turn(k, hash, record, ref)) != NULL;)
        TG_TRY(write_turned(k, full, err));
    return TG_OK;
}

static half *turn(tg_keeper *k)
{
    TG_LOCKED(&k->lock);
    while (k->writing)
        tg_cond_wait(&k->changed, &k->lock);
    half *h = &k->halves[k->active];
    if (h->n == 0)
        return NULL;
    k->writing = true;
    k->active = 1 - k->active;
    begin_half(k, &k->halves[k->active]);
    return h;
}

tg_status tg_keeper_flush(tg_keeper *k, tg_error *err)
{
    half *h = turn(k);
    return h == NULL ? TG_OK : write_turned(k, h, err);
}

/* --- Reading again --------------------------------------------------------------------------
 */

static bool copy_held(tg_keeper *k, const tg_image_ref *ref, uint8_t *room)
{
    TG_LOCKED(&k->lock);
    while (k->writing)
        tg_cond_wait(&k->changed, &k->lock);
    const half *h = &k->halves[k->active];
    if (h->block != ref->block)
        return false;
    memcpy(room, h->bytes + ref->offset, ref->len);
    return true;
}

tg_status tg_keeper_get(tg_keeper *k, const tg_image_ref *ref, uint8_t *room, size_t cap,
                        tg_error *err)
{
    char name[NAME_BYTES];
    if (ref->len > cap)
        return tg_fail(err, TG_INVALID, "images of %u bytes into %zu", ref->len, cap);
    if (copy_held(k, ref, room))
        return TG_OK;
    block_name(k, ref->block, name);
    TG_AUTO(tg_fd) fd = tg_sys_open(k->dir, name, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return tg_fail_errno(err, "open '%s/%s'", k->path, name);
    return tg_fd_read_at(fd, room, ref->len, ref->offset, name, err);
}

uint64_t tg_keeper_spilled(const tg_keeper *k)
{
    return k->spilled;
}

uint32_t tg_keeper_blocks(const tg_keeper *k)
{
    return k->next_block - 1;
}

/* --- What runs have kept -------------------------------------------------------------------
 */

typedef struct kept_block {
    char name[NAME_BYTES];
    tg_block_end end;
} kept_block;

typedef struct place {
    entry at;
    uint32_t block;
} place;

struct tg_kept {
    tg_fd dir;
    kept_block *blocks;
    size_t n_blocks, cap_blocks;
    place *places; /* by hash */
    uint64_t n;
    tg_budget *budget;
    uint64_t reserved;
};

static void close_list(DIR **d)
{
    if (*d != NULL)
        (void)closedir(*d);
}

static tg_status add_block(tg_kept *k, const char *name, const tg_block_end *end, tg_error *err)
{
    if (k->n_blocks == k->cap_blocks) {
        const size_t want = k->cap_blocks == 0 ? 64 : 2 * k->cap_blocks;
        kept_block *more = tg_alloc_array(want, sizeof *more);
        if (more == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for %zu blocks", want);
        if (k->n_blocks > 0)
            memcpy(more, k->blocks, k->n_blocks * sizeof *more);
        tg_free(k->blocks);
        k->blocks = more;
        k->cap_blocks = want;
    }
    kept_block *b = &k->blocks[k->n_blocks++];
    memcpy(b->name, name, strlen(name) + 1); /* it was measured */
    b->end = *end;
    k->n += end->n;
    return TG_OK;
}

/* A block of this job that is whole; others are passed over. */
static tg_status look_at(tg_kept *k, const char *name, uint32_t job, uint64_t n_pixels,
                         tg_error *err)
{
    uint8_t tail[TG_BLOCK_END_BYTES];
    struct stat st;
    tg_block_end end;
    const size_t n = strlen(name), ending = sizeof ENDING - 1;

    if (n <= ending || n >= NAME_BYTES || strcmp(name + n - ending, ENDING) != 0)
        return TG_OK;
    TG_AUTO(tg_fd) fd = tg_sys_open(k->dir, name, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0 || tg_sys_stat_fd(fd, &st) != 0 || st.st_size < (off_t)sizeof tail ||
        tg_fd_read_at(fd, tail, sizeof tail, (uint64_t)st.st_size - sizeof tail, name, NULL) !=
            TG_OK ||
        tg_block_end_read(tail, (uint64_t)st.st_size, &end, NULL) != TG_OK || end.job != job ||
        end.n_pixels != n_pixels)
        return TG_OK;
    return add_block(k, name, &end, err);
}

static tg_status list_blocks(tg_kept *k, uint32_t job, uint64_t n_pixels, tg_error *err)
{
    const int fd = tg_sys_open(k->dir, ".", O_RDONLY | O_DIRECTORY, 0);
    __attribute__((cleanup(close_list))) DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL)
        return tg_fail_errno(err, "list '%s'", TG_SPILL_NAME);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this DIR */
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        TG_TRY(look_at(k, e->d_name, job, n_pixels, err));
    return TG_OK;
}

/* An index that does not hold what its sum says adds nothing. */
static tg_status read_index(tg_kept *k, uint32_t block, entry *room, uint64_t *n, tg_error *err)
{
    const kept_block *b = &k->blocks[block];
    const size_t bytes = (size_t)b->end.n * sizeof(entry);
    TG_AUTO(tg_fd) fd = tg_sys_open(k->dir, b->name, O_RDONLY | O_NOFOLLOW, 0);
    (void)err;
    if (fd < 0 || tg_fd_read_at(fd, room, bytes, b->end.index_at, b->name, NULL) != TG_OK ||
        tg_crc32c(0, room, bytes) != b->end.crc32c)
        return TG_OK;
    for (uint32_t i = 0; i < b->end.n; i++)
        if (room[i].offset <= b->end.index_at &&
            room[i].len <= b->end.index_at - room[i].offset)
            k->places[(*n)++] = (place){room[i], block};
    return TG_OK;
}

static tg_status read_indices(tg_kept *k, tg_error *err)
{
    uint32_t most = 0;
    uint64_t n = 0;
    for (size_t i = 0; i < k->n_blocks; i++)
        most = k->blocks[i].end.n > most ? k->blocks[i].end.n : most;
    const uint64_t bytes =
        k->n * sizeof(place) + most * sizeof(entry) + k->cap_blocks * sizeof(kept_block);
    if (k->budget != NULL) {
        TG_TRY(tg_budget_reserve(k->budget, bytes, "index of kept images", err));
        k->reserved = bytes;
    }
    TG_AUTO(tg_mem_ptr) owner = tg_alloc_array((size_t)most + 1, sizeof(entry));
    entry *room = owner;
    k->places = tg_alloc_array(k->n + 1, sizeof *k->places);
    if (room == NULL || k->places == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the index of %llu images",
                       (unsigned long long)k->n);
    for (size_t i = 0; i < k->n_blocks; i++)
        TG_TRY(read_index(k, (uint32_t)i, room, &n, err));
    k->n = n;
    tg_heap_sort(k->places, n, sizeof *k->places, by_hash); /* a place begins with its entry */
    return TG_OK;
}

tg_status tg_kept_open(tg_kept **out, const tg_ims_side *side, uint32_t job, uint64_t n_pixels,
                       tg_budget *budget, tg_error *err)
{
    TG_AUTO_PTR(tg_kept) k = tg_calloc(1, sizeof *k);
    if (k == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for kept images");
    k->budget = budget;
    k->dir = tg_sys_open(side->dir, TG_SPILL_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (k->dir < 0 && errno != ENOENT)
        return tg_fail_errno(err, "open '%s/%s'", side->path, TG_SPILL_NAME);
    if (k->dir >= 0)
        TG_TRY(list_blocks(k, job, n_pixels, err));
    TG_TRY(read_indices(k, err));
    *out = tg_steal(k);
    return TG_OK;
}

void tg_kept_free(tg_kept *k)
{
    if (k == NULL)
        return;
    tg_fd_auto(&k->dir);
    tg_free(k->blocks);
    tg_free(k->places);
    if (k->budget != NULL)
        tg_budget_release(k->budget, k->reserved);
    tg_free(k);
}

uint64_t tg_kept_count(const tg_kept *k)
{
    return k->n;
}

tg_status tg_kept_get(const tg_kept *k, const uint64_t hash[2], tg_image_coder *c,
                      tg_sparse *out, tg_error *err)
{
    uint64_t lo = 0, hi = k->n;
    const entry key = {.hash = {hash[0], hash[1]}};
    while (lo < hi) {
        const uint64_t mid = lo + (hi - lo) / 2;
        if (by_hash(&k->places[mid], &key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == k->n || by_hash(&k->places[lo], &key) != 0)
        return TG_NOT_FOUND;
    const place *p = &k->places[lo];
    const kept_block *b = &k->blocks[p->block];
    TG_AUTO(tg_fd) fd = tg_sys_open(k->dir, b->name, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0)
        return tg_fail_errno(err, "open '%s'", b->name);
    tg_buf room = tg_image_coder_room(c);
    if (p->at.len > room.len)
        return tg_fail(err, TG_CORRUPT, "'%s': images of %u bytes", b->name, p->at.len);
    TG_TRY(tg_fd_read_at(fd, room.data, p->at.len, p->at.offset, b->name, err));
    return tg_image_decode(c, (tg_bytes){room.data, p->at.len}, out, err);
}
