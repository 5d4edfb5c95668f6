/* Bytes that other implementations wrote (numcodecs 0.11, zarr-python), and the
 * cases of reports against them. */
#include "make.h"

/* int32 0..5, little-endian. */
static const char raw_hex[] = "000000000100000002000000030000000400000005000000";

static tg_chain *open_v2(const char *compressor, tg_dtype dtype, uint64_t n)
{
    TG_AUTO_PTR(tg_json) json = NULL;
    tg_chain *c = NULL;
    tg_error err = {0};

    if (tg_json_parse(&json, compressor, strlen(compressor), (tg_json_options){0}, &err) !=
            TG_OK ||
        tg_chain_open_v2(&c, NULL, json, dtype.size > 1 ? '<' : '|', 'C', dtype,
                         &(tg_shape){1, {n}}, &err) != TG_OK)
        test_failed(__FILE__, __LINE__, err.msg);
    return c;
}

static tg_chain *open_v3(const char *codecs, tg_dtype dtype, tg_shape shape)
{
    TG_AUTO_PTR(tg_json) json = NULL;
    tg_chain *c = NULL;
    tg_error err = {0};

    if (tg_json_parse(&json, codecs, strlen(codecs), (tg_json_options){0}, &err) != TG_OK ||
        tg_chain_open_v3(&c, json, dtype, &shape, &err) != TG_OK)
        test_failed(__FILE__, __LINE__, err.msg);
    return c;
}

static tg_status decode_chain(const tg_chain *c, tg_bytes src, uint8_t *dst, size_t n,
                              tg_error *err)
{
    TG_AUTO_PTR(tg_chain_context) ctx = NULL;
    TG_TRY(tg_chain_context_new(c, false, &ctx, err));
    return tg_chain_decode(c, ctx, src, dst, n, err);
}

static tg_status encode_chain(const tg_chain *c, tg_bytes items, uint8_t *dst, size_t cap,
                              size_t *n, tg_error *err)
{
    TG_AUTO_PTR(tg_chain_context) ctx = NULL;
    TG_TRY(tg_chain_context_new(c, true, &ctx, err));
    return tg_chain_encode(c, ctx, items, dst, cap, n, err);
}

static const tg_dtype u8 = {TG_DT_UINT, 1}, u16 = {TG_DT_UINT, 2}, i32 = {TG_DT_INT, 4},
                      f64 = {TG_DT_FLOAT, 8};

#define BLOSC_RAW "02013304180000001800000028000000"

static void numcodecs_bytes(void)
{
    static const struct {
        const char *name, *compressor, *bytes;
    } rows[] = {
        {"none", "null", ""},
        {"zlib", "{\"id\":\"zlib\",\"level\":1}",
         "780163606060600462262066066216206605620000a40010"},
        {"gzip", "{\"id\":\"gzip\",\"level\":1}",
         "1f8b08004f240e6b04ff6360606060046226206606621620660562003df80c8518000000"},
        {"lz4", "{\"id\":\"lz4\",\"acceleration\":1}",
         "18000000f009000000000100000002000000030000000400000005000000"},
        {"zstd", "{\"id\":\"zstd\",\"level\":1}",
         "28b52ffd2018c10000000000000100000002000000030000000400000005000000"},
        {"blosc", "{\"id\":\"blosc\",\"cname\":\"lz4\",\"clevel\":5,\"shuffle\":1}", BLOSC_RAW},
    };
    uint8_t raw[24], enc[80], got[24];
    tg_bytes want = hex(raw_hex, raw, sizeof raw);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_chain) c = open_v2(rows[i].compressor, i32, 6);
        tg_bytes src = hex(rows[i].bytes, enc, sizeof enc);
        test_row = rows[i].name;
        REQUIRE(c != NULL);
        if (i == 0 || strcmp(rows[i].bytes, BLOSC_RAW) == 0) {
            memcpy(enc + src.len, raw, sizeof raw);
            src.len += sizeof raw;
        }
        memset(got, 0xEE, sizeof got);
        CHECK_STATUS(decode_chain(c, src, got, sizeof got, NULL), TG_OK);
        CHECK(memcmp(got, want.data, sizeof got) == 0);
        CHECK_STATUS(decode_chain(c, (tg_bytes){src.data, src.len - 1}, got, sizeof got, NULL),
                     TG_CORRUPT);
    }
}

/* What must come out byte for byte. */
static void exact_bytes(void)
{
    uint8_t raw[24], want[64], got[64];
    size_t n = 0;
    tg_bytes items = hex(raw_hex, raw, sizeof raw);
    TG_AUTO_PTR(tg_chain)
    crc = open_v3("[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}},\"crc32c\"]",
                  i32, (tg_shape){1, {6}});
    TG_AUTO_PTR(tg_chain) lz4 = open_v2("{\"id\":\"lz4\"}", i32, 6);
    REQUIRE(crc != NULL && lz4 != NULL);

    REQUIRE_OK(encode_chain(crc, items, got, sizeof got, &n, NULL));
    CHECK_U64(n, 28);
    hex("000000000100000002000000030000000400000005000000 2813a486", want, sizeof want);
    CHECK(memcmp(got, want, 28) == 0);

    REQUIRE_OK(encode_chain(lz4, items, got, sizeof got, &n, NULL));
    CHECK_U64(n, 30);
    hex("18000000f009000000000100000002000000030000000400000005000000", want, sizeof want);
    CHECK(memcmp(got, want, 30) == 0);
}

static void transpose_201(void)
{
    static const char order[] =
        "[{\"name\":\"transpose\",\"configuration\":{\"order\":[2,0,1]}},\"bytes\"]";
    uint8_t items[24], got[24], back[24], want[24];
    size_t n = 0;
    TG_AUTO_PTR(tg_chain)
    c = open_v3(order, u8, (tg_shape){3, {2, 3, 4}});

    REQUIRE(c != NULL);
    for (size_t i = 0; i < 24; i++)
        items[i] = (uint8_t)i;
    hex("0004080c1014 0105090d1115 02060a0e1216 03070b0f1317", want, sizeof want);
    REQUIRE_OK(encode_chain(c, (tg_bytes){items, 24}, got, 24, &n, NULL));
    CHECK(n == 24 && memcmp(got, want, 24) == 0);
    REQUIRE_OK(decode_chain(c, (tg_bytes){got, 24}, back, 24, NULL));
    CHECK(memcmp(back, items, 24) == 0);
}

#define HELLO "48656c6c6f20576f726c6421"

/* C1, C2: frames without a size, several, skippable ones between. */
static void zstd_frames(void)
{
#define UNSIZED "28b52ffd0058610000" HELLO
    static const struct {
        const char *name, *bytes;
        uint64_t times; /* "Hello World!"; 0: corrupt */
    } rows[] = {
        {"no size", UNSIZED, 1},
        {"two", UNSIZED UNSIZED, 2},
        {"skippable between", UNSIZED "502a4d1803000000010203" UNSIZED, 2},
        {"skippable first and last", "5f2a4d1800000000" UNSIZED "502a4d180100000000", 1},
        {"second is missing", UNSIZED, 0},
        {"second is cut", UNSIZED "28b52ffd0058610000", 0},
        {"garbage behind", UNSIZED "00", 0},
        {"only a skippable one", "502a4d1800000000", 0},
        {"nothing", "", 0},
    };
    uint8_t enc[128], got[24];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t times = rows[i].times == 0 ? 2 : rows[i].times;
        TG_AUTO_PTR(tg_chain)
        c = open_v3("[\"bytes\",\"zstd\"]", u8, (tg_shape){1, {12 * times}});
        test_row = rows[i].name;
        REQUIRE(c != NULL);
        tg_status st =
            decode_chain(c, hex(rows[i].bytes, enc, sizeof enc), got, 12 * times, NULL);
        CHECK_STATUS(st, rows[i].times == 0 ? TG_CORRUPT : TG_OK);
        for (uint64_t k = 0; k < rows[i].times; k++)
            CHECK(memcmp(got + 12 * k, "Hello World!", 12) == 0);
    }
}

/* C13, C14: members are joined; the other format and stray bytes are refused. */
static void deflate_forms(void)
{
#define GZIP "1f8b08004f240e6b04ff6360606060046226206606621620660562003df80c8518000000"
#define ZLIB "780163606060600462262066066216206605620000a40010"
    static const struct {
        const char *name, *id, *bytes;
        uint64_t n; /* int32 items; */
        tg_status want;
    } rows[] = {
        {"one member", "gzip", GZIP, 6, TG_OK},
        {"two members", "gzip", GZIP GZIP, 12, TG_OK},
        {"three members", "gzip", GZIP GZIP GZIP, 18, TG_OK},
        {"one too many", "gzip", GZIP GZIP, 6, TG_CORRUPT},
        {"one too few", "gzip", GZIP, 12, TG_CORRUPT},
        {"garbage behind", "gzip", GZIP "00", 6, TG_CORRUPT},
        {"zlib in gzip", "gzip", ZLIB, 6, TG_CORRUPT},
        {"gzip in zlib", "zlib", GZIP, 6, TG_CORRUPT},
        {"zlib", "zlib", ZLIB, 6, TG_OK},
        {"zlib twice", "zlib", ZLIB ZLIB, 12, TG_CORRUPT},
        {"zlib, garbage", "zlib", ZLIB "00", 6, TG_CORRUPT},
        {"nothing", "gzip", "", 6, TG_CORRUPT},
    };
    uint8_t enc[128], got[72], raw[24];

    hex(raw_hex, raw, sizeof raw);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char config[40];
        (void)snprintf(config, sizeof config, "{\"id\":\"%s\"}", rows[i].id);
        TG_AUTO_PTR(tg_chain) c = open_v2(config, i32, rows[i].n);
        test_row = rows[i].name;
        REQUIRE(c != NULL);
        CHECK_STATUS(decode_chain(c, hex(rows[i].bytes, enc, sizeof enc), got,
                                  (size_t)rows[i].n * 4, NULL),
                     rows[i].want);
        for (uint64_t k = 0; k < rows[i].n / 6 && rows[i].want == TG_OK; k++)
            CHECK(memcmp(got + 24 * k, raw, 24) == 0);
    }
}

/* C4: one flipped byte of the data under a checksum is an error, not data. */
static void zstd_checksum(void)
{
    uint8_t items[512], enc[700], got[512];
    size_t n = 0;
    TG_AUTO_PTR(tg_chain)
    c = open_v3(
        "[\"bytes\",{\"name\":\"zstd\",\"configuration\":{\"level\":1,\"checksum\":true}}]", u8,
        (tg_shape){1, {512}});

    REQUIRE(c != NULL && tg_chain_detects_damage(c));
    make_data(items, sizeof items, 1, 1);
    REQUIRE_OK(encode_chain(c, (tg_bytes){items, 512}, enc, sizeof enc, &n, NULL));
    REQUIRE_OK(decode_chain(c, (tg_bytes){enc, n}, got, 512, NULL));
    enc[n / 2] ^= 0x10;
    CHECK_STATUS(decode_chain(c, (tg_bytes){enc, n}, got, 512, NULL), TG_CORRUPT);
}

/* C17: a CRC-32 (zlib's polynomial) where CRC-32C belongs. */
static void crc32_is_not_crc32c(void)
{
    uint8_t enc[28], got[24];
    TG_AUTO_PTR(tg_chain) c = open_v3("[\"bytes\",\"crc32c\"]", i32, (tg_shape){1, {6}});
    tg_error err = {0};

    REQUIRE(c != NULL);
    hex("000000000100000002000000030000000400000005000000 3df80c85", enc, sizeof enc);
    CHECK_STATUS(decode_chain(c, (tg_bytes){enc, 28}, got, 24, &err), TG_CORRUPT);
    CHECK(strstr(err.msg, "86a41328") != NULL && strstr(err.msg, "850cf83d") != NULL);
}

/* C5, C10: byte 3 of a frame is the item's size; bit shuffles of odd lengths. */
static void blosc_item_sizes(void)
{
    static const char v3[] = "[\"bytes\",{\"name\":\"blosc\",\"configuration\":{\"cname\":"
                             "\"lz4\",\"clevel\":5,\"shuffle\":\"%s\"%s}}]";
    static const struct {
        const char *name, *shuffle, *more;
        uint64_t n;
        uint8_t item;
    } rows[] = {
        {"item's own", "shuffle", "", 1000, 8},
        {"as the metadata say", "shuffle", ",\"typesize\":1,\"blocksize\":0", 1000, 1},
        {"bits, odd", "bitshuffle", ",\"typesize\":8", 1003, 8},
        {"bits, below 8", "bitshuffle", ",\"typesize\":8", 5, 8},
        {"too large for blosc", "shuffle", ",\"typesize\":256", 1000, 1},
        {"no shuffle, no size", "noshuffle", "", 1000, 8},
    };
    static double items[1003], got[1003];
    static uint8_t enc[1003 * 8 + 16];

    for (size_t i = 0; i < 1003; i++)
        items[i] = (double)(i * i);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char config[200];
        size_t n = 0, bytes = (size_t)rows[i].n * 8;
        (void)snprintf(config, sizeof config, v3, rows[i].shuffle, rows[i].more);
        TG_AUTO_PTR(tg_chain) c = open_v3(config, f64, (tg_shape){1, {rows[i].n}});
        test_row = rows[i].name;
        REQUIRE(c != NULL);
        REQUIRE_OK(encode_chain(c, (tg_bytes){(const uint8_t *)items, bytes}, enc, bytes + 16,
                                &n, NULL));
        CHECK_U64(enc[3], rows[i].item);
        REQUIRE_OK(decode_chain(c, (tg_bytes){enc, n}, (uint8_t *)got, bytes, NULL));
        CHECK(memcmp(items, got, bytes) == 0);
    }
}

/* C7: v2's shuffle -1 is by bits where an item is one byte, else by bytes. */
static void blosc_auto_shuffle(void)
{
    static uint8_t data[4096], enc[4096 + 16], got[4096];
    const char *config = "{\"id\":\"blosc\",\"cname\":\"zstd\",\"clevel\":3,\"shuffle\":-1,"
                         "\"blocksize\":0,\"typesize\":7,\"nthreads\":2}";

    for (uint32_t size = 1; size <= 2; size++) {
        TG_AUTO_PTR(tg_chain) c = open_v2(config, size == 1 ? u8 : u16, 4096 / size);
        size_t n = 0;
        REQUIRE(c != NULL);
        make_data(data, sizeof data, 2, 1);
        REQUIRE_OK(encode_chain(c, (tg_bytes){data, 4096}, enc, sizeof enc, &n, NULL));
        CHECK_U64(enc[2] & 5, size == 1 ? 4 : 1);
        CHECK_U64(enc[3], size);
        REQUIRE_OK(decode_chain(c, (tg_bytes){enc, n}, got, 4096, NULL));
        CHECK(memcmp(data, got, 4096) == 0);
    }
}

/* C11: a frame says its own length; stray bytes behind it are passed over. */
static void blosc_stray_bytes(void)
{
    uint8_t enc[56], got[24];
    TG_AUTO_PTR(tg_chain) c = open_v2("{\"id\":\"blosc\"}", i32, 6);

    REQUIRE(c != NULL);
    hex(BLOSC_RAW "000000000100000002000000030000000400000005000000", enc, sizeof enc);
    memset(enc + 40, 0xAB, 16);
    REQUIRE_OK(decode_chain(c, (tg_bytes){enc, 56}, got, 24, NULL));
    CHECK_U64(got[20], 5);
}

static const struct test tests[] = {
    {"numcodecs_bytes", numcodecs_bytes},
    {"exact_bytes", exact_bytes},
    {"transpose_201", transpose_201},
    {"zstd_frames", zstd_frames},
    {"deflate_forms", deflate_forms},
    {"zstd_checksum", zstd_checksum},
    {"crc32_is_not_crc32c", crc32_is_not_crc32c},
    {"blosc_item_sizes", blosc_item_sizes},
    {"blosc_auto_shuffle", blosc_auto_shuffle},
    {"blosc_stray_bytes", blosc_stray_bytes},
};

TEST_MAIN(tests)
