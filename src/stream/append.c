/* stream/append.c - what becomes of a frame that is offered: stored, dropped, marked; and the
 * gap before it. Runs in the producer's thread. */
#include "stream/recorder.h"

#include <inttypes.h>
#include <string.h>

static tg_lane *lane_of(tg_stream *s, uint32_t array)
{
    return s == NULL || array >= s->n_lanes ? NULL : &s->lanes[array];
}

static tg_status find_lane(tg_stream *s, uint32_t array, tg_lane **n, tg_error *err)
{
    *n = lane_of(s, array);
    if (*n == NULL)
        return tg_fail(err, TG_INVALID, "array %" PRIu32 ": the recorder has %" PRIu32, array,
                       s == NULL ? 0 : s->n_lanes);
    return tg_lane_check(*n, err);
}

static tg_frame_row row_for(const tg_frame_meta *meta, uint64_t sequence, uint8_t status)
{
    int64_t host = meta == NULL ? 0 : meta->time_host_ns;

    return (tg_frame_row){.sequence = sequence,
                          .index = TG_NO_INDEX,
                          .time_device = meta == NULL ? TG_NO_TIME : meta->time_device_ns,
                          .time_host = host != 0 ? host : tg_clock_utc_ns(),
                          .status = status};
}

/* --- Frames without pixels ------------------------------------------------------ */

/* Rows and, where every frame has its slot, slots for n frames from `sequence` on. *done counts
 * them one by one, so that a wait that ended early can be taken up again. */
static tg_status add_missing(tg_lane *n, uint64_t sequence, uint64_t count, uint8_t status,
                             bool slots, const tg_frame_meta *meta, uint64_t *done,
                             tg_error *err)
{
    for (; *done < count; (*done)++) {
        tg_frame_row row = row_for(meta, sequence + *done, status);
        if (slots && n->mark.slots >= n->layout.n_slots)
            return tg_fail(err, TG_INVALID,
                           "the array is full: its dimensions hold %" PRIu64 " frames",
                           n->layout.n_slots);
        TG_TRY(tg_lane_row(n, &row, meta, err));
        if (slots)
            TG_TRY(tg_lane_pass(n, n->mark.slots + 1, err));
    }
    return TG_OK;
}

/* The frames missing before this one, unless an earlier try has dealt with them. */
static tg_status add_gap(tg_lane *n, const tg_sequence_step *step, tg_error *err)
{
    uint64_t before = n->gap_done;

    if (n->compact) {
        tg_count(&n->count.lost, step->gap - before);
        n->gap_done = step->gap;
        return TG_OK;
    }
    tg_status st = add_missing(n, step->sequence - step->gap, step->gap, TG_FRAME_LOST, true,
                               NULL, &n->gap_done, err);
    tg_count(&n->count.lost, n->gap_done - before);
    return st;
}

/* One frame that is not stored: a row, and a slot if `slot`. */
static tg_status add_row_only(tg_lane *n, uint64_t sequence, uint8_t status, bool slot,
                              const tg_frame_meta *meta, tg_error *err)
{
    uint64_t done = 0;
    return add_missing(n, sequence, 1, status, slot, meta, &done, err);
}

/* --- One frame ------------------------------------------------------------------- */

static bool should_decimate(tg_lane *n)
{
    if (n->on_full != TG_FULL_DECIMATE || n->decimate < 2)
        return false;
    if (tg_ring_in_use(&n->ring) * 2 <= n->plan.n_slabs) {
        n->decimated = 0;
        return false;
    }
    return n->decimated++ % n->decimate != 0;
}

static bool drops_when_full(const tg_lane *n)
{
    return n->on_full == TG_FULL_DROP_NEW || n->on_full == TG_FULL_DROP_OLDEST ||
           n->on_full == TG_FULL_DECIMATE;
}

/* A frame on its way in. */
typedef struct incoming {
    const tg_frame_view *view; /* NULL: a lease, lying in its place already */
    const tg_frame_meta *meta;
    tg_sequence sequence; /* after it */
    tg_sequence_step step;
    uint8_t status;
} incoming;

static tg_status store_frame(tg_lane *n, const incoming *in, tg_error *err)
{
    uint32_t slab;
    uint64_t place, slot = n->mark.slots;
    tg_lane_row_room room;

    TG_TRY(tg_lane_room(n, slot, false, &slab, &place, err));
    TG_TRY(tg_lane_begin_row(n, in->meta, &room, err));
    uint8_t *data = n->planes[0] + (size_t)slab * n->layout.plane[0].layer_bytes;
    uint32_t *sums = n->ring.slabs[slab].sums;
    tg_frame_row row = row_for(in->meta, in->step.sequence, in->status);
    row.index = (int64_t)tg_layout_index(&n->layout, slot);
    row.crc32c = in->view == NULL
                     ? tg_place_leased(&n->placer, data, sums, place)
                     : tg_place_frame(&n->placer, data, sums, place, in->view, n->row);
    tg_lane_done(n, slab, place, &row, &room);
    tg_count(&n->count.accepted, 1);
    tg_count(&n->count.bytes_in, n->layout.plane[0].frame_bytes);
    if (in->status == TG_FRAME_PARTIAL)
        tg_count(&n->count.partial, 1);
    return TG_OK;
}

static tg_status drop_frame(tg_lane *n, const incoming *in, tg_error *err)
{
    TG_TRY(add_row_only(n, in->step.sequence, TG_FRAME_DROPPED, !n->compact, in->meta, err));
    tg_count(&n->count.dropped, 1);
    return TG_OK;
}

/* A number that was seen before, or goes back: kept in the order of arrival, or not at all. */
static tg_status repeated_frame(tg_lane *n, incoming *in, tg_error *err)
{
    in->status = TG_FRAME_REPEATED;
    if (n->compact)
        TG_TRY(store_frame(n, in, err));
    else
        TG_TRY(add_row_only(n, in->step.sequence, in->status, false, in->meta, err));
    tg_count(&n->count.repeated, 1);
    return TG_OK;
}

static tg_status begin_frame(tg_lane *n, const tg_frame_view *view, const tg_frame_meta *meta,
                             incoming *in, tg_error *err)
{
    *in = (incoming){.view = view, .meta = meta, .sequence = n->sequence};
    TG_TRY(tg_sequence_next(&in->sequence, meta == NULL ? 0 : meta->id, &in->step, err));
    in->status = meta != NULL && meta->partial         ? TG_FRAME_PARTIAL
                 : in->step.event == TG_SEQUENCE_RESET ? TG_FRAME_RESET
                                                       : TG_FRAME_OK;
    return TG_OK;
}

/* Offered once, taken or refused: refused, nothing has changed but that the gap before it is
 * accounted for. */
static tg_status take_frame(tg_lane *n, incoming *in, tg_error *err)
{
    tg_status st;

    if (in->step.event == TG_SEQUENCE_REPEATED || in->step.event == TG_SEQUENCE_BACKWARD) {
        st = repeated_frame(n, in, err);
    } else {
        TG_TRY(add_gap(n, &in->step, err));
        st = should_decimate(n) ? TG_BUSY : store_frame(n, in, err);
        if (st == TG_BUSY && drops_when_full(n))
            st = drop_frame(n, in, err);
    }
    if (st != TG_OK)
        return st;
    n->sequence = in->sequence;
    n->gap_done = 0;
    tg_count(&n->count.offered, 1);
    return TG_OK;
}

tg_status tg_stream_append(tg_stream *s, uint32_t array, const void *frames, size_t count,
                           const tg_frame_layout *layout, const tg_frame_meta *meta,
                           size_t *taken, tg_error *err)
{
    tg_lane *n;
    tg_frame_view view;
    incoming in;
    size_t i = 0;

    if (taken != NULL)
        *taken = 0;
    TG_TRY(find_lane(s, array, &n, err));
    if (frames == NULL || count == 0)
        return count == 0 ? TG_OK : tg_fail(err, TG_INVALID, "no frames");
    TG_TRY(tg_frame_view_init(&view, frames, count, layout, n->layout.plane[0].height,
                              n->layout.plane[0].width, n->layout.dtype, err));
    tg_status st = TG_OK;
    int64_t start = tg_clock_ns();
    for (; st == TG_OK && i < count; i++) {
        if (i > 0) {
            tg_frame_view_advance(&view);
            st = tg_lane_check(n, err);
        }
        if (st == TG_OK)
            st = begin_frame(n, &view, meta == NULL ? NULL : &meta[i], &in, err);
        if (st == TG_OK)
            st = take_frame(n, &in, err);
        if (st != TG_OK)
            break;
        int64_t now = tg_clock_ns();
        tg_count_latency(n->count.append_ns, &n->count.append_ns_max, (uint64_t)(now - start));
        start = now;
    }
    atomic_store_explicit(&s->last_append_ns, start, memory_order_relaxed);
    if (taken != NULL)
        *taken = i;
    return st;
}

tg_status tg_stream_append_at(tg_stream *s, uint32_t array, const uint64_t *index,
                              const void *frame, const tg_frame_layout *layout,
                              const tg_frame_meta *meta, tg_error *err)
{
    tg_lane *n;
    tg_frame_view view;
    incoming in;
    uint64_t skipped = 0;

    TG_TRY(find_lane(s, array, &n, err));
    for (uint32_t d = 0; d < n->layout.n_dims; d++)
        if (index[d] >= n->layout.extent[d])
            return tg_fail(err, TG_INVALID,
                           "index %" PRIu64 " of dimension %" PRIu32
                           " is beyond its extent %" PRIu64,
                           index[d], d, n->layout.extent[d]);
    uint64_t slot = n->layout.n_dims == 0 ? 0 : tg_layout_slot(&n->layout, index);
    if (slot < n->mark.slots)
        return tg_fail(err, TG_INVALID,
                       "frame %" PRIu64 " in order of arrival was handed out already: the next "
                       "one is %" PRIu64,
                       slot, n->mark.slots);
    TG_TRY(tg_frame_view_init(&view, frame, 1, layout, n->layout.plane[0].height,
                              n->layout.plane[0].width, n->layout.dtype, err));
    int64_t start = tg_clock_ns();
    uint64_t count = slot - n->mark.slots;
    tg_status st = add_missing(n, tg_sequence_peek(&n->sequence), count, TG_FRAME_SKIPPED, true,
                               NULL, &skipped, err);
    tg_count(&n->count.skipped, skipped);
    if (skipped > 0 && tg_sequence_skip(&n->sequence, skipped, err) != TG_OK)
        st = TG_INVALID;
    if (st == TG_OK)
        st = begin_frame(n, &view, meta, &in, err);
    if (st == TG_OK)
        st = take_frame(n, &in, err);
    int64_t now = tg_clock_ns();
    if (st == TG_OK)
        tg_count_latency(n->count.append_ns, &n->count.append_ns_max, (uint64_t)(now - start));
    atomic_store_explicit(&s->last_append_ns, now, memory_order_relaxed);
    return st;
}

/* --- Leases ------------------------------------------------------------------------ */

tg_status tg_stream_lease(tg_stream *s, uint32_t array, void **frame, size_t *row_pitch,
                          tg_error *err)
{
    tg_lane *n;
    uint32_t slab;
    uint64_t place;

    TG_TRY(find_lane(s, array, &n, err));
    const tg_plane *p = &n->layout.plane[0];
    if (!tg_plane_is_dense(&n->layout, p))
        return tg_fail(err, TG_UNSUPPORTED,
                       "frames in tiles, or with the frame axis last and "
                       "several per chunk, cannot be leased");
    if (n->lease != NULL)
        return tg_fail(err, TG_INVALID, "a frame of this array is out on lease already");
    *frame = NULL;
    *row_pitch = (size_t)p->width * n->layout.dtype.size;
    bool drop = should_decimate(n);
    tg_status st = drop ? TG_BUSY : tg_lane_room(n, n->mark.slots, false, &slab, &place, err);
    if (st == TG_BUSY && drops_when_full(n)) {
        n->lease_dropped = true;
        return TG_OK;
    }
    TG_TRY(st);
    n->lease = n->planes[0] + (size_t)slab * p->layer_bytes + (size_t)place * p->frame_bytes;
    *frame = n->lease;
    return TG_OK;
}

/* The frame lies where the next slot is; if there is a gap before it, it must move. */
static tg_status take_lease(tg_lane *n, const tg_frame_meta *meta, tg_error *err)
{
    incoming in;
    tg_frame_view view;
    const tg_plane *p = &n->layout.plane[0];

    TG_TRY(begin_frame(n, NULL, meta, &in, err));
    bool moves = in.step.gap > n->gap_done && !n->compact;
    if (!moves)
        return take_frame(n, &in, err);
    memcpy(n->lease_frame, n->lease, p->frame_bytes);
    TG_TRY(tg_frame_view_init(&view, n->lease_frame, 1, NULL, p->height, p->width,
                              n->layout.dtype, err));
    in.view = &view;
    return take_frame(n, &in, err);
}

tg_status tg_stream_commit(tg_stream *s, uint32_t array, const tg_frame_meta *meta,
                           tg_error *err)
{
    tg_lane *n;
    incoming in;

    TG_TRY(find_lane(s, array, &n, err));
    if (n->lease == NULL && !n->lease_dropped)
        return tg_fail(err, TG_INVALID, "no frame of this array is out on lease");
    int64_t start = tg_clock_ns();
    tg_status st;
    if (n->lease != NULL) {
        st = take_lease(n, meta, err);
    } else {
        st = begin_frame(n, NULL, meta, &in, err);
        if (st == TG_OK)
            st = add_gap(n, &in.step, err);
        if (st == TG_OK)
            st = drop_frame(n, &in, err);
        if (st == TG_OK) {
            n->sequence = in.sequence;
            n->gap_done = 0;
            tg_count(&n->count.offered, 1);
        }
    }
    if (st == TG_TIMED_OUT || st == TG_BUSY)
        return st; /* the frame is still out: commit again, or give it back */
    n->lease = NULL;
    n->lease_dropped = false;
    int64_t now = tg_clock_ns();
    if (st == TG_OK)
        tg_count_latency(n->count.append_ns, &n->count.append_ns_max, (uint64_t)(now - start));
    atomic_store_explicit(&s->last_append_ns, now, memory_order_relaxed);
    return st;
}

void tg_stream_unlease(tg_stream *s, uint32_t array)
{
    tg_lane *n = lane_of(s, array);

    if (n == NULL)
        return;
    /* The slab stays open: the next frame goes there. */
    n->lease = NULL;
    n->lease_dropped = false;
}

uint64_t tg_stream_room(const tg_stream *s, uint32_t array)
{
    if (s == NULL || array >= s->n_lanes)
        return 0;
    const tg_lane *n = &s->lanes[array];
    return n->layout.n_slots == UINT64_MAX ? UINT64_MAX : n->layout.n_slots - n->mark.slots;
}

/* --- Frames that do not come --------------------------------------------------------- */

tg_status tg_stream_skip(tg_stream *s, uint32_t array, uint64_t count, const char *reason,
                         tg_error *err)
{
    tg_lane *n;
    uint64_t done = 0;

    TG_TRY(find_lane(s, array, &n, err));
    uint64_t left = n->layout.n_slots - n->mark.slots;
    if (count > left)
        return tg_fail(err, TG_INVALID,
                       "%" PRIu64 " frames to skip, but the array takes %" PRIu64 " more",
                       count, left);
    if (reason != NULL && s->rt != NULL)
        tg_runtime_log(s->rt, "array '%s': %" PRIu64 " frames skipped: %s", n->path, count,
                       reason);
    tg_status st = add_missing(n, tg_sequence_peek(&n->sequence), count, TG_FRAME_SKIPPED, true,
                               NULL, &done, err);
    tg_count(&n->count.skipped, done);
    if (done > 0 && tg_sequence_skip(&n->sequence, done, st == TG_OK ? err : NULL) != TG_OK)
        return TG_INVALID;
    return st;
}

tg_status tg_stream_note(tg_stream *s, uint32_t array, uint64_t count, tg_frame_status status,
                         const tg_frame_meta *meta, tg_error *err)
{
    tg_lane *n;
    uint64_t done = 0;

    TG_TRY(find_lane(s, array, &n, err));
    if (status != TG_FRAME_LOST && status != TG_FRAME_PARTIAL)
        return tg_fail(err, TG_INVALID, "status %d: only lost and partial frames are noted",
                       (int)status);
    bool slots = status == TG_FRAME_LOST && !n->compact;
    tg_status st = add_missing(n, tg_sequence_peek(&n->sequence), count, (uint8_t)status, slots,
                               meta, &done, err);
    tg_count(status == TG_FRAME_LOST ? &n->count.lost : &n->count.partial, done);
    if (status == TG_FRAME_PARTIAL)
        tg_count(&n->count.offered, done);
    if (done > 0 && tg_sequence_skip(&n->sequence, done, st == TG_OK ? err : NULL) != TG_OK)
        return TG_INVALID;
    return st;
}

tg_status tg_stream_end_array(tg_stream *s, uint32_t array, const tg_error *why, tg_error *err)
{
    tg_lane *n = lane_of(s, array);

    if (n == NULL)
        return tg_fail(err, TG_INVALID, "no array %" PRIu32, array);
    if (n->ended)
        return TG_OK;
    n->ended = true;
    n->lease = NULL;
    tg_lane_finish(n);
    if (why != NULL)
        tg_lane_source_failed(n, why);
    atomic_store(&n->finishing, true);
    tg_signal_post(&s->commit);
    return TG_OK;
}
