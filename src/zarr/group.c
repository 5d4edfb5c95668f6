/* Making and changing groups and attributes: one document at a time, each put
 * whole, so that a reader sees the old node or the new one. */
#include "base/sys.h"
#include "base/text.h"
#include "zarr/meta.h"
#include "zarr/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static tg_status put_text(tg_store *store, const char *path, const char *name, const char *text,
                          bool is_new, const tg_cancel *cancel, tg_error *err)
{
    char key[TG_PATH_BYTES + 16];

    TG_TRY(tg_path_join(key, sizeof key, path, name, err));
    if (is_new && (tg_store_caps(store) & TG_STORE_CAN_PUT_NEW) != 0)
        return tg_store_put_new(store, key, text, strlen(text), cancel, err);
    return tg_store_put(store, key, text, strlen(text), cancel, err);
}

tg_status tg_node_store(tg_store *store, const char *path, const char *name, const char *doc,
                        const char *attrs_doc, bool is_new, const tg_cancel *cancel,
                        tg_error *err)
{
    if (attrs_doc != NULL)
        TG_TRY(put_text(store, path, ".zattrs", attrs_doc, false, cancel, err));
    return put_text(store, path, name, doc, is_new, cancel, err);
}

static tg_status store_group(tg_store *store, const char *path, int format,
                             const tg_json *attributes, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_str) doc = NULL;
    TG_AUTO(tg_str) attrs_doc = NULL;

    TG_TRY(tg_group_documents(format, attributes, &doc, &attrs_doc, err));
    return tg_node_store(store, path, format == 3 ? "zarr.json" : ".zgroup", doc, attrs_doc,
                         true, cancel, err);
}

static tg_status make_ancestor(tg_store *store, const char *path, int format,
                               const tg_cancel *cancel, tg_error *err)
{
    tg_node_kind kind = TG_NODE_GROUP;
    bool found = false;

    TG_TRY(tg_node_probe(store, path, &found, &kind, cancel, err));
    if (found && kind == TG_NODE_ARRAY)
        return tg_fail(err, TG_INVALID, "'%.300s' is an array: no node can lie below it", path);
    if (found)
        return TG_OK;
    tg_status st = store_group(store, path, format, NULL, cancel, err);
    return st == TG_EXISTS ? TG_OK : st; /* another made it just now */
}

tg_status tg_make_ancestors(tg_store *store, const char *path, int zarr_format,
                            const tg_cancel *cancel, tg_error *err)
{
    char ancestor[TG_PATH_BYTES];

    TG_TRY(tg_node_path_check(path, err));
    if (path[0] == '\0')
        return TG_OK;
    TG_TRY(make_ancestor(store, "", zarr_format, cancel, err));
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        memcpy(ancestor, path, (size_t)(slash - path));
        ancestor[slash - path] = '\0';
        TG_TRY(make_ancestor(store, ancestor, zarr_format, cancel, err));
    }
    return TG_OK;
}

tg_status tg_group_create(tg_store *store, const char *path, int zarr_format,
                          const char *attributes, const tg_cancel *cancel, tg_error *err)
{
    char clean[TG_PATH_BYTES];
    TG_AUTO_PTR(tg_json) given = NULL;
    tg_node_kind kind = TG_NODE_GROUP;
    bool found = false;
    const int format = zarr_format == 0 ? 3 : zarr_format;

    if (format != 2 && format != 3)
        return tg_fail(err, TG_INVALID, "zarr format %d, want 2 or 3", zarr_format);
    if (attributes != NULL)
        TG_TRY(tg_attributes_parse(&given, attributes, err));
    TG_TRY(tg_path_normalise(clean, sizeof clean, path, err));
    TG_TRY(tg_node_probe(store, clean, &found, &kind, cancel, err));
    if (found)
        return tg_fail(err, TG_EXISTS, "%s: '%.300s' is %s", tg_store_describe(store), clean,
                       kind == TG_NODE_ARRAY ? "an array" : "a group already");
    TG_TRY(tg_make_ancestors(store, clean, format, cancel, err));
    TG_TRY(store_group(store, clean, format, given, cancel, err));
    return tg_consolidated_drop(store, clean, cancel, err);
}

/* --- Attributes ------------------------------------------------------------ */

static tg_status merge_into(tg_json *object, const tg_json *given, tg_error *err)
{
    for (size_t i = 0; i < tg_json_size(given); i++) {
        tg_json *copy = NULL;
        TG_TRY(tg_json_copy(&copy, tg_json_at(given, i), err));
        TG_TRY(tg_json_set(object, tg_json_key_at(given, i), copy, err));
    }
    return TG_OK;
}

/* What shall become of the attributes of a node. */
typedef struct change {
    const tg_json *given; /* instead of them, or (merge) over them */
    bool merge;
    size_t n; /* or, if n > 0: these members alone */
    const char *const *keys;
    tg_json *const *values; /* NULL: the member goes */
} change;

static tg_status edit_members(tg_json *object, const change *c, tg_error *err)
{
    for (size_t i = 0; i < c->n; i++) {
        tg_json *copy = NULL;
        if (c->values[i] == NULL && tg_json_get(object, c->keys[i]) == NULL)
            return tg_fail(err, TG_NOT_FOUND, "there is no attribute '%.200s'", c->keys[i]);
        if (c->values[i] == NULL) {
            tg_json_remove(object, c->keys[i]);
            continue;
        }
        TG_TRY(tg_json_copy(&copy, c->values[i], err));
        TG_TRY(tg_json_set(object, c->keys[i], copy, err));
    }
    return TG_OK;
}

/* The attributes that shall be, from those that are (NULL: none). */
static tg_status new_attributes(const tg_json *old, const change *c, tg_json **out,
                                tg_error *err)
{
    TG_AUTO_PTR(tg_json) made = NULL;

    if ((c->merge || c->n > 0) && tg_json_kind_of(old) == TG_JSON_OBJECT)
        TG_TRY(tg_json_copy(&made, old, err));
    else
        made = tg_json_new_object();
    if (made == NULL)
        return tg_fail(err, TG_NO_MEMORY, "attributes");
    TG_TRY(c->n > 0 ? edit_members(made, c, err) : merge_into(made, c->given, err));
    *out = tg_steal(made);
    return TG_OK;
}

static tg_status set_v3(tg_store *store, const char *path, const tg_node_docs *docs,
                        const change *c, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = NULL;
    TG_AUTO(tg_str) text = NULL;
    tg_json *attributes = NULL;
    bool has_nan = false;

    TG_TRY(tg_document_parse(&doc, &has_nan, (const char *)docs->doc.data, docs->doc.len, err));
    TG_TRY(new_attributes(tg_json_get(doc, "attributes"), c, &attributes, err));
    TG_TRY(tg_json_set(doc, "attributes", attributes, err));
    TG_TRY(tg_json_write(doc, true, (tg_json_options){.allow_nan = has_nan}, &text, err));
    return put_text(store, path, "zarr.json", text, false, cancel, err);
}

static tg_status set_v2(tg_store *store, const char *path, const tg_node_docs *docs,
                        const change *c, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_json) old = NULL;
    TG_AUTO_PTR(tg_json) made = NULL;
    TG_AUTO(tg_str) text = NULL;
    bool has_nan = false;

    if ((c->merge || c->n > 0) && docs->attributes.data != NULL)
        TG_TRY(tg_document_parse(&old, &has_nan, (const char *)docs->attributes.data,
                                 docs->attributes.len, err));
    TG_TRY(new_attributes(old, c, &made, err));
    TG_TRY(tg_json_write(made, true, (tg_json_options){.allow_nan = has_nan}, &text, err));
    return put_text(store, path, ".zattrs", text, false, cancel, err);
}

static tg_status change_attributes(tg_store *store, const char *path, const change *c,
                                   const tg_cancel *cancel, tg_error *err)
{
    char clean[TG_PATH_BYTES];
    TG_AUTO(tg_node_docs) docs = {0};

    TG_TRY(tg_path_normalise(clean, sizeof clean, path, err));
    TG_TRY(tg_node_load(store, clean, &docs, cancel, err));
    TG_TRY((docs.format == 3 ? set_v3 : set_v2)(store, clean, &docs, c, cancel, err));
    return tg_consolidated_drop(store, clean, cancel, err);
}

tg_status tg_attributes_set(tg_store *store, const char *path, const char *attributes,
                            bool merge, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_json) given = NULL;

    TG_TRY(tg_attributes_parse(&given, attributes, err));
    const change c = {.given = given, .merge = merge};
    return change_attributes(store, path, &c, cancel, err);
}

typedef struct edits {
    size_t n;
    tg_json **values;
} edits;

static void edits_auto(edits *e)
{
    for (size_t i = 0; i < e->n; i++)
        tg_json_free(e->values[i]);
    tg_free(e->values);
}

static tg_status parse_edits(edits *e, size_t n, const char *const *keys,
                             const char *const *values, tg_error *err)
{
    e->values = tg_calloc(n, sizeof(tg_json *));
    if (e->values == NULL)
        return tg_fail(err, TG_NO_MEMORY, "attributes");
    for (; e->n < n; e->n++) {
        const char *v = values[e->n], *key = keys[e->n];
        if (!tg_utf8_valid(key, strlen(key)))
            return tg_fail(err, TG_INVALID, "the name of an attribute is not valid UTF-8");
        tg_error why = {0};
        if (v == NULL ||
            tg_json_parse(&e->values[e->n], v, strlen(v), (tg_json_options){0}, &why) == TG_OK)
            continue;
        return tg_fail(err, TG_INVALID,
                       "attribute '%.100s': the value is not JSON (text has quotes: \"x\"): "
                       "%.200s",
                       key, why.msg);
    }
    return TG_OK;
}

tg_status tg_attributes_edit(tg_store *store, const char *path, size_t n,
                             const char *const *keys, const char *const *values,
                             const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(edits) e = {0};

    if (n == 0)
        return TG_OK;
    TG_TRY(parse_edits(&e, n, keys, values, err));
    const change c = {.n = n, .keys = keys, .values = e.values};
    return change_attributes(store, path, &c, cancel, err);
}

/* --- Erasing --------------------------------------------------------------- */

typedef struct pending {
    tg_text names; /* each ended by NUL */
    tg_status status;
} pending;

static void pending_auto(pending *p)
{
    tg_text_free(&p->names);
}

static bool collect(void *user, const char *name)
{
    pending *p = user;
    tg_text_add_n(&p->names, name, strlen(name) + 1);
    return tg_text_status(&p->names, NULL) == TG_OK;
}

/* Depth is that of the store's own keys, which are at most a few thousand bytes long. folders:
 * those that are left empty go, too. */
static tg_status erase_below(tg_store *store, const char *prefix, bool folders,
                             const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(pending) p = {0};
    TG_AUTO(tg_text) key = {0};

    TG_TRY(tg_store_list(store, prefix, collect, &p, cancel, err));
    TG_TRY(tg_text_status(&p.names, err));
    for (size_t at = 0; at < p.names.len; at += strlen(p.names.data + at) + 1) {
        key.len = 0;
        tg_text_add(&key, prefix);
        tg_text_add(&key, p.names.data + at);
        TG_TRY(tg_text_status(&key, err));
        tg_status st = key.data[key.len - 1] == '/'
                           ? erase_below(store, key.data, folders, cancel, err)
                           : tg_store_remove(store, key.data, cancel, err);
        if (st != TG_OK && st != TG_NOT_FOUND)
            return st;
    }
    if (folders) /* one that holds what is no key stays */
        (void)tg_sys_unlink(tg_store_dir(store), prefix, AT_REMOVEDIR);
    return TG_OK;
}

tg_status tg_node_has_keys(tg_store *store, const char *prefix, bool *has,
                           const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(pending) p = {0};
    TG_AUTO(tg_text) key = {0};

    *has = false;
    TG_TRY(tg_store_list(store, prefix, collect, &p, cancel, err));
    TG_TRY(tg_text_status(&p.names, err));
    for (size_t at = 0; at < p.names.len && !*has; at += strlen(p.names.data + at) + 1) {
        key.len = 0;
        tg_text_add(&key, prefix);
        tg_text_add(&key, p.names.data + at);
        TG_TRY(tg_text_status(&key, err));
        *has = key.data[key.len - 1] != '/';
        if (!*has)
            TG_TRY(tg_node_has_keys(store, key.data, has, cancel, err));
    }
    return TG_OK;
}

tg_status tg_node_erase(tg_store *store, const char *path, const tg_cancel *cancel,
                        tg_error *err)
{
    static const char *const documents[] = {"zarr.json", ".zarray", ".zgroup", ".zattrs",
                                            ".zmetadata"};
    char key[TG_PATH_BYTES + 16];

    /* Metadata first: what is half erased is no node, and its chunks are found by nobody. */
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        TG_TRY(tg_path_join(key, sizeof key, path, documents[i], err));
        tg_status st = tg_store_remove(store, key, cancel, err);
        if (st != TG_OK && st != TG_NOT_FOUND)
            return st;
    }
    if (path[0] == '\0')
        return erase_below(store, "", false, cancel, err);
    size_t len = strlen(path);
    memcpy(key, path, len);
    memcpy(key + len, "/", 2);
    return erase_below(store, key, false, cancel, err);
}

tg_status tg_node_remove(tg_store *store, const char *path, const tg_cancel *cancel,
                         tg_error *err)
{
    char clean[TG_PATH_BYTES];
    tg_node_kind kind = TG_NODE_GROUP;
    bool found = false;

    TG_TRY(tg_path_normalise(clean, sizeof clean, path, err));
    tg_status st = tg_node_probe(store, clean, &found, &kind, cancel, err);
    if (st == TG_OK && !found)
        return TG_OK;
    if (st != TG_OK && st != TG_CORRUPT)
        return st;
    TG_TRY(tg_node_erase(store, clean, cancel, err));
    return tg_consolidated_drop(store, clean, cancel, err);
}

/* --- A node that takes the place of another whole ------------------------------------------
 */

enum { STAGED_BYTES = TG_PATH_BYTES + 32 };

/* Its name while it is written: no list shows it, and after a kill the next one removes it. */
static size_t staged_name(char *dst, const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t folder = slash == NULL ? 0 : (size_t)(slash - path) + 1;

    (void)snprintf(dst, STAGED_BYTES, "%.*s" TG_STORE_TMP_PREFIX "new-%s", (int)folder, path,
                   path + folder);
    return folder;
}

static tg_status erase_staged(tg_store *store, const char *staged, const tg_cancel *cancel,
                              tg_error *err)
{
    char prefix[STAGED_BYTES + 1];

    (void)snprintf(prefix, sizeof prefix, "%s/", staged);
    return erase_below(store, prefix, true, cancel, err);
}

static tg_status put_in_place(tg_store *store, const char *path, const char *staged,
                              size_t folder, const tg_cancel *cancel, tg_error *err)
{
    const char *from = staged + folder, *to = path + folder;
    char above[STAGED_BYTES];

    (void)snprintf(above, sizeof above, "%.*s", (int)folder, path);
    TG_AUTO(tg_fd)
    dir = tg_sys_open_beneath(tg_store_dir(store), folder == 0 ? "." : above,
                              O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return tg_fail_errno(err, "open the directory of '%s'", path);
    if (tg_sys_swap(dir, from, to) != 0) {
        char prefix[TG_PATH_BYTES + 1];
        (void)snprintf(prefix, sizeof prefix, "%s/", path);
        if (errno != ENOENT) /* it cannot: for a moment there is none */
            TG_TRY(erase_below(store, prefix, true, cancel, err));
        if (tg_sys_rename(dir, from, dir, to) != 0)
            return tg_fail_errno(err, "rename '%s' to '%s'", staged, path);
    }
    TG_TRY(tg_dir_sync(dir, path, err));
    return erase_staged(store, staged, cancel, err);
}

tg_status tg_node_replace(tg_store *store, const char *path, tg_node_maker make, void *user,
                          const tg_cancel *cancel, tg_error *err)
{
    char clean[TG_PATH_BYTES], staged[STAGED_BYTES];

    TG_TRY(tg_path_normalise(clean, sizeof clean, path, err));
    if (tg_store_dir(store) < 0 || clean[0] == '\0') {
        TG_TRY(tg_node_remove(store, clean, cancel, err));
        return make(user, clean, cancel, err);
    }
    const size_t folder = staged_name(staged, clean);
    TG_TRY(erase_staged(store, staged, cancel, err));
    tg_status st = make(user, staged, cancel, err);
    if (st != TG_OK) {
        (void)erase_staged(store, staged, NULL, NULL); /* the failure is told */
        return st;
    }
    TG_TRY(put_in_place(store, clean, staged, folder, cancel, err));
    return tg_consolidated_drop(store, clean, cancel, err);
}
