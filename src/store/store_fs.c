/* store/store_fs.c - a store in a directory: one file per key, below a root
 * that no key, and no symbolic link on its way, leads out of
 * (docs/formats/store-directory.md). */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* d_type of readdir() */
#endif
#include "base/clock.h"
#include "store/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static tg_status read_value(const tg_store *s, int fd, void *dst, size_t len, uint64_t offset,
                            const char *key, tg_error *err)
{
    return (((const fs_store *)s)->buffered ? tg_fd_read_at : tg_file_read)(fd, dst, len,
                                                                            offset, key, err);
}

static tg_status fs_get_into(tg_store *s, const char *key, tg_range range, void *dst,
                             size_t cap, size_t *n, uint64_t *total, const tg_cancel *cancel,
                             tg_error *err)
{
    TG_AUTO(tg_fd) fd = -1;
    struct stat st;
    uint64_t offset, len;

    (void)cancel;
    TG_TRY(tg_fs_open_value((fs_store *)s, key, &fd, &st, err));
    TG_TRY(tg_range_resolve(range, (uint64_t)st.st_size, &offset, &len, err));
    if (len > cap) {
        *n = len > SIZE_MAX ? SIZE_MAX : (size_t)len;
        return tg_fail(err, TG_OVER_BUDGET, "'%s' has %llu bytes to read, room for %zu", key,
                       (unsigned long long)len, cap);
    }
    TG_TRY(read_value(s, fd, dst, (size_t)len, offset, key, err));
    *n = (size_t)len;
    if (total != NULL)
        *total = (uint64_t)st.st_size;
    return TG_OK;
}

static tg_status fs_get_ranges(tg_store *s, const char *key, const tg_span *spans, size_t n,
                               const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_fd) fd = -1;
    struct stat st;
    uint64_t offset, len;

    TG_TRY(tg_fs_open_value((fs_store *)s, key, &fd, &st, err));
    for (size_t i = 0; i < n; i++) {
        TG_TRY(tg_cancel_check(cancel, err));
        TG_TRY(tg_range_resolve(tg_range_at(spans[i].offset, spans[i].len),
                                (uint64_t)st.st_size, &offset, &len, err));
        TG_TRY(read_value(s, fd, spans[i].dst, spans[i].len, offset, key, err));
    }
    return TG_OK;
}

static tg_status fs_size(tg_store *s, const char *key, uint64_t *bytes, const tg_cancel *cancel,
                         tg_error *err)
{
    TG_AUTO(tg_fd) fd = -1;
    struct stat st;

    (void)cancel;
    TG_TRY(tg_fs_open_value((fs_store *)s, key, &fd, &st, err));
    *bytes = (uint64_t)st.st_size;
    return TG_OK;
}

static tg_status fs_remove(tg_store *s, const char *key, const tg_cancel *cancel, tg_error *err)
{
    fs_store *fs = (fs_store *)s;
    TG_AUTO(tg_fd) dir = -1;
    const char *leaf;

    (void)cancel;
    TG_TRY(tg_fs_open_parent(fs, key, false, &dir, &leaf, err));
    if (tg_sys_unlink(dir, leaf, 0) != 0)
        return errno == ENOENT || errno == EISDIR || errno == EPERM
                   ? tg_fail(err, TG_NOT_FOUND, "no key '%s'", key)
                   : tg_file_fail("remove", key, err);
    return fs->no_sync ? TG_OK : tg_fs_sync_entry(fs, key, dir, err);
}

/* --- Listing ------------------------------------------------------------- */

/* Names one after the other, each with its NUL, and where each begins: the whole of a directory
 * is in memory while it is sorted, name by name and no more. */
typedef struct names {
    tg_text text;
    size_t *at;
    size_t n, cap;
} names;

static void names_auto(names *l)
{
    tg_text_free(&l->text);
    tg_free(l->at);
}

static tg_status add_name(names *l, const char *name, bool is_dir, tg_error *err)
{
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 64 : l->cap * 2;
        size_t *at = tg_alloc_array(cap, sizeof *at);
        if (at == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for %zu names", cap);
        if (l->n > 0)
            memcpy(at, l->at, l->n * sizeof *at);
        tg_free(l->at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = l->text.len;
    tg_text_add(&l->text, name);
    tg_text_add_n(&l->text, is_dir ? "/" : "", is_dir ? 2 : 1); /* the NUL, too */
    return tg_text_status(&l->text, err);
}

static bool is_temporary(const char *name)
{
    static const char partial[] = ".partial"; /* of zarr-python */
    size_t n = strlen(name), p = sizeof partial - 1;
    return strncmp(name, FS_TMP_PREFIX, sizeof FS_TMP_PREFIX - 1) == 0 ||
           (n >= p && strcmp(name + n - p, partial) == 0);
}

/* File, directory, or neither: links are followed, inside the store. */
static void kind_of(fs_store *fs, const char *prefix, const struct dirent *e, bool *is_file,
                    bool *is_dir)
{
    char path[TG_STORE_KEY_MAX + 1 + sizeof e->d_name];
    size_t np = strlen(prefix);
    struct stat st;

    *is_file = e->d_type == DT_REG;
    *is_dir = e->d_type == DT_DIR;
    if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN)
        return;
    memcpy(path, prefix, np);
    memcpy(path + np, e->d_name, strlen(e->d_name) + 1);
    TG_AUTO(tg_fd) fd = tg_sys_open_beneath(fs->dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0 || tg_sys_stat_fd(fd, &st) != 0)
        return; /* a link to nowhere is no key */
    *is_file = S_ISREG(st.st_mode);
    *is_dir = S_ISDIR(st.st_mode);
}

static tg_status read_names(fs_store *fs, const char *prefix, DIR *d, names *l,
                            const tg_cancel *cancel, tg_error *err)
{
    for (;;) {
        bool is_file, is_dir;
        errno = 0;
        const struct dirent *e =
            readdir(d); /* NOLINT(concurrency-mt-unsafe): d is this call's */
        if (e == NULL)
            return errno == 0 ? TG_OK : tg_file_fail("list", prefix, err);
        if (is_temporary(e->d_name) || !tg_store_key_valid(e->d_name))
            continue;
        kind_of(fs, prefix, e, &is_file, &is_dir);
        if (is_file || is_dir)
            TG_TRY(add_name(l, e->d_name, is_dir, err));
        if (l->n % 1024 == 0)
            TG_TRY(tg_cancel_check(cancel, err));
    }
}

static tg_status read_dir(fs_store *fs, const char *prefix, names *l, const tg_cancel *cancel,
                          tg_error *err)
{
    const char *path = prefix[0] == '\0' ? "." : prefix;
    int fd = tg_sys_open_beneath(fs->dir, path, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG
                   ? TG_OK /* no keys there */
                   : tg_file_fail("list", prefix, err);
    DIR *d = fdopendir(fd);
    if (d == NULL) {
        tg_status st = tg_file_fail("list", prefix, err);
        tg_fd_auto(&fd);
        return st;
    }
    tg_status st = read_names(fs, prefix, d, l, cancel, err);
    (void)closedir(d); /* only read from */
    return st;
}

/* qsort() has no user pointer: a heap sort of the offsets, which needs no memory either. */
static void sift_down(const char *text, size_t *at, size_t root, size_t n)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= n)
            return;
        if (child + 1 < n && strcmp(text + at[child], text + at[child + 1]) < 0)
            child++;
        if (strcmp(text + at[root], text + at[child]) >= 0)
            return;
        size_t t = at[root];
        at[root] = at[child];
        at[child] = t;
        root = child;
    }
}

static void sort_names(names *l)
{
    for (size_t i = l->n / 2; i-- > 0;)
        sift_down(l->text.data, l->at, i, l->n);
    for (size_t end = l->n; end-- > 1;) {
        size_t t = l->at[0];
        l->at[0] = l->at[end];
        l->at[end] = t;
        sift_down(l->text.data, l->at, 0, end);
    }
}

static tg_status fs_list(tg_store *s, const char *prefix, tg_list_fn fn, void *user,
                         const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(names) l = {0};

    TG_TRY(read_dir((fs_store *)s, prefix, &l, cancel, err));
    sort_names(&l);
    for (size_t i = 0; i < l.n; i++) {
        if (!fn(user, l.text.data + l.at[i]))
            break;
    }
    return TG_OK;
}

/* --- Open and close -------------------------------------------------------- */

static tg_status fs_close(tg_store *s, tg_error *err)
{
    fs_store *fs = (fs_store *)s;
    return fs->no_sync ? TG_OK : tg_fs_sync(s, NULL, err);
}

static void fs_free(tg_store *s)
{
    fs_store *fs = (fs_store *)s;

    tg_fs_pending_drop(&fs->pending);
    for (size_t i = 0; i < fs->n_staging; i++)
        tg_arena_unmap(&fs->staging[i]);
    tg_fd_auto(&fs->dir);
    tg_cond_destroy(&fs->idle);
    tg_mutex_destroy(&fs->lock);
    tg_free(fs->root);
    tg_free(fs);
}

static const tg_store_ops fs_ops = {
    .name = "directory",
    .get_into = fs_get_into,
    .get_ranges = fs_get_ranges,
    .size = fs_size,
    .put = tg_fs_put,
    .sync = tg_fs_sync,
    .remove = fs_remove,
    .list = fs_list,
    .begin = tg_fs_begin,
    .close = fs_close,
    .free = fs_free,
};

/* Make the root, and its entry durable. */
static tg_status make_root(const char *root, tg_store_mode mode, bool sync, tg_error *err)
{
    if (tg_sys_mkdir(AT_FDCWD, root, 0777) != 0)
        return errno == EEXIST && mode == TG_STORE_OPEN_OR_CREATE
                   ? TG_OK
                   : tg_file_fail("make directory", root, err);
    return sync ? tg_file_sync_entry(root, err) : TG_OK;
}

static tg_status open_root(fs_store *fs, const char *root, tg_store_mode mode, tg_error *err)
{
    if (mode == TG_STORE_CREATE || mode == TG_STORE_OPEN_OR_CREATE)
        TG_TRY(make_root(root, mode, !fs->no_sync, err));
    fs->dir = tg_sys_open(AT_FDCWD, root, O_RDONLY | O_DIRECTORY, 0);
    if (fs->dir < 0)
        return tg_file_fail("open directory", root, err);
    fs->root = tg_strdup(root);
    if (fs->root == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    fs->base.dir = fs->dir;
    fs->base.path = fs->root;
    return tg_store_set_what(&fs->base, "directory", root, err);
}

tg_status tg_store_open_fs(tg_store **out, const char *root, const tg_store_options *options,
                           tg_error *err)
{
    fs_store *fs = tg_calloc(1, sizeof *fs);
    TG_AUTO_PTR(tg_store) s = (tg_store *)fs;
    tg_store_mode mode = options == NULL ? TG_STORE_READ : options->mode;

    if (fs == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    tg_store_init(s, &fs_ops);
    tg_mutex_init(&fs->lock);
    tg_cond_init(&fs->idle);
    fs->dir = -1;
    fs->buffered = options != NULL && options->buffered;
    fs->no_sync = options != NULL && options->no_sync;
    atomic_init(&fs->serial, (uint64_t)tg_clock_utc_ns());
    s->caps = TG_STORE_IS_LOCAL;
    if (mode != TG_STORE_READ)
        s->caps |= TG_STORE_CAN_WRITE | TG_STORE_CAN_REMOVE | TG_STORE_CAN_PUT_NEW |
                   TG_STORE_CAN_WRITE_AT | TG_STORE_CAN_BE_VISIBLE;
    TG_TRY(open_root(fs, root, mode, err));
    *out = tg_steal(s);
    return TG_OK;
}
