/* cli/report.h - the page that --report writes: one file, no outside resource, for screen
 * (light and dark) and paper. Made from the public time series of a recording or of apply, or
 * from a sweep.
 */
#ifndef TG_CLI_REPORT_H
#define TG_CLI_REPORT_H

#include "tidegate/region.h"
#include "tidegate/stream.h"

#include <stdbool.h>
#include <stdio.h>

enum { REPORT_ROWS = 48, REPORT_SWEEP_ROWS = 512 };

/* A table of two columns. */
typedef struct report_rows {
    size_t n;
    struct {
        char label[48], value[160];
        bool bad; /* shown as a warning */
    } row[REPORT_ROWS];
} report_rows;

TG_PRINTF(3, 4)
void report_row(report_rows *rows, const char *label, const char *fmt, ...);
/* The last row is a warning if `bad`. */
void report_flag(report_rows *rows, bool bad);

/* A recording. */
typedef struct report_record {
    const char *title;   /* the store */
    const char *verdict; /* one sentence */
    bool good;           /* nothing lost, no failure */
    const tg_stream_report *report;
    uint64_t frame_bytes; /* of all sources together, if each offers one frame */
    uint64_t rss_bytes, budget_bytes;
    const report_rows *numbers, *settings;
} report_record;

/* One setting of a sweep, and what came of it. */
typedef struct report_trial {
    uint64_t chunk_frames, shard_bytes; /* shard 0: one file per chunk */
    const char *codec;
    uint32_t threads;
    double mib_per_s, append_p99_us, ratio; /* bytes in / bytes stored */
    uint64_t rss_bytes;
    bool refused; /* does not fit the budget, or cannot be written so */
} report_trial;

typedef struct report_sweep {
    const char *title, *verdict;
    const report_trial *trial;
    size_t n, best;         /* best: its place, n if there is none */
    double floor_mib_per_s; /* plain O_DIRECT writer in the same run; 0: not measured */
    const report_rows *settings;
} report_sweep;

/* A run of apply. */
typedef struct report_apply {
    const char *title, *verdict;
    bool good;
    const tg_apply_report *report;
    uint64_t rss_bytes, budget_bytes;
    const report_rows *numbers, *settings;
} report_apply;

/* What could not be written shows in ferror(f). */
void report_write_record(FILE *f, const report_record *r);
void report_write_sweep(FILE *f, const report_sweep *s);
void report_write_apply(FILE *f, const report_apply *r);

#endif
