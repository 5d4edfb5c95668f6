/* store/store_zip.c - a ZIP file as a store: read in place, appended to, its
 * directory written at close. */
#include "store/zip.h"
#include "store/zip_format.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static tg_status find(zip_store *z, const char *key, zip_entry *e, tg_error *err)
{
    TG_LOCKED(&z->lock);
    const zip_entry *found = tg_zip_dir_find(&z->dir, key);
    if (found == NULL)
        return tg_fail(err, TG_NOT_FOUND, "no key '%s'", key);
    *e = *found;
    return TG_OK;
}

static tg_status zip_get_into(tg_store *s, const char *key, tg_range range, void *dst,
                              size_t cap, size_t *n, uint64_t *total, const tg_cancel *cancel,
                              tg_error *err)
{
    zip_store *z = (zip_store *)s;
    zip_entry e;

    TG_TRY(find(z, key, &e, err));
    uint64_t limit = e.added ? INT64_MAX : z->old.at;
    TG_TRY(tg_zip_read(z, &e, key, limit, range, dst, cap, n, cancel, err));
    if (total != NULL)
        *total = e.size;
    return TG_OK;
}

static tg_status zip_size(tg_store *s, const char *key, uint64_t *bytes,
                          const tg_cancel *cancel, tg_error *err)
{
    zip_entry e;

    (void)cancel;
    TG_TRY(find((zip_store *)s, key, &e, err));
    *bytes = e.size;
    return TG_OK;
}

/* --- Listing ------------------------------------------------------------------------ */

/* The first name below prefix after `after` ("" for the first), cut behind its next '/'; both
 * with the prefix in front. False at the end. Names stay where they are in memory. */
static tg_status next_name(zip_store *z, const char *prefix, char *after, bool *more,
                           tg_error *err)
{
    size_t np = strlen(prefix), n = strlen(after);

    TG_LOCKED(&z->lock);
    TG_TRY(tg_zip_dir_sort(&z->dir, err));
    uint32_t i;
    if (n == 0) {
        i = tg_zip_dir_lower_bound(&z->dir, prefix, np);
    } else if (after[n - 1] == '/') {
        after[n - 1] = '/' + 1; /* behind all that begin with it */
        i = tg_zip_dir_lower_bound(&z->dir, after, n);
    } else {
        i = tg_zip_dir_lower_bound(&z->dir, after, n + 1);
        const char *same = tg_zip_dir_sorted_name(&z->dir, i);
        i += same != NULL && strcmp(same, after) == 0;
    }
    const char *name = tg_zip_dir_sorted_name(&z->dir, i);
    *more = name != NULL && strncmp(name, prefix, np) == 0;
    if (!*more)
        return TG_OK;
    n = np + strcspn(name + np, "/");
    n += name[n] == '/';
    memcpy(after, name, n);
    after[n] = '\0';
    return TG_OK;
}

static tg_status zip_list(tg_store *s, const char *prefix, tg_list_fn fn, void *user,
                          const tg_cancel *cancel, tg_error *err)
{
    char name[TG_STORE_KEY_MAX + 2] = "";

    for (;;) {
        bool more;
        TG_TRY(tg_cancel_check(cancel, err));
        TG_TRY(next_name((zip_store *)s, prefix, name, &more, err));
        if (!more || !fn(user, name + strlen(prefix)))
            return TG_OK;
    }
}

/* --- Open ---------------------------------------------------------------------------- */

static void zip_free(tg_store *s)
{
    zip_store *z = (zip_store *)s;

    tg_fd_auto(&z->fd);
    tg_fd_auto(&z->out_fd);
    tg_arena_unmap(&z->out.block);
    tg_zip_dir_free(&z->dir);
    tg_cond_destroy(&z->idle);
    tg_mutex_destroy(&z->lock);
    for (size_t i = 0; i < TG_ZIP_PARTS; i++)
        tg_inflater_free(z->parts[i].inflater);
    tg_mutex_destroy(&z->inflating);
    tg_free(z->path);
    tg_free(z);
}

static const tg_store_ops zip_ops = {
    .name = "zip",
    .get_into = zip_get_into,
    .size = zip_size,
    .put = tg_zip_put,
    .sync = tg_zip_sync,
    .list = zip_list,
    .close = tg_zip_close,
    .free = zip_free,
};

bool tg_store_is_zip(const tg_store *s)
{
    return s->ops == &zip_ops;
}

uint64_t tg_zip_base_bytes(const tg_store *zip)
{
    return ((const zip_store *)zip)->base_bytes;
}

void tg_zip_each_key(const tg_store *zip, tg_list_fn fn, void *user)
{
    const zip_dir *d = &((const zip_store *)zip)->dir;

    for (uint32_t i = 0; i < d->n; i++)
        if (!fn(user, tg_zip_dir_name(d, tg_zip_dir_at(d, i))))
            return;
}

static tg_status zip_new(zip_store **out, const char *path, bool no_sync, tg_error *err)
{
    zip_store *z = tg_calloc(1, sizeof *z);
    TG_AUTO_PTR(tg_store) s = (tg_store *)z;

    if (z == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    tg_store_init(s, &zip_ops);
    tg_mutex_init(&z->lock);
    tg_mutex_init(&z->inflating);
    tg_cond_init(&z->idle);
    z->fd = z->out_fd = -1;
    z->no_sync = no_sync;
    z->path = tg_strdup(path);
    if (z->path == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    TG_TRY(tg_store_set_what(s, "ZIP", path, err));
    s = NULL;
    *out = z;
    return TG_OK;
}

static tg_status enter_record(void *user, const zip_central *c, tg_error *err)
{
    zip_store *z = user;
    if (c->name[c->name_len - 1] == '/') /* a directory holds nothing */
        return TG_OK;
    if (c->entry.method == ZIP_DEFLATED && c->entry.size > TG_ZIP_SMALL)
        z->base.own_bytes = TG_ZIP_PARTS * TG_INFLATER_BYTES;
    return tg_zip_dir_set(&z->dir, c->name, c->name_len, c->entry, err);
}

/* Read the directory of the file's first `size` bytes. */
static tg_status read_directory(zip_store *z, uint64_t size, tg_error *err)
{
    TG_TRY(tg_zip_find_end(z->fd, size, &z->old, err));
    TG_TRY(tg_zip_each_central(z->fd, &z->old, enter_record, z, err));
    z->base_bytes = size;
    return tg_zip_dir_check_overlap(&z->dir, err);
}

static tg_status open_in(zip_store *z, uint64_t *size, tg_error *err)
{
    struct stat st;

    z->fd = tg_sys_open(AT_FDCWD, z->path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (z->fd < 0)
        return tg_file_fail("open", z->path, err);
    if (tg_sys_stat_fd(z->fd, &st) != 0)
        return tg_file_fail("stat", z->path, err);
    if (!S_ISREG(st.st_mode))
        return tg_fail(err, TG_INVALID, "'%s' is not a file", z->path);
    *size = (uint64_t)st.st_size;
    return TG_OK;
}

/* base_bytes UINT64_MAX: the whole file is the archive. */
static tg_status open_for_append(zip_store *z, uint64_t base_bytes, bool buffered,
                                 tg_error *err)
{
    uint64_t size = 0;

    TG_TRY(open_in(z, &size, err));
    if (base_bytes == UINT64_MAX)
        base_bytes = size;
    else if (base_bytes > size)
        return tg_fail(err, TG_CORRUPT, "'%s' has %llu bytes, and had %llu", z->path,
                       (unsigned long long)size, (unsigned long long)base_bytes);
    if (base_bytes > 0)
        TG_TRY(read_directory(z, base_bytes, err));
    if (z->old.shift != 0)
        return tg_fail(err, TG_UNSUPPORTED,
                       "'%s' has %llu bytes before the archive: it can only be read", z->path,
                       (unsigned long long)z->old.shift);
    TG_TRY(tg_zip_open_out(z, false, buffered, err));
    z->changed = base_bytes != size || size == 0;
    return tg_appender_seek(&z->out, base_bytes, err);
}

static tg_status create(zip_store *z, bool buffered, tg_error *err)
{
    uint64_t size;
    TG_TRY(tg_zip_open_out(z, true, buffered, err));
    return open_in(z, &size, err);
}

static tg_status open_as(zip_store *z, tg_store_mode mode, bool buffered, tg_error *err)
{
    struct stat st;
    uint64_t size = 0;

    if (mode == TG_STORE_READ) {
        TG_TRY(open_in(z, &size, err));
        return read_directory(z, size, err);
    }
    z->base.caps = TG_STORE_CAN_WRITE | TG_STORE_CAN_PUT_NEW;
    if (mode == TG_STORE_OPEN_OR_CREATE)
        mode =
            tg_sys_stat(AT_FDCWD, z->path, &st, 0) == 0 ? TG_STORE_READ_WRITE : TG_STORE_CREATE;
    return mode == TG_STORE_CREATE ? create(z, buffered, err)
                                   : open_for_append(z, UINT64_MAX, buffered, err);
}

static tg_status name_file(zip_store *z, tg_status st, tg_error *err)
{
    if (st != TG_OK) {
        tg_error_prefix(err, "%s", tg_store_describe(&z->base));
        tg_error_at(err, z->path, TG_NO_OFFSET);
    }
    return st;
}

tg_status tg_store_open_zip(tg_store **out, const char *path, const tg_store_options *options,
                            tg_error *err)
{
    tg_store_options o = {0};
    zip_store *z;

    if (options != NULL)
        o = *options;
    TG_TRY(zip_new(&z, path, o.no_sync, err));
    TG_AUTO_PTR(tg_store) s = &z->base;
    TG_TRY(name_file(z, open_as(z, o.mode, o.buffered, err), err));
    *out = tg_steal(s);
    return TG_OK;
}

tg_status tg_zip_reopen(tg_store **out, const char *path, uint64_t base_bytes,
                        const tg_store_options *options, tg_error *err)
{
    tg_store_options o = {0};
    zip_store *z;

    if (options != NULL)
        o = *options;
    TG_TRY(zip_new(&z, path, o.no_sync, err));
    TG_AUTO_PTR(tg_store) s = &z->base;
    z->base.caps = TG_STORE_CAN_WRITE | TG_STORE_CAN_PUT_NEW;
    TG_TRY(name_file(z, open_for_append(z, base_bytes, o.buffered, err), err));
    *out = tg_steal(s);
    return TG_OK;
}
