/* What every store promises (store/store.h), asked of each. */
#include "base/sync.h"
#include "base/sys.h"
#include "base/sys_kernel.h"
#include "contract/stores.h"

#include <stdalign.h>

static tg_status open_mem(tg_store **out, const char *dir, tg_error *err)
{
    (void)dir;
    return tg_store_open_mem(out, err);
}

static tg_status open_fs(tg_store **out, const char *dir, bool buffered, bool no_sync,
                         tg_error *err)
{
    char path[TEST_PATH + 16];
    (void)snprintf(path, sizeof path, "%s/s", dir);
    tg_store_options o = {sizeof o, TG_STORE_OPEN_OR_CREATE, buffered, no_sync};
    return tg_store_open_fs(out, path, &o, err);
}

static tg_status open_direct(tg_store **out, const char *dir, tg_error *err)
{
    return open_fs(out, dir, false, false, err);
}

static tg_status open_buffered(tg_store **out, const char *dir, tg_error *err)
{
    return open_fs(out, dir, true, false, err);
}

/* As on a kernel without openat2. */
static tg_status open_walked(tg_store **out, const char *dir, tg_error *err)
{
    static tg_sys table;
    table = tg_sys_kernel;
    table.open_beneath = tg_kernel_walk_beneath;
    tg_sys_use(&table);
    return open_fs(out, dir, false, false, err);
}

static tg_status open_unsynced(tg_store **out, const char *dir, tg_error *err)
{
    return open_fs(out, dir, true, true, err);
}

static tg_status open_archive(tg_store **out, const char *dir, bool buffered, tg_error *err)
{
    char path[TEST_PATH + 16];
    (void)snprintf(path, sizeof path, "%s/s.zip", dir);
    tg_store_options o = {sizeof o, TG_STORE_OPEN_OR_CREATE, buffered, false};
    return tg_store_open_zip(out, path, &o, err);
}

static tg_status open_zip(tg_store **out, const char *dir, tg_error *err)
{
    return open_archive(out, dir, false, err);
}

static tg_status open_zip_buffered(tg_store **out, const char *dir, tg_error *err)
{
    return open_archive(out, dir, true, err);
}

static const struct kind {
    const char *name;
    tg_status (*open)(tg_store **, const char *dir, tg_error *);
    bool persistent; /* what was closed can be opened again */
} kinds[] = {
    {"memory", open_mem, false},
    {"direct", open_direct, true},
    {"buffered", open_buffered, true},
    {"walked", open_walked, true},
    {"unsynced", open_unsynced, true},
    {"zip", open_zip, true},
    {"zip buffered", open_zip_buffered, true},
};

static char folder[TEST_PATH];

/* The same of a store behind two wrappers. */
static void through_wrappers(void (*test)(tg_store *s, const struct kind *k), tg_store *s,
                             const struct kind *k)
{
    TG_AUTO_PTR(tg_store) count = NULL;
    TG_AUTO_PTR(tg_store) fault = NULL;

    REQUIRE_OK(tg_store_open_count(&count, s, NULL));
    REQUIRE_OK(tg_store_open_fault(&fault, count, NULL));
    test(fault, k);
}

/* Run a test on a new store of each kind. */
static void each(void (*test)(tg_store *s, const struct kind *k))
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        tg_error err = {0};
        test_row = kinds[i].name;
        test_folder(folder);
        if (kinds[i].open(&s, folder, &err) == TG_OK) {
            test(s, &kinds[i]);
            CHECK_STATUS(tg_store_close(s, &err), TG_OK);
        } else {
            test_failed(__FILE__, __LINE__, err.msg);
        }
        tg_store_free(s);
        s = NULL;
        tg_sys_use(NULL);
        test_remove(AT_FDCWD, folder);
    }
    TG_AUTO_PTR(tg_store) s = NULL;
    test_row = "wrapped";
    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    through_wrappers(test, s, &kinds[0]);
}

static bool can(const tg_store *s, uint32_t caps)
{
    return (tg_store_caps(s) & caps) == caps;
}

static tg_status put_text(tg_store *s, const char *key, const char *text)
{
    return tg_store_put(s, key, text, strlen(text), NULL, NULL);
}

static bool holds(tg_store *s, const char *key, const char *text)
{
    TG_AUTO(tg_buf) b = {0};
    return tg_store_get(s, key, tg_range_all(), 1 << 20, &b, NULL, NULL) == TG_OK &&
           b.len == strlen(text) && memcmp(b.data, text, b.len) == 0;
}

static void values(tg_store *s, const struct kind *k)
{
    TG_AUTO(tg_buf) b = {0};
    tg_error err = {0};
    uint64_t size = 7;
    (void)k;

    CHECK_STATUS(tg_store_get(s, "a", tg_range_all(), 100, &b, NULL, &err), TG_NOT_FOUND);
    CHECK(strcmp(err.key, "a") == 0);
    CHECK_STATUS(tg_store_size(s, "a", &size, NULL, NULL), TG_NOT_FOUND);
    REQUIRE_OK(put_text(s, "a", "one"));
    REQUIRE_OK(put_text(s, "b/c/d", "two"));
    REQUIRE_OK(put_text(s, "b/e", ""));
    CHECK(holds(s, "a", "one") && holds(s, "b/c/d", "two") && holds(s, "b/e", ""));
    REQUIRE_OK(tg_store_size(s, "b/c/d", &size, NULL, NULL));
    CHECK_U64(size, 3);
    REQUIRE_OK(put_text(s, "a", "longer than before"));
    CHECK(holds(s, "a", "longer than before"));
    REQUIRE_OK(put_text(s, "a", "x"));
    CHECK(holds(s, "a", "x"));
    /* A prefix of keys is no key, nor is what lies below one. */
    CHECK_STATUS(tg_store_get(s, "b", tg_range_all(), 100, &b, NULL, NULL), TG_NOT_FOUND);
    CHECK_STATUS(tg_store_get(s, "a/b", tg_range_all(), 100, &b, NULL, NULL), TG_NOT_FOUND);
    CHECK_STATUS(tg_store_size(s, "b/c", &size, NULL, NULL), TG_NOT_FOUND);
}

static void ranges(tg_store *s, const struct kind *k)
{
    static const struct {
        const char *name;
        tg_range range;
        tg_status want;
        const char *bytes;
    } rows[] = {
        {"all", {TG_RANGE_ALL, 0, 0}, TG_OK, "0123456789"},
        {"at", {TG_RANGE_AT, 2, 3}, TG_OK, "234"},
        {"at the end", {TG_RANGE_AT, 10, 0}, TG_OK, ""},
        {"past the end", {TG_RANGE_AT, 8, 3}, TG_CORRUPT, ""},
        {"far past", {TG_RANGE_AT, UINT64_MAX, 1}, TG_CORRUPT, ""},
        {"overflow", {TG_RANGE_AT, 2, 8 + (1 << 30)}, TG_CORRUPT, ""},
        {"last", {TG_RANGE_LAST, 0, 4}, TG_OK, "6789"},
        {"last of none", {TG_RANGE_LAST, 0, 0}, TG_OK, ""},
        {"last is longer", {TG_RANGE_LAST, 0, 99}, TG_OK, "0123456789"},
        {"last is huge", {TG_RANGE_LAST, 0, UINT64_MAX}, TG_OK, "0123456789"},
    };
    char dst[64];
    (void)k;

    REQUIRE_OK(put_text(s, "v", "0123456789"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = 0;
        uint64_t total = 0;
        tg_error err = {0};
        tg_status st =
            tg_store_get_into(s, "v", rows[i].range, dst, sizeof dst, &n, &total, NULL, &err);
        if (st != rows[i].want || (st == TG_OK && (n != strlen(rows[i].bytes) || total != 10 ||
                                                   memcmp(dst, rows[i].bytes, n) != 0)))
            test_failed(__FILE__, __LINE__, rows[i].name);
        if (st != TG_OK)
            CHECK(strcmp(err.key, "v") == 0 && strstr(err.msg, "10 bytes") != NULL);
    }
    size_t n = 0;
    CHECK_STATUS(tg_store_get_into(s, "v", tg_range_all(), dst, 9, &n, NULL, NULL, NULL),
                 TG_OVER_BUDGET);
    CHECK_U64(n, 10);
    TG_AUTO(tg_buf) b = {0};
    CHECK_STATUS(tg_store_get(s, "v", tg_range_all(), 9, &b, NULL, NULL), TG_OVER_BUDGET);
    CHECK(b.data == NULL);
    CHECK_STATUS(tg_store_get(s, "v", tg_range_at(0, UINT64_MAX), 9, &b, NULL, NULL),
                 TG_OVER_BUDGET);
    REQUIRE_OK(tg_store_get(s, "v", tg_range_last(3), 9, &b, NULL, NULL));
    CHECK(b.len == 3 && memcmp(b.data, "789", 3) == 0);

    tg_span spans[] = {{0, 2, dst}, {5, 1, dst + 2}, {7, 3, dst + 3}};
    REQUIRE_OK(tg_store_get_ranges(s, "v", spans, 3, NULL, NULL));
    CHECK(memcmp(dst, "015789", 6) == 0);
    spans[2].len = 4;
    CHECK_STATUS(tg_store_get_ranges(s, "v", spans, 3, NULL, NULL), TG_CORRUPT);
    CHECK_STATUS(tg_store_get_ranges(s, "w", spans, 3, NULL, NULL), TG_NOT_FOUND);
}

static void bad_keys(tg_store *s, const struct kind *k)
{
    static const char *const bad[] = {"",       "/a",     "a/",   "a//b",  ".",          "..",
                                      "../a",   "a/../b", "a/..", "./a",   "a/./b",      "a\\b",
                                      "..\\..", "/",      "//",   "a/b/.", "/etc/passwd"};
    char dst[8], deep[5001];
    size_t n;
    tg_object *o = NULL;
    (void)k;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tg_error err = {0};
        CHECK_STATUS(put_text(s, bad[i], "x"), TG_INVALID);
        CHECK_STATUS(tg_store_put_new(s, bad[i], "x", 1, NULL, NULL), TG_INVALID);
        CHECK_STATUS(tg_store_put_lazy(s, bad[i], "x", 1, NULL, NULL), TG_INVALID);
        CHECK_STATUS(tg_store_get_into(s, bad[i], tg_range_all(), dst, 8, &n, NULL, NULL, &err),
                     TG_INVALID);
        CHECK_STATUS(tg_store_remove(s, bad[i], NULL, NULL), TG_INVALID);
        CHECK_STATUS(tg_object_begin(s, bad[i], (tg_object_options){0}, &o, NULL, NULL),
                     TG_INVALID);
    }
    memset(deep, 'k', 5000);
    deep[5000] = '\0';
    CHECK_STATUS(put_text(s, deep, "x"), TG_INVALID);
    REQUIRE_OK(put_text(s, "...", "dots")); /* a name like any other */
    CHECK(holds(s, "...", "dots"));
}

struct found {
    char text[4096];
    int left; /* calls until it says stop */
};

static bool note(void *user, const char *name)
{
    struct found *f = user;
    size_t n = strlen(f->text);
    (void)snprintf(f->text + n, sizeof f->text - n, "%s ", name);
    return --f->left > 0;
}

static void listing(tg_store *s, const struct kind *k)
{
    static const char *const keys[] = {"zarr.json", "c/0/0", "c/0/1", "c/1/0",
                                       "c.x",       "c-x/y", "b",     "c0"};
    static const struct {
        const char *prefix;
        int stop;
        const char *want;
    } rows[] = {
        {"", 99, "b c-x/ c.x c/ c0 zarr.json "},
        {"", 2, "b c-x/ "},
        {"c/", 99, "0/ 1/ "},
        {"c/0/", 99, "0 1 "},
        {"b/", 99, ""},
        {"none/", 99, ""},
        {"c/0/0/", 99, ""},
    };
    (void)k;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        REQUIRE_OK(put_text(s, keys[i], keys[i]));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct found f = {"", rows[i].stop};
        CHECK_STATUS(tg_store_list(s, rows[i].prefix, note, &f, NULL, NULL), TG_OK);
        if (strcmp(f.text, rows[i].want) != 0)
            test_failed(__FILE__, __LINE__, f.text);
    }
    struct found f = {"", 9};
    CHECK_STATUS(tg_store_list(s, "c", note, &f, NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_store_list(s, "../", note, &f, NULL, NULL), TG_INVALID);
}

static void removing(tg_store *s, const struct kind *k)
{
    (void)k;
    REQUIRE_OK(put_text(s, "a/b", "x"));
    if (!can(s, TG_STORE_CAN_REMOVE)) {
        CHECK_STATUS(tg_store_remove(s, "a/b", NULL, NULL), TG_UNSUPPORTED);
        return;
    }
    CHECK_STATUS(tg_store_remove(s, "a", NULL, NULL), TG_NOT_FOUND);
    CHECK_STATUS(tg_store_remove(s, "a/c", NULL, NULL), TG_NOT_FOUND);
    CHECK_STATUS(tg_store_remove(s, "a/b/c", NULL, NULL), TG_NOT_FOUND);
    REQUIRE_OK(tg_store_remove(s, "a/b", NULL, NULL));
    CHECK_STATUS(tg_store_remove(s, "a/b", NULL, NULL), TG_NOT_FOUND);
    REQUIRE_OK(put_text(s, "a/b", "again"));
    CHECK(holds(s, "a/b", "again"));
}

static void new_only(tg_store *s, const struct kind *k)
{
    (void)k;
    REQUIRE(can(s, TG_STORE_CAN_PUT_NEW));
    REQUIRE_OK(tg_store_put_new(s, "a/b", "first", 5, NULL, NULL));
    CHECK_STATUS(tg_store_put_new(s, "a/b", "other", 5, NULL, NULL), TG_EXISTS);
    CHECK(holds(s, "a/b", "first"));
}

static void lazily(tg_store *s, const struct kind *k)
{
    char key[32], text[32];
    (void)k;

    for (int i = 0; i < 300; i++) { /* more than a store keeps open */
        (void)snprintf(key, sizeof key, "d%d/%d", i % 90, i % 200);
        (void)snprintf(text, sizeof text, "value %d", i);
        REQUIRE_OK(tg_store_put_lazy(s, key, text, strlen(text), NULL, NULL));
        CHECK(holds(s, key, text));
    }
    REQUIRE_OK(tg_store_sync(s, NULL, NULL));
    REQUIRE_OK(tg_store_sync(s, NULL, NULL));
    REQUIRE_OK(tg_store_put_lazy(s, "left", "open", 4, NULL, NULL)); /* close syncs it */
}

/* Lengths around blocks and units, from memory that is aligned and that is not. */
static void sizes(tg_store *s, const struct kind *k)
{
    static const size_t lens[] = {1,       4095,          4096,          4097,
                                  1 << 20, (1 << 20) + 1, (2 << 20) - 5, 5 << 20};
    TG_AUTO(tg_arena) a = {0};
    TG_AUTO(tg_buf) b = {0};
    (void)k;

    REQUIRE_OK(tg_arena_map(&a, 6 << 20, NULL));
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        for (size_t shift = 0; shift < 2; shift++) {
            test_fill(a.data + shift, lens[i], i, 0);
            REQUIRE_OK(tg_store_put(s, "v", a.data + shift, lens[i], NULL, NULL));
            REQUIRE_OK(tg_store_get(s, "v", tg_range_all(), 8 << 20, &b, NULL, NULL));
            CHECK_U64(b.len, lens[i]);
            CHECK(b.len == lens[i] && test_same(b.data, b.len, i, 0));
        }
    }
}

static void cancelled(tg_store *s, const struct kind *k)
{
    tg_cancel *c = NULL;
    (void)k;

    REQUIRE_OK(tg_cancel_new(&c, NULL));
    tg_cancel_request(c);
    CHECK_STATUS(tg_store_put(s, "a", "x", 1, c, NULL), TG_CANCELLED);
    CHECK(!holds(s, "a", "x"));
    tg_cancel_free(c);
}

/* --- Objects ------------------------------------------------------------- */

static void check_value(tg_store *s, const char *key, size_t len, uint64_t seed)
{
    TG_AUTO(tg_buf) b = {0};
    tg_error err = {0};
    if (tg_store_get(s, key, tg_range_all(), 64 << 20, &b, NULL, &err) != TG_OK)
        test_failed(__FILE__, __LINE__, err.msg);
    CHECK_U64(b.len, len);
    CHECK(b.len != len || test_same(b.data, len, seed, 0));
}

static void appended(tg_store *s, const struct kind *k)
{
    static const size_t steps[] = {1, 100, 4096, 5000, 70000, (1 << 20) + 3, 2 << 20, 7};
    TG_AUTO(tg_arena) a = {0};
    (void)k;

    if (!can(s, TG_STORE_CAN_WRITE_AT))
        return;
    REQUIRE_OK(tg_arena_map(&a, 4 << 20, NULL));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        TG_AUTO_PTR(tg_object) o = NULL;
        size_t len = 0;
        REQUIRE_OK(tg_object_begin(s, "o/v", (tg_object_options){.size_hint = 1 << 20}, &o,
                                   NULL, NULL));
        for (int j = 0; j < 5 && len < 3 << 20; j++) {
            test_fill(a.data, steps[i], i, len);
            REQUIRE_OK(tg_object_write(o, a.data, steps[i], NULL, NULL));
            len += steps[i];
            if (j == 2)
                REQUIRE_OK(tg_object_sync(o, NULL, NULL));
        }
        REQUIRE_OK(tg_object_seal(o, len, NULL, NULL));
        check_value(s, "o/v", len, i);
    }
}

static void hidden_until_sealed(tg_store *s, const struct kind *k)
{
    TG_AUTO_PTR(tg_object) o = NULL;
    TG_AUTO_PTR(tg_object) p = NULL;
    struct found f = {"", 99};
    (void)k;

    if (!can(s, TG_STORE_CAN_WRITE_AT)) { /* a ZIP takes whole values only */
        CHECK_STATUS(tg_object_begin(s, "o/v", (tg_object_options){0}, &o, NULL, NULL),
                     TG_UNSUPPORTED);
        return;
    }
    REQUIRE_OK(put_text(s, "o/v", "old"));
    REQUIRE_OK(tg_object_begin(s, "o/v", (tg_object_options){0}, &o, NULL, NULL));
    REQUIRE_OK(tg_object_write(o, "new!", 4, NULL, NULL));
    CHECK(holds(s, "o/v", "old"));
    REQUIRE_OK(tg_store_list(s, "o/", note, &f, NULL, NULL));
    CHECK(strcmp(f.text, "v ") == 0);
    REQUIRE_OK(tg_object_seal(o, 4, NULL, NULL));
    CHECK(holds(s, "o/v", "new!"));
    REQUIRE_OK(tg_object_begin(s, "o/v", (tg_object_options){0}, &p, NULL, NULL));
    REQUIRE_OK(tg_object_write(p, "never", 5, NULL, NULL));
    tg_object_abort(p);
    CHECK(holds(s, "o/v", "new!"));
}

static void visible(tg_store *s, const struct kind *k)
{
    TG_AUTO_PTR(tg_object) o = NULL;
    TG_AUTO_PTR(tg_object) again = NULL;
    tg_object_options seen = {.visible = true};
    TG_AUTO(tg_arena) a = {0};
    (void)k;

    if (!can(s, TG_STORE_CAN_BE_VISIBLE)) {
        CHECK_STATUS(tg_object_begin(s, "v", seen, &o, NULL, NULL), TG_UNSUPPORTED);
        return;
    }
    REQUIRE_OK(tg_arena_map(&a, 8192, NULL));
    test_fill(a.data, 8192, 3, 0);
    REQUIRE_OK(tg_object_begin(s, "v", seen, &o, NULL, NULL));
    CHECK_STATUS(tg_object_begin(s, "v", seen, &again, NULL, NULL), TG_EXISTS);
    REQUIRE_OK(tg_object_write_at(o, 0, a.data, 4096, NULL, NULL));
    check_value(s, "v", 4096, 3);
    REQUIRE_OK(tg_object_write_at(o, 4096, a.data + 4096, 4096, NULL, NULL));
    REQUIRE_OK(tg_object_sync(o, NULL, NULL));
    REQUIRE_OK(tg_object_seal(o, 5000, NULL, NULL));
    check_value(s, "v", 5000, 3);

    /* Go on where it ended, in the middle of a block. */
    seen.reopen = true;
    CHECK_STATUS(tg_object_begin(s, "w", seen, &again, NULL, NULL), TG_NOT_FOUND);
    REQUIRE_OK(tg_object_begin(s, "v", seen, &again, NULL, NULL));
    REQUIRE_OK(tg_object_write(again, a.data + 5000, 2000, NULL, NULL));
    REQUIRE_OK(tg_object_seal(again, 7000, NULL, NULL));
    check_value(s, "v", 7000, 3);
    tg_object_free(again);
    again = NULL;
    REQUIRE_OK(tg_object_begin(s, "v", seen, &again, NULL, NULL));
    tg_object_abort(again); /* reopened: stays */
    check_value(s, "v", 7000, 3);
    tg_object_free(again);
    again = NULL;
    seen.reopen = false;
    REQUIRE_OK(tg_object_begin(s, "gone", seen, &again, NULL, NULL));
    tg_object_abort(again);
    CHECK_STATUS(tg_store_size(s, "gone", &(uint64_t){0}, NULL, NULL), TG_NOT_FOUND);
}

/* --- Threads ------------------------------------------------------------- */

#define THREADS 4
#define BLOCK   ((size_t)256 << 10)

struct worker {
    tg_store *s;
    tg_object *o;
    const uint8_t *data;
    int number;
    int bad;
};

static void *write_blocks(void *arg)
{
    struct worker *w = arg;
    for (uint64_t i = (uint64_t)w->number; i < 16; i += THREADS) {
        if (tg_object_write_at(w->o, i * BLOCK, w->data + i * BLOCK, BLOCK, NULL, NULL) !=
            TG_OK)
            w->bad++;
        if (i % 5 == 0 && tg_object_sync(w->o, NULL, NULL) != TG_OK)
            w->bad++;
    }
    return NULL;
}

static void *put_and_get(void *arg)
{
    struct worker *w = arg;
    uint8_t value[3000], got[3000];
    size_t n;

    for (int i = 0; i < 60; i++) {
        /* All threads fight for one key: whole values only, from whichever thread. */
        memset(value, w->number * 60 + i, sizeof value);
        size_t len = 1000 + (size_t)(w->number * 60 + i);
        tg_status st = i % 3 == 0 ? tg_store_put_lazy(w->s, "x/y", value, len, NULL, NULL)
                                  : tg_store_put(w->s, "x/y", value, len, NULL, NULL);
        w->bad += st != TG_OK;
        st = tg_store_get_into(w->s, "x/y", tg_range_all(), got, sizeof got, &n, NULL, NULL,
                               NULL);
        w->bad += st != TG_OK || n != 1000 + (size_t)got[0];
        for (size_t j = 1; j < n && st == TG_OK; j++)
            w->bad += got[j] != got[0];
        char key[32];
        (void)snprintf(key, sizeof key, "t%d/%d", w->number, i);
        w->bad += tg_store_put_new(w->s, key, value, len, NULL, NULL) != TG_OK;
        if (i % 10 == 0)
            w->bad += tg_store_sync(w->s, NULL, NULL) != TG_OK;
        struct found f = {"", 99};
        w->bad += tg_store_list(w->s, "x/", note, &f, NULL, NULL) != TG_OK ||
                  strcmp(f.text, "y ") != 0;
    }
    return NULL;
}

static void run_threads(void *(*body)(void *), tg_store *s, tg_object *o, const uint8_t *data)
{
    struct worker w[THREADS];
    pthread_t t[THREADS];

    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){s, o, data, i, 0};
        tg_must(pthread_create(&t[i], NULL, body, &w[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        tg_must(pthread_join(t[i], NULL));
        CHECK_U64((uint64_t)w[i].bad, 0);
    }
}

static void from_many_threads(tg_store *s, const struct kind *k)
{
    (void)k;
    run_threads(put_and_get, s, NULL, NULL);
    if (!can(s, TG_STORE_CAN_WRITE_AT))
        return;
    TG_AUTO(tg_arena) a = {0};
    TG_AUTO_PTR(tg_object) o = NULL;
    REQUIRE_OK(tg_arena_map(&a, 16 * BLOCK, NULL));
    test_fill(a.data, 16 * BLOCK, 5, 0);
    REQUIRE_OK(tg_object_begin(s, "big", (tg_object_options){.size_hint = 16 * BLOCK}, &o, NULL,
                               NULL));
    run_threads(write_blocks, s, o, a.data);
    REQUIRE_OK(tg_object_seal(o, 16 * BLOCK - 11, NULL, NULL));
    check_value(s, "big", 16 * BLOCK - 11, 5);
}

/* --- Persistence ----------------------------------------------------------- */

static void opened_again(tg_store *s, const struct kind *k)
{
    if (!k->persistent)
        return;
    for (int round = 0; round < 3; round++) {
        TG_AUTO_PTR(tg_store) t = NULL;
        char key[16];
        (void)snprintf(key, sizeof key, "r/%d", round);
        /* The store under test is open and idle: a second handle of the same folder. */
        (void)s;
        char dir[TEST_PATH + 8];
        (void)snprintf(dir, sizeof dir, "%s/again", folder);
        (void)mkdir(dir, 0777);
        REQUIRE_OK(k->open(&t, dir, NULL));
        for (int i = 0; i < round; i++) {
            char old[16];
            (void)snprintf(old, sizeof old, "r/%d", i);
            CHECK(holds(t, old, old));
        }
        REQUIRE_OK(put_text(t, key, key));
        REQUIRE_OK(put_text(t, "same", key));
        CHECK(holds(t, "same", key));
        REQUIRE_OK(tg_store_close(t, NULL));
    }
}

/* --- Out of memory ---------------------------------------------------------- */

static const struct kind *alloc_kind;

static tg_status little_of_everything(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_object) o = NULL;
    TG_AUTO(tg_buf) b = {0};
    struct found f = {"", 99};

    test_remove(AT_FDCWD, folder); /* a ZIP that the last run left open does not open */
    if (mkdir(folder, 0777) != 0)
        return TG_IO;
    TG_TRY(alloc_kind->open(&s, folder, NULL));
    TG_TRY(put_text(s, "a/b", "x"));
    TG_TRY(tg_store_put_lazy(s, "a/b", "y", 1, NULL, NULL));
    TG_TRY(tg_store_get(s, "a/b", tg_range_all(), 9, &b, NULL, NULL));
    TG_TRY(tg_store_list(s, "a/", note, &f, NULL, NULL));
    if (!can(s, TG_STORE_CAN_WRITE_AT))
        return tg_store_close(s, NULL);
    TG_TRY(tg_object_begin(s, "a/o", (tg_object_options){0}, &o, NULL, NULL));
    TG_TRY(tg_object_write(o, "object", 6, NULL, NULL));
    TG_TRY(tg_object_seal(o, 6, NULL, NULL));
    return tg_store_close(s, NULL);
}

static void every_allocation_fails(void)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        test_row = kinds[i].name;
        alloc_kind = &kinds[i];
        test_folder(folder);
        CHECK_EVERY_ALLOC(little_of_everything());
        tg_sys_use(NULL);
        test_remove(AT_FDCWD, folder);
    }
}

#define ON_EACH(name)         \
    static void name##_(void) \
    {                         \
        each(name);           \
    }
ON_EACH(values)
ON_EACH(ranges)
ON_EACH(bad_keys)
ON_EACH(listing)
ON_EACH(removing)
ON_EACH(new_only)
ON_EACH(lazily)
ON_EACH(sizes)
ON_EACH(cancelled)
ON_EACH(appended)
ON_EACH(hidden_until_sealed)
ON_EACH(visible)
ON_EACH(from_many_threads)
ON_EACH(opened_again)

static const struct test tests[] = {
    {"values", values_},
    {"ranges", ranges_},
    {"bad_keys", bad_keys_},
    {"listing", listing_},
    {"removing", removing_},
    {"new_only", new_only_},
    {"lazily", lazily_},
    {"sizes", sizes_},
    {"cancelled", cancelled_},
    {"appended", appended_},
    {"hidden_until_sealed", hidden_until_sealed_},
    {"visible", visible_},
    {"from_many_threads", from_many_threads_},
    {"opened_again", opened_again_},
    {"every_allocation_fails", every_allocation_fails},
};

TEST_MAIN(tests)
