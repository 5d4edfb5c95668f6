/* Finding the array that a parameter of an operation names. */
#include "region/op_other.h"

#include <stdio.h>
#include <string.h>

void tg_op_other_close(tg_op_other *o)
{
    tg_array_free(o->array);
    tg_store_free(o->own);
    *o = (tg_op_other){0};
}

static tg_status open_at(tg_op_other *o, tg_store *store, const char *path,
                         const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(tg_ome_level_read(&o->level, store, path, cancel, err));
    return tg_array_open(store, o->level.array, &o->array, cancel, err);
}

static tg_status open_own(tg_op_other *o, const char *path, const tg_cancel *cancel,
                          tg_error *err)
{
    TG_AUTO(tg_str) prefix = NULL;

    TG_TRY(tg_store_open(path, NULL, &o->own, &prefix, err));
    return open_at(o, o->own, prefix == NULL ? "" : prefix, cancel, err);
}

static tg_status find(tg_op_other *o, const tg_function_env *env, const char *path,
                      tg_error *err)
{
    char below[1200];

    if (env->in_store != NULL && path[0] != '/' && strstr(path, "..") == NULL) {
        if (tg_path_join(below, sizeof below, env->image == NULL ? "" : env->image, path,
                         NULL) == TG_OK &&
            open_at(o, env->in_store, below, env->cancel, NULL) == TG_OK)
            return TG_OK;
        if (open_at(o, env->in_store, path, env->cancel, NULL) == TG_OK)
            return TG_OK;
    }
    return open_own(o, path, env->cancel, err);
}

tg_status tg_op_other_open(tg_op_other *o, const tg_function_env *env, const char *what,
                           const char *path, tg_error *err)
{
    tg_status st = find(o, env, path, err);

    if (st != TG_OK) {
        tg_op_other_close(o);
        tg_error_prefix(err, "%s '%.200s'", what, path);
    }
    return st;
}

static bool all_named(const tg_op_other *o, const tg_function_env *env)
{
    bool named = env->axes != NULL;

    for (uint32_t d = 0; d < o->level.ndim; d++)
        named = named && o->level.axis[d][0] != '\0';
    for (uint32_t d = 0; named && d < env->in_shape->ndim; d++)
        named = env->axes[d] != NULL;
    return named;
}

tg_status tg_op_other_match(tg_op_other *o, const tg_function_env *env, const char *what,
                            tg_error *err)
{
    const uint32_t ndim = env->in_shape->ndim, n = o->level.ndim;
    const bool named = all_named(o, env);

    if (n > ndim)
        return tg_fail(err, TG_INVALID, "%s has %u dimensions, IN has %u", what, n, ndim);
    for (uint32_t d = 0; d < n; d++) {
        uint32_t k = named ? 0 : ndim - n + d;
        while (named && k < ndim && strcmp(env->axes[k], o->level.axis[d]) != 0)
            k++;
        if (k == ndim || (d > 0 && k <= o->along[d - 1]))
            return tg_fail(err, TG_INVALID, "%s has an axis '%.40s' where IN has none", what,
                           o->level.axis[d]);
        o->along[d] = k;
    }
    return TG_OK;
}
