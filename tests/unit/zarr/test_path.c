#include "check.h"
#include "zarr/path.h"
#include "zarr/zarr.h"

static void p1_normalise(void)
{
    static const struct {
        const char *name, *path, *want; /* NULL: TG_INVALID */
    } rows[] = {
        {"root", "", ""},
        {"slashes", "//a///b//", "a/b"},
        {"backslash", "a\\b", "a/b"},
        {"W19 dot dot", "a/../b", NULL},
        {"W19 leading dot dot", "../x", NULL},
        {"W19 by backslash", "..\\x", NULL},
        {"dot", "./a", NULL},
        {"absolute is below", "/etc/x", "etc/x"},
        {"control", "a\nb", NULL},
        {"three dots pass here", "...", "..."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char dst[64];
        test_row = rows[i].name;
        CHECK_STATUS(tg_path_normalise(dst, sizeof dst, rows[i].path, NULL),
                     rows[i].want == NULL ? TG_INVALID : TG_OK);
        if (rows[i].want != NULL)
            CHECK(strcmp(dst, rows[i].want) == 0);
    }
}

static void a_path_that_is_too_long(void)
{
    char dst[8];
    CHECK_STATUS(tg_path_normalise(dst, sizeof dst, "1234567", NULL), TG_OK);
    CHECK_STATUS(tg_path_normalise(dst, sizeof dst, "12345678", NULL), TG_INVALID);
    CHECK_STATUS(tg_path_join(dst, sizeof dst, "123", "456", NULL), TG_OK);
    CHECK(strcmp(dst, "123/456") == 0);
    CHECK_STATUS(tg_path_join(dst, sizeof dst, "123", "4567", NULL), TG_INVALID);
}

static void join(void)
{
    static const struct {
        const char *name, *path, *child, *want;
    } rows[] = {
        {"root", "", "zarr.json", "zarr.json"}, {"below", "a/b", "c/0/1", "a/b/c/0/1"},
        {"W19 child", "a", "../x", NULL},       {"W19 deep", "a", "b/../../x", NULL},
        {"absolute child", "a", "/x", NULL},    {"empty child", "a", "", NULL},
        {"trailing slash", "a", "b/", NULL},    {"bad path", "a//b", "c", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char dst[64] = "";
        test_row = rows[i].name;
        CHECK_STATUS(tg_path_join(dst, sizeof dst, rows[i].path, rows[i].child, NULL),
                     rows[i].want == NULL ? TG_INVALID : TG_OK);
        if (rows[i].want != NULL)
            CHECK(strcmp(dst, rows[i].want) == 0);
    }
}

static void p2_names_of_nodes(void)
{
    static const struct {
        const char *name;
        bool ok;
    } rows[] = {
        {"a", true},        {"0", true},        {".hidden", true},  {"a..b", true},
        {"\xc3\xa9", true}, {"", false},        {".", false},       {"..", false},
        {"...", false},     {"__x", false},     {"_x", true},       {"zarr.json", false},
        {".zarray", false}, {".zgroup", false}, {".zattrs", false}, {"a/b", false},
        {"a\\b", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_row = rows[i].name;
        CHECK(tg_node_name_ok(rows[i].name) == rows[i].ok);
        if (strchr(rows[i].name, '/') == NULL && rows[i].name[0] != '\0')
            CHECK((tg_node_path_check(rows[i].name, NULL) == TG_OK) == rows[i].ok);
    }
    test_row = "";
    CHECK_STATUS(tg_node_path_check("a/__b/c", NULL), TG_INVALID);
    CHECK_STATUS(tg_node_path_check("a/b", NULL), TG_OK);
}

static const struct test tests[] = {
    {"p1_normalise", p1_normalise},
    {"a_path_that_is_too_long", a_path_that_is_too_long},
    {"join", join},
    {"p2_names_of_nodes", p2_names_of_nodes},
};

TEST_MAIN(tests)
