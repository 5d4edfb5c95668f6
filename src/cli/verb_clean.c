/* cli/verb_clean.c - clean: remove what dead runs left beside a store and in it. A recorder's
 * journal is not thrown away: what it holds is brought back first, as by recover. */
#define _GNU_SOURCE /* openat, fdopendir, F_OFD_GETLK */
#include "cli.h"
#include "tidegate/stream.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEEPEST 64
#define TEMPORARY                                                               \
    ".tg-tmp-" /* how the directory store begins the names of unfinished values \
                */
#define PATH_BYTES 4096

typedef struct clean_options {
    cli_common common;
    bool dry_run;
} clean_options;

static const cli_option options_table[] = {
    {"dry-run", CLI_FLAG, offsetof(clean_options, dry_run), NULL,
     "say what would be removed, and remove nothing"},
};

typedef struct cleaner {
    cli *c;
    bool dry_run;
    bool counts; /* what is removed right after */
    uint64_t removed, bytes;
} cleaner;

static void auto_closedir(DIR **d)
{
    if (*d != NULL)
        (void)closedir(*d);
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static tg_status remove_file(cleaner *k, int dir, const char *name, const struct stat *st,
                             const char *shown)
{
    char line[PATH_BYTES + 32];
    (void)snprintf(line, sizeof line, "%s%s",
                   k->dry_run && !k->counts ? "would remove " : "removed ", shown);
    if (!k->dry_run && unlinkat(dir, name, 0) != 0 && errno != ENOENT)
        return cli_fail_errno(&k->c->err, shown, "remove");
    k->removed++;
    k->bytes += (uint64_t)st->st_size;
    cli_progress_log(&k->c->progress, line);
    return TG_OK;
}

static tg_status clean_folder(cleaner *k, int parent, const char *name, const char *shown,
                              bool everything, int depth);

/* ".tg-tmp-PID-N" of a process that is no more (of this machine, as far as can be told). */
static bool is_left_over(const char *name)
{
    if (strncmp(name, TEMPORARY, sizeof TEMPORARY - 1) != 0)
        return false;
    long pid = strtol(name + sizeof TEMPORARY - 1, NULL, 10);
    return pid <= 0 || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

/* One entry: a file goes if everything does or its name is a temporary's; folders are entered,
 * links never followed. */
static tg_status clean_entry(cleaner *k, int dir, const char *name, const char *shown,
                             bool everything, int depth)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? TG_OK : cli_fail_errno(&k->c->err, shown, "look at");
    if (!S_ISDIR(st.st_mode))
        return everything || is_left_over(name) ? remove_file(k, dir, name, &st, shown) : TG_OK;
    tg_status status = clean_folder(k, dir, name, shown, everything, depth + 1);
    if (status == TG_OK && everything && !k->dry_run && unlinkat(dir, name, AT_REMOVEDIR) != 0)
        return cli_fail_errno(&k->c->err, shown, "remove");
    return status;
}

static tg_status clean_folder(cleaner *k, int parent, const char *name, const char *shown,
                              bool everything, int depth)
{
    if (depth > DEEPEST)
        return cli_fail(&k->c->err, TG_UNSUPPORTED, "'%.200s': more than %d folders deep",
                        shown, DEEPEST);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? TG_OK
                                                   : cli_fail_errno(&k->c->err, shown, "open");
    CLI_AUTO(auto_closedir) DIR *d = fdopendir(fd);
    if (d == NULL) {
        (void)close(fd);
        return cli_fail(&k->c->err, TG_NO_MEMORY, "no memory to list '%.200s'", shown);
    }
    tg_status st = TG_OK;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this DIR */
    for (struct dirent *e; st == TG_OK && (e = readdir(d)) != NULL;) {
        char path[PATH_BYTES];
        int n = snprintf(path, sizeof path, "%s/%s", shown, e->d_name);
        if (is_dots(e->d_name))
            continue;
        if (n < 0 || (size_t)n >= sizeof path)
            return cli_fail(&k->c->err, TG_UNSUPPORTED, "a path below '%.100s' is too long",
                            shown);
        st = clean_entry(k, dirfd(d), e->d_name, path, everything, depth);
    }
    return st;
}

static bool is_lock(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".lock") == 0;
}

/* A live process holds a lock of the kernel on its part's file; of a dead one's nothing stays.
 */
static tg_status check_lock(cleaner *k, int dir, const char *name, const char *side)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return TG_OK; /* gone meanwhile, or none of ours */
    const bool held = fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
    (void)close(fd);
    if (!held)
        return TG_OK;
    return cli_fail(&k->c->err, TG_BUSY, "'%.200s/%.60s': a process is at work here", side,
                    name);
}

static tg_status check_locks(cleaner *k, const char *side)
{
    CLI_AUTO(auto_closedir) DIR *d = opendir(side);
    tg_status st = TG_OK;
    if (d == NULL)
        return TG_OK; /* whoever cleans it says why */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this DIR */
    for (struct dirent *e; st == TG_OK && (e = readdir(d)) != NULL;)
        if (is_lock(e->d_name))
            st = check_lock(k, dirfd(d), e->d_name, side);
    return st;
}

/* The folder's files before its journal is used up, so that they are counted. */
static tg_status clean_beside(cleaner *k, const char *path, const char *side)
{
    struct stat st;
    if (lstat(side, &st) != 0)
        return errno == ENOENT ? TG_OK : cli_fail_errno(&k->c->err, side, "look at");
    tg_status status = check_locks(k, side);
    if (status != TG_OK)
        return status;
    cleaner counted = {.c = k->c, .dry_run = true, .counts = !k->dry_run};
    status = clean_folder(&counted, AT_FDCWD, side, side, true, 0);
    if (status != TG_OK || k->dry_run) {
        k->removed += counted.removed;
        k->bytes += counted.bytes;
        return status;
    }
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    tg_recover_result r = {.size = sizeof r};
    tg_error err;
    status = cli_runtime(k->c, k->c->common->memory, &rt);
    if (status != TG_OK)
        return status;
    status = tg_recover(rt, path, &r, &err);
    if (status != TG_OK && status != TG_NOT_FOUND) { /* not found: there is no store any more */
        k->c->err = err;
        return status;
    }
    k->removed += counted.removed;
    k->bytes += counted.bytes;
    cleaner rest = {.c = k->c};
    status = clean_folder(&rest, AT_FDCWD, side, side, true, 0);
    if (status == TG_OK && rmdir(side) != 0 && errno != ENOENT)
        status = cli_fail_errno(&k->c->err, side, "remove");
    return status;
}

static int run(cli *c, void *options)
{
    const clean_options *o = options;
    char path[PATH_BYTES - 16], side[PATH_BYTES];
    cleaner k = {.c = c, .dry_run = o->dry_run};
    size_t len = strlen(c->operands.item[0]);
    if (len >= sizeof path) {
        (void)cli_fail(&c->err, TG_INVALID, "the path is too long");
        return CLI_USAGE;
    }
    memcpy(path, c->operands.item[0], len + 1);
    while (len > 1 && path[len - 1] == '/')
        path[--len] = '\0';
    (void)snprintf(side, sizeof side, "%s.tidegate", path);

    struct stat st;
    if (lstat(path, &st) != 0 && lstat(side, &st) != 0) {
        errno = ENOENT;
        (void)cli_fail_errno(&c->err, path, "open");
        return CLI_FAILED;
    }
    tg_status status = clean_beside(&k, path, side);
    if (status == TG_OK)
        status = clean_folder(&k, AT_FDCWD, path, path, false, 0);
    json_u64(&c->json, "removed", k.removed);
    json_u64(&c->json, "bytes", k.bytes);
    if (status == TG_OK && !c->common->json) {
        char size[24];
        (void)printf("%s: %" PRIu64 " files, %s%s\n", path, k.removed,
                     cli_bytes_text(k.bytes, size, sizeof size),
                     o->dry_run ? " would be removed" : " removed");
    }
    if (status == TG_BUSY)
        return CLI_USAGE;
    return status == TG_OK ? CLI_DONE : CLI_FAILED;
}

const cli_verb cli_clean = {
    .name = "clean",
    .operands = "PATH",
    .least = 1,
    .most = 1,
    .summary = "remove what dead runs left beside a store and in it",
    .example = "  tidegate clean --dry-run run.zarr\n  tidegate clean run.zarr\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .run = run,
};
