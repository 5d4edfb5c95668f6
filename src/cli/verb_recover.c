/* cli/verb_recover.c - recover: bring back what a recorder that died had made durable. */
#include "cli.h"
#include "tidegate/stream.h"

#include <inttypes.h>
#include <stdio.h>

static int run(cli *c, void *options)
{
    (void)options;
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    if (cli_runtime(c, c->common->memory, &rt) != TG_OK)
        return cli_refused(c);
    tg_recover_result r = {.size = sizeof r};
    const char *path = c->operands.item[0];
    if (tg_recover(rt, path, &r, &c->err) != TG_OK)
        return c->err.code == TG_INVALID || c->err.code == TG_OVER_BUDGET ? CLI_USAGE
                                                                          : CLI_FAILED;
    json_u64(&c->json, "frames_before", r.frames_before);
    json_u64(&c->json, "frames_after", r.frames_after);
    json_u64(&c->json, "repaired", r.repaired);
    json_u64(&c->json, "rss_bytes_peak", cli_rss_peak());
    if (c->common->json)
        return CLI_DONE;
    if (r.repaired == 0)
        (void)printf("%s: nothing to repair, %" PRIu64 " frames\n", path, r.frames_after);
    else
        (void)printf("%s: %" PRIu64 " frames before, %" PRIu64 " now; %" PRIu64
                     " files repaired\n",
                     path, r.frames_before, r.frames_after, r.repaired);
    return CLI_DONE;
}

const cli_verb cli_recover = {
    .name = "recover",
    .operands = "PATH",
    .least = 1,
    .most = 1,
    .summary = "bring back every durable frame after a crash",
    .example = "  tidegate recover run.zarr\n",
    .run = run,
};
