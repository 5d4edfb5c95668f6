/* stream/publish.c - what is durable becomes visible: indexes of full shards (or of live ones),
 * rows of the frame table, then shapes. Runs in the committer's thread. */
#include "stream/create.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- Indexes ------------------------------------------------------------------------- */

static tg_status encode_index(tg_lane *n, uint32_t plane, const tg_shard_entry *entries,
                              size_t *len, tg_error *err)
{
    *len = tg_shard_index_bytes(n->meta[plane]);
    TG_TRY(tg_shard_index_encode(n->meta[plane], entries, n->index, err));
    memset(n->index + *len, 0, n->plan.index_bytes - *len);
    return TG_OK;
}

static size_t whole_blocks(size_t n)
{
    return (n + TG_BLOCK - 1) / TG_BLOCK * TG_BLOCK;
}

/* A shard that goes on in an older one's place takes it. */
static tg_status replace_shard(tg_lane *n, uint32_t plane, uint64_t number, tg_error *err)
{
    char key[TG_KEY_BYTES], name[64];
    int root = tg_store_dir(n->s->store);

    tg_sink_side_name(n, plane, number, name, sizeof name);
    TG_TRY(tg_sink_shard_key(n, plane, number, key, sizeof key, err));
    if (tg_sys_rename(n->s->side.dir, name, root, key) != 0) {
        tg_status st = tg_fail_errno(err, "move '%s/%s' to '%s'", n->s->side.path, name, key);
        tg_error_at(err, key, TG_NO_OFFSET);
        return st;
    }
    *strrchr(key, '/') = '\0';
    TG_AUTO(tg_fd) dir = tg_sys_open(root, key, O_RDONLY | O_DIRECTORY, 0);
    return dir < 0 ? tg_fail_errno(err, "open directory '%s'", key)
                   : tg_dir_sync(dir, key, err);
}

static bool is_empty(const tg_lane *n, uint32_t plane, const tg_shard_file *f)
{
    for (uint64_t i = 0; i < n->layout.plane[plane].shard_chunks; i++)
        if (f->entries[i].offset != UINT64_MAX)
            return false;
    return true;
}

static tg_status seal_file(tg_lane *n, tg_shard *shard, uint32_t plane, tg_error *err)
{
    tg_shard_file *f = &shard->file[plane];
    size_t len;

    if (f->object == NULL)
        return TG_OK; /* (recover) it had taken its place */
    if (is_empty(n, plane, f)) {
        tg_object_abort(f->object); /* a shard without chunks is none */
        return TG_OK;
    }
    TG_TRY(encode_index(n, plane, f->entries, &len, err));
    if (n->layout.live) {
        TG_TRY(tg_object_write_at(f->object, 0, n->index, whole_blocks(len), NULL, err));
        return tg_object_seal(f->object, f->end, NULL, err);
    }
    TG_TRY(tg_object_write_at(f->object, f->end, n->index, whole_blocks(len), NULL, err));
    TG_TRY(tg_object_seal(f->object, f->end + len, NULL, err));
    return shard->side ? replace_shard(n, plane, shard->number, err) : TG_OK;
}

tg_status tg_seal_files(tg_lane *n, tg_shard *shard, tg_error *err)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++)
        TG_TRY(seal_file(n, shard, p, err));
    return TG_OK;
}

tg_status tg_log_sealed(tg_lane *n, tg_shard *shard, tg_error *err)
{
    tg_record_sealed r = {n->number, shard->side ? TG_LAYER_SIDE : 0, shard->number};

    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        tg_object_free(shard->file[p].object);
        shard->file[p].object = NULL;
    }
    TG_LOCKED_FOR_IO(&n->s->log.lock);
    TG_TRY(tg_record_sealed_add(&n->s->log, &r, err));
    n->sealed_shard = shard->number;
    if (shard->mark.slots > n->sealed.slots)
        n->sealed = shard->mark;
    tg_shard_reset(n, shard);
    return TG_OK;
}

static tg_status write_live_index(tg_lane *n, tg_error *err)
{
    tg_shard *shard;
    {
        TG_LOCKED_FOR_IO(&n->s->log.lock);
        shard = n->live_pending;
        n->live_pending = NULL;
        if (shard == NULL || shard->state != TG_SHARD_OPEN)
            return TG_OK; /* one that is full was sealed, index and all */
    }
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        size_t len;
        TG_TRY(encode_index(n, p, n->live_entries[p], &len, err));
        TG_TRY(tg_object_write_at(shard->file[p].object, 0, n->index, whole_blocks(len), NULL,
                                  err));
        TG_TRY(tg_object_sync(shard->file[p].object, NULL, err));
    }
    return TG_OK;
}

/* --- Shapes ---------------------------------------------------------------------------- */

tg_status tg_write_shapes(tg_lane *n, const uint64_t *outer, tg_error *err)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        tg_layout_vectors v;
        tg_layout_vectors_init(&n->layout, p, &v);
        for (uint32_t d = 0; d < n->layout.n_axes; d++)
            v.shape[tg_layout_axis(&n->layout, d)] = outer[d];
        TG_TRY(tg_array_resize(n->array[p], v.shape, NULL, err));
    }
    return TG_OK;
}

static uint64_t slowest(const tg_layout *l, const uint64_t *outer)
{
    return outer[l->slow];
}

/* Of all fields of a plate. */
static tg_status show_plate(tg_lane *n, uint64_t slots, bool up, uint64_t *covered,
                            uint64_t *extent, tg_error *err)
{
    const tg_layout *l = &n->layout;
    uint64_t outer[TG_STREAM_DIMS] = {0};

    *covered = up ? slots : tg_layout_whole_units(l, slots);
    TG_TRY(tg_plate_show(n, *covered, err));
    tg_layout_image_shape(l, 0, n->shown, outer);
    *extent = slowest(l, outer);
    return TG_OK;
}

static tg_status show(tg_lane *n, uint64_t slots, bool up, uint64_t *covered, uint64_t *extent,
                      tg_error *err)
{
    const tg_layout *l = &n->layout;
    uint64_t outer[TG_STREAM_DIMS] = {0};

    *covered = slots;
    *extent = 1;
    if (l->n_dims > 0) {
        tg_layout_shape(l, slots, up, outer);
        if (slowest(l, outer) < n->outer)
            outer[l->slow] = n->outer;
        *covered = tg_layout_slots_of_shape(l, outer);
        *covered = *covered < slots ? *covered : slots;
        *extent = slowest(l, outer);
    }
    return n->array[0] != NULL && *extent > n->outer ? tg_write_shapes(n, outer, err) : TG_OK;
}

/* The shape covers the slots of `mark`: with `up` the last, partial unit of the slowest
 * dimension, too. Never shrinks. */
static tg_status publish_shape(tg_lane *n, const tg_mark *mark, bool up, tg_error *err)
{
    uint64_t covered, extent;

    if (mark->slots <= n->published.slots)
        return TG_OK;
    TG_TRY(tg_layout_is_plate(&n->layout)
               ? show_plate(n, mark->slots, up, &covered, &extent, err)
               : show(n, mark->slots, up, &covered, &extent, err));
    if (covered <= n->published.slots)
        return TG_OK;
    /* Of the slots that the shape leaves out none is taken to be empty: a lower bound. */
    uint64_t frames =
        mark->frames -
        (mark->slots - covered < mark->frames ? mark->slots - covered : mark->frames);
    n->outer = extent;
    n->published.slots = covered;
    if (frames > n->published.frames)
        n->published.frames = frames;
    atomic_store(&n->count.shape, n->outer);
    atomic_store(&n->count.published, n->published.frames);
    return TG_OK;
}

/* --- Rows -------------------------------------------------------------------------------- */

tg_status tg_absorb_rows(tg_lane *n, tg_error *err)
{
    tg_ring *r = &n->ring;

    if (n->absorbed.rows == n->durable.rows)
        return TG_OK;
    while (n->table != NULL && n->absorbed.rows < n->durable.rows) {
        tg_frame_row row;
        tg_bytes values;
        size_t used;
        uint64_t at = tg_ring_row_at(r, n->absorbed.rows_end);
        tg_bytes src = {r->rows + at % r->rows_bytes, r->row_most};
        TG_TRY(tg_frame_row_read(&n->plan.columns, src, &row, &values, &used, err));
        TG_TRY(tg_frame_table_add(n->table, &row, values, NULL, err));
        n->absorbed.rows_end = at + used;
        n->absorbed.rows++;
    }
    n->absorbed = n->durable;
    tg_ring_free_rows(&n->ring, n->absorbed.rows_end);
    return TG_OK;
}

static tg_status publish_rows(tg_lane *n, tg_error *err)
{
    TG_TRY(tg_absorb_rows(n, err));
    if (n->published.rows == n->absorbed.rows)
        return TG_OK;
    if (n->table != NULL) {
        TG_TRY(tg_frame_table_write(n->table, NULL, err));
        TG_TRY(tg_store_sync(n->s->store, NULL, err));
        TG_TRY(tg_frame_table_publish(n->table, tg_frame_table_rows(n->table), NULL, err));
        TG_TRY(tg_store_sync(n->s->store, NULL, err));
    }
    n->published.rows = n->absorbed.rows;
    n->published.rows_end = n->absorbed.rows_end;
    return TG_OK;
}

/* --- One lane ------------------------------------------------------------------------------
 */

/* Is there a shard whose chunks no index shows yet? Those of a live one are shown by now. If
 * there is none, slots behind the last chunk count, too: they have no pixels. */
static bool waits_for_seal(tg_lane *n)
{
    TG_LOCKED_FOR_IO(&n->s->log.lock);

    for (uint32_t i = 0; i < n->plan.n_shards; i++)
        if (n->shards[i].state == TG_SHARD_FULL ||
            (n->shards[i].state == TG_SHARD_OPEN && !tg_lane_is_live(n)))
            return true;
    return false;
}

static tg_status find_mark(tg_lane *n, tg_mark *mark, tg_error *err)
{
    *mark = n->published;
    if (n->s->null_sink || !n->layout.sharded) {
        *mark = n->in_chunks;
        return TG_OK;
    }
    if (n->sealed.slots > mark->slots)
        *mark = n->sealed;
    if (tg_lane_is_live(n))
        TG_TRY(write_live_index(n, err));
    if (!waits_for_seal(n) && n->in_chunks.slots > mark->slots)
        *mark = n->in_chunks;
    return TG_OK;
}

static tg_status publish_lane(tg_lane *n, bool all, tg_error *err)
{
    tg_mark mark;
    uint64_t slots = n->published.slots, rows = n->published.rows;

    /* Said when it happened. A shard that is full may be newer than the last commit that
     * succeeded: recover publishes what is durable. */
    if (n->table_failed || n->sync_failed)
        return TG_OK;
    TG_TRY(find_mark(n, &mark, err));
    if (all || mark.slots > slots)
        TG_TRY(publish_rows(n, err));
    if (!n->s->zip)
        TG_TRY(publish_shape(n, &mark, all, err));
    atomic_store(&n->published_rows, n->published.rows);
    atomic_store(&n->published_slots, n->published.slots);
    if (n->published.slots == slots && n->published.rows == rows)
        return TG_OK;
    tg_record_published r = {n->number, n->published.slots, n->published.rows};
    TG_LOCKED_FOR_IO(&n->s->log.lock);
    return tg_record_published_add(&n->s->log, &r, err);
}

bool tg_publish_due(const tg_stream *s)
{
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        const tg_lane *n = &s->lanes[i];
        if (!n->layout.sharded || tg_lane_is_live(n)) {
            if (n->in_chunks.slots > n->published.slots)
                return true;
            continue;
        }
        if (n->sealed.slots > n->published.slots)
            return true;
    }
    return false;
}

void tg_publish(tg_stream *s, bool all)
{
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        tg_lane *n = &s->lanes[i];
        tg_error err = {0};
        if (publish_lane(n, all || atomic_load(&n->finishing), &err) != TG_OK)
            tg_lane_fail(n, &err, UINT64_MAX);
    }
}

/* --- The end ---------------------------------------------------------------------------------
 */

bool tg_journal_is_needed(const tg_stream *s)
{
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        const tg_lane *n = &s->lanes[i];
        if (n->durable.slots > n->published.slots || n->durable.rows > n->published.rows)
            return true;
    }
    return false;
}

static tg_status stamp(const tg_lane *n, tg_json *o, tg_error *err)
{
    const tg_counters *c = &n->count;
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"frames", atomic_load(&c->published)},
                   {"dropped", atomic_load(&c->dropped)},
                   {"skipped", atomic_load(&c->skipped) + atomic_load(&c->lost)},
                   {"errors", atomic_load(&c->failed)}};

    bool complete = !atomic_load(&n->failed) && !atomic_load(&n->failed_to_write);
    TG_TRY(tg_json_set(o, "complete", tg_json_new_bool(complete), err));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        TG_TRY(tg_json_set(o, numbers[i].key, tg_json_new_u64(numbers[i].value), err));
    return TG_OK;
}

static tg_status stamp_group(tg_lane *n, tg_error *err)
{
    TG_AUTO_PTR(tg_json) o = tg_json_new_object();
    TG_AUTO(tg_str) text = NULL;

    if (o == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for attributes");
    TG_TRY(stamp(n, o, err));
    TG_TRY(tg_json_write(o, false, (tg_json_options){0}, &text, err));
    return tg_attributes_set(n->s->store, n->path, text, true, NULL, err);
}

tg_status tg_publish_end(tg_stream *s, tg_error *err)
{
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        tg_lane *n = &s->lanes[i];
        TG_TRY(tg_frame_table_finish(n->table, NULL, err));
        if (s->zip)
            TG_TRY(stamp(n, tg_lane_group(n)->attributes, err));
        else
            TG_TRY(stamp_group(n, err));
    }
    return s->zip ? tg_zip_documents(s, err) : tg_store_sync(s->store, NULL, err);
}
