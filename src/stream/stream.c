/* stream/stream.c - a recorder's life: open checks and reserves everything, close writes what
 * was accepted and says how it went, free abandons. */
#include "stream/arena.h"
#include "stream/create.h"
#include "stream/options.h"

#include <inttypes.h>
#include <string.h>

#define JOURNAL_BUFFER ((size_t)256 << 10)

/* --- Lanes -------------------------------------------------------------------------- */

static void init_lane(tg_stream *s, uint32_t i, const tg_stream_array *a,
                      const tg_lane_plan *plan)
{
    tg_lane *n = &s->lanes[i];

    n->s = s;
    n->number = i;
    n->plan = *plan;
    n->layout = plan->layout;
    tg_ring_init(&n->ring);
    tg_mutex_init(&n->error_lock);
    tg_placer_init(&n->placer, &n->layout);
    n->on_full = a->on_full;
    n->decimate = a->decimate;
    n->timeout_ns = a->timeout > 0 && a->timeout < 9e9 ? (int64_t)(a->timeout * 1e9) : -1;
    n->compact = a->on_gap == TG_GAP_COMPACT;
    tg_sequence_init(&n->sequence, a->ids, a->max_gap, n->compact);
    n->sealed_shard = n->padded_layer = n->next_shard = TG_NO_LAYER;
}

static tg_status make_chains(tg_lane *n, const tg_stream_array *a, tg_error *err)
{
    for (uint32_t p = 0; n->layout.encoded && p < n->layout.n_planes; p++) {
        tg_layout_vectors v;
        tg_shape shape;
        tg_layout_vectors_init(&n->layout, p, &v);
        shape.ndim = v.ndim;
        memcpy(shape.n, v.chunk, sizeof v.chunk[0] * v.ndim);
        TG_TRY(tg_chain_open_text(&n->chain[p], a->codec, n->layout.checksum, n->layout.format,
                                  n->layout.dtype, &shape, err));
    }
    return TG_OK;
}

static void free_lane(tg_lane *n)
{
    for (uint32_t i = 0; n->shards != NULL && i < n->plan.n_shards; i++)
        for (uint32_t p = 0; p < n->layout.n_planes; p++)
            tg_object_free(n->shards[i].file[p].object);
    for (uint32_t p = 0; p < TG_PLANES; p++) {
        tg_chain_free(n->chain[p]);
        tg_array_meta_free(n->meta[p]);
        tg_array_free(n->array[p]);
    }
    tg_frame_table_free(n->table);
    tg_tail_free(n);
    tg_free(n->path);
    tg_ring_destroy(&n->ring);
    tg_mutex_destroy(&n->error_lock);
}

static tg_status make_lanes(tg_stream *s, const tg_stream_options *o, const tg_plan *plan,
                            tg_error *err)
{
    s->lanes = tg_calloc(o->n_arrays, sizeof *s->lanes);
    if (s->lanes == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %" PRIu32 " arrays", o->n_arrays);
    s->n_lanes = o->n_arrays;
    for (uint32_t i = 0; i < s->n_lanes; i++)
        init_lane(s, i, &o->arrays[i], &plan->lane[i]);
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        const char *name = o->arrays[i].name;
        s->lanes[i].path = tg_strdup(name == NULL ? "" : name);
        if (s->lanes[i].path == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for a name");
        TG_TRY(make_chains(&s->lanes[i], &o->arrays[i], err));
    }
    return TG_OK;
}

/* --- Open ----------------------------------------------------------------------------- */

static tg_status reserve(tg_stream *s, tg_runtime *rt, const tg_stream_options *o,
                         tg_plan *plan, tg_error *err)
{
    tg_budget *b = tg_runtime_budget(rt);
    uint64_t free_bytes = tg_budget_total(b) - tg_budget_used(b);
    uint64_t most =
        o->memory_bytes == 0 || o->memory_bytes > free_bytes ? free_bytes : o->memory_bytes;

    TG_TRY(tg_stream_plan_make(plan, o, tg_runtime_threads(rt), most, err));
    tg_status st = tg_budget_reserve(b, plan->total_bytes, "the recorder", err);
    if (st == TG_OK)
        s->reserved = plan->total_bytes;
    s->budget_bytes = tg_budget_total(b);
    s->n_encoders = plan->n_encoders;
    return st;
}

const char *const tg_recorder_files[] = {"journal", "tail-", "shard-", NULL};

static bool journal_is_void(const tg_stream *s, const tg_stream_options *o)
{
    tg_store_options so = {.size = sizeof so, .mode = TG_STORE_READ};
    tg_store *store = NULL;

    if (o->mode == TG_STREAM_OVERWRITE)
        return true;
    bool there = s->zip ? tg_store_open_zip(&store, s->path, &so, NULL) != TG_NOT_FOUND
                        : tg_store_open_fs(&store, s->path, &so, NULL) != TG_NOT_FOUND;
    tg_store_free(store);
    return !there;
}

/* A journal that a run left behind must be replayed before anything is written, unless what it
 * belongs to is gone. */
static tg_status check_journal(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    if (!tg_side_has(&s->side, TG_RECORD_FILE))
        return TG_OK;
    if (!journal_is_void(s, o))
        return tg_fail(
            err, TG_INCOMPLETE,
            "'%s': a recording died here; 'tidegate recover' brings back what it had", s->path);
    return tg_side_clear(&s->side, tg_recorder_files, err);
}

static tg_status start_journal(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    char *text = NULL;

    if (s->null_sink)
        return TG_OK;
    TG_TRY(tg_journal_create(&s->log.journal, s->side.dir, TG_RECORD_FILE, TG_RECORD_KIND,
                             TG_RECORD_MAJOR, TG_RECORD_MINOR, JOURNAL_BUFFER, err));
    TG_TRY(tg_journal_head(s, o, &text, err));
    tg_status st = tg_record_open(&s->log, text, err);
    tg_free(text);
    return st == TG_OK ? tg_journal_sync(s->log.journal, err) : st;
}

static tg_status open_places(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    tg_store_options so = {
        .size = sizeof so, .mode = TG_STORE_READ_WRITE, .buffered = o->direct == TG_DIRECT_OFF};

    if (s->null_sink)
        return TG_OK;
    TG_TRY(tg_side_open(&s->side, s->path, err));
    TG_TRY(check_journal(s, o, err));
    TG_TRY(tg_create_store(s, o, err));
    return tg_store_open_fs(&s->side_store, s->side.path, &so, err);
}

static tg_status start_threads(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    TG_TRY(tg_sampler_new(s, err));
    if (o->progress != NULL)
        TG_TRY(tg_reporter_new(&s->reporter, o->progress, o->progress_user, "record", 0, err));
    TG_TRY(tg_encoders_start(s, err));
    TG_TRY(tg_thread_start(&s->writer, "writer", tg_writer_main, s, err));
    return tg_thread_start(&s->committer, "committer", tg_committer_main, s, err);
}

/* Does this store write past the page cache? Asked by a value that is never finished. */
static tg_status store_is_direct(tg_stream *s, bool *direct, tg_error *err)
{
    TG_AUTO_PTR(tg_object) probe = NULL;

    TG_TRY(tg_object_begin(s->store, "probe", (tg_object_options){0}, &probe, NULL, err));
    *direct = tg_object_is_direct(probe);
    tg_object_abort(probe);
    return TG_OK;
}

static tg_status warn_of_live(tg_stream *s, tg_error *err)
{
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        tg_lane *n = &s->lanes[i];
        if (!n->layout.live || s->null_sink)
            continue;
        bool direct;
        TG_TRY(store_is_direct(s, &direct, err));
        if (direct)
            return TG_OK;
        tg_runtime_log(s->rt,
                       "'%s': no direct I/O here, where readers would see torn indexes: "
                       "live shards are published when they are full",
                       s->path);
        for (; i < s->n_lanes; i++)
            s->lanes[i].live_late = s->lanes[i].layout.live;
    }
    return TG_OK;
}

tg_status tg_stream_build(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    tg_plan plan = {0};
    tg_status st = reserve(s, s->rt, o, &plan, err);

    if (st == TG_OK)
        st = make_lanes(s, o, &plan, err);
    s->plate = tg_steal(plan.plate);
    tg_stream_plan_free(&plan);
    return st == TG_OK ? tg_arena_cut(s, err) : st;
}

static tg_status open_steps(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    TG_TRY(tg_stream_build(s, o, err));
    TG_TRY(tg_thread_start(&s->toucher, "toucher", tg_arena_touch, s, err));
    TG_TRY(tg_create_prepare(s, o, err));
    TG_TRY(open_places(s, o, err));
    TG_TRY(tg_create(s, o, err));
    TG_TRY(warn_of_live(s, err));
    TG_TRY(start_journal(s, o, err));
    s->open_ns = s->committed_ns = s->published_ns = tg_clock_ns();
    atomic_store(&s->last_append_ns, s->open_ns);
    for (uint32_t i = 0; i < s->n_lanes; i++)
        s->lanes[i].tail_ns = s->open_ns;
    return start_threads(s, o, err);
}

tg_status tg_stream_new(tg_runtime *rt, const char *path, tg_stream **out, tg_error *err)
{
    tg_stream *s = tg_calloc(1, sizeof *s);

    if (s == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a recorder");
    s->rt = rt;
    s->zip = tg_path_is_zip(path);
    s->side.dir = -1;
    tg_record_log_init(&s->log);
    tg_signal_init(&s->encode);
    tg_signal_init(&s->write);
    tg_signal_init(&s->commit);
    tg_signal_init(&s->progress);
    s->path = tg_strdup(path);
    if (s->path == NULL) {
        tg_stream_discard(s);
        return tg_fail(err, TG_NO_MEMORY, "no memory for a path");
    }
    *out = s;
    return TG_OK;
}

tg_status tg_stream_open(tg_runtime *rt, const tg_stream_options *options, tg_stream **out,
                         tg_error *err)
{
    if (rt == NULL || out == NULL)
        return tg_fail(err, TG_INVALID, "no runtime, or no place for the recorder");
    TG_TRY(tg_options_check(options, err));
    tg_stream *s = NULL;
    TG_TRY(tg_stream_new(rt, options->path, &s, err));
    s->format = options->format == 0 ? 3 : options->format;
    s->null_sink = options->null_sink;
    s->appends = options->mode == TG_STREAM_APPEND;
    double interval = options->commit_interval > 0 ? options->commit_interval : 1;
    s->commit_ns = interval < 1e9 ? (int64_t)(interval * 1e9) : (int64_t)1e18;
    tg_status st = open_steps(s, options, err);
    if (st == TG_OK)
        *out = s;
    else
        tg_stream_discard(s);
    return st;
}

/* --- The end ------------------------------------------------------------------------------ */

static void stop_threads(tg_stream *s)
{
    tg_encoders_stop(s);
    atomic_store(&s->stop_writer, true);
    tg_signal_post(&s->write);
    tg_thread_join(s->writer);
    s->writer = NULL;
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        TG_LOCKED_FOR_IO(&s->log.lock);
        tg_sink_end_shard(&s->lanes[i]);
    }
    atomic_store(&s->stop_committer, true);
    tg_signal_post(&s->commit);
    tg_thread_join(s->committer);
    s->committer = NULL;
}

static void release(tg_stream *s, bool unlock)
{
    tg_thread_join(s->toucher);
    for (uint32_t i = 0; i < s->n_lanes; i++)
        free_lane(&s->lanes[i]);
    tg_free(s->lanes);
    tg_groups_free(s);
    tg_ome_plate_free(s->plate);
    tg_json_free(s->plate_image);
    tg_record_log_destroy(&s->log);
    tg_store_free(s->side_store);
    tg_store_free(s->store);
    tg_side_free(&s->side, unlock);
    tg_arena_unmap(&s->arena);
    tg_free(s->sampler);
    tg_reporter_free(s->reporter);
    tg_signal_destroy(&s->encode);
    tg_signal_destroy(&s->write);
    tg_signal_destroy(&s->commit);
    tg_signal_destroy(&s->progress);
    if (s->reserved > 0)
        tg_budget_release(tg_runtime_budget(s->rt), s->reserved);
    tg_free(s->path);
    tg_free(s);
}

static void abandon(tg_stream *s)
{
    atomic_store(&s->abandoned, true);
    for (uint32_t i = 0; i < s->n_lanes; i++)
        tg_ring_wake(&s->lanes[i].ring);
    stop_threads(s);
}

void tg_stream_free(tg_stream *s)
{
    if (s == NULL)
        return;
    abandon(s);
    release(s, false);
}

void tg_stream_discard(tg_stream *s)
{
    bool journal = s->log.journal != NULL;

    abandon(s);
    tg_status st = journal ? tg_side_clear(&s->side, tg_recorder_files, NULL) : TG_OK;
    (void)st; /* what made the open fail is what is reported */
    release(s, true);
}

static bool all_idle(tg_stream *s)
{
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        TG_LOCKED(&s->lanes[i].ring.lock);
        if (!tg_ring_is_idle(&s->lanes[i].ring))
            return false;
    }
    return true;
}

/* All that is queued is written, or lost with an error. */
static void drain(tg_stream *s)
{
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        s->lanes[i].lease = NULL;
        if (!s->lanes[i].ended)
            tg_lane_finish(&s->lanes[i]);
        s->lanes[i].ended = true;
    }
    for (;;) {
        uint64_t seen = tg_signal_seen(&s->progress);
        if (all_idle(s))
            return;
        tg_signal_wait(&s->progress, seen, -1);
    }
}

static void fill_report(tg_stream *s, tg_stream_report *report)
{
    tg_stream_report r = {.size = report->size < sizeof r ? report->size : sizeof r};
    const tg_lane *first = &s->lanes[0];
    uint64_t outer[8] = {0};

    r.total.size = sizeof r.total;
    tg_stream_get_stats(s, UINT32_MAX, &r.total);
    r.seconds = (double)(tg_clock_ns() - s->open_ns) * 1e-9;
    r.source_seconds = (double)(atomic_load(&s->last_append_ns) - s->open_ns) * 1e-9;
    r.budget_bytes = s->budget_bytes;
    if (first->layout.n_axes > 0) {
        tg_layout_image_shape(&first->layout, 0, first->published.slots, outer);
        outer[first->layout.slow] = first->outer;
    }
    memcpy(r.extent, outer, sizeof r.extent);
    if (tg_sampler_take(s, &r.samples, &r.n_samples, NULL) != TG_OK)
        r.n_samples = 0; /* a report without its plot */
    memcpy(report, &r, r.size);
}

/* After an error the tail file may have durable frames that are in no chunk: such a ZIP is not
 * closed, recovery brings them into it. */
static bool waits_for_recovery(const tg_stream *s)
{
    for (uint32_t i = 0; s->zip && i < s->n_lanes; i++)
        if (s->lanes[i].durable.slots > s->lanes[i].in_chunks.slots)
            return true;
    return false;
}

/* The first failure of all, or of the last steps. */
static tg_status finish(tg_stream *s, tg_error *err)
{
    tg_error first = {0}, own = {0};
    tg_status lanes = tg_stream_last_error(s, UINT32_MAX, &first, NULL);
    bool ends = !s->null_sink && !waits_for_recovery(s);
    tg_status st = TG_OK;

    if (ends)
        st = tg_publish_end(s, &own);
    if (ends && st == TG_OK && !tg_journal_is_needed(s)) {
        st = tg_journal_close(s->log.journal, &own);
        if (st == TG_OK)
            st = tg_store_close(s->store, &own);
        if (st == TG_OK)
            st = tg_side_clear(&s->side, tg_recorder_files, &own);
        if (st == TG_OK)
            st = tg_side_close(&s->side, &own);
    }
    if (err != NULL && lanes != TG_OK)
        *err = first;
    else if (err != NULL && st != TG_OK)
        *err = own;
    return lanes != TG_OK ? lanes : st;
}

tg_status tg_stream_close(tg_stream *s, tg_stream_report *report, tg_error *err)
{
    if (s == NULL)
        return tg_fail(err, TG_INVALID, "no recorder");
    drain(s);
    stop_threads(s);
    tg_status st = finish(s, err);
    if (report != NULL)
        fill_report(s, report);
    release(s, true);
    return st;
}
