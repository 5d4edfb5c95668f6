/* store/store_fault.c - a store whose n-th operation fails, once or from then
 * on: how a test walks every error path above it. Knows nothing of the store
 * behind it, which is not asked when the failure is due. */
#include "store/store.h"

#include <stdatomic.h>

typedef struct fault_store {
    tg_store base;
    atomic_long left; /* operations until the one that fails, itself counted; 0: off */
    atomic_bool persistent;
} fault_store;

typedef struct fault_object {
    tg_object base;
    fault_store *faults;
    tg_object *inner;
} fault_object;

static bool due(fault_store *f)
{
    if (atomic_load(&f->left) == 0)
        return false;
    long before = atomic_fetch_sub(&f->left, 1);
    if (before == 1 && !atomic_load(&f->persistent)) {
        atomic_store(&f->left, 0);
        return true;
    }
    if (before == 1)
        atomic_store(&f->left, 1); /* this one, and the next, and so on */
    return before == 1;
}

static tg_status strike(tg_store *s, const char *what, const char *key, tg_error *err)
{
    if (!due((fault_store *)s))
        return TG_OK;
    tg_status st = tg_fail(err, TG_IO, "%s '%s': injected fault", what, key);
    tg_error_at(err, key, TG_NO_OFFSET);
    return st;
}

static tg_status fault_get_into(tg_store *s, const char *key, tg_range range, void *dst,
                                size_t cap, size_t *n, uint64_t *total, const tg_cancel *cancel,
                                tg_error *err)
{
    TG_TRY(strike(s, "read", key, err));
    return tg_store_get_into(s->inner, key, range, dst, cap, n, total, cancel, err);
}

static tg_status fault_get_ranges(tg_store *s, const char *key, const tg_span *spans, size_t n,
                                  const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(strike(s, "read", key, err));
    return tg_store_get_ranges(s->inner, key, spans, n, cancel, err);
}

static tg_status fault_size(tg_store *s, const char *key, uint64_t *bytes,
                            const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(strike(s, "size of", key, err));
    return tg_store_size(s->inner, key, bytes, cancel, err);
}

static tg_status fault_put(tg_store *s, const char *key, const void *data, size_t len,
                           unsigned how, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(strike(s, "write", key, err));
    return tg_store_put_how(s->inner, key, data, len, how, cancel, err);
}

static tg_status fault_sync(tg_store *s, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(strike(s, "sync", "", err));
    return tg_store_sync(s->inner, cancel, err);
}

static tg_status fault_remove(tg_store *s, const char *key, const tg_cancel *cancel,
                              tg_error *err)
{
    TG_TRY(strike(s, "remove", key, err));
    return tg_store_remove(s->inner, key, cancel, err);
}

static tg_status fault_list(tg_store *s, const char *prefix, tg_list_fn fn, void *user,
                            const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(strike(s, "list", prefix, err));
    return tg_store_list(s->inner, prefix, fn, user, cancel, err);
}

/* --- Objects ------------------------------------------------------------- */

static tg_status strike_object(tg_object *o, const char *what, tg_error *err)
{
    return strike(&((fault_object *)o)->faults->base, what, "an object", err);
}

static tg_status fault_write_at(tg_object *o, uint64_t offset, const void *data, size_t len,
                                const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(strike_object(o, "write", err));
    return tg_object_write_at(((fault_object *)o)->inner, offset, data, len, cancel, err);
}

static tg_status fault_write(tg_object *o, const void *data, size_t len,
                             const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(strike_object(o, "write", err));
    return tg_object_write(((fault_object *)o)->inner, data, len, cancel, err);
}

static tg_status fault_object_sync(tg_object *o, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(strike_object(o, "sync", err));
    return tg_object_sync(((fault_object *)o)->inner, cancel, err);
}

static tg_status fault_seal(tg_object *o, uint64_t len, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(strike_object(o, "seal", err));
    return tg_object_seal(((fault_object *)o)->inner, len, cancel, err);
}

static void fault_abort(tg_object *o)
{
    tg_object_abort(((fault_object *)o)->inner);
}

static void fault_object_free(tg_object *o)
{
    tg_object_free(((fault_object *)o)->inner);
    tg_free(o);
}

static const tg_object_ops object_ops = {
    .write_at = fault_write_at,
    .write = fault_write,
    .sync = fault_object_sync,
    .seal = fault_seal,
    .abort = fault_abort,
    .free = fault_object_free,
};

static tg_status fault_begin(tg_store *s, const char *key, tg_object_options options,
                             tg_object **out, const tg_cancel *cancel, tg_error *err)
{
    fault_object *o = tg_calloc(1, sizeof *o);
    TG_AUTO(tg_mem_ptr) room = o;

    if (o == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to write '%s'", key);
    TG_TRY(strike(s, "begin", key, err));
    TG_TRY(tg_object_begin(s->inner, key, options, &o->inner, cancel, err));
    o->base = (tg_object){&object_ops, o->inner->align, o->inner->direct, false, s};
    o->faults = (fault_store *)s;
    room = NULL;
    *out = &o->base;
    return TG_OK;
}

static tg_status fault_close(tg_store *s, tg_error *err)
{
    TG_TRY(strike(s, "close", "", err));
    return tg_store_close(s->inner, err);
}

static void fault_free(tg_store *s)
{
    tg_free(s);
}

static const tg_store_ops fault_ops = {
    .name = "fault",
    .get_into = fault_get_into,
    .get_ranges = fault_get_ranges,
    .size = fault_size,
    .put = fault_put,
    .sync = fault_sync,
    .remove = fault_remove,
    .list = fault_list,
    .begin = fault_begin,
    .close = fault_close,
    .free = fault_free,
};

tg_status tg_store_open_fault(tg_store **out, tg_store *inner, tg_error *err)
{
    fault_store *f = tg_calloc(1, sizeof *f);
    if (f == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    tg_store_init(&f->base, &fault_ops);
    f->base.inner = inner;
    *out = &f->base;
    return TG_OK;
}

void tg_store_fail_at(tg_store *s, long n, bool persistent)
{
    fault_store *f = (fault_store *)s;
    atomic_store(&f->persistent, persistent);
    atomic_store(&f->left, n);
}
