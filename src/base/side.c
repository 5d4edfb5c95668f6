/* base/side.c - one writing job a store. */
#include "base/side.h"

#include "base/owner.h"
#include "tidegate/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOCK_NAME  "lock"
#define TAKE_TRIES 16

/* --- The folder --------------------------------------------------------------- */

tg_status tg_side_path(const char *root, char **path, tg_error *err)
{
    TG_AUTO(tg_text) t = {0};
    size_t n = strlen(root);

    while (n > 1 && root[n - 1] == '/')
        n--;
    tg_text_add_n(&t, root, n);
    tg_text_add(&t, ".tidegate");
    TG_TRY(tg_text_status(&t, err));
    *path = tg_text_steal(&t);
    return TG_OK;
}

static tg_status path_failure(const tg_side *side, const char *what, const char *name,
                              tg_error *err)
{
    tg_status st =
        tg_fail_errno(err, "%s '%s%s%s'", what, side->path, name[0] == '\0' ? "" : "/", name);
    tg_error_at(err, side->path, TG_NO_OFFSET);
    return st;
}

/* The folder that holds ours, whose entry of it is made durable. */
static tg_status sync_parent(const tg_side *side, tg_error *err)
{
    char parent[4096];
    const char *slash = strrchr(side->path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - side->path);

    if (n >= sizeof parent)
        return tg_fail(err, TG_INVALID, "path '%s' is too long", side->path);
    memcpy(parent, side->path, n);
    parent[n] = '\0';
    const char *name = slash == NULL ? "." : n == 0 ? "/" : parent;
    TG_AUTO(tg_fd) dir = tg_sys_open(AT_FDCWD, name, O_RDONLY | O_DIRECTORY, 0);
    return dir < 0 ? path_failure(side, "open the folder of", "", err)
                   : tg_dir_sync(dir, name, err);
}

static tg_status open_folder(tg_side *side, tg_error *err)
{
    if (tg_sys_mkdir(AT_FDCWD, side->path, 0777) == 0)
        side->made = true;
    else if (errno != EEXIST)
        return path_failure(side, "make folder", "", err);
    side->dir = tg_sys_open(AT_FDCWD, side->path, O_RDONLY | O_DIRECTORY, 0);
    if (side->dir < 0)
        return path_failure(side, "open folder", "", err);
    return side->made ? sync_parent(side, err) : TG_OK;
}

/* --- The lock ------------------------------------------------------------------- */

static tg_status write_lock(const tg_side *side, int fd, const tg_owner *self, tg_error *err)
{
    char line[TG_OWNER_LINE];
    size_t n = tg_owner_line(self, line);

    for (const char *at = line; n > 0;) {
        ssize_t done = tg_sys_write(fd, at, n);
        if (done <= 0) {
            errno = done == 0 ? ENOSPC : errno; /* took nothing and said nothing: full */
            return path_failure(side, "write", LOCK_NAME, err);
        }
        at += done;
        n -= (size_t)done;
    }
    return TG_OK;
}

/* Move a stale lock out of the way. Of several who find it one moves it; one who moved a lock
 * that was new by then puts it back. */
static tg_status remove_stale(const tg_side *side, const char *seen, tg_error *err)
{
    char aside[64], text[TG_OWNER_LINE];

    (void)snprintf(aside, sizeof aside, "lock.stale.%ld", (long)getpid());
    if (tg_sys_rename(side->dir, LOCK_NAME, side->dir, aside) != 0)
        return errno == ENOENT ? TG_OK : path_failure(side, "move", LOCK_NAME, err);
    tg_owner_read(side->dir, aside, text);
    if (strcmp(text, seen) != 0)
        (void)tg_sys_link(side->dir, aside, side->dir, LOCK_NAME);
    if (tg_sys_unlink(side->dir, aside, 0) != 0)
        return path_failure(side, "remove", aside, err);
    return TG_OK;
}

static tg_status try_lock(tg_side *side, const tg_owner *self, tg_error *err)
{
    char text[TG_OWNER_LINE];
    tg_owner other;
    int fd = tg_sys_open(side->dir, LOCK_NAME, O_WRONLY | O_CREAT | O_EXCL, 0666);

    if (fd >= 0) {
        tg_status st = write_lock(side, fd, self, err);
        if (tg_sys_close(fd) != 0 && st == TG_OK)
            st = path_failure(side, "close", LOCK_NAME, err);
        side->locked = st == TG_OK;
        if (st != TG_OK)
            (void)tg_sys_unlink(side->dir, LOCK_NAME, 0);
        return st;
    }
    if (errno != EEXIST)
        return path_failure(side, "make", LOCK_NAME, err);
    tg_owner_read(side->dir, LOCK_NAME, text);
    /* An empty one is being written, or its writer died at it: it cannot be told apart for the
     * moment that takes, so it counts as stale. */
    if (tg_owner_parse(text, &other) && tg_owner_alive(&other, self))
        return tg_fail(err, TG_BUSY, "in use by process %" PRIu64 "%s%s ('%s/%s')", other.pid,
                       strcmp(other.host, self->host) == 0 ? "" : " on ",
                       strcmp(other.host, self->host) == 0 ? "" : other.host, side->path,
                       LOCK_NAME);
    return remove_stale(side, text, err);
}

tg_status tg_side_open(tg_side *side, const char *root, tg_error *err)
{
    tg_owner self;

    *side = (tg_side){.dir = -1};
    TG_TRY(tg_side_path(root, &side->path, err));
    tg_status st = open_folder(side, err);
    tg_owner_self(&self);
    for (int i = 0; st == TG_OK && !side->locked && i < TAKE_TRIES; i++)
        st = try_lock(side, &self, err);
    if (st == TG_OK && !side->locked)
        st = tg_fail(err, TG_BUSY, "the lock in '%s' changes hands all the time", side->path);
    if (st != TG_OK)
        tg_side_free(side, true);
    return st;
}

bool tg_side_has(const tg_side *side, const char *name)
{
    struct stat st;
    return tg_sys_stat(side->dir, name, &st, 0) == 0;
}

tg_status tg_side_remove(const tg_side *side, const char *name, tg_error *err)
{
    if (tg_sys_unlink(side->dir, name, 0) != 0 && errno != ENOENT)
        return path_failure(side, "remove", name, err);
    return TG_OK;
}

static bool begins_with_one(const char *name, const char *const *prefixes)
{
    for (; *prefixes != NULL; prefixes++)
        if (strncmp(name, *prefixes, strlen(*prefixes)) == 0)
            return true;
    return false;
}

tg_status tg_side_clear(const tg_side *side, const char *const *prefixes, tg_error *err)
{
    DIR *dir = opendir(side->path);
    tg_status st = TG_OK;

    if (dir == NULL)
        return path_failure(side, "list", "", err);
    for (struct dirent *e;
         st == TG_OK &&
         (e = readdir(dir)) != NULL;) /* NOLINT(concurrency-mt-unsafe): dir is this call's */
        if (begins_with_one(e->d_name, prefixes))
            st = tg_side_remove(side, e->d_name, err);
    (void)closedir(dir); /* only read from */
    return st;
}

tg_status tg_side_close(tg_side *side, tg_error *err)
{
    tg_status st = TG_OK;

    if (side->locked)
        st = tg_side_remove(side, LOCK_NAME, err);
    side->locked = false;
    if (side->dir >= 0 && tg_sys_unlink(AT_FDCWD, side->path, AT_REMOVEDIR) != 0 &&
        errno != ENOTEMPTY && errno != EEXIST && st == TG_OK)
        st = path_failure(side, "remove folder", "", err);
    tg_side_free(side, false);
    return st;
}

void tg_side_free(tg_side *side, bool unlock)
{
    if (side->dir >= 0 && unlock && side->locked)
        (void)tg_sys_unlink(side->dir, LOCK_NAME, 0); /* abandoned: its failure was reported */
    if (side->dir >= 0 && unlock && side->made)
        (void)tg_sys_unlink(AT_FDCWD, side->path, AT_REMOVEDIR);
    if (side->dir >= 0)
        (void)tg_sys_close(side->dir); /* only read from */
    tg_free(side->path);
    *side = (tg_side){.dir = -1};
}
