#include "check.h"
#include "nd/half.h"
#include "zarr/fill.h"
#include "zarr/zarr.h"

#include <math.h>

struct row {
    const char *name, *type, *json;
    int format;
    tg_status want;
    uint64_t bits;    /* the item, as an integer of its size (complex: the real part) */
    const char *text; /* tg_item_text() of it; NULL: as json */
};

static const struct row rows[] = {
    {"int8 -128", "int8", "-128", 3, TG_OK, 0x80, NULL},
    {"int8 -129", "int8", "-129", 3, TG_CORRUPT, 0, NULL},
    {"M32 uint8 256", "uint8", "256", 3, TG_CORRUPT, 0, NULL},
    {"M32 uint8 -1", "uint8", "-1", 3, TG_CORRUPT, 0, NULL},
    {"M5 uint32 -1", "uint32", "-1", 2, TG_CORRUPT, 0, NULL},
    {"uint64 2^64-1", "uint64", "18446744073709551615", 3, TG_OK, UINT64_MAX, NULL},
    {"int64 -2^63", "int64", "-9223372036854775808", 3, TG_OK, UINT64_C(0x8000000000000000),
     NULL},
    {"int64 2^63", "int64", "9223372036854775808", 3, TG_CORRUPT, 0, NULL},
    {"int64 beyond doubles", "int64", "9007199254740993", 3, TG_OK, UINT64_C(9007199254740993),
     NULL},
    {"int64 1e18", "int64", "1e18", 3, TG_OK, UINT64_C(1000000000000000000),
     "1000000000000000000"},
    {"uint64 2^64 as a double", "uint64", "1.8446744073709552e19", 3, TG_CORRUPT, 0, NULL},
    {"M4 v2 uint8 0.0", "uint8", "0.0", 2, TG_OK, 0, "0"},
    {"M4 v2 uint8 \"0\"", "uint8", "\"0\"", 2, TG_OK, 0, "0"},
    {"v2 int16 \"-3\"", "int16", "\"-3\"", 2, TG_OK, 0xfffd, "-3"},
    {"M2 v2 list", "uint8", "[0]", 2, TG_CORRUPT, 0, NULL},
    {"float32 0.1", "float32", "0.1", 3, TG_OK, 0x3dcccccd, NULL},
    {"float32 16777217 rounds", "float32", "16777217", 3, TG_OK, 0x4b800000, "16777216.0"},
    {"float32 1e39", "float32", "1e39", 3, TG_CORRUPT, 0, NULL},
    {"float32 NaN", "float32", "\"NaN\"", 3, TG_OK, 0x7fc00000, NULL},
    {"float32 bare NaN", "float32", "NaN", 2, TG_OK, 0x7fc00000, "\"NaN\""},
    {"float32 payload", "float32", "\"0x7fc00001\"", 3, TG_OK, 0x7fc00001, NULL},
    {"float32 hex of 1.0", "float32", "\"0x3f800000\"", 3, TG_OK, 0x3f800000, "1.0"},
    {"M32 float32 0x7f", "float32", "\"0x7f\"", 3, TG_CORRUPT, 0, NULL},
    {"float32 0x with a sign", "float32", "\"0x+fc00001\"", 3, TG_CORRUPT, 0, NULL},
    {"float32 -Infinity", "float32", "\"-Infinity\"", 3, TG_OK, 0xff800000, NULL},
    {"float32 quoted number", "float32", "\"1.5\"", 3, TG_OK, 0x3fc00000, "1.5"},
    {"float32 word", "float32", "\"nan\"", 3, TG_CORRUPT, 0, NULL},
    {"float32 true", "float32", "true", 3, TG_CORRUPT, 0, NULL},
    {"float64 -0.0", "float64", "-0.0", 3, TG_OK, UINT64_C(0x8000000000000000), NULL},
    {"float64 0.1", "float64", "0.1", 3, TG_OK, UINT64_C(0x3fb999999999999a), NULL},
    {"float64 int", "float64", "3", 3, TG_OK, UINT64_C(0x4008000000000000), "3.0"},
    {"float64 payload", "float64", "\"0x7ff8000000000123\"", 3, TG_OK,
     UINT64_C(0x7ff8000000000123), NULL},
    {"float16 1.0", "float16", "1.0", 3, TG_OK, 0x3c00, NULL},
    {"float16 tie to even", "float16", "2049", 3, TG_OK, 0x6800, "2048.0"},
    {"float16 smallest", "float16", "5.960464477539063e-08", 3, TG_OK, 0x0001, "6e-08"},
    {"float16 65520", "float16", "65520", 3, TG_CORRUPT, 0, NULL},
    {"float16 Infinity", "float16", "\"Infinity\"", 3, TG_OK, 0x7c00, NULL},
    {"float16 NaN", "float16", "\"NaN\"", 3, TG_OK, 0x7e00, NULL},
    {"complex64", "complex64", "[1.0,2.0]", 3, TG_OK, UINT64_C(0x400000003f800000), NULL},
    {"complex64 with words", "complex64", "[\"NaN\",\"-Infinity\"]", 3, TG_OK,
     UINT64_C(0xff8000007fc00000), NULL},
    {"complex64 0", "complex64", "0", 3, TG_CORRUPT, 0, NULL},
    {"complex64 of three", "complex64", "[1,2,3]", 3, TG_CORRUPT, 0, NULL},
    {"bool true", "bool", "true", 3, TG_OK, 1, NULL},
    {"bool 0", "bool", "0", 3, TG_OK, 0, "false"},
    {"bool 2", "bool", "2", 3, TG_CORRUPT, 0, NULL},
    {"r24", "r24", "[1,2,255]", 3, TG_OK, 0xff0201, NULL},
    {"r24 short", "r24", "[1,2]", 3, TG_CORRUPT, 0, NULL},
    {"r24 256", "r24", "[1,2,256]", 3, TG_CORRUPT, 0, NULL},
    {"v2 |V3 base64", "r24", "\"AQL/\"", 2, TG_OK, 0xff0201, "[1,2,255]"},
    {"v2 |V2 base64 padded", "r16", "\"AQI=\"", 2, TG_OK, 0x0201, "[1,2]"},
    {"v2 |V3 too long", "r24", "\"AQL/AQ==\"", 2, TG_CORRUPT, 0, NULL},
    {"v2 |V3 too short", "r24", "\"AQI=\"", 2, TG_CORRUPT, 0, NULL},
    {"v2 |V3 no base64", "r24", "\"AQ!/\"", 2, TG_CORRUPT, 0, NULL},
    {"v2 |V3 \"\"", "r24", "\"\"", 2, TG_OK, 0, "[0,0,0]"},
    {"v2 |V3 0", "r24", "0", 2, TG_OK, 0, "[0,0,0]"},
};

static void fill_values_of_all_types(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        TG_AUTO_PTR(tg_json) v = NULL;
        TG_AUTO_PTR(tg_json) again = NULL;
        tg_dtype t = {0};
        uint8_t item[16] = {0}, back[16] = {0};
        char text[80];
        test_row = r->name;
        REQUIRE_OK(tg_json_parse(&v, r->json, strlen(r->json), (tg_json_options){true}, NULL));
        REQUIRE_OK(tg_dtype_parse(r->type, &t, NULL));
        tg_error err = {0};
        CHECK_STATUS(tg_fill_parse(v, t, r->format, item, &err), r->want);
        if (r->want != TG_OK) {
            CHECK(err.msg[0] != '\0');
            continue;
        }
        uint64_t bits = 0;
        for (uint32_t b = 0; b < t.size && b < 8; b++) /* tests run on little-endian machines */
            bits |= (uint64_t)item[b] << (8 * b);
        CHECK_U64(bits, r->bits);
        tg_item_text(t, item, text, sizeof text);
        if (strcmp(text, r->text != NULL ? r->text : r->json) != 0)
            test_failed(__FILE__, __LINE__, text);
        REQUIRE_OK(tg_fill_json(t, r->format, item, &again, NULL));
        REQUIRE_OK(tg_fill_parse(again, t, r->format, back, NULL));
        CHECK(memcmp(item, back, t.size) == 0);
    }
}

static void every_half_survives(void)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        double v = tg_half_to_double((uint16_t)bits);
        if (isnan(v))
            CHECK_U64(tg_half_from_double(v), 0x7e00);
        else
            CHECK_U64(tg_half_from_double(v), bits);
    }
}

static void halves_round_to_even(void)
{
    CHECK_U64(tg_half_from_double(1 + 0x1p-11), 0x3c00);     /* tie, down to even */
    CHECK_U64(tg_half_from_double(1 + 3 * 0x1p-11), 0x3c02); /* tie, up to even */
    CHECK_U64(tg_half_from_double(1 + 0x1p-11 + 0x1p-40), 0x3c01);
    CHECK_U64(tg_half_from_double(0x1p-25), 0); /* half of the smallest */
    CHECK_U64(tg_half_from_double(65519.99), 0x7bff);
    CHECK_U64(tg_half_from_double(2047.9), 0x6800); /* carries into the exponent */
    CHECK_U64(tg_half_from_double(-INFINITY), 0xfc00);
}

static void a_format_2_fill_has_one_nan(void)
{
    const uint32_t payload = 0x7fc00001;
    TG_AUTO_PTR(tg_json) v = NULL;
    const char *text = NULL;

    REQUIRE_OK(tg_fill_json((tg_dtype){TG_DT_FLOAT, 4}, 2, &payload, &v, NULL));
    REQUIRE_OK(tg_json_string(v, &text, NULL, NULL));
    CHECK(strcmp(text, "NaN") == 0);
}

static void item_text_keeps_to_its_room(void)
{
    const uint8_t raw[32] = {0};
    char text[10];

    memset(text, 'x', sizeof text);
    tg_item_text((tg_dtype){TG_DT_RAW, 32}, raw, text, sizeof text);
    CHECK(memchr(text, '\0', sizeof text) != NULL);
    tg_item_text((tg_dtype){TG_DT_UINT, 8}, raw, text, 0);
}

static const struct test tests[] = {
    {"fill_values_of_all_types", fill_values_of_all_types},
    {"every_half_survives", every_half_survives},
    {"halves_round_to_even", halves_round_to_even},
    {"a_format_2_fill_has_one_nan", a_format_2_fill_has_one_nan},
    {"item_text_keeps_to_its_room", item_text_keeps_to_its_room},
};

TEST_MAIN(tests)
