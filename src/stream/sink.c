/* stream/sink.c - layers into shard files, or one value a chunk. Raw layers whose size suits go
 * out of their slabs as they lie, neighbours in one write; all others are packed in a buffer.
 */
#include "base/crc32c.h"
#include "store/zip_write.h"
#include "stream/recorder.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define AHEAD_LEAST 4u /* layers: shards of fewer are made when their turn comes */

static uint64_t round_block(uint64_t n)
{
    return (n + TG_BLOCK - 1) / TG_BLOCK * TG_BLOCK;
}

/* --- Keys ------------------------------------------------------------------------- */

/* The group of an image, with a '/' behind it unless it is the root. */
static tg_status image_prefix(const tg_lane *n, uint64_t image, char *dst, size_t cap,
                              size_t *len, tg_error *err)
{
    int own = snprintf(dst, cap, "%s%s", n->path, n->path[0] == '\0' ? "" : "/");

    if (own < 0 || (size_t)own >= cap)
        return tg_fail(err, TG_INVALID, "'%s' is too long", n->path);
    *len = (size_t)own;
    if (!tg_layout_is_plate(&n->layout))
        return TG_OK;
    TG_TRY(tg_ome_plate_image_path(n->s->plate, image, dst + *len, cap - *len - 1, err));
    *len += strlen(dst + *len);
    dst[(*len)++] = '/';
    return TG_OK;
}

tg_status tg_plane_path(const tg_lane *n, uint64_t image, uint32_t plane, char *dst, size_t cap,
                        tg_error *err)
{
    size_t at = 0;

    TG_TRY(image_prefix(n, image, dst, cap, &at, err));
    int len = snprintf(dst + at, cap - at, "%" PRIu32, plane);
    return len > 0 && (size_t)len < cap - at
               ? TG_OK
               : tg_fail(err, TG_INVALID, "'%s' is too long", n->path);
}

static tg_status unit_key(const tg_lane *n, uint64_t image, uint32_t plane,
                          const uint64_t *unit, char *dst, size_t cap, tg_error *err)
{
    char chunk[TG_CHUNK_KEY_BYTES];

    TG_TRY(tg_plane_path(n, image, plane, dst, cap, err));
    size_t at = strlen(dst);
    tg_chunk_key(n->meta[plane], unit, chunk);
    int len = snprintf(dst + at, cap - at, "/%s", chunk);
    return len > 0 && (size_t)len < cap - at
               ? TG_OK
               : tg_fail(err, TG_INVALID, "key of a chunk of '%s' is too long", n->path);
}

tg_status tg_sink_chunk_key(const tg_lane *n, uint32_t plane, uint64_t layer, uint32_t tile,
                            char *dst, size_t cap, tg_error *err)
{
    uint64_t unit[TG_MAX_NDIM];

    tg_layout_chunk_unit(&n->layout, plane, layer, tile, unit);
    return unit_key(n, tg_layout_layer_image(&n->layout, layer), plane, unit, dst, cap, err);
}

tg_status tg_sink_shard_key(const tg_lane *n, uint32_t plane, uint64_t shard, char *dst,
                            size_t cap, tg_error *err)
{
    uint64_t unit[TG_MAX_NDIM];

    tg_layout_shard_unit(&n->layout, plane, shard, unit);
    return unit_key(n, tg_layout_shard_image(&n->layout, shard), plane, unit, dst, cap, err);
}

void tg_sink_side_name(const tg_lane *n, uint32_t plane, uint64_t shard, char *dst, size_t cap)
{
    (void)snprintf(dst, cap, "shard-%" PRIu32 "-%" PRIu32 "-%" PRIu64, n->number, plane, shard);
}

/* --- Shards ------------------------------------------------------------------------- */

void tg_shard_reset(tg_lane *n, tg_shard *shard)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        tg_shard_file *f = &shard->file[p];
        tg_object_free(f->object);
        f->object = NULL;
        f->end = 0;
        f->dirty = f->index_dirty = false;
        for (uint64_t i = 0; i < n->layout.plane[p].shard_chunks; i++)
            f->entries[i] = (tg_shard_entry){UINT64_MAX, UINT64_MAX};
    }
    shard->state = TG_SHARD_FREE;
    shard->side = shard->lost = false;
    shard->mark = (tg_mark){0};
}

/* Bytes that a full shard of a plane takes: what the file system is asked to keep together. */
static uint64_t size_hint(const tg_layout *l, uint32_t plane)
{
    if (l->encoded)
        return 0;
    return round_block(l->live ? TG_BLOCK : 0) +
           l->per_shard * (uint64_t)l->plane[plane].layer_bytes + TG_BLOCK;
}

tg_status tg_sink_read_index(tg_lane *n, uint32_t plane, const char *key, tg_shard_file *f,
                             uint64_t *bytes, tg_error *err)
{
    const tg_array_meta *m = n->meta[plane];
    size_t len = tg_shard_index_bytes(m), got;
    TG_AUTO(tg_buf) index = {0};

    TG_TRY(tg_buf_resize(&index, len, err));
    tg_range range = tg_shard_index_at_start(m) ? tg_range_at(0, len) : tg_range_last(len);
    TG_TRY(tg_store_get_into(n->s->store, key, range, index.data, len, &got, bytes, NULL, err));
    if (got != len)
        return tg_fail(err, TG_CORRUPT, "shard '%s' has %zu bytes, its index %zu", key, got,
                       len);
    return tg_shard_index_decode(m, (tg_bytes){index.data, len}, *bytes, f->entries, err);
}

/* The end of the chunks, where the next one goes. */
uint64_t tg_sink_chunks_end(const tg_lane *n, uint32_t plane, const tg_shard_file *f)
{
    uint64_t end = n->layout.live ? TG_BLOCK : 0;

    for (uint64_t i = 0; i < n->layout.plane[plane].shard_chunks; i++)
        if (f->entries[i].offset != UINT64_MAX &&
            f->entries[i].offset + f->entries[i].nbytes > end)
            end = f->entries[i].offset + f->entries[i].nbytes;
    return round_block(end);
}

/* Copy the chunks of a sealed shard into the file that goes on in its place. */
static tg_status copy_shard(tg_lane *n, const char *key, tg_shard_file *f, uint64_t bytes,
                            tg_error *err)
{
    for (uint64_t at = 0; at < f->end; at += n->plan.stage_bytes) {
        uint64_t len = f->end - at < n->plan.stage_bytes ? f->end - at : n->plan.stage_bytes;
        uint64_t there = at >= bytes ? 0 : bytes - at < len ? bytes - at : len;
        tg_span span = {at, (size_t)there, n->stage};
        if (there > 0)
            TG_TRY(tg_store_get_ranges(n->s->store, key, &span, 1, NULL, err));
        memset(n->stage + there, 0, (size_t)(len - there));
        TG_TRY(tg_object_write_at(f->object, at, n->stage, (size_t)len, NULL, err));
    }
    return TG_OK;
}

/* A shard that was sealed or belongs to an earlier run goes on. Readers have it, so it is not
 * touched: a copy grows beside the store and takes its place when it is sealed in turn. */
static tg_status continue_file(tg_lane *n, tg_shard *shard, uint32_t plane, const char *key,
                               tg_error *err)
{
    tg_shard_file *f = &shard->file[plane];
    uint64_t bytes;
    char name[64];

    TG_TRY(tg_sink_read_index(n, plane, key, f, &bytes, err));
    f->end = tg_sink_chunks_end(n, plane, f);
    if (n->layout.live) {
        tg_object_options o = {.visible = true, .reopen = true};
        f->end = round_block(bytes > f->end ? bytes : f->end);
        return tg_object_begin(n->s->store, key, o, &f->object, NULL, err);
    }
    tg_sink_side_name(n, plane, shard->number, name, sizeof name);
    tg_object_options o = {.visible = true, .size_hint = size_hint(&n->layout, plane)};
    TG_TRY(tg_object_begin(n->s->side_store, name, o, &f->object, NULL, err));
    f->dirty = true;
    return copy_shard(n, key, f, bytes, err);
}

/* A shard that was sealed, and is there: one without chunks is not. */
static tg_status find_sealed(tg_lane *n, const tg_shard *shard, bool *there, tg_error *err)
{
    char key[TG_KEY_BYTES];
    uint64_t bytes;

    *there = false;
    if (shard->number != n->sealed_shard)
        return TG_OK;
    TG_TRY(tg_sink_shard_key(n, 0, shard->number, key, sizeof key, err));
    tg_status st = tg_store_size(n->s->store, key, &bytes, NULL, err);
    *there = st == TG_OK;
    return st == TG_NOT_FOUND ? TG_OK : st;
}

/* Before a file is made: a run that dies right after must not leave one that nobody knows. */
static tg_status say_begun(tg_lane *n, uint64_t number, bool side, tg_error *err)
{
    tg_record_sealed r = {n->number, side ? TG_LAYER_SIDE : 0, number};
    TG_LOCKED_FOR_IO(&n->s->log.lock);

    TG_TRY(tg_record_begun_add(&n->s->log, &r, err));
    return tg_record_flush(&n->s->log, err);
}

/* After a power cut the entry of a file may be there and the record of it not: nothing in such
 * a file was ever durable, and it gives way. */
static tg_status make_file(tg_lane *n, uint32_t plane, const char *key, tg_object **out,
                           tg_error *err)
{
    tg_object_options o = {.visible = true, .size_hint = size_hint(&n->layout, plane)};
    tg_status st = tg_object_begin(n->s->store, key, o, out, NULL, err);

    if (st != TG_EXISTS)
        return st;
    TG_TRY(tg_store_remove(n->s->store, key, NULL, err));
    return tg_object_begin(n->s->store, key, o, out, NULL, err);
}

static tg_status open_files(tg_lane *n, tg_shard *shard, tg_error *err)
{
    bool goes_on;
    char key[TG_KEY_BYTES];

    TG_TRY(find_sealed(n, shard, &goes_on, err));
    shard->side = goes_on && !n->layout.live;
    TG_TRY(say_begun(n, shard->number, shard->side, err));
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        TG_TRY(tg_sink_shard_key(n, p, shard->number, key, sizeof key, err));
        if (goes_on) {
            TG_TRY(continue_file(n, shard, p, key, err));
            continue;
        }
        TG_TRY(make_file(n, p, key, &shard->file[p].object, err));
        shard->file[p].end = n->layout.live ? TG_BLOCK : 0;
    }
    return TG_OK;
}

void tg_sink_end_shard(tg_lane *n)
{
    if (n->current != NULL)
        n->current->state = TG_SHARD_FULL;
    n->current = NULL;
}

static uint32_t count_free(const tg_lane *n, tg_shard **one)
{
    uint32_t count = 0;

    for (uint32_t i = n->plan.n_shards; i-- > 0;)
        if (n->shards[i].state == TG_SHARD_FREE) {
            *one = &n->shards[i];
            count++;
        }
    return count;
}

/* The shard whose files were made ahead, or are being made. */
static tg_shard *find_ahead(const tg_lane *n)
{
    for (uint32_t i = 0; i < n->plan.n_shards; i++)
        if (n->shards[i].state == TG_SHARD_MAKING || n->shards[i].state == TG_SHARD_READY)
            return &n->shards[i];
    return NULL;
}

static void remove_files(tg_lane *n, tg_shard *shard)
{
    for (uint32_t p = 0; p < n->layout.n_planes; p++)
        if (shard->file[p].object != NULL)
            tg_object_abort(shard->file[p].object);
    tg_shard_reset(n, shard);
}

void tg_sink_drop_ahead(tg_lane *n)
{
    tg_shard *ahead = find_ahead(n);

    n->next_shard = TG_NO_LAYER;
    if (ahead != NULL && ahead->state == TG_SHARD_READY)
        remove_files(n, ahead);
}

/* The shard for `number`, its files yet to be made unless it is `ready`. With log.lock held.
 * NULL: none yet. */
static tg_shard *take_shard(tg_lane *n, uint64_t number, bool *ready)
{
    tg_shard *shard = find_ahead(n);

    *ready = shard != NULL && shard->number == number;
    if (*ready)
        return shard->state == TG_SHARD_READY ? shard : NULL;
    if (shard != NULL && shard->number < number)
        tg_sink_drop_ahead(n); /* frames were skipped: its turn does not come */
    /* One that goes on in a sealed one's place must wait until that is sealed. */
    for (uint32_t i = 0; i < n->plan.n_shards; i++)
        if (n->shards[i].state == TG_SHARD_FULL && n->shards[i].number == number)
            return NULL;
    if (count_free(n, &shard) == 0)
        return NULL;
    shard->number = number;
    return shard;
}

tg_status tg_sink_shard(tg_lane *n, uint64_t layer, tg_error *err)
{
    if (!n->layout.sharded || n->s->null_sink)
        return TG_OK;
    uint64_t number = tg_layout_shard(&n->layout, layer);
    tg_shard *shard;
    bool ready;
    {
        TG_LOCKED_FOR_IO(&n->s->log.lock);
        if (n->current != NULL && n->current->number == number)
            return TG_OK;
        tg_sink_end_shard(n);
        n->next_shard = TG_NO_LAYER;
        shard = take_shard(n, number, &ready);
        if (shard == NULL)
            return TG_BUSY;
        if (!ready)
            shard->state = TG_SHARD_MAKING;
    }
    tg_status st = ready ? TG_OK : open_files(n, shard, err);
    TG_LOCKED_FOR_IO(&n->s->log.lock);
    if (st != TG_OK) {
        tg_shard_reset(n, shard);
        return st;
    }
    shard->state = TG_SHARD_OPEN;
    n->current = shard;
    return TG_OK;
}

/* --- Files made ahead ------------------------------------------------------------------ */

/* Room for a large file waits for the file system's own commits (each fallocate() took 4 ms of
 * the 60 that a shard of 128 MiB takes, some 200): the writer must not. Encoded shards ask for
 * no room, and are made when their turn comes. */
void tg_sink_want_ahead(tg_lane *n, uint64_t layer)
{
    uint64_t first, end;

    if (n->current == NULL || n->layout.encoded)
        return;
    tg_layout_shard_range(&n->layout, n->current->number, &first, &end);
    if (end - first < AHEAD_LEAST || layer - first < (end - first) / 2 ||
        find_ahead(n) != NULL ||
        tg_layout_slot_in_layer(&n->layout, end, 0) >= n->layout.n_slots)
        return;
    n->next_shard = tg_layout_shard(&n->layout, end);
    tg_signal_post(&n->s->commit);
}

void tg_sink_make_ahead(tg_lane *n)
{
    tg_error unsaid = {0}; /* the writer tries again, and says it */
    tg_shard *shard = NULL;
    {
        TG_LOCKED_FOR_IO(&n->s->log.lock);
        uint64_t number = n->next_shard;
        n->next_shard = TG_NO_LAYER;
        /* One must stay for the writer, whatever comes next. */
        if (number == TG_NO_LAYER || number == n->sealed_shard || count_free(n, &shard) < 2)
            return;
        shard->number = number;
        shard->state = TG_SHARD_MAKING;
    }
    tg_status st = open_files(n, shard, &unsaid);
    {
        TG_LOCKED_FOR_IO(&n->s->log.lock);
        if (st == TG_OK)
            shard->state = TG_SHARD_READY;
        else
            remove_files(n, shard);
    }
    tg_signal_post(&n->s->write);
}

/* --- Chunks --------------------------------------------------------------------------- */

/* A chunk's stored bytes and their sum, in its slab or in the encoder's buffer. */
typedef struct chunk_view {
    const uint8_t *data;
    size_t len;
    uint32_t sum;
} chunk_view;

static chunk_view view_chunk(const tg_lane *n, const tg_layer *layer, uint32_t plane,
                             uint32_t tile)
{
    const tg_plane *p = &n->layout.plane[plane];
    uint32_t i = n->plan.first_chunk[plane] + tile;
    chunk_view v;

    if (layer->out != TG_NO_SLAB) {
        const tg_out *out = &n->outs[layer->out];
        size_t room = (n->plan.chunk_bound[plane] + 63) / 64 * 64;
        return (chunk_view){out->data + n->plan.out_offset[plane] + tile * room, out->sizes[i],
                            out->sums[i]};
    }
    v.data = n->planes[plane] + (size_t)layer->slab * p->layer_bytes + tile * p->chunk_stride;
    v.len = p->stored_bytes;
    v.sum = n->ring.slabs[layer->slab].sums[i];
    if (p->stored_bytes > p->chunk_bytes)
        v.sum = tg_crc32c(v.sum, v.data + p->chunk_bytes, 4);
    return v;
}

static void note_chunk(tg_lane *n, uint32_t i, uint32_t plane, uint32_t tile, uint64_t offset,
                       const chunk_view *v, const tg_zip_record *zip)
{
    tg_record_chunk c = {.offset = offset, .nbytes = v->len, .sum = v->sum};

    if (zip != NULL) {
        c.offset = zip->data_offset;
        c.header = zip->header_offset;
        c.crc32 = zip->crc32;
    }
    tg_record_chunk_put(n->records + i * n->plan.chunk_records +
                            (size_t)(n->plan.first_chunk[plane] + tile) * TG_RECORD_CHUNK_BYTES,
                        &c);
}

static tg_status timed_write(tg_lane *n, tg_shard_file *f, const uint8_t *data, size_t len,
                             tg_error *err)
{
    int64_t start = tg_clock_ns();

    TG_TRY(tg_object_write_at(f->object, f->end, data, len, NULL, err));
    tg_count_latency(n->count.write_ns, &n->count.write_ns_max,
                     (uint64_t)(tg_clock_ns() - start));
    f->end += len;
    return TG_OK;
}

/* As the layers lie in their slabs: runs of neighbours in one write. */
static tg_status write_as_they_lie(tg_lane *n, uint32_t plane, const tg_layer *layers,
                                   uint32_t count, tg_error *err)
{
    tg_shard_file *f = &n->current->file[plane];
    size_t bytes = n->layout.plane[plane].layer_bytes;

    for (uint32_t i = 0; i < count;) {
        uint32_t run = 1;
        while (i + run < count && layers[i + run].slab == layers[i].slab + run)
            run++;
        for (uint32_t j = i; j < i + run; j++)
            for (uint32_t t = 0; t < n->layout.plane[plane].n_tiles; t++) {
                chunk_view v = view_chunk(n, &layers[j], plane, t);
                note_chunk(n, j, plane, t,
                           f->end + (j - i) * bytes + t * n->layout.plane[plane].chunk_stride,
                           &v, NULL);
            }
        TG_TRY(timed_write(n, f, n->planes[plane] + (size_t)layers[i].slab * bytes, run * bytes,
                           err));
        i += run;
    }
    return TG_OK;
}

/* Packed in the stage, which begins and ends on whole blocks. */
static tg_status write_packed(tg_lane *n, uint32_t plane, const tg_layer *layers,
                              uint32_t count, tg_error *err)
{
    tg_shard_file *f = &n->current->file[plane];
    size_t fill = 0;

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t t = 0; t < n->layout.plane[plane].n_tiles; t++) {
            chunk_view v = view_chunk(n, &layers[i], plane, t);
            note_chunk(n, i, plane, t, f->end + fill, &v, NULL);
            for (size_t at = 0; at < v.len;) {
                size_t room = n->plan.stage_bytes - fill;
                size_t part = v.len - at < room ? v.len - at : room;
                memcpy(n->stage + fill, v.data + at, part);
                at += part;
                fill += part;
                if (fill < n->plan.stage_bytes)
                    continue;
                TG_TRY(timed_write(n, f, n->stage, fill, err));
                fill = 0;
            }
        }
    size_t padded = (size_t)round_block(fill);
    memset(n->stage + fill, 0, padded - fill);
    return padded == 0 ? TG_OK : timed_write(n, f, n->stage, padded, err);
}

static tg_status put_chunk(tg_lane *n, const char *key, const chunk_view *v, bool replaces,
                           tg_zip_record *zip, tg_error *err)
{
    int64_t start = tg_clock_ns();

    if (n->s->zip)
        TG_TRY(tg_zip_append(n->s->store, key, v->data, v->len, NULL, zip, NULL, err));
    else if (replaces)
        TG_TRY(tg_store_put(n->s->store, key, v->data, v->len, NULL, err));
    else
        TG_TRY(tg_store_put_lazy(n->s->store, key, v->data, v->len, NULL, err));
    tg_count_latency(n->count.write_ns, &n->count.write_ns_max,
                     (uint64_t)(tg_clock_ns() - start));
    return TG_OK;
}

/* One value a chunk. */
static tg_status put_chunks(tg_lane *n, uint32_t plane, const tg_layer *layer, uint32_t i,
                            tg_error *err)
{
    char key[TG_KEY_BYTES];

    for (uint32_t t = 0; t < n->layout.plane[plane].n_tiles; t++) {
        chunk_view v = view_chunk(n, layer, plane, t);
        tg_zip_record zip = {0};
        TG_TRY(tg_sink_chunk_key(n, plane, layer->number, t, key, sizeof key, err));
        TG_TRY(put_chunk(n, key, &v, layer->number == n->padded_layer, &zip, err));
        note_chunk(n, i, plane, t, 0, &v, n->s->zip ? &zip : NULL);
    }
    return TG_OK;
}

/* A layer that could not be put counts as failed: what of it got to its place all the same (a
 * put may fail after its rename) goes again. Recovery does the same where that fails, too. */
static void take_back(tg_lane *n, const tg_layer *layer)
{
    char key[TG_KEY_BYTES];

    if (n->s->zip || layer->number == n->padded_layer)
        return;
    for (uint32_t p = 0; p < n->layout.n_planes; p++)
        for (uint32_t t = 0; t < n->layout.plane[p].n_tiles; t++) {
            if (tg_sink_chunk_key(n, p, layer->number, t, key, sizeof key, NULL) != TG_OK)
                continue;
            tg_status st = tg_store_remove(n->s->store, key, NULL, NULL);
            (void)st;
        }
}

/* Layer after layer, so that those before one that fails are whole. */
static tg_status put_layers(tg_lane *n, const tg_layer *layers, uint32_t count, uint32_t *done,
                            tg_error *err)
{
    for (*done = 0; *done < count; ++*done) {
        tg_status st = TG_OK;
        if (!n->s->zip)
            TG_TRY(say_begun(n, layers[*done].number, false, err));
        for (uint32_t p = 0; st == TG_OK && p < n->layout.n_planes; p++)
            st = put_chunks(n, p, &layers[*done], *done, err);
        if (st == TG_OK)
            continue;
        take_back(n, &layers[*done]);
        return st;
    }
    return TG_OK;
}

/* Sums that the producer could not make in its pass. */
static void sum_late(tg_lane *n, const tg_layer *layer)
{
    if (layer->summed || layer->out != TG_NO_SLAB)
        return;
    tg_place_seal(&n->layout, 0,
                  n->planes[0] + (size_t)layer->slab * n->layout.plane[0].layer_bytes,
                  n->ring.slabs[layer->slab].sums, false);
}

tg_status tg_sink_layers(tg_lane *n, const tg_layer *layers, uint32_t count, uint32_t *done,
                         tg_error *err)
{
    *done = count;
    if (n->s->null_sink)
        return TG_OK;
    for (uint32_t i = 0; i < count; i++)
        sum_late(n, &layers[i]);
    if (!n->layout.sharded)
        return put_layers(n, layers, count, done, err);
    for (uint32_t p = 0; p < n->layout.n_planes; p++) {
        tg_status st = n->layout.plane[p].staged ? write_packed(n, p, layers, count, err)
                                                 : write_as_they_lie(n, p, layers, count, err);
        if (st == TG_OK)
            continue;
        *done = 0; /* no entry shows what was written of them */
        return st;
    }
    return TG_OK;
}

void tg_sink_enter(tg_lane *n, const tg_layer *layers, uint32_t count)
{
    tg_shard *shard = n->current;

    if (!n->layout.sharded || n->s->null_sink)
        return;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number = layers[i].number;
#if TG_PLANT == 6
        if ((i ^ 1) < count)
            number = layers[i ^ 1].number;
#endif
        for (uint32_t p = 0; p < n->layout.n_planes; p++) {
            tg_shard_file *f = &shard->file[p];
            for (uint32_t t = 0; t < n->layout.plane[p].n_tiles; t++) {
                tg_record_chunk c = tg_record_chunk_get(n->records + i * n->plan.chunk_records +
                                                        (size_t)(n->plan.first_chunk[p] + t) *
                                                            TG_RECORD_CHUNK_BYTES);
                f->entries[tg_layout_entry(&n->layout, p, number, t)] =
                    (tg_shard_entry){c.offset, c.nbytes};
            }
            f->dirty = f->index_dirty = true;
        }
        if (layers[i].covers)
            shard->mark = layers[i].mark;
    }
}
