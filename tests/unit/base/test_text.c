#include "base/text.h"
#include "check.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

static void sizes(void)
{
    static const struct {
        const char *text;
        tg_status want;
        uint64_t bytes;
        const char *hint; /* part of the message */
    } rows[] = {
        {"0", TG_OK, 0, ""},
        {"4096", TG_OK, 4096, ""},
        {"64KiB", TG_OK, 65536, ""},
        {"1.5GiB", TG_OK, 1610612736, ""},
        {"0.5KiB", TG_OK, 512, ""},
        {"0.1MiB", TG_OK, 104857, ""},
        {"2TiB", TG_OK, (uint64_t)2 << 40, ""},
        {"0.999999999TiB", TG_OK, 1099511626676, ""},
        {"18446744073709551615", TG_OK, UINT64_MAX, ""},
        {"16777215.9TiB", TG_OK, 18446743963758388838u, ""},
        {"18446744073709551616", TG_INVALID, 0, "want a size"},
        {"16777216TiB", TG_INVALID, 0, "more than 2^64-1"},
        {"256M", TG_INVALID, 0, "did you mean 256MiB?"},
        {"1GB", TG_INVALID, 0, "did you mean 1GiB?"},
        {"1 KiB", TG_INVALID, 0, "did you mean 1KiB?"},
        {"1.5g", TG_INVALID, 0, "did you mean 1.5GiB?"},
        {"1.5", TG_INVALID, 0, "whole bytes"},
        {"1.KiB", TG_INVALID, 0, "want a size"},
        {"1.0000000001KiB", TG_INVALID, 0, "want a size"},
        {".5KiB", TG_INVALID, 0, "want a size"},
        {"-1", TG_INVALID, 0, "want a size"},
        {"+1", TG_INVALID, 0, "want a size"},
        {" 1", TG_INVALID, 0, "want a size"},
        {"", TG_INVALID, 0, "want a size"},
        {"12parsecs", TG_INVALID, 0, "bytes, KiB, MiB"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t v = 0;
        tg_error e = {0};
        test_row = rows[i].text;
        CHECK_STATUS(tg_parse_size(rows[i].text, &v, &e), rows[i].want);
        CHECK_U64(v, rows[i].bytes);
        CHECK(strstr(e.msg, rows[i].hint) != NULL);
    }
}

static void durations(void)
{
    static const struct {
        const char *text;
        tg_status want;
        double seconds;
        const char *hint;
    } rows[] = {
        {"90s", TG_OK, 90, ""},
        {"10m", TG_OK, 600, ""},
        {"500ms", TG_OK, 0.5, ""},
        {"2h", TG_OK, 7200, ""},
        {"1.5s", TG_OK, 1.5, ""},
        {"90", TG_INVALID, -1, "did you mean 90s?"},
        {"0s", TG_INVALID, -1, "above zero"},
        {"0.0ms", TG_INVALID, -1, "above zero"},
        {"-1s", TG_INVALID, -1, "want a duration"},
        {"1d", TG_INVALID, -1, "in ms, s, m or h"},
        {"1 s", TG_INVALID, -1, "in ms, s, m or h"},
        {"1s ", TG_INVALID, -1, "in ms, s, m or h"},
        {"", TG_INVALID, -1, "want a duration"},
        {"s", TG_INVALID, -1, "want a duration"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double v = -1;
        tg_error e = {0};
        test_row = rows[i].text;
        CHECK_STATUS(tg_parse_duration(rows[i].text, &v, &e), rows[i].want);
        CHECK(fabs(v - rows[i].seconds) < 1e-12);
        CHECK(strstr(e.msg, rows[i].hint) != NULL);
    }
}

static void whole_numbers(void)
{
    static const struct {
        const char *text;
        tg_status as_u64, as_i64;
    } rows[] = {
        {"0", TG_OK, TG_OK},
        {"9223372036854775807", TG_OK, TG_OK},
        {"9223372036854775808", TG_OK, TG_INVALID},
        {"-9223372036854775808", TG_INVALID, TG_OK},
        {"-9223372036854775809", TG_INVALID, TG_INVALID},
        {"18446744073709551615", TG_OK, TG_INVALID},
        {"18446744073709551616", TG_INVALID, TG_INVALID},
        {"-0", TG_INVALID, TG_OK},
        {"+1", TG_INVALID, TG_INVALID},
        {"0x10", TG_INVALID, TG_INVALID},
        {"1e3", TG_INVALID, TG_INVALID},
        {"1 ", TG_INVALID, TG_INVALID},
        {"", TG_INVALID, TG_INVALID},
        {"-", TG_INVALID, TG_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t u = 0;
        int64_t s = 0;
        test_row = rows[i].text;
        CHECK_STATUS(tg_parse_u64(rows[i].text, &u, NULL), rows[i].as_u64);
        CHECK_STATUS(tg_parse_i64(rows[i].text, &s, NULL), rows[i].as_i64);
        if (rows[i].as_u64 == TG_OK)
            CHECK_U64(u, strtoull(rows[i].text, NULL, 10));
        if (rows[i].as_i64 == TG_OK)
            CHECK(s == strtoll(rows[i].text, NULL, 10));
    }
}

static void doubles_are_read(void)
{
    static const struct {
        const char *text;
        tg_status want;
        double v;
    } rows[] = {
        {"1", TG_OK, 1},
        {"-1.5", TG_OK, -1.5},
        {"+2.25", TG_OK, 2.25},
        {".5", TG_OK, 0.5},
        {"5.", TG_OK, 5},
        {"1e3", TG_OK, 1000},
        {"1E-2", TG_OK, 0.01},
        {"0.1", TG_OK, 0.1},
        {"1e-400", TG_OK, 0},
        {"4.9e-324", TG_OK, 4.9406564584124654e-324},
        {"1e308", TG_OK, 1e308},
        {"1e309", TG_INVALID, 7},
        {"1e999999999", TG_INVALID, 7},
        {"nan", TG_INVALID, 7},
        {"inf", TG_INVALID, 7},
        {"0x1p3", TG_INVALID, 7},
        {"1,5", TG_INVALID, 7},
        {"1e", TG_INVALID, 7},
        {"1e+", TG_INVALID, 7},
        {".", TG_INVALID, 7},
        {"", TG_INVALID, 7},
        {" 1", TG_INVALID, 7},
        {"1 ", TG_INVALID, 7},
        {"--1", TG_INVALID, 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double v = 7;
        test_row = rows[i].text;
        CHECK_STATUS(tg_parse_double(rows[i].text, &v, NULL), rows[i].want);
        CHECK(!(v < rows[i].v) && !(v > rows[i].v));
    }
    char zeros[2000];
    memset(zeros, '0', sizeof zeros);
    zeros[sizeof zeros - 1] = '\0';
    double v = 7;
    CHECK_STATUS(tg_parse_double(zeros, &v, NULL),
                 TG_INVALID); /* no number that anyone types */
}

static void doubles_are_written(void)
{
    static const struct {
        double v;
        const char *want;
    } rows[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {1e-07, "1e-07"},
        {0.0001, "0.0001"},
        {0.00012345, "0.00012345"},
        {0.00001, "1e-05"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {123456789012345680.0, "1.2345678901234568e+17"},
        {-2.5e-10, "-2.5e-10"},
        {1e100, "1e+100"},
        {1e23, "1e+23"},
        {5e-324, "5e-324"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {9007199254740993.0, "9007199254740992.0"},
        {5.684341886080802e-14, "5.684341886080802e-14"}, /* 2^-44: nearest 16 digits fail */
        {INFINITY, "Infinity"},
        {-INFINITY, "-Infinity"},
        {NAN, "NaN"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char got[32];
        tg_format_double(got, sizeof got, rows[i].v);
        test_row = rows[i].want;
        if (strcmp(got, rows[i].want) != 0)
            test_failed(__FILE__, __LINE__, got);
    }
}

/* Any bits: reads back the same, and no shorter %g does. */
static void what_is_written_reads_back(void)
{
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        double v, back = 0;
        uint64_t bits = i % 3 == 0 ? x : i % 3 == 1 ? x & 0xfff0000000000000u : x >> 12;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v))
            continue;
        char text[32], shorter[40];
        tg_format_double(text, sizeof text, v);
        CHECK_STATUS(tg_parse_double(text, &back, NULL), TG_OK);
        CHECK(memcmp(&v, &back, sizeof v) == 0);
        int digits = 0;
        const char *p = text;
        while (*p == '-' || *p == '0' || *p == '.')
            p++;

        for (int n = 0; *p != '\0' && *p != 'e'; p++)
            if (*p != '.') {
                n++;
                if (*p != '0')
                    digits = n;
            }

        if (digits < 2)
            continue;
        (void)snprintf(shorter, sizeof shorter, "%.*e", digits - 2, v);
        double other = strtod(shorter, NULL);
        CHECK(other < v || other > v);
    }
}

static void no_locale_changes_anything(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C"};
    size_t i = 0;
    while (setlocale(LC_ALL, names[i]) == NULL) /* "C" always is */
        i++;
    char text[32];
    double v = 0;
    tg_format_double(text, sizeof text, 1234.5);
    CHECK(strcmp(text, "1234.5") == 0);
    CHECK_STATUS(tg_parse_double("1234.5", &v, NULL), TG_OK);
    CHECK(v > 1234.4 && v < 1234.6);
    (void)setlocale(LC_ALL, "C");
}

static void utf8(void)
{
    static const struct {
        const char *name, *bytes;
        bool want;
    } rows[] = {
        {"empty", "", true},
        {"ASCII", "abc\x7f", true},
        {"two bytes", "\xc2\x80\xdf\xbf", true},
        {"three bytes", "\xe0\xa0\x80", true},
        {"last before surrogates", "\xed\x9f\xbf", true},
        {"first after surrogates", "\xee\x80\x80", true},
        {"four bytes", "\xf0\x90\x80\x80", true},
        {"last of all", "\xf4\x8f\xbf\xbf", true},
        {"beyond the last", "\xf4\x90\x80\x80", false},
        {"overlong slash", "\xc0\xaf", false},
        {"overlong two", "\xc1\xbf", false},
        {"overlong three", "\xe0\x9f\xbf", false},
        {"overlong four", "\xf0\x8f\xbf\xbf", false},
        {"surrogate", "\xed\xa0\x80", false},
        {"last surrogate", "\xed\xbf\xbf", false},
        {"lone continuation", "a\x80", false},
        {"cut", "\xe2\x82", false},
        {"cut by ASCII", "\xe2\x82z", false},
        {"five bytes", "\xf8\x88\x80\x80", false},
        {"0xff", "\xff", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_row = rows[i].name;
        CHECK(tg_utf8_valid(rows[i].bytes, strlen(rows[i].bytes)) == rows[i].want);
    }
    test_row = "";
    CHECK(tg_utf8_valid("a\0b", 3));
}

static const struct test tests[] = {
    {"sizes", sizes},
    {"durations", durations},
    {"whole_numbers", whole_numbers},
    {"doubles_are_read", doubles_are_read},
    {"doubles_are_written", doubles_are_written},
    {"what_is_written_reads_back", what_is_written_reads_back},
    {"no_locale_changes_anything", no_locale_changes_anything},
    {"utf8", utf8},
};

TEST_MAIN(tests)
