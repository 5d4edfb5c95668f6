/* cli/verb_copy.c - copy: an array or a hierarchy into another store, in another layout. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "place.h"
#include "region.h"
#include "tidegate/memory.h"
#include "tidegate/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct copy_options {
    cli_common common;
    const char *shard, *codec, *region;
    cli_extents chunk;
    tg_dtype dtype;
    int format;
    bool verify, create, overwrite;
} copy_options;

static const cli_option options_table[] = {
    {"chunk", CLI_EXTENTS, offsetof(copy_options, chunk), "64,256,256",
     "extents of a chunk, of the arrays with so many dimensions (as they are)"},
    {"shard", CLI_TEXT, offsetof(copy_options, shard), "512,1024,1024|none",
     "extents of a stored object, multiples of the chunk's (as they are)"},
    {"codec", CLI_TEXT, offsetof(copy_options, codec), "CODEC",
     "none, zstd[:L], gzip[:L], blosc:CNAME[:L[:SHUFFLE]] (as it is)"},
    {"format", CLI_CHOICE, offsetof(copy_options, format), "same|zarr2|zarr3",
     "OME-NGFF metadata becomes 0.4 or 0.5 with it (same)"},
    {"dtype", CLI_DTYPE, offsetof(copy_options, dtype), "DTYPE",
     "of numeric arrays of two and more dimensions; what does not fit saturates"},
    {"region", CLI_TEXT, offsetof(copy_options, region), "0:2,:,100:200",
     "the part of SRC, an array, that is copied"},
    {"verify", CLI_FLAG, offsetof(copy_options, verify), NULL,
     "read every array back and compare before it is published"},
    {"create", CLI_FLAG, offsetof(copy_options, create), NULL,
     "refuse what exists (the default)"},
    {"overwrite", CLI_FLAG, offsetof(copy_options, overwrite), NULL,
     "replace a Zarr node, with all that lies below it"},
};

#define PATH_BYTES ((size_t)4096)
#define DEEPEST    64

/* --- Source and destination are apart ------------------------------------------- */

/* The file or folder of a PATH operand: what stands before "|zip:". */
static tg_status file_of(cli *c, const char *path, char room[PATH_BYTES])
{
    size_t len = strcspn(path, "|");
    if (strstr(path, "://") != NULL)
        return cli_fail(&c->err, TG_UNSUPPORTED,
                        "'%.200s': copy takes directories and ZIP files, and reads http(s)",
                        path);
    if (len >= PATH_BYTES)
        return cli_fail(&c->err, TG_INVALID, "a path of more than %zu bytes", PATH_BYTES - 1);
    memcpy(room, path, len);
    room[len] = '\0';
    return TG_OK;
}

/* Cut the last name off; false: none is left. */
static bool to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL || strcmp(path, "/") == 0)
        return false;
    slash[slash == path ? 1 : 0] = '\0';
    return true;
}

/* The absolute path without links; of what is not there yet, below the nearest folder that is.
 */
static tg_status resolve(cli *c, const char *path, char room[2 * PATH_BYTES])
{
    char head[PATH_BYTES];
    size_t len = strlen(path);
    for (;;) {
        while (len > 1 && path[len - 1] == '/')
            len--;
        memcpy(head, len == 0 ? "." : path, len == 0 ? 1 : len);
        head[len == 0 ? 1 : len] = '\0';
        if (realpath(head, room) != NULL)
            break;
        struct stat st;
        if (errno != ENOENT || len <= 1 || lstat(head, &st) == 0)
            return cli_fail_errno(&c->err, head, "resolve");
        while (len > 0 && path[len - 1] != '/')
            len--;
    }
    const char *rest = path + len + strspn(path + len, "/");
    if (strstr(rest, "..") != NULL)
        return cli_fail(&c->err, TG_INVALID, "'%.200s': '..' behind a folder that is not there",
                        path);
    if (rest[0] != '\0') {
        size_t n = strlen(room);
        (void)snprintf(room + n, 2 * PATH_BYTES - n, "%s%s", n > 1 ? "/" : "", rest);
    }
    len = strlen(room);
    while (len > 1 && room[len - 1] == '/')
        room[--len] = '\0';
    return TG_OK;
}

/* Is `folder` the file or folder `path`, or one of those it lies in? By name, and (a folder may
 * be mounted twice) by what the system says. */
static bool is_within(const char *path, const char *folder)
{
    char at[2 * PATH_BYTES];
    struct stat whole, part;
    const bool there = stat(folder, &whole) == 0;

    (void)snprintf(at, sizeof at, "%s", path);
    do {
        if (strcmp(at, folder) == 0)
            return true;
        if (there && stat(at, &part) == 0 && part.st_dev == whole.st_dev &&
            part.st_ino == whole.st_ino)
            return true;
    } while (to_parent(at));
    return false;
}

/* With --overwrite: a link in the source may lead to what is to be erased. Links to files are
 * looked up; folders that links lead to may hold further links, and are refused. */
static tg_status check_links(cli *c, int parent, const char *name, char *shown, const char *dst,
                             int depth);

static tg_status check_link(cli *c, const char *shown, const char *dst)
{
    char real[2 * PATH_BYTES];
    struct stat st;
    if (realpath(shown, real) == NULL || stat(shown, &st) != 0)
        return TG_OK; /* it leads nowhere: nothing is read through it */
    if (S_ISDIR(st.st_mode) || is_within(real, dst))
        return cli_fail(&c->err, TG_UNSUPPORTED,
                        "'%.200s' is a link: what it leads to might be erased by --overwrite",
                        shown);
    return TG_OK;
}

static tg_status check_entry(cli *c, DIR *d, const struct dirent *e, char *shown,
                             const char *dst, int depth)
{
    const size_t len = strlen(shown);
    struct stat st;

    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
        return TG_OK;
    if (len + strlen(e->d_name) + 2 > PATH_BYTES || depth > DEEPEST)
        return cli_fail(&c->err, TG_UNSUPPORTED, "a path below '%.200s' is too long", shown);
    (void)snprintf(shown + len, PATH_BYTES - len, "/%s", e->d_name);
    tg_status status = TG_OK;
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        status = cli_fail_errno(&c->err, shown, "look at");
    else if (S_ISLNK(st.st_mode))
        status = check_link(c, shown, dst);
    else if (S_ISDIR(st.st_mode))
        status = check_links(c, dirfd(d), e->d_name, shown, dst, depth + 1);
    shown[len] = '\0';
    return status;
}

static tg_status check_links(cli *c, int parent, const char *name, char *shown, const char *dst,
                             int depth)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    tg_status st = TG_OK;

    if (d == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return errno == ENOTDIR ? TG_OK : cli_fail_errno(&c->err, shown, "open");
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this DIR */
    for (struct dirent *e; st == TG_OK && (e = readdir(d)) != NULL;)
        st = check_entry(c, d, e, shown, dst, depth);
    (void)closedir(d);
    return st;
}

static bool is_remote(const char *path)
{
    return strncasecmp(path, "http://", 7) == 0 || strncasecmp(path, "https://", 8) == 0;
}

static tg_status check_apart(cli *c, const char *src, const char *dst, bool overwrite)
{
    char from[PATH_BYTES], to[PATH_BYTES], a[2 * PATH_BYTES], b[2 * PATH_BYTES];

    tg_status st = file_of(c, dst, to);
    if (is_remote(src)) /* nothing on this machine is the same */
        return st;
    if (st == TG_OK)
        st = file_of(c, src, from);
    if (st == TG_OK)
        st = resolve(c, from, a);
    if (st == TG_OK)
        st = resolve(c, to, b);
    if (st != TG_OK)
        return st;
    if (is_within(a, b) || is_within(b, a))
        return cli_fail(&c->err, TG_INVALID,
                        "'%.200s' and '%.200s' are the same, or one lies in the other", src,
                        dst);
    return overwrite ? check_links(c, AT_FDCWD, a, a, b, 0) : TG_OK;
}

/* --- The destination --------------------------------------------------------------- */

typedef struct target {
    cli_place place;
    const char *path;            /* what is opened */
    char unfinished[PATH_BYTES]; /* of a ZIP file: the name it has until it is whole; else "" */
} target;

static bool is_zip_name(const char *path)
{
    size_t len = strlen(path);
    return len > 4 && strcmp(path + len - 4, ".zip") == 0;
}

static tg_status name_zip(cli *c, const char *path, bool overwrite, target *t)
{
    struct stat st;
    if (lstat(path, &st) == 0 && !overwrite)
        return cli_fail(&c->err, TG_EXISTS, "'%.200s' exists (--overwrite replaces it)", path);
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return cli_fail(&c->err, TG_EXISTS, "'%.200s' is no regular file: it is not replaced",
                        path);
    int n = snprintf(t->unfinished, sizeof t->unfinished, "%.*s.%ld.unfinished.zip",
                     (int)(strlen(path) - 4), path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof t->unfinished)
        return cli_fail(&c->err, TG_INVALID, "a path of more than %zu bytes", PATH_BYTES - 1);
    if (lstat(t->unfinished, &st) == 0)
        return cli_fail(&c->err, TG_EXISTS, "'%.200s' is in the way", t->unfinished);
    t->path = t->unfinished;
    return TG_OK;
}

static tg_status open_target(cli *c, const char *path, bool overwrite, target *t)
{
    struct stat st;
    t->path = path;
    if (strchr(path, '|') != NULL)
        return cli_fail(&c->err, TG_UNSUPPORTED,
                        "'%.200s': into a ZIP file only whole (name the file)", path);
    const bool zip = is_zip_name(path) && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode));
    tg_status status = zip ? name_zip(c, path, overwrite, t) : TG_OK;
    return status == TG_OK ? place_open_writing(c, t->path, true, &t->place) : status;
}

/* A file takes its name when it is whole; without overwrite only where there is none. */
static tg_status name_target(cli *c, const char *path, bool overwrite, target *t)
{
    char folder[PATH_BYTES];
    tg_status st = place_finish(c, &t->place);
    if (st != TG_OK || t->unfinished[0] == '\0')
        return st;
    const int failed = overwrite ? rename(t->unfinished, path) : link(t->unfinished, path);
    if (failed != 0)
        return cli_fail_errno(&c->err, path, "name");
    if (!overwrite)
        (void)unlink(t->unfinished);
    t->unfinished[0] = '\0';
    (void)snprintf(folder, sizeof folder, "%s", path);
    if (!to_parent(folder))
        (void)snprintf(folder, sizeof folder, ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        st = cli_fail_errno(&c->err, folder, "sync");
    if (fd >= 0)
        (void)close(fd);
    return st;
}

static void undo_target(cli *c, target *t)
{
    place_undo(c, t->path, &t->place);
    if (t->unfinished[0] != '\0' && t->path != NULL && t->place.store == NULL)
        (void)unlink(t->unfinished);
}

static void close_target(target *t)
{
    place_close(&t->place);
}

/* --- Options ------------------------------------------------------------------------ */

static tg_status check_extents(cli *c, const char *option, uint32_t got, uint32_t want)
{
    if (got == 0 || got == want)
        return TG_OK;
    return cli_fail(&c->err, TG_INVALID, "--%s: %u extents, the array has %u dimensions",
                    option, got, want);
}

/* What depends on whether the source is one array. */
static tg_status fit_to_source(cli *c, const copy_options *o, const cli_place *src,
                               tg_copy_options *out)
{
    tg_node *node = NULL;
    tg_array *array = NULL;
    cli_region region;
    tg_array_info info = {.size = sizeof info};

    tg_status st = tg_node_open(src->store, src->prefix, &node, c->cancel, &c->err);
    const bool alone = st == TG_OK && tg_node_kind_of(node) == TG_NODE_ARRAY;
    tg_node_free(node);
    if (st == TG_OK && !alone && o->region != NULL)
        return cli_fail(&c->err, TG_INVALID, "--region: '%.200s' is a group, want an array",
                        cli_shown(c, 0));
    if (st != TG_OK || !alone)
        return st;
    st = tg_array_open(src->store, src->prefix, &array, c->cancel, &c->err);
    if (st == TG_OK)
        st = tg_array_get_info(array, &info, &c->err);
    if (st == TG_OK)
        st = check_extents(c, "chunk", out->chunk_ndim, info.ndim);
    if (st == TG_OK)
        st = check_extents(c, "shard", out->shard_ndim, info.ndim);
    if (st == TG_OK && o->region != NULL) {
        st = region_parse(o->region, info.shape, info.ndim, &region, &c->err);
        if (st != TG_OK)
            cli_prefix(&c->err, "--region");
        else {
            out->region_ndim = region.ndim;
            memcpy(out->start, region.start, sizeof out->start);
            memcpy(out->count, region.count, sizeof out->count);
        }
    }
    tg_array_free(array);
    return st;
}

static tg_status read_options(cli *c, const copy_options *o, tg_copy_options *out)
{
    static const int formats[] = {0, 2, 3};
    cli_extents shard = {0};

    *out = (tg_copy_options){.size = sizeof *out,
                             .format = formats[o->format],
                             .chunk_ndim = o->chunk.n,
                             .codec = o->codec,
                             .dtype = o->dtype,
                             .verify = o->verify,
                             .overwrite = o->overwrite};
    if (o->create && o->overwrite)
        return cli_fail(&c->err, TG_INVALID, "--create or --overwrite, not both");
    memcpy(out->chunk, o->chunk.v, sizeof out->chunk);
    out->no_shards = o->shard != NULL && strcmp(o->shard, "none") == 0;
    if (o->shard == NULL || out->no_shards)
        return TG_OK;
    tg_status st = cli_parse_extents(o->shard, &shard, &c->err);
    if (st != TG_OK)
        cli_prefix(&c->err, "--shard");
    out->shard_ndim = shard.n;
    memcpy(out->shard, shard.v, sizeof out->shard);
    return st;
}

/* --- The verb -------------------------------------------------------------------------- */

static double now_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(cli *c, const tg_copy_result *r, double seconds, bool done)
{
    char in[24], out[24];

    json_u64(&c->json, "arrays", r->arrays);
    json_u64(&c->json, "groups", r->groups);
    json_u64(&c->json, "units", r->units);
    json_u64(&c->json, "units_encoded", r->units_encoded);
    json_u64(&c->json, "units_resumed", r->units_resumed);
    json_u64(&c->json, "saturated", r->saturated);
    json_u64(&c->json, "bytes_in", r->bytes_in);
    json_u64(&c->json, "bytes_out", r->bytes_out);
    json_double(&c->json, "seconds", seconds);
    json_u64(&c->json, "rss_bytes_peak", cli_rss_peak());
    if (c->common->json || !done)
        return;
    (void)printf("%s: %" PRIu64 " arrays, %" PRIu64 " groups, %s read, %s written in %.1f s\n",
                 c->operands.item[1], r->arrays, r->groups,
                 cli_bytes_text(r->bytes_in, in, sizeof in),
                 cli_bytes_text(r->bytes_out, out, sizeof out), seconds);
    if (r->saturated > 0)
        (void)printf("%" PRIu64 " items did not fit the type and became its nearest\n",
                     r->saturated);
}

static int run(cli *c, void *options)
{
    const copy_options *o = options;
    const char *src = c->operands.item[0], *dst = c->operands.item[1];
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    CLI_AUTO(place_close) cli_place from = {0};
    CLI_AUTO(close_target) target to = {0};
    tg_copy_options how;
    tg_copy_result r = {.size = sizeof r};
    const double began = now_seconds();

    if (read_options(c, o, &how) != TG_OK || check_apart(c, src, dst, o->overwrite) != TG_OK ||
        cli_runtime(c, c->common->memory, &rt) != TG_OK || place_open(c, src, &from) != TG_OK ||
        fit_to_source(c, o, &from, &how) != TG_OK ||
        open_target(c, dst, o->overwrite, &to) != TG_OK)
        return cli_refused(c);
    if (to.unfinished[0] != '\0')
        how.overwrite = false; /* the file is new */
    tg_status st = tg_copy(rt, from.store, from.prefix, to.place.store, to.place.prefix, &how,
                           cli_progress_report, &c->progress, &r, c->cancel, &c->err);
    cli_progress_end(&c->progress);
    if (st == TG_OK)
        st = name_target(c, dst, o->overwrite, &to);
    if (st != TG_OK)
        undo_target(c, &to);
    report(c, &r, now_seconds() - began, st == TG_OK);
    if (st == TG_CANCELLED)
        return CLI_TRY_AGAIN;
    if (st != TG_OK)
        return r.units == 0 ? cli_refused(c) : CLI_FAILED;
    return CLI_DONE;
}

const cli_verb cli_copy = {
    .name = "copy",
    .operands = "SRC DST",
    .least = 2,
    .most = 2,
    .summary = "convert, rechunk, recompress between formats and stores",
    .example = "  tidegate copy run.zarr run.zip\n"
               "  tidegate copy run.zarr small.zarr --format zarr2 --codec zstd:3 --verify\n"
               "  tidegate copy run.zarr/0 part.zarr --region 0:10 --chunk 1,256,256\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .run = run,
};
