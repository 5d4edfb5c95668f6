/* stream/encoder.c - threads between producers and writer, where there is a codec or a pyramid:
 * the smaller levels of each layer, then its chunks encoded into room that was made before.
 * A layer is taken only with that room in hand, so nobody waits for memory. */
#include "base/crc32c.h"
#include "stream/recorder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What one thread has of one lane. */
typedef struct tools {
    tg_chain_context *context[TG_PLANES];
    uint8_t *frame[TG_PLANES]; /* dense frames of the levels, where slabs do not hold such */
} tools;

struct tg_encoder {
    tg_stream *s;
    tools *lane;
};

/* --- The pyramid --------------------------------------------------------------------- */

static uint8_t *plane_data(const tg_lane *n, uint32_t plane, uint32_t slab)
{
    return n->planes[plane] + (size_t)slab * n->layout.plane[plane].layer_bytes;
}

/* One frame of level 0 to its levels, each in its place. */
static void reduce_frame(tg_lane *n, tools *t, uint32_t slab, uint64_t place)
{
    const tg_layout *l = &n->layout;
    void *levels[TG_PYRAMID_MAX];
    const uint8_t *frame = t->frame[0];
    bool in_place[TG_PLANES] = {false};

    if (tg_plane_is_dense(l, &l->plane[0]))
        frame = plane_data(n, 0, slab) + place * l->plane[0].frame_bytes;
    else
        tg_place_read(l, &l->plane[0], plane_data(n, 0, slab), place, t->frame[0]);
    for (uint32_t p = 1; p < l->n_planes; p++) {
        in_place[p] = tg_plane_is_dense(l, &l->plane[p]);
        levels[p - 1] = in_place[p] ? plane_data(n, p, slab) + place * l->plane[p].frame_bytes
                                    : t->frame[p];
    }
    tg_pyramid_reduce(&l->pyramid, frame, levels);
    for (uint32_t p = 1; p < l->n_planes; p++)
        if (!in_place[p])
            tg_place_dense(l, &l->plane[p], plane_data(n, p, slab), place, t->frame[p]);
}

static void reduce_layer(tg_lane *n, tools *t, const tg_layer *layer)
{
    const tg_slab *s = &n->ring.slabs[layer->slab];

    for (uint32_t p = 1; p < n->layout.n_planes; p++)
        if (layer->frames < n->layout.k)
            memset(plane_data(n, p, layer->slab), 0, n->layout.plane[p].layer_bytes);
    for (uint64_t place = 0; place < n->layout.k; place++)
        if (s->real[place] != 0)
            reduce_frame(n, t, layer->slab, place);
    for (uint32_t p = 1; p < n->layout.n_planes; p++)
        tg_place_seal(&n->layout, p, plane_data(n, p, layer->slab),
                      s->sums + n->plan.first_chunk[p], false);
}

/* --- The codec -------------------------------------------------------------------------- */

static tg_status encode_layer(tg_lane *n, tools *t, const tg_layer *layer, tg_error *err)
{
    tg_out *out = &n->outs[layer->out];

    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        const tg_plane *plane = &n->layout.plane[p];
        size_t room = (n->plan.chunk_bound[p] + 63) / 64 * 64;
        for (uint32_t i = 0; i < plane->n_tiles; i++) {
            uint32_t c = n->plan.first_chunk[p] + i;
            uint8_t *dst = out->data + n->plan.out_offset[p] + i * room;
            tg_bytes items = {plane_data(n, p, layer->slab) + i * plane->chunk_stride,
                              plane->chunk_bytes};
            size_t len;
            TG_TRY(tg_chain_encode(n->chain[p], t->context[p], items, dst,
                                   n->plan.chunk_bound[p], &len, err));
            out->sizes[c] = (uint32_t)len;
            out->sums[c] = n->layout.checksum ? tg_crc32c(0, dst, len) : 0;
        }
    }
    return TG_OK;
}

/* --- The threads -------------------------------------------------------------------------- */

/* Claim a layer together with room for what it becomes. */
static bool claim(tg_lane *n, uint64_t *place, tg_layer *layer)
{
    uint32_t out = TG_NO_SLAB;

    if (n->layout.encoded) {
        TG_LOCKED(&n->ring.lock);
        for (uint32_t i = 0; out == TG_NO_SLAB && i < n->plan.n_outs; i++)
            if (!n->outs[i].taken)
                out = i;
        if (out == TG_NO_SLAB || n->ring.claimed == n->ring.in)
            return false;
        n->outs[out].taken = true;
    }
    if (tg_ring_claim(&n->ring, place, layer)) {
        layer->out = out;
        return true;
    }
    if (out != TG_NO_SLAB) {
        TG_LOCKED(&n->ring.lock);
        n->outs[out].taken = false;
    }
    return false;
}

static bool encode_some(tg_encoder *e, tg_lane *n)
{
    tg_layer layer;
    tg_error err = {0};
    uint64_t place;
    tools *t = &e->lane[n->number];

    if (!tg_lane_encodes(n) || !claim(n, &place, &layer))
        return false;
    tg_status st = TG_OK;
    if (!atomic_load(&n->failed_to_write)) {
        if (n->layout.n_planes > 1)
            reduce_layer(n, t, &layer);
        if (n->layout.encoded)
            st = encode_layer(n, t, &layer, &err);
    }
    if (st != TG_OK)
        tg_lane_fail(n, &err, tg_layout_slot_in_layer(&n->layout, layer.number, 0));
    layer.failed = st != TG_OK;
    uint32_t slab = layer.slab;
    if (n->layout.encoded)
        layer.slab = TG_NO_SLAB;
    tg_ring_ready(&n->ring, place, &layer);
    if (n->layout.encoded)
        tg_ring_release(&n->ring, slab);
    tg_signal_post(&n->s->write);
    return true;
}

static void encoder_main(void *user)
{
    tg_encoder *e = user;
    tg_stream *s = e->s;

    while (!atomic_load(&s->abandoned)) {
        uint64_t seen = tg_signal_seen(&s->encode);
        bool stop = atomic_load(&s->stop_encoders), worked = false;
        for (uint32_t i = 0; i < s->n_lanes; i++)
            worked |= encode_some(e, &s->lanes[i]);
        if (worked)
            continue;
        if (stop)
            return;
        tg_signal_wait(&s->encode, seen, -1);
    }
}

static void free_tool(tools *t, uint32_t plane)
{
    tg_chain_context_free(t->context[plane]);
    tg_free(t->frame[plane]);
}

static void free_encoder(tg_encoder *e)
{
    for (uint32_t i = 0; e->lane != NULL && i < e->s->n_lanes; i++)
        for (uint32_t p = 0; p < TG_PLANES; p++)
            free_tool(&e->lane[i], p);
    tg_free(e->lane);
    e->lane = NULL;
}

static tg_status make_tools(const tg_lane *n, tools *t, tg_error *err)
{
    const tg_layout *l = &n->layout;

    for (uint32_t p = 0; p < l->n_planes; p++) {
        if (l->n_planes > 1) {
            t->frame[p] = tg_alloc(l->plane[p].frame_bytes);
            if (t->frame[p] == NULL)
                return tg_fail(err, TG_NO_MEMORY, "no memory for a frame of %zu bytes",
                               l->plane[p].frame_bytes);
        }
        if (l->encoded)
            TG_TRY(tg_chain_context_new(n->chain[p], true, &t->context[p], err));
    }
    return TG_OK;
}

tg_status tg_encode_layer(tg_lane *n, tg_layer *layer, tg_error *err)
{
    tools *t = tg_calloc(1, sizeof *t);
    tg_status st = t == NULL ? tg_fail(err, TG_NO_MEMORY, "no memory for an encoder")
                             : make_tools(n, t, err);

    if (st == TG_OK && n->layout.n_planes > 1)
        reduce_layer(n, t, layer);
    if (st == TG_OK && n->layout.encoded) {
        layer->out = 0;
        st = encode_layer(n, t, layer, err);
    }
    for (uint32_t p = 0; t != NULL && p < TG_PLANES; p++)
        free_tool(t, p);
    tg_free(t);
    return st;
}

static tg_status make_encoder(tg_stream *s, tg_encoder *e, tg_error *err)
{
    e->s = s;
    e->lane = tg_calloc(s->n_lanes, sizeof *e->lane);
    if (e->lane == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for an encoder");
    for (uint32_t i = 0; i < s->n_lanes; i++)
        TG_TRY(make_tools(&s->lanes[i], &e->lane[i], err));
    return TG_OK;
}

tg_status tg_encoders_start(tg_stream *s, tg_error *err)
{
    if (s->n_encoders == 0)
        return TG_OK;
    s->encoders = tg_calloc(s->n_encoders, sizeof *s->encoders);
    s->encoder_threads = tg_calloc(s->n_encoders, sizeof(tg_thread *));
    if (s->encoders == NULL || s->encoder_threads == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %" PRIu32 " encoders", s->n_encoders);
    for (uint32_t i = 0; i < s->n_encoders; i++)
        TG_TRY(make_encoder(s, &s->encoders[i], err));
    for (uint32_t i = 0; i < s->n_encoders; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "encoder%" PRIu32, i);
        TG_TRY(
            tg_thread_start(&s->encoder_threads[i], name, encoder_main, &s->encoders[i], err));
    }
    return TG_OK;
}

void tg_encoders_stop(tg_stream *s)
{
    atomic_store(&s->stop_encoders, true);
    tg_signal_post(&s->encode);
    for (uint32_t i = 0; s->encoder_threads != NULL && i < s->n_encoders; i++)
        tg_thread_join(s->encoder_threads[i]);
    for (uint32_t i = 0; s->encoders != NULL && i < s->n_encoders; i++)
        free_encoder(&s->encoders[i]);
    tg_free(s->encoders);
    tg_free(s->encoder_threads);
    s->encoders = NULL;
    s->encoder_threads = NULL;
}
