/* store/file_io.h - moving bytes to a local file: past the page cache, or through
 * it without filling it. What the directory and the ZIP store share; knows no
 * keys but as names in messages. */
#ifndef TG_STORE_FILE_IO_H
#define TG_STORE_FILE_IO_H

#include "base/mem.h"
#include "tidegate/cancel.h"

#include <stdbool.h>

#define TG_FILE_BLOCK ((size_t)1 << 20) /* staging of one write */

/* A failure of a call on key, from errno; errno values that mean "no such key" or "cannot be a
 * key here" become TG_NOT_FOUND and TG_INVALID. */
TG_MUST_USE tg_status tg_file_fail(const char *doing, const char *key, tg_error *err);
/* Switch a file to direct I/O where that works. A kernel that cannot tell is asked with a
 * write, only to an empty file that we made. *align: what offsets, lengths and addresses must
 * be multiples of; 1 and not direct where it does not. */
TG_MUST_USE tg_status tg_file_try_direct(int fd, const char *key, bool empty, size_t *align,
                                         tg_error *err);
/* Room for len bytes beyond the end, if that is at most half of what is free. A file system
 * that cannot is no failure, nor is one without the room: the writes find out whether they fit.
 */
TG_MUST_USE tg_status tg_file_preallocate(int fd, uint64_t len, const char *key, tg_error *err);
/* Exactly len bytes at offset, as tg_fd_read_at(). Many bytes that the page cache does not hold
 * are read past it, straight into dst, if dst and offset are as far from a block's beginning
 * (best: dst % 4096 == offset % 4096). */
TG_MUST_USE tg_status tg_file_read(int fd, void *dst, size_t len, uint64_t offset,
                                   const char *key, tg_error *err);
/* pwrite() that keeps every piece aligned, also after a short write. */
TG_MUST_USE tg_status tg_file_write(int fd, const void *data, size_t len, uint64_t offset,
                                    size_t align, const char *key, const tg_cancel *cancel,
                                    tg_error *err);
TG_MUST_USE tg_status tg_file_sync(int fd, const char *key, tg_error *err);
TG_MUST_USE tg_status tg_file_close(int *fd, const char *key, tg_error *err);
/* Make the directory entry of a path durable. */
TG_MUST_USE tg_status tg_file_sync_entry(const char *path, tg_error *err);
TG_MUST_USE tg_status tg_file_truncate(int fd, uint64_t len, const char *key, tg_error *err);
/* Writing through the page cache: pages go out a few blocks behind, and are dropped. The two
 * steps are apart so that the first runs under the caller's lock, the second outside. */
#define TG_BEHIND 4
typedef struct tg_extent {
    uint64_t offset, len; /* len 0: nothing */
} tg_extent;
typedef struct tg_behind {
    tg_extent block[TG_BEHIND];
    size_t n;
} tg_behind;
/* `now` was written: what to start writing out, and what to wait for. */
void tg_behind_add(tg_behind *b, tg_extent now, tg_extent *start, tg_extent *finish);
/* A failure is the file's: it will not be reported again by a sync. *can: false once the file
 * system has none of it. */
TG_MUST_USE tg_status tg_behind_run(int fd, tg_extent start, tg_extent finish, bool *can,
                                    const char *key, tg_error *err);

/* --- file_append.c ---------------------------------------------------------- */

/* Bytes added at the end of a file, of any length from any address. What does not fill a unit
 * of direct I/O stays in the block, and is written out padded by a flush. One thread. */
typedef struct tg_appender {
    int fd; /* borrowed */
    const char *name;
    size_t align;
    size_t gather;  /* pieces below this many bytes go out together; 1: none waits */
    tg_arena block; /* TG_FILE_BLOCK bytes, the caller's to give and take; mapped if needed */
    size_t fill;    /* bytes in it that belong after `end` */
    size_t there;   /* of these the first that a seek read back and nothing was added behind: a
                       flush leaves the file as it is, for others may have written there */
    uint64_t end;
} tg_appender;
/* Where the next byte goes. */
static inline uint64_t tg_appender_at(const tg_appender *a)
{
    return a->end + a->fill;
}
TG_MUST_USE tg_status tg_appender_write(tg_appender *a, const void *data, size_t len,
                                        const tg_cancel *cancel, tg_error *err);
/* All that was added is in the file, which may be longer by what pads the last unit. */
TG_MUST_USE tg_status tg_appender_flush(tg_appender *a, const tg_cancel *cancel, tg_error *err);
/* All that was added is in the file, which is no longer than that: what does not fill a unit
 * goes through the page cache, which spares a padded write and a change of length. Nothing more
 * may be added. */
TG_MUST_USE tg_status tg_appender_finish(tg_appender *a, const tg_cancel *cancel,
                                         tg_error *err);
/* Go on at `end`, whose unit is read back if it is begun. What was not flushed is forgotten. */
TG_MUST_USE tg_status tg_appender_seek(tg_appender *a, uint64_t end, tg_error *err);

#endif
