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

    /* Appending: what does not fill a block yet. One thread. */
    tg_arena block;
    size_t fill;  /* bytes of the value in block */
    uint64_t end; /* of the value, without those */

    tg_mutex lock;   /* guards all below */
    tg_error failed; /* of an earlier sync: no later one can make it good */
    bool entry_durable, can_write_out;
    fs_behind behind;
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
    fs_extent start, finish;
    tg_error own = {0};
    bool can;

    if (o->base.direct)
        return TG_OK;
    {
        TG_LOCKED(&o->lock);
        can = o->can_write_out;
        fs_behind_add(&o->behind, (fs_extent){offset, len}, &start, &finish);
    }
    tg_status st = fs_behind_run(o->fd, start, finish, &can, o->key, &own);
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
    TG_TRY(fs_write_aligned(o->fd, data, len, offset, base->align, o->key, cancel, err));
    return follow(o, offset, len, err);
}

/* --- Appending --------------------------------------------------------------- */

/* Write the block out, padded to whole units; what fills only part of a unit stays in it. */
static tg_status flush_block(fs_object *o, const tg_cancel *cancel, tg_error *err)
{
    size_t align = o->base.align, whole = o->fill / align * align;
    size_t padded = (o->fill + align - 1) / align * align;

    if (o->fill == 0)
        return TG_OK;
    memset(o->block.data + o->fill, 0, padded - o->fill);
    TG_TRY(fs_write_aligned(o->fd, o->block.data, padded, o->end, align, o->key, cancel, err));
    memmove(o->block.data, o->block.data + whole, o->fill - whole);
    o->end += whole;
    o->fill -= whole;
    return TG_OK;
}

static tg_status write_direct(fs_object *o, const uint8_t *p, size_t len,
                              const tg_cancel *cancel, tg_error *err)
{
    size_t align = o->base.align;

    while (len > 0) {
        if (o->fill == 0 && (uintptr_t)p % align == 0 && len >= align) {
            size_t n = len / align * align;
            TG_TRY(fs_write_aligned(o->fd, p, n, o->end, align, o->key, cancel, err));
            o->end += n;
            p += n;
            len -= n;
            continue;
        }
        if (o->block.data == NULL)
            TG_TRY(fs_staging_get(o->fs, &o->block, err));
        size_t n = len < FS_BLOCK - o->fill ? len : FS_BLOCK - o->fill;
        memcpy(o->block.data + o->fill, p, n);
        o->fill += n;
        p += n;
        len -= n;
        if (o->fill == FS_BLOCK)
            TG_TRY(flush_block(o, cancel, err));
    }
    return TG_OK;
}

static tg_status fs_write(tg_object *base, const void *data, size_t len,
                          const tg_cancel *cancel, tg_error *err)
{
    fs_object *o = (fs_object *)base;

    if (len > INT64_MAX || o->end > INT64_MAX - len - FS_BLOCK)
        return tg_fail(err, TG_INVALID, "'%s' would end beyond 2^63 bytes", o->key);
    if (base->direct)
        return write_direct(o, data, len, cancel, err);
    TG_TRY(fs_write_aligned(o->fd, data, len, o->end, 1, o->key, cancel, err));
    o->end += len;
    return follow(o, o->end - len, len, err);
}

/* --- Sync, seal, abort ------------------------------------------------------- */

static tg_status sync_entry_once(fs_object *o, tg_error *err)
{
    {
        TG_LOCKED(&o->lock);
        if (o->entry_durable)
            return TG_OK;
    }
    TG_TRY(fs_sync_entry(o->fs, o->key, o->dir, err));
    TG_LOCKED(&o->lock);
    o->entry_durable = true;
    return TG_OK;
}

static tg_status fs_object_sync(tg_object *base, const tg_cancel *cancel, tg_error *err)
{
    fs_object *o = (fs_object *)base;
    tg_error own = {0};

    TG_TRY(earlier_failure(o, err));
    TG_TRY(flush_block(o, cancel, err));
    tg_status st = fs_sync_file(o->fd, o->key, &own);
    if (st == TG_OK)
        st = sync_entry_once(o, &own);
    return keep_failure(o, st, &own, err);
}

static tg_status close_file(fs_object *o, tg_error *err)
{
#if TG_PLANT == 2
    (void)tg_sys_close(o->fd), (void)err;
    o->fd = -1;
    return TG_OK;
#endif
    return tg_fd_close(&o->fd, o->key, err);
}

static tg_status seal_steps(fs_object *o, uint64_t len, const tg_cancel *cancel, tg_error *err)
{
    bool synced = !o->fs->no_sync;

    TG_TRY(flush_block(o, cancel, err));
    TG_TRY(fs_truncate(o->fd, len, o->key, err));
    if (synced)
        TG_TRY(fs_sync_file(o->fd, o->key, err));
    TG_TRY(close_file(o, err));
    if (o->tmp[0] != '\0') {
        TG_TRY(fs_publish(o->dir, o->tmp, o->leaf, false, o->key, err));
        o->tmp[0] = '\0';
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
    if (!o->reopened)
        (void)tg_sys_unlink(o->dir, name_of(o), 0); /* stays as a temporary, if at all */
}

static void fs_object_free(tg_object *base)
{
    fs_object *o = (fs_object *)base;

    tg_fd_auto(&o->fd);
    tg_fd_auto(&o->dir);
    fs_staging_put(o->fs, &o->block);
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

/* The block that an append goes on in the middle of. */
static tg_status load_last_block(fs_object *o, tg_error *err)
{
    size_t part = (size_t)(o->end % o->base.align);

    if (part == 0)
        return TG_OK;
    TG_TRY(fs_staging_get(o->fs, &o->block, err));
    o->end -= part;
    o->fill = part;
    /* Direct reads are whole units, too: this one ends with the file. */
    ssize_t got = tg_sys_pread(o->fd, o->block.data, o->base.align, (off_t)o->end);
    if (got < 0)
        return fs_fail("read the end of", o->key, err);
    return (size_t)got >= part ? TG_OK
                               : tg_fail(err, TG_CORRUPT, "'%s' became shorter", o->key);
}

static tg_status reopen_file(fs_object *o, tg_error *err)
{
    struct stat st;

    o->fd = tg_sys_open(o->dir, o->leaf, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
    if (o->fd < 0)
        return fs_fail("open", o->key, err);
    if (tg_sys_stat_fd(o->fd, &st) != 0)
        return fs_fail("stat", o->key, err);
    if (!S_ISREG(st.st_mode))
        return tg_fail(err, TG_CORRUPT, "'%s' is not a regular file", o->key);
    o->end = (uint64_t)st.st_size;
    return TG_OK;
}

static tg_status create_file(fs_object *o, bool visible, tg_error *err)
{
    if (!visible)
        return fs_create_tmp(o->fs, o->dir, o->key, o->tmp, &o->fd, err);
    o->fd = tg_sys_open(o->dir, o->leaf, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
    return o->fd >= 0 ? TG_OK : fs_fail("create", o->key, err);
}

/* Direct I/O and room, for a file that is open. */
static tg_status prepare(fs_object *o, uint64_t size_hint, tg_error *err)
{
    if (!o->fs->buffered)
        TG_TRY(fs_try_direct(o->fd, o->key, !o->reopened, &o->base.align, err));
    o->base.direct = o->base.align > 1;
    TG_TRY(fs_preallocate(o->fd, size_hint, o->key, err));
    return o->base.direct ? load_last_block(o, err) : TG_OK;
}

tg_status fs_begin(tg_store *s, const char *key, tg_object_options options, tg_object **out,
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
    TG_TRY(fs_open_parent(o->fs, o->key, !options.reopen, &o->dir, &o->leaf, err));
    TG_TRY(options.reopen ? reopen_file(o, err) : create_file(o, options.visible, err));
    tg_status st = prepare(o, options.size_hint, err);
    if (st != TG_OK)
        fs_abort(base);
    else
        *out = tg_steal(base);
    return st;
}
