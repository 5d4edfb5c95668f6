#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* usleep() */
#endif
#include "check.h"
#include "exec/exec.h"

#include <stdatomic.h>
#include <unistd.h>

enum { N = 200, NEVER = N + 1, ITEM_BYTES = 100 };

/* A line of numbered items, each of which takes bytes of a budget in next(). */
typedef struct line {
    tg_budget *budget;
    tg_cancel *cancel;
    uint64_t next, sunk, cancel_at, fail_next, fail_work, fail_sink;
    _Atomic int64_t in_flight, most, dropped;
    atomic_int making, sinking;
    atomic_bool wrong; /* out of order, or two at once */
    uint64_t items[N];
    bool stall;
} line;

static void enter(line *l, atomic_int *inside)
{
    if (atomic_fetch_add(inside, 1) != 0 || tg_lock_depth != 0)
        atomic_store(&l->wrong, true);
}

static tg_status make(void *user, void **item, tg_error *err)
{
    line *l = user;
    enter(l, &l->making);
    tg_status st = l->next == N ? TG_CLOSED : TG_OK;
    if (l->next == l->fail_next)
        st = tg_fail(err, TG_IO, "next");
    if (l->next == l->cancel_at)
        tg_cancel_request(l->cancel);
    if (st == TG_OK)
        st = tg_budget_wait(l->budget, ITEM_BYTES, 0, "item", NULL, err);
    if (st == TG_OK) {
        int64_t now = atomic_fetch_add(&l->in_flight, 1) + 1;
        if (now > atomic_load(&l->most))
            atomic_store(&l->most, now);
        l->items[l->next] = l->next;
        *item = &l->items[l->next++];
    }
    atomic_fetch_sub(&l->making, 1);
    return st;
}

static tg_status work(void *user, void *item, uint32_t worker, tg_error *err)
{
    line *l = user;
    uint64_t i = *(uint64_t *)item;
    (void)worker;
    /* The early ones are slow: the later ones are done, and wait for them. */
    if (l->stall && i % 8 == 0)
        (void)usleep((useconds_t)(i * 37 % 2000));
    return i == l->fail_work ? tg_fail(err, TG_IO, "work") : TG_OK;
}

static void give_back(line *l)
{
    atomic_fetch_sub(&l->in_flight, 1);
    tg_budget_release(l->budget, ITEM_BYTES);
}

static tg_status sink(void *user, void *item, tg_error *err)
{
    line *l = user;
    uint64_t i = *(uint64_t *)item;
    enter(l, &l->sinking);
    if (i != l->sunk)
        atomic_store(&l->wrong, true);
    l->sunk++;
    give_back(l);
    atomic_fetch_sub(&l->sinking, 1);
    return i == l->fail_sink ? tg_fail(err, TG_IO, "sink") : TG_OK;
}

static void drop(void *user, void *item)
{
    line *l = user;
    (void)item;
    atomic_fetch_add(&l->dropped, 1);
    give_back(l);
}

typedef struct setup {
    tg_runtime *rt;
    line l;
    tg_pipeline p;
} setup;

static void setup_auto(setup *s)
{
    tg_runtime_free(s->rt);
}

/* room: how many items the budget holds. */
static void begin(setup *s, uint32_t threads, uint32_t depth, uint64_t room)
{
    tg_runtime_options o = {
        .size = sizeof o, .threads = threads, .memory_bytes = room * ITEM_BYTES};
    CHECK_STATUS(tg_runtime_new(&o, &s->rt, NULL), TG_OK);
    s->l = (line){.budget = tg_runtime_budget(s->rt),
                  .cancel_at = NEVER,
                  .fail_next = NEVER,
                  .fail_work = NEVER,
                  .fail_sink = NEVER,
                  .stall = true};
    s->p = (tg_pipeline){&s->l, make, work, sink, drop, depth};
}

static void results_come_in_order_and_never_more_than_depth(void)
{
    static const uint32_t depths[] = {1, 2, 8}, rooms[] = {1, 3, 100};
    for (int i = 0; i < 4 * 3 * 3; i++) {
        uint32_t threads = 1 + (uint32_t)i % 4, depth = depths[i / 4 % 3], room = rooms[i / 12];
        TG_AUTO(setup) s = {0};
        begin(&s, threads, depth, room);
        CHECK_STATUS(tg_pipeline_run(tg_runtime_pool(s.rt), &s.p, NULL, NULL), TG_OK);
        CHECK(!s.l.wrong);
        CHECK_U64(s.l.sunk, N);
        CHECK(s.l.dropped == 0);
        CHECK((uint64_t)s.l.most <= depth && (uint64_t)s.l.most <= room);
        CHECK_U64(tg_runtime_memory_used(s.rt), 0);
    }
}

/* Also where next() waits for the memory of items that are done and will never be consumed. */
static void a_failing_pipeline_gives_every_item_back(void)
{
    static const char *const where[] = {"next", "work", "sink"};
    for (int i = 0; i < 3 * 40; i++) {
        TG_AUTO(setup) s = {0};
        tg_error e = {0};
        int k = i % 3;
        begin(&s, 1 + (uint32_t)i % 4, 8, i % 2 == 0 ? 3 : 100);
        test_row = where[k];
        *(k == 0 ? &s.l.fail_next : k == 1 ? &s.l.fail_work : &s.l.fail_sink) = (uint64_t)i;
        CHECK_STATUS(tg_pipeline_run(tg_runtime_pool(s.rt), &s.p, NULL, &e), TG_IO);
        CHECK(strcmp(e.msg, where[k]) == 0);
        CHECK(!s.l.wrong);
        CHECK(s.l.in_flight == 0);
        CHECK(s.l.sunk < N);
        CHECK_U64(s.l.sunk + (uint64_t)s.l.dropped, s.l.next);
        CHECK_U64(tg_runtime_memory_used(s.rt), 0);
    }
}

static void a_cancelled_pipeline_gives_every_item_back(void)
{
    for (uint64_t at = 0; at < 20; at++) {
        TG_AUTO(setup) s = {0};
        begin(&s, 3, 4, 100);
        REQUIRE_OK(tg_cancel_new(&s.l.cancel, NULL));
        s.l.cancel_at = at;
        CHECK_STATUS(tg_pipeline_run(tg_runtime_pool(s.rt), &s.p, s.l.cancel, NULL),
                     TG_CANCELLED);
        CHECK(!s.l.wrong);
        CHECK(s.l.in_flight == 0);
        CHECK_U64(s.l.next, at + 1); /* the one in which it was asked */
        tg_cancel_free(s.l.cancel);
    }
}

static tg_status run_once(setup *s, tg_error *err)
{
    s->l.next = s->l.sunk = 0;
    return tg_pipeline_run(tg_runtime_pool(s->rt), &s->p, NULL, err);
}

static void no_room_and_no_memory(void)
{
    TG_AUTO(setup) s = {0};
    begin(&s, 2, 0, 100);
    CHECK_STATUS(run_once(&s, NULL), TG_INVALID);
    s.p.depth = 4;
    CHECK_EVERY_ALLOC(run_once(&s, NULL));
}

static const struct test tests[] = {
    {"results_come_in_order_and_never_more_than_depth",
     results_come_in_order_and_never_more_than_depth},
    {"a_failing_pipeline_gives_every_item_back", a_failing_pipeline_gives_every_item_back},
    {"a_cancelled_pipeline_gives_every_item_back", a_cancelled_pipeline_gives_every_item_back},
    {"no_room_and_no_memory", no_room_and_no_memory},
};

TEST_MAIN(tests)
