/* stream/recover_model.c - one replay of the journal. What a commit covers is entered at once;
 * what none covers is kept apart, to be verified. */
#include "stream/recover_model.h"

#include "base/owner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rows that no commit covers yet. */
typedef struct seen_rows {
    uint64_t at, end, slots, frames;
} seen_rows;

static tg_status no_memory(tg_error *err)
{
    return tg_fail(err, TG_NO_MEMORY, "no memory for what the journal says");
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
    uint64_t at = tg_map_get(&n->shard_at, number);

    return at == 0 ? NULL : (tg_found_shard *)n->shards.items + at - 1;
}

static tg_status make_chunks(tg_model *m, const tg_found_lane *n, uint8_t **chunks,
                             tg_error *err)
{
    const tg_record_chunk none = {.offset = UINT64_MAX, .nbytes = UINT64_MAX};
    uint64_t count = chunks_of_shard(&n->layout), bytes;

    if (__builtin_mul_overflow(count, (uint64_t)TG_RECORD_CHUNK_BYTES, &bytes))
        bytes = UINT64_MAX;
    TG_TRY(tg_room_take(&m->room, bytes, err));
    *chunks = tg_alloc((size_t)bytes);
    if (*chunks == NULL)
        return no_memory(err);
    for (uint64_t i = 0; i < count; i++)
        tg_record_chunk_put(*chunks + i * TG_RECORD_CHUNK_BYTES, &none);
    return TG_OK;
}

static tg_status begin_shard(tg_model *m, tg_found_lane *n, const tg_record_sealed *r,
                             tg_error *err)
{
    void *item;

    tg_found_shard *before = tg_found_shard_of(n, r->shard);
    if (before != NULL && before->used)
        return tg_fail(err, TG_CORRUPT, "shard %" PRIu64 " is begun twice", r->shard);
    if (before != NULL) /* making its files failed, and was tried again */
        return TG_OK;
    TG_TRY(tg_map_set(&m->room, &n->shard_at, r->shard, n->shards.n + 1, err));
    TG_TRY(tg_list_add(&m->room, &n->shards, &item, err));
    tg_found_shard *s = item;
    s->number = r->shard;
    s->side = (r->flags & TG_LAYER_SIDE) != 0;
    s->goes_on = r->shard == n->sealed;
    return make_chunks(m, n, &s->chunks, err);
}

static tg_status end_shard(tg_model *m, tg_found_lane *n, uint64_t number, tg_error *err)
{
    tg_found_shard *s = tg_found_shard_of(n, number);

    n->sealed = number;
    if (s == NULL)
        return TG_OK;
    const tg_found_shard *last = (tg_found_shard *)n->shards.items + n->shards.n - 1;
    tg_room_give(&m->room, chunks_of_shard(&n->layout) * TG_RECORD_CHUNK_BYTES);
    tg_free(s->chunks);
    if (s != last) {
        *s = *last;
        TG_TRY(tg_map_set(&m->room, &n->shard_at, s->number,
                          (uint64_t)(s - (tg_found_shard *)n->shards.items) + 1, err));
    }
    tg_map_clear(&n->shard_at, number);
    n->shards.n--;
    return TG_OK;
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
    s->used = true;
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

/* Items at the front that are done with give way before a list grows. */
static void make_room(tg_list *l, size_t *done)
{
    if (!tg_list_is_full(l) || *done < l->n / 2)
        return;
    tg_list_drop(l, *done);
    *done = 0;
}

static tg_status on_rows(tg_model *m, tg_bytes payload, uint64_t at, tg_error *err)
{
    tg_record_rows r;
    tg_found_lane *n;
    void *item;

    TG_TRY(tg_record_rows_read(payload, &r, err));
    TG_TRY(lane_of(m, r.lane, &n, err));
    make_room(&n->rows_seen, &n->rows_done);
    TG_TRY(tg_list_add(&m->room, &n->rows_seen, &item, err));
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

static tg_status on_layer(tg_model *m, tg_bytes payload, uint64_t at, tg_error *err)
{
    tg_record_layer r;
    tg_found_lane *n;
    void *item;

    TG_TRY(tg_record_layer_read(payload, &r, err));
    TG_TRY(lane_of(m, r.lane, &n, err));
    TG_TRY(check_layer(n, &r, err));
    size_t bytes = (size_t)r.n_chunks * TG_RECORD_CHUNK_BYTES;
    TG_TRY(tg_room_take(&m->room, bytes, err));
    if (!m->zip)
        make_room(&n->layers, &n->layers_done);
    TG_TRY(tg_list_add(&m->room, &n->layers, &item, err));
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

/* The tail has nothing more of a layer: its frames are dead, and found no more. */
static void forget_tails_of(tg_found_lane *n, uint64_t layer)
{
    tg_found_tail *t = n->tails.items;

    for (uint64_t i = tg_map_get(&n->tail_at, layer); i != 0; i = t[i - 1].before) {
        n->tails_dead += !t[i - 1].dead;
        t[i - 1].dead = true;
    }
    tg_map_clear(&n->tail_at, layer);
}

static tg_status drop_dead_tails(tg_model *m, tg_found_lane *n, tg_error *err)
{
    tg_found_tail *t = n->tails.items;
    size_t kept = 0;

    tg_map_free_in(&m->room, &n->tail_at);
    for (size_t i = 0; i < n->tails.n; i++) {
        if (t[i].dead)
            continue;
        t[kept] = t[i];
        t[kept].before = tg_map_get(&n->tail_at, t[i].record.layer);
        TG_TRY(tg_map_set(&m->room, &n->tail_at, t[i].record.layer, kept + 1, err));
        kept++;
    }
    n->tails.n = kept;
    n->tails_dead = n->tails_done = 0;
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
    if (tg_list_is_full(&n->tails) && n->tails_dead >= n->tails.n / 2)
        TG_TRY(drop_dead_tails(m, n, err));
    uint64_t before = tg_map_get(&n->tail_at, r.layer);
    TG_TRY(tg_map_set(&m->room, &n->tail_at, r.layer, n->tails.n + 1, err));
    TG_TRY(tg_list_add(&m->room, &n->tails, &item, err));
    *(tg_found_tail *)item = (tg_found_tail){.record = r, .at = at, .before = before};
    return TG_OK;
}

static tg_status on_shard(tg_model *m, uint16_t type, tg_bytes payload, tg_error *err)
{
    tg_record_sealed r;
    tg_found_lane *n;

    TG_TRY(tg_record_sealed_read(payload, &r, err));
    TG_TRY(lane_of(m, r.lane, &n, err));
    if (type == TG_RECORD_SEALED)
        return end_shard(m, n, r.shard, err);
    if (n->layout.sharded)
        return begin_shard(m, n, &r, err);
    return tg_map_set(&m->room, &n->begun, r.shard, tg_map_get(&n->begun, r.shard) + 1, err);
}

/* --- Commits ------------------------------------------------------------------------------ */

/* A whole layer is durable: the tail file has nothing of it any more. Where one layer is open
 * at a time, nothing of those before it, either. */
static void forget_tails(tg_found_lane *n, uint64_t layer)
{
    const tg_found_tail *t = n->tails.items;

    forget_tails_of(n, layer);
    while (n->layout.n_open == 1 && n->tails_done < n->tails.n &&
           (t[n->tails_done].dead || t[n->tails_done].record.layer < layer))
        forget_tails_of(n, t[n->tails_done++].record.layer);
}

static void forget_begun(tg_found_lane *n, uint64_t layer)
{
    /* It was there: nothing is allocated. */
    if (tg_map_get(&n->begun, layer) > 1)
        tg_map_put(&n->begun, layer, tg_map_get(&n->begun, layer) - 1);
    else
        tg_map_clear(&n->begun, layer);
}

static tg_status commit_layer(tg_model *m, tg_found_lane *n, tg_found_layer *f, tg_error *err)
{
    tg_record_layer *r = &f->record;

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
    tg_room_give(&m->room, (uint64_t)r->n_chunks * TG_RECORD_CHUNK_BYTES);
    tg_free((void *)(uintptr_t)r->chunks);
    r->chunks = NULL;
    return TG_OK;
}

/* Records of a lane lie in the order of their offsets: what a commit covers is at the front. */
static tg_status commit_lane(tg_model *m, tg_found_lane *n, uint64_t covered, tg_error *err)
{
    tg_found_layer *f = n->layers.items;
    const seen_rows *rows = n->rows_seen.items;

    for (; n->layers_done < n->layers.n && f[n->layers_done].at < covered; n->layers_done++)
        TG_TRY(commit_layer(m, n, &f[n->layers_done], err));
    for (; n->rows_done < n->rows_seen.n && rows[n->rows_done].at < covered; n->rows_done++) {
        n->rows = rows[n->rows_done].end;
        n->slots = rows[n->rows_done].slots;
        n->frames = rows[n->rows_done].frames;
    }
    if (covered > n->covered)
        n->covered = covered;
    return TG_OK;
}

static tg_status on_commit(tg_model *m, tg_bytes payload, uint64_t at, tg_error *err)
{
    uint64_t covered[TG_STREAM_ARRAYS];

    TG_TRY(tg_record_commit_read(payload, covered, m->n_lanes, err));
    for (uint32_t i = 0; i < m->n_lanes; i++)
        /* A commit speaks of what lies before it. */
        TG_TRY(commit_lane(m, &m->lanes[i], covered[i] < at ? covered[i] : at, err));
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
    TG_TRY(tg_room_take(&m->room, bytes_parsed((tg_bytes){(const uint8_t *)m->plate_file, len}),
                        err));
    TG_TRY(tg_ome_plate_parse(&m->plate, m->plate_file, len, err));
    return tg_room_take(&m->room, tg_ome_plate_bytes(m->plate), err);
}

static tg_status on_open(tg_model *m, tg_bytes payload, tg_error *err)
{
    uint64_t format;
    const char *boot;
    char now[TG_BOOT_ID_BYTES];

    if (m->head != NULL)
        return tg_fail(err, TG_CORRUPT, "the journal has two heads");
    TG_TRY(tg_room_take(&m->room, bytes_parsed(payload), err));
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
        return on_commit(m, payload, at, err);
    case TG_RECORD_SEALED:
    case TG_RECORD_BEGUN:
        return on_shard(m, type, payload, err);
    default:
        return TG_OK; /* of a newer minor version: may be passed over */
    }
}

/* --- The whole ---------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const tg_found_shard *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int by_layer(const void *a, const void *b)
{
    const tg_found_tail *x = a, *y = b;
    if (x->record.layer != y->record.layer)
        return x->record.layer > y->record.layer ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

/* What is left, in the order that the header promises. */
static tg_status settle(tg_model *m, tg_found_lane *n, tg_error *err)
{
    tg_found_tail *t;

    TG_TRY(drop_dead_tails(m, n, err));
    t = n->tails.items;
    for (size_t i = 0; i < n->tails.n; i++)
        t[i].good = t[i].at < n->covered;
    if (n->tails.n > 1)
        qsort(t, n->tails.n, sizeof *t, by_layer);
    if (n->shards.n > 1)
        qsort(n->shards.items, n->shards.n, n->shards.size, by_number);
    tg_found_shard *s = n->shards.items;
    for (size_t i = 0; i < n->shards.n; i++)
        TG_TRY(tg_map_set(&m->room, &n->shard_at, s[i].number, i + 1, err));
    if (!m->zip)
        tg_list_drop(&n->layers, n->layers_done);
    return TG_OK;
}

tg_status tg_model_read(tg_model *m, tg_budget *budget, int dir, const char *name,
                        tg_error *err)
{
    tg_journal_header header;
    uint64_t longest = 0;

    *m = (tg_model){.room.budget = budget};
    tg_status st = tg_journal_longest(dir, name, &longest, err);
    if (st == TG_OK)
        st = tg_room_take(&m->room, longest, err);
    if (st == TG_OK)
        st = tg_journal_replay(dir, name, TG_RECORD_KIND, TG_RECORD_MAJOR, &header, on_record,
                               m, NULL, err);
    for (uint32_t i = 0; st == TG_OK && i < m->n_lanes; i++)
        st = settle(m, &m->lanes[i], err);
    if (st != TG_OK)
        tg_model_free(m);
    return st;
}

static tg_status index_layers(tg_model *m, tg_found_lane *n, tg_error *err)
{
    const tg_found_layer *l = n->layers.items;

    for (size_t i = 0; i < n->layers.n; i++) {
        uint32_t flags = l[i].record.flags;
        uint64_t what = tg_map_get(&n->known, l[i].record.layer) | TG_KNOWN_GOOD;
        if (!l[i].good)
            continue;
        if ((flags & TG_LAYER_FAILED) == 0)
            what |= TG_KNOWN_MADE;
        if ((flags & (TG_LAYER_FAILED | TG_LAYER_PADDED)) == 0)
            what |= TG_KNOWN_WHOLE;
        TG_TRY(tg_map_set(&m->room, &n->known, l[i].record.layer, what, err));
    }
    return TG_OK;
}

tg_status tg_model_index(tg_model *m, tg_found_lane *n, tg_error *err)
{
    const tg_found_tail *t = n->tails.items;

    TG_TRY(index_layers(m, n, err));
    for (size_t i = 0; i < n->tails.n; i++)
        if (t[i].good)
            TG_TRY(tg_map_set(&m->room, &n->tail_slots, t[i].record.slot, 1, err));
    return TG_OK;
}

static void free_lane(tg_found_lane *n)
{
    tg_map *maps[] = {&n->begun,       &n->known,    &n->tail_slots,
                      &n->tail_shards, &n->shard_at, &n->tail_at};
    tg_list *lists[] = {&n->layers, &n->shards, &n->tails, &n->rows_seen};

    for (size_t j = 0; j < n->layers.n; j++)
        tg_free((void *)(uintptr_t)((tg_found_layer *)n->layers.items)[j].record.chunks);
    for (size_t j = 0; j < n->shards.n; j++)
        tg_free(((tg_found_shard *)n->shards.items)[j].chunks);
    for (size_t j = 0; j < sizeof lists / sizeof lists[0]; j++)
        tg_list_free(lists[j]);
    for (size_t j = 0; j < sizeof maps / sizeof maps[0]; j++)
        tg_map_free(maps[j]);
}

void tg_model_free(tg_model *m)
{
    for (uint32_t i = 0; i < m->n_lanes; i++)
        free_lane(&m->lanes[i]);
    tg_free(m->lanes);
    tg_ome_plate_free(m->plate);
    tg_json_free(m->head);
    tg_room_free(&m->room);
    *m = (tg_model){0};
}
