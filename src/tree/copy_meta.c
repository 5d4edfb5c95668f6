/* copy: the documents of what is made. Same format: the source's document with the members that
 * change; other format: a new one, with all that the format has a place for. */
#include "nd/convert.h"
#include "tree/copy.h"
#include "zarr/node.h"

#include <string.h>

/* How an array is to be laid out. */
typedef struct layout {
    int format;
    tg_dtype dtype;
    uint64_t chunk[TG_MAX_NDIM], shard[TG_MAX_NDIM];
    bool sharded;
    bool same_format, same_type, same_layout, same_codec;
} layout;

static bool is_number(tg_dtype t)
{
    return t.kind != TG_DT_STRING && t.kind != TG_DT_RAW && t.kind != TG_DT_NONE;
}

static tg_status choose_type(const copy_job *j, const tg_array *a, layout *l, tg_error *err)
{
    const tg_array_info *info = &a->meta->info;
    const tg_dtype want = j->o->dtype;
    const bool alone = strcmp(a->path, j->src_path) == 0;
    char from[16], to[16];

    l->dtype = info->dtype;
    if (want.kind != TG_DT_NONE && (alone || (info->ndim >= 2 && is_number(info->dtype))))
        l->dtype = want;
    l->same_type = l->dtype.kind == info->dtype.kind && l->dtype.size == info->dtype.size;
    if (tg_nd_can_convert(info->dtype, l->dtype))
        return TG_OK;
    return tg_fail(err, TG_UNSUPPORTED, "%s cannot become %s", tg_dtype_name(info->dtype, from),
                   tg_dtype_name(l->dtype, to));
}

static tg_status choose_layout(const copy_job *j, const tg_array *a, layout *l, tg_error *err)
{
    const tg_array_info *info = &a->meta->info;
    const tg_copy_options *o = j->o;
    const size_t bytes = info->ndim * sizeof l->chunk[0];
    const bool given = o->shard_ndim > 0 && o->shard_ndim == info->ndim;

    l->format = o->format == 0 ? info->format : o->format;
    l->same_format = l->format == info->format;
    l->same_codec = o->codec == NULL;
    TG_TRY(choose_type(j, a, l, err));
    memcpy(l->chunk, o->chunk_ndim > 0 && o->chunk_ndim == info->ndim ? o->chunk : info->chunk,
           bytes);
    l->sharded = given || (info->sharded && !o->no_shards && l->format == 3);
    memcpy(l->shard, given ? o->shard : l->sharded ? info->shard : l->chunk, bytes);
    l->same_layout = l->sharded == info->sharded && memcmp(l->chunk, info->chunk, bytes) == 0 &&
                     memcmp(l->shard, info->shard, bytes) == 0;
    for (uint32_t i = 0; i < info->ndim; i++)
        if (l->shard[i] % l->chunk[i] != 0)
            return tg_fail(err, TG_INVALID,
                           "the shard's extent %u is %llu, no multiple of the chunk's %llu: "
                           "give shards that are, or none",
                           (unsigned)i, (unsigned long long)l->shard[i],
                           (unsigned long long)l->chunk[i]);
    return TG_OK;
}

/* --- Pieces --------------------------------------------------------------------- */

/* The converted fill value; NULL: zero, or (strings) empty. */
static tg_status make_fill(const tg_array *a, const layout *l, tg_buf *room, const void **fill,
                           tg_error *err)
{
    const tg_array_meta *m = a->meta;

    *fill = NULL;
    if (!m->info.has_fill)
        return TG_OK;
    if (l->dtype.kind == TG_DT_STRING) {
        *fill = tg_array_meta_fill_text(m, NULL);
        return TG_OK;
    }
    TG_TRY(tg_buf_resize(room, l->dtype.size, err));
    (void)tg_nd_convert(room->data, l->dtype, m->fill.data, m->info.dtype, 1);
    *fill = room->data;
    return TG_OK;
}

/* The source's codecs in format 3's words, without crc32c where the format has none; "typesize"
 * follows the type. */
static tg_status source_codecs(const tg_array *a, const layout *l, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) all = NULL;
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();

    TG_TRY(tg_chain_write_v3(a->meta->chain, &all, err));
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "codecs");
    for (size_t i = 0; i < tg_json_size(all); i++) {
        TG_AUTO_PTR(tg_json) codec = NULL;
        const char *name = "";
        TG_TRY(tg_json_copy(&codec, tg_json_at(all, i), err));
        TG_TRY(tg_json_string(tg_json_get(codec, "name"), &name, NULL, err));
        if (l->format == 2 && strcmp(name, "crc32c") == 0)
            continue;
        tg_json *configuration = tg_json_get_mutable(codec, "configuration");
        if (!l->same_type && configuration != NULL &&
            tg_json_get(configuration, "typesize") != NULL)
            TG_TRY(tg_json_set(configuration, "typesize", tg_json_new_u64(l->dtype.size), err));
        if (!l->same_type && strcmp(name, "bytes") == 0) {
            tg_json_remove(codec, "configuration");
            tg_json *endian = tg_json_new_object();
            TG_TRY(tg_json_set(codec, "configuration", endian, err));
            TG_TRY(tg_json_set(tg_json_get_mutable(codec, "configuration"), "endian",
                               tg_json_new_string("little"), err));
        }
        TG_TRY(tg_json_append(list, tg_steal(codec), err));
    }
    *out = tg_steal(list);
    return TG_OK;
}

static tg_status set_copy(tg_json *doc, const char *key, const tg_json *v, tg_error *err)
{
    tg_json *copy = NULL;

    if (v == NULL)
        return TG_OK;
    TG_TRY(tg_json_copy(&copy, v, err));
    return tg_json_set(doc, key, copy, err);
}

/* The codecs of the source in a document that has none of its own. */
static tg_status put_codecs(const tg_array *a, const layout *l, tg_json *doc, tg_error *err)
{
    TG_AUTO_PTR(tg_json) codecs = NULL;
    TG_AUTO_PTR(tg_json) filters = NULL;
    TG_AUTO_PTR(tg_json) compressor = NULL;
    TG_AUTO_PTR(tg_chain) chain = NULL;
    TG_AUTO_PTR(tg_json) sharding = NULL;
    TG_AUTO_PTR(tg_json) list = NULL;
    tg_shape chunk = {.ndim = a->meta->info.ndim};

    TG_TRY(source_codecs(a, l, &codecs, err));
    if (l->format == 3 && !l->sharded)
        return tg_json_set(doc, "codecs", tg_steal(codecs), err);
    if (l->format == 3) {
        TG_TRY(tg_json_copy(&sharding, tg_json_at(tg_json_get(doc, "codecs"), 0), err));
        TG_TRY(tg_json_set(tg_json_get_mutable(sharding, "configuration"), "codecs",
                           tg_steal(codecs), err));
        list = tg_json_new_array();
        if (list == NULL)
            return tg_fail(err, TG_NO_MEMORY, "codecs");
        TG_TRY(tg_json_append(list, tg_steal(sharding), err));
        return tg_json_set(doc, "codecs", tg_steal(list), err);
    }
    memcpy(chunk.n, l->chunk, sizeof chunk.n);
    tg_status st = tg_chain_open_v3(&chain, codecs, l->dtype, &chunk, err);
    if (st == TG_OK)
        st = tg_chain_write_v2(chain, &filters, &compressor, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "the codecs have no form in format 2 (name another)");
        return st;
    }
    TG_TRY(tg_json_set(doc, "filters", tg_steal(filters), err));
    return tg_json_set(doc, "compressor", tg_steal(compressor), err);
}

/* --- Attributes ------------------------------------------------------------------- */

#define DIMENSIONS "_ARRAY_DIMENSIONS" /* xarray's, where the format has no names */

static tg_status names_to_attribute(const tg_array_info *info, tg_json *attributes,
                                    tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();

    if (info->ndim == 0 || tg_json_get(attributes, DIMENSIONS) != NULL)
        return TG_OK;
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "attributes");
    for (uint32_t i = 0; i < info->ndim; i++) {
        if (info->dimension_name[i] == NULL)
            return TG_OK;
        TG_TRY(tg_json_append(list, tg_json_new_string(info->dimension_name[i]), err));
    }
    return tg_json_set(attributes, DIMENSIONS, tg_steal(list), err);
}

/* "dimension_names" of a new v3 document, from xarray's attribute, which then goes, or OME's
 * axes. */
static tg_status attribute_to_names(const tg_array_info *info, tg_json *attributes,
                                    const char *const *names, tg_json *doc, tg_error *err)
{
    const tg_json *said = tg_json_get(attributes, DIMENSIONS);
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    bool usable = info->ndim > 0 && tg_json_size(said) == info->ndim;

    for (uint32_t i = 0; i < info->ndim && usable; i++)
        usable = tg_json_kind_of(tg_json_at(said, i)) == TG_JSON_STRING;
    if (names == NULL && usable) {
        TG_TRY(set_copy(doc, "dimension_names", said, err));
        tg_json_remove(attributes, DIMENSIONS);
        return TG_OK;
    }
    if (names == NULL)
        return TG_OK;
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "names of dimensions");
    for (uint32_t i = 0; i < info->ndim; i++)
        TG_TRY(tg_json_append(list, tg_json_new_string(names[i]), err));
    return tg_json_set(doc, "dimension_names", tg_steal(list), err);
}

/* --- The document ------------------------------------------------------------------ */

static tg_status as_source(const tg_array *a, const tg_box *box, tg_array_meta **out,
                           tg_error *err)
{
    TG_AUTO(tg_str) doc = NULL;
    TG_AUTO(tg_str) attributes = NULL;

    TG_TRY(tg_array_meta_write(a->meta, box->shape.n, NULL, &doc, &attributes, err));
    if (a->meta->info.format == 3)
        return tg_array_meta_parse_v3(out, doc, strlen(doc), err);
    return tg_array_meta_parse_v2(out, doc, strlen(doc), attributes,
                                  attributes == NULL ? 0 : strlen(attributes), err);
}

static tg_status new_document(const tg_array *a, const tg_box *box, const layout *l,
                              const char *codec, tg_json **out, tg_error *err)
{
    const tg_array_meta *m = a->meta;
    TG_AUTO(tg_buf) room = {0};
    TG_AUTO_PTR(tg_array_meta) made = NULL;
    tg_array_options o = {.size = sizeof o,
                          .format = l->format,
                          .dtype = l->dtype,
                          .ndim = m->info.ndim,
                          .shape = box->shape.n,
                          .chunk = l->chunk,
                          .shard = l->sharded ? l->shard : NULL,
                          .index_at_start = m->index_at_start,
                          .codec = codec,
                          .no_checksum = codec == NULL};

    TG_TRY(make_fill(a, l, &room, &o.fill, err));
    TG_TRY(tg_array_meta_new(&made, &o, err));
    return tg_json_copy(out, made->doc, err);
}

/* The source's document with what changes taken from `made`. */
static tg_status change_document(const tg_array *a, const layout *l, const tg_json *made,
                                 tg_json **out, tg_error *err)
{
    static const char *const v3[] = {"shape", "chunk_grid", "codecs"};
    static const char *const v2[] = {"shape", "chunks", "compressor", "filters"};
    TG_AUTO_PTR(tg_json) doc = NULL;
    const char *const *keys = l->format == 3 ? v3 : v2;

    TG_TRY(tg_json_copy(&doc, a->meta->doc, err));
    for (size_t i = 0; i < (l->format == 3 ? 3u : 4u); i++)
        TG_TRY(set_copy(doc, keys[i], tg_json_get(made, keys[i]), err));
    if (!l->same_type) {
        const char *type = l->format == 3 ? "data_type" : "dtype";
        TG_TRY(set_copy(doc, type, tg_json_get(made, type), err));
        if (a->meta->info.has_fill)
            TG_TRY(set_copy(doc, "fill_value", tg_json_get(made, "fill_value"), err));
    }
    *out = tg_steal(doc);
    return TG_OK;
}

/* With attributes in the other format's form. */
static tg_status dress_document(const tg_array *a, const char *const *names, tg_json *doc,
                                int format, tg_json **attributes, tg_error *err)
{
    const tg_array_info *info = &a->meta->info;

    TG_TRY(tg_json_copy(attributes, tg_array_meta_attributes(a->meta), err));
    TG_TRY(copy_ome(attributes, info->format, format, err));
    if (format == 2)
        return names_to_attribute(info, *attributes, err);
    TG_TRY(attribute_to_names(info, *attributes, names, doc, err));
    return set_copy(doc, "attributes", *attributes, err);
}

static tg_status make_meta(const copy_job *j, const tg_array *a, const tg_box *box,
                           const char *const *names, const layout *l, tg_array_meta **out,
                           tg_error *err)
{
    TG_AUTO_PTR(tg_json) made = NULL;
    TG_AUTO_PTR(tg_json) doc = NULL;
    TG_AUTO_PTR(tg_json) attributes = NULL;
    const bool has_nan = a->meta->has_nan;

    TG_TRY(new_document(a, box, l, j->o->codec, &made, err));
    if (l->same_codec)
        TG_TRY(put_codecs(a, l, made, err));
    if (l->same_format) {
        TG_TRY(change_document(a, l, made, &doc, err));
        if (l->format == 2)
            TG_TRY(tg_json_copy(&attributes, tg_array_meta_attributes(a->meta), err));
    } else {
        doc = tg_steal(made);
        TG_TRY(dress_document(a, names, doc, l->format, &attributes, err));
    }
    if (l->format == 3)
        return tg_array_meta_from_v3(out, tg_steal(doc), has_nan, err);
    return tg_array_meta_from_v2(out, tg_steal(doc), tg_steal(attributes), has_nan, err);
}

tg_status copy_array_meta(const copy_job *j, const tg_array *a, const tg_box *box,
                          const char *const *names, tg_array_meta **out, tg_error *err)
{
    layout l = {0};

    tg_status st = choose_layout(j, a, &l, err);
    if (st == TG_OK && l.same_format && l.same_type && l.same_layout && l.same_codec)
        st = as_source(a, box, out, err);
    else if (st == TG_OK)
        st = make_meta(j, a, box, names, &l, out, err);
    if (st != TG_OK)
        tg_error_prefix(err, "array '%.200s'", a->path);
    return st;
}

/* --- Groups ----------------------------------------------------------------------- */

static tg_status put_document(const copy_job *j, const char *path, const char *name,
                              const char *text, tg_error *err)
{
    char key[TG_PATH_BYTES + 16];

    TG_TRY(tg_path_join(key, sizeof key, path, name, err));
    return tg_store_put(j->dst, key, text, strlen(text), j->cancel, err);
}

/* Format 3 as it is, but for what was gathered of it and is not true here. */
static tg_status group_v3(const copy_job *j, const char *to, const tg_node *n, tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = NULL;
    TG_AUTO(tg_str) text = NULL;
    const char *from = tg_node_metadata(n);
    bool has_nan = false;

    TG_TRY(tg_document_parse(&doc, &has_nan, from, strlen(from), err));
    tg_json_remove(doc, "consolidated_metadata");
    TG_TRY(tg_json_write(doc, true, (tg_json_options){.allow_nan = has_nan}, &text, err));
    return put_document(j, to, "zarr.json", text, err);
}

/* A group of format 3 that may hold bare NaN in its attributes. */
static tg_status group_document(const tg_json *attributes, char **text, tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = tg_json_new_object();

    if (doc == NULL)
        return tg_fail(err, TG_NO_MEMORY, "group metadata");
    TG_TRY(tg_json_set(doc, "zarr_format", tg_json_new_u64(3), err));
    TG_TRY(tg_json_set(doc, "node_type", tg_json_new_string("group"), err));
    TG_TRY(set_copy(doc, "attributes", attributes, err));
    return tg_json_write(doc, true, (tg_json_options){.allow_nan = true}, text, err);
}

tg_status copy_group(const copy_job *j, const char *from, const char *to, tg_error *err)
{
    TG_AUTO_PTR(tg_node) n = NULL;
    TG_AUTO_PTR(tg_json) attributes = NULL;
    TG_AUTO(tg_str) text = NULL;

    TG_TRY(tg_node_open(j->src, from, &n, j->cancel, err));
    const int had = tg_node_format(n), format = j->o->format == 0 ? had : j->o->format;
    const char *said = tg_node_attributes(n);
    if (had == 3 && format == 3)
        return group_v3(j, to, n, err);
    TG_TRY(tg_json_parse(&attributes, said, strlen(said), (tg_json_options){.allow_nan = true},
                         err));
    TG_TRY(copy_ome(&attributes, had, format, err));
    if (format == 3) {
        TG_TRY(group_document(attributes, &text, err));
        return put_document(j, to, "zarr.json", text, err);
    }
    if (tg_json_size(attributes) > 0) {
        TG_TRY(
            tg_json_write(attributes, true, (tg_json_options){.allow_nan = true}, &text, err));
        TG_TRY(put_document(j, to, ".zattrs", text, err));
    }
    return put_document(j, to, ".zgroup", "{\n  \"zarr_format\": 2\n}", err);
}
