/* Header lines of HTTP: what is taken from them, and what is told apart from it. */
#include "check.h"
#include "store/http_head.h"

#define NONE TG_HTTP_UNKNOWN

static const struct {
    const char *line;
    bool good, has_range;
    uint64_t first, end, total;
} ranges[] = {
    {"Content-Range: bytes 0-9/100", true, true, 0, 10, 100},
    {"content-range:bytes 5-5/*\r\n", true, true, 5, 6, NONE},
    {"CONTENT-RANGE:  bytes */100  ", true, true, NONE, NONE, 100},
    {"Content-Range: bytes 9223372036854775806-9223372036854775806/9223372036854775807", true,
     true, INT64_MAX - 1, INT64_MAX, INT64_MAX},
    {"Content-Range: bytes 5-4/100", false, false, NONE, NONE, NONE},
    {"Content-Range: bytes 0-100/100", false, false, NONE, NONE, NONE},
    {"Content-Range: bytes 0-9", false, false, NONE, NONE, NONE},
    {"Content-Range: bytes 0-9/", false, false, NONE, NONE, NONE},
    {"Content-Range: bytes 0-9/100x", false, false, NONE, NONE, NONE},
    {"Content-Range: bytes -9/100", false, false, NONE, NONE, NONE},
    {"Content-Range: bytes 0-18446744073709551615/*", false, false, NONE, NONE, NONE},
    {"Content-Range: items 0-9/100", false, false, NONE, NONE, NONE},
    {"Content-Range: ", false, false, NONE, NONE, NONE},
    {"X-Content-Range: bytes 0-9/100", true, false, NONE, NONE, NONE},
};

static void content_range(void)
{
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        tg_http_head h;
        test_row = ranges[i].line;
        tg_http_head_begin(&h);
        tg_http_head_line(&h, ranges[i].line, strlen(ranges[i].line), 0);
        CHECK((h.bad[0] == '\0') == ranges[i].good);
        CHECK(h.has_range == ranges[i].has_range);
        CHECK_U64(h.first, ranges[i].first);
        CHECK_U64(h.end, ranges[i].end);
        CHECK_U64(h.total, ranges[i].total);
    }
    test_row = "";
}

static void feed(tg_http_head *h, const char *line)
{
    tg_http_head_line(h, line, strlen(line), 784111777); /* Sun, 06 Nov 1994 08:49:37 GMT */
}

static void the_last_answer_counts(void)
{
    tg_http_head h;

    tg_http_head_begin(&h);
    feed(&h, "HTTP/1.1 302 Found\r\n");
    feed(&h, "Content-Length: 7\r\n");
    feed(&h, "HTTP/2 206\r\n");
    CHECK(h.status == 206);
    CHECK_U64(h.length, NONE);
    feed(&h, "Content-Length: 10");
    feed(&h, "Content-Length: 10");
    CHECK(h.bad[0] == '\0');
    CHECK_U64(h.length, 10);
    feed(&h, "Content-Length: 11");
    CHECK(strcmp(h.bad, "Content-Length: 11") == 0);
    tg_http_head_begin(&h);
    feed(&h, "Content-Length: 9223372036854775808");
    CHECK(h.bad[0] != '\0');
    tg_http_head_begin(&h);
    feed(&h, "HTTP/1.1 2x6");
    CHECK(h.bad[0] != '\0');
    tg_http_head_begin(&h);
    feed(&h, "HTTP/1.1 99 \x01");
    CHECK(strcmp(h.bad, "HTTP/1.1 99 ?") == 0);
}

static void retry_after(void)
{
    static const struct {
        const char *line;
        int64_t want;
    } rows[] = {
        {"Retry-After: 120", 120},
        {"Retry-After: Sun, 06 Nov 1994 08:49:47 GMT", 10},
        {"Retry-After: Sun, 06 Nov 1994 08:49:27 GMT", 0},
        {"Retry-After: Tue, 29 Feb 2000 00:00:00 GMT", 951782400 - 784111777},
        {"Retry-After: Sun, 06 Now 1994 08:49:37 GMT", -1},
        {"Retry-After: soon", -1},
        {"Retry-After: 99999999999999999999", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_http_head h;
        test_row = rows[i].line;
        tg_http_head_begin(&h);
        feed(&h, rows[i].line);
        CHECK(h.retry_after == rows[i].want);
    }
    test_row = "";
}

static void versions(void)
{
    tg_http_head a, b;
    char line[300];

    tg_http_head_begin(&a);
    feed(&a, "ETag: W/\"abc\"\r\n");
    CHECK(strcmp(a.etag, "W/\"abc\"") == 0);
    feed(&a, "Content-Encoding: identity");
    CHECK(a.coding[0] == '\0');
    feed(&a, "Content-Encoding: a-very-long-name-of-a-coding");
    CHECK(a.coding[0] != '\0');
    memset(line, 'x', sizeof line); /* two long tags that differ at their end */
    memcpy(line, "ETag: ", 6);
    tg_http_head_line(&a, line, sizeof line, 0);
    tg_http_head_begin(&b);
    line[sizeof line - 1] = 'y';
    tg_http_head_line(&b, line, sizeof line, 0);
    CHECK(strcmp(a.etag, b.etag) != 0);
    CHECK(strlen(b.etag) == sizeof b.etag - 1);
}

static const struct test tests[] = {
    {"content_range", content_range},
    {"the_last_answer_counts", the_last_answer_counts},
    {"retry_after", retry_after},
    {"versions", versions},
};
TEST_MAIN(tests)
