/* cli/place.c - opens what a PATH operand names. */
#include "place.h"

#include "tidegate/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

tg_status place_open(cli *c, const char *path, cli_place *place)
{
    tg_status st = tg_store_open(path, NULL, &place->store, &place->prefix, &c->err);
    if (st == TG_OK && place->prefix == NULL) {
        place->prefix = tg_strdup("");
        if (place->prefix == NULL)
            st = cli_fail(&c->err, TG_NO_MEMORY, "no memory to open '%.200s'", path);
    }
    return st;
}

/* --- Places to write to --------------------------------------------------- */

#define PATH_BYTES 4096

static bool is_plain_path(const char *path)
{
    return strstr(path, "://") == NULL && strchr(path, '|') == NULL;
}

static bool is_group_folder(const char *folder)
{
    static const char *const documents[] = {"zarr.json", ".zgroup"};
    char name[PATH_BYTES + 16];
    struct stat st;

    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        (void)snprintf(name, sizeof name, "%s/%s", folder, documents[i]);
        if (stat(name, &st) == 0 && S_ISREG(st.st_mode))
            return true;
    }
    return false;
}

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static bool is_store_name(const char *folder, size_t len)
{
    static const char end[] = ".zarr";
    const size_t n = sizeof end - 1;

    return len > n && memcmp(folder + len - n, end, n) == 0;
}

/* Length of the part of a path that is the store's root. */
static size_t root_length(const char *path)
{
    char folder[PATH_BYTES];
    size_t len = strlen(path), root = 0;

    while (len > 1 && path[len - 1] == '/')
        len--;
    root = len;
    if (len >= sizeof folder)
        return len;
    for (;;) {
        while (len > 0 && path[len - 1] != '/')
            len--;
        while (len > 0 && path[len - 1] == '/')
            len--;
        if (len == 0)
            return root;
        memcpy(folder, path, len);
        folder[len] = '\0';
        const char *leaf = path + len + strspn(path + len, "/");
        if (leaf[0] == '.' || (!is_group_folder(folder) && is_there(folder)))
            return root;
        if (is_there(folder) || is_store_name(folder, len))
            root = len; /* else it is to become a group of what lies above */
    }
}

/* The store's root is the outermost group that the path lies in. */
static tg_status open_root(cli *c, const char *path, tg_store_mode mode, cli_place *place)
{
    const tg_store_options options = {.size = sizeof options, .mode = mode};
    char root[PATH_BYTES];
    size_t n = is_plain_path(path) ? root_length(path) : strlen(path);

    if (n >= sizeof root)
        return cli_fail(&c->err, TG_INVALID, "a path of more than %d bytes", PATH_BYTES - 1);
    memcpy(root, path, n);
    root[n] = '\0';
    place->root_bytes = mode == TG_STORE_OPEN_OR_CREATE && !is_there(root) ? n : 0;
    const char *inner = path + n + strspn(path + n, "/");
    tg_status st = tg_store_open(root, &options, &place->store, &place->prefix, &c->err);
    if (st == TG_OK && (place->prefix == NULL || inner[0] != '\0')) {
        tg_free(place->prefix);
        place->prefix = tg_strdup(inner);
        if (place->prefix == NULL)
            st = cli_fail(&c->err, TG_NO_MEMORY, "no memory to open '%.200s'", path);
    }
    return st;
}

tg_status place_open_writing(cli *c, const char *path, bool make, cli_place *place)
{
    place->made = is_plain_path(path) && !is_there(path);
    tg_status st =
        open_root(c, path, make ? TG_STORE_OPEN_OR_CREATE : TG_STORE_READ_WRITE, place);
    if (st != TG_OK)
        place_undo(c, path, place);
    return st;
}

tg_status place_open_around(cli *c, const char *path, cli_place *place)
{
    return open_root(c, path, TG_STORE_READ, place);
}

void place_undo(cli *c, const char *path, cli_place *place)
{
    struct stat st;

    char root[PATH_BYTES];

    (void)c;
    place_close(place);
    if (!place->made)
        return;
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
        (void)unlink(path);
    (void)rmdir(path); /* only if it is empty, as we made it */
    memcpy(root, path, place->root_bytes);
    root[place->root_bytes] = '\0';
    (void)rmdir(root);
    place->made = false;
}

static bool stop_at_first(void *user, const char *name)
{
    bool *found = user;
    (void)name;
    *found = true;
    return false;
}

tg_status place_check_free(cli *c, const cli_place *place, bool overwrite)
{
    CLI_AUTO(cli_auto_free) char *prefix = place_join(place->prefix, "");
    tg_node *node = NULL;
    bool found = false;

    if (prefix == NULL)
        return cli_fail(&c->err, TG_NO_MEMORY, "no memory to look at '%.200s'", place->prefix);
    tg_status st = tg_node_open(place->store, place->prefix, &node, c->cancel, &c->err);
    tg_node_free(node);
    if (st == TG_OK && !overwrite)
        return cli_fail(&c->err, TG_EXISTS,
                        "%s: there is a Zarr node at '%.200s' (--overwrite replaces it)",
                        tg_store_describe(place->store), place->prefix);
    if (st == TG_OK || (overwrite && (st == TG_CORRUPT || st == TG_UNSUPPORTED)))
        return TG_OK;
    if (st != TG_NOT_FOUND)
        return st;
    st = tg_store_list(place->store, prefix, stop_at_first, &found, c->cancel, &c->err);
    if (st == TG_OK && found)
        return cli_fail(&c->err, TG_EXISTS,
                        "%s: '%.200s' is not empty and no Zarr node: nothing is put there",
                        tg_store_describe(place->store), place->prefix);
    return st;
}

tg_status place_finish(cli *c, cli_place *place)
{
    return tg_store_close(place->store, &c->err);
}

void place_close(cli_place *place)
{
    tg_free(place->prefix);
    tg_store_free(place->store);
    place->prefix = NULL;
    place->store = NULL;
}

char *place_join(const char *parent, const char *name)
{
    size_t room = strlen(parent) + strlen(name) + 2;
    char *joined = tg_alloc(room);
    if (joined != NULL)
        (void)snprintf(joined, room, "%s%s%s", parent, parent[0] != '\0' ? "/" : "", name);
    return joined;
}

const char *extents_text(const uint64_t *v, uint32_t ndim, char *room, size_t cap)
{
    size_t n = 0;
    room[0] = '\0';
    for (uint32_t i = 0; i <= ndim && n < cap; i++) {
        int k = i == ndim
                    ? snprintf(room + n, cap - n, ndim == 0 ? "()" : ")")
                    : snprintf(room + n, cap - n, "%s%" PRIu64, i == 0 ? "(" : ", ", v[i]);
        n += k > 0 ? (size_t)k : 0;
    }
    return room;
}
