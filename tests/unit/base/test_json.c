#include "base/json.h"
#include "check.h"

#include <math.h>

static tg_status parse(tg_json **out, const char *text, bool nan, tg_error *err)
{
    return tg_json_parse(out, text, strlen(text), (tg_json_options){.allow_nan = nan}, err);
}

/* What is read is written back as it was: the text of numbers, key order, nulls. */
static void round_trips(void)
{
    static const char *const rows[] = {
        "null",
        "true",
        "0",
        "-1",
        "18446744073709551615",
        "-9223372036854775808",
        "1.0",
        "1e-7",
        "0.1",
        "1E+5",
        "\"\"",
        "\"a\\\"\\\\\\n\\u0001\"",
        "\"\303\244\360\237\230\200\"",
        "[]",
        "{}",
        "[1,2,[3,null]]",
        "{\"b\":1,\"a\":{\"z\":null,\"y\":[]}}",
        "{\"nul\":\"a\\u0000b\"}",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_json) v = NULL;
        TG_AUTO(tg_str) text = NULL;
        tg_error e = {0};
        test_row = rows[i];
        CHECK_STATUS(parse(&v, rows[i], false, &e), TG_OK);
        CHECK_STATUS(tg_json_write(v, false, (tg_json_options){0}, &text, &e), TG_OK);
        CHECK(text != NULL && strcmp(text, rows[i]) == 0);
    }
}

static void refuses(void)
{
    static const struct {
        const char *text, *want;
        uint64_t offset;
    } rows[] = {
        {"", "value expected", 0},
        {"  ", "value expected", 2},
        {"{", "key expected", 1},
        {"{\"a\"}", "':' expected", 4},
        {"{\"a\":1,}", "key expected", 7},
        {"[1,]", "value expected", 3},
        {"[1 2]", "',' expected", 3},
        {"1 x", "text behind the document", 2},
        {"01", "number with a leading zero", 0},
        {"-", "value expected", 0},
        {"+1", "value expected", 0},
        {"1.", "number without digits behind its point", 0},
        {"1e", "number without digits in its exponent", 0},
        {"18446744073709551616", "integer beyond 64 bits", 0},
        {"-9223372036854775809", "integer beyond 64 bits", 0},
        {"1e400", "number too large for a double", 0},
        {"NaN", "value expected", 0},
        {"-Infinity", "value expected", 0},
        {"nul", "value expected", 0},
        {"'a'", "value expected", 0},
        {"\"a", "string without an end", 0},
        {"\"\t\"", "control character in a string", 1},
        {"\"\\x\"", "bad escape", 1},
        {"\"\\u12\"", "bad \\u escape", 1},
        {"\"\\ud800\"", "lone surrogate", 1},
        {"\"\\udc00\"", "lone surrogate", 1},
        {"\"\xff\"", "invalid UTF-8 in a string", 1},
        {"\"\xed\xa0\x80\"", "invalid UTF-8 in a string", 1},
        {"{\"a\\u0000b\":1}", "NUL in a key", 3},
        {"{\"a\":1,\"a\":2}", "the key \"a\" stands twice", 7},
        {"{\"a\":{\"b\":1},\"c\":[{\"b\":1},{\"d\":{},\"b\":0,\"b\":1}],\"b\":0}",
         "the key \"b\" stands twice", 40},
        {"-1e400", "number too large for a double", 0},
        {"[1.5e400]", "number too large for a double", 1},
        {"{\"a\":1,\"\\u0061\":2}", "an object has the same key twice", TG_NO_OFFSET},
        {"[1]/*x*/", "text behind the document", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_json *v = NULL;
        tg_error e = {0};
        test_row = rows[i].text;
        CHECK_STATUS(parse(&v, rows[i].text, false, &e), TG_CORRUPT);
        CHECK(strstr(e.msg, rows[i].want) != NULL);
        CHECK_U64(e.offset, rows[i].offset);
        CHECK(v == NULL);
    }
}

static void depth_has_an_end(void)
{
    char deep[2 * 100000];
    tg_error e = {0};
    tg_json *v = NULL;

    memset(deep, '[', sizeof deep);
    CHECK_STATUS(tg_json_parse(&v, deep, sizeof deep, (tg_json_options){0}, &e), TG_CORRUPT);
    CHECK_U64(e.offset, 64);
    memset(deep + 64, ']', 64);
    CHECK_STATUS(tg_json_parse(&v, deep, 128, (tg_json_options){0}, &e), TG_OK);
    tg_json_free(v);
}

static void nan_tokens_on_request(void)
{
    TG_AUTO_PTR(tg_json) v = NULL;
    TG_AUTO(tg_str) text = NULL;
    tg_error e = {0};
    double d = 0;

    REQUIRE_OK(parse(&v, "{\"a\":[NaN,Infinity,-Infinity]}", true, &e));
    CHECK_STATUS(tg_json_double(tg_json_at(tg_json_get(v, "a"), 2), &d, &e), TG_OK);
    CHECK(isinf(d) && d < 0);
    CHECK_STATUS(tg_json_write(v, false, (tg_json_options){0}, &text, &e), TG_INVALID);
    CHECK(strstr(e.msg, "'/a/0'") != NULL);
    REQUIRE_OK(tg_json_write(v, false, (tg_json_options){.allow_nan = true}, &text, &e));
    CHECK(strcmp(text, "{\"a\":[NaN,Infinity,-Infinity]}") == 0);
}

static void scalars_say_what_they_got(void)
{
    TG_AUTO_PTR(tg_json) v = NULL;
    tg_error e = {0};
    uint64_t u = 7;
    int64_t i = 7;
    double d = 0;
    const char *s = NULL;

    REQUIRE_OK(parse(&v, "[18446744073709551615,-1,1.5,\"x\",null]", false, &e));
    CHECK_STATUS(tg_json_u64(tg_json_at(v, 0), &u, &e), TG_OK);
    CHECK_U64(u, UINT64_MAX);
    CHECK_STATUS(tg_json_i64(tg_json_at(v, 0), &i, &e), TG_CORRUPT);
    CHECK_STATUS(tg_json_u64(tg_json_at(v, 1), &u, &e), TG_CORRUPT);
    CHECK_STATUS(tg_json_double(tg_json_at(v, 1), &d, &e), TG_OK);
    CHECK(d == -1);
    CHECK_STATUS(tg_json_u64(tg_json_at(v, 2), &u, &e), TG_CORRUPT);
    CHECK(strcmp(e.msg, "got number, want an integer") == 0);
    CHECK_STATUS(tg_json_string(tg_json_at(v, 4), &s, NULL, &e), TG_CORRUPT);
    CHECK(tg_json_at(v, 5) == NULL && tg_json_at(v, 4) != NULL);
    CHECK(tg_json_kind_of(tg_json_at(v, 4)) == TG_JSON_NULL);
}

static void documents_are_made_and_changed(void)
{
    TG_AUTO_PTR(tg_json) o = tg_json_new_object();
    TG_AUTO_PTR(tg_json) copy = NULL;
    TG_AUTO(tg_str) text = NULL;
    tg_error e = {0};
    tg_json *list = tg_json_new_array();

    REQUIRE(o != NULL && list != NULL);
    REQUIRE_OK(tg_json_append(list, tg_json_new_double(0.1), &e));
    REQUIRE_OK(tg_json_append(list, tg_json_new_null(), &e));
    REQUIRE_OK(tg_json_set(o, "list", list, &e));
    REQUIRE_OK(tg_json_set(o, "gone", tg_json_new_u64(1), &e));
    REQUIRE_OK(tg_json_set(o, "s", tg_json_new_string("/\""), &e));
    REQUIRE_OK(tg_json_copy(&copy, o, &e));
    CHECK(tg_json_equal(o, copy));
    tg_json_remove(o, "gone");
    CHECK(!tg_json_equal(o, copy));
    CHECK_STATUS(tg_json_set(o, "x", NULL, &e), TG_NO_MEMORY);
    REQUIRE_OK(tg_json_write(o, true, (tg_json_options){0}, &text, &e));
    CHECK(strcmp(text, "{\n  \"list\": [0.1, null],\n  \"s\": \"/\\\"\"\n}") == 0);
}

static void equality(void)
{
    static const struct {
        const char *a, *b;
        bool want;
    } rows[] = {
        {"1", "1", true},
        {"1", "1.0", false},
        {"1.0", "1.00", true},
        {"1", "2", false},
        {"18446744073709551615", "18446744073709551615", true},
        {"18446744073709551615", "-1", false},
        {"9223372036854775807", "9223372036854775808", false},
        {"null", "null", true},
        {"null", "false", false},
        {"NaN", "NaN", true},
        {"NaN", "1.5", false},
        {"Infinity", "-Infinity", false},
        {"\"a\"", "\"\\u0061\"", true},
        {"\"a\\u0000b\"", "\"a\\u0000c\"", false},
        {"[1,2]", "[1,2]", true},
        {"[1,2]", "[2,1]", false},
        {"[1,2]", "[1]", false},
        {"{\"a\":1,\"b\":[null]}", "{\"b\":[null],\"a\":1}", true},
        {"{\"a\":null}", "{\"b\":null}", false},
        {"{\"a\":null}", "{}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_json) a = NULL;
        TG_AUTO_PTR(tg_json) b = NULL;
        test_row = rows[i].a;
        REQUIRE_OK(parse(&a, rows[i].a, true, NULL));
        REQUIRE_OK(parse(&b, rows[i].b, true, NULL));
        CHECK(tg_json_equal(a, b) == rows[i].want);
        CHECK(tg_json_equal(b, a) == rows[i].want);
    }
}

static void a_copy_keeps_the_text_of_numbers(void)
{
    TG_AUTO_PTR(tg_json) v = NULL;
    TG_AUTO_PTR(tg_json) copy = NULL;
    TG_AUTO(tg_str) text = NULL;
    static const char doc[] =
        "[1.00,1E5,-0.0,123456789.123456789012345,null,18446744073709551615]";
    REQUIRE_OK(parse(&v, doc, false, NULL));
    REQUIRE_OK(tg_json_copy(&copy, v, NULL));
    REQUIRE_OK(tg_json_write(copy, false, (tg_json_options){0}, &text, NULL));
    CHECK(strcmp(text, doc) == 0);
}

static void sizes_have_an_end(void)
{
    tg_json *v = NULL;
    tg_error e = {0};
    char digits[1002] = "0.";
    memset(digits + 2, '1', 699);
    CHECK_STATUS(parse(&v, digits, false, &e), TG_CORRUPT);
    CHECK(strstr(e.msg, "700 characters") != NULL);
    digits[700] = '\0';
    CHECK_STATUS(parse(&v, digits, false, &e), TG_OK);
    tg_json_free(v);
    TG_AUTO(tg_buf) large = {0};
    REQUIRE_OK(tg_buf_resize(&large, TG_JSON_MAX_BYTES + 1, NULL));
    memset(large.data, ' ', large.len);
    CHECK_STATUS(
        tg_json_parse(&v, (const char *)large.data, large.len, (tg_json_options){0}, &e),
        TG_OVER_BUDGET);
}

static tg_status parse_and_free(tg_error *err)
{
    TG_AUTO_PTR(tg_json) v = NULL;
    return parse(&v, "{\"a\":1,\"b\":{\"a\":1,\"a\":2}}", false, err) == TG_CORRUPT
               ? TG_OK
               : TG_NO_MEMORY;
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(parse_and_free(NULL));
}

static const struct test tests[] = {
    {"equality", equality},
    {"a_copy_keeps_the_text_of_numbers", a_copy_keeps_the_text_of_numbers},
    {"sizes_have_an_end", sizes_have_an_end},
    {"every_allocation_may_fail", every_allocation_may_fail},
    {"round_trips", round_trips},
    {"refuses", refuses},
    {"depth_has_an_end", depth_has_an_end},
    {"nan_tokens_on_request", nan_tokens_on_request},
    {"scalars_say_what_they_got", scalars_say_what_they_got},
    {"documents_are_made_and_changed", documents_are_made_and_changed},
};

TEST_MAIN(tests)
