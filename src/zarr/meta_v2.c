/* .zarray and .zattrs: what docs/formats/zarr.md says we read. Writers of format 2
 * differ more than its text allows; what can only mean one thing is taken. */
#include "zarr/meta.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* NULL where the member is missing or null. */
static const tg_json *member_or_null(const tg_json *doc, const char *key)
{
    const tg_json *v = tg_json_get(doc, key);
    return tg_json_kind_of(v) == TG_JSON_NULL ? NULL : v;
}

static tg_status check_format(const tg_json *doc, tg_error *err)
{
    const tg_json *v = NULL;
    uint64_t format = 0;

    TG_TRY(tg_member(doc, "zarr_format", TG_JSON_INT, &v, err));
    if (tg_json_u64(v, &format, NULL) != TG_OK || format != 2)
        return tg_fail(err, TG_CORRUPT, "'zarr_format' is not 2");
    return TG_OK;
}

static tg_status read_shape(tg_array_meta *m, tg_error *err)
{
    const tg_json *v = NULL;

    TG_TRY(tg_member(m->doc, "shape", TG_JSON_ARRAY, &v, err));
    return tg_meta_extents(v, 0, true, &m->info.ndim, m->info.shape, err);
}

/* A chunk extent of 0 was written where the array's own is 0: no chunk lies there, any extent
 * will do. */
static tg_status read_chunks(tg_array_meta *m, tg_error *err)
{
    const tg_json *v = NULL;

    TG_TRY(tg_member(m->doc, "chunks", TG_JSON_ARRAY, &v, err));
    TG_TRY(tg_meta_extents(v, 0, false, &m->info.ndim, m->chunk.n, err));
    for (uint32_t i = 0; i < m->info.ndim; i++) {
        if (m->chunk.n[i] == 0 && m->info.shape[i] != 0)
            return tg_fail(err, TG_CORRUPT, "extent %" PRIu32 " is 0", i);
        if (m->chunk.n[i] == 0)
            m->chunk.n[i] = 1;
    }
    m->chunk.ndim = m->info.ndim;
    m->shard = m->chunk;
    return tg_meta_layout(m, err);
}

/* --- The item type ------------------------------------------------------- */

static bool has_filter(const tg_json *doc, const char *id)
{
    const tg_json *filters = tg_json_get(doc, "filters");
    const char *text = NULL;

    for (size_t i = 0; i < tg_json_size(filters); i++)
        if (tg_json_string(tg_json_get(tg_json_at(filters, i), "id"), &text, NULL, NULL) ==
                TG_OK &&
            strcmp(text, id) == 0)
            return true;
    return false;
}

static tg_status object_type(tg_array_meta *m, tg_error *err)
{
    if (!has_filter(m->doc, "vlen-utf8"))
        return tg_fail(err, TG_UNSUPPORTED,
                       "dtype '|O' is supported with the filter vlen-utf8 only");
    m->info.dtype = (tg_dtype){TG_DT_STRING, 0};
    return TG_OK;
}

static bool known_size(char kind, unsigned long size)
{
    switch (kind) {
    case 'b':
        return size == 1;
    case 'i':
    case 'u':
        return size == 1 || size == 2 || size == 4 || size == 8;
    case 'f':
        return size == 2 || size == 4 || size == 8;
    case 'c':
        return size == 8 || size == 16;
    default:
        return kind == 'V' && size >= 1 && size <= UINT32_MAX;
    }
}

static tg_dtype_kind kind_of(char c)
{
    static const char letters[] = "biufcV";
    static const tg_dtype_kind kinds[] = {TG_DT_BOOL,  TG_DT_INT,     TG_DT_UINT,
                                          TG_DT_FLOAT, TG_DT_COMPLEX, TG_DT_RAW};
    return kinds[strchr(letters, c) - letters];
}

static tg_status read_dtype(tg_array_meta *m, tg_error *err)
{
    const tg_json *v = tg_json_get(m->doc, "dtype");
    const char *text = NULL;
    char *end = NULL;

    if (tg_json_kind_of(v) == TG_JSON_ARRAY)
        return tg_fail(err, TG_UNSUPPORTED, "structured dtypes are not supported");
    TG_TRY(tg_member(m->doc, "dtype", TG_JSON_STRING, &v, err));
    TG_TRY(tg_json_string(v, &text, NULL, err));
    if (strcmp(text, "|O") == 0)
        return object_type(m, err);
    if (strlen(text) < 3 || strchr("<>|=", text[0]) == NULL || text[2] < '1' || text[2] > '9')
        return tg_fail(err, TG_CORRUPT, "dtype '%.40s': want '<', '>' or '|', a letter, a size",
                       text);
    unsigned long size = strtoul(text + 2, &end, 10);
    if (*end != '\0' || !known_size(text[1], size))
        return tg_fail(err, TG_UNSUPPORTED, "dtype '%.40s' is not supported", text);
    bool has_order = size > 1 && text[1] != 'V';
    if (has_order && text[0] != '<' && text[0] != '>')
        return tg_fail(err, TG_CORRUPT, "dtype '%.40s': which byte order?", text);
    m->info.dtype = (tg_dtype){kind_of(text[1]), (uint32_t)size};
    m->byte_order = has_order ? text[0] : '|';
    return TG_OK;
}

/* --- The rest ------------------------------------------------------------ */

static tg_status read_text(const tg_json *doc, const char *key, const char *allowed,
                           char *letter, bool *said, tg_error *err)
{
    const tg_json *v = member_or_null(doc, key);
    const char *text = NULL;

    if (said != NULL)
        *said = v != NULL;
    if (v == NULL)
        return TG_OK;
    TG_TRY(tg_json_string(v, &text, NULL, err));
    if (strlen(text) != 1 || strchr(allowed, text[0]) == NULL)
        return tg_fail(err, TG_CORRUPT, "'%.20s', want '%c' or '%c'", text, allowed[0],
                       allowed[1]);
    *letter = text[0];
    return TG_OK;
}

static tg_status read_separator(tg_array_meta *m, tg_error *err)
{
    return read_text(m->doc, "dimension_separator", "./", &m->separator, &m->separator_said,
                     err);
}

static tg_status read_order(tg_array_meta *m, tg_error *err)
{
    return read_text(m->doc, "order", "CF", &m->order, NULL, err);
}

static tg_status read_fill(tg_array_meta *m, tg_error *err)
{
    TG_AUTO_PTR(tg_json) null = tg_json_new_null();
    const tg_json *v = tg_json_get(m->doc, "fill_value");

    return tg_meta_fill(m, v != NULL ? v : null, err);
}

/* n5 writers said {"type": "raw"} for no compressor. */
static bool says_raw(const tg_json *compressor)
{
    const char *type = NULL;
    return tg_json_get(compressor, "id") == NULL &&
           tg_json_string(tg_json_get(compressor, "type"), &type, NULL, NULL) == TG_OK &&
           strcmp(type, "raw") == 0;
}

static tg_status read_codecs(tg_array_meta *m, tg_error *err)
{
    const tg_json *filters = member_or_null(m->doc, "filters");
    const tg_json *compressor = member_or_null(m->doc, "compressor");

    if (filters != NULL && tg_json_kind_of(filters) != TG_JSON_ARRAY)
        return tg_fail(err, TG_CORRUPT, "'filters' is no list");
    if (filters != NULL && tg_json_size(filters) == 0)
        filters = NULL;
    if (compressor != NULL && says_raw(compressor))
        compressor = NULL;
    return tg_chain_open_v2(&m->chain, filters, compressor, m->byte_order, m->order,
                            m->info.dtype, &m->chunk, err);
}

typedef struct step {
    tg_status (*read)(tg_array_meta *, tg_error *);
    const char *name;
} step;

static tg_status read_all(tg_array_meta *m, tg_error *err)
{
    static const step steps[] = {
        {read_shape, "shape"},   {read_dtype, NULL},
        {read_chunks, "chunks"}, {read_separator, "dimension_separator"},
        {read_order, "order"},   {read_fill, NULL},
        {read_codecs, NULL},
    };

    TG_TRY(check_format(m->doc, err));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        tg_status st = steps[i].read(m, err);
        if (st != TG_OK && steps[i].name != NULL)
            tg_error_prefix(err, "'%s'", steps[i].name);
        if (st != TG_OK)
            return st;
    }
    return TG_OK;
}

tg_status tg_array_meta_from_v2(tg_array_meta **out, tg_json *doc, tg_json *attributes,
                                bool has_nan, tg_error *err)
{
    TG_AUTO_PTR(tg_json) owned_doc = doc;
    TG_AUTO_PTR(tg_json) owned_attributes = attributes;
    TG_AUTO_PTR(tg_array_meta) m = NULL;

    TG_TRY(tg_meta_new(&m, 2, err));
    m->doc = tg_steal(owned_doc);
    m->attributes =
        owned_attributes != NULL ? tg_steal(owned_attributes) : tg_json_new_object();
    m->has_nan = has_nan;
    if (m->attributes == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    TG_TRY(read_all(m, err));
    *out = tg_steal(m);
    return TG_OK;
}

tg_status tg_array_meta_parse_v2(tg_array_meta **out, const char *text, size_t len,
                                 const char *attributes, size_t attributes_len, tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = NULL;
    TG_AUTO_PTR(tg_json) attrs = NULL;
    bool doc_nan = false, attrs_nan = false;

    TG_TRY(tg_document_parse(&doc, &doc_nan, text, len, err));
    if (attributes != NULL) {
        tg_status st = tg_document_parse(&attrs, &attrs_nan, attributes, attributes_len, err);
        if (st != TG_OK) {
            tg_error_prefix(err, ".zattrs");
            return st;
        }
    }
    return tg_array_meta_from_v2(out, tg_steal(doc), tg_steal(attrs), doc_nan || attrs_nan,
                                 err);
}
