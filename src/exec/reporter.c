/* exec/reporter.c - progress: counts from many threads, a report now and then from one. */
#include "base/clock.h"
#include "exec/exec.h"

#include <stdatomic.h>

#define EVERY_NS  ((int64_t)100 * 1000000)
#define WINDOW_NS ((int64_t)5 * 1000000000)
#define N_SAMPLES 64 /* more than WINDOW_NS / EVERY_NS, with room for forced ones */

typedef struct sample {
    int64_t ns;
    uint64_t done, bytes;
} sample;

struct tg_reporter {
    tg_progress_fn fn;
    void *user;
    int64_t begun_ns;
    _Atomic uint64_t done, bytes;
    _Atomic int64_t due_ns; /* when the next report is due */
    tg_mutex lock;          /* guards all below */
    tg_cond idle;
    bool reporting; /* a thread is in fn, and alone uses samples */
    tg_progress values;
    sample samples[N_SAMPLES]; /* a ring */
    uint32_t n_samples;        /* taken so far */
};

tg_status tg_reporter_new(tg_reporter **out, tg_progress_fn fn, void *user, const char *stage,
                          uint64_t total, tg_error *err)
{
    if (fn == NULL) {
        *out = NULL; /* nobody listens: every call takes NULL */
        return TG_OK;
    }
    tg_reporter *r = tg_calloc(1, sizeof *r);
    if (r == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a progress reporter");
    r->fn = fn;
    r->user = user;
    r->begun_ns = tg_clock_ns();
    r->due_ns = r->begun_ns + EVERY_NS;
    r->values.stage = stage;
    r->values.total = total;
    r->samples[0].ns = r->begun_ns;
    r->n_samples = 1;
    tg_mutex_init(&r->lock);
    tg_cond_init(&r->idle);
    *out = r;
    return TG_OK;
}

/* The oldest sample of the last 5 s; the newest is `now`, just added. */
static const sample *window_start(const tg_reporter *r, int64_t now)
{
    uint32_t n = r->n_samples < N_SAMPLES ? r->n_samples : N_SAMPLES;
    uint32_t k = r->n_samples - n;
    while (k + 2 < r->n_samples && now - r->samples[k % N_SAMPLES].ns > WINDOW_NS)
        k++;
    return &r->samples[k % N_SAMPLES];
}

static void fill_rates(tg_reporter *r, tg_progress *p, int64_t now)
{
    r->samples[r->n_samples++ % N_SAMPLES] = (sample){now, p->done, p->bytes};
    const sample *from = window_start(r, now);
    double seconds = (double)(now - from->ns) * 1e-9;
    double items_per_s = seconds > 0 ? (double)(p->done - from->done) / seconds : 0;
    p->seconds = (double)(now - r->begun_ns) * 1e-9;
    p->bytes_per_s = seconds > 0 ? (double)(p->bytes - from->bytes) / seconds : 0;
    p->eta_seconds = -1;
    if (p->total > 0 && p->done >= p->total)
        p->eta_seconds = 0;
    else if (p->total > 0 && items_per_s > 0)
        p->eta_seconds = (double)(p->total - p->done) / items_per_s;
}

/* Become the one that reports. If another thread is, wait for it only if this must be said. */
static bool begin_report(tg_reporter *r, bool must, tg_progress *p)
{
    TG_LOCKED(&r->lock);
    while (r->reporting && must)
        tg_cond_wait(&r->idle, &r->lock);
    if (r->reporting)
        return false;
    r->reporting = true;
    *p = r->values;
    p->done = atomic_load(&r->done);
    p->bytes = atomic_load(&r->bytes);
    return true;
}

static void end_report(tg_reporter *r)
{
    TG_LOCKED(&r->lock);
    r->reporting = false;
    tg_cond_signal(&r->idle);
}

static void report(tg_reporter *r, bool must)
{
    tg_progress p;
    TG_ASSERT_UNLOCKED();
    if (!begin_report(r, must, &p))
        return;
    int64_t now = tg_clock_ns();
    fill_rates(r, &p, now);
    r->fn(r->user, &p);
    atomic_store(&r->due_ns, tg_clock_ns() + EVERY_NS);
    end_report(r);
}

static bool is_due(tg_reporter *r)
{
    return tg_clock_ns() >= atomic_load_explicit(&r->due_ns, memory_order_relaxed);
}

void tg_reporter_add(tg_reporter *r, uint64_t done, uint64_t bytes)
{
    if (r == NULL)
        return;
    (void)atomic_fetch_add(&r->bytes, bytes);
    (void)atomic_fetch_add(&r->done, done);
    if (is_due(r))
        report(r, false);
}

static void replace_values(tg_reporter *r, const tg_progress *values)
{
    TG_LOCKED(&r->lock);
    const char *stage = r->values.stage;
    uint64_t total = r->values.total;
    r->values = *values;
    r->values.stage = values->stage != NULL ? values->stage : stage;
    r->values.total = values->total != 0 ? values->total : total;
    atomic_store(&r->done, values->done);
    atomic_store(&r->bytes, values->bytes);
}

void tg_reporter_set(tg_reporter *r, const tg_progress *values, bool force)
{
    if (r == NULL)
        return;
    replace_values(r, values);
    if (force || is_due(r))
        report(r, force);
}

void tg_reporter_free(tg_reporter *r)
{
    if (r == NULL)
        return;
    report(r, true);
    tg_cond_destroy(&r->idle);
    tg_mutex_destroy(&r->lock);
    tg_free(r);
}
