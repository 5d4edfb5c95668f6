/* cli/apply.h - what apply and the verbs of its pieces share. */
#ifndef TG_CLI_APPLY_H
#define TG_CLI_APPLY_H

#include "place.h"
#include "tidegate/region.h"

typedef struct apply_options {
    cli_common common;
    const char *op, *exec, *plugin, *worker;
    const char *rois, *px_rule, *policy, *halo, *pad, *on_error, *codec, *report, *table;
    int base, read, backend;
    bool in_place, keep_undo, overwrite;
    const char *out; /* plan only */
    uint64_t parts;
    uint64_t jobs;
    double call_timeout, commit_interval;
    tg_dtype dtype;
} apply_options;

/* From options to what the library wants, but for the stores. */
TG_MUST_USE tg_status apply_request(cli *c, const apply_options *o, tg_apply_options *request);
int apply_exit(cli *c, tg_status st, const tg_apply_report *r);
void apply_json(json_out *j, const tg_apply_report *r);
/* The page of --report. Call it where c->err says how the run ended. */
TG_MUST_USE tg_status apply_write_report(cli *c, const apply_options *o,
                                         const tg_apply_options *request,
                                         const tg_apply_report *r, tg_error *err);

#endif
