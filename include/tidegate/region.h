/* tidegate/region.h - a function over regions of an array, in parallel, each once, exact. */
#ifndef TG_REGION_H
#define TG_REGION_H

#include "tidegate/array.h"
#include "tidegate/cancel.h"
#include "tidegate/plugin.h"
#include "tidegate/progress.h"
#include "tidegate/runtime.h"
#include "tidegate/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is to be done. Zero is the default of every member but `size`, the stores and the
 * function.
 *
 * The function takes effect once for each region; the result is what a loop over the list would
 * give, bit for bit, for any number of threads and parts and after any kill. Pixels that no
 * region writes keep what OUT has (fill value where OUT is made by this run). */
typedef struct tg_apply_options {
    size_t size; /* sizeof(tg_apply_options) */
    /* IN: an array, or an image, of which the first level is meant. */
    tg_store *in_store;
    const char *in_path; /* NULL: "" */
    /* OUT: an array, made like IN if it is not there; store NULL: in place only. An array that
     * is IN, by whatever path, is changed in place: each call sees it as it was before the run.
     */
    tg_store *out_store;
    const char *out_path;
    bool in_place; /* OUT is IN */

    /* The function: one of fn, or a kind and its text: 'o' an operation ("gaussian:sigma=2"),
     * 'p' a plug-in ("FILE.so[:SYM]"), 'e' a command ("CMD {in} {out}"), 'w' a worker ("CMD").
     */
    tg_region_fn fn;
    void *fn_user;
    char kind;
    const char *function;

    /* "FILE.json|csv|geojson|zip|roi", "table:NAME", "grid:SIZE[/STEP]", "labels:PATH". */
    const char *rois;
    const char *px_rule; /* NULL: "ngio" */
    /* NULL: "error". "mask" wants regions with objects: "labels:PATH", a masking table,
     * GeoJSON, ImageJ's. */
    const char *policy;
    /* "fill" (NULL): OUT's content; "input": IN's, for every pixel that no region writes, also
     * of units that none touches (OUT of IN's shape). */
    const char *base;
    const char *read; /* "snapshot" (NULL), "sequential" */
    uint64_t halo[TG_MAX_NDIM];
    /* What a call sees where the halo reaches beyond IN. NULL: nothing, its view ends with the
     * array; else, as numpy.pad has them, "constant[:VALUE]", "edge", "reflect", "symmetric",
     * or "fill", IN's fill value: the view has the whole halo on all sides. */
    const char *pad;
    uint32_t n_halo; /* 1: of the last two axes; else one for each of the last n_halo axes */
    const tg_dtype *dtype; /* of a new OUT; NULL: what the function makes of IN's */
    const char *codec;     /* of a new OUT; NULL: none */

    /* Where rows go that the function makes instead of an array (measure, stats), and then no
     * OUT: "FILE.csv", "FILE.json", or "table:NAME" of IN's image, whose store must have been
     * opened for writing. */
    const char *table;
    const char *table_backend; /* of table:NAME: "anndata" (NULL), "csv", "json" */
    bool table_overwrite;      /* replace a file or table of this name */

    uint32_t jobs;    /* calls at once; 0: threads of the runtime, of an operation twice that */
    bool skip_failed; /* a region whose call fails is left out; else the run ends */
    uint32_t retries; /* of a call that fails */
    uint64_t call_timeout_ms;
    uint64_t commit_interval_ms; /* 0: 1000 */
    bool keep_undo; /* what is replaced stays in `<root>.tidegate/`, for tg_apply_undo() */
    tg_progress_fn progress;
    void *progress_user;
} tg_apply_options;

#define TG_APPLY_SAMPLES 512
#define TG_APPLY_SLOWEST 16
#define TG_APPLY_MISSING 1024

typedef struct tg_apply_sample {
    double seconds; /* since the run began */
    uint64_t calls, in_flight, bytes_read, bytes_written, memory_bytes, failed;
} tg_apply_sample;

/* What a run was. Filled as far as it went, also on failure. */
typedef struct tg_apply_report {
    size_t size; /* sizeof(tg_apply_report), set by the caller */
    uint64_t rois, empty, calls, failed;
    uint64_t units_read, units_written; /* stored units: chunks, or shards */
    uint64_t bytes_read, bytes_written; /* encoded */
    uint64_t spilled_bytes, parked_peak_bytes, saturated, memory_peak_bytes, commits;
    uint32_t in_flight_peak;
    uint64_t first_failed;              /* position of a region that failed, if `failed` */
    char why[512];                      /* it did */
    bool resumed;                       /* an earlier run was taken up */
    bool was_done;                      /* ... which had ended but for the tidying */
    uint64_t not_snapped, clamped;      /* regions: docs/formats/regions.md */
    uint32_t parts;                     /* of the plan; 0: it is a run of one process */
    uint64_t n_missing;                 /* parts that are not done */
    uint32_t missing[TG_APPLY_MISSING]; /* the first of them */
    uint32_t part;                      /* the one that was run; parts: none */
    bool merged;                        /* by this call: it was the last */
    uint64_t table_rows;                /* of the table, if one was written */
    double plan_seconds, seconds;
    tg_apply_sample samples[TG_APPLY_SAMPLES];
    uint32_t n_samples;
    uint64_t slowest_region[TG_APPLY_SLOWEST];
    double slowest_seconds[TG_APPLY_SLOWEST];
    uint32_t n_slowest;
} tg_apply_report;

/* Plan, run, finish. TG_OK also if regions failed and skip_failed is set (report->failed).
 * TG_CANCELLED, or a kill: the same call goes on where it was stopped. TG_INVALID: refused
 * before any work, also where the folder beside OUT holds an unfinished run with other
 * parameters, which the message names. TG_OVER_BUDGET: a region does not fit, both numbers are
 * named. TG_BUSY: another process is at it. TG_UNSUPPORTED, before any work: what is not there
 * yet: read "sequential" in place. TG_EXISTS, too: the table is there. */
TG_API TG_MUST_USE tg_status tg_apply(tg_runtime *rt, const tg_apply_options *options,
                                      tg_apply_report *report, const tg_cancel *cancel,
                                      tg_error *err);

/* The same by several processes. tg_apply_plan() makes OUT, if it is not there, and the plan's
 * file at `path`; tg_apply_run() runs one of its parts, from any machine that sees IN, OUT and
 * the plan under the same paths, and the last to end merges. OUT must be a directory; in place
 * is well. part: "i/n" with i from 0; "auto": the index of a job array or rank in the
 * environment, and where there is none, the next part that is neither done nor a live
 * process's; NULL: only merge. Of the options only jobs and progress count for a run, the rest
 * is in the plan. A part that is done, or a plan that is finished, says so at once
 * (report->was_done): nothing is applied twice. To apply the same once more, plan again.
 *
 * TG_INVALID: another number of parts, IN or OUT is another array than it was, or OUT holds
 * nothing of this plan; of tg_apply_plan(), the folder beside OUT holds a run that has begun.
 * TG_BUSY: a live process has the part ("auto": each that is left), or the merge.
 * TG_INCOMPLETE, of the merge: parts are missing (report). TG_CORRUPT names the file. */
TG_API TG_MUST_USE tg_status tg_apply_plan(tg_runtime *rt, const tg_apply_options *options,
                                           const char *path, uint32_t parts,
                                           tg_apply_report *report, const tg_cancel *cancel,
                                           tg_error *err);
TG_API TG_MUST_USE tg_status tg_apply_run(tg_runtime *rt, const char *path, const char *part,
                                          const tg_apply_options *options,
                                          tg_apply_report *report, const tg_cancel *cancel,
                                          tg_error *err);
/* report->parts, n_missing, missing; was_done: it is finished. */
TG_API TG_MUST_USE tg_status tg_apply_status(tg_runtime *rt, const char *path,
                                             tg_apply_report *report, tg_error *err);

/* Put back what the last run with keep_undo has replaced, finished or not. *n: units.
 * TG_NOT_FOUND: there is nothing to put back. TG_BUSY: a run is at it. */
TG_API TG_MUST_USE tg_status tg_apply_undo(tg_store *out_store, const char *out_path,
                                           uint64_t *n, const tg_cancel *cancel, tg_error *err);

#ifdef __cplusplus
}
#endif
#endif
