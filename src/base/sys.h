/* base/sys.h - every system call that touches files, through one table, so
 * that a test can make each of them fail, or stop the process before it.
 *
 * The functions named tg_sys_NAME call through the table and keep errno; they
 * retry EINTR where the call has had no effect. The helpers below them turn
 * errno into a tg_error whose message and key name the path. */
#ifndef TG_BASE_SYS_H
#define TG_BASE_SYS_H

#include "base/auto.h"
#include "base/error.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef struct tg_sys {
    int (*open_at)(int dir, const char *path, int flags, mode_t mode);
    int (*close_fd)(int fd);
    ssize_t (*pread_fd)(int fd, void *buf, size_t n, off_t offset);
    ssize_t (*pwrite_fd)(int fd, const void *buf, size_t n, off_t offset);
    ssize_t (*read_fd)(int fd, void *buf, size_t n);
    ssize_t (*write_fd)(int fd, const void *buf, size_t n);
    int (*fsync_fd)(int fd);
    int (*fdatasync_fd)(int fd);
    int (*truncate_fd)(int fd, off_t len);
    int (*allocate_fd)(int fd, off_t offset,
                       off_t len); /* blocks beyond the end, size unchanged */
    int (*rename_at)(int old_dir, const char *old_path, int new_dir, const char *new_path);
    int (*link_at)(int old_dir, const char *old_path, int new_dir, const char *new_path);
    int (*unlink_at)(int dir, const char *path, int flags);
    int (*mkdir_at)(int dir, const char *path, mode_t mode);
    int (*stat_fd)(int fd, struct stat *st);
    int (*stat_at)(int dir, const char *path, struct stat *st, int flags);
    int (*open_beneath)(int dir, const char *path, int flags, mode_t mode);
    int (*rename_new_at)(int old_dir, const char *old_path, int new_dir, const char *new_path);
    int (*swap_at)(int dir, const char *a, const char *b);
    int (*direct_align)(int fd, uint32_t *memory, uint32_t *offset);
    int (*set_direct)(int fd, bool on);
    int (*write_out)(int fd, off_t offset, off_t len, bool wait);
    int (*drop_cache)(int fd, off_t offset, off_t len);
    int (*sync_fs)(int fd);
    int (*check_fd)(int fd);
    int (*free_fd)(int fd, uint64_t *bytes);
} tg_sys;

/* The kernel's own calls. */
extern const tg_sys tg_sys_kernel;

/* Put another table in place, for a test; NULL: the kernel's. Not while other threads make
 * calls. */
void tg_sys_use(const tg_sys *table);
/* The table in use: a test's table forwards to it. */
const tg_sys *tg_sys_table(void);

int tg_sys_open(int dir, const char *path, int flags, mode_t mode); /* O_CLOEXEC is added */
int tg_sys_close(int fd);
ssize_t tg_sys_pread(int fd, void *buf, size_t n, off_t offset);
ssize_t tg_sys_pwrite(int fd, const void *buf, size_t n, off_t offset);
ssize_t tg_sys_read(int fd, void *buf, size_t n);
ssize_t tg_sys_write(int fd, const void *buf, size_t n);
int tg_sys_fsync(int fd);
int tg_sys_fdatasync(int fd);
int tg_sys_truncate(int fd, off_t len);
int tg_sys_allocate(int fd, off_t offset, off_t len);
int tg_sys_rename(int old_dir, const char *old_path, int new_dir, const char *new_path);
int tg_sys_link(int old_dir, const char *old_path, int new_dir, const char *new_path);
int tg_sys_unlink(int dir, const char *path, int flags);
int tg_sys_mkdir(int dir, const char *path, mode_t mode);
int tg_sys_stat_fd(int fd, struct stat *st);
int tg_sys_stat(int dir, const char *path, struct stat *st, int flags);
/* As open, but never outside dir, whatever symbolic links are on the way (EXDEV): links that
 * stay inside are followed where the kernel can tell (openat2), elsewhere none is (ELOOP). */
int tg_sys_open_beneath(int dir, const char *path, int flags, mode_t mode);
/* Rename only if new_path is free (EEXIST). EINVAL, ENOSYS: the file system cannot. */
int tg_sys_rename_new(int old_dir, const char *old_path, int new_dir, const char *new_path);
/* Each of two names in a directory becomes that of what the other named, at one moment. ENOENT:
 * one of them names nothing; EINVAL, ENOSYS: the file system cannot. */
int tg_sys_swap(int dir, const char *a, const char *b);
/* What O_DIRECT asks of addresses and of offsets and lengths; 0, 0: the file system says it has
 * none. ENOSYS: this kernel cannot tell. */
int tg_sys_direct_align(int fd, uint32_t *memory, uint32_t *offset);
int tg_sys_set_direct(int fd, bool on);
/* Start writing dirty pages to the disk, and wait until it has them if asked; says nothing of
 * metadata. A failure is reported once, here or by the next sync. ENOSYS: cannot. */
int tg_sys_write_out(int fd, off_t offset, off_t len, bool wait);
int tg_sys_drop_cache(int fd, off_t offset, off_t len); /* clean pages only; a hint */
int tg_sys_sync_fs(int fd); /* everything on the file system that fd is on */
/* EIO if the file system that fd is on has stopped. */
int tg_sys_check(int fd);
/* What the file system that fd is on has left for this user; a quota may leave less. */
int tg_sys_free(int fd, uint64_t *bytes);

/* A file descriptor that its scope closes; for files only read from, or already
 * failed: a file that was written is closed with tg_fd_close(), which reports. */
typedef int tg_fd;
void tg_fd_auto(tg_fd *fd);
/* Close *fd and set it to -1. A network file system reports a failed write here. */
TG_MUST_USE tg_status tg_fd_close(tg_fd *fd, const char *path, tg_error *err);

/* Exactly n bytes at offset, or a failure that says at which byte. Reading past
 * the end is TG_CORRUPT. path is for the message only. */
TG_MUST_USE tg_status tg_fd_read_at(int fd, void *buf, size_t n, uint64_t offset,
                                    const char *path, tg_error *err);
TG_MUST_USE tg_status tg_fd_write_at(int fd, const void *buf, size_t n, uint64_t offset,
                                     const char *path, tg_error *err);

/* Make the entries of a directory durable. dir is a descriptor, path as above. */
TG_MUST_USE tg_status tg_dir_sync(int dir, const char *path, tg_error *err);

#endif
