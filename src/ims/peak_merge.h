/* ims/peak_merge.h - sorted runs of peaks in a spill file, and merging them. */
#ifndef TG_IMS_PEAK_MERGE_H
#define TG_IMS_PEAK_MERGE_H

#include "base/sys.h"
#include "exec/exec.h"
#include "ims/peak_sort.h"

typedef struct tg_peak_run {
    uint64_t offset; /* in the file, in bytes */
    uint64_t n;
} tg_peak_run;

/* A file without a name: it is gone when it is closed, also by a kill. */
typedef struct tg_peak_runs {
    tg_fd fd;
    char *path; /* for messages */
    tg_peak_run *at;
    size_t n, cap;
    uint64_t bytes;
} tg_peak_runs;

TG_MUST_USE tg_status tg_peak_runs_open(tg_peak_runs *r, const char *dir, tg_error *err);
TG_MUST_USE tg_status tg_peak_runs_add(tg_peak_runs *r, const tg_peak *peaks, size_t n,
                                       tg_error *err);
void tg_peak_runs_close(tg_peak_runs *r);

/* Memory for merging n_runs runs with that many peaks of each in memory. */
uint64_t tg_peak_merge_bytes(uint64_t n_runs, uint64_t peaks_each);
#define TG_MERGE_LEAST 512 /* peaks of a run in memory: 8 KiB */

/* Called with peaks in order; equal m/z come in the order of the runs. */
typedef tg_status (*tg_peak_sink)(void *user, const tg_peak *peaks, size_t n, tg_error *err);
TG_MUST_USE tg_status tg_peak_merge(const tg_peak_runs *r, uint64_t peaks_each,
                                    tg_peak_sink sink, void *user, const tg_cancel *cancel,
                                    tg_error *err);

#endif
