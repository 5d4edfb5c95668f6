/* store/fs_object.c - values that grow, in a directory: preallocated, written
 * in any order past the page cache, synced with every directory entry that leads
 * to them, and cut to their length at the end. */
#include "store/fs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

typedef struct fs_object {
    tg_object base;
    fs_store *fs;
    char *key;
    const char *leaf; /* in key */
    int dir, fd;
    char tmp[FS_TMP_BYTES]; /* its name until seal; "" if visible */
    bool reopened;
    bool published; /* renamed: the old value is gone, so an abort must not remove the new */

    tg_appender append; /* one thread */

    tg_mutex lock;   /* guards all below */
    tg_error failed; /* of an earlier sync: no later one can make it good */
    bool entry_durable, can_write_out;
    tg_behind behind;
} fs_object;

static const char *name_of(const fs_object *o)
{
    return o->tmp[0] == '\0' ? o->leaf : o->tmp;
}

/* The first failure of a sync stays: the kernel reports it once, and has dropped the pages. */
static tg_status keep_failure(fs_object *o, tg_status st, const tg_error *own, tg_error *err)
{
    if (st == TG_OK)
        return TG_OK;
    TG_LOCKED(&o->lock);
    if (o->failed.code == TG_OK)
        o->failed = *own;
    if (err != NULL)
        *err = *own;
    return st;
}

static tg_status earlier_failure(fs_object *o, tg_error *err)
{
    TG_LOCKED(&o->lock);
    if (o->failed.code != TG_OK && err != NULL)
        *err = o->failed;
    return o->failed.code;
}

/* Keep the page cache small behind a buffered write. */
static tg_status follow(fs_object *o, uint64_t offset, uint64_t len, tg_error *err)
{
    tg_extent start, finish;
    tg_error own = {0};
    bool can;

    if (o->base.direct)
        return TG_OK;
    {
        TG_LOCKED(&o->lock);
        can = o->can_write_out;
        tg_behind_add(&o->behind, (tg_extent){offset, len}, &start, &finish);
    }
    tg_status st = tg_behind_run(o->fd, start, finish, &can, o->key, &own);
    if (!can) {
        TG_LOCKED(&o->lock);
        o->can_write_out = false;
    }
    return keep_failure(o, st, &own, err);
}

static tg_status fs_write_at(tg_object *base, uint64_t offset, const void *data, size_t len,
                             const tg_cancel *cancel, tg_error *err)
{
    fs_object *o = (fs_object *)base;
    TG_TRY(tg_file_write(o->fd, data, len, offset, base->align, o->key, cancel, err));
    return follow(o, offset, len, err);
}

static tg_status fs_write(tg_object *base, const void *data, size_t len,
                          const tg_cancel *cancel, tg_error *err)
{
    fs_object *o = (fs_object *)base;
    uint64_t at = tg_appender_at(&o->append);

    if (base->direct && o->append.block.data == NULL)
        TG_TRY(tg_fs_staging_get(o->fs, &o->append.block, err));
    TG_TRY(tg_appender_write(&o->append, data, len, cancel, err));
    return follow(o, at, len, err);
}

/* --- Sync, seal, abort ------------------------------------------------------- */

static tg_status sync_entry_once(fs_object *o, tg_error *err)
{
    {
        TG_LOCKED(&o->lock);
        if (o->entry_durable)
            return TG_OK;
    }
    TG_TRY(tg_fs_sync_entry(o->fs, o->key, o->dir, err));
    TG_LOCKED(&o->lock);
    o->entry_durable = true;
    return TG_OK;
}

static tg_status fs_object_sync(tg_object *base, const tg_cancel *cancel, tg_error *err)
{
    fs_object *o = (fs_object *)base;
    tg_error own = {0};

    TG_TRY(earlier_failure(o, err));
    TG_TRY(tg_appender_flush(&o->append, cancel, err));
    tg_status st = tg_file_sync(o->fd, o->key, &own);
    if (st == TG_OK)
        st = sync_entry_once(o, &own);
    return keep_failure(o, st, &own, err);
}

static tg_status seal_steps(fs_object *o, uint64_t len, const tg_cancel *cancel, tg_error *err)
{
    bool synced = !o->fs->no_sync;

    TG_TRY(tg_appender_flush(&o->append, cancel, err));
    TG_TRY(tg_file_truncate(o->fd, len, o->key, err));
    if (synced)
        TG_TRY(tg_file_sync(o->fd, o->key, err));
    TG_TRY(tg_file_close(&o->fd, o->key, err));
    if (o->tmp[0] != '\0') {
        TG_TRY(tg_fs_publish(o->dir, o->tmp, o->leaf, false, o->key, err));
        o->published = true;
        o->entry_durable = false;
    }
    return synced ? sync_entry_once(o, err) : TG_OK;
}

static tg_status fs_seal(tg_object *base, uint64_t len, const tg_cancel *cancel, tg_error *err)
{
    fs_object *o = (fs_object *)base;
    tg_error own = {0};

    TG_TRY(earlier_failure(o, err));
    return keep_failure(o, seal_steps(o, len, cancel, &own), &own, err);
}

static void fs_abort(tg_object *base)
{
    fs_object *o = (fs_object *)base;
    if (!o->reopened && !o->published)
        (void)tg_sys_unlink(o->dir, name_of(o), 0); /* stays as a temporary, if at all */
}

static void fs_object_free(tg_object *base)
{
    fs_object *o = (fs_object *)base;

    tg_fd_auto(&o->fd);
    tg_fd_auto(&o->dir);
    tg_fs_staging_put(o->fs, &o->append.block);
    tg_mutex_destroy(&o->lock);
    tg_free(o->key);
    tg_free(o);
}

static const tg_object_ops object_ops = {
    .write_at = fs_write_at,
    .write = fs_write,
    .sync = fs_object_sync,
    .seal = fs_seal,
    .abort = fs_abort,
    .free = fs_object_free,
};

/* --- Begin ------------------------------------------------------------------- */

static tg_status reopen_file(fs_object *o, tg_error *err)
{
    struct stat st;

    o->fd = tg_sys_open(o->dir, o->leaf, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
    if (o->fd < 0)
        return tg_file_fail("open", o->key, err);
    if (tg_sys_stat_fd(o->fd, &st) != 0)
        return tg_file_fail("stat", o->key, err);
    if (!S_ISREG(st.st_mode))
        return tg_fail(err, TG_CORRUPT, "'%s' is not a regular file", o->key);
    o->append.end = (uint64_t)st.st_size;
    return TG_OK;
}

static tg_status create_file(fs_object *o, bool visible, tg_error *err)
{
    if (!visible)
        return tg_fs_create_tmp(o->fs, o->dir, o->key, o->tmp, &o->fd, err);
    o->fd = tg_sys_open(o->dir, o->leaf, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
    return o->fd >= 0 ? TG_OK : tg_file_fail("create", o->key, err);
}

/* Direct I/O and room, for a file that is open. */
static tg_status prepare(fs_object *o, uint64_t size_hint, tg_error *err)
{
    if (!o->fs->buffered)
        TG_TRY(tg_file_try_direct(o->fd, o->key, !o->reopened, &o->base.align, err));
    o->base.direct = o->base.align > 1;
    TG_TRY(tg_file_preallocate(o->fd, size_hint, o->key, err));
    o->append.fd = o->fd;
    o->append.name = o->key;
    o->append.align = o->base.align;
    o->append.gather = 1;
    return tg_appender_seek(&o->append, o->append.end, err);
}

tg_status tg_fs_begin(tg_store *s, const char *key, tg_object_options options, tg_object **out,
                      const tg_cancel *cancel, tg_error *err)
{
    fs_object *o = tg_calloc(1, sizeof *o);
    TG_AUTO_PTR(tg_object) base = (tg_object *)o;

    (void)cancel;
    if (o == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to write '%s'", key);
    o->base.ops = &object_ops;
    o->base.align = 1;
    o->fs = (fs_store *)s;
    o->dir = o->fd = -1;
    o->reopened = options.reopen;
    o->can_write_out = true;
    tg_mutex_init(&o->lock);
    o->key = tg_strdup(key);
    if (o->key == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to write '%s'", key);
    TG_TRY(tg_fs_open_parent(o->fs, o->key, !options.reopen, &o->dir, &o->leaf, err));
    TG_TRY(options.reopen ? reopen_file(o, err) : create_file(o, options.visible, err));
    tg_status st = prepare(o, options.size_hint, err);
    if (st != TG_OK)
        fs_abort(base);
    else
        *out = tg_steal(base);
    return st;
}
