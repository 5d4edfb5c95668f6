/* stream/create.c - what a recording is made of before the first frame: groups with their
 * attributes, arrays of shape 0, frame tables; or the same of an earlier one, to go on. */
#include "stream/create.h"

#include "ome/ome.h"
#include "stream/options.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- Groups ------------------------------------------------------------------------- */

static const char *text_or(const char *s, const char *otherwise)
{
    return s == NULL || s[0] == '\0' ? otherwise : s;
}

static tg_group *find_group(const tg_stream *s, const char *path)
{
    for (uint32_t i = 0; i < s->n_groups; i++)
        if (strcmp(s->groups[i].path, path) == 0)
            return &s->groups[i];
    return NULL;
}

static tg_status add_group(tg_stream *s, const char *path, size_t len, tg_error *err)
{
    char name[TG_KEY_BYTES];

    if (len >= sizeof name)
        return tg_fail(err, TG_INVALID, "name '%s' is too long", path);
    memcpy(name, path, len);
    name[len] = '\0';
    if (find_group(s, name) != NULL)
        return TG_OK;
    tg_group *grown = tg_alloc_array(s->n_groups + 1, sizeof *grown);
    if (grown == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %" PRIu32 " groups", s->n_groups + 1);
    if (s->n_groups > 0)
        memcpy(grown, s->groups, s->n_groups * sizeof *grown);
    tg_free(s->groups);
    s->groups = grown;
    tg_group *g = &s->groups[s->n_groups];
    *g = (tg_group){tg_strdup(name), tg_json_new_object()};
    s->n_groups++;
    if (g->path == NULL || g->attributes == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for group '%s'", name);
    return TG_OK;
}

tg_group *tg_lane_group(const tg_lane *n)
{
    return find_group(n->s, n->path);
}

/* Members of `from` into `to`, over those that are there. */
static tg_status merge(tg_json *to, const tg_json *from, tg_error *err)
{
    for (size_t i = 0; i < tg_json_size(from); i++) {
        tg_json *copy = NULL;
        TG_TRY(tg_json_copy(&copy, tg_json_at(from, i), err));
        TG_TRY(tg_json_set(to, tg_json_key_at(from, i), copy, err));
    }
    return TG_OK;
}

static tg_status merge_text(tg_json *to, const char *text, const char *what, tg_error *err)
{
    TG_AUTO_PTR(tg_json) given = NULL;

    if (text == NULL)
        return TG_OK;
    tg_status st =
        tg_json_parse(&given, text, strlen(text), (tg_json_options){.allow_nan = false}, err);
    if (st != TG_OK || tg_json_kind_of(given) != TG_JSON_OBJECT) {
        if (st == TG_OK)
            (void)tg_fail(err, TG_INVALID, "want a JSON object, got %s",
                          tg_json_kind_name(tg_json_kind_of(given)));
        tg_error_prefix(err, "%s", what);
        return TG_INVALID;
    }
    return merge(to, given, err);
}

void tg_groups_free(tg_stream *s)
{
    for (uint32_t i = 0; i < s->n_groups; i++) {
        tg_free(s->groups[i].path);
        tg_json_free(s->groups[i].attributes);
    }
    tg_free(s->groups);
    s->groups = NULL;
    s->n_groups = 0;
}

/* --- OME-NGFF ------------------------------------------------------------------------- */

static tg_status ome_version(const tg_stream_options *o, tg_ome_version *v, bool *asked,
                             tg_error *err)
{
    int format = o->format == 0 ? 3 : o->format;

    *asked = o->ome != NULL;
    *v = format == 3 ? TG_OME_0_5 : TG_OME_0_4;
    if (o->ome == NULL)
        return TG_OK;
    if (strcmp(o->ome, "none") == 0)
        *v = TG_OME_NONE;
    else if (strcmp(o->ome, format == 3 ? "0.5" : "0.4") != 0)
        return tg_fail(err, TG_UNSUPPORTED, "OME-NGFF '%s': Zarr format %d has %s or none",
                       o->ome, format, format == 3 ? "0.5" : "0.4");
    return TG_OK;
}

static const char *method_name(tg_reduce m)
{
    static const char *const names[] = {"mean", "min", "max", "decimate"};
    return names[m];
}

static tg_status describe(const tg_stream_array *a, const tg_layout *l, tg_ome_version v,
                          tg_ome_channel *channels, tg_ome_image *im, tg_error *err)
{
    *im = (tg_ome_image){.version = v,
                         .name = text_or(a->name, NULL),
                         .n_levels = l->n_planes,
                         .method = l->n_planes > 1 ? method_name(a->pyramid_method) : NULL,
                         .dtype = l->dtype,
                         .channels = channels,
                         .n_channels = a->n_channels};
    if (!l->has_rows || l->axis_last || l->n_axes + 2 > TG_OME_MAX_AXES)
        return tg_fail(
            err, TG_UNSUPPORTED,
            "OME-NGFF has no form for frames that are lines, the frame axis last, or "
            "more than %d axes",
            TG_OME_MAX_AXES);
    for (uint32_t i = 0; i < a->n_channels; i++)
        channels[i] = (tg_ome_channel){.name = a->channel_names[i]};
    for (uint32_t d = 0; d < l->n_axes; d++) {
        const tg_stream_dim *dim = a->dims == NULL ? NULL : &a->dims[d];
        im->axes[d] = (tg_ome_axis){.name = dim == NULL ? "t" : text_or(dim->name, "t"),
                                    .unit = dim == NULL ? NULL : dim->unit,
                                    .scale = dim == NULL ? 0 : dim->scale};
        bool timed = a->fps > 0 && strcmp(im->axes[d].name, "t") == 0;
        if (timed && im->axes[d].unit == NULL && im->axes[d].scale == 0) {
            im->axes[d].unit = "second";
            im->axes[d].scale = 1 / a->fps;
        }
    }
    im->axes[l->n_axes] = (tg_ome_axis){.name = "y", .unit = a->unit, .scale = a->scale_y};
    im->axes[l->n_axes + 1] = (tg_ome_axis){.name = "x", .unit = a->unit, .scale = a->scale_x};
    im->n_axes = l->n_axes + 2;
    return tg_ome_image_check(im, err);
}

static tg_status add_image(const tg_stream_options *o, const tg_stream_array *a,
                           const tg_layout *l, tg_json *attributes, tg_error *err)
{
    tg_ome_version v;
    tg_ome_image im;
    bool asked;

    TG_TRY(ome_version(o, &v, &asked, err));
    if (v == TG_OME_NONE)
        return TG_OK;
    TG_AUTO(tg_mem_ptr) channels = tg_calloc(a->n_channels + 1, sizeof(tg_ome_channel));
    if (channels == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %" PRIu32 " channels", a->n_channels);
    tg_status st = describe(a, l, v, channels, &im, err);
    if (st == TG_UNSUPPORTED && !asked && !tg_layout_is_plate(l))
        return TG_OK;
    TG_TRY(st);
    TG_AUTO_PTR(tg_json) made = NULL;
    TG_TRY(tg_ome_image_attributes(&im, &made, err));
    return merge(attributes, made, err);
}

/* The plate's own members, and those of its fields, which all get the same. */
static tg_status add_plate(tg_stream *s, const tg_stream_options *o, tg_json *attributes,
                           tg_error *err)
{
    tg_ome_version v;
    bool asked;
    TG_AUTO_PTR(tg_json) made = NULL;

    s->plate_image = tg_json_new_object();
    if (s->plate_image == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plate");
    TG_TRY(add_image(o, &o->arrays[0], &s->lanes[0].layout, s->plate_image, err));
    TG_TRY(ome_version(o, &v, &asked, err));
    TG_TRY(tg_ome_plate_attributes(s->plate, v, &made, err));
    return merge(attributes, made, err);
}

/* A root above named images says which they are. */
static tg_status add_collection(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    tg_ome_version v;
    bool asked;
    const char *paths[TG_STREAM_ARRAYS];
    TG_AUTO_PTR(tg_json) root = NULL;
    TG_AUTO_PTR(tg_json) group = NULL;

    TG_TRY(ome_version(o, &v, &asked, err));
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        const tg_layout *l = &s->lanes[i].layout;
        paths[i] = s->lanes[i].path;
        if (paths[i][0] == '\0' || !l->has_rows || l->axis_last || l->n_dims > 3 ||
            tg_layout_is_plate(l))
            return TG_OK;
    }
    if (v == TG_OME_NONE)
        return TG_OK;
    TG_TRY(tg_ome_collection_attributes(v, paths, s->n_lanes, &root, &group, err));
    if (root != NULL)
        TG_TRY(merge(find_group(s, "")->attributes, root, err));
    if (group == NULL)
        return TG_OK;
    TG_TRY(add_group(s, "OME", 3, err));
    return merge(find_group(s, "OME")->attributes, group, err);
}

static tg_status collect_groups(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    TG_TRY(add_group(s, "", 0, err));
    TG_TRY(merge_text(s->groups[0].attributes, o->attributes, "attributes", err));
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        const char *path = s->lanes[i].path;
        for (size_t n = 1; path[0] != '\0' && n <= strlen(path); n++)
            if (path[n] == '/' || path[n] == '\0')
                TG_TRY(add_group(s, path, n, err));
        tg_json *attributes = find_group(s, path)->attributes;
        TG_TRY(merge_text(attributes, o->arrays[i].attributes, "attributes", err));
        TG_TRY(s->plate != NULL
                   ? add_plate(s, o, attributes, err)
                   : add_image(o, &o->arrays[i], &s->lanes[i].layout, attributes, err));
        TG_TRY(tg_json_set(attributes, "complete", tg_json_new_bool(false), err));
    }
    return add_collection(s, o, err);
}

/* --- Arrays --------------------------------------------------------------------------------
 */

static void name_axes(const tg_stream_array *a, const tg_layout *l, const char **names)
{
    uint32_t y = l->axis_last ? 0 : l->n_axes;

    for (uint32_t d = 0; d < l->n_axes; d++)
        names[tg_layout_axis(l, d)] = a->dims == NULL ? "t" : text_or(a->dims[d].name, "t");
    if (l->has_rows)
        names[y++] = "y";
    names[y] = "x";
}

static void array_options(const tg_stream_array *a, const tg_layout *l, tg_layout_vectors *v,
                          const char **names, tg_array_options *out)
{
    name_axes(a, l, names);
    *out = (tg_array_options){.size = sizeof *out,
                              .format = l->format,
                              .dtype = l->dtype,
                              .ndim = v->ndim,
                              .shape = v->shape,
                              .chunk = v->chunk,
                              .shard = l->sharded ? v->shard : NULL,
                              .index_at_start = l->live,
                              .codec = a->codec,
                              .no_checksum = a->no_checksum,
                              .separator = '/',
                              .dimension_names = l->format == 3 ? names : NULL};
    if (l->n_dims == 0)
        v->shape[0] = 0; /* until the one frame is published */
}

tg_status tg_make_meta(tg_lane *n, const tg_stream_array *a, uint32_t plane, tg_error *err)
{
    tg_layout_vectors v;
    const char *names[TG_MAX_NDIM];
    tg_array_options ao;

    tg_layout_vectors_init(&n->layout, plane, &v);
    array_options(a, &n->layout, &v, names, &ao);
    return tg_array_meta_new(&n->meta[plane], &ao, err);
}

tg_status tg_create_level(tg_lane *n, const tg_stream_array *a, uint32_t plane, tg_error *err)
{
    tg_layout_vectors v;
    const char *names[TG_MAX_NDIM];
    tg_array_options ao;
    char path[TG_KEY_BYTES];

    tg_layout_vectors_init(&n->layout, plane, &v);
    array_options(a, &n->layout, &v, names, &ao);
    TG_TRY(tg_plane_path(n, 0, plane, path, sizeof path, err));
    return tg_array_create(n->s->store, path, &ao, &n->array[plane], NULL, err);
}

tg_frame_table_options tg_lane_table_options(const tg_lane *n)
{
    return (tg_frame_table_options){.format = n->layout.format,
                                    .group = n->path,
                                    .users = n->plan.columns,
                                    .checksum = n->layout.checksum,
                                    .frame_bytes = n->layout.plane[0].frame_bytes,
                                    .axes = tg_layout_frame_axes(&n->layout),
                                    .images = tg_layout_images(&n->layout),
                                    .fields = tg_layout_fields(&n->layout),
                                    .once = n->s->zip};
}

tg_status tg_create_lane(tg_lane *n, const tg_stream_array *a, tg_error *err)
{
    tg_frame_table_options t = tg_lane_table_options(n);
    bool plate = tg_layout_is_plate(&n->layout);

    if (plate && !n->s->zip)
        TG_TRY(tg_plate_create(n, err));
    for (uint32_t p = 0; !plate && !n->s->zip && p < n->layout.n_planes; p++)
        TG_TRY(tg_create_level(n, a, p, err));
    return tg_frame_table_create(&n->table, n->s->store, &t, NULL, err);
}

/* --- The store
 * -------------------------------------------------------------------------------- */

static tg_status is_there(const char *path, bool *there, bool *is_dir, tg_error *err)
{
    struct stat st;

    *there = tg_sys_stat(AT_FDCWD, path, &st, 0) == 0;
    *is_dir = *there && S_ISDIR(st.st_mode);
    (void)err;
    return TG_OK;
}

static bool any_name(void *user, const char *name)
{
    (void)name;
    *(bool *)user = true;
    return false;
}

static tg_status check_empty(tg_stream *s, tg_error *err)
{
    bool any = false;

    TG_TRY(tg_store_list(s->store, "", any_name, &any, NULL, err));
    return any ? tg_fail(err, TG_EXISTS, "'%s' exists and is not empty", s->path) : TG_OK;
}

/* Remove all below a prefix: names are collected first, for removing changes what is listed. */
typedef struct name_list {
    char **names;
    size_t n, cap;
    bool no_memory;
} name_list;

static bool add_name(void *user, const char *name)
{
    name_list *l = user;

    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 64 : l->cap * 2;
        char **grown = tg_alloc_array(cap, sizeof *grown);
        if (grown == NULL) {
            l->no_memory = true;
            return false;
        }
        if (l->n > 0)
            memcpy(grown, l->names, l->n * sizeof *grown);
        tg_free(l->names);
        l->names = grown;
        l->cap = cap;
    }
    l->names[l->n] = tg_strdup(name);
    l->no_memory = l->names[l->n] == NULL;
    l->n += !l->no_memory;
    return !l->no_memory;
}

static tg_status remove_below(tg_store *store, const char *prefix, tg_error *err);

static bool is_document(const char *name)
{
    return strcmp(name, "zarr.json") == 0 || strncmp(name, ".z", 2) == 0;
}

/* Arrays lose their documents first, so that no chunk that is gone is read as fill value; the
 * root keeps its own to the end: a run that dies here leaves a node, which may be overwritten.
 */
static tg_status remove_names(tg_store *store, const char *prefix, const name_list *l,
                              tg_error *err)
{
    bool root = prefix[0] == '\0';

    for (size_t j = 0; j < 2 * l->n; j++) {
        char key[4096];
        bool second = j >= l->n;
        size_t i = second ? j - l->n : j;
        if (is_document(l->names[i]) != (root ? second : !second))
            continue;
        int len = snprintf(key, sizeof key, "%s%s", prefix, l->names[i]);
        if (len < 1 || (size_t)len >= sizeof key)
            return tg_fail(err, TG_INVALID, "'%s%s' is too long", prefix, l->names[i]);
        TG_TRY(key[len - 1] == '/' ? remove_below(store, key, err)
                                   : tg_store_remove(store, key, NULL, err));
    }
    return TG_OK;
}

/* An empty directory looks like chunks without metadata. One with files that are no keys stays.
 */
static tg_status remove_directory(tg_store *store, const char *prefix, tg_error *err)
{
    if (tg_sys_unlink(tg_store_dir(store), prefix, AT_REMOVEDIR) != 0 && errno != ENOENT &&
        errno != ENOTEMPTY && errno != EEXIST)
        return tg_fail_errno(err, "remove directory '%s'", prefix);
    return TG_OK;
}

static tg_status remove_below(tg_store *store, const char *prefix, tg_error *err)
{
    name_list l = {0};
    tg_status st = tg_store_list(store, prefix, add_name, &l, NULL, err);

    if (st == TG_OK && l.no_memory)
        st = tg_fail(err, TG_NO_MEMORY, "no memory for the names below '%s'", prefix);
    if (st == TG_OK)
        st = remove_names(store, prefix, &l, err);
    for (size_t i = 0; i < l.n; i++)
        tg_free(l.names[i]);
    tg_free(l.names);
    return st == TG_OK && prefix[0] != '\0' ? remove_directory(store, prefix, err) : st;
}

/* Only what is a Zarr node is written over. */
static tg_status check_is_node(tg_store *store, const char *path, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    tg_status st = tg_node_open(store, "", &node, NULL, err);

    if (st == TG_NOT_FOUND)
        return tg_fail(err, TG_EXISTS, "'%s' is no Zarr store: it is not overwritten", path);
    return st;
}

/* What a recorder leaves that died before its first entry. */
static bool is_empty_file(const char *path)
{
    struct stat st;
    return tg_sys_stat(AT_FDCWD, path, &st, 0) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}

static tg_status overwrite_zip(tg_stream *s, tg_error *err)
{
    TG_AUTO_PTR(tg_store) old = NULL;
    tg_store_options so = {.size = sizeof so, .mode = TG_STORE_READ};

    if (!is_empty_file(s->path)) {
        if (tg_store_open_zip(&old, s->path, &so, err) != TG_OK)
            return tg_fail(err, TG_EXISTS,
                           "'%s' is no ZIP that can be read: it is not overwritten", s->path);
        TG_TRY(check_is_node(old, s->path, err));
    }
    if (tg_sys_unlink(AT_FDCWD, s->path, 0) != 0)
        return tg_fail_errno(err, "remove '%s'", s->path);
    return TG_OK;
}

static tg_status open_zip(tg_stream *s, const tg_stream_options *o, bool there, tg_error *err)
{
    tg_store_options so = {
        .size = sizeof so, .mode = TG_STORE_CREATE, .buffered = o->direct == TG_DIRECT_OFF};

    if (there && o->mode == TG_STREAM_CREATE)
        return tg_fail(err, TG_EXISTS, "'%s' exists", s->path);
    if (there)
        TG_TRY(overwrite_zip(s, err));
    return tg_store_open_zip(&s->store, s->path, &so, err);
}

tg_status tg_create_store(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    bool there, is_dir;
    tg_store_options so = {.size = sizeof so,
                           .mode = TG_STORE_OPEN_OR_CREATE,
                           .buffered = o->direct == TG_DIRECT_OFF};

    TG_TRY(is_there(s->path, &there, &is_dir, err));
    if (s->zip)
        return open_zip(s, o, there, err);
    if (there && !is_dir)
        return tg_fail(err, TG_EXISTS, "'%s' is a file", s->path);
    if (!there && o->mode == TG_STREAM_APPEND)
        return tg_fail(err, TG_NOT_FOUND, "'%s' is not there to append to", s->path);
    TG_TRY(tg_store_open_fs(&s->store, s->path, &so, err));
    tg_status st = check_empty(s, err);
    if (st != TG_EXISTS || o->mode == TG_STREAM_CREATE)
        return st;
    TG_TRY(check_is_node(s->store, s->path, err));
    return o->mode == TG_STREAM_OVERWRITE ? remove_below(s->store, "", err) : TG_OK;
}

tg_status tg_create_group(tg_stream *s, const tg_group *g, tg_error *err)
{
    TG_AUTO(tg_str) text = NULL;

    TG_TRY(tg_json_write(g->attributes, false, (tg_json_options){0}, &text, err));
    tg_status st = tg_group_create(s->store, g->path, s->format, text, NULL, err);
    return st == TG_EXISTS && s->appends ? TG_OK : st;
}

tg_status tg_create_prepare(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    TG_TRY(collect_groups(s, o, err));
    for (uint32_t i = 0; i < s->n_lanes; i++)
        for (uint32_t p = 0; p < s->lanes[i].layout.n_planes; p++)
            TG_TRY(tg_make_meta(&s->lanes[i], &o->arrays[i], p, err));
    return TG_OK;
}

tg_status tg_create(tg_stream *s, const tg_stream_options *o, tg_error *err)
{
    if (s->null_sink)
        return TG_OK;
    if (o->mode == TG_STREAM_APPEND)
        return tg_create_append(s, o, err);
    for (uint32_t i = 0; !s->zip && i < s->n_groups; i++)
        TG_TRY(tg_create_group(s, &s->groups[i], err));
    for (uint32_t i = 0; i < s->n_lanes; i++)
        TG_TRY(tg_create_lane(&s->lanes[i], &o->arrays[i], err));
    return s->zip ? TG_OK : tg_store_sync(s->store, NULL, err);
}
