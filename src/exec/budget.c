/* exec/budget.c - admission of memory. Takes none itself: it only counts what may be taken. */
#include "exec/budget.h"

#include "base/clock.h"

#include <assert.h>
#include <stdatomic.h>

struct tg_budget {
    tg_mutex lock; /* guards tickets; used and peak are written under it, read without */
    tg_cond freed;
    uint64_t total;
    _Atomic uint64_t used, peak;
    uint64_t next_ticket, now_serving; /* waiters go in the order in which they came */
};

tg_status tg_budget_new(tg_budget **out, uint64_t bytes, tg_error *err)
{
    tg_budget *b = tg_calloc(1, sizeof *b);
    if (b == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a budget");
    tg_mutex_init(&b->lock);
    tg_cond_init(&b->freed);
    b->total = bytes;
    *out = b;
    return TG_OK;
}

void tg_budget_free(tg_budget *b)
{
    if (b == NULL)
        return;
    tg_cond_destroy(&b->freed);
    tg_mutex_destroy(&b->lock);
    tg_free(b);
}

static bool take(tg_budget *b, uint64_t bytes)
{
    uint64_t used = atomic_load(&b->used);
    if (bytes > b->total - used)
        return false;
    used += bytes;
    atomic_store(&b->used, used);
    if (used > atomic_load(&b->peak))
        atomic_store(&b->peak, used);
    return true;
}

static tg_status over(const tg_budget *b, uint64_t bytes, uint64_t free_bytes, const char *what,
                      tg_error *err)
{
    return tg_fail(err, TG_OVER_BUDGET,
                   "%s: wants %llu bytes, %llu of the budget's %llu are free", what,
                   (unsigned long long)bytes, (unsigned long long)free_bytes,
                   (unsigned long long)b->total);
}

tg_status tg_budget_reserve(tg_budget *b, uint64_t bytes, const char *what, tg_error *err)
{
    TG_LOCKED(&b->lock);
    if (take(b, bytes))
        return TG_OK;
    return over(b, bytes, b->total - atomic_load(&b->used), what, err);
}

tg_status tg_budget_wait(tg_budget *b, uint64_t bytes, uint64_t held, const char *what,
                         const tg_cancel *cancel, tg_error *err)
{
    if (held > b->total || bytes > b->total - held)
        return over(b, bytes, held > b->total ? 0 : b->total - held, what, err);

    TG_LOCKED(&b->lock);
    uint64_t ticket = b->next_ticket++;
    tg_status st = TG_OK;
    while (ticket != b->now_serving || !take(b, bytes)) {
        st = tg_cancel_check(cancel, err);
        if (st != TG_OK && ticket == b->now_serving)
            break;
        /* The token wakes nobody, hence the look every 50 ms. */
        (void)tg_cond_wait_until(&b->freed, &b->lock, tg_clock_ns() + 50000000);
        st = TG_OK;
    }
    b->now_serving++;
    tg_cond_broadcast(&b->freed);
    return st;
}

void tg_budget_release(tg_budget *b, uint64_t bytes)
{
    TG_LOCKED(&b->lock);
    uint64_t used = atomic_load(&b->used);
    assert(bytes <= used);
    atomic_store(&b->used, used - bytes);
    tg_cond_broadcast(&b->freed);
}

uint64_t tg_budget_total(const tg_budget *b)
{
    return b->total;
}

uint64_t tg_budget_used(const tg_budget *b)
{
    return atomic_load(&b->used);
}

uint64_t tg_budget_peak(const tg_budget *b)
{
    return atomic_load(&b->peak);
}
