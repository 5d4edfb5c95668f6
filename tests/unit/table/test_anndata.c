#include "check.h"
#include "table/anndata.h"

static const tg_table_column obs[] = {{"area", {TG_DT_FLOAT, 8}}, {"kind", {TG_DT_STRING, 0}}};
static const tg_table_column var[] = {{"mz", {TG_DT_FLOAT, 8}}};

/* n rows of a frame: names "r<i>", then numbers, then (obs) the words again. */
static tg_status rows(tg_table *t, uint64_t first, uint64_t n, tg_error *err)
{
    uint64_t offsets[65] = {0};
    double items[64];
    TG_AUTO(tg_text) text = {0};

    for (uint64_t i = 0; i < n; i++) {
        tg_text_addf(&text, "r%d", (int)(first + i));
        offsets[i + 1] = text.len;
        items[i] = (double)(first + i) / 4;
    }
    TG_TRY(tg_text_status(&text, err));
    const tg_table_block b[] = {{.offsets = offsets, .text = text.data},
                                {.items = items},
                                {.offsets = offsets, .text = text.data}};
    return tg_table_append(t, b, n, NULL, err);
}

static tg_anndata_options options(int format, tg_anndata_x x)
{
    return (tg_anndata_options){.format = format,
                                .n_obs = 6,
                                .n_var = 3,
                                .x = x,
                                .x_dtype = {TG_DT_FLOAT, 4},
                                .chunk = {4, 2},
                                .obs = obs,
                                .n_obs_columns = 2,
                                .var = var,
                                .n_var_columns = 1,
                                .var_index = "ion",
                                .attributes = "{\"made\":\"here\"}",
                                .overwrite = true};
}

/* Columns of X: 0, 1, 2 items; then a call of none, then 6 items. */
static tg_status columns(tg_anndata *a, tg_error *err)
{
    static const uint64_t begin[] = {1, 1, 2, 4}, indices[] = {9, 5, 0, 3};
    static const uint64_t more[] = {0, 6}, all[] = {0, 1, 2, 3, 4, 5};
    static const float values[] = {9, 1, 2, 3}, six[] = {10, 11, 12, 13, 14, 15};

    TG_TRY(tg_anndata_append(a, 3, begin, indices, values, NULL, err));
    TG_TRY(tg_anndata_append(a, 0, begin, indices, values, NULL, err));
    return tg_anndata_append(a, 1, more, all, six, NULL, err);
}

static void check_ints(tg_store *s, const char *path, const int64_t *want, uint64_t n)
{
    TG_AUTO_PTR(tg_array) array = NULL;
    tg_array_info info = {.size = sizeof info};
    const uint64_t zero = 0;
    int64_t wide[16];
    int32_t narrow[16];

    test_row = path;
    REQUIRE_OK(tg_array_open(s, path, &array, NULL, NULL));
    REQUIRE_OK(tg_array_get_info(array, &info, NULL));
    CHECK_U64(info.shape[0], n);
    void *dst = info.dtype.size == 8 ? (void *)wide : narrow;
    REQUIRE(info.shape[0] == n && info.dtype.kind == TG_DT_INT);
    REQUIRE_OK(tg_array_read(array, &zero, &n, dst, NULL, NULL, NULL));
    for (uint64_t i = 0; i < n; i++)
        CHECK_U64((uint64_t)(info.dtype.size == 8 ? wide[i] : narrow[i]), (uint64_t)want[i]);
    test_row = "";
}

static bool has_attribute(tg_store *s, const char *path, const char *text)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    return tg_node_open(s, path, &node, NULL, NULL) == TG_OK &&
           strstr(tg_node_attributes(node), text) != NULL;
}

static void a_sparse_matrix_is_gathered_to_chunks(void)
{
    static const int64_t indptr[] = {0, 0, 1, 3, 9}, indices[] = {5, 0, 3, 0, 1, 2, 3, 4, 5};

    for (int format = 2; format <= 3; format++) {
        for (int narrow = 0; narrow < 2; narrow++) {
            TG_AUTO_PTR(tg_store) s = NULL;
            TG_AUTO_PTR(tg_anndata) a = NULL;
            tg_anndata_options o = options(format, TG_ANNDATA_CSC);
            o.most_items = narrow ? 9 : 0;
            REQUIRE_OK(tg_store_open_mem(&s, NULL));
            REQUIRE_OK(tg_anndata_create(&a, s, "t", &o, NULL, NULL));
            CHECK(tg_anndata_dense(a) == NULL && tg_anndata_worst_bytes(a) > 0);
            REQUIRE_OK(columns(a, NULL));
            REQUIRE_OK(rows(tg_anndata_obs(a), 0, 6, NULL));
            REQUIRE_OK(rows(tg_anndata_var(a), 0, 4, NULL));
            CHECK(!has_attribute(s, "t", "encoding-type")); /* not before it is whole */
            REQUIRE_OK(tg_anndata_close(a, NULL, NULL));
            CHECK(has_attribute(s, "t", "anndata") && has_attribute(s, "t", "here"));
            CHECK(has_attribute(s, "t/X", "csc_matrix") && has_attribute(s, "t/X", "shape"));
            CHECK(has_attribute(s, "t/var", "\"ion\"") && has_attribute(s, "t/uns", "dict"));
            check_ints(s, "t/X/indptr", indptr, 5);
            check_ints(s, "t/X/indices", indices, 9);
        }
    }
}

static void a_dense_matrix_is_an_array(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_anndata) a = NULL;
    TG_AUTO_PTR(tg_table) again = NULL;
    const tg_anndata_options o = options(3, TG_ANNDATA_DENSE);
    const uint64_t start[] = {0, 1}, count[] = {6, 1};
    const float column[] = {1, 2, 3, 4, 5, 6};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_anndata_create(&a, s, "", &o, NULL, NULL));
    REQUIRE_OK(tg_array_write(tg_anndata_dense(a), start, count, column, NULL, NULL, NULL));
    REQUIRE_OK(rows(tg_anndata_obs(a), 0, 2, NULL));
    REQUIRE_OK(rows(tg_anndata_obs(a), 2, 4, NULL));
    REQUIRE_OK(rows(tg_anndata_var(a), 0, 3, NULL));
    REQUIRE_OK(tg_anndata_close(a, NULL, NULL));
    REQUIRE_OK(tg_table_open(&again, s, "var", NULL, NULL));
    CHECK_U64(tg_table_n_columns(again), 2); /* the index first */
    CHECK(strcmp(tg_table_column_at(again, 0).name, "ion") == 0);
    CHECK_U64(tg_table_rows(again), 3);
    REQUIRE_OK(rows(again, 3, 1, NULL));
}

static void what_does_not_agree_is_refused(void)
{
    static const uint64_t begin[] = {0, 2}, down[] = {1, 1}, far[] = {0, UINT64_MAX};
    static const uint64_t beyond[] = {0, 17}, back[] = {2, 0};
    static const float values[] = {1, 2};
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_error err = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    for (int x = TG_ANNDATA_DENSE; x <= TG_ANNDATA_CSC; x++) {
        TG_AUTO_PTR(tg_anndata) a = NULL;
        tg_anndata_options o = options(3, (tg_anndata_x)x);
        o.most_items = 2;
        REQUIRE_OK(tg_anndata_create(&a, s, "t", &o, NULL, NULL));
        if (x == TG_ANNDATA_DENSE) {
            CHECK_STATUS(tg_anndata_append(a, 1, begin, down, values, NULL, &err), TG_INVALID);
            CHECK_STATUS(tg_anndata_close(a, NULL, &err), TG_INVALID);
            continue;
        }
        CHECK_STATUS(tg_anndata_append(a, 1, begin, down, values, NULL, &err), TG_INVALID);
        CHECK_STATUS(tg_anndata_append(a, 1, begin, far, values, NULL, &err), TG_INVALID);
        CHECK_STATUS(tg_anndata_append(a, 1, back, far, values, NULL, &err), TG_INVALID);
        REQUIRE_OK(tg_anndata_append(a, 1, begin, beyond, values, NULL, NULL));
        CHECK_STATUS(tg_anndata_append(a, 1, begin, beyond, values, NULL, &err), TG_INVALID);
        CHECK_STATUS(tg_anndata_close(a, NULL, &err), TG_INVALID); /* no row is named */
        REQUIRE_OK(
            rows(x == TG_ANNDATA_CSR ? tg_anndata_obs(a) : tg_anndata_var(a), 0, 1, NULL));
        CHECK_STATUS(tg_anndata_close(a, NULL, &err), TG_INVALID); /* index 17 of 0 */
        CHECK(strstr(err.msg, "17") != NULL);
        CHECK(!has_attribute(s, "t", "encoding-type"));
    }
    tg_anndata_options text = options(3, TG_ANNDATA_DENSE);
    TG_AUTO_PTR(tg_anndata) none = NULL;
    text.x_dtype = (tg_dtype){TG_DT_STRING, 0};
    CHECK_STATUS(tg_anndata_create(&none, s, "u", &text, NULL, &err), TG_INVALID);
    text = options(3, TG_ANNDATA_NO_X);
    text.overwrite = false;
    CHECK_STATUS(tg_anndata_create(&none, s, "t", &text, NULL, &err), TG_EXISTS);
}

static tg_status all_in_memory(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_anndata) a = NULL;
    const tg_anndata_options o = options(3, TG_ANNDATA_CSC);

    TG_TRY(tg_store_open_mem(&s, NULL));
    TG_TRY(tg_anndata_create(&a, s, "t", &o, NULL, NULL));
    TG_TRY(columns(a, NULL));
    TG_TRY(rows(tg_anndata_obs(a), 0, 6, NULL));
    TG_TRY(rows(tg_anndata_var(a), 0, 4, NULL));
    return tg_anndata_close(a, NULL, NULL);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(all_in_memory());
}

static const struct test tests[] = {
    {"a_sparse_matrix_is_gathered_to_chunks", a_sparse_matrix_is_gathered_to_chunks},
    {"a_dense_matrix_is_an_array", a_dense_matrix_is_an_array},
    {"what_does_not_agree_is_refused", what_does_not_agree_is_refused},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
