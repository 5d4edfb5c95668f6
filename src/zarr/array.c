/* Arrays: made, opened, resized. What lies in their chunks is the business of
 * array_read.c and array_write.c. */
#include "zarr/array.h"

#include "zarr/node.h"

#include <inttypes.h>
#include <string.h>

void tg_array_free(tg_array *a)
{
    if (a == NULL)
        return;
    tg_array_meta_free(a->meta);
    tg_free(a->path);
    tg_free(a);
}

const char *tg_array_path(const tg_array *a)
{
    return a->path;
}

const tg_array_meta *tg_array_get_meta(const tg_array *a)
{
    return a->meta;
}

tg_store *tg_array_get_store(const tg_array *a)
{
    return a->store;
}

size_t tg_array_worst_bytes(const tg_array *a)
{
    return a->worst_bytes;
}

const char *tg_array_fill_text(const tg_array *a, size_t *len)
{
    return tg_array_meta_fill_text(a->meta, len);
}

tg_status tg_array_get_info(const tg_array *a, tg_array_info *info, tg_error *err)
{
    const size_t size = info->size;

    if (size == 0)
        return tg_fail(err, TG_INVALID, "array info: 'size' is not set");
    memcpy(info, &a->meta->info, size < sizeof *info ? size : sizeof *info);
    info->size = size;
    return TG_OK;
}

/* --- Coordinates ----------------------------------------------------------- */

void tg_unit_key(const tg_array *a, const uint64_t *unit_index, char key[TG_KEY_BYTES])
{
    size_t n = strlen(a->path);

    memcpy(key, a->path, n);
    if (n > 0)
        key[n++] = '/';
    tg_chunk_key(a->meta, unit_index, key + n);
}

tg_status tg_chunk_box(const tg_array *a, bool unit, const uint64_t *index, tg_box *box,
                       tg_error *err)
{
    if (!tg_grid_chunk_box(index, unit ? &a->meta->shard : &a->meta->chunk, box))
        return tg_fail(err, TG_INVALID, "array '%.200s': a chunk ends beyond 2^64 items",
                       a->path);
    return TG_OK;
}

tg_status tg_request_box(const tg_array *a, const uint64_t *start, const uint64_t *count,
                         tg_box *box, tg_error *err)
{
    const tg_array_info *info = &a->meta->info;

    box->shape.ndim = info->ndim;
    for (uint32_t i = 0; i < info->ndim; i++) {
        if (start[i] > info->shape[i] || count[i] > info->shape[i] - start[i])
            return tg_fail(err, TG_INVALID,
                           "array '%.200s': %" PRIu64 " items from %" PRIu64
                           " in dimension %" PRIu32 ", it has %" PRIu64,
                           a->path, count[i], start[i], i, info->shape[i]);
        box->start[i] = start[i];
        box->shape.n[i] = count[i];
    }
    return TG_OK;
}

bool tg_covers(const tg_array *a, const tg_box *request, const tg_box *box)
{
    const tg_array_info *info = &a->meta->info;

    for (uint32_t i = 0; i < info->ndim; i++) {
        uint64_t end = box->start[i] + box->shape.n[i];
        if (end > info->shape[i])
            end = info->shape[i];
        if (box->start[i] < request->start[i] || end > request->start[i] + request->shape.n[i])
            return false;
    }
    return true;
}

/* --- Opening --------------------------------------------------------------- */

static tg_status new_array(tg_store *store, const char *path, tg_array_meta *meta,
                           tg_array **out, tg_error *err)
{
    TG_AUTO_PTR(tg_array_meta) owned = meta;
    TG_AUTO_PTR(tg_array) a = tg_calloc(1, sizeof *a);

    if (a == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array");
    a->meta = tg_steal(owned);
    a->store = store;
    a->path = tg_strdup(path);
    if (a->path == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array");
    a->worst_bytes = tg_worst_bytes(a->meta, tg_store_caps(store));
    *out = tg_steal(a);
    return TG_OK;
}

typedef struct probe {
    bool nested, flat;
} probe;

static bool look_at_name(void *user, const char *name)
{
    probe *p = user;
    size_t digits = strspn(name, "0123456789");

    if (digits > 0 && name[digits] == '/')
        p->nested = true;
    else if (digits > 0 && (name[digits] == '.' || name[digits] == '\0'))
        p->flat = true;
    return !p->nested && !p->flat;
}

/* Writers in Java and n5 nested their chunks and did not say so: the first chunk in the store
 * tells. A store that cannot list is taken at its word. */
static tg_status find_separator(tg_store *store, const char *path, tg_array_meta *m,
                                const tg_cancel *cancel, tg_error *err)
{
    char prefix[TG_PATH_BYTES + 1];
    probe p = {false, false};
    size_t n = strlen(path);

    if (m->info.format != 2 || m->separator_said || m->info.ndim < 2)
        return TG_OK;
    memcpy(prefix, path, n);
    memcpy(prefix + n, n == 0 ? "" : "/", n == 0 ? 1 : 2);
    tg_status st = tg_store_list(store, prefix, look_at_name, &p, cancel, err);
    if (st != TG_OK && st != TG_UNSUPPORTED)
        return st;
    if (p.nested)
        m->separator = '/';
    return TG_OK;
}

static tg_status parse_docs(const tg_node_docs *docs, tg_array_meta **m, tg_error *err)
{
    const char *text = (const char *)docs->doc.data;
    const char *attributes = (const char *)docs->attributes.data;

    return docs->format == 3 ? tg_array_meta_parse_v3(m, text, docs->doc.len, err)
                             : tg_array_meta_parse_v2(m, text, docs->doc.len, attributes,
                                                      docs->attributes.len, err);
}

tg_status tg_array_open(tg_store *store, const char *path, tg_array **out,
                        const tg_cancel *cancel, tg_error *err)
{
    char clean[TG_PATH_BYTES];
    TG_AUTO(tg_node_docs) docs = {0};
    TG_AUTO_PTR(tg_array_meta) m = NULL;

    TG_TRY(tg_path_normalise(clean, sizeof clean, path, err));
    TG_TRY(tg_node_load(store, clean, &docs, cancel, err));
    if (docs.kind != TG_NODE_ARRAY)
        return tg_fail(err, TG_INVALID, "%s: '%.300s' is a group, want an array",
                       tg_store_describe(store), clean);
    tg_status st = parse_docs(&docs, &m, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "array '%.200s'", clean);
        tg_error_at(err, clean, TG_NO_OFFSET);
        return st;
    }
    TG_TRY(find_separator(store, clean, m, cancel, err));
    return new_array(store, clean, tg_steal(m), out, err);
}

/* --- Creating -------------------------------------------------------------- */

typedef struct stale {
    const tg_array_meta *m;
    bool found;
    tg_text folders; /* that may hold some, each name ended by NUL */
} stale;

static void stale_auto(stale *s)
{
    tg_text_free(&s->folders);
}

/* Would this name be a chunk of the new array, or lead to one? */
static bool look_for_chunks(void *user, const char *name)
{
    stale *s = user;
    const size_t n = strlen(name);
    bool found;

    if (s->m->key_v2)
        found = name[0] >= '0' && name[0] <= '9' && strspn(name, "0123456789./") == n;
    else
        found = name[0] == 'c' && (name[1] == '\0' || name[1] == s->m->separator);
    if (found && name[n - 1] == '/')
        tg_text_add_n(&s->folders, name, n + 1);
    else
        s->found = found;
    return !s->found;
}

/* Chunks that someone left behind would come to life with the metadata. */
static tg_status refuse_stale_chunks(tg_store *store, const char *path, const tg_array_meta *m,
                                     const tg_cancel *cancel, tg_error *err)
{
    char prefix[TG_PATH_BYTES + 1];
    TG_AUTO(stale) s = {.m = m};
    TG_AUTO(tg_text) below = {0};
    size_t n = strlen(path);

    memcpy(prefix, path, n);
    memcpy(prefix + n, n == 0 ? "" : "/", n == 0 ? 1 : 2);
    tg_status st = tg_store_list(store, prefix, look_for_chunks, &s, cancel, err);
    if (st != TG_OK)
        return st == TG_UNSUPPORTED ? TG_OK : st;
    TG_TRY(tg_text_status(&s.folders, err));
    for (size_t at = 0; at < s.folders.len && !s.found; at += strlen(s.folders.data + at) + 1) {
        below.len = 0;
        tg_text_add(&below, prefix);
        tg_text_add(&below, s.folders.data + at);
        TG_TRY(tg_text_status(&below, err));
        TG_TRY(tg_node_has_keys(store, below.data, &s.found, cancel, err));
    }
    if (s.found)
        return tg_fail(err, TG_EXISTS,
                       "%s: '%.200s' has chunks but no metadata; overwrite removes them",
                       tg_store_describe(store), path);
    return TG_OK;
}

static tg_status make_room(tg_store *store, const char *path, const tg_array_meta *m,
                           bool overwrite, const tg_cancel *cancel, tg_error *err)
{
    tg_node_kind kind = TG_NODE_GROUP;
    bool found = false;

    tg_status st = tg_node_probe(store, path, &found, &kind, cancel, err);
    if (overwrite && (st == TG_CORRUPT || found))
        return tg_node_erase(store, path, cancel, err);
    if (st != TG_OK)
        return st;
    if (found)
        return tg_fail(err, TG_EXISTS, "%s: '%.300s' is %s already", tg_store_describe(store),
                       path, kind == TG_NODE_ARRAY ? "an array" : "a group");
    st = refuse_stale_chunks(store, path, m, cancel, err);
    return st == TG_EXISTS && overwrite ? tg_node_erase(store, path, cancel, err) : st;
}

static tg_status store_meta(tg_array *a, const uint64_t *shape, bool is_new,
                            const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_str) doc = NULL;
    TG_AUTO(tg_str) attrs_doc = NULL;

    TG_TRY(tg_array_meta_write(a->meta, shape, NULL, &doc, &attrs_doc, err));
    return tg_node_store(a->store, a->path, a->meta->info.format == 3 ? "zarr.json" : ".zarray",
                         doc, is_new ? attrs_doc : NULL, is_new, cancel, err);
}

tg_status tg_array_create(tg_store *store, const char *path, const tg_array_options *options,
                          tg_array **out, const tg_cancel *cancel, tg_error *err)
{
    char clean[TG_PATH_BYTES];
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;

    TG_TRY(tg_path_normalise(clean, sizeof clean, path, err));
    TG_TRY(tg_node_path_check(clean, err));
    TG_TRY(tg_array_meta_new(&m, options, err));
    TG_TRY(make_room(store, clean, m, options->overwrite, cancel, err));
    TG_TRY(tg_make_ancestors(store, clean, m->info.format, cancel, err));
    TG_TRY(new_array(store, clean, tg_steal(m), &a, err));
    TG_TRY(store_meta(a, a->meta->info.shape, true, cancel, err));
    TG_TRY(tg_consolidated_drop(store, clean, cancel, err));
    *out = tg_steal(a);
    return TG_OK;
}

tg_status tg_array_unpublished(tg_store *store, const char *path, tg_array_meta *meta,
                               tg_array **out, tg_error *err)
{
    TG_AUTO_PTR(tg_array_meta) owned = meta;
    char clean[TG_PATH_BYTES];

    TG_TRY(tg_path_normalise(clean, sizeof clean, path, err));
    TG_TRY(tg_node_path_check(clean, err));
    return new_array(store, clean, tg_steal(owned), out, err);
}

tg_status tg_array_publish(tg_array *a, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_str) doc = NULL;
    TG_AUTO(tg_str) attrs_doc = NULL;

    /* Not as a new one: who takes work up again may have come to this before. */
    TG_TRY(tg_array_meta_write(a->meta, a->meta->info.shape, NULL, &doc, &attrs_doc, err));
    return tg_node_store(a->store, a->path, a->meta->info.format == 3 ? "zarr.json" : ".zarray",
                         doc, attrs_doc, false, cancel, err);
}

/* --- Resizing -------------------------------------------------------------- */

/* Units to be removed: indexes, ndim numbers each. */
typedef struct doomed {
    const tg_shape *grid; /* of the units that stay */
    tg_text indexes;
} doomed;

static void doomed_auto(doomed *d)
{
    tg_text_free(&d->indexes);
}

static tg_status note_outside(void *user, const uint64_t *index, tg_error *err)
{
    doomed *d = user;
    bool outside = false;

    for (uint32_t i = 0; i < d->grid->ndim; i++)
        outside |= index[i] >= d->grid->n[i];
    if (outside)
        tg_text_add_n(&d->indexes, (const char *)index, d->grid->ndim * sizeof *index);
    return tg_text_status(&d->indexes, err);
}

/* By what is stored, not by what could be: the shape may be huge and nearly empty. */
static tg_status remove_outside(tg_array *a, const uint64_t *shape, const tg_cancel *cancel,
                                tg_error *err)
{
    char key[TG_KEY_BYTES];
    uint64_t index[TG_MAX_NDIM];
    tg_shape grid = {0}, extents = {.ndim = a->meta->info.ndim};
    const size_t bytes = extents.ndim * sizeof *index;

    memcpy(extents.n, shape, bytes);
    tg_grid_shape(&extents, &a->meta->shard, &grid);
    TG_AUTO(doomed) d = {.grid = &grid};
    TG_TRY(tg_unit_list(a, note_outside, &d, cancel, err));
    for (size_t at = 0; at < d.indexes.len; at += bytes) {
        memcpy(index, d.indexes.data + at, bytes);
        tg_unit_key(a, index, key);
        tg_status st = tg_store_remove(a->store, key, cancel, err);
        if (st != TG_OK && st != TG_NOT_FOUND)
            return st;
    }
    return TG_OK;
}

void tg_array_set_shape(tg_array *a, const uint64_t *shape)
{
    memcpy(a->meta->info.shape, shape, a->meta->info.ndim * sizeof shape[0]);
}

tg_status tg_array_resize(tg_array *a, const uint64_t *shape, const tg_cancel *cancel,
                          tg_error *err)
{
    tg_array_info *info = &a->meta->info;
    bool shrinks = false;

    for (uint32_t i = 0; i < info->ndim; i++)
        shrinks |= shape[i] < info->shape[i];
    if (shrinks)
        TG_TRY(remove_outside(a, shape, cancel, err));
    TG_TRY(store_meta(a, shape, false, cancel, err));
    tg_array_set_shape(a, shape);
    return tg_consolidated_drop(a->store, a->path, cancel, err);
}
