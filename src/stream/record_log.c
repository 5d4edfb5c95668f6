/* stream/record_log.c - records to bytes and back, all little-endian. */
#include "stream/record_log.h"

#include <string.h>

/* --- Numbers ------------------------------------------------------------------ */

static uint8_t *put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        *p++ = (uint8_t)(v >> (8 * i));
    return p;
}

static uint8_t *put_u64(uint8_t *p, uint64_t v)
{
    return put_u32(put_u32(p, (uint32_t)v), (uint32_t)(v >> 32));
}

static uint32_t get_u32(const uint8_t **p)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++)
        v |= (uint32_t)(*p)[i] << (8 * i);
    *p += 4;
    return v;
}

static uint64_t get_u64(const uint8_t **p)
{
    uint64_t low = get_u32(p);
    return low | (uint64_t)get_u32(p) << 32;
}

void tg_record_chunk_put(uint8_t *dst, const tg_record_chunk *c)
{
    dst = put_u32(put_u64(put_u64(dst, c->offset), c->nbytes), c->sum);
    (void)put_u32(put_u64(dst, c->header), c->crc32);
}

tg_record_chunk tg_record_chunk_get(const uint8_t *src)
{
    tg_record_chunk c;

    c.offset = get_u64(&src);
    c.nbytes = get_u64(&src);
    c.sum = get_u32(&src);
    c.header = get_u64(&src);
    c.crc32 = get_u32(&src);
    return c;
}

/* --- Writing ------------------------------------------------------------------ */

void tg_record_log_init(tg_record_log *log)
{
    *log = (tg_record_log){0};
    tg_mutex_init(&log->lock);
}

void tg_record_log_destroy(tg_record_log *log)
{
    tg_journal_free(log->journal);
    tg_mutex_destroy(&log->lock);
}

static tg_bytes bytes_of(const void *p, size_t n)
{
    return (tg_bytes){p, n};
}

static const uint8_t nothing[1];

static tg_status add(tg_record_log *log, uint16_t type, tg_bytes a, tg_bytes b, tg_bytes c,
                     tg_error *err)
{
    return log->journal == NULL ? TG_OK : tg_journal_add(log->journal, type, a, b, c, err);
}

static tg_status add_one(tg_record_log *log, uint16_t type, const uint8_t *start,
                         const uint8_t *end, tg_error *err)
{
    tg_bytes none = bytes_of(nothing, 0);
    return add(log, type, bytes_of(start, (size_t)(end - start)), none, none, err);
}

tg_status tg_record_open(tg_record_log *log, const char *json, tg_error *err)
{
    tg_bytes none = bytes_of(nothing, 0);
    return add(log, TG_RECORD_OPEN, bytes_of(json, strlen(json)), none, none, err);
}

enum {
    ROWS_BYTES = 32,
    LAYER_BYTES = 44,
    TAIL_BYTES = 48,
    SEALED_BYTES = 16,
    PUBLISHED_BYTES = 20
};

tg_status tg_record_rows_add(tg_record_log *log, const tg_record_rows *r, tg_error *err)
{
    uint8_t head[ROWS_BYTES], *p = head;

    p = put_u32(put_u32(p, r->lane), r->n);
    (void)put_u64(put_u64(put_u64(p, r->first), r->slots), r->frames);
    return add(log, TG_RECORD_ROWS, bytes_of(head, sizeof head), r->a, r->b, err);
}

tg_status tg_record_layer_add(tg_record_log *log, const tg_record_layer *r, tg_error *err)
{
    uint8_t head[LAYER_BYTES], *p = head;

    p = put_u32(put_u32(put_u32(p, r->lane), r->flags), r->n_chunks);
    (void)put_u64(put_u64(put_u64(put_u64(p, r->layer), r->shard), r->slots), r->frames);
    return add(log, TG_RECORD_LAYER, bytes_of(head, sizeof head),
               bytes_of(r->n_chunks == 0 ? nothing : r->chunks,
                        (size_t)r->n_chunks * TG_RECORD_CHUNK_BYTES),
               bytes_of(nothing, 0), err);
}

tg_status tg_record_tail_add(tg_record_log *log, const tg_record_tail *r, tg_error *err)
{
    uint8_t head[TAIL_BYTES], *p = head;

    p = put_u32(put_u32(p, r->lane), r->sum);
    p = put_u64(put_u64(put_u64(p, r->slot), r->layer), r->place);
    p = put_u64(put_u64(p, r->offset), r->nbytes);
    return add_one(log, TG_RECORD_TAIL, head, p, err);
}

tg_status tg_record_commit_add(tg_record_log *log, const uint64_t *covered, uint32_t n_lanes,
                               tg_error *err)
{
    uint8_t head[4], each[8 * 64], *p = each;

    (void)put_u32(head, n_lanes);
    for (uint32_t i = 0; i < n_lanes && i < 64; i++)
        p = put_u64(p, covered[i]);
    return add(log, TG_RECORD_COMMIT, bytes_of(head, sizeof head),
               bytes_of(each, (size_t)(p - each)), bytes_of(nothing, 0), err);
}

static tg_status add_shard(tg_record_log *log, uint16_t type, const tg_record_sealed *r,
                           tg_error *err)
{
    uint8_t head[SEALED_BYTES];
    return add_one(log, type, head,
                   put_u64(put_u32(put_u32(head, r->lane), r->flags), r->shard), err);
}

tg_status tg_record_sealed_add(tg_record_log *log, const tg_record_sealed *r, tg_error *err)
{
    return add_shard(log, TG_RECORD_SEALED, r, err);
}

tg_status tg_record_begun_add(tg_record_log *log, const tg_record_sealed *r, tg_error *err)
{
    return add_shard(log, TG_RECORD_BEGUN, r, err);
}

tg_status tg_record_published_add(tg_record_log *log, const tg_record_published *r,
                                  tg_error *err)
{
    uint8_t head[PUBLISHED_BYTES];
    return add_one(log, TG_RECORD_PUBLISHED, head,
                   put_u64(put_u64(put_u32(head, r->lane), r->slots), r->rows), err);
}

tg_status tg_record_flush(tg_record_log *log, tg_error *err)
{
    return log->journal == NULL ? TG_OK : tg_journal_flush(log->journal, err);
}

tg_status tg_record_sync(tg_record_log *log, tg_error *err)
{
    return log->journal == NULL ? TG_OK : tg_journal_datasync(log->journal, err);
}

uint64_t tg_record_bytes(const tg_record_log *log)
{
    return log->journal == NULL ? 0 : tg_journal_bytes(log->journal);
}

/* --- Reading ------------------------------------------------------------------ */

static tg_status want_bytes(tg_bytes payload, size_t least, bool exact, const char *what,
                            tg_error *err)
{
    if (payload.len < least || (exact && payload.len != least))
        return tg_fail(err, TG_CORRUPT, "%s record: %zu bytes, want %s%zu", what, payload.len,
                       exact ? "" : "at least ", least);
    return TG_OK;
}

tg_status tg_record_rows_read(tg_bytes payload, tg_record_rows *r, tg_error *err)
{
    const uint8_t *p = payload.data;

    TG_TRY(want_bytes(payload, ROWS_BYTES, false, "rows", err));
    r->lane = get_u32(&p);
    r->n = get_u32(&p);
    r->first = get_u64(&p);
    r->slots = get_u64(&p);
    r->frames = get_u64(&p);
    r->a = bytes_of(p, payload.len - ROWS_BYTES);
    r->b = bytes_of(nothing, 0);
    return TG_OK;
}

tg_status tg_record_layer_read(tg_bytes payload, tg_record_layer *r, tg_error *err)
{
    const uint8_t *p = payload.data;

    TG_TRY(want_bytes(payload, LAYER_BYTES, false, "layer", err));
    r->lane = get_u32(&p);
    r->flags = get_u32(&p);
    r->n_chunks = get_u32(&p);
    r->layer = get_u64(&p);
    r->shard = get_u64(&p);
    r->slots = get_u64(&p);
    r->frames = get_u64(&p);
    r->chunks = p;
    return want_bytes(payload, LAYER_BYTES + (size_t)r->n_chunks * TG_RECORD_CHUNK_BYTES, true,
                      "layer", err);
}

tg_status tg_record_tail_read(tg_bytes payload, tg_record_tail *r, tg_error *err)
{
    const uint8_t *p = payload.data;

    TG_TRY(want_bytes(payload, TAIL_BYTES, true, "tail", err));
    r->lane = get_u32(&p);
    r->sum = get_u32(&p);
    r->slot = get_u64(&p);
    r->layer = get_u64(&p);
    r->place = get_u64(&p);
    r->offset = get_u64(&p);
    r->nbytes = get_u64(&p);
    return TG_OK;
}

tg_status tg_record_commit_read(tg_bytes payload, uint64_t *covered, uint32_t n_lanes,
                                tg_error *err)
{
    const uint8_t *p = payload.data;

    TG_TRY(want_bytes(payload, 4 + 8 * (size_t)n_lanes, true, "commit", err));
    if (get_u32(&p) != n_lanes)
        return tg_fail(err, TG_CORRUPT, "commit record: of another number of arrays");
    for (uint32_t i = 0; i < n_lanes; i++)
        covered[i] = get_u64(&p);
    return TG_OK;
}

tg_status tg_record_sealed_read(tg_bytes payload, tg_record_sealed *r, tg_error *err)
{
    const uint8_t *p = payload.data;

    TG_TRY(want_bytes(payload, SEALED_BYTES, true, "sealed", err));
    r->lane = get_u32(&p);
    r->flags = get_u32(&p);
    r->shard = get_u64(&p);
    return TG_OK;
}

tg_status tg_record_published_read(tg_bytes payload, tg_record_published *r, tg_error *err)
{
    const uint8_t *p = payload.data;

    TG_TRY(want_bytes(payload, PUBLISHED_BYTES, true, "published", err));
    r->lane = get_u32(&p);
    r->slots = get_u64(&p);
    r->rows = get_u64(&p);
    return TG_OK;
}
