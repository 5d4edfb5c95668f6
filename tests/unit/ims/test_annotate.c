/* Whole runs equal to the reference, whatever the memory, the threads, the parts. */
#define _DEFAULT_SOURCE
#include "../chem/table.h"
#include "exec/exec.h"
#include "store/store.h"
#include "tidegate/annotate.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
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
    static char paths[4][1200];
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
        CHECK(version == 1 || r.sorted_before);
        read_results(o.out);
        (void)snprintf(name, sizeof name, "expected_v%d.csv", version);
        compare_with(SYNTHETIC, name);
    }
}

/* --- The same bytes, however it is done -----------------------------------------------------
 */

static bool same_files(const char *a, const char *b)
{
    char line[4096];
    (void)snprintf(line, sizeof line, "diff -r %s %s >&2", a, b);
    return system(line) == 0; /* NOLINT: a test may */
}

static tg_annotate_options small_options(const char *out)
{
    tg_annotate_options o = synthetic_options(3);
    o.out = out;
    o.fdr = 0.2;
    o.images = TG_IMAGES_FDR;
    return o;
}

static char whole_out[1200]; /* an uninterrupted run to compare with */

static void make_whole(void)
{
    tg_annotate_result r = {0};
    (void)snprintf(whole_out, sizeof whole_out, "%s", in_scratch("whole"));
    if (access(whole_out, F_OK) == 0)
        return;
    (void)copy_data(SYNTHETIC, "synthetic");
    tg_annotate_options o = small_options(whole_out);
    REQUIRE(annotate(&o, (uint64_t)256 << 20, 1, &r) == TG_OK);
    CHECK(r.whole && r.rows > 100 && r.images > r.rows);
}

static void memory_and_threads_change_nothing(void)
{
    static const struct {
        const char *name;
        uint64_t memory, segment;
        uint32_t threads;
    } how[] = {
        {"m1", (uint64_t)40 << 20, (uint64_t)64 << 10, 1},
        {"m2", (uint64_t)80 << 20, (uint64_t)256 << 10, 2},
        {"m3", (uint64_t)512 << 20, (uint64_t)16 << 20, 4},
    };
    make_whole();
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        tg_annotate_result r = {0};
        tg_annotate_options o = small_options(in_scratch(how[i].name));
        o.segment_bytes = how[i].segment;
        test_row = how[i].name;
        CHECK(annotate(&o, how[i].memory, how[i].threads, &r) == TG_OK);
        CHECK(same_files(whole_out, o.out));
        test_row = "";
    }
}

static void parts_merge_to_the_same(void)
{
    tg_annotate_result r = {0};
    make_whole();
    tg_annotate_options o = small_options(in_scratch("parts"));
    o.n_parts = 4;
    for (uint32_t i = 0; i < 4; i++) {
        o.part = (i + 2) % 4;
        CHECK(annotate(&o, (uint64_t)64 << 20, 1, &r) == TG_OK);
        CHECK(r.whole == (i == 3));
        CHECK(i == 3 || (r.fraction_done > 0 && r.fraction_done < 1));
    }
    CHECK(same_files(whole_out, o.out));
    CHECK(access(in_scratch("parts.tidegate"), F_OK) != 0); /* nothing is left behind */
}

static void merging_too_early_is_told(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)64 << 20, 1);
    tg_annotate_result r = {.size = sizeof r};
    tg_error e = {0};
    make_whole();
    tg_annotate_options o = small_options(in_scratch("early"));
    o.size = sizeof o;
    o.n_parts = 2;
    CHECK_STATUS(tg_annotate(rt, &o, &r, NULL, &e), TG_OK);
    o.merge = true;
    CHECK_STATUS(tg_annotate(rt, &o, &r, NULL, &e), TG_BUSY);
    CHECK(strstr(e.msg, "units are done: not all parts have ended") != NULL);
    o.merge = false; /* the part again, without resume */
    CHECK_STATUS(tg_annotate(rt, &o, &r, NULL, &e), TG_EXISTS);
    CHECK(strstr(e.msg, "an annotation was begun; resume it, or replace it") != NULL);
    o.resume = true;
    o.ppm = 2;
    CHECK_STATUS(tg_annotate(rt, &o, &r, NULL, &e), TG_INVALID);
    CHECK(strstr(e.msg, "was begun with other options: it has 'ppm 3.0', this run 'ppm 2.0'") !=
          NULL);
}

static void set_time(const char *path, long seconds)
{
    const struct timespec t[2] = {{seconds, 0}, {seconds, 0}};
    if (utimensat(AT_FDCWD, path, t, 0) != 0)
        abort();
}

static size_t read_note(const char *name, char text[512])
{
    FILE *f = fopen(in_scratch(name), "r");
    size_t n = f == NULL ? 0 : fread(text, 1, 511, f);
    text[n] = '\0';
    if (f != NULL)
        (void)fclose(f);
    return n;
}

/* The digest of the data is noted when their times can tell them, and made again when they or
 * the note say otherwise; the sorted peaks are found each time. */
static void the_note_of_the_data_is_believed_while_it_fits(void)
{
    static const char note[] = "synthetic.imzML.tidegate/source.note";
    char first[512], text[512];
    make_whole();
    for (int round = 0; round < 4; round++) {
        tg_annotate_result r = {0};
        set_time(in_scratch("synthetic.imzML"), 1000000 + (round == 2));
        set_time(in_scratch("synthetic.ibd"), 1000000);
        if (round == 3) {
            FILE *f = fopen(in_scratch(note), "w");
            REQUIRE(f != NULL);
            fputs("tidegate-source 1\nrubbish\n", f);
            REQUIRE(fclose(f) == 0);
        }
        tg_annotate_options o = small_options(in_scratch("noted"));
        o.overwrite = true;
        REQUIRE(annotate(&o, (uint64_t)64 << 20, 1, &r) == TG_OK);
        CHECK(r.sorted_before);
        CHECK(same_files(whole_out, o.out));
        CHECK(read_note(note, text) > 0);
        if (round == 0)
            (void)snprintf(first, sizeof first, "%s", text);
        else
            CHECK((strcmp(text, first) == 0) == (round != 2)); /* round 3: as in the first */
    }
}

/* Stops the run when so many units are done, by a cancel token. */
typedef struct stopper {
    tg_cancel *cancel;
    uint64_t after;
} stopper;

static void stop_after(void *user, const tg_progress *p)
{
    stopper *s = user;
    if (strcmp(p->stage, "annotate") == 0 && p->done >= s->after)
        tg_cancel_request(s->cancel);
}

static void stopped_runs_go_on(void)
{
    tg_annotate_result r = {.size = sizeof r};
    uint32_t stopped = 0;
    make_whole();
    tg_annotate_options o = small_options(in_scratch("resumed"));
    o.size = sizeof o;
    for (int round = 0; round < 50; round++) {
        TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)64 << 20, 1);
        tg_cancel *cancel = NULL;
        tg_error e = {0};
        REQUIRE_OK(tg_cancel_new(&cancel, NULL));
        stopper s = {cancel, 20}; /* of about 300 */
        o.progress = stop_after;
        o.progress_user = &s;
        o.resume = round > 0;
        tg_status st = tg_annotate(rt, &o, &r, cancel, &e);
        tg_cancel_free(cancel);
        stopped += st == TG_CANCELLED;
        if (st == TG_OK)
            break;
        CHECK_STATUS(st, TG_CANCELLED);
    }
    CHECK(r.whole);
    CHECK(stopped > 0);
    CHECK(same_files(whole_out, o.out));
}

static void a_deadline_leaves_what_is_done(void)
{
    tg_annotate_result r = {0};
    table t;
    size_t n = 0;
    make_whole();
    tg_annotate_options o = small_options(in_scratch("late"));
    o.deadline_seconds = 0.12;
    REQUIRE(annotate(&o, (uint64_t)64 << 20, 1, &r) == TG_OK);
    CHECK(r.late && !r.whole && r.fraction_done < 1);
    REQUIRE(table_load(&t, o.out, "annotations.partial.csv"));
    CHECK(table_next(&t));
    while (table_next(&t)) {
        CHECK(t.n_fields == 20);
        CHECK(t.fields[7][0] == '\0'); /* part of the decoys gives no rate */
        n++;
    }
    CHECK_U64(n, r.rows);
    table_close(&t);
    o.deadline_seconds = 0;
    o.resume = true;
    REQUIRE(annotate(&o, (uint64_t)64 << 20, 1, &r) == TG_OK);
    CHECK(r.whole);
    CHECK(same_files(whole_out, o.out));
}

static void wrong_options_are_refused(void)
{
    static const char *const twice[] = {"+H", "+H"}, *const bad[] = {"H"};
    static const char *const none[] = {"/nowhere/db.csv"};
    static const struct {
        const char *name, *message;
        tg_annotate_options o;
        tg_status status;
    } wrong[] = {
        {"no database", "0 databases", {.n_databases = 0}, TG_INVALID},
        {"missing database", "/nowhere", {.databases = none, .n_databases = 1}, TG_NOT_FOUND},
        {"adduct twice",
         "adduct '+H' is given twice",
         {.databases = own_db, .n_databases = 1, .adducts = twice, .n_adducts = 2},
         TG_INVALID},
        {"bad adduct",
         "adduct: modifier 'H'",
         {.databases = own_db, .n_databases = 1, .adducts = bad, .n_adducts = 1},
         TG_INVALID},
        {"version 2",
         "mode v2",
         {.databases = own_db, .n_databases = 1, .version = 2},
         TG_INVALID},
        {"part",
         "part 4 of 4",
         {.databases = own_db, .n_databases = 1, .part = 4, .n_parts = 4},
         TG_INVALID},
    };
    make_whole();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)64 << 20, 1);
        tg_annotate_options o = wrong[i].o;
        tg_annotate_result r = {.size = sizeof r};
        tg_error e = {0};
        o.size = sizeof o;
        o.data = in_scratch("synthetic.imzML");
        o.out = in_scratch("wrong");
        test_row = wrong[i].name;
        CHECK_STATUS(tg_annotate(rt, &o, &r, NULL, &e), wrong[i].status);
        if (strstr(e.msg, wrong[i].message) == NULL)
            test_failed(__FILE__, __LINE__, e.msg);
        test_row = "";
    }
    tg_annotate_options o = small_options(whole_out);
    tg_annotate_result r = {.size = sizeof r};
    TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)64 << 20, 1);
    o.size = sizeof o;
    CHECK_STATUS(tg_annotate(rt, &o, &r, NULL, NULL), TG_EXISTS);
    TG_AUTO_PTR(tg_runtime) small = runtime((uint64_t)8 << 20, 1);
    tg_error e = {0};
    o.out = in_scratch("small");
    CHECK_STATUS(tg_annotate(small, &o, &r, NULL, &e), TG_OVER_BUDGET);
    CHECK(strstr(e.msg, "annotating wants ") == e.msg);
}

/* Refused before anything is sorted, with a number that is enough, and not much more than
 * that. */
static void too_little_memory_is_refused_before_the_sort(void)
{
    static const tg_annotate_images images[] = {TG_IMAGES_NONE, TG_IMAGES_FDR};
    char line[1024], data[1200];
    make_whole();
    for (size_t i = 0; i < 2; i++) {
        tg_annotate_result r = {.size = sizeof r};
        tg_error e = {0};
        unsigned long long wants = 0, budget = 0;
        (void)snprintf(line, sizeof line,
                       "cd %s && rm -rf fresh* && cp synthetic.imzML fresh.imzML && "
                       "cp synthetic.ibd fresh.ibd",
                       scratch);
        run_shell(line);
        (void)snprintf(data, sizeof data, "%s", in_scratch("fresh.imzML"));
        tg_annotate_options o = small_options(in_scratch("fresh"));
        o.size = sizeof o;
        o.data = data;
        o.images = images[i];
        {
            TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)20 << 20, 1);
            CHECK_STATUS(tg_annotate(rt, &o, &r, NULL, &e), TG_OVER_BUDGET);
            CHECK(sscanf(e.msg, "annotating wants %llu bytes, the budget is %llu", &wants,
                         &budget) == 2); /* NOLINT: two numbers of ours */
            CHECK_U64(budget, (uint64_t)20 << 20);
            CHECK_U64(r.spectra, 0);
        }
        (void)snprintf(line, sizeof line, "! ls %s/fresh.imzML.tidegate | grep -q peaks",
                       scratch);
        CHECK(system(line) == 0); /* NOLINT: a test may */
        {
            TG_AUTO_PTR(tg_runtime) rt = runtime(wants - 1, 1);
            CHECK_STATUS(tg_annotate(rt, &o, &r, NULL, &e), TG_OVER_BUDGET);
        }
        CHECK(annotate(&o, wants, 1, &r) == TG_OK);
        CHECK(r.whole && !r.sorted_before);
        CHECK(wants < (uint64_t)40 << 20);
    }
}

/* The real data set; its molecules may not be copied here. */
static void tiny_equals_the_reference(void)
{
    const char *data = getenv("TG_IMS_DATA"); /* NOLINT: before any thread */
    char folder[512], db[512];
    const char *const dbs[] = {db};
    REQUIRE(data != NULL);
    (void)copy_data(TG_TEST_DATA "/data/ims/untreated_tiny", "Untreated_3_434_tiny");
    (void)snprintf(folder, sizeof folder, "%s/reference", data);
    (void)snprintf(db, sizeof db, "%s/reference/tiny_db.csv", data);
    for (int version = 1; version <= 3; version += 2) {
        char name[40];
        tg_annotate_result r = {0};
        tg_annotate_options o = synthetic_options(version);
        o.data = in_scratch("Untreated_3_434_tiny.imzML");
        (void)snprintf(name, sizeof name, "tiny%d", version);
        o.out = in_scratch(name);
        o.databases = dbs;
        o.instrument = version == 1 ? TG_INSTRUMENT_TOF : TG_INSTRUMENT_FTICR;
        o.sigma = .000619;
        REQUIRE(annotate(&o, (uint64_t)128 << 20, 1, &r) == TG_OK);
        CHECK_U64(r.ions, version == 1 ? 34501 : 16099);
        read_results(o.out);
        (void)snprintf(name, sizeof name, "tiny_expected_v%d.csv", version);
        compare_with(folder, name);
    }
}

static const struct test tests[] = {
    {"tiny_equals_the_reference", tiny_equals_the_reference},
    {"memory_and_threads_change_nothing", memory_and_threads_change_nothing},
    {"parts_merge_to_the_same", parts_merge_to_the_same},
    {"merging_too_early_is_told", merging_too_early_is_told},
    {"the_note_of_the_data_is_believed_while_it_fits",
     the_note_of_the_data_is_believed_while_it_fits},
    {"stopped_runs_go_on", stopped_runs_go_on},
    {"a_deadline_leaves_what_is_done", a_deadline_leaves_what_is_done},
    {"wrong_options_are_refused", wrong_options_are_refused},
    {"too_little_memory_is_refused_before_the_sort",
     too_little_memory_is_refused_before_the_sort},
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
        if (tests[i].run == tiny_equals_the_reference && getenv("TG_IMS_DATA") == NULL) {
            if (argc == 1) /* among others it is left out; alone it is a skip */
                continue;
            printf("skipped: TG_IMS_DATA names no folder with reference/tiny_db.csv\n");
            return TEST_SKIPPED;
        }
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
