/* base/sys_kernel.c - Linux calls that are young, and their stand-ins. Knows no
 * policy: what may be done with a file is the caller's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_DIRECT, O_PATH, statx(), sync_file_range(), syncfs() */
#endif
#include "base/sys_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Open the directory `name` below `at`, as a place to go on from. A link is ELOOP, and not "no
 * directory": a value behind it is not missing, it cannot be reached. */
static int step_into(int at, const char *name)
{
    struct stat st;
    int fd = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)))
        return fd;
    (void)close(fd);
    errno = S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
    return -1;
}

static int open_last(int at, const char *name, int flags, mode_t mode)
{
    struct stat st;
    int fd = openat(at, name, flags | O_NOFOLLOW, mode);

    if (fd < 0 && errno == ENOTDIR)
        errno = fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)
                    ? ELOOP
                    : ENOTDIR;
    return fd;
}

/* One segment at a time, following no link: slower and stricter than openat2. */
int tg_kernel_walk_beneath(int dir, const char *path, int flags, mode_t mode)
{
    char segment[256];
    int at = dir, fd = -1;

    for (;;) {
        size_t n = strcspn(path, "/");
        int last = path[n] == '\0' || path[n + 1] == '\0'; /* one '/' may end it */
        int e = n >= sizeof segment ? ENAMETOOLONG : n == 0 ? ENOENT : EXDEV;
        fd = -1;
        if (n > 0 && n < sizeof segment && !(n == 2 && memcmp(path, "..", 2) == 0)) {
            memcpy(segment, path, n);
            segment[n] = '\0';
            fd = last ? open_last(at, segment, flags, mode) : step_into(at, segment);
            e = errno;
        }
        if (at != dir)
            (void)close(at);
        errno = e;
        if (fd < 0 || last)
            return fd;
        at = fd;
        path += n + 1;
    }
}

int tg_kernel_open_beneath(int dir, const char *path, int flags, mode_t mode)
{
#ifdef SYS_openat2
    static atomic_bool missing;
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_LARGEFILE,
        .mode = (flags & O_CREAT) != 0 ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };

    if (!atomic_load_explicit(&missing, memory_order_relaxed)) {
        long fd;
        int tries = 0;
        do /* EAGAIN: a rename elsewhere ran beside the walk */
            fd = syscall(SYS_openat2, dir, path, &how, sizeof how);
        while (fd < 0 && errno == EAGAIN && ++tries < 128);
        /* Sandboxes that do not know the call answer EPERM; so may a file. Both are settled by
         * asking again, the old way. */
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
            return (int)fd;
        if (errno == ENOSYS)
            atomic_store_explicit(&missing, true, memory_order_relaxed);
    }
#endif
    return tg_kernel_walk_beneath(dir, path, flags, mode);
}

static int rename_by(int old_dir, const char *old_path, int new_dir, const char *new_path,
                     unsigned how)
{
#ifdef SYS_renameat2
    return (int)syscall(SYS_renameat2, old_dir, old_path, new_dir, new_path, how);
#else
    (void)old_dir, (void)old_path, (void)new_dir, (void)new_path, (void)how;
    errno = ENOSYS;
    return -1;
#endif
}

int tg_kernel_rename_new(int old_dir, const char *old_path, int new_dir, const char *new_path)
{
    return rename_by(old_dir, old_path, new_dir, new_path, 1U /* NOREPLACE */);
}

int tg_kernel_swap(int dir, const char *a, const char *b)
{
    return rename_by(dir, a, dir, b, 2U /* EXCHANGE */);
}

#ifdef STATX_DIOALIGN
/* statx() leaves the bit unset both where the kernel is too old to know it and where the file
 * system has no direct I/O. */
static bool kernel_knows_dioalign(void)
{
    struct utsname u;
    unsigned major = 0, minor = 0;

    if (uname(&u) != 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
        return false;
    return major > 6 || (major == 6 && minor >= 1);
}
#endif

int tg_kernel_direct_align(int fd, uint32_t *memory, uint32_t *offset)
{
#if defined STATX_DIOALIGN && defined SYS_statx
    struct statx x;

    memset(&x, 0, sizeof x);
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) != 0)
        return -1;
    bool said = (x.stx_mask & STATX_DIOALIGN) != 0;
    if (said || kernel_knows_dioalign()) {
        *memory = said ? x.stx_dio_mem_align : 0;
        *offset = said ? x.stx_dio_offset_align : 0;
        return 0;
    }
#else
    (void)fd, (void)memory, (void)offset;
#endif
    errno = ENOSYS;
    return -1;
}

int tg_kernel_set_direct(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

int tg_kernel_write_out(int fd, off_t offset, off_t len, bool wait)
{
    unsigned how = SYNC_FILE_RANGE_WRITE;
    if (wait)
        how |= SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER;
    return sync_file_range(fd, offset, len, how);
}

int tg_kernel_drop_cache(int fd, off_t offset, off_t len)
{
    int e = posix_fadvise(fd, offset, len, POSIX_FADV_DONTNEED);
    if (e == 0)
        return 0;
    errno = e;
    return -1;
}

bool tg_kernel_cached(int fd, off_t offset)
{
    const long page = sysconf(_SC_PAGESIZE);
    const off_t at = offset / page * page;
    unsigned char there = 0;
    void *p = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, fd, at);
    if (p == MAP_FAILED)
        return true;
    const bool known = mincore(p, (size_t)page, &there) == 0;
    (void)munmap(p, (size_t)page);
    return !known || (there & 1) != 0;
}

int tg_kernel_sync_fs(int fd)
{
    return syncfs(fd);
}

int tg_kernel_check(int fd)
{
    /* The cheapest question that the file system itself answers: there is no such attribute, or
     * none at all, and that is as good an answer as any. */
    return fgetxattr(fd, "user.tidegate", NULL, 0) < 0 && errno == EIO ? -1 : 0;
}
