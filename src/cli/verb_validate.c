/* cli/verb_validate.c - validate: does a hierarchy follow OME-NGFF? */
#include "place.h"
#include "tidegate/ome.h"

#include <stdio.h>

static int run(cli *c, void *options)
{
    (void)options;
    CLI_AUTO(place_close) cli_place place = {0};
    const char *path = c->operands.item[0];
    tg_ome_verdict v = {.size = sizeof v};
    if (place_open(c, path, &place) != TG_OK)
        return cli_refused(c);
    tg_status st = tg_ome_validate(place.store, place.prefix, &v, c->cancel, &c->err);
    if (st == TG_CANCELLED)
        return CLI_INCOMPLETE;
    if (st != TG_OK)
        return cli_refused(c);
    cli_no_error(c);
    json_bool(&c->json, "valid", v.valid != 0);
    json_text(&c->json, "message", v.message);
    json_text(&c->json, "kind", v.kind[0] != '\0' ? v.kind : NULL);
    json_text(&c->json, "version", v.version);
    if (!c->common->json && v.valid != 0)
        (void)printf("%s: valid: OME-NGFF %s, %s\n", cli_shown(c, 0), v.version, v.kind);
    else if (!c->common->json)
        (void)printf("%s: invalid: %s\n", cli_shown(c, 0), v.message);
    return v.valid != 0 ? CLI_DONE : CLI_FAILED;
}

const cli_verb cli_validate = {
    .name = "validate",
    .operands = "PATH",
    .least = 1,
    .most = 1,
    .summary = "check OME-NGFF metadata (0.4 on Zarr 2, 0.5 on Zarr 3)",
    .example = "  tidegate validate run.zarr\n  tidegate validate --json plate.zarr/A/1\n",
    .run = run,
};
