/* Made-up data: every kind of file is whole and readable, the same each time, and as broken as
 * was asked for; memory does not grow with the picture. */
#define _DEFAULT_SOURCE
#include "check.h"
#include "exec/exec.h"
#include "ims/imzml.h"
#include "tidegate/annotate.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char scratch[64]; /* a folder of this run */

static tg_runtime *runtime(void)
{
    tg_runtime_options o = {
        .size = sizeof o, .memory_bytes = (uint64_t)128 << 20, .threads = 1};
    tg_runtime *rt = NULL;
    if (tg_runtime_new(&o, &rt, NULL) != TG_OK)
        abort();
    return rt;
}

/* A path in the scratch folder; four are kept. */
static const char *stem_of(const char *name)
{
    static char paths[4][128];
    static int at;
    at = (at + 1) % 4;
    (void)snprintf(paths[at], sizeof paths[at], "%s/%s", scratch, name);
    return paths[at];
}

static void remove_made(const char *stem)
{
    static const char *const ends[] = {".imzML", ".ibd", ".db.csv", ".truth.csv"};
    char path[256];
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", stem, ends[i]);
        (void)unlink(path);
    }
}

static tg_ims_generate_options small(const char *stem)
{
    return (tg_ims_generate_options){.size = sizeof(tg_ims_generate_options),
                                     .out = stem,
                                     .width = 11,
                                     .height = 9,
                                     .depth = 1,
                                     .seed = 5,
                                     .planted = 7,
                                     .families = 40,
                                     .noise = 12,
                                     .intensity = TG_IMS_NUMBER_F32};
}

static tg_status generate(const tg_ims_generate_options *o, tg_ims_generate_result *r)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime();
    tg_error e = {0};
    r->size = sizeof *r;
    tg_status st = tg_ims_generate(rt, o, r, NULL, &e);
    if (st != TG_OK)
        (void)fprintf(stderr, "generate: %s\n", e.msg);
    CHECK_U64(tg_runtime_memory_used(rt), 0);
    return st;
}

static void tell(void *user, const char *line)
{
    tg_text_addf(user, "%s\n", line);
}

static uint64_t faults_of(const char *stem, tg_text *lines)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime();
    char path[256];
    uint64_t bad = 99;
    (void)snprintf(path, sizeof path, "%s.imzML", stem);
    CHECK(tg_ims_verify(rt, path, tell, lines, &bad, NULL, NULL, NULL, NULL) == TG_OK);
    return bad;
}

static void check_variant(int v)
{
    static const int numbers[] = {TG_IMS_NUMBER_F64, TG_IMS_NUMBER_F32, TG_IMS_NUMBER_I32,
                                  TG_IMS_NUMBER_I64};
    TG_AUTO(tg_text) lines = {0};
    TG_AUTO_PTR(tg_runtime) rt = runtime();
    TG_AUTO_PTR(tg_imzml) m = NULL;
    char row[32], path[256];
    tg_ims_generate_result r;
    tg_ims_generate_options o = small(stem_of("v"));

    (void)snprintf(row, sizeof row, "variant %d", v);
    test_row = row;
    o.mz = (tg_ims_number)numbers[v & 3];
    o.intensity = (tg_ims_number)numbers[(v >> 2) & 3];
    o.continuous = ((v >> 4) & 1) != 0;
    o.deflated = ((v >> 5) & 1) != 0;
    o.zero_based = (v % 3) == 1;
    o.shuffled = (v % 5) == 2;
    o.depth = v % 7 == 3 ? 2 : 1;
    CHECK(generate(&o, &r) == TG_OK);
    CHECK_U64(faults_of(o.out, &lines), 0);
    (void)snprintf(path, sizeof path, "%s.imzML", o.out);
    CHECK(tg_imzml_open(&m, path, &(tg_imzml_options){0}, tg_runtime_budget(rt), NULL, NULL) ==
          TG_OK);
    CHECK_U64(m->n_spectra, r.spectra);
    CHECK_U64(m->n_pixels, r.spectra / o.depth);
    CHECK_U64(m->n_peaks, r.peaks);
    CHECK_U64(m->width, 11);
    CHECK_U64(m->height, 9);
    CHECK(m->continuous == o.continuous);
    CHECK(r.spectra < (uint64_t)99 * o.depth && r.spectra > (uint64_t)90 * o.depth);
    remove_made(o.out);
}

static void every_kind_of_file_is_whole(void)
{
    for (int v = 0; v < 64; v++)
        check_variant(v);
    test_row = "";
}

static uint64_t sum_of_file(const char *stem, const char *end)
{
    char path[256];
    uint64_t h = 1469598103934665603u;
    (void)snprintf(path, sizeof path, "%s%s", stem, end);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return 0;
    for (int c; (c = fgetc(f)) != EOF;)
        h = (h ^ (uint64_t)c) * 1099511628211u;
    (void)fclose(f);
    return h;
}

static void the_seed_alone_decides(void)
{
    static const char *const ends[] = {".imzML", ".ibd", ".db.csv", ".truth.csv"};
    tg_ims_generate_result r;
    tg_ims_generate_options a = small(stem_of("a")), b = small(stem_of("b")),
                            c = small(stem_of("c"));
    c.seed = 6;
    CHECK(generate(&a, &r) == TG_OK && generate(&b, &r) == TG_OK && generate(&c, &r) == TG_OK);
    for (int i = 0; i < 4; i++)
        CHECK(sum_of_file(a.out, ends[i]) == sum_of_file(b.out, ends[i]) &&
              sum_of_file(a.out, ends[i]) != 0);
    CHECK(sum_of_file(a.out, ".ibd") != sum_of_file(c.out, ".ibd"));
    CHECK(sum_of_file(a.out, ".truth.csv") != sum_of_file(c.out, ".truth.csv"));
    remove_made(b.out);
    remove_made(c.out);
    CHECK(generate(&a, &r) == TG_EXISTS); /* nothing is replaced */
    remove_made(a.out);
}

static void broken_as_asked(void)
{
    static const char *const said[] = {"", "UUID", "SHA-1", "spectr"};
    for (int k = TG_IMS_BROKEN_NOT; k <= TG_IMS_BROKEN_CUT; k++) {
        TG_AUTO(tg_text) lines = {0};
        tg_ims_generate_result r;
        tg_ims_generate_options o = small(stem_of("broken"));
        o.broken = (tg_ims_broken)k;
        test_row = said[k];
        CHECK(generate(&o, &r) == TG_OK);
        uint64_t bad = faults_of(o.out, &lines);
        CHECK(k == TG_IMS_BROKEN_NOT ? bad == 0 : bad > 0);
        CHECK(k == TG_IMS_BROKEN_NOT || strstr(lines.data, said[k]) != NULL);
        remove_made(o.out);
    }
    test_row = "";
}

static void filled_to_the_number(void)
{
    tg_ims_generate_result r;
    tg_ims_generate_options o = small(stem_of("full"));
    o.fill = 200;
    CHECK(generate(&o, &r) == TG_OK);
    CHECK_U64(r.peaks, r.spectra * 200);
    remove_made(o.out);
}

static void memory_stays(void)
{
    size_t most[2];
    for (int k = 0; k < 2; k++) {
        tg_ims_generate_result r;
        tg_ims_generate_options o = small(stem_of("memory"));
        o.width = o.height = k == 0 ? 8 : 64;
        tg_mem_reset();
        CHECK(generate(&o, &r) == TG_OK);
        most[k] = tg_mem_highwater();
        remove_made(o.out);
    }
    CHECK(most[1] < most[0] + 65536);
}

static void refused_before_anything_is_made(void)
{
    tg_ims_generate_result r;
    tg_ims_generate_options o = small(stem_of("no"));
    o.planted = 2000;
    CHECK(generate(&o, &r) == TG_INVALID);
    o = small(stem_of("no"));
    o.continuous = true;
    o.fill = 10;
    CHECK(generate(&o, &r) == TG_INVALID);
    o = small(stem_of("no"));
    o.depth = 0;
    CHECK(generate(&o, &r) == TG_INVALID);
    o = small(stem_of("no"));
    o.noise = 16000000;
    CHECK(generate(&o, &r) == TG_OVER_BUDGET);
    CHECK(access(stem_of("no.imzML"), F_OK) != 0);
}

static const struct test tests[] = {
    {"every_kind_of_file_is_whole", every_kind_of_file_is_whole},
    {"the_seed_alone_decides", the_seed_alone_decides},
    {"broken_as_asked", broken_as_asked},
    {"filled_to_the_number", filled_to_the_number},
    {"memory_stays", memory_stays},
    {"refused_before_anything_is_made", refused_before_anything_is_made},
};

int main(int argc, char **argv)
{
    int failed = 0;
    (void)snprintf(scratch, sizeof scratch, "/tmp/tg-generate-XXXXXX");
    if (mkdtemp(scratch) == NULL)
        return 1;
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        test_failures = 0;
        tests[i].run();
        (void)printf("%s %s\n", test_failures ? "FAIL" : "ok  ", tests[i].name);
        failed += test_failures != 0;
    }
    (void)rmdir(scratch);
    return failed != 0;
}
