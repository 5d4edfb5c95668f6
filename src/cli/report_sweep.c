/* cli/report_sweep.c - the report of a sweep: every setting that was tried, the best one, and
 * the rate over the frames per chunk. */
#include "chart.h"
#include "report.h"
#include "report_page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MIB         1048576.0
#define MOST_CODECS 6

static const char *const classes[MOST_CODECS] = {"in", "out", "queue", "mem", "four", "five"};

static size_t find_codecs(const report_sweep *s, const char *codecs[MOST_CODECS])
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t k = 0;
        while (k < n && strcmp(codecs[k], s->trial[i].codec) != 0)
            k++;
        if (k == n && n < MOST_CODECS)
            codecs[n++] = s->trial[i].codec;
    }
    return n;
}

/* The fastest setting with this codec and this many frames per chunk; 0: none ran. */
static double best_rate(const report_sweep *s, const char *codec, uint64_t chunk_frames)
{
    double best = 0;
    for (size_t i = 0; i < s->n; i++) {
        const report_trial *t = &s->trial[i];
        if (!t->refused && t->chunk_frames == chunk_frames && strcmp(t->codec, codec) == 0)
            best = fmax(best, t->mib_per_s);
    }
    return best;
}

static void label_frames(double v, char *room, size_t cap)
{
    (void)snprintf(room, cap, "%.0f", pow(2, v));
}

static void draw_codec(const chart *c, const report_sweep *s, const char *codec,
                       const char *css_class, int most)
{
    double x[32], y[32];
    size_t n = 0;
    for (int k = 0; k <= most && n < 32; k++) {
        double rate = best_rate(s, codec, (uint64_t)1 << k);
        if (rate > 0) {
            x[n] = k;
            y[n++] = rate;
        }
    }
    chart_line(c, css_class, x, y, n, false);
    for (size_t i = 0; i < n; i++)
        chart_dot(c, css_class, x[i], y[i]);
}

static void draw(FILE *f, const report_sweep *s)
{
    const char *codecs[MOST_CODECS], *key[MOST_CODECS * 2 + 1];
    size_t n = find_codecs(s, codecs);
    double most_rate = s->floor_mib_per_s;
    uint64_t most_frames = 1;
    for (size_t i = 0; i < s->n; i++) {
        most_rate = fmax(most_rate, s->trial[i].mib_per_s);
        most_frames =
            s->trial[i].chunk_frames > most_frames ? s->trial[i].chunk_frames : most_frames;
    }
    int most = (int)ceil(log2((double)most_frames));
    chart c = {.f = f,
               .wide = true,
               .x = {.from = 0,
                     .to = most > 0 ? most : 1,
                     .title = "frames per chunk",
                     .least_step = 1,
                     .label = label_frames},
               .y = {.to = most_rate * 1.05, .title = "MiB/s of frames, durable"}};
    page_card_begin(f, "Rate over the chunk size",
                    "For each codec the best shard size and number of threads.", true);
    chart_begin(&c, "rate over the frames per chunk, a line per codec");
    for (size_t k = 0; k < n; k++) {
        draw_codec(&c, s, codecs[k], classes[k], most);
        key[2 * k] = codecs[k];
        key[2 * k + 1] = classes[k];
    }
    key[2 * n] = NULL;
    if (s->floor_mib_per_s > 0)
        chart_mark_y(&c, "soft", s->floor_mib_per_s, "plain O_DIRECT file, uncompressed", true);
    chart_end(&c);
    page_key(f, key);
    page_card_end(f);
}

static void shard_text(uint64_t bytes, char *room, size_t cap)
{
    if (bytes == 0)
        (void)snprintf(room, cap, "none");
    else
        (void)snprintf(room, cap, "%.0f MiB", (double)bytes / MIB);
}

static void table(FILE *f, const report_sweep *s)
{
    double most = 1e-9;
    for (size_t i = 0; i < s->n; i++)
        most = fmax(most, s->trial[i].mib_per_s);
    page_card_begin(f, "All settings", NULL, true);
    (void)fputs(
        "<table>\n<tr><th class=\"n\">frames per chunk</th><th>codec</th>"
        "<th class=\"n\">shard</th><th class=\"n\">threads</th><th class=\"n\">MiB/s</th>"
        "<th></th><th class=\"n\">append p99</th><th class=\"n\">ratio</th>"
        "<th class=\"n\">memory peak</th></tr>\n",
        f);
    for (size_t i = 0; i < s->n; i++) {
        const report_trial *t = &s->trial[i];
        char shard[32];
        shard_text(t->shard_bytes, shard, sizeof shard);
        (void)fprintf(f, "<tr%s><td class=\"n\">%" PRIu64 "</td><td>",
                      i == s->best ? " class=\"best\""
                      : t->refused ? " class=\"no\""
                                   : "",
                      t->chunk_frames);
        html_text(f, t->codec);
        (void)fprintf(f, "</td><td class=\"n\">%s</td><td class=\"n\">%u</td>", shard,
                      t->threads);
        if (t->refused)
            (void)fputs(
                "<td class=\"n\">refused</td><td></td><td></td><td></td><td></td></tr>\n", f);
        else
            (void)fprintf(f,
                          "<td class=\"n\">%.0f</td><td><span class=\"meter\" "
                          "style=\"width:%.0fpx\"></span></td><td class=\"n\">%.2f ms</td>"
                          "<td class=\"n\">%.2f</td><td class=\"n\">%.0f MiB</td></tr>\n",
                          t->mib_per_s, 140 * t->mib_per_s / most, t->append_p99_us / 1e3,
                          t->ratio, (double)t->rss_bytes / MIB);
    }
    (void)fputs("</table>\n", f);
    page_card_end(f);
}

void report_write_sweep(FILE *f, const report_sweep *s)
{
    page_begin(f, s->title, s->verdict, s->best < s->n);
    (void)fputs("<div class=\"cards\">\n", f);
    draw(f, s);
    table(f, s);
    page_card_begin(f, "Settings", NULL, true);
    page_rows(f, s->settings);
    page_card_end(f);
    (void)fputs("</div>\n", f);
    page_end(f);
}
