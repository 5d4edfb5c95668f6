/* Nodes: which documents a path holds, and what they say. Format 3 is looked for
 * first, then an array of format 2, then its group. */
#include "zarr/node.h"

#include "zarr/meta.h"

#include <stdlib.h>
#include <string.h>

struct tg_node {
    tg_node_kind kind;
    int format;
    char *attributes, *metadata;
};

void tg_node_docs_auto(tg_node_docs *d)
{
    tg_buf_free(&d->doc);
    tg_buf_free(&d->attributes);
}

static const struct {
    const char *name;
    int format;
    tg_node_kind kind; /* of format 3: in the document */
} documents[] = {
    {"zarr.json", 3, TG_NODE_GROUP},
    {".zarray", 2, TG_NODE_ARRAY},
    {".zgroup", 2, TG_NODE_GROUP},
};
enum { N_DOCUMENTS = sizeof documents / sizeof documents[0] };

static tg_status get_document(tg_store *store, const char *path, const char *name, tg_buf *out,
                              const tg_cancel *cancel, tg_error *err)
{
    char key[TG_PATH_BYTES + 16];

    TG_TRY(tg_path_join(key, sizeof key, path, name, err));
    return tg_store_get(store, key, tg_range_all(), TG_METADATA_LIMIT, out, cancel, err);
}

static tg_status missing(tg_store *store, const char *path, tg_error *err)
{
    tg_status st = tg_fail(err, TG_NOT_FOUND, "%s: no Zarr metadata at '%.300s'",
                           tg_store_describe(store), path);
    tg_error_at(err, path, TG_NO_OFFSET);
    return st;
}

/* "array" or "group"; what else the document holds is for others to check. */
static tg_status kind_of_v3(const char *path, const tg_buf *doc, tg_node_kind *kind,
                            tg_error *err)
{
    TG_AUTO_PTR(tg_json) json = NULL;
    const tg_json *v = NULL;
    const char *type = NULL;
    bool has_nan = false;

    tg_status st = tg_document_parse(&json, &has_nan, (const char *)doc->data, doc->len, err);
    if (st == TG_OK)
        st = tg_member(json, "node_type", TG_JSON_STRING, &v, err);
    if (st == TG_OK)
        st = tg_json_string(v, &type, NULL, err);
    if (st == TG_OK && strcmp(type, "array") != 0 && strcmp(type, "group") != 0)
        st = tg_fail(err, TG_CORRUPT, "'node_type' is '%.40s', want 'array' or 'group'", type);
    if (st != TG_OK) {
        tg_error_prefix(err, "'%.200s%szarr.json'", path, path[0] == '\0' ? "" : "/");
        return st;
    }
    *kind = type[0] == 'a' ? TG_NODE_ARRAY : TG_NODE_GROUP;
    return TG_OK;
}

tg_status tg_node_load(tg_store *store, const char *path, tg_node_docs *out,
                       const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_node_docs) got = {0};
    tg_status st = TG_NOT_FOUND;
    size_t i = 0;

    for (; i < N_DOCUMENTS && st == TG_NOT_FOUND; i++)
        st = get_document(store, path, documents[i].name, &got.doc, cancel, err);
    if (st == TG_NOT_FOUND)
        return missing(store, path, err);
    if (st != TG_OK)
        return st;
    got.format = documents[i - 1].format;
    got.kind = documents[i - 1].kind;
    if (got.format == 3) {
        TG_TRY(kind_of_v3(path, &got.doc, &got.kind, err));
    } else {
        st = get_document(store, path, ".zattrs", &got.attributes, cancel, err);
        if (st != TG_OK && st != TG_NOT_FOUND)
            return st;
    }
    out->format = got.format;
    out->kind = got.kind;
    tg_buf_move(&out->doc, &got.doc);
    tg_buf_move(&out->attributes, &got.attributes);
    return TG_OK;
}

tg_status tg_node_probe(tg_store *store, const char *path, bool *found, tg_node_kind *kind,
                        const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_node_docs) docs = {0};
    tg_status st = tg_node_load(store, path, &docs, cancel, err);

    *found = st == TG_OK;
    if (st == TG_OK)
        *kind = docs.kind;
    return st == TG_NOT_FOUND ? TG_OK : st;
}

/* --- tg_node -------------------------------------------------------------- */

static tg_status check_group_v3(const tg_json *doc, tg_error *err)
{
    static const char *const known[] = {"zarr_format", "node_type", "attributes",
                                        "consolidated_metadata"};
    const tg_json *v = NULL;
    uint64_t format = 0;

    TG_TRY(tg_member(doc, "zarr_format", TG_JSON_INT, &v, err));
    if (tg_json_u64(v, &format, NULL) != TG_OK || format != 3)
        return tg_fail(err, TG_CORRUPT, "'zarr_format' is not 3");
    for (size_t i = 0; i < tg_json_size(doc); i++) {
        bool is_known = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            is_known |= strcmp(tg_json_key_at(doc, i), known[k]) == 0;
        if (!is_known && !tg_may_ignore(tg_json_at(doc, i)))
            return tg_fail(err, TG_UNSUPPORTED,
                           "unknown member '%s' without \"must_understand\": false",
                           tg_json_key_at(doc, i));
    }
    return TG_OK;
}

static tg_status check_group_v2(const tg_json *doc, tg_error *err)
{
    const tg_json *v = NULL;
    uint64_t format = 0;

    TG_TRY(tg_member(doc, "zarr_format", TG_JSON_INT, &v, err));
    if (tg_json_u64(v, &format, NULL) != TG_OK || format != 2)
        return tg_fail(err, TG_CORRUPT, "'zarr_format' is not 2");
    return TG_OK;
}

static tg_status attributes_text(const tg_json *attributes, char **out, tg_error *err)
{
    if (attributes != NULL && tg_json_kind_of(attributes) != TG_JSON_OBJECT)
        return tg_fail(err, TG_CORRUPT, "attributes: got %s, want an object",
                       tg_json_kind_name(tg_json_kind_of(attributes)));
    if (attributes != NULL)
        return tg_json_write(attributes, true, (tg_json_options){.allow_nan = true}, out, err);
    *out = tg_strdup("{}");
    return *out == NULL ? tg_fail(err, TG_NO_MEMORY, "attributes") : TG_OK;
}

static tg_status fill_node(tg_node *n, const tg_node_docs *docs, tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = NULL;
    TG_AUTO_PTR(tg_json) attributes = NULL;
    bool has_nan = false;

    n->kind = docs->kind;
    n->format = docs->format;
    n->metadata = tg_calloc(docs->doc.len + 1, 1);
    if (n->metadata == NULL)
        return tg_fail(err, TG_NO_MEMORY, "metadata");
    if (docs->doc.len > 0)
        memcpy(n->metadata, docs->doc.data, docs->doc.len);
    TG_TRY(tg_document_parse(&doc, &has_nan, n->metadata, docs->doc.len, err));
    if (n->kind == TG_NODE_GROUP)
        TG_TRY(n->format == 3 ? check_group_v3(doc, err) : check_group_v2(doc, err));
    if (docs->attributes.data != NULL)
        TG_TRY(tg_document_parse(&attributes, &has_nan, (const char *)docs->attributes.data,
                                 docs->attributes.len, err));
    return attributes_text(n->format == 3 ? tg_json_get(doc, "attributes") : attributes,
                           &n->attributes, err);
}

tg_status tg_node_open(tg_store *store, const char *path, tg_node **out,
                       const tg_cancel *cancel, tg_error *err)
{
    char clean[TG_PATH_BYTES];
    TG_AUTO(tg_node_docs) docs = {0};
    TG_AUTO_PTR(tg_node) n = NULL;

    TG_TRY(tg_path_normalise(clean, sizeof clean, path, err));
    TG_TRY(tg_node_load(store, clean, &docs, cancel, err));
    n = tg_calloc(1, sizeof *n);
    if (n == NULL)
        return tg_fail(err, TG_NO_MEMORY, "node");
    tg_status st = fill_node(n, &docs, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "node '%.200s'", clean);
        tg_error_at(err, clean, TG_NO_OFFSET);
        return st;
    }
    *out = tg_steal(n);
    return TG_OK;
}

void tg_node_free(tg_node *n)
{
    if (n == NULL)
        return;
    tg_free(n->attributes);
    tg_free(n->metadata);
    tg_free(n);
}

tg_node_kind tg_node_kind_of(const tg_node *n)
{
    return n->kind;
}

int tg_node_format(const tg_node *n)
{
    return n->format;
}

const char *tg_node_attributes(const tg_node *n)
{
    return n->attributes;
}

const char *tg_node_metadata(const tg_node *n)
{
    return n->metadata;
}

/* --- Children ------------------------------------------------------------- */

/* A list of names that grows; ended by NULL when it is handed out. */
typedef struct names {
    char **at;
    size_t n, cap;
    tg_status status; /* tg_list_fn cannot return one */
} names;

static void names_auto(names *l)
{
    for (size_t i = 0; i < l->n; i++)
        tg_free(l->at[i]);
    tg_free(l->at);
}

static tg_status add_name(void *user, const char *name, size_t len, tg_error *err)
{
    names *l = user;

    if (l->n + 1 >= l->cap) { /* room for the NULL at the end, too */
        size_t cap = l->cap == 0 ? 16 : 2 * l->cap;
        char **more = tg_alloc_array(cap, sizeof *more);
        if (more == NULL)
            return l->status = tg_fail(err, TG_NO_MEMORY, "list of names");
        if (l->n > 0)
            memcpy(more, l->at, l->n * sizeof *more);
        tg_free(l->at);
        l->at = more;
        l->cap = cap;
    }
    char *copy = tg_calloc(len + 1, 1);
    if (copy == NULL)
        return l->status = tg_fail(err, TG_NO_MEMORY, "list of names");
    memcpy(copy, name, len);
    l->at[l->n++] = copy;
    l->at[l->n] = NULL;
    return TG_OK;
}

/* A directory: "name/". */
static bool add_listed(void *user, const char *name)
{
    size_t len = strlen(name);
    return len < 2 || name[len - 1] != '/' || add_name(user, name, len - 1, NULL) == TG_OK;
}

static tg_status has_document(tg_store *store, const char *path, bool *has,
                              const tg_cancel *cancel, tg_error *err)
{
    char key[TG_PATH_BYTES + 16];
    uint64_t bytes = 0;
    tg_status st = TG_NOT_FOUND;

    for (size_t i = 0; i < N_DOCUMENTS && st == TG_NOT_FOUND; i++) {
        TG_TRY(tg_path_join(key, sizeof key, path, documents[i].name, err));
        st = tg_store_size(store, key, &bytes, cancel, err);
    }
    *has = st == TG_OK;
    return st == TG_NOT_FOUND ? TG_OK : st;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted, once each, and only what is a node: a directory of chunks is none, nor is a child
 * that consolidated metadata still names though it is gone. */
static tg_status keep_nodes(tg_store *store, const char *path, names *l,
                            const tg_cancel *cancel, tg_error *err)
{
    char child[TG_PATH_BYTES];
    size_t kept = 0;

    if (l->n > 1)
        qsort(l->at, l->n, sizeof *l->at, by_text);
    for (size_t i = 0; i < l->n; i++) {
        bool is_node = tg_node_name_ok(l->at[i]) &&
                       (kept == 0 || strcmp(l->at[kept - 1], l->at[i]) != 0) &&
                       tg_path_join(child, sizeof child, path, l->at[i], NULL) == TG_OK;
        if (is_node)
            TG_TRY(has_document(store, child, &is_node, cancel, err));
        if (is_node) {
            char *name = l->at[i];
            l->at[i] = l->at[kept];
            l->at[kept++] = name;
        }
    }
    while (l->n > kept) {
        tg_free(l->at[--l->n]);
        l->at[l->n] = NULL;
    }
    return TG_OK;
}

static tg_status list_children(tg_store *store, const char *path, names *l,
                               const tg_cancel *cancel, tg_error *err)
{
    char prefix[TG_PATH_BYTES + 1];

    size_t len = strlen(path);
    memcpy(prefix, path, len);
    memcpy(prefix + len, len == 0 ? "" : "/", len == 0 ? 1 : 2);
    tg_status st = tg_store_list(store, prefix, add_listed, l, cancel, err);
    if (st == TG_UNSUPPORTED)
        st = tg_consolidated_children(store, path, add_name, l, cancel, err);
    if (st == TG_OK && l->status != TG_OK)
        st = tg_fail(err, l->status, "list of names");
    return st;
}

tg_status tg_node_children(tg_store *store, const char *path, char ***out,
                           const tg_cancel *cancel, tg_error *err)
{
    char clean[TG_PATH_BYTES];
    TG_AUTO(names) l = {0};
    TG_AUTO(tg_node_docs) docs = {0};

    TG_TRY(tg_path_normalise(clean, sizeof clean, path, err));
    TG_TRY(tg_node_load(store, clean, &docs, cancel, err));
    if (docs.kind == TG_NODE_GROUP) { /* below an array lie chunks */
        TG_TRY(list_children(store, clean, &l, cancel, err));
        TG_TRY(keep_nodes(store, clean, &l, cancel, err));
    }
    if (l.at == NULL) {
        l.at = tg_calloc(1, sizeof *l.at);
        if (l.at == NULL)
            return tg_fail(err, TG_NO_MEMORY, "list of names");
    }
    *out = tg_steal(l.at);
    l.n = 0;
    return TG_OK;
}

void tg_names_free(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        tg_free(list[i]);
    tg_free(list);
}
