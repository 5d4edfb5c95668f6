#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* usleep() */
#endif
#include "base/clock.h"
#include "check.h"
#include "exec/exec.h"

#include <stdatomic.h>
#include <unistd.h>

static tg_runtime *runtime(uint64_t bytes, uint32_t threads)
{
    tg_runtime *rt = NULL;
    tg_runtime_options o = {.size = sizeof o, .memory_bytes = bytes, .threads = threads};
    tg_error e = {0};
    CHECK_STATUS(tg_runtime_new(&o, &rt, &e), TG_OK);
    return rt;
}

static void counts_and_refuses_with_both_numbers(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(1000, 1);
    tg_budget *b = tg_runtime_budget(rt);
    tg_error e = {0};

    CHECK_STATUS(tg_budget_reserve(b, 600, "ring", &e), TG_OK);
    CHECK_STATUS(tg_budget_reserve(b, 401, "chunk", &e), TG_OVER_BUDGET);
    CHECK(strcmp(e.msg, "chunk: wants 401 bytes, 400 of the budget's 1000 are free") == 0);
    CHECK_STATUS(tg_budget_reserve(b, 400, "chunk", &e), TG_OK);
    CHECK_U64(tg_runtime_memory_used(rt), 1000);
    tg_budget_release(b, 1000);
    CHECK_U64(tg_runtime_memory_used(rt), 0);
    CHECK_U64(tg_runtime_memory_peak(rt), 1000);
}

static void what_can_never_be_is_refused_at_once(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(1000, 1);
    tg_budget *b = tg_runtime_budget(rt);
    tg_error e = {0};

    CHECK_STATUS(tg_budget_wait(b, 1001, 0, "x", NULL, &e), TG_OVER_BUDGET);
    CHECK_STATUS(tg_budget_wait(b, 900, 101, "x", NULL, &e), TG_OVER_BUDGET);
    CHECK_STATUS(tg_budget_wait(b, UINT64_MAX, UINT64_MAX, "x", NULL, &e), TG_OVER_BUDGET);
    CHECK_STATUS(tg_budget_wait(b, 900, 100, "x", NULL, &e), TG_OK);
}

static void a_deadline_ends_the_wait(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(1000, 1);
    tg_budget *b = tg_runtime_budget(rt);
    tg_cancel *c = NULL;
    tg_error e = {0};

    REQUIRE_OK(tg_cancel_new(&c, &e));
    CHECK_STATUS(tg_budget_reserve(b, 900, "x", &e), TG_OK);
    tg_cancel_deadline(c, 0.05);
    CHECK_STATUS(tg_budget_wait(b, 200, 0, "x", c, &e), TG_TIMED_OUT);
    CHECK_STATUS(tg_budget_reserve(b, 100, "x", &e), TG_OK);
    tg_cancel_free(c);
}

/* Several waiters, none over the total at any time, all served. */
typedef struct shared {
    tg_budget *b;
    _Atomic uint64_t held, worst;
} shared;

static tg_status hold(void *user, uint64_t i, uint32_t worker, tg_error *err)
{
    shared *s = user;
    uint64_t bytes = 100 + i % 7 * 100;
    (void)worker;
    TG_TRY(tg_budget_wait(s->b, bytes, 0, "x", NULL, err));
    uint64_t held = atomic_fetch_add(&s->held, bytes) + bytes, worst = atomic_load(&s->worst);
    while (held > worst && !atomic_compare_exchange_weak(&s->worst, &worst, held)) {
    }
    if (i % 16 == 0)
        (void)usleep(200);
    atomic_fetch_sub(&s->held, bytes);
    tg_budget_release(s->b, bytes);
    return TG_OK;
}

static void waiters_never_exceed_the_total(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(1000, 4);
    shared s = {.b = tg_runtime_budget(rt)};
    tg_error e = {0};

    CHECK_STATUS(tg_pool_each(tg_runtime_pool(rt), 2000, hold, &s, NULL, &e), TG_OK);
    CHECK(s.worst <= 1000);
    CHECK(s.worst > 0);
    CHECK_U64(tg_budget_used(s.b), 0);
}

/* --- Who is next --------------------------------------------------------- */

typedef struct job {
    tg_budget *b;
    uint64_t bytes, held;
    const tg_cancel *cancel;
    tg_thread *thread;
    atomic_bool ended;
    tg_status status;
    int place; /* in which it was served, from 1 */
} job;

static atomic_int served;

static void take_and_go(void *user)
{
    job *j = user;
    j->status = tg_budget_wait(j->b, j->bytes, j->held, "x", j->cancel, NULL);
    j->place = atomic_fetch_add(&served, 1) + 1;
    atomic_store(&j->ended, true);
}

/* Begins to wait, and is seen to wait: the next job comes behind it. */
static void begin_to_wait(job *j)
{
    CHECK_STATUS(tg_thread_start(&j->thread, "job", take_and_go, j, NULL), TG_OK);
    (void)usleep(10000);
}

static bool ends_within(job *j, int ms)
{
    for (; ms > 0 && !atomic_load(&j->ended); ms--)
        (void)usleep(1000);
    return atomic_load(&j->ended);
}

static void a_large_want_is_not_starved_by_small_ones(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(1000, 1);
    tg_budget *b = tg_runtime_budget(rt);
    job large = {.b = b, .bytes = 900}, small = {.b = b, .bytes = 50};

    atomic_store(&served, 0);
    REQUIRE_OK(tg_budget_reserve(b, 400, "x", NULL));
    begin_to_wait(&large);
    begin_to_wait(&small); /* 600 are free, and it must not have them */
    for (int i = 0; i < 6; i++) {
        tg_budget_release(b, 50);
        (void)usleep(5000);
    }
    CHECK(ends_within(&large, 2000));
    tg_thread_join(large.thread);
    CHECK(large.place == 1);
    tg_budget_release(b, 900);
    tg_thread_join(small.thread);
    CHECK(small.place == 2);
    CHECK_U64(tg_budget_used(b), 100 + 50);
    tg_budget_release(b, 150);
}

/* The first can only be served when the second, which waits behind it, has ended. */
static void nobody_waits_for_a_job_that_waits_behind_it(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(1000, 1);
    tg_budget *b = tg_runtime_budget(rt);
    job first = {.b = b, .bytes = 800}, second = {.b = b, .bytes = 100, .held = 300};

    REQUIRE_OK(
        tg_budget_reserve(b, 300 + 550, "what the second job holds, and works on", NULL));
    begin_to_wait(&first);
    begin_to_wait(&second);
    CHECK(ends_within(&second, 2000)); /* 150 are free */
    CHECK(!atomic_load(&first.ended));
    tg_budget_release(b, 300 + 550 + 100);
    CHECK(ends_within(&first, 2000));
    tg_thread_join(first.thread);
    tg_thread_join(second.thread);
    tg_budget_release(b, 800);
}

static void a_cancelled_waiter_leaves_the_line_at_once(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(1000, 1);
    tg_budget *b = tg_runtime_budget(rt);
    tg_cancel *c = NULL;
    REQUIRE_OK(tg_cancel_new(&c, NULL));
    job first = {.b = b, .bytes = 1000}, second = {.b = b, .bytes = 500, .cancel = c};

    REQUIRE_OK(tg_budget_reserve(b, 900, "x", NULL));
    begin_to_wait(&first);
    begin_to_wait(&second);
    tg_cancel_request(c);
    CHECK(ends_within(&second, 2000));
    CHECK_STATUS(second.status, TG_CANCELLED);
    CHECK(!atomic_load(&first.ended));
    tg_budget_release(b, 900);
    tg_thread_join(first.thread);
    tg_thread_join(second.thread);
    CHECK_STATUS(first.status, TG_OK);
    tg_budget_release(b, 1000);
    tg_cancel_free(c);
}

static tg_status make_and_free(tg_error *err)
{
    tg_runtime_options o = {.size = sizeof o, .memory_bytes = 1 << 20, .threads = 2};
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    return tg_runtime_new(&o, &rt, err);
}

static void every_allocation_may_fail(void)
{
    tg_error e = {0};
    CHECK_EVERY_ALLOC(make_and_free(&e));
}

static void options_are_checked(void)
{
    tg_runtime *rt = NULL;
    tg_runtime_options o = {.size = 1};
    tg_error e = {0};
    CHECK_STATUS(tg_runtime_new(&o, &rt, &e), TG_INVALID);
    o = (tg_runtime_options){.size = sizeof o, .threads = 100000};
    CHECK_STATUS(tg_runtime_new(&o, &rt, &e), TG_INVALID);
    REQUIRE_OK(tg_runtime_new(NULL, &rt, &e));
    CHECK_U64(tg_runtime_memory_bytes(rt), TG_DEFAULT_MEMORY_BYTES);
    CHECK(tg_runtime_threads(rt) >= 1);
    tg_runtime_free(rt);
}

static const struct test tests[] = {
    {"counts_and_refuses_with_both_numbers", counts_and_refuses_with_both_numbers},
    {"what_can_never_be_is_refused_at_once", what_can_never_be_is_refused_at_once},
    {"a_deadline_ends_the_wait", a_deadline_ends_the_wait},
    {"waiters_never_exceed_the_total", waiters_never_exceed_the_total},
    {"a_large_want_is_not_starved_by_small_ones", a_large_want_is_not_starved_by_small_ones},
    {"nobody_waits_for_a_job_that_waits_behind_it",
     nobody_waits_for_a_job_that_waits_behind_it},
    {"a_cancelled_waiter_leaves_the_line_at_once", a_cancelled_waiter_leaves_the_line_at_once},
    {"every_allocation_may_fail", every_allocation_may_fail},
    {"options_are_checked", options_are_checked},
};

TEST_MAIN(tests)
