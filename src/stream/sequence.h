/* stream/sequence.h - from a source's frame numbers to one that counts through: a pure state
 * machine, no memory, no I/O.
 *
 * The sequence number has 64 bits and never wraps. Sources without numbers are counted from 0;
 * 64-bit numbers are taken as they are; GigE's 16-bit ones (1..65535, then 1 again) are
 * unwrapped by step = (id - last) mod 65535. What a step means:
 *
 *   0                          repeated
 *   1 .. max_gap               forward: step - 1 frames are missing before this one
 *   beyond, id is 0 or 1       reset: the source began anew; the sequence goes on at last + 1
 *   beyond, 64 bits, id > last a jump: an error, or with `jumps` a gap as any other
 *   else                       backward
 *
 * Just before a wrap a reset of 16-bit numbers cannot be told from a gap. For them max_gap is
 * at most 32767, half the circle: a larger one would leave no step that goes back. */
#ifndef TG_STREAM_SEQUENCE_H
#define TG_STREAM_SEQUENCE_H

#include "base/error.h"
#include "tidegate/stream.h"

#include <stdbool.h>
#include <stdint.h>

#define TG_DEFAULT_MAX_GAP 10000

typedef enum tg_sequence_event {
    TG_SEQUENCE_OK,       /* the next one; `gap` frames missing before it (0: none) */
    TG_SEQUENCE_REPEATED, /* the number of the frame before */
    TG_SEQUENCE_BACKWARD, /* a number that was passed already */
    TG_SEQUENCE_RESET     /* the source's numbers began anew with this frame */
} tg_sequence_event;

typedef struct tg_sequence_step {
    tg_sequence_event event;
    /* Repeated: last sequence number again. Backward: the one that the id would have had, 0 at
     * least. Else larger than all before. */
    uint64_t sequence;
    /* Only for OK: frames that are missing between the last one in order and this one; frames
     * announced by tg_sequence_skip() are not counted. With 64 bits up to UINT64_MAX - 1. */
    uint64_t gap;
} tg_sequence_step;

/* Copyable; no field is the caller's. */
typedef struct tg_sequence {
    tg_id_kind ids;
    uint64_t max_gap;
    bool jumps;       /* forward steps beyond max_gap are gaps (compact), not errors (keep) */
    bool has_last;    /* last is set */
    bool has_last_id; /* last_id is set */
    uint64_t last;    /* sequence number of the last frame in order */
    uint64_t last_id; /* and its id */
    uint64_t skipped; /* numbers passed over since, by tg_sequence_skip() */
} tg_sequence;

/* max_gap 0: TG_DEFAULT_MAX_GAP. */
void tg_sequence_init(tg_sequence *s, tg_id_kind ids, uint64_t max_gap, bool jumps);
/* The frames up to sequence number `last` were recorded before (append mode, or a camera that
 * was opened again): the next frame is last + 1 whatever its id, and a reset if it has one. */
void tg_sequence_resume(tg_sequence *s, uint64_t last);
/* The next n frames will not be offered (tg_stream_skip(), tg_stream_note()): their numbers are
 * used up. A source with ids may have counted them or not: the frame that follows lies behind
 * them in either case. TG_INVALID: beyond 64 bits. */
TG_MUST_USE tg_status tg_sequence_skip(tg_sequence *s, uint64_t n, tg_error *err);
/* The number that the next frame would have without a gap: that of a row without an id. */
uint64_t tg_sequence_peek(const tg_sequence *s);
/* One frame. id is not looked at for TG_ID_NONE. After a failure the state is as before.
 * TG_INVALID: a jump beyond max_gap (names both ids and max_gap), a 16-bit id above 65535, or
 * a sequence number beyond 64 bits. */
TG_MUST_USE tg_status tg_sequence_next(tg_sequence *s, uint64_t id, tg_sequence_step *step,
                                       tg_error *err);

#endif
