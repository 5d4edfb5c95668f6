#include "chem/decoy.h"
#include "table.h"

/* The three parts of the file, each behind a comment line: outputs, a shuffle of 0-77, bounded
 * draws of seed 123. */
static void generator_equals_numpy(void)
{
    table t;
    tg_mt19937 r;
    uint8_t items[78];
    int part = 0, n[4] = {0};
    REQUIRE(table_open(&t, "mt19937_seed42.txt"));
    for (char *line = strtok(t.text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (line[0] == '#') {
            part++;
            tg_mt19937_seed(&r, part == 3 ? 123 : 42);
            for (uint8_t i = 0; i < 78; i++)
                items[i] = i;
            if (part == 2)
                tg_mt19937_shuffle(&r, items, 78);
            continue;
        }
        for (char *p = line; *p != '\0';) {
            char *end;
            uint64_t want = strtoull(p, &end, 10);
            if (end == p)
                break;
            p = end;
            if (part == 1)
                CHECK_U64(tg_mt19937_next(&r), want);
            else if (part == 2)
                CHECK_U64(items[n[part]], want);
            else
                CHECK_U64(tg_mt19937_up_to(&r, 80), want);
            n[part]++;
        }
    }
    CHECK_U64((uint64_t)n[1], 40);
    CHECK_U64((uint64_t)n[2], 78);
    CHECK_U64((uint64_t)n[3], 40);
    table_close(&t);
}

static void check_row(tg_decoys *d, const uint8_t *draw, char *list)
{
    uint32_t i = 0;
    for (char *a = strtok(list, " "); a != NULL; a = strtok(NULL, " "), i++)
        CHECK(i < d->sample && strcmp(a, tg_decoy_adduct(draw[i])) == 0);
    CHECK_U64(i, 20);
}

static void every_reference_decoy(void)
{
    static const char *const targets[] = {"+H", "+Na", "+K"};
    table t;
    tg_decoys d;
    uint8_t draw[TG_N_DECOY_ADDUCTS];
    char formula[64] = "";
    int version = 0;
    size_t rows = 0;
    REQUIRE(table_open(&t, "decoys_seed42.csv"));
    CHECK(table_next(&t));
    while (table_next(&t)) {
        int v = atoi(t.fields[0]);
        bool new_formula = strcmp(formula, t.fields[1]) != 0 || v != version;
        if (v != version)
            tg_decoys_init(&d, 42, 20, targets, 3);
        if (v == 1 || new_formula)
            tg_decoys_draw(&d, draw);
        version = v;
        (void)snprintf(formula, sizeof formula, "%s", t.fields[1]);
        test_row = formula;
        check_row(&d, draw, t.fields[3]);
        test_row = "";
        rows++;
    }
    CHECK_U64(rows, 180);
    table_close(&t);
}

static void targets_are_no_decoys(void)
{
    static const char *const targets[] = {"+Li", "+H", "-H2O", "+Ta"};
    tg_decoys d;
    tg_decoys_init(&d, 42, 200, targets, 4);
    CHECK_U64(d.n_candidates, 78);
    CHECK_U64(d.sample, 78);
    for (uint32_t i = 0; i < d.n_candidates; i++)
        CHECK(strcmp(tg_decoy_adduct(d.candidates[i]), "+Li") != 0);
}

static const struct test tests[] = {
    {"generator_equals_numpy", generator_equals_numpy},
    {"every_reference_decoy", every_reference_decoy},
    {"targets_are_no_decoys", targets_are_no_decoys},
};

TEST_MAIN(tests)
