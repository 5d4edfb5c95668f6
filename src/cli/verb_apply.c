/* cli/verb_apply.c - apply: a function over regions of an array. undo: take back what it
 * replaced. */
#include "apply.h"
#include "tidegate/memory.h"
#include "tidegate/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ONLY_PLAN  2 /* options at the head of the table */
#define AT(member) offsetof(apply_options, member)

static const cli_option options_table[] = {
    {"out", CLI_TEXT, AT(out), "PLAN", "the plan's file, which every process must see"},
    {"parts", CLI_COUNT, AT(parts), "N", "how many parts (1)"},
    {"op", CLI_TEXT, AT(op), "NAME[:k=v,...]", "a built-in operation: gaussian:sigma=2"},
    {"exec", CLI_TEXT, AT(exec), "'CMD {in} {out}'", "a command for each region, over .npy"},
    {"plugin", CLI_TEXT, AT(plugin), "FILE.so[:SYM]",
     "a function of a shared object (tidegate/plugin.h)"},
    {"worker", CLI_TEXT, AT(worker), "CMD", "processes that stay, over shared memory"},
    {"rois", CLI_TEXT, AT(rois), "FILE|table:NAME|grid:SIZE[/STEP]",
     "the regions: .json, .csv, .geojson, RoiSet.zip, a table of the image, a grid"},
    {"px-rule", CLI_TEXT, AT(px_rule), "ngio|fractal1|nearest|inner|outer",
     "how lengths become pixels (ngio)"},
    {"halo", CLI_TEXT, AT(halo), "N[,N...]",
     "items that a call sees around its region: of the last axes; one number: of the last two"},
    {"pad", CLI_TEXT, AT(pad), "constant[:VALUE]|fill|edge|reflect|symmetric",
     "what a call sees where the halo reaches beyond IN, as numpy.pad has it (nothing)"},
    {"policy", CLI_TEXT, AT(policy), "NAME",
     "what regions that share pixels become: error last first max min or and sum mean blend "
     "nonzero mask labels user (error)"},
    {"in-place", CLI_FLAG, AT(in_place), NULL, "OUT is IN"},
    {"base", CLI_CHOICE, AT(base), "fill|input",
     "pixels that no region writes: OUT's, or IN's (fill)"},
    {"keep-undo", CLI_FLAG, AT(keep_undo), NULL, "keep what is replaced, for `undo`"},
    {"read", CLI_CHOICE, AT(read), "snapshot|sequential",
     "a call sees the array as it was, or all effects of the regions before it (snapshot)"},
    {"jobs", CLI_COUNT, AT(jobs), "N",
     "calls at once (--threads; of a built-in operation, twice that)"},
    {"on-error", CLI_TEXT, AT(on_error), "stop|skip|retry:N",
     "a region whose call fails (stop)"},
    {"call-timeout", CLI_DURATION, AT(call_timeout), "T", "of one call (none)"},
    {"commit-interval", CLI_DURATION, AT(commit_interval), "T",
     "how much a power cut may cost (1s)"},
    {"dtype", CLI_DTYPE, AT(dtype), "TYPE", "of a new OUT (what the function makes of IN's)"},
    {"codec", CLI_TEXT, AT(codec), "SPEC", "of a new OUT (none)"},
    {"table", CLI_TEXT, AT(table), "FILE.csv|FILE.json|table:NAME",
     "where the rows of measure and stats go, which make no OUT"},
    {"backend", CLI_CHOICE, AT(backend), "anndata|csv|json",
     "what a table:NAME is kept in (anndata)"},
    {"overwrite", CLI_FLAG, AT(overwrite), NULL, "replace a table that is there"},
    {"report", CLI_TEXT, AT(report), "FILE.html",
     "one page with no outside resource: calls, rates, memory, failures, slowest regions"},
};

/* --- Options -------------------------------------------------------------------------------
 */

static tg_status choose_function(const apply_options *o, tg_apply_options *r, tg_error *err)
{
    const char *const texts[4] = {o->op, o->plugin, o->exec, o->worker};
    int n = 0;

    for (int i = 0; i < 4; i++)
        if (texts[i] != NULL) {
            r->function = texts[i];
            r->kind = "opew"[i];
            n++;
        }
    if (n == 1)
        return TG_OK;
    return cli_fail(err, TG_INVALID, "%s: one of --op, --plugin, --exec, --worker is wanted",
                    n == 0 ? "no function" : "several functions");
}

static tg_status parse_halo(const char *text, tg_apply_options *r, tg_error *err)
{
    char word[24];

    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, ",");
        if (n == 0 || n >= sizeof word || r->n_halo == TG_MAX_NDIM)
            return cli_fail(err, TG_INVALID, "--halo '%.60s': want N or N,N,...", text);
        (void)snprintf(word, sizeof word, "%.*s", (int)n, text);
        if (tg_parse_u64(word, &r->halo[r->n_halo++], err) != TG_OK) {
            cli_prefix(err, "--halo");
            return TG_INVALID;
        }
        text += n + (text[n] == ',');
    }
    return TG_OK;
}

static tg_status parse_on_error(const char *text, tg_apply_options *r, tg_error *err)
{
    uint64_t n = 0;

    if (text == NULL || strcmp(text, "stop") == 0)
        return TG_OK;
    r->skip_failed = true; /* retry:N: left out when all tries have failed */
    if (strcmp(text, "skip") == 0)
        return TG_OK;
    if (strncmp(text, "retry:", 6) != 0 || tg_parse_u64(text + 6, &n, NULL) != TG_OK ||
        n > 1000)
        return cli_fail(err, TG_INVALID, "--on-error '%.60s': want stop, skip or retry:N",
                        text);
    r->retries = (uint32_t)n;
    return TG_OK;
}

tg_status apply_request(cli *c, const apply_options *o, tg_apply_options *r)
{
    static const char *const bases[] = {"fill", "input"}, *const reads[] = {"snapshot",
                                                                            "sequential"};
    static const char *const backends[] = {NULL, "csv", "json"};
    tg_error *err = &c->err;

    *r = (tg_apply_options){.size = sizeof *r,
                            .rois = o->rois,
                            .px_rule = o->px_rule,
                            .policy = o->policy,
                            .pad = o->pad,
                            .base = bases[o->base],
                            .read = reads[o->read],
                            .in_place = o->in_place,
                            .keep_undo = o->keep_undo,
                            .dtype = o->dtype.kind == TG_DT_NONE ? NULL : &o->dtype,
                            .codec = o->codec,
                            .table = o->table,
                            .table_backend = backends[o->backend],
                            .table_overwrite = o->overwrite,
                            .call_timeout_ms = (uint64_t)(o->call_timeout * 1000 + 0.999),
                            .commit_interval_ms = (uint64_t)(o->commit_interval * 1000),
                            .progress = cli_progress_report,
                            .progress_user = &c->progress};
    tg_status st = choose_function(o, r, err);
    if (st == TG_OK && o->rois == NULL)
        st = cli_fail(err, TG_INVALID, "--rois is missing: which regions?");
    if (st == TG_OK && o->parts > 65536)
        st = cli_fail(err, TG_INVALID, "--parts: at most 65536");
    if (st == TG_OK && o->jobs > 4096)
        st = cli_fail(err, TG_INVALID, "--jobs: at most 4096");
    r->jobs = (uint32_t)o->jobs;
    if (st == TG_OK)
        st = parse_halo(o->halo, r, err);
    return st == TG_OK ? parse_on_error(o->on_error, r, err) : st;
}

/* --- What came of it ------------------------------------------------------------------------
 */

void apply_json(json_out *j, const tg_apply_report *r)
{
    json_u64(j, "rois", r->rois);
    json_u64(j, "calls", r->calls);
    json_u64(j, "failed", r->failed);
    json_u64(j, "units_read", r->units_read);
    json_u64(j, "units_written", r->units_written);
    json_u64(j, "bytes_read", r->bytes_read);
    json_u64(j, "bytes_written", r->bytes_written);
    json_u64(j, "spilled_bytes", r->spilled_bytes);
    json_u64(j, "parked_peak_bytes", r->parked_peak_bytes);
    json_u64(j, "rss_bytes_peak", cli_rss_peak());
    json_u64(j, "table_rows", r->table_rows);
    json_double(j, "seconds", r->seconds);
    json_double(j, "plan_seconds", r->plan_seconds);
    json_u64(j, "empty", r->empty);
    json_u64(j, "saturated", r->saturated);
    json_u64(j, "not_snapped", r->not_snapped);
    json_u64(j, "clamped", r->clamped);
    json_u64(j, "in_flight_peak", r->in_flight_peak);
    json_u64(j, "memory_bytes_peak", r->memory_peak_bytes);
    json_u64(j, "commits", r->commits);
    json_bool(j, "resumed", r->resumed);
}

static void apply_text(const cli *c, const tg_apply_report *r)
{
    char in[24], out[24];

    if (c->common->json)
        return;
    if (r->was_done)
        (void)printf("an earlier run of this had ended; what it left is tidied away\n");
    (void)printf("%" PRIu64 " regions, %" PRIu64 " calls; %" PRIu64 " units read (%s), %" PRIu64
                 " written (%s); %.1f s\n",
                 r->rois, r->calls, r->units_read, cli_bytes_text(r->bytes_read, in, sizeof in),
                 r->units_written, cli_bytes_text(r->bytes_written, out, sizeof out),
                 r->seconds);
    if (r->table_rows > 0)
        (void)printf("%" PRIu64 " rows in the table\n", r->table_rows);
    if (r->failed > 0)
        (void)fprintf(stderr, "%" PRIu64 " regions failed and were left out; the first: %s\n",
                      r->failed, r->why);
    if (r->saturated > 0)
        (void)fprintf(stderr, "%" PRIu64 " items did not fit the type of OUT and saturate\n",
                      r->saturated);
}

int apply_exit(cli *c, tg_status st, const tg_apply_report *r)
{
    if (st == TG_CANCELLED || st == TG_BUSY || st == TG_INCOMPLETE)
        return CLI_TRY_AGAIN;
    if (st != TG_OK)
        return r->calls == 0 ? cli_refused(c) : CLI_FAILED;
    cli_no_error(c);
    return r->failed > 0 ? CLI_INCOMPLETE : CLI_DONE;
}

/* --- The verbs
 * -------------------------------------------------------------------------------- */

static tg_status open_places(cli *c, const apply_options *o, cli_place *in, cli_place *out)
{
    const cli_operands *p = &c->operands;

    if (o->in_place && p->n > 1)
        return cli_fail(&c->err, TG_INVALID, "--in-place: no OUT, for it is IN");
    const bool writes =
        o->in_place || (o->table != NULL && strncmp(o->table, "table:", 6) == 0);
    tg_status st = writes ? place_open_writing(c, p->item[0], false, in)
                          : place_open_around(c, p->item[0], in);
    if (st == TG_OK && p->n > 1)
        st = place_open_writing(c, p->item[1], true, out);
    return st;
}

static int run(cli *c, void *options)
{
    const apply_options *o = options;
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    CLI_AUTO(place_close) cli_place in = {0};
    CLI_AUTO(place_close) cli_place out = {0};
    CLI_AUTO(cli_auto_free) tg_apply_report *r = tg_alloc(sizeof *r);
    tg_apply_options request;

    if (r == NULL) {
        (void)cli_fail(&c->err, TG_NO_MEMORY, "no memory for the report");
        return CLI_FAILED;
    }
    *r = (tg_apply_report){.size = sizeof *r};
    if (apply_request(c, o, &request) != TG_OK)
        return CLI_USAGE;
    if (cli_runtime(c, c->common->memory, &rt) != TG_OK ||
        open_places(c, o, &in, &out) != TG_OK)
        return cli_refused(c);
    request.in_store = in.store;
    request.in_path = in.prefix;
    request.out_store = out.store;
    request.out_path = out.prefix;
    tg_status st = o->out == NULL ? tg_apply(rt, &request, r, c->cancel, &c->err)
                                  : tg_apply_plan(rt, &request, o->out,
                                                  (uint32_t)(o->parts == 0 ? 1 : o->parts), r,
                                                  c->cancel, &c->err);
    cli_progress_end(&c->progress);
    if (st == TG_OK && out.store != NULL)
        st = place_finish(c, &out);
    else if (st != TG_OK && out.store != NULL && r->calls == 0)
        place_undo(c, c->operands.item[1], &out);
    apply_json(&c->json, r);
    if (st == TG_OK && o->out == NULL)
        apply_text(c, r);
    if (o->report != NULL && (st == TG_OK || r->calls > 0)) {
        tg_error failed = {.offset = TG_NO_OFFSET};
        if (st == TG_OK)
            cli_no_error(c);
        if (apply_write_report(c, o, &request, r, &failed) != TG_OK && st == TG_OK) {
            c->err = failed;
            return CLI_FAILED;
        }
    }
    return apply_exit(c, st, r);
}

const cli_verb cli_apply = {
    .name = "apply",
    .operands = "IN [OUT]",
    .least = 1,
    .most = 2,
    .summary = "apply a function to regions of an array, each once",
    .example = "  tidegate apply raw.zarr/0 smooth.zarr --rois grid:256/192 --halo 8 \\\n"
               "    --policy blend --op gaussian:sigma=2\n"
               "  tidegate apply x.zarr --in-place --rois table:FOV_ROI_table --op "
               "illumination:flat=flat.zarr\n",
    .options = options_table + ONLY_PLAN,
    .n_options = sizeof options_table / sizeof options_table[0] - ONLY_PLAN,
    .run = run,
};

static int run_plan(cli *c, void *options)
{
    const apply_options *o = options;

    if (o->out == NULL) {
        (void)cli_fail(&c->err, TG_INVALID, "--out is missing: where is the plan to go?");
        return CLI_USAGE;
    }
    return run(c, options);
}

const cli_verb cli_plan = {
    .name = "plan",
    .operands = "IN [OUT]",
    .least = 1,
    .most = 2,
    .summary = "plan an apply for several processes: run, finish and status take the plan",
    .example = "  tidegate plan raw.zarr/0 smooth.zarr --out smooth.plan --parts 8 \\\n"
               "    --rois grid:256/192 --policy max --op gaussian:sigma=2\n"
               "  tidegate run smooth.plan --part 0/8\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .run = run_plan,
};

static int run_undo(cli *c, void *options)
{
    (void)options;
    CLI_AUTO(place_close) cli_place out = {0};
    uint64_t n = 0;

    if (place_open_writing(c, c->operands.item[0], false, &out) != TG_OK)
        return cli_refused(c);
    tg_status st = tg_apply_undo(out.store, out.prefix, &n, c->cancel, &c->err);
    json_u64(&c->json, "units", n);
    if (st == TG_BUSY)
        return CLI_TRY_AGAIN;
    if (st != TG_OK)
        return n == 0 ? cli_refused(c) : CLI_FAILED;
    cli_no_error(c);
    if (!c->common->json)
        (void)printf("%s: %" PRIu64 " units put back\n", c->operands.item[0], n);
    return CLI_DONE;
}

const cli_verb cli_undo = {
    .name = "undo",
    .operands = "OUT",
    .least = 1,
    .most = 1,
    .summary = "put back what a run of apply with --keep-undo replaced",
    .example = "  tidegate undo x.zarr/0\n",
    .run = run_undo,
};
