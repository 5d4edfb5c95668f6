/* Rows of the frame table as bytes: golden bytes, round trips, hostile input. */
#include "check.h"
#include "stream/frame_row.h"

#include <stdlib.h>

static const tg_stream_column columns[] = {
    {"gain", {TG_DT_INT, 4}},    {"temperature", {TG_DT_FLOAT, 8}}, {"lamp", {TG_DT_BOOL, 1}},
    {"note", {TG_DT_STRING, 0}}, {"state", {TG_DT_UINT, 1}},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static tg_frame_columns checked(void)
{
    tg_frame_columns c = {0};
    CHECK_STATUS(tg_frame_columns_init(&c, columns, N_COLUMNS, NULL), TG_OK);
    return c;
}

static void columns_that_are_refused(void)
{
    static const struct {
        const char *name;
        tg_stream_column column;
    } rows[] = {
        {"no name", {NULL, {TG_DT_INT, 4}}},
        {"empty name", {"", {TG_DT_INT, 4}}},
        {"one of ours", {"sequence", {TG_DT_INT, 4}}},
        {"one of ours, last", {"crc32c", {TG_DT_INT, 4}}},
        {"a path", {"a/b", {TG_DT_INT, 4}}},
        {"up", {"..", {TG_DT_INT, 4}}},
        {"hidden", {".zarray", {TG_DT_INT, 4}}},
        {"reserved", {"__a", {TG_DT_INT, 4}}},
        {"metadata", {"zarr.json", {TG_DT_INT, 4}}},
        {"not ASCII", {"\xC3\xA9", {TG_DT_INT, 4}}},
        {"64 bytes",
         {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", {TG_DT_INT, 4}}},
        {"complex", {"z", {TG_DT_COMPLEX, 8}}},
        {"raw", {"z", {TG_DT_RAW, 3}}},
        {"integer of 3 bytes", {"z", {TG_DT_INT, 3}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_frame_columns c = {0};
        test_row = rows[i].name;
        CHECK_STATUS(tg_frame_columns_init(&c, &rows[i].column, 1, NULL), TG_INVALID);
    }
    test_row = "twice";
    const tg_stream_column twice[] = {{"a", {TG_DT_INT, 4}}, {"a", {TG_DT_INT, 8}}};
    tg_frame_columns c = {0};
    tg_error err = {0};
    CHECK_STATUS(tg_frame_columns_init(&c, twice, 2, &err), TG_INVALID);
    CHECK(strstr(err.msg, "'a'") != NULL);
    test_row = "";
}

static void bytes_are_as_documented(void)
{
    static const uint8_t want[] = {
        0x08, 7,    6,    5,    4,    3,    2,    1,    /* sequence */
        0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, /* index */
        0,    0,    0,    0,    0,    0,    0,    0x80, /* time_device */
        0x15, 0xCD, 0x5B, 7,    0,    0,    0,    0,    /* time_host */
        4,    0xEF, 0xBE, 0xAD, 0xDE,                   /* status, crc32c */
        0xFE, 0xFF, 0xFF, 0xFF,                         /* gain */
        0,    0,    0,    0,    0,    0,    0xF8, 0x3F, /* temperature */
        1,    3,    0,    'a',  0xC3, 0xA9, 9,          /* lamp, note, state */
    };
    tg_frame_columns c = checked();
    tg_frame_row row = {0x0102030405060708, INT64_MAX - 1, INT64_MIN, 123456789, 4, 0xDEADBEEF};
    int32_t gain = -2;
    double temperature = 1.5;
    uint8_t lamp = 200, state = 9; /* any bool but 0 is 1 */
    const void *values[] = {&gain, &temperature, &lamp, "a\xC3\xA9", &state};
    uint8_t got[128];
    size_t n = 0;
    tg_frame_row_encode(&row, got);
    CHECK_STATUS(tg_frame_values_pack(&c, values, got + TG_FRAME_ROW_BYTES,
                                      sizeof got - TG_FRAME_ROW_BYTES, &n, NULL),
                 TG_OK);
    CHECK_U64(n + TG_FRAME_ROW_BYTES, sizeof want);
    CHECK(memcmp(got, want, sizeof want) == 0);

    tg_frame_row back = {0};
    tg_bytes packed = {got, 0};
    size_t used = 0;
    CHECK_STATUS(
        tg_frame_row_read(&c, (tg_bytes){got, sizeof got}, &back, &packed, &used, NULL), TG_OK);
    CHECK_U64(used, sizeof want);
    CHECK_U64(packed.len, sizeof want - TG_FRAME_ROW_BYTES);
    CHECK(packed.data == got + TG_FRAME_ROW_BYTES);
    CHECK(back.sequence == row.sequence && back.index == row.index &&
          back.status == row.status && back.time_device == row.time_device &&
          back.time_host == row.time_host && back.crc32c == row.crc32c);
}

static void missing_values_are_zero(void)
{
    tg_frame_columns c = checked();
    uint8_t got[64];
    const void *values[N_COLUMNS] = {NULL};
    for (int all = 0; all < 2; all++) {
        size_t n = 0;
        memset(got, 0xAA, sizeof got);
        CHECK_STATUS(tg_frame_values_pack(&c, all ? NULL : values, got, sizeof got, &n, NULL),
                     TG_OK);
        CHECK_U64(n, c.values_least);
        for (size_t i = 0; i < n; i++)
            CHECK_U64(got[i], 0);
    }
}

static void strings_have_bounds(void)
{
    tg_frame_columns c = {0};
    const tg_stream_column note = {"note", {TG_DT_STRING, 0}};
    CHECK_STATUS(tg_frame_columns_init(&c, &note, 1, NULL), TG_OK);
    CHECK_U64(c.values_bound, 2 + TG_FRAME_TEXT_MAX);
    char text[TG_FRAME_TEXT_MAX + 2];
    memset(text, 'x', sizeof text);
    const void *values[] = {text};
    uint8_t *dst = calloc(1, c.values_bound);
    REQUIRE(dst != NULL);
    size_t n = 0;
    text[TG_FRAME_TEXT_MAX] = '\0';
    CHECK_STATUS(tg_frame_values_pack(&c, values, dst, c.values_bound, &n, NULL), TG_OK);
    CHECK_U64(n, c.values_bound);
    CHECK_STATUS(tg_frame_values_check(&c, (tg_bytes){dst, n}, &n, NULL), TG_OK);
    CHECK_STATUS(tg_frame_values_pack(&c, values, dst, c.values_bound - 1, &n, NULL),
                 TG_OVER_BUDGET);
    CHECK_STATUS(tg_frame_values_pack(&c, values, dst, 1, &n, NULL), TG_OVER_BUDGET);
    text[TG_FRAME_TEXT_MAX] = 'x';
    text[TG_FRAME_TEXT_MAX + 1] = '\0';
    CHECK_STATUS(tg_frame_values_pack(&c, values, dst, c.values_bound, &n, NULL), TG_INVALID);
    values[0] = "\xFF";
    CHECK_STATUS(tg_frame_values_pack(&c, values, dst, c.values_bound, &n, NULL), TG_INVALID);
    free(dst);
}

/* An exact copy, so that a sanitizer sees one byte too far. */
static tg_status read_cut(const tg_frame_columns *c, const uint8_t *src, size_t n)
{
    uint8_t *exact = malloc(n == 0 ? 1 : n);
    tg_frame_row row = {0};
    tg_bytes values = {exact, 0};
    size_t used = 0;
    if (exact == NULL)
        return TG_NO_MEMORY;
    memcpy(exact, src, n);
    tg_status st = tg_frame_row_read(c, (tg_bytes){exact, n}, &row, &values, &used, NULL);
    free(exact);
    return st;
}

static void hostile_rows_are_corrupt(void)
{
    tg_frame_columns c = checked();
    tg_frame_row row = {.index = TG_NO_INDEX};
    const void *values[N_COLUMNS] = {[3] = "hello"};
    uint8_t src[128];
    size_t n = 0;
    tg_frame_row_encode(&row, src);
    CHECK_STATUS(tg_frame_values_pack(&c, values, src + TG_FRAME_ROW_BYTES, 64, &n, NULL),
                 TG_OK);
    size_t all = TG_FRAME_ROW_BYTES + n;
    CHECK_STATUS(read_cut(&c, src, all), TG_OK);
    for (size_t cut = 0; cut < all; cut++)
        CHECK_STATUS(read_cut(&c, src, cut), TG_CORRUPT);
    const struct {
        const char *name;
        size_t at;
        uint8_t byte;
    } rows[] = {
        {"status 8", 32, 8},
        {"index -2", 8, 0xFE},
        {"bool 2", TG_FRAME_ROW_BYTES + 12, 2},
        {"string of 261 bytes", TG_FRAME_ROW_BYTES + 14, 1},
        {"string not UTF-8", TG_FRAME_ROW_BYTES + 15, 0xC3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t bad[128];
        test_row = rows[i].name;
        memcpy(bad, src, sizeof bad);
        bad[rows[i].at] = rows[i].byte;
        CHECK_STATUS(read_cut(&c, bad, all), TG_CORRUPT);
    }
    test_row = "";
}

static const struct test tests[] = {
    {"columns that are refused", columns_that_are_refused},
    {"bytes are as documented", bytes_are_as_documented},
    {"missing values are zero", missing_values_are_zero},
    {"strings have bounds", strings_have_bounds},
    {"hostile rows are corrupt", hostile_rows_are_corrupt},
};
TEST_MAIN(tests)
