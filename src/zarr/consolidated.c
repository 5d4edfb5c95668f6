/* Consolidated metadata: what other writers gathered of a hierarchy into one
 * document. Read only where a store cannot list; taken away when it goes stale. */
#include "zarr/meta.h"
#include "zarr/node.h"

#include <string.h>

static tg_status get_json(tg_store *store, const char *path, const char *name, tg_json **out,
                          bool *has_nan, const tg_cancel *cancel, tg_error *err)
{
    char key[TG_PATH_BYTES + 16];
    TG_AUTO(tg_buf) text = {0};

    TG_TRY(tg_path_join(key, sizeof key, path, name, err));
    TG_TRY(tg_store_get(store, key, tg_range_all(), TG_METADATA_LIMIT, &text, cancel, err));
    tg_status st = tg_document_parse(out, has_nan, (const char *)text.data, text.len, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "'%.200s'", key);
        tg_error_at(err, key, TG_NO_OFFSET);
    }
    return st;
}

/* The last part of path is cut off; false: it was the root. */
static bool to_parent(char *path)
{
    char *slash = strrchr(path, '/');

    if (path[0] == '\0')
        return false;
    if (slash == NULL)
        slash = path;
    *slash = '\0';
    return true;
}

/* The object of all documents, borrowed from *doc; NULL if this node gathers none. */
static tg_status find_v3(tg_store *store, const char *path, tg_json **doc, const tg_json **all,
                         const tg_cancel *cancel, tg_error *err)
{
    bool has_nan = false;

    TG_TRY(get_json(store, path, "zarr.json", doc, &has_nan, cancel, err));
    const tg_json *gathered = tg_json_get(*doc, "consolidated_metadata");
    if (tg_json_kind_of(gathered) != TG_JSON_OBJECT)
        return TG_NOT_FOUND; /* null was written there by zarr-python up to 3.1.3 */
    return tg_member(gathered, "metadata", TG_JSON_OBJECT, all, err);
}

static tg_status find_v2(tg_store *store, const char *path, tg_json **doc, const tg_json **all,
                         const tg_cancel *cancel, tg_error *err)
{
    const tg_json *v = NULL;
    uint64_t version = 0;
    bool has_nan = false;

    TG_TRY(get_json(store, path, ".zmetadata", doc, &has_nan, cancel, err));
    TG_TRY(tg_member(*doc, "zarr_consolidated_format", TG_JSON_INT, &v, err));
    if (tg_json_u64(v, &version, NULL) != TG_OK || version != 1)
        return tg_fail(err, TG_UNSUPPORTED, ".zmetadata: 'zarr_consolidated_format' is not 1");
    return tg_member(*doc, "metadata", TG_JSON_OBJECT, all, err);
}

/* Keys are paths below the node that gathers: "a/b" (3), "a/b/.zarray" (2). The name right
 * below `below` is what stands between it and the next slash. */
static tg_status name_children(const tg_json *all, const char *below, int format,
                               tg_status (*fn)(void *, const char *, size_t, tg_error *),
                               void *user, tg_error *err)
{
    size_t n_below = strlen(below);

    for (size_t i = 0; i < tg_json_size(all); i++) {
        const char *key = tg_json_key_at(all, i);
        if (n_below > 0) {
            if (strncmp(key, below, n_below) != 0 || key[n_below] != '/')
                continue;
            key += n_below + 1;
        }
        size_t len = strcspn(key, "/");
        if (len > 0 && (format == 3 || key[len] == '/'))
            TG_TRY(fn(user, key, len, err));
    }
    return TG_OK;
}

tg_status tg_consolidated_children(tg_store *store, const char *path,
                                   tg_status (*fn)(void *user, const char *name, size_t len,
                                                   tg_error *err),
                                   void *user, const tg_cancel *cancel, tg_error *err)
{
    char at[TG_PATH_BYTES];

    memcpy(at, path, strlen(path) + 1);
    do {
        for (int format = 3; format >= 2; format--) {
            TG_AUTO_PTR(tg_json) doc = NULL;
            const tg_json *all = NULL;
            tg_status st =
                (format == 3 ? find_v3 : find_v2)(store, at, &doc, &all, cancel, err);
            if (st == TG_NOT_FOUND)
                continue;
            if (st != TG_OK)
                return st;
            const char *below = path + strlen(at);
            return name_children(all, below + (*below == '/'), format, fn, user, err);
        }
    } while (to_parent(at));
    return tg_fail(err, TG_NOT_FOUND,
                   "%s cannot list, and holds no consolidated metadata for '%.200s'",
                   tg_store_describe(store), path);
}

static tg_status drop_v3(tg_store *store, const char *path, const tg_cancel *cancel,
                         tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = NULL;
    TG_AUTO(tg_str) text = NULL;
    char key[TG_PATH_BYTES + 16];
    bool has_nan = false;

    tg_status st = get_json(store, path, "zarr.json", &doc, &has_nan, cancel, err);
    if (st != TG_OK)
        return st == TG_NOT_FOUND ? TG_OK : st;
    if (tg_json_get(doc, "consolidated_metadata") == NULL)
        return TG_OK;
    tg_json_remove(doc, "consolidated_metadata");
    TG_TRY(tg_json_write(doc, true, (tg_json_options){.allow_nan = has_nan}, &text, err));
    TG_TRY(tg_path_join(key, sizeof key, path, "zarr.json", err));
    return tg_store_put(store, key, text, strlen(text), cancel, err);
}

static tg_status drop_v2(tg_store *store, const char *path, const tg_cancel *cancel,
                         tg_error *err)
{
    char key[TG_PATH_BYTES + 16];
    uint64_t bytes = 0;

    TG_TRY(tg_path_join(key, sizeof key, path, ".zmetadata", err));
    tg_status st = tg_store_size(store, key, &bytes, cancel, err);
    if (st == TG_OK)
        st = tg_store_remove(store, key, cancel, err);
    return st == TG_NOT_FOUND ? TG_OK : st;
}

tg_status tg_consolidated_drop(tg_store *store, const char *path, const tg_cancel *cancel,
                               tg_error *err)
{
    char at[TG_PATH_BYTES];

    memcpy(at, path, strlen(path) + 1);
    do {
        TG_TRY(drop_v3(store, at, cancel, err));
        TG_TRY(drop_v2(store, at, cancel, err));
    } while (to_parent(at));
    return TG_OK;
}
