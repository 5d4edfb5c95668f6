#include "check.h"
#include "table/table.h"

#include <math.h>

static const tg_table_column columns[] = {
    {"id", {TG_DT_UINT, 8}},
    {"x", {TG_DT_FLOAT, 4}},
    {"name", {TG_DT_STRING, 0}},
    {"ok", {TG_DT_BOOL, 1}},
};

typedef struct rows {
    uint64_t id[16], offsets[17];
    float x[16];
    char text[400];
    uint8_t ok[16];
} rows;

/* Row i of the whole table; text holds what CSV must quote. */
static void make(rows *r, uint64_t first, uint64_t n)
{
    static const char *const words[] = {"", "a", "with, comma", "with \"quotes\"",
                                        "gr\xc3\xbcn"};
    for (uint64_t i = 0; i < n; i++) {
        const char *w = words[(first + i) % 5];
        r->id[i] = UINT64_C(9007199254740993) + first + i;
        r->x[i] = (float)(first + i) / 10;
        r->ok[i] = (first + i) % 2;
        memcpy(r->text + r->offsets[i], w, strlen(w) + 1);
        r->offsets[i + 1] = r->offsets[i] + strlen(w);
    }
}

static tg_status append(tg_table *t, uint64_t first, uint64_t n, tg_error *err)
{
    rows r = {0};
    make(&r, first, n);
    const tg_table_block blocks[] = {{.items = r.id},
                                     {.items = r.x},
                                     {.offsets = r.offsets, .text = r.text},
                                     {.items = r.ok}};
    return tg_table_append(t, blocks, n, NULL, err);
}

static tg_status create(tg_table **t, tg_store *s, int format)
{
    const tg_table_options o = {.format = format,
                                .columns = columns,
                                .n_columns = 4,
                                .chunk_rows = 5,
                                .codec = "zstd:1",
                                .attributes = "{\"kind\":\"test\"}"};
    return tg_table_create(t, s, "a/t", &o, NULL, NULL);
}

static void check_rows(tg_table *t, uint64_t n)
{
    rows want = {0};
    uint64_t id[16], *offsets = NULL;
    float x[16];
    char *text = NULL;

    make(&want, 0, n);
    CHECK_U64(tg_table_rows(t), n);
    REQUIRE_OK(tg_table_read(t, 0, 0, n, id, NULL, NULL));
    REQUIRE_OK(tg_table_read(t, 1, 0, n, x, NULL, NULL));
    CHECK(memcmp(id, want.id, n * 8) == 0 && memcmp(x, want.x, n * 4) == 0);
    REQUIRE_OK(tg_table_read_strings(t, 2, 0, n, 1000, &offsets, &text, NULL, NULL));
    CHECK(memcmp(offsets, want.offsets, (n + 1) * 8) == 0);
    CHECK(memcmp(text, want.text, offsets[n]) == 0);
    tg_free(offsets);
    tg_free(text);
}

static void rows_are_appended_in_blocks_of_any_size(void)
{
    for (int format = 2; format <= 3; format++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_table) t = NULL;
        TG_AUTO_PTR(tg_table) again = NULL;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(create(&t, s, format));
        CHECK_U64(tg_table_rows(t), 0);
        REQUIRE_OK(append(t, 0, 3, NULL));
        REQUIRE_OK(append(t, 3, 0, NULL));
        REQUIRE_OK(append(t, 3, 9, NULL));
        check_rows(t, 12);
        REQUIRE_OK(tg_table_open(&again, s, "a/t", NULL, NULL));
        CHECK_U64(tg_table_n_columns(again), 4);
        CHECK(strcmp(tg_table_column_at(again, 2).name, "name") == 0);
        CHECK(tg_table_column_at(again, 2).dtype.kind == TG_DT_STRING);
        CHECK_U64(tg_table_find(again, "ok"), 3);
        CHECK_U64(tg_table_find(again, "none"), UINT32_MAX);
        check_rows(again, 12);
        REQUIRE_OK(append(again, 12, 2, NULL));
        check_rows(again, 14);
        CHECK(tg_table_worst_bytes(again) > 0);
    }
}

static void an_append_that_fails_leaves_the_table_as_it_was(void)
{
    for (long n = 1; n < 200; n++) {
        TG_AUTO_PTR(tg_store) inner = NULL;
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_table) t = NULL;
        TG_AUTO_PTR(tg_table) again = NULL;
        REQUIRE_OK(tg_store_open_mem(&inner, NULL));
        REQUIRE_OK(tg_store_open_fault(&s, inner, NULL));
        REQUIRE_OK(create(&t, s, 3));
        REQUIRE_OK(append(t, 0, 7, NULL));
        tg_store_fail_at(s, n, false);
        tg_status st = append(t, 7, 4, NULL);
        tg_store_fail_at(s, 0, false);
        REQUIRE_OK(tg_table_open(&again, inner, "a/t", NULL, NULL));
        if (st == TG_OK) {
            CHECK(n > 10);
            check_rows(again, 11);
            return;
        }
        CHECK_STATUS(st, TG_IO);
        check_rows(t, 7);
        CHECK(tg_table_rows(again) == 7 || tg_table_rows(again) == 11);
        check_rows(again, tg_table_rows(again));
        REQUIRE_OK(append(t, 7, 4, NULL)); /* and it can be done again */
        check_rows(t, 11);
    }
    CHECK(false);
}

static void a_group_without_an_order_is_read_by_name(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_table) t = NULL;
    TG_AUTO_PTR(tg_table) again = NULL;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(create(&t, s, 3));
    REQUIRE_OK(append(t, 0, 6, NULL));
    REQUIRE_OK(tg_attributes_set(s, "a/t", "{}", false, NULL, NULL));
    REQUIRE_OK(tg_group_create(s, "a/t/group", 3, NULL, NULL, NULL));
    REQUIRE_OK(tg_table_open(&again, s, "a/t", NULL, NULL));
    CHECK_U64(tg_table_n_columns(again), 4);
    CHECK(strcmp(tg_table_column_at(again, 0).name, "id") == 0);
    CHECK(strcmp(tg_table_column_at(again, 3).name, "x") == 0);
    CHECK_U64(tg_table_rows(again), 6);
}

static void what_is_refused(void)
{
    static const tg_table_column twice[] = {{"a", {TG_DT_INT, 4}}, {"a", {TG_DT_INT, 4}}};
    static const tg_table_column raw[] = {{"a", {TG_DT_RAW, 4}}};
    static const tg_table_column slash[] = {{"a/b", {TG_DT_INT, 4}}};
    static const tg_table_column hidden[] = {{"__a", {TG_DT_INT, 4}}};
    static const struct {
        const char *name;
        tg_table_options options;
    } bad[] = {
        {"a name twice", {.columns = twice, .n_columns = 2}},
        {"raw bytes", {.columns = raw, .n_columns = 1}},
        {"a slash", {.columns = slash, .n_columns = 1}},
        {"no node's name", {.columns = hidden, .n_columns = 1}},
        {"format 4", {.format = 4}},
    };
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_table) t = NULL;
    TG_AUTO_PTR(tg_table) other = NULL;
    uint8_t item[8];
    uint64_t *offsets = NULL;
    char *text = NULL;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tg_error err = {0};
        test_row = bad[i].name;
        CHECK_STATUS(tg_table_create(&other, s, "bad", &bad[i].options, NULL, &err),
                     TG_INVALID);
        CHECK(other == NULL && err.msg[0] != '\0');
    }
    test_row = "";
    REQUIRE_OK(create(&t, s, 3));
    REQUIRE_OK(append(t, 0, 2, NULL));
    CHECK_STATUS(tg_table_read(t, 4, 0, 1, item, NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_table_read(t, 2, 0, 1, item, NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_table_read(t, 0, 2, 1, item, NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_table_read_strings(t, 0, 0, 1, 10, &offsets, &text, NULL, NULL),
                 TG_INVALID);
    CHECK_STATUS(create(&other, s, 3), TG_EXISTS);
    CHECK_STATUS(tg_table_open(&other, s, "a/t/id", NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_table_open(&other, s, "a/none", NULL, NULL), TG_NOT_FOUND);
}

/* --- CSV ------------------------------------------------------------------------------ */

static tg_status gather(void *user, const char *text, size_t len, tg_error *err)
{
    tg_text_add_n(user, text, len);
    return tg_text_status(user, err);
}

static void csv(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_table) t = NULL;
    TG_AUTO(tg_text) out = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(create(&t, s, 3));
    REQUIRE_OK(append(t, 0, 5, NULL));
    REQUIRE_OK(tg_table_csv(t, 0, 5, true, gather, &out, NULL, NULL));
    CHECK(strcmp(out.data, "id,x,name,ok\n"
                           "9007199254740993,0.0,,false\n"
                           "9007199254740994,0.1,a,true\n"
                           "9007199254740995,0.2,\"with, comma\",false\n"
                           "9007199254740996,0.3,\"with \"\"quotes\"\"\",true\n"
                           "9007199254740997,0.4,gr\xc3\xbcn,false\n") == 0);
    out.len = 0;
    REQUIRE_OK(tg_table_csv(t, 4, 1, false, gather, &out, NULL, NULL));
    CHECK(strcmp(out.data, "9007199254740997,0.4,gr\xc3\xbcn,false\n") == 0);
    CHECK_STATUS(tg_table_csv(t, 4, 2, false, gather, &out, NULL, NULL), TG_INVALID);
}

static void csv_of_many_rows_and_odd_numbers(void)
{
    enum { N = 10000 };
    static const tg_table_column odd[] = {{"f", {TG_DT_FLOAT, 8}}, {"c", {TG_DT_COMPLEX, 8}}};
    const tg_table_options o = {.columns = odd, .n_columns = 2};
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_table) t = NULL;
    TG_AUTO(tg_text) out = {0};
    static double f[N];
    static float c[2 * N];
    size_t lines = 0;

    f[0] = (double)NAN;
    f[1] = -(double)INFINITY;
    c[0] = 1.5f;
    c[1] = -2;
    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_table_create(&t, s, "", &o, NULL, NULL));
    const tg_table_block blocks[] = {{.items = f}, {.items = c}};
    REQUIRE_OK(tg_table_append(t, blocks, N, NULL, NULL));
    REQUIRE_OK(tg_table_csv(t, 0, N, false, gather, &out, NULL, NULL));
    CHECK(strncmp(out.data, "NaN,1.5-2.0j\n-Infinity,0.0+0.0j\n0.0,0.0+0.0j\n", 45) == 0);
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[i] == '\n';
    CHECK_U64(lines, N);
}

static tg_status all_in_memory(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_table) t = NULL;
    TG_AUTO_PTR(tg_table) again = NULL;
    TG_AUTO(tg_text) out = {0};

    TG_TRY(tg_store_open_mem(&s, NULL));
    TG_TRY(create(&t, s, 3));
    TG_TRY(append(t, 0, 7, NULL));
    TG_TRY(tg_table_open(&again, s, "a/t", NULL, NULL));
    tg_table_free(tg_steal(again));
    TG_TRY(tg_attributes_set(s, "a/t", "{}", false, NULL, NULL));
    TG_TRY(tg_table_open(&again, s, "a/t", NULL, NULL));
    CHECK_U64(tg_table_n_columns(again), 4);
    return tg_table_csv(again, 0, 7, true, gather, &out, NULL, NULL);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(all_in_memory());
}

static const struct test tests[] = {
    {"rows_are_appended_in_blocks_of_any_size", rows_are_appended_in_blocks_of_any_size},
    {"an_append_that_fails_leaves_the_table_as_it_was",
     an_append_that_fails_leaves_the_table_as_it_was},
    {"a_group_without_an_order_is_read_by_name", a_group_without_an_order_is_read_by_name},
    {"what_is_refused", what_is_refused},
    {"csv", csv},
    {"csv_of_many_rows_and_odd_numbers", csv_of_many_rows_and_odd_numbers},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
