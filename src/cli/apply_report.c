/* cli/apply_report.c - fills the HTML report of a run of apply. */
#include "apply.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

static void fill_numbers(report_rows *rows, const tg_apply_report *r)
{
    char text[24];

    report_row(rows, "regions", "%" PRIu64, r->rois);
    report_row(rows, "empty", "%" PRIu64, r->empty);
    report_row(rows, "calls", "%" PRIu64, r->calls);
    report_row(rows, "failed", "%" PRIu64, r->failed);
    report_flag(rows, r->failed > 0);
    if (r->failed > 0)
        report_row(rows, "the first that failed", "%" PRIu64 ": %.120s", r->first_failed,
                   r->why);
    report_row(rows, "units read", "%" PRIu64, r->units_read);
    report_row(rows, "units written", "%" PRIu64, r->units_written);
    report_row(rows, "bytes read", "%s", cli_bytes_text(r->bytes_read, text, sizeof text));
    report_row(rows, "bytes written", "%s",
               cli_bytes_text(r->bytes_written, text, sizeof text));
    report_row(rows, "spilled to the disk", "%s",
               cli_bytes_text(r->spilled_bytes, text, sizeof text));
    report_row(rows, "waiting for their turn, at most", "%s",
               cli_bytes_text(r->parked_peak_bytes, text, sizeof text));
    report_row(rows, "saturated items", "%" PRIu64, r->saturated);
    report_flag(rows, r->saturated > 0);
    report_row(rows, "regions not on whole pixels", "%" PRIu64, r->not_snapped);
    report_row(rows, "regions cut at the border", "%" PRIu64, r->clamped);
    report_row(rows, "calls at once, at most", "%u", r->in_flight_peak);
    report_row(rows, "commits", "%" PRIu64, r->commits);
    report_row(rows, "took up an earlier run", "%s", r->resumed ? "yes" : "no");
    report_row(rows, "planned in", "%.3f s", r->plan_seconds);
    report_row(rows, "took", "%.3f s", r->seconds);
}

static void fill_settings(report_rows *rows, const cli *c, const apply_options *o,
                          const tg_apply_options *q)
{
    char text[24];

    report_row(rows, "IN", "%.150s", cli_shown(c, 0));
    report_row(rows, "OUT", "%.150s",
               c->operands.n > 1 && !o->in_place ? c->operands.item[1] : "in place");
    report_row(rows, "function", "%.150s", q->function);
    report_row(rows, "regions from", "%.150s", q->rois);
    report_row(rows, "policy", "%.60s", q->policy != NULL ? q->policy : "error");
    report_row(rows, "reads", "%.60s", q->read);
    report_row(rows, "halo", "%.60s", o->halo != NULL ? o->halo : "0");
    if (o->pad != NULL)
        report_row(rows, "pad", "%.60s", o->pad);
    report_row(rows, "jobs", q->jobs > 0 ? "%u" : "one per thread", q->jobs);
    report_row(rows, "a region that fails", "%.60s",
               o->on_error != NULL ? o->on_error : "stops the run");
    report_row(rows, "memory budget", "%s",
               cli_bytes_text(c->common->memory, text, sizeof text));
}

static void verdict(const cli *c, const tg_apply_report *r, char *words, size_t cap)
{
    if (c->err.code != TG_OK)
        (void)snprintf(words, cap, "Not done: %.400s", c->err.msg);
    else if (r->failed > 0)
        (void)snprintf(words, cap, "%" PRIu64 " regions failed and were left out.", r->failed);
    else
        (void)snprintf(words, cap, "Every region was called once, and its result is in OUT.");
}

tg_status apply_write_report(cli *c, const apply_options *o, const tg_apply_options *request,
                             const tg_apply_report *r, tg_error *err)
{
    static report_rows numbers, settings; /* large, and there is one of each */
    char words[512];
    report_apply page = {.title = c->operands.item[c->operands.n - 1],
                         .verdict = words,
                         .good = c->err.code == TG_OK && r->failed == 0,
                         .report = r,
                         .rss_bytes = cli_rss_peak(),
                         .budget_bytes = c->common->memory,
                         .numbers = &numbers,
                         .settings = &settings};

    numbers.n = settings.n = 0;
    fill_numbers(&numbers, r);
    fill_settings(&settings, c, o, request);
    verdict(c, r, words, sizeof words);
    FILE *f = fopen(o->report, "we");
    if (f == NULL)
        return cli_fail_errno(err, o->report, "write");
    report_write_apply(f, &page);
    const bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad)
        return cli_fail_errno(err, o->report, "write");
    return TG_OK;
}
