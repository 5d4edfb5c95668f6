/* cli/annotate.h - the options of `annotate`, between its verb and its report. */
#ifndef TG_CLI_ANNOTATE_H
#define TG_CLI_ANNOTATE_H

#include "cli.h"
#include "tidegate/annotate.h"

#define ANNOTATE_WORDS 2048 /* characters of one list */

typedef struct annotate_options {
    cli_common common;
    cli_list db;
    bool strict_db, fixed, scores, merge, resume, overwrite, strict, lenient, plan;
    bool centroid, profile;
    const char *adducts, *losses, *mods, *polarity, *resolving_power, *part, *report, *ion;
    int mode, instrument, images, duplicates, grid_from;
    double sigma, ppm, fdr, deadline;
    uint64_t decoys, seed, segment;
    /* the lists taken apart */
    cli_list adduct_list, loss_list, mod_list;
    char adduct_room[ANNOTATE_WORDS], loss_room[ANNOTATE_WORDS], mod_room[ANNOTATE_WORDS];
} annotate_options;
_Static_assert(sizeof(annotate_options) <= CLI_OPTIONS_BYTES, "CLI_OPTIONS_BYTES");

/* What the words ask for; lists and texts are borrowed from o and the arguments. */
TG_MUST_USE tg_status annotate_request(cli *c, annotate_options *o, tg_annotate_options *out);
/* The page of --report. */
TG_MUST_USE tg_status annotate_write_report(cli *c, const annotate_options *o,
                                            const tg_annotate_options *request,
                                            const tg_annotate_result *r, tg_error *err);

#endif
