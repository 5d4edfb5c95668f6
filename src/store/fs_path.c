/* store/fs_path.c - from keys to directories: opened below the root and never
 * outside it, made when a value needs them, and made durable once. */
#include "base/clock.h"
#include "store/fs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Reading: what cannot be a file here is no key. */
static bool means_no_key(int e)
{
    return e == ENOENT || e == ENOTDIR || e == EISDIR || e == ENAMETOOLONG;
}

tg_status tg_fs_open_value(fs_store *fs, const char *key, int *fd, struct stat *st,
                           tg_error *err)
{
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    TG_AUTO(tg_fd) f = tg_sys_open_beneath(fs->dir, key, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

    if (f < 0 && means_no_key(errno))
        return tg_fail(err, TG_NOT_FOUND, "no key '%s'", key);
    if (f < 0)
        return tg_file_fail("open", key, err);
    if (tg_sys_stat_fd(f, st) != 0)
        return tg_file_fail("stat", key, err);
    if (S_ISDIR(st->st_mode))
        return tg_fail(err, TG_NOT_FOUND, "no key '%s'", key);
    if (!S_ISREG(st->st_mode))
        return tg_fail(err, TG_CORRUPT, "'%s' is not a regular file", key);
    *fd = f;
    f = -1;
    return TG_OK;
}

/* --- Which directories are durable ---------------------------------------- */

static size_t known_slot(const char *path, size_t n)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)path[i]) * 1099511628211u;
    return (size_t)(h >> 32) % FS_KNOWN_DIRS;
}

static bool is_known(fs_store *fs, const char *path, size_t n)
{
    TG_LOCKED(&fs->lock);
    const char *slot = fs->known[known_slot(path, n)];
    return n < FS_KNOWN_BYTES && strncmp(slot, path, n) == 0 && slot[n] == '\0';
}

static void set_known(fs_store *fs, const char *path, size_t n, bool known)
{
    if (n >= FS_KNOWN_BYTES)
        return; /* synced each time */
    TG_LOCKED(&fs->lock);
    char *slot = fs->known[known_slot(path, n)];
    if (known) {
        memcpy(slot, path, n);
        slot[n] = '\0';
    } else if (strncmp(slot, path, n) == 0 && slot[n] == '\0') {
        slot[0] = '\0';
    }
}

/* Open the directory whose key is the first n bytes of path; 0: the root. */
static int open_dir(fs_store *fs, const char *path, size_t n, char *room)
{
    memcpy(room, n == 0 ? "." : path, n == 0 ? 1 : n);
    room[n == 0 ? 1 : n] = '\0';
    return tg_sys_open_beneath(fs->dir, room, O_RDONLY | O_DIRECTORY, 0);
}

static tg_status sync_dir(fs_store *fs, const char *key, size_t n, tg_error *err)
{
    char path[TG_STORE_KEY_MAX + 1];
    TG_AUTO(tg_fd) dir = open_dir(fs, key, n, path);
    return dir < 0 ? tg_file_fail("open directory", path, err) : tg_dir_sync(dir, path, err);
}

static size_t parent_len(const char *key, size_t n)
{
    while (n > 0 && key[n - 1] != '/')
        n--;
    return n == 0 ? 0 : n - 1;
}

tg_status tg_fs_sync_entry(fs_store *fs, const char *key, int dir, tg_error *err)
{
    size_t end = parent_len(key, strlen(key));

    /* From the top: an entry is reachable only if those above it are there. */
    for (size_t n = 1; n <= end; n++) {
        if (key[n] != '/' || is_known(fs, key, n))
            continue;
        TG_TRY(sync_dir(fs, key, parent_len(key, n), err));
        set_known(fs, key, n, true);
    }
#if TG_PLANT == 1
    return (void)dir, TG_OK;
#endif
    return tg_dir_sync(dir, key, err);
}

/* --- Directories ----------------------------------------------------------- */

/* A put that a file or a directory is in the way of. */
static tg_status in_the_way(const char *doing, const char *key, tg_error *err)
{
    if (errno == ENOTDIR || errno == EEXIST)
        return tg_fail(err, TG_INVALID, "'%s' would lie below another value", key);
    if (errno == EISDIR || errno == ENOTEMPTY)
        return tg_fail(err, TG_INVALID, "'%s' is the prefix of other values", key);
    if (errno == ENAMETOOLONG)
        return tg_fail(err, TG_INVALID, "a part of '%s' is too long for the file system", key);
    return tg_file_fail(doing, key, err);
}

static tg_status make_dirs(fs_store *fs, const char *key, size_t end, tg_error *err)
{
    char path[TG_STORE_KEY_MAX + 1];

    for (size_t n = 1; n <= end; n++) {
        if (key[n] != '/')
            continue;
        size_t up = parent_len(key, n);
        TG_AUTO(tg_fd) dir = open_dir(fs, key, up, path);
        if (dir < 0)
            return in_the_way("open directory", path, err);
        size_t leaf = up == 0 ? 0 : up + 1;
        memcpy(path, key + leaf, n - leaf);
        path[n - leaf] = '\0';
        if (tg_sys_mkdir(dir, path, 0777) == 0)
            set_known(fs, key, n, false);
        else if (errno != EEXIST)
            return in_the_way("make directory for", key, err);
    }
    return TG_OK;
}

tg_status tg_fs_open_parent(fs_store *fs, const char *key, bool make, int *dir,
                            const char **leaf, tg_error *err)
{
    char path[TG_STORE_KEY_MAX + 1];
    size_t end = parent_len(key, strlen(key));
    int fd = open_dir(fs, key, end, path);

    if (fd < 0 && errno == ENOENT && make) {
        TG_TRY(make_dirs(fs, key, end, err));
        fd = open_dir(fs, key, end, path);
    }
    if (fd < 0 && !make && means_no_key(errno))
        return tg_fail(err, TG_NOT_FOUND, "no key '%s'", key);
    if (fd < 0)
        return in_the_way("open the directory of", key, err);
    *dir = fd;
    *leaf = key + (end == 0 ? 0 : end + 1);
    return TG_OK;
}

/* --- Temporaries ----------------------------------------------------------- */

void tg_fs_tmp_name(fs_store *fs, char *dst)
{
    /* The pid tells a cleaner whose it was; the time, that it is not an earlier process's. */
    (void)snprintf(dst, FS_TMP_BYTES, FS_TMP_PREFIX "%ld-%llx", (long)getpid(),
                   (unsigned long long)atomic_fetch_add(&fs->serial, 1));
}

tg_status tg_fs_create_tmp(fs_store *fs, int dir, const char *key, char *name, int *fd,
                           tg_error *err)
{
    for (int tries = 0;; tries++) {
        tg_fs_tmp_name(fs, name);
        *fd = tg_sys_open(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        if (*fd >= 0)
            return TG_OK;
        if (errno != EEXIST || tries == 16)
            return in_the_way("create a file for", key, err);
    }
}

/* Where the file system cannot rename without replacing: a second name, then not the first. */
static tg_status publish_by_link(int dir, const char *tmp, const char *leaf, const char *key,
                                 tg_error *err)
{
    if (tg_sys_link(dir, tmp, dir, leaf) != 0)
        return errno == EEXIST ? tg_fail(err, TG_EXISTS, "'%s' is there already", key)
                               : tg_file_fail("link", key, err);
    (void)tg_sys_unlink(dir, tmp, 0); /* a stray name of the same bytes, which no list shows */
    return TG_OK;
}

tg_status tg_fs_publish(int dir, const char *tmp, const char *leaf, bool exclusive,
                        const char *key, tg_error *err)
{
    if (!exclusive)
        return tg_sys_rename(dir, tmp, dir, leaf) == 0 ? TG_OK
                                                       : in_the_way("rename to", key, err);
    if (tg_sys_rename_new(dir, tmp, dir, leaf) == 0)
        return TG_OK;
    if (errno == EEXIST)
        return tg_fail(err, TG_EXISTS, "'%s' is there already", key);
    if (errno == EINVAL || errno == ENOSYS)
        return publish_by_link(dir, tmp, leaf, key, err);
    return tg_file_fail("rename to", key, err);
}
