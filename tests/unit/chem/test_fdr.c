#include "chem/fdr.h"
#include "table.h"

#include <math.h>

typedef struct fdr_case {
    double targets[400], raw[400], want[400], want_raw[400];
    size_t n_targets, n_decoys;
    uint32_t n_sets;
    tg_decoy_score decoys[4000];
} fdr_case;

static void read_case(fdr_case *c, int number, int version)
{
    table t;
    *c = (fdr_case){0};
    REQUIRE(table_open(&t, "fdr_cases.csv"));
    CHECK(table_next(&t));
    while (table_next(&t)) {
        bool decoy = strcmp(t.fields[3], "decoy") == 0;
        if (atoi(t.fields[0]) != number || (!decoy && atoi(t.fields[1]) != version))
            continue;
        double score = table_number(&t, 5);
        c->n_sets = (uint32_t)atoi(t.fields[2]);
        if (decoy) {
            if (score > 0) /* decoys of score 0 do not enter the ranking */
                c->decoys[c->n_decoys++] = (tg_decoy_score){score, (uint32_t)atoi(t.fields[4])};
            continue;
        }
        c->targets[c->n_targets] = score;
        c->want_raw[c->n_targets] = table_number(&t, 6);
        c->want[c->n_targets++] = table_number(&t, 7);
    }
    table_close(&t);
}

static void every_reference_case(void)
{
    static fdr_case c;
    size_t rows = 0;
    for (int number = 0; number < 6; number++)
        for (int version = 1; version <= 3; version += 2) {
            double fdr[400];
            char row[32];
            (void)snprintf(row, sizeof row, "case %d v%d", number, version);
            test_row = row;
            read_case(&c, number, version);
            CHECK(c.n_targets > 0);
            if (version == 1)
                CHECK_STATUS(tg_fdr_v1(c.targets, c.n_targets, c.decoys, c.n_decoys, c.n_sets,
                                       c.raw, fdr, NULL),
                             TG_OK);
            else
                CHECK_STATUS(tg_fdr_v3(c.targets, c.n_targets, c.decoys, c.n_decoys, c.n_sets,
                                       false, fdr, NULL),
                             TG_OK);
            for (size_t i = 0; i < c.n_targets; i++) {
                CHECK(fabs(fdr[i] - c.want[i]) <= 1e-12);
                if (version == 1)
                    CHECK(fabs(c.raw[i] - c.want_raw[i]) <= 1e-12);
                rows++;
            }
            test_row = "";
        }
    CHECK_U64(rows, 648);
}

/* Values of METASPACE's own tests. */
static void upstream_anchors(void)
{
    double targets[11], fdr[11];
    tg_decoy_score decoys[] = {{.8, 0}, {.55, 0}, {.2, 0}, {.1, 0}};
    for (int i = 0; i < 11; i++)
        targets[i] = 1.0 - i / 10.0;
    targets[8] = .2;
    targets[9] = .1;
    targets[10] = 0;
    CHECK_STATUS(tg_fdr_v3(targets, 11, decoys, 4, 1, false, fdr, NULL), TG_OK);
    double least = INFINITY;
    static const double counts[11][2] = {{0, 1}, {0, 2}, {1, 3}, {1, 4},  {1, 5}, {2, 6},
                                         {2, 7}, {2, 8}, {3, 9}, {4, 10}, {4, 11}};
    for (int i = 10; i >= 0; i--) {
        least = fmin(least, (counts[i][0] + 1) / (counts[i][1] + 1));
        CHECK(fabs(fdr[i] - least) < 1e-12);
    }

    double two[] = {.85, .5}, out[2];
    tg_decoy_score pair[] = {{.5, 0}, {.5, 1}, {.75, 0}};
    CHECK_STATUS(tg_fdr_v3(two, 2, pair, 3, 2, false, out, NULL), TG_OK);
    CHECK(fabs(out[0] - .25) < 1e-12 && fabs(out[1] - 2 / 3.) < 1e-12);
}

static void clipping_is_for_the_fixed_mode(void)
{
    double target = .1, fdr;
    tg_decoy_score decoys[60];
    for (uint32_t i = 0; i < 60; i++)
        decoys[i] = (tg_decoy_score){.5, i % 20};
    CHECK_STATUS(tg_fdr_v3(&target, 1, decoys, 60, 20, false, &fdr, NULL), TG_OK);
    CHECK(fabs(fdr - 61 / 20. / 2) < 1e-12);
    CHECK_STATUS(tg_fdr_v3(&target, 1, decoys, 60, 20, true, &fdr, NULL), TG_OK);
    CHECK(fdr == 1);
}

static void no_targets_no_decoys(void)
{
    double target = .5, fdr = -1;
    CHECK_STATUS(tg_fdr_v1(NULL, 0, NULL, 0, 20, NULL, NULL, NULL), TG_OK);
    CHECK_STATUS(tg_fdr_v3(NULL, 0, NULL, 0, 20, false, NULL, NULL), TG_OK);
    CHECK_STATUS(tg_fdr_v1(&target, 1, NULL, 0, 20, NULL, &fdr, NULL), TG_OK);
    CHECK(fdr == .05);
    CHECK_STATUS(tg_fdr_v3(&target, 1, NULL, 0, 20, false, &fdr, NULL), TG_OK);
    CHECK(fabs(fdr - 1 / 20. / 2) < 1e-12);
    CHECK_STATUS(tg_fdr_v1(&target, 1, NULL, 0, 0, NULL, &fdr, NULL), TG_INVALID);
}

static void levels_for_display(void)
{
    CHECK(tg_fdr_level(0.05) == 0.05);
    CHECK(tg_fdr_level(0.0549) == 0.05);
    CHECK(tg_fdr_level(0.056) == 0.1);
    CHECK(tg_fdr_level(0.5) == 0.5);
    CHECK(tg_fdr_level(0.51) == 1);
}

static tg_status rank_both(void)
{
    double targets[] = {.5, .4}, fdr[2];
    tg_decoy_score d[] = {{.45, 0}};
    TG_TRY(tg_fdr_v1(targets, 2, d, 1, 2, NULL, fdr, NULL));
    return tg_fdr_v3(targets, 2, d, 1, 2, false, fdr, NULL);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(rank_both());
}

static const struct test tests[] = {
    {"every_reference_case", every_reference_case},
    {"upstream_anchors", upstream_anchors},
    {"clipping_is_for_the_fixed_mode", clipping_is_for_the_fixed_mode},
    {"no_targets_no_decoys", no_targets_no_decoys},
    {"levels_for_display", levels_for_display},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
