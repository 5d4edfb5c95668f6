#include "check.h"
#include "exec/exec.h"

#include <stdlib.h>

static uint64_t sum(const uint64_t *w, uint64_t from, uint64_t to)
{
    uint64_t s = 0;
    for (uint64_t i = from; i < to; i++)
        s += w[i];
    return s;
}

/* Contiguous, complete, in order; no part over its even share by more than the heaviest unit.
 */
static void parts_are_contiguous_and_even(void)
{
    uint32_t seed = 7;
    for (int round = 0; round < 2000; round++) {
        uint64_t w[40], first[12], n = (seed = seed * 1664525u + 1013904223u) >> 26,
                                   heaviest = 0;
        uint32_t parts = 1 + (seed >> 8) % 11;
        tg_error e = {0};
        n = n > 40 ? 40 : n;
        for (uint64_t i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            w[i] = (seed >> 24) % (round % 3 == 0 ? 2 : 100);
            heaviest = w[i] > heaviest ? w[i] : heaviest;
        }
        REQUIRE_OK(tg_units_cut(w, n, parts, first, &e));
        CHECK_U64(first[0], 0);
        CHECK_U64(first[parts], n);
        uint64_t total = sum(w, 0, n);
        for (uint32_t p = 0; p < parts; p++) {
            REQUIRE(first[p] <= first[p + 1]);
            CHECK(sum(w, first[p], first[p + 1]) <= total / parts + heaviest + 1);
        }
    }
}

static void extremes(void)
{
    uint64_t w[3] = {UINT64_MAX, 1, UINT64_MAX}, first[4];
    tg_error e = {0};
    CHECK_STATUS(tg_units_cut(w, 3, 0, first, &e), TG_INVALID);
    CHECK_STATUS(tg_units_cut(w, 3, 3, first, &e), TG_OK);
    CHECK_U64(first[1], 1);
    CHECK_U64(first[3], 3);
    CHECK_STATUS(tg_units_cut(w, 0, 3, first, &e), TG_OK);
    CHECK_U64(first[3], 0);
}

static void clear_environment(void)
{
    static const char *const names[] = {
        "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN",
        "SLURM_PROCID",        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",           "PMI_RANK",
        "SGE_TASK_ID",         "PBS_ARRAY_INDEX",
        "LSB_JOBINDEX",        "PARALLEL_SEQ",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
}

static void parts_are_read(void)
{
    static const struct {
        const char *text, *name, *value;
        tg_status want;
        uint32_t part;
    } rows[] = {
        {"0/8", NULL, NULL, TG_OK, 0},
        {"7/8", NULL, NULL, TG_OK, 7},
        {"8/8", NULL, NULL, TG_INVALID, 0},
        {"1/7", NULL, NULL, TG_INVALID, 0},
        {"-1/8", NULL, NULL, TG_INVALID, 0},
        {"3", NULL, NULL, TG_INVALID, 0},
        {"", NULL, NULL, TG_INVALID, 0},
        {"1/", NULL, NULL, TG_INVALID, 0},
        {"auto", NULL, NULL, TG_INVALID, 0},
        {"auto", "SLURM_ARRAY_TASK_ID", "5", TG_OK, 5},
        {"auto", "SLURM_ARRAY_TASK_ID", "8", TG_INVALID, 0},
        {"auto", "SLURM_ARRAY_TASK_ID", "x", TG_INVALID, 0},
        {"auto", "OMPI_COMM_WORLD_RANK", "0", TG_OK, 0},
        {"auto", "SGE_TASK_ID", "1", TG_OK, 0},
        {"auto", "SGE_TASK_ID", "undefined", TG_INVALID, 0},
        {"auto", "PARALLEL_SEQ", "8", TG_OK, 7},
        {"auto", "PARALLEL_SEQ", "0", TG_INVALID, 0},
        {"auto", "LSB_JOBINDEX", "9", TG_INVALID, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t part = 0;
        tg_error e = {0};
        clear_environment();
        test_row = rows[i].name != NULL ? rows[i].name : rows[i].text;
        if (rows[i].name != NULL)
            (void)setenv(rows[i].name, rows[i].value, 1);
        CHECK_STATUS(tg_part_parse(rows[i].text, 8, &part, &e), rows[i].want);
        CHECK_U64(part, rows[i].part);
    }
    clear_environment();
}

static void set_and_check(const char *name, const char *value, uint32_t want)
{
    uint32_t part = 99;
    (void)setenv(name, value, 1);
    CHECK_STATUS(tg_part_parse("auto", 8, &part, NULL), TG_OK);
    CHECK_U64(part, want);
}

/* srun sets its own number for the launcher of an MPI job, and PMI's in each task of an array.
 */
static void the_engine_that_says_most_wins(void)
{
    clear_environment();
    set_and_check("SLURM_PROCID", "1", 1);
    set_and_check("PMI_RANK", "2", 2);
    set_and_check("OMPI_COMM_WORLD_RANK", "3", 3);
    set_and_check("LSB_JOBINDEX", "0", 3); /* as LSF says outside of arrays */
    set_and_check("SLURM_ARRAY_TASK_ID", "4", 4);
    /* Tasks 4 and 6 of an array submitted again are still parts 4 and 6. */
    set_and_check("SLURM_ARRAY_TASK_MIN", "4", 4);
    clear_environment();
}

static const struct test tests[] = {
    {"the_engine_that_says_most_wins", the_engine_that_says_most_wins},
    {"parts_are_contiguous_and_even", parts_are_contiguous_and_even},
    {"extremes", extremes},
    {"parts_are_read", parts_are_read},
};

TEST_MAIN(tests)
