/* cli/bench_regions.h - what `bench apply` measures, one run each, in a process of its own: the
 * engine over regions, and what it is compared with. Knows no scenario. */
#ifndef TG_CLI_BENCH_REGIONS_H
#define TG_CLI_BENCH_REGIONS_H

#include "bench.h"
#include "tidegate/region.h"

/* A square uint16 array for the runs to read: a dim image with noise of 6 bits. */
typedef struct regions_array {
    const char *path; /* of the store, a directory; the array is its root */
    uint64_t extent, chunk;
    const char *codec;
    const tg_cancel *cancel;
} regions_array;

/* A bench_fn; arg is a regions_array. */
void regions_make(void *arg, bench_result *result);

typedef struct regions_run {
    const regions_array *in;
    const char *out;      /* store or file that is made, and removed; NULL: in place */
    const char *rois;     /* as --rois */
    const char *policy;   /* NULL: error */
    const char *function; /* an operation; NULL: fn */
    tg_region_fn fn;
    const char *codec; /* of OUT */
    uint64_t memory_bytes;
    uint32_t threads, jobs;
    /* Of the contenders that are no runs of the engine: */
    uint64_t roi, step;         /* the grid */
    size_t read_bytes, written; /* the copier: of one block */
} regions_run;

/* bench_fns; arg is a regions_run. */
void regions_run_engine(void *arg, bench_result *result);
/* The same grid over an array in memory, one after the other: copy out, add 2, copy back. What
 * a loop costs that has no file, no order and no other thread. `in` is not read. */
void regions_run_loop(void *arg, bench_result *result);
/* A plain copier with O_DIRECT: a thread reads blocks of read_bytes, another writes the first
 * `written` bytes of each, from a ring of four; frames of them. Durable at the end. */
void regions_run_copier(void *arg, bench_result *result);
/* The codec alone: every chunk of `in` is read, and a uint8 chunk of it written, by as many
 * threads that have nothing in common. Where `in` and `out` are in memory (tmpfs), what is left
 * is the codec and a copy. */
void regions_run_codec(void *arg, bench_result *result);

#endif
