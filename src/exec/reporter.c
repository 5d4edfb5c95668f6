/* exec/reporter.c - turns counts from many threads into a report every 100 ms, with rate and
 * time left. */
#include "base/clock.h"
#include "exec/exec.h"

#include <stdatomic.h>
#include <string.h>

enum { EVERY_NS = 100000000, N_MARKS = 50 }; /* marks 100 ms apart: rates over the last 5 s */

typedef struct mark {
    int64_t ns;
    uint64_t done, bytes;
} mark;

struct tg_reporter {
    tg_progress_fn fn;
    void *user;
    const char *stage;
    uint64_t total;
    int64_t began_ns;
    _Atomic uint64_t done, bytes;
    _Atomic int64_t next_ns; /* when the next report is due: whoever moves it reports */
    tg_mutex lock; /* guards all below; held while fn runs, so that reports keep their order */
    mark marks[N_MARKS];
    size_t n_marks;
    tg_progress last;
};

tg_status tg_reporter_new(tg_reporter **out, tg_progress_fn fn, void *user, const char *stage,
                          uint64_t total, tg_error *err)
{
    if (fn == NULL) {
        *out = NULL;
        return TG_OK;
    }
    tg_reporter *r = tg_calloc(1, sizeof *r);
    if (r == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to report progress");
    r->fn = fn;
    r->user = user;
    r->stage = stage;
    r->total = total;
    r->began_ns = tg_clock_ns();
    atomic_store(&r->next_ns, r->began_ns + EVERY_NS);
    tg_mutex_init(&r->lock);
    *out = r;
    return TG_OK;
}

static void report(tg_reporter *r, tg_progress p, int64_t now)
{
    pthread_mutex_lock(&r->lock); /* not TG_LOCKED: this lock is there to order the callbacks */
    /* A thread that was overtaken reports what is known by now: counts only grow. */
    p.done = p.done < r->last.done ? r->last.done : p.done;
    p.bytes = p.bytes < r->last.bytes ? r->last.bytes : p.bytes;
    mark oldest =
        r->n_marks < N_MARKS ? (mark){r->began_ns, 0, 0} : r->marks[r->n_marks % N_MARKS];
    r->marks[r->n_marks++ % N_MARKS] = (mark){now, p.done, p.bytes};
    double span = (double)(now - oldest.ns) / 1e9;
    double items_per_s = span > 0 ? (double)(p.done - oldest.done) / span : 0;

    p.stage = r->stage;
    p.total = r->total;
    p.seconds = (double)(now - r->began_ns) / 1e9;
    p.bytes_per_s = span > 0 ? (double)(p.bytes - oldest.bytes) / span : 0;
    p.eta_seconds = r->total >= p.done && r->total > 0 && items_per_s > 0
                        ? (double)(r->total - p.done) / items_per_s
                        : -1;
    r->last = p;
    r->fn(r->user, &p);
    pthread_mutex_unlock(&r->lock);
}

/* Is a report due, and is this thread the one to make it? */
static bool due(tg_reporter *r, int64_t now)
{
    int64_t next = atomic_load(&r->next_ns);
    return now >= next && atomic_compare_exchange_strong(&r->next_ns, &next, now + EVERY_NS);
}

void tg_reporter_add(tg_reporter *r, uint64_t done, uint64_t bytes)
{
    if (r == NULL)
        return;
    uint64_t all_done = atomic_fetch_add(&r->done, done) + done;
    uint64_t all_bytes = atomic_fetch_add(&r->bytes, bytes) + bytes;
    int64_t now = tg_clock_ns();
    if (due(r, now))
        report(r, (tg_progress){.done = all_done, .bytes = all_bytes}, now);
}

void tg_reporter_set(tg_reporter *r, const tg_progress *values, bool force)
{
    if (r == NULL)
        return;
    int64_t now = tg_clock_ns();
    atomic_store(&r->done, values->done);
    atomic_store(&r->bytes, values->bytes);
    if (due(r, now) || force)
        report(r, *values, now);
}

void tg_reporter_free(tg_reporter *r)
{
    if (r == NULL)
        return;
    tg_progress p = r->last;
    p.done = atomic_load(&r->done);
    p.bytes = atomic_load(&r->bytes);
    report(r, p, tg_clock_ns());
    tg_mutex_destroy(&r->lock);
    tg_free(r);
}
