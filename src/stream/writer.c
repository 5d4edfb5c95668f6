/* stream/writer.c - the one thread that hands layers to the store: in order within a lane,
 * lanes in turn. Data first, then rows and chunks into the journal, then the room goes back. */
#include "stream/recorder.h"

#include <inttypes.h>
#include <string.h>

#define COMMIT_BYTES ((uint64_t)64 << 20)

/* --- Rows into the journal --------------------------------------------------------- */

void tg_mend_rows(tg_lane *n, uint64_t from, uint64_t to, uint64_t delta, bool failed)
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
        at += used;
        if (row.index == TG_NO_INDEX)
            continue;
        row.index -= (int64_t)delta;
        if (failed) {
            row.index = TG_NO_INDEX;
            row.status = TG_FRAME_FAILED;
            row.crc32c = 0;
        }
        tg_frame_row_encode(&row, p);
    }
}

tg_status tg_log_rows(tg_lane *n, tg_mark mark, tg_error *err)
{
    tg_ring *r = &n->ring;

    if (mark.rows <= n->rows_logged)
        return TG_OK;
    uint64_t from = tg_ring_row_at(r, n->rows_logged_end);
    uint64_t turn = (from / r->rows_bytes + 1) * r->rows_bytes;
    uint64_t end =
        mark.rows_end <= turn ? mark.rows_end : n->wrap_end[turn / r->rows_bytes & 1];
    tg_record_rows rec = {.lane = n->number,
                          .n = (uint32_t)(mark.rows - n->rows_logged),
                          .first = n->rows_logged,
                          .slots = mark.slots,
                          .frames = mark.frames};
    rec.a = (tg_bytes){r->rows + from % r->rows_bytes, (size_t)(end - from)};
    rec.b = (tg_bytes){r->rows, mark.rows_end <= turn ? 0 : (size_t)(mark.rows_end - turn)};
    TG_TRY(tg_record_rows_add(&n->s->log, &rec, err));
    n->rows_logged = mark.rows;
    n->rows_logged_end = mark.rows_end;
    return TG_OK;
}

/* --- One batch ------------------------------------------------------------------------ */

typedef struct batch {
    tg_layer layer[TG_BATCH_MOST];
    uint32_t n;
    uint32_t done; /* of them in the store: those behind are lost */
} batch;

/* Has the lane a layer at `ahead` that can be written now? */
static bool next_layer(tg_lane *n, uint32_t ahead, tg_layer *layer)
{
    uint64_t place;

    if (tg_ring_peek(&n->ring, ahead, layer))
        return true;
    if (tg_lane_encodes(n) || !tg_ring_claim(&n->ring, &place, layer))
        return false;
    tg_ring_ready(&n->ring, place, layer);
    return tg_ring_peek(&n->ring, ahead, layer);
}

static void collect(tg_lane *n, batch *b)
{
    b->n = b->done = 0;
    while (b->n < n->plan.batch && next_layer(n, b->n, &b->layer[b->n])) {
        const tg_layer *l = &b->layer[b->n];
        if (b->n > 0 && (l->failed != b->layer[0].failed ||
                         tg_layout_shard(&n->layout, l->number) !=
                             tg_layout_shard(&n->layout, b->layer[0].number)))
            return;
        b->n++;
    }
}

static tg_status log_layer(tg_lane *n, const batch *b, uint32_t i, tg_error *err)
{
    const tg_layer *l = &b->layer[i];
    bool failed = i >= b->done;

    if (l->delta > 0 || failed)
        tg_mend_rows(n, n->rows_logged_end, l->mark.rows_end, l->delta, failed);
    TG_TRY(tg_log_rows(n, l->mark, err));
    uint32_t flags = (l->padded ? TG_LAYER_PADDED : 0u) |
                     (n->layout.checksum ? TG_LAYER_SUMMED : 0u) |
                     (n->current != NULL && n->current->side ? TG_LAYER_SIDE : 0u) |
                     (l->covers ? TG_LAYER_COVERS : 0u) | (failed ? TG_LAYER_FAILED : 0u);
    tg_record_layer rec = {.lane = n->number,
                           .flags = flags,
                           .n_chunks = failed ? 0 : n->plan.n_chunks,
                           .layer = l->number,
                           .shard = tg_layout_shard(&n->layout, l->number),
                           .slots = l->mark.slots,
                           .frames = l->mark.frames,
                           .chunks = n->records + i * n->plan.chunk_records};
    return tg_record_layer_add(&n->s->log, &rec, err);
}

/* What is done of the batch counts from now on. */
static void enter_done(tg_lane *n, const batch *b)
{
    tg_sink_enter(n, b->layer, b->done);
    for (uint32_t i = 0; i < b->done; i++) {
        const tg_layer *l = &b->layer[i];
        if (l->padded)
            n->padded_layer = l->number;
        if (l->covers)
            n->written = l->mark;
    }
    atomic_store_explicit(&n->count.written, n->written.frames, memory_order_relaxed);
    /* The last layer of a shard: it need not wait for the next one to be sealed. */
    const tg_layer *last = &b->layer[b->done - 1];
    if (n->current != NULL && !last->padded) {
        uint64_t first, end;
        tg_layout_shard_range(&n->layout, n->current->number, &first, &end);
        if (last->number + 1 == end)
            tg_sink_end_shard(n);
        else
            tg_sink_want_ahead(n, last->number);
    }
}

/* The batch is in the store, or lost from some layer on: say so in the journal. */
static tg_status log_batch(tg_lane *n, const batch *b, tg_error *err)
{
    tg_record_log *log = &n->s->log;
    TG_LOCKED_FOR_IO(&log->lock);

    for (uint32_t i = 0; i < b->n; i++)
        TG_TRY(log_layer(n, b, i, err));
    TG_TRY(tg_record_flush(log, err));
    if (b->done > 0)
        enter_done(n, b);
    return TG_OK;
}

static void give_back(tg_lane *n, const batch *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const tg_layer *l = &b->layer[i];
        if (l->slab != TG_NO_SLAB)
            tg_ring_release(&n->ring, l->slab);
        if (l->out != TG_NO_SLAB) {
            TG_LOCKED(&n->ring.lock);
            n->outs[l->out].taken = false;
        }
    }
    tg_ring_pop(&n->ring, b->n);
    if (tg_lane_encodes(n))
        tg_signal_post(&n->s->encode);
}

static uint64_t batch_bytes(const tg_lane *n, const batch *b)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < b->done; i++)
        for (uint32_t c = 0; c < n->plan.n_chunks; c++)
            bytes += tg_record_chunk_get(n->records + i * n->plan.chunk_records +
                                         (size_t)c * TG_RECORD_CHUNK_BYTES)
                         .nbytes;
    return bytes;
}

static void count_failed(tg_lane *n, const batch *b)
{
    for (uint32_t i = b->done; i < b->n; i++)
        if (!b->layer[i].padded)
            tg_count(&n->count.failed, b->layer[i].frames);
}

static void count_written(tg_lane *n, const batch *b)
{
    tg_stream *s = n->s;
    uint64_t bytes = s->null_sink ? 0 : batch_bytes(n, b);

    tg_count(&n->count.bytes_written, bytes);
    uint64_t since =
        atomic_fetch_add_explicit(&s->bytes_since_commit, bytes + 1, memory_order_relaxed);
    if (since + bytes >= COMMIT_BYTES && since < COMMIT_BYTES)
        tg_signal_post(&s->commit);
}

/* True: something was done. */
static bool write_some(tg_lane *n, tg_error *err)
{
    batch b;

    collect(n, &b);
    if (b.n == 0)
        return false;
    tg_status st = TG_OK;
    if (!b.layer[0].failed && !atomic_load(&n->failed_to_write)) {
        st = tg_sink_shard(n, b.layer[0].number, err);
        if (st == TG_BUSY) {
            atomic_store(&n->s->commit_wanted, true);
            tg_signal_post(&n->s->commit);
            return false;
        }
        if (st == TG_OK)
            st = tg_sink_layers(n, b.layer, b.n, &b.done, err);
        if (st != TG_OK)
            tg_lane_fail(n, err,
                         tg_layout_slot_in_layer(&n->layout, b.layer[b.done].number, 0));
#if TG_PLANT == 7
        b.done = b.n;
#endif
    }
    count_failed(n, &b);
    st = log_batch(n, &b, err);
    if (st != TG_OK)
        tg_stream_fail(n->s, err);
    else if (b.done > 0)
        count_written(n, &b);
    give_back(n, &b);
    tg_signal_post(&n->s->progress);
    if (tg_flush_waits(n->s))
        tg_signal_post(&n->s->commit);
    return true;
}

/* A flush or the end of the lane wants the shard sealed as it is, once nothing is on its way.
 */
static void end_shard_if_wanted(tg_lane *n)
{
    bool idle;

    if (!atomic_load(&n->end_wanted))
        return;
    {
        TG_LOCKED(&n->ring.lock);
        idle = tg_ring_is_idle(&n->ring);
    }
    if (!idle || !atomic_exchange(&n->end_wanted, false))
        return;
    {
        TG_LOCKED_FOR_IO(&n->s->log.lock);
        tg_sink_end_shard(n);
    }
    tg_signal_post(&n->s->commit);
}

/* Rows for which no layer comes (drops, while the ring is stuck) must not fill their ring. */
static void look_at_rows(tg_lane *n)
{
    uint64_t used;
    {
        TG_LOCKED(&n->ring.lock);
        used = n->ring.head.rows_end - n->ring.rows_freed;
    }
    if (used > n->ring.rows_bytes / 2 && !atomic_exchange(&n->s->commit_wanted, true))
        tg_signal_post(&n->s->commit);
}

void tg_writer_main(void *stream)
{
    tg_stream *s = stream;

    while (!atomic_load(&s->abandoned)) {
        uint64_t seen = tg_signal_seen(&s->write);
        bool stop = atomic_load(&s->stop_writer), worked = false;
        for (uint32_t i = 0; i < s->n_lanes; i++) {
            tg_error err = {0};
            worked |= write_some(&s->lanes[i], &err);
            end_shard_if_wanted(&s->lanes[i]);
            look_at_rows(&s->lanes[i]);
        }
        if (worked)
            continue;
        if (stop)
            return;
        tg_signal_wait(&s->write, seen, -1);
    }
}
