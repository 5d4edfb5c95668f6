/* stream/flush.c - waiting until what was accepted has reached a level. */
#include "stream/recorder.h"

#include <inttypes.h>
#include <string.h>

/* What a lane must reach: taken when the call begins. */
typedef struct target {
    uint64_t rows, slots, layers;
} target;

/* --- Partial chunks ------------------------------------------------------------------ */

/* A copy of an open slab, padded, goes ahead of it: the slab itself stays open and will be
 * written again when it is full. */
static tg_status pad_slab(tg_lane *n, uint32_t slab, const tg_slab *was, bool covers,
                          tg_mark mark, int64_t wait_ns, tg_error *err)
{
    const tg_plane *p = &n->layout.plane[0];
    uint32_t copy;
    tg_status st = tg_ring_take(&n->ring, wait_ns, &copy, NULL);

    if (st != TG_OK)
        return tg_fail(err, st, "no room to write a partial chunk");
    tg_slab *to = &n->ring.slabs[copy];
    memcpy(n->planes[0] + (size_t)copy * p->layer_bytes,
           n->planes[0] + (size_t)slab * p->layer_bytes, p->layer_bytes);
    memset(to->real, 0, (size_t)n->layout.k);
    memcpy(to->real, n->ring.slabs[slab].real, was->filled);
    for (uint64_t place = was->filled; place < n->layout.k; place++)
        tg_place_fill(&n->placer, n->planes[0] + (size_t)copy * p->layer_bytes, to->sums,
                      place);
    tg_ring_open(&n->ring, copy, was->layer);
    tg_layer layer = {.number = was->layer,
                      .slab = copy,
                      .out = TG_NO_SLAB,
                      .frames = was->frames,
                      .padded = true,
                      .covers = covers,
                      .mark = mark};
    if (tg_ring_queue_copy(&n->ring, slab, was->layer, was->filled, &layer) != TG_OK)
        tg_ring_release(&n->ring, copy); /* the whole one is on its way */
    return TG_OK;
}

static tg_status pad_lane(tg_lane *n, int64_t wait_ns, tg_error *err)
{
    for (uint64_t i = 0; i < n->layout.n_open; i++) {
        tg_slab was;
        tg_mark mark;
        uint32_t slab;
        bool last = true;
        {
            TG_LOCKED(&n->ring.lock);
            slab = n->open[i];
            if (slab == TG_NO_SLAB || n->ring.slabs[slab].frames == 0 ||
                n->ring.slabs[slab].padded == n->ring.slabs[slab].filled)
                continue;
            last = !tg_ring_any_frames(&n->ring, n->open + i + 1, n->layout.n_open - i - 1);
            was = n->ring.slabs[slab];
            mark = n->ring.head;
            tg_ring_pin(&n->ring, slab);
        }
        tg_status st = pad_slab(n, slab, &was, last, mark, wait_ns, err);
        tg_ring_unpin(&n->ring, slab);
        TG_TRY(st);
        tg_signal_post(tg_lane_encodes(n) ? &n->s->encode : &n->s->write);
    }
    return TG_OK;
}

/* --- Waiting --------------------------------------------------------------------------- */

static target take_target(tg_lane *n)
{
    TG_LOCKED(&n->ring.lock);
    tg_mark head = tg_ring_settled(&n->ring, n->ring.head);
    return (target){head.rows, head.slots, n->ring.in};
}

static bool reached(tg_lane *n, tg_level level, const target *t)
{
    if (atomic_load(&n->failed_to_write))
        return true; /* no more will come; its error is returned */
    switch (level) {
    case TG_LEVEL_DURABLE:
        return atomic_load(&n->durable_rows) >= t->rows;
    case TG_LEVEL_PUBLISHED:
        /* Layers that were dropped meanwhile may have taken slots with them. */
        return atomic_load(&n->published_rows) >= t->rows &&
               atomic_load(&n->published_slots) >= t->slots;
    default:
        return true;
    }
}

static bool all_reached(tg_stream *s, tg_level level, const target *t)
{
    for (uint32_t i = 0; i < s->n_lanes; i++)
        if (!reached(&s->lanes[i], level, &t[i]))
            return false;
    return true;
}

static tg_status wait_for(tg_stream *s, tg_level level, const target *t, int64_t until,
                          tg_error *err)
{
    for (;;) {
        uint64_t seen = tg_signal_seen(&s->progress);
        if (all_reached(s, level, t))
            return TG_OK;
        if (atomic_load(&s->cancelled))
            return tg_fail(err, TG_CANCELLED, "the recording was cancelled");
        if (until >= 0 && tg_clock_ns() >= until)
            return tg_fail(err, TG_TIMED_OUT, "the frames have not reached the level in time");
        tg_signal_post(&s->commit);
        tg_signal_wait(&s->progress, seen, until);
    }
}

static tg_status first_error(tg_stream *s, tg_error *err)
{
    return tg_stream_last_error(s, UINT32_MAX, err, NULL);
}

tg_status tg_stream_flush(tg_stream *s, tg_level level, double timeout, tg_error *err)
{
    target t[TG_STREAM_ARRAYS] = {0};
    int64_t wait = timeout > 0 && timeout < 9e9 ? (int64_t)(timeout * 1e9) : -1;
    int64_t until = wait < 0 ? -1 : tg_clock_ns() + wait;
    tg_status st = TG_OK;

    if (level <= TG_LEVEL_ACCEPTED)
        return first_error(s, err);
    if (level == TG_LEVEL_PUBLISHED && s->zip)
        return tg_fail(err, TG_UNSUPPORTED, "a ZIP is published when it is closed");
    if (level == TG_LEVEL_WRITTEN) /* frames of unfilled chunks are written by the tail file */
        level = TG_LEVEL_DURABLE;
    for (uint32_t i = 0; level == TG_LEVEL_PUBLISHED && st == TG_OK && i < s->n_lanes; i++)
        if (!atomic_load(&s->lanes[i].failed_to_write))
            st = pad_lane(&s->lanes[i], wait, err);
    for (uint32_t i = 0; i < s->n_lanes; i++)
        t[i] = take_target(&s->lanes[i]);
    if (st == TG_OK) {
        atomic_fetch_add(&s->flushes[level], 1);
        st = wait_for(s, level, t, until, err);
        atomic_fetch_sub(&s->flushes[level], 1);
    }
    return st == TG_OK ? first_error(s, err) : st;
}

void tg_stream_cancel(tg_stream *s)
{
    atomic_store(&s->cancelled, true);
    for (uint32_t i = 0; i < s->n_lanes; i++)
        tg_ring_wake(&s->lanes[i].ring);
    tg_signal_post(&s->progress);
}
