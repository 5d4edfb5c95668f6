#include "check.h"
#include "docs.h"

struct row {
    const char *name;
    const char *key, *text; /* one member changed; text NULL: removed */
    tg_status want;
    const char *words; /* part of the message */
};

#define SHARDED(inner, location, index) "[" SHARDING(inner, location, index) "]"
#define GRID6                           "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[6]}}"

static const struct row rows[] = {
    {"plain", "shape", "[6]", TG_OK, NULL},
    {"M28 zarr_format \"3\"", "zarr_format", "\"3\"", TG_CORRUPT, "zarr_format"},
    {"M28 zarr_format 3.0", "zarr_format", "3.0", TG_CORRUPT, "zarr_format"},
    {"M28 zarr_format true", "zarr_format", "true", TG_CORRUPT, "zarr_format"},
    {"zarr_format 2", "zarr_format", "2", TG_CORRUPT, "not 3"},
    {"node_type missing", "node_type", NULL, TG_CORRUPT, "node_type"},
    {"node_type group", "node_type", "\"group\"", TG_CORRUPT, "group"},
    {"shape missing", "shape", NULL, TG_CORRUPT, "'shape'"},
    {"shape [-1]", "shape", "[-1]", TG_CORRUPT, "'shape'"},
    {"shape [2.0]", "shape", "[2.0]", TG_CORRUPT, "'shape'"},
    {"shape of more dimensions than the chunk", "shape", "[6,6]", TG_CORRUPT, "chunk_grid"},
    {"shape 2^64", "shape", "[18446744073709551616]", TG_CORRUPT, NULL},
    {"shape 2^64-1", "shape", "[18446744073709551615]", TG_OK, NULL},
    {"M31 shape [0]", "shape", "[0]", TG_OK, NULL},
    {"W11 shape [10^15]", "shape", "[1000000000000000]", TG_OK, NULL},
    {"chunk_shape [0]", "chunk_grid",
     "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[0]}}", TG_CORRUPT, "extent 0"},
    {"W22 chunk larger than the shape", "chunk_grid",
     "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[100]}}", TG_OK, NULL},
    {"size overflow: chunk of 2^63 items", "chunk_grid",
     "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[9223372036854775808]}}",
     TG_CORRUPT, "do not fit"},
    {"grid rectilinear", "chunk_grid",
     "{\"name\":\"rectilinear\",\"configuration\":{\"kind\":\"inline\",\"chunk_shapes\":[[6]]}"
     "}",
     TG_UNSUPPORTED, "rectilinear"},
    {"grid without configuration", "chunk_grid", "{\"name\":\"regular\"}", TG_CORRUPT,
     "chunk_shape"},
    {"fill missing", "fill_value", NULL, TG_CORRUPT, "fill_value"},
    {"fill null", "fill_value", "null", TG_CORRUPT, "got null"},
    {"int fill 1.0", "fill_value", "1.0", TG_OK, NULL},
    {"M32 int fill 1.5", "fill_value", "1.5", TG_CORRUPT, "fraction"},
    {"M32 int fill too large", "fill_value", "32768", TG_CORRUPT, "does not fit int16"},
    {"int fill \"1\"", "fill_value", "\"1\"", TG_CORRUPT, "got string"},
    {"int fill true", "fill_value", "true", TG_CORRUPT, "got boolean"},
    {"codecs missing", "codecs", NULL, TG_CORRUPT, "codecs"},
    {"codecs []", "codecs", "[]", TG_CORRUPT, "codecs"},
    {"two array->bytes codecs", "codecs", "[" BYTES_LE "," BYTES_LE "]", TG_CORRUPT, "codecs"},
    {"crc32c before bytes", "codecs", "[" CRC32C "," BYTES_LE "]", TG_CORRUPT, "codecs"},
    {"codecs [\"bytes\"] shorthand, no endian", "codecs", "[\"bytes\"]", TG_OK, NULL},
    {"{\"name\":\"bytes\"} on int16", "codecs", "[{\"name\":\"bytes\"}]", TG_OK, NULL},
    {"unknown codec", "codecs", "[" BYTES_LE ",{\"name\":\"zfp\"}]", TG_UNSUPPORTED, "zfp"},
    {"unknown codec, must_understand false", "codecs",
     "[" BYTES_LE ",{\"name\":\"zfp\",\"must_understand\":false}]", TG_UNSUPPORTED, "zfp"},
    {"extra key 1", "extra", "1", TG_UNSUPPORTED, "'extra'"},
    {"M17 extra object", "extra", "{\"a\":1}", TG_UNSUPPORTED, "'extra'"},
    {"extra false", "extra", "false", TG_UNSUPPORTED, "'extra'"},
    {"extra must_understand true", "extra", "{\"must_understand\":true}", TG_UNSUPPORTED,
     "'extra'"},
    {"M17 extra must_understand false", "extra", "{\"must_understand\":false,\"b\":2}", TG_OK,
     NULL},
    {"keys \"default\" shorthand", "chunk_key_encoding", "\"default\"", TG_OK, NULL},
    {"M13 keys without configuration", "chunk_key_encoding", "{\"name\":\"default\"}", TG_OK,
     NULL},
    {"keys unknown", "chunk_key_encoding", "{\"name\":\"x\"}", TG_UNSUPPORTED, "'x'"},
    {"separator -", "chunk_key_encoding",
     "{\"name\":\"default\",\"configuration\":{\"separator\":\"-\"}}", TG_CORRUPT,
     "separator '-'"},
    {"dimension_names null", "dimension_names", "null", TG_OK, NULL},
    {"dimension_names too short", "dimension_names", "[]", TG_CORRUPT, "dimension_names"},
    {"dimension_names of a number", "dimension_names", "[1]", TG_CORRUPT, "dimension_names"},
    {"dimension_names [null]", "dimension_names", "[null]", TG_OK, NULL},
    {"M16 storage_transformers []", "storage_transformers", "[]", TG_OK, NULL},
    {"M16 storage_transformers not empty", "storage_transformers", "[{\"name\":\"x\"}]",
     TG_UNSUPPORTED, "storage_transformers"},
    {"data_type object", "data_type", "{\"name\":\"int16\"}", TG_OK, NULL},
    {"data_type short for people", "data_type", "\"i2\"", TG_UNSUPPORTED, "'i2'"},
    {"data_type unknown", "data_type", "\"int4\"", TG_UNSUPPORTED, "'int4'"},
    {"data_type with configuration", "data_type",
     "{\"name\":\"numpy.datetime64\",\"configuration\":{\"unit\":\"s\",\"scale_factor\":1}}",
     TG_UNSUPPORTED, "numpy.datetime64"},
    {"attributes []", "attributes", "[]", TG_CORRUPT, "attributes"},
    {"M26 attributes with NaN", "attributes", "{\"a\":NaN,\"b\":-Infinity}", TG_OK, NULL},
    {"M29 duplicate keys", "attributes", "{\"a\":1,\"a\":2}", TG_CORRUPT, NULL},
    {"M29 lone surrogate", "attributes", "{\"a\":\"\\ud800\"}", TG_CORRUPT, NULL},
    {"M29 NUL in a name", "attributes", "{\"a\\u0000b\":1}", TG_CORRUPT, NULL},
};

static void v3_2_validation_table(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct member change[] = {{rows[i].key, rows[i].text}, {NULL, NULL}};
        TG_AUTO_PTR(tg_array_meta) m = NULL;
        tg_error err = {0};
        test_row = rows[i].name;
        CHECK_STATUS(docs_parse_v3(&m, change, &err), rows[i].want);
        CHECK((m != NULL) == (rows[i].want == TG_OK));
        if (rows[i].want != TG_OK)
            CHECK_STATUS(err.code, rows[i].want);
        if (rows[i].words != NULL && strstr(err.msg, rows[i].words) == NULL)
            test_failed(__FILE__, __LINE__, err.msg);
    }
}

struct sharding_row {
    const char *name, *codecs;
    tg_status want;
    const char *words;
};

#define INDEX_CRC "[" BYTES_LE "," CRC32C "]"

/* clang-format off: version 14 crashes on this table */
static const struct sharding_row sharding_rows[] = {
    {"end", SHARDED("[2]", "end", INDEX_CRC), TG_OK, NULL},
    {"start", SHARDED("[2]", "start", INDEX_CRC), TG_OK, NULL},
    {"S1 index of bytes only", SHARDED("[2]", "end", "[" BYTES_LE "]"), TG_OK, NULL},
    {"index big-endian",
     SHARDED("[2]", "end", "[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"big\"}}]"),
     TG_OK, NULL},
    {"SH1 not a divisor", SHARDED("[4]", "end", INDEX_CRC), TG_CORRUPT, "multiple"},
    {"SH1 chunk_shape 0", SHARDED("[0]", "end", INDEX_CRC), TG_CORRUPT, "extent 0"},
    {"SH1 two dimensions", SHARDED("[2,2]", "end", INDEX_CRC), TG_CORRUPT, "2 extents"},
    {"SH2 gzip in the index",
     SHARDED("[2]", "end",
             "[" BYTES_LE ",{\"name\":\"gzip\",\"configuration\":{\"level\":1}}]"),
     TG_UNSUPPORTED, "gzip"},
    {"SH2 no index codec", SHARDED("[2]", "end", "[]"), TG_CORRUPT, "index_codecs"},
    {"location middle", SHARDED("[2]", "middle", INDEX_CRC), TG_CORRUPT, "middle"},
    {"SH11 nested",
     "[{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[2],"
     "\"codecs\":" SHARDED("[2]", "end", INDEX_CRC) ",\"index_codecs\":" INDEX_CRC "}}]",
     TG_UNSUPPORTED, "within shards"},
    {"two array->bytes", "[" SHARDING("[2]", "end", INDEX_CRC) "," BYTES_LE "]", TG_CORRUPT,
     "cannot follow"},
    {"SH12 codec behind", "[" SHARDING("[2]", "end", INDEX_CRC) "," CRC32C "]", TG_UNSUPPORTED,
     "behind"},
    {"unknown member",
     "[{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[2],\"codecs\":"
     "[" BYTES_LE "],\"index_codecs\":" INDEX_CRC ",\"x\":1}}]",
     TG_CORRUPT, "'x'"},
    {"inner codecs missing",
     "[{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[2]}}]", TG_CORRUPT,
     "'codecs'"},
    {"S11 transpose no permutation",
     "[{\"name\":\"transpose\",\"configuration\":{\"order\":[1]}}," SHARDING("[2]", "end",
                                                                             INDEX_CRC) "]",
     TG_CORRUPT, "permutation"},
};
/* clang-format on */

static void sharding_metadata(void)
{
    for (size_t i = 0; i < sizeof sharding_rows / sizeof sharding_rows[0]; i++) {
        const struct sharding_row *r = &sharding_rows[i];
        const struct member changes[] = {
            {"codecs", r->codecs}, {"chunk_grid", GRID6}, {NULL, NULL}};
        TG_AUTO_PTR(tg_array_meta) m = NULL;
        tg_error err = {0};
        test_row = r->name;
        CHECK_STATUS(docs_parse_v3(&m, changes, &err), r->want);
        if (r->words != NULL && strstr(err.msg, r->words) == NULL)
            test_failed(__FILE__, __LINE__, err.msg);
        if (m == NULL)
            continue;
        CHECK(tg_array_meta_info(m)->sharded);
        CHECK_U64(tg_array_meta_info(m)->shard[0], 6);
        CHECK_U64(tg_array_meta_info(m)->chunk[0], 2);
        CHECK_U64(tg_shard_chunks(m), 3);
    }
}

static void info_says_what_the_document_says(void)
{
    const struct member changes[] = {
        {"shape", "[5,7]"},
        {"chunk_grid", "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2,3]}}"},
        {"dimension_names", "[\"y\",null]"},
        {"attributes", "{\"k\":9007199254740993}"},
        {NULL, NULL}};
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    uint64_t big = 0;

    REQUIRE_OK(docs_parse_v3(&m, changes, NULL));
    const tg_array_info *info = tg_array_meta_info(m);
    CHECK_U64((uint64_t)info->format, 3);
    CHECK(info->dtype.kind == TG_DT_INT && info->dtype.size == 2);
    CHECK(info->ndim == 2 && info->shape[0] == 5 && info->shape[1] == 7);
    CHECK(info->chunk[0] == 2 && info->chunk[1] == 3 && info->shard[1] == 3 && !info->sharded);
    CHECK(info->has_fill && memcmp(info->fill, "\xff\xff", 2) == 0);
    CHECK(strcmp(info->dimension_name[0], "y") == 0 && info->dimension_name[1] == NULL);
    REQUIRE_OK(tg_json_u64(tg_json_get(tg_array_meta_attributes(m), "k"), &big, NULL));
    CHECK_U64(big, UINT64_C(9007199254740993));
}

static void keys_of_chunks(void)
{
    static const struct {
        const char *name, *encoding, *shape, *want;
    } keys[] = {
        {"default", "{\"name\":\"default\"}", "[6,6]", "c/10/3"},
        {"default, .", "{\"name\":\"default\",\"configuration\":{\"separator\":\".\"}}",
         "[6,6]", "c.10.3"},
        {"v2", "{\"name\":\"v2\"}", "[6,6]", "10.3"},
        {"v2, /", "{\"name\":\"v2\",\"configuration\":{\"separator\":\"/\"}}", "[6,6]", "10/3"},
        {"default 0-d", "{\"name\":\"default\"}", "[]", "c"},
        {"v2 0-d", "{\"name\":\"v2\"}", "[]", "0"},
    };
    const uint64_t at[] = {10, 3};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char grid[120], key[TG_CHUNK_KEY_BYTES];
        uint64_t back[2] = {0};
        const bool flat = strcmp(keys[i].shape, "[]") == 0;
        (void)snprintf(grid, sizeof grid,
                       "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":%s}}",
                       flat ? "[]" : "[1,1]");
        const struct member changes[] = {{"shape", keys[i].shape},
                                         {"chunk_grid", grid},
                                         {"chunk_key_encoding", keys[i].encoding},
                                         {NULL, NULL}};
        TG_AUTO_PTR(tg_array_meta) m = NULL;
        test_row = keys[i].name;
        REQUIRE_OK(docs_parse_v3(&m, changes, NULL));
        tg_chunk_key(m, at, key);
        CHECK(strcmp(key, keys[i].want) == 0);
        CHECK(tg_chunk_key_parse(m, key, back));
        CHECK(flat || (back[0] == 10 && back[1] == 3));
        CHECK(!tg_chunk_key_parse(m, "c/01/3", back) && !tg_chunk_key_parse(m, "", back));
        CHECK(!tg_chunk_key_parse(m, "zarr.json", back));
        CHECK(!tg_chunk_key_parse(m, "c/1/18446744073709551616", back));
    }
}

static void the_longest_key_fits(void)
{
    TG_AUTO(tg_text) ones = {0};
    TG_AUTO(tg_text) grid = {0};
    uint64_t at[TG_MAX_NDIM];
    char key[TG_CHUNK_KEY_BYTES];

    for (int i = 0; i < TG_MAX_NDIM; i++) {
        tg_text_addf(&ones, "%s1", i == 0 ? "[" : ",");
        at[i] = UINT64_MAX;
    }
    tg_text_add(&ones, "]");
    tg_text_addf(&grid, "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":%s}}",
                 ones.data);
    const struct member changes[] = {
        {"shape", ones.data}, {"chunk_grid", grid.data}, {NULL, NULL}};
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    REQUIRE_OK(docs_parse_v3(&m, changes, NULL));
    tg_chunk_key(m, at, key);
    CHECK_U64(strlen(key), 1 + TG_MAX_NDIM * 21);
}

static void m29_depth_is_refused(void)
{
    TG_AUTO(tg_text) deep = {0};
    TG_AUTO_PTR(tg_array_meta) m = NULL;

    for (int i = 0; i < 100000; i++)
        tg_text_add(&deep, "[");
    REQUIRE_OK(tg_text_status(&deep, NULL));
    CHECK_STATUS(tg_array_meta_parse_v3(&m, deep.data, deep.len, NULL), TG_CORRUPT);
    CHECK_STATUS(tg_array_meta_parse_v3(&m, "{}", TG_METADATA_LIMIT + 1, NULL), TG_CORRUPT);
}

static char *whole_doc;
static tg_status parse_whole(void)
{
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    return tg_array_meta_parse_v3(&m, whole_doc, strlen(whole_doc), NULL);
}

static void every_allocation_may_fail(void)
{
    const struct member changes[] = {{"codecs", SHARDED("[2]", "end", INDEX_CRC)},
                                     {"chunk_grid", GRID6},
                                     {"attributes", "{\"a\":NaN}"},
                                     {NULL, NULL}};
    whole_doc = docs_make_v3(changes);
    CHECK_EVERY_ALLOC(parse_whole());
    tg_free(whole_doc);
}

static const struct test tests[] = {
    {"v3_2_validation_table", v3_2_validation_table},
    {"sharding_metadata", sharding_metadata},
    {"info_says_what_the_document_says", info_says_what_the_document_says},
    {"keys_of_chunks", keys_of_chunks},
    {"the_longest_key_fits", the_longest_key_fits},
    {"m29_depth_is_refused", m29_depth_is_refused},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
