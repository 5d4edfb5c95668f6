/* exec/budget.c - bytes that may be held, and who is next to get some. Knows no bytes.
 *
 * Waiters are served in the order in which they came, so that a stream of small wants cannot
 * starve a large one. Two of them step aside: one that cannot be served while the others who
 * wait hold what they hold for good (it would wait for a job that waits behind it), and any,
 * once nothing was given back for a while (someone holds memory without waiting for any). */
#include "exec/budget.h"

#include "base/clock.h"

#include <assert.h>

#define LOOK_NS \
    ((int64_t)20 * 1000000) /* between looks at a cancel token, which wakes nobody */
#define STALL_NS ((int64_t)100 * 1000000) /* without a release: those behind may pass */

typedef struct waiter {
    uint64_t bytes, held;
    struct waiter *next;
} waiter;

struct tg_budget {
    tg_mutex lock; /* guards all below */
    tg_cond changed;
    uint64_t total, used, peak, stage_peak;
    int64_t released_ns; /* when bytes were last given back */
    waiter *first;       /* in order of arrival; each lies on the stack of its thread */
};

tg_status tg_budget_new(tg_budget **out, uint64_t total, tg_error *err)
{
    tg_budget *b = tg_calloc(1, sizeof *b);
    if (b == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a budget");
    tg_mutex_init(&b->lock);
    tg_cond_init(&b->changed);
    b->total = total;
    *out = b;
    return TG_OK;
}

void tg_budget_free(tg_budget *b)
{
    if (b == NULL)
        return;
    tg_cond_destroy(&b->changed);
    tg_mutex_destroy(&b->lock);
    tg_free(b);
}

static bool take(tg_budget *b, uint64_t bytes)
{
    if (bytes > b->total - b->used && TG_PLANT != 13)
        return false;
    b->used += bytes;
    b->peak = b->used > b->peak ? b->used : b->peak;
    b->stage_peak = b->used > b->stage_peak ? b->used : b->stage_peak;
    return true;
}

tg_status tg_budget_reserve(tg_budget *b, uint64_t bytes, const char *what, tg_error *err)
{
    uint64_t used;
    {
        TG_LOCKED(&b->lock);
        if (take(b, bytes))
            return TG_OK;
        used = b->used;
    }
    return tg_fail(err, TG_OVER_BUDGET,
                   "%s: wants %llu bytes, %llu of the budget's %llu are free", what,
                   (unsigned long long)bytes, (unsigned long long)(b->total - used),
                   (unsigned long long)b->total);
}

/* May w go now, as far as those before it are concerned? */
static bool is_turn_of(const tg_budget *b, const waiter *w)
{
    if (b->first == w || tg_clock_ns() - b->released_ns > STALL_NS)
        return true;
    uint64_t held = 0;
    for (const waiter *o = b->first; o != NULL; o = o->next)
        if (__builtin_add_overflow(held, o->held, &held))
            held = UINT64_MAX;
    uint64_t can_come_free = held < b->total ? b->total - held : 0;
    for (const waiter *o = b->first; o != w; o = o->next) {
        assert(o != NULL); /* w is in the line */
        if (o->bytes <= can_come_free)
            return false;
    }
    return true;
}

static void enqueue(tg_budget *b, waiter *w)
{
    if (b->first == NULL)
        b->released_ns = tg_clock_ns(); /* a wait begins: no stall yet */
    waiter **end = &b->first;
    while (*end != NULL)
        end = &(*end)->next;
    *end = w;
    tg_cond_broadcast(&b->changed); /* what it holds may let another pass */
}

static void dequeue(tg_budget *b, waiter *w)
{
    waiter **at = &b->first;
    while (*at != w) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = w->next;
    tg_cond_broadcast(&b->changed);
}

/* Locked by the caller. */
static tg_status wait_turn(tg_budget *b, waiter *w, const tg_cancel *cancel, tg_error *err)
{
    while (!is_turn_of(b, w) || !take(b, w->bytes)) {
        TG_TRY(tg_cancel_check(cancel, err));
        (void)tg_cond_wait_until(&b->changed, &b->lock, tg_clock_ns() + LOOK_NS);
    }
    return TG_OK;
}

tg_status tg_budget_wait(tg_budget *b, uint64_t bytes, uint64_t held, const char *what,
                         const tg_cancel *cancel, tg_error *err)
{
    TG_ASSERT_UNLOCKED();
    if (held > b->total || bytes > b->total - held)
        return tg_fail(err, TG_OVER_BUDGET,
                       "%s: wants %llu bytes beside the %llu its job holds, the budget is %llu",
                       what, (unsigned long long)bytes, (unsigned long long)held,
                       (unsigned long long)b->total);
    TG_LOCKED(&b->lock);
    if (b->first == NULL && take(b, bytes))
        return TG_OK;
    waiter w = {bytes, held, NULL};
    enqueue(b, &w);
    tg_status st = wait_turn(b, &w, cancel, err);
    dequeue(b, &w);
    return st;
}

void tg_budget_release(tg_budget *b, uint64_t bytes)
{
    if (bytes == 0)
        return;
    TG_LOCKED(&b->lock);
    assert(bytes <= b->used);
    b->used -= bytes;
    if (b->first != NULL) {
        b->released_ns = tg_clock_ns();
        tg_cond_broadcast(&b->changed);
    }
}

uint64_t tg_budget_total(const tg_budget *b)
{
    return b->total; /* never changes */
}

/* Locking changes nothing that a caller can see. */
static uint64_t read_locked(const tg_budget *b, const uint64_t *field)
{
    TG_LOCKED((tg_mutex *)(uintptr_t)&b->lock);
    return *field;
}

uint64_t tg_budget_used(const tg_budget *b)
{
    return read_locked(b, &b->used);
}

uint64_t tg_budget_stage_peak(tg_budget *b)
{
    TG_LOCKED(&b->lock);
    uint64_t most = b->stage_peak;
    b->stage_peak = b->used;
    return most;
}

uint64_t tg_budget_peak(const tg_budget *b)
{
    return read_locked(b, &b->peak);
}
