/* How often an annotation asks its stores, counted there: the input is read once, the sorted
 * peaks once for the scores and, of kept ions, once for the images; in few requests. Sizes are
 * scaled: a segment stands for one of 100 MB. */
#define _DEFAULT_SOURCE
#include "check.h"
#include "exec/exec.h"
#include "ims/job.h"
#include "store/store.h"

#include <stdlib.h>
#include <sys/stat.h>

#define SYNTHETIC TG_TEST_DATA "/data/ims/synthetic-own/"
#define SEGMENT   ((uint64_t)64 << 10)
/* "one request per 16 MiB" where a segment is 100 MB */
#define REQUEST (SEGMENT * 16 * 1024 * 1024 / 100000000)
#define MEMORY  ((uint64_t)64 << 20)

static const char *const dbs[] = {SYNTHETIC "db.csv"};
static const char *const adducts[] = {"+H", "+Na", "+K"};
static char scratch[64];
static char out[96], home[96];

static void quiet(void *user, const char *line)
{
    (void)user;
    (void)line;
}

typedef struct counts {
    tg_store_counts input, peaks; /* of the run */
    uint64_t input_bytes, store_bytes, n_segments;
    tg_annotate_result result;
} counts;

static uint64_t input_bytes(tg_job *j)
{
    uint64_t xml = 0, ibd = 0;
    CHECK_STATUS(tg_store_size(j->source.store, j->source.xml_key, &xml, NULL, NULL), TG_OK);
    CHECK_STATUS(tg_store_size(j->source.store, j->source.ibd_key, &ibd, NULL, NULL), TG_OK);
    return xml + ibd;
}

/* One annotation whose stores are looked at; home holds what the last one sorted. */
static tg_status annotate(counts *c, tg_annotate_images images, uint64_t memory,
                          uint32_t threads)
{
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    TG_AUTO_PTR(tg_store) input = NULL;
    TG_AUTO_PTR(tg_store) inner = NULL;
    TG_AUTO_PTR(tg_store) counted = NULL;
    TG_AUTO_PTR(tg_job) j = NULL;
    const tg_runtime_options ro = {
        .size = sizeof ro, .memory_bytes = memory, .threads = threads, .log = quiet};
    const tg_store_options so = {.size = sizeof so, .mode = TG_STORE_OPEN_OR_CREATE};
    const tg_annotate_options o = {.size = sizeof o,
                                   .data = SYNTHETIC "synthetic.imzML",
                                   .out = out,
                                   .databases = dbs,
                                   .n_databases = 1,
                                   .adducts = adducts,
                                   .n_adducts = 3,
                                   .images = images,
                                   .segment_bytes = SEGMENT,
                                   .overwrite = true};
    *c = (counts){.result = {.size = sizeof c->result}};
    TG_TRY(tg_runtime_new(&ro, &rt, NULL));
    TG_TRY(tg_store_open_fs(&inner, home, &so, NULL));
    TG_TRY(tg_store_open_count(&counted, inner, NULL));
    TG_TRY(tg_job_new(&j, rt, &o, NULL, NULL));
    c->input_bytes = input_bytes(j);
    TG_TRY(tg_store_open_count(&input, j->source.store, NULL));
    tg_store *own = j->source.store;
    j->source.store = input;
    j->peak_home = counted;
    j->peak_dir = tg_strdup(home);
    tg_status st = tg_job_run(j, &c->result, NULL, NULL);
    j->source.store = own;
    j->peak_home = NULL; /* ours */
    c->input = tg_store_counted(input);
    c->peaks = tg_store_counted(counted);
    c->n_segments = j->peaks == NULL ? 0 : tg_peaks_get_info(j->peaks)->n_segments;
    c->store_bytes = c->n_segments * SEGMENT;
    return st;
}

/* Both ends of the .ibd and its UUID are read beside: less than a hundredth of real data. */
#define BESIDE ((uint64_t)2 * (64 << 10) + 16)
#define TABLES ((uint64_t)1 << 18) /* documents and tables of the peak store */

static void each_byte_of_the_input_is_read_once(void)
{
    counts c;
    REQUIRE(annotate(&c, TG_IMAGES_NONE, MEMORY, 2) == TG_OK);
    CHECK(!c.result.sorted_before);
    fprintf(stderr, "input: %" PRIu64 " bytes, %" PRIu64 " read in %" PRIu64 " requests\n",
            c.input_bytes, c.input.get_bytes, c.input.gets);
    CHECK(c.input.get_bytes <= c.input_bytes + BESIDE);
    CHECK(c.input.get_bytes >= c.input_bytes * 9 / 10); /* something was counted */
    CHECK(c.input.gets <= c.input_bytes / REQUEST + 5); /* ends, UUID, one more a file */
    CHECK_U64(c.peaks.lists, 1);
}

static void check_sweep(const counts *c, uint64_t times_of_ten)
{
    uint64_t allowed = c->peaks.get_bytes / REQUEST + c->result.segments + 8;
    fprintf(stderr, "store: %" PRIu64 " bytes, %" PRIu64 " read in %" PRIu64 " requests\n",
            c->store_bytes, c->peaks.get_bytes, c->peaks.gets);
    CHECK(c->n_segments > 100);
    CHECK(c->peaks.get_bytes <= c->store_bytes * times_of_ten / 10 + TABLES);
    CHECK(c->peaks.get_bytes >= c->store_bytes / 2);
    CHECK(c->peaks.gets <= allowed);
}

static void the_scores_read_the_sorted_peaks_once(void)
{
    static const struct {
        const char *name;
        uint64_t memory;
        uint32_t threads;
    } how[] = {
        {"one thread", MEMORY, 1},
        {"two threads", MEMORY, 2},
        {"four threads", 2 * MEMORY, 4},
        {"little memory", (uint64_t)20 << 20, 2},
    };
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        counts c;
        test_row = how[i].name;
        REQUIRE(annotate(&c, TG_IMAGES_NONE, how[i].memory, how[i].threads) == TG_OK);
        CHECK(c.result.sorted_before);
        CHECK_U64(c.input.puts, 0);
        check_sweep(&c, 12);
        test_row = "";
    }
}

static void images_read_the_segments_of_kept_ions_once_more(void)
{
    counts without, with;
    REQUIRE(annotate(&without, TG_IMAGES_NONE, MEMORY, 2) == TG_OK);
    REQUIRE(annotate(&with, TG_IMAGES_FDR, MEMORY, 2) == TG_OK);
    CHECK(with.result.images > 100);
    uint64_t more = with.peaks.get_bytes - without.peaks.get_bytes;
    CHECK(more > 0 && more <= with.store_bytes * 12 / 10);
    check_sweep(&with, 24);
    /* fewer ions are kept: fewer segments */
    CHECK(with.result.segments < 2 * with.n_segments + with.n_segments / 5);
}

static const struct test tests[] = {
    {"each_byte_of_the_input_is_read_once", each_byte_of_the_input_is_read_once},
    {"the_scores_read_the_sorted_peaks_once", the_scores_read_the_sorted_peaks_once},
    {"images_read_the_segments_of_kept_ions_once_more",
     images_read_the_segments_of_kept_ions_once_more},
};

int main(void)
{
    char line[128];
    int failed = 0;
    (void)snprintf(scratch, sizeof scratch, "/tmp/tg-requests-XXXXXX");
    if (mkdtemp(scratch) == NULL)
        abort();
    (void)snprintf(out, sizeof out, "%s/out", scratch);
    (void)snprintf(home, sizeof home, "%s/peaks", scratch);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0];
         i++) { /* in order: the first sorts */
        test_failures = 0;
        tests[i].run();
        printf("%s %s\n", test_failures ? "FAIL" : "ok  ", tests[i].name);
        failed += test_failures != 0;
    }
    (void)snprintf(line, sizeof line, "rm -rf %s", scratch);
    return system(line) != 0 || failed != 0; /* NOLINT: a test may */
}
