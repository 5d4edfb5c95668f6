#include "check.h"
#include "docs.h"

static const uint64_t shape9[] = {9};

/* --- Rewriting what was read --------------------------------------------- */

struct row {
    const char *name;
    int format;
    struct member change;
    const char *has; /* in the document written, blanks left out */
    const char *has_not;
};

static const struct row rows[] = {
    {"shape changes", 3, {"shape", "[6]"}, "\"shape\":[9]", "[6]"},
    {"M17 unknown member stays",
     3,
     {"x", "{\"must_understand\":false,\"b\":[1,2.50]}"},
     "\"x\":{\"must_understand\":false,\"b\":[1,2.50]}",
     NULL},
    {"M26 NaN that was there", 3, {"attributes", "{\"a\":NaN}"}, "\"a\":NaN", NULL},
    {"exact integers",
     3,
     {"attributes", "{\"a\":18446744073709551615}"},
     "18446744073709551615",
     NULL},
    {"text of doubles", 3, {"attributes", "{\"a\":0.10}"}, "\"a\":0.10", NULL},
    {"key order",
     3,
     {"attributes", "{\"z\":1,\"a\":2,\"m\":3}"},
     "\"z\":1,\"a\":2,\"m\":3",
     NULL},
    {"fill stays", 3, {"fill_value", "-1"}, "\"fill_value\":-1", NULL},
    {"codec shorthand",
     3,
     {"codecs", "[\"bytes\"]"},
     "\"codecs\":[{\"name\":\"bytes\"}]",
     "[\"bytes\"]"},
    {"keys shorthand",
     3,
     {"chunk_key_encoding", "\"default\""},
     "{\"name\":\"default\"}",
     NULL},
    {"dimension_names null",
     3,
     {"dimension_names", "null"},
     "\"shape\":[9]",
     "dimension_names"},
    {"M22 filters []", 2, {"filters", "[]"}, "\"filters\":null", "[]"},
    {"V2-1 filters missing", 2, {"filters", NULL}, "\"filters\":null", NULL},
    {"V2-1 fill missing", 2, {"fill_value", NULL}, "\"fill_value\":null", NULL},
    {"V2-1 order missing", 2, {"order", NULL}, "\"order\":\"C\"", NULL},
    {"M23 compressor raw",
     2,
     {"compressor", "{\"type\":\"raw\"}"},
     "\"compressor\":null",
     "raw"},
    {"M14 separator stays",
     2,
     {"dimension_separator", "\"/\""},
     "\"dimension_separator\":\"/\"",
     NULL},
    {"no separator is none", 2, {"order", "\"C\""}, "\"shape\":[9]", "dimension_separator"},
    {"unknown member stays", 2, {"x", "1"}, "\"x\":1", NULL},
};

/* The text without blanks outside of strings. */
static void squeeze(char *text)
{
    size_t n = 0;
    bool quoted = false;
    for (const char *at = text; *at != '\0'; at++) {
        quoted ^= *at == '"' && (at == text || at[-1] != '\\');
        if (quoted || (*at != ' ' && *at != '\n'))
            text[n++] = *at;
    }
    text[n] = '\0';
}

static void rewriting_keeps_what_was_read(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        const struct member changes[] = {r->change, {NULL, NULL}};
        TG_AUTO_PTR(tg_array_meta) m = NULL;
        TG_AUTO_PTR(tg_array_meta) again = NULL;
        TG_AUTO(tg_str) text = NULL;
        TG_AUTO(tg_str) attrs = NULL;
        test_row = r->name;
        REQUIRE_OK(r->format == 3 ? docs_parse_v3(&m, changes, NULL)
                                  : docs_parse_v2(&m, changes, NULL, NULL));
        REQUIRE_OK(tg_array_meta_write(m, shape9, NULL, &text, &attrs, NULL));
        CHECK(attrs == NULL);
        REQUIRE_OK(r->format == 3
                       ? tg_array_meta_parse_v3(&again, text, strlen(text), NULL)
                       : tg_array_meta_parse_v2(&again, text, strlen(text), NULL, 0, NULL));
        CHECK_U64(tg_array_meta_info(again)->shape[0], 9);
        CHECK_U64(tg_array_meta_info(m)->shape[0], 6);
        squeeze(text);
        if (strstr(text, r->has) == NULL)
            test_failed(__FILE__, __LINE__, text);
        if (r->has_not != NULL && strstr(text, r->has_not) != NULL)
            test_failed(__FILE__, __LINE__, text);
    }
}

static void other_attributes(void)
{
    const char *texts[2] = {"{\"new\":1}", "{}"};
    for (int format = 2; format <= 3; format++)
        for (int i = 0; i < 2; i++) {
            TG_AUTO_PTR(tg_array_meta) m = NULL;
            TG_AUTO_PTR(tg_json) attributes = NULL;
            TG_AUTO(tg_str) text = NULL;
            TG_AUTO(tg_str) attrs = NULL;
            REQUIRE_OK(format == 3 ? docs_parse_v3(&m, NULL, NULL)
                                   : docs_parse_v2(&m, NULL, "{\"old\":1}", NULL));
            REQUIRE_OK(tg_json_parse(&attributes, texts[i], strlen(texts[i]),
                                     (tg_json_options){0}, NULL));
            REQUIRE_OK(tg_array_meta_write(m, shape9, attributes, &text, &attrs, NULL));
            const char *where = format == 3 ? text : attrs;
            CHECK((where != NULL && strstr(where, "new") != NULL) == (i == 0));
            CHECK((attrs != NULL) == (format == 2 && i == 0));
        }
}

static void m26_a_new_nan_is_refused_with_its_place(void)
{
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    TG_AUTO_PTR(tg_json) attributes = NULL;
    char *text = NULL, *attrs = NULL;
    tg_error err = {0};
    const char *json = "{\"a\":[1,NaN]}";

    REQUIRE_OK(docs_parse_v3(&m, NULL, NULL));
    REQUIRE_OK(tg_json_parse(&attributes, json, strlen(json), (tg_json_options){true}, NULL));
    CHECK_STATUS(tg_array_meta_write(m, shape9, attributes, &text, &attrs, &err), TG_INVALID);
    CHECK(text == NULL && attrs == NULL && err.msg[0] != '\0');
}

/* --- From options --------------------------------------------------------- */

static const uint64_t shape[] = {5, 6}, chunk[] = {2, 3}, shard[] = {4, 6}, odd[] = {3, 3},
                      zero[] = {0, 3}, huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
static const char *const names[] = {"y", NULL};

#define U16           \
    {                 \
        TG_DT_UINT, 2 \
    }
#define STRING          \
    {                   \
        TG_DT_STRING, 0 \
    }
#define NO_TYPE       \
    {                 \
        TG_DT_NONE, 0 \
    }
#define BASE(bytes, type, dims, extents) \
    .size = (bytes), .dtype = type, .ndim = (dims), .shape = (extents)
#define GOOD BASE(sizeof(tg_array_options), U16, 2, shape)

struct made {
    const char *name;
    tg_array_options options;
    tg_status want;
    const char *has; /* in the document */
};

static const struct made made[] = {
    {"v3", {GOOD, .chunk = chunk}, TG_OK, "\"data_type\":\"uint16\""},
    {"v3 whole chunk", {GOOD}, TG_OK, "\"chunk_shape\":[5,6]"},
    {"v3 crc32c by default", {GOOD, .chunk = chunk}, TG_OK, "crc32c"},
    {"v3 key /", {GOOD, .chunk = chunk}, TG_OK, "\"separator\":\"/\""},
    {"v3 key .", {GOOD, .separator = '.'}, TG_OK, "\"separator\":\".\""},
    {"v3 names", {GOOD, .dimension_names = names}, TG_OK, "\"dimension_names\":[\"y\",null]"},
    {"v3 attributes", {GOOD, .attributes = "{\"a\":1}"}, TG_OK, "\"attributes\":{\"a\":1}"},
    {"v3 shard", {GOOD, .chunk = chunk, .shard = shard}, TG_OK, "\"chunk_shape\":[4,6]"},
    {"v3 shard at the start",
     {GOOD, .chunk = chunk, .shard = shard, .index_at_start = true},
     TG_OK,
     "\"index_location\":\"start\""},
    {"v3 gzip", {GOOD, .codec = "gzip:6"}, TG_OK, "gzip"},
    {"v2", {GOOD, .format = 2, .chunk = chunk}, TG_OK, "\"dtype\":\"<u2\""},
    {"v2 key .", {GOOD, .format = 2, .separator = '.'}, TG_OK, "\"dimension_separator\":\".\""},
    {"v2 zstd",
     {GOOD, .format = 2, .codec = "zstd:3"},
     TG_OK,
     "\"compressor\":{\"id\":\"zstd\""},
    {"M31 zero length",
     {BASE(sizeof(tg_array_options), U16, 2, zero)},
     TG_OK,
     "\"shape\":[0,3]"},
    {"format 4", {GOOD, .format = 4}, TG_INVALID, NULL},
    {"no dtype", {BASE(sizeof(tg_array_options), NO_TYPE, 2, shape)}, TG_INVALID, NULL},
    {"no size", {BASE(0, U16, 2, shape)}, TG_INVALID, NULL},
    {"33 dimensions", {BASE(sizeof(tg_array_options), U16, 33, shape)}, TG_INVALID, NULL},
    {"chunk 0", {GOOD, .chunk = zero}, TG_INVALID, NULL},
    {"shard no multiple", {GOOD, .chunk = odd, .shard = shard}, TG_INVALID, NULL},
    {"size overflow", {GOOD, .chunk = huge}, TG_INVALID, NULL},
    {"separator -", {GOOD, .separator = '-'}, TG_INVALID, NULL},
    {"v2 shard", {GOOD, .format = 2, .chunk = chunk, .shard = shard}, TG_INVALID, NULL},
    {"v2 names", {GOOD, .format = 2, .dimension_names = names}, TG_INVALID, NULL},
    {"codec unknown", {GOOD, .codec = "zip"}, TG_INVALID, NULL},
    {"attributes no object", {GOOD, .attributes = "[]"}, TG_INVALID, NULL},
    {"attributes no JSON", {GOOD, .attributes = "{a:1}"}, TG_INVALID, NULL},
    {"M26 attributes NaN", {GOOD, .attributes = "{\"a\":NaN}"}, TG_INVALID, NULL},
};

static void options_make_documents(void)
{
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        TG_AUTO_PTR(tg_array_meta) m = NULL;
        TG_AUTO(tg_str) text = NULL;
        TG_AUTO(tg_str) attrs = NULL;
        tg_error err = {0};
        test_row = made[i].name;
        CHECK_STATUS(tg_array_meta_new(&m, &made[i].options, &err), made[i].want);
        if (made[i].want != TG_OK) {
            CHECK_STATUS(err.code, made[i].want);
            CHECK(m == NULL && err.msg[0] != '\0');
            continue;
        }
        REQUIRE(m != NULL);
        REQUIRE_OK(
            tg_array_meta_write(m, tg_array_meta_info(m)->shape, NULL, &text, &attrs, NULL));
        squeeze(text);
        if (strstr(text, made[i].has) == NULL)
            test_failed(__FILE__, __LINE__, text);
    }
}

static void every_type_with_its_fill_survives(void)
{
    static const char *const types[] = {"bool",      "int8",       "int16",   "int32",
                                        "int64",     "uint8",      "uint16",  "uint32",
                                        "uint64",    "float16",    "float32", "float64",
                                        "complex64", "complex128", "r24"};
    uint8_t fill[16];

    for (int format = 2; format <= 3; format++)
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            TG_AUTO_PTR(tg_array_meta) m = NULL;
            tg_array_options o = {GOOD, .format = format, .fill = fill};
            test_row = types[i];
            REQUIRE_OK(tg_dtype_parse(types[i], &o.dtype, NULL));
            for (int b = 0; b < 16; b++) /* no NaN: that has one form only in format 2 */
                fill[b] = o.dtype.kind == TG_DT_BOOL ? 1 : (uint8_t)(b + 1);
            REQUIRE_OK(tg_array_meta_new(&m, &o, NULL));
            CHECK(memcmp(tg_array_meta_info(m)->fill, fill, o.dtype.size) == 0);
            CHECK(tg_array_meta_info(m)->dtype.kind == o.dtype.kind);
            CHECK_U64(tg_array_meta_info(m)->dtype.size, o.dtype.size);
        }
}

static void strings_of_both_formats(void)
{
    for (int format = 2; format <= 3; format++) {
        TG_AUTO_PTR(tg_array_meta) m = NULL;
        TG_AUTO_PTR(tg_array_meta) again = NULL;
        TG_AUTO(tg_str) text = NULL;
        TG_AUTO(tg_str) attrs = NULL;
        const tg_array_options o = {BASE(sizeof(tg_array_options), STRING, 2, shape),
                                    .format = format, .fill = "f\xc3\xbcr"};
        REQUIRE_OK(tg_array_meta_new(&m, &o, NULL));
        REQUIRE_OK(tg_array_meta_write(m, shape, NULL, &text, &attrs, NULL));
        REQUIRE_OK(format == 3
                       ? tg_array_meta_parse_v3(&again, text, strlen(text), NULL)
                       : tg_array_meta_parse_v2(&again, text, strlen(text), NULL, 0, NULL));
        CHECK(strcmp(tg_array_meta_fill_text(again, NULL), "f\xc3\xbcr") == 0);
    }
}

static void groups(void)
{
    TG_AUTO_PTR(tg_json) attributes = NULL;
    TG_AUTO(tg_str) v3 = NULL;
    TG_AUTO(tg_str) v3_attrs = NULL;
    TG_AUTO(tg_str) v2 = NULL;
    TG_AUTO(tg_str) v2_attrs = NULL;

    REQUIRE_OK(tg_json_parse(&attributes, "{\"a\":1}", 7, (tg_json_options){0}, NULL));
    REQUIRE_OK(tg_group_documents(3, attributes, &v3, &v3_attrs, NULL));
    squeeze(v3);
    CHECK(strcmp(v3, "{\"zarr_format\":3,\"node_type\":\"group\",\"attributes\":{\"a\":1}}") ==
          0);
    CHECK(v3_attrs == NULL);
    REQUIRE_OK(tg_group_documents(2, attributes, &v2, &v2_attrs, NULL));
    squeeze(v2);
    CHECK(strcmp(v2, "{\"zarr_format\":2}") == 0); /* V2-9: exactly that */
    squeeze(v2_attrs);
    CHECK(strcmp(v2_attrs, "{\"a\":1}") == 0);
    CHECK_STATUS(tg_group_documents(4, NULL, &v2, &v2_attrs, NULL), TG_INVALID);
}

static tg_status make_and_write(int format)
{
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    TG_AUTO(tg_str) text = NULL;
    TG_AUTO(tg_str) attrs = NULL;
    tg_array_options o = {GOOD, .format = format, .chunk = chunk, .codec = "zstd:1",
                          .attributes = "{\"a\":1}"};

    if (format == 3) {
        o.shard = shard;
        o.dimension_names = names;
    }
    TG_TRY(tg_array_meta_new(&m, &o, NULL));
    return tg_array_meta_write(m, shape, NULL, &text, &attrs, NULL);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(make_and_write(2));
    CHECK_EVERY_ALLOC(make_and_write(3));
}

static const struct test tests[] = {
    {"rewriting_keeps_what_was_read", rewriting_keeps_what_was_read},
    {"other_attributes", other_attributes},
    {"m26_a_new_nan_is_refused_with_its_place", m26_a_new_nan_is_refused_with_its_place},
    {"options_make_documents", options_make_documents},
    {"every_type_with_its_fill_survives", every_type_with_its_fill_survives},
    {"strings_of_both_formats", strings_of_both_formats},
    {"groups", groups},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
