/* codec/chain_write.c - the metadata of a chain. Strict where reading is
 * lenient: what the specification asks for, and no key more. */
#include "codec/chain.h"

static tg_status write_transpose(const tg_chain *c, tg_json *list, tg_error *err)
{
    tg_json *at;

    TG_AUTO_PTR(tg_json) root = NULL;
    TG_TRY(tg_config_begin("transpose", 3, &root, &at, err));
    TG_TRY(tg_json_set(at, "order", tg_json_new_array(), err));
    at = tg_json_get_mutable(at, "order");
    for (uint32_t i = 0; i < c->shape.ndim; i++)
        TG_TRY(tg_json_append(at, tg_json_new_u64(c->order[i]), err));
    return tg_json_append(list, tg_steal(root), err);
}

/* "endian" only where it means something. */
static tg_status write_bytes(const tg_chain *c, tg_json *list, tg_error *err)
{
    tg_json *at;

    TG_AUTO_PTR(tg_json) root = NULL;
    TG_TRY(tg_config_begin(tg_chain_is_strings(c) ? "vlen-utf8" : "bytes", 3, &root, &at, err));
    if (tg_dtype_swap_bytes(c->dtype) > 1)
        TG_TRY(tg_json_set(at, "endian", tg_json_new_string(c->big_endian ? "big" : "little"),
                           err));
    else if (!tg_chain_is_strings(c))
        tg_json_remove(root, "configuration");
    return tg_json_append(list, tg_steal(root), err);
}

tg_status tg_chain_write_v3(const tg_chain *c, tg_json **codecs, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();

    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for metadata");
    if (c->transposed)
        TG_TRY(write_transpose(c, list, err));
    TG_TRY(write_bytes(c, list, err));
    for (size_t k = 0; k < c->n; k++) {
        tg_json *codec;
        TG_TRY(c->codecs[k]->ops->write_config(c->codecs[k], 3, &codec, err));
        TG_TRY(tg_json_append(list, codec, err));
    }
    *codecs = tg_steal(list);
    return TG_OK;
}

static tg_status write_filters(const tg_chain *c, tg_json **filters, tg_error *err)
{
    tg_json *root, *at;

    if (!tg_chain_is_strings(c)) {
        *filters = tg_json_new_null();
        return *filters != NULL ? TG_OK : tg_fail(err, TG_NO_MEMORY, "no memory for metadata");
    }
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for metadata");
    TG_TRY(tg_config_begin("vlen-utf8", 2, &root, &at, err));
    TG_TRY(tg_json_append(list, root, err));
    *filters = tg_steal(list);
    return TG_OK;
}

static tg_status write_compressor(const tg_chain *c, tg_json **compressor, tg_error *err)
{
    if (c->n > 1)
        return tg_fail(err, TG_UNSUPPORTED, "codecs: zarr_format 2 has room for one, not %zu",
                       c->n);
    if (c->n == 1 && tg_codec_is_crc32c(c->codecs[0]))
        return tg_fail(err, TG_UNSUPPORTED, "codec 'crc32c' is not in zarr_format 2");
    if (c->n == 1)
        return c->codecs[0]->ops->write_config(c->codecs[0], 2, compressor, err);
    *compressor = tg_json_new_null();
    return *compressor != NULL ? TG_OK : tg_fail(err, TG_NO_MEMORY, "no memory for metadata");
}

tg_status tg_chain_write_v2(const tg_chain *c, tg_json **filters, tg_json **compressor,
                            tg_error *err)
{
    TG_AUTO_PTR(tg_json) made = NULL;

    TG_TRY(write_filters(c, &made, err));
    TG_TRY(write_compressor(c, compressor, err));
    *filters = tg_steal(made);
    return TG_OK;
}
