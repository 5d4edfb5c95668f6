/* ims/side.c - names and locks in the folder beside the results. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* F_OFD_SETLK, fdopendir */
#endif
#include "ims/side.h"

#include "base/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define DEEPEST 8

void tg_part_name(char dst[TG_PART_NAME_BYTES], uint32_t part, uint32_t n_parts,
                  const char *ending)
{
    (void)snprintf(dst, TG_PART_NAME_BYTES, "part-%u-of-%u%s", part, n_parts, ending);
}

static tg_status fault(const tg_ims_side *s, const char *what, const char *name, tg_error *err)
{
    return tg_fail_errno(err, "%s '%s/%s'", what, s->path, name);
}

tg_status tg_ims_side_open(tg_ims_side *s, const char *path, tg_error *err)
{
    *s = (tg_ims_side){-1, path};
    if (tg_sys_mkdir(AT_FDCWD, path, 0777) != 0 && errno != EEXIST)
        return tg_fail_errno(err, "make '%s'", path);
    s->dir = tg_sys_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (s->dir < 0)
        return tg_fail_errno(err, "open '%s'", path);
    return TG_OK;
}

void tg_ims_side_close(tg_ims_side *s)
{
    tg_fd_auto(&s->dir);
    s->dir = -1;
}

bool tg_ims_side_has(const tg_ims_side *s, const char *name)
{
    struct stat st;
    return tg_sys_stat(s->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

tg_status tg_ims_side_remove(const tg_ims_side *s, const char *name, tg_error *err)
{
    if (tg_sys_unlink(s->dir, name, 0) != 0 && errno != ENOENT)
        return fault(s, "remove", name, err);
    return TG_OK;
}

/* --- Lists ------------------------------------------------------------------------------ */

static void close_list(DIR **d)
{
    if (*d != NULL)
        (void)closedir(*d);
}

static DIR *open_list(int dir, const char *name)
{
    int fd = tg_sys_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return NULL;
    DIR *d = fdopendir(fd);
    if (d == NULL)
        (void)tg_sys_close(fd);
    return d;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static tg_status remove_below(const tg_ims_side *s, int dir, const char *name, int depth,
                              tg_error *err)
{
    struct stat st;
    if (tg_sys_stat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? TG_OK : fault(s, "look at", name, err);
    if (!S_ISDIR(st.st_mode)) {
        if (tg_sys_unlink(dir, name, 0) != 0 && errno != ENOENT)
            return fault(s, "remove", name, err);
        return TG_OK;
    }
    if (depth == DEEPEST)
        return tg_fail(err, TG_UNSUPPORTED, "'%s/%s': more than %d folders deep", s->path, name,
                       DEEPEST);
    __attribute__((cleanup(close_list))) DIR *d = open_list(dir, name);
    if (d == NULL)
        return errno == ENOENT ? TG_OK : fault(s, "list", name, err);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this DIR */
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (!is_dots(e->d_name))
            TG_TRY(remove_below(s, dirfd(d), e->d_name, depth + 1, err));
    if (tg_sys_unlink(dir, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        return fault(s, "remove", name, err);
    return TG_OK;
}

tg_status tg_ims_side_remove_all(const tg_ims_side *s, const char *name, tg_error *err)
{
    return remove_below(s, s->dir, name, 0, err);
}

static bool is_dead(const char *name)
{
    long pid;
    return sscanf(name, ".tg-tmp-%ld-", &pid) == 1 && /* NOLINT: a name of ours */
           pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

tg_status tg_ims_side_remove_dead(const tg_ims_side *s, tg_error *err)
{
    __attribute__((cleanup(close_list))) DIR *d = open_list(s->dir, ".");
    if (d == NULL)
        return fault(s, "list", ".", err);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this DIR */
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (is_dead(e->d_name))
            TG_TRY(remove_below(s, s->dir, e->d_name, 0, err));
    return TG_OK;
}

/* "part-3-of-8.journal" -> 8; 0: another name. */
static uint32_t parts_of(const char *name)
{
    unsigned part, n;
    char again[TG_PART_NAME_BYTES];
    if (sscanf(name, "part-%u-of-%u.journal", &part, &n) != 2) /* NOLINT: compared below */
        return 0;
    tg_part_name(again, part, n, ".journal");
    return strcmp(name, again) == 0 ? n : 0;
}

tg_status tg_ims_side_count_parts(const tg_ims_side *s, uint32_t *n_parts, tg_error *err)
{
    uint32_t n = 0;
    __attribute__((cleanup(close_list))) DIR *d = open_list(s->dir, ".");
    if (d == NULL)
        return fault(s, "list", ".", err);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this DIR */
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        uint32_t k = parts_of(e->d_name);
        if (k != 0 && n != 0 && k != n)
            return tg_fail(err, TG_INVALID,
                           "'%s' holds parts of %u and of %u: say which by --part 0/n", s->path,
                           n < k ? n : k, n < k ? k : n);
        n = k != 0 ? k : n;
    }
    if (n == 0)
        return tg_fail(err, TG_NOT_FOUND, "'%s' holds no part", s->path);
    *n_parts = n;
    return TG_OK;
}

/* --- Locks ------------------------------------------------------------------------------- */

tg_status tg_ims_side_lock(const tg_ims_side *s, const char *name, int *fd, tg_error *err)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int file = tg_sys_open(s->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);

    if (file < 0)
        return fault(s, "make", name, err);
    if (fcntl(file, F_OFD_SETLK, &whole) == 0) {
        *fd = file;
        return TG_OK;
    }
    int why = errno;
    (void)tg_sys_close(file);
    if (why == EAGAIN || why == EACCES)
        return tg_fail(err, TG_BUSY, "'%s/%s': another process is at it", s->path, name);
    errno = why;
    return fault(s, "lock", name, err);
}
