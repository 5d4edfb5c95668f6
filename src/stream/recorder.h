/* stream/recorder.h - the recorder's inside, shared by its files.
 *
 *   stream.c     open, close, free               create.c     groups, arrays, append mode
 *   plan.c       what it takes of the budget      options.c    options as JSON and back
 *   append.c     frames in                        producer.c   slots, slabs and rows of a lane
 *   encoder.c    codec and pyramid                writer.c     layers to the store
 *   sink.c       shard files and chunk files      record_log.c records of the journal
 *   committer.c  durable                          publish.c    visible
 *   flush.c      waiting for a level              stats.c      counters and errors
 *   plate.c      fields of a plate                resume.c     append mode
 *   recover*.c   after a crash
 *
 * A *lane* is one array of the options with all that belongs to it. Threads: the producer of
 * each lane (a caller's thread), encoders, one writer, one committer. Data flows one way:
 * lane's ring -> (encoder) -> writer -> committer. What goes back is room: slabs, encoders'
 * buffers, rows, shards. Nobody waits for one behind him while he holds a lock. */
#ifndef TG_STREAM_RECORDER_H
#define TG_STREAM_RECORDER_H

#include "base/clock.h"
#include "base/json.h"
#include "base/side.h"
#include "base/sync.h"
#include "exec/exec.h"
#include "store/store.h"
#include "stream/frame_table.h"
#include "stream/layout.h"
#include "stream/place.h"
#include "stream/record_log.h"
#include "stream/ring.h"
#include "stream/sequence.h"
#include "stream/unpack.h"
#include "zarr/zarr.h"

#include <stdatomic.h>

#define TG_NO_LAYER      UINT64_MAX
#define TG_STREAM_ARRAYS 64  /* arrays of one recorder */
#define TG_BATCH_MOST    64u /* layers in one write */

/* What a recorder leaves in the folder beside the store, by how the names begin: journal, tail
 * files, shards that go on. */
extern const char *const tg_recorder_files[];

/* A counter that threads post to and wait for: no post is lost between a look and a wait. */
typedef struct tg_signal {
    tg_mutex lock;
    tg_cond changed;
    uint64_t count;
} tg_signal;
void tg_signal_init(tg_signal *s);
void tg_signal_destroy(tg_signal *s);
void tg_signal_post(tg_signal *s);
uint64_t tg_signal_seen(tg_signal *s);
/* Until someone has posted since `seen`, or until_ns (< 0: for ever) has come. */
void tg_signal_wait(tg_signal *s, uint64_t seen, int64_t until_ns);

/* --- Plan ------------------------------------------------------------------ */

/* What one lane takes, in bytes of the arena unless said otherwise. */
typedef struct tg_lane_plan {
    tg_layout layout;
    uint32_t n_slabs, n_outs, n_shards;
    uint32_t n_chunks;               /* of a layer, all planes */
    uint32_t first_chunk[TG_PLANES]; /* where those of a plane begin */
    uint32_t batch;                  /* layers that the writer takes at once */
    size_t slab_bytes;               /* all planes of one layer */
    size_t sums_bytes;               /* sums of the chunks of all planes, flags of the places */
    size_t out_bytes;                /* one encoder's output, all planes */
    size_t out_offset[TG_PLANES];
    size_t chunk_bound[TG_PLANES];
    size_t out_sizes_bytes; /* lengths and sums of its chunks */
    size_t entries_bytes;   /* of one shard, all planes */
    size_t index_bytes;     /* the largest encoded index, whole blocks */
    size_t stage_bytes;     /* where the writer packs small or encoded chunks */
    size_t rows_bytes, row_most;
    size_t frame_scratch;    /* one dense frame, for the tail file and leases */
    size_t chunk_records;    /* of one layer, as they are journaled */
    uint64_t contexts_bytes; /* allocated: one encoder's codec contexts and scratch */
    uint64_t table_bytes;    /* allocated by the frame table */
    tg_frame_columns columns;
} tg_lane_plan;

typedef struct tg_plan {
    uint32_t n_lanes, n_encoders;
    tg_lane_plan *lane;
    tg_ome_plate *plate;  /* NULL: none */
    uint64_t plate_bytes; /* that it and its documents take */
    uint64_t total_bytes; /* arena, and what is allocated beside it */
    uint64_t least_bytes; /* with which open would not refuse */
} tg_plan;
/* The options are checked. budget: bytes that may be taken; UINT64_MAX: for an estimate of what
 * would be liked. TG_OVER_BUDGET says the least. */
TG_MUST_USE tg_status tg_stream_plan_make(tg_plan *p, const tg_stream_options *o,
                                          uint32_t threads, uint64_t budget, tg_error *err);
void tg_stream_plan_free(tg_plan *p);

/* --- Lanes ------------------------------------------------------------------ */

/* One shard of all planes: being written, or waiting to be sealed. Guarded by log.lock but for
 * `object` and `end`, which are the writer's until it is full and the committer's after. */
typedef struct tg_shard_file {
    tg_object *object;
    uint64_t end; /* next free byte: a multiple of TG_BLOCK */
    tg_shard_entry *entries;
    bool dirty;       /* written since the last sync began */
    bool index_dirty; /* live: entries since the last commit */
} tg_shard_file;

typedef enum tg_shard_state {
    TG_SHARD_FREE,
    TG_SHARD_MAKING, /* its files are being made, by the writer or ahead by the committer */
    TG_SHARD_READY,  /* made ahead: the writer's next, most likely */
    TG_SHARD_OPEN,
    TG_SHARD_FULL
} tg_shard_state;

typedef struct tg_shard {
    tg_shard_state state;
    bool side; /* goes on a sealed one: written beside the store, renamed over it */
    bool lost; /* a sync failed: never sealed */
    uint64_t number;
    tg_mark mark; /* of its last layer that covers */
    tg_shard_file file[TG_PLANES];
} tg_shard;

/* An encoder's output: all chunks of one layer. */
typedef struct tg_out {
    uint8_t *data;
    uint32_t *sizes, *sums; /* plane after plane, tile after tile */
    bool taken;             /* guarded by the ring's lock */
} tg_out;

typedef struct tg_counters {
    _Atomic uint64_t offered, accepted, written, durable, published;
    _Atomic uint64_t dropped, lost, skipped, partial, repeated, failed;
    _Atomic uint64_t shape, bytes_in, bytes_written, queue_peak;
    _Atomic uint64_t stalls, stall_ns, stall_ns_max;
    _Atomic uint64_t append_ns[TG_LATENCY_BUCKETS], append_ns_max;
    _Atomic uint64_t write_ns[TG_LATENCY_BUCKETS], write_ns_max;
} tg_counters;

typedef struct tg_lane {
    tg_stream *s;
    uint32_t number;
    tg_layout layout;
    tg_lane_plan plan;
    char *path; /* of the group (the plate's), "" the root */
    tg_placer placer;
    tg_ring ring;
    uint8_t *planes[TG_PLANES]; /* slab i of plane p lies at planes[p] + i * layer_bytes */
    tg_counters count;

    /* Options that the flow needs. */
    tg_full_policy on_full;
    uint32_t decimate;
    int64_t timeout_ns; /* < 0: none */
    bool compact;

    /* The producer's. */
    tg_sequence sequence;
    tg_mark mark;
    uint64_t gap_done;  /* of the gap before the frame that was refused last */
    uint64_t decimated; /* frames since one was kept */
    uint32_t *open;     /* ring.lock for writing: slab of each layer that is open, n_open */
    uint32_t n_filling; /* of them in use */
    uint8_t *lease;     /* frame out on lease, or NULL */
    bool lease_dropped; /* the lease that was asked for was refused by policy */
    uint8_t *lease_frame;
    uint8_t *row;         /* one row of pixels, for frames that need conversion */
    uint64_t wrap_end[2]; /* where the rows before a turn of their ring end; even, odd turns */
    bool ended;

    /* Encoders'. */
    tg_out *outs;
    tg_chain *chain[TG_PLANES];

    /* The writer's, unless said otherwise. */
    tg_array_meta *meta[TG_PLANES]; /* everybody's: read-only */
    tg_shard *shards;               /* plan.n_shards */
    tg_shard *current;              /* log.lock for writing */
    uint8_t *stage;
    uint8_t *records;         /* room for the chunk lists of plan.batch layers */
    uint64_t padded_layer;    /* the layer that was written padded last */
    uint64_t sealed_shard;    /* log.lock: a shard that is sealed, but may get more chunks */
    uint64_t next_shard;      /* log.lock: to be made ahead by the committer */
    tg_mark written;          /* log.lock: all below is in chunks, with records in the kernel */
    uint64_t rows_logged_end; /* log.lock: position in the rows' ring */
    uint64_t rows_logged;
    tg_shard *live_pending; /* log.lock: its entries at the last commit are not written */
    tg_shard_entry *live_entries[TG_PLANES]; /* of a live shard at the last commit */

    /* The committer's. */
    tg_array *array[TG_PLANES]; /* NULL in a ZIP, on a plate, and with a null sink */
    tg_frame_table *table;
    tg_mark durable;
    tg_mark in_chunks; /* durable, and no tail file needed for it */
    tg_mark sealed;    /* in shards that are sealed */
    tg_mark absorbed;  /* rows that the table has */
    tg_mark published; /* slots: by shapes; rows and rows_end: by the table */
    uint64_t outer;    /* published extent of the slowest axis; of a plate's first field */
    uint64_t shown;    /* (plate) slots that the shapes of the fields were made of */
    uint64_t covered;  /* offset in the journal up to which the lane's records hold */
    uint8_t *index;    /* room for an encoded index */
    uint8_t *tail_frame;
    int64_t tail_ns; /* when the tail was written last */
    struct tg_tail *tail;
    bool live_late;    /* live, but no direct I/O: published when full */
    bool sync_failed;  /* nothing more of it can be called durable */
    bool table_failed; /* the committer's: nothing more of it is published */
    _Atomic uint64_t durable_rows, published_rows, published_slots; /* for those who flush */
    atomic_bool finishing;  /* end_array: all of it is to be published */
    atomic_bool end_wanted; /* the writer shall end the shard */

    /* Errors. */
    tg_mutex error_lock;
    tg_error error;
    uint64_t error_frame;
    atomic_bool failed;          /* there is an error: the lane takes no more frames */
    atomic_bool failed_to_write; /* it is the recorder's: what is queued is lost */
} tg_lane;

/* Shows its chunks at every commit. */
static inline bool tg_lane_is_live(const tg_lane *n)
{
    return n->layout.live && !n->live_late;
}

/* A group of the store, with the attributes it is made with. */
typedef struct tg_group {
    char *path;
    tg_json *attributes;
} tg_group;

/* --- The recorder ----------------------------------------------------------- */

struct tg_stream {
    tg_runtime *rt;
    uint64_t reserved;
    uint64_t budget_bytes;
    tg_arena arena;
    int format;
    bool zip, null_sink, appends;
    int64_t commit_ns; /* interval */
    char *path;
    tg_store *store;
    tg_side side; /* lock and journal beside the store */
    tg_store *side_store;
    uint32_t n_lanes;
    tg_lane *lanes;
    tg_group *groups; /* "" first */
    uint32_t n_groups;
    tg_ome_plate *plate;  /* of the one lane; NULL: none */
    tg_json *plate_image; /* attributes of each field's group, but for its name */
    tg_record_log log;
    int64_t open_ns;
    _Atomic int64_t last_append_ns;

    tg_thread *toucher, *writer, *committer, **encoder_threads;
    struct tg_encoder *encoders;
    uint32_t n_encoders;
    tg_signal encode, write, commit, progress;
    atomic_bool stop_encoders, stop_writer, stop_committer, abandoned, cancelled;
    _Atomic uint64_t bytes_since_commit;
    _Atomic uint32_t flushes[TG_LEVEL_PUBLISHED + 1]; /* callers that wait for a level */
    atomic_bool commit_wanted; /* the writer has no shard left, or rows fill up */
    atomic_bool closing;
    _Atomic uint64_t commits; /* that have ended */

    /* The committer's. */
    int64_t committed_ns, published_ns;
    struct tg_sampler *sampler;
    tg_reporter *reporter;
};

/* --- append.c, producer.c ---------------------------------------------------- */

/* The lane's failure, TG_CANCELLED, TG_CLOSED: it takes no more frames. */
TG_MUST_USE tg_status tg_lane_check(tg_lane *n, tg_error *err);
/* Room for the frame of a slot: its slab and place. As the policy has it TG_BUSY or
 * TG_TIMED_OUT; with must_wait it waits whatever the policy. */
TG_MUST_USE tg_status tg_lane_room(tg_lane *n, uint64_t slot, bool must_wait, uint32_t *slab,
                                   uint64_t *place, tg_error *err);
/* The slots below `slot` are handed out; those of the open layers that have no pixels are
 * filled. */
TG_MUST_USE tg_status tg_lane_pass(tg_lane *n, uint64_t slot, tg_error *err);
/* Room for a frame's row, the user's values in it already. */
typedef struct tg_lane_row_room {
    uint64_t at;
    uint8_t *dst;
    size_t packed;
} tg_lane_row_room;
TG_MUST_USE tg_status tg_lane_begin_row(tg_lane *n, const tg_frame_meta *meta,
                                        tg_lane_row_room *room, tg_error *err);
/* The frame of the next slot is in its place, and this is its row. */
void tg_lane_done(tg_lane *n, uint32_t slab, uint64_t place, const tg_frame_row *row,
                  const tg_lane_row_room *room);
/* A row without pixels. */
TG_MUST_USE tg_status tg_lane_row(tg_lane *n, const tg_frame_row *row,
                                  const tg_frame_meta *meta, tg_error *err);
/* Queue what is open, padded: only at the end of a lane. */
void tg_lane_finish(tg_lane *n);

/* --- encoder.c, writer.c, sink.c --------------------------------------------- */

typedef struct tg_encoder tg_encoder;
TG_MUST_USE tg_status tg_encoders_start(tg_stream *s, tg_error *err);
void tg_encoders_stop(tg_stream *s);
/* One layer in the caller's thread, with contexts made for it alone. */
TG_MUST_USE tg_status tg_encode_layer(tg_lane *n, tg_layer *layer, tg_error *err);
static inline bool tg_layout_encodes(const tg_layout *l) /* a codec, or a pyramid */
{
    return l->encoded || l->n_planes > 1;
}
static inline bool tg_lane_encodes(const tg_lane *n)
{
    return tg_layout_encodes(&n->layout);
}
void tg_writer_main(void *stream);
bool tg_flush_waits(const tg_stream *s); /* someone waits for a level: do not dally */

/* The shard of a layer is open; one that is done was handed to the committer. TG_BUSY: no place
 * is free until something is published. */
TG_MUST_USE tg_status tg_sink_shard(tg_lane *n, uint64_t layer, tg_error *err);
/* A layer was written: when it is half-way through a shard the committer is asked to make
 * the next one's files. With log.lock held. */
void tg_sink_want_ahead(tg_lane *n, uint64_t layer);
/* The committer's: make them, if that is wanted. */
void tg_sink_make_ahead(tg_lane *n);
/* No more layers come for now: what was made ahead goes. With log.lock held. */
void tg_sink_drop_ahead(tg_lane *n);
/* Write layers that follow each other in one shard, and note their chunks in n->records. *done:
 * how many of them are whole, all unless it fails. */
TG_MUST_USE tg_status tg_sink_layers(tg_lane *n, const tg_layer *layers, uint32_t count,
                                     uint32_t *done, tg_error *err);
/* They are in the journal: enter them into the shard's index. With log.lock held. */
void tg_sink_enter(tg_lane *n, const tg_layer *layers, uint32_t count);
/* Path of a plane's array; image 0 without a plate. */
TG_MUST_USE tg_status tg_plane_path(const tg_lane *n, uint64_t image, uint32_t plane, char *dst,
                                    size_t cap, tg_error *err);
/* Key of a plane's stored unit. */
TG_MUST_USE tg_status tg_sink_shard_key(const tg_lane *n, uint32_t plane, uint64_t shard,
                                        char *dst, size_t cap, tg_error *err);
TG_MUST_USE tg_status tg_sink_chunk_key(const tg_lane *n, uint32_t plane, uint64_t layer,
                                        uint32_t tile, char *dst, size_t cap, tg_error *err);
/* The index of a stored shard to f->entries; *bytes: of the value. */
TG_MUST_USE tg_status tg_sink_read_index(tg_lane *n, uint32_t plane, const char *key,
                                         tg_shard_file *f, uint64_t *bytes, tg_error *err);
/* The end of the chunks of a shard, where the next one goes. */
uint64_t tg_sink_chunks_end(const tg_lane *n, uint32_t plane, const tg_shard_file *f);
/* Name of a shard's file beside the store. */
void tg_sink_side_name(const tg_lane *n, uint32_t plane, uint64_t shard, char *dst, size_t cap);
void tg_shard_reset(tg_lane *n, tg_shard *shard); /* to TG_SHARD_FREE; abandons its files */
enum { TG_KEY_BYTES = 1024 };
/* Rows up to a mark into the journal. With log.lock held. */
TG_MUST_USE tg_status tg_log_rows(tg_lane *n, tg_mark mark, tg_error *err);
/* Rows of frames whose index moved when older layers were dropped, or that could not be
 * written: before they are logged. */
void tg_mend_rows(tg_lane *n, uint64_t from, uint64_t to, uint64_t delta, bool failed);
/* The committer has seen that no more layers of the current shard come for now: to be sealed.
 * With log.lock held. */
void tg_sink_end_shard(tg_lane *n);

/* --- committer.c, publish.c --------------------------------------------------- */

void tg_committer_main(void *stream);
size_t tg_tail_bytes(const tg_layout *l); /* memory that it takes */
void tg_tail_free(tg_lane *n);
/* Put the frames of open layers into the tail file and journal rows and records of them. *mark:
 * how far that makes the lane durable at the next commit; unchanged if layers are under way, or
 * nothing is open. */
TG_MUST_USE tg_status tg_tail_write(tg_lane *n, tg_mark *mark, tg_error *err);
/* What is durable becomes visible. all: whatever it takes, for a flush, the end, or want of
 * room. */
void tg_publish(tg_stream *s, bool all);
/* Is there something that a publish would show? */
bool tg_publish_due(const tg_stream *s);
/* Index and exact length of a full shard's files: whole and durable. */
TG_MUST_USE tg_status tg_seal_files(tg_lane *n, tg_shard *shard, tg_error *err);
/* And into the journal; the shard's place is free again. */
TG_MUST_USE tg_status tg_log_sealed(tg_lane *n, tg_shard *shard, tg_error *err);
/* Durable rows into the frame table, where readers do not see them yet; their ring is free. */
TG_MUST_USE tg_status tg_absorb_rows(tg_lane *n, tg_error *err);
/* Shapes of all planes with the given outer extents. */
TG_MUST_USE tg_status tg_write_shapes(tg_lane *n, const uint64_t *outer, tg_error *err);
/* Something is durable that close could not publish: recover will. */
bool tg_journal_is_needed(const tg_stream *s);
/* At close: attributes, metadata of a ZIP. */
TG_MUST_USE tg_status tg_publish_end(tg_stream *s, tg_error *err);

/* --- options.c ------------------------------------------------------ */

TG_MUST_USE tg_status tg_options_check(const tg_stream_options *o, tg_error *err);
bool tg_path_is_zip(const char *path);
TG_MUST_USE tg_status tg_options_check(const tg_stream_options *o, tg_error *err);
/* The journal's first record: options of the lanes, where each begins, documents of a ZIP. */
TG_MUST_USE tg_status tg_journal_head(const tg_stream *s, const tg_stream_options *o,
                                      char **text, tg_error *err);
/* A recorder without lanes, store and threads; and its lanes, reserved and cut. */
TG_MUST_USE tg_status tg_stream_new(tg_runtime *rt, const char *path, tg_stream **out,
                                    tg_error *err);
TG_MUST_USE tg_status tg_stream_build(tg_stream *s, const tg_stream_options *o, tg_error *err);
/* An open that failed: as if it had never been. */
void tg_stream_discard(tg_stream *s);

/* --- stats.c ------------------------------------------------------------------- */

void tg_count_latency(_Atomic uint64_t *buckets, _Atomic uint64_t *most, uint64_t ns);
static inline void tg_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}
/* The lane's first failure stays; frame: the slot it was found at, UINT64_MAX: none. */
void tg_lane_fail(tg_lane *n, const tg_error *why, uint64_t frame);
/* The source has failed, not the recorder: the lane's error, but what it has is written. */
void tg_lane_source_failed(tg_lane *n, const tg_error *why);
void tg_stream_fail(tg_stream *s, const tg_error *why); /* all lanes */
void tg_sample(tg_stream *s, bool last);
int64_t tg_sample_next(const tg_stream *s); /* when the next one is due */
TG_MUST_USE tg_status tg_sampler_new(tg_stream *s, tg_error *err);
/* A copy of the time series, the caller's. */
TG_MUST_USE tg_status tg_sampler_take(tg_stream *s, tg_stream_sample **samples, size_t *n,
                                      tg_error *err);

#endif
