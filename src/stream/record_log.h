/* stream/record_log.h - the records of a recorder's journal, written and read. What they mean
 * and in what order they come: docs/formats/recording-journal.md. Knows no threads but its
 * lock, and nothing of stores. */
#ifndef TG_STREAM_RECORD_LOG_H
#define TG_STREAM_RECORD_LOG_H

#include "base/journal.h"
#include "base/sync.h"

enum {
    TG_RECORD_KIND = 1, /* of the journal file: a recorder's */
    TG_RECORD_MAJOR = 1,
    TG_RECORD_MINOR = 0
};

#define TG_RECORD_FILE "journal"

enum {
    TG_RECORD_OPEN = 1,     /* JSON: options, documents */
    TG_RECORD_ROWS = 2,     /* rows of the frame table */
    TG_RECORD_LAYER = 3,    /* chunks of one layer are in the store */
    TG_RECORD_TAIL = 4,     /* a frame of an unfilled layer is in the tail file */
    TG_RECORD_COMMIT = 5,   /* per lane: up to which offset of the journal it is durable */
    TG_RECORD_SEALED = 6,   /* a shard is whole, with its index */
    TG_RECORD_BEGUN = 8,    /* a file is about to be made: a shard's, or a layer's chunks */
    TG_RECORD_PUBLISHED = 7 /* shape and table of a lane */
};

enum {
    TG_LAYER_PADDED = 1,  /* chunks are padded: they will come again */
    TG_LAYER_SUMMED = 2,  /* sums are set */
    TG_LAYER_SIDE = 4,    /* the shard lies beside the store */
    TG_LAYER_COVERS = 16, /* slots and frames count from here: all before it is in chunks */
    TG_LAYER_FAILED = 8   /* no chunks: the slots read as fill value */
};

typedef struct tg_record_rows {
    uint32_t lane, n;
    uint64_t first, slots, frames; /* number of the first row; after the last one */
    tg_bytes a, b;                 /* encoded rows; b: behind the end of the ring */
} tg_record_rows;

typedef struct tg_record_layer {
    uint32_t lane, flags, n_chunks;
    uint64_t layer, shard;
    uint64_t slots, frames;
    const uint8_t *chunks; /* n_chunks of TG_RECORD_CHUNK_BYTES, plane after plane */
} tg_record_layer;

enum { TG_RECORD_CHUNK_BYTES = 32 };
typedef struct tg_record_chunk {
    uint64_t offset, nbytes; /* in the shard; in a ZIP of the value */
    uint32_t sum;            /* crc32c of the stored bytes */
    uint64_t header;         /* ZIP: offset of the entry's local header */
    uint32_t crc32;          /* ZIP */
} tg_record_chunk;
void tg_record_chunk_put(uint8_t *dst, const tg_record_chunk *c);
tg_record_chunk tg_record_chunk_get(const uint8_t *src);

typedef struct tg_record_tail {
    uint32_t lane, sum;
    uint64_t slot, layer, place, offset, nbytes;
} tg_record_tail;

/* Also of TG_RECORD_BEGUN. */
typedef struct tg_record_sealed {
    uint32_t lane,
        flags;      /* TG_LAYER_SIDE: the file lies, or lay until then, beside the store */
    uint64_t shard; /* BEGUN without shards: the layer */
} tg_record_sealed;

typedef struct tg_record_published {
    uint32_t lane;
    uint64_t slots, rows;
} tg_record_published;

typedef struct tg_record_log {
    tg_journal *journal; /* NULL: nothing is written (null sink) */
    tg_mutex lock; /* puts the records in order with what the lanes know of them; held during
                      the write of a full buffer, and never by a producer */
} tg_record_log;

void tg_record_log_init(tg_record_log *log);
void tg_record_log_destroy(tg_record_log *log); /* what was not flushed is abandoned */

/* With the lock held. */
TG_MUST_USE tg_status tg_record_open(tg_record_log *log, const char *json, tg_error *err);
TG_MUST_USE tg_status tg_record_rows_add(tg_record_log *log, const tg_record_rows *r,
                                         tg_error *err);
TG_MUST_USE tg_status tg_record_layer_add(tg_record_log *log, const tg_record_layer *r,
                                          tg_error *err);
TG_MUST_USE tg_status tg_record_tail_add(tg_record_log *log, const tg_record_tail *r,
                                         tg_error *err);
/* covered[lane]: records of that lane before this offset of the journal are durable. */
TG_MUST_USE tg_status tg_record_commit_add(tg_record_log *log, const uint64_t *covered,
                                           uint32_t n_lanes, tg_error *err);
TG_MUST_USE tg_status tg_record_sealed_add(tg_record_log *log, const tg_record_sealed *r,
                                           tg_error *err);
TG_MUST_USE tg_status tg_record_begun_add(tg_record_log *log, const tg_record_sealed *r,
                                          tg_error *err);
TG_MUST_USE tg_status tg_record_published_add(tg_record_log *log, const tg_record_published *r,
                                              tg_error *err);
TG_MUST_USE tg_status tg_record_flush(tg_record_log *log, tg_error *err);
/* What was flushed is durable. Without the lock: others add meanwhile. */
TG_MUST_USE tg_status tg_record_sync(tg_record_log *log, tg_error *err);
uint64_t tg_record_bytes(const tg_record_log *log);

/* --- Reading: payload to struct, checked. TG_CORRUPT: too short, or counts that do not fit. */
TG_MUST_USE tg_status tg_record_rows_read(tg_bytes payload, tg_record_rows *r, tg_error *err);
TG_MUST_USE tg_status tg_record_layer_read(tg_bytes payload, tg_record_layer *r, tg_error *err);
TG_MUST_USE tg_status tg_record_tail_read(tg_bytes payload, tg_record_tail *r, tg_error *err);
/* covered has n_lanes places, which the record must have, too. */
TG_MUST_USE tg_status tg_record_commit_read(tg_bytes payload, uint64_t *covered,
                                            uint32_t n_lanes, tg_error *err);
TG_MUST_USE tg_status tg_record_sealed_read(tg_bytes payload, tg_record_sealed *r,
                                            tg_error *err);
TG_MUST_USE tg_status tg_record_published_read(tg_bytes payload, tg_record_published *r,
                                               tg_error *err);

#endif
