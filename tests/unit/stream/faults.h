/* tests/unit/stream/faults.h - a table of system calls that counts, and at the n-th call kills
 * the process or fails. Calls are counted across threads, in the order in which they are made.
 */
#ifndef TG_TESTS_STREAM_FAULTS_H
#define TG_TESTS_STREAM_FAULTS_H

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define FAULT_CALLS(X) \
    X(open_at)         \
    X(close_fd)        \
    X(pwrite_fd)       \
    X(write_fd)        \
    X(fsync_fd)        \
    X(fdatasync_fd)    \
    X(truncate_fd)     \
    X(allocate_fd)     \
    X(rename_at)       \
    X(link_at)         \
    X(unlink_at)       \
    X(mkdir_at)        \
    X(rename_new_at)   \
    X(write_out)       \
    X(sync_fs)

enum fault_call {
#define X(name) FAULT_##name,
    FAULT_CALLS(X)
#undef X
        FAULT_KINDS
};

static const char *const fault_names[] = {
#define X(name) #name,
    FAULT_CALLS(X)
#undef X
};

static atomic_long fault_count;              /* calls made */
static long fault_at;                        /* 0: never */
static int fault_errno;                      /* 0: the process is killed */
static bool fault_sticky;                    /* from then on every call */
static atomic_long fault_kinds[FAULT_KINDS]; /* calls by kind */
static atomic_int fault_hit = -1;            /* the kind of call that failed first */

static bool fault_now(enum fault_call kind)
{
    long n = atomic_fetch_add(&fault_count, 1) + 1;
    atomic_fetch_add(&fault_kinds[kind], 1);
    if (fault_at == 0 || n < fault_at || (n > fault_at && !fault_sticky))
        return false;
    if (fault_errno == 0) {
        (void)kill(getpid(), SIGKILL);
        for (;;)
            (void)pause();
    }
    int none = -1;
    (void)atomic_compare_exchange_strong(&fault_hit, &none, (int)kind);
    errno = fault_errno;
    return true;
}

#define REAL tg_sys_kernel
static int f_open_at(int d, const char *p, int f, mode_t m)
{
    return (f & (O_WRONLY | O_RDWR | O_CREAT)) != 0 && fault_now(FAULT_open_at)
               ? -1
               : REAL.open_at(d, p, f, m);
}
static int f_close_fd(int fd)
{
    if (fault_now(FAULT_close_fd)) {
        (void)REAL.close_fd(fd);
        errno = fault_errno;
        return -1;
    }
    return REAL.close_fd(fd);
}
static ssize_t f_pwrite_fd(int fd, const void *b, size_t n, off_t o)
{
    return fault_now(FAULT_pwrite_fd) ? -1 : REAL.pwrite_fd(fd, b, n, o);
}
static ssize_t f_write_fd(int fd, const void *b, size_t n)
{
    return fault_now(FAULT_write_fd) ? -1 : REAL.write_fd(fd, b, n);
}
static int f_fsync_fd(int fd)
{
    return fault_now(FAULT_fsync_fd) ? -1 : REAL.fsync_fd(fd);
}
static int f_fdatasync_fd(int fd)
{
    return fault_now(FAULT_fdatasync_fd) ? -1 : REAL.fdatasync_fd(fd);
}
static int f_truncate_fd(int fd, off_t n)
{
    return fault_now(FAULT_truncate_fd) ? -1 : REAL.truncate_fd(fd, n);
}
static int f_allocate_fd(int fd, off_t o, off_t n)
{
    return fault_now(FAULT_allocate_fd) ? -1 : REAL.allocate_fd(fd, o, n);
}
static int f_rename_at(int a, const char *b, int c, const char *d)
{
    return fault_now(FAULT_rename_at) ? -1 : REAL.rename_at(a, b, c, d);
}
static int f_link_at(int a, const char *b, int c, const char *d)
{
    return fault_now(FAULT_link_at) ? -1 : REAL.link_at(a, b, c, d);
}
static int f_unlink_at(int d, const char *p, int f)
{
    return fault_now(FAULT_unlink_at) ? -1 : REAL.unlink_at(d, p, f);
}
static int f_mkdir_at(int d, const char *p, mode_t m)
{
    return fault_now(FAULT_mkdir_at) ? -1 : REAL.mkdir_at(d, p, m);
}
static int f_rename_new_at(int a, const char *b, int c, const char *d)
{
    return fault_now(FAULT_rename_new_at) ? -1 : REAL.rename_new_at(a, b, c, d);
}
static int f_write_out(int fd, off_t o, off_t n, bool w)
{
    return fault_now(FAULT_write_out) ? -1 : REAL.write_out(fd, o, n, w);
}
static int f_sync_fs(int fd)
{
    return fault_now(FAULT_sync_fs) ? -1 : REAL.sync_fs(fd);
}

/* Put the table in place. at 0: only count. */
static inline void faults_use(long at, int with_errno, bool sticky)
{
    static tg_sys table;

    table = REAL;
#define X(name) table.name = f_##name;
    FAULT_CALLS(X)
#undef X
    atomic_store(&fault_count, 0);
    fault_at = at;
    fault_errno = with_errno;
    fault_sticky = sticky;
    atomic_store(&fault_hit, -1);
    tg_sys_use(&table);
}

static inline void faults_end(void)
{
    tg_sys_use(NULL);
}

#endif
