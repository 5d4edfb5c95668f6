/* base/sys.c - the table of system calls, and exact reads and writes over it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fallocate() */
#endif
#include "base/sys.h"

#include "base/sync.h"
#include "base/sys_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int kernel_open(int dir, const char *path, int flags, mode_t mode)
{
    return openat(dir, path, flags, mode);
}

static int kernel_allocate(int fd, off_t offset, off_t len)
{
#ifdef FALLOC_FL_KEEP_SIZE
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, offset, len);
#else
    (void)fd, (void)offset, (void)len;
    errno = EOPNOTSUPP;
    return -1;
#endif
}

static int kernel_link(int old_dir, const char *old_path, int new_dir, const char *new_path)
{
    return linkat(old_dir, old_path, new_dir, new_path, 0);
}

static int kernel_free(int fd, uint64_t *bytes)
{
    struct statvfs fs;

    if (fstatvfs(fd, &fs) != 0)
        return -1;
    *bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    return 0;
}

const tg_sys tg_sys_kernel = {
    .open_at = kernel_open,
    .close_fd = close,
    .pread_fd = pread,
    .pwrite_fd = pwrite,
    .read_fd = read,
    .write_fd = write,
    .fsync_fd = fsync,
    .fdatasync_fd = fdatasync,
    .truncate_fd = ftruncate,
    .allocate_fd = kernel_allocate,
    .rename_at = renameat,
    .link_at = kernel_link,
    .unlink_at = unlinkat,
    .mkdir_at = mkdirat,
    .stat_fd = fstat,
    .stat_at = fstatat,
    .open_beneath = tg_kernel_open_beneath,
    .rename_new_at = tg_kernel_rename_new,
    .swap_at = tg_kernel_swap,
    .direct_align = tg_kernel_direct_align,
    .set_direct = tg_kernel_set_direct,
    .write_out = tg_kernel_write_out,
    .drop_cache = tg_kernel_drop_cache,
    .sync_fs = tg_kernel_sync_fs,
    .check_fd = tg_kernel_check,
    .free_fd = kernel_free,
};

static _Atomic(const tg_sys *) table = &tg_sys_kernel;

void tg_sys_use(const tg_sys *t)
{
    atomic_store(&table, t == NULL ? &tg_sys_kernel : t);
}

const tg_sys *tg_sys_table(void)
{
    return atomic_load_explicit(&table, memory_order_acquire);
}

/* The table, for a call that may wait for a disk. */
static const tg_sys *unlocked(void)
{
    TG_ASSERT_UNLOCKED();
    return tg_sys_table();
}

/* Again while a signal came first: none of these calls has had an effect then. */
#define RETRY(type, call)                  \
    do {                                   \
        type rc_;                          \
        do                                 \
            rc_ = (call);                  \
        while (rc_ < 0 && errno == EINTR); \
        return rc_;                        \
    } while (0)

int tg_sys_open(int dir, const char *path, int flags, mode_t mode)
{
    RETRY(int, unlocked()->open_at(dir, path, flags | O_CLOEXEC, mode));
}

int tg_sys_close(int fd)
{
    /* Never again: Linux has freed the number even when it says EINTR. */
    return unlocked()->close_fd(fd);
}

ssize_t tg_sys_pread(int fd, void *buf, size_t n, off_t offset)
{
    RETRY(ssize_t, unlocked()->pread_fd(fd, buf, n, offset));
}

ssize_t tg_sys_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    RETRY(ssize_t, unlocked()->pwrite_fd(fd, buf, n, offset));
}

ssize_t tg_sys_read(int fd, void *buf, size_t n)
{
    /* Not again: a reader of a pipe looks at its cancel token when a signal came. */
    return unlocked()->read_fd(fd, buf, n);
}

ssize_t tg_sys_write(int fd, const void *buf, size_t n)
{
    RETRY(ssize_t, unlocked()->write_fd(fd, buf, n));
}

int tg_sys_fsync(int fd)
{
    RETRY(int, unlocked()->fsync_fd(fd));
}

int tg_sys_fdatasync(int fd)
{
    RETRY(int, unlocked()->fdatasync_fd(fd));
}

int tg_sys_truncate(int fd, off_t len)
{
    RETRY(int, unlocked()->truncate_fd(fd, len));
}

int tg_sys_allocate(int fd, off_t offset, off_t len)
{
    RETRY(int, unlocked()->allocate_fd(fd, offset, len));
}

int tg_sys_free(int fd, uint64_t *bytes)
{
    RETRY(int, unlocked()->free_fd(fd, bytes));
}

int tg_sys_rename(int old_dir, const char *old_path, int new_dir, const char *new_path)
{
    return unlocked()->rename_at(old_dir, old_path, new_dir, new_path);
}

int tg_sys_link(int old_dir, const char *old_path, int new_dir, const char *new_path)
{
    return unlocked()->link_at(old_dir, old_path, new_dir, new_path);
}

int tg_sys_unlink(int dir, const char *path, int flags)
{
    return unlocked()->unlink_at(dir, path, flags);
}

int tg_sys_mkdir(int dir, const char *path, mode_t mode)
{
    return unlocked()->mkdir_at(dir, path, mode);
}

int tg_sys_stat_fd(int fd, struct stat *st)
{
    return unlocked()->stat_fd(fd, st);
}

int tg_sys_stat(int dir, const char *path, struct stat *st, int flags)
{
    return unlocked()->stat_at(dir, path, st, flags);
}

int tg_sys_open_beneath(int dir, const char *path, int flags, mode_t mode)
{
    RETRY(int, unlocked()->open_beneath(dir, path, flags | O_CLOEXEC, mode));
}

int tg_sys_rename_new(int old_dir, const char *old_path, int new_dir, const char *new_path)
{
    return unlocked()->rename_new_at(old_dir, old_path, new_dir, new_path);
}

int tg_sys_swap(int dir, const char *a, const char *b)
{
    return unlocked()->swap_at(dir, a, b);
}

int tg_sys_direct_align(int fd, uint32_t *memory, uint32_t *offset)
{
    RETRY(int, unlocked()->direct_align(fd, memory, offset));
}

int tg_sys_set_direct(int fd, bool on)
{
    RETRY(int, unlocked()->set_direct(fd, on));
}

int tg_sys_write_out(int fd, off_t offset, off_t len, bool wait)
{
    RETRY(int, unlocked()->write_out(fd, offset, len, wait));
}

int tg_sys_drop_cache(int fd, off_t offset, off_t len)
{
    RETRY(int, unlocked()->drop_cache(fd, offset, len));
}

int tg_sys_sync_fs(int fd)
{
    RETRY(int, unlocked()->sync_fs(fd));
}

int tg_sys_check(int fd)
{
    RETRY(int, tg_sys_table()->check_fd(fd));
}

void tg_fd_auto(tg_fd *fd)
{
    if (*fd >= 0)
        (void)tg_sys_close(*fd); /* only read from, or already failed: nothing to report */
    *fd = -1;
}

tg_status tg_fd_close(tg_fd *fd, const char *path, tg_error *err)
{
    int rc = tg_sys_close(*fd);
    *fd = -1;
    if (rc == 0)
        return TG_OK;
    tg_status st = tg_fail_errno(err, "close '%s'", path);
    tg_error_at(err, path, TG_NO_OFFSET);
    return st;
}

tg_status tg_fd_read_at(int fd, void *buf, size_t n, uint64_t offset, const char *path,
                        tg_error *err)
{
    for (uint8_t *p = buf; n > 0;) {
        ssize_t got = tg_sys_pread(fd, p, n, (off_t)offset);
        if (got <= 0) {
            tg_status st = got < 0 ? tg_fail_errno(err, "read '%s' at byte %llu", path,
                                                   (unsigned long long)offset)
                                   : tg_fail(err, TG_CORRUPT,
                                             "'%s' ends at byte %llu, want %zu bytes more",
                                             path, (unsigned long long)offset, n);
            tg_error_at(err, path, offset);
            return st;
        }
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return TG_OK;
}

tg_status tg_fd_write_at(int fd, const void *buf, size_t n, uint64_t offset, const char *path,
                         tg_error *err)
{
    for (const uint8_t *p = buf; n > 0;) {
        ssize_t done = tg_sys_pwrite(fd, p, n, (off_t)offset);
        if (done <= 0) {
            if (done == 0)
                errno = ENOSPC; /* a device that takes nothing and says nothing is full */
            tg_status st =
                tg_fail_errno(err, "write '%s' at byte %llu", path, (unsigned long long)offset);
            tg_error_at(err, path, offset);
            return st;
        }
        p += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return TG_OK;
}

tg_status tg_dir_sync(int dir, const char *path, tg_error *err)
{
    /* An XFS that has just stopped (its disk is gone, say) lets the sync of a directory succeed
     * whose changes it has thrown away: power cuts showed entries lost that had been
     * acknowledged. All other calls fail there, so one is asked. */
    if (tg_sys_fsync(dir) == 0 && tg_sys_check(dir) == 0)
        return TG_OK;
    tg_status st = tg_fail_errno(err, "sync directory '%s'", path);
    tg_error_at(err, path, TG_NO_OFFSET);
    return st;
}
