/* stream/recover_zip.c - a ZIP that was not closed: its entries are adopted from the journal,
 * and metadata, frame tables and directory are written behind them. */
#include "base/crc32c.h"
#include "store/zip_write.h"
#include "stream/create.h"
#include "stream/recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- Entries ------------------------------------------------------------------------- */

/* Take a layer's entries into the directory. */
static tg_status adopt_layer(tg_lane *n, const tg_record_layer *layer, tg_error *err)
{
    const uint8_t *src = layer->chunks;

    for (uint32_t p = 0; p < n->layout.n_planes; p++)
        for (uint32_t t = 0; t < n->layout.plane[p].n_tiles;
             t++, src += TG_RECORD_CHUNK_BYTES) {
            char key[TG_KEY_BYTES];
            tg_record_chunk c = tg_record_chunk_get(src);
            tg_zip_record z = {c.header, c.offset, c.nbytes, c.crc32};
            TG_TRY(tg_sink_chunk_key(n, p, layer->layer, t, key, sizeof key, err));
            TG_TRY(tg_zip_adopt(n->s->store, key, &z, err));
        }
    return TG_OK;
}

/* Chunks of a layer that no commit covers are read where they should lie: before anything is
 * adopted, for a torn entry cannot be taken back. */
static tg_status chunk_sum(recovery *r, tg_lane *n, const tg_record_chunk *c, uint32_t *sum,
                           tg_error *err)
{
    *sum = 0;
    for (uint64_t at = 0; at < c->nbytes; at += n->plan.stage_bytes) {
        uint64_t left = c->nbytes - at;
        size_t len = left < n->plan.stage_bytes ? (size_t)left : n->plan.stage_bytes;
        TG_TRY(tg_fd_read_at(r->zip_fd, n->stage, len, c->offset + at, n->s->path, err));
        *sum = tg_crc32c(*sum, n->stage, len);
    }
    return TG_OK;
}

bool tg_recover_zip_entry_is_good(recovery *r, tg_lane *n, const tg_record_layer *layer)
{
    const uint8_t *src = layer->chunks;

    for (uint32_t i = 0; i < layer->n_chunks; i++, src += TG_RECORD_CHUNK_BYTES) {
        tg_record_chunk c = tg_record_chunk_get(src);
        uint32_t sum;
        if (chunk_sum(r, n, &c, &sum, NULL) != TG_OK)
            return false;
        if ((layer->flags & TG_LAYER_SUMMED) == 0 ? !r->model.same_boot : sum != c.sum)
            return false;
    }
    return true;
}

tg_status tg_recover_zip_adopt(recovery *r, tg_bytes payload, tg_error *err)
{
    tg_record_layer layer;

    TG_TRY(tg_record_layer_read(payload, &layer, err));
    if ((layer.flags & TG_LAYER_FAILED) != 0)
        return TG_OK;
    const tg_found_lane *f = &r->model.lanes[layer.lane];
    if ((tg_map_get(&f->known, layer.layer) & TG_KNOWN_GOOD) == 0)
        return TG_OK;
    return adopt_layer(&r->s->lanes[layer.lane], &layer, err);
}

/* --- Metadata ---------------------------------------------------------------------------- */

/* The lane and plane whose array a document describes; NULL: none. */
static tg_lane *lane_of_key(recovery *r, const char *key, uint32_t *plane)
{
    for (uint32_t i = 0; i < r->s->n_lanes; i++)
        for (*plane = 0; *plane < r->s->lanes[i].layout.n_planes; ++*plane) {
            char path[TG_KEY_BYTES], doc[TG_KEY_BYTES];
            const char *name = r->s->format == 3 ? "zarr.json" : ".zarray";
            if (tg_plane_path(&r->s->lanes[i], 0, *plane, path, sizeof path, NULL) == TG_OK &&
                tg_path_join(doc, sizeof doc, path, name, NULL) == TG_OK &&
                strcmp(doc, key) == 0)
                return &r->s->lanes[i];
        }
    return NULL;
}

static tg_status put_array(recovery *r, tg_lane *n, uint32_t plane, const char *key,
                           const char *text, size_t len, tg_error *err)
{
    TG_AUTO_PTR(tg_array_meta) meta = NULL;
    TG_AUTO(tg_str) doc = NULL;
    TG_AUTO(tg_str) attributes = NULL;
    uint64_t outer[TG_STREAM_DIMS] = {0};
    tg_layout_vectors v;

    TG_TRY(r->s->format == 3 ? tg_array_meta_parse_v3(&meta, text, len, err)
                             : tg_array_meta_parse_v2(&meta, text, len, NULL, 0, err));
    tg_layout_vectors_init(&n->layout, plane, &v);
    tg_layout_shape(&n->layout, r->lane[n->number].slots, true, outer);
    for (uint32_t d = 0; d < n->layout.n_axes; d++)
        v.shape[tg_layout_axis(&n->layout, d)] = outer[d];
    if (n->layout.n_dims == 0 && r->lane[n->number].slots == 0)
        v.shape[0] = 0;
    TG_TRY(tg_array_meta_write(meta, v.shape, NULL, &doc, &attributes, err));
    return tg_store_put_lazy(r->s->store, key, doc, strlen(doc), NULL, err);
}

static tg_status put_documents(recovery *r, tg_error *err)
{
    const tg_json *documents = tg_json_get(r->model.head, "documents");

    for (size_t i = 0; i < tg_json_size(documents); i++) {
        const char *key = tg_json_key_at(documents, i), *text;
        size_t len;
        uint32_t plane;
        TG_TRY(tg_json_string(tg_json_at(documents, i), &text, &len, err));
        tg_lane *n = lane_of_key(r, key, &plane);
        if (n != NULL)
            TG_TRY(put_array(r, n, plane, key, text, len, err));
        else
            TG_TRY(tg_store_put_lazy(r->s->store, key, text, len, NULL, err));
        r->result->repaired++;
    }
    return TG_OK;
}

static tg_status put_counted(void *user, const char *key, const char *text, tg_error *err)
{
    recovery *r = user;

    r->result->repaired++;
    return tg_document_put(r->s->store, key, text, err);
}

tg_status tg_recover_zip_end(recovery *r, tg_error *err)
{
    TG_TRY(put_documents(r, err));
    if (r->s->plate != NULL)
        TG_TRY(tg_plate_documents(&r->s->lanes[0], r->lane[0].slots, put_counted, r, err));
    for (uint32_t i = 0; i < r->s->n_lanes; i++)
        r->result->frames_after += r->lane[i].slots;
    return tg_store_close(r->s->store, err);
}
