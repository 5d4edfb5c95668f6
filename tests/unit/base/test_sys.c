#include "base/sync.h"
#include "base/sys.h"
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char content[] = "0123456789abcdef";
enum { N = sizeof content - 1 };

static int open_temporary(void)
{
    char path[] = "/tmp/tg-sys-XXXXXX";
    int fd = mkstemp(path);
    (void)unlink(path);
    return fd;
}

/* --- A table that gives out bytes in pieces, with signals in between -------- */

static int step;

static ssize_t small_pread(int fd, void *buf, size_t n, off_t offset)
{
    if (step++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return tg_sys_kernel.pread_fd(fd, buf, n < 3 ? n : 3, offset);
}

static ssize_t small_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (step++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return tg_sys_kernel.pwrite_fd(fd, buf, n < 3 ? n : 3, offset);
}

static void short_transfers_and_signals_are_no_failures(void)
{
    TG_AUTO(tg_fd) fd = open_temporary();
    tg_sys table = tg_sys_kernel;
    char back[N];
    tg_error e = {0};

    table.pread_fd = small_pread;
    table.pwrite_fd = small_pwrite;
    step = 0;
    tg_sys_use(&table);
    CHECK_STATUS(tg_fd_write_at(fd, content, N, 5, "x", &e), TG_OK);
    CHECK_STATUS(tg_fd_read_at(fd, back, N, 5, "x", &e), TG_OK);
    tg_sys_use(NULL);
    CHECK(memcmp(back, content, N) == 0);
    CHECK(step >= 4 * (N / 3));
}

static void the_end_of_a_file_is_corruption_with_its_place(void)
{
    TG_AUTO(tg_fd) fd = open_temporary();
    char back[N];
    tg_error e = {0};

    REQUIRE_OK(tg_fd_write_at(fd, content, N, 0, "x", &e));
    CHECK_STATUS(tg_fd_read_at(fd, back, N, 4, "dir/x", &e), TG_CORRUPT);
    CHECK_U64(e.offset, N);
    CHECK(strcmp(e.key, "dir/x") == 0);
    CHECK(strcmp(e.msg, "'dir/x' ends at byte 16, want 4 bytes more") == 0);
    CHECK_STATUS(tg_fd_read_at(fd, back, 1, UINT64_MAX - 1, "x", &e), TG_IO);
}

/* --- Each call failing, with the errno it had ------------------------------ */

static int want_errno;

static ssize_t no_pread(int fd, void *buf, size_t n, off_t offset)
{
    (void)fd, (void)buf, (void)n, (void)offset;
    errno = want_errno;
    return -1;
}
static ssize_t no_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    (void)fd, (void)buf, (void)n, (void)offset;
    errno = want_errno;
    return want_errno == 0 ? 0 : -1;
}
static int no_close(int fd)
{
    (void)tg_sys_kernel.close_fd(fd);
    errno = want_errno;
    return -1;
}
static int no_sync(int fd)
{
    (void)fd;
    errno = want_errno;
    return -1;
}

static tg_status failing_read(int *fd, tg_error *err)
{
    char b[4];
    return tg_fd_read_at(*fd, b, sizeof b, 2, "f", err);
}
static tg_status failing_write(int *fd, tg_error *err)
{
    return tg_fd_write_at(*fd, "abcd", 4, 2, "f", err);
}
static tg_status failing_close(int *fd, tg_error *err)
{
    return tg_fd_close(fd, "f", err);
}
static tg_status failing_dir_sync(int *fd, tg_error *err)
{
    return tg_dir_sync(*fd, "f", err);
}

static void failures_name_file_offset_and_errno(void)
{
    static const struct {
        const char *name;
        tg_status (*call)(int *fd, tg_error *err);
        int no, sys;
        tg_status want;
        uint64_t offset;
        const char *msg;
    } rows[] = {
        {"read EIO", failing_read, EIO, EIO, TG_IO, 2, "read 'f' at byte 2"},
        {"write ENOSPC", failing_write, ENOSPC, ENOSPC, TG_IO, 2, "write 'f' at byte 2"},
        {"write EDQUOT", failing_write, EDQUOT, EDQUOT, TG_IO, 2, "write 'f' at byte 2"},
        {"write of 0", failing_write, 0, ENOSPC, TG_IO, 2, "write 'f' at byte 2"},
        {"close EIO", failing_close, EIO, EIO, TG_IO, TG_NO_OFFSET, "close 'f'"},
        {"close EINTR", failing_close, EINTR, EINTR, TG_IO, TG_NO_OFFSET, "close 'f'"},
        {"fsync EIO", failing_dir_sync, EIO, EIO, TG_IO, TG_NO_OFFSET, "sync directory 'f'"},
    };
    tg_sys table = tg_sys_kernel;
    table.pread_fd = no_pread;
    table.pwrite_fd = no_pwrite;
    table.close_fd = no_close;
    table.fsync_fd = no_sync;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_fd) fd = open_temporary();
        tg_error e = {0};
        test_row = rows[i].name;
        want_errno = rows[i].no;
        tg_sys_use(&table);
        CHECK_STATUS(rows[i].call(&fd, &e), rows[i].want);
        CHECK_STATUS(rows[i].call == failing_close ? rows[i].want : rows[i].call(&fd, NULL),
                     rows[i].want);
        tg_sys_use(NULL);
        CHECK_U64((uint64_t)e.sys, (uint64_t)rows[i].sys);
        CHECK_U64(e.offset, rows[i].offset);
        CHECK(strcmp(e.key, "f") == 0);
        CHECK(strncmp(e.msg, rows[i].msg, strlen(rows[i].msg)) == 0);
    }
}

static void descriptors_do_not_outlive_exec(void)
{
    TG_AUTO(tg_fd) fd = tg_sys_open(AT_FDCWD, "/dev/null", O_RDONLY, 0);
    REQUIRE(fd >= 0);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}

/* --- Invariant: no I/O with a lock held ------------------------------------ */

#if defined(__SANITIZE_THREAD__)
#define CAN_FORK 0 /* a child of a process with threads means nothing there */
#else
#define CAN_FORK 1
#endif

static bool dies(bool counted)
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)freopen("/dev/null", "w", stderr);
        tg_mutex m;
        tg_mutex_init(&m);
        if (counted) {
            TG_LOCKED(&m);
            (void)tg_sys_close(tg_sys_open(AT_FDCWD, "/dev/null", O_RDONLY, 0));
        } else {
            TG_LOCKED_FOR_IO(&m);
            (void)tg_sys_close(tg_sys_open(AT_FDCWD, "/dev/null", O_RDONLY, 0));
        }
        _exit(0);
    }
    int status = 0;
    (void)waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void io_under_a_lock_is_caught_in_debug_builds(void)
{
#ifndef NDEBUG
    if (CAN_FORK)
        CHECK(dies(true));
#endif
    if (CAN_FORK)
        CHECK(!dies(false));
}

static const struct test tests[] = {
    {"short_transfers_and_signals_are_no_failures",
     short_transfers_and_signals_are_no_failures},
    {"the_end_of_a_file_is_corruption_with_its_place",
     the_end_of_a_file_is_corruption_with_its_place},
    {"failures_name_file_offset_and_errno", failures_name_file_offset_and_errno},
    {"descriptors_do_not_outlive_exec", descriptors_do_not_outlive_exec},
    {"io_under_a_lock_is_caught_in_debug_builds", io_under_a_lock_is_caught_in_debug_builds},
};

TEST_MAIN(tests)
