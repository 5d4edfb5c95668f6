/* stream/arena.c - the recorder's memory: one block, mapped and touched once, cut into rings,
 * buffers and tables of indexes. */
#include "stream/arena.h"

/* A cut: with base NULL it only measures. */
typedef struct knife {
    uint8_t *base;
    size_t at;
} knife;

static uint8_t *cut(knife *k, size_t bytes, size_t align)
{
    k->at = (k->at + align - 1) / align * align;
    uint8_t *p = k->base == NULL ? NULL : k->base + k->at;
    k->at += bytes;
    return p;
}

/* Typed, for addresses that the alignment makes good. */
static void *cut_for(knife *k, size_t n, size_t size, size_t align)
{
    return cut(k, n * size, align);
}

enum { WORD = 64, BLOCK = TG_BLOCK };

static void cut_slabs(knife *k, tg_lane *n)
{
    const tg_lane_plan *p = &n->plan;
    tg_ring *r = &n->ring;

    r->n_slabs = p->n_slabs;
    r->n_layers = p->n_slabs + p->n_outs + 1;
    r->slabs = cut_for(k, p->n_slabs, sizeof *r->slabs, WORD);
    r->free_ids = cut_for(k, p->n_slabs, sizeof *r->free_ids, WORD);
    r->layers = cut_for(k, r->n_layers, sizeof *r->layers, WORD);
    for (uint32_t i = 0; i < p->n_slabs; i++) {
        void *sums = cut_for(k, p->n_chunks, sizeof *r->slabs->sums, WORD);
        uint8_t *real = cut(k, (size_t)n->layout.k, 1);
        if (k->base != NULL)
            r->slabs[i] = (tg_slab){.sums = sums, .real = real};
    }
    for (uint32_t i = 0; i < n->layout.n_planes; i++)
        n->planes[i] = cut(k, p->n_slabs * n->layout.plane[i].layer_bytes, BLOCK);
    r->layer_slots = n->layout.k;
    r->rows_bytes = p->rows_bytes;
    r->row_most = p->row_most;
    r->rows = cut(k, p->rows_bytes, BLOCK);
}

static void cut_outs(knife *k, tg_lane *n)
{
    const tg_lane_plan *p = &n->plan;

    n->outs = cut_for(k, p->n_outs, sizeof *n->outs, WORD);
    for (uint32_t i = 0; i < p->n_outs; i++) {
        uint8_t *data = cut(k, p->out_bytes, BLOCK);
        void *sizes = cut_for(k, p->n_chunks, sizeof(uint32_t), WORD);
        void *sums = cut_for(k, p->n_chunks, sizeof(uint32_t), WORD);
        if (k->base != NULL)
            n->outs[i] = (tg_out){.data = data, .sizes = sizes, .sums = sums};
    }
}

static void cut_shards(knife *k, tg_lane *n)
{
    const tg_lane_plan *p = &n->plan;

    n->shards = cut_for(k, p->n_shards, sizeof *n->shards, WORD);
    for (uint32_t i = 0; i < p->n_shards; i++)
        for (uint32_t j = 0; j < n->layout.n_planes; j++) {
            size_t count = (size_t)n->layout.plane[j].shard_chunks;
            void *entries = cut_for(k, count, sizeof(tg_shard_entry), WORD);
            if (k->base != NULL)
                n->shards[i].file[j].entries = entries;
        }
    for (uint32_t j = 0; n->layout.live && j < n->layout.n_planes; j++)
        n->live_entries[j] =
            cut_for(k, (size_t)n->layout.plane[j].shard_chunks, sizeof(tg_shard_entry), WORD);
    n->index = cut(k, p->index_bytes, BLOCK);
    n->stage = cut(k, p->stage_bytes, BLOCK);
}

static void cut_lane(knife *k, tg_lane *n)
{
    const tg_lane_plan *p = &n->plan;

    cut_slabs(k, n);
    cut_outs(k, n);
    cut_shards(k, n);
    n->records = cut(k, p->batch * p->chunk_records, WORD);
    n->open = cut_for(k, (size_t)n->layout.n_open, sizeof *n->open, WORD);
    n->row = cut(k, (size_t)n->layout.plane[0].width * n->layout.dtype.size, WORD);
    if (n->layout.k > 1) {
        n->tail_frame = cut(k, p->frame_scratch, WORD);
        n->lease_frame = cut(k, p->frame_scratch, WORD);
    } else {
        n->lease_frame = cut(k, p->frame_scratch, WORD);
    }
}

/* --- Touching ---------------------------------------------------------------------------- */

/* Slabs are touched by a thread of their own while the store is made, and handed to the
 * producer as they come: fresh memory costs a virtual machine as much as a write of it. All
 * else is touched before. */
static void touch_slab(tg_lane *n, uint32_t slab)
{
    for (uint32_t j = 0; j < n->layout.n_planes; j++) {
        size_t bytes = n->layout.plane[j].layer_bytes;
        tg_touch(n->planes[j] + slab * bytes, bytes);
    }
    tg_ring_add(&n->ring, slab);
}

void tg_arena_touch(void *stream)
{
    tg_stream *s = stream;
    bool more = true;

    for (uint32_t slab = 0; more; slab++) {
        more = false;
        for (uint32_t i = 0; i < s->n_lanes; i++) {
            if (slab >= s->lanes[i].ring.n_slabs)
                continue;
            touch_slab(&s->lanes[i], slab);
            more = true;
        }
    }
}

/* All but the slabs: planes lie in the order of lanes and levels. */
static void touch_others(tg_stream *s)
{
    uint8_t *at = s->arena.data;

    for (uint32_t i = 0; i < s->n_lanes; i++) {
        const tg_lane *n = &s->lanes[i];
        for (uint32_t j = 0; j < n->layout.n_planes; j++) {
            tg_touch(at, (size_t)(n->planes[j] - at));
            at = n->planes[j] + n->plan.n_slabs * n->layout.plane[j].layer_bytes;
        }
    }
    tg_touch(at, s->arena.len - (size_t)(at - s->arena.data));
}

static void set_up_lane(tg_lane *n)
{
    for (uint64_t i = 0; i < n->layout.n_open; i++)
        n->open[i] = TG_NO_SLAB;
    for (uint32_t i = 0; i < n->plan.n_shards; i++)
        tg_shard_reset(n, &n->shards[i]);
}

tg_status tg_arena_cut(tg_stream *s, tg_error *err)
{
    knife k = {0};

    for (uint32_t i = 0; i < s->n_lanes; i++)
        cut_lane(&k, &s->lanes[i]);
    TG_TRY(tg_arena_reserve(&s->arena, k.at + BLOCK, err));
    k = (knife){.base = s->arena.data};
    for (uint32_t i = 0; i < s->n_lanes; i++) {
        cut_lane(&k, &s->lanes[i]);
        set_up_lane(&s->lanes[i]);
    }
    touch_others(s);
    return TG_OK;
}
