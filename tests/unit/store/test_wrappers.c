#include "check.h"
#include "store/store.h"

static bool ignore(void *user, const char *name)
{
    (void)user, (void)name;
    return true;
}

/* One of each, an object included: 11 operations. */
static int everything(tg_store *s)
{
    TG_AUTO_PTR(tg_object) o = NULL;
    char dst[8];
    size_t n;
    uint64_t size;
    tg_span span = {1, 2, dst};
    int failed = 0;

    failed += tg_store_put(s, "a", "value", 5, NULL, NULL) != TG_OK;
    failed += tg_store_put_new(s, "n", "new", 3, NULL, NULL) != TG_OK;
    failed += tg_store_get_into(s, "a", tg_range_all(), dst, 8, &n, NULL, NULL, NULL) != TG_OK;
    failed += tg_store_get_ranges(s, "a", &span, 1, NULL, NULL) != TG_OK;
    failed += tg_store_size(s, "a", &size, NULL, NULL) != TG_OK;
    failed += tg_store_list(s, "", ignore, NULL, NULL, NULL) != TG_OK;
    failed += tg_store_sync(s, NULL, NULL) != TG_OK;
    failed += tg_store_remove(s, "n", NULL, NULL) != TG_OK;
    if (tg_object_begin(s, "o", (tg_object_options){0}, &o, NULL, NULL) != TG_OK)
        return failed + 1;
    failed += tg_object_write(o, "object", 6, NULL, NULL) != TG_OK;
    failed += tg_object_seal(o, 6, NULL, NULL) != TG_OK;
    return failed;
}

static void counts(void)
{
    TG_AUTO_PTR(tg_store) mem = NULL;
    TG_AUTO_PTR(tg_store) s = NULL;
    REQUIRE_OK(tg_store_open_mem(&mem, NULL));
    REQUIRE_OK(tg_store_open_count(&s, mem, NULL));
    CHECK_U64((uint64_t)everything(s), 0);
    tg_store_counts c = tg_store_counted(s);
    CHECK_U64(c.puts, 3);
    CHECK_U64(c.put_bytes, 5 + 3 + 6);
    CHECK_U64(c.gets, 2);
    CHECK_U64(c.get_bytes, 5 + 2);
    CHECK_U64(c.syncs, 2);
    CHECK_U64(c.removes, 1);
    CHECK_U64(c.lists, 1);
    CHECK_U64(c.sizes, 1);
    CHECK(tg_store_caps(s) == tg_store_caps(mem));
    CHECK(tg_store_dir(s) == -1 && tg_store_path(s) == NULL);
    CHECK(strcmp(tg_store_describe(s), "memory") == 0);
}

static void fails_at(void)
{
    for (long n = 1; n <= 12; n++) {
        TG_AUTO_PTR(tg_store) mem = NULL;
        TG_AUTO_PTR(tg_store) s = NULL;
        char row[32];
        (void)snprintf(row, sizeof row, "operation %ld", n);
        test_row = row;
        REQUIRE_OK(tg_store_open_mem(&mem, NULL));
        REQUIRE_OK(tg_store_open_fault(&s, mem, NULL));
        tg_store_fail_at(s, n, false);
        /* Without "a" it cannot be read, nor "n" removed without "n". */
        int want = n == 1 ? 4 : n == 2 ? 2 : n > 11 ? 0 : 1;
        CHECK_U64((uint64_t)everything(s), (uint64_t)want);
        tg_store_fail_at(s, 1, true);
        CHECK_U64((uint64_t)everything(s), 9);
        tg_store_fail_at(s, 0, true);
        CHECK_STATUS(tg_store_put(s, "a", "x", 1, NULL, NULL), TG_OK);
    }
    test_row = "";
    TG_AUTO_PTR(tg_store) mem = NULL;
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_error err = {0};
    REQUIRE_OK(tg_store_open_mem(&mem, NULL));
    REQUIRE_OK(tg_store_open_fault(&s, mem, NULL));
    tg_store_fail_at(s, 1, false);
    CHECK_STATUS(tg_store_put(s, "k", "x", 1, NULL, &err), TG_IO);
    CHECK(strcmp(err.key, "k") == 0 && strstr(err.msg, "injected") != NULL);
    CHECK_STATUS(tg_store_size(mem, "k", &(uint64_t){0}, NULL, NULL), TG_NOT_FOUND);
}

static const struct test tests[] = {
    {"counts", counts},
    {"fails_at", fails_at},
};

TEST_MAIN(tests)
