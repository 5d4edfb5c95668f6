/* What metadata of both formats have in common: extents, fill value, layout,
 * chunk keys. Knows no store. */
#include "zarr/meta.h"

#include "zarr/fill.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

tg_status tg_meta_new(tg_array_meta **out, int format, tg_error *err)
{
    tg_array_meta *m = tg_calloc(1, sizeof *m);

    if (m == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    m->info.size = sizeof m->info;
    m->info.format = format;
    m->separator = format == 2 ? '.' : '/';
    m->key_v2 = format == 2;
    m->byte_order = '|';
    m->order = 'C';
    for (uint32_t i = 0; i < TG_MAX_NDIM; i++)
        m->index_order[i] = i;
    *out = m;
    return TG_OK;
}

void tg_array_meta_free(tg_array_meta *m)
{
    if (m == NULL)
        return;
    tg_chain_free(m->chain);
    tg_buf_free(&m->fill);
    tg_json_free(m->doc);
    tg_json_free(m->attributes);
    tg_json_free(m->empty_attributes);
    tg_free(m);
}

tg_status tg_document_parse(tg_json **out, bool *has_nan, const char *text, size_t len,
                            tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = NULL;

    if (len > TG_METADATA_LIMIT)
        return tg_fail(err, TG_CORRUPT, "%zu bytes of metadata, at most %zu are read", len,
                       TG_METADATA_LIMIT);
    *has_nan = tg_json_parse(&doc, text, len, (tg_json_options){0}, err) != TG_OK;
    if (*has_nan)
        TG_TRY(tg_json_parse(&doc, text, len, (tg_json_options){.allow_nan = true}, err));
    if (tg_json_kind_of(doc) != TG_JSON_OBJECT)
        return tg_fail(err, TG_CORRUPT, "metadata: got %s, want an object",
                       tg_json_kind_name(tg_json_kind_of(doc)));
    *out = tg_steal(doc);
    return TG_OK;
}

tg_status tg_member(const tg_json *object, const char *key, tg_json_kind kind,
                    const tg_json **out, tg_error *err)
{
    const tg_json *v = tg_json_get(object, key);

    if (v == NULL)
        return tg_fail(err, TG_CORRUPT, "'%s' is missing", key);
    if (tg_json_kind_of(v) != kind)
        return tg_fail(err, TG_CORRUPT, "'%s': got %s, want %s", key,
                       tg_json_kind_name(tg_json_kind_of(v)), tg_json_kind_name(kind));
    *out = v;
    return TG_OK;
}

bool tg_may_ignore(const tg_json *v)
{
    bool must = true;
    return tg_json_kind_of(v) == TG_JSON_OBJECT &&
           tg_json_bool(tg_json_get(v, "must_understand"), &must, NULL) == TG_OK && !must;
}

tg_status tg_extension(const tg_json *v, const char **name, const tg_json **configuration,
                       tg_error *err)
{
    const tg_json *member = NULL;

    *configuration = NULL;
    if (tg_json_kind_of(v) == TG_JSON_STRING)
        return tg_json_string(v, name, NULL, err);
    if (tg_json_kind_of(v) != TG_JSON_OBJECT)
        return tg_fail(err, TG_CORRUPT, "got %s, want an object with \"name\"",
                       tg_json_kind_name(tg_json_kind_of(v)));
    TG_TRY(tg_member(v, "name", TG_JSON_STRING, &member, err));
    TG_TRY(tg_json_string(member, name, NULL, err));
    for (size_t i = 0; i < tg_json_size(v); i++) {
        const char *key = tg_json_key_at(v, i);
        if (strcmp(key, "name") != 0 && strcmp(key, "configuration") != 0 &&
            strcmp(key, "must_understand") != 0)
            return tg_fail(err, TG_CORRUPT, "%s: unknown member '%s'", *name, key);
    }
    if (tg_json_get(v, "configuration") != NULL)
        return tg_member(v, "configuration", TG_JSON_OBJECT, configuration, err);
    return TG_OK;
}

tg_status tg_meta_extents(const tg_json *list, uint64_t least, bool first, uint32_t *ndim,
                          uint64_t *extents, tg_error *err)
{
    size_t n = tg_json_size(list);

    if (n > TG_MAX_NDIM)
        return tg_fail(err, TG_UNSUPPORTED, "%zu dimensions, at most %d are supported", n,
                       TG_MAX_NDIM);
    if (!first && n != *ndim)
        return tg_fail(err, TG_CORRUPT, "%zu extents, the shape has %" PRIu32, n, *ndim);
    for (size_t i = 0; i < n; i++) {
        TG_TRY(tg_json_u64(tg_json_at(list, i), &extents[i], err));
        if (extents[i] < least)
            return tg_fail(err, TG_CORRUPT, "extent %zu is %" PRIu64 ", want at least %" PRIu64,
                           i, extents[i], least);
    }
    *ndim = (uint32_t)n;
    return TG_OK;
}

/* Strings: JSON text; format 2 writers left 0 or null there. */
static tg_status string_fill(tg_array_meta *m, const tg_json *v, tg_error *err)
{
    const char *text = "";
    size_t len = 0;
    uint64_t zero = 1;

    bool none = m->info.format == 2 && tg_json_kind_of(v) == TG_JSON_NULL;
    bool numeral = m->info.format == 2 && tg_json_u64(v, &zero, NULL) == TG_OK && zero == 0;
    if (!none && !numeral)
        TG_TRY(tg_json_string(v, &text, &len, err));
    m->info.has_fill = !none;
    TG_TRY(tg_buf_resize(&m->fill, len + 1, err));
    memcpy(m->fill.data, text, len);
    m->fill.data[len] = '\0';
    m->fill.len = len;
    return TG_OK;
}

tg_status tg_meta_fill(tg_array_meta *m, const tg_json *v, tg_error *err)
{
    tg_dtype t = m->info.dtype;

    m->info.has_fill = true;
    if (t.kind == TG_DT_STRING)
        return string_fill(m, v, err);
    TG_TRY(tg_buf_resize(&m->fill, t.size, err));
    memset(m->fill.data, 0, t.size);
    if (m->info.format == 2 && tg_json_kind_of(v) == TG_JSON_NULL) {
        m->info.has_fill = false;
        return TG_OK;
    }
    TG_TRY(tg_fill_parse(v, t, m->info.format, m->fill.data, err));
    memcpy(m->info.fill, m->fill.data,
           t.size < sizeof m->info.fill ? t.size : sizeof m->info.fill);
    return TG_OK;
}

/* Sizes that overflow come from the file here. */
static tg_status too_large(tg_status st, tg_error *err)
{
    if (st == TG_INVALID)
        return tg_fail(err, TG_CORRUPT, "chunk: its bytes do not fit this machine's memory");
    return st;
}

tg_status tg_meta_layout(tg_array_meta *m, tg_error *err)
{
    tg_array_info *info = &m->info;
    size_t index_bytes = 0, shard_bytes = 0;

    m->chunk.ndim = m->shard.ndim = m->grid.ndim = info->ndim;
    for (uint32_t i = 0; i < info->ndim; i++) {
        if (m->shard.n[i] % m->chunk.n[i] != 0)
            return tg_fail(err, TG_CORRUPT,
                           "shard extent %" PRIu32 " is %" PRIu64
                           ", no multiple of the chunk's %" PRIu64,
                           i, m->shard.n[i], m->chunk.n[i]);
        m->grid.n[i] = m->shard.n[i] / m->chunk.n[i];
        info->chunk[i] = m->chunk.n[i];
        info->shard[i] = m->shard.n[i];
    }
    TG_TRY(too_large(tg_shape_items(&m->grid, &m->n_inner, err), err));
    TG_TRY(too_large(tg_shape_bytes(&m->grid, 16, &index_bytes, err), err));
    if (m->n_inner > UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "a shard of %" PRIu64 " chunks, 2^32 are the most",
                       m->n_inner);
    if (info->dtype.kind == TG_DT_STRING)
        return too_large(tg_shape_bytes(&m->chunk, 8, &shard_bytes, err), err);
    TG_TRY(too_large(tg_shape_bytes(&m->chunk, info->dtype.size, &m->chunk_bytes, err), err));
    return too_large(tg_shape_bytes(&m->shard, info->dtype.size, &shard_bytes, err), err);
}

const tg_array_info *tg_array_meta_info(const tg_array_meta *m)
{
    return &m->info;
}

const tg_chain *tg_array_meta_chain(const tg_array_meta *m)
{
    return m->chain;
}

const tg_json *tg_array_meta_attributes(const tg_array_meta *m)
{
    const tg_json *in_doc = NULL;

    if (m->info.format == 2)
        return m->attributes;
    in_doc = tg_json_get(m->doc, "attributes");
    return in_doc != NULL ? in_doc : m->empty_attributes;
}

const char *tg_array_meta_fill_text(const tg_array_meta *m, size_t *len)
{
    if (m->info.dtype.kind != TG_DT_STRING)
        return NULL;
    if (len != NULL)
        *len = m->fill.data == NULL ? 0 : m->fill.len;
    return m->fill.data == NULL ? "" : (const char *)m->fill.data;
}

void tg_chunk_key(const tg_array_meta *m, const uint64_t *unit_index, char *dst)
{
    size_t n = 0;

    if (!m->key_v2)
        dst[n++] = 'c';
    else if (m->info.ndim == 0)
        dst[n++] = '0';
    for (uint32_t i = 0; i < m->info.ndim; i++) {
        if (n > 0)
            dst[n++] = m->separator;
        n += (size_t)snprintf(dst + n, TG_CHUNK_KEY_BYTES - n, "%" PRIu64, unit_index[i]);
    }
    dst[n] = '\0';
}

/* Decimal without leading zeros, up to the end or the separator. */
static bool parse_coordinate(const char **at, uint64_t *v)
{
    const char *s = *at;

    if (*s < '0' || *s > '9' || (s[0] == '0' && s[1] >= '0' && s[1] <= '9'))
        return false;
    for (*v = 0; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, *s - '0', v))
            return false;
    *at = s;
    return true;
}

bool tg_chunk_key_parse(const tg_array_meta *m, const char *key, uint64_t *unit_index)
{
    const char *at = key;

    if (m->info.ndim == 0)
        return strcmp(key, m->key_v2 ? "0" : "c") == 0;
    if (!m->key_v2 && *at++ != 'c')
        return false;
    for (uint32_t i = 0; i < m->info.ndim; i++) {
        if ((i > 0 || !m->key_v2) && *at++ != m->separator)
            return false;
        if (!parse_coordinate(&at, &unit_index[i]))
            return false;
    }
    return *at == '\0';
}
