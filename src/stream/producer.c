/* stream/producer.c - slots, slabs and rows of one lane, as its producer hands them out. What
 * becomes of a frame is decided in append.c. */
#include "stream/recorder.h"

#include <inttypes.h>
#include <string.h>

tg_status tg_lane_check(tg_lane *n, tg_error *err)
{
    if (atomic_load_explicit(&n->failed, memory_order_relaxed))
        return tg_stream_last_error(n->s, n->number, err, NULL);
    if (atomic_load_explicit(&n->s->cancelled, memory_order_relaxed))
        return tg_fail(err, TG_CANCELLED, "the recording was cancelled");
    if (n->ended)
        return tg_fail(err, TG_CLOSED, "the array has ended");
    return TG_OK;
}

static tg_status say(const tg_lane *n, tg_status st, const char *what, tg_error *err)
{
    switch (st) {
    case TG_OK:
        return TG_OK;
    case TG_BUSY:
        return tg_fail(err, st, "%s is full", what);
    case TG_TIMED_OUT:
        return tg_fail(err, st, "%s was full for %.3f s", what, (double)n->timeout_ns * 1e-9);
    default:
        if (atomic_load(&n->failed))
            return tg_stream_last_error(n->s, n->number, err, NULL);
        return tg_fail(err, st, "the recording was cancelled");
    }
}

static void count_wait(tg_lane *n, int64_t ns)
{
    if (ns <= 0)
        return;
    tg_count(&n->count.stalls, 1);
    tg_count(&n->count.stall_ns, (uint64_t)ns);
    if ((uint64_t)ns > atomic_load_explicit(&n->count.stall_ns_max, memory_order_relaxed))
        atomic_store_explicit(&n->count.stall_ns_max, (uint64_t)ns, memory_order_relaxed);
}

static uint8_t *slab_data(const tg_lane *n, uint32_t slab)
{
    return n->planes[0] + (size_t)slab * n->layout.plane[0].layer_bytes;
}

/* --- Rows -------------------------------------------------------------------- */

/* Find room for a row and pack the user's values; *packed: their bytes. */
static tg_status begin_row(tg_lane *n, const tg_frame_meta *meta, uint64_t *at, uint8_t **dst,
                           size_t *packed, tg_error *err)
{
    int64_t wait = n->on_full == TG_FULL_BLOCK ? n->timeout_ns : -1;

    *at = n->mark.rows_end;
    TG_TRY(say(n, tg_ring_row(&n->ring, wait, at, dst), "the ring of frame table rows", err));
    return tg_frame_values_pack(&n->plan.columns, meta == NULL ? NULL : meta->columns,
                                *dst + TG_FRAME_ROW_BYTES, n->plan.columns.values_bound, packed,
                                err);
}

static void end_row(tg_lane *n, const tg_frame_row *row, uint64_t at, uint8_t *dst,
                    size_t packed)
{
    tg_frame_row_encode(row, dst);
    if (at % n->ring.rows_bytes == 0)
        n->wrap_end[at / n->ring.rows_bytes & 1] = n->mark.rows_end;
    n->mark.rows++;
    n->mark.rows_end = at + TG_FRAME_ROW_BYTES + packed;
}

tg_status tg_lane_row(tg_lane *n, const tg_frame_row *row, const tg_frame_meta *meta,
                      tg_error *err)
{
    uint8_t *dst;
    uint64_t at;
    size_t packed;

    TG_TRY(begin_row(n, meta, &at, &dst, &packed, err));
    end_row(n, row, at, dst, packed);
    tg_ring_advance(&n->ring, TG_NO_SLAB, 0, false, n->mark);
    return TG_OK;
}

/* The frames of a layer that was dropped out of the ring: their rows say so. */
static void drop_rows(tg_lane *n, uint64_t from, uint64_t to)
{
    tg_ring *r = &n->ring;

    for (uint64_t at = tg_ring_row_at(r, from); at < to; at = tg_ring_row_at(r, at)) {
        uint8_t *p = r->rows + at % r->rows_bytes;
        tg_frame_row row;
        tg_bytes values;
        size_t used;
        if (tg_frame_row_read(&n->plan.columns, (tg_bytes){p, r->row_most}, &row, &values,
                              &used, NULL) != TG_OK)
            return; /* ours: never */
        if (row.index != TG_NO_INDEX) {
            row.index = TG_NO_INDEX;
            row.status = TG_FRAME_DROPPED;
            row.crc32c = 0;
            tg_frame_row_encode(&row, p);
        }
        at += used;
    }
}

/* --- Slabs --------------------------------------------------------------------- */

static tg_status take_oldest(tg_lane *n, uint32_t *slab)
{
    tg_layer layer;
    tg_mark before;

    if (tg_ring_take_oldest(&n->ring, n->compact, &layer, &before) != TG_OK)
        return TG_BUSY;
    drop_rows(n, before.rows_end, layer.mark.rows_end);
    tg_count(&n->count.dropped, layer.frames);
    *slab = layer.slab;
    return TG_OK;
}

static tg_status take_slab(tg_lane *n, bool must_wait, uint32_t *slab, tg_error *err)
{
    int64_t waited = 0, wait = 0;

    if (n->on_full == TG_FULL_BLOCK)
        wait = n->timeout_ns;
    if (must_wait)
        wait = -1;
    tg_status st = tg_ring_take(&n->ring, wait, slab, &waited);
    if (st == TG_BUSY && n->on_full == TG_FULL_DROP_OLDEST)
        st = take_oldest(n, slab);
    count_wait(n, waited);
    uint64_t used = (uint64_t)tg_ring_in_use(&n->ring) * n->plan.slab_bytes;
    if (used > atomic_load_explicit(&n->count.queue_peak, memory_order_relaxed))
        atomic_store_explicit(&n->count.queue_peak, used, memory_order_relaxed);
    return say(n, st, "the ring", err);
}

/* Places [filled, to) of an open slab have no pixels. */
static void fill_to(tg_lane *n, uint32_t slab, uint64_t to)
{
    tg_slab *s = &n->ring.slabs[slab];

    for (uint64_t place = s->filled; place < to; place++) {
        tg_place_fill(&n->placer, slab_data(n, slab), s->sums, place);
        s->real[place] = 0;
    }
    if (to > s->filled)
        tg_ring_advance(&n->ring, slab, (uint32_t)to, false, n->mark);
}

static void wake_worker(tg_lane *n)
{
    tg_signal_post(tg_lane_encodes(n) ? &n->s->encode : &n->s->write);
}

/* The committer looks at open slabs: hence the lock. */
static void set_open(tg_lane *n, uint64_t i, uint32_t slab)
{
    TG_LOCKED(&n->ring.lock);
    n->open[i] = slab;
    n->n_filling += slab == TG_NO_SLAB ? UINT32_MAX : 1;
}

/* The layer at place i of the open ones is done: hand it over, or free it if it has no pixels.
 */
static void finish_layer(tg_lane *n, uint64_t i)
{
    uint32_t slab = n->open[i];
    tg_slab *s = &n->ring.slabs[slab];

    set_open(n, i, TG_NO_SLAB);
    fill_to(n, slab, n->layout.k);
    if (s->frames == 0) {
        tg_ring_release(&n->ring, slab);
        return;
    }
    if (n->placer.sum_chunks)
        tg_place_seal(&n->layout, 0, slab_data(n, slab), s->sums, true);
    tg_layer layer = {.number = s->layer,
                      .slab = slab,
                      .out = TG_NO_SLAB,
                      .frames = s->frames,
                      .summed = n->placer.sum_chunks,
                      .covers = n->n_filling == 0,
                      .mark = n->mark};
    tg_ring_queue(&n->ring, &layer);
    wake_worker(n);
}

void tg_lane_finish(tg_lane *n)
{
    for (uint64_t i = 0; n->n_filling > 0 && i < n->layout.n_open; i++)
        if (n->open[i] != TG_NO_SLAB)
            finish_layer(n, i);
}

tg_status tg_lane_pass(tg_lane *n, uint64_t slot, tg_error *err)
{
    if (slot > n->layout.n_slots)
        return tg_fail(err, TG_INVALID,
                       "the array is full: its dimensions hold %" PRIu64 " frames",
                       n->layout.n_slots);
    uint64_t whole = tg_layout_whole_layers(&n->layout, slot);
    n->mark.slots = slot;
    for (uint64_t i = 0; n->n_filling > 0 && i < n->layout.n_open; i++)
        if (n->open[i] != TG_NO_SLAB && n->ring.slabs[n->open[i]].layer < whole)
            finish_layer(n, i);
    tg_ring_advance(&n->ring, TG_NO_SLAB, 0, false, n->mark);
    return TG_OK;
}

tg_status tg_lane_room(tg_lane *n, uint64_t slot, bool must_wait, uint32_t *slab,
                       uint64_t *place, tg_error *err)
{
    if (slot >= n->layout.n_slots)
        return tg_fail(err, TG_INVALID,
                       "the array is full: its dimensions hold %" PRIu64 " frames",
                       n->layout.n_slots);
    uint64_t layer = tg_layout_layer(&n->layout, slot, place);
    uint32_t *open = &n->open[layer % n->layout.n_open];

    if (*open == TG_NO_SLAB) {
        TG_TRY(take_slab(n, must_wait, slab, err));
        set_open(n, layer % n->layout.n_open, *slab);
        tg_ring_open(&n->ring, *slab, layer);
        memset(n->ring.slabs[*slab].sums, 0,
               n->layout.plane[0].n_tiles * sizeof n->ring.slabs[*slab].sums[0]);
    }
    *slab = *open;
    fill_to(n, *slab, *place);
    return TG_OK;
}

tg_status tg_lane_begin_row(tg_lane *n, const tg_frame_meta *meta, tg_lane_row_room *room,
                            tg_error *err)
{
    return begin_row(n, meta, &room->at, &room->dst, &room->packed, err);
}

void tg_lane_done(tg_lane *n, uint32_t slab, uint64_t place, const tg_frame_row *row,
                  const tg_lane_row_room *room)
{
    uint64_t layer = n->ring.slabs[slab].layer;

    end_row(n, row, room->at, room->dst, room->packed);
    n->mark.slots++;
    n->mark.frames++;
    n->ring.slabs[slab].real[place] = 1;
    tg_ring_advance(&n->ring, slab, (uint32_t)place + 1, true, n->mark);
    if (place + 1 == tg_layout_layer_frames(&n->layout, layer))
        finish_layer(n, layer % n->layout.n_open);
}
