/* cli/record_report.c - fills the HTML report of a recording. */
#include "record.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static const char *or_default(const char *s, const char *otherwise)
{
    return s != NULL ? s : otherwise;
}

static void add_flow(report_rows *rows, const recording *r)
{
    static const char *const policies[] = {[TG_FULL_BLOCK] = "block",
                                           [TG_FULL_FAIL] = "fail",
                                           [TG_FULL_DROP_NEW] = "drop-new",
                                           [TG_FULL_DROP_OLDEST] = "drop-oldest",
                                           [TG_FULL_DECIMATE] = "decimate"};
    char size[24];
    report_row(rows, "ring full", "%s", policies[r->array[0].on_full]);
    report_row(rows, "gaps", "%s", r->o->on_gap == 1 ? "compact" : "keep");
    report_row(rows, "commit interval", "%g s",
               r->o->commit_interval > 0 ? r->o->commit_interval : 1.0);
    report_row(rows, "memory budget", "%s",
               cli_bytes_text(r->c->common->memory, size, sizeof size));
    report_row(rows, "threads of the pool", "%u", tg_runtime_threads(r->rt));
}

static void add_machine(report_rows *rows)
{
    struct utsname u;
    if (uname(&u) == 0)
        report_row(rows, "machine", "%s %s, %s", u.sysname, u.release, u.machine);
}

static void fill_settings(report_rows *rows, const recording *r)
{
    const record_options *o = r->o;
    for (uint32_t i = 0; i < r->n; i++) {
        const record_source *s = &r->source[i];
        char type[16];
        report_row(rows, i == 0 ? "source" : "", "%s%s%.60s: %" PRIu64 "x%" PRIu64 " %s",
                   s->name, s->name[0] != '\0' ? " = " : "", s->spec, s->info.height,
                   s->info.width, tg_dtype_name(s->info.dtype, type));
        if (s->info.model[0] != '\0')
            report_row(rows, "camera", "%s, %s", s->info.model, s->info.pixel_format);
    }
    report_row(rows, "format", "%s", o->format == 1 ? "Zarr 2" : "Zarr 3");
    report_row(rows, "frames per chunk", o->chunk_frames > 0 ? "%" PRIu64 : "default",
               o->chunk_frames);
    report_row(rows, "shard", "%s%s", or_default(o->shard, "default"), o->live ? ", live" : "");
    report_row(rows, "codec", "%s", or_default(o->codec, "none"));
    report_row(rows, "checksum", "%s", o->checksum == 1 ? "off" : "on");
    if (o->pyramid != NULL)
        report_row(rows, "pyramid", "%s", o->pyramid);
    add_flow(rows, r);
    add_machine(rows);
}

static void fill_numbers(report_rows *rows, const recording *r)
{
    const tg_stream_report *rep = &r->report;
    const tg_stream_stats *s = &rep->total;
    char size[24], size2[24];
    report_row(rows, "offered", "%" PRIu64, s->offered);
    report_row(rows, "written", "%" PRIu64, s->written);
    report_row(rows, "durable", "%" PRIu64, s->durable);
    report_row(rows, "published", "%" PRIu64, s->published);
    report_row(rows, "dropped, ring full", "%" PRIu64, s->dropped);
    report_flag(rows, s->dropped > 0);
    report_row(rows, "lost before us", "%" PRIu64, s->lost);
    report_flag(rows, s->lost > 0);
    report_row(rows, "skipped", "%" PRIu64, s->skipped);
    report_row(rows, "partial", "%" PRIu64, s->partial);
    report_flag(rows, s->partial > 0);
    report_row(rows, "failed", "%" PRIu64, s->failed);
    report_flag(rows, s->failed > 0);
    report_row(rows, "bytes of frames", "%s", cli_bytes_text(s->bytes_in, size, sizeof size));
    report_row(rows, "bytes written", "%s",
               cli_bytes_text(s->bytes_written, size, sizeof size));
    report_row(rows, "stalls of append", "%" PRIu64 ", %.1f ms in all, longest %.1f ms",
               s->stalls, (double)s->stall_ns / 1e6, (double)s->stall_ns_max / 1e6);
    report_row(rows, "append p50, p99, p99.9", "%.0f, %.0f, %.0f \xc2\xb5s",
               cli_quantile(s->append_ns, 0.5, s->append_ns_max) / 1e3,
               cli_quantile(s->append_ns, 0.99, s->append_ns_max) / 1e3,
               cli_quantile(s->append_ns, 0.999, s->append_ns_max) / 1e3);
    report_row(rows, "queue at most", "%s of %s",
               cli_bytes_text(s->queue_bytes_peak, size, sizeof size),
               cli_bytes_text(s->queue_bytes_max, size2, sizeof size2));
    report_row(rows, "source ran, all took", "%.2f s, %.2f s", rep->source_seconds,
               rep->seconds);
}

static void verdict(const recording *r, bool *good, char *words, size_t cap)
{
    const tg_stream_stats *s = &r->report.total;
    uint64_t missing = s->dropped + s->lost + s->failed + s->partial + s->skipped;
    *good = r->c->err.code == TG_OK && missing == 0;
    if (r->c->err.code != TG_OK)
        (void)snprintf(words, cap, "Failed: %.400s", r->c->err.msg);
    else if (missing > 0)
        (void)snprintf(words, cap,
                       "%" PRIu64 " frames are not whole; each has its row in the "
                       "frame table.",
                       missing);
    else
        (void)snprintf(words, cap, "Every frame offered is in the store and durable.");
}

tg_status record_write_report(recording *r)
{
    static report_rows numbers, settings; /* large, and there is one of each */
    const char *path = r->o->report;
    char words[512];
    report_record page = {.title = r->c->operands.item[0],
                          .verdict = words,
                          .report = &r->report,
                          .rss_bytes = cli_rss_peak(),
                          .budget_bytes = r->c->common->memory,
                          .numbers = &numbers,
                          .settings = &settings};
    uint64_t offered = r->report.total.offered;
    page.frame_bytes = offered > 0 ? r->report.total.bytes_in / offered : 0;
    if (r->n == 1)
        page.frame_bytes = (r->array[0].height > 0 ? r->array[0].height : 1) *
                           r->array[0].width * r->array[0].dtype.size;
    numbers.n = settings.n = 0;
    fill_numbers(&numbers, r);
    fill_settings(&settings, r);
    verdict(r, &page.good, words, sizeof words);

    FILE *f = fopen(path, "we");
    if (f == NULL)
        return cli_fail_errno(&r->c->err, path, "write");
    report_write_record(f, &page);
    bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad)
        return cli_fail_errno(&r->c->err, path, "write");
    return TG_OK;
}
