/* stream/resume.c - append mode: go on behind the last frame of an earlier recording. The last
 * chunk, if it is partial, is read back into the ring and written again when it is full. */
#include "stream/create.h"

#include <inttypes.h>
#include <string.h>

/* --- Is it the same array? --------------------------------------------------------------- */

static tg_status differs(const char *path, const char *what, uint32_t axis, uint64_t got,
                         uint64_t want, tg_error *err)
{
    return tg_fail(err, TG_INVALID,
                   "array '%s' is there with %s %" PRIu64 " along axis %" PRIu32
                   ", and would be recorded with %" PRIu64,
                   path, what, got, axis, want);
}

static bool is_outer(const tg_layout *l, uint32_t axis)
{
    tg_frame_axes axes = tg_layout_frame_axes(l);

    return axis >= axes.first && axis - axes.first < axes.n;
}

static tg_status compare_axes(const tg_layout *l, const tg_array_info *info,
                              const tg_layout_vectors *v, const char *path, tg_error *err)
{
    for (uint32_t i = 0; i < v->ndim; i++) {
        if (info->chunk[i] != v->chunk[i])
            return differs(path, "chunks of", i, info->chunk[i], v->chunk[i], err);
        if (l->sharded && info->shard[i] != v->shard[i])
            return differs(path, "shards of", i, info->shard[i], v->shard[i], err);
        if (!is_outer(l, i) && info->shape[i] != v->shape[i])
            return differs(path, "extent", i, info->shape[i], v->shape[i], err);
    }
    return TG_OK;
}

/* What is stored for the one must be what is read of the other. */
static tg_status compare(const tg_lane *n, uint32_t plane, const tg_array *there,
                         const char *path, tg_error *err)
{
    tg_layout_vectors v;
    const tg_layout *l = &n->layout;
    const tg_array_info *info = tg_array_meta_info(tg_array_get_meta(there));

    tg_layout_vectors_init(l, plane, &v);
    if (info->format != l->format)
        return tg_fail(err, TG_INVALID, "array '%s' has Zarr format %d, not %d", path,
                       info->format, l->format);
    if (info->dtype.kind != l->dtype.kind || info->dtype.size != l->dtype.size) {
        char a[16], b[16];
        return tg_fail(err, TG_INVALID, "array '%s' has items of %s, not %s", path,
                       tg_dtype_name(info->dtype, a), tg_dtype_name(l->dtype, b));
    }
    if (info->ndim != v.ndim)
        return tg_fail(err, TG_INVALID, "array '%s' has %" PRIu32 " axes, not %" PRIu32, path,
                       info->ndim, v.ndim);
    TG_TRY(compare_axes(l, info, &v, path, err));
    if (info->sharded != l->sharded)
        return tg_fail(err, TG_INVALID, "array '%s' is %s", path,
                       info->sharded ? "sharded" : "not sharded");
    return tg_array_meta_stored_alike(tg_array_get_meta(there), n->meta[plane], path, err);
}

/* A level that this recording would leave behind. */
static tg_status check_levels(tg_lane *n, tg_error *err)
{
    TG_AUTO_PTR(tg_node) more = NULL;
    char path[TG_KEY_BYTES];
    uint32_t level = n->layout.n_planes;

    TG_TRY(tg_plane_path(n, 0, level, path, sizeof path, err));
    tg_status st = tg_node_open(n->s->store, path, &more, NULL, err);
    if (st == TG_OK && tg_node_kind_of(more) == TG_NODE_ARRAY)
        return tg_fail(err, TG_INVALID, "level '%s' is there, and would not be recorded", path);
    return st == TG_NOT_FOUND ? TG_OK : st;
}

/* --- Where it ends -------------------------------------------------------------------------
 */

/* All axes but the slowest have the extents that they are recorded with. */
static tg_status check_extents(const tg_layout *l, const tg_array_info *info, const char *path,
                               tg_error *err)
{

    for (uint32_t d = 0; d < l->n_axes; d++) {
        uint32_t axis = tg_layout_axis(l, d);
        if (d != l->slow && info->shape[axis] != l->extent[d])
            return differs(path, "extent", axis, info->shape[axis], l->extent[d], err);
    }
    return TG_OK;
}

static tg_status read_end(tg_lane *n, const tg_array_info *info, const char *path,
                          uint64_t *slots, tg_error *err)
{
    const tg_layout *l = &n->layout;

    if (l->n_dims == 0)
        return tg_fail(err, TG_EXISTS, "array '%s' is a single plane, and is there", path);
    TG_TRY(check_extents(l, info, path, err));
    *slots = tg_plane_frames(l, info);
    n->outer = info->shape[tg_layout_axis(l, l->slow)];
    atomic_store(&n->count.shape, n->outer);
    return *slots <= l->n_slots
               ? TG_OK
               : tg_fail(err, TG_INVALID, "array '%s' has more frames than its dimensions hold",
                         path);
}

static void start_at(tg_lane *n, uint64_t slots, uint64_t rows)
{
    tg_mark mark = {.slots = slots, .rows = rows};

    n->mark = n->written = n->durable = n->in_chunks = n->absorbed = n->published = mark;
    n->ring.head = n->ring.popped = mark;
    n->rows_logged = rows;
    atomic_store(&n->durable_rows, rows);
    atomic_store(&n->published_rows, rows);
    atomic_store(&n->published_slots, slots);
}

/* One frame that is in the store, back into its place. */
static tg_status read_back(tg_lane *n, uint64_t slot, uint32_t slab, uint64_t place,
                           tg_error *err)
{
    const tg_layout *l = &n->layout;
    const tg_plane *p = &l->plane[0];
    uint64_t start[TG_MAX_NDIM] = {0}, count[TG_MAX_NDIM], coords[TG_STREAM_DIMS];
    tg_layout_vectors v;
    tg_frame_view view;

    tg_layout_vectors_init(l, 0, &v);
    memcpy(count, v.shape, sizeof count);
    tg_layout_coords(l, slot, coords);
    for (uint32_t d = 0; d < l->n_axes; d++) {
        start[tg_layout_axis(l, d)] = coords[d];
        count[tg_layout_axis(l, d)] = 1;
    }
    TG_AUTO_PTR(tg_array) field = NULL;
    if (tg_layout_is_plate(l))
        TG_TRY(tg_plate_open(n, tg_layout_image(l, slot), 0, &field, err));
    TG_TRY(tg_array_read(field != NULL ? field : n->array[0], start, count, n->lease_frame,
                         NULL, NULL, err));
    TG_TRY(
        tg_frame_view_init(&view, n->lease_frame, 1, NULL, p->height, p->width, l->dtype, err));
    (void)tg_place_frame(&n->placer, n->planes[0] + (size_t)slab * p->layer_bytes,
                         n->ring.slabs[slab].sums, place, &view, n->row);
    n->ring.slabs[slab].real[place] = 1;
    tg_ring_advance(&n->ring, slab, (uint32_t)place + 1, true, n->mark);
    return TG_OK;
}

/* The layers that the next slot falls among, as far as they are filled. */
static tg_status reopen_layers(tg_lane *n, uint64_t slots, tg_error *err)
{
    const tg_layout *l = &n->layout;
    uint64_t place, layer = tg_layout_layer(l, slots, &place),
                    first = layer - layer % l->n_open;

    if (layer > 0 || place > 0)
        n->sealed_shard = tg_layout_shard(l, layer);
    for (uint64_t i = 0; place > 0 && i < l->n_open; i++) {
        uint32_t slab;
        uint64_t at;
        n->padded_layer = first + i;
        TG_TRY(
            tg_lane_room(n, tg_layout_slot_in_layer(l, first + i, 0), true, &slab, &at, err));
        for (uint64_t q = 0; q < place; q++)
            TG_TRY(read_back(n, tg_layout_slot_in_layer(l, first + i, q), slab, q, err));
    }
    return TG_OK;
}

/* The table that is there, `rows` long. */
static tg_status open_table(tg_lane *n, uint64_t rows, tg_error *err)
{
    tg_frame_table_options t = tg_lane_table_options(n);
    tg_frame_row last;

    tg_status st = tg_frame_table_last(n->s->store, n->path, &last, NULL, err);
    if (st != TG_OK && st != TG_NOT_FOUND)
        return st;
    if (st == TG_OK)
        tg_sequence_resume(&n->sequence, last.sequence);
    return tg_frame_table_open(&n->table, n->s->store, &t, rows, NULL, err);
}

/* A recorder that died while it made its store may have left no table, or not all of it. */
static tg_status resume_table(tg_lane *n, uint64_t slots, uint64_t *rows, tg_error *err)
{
    tg_frame_table_options t = tg_lane_table_options(n);

    *rows = 0;
    tg_status st = tg_frame_table_length(n->s->store, n->path, rows, NULL, err);
    if (st == TG_OK)
        st = open_table(n, *rows, err);
    if (st != TG_NOT_FOUND)
        return st;
    if (slots == 0 && *rows == 0)
        return tg_frame_table_create(&n->table, n->s->store, &t, NULL, err);
    return tg_fail(err, TG_INVALID,
                   "group '%s' has frames, and no frame table to go on with, or not all of it",
                   n->path);
}

/* --- Plates ---------------------------------------------------------------------------------
 */

/* Names, wells and fields are those of the plate that is there. */
static tg_status check_same_plate(const tg_lane *n, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    TG_AUTO_PTR(tg_json) there = NULL;
    const tg_json *ours = tg_lane_group(n)->attributes;

    TG_TRY(tg_node_open(n->s->store, n->path, &node, NULL, err));
    const char *text = tg_node_attributes(node);
    TG_TRY(
        tg_json_parse(&there, text, strlen(text), (tg_json_options){.allow_nan = true}, err));
    const tg_json *old = there;
    if (n->layout.format == 3) {
        ours = tg_json_get(ours, "ome");
        old = tg_json_get(old, "ome");
    }
    if (tg_json_equal(tg_json_get(ours, "plate"), tg_json_get(old, "plate")))
        return TG_OK;
    return tg_fail(err, TG_INVALID,
                   "group '%s' has another plate than the one that would be recorded", n->path);
}

/* One field: the last slot that its shape has is below *user. */
static tg_status find_end(void *user, const tg_found_plane *found, tg_error *err)
{
    tg_lane *n = found->lane;
    const tg_layout *l = &n->layout;
    const tg_array_info *info = found->info;
    uint64_t *slots = user, slow;
    char path[TG_KEY_BYTES];

    TG_TRY(tg_plane_path(n, found->image, found->plane, path, sizeof path, err));
    TG_TRY(compare(n, found->plane, found->array, path, err));
    TG_TRY(check_extents(l, info, path, err));
    slow = info->shape[tg_layout_axis(l, l->slow)];
    if (slow > l->extent[l->slow])
        return differs(path, "extent", tg_layout_axis(l, l->slow), slow, l->extent[l->slow],
                       err);
    uint64_t frames = tg_plane_frames(l, info);
    if (frames > 0) {
        uint64_t last = tg_layout_image_slot(l, found->image, frames - 1);
        *slots = last >= *slots ? last + 1 : *slots;
    }
    return TG_OK;
}

/* Every other field ends where it would in this order of arrival. */
static tg_status check_end(void *user, const tg_found_plane *found, tg_error *err)
{
    const tg_layout *l = &found->lane->layout;
    const uint64_t *slots = user;
    uint64_t outer[TG_STREAM_DIMS] = {0}, got;
    char path[TG_KEY_BYTES];

    tg_layout_image_shape(l, found->image, *slots, outer);
    got = found->info->shape[tg_layout_axis(l, l->slow)];
    if (got == outer[l->slow])
        return TG_OK;
    TG_TRY(tg_plane_path(found->lane, found->image, found->plane, path, sizeof path, err));
    return tg_fail(err, TG_INVALID,
                   "array '%s' ends at %" PRIu64 ", and would at %" PRIu64
                   " in the plate's order of arrival",
                   path, got, outer[l->slow]);
}

static tg_status resume_plate(tg_lane *n, uint64_t *slots, tg_error *err)
{
    const tg_layout *l = &n->layout;
    uint64_t outer[TG_STREAM_DIMS] = {0};

    TG_TRY(check_same_plate(n, err));
    TG_TRY(tg_plate_look(n, find_end, slots, err));
    TG_TRY(tg_plate_look(n, check_end, slots, err));
    tg_layout_image_shape(l, 0, *slots, outer);
    n->shown = *slots;
    n->outer = outer[l->slow];
    atomic_store(&n->count.shape, n->outer);
    return TG_OK;
}

/* --- One lane -------------------------------------------------------------------------------
 */

/* One that a recorder did not come to make before it died is made. */
static tg_status open_level(tg_lane *n, uint32_t level, const tg_stream_array *a,
                            const char *path, tg_error *err)
{
    tg_status st = tg_array_open(n->s->store, path, &n->array[level], NULL, err);

    if (st == TG_NOT_FOUND && n->outer == 0)
        return tg_create_level(n, a, level, err);
    return st != TG_NOT_FOUND ? st
                              : tg_fail(err, TG_INVALID,
                                        "level '%s' is not there, and would be recorded", path);
}

static tg_status resume_arrays(tg_lane *n, const tg_stream_array *a, uint64_t *slots,
                               tg_error *err)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        char path[TG_KEY_BYTES];
        tg_array_info info = {.size = sizeof info};
        TG_TRY(tg_plane_path(n, 0, p, path, sizeof path, err));
        if (n->array[p] == NULL)
            TG_TRY(open_level(n, p, a, path, err));
        TG_TRY(tg_array_get_info(n->array[p], &info, err));
        TG_TRY(compare(n, p, n->array[p], path, err));
        if (p == 0)
            TG_TRY(read_end(n, &info, path, slots, err));
        uint32_t axis = tg_layout_axis(&n->layout, n->layout.slow);
        if (info.shape[axis] != n->outer) /* of level 0 */
            return differs(path, "extent", axis, info.shape[axis], n->outer, err);
    }
    return TG_OK;
}

static tg_status resume_lane(tg_lane *n, const tg_stream_array *a, tg_error *err)
{
    uint64_t slots = 0, rows;

    TG_TRY(check_levels(n, err));
    TG_TRY(tg_layout_is_plate(&n->layout) ? resume_plate(n, &slots, err)
                                          : resume_arrays(n, a, &slots, err));
    TG_TRY(resume_table(n, slots, &rows, err));
    start_at(n, slots, rows);
    return reopen_layers(n, slots, err);
}

/* A plate that a recorder did not come to make whole before it died: the table comes last. */
static tg_status plate_is_unmade(const tg_lane *n, bool *unmade, tg_error *err)
{
    uint64_t rows, frames = 0;

    tg_status st = tg_frame_table_length(n->s->store, n->path, &rows, NULL, err);
    *unmade = false;
    if (st != TG_NOT_FOUND)
        return st;
    for (uint64_t i = 0; i < tg_layout_images(&n->layout) && frames == 0; i++) {
        TG_AUTO_PTR(tg_array) a = NULL;
        st = tg_plate_open(n, i, 0, &a, err);
        if (st == TG_OK)
            frames = tg_plane_frames(&n->layout, tg_array_meta_info(tg_array_get_meta(a)));
        else if (st != TG_NOT_FOUND)
            return st;
    }
    *unmade = frames == 0;
    return TG_OK;
}

/* Is the array of the first level there, or the first field's? */
static tg_status find_array(tg_lane *n, bool *there, tg_error *err)
{
    tg_array *a = NULL;
    bool unmade = false;
    tg_status st = tg_plate_open(n, 0, 0, &a, err);

    if (st == TG_OK && tg_layout_is_plate(&n->layout))
        st = plate_is_unmade(n, &unmade, err);
    *there = st == TG_OK && !unmade;
    if (tg_layout_is_plate(&n->layout))
        tg_array_free(a);
    else
        n->array[0] = a;
    return st == TG_NOT_FOUND ? TG_OK : st;
}

/* A plate and an image cannot share a frame table. */
static tg_status check_no_table(const tg_lane *n, tg_error *err)
{
    uint64_t rows;
    tg_status st = tg_frame_table_length(n->s->store, n->path, &rows, NULL, err);

    if (st == TG_OK)
        return tg_fail(err, TG_INVALID,
                       "group '%s' has the frame table of another recording: of a plate, or "
                       "of no plate",
                       n->path);
    return st == TG_NOT_FOUND ? TG_OK : st;
}

static tg_status begin_lane(tg_lane *n, bool there, const tg_stream_array *a, tg_error *err)
{
    tg_stream *s = n->s;

    if (there)
        return tg_attributes_set(s->store, n->path, "{\"complete\": false}", true, NULL, err);
    for (uint32_t g = 0; g < s->n_groups; g++)
        TG_TRY(tg_create_group(s, &s->groups[g], err));
    return tg_create_lane(n, a, err);
}

/* Nothing is written over what is there before all of it was found to fit. */
tg_status tg_create_append(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    bool there[TG_STREAM_ARRAYS] = {false};

    for (uint32_t i = 0; i < s->n_lanes; i++) {
        TG_TRY(find_array(&s->lanes[i], &there[i], err));
        TG_TRY(there[i] ? resume_lane(&s->lanes[i], &o->arrays[i], err)
                        : check_no_table(&s->lanes[i], err));
    }
    for (uint32_t i = 0; i < s->n_lanes; i++)
        TG_TRY(begin_lane(&s->lanes[i], there[i], &o->arrays[i], err));
    return tg_store_sync(s->store, NULL, err);
}
