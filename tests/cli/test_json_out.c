/* tests/cli/test_json_out.c - the text of the one JSON object. */
#include "check.h"
#include "cli/json_out.h"

#include <math.h>

static void text_of(const json_out *j, char *room, size_t cap)
{
    tg_error err = {0};
    FILE *f = tmpfile();
    room[0] = '\0';
    REQUIRE(f != NULL);
    CHECK_STATUS(json_print(j, f, &err), TG_OK);
    rewind(f);
    room[fread(room, 1, cap - 1, f)] = '\0';
    (void)fclose(f);
}

static void writes_every_kind(void)
{
    json_out j = {0};
    char text[1024];
    json_u64(&j, "u", UINT64_MAX);
    json_i64(&j, "i", INT64_MIN);
    json_double(&j, "d", 0.1);
    json_double(&j, "nan", NAN);
    json_double(&j, "inf", -INFINITY);
    json_bool(&j, "b", true);
    json_null(&j, "n");
    json_text(&j, "t", "a\"\\\n\t\x01\xc3\xa9\xff{");
    json_text(&j, "none", NULL);
    json_open_list(&j, "l");
    json_close_list(&j);
    json_open_list(&j, "m");
    json_u64(&j, NULL, 1);
    json_open(&j, NULL);
    json_close(&j);
    json_text(&j, NULL, "[");
    json_u64(&j, NULL, 2);
    json_close_list(&j);
    json_raw(&j, "r", " {\n \"x y\\\" \" :\t1 }\r\n");
    tg_error err = {.code = TG_IO, .sys = 28, .offset = 7, .key = "a", .msg = "full"};
    json_error(&j, "error", &err);
    text_of(&j, text, sizeof text);
    static const char want[] =
        "{\"u\":18446744073709551615,\"i\":-9223372036854775808,\"d\":0.1,\"nan\":null,"
        "\"inf\":null,\"b\":true,\"n\":null,\"t\":\"a\\\"\\\\\\u000a\\u0009\\u0001\xc3\xa9"
        "\xef\xbf\xbd{\",\"none\":null,\"l\":[],\"m\":[1,{},\"[\",2],\"r\":{\"x y\\\" \":1},"
        "\"error\":{\"code\":\"input/output error\",\"message\":\"full\",\"key\":\"a\","
        "\"offset\":7,\"errno\":28}}\n";
    CHECK(strcmp(text, want) == 0);
    if (strcmp(text, want) != 0)
        fprintf(stderr, "got:  %swant: %s", text, want);
    json_free(&j);
}

static void an_empty_object_is_one(void)
{
    json_out j = {0};
    char text[16];
    text_of(&j, text, sizeof text);
    CHECK(strcmp(text, "{}\n") == 0);
}

static void a_full_device_is_told(void)
{
    json_out j = {0};
    tg_error err = {0};
    FILE *f = fopen("/dev/full", "w");
    REQUIRE(f != NULL);
    json_u64(&j, "u", 1);
    CHECK_STATUS(json_print(&j, f, &err), TG_IO);
    (void)fclose(f);
    json_free(&j);
}

static const struct test tests[] = {
    {"writes_every_kind", writes_every_kind},
    {"an_empty_object_is_one", an_empty_object_is_one},
    {"a_full_device_is_told", a_full_device_is_told},
};
TEST_MAIN(tests)
