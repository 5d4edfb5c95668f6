/* stream/recover_model.c - one replay of the journal. What a commit covers is entered at once;
 * what none covers is kept apart, to be verified. */
#include "stream/recover_model.h"

#include <inttypes.h>
#include <string.h>

/* Rows that no commit covers yet. */
typedef struct seen_rows {
    uint64_t at, end, slots, frames;
} seen_rows;

/* --- Memory -------------------------------------------------------------------------- */

enum { ROOM_STEP = 1 << 16 }; /* the budget is asked in steps, not for each record */

static tg_status charge(tg_model *m, uint64_t bytes, tg_error *err)
{
    uint64_t want, more;

    if (__builtin_add_overflow(m->used, bytes, &want))
        return tg_fail(err, TG_CORRUPT, "the journal speaks of %" PRIu64 " bytes of chunks",
                       bytes);
    if (want > m->reserved) {
        more = want - m->reserved;
        more = more < ROOM_STEP ? ROOM_STEP : more;
        TG_TRY(tg_budget_reserve(m->budget, more, "what the journal says", err));
        m->reserved += more;
    }
    m->used = want;
    return TG_OK;
}

static tg_status no_memory(tg_error *err)
{
    return tg_fail(err, TG_NO_MEMORY, "no memory for what the journal says");
}

/* *item is zeroed. */
static tg_status list_add(tg_model *m, tg_list *l, void **item, tg_error *err)
{
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 16 : l->cap * 2;
        TG_TRY(charge(m, (uint64_t)cap * l->size, err));
        uint8_t *grown = tg_alloc_array(cap, l->size);
        if (grown == NULL)
            return no_memory(err);
        if (l->n > 0)
            memcpy(grown, l->items, l->n * l->size);
        tg_free(l->items);
        m->used -= (uint64_t)l->cap * l->size;
        l->items = grown;
        l->cap = cap;
    }
    *item = (uint8_t *)l->items + l->n++ * l->size;
    memset(*item, 0, l->size);
    return TG_OK;
}

static void list_remove(tg_list *l, size_t i)
{
    uint8_t *at = (uint8_t *)l->items + i * l->size;

    memmove(at, at + l->size, (l->n - i - 1) * l->size);
    l->n--;
}

/* --- Shards ------------------------------------------------------------------------- */

static uint64_t chunks_of_shard(const tg_layout *l)
{
    uint64_t n = 0;

    for (uint32_t p = 0; p < l->n_planes; p++)
        n += l->plane[p].shard_chunks;
    return n;
}

uint8_t *tg_found_chunk(const tg_layout *l, const tg_found_shard *s, uint32_t plane,
                        uint64_t entry)
{
    for (uint32_t p = 0; p < plane; p++)
        entry += l->plane[p].shard_chunks;
    return s->chunks + entry * TG_RECORD_CHUNK_BYTES;
}

tg_found_shard *tg_found_shard_of(tg_found_lane *n, uint64_t number)
{
    tg_found_shard *s = n->shards.items;

    for (size_t i = 0; i < n->shards.n; i++)
        if (s[i].number == number)
            return &s[i];
    return NULL;
}

static tg_status begin_shard(tg_model *m, tg_found_lane *n, const tg_record_sealed *r,
                             tg_error *err)
{
    const tg_record_chunk none = {.offset = UINT64_MAX, .nbytes = UINT64_MAX};
    uint64_t count = chunks_of_shard(&n->layout), bytes;
    void *item;

    if (tg_found_shard_of(n, r->shard) != NULL)
        return tg_fail(err, TG_CORRUPT, "shard %" PRIu64 " is begun twice", r->shard);
    if (__builtin_mul_overflow(count, (uint64_t)TG_RECORD_CHUNK_BYTES, &bytes))
        bytes = UINT64_MAX;
    TG_TRY(charge(m, bytes, err));
    TG_TRY(list_add(m, &n->shards, &item, err));
    tg_found_shard *s = item;
    s->number = r->shard;
    s->side = (r->flags & TG_LAYER_SIDE) != 0;
    s->goes_on = r->shard == n->sealed;
    s->chunks = tg_alloc((size_t)bytes);
    if (s->chunks == NULL) {
        n->shards.n--;
        return no_memory(err);
    }
    for (uint64_t i = 0; i < count; i++)
        tg_record_chunk_put(s->chunks + i * TG_RECORD_CHUNK_BYTES, &none);
    return TG_OK;
}

static void end_shard(tg_model *m, tg_found_lane *n, uint64_t number)
{
    tg_found_shard *s = tg_found_shard_of(n, number);

    n->sealed = number;
    if (s == NULL)
        return;
    m->used -= chunks_of_shard(&n->layout) * TG_RECORD_CHUNK_BYTES;
    tg_free(s->chunks);
    list_remove(&n->shards, (size_t)(s - (tg_found_shard *)n->shards.items));
}

tg_status tg_found_enter(tg_found_lane *n, const tg_record_layer *r, tg_error *err)
{
    const tg_layout *l = &n->layout;
    tg_found_shard *s = tg_found_shard_of(n, r->shard);
    const uint8_t *src = r->chunks;

    if (!l->sharded || (r->flags & TG_LAYER_FAILED) != 0)
        return TG_OK;
    if (s == NULL)
        return r->shard == n->sealed
                   ? TG_OK /* its seal was journaled before the commit */
                   : tg_fail(err, TG_CORRUPT,
                             "layer %" PRIu64 " is in shard %" PRIu64 ", which was not begun",
                             r->layer, r->shard);
    for (uint32_t p = 0; p < l->n_planes; p++)
        for (uint32_t t = 0; t < l->plane[p].n_tiles; t++, src += TG_RECORD_CHUNK_BYTES)
            memcpy(tg_found_chunk(l, s, p, tg_layout_entry(l, p, r->layer, t)), src,
                   TG_RECORD_CHUNK_BYTES);
    return TG_OK;
}

/* --- Records ---------------------------------------------------------------------------- */

static tg_status lane_of(tg_model *m, uint32_t lane, tg_found_lane **n, tg_error *err)
{
    if (lane >= m->n_lanes)
        return tg_fail(err, TG_CORRUPT, "record of array %" PRIu32 ", there are %" PRIu32, lane,
                       m->n_lanes);
    *n = &m->lanes[lane];
    return TG_OK;
}

static tg_status on_rows(tg_model *m, tg_bytes payload, uint64_t at, tg_error *err)
{
    tg_record_rows r;
    tg_found_lane *n;
    void *item;

    TG_TRY(tg_record_rows_read(payload, &r, err));
    TG_TRY(lane_of(m, r.lane, &n, err));
    TG_TRY(list_add(m, &n->rows_seen, &item, err));
    *(seen_rows *)item = (seen_rows){at, r.first + r.n, r.slots, r.frames};
    return TG_OK;
}

static tg_status check_layer(const tg_found_lane *n, const tg_record_layer *r, tg_error *err)
{
    const tg_layout *l = &n->layout;
    uint32_t want = 0;

    for (uint32_t p = 0; p < l->n_planes; p++)
        want += l->plane[p].n_tiles;
    if ((r->flags & TG_LAYER_FAILED) != 0)
        want = 0;
    if (r->n_chunks != want)
        return tg_fail(err, TG_CORRUPT,
                       "layer %" PRIu64 " has %" PRIu32 " chunks, want %" PRIu32, r->layer,
                       r->n_chunks, want);
    if (l->n_slots != UINT64_MAX && r->layer >= l->n_slots)
        return tg_fail(err, TG_CORRUPT, "layer %" PRIu64 " lies beyond the array", r->layer);
    if (tg_layout_shard(l, r->layer) != r->shard)
        return tg_fail(err, TG_CORRUPT, "layer %" PRIu64 " is not of shard %" PRIu64, r->layer,
                       r->shard);
    return TG_OK;
}

static void forget_begun(tg_found_lane *n, uint64_t layer)
{
    const uint64_t *begun = n->begun.items;

    for (size_t i = 0; i < n->begun.n; i++)
        if (begun[i] == layer) {
            list_remove(&n->begun, i);
            return;
        }
}

static tg_status on_layer(tg_model *m, tg_bytes payload, uint64_t at, tg_error *err)
{
    tg_record_layer r;
    tg_found_lane *n;
    void *item;

    TG_TRY(tg_record_layer_read(payload, &r, err));
    TG_TRY(lane_of(m, r.lane, &n, err));
    TG_TRY(check_layer(n, &r, err));
    size_t bytes = (size_t)r.n_chunks * TG_RECORD_CHUNK_BYTES;
    TG_TRY(charge(m, bytes, err));
    TG_TRY(list_add(m, &n->layers, &item, err));
    tg_found_layer *f = item;
    uint8_t *copy = tg_alloc(bytes == 0 ? 1 : bytes);
    if (copy == NULL) {
        n->layers.n--;
        return no_memory(err);
    }
    memcpy(copy, r.chunks, bytes);
    *f = (tg_found_layer){.record = r, .at = at};
    f->record.chunks = copy;
    return TG_OK;
}

static tg_status on_tail(tg_model *m, tg_bytes payload, uint64_t at, tg_error *err)
{
    tg_record_tail r;
    tg_found_lane *n;
    void *item;

    TG_TRY(tg_record_tail_read(payload, &r, err));
    TG_TRY(lane_of(m, r.lane, &n, err));
    if (r.nbytes != n->layout.plane[0].frame_bytes || r.place >= n->layout.k)
        return tg_fail(err, TG_CORRUPT, "tail frame of %" PRIu64 " bytes at place %" PRIu64,
                       r.nbytes, r.place);
    TG_TRY(list_add(m, &n->tails, &item, err));
    *(tg_found_tail *)item = (tg_found_tail){.record = r, .at = at};
    return TG_OK;
}

static tg_status on_shard(tg_model *m, uint16_t type, tg_bytes payload, tg_error *err)
{
    tg_record_sealed r;
    tg_found_lane *n;
    void *item;

    TG_TRY(tg_record_sealed_read(payload, &r, err));
    TG_TRY(lane_of(m, r.lane, &n, err));
    if (type == TG_RECORD_SEALED) {
        end_shard(m, n, r.shard);
        return TG_OK;
    }
    if (n->layout.sharded)
        return begin_shard(m, n, &r, err);
    TG_TRY(list_add(m, &n->begun, &item, err));
    *(uint64_t *)item = r.shard;
    return TG_OK;
}

/* --- Commits ------------------------------------------------------------------------------ */

/* A whole layer is durable: the tail file has nothing of it any more. */
static void forget_tails(tg_found_lane *n, uint64_t layer)
{
    const tg_found_tail *t = n->tails.items;

    for (size_t i = n->tails.n; i-- > 0;)
        if (t[i].record.layer == layer || (n->layout.n_open == 1 && t[i].record.layer < layer))
            list_remove(&n->tails, i);
}

static tg_status commit_layer(tg_model *m, tg_found_lane *n, tg_found_layer *f, tg_error *err)
{
    const tg_record_layer *r = &f->record;

    TG_TRY(tg_found_enter(n, r, err));
    if ((r->flags & TG_LAYER_FAILED) == 0) {
        forget_begun(n, r->layer);
        if ((r->flags & TG_LAYER_PADDED) == 0)
            forget_tails(n, r->layer);
        if ((r->flags & TG_LAYER_COVERS) != 0 && r->slots > n->chunk_slots)
            n->chunk_slots = r->slots;
    }
    f->good = true;
    if (m->zip)
        return TG_OK; /* kept: each entry is adopted */
    m->used -= (uint64_t)r->n_chunks * TG_RECORD_CHUNK_BYTES;
    tg_free((void *)(uintptr_t)r->chunks);
    list_remove(&n->layers, (size_t)(f - (tg_found_layer *)n->layers.items));
    return TG_OK;
}

static tg_status commit_lane(tg_model *m, tg_found_lane *n, uint64_t covered, tg_error *err)
{
    const seen_rows *rows = n->rows_seen.items;

    for (size_t i = 0; i < n->layers.n;) {
        tg_found_layer *f = (tg_found_layer *)n->layers.items + i;
        if (f->good || f->at >= covered) {
            i++;
            continue;
        }
        TG_TRY(commit_layer(m, n, f, err));
        i += m->zip;
    }
    while (n->rows_seen.n > 0 && rows[0].at < covered) {
        n->rows = rows[0].end;
        n->slots = rows[0].slots;
        n->frames = rows[0].frames;
        list_remove(&n->rows_seen, 0);
    }
    for (size_t i = 0; i < n->tails.n; i++) {
        tg_found_tail *t = (tg_found_tail *)n->tails.items + i;
        t->good |= t->at < covered;
    }
    return TG_OK;
}

static tg_status on_commit(tg_model *m, tg_bytes payload, tg_error *err)
{
    uint64_t covered[TG_STREAM_ARRAYS];

    TG_TRY(tg_record_commit_read(payload, covered, m->n_lanes, err));
    for (uint32_t i = 0; i < m->n_lanes; i++)
        TG_TRY(commit_lane(m, &m->lanes[i], covered[i], err));
    return TG_OK;
}

/* --- The head --------------------------------------------------------------------------------
 */

static void init_lists(tg_found_lane *n)
{
    n->layers.size = sizeof(tg_found_layer);
    n->shards.size = sizeof(tg_found_shard);
    n->tails.size = sizeof(tg_found_tail);
    n->rows_seen.size = sizeof(seen_rows);
    n->begun.size = sizeof(uint64_t);
    n->sealed = TG_NO_LAYER;
}

static tg_status read_lane(tg_model *m, tg_found_lane *n, const tg_json *o, tg_error *err)
{
    uint64_t place;

    init_lists(n);
    TG_TRY(tg_options_read_array(o, &n->options, err));
    TG_TRY(tg_layout_init(&n->layout, &n->options.array, m->plate, m->format, m->zip, err));
    TG_TRY(tg_json_u64(tg_json_get(o, "slots"), &n->base_slots, err));
    TG_TRY(tg_json_u64(tg_json_get(o, "rows"), &n->base_rows, err));
    n->rows = n->base_rows;
    n->slots = n->chunk_slots = n->base_slots;
    if (n->base_slots > 0 && n->base_slots < n->layout.n_slots && n->layout.sharded)
        n->sealed =
            tg_layout_shard(&n->layout, tg_layout_layer(&n->layout, n->base_slots, &place));
    return TG_OK;
}

/* The most that a document takes once it is parsed: a container is far larger than its two
 * characters. */
static uint64_t bytes_parsed(tg_bytes text)
{
    uint64_t bytes = 2 * (uint64_t)text.len;

    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bytes += c == '[' || c == '{' ? 768 : c == ',' || c == ':' ? 128 : 0;
    }
    return bytes;
}

static tg_status read_plate(tg_model *m, size_t n_arrays, tg_error *err)
{
    const tg_json *plate = tg_json_get(m->head, "plate");
    size_t len;

    if (plate == NULL)
        return TG_OK;
    if (n_arrays != 1)
        return tg_fail(err, TG_CORRUPT, "a plate with %zu arrays", n_arrays);
    TG_TRY(tg_json_string(tg_json_get(plate, "file"), &m->plate_file, &len, err));
    TG_TRY(charge(m, bytes_parsed((tg_bytes){(const uint8_t *)m->plate_file, len}), err));
    TG_TRY(tg_ome_plate_parse(&m->plate, m->plate_file, len, err));
    return charge(m, tg_ome_plate_bytes(m->plate), err);
}

static tg_status on_open(tg_model *m, tg_bytes payload, tg_error *err)
{
    uint64_t format;
    const char *boot;
    char now[TG_BOOT_ID_BYTES];

    if (m->head != NULL)
        return tg_fail(err, TG_CORRUPT, "the journal has two heads");
    TG_TRY(charge(m, bytes_parsed(payload), err));
    TG_TRY(tg_json_parse(&m->head, (const char *)payload.data, payload.len,
                         (tg_json_options){0}, err));
    TG_TRY(tg_json_u64(tg_json_get(m->head, "format"), &format, err));
    TG_TRY(tg_json_bool(tg_json_get(m->head, "zip"), &m->zip, err));
    TG_TRY(tg_json_string(tg_json_get(m->head, "boot"), &boot, NULL, err));
    const tg_json *arrays = tg_json_get(m->head, "arrays");
    size_t n = tg_json_size(arrays);
    if ((format != 2 && format != 3) || n == 0 || n > TG_STREAM_ARRAYS)
        return tg_fail(err, TG_CORRUPT, "Zarr format %" PRIu64 ", %zu arrays", format, n);
    m->format = (int)format;
    TG_TRY(read_plate(m, n, err));
    tg_boot_id(now);
    m->same_boot = now[0] != '\0' && strcmp(now, boot) == 0;
    m->lanes = tg_calloc(n, sizeof *m->lanes);
    if (m->lanes == NULL)
        return no_memory(err);
    m->n_lanes = (uint32_t)n;
    for (uint32_t i = 0; i < m->n_lanes; i++)
        init_lists(&m->lanes[i]);
    for (uint32_t i = 0; i < m->n_lanes; i++)
        TG_TRY(read_lane(m, &m->lanes[i], tg_json_at(arrays, i), err));
    return TG_OK;
}

static tg_status on_record(void *user, uint16_t type, tg_bytes payload, uint64_t at,
                           tg_error *err)
{
    tg_model *m = user;

    if (type != TG_RECORD_OPEN && m->head == NULL)
        return tg_fail(err, TG_CORRUPT, "the journal has no head");
    switch (type) {
    case TG_RECORD_OPEN:
        return on_open(m, payload, err);
    case TG_RECORD_ROWS:
        return on_rows(m, payload, at, err);
    case TG_RECORD_LAYER:
        return on_layer(m, payload, at, err);
    case TG_RECORD_TAIL:
        return on_tail(m, payload, at, err);
    case TG_RECORD_COMMIT:
        return on_commit(m, payload, err);
    case TG_RECORD_SEALED:
    case TG_RECORD_BEGUN:
        return on_shard(m, type, payload, err);
    default:
        return TG_OK; /* of a newer minor version: may be passed over */
    }
}

tg_status tg_model_read(tg_model *m, tg_budget *budget, int dir, const char *name,
                        tg_error *err)
{
    tg_journal_header header;
    uint64_t longest = 0;

    *m = (tg_model){.budget = budget};
    tg_status st = tg_journal_longest(dir, name, &longest, err);
    if (st == TG_OK)
        st = charge(m, longest, err);
    if (st == TG_OK)
        st = tg_journal_replay(dir, name, TG_RECORD_KIND, TG_RECORD_MAJOR, &header, on_record,
                               m, NULL, err);
    if (st != TG_OK)
        tg_model_free(m);
    return st;
}

void tg_model_free(tg_model *m)
{
    for (uint32_t i = 0; i < m->n_lanes; i++) {
        tg_found_lane *n = &m->lanes[i];
        for (size_t j = 0; j < n->layers.n; j++)
            tg_free((void *)(uintptr_t)((tg_found_layer *)n->layers.items)[j].record.chunks);
        for (size_t j = 0; j < n->shards.n; j++)
            tg_free(((tg_found_shard *)n->shards.items)[j].chunks);
        tg_free(n->layers.items);
        tg_free(n->shards.items);
        tg_free(n->tails.items);
        tg_free(n->rows_seen.items);
        tg_free(n->begun.items);
    }
    tg_free(m->lanes);
    tg_ome_plate_free(m->plate);
    tg_json_free(m->head);
    if (m->reserved > 0)
        tg_budget_release(m->budget, m->reserved);
    *m = (tg_model){0};
}
