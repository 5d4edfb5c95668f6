/* stream/recover_model.h - what a journal says was in the store when its recorder died. Made by
 * one replay; knows files only by the journal. */
#ifndef TG_STREAM_RECOVER_MODEL_H
#define TG_STREAM_RECOVER_MODEL_H

#include "exec/exec.h"
#include "stream/options.h"
#include "stream/record_log.h"

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
    bool goes_on;    /* it was sealed before, and has chunks that are not in this list */
    bool done;       /* mended */
    uint8_t *chunks; /* shard_chunks records of TG_RECORD_CHUNK_BYTES, plane after plane;
                        nbytes UINT64_MAX: none */
} tg_found_shard;

typedef struct tg_found_tail {
    tg_record_tail record;
    uint64_t at;
    bool good;
} tg_found_tail;

/* An array of items that grows, under the budget. */
typedef struct tg_list {
    void *items;
    size_t n, cap, size;
} tg_list;

typedef struct tg_found_lane {
    tg_read_options options;
    tg_layout layout;
    uint64_t base_slots, base_rows; /* where the recorder began */
    uint64_t rows, slots, frames;   /* committed */
    uint64_t chunk_slots;           /* committed, and in chunks */
    uint64_t sealed;                /* number of the shard sealed last; TG_NO_LAYER: none */
    tg_list layers, shards, tails;  /* tg_found_... */
    tg_list rows_seen;              /* uncommitted tg_record_rows with offsets: internal */
    tg_list begun; /* layers (u64) of unsharded arrays, not known to be whole */
} tg_found_lane;

typedef struct tg_model {
    tg_json *head;
    int format;
    bool zip, same_boot;
    const char *plate_file; /* as its user wrote it, the head's; NULL: no plate */
    tg_ome_plate *plate;
    uint32_t n_lanes;
    tg_found_lane *lanes;
    tg_budget *budget;
    uint64_t reserved, used; /* of the budget; of that */
} tg_model;

/* TG_CORRUPT, TG_UNSUPPORTED: nothing can be recovered from such a journal. TG_OVER_BUDGET,
 * with both numbers: what it says does not fit. */
TG_MUST_USE tg_status tg_model_read(tg_model *m, tg_budget *budget, int dir, const char *name,
                                    tg_error *err);
void tg_model_free(tg_model *m);

/* Chunks of a shard: index of a plane's entry in tg_found_shard.chunks. */
uint8_t *tg_found_chunk(const tg_layout *l, const tg_found_shard *s, uint32_t plane,
                        uint64_t entry);
/* Enter the chunks of a layer into its shard. */
TG_MUST_USE tg_status tg_found_enter(tg_found_lane *n, const tg_record_layer *r, tg_error *err);
tg_found_shard *tg_found_shard_of(tg_found_lane *n, uint64_t number);

#endif
