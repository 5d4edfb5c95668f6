#define _DEFAULT_SOURCE
#include "check.h"
#include "exec/exec.h"
#include "ims/digest.h"
#include "tidegate/annotate.h"

#include <stdlib.h>

#define DATA TG_TEST_DATA "/data/ims/"

static void digests_of_the_standards(void)
{
    static const struct {
        const char *text;
        const char *hex[3]; /* MD5, SHA-1, SHA-256 */
    } rows[] = {
        {"",
         {"d41d8cd98f00b204e9800998ecf8427e", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}},
        {"abc",
         {"900150983cd24fb0d6963f7d28e17f72", "a9993e364706816aba3e25717850c26c9cd0d89d",
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         {"8215ef0796a20bcaaae116d3876c664a", "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < 3; k++)
            for (size_t step = 1; step < 70; step += 11) {
                tg_digest d;
                char hex[65];
                size_t n = strlen(rows[i].text);
                tg_digest_begin(&d, (tg_ims_sum)(TG_SUM_MD5 + k));
                d.fast = d.fast && step % 2 == 1; /* both ways */
                for (size_t at = 0; at < n; at += step)
                    tg_digest_add(&d, (const uint8_t *)rows[i].text + at,
                                  n - at < step ? n - at : step);
                tg_digest_end(&d, hex);
                test_row = rows[i].text;
                CHECK(strcmp(hex, rows[i].hex[k]) == 0);
            }
    test_row = "";
}

/* FIPS 180-4 tests a million times 'a'. */
static void a_long_text_by_instructions_or_not(void)
{
    static const char want[] =
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    static uint8_t text[1000000];
    memset(text, 'a', sizeof text);
    for (int fast = 0; fast < 2; fast++) {
        tg_digest d;
        char hex[65];
        tg_digest_begin(&d, TG_SUM_SHA256);
        d.fast = d.fast && fast == 1;
        for (size_t at = 0, n; at < sizeof text; at += n) {
            n = at % 4099 + 1 < sizeof text - at ? at % 4099 + 1 : sizeof text - at;
            tg_digest_add(&d, text + at, n);
        }
        tg_digest_end(&d, hex);
        CHECK(strcmp(hex, want) == 0);
    }
}

static void take_line(void *user, const char *line)
{
    tg_text_addf(user, "%s\n", line);
}

static uint64_t verify(const char *path, tg_text *lines)
{
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    tg_runtime_options o = {.size = sizeof o, .memory_bytes = (uint64_t)64 << 20, .threads = 1};
    uint64_t bad = 99;
    tg_error e = {0};
    if (tg_runtime_new(&o, &rt, NULL) != TG_OK)
        abort();
    if (tg_ims_verify(rt, path, take_line, lines, &bad, NULL, NULL, NULL, &e) != TG_OK)
        test_failed(__FILE__, __LINE__, e.msg);
    return bad;
}

static void upstream_examples_are_whole(void)
{
    static const char *const paths[] = {
        DATA "pyimzml/Example_Continuous.imzML", DATA "pyimzml/Example_Processed.imzML",
        DATA "untreated_tiny/Untreated_3_434_tiny.imzML", DATA "synthetic-own/synthetic.imzML"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        TG_AUTO(tg_text) lines = {0};
        test_row = paths[i];
        CHECK_U64(verify(paths[i], &lines), 0);
        if (lines.len > 0)
            test_failed(__FILE__, __LINE__, lines.data);
        tg_text_free(&lines);
    }
    test_row = "";
}

/* 19: a changed byte shows in the checksum, both sums are told; 35: a cut file; a wrong UUID.
 */
static void damage_is_told(void)
{
    char dir[] = "/tmp/tg-look-XXXXXX", line[1024];
    if (mkdtemp(dir) == NULL)
        abort();
    (void)snprintf(
        line, sizeof line,
        "cp %spyimzml/Example_Processed.* %s && cd %s && for f in cut uuid; do for e in "
        "imzML ibd; do cp Example_Processed.$e $f.$e; done; done && truncate -s 500000 "
        "cut.ibd && printf X | dd of=uuid.ibd bs=1 seek=3 conv=notrunc 2>/dev/null && "
        "printf X | dd of=Example_Processed.ibd bs=1 seek=90000 conv=notrunc "
        "2>/dev/null",
        DATA, dir, dir);
    REQUIRE(system(line) == 0); /* NOLINT: a test may */
    static const struct {
        const char *name, *message;
        uint64_t bad;
    } rows[] = {
        {"Example_Processed.imzML", "SHA-1 of the .ibd is ", 1},
        {"cut.imzML", "spectrum 7: ", 1},
        {"uuid.imzML", "UUID of the .ibd is ", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_text) lines = {0};
        (void)snprintf(line, sizeof line, "%s/%s", dir, rows[i].name);
        test_row = rows[i].name;
        CHECK_U64(verify(line, &lines), rows[i].bad);
        if (lines.data == NULL || strstr(lines.data, rows[i].message) == NULL)
            test_failed(__FILE__, __LINE__, lines.data == NULL ? "nothing told" : lines.data);
        tg_text_free(&lines);
        test_row = "";
    }
    (void)snprintf(line, sizeof line, "rm -r %s", dir);
    CHECK(system(line) == 0); /* NOLINT: a test may */
}

static void info_says_what_is_there(void)
{
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    TG_AUTO(tg_str) json = NULL;
    tg_runtime_options o = {.size = sizeof o, .memory_bytes = (uint64_t)64 << 20, .threads = 1};
    REQUIRE_OK(tg_runtime_new(&o, &rt, NULL));
    REQUIRE_OK(
        tg_ims_info(rt, DATA "pyimzml/Example_Continuous.imzML", NULL, &json, NULL, NULL));
    static const char *const parts[] = {
        "\"spectra\":9",
        "\"width\":3",
        "\"mode\":\"continuous\"",
        "\"polarity\":\"negative\"",
        "\"mz\":{\"dtype\":\"float32\",\"compression\":\"none\"}",
        "\"checksum\":\"SHA-1 a5be532d",
        "\"spectrum_kind\":\"profile\"",
        "\"pixel_size_um\":[100,100]"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(json, parts[i]) == NULL)
            test_failed(__FILE__, __LINE__, parts[i]);
}

static const struct test tests[] = {
    {"digests_of_the_standards", digests_of_the_standards},
    {"a_long_text_by_instructions_or_not", a_long_text_by_instructions_or_not},
    {"upstream_examples_are_whole", upstream_examples_are_whole},
    {"damage_is_told", damage_is_told},
    {"info_says_what_is_there", info_says_what_is_there},
};

TEST_MAIN(tests)
