#include "check.h"
#include "docs.h"

struct row {
    const char *name, *key, *text;
    tg_status want;
    const char *words;
};

static const struct row rows[] = {
    {"plain", "zarr_format", "2", TG_OK, NULL},
    {"M28 zarr_format 2.0", "zarr_format", "2.0", TG_CORRUPT, "zarr_format"},
    {"zarr_format 3", "zarr_format", "3", TG_CORRUPT, "not 2"},
    {"shape missing", "shape", NULL, TG_CORRUPT, "'shape'"},
    {"chunks missing", "chunks", NULL, TG_CORRUPT, "'chunks'"},
    {"chunks of other length", "chunks", "[2,2]", TG_CORRUPT, "'chunks'"},
    {"V2-8 chunk 0", "chunks", "[0]", TG_CORRUPT, "extent 0 is 0"},
    {"dtype missing", "dtype", NULL, TG_CORRUPT, "'dtype'"},
    {"dtype without order", "dtype", "\"|i2\"", TG_CORRUPT, "byte order"},
    {"dtype native order", "dtype", "\"=i2\"", TG_CORRUPT, "byte order"},
    {"V2-2 dtype =i1", "dtype", "\"=i1\"", TG_OK, NULL},
    {"V2-2 dtype >i1", "dtype", "\">i1\"", TG_OK, NULL},
    {"dtype longdouble", "dtype", "\"<f16\"", TG_UNSUPPORTED, "<f16"},
    {"dtype datetime", "dtype", "\"<M8[ns]\"", TG_UNSUPPORTED, "<M8"},
    {"dtype U", "dtype", "\"<U4\"", TG_UNSUPPORTED, "<U4"},
    {"dtype structured", "dtype", "[[\"a\",\"<i2\"]]", TG_UNSUPPORTED, "structured"},
    {"dtype object without codec", "dtype", "\"|O\"", TG_UNSUPPORTED, "vlen-utf8"},
    {"dtype nonsense", "dtype", "\"x\"", TG_CORRUPT, "dtype 'x'"},
    {"V2-2 fill missing", "fill_value", NULL, TG_OK, NULL},
    {"M1 fill null", "fill_value", "null", TG_OK, NULL},
    {"M4 fill 0.0", "fill_value", "0.0", TG_OK, NULL},
    {"M4 fill \"0\"", "fill_value", "\"0\"", TG_OK, NULL},
    {"fill too large", "fill_value", "40000", TG_CORRUPT, "int16"},
    {"V2-2 order missing", "order", NULL, TG_OK, NULL},
    {"order F", "order", "\"F\"", TG_OK, NULL},
    {"order A", "order", "\"A\"", TG_CORRUPT, "'order'"},
    {"V2-2 filters missing", "filters", NULL, TG_OK, NULL},
    {"M22 filters []", "filters", "[]", TG_OK, NULL},
    {"filters object", "filters", "{}", TG_CORRUPT, "filters"},
    {"filter unknown", "filters", "[{\"id\":\"categorize\"}]", TG_UNSUPPORTED, "categorize"},
    {"M23 compressor raw", "compressor", "{\"type\":\"raw\"}", TG_OK, NULL},
    {"compressor missing", "compressor", NULL, TG_OK, NULL},
    {"C20 compressor unknown", "compressor", "{\"id\":\"zfpy\"}", TG_UNSUPPORTED, "zfpy"},
    {"M23 blosc with nthreads", "compressor",
     "{\"id\":\"blosc\",\"cname\":\"lz4\",\"clevel\":5,\"shuffle\":1,\"nthreads\":4}", TG_OK,
     NULL},
    {"separator /", "dimension_separator", "\"/\"", TG_OK, NULL},
    {"separator -", "dimension_separator", "\"-\"", TG_CORRUPT, "dimension_separator"},
    {"separator null", "dimension_separator", "null", TG_OK, NULL},
    {"unknown member", "extra", "1", TG_OK, NULL},
};

static void v2_2_what_is_tolerated(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct member change[] = {{rows[i].key, rows[i].text}, {NULL, NULL}};
        TG_AUTO_PTR(tg_array_meta) m = NULL;
        tg_error err = {0};
        test_row = rows[i].name;
        CHECK_STATUS(docs_parse_v2(&m, change, NULL, &err), rows[i].want);
        if (rows[i].want != TG_OK)
            CHECK_STATUS(err.code, rows[i].want);
        if (rows[i].words != NULL && strstr(err.msg, rows[i].words) == NULL)
            test_failed(__FILE__, __LINE__, err.msg);
    }
}

static void m1_a_null_fill_reads_as_zero(void)
{
    const struct member change[] = {{"fill_value", "null"}, {NULL, NULL}};
    TG_AUTO_PTR(tg_array_meta) m = NULL;

    REQUIRE_OK(docs_parse_v2(&m, change, NULL, NULL));
    CHECK(!tg_array_meta_info(m)->has_fill);
    CHECK(memcmp(tg_array_meta_info(m)->fill, "\0\0", 2) == 0);
}

static void v2_8_a_chunk_of_0_where_the_array_is_empty(void)
{
    const struct member changes[] = {{"shape", "[3,0]"}, {"chunks", "[3,0]"}, {NULL, NULL}};
    TG_AUTO_PTR(tg_array_meta) m = NULL;

    REQUIRE_OK(docs_parse_v2(&m, changes, NULL, NULL));
    CHECK_U64(tg_array_meta_info(m)->chunk[1], 1);
}

static void strings_with_every_fill(void)
{
    static const struct {
        const char *name, *fill, *want;
    } fills[] = {
        {"V2-15 0", "0", ""},
        {"V2-15 \"\"", "\"\"", ""},
        {"text", "\"x\"", "x"},
        {"null", "null", ""},
    };
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
        const struct member changes[] = {{"dtype", "\"|O\""},
                                         {"filters", "[{\"id\":\"vlen-utf8\"}]"},
                                         {"fill_value", fills[i].fill},
                                         {NULL, NULL}};
        TG_AUTO_PTR(tg_array_meta) m = NULL;
        size_t len = 9;
        test_row = fills[i].name;
        REQUIRE_OK(docs_parse_v2(&m, changes, NULL, NULL));
        CHECK(tg_array_meta_info(m)->dtype.kind == TG_DT_STRING);
        CHECK(strcmp(tg_array_meta_fill_text(m, &len), fills[i].want) == 0);
        CHECK_U64(len, strlen(fills[i].want));
    }
}

static void attributes_are_an_object_with_any_json(void)
{
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    double v = 0;

    REQUIRE_OK(docs_parse_v2(&m, NULL, "{\"a\":-Infinity,\"b\":{}}", NULL));
    REQUIRE_OK(tg_json_double(tg_json_get(tg_array_meta_attributes(m), "a"), &v, NULL));
    CHECK(v < -1e300);
    TG_AUTO_PTR(tg_array_meta) bad = NULL;
    tg_error err = {0};
    CHECK_STATUS(docs_parse_v2(&bad, NULL, "[]", &err), TG_CORRUPT);
    CHECK(strstr(err.msg, ".zattrs") != NULL);
    TG_AUTO_PTR(tg_array_meta) none = NULL;
    REQUIRE_OK(docs_parse_v2(&none, NULL, NULL, NULL));
    CHECK_U64(tg_json_size(tg_array_meta_attributes(none)), 0);
    CHECK(tg_json_kind_of(tg_array_meta_attributes(none)) == TG_JSON_OBJECT);
}

static char *doc;
static tg_status parse_whole(void)
{
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    return tg_array_meta_parse_v2(&m, doc, strlen(doc), "{\"a\":1}", 7, NULL);
}

static void every_allocation_may_fail(void)
{
    doc = docs_make_v2(NULL);
    CHECK_EVERY_ALLOC(parse_whole());
    tg_free(doc);
}

static const struct test tests[] = {
    {"v2_2_what_is_tolerated", v2_2_what_is_tolerated},
    {"m1_a_null_fill_reads_as_zero", m1_a_null_fill_reads_as_zero},
    {"v2_8_a_chunk_of_0_where_the_array_is_empty", v2_8_a_chunk_of_0_where_the_array_is_empty},
    {"strings_with_every_fill", strings_with_every_fill},
    {"attributes_are_an_object_with_any_json", attributes_are_an_object_with_any_json},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
