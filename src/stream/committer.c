/* stream/committer.c - makes durable what was written: tail file, data and directories, then a
 * commit record. The writer goes on meanwhile with later data. */
#include "stream/recorder.h"

#include <string.h>

#define COMMIT_BYTES ((uint64_t)64 << 20)
#define COMMIT_NS    ((int64_t)100000000)

bool tg_flush_waits(const tg_stream *s)
{
    return atomic_load(&s->flushes[TG_LEVEL_DURABLE]) > 0 ||
           atomic_load(&s->flushes[TG_LEVEL_PUBLISHED]) > 0;
}

/* --- One commit -------------------------------------------------------------------- */

/* How far a lane has come, taken at one moment. */
typedef struct progress {
    tg_mark mark;   /* durable after this commit */
    tg_mark chunks; /* of it without a tail */
    uint64_t covered;
    uint32_t dirty; /* shards to sync, as bits */
    uint32_t full;  /* and to seal */
} progress;

/* With nothing under way and nothing open all that the producer has done is in chunks: also
 * slots without pixels behind the last one, and rows without frames. */
static bool settled(tg_lane *n, tg_mark *mark)
{
    TG_LOCKED(&n->ring.lock);

    if (!tg_ring_is_idle(&n->ring) || atomic_load(&n->failed_to_write) ||
        tg_ring_any_frames(&n->ring, n->open, n->layout.n_open))
        return false;
    *mark = tg_ring_settled(&n->ring, n->ring.head);
    return true;
}

/* The shards with data that no sync has covered yet, and those that are full. With log.lock
 * held, in one go with the rest of the look: what is written later belongs to a later commit.
 */
static void note_shards(tg_lane *n, progress *p)
{
    p->dirty = p->full = 0;

    for (uint32_t i = 0; i < n->plan.n_shards; i++) {
        tg_shard *shard = &n->shards[i];
        if (shard->state != TG_SHARD_OPEN && shard->state != TG_SHARD_FULL)
            continue; /* nothing of it counts yet, and its files are others' */
        for (uint32_t j = 0; j < n->layout.n_planes; j++)
            p->dirty |= (uint32_t)shard->file[j].dirty << i;
        p->full |= (uint32_t)(shard->state == TG_SHARD_FULL && !shard->lost) << i;
        if (!tg_lane_is_live(n) || shard != n->current || !shard->file[0].index_dirty)
            continue;
        n->live_pending = shard;
        shard->file[0].index_dirty = false;
        for (uint32_t j = 0; j < n->layout.n_planes; j++)
            memcpy(n->live_entries[j], shard->file[j].entries,
                   (size_t)n->layout.plane[j].shard_chunks * sizeof(tg_shard_entry));
    }
}

static tg_status look_at_lane(tg_lane *n, bool tail, progress *p, tg_error *err)
{
    tg_mark mark = {0};
    bool all = settled(n, &mark);

    if (!all && tail && !n->s->null_sink)
        TG_TRY(tg_tail_write(n, &mark, err));
    TG_LOCKED_FOR_IO(&n->s->log.lock);
    if (all) {
        TG_TRY(tg_log_rows(n, mark, err));
        if (mark.slots >= n->written.slots)
            n->written = mark;
    }
    p->chunks = p->mark = n->written;
    if (mark.rows > p->mark.rows)
        p->mark = mark;
    if (n->durable.rows > p->mark.rows)
        p->mark = n->durable; /* by the tail file, which this commit did not look at */
    p->covered = tg_record_bytes(&n->s->log);
    note_shards(n, p);
    return TG_OK;
}

static tg_status sync_shard(tg_lane *n, tg_shard *shard, tg_error *err)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        tg_shard_file *f = &shard->file[p];
        bool dirty;
        {
            TG_LOCKED_FOR_IO(&n->s->log.lock);
            dirty = f->dirty;
            f->dirty = false;
        }
        if (!dirty)
            continue;
        tg_status st = tg_object_sync(f->object, NULL, err);
        if (st != TG_OK) {
            shard->lost = true;
            return st;
        }
    }
    return TG_OK;
}

/* A full shard gets its index together with the sync that it needs anyway: nothing shows its
 * chunks before the shape does, and recover trusts none without a commit record. A live one is
 * in readers' hands: its data first. */
static tg_status seal_shard(tg_lane *n, tg_shard *shard, tg_error *err)
{
    if (n->layout.live)
        TG_TRY(sync_shard(n, shard, err));
    tg_status st = tg_seal_files(n, shard, err);
    shard->lost = st != TG_OK;
    return st;
}

static tg_status sync_lane(tg_lane *n, const progress *p, tg_error *err)
{
    for (uint32_t i = 0; i < n->plan.n_shards; i++) {
        if ((p->full >> i & 1) != 0)
            TG_TRY(seal_shard(n, &n->shards[i], err));
        else if ((p->dirty >> i & 1) != 0)
            TG_TRY(sync_shard(n, &n->shards[i], err));
    }
    return TG_OK;
}

static bool any_unsharded(const tg_stream *s)
{
    for (uint32_t i = 0; i < s->n_lanes; i++)
        if (!s->lanes[i].layout.sharded)
            return true;
    return false;
}

/* Everything but the commit record, lane by lane; a lane that fails keeps its old offset. */
static void sync_lanes(tg_stream *s, progress *p)
{
    tg_status st = TG_OK;
    tg_error err = {0};

    for (uint32_t i = 0; i < s->n_lanes; i++) {
        tg_lane *n = &s->lanes[i];
        tg_error own = {0};
        if (p[i].covered == 0 || sync_lane(n, &p[i], &own) == TG_OK)
            continue;
        p[i].covered = 0;
        n->sync_failed = true;
        tg_lane_fail(n, &own, UINT64_MAX);
    }
    if (any_unsharded(s))
        st = tg_store_sync(s->store, NULL, &err);
    for (uint32_t i = 0; st != TG_OK && i < s->n_lanes; i++)
        if (!s->lanes[i].layout.sharded) {
            p[i].covered = 0;
            s->lanes[i].sync_failed = true;
            tg_lane_fail(&s->lanes[i], &err, UINT64_MAX);
        }
}

static tg_status write_commit(tg_stream *s, const progress *p, tg_error *err)
{
    uint64_t covered[TG_STREAM_ARRAYS];

    for (uint32_t i = 0; i < s->n_lanes; i++)
        covered[i] = p[i].covered == 0 ? s->lanes[i].covered : p[i].covered;
    {
        TG_LOCKED_FOR_IO(&s->log.lock);
        TG_TRY(tg_record_commit_add(&s->log, covered, s->n_lanes, err));
        TG_TRY(tg_record_flush(&s->log, err));
    }
    return tg_record_sync(&s->log, err);
}

static void set_durable(tg_lane *n, const progress *p)
{
    n->durable = p->mark;
    n->in_chunks = p->chunks;
    n->covered = p->covered;
    atomic_store(&n->count.durable, p->mark.frames);
    if (p->mark.frames > atomic_load(&n->count.written))
        atomic_store(&n->count.written, p->mark.frames); /* by the tail file */
    atomic_store(&n->durable_rows, p->mark.rows);
}

/* What is sealed may be published. */
static tg_status after_commit(tg_lane *n, const progress *p, tg_error *err)
{
    for (uint32_t i = 0; i < n->plan.n_shards; i++)
        if ((p->full >> i & 1) != 0)
            TG_TRY(tg_log_sealed(n, &n->shards[i], err));
    return tg_absorb_rows(n, err);
}

static bool anything_new(const tg_stream *s, const progress *p)
{
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        const tg_lane *n = &s->lanes[i];
        if (p[i].mark.rows != n->durable.rows || p[i].mark.slots != n->durable.slots ||
            p[i].chunks.slots != n->in_chunks.slots || (p[i].dirty | p[i].full) != 0)
            return true;
    }
    return false;
}

static void commit(tg_stream *s, bool all)
{
    progress p[TG_STREAM_ARRAYS] = {0};
    int64_t now = tg_clock_ns();
    tg_error err = {0};

    atomic_store(&s->bytes_since_commit, 0);
    s->committed_ns = now;
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        tg_lane *n = &s->lanes[i];
        tg_error own = {0};
        bool tail = all || now - n->tail_ns >= s->commit_ns;
        if (tail)
            n->tail_ns = now;
        if (n->sync_failed || look_at_lane(n, tail, &p[i], &own) != TG_OK) {
            p[i] = (progress){.mark = n->durable, .chunks = n->in_chunks};
            if (own.code != TG_OK)
                tg_lane_fail(n, &own, UINT64_MAX);
        }
    }
    if (s->null_sink) {
        for (uint32_t i = 0; i < s->n_lanes; i++) {
            set_durable(&s->lanes[i], &p[i]);
            if (tg_absorb_rows(&s->lanes[i], &err) != TG_OK)
                tg_lane_fail(&s->lanes[i], &err, UINT64_MAX);
        }
        return;
    }
    if (!anything_new(s, p))
        return;
#if TG_PLANT == 4
    for (uint32_t i = 0; i < s->n_lanes; i++)
        set_durable(&s->lanes[i], &p[i]);
    tg_publish(s, true);
#endif
    sync_lanes(s, p);
    if (write_commit(s, p, &err) != TG_OK) {
        tg_stream_fail(s, &err);
        for (uint32_t i = 0; i < s->n_lanes; i++)
            s->lanes[i].sync_failed = true;
        return;
    }
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        if (p[i].covered == 0)
            continue;
        set_durable(&s->lanes[i], &p[i]);
        if (after_commit(&s->lanes[i], &p[i], &err) != TG_OK)
            tg_lane_fail(&s->lanes[i], &err, UINT64_MAX);
    }
    tg_signal_post(&s->write); /* shards are free again */
}

/* --- The thread ------------------------------------------------------------------------ */

static bool lane_is_finishing(const tg_stream *s)
{
    for (uint32_t i = 0; i < s->n_lanes; i++)
        if (atomic_load(&s->lanes[i].finishing))
            return true;
    return false;
}

static bool due(const tg_stream *s, int64_t now)
{
    if (now - s->committed_ns >= s->commit_ns)
        return true;
    return atomic_load(&s->bytes_since_commit) >= COMMIT_BYTES &&
           now - s->committed_ns >= COMMIT_NS;
}

/* When to look again if nobody asks. */
static int64_t next_look(const tg_stream *s)
{
    int64_t at = s->committed_ns + s->commit_ns, sample = tg_sample_next(s);

    if (atomic_load(&s->bytes_since_commit) >= COMMIT_BYTES && s->committed_ns + COMMIT_NS < at)
        at = s->committed_ns + COMMIT_NS;
    return sample < at ? sample : at;
}

static void want_shards_ended(tg_stream *s, bool flush)
{
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        tg_lane *n = &s->lanes[i];
        if (n->layout.sharded && !tg_lane_is_live(n) && (flush || atomic_load(&n->finishing)) &&
            atomic_load(&n->published_slots) < n->in_chunks.slots) {
            atomic_store(&n->end_wanted, true);
            tg_signal_post(&s->write);
        }
    }
}

static void one_round(tg_stream *s, bool stop)
{
    int64_t now = tg_clock_ns();
    bool flush = atomic_load(&s->flushes[TG_LEVEL_PUBLISHED]) > 0;
    bool finishing = lane_is_finishing(s);
    bool wanted = atomic_exchange(&s->commit_wanted, false);
    bool all = stop || flush || finishing || atomic_load(&s->flushes[TG_LEVEL_DURABLE]) > 0;

    if (!all && !wanted && !due(s, now))
        return;
    commit(s, all);
    if (stop || flush || finishing ||
        (now - s->published_ns >= s->commit_ns && tg_publish_due(s))) {
        s->published_ns = now;
        tg_publish(s, stop || flush || finishing);
        if (flush || finishing)
            want_shards_ended(s, flush);
        tg_signal_post(&s->write);
    }
    tg_signal_post(&s->progress);
}

/* The files of the next shards; no next one comes where it ends. */
static void make_ahead(tg_stream *s, bool stop)
{
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        tg_lane *n = &s->lanes[i];
        if (!stop && !atomic_load(&n->finishing)) {
            tg_sink_make_ahead(n);
            continue;
        }
        TG_LOCKED_FOR_IO(&s->log.lock);
        tg_sink_drop_ahead(n);
    }
}

void tg_committer_main(void *stream)
{
    tg_stream *s = stream;

    while (!atomic_load(&s->abandoned)) {
        uint64_t seen = tg_signal_seen(&s->commit);
        bool stop = atomic_load(&s->stop_committer);
        make_ahead(s, stop);
        one_round(s, stop);
        tg_sample(s, stop);
        if (stop)
            return;
        tg_signal_wait(&s->commit, seen, next_look(s));
    }
}
