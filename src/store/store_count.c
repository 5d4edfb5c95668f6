/* store/store_count.c - a store that counts what passes through it: how a test
 * shows that each value is read once. Knows nothing of the store behind it. */
#include "store/store.h"

#include <stdatomic.h>

typedef struct count_store {
    tg_store base;
    atomic_uint_least64_t gets, get_bytes, puts, put_bytes, syncs, removes, lists, sizes;
} count_store;

typedef struct count_object {
    tg_object base;
    count_store *counts;
    tg_object *inner;
} count_object;

static count_store *self(tg_store *s)
{
    return (count_store *)s;
}

static void add(atomic_uint_least64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static tg_status count_get_into(tg_store *s, const char *key, tg_range range, void *dst,
                                size_t cap, size_t *n, uint64_t *total, const tg_cancel *cancel,
                                tg_error *err)
{
    add(&self(s)->gets, 1);
    TG_TRY(tg_store_get_into(s->inner, key, range, dst, cap, n, total, cancel, err));
    add(&self(s)->get_bytes, *n);
    return TG_OK;
}

static tg_status count_get_ranges(tg_store *s, const char *key, const tg_span *spans, size_t n,
                                  const tg_cancel *cancel, tg_error *err)
{
    for (size_t i = 0; i < n; i++) /* neighbours are one request where it is paid for */
        if (i == 0 || spans[i].offset != spans[i - 1].offset + spans[i - 1].len)
            add(&self(s)->gets, 1);
    TG_TRY(tg_store_get_ranges(s->inner, key, spans, n, cancel, err));
    for (size_t i = 0; i < n; i++)
        add(&self(s)->get_bytes, spans[i].len);
    return TG_OK;
}

static tg_status count_size(tg_store *s, const char *key, uint64_t *bytes,
                            const tg_cancel *cancel, tg_error *err)
{
    add(&self(s)->sizes, 1);
    return tg_store_size(s->inner, key, bytes, cancel, err);
}

static tg_status count_put(tg_store *s, const char *key, const void *data, size_t len,
                           unsigned how, const tg_cancel *cancel, tg_error *err)
{
    add(&self(s)->puts, 1);
    add(&self(s)->put_bytes, len);
    return tg_store_put_how(s->inner, key, data, len, how, cancel, err);
}

static tg_status count_sync(tg_store *s, const tg_cancel *cancel, tg_error *err)
{
    add(&self(s)->syncs, 1);
    return tg_store_sync(s->inner, cancel, err);
}

static tg_status count_remove(tg_store *s, const char *key, const tg_cancel *cancel,
                              tg_error *err)
{
    add(&self(s)->removes, 1);
    return tg_store_remove(s->inner, key, cancel, err);
}

static tg_status count_list(tg_store *s, const char *prefix, tg_list_fn fn, void *user,
                            const tg_cancel *cancel, tg_error *err)
{
    add(&self(s)->lists, 1);
    return tg_store_list(s->inner, prefix, fn, user, cancel, err);
}

/* --- Objects: each write is a put, each sync and seal a sync ----------------- */

static tg_status count_write_at(tg_object *o, uint64_t offset, const void *data, size_t len,
                                const tg_cancel *cancel, tg_error *err)
{
    add(&((count_object *)o)->counts->puts, 1);
    add(&((count_object *)o)->counts->put_bytes, len);
    return tg_object_write_at(((count_object *)o)->inner, offset, data, len, cancel, err);
}

static tg_status count_write(tg_object *o, const void *data, size_t len,
                             const tg_cancel *cancel, tg_error *err)
{
    add(&((count_object *)o)->counts->puts, 1);
    add(&((count_object *)o)->counts->put_bytes, len);
    return tg_object_write(((count_object *)o)->inner, data, len, cancel, err);
}

static tg_status count_object_sync(tg_object *o, const tg_cancel *cancel, tg_error *err)
{
    add(&((count_object *)o)->counts->syncs, 1);
    return tg_object_sync(((count_object *)o)->inner, cancel, err);
}

static tg_status count_seal(tg_object *o, uint64_t len, const tg_cancel *cancel, tg_error *err)
{
    add(&((count_object *)o)->counts->syncs, 1);
    return tg_object_seal(((count_object *)o)->inner, len, cancel, err);
}

static void count_abort(tg_object *o)
{
    tg_object_abort(((count_object *)o)->inner);
}

static void count_object_free(tg_object *o)
{
    tg_object_free(((count_object *)o)->inner);
    tg_free(o);
}

static const tg_object_ops object_ops = {
    .write_at = count_write_at,
    .write = count_write,
    .sync = count_object_sync,
    .seal = count_seal,
    .abort = count_abort,
    .free = count_object_free,
};

static tg_status count_begin(tg_store *s, const char *key, tg_object_options options,
                             tg_object **out, const tg_cancel *cancel, tg_error *err)
{
    count_object *o = tg_calloc(1, sizeof *o);
    TG_AUTO(tg_mem_ptr) room = o;

    if (o == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to write '%s'", key);
    TG_TRY(tg_object_begin(s->inner, key, options, &o->inner, cancel, err));
    o->base = (tg_object){&object_ops, o->inner->align, o->inner->direct, false, s};
    o->counts = self(s);
    room = NULL;
    *out = &o->base;
    return TG_OK;
}

static tg_status count_close(tg_store *s, tg_error *err)
{
    return tg_store_close(s->inner, err);
}

static void count_free(tg_store *s)
{
    tg_free(s);
}

static const tg_store_ops count_ops = {
    .name = "count",
    .get_into = count_get_into,
    .get_ranges = count_get_ranges,
    .size = count_size,
    .put = count_put,
    .sync = count_sync,
    .remove = count_remove,
    .list = count_list,
    .begin = count_begin,
    .close = count_close,
    .free = count_free,
};

tg_status tg_store_open_count(tg_store **out, tg_store *inner, tg_error *err)
{
    count_store *c = tg_calloc(1, sizeof *c);
    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    tg_store_init(&c->base, &count_ops);
    c->base.inner = inner;
    *out = &c->base;
    return TG_OK;
}

tg_store_counts tg_store_counted(const tg_store *count_of)
{
    const count_store *c = (const count_store *)count_of;
    return (tg_store_counts){
        .gets = atomic_load(&c->gets),
        .get_bytes = atomic_load(&c->get_bytes),
        .puts = atomic_load(&c->puts),
        .put_bytes = atomic_load(&c->put_bytes),
        .syncs = atomic_load(&c->syncs),
        .removes = atomic_load(&c->removes),
        .lists = atomic_load(&c->lists),
        .sizes = atomic_load(&c->sizes),
    };
}
