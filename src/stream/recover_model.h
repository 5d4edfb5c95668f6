/* stream/recover_model.h - what a journal says was in the store when its recorder died. Made by
 * one replay; knows files only by the journal. */
#ifndef TG_STREAM_RECOVER_MODEL_H
#define TG_STREAM_RECOVER_MODEL_H

#include "stream/options.h"
#include "stream/record_log.h"
#include "stream/recover_memory.h"

/* A layer that no commit covers, or one of a ZIP. */
typedef struct tg_found_layer {
    tg_record_layer record; /* chunks are owned */
    uint64_t at;            /* offset of its record */
    bool good;              /* committed, or verified */
} tg_found_layer;

/* A shard that was begun and not sealed. */
typedef struct tg_found_shard {
    uint64_t number;
    bool side;
    bool used;       /* a layer went into it */
    bool goes_on;    /* it was sealed before, and has chunks that are not in this list */
    uint8_t *chunks; /* shard_chunks records of TG_RECORD_CHUNK_BYTES, plane after plane;
                        nbytes UINT64_MAX: none */
} tg_found_shard;

typedef struct tg_found_tail {
    tg_record_tail record;
    uint64_t at;
    uint64_t before; /* while the journal is read: one more than the place of the layer's last
                        frame before it; 0: none */
    bool good;
    bool dead; /* while the journal is read: its layer is whole */
} tg_found_tail;

typedef struct tg_found_lane {
    tg_read_options options;
    tg_layout layout;
    uint64_t base_slots, base_rows; /* where the recorder began */
    uint64_t rows, slots, frames;   /* committed */
    uint64_t chunk_slots;           /* committed, and in chunks */
    uint64_t sealed;                /* number of the shard sealed last; TG_NO_LAYER: none */
    uint64_t covered;               /* records before this offset are durable */
    tg_list layers, shards;         /* tg_found_layer, in order; tg_found_shard, by number */
    tg_list tails;                  /* tg_found_tail, by layer, then in order */
    tg_map begun; /* layers of unsharded arrays, not known to be whole, to how often */
    tg_map known; /* layers to TG_KNOWN_...: made by tg_model_index() */
    tg_map tail_slots, tail_shards; /* those with a good frame in the tail: the same */
    /* While the journal is read. */
    size_t layers_done, rows_done, tails_done, tails_dead; /* items at the front */
    tg_list rows_seen;                                     /* uncommitted rows */
    tg_map shard_at, tail_at; /* shard, layer to one more than its place in the list */
} tg_found_lane;

enum {
    TG_KNOWN_GOOD = 1,  /* some layer of this number is committed, or verified */
    TG_KNOWN_MADE = 2,  /* and did not fail */
    TG_KNOWN_WHOLE = 4, /* and has all its frames */
};

typedef struct tg_model {
    tg_json *head;
    int format;
    bool zip, same_boot;
    const char *plate_file; /* as its user wrote it, the head's; NULL: no plate */
    tg_ome_plate *plate;
    uint32_t n_lanes;
    tg_found_lane *lanes;
    tg_room room;
} tg_model;

/* TG_CORRUPT, TG_UNSUPPORTED: nothing can be recovered from such a journal. TG_OVER_BUDGET,
 * with both numbers: what it says does not fit. */
TG_MUST_USE tg_status tg_model_read(tg_model *m, tg_budget *budget, int dir, const char *name,
                                    tg_error *err);
/* Once it is known which layers and tail frames are good: the maps by which they are found. */
TG_MUST_USE tg_status tg_model_index(tg_model *m, tg_found_lane *n, tg_error *err);
void tg_model_free(tg_model *m);

/* Chunks of a shard: index of a plane's entry in tg_found_shard.chunks. */
uint8_t *tg_found_chunk(const tg_layout *l, const tg_found_shard *s, uint32_t plane,
                        uint64_t entry);
/* Enter the chunks of a layer into its shard. */
TG_MUST_USE tg_status tg_found_enter(tg_found_lane *n, const tg_record_layer *r, tg_error *err);
tg_found_shard *tg_found_shard_of(tg_found_lane *n, uint64_t number);

#endif
