/* stream/recover.h - what the files of recovery share.
 *
 *   recover_model.c   the journal, once: layers, shards, tails
 *   recover.c         what of it is good; rows, in a second replay
 *   recover_mend.c    shards, partial chunks, left-over files, shapes
 *   recover_zip.c     the same in a ZIP
 *   recover_open.c    tg_recover() */
#ifndef TG_STREAM_RECOVER_H
#define TG_STREAM_RECOVER_H

#include "stream/recover_model.h"

/* Where a lane ends. */
typedef struct recovered {
    bool cut; /* the next row's frame is not there: nothing after it counts */
    uint64_t rows, slots, frames;
} recovered;

typedef struct recovery {
    tg_stream *s; /* lanes, store and arena, without threads and journal */
    tg_model model;
    recovered *lane;
    int zip_fd; /* to read entries before they are adopted; -1: no ZIP */
    tg_recover_result *result;
} recovery;

TG_MUST_USE tg_status tg_recover_run(recovery *r, tg_error *err);
TG_MUST_USE tg_status tg_recover_open_tail(tg_lane *n, int *fd, tg_error *err);

/* Seal the shards that were begun, with the chunks that count; those with none are removed. */
TG_MUST_USE tg_status tg_recover_shards(recovery *r, tg_lane *n, tg_found_lane *f,
                                        tg_error *err);
/* Make chunks of the frames that only the tail file has. */
TG_MUST_USE tg_status tg_recover_tail(recovery *r, tg_lane *n, tg_found_lane *f, tg_error *err);
/* Remove chunks that were begun and do not count. */
TG_MUST_USE tg_status tg_recover_leftovers(recovery *r, tg_lane *n, tg_found_lane *f,
                                           tg_error *err);
TG_MUST_USE tg_status tg_recover_shape(recovery *r, tg_lane *n, uint64_t slots, tg_error *err);
TG_MUST_USE tg_status tg_recover_levels(recovery *r, tg_lane *n, const uint64_t *outer,
                                        tg_error *err);
/* Published extent of the slowest dimension, and the frames that the shape has. */
TG_MUST_USE tg_status tg_recover_outer(tg_lane *n, uint64_t *outer, uint64_t *frames,
                                       tg_error *err);

bool tg_recover_zip_entry_is_good(recovery *r, tg_lane *n, const tg_record_layer *layer);
TG_MUST_USE tg_status tg_recover_zip_adopt(recovery *r, tg_bytes payload, tg_error *err);
TG_MUST_USE tg_status tg_recover_zip_end(recovery *r, tg_error *err);

#endif
