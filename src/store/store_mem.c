/* store/store_mem.c - a store in memory, for tests and scratch arrays: a sorted
 * table of values. Knows no files; what was put is gone with the store. */
#include "base/sync.h"
#include "store/store.h"

#include <string.h>

typedef struct mem_value {
    tg_buf bytes;
    size_t len;  /* of the value; bytes.len is its room */
    size_t refs; /* the table and the objects that write it */
} mem_value;

typedef struct mem_entry {
    char *key;
    mem_value *value;
} mem_entry;

typedef struct mem_store {
    tg_store base;
    tg_mutex lock;      /* guards all below, and the values */
    mem_entry *entries; /* sorted by key */
    size_t n, cap;
} mem_store;

typedef struct mem_object {
    tg_object base;
    mem_store *store;
    char *key;
    mem_value *value;
    bool visible, reopened;
} mem_object;

static mem_value *value_new(void)
{
    mem_value *v = tg_calloc(1, sizeof *v);
    if (v != NULL)
        v->refs = 1;
    return v;
}

static void value_drop(mem_value *v)
{
    if (v == NULL || --v->refs > 0)
        return;
    tg_buf_free(&v->bytes);
    tg_free(v);
}

/* At least `len` bytes of room; new bytes of the value are zero. */
static tg_status value_grow(mem_value *v, size_t len, tg_error *err)
{
    if (len > v->bytes.len) {
        size_t want = len > SIZE_MAX / 2 || v->len == 0 ? len : len + len / 2;
        TG_TRY(tg_buf_resize(&v->bytes, want, err));
    }
    if (len > v->len) {
        memset(v->bytes.data + v->len, 0, len - v->len);
        v->len = len;
    }
    return TG_OK;
}

/* First entry whose key is not less than the n bytes of key. */
static size_t lower_bound(const mem_store *m, const char *key, size_t n)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strncmp(m->entries[mid].key, key, n) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static mem_entry *find(const mem_store *m, const char *key)
{
    size_t i = lower_bound(m, key, strlen(key) + 1);
    return i < m->n && strcmp(m->entries[i].key, key) == 0 ? &m->entries[i] : NULL;
}

static tg_status no_key(const char *key, tg_error *err)
{
    return tg_fail(err, TG_NOT_FOUND, "no key '%s'", key);
}

static tg_status make_room(mem_store *m, tg_error *err)
{
    if (m->n < m->cap)
        return TG_OK;
    size_t cap = m->cap == 0 ? 16 : m->cap * 2;
    mem_entry *p = tg_alloc_array(cap, sizeof *p);
    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu keys", cap);
    if (m->n > 0)
        memcpy(p, m->entries, m->n * sizeof *p);
    tg_free(m->entries);
    m->entries = p;
    m->cap = cap;
    return TG_OK;
}

/* Make key name v, which the table then shares; the lock is held. */
static tg_status set_value(mem_store *m, const char *key, mem_value *v, tg_error *err)
{
    mem_entry *old = find(m, key);
    if (old == NULL) {
        TG_TRY(make_room(m, err));
        char *name = tg_strdup(key);
        if (name == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for key '%s'", key);
        size_t i = lower_bound(m, key, strlen(key) + 1);
        memmove(m->entries + i + 1, m->entries + i, (m->n - i) * sizeof *m->entries);
        m->entries[i] = (mem_entry){name, NULL};
        m->n++;
        old = &m->entries[i];
    }
    v->refs++;
    value_drop(old->value);
    old->value = v;
    return TG_OK;
}

static void drop_key(mem_store *m, const char *key)
{
    mem_entry *e = find(m, key);
    if (e == NULL)
        return;
    size_t i = (size_t)(e - m->entries);
    tg_free(e->key);
    value_drop(e->value);
    memmove(m->entries + i, m->entries + i + 1, (m->n - i - 1) * sizeof *m->entries);
    m->n--;
}

static tg_status mem_get_into(tg_store *s, const char *key, tg_range range, void *dst,
                              size_t cap, size_t *n, uint64_t *total, const tg_cancel *cancel,
                              tg_error *err)
{
    mem_store *m = (mem_store *)s;
    uint64_t offset, len;

    (void)cancel;
    TG_LOCKED(&m->lock);
    const mem_entry *e = find(m, key);
    if (e == NULL)
        return no_key(key, err);
    TG_TRY(tg_range_resolve(range, e->value->len, &offset, &len, err));
    if (len > cap) {
        *n = (size_t)len;
        return tg_fail(err, TG_OVER_BUDGET, "'%s' has %llu bytes to read, room for %zu", key,
                       (unsigned long long)len, cap);
    }
    if (len > 0)
        memcpy(dst, e->value->bytes.data + offset, (size_t)len);
    *n = (size_t)len;
    if (total != NULL)
        *total = e->value->len;
    return TG_OK;
}

static tg_status mem_size(tg_store *s, const char *key, uint64_t *bytes,
                          const tg_cancel *cancel, tg_error *err)
{
    mem_store *m = (mem_store *)s;

    (void)cancel;
    TG_LOCKED(&m->lock);
    const mem_entry *e = find(m, key);
    if (e == NULL)
        return no_key(key, err);
    *bytes = e->value->len;
    return TG_OK;
}

static tg_status put_locked(mem_store *m, const char *key, mem_value *v, unsigned how,
                            tg_error *err)
{
    TG_LOCKED(&m->lock);
    if ((how & TG_PUT_NEW) != 0 && find(m, key) != NULL)
        return tg_fail(err, TG_EXISTS, "'%s' is there already", key);
    return set_value(m, key, v, err);
}

static tg_status mem_put(tg_store *s, const char *key, const void *data, size_t len,
                         unsigned how, const tg_cancel *cancel, tg_error *err)
{
    mem_value *v = value_new();
    tg_status st = v == NULL ? tg_fail(err, TG_NO_MEMORY, "no memory for '%s'", key)
                             : value_grow(v, len, err);

    (void)cancel;
    if (st == TG_OK && len > 0)
        memcpy(v->bytes.data, data, len);
    if (st == TG_OK)
        st = put_locked((mem_store *)s, key, v, how, err);
    mem_store *m = (mem_store *)s;
    TG_LOCKED(&m->lock);
    value_drop(v);
    return st;
}

static tg_status mem_remove(tg_store *s, const char *key, const tg_cancel *cancel,
                            tg_error *err)
{
    mem_store *m = (mem_store *)s;

    (void)cancel;
    TG_LOCKED(&m->lock);
    if (find(m, key) == NULL)
        return no_key(key, err);
    drop_key(m, key);
    return TG_OK;
}

/* The first name below prefix that is greater than `after` ("" for the first of all): NULL at
 * the end. A name that stands for deeper keys ends in '/', and what it stands for is skipped.
 */
static tg_status next_name(mem_store *m, const char *prefix, const char *after, char **name,
                           tg_error *err)
{
    size_t np = strlen(prefix), na = strlen(after);

    TG_LOCKED(&m->lock);
    size_t i = lower_bound(m, na == 0 ? prefix : after, na == 0 ? np : na + 1);
    while (i < m->n && na > 0 && strncmp(m->entries[i].key, after, na) == 0 &&
           (after[na - 1] == '/' || m->entries[i].key[na] == '\0'))
        i++;
    *name = NULL;
    if (i == m->n || strncmp(m->entries[i].key, prefix, np) != 0)
        return TG_OK;
    const char *key = m->entries[i].key;
    size_t n = np + strcspn(key + np, "/");
    TG_AUTO(tg_text) t = {0};
    tg_text_add_n(&t, key, key[n] == '/' ? n + 1 : n);
    TG_TRY(tg_text_status(&t, err));
    *name = tg_text_steal(&t);
    return TG_OK;
}

static tg_status mem_list(tg_store *s, const char *prefix, tg_list_fn fn, void *user,
                          const tg_cancel *cancel, tg_error *err)
{
    mem_store *m = (mem_store *)s;
    TG_AUTO(tg_str) at = tg_strdup("");

    if (at == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a listing");
    for (;;) {
        TG_TRY(tg_cancel_check(cancel, err));
        char *name;
        TG_TRY(next_name(m, prefix, at, &name, err));
        tg_free(at);
        at = name;
        if (at == NULL || !fn(user, at + strlen(prefix)))
            return TG_OK;
    }
}

/* --- Objects ------------------------------------------------------------- */

static tg_status mem_write_at(tg_object *base, uint64_t offset, const void *data, size_t len,
                              const tg_cancel *cancel, tg_error *err)
{
    mem_object *o = (mem_object *)base;

    (void)cancel;
    TG_LOCKED(&o->store->lock);
    if (offset > SIZE_MAX - len)
        return tg_fail(err, TG_NO_MEMORY, "no memory for '%s' to byte %llu", o->key,
                       (unsigned long long)offset);
    TG_TRY(value_grow(o->value, (size_t)offset + len, err));
    if (len > 0)
        memcpy(o->value->bytes.data + offset, data, len);
    return TG_OK;
}

static tg_status mem_write(tg_object *base, const void *data, size_t len,
                           const tg_cancel *cancel, tg_error *err)
{
    return mem_write_at(base, ((mem_object *)base)->value->len, data, len, cancel, err);
}

static tg_status mem_sync(tg_object *base, const tg_cancel *cancel, tg_error *err)
{
    (void)base, (void)cancel, (void)err;
    return TG_OK;
}

static tg_status mem_seal(tg_object *base, uint64_t len, const tg_cancel *cancel, tg_error *err)
{
    mem_object *o = (mem_object *)base;

    (void)cancel;
    TG_LOCKED(&o->store->lock);
    if (len > SIZE_MAX)
        return tg_fail(err, TG_NO_MEMORY, "no memory for '%s'", o->key);
    TG_TRY(value_grow(o->value, (size_t)len, err));
    o->value->len = (size_t)len;
    return o->visible ? TG_OK : set_value(o->store, o->key, o->value, err);
}

static void mem_abort(tg_object *base)
{
    mem_object *o = (mem_object *)base;
    TG_LOCKED(&o->store->lock);
    if (o->visible && !o->reopened)
        drop_key(o->store, o->key);
}

static void mem_object_free(tg_object *base)
{
    mem_object *o = (mem_object *)base;
    mem_store *m = o->store;

    tg_free(o->key);
    {
        TG_LOCKED(&m->lock);
        value_drop(o->value);
    }
    tg_free(o);
}

static const tg_object_ops object_ops = {
    .write_at = mem_write_at,
    .write = mem_write,
    .sync = mem_sync,
    .seal = mem_seal,
    .abort = mem_abort,
    .free = mem_object_free,
};

/* Give the object its value: a new one, or with reopen the one that is there. */
static tg_status attach_value(mem_object *o, const char *key, tg_error *err)
{
    mem_store *m = o->store;
    TG_LOCKED(&m->lock);
    mem_entry *e = find(m, key);

    if (o->reopened && e == NULL)
        return no_key(key, err);
    if (o->reopened) {
        o->value = e->value;
        o->value->refs++;
        return TG_OK;
    }
    if (o->visible && e != NULL)
        return tg_fail(err, TG_EXISTS, "'%s' is there already", key);
    o->value = value_new();
    if (o->value == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for '%s'", key);
    return o->visible ? set_value(m, key, o->value, err) : TG_OK;
}

static tg_status mem_begin(tg_store *s, const char *key, tg_object_options options,
                           tg_object **out, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_object) base = tg_calloc(1, sizeof(mem_object));
    mem_object *o = (mem_object *)base;

    (void)cancel;
    if (base == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for '%s'", key);
    *o = (mem_object){.base = {.ops = &object_ops, .align = 1},
                      .store = (mem_store *)s,
                      .key = tg_strdup(key),
                      .visible = options.visible,
                      .reopened = options.reopen};
    if (o->key == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for '%s'", key);
    TG_TRY(attach_value(o, key, err));
    *out = tg_steal(base);
    return TG_OK;
}

static void mem_free(tg_store *s)
{
    mem_store *m = (mem_store *)s;

    for (size_t i = 0; i < m->n; i++) {
        tg_free(m->entries[i].key);
        value_drop(m->entries[i].value);
    }
    tg_free(m->entries);
    tg_mutex_destroy(&m->lock);
    tg_free(m);
}

static const tg_store_ops mem_ops = {
    .name = "memory",
    .get_into = mem_get_into,
    .size = mem_size,
    .put = mem_put,
    .remove = mem_remove,
    .list = mem_list,
    .begin = mem_begin,
    .free = mem_free,
};

tg_status tg_store_open_mem(tg_store **out, tg_error *err)
{
    mem_store *m = tg_calloc(1, sizeof *m);
    if (m == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    tg_store_init(&m->base, &mem_ops);
    m->base.caps = TG_STORE_CAN_WRITE | TG_STORE_CAN_REMOVE | TG_STORE_CAN_PUT_NEW |
                   TG_STORE_CAN_WRITE_AT | TG_STORE_CAN_BE_VISIBLE;
    tg_mutex_init(&m->lock);
    *out = &m->base;
    return TG_OK;
}
