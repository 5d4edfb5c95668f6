/* store/fs_put.c - whole values into a directory: written beside the target
 * under a temporary name, made durable, renamed, and the rename made durable.
 *
 * A lazy put leaves out both syncs; tg_fs_sync() makes up for them, for all files
 * first and then for the directories. A lazy put over an old value still syncs
 * the new bytes first: else a power cut could leave neither. */
#include "store/fs.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

tg_status tg_fs_staging_get(fs_store *fs, tg_arena *block, tg_error *err)
{
    {
        TG_LOCKED(&fs->lock);
        if (fs->n_staging > 0) {
            *block = fs->staging[--fs->n_staging];
            return TG_OK;
        }
    }
    return tg_arena_map(block, TG_FILE_BLOCK, err);
}

void tg_fs_staging_put(fs_store *fs, tg_arena *block)
{
    if (block->data == NULL)
        return;
    {
        TG_LOCKED(&fs->lock);
        if (fs->n_staging < FS_STAGING_KEPT) {
            fs->staging[fs->n_staging++] = *block;
            *block = (tg_arena){0};
        }
    }
    tg_arena_unmap(block);
}

/* Whole blocks past the page cache, straight from the caller's memory where that is aligned,
 * and the file cut to its length after the last. */
static tg_status write_direct(fs_store *fs, int fd, const char *key, const uint8_t *data,
                              size_t len, size_t align, const tg_cancel *cancel, tg_error *err)
{
    size_t straight = (uintptr_t)data % align == 0 ? len / align * align : 0;
    tg_arena block = {0};

    TG_TRY(tg_file_write(fd, data, straight, 0, align, key, cancel, err));
    if (straight == len)
        return TG_OK;
    TG_TRY(tg_fs_staging_get(fs, &block, err));
    tg_status st = TG_OK;
    for (size_t at = straight; at < len && st == TG_OK; at += TG_FILE_BLOCK) {
        size_t n = len - at < TG_FILE_BLOCK ? len - at : TG_FILE_BLOCK;
        size_t padded = (n + align - 1) / align * align;
        memcpy(block.data, data + at, n);
        memset(block.data + n, 0, padded - n);
        st = tg_file_write(fd, block.data, padded, at, align, key, cancel, err);
    }
    tg_fs_staging_put(fs, &block);
    return st != TG_OK || len % align == 0 ? st : tg_file_truncate(fd, len, key, err);
}

/* Through the page cache, which the writing follows and empties behind itself. */
static tg_status write_buffered(int fd, const char *key, const uint8_t *data, size_t len,
                                const tg_cancel *cancel, tg_error *err)
{
    tg_behind behind = {0};
    tg_extent start, finish;
    bool can = len >= FS_DIRECT_MIN;

    for (size_t at = 0; at < len; at += TG_FILE_BLOCK) {
        size_t n = len - at < TG_FILE_BLOCK ? len - at : TG_FILE_BLOCK;
        TG_TRY(tg_file_write(fd, data + at, n, at, 1, key, cancel, err));
        tg_behind_add(&behind, (tg_extent){at, n}, &start, &finish);
        TG_TRY(tg_behind_run(fd, start, finish, &can, key, err));
    }
    return TG_OK;
}

static tg_status write_value(fs_store *fs, int fd, const char *key, const void *data,
                             size_t len, const tg_cancel *cancel, tg_error *err)
{
    size_t align = 1;

    if (len >= FS_DIRECT_MIN && !fs->buffered) {
        TG_TRY(tg_file_try_direct(fd, key, true, &align, err));
        TG_TRY(tg_file_preallocate(fd, len, key, err));
    }
    if (align > 1)
        return write_direct(fs, fd, key, data, len, align, cancel, err);
    return write_buffered(fd, key, data, len, cancel, err);
}

/* --- Group commit ----------------------------------------------------------- */

void tg_fs_pending_drop(fs_pending *p)
{
    for (size_t i = 0; i < p->n_files; i++)
        (void)tg_sys_close(p->files[i]); /* abandoned, or reported already */
    for (size_t i = 0; i < p->n_dirs; i++)
        tg_free(p->dirs[i]);
    p->n_files = p->n_dirs = 0;
}

/* One sync at a time: who comes second may have files that the first has taken along, and must
 * not return before those are durable. */
static void sync_begin(fs_store *fs, fs_pending *taken)
{
    TG_LOCKED(&fs->lock);
    while (fs->syncing)
        tg_cond_wait(&fs->idle, &fs->lock);
    fs->syncing = true;
    *taken = fs->pending;
    fs->pending.n_files = fs->pending.n_dirs = 0;
}

static tg_status sync_end(fs_store *fs, tg_status st, tg_error *err)
{
    TG_LOCKED(&fs->lock);
    fs->syncing = false;
    tg_cond_broadcast(&fs->idle);
    if (st != TG_OK && fs->failed.code == TG_OK)
        fs->failed = *err;
    return st;
}

static tg_status sync_taken(fs_store *fs, fs_pending *p, tg_error *err)
{
    for (size_t i = 0; i < p->n_files; i++) {
        int fd = p->files[i];
        p->files[i] = p->files[p->n_files - 1];
        p->n_files--, i--;
        tg_status st = tg_file_sync(fd, "a value of this store", err);
        if (st == TG_OK)
            st = tg_file_close(&fd, "a value of this store", err);
        else
            (void)tg_sys_close(fd); /* already failing */
        TG_TRY(st);
    }
    for (size_t i = 0; i < p->n_dirs; i++) {
        TG_AUTO(tg_fd) dir = -1;
        const char *leaf;
        TG_TRY(tg_fs_open_parent(fs, p->dirs[i], false, &dir, &leaf, err));
        TG_TRY(tg_fs_sync_entry(fs, p->dirs[i], dir, err));
    }
    return TG_OK;
}

tg_status tg_fs_sync(tg_store *s, const tg_cancel *cancel, tg_error *err)
{
    fs_store *fs = (fs_store *)s;
    tg_error own = {0};
    fs_pending taken;

    (void)cancel; /* half a commit is no commit: files that were taken are synced to the end */
    sync_begin(fs, &taken);
    tg_status st = fs->failed.code;
    if (st != TG_OK)
        own = fs->failed;
    else if (fs->no_sync && tg_sys_sync_fs(fs->dir) != 0)
        st = tg_file_fail("sync the file system of", fs->root, &own);
    else
        st = sync_taken(fs, &taken, &own);
    tg_fs_pending_drop(&taken);
    st = sync_end(fs, st, &own);
    if (st != TG_OK && err != NULL)
        *err = own;
    return st;
}

static bool same_dir(const char *a, const char *b)
{
    const char *ea = strrchr(a, '/'), *eb = strrchr(b, '/');
    size_t na = ea == NULL ? 0 : (size_t)(ea - a), nb = eb == NULL ? 0 : (size_t)(eb - b);
    return na == nb && memcmp(a, b, na) == 0;
}

/* Note file and directory for the next sync, if there is room; the file is then not ours. */
static bool note_locked(fs_store *fs, const char *key, int *fd, char **name)
{
    TG_LOCKED(&fs->lock);
    fs_pending *p = &fs->pending;
    size_t i = p->n_dirs;

    while (i > 0 && !same_dir(p->dirs[i - 1], key))
        i--;
    if (p->n_files == FS_PENDING_FILES || (i == 0 && p->n_dirs == FS_PENDING_DIRS))
        return false;
    if (i == 0)
        p->dirs[p->n_dirs++] = tg_steal(*name);
    if (*fd >= 0)
        p->files[p->n_files++] = *fd;
    *fd = -1;
    return true;
}

/* Hand a lazily put file (-1: synced already) to the next sync; a full list is synced now. */
static tg_status note_pending(fs_store *fs, const char *key, int *fd, char **name,
                              const tg_cancel *cancel, tg_error *err)
{
    if (*fd >= 0)
        (void)tg_sys_write_out(*fd, 0, 0, false); /* a hint: the sync has less to wait for */
    while (!note_locked(fs, key, fd, name))
        TG_TRY(tg_fs_sync(&fs->base, cancel, err));
    return TG_OK;
}

/* --- Put -------------------------------------------------------------------- */

/* A lazy put of a new value keeps its file open for the sync to come. */
static tg_status put_lazy(fs_store *fs, int dir, const char *tmp, const char *leaf, int *fd,
                          const char *key, unsigned how, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_str) name = tg_strdup(key);
    bool exclusive = (how & TG_PUT_NEW) != 0;

    if (name == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for '%s'", key);
    tg_status st = tg_fs_publish(dir, tmp, leaf, true, key, err);
    if (st == TG_EXISTS && !exclusive) {
        TG_TRY(tg_file_sync(*fd, key, err));
        TG_TRY(tg_file_close(fd, key, err));
        st = tg_fs_publish(dir, tmp, leaf, false, key, err);
    }
    TG_TRY(st);
    return note_pending(fs, key, fd, &name, cancel, err);
}

static tg_status put_synced(fs_store *fs, int dir, const char *tmp, const char *leaf, int *fd,
                            const char *key, size_t len, unsigned how, tg_error *err)
{
    if (!fs->no_sync)
        TG_TRY(tg_file_sync(*fd, key, err));
    if (fs->buffered && !fs->no_sync && len >= FS_DIRECT_MIN)
        (void)tg_sys_drop_cache(*fd, 0, (off_t)len); /* a hint */
    TG_TRY(tg_file_close(fd, key, err));
    TG_TRY(tg_fs_publish(dir, tmp, leaf, (how & TG_PUT_NEW) != 0, key, err));
    return fs->no_sync ? TG_OK : tg_fs_sync_entry(fs, key, dir, err);
}

tg_status tg_fs_put(tg_store *s, const char *key, const void *data, size_t len, unsigned how,
                    const tg_cancel *cancel, tg_error *err)
{
    fs_store *fs = (fs_store *)s;
    TG_AUTO(tg_fd) dir = -1;
    TG_AUTO(tg_fd) fd = -1;
    char tmp[FS_TMP_BYTES];
    const char *leaf;

    TG_TRY(tg_fs_open_parent(fs, key, true, &dir, &leaf, err));
    TG_TRY(tg_fs_create_tmp(fs, dir, key, tmp, &fd, err));
    tg_status st = write_value(fs, fd, key, data, len, cancel, err);
    if (st == TG_OK && (how & TG_PUT_LAZY) != 0 && !fs->no_sync)
        st = put_lazy(fs, dir, tmp, leaf, &fd, key, how, cancel, err);
    else if (st == TG_OK)
        st = put_synced(fs, dir, tmp, leaf, &fd, key, len, how, err);
    if (st != TG_OK)
        (void)tg_sys_unlink(dir, tmp, 0); /* already failing; gone if it was renamed */
    return st;
}
