/* stream/plan.c - how the budget is cut: what each lane needs at least, and what it gets of the
 * rest. Pure but for the codec chains it asks, and its own small table. */
#include "stream/recorder.h"

#include <inttypes.h>
#include <string.h>

#define JOURNAL_BYTES   ((uint64_t)256 << 10)
#define RING_LIKED      ((uint64_t)64 << 20) /* where nothing is known of the rate */
#define STALL_SECONDS   0.5                  /* that a ring should bridge */
#define STAGE_MOST      ((size_t)2 << 20)
#define STAGE_LEAST     ((size_t)64 << 10)
#define ROWS_FEW        ((size_t)256 << 10)
#define ROWS_MANY       ((size_t)8 << 20)
#define MANY_ROWS_BELOW ((size_t)64 << 10) /* bytes of a frame */
#define SHARDS_MOST     16u
#define SHARDS_LEAST    2u
#define ENTRIES_LIKED   ((size_t)256 << 10) /* of all shards that wait for their seal */
#define ENCODERS_MOST   32u
#define BATCH_BYTES     ((size_t)8 << 20) /* the writer's largest single write */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* --- One lane ------------------------------------------------------------------- */

static void chunk_shape(const tg_layout *l, uint32_t plane, tg_shape *shape)
{
    tg_layout_vectors v;

    tg_layout_vectors_init(l, plane, &v);
    shape->ndim = v.ndim;
    memcpy(shape->n, v.chunk, sizeof v.chunk[0] * v.ndim);
}

/* Room that the codec of each plane needs. */
static tg_status plan_codec(tg_lane_plan *p, const tg_stream_array *a, tg_error *err)
{
    tg_layout *l = &p->layout;
    size_t n_chunks = 0;

    for (uint32_t i = 0; l->encoded && i < l->n_planes; i++) {
        TG_AUTO_PTR(tg_chain) chain = NULL;
        tg_shape shape;
        chunk_shape(l, i, &shape);
        TG_TRY(tg_chain_open_text(&chain, a->codec, l->checksum, l->format, l->dtype, &shape,
                                  err));
        p->chunk_bound[i] = tg_chain_bound(chain, 0);
        if (p->chunk_bound[i] == SIZE_MAX || p->chunk_bound[i] > UINT32_MAX)
            return tg_fail(err, TG_INVALID, "chunks of %zu bytes are too large for codec '%s'",
                           l->plane[i].chunk_bytes, a->codec);
        p->out_offset[i] = p->out_bytes;
        p->out_bytes += round_up(p->chunk_bound[i], 64) * l->plane[i].n_tiles;
        p->contexts_bytes += tg_chain_context_bytes(chain, true);
        n_chunks += l->plane[i].n_tiles;
    }
    p->out_sizes_bytes = n_chunks * 2 * sizeof(uint32_t);
    return TG_OK;
}

static void plan_pyramid(tg_lane_plan *p)
{
    const tg_layout *l = &p->layout;

    for (uint32_t i = 0; l->n_planes > 1 && i < l->n_planes; i++)
        p->contexts_bytes += round_up(l->plane[i].frame_bytes, 64);
}

static void plan_index(tg_lane_plan *p)
{
    const tg_layout *l = &p->layout;
    size_t index = 0;

    for (uint32_t i = 0; l->sharded && i < l->n_planes; i++) {
        size_t n = (size_t)l->plane[i].shard_chunks;
        p->entries_bytes += n * (sizeof(tg_shard_entry) + sizeof(uint32_t));
        if (n * sizeof(tg_shard_entry) + 4 > index)
            index = n * sizeof(tg_shard_entry) + 4;
    }
    p->index_bytes = round_up(index, TG_BLOCK);
    p->n_shards = SHARDS_MOST;
    while (p->n_shards > SHARDS_LEAST && p->n_shards * p->entries_bytes > ENTRIES_LIKED)
        p->n_shards /= 2;
    if (!l->sharded)
        p->n_shards = 0;
}

static void plan_stage(tg_lane_plan *p)
{
    const tg_layout *l = &p->layout;
    size_t most = 0;

    for (uint32_t i = 0; l->sharded && i < l->n_planes; i++) {
        size_t layer = !l->encoded
                           ? l->plane[i].layer_bytes
                           : round_up(p->chunk_bound[i], TG_BLOCK) * l->plane[i].n_tiles;
        if (l->plane[i].staged && layer * 4 > most)
            most = layer * 4;
    }
    if (most < STAGE_LEAST) /* also for copies of shards that go on, and to read chunks back */
        most = STAGE_LEAST;
    p->stage_bytes = most < STAGE_MOST ? most : STAGE_MOST;
}

static void plan_rows(tg_lane_plan *p)
{
    const tg_layout *l = &p->layout;
    size_t few = l->plane[0].frame_bytes < MANY_ROWS_BELOW ? ROWS_MANY : ROWS_FEW;

    p->row_most = TG_FRAME_ROW_BYTES + p->columns.values_bound;
    p->rows_bytes = few;
    while (p->rows_bytes < 16 * p->row_most)
        p->rows_bytes *= 2;
}

/* The least that the rows' ring may have: two layers of rows, so that one can be written while
 * the other fills. */
static size_t rows_least(const tg_lane_plan *p)
{
    size_t row = TG_FRAME_ROW_BYTES + p->columns.values_least;
    size_t n = 2 * (size_t)p->layout.k * (size_t)p->layout.n_open * row + 4 * p->row_most;

    return round_up(n < ((size_t)32 << 10) ? (size_t)32 << 10 : n, TG_BLOCK);
}

static tg_status plan_lane(tg_lane_plan *p, const tg_stream_array *a, const tg_ome_plate *plate,
                           int format, bool zip, tg_error *err)
{
    tg_layout *l = &p->layout;
    TG_TRY(tg_layout_init(l, a, plate, format, zip, err));
    TG_TRY(tg_frame_columns_init(&p->columns, a->columns, a->n_columns, err));
    TG_TRY(plan_codec(p, a, err));
    plan_pyramid(p);
    for (uint32_t i = 0; i < l->n_planes; i++) {
        p->slab_bytes += l->plane[i].layer_bytes;
        p->first_chunk[i] = p->n_chunks;
        if (__builtin_add_overflow(p->n_chunks, l->plane[i].n_tiles, &p->n_chunks))
            return tg_fail(err, TG_INVALID, "too many tiles in all levels");
    }
    p->sums_bytes = round_up((size_t)p->n_chunks * sizeof(uint32_t) + (size_t)l->k, 64);
    p->batch = p->slab_bytes >= BATCH_BYTES ? 1 : (uint32_t)(BATCH_BYTES / p->slab_bytes);
    p->batch = p->batch > TG_BATCH_MOST ? TG_BATCH_MOST : p->batch;
    plan_index(p);
    plan_stage(p);
    plan_rows(p);
    p->frame_scratch = round_up(l->plane[0].frame_bytes, 64);
    p->chunk_records = (size_t)p->n_chunks * TG_RECORD_CHUNK_BYTES;
    tg_frame_table_options t = {.format = format,
                                .group = "",
                                .users = p->columns,
                                .checksum = l->checksum,
                                .frame_bytes = l->plane[0].frame_bytes,
                                .images = tg_layout_images(l),
                                .fields = tg_layout_fields(l),
                                .once = zip};
    p->table_bytes = tg_frame_table_bytes(&t);
    return TG_OK;
}

/* --- All of them ------------------------------------------------------------------ */

/* Bytes of a lane but for slabs and encoders' buffers. */
static uint64_t fixed_bytes(const tg_lane_plan *p)
{
    const tg_layout *l = &p->layout;
    uint64_t n = (uint64_t)p->n_shards * p->entries_bytes + p->index_bytes + p->stage_bytes;

    n += p->rows_bytes + 2 * p->frame_scratch + p->batch * p->chunk_records + TG_BLOCK;
    n += round_up((size_t)l->plane[0].width * l->dtype.size, 64);
    return n + p->table_bytes + (uint64_t)p->n_shards * sizeof(tg_shard) +
           l->n_open * sizeof(uint32_t) + tg_tail_bytes(l) + ((uint64_t)64 << 10);
}

static uint64_t slab_cost(const tg_lane_plan *p)
{
    return (uint64_t)p->slab_bytes + p->sums_bytes + sizeof(tg_slab) + sizeof(tg_layer) + 16;
}

static uint64_t out_cost(const tg_lane_plan *p)
{
    return (uint64_t)p->out_bytes + p->out_sizes_bytes + sizeof(tg_out) + sizeof(tg_layer) + 64;
}

static uint64_t least_slabs(const tg_lane_plan *p)
{
    return p->layout.n_open + 1;
}

/* Everything but the slabs beyond the least. */
static uint64_t base_bytes(const tg_plan *p, uint32_t n_encoders)
{
    uint64_t n = JOURNAL_BYTES + p->plate_bytes;

    for (uint32_t i = 0; i < p->n_lanes; i++) {
        const tg_lane_plan *q = &p->lane[i];
        n += fixed_bytes(q) + least_slabs(q) * slab_cost(q) + n_encoders * q->contexts_bytes;
        if (q->layout.encoded)
            n += (n_encoders == 1 ? 1 : n_encoders + 1) * out_cost(q);
    }
    return n;
}

static void rows_to_least(tg_plan *p)
{
    for (uint32_t i = 0; i < p->n_lanes; i++)
        p->lane[i].rows_bytes = rows_least(&p->lane[i]);
}

static double lane_weight(const tg_lane_plan *p, const tg_stream_array *a)
{
    if (a->memory_share > 0)
        return a->memory_share;
    return (double)p->layout.plane[0].frame_bytes * (a->fps > 0 ? a->fps : 1);
}

/* Slabs that a lane would like if memory is no question. */
static uint64_t liked_slabs(const tg_lane_plan *p, const tg_stream_array *a)
{
    double bytes = (double)RING_LIKED;
    double rate = (double)p->layout.plane[0].frame_bytes * a->fps * STALL_SECONDS;

    if (rate > bytes)
        bytes = rate < 1e18 ? rate : 1e18;
    uint64_t n = (uint64_t)(bytes / (double)slab_cost(p));
    uint64_t few = least_slabs(p) + 3;
    return n < few ? few : n;
}

/* Hand `rest` bytes out as slabs. */
static void share_slabs(tg_plan *p, const tg_stream_options *o, uint64_t rest)
{
    double sum = 0;

    for (uint32_t i = 0; i < p->n_lanes; i++)
        sum += lane_weight(&p->lane[i], &o->arrays[i]);
    for (uint32_t i = 0; i < p->n_lanes; i++) {
        tg_lane_plan *q = &p->lane[i];
        double part = (double)rest * (lane_weight(q, &o->arrays[i]) / sum);
        uint64_t n = least_slabs(q) + (uint64_t)(part / (double)slab_cost(q));
        uint64_t liked = liked_slabs(q, &o->arrays[i]);
        if (o->memory_bytes == 0 && n > liked)
            n = liked;
        q->n_slabs = n < TG_NO_SLAB ? (uint32_t)n : TG_NO_SLAB - 1;
    }
}

static void sum_up(tg_plan *p)
{
    p->total_bytes = JOURNAL_BYTES + p->plate_bytes;
    for (uint32_t i = 0; i < p->n_lanes; i++) {
        tg_lane_plan *q = &p->lane[i];
        q->n_outs = !q->layout.encoded ? 0 : p->n_encoders == 1 ? 1 : p->n_encoders + 1;
        uint64_t all = fixed_bytes(q) + q->n_slabs * slab_cost(q) + q->n_outs * out_cost(q);
        p->total_bytes += all + p->n_encoders * q->contexts_bytes;
    }
}

static tg_status fit(tg_plan *p, const tg_stream_options *o, uint32_t threads, uint64_t budget,
                     tg_error *err)
{
    bool any = false;
    uint32_t n = threads < 1 ? 1 : threads > ENCODERS_MOST ? ENCODERS_MOST : threads;

    for (uint32_t i = 0; i < p->n_lanes; i++)
        any |= tg_layout_encodes(&p->lane[i].layout);
    n = any ? n : 0;
    if (base_bytes(p, n) > budget / 2)
        rows_to_least(p);
    while (n > 1 && base_bytes(p, n) > budget / 4 * 3)
        n--;
    p->n_encoders = n;
    if (base_bytes(p, n) > budget)
        return tg_fail(err, TG_OVER_BUDGET,
                       "recording needs at least %" PRIu64 " bytes of memory (%.1f MiB), and "
                       "%" PRIu64 " are free",
                       p->least_bytes, (double)p->least_bytes / (1 << 20), budget);
    share_slabs(p, o, budget - base_bytes(p, n));
    sum_up(p);
    return TG_OK;
}

static void find_least(tg_plan *p)
{
    bool any = false;

    for (uint32_t i = 0; i < p->n_lanes; i++)
        any |= tg_layout_encodes(&p->lane[i].layout);
    uint64_t saved = 0;
    for (uint32_t i = 0; i < p->n_lanes; i++) {
        size_t least = rows_least(&p->lane[i]);
        saved += p->lane[i].rows_bytes > least ? p->lane[i].rows_bytes - least : 0;
    }
    p->least_bytes = base_bytes(p, any ? 1 : 0) - saved;
}

/* A well of a row must not lie where the frame table does. */
static tg_status check_rows(const tg_ome_plate *plate, tg_error *err)
{
    for (uint32_t i = 0; i < tg_ome_plate_wells(plate); i++)
        if (strcmp(tg_ome_plate_row_name(plate, tg_ome_plate_well_row(plate, i)), "frames") ==
            0)
            return tg_fail(err, TG_INVALID,
                           "plate: a row named 'frames' would lie where the frame table does");
    return TG_OK;
}

static tg_status plan_plate(tg_plan *p, const tg_stream_options *o, tg_error *err)
{
    if (o->plate == NULL)
        return TG_OK;
    TG_TRY(tg_ome_plate_parse(&p->plate, o->plate, strlen(o->plate), err));
    p->plate_bytes = strlen(o->plate) + tg_ome_plate_bytes(p->plate) +
                     tg_ome_plate_images(p->plate) * sizeof(uint64_t);
    return check_rows(p->plate, err);
}

tg_status tg_stream_plan_make(tg_plan *p, const tg_stream_options *o, uint32_t threads,
                              uint64_t budget, tg_error *err)
{
    *p = (tg_plan){.n_lanes = o->n_arrays};
    p->lane = tg_calloc(o->n_arrays, sizeof *p->lane);
    if (p->lane == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %" PRIu32 " arrays", o->n_arrays);
    tg_status st = plan_plate(p, o, err);
    for (uint32_t i = 0; st == TG_OK && i < o->n_arrays; i++) {
        const tg_stream_array *a = &o->arrays[i];
        st = plan_lane(&p->lane[i], a, p->plate, o->format == 0 ? 3 : o->format,
                       tg_path_is_zip(o->path), err);
        if (st != TG_OK)
            tg_error_prefix(err, "array '%s'", a->name == NULL ? "" : a->name);
    }
    if (st == TG_OK) {
        find_least(p);
        st = fit(p, o, threads, budget, err);
    }
    if (st != TG_OK)
        tg_stream_plan_free(p);
    return st;
}

void tg_stream_plan_free(tg_plan *p)
{
    tg_free(p->lane);
    tg_ome_plate_free(p->plate);
    *p = (tg_plan){0};
}

tg_status tg_stream_estimate(tg_runtime *rt, const tg_stream_options *options, uint64_t *bytes,
                             uint64_t *least, tg_error *err)
{
    tg_plan plan;

    TG_TRY(tg_options_check(options, err));
    uint64_t budget = options->memory_bytes == 0 ? UINT64_MAX / 4 : options->memory_bytes;
    TG_TRY(tg_stream_plan_make(&plan, options, tg_runtime_threads(rt), budget, err));
    *bytes = plan.total_bytes;
    *least = plan.least_bytes;
    tg_stream_plan_free(&plan);
    return TG_OK;
}
