/* The codec sharding_indexed as metadata: which chunks lie in a shard, and how
 * its index is written. The bytes are shard_index.c's business. */
#include "zarr/meta.h"

#include <inttypes.h>
#include <string.h>

static const char *codec_name(const tg_json *codec)
{
    const tg_json *configuration = NULL;
    const char *name = "";

    return tg_extension(codec, &name, &configuration, NULL) == TG_OK ? name : "";
}

static size_t find_codec(const tg_json *codecs, const char *name)
{
    size_t i = 0;
    while (i < tg_json_size(codecs) && strcmp(codec_name(tg_json_at(codecs, i)), name) != 0)
        i++;
    return i;
}

/* Dimension i of what comes out of a transpose is dimension order[i] of what goes in. */
static tg_status read_transpose(const tg_json *codec, uint32_t ndim, uint32_t *index_order,
                                tg_error *err)
{
    const tg_json *configuration = NULL, *order = NULL;
    const char *name = NULL;
    uint32_t before[TG_MAX_NDIM];
    uint64_t seen = 0, at = 0;

    memcpy(before, index_order, sizeof before);
    TG_TRY(tg_extension(codec, &name, &configuration, err));
    TG_TRY(tg_member(configuration, "order", TG_JSON_ARRAY, &order, err));
    if (tg_json_size(order) != ndim)
        return tg_fail(err, TG_CORRUPT, "transpose: order has %zu items, want %" PRIu32,
                       tg_json_size(order), ndim);
    for (uint32_t i = 0; i < ndim; i++) {
        TG_TRY(tg_json_u64(tg_json_at(order, i), &at, err));
        if (at >= ndim || (seen >> at & 1) != 0)
            return tg_fail(err, TG_CORRUPT, "transpose: order is no permutation");
        seen |= UINT64_C(1) << at;
        index_order[i] = before[at];
    }
    return TG_OK;
}

static tg_status read_before(tg_array_meta *m, const tg_json *codecs, size_t n, tg_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = codec_name(tg_json_at(codecs, i));
        if (strcmp(name, "transpose") != 0)
            return tg_fail(err, TG_UNSUPPORTED,
                           "codec '%.60s' before sharding_indexed is not supported", name);
        TG_TRY(read_transpose(tg_json_at(codecs, i), m->info.ndim, m->index_order, err));
    }
    return TG_OK;
}

static tg_status check_after(const tg_json *codecs, size_t sharding, tg_error *err)
{
    if (sharding + 1 == tg_json_size(codecs))
        return TG_OK;
    const char *name = codec_name(tg_json_at(codecs, sharding + 1));
    if (strcmp(name, "bytes") == 0 || strcmp(name, "vlen-utf8") == 0 ||
        strcmp(name, "transpose") == 0 || strcmp(name, "sharding_indexed") == 0)
        return tg_fail(err, TG_CORRUPT, "codec '%s' cannot follow sharding_indexed", name);
    return tg_fail(err, TG_UNSUPPORTED,
                   "codec '%.60s' behind sharding_indexed is not supported", name);
}

/* The index is 16 bytes a chunk wherever it lies, so its codecs must keep its length. */
static tg_status read_index_codecs(tg_array_meta *m, const tg_json *list, tg_error *err)
{
    const tg_json *configuration = NULL;
    const char *name = NULL, *endian = "little";

    if (tg_json_size(list) == 0)
        return tg_fail(err, TG_CORRUPT, "index_codecs: want \"bytes\" first");
    TG_TRY(tg_extension(tg_json_at(list, 0), &name, &configuration, err));
    if (strcmp(name, "bytes") != 0)
        return tg_fail(err, TG_UNSUPPORTED, "index_codecs: '%.60s' first, want 'bytes'", name);
    if (tg_json_get(configuration, "endian") != NULL)
        TG_TRY(tg_json_string(tg_json_get(configuration, "endian"), &endian, NULL, err));
    if (strcmp(endian, "little") != 0 && strcmp(endian, "big") != 0)
        return tg_fail(err, TG_CORRUPT, "index_codecs: endian '%.20s'", endian);
    m->index_big_endian = endian[0] == 'b';
    if (tg_json_size(list) == 1)
        return TG_OK;
    TG_TRY(tg_extension(tg_json_at(list, 1), &name, &configuration, err));
    if (strcmp(name, "crc32c") != 0 || tg_json_size(list) > 2)
        return tg_fail(err, TG_UNSUPPORTED,
                       "index_codecs: '%.60s' is not supported, only bytes and crc32c",
                       tg_json_size(list) > 2 ? codec_name(tg_json_at(list, 2)) : name);
    m->index_crc32c = true;
    return TG_OK;
}

static tg_status read_location(tg_array_meta *m, const tg_json *configuration, tg_error *err)
{
    const char *text = "end";
    const tg_json *v = tg_json_get(configuration, "index_location");

    if (v != NULL)
        TG_TRY(tg_json_string(v, &text, NULL, err));
    if (strcmp(text, "start") != 0 && strcmp(text, "end") != 0)
        return tg_fail(err, TG_CORRUPT, "index_location '%.20s', want 'start' or 'end'", text);
    m->index_at_start = text[0] == 's';
    return TG_OK;
}

static tg_status check_members(const tg_json *configuration, tg_error *err)
{
    for (size_t i = 0; i < tg_json_size(configuration); i++) {
        const char *key = tg_json_key_at(configuration, i);
        if (strcmp(key, "chunk_shape") != 0 && strcmp(key, "codecs") != 0 &&
            strcmp(key, "index_codecs") != 0 && strcmp(key, "index_location") != 0)
            return tg_fail(err, TG_CORRUPT, "unknown member '%s'", key);
    }
    return TG_OK;
}

static tg_status read_configuration(tg_array_meta *m, const tg_json *codec,
                                    const tg_json **codecs, tg_error *err)
{
    const tg_json *configuration = NULL, *shape = NULL, *index_codecs = NULL;
    const char *name = NULL;
    uint64_t extents[TG_MAX_NDIM];

    TG_TRY(tg_extension(codec, &name, &configuration, err));
    TG_TRY(check_members(configuration, err));
    TG_TRY(tg_member(configuration, "chunk_shape", TG_JSON_ARRAY, &shape, err));
    TG_TRY(tg_meta_extents(shape, 1, false, &m->info.ndim, extents, err));
    m->chunk.ndim = m->info.ndim;
    for (uint32_t i = 0; i < m->info.ndim; i++)
        m->chunk.n[m->index_order[i]] = extents[i];
    TG_TRY(tg_member(configuration, "codecs", TG_JSON_ARRAY, codecs, err));
    if (find_codec(*codecs, "sharding_indexed") < tg_json_size(*codecs))
        return tg_fail(err, TG_UNSUPPORTED, "shards within shards are not supported");
    TG_TRY(tg_member(configuration, "index_codecs", TG_JSON_ARRAY, &index_codecs, err));
    TG_TRY(read_index_codecs(m, index_codecs, err));
    return read_location(m, configuration, err);
}

/* A transposed shard of inner chunks is, chunk by chunk, an array of transposed chunks. */
static tg_status join_codecs(const tg_json *before, size_t n_before, const tg_json *inner,
                             tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    tg_json *copy = NULL;

    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "codecs");
    for (size_t i = 0; i < n_before + tg_json_size(inner); i++) {
        TG_TRY(tg_json_copy(
            &copy, i < n_before ? tg_json_at(before, i) : tg_json_at(inner, i - n_before),
            err));
        TG_TRY(tg_json_append(list, copy, err));
    }
    *out = tg_steal(list);
    return TG_OK;
}

tg_status tg_meta_sharding(tg_array_meta *m, const tg_json *codecs, bool *sharded,
                           tg_json **inner_codecs, tg_error *err)
{
    const tg_json *inner = NULL;
    size_t at = find_codec(codecs, "sharding_indexed");

    *sharded = at < tg_json_size(codecs);
    if (!*sharded)
        return TG_OK;
    TG_TRY(read_before(m, codecs, at, err));
    TG_TRY(check_after(codecs, at, err));
    tg_status st = read_configuration(m, tg_json_at(codecs, at), &inner, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "sharding_indexed");
        return st;
    }
    return join_codecs(codecs, at, inner, inner_codecs, err);
}
