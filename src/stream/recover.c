/* stream/recover.c - bring a store to where its journal says it was. Everything is done again
 * from the journal as long as that is there, so a recovery that dies is simply repeated. */
#include "stream/recover.h"

#include "base/crc32c.h"
#include "stream/create.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- Are the chunks there? ----------------------------------------------------------- */

static tg_status sum_stored(tg_lane *n, tg_store *store, const char *key,
                            const tg_record_chunk *c, uint32_t *sum, tg_error *err)
{
    *sum = 0;
    for (uint64_t at = 0; at < c->nbytes; at += n->plan.stage_bytes) {
        uint64_t left = c->nbytes - at;
        size_t len = left < n->plan.stage_bytes ? (size_t)left : n->plan.stage_bytes;
        tg_span span = {c->offset + at, len, n->stage};
        TG_TRY(tg_store_get_ranges(store, key, &span, 1, NULL, err));
        *sum = tg_crc32c(*sum, n->stage, len);
    }
    return TG_OK;
}

/* Where a layer's chunk lies. A shard beside the store may have been moved to its place since:
 * it is sealed before the commit that covers its last layers. */
static tg_status find_chunk(tg_lane *n, const tg_record_layer *layer, uint32_t plane,
                            uint32_t tile, tg_store **store, char *key, uint64_t *bytes)
{
    *store = n->s->store;
    if (!n->layout.sharded) {
        TG_TRY(tg_sink_chunk_key(n, plane, layer->layer, tile, key, TG_KEY_BYTES, NULL));
        return tg_store_size(*store, key, bytes, NULL, NULL);
    }
    if ((layer->flags & TG_LAYER_SIDE) != 0) {
        tg_sink_side_name(n, plane, layer->shard, key, TG_KEY_BYTES);
        tg_status st = tg_store_size(n->s->side_store, key, bytes, NULL, NULL);
        if (st == TG_OK)
            *store = n->s->side_store;
        if (st != TG_NOT_FOUND)
            return st;
    }
    TG_TRY(tg_sink_shard_key(n, plane, layer->shard, key, TG_KEY_BYTES, NULL));
    return tg_store_size(*store, key, bytes, NULL, NULL);
}

/* One chunk of a layer that no commit covers. */
static bool chunk_is_good(recovery *r, tg_lane *n, const tg_record_layer *layer, uint32_t plane,
                          uint32_t tile, const tg_record_chunk *c)
{
    char key[TG_KEY_BYTES];
    uint64_t bytes;
    uint32_t sum;
    tg_store *store;

    if (find_chunk(n, layer, plane, tile, &store, key, &bytes) != TG_OK)
        return false;
    if ((layer->flags & TG_LAYER_SUMMED) == 0)
        return r->model.same_boot && c->offset <= bytes && bytes - c->offset >= c->nbytes;
    return sum_stored(n, store, key, c, &sum, NULL) == TG_OK && sum == c->sum;
}

static bool layer_is_good(recovery *r, tg_lane *n, const tg_record_layer *layer)
{
    const uint8_t *src = layer->chunks;

    if ((layer->flags & TG_LAYER_FAILED) != 0)
        return true;
    for (uint32_t p = 0; p < n->layout.n_planes; p++)
        for (uint32_t t = 0; t < n->layout.plane[p].n_tiles;
             t++, src += TG_RECORD_CHUNK_BYTES) {
            tg_record_chunk c = tg_record_chunk_get(src);
            if (!chunk_is_good(r, n, layer, p, t, &c))
                return false;
        }
    return true;
}

/* Of the layers behind the last commit those count that verify, up to the first that does not.
 */
static tg_status verify_layers(recovery *r, tg_lane *n, tg_found_lane *f, tg_error *err)
{
    tg_found_layer *l = f->layers.items;

    for (size_t i = 0; i < f->layers.n; i++) {
        if (l[i].good)
            continue;
        if (n->s->zip ? !tg_recover_zip_entry_is_good(r, n, &l[i].record)
                      : !layer_is_good(r, n, &l[i].record))
            return TG_OK;
        l[i].good = true;
        TG_TRY(tg_found_enter(f, &l[i].record, err));
        /* One that failed covers nothing: the tail file may have frames of it. */
        if ((l[i].record.flags & (TG_LAYER_COVERS | TG_LAYER_FAILED)) == TG_LAYER_COVERS &&
            l[i].record.slots > f->chunk_slots)
            f->chunk_slots = l[i].record.slots;
    }
    return TG_OK;
}

/* --- The tail file --------------------------------------------------------------------- */

static tg_status read_tail(tg_lane *n, int fd, const tg_record_tail *t, bool *good,
                           tg_error *err)
{
    uint8_t *frame = n->tail_frame;
    char name[32];

    (void)snprintf(name, sizeof name, "tail-%" PRIu32, n->number);
    tg_status st = tg_fd_read_at(fd, frame, (size_t)t->nbytes, t->offset, name, err);
    *good = st == TG_OK && tg_crc32c(0, frame, (size_t)t->nbytes) == t->sum;
    return st == TG_CORRUPT ? TG_OK : st; /* too short: not good */
}

tg_status tg_recover_open_tail(tg_lane *n, int *fd, tg_error *err)
{
    char name[32];

    (void)snprintf(name, sizeof name, "tail-%" PRIu32, n->number);
    *fd = tg_sys_open(n->s->side.dir, name, O_RDONLY | O_NONBLOCK, 0);
    return *fd >= 0 ? TG_OK : tg_fail_errno(err, "open '%s/%s'", n->s->side.path, name);
}

static tg_status verify_tails(tg_lane *n, tg_found_lane *f, tg_error *err)
{
    tg_found_tail *t = f->tails.items;

    if (f->tails.n == 0)
        return TG_OK;
    TG_AUTO(tg_fd) fd = -1;
    TG_TRY(tg_recover_open_tail(n, &fd, err));
    for (size_t i = 0; i < f->tails.n; i++) {
        bool good;
        TG_TRY(read_tail(n, fd, &t[i].record, &good, err));
        if (!good && t[i].good && t[i].record.slot >= f->chunk_slots)
            return tg_fail(err, TG_CORRUPT,
                           "frame %" PRIu64 " of array '%s' was durable in the tail file, and "
                           "is damaged there",
                           t[i].record.slot, n->path);
        t[i].good = good;
    }
    return TG_OK;
}

/* --- Rows -------------------------------------------------------------------------------- */

static bool frame_is_there(const tg_lane *n, const tg_found_lane *f, uint64_t slot)
{
    uint64_t place, layer;

    if (slot < f->chunk_slots)
        return true;
    layer = tg_layout_layer(&n->layout, slot, &place);
    return (tg_map_get(&f->known, layer) & TG_KNOWN_WHOLE) != 0 ||
           tg_map_get(&f->tail_slots, slot) != 0;
}

/* One row of the journal, in the second replay. */
static tg_status take_row(recovery *r, tg_lane *n, tg_found_lane *f, const tg_frame_row *row,
                          tg_bytes values, uint64_t number, tg_error *err)
{
    recovered *got = &r->lane[n->number];

    if (got->cut)
        return TG_OK;
    if (row->index != TG_NO_INDEX) {
        uint64_t slot = tg_layout_slot_of_index(&n->layout, (uint64_t)row->index);
        if (number >= f->rows && !frame_is_there(n, f, slot)) {
            got->cut = true;
            got->slots = slot;
            return TG_OK;
        }
        got->frames++;
    }
    got->rows = number + 1;
    return tg_frame_table_add(n->table, row, values, NULL, err);
}

static tg_status take_rows(recovery *r, const tg_record_rows *rec, tg_error *err)
{
    tg_lane *n = &r->s->lanes[rec->lane];
    tg_found_lane *f = &r->model.lanes[rec->lane];
    recovered *got = &r->lane[rec->lane];
    tg_bytes left = rec->a;

    for (uint64_t i = 0; i < rec->n; i++) {
        tg_frame_row row;
        tg_bytes values;
        size_t used;
        TG_TRY(tg_frame_row_read(&n->plan.columns, left, &row, &values, &used, err));
        if (rec->first + i >= got->rows)
            TG_TRY(take_row(r, n, f, &row, values, rec->first + i, err));
        left = (tg_bytes){left.data + used, left.len - used};
    }
    if (!got->cut && rec->slots > got->slots)
        got->slots = rec->slots;
    return TG_OK;
}

static tg_status on_record(void *user, uint16_t type, tg_bytes payload, uint64_t at,
                           tg_error *err)
{
    recovery *r = user;
    tg_record_rows rows;

    (void)at;
    if (type == TG_RECORD_LAYER && r->s->zip)
        return tg_recover_zip_adopt(r, payload, err);
    if (type != TG_RECORD_ROWS)
        return TG_OK;
    TG_TRY(tg_record_rows_read(payload, &rows, err));
    if (rows.lane >= r->s->n_lanes)
        return tg_fail(err, TG_CORRUPT, "rows of array %" PRIu32, rows.lane);
    return take_rows(r, &rows, err);
}

static tg_status replay_rows(recovery *r, tg_error *err)
{
    tg_journal_header header;

    return tg_journal_replay(r->s->side.dir, TG_RECORD_FILE, TG_RECORD_KIND, TG_RECORD_MAJOR,
                             &header, on_record, r, NULL, err);
}

/* --- Putting it together ------------------------------------------------------------------ */

static tg_status open_lane(recovery *r, tg_lane *n, tg_error *err)
{
    tg_found_lane *f = &r->model.lanes[n->number];
    tg_frame_table_options t = tg_lane_table_options(n);

    n->sealed_shard = f->sealed;
    r->lane[n->number] = (recovered){.rows = f->base_rows, .slots = f->base_slots};
    bool plate = tg_layout_is_plate(&n->layout);
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        TG_TRY(tg_make_meta(n, &f->options.array, p, err));
        if (!n->s->zip && !plate)
            TG_TRY(tg_plate_open(n, 0, p, &n->array[p], err));
    }
    if (n->s->zip)
        return tg_frame_table_create(&n->table, n->s->store, &t, NULL, err);
    if (!plate) {
        uint64_t frames;
        TG_TRY(tg_recover_outer(n, &n->outer, &frames, err));
        r->result->frames_before += frames;
    }
    t.rebuild = true;
    return tg_frame_table_open(&n->table, n->s->store, &t, f->base_rows, NULL, err);
}

static tg_status mend_lane(recovery *r, tg_lane *n, tg_error *err)
{
    tg_found_lane *f = &r->model.lanes[n->number];
    recovered *got = &r->lane[n->number];

    TG_TRY(tg_recover_shards(r, n, f, err));
    TG_TRY(tg_recover_leftovers(r, n, f, err));
    TG_TRY(tg_recover_tail(r, n, f, err));
    TG_TRY(tg_store_sync(n->s->store, NULL, err));
    n->in_chunks.slots = n->durable.slots = got->slots;
    n->in_chunks.frames = n->durable.frames = got->frames;
    if (n->s->zip)
        return tg_frame_table_finish(n->table, NULL, err);
    TG_TRY(tg_frame_table_finish(n->table, NULL, err));
    TG_TRY(tg_frame_table_trim(n->table, NULL, err));
    r->result->repaired += tg_frame_table_puts(n->table);
    TG_TRY(tg_store_sync(n->s->store, NULL, err));
    return tg_recover_shape(r, n, got->slots, err);
}

static tg_status journal_is_cut(const tg_lane *n, uint64_t slots, uint64_t shown, tg_error *err)
{
    return tg_fail(err, TG_CORRUPT,
                   "the journal ends at frame %" PRIu64 ", array '%s' shows %" PRIu64
                   ": it is cut",
                   slots, n->path, shown);
}

/* The same of one field of a plate. */
static tg_status check_field(void *user, const tg_found_plane *found, tg_error *err)
{
    recovery *r = user;
    const tg_layout *l = &found->lane->layout;
    uint64_t outer[TG_STREAM_DIMS] = {0}, slots = r->lane[found->lane->number].slots;

    if (found->plane > 0)
        return TG_OK;
    tg_layout_image_shape(l, found->image, slots, outer);
    r->result->frames_before += tg_plane_frames(l, found->info);
    return outer[l->slow] >= found->info->shape[tg_layout_axis(l, l->slow)]
               ? TG_OK
               : journal_is_cut(found->lane, slots, tg_plane_frames(l, found->info), err);
}

/* What readers see was durable before they saw it: a journal that ends before that is not
 * whole, and nothing is to be built on it. */
static tg_status check_journal_reaches(recovery *r, tg_lane *n, tg_error *err)
{
    const tg_layout *l = &n->layout;
    uint64_t outer[TG_STREAM_DIMS] = {0}, slots = r->lane[n->number].slots;

    if (n->s->zip || l->n_dims == 0)
        return TG_OK;
    if (tg_layout_is_plate(l))
        return tg_plate_look(n, check_field, r, err);
    tg_layout_shape(l, slots, true, outer);
    if (outer[l->slow] >= n->outer)
        return TG_OK;
    outer[l->slow] = n->outer;
    return journal_is_cut(n, slots, tg_layout_slots_of_shape(l, outer), err);
}

tg_status tg_recover_run(recovery *r, tg_error *err)
{
    tg_stream *s = r->s;

    for (uint32_t i = 0; i < s->n_lanes; i++) {
        TG_TRY(open_lane(r, &s->lanes[i], err));
        TG_TRY(verify_layers(r, &s->lanes[i], &r->model.lanes[i], err));
        TG_TRY(verify_tails(&s->lanes[i], &r->model.lanes[i], err));
        TG_TRY(tg_model_index(&r->model, &r->model.lanes[i], err));
    }
    TG_TRY(replay_rows(r, err));
    for (uint32_t i = 0; i < s->n_lanes; i++)
        TG_TRY(check_journal_reaches(r, &s->lanes[i], err));
    for (uint32_t i = 0; i < s->n_lanes; i++)
        TG_TRY(mend_lane(r, &s->lanes[i], err));
    return s->zip ? tg_recover_zip_end(r, err) : tg_store_sync(s->store, NULL, err);
}
