/* stream/plate.c - the fields of a plate, which are many arrays with one lane: their documents
 * and their shapes, made and looked at one by one, so that memory does not grow with them. */
#include "stream/create.h"

#include <string.h>

/* --- Documents ---------------------------------------------------------------------- */

static tg_status put_group(const tg_lane *n, const char *path, const tg_json *attributes,
                           tg_document_fn fn, void *user, tg_error *err)
{
    char full[TG_KEY_BYTES];
    TG_AUTO(tg_str) doc = NULL;
    TG_AUTO(tg_str) attrs_doc = NULL;
    int format = n->layout.format;

    TG_TRY(tg_path_join(full, sizeof full, n->path, path, err));
    TG_TRY(tg_group_documents(format, attributes, &doc, &attrs_doc, err));
    TG_TRY(tg_document_pass(full, format == 3 ? "zarr.json" : ".zgroup", doc, fn, user, err));
    return tg_document_pass(full, ".zattrs", attrs_doc, fn, user, err);
}

/* The one member of an image's attributes that differs: multiscales[0].name. */
static tg_status name_image(tg_json *attributes, const char *name, tg_error *err)
{
    tg_json *ome = tg_json_get_mutable(attributes, "ome");
    tg_json *members = ome == NULL ? attributes : ome;
    const tg_json *first = tg_json_at(tg_json_get(members, "multiscales"), 0);
    TG_AUTO_PTR(tg_json) image = NULL;
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();

    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for attributes");
    if (first == NULL)
        return tg_fail(err, TG_CORRUPT, "the fields of the plate have no multiscales");
    TG_TRY(tg_json_copy(&image, first, err));
    TG_TRY(tg_json_set(image, "name", tg_json_new_string(name), err));
    TG_TRY(tg_json_append(list, tg_steal(image), err));
    return tg_json_set(members, "multiscales", tg_steal(list), err);
}

static tg_status put_image(const tg_lane *n, uint64_t image, uint64_t slots, tg_document_fn fn,
                           void *user, tg_error *err)
{
    char path[TG_KEY_BYTES];
    TG_AUTO_PTR(tg_json) attributes = NULL;

    TG_TRY(tg_ome_plate_image_path(n->s->plate, image, path, sizeof path, err));
    TG_TRY(tg_json_copy(&attributes, n->s->plate_image, err));
    TG_TRY(name_image(attributes, path, err));
    TG_TRY(put_group(n, path, attributes, fn, user, err));
    for (uint32_t p = 0; p < n->layout.n_planes; p++)
        TG_TRY(tg_plane_documents(n, image, p, slots, fn, user, err));
    return TG_OK;
}

static tg_status put_well(const tg_lane *n, uint32_t well, const tg_json *attributes,
                          uint64_t slots, tg_document_fn fn, void *user, tg_error *err)
{
    uint64_t fields = tg_layout_fields(&n->layout);

    TG_TRY(put_group(n, tg_ome_plate_well_path(n->s->plate, well), attributes, fn, user, err));
    for (uint64_t f = 0; f < fields; f++)
        TG_TRY(put_image(n, well * fields + f, slots, fn, user, err));
    return TG_OK;
}

tg_status tg_plate_documents(const tg_lane *n, uint64_t slots, tg_document_fn fn, void *user,
                             tg_error *err)
{
    const tg_ome_plate *plate = n->s->plate;
    bool row_done[TG_OME_PLATE_ROWS] = {false};
    TG_AUTO_PTR(tg_json) none = tg_json_new_object();
    TG_AUTO_PTR(tg_json) well = NULL;

    if (none == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for attributes");
    TG_TRY(tg_ome_well_attributes(plate, n->layout.format == 3 ? TG_OME_0_5 : TG_OME_0_4, 0,
                                  &well, err));
    for (uint32_t w = 0; w < tg_ome_plate_wells(plate); w++) {
        uint32_t row = tg_ome_plate_well_row(plate, w);
        if (!row_done[row])
            TG_TRY(put_group(n, tg_ome_plate_row_name(plate, row), none, fn, user, err));
        row_done[row] = true;
        TG_TRY(put_well(n, w, well, slots, fn, user, err));
    }
    return TG_OK;
}

static tg_status put_unsynced(void *store, const char *key, const char *text, tg_error *err)
{
    return tg_store_put(store, key, text, strlen(text), NULL, err);
}

/* Thousands of small files in as many directories: synced at once, not one by one. */
tg_status tg_plate_create(tg_lane *n, tg_error *err)
{
    TG_AUTO_PTR(tg_store) store = NULL;
    tg_store_options so = {.size = sizeof so, .mode = TG_STORE_READ_WRITE, .no_sync = true};

    TG_TRY(tg_store_open_fs(&store, n->s->path, &so, err));
    TG_TRY(tg_plate_documents(n, 0, put_unsynced, store, err));
    return tg_store_sync(store, NULL, err);
}

/* --- Shapes --------------------------------------------------------------------------- */

uint64_t tg_plane_frames(const tg_layout *l, const tg_array_info *info)
{
    return tg_frame_axes_count(tg_layout_frame_axes(l), info->shape);
}

/* What others added to the document stays. Lazily: there may be many of them. */
tg_status tg_plate_put_shape(tg_lane *n, tg_array *a, uint64_t image, uint32_t plane,
                             uint64_t slots, tg_error *err)
{
    const tg_layout *l = &n->layout;
    uint64_t outer[TG_STREAM_DIMS] = {0};
    tg_layout_vectors v;
    char path[TG_KEY_BYTES];
    TG_AUTO(tg_str) doc = NULL;
    TG_AUTO(tg_str) attrs_doc = NULL;

    tg_layout_image_shape(l, image, slots, outer);
    tg_layout_vectors_init(l, plane, &v);
    for (uint32_t d = 0; d < l->n_axes; d++)
        v.shape[tg_layout_axis(l, d)] = outer[d];
    TG_TRY(tg_plane_path(n, image, plane, path, sizeof path, err));
    TG_TRY(tg_array_meta_write(tg_array_get_meta(a), v.shape, NULL, &doc, &attrs_doc, err));
    return tg_document_pass(path, l->format == 3 ? "zarr.json" : ".zarray", doc,
                            tg_document_put, n->s->store, err);
}

tg_status tg_plate_open(const tg_lane *n, uint64_t image, uint32_t plane, tg_array **out,
                        tg_error *err)
{
    char path[TG_KEY_BYTES];

    TG_TRY(tg_plane_path(n, image, plane, path, sizeof path, err));
    return tg_array_open(n->s->store, path, out, NULL, err);
}

static tg_status look_at(tg_lane *n, uint64_t image, uint32_t plane, tg_plane_fn look,
                         void *user, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};

    TG_TRY(tg_plate_open(n, image, plane, &a, err));
    TG_TRY(tg_array_get_info(a, &info, err));
    tg_found_plane found = {n, image, plane, a, &info};
    return look(user, &found, err);
}

tg_status tg_plate_look(tg_lane *n, tg_plane_fn look, void *user, tg_error *err)
{
    for (uint64_t image = 0; image < n->layout.n_images; image++)
        for (uint32_t p = 0; p < n->layout.n_planes; p++)
            TG_TRY(look_at(n, image, p, look, user, err));
    return TG_OK;
}

static tg_status show_image(tg_lane *n, uint64_t image, uint64_t slots, tg_error *err)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        TG_AUTO_PTR(tg_array) a = NULL;
        TG_TRY(tg_plate_open(n, image, p, &a, err));
        TG_TRY(tg_plate_put_shape(n, a, image, p, slots, err));
    }
    return TG_OK;
}

tg_status tg_plate_show(tg_lane *n, uint64_t slots, tg_error *err)
{
    const tg_layout *l = &n->layout;

    if (slots <= n->shown)
        return TG_OK;
    for (uint64_t image = 0; !n->s->null_sink && image < l->n_images; image++) {
        uint64_t before[TG_STREAM_DIMS], now[TG_STREAM_DIMS];
        tg_layout_image_shape(l, image, n->shown, before);
        tg_layout_image_shape(l, image, slots, now);
        if (before[l->slow] != now[l->slow])
            TG_TRY(show_image(n, image, slots, err));
    }
    if (!n->s->null_sink)
        TG_TRY(tg_store_sync(n->s->store, NULL, err));
    n->shown = slots;
    return TG_OK;
}
