#include "check.h"
#include "contract/stores.h"
#include "store/url.h"

static const struct {
    const char *text;
    tg_status want;
    const char *scheme, *path;
    bool zip;
    const char *inner; /* of a failure: what its message says */
} rows[] = {
    {"data/x.zarr", TG_OK, "file", "data/x.zarr", false, ""},
    {"/d/100%23.zarr", TG_OK, "file", "/d/100%23.zarr", false, ""},
    {"a b#c?d", TG_OK, "file", "a b#c?d", false, ""},
    {"c:/x", TG_OK, "file", "c:/x", false, ""},
    {"file:///d/x.zarr", TG_OK, "file", "/d/x.zarr", false, ""},
    {"FILE://LocalHost/d/a%20b%25", TG_OK, "file", "/d/a b%", false, ""},
    {"x.zip|zip:inner/path", TG_OK, "file", "x.zip", true, "inner/path"},
    {"x.zip|ZIP:/inner//path/", TG_OK, "file", "x.zip", true, "inner/path"},
    {"x.zip|zip", TG_OK, "file", "x.zip", true, ""},
    {"x.zip|zip:", TG_OK, "file", "x.zip", true, ""},
    {"x.ozx|zip:img.zarr/|zarr3:0", TG_OK, "file", "x.ozx", true, "img.zarr/0"},
    {"x|zarr:a%7Cb|zarr2:c", TG_OK, "file", "x", false, "a|b/c"},
    {"memory://", TG_OK, "memory", "", false, ""},
    {"memory://a%20b", TG_OK, "memory", "a b", false, ""},
    {"s3://b/k%20", TG_OK, "s3", "b/k%20", false, ""},
    {"s3+https://h/b/k|zip:z", TG_OK, "s3+https", "h/b/k", true, "z"},
    {"", TG_INVALID, NULL, NULL, false, "empty path"},
    {"|zip:", TG_INVALID, NULL, NULL, false, "empty path"},
    {"x||zip:", TG_INVALID, NULL, NULL, false, "nothing between"},
    {"x|", TG_INVALID, NULL, NULL, false, "nothing between"},
    {"x|zip/inner", TG_INVALID, NULL, NULL, false, "|adapter:path"},
    {"x|:a", TG_INVALID, NULL, NULL, false, "|adapter:path"},
    {"x|n5:a", TG_UNSUPPORTED, NULL, NULL, false, "'n5'"},
    {"x|zip:a|zip:b", TG_UNSUPPORTED, NULL, NULL, false, "inside"},
    {"x|zarr3:a|zip:b", TG_UNSUPPORTED, NULL, NULL, false, "inside"},
    {"x|zip:..", TG_INVALID, NULL, NULL, false, "nowhere"},
    {"x|zip:a/%2e%2E/b", TG_INVALID, NULL, NULL, false, "nowhere"},
    {"x|zip:a/./b", TG_INVALID, NULL, NULL, false, "nowhere"},
    {"x|zip:a%5Cb", TG_INVALID, NULL, NULL, false, "nowhere"},
    {"x|zip:a%2Fb", TG_INVALID, NULL, NULL, false, "2F"},
    {"x|zip:a%00b", TG_INVALID, NULL, NULL, false, "00"},
    {"x|zip:a%4", TG_INVALID, NULL, NULL, false, "hexadecimal"},
    {"x|zip:a%", TG_INVALID, NULL, NULL, false, "hexadecimal"},
    {"x|zip:a%g0", TG_INVALID, NULL, NULL, false, "hexadecimal"},
    {"x|zip:a#b", TG_INVALID, NULL, NULL, false, "'#' part"},
    {"file:///a?b", TG_INVALID, NULL, NULL, false, "'?' part"},
    {"file://host/a", TG_INVALID, NULL, NULL, false, "this host"},
    {"file://", TG_INVALID, NULL, NULL, false, "no path"},
};

static void every_row(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_url) u = {0};
        tg_error err = {0};
        test_row = rows[i].text;
        tg_status st = tg_url_parse(&u, rows[i].text, &err);
        CHECK_STATUS(st, rows[i].want);
        if (st != TG_OK) {
            CHECK(strstr(err.msg, rows[i].inner) != NULL);
            CHECK(u.scheme == NULL && u.path == NULL && u.inner == NULL);
        } else if (rows[i].scheme != NULL) {
            CHECK(strcmp(u.scheme, rows[i].scheme) == 0);
            CHECK(strcmp(u.path, rows[i].path) == 0);
            CHECK(u.zip == rows[i].zip);
            CHECK(strcmp(u.inner, rows[i].inner) == 0);
        }
    }
}

static tg_status parse_one(void)
{
    TG_AUTO(tg_url) u = {0};
    return tg_url_parse(&u, "file:///d/x.zip|zip:a/b|zarr3:c", NULL);
}

static void every_allocation_fails(void)
{
    CHECK_EVERY_ALLOC(parse_one());
}

/* --- What is then opened ---------------------------------------------------- */

static tg_status open_in(const char *dir, const char *url, tg_store_mode mode, tg_store **s,
                         char **prefix, tg_error *err)
{
    char text[TEST_PATH + 256];
    tg_store_options o = {sizeof o, mode, false, false};
    (void)snprintf(text, sizeof text, "%s%s%s", dir, dir[0] == '\0' ? "" : "/", url);
    return tg_store_open(text, &o, s, prefix, err);
}

static void opens_what_is_named(void)
{
    static const struct {
        const char *url;
        bool below; /* the test's folder */
        tg_store_mode mode;
        tg_status want;
        const char *says; /* describe, or the message */
    } opens[] = {
        {"d.zarr", true, TG_STORE_READ, TG_NOT_FOUND, "d.zarr"},
        {"d.zarr", true, TG_STORE_CREATE, TG_OK, "directory '"},
        {"d.zarr", true, TG_STORE_CREATE, TG_EXISTS, "d.zarr"},
        {"d.zarr", true, TG_STORE_OPEN_OR_CREATE, TG_OK, "directory '"},
        {"d.zarr|zarr3:a", true, TG_STORE_READ, TG_OK, "directory '"},
        {"d.zarr|zip:", true, TG_STORE_READ, TG_INVALID, "not a file"},
        {"none/d.zarr", true, TG_STORE_CREATE, TG_NOT_FOUND, "none/d.zarr"},
        {"x.zip", true, TG_STORE_READ, TG_NOT_FOUND, "x.zip"},
        {"x.zip", true, TG_STORE_CREATE, TG_OK, "ZIP '"},
        {"x.zip", true, TG_STORE_CREATE, TG_EXISTS, "x.zip"},
        {"x.zip|zip:a/b", true, TG_STORE_READ, TG_OK, "ZIP '"},
        {"X.OZX", true, TG_STORE_CREATE, TG_OK, "ZIP '"},
        {"plain|zip:", true, TG_STORE_CREATE, TG_OK, "ZIP '"},
        {"plain", true, TG_STORE_READ, TG_INVALID, "|zip:"},
        {"memory://m", false, TG_STORE_CREATE, TG_OK, "memory 'm'"},
        {"memory://m", false, TG_STORE_READ, TG_NOT_FOUND, "memory://m"},
        {"memory://m|zip:", false, TG_STORE_CREATE, TG_UNSUPPORTED, "ZIP"},
        {"s3://bucket/key", false, TG_STORE_READ, TG_UNSUPPORTED, "not built in"},
        {"https://h/x.zarr", false, TG_STORE_CREATE, TG_UNSUPPORTED, "https"},
        {"http://h/x.zarr?a=b", false, TG_STORE_READ, TG_INVALID, "'?'"},
        {"http:///x.zarr", false, TG_STORE_READ, TG_INVALID, "host"},
        {"http://u:secret@/x.zarr", false, TG_STORE_READ, TG_INVALID, "host"},
        {"ftp://h/x.zarr", false, TG_STORE_READ, TG_UNSUPPORTED, "'ftp'"},
    };
    char folder[TEST_PATH];

    test_folder(folder);
    for (size_t i = 0; i < sizeof opens / sizeof opens[0]; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO(tg_str) prefix = NULL;
        tg_error err = {0};
        test_row = opens[i].url;
        CHECK_STATUS(open_in(opens[i].below ? folder : "", opens[i].url, opens[i].mode, &s,
                             &prefix, &err),
                     opens[i].want);
        CHECK(strstr(s != NULL ? tg_store_describe(s) : err.msg, opens[i].says) != NULL);
        CHECK(s != NULL || err.key[0] != '\0');
        if (s != NULL && strstr(opens[i].url, "|zip:a/b") != NULL)
            CHECK(strcmp(prefix, "a/b") == 0);
        if (s != NULL)
            CHECK_STATUS(tg_store_close(s, NULL), TG_OK);
    }
    test_row = "no place for the prefix";
    TG_AUTO_PTR(tg_store) s = NULL;
    CHECK_STATUS(open_in(folder, "d.zarr|zarr:a", TG_STORE_READ, &s, NULL, NULL), TG_INVALID);
    test_remove(AT_FDCWD, folder);
}

static const struct test tests[] = {
    {"every_row", every_row},
    {"every_allocation_fails", every_allocation_fails},
    {"opens_what_is_named", opens_what_is_named},
};

TEST_MAIN(tests)
