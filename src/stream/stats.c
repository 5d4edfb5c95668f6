/* stream/stats.c - signals between the threads, counters, the first failure of a lane, and the
 * recorder's own time series. */
#include "stream/recorder.h"

#include <inttypes.h>
#include <string.h>

/* --- Signals ----------------------------------------------------------------------- */

void tg_signal_init(tg_signal *s)
{
    tg_mutex_init(&s->lock);
    tg_cond_init(&s->changed);
    s->count = 0;
}

void tg_signal_destroy(tg_signal *s)
{
    tg_cond_destroy(&s->changed);
    tg_mutex_destroy(&s->lock);
}

void tg_signal_post(tg_signal *s)
{
    TG_LOCKED(&s->lock);
    s->count++;
    tg_cond_broadcast(&s->changed);
}

uint64_t tg_signal_seen(tg_signal *s)
{
    TG_LOCKED(&s->lock);
    return s->count;
}

void tg_signal_wait(tg_signal *s, uint64_t seen, int64_t until_ns)
{
    TG_LOCKED(&s->lock);
    while (s->count == seen) {
        if (until_ns < 0)
            tg_cond_wait(&s->changed, &s->lock);
        else if (!tg_cond_wait_until(&s->changed, &s->lock, until_ns))
            return;
    }
}

/* --- Failures ------------------------------------------------------------------------ */

static void keep_error(tg_lane *n, const tg_error *why, uint64_t frame)
{
    TG_LOCKED(&n->error_lock);
    if (n->error.code != TG_OK)
        return;
    n->error = *why;
    n->error_frame = frame;
    if (n->error.code == TG_OK)
        n->error.code = TG_IO;
}

/* Wake all that waits for the lane's room: it gets the failure instead. */
static void spread(tg_lane *n)
{
    tg_ring_wake(&n->ring);
    tg_signal_post(&n->s->write);
    tg_signal_post(&n->s->encode);
    tg_signal_post(&n->s->progress);
}

void tg_lane_fail(tg_lane *n, const tg_error *why, uint64_t frame)
{
    keep_error(n, why, frame);
    atomic_store(&n->failed_to_write, true);
    atomic_store(&n->failed, true);
    spread(n);
}

void tg_lane_source_failed(tg_lane *n, const tg_error *why)
{
    keep_error(n, why, n->mark.slots);
    atomic_store(&n->failed, true);
    tg_signal_post(&n->s->progress);
}

void tg_stream_fail(tg_stream *s, const tg_error *why)
{
    for (uint32_t i = 0; i < s->n_lanes; i++)
        tg_lane_fail(&s->lanes[i], why, UINT64_MAX);
}

tg_status tg_stream_last_error(const tg_stream *s, uint32_t array, tg_error *err,
                               uint64_t *frame)
{
    uint32_t first = array == UINT32_MAX ? 0 : array;
    uint32_t end = array == UINT32_MAX ? s->n_lanes : array + 1;

    for (uint32_t i = first; i < end && i < s->n_lanes; i++) {
        tg_lane *n = &s->lanes[i];
        TG_LOCKED(&n->error_lock);
        if (n->error.code == TG_OK)
            continue;
        if (err != NULL)
            *err = n->error;
        if (frame != NULL)
            *frame = n->error_frame;
        return n->error.code;
    }
    return TG_OK;
}

/* --- Counters -------------------------------------------------------------------------- */

void tg_count_latency(_Atomic uint64_t *buckets, _Atomic uint64_t *most, uint64_t ns)
{
    uint32_t log2 = ns < 2 ? 0 : 63u - (uint32_t)__builtin_clzll(ns);
    /* The upper half of an octave begins at sqrt(2) of its start. */
    uint64_t half = log2 < 32 ? (((uint64_t)1 << log2) * 1448154688u) >> 30 : UINT64_MAX;
    uint32_t i = 2 * log2 + (ns >= half);

    tg_count(&buckets[i < TG_LATENCY_BUCKETS ? i : TG_LATENCY_BUCKETS - 1], 1);
    if (ns > atomic_load_explicit(most, memory_order_relaxed))
        atomic_store_explicit(most, ns, memory_order_relaxed);
}

static double bucket_start(uint32_t i)
{
    double v = (double)((uint64_t)1 << (i / 2));
    return i % 2 == 0 ? v : v * 1.41421356237309505;
}

double tg_latency_quantile(const uint64_t buckets[TG_LATENCY_BUCKETS], double q)
{
    uint64_t all = 0, below = 0;

    for (uint32_t i = 0; i < TG_LATENCY_BUCKETS; i++)
        all += buckets[i];
    double want = q * (double)all;
    for (uint32_t i = 0; i < TG_LATENCY_BUCKETS; i++) {
        if (buckets[i] > 0 && (double)(below + buckets[i]) >= want) {
            double part = (want - (double)below) / (double)buckets[i];
            double lo = bucket_start(i), hi = bucket_start(i + 1);
            return lo + (hi - lo) * (part < 0 ? 0 : part);
        }
        below += buckets[i];
    }
    return 0;
}

static uint64_t look(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void raise_to(uint64_t *most, uint64_t v)
{
    if (v > *most)
        *most = v;
}

static void add_lane(const tg_lane *n, tg_stream_stats *t)
{
    const tg_counters *c = &n->count;

    t->offered += look(&c->offered);
    t->accepted += look(&c->accepted);
    t->written += look(&c->written);
    t->durable += look(&c->durable);
    t->published += look(&c->published);
    t->dropped += look(&c->dropped);
    t->lost += look(&c->lost);
    t->skipped += look(&c->skipped);
    t->partial += look(&c->partial);
    t->repeated += look(&c->repeated);
    t->failed += look(&c->failed);
    t->shape += look(&c->shape);
    t->bytes_in += look(&c->bytes_in);
    t->bytes_written += look(&c->bytes_written);
    t->queue_bytes += (uint64_t)tg_ring_in_use(&n->ring) * n->plan.slab_bytes;
    t->queue_bytes_peak += look(&c->queue_peak);
    t->queue_bytes_max += (uint64_t)n->plan.n_slabs * n->plan.slab_bytes;
    t->stalls += look(&c->stalls);
    t->stall_ns += look(&c->stall_ns);
    raise_to(&t->stall_ns_max, look(&c->stall_ns_max));
    for (uint32_t i = 0; i < TG_LATENCY_BUCKETS; i++) {
        t->append_ns[i] += look(&c->append_ns[i]);
        t->write_ns[i] += look(&c->write_ns[i]);
    }
    raise_to(&t->append_ns_max, look(&c->append_ns_max));
    raise_to(&t->write_ns_max, look(&c->write_ns_max));
}

void tg_stream_get_stats(const tg_stream *s, uint32_t array, tg_stream_stats *stats)
{
    tg_stream_stats t = {.size = sizeof t, .time_ns = tg_clock_ns()};
    size_t room = stats->size < sizeof t ? stats->size : sizeof t;

    for (uint32_t i = 0; i < s->n_lanes; i++)
        if (array == UINT32_MAX || array == i)
            add_lane(&s->lanes[i], &t);
    t.size = room;
    memcpy(stats, &t, room);
}

/* --- Samples ---------------------------------------------------------------------------- */

#define SAMPLES      2048
#define SAMPLE_EVERY ((int64_t)100000000)

/* Guarded by the committer: it alone adds; close reads when it has ended. */
struct tg_sampler {
    tg_stream_sample at[SAMPLES];
    size_t n;
    int64_t every, next; /* ns */
};

tg_status tg_sampler_new(tg_stream *s, tg_error *err)
{
    s->sampler = tg_calloc(1, sizeof *s->sampler);
    if (s->sampler == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the time series");
    s->sampler->every = SAMPLE_EVERY;
    return TG_OK;
}

/* Every second point goes when there is no room, and from then on half as many come. */
static void thin(struct tg_sampler *p)
{
    for (size_t i = 0; i < SAMPLES / 2; i++)
        p->at[i] = p->at[2 * i];
    p->n = SAMPLES / 2;
    p->every *= 2;
}

int64_t tg_sample_next(const tg_stream *s)
{
    return s->sampler->next;
}

void tg_sample(tg_stream *s, bool last)
{
    struct tg_sampler *p = s->sampler;
    int64_t now = tg_clock_ns();
    tg_stream_stats t = {.size = sizeof t};

    if (!last && now < p->next)
        return;
    tg_stream_get_stats(s, UINT32_MAX, &t);
    tg_progress report = {.stage = "record",
                          .done = t.written,
                          .bytes = t.bytes_written,
                          .seconds = (double)(now - s->open_ns) * 1e-9,
                          .eta_seconds = -1,
                          .durable = t.durable,
                          .queue_bytes = t.queue_bytes,
                          .memory_bytes = s->reserved,
                          .lost = t.dropped + t.skipped + t.failed + t.lost};
    if (s->reporter != NULL)
        tg_reporter_set(s->reporter, &report, last);
    if (p->n == SAMPLES)
        thin(p);
    p->at[p->n++] = (tg_stream_sample){.seconds = report.seconds,
                                       .offered = t.offered,
                                       .written = t.written,
                                       .durable = t.durable,
                                       .dropped = t.dropped,
                                       .queue_bytes = t.queue_bytes,
                                       .memory_bytes = s->reserved,
                                       .bytes_written = t.bytes_written};
    p->next = now + p->every;
}

tg_status tg_sampler_take(tg_stream *s, tg_stream_sample **samples, size_t *n, tg_error *err)
{
    struct tg_sampler *p = s->sampler;
    tg_stream_sample *copy = tg_alloc_array(p->n == 0 ? 1 : p->n, sizeof *copy);

    if (copy == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu samples", p->n);
    memcpy(copy, p->at, p->n * sizeof *copy);
    *samples = copy;
    *n = p->n;
    return TG_OK;
}
