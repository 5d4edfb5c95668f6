/* cli/verbs.c - the table of verbs, the options that all of them take, and the help. */
#include "cli.h"
#include "tidegate/text.h"

#include <stdio.h>
#include <string.h>

static const cli_verb *const verbs[] = {
    &cli_record, &cli_recover,  &cli_verify, &cli_info,  &cli_ls,       &cli_cat,   &cli_create,
    &cli_attrs,  &cli_validate, &cli_rois,   &cli_clean, &cli_annotate, &cli_apply, &cli_undo,
    &cli_bench,  &cli_copy,     &cli_plan,   &cli_run,   &cli_finish,   &cli_status};
enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

static const cli_option common_options[] = {
    {"memory", CLI_SIZE, offsetof(cli_common, memory), "SIZE",
     "ceiling for everything that grows with the data (256MiB)"},
    {"threads", CLI_COUNT, offsetof(cli_common, threads), "N",
     "threads of the pool (one per processor)"},
    {"progress", CLI_CHOICE, offsetof(cli_common, progress), "auto|json|none",
     "how progress is shown on standard error (auto)"},
    {"json", CLI_FLAG, offsetof(cli_common, json), NULL,
     "print one JSON object on standard output, also on failure"},
    {"help", CLI_FLAG, offsetof(cli_common, help), NULL, "print this help"},
};
enum { N_COMMON = sizeof common_options / sizeof common_options[0] };

const cli_verb *cli_find_verb(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

const cli_verb *cli_verb_at(size_t i)
{
    return i < N_VERBS ? verbs[i] : NULL;
}

const char *cli_nearest_verb(const char *name)
{
    const char *words[N_VERBS];
    for (size_t i = 0; i < N_VERBS; i++)
        words[i] = verbs[i]->name;
    return cli_nearest(name, words, N_VERBS);
}

static tg_status check_operands(const cli_verb *verb, const cli_operands *operands,
                                tg_error *err)
{
    if (operands->n < verb->least)
        return cli_fail(err, TG_INVALID, "operand missing: tidegate %s [options] %s",
                        verb->name, verb->operands);
    if (operands->n > verb->most)
        return cli_fail(err, TG_INVALID, "unexpected operand '%.60s': tidegate %s [options] %s",
                        operands->item[verb->most], verb->name, verb->operands);
    for (size_t i = 0; i < operands->n; i++)
        if (!tg_utf8_valid(operands->item[i], strlen(operands->item[i])))
            return cli_fail(err, TG_INVALID, "operand %zu is not valid UTF-8", i + 1);
    return TG_OK;
}

tg_status cli_parse_verb(const cli_verb *verb, int n, const char *const *args, void *options,
                         cli_operands *operands, tg_error *err)
{
    const cli_options tables[] = {{verb->options, verb->n_options}, {common_options, N_COMMON}};
    cli_common *common = options;
    memset(options, 0, CLI_OPTIONS_BYTES);
    if (verb->defaults != NULL)
        verb->defaults(options);
    tg_status st = cli_parse(tables, 2, n, args, options, operands, err);
    common->memory_given = common->memory > 0;
    if (!common->memory_given)
        common->memory = TG_DEFAULT_MEMORY_BYTES;
    if (st != TG_OK || common->help)
        return st;
    if (common->threads > 1024)
        return cli_fail(err, TG_INVALID, "--threads: at most 1024");
    return check_operands(verb, operands, err);
}

static void print_options(const cli_option *options, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char left[64];
        const cli_option *o = &options[i];
        (void)snprintf(left, sizeof left, "--%s%s%s", o->name, o->arg != NULL ? " " : "",
                       o->arg != NULL ? o->arg : "");
        if (strlen(left) <= 30)
            (void)printf("  %-30s  %s\n", left, o->help);
        else
            (void)printf("  %s\n  %-30s  %s\n", left, "", o->help);
    }
}

void cli_print_verb_help(const cli_verb *verb)
{
    (void)printf("tidegate %s [options] %s\n\n%s\n", verb->name, verb->operands, verb->summary);
    if (verb->n_options > 0) {
        (void)printf("\nOptions:\n");
        print_options(verb->options, verb->n_options);
    }
    (void)printf("\nOptions of every verb:\n");
    print_options(common_options, N_COMMON);
    (void)printf("\nSizes take KiB, MiB, GiB, TiB; durations ms, s, m, h.\n\nExample:\n%s",
                 verb->example);
}

void cli_print_help(FILE *to)
{
    (void)fprintf(to, "tidegate VERB [options] ...\n\n"
                      "Records arrays that do not fit in memory, in Zarr, at the speed of the "
                      "disk.\n\nVerbs:\n");
    for (size_t i = 0; i < N_VERBS; i++)
        (void)fprintf(to, "  %-8s %s\n", verbs[i]->name, verbs[i]->summary);
    (void)fprintf(to, "\ntidegate VERB --help tells more; tidegate --version names the "
                      "libraries.\n\n"
                      "Exit status: 0 done, 1 failed or something bad found, 2 wrong usage or "
                      "refused before any work,\n3 incomplete, 75 try again.\n");
}
