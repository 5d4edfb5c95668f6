#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* usleep() */
#endif
#include "base/clock.h"
#include "check.h"
#include "exec/exec.h"

#include <stdatomic.h>
#include <unistd.h>

static tg_runtime *runtime(uint32_t threads)
{
    tg_runtime *rt = NULL;
    tg_runtime_options o = {.size = sizeof o, .threads = threads};
    tg_error e = {0};
    CHECK_STATUS(tg_runtime_new(&o, &rt, &e), TG_OK);
    return rt;
}

enum { N = 1000, MAX_WORKERS = 16 };

typedef struct tally {
    atomic_int seen[N];
    atomic_int inside[MAX_WORKERS];
    atomic_int collisions;
    uint64_t fail_at;
    atomic_int calls;
} tally;

static tg_status count(void *user, uint64_t i, uint32_t worker, tg_error *err)
{
    tally *t = user;
    atomic_fetch_add(&t->calls, 1);
    if (atomic_fetch_add(&t->inside[worker], 1) != 0)
        atomic_fetch_add(&t->collisions, 1);
    atomic_fetch_add(&t->seen[i], 1);
    atomic_fetch_sub(&t->inside[worker], 1);
    return i == t->fail_at ? tg_fail(err, TG_IO, "item %llu", (unsigned long long)i) : TG_OK;
}

static void each_item_once_and_no_worker_twice(void)
{
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        TG_AUTO_PTR(tg_runtime) rt = runtime(threads);
        tally t = {.fail_at = N};
        tg_error e = {0};
        CHECK_U64(tg_pool_width(tg_runtime_pool(rt)), threads);
        CHECK_STATUS(tg_pool_each(tg_runtime_pool(rt), N, count, &t, NULL, &e), TG_OK);
        for (int i = 0; i < N; i++)
            CHECK(t.seen[i] == 1);
        CHECK(t.collisions == 0);
        CHECK_STATUS(tg_pool_each(tg_runtime_pool(rt), 0, count, &t, NULL, &e), TG_OK);
    }
}

static void the_first_failure_ends_it(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(3);
    tally t = {.fail_at = 10};
    tg_error e = {0};
    CHECK_STATUS(tg_pool_each(tg_runtime_pool(rt), N, count, &t, NULL, &e), TG_IO);
    CHECK(strcmp(e.msg, "item 10") == 0);
    CHECK(t.calls < N);
}

static void a_cancelled_token_ends_it(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(2);
    tally t = {.fail_at = N};
    tg_cancel *c = NULL;
    tg_error e = {0};
    REQUIRE_OK(tg_cancel_new(&c, &e));
    tg_cancel_request(c);
    CHECK_STATUS(tg_pool_each(tg_runtime_pool(rt), N, count, &t, c, &e), TG_CANCELLED);
    CHECK(t.calls == 0);
    tg_cancel_free(c);
}

/* --- pipeline ---------------------------------------------------------------- */

typedef struct line {
    uint64_t n, next, sunk;
    _Atomic int64_t in_flight;
    int64_t most, dropped;
    bool out_of_order;
    uint64_t items[N];
    uint64_t fail_next, fail_work, fail_sink;
    bool stall;
} line;

static tg_status make(void *user, void **item, tg_error *err)
{
    line *l = user;
    if (l->next == l->fail_next)
        return tg_fail(err, TG_IO, "next");
    if (l->next == l->n)
        return TG_CLOSED;
    int64_t now = atomic_fetch_add(&l->in_flight, 1) + 1;
    l->most = now > l->most ? now : l->most;
    l->items[l->next] = l->next;
    *item = &l->items[l->next++];
    return TG_OK;
}

static tg_status work(void *user, void *item, uint32_t worker, tg_error *err)
{
    line *l = user;
    uint64_t i = *(uint64_t *)item;
    (void)worker;
    if (l->stall && i % 5 == 0)
        (void)usleep((useconds_t)(i * 37 % 400));
    return i == l->fail_work ? tg_fail(err, TG_IO, "work") : TG_OK;
}

static tg_status sink(void *user, void *item, tg_error *err)
{
    line *l = user;
    uint64_t i = *(uint64_t *)item;
    l->out_of_order |= i != l->sunk;
    l->sunk++;
    atomic_fetch_sub(&l->in_flight, 1);
    return i == l->fail_sink ? tg_fail(err, TG_IO, "sink") : TG_OK;
}

static void drop(void *user, void *item)
{
    line *l = user;
    (void)item;
    l->dropped++;
    atomic_fetch_sub(&l->in_flight, 1);
}

static void results_come_in_order_and_never_more_than_depth(void)
{
    static const uint32_t depths[] = {1, 2, 8};
    for (uint32_t threads = 1; threads <= 4; threads++) {
        for (size_t d = 0; d < 3; d++) {
            TG_AUTO_PTR(tg_runtime) rt = runtime(threads);
            line l = {.n = 200, .fail_next = N, .fail_work = N, .fail_sink = N, .stall = true};
            tg_pipeline p = {&l, make, work, sink, drop, depths[d]};
            tg_error e = {0};
            CHECK_STATUS(tg_pipeline_run(tg_runtime_pool(rt), &p, NULL, &e), TG_OK);
            CHECK(!l.out_of_order);
            CHECK_U64(l.sunk, 200);
            CHECK(l.most <= (int64_t)depths[d]);
            CHECK(l.in_flight == 0);
        }
    }
}

static void a_failing_pipeline_gives_every_item_back(void)
{
    static const char *const where[] = {"next", "work", "sink"};
    for (int k = 0; k < 3; k++) {
        TG_AUTO_PTR(tg_runtime) rt = runtime(3);
        line l = {.n = 200, .fail_next = N, .fail_work = N, .fail_sink = N, .stall = true};
        tg_pipeline p = {&l, make, work, sink, drop, 4};
        tg_error e = {0};
        test_row = where[k];
        *(k == 0 ? &l.fail_next : k == 1 ? &l.fail_work : &l.fail_sink) = 50;
        CHECK_STATUS(tg_pipeline_run(tg_runtime_pool(rt), &p, NULL, &e), TG_IO);
        CHECK(strcmp(e.msg, where[k]) == 0);
        CHECK(l.in_flight == 0);
        CHECK(l.sunk < 200);
    }
}

/* --- progress ---------------------------------------------------------------- */

typedef struct heard {
    int n;
    uint64_t done;
    bool went_back;
} heard;

static void hear(void *user, const tg_progress *p)
{
    heard *h = user;
    h->n++;
    h->went_back |= p->done < h->done;
    h->done = p->done;
}

static tg_status add(void *user, uint64_t i, uint32_t worker, tg_error *err)
{
    (void)i;
    (void)worker;
    (void)err;
    (void)usleep(1000);
    tg_reporter_add(user, 1, 10);
    return TG_OK;
}

static void progress_only_grows_and_ends_with_all(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(3);
    heard h = {0};
    tg_reporter *r = NULL;
    tg_error e = {0};
    REQUIRE_OK(tg_reporter_new(&r, hear, &h, "test", 600, &e));
    CHECK_STATUS(tg_pool_each(tg_runtime_pool(rt), 600, add, r, NULL, &e), TG_OK);
    tg_reporter_free(r);
    CHECK(!h.went_back);
    CHECK_U64(h.done, 600);
    CHECK(h.n >= 2);
}

static const struct test tests[] = {
    {"each_item_once_and_no_worker_twice",              each_item_once_and_no_worker_twice      },
    {"the_first_failure_ends_it",                       the_first_failure_ends_it               },
    {"a_cancelled_token_ends_it",                       a_cancelled_token_ends_it               },
    {"results_come_in_order_and_never_more_than_depth",
     results_come_in_order_and_never_more_than_depth                                            },
    {"a_failing_pipeline_gives_every_item_back",        a_failing_pipeline_gives_every_item_back},
    {"progress_only_grows_and_ends_with_all",           progress_only_grows_and_ends_with_all   },
};

TEST_MAIN(tests)
