/* stream/ring.h - the queue of one array: slabs that its frames are copied into, and the rows
 * that go with them. All memory is the caller's, cut from the recorder's arena; nothing here
 * allocates, does I/O or knows what a pixel is.
 *
 * A slab holds one layer (stream/layout.h). It goes
 *
 *     free -> open (the producer fills it) -> queued -> claimed (a worker has it) -> free
 *
 * Claimed layers leave the queue in its order. Neighbouring slabs are taken in the order of
 * their numbers, so what is queued one after the other mostly lies side by side in memory.
 *
 * Threads: one producer; any number of workers that claim; one writer that takes what is
 * finished; one committer that looks at open slabs and frees rows. One lock guards it all. It
 * is held for a few instructions, once a frame and once a layer, never while copying, waiting
 * for a disk or calling out; a system call is made only to wait, or to wake one that waits. */
#ifndef TG_STREAM_RING_H
#define TG_STREAM_RING_H

#include "base/error.h"
#include "base/mem.h"
#include "base/sync.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TG_NO_SLAB UINT32_MAX

/* How far the array has come: after a frame, a layer, a commit. Only ever grows. */
typedef struct tg_mark {
    uint64_t slots;    /* handed out */
    uint64_t frames;   /* with pixels */
    uint64_t rows;     /* in all */
    uint64_t rows_end; /* position in the rows' ring, in bytes since the start */
} tg_mark;

typedef struct tg_slab {
    uint64_t layer;  /* the producer's count, before `shift` */
    uint32_t filled; /* places done, in order along the chunk */
    uint32_t frames; /* of them with pixels */
    uint32_t pins;   /* someone reads it: not to be reused */
    bool freed;      /* to be freed by the last one who unpins it */
    uint32_t padded; /* places that a padded copy of it had, which is on its way or written */
    bool tailed;     /* frames of it are in the tail file: not to be dropped any more */
    uint8_t *real;   /* a flag a place: it has pixels */
    uint32_t *sums;  /* running crc32c of each chunk of level 0 */
} tg_slab;

/* One layer on its way to the disk. */
typedef struct tg_layer {
    uint64_t number; /* final: after `shift` */
    uint32_t slab;   /* TG_NO_SLAB once an encoder has given it back */
    uint32_t out;    /* what the encoder made, its place; TG_NO_SLAB: nothing */
    uint32_t frames; /* with pixels */
    uint64_t delta;  /* slots by which `shift` moved it: its rows still have the old index */
    bool ready;      /* may be written: encoded, or nothing to encode */
    bool padded;     /* a copy of an open layer: it will come again, whole */
    bool summed;     /* slab's sums are those of its chunks */
    bool failed;     /* the encoder failed: to be counted, not to be written */
    bool covers;     /* with it all slots below mark.slots are in chunks, or have no pixels */
    tg_mark mark;    /* at its end */
} tg_layer;

typedef struct tg_ring {
    tg_mutex lock;
    tg_cond room; /* a slab or rows became free, or the ring was woken */
    uint32_t n_slabs;
    tg_slab *slabs;
    uint32_t *free_ids; /* a queue of n_slabs places */
    uint64_t free_in, free_out;
    uint32_t
        touched; /* slabs handed out by the thread that touches them; the rest is to come */
    _Atomic uint32_t used; /* slabs that are not free */
    tg_layer *layers;      /* a queue of n_layers places */
    uint32_t n_layers;
    uint64_t in, claimed, out; /* out <= claimed <= in */
    tg_mark head;              /* of the producer: what is complete */
    tg_mark popped;            /* of the layer that left last */
    uint64_t layer_slots;      /* slots of a layer, where numbers may be taken over */
    uint64_t shift;            /* dropped layers whose numbers later ones took over */
    uint64_t dropped_frames;   /* in all dropped layers */
    bool woken;                /* cancel or close: nobody waits any more */

    uint8_t *rows;
    uint64_t rows_bytes; /* size of the ring of rows */
    uint64_t row_most;   /* the largest row */
    uint64_t rows_freed; /* position up to which rows are published */
} tg_ring;

void tg_ring_init(tg_ring *r);
void tg_ring_destroy(tg_ring *r);

/* --- The producer ---------------------------------------------------------- */

/* Take a free slab. wait_ns: 0 not at all (TG_BUSY), < 0 for ever, else so long (TG_TIMED_OUT).
 * TG_CANCELLED: the ring was woken. *waited_ns (may be NULL): how long it took. */
TG_MUST_USE tg_status tg_ring_take(tg_ring *r, int64_t wait_ns, uint32_t *slab,
                                   int64_t *waited_ns);
/* A slab that was taken now fills with a layer. */
void tg_ring_open(tg_ring *r, uint32_t slab, uint64_t layer);
/* Take the slab of the oldest layer that nobody has claimed: TG_NOT_FOUND if there is none.
 * Its rows are [*before, layer->mark). shift: later layers take over its number. */
TG_MUST_USE tg_status tg_ring_take_oldest(tg_ring *r, bool shift, tg_layer *layer,
                                          tg_mark *before);
/* The producer has done `filled` places of a slab (TG_NO_SLAB: none, rows only), and all up to
 * `head` is complete. */
void tg_ring_advance(tg_ring *r, uint32_t slab, uint32_t filled, bool pixels, tg_mark head);
/* Hand a full slab over. */
void tg_ring_queue(tg_ring *r, const tg_layer *layer);
/* Hand a padded copy of the first `filled` places of slab `of` over, unless `of` has moved on:
 * TG_CLOSED. */
TG_MUST_USE tg_status tg_ring_queue_copy(tg_ring *r, uint32_t of, uint64_t layer_of,
                                         uint32_t filled, const tg_layer *layer);

/* Room for a row of at most row_most bytes behind *position, which moves over the end of the
 * ring if need be. Waits for rows to be published, as tg_ring_take() does. */
TG_MUST_USE tg_status tg_ring_row(tg_ring *r, int64_t wait_ns, uint64_t *position,
                                  uint8_t **dst);
/* Where the row at or behind a position lies. */
uint64_t tg_ring_row_at(const tg_ring *r, uint64_t position);

/* --- Workers, writer, committer ------------------------------------------- */

/* Claim the oldest unclaimed layer; its place in the queue to *place. False: none. */
bool tg_ring_claim(tg_ring *r, uint64_t *place, tg_layer *layer);
/* A worker has made layer `place` ready. */
void tg_ring_ready(tg_ring *r, uint64_t place, const tg_layer *layer);
/* The next layer in order that is ready, `ahead` layers after the first; not removed. */
bool tg_ring_peek(tg_ring *r, uint32_t ahead, tg_layer *layer);
/* The first n ready layers are done with. */
void tg_ring_pop(tg_ring *r, uint32_t n);
/* A slab is free again. */
void tg_ring_release(tg_ring *r, uint32_t slab);
/* A slab's first time: its memory is there now. */
void tg_ring_add(tg_ring *r, uint32_t slab);
void tg_ring_pin(tg_ring *r, uint32_t slab); /* with the lock held */
void tg_ring_unpin(tg_ring *r, uint32_t slab);
/* A mark of the producer's less what was dropped since; true only while nothing is queued. With
 * the lock held. */
tg_mark tg_ring_settled(const tg_ring *r, tg_mark mark);
/* Of the slabs in `open` (n places) any with pixels. With the lock held. */
bool tg_ring_any_frames(const tg_ring *r, const uint32_t *open, uint64_t n);
/* Nothing is queued or claimed. With the lock held. */
bool tg_ring_is_idle(const tg_ring *r);
/* Rows up to a position are published. */
void tg_ring_free_rows(tg_ring *r, uint64_t position);
/* Nobody waits any more. */
void tg_ring_wake(tg_ring *r);
/* Slabs that are not free. Takes no lock. */
static inline uint32_t tg_ring_in_use(const tg_ring *r)
{
    return atomic_load_explicit(&r->used, memory_order_relaxed);
}

#endif
