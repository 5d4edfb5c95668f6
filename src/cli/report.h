/* cli/report.h - the page that --report writes: one file, no outside resource, for screen
 * (light and dark) and paper. Made from the public time series of a recording or of apply, or
 * from a sweep.
 */
#ifndef TG_CLI_REPORT_H
#define TG_CLI_REPORT_H

#include "tidegate/annotate.h"
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

/* --- An annotation ---------------------------------------------------------------------- */

enum {
    REPORT_BEST = 24,
    REPORT_CURVES = 32,
    REPORT_POINTS = 256,
    REPORT_DOTS = 3000,
    REPORT_BINS = 1000, /* of m/z, of REPORT_BIN u each; what is beyond is in the last */
    REPORT_BIN = 5
};

typedef struct report_ion {
    char ion[128], formula[128], name[128];
    double mz, fdr, msm;
} report_ion;

/* Targets that score as high, against their FDR: of a database and modifier. Thinned out evenly
 * where there are more than there is room for: one point of `step`. */
typedef struct report_curve {
    char name[128];
    double targets[REPORT_POINTS], fdr[REPORT_POINTS];
    size_t n, seen, step;
    double sure; /* targets with FDR <= 0.1 */
} report_curve;

typedef struct report_annotate {
    const char *title, *verdict, *out; /* out: where the images are */
    bool good;
    const tg_annotate_result *result;
    double ppm; /* half width of a window */
    uint64_t rss_bytes, budget_bytes;
    report_ion best[REPORT_BEST];
    size_t n_best;
    report_curve curve[REPORT_CURVES];
    size_t n_curves, curves_seen;
    char last_curve[256];                       /* its database and modifier */
    double mz[REPORT_DOTS], error[REPORT_DOTS]; /* ppm */
    bool sure[REPORT_DOTS];                     /* FDR <= 0.1 */
    size_t n_dots, dots_seen, dot_step;
    uint32_t bin[REPORT_BINS], sure_bin[REPORT_BINS];
    uint64_t rows;
    const report_rows *numbers, *settings;
} report_annotate;

/* What could not be written shows in ferror(f). */
void report_write_record(FILE *f, const report_record *r);
void report_write_sweep(FILE *f, const report_sweep *s);
void report_write_apply(FILE *f, const report_apply *r);
void report_write_annotate(FILE *f, const report_annotate *r);

#endif
