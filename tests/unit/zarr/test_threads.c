/* One array in many threads: reads of anything, writes that share no unit. */
#include "check.h"
#include "zarr/zarr.h"

#include <pthread.h>

enum { THREADS = 4, ROWS = 64, COLUMNS = 32, ROUNDS = 20 };

typedef struct work {
    tg_array *a;
    uint64_t first; /* of THREADS stripes of rows */
    int failures;
} work;

static uint16_t value(uint64_t row, uint64_t column, int round)
{
    return (uint16_t)(1 + row * COLUMNS + column + (uint64_t)round * 3000);
}

/* Writes its own stripe, and reads it back beside the others' writes; and the rows that nobody
 * writes any more. */
static void *run(void *user)
{
    work *w = user;
    const uint64_t n = ROWS / THREADS / 2;
    uint64_t start[2] = {w->first, 0}, count[2] = {n, COLUMNS};
    const uint64_t quiet[2] = {ROWS / 2, 0}, half[2] = {ROWS / 2, COLUMNS};
    uint16_t mine[ROWS * COLUMNS / THREADS / 2], got[ROWS * COLUMNS / 2];

    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < n * COLUMNS; i++)
            mine[i] = value(w->first + i / COLUMNS, i % COLUMNS, round);
        w->failures += tg_array_write(w->a, start, count, mine, NULL, NULL, NULL) != TG_OK;
        w->failures += tg_array_read(w->a, start, count, got, NULL, NULL, NULL) != TG_OK;
        w->failures += memcmp(got, mine, sizeof mine) != 0;
        w->failures += tg_array_read(w->a, quiet, half, got, NULL, NULL, NULL) != TG_OK;
        for (uint64_t i = 0; i < half[0] * COLUMNS; i++)
            w->failures += got[i] != value(ROWS / 2 + i / COLUMNS, i % COLUMNS, 0);
    }
    return NULL;
}

static void reads_and_writes_beside_each_other(void)
{
    for (int sharded = 0; sharded < 2; sharded++) {
        const uint64_t shape[2] = {ROWS, COLUMNS}, chunk[2] = {4, 16}, shard[2] = {8, 32};
        const uint64_t zero[2] = {0, 0};
        const tg_array_options o = {.size = sizeof o,
                                    .dtype = {TG_DT_UINT, 2},
                                    .ndim = 2,
                                    .shape = shape,
                                    .chunk = chunk,
                                    .shard = sharded ? shard : NULL,
                                    .codec = "zstd:1"};
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_array) a = NULL;
        static uint16_t all[ROWS * COLUMNS];
        pthread_t threads[THREADS];
        work works[THREADS];

        for (uint64_t i = 0; i < ROWS * COLUMNS; i++)
            all[i] = value(i / COLUMNS, i % COLUMNS, 0);
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(tg_array_create(s, "x", &o, &a, NULL, NULL));
        REQUIRE_OK(tg_array_write(a, zero, shape, all, NULL, NULL, NULL));
        for (uint64_t i = 0; i < THREADS; i++) {
            works[i] = (work){a, i * (ROWS / THREADS / 2), 0};
            REQUIRE(pthread_create(&threads[i], NULL, run, &works[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++) {
            (void)pthread_join(threads[i], NULL);
            CHECK_U64((uint64_t)works[i].failures, 0);
        }
    }
}

static const struct test tests[] = {
    {"reads_and_writes_beside_each_other", reads_and_writes_beside_each_other},
};

TEST_MAIN(tests)
