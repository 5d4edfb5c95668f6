/* region/engine.h - one part of a plan, run in this process.
 *
 * engine.c   what it costs, threads, the end
 * issue.c    the serial step: which region is next, and memory for it
 * load.c     decoded chunks: read once, kept while planned reads are left
 * work.c     one region: gather, call, fold
 * flush.c    a unit whose last region was folded: encode, write, hand to the commit
 * merge.c    units of several parts, from the fragments that the parts have left
 *
 * Pieces are what memory is taken for: decoded chunks of IN, and accumulators, one for each
 * (inner) chunk of OUT that is being written. A region in flight has all its pieces pinned; who
 * issues the next one may evict the others: chunks are dropped (and read again), accumulators
 * go to a swap file. A piece is filled only by one who holds a context, in which everything
 * that filling needs was reserved at the start; nobody waits for a piece while holding one. So
 * whoever runs can end, and with nothing in flight everything can be evicted: no deadlock at
 * the least budget. */
#ifndef TG_REGION_ENGINE_H
#define TG_REGION_ENGINE_H

#include "exec/exec.h"
#include "region/accum.h"
#include "region/border.h"
#include "region/commit.h"
#include "region/mask.h"
#include "region/pad.h"
#include "region/rows.h"
#include "region/swap.h"
#include "store/file_io.h"
#include "zarr/array.h"

/* --- What runs ---------------------------------------------------------------------- */

#define TG_SLOWEST 16
#define TG_SAMPLES 512

typedef struct tg_engine_sample {
    double seconds;
    uint64_t calls, in_flight, bytes_read, bytes_written, memory_bytes, failed;
} tg_engine_sample;

typedef struct tg_engine_slow {
    uint64_t region;
    double seconds;
} tg_engine_slow;

typedef struct tg_engine_result {
    uint64_t regions, calls, failed; /* regions of this part that were run */
    uint64_t units_read, units_written, bytes_read, bytes_written;
    uint64_t spilled_bytes, parked_peak_bytes, saturated, memory_peak, commits;
    uint32_t in_flight_peak;
    uint32_t first_failed; /* position, if failed > 0 */
    char why[512];         /* it failed */
    double seconds;
    tg_engine_sample samples[TG_SAMPLES];
    uint32_t n_samples;
    tg_engine_slow slowest[TG_SLOWEST];
    uint32_t n_slowest;
} tg_engine_result;

typedef struct tg_engine_options {
    tg_runtime *rt;
    const tg_plan *plan;
    tg_array *in, *out; /* out NULL: rows only */
    tg_function *fn;
    const tg_mask *mask;     /* policy mask; the merge needs none */
    tg_row_log *rows;        /* NULL: the function makes none */
    const tg_folder *folder; /* NULL: OUT is no directory; units are put as they come */
    uint32_t part, jobs;
    bool
        in_parts; /* the part is one of several processes': what is shared is left for the merge
                   */
    bool merge;   /* no part, but what all of them, done, have left to fold */
    bool labels;  /* a pass of tg_labels_run(): IN or OUT is its own array, not the plan's */
    bool skip;    /* a region that fails is left out */
    uint32_t retries; /* of a region that fails, before it counts */
    uint64_t
        n_called; /* regions beyond are of tg_base_regions(): never called; 0: all are called */
    tg_progress_fn progress;
    void *progress_user;
} tg_engine_options;

/* Run the part; what an earlier run of it has left is taken up. TG_OK also if regions failed
 * and skip is set. TG_CANCELLED: what was done is committed, and may be taken up.
 * TG_OVER_BUDGET before any work: the message says what is the least. */
TG_MUST_USE tg_status tg_engine_run(const tg_engine_options *options, tg_engine_result *result,
                                    const tg_cancel *cancel, tg_error *err);
/* Bytes that a run takes at least, beside what a region takes while it is in flight
 * (tg_plan_region_bytes()). */
uint64_t tg_engine_fixed_bytes(const tg_array *in, const tg_array *out, tg_policy policy);

/* --- Of the engine's own files --------------------------------------------------------- */

typedef enum piece_state {
    PIECE_EMPTY,
    PIECE_LOADING,
    PIECE_READY,
    PIECE_LEAVING, /* on its way to the swap file */
    PIECE_SWAPPED
} piece_state;

typedef struct piece {
    uint8_t *data;               /* NULL: none yet; by the loader */
    struct piece *newer, *older; /* among those that may be evicted */
    struct piece *chain;         /* of the table of chunks */
    uint64_t key;                /* of a chunk: source and inner chunk */
    uint64_t slot;
    uint32_t sum, pins, left; /* left: of a chunk, planned reads */
    piece_state state;
    bool is_acc, listed, counted; /* counted: its bytes are in memory.used */
} piece;

typedef struct parked_patch {
    uint8_t *data;
    uint64_t bytes;
    uint32_t refs, region;
} parked_patch;

typedef struct parked {
    struct parked *next;
    parked_patch *patch;
    uint32_t rank;
} parked;

typedef struct live_unit {
    uint32_t u, left, next;
    bool ordered, folding, full;
    uint32_t n_inner;
    uint64_t index[TG_MAX_NDIM];
    parked *waiting;
    size_t bytes; /* of this struct */
    piece inner[];
} live_unit;

#define TG_SCRATCH_MORE ((size_t)4096) /* so that a chunk lies as in its block of the file */

/* What one thread needs to fill pieces and to write units. */
typedef struct context {
    struct context *next;
    tg_chain_context *decode_in, *decode_out, *encode;
    uint8_t *scratch;        /* encoded chunk of either, and TG_SCRATCH_MORE bytes */
    uint8_t *encoded;        /* bound of OUT's */
    uint8_t *items;          /* one chunk of OUT */
    uint8_t *acc;            /* one accumulator */
    uint8_t *chunk;          /* one chunk of IN, for regions whose chunks do not fit together */
    tg_shard_entry *entries; /* of the shard read last */
    tg_shard_entry *made;    /* of the shard that is written */
    uint8_t *index;
    const tg_array *entries_of;
    uint64_t entries_unit[TG_MAX_NDIM];
    bool entries_old, entries_none; /* from undo/; there is no such shard */
    tg_appender file;
    uint64_t reserved; /* bytes that the file has room for */
} context;

typedef struct slot {
    struct engine *e;
    uint32_t number;
    tg_thread *thread;
    uint32_t k;
    tg_plan_region r;
    uint8_t *in, *out;
    piece **ins; /* NULL: does not fit; read while it is gathered */
    uint32_t n_ins;
    uint64_t parked_bytes;      /* reserved in case it must be parked */
    bool ins_ready, accs_ready; /* all pieces were filled when the region was issued */
    /* What is added to the result when the region ends. */
    bool running, ran, failed;
    uint32_t calls;
    uint64_t saturated;
    double seconds; /* of the longest call */
    char message[256];
    tg_row_call rows;
    uint32_t unit; /* merge: the only one that is folded into */
} slot;

/* What a part made of a unit that is not only its own. */
typedef struct merge_fragment {
    uint32_t unit, region, part, zero;
    uint64_t offset; /* of its items in the part's border file */
} merge_fragment;

typedef struct engine {
    tg_engine_options o;
    const tg_plan_facts *facts;
    const tg_cancel *cancel;
    tg_accum acc;
    tg_dtype given; /* the function's items */
    tg_pad pad;
    size_t in_bytes, acc_bytes, items_bytes;
    bool list_order, reverse, fresh;
    bool base_input; /* what no region writes is IN's */
    bool in_place;   /* what is written is what is read */
    uint64_t first_unit, end_unit, first, end;
    tg_store *undo_store; /* the folder, to read undo/ from */
    tg_commit *commit;
    tg_commit_past past;
    tg_border *border;
    tg_swap swap;
    tg_budget *budget;
    uint64_t reserved; /* of the budget, for good until the end */
    uint32_t max_ins;
    uint64_t max_in, max_out, max_need, max_records, scratch;
    tg_mutex fold_lock[64];
    live_unit **live;  /* of own units */
    uint32_t *readers; /* in place: unfinished regions that read a unit; else NULL */
    uint32_t *undone;  /* in place: units of a region that are not done */
    uint8_t *failed_bits;
    merge_fragment *fragments; /* merge: by unit, then region */
    uint64_t n_fragments, cap_fragments;

    tg_mutex lock; /* guards all below, the pieces and the live units */
    tg_cond turn;  /* someone else may issue */
    tg_cond room;  /* something was given back */
    tg_cond ready; /* a piece changed its state */
    tg_cond has_context;
    bool issuing, stop;
    tg_error failed;
    uint64_t cursor;
    uint32_t in_flight;
    struct {
        uint64_t limit, used, peak, parked, parked_peak;
    } memory;
    piece **table;
    uint64_t table_mask;
    piece *oldest, *newest;         /* chunks that may be evicted */
    piece *oldest_acc, *newest_acc; /* accumulators */
    context *contexts, *free_context;
    uint32_t n_contexts;
    void *spare_in, *spare_acc; /* chained buffers */
    uint64_t spare_bytes, n_spare_in, n_spare_acc;
    slot *slots;
    uint32_t n_slots;
    tg_engine_result r;
    int64_t began_ns, sampled_ns;
    uint64_t sample_every_ns;
    tg_reporter *reporter;
} engine;

/* Bytes of an item as it is folded: OUT's, and what says whether it is the region's own, behind
 * all of them. */
static inline size_t tg_run_fold_bytes(const engine *e)
{
    return e->acc.dtype.size + (e->facts->policy == TG_POLICY_MASK);
}
/* The first failure wins and stops the run. */
void tg_run_fail(engine *e, const tg_error *err);
context *tg_run_context_get(engine *e); /* waits; NULL: the run is stopped */
void tg_run_context_put(engine *e, context *c);

uint8_t *tg_run_buffer_new(size_t bytes); /* NULL: no memory */
void tg_run_buffer_free(uint8_t *p, size_t bytes);
/* e->lock is held. */
void tg_run_piece_drop(engine *e,
                       piece *p); /* its buffer becomes spare, its bytes are given back */
void tg_run_piece_list(engine *e, piece *p); /* may be evicted from now on */
void tg_run_piece_unlist(engine *e, piece *p);
/* An accumulator that a region is done with. stays: others will fold into it. */
void tg_run_piece_unpin(engine *e, piece *p, bool stays);
void tg_run_sample(engine *e, bool force);

/* Inner chunks of a live unit that region k writes: call fn for each. */
typedef struct touch {
    uint32_t inner;
    tg_box box; /* of the chunk, not clipped */
} touch;
typedef struct touch_walk {
    tg_box cover;
    uint64_t at[TG_MAX_NDIM], origin[TG_MAX_NDIM];
    bool more;
} touch_walk;
void tg_run_touch_begin(const engine *e, touch_walk *w, const uint64_t *unit_index,
                        const tg_plan_region *r);
bool tg_run_touch_next(const engine *e, touch_walk *w, uint32_t k, const tg_plan_region *r,
                       touch *t);
/* Walk the chunks of IN that the region reads, source by source. */
typedef struct chunk_walk {
    const uint32_t *sources;
    uint32_t n, i;
    tg_box read; /* in chunks of IN */
    tg_box cover;
    uint64_t at[TG_MAX_NDIM], origin[TG_MAX_NDIM];
    bool more;
} chunk_walk;

void tg_run_chunks_begin(const engine *e, chunk_walk *w, uint32_t k, const tg_plan_region *r);
/* box: of the chunk, not clipped. */
bool tg_run_chunks_next(const engine *e, chunk_walk *w, uint64_t *key, tg_box *box);

bool tg_run_unit_is_done(const engine *e, uint32_t u);
/* Is unit u one that this part writes by itself? */
bool tg_run_unit_is_own(const engine *e, uint32_t u);

/* The region before is over, and the next one is the slot's. False: none is left, or the run is
 * stopped. */
bool tg_run_issue(engine *e, slot *s);

TG_MUST_USE tg_status tg_run_load_in(engine *e, context *c, uint32_t source, uint32_t inner,
                                     uint8_t *items, tg_error *err);
TG_MUST_USE tg_status tg_run_load_out(engine *e, context *c, const uint64_t *unit_index,
                                      uint32_t inner, uint8_t *items, tg_error *err);
/* What lies below what regions write: OUT as it was, or IN (--base input). */
TG_MUST_USE tg_status tg_run_load_base(engine *e, context *c, const uint64_t *unit_index,
                                       uint32_t inner, uint8_t *items, tg_error *err);
/* Encoded bytes of an old inner chunk of a shard in c->scratch; data NULL: none. */
TG_MUST_USE tg_status tg_run_load_encoded(engine *e, context *c, const tg_array *a,
                                          const uint64_t *unit_index, uint32_t inner,
                                          tg_bytes *out, tg_error *err);
TG_MUST_USE tg_status tg_run_load_pieces(engine *e, slot *s, tg_error *err);
void tg_run_release_pieces(engine *e, slot *s);

TG_MUST_USE tg_status tg_run_run_region(engine *e, slot *s, tg_error *err);
/* An accumulator that region k folds into is there, with what lies below it. */
TG_MUST_USE tg_status tg_run_ready_acc(engine *e, const live_unit *u, uint32_t inner, piece *p,
                                       tg_error *err);
/* The merge: region k and its pieces in s->unit, as tg_run_issue(). */
TG_MUST_USE tg_status tg_run_issue_fragment(engine *e, slot *s, uint32_t k, tg_error *err);
void tg_run_end_fragment(engine *e);
/* patch NULL: the region has failed. *last: the unit is the caller's to flush. */
TG_MUST_USE tg_status tg_run_fold_fragment(engine *e, const slot *s, live_unit *u,
                                           const tg_patch *patch, bool *last, tg_error *err);
uint64_t tg_merge_n_fragments(const tg_plan *p); /* at most */
TG_MUST_USE tg_status tg_merge_prepare(engine *e, tg_error *err);
TG_MUST_USE tg_status tg_merge_run(engine *e, slot *s, tg_error *err);
/* Takes the unit over. */
TG_MUST_USE tg_status tg_run_flush_unit(engine *e, live_unit *u, tg_error *err);

#endif
