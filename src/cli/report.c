/* cli/report.c - the report of a recording: what the queue, the disk, the memory and the caller
 * of append went through. */
#include "report.h"

#include "chart.h"
#include "cli.h"
#include "report_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define MIB 1048576.0

/* --- Axes ------------------------------------------------------------------ */

static void label_ns(double ns, char *room, size_t cap)
{
    if (ns < 999.5)
        (void)snprintf(room, cap, "%.0f ns", ns);
    else if (ns < 999.5e3)
        (void)snprintf(room, cap, "%.3g \xc2\xb5s", ns / 1e3);
    else if (ns < 999.5e6)
        (void)snprintf(room, cap, "%.3g ms", ns / 1e6);
    else
        (void)snprintf(room, cap, "%.3g s", ns / 1e9);
}

static void label_count(double v, char *room, size_t cap)
{
    if (v < 1)
        (void)snprintf(room, cap, "0");
    else if (v >= 1e6)
        (void)snprintf(room, cap, "%.0fM", v / 1e6);
    else if (v >= 1e4)
        (void)snprintf(room, cap, "%.0fk", v / 1e3);
    else
        (void)snprintf(room, cap, "%.0f", v);
}

static chart_axis time_axis(const report_record *r)
{
    return (chart_axis){.from = 0, .to = r->report->seconds, .title = "seconds since start"};
}

static void mark_stop(const chart *c, const report_record *r)
{
    char words[64];
    double stop = r->report->source_seconds;
    if (!(stop > 0) || stop > r->report->seconds)
        return;
    (void)snprintf(words, sizeof words, "source stopped, %.2f s", stop);
    chart_mark_x(c, "stop", stop, words, 0);
}

/* --- Charts over time ------------------------------------------------------ */

static void draw_queue(FILE *f, const report_record *r, page_series *s)
{
    const tg_stream_report *rep = r->report;
    s->n = 0;
    for (size_t i = 0; i < rep->n_samples; i++)
        page_series_push(s, rep->samples[i].seconds, (double)rep->samples[i].queue_bytes / MIB);
    double room = (double)rep->total.queue_bytes_max / MIB;
    chart c = {.f = f,
               .wide = true,
               .x = time_axis(r),
               .y = {.to = fmax(room, page_series_highest(s)), .title = "MiB waiting"}};
    page_card_begin(
        f, "Queue",
        "Bytes between the source and the disk. A writer that keeps up stays low and "
        "is empty soon after the source stops; one that does not fills its ring and "
        "makes the source wait or drop.",
        true);
    chart_begin(&c, "bytes in the queue over time");
    chart_line(&c, "queue", s->x, s->y, s->n, true);
    chart_mark_y(&c, "soft", room, "the whole ring", true);
    mark_stop(&c, r);
    chart_end(&c);
    page_card_end(f);
}

/* Rates over windows wide enough that single commits do not dominate. */
static void rates(const report_record *r, page_series *s, bool in)
{
    const tg_stream_report *rep = r->report;
    const tg_stream_sample *a = rep->samples;
    double window = fmax(0.25, rep->seconds / 120);
    s->n = 0;
    size_t from = 0;
    for (size_t i = 1; i < rep->n_samples; i++) {
        double dt = a[i].seconds - a[from].seconds;
        if (dt < window && i + 1 < rep->n_samples)
            continue;
        if (!(dt > 0))
            continue;
        double bytes = in ? (double)(a[i].offered - a[from].offered) * (double)r->frame_bytes
                          : (double)(a[i].bytes_written - a[from].bytes_written);
        double middle = (a[i].seconds + a[from].seconds) / 2;
        page_series_push(s, middle, bytes / MIB / dt);
        from = i;
    }
}

static void draw_rates(FILE *f, const report_record *r, page_series *in, page_series *out)
{
    rates(r, in, true);
    rates(r, out, false);
    chart c = {
        .f = f,
        .x = time_axis(r),
        .y = {.to = fmax(fmax(page_series_highest(in), page_series_highest(out)) * 1.05, 1e-3),
              .title = "MiB/s"}};
    page_card_begin(f, "Throughput", "Offered by the source, and handed to the disk.", false);
    chart_begin(&c, "throughput over time");
    chart_line(&c, "in", in->x, in->y, in->n, false);
    chart_line(&c, "out", out->x, out->y, out->n, false);
    mark_stop(&c, r);
    chart_end(&c);
    page_key(f, (const char *const[]){"in", "in", "out", "out", NULL});
    page_card_end(f);
}

static void draw_memory(FILE *f, const report_record *r, page_series *s)
{
    const tg_stream_report *rep = r->report;
    s->n = 0;
    for (size_t i = 0; i < rep->n_samples; i++)
        page_series_push(s, rep->samples[i].seconds,
                         (double)rep->samples[i].memory_bytes / MIB);
    double budget = (double)r->budget_bytes / MIB, rss = (double)r->rss_bytes / MIB;
    chart c = {
        .f = f, .x = time_axis(r), .y = {.to = fmax(budget * 1.15, rss * 1.1), .title = "MiB"}};
    char words[80];
    page_card_begin(f, "Memory",
                    "Reserved of the budget when the recording opened; nothing is taken per "
                    "frame. The peak is the whole process's (VmHWM), code and libraries "
                    "included.",
                    false);
    chart_begin(&c, "memory over time");
    chart_line(&c, "mem", s->x, s->y, s->n, true);
    (void)snprintf(words, sizeof words, "budget %.0f MiB", budget);
    chart_mark_y(&c, "ink", budget, words, true);
    if (r->rss_bytes > 0) {
        (void)snprintf(words, sizeof words, "peak of the process %.0f MiB", rss);
        chart_mark_y(&c, "mem", rss, words, false);
    }
    chart_end(&c);
    page_card_end(f);
}

static void draw_drops(FILE *f, const report_record *r, page_series *s)
{
    const tg_stream_report *rep = r->report;
    if (rep->total.dropped == 0)
        return;
    s->n = 0;
    for (size_t i = 0; i < rep->n_samples; i++)
        page_series_push(s, rep->samples[i].seconds, (double)rep->samples[i].dropped);
    chart c = {
        .f = f,
        .wide = true,
        .x = time_axis(r),
        .y = {.to = fmax(page_series_highest(s), 1), .title = "frames", .label = label_count}};
    page_card_begin(f, "Dropped frames", "Dropped because the ring was full, since the start.",
                    true);
    chart_begin(&c, "dropped frames over time");
    chart_line(&c, "bad", s->x, s->y, s->n, true);
    mark_stop(&c, r);
    chart_end(&c);
    page_card_end(f);
}

/* --- Histograms ------------------------------------------------------------ */

static double bucket_start(int i)
{
    return pow(2, i / 2.0);
}

static void draw_histogram(FILE *f, const char *heading, const char *words,
                           const char *css_class, const char *counted, const uint64_t *buckets,
                           uint64_t max_ns)
{
    int first = TG_LATENCY_BUCKETS, last = -1;
    uint64_t most = 0;
    for (int i = 0; i < TG_LATENCY_BUCKETS; i++) {
        if (buckets[i] == 0)
            continue;
        first = first > i ? i : first;
        last = i;
        most = buckets[i] > most ? buckets[i] : most;
    }
    page_card_begin(f, heading, words, false);
    if (last < 0) {
        (void)fputs("<p>None.</p>\n", f);
        page_card_end(f);
        return;
    }
    double from = pow(10, floor(log10(bucket_start(first))));
    double to = pow(10, ceil(log10(fmax(bucket_start(last + 1), (double)max_ns)) + 1e-9));
    /* The count 1 has to show, so the axis begins below it. */
    chart c = {.f = f,
               .x = {.from = fmax(from, 1),
                     .to = to,
                     .log = true,
                     .title = "duration",
                     .label = label_ns},
               .y = {.from = 0.5,
                     .to = pow(10, ceil(log10((double)most * 1.2))),
                     .log = true,
                     .title = counted,
                     .label = label_count}};
    chart_begin(&c, heading);
    for (int i = first; i <= last; i++)
        if (buckets[i] > 0)
            chart_bar(&c, css_class, bucket_start(i), bucket_start(i + 1), (double)buckets[i]);
    const struct {
        const char *name;
        double ns;
    } marks[] = {{"p50", cli_quantile(buckets, 0.5, max_ns)},
                 {"p99", cli_quantile(buckets, 0.99, max_ns)},
                 {"max", (double)max_ns}};
    for (int i = 0; i < 3; i++) {
        char label[32], note[64];
        label_ns(marks[i].ns, label, sizeof label);
        (void)snprintf(note, sizeof note, "%s %s", marks[i].name, label);
        chart_mark_x(&c, "soft", marks[i].ns, note, i);
    }
    chart_end(&c);
    page_card_end(f);
}

/* --- The page -------------------------------------------------------------- */

static void tiles(FILE *f, const report_record *r)
{
    const tg_stream_report *rep = r->report;
    const tg_stream_stats *s = &rep->total;
    char value[64], small[96], label[32];
    (void)fputs("<div class=\"tiles\">\n", f);
    (void)snprintf(value, sizeof value, "%" PRIu64, s->published);
    (void)snprintf(small, sizeof small, "of %" PRIu64 " offered", s->offered);
    page_tile(f, "frames in the store", value, small);

    double seconds = rep->seconds > 0 ? rep->seconds : 1;
    (void)snprintf(value, sizeof value, "%.0f MiB/s", (double)s->bytes_in / MIB / seconds);
    (void)snprintf(small, sizeof small, "%.1f frames/s over %.2f s",
                   (double)s->offered / seconds, rep->seconds);
    page_tile(f, "throughput, to the last sync", value, small);

    label_ns(cli_quantile(s->append_ns, 0.99, s->append_ns_max), value, sizeof value);
    label_ns((double)s->append_ns_max, label, sizeof label);
    (void)snprintf(small, sizeof small, "longest %s", label);
    page_tile(f, "append, 99 of 100 below", value, small);

    (void)snprintf(value, sizeof value, "%.0f MiB", (double)r->rss_bytes / MIB);
    (void)snprintf(small, sizeof small, "budget %.0f MiB", (double)r->budget_bytes / MIB);
    page_tile(f, "memory peak of the process", value, small);

    uint64_t missing = s->dropped + s->lost + s->failed + s->partial;
    (void)snprintf(value, sizeof value, "%" PRIu64, missing);
    (void)snprintf(small, sizeof small,
                   "dropped %" PRIu64 ", lost %" PRIu64 ", partial %" PRIu64, s->dropped,
                   s->lost, s->partial);
    page_tile(f, "frames not whole", value, small);
    (void)fputs("</div>\n", f);
}

void report_write_record(FILE *f, const report_record *r)
{
    page_series a, b;
    const tg_stream_report *rep = r->report;
    bool room = page_series_new(&a, rep->n_samples);
    room = page_series_new(&b, rep->n_samples) && room;
    page_begin(f, r->title, r->verdict, r->good);
    tiles(f, r);
    (void)fputs("<div class=\"cards\">\n", f);
    if (room) {
        draw_queue(f, r, &a);
        draw_rates(f, r, &a, &b);
        draw_memory(f, r, &a);
        draw_drops(f, r, &a);
    } else {
        page_card_begin(f, "Charts over time", "There was no memory left to draw them.", true);
        page_card_end(f);
    }
    draw_histogram(f, "Append",
                   "How long the source had to wait for each frame to be taken over.", "in",
                   "frames, log scale", rep->total.append_ns, rep->total.append_ns_max);
    draw_histogram(f, "Writes to the disk",
                   "Single writes. The ring has to bridge the longest: bytes of ring = rate "
                   "\xc3\x97 longest write.",
                   "out", "writes, log scale", rep->total.write_ns, rep->total.write_ns_max);
    page_tables(f, r->numbers, r->settings);
    page_series_free(&a);
    page_series_free(&b);
}
