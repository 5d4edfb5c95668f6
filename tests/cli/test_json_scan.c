/* tests/cli/test_json_scan.c - parts of documents found by name and place. */
#include "check.h"
#include "cli/json_scan.h"

static json_part part(const char *s)
{
    return (json_part){s, strlen(s)};
}

static bool is(json_part p, const char *want)
{
    return want == NULL
               ? p.at == NULL
               : p.at != NULL && p.len == strlen(want) && memcmp(p.at, want, p.len) == 0;
}

static void finds_members(void)
{
    json_part d =
        part("{ \"a\" : 1, \"s\\\"}\":\"x}\\\"\", \"o\":{\"a\":[1,{\"b\":2}]},\"l\":[ ],"
             "\"z\": \"end\" }");
    CHECK(is(json_member(d, "a"), "1"));
    CHECK(is(json_member(d, "o"), "{\"a\":[1,{\"b\":2}]}"));
    CHECK(is(json_member(json_member(d, "o"), "a"), "[1,{\"b\":2}]"));
    CHECK(is(json_member(d, "l"), "[ ]"));
    CHECK(is(json_string_of(json_member(d, "z")), "end"));
    CHECK(is(json_member(d, "b"), NULL));
    CHECK(is(json_member(d, ""), NULL));
    CHECK(is(json_member(json_member(d, "a"), "a"), NULL));
    CHECK(is(json_string_of(json_member(d, "a")), NULL));
}

static void finds_items(void)
{
    json_part l = part("[ {\"a\":\"]\"} , 2,[3, 4] ,\"x\"]");
    CHECK(is(json_item(l, 0), "{\"a\":\"]\"}"));
    CHECK(is(json_item(l, 1), "2"));
    CHECK(is(json_item(json_item(l, 2), 1), "4"));
    CHECK(is(json_item(l, 3), "\"x\""));
    CHECK(is(json_item(l, 4), NULL));
    CHECK(is(json_item(part("[]"), 0), NULL));
    CHECK(is(json_item(part("{}"), 0), NULL));
    CHECK(is(json_item((json_part){0}, 0), NULL));
    CHECK(is(json_member((json_part){0}, "a"), NULL));
}

/* Whatever is cut off, no byte behind the part is read (run under a sanitizer). */
static void stops_at_the_end(void)
{
    static const char text[] = "{\"a\":[1,\"x\\\"\",{\"b\":null}],\"c\":{}}";
    for (size_t n = 1; n < sizeof text; n++) {
        char *room = tg_alloc(n); /* exact: one byte more would be seen */
        REQUIRE(room != NULL);
        memcpy(room, text, n);
        (void)json_member((json_part){room, n}, "c");
        (void)json_item(json_member((json_part){room, n}, "a"), 2);
        tg_free(room);
    }
}

static const struct test tests[] = {
    {"finds_members", finds_members},
    {"finds_items", finds_items},
    {"stops_at_the_end", stops_at_the_end},
};
TEST_MAIN(tests)
