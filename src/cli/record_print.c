/* cli/record_print.c - what `record` says at its end: the JSON members and the lines for
 * people. */
#include "record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static double us(double ns)
{
    return ns / 1e3;
}

static void counters_json(json_out *j, const tg_stream_stats *s)
{
    json_u64(j, "offered", s->offered);
    json_u64(j, "written", s->written);
    json_u64(j, "durable", s->durable);
    json_u64(j, "published", s->published);
    json_u64(j, "dropped", s->dropped);
    json_u64(j, "lost", s->lost);
    json_u64(j, "skipped", s->skipped);
    json_u64(j, "partial", s->partial);
    json_u64(j, "repeated", s->repeated);
    json_u64(j, "errors", s->failed);
}

static void latency_json(json_out *j, const tg_stream_stats *s)
{
    json_open(j, "append_us");
    json_double(j, "p50", us(cli_quantile(s->append_ns, 0.5, s->append_ns_max)));
    json_double(j, "p99", us(cli_quantile(s->append_ns, 0.99, s->append_ns_max)));
    json_double(j, "p999", us(cli_quantile(s->append_ns, 0.999, s->append_ns_max)));
    json_double(j, "max", us((double)s->append_ns_max));
    json_close(j);
    json_double(j, "stall_ms_max", (double)s->stall_ns_max / 1e6);
    json_u64(j, "stalls", s->stalls);
    json_u64(j, "queue_bytes_peak", s->queue_bytes_peak);
}

/* Published shape of the first array: outer dimensions, and the frame before or behind them. */
static void shape_json(const recording *r, json_out *j)
{
    const tg_stream_array *a = &r->array[0];
    json_open_list(j, "shape");
    for (int pass = 0; pass < 2; pass++) {
        if ((pass == 0) == !a->frame_axis_last) {
            for (uint32_t d = 0; d < a->n_dims; d++)
                json_u64(j, NULL, r->report.extent[d]);
        } else {
            if (a->height > 0)
                json_u64(j, NULL, a->height);
            json_u64(j, NULL, a->width);
        }
    }
    json_close_list(j);
}

static void arrays_json(const recording *r, json_out *j)
{
    json_open_list(j, "arrays");
    for (uint32_t i = 0; r->n > 1 && i < r->n; i++) {
        json_open(j, NULL);
        json_text(j, "name", r->source[i].name);
        counters_json(j, &r->stats[i]);
        latency_json(j, &r->stats[i]);
        json_close(j);
    }
    json_close_list(j);
}

static double mib_per_s(const tg_stream_report *report)
{
    double mib = (double)report->total.bytes_in / (1 << 20);
    return report->seconds > 0 ? mib / report->seconds : 0;
}

static void print_json(recording *r)
{
    json_out *j = &r->c->json;
    const tg_stream_report *report = &r->report;
    counters_json(j, &report->total);
    json_double(j, "seconds", report->seconds);
    json_double(j, "mib_per_s", mib_per_s(report));
    latency_json(j, &report->total);
    json_u64(j, "rss_bytes_peak", cli_rss_peak());
    json_u64(j, "budget_bytes", r->c->common->memory);
    json_u64(j, "frames", report->total.published);
    shape_json(r, j);
    if (r->n > 1)
        arrays_json(r, j);
}

/* "31 us", "4.2 ms", "1.3 s" */
static const char *time_text(double ns, char *room, size_t cap)
{
    if (ns < 1e6)
        (void)snprintf(room, cap, "%.0f us", ns / 1e3);
    else if (ns < 1e9)
        (void)snprintf(room, cap, "%.1f ms", ns / 1e6);
    else
        (void)snprintf(room, cap, "%.1f s", ns / 1e9);
    return room;
}

static void print_losses(const tg_stream_stats *s)
{
    const struct {
        const char *word;
        uint64_t n;
    } rows[] = {{"dropped", s->dropped}, {"lost before us", s->lost}, {"skipped", s->skipped},
                {"partial", s->partial}, {"repeated", s->repeated},   {"failed", s->failed}};
    bool any = false;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].n == 0)
            continue;
        (void)printf("%s%" PRIu64 " %s", any ? ", " : "  NOT WHOLE: ", rows[i].n, rows[i].word);
        any = true;
    }
    (void)fputs(any ? "\n" : "  no frame lost\n", stdout);
}

static void print_text(recording *r)
{
    const tg_stream_report *report = &r->report;
    const tg_stream_stats *s = &report->total;
    char a[24], b[24], d[24], e[24];
    double fps = report->seconds > 0 ? (double)s->offered / report->seconds : 0;
    (void)printf("%s: %" PRIu64 " frames in %.2f s: %.1f/s, %.1f MiB/s\n",
                 r->c->operands.item[0], s->offered, report->seconds, fps, mib_per_s(report));
    (void)printf("  written %" PRIu64 ", durable %" PRIu64 ", published %" PRIu64 "\n",
                 s->written, s->durable, s->published);
    print_losses(s);
    (void)printf("  append p50 %s, p99 %s, max %s;",
                 time_text(cli_quantile(s->append_ns, 0.5, s->append_ns_max), a, sizeof a),
                 time_text(cli_quantile(s->append_ns, 0.99, s->append_ns_max), b, sizeof b),
                 time_text((double)s->append_ns_max, d, sizeof d));
    (void)printf(" waited for room %" PRIu64 " times, longest %s\n", s->stalls,
                 time_text((double)s->stall_ns_max, a, sizeof a));
    (void)printf("  queue at most %s of %s; memory at most %s, budget %s\n",
                 cli_bytes_text(s->queue_bytes_peak, a, sizeof a),
                 cli_bytes_text(s->queue_bytes_max, b, sizeof b),
                 cli_bytes_text(cli_rss_peak(), d, sizeof d),
                 cli_bytes_text(r->c->common->memory, e, sizeof e));
}

void record_print(recording *r)
{
    if (r->c->common->json)
        print_json(r);
    else
        print_text(r);
}
