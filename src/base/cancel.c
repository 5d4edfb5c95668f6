/* base/cancel.c - the cancel token: one flag, one deadline. Wakes nobody. */
#include "tidegate/cancel.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdatomic.h>

struct tg_cancel {
    atomic_bool requested;
    _Atomic int64_t deadline_ns; /* tg_clock_ns(); INT64_MAX: none */
};

tg_status tg_cancel_new(tg_cancel **out, tg_error *err)
{
    tg_cancel *c = tg_alloc(sizeof *c);
    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a cancel token");
    atomic_init(&c->requested, false);
    atomic_init(&c->deadline_ns, INT64_MAX);
    *out = c;
    return TG_OK;
}

void tg_cancel_free(tg_cancel *c)
{
    tg_free(c);
}

void tg_cancel_request(tg_cancel *c)
{
    atomic_store(&c->requested, true);
}

void tg_cancel_deadline(tg_cancel *c, double seconds)
{
    int64_t now = tg_clock_ns();
    double left = (double)(INT64_MAX - now);
    if (!(seconds >
          0)) /* NaN too: a deadline that means nothing is no reason to run for ever */
        atomic_store(&c->deadline_ns, now);
    else if (seconds * 1e9 >= left)
        atomic_store(&c->deadline_ns, INT64_MAX);
    else
        atomic_store(&c->deadline_ns, now + (int64_t)(seconds * 1e9));
}

bool tg_cancel_requested(const tg_cancel *c)
{
    if (c == NULL)
        return false;
    int64_t deadline = atomic_load(&c->deadline_ns);
    return atomic_load(&c->requested) || (deadline != INT64_MAX && tg_clock_ns() >= deadline);
}

tg_status tg_cancel_check(const tg_cancel *c, tg_error *err)
{
    if (!tg_cancel_requested(c))
        return TG_OK;
    if (atomic_load(&c->requested))
        return tg_fail(err, TG_CANCELLED, "cancelled");
    return tg_fail(err, TG_TIMED_OUT, "deadline reached");
}
