#include "check.h"
#include "nd/nd.h"

static void names_people_type(void)
{
    static const struct {
        const char *text;
        tg_dtype want; /* TG_DT_NONE: refused */
        const char *name;
    } rows[] = {
        {"bool", {TG_DT_BOOL, 1}, "bool"},
        {"b1", {TG_DT_BOOL, 1}, "bool"},
        {"|b1", {TG_DT_BOOL, 1}, "bool"},
        {"u8", {TG_DT_UINT, 1}, "uint8"},
        {"u1", {TG_DT_UINT, 1}, "uint8"},
        {"<u8", {TG_DT_UINT, 8}, "uint64"},
        {"u16", {TG_DT_UINT, 2}, "uint16"},
        {"uint16", {TG_DT_UINT, 2}, "uint16"},
        {"<u2", {TG_DT_UINT, 2}, "uint16"},
        {"i64", {TG_DT_INT, 8}, "int64"},
        {"i4", {TG_DT_INT, 4}, "int32"},
        {"int8", {TG_DT_INT, 1}, "int8"},
        {"f4", {TG_DT_FLOAT, 4}, "float32"},
        {"f16", {TG_DT_FLOAT, 2}, "float16"},
        {"f8", {TG_DT_FLOAT, 8}, "float64"},
        {"float64", {TG_DT_FLOAT, 8}, "float64"},
        {"c8", {TG_DT_COMPLEX, 8}, "complex64"},
        {"c64", {TG_DT_COMPLEX, 8}, "complex64"},
        {"complex128", {TG_DT_COMPLEX, 16}, "complex128"},
        {"string", {TG_DT_STRING, 0}, "string"},
        {"r24", {TG_DT_RAW, 3}, "r24"},
        {"|V3", {TG_DT_RAW, 3}, "r24"},
        {"r8", {TG_DT_RAW, 1}, "r8"},
        {"", {TG_DT_NONE, 0}, NULL},
        {"u", {TG_DT_NONE, 0}, NULL},
        {"u3", {TG_DT_NONE, 0}, NULL},
        {"u08", {TG_DT_NONE, 0}, NULL},
        {"u16 ", {TG_DT_NONE, 0}, NULL},
        {"uint", {TG_DT_NONE, 0}, NULL},
        {"Uint8", {TG_DT_NONE, 0}, NULL},
        {"f128", {TG_DT_NONE, 0}, NULL},
        {"f1", {TG_DT_NONE, 0}, NULL},
        {"r0", {TG_DT_NONE, 0}, NULL},
        {"r12", {TG_DT_NONE, 0}, NULL},
        {"r-8", {TG_DT_NONE, 0}, NULL},
        {"r99999999999999", {TG_DT_NONE, 0}, NULL},
        {">u2", {TG_DT_NONE, 0}, NULL},
        {"<", {TG_DT_NONE, 0}, NULL},
        {"u18446744073709551624", {TG_DT_NONE, 0}, NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_dtype got = {TG_DT_NONE, 9};
        tg_error err = {0};
        char room[16];
        bool good = rows[i].want.kind != TG_DT_NONE;
        test_row = rows[i].text;
        CHECK_STATUS(tg_dtype_parse(rows[i].text, &got, &err), good ? TG_OK : TG_INVALID);
        CHECK_U64(got.kind, rows[i].want.kind);
        CHECK_U64(got.size, good ? rows[i].want.size : 9);
        if (good)
            CHECK(strcmp(tg_dtype_name(got, room), rows[i].name) == 0);
        else
            CHECK(strstr(err.msg, "uint8") != NULL);
    }
}

static void typestrs(void)
{
    static const struct {
        const char *text;
        tg_status status;
        tg_dtype want;
        char order;
        size_t swap;
    } rows[] = {
        {"<u2", TG_OK, {TG_DT_UINT, 2}, '<', 2},
        {">f8", TG_OK, {TG_DT_FLOAT, 8}, '>', 8},
        {">c16", TG_OK, {TG_DT_COMPLEX, 16}, '>', 8},
        {"<c8", TG_OK, {TG_DT_COMPLEX, 8}, '<', 4},
        {">u1", TG_OK, {TG_DT_UINT, 1}, '|', 1},
        {"=u1", TG_OK, {TG_DT_UINT, 1}, '|', 1},
        {"<b1", TG_OK, {TG_DT_BOOL, 1}, '|', 1},
        {"|V16", TG_OK, {TG_DT_RAW, 16}, '|', 1},
        {"|O", TG_OK, {TG_DT_STRING, 0}, '|', 1},
        {"|u2", TG_CORRUPT, {TG_DT_NONE, 0}, 0, 0},
        {"=i4", TG_CORRUPT, {TG_DT_NONE, 0}, 0, 0},
        {"<f16", TG_UNSUPPORTED, {TG_DT_NONE, 0}, 0, 0},
        {"<M8[ns]", TG_UNSUPPORTED, {TG_DT_NONE, 0}, 0, 0},
        {"<U3", TG_UNSUPPORTED, {TG_DT_NONE, 0}, 0, 0},
        {"u2", TG_UNSUPPORTED, {TG_DT_NONE, 0}, 0, 0},
        {"", TG_UNSUPPORTED, {TG_DT_NONE, 0}, 0, 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_dtype got = {TG_DT_NONE, 0};
        char order = 0;
        test_row = rows[i].text;
        CHECK_STATUS(tg_dtype_parse_typestr(rows[i].text, &got, &order, NULL), rows[i].status);
        CHECK_U64(got.kind, rows[i].want.kind);
        CHECK_U64(got.size, rows[i].want.size);
        CHECK_U64((unsigned char)order, (unsigned char)rows[i].order);
        if (rows[i].status == TG_OK)
            CHECK_U64(tg_dtype_swap_bytes(got), rows[i].swap);
    }
}

static const struct test tests[] = {
    {"names_people_type", names_people_type},
    {"typestrs", typestrs},
};

TEST_MAIN(tests)
