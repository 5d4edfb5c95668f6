/* stream/zip_end.c - the metadata of a ZIP, whose values can be put only once: known from the
 * start and kept in the journal's head, written when all chunks are in it. */
#include "stream/create.h"

#include <stdio.h>
#include <string.h>

/* What is done with one document. */
typedef tg_status (*document_fn)(void *user, const char *key, const char *text, tg_error *err);

static tg_status one(document_fn fn, void *user, const char *path, const char *name,
                     const char *text, tg_error *err)
{
    char key[TG_KEY_BYTES];

    if (text == NULL)
        return TG_OK;
    TG_TRY(tg_path_join(key, sizeof key, path, name, err));
    return fn(user, key, text, err);
}

static tg_status each_group(const tg_stream *s, document_fn fn, void *user, tg_error *err)
{
    for (uint32_t i = 0; i < s->n_groups; i++) {
        const tg_group *g = &s->groups[i];
        TG_AUTO(tg_str) doc = NULL;
        TG_AUTO(tg_str) attributes = NULL;
        TG_TRY(tg_group_documents(s->format, g->attributes, &doc, &attributes, err));
        TG_TRY(one(fn, user, g->path, s->format == 3 ? "zarr.json" : ".zgroup", doc, err));
        TG_TRY(one(fn, user, g->path, ".zattrs", attributes, err));
    }
    return TG_OK;
}

static tg_status each_array(const tg_lane *n, document_fn fn, void *user, tg_error *err)
{
    uint64_t outer[TG_STREAM_DIMS] = {0};

    tg_layout_shape(&n->layout, n->in_chunks.slots, true, outer);
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        tg_layout_vectors v;
        char path[TG_KEY_BYTES];
        TG_AUTO(tg_str) doc = NULL;
        TG_AUTO(tg_str) attributes = NULL;
        tg_layout_vectors_init(&n->layout, p, &v);
        for (uint32_t d = 0; d < n->layout.n_dims; d++)
            v.shape[tg_layout_axis(&n->layout, d)] = outer[d];
        if (n->layout.n_dims == 0 && n->in_chunks.slots == 0)
            v.shape[0] = 0;
        TG_TRY(tg_plane_path(n, p, path, sizeof path, err));
        TG_TRY(tg_array_meta_write(n->meta[p], v.shape, NULL, &doc, &attributes, err));
        TG_TRY(one(fn, user, path, n->layout.format == 3 ? "zarr.json" : ".zarray", doc, err));
        TG_TRY(one(fn, user, path, ".zattrs", attributes, err));
    }
    return TG_OK;
}

static tg_status each_document(const tg_stream *s, document_fn fn, void *user, tg_error *err)
{
    TG_TRY(each_group(s, fn, user, err));
    for (uint32_t i = 0; i < s->n_lanes; i++)
        TG_TRY(each_array(&s->lanes[i], fn, user, err));
    return TG_OK;
}

static tg_status put_document(void *user, const char *key, const char *text, tg_error *err)
{
    return tg_store_put_lazy(user, key, text, strlen(text), NULL, err);
}

static tg_status keep_document(void *user, const char *key, const char *text, tg_error *err)
{
    return tg_json_set(user, key, tg_json_new_string(text), err);
}

tg_status tg_zip_documents(tg_stream *s, tg_error *err)
{
    TG_TRY(each_document(s, put_document, s->store, err));
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        tg_lane *n = &s->lanes[i];
        uint64_t outer[TG_STREAM_DIMS] = {0};
        n->published = n->durable;
        tg_layout_shape(&n->layout, n->in_chunks.slots, true, outer);
        n->outer = n->layout.n_dims == 0 ? n->in_chunks.slots : outer[n->layout.order[0]];
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
    TG_TRY(each_document(s, keep_document, o, err));
    *out = tg_steal(o);
    return TG_OK;
}
