/* cli/report_apply.c - the report of a run of apply: calls, how many at once, what was read and
 * written, memory, failures, and the regions that took longest. */
#include "chart.h"
#include "report_page.h"

#include <inttypes.h>
#include <math.h>

#define MIB 1048576.0

typedef struct page {
    FILE *f;
    const report_apply *r;
    page_series a, b; /* to draw from */
} page;

typedef double (*figure)(const tg_apply_sample *s);

static double calls(const tg_apply_sample *s)
{
    return (double)s->calls;
}
static double mib_read(const tg_apply_sample *s)
{
    return (double)s->bytes_read / MIB;
}
static double mib_written(const tg_apply_sample *s)
{
    return (double)s->bytes_written / MIB;
}
static double in_flight(const tg_apply_sample *s)
{
    return (double)s->in_flight;
}
static double memory(const tg_apply_sample *s)
{
    return (double)s->memory_bytes / MIB;
}
static double failed(const tg_apply_sample *s)
{
    return (double)s->failed;
}

static chart_axis time_axis(const report_apply *r)
{
    return (chart_axis){.from = 0, .to = r->report->seconds, .title = "seconds since start"};
}

static void values(const report_apply *r, figure of, page_series *out)
{
    out->n = 0;
    for (uint32_t i = 0; i < r->report->n_samples; i++)
        page_series_push(out, r->report->samples[i].seconds, of(&r->report->samples[i]));
}

/* Growth per second, over windows wide enough that single units do not dominate. */
static void rates(const report_apply *r, figure of, page_series *out)
{
    const tg_apply_sample *s = r->report->samples;
    const double window = fmax(0.1, r->report->seconds / 120);
    uint32_t from = 0;

    out->n = 0;
    for (uint32_t i = 1; i < r->report->n_samples; i++) {
        const double dt = s[i].seconds - s[from].seconds;
        if (!(dt > 0) || (dt < window && i + 1 < r->report->n_samples))
            continue;
        page_series_push(out, (s[i].seconds + s[from].seconds) / 2,
                         (of(&s[i]) - of(&s[from])) / dt);
        from = i;
    }
}

static void draw(page *p, const char *heading, const char *words, const char *unit,
                 const char *first, const char *second)
{
    const double most = fmax(page_series_highest(&p->a), page_series_highest(&p->b));
    chart c = {
        .f = p->f, .x = time_axis(p->r), .y = {.to = fmax(most * 1.05, 1e-3), .title = unit}};

    page_card_begin(p->f, heading, words, false);
    chart_begin(&c, heading);
    chart_line(&c, first, p->a.x, p->a.y, p->a.n, second == NULL);
    if (second != NULL)
        chart_line(&c, second, p->b.x, p->b.y, p->b.n, false);
    chart_end(&c);
    if (second != NULL)
        page_key(p->f, (const char *const[]){"read", first, "written", second, NULL});
    page_card_end(p->f);
}

static void draw_memory(page *p)
{
    const double budget = (double)p->r->budget_bytes / MIB;
    const double rss = (double)p->r->rss_bytes / MIB;
    char words[80];

    values(p->r, memory, &p->a);
    chart c = {.f = p->f,
               .x = time_axis(p->r),
               .y = {.to = fmax(budget * 1.15, rss * 1.1), .title = "MiB"}};
    page_card_begin(p->f, "Memory",
                    "Reserved of the budget. The peak is the whole process's (VmHWM), code and "
                    "libraries included.",
                    false);
    chart_begin(&c, "memory over time");
    chart_line(&c, "mem", p->a.x, p->a.y, p->a.n, true);
    (void)snprintf(words, sizeof words, "budget %.0f MiB", budget);
    chart_mark_y(&c, "ink", budget, words, true);
    (void)snprintf(words, sizeof words, "peak of the process %.0f MiB", rss);
    chart_mark_y(&c, "mem", rss, words, false);
    chart_end(&c);
    page_card_end(p->f);
}

static void draw_all(page *p)
{
    rates(p->r, calls, &p->a);
    p->b.n = 0;
    draw(p, "Calls", "Regions per second.", "calls/s", "in", NULL);
    values(p->r, in_flight, &p->a);
    draw(p, "At once",
         "Calls in flight. Sharing a chunk makes no call wait; memory may, and the end of the "
         "list.",
         "calls", "queue", NULL);
    rates(p->r, mib_read, &p->a);
    rates(p->r, mib_written, &p->b);
    draw(p, "Read and written", "Encoded bytes.", "MiB/s", "in", "out");
    draw_memory(p);
    if (p->r->report->failed == 0)
        return;
    values(p->r, failed, &p->a);
    p->b.n = 0;
    draw(p, "Failures", "Regions that failed and were left out, since the start.", "regions",
         "bad", NULL);
}

static void slowest(const page *p)
{
    const tg_apply_report *rep = p->r->report;
    const double longest = rep->n_slowest > 0 ? rep->slowest_seconds[0] : 0;

    page_card_begin(p->f, "Slowest regions", "Of the calls alone; position in the list.",
                    false);
    (void)fputs(
        "<table>\n<tr><th class=\"n\">region</th><th class=\"n\">ms</th><th></th></tr>\n",
        p->f);
    for (uint32_t i = 0; i < rep->n_slowest; i++)
        (void)fprintf(p->f,
                      "<tr><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%.3f</td><td><span "
                      "class=\"meter\" style=\"width:%.0fpx\"></span></td></tr>\n",
                      rep->slowest_region[i], rep->slowest_seconds[i] * 1e3,
                      longest > 0 ? 160 * rep->slowest_seconds[i] / longest : 0);
    (void)fputs("</table>\n", p->f);
    page_card_end(p->f);
}

static void tiles(FILE *f, const report_apply *r)
{
    const tg_apply_report *rep = r->report;
    const double seconds = rep->seconds > 0 ? rep->seconds : 1;
    char value[64], small[96];

    (void)fputs("<div class=\"tiles\">\n", f);
    (void)snprintf(value, sizeof value, "%" PRIu64, rep->calls);
    (void)snprintf(small, sizeof small, "of %" PRIu64 " regions, %" PRIu64 " empty", rep->rois,
                   rep->empty);
    page_tile(f, "calls", value, small);
    (void)snprintf(value, sizeof value, "%.0f /s", (double)rep->calls / seconds);
    (void)snprintf(small, sizeof small, "over %.2f s, planned in %.2f s", rep->seconds,
                   rep->plan_seconds);
    page_tile(f, "regions", value, small);
    (void)snprintf(value, sizeof value, "%" PRIu64, rep->units_written);
    (void)snprintf(small, sizeof small, "%" PRIu64 " read, in %" PRIu64 " commits",
                   rep->units_read, rep->commits);
    page_tile(f, "units written", value, small);
    (void)snprintf(value, sizeof value, "%.0f MiB", (double)r->rss_bytes / MIB);
    (void)snprintf(small, sizeof small, "budget %.0f MiB", (double)r->budget_bytes / MIB);
    page_tile(f, "memory peak of the process", value, small);
    (void)snprintf(value, sizeof value, "%" PRIu64, rep->failed);
    (void)snprintf(small, sizeof small, "%u calls at once at most", rep->in_flight_peak);
    page_tile(f, "regions that failed", value, small);
    (void)fputs("</div>\n", f);
}

void report_write_apply(FILE *f, const report_apply *r)
{
    page p = {.f = f, .r = r};
    bool room = page_series_new(&p.a, TG_APPLY_SAMPLES);
    room = page_series_new(&p.b, TG_APPLY_SAMPLES) && room;

    page_begin(f, r->title, r->verdict, r->good);
    tiles(f, r);
    (void)fputs("<div class=\"cards\">\n", f);
    if (room) {
        draw_all(&p);
    } else {
        page_card_begin(f, "Charts over time", "There was no memory left to draw them.", true);
        page_card_end(f);
    }
    slowest(&p);
    page_tables(f, r->numbers, r->settings);
    page_series_free(&p.a);
    page_series_free(&p.b);
}
