/* stream/zip_end.c - the metadata of a ZIP, whose values can be put only once: known from the
 * start and kept in the journal's head, written when all chunks are in it. */
#include "stream/create.h"

#include <stdio.h>
#include <string.h>

tg_status tg_document_pass(const char *path, const char *name, const char *text,
                           tg_document_fn fn, void *user, tg_error *err)
{
    char key[TG_KEY_BYTES];

    if (text == NULL)
        return TG_OK;
    TG_TRY(tg_path_join(key, sizeof key, path, name, err));
    return fn(user, key, text, err);
}

static tg_status each_group(const tg_stream *s, tg_document_fn fn, void *user, tg_error *err)
{
    for (uint32_t i = 0; i < s->n_groups; i++) {
        const tg_group *g = &s->groups[i];
        TG_AUTO(tg_str) doc = NULL;
        TG_AUTO(tg_str) attributes = NULL;
        TG_TRY(tg_group_documents(s->format, g->attributes, &doc, &attributes, err));
        TG_TRY(tg_document_pass(g->path, s->format == 3 ? "zarr.json" : ".zgroup", doc, fn,
                                user, err));
        TG_TRY(tg_document_pass(g->path, ".zattrs", attributes, fn, user, err));
    }
    return TG_OK;
}

tg_status tg_plane_documents(const tg_lane *n, uint64_t image, uint32_t plane, uint64_t slots,
                             tg_document_fn fn, void *user, tg_error *err)
{
    const tg_layout *l = &n->layout;
    uint64_t outer[TG_STREAM_DIMS] = {0};
    tg_layout_vectors v;
    char path[TG_KEY_BYTES];
    TG_AUTO(tg_str) doc = NULL;
    TG_AUTO(tg_str) attributes = NULL;

    tg_layout_image_shape(l, image, slots, outer);
    tg_layout_vectors_init(l, plane, &v);
    for (uint32_t d = 0; d < l->n_axes; d++)
        v.shape[tg_layout_axis(l, d)] = outer[d];
    if (l->n_axes == 0 && slots == 0)
        v.shape[0] = 0;
    TG_TRY(tg_plane_path(n, image, plane, path, sizeof path, err));
    TG_TRY(tg_array_meta_write(n->meta[plane], v.shape, NULL, &doc, &attributes, err));
    TG_TRY(
        tg_document_pass(path, l->format == 3 ? "zarr.json" : ".zarray", doc, fn, user, err));
    return tg_document_pass(path, ".zattrs", attributes, fn, user, err);
}

/* Documents of lanes, of a plate or not. */
static tg_status each_array(const tg_lane *n, tg_document_fn fn, void *user, tg_error *err)
{
    if (tg_layout_is_plate(&n->layout))
        return tg_plate_documents(n, n->in_chunks.slots, fn, user, err);
    for (uint32_t p = 0; p < n->layout.n_planes; p++)
        TG_TRY(tg_plane_documents(n, 0, p, n->in_chunks.slots, fn, user, err));
    return TG_OK;
}

tg_status tg_document_put(void *store, const char *key, const char *text, tg_error *err)
{
    return tg_store_put_lazy(store, key, text, strlen(text), NULL, err);
}

static tg_status keep_document(void *user, const char *key, const char *text, tg_error *err)
{
    return tg_json_set(user, key, tg_json_new_string(text), err);
}

tg_status tg_zip_documents(tg_stream *s, tg_error *err)
{
    TG_TRY(each_group(s, tg_document_put, s->store, err));
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        tg_lane *n = &s->lanes[i];
        uint64_t outer[TG_STREAM_DIMS] = {0};
        TG_TRY(each_array(n, tg_document_put, s->store, err));
        n->published = n->durable;
        tg_layout_image_shape(&n->layout, 0, n->in_chunks.slots, outer);
        n->outer = n->layout.n_axes == 0 ? n->in_chunks.slots : outer[n->layout.slow];
        atomic_store(&n->count.shape, n->outer);
        atomic_store(&n->count.published, n->in_chunks.frames);
    }
    return TG_OK;
}

tg_status tg_zip_documents_json(const tg_stream *s, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) o = tg_json_new_object();

    if (o == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a JSON object");
    TG_TRY(each_group(s, keep_document, o, err));
    /* Of a plate recovery makes them by what the head has of it: they may be many. */
    for (uint32_t i = 0; s->plate == NULL && i < s->n_lanes; i++)
        TG_TRY(each_array(&s->lanes[i], keep_document, o, err));
    *out = tg_steal(o);
    return TG_OK;
}
