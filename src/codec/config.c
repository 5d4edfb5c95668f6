/* codec/config.c - reading and writing codec configurations. Knows no codec. */
#include "codec/config.h"

#include <inttypes.h>
#include <string.h>

static const tg_json *member(const tg_config *c, const char *key)
{
    return c->json == NULL ? NULL : tg_json_get(c->json, key);
}

bool tg_config_has(const tg_config *c, const char *key)
{
    return member(c, key) != NULL;
}

static tg_status wrong_kind(const tg_config *c, const char *key, const tg_json *v,
                            const char *want, tg_error *err)
{
    return tg_fail(err, TG_CORRUPT, "%s: \"%s\" is a %s, want %s", c->codec, key,
                   tg_json_kind_name(tg_json_kind_of(v)), want);
}

tg_status tg_config_int(const tg_config *c, const char *key, int64_t min, int64_t max, int *out,
                        tg_error *err)
{
    const tg_json *v = member(c, key);
    int64_t got;

    if (v == NULL)
        return TG_OK;
    if (tg_json_kind_of(v) != TG_JSON_INT)
        return wrong_kind(c, key, v, "an integer", err);
    if (tg_json_i64(v, &got, NULL) != TG_OK || got < min || got > max)
        return tg_fail(err, TG_CORRUPT, "%s: \"%s\" out of range, want %" PRId64 " to %" PRId64,
                       c->codec, key, min, max);
    *out = (int)got;
    return TG_OK;
}

tg_status tg_config_bool(const tg_config *c, const char *key, bool *out, tg_error *err)
{
    const tg_json *v = member(c, key);

    if (v == NULL)
        return TG_OK;
    if (tg_json_kind_of(v) != TG_JSON_BOOL)
        return wrong_kind(c, key, v, "true or false", err);
    return tg_json_bool(v, out, err);
}

tg_status tg_config_word(const tg_config *c, const char *key, const char *const *words,
                         size_t n, int *out, tg_error *err)
{
    const tg_json *v = member(c, key);
    const char *got;

    if (v == NULL)
        return TG_OK;
    if (tg_json_kind_of(v) != TG_JSON_STRING)
        return wrong_kind(c, key, v, "a string", err);
    TG_TRY(tg_json_string(v, &got, NULL, err));
    for (size_t i = 0; i < n; i++) {
        if (strcmp(got, words[i]) == 0) {
            *out = (int)i;
            return TG_OK;
        }
    }
    return tg_fail(err, TG_CORRUPT, "%s: \"%s\" is \"%.40s\", want \"%s\" to \"%s\"", c->codec,
                   key, got, words[0], words[n - 1]);
}

tg_status tg_config_only(const tg_config *c, const char *const *keys, size_t n, tg_error *err)
{
    if (c->zarr_format == 2)
        return TG_OK;
    for (size_t i = 0; i < tg_json_size(c->json); i++) {
        const char *key = tg_json_key_at(c->json, i);
        size_t k = 0;
        while (k < n && strcmp(key, keys[k]) != 0)
            k++;
        if (k == n)
            return tg_fail(err, TG_UNSUPPORTED, "%s: unknown configuration \"%.60s\"", c->codec,
                           key);
    }
    return TG_OK;
}

tg_status tg_config_begin(const char *codec, int zarr_format, tg_json **out, tg_json **at,
                          tg_error *err)
{
    TG_AUTO_PTR(tg_json) root = tg_json_new_object();

    if (root == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the configuration of %s", codec);
    TG_TRY(tg_json_set(root, zarr_format == 2 ? "id" : "name", tg_json_new_string(codec), err));
    if (zarr_format != 2)
        TG_TRY(tg_json_set(root, "configuration", tg_json_new_object(), err));
    *at = zarr_format == 2 ? root : tg_json_get_mutable(root, "configuration");
    *out = tg_steal(root);
    return TG_OK;
}
