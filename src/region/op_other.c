/* Finding the array that a parameter of an operation names. */
#include "region/op_other.h"

#include <inttypes.h>
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

/* --- Labels
 * ----------------------------------------------------------------------------------- */

tg_status tg_op_labels_check(const tg_op_labels *l, const char *what, tg_error *err)
{
    char room[16];

    if (l->dtype.kind != TG_DT_UINT && l->dtype.kind != TG_DT_INT &&
        l->dtype.kind != TG_DT_BOOL)
        return tg_fail(err, TG_INVALID, "%s: labels of %s, want whole numbers", what,
                       tg_dtype_name(l->dtype, room));
    if (l->n_axes == 0 || l->n_axes > TG_OP_LABEL_AXES)
        return tg_fail(err, TG_UNSUPPORTED, "%s: %" PRIu32 " dimensions, want 1 to %d", what,
                       l->n_axes, TG_OP_LABEL_AXES);
    return TG_OK;
}

tg_status tg_op_labels_open(tg_op_labels *l, const tg_function_env *env, const char *what,
                            const char *path, tg_error *err)
{
    TG_TRY(tg_op_other_open(&l->other, env, what, path, err));
    return tg_op_labels_fit(l, env, what, path, err);
}

tg_status tg_op_labels_fit(tg_op_labels *l, const tg_function_env *env, const char *what,
                           const char *path, tg_error *err)
{
    tg_op_other *o = &l->other;

    l->dtype = o->array->meta->info.dtype;
    l->n_axes = o->level.ndim;
    TG_TRY(tg_op_labels_check(l, what, err));
    TG_TRY(tg_op_other_match(o, env, what, err));
    for (uint32_t a = 0; a < l->n_axes; a++) {
        l->axis[a] = o->along[a];
        if (o->level.shape[a] != env->in_shape->n[l->axis[a]])
            return tg_fail(err, TG_INVALID,
                           "%s '%.200s' has %" PRIu64 " items along dimension %" PRIu32
                           ", IN has %" PRIu64,
                           what, path, o->level.shape[a], a, env->in_shape->n[l->axis[a]]);
    }
    if (tg_array_worst_bytes(o->array) > SIZE_MAX / 4)
        return tg_fail(err, TG_UNSUPPORTED, "%s '%.200s': its chunks are too large", what,
                       path);
    return TG_OK;
}

uint64_t tg_op_labels_items(const tg_op_labels *l, const uint64_t *shape)
{
    uint64_t n = 1;

    for (uint32_t a = 0; a < l->n_axes; a++)
        if (__builtin_mul_overflow(n, shape[l->axis[a]], &n) || n > UINT64_MAX / 64)
            return UINT64_MAX / 64;
    return n;
}

uint64_t tg_op_labels_bytes(const tg_op_labels *l, const uint64_t *shape)
{
    return tg_op_labels_items(l, shape) * l->dtype.size + tg_array_worst_bytes(l->other.array);
}

tg_status tg_op_labels_read_box(const tg_op_labels *l, const uint64_t *start,
                                const uint64_t *shape, void *room, tg_label_view *out,
                                const tg_cancel *cancel, tg_error *err)
{
    uint64_t from[TG_OP_LABEL_AXES] = {0}, count[TG_OP_LABEL_AXES] = {0};
    int64_t stride = l->dtype.size;

    *out = (tg_label_view){.data = room};
    for (uint32_t a = l->n_axes; a-- > 0;) {
        const uint32_t d = l->axis[a];
        from[a] = start[d];
        count[a] = shape[d];
        out->strides[d] = stride;
        stride *= (int64_t)count[a];
    }
    return tg_array_read(l->other.array, from, count, room, NULL, cancel, err);
}

tg_status tg_op_labels_read(const tg_op_labels *l, const tg_region_call *c, void *room,
                            tg_label_view *out, const tg_cancel *cancel, tg_error *err)
{
    uint64_t start[TG_MAX_NDIM] = {0};

    for (uint32_t d = 0; d < c->in.ndim; d++)
        start[d] = c->in_start[d] + c->before[d];
    return tg_op_labels_read_box(l, start, c->region, room, out, cancel, err);
}

void tg_op_labels_of_in(const tg_region_call *c, tg_label_view *out)
{
    *out = (tg_label_view){.data = c->in.data};
    for (uint32_t d = 0; d < c->in.ndim; d++) {
        out->strides[d] = c->in.strides[d];
        out->data += (int64_t)c->before[d] * c->in.strides[d];
    }
}

tg_status tg_label_load(tg_dtype t, uint64_t *to, const char *src, int64_t step, size_t n,
                        tg_error *err)
{
    const uint64_t most = t.kind == TG_DT_INT ? UINT64_MAX >> (65 - 8 * t.size) : UINT64_MAX;
    uint8_t b8;
    uint16_t b16;
    uint32_t b32;

    for (size_t i = 0; i < n; i++, src += step) {
        switch (t.size) {
        case 1:
            memcpy(&b8, src, 1);
            to[i] = b8;
            break;
        case 2:
            memcpy(&b16, src, 2);
            to[i] = b16;
            break;
        case 4:
            memcpy(&b32, src, 4);
            to[i] = b32;
            break;
        default:
            memcpy(&to[i], src, 8);
            break;
        }
        if (to[i] > most)
            return tg_fail(err, TG_CORRUPT, "a label below 0");
    }
    return TG_OK;
}
