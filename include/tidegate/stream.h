/* tidegate/stream.h - record frames into Zarr arrays while they arrive.
 *
 * A recorder writes one store with one or more arrays (cameras). Every array has a ring of its
 * own, cut from one arena that is reserved and touched when the recorder opens; the ring is the
 * queue. Appending copies the frame once and returns. Behind it one writer sends chunks to the
 * store and one committer makes them durable, in the order of docs/formats/recording.md: data,
 * journal, index, frame table, shape. A slow disk or codec fills the ring, and the ring being
 * full acts on append (see tg_full_policy) and on nothing else. Memory never grows.
 *
 * What is in the store: for one unnamed array the root group holds the image levels "0", "1",
 * ... and the group "frames"; for named arrays the groups NAME/ hold the same. "frames" is the
 * frame table: 1-D arrays sequence, index, time_device, time_host, status, crc32c and the
 * user's columns, one row per frame offered, lost or skipped.
 *
 * A frame is
 *   accepted   copied into the ring: append has returned
 *   written    its chunk and its journal record were handed to the kernel: survives a kill
 * (after tg_recover()) durable    synced, with a commit record: survives a power cut (after
 * tg_recover()) published  index, frame table and shape cover it: any Zarr reader sees it and
 * each level has a counter in tg_stream_stats.
 *
 * Threads: calls for different arrays may run at once; for one array one thread at a time
 * appends, leases, commits and skips. tg_stream_get_stats(), tg_stream_last_error() and
 * tg_stream_cancel() from any thread at any time. */
#ifndef TG_STREAM_H
#define TG_STREAM_H

#include "tidegate/array.h"
#include "tidegate/cancel.h"
#include "tidegate/progress.h"
#include "tidegate/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_stream tg_stream;

typedef enum tg_frame_status {
    TG_FRAME_OK = 0,
    TG_FRAME_LOST = 1,     /* a gap in the source's numbers: lost before it reached us */
    TG_FRAME_DROPPED = 2,  /* by tg_full_policy: the ring was full */
    TG_FRAME_SKIPPED = 3,  /* tg_stream_skip() */
    TG_FRAME_PARTIAL = 4,  /* incomplete: lost packets (pixels kept), or input that ended inside
                              a frame (a row only) */
    TG_FRAME_FAILED = 5,   /* could not be written */
    TG_FRAME_REPEATED = 6, /* number repeated or going back */
    TG_FRAME_RESET = 7     /* first frame after the source's numbers began anew */
} tg_frame_status;

typedef enum tg_full_policy {
    TG_FULL_BLOCK,       /* append waits, at most timeout seconds */
    TG_FULL_FAIL,        /* append returns TG_BUSY; the recorder goes on */
    TG_FULL_DROP_NEW,    /* the frame offered is dropped */
    TG_FULL_DROP_OLDEST, /* the oldest frames that no stage has begun are dropped */
    TG_FULL_DECIMATE /* while more than half the ring is in use only every K-th frame is kept */
} tg_full_policy;

typedef enum tg_gap_policy {
    TG_GAP_KEEP, /* a frame lies at the index its number says; slots of lost frames read as fill
                    value */
    TG_GAP_COMPACT /* frames lie one after the other; the gap shows in "sequence" only */
} tg_gap_policy;

typedef enum tg_pixel_format {
    TG_PIXEL_PLAIN = 0, /* items of the array's dtype, native-endian unless byte_swapped */
    TG_PIXEL_MONO10P,   /* GenICam PFNC: 10 bits packed, little-endian bit order, to uint16 */
    TG_PIXEL_MONO12P,   /* PFNC: 12 bits packed, to uint16 */
    TG_PIXEL_MONO10_PACKED, /* GigE Vision's own: 2 pixels in 3 bytes, to uint16 */
    TG_PIXEL_MONO12_PACKED
} tg_pixel_format;

typedef enum tg_id_kind {
    TG_ID_NONE,   /* the source has no numbers: the recorder counts */
    TG_ID_64,     /* 64-bit numbers, taken as they are */
    TG_ID_GIGE_16 /* 1..65535, then 1 again; 0 is never sent */
} tg_id_kind;

typedef enum tg_reduce {
    TG_REDUCE_MEAN,
    TG_REDUCE_MIN,
    TG_REDUCE_MAX,
    TG_REDUCE_DECIMATE
} tg_reduce;

/* An outer dimension (time, channel, z, ...), in the order of storage, slowest first. */
typedef struct tg_stream_dim {
    const char *name;
    uint64_t extent;  /* 0: grows without limit (one dimension, the slowest, only) */
    uint64_t arrival; /* place in the order of arrival: 0 changes slowest */
    const char *unit; /* UDUNITS name or NULL */
    double scale;     /* 0: 1 */
} tg_stream_dim;

typedef struct tg_stream_column {
    const char *name;
    tg_dtype dtype; /* integer, float, bool or string */
} tg_stream_column;

typedef struct tg_stream_array {
    size_t size;            /* sizeof(tg_stream_array) */
    const char *name;       /* NULL or "": the root; else a node name, '/' for groups within */
    tg_dtype dtype;         /* of the stored pixels */
    uint64_t height, width; /* items; height 0: frames are lines of `width` items (1-D) */

    /* Layout. */
    bool frame_axis_last;      /* (H, W, N) instead of (N, H, W) */
    const tg_stream_dim *dims; /* NULL: one dimension "t" without limit; at most 5 */
    uint32_t n_dims;
    uint64_t chunk_frames; /* frames of the fastest outer dimension per chunk; 0: one, or for
                              frames below 256 KiB as many as reach 1 MiB */
    uint64_t tile_height, tile_width; /* 0: the whole frame */
    uint64_t shard_bytes;  /* target size; 0: 128 MiB for zarr 3 directories, none elsewhere */
    uint64_t shard_frames; /* exact number of frames instead; 0: by size */
    bool no_shards;        /* one file per chunk */
    bool live; /* index at the start, rewritten at each commit; at most 255 chunks a shard */
    const char *codec;       /* NULL or "none", "zstd:L", "blosc:CNAME:L:SHUFFLE", "gzip:L" */
    bool no_checksum;        /* no crc32c on chunks, no crc column */
    uint32_t pyramid_levels; /* besides level 0 */
    tg_reduce pyramid_method;

    /* Meaning. */
    double scale_y, scale_x;          /* pixel size in `unit`; 0: 1 */
    const char *unit;                 /* of both, UDUNITS; NULL: none */
    const char *const *channel_names; /* for omero metadata; n_channels of them */
    uint32_t n_channels;
    double fps;             /* nominal, metadata only; 0: not known */
    const char *attributes; /* JSON object merged into the group's attributes; NULL: none */
    const tg_stream_column *columns; /* user columns of the frame table */
    uint32_t n_columns;

    /* Flow. */
    tg_full_policy on_full;
    uint32_t decimate; /* K of TG_FULL_DECIMATE */
    double timeout;    /* seconds of TG_FULL_BLOCK; 0: for ever. Passed: append returns
                          TG_TIMED_OUT */
    tg_gap_policy on_gap;
    uint64_t max_gap; /* 0: 10000 */
    tg_id_kind ids;
    double memory_share; /* of the budget left for rings, relative to the other arrays; 0: by
                            frame bytes x fps */
} tg_stream_array;

typedef enum tg_stream_mode {
    TG_STREAM_CREATE,
    TG_STREAM_OVERWRITE,
    TG_STREAM_APPEND
} tg_stream_mode;

typedef struct tg_stream_options {
    size_t size;         /* sizeof(tg_stream_options) */
    const char *path;    /* directory, or x.zip */
    int format;          /* 2 or 3; 0: 3 */
    tg_stream_mode mode; /* CREATE refuses what exists; OVERWRITE refuses what is not a Zarr
                            node; APPEND goes on after the last frame */
    const char *ome; /* "0.5", "0.4", "none"; NULL: 0.5 for format 3, 0.4 for 2, none where NGFF
                        has no form for the layout */
    const char *plate; /* plate and wells as JSON (docs/recording.md): the frames of the one
                          array go to its fields; NULL: none */
    const char *attributes; /* JSON object for the root group; NULL: none */
    double commit_interval; /* seconds; 0: 1 */
    enum { TG_DIRECT_AUTO, TG_DIRECT_ON, TG_DIRECT_OFF } direct;
    const tg_stream_array *arrays;
    uint32_t n_arrays;
    uint64_t memory_bytes; /* of the runtime's budget for this recorder, all of it; 0: rings of
                              64 MiB, or of half a second at the nominal fps if that is more, as
                              far as the budget goes */
    bool null_sink;        /* measure only: everything but the writes */
    tg_progress_fn progress;
    void *progress_user;
} tg_stream_options;

/* What the source knows of one frame. Zero-initialise; NULL in append: all unknown. */
typedef struct tg_frame_meta {
    size_t size; /* sizeof(tg_frame_meta) */
    uint64_t id; /* the source's number; used if the array's ids are not TG_ID_NONE */
    int64_t time_device_ns;     /* the source's clock; INT64_MIN: not known */
    int64_t time_host_ns;       /* UTC since 1970; 0: taken now */
    bool partial;               /* incomplete: pixels are kept, the row is marked */
    const void *const *columns; /* one pointer a user column: to an item of its dtype, or to a C
                                   string; NULL: fill values */
} tg_frame_meta;

/* How a frame lies in the caller's memory. Zero-initialise; NULL in append: dense, native. */
typedef struct tg_frame_layout {
    size_t size;         /* sizeof(tg_frame_layout) */
    int64_t row_pitch;   /* bytes from one row to the next; 0: dense. May be negative */
    int64_t item_stride; /* bytes from one item to the next; 0: dense */
    int64_t frame_pitch; /* bytes from one frame to the next, for count > 1; 0: dense */
    bool byte_swapped;   /* items in the other byte order */
    tg_pixel_format pixels;
} tg_frame_layout;

/* Everything is checked, and what the layout needs is compared with the budget, before anything
 * is written. TG_OVER_BUDGET: with the least budget that would do. TG_EXISTS: mode CREATE and
 * there is something. TG_BUSY: another recorder holds the store's lock (its pid in the
 * message). TG_INCOMPLETE: a journal is left of a run that died: tg_recover() first. The
 * groups, arrays (shape 0) and all metadata are durable on return. */
TG_API TG_MUST_USE tg_status tg_stream_open(tg_runtime *rt, const tg_stream_options *options,
                                            tg_stream **out, tg_error *err);
/* What tg_stream_open() would take of the budget, and the least with which it would not refuse.
 * Writes nothing. */
TG_API TG_MUST_USE tg_status tg_stream_estimate(tg_runtime *rt,
                                                const tg_stream_options *options,
                                                uint64_t *bytes, uint64_t *least,
                                                tg_error *err);

/* Append `count` frames to array `array` (its place in options.arrays).
 *
 * frames   count x height x width items as layout says. Stays the caller's, and may be reused
 * as soon as the call returns. meta     count of them, or NULL. taken    set to the number of
 * frames dealt with (stored, or dropped by policy: see stats), on failure too; may be NULL.
 *
 * Does not allocate, makes no system call but futex wakes unless it has to wait.
 *
 * TG_OK, TG_TIMED_OUT (block), TG_BUSY (fail), TG_INVALID (bytes, columns; a jump beyond
 * max_gap, with both ids), TG_CANCELLED, TG_CLOSED, or the array's first failure, be it of an
 * earlier frame: sticky, with file, offset, errno and frame. */
TG_API TG_MUST_USE tg_status tg_stream_append(tg_stream *s, uint32_t array, const void *frames,
                                              size_t count, const tg_frame_layout *layout,
                                              const tg_frame_meta *meta, size_t *taken,
                                              tg_error *err);
/* One frame at a place of its own: outer dimensions' indexes, in storage order, n_dims of them,
 * and on a plate well and field (counted from 0) behind them.
 * Ahead of the last frame: the slots between read as fill. TG_INVALID: at or behind it (frames
 * already handed out cannot be replaced). */
TG_API TG_MUST_USE tg_status tg_stream_append_at(tg_stream *s, uint32_t array,
                                                 const uint64_t *index, const void *frame,
                                                 const tg_frame_layout *layout,
                                                 const tg_frame_meta *meta, tg_error *err);

/* Zero copy: room for one frame in the ring, which the source fills (a driver's DMA, a
 * decoder). Rows are *row_pitch bytes apart. Waits or fails as append does; with a drop policy
 * *frame may be NULL: dropped. TG_UNSUPPORTED for arrays with tiles, the frame axis last and
 * several frames per chunk, or packed pixels. One lease at a time per array. */
TG_API TG_MUST_USE tg_status tg_stream_lease(tg_stream *s, uint32_t array, void **frame,
                                             size_t *row_pitch, tg_error *err);
TG_API TG_MUST_USE tg_status tg_stream_commit(tg_stream *s, uint32_t array,
                                              const tg_frame_meta *meta, tg_error *err);
TG_API void tg_stream_unlease(tg_stream *s, uint32_t array); /* give the room back unused */

/* Frames that the array still takes, by its dimensions or by the plate's; UINT64_MAX: no end.
 * For the thread that appends. */
TG_API uint64_t tg_stream_room(const tg_stream *s, uint32_t array);

/* Leave out `count` frames: their slots read as fill value and take no disk. reason goes into
 * the log only; may be NULL. */
TG_API TG_MUST_USE tg_status tg_stream_skip(tg_stream *s, uint32_t array, uint64_t count,
                                            const char *reason, tg_error *err);
/* A row for `count` frames that the source lost or that ended before they were whole. */
TG_API TG_MUST_USE tg_status tg_stream_note(tg_stream *s, uint32_t array, uint64_t count,
                                            tg_frame_status status, const tg_frame_meta *meta,
                                            tg_error *err);
/* This array ends here, the others go on: all its frames become durable and published at the
 * next commit. why (may be NULL): the source failed; it becomes the array's error. */
TG_API TG_MUST_USE tg_status tg_stream_end_array(tg_stream *s, uint32_t array,
                                                 const tg_error *why, tg_error *err);

typedef enum tg_level {
    TG_LEVEL_ACCEPTED,
    TG_LEVEL_WRITTEN,
    TG_LEVEL_DURABLE,
    TG_LEVEL_PUBLISHED
} tg_level;
/* Wait until every frame accepted before the call has reached a level. PUBLISHED: partial
 * chunks are written too, padded with fill value, and shards are sealed early only where
 * nothing else publishes. timeout seconds; 0: none. */
TG_API TG_MUST_USE tg_status tg_stream_flush(tg_stream *s, tg_level level, double timeout,
                                             tg_error *err);

#define TG_LATENCY_BUCKETS 64

/* Counters of one array, or of the whole recorder. */
typedef struct tg_stream_stats {
    size_t size; /* sizeof(tg_stream_stats), set by the caller */
    uint64_t offered, accepted, written, durable, published; /* frames */
    uint64_t dropped, lost, skipped, partial, repeated, failed;
    uint64_t shape;         /* published extent of the frame axis */
    uint64_t bytes_in;      /* of pixels accepted */
    uint64_t bytes_written; /* to the store, chunks only */
    uint64_t queue_bytes, queue_bytes_peak,
        queue_bytes_max; /* in the ring now, most, and its size */
    uint64_t stalls;     /* times append had to wait */
    uint64_t stall_ns, stall_ns_max;
    /* Durations of append: bucket i counts those in [2^(i/2), 2^((i+1)/2)) ns. */
    uint64_t append_ns[TG_LATENCY_BUCKETS];
    uint64_t append_ns_max;
    /* Durations of single writes to the store, the same buckets: what the ring has to bridge.
     */
    uint64_t write_ns[TG_LATENCY_BUCKETS];
    uint64_t write_ns_max;
    int64_t time_ns; /* monotonic, when the counters were read */
} tg_stream_stats;
/* array UINT32_MAX: sums over all. Lock-free. */
TG_API void tg_stream_get_stats(const tg_stream *s, uint32_t array, tg_stream_stats *stats);
/* Quantile q in [0, 1] of such a histogram in ns, by interpolation within the bucket; 0 if
 * empty. */
TG_API double tg_latency_quantile(const uint64_t buckets[TG_LATENCY_BUCKETS], double q);

/* The first failure of an array (UINT32_MAX: of any), and the frame it was found at. TG_OK:
 * none. */
TG_API tg_status tg_stream_last_error(const tg_stream *s, uint32_t array, tg_error *err,
                                      uint64_t *frame);
/* Wakes every call that waits; they and all later appends return TG_CANCELLED. What was
 * accepted is still written by close. */
TG_API void tg_stream_cancel(tg_stream *s);

/* One point of the recorder's own time series, taken ten times a second at most and thinned to
 * 2048 points: for reports. */
typedef struct tg_stream_sample {
    double seconds; /* since open */
    uint64_t offered, written, durable, dropped, queue_bytes, memory_bytes, bytes_written;
} tg_stream_sample;

typedef struct tg_stream_report {
    size_t size; /* sizeof(tg_stream_report), set by the caller */
    tg_stream_stats total;
    double seconds;        /* open to close */
    double source_seconds; /* open to the last append */
    uint64_t budget_bytes;
    uint64_t extent[8]; /* published shape of the first array without H, W: outer dimensions */
    tg_stream_sample *samples; /* tg_free(); n_samples of them */
    size_t n_samples;
} tg_stream_report;
/* Write what was accepted, publish it, stamp {complete: true, ...} into the attributes, remove
 * journal and lock. Ends in bounded time also after a failure (frames that are durable are
 * still published), and returns the first failure. report may be NULL; it is filled on failure
 * too. s is freed in any case. */
TG_API TG_MUST_USE tg_status tg_stream_close(tg_stream *s, tg_stream_report *report,
                                             tg_error *err);
/* Free without closing, as a crash would leave it: for callers that are lost anyway. s may be
 * NULL. */
TG_API void tg_stream_free(tg_stream *s);

/* --- After a crash -------------------------------------------------------- */

typedef struct tg_recover_result {
    size_t size;                          /* sizeof(tg_recover_result), set by the caller */
    uint64_t frames_before, frames_after; /* places that the arrays' shapes have for frames, the
                                             product along the frame axes, summed */
    uint64_t repaired; /* files written or cut: 0 if there was nothing to do */
} tg_recover_result;
/* Bring back every frame that was durable, and those written ones whose chunks verify, by the
 * journal beside the store. Idempotent; moves no pixels but those of the tail file. TG_BUSY: a
 * recorder is at work. */
TG_API TG_MUST_USE tg_status tg_recover(tg_runtime *rt, const char *path,
                                        tg_recover_result *result, tg_error *err);

#ifdef __cplusplus
}
#endif
#endif
