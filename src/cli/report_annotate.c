/* cli/report_annotate.c - the report of an annotation: images of the best, FDR curves, mass
 * errors, m/z, time and memory of each stage. */
#include "chart.h"
#include "report_page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MIB         1048576.0
#define MOST_PNG    ((uint64_t)16 << 20) /* of images in one page */
#define MOST_CURVES 6
#define STAGES      4

static const char *const colours[MOST_CURVES] = {"in", "out", "queue", "mem", "four", "five"};

/* --- Images ----------------------------------------------------------------------------- */

/* From dark blue over green to yellow, at tenths of the grey value. */
static void colour_map(FILE *f)
{
    (void)fputs(
        "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\">"
        "<filter id=\"colours\" color-interpolation-filters=\"sRGB\"><feComponentTransfer>"
        "<feFuncR type=\"table\" tableValues=\".27 .28 .25 .21 .16 .13 .14 .27 .48 .74 .99\"/>"
        "<feFuncG type=\"table\" tableValues=\"0 .14 .27 .37 .47 .57 .66 .75 .82 .87 .91\"/>"
        "<feFuncB type=\"table\" tableValues=\".33 .46 .53 .55 .56 .55 .52 .44 .32 .15 .14\"/>"
        "</feComponentTransfer></filter></svg>\n",
        f);
}

static void base64(FILE *f, const unsigned char *p, size_t n)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const unsigned b = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) |
                           (i + 2 < n ? p[i + 2] : 0);
        const char four[4] = {digits[b >> 18], digits[b >> 12 & 63],
                              i + 1 < n ? digits[b >> 6 & 63] : '=',
                              i + 2 < n ? digits[b & 63] : '='};
        (void)fwrite(four, 1, sizeof four, f);
    }
}

/* The file as an image of the page, if it is there and fits *room. */
static bool picture(FILE *f, const char *path, const char *alt, uint64_t *room)
{
    unsigned char block[3 * 1024];
    FILE *png = fopen(path, "re");
    if (png == NULL)
        return false;
    long bytes = fseek(png, 0, SEEK_END) == 0 ? ftell(png) : -1;
    const bool fits = bytes > 0 && (uint64_t)bytes <= *room && fseek(png, 0, SEEK_SET) == 0;
    if (fits) {
        *room -= (uint64_t)bytes;
        (void)fputs("<img alt=\"", f);
        html_text(f, alt);
        (void)fputs("\" src=\"data:image/png;base64,", f);
        for (size_t n; (n = fread(block, 1, sizeof block, png)) > 0;)
            base64(f, block, n);
        (void)fputs("\">", f);
    }
    (void)fclose(png);
    return fits;
}

static void caption(FILE *f, const report_ion *a)
{
    char line[96];
    (void)fputs("<figcaption><b>", f);
    html_text(f, a->ion);
    (void)fputs("</b>", f);
    (void)snprintf(line, sizeof line, "m/z %.4f, MSM %.3f, FDR %.1f %%", a->mz, a->msm,
                   100 * a->fdr);
    html_text(f, isnan(a->fdr) ? "FDR not known" : line);
    (void)fputs("<br>", f);
    html_text(f, a->name[0] != '\0' ? a->name : a->formula);
    (void)fputs("</figcaption>", f);
}

static void shots(FILE *f, const report_annotate *r)
{
    char path[4096];
    uint64_t room = MOST_PNG;

    page_card_begin(
        f, "Best annotations",
        "First isotope image of each ion, from 0 to its highest intensity; what was "
        "not sampled is left blank.",
        true);
    colour_map(f);
    (void)fputs("<div class=\"shots\">\n", f);
    for (size_t i = 0; i < r->n_best; i++) {
        (void)fputs("<figure>", f);
        int n = snprintf(path, sizeof path, "%s/images/%s_0.png", r->out, r->best[i].ion);
        if (n < 0 || (size_t)n >= sizeof path || !picture(f, path, r->best[i].ion, &room))
            (void)fputs("<div>no image here</div>", f);
        caption(f, &r->best[i]);
        (void)fputs("</figure>\n", f);
    }
    int n = snprintf(path, sizeof path, "%s/tic.png", r->out);
    (void)fputs("<figure>", f);
    if (n > 0 && (size_t)n < sizeof path && picture(f, path, "sum of intensities", &room))
        (void)fputs("<figcaption><b>sum of intensities</b></figcaption>", f);
    (void)fputs("</figure>\n</div>\n", f);
    page_card_end(f);
}

/* --- Curves ---------------------------------------------------------------------------------
 */

/* The curves with the most sure targets, in the order of the file. */
static size_t choose_curves(const report_annotate *r, const report_curve *out[MOST_CURVES])
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_curves; i++) {
        size_t better = 0;
        for (size_t k = 0; k < r->n_curves; k++)
            better += r->curve[k].sure > r->curve[i].sure ||
                      (k < i && r->curve[k].sure == r->curve[i].sure);
        if (better < MOST_CURVES)
            out[n++] = &r->curve[i];
    }
    return n;
}

static void draw_curves(FILE *f, const report_annotate *r)
{
    const report_curve *shown[MOST_CURVES] = {NULL};
    const char *key[2 * MOST_CURVES + 1] = {NULL};
    const size_t n = choose_curves(r, shown);
    double most = 1, highest = 0.15;
    char words[160];

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < shown[i]->n && shown[i]->fdr[k] <= 0.5; k++) {
            most = fmax(most, shown[i]->targets[k]);
            highest = fmax(highest, shown[i]->fdr[k]);
        }
    chart c = {.f = f,
               .x = {.to = most * 1.03, .title = "annotations, best first", .least_step = 1},
               .y = {.to = highest, .title = "false discovery rate"}};
    (void)snprintf(words, sizeof words,
                   r->curves_seen > n
                       ? "Of %zu databases and modifiers the %zu with most below "
                         "10 %%."
                       : "Of each database and modifier.",
                   r->curves_seen, n);
    page_card_begin(f, "False discovery rate", words, false);
    chart_begin(&c, "false discovery rate over the number of annotations");
    for (size_t i = 0; i < n; i++) {
        size_t points = 0;
        while (points < shown[i]->n && shown[i]->fdr[points] <= 0.5)
            points++;
        chart_line(&c, colours[i], shown[i]->targets, shown[i]->fdr, points, false);
        key[2 * i] = shown[i]->name;
        key[2 * i + 1] = colours[i];
    }
    chart_mark_y(&c, "ink", 0.1, "10 %", true);
    chart_end(&c);
    page_key(f, key);
    page_card_end(f);
}

/* --- Masses ---------------------------------------------------------------------------------
 */

/* First and one past the last bin that holds something. */
static void bin_range(const report_annotate *r, size_t *from, size_t *to)
{
    *from = 0;
    *to = REPORT_BINS;
    while (*from + 1 < REPORT_BINS && r->bin[*from] == 0)
        ++*from;
    while (*to > *from + 1 && r->bin[*to - 1] == 0)
        --*to;
}

static chart_axis mz_axis(const report_annotate *r)
{
    size_t from, to;
    bin_range(r, &from, &to);
    return (chart_axis){.from = (double)from * REPORT_BIN - REPORT_BIN,
                        .to = (double)to * REPORT_BIN + REPORT_BIN,
                        .title = "m/z"};
}

static void draw_errors(FILE *f, const report_annotate *r)
{
    char words[200];
    chart c = {.f = f,
               .x = mz_axis(r),
               .y = {.from = -r->ppm * 1.1, .to = r->ppm * 1.1, .title = "ppm"}};

    (void)snprintf(
        words, sizeof words,
        "Mean m/z of the first peak less its theoretical one%s. The window is %g ppm "
        "to both sides.",
        r->dot_step > 1 ? ", of a part of the annotations" : "", r->ppm);
    page_card_begin(f, "Mass errors", words, false);
    chart_begin(&c, "mass error over m/z");
    for (int sure = 0; sure < 2; sure++)
        for (size_t i = 0; i < r->n_dots; i++)
            if (r->sure[i] == (sure != 0))
                chart_dot(&c, sure != 0 ? "in" : "mem", r->mz[i], r->error[i]);
    chart_mark_y(&c, "ink", 0, "", true);
    chart_end(&c);
    page_key(f,
             (const char *const[]){"FDR up to 10 %", "in", "above, or not known", "mem", NULL});
    page_card_end(f);
}

static void draw_masses(FILE *f, const report_annotate *r)
{
    size_t from, to, each;
    double most = 1;

    bin_range(r, &from, &to);
    each = (to - from + 39) / 40;
    for (int pass = 0; pass < 2; pass++) {
        chart c = {.f = f,
                   .x = mz_axis(r),
                   .y = {.to = most * 1.05, .title = "annotations", .least_step = 1}};
        if (pass == 1) {
            page_card_begin(f, "Masses", "Annotations by m/z.", false);
            chart_begin(&c, "annotations by m/z");
        }
        for (size_t b = from; b < to; b += each) {
            double all = 0, sure = 0;
            for (size_t k = b; k < b + each && k < to; k++) {
                all += r->bin[k];
                sure += r->sure_bin[k];
            }
            most = fmax(most, all);
            if (pass == 0 || all == 0)
                continue;
            chart_bar(&c, "mem", (double)b * REPORT_BIN, (double)(b + each) * REPORT_BIN, all);
            if (sure > 0)
                chart_bar(&c, "in", (double)b * REPORT_BIN, (double)(b + each) * REPORT_BIN,
                          sure);
        }
        if (pass == 1)
            chart_end(&c);
    }
    page_key(f,
             (const char *const[]){"FDR up to 10 %", "in", "above, or not known", "mem", NULL});
    page_card_end(f);
}

/* --- Stages ---------------------------------------------------------------------------------
 */

static void stage_name(double v, char *room, size_t cap)
{
    static const char *const names[STAGES] = {"sort", "score", "rank", "images"};
    (void)snprintf(room, cap, "%s", v >= 0 && v < STAGES ? names[(int)v] : "");
}

static void draw_stages(FILE *f, const char *heading, const char *words, const char *unit,
                        const char *colour, const double value[STAGES], double ceiling,
                        double rss)
{
    char note[64];
    double most = fmax(ceiling * 1.15, rss * 1.1);

    for (int i = 0; i < STAGES; i++)
        most = fmax(most, value[i] * 1.05);
    chart c = {.f = f,
               .x = {.from = -0.6,
                     .to = STAGES - 0.4,
                     .title = "stage",
                     .least_step = 1,
                     .label = stage_name},
               .y = {.to = fmax(most, 1e-3), .title = unit}};
    page_card_begin(f, heading, words, false);
    chart_begin(&c, heading);
    for (int i = 0; i < STAGES; i++)
        chart_bar(&c, colour, i - 0.3, i + 0.3, value[i]);
    if (ceiling > 0) {
        (void)snprintf(note, sizeof note, "ceiling %.0f MiB", ceiling);
        chart_mark_y(&c, "ink", ceiling, note, true);
        (void)snprintf(note, sizeof note, "peak of the process %.0f MiB", rss);
        chart_mark_y(&c, "mem", rss, note, false);
    }
    chart_end(&c);
    page_card_end(f);
}

static void draw_all_stages(FILE *f, const report_annotate *r)
{
    const tg_annotate_result *q = r->result;
    const double seconds[STAGES] = {q->sort_seconds, q->score_seconds, q->rank_seconds,
                                    q->image_seconds};
    const double mib[STAGES] = {(double)q->sort_memory / MIB, (double)q->score_memory / MIB,
                                (double)q->rank_memory / MIB, (double)q->image_memory / MIB};

    draw_stages(f, "Time", q->sorted_before ? "The peaks had been sorted before." : NULL,
                "seconds", "out", seconds, 0, 0);
    draw_stages(f, "Memory",
                "Reserved of the ceiling (--memory) at most. The peak is the whole process's "
                "(VmHWM), code and libraries included.",
                "MiB", "queue", mib, (double)r->budget_bytes / MIB, (double)r->rss_bytes / MIB);
}

/* --- The page -------------------------------------------------------------------------------
 */

static void tiles(FILE *f, const report_annotate *r)
{
    const tg_annotate_result *q = r->result;
    char value[64], small[128];

    (void)fputs("<div class=\"tiles\">\n", f);
    (void)snprintf(value, sizeof value, "%" PRIu64, q->annotated[1]);
    (void)snprintf(small, sizeof small, "%" PRIu64 " at 5 %%, %" PRIu64 " at 50 %%",
                   q->annotated[0], q->annotated[3]);
    page_tile(f, "annotations at FDR 10 %", value, small);
    (void)snprintf(value, sizeof value, "%" PRIu64, q->ions);
    (void)snprintf(small, sizeof small, "of %" PRIu64 " formulas, decoys included",
                   q->formulas);
    page_tile(f, "ions looked for", value, small);
    (void)snprintf(value, sizeof value, "%.3g M", (double)q->peaks / 1e6);
    (void)snprintf(small, sizeof small, "%" PRIu64 " spectra, %" PRIu64 " pixels", q->spectra,
                   q->pixels);
    page_tile(f, "peaks", value, small);
    (void)snprintf(value, sizeof value, "%.2f s", q->seconds);
    (void)snprintf(small, sizeof small, "%.0f %% of the ions done", 100 * q->fraction_done);
    page_tile(f, "took", value, small);
    (void)snprintf(value, sizeof value, "%.0f MiB", (double)r->rss_bytes / MIB);
    (void)snprintf(small, sizeof small, "ceiling %.0f MiB", (double)r->budget_bytes / MIB);
    page_tile(f, "memory peak of the process", value, small);
    (void)fputs("</div>\n", f);
}

void report_write_annotate(FILE *f, const report_annotate *r)
{
    page_begin(f, r->title, r->verdict, r->good);
    tiles(f, r);
    (void)fputs("<div class=\"cards\">\n", f);
    if (r->n_best > 0)
        shots(f, r);
    if (r->n_curves > 0)
        draw_curves(f, r);
    if (r->rows > 0) {
        draw_errors(f, r);
        draw_masses(f, r);
    }
    draw_all_stages(f, r);
    page_tables(f, r->numbers, r->settings);
}
