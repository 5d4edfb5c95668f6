#include "base/csv.h"
#include "check.h"

/* All rows as "field|field/" ; the status of the call that ended it. */
static tg_status read_all(const char *text, size_t len, char separator, tg_text *seen,
                          tg_error *err)
{
    TG_AUTO_PTR(tg_csv) csv = NULL;
    TG_TRY(tg_csv_open(&csv, (tg_bytes){(const uint8_t *)text, len}, separator, err));
    for (;;) {
        const char *const *fields = NULL;
        size_t n = 0;
        TG_TRY(tg_csv_next(csv, &fields, &n, err));
        if (n == 0)
            return TG_OK;
        for (size_t i = 0; i < n; i++)
            tg_text_addf(seen, "%s%s", i ? "|" : "", fields[i]);
        tg_text_addf(seen, "@%zu/", tg_csv_line(csv));
    }
}

static void reads(void)
{
    static const struct {
        const char *name, *text, *want;
        char separator;
    } rows[] = {
        {"plain", "a,b\n1,2\n", "a|b@1/1|2@2/", 0},
        {"no end", "a,b\n1,2", "a|b@1/1|2@2/", 0},
        {"crlf", "a,b\r\n1,2\r\n", "a|b@1/1|2@2/", 0},
        {"mark",
         "\xef\xbb\xbf"
         "a,b\n",
         "a|b@1/", 0},
        {"tabs", "a,x\tb\tc\n", "a,x|b|c@1/", 0},
        {"semicolons", "a;b;1,5\n", "a|b|1,5@1/", 0},
        {"told", "a;b,c\n", "a;b|c@1/", ','},
        {"empty fields", ",\n", "|@1/", 0},
        {"blank lines", "\n\na\n\n\nb\n\n", "a@3/b@6/", 0},
        {"quotes", "\"a,b\",\"c\"\"d\"\n", "a,b|c\"d@1/", 0},
        {"line end inside", "\"a\nb\",c\nd,e\n", "a\nb|c@1/d|e@3/", 0},
        {"quote inside", "a\"b,c\n", "a\"b|c@1/", ','},
        {"stray quote", "a\"b,c,d,e,f,g,h\n1,2\n", "a\"b|c|d|e|f|g|h@1/1|2@2/", ','},
        {"empty quotes", "\"\",x\n", "|x@1/", 0},
        {"nothing", "", "", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_text) seen = {0};
        tg_error e = {0};
        test_row = rows[i].name;
        CHECK_STATUS(read_all(rows[i].text, strlen(rows[i].text), rows[i].separator, &seen, &e),
                     TG_OK);
        CHECK(strcmp(seen.data == NULL ? "" : seen.data, rows[i].want) == 0);
    }
}

static void refuses_with_the_line(void)
{
    static const struct {
        const char *name, *text;
        size_t len;
        const char *want;
    } rows[] = {
        {"open quote", "a\n\"b\nc\n", 7, "line 2: a quote is opened and never closed"},
        {"behind quote", "a\n\"b\"c\n", 7, "line 2: text behind a closing quote"},
        {"nul", "a\nb\0c\n", 6, "line 2: a NUL"},
        {"quoted nul", "\"b\0c\"\n", 6, "line 1: a NUL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_text) seen = {0};
        tg_error e = {0};
        test_row = rows[i].name;
        CHECK_STATUS(read_all(rows[i].text, rows[i].len, ',', &seen, &e), TG_CORRUPT);
        CHECK(strcmp(e.msg, rows[i].want) == 0);
    }
}

static void what_is_written_reads_back(void)
{
    static const char *const fields[] = {"\xef\xbb\xbfmark", "",           "a",  "a,b", "\"",
                                         "say \"x\"",        "two\nlines", "\r", " "};
    TG_AUTO(tg_text) line = {0};
    TG_AUTO_PTR(tg_csv) csv = NULL;
    const char *const *got = NULL;
    size_t n_fields = sizeof fields / sizeof fields[0], n = 0;
    tg_error e = {0};

    for (size_t i = 0; i < n_fields; i++)
        tg_csv_write(&line, fields[i], ',', i == 0);
    REQUIRE_OK(tg_csv_open(&csv, (tg_bytes){(const uint8_t *)line.data, line.len}, ',', &e));
    REQUIRE_OK(tg_csv_next(csv, &got, &n, &e));
    CHECK_U64(n, n_fields);
    for (size_t i = 0; i < n && i < n_fields; i++)
        CHECK(strcmp(got[i], fields[i]) == 0);
}

static tg_status read_rows(tg_error *err)
{
    TG_AUTO(tg_text) seen = {0};
    TG_TRY(read_all("a,b\nccc,ddd,eee\n", 16, 0, &seen, err));
    return tg_text_status(&seen, err);
}

static void every_allocation_may_fail(void)
{
    tg_error e = {0};
    CHECK_EVERY_ALLOC(read_rows(&e));
}

static const struct test tests[] = {
    {"reads", reads},
    {"refuses_with_the_line", refuses_with_the_line},
    {"what_is_written_reads_back", what_is_written_reads_back},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
