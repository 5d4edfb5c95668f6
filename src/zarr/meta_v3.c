/* zarr.json of an array: what docs/formats/zarr.md says we read. What the spec
 * wants refused is refused; what other writers left out and can only mean one
 * thing is taken. */
#include "zarr/meta.h"

#include <inttypes.h>
#include <string.h>

/* --- The document as a whole --------------------------------------------- */

static tg_status check_members(const tg_json *doc, tg_error *err)
{
    static const char *const known[] = {
        "zarr_format",        "node_type",  "shape",  "data_type",  "chunk_grid",
        "chunk_key_encoding", "fill_value", "codecs", "attributes", "storage_transformers",
        "dimension_names"};

    for (size_t i = 0; i < tg_json_size(doc); i++) {
        const char *key = tg_json_key_at(doc, i);
        bool is_known = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            is_known |= strcmp(key, known[k]) == 0;
        if (!is_known && !tg_may_ignore(tg_json_at(doc, i)))
            return tg_fail(err, TG_UNSUPPORTED,
                           "unknown member '%s' without \"must_understand\": false", key);
    }
    return TG_OK;
}

static tg_status check_kind(const tg_json *doc, tg_error *err)
{
    const tg_json *v = NULL;
    const char *type = NULL;
    uint64_t format = 0;

    TG_TRY(tg_member(doc, "zarr_format", TG_JSON_INT, &v, err));
    if (tg_json_u64(v, &format, NULL) != TG_OK || format != 3)
        return tg_fail(err, TG_CORRUPT, "'zarr_format' is not 3");
    TG_TRY(tg_member(doc, "node_type", TG_JSON_STRING, &v, err));
    TG_TRY(tg_json_string(v, &type, NULL, err));
    if (strcmp(type, "array") != 0)
        return tg_fail(err, TG_CORRUPT, "'node_type' is '%.40s', want 'array'", type);
    return TG_OK;
}

static tg_status check_optional(const tg_json *doc, tg_error *err)
{
    const tg_json *v = tg_json_get(doc, "attributes");

    if (v != NULL && tg_json_kind_of(v) != TG_JSON_OBJECT)
        return tg_fail(err, TG_CORRUPT, "'attributes': got %s, want an object",
                       tg_json_kind_name(tg_json_kind_of(v)));
    v = tg_json_get(doc, "storage_transformers");
    if (v == NULL)
        return TG_OK;
    if (tg_json_kind_of(v) != TG_JSON_ARRAY)
        return tg_fail(err, TG_CORRUPT, "'storage_transformers' is no list");
    if (tg_json_size(v) != 0)
        return tg_fail(err, TG_UNSUPPORTED, "'storage_transformers' are not supported");
    return TG_OK;
}

/* --- Shape, type, grid, keys --------------------------------------------- */

static tg_status read_shape(tg_array_meta *m, tg_error *err)
{
    const tg_json *v = NULL;

    TG_TRY(tg_member(m->doc, "shape", TG_JSON_ARRAY, &v, err));
    tg_status st = tg_meta_extents(v, 0, true, &m->info.ndim, m->info.shape, err);
    if (st != TG_OK)
        tg_error_prefix(err, "'shape'");
    return st;
}

/* Only the names that the format knows, not the short forms that people type. */
static tg_status read_data_type(tg_array_meta *m, tg_error *err)
{
    const tg_json *configuration = NULL;
    const char *name = NULL;
    char room[16];
    const tg_json *v = tg_json_get(m->doc, "data_type");

    if (v == NULL)
        return tg_fail(err, TG_CORRUPT, "'data_type' is missing");
    tg_status st = tg_extension(v, &name, &configuration, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "'data_type'");
        return st;
    }
    if ((configuration != NULL && tg_json_size(configuration) != 0) ||
        tg_dtype_parse(name, &m->info.dtype, NULL) != TG_OK ||
        strcmp(tg_dtype_name(m->info.dtype, room), name) != 0)
        return tg_fail(err, TG_UNSUPPORTED, "data type '%.60s' is not supported", name);
    return TG_OK;
}

static tg_status read_grid(tg_array_meta *m, tg_error *err)
{
    const tg_json *v = NULL, *configuration = NULL, *shape = NULL;
    const char *name = NULL;

    TG_TRY(tg_member(m->doc, "chunk_grid", TG_JSON_OBJECT, &v, err));
    TG_TRY(tg_extension(v, &name, &configuration, err));
    if (strcmp(name, "regular") != 0)
        return tg_fail(err, TG_UNSUPPORTED, "chunk grid '%.60s' is not supported", name);
    TG_TRY(tg_member(configuration, "chunk_shape", TG_JSON_ARRAY, &shape, err));
    if (tg_json_size(configuration) != 1)
        return tg_fail(err, TG_CORRUPT, "unknown member beside 'chunk_shape'");
    TG_TRY(tg_meta_extents(shape, 1, false, &m->info.ndim, m->shard.n, err));
    m->shard.ndim = m->info.ndim;
    return TG_OK;
}

static tg_status read_key_encoding(tg_array_meta *m, tg_error *err)
{
    const tg_json *configuration = NULL, *separator = NULL;
    const char *name = NULL, *text = NULL;
    const tg_json *v = tg_json_get(m->doc, "chunk_key_encoding");

    if (v == NULL)
        return tg_fail(err, TG_CORRUPT, "missing");
    TG_TRY(tg_extension(v, &name, &configuration, err));
    m->key_v2 = strcmp(name, "v2") == 0;
    if (!m->key_v2 && strcmp(name, "default") != 0)
        return tg_fail(err, TG_UNSUPPORTED, "'%.60s' is not supported", name);
    m->separator = m->key_v2 ? '.' : '/';
    separator = tg_json_get(configuration, "separator");
    if (separator != NULL) {
        TG_TRY(tg_json_string(separator, &text, NULL, err));
        if (strcmp(text, "/") != 0 && strcmp(text, ".") != 0)
            return tg_fail(err, TG_CORRUPT, "separator '%.20s', want '/' or '.'", text);
        m->separator = text[0];
    }
    if (tg_json_size(configuration) != (separator != NULL))
        return tg_fail(err, TG_CORRUPT, "unknown member beside 'separator'");
    return TG_OK;
}

static tg_status read_names(tg_array_meta *m, tg_error *err)
{
    const tg_json *v = tg_json_get(m->doc, "dimension_names");

    if (v == NULL || tg_json_kind_of(v) == TG_JSON_NULL)
        return TG_OK;
    if (tg_json_kind_of(v) != TG_JSON_ARRAY || tg_json_size(v) != m->info.ndim)
        return tg_fail(err, TG_CORRUPT, "want a list of %" PRIu32 " names", m->info.ndim);
    for (uint32_t i = 0; i < m->info.ndim; i++)
        if (tg_json_kind_of(tg_json_at(v, i)) != TG_JSON_NULL)
            TG_TRY(tg_json_string(tg_json_at(v, i), &m->info.dimension_name[i], NULL, err));
    return TG_OK;
}

static tg_status read_fill(tg_array_meta *m, tg_error *err)
{
    const tg_json *v = tg_json_get(m->doc, "fill_value");

    if (v == NULL)
        return tg_fail(err, TG_CORRUPT, "'fill_value' is missing");
    return tg_meta_fill(m, v, err);
}

/* --- Codecs --------------------------------------------------------------- */

static tg_status read_codecs(tg_array_meta *m, tg_error *err)
{
    const tg_json *codecs = NULL;
    TG_AUTO_PTR(tg_json) inner = NULL;

    TG_TRY(tg_member(m->doc, "codecs", TG_JSON_ARRAY, &codecs, err));
    TG_TRY(tg_meta_sharding(m, codecs, &m->info.sharded, &inner, err));
    if (!m->info.sharded)
        m->chunk = m->shard;
    TG_TRY(tg_meta_layout(m, err));
    return tg_chain_open_v3(&m->chain, inner != NULL ? inner : codecs, m->info.dtype, &m->chunk,
                            err);
}

/* One step of reading, and the member to name if it fails. */
typedef struct step {
    tg_status (*read)(tg_array_meta *, tg_error *);
    const char *name;
} step;

static tg_status read_all(tg_array_meta *m, tg_error *err)
{
    static const step steps[] = {
        {read_shape, NULL},
        {read_data_type, NULL},
        {read_grid, "chunk_grid"},
        {read_key_encoding, "chunk_key_encoding"},
        {read_fill, NULL},
        {read_codecs, "codecs"},
        {read_names, "dimension_names"},
    };

    TG_TRY(check_kind(m->doc, err));
    TG_TRY(check_members(m->doc, err));
    TG_TRY(check_optional(m->doc, err));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        tg_status st = steps[i].read(m, err);
        if (st != TG_OK && steps[i].name != NULL)
            tg_error_prefix(err, "'%s'", steps[i].name);
        if (st != TG_OK)
            return st;
    }
    return TG_OK;
}

tg_status tg_array_meta_from_v3(tg_array_meta **out, tg_json *doc, bool has_nan, tg_error *err)
{
    TG_AUTO_PTR(tg_json) owned = doc;
    TG_AUTO_PTR(tg_array_meta) m = NULL;

    TG_TRY(tg_meta_new(&m, 3, err));
    m->doc = tg_steal(owned);
    m->has_nan = has_nan;
    m->empty_attributes = tg_json_new_object();
    if (m->empty_attributes == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    TG_TRY(read_all(m, err));
    *out = tg_steal(m);
    return TG_OK;
}

tg_status tg_array_meta_parse_v3(tg_array_meta **out, const char *text, size_t len,
                                 tg_error *err)
{
    tg_json *doc = NULL;
    bool has_nan = false;

    TG_TRY(tg_document_parse(&doc, &has_nan, text, len, err));
    return tg_array_meta_from_v3(out, doc, has_nan, err);
}
