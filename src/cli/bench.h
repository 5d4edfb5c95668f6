/* cli/bench.h - what the benchmarks share: a pool of frames, a child process per measurement,
 * the plain writers that are the limit, scratch folders. Measures; knows no scenario. */
#ifndef TG_CLI_BENCH_H
#define TG_CLI_BENCH_H

#include "cli.h"
#include "tidegate/stream.h"

/* --- Frames made before the clock starts ----------------------------------- */

/* Frames of noise without a zero byte, so that nobody may leave them out, or of a camera's
 * kind: a dim image with noise of a few bits, which codecs can shorten. */
typedef struct bench_pool {
    unsigned char *frames;
    size_t n, frame_bytes, bytes;
} bench_pool;

enum { BENCH_POOL_BYTES = 64 << 20 };

typedef enum bench_kind { BENCH_NOISE, BENCH_CAMERA } bench_kind;

/* Touched whole. Holds at most `most` frames. file: raw frames to take instead, NULL: made. */
TG_MUST_USE tg_status pool_new(bench_pool *p, size_t frame_bytes, uint64_t most,
                               bench_kind kind, const char *file, tg_error *err);
void pool_free(bench_pool *p);
/* Frame i of a run, its number in the first 8 bytes. */
const void *pool_frame(bench_pool *p, uint64_t i);

/* Pages of its own, huge ones where there are any, touched; NULL: no memory. */
void *pages_new(size_t bytes);
void pages_free(void *pages, size_t bytes);

/* --- One measurement, in a process of its own ------------------------------- */

typedef struct bench_result {
    tg_status status; /* of the measurement; the rest counts if TG_OK */
    tg_error err;
    double seconds, mib_per_s, frames_per_s;
    uint64_t frames;
    uint64_t rss_bytes_peak, rss_bytes_before; /* before: with the pool, without the writer */
    /* Of a recorder: */
    bool recorder;
    uint64_t published, dropped, stalls, bytes_in, bytes_written;
    double open_seconds, append_us_p50, append_us_p99, append_us_p999, append_us_max;
    double stall_ms_max, write_ms_p99, write_ms_max;
    uint64_t queue_bytes_peak, budget_bytes;
    uint64_t write_ns[TG_LATENCY_BUCKETS];
    double memcpy_us;  /* of one frame; 0: not measured */
    double source_fps; /* what the source reached; 0: not paced */
    /* Of a run over regions: frames are calls. */
    double cpu_seconds, plan_seconds;
    uint64_t in_flight_peak, units_read, units_written;
} bench_result;

typedef void (*bench_fn)(void *arg, bench_result *result);
/* Run fn in a child, so that its memory peak is its own and nothing is left behind. */
void bench_in_child(bench_fn fn, void *arg, bench_result *result);
/* TG_OK, or result->err passed on. */
void bench_result_json(json_out *j, const bench_result *r);
/* The median of n values; sorts them. NaN if n is 0. */
double bench_median(double *values, size_t n);
double bench_now(void); /* seconds, monotonic */
/* Until `at` of bench_now(): sleeps, and spins the last 100 us. */
void bench_sleep_until(double at);

/* --- Scratch ---------------------------------------------------------------- */

/* "DIR/tidegate-bench.PID.N" into room; not there yet. */
void bench_scratch_name(const char *dir, char *room, size_t cap);
/* A file or a folder with all in it; missing is well. */
void bench_remove(const char *path);

/* --- The limit: one plain file ---------------------------------------------- */

typedef struct floor_job {
    const char *dir;
    uint64_t frames;
    size_t frame_bytes, block_bytes;
    uint32_t ring; /* blocks; 1: written by the caller, more: by a thread of its own */
    bool direct;   /* else write(2) a frame at a time, fsync at the end */
} floor_job;

/* All n bytes at offset; 0, or the errno of the write that failed. */
int bench_write_at(int fd, const unsigned char *data, size_t n, off_t offset);

/* A bench_fn; arg is a floor_job. Frames are copied into aligned blocks and written with
 * O_DIRECT (where the file system has none: TG_UNSUPPORTED). Durable at the end. */
void floor_run(void *arg, bench_result *result);

/* --- A recorder's run -------------------------------------------------------- */

typedef struct bench_run {
    const char *dir; /* where the store is made, and removed */
    uint64_t height, width;
    tg_dtype dtype;
    bench_kind kind;
    const char *file; /* raw frames; NULL: made */
    uint64_t frames;
    double fps;            /* 0: as fast as append takes them */
    double seconds;        /* end after so long; 0: never */
    tg_stream_array array; /* layout and flow; size, dtype and extents are filled in */
    uint64_t memory_bytes;
    bool whole_memory; /* the ring takes all of it, not what the recorder likes */
    uint32_t threads;
    bool null_sink, time_memcpy;
    const tg_cancel *cancel;
} bench_run;
/* A bench_fn; arg is a bench_run. */
void recorder_run(void *arg, bench_result *result);

/* A bench_fn; arg is a bench_run: memcpy of the same frames into a ring of memory_bytes. */
void memcpy_run(void *arg, bench_result *result);

/* --- The verbs --------------------------------------------------------------- */

/* bench annotate --generate */
typedef struct bench_generate {
    uint64_t seed, depth, planted, families, noise, fill;
    bool continuous, deflated, zero_based, shuffled;
    int mz, intensity, broken;
} bench_generate;

typedef struct bench_options {
    cli_common common;
    const char *generate, *formats, *parts;
    cli_list db;
    bench_generate made;
    const char *dir, *report, *from;
    cli_list scenario, codec, shard;
    cli_extents shape, chunk_frames, pool_threads;
    tg_dtype dtype;
    uint64_t rounds, frames, bytes;
    bool sweep, quick, alone;
    int sink; /* "disk|tmpfs|null" */
} bench_options;

int bench_limits(cli *c, const bench_options *o);
int bench_record(cli *c, const bench_options *o);
int bench_sweep(cli *c, const bench_options *o);
int bench_annotate(cli *c, const bench_options *o);
int bench_apply(cli *c, const bench_options *o);

/* Members "machine": cpu, cores, memory, kernel, file system of dir, checksum form. */
void bench_machine_json(json_out *j, const char *dir);

#endif
