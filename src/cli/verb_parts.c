/* cli/verb_parts.c - run, finish, status: a planned apply by several processes. */
#include "apply.h"
#include "tidegate/memory.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct parts_options {
    cli_common common;
    const char *part;
    uint64_t jobs;
} parts_options;

#define AT(member) offsetof(parts_options, member)

static const cli_option options_table[] = {
    {"jobs", CLI_COUNT, AT(jobs), "N",
     "calls at once (--threads; of a built-in operation, twice that)"},
    {"part", CLI_TEXT, AT(part), "i/n|auto",
     "the i-th of n parts, from 0; auto: the index of a job array or rank in the environment, "
     "where there is none the next part that nobody has"},
};

static void list_missing(cli *c, const tg_apply_report *r)
{
    json_u64(&c->json, "parts", r->parts);
    json_u64(&c->json, "done", r->parts - r->n_missing);
    json_open_list(&c->json, "missing");
    for (uint64_t i = 0; i < r->n_missing && i < TG_APPLY_MISSING; i++)
        json_u64(&c->json, NULL, r->missing[i]);
    json_close_list(&c->json);
}

static void print_missing(const cli *c, const tg_apply_report *r)
{
    if (c->common->json)
        return;
    (void)printf("%" PRIu64 " of %" PRIu32 " parts are done", r->parts - r->n_missing,
                 r->parts);
    for (uint64_t i = 0; i < r->n_missing && i < TG_APPLY_MISSING; i++)
        (void)printf("%s%" PRIu32, i == 0 ? "; missing: " : " ", r->missing[i]);
    (void)printf("\n");
}

static tg_status check(cli *c, const parts_options *o, bool merge)
{
    if (o->jobs > 4096)
        return cli_fail(&c->err, TG_INVALID, "--jobs: at most 4096");
    if (!merge && o->part == NULL)
        return cli_fail(&c->err, TG_INVALID, "--part is missing: i/n, or auto");
    return TG_OK;
}

static int go(cli *c, const parts_options *o, bool merge)
{
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    CLI_AUTO(cli_auto_free) tg_apply_report *r = tg_alloc(sizeof *r);
    const tg_apply_options request = {.size = sizeof request,
                                      .jobs = (uint32_t)o->jobs,
                                      .progress = cli_progress_report,
                                      .progress_user = &c->progress};

    if (r == NULL) {
        (void)cli_fail(&c->err, TG_NO_MEMORY, "no memory for the report");
        return CLI_FAILED;
    }
    *r = (tg_apply_report){.size = sizeof *r};
    if (check(c, o, merge) != TG_OK)
        return CLI_USAGE;
    if (cli_runtime(c, c->common->memory, &rt) != TG_OK)
        return cli_refused(c);
    tg_status st = tg_apply_run(rt, c->operands.item[0], merge ? NULL : o->part, &request, r,
                                c->cancel, &c->err);
    cli_progress_end(&c->progress);
    apply_json(&c->json, r);
    list_missing(c, r);
    if (r->part < r->parts)
        json_u64(&c->json, "part", r->part);
    json_bool(&c->json, "merged", r->merged);
    json_bool(&c->json, "was_done", r->was_done);
    if (st == TG_OK || st == TG_INCOMPLETE)
        print_missing(c, r);
    return apply_exit(c, st, r);
}

static int run_part(cli *c, void *options)
{
    return go(c, options, false);
}

static int run_finish(cli *c, void *options)
{
    return go(c, options, true);
}

static int run_status(cli *c, void *options)
{
    (void)options;
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    CLI_AUTO(cli_auto_free) tg_apply_report *r = tg_alloc(sizeof *r);

    if (r == NULL) {
        (void)cli_fail(&c->err, TG_NO_MEMORY, "no memory for the report");
        return CLI_FAILED;
    }
    *r = (tg_apply_report){.size = sizeof *r};
    if (cli_runtime(c, c->common->memory, &rt) != TG_OK ||
        tg_apply_status(rt, c->operands.item[0], r, &c->err) != TG_OK)
        return cli_refused(c);
    cli_no_error(c);
    list_missing(c, r);
    json_bool(&c->json, "finished", r->was_done);
    print_missing(c, r);
    return CLI_DONE;
}

const cli_verb cli_run = {
    .name = "run",
    .operands = "PLAN",
    .least = 1,
    .most = 1,
    .summary = "run one part of a plan; the last to end merges",
    .example =
        "  tidegate run smooth.plan --part 0/8\n  tidegate run smooth.plan --part auto\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .run = run_part,
};

const cli_verb cli_finish = {
    .name = "finish",
    .operands = "PLAN",
    .least = 1,
    .most = 1,
    .summary = "merge the parts of a plan, if the last to end did not (75: parts are missing)",
    .example = "  tidegate finish smooth.plan\n",
    .options = options_table,
    .n_options = 1,
    .run = run_finish,
};

const cli_verb cli_status = {
    .name = "status",
    .operands = "PLAN",
    .least = 1,
    .most = 1,
    .summary = "say which parts of a plan are done",
    .example = "  tidegate status smooth.plan --json\n",
    .run = run_status,
};
