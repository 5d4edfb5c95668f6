/* tests/fault/shim.c - an LD_PRELOAD library that numbers a program's calls on
 * files and makes one of them go wrong (tests/fault/README.md). Knows nothing of
 * the program: an independent check on the binary as it is shipped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define CALLS(X)       \
    X(open)            \
    X(close)           \
    X(read)            \
    X(pread)           \
    X(write)           \
    X(pwrite)          \
    X(fsync)           \
    X(fdatasync)       \
    X(syncfs)          \
    X(sync_file_range) \
    X(ftruncate)       \
    X(fallocate)       \
    X(rename)          \
    X(link)            \
    X(unlink)          \
    X(mkdir)

enum call {
#define X(name) C_##name,
    CALLS(X)
#undef X
        N_CALLS
};
static const char *const names[] = {
#define X(name) #name,
    CALLS(X)
#undef X
};

static atomic_long count, calls[N_CALLS], hits[N_CALLS];
static atomic_int first = -1; /* the kind of the first call that went wrong */
static long kill_at, fail_at, short_at;
static int fail_errno;
static bool sticky;
static double bytes_per_second;
static const char *under, *report;
static size_t under_len;
static unsigned only; /* bits of the kinds that are numbered */

#define MAX_FD 65536
static atomic_uchar tracked[MAX_FD]; /* open below `under` */

/* --- Set-up ------------------------------------------------------------------------------ */

static long number(const char *name)
{
    const char *s = getenv(name);
    return s == NULL ? 0 : strtol(s, NULL, 10);
}

static int errno_of(const char *s)
{
    static const struct {
        const char *name;
        int e;
    } known[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EDQUOT", EDQUOT}, {"EINTR", EINTR},
                 {"EMFILE", EMFILE}, {"EROFS", EROFS},   {"EACCES", EACCES}, {"ENOMEM", ENOMEM},
                 {"EFBIG", EFBIG},   {"EAGAIN", EAGAIN}, {"ESTALE", ESTALE}};
    for (size_t i = 0; s != NULL && i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(s, known[i].name) == 0)
            return known[i].e;
    }
    return s == NULL ? EIO : (int)strtol(s, NULL, 10);
}

static unsigned kinds(const char *list)
{
    unsigned bits = 0;
    while (list != NULL && *list != '\0') {
        size_t n = strcspn(list, ",");
        for (int i = 0; i < N_CALLS; i++) {
            if (strlen(names[i]) == n && strncmp(names[i], list, n) == 0)
                bits |= 1u << i;
        }
        list += n + (list[n] == ',');
    }
    return bits == 0 ? ~0u : bits;
}

__attribute__((constructor)) static void start(void)
{
    kill_at = number("TG_SHIM_KILL");
    fail_at = number("TG_SHIM_FAIL");
    short_at = number("TG_SHIM_SHORT");
    sticky = number("TG_SHIM_STICKY") != 0;
    fail_errno = errno_of(getenv("TG_SHIM_ERRNO"));
    bytes_per_second = (double)number("TG_SHIM_SLOW") * 1e6;
    only = kinds(getenv("TG_SHIM_ONLY"));
    under = getenv("TG_SHIM_UNDER");
    under_len = under == NULL ? 0 : strlen(under);
    report = getenv("TG_SHIM_REPORT");
}

/* By the kernel's own calls: nothing of ours is in the way, and a killed program still tells.
 */
static void write_report(void)
{
    char text[2048];
    int n = snprintf(text, sizeof text, "{\"total\":%ld,\"struck\":%s%s%s,\"calls\":{",
                     atomic_load(&count), first < 0 ? "null" : "\"",
                     first < 0 ? "" : names[first], first < 0 ? "" : "\"");
    for (int i = 0; i < N_CALLS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s\"%s\":%ld", i == 0 ? "" : ",",
                      names[i], atomic_load(&calls[i]));
    n += snprintf(text + n, sizeof text - (size_t)n, "},\"hits\":{");
    for (int i = 0; i < N_CALLS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s\"%s\":%ld", i == 0 ? "" : ",",
                      names[i], atomic_load(&hits[i]));
    n += snprintf(text + n, sizeof text - (size_t)n, "}}\n");
    long fd = report == NULL
                  ? -1
                  : syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0)
        return;
    (void)!syscall(SYS_write, fd, text, (size_t)n);
    (void)syscall(SYS_close, fd);
}

__attribute__((destructor)) static void finish(void)
{
    write_report();
}

/* --- What is numbered ----------------------------------------------------------------------
 */

static bool below(const char *path)
{
    return under == NULL || strncmp(path, under, under_len) == 0;
}

static bool fd_counts(int fd)
{
    return under == NULL || (fd >= 0 && fd < MAX_FD && atomic_load(&tracked[fd]) != 0);
}

/* A path that a call names, relative to dir. */
static bool path_counts(int dir, const char *path)
{
    char cwd[4096];

    if (under == NULL || path == NULL)
        return under == NULL;
    if (path[0] == '/')
        return below(path);
    if (dir != AT_FDCWD)
        return fd_counts(dir);
    size_t n = getcwd(cwd, sizeof cwd - 1) == NULL ? 0 : strlen(cwd);
    if (n + 2 + strlen(path) > sizeof cwd)
        return false;
    cwd[n] = '/';
    memcpy(cwd + n + 1, path, strlen(path) + 1);
    return below(cwd);
}

static void note_open(int fd, bool counts)
{
    if (fd >= 0 && fd < MAX_FD)
        atomic_store(&tracked[fd], counts);
}

enum fate { PASS, FAIL, SHORT };

static enum fate hit(enum call c, bool counts)
{
    int none = -1;

    if (!counts || (only & 1u << c) == 0)
        return PASS;
    atomic_fetch_add(&calls[c], 1);
    long n = atomic_fetch_add(&count, 1) + 1;
    bool kills = n == kill_at, shortens = n == short_at;
    bool fails = fail_at > 0 && (n == fail_at || (sticky && n > fail_at));
    if (!kills && !shortens && !fails)
        return PASS;
    atomic_fetch_add(&hits[c], 1);
    atomic_compare_exchange_strong(&first, &none, (int)c);
    if (kills) {
        write_report();
        (void)syscall(SYS_kill, getpid(), SIGKILL);
        for (;;)
            pause();
    }
    errno = fail_errno;
    return fails ? FAIL : SHORT;
}

/* Half, in whole blocks where there are any: direct I/O moves no less. */
static size_t half(size_t n)
{
    return n >= 8192 ? n / 2 / 4096 * 4096 : n > 1 ? n / 2 : n;
}

static void slow_down(ssize_t n)
{
    if (bytes_per_second <= 0 || n <= 0)
        return;
    double s = (double)n / bytes_per_second;
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    int e = errno;
    (void)nanosleep(&t, NULL);
    errno = e;
}

/* --- The calls -------------------------------------------------------------------------------
 */

#define REAL(name)                 \
    static __typeof__(&name) real; \
    if (real == NULL)              \
    real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static mode_t mode_of(int flags, va_list ap)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(ap, mode_t) : 0;
}

#define DEFINE_OPEN(name)                          \
    int name(const char *path, int flags, ...)     \
    {                                              \
        REAL(name);                                \
        va_list ap;                                \
        va_start(ap, flags);                       \
        mode_t mode = mode_of(flags, ap);          \
        va_end(ap);                                \
        bool counts = path_counts(AT_FDCWD, path); \
        if (hit(C_open, counts) == FAIL)           \
            return -1;                             \
        int fd = real(path, flags, mode);          \
        note_open(fd, counts);                     \
        return fd;                                 \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                             \
    int name(int dir, const char *path, int flags, ...) \
    {                                                   \
        REAL(name);                                     \
        va_list ap;                                     \
        va_start(ap, flags);                            \
        mode_t mode = mode_of(flags, ap);               \
        va_end(ap);                                     \
        bool counts = path_counts(dir, path);           \
        if (hit(C_open, counts) == FAIL)                \
            return -1;                                  \
        int fd = real(dir, path, flags, mode);          \
        note_open(fd, counts);                          \
        return fd;                                      \
    }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

int close(int fd)
{
    REAL(close);
    bool counts = fd_counts(fd);
    enum fate f = hit(C_close, counts);
    note_open(fd, false);
    int rc = real(fd); /* as on Linux: closed, whatever it says */
    if (f == FAIL)
        errno = fail_errno;
    return f == FAIL ? -1 : rc;
}

#define DEFINE_READ(name, kind, args, pass)     \
    ssize_t name args                           \
    {                                           \
        REAL(name);                             \
        enum fate f = hit(kind, fd_counts(fd)); \
        if (f == FAIL)                          \
            return -1;                          \
        if (f == SHORT)                         \
            n = half(n);                        \
        return real pass;                       \
    }
DEFINE_READ(read, C_read, (int fd, void *p, size_t n), (fd, p, n))
DEFINE_READ(pread, C_pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
DEFINE_READ(pread64, C_pread, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at))

#define DEFINE_WRITE(name, kind, args, pass) \
    ssize_t name args                        \
    {                                        \
        REAL(name);                          \
        bool counts = fd_counts(fd);         \
        enum fate f = hit(kind, counts);     \
        if (f == FAIL)                       \
            return -1;                       \
        if (f == SHORT)                      \
            n = half(n);                     \
        ssize_t done = real pass;            \
        if (counts)                          \
            slow_down(done);                 \
        return done;                         \
    }
DEFINE_WRITE(write, C_write, (int fd, const void *p, size_t n), (fd, p, n))
DEFINE_WRITE(pwrite, C_pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
DEFINE_WRITE(pwrite64, C_pwrite, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at))

/* Calls on a descriptor that return 0 or -1. */
#define DEFINE_FD(name, kind, args, pass)                         \
    int name args                                                 \
    {                                                             \
        REAL(name);                                               \
        return hit(kind, fd_counts(fd)) == FAIL ? -1 : real pass; \
    }
DEFINE_FD(fsync, C_fsync, (int fd), (fd))
DEFINE_FD(fdatasync, C_fdatasync, (int fd), (fd))
DEFINE_FD(syncfs, C_syncfs, (int fd), (fd))
DEFINE_FD(sync_file_range, C_sync_file_range, (int fd, off64_t at, off64_t n, unsigned how),
          (fd, at, n, how))
DEFINE_FD(ftruncate, C_ftruncate, (int fd, off_t n), (fd, n))
DEFINE_FD(ftruncate64, C_ftruncate, (int fd, off64_t n), (fd, n))
DEFINE_FD(fallocate, C_fallocate, (int fd, int how, off_t at, off_t n), (fd, how, at, n))
DEFINE_FD(fallocate64, C_fallocate, (int fd, int how, off64_t at, off64_t n), (fd, how, at, n))

/* Calls on paths. */
#define DEFINE_PATH(name, kind, counts, args, pass)        \
    int name args                                          \
    {                                                      \
        REAL(name);                                        \
        return hit(kind, counts) == FAIL ? -1 : real pass; \
    }
DEFINE_PATH(rename, C_rename, path_counts(AT_FDCWD, a), (const char *a, const char *b), (a, b))
DEFINE_PATH(renameat, C_rename, path_counts(d, a), (int d, const char *a, int e, const char *b),
            (d, a, e, b))
DEFINE_PATH(renameat2, C_rename, path_counts(d, a),
            (int d, const char *a, int e, const char *b, unsigned how), (d, a, e, b, how))
DEFINE_PATH(link, C_link, path_counts(AT_FDCWD, a), (const char *a, const char *b), (a, b))
DEFINE_PATH(linkat, C_link, path_counts(d, a),
            (int d, const char *a, int e, const char *b, int how), (d, a, e, b, how))
DEFINE_PATH(unlink, C_unlink, path_counts(AT_FDCWD, a), (const char *a), (a))
DEFINE_PATH(unlinkat, C_unlink, path_counts(d, a), (int d, const char *a, int how), (d, a, how))
DEFINE_PATH(rmdir, C_unlink, path_counts(AT_FDCWD, a), (const char *a), (a))
DEFINE_PATH(mkdir, C_mkdir, path_counts(AT_FDCWD, a), (const char *a, mode_t mode), (a, mode))
DEFINE_PATH(mkdirat, C_mkdir, path_counts(d, a), (int d, const char *a, mode_t mode),
            (d, a, mode))

/* Calls too young for the C library. */
long syscall(long nr, ...)
{
    REAL(syscall);
    va_list ap;
    long a[6];
    bool counts = false;

    va_start(ap, nr);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    /* Our own calls come here, too: none of these numbers is among them. */
#ifdef SYS_openat2
    if (nr == SYS_openat2) {
        counts = path_counts((int)a[0], (const char *)(uintptr_t)a[1]);
        if (hit(C_open, counts) == FAIL)
            return -1;
    }
#endif
#ifdef SYS_renameat2
    if (nr == SYS_renameat2 &&
        hit(C_rename, path_counts((int)a[0], (const char *)(uintptr_t)a[1])) == FAIL)
        return -1;
#endif
    long rc = real(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
#ifdef SYS_openat2
    if (nr == SYS_openat2)
        note_open((int)rc, counts);
#endif
    return rc;
}
