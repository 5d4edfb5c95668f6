/* The external sort of rows, in less room than they take: runs, several passes, merging in
 * order. */
#include "check.h"
#include "region/rows.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define N_VALUES 3

typedef struct sorted {
    uint64_t n, bad;
    uint64_t last[TG_ROW_KEYS];
    double sum;
} sorted;

static tg_status see(void *user, const uint64_t key[TG_ROW_KEYS], const double *values,
                     tg_error *err)
{
    sorted *s = user;

    (void)err;
    s->bad += s->n > 0 && memcmp(key, s->last, sizeof s->last) == 0;
    for (int i = 0; s->n > 0 && i < TG_ROW_KEYS && key[i] <= s->last[i]; i++) {
        if (key[i] == s->last[i])
            continue;
        s->bad++;
        break;
    }
    memcpy(s->last, key, sizeof s->last);
    s->sum += values[0];
    s->n++;
    return TG_OK;
}

/* Not associative in doubles: the order of merging shows. */
static void merge(void *user, double *into, const double *more)
{
    (void)user;
    into[0] += more[0];
    into[1] = into[1] / 3 + more[1];
    into[2]++;
}

static tg_status see_groups(void *user, const uint64_t key[TG_ROW_KEYS], const double *values,
                            tg_error *err)
{
    sorted *s = user;

    (void)err;
    s->bad += key[0] != s->n;
    s->sum = s->sum / 7 + values[1];
    s->last[0] += (uint64_t)values[2];
    s->n++;
    return TG_OK;
}

static tg_status sort_some(uint64_t n, size_t room, uint32_t n_group, uint64_t groups,
                           sorted *out, tg_error *err)
{
    char dir[] = "/tmp/tg-rows-XXXXXX";
    TG_AUTO_PTR(tg_row_sort) s = NULL;

    if (mkdtemp(dir) == NULL)
        return tg_fail(err, TG_IO, "mkdtemp");
    tg_folder folder = {.dir = open(dir, O_RDONLY | O_DIRECTORY), .path = dir};
    const tg_row_sort_options o = {.folder = &folder,
                                   .n_values = N_VALUES,
                                   .n_group = n_group,
                                   .merge = merge,
                                   .room = room};
    *out = (sorted){0};
    tg_status st = tg_row_sort_new(&s, &o, err);
    for (uint64_t i = 0, x = 1; i < n && st == TG_OK; i++) {
        x = (x + 7919) % n; /* n is no multiple of it: every number once */
        const uint64_t key[TG_ROW_KEYS] = {x % groups, x / groups, 0, n_group == 0 ? 0 : x};
        const double values[N_VALUES] = {1, (double)x * 0.1, 1};
        st = tg_row_sort_add(s, key, values, NULL, err);
    }
    if (st == TG_OK) /* twice: the second walk tells the same */
        st = tg_row_sort_each(s, n_group == 0 ? see : see_groups, out, NULL, err);
    *out = (sorted){0};
    if (st == TG_OK)
        st = tg_row_sort_each(s, n_group == 0 ? see : see_groups, out, NULL, err);
    (void)close(folder.dir);
    (void)rmdir(dir); /* runs have no name */
    return st;
}

static void in_any_room(void)
{
    static const uint64_t counts[] = {0, 1, 2, 1000, 5000, 60000};
    tg_error err = {0};
    sorted got;

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        REQUIRE_OK(sort_some(counts[i], TG_ROW_SORT_LEAST, 0, 10, &got, &err));
        CHECK_U64(got.n, counts[i]);
        CHECK_U64(got.bad, 0);
        CHECK(got.sum == (double)counts[i]);
    }
}

static void merged_in_order(void)
{
    tg_error err = {0};
    sorted small, large;

    REQUIRE_OK(sort_some(50000, TG_ROW_SORT_LEAST, 1, 999, &small, &err));
    REQUIRE_OK(sort_some(50000, (size_t)64 << 20, 1, 999, &large, &err));
    CHECK_U64(small.n, 999);
    CHECK_U64(small.bad + large.bad, 0);
    CHECK_U64(small.last[0], 50000);
    CHECK(memcmp(&small.sum, &large.sum, sizeof small.sum) == 0);
}

static tg_status sort_small(void)
{
    tg_error err = {0};
    sorted got;

    return sort_some(9000, TG_ROW_SORT_LEAST, 1, 10, &got, &err);
}

static void memory_may_run_out(void)
{
    CHECK_EVERY_ALLOC(sort_small());
}

static void too_wide_rows_are_refused(void)
{
    TG_AUTO_PTR(tg_row_sort) s = NULL;
    const tg_row_sort_options o = {.n_values = 10000, .room = TG_ROW_SORT_LEAST};
    tg_error err = {0};

    CHECK_STATUS(tg_row_sort_new(&s, &o, &err), TG_UNSUPPORTED);
}

static void where_a_table_goes(void)
{
    static const struct {
        const char *name, *text, *backend;
        tg_status want;
    } rows[] = {
        {"csv", "a/b.csv", NULL, TG_OK},
        {"json", "b.json", NULL, TG_OK},
        {"table", "table:x", "json", TG_OK},
        {"no name", "table:", NULL, TG_INVALID},
        {"a path", "table:a/b", NULL, TG_INVALID},
        {"only an ending", ".csv", NULL, TG_INVALID},
        {"unknown", "x.parquet", NULL, TG_INVALID},
        {"backend of a file", "x.csv", "csv", TG_INVALID},
        {"unknown backend", "table:x", "parquet", TG_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_row_target t = {0};
        tg_error err = {0};
        test_row = rows[i].name;
        CHECK_STATUS(tg_row_target_parse(&t, rows[i].text, rows[i].backend, &err),
                     rows[i].want);
    }
}

static const struct test tests[] = {
    {"in_any_room", in_any_room},
    {"merged_in_order", merged_in_order},
    {"memory_may_run_out", memory_may_run_out},
    {"too_wide_rows_are_refused", too_wide_rows_are_refused},
    {"where_a_table_goes", where_a_table_goes},
};

TEST_MAIN(tests)
