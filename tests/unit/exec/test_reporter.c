#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* usleep() */
#endif
#include "check.h"
#include "exec/exec.h"

#include <stdatomic.h>
#include <unistd.h>

typedef struct heard {
    atomic_int inside;
    int n;
    bool wrong; /* counts went back, two at once, or a lock was held */
    tg_progress last;
} heard;

static void hear(void *user, const tg_progress *p)
{
    heard *h = user;
    h->wrong |= atomic_fetch_add(&h->inside, 1) != 0 || tg_lock_depth != 0;
    h->wrong |= p->done < h->last.done || p->bytes < h->last.bytes;
    h->n++;
    h->last = *p;
    atomic_fetch_sub(&h->inside, 1);
}

static tg_status add(void *user, uint64_t i, uint32_t worker, tg_error *err)
{
    (void)i, (void)worker, (void)err;
    (void)usleep(1000);
    tg_reporter_add(user, 1, 10);
    return TG_OK;
}

static void counts_of_many_threads_only_grow_and_end_with_all(void)
{
    tg_runtime_options o = {.size = sizeof o, .threads = 3};
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    heard h = {0};
    tg_reporter *r = NULL;
    REQUIRE_OK(tg_runtime_new(&o, &rt, NULL));
    REQUIRE_OK(tg_reporter_new(&r, hear, &h, "test", 900, NULL));
    CHECK_STATUS(tg_pool_each(tg_runtime_pool(rt), 900, add, r, NULL, NULL), TG_OK);
    tg_reporter_free(r);
    CHECK(!h.wrong);
    CHECK_U64(h.last.done, 900);
    CHECK_U64(h.last.bytes, 9000);
    CHECK(h.last.seconds > 0.2);
    /* Two threads may be due at once; one report an item would be 900. */
    CHECK(h.n >= 2 && h.n <= 4 + (int)(h.last.seconds * 20));
    CHECK(strcmp(h.last.stage, "test") == 0);
}

static void values_are_passed_on_and_stay(void)
{
    heard h = {0};
    tg_reporter *r = NULL;
    REQUIRE_OK(tg_reporter_new(&r, hear, &h, "record", 100, NULL));
    tg_reporter_set(r, &(tg_progress){.done = 1, .bytes = 5}, false);
    CHECK(h.n == 0); /* not yet time */
    tg_progress v = {.done = 10, .bytes = 50, .durable = 7, .lost = 2, .queue_bytes = 3};
    (void)usleep(20000);
    tg_reporter_set(r, &v, true);
    REQUIRE(h.n == 1);
    CHECK_U64(h.last.total, 100);
    CHECK_U64(h.last.durable, 7);
    CHECK(h.last.bytes_per_s > 0 && h.last.bytes_per_s <= 50 / 0.02);
    CHECK(h.last.eta_seconds > 0);
    tg_reporter_add(r, 90, 450);
    tg_reporter_free(r);
    CHECK_U64(h.last.done, 100);
    CHECK_U64(h.last.lost, 2);
    CHECK(h.last.eta_seconds >= 0 && h.last.eta_seconds <= 0);
    CHECK(!h.wrong);
}

static void nobody_listens(void)
{
    tg_reporter *r = NULL;
    REQUIRE_OK(tg_reporter_new(&r, NULL, NULL, "x", 1, NULL));
    CHECK(r == NULL);
    tg_reporter_add(r, 1, 1);
    tg_reporter_set(r, &(tg_progress){.done = 1}, true);
    tg_reporter_free(r);
}

static tg_status make_and_free(tg_error *err)
{
    heard h = {0};
    TG_AUTO_PTR(tg_reporter) r = NULL;
    return tg_reporter_new(&r, hear, &h, "x", 1, err);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(make_and_free(NULL));
}

static const struct test tests[] = {
    {"counts_of_many_threads_only_grow_and_end_with_all",
     counts_of_many_threads_only_grow_and_end_with_all},
    {"values_are_passed_on_and_stay", values_are_passed_on_and_stay},
    {"nobody_listens", nobody_listens},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
