#include "check.h"
#include "zarr/zarr.h"

#include <stdlib.h>
#include <unistd.h>

static tg_status put(tg_store *s, const char *key, const char *text)
{
    return tg_store_put(s, key, text, strlen(text), NULL, NULL);
}

static bool has(tg_store *s, const char *key)
{
    uint64_t n = 0;
    return tg_store_size(s, key, &n, NULL, NULL) == TG_OK;
}

static bool holds(tg_store *s, const char *key, const char *words)
{
    TG_AUTO(tg_buf) b = {0};
    TG_AUTO(tg_text) t = {0};
    if (tg_store_get(s, key, tg_range_all(), 1 << 20, &b, NULL, NULL) != TG_OK)
        return false;
    tg_text_add_n(&t, (const char *)b.data, b.len);
    return t.data != NULL && strstr(t.data, words) != NULL;
}

#define ARRAY_V3                                                                        \
    "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[2],\"data_type\":\"uint8\"," \
    "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2]}},"    \
    "\"chunk_key_encoding\":{\"name\":\"default\"},\"fill_value\":0,"                   \
    "\"codecs\":[{\"name\":\"bytes\"}],\"attributes\":{\"b\":1,\"a\":{\"c\":0.10}},"    \
    "\"later\":{\"must_understand\":false}}"
#define ARRAY_V2                                                                           \
    "{\"zarr_format\":2,\"shape\":[2,2],\"chunks\":[1,1],\"dtype\":\"|u1\",\"compressor\"" \
    ":null,\"fill_value\":0,\"order\":\"C\",\"filters\":null}"

static void k5_format_3_wins(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_node) n = NULL;
    TG_AUTO_PTR(tg_node) n2 = NULL;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(put(s, "a/.zgroup", "{\"zarr_format\":2}"));
    REQUIRE_OK(put(s, "a/.zarray", ARRAY_V2));
    REQUIRE_OK(tg_node_open(s, "a", &n2, NULL, NULL));
    CHECK(tg_node_format(n2) == 2 && tg_node_kind_of(n2) == TG_NODE_ARRAY);
    REQUIRE_OK(put(s, "a/zarr.json", ARRAY_V3)); /* W25 */
    REQUIRE_OK(tg_node_open(s, "/a/", &n, NULL, NULL));
    CHECK(tg_node_format(n) == 3 && tg_node_kind_of(n) == TG_NODE_ARRAY);
    CHECK(strcmp(tg_node_metadata(n), ARRAY_V3) == 0);
    CHECK(strstr(tg_node_attributes(n), "0.10") != NULL);
}

static void what_is_no_node(void)
{
    static const struct {
        const char *name, *key, *text, *path;
        tg_status want;
    } rows[] = {
        {"K6 a directory", "d/x/zarr.json", ARRAY_V3, "d", TG_NOT_FOUND},
        {"nothing", "x", "1", "y", TG_NOT_FOUND},
        {"no JSON", "z/zarr.json", "{", "z", TG_CORRUPT},
        {"no node_type", "z/zarr.json", "{\"zarr_format\":3}", "z", TG_CORRUPT},
        {"node_type other", "z/zarr.json", "{\"zarr_format\":3,\"node_type\":\"x\"}", "z",
         TG_CORRUPT},
        {"group of format 2", "z/zarr.json", "{\"zarr_format\":2,\"node_type\":\"group\"}", "z",
         TG_CORRUPT},
        {"V3-9 group with unknown", "z/zarr.json",
         "{\"zarr_format\":3,\"node_type\":\"group\",\"x\":1}", "z", TG_UNSUPPORTED},
        {"group attributes a list", "z/zarr.json",
         "{\"zarr_format\":3,\"node_type\":\"group\",\"attributes\":[]}", "z", TG_CORRUPT},
        {"V3-6 consolidated null", "z/zarr.json",
         "{\"zarr_format\":3,\"node_type\":\"group\",\"consolidated_metadata\":null}", "z",
         TG_OK},
        {".zgroup 3", "z/.zgroup", "{\"zarr_format\":3}", "z", TG_CORRUPT},
        {".zgroup with more", "z/.zgroup", "{\"zarr_format\":2,\"x\":1}", "z", TG_OK},
        {"W19 dots", "x", "1", "a/../b", TG_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_node) n = NULL;
        tg_error err = {0};
        test_row = rows[i].name;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(put(s, rows[i].key, rows[i].text));
        CHECK_STATUS(tg_node_open(s, rows[i].path, &n, NULL, &err), rows[i].want);
        if (rows[i].want != TG_OK)
            CHECK(err.msg[0] != '\0');
    }
}

static size_t count(char **names)
{
    size_t n = 0;
    while (names[n] != NULL)
        n++;
    return n;
}

static void children_are_nodes_only(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    char **names = NULL;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_group_create(s, "", 3, NULL, NULL, NULL));
    REQUIRE_OK(put(s, "b/zarr.json", ARRAY_V3));
    REQUIRE_OK(put(s, "b/c/0", "xx"));
    REQUIRE_OK(put(s, "a/.zgroup", "{\"zarr_format\":2}"));
    REQUIRE_OK(put(s, "A/.zarray", ARRAY_V2));
    REQUIRE_OK(put(s, "nothing/x", "1"));
    REQUIRE_OK(put(s, "__hidden/zarr.json", ARRAY_V3)); /* K3 */
    REQUIRE_OK(put(s, "file", "1"));
    REQUIRE_OK(tg_node_children(s, "", &names, NULL, NULL));
    REQUIRE(count(names) == 3);
    CHECK(strcmp(names[0], "A") == 0 && strcmp(names[1], "a") == 0 &&
          strcmp(names[2], "b") == 0);
    tg_names_free(names);
    REQUIRE_OK(put(s, "b/0/zarr.json", ARRAY_V3)); /* P5: below an array */
    REQUIRE_OK(tg_node_children(s, "b", &names, NULL, NULL));
    CHECK_U64(count(names), 0);
    tg_names_free(names);
    CHECK_STATUS(tg_node_children(s, "nothing", &names, NULL, NULL), TG_NOT_FOUND);
}

/* --- A store that cannot list -------------------------------------------- */

typedef struct blind {
    tg_store base;
    tg_store *in;
} blind;

static tg_status blind_get(tg_store *s, const char *key, tg_range r, void *dst, size_t cap,
                           size_t *n, uint64_t *total, const tg_cancel *c, tg_error *e)
{
    return tg_store_get_into(((blind *)s)->in, key, r, dst, cap, n, total, c, e);
}
static tg_status blind_size(tg_store *s, const char *key, uint64_t *n, const tg_cancel *c,
                            tg_error *e)
{
    return tg_store_size(((blind *)s)->in, key, n, c, e);
}
static const tg_store_ops blind_ops = {
    .name = "blind", .get_into = blind_get, .size = blind_size};

static const struct {
    const char *name, *key, *text;
} consolidated[] = {
    {"M20 v3, shuffled, A and a, stale", "zarr.json",
     "{\"zarr_format\":3,\"node_type\":\"group\",\"consolidated_metadata\":{\"must_"
     "understand\":"
     "false,\"kind\":\"inline\",\"metadata\":{\"g/"
     "x\":{},\"a\":{},\"stale\":{},\"g\":{},\"A\":{}}"
     "}}"},
    {"M19 .zmetadata without .zattrs", ".zmetadata",
     "{\"zarr_consolidated_format\":1,\"metadata\":{\"g/x/.zarray\":{},\"a/.zarray\":{},"
     "\"g/.zgroup\":{},\".zgroup\":{},\"A/.zarray\":{},\"stale/.zarray\":{}}}"},
};

static void v2_11_children_without_a_list(void)
{
    for (size_t i = 0; i < 2; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        char **names = NULL;
        test_row = consolidated[i].name;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(put(s, ".zgroup", "{\"zarr_format\":2}"));
        REQUIRE_OK(put(s, consolidated[i].key, consolidated[i].text));
        REQUIRE_OK(put(s, "a/.zarray", ARRAY_V2));
        REQUIRE_OK(put(s, "A/.zarray", ARRAY_V2));
        REQUIRE_OK(put(s, "g/.zgroup", "{\"zarr_format\":2}"));
        REQUIRE_OK(put(s, "g/x/.zarray", ARRAY_V2));
        blind b = {.in = s};
        tg_store_init(&b.base, &blind_ops);
        REQUIRE_OK(tg_store_set_what(&b.base, "blind", "store", NULL));
        tg_error err = {0};
        CHECK_STATUS(tg_node_children(&b.base, "", &names, NULL, &err), TG_OK);
        if (names != NULL) {
            CHECK_U64(count(names), 3);
            CHECK(strcmp(names[0], "A") == 0 && strcmp(names[1], "a") == 0 &&
                  strcmp(names[2], "g") == 0);
            tg_names_free(names);
        } else {
            test_failed(__FILE__, __LINE__, err.msg);
        }
        REQUIRE_OK(tg_node_children(&b.base, "g", &names, NULL, NULL)); /* from the root's */
        CHECK(count(names) == 1 && strcmp(names[0], "x") == 0);
        tg_names_free(names);
        REQUIRE_OK(tg_store_remove(s, consolidated[i].key, NULL, NULL));
        if (i == 1)
            CHECK_STATUS(tg_node_children(&b.base, "", &names, NULL, NULL), TG_NOT_FOUND);
        tg_free(b.base.what);
    }
}

static void m20_a_write_takes_stale_metadata_away(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(put(s, "zarr.json", consolidated[0].text));
    REQUIRE_OK(put(s, ".zmetadata", consolidated[1].text));
    REQUIRE_OK(tg_group_create(s, "new", 3, NULL, NULL, NULL));
    CHECK(!has(s, ".zmetadata"));
    CHECK(!holds(s, "zarr.json", "consolidated_metadata"));
}

/* --- Groups --------------------------------------------------------------- */

static void v2_9_ancestors_are_made(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_group_create(s, "a/b/c", 3, "{\"k\":1}", NULL, NULL));
    CHECK(has(s, "zarr.json") && has(s, "a/zarr.json") && has(s, "a/b/zarr.json"));
    CHECK(holds(s, "a/b/c/zarr.json", "\"k\": 1"));
    REQUIRE_OK(tg_group_create(s, "a/two/x", 2, NULL, NULL, NULL));
    CHECK(has(s, "a/two/.zgroup") && has(s, "a/two/x/.zgroup") && !has(s, ".zgroup"));
    CHECK(!has(s, "a/two/x/.zattrs"));
}

static void groups_that_are_refused(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_error err = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_group_create(s, "", 3, NULL, NULL, NULL));
    CHECK_STATUS(tg_group_create(s, "", 3, NULL, NULL, &err), TG_EXISTS);
    REQUIRE_OK(put(s, "a/zarr.json", ARRAY_V3));
    CHECK_STATUS(tg_group_create(s, "a", 3, NULL, NULL, &err), TG_EXISTS);
    CHECK_STATUS(tg_group_create(s, "a/0/g", 3, NULL, NULL, &err), TG_INVALID); /* P5 */
    CHECK(strstr(err.msg, "array") != NULL && !has(s, "a/0/zarr.json"));
    CHECK_STATUS(tg_group_create(s, "__x", 3, NULL, NULL, &err), TG_INVALID);
    CHECK_STATUS(tg_group_create(s, "x/zarr.json", 3, NULL, NULL, &err), TG_INVALID);
    CHECK_STATUS(tg_group_create(s, "x", 4, NULL, NULL, &err), TG_INVALID);
    CHECK_STATUS(tg_group_create(s, "x", 3, "[]", NULL, &err), TG_INVALID);
    CHECK(!has(s, "x/zarr.json"));
}

/* --- Attributes ------------------------------------------------------------ */

static void attributes_of_format_3(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(put(s, "zarr.json", ARRAY_V3));
    REQUIRE_OK(tg_attributes_set(s, "", "{\"b\":2,\"z\":3}", true, NULL, NULL));
    CHECK(holds(s, "zarr.json", "\"later\"")); /* M17 */
    CHECK(holds(s, "zarr.json", "0.10"));
    TG_AUTO_PTR(tg_node) n = NULL;
    REQUIRE_OK(tg_node_open(s, "", &n, NULL, NULL));
    const char *at = tg_node_attributes(n);
    const char *b = strstr(at, "\"b\""), *a = strstr(at, "\"a\""), *z = strstr(at, "\"z\"");
    CHECK(b != NULL && a != NULL && z != NULL && b < a && a < z);
    REQUIRE_OK(tg_attributes_set(s, "", "{\"only\":1}", false, NULL, NULL));
    CHECK(holds(s, "zarr.json", "only") && !holds(s, "zarr.json", "0.10"));
    CHECK_STATUS(tg_attributes_set(s, "", "{\"x\":NaN}", true, NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_attributes_set(s, "none", "{}", true, NULL, NULL), TG_NOT_FOUND); /* W2 */
    CHECK(!has(s, "none/zarr.json"));
}

static void attributes_of_format_2(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(put(s, ".zarray", ARRAY_V2));
    REQUIRE_OK(tg_attributes_set(s, "", "{\"b\":2}", true, NULL, NULL));
    CHECK(holds(s, ".zattrs", "\"b\": 2") && holds(s, ".zarray", ARRAY_V2)); /* M14 */
    REQUIRE_OK(put(s, ".zattrs", "{\"n\":NaN,\"b\":1}"));                    /* M26 */
    REQUIRE_OK(tg_attributes_set(s, "", "{\"b\":3}", true, NULL, NULL));
    CHECK(holds(s, ".zattrs", "NaN") && holds(s, ".zattrs", "\"b\": 3"));
}

/* --- Faults ---------------------------------------------------------------- */

static tg_status make_tree(tg_store *s)
{
    char **names = NULL;
    tg_status st = tg_group_create(s, "a/b", 3, "{\"k\":1}", NULL, NULL);
    if (st == TG_OK)
        st = tg_attributes_set(s, "a/b", "{\"l\":2}", true, NULL, NULL);
    if (st == TG_OK)
        st = tg_node_children(s, "a", &names, NULL, NULL);
    tg_names_free(names);
    return st;
}

static tg_status make_tree_in_memory(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_TRY(tg_store_open_mem(&s, NULL));
    return make_tree(s);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(make_tree_in_memory());
}

static void every_store_call_may_fail(void)
{
    for (long n = 1; n < 200; n++) {
        TG_AUTO_PTR(tg_store) inner = NULL;
        TG_AUTO_PTR(tg_store) s = NULL;
        REQUIRE_OK(tg_store_open_mem(&inner, NULL));
        REQUIRE_OK(tg_store_open_fault(&s, inner, NULL));
        tg_store_fail_at(s, n, false);
        tg_status st = make_tree(s);
        if (st == TG_OK) {
            CHECK(n > 5);
            return;
        }
        CHECK_STATUS(st, TG_IO);
    }
    CHECK(false);
}

typedef struct making {
    tg_store *store;
    const char *value;
    tg_status end;
} making;

static tg_status make_one(void *user, const char *path, const tg_cancel *cancel, tg_error *err)
{
    const making *m = user;
    char key[256];

    TG_TRY(tg_group_create(m->store, path, 3, "{}", cancel, err));
    (void)snprintf(key, sizeof key, "%s/%s", path, m->value);
    TG_TRY(tg_store_put(m->store, key, m->value, strlen(m->value), cancel, err));
    return m->end == TG_OK ? TG_OK : tg_fail(err, m->end, "as asked");
}

static bool count_name(void *user, const char *name)
{
    (void)name;
    ++*(int *)user;
    return true;
}

/* kind 0: memory, 1: a directory, where what fails leaves the old one. */
static void a_node_is_replaced(int kind)
{
    char folder[] = "/tmp/tg-node-XXXXXX";
    const tg_store_options o = {.size = sizeof o, .mode = TG_STORE_READ_WRITE};
    TG_AUTO_PTR(tg_store) s = NULL;
    int n = 0;

    REQUIRE(mkdtemp(folder) != NULL);
    REQUIRE_OK(kind == 0 ? tg_store_open_mem(&s, NULL)
                         : tg_store_open_fs(&s, folder, &o, NULL));
    making m = {s, "old", TG_OK};
    REQUIRE_OK(tg_node_replace(s, "t/a", make_one, &m, NULL, NULL));
    CHECK(holds(s, "t/a/old", "old"));
    m = (making){s, "bad", TG_IO};
    CHECK_STATUS(tg_node_replace(s, "t/a", make_one, &m, NULL, NULL), TG_IO);
    CHECK(has(s, "t/a/old") == (kind == 1) && has(s, "t/a/bad") == (kind == 0));
    REQUIRE_OK(tg_node_remove(s, "t/a", NULL, NULL));
    m = (making){s, "next", TG_OK};
    REQUIRE_OK(tg_node_replace(s, "t/a", make_one, &m, NULL, NULL));
    m.value = "new";
    REQUIRE_OK(tg_node_replace(s, "t/a", make_one, &m, NULL, NULL));
    CHECK(has(s, "t/a/new") && has(s, "t/a/zarr.json") && !has(s, "t/a/next"));
    REQUIRE_OK(tg_store_list(s, "t/", count_name, &n, NULL, NULL));
    CHECK(n == 2); /* a/ and zarr.json */
    if (kind == 1) {
        char staged[64];
        (void)snprintf(staged, sizeof staged, "%s/t/.tg-tmp-new-a", folder);
        CHECK(access(staged, F_OK) != 0);
    }
    REQUIRE_OK(tg_node_remove(s, "", NULL, NULL));
}

static void a_node_is_replaced_in_memory(void)
{
    a_node_is_replaced(0);
}

static void a_node_is_replaced_in_a_directory(void)
{
    a_node_is_replaced(1);
}

static const struct test tests[] = {
    {"k5_format_3_wins", k5_format_3_wins},
    {"what_is_no_node", what_is_no_node},
    {"children_are_nodes_only", children_are_nodes_only},
    {"v2_11_children_without_a_list", v2_11_children_without_a_list},
    {"m20_a_write_takes_stale_metadata_away", m20_a_write_takes_stale_metadata_away},
    {"v2_9_ancestors_are_made", v2_9_ancestors_are_made},
    {"groups_that_are_refused", groups_that_are_refused},
    {"attributes_of_format_3", attributes_of_format_3},
    {"attributes_of_format_2", attributes_of_format_2},
    {"every_allocation_may_fail", every_allocation_may_fail},
    {"every_store_call_may_fail", every_store_call_may_fail},
    {"a_node_is_replaced_in_memory", a_node_is_replaced_in_memory},
    {"a_node_is_replaced_in_a_directory", a_node_is_replaced_in_a_directory},
};

TEST_MAIN(tests)
