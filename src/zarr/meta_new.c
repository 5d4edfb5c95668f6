/* Metadata from options. The document is made first and then read like any other,
 * so that what we write is what we understand. */
#include "zarr/fill.h"
#include "zarr/meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- What the options ask for -------------------------------------------- */

/* Options checked and completed: format and separator set, chunk and shard whole. */
typedef struct plan {
    const tg_array_options *o;
    int format;
    char separator;
    tg_shape chunk, shard;
} plan;

static tg_status check_extents(const plan *p, tg_error *err)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < p->o->ndim; i++) {
        if (p->chunk.n[i] == 0 || p->shard.n[i] == 0)
            return tg_fail(err, TG_INVALID, "chunk extent %" PRIu32 " is 0", i);
        if (p->shard.n[i] % p->chunk.n[i] != 0)
            return tg_fail(err, TG_INVALID,
                           "shard extent %" PRIu32 " is %" PRIu64
                           ", no multiple of the chunk's %" PRIu64,
                           i, p->shard.n[i], p->chunk.n[i]);
    }
    return tg_shape_bytes(&p->shard, p->o->dtype.size == 0 ? 8 : p->o->dtype.size, &bytes, err);
}

static tg_status check_options(plan *p, tg_error *err)
{
    const tg_array_options *o = p->o;

    if (o->size < sizeof *o)
        return tg_fail(err, TG_INVALID, "options: 'size' is not set");
    p->format = o->format == 0 ? 3 : o->format;
    p->separator = o->separator == 0 ? '/' : o->separator;
    if (p->format != 2 && p->format != 3)
        return tg_fail(err, TG_INVALID, "zarr format %d, want 2 or 3", o->format);
    if (o->dtype.kind == TG_DT_NONE)
        return tg_fail(err, TG_INVALID, "options: no dtype");
    if (o->ndim > TG_MAX_NDIM)
        return tg_fail(err, TG_INVALID, "%" PRIu32 " dimensions, at most %d are supported",
                       o->ndim, TG_MAX_NDIM);
    if (p->separator != '/' && p->separator != '.')
        return tg_fail(err, TG_INVALID, "separator '%c', want '/' or '.'", p->separator);
    if (p->format == 2 && (o->shard != NULL || o->dimension_names != NULL))
        return tg_fail(err, TG_INVALID, "%s: not in Zarr format 2",
                       o->shard != NULL ? "shards" : "dimension names");
    p->chunk.ndim = p->shard.ndim = o->ndim;
    for (uint32_t i = 0; i < o->ndim; i++) {
        uint64_t whole = o->shape[i] == 0 ? 1 : o->shape[i];
        p->chunk.n[i] = o->chunk != NULL ? o->chunk[i] : whole;
        p->shard.n[i] = o->shard != NULL ? o->shard[i] : p->chunk.n[i];
    }
    return check_extents(p, err);
}

/* --- Pieces of documents ------------------------------------------------- */

static tg_status extents_json(const uint64_t *n, uint32_t ndim, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();

    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    for (uint32_t i = 0; i < ndim; i++)
        TG_TRY(tg_json_append(list, tg_json_new_u64(n[i]), err));
    *out = tg_steal(list);
    return TG_OK;
}

static tg_status set_extents(tg_json *object, const char *key, const uint64_t *n, uint32_t ndim,
                             tg_error *err)
{
    tg_json *list = NULL;

    TG_TRY(extents_json(n, ndim, &list, err));
    return tg_json_set(object, key, list, err);
}

/* {"name": name, "configuration": configuration}; takes the configuration over. */
static tg_status set_extension(tg_json *object, const char *key, const char *name,
                               tg_json *configuration, tg_error *err)
{
    TG_AUTO_PTR(tg_json) owned = configuration;
    TG_AUTO_PTR(tg_json) extension = tg_json_new_object();

    if (extension == NULL || owned == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    TG_TRY(tg_json_set(extension, "name", tg_json_new_string(name), err));
    TG_TRY(tg_json_set(extension, "configuration", tg_steal(owned), err));
    if (key == NULL)
        return tg_json_append(object, tg_steal(extension), err);
    return tg_json_set(object, key, tg_steal(extension), err);
}

static tg_status set_fill(tg_json *doc, const plan *p, tg_error *err)
{
    static const uint8_t zeros[16];
    const tg_array_options *o = p->o;
    TG_AUTO(tg_buf) raw = {0};
    tg_json *v = NULL;

    if (o->dtype.kind == TG_DT_STRING)
        return tg_json_set(doc, "fill_value",
                           tg_json_new_string(o->fill == NULL ? "" : o->fill), err);
    const void *item = o->fill != NULL ? o->fill : zeros;
    if (o->fill == NULL && o->dtype.size > sizeof zeros) {
        TG_TRY(tg_buf_resize(&raw, o->dtype.size, err));
        memset(raw.data, 0, raw.len);
        item = raw.data;
    }
    TG_TRY(tg_fill_json(o->dtype, p->format, item, &v, err));
    return tg_json_set(doc, "fill_value", v, err);
}

static tg_status read_attributes(const char *text, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) v = NULL;

    if (text == NULL) {
        *out = tg_json_new_object();
        return *out == NULL ? tg_fail(err, TG_NO_MEMORY, "attributes") : TG_OK;
    }
    tg_status st = tg_attributes_parse(&v, text, err);
    *out = tg_steal(v);
    return st;
}

/* --- Format 3 ------------------------------------------------------------- */

static tg_status set_sharding(tg_json *doc, const plan *p, tg_json *inner, tg_error *err)
{
    static const char index_codecs[] =
        "[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}},"
        "{\"name\":\"crc32c\"}]";
    TG_AUTO_PTR(tg_json) owned = inner;
    TG_AUTO_PTR(tg_json) configuration = tg_json_new_object();
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    tg_json *index = NULL;

    if (configuration == NULL || list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    TG_TRY(set_extents(configuration, "chunk_shape", p->chunk.n, p->o->ndim, err));
    TG_TRY(tg_json_set(configuration, "codecs", tg_steal(owned), err));
    TG_TRY(tg_json_parse(&index, index_codecs, sizeof index_codecs - 1, (tg_json_options){0},
                         err));
    TG_TRY(tg_json_set(configuration, "index_codecs", index, err));
    TG_TRY(tg_json_set(configuration, "index_location",
                       tg_json_new_string(p->o->index_at_start ? "start" : "end"), err));
    TG_TRY(set_extension(list, NULL, "sharding_indexed", tg_steal(configuration), err));
    return tg_json_set(doc, "codecs", tg_steal(list), err);
}

static tg_status set_codecs_v3(tg_json *doc, const plan *p, tg_error *err)
{
    TG_AUTO_PTR(tg_chain) chain = NULL;
    tg_json *codecs = NULL;

    TG_TRY(tg_chain_open_text(&chain, p->o->codec == NULL ? "none" : p->o->codec,
                              !p->o->no_checksum, 3, p->o->dtype, &p->chunk, err));
    TG_TRY(tg_chain_write_v3(chain, &codecs, err));
    if (p->o->shard != NULL)
        return set_sharding(doc, p, codecs, err);
    return tg_json_set(doc, "codecs", codecs, err);
}

static tg_status set_names(tg_json *doc, const plan *p, tg_error *err)
{
    const char *const *names = p->o->dimension_names;
    TG_AUTO_PTR(tg_json) list = NULL;

    if (names == NULL)
        return TG_OK;
    list = tg_json_new_array();
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    for (uint32_t i = 0; i < p->o->ndim; i++)
        TG_TRY(tg_json_append(
            list, names[i] != NULL ? tg_json_new_string(names[i]) : tg_json_new_null(), err));
    return tg_json_set(doc, "dimension_names", tg_steal(list), err);
}

static tg_status set_grid_and_keys(tg_json *doc, const plan *p, tg_error *err)
{
    TG_AUTO_PTR(tg_json) grid = tg_json_new_object();
    TG_AUTO_PTR(tg_json) keys = tg_json_new_object();
    const char separator[2] = {p->separator, '\0'};

    if (grid == NULL || keys == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    TG_TRY(set_extents(grid, "chunk_shape", p->shard.n, p->o->ndim, err));
    TG_TRY(set_extension(doc, "chunk_grid", "regular", tg_steal(grid), err));
    TG_TRY(tg_json_set(keys, "separator", tg_json_new_string(separator), err));
    return set_extension(doc, "chunk_key_encoding", "default", tg_steal(keys), err);
}

static tg_status make_v3(const plan *p, tg_array_meta **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = tg_json_new_object();
    tg_json *attributes = NULL;
    char room[16];

    if (doc == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    TG_TRY(tg_json_set(doc, "zarr_format", tg_json_new_u64(3), err));
    TG_TRY(tg_json_set(doc, "node_type", tg_json_new_string("array"), err));
    TG_TRY(set_extents(doc, "shape", p->o->shape, p->o->ndim, err));
    TG_TRY(tg_json_set(doc, "data_type", tg_json_new_string(tg_dtype_name(p->o->dtype, room)),
                       err));
    TG_TRY(set_grid_and_keys(doc, p, err));
    TG_TRY(set_fill(doc, p, err));
    TG_TRY(set_codecs_v3(doc, p, err));
    TG_TRY(set_names(doc, p, err));
    TG_TRY(read_attributes(p->o->attributes, &attributes, err));
    TG_TRY(tg_json_set(doc, "attributes", attributes, err));
    return tg_array_meta_from_v3(out, tg_steal(doc), false, err);
}

/* --- Format 2 ------------------------------------------------------------- */

/* Little-endian whatever the machine: what most readers take without a swap. */
static char byte_order_of(tg_dtype t)
{
    return t.size > 1 && t.kind != TG_DT_RAW ? '<' : '|';
}

static tg_json *dtype_v2(tg_dtype t)
{
    static const char letters[] = {'?', 'b', 'i', 'u', 'f', 'c', 'O', 'V'};
    char text[16];

    if (t.kind == TG_DT_STRING)
        return tg_json_new_string("|O");
    (void)snprintf(text, sizeof text, "%c%c%" PRIu32, byte_order_of(t), letters[t.kind],
                   t.size);
    return tg_json_new_string(text);
}

static tg_status make_v2(const plan *p, tg_array_meta **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = tg_json_new_object();
    TG_AUTO_PTR(tg_json) attributes = NULL;
    TG_AUTO_PTR(tg_json) filters = NULL;
    TG_AUTO_PTR(tg_json) compressor = NULL;
    TG_AUTO_PTR(tg_chain) chain = NULL;
    const char separator[2] = {p->separator, '\0'};

    if (doc == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    TG_TRY(tg_chain_open_text(&chain, p->o->codec == NULL ? "none" : p->o->codec, false, 2,
                              p->o->dtype, &p->chunk, err));
    TG_TRY(tg_chain_write_v2(chain, &filters, &compressor, err));
    TG_TRY(set_extents(doc, "chunks", p->chunk.n, p->o->ndim, err));
    TG_TRY(tg_json_set(doc, "compressor", tg_steal(compressor), err));
    TG_TRY(tg_json_set(doc, "dimension_separator", tg_json_new_string(separator), err));
    TG_TRY(tg_json_set(doc, "dtype", dtype_v2(p->o->dtype), err));
    TG_TRY(set_fill(doc, p, err));
    TG_TRY(tg_json_set(doc, "filters", tg_steal(filters), err));
    TG_TRY(tg_json_set(doc, "order", tg_json_new_string("C"), err));
    TG_TRY(set_extents(doc, "shape", p->o->shape, p->o->ndim, err));
    TG_TRY(tg_json_set(doc, "zarr_format", tg_json_new_u64(2), err));
    TG_TRY(read_attributes(p->o->attributes, &attributes, err));
    return tg_array_meta_from_v2(out, tg_steal(doc), tg_steal(attributes), false, err);
}

tg_status tg_array_meta_new(tg_array_meta **out, const tg_array_options *options, tg_error *err)
{
    plan p = {.o = options};

    TG_TRY(check_options(&p, err));
    tg_status st = p.format == 3 ? make_v3(&p, out, err) : make_v2(&p, out, err);
    if (st != TG_CORRUPT)
        return st;
    /* The document is ours: what is wrong with it was asked for. */
    if (err != NULL)
        err->code = TG_INVALID;
    return TG_INVALID;
}
