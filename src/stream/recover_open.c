/* stream/recover_open.c - tg_recover(): the lock, the store, and the lanes of a recorder that
 * is no more, opened again without its threads. */
#include "store/zip_write.h"
#include "stream/arena.h"
#include "stream/create.h"
#include "stream/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

/* --- Nothing to do -------------------------------------------------------------------- */

/* Frames of an image by the shape of its first level, whose axes the table in `table` tells. */
static tg_status count_image(tg_store *store, const char *table, const char *path,
                             uint64_t *frames, tg_error *err)
{
    tg_frame_axes axes;
    TG_AUTO_PTR(tg_array) array = NULL;
    char key[TG_KEY_BYTES];
    tg_array_info info = {.size = sizeof info};

    TG_TRY(tg_path_join(key, sizeof key, path, "0", err));
    TG_TRY(tg_array_open(store, key, &array, NULL, err));
    TG_TRY(tg_array_get_info(array, &info, err));
    TG_TRY(tg_frame_table_axes(store, table, info.ndim, &axes, NULL, err));
    *frames += tg_frame_axes_count(axes, info.shape);
    return TG_OK;
}

static tg_status count_group(tg_store *store, const char *path, int depth, const char *plate,
                             uint64_t *frames, tg_error *err);

static tg_status count_children(tg_store *store, const char *path, int depth, const char *plate,
                                uint64_t *frames, tg_error *err)
{
    char key[TG_KEY_BYTES];
    char **names = NULL;
    tg_status st = tg_node_children(store, path, &names, NULL, err);

    for (size_t i = 0; st == TG_OK && names[i] != NULL; i++) {
        st = tg_path_join(key, sizeof key, path, names[i], err);
        if (st == TG_OK)
            st = count_group(store, key, depth, plate, frames, err);
    }
    tg_names_free(names);
    return st;
}

/* Frames of the images of a store: levels "0" of groups that have a frame table, and on a plate
 * (whose table is that of the group `plate`) of those three below it. */
static tg_status count_group(tg_store *store, const char *path, int depth, const char *plate,
                             uint64_t *frames, tg_error *err)
{
    enum { ROW_COLUMN_FIELD = 3 };
    TG_AUTO_PTR(tg_node) node = NULL;
    uint64_t rows;

    tg_status st = tg_node_open(store, path, &node, NULL, err);
    if (st != TG_OK || tg_node_kind_of(node) != TG_NODE_GROUP)
        return st == TG_NOT_FOUND ? TG_OK : st;
    if (plate != NULL && depth == 0) {
        st = count_image(store, plate, path, frames, err);
        return st == TG_NOT_FOUND ? TG_OK : st; /* died while the plate was made */
    }
    if (plate == NULL && tg_frame_table_length(store, path, &rows, NULL, NULL) == TG_OK) {
        st = count_image(store, path, path, frames, err);
        return st == TG_OK || (st != TG_NOT_FOUND && st != TG_INVALID)
                   ? st
                   : count_children(store, path, ROW_COLUMN_FIELD - 1, path, frames, err);
    }
    return depth == 0 ? TG_OK : count_children(store, path, depth - 1, plate, frames, err);
}

static tg_status nothing_to_do(const char *path, tg_recover_result *result, tg_error *err)
{
    TG_AUTO_PTR(tg_store) store = NULL;
    tg_store_options so = {.size = sizeof so, .mode = TG_STORE_READ};

    tg_status st = tg_path_is_zip(path) ? tg_store_open_zip(&store, path, &so, err)
                                        : tg_store_open_fs(&store, path, &so, err);
    if (st == TG_INCOMPLETE)
        return tg_fail(err, TG_INCOMPLETE,
                       "'%s' has no directory, and no journal to make one from: no frame of it "
                       "was durable",
                       path);
    TG_TRY(st);
    TG_TRY(count_group(store, "", 4, NULL, &result->frames_before, err));
    result->frames_after = result->frames_before;
    return TG_OK;
}

/* --- The recorder that was -------------------------------------------------------------- */

static void collect_arrays(const tg_model *m, tg_stream_array *arrays)
{
    for (uint32_t i = 0; i < m->n_lanes; i++) {
        arrays[i] = m->lanes[i].options.array;
        if (m->lanes[i].options.array.shard_frames == 0)
            arrays[i].no_shards = true;
    }
}

static tg_status open_store(recovery *r, tg_error *err)
{
    tg_stream *s = r->s;
    tg_store_options so = {.size = sizeof so, .mode = TG_STORE_READ_WRITE};

    TG_TRY(tg_store_open_fs(&s->side_store, s->side.path, &so, err));
    if (!s->zip)
        return tg_store_open_fs(&s->store, s->path, &so, err);
    r->zip_fd = tg_sys_open(AT_FDCWD, s->path, O_RDONLY, 0);
    if (r->zip_fd < 0)
        return tg_fail_errno(err, "open '%s'", s->path);
    return tg_zip_reopen(&s->store, s->path, 0, &so, err);
}

static tg_status build(recovery *r, tg_runtime *rt, const char *path, tg_error *err)
{
    const tg_model *m = &r->model;
    tg_stream_array arrays[TG_STREAM_ARRAYS];
    uint64_t bytes, least;

    collect_arrays(m, arrays);
    r->s->format = m->format;
    tg_stream_options o = {.size = sizeof o,
                           .path = path,
                           .format = m->format,
                           .plate = m->plate_file,
                           .arrays = arrays,
                           .n_arrays = m->n_lanes};
    TG_TRY(tg_stream_estimate(rt, &o, &bytes, &least, err));
    o.memory_bytes = least;
    TG_TRY(tg_stream_build(r->s, &o, err));
    tg_arena_touch(r->s);
    if (m->plate_file != NULL)
        TG_TRY(tg_json_copy(&r->s->plate_image,
                            tg_json_get(tg_json_get(m->head, "plate"), "image"), err));
    r->lane = tg_calloc(m->n_lanes, sizeof *r->lane);
    if (r->lane == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %" PRIu32 " arrays", m->n_lanes);
    return open_store(r, err);
}

/* A ZIP that was whole when its journal was left: it only remains to remove that. */
static bool zip_is_whole(const tg_stream *s)
{
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO_PTR(tg_node) node = NULL;
    tg_store_options so = {.size = sizeof so, .mode = TG_STORE_READ};

    return s->zip && tg_store_open_zip(&store, s->path, &so, NULL) == TG_OK &&
           tg_node_open(store, "", &node, NULL, NULL) == TG_OK;
}

static tg_status recover_locked(recovery *r, tg_runtime *rt, const char *path, tg_error *err)
{
    tg_stream *s = r->s;

    bool journal = tg_side_has(&s->side, TG_RECORD_FILE);
    if (journal)
        TG_TRY(
            tg_model_read(&r->model, tg_runtime_budget(rt), s->side.dir, TG_RECORD_FILE, err));
    if (!journal || r->model.n_lanes == 0 || zip_is_whole(s)) {
        /* Died before the first record, or after the last step: files beside it mean nothing.
         */
        TG_TRY(tg_side_clear(&s->side, tg_recorder_files, err));
        return nothing_to_do(path, r->result, err);
    }
    TG_TRY(build(r, rt, path, err));
    TG_TRY(tg_recover_run(r, err));
    return tg_side_clear(&s->side, tg_recorder_files, err);
}

tg_status tg_recover(tg_runtime *rt, const char *path, tg_recover_result *result, tg_error *err)
{
    tg_recover_result got = {.size = sizeof got};
    recovery r = {.result = &got, .zip_fd = -1};

    if (rt == NULL || path == NULL)
        return tg_fail(err, TG_INVALID, "no runtime, or no path");
    tg_status st = tg_stream_new(rt, path, &r.s, err);
    if (st != TG_OK)
        return st;
    struct stat there;
    if (tg_sys_stat(AT_FDCWD, path, &there, 0) != 0)
        st = tg_fail_errno(err, "'%s'", path);
    if (st == TG_OK)
        st = tg_side_open(&r.s->side, path, err);
    if (st == TG_OK)
        st = recover_locked(&r, rt, path, err);
    if (st == TG_OK)
        st = tg_side_close(&r.s->side, err);
    tg_fd_auto(&r.zip_fd);
    tg_stream_discard(r.s);
    tg_model_free(&r.model);
    tg_free(r.lane);
    if (result != NULL && st == TG_OK) {
        size_t room = result->size < sizeof got ? result->size : sizeof got;
        memcpy(result, &got, room);
        result->size = room;
    }
    return st;
}
