/* The folder of a run, and locks in it that need nothing of the file system but link() (or
 * O_EXCL where there are no links) and survive their owner's death. */
#include "region/folder.h"

#include "base/owner.h"
#include "tidegate/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAKE_TRIES 64

/* --- Crash points ----------------------------------------------------------------- */

void tg_crash_point(void)
{
    static atomic_long passed;
    static atomic_long wanted = -1;
    long n = atomic_load(&wanted);

    if (n < 0) {
        uint64_t v = 0;
        const char *text =
            getenv("TG_CRASH_AT"); /* NOLINT(concurrency-mt-unsafe): nobody sets */
        if (text != NULL && tg_parse_u64(text, &v, NULL) != TG_OK)
            v = 0;
        n = v > INT32_MAX ? 0 : (long)v;
        atomic_store(&wanted, n);
    }
    if (n > 0 && atomic_fetch_add(&passed, 1) + 1 == n)
        (void)kill(getpid(), SIGKILL);
}

/* --- The folder ------------------------------------------------------------------- */

tg_status tg_folder_fail(const tg_folder *s, const char *what, const char *name, tg_error *err)
{
    tg_status st =
        tg_fail_errno(err, "%s '%.200s%s%s'", what, s->path, name[0] == '\0' ? "" : "/", name);
    tg_error_at(err, s->path, TG_NO_OFFSET);
    return st;
}

static bool is_node(const char *dir, size_t len)
{
    static const char *const names[] = {"/zarr.json", "/.zgroup", "/.zattrs"};
    char path[4096];
    struct stat st;

    for (size_t i = 0; i < 3; i++) {
        int n = snprintf(path, sizeof path, "%.*s%s", (int)len, dir, names[i]);
        if (n > 0 && (size_t)n < sizeof path && tg_sys_stat(AT_FDCWD, path, &st, 0) == 0)
            return true;
    }
    return false;
}

/* Length of the path of the hierarchy's root that `root` lies in: parents count while they are
 * nodes. */
static size_t hierarchy(const char *root, size_t n)
{
    for (size_t at = n; at > 0;) {
        size_t up = at;
        while (up > 0 && root[up - 1] != '/')
            up--;
        while (up > 1 && root[up - 1] == '/')
            up--;
        if (up == 0 || up >= at || (up == 1 && root[0] == '/') || !is_node(root, up))
            return at;
        at = up;
    }
    return n;
}

/* "apply", and the array's place in the hierarchy: '/' becomes '-', '-' and '%' are escaped. */
static void add_name(tg_text *t, const char *inside, const char *node)
{
    const char *const parts[] = {inside, node};

    tg_text_add(t, "/apply");
    for (int p = 0; p < 2; p++) {
        const char *c = parts[p];
        while (*c == '/')
            c++;
        if (*c != '\0')
            tg_text_add(t, "-");
        for (; *c != '\0'; c++) {
            if (*c == '-' || *c == '%' || *c == ' ')
                tg_text_addf(t, "%%%02x", (unsigned)(unsigned char)*c);
            else if (*c != '/')
                tg_text_add_n(t, c, 1);
            else if (c[1] != '\0')
                tg_text_add(t, "-");
        }
    }
}

static tg_status sync_above(const char *path, tg_error *err)
{
    char parent[4096];
    const char *slash = strrchr(path, '/');
    int n =
        snprintf(parent, sizeof parent, "%.*s", slash == NULL ? 0 : (int)(slash - path), path);

    if (n < 0 || (size_t)n >= sizeof parent)
        return tg_fail(err, TG_INVALID, "path '%.200s' is too long", path);
    const char *name = slash == NULL ? "." : n == 0 ? "/" : parent;
    TG_AUTO(tg_fd) dir = tg_sys_open(AT_FDCWD, name, O_RDONLY | O_DIRECTORY, 0);
    return dir < 0 ? tg_fail_errno(err, "open '%.200s'", name) : tg_dir_sync(dir, name, err);
}

static tg_status make_folder(const tg_folder *s, const char *path, tg_error *err)
{
    if (tg_sys_mkdir(AT_FDCWD, path, 0777) == 0)
        return sync_above(path, err);
    return errno == EEXIST ? TG_OK : tg_folder_fail(s, "make folder", "", err);
}

static tg_status open_folder(tg_folder *s, bool make, tg_error *err)
{
    /* Another run that ends may remove the folder above between the two calls. */
    for (int i = 0; i < TAKE_TRIES; i++) {
        if (make) {
            TG_TRY(make_folder(s, s->parent, err));
            if (tg_sys_mkdir(AT_FDCWD, s->path, 0777) == 0)
                TG_TRY(sync_above(s->path, err));
            else if (errno == ENOENT)
                continue;
            else if (errno != EEXIST)
                return tg_folder_fail(s, "make folder", "", err);
        }
        s->dir = tg_sys_open(AT_FDCWD, s->path, O_RDONLY | O_DIRECTORY, 0);
        if (s->dir >= 0)
            return TG_OK;
        if (errno != ENOENT)
            return tg_folder_fail(s, "open folder", "", err);
        if (!make)
            break;
    }
    return tg_fail(err, TG_NOT_FOUND, "there is no folder '%.200s'", s->path);
}

tg_status tg_folder_open(tg_folder *s, const char *root, const char *node, bool make,
                         tg_error *err)
{
    TG_AUTO(tg_text) parent = {0};
    TG_AUTO(tg_text) path = {0};
    size_t n = strlen(root);

    *s = (tg_folder){.dir = -1};
    while (n > 1 && root[n - 1] == '/')
        n--;
    TG_AUTO(tg_text) inside = {0};
    size_t top = hierarchy(root, n);
    tg_text_add_n(&inside, root + top, n - top);
    tg_text_add_n(&parent, root, top);
    tg_text_add(&parent, ".tidegate");
    TG_TRY(tg_text_status(&parent, err));
    tg_text_add(&path, parent.data);
    add_name(&path, inside.data == NULL ? "" : inside.data, node);
    TG_TRY(tg_text_status(&inside, err));
    TG_TRY(tg_text_status(&path, err));
    s->parent = tg_text_steal(&parent);
    s->path = tg_text_steal(&path);
    tg_status st = open_folder(s, make, err);
    if (st != TG_OK)
        tg_folder_close(s);
    return st;
}

void tg_folder_close(tg_folder *s)
{
    if (s->dir >= 0)
        (void)tg_sys_close(s->dir); /* only read from */
    tg_free(s->path);
    tg_free(s->parent);
    *s = (tg_folder){.dir = -1};
}

tg_status tg_folder_remove(tg_folder *s, tg_error *err)
{
    /* Not empty: another process is there already. */
    if (tg_sys_unlink(AT_FDCWD, s->path, AT_REMOVEDIR) != 0 && errno != ENOENT &&
        errno != ENOTEMPTY && errno != EEXIST)
        return tg_folder_fail(s, "remove folder", "", err);
    if (tg_sys_unlink(AT_FDCWD, s->parent, AT_REMOVEDIR) != 0 && errno != ENOENT &&
        errno != ENOTEMPTY && errno != EEXIST)
        return tg_folder_fail(s, "remove the folder above", "", err);
    /* Or it is back after a power cut, and what it says of a run that had ended is old. */
    return sync_above(s->parent, err);
}

tg_status tg_folder_drop(const tg_folder *s, const char *name, tg_error *err)
{
    return tg_sys_unlink(s->dir, name, 0) == 0 || errno == ENOENT
               ? TG_OK
               : tg_folder_fail(s, "remove", name, err);
}

bool tg_folder_exists(const tg_folder *s, const char *name)
{
    struct stat st;
    return tg_sys_stat(s->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

bool tg_folder_has(const tg_folder *s, const char *prefix)
{
    DIR *dir = opendir(s->path);
    bool found = false;

    if (dir == NULL)
        return false;
    for (struct dirent *e; /* NOLINTNEXTLINE(concurrency-mt-unsafe): dir is this call's */
         !found && (e = readdir(dir)) != NULL;)
        found = strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    (void)closedir(dir); /* only read from */
    return found;
}

tg_status tg_folder_drop_all(const tg_folder *s, const char *below, const char *prefix,
                             tg_error *err)
{
    char folder[4096], name[300];
    int n = snprintf(folder, sizeof folder, "%s%s%s", s->path, below == NULL ? "" : "/",
                     below == NULL ? "" : below);
    DIR *dir = n > 0 && (size_t)n < sizeof folder ? opendir(folder) : NULL;
    tg_status st = TG_OK;

    if (dir == NULL)
        return errno == ENOENT ? TG_OK
                               : tg_folder_fail(s, "list", below == NULL ? "" : below, err);
    for (struct dirent *e; /* NOLINTNEXTLINE(concurrency-mt-unsafe): dir is this call's */
         st == TG_OK && (e = readdir(dir)) != NULL;) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 || strcmp(e->d_name, ".") == 0 ||
            strcmp(e->d_name, "..") == 0)
            continue;
        (void)snprintf(name, sizeof name, "%s%s%.255s", below == NULL ? "" : below,
                       below == NULL ? "" : "/", e->d_name);
        struct stat info;
        if (tg_sys_stat(s->dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            !S_ISDIR(info.st_mode))
            st = tg_folder_drop(s, name, err);
    }
    (void)closedir(dir); /* only read from */
    return st;
}

/* Of the folder at `path` all but itself. */
static tg_status drop_below(const tg_folder *s, const char *path, tg_error *err)
{
    DIR *dir = opendir(path);
    tg_status st = TG_OK;

    if (dir == NULL)
        return errno == ENOENT ? TG_OK : tg_folder_fail(s, "list a folder of", "", err);
    for (struct dirent *e; /* NOLINTNEXTLINE(concurrency-mt-unsafe): dir is this call's */
         st == TG_OK && (e = readdir(dir)) != NULL;) {
        TG_AUTO(tg_text) below = {0};
        struct stat info;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        tg_text_addf(&below, "%s/%s", path, e->d_name);
        st = tg_text_status(&below, err);
        if (st != TG_OK || tg_sys_stat(AT_FDCWD, below.data, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        const bool is_dir = S_ISDIR(info.st_mode);
        if (is_dir)
            st = drop_below(s, below.data, err);
        if (st == TG_OK &&
            tg_sys_unlink(AT_FDCWD, below.data, is_dir ? AT_REMOVEDIR : 0) != 0 &&
            errno != ENOENT)
            st = tg_folder_fail(s, "remove in", "", err);
    }
    (void)closedir(dir); /* only read from */
    return st;
}

tg_status tg_folder_drop_tree(const tg_folder *s, const char *name, tg_error *err)
{
    TG_AUTO(tg_text) path = {0};

    tg_text_addf(&path, "%s/%s", s->path, name);
    TG_TRY(tg_text_status(&path, err));
    TG_TRY(drop_below(s, path.data, err));
    return tg_sys_unlink(s->dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT
               ? TG_OK
               : tg_folder_fail(s, "remove", name, err);
}

/* --- Locks ------------------------------------------------------------------------ */

/* The lock under a name of its own, from where it is linked. */
static tg_status write_own(const tg_folder *s, const char *own, const tg_owner *self,
                           tg_error *err)
{
    char line[TG_OWNER_LINE];
    const size_t n = tg_owner_line(self, line);
    TG_AUTO(tg_fd) fd = tg_sys_open(s->dir, own, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    if (fd < 0)
        return tg_folder_fail(s, "make", own, err);
    TG_TRY(tg_fd_write_at(fd, line, n, 0, own, err));
    return tg_fd_close(&fd, own, err);
}

/* Of several who find a stale lock one moves it; one who moved a lock that was new by then puts
 * it back. */
static tg_status remove_stale(const tg_folder *s, const char *name, const char *aside,
                              const char *seen, tg_error *err)
{
    char text[TG_OWNER_LINE];

    if (tg_sys_rename(s->dir, name, s->dir, aside) != 0)
        return errno == ENOENT ? TG_OK : tg_folder_fail(s, "move", name, err);
    tg_owner_read(s->dir, aside, text);
    if (strcmp(text, seen) != 0)
        (void)tg_sys_link(s->dir, aside, s->dir, name);
    return tg_folder_drop(s, aside, err);
}

/* *taken: it is ours. Links are refused by some file systems: there a rename that replaces
 * nothing does the same. */
static tg_status try_lock(const tg_folder *s, const char *name, const char *own, bool *taken,
                          tg_error *err)
{
    *taken = tg_sys_link(s->dir, own, s->dir, name) == 0;
    if (*taken || errno == EEXIST)
        return TG_OK;
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK)
        *taken = tg_sys_rename_new(s->dir, own, s->dir, name) == 0;
    return *taken || errno == EEXIST ? TG_OK : tg_folder_fail(s, "make", name, err);
}

static tg_status take_lock(const tg_folder *s, const char *name, const char *own,
                           const tg_owner *self, tg_error *err)
{
    char text[TG_OWNER_LINE], aside[320];
    tg_owner other;
    bool taken;

    for (int i = 0; i < TAKE_TRIES; i++) {
        TG_TRY(try_lock(s, name, own, &taken, err));
        if (taken)
            return TG_OK;
        tg_owner_read(s->dir, name, text);
        /* A lock appears whole: one that is empty lost its line in a power cut. */
        if (text[0] == '\0' && !tg_folder_exists(s, name))
            continue; /* gone by now */
        if (tg_owner_parse(text, &other) && tg_owner_alive(&other, self)) {
            const bool here = strcmp(other.host, self->host) == 0;
            return tg_fail(err, TG_BUSY,
                           "process %" PRIu64 "%s%s is at work here ('%.200s/%s')", other.pid,
                           here ? "" : " on ", here ? "" : other.host, s->path, name);
        }
        (void)snprintf(aside, sizeof aside, "%.200s.stale.%ld", name, (long)getpid());
        TG_TRY(remove_stale(s, name, aside, text, err));
    }
    return tg_fail(err, TG_BUSY, "the lock '%.200s/%s' changes hands all the time", s->path,
                   name);
}

/* Is NAME.own.PID.N of a process that is gone? One that was killed early has no line in it. */
static bool own_is_stale(const tg_folder *s, const char *own, const char *pid,
                         const tg_owner *self)
{
    char text[TG_OWNER_LINE], number[24];
    const size_t n = strcspn(pid, ".");
    tg_owner o;

    tg_owner_read(s->dir, own, text);
    if (tg_owner_parse(text, &o))
        return !tg_owner_alive(&o, self);
    (void)snprintf(number, sizeof number, "%.*s", (int)(n < sizeof number ? n : 0), pid);
    return tg_parse_u64(number, &o.pid, NULL) == TG_OK && o.pid > 0 &&
           kill((pid_t)o.pid, 0) != 0 && errno == ESRCH;
}

/* What those left who were killed while they took the lock, which is ours now. */
static void drop_stale_owns(const tg_folder *s, const char *name, const tg_owner *self)
{
    char prefix[256];
    const int n = snprintf(prefix, sizeof prefix, "%.200s.own.", name);
    DIR *dir = opendir(s->path);

    if (dir == NULL)
        return;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): dir is this call's */
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (strncmp(e->d_name, prefix, (size_t)n) == 0 &&
            own_is_stale(s, e->d_name, e->d_name + n, self))
            (void)tg_sys_unlink(s->dir, e->d_name, 0);
    (void)closedir(dir); /* only read from */
}

tg_status tg_folder_lock(const tg_folder *s, const char *name, tg_error *err)
{
    static atomic_uint serial;
    char own[320];
    tg_owner self;

    tg_owner_self(&self);
    (void)snprintf(own, sizeof own, "%.200s.own.%ld.%u", name, (long)getpid(),
                   atomic_fetch_add(&serial, 1));
    tg_status st = write_own(s, own, &self, err);
    if (st == TG_OK)
        st = take_lock(s, name, own, &self, err);
    (void)tg_sys_unlink(s->dir, own, 0); /* what matters is the other name */
    if (st == TG_OK)
        drop_stale_owns(s, name, &self);
    return st;
}

void tg_folder_unlock(const tg_folder *s, const char *name)
{
    (void)tg_sys_unlink(s->dir, name, 0); /* a lock that stays is stale */
}

/* "lock-3" of "lock-3.own.17.0"; not of those that this process makes while it looks. */
static bool lock_of(const char *file, char *name, size_t cap)
{
    const size_t n = strcspn(file, ".");
    char own[40];

    (void)snprintf(own, sizeof own, ".own.%ld.", (long)getpid());
    (void)snprintf(name, cap, "%.*s", (int)n, file);
    return strncmp(name, "lock-", 5) == 0 && strncmp(file + n, own, strlen(own)) != 0;
}

/* A lock that can be taken has no live owner: it is taken, which removes what its owner left,
 * and given back. */
tg_status tg_folder_check_idle(const tg_folder *s, const char *mine, tg_error *err)
{
    DIR *dir = opendir(s->path);
    tg_status first = TG_OK;
    char name[256];

    if (dir == NULL)
        return tg_folder_fail(s, "list", "", err);
    for (struct dirent *e; /* NOLINTNEXTLINE(concurrency-mt-unsafe): dir is this call's */
         (e = readdir(dir)) != NULL;) {
        if (!lock_of(e->d_name, name, sizeof name) || strcmp(name, mine) == 0)
            continue;
        tg_status st = tg_folder_lock(s, name, first == TG_OK ? err : NULL);
        if (st == TG_OK)
            tg_folder_unlock(s, name);
        else if (first == TG_OK)
            first = st;
    }
    (void)closedir(dir); /* only read from */
    return first;
}
