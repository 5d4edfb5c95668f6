/* store/file_io.c - moving bytes to a file past the page cache, or through it
 * without filling it. Knows no store. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fstatfs() */
#endif
#include "store/file_io.h"

#include "base/sys.h"
#include "base/sys_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>

tg_status tg_file_fail(const char *doing, const char *key, tg_error *err)
{
    int e = errno;
    tg_status st;

    switch (e) {
    case EXDEV:
    case ELOOP:
        st = tg_fail(err, TG_UNSUPPORTED, "%s '%s': a symbolic link leads out of the store",
                     doing, key);
        break;
    case ENXIO: /* a socket, or a device that is not there */
        st = tg_fail(err, TG_CORRUPT, "%s '%s': not a regular file", doing, key);
        break;
    default:
        st = tg_fail_errno(err, "%s '%s'", doing, key);
    }
    if (err != NULL)
        err->sys = e;
    tg_error_at(err, key, TG_NO_OFFSET);
    return st;
}

#define MIN_ALIGN \
    ((size_t)4096) /* a smaller unit makes file systems read what they write over */

static size_t power_of_two(size_t n)
{
    size_t p = MIN_ALIGN;
    while (p < n)
        p *= 2;
    return p;
}

/* A kernel that cannot say (before 6.1): believe a write, but not of file systems in memory,
 * which take O_DIRECT and copy through the page cache all the same. */
static bool probe(int fd)
{
    struct statfs fs;
    tg_arena block = {0};

    if (fstatfs(fd, &fs) != 0 || fs.f_type == 0x01021994 /* tmpfs */ ||
        (unsigned long)fs.f_type == 0x858458f6ul /* ramfs */)
        return false;
    if (tg_sys_set_direct(fd, true) != 0 || tg_arena_map(&block, MIN_ALIGN, NULL) != TG_OK)
        return false;
    bool works = tg_sys_pwrite(fd, block.data, MIN_ALIGN, 0) == (ssize_t)MIN_ALIGN;
    tg_arena_unmap(&block);
    return works;
}

tg_status tg_file_try_direct(int fd, const char *key, bool empty, size_t *align, tg_error *err)
{
    uint32_t memory = 0, offset = 0;

    *align = 1;
    if (tg_sys_direct_align(fd, &memory, &offset) == 0) {
        size_t want = power_of_two(memory > offset ? memory : offset);
        if (memory > 0 && offset > 0 && want <= TG_FILE_BLOCK &&
            tg_sys_set_direct(fd, true) == 0)
            *align = want;
        return TG_OK;
    }
    if (errno != ENOSYS)
        return tg_file_fail("ask for direct I/O of", key, err);
    if (!empty)
        return TG_OK;
    if (probe(fd))
        *align = MIN_ALIGN;
    else
        (void)tg_sys_set_direct(fd, false);   /* if it was never set, nothing changes */
    return tg_file_truncate(fd, 0, key, err); /* what the probe wrote */
}

/* A value need not become as long as was guessed, and others (of another level, of another
 * array, journals) need room as well: no more than half of what there is. */
static bool leaves_room(int fd, uint64_t len)
{
    uint64_t bytes;

    return tg_sys_free(fd, &bytes) != 0 || len <= bytes / 2;
}

/* What was reserved before there was no more. */
static tg_status give_back(int fd, const char *key, tg_error *err)
{
    struct stat st;

    if (tg_sys_stat_fd(fd, &st) != 0)
        return tg_file_fail("look at", key, err);
    return tg_file_truncate(fd, (uint64_t)st.st_size, key, err);
}

tg_status tg_file_preallocate(int fd, uint64_t len, const char *key, tg_error *err)
{
    if (len == 0 || len > INT64_MAX || !leaves_room(fd, len) ||
        tg_sys_allocate(fd, 0, (off_t)len) == 0)
        return TG_OK;
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
        return TG_OK;
    if (errno == ENOSPC || errno == EDQUOT)
        return give_back(fd, key, err);
    return tg_file_fail("reserve space for", key, err);
}

/* --- Reading ----------------------------------------------------------------------------- */

#define DIRECT_READ_MIN ((size_t)64 << 10) /* below, the cache costs less than the wait */

static bool is_cached(int fd, uint64_t offset, size_t len)
{
    return tg_kernel_cached(fd, (off_t)offset) &&
           tg_kernel_cached(fd, (off_t)(offset + len / 2)) &&
           tg_kernel_cached(fd, (off_t)(offset + len - 1));
}

/* Whole blocks, as far as that goes: the rest is the page cache's. Returns bytes read. */
static size_t read_direct(int fd, uint8_t *dst, size_t len, uint64_t offset)
{
    size_t done = 0;

    if (tg_sys_set_direct(fd, true) != 0)
        return 0;
    while (done < len) {
        ssize_t n = tg_sys_pread(fd, dst + done, len - done, (off_t)(offset + done));
        if (n <= 0 || (size_t)n % MIN_ALIGN != 0)
            break;
        done += (size_t)n;
    }
    (void)tg_sys_set_direct(fd, false);
    return done;
}

tg_status tg_file_read(int fd, void *dst, size_t len, uint64_t offset, const char *key,
                       tg_error *err)
{
    uint32_t memory = 0, step = 0;
    uint8_t *to = dst;

    if (len < DIRECT_READ_MIN || is_cached(fd, offset, len) ||
        tg_sys_direct_align(fd, &memory, &step) != 0 || memory == 0 || step == 0 ||
        memory > MIN_ALIGN || step > MIN_ALIGN)
        return tg_fd_read_at(fd, dst, len, offset, key, err);
    const size_t head = (MIN_ALIGN - offset % MIN_ALIGN) % MIN_ALIGN;
    const size_t blocks = (len - head) / MIN_ALIGN * MIN_ALIGN;
    if ((uintptr_t)(to + head) % memory != 0)
        return tg_fd_read_at(fd, dst, len, offset, key, err);
    const size_t done = head + read_direct(fd, to + head, blocks, offset + head);
    TG_TRY(tg_fd_read_at(fd, to, head, offset, key, err));
    return tg_fd_read_at(fd, to + done, len - done, offset + done, key, err);
}

#define SHORT_WRITES 8                   /* in a row that bring no aligned block further */
#define PIECE        (TG_FILE_BLOCK * 8) /* between two looks at the cancel token */

static tg_status fail_write(const char *key, uint64_t offset, tg_error *err)
{
    tg_status st =
        tg_fail_errno(err, "write '%s' at byte %llu", key, (unsigned long long)offset);
    tg_error_at(err, key, offset);
    return st;
}

tg_status tg_file_write(int fd, const void *data, size_t len, uint64_t offset, size_t align,
                        const char *key, const tg_cancel *cancel, tg_error *err)
{
    const uint8_t *p = data;
    int in_vain = 0;

    while (len > 0) {
        size_t n = len < PIECE ? len : PIECE;
        TG_TRY(tg_cancel_check(cancel, err));
        ssize_t done = tg_sys_pwrite(fd, p, n, (off_t)offset);
        if (done < 0)
            return fail_write(key, offset, err);
        size_t whole = (size_t)done / align * align; /* the rest of the block goes again */
        in_vain = whole == 0 ? in_vain + 1 : 0;
        if (in_vain == SHORT_WRITES) {
            errno = ENOSPC; /* a device that takes nothing and says nothing is full */
            return fail_write(key, offset, err);
        }
        p += whole;
        len -= whole;
        offset += whole;
    }
    return TG_OK;
}

tg_status tg_file_sync(int fd, const char *key, tg_error *err)
{
    int rc = tg_sys_fdatasync(fd);
#if TG_PLANT == 3
    rc = 0;
#endif
    return rc == 0 ? TG_OK : tg_file_fail("sync", key, err);
}

tg_status tg_file_close(int *fd, const char *key, tg_error *err)
{
#if TG_PLANT == 2
    (void)tg_sys_close(*fd), (void)key, (void)err;
    *fd = -1;
    return TG_OK;
#endif
    return tg_fd_close(fd, key, err);
}

tg_status tg_file_sync_entry(const char *path, tg_error *err)
{
    TG_AUTO(tg_str) parent = tg_strdup(path);

    if (parent == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the name of a directory");
    size_t n = strlen(parent);
    while (n > 1 && parent[n - 1] == '/')
        n--;
    while (n > 0 && parent[n - 1] != '/')
        n--;
    parent[n] = '\0';
    TG_AUTO(tg_fd)
    dir = tg_sys_open(AT_FDCWD, n == 0 ? "." : parent, O_RDONLY | O_DIRECTORY, 0);
    return dir < 0 ? tg_file_fail("open directory", parent, err)
                   : tg_dir_sync(dir, parent, err);
}

tg_status tg_file_truncate(int fd, uint64_t len, const char *key, tg_error *err)
{
    if (len > INT64_MAX)
        return tg_fail(err, TG_INVALID, "'%s' cannot have %llu bytes", key,
                       (unsigned long long)len);
    return tg_sys_truncate(fd, (off_t)len) == 0 ? TG_OK
                                                : tg_file_fail("set the length of", key, err);
}

/* --- Behind a buffered writer ---------------------------------------------- */

static bool cannot(int e)
{
    return e == ENOSYS || e == EINVAL || e == ESPIPE || e == EOPNOTSUPP;
}

void tg_behind_add(tg_behind *b, tg_extent now, tg_extent *start, tg_extent *finish)
{
    *start = *finish = (tg_extent){0};
    if (now.len == 0)
        return;
    tg_extent *last = b->n > 0 ? &b->block[b->n - 1] : NULL;
    if (last != NULL && last->offset + last->len == now.offset && last->len < TG_FILE_BLOCK) {
        last->len += now.len; /* small appends gather */
    } else {
        if (b->n == TG_BEHIND) {
            *finish = b->block[0];
            memmove(b->block, b->block + 1, sizeof b->block - sizeof b->block[0]);
            b->n--;
        }
        last = &b->block[b->n++];
        *last = now;
    }
    if (last->len >= TG_FILE_BLOCK)
        *start = *last;
}

static tg_status write_out(int fd, tg_extent x, bool wait, bool *can, const char *key,
                           tg_error *err)
{
    if (tg_sys_write_out(fd, (off_t)x.offset, (off_t)x.len, wait) == 0)
        return TG_OK;
    if (!cannot(errno))
        return tg_file_fail("write out", key, err);
    *can = false;
    return TG_OK;
}

tg_status tg_behind_run(int fd, tg_extent start, tg_extent finish, bool *can, const char *key,
                        tg_error *err)
{
    if (start.len > 0 && *can)
        TG_TRY(write_out(fd, start, false, can, key, err));
    if (finish.len > 0 && *can) {
        TG_TRY(write_out(fd, finish, true, can, key, err));
        (void)tg_sys_drop_cache(fd, (off_t)finish.offset, (off_t)finish.len); /* a hint */
    }
    return TG_OK;
}
