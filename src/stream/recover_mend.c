/* stream/recover_mend.c - the store's files, brought to what counts. No pixels are moved but
 * those of the tail file. */
#include "stream/create.h"
#include "stream/recover.h"

#include <inttypes.h>
#include <string.h>

/* --- Shards ------------------------------------------------------------------------------ */

static tg_store *store_of(const tg_lane *n, bool side)
{
    return side ? n->s->side_store : n->s->store;
}

static tg_status key_of(tg_lane *n, uint32_t plane, uint64_t shard, bool side, char *key,
                        tg_error *err)
{
    if (!side)
        return tg_sink_shard_key(n, plane, shard, key, TG_KEY_BYTES, err);
    tg_sink_side_name(n, plane, shard, key, TG_KEY_BYTES);
    return TG_OK;
}

static tg_status remove_if_there(recovery *r, tg_store *store, const char *key, tg_error *err)
{
    tg_status st = tg_store_remove(store, key, NULL, err);

    r->result->repaired += st == TG_OK;
    return st == TG_NOT_FOUND ? TG_OK : st;
}

/* Entries of a plane: of the sealed shard that this one goes on (a copy beside the store, or a
 * live one in its place), and over them those that the journal has. *any: there is a reason to
 * keep the file. */
static tg_status load_entries(tg_lane *n, tg_shard *shard, const tg_found_shard *found,
                              uint32_t plane, bool *any, tg_error *err)
{
    tg_shard_file *f = &shard->file[plane];
    char key[TG_KEY_BYTES];
    uint64_t bytes;

    if (found->side || found->goes_on) {
        TG_TRY(tg_sink_shard_key(n, plane, shard->number, key, sizeof key, err));
        tg_status st = tg_sink_read_index(n, plane, key, f, &bytes, err);
        *any |= st == TG_OK && !found->side;
        if (st != TG_NOT_FOUND || found->side)
            TG_TRY(st);
    }
    for (uint64_t e = 0; e < n->layout.plane[plane].shard_chunks; e++) {
        tg_record_chunk c = tg_record_chunk_get(tg_found_chunk(&n->layout, found, plane, e));
        if (c.nbytes == UINT64_MAX)
            continue;
        f->entries[e] = (tg_shard_entry){c.offset, c.nbytes};
        *any = true;
    }
    f->end = tg_sink_chunks_end(n, plane, f);
    return TG_OK;
}

static tg_status remove_shard(recovery *r, tg_lane *n, const tg_found_shard *found,
                              tg_error *err)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        char key[TG_KEY_BYTES];
        TG_TRY(key_of(n, p, found->number, found->side, key, err));
        TG_TRY(remove_if_there(r, store_of(n, found->side), key, err));
    }
    return TG_OK;
}

/* A side file that took its place already: sealed, only the record of it is missing. */
static bool was_moved(tg_lane *n, const tg_found_shard *found, uint32_t plane)
{
    char key[TG_KEY_BYTES];
    uint64_t bytes;

    if (!found->side || key_of(n, plane, found->number, true, key, NULL) != TG_OK)
        return false;
    return tg_store_size(n->s->side_store, key, &bytes, NULL, NULL) == TG_NOT_FOUND;
}

static tg_status reopen_files(tg_lane *n, tg_shard *shard, const bool *moved, tg_error *err)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        char key[TG_KEY_BYTES];
        tg_object_options o = {.visible = true, .reopen = true};
        if (moved[p])
            continue;
        TG_TRY(key_of(n, p, shard->number, shard->side, key, err));
        TG_TRY(tg_object_begin(store_of(n, shard->side), key, o, &shard->file[p].object, NULL,
                               err));
    }
    return TG_OK;
}

static tg_status seal(recovery *r, tg_lane *n, tg_shard *shard, tg_error *err)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++)
        if (shard->file[p].object != NULL)
            TG_TRY(tg_object_sync(shard->file[p].object, NULL, err));
    TG_TRY(tg_seal_files(n, shard, err));
    TG_TRY(tg_log_sealed(n, shard, err));
    r->result->repaired += n->layout.n_planes;
    n->current = NULL;
    return TG_OK;
}

/* Is it a frame that only the tail file has, and that counts? */
static bool tail_counts(const tg_found_lane *f, const tg_found_tail *t, uint64_t slots)
{
    return t->good && t->record.slot >= f->chunk_slots && t->record.slot < slots;
}

static tg_status find_tail_shards(recovery *r, const tg_lane *n, tg_found_lane *f,
                                  tg_error *err)
{
    const tg_found_tail *t = f->tails.items;
    uint64_t slots = r->lane[n->number].slots;

    for (size_t i = 0; n->layout.sharded && i < f->tails.n; i++)
        if (tail_counts(f, &t[i], slots))
            TG_TRY(tg_map_set(&r->model.room, &f->tail_shards,
                              tg_layout_shard(&n->layout, t[i].record.layer), 1, err));
    return TG_OK;
}

static tg_status mend_shard(recovery *r, tg_lane *n, tg_found_lane *f,
                            const tg_found_shard *found, tg_error *err)
{
    tg_shard *shard = &n->shards[0];
    bool any = false, moved[TG_PLANES] = {false};
    uint32_t n_moved = 0;

    shard->number = found->number;
    shard->side = found->side;
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        moved[p] = was_moved(n, found, p);
        n_moved += moved[p];
        if (!moved[p])
            TG_TRY(load_entries(n, shard, found, p, &any, err));
    }
    if (n_moved == n->layout.n_planes || (n_moved == 0 && !any)) {
        tg_shard_reset(n, shard);
        return n_moved > 0 ? TG_OK : remove_shard(r, n, found, err);
    }
    TG_TRY(reopen_files(n, shard, moved, err));
    shard->state = TG_SHARD_OPEN;
    n->current = shard;
    if (n_moved == 0 && tg_map_get(&f->tail_shards, found->number) != 0)
        return TG_OK; /* one more chunk comes: tg_recover_tail() seals it */
    return seal(r, n, shard, err);
}

/* Those that the tail file has frames for are mended when these are written: there is room for
 * one open shard, and a later one may have been begun. */
tg_status tg_recover_shards(recovery *r, tg_lane *n, tg_found_lane *f, tg_error *err)
{
    const tg_found_shard *s = f->shards.items;

    TG_TRY(find_tail_shards(r, n, f, err));
    for (size_t i = 0; i < f->shards.n; i++)
        if (tg_map_get(&f->tail_shards, s[i].number) == 0)
            TG_TRY(mend_shard(r, n, f, &s[i], err));
    return TG_OK;
}

/* --- The tail
 * --------------------------------------------------------------------------------- */

/* All frames of a layer that the tail file has, from the i-th on, into slab 0; *n_frames counts
 * them. */
static tg_status fill_slab(tg_lane *n, tg_found_lane *f, size_t i, uint64_t slots,
                           uint32_t *n_frames, tg_error *err)
{
    const tg_plane *p = &n->layout.plane[0];
    const tg_found_tail *t = f->tails.items;
    uint64_t layer = t[i].record.layer;
    TG_AUTO(tg_fd) fd = -1;

    TG_TRY(tg_recover_open_tail(n, &fd, err));
    memset(n->planes[0], 0, p->layer_bytes);
    memset(n->ring.slabs[0].real, 0, (size_t)n->layout.k);
    *n_frames = 0;
    for (; i < f->tails.n && t[i].record.layer == layer; i++) {
        const tg_record_tail *rec = &t[i].record;
        if (!t[i].good || rec->slot >= slots)
            continue;
        TG_TRY(tg_fd_read_at(fd, n->tail_frame, p->frame_bytes, rec->offset, "tail", err));
        tg_place_dense(&n->layout, p, n->planes[0], rec->place, n->tail_frame);
        n->ring.slabs[0].real[rec->place] = 1;
        ++*n_frames;
    }
    return TG_OK;
}

static tg_status write_layer(recovery *r, tg_lane *n, tg_found_lane *f, size_t first,
                             uint64_t slots, tg_error *err)
{
    uint64_t number = ((tg_found_tail *)f->tails.items)[first].record.layer;
    tg_layer layer = {.number = number,
                      .slab = 0,
                      .out = TG_NO_SLAB,
                      .ready = true,
                      .padded = true,
                      .covers = true};
    uint32_t done;

    TG_TRY(fill_slab(n, f, first, slots, &layer.frames, err));
    if (tg_lane_encodes(n))
        TG_TRY(tg_encode_layer(n, &layer, err));
    n->padded_layer = number; /* over a padded chunk, if there is one */
    TG_TRY(tg_sink_shard(n, number, err));
    TG_TRY(tg_sink_layers(n, &layer, 1, &done, err));
    r->result->repaired += n->layout.sharded ? 0 : n->plan.n_chunks;
    TG_LOCKED_FOR_IO(&n->s->log.lock);
    tg_sink_enter(n, &layer, 1);
    return TG_OK;
}

/* The shard that a layer of the tail goes into, with what it has: once, for it is sealed after.
 */
static tg_status open_shard_of(recovery *r, tg_lane *n, tg_found_lane *f, uint64_t layer,
                               tg_error *err)
{
    uint64_t number = n->layout.sharded ? tg_layout_shard(&n->layout, layer) : 0;

    if (!n->layout.sharded || (n->current != NULL && n->current->number == number))
        return TG_OK;
    if (n->current != NULL)
        TG_TRY(seal(r, n, n->current, err));
    const tg_found_shard *found = tg_found_shard_of(f, number);
    if (found == NULL || tg_map_get(&f->tail_shards, number) == 0)
        return TG_OK;
    TG_TRY(mend_shard(r, n, f, found, err));
    tg_map_clear(&f->tail_shards, number);
    return TG_OK;
}

tg_status tg_recover_tail(recovery *r, tg_lane *n, tg_found_lane *f, tg_error *err)
{
    const tg_found_tail *t = f->tails.items;
    uint64_t slots = r->lane[n->number].slots;
    size_t first = 0; /* of the layer's frames */

    for (size_t i = 0; i < f->tails.n; i++) {
        if (t[i].record.layer != t[first].record.layer)
            first = i;
        if (!tail_counts(f, &t[i], slots))
            continue;
        TG_TRY(open_shard_of(r, n, f, t[first].record.layer, err));
        TG_TRY(write_layer(r, n, f, first, slots, err));
        while (i + 1 < f->tails.n && t[i + 1].record.layer == t[first].record.layer)
            i++;
    }
    return n->current == NULL ? TG_OK : seal(r, n, n->current, err);
}

/* --- Left-overs
 * ---------------------------------------------------------------------------------- */

/* Chunks of a layer that was begun and does not count. */
static tg_status remove_layer(recovery *r, tg_lane *n, uint64_t layer, tg_error *err)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++)
        for (uint32_t t = 0; t < n->layout.plane[p].n_tiles; t++) {
            char key[TG_KEY_BYTES];
            TG_TRY(tg_sink_chunk_key(n, p, layer, t, key, sizeof key, err));
            TG_TRY(remove_if_there(r, n->s->store, key, err));
        }
    return TG_OK;
}

tg_status tg_recover_leftovers(recovery *r, tg_lane *n, tg_found_lane *f, tg_error *err)
{
    for (size_t i = 0; !n->layout.sharded && i < f->begun.cap; i++) {
        uint64_t layer = f->begun.entries[2 * i];
        if (layer == TG_NO_LAYER || f->begun.entries[2 * i + 1] == 0)
            continue;
        /* A chunk that was padded and published, and of which the whole one did not arrive. */
        uint64_t first = tg_layout_slot_in_layer(&n->layout, layer, 0);
        if ((tg_map_get(&f->known, layer) & TG_KNOWN_MADE) == 0 && first >= f->chunk_slots)
            TG_TRY(remove_layer(r, n, layer, err));
    }
    return TG_OK;
}

/* --- Shapes
 * ---------------------------------------------------------------------------------------- */

tg_status tg_recover_outer(tg_lane *n, uint64_t *outer, uint64_t *frames, tg_error *err)
{
    const tg_layout *l = &n->layout;
    tg_array_info info = {.size = sizeof info};

    TG_TRY(tg_array_get_info(n->array[0], &info, err));
    *frames = tg_plane_frames(l, &info);
    *outer = l->n_dims == 0 ? *frames : info.shape[tg_layout_axis(l, l->slow)];
    return TG_OK;
}

/* One level of one field: a crash may lie between any two of them. */
static tg_status mend_field(void *user, const tg_found_plane *found, tg_error *err)
{
    recovery *r = user;
    tg_lane *n = found->lane;
    const tg_layout *l = &n->layout;
    uint64_t outer[TG_STREAM_DIMS] = {0}, slots = r->lane[n->number].slots;
    uint32_t axis = tg_layout_axis(l, l->slow);

    tg_layout_image_shape(l, found->image, slots, outer);
    if (found->plane == 0)
        r->result->frames_after += tg_layout_slots_of_shape(l, outer);
    if (found->info->shape[axis] == outer[l->slow])
        return TG_OK;
    r->result->repaired++;
    return tg_plate_put_shape(n, found->array, found->image, found->plane, slots, err);
}

tg_status tg_recover_shape(recovery *r, tg_lane *n, uint64_t slots, tg_error *err)
{
    const tg_layout *l = &n->layout;
    uint64_t outer[TG_STREAM_DIMS] = {0}, now;

    if (tg_layout_is_plate(l))
        return tg_plate_look(n, mend_field, r, err);
    tg_layout_shape(l, slots, true, outer);
    now = l->n_dims == 0 ? slots > 0 : outer[l->slow];
    if (now < n->outer) /* published before, so it was durable: never less */
        now = n->outer;
    outer[l->slow] = now;
    r->result->frames_after += tg_layout_slots_of_shape(l, outer);
    if (now == n->outer)
        return tg_recover_levels(r, n, outer, err);
    r->result->repaired += l->n_planes;
    return tg_write_shapes(n, outer, err);
}

/* Levels whose shape is behind that of level 0: the crash lay between two of them. */
tg_status tg_recover_levels(recovery *r, tg_lane *n, const uint64_t *outer, tg_error *err)
{
    const tg_layout *l = &n->layout;
    bool behind = false;

    for (uint32_t p = 1; l->n_dims > 0 && p < l->n_planes; p++) {
        tg_array_info info = {.size = sizeof info};
        TG_TRY(tg_array_get_info(n->array[p], &info, err));
        behind |= info.shape[tg_layout_axis(l, l->slow)] != outer[l->slow];
    }
    if (!behind)
        return TG_OK;
    r->result->repaired++;
    return tg_write_shapes(n, outer, err);
}
