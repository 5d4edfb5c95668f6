/* cli/annotate_report.c - fills the HTML report of an annotation, from its result and from the
 * tables that it wrote. */
#include "annotate.h"
#include "csv_rows.h"
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SURE 0.1 /* FDR up to which an annotation is shown as sure */

/* --- annotations.csv -------------------------------------------------------------------- */

/* Columns of TG_ANNOTATION_COLUMNS; docs/formats/annotate.md. */
enum { A_FORMULA = 1, A_ION = 5, A_MZ = 6, A_FDR = 7, A_MSM = 8, A_ERROR = 13, A_NAMES = 18 };

static bool is_better(const report_ion *x, const report_ion *y)
{
    const double a = isnan(x->fdr) ? 2 : x->fdr, b = isnan(y->fdr) ? 2 : y->fdr;
    return a != b ? a < b : x->msm > y->msm;
}

/* An ion of several databases is shown once. */
static void keep_best(report_annotate *r, const report_ion *ion)
{
    size_t at = r->n_best;
    for (size_t i = 0; i < r->n_best; i++)
        if (strcmp(r->best[i].ion, ion->ion) == 0)
            return;
    while (at > 0 && is_better(ion, &r->best[at - 1]))
        at--;
    if (at == REPORT_BEST)
        return;
    r->n_best += r->n_best < REPORT_BEST;
    memmove(&r->best[at + 1], &r->best[at], (r->n_best - at - 1) * sizeof *ion);
    r->best[at] = *ion;
}

/* Every step-th point; when the room is full every second one goes. */
static void keep_dot(report_annotate *r, double mz, double error, bool sure)
{
    if (r->dots_seen++ % r->dot_step != 0)
        return;
    if (r->n_dots == REPORT_DOTS) {
        for (size_t i = 0; i < REPORT_DOTS / 2; i++) {
            r->mz[i] = r->mz[2 * i];
            r->error[i] = r->error[2 * i];
            r->sure[i] = r->sure[2 * i];
        }
        r->n_dots = REPORT_DOTS / 2;
        r->dot_step *= 2;
    }
    r->mz[r->n_dots] = mz;
    r->error[r->n_dots] = error;
    r->sure[r->n_dots++] = sure;
}

static void take_row(report_annotate *r, const csv_rows *row)
{
    report_ion ion = {.mz = csv_rows_number(row, A_MZ),
                      .fdr = csv_rows_number(row, A_FDR),
                      .msm = csv_rows_number(row, A_MSM)};
    const double error = csv_rows_number(row, A_ERROR);
    const bool sure = ion.fdr <= SURE;

    (void)snprintf(ion.ion, sizeof ion.ion, "%s", csv_rows_text(row, A_ION));
    (void)snprintf(ion.formula, sizeof ion.formula, "%.127s", csv_rows_text(row, A_FORMULA));
    const char *names = csv_rows_text(row, A_NAMES);
    (void)snprintf(ion.name, sizeof ion.name, "%.*s",
                   (int)(strstr(names, " | ") != NULL ? strstr(names, " | ") - names : 120),
                   names);
    if (!(ion.mz > 0) || !isfinite(ion.mz) || !isfinite(ion.msm))
        return;
    keep_best(r, &ion);
    if (isfinite(error))
        keep_dot(r, ion.mz, error / ion.mz * 1e6, sure);
    const double bin = fmin(ion.mz / REPORT_BIN, REPORT_BINS - 1);
    r->bin[(size_t)bin]++;
    r->sure_bin[(size_t)bin] += sure;
    r->rows++;
}

static void read_annotations(report_annotate *r, const char *name)
{
    static csv_rows rows; /* large */
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", r->out, name);
    if (n < 0 || (size_t)n >= sizeof path || !csv_rows_open(&rows, path))
        return;
    bool header = true;
    for (; csv_rows_next(&rows); header = false)
        if (!header)
            take_row(r, &rows);
    csv_rows_close(&rows);
}

/* --- fdr_curve.csv --------------------------------------------------------------------------
 */

enum { C_DATABASE, C_MODIFIER, C_MSM, C_TARGETS, C_DECOYS, C_FDR };

static void add_point(report_curve *c, double targets, double fdr)
{
    if (fdr <= SURE)
        c->sure = targets;
    if (c->seen++ % c->step != 0)
        return;
    if (c->n == REPORT_POINTS) {
        for (size_t i = 0; i < REPORT_POINTS / 2; i++) {
            c->targets[i] = c->targets[2 * i];
            c->fdr[i] = c->fdr[2 * i];
        }
        c->n = REPORT_POINTS / 2;
        c->step *= 2;
    }
    c->targets[c->n] = targets;
    c->fdr[c->n++] = fdr;
}

static void take_point(report_annotate *r, const csv_rows *row)
{
    char name[256];
    const double targets = csv_rows_number(row, C_TARGETS), fdr = csv_rows_number(row, C_FDR);

    (void)snprintf(name, sizeof name, "%.120s %.120s", csv_rows_text(row, C_DATABASE),
                   csv_rows_text(row, C_MODIFIER));
    if (r->curves_seen == 0 || strcmp(name, r->last_curve) != 0) {
        (void)snprintf(r->last_curve, sizeof r->last_curve, "%s", name);
        if (r->curves_seen++ < REPORT_CURVES) {
            report_curve *c = &r->curve[r->n_curves++];
            *c = (report_curve){.step = 1};
            (void)snprintf(c->name, sizeof c->name, "%.127s", name);
        }
    }
    if (r->curves_seen <= REPORT_CURVES && isfinite(targets) && isfinite(fdr))
        add_point(&r->curve[r->n_curves - 1], targets, fdr);
}

static void read_curves(report_annotate *r)
{
    static csv_rows rows; /* large */
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/fdr_curve.csv", r->out);
    if (n < 0 || (size_t)n >= sizeof path || !csv_rows_open(&rows, path))
        return;
    bool header = true;
    for (; csv_rows_next(&rows); header = false)
        if (!header)
            take_point(r, &rows);
    csv_rows_close(&rows);
}

/* --- Words
 * ------------------------------------------------------------------------------------
 */

static void fill_numbers(report_rows *rows, const tg_annotate_result *r)
{
    char text[24];

    report_row(rows, "spectra", "%" PRIu64, r->spectra);
    report_row(rows, "pixels", "%" PRIu64, r->pixels);
    report_row(rows, "peaks", "%" PRIu64, r->peaks);
    report_row(rows, "the .ibd ends early", "%s", r->cut_data ? "yes" : "no");
    report_flag(rows, r->cut_data);
    report_row(rows, "formulas", "%" PRIu64, r->formulas);
    report_row(rows, "ions, decoys included", "%" PRIu64, r->ions);
    for (uint32_t d = 0; d < r->n_databases && d < 16; d++)
        report_row(rows, r->database_name[d],
                   "%" PRIu64 " at FDR 5 %%, %" PRIu64 " at 10 %%, %" PRIu64
                   " at 20 %%, %" PRIu64 " at 50 %%",
                   r->database_annotated[d][0], r->database_annotated[d][1],
                   r->database_annotated[d][2], r->database_annotated[d][3]);
    report_row(rows, "rows written", "%" PRIu64, r->rows);
    report_row(rows, "images written", "%" PRIu64, r->images);
    report_row(rows, "segments of sorted peaks read", "%" PRIu64, r->segments);
    report_row(rows, "requests", "%" PRIu64, r->requests);
    report_row(rows, "spilled to the disk", "%s",
               cli_bytes_text(r->spilled_bytes, text, sizeof text));
    report_row(rows, "peaks sorted before", "%s", r->sorted_before ? "yes" : "no");
    report_row(rows, "done", "%.1f %%", 100 * r->fraction_done);
    report_flag(rows, r->fraction_done < 1);
    report_row(rows, "sort, score, rank, images", "%.3f, %.3f, %.3f, %.3f s", r->sort_seconds,
               r->score_seconds, r->rank_seconds, r->image_seconds);
    report_row(rows, "took", "%.3f s", r->seconds);
}

static void fill_settings(report_rows *rows, const cli *c, const annotate_options *o,
                          const tg_annotate_options *q)
{
    static const char *const instruments[] = {"orbitrap", "tof", "fticr"};
    char text[24];

    report_row(rows, "data", "%.150s", cli_shown(c, 0));
    report_row(rows, "OUT", "%.150s", q->out);
    for (size_t d = 0; d < q->n_databases && d < 8; d++)
        report_row(rows, "database", "%.150s", q->databases[d]);
    report_row(rows, "adducts", "%.150s", o->adducts != NULL ? o->adducts : "as usual");
    report_row(rows, "neutral losses", "%.150s", o->losses != NULL ? o->losses : "none");
    report_row(rows, "modifications", "%.150s", o->mods != NULL ? o->mods : "none");
    report_row(rows, "procedure", "v%d%s", q->version, q->fixed ? ", fixed" : "");
    report_row(rows, "instrument", "%s", instruments[o->instrument]);
    if (q->resolving_power > 0)
        report_row(rows, "resolving power", "%g at m/z %g", q->resolving_power, q->power_mz);
    else
        report_row(rows, "sigma at m/z 200", "%g u", q->sigma > 0 ? q->sigma : .001238);
    report_row(rows, "window", "%g ppm", q->ppm > 0 ? q->ppm : 3.0);
    report_row(rows, "decoys", "%u of a target, seed %u", q->decoys > 0 ? q->decoys : 20,
               q->seed);
    if (q->n_parts > 0)
        report_row(rows, "part", "%u of %u", q->part, q->n_parts);
    report_row(rows, "memory ceiling", "%s",
               cli_bytes_text(c->common->memory, text, sizeof text));
}

static void verdict(const cli *c, const tg_annotate_result *r, char *words, size_t cap)
{
    if (c->err.code != TG_OK)
        (void)snprintf(words, cap, "Not done: %.400s", c->err.msg);
    else if (r->late)
        (void)snprintf(words, cap,
                       "The deadline came after %.1f %% of the ions; --resume goes on.",
                       100 * r->fraction_done);
    else if (!r->whole)
        (void)snprintf(words, cap, "This part is done; others are not.");
    else if (r->cut_data)
        (void)snprintf(words, cap, "Every ion was scored, in data that end early.");
    else
        (void)snprintf(words, cap, "Every ion was scored.");
}

tg_status annotate_write_report(cli *c, const annotate_options *o,
                                const tg_annotate_options *request, const tg_annotate_result *r,
                                tg_error *err)
{
    static report_rows numbers, settings; /* large, and there is one of each */
    static report_annotate page;
    char words[512];

    numbers.n = settings.n = 0;
    page = (report_annotate){.title = request->out,
                             .verdict = words,
                             .out = request->out,
                             .good = c->err.code == TG_OK && r->whole && !r->cut_data,
                             .result = r,
                             .ppm = request->ppm > 0 ? request->ppm : 3,
                             .rss_bytes = cli_rss_peak(),
                             .budget_bytes = c->common->memory,
                             .dot_step = 1,
                             .numbers = &numbers,
                             .settings = &settings};
    fill_numbers(&numbers, r);
    fill_settings(&settings, c, o, request);
    verdict(c, r, words, sizeof words);
    if (r->whole || r->late)
        read_annotations(&page, r->whole ? "annotations.csv" : "annotations.partial.csv");
    if (r->whole)
        read_curves(&page);
    FILE *f = fopen(o->report, "we");
    if (f == NULL)
        return cli_fail_errno(err, o->report, "write");
    report_write_annotate(f, &page);
    const bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad)
        return cli_fail_errno(err, o->report, "write");
    return TG_OK;
}
