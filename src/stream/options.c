/* stream/options.c - the options of a recorder: checked as far as they can be without looking
 * at the store, and as JSON for the journal, from which recover makes the same layout again. */
#include "stream/options.h"

#include "base/owner.h"
#include "stream/create.h"
#include "zarr/path.h"

#include <inttypes.h>
#include <string.h>

bool tg_path_is_zip(const char *path)
{
    size_t n = path == NULL ? 0 : strlen(path);
    return n > 4 && strcmp(path + n - 4, ".zip") == 0;
}

/* --- Checks -------------------------------------------------------------------------- */

static const char *name_of(const tg_stream_array *a)
{
    return a->name == NULL ? "" : a->name;
}

static bool lies_within(const char *outer, const char *inner)
{
    size_t n = strlen(outer);
    return strncmp(outer, inner, n) == 0 && (inner[n] == '\0' || inner[n] == '/');
}

static tg_status check_names(const tg_stream_options *o, tg_error *err)
{
    char key[1024];

    for (uint32_t i = 0; i < o->n_arrays; i++) {
        const char *name = name_of(&o->arrays[i]);
        if (name[0] == '\0' && o->n_arrays > 1)
            return tg_fail(err, TG_INVALID, "of several arrays each needs a name");
        if (name[0] != '\0') {
            TG_TRY(tg_path_normalise(key, sizeof key, name, err));
            TG_TRY(tg_node_path_check(key, err));
            TG_TRY(tg_path_join(key, sizeof key, name, "zarr.json", err));
        }
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(name, name_of(&o->arrays[j])) == 0)
                return tg_fail(err, TG_INVALID, "two arrays are named '%s'", name);
    }
    return TG_OK;
}

/* The node names that an array takes below its group must not be another array's group. */
static tg_status check_nesting(const tg_stream_options *o, tg_error *err)
{
    char taken[1024];

    for (uint32_t i = 0; i < o->n_arrays; i++)
        for (uint32_t j = 0; j < o->n_arrays; j++) {
            const char *outer = name_of(&o->arrays[i]), *inner = name_of(&o->arrays[j]);
            if (i == j || !lies_within(outer, inner) || inner[strlen(outer)] != '/')
                continue;
            TG_TRY(tg_path_join(taken, sizeof taken, outer, "frames", err));
            bool clash = lies_within(taken, inner);
            const char *rest = inner + strlen(outer) + 1;
            size_t digits = strspn(rest, "0123456789");
            clash |= digits > 0 && (rest[digits] == '\0' || rest[digits] == '/');
            if (clash)
                return tg_fail(err, TG_INVALID, "array '%s' would lie in a part of array '%s'",
                               inner, outer);
        }
    return TG_OK;
}

static tg_status check_flow(const tg_stream_array *a, tg_error *err)
{
    if (a->size != sizeof *a)
        return tg_fail(err, TG_INVALID, "tg_stream_array.size is %zu, want %zu", a->size,
                       sizeof *a);
    if (a->on_full == TG_FULL_DECIMATE && a->decimate < 2)
        return tg_fail(err, TG_INVALID,
                       "decimate: every K-th frame, K at least 2, not %" PRIu32, a->decimate);
    if (!(a->timeout >= 0) || !(a->fps >= 0) || !(a->memory_share >= 0))
        return tg_fail(err, TG_INVALID, "timeout, fps and memory share must be 0 or more");
    if (a->on_full == TG_FULL_DROP_OLDEST && a->dims != NULL && a->n_dims != 1 &&
        (a->on_gap == TG_GAP_COMPACT || a->chunk_frames > 1))
        return tg_fail(err, TG_UNSUPPORTED,
                       "drop-oldest with several outer dimensions, frames one after the other "
                       "or several per chunk");
    return TG_OK;
}

/* A plate's frames have their places: what would move frames to others' is refused. */
static tg_status check_plate(const tg_stream_options *o, tg_error *err)
{
    const tg_stream_array *a = &o->arrays[0];

    if (o->plate == NULL)
        return TG_OK;
    if (o->n_arrays > 1)
        return tg_fail(err, TG_UNSUPPORTED,
                       "a plate is recorded from one source, there are %" PRIu32, o->n_arrays);
    if (o->ome != NULL && strcmp(o->ome, "none") == 0)
        return tg_fail(err, TG_INVALID, "a plate is made of OME-NGFF, and that is 'none'");
    if (a->on_full == TG_FULL_DROP_OLDEST)
        return tg_fail(err, TG_UNSUPPORTED, "drop-oldest on a plate: use drop-new");
    if (a->on_gap == TG_GAP_COMPACT)
        return tg_fail(err, TG_UNSUPPORTED,
                       "frames one after the other on a plate: a lost one would move those "
                       "behind it to other fields");
    for (uint32_t i = 0; i < a->n_columns; i++)
        if (a->columns[i].name != NULL && (strcmp(a->columns[i].name, "well") == 0 ||
                                           strcmp(a->columns[i].name, "field") == 0))
            return tg_fail(err, TG_INVALID,
                           "column '%s': the frame table of a plate has one of its own",
                           a->columns[i].name);
    return TG_OK;
}

tg_status tg_options_check(const tg_stream_options *o, tg_error *err)
{
    if (o == NULL || o->size != sizeof *o)
        return tg_fail(err, TG_INVALID, "tg_stream_options.size is %zu, want %zu",
                       o == NULL ? 0 : o->size, sizeof *o);
    if (o->path == NULL || o->path[0] == '\0')
        return tg_fail(err, TG_INVALID, "no path");
    if (o->format != 0 && o->format != 2 && o->format != 3)
        return tg_fail(err, TG_INVALID, "Zarr format %d: want 2 or 3", o->format);
    if (o->n_arrays == 0 || o->arrays == NULL || o->n_arrays > TG_STREAM_ARRAYS)
        return tg_fail(err, TG_INVALID, "%" PRIu32 " arrays: want 1 to %d", o->n_arrays,
                       TG_STREAM_ARRAYS);
    if (!(o->commit_interval >= 0))
        return tg_fail(err, TG_INVALID, "commit interval must be 0 or more");
    if (o->mode == TG_STREAM_APPEND && tg_path_is_zip(o->path))
        return tg_fail(err, TG_UNSUPPORTED, "a ZIP cannot be recorded into again");
    for (uint32_t i = 0; i < o->n_arrays; i++) {
        tg_status st = check_flow(&o->arrays[i], err);
        if (st != TG_OK) {
            tg_error_prefix(err, "array '%s'", name_of(&o->arrays[i]));
            return st;
        }
    }
    TG_TRY(check_names(o, err));
    TG_TRY(check_plate(o, err));
    return check_nesting(o, err);
}

/* --- To JSON ---------------------------------------------------------------------------- */

static tg_status set_text(tg_json *o, const char *key, const char *value, tg_error *err)
{
    return tg_json_set(o, key, tg_json_new_string(value == NULL ? "" : value), err);
}

static tg_status set_u64(tg_json *o, const char *key, uint64_t v, tg_error *err)
{
    return tg_json_set(o, key, tg_json_new_u64(v), err);
}

static tg_status write_dims(tg_json *array, const tg_stream_array *a, tg_error *err)
{
    if (a->dims == NULL)
        return TG_OK;
    TG_AUTO_PTR(tg_json) dims = tg_json_new_array();
    for (uint32_t d = 0; dims != NULL && d < a->n_dims; d++) {
        TG_AUTO_PTR(tg_json) dim = tg_json_new_object();
        if (dim == NULL)
            break;
        TG_TRY(set_text(dim, "name", a->dims[d].name, err));
        TG_TRY(set_u64(dim, "extent", a->dims[d].extent, err));
        TG_TRY(set_u64(dim, "arrival", a->dims[d].arrival, err));
        TG_TRY(tg_json_append(dims, tg_steal(dim), err));
    }
    return tg_json_set(array, "dims", tg_steal(dims), err);
}

static tg_status write_columns(tg_json *array, const tg_stream_array *a, tg_error *err)
{
    TG_AUTO_PTR(tg_json) columns = tg_json_new_array();
    char room[16];

    for (uint32_t i = 0; columns != NULL && i < a->n_columns; i++) {
        TG_AUTO_PTR(tg_json) column = tg_json_new_object();
        if (column == NULL)
            break;
        TG_TRY(set_text(column, "name", a->columns[i].name, err));
        TG_TRY(set_text(column, "dtype", tg_dtype_name(a->columns[i].dtype, room), err));
        TG_TRY(tg_json_append(columns, tg_steal(column), err));
    }
    return tg_json_set(array, "columns", tg_steal(columns), err);
}

static tg_status write_array(const tg_stream_array *a, const tg_layout *l, tg_json *o,
                             tg_error *err)
{
    char room[16];

    TG_TRY(set_text(o, "path", a->name, err));
    TG_TRY(set_text(o, "dtype", tg_dtype_name(a->dtype, room), err));
    TG_TRY(set_u64(o, "height", a->height, err));
    TG_TRY(set_u64(o, "width", a->width, err));
    TG_TRY(tg_json_set(o, "frame_axis_last", tg_json_new_bool(a->frame_axis_last), err));
    TG_TRY(write_dims(o, a, err));
    TG_TRY(set_u64(o, "chunk_frames", l->k, err));
    TG_TRY(set_u64(o, "tile_height", a->tile_height, err));
    TG_TRY(set_u64(o, "tile_width", a->tile_width, err));
    TG_TRY(set_u64(o, "shard_frames", l->sharded ? l->per_shard * l->k : 0, err));
    TG_TRY(tg_json_set(o, "no_shards", tg_json_new_bool(!l->sharded), err));
    TG_TRY(tg_json_set(o, "live", tg_json_new_bool(a->live), err));
    TG_TRY(set_text(o, "codec", l->encoded ? a->codec : "none", err));
    TG_TRY(tg_json_set(o, "no_checksum", tg_json_new_bool(a->no_checksum), err));
    TG_TRY(set_u64(o, "pyramid_levels", a->pyramid_levels, err));
    TG_TRY(set_u64(o, "pyramid_method", (uint64_t)a->pyramid_method, err));
    return write_columns(o, a, err);
}

tg_status tg_options_write_array(const tg_stream_array *a, const tg_layout *l, tg_json **out,
                                 tg_error *err)
{
    TG_AUTO_PTR(tg_json) o = tg_json_new_object();

    if (o == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a JSON object");
    TG_TRY(write_array(a, l, o, err));
    *out = tg_steal(o);
    return TG_OK;
}

/* --- From JSON --------------------------------------------------------------------------- */

static tg_status get_u64(const tg_json *o, const char *key, uint64_t *v, tg_error *err)
{
    tg_status st = tg_json_u64(tg_json_get(o, key), v, err);
    if (st != TG_OK)
        tg_error_prefix(err, "journal: member '%s'", key);
    return st;
}

static tg_status get_text(const tg_json *o, const char *key, const char **v, tg_error *err)
{
    tg_status st = tg_json_string(tg_json_get(o, key), v, NULL, err);
    if (st != TG_OK)
        tg_error_prefix(err, "journal: member '%s'", key);
    return st;
}

static tg_status get_bool(const tg_json *o, const char *key, bool *v, tg_error *err)
{
    tg_status st = tg_json_bool(tg_json_get(o, key), v, err);
    if (st != TG_OK)
        tg_error_prefix(err, "journal: member '%s'", key);
    return st;
}

static tg_status get_u32(const tg_json *o, const char *key, uint32_t *v, tg_error *err)
{
    uint64_t wide;

    TG_TRY(get_u64(o, key, &wide, err));
    if (wide > UINT32_MAX)
        return tg_fail(err, TG_CORRUPT, "journal: member '%s' is %" PRIu64, key, wide);
    *v = (uint32_t)wide;
    return TG_OK;
}

static tg_status read_dims(const tg_json *o, tg_read_options *r, tg_error *err)
{
    const tg_json *dims = tg_json_get(o, "dims");

    if (dims == NULL)
        return TG_OK;
    r->array.n_dims = (uint32_t)tg_json_size(dims);
    if (tg_json_size(dims) > TG_STREAM_DIMS)
        return tg_fail(err, TG_CORRUPT, "journal: %zu outer dimensions", tg_json_size(dims));
    for (uint32_t d = 0; d < r->array.n_dims; d++) {
        const tg_json *dim = tg_json_at(dims, d);
        TG_TRY(get_text(dim, "name", &r->dims[d].name, err));
        TG_TRY(get_u64(dim, "extent", &r->dims[d].extent, err));
        TG_TRY(get_u64(dim, "arrival", &r->dims[d].arrival, err));
    }
    r->array.dims = r->dims;
    return TG_OK;
}

static tg_status read_columns(const tg_json *o, tg_read_options *r, tg_error *err)
{
    const tg_json *columns = tg_json_get(o, "columns");
    const char *dtype;

    if (tg_json_size(columns) > TG_FRAME_COLUMNS_MAX)
        return tg_fail(err, TG_CORRUPT, "journal: %zu columns", tg_json_size(columns));
    r->array.n_columns = (uint32_t)tg_json_size(columns);
    for (uint32_t i = 0; i < r->array.n_columns; i++) {
        const tg_json *column = tg_json_at(columns, i);
        TG_TRY(get_text(column, "name", &r->columns[i].name, err));
        TG_TRY(get_text(column, "dtype", &dtype, err));
        TG_TRY(tg_dtype_parse(dtype, &r->columns[i].dtype, err));
    }
    r->array.columns = r->columns;
    return TG_OK;
}

tg_status tg_options_read_array(const tg_json *o, tg_read_options *r, tg_error *err)
{
    tg_stream_array *a = &r->array;
    const char *dtype;
    uint32_t method;

    *r = (tg_read_options){.array = {.size = sizeof *a}};
    TG_TRY(get_text(o, "path", &a->name, err));
    TG_TRY(get_text(o, "dtype", &dtype, err));
    TG_TRY(tg_dtype_parse(dtype, &a->dtype, err));
    TG_TRY(get_u64(o, "height", &a->height, err));
    TG_TRY(get_u64(o, "width", &a->width, err));
    TG_TRY(get_bool(o, "frame_axis_last", &a->frame_axis_last, err));
    TG_TRY(read_dims(o, r, err));
    TG_TRY(get_u64(o, "chunk_frames", &a->chunk_frames, err));
    TG_TRY(get_u64(o, "tile_height", &a->tile_height, err));
    TG_TRY(get_u64(o, "tile_width", &a->tile_width, err));
    TG_TRY(get_u64(o, "shard_frames", &a->shard_frames, err));
    TG_TRY(get_bool(o, "no_shards", &a->no_shards, err));
    TG_TRY(get_bool(o, "live", &a->live, err));
    TG_TRY(get_text(o, "codec", &a->codec, err));
    TG_TRY(get_bool(o, "no_checksum", &a->no_checksum, err));
    TG_TRY(get_u32(o, "pyramid_levels", &a->pyramid_levels, err));
    TG_TRY(get_u32(o, "pyramid_method", &method, err));
    if (method > TG_REDUCE_DECIMATE)
        return tg_fail(err, TG_CORRUPT, "journal: pyramid method %" PRIu32, method);
    a->pyramid_method = (tg_reduce)method;
    return read_columns(o, r, err);
}

/* --- The journal's head --------------------------------------------------------------------
 */

static tg_status lane_head(const tg_lane *n, const tg_stream_array *a, tg_json **out,
                           tg_error *err)
{
    TG_AUTO_PTR(tg_json) o = NULL;

    TG_TRY(tg_options_write_array(a, &n->layout, &o, err));
    TG_TRY(set_u64(o, "slots", n->published.slots, err));
    TG_TRY(set_u64(o, "rows", n->published.rows, err));
    *out = tg_steal(o);
    return TG_OK;
}

/* The plate as its user wrote it, and what the groups of its fields have: all documents of it
 * can be made again. */
static tg_status plate_head(const tg_stream *s, const tg_stream_options *o, tg_json *head,
                            tg_error *err)
{
    TG_AUTO_PTR(tg_json) plate = tg_json_new_object();
    tg_json *image = NULL;

    if (plate == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the journal's head");
    TG_TRY(set_text(plate, "file", o->plate, err));
    TG_TRY(tg_json_copy(&image, s->plate_image, err));
    TG_TRY(tg_json_set(plate, "image", image, err));
    return tg_json_set(head, "plate", tg_steal(plate), err);
}

tg_status tg_journal_head(const tg_stream *s, const tg_stream_options *o, char **text,
                          tg_error *err)
{
    TG_AUTO_PTR(tg_json) head = tg_json_new_object();
    TG_AUTO_PTR(tg_json) arrays = tg_json_new_array();
    char boot[TG_BOOT_ID_BYTES];

    if (head == NULL || arrays == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the journal's head");
    tg_boot_id(boot);
    TG_TRY(set_u64(head, "format", (uint64_t)s->format, err));
    TG_TRY(tg_json_set(head, "zip", tg_json_new_bool(s->zip), err));
    TG_TRY(set_text(head, "boot", boot, err));
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        tg_json *lane = NULL;
        TG_TRY(lane_head(&s->lanes[i], &o->arrays[i], &lane, err));
        TG_TRY(tg_json_append(arrays, lane, err));
    }
    TG_TRY(tg_json_set(head, "arrays", tg_steal(arrays), err));
    if (s->plate != NULL)
        TG_TRY(plate_head(s, o, head, err));
    if (s->zip) {
        tg_json *documents = NULL;
        TG_TRY(tg_zip_documents_json(s, &documents, err));
        TG_TRY(tg_json_set(head, "documents", documents, err));
    }
    return tg_json_write(head, false, (tg_json_options){0}, text, err);
}
