/* store/store_lazy.c - a store whose puts are lazy: durable with the next sync of
 * the store, so that a job commits many values at once. */
#include "store/store.h"

static tg_status lazy_put(tg_store *s, const char *key, const void *data, size_t len,
                          unsigned how, const tg_cancel *cancel, tg_error *err)
{
    return tg_store_put_how(s->inner, key, data, len, how | TG_PUT_LAZY, cancel, err);
}

static tg_status lazy_get_into(tg_store *s, const char *key, tg_range range, void *dst,
                               size_t cap, size_t *n, uint64_t *total, const tg_cancel *cancel,
                               tg_error *err)
{
    return tg_store_get_into(s->inner, key, range, dst, cap, n, total, cancel, err);
}

static tg_status lazy_get_ranges(tg_store *s, const char *key, const tg_span *spans, size_t n,
                                 const tg_cancel *cancel, tg_error *err)
{
    return tg_store_get_ranges(s->inner, key, spans, n, cancel, err);
}

static tg_status lazy_size(tg_store *s, const char *key, uint64_t *bytes,
                           const tg_cancel *cancel, tg_error *err)
{
    return tg_store_size(s->inner, key, bytes, cancel, err);
}

static tg_status lazy_sync(tg_store *s, const tg_cancel *cancel, tg_error *err)
{
    return tg_store_sync(s->inner, cancel, err);
}

static tg_status lazy_remove(tg_store *s, const char *key, const tg_cancel *cancel,
                             tg_error *err)
{
    return tg_store_remove(s->inner, key, cancel, err);
}

static tg_status lazy_list(tg_store *s, const char *prefix, tg_list_fn fn, void *user,
                           const tg_cancel *cancel, tg_error *err)
{
    return tg_store_list(s->inner, prefix, fn, user, cancel, err);
}

static tg_status lazy_begin(tg_store *s, const char *key, tg_object_options options,
                            tg_object **out, const tg_cancel *cancel, tg_error *err)
{
    return tg_object_begin(s->inner, key, options, out, cancel, err);
}

static tg_status lazy_close(tg_store *s, tg_error *err)
{
    return tg_store_close(s->inner, err);
}

static void lazy_free(tg_store *s)
{
    tg_free(s);
}

static const tg_store_ops lazy_ops = {
    .name = "lazy",
    .get_into = lazy_get_into,
    .get_ranges = lazy_get_ranges,
    .size = lazy_size,
    .put = lazy_put,
    .sync = lazy_sync,
    .remove = lazy_remove,
    .list = lazy_list,
    .begin = lazy_begin,
    .close = lazy_close,
    .free = lazy_free,
};

tg_status tg_store_open_lazy(tg_store **out, tg_store *inner, tg_error *err)
{
    tg_store *s = tg_calloc(1, sizeof *s);
    if (s == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    tg_store_init(s, &lazy_ops);
    s->inner = inner;
    *out = s;
    return TG_OK;
}
