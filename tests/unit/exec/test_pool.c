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
    for (uint32_t threads = 1; threads <= 3; threads++) {
        TG_AUTO_PTR(tg_runtime) rt = runtime(threads);
        tally t = {.fail_at = 10};
        tg_error e = {0};
        CHECK_STATUS(tg_pool_each(tg_runtime_pool(rt), N, count, &t, NULL, &e), TG_IO);
        CHECK(strcmp(e.msg, "item 10") == 0);
        CHECK(threads > 1 || t.calls == 11); /* others may be ahead of the one that fails */
    }
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

/* --- Loops within loops, and beside each other ----------------------------- */

typedef struct nest {
    tg_pool *pool;
    atomic_int calls;
} nest;

static tg_status inner(void *user, uint64_t i, uint32_t worker, tg_error *err)
{
    nest *n = user;
    (void)i, (void)worker, (void)err;
    atomic_fetch_add(&n->calls, 1);
    return TG_OK;
}

static tg_status outer(void *user, uint64_t i, uint32_t worker, tg_error *err)
{
    nest *n = user;
    (void)i, (void)worker;
    return tg_pool_each(n->pool, 50, inner, n, NULL, err);
}

static void loops_within_loops_end(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(3);
    nest n = {.pool = tg_runtime_pool(rt)};
    CHECK_STATUS(tg_pool_each(n.pool, 20, outer, &n, NULL, NULL), TG_OK);
    CHECK(n.calls == 1000);
}

static void run_outer(void *user)
{
    nest *n = user;
    CHECK_STATUS(tg_pool_each(n->pool, 20, outer, n, NULL, NULL), TG_OK);
}

static void many_callers_share_the_pool(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(3);
    nest n[4];
    tg_thread *threads[4] = {0};
    for (int i = 0; i < 4; i++) {
        n[i] = (nest){.pool = tg_runtime_pool(rt)};
        CHECK_STATUS(tg_thread_start(&threads[i], "caller", run_outer, &n[i], NULL), TG_OK);
    }
    for (int i = 0; i < 4; i++) {
        tg_thread_join(threads[i]);
        CHECK(n[i].calls == 1000);
    }
}

/* --- No lock is held where the program is called back ---------------------- */

static void hear_line(void *user, const char *line)
{
    CHECK(tg_lock_depth == 0);
    (void)snprintf(user, 64, "%s", line);
}

static void the_log_gets_whole_lines(void)
{
    char line[64] = "";
    tg_runtime_options o = {.size = sizeof o, .threads = 1, .log = hear_line, .log_user = line};
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    REQUIRE_OK(tg_runtime_new(&o, &rt, NULL));
    tg_runtime_log(rt, "%s: %d", "direct I/O", 7);
    CHECK(strcmp(line, "direct I/O: 7") == 0);
}

static tg_status see_locks(void *user, uint64_t i, uint32_t worker, tg_error *err)
{
    (void)user, (void)i, (void)worker, (void)err;
    CHECK(tg_lock_depth == 0);
    return TG_OK;
}

static void held_locks_are_counted_by_scope(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime(2);
    tg_mutex m, io;
    tg_mutex_init(&m);
    tg_mutex_init(&io);
    {
        TG_LOCKED_FOR_IO(&io);
        CHECK(tg_lock_depth == 0);
        TG_LOCKED(&m);
#ifndef NDEBUG
        CHECK(tg_lock_depth == 1);
#endif
    }
    CHECK(tg_lock_depth == 0);
    CHECK_STATUS(tg_pool_each(tg_runtime_pool(rt), 50, see_locks, NULL, NULL, NULL), TG_OK);
    tg_mutex_destroy(&io);
    tg_mutex_destroy(&m);
}

/* --- Threads --------------------------------------------------------------- */

static void use_stack(void *user)
{
    volatile char room[6 << 20];
    for (size_t i = 0; i < sizeof room; i += 4096)
        room[i] = 1;
    *(int *)user = room[4096];
}

static void a_thread_has_room(void)
{
    tg_thread *t = NULL;
    int done = 0;
    REQUIRE_OK(tg_thread_start(&t, "a name that is too long", use_stack, &done, NULL));
    tg_thread_join(t);
    CHECK(done == 1);
}

static tg_status start_and_join(tg_error *err)
{
    tg_thread *t = NULL;
    int done = 0;
    TG_TRY(tg_thread_start(&t, "x", use_stack, &done, err));
    tg_thread_join(t);
    return TG_OK;
}

static void every_allocation_of_a_thread_may_fail(void)
{
    CHECK_EVERY_ALLOC(start_and_join(NULL));
}

static const struct test tests[] = {
    {"a_thread_has_room", a_thread_has_room},
    {"every_allocation_of_a_thread_may_fail", every_allocation_of_a_thread_may_fail},
    {"each_item_once_and_no_worker_twice", each_item_once_and_no_worker_twice},
    {"the_first_failure_ends_it", the_first_failure_ends_it},
    {"a_cancelled_token_ends_it", a_cancelled_token_ends_it},
    {"loops_within_loops_end", loops_within_loops_end},
    {"many_callers_share_the_pool", many_callers_share_the_pool},
    {"the_log_gets_whole_lines", the_log_gets_whole_lines},
    {"held_locks_are_counted_by_scope", held_locks_are_counted_by_scope},
};

TEST_MAIN(tests)
