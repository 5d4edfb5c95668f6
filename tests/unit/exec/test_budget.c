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
    {"a_deadline_ends_the_wait",             a_deadline_ends_the_wait            },
    {"waiters_never_exceed_the_total",       waiters_never_exceed_the_total      },
    {"every_allocation_may_fail",            every_allocation_may_fail           },
    {"options_are_checked",                  options_are_checked                 },
};

TEST_MAIN(tests)
