/* Whole runs equal to the reference, whatever the memory, the threads, the parts. */
#define _DEFAULT_SOURCE
#include "../chem/table.h"
#include "exec/exec.h"
#include "store/store.h"
#include "tidegate/annotate.h"

#include <math.h>
#include <unistd.h>

#define SYNTHETIC TG_TEST_DATA "/data/ims/synthetic-own"

static char scratch[64]; /* a folder of this run */

static void run_shell(const char *line)
{
    if (system(line) != 0) /* NOLINT: a test may */
        abort();
}

static void log_line(void *user, const char *line)
{
    (void)user;
    (void)line;
}

static tg_runtime *runtime(uint64_t memory, uint32_t threads)
{
    tg_runtime_options o = {
        .size = sizeof o, .memory_bytes = memory, .threads = threads, .log = log_line};
    tg_runtime *rt = NULL;
    if (tg_runtime_new(&o, &rt, NULL) != TG_OK)
        abort();
    return rt;
}

static const char *in_scratch(const char *name)
{
    static char paths[4][256];
    static int at;
    at = (at + 1) % 4;
    (void)snprintf(paths[at], sizeof paths[at], "%s/%s", scratch, name);
    return paths[at];
}

/* The data set is copied so that its sorted peaks lie in the scratch folder. */
static const char *copy_data(const char *folder, const char *stem)
{
    char line[1024];
    (void)snprintf(line, sizeof line, "cp %s/%s.imzML %s/%s.ibd %s", folder, stem, folder, stem,
                   scratch);
    run_shell(line);
    (void)snprintf(line, sizeof line, "%s.imzML", stem);
    return in_scratch(line);
}

static tg_status annotate(tg_annotate_options *o, uint64_t memory, uint32_t threads,
                          tg_annotate_result *r)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(memory, threads);
    tg_error e = {0};
    o->size = sizeof *o;
    r->size = sizeof *r;
    tg_status st = tg_annotate(rt, o, r, NULL, &e);
    if (st != TG_OK)
        fprintf(stderr, "annotate: %s\n", e.msg);
    CHECK_U64(tg_runtime_memory_used(rt), 0);
    return st;
}

/* --- Comparison with the reference ----------------------------------------------------------
 */

typedef struct score {
    char ion[64];
    double msm, chaos, spatial, spectral, mz[4], intensity[4], total[4];
    unsigned n_pixels[4];
} score;

typedef struct row {
    char formula[64], adduct[16], ion[64];
    double fdr, msm;
    bool seen;
} row;

static score *scores;
static size_t n_scores;
static row *rows;
static size_t n_rows;

static void read_results(const char *out)
{
    table t;
    free(scores);
    free(rows);
    scores = calloc(20000, sizeof *scores);
    rows = calloc(5000, sizeof *rows);
    n_scores = n_rows = 0;
    REQUIRE(scores != NULL && rows != NULL);
    REQUIRE(table_load(&t, out, "scores.csv"));
    CHECK(table_next(&t));
    while (table_next(&t) && n_scores < 20000) {
        score *s = &scores[n_scores++];
        (void)snprintf(s->ion, sizeof s->ion, "%s", t.fields[0]);
        s->msm = table_number(&t, 4);
        s->chaos = table_number(&t, 5);
        s->spatial = table_number(&t, 6);
        s->spectral = table_number(&t, 7);
        for (size_t k = 0; k < 4; k++) {
            s->mz[k] = table_number(&t, 8 + k);
            s->intensity[k] = table_number(&t, 12 + k);
            s->n_pixels[k] = (unsigned)table_number(&t, 16 + k);
            s->total[k] = table_number(&t, 20 + k);
        }
    }
    table_close(&t);
    REQUIRE(table_load(&t, out, "annotations.csv"));
    CHECK(table_next(&t));
    while (table_next(&t) && n_rows < 5000) {
        row *r = &rows[n_rows++];
        (void)snprintf(r->formula, sizeof r->formula, "%s", t.fields[1]);
        (void)snprintf(r->adduct, sizeof r->adduct, "%s", t.fields[2]);
        (void)snprintf(r->ion, sizeof r->ion, "%s", t.fields[5]);
        r->fdr = table_number(&t, 7);
        r->msm = table_number(&t, 8);
    }
    table_close(&t);
}

static const score *find_score(const char *ion)
{
    for (size_t i = 0; i < n_scores; i++)
        if (strcmp(scores[i].ion, ion) == 0)
            return &scores[i];
    return NULL;
}

static row *find_row(const char *formula, const char *adduct)
{
    for (size_t i = 0; i < n_rows; i++)
        if (strcmp(rows[i].formula, formula) == 0 && strcmp(rows[i].adduct, adduct) == 0)
            return &rows[i];
    return NULL;
}

static double number_at(const char *list, size_t k)
{
    char *end;
    double v = strtod(list, &end);
    for (; k > 0; k--)
        v = strtod(end, &end);
    return v;
}

static void compare_row(const table *t)
{
    const score *s = find_score(t->fields[3]);
    row *r = find_row(t->fields[1], t->fields[2]);
    char what[160];
    (void)snprintf(what, sizeof what, "v%s %s%s", t->fields[0], t->fields[1], t->fields[2]);
    test_row = what;
    CHECK(s != NULL && r != NULL);
    if (s == NULL || r == NULL)
        return;
    r->seen = true;
    CHECK(strcmp(r->ion, t->fields[3]) == 0);
    for (size_t k = 0; k < 4; k++) {
        double mz = table_number(t, 4 + k), total = number_at(t->fields[17], k);
        CHECK(fabs(s->mz[k] - mz) <= mz * 1e-9);
        CHECK(fabs(s->intensity[k] - table_number(t, 8 + k)) <= 6e-6); /* a float's digits */
        CHECK_U64(s->n_pixels[k], (uint64_t)number_at(t->fields[12], k));
        CHECK(fabs(s->total[k] - total) <= total * 1e-6);
    }
    CHECK(fabs(s->chaos - table_number(t, 13)) <= 1e-9);
    CHECK(fabs(s->spatial - table_number(t, 14)) <= 1e-6);
    CHECK(fabs(s->spectral - table_number(t, 15)) <= 1e-6);
    CHECK(fabs(s->msm - table_number(t, 16)) <= 1e-6);
    CHECK(fabs(r->fdr - table_number(t, 19)) <= 1e-9); /* the table has ten digits */
    test_row = "";
}

static void compare_with(const char *folder, const char *name)
{
    table t;
    size_t n = 0;
    REQUIRE(table_load(&t, folder, name));
    CHECK(table_next(&t));
    while (table_next(&t)) {
        compare_row(&t);
        test_row = "";
        n++;
    }
    table_close(&t);
    CHECK(n > 0);
    for (size_t i = 0; i < n_rows; i++)
        if (!rows[i].seen)
            test_failed(__FILE__, __LINE__, rows[i].formula);
    CHECK_U64(n_rows, n);
}

static const char *const adducts[] = {"+H", "+Na", "+K"};
static const char *const own_db[] = {SYNTHETIC "/db.csv"};

static tg_annotate_options synthetic_options(int version)
{
    tg_annotate_options o = {.data = in_scratch("synthetic.imzML"),
                             .databases = own_db,
                             .n_databases = 1,
                             .adducts = adducts,
                             .n_adducts = 3,
                             .version = version,
                             .instrument =
                                 version == 1 ? TG_INSTRUMENT_TOF : TG_INSTRUMENT_ORBITRAP,
                             .sigma = .001238,
                             .fdr = 100,
                             .images = TG_IMAGES_NONE,
                             .scores = true};
    return o;
}

static void synthetic_equals_the_reference(void)
{
    for (int version = 1; version <= 3; version += 2) {
        tg_annotate_options o = synthetic_options(version);
        tg_annotate_result r = {0};
        char name[32];
        (void)copy_data(SYNTHETIC, "synthetic");
        (void)snprintf(name, sizeof name, "out%d", version);
        o.out = in_scratch(name);
        REQUIRE(annotate(&o, (uint64_t)128 << 20, 1, &r) == TG_OK);
        CHECK(r.whole && !r.late && r.fraction_done == 1);
        CHECK_U64(r.spectra, 1693);
        CHECK_U64(r.formulas, 400);
        fprintf(stderr, "v%d: %llu ions, %llu peaks, annotated %llu %llu %llu %llu\n", version,
                (unsigned long long)r.ions, (unsigned long long)r.peaks,
                (unsigned long long)r.annotated[0], (unsigned long long)r.annotated[1],
                (unsigned long long)r.annotated[2], (unsigned long long)r.annotated[3]);
        CHECK(r.sorted_before == (version == 3));
        read_results(o.out);
        (void)snprintf(name, sizeof name, "expected_v%d.csv", version);
        compare_with(SYNTHETIC, name);
    }
}

static const struct test tests[] = {
    {"synthetic_equals_the_reference", synthetic_equals_the_reference},
};

static void begin(void)
{
    (void)snprintf(scratch, sizeof scratch, "/tmp/tg-annotate-XXXXXX");
    if (mkdtemp(scratch) == NULL)
        abort();
}

int main(int argc, char **argv)
{
    int failed = 0;
    begin();
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        test_failures = 0;
        tests[i].run();
        printf("%s %s\n", test_failures ? "FAIL" : "ok  ", tests[i].name);
        failed += test_failures != 0;
    }
    free(scores);
    free(rows);
    char line[128];
    (void)snprintf(line, sizeof line, "rm -rf %s", scratch);
    run_shell(line);
    return failed != 0;
}
