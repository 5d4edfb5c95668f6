/* store/fs.h - what the files of the directory store share.
 *
 * store_fs.c   the backend: open, read, list, remove
 * fs_path.c    keys to directories, never outside the root; which of them are durable
 * fs_put.c     whole values: temporary, sync, rename; group commits
 * fs_object.c  values that grow */
#ifndef TG_STORE_FS_H
#define TG_STORE_FS_H

#include "base/sync.h"
#include "base/sys.h"
#include "store/file_io.h"
#include "store/store.h"

#include <stdatomic.h>

#define FS_TMP_PREFIX    TG_STORE_TMP_PREFIX
#define FS_TMP_BYTES     64                /* room for a temporary name */
#define FS_DIRECT_MIN    ((size_t)1 << 20) /* puts below this go through the page cache */
#define FS_STAGING_KEPT  4                 /* staging blocks that a store keeps */
#define FS_KNOWN_DIRS    256
#define FS_KNOWN_BYTES   128
#define FS_PENDING_FILES 64
#define FS_PENDING_DIRS  64

/* Files that were put lazily and wait for a sync: bounded, for each holds a descriptor. */
typedef struct fs_pending {
    int files[FS_PENDING_FILES];
    size_t n_files;
    char *dirs[FS_PENDING_DIRS]; /* keys of directories with new entries, "" is the root */
    size_t n_dirs;
} fs_pending;

typedef struct fs_store {
    tg_store base;
    char *root;
    int dir;
    bool buffered, no_sync;
    atomic_uint_least64_t serial; /* of temporary names */

    tg_mutex lock; /* guards all below */
    tg_cond idle;  /* no sync is running */
    bool syncing;
    tg_error failed; /* of an earlier sync: nothing can be called durable after it */
    fs_pending pending;
    tg_arena staging[FS_STAGING_KEPT];
    size_t n_staging;
    /* Directories whose own entry, and that of each above, was made durable by this store. A
     * direct-mapped cache: what fell out of it is synced once more. */
    char known[FS_KNOWN_DIRS][FS_KNOWN_BYTES];
} fs_store;

/* --- fs_path.c ------------------------------------------------------------ */

/* Open what a key names, for reading. Not a regular file: TG_NOT_FOUND for a directory,
 * TG_CORRUPT for anything else. */
TG_MUST_USE tg_status tg_fs_open_value(fs_store *fs, const char *key, int *fd, struct stat *st,
                                       tg_error *err);
/* Open the directory that holds key, made if need be; *leaf points to key's last part. */
TG_MUST_USE tg_status tg_fs_open_parent(fs_store *fs, const char *key, bool make, int *dir,
                                        const char **leaf, tg_error *err);
/* Make the entry of key durable: the directory that holds it (open as dir), and the entries of
 * the directories above that are not known to be. */
TG_MUST_USE tg_status tg_fs_sync_entry(fs_store *fs, const char *key, int dir, tg_error *err);
void tg_fs_tmp_name(fs_store *fs, char *dst);
/* Create a new temporary beside the value; *fd is open for reading and writing. */
TG_MUST_USE tg_status tg_fs_create_tmp(fs_store *fs, int dir, const char *key, char *name,
                                       int *fd, tg_error *err);
/* Give the temporary its name, only if that is free (TG_EXISTS) where `exclusive`. */
TG_MUST_USE tg_status tg_fs_publish(int dir, const char *tmp, const char *leaf, bool exclusive,
                                    const char *key, tg_error *err);

/* A block of TG_FILE_BLOCK bytes, from those kept or new. */
TG_MUST_USE tg_status tg_fs_staging_get(fs_store *fs, tg_arena *block, tg_error *err);
void tg_fs_staging_put(fs_store *fs, tg_arena *block);

/* --- fs_put.c, fs_object.c ------------------------------------------------- */

tg_status tg_fs_put(tg_store *s, const char *key, const void *data, size_t len, unsigned how,
                    const tg_cancel *cancel, tg_error *err);
tg_status tg_fs_sync(tg_store *s, const tg_cancel *cancel, tg_error *err);
void tg_fs_pending_drop(fs_pending *p); /* closes and frees, syncs nothing */
tg_status tg_fs_begin(tg_store *s, const char *key, tg_object_options options, tg_object **out,
                      const tg_cancel *cancel, tg_error *err);

#endif
