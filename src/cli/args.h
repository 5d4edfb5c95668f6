/* cli/args.h - reads GNU long options into a verb's own struct, by a table. Knows the kinds of
 * values people type; knows no verb. */
#ifndef TG_CLI_ARGS_H
#define TG_CLI_ARGS_H

#include "tidegate/dtype.h"
#include "tidegate/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum cli_kind {
    CLI_FLAG,     /* bool; takes no value */
    CLI_TEXT,     /* const char *; not empty, UTF-8 */
    CLI_SIZE,     /* uint64_t, bytes, 1 or more */
    CLI_DURATION, /* double, seconds, above 0 */
    CLI_SECONDS,  /* double, seconds, above 0: a bare number, or a duration */
    CLI_COUNT,    /* uint64_t, 1 or more */
    CLI_NATURAL,  /* uint64_t, 0 or more */
    CLI_NUMBER,   /* double, finite and above 0 */
    CLI_SHAPE,    /* cli_extents of exactly two: H,W */
    CLI_EXTENTS,  /* cli_extents: 64,256,256 */
    CLI_DTYPE,    /* tg_dtype */
    CLI_CHOICE,   /* int: place of the word in the option's `arg`, "auto|on|off" */
    CLI_LIST      /* cli_list: the option may be repeated */
} cli_kind;

/* Extents given by the user, each 1 or more; n 0: not given. */
typedef struct cli_extents {
    uint32_t n;
    uint64_t v[TG_MAX_NDIM];
} cli_extents;

#define CLI_MAX_REPEATS 64

/* Borrowed from the arguments, in their order. */
typedef struct cli_list {
    size_t n;
    const char *item[CLI_MAX_REPEATS];
} cli_list;

typedef struct cli_option {
    const char *name; /* without the dashes */
    cli_kind kind;
    size_t at;       /* where the value goes: offset in the verb's struct */
    const char *arg; /* for the help, "SIZE"; the words of a CLI_CHOICE; NULL for a flag */
    const char *help;
} cli_option;

typedef struct cli_options {
    const cli_option *table;
    size_t n;
} cli_options;

/* The operands that are left when all options are taken out, in their order. */
#define CLI_MAX_OPERANDS 16
typedef struct cli_operands {
    size_t n;
    const char *item[CLI_MAX_OPERANDS];
} cli_operands;

/* Read args[0 .. n): "--name value", "--name=value", "--flag", "--" (the rest are operands).
 * The tables are searched in turn; values go to `into`, which holds the defaults before.
 * TG_INVALID with what was wrong and, for a name that is not known, the nearest one. *into is
 * then partly filled. Nothing is allocated; texts and lists are borrowed from args. */
TG_MUST_USE tg_status cli_parse(const cli_options *tables, size_t n_tables, int n,
                                const char *const *args, void *into, cli_operands *operands,
                                tg_error *err);

/* The values by themselves, for words that verbs take apart on their own. `what` names the
 * value in messages. */
TG_MUST_USE tg_status cli_parse_extents(const char *s, cli_extents *out, tg_error *err);
TG_MUST_USE tg_status cli_parse_choice(const char *words, const char *s, int *out,
                                       tg_error *err);

/* The word nearest to s of `words` (n of them), or NULL if none is near enough to be meant. */
const char *cli_nearest(const char *s, const char *const *words, size_t n);

/* Fill err and return code; for the command, which does not see the library's own. */
TG_PRINTF(3, 4)
tg_status cli_fail(tg_error *err, tg_status code, const char *fmt, ...);
/* Put words in front of err's message. */
TG_PRINTF(2, 3)
void cli_prefix(tg_error *err, const char *fmt, ...);

#endif
