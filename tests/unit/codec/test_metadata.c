/* Codecs as metadata and as people write them. Reading is lenient where a meaning is
 * certain, writing is strict: the right column is what is written back. */
#include "make.h"

static const tg_dtype u8 = {TG_DT_UINT, 1}, u16 = {TG_DT_UINT, 2}, str = {TG_DT_STRING, 0},
                      c16 = {TG_DT_COMPLEX, 16}, r24 = {TG_DT_RAW, 3};
static const tg_shape plane = {2, {4, 6}};

static tg_json *parse(const char *text)
{
    tg_json *json = NULL;
    tg_error err = {0};

    if (tg_json_parse(&json, text, strlen(text), (tg_json_options){0}, &err) != TG_OK)
        test_failed(__FILE__, __LINE__, err.msg);
    return json;
}

static bool is_text(const tg_json *json, const char *want)
{
    TG_AUTO_PTR(tg_json) wanted = parse(want);
    TG_AUTO(tg_str) got = NULL;
    char m[600];

    if (tg_json_equal(json, wanted))
        return true;
    (void)!tg_json_write(json, false, (tg_json_options){0}, &got, NULL);
    (void)snprintf(m, sizeof m, "got %s, want %s", got, want);
    test_failed(__FILE__, __LINE__, m);
    return false;
}

#define BYTES           "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}"
#define C(name, config) "{\"name\":\"" name "\",\"configuration\":{" config "}}"
#define BLOSC(more)                                                                     \
    C("blosc", "\"cname\":\"lz4\",\"clevel\":5,\"shuffle\":\"shuffle\",\"typesize\":2," \
               "\"blocksize\":0" more)

static void v3(void)
{
    static const struct {
        const char *name;
        const tg_dtype *dtype;
        const char *read;
        tg_status status;
        const char *written; /* or a word of the message */
    } rows[] = {
        {"bytes", &u16, "[" BYTES "]", TG_OK, "[" BYTES "]"},
        {"bytes, one byte", &u8, "[{\"name\":\"bytes\"}]", TG_OK, "[{\"name\":\"bytes\"}]"},
        {"endian for one byte", &u8, "[" BYTES "]", TG_OK, "[{\"name\":\"bytes\"}]"},
        {"no endian is little", &u16, "[{\"name\":\"bytes\"}]", TG_OK, "[" BYTES "]"},
        {"name only", &u16, "[\"bytes\"]", TG_OK, "[" BYTES "]"},
        {"big complex", &c16, "[" C("bytes", "\"endian\":\"big\"") "]", TG_OK,
         "[" C("bytes", "\"endian\":\"big\"") "]"},
        {"raw", &r24, "[\"bytes\"]", TG_OK, "[{\"name\":\"bytes\"}]"},
        {"must_understand", &u16, "[{\"name\":\"bytes\",\"must_understand\":true}]", TG_OK,
         "[" BYTES "]"},
        {"null configuration", &u16, "[{\"name\":\"bytes\",\"configuration\":null}]", TG_OK,
         "[" BYTES "]"},
        {"transpose", &u16, "[" C("transpose", "\"order\":[1,0]") "," BYTES "]", TG_OK,
         "[" C("transpose", "\"order\":[1,0]") "," BYTES "]"},
        {"identity", &u16, "[" C("transpose", "\"order\":[0,1]") "," BYTES "]", TG_OK,
         "[" BYTES "]"},
        {"crc32c", &u16, "[" BYTES ",\"crc32c\"]", TG_OK, "[" BYTES ",{\"name\":\"crc32c\"}]"},
        {"crc32c {}", &u16, "[" BYTES "," C("crc32c", "") "]", TG_OK,
         "[" BYTES ",{\"name\":\"crc32c\"}]"},
        {"zstd", &u16, "[" BYTES "," C("zstd", "\"level\":-5,\"checksum\":false") "]", TG_OK,
         "[" BYTES "," C("zstd", "\"level\":-5") "]"},
        {"zstd sum", &u16, "[" BYTES "," C("zstd", "\"level\":22,\"checksum\":true") "]", TG_OK,
         "[" BYTES "," C("zstd", "\"level\":22,\"checksum\":true") "]"},
        {"zstd, no level", &u16, "[" BYTES "," C("zstd", "") "]", TG_OK,
         "[" BYTES "," C("zstd", "\"level\":0") "]"},
        {"gzip", &u16, "[" BYTES "," C("gzip", "\"level\":0") "]", TG_OK,
         "[" BYTES "," C("gzip", "\"level\":0") "]"},
        {"blosc", &u16, "[" BYTES "," BLOSC("") "]", TG_OK, "[" BYTES "," BLOSC("") "]"},
        {"blosc, sizes missing", &u16,
         "[" BYTES "," C("blosc", "\"cname\":\"lz4\",\"clevel\":5,\"shuffle\":\"shuffle\"") "]",
         TG_OK, "[" BYTES "," BLOSC("") "]"},
        {"numcodecs.zlib", &u16, "[" BYTES "," C("numcodecs.zlib", "\"level\":1,\"x\":2") "]",
         TG_OK, "[" BYTES "," C("numcodecs.zlib", "\"level\":1") "]"},
        {"numcodecs.lz4", &u16, "[" BYTES "," C("numcodecs.lz4", "") "]", TG_OK,
         "[" BYTES "," C("numcodecs.lz4", "\"acceleration\":1") "]"},
        {"strings", &str, "[\"vlen-utf8\",\"crc32c\"]", TG_OK,
         "[" C("vlen-utf8", "") ",{\"name\":\"crc32c\"}]"},
        {"no list", &u16, "{}", TG_CORRUPT, "list"},
        {"empty", &u16, "[]", TG_CORRUPT, "array -> bytes"},
        {"only crc32c", &u16, "[\"crc32c\"]", TG_CORRUPT, "codecs[0]"},
        {"a number", &u16, "[7]", TG_CORRUPT, "integer"},
        {"no name", &u16, "[{\"configuration\":{}}]", TG_CORRUPT, "name"},
        {"configuration a list", &u16, "[{\"name\":\"bytes\",\"configuration\":[]}]",
         TG_CORRUPT, "configuration"},
        {"bytes twice", &u16, "[\"bytes\",\"bytes\"]", TG_CORRUPT, "codecs[1]"},
        {"transpose behind", &u16, "[\"bytes\"," C("transpose", "\"order\":[1,0]") "]",
         TG_CORRUPT, "transpose"},
        {"unknown codec", &u16, "[\"bytes\",\"zfp\"]", TG_UNSUPPORTED, "'zfp'"},
        {"sharding", &u16, "[\"sharding_indexed\"]", TG_UNSUPPORTED, "sharding_indexed"},
        {"unknown, to be skipped", &u16,
         "[\"bytes\",{\"name\":\"new\",\"must_understand\":false}]", TG_UNSUPPORTED, "'new'"},
        {"unknown member", &u16, "[{\"name\":\"bytes\",\"config\":{}}]", TG_UNSUPPORTED,
         "config"},
        {"unknown key", &u16, "[" BYTES "," C("zstd", "\"level\":1,\"window\":3") "]",
         TG_UNSUPPORTED, "window"},
        {"crc32c with a key", &u16, "[" BYTES "," C("crc32c", "\"location\":\"start\"") "]",
         TG_UNSUPPORTED, "location"},
        {"endian wrong", &u16, "[" C("bytes", "\"endian\":\"middle\"") "]", TG_CORRUPT,
         "middle"},
        {"order short", &u16, "[" C("transpose", "\"order\":[0]") ",\"bytes\"]", TG_CORRUPT,
         "order"},
        {"order double", &u16, "[" C("transpose", "\"order\":[0,0]") ",\"bytes\"]", TG_CORRUPT,
         "permutation"},
        {"order beyond", &u16, "[" C("transpose", "\"order\":[0,4294967297]") ",\"bytes\"]",
         TG_CORRUPT, "permutation"},
        {"order negative", &u16, "[" C("transpose", "\"order\":[0,-1]") ",\"bytes\"]",
         TG_CORRUPT, ""},
        {"no order", &u16, "[\"transpose\",\"bytes\"]", TG_CORRUPT, "order"},
        {"zstd level high", &u16, "[" BYTES "," C("zstd", "\"level\":23") "]", TG_CORRUPT,
         "22"},
        {"zstd level 1.5", &u16, "[" BYTES "," C("zstd", "\"level\":1.5") "]", TG_CORRUPT,
         "integer"},
        {"zstd sum 1", &u16, "[" BYTES "," C("zstd", "\"level\":1,\"checksum\":1") "]",
         TG_CORRUPT, "checksum"},
        {"gzip -1", &u16, "[" BYTES "," C("gzip", "\"level\":-1") "]", TG_CORRUPT, "level"},
        {"blosc name", &u16, "[" BYTES "," C("blosc", "\"cname\":\"lzo\"") "]", TG_CORRUPT,
         "lzo"},
        {"blosc -1 in v3", &u16, "[" BYTES "," C("blosc", "\"shuffle\":-1") "]", TG_CORRUPT,
         "shuffle"},
        {"blosc item 0", &u16, "[" BYTES "," C("blosc", "\"typesize\":0") "]", TG_CORRUPT,
         "typesize"},
        {"bytes of strings", &str, "[\"bytes\"]", TG_CORRUPT, "vlen-utf8"},
        {"strings of numbers", &u16, "[\"vlen-utf8\"]", TG_CORRUPT, "strings"},
        {"17 codecs", &u16,
         "[\"bytes\",\"crc32c\",\"crc32c\",\"crc32c\",\"crc32c\",\"crc32c\",\"crc32c\","
         "\"crc32c\",\"crc32c\",\"crc32c\",\"crc32c\",\"crc32c\",\"crc32c\",\"crc32c\","
         "\"crc32c\",\"crc32c\",\"crc32c\",\"crc32c\"]",
         TG_UNSUPPORTED, "16"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_json) json = parse(rows[i].read);
        TG_AUTO_PTR(tg_json) written = NULL;
        TG_AUTO_PTR(tg_chain) c = NULL;
        tg_error err = {0};
        test_row = rows[i].name;
        CHECK_STATUS(tg_chain_open_v3(&c, json, *rows[i].dtype, &plane, &err), rows[i].status);
        if (rows[i].status != TG_OK) {
            CHECK(c == NULL && strstr(err.msg, rows[i].written) != NULL);
            continue;
        }
        REQUIRE(c != NULL);
        REQUIRE_OK(tg_chain_write_v3(c, &written, NULL));
        CHECK(is_text(written, rows[i].written));
    }
}

#define VLEN "[{\"id\":\"vlen-utf8\"}]"

static void v2(void)
{
    static const struct {
        const char *name;
        const tg_dtype *dtype;
        char byte_order, order;
        const char *filters, *compressor;
        tg_status status;
        const char *written; /* compressor, or a word of the message */
    } rows[] = {
        {"none", &u16, '<', 'C', "null", "null", TG_OK, "null"},
        {"empty filters", &u16, '<', 'C', "[]", "null", TG_OK, "null"},
        {"raw", &u16, '<', 'C', "null", "{\"type\":\"raw\"}", TG_OK, "null"},
        {"one byte", &u8, '|', 'C', "null", "null", TG_OK, "null"},
        {"one byte, ordered", &u8, '>', 'F', "null", "null", TG_OK, "null"},
        {"zstd", &u16, '>', 'F', "null", "{\"id\":\"zstd\",\"level\":3,\"checksum\":false}",
         TG_OK, "{\"id\":\"zstd\",\"level\":3}"},
        {"gzip", &u16, '<', 'C', "null", "{\"id\":\"gzip\",\"level\":-1}", TG_OK,
         "{\"id\":\"gzip\",\"level\":-1}"},
        {"zlib", &u16, '<', 'C', "null", "{\"id\":\"zlib\"}", TG_OK,
         "{\"id\":\"zlib\",\"level\":1}"},
        {"lz4", &u16, '<', 'C', "null", "{\"id\":\"lz4\",\"acceleration\":7}", TG_OK,
         "{\"id\":\"lz4\",\"acceleration\":7}"},
        {"blosc", &u16, '<', 'C', "null",
         "{\"id\":\"blosc\",\"cname\":\"zlib\",\"clevel\":9,\"shuffle\":2,\"blocksize\":4096,"
         "\"typesize\":4,\"nthreads\":8}",
         TG_OK,
         "{\"id\":\"blosc\",\"cname\":\"zlib\",\"clevel\":9,\"shuffle\":2,\"blocksize\":4096}"},
        {"blosc -1", &u16, '<', 'C', "null", "{\"id\":\"blosc\",\"shuffle\":-1}", TG_OK,
         "{\"id\":\"blosc\",\"cname\":\"lz4\",\"clevel\":5,\"shuffle\":1,\"blocksize\":0}"},
        {"strings", &str, '|', 'F', VLEN, "{\"id\":\"zlib\",\"level\":1}", TG_OK,
         "{\"id\":\"zlib\",\"level\":1}"},
        {"no byte order", &u16, '|', 'C', "null", "null", TG_CORRUPT, "byte order"},
        {"order", &u16, '<', 'K', "null", "null", TG_CORRUPT, "'K'"},
        {"unknown", &u16, '<', 'C', "null", "{\"id\":\"bz2\",\"level\":1}", TG_UNSUPPORTED,
         "'bz2'"},
        {"no id", &u16, '<', 'C', "null", "{\"level\":1}", TG_CORRUPT, "id"},
        {"a word", &u16, '<', 'C', "null", "\"zstd\"", TG_CORRUPT, "string"},
        {"delta", &u16, '<', 'C', "[{\"id\":\"delta\",\"dtype\":\"<u2\"}]", "null",
         TG_UNSUPPORTED, "'delta'"},
        {"shuffle", &u16, '<', 'C', "[{\"id\":\"shuffle\",\"elementsize\":2}]", "null",
         TG_UNSUPPORTED, "'shuffle'"},
        {"pickle", &str, '|', 'C', "[{\"id\":\"pickle\",\"protocol\":5}]", "null",
         TG_UNSUPPORTED, "runs code"},
        {"objects of no kind", &str, '|', 'C', "null", "null", TG_UNSUPPORTED, "vlen-utf8"},
        {"strings of numbers", &u16, '<', 'C', VLEN, "null", TG_CORRUPT, "strings"},
        {"strings twice", &str, '|', 'C', "[{\"id\":\"vlen-utf8\"},{\"id\":\"vlen-utf8\"}]",
         "null", TG_UNSUPPORTED, "vlen-utf8"},
        {"filters an object", &u16, '<', 'C', "{}", "null", TG_CORRUPT, "filters"},
        {"level a word", &u16, '<', 'C', "null", "{\"id\":\"zstd\",\"level\":\"3\"}",
         TG_CORRUPT, "level"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_json) filters = parse(rows[i].filters);
        TG_AUTO_PTR(tg_json) compressor = parse(rows[i].compressor);
        TG_AUTO_PTR(tg_json) written_filters = NULL;
        TG_AUTO_PTR(tg_json) written = NULL;
        TG_AUTO_PTR(tg_chain) c = NULL;
        tg_error err = {0};
        test_row = rows[i].name;
        CHECK_STATUS(tg_chain_open_v2(&c, filters, compressor, rows[i].byte_order,
                                      rows[i].order, *rows[i].dtype, &plane, &err),
                     rows[i].status);
        if (rows[i].status != TG_OK) {
            CHECK(c == NULL && strstr(err.msg, rows[i].written) != NULL);
            continue;
        }
        REQUIRE(c != NULL);
        REQUIRE_OK(tg_chain_write_v2(c, &written_filters, &written, NULL));
        CHECK(is_text(written, rows[i].written));
        CHECK(is_text(written_filters, rows[i].dtype == &str ? VLEN : "null"));
    }
    /* Missing members are as null. */
    TG_AUTO_PTR(tg_chain) c = NULL;
    REQUIRE_OK(tg_chain_open_v2(&c, NULL, NULL, '<', 'C', u16, &plane, NULL));
    CHECK(tg_chain_is_raw(c));
}

static void typed(void)
{
    static const struct {
        const char *text;
        bool checksum;
        int format;
        const tg_dtype *dtype;
        const char *written; /* v3: codecs; v2: compressor; NULL: TG_INVALID */
    } rows[] = {
        {"none", false, 3, &u16, "[" BYTES "]"},
        {"none", true, 3, &u16, "[" BYTES ",{\"name\":\"crc32c\"}]"},
        {"none", true, 2, &u16, "null"},
        {"zstd", true, 3, &u16,
         "[" BYTES "," C("zstd", "\"level\":3") ",{\"name\":\"crc32c\"}]"},
        {"zstd:-7", false, 3, &u16, "[" BYTES "," C("zstd", "\"level\":-7") "]"},
        {"zstd:22", true, 2, &u16, "{\"id\":\"zstd\",\"level\":22,\"checksum\":true}"},
        {"gzip", false, 3, &u16, "[" BYTES "," C("gzip", "\"level\":6") "]"},
        {"gzip:9", true, 2, &u16, "{\"id\":\"gzip\",\"level\":9}"},
        {"zlib:1", false, 2, &u16, "{\"id\":\"zlib\",\"level\":1}"},
        {"lz4", false, 2, &u16, "{\"id\":\"lz4\",\"acceleration\":1}"},
        {"blosc:lz4:5:shuffle", false, 3, &u16, "[" BYTES "," BLOSC("") "]"},
        {"blosc:lz4", false, 3, &u16, "[" BYTES "," BLOSC("") "]"},
        {"blosc:zstd:1:noshuffle", false, 2, &u16,
         "{\"id\":\"blosc\",\"cname\":\"zstd\",\"clevel\":1,\"shuffle\":0,\"blocksize\":0}"},
        {"blosc:blosclz:9", false, 2, &u8,
         "{\"id\":\"blosc\",\"cname\":\"blosclz\",\"clevel\":9,\"shuffle\":2,\"blocksize\":0}"},
        {"zstd", false, 3, &str, "[" C("vlen-utf8", "") "," C("zstd", "\"level\":3") "]"},
        {"", false, 3, &u16, NULL},
        {"none:1", false, 3, &u16, NULL},
        {"zstd:", false, 3, &u16, NULL},
        {"zstd:23", false, 3, &u16, NULL},
        {"zstd:3x", false, 3, &u16, NULL},
        {"zstd:3:4", false, 3, &u16, NULL},
        {"ZSTD", false, 3, &u16, NULL},
        {"gzip:10", false, 3, &u16, NULL},
        {"gzip:-1", false, 3, &u16, NULL},
        {"zlib", false, 3, &u16, NULL},
        {"lz4", false, 3, &u16, NULL},
        {"blosc", false, 3, &u16, NULL},
        {"blosc:lzo", false, 3, &u16, NULL},
        {"blosc:lz4:10", false, 3, &u16, NULL},
        {"blosc:lz4:5:both", false, 3, &u16, NULL},
        {"blosc:lz4:5:shuffle:1", false, 3, &u16, NULL},
        {"zstd:99999999999999999999999999999999999", false, 3, &u16, NULL},
        {"crc32c", false, 3, &u16, NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_json) filters = NULL;
        TG_AUTO_PTR(tg_json) written = NULL;
        TG_AUTO_PTR(tg_chain) c = NULL;
        tg_error err = {0};
        test_row = rows[i].text;
        CHECK_STATUS(tg_chain_open_text(&c, rows[i].text, rows[i].checksum, rows[i].format,
                                        *rows[i].dtype, &plane, &err),
                     rows[i].written != NULL ? TG_OK : TG_INVALID);
        if (rows[i].written == NULL) {
            CHECK(c == NULL && strstr(err.msg, "want") != NULL);
            continue;
        }
        REQUIRE(c != NULL);
        if (rows[i].format == 3)
            REQUIRE_OK(tg_chain_write_v3(c, &written, NULL));
        else
            REQUIRE_OK(tg_chain_write_v2(c, &filters, &written, NULL));
        CHECK(is_text(written, rows[i].written));
    }
}

/* What v2 has no room for is refused, not lost. */
static void v2_has_one_compressor(void)
{
    static const char *const chains[] = {"[\"bytes\",\"crc32c\"]",
                                         "[\"bytes\",\"zstd\",\"gzip\"]"};

    for (size_t i = 0; i < 2; i++) {
        TG_AUTO_PTR(tg_json) json = parse(chains[i]);
        TG_AUTO_PTR(tg_json) filters = NULL;
        TG_AUTO_PTR(tg_json) compressor = NULL;
        TG_AUTO_PTR(tg_chain) c = NULL;
        REQUIRE_OK(tg_chain_open_v3(&c, json, u16, &plane, NULL));
        CHECK_STATUS(tg_chain_write_v2(c, &filters, &compressor, NULL), TG_UNSUPPORTED);
        CHECK(filters == NULL && compressor == NULL);
    }
}

static void libraries_are_named(void)
{
    char room[256];
    static const char *const names[] = {"zstd 1.", "libdeflate 1.", "blosc 1.", "lz4 1."};

    (void)tg_codec_libraries(room, sizeof room);
    for (size_t i = 0; i < 4; i++)
        CHECK(strstr(room, names[i]) != NULL);
}

static tg_status all_of_it(const tg_json *codecs, const tg_json *compressor)
{
    TG_AUTO_PTR(tg_chain) c = NULL;
    TG_AUTO_PTR(tg_json) written = NULL;
    TG_AUTO_PTR(tg_json) filters = NULL;
    TG_AUTO_PTR(tg_json) back = NULL;

    TG_TRY(tg_chain_open_v3(&c, codecs, u16, &plane, NULL));
    TG_TRY(tg_chain_write_v3(c, &written, NULL));
    tg_chain_free(tg_steal(c));
    TG_TRY(tg_chain_open_v2(&c, NULL, compressor, '<', 'F', u16, &plane, NULL));
    return tg_chain_write_v2(c, &filters, &back, NULL);
}

static void every_allocation(void)
{
    TG_AUTO_PTR(tg_json)
    v3_json = parse(
        "[" C("transpose", "\"order\":[1,0]") "," BYTES "," BLOSC("") ",\"zstd\",\"crc32c\"]");
    TG_AUTO_PTR(tg_json) v2_json = parse("{\"id\":\"zlib\"}");
    CHECK_EVERY_ALLOC(all_of_it(v3_json, v2_json));
}

static const struct test tests[] = {
    {"v3", v3},
    {"v2", v2},
    {"typed", typed},
    {"v2_has_one_compressor", v2_has_one_compressor},
    {"libraries_are_named", libraries_are_named},
    {"every_allocation", every_allocation},
};

TEST_MAIN(tests)
