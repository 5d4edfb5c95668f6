/* base/sys_kernel.h - the calls of the table that need more than one line of
 * libc: newer kernel calls, with what stands in for them where they are missing. */
#ifndef TG_BASE_SYS_KERNEL_H
#define TG_BASE_SYS_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

int tg_kernel_open_beneath(int dir, const char *path, int flags, mode_t mode);
/* What open_beneath does where there is no openat2: here for its test. */
int tg_kernel_walk_beneath(int dir, const char *path, int flags, mode_t mode);
int tg_kernel_rename_new(int old_dir, const char *old_path, int new_dir, const char *new_path);
int tg_kernel_swap(int dir, const char *a, const char *b);
int tg_kernel_direct_align(int fd, uint32_t *memory, uint32_t *offset);
int tg_kernel_set_direct(int fd, bool on);
int tg_kernel_write_out(int fd, off_t offset, off_t len, bool wait);
int tg_kernel_drop_cache(int fd, off_t offset, off_t len);
/* Does the page cache hold the page of this byte? True also where it cannot be told. A hint. */
bool tg_kernel_cached(int fd, off_t offset);
int tg_kernel_sync_fs(int fd);
int tg_kernel_check(int fd);

#endif
