/* Every array of tests/golden (made by zarr-python 2 and 3 and tensorstore), value for value.
 */
#include "check.h"
#include "zarr/zarr.h"

#include <stdlib.h>

struct golden {
    char peer[24], name[60], dtype[24];
    char row[100];
};

static tg_status open_golden(tg_store **out)
{
    return tg_store_open_zip(out, TG_TEST_DATA "/golden/golden.zip", NULL, NULL);
}

static tg_status values_of(tg_store *s, const struct golden *g, tg_buf *out)
{
    char key[120];
    (void)snprintf(key, sizeof key, "%s/%s.raw", g->peer, g->name);
    return tg_store_get(s, key, tg_range_all(), 1 << 20, out, NULL, NULL);
}

/* Whole, then item by item from the end: partial reads take other ways through the code. */
static void check_numbers(tg_array *a, const tg_array_info *info, const tg_buf *want)
{
    const uint64_t zero[TG_MAX_NDIM] = {0};
    uint64_t at[TG_MAX_NDIM], one[TG_MAX_NDIM], items = 0;
    tg_shape shape = {.ndim = info->ndim};
    TG_AUTO(tg_buf) got = {0};
    tg_error err = {0};

    memcpy(shape.n, info->shape, sizeof shape.n);
    REQUIRE_OK(tg_shape_items(&shape, &items, NULL));
    CHECK_U64(want->len, items * info->dtype.size);
    REQUIRE_OK(tg_buf_resize(&got, want->len + 16, NULL));
    if (tg_array_read(a, zero, info->shape, got.data, NULL, NULL, &err) != TG_OK)
        test_failed(__FILE__, __LINE__, err.msg);
    CHECK(want->len == 0 || memcmp(got.data, want->data, want->len) == 0);
    for (uint32_t i = 0; i < info->ndim; i++)
        one[i] = 1;
    for (uint64_t i = items; i-- > 0;) {
        tg_unravel(&shape, i, at);
        REQUIRE_OK(tg_array_read(a, at, one, got.data, NULL, NULL, NULL));
        CHECK(memcmp(got.data, want->data + i * info->dtype.size, info->dtype.size) == 0);
    }
}

static void check_strings(tg_array *a, const tg_array_info *info, const tg_buf *want)
{
    uint64_t *offsets = NULL;
    char *text = NULL;
    const uint8_t *at = want->data;
    tg_error err = {0};

    if (tg_array_read_strings(a, 0, info->shape[0], 1 << 20, &offsets, &text, NULL, &err) !=
        TG_OK) {
        test_failed(__FILE__, __LINE__, err.msg);
        return;
    }
    for (uint64_t i = 0; i < info->shape[0]; i++) {
        uint32_t len = 0;
        memcpy(&len, at, 4);
        CHECK_U64(offsets[i + 1] - offsets[i], len);
        CHECK(offsets[i + 1] - offsets[i] == len &&
              memcmp(text + offsets[i], at + 4, len) == 0);
        at += 4 + len;
    }
    tg_free(offsets);
    tg_free(text);
}

static void check_golden(tg_store *s, const struct golden *g, const char *shape)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    TG_AUTO(tg_buf) want = {0};
    tg_array_info info = {.size = sizeof info};
    char path[100];
    tg_dtype t = {0};
    tg_error err = {0};

    (void)snprintf(path, sizeof path, "%s/%s", g->peer, g->name);
    REQUIRE_OK(tg_dtype_parse(g->dtype, &t, NULL));
    if (tg_array_open(s, path, &a, NULL, &err) != TG_OK) {
        test_failed(__FILE__, __LINE__, err.msg);
        return;
    }
    REQUIRE_OK(tg_array_get_info(a, &info, NULL));
    CHECK(info.dtype.kind == t.kind && info.dtype.size == t.size);
    if (strcmp(shape, "-") == 0)
        CHECK_U64(info.ndim, 0);
    for (uint32_t i = 0; i < info.ndim; i++) {
        char *end = NULL;
        CHECK_U64(info.shape[i], strtoull(shape, &end, 10));
        shape = end + (*end == 'x');
    }
    REQUIRE_OK(values_of(s, g, &want));
    if (t.kind == TG_DT_STRING)
        check_strings(a, &info, &want);
    else
        check_numbers(a, &info, &want);
}

static void every_golden_array_reads(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    FILE *f = fopen(TG_TEST_DATA "/golden/cases.txt", "r");
    char shape[40];
    struct golden g;
    int n = 0, n_sharded = 0;

    REQUIRE(f != NULL);
    if (open_golden(&s) == TG_OK)
        for (; fscanf(f, "%23s %59s %23s %39s", g.peer, g.name, g.dtype, shape) == 4; n++) {
            (void)snprintf(g.row, sizeof g.row, "%s/%s", g.peer, g.name);
            test_row = g.row;
            n_sharded += strstr(g.name, "shard") != NULL;
            check_golden(s, &g, shape);
        }
    (void)fclose(f);
    test_row = "";
    CHECK(n > 120 && n_sharded > 15);
}

static void the_trees_of_others(void)
{
    static const char *const peers[] = {"zarr2", "zarr3"};
    TG_AUTO_PTR(tg_store) s = NULL;

    REQUIRE_OK(open_golden(&s));
    for (int i = 0; i < 2; i++) {
        TG_AUTO_PTR(tg_node) n = NULL;
        char path[40], **names = NULL;
        test_row = peers[i];
        (void)snprintf(path, sizeof path, "%s/tree", peers[i]);
        REQUIRE_OK(tg_node_open(s, path, &n, NULL, NULL));
        CHECK(strstr(tg_node_attributes(n), "golden") != NULL);
        (void)snprintf(path, sizeof path, "%s/tree/a", peers[i]);
        REQUIRE_OK(tg_node_children(s, path, &names, NULL, NULL));
        CHECK(names[0] != NULL && strcmp(names[0], "b") == 0);
        CHECK(names[0] != NULL && names[1] != NULL && strcmp(names[1], "x") == 0);
        tg_names_free(names);
    }
}

/* What we make of the documents of others reads as before: rewritten, not renewed. */
static void documents_of_others_survive_a_rewrite(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    FILE *f = fopen(TG_TEST_DATA "/golden/cases.txt", "r");
    char shape[40], path[100];
    struct golden g;

    REQUIRE(f != NULL);
    REQUIRE(open_golden(&s) == TG_OK);
    while (fscanf(f, "%23s %59s %23s %39s", g.peer, g.name, g.dtype, shape) == 4) {
        TG_AUTO_PTR(tg_array) a = NULL;
        TG_AUTO_PTR(tg_array_meta) again = NULL;
        TG_AUTO(tg_str) doc = NULL;
        TG_AUTO(tg_str) attrs = NULL;
        (void)snprintf(path, sizeof path, "%s/%s", g.peer, g.name);
        test_row = path;
        REQUIRE_OK(tg_array_open(s, path, &a, NULL, NULL));
        const tg_array_meta *m = tg_array_get_meta(a);
        const tg_array_info *info = tg_array_meta_info(m);
        REQUIRE_OK(tg_array_meta_write(m, info->shape, NULL, &doc, &attrs, NULL));
        tg_status st = info->format == 3
                           ? tg_array_meta_parse_v3(&again, doc, strlen(doc), NULL)
                           : tg_array_meta_parse_v2(&again, doc, strlen(doc), NULL, 0, NULL);
        CHECK_STATUS(st, TG_OK);
        if (st != TG_OK)
            continue;
        const tg_array_info *now = tg_array_meta_info(again);
        CHECK(memcmp(now->shape, info->shape, sizeof now->shape) == 0);
        CHECK(memcmp(now->chunk, info->chunk, sizeof now->chunk) == 0);
        CHECK(memcmp(now->fill, info->fill, sizeof now->fill) == 0);
        CHECK(now->dtype.kind == info->dtype.kind && now->sharded == info->sharded);
    }
    (void)fclose(f);
}

static const struct test tests[] = {
    {"every_golden_array_reads", every_golden_array_reads},
    {"the_trees_of_others", the_trees_of_others},
    {"documents_of_others_survive_a_rewrite", documents_of_others_survive_a_rewrite},
};

TEST_MAIN(tests)
