/* store/store.c - the front of every store: checks keys, capabilities and the
 * cancel token, and puts the store's name into messages. Knows no backend. */
#include "store/store.h"

#include <assert.h>
#include <string.h>

void tg_store_init(tg_store *s, const tg_store_ops *ops)
{
    s->ops = ops;
    s->dir = -1;
}

tg_status tg_store_set_what(tg_store *s, const char *kind, const char *name, tg_error *err)
{
    TG_AUTO(tg_text) t = {0};
    tg_text_addf(&t, "%s '%s'", kind, name);
    TG_TRY(tg_text_status(&t, err));
    s->what = tg_text_steal(&t);
    return TG_OK;
}

/* Every part names one thing, inside: not "", "." or "..". A backslash is a separator to some
 * readers, so it could lead outside there. */
bool tg_store_key_valid(const char *key)
{
    if (strlen(key) > TG_STORE_KEY_MAX || strchr(key, '\\') != NULL)
        return false;
    for (const char *part = key;; part++) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (n <= 2 && strspn(part, ".") == n))
            return false;
        part += n;
        if (*part == '\0')
            return true;
    }
}

const char *tg_store_describe(const tg_store *s)
{
    while (s->what == NULL && s->inner != NULL)
        s = s->inner;
    return s->what == NULL ? s->ops->name : s->what;
}

/* Name the store in a failure that its backend reports. */
static tg_status name_store(const tg_store *s, const char *key, tg_status st, tg_error *err)
{
    if (st != TG_OK && s->inner == NULL) {
        tg_error_prefix(err, "%s", tg_store_describe(s));
        tg_error_at(err, key, TG_NO_OFFSET);
    }
    return st;
}

static tg_status check_key(const tg_store *s, const char *key, tg_error *err)
{
    if (tg_store_key_valid(key))
        return TG_OK;
    tg_status st = tg_fail(err, TG_INVALID,
                           "%s: '%.200s' is no key: parts must not be empty, "
                           "'.' or '..', nor hold a backslash, and %d bytes are the most",
                           tg_store_describe(s), key, TG_STORE_KEY_MAX);
    tg_error_at(err, key, TG_NO_OFFSET);
    return st;
}

static tg_status check(const tg_store *s, const char *key, uint32_t caps, bool has,
                       const char *what, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(check_key(s, key, err));
    if (!has || (tg_store_caps(s) & caps) != caps) {
        tg_status st =
            tg_fail(err, TG_UNSUPPORTED, "%s cannot %s '%s'", tg_store_describe(s), what, key);
        tg_error_at(err, key, TG_NO_OFFSET);
        return st;
    }
    return tg_cancel_check(cancel, err);
}

tg_status tg_range_resolve(tg_range r, uint64_t size, uint64_t *offset, uint64_t *len,
                           tg_error *err)
{
    uint64_t off = 0, n = size;

    if (r.kind == TG_RANGE_AT) {
        if (r.offset > size || r.len > size - r.offset) {
            tg_status st =
                tg_fail(err, TG_CORRUPT, "value has %llu bytes, want %llu at byte %llu",
                        (unsigned long long)size, (unsigned long long)r.len,
                        (unsigned long long)r.offset);
            tg_error_at(err, NULL, r.offset);
            return st;
        }
        off = r.offset;
        n = r.len;
    } else if (r.kind == TG_RANGE_LAST && r.len < size) {
        off = size - r.len;
        n = r.len;
    }
    *offset = off;
    *len = n;
    return TG_OK;
}

tg_status tg_store_get_into(tg_store *s, const char *key, tg_range range, void *dst, size_t cap,
                            size_t *n, uint64_t *total, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(check(s, key, 0, s->ops->get_into != NULL, "read", cancel, err));
    return name_store(s, key, s->ops->get_into(s, key, range, dst, cap, n, total, cancel, err),
                      err);
}

/* The value may be replaced by a longer one between two looks at it. */
#define GET_TRIES 4
/* Where each look is a round trip, values up to this size are read without one. */
#define UNSEEN_BYTES ((size_t)64 << 10)

tg_status tg_store_get(tg_store *s, const char *key, tg_range range, size_t limit, tg_buf *out,
                       const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_buf) got = {0};
    uint64_t size = 0, offset = 0, len = 0;
    size_t n = 0;

    if (range.kind == TG_RANGE_AT) { /* the one range whose length needs no look */
        len = range.len;
    } else if ((tg_store_caps(s) & TG_STORE_IS_REMOTE) != 0) {
        len = limit < UNSEEN_BYTES ? limit : UNSEEN_BYTES;
    } else {
        TG_TRY(tg_store_size(s, key, &size, cancel, err));
        TG_TRY(tg_range_resolve(range, size, &offset, &len, err));
    }
    for (int i = 0;; i++) {
        if (len > limit) {
            tg_status st = tg_fail(err, TG_OVER_BUDGET,
                                   "%s: '%s' has %llu bytes to read, the limit is %zu",
                                   tg_store_describe(s), key, (unsigned long long)len, limit);
            tg_error_at(err, key, TG_NO_OFFSET);
            return st;
        }
        TG_TRY(tg_buf_resize(&got, (size_t)len, err));
        tg_status st =
            tg_store_get_into(s, key, range, got.data, got.len, &n, NULL, cancel, err);
        if (st == TG_OK)
            break;
        if (st != TG_OVER_BUDGET || i == GET_TRIES)
            return st;
        len = n;
    }
    got.len = n;
    tg_buf_move(out, &got);
    return TG_OK;
}

tg_status tg_store_get_ranges(tg_store *s, const char *key, const tg_span *spans,
                              size_t n_spans, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(check(s, key, 0, s->ops->get_into != NULL, "read", cancel, err));
    if (s->ops->get_ranges != NULL)
        return name_store(s, key, s->ops->get_ranges(s, key, spans, n_spans, cancel, err), err);
    for (size_t i = 0; i < n_spans; i++) {
        size_t n = 0;
        TG_TRY(tg_store_get_into(s, key, tg_range_at(spans[i].offset, spans[i].len),
                                 spans[i].dst, spans[i].len, &n, NULL, cancel, err));
    }
    return TG_OK;
}

tg_status tg_store_size(tg_store *s, const char *key, uint64_t *bytes, const tg_cancel *cancel,
                        tg_error *err)
{
    TG_TRY(check(s, key, 0, s->ops->size != NULL, "read", cancel, err));
    return name_store(s, key, s->ops->size(s, key, bytes, cancel, err), err);
}

tg_status tg_store_put_how(tg_store *s, const char *key, const void *data, size_t len,
                           unsigned how, const tg_cancel *cancel, tg_error *err)
{
    uint32_t caps = TG_STORE_CAN_WRITE | ((how & TG_PUT_NEW) != 0 ? TG_STORE_CAN_PUT_NEW : 0);
    TG_TRY(check(s, key, caps, s->ops->put != NULL, "write", cancel, err));
    return name_store(s, key, s->ops->put(s, key, data, len, how, cancel, err), err);
}

tg_status tg_store_put(tg_store *s, const char *key, const void *data, size_t len,
                       const tg_cancel *cancel, tg_error *err)
{
    return tg_store_put_how(s, key, data, len, 0, cancel, err);
}

tg_status tg_store_put_new(tg_store *s, const char *key, const void *data, size_t len,
                           const tg_cancel *cancel, tg_error *err)
{
    return tg_store_put_how(s, key, data, len, TG_PUT_NEW, cancel, err);
}

tg_status tg_store_put_lazy(tg_store *s, const char *key, const void *data, size_t len,
                            const tg_cancel *cancel, tg_error *err)
{
    return tg_store_put_how(s, key, data, len, TG_PUT_LAZY, cancel, err);
}

tg_status tg_store_sync(tg_store *s, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(tg_cancel_check(cancel, err));
    return s->ops->sync == NULL ? TG_OK
                                : name_store(s, NULL, s->ops->sync(s, cancel, err), err);
}

tg_status tg_store_remove(tg_store *s, const char *key, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(check(s, key, TG_STORE_CAN_REMOVE, s->ops->remove != NULL, "remove", cancel, err));
    return name_store(s, key, s->ops->remove(s, key, cancel, err), err);
}

/* "" or a key with one '/' after it. */
static tg_status check_prefix(const tg_store *s, const char *prefix, tg_error *err)
{
    char key[TG_STORE_KEY_MAX + 1];
    size_t n = strlen(prefix);

    if (n == 0)
        return TG_OK;
    if (n > TG_STORE_KEY_MAX || prefix[n - 1] != '/')
        return tg_fail(err, TG_INVALID, "%s: prefix '%.200s' must be empty or end in '/'",
                       tg_store_describe(s), prefix);
    memcpy(key, prefix, n - 1);
    key[n - 1] = '\0';
    return check_key(s, key, err);
}

tg_status tg_store_list(tg_store *s, const char *prefix, tg_list_fn fn, void *user,
                        const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(check_prefix(s, prefix, err));
    if (s->ops->list == NULL)
        return tg_fail(err, TG_UNSUPPORTED, "%s cannot be listed", tg_store_describe(s));
    TG_TRY(tg_cancel_check(cancel, err));
    return name_store(s, prefix, s->ops->list(s, prefix, fn, user, cancel, err), err);
}

tg_status tg_store_close(tg_store *s, tg_error *err)
{
    return s->ops->close == NULL ? TG_OK : name_store(s, NULL, s->ops->close(s, err), err);
}

void tg_store_free(tg_store *s)
{
    if (s == NULL)
        return;
    tg_str what = s->what;
    s->ops->free(s);
    tg_free(what);
}

uint32_t tg_store_caps(const tg_store *s)
{
    return s->inner != NULL ? tg_store_caps(s->inner) : s->caps;
}

uint64_t tg_store_own_bytes(const tg_store *s)
{
    return s->inner != NULL ? tg_store_own_bytes(s->inner) : s->own_bytes;
}

int tg_store_dir(const tg_store *s)
{
    return s->inner != NULL ? tg_store_dir(s->inner) : s->dir;
}

const char *tg_store_path(const tg_store *s)
{
    return s->inner != NULL ? tg_store_path(s->inner) : s->path;
}

/* --- Objects ------------------------------------------------------------- */

tg_status tg_object_begin(tg_store *s, const char *key, tg_object_options options,
                          tg_object **out, const tg_cancel *cancel, tg_error *err)
{
    bool seen = options.visible || options.reopen;
    uint32_t caps = TG_STORE_CAN_WRITE | (seen ? TG_STORE_CAN_BE_VISIBLE : 0);
    tg_object *o = NULL;

    assert(options.visible || !options.reopen);
    TG_TRY(check(s, key, caps, s->ops->begin != NULL,
                 seen ? "keep a growing value at" : "stream to", cancel, err));
    TG_TRY(name_store(s, key, s->ops->begin(s, key, options, &o, cancel, err), err));
    o->store = s;
    *out = o;
    return TG_OK;
}

size_t tg_object_align(const tg_object *o)
{
    return o->align;
}

bool tg_object_is_direct(const tg_object *o)
{
    return o->direct;
}

tg_status tg_object_write_at(tg_object *o, uint64_t offset, const void *data, size_t len,
                             const tg_cancel *cancel, tg_error *err)
{
    assert(!o->closed);
    assert(offset % o->align == 0 && len % o->align == 0 && (uintptr_t)data % o->align == 0);
    if (o->ops->write_at == NULL)
        return tg_fail(err, TG_UNSUPPORTED, "%s takes values in order only",
                       tg_store_describe(o->store));
    TG_TRY(tg_cancel_check(cancel, err));
    if (len > INT64_MAX || offset > INT64_MAX - len)
        return tg_fail(err, TG_INVALID, "%s: %zu bytes at byte %llu end beyond 2^63",
                       tg_store_describe(o->store), len, (unsigned long long)offset);
    return name_store(o->store, NULL, o->ops->write_at(o, offset, data, len, cancel, err), err);
}

tg_status tg_object_write(tg_object *o, const void *data, size_t len, const tg_cancel *cancel,
                          tg_error *err)
{
    assert(!o->closed);
    TG_TRY(tg_cancel_check(cancel, err));
    return name_store(o->store, NULL, o->ops->write(o, data, len, cancel, err), err);
}

tg_status tg_object_sync(tg_object *o, const tg_cancel *cancel, tg_error *err)
{
    assert(!o->closed);
    TG_TRY(tg_cancel_check(cancel, err));
    return name_store(o->store, NULL, o->ops->sync(o, cancel, err), err);
}

tg_status tg_object_seal(tg_object *o, uint64_t len, const tg_cancel *cancel, tg_error *err)
{
    assert(!o->closed);
    TG_TRY(tg_cancel_check(cancel, err));
    TG_TRY(name_store(o->store, NULL, o->ops->seal(o, len, cancel, err), err));
    o->closed = true;
    return TG_OK;
}

void tg_object_abort(tg_object *o)
{
    if (!o->closed)
        o->ops->abort(o);
    o->closed = true;
}

void tg_object_free(tg_object *o)
{
    if (o != NULL)
        o->ops->free(o);
}
