/* What units replaced, in undo/: named by their place in OUT's grid, so that a reader that
 * knows only the array finds it. */
#include "region/commit.h"
#include "tidegate/text.h"
#include "zarr/array.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void tg_undo_name(uint32_t ndim, const uint64_t *unit_index, char *dst)
{
    size_t n = (size_t)snprintf(dst, TG_UNDO_BYTES, "undo/u");

    for (uint32_t d = 0; d < ndim; d++)
        n += (size_t)snprintf(dst + n, TG_UNDO_BYTES - n, "%s%" PRIu64, d == 0 ? "" : ".",
                              unit_index[d]);
}

/* The reverse, of a name within undo/; *absent: it ended in ".absent". */
static bool parse_name(const char *name, uint32_t ndim, uint64_t *index, bool *absent)
{
    char word[24];
    const char *p = name + 1;

    if (name[0] != 'u')
        return false;
    for (uint32_t d = 0; d < ndim; d++) {
        size_t n = strspn(p, "0123456789");
        if (n == 0 || n >= sizeof word)
            return false;
        memcpy(word, p, n);
        word[n] = '\0';
        if (tg_parse_u64(word, &index[d], NULL) != TG_OK)
            return false;
        p += n;
        if (d + 1 < ndim && *p++ != '.')
            return false;
    }
    *absent = strcmp(p, ".absent") == 0;
    return *absent || *p == '\0';
}

static tg_status undo_one(const tg_folder *folder, const tg_array *out, const char *name,
                          const uint64_t *index, bool absent, tg_error *err)
{
    const int dir = tg_store_dir(out->store);
    char key[TG_KEY_BYTES], path[320];

    tg_unit_key(out, index, key);
    (void)snprintf(path, sizeof path, "undo/%.255s", name);
    if (absent) {
        if (tg_sys_unlink(dir, key, 0) != 0 && errno != ENOENT)
            return tg_fail_errno(err, "remove '%.200s'", key);
        return tg_folder_drop(folder, path, err);
    }
    if (tg_sys_rename(folder->dir, path, dir, key) != 0)
        return tg_folder_fail(folder, "move back", path, err);
    /* Where the run died before it replaced the unit both names are of one file, and then
     * rename(2) does nothing and says that it did. */
    return tg_folder_drop(folder, path, err);
}

static tg_status undo_listed(const tg_folder *folder, const tg_array *out, DIR *dir,
                             uint64_t *n, tg_error *err)
{
    const uint32_t ndim = out->meta->info.ndim;
    uint64_t index[TG_MAX_NDIM];
    bool absent;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): dir is this call's */
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (!parse_name(e->d_name, ndim, index, &absent))
            continue;
        tg_crash_point();
        TG_TRY(undo_one(folder, out, e->d_name, index, absent, err));
        ++*n;
    }
    return TG_OK;
}

tg_status tg_undo_all(const tg_folder *folder, tg_array *out, uint64_t *n, tg_error *err)
{
    char path[4096];

    *n = 0;
    int len = snprintf(path, sizeof path, "%s/undo", folder->path);
    if (len < 0 || (size_t)len >= sizeof path)
        return tg_fail(err, TG_INVALID, "path '%.200s' is too long", folder->path);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return errno == ENOENT ? tg_fail(err, TG_NOT_FOUND, "'%.200s' is not there", path)
                               : tg_folder_fail(folder, "list", "undo", err);
    tg_status st = undo_listed(folder, out, dir, n, err);
    (void)closedir(dir); /* only read from */
    TG_TRY(st);
    if (tg_sys_sync_fs(folder->dir) != 0)
        return tg_folder_fail(folder, "sync", "undo", err);
    return TG_OK;
}
