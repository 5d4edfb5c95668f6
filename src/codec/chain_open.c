/* codec/chain_open.c - chains from metadata: "codecs" of zarr.json, "filters" and
 * "compressor" of .zarray. */
#include "codec/chain.h"

#include <string.h>

typedef struct entry {
    const char *name;
    tg_codec_open_fn *open;
} entry;

/* numcodecs' ids; in Zarr v3 as "numcodecs." and the id. */
static const entry numcodecs[] = {
    {"zstd", tg_zstd_open},   {"gzip", tg_gzip_open}, {"zlib", tg_zlib_open},
    {"blosc", tg_blosc_open}, {"lz4", tg_lz4_open},
};

static const entry v3_codecs[] = {
    {"crc32c", tg_crc32c_open},
    {"zstd", tg_zstd_open},
    {"gzip", tg_gzip_open},
    {"blosc", tg_blosc_open},
};
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static tg_codec_open_fn *find(const entry *table, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].open;
    return NULL;
}

static tg_status unsupported(const char *name, tg_error *err)
{
    if (strcmp(name, "pickle") == 0)
        return tg_fail(err, TG_UNSUPPORTED,
                       "codec 'pickle' is refused: reading it runs code from the data");
    return tg_fail(err, TG_UNSUPPORTED, "codec '%.60s' is not supported", name);
}

static tg_status read_name(const tg_json *from, const char *key, const char **name,
                           tg_error *err)
{
    const tg_json *v = tg_json_get(from, key);

    if (tg_json_kind_of(v) != TG_JSON_STRING)
        return tg_fail(err, TG_CORRUPT, "codec: \"%s\" is a %s, want a string", key,
                       v == NULL ? "missing member" : tg_json_kind_name(tg_json_kind_of(v)));
    return tg_json_string(v, name, NULL, err);
}

static tg_status add_codec(tg_chain *c, tg_codec_open_fn *open, tg_config config, tg_error *err)
{
    tg_codec *codec;

    config.item_bytes = c->dtype.size;
    TG_TRY(open(&codec, &config, err));
    return tg_chain_add(c, codec, err);
}

/* --- Zarr v3 ------------------------------------------------------------- */

/* A codec is an object, or in short its name. */
static tg_status read_v3_codec(const tg_json *v, tg_config *config, tg_error *err)
{
    *config = (tg_config){.zarr_format = 3};
    if (tg_json_kind_of(v) == TG_JSON_STRING)
        return tg_json_string(v, &config->codec, NULL, err);
    if (tg_json_kind_of(v) != TG_JSON_OBJECT)
        return tg_fail(err, TG_CORRUPT, "a codec is a %s, want an object",
                       tg_json_kind_name(tg_json_kind_of(v)));
    TG_TRY(read_name(v, "name", &config->codec, err));
    for (size_t i = 0; i < tg_json_size(v); i++) {
        const char *key = tg_json_key_at(v, i);
        if (strcmp(key, "name") != 0 && strcmp(key, "configuration") != 0 &&
            strcmp(key, "must_understand") != 0)
            return tg_fail(err, TG_UNSUPPORTED, "codec '%.60s': unknown member \"%.60s\"",
                           config->codec, key);
    }
    config->json = tg_json_get(v, "configuration");
    if (tg_json_kind_of(config->json) == TG_JSON_NULL)
        config->json = NULL;
    if (config->json != NULL && tg_json_kind_of(config->json) != TG_JSON_OBJECT)
        return tg_fail(err, TG_CORRUPT, "codec '%.60s': \"configuration\" is no object",
                       config->codec);
    return TG_OK;
}

/* "order" of transpose: the axes; or "C" and "F", as drafts had it. */
static tg_status read_order(const tg_chain *c, const tg_config *config, uint32_t *order,
                            tg_error *err)
{
    static const char *const words[] = {"C", "F"};
    const tg_json *v = config->json == NULL ? NULL : tg_json_get(config->json, "order");
    uint32_t ndim = c->shape.ndim;

    if (tg_json_kind_of(v) == TG_JSON_STRING) {
        int word = 0;
        TG_TRY(tg_config_word(config, "order", words, 2, &word, err));
        for (uint32_t i = 0; i < ndim; i++)
            order[i] = word == 0 ? i : ndim - 1 - i;
        return TG_OK;
    }
    if (tg_json_kind_of(v) != TG_JSON_ARRAY || tg_json_size(v) != ndim)
        return tg_fail(err, TG_CORRUPT, "transpose: \"order\" is no list of %u axes",
                       (unsigned)ndim);
    for (uint32_t i = 0; i < ndim; i++) {
        uint64_t axis;
        TG_TRY(tg_json_u64(tg_json_at(v, i), &axis, err));
        order[i] = axis > TG_MAX_NDIM ? TG_MAX_NDIM : (uint32_t)axis;
    }
    return TG_OK;
}

static tg_status open_transpose(tg_chain *c, const tg_config *config, tg_error *err)
{
    static const char *const keys[] = {"order"};
    uint32_t order[TG_MAX_NDIM];

    TG_TRY(tg_config_only(config, keys, 1, err));
    TG_TRY(read_order(c, config, order, err));
    TG_TRY(tg_chain_transpose(c, order, err));
    if (c->transposed && tg_chain_is_strings(c))
        return tg_fail(err, TG_UNSUPPORTED, "transpose: of strings");
    return TG_OK;
}

static tg_status open_bytes(tg_chain *c, const tg_config *config, tg_error *err)
{
    static const char *const words[] = {"little", "big"}, *const keys[] = {"endian"};
    int big = 0; /* where it is missing although it matters: as the rest of Zarr */

    if (tg_chain_is_strings(c))
        return tg_fail(err, TG_CORRUPT, "bytes: cannot hold strings, want vlen-utf8");
    TG_TRY(tg_config_word(config, "endian", words, 2, &big, err));
    TG_TRY(tg_config_only(config, keys, 1, err));
    c->big_endian = big == 1;
    return TG_OK;
}

static tg_status open_vlen(const tg_chain *c, const tg_config *config, tg_error *err)
{
    if (!tg_chain_is_strings(c))
        return tg_fail(err, TG_CORRUPT, "vlen-utf8: the items are no strings");
    return tg_config_only(config, NULL, 0, err);
}

static tg_status open_v3_bytes_codec(tg_chain *c, tg_config config, tg_error *err)
{
    static const char prefix[] = "numcodecs.";
    tg_codec_open_fn *open = find(v3_codecs, COUNT(v3_codecs), config.codec);

    if (open == NULL && strncmp(config.codec, prefix, sizeof prefix - 1) == 0) {
        open = find(numcodecs, COUNT(numcodecs), config.codec + sizeof prefix - 1);
        config.zarr_format = 2; /* the configuration is numcodecs' */
    }
    if (open == NULL)
        return unsupported(config.codec, err);
    return add_codec(c, open, config, err);
}

/* One codec of the list. *has_bytes: was the array -> bytes codec there before? */
static tg_status open_v3_codec(tg_chain *c, const tg_json *v, bool *has_bytes, tg_error *err)
{
    tg_config config;

    TG_TRY(read_v3_codec(v, &config, err));
    bool transpose = strcmp(config.codec, "transpose") == 0;
    bool bytes = strcmp(config.codec, "bytes") == 0;
    bool vlen = strcmp(config.codec, "vlen-utf8") == 0;
    if (*has_bytes && (transpose || bytes || vlen))
        return tg_fail(err, TG_CORRUPT, "codec '%s' after an array -> bytes codec",
                       config.codec);
    if (transpose)
        return open_transpose(c, &config, err);
    if (bytes || vlen) {
        *has_bytes = true;
        return bytes ? open_bytes(c, &config, err) : open_vlen(c, &config, err);
    }
    if (!*has_bytes && find(v3_codecs, COUNT(v3_codecs), config.codec) != NULL)
        return tg_fail(err, TG_CORRUPT, "codec '%s' before an array -> bytes codec",
                       config.codec);
    return open_v3_bytes_codec(c, config, err);
}

tg_status tg_chain_open_v3(tg_chain **out, const tg_json *codecs, tg_dtype dtype,
                           const tg_shape *chunk, tg_error *err)
{
    bool has_bytes = false;

    if (tg_json_kind_of(codecs) != TG_JSON_ARRAY)
        return tg_fail(err, TG_CORRUPT, "codecs: is a %s, want a list",
                       tg_json_kind_name(tg_json_kind_of(codecs)));
    TG_AUTO_PTR(tg_chain) c = NULL;
    TG_TRY(tg_chain_new(&c, dtype, chunk, err));
    for (size_t i = 0; i < tg_json_size(codecs); i++) {
        tg_status st = open_v3_codec(c, tg_json_at(codecs, i), &has_bytes, err);
        if (st != TG_OK) {
            tg_error_prefix(err, "codecs[%zu]", i);
            return st;
        }
    }
    if (!has_bytes)
        return tg_fail(err, TG_CORRUPT, "codecs: no array -> bytes codec, such as bytes");
    *out = tg_steal(c);
    return TG_OK;
}

/* --- Zarr v2 ------------------------------------------------------------- */

static tg_status read_v2_codec(const tg_json *v, tg_config *config, tg_error *err)
{
    *config = (tg_config){.json = v, .zarr_format = 2};
    if (tg_json_kind_of(v) != TG_JSON_OBJECT)
        return tg_fail(err, TG_CORRUPT, "a codec is a %s, want an object",
                       tg_json_kind_name(tg_json_kind_of(v)));
    return read_name(v, "id", &config->codec, err);
}

/* Filters: none, or the one that makes bytes of strings. */
static tg_status open_filters(tg_chain *c, const tg_json *filters, tg_error *err)
{
    bool vlen = false;

    if (tg_json_kind_of(filters) != TG_JSON_NULL && tg_json_kind_of(filters) != TG_JSON_ARRAY)
        return tg_fail(err, TG_CORRUPT, "filters: is a %s, want a list or null",
                       tg_json_kind_name(tg_json_kind_of(filters)));
    for (size_t i = 0; i < tg_json_size(filters); i++) {
        tg_config config;
        TG_TRY(read_v2_codec(tg_json_at(filters, i), &config, err));
        if (vlen || strcmp(config.codec, "vlen-utf8") != 0)
            return unsupported(config.codec, err);
        TG_TRY(open_vlen(c, &config, err));
        vlen = true;
    }
    if (tg_chain_is_strings(c) && !vlen)
        return tg_fail(err, TG_UNSUPPORTED, "filters: objects without vlen-utf8");
    return TG_OK;
}

/* Some n5 writers say {"type": "raw"} for none. */
static bool is_raw(const tg_json *compressor)
{
    const tg_json *type = tg_json_get(compressor, "type");
    const char *name;

    return tg_json_get(compressor, "id") == NULL && tg_json_kind_of(type) == TG_JSON_STRING &&
           tg_json_string(type, &name, NULL, NULL) == TG_OK && strcmp(name, "raw") == 0;
}

static tg_status open_compressor(tg_chain *c, const tg_json *compressor, tg_error *err)
{
    tg_config config;

    if (tg_json_kind_of(compressor) == TG_JSON_NULL ||
        (tg_json_kind_of(compressor) == TG_JSON_OBJECT && is_raw(compressor)))
        return TG_OK;
    TG_TRY(read_v2_codec(compressor, &config, err));
    tg_codec_open_fn *open = find(numcodecs, COUNT(numcodecs), config.codec);
    if (open == NULL)
        return unsupported(config.codec, err);
    return add_codec(c, open, config, err);
}

static tg_status set_v2_order(tg_chain *c, char order, tg_error *err)
{
    uint32_t reversed[TG_MAX_NDIM];

    if (order != 'C' && order != 'F')
        return tg_fail(err, TG_CORRUPT, "order: '%c', want 'C' or 'F'", order);
    /* vlen-utf8 takes items in C order, whatever "order" says. */
    if (order == 'C' || tg_chain_is_strings(c))
        return TG_OK;
    for (uint32_t i = 0; i < c->shape.ndim; i++)
        reversed[i] = c->shape.ndim - 1 - i;
    return tg_chain_transpose(c, reversed, err);
}

tg_status tg_chain_open_v2(tg_chain **out, const tg_json *filters, const tg_json *compressor,
                           char byte_order, char order, tg_dtype dtype, const tg_shape *chunk,
                           tg_error *err)
{
    if (byte_order != '<' && byte_order != '>' &&
        (byte_order != '|' || tg_dtype_swap_bytes(dtype) > 1))
        return tg_fail(err, TG_CORRUPT, "dtype: byte order '%c', want '<' or '>'", byte_order);
    TG_AUTO_PTR(tg_chain) c = NULL;
    TG_TRY(tg_chain_new(&c, dtype, chunk, err));
    c->big_endian = byte_order == '>';
    TG_TRY(set_v2_order(c, order, err));
    TG_TRY(open_filters(c, filters, err));
    TG_TRY(open_compressor(c, compressor, err));
    *out = tg_steal(c);
    return TG_OK;
}
