/* Documents to store. What was read is kept, member by member in its order; only
 * what we never write (short forms, empty lists for null) takes its plain form. */
#include "zarr/meta.h"

#include <string.h>

tg_status tg_attributes_parse(tg_json **out, const char *text, tg_error *err)
{
    TG_AUTO_PTR(tg_json) v = NULL;
    tg_status st = tg_json_parse(&v, text, strlen(text), (tg_json_options){0}, err);

    if (st == TG_OK && tg_json_kind_of(v) != TG_JSON_OBJECT)
        st = tg_fail(err, TG_INVALID, "got %s, want an object",
                     tg_json_kind_name(tg_json_kind_of(v)));
    if (st == TG_CORRUPT) { /* not from a file: from the caller */
        st = TG_INVALID;
        if (err != NULL)
            err->code = st;
    }
    if (st != TG_OK)
        tg_error_prefix(err, "attributes");
    else
        *out = tg_steal(v);
    return st;
}

static tg_status set_shape(tg_json *doc, const uint64_t *shape, uint32_t ndim, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();

    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    for (uint32_t i = 0; i < ndim; i++)
        TG_TRY(tg_json_append(list, tg_json_new_u64(shape[i]), err));
    return tg_json_set(doc, "shape", tg_steal(list), err);
}

static tg_status set_copy(tg_json *object, const char *key, const tg_json *v, tg_error *err)
{
    tg_json *copy = NULL;

    TG_TRY(tg_json_copy(&copy, v, err));
    return tg_json_set(object, key, copy, err);
}

/* "bytes" -> {"name": "bytes"}: readers of 3.0 know the long form only. */
static tg_status long_form(const tg_json *v, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) object = NULL;
    const char *name = NULL;

    if (tg_json_kind_of(v) != TG_JSON_STRING)
        return tg_json_copy(out, v, err);
    TG_TRY(tg_json_string(v, &name, NULL, err));
    object = tg_json_new_object();
    if (object == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    TG_TRY(tg_json_set(object, "name", tg_json_new_string(name), err));
    *out = tg_steal(object);
    return TG_OK;
}

static tg_status long_codecs(tg_json *object, const char *key, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = NULL;
    const tg_json *codecs = tg_json_get(object, key);
    tg_json *codec = NULL;

    if (tg_json_kind_of(codecs) != TG_JSON_ARRAY)
        return TG_OK;
    list = tg_json_new_array();
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "array metadata");
    for (size_t i = 0; i < tg_json_size(codecs); i++) {
        TG_TRY(long_form(tg_json_at(codecs, i), &codec, err));
        tg_json *inside = tg_json_get_mutable(codec, "configuration");
        tg_status st = inside == NULL ? TG_OK : long_codecs(inside, "codecs", err);
        if (st == TG_OK && inside != NULL)
            st = long_codecs(inside, "index_codecs", err);
        if (st != TG_OK) {
            tg_json_free(codec);
            return st;
        }
        TG_TRY(tg_json_append(list, codec, err));
    }
    return tg_json_set(object, key, tg_steal(list), err);
}

static tg_status strict_v3(tg_json *doc, tg_error *err)
{
    tg_json *keys = NULL;
    const tg_json *names = tg_json_get(doc, "dimension_names");

    TG_TRY(long_form(tg_json_get(doc, "chunk_key_encoding"), &keys, err));
    TG_TRY(tg_json_set(doc, "chunk_key_encoding", keys, err));
    if (names != NULL && tg_json_kind_of(names) == TG_JSON_NULL)
        tg_json_remove(doc, "dimension_names");
    return long_codecs(doc, "codecs", err);
}

/* The members that format 2 demands and some writers left out; [] and {"type": "raw"} are
 * null. */
static tg_status strict_v2(const tg_array_meta *m, tg_json *doc, tg_error *err)
{
    const tg_json *compressor = tg_json_get(doc, "compressor");

    if (tg_json_size(tg_json_get(doc, "filters")) == 0)
        TG_TRY(tg_json_set(doc, "filters", tg_json_new_null(), err));
    if (tg_json_get(compressor, "id") == NULL)
        TG_TRY(tg_json_set(doc, "compressor", tg_json_new_null(), err));
    if (tg_json_get(doc, "fill_value") == NULL)
        TG_TRY(tg_json_set(doc, "fill_value", tg_json_new_null(), err));
    if (tg_json_get(doc, "order") == NULL)
        TG_TRY(tg_json_set(doc, "order", tg_json_new_string("C"), err));
    if (m->separator != '.' && tg_json_get(doc, "dimension_separator") == NULL)
        TG_TRY(tg_json_set(doc, "dimension_separator", tg_json_new_string("/"), err));
    return TG_OK;
}

static tg_status write_v2_attributes(const tg_json *attributes, tg_json_options options,
                                     char **out, tg_error *err)
{
    *out = NULL;
    if (tg_json_size(attributes) == 0)
        return TG_OK;
    return tg_json_write(attributes, true, options, out, err);
}

tg_status tg_array_meta_write(const tg_array_meta *m, const uint64_t *shape,
                              const tg_json *attributes, char **doc, char **attrs_doc,
                              tg_error *err)
{
    /* A bare NaN that was there may stay; one that is new may not come in. */
    const tg_json_options options = {.allow_nan = m->has_nan};
    TG_AUTO_PTR(tg_json) copy = NULL;
    TG_AUTO(tg_str) text = NULL;
    TG_AUTO(tg_str) attrs_text = NULL;

    TG_TRY(tg_json_copy(&copy, m->doc, err));
    TG_TRY(set_shape(copy, shape, m->info.ndim, err));
    if (m->info.format == 3) {
        TG_TRY(strict_v3(copy, err));
        if (attributes != NULL)
            TG_TRY(set_copy(copy, "attributes", attributes, err));
    } else {
        TG_TRY(strict_v2(m, copy, err));
        TG_TRY(write_v2_attributes(attributes != NULL ? attributes : m->attributes, options,
                                   &attrs_text, err));
    }
    TG_TRY(tg_json_write(copy, true, options, &text, err));
    *doc = tg_steal(text);
    *attrs_doc = tg_steal(attrs_text);
    return TG_OK;
}

/* --- Groups -------------------------------------------------------------- */

static tg_status group_v3(const tg_json *attributes, char **doc, tg_error *err)
{
    TG_AUTO_PTR(tg_json) object = tg_json_new_object();

    if (object == NULL)
        return tg_fail(err, TG_NO_MEMORY, "group metadata");
    TG_TRY(tg_json_set(object, "zarr_format", tg_json_new_u64(3), err));
    TG_TRY(tg_json_set(object, "node_type", tg_json_new_string("group"), err));
    if (attributes != NULL)
        TG_TRY(set_copy(object, "attributes", attributes, err));
    else
        TG_TRY(tg_json_set(object, "attributes", tg_json_new_object(), err));
    return tg_json_write(object, true, (tg_json_options){0}, doc, err);
}

tg_status tg_group_documents(int zarr_format, const tg_json *attributes, char **doc,
                             char **attrs_doc, tg_error *err)
{
    TG_AUTO(tg_str) text = NULL;
    TG_AUTO(tg_str) attrs_text = NULL;

    if (zarr_format == 3) {
        TG_TRY(group_v3(attributes, &text, err));
    } else if (zarr_format == 2) {
        text = tg_strdup("{\n  \"zarr_format\": 2\n}");
        if (text == NULL)
            return tg_fail(err, TG_NO_MEMORY, "group metadata");
        TG_TRY(write_v2_attributes(attributes, (tg_json_options){0}, &attrs_text, err));
    } else {
        return tg_fail(err, TG_INVALID, "zarr format %d, want 2 or 3", zarr_format);
    }
    *doc = tg_steal(text);
    *attrs_doc = tg_steal(attrs_text);
    return TG_OK;
}
