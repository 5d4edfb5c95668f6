/* cli/cli.h - what the verbs share: common options, the object that --json prints, exit
 * statuses, the cancel token that signals request. */
#ifndef TG_CLI_CLI_H
#define TG_CLI_CLI_H

#include "args.h"
#include "json_out.h"
#include "progress.h"
#include "tidegate/cancel.h"
#include "tidegate/runtime.h"

/* Exit statuses; scripts depend on them. */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,     /* failed, or something bad was found */
    CLI_USAGE = 2,      /* wrong usage, or refused before any work */
    CLI_INCOMPLETE = 3, /* frames lost, or stopped before what was asked for */
    CLI_TRY_AGAIN = 75  /* stopped, and can be taken up again */
};

/* The first member of every verb's options. */
typedef struct cli_common {
    uint64_t memory;  /* bytes */
    uint64_t threads; /* 0: one per processor */
    int progress;     /* place in "auto|json|none" */
    bool json, help, memory_given;
} cli_common;

/* One call of the command. */
typedef struct cli {
    const struct cli_verb *verb;
    const cli_common *common;
    cli_operands operands;
    char *shown[CLI_MAX_OPERANDS]; /* cli_shown()'s */
    json_out json;                 /* members of the object for --json, without "error" */
    tg_error err;                  /* filled: the verb failed */
    tg_cancel *cancel;             /* requested by the first SIGINT or SIGTERM */
    cli_progress progress;
} cli;

typedef struct cli_verb {
    const char *name;
    const char *operands; /* "PATH", for the usage line */
    size_t least, most;   /* operands */
    const char *summary;  /* one line */
    const char *example;  /* lines, each begun by two spaces */
    const cli_option *options;
    size_t n_options;
    /* Sets the defaults that are not zero; NULL: all are. `options` are of CLI_OPTIONS_BYTES
     * and zeroed; a cli_common is their first member and has its defaults. */
    void (*defaults)(void *options);
    int (*run)(cli *c, void *options);
} cli_verb;

#define CLI_OPTIONS_BYTES 16384

extern const cli_verb cli_record, cli_recover, cli_verify, cli_info, cli_ls, cli_cat, cli_bench,
    cli_clean, cli_annotate, cli_apply, cli_undo, cli_create, cli_attrs, cli_validate, cli_rois,
    cli_copy, cli_plan, cli_run, cli_finish, cli_status;

/* The verb of this name, or NULL. */
const cli_verb *cli_find_verb(const char *name);
/* The i-th of all verbs, NULL past the end. */
const cli_verb *cli_verb_at(size_t i);
/* The verb that may have been meant, or NULL. */
const char *cli_nearest_verb(const char *name);
void cli_print_help(FILE *to);
void cli_print_verb_help(const cli_verb *verb);
/* Read a verb's arguments into `options`: defaults, common and own options, the number of
 * operands (not asked for with --help). */
TG_MUST_USE tg_status cli_parse_verb(const cli_verb *verb, int n, const char *const *args,
                                     void *options, cli_operands *operands, tg_error *err);

/* An operand as it may be printed: of a URL without a user and a password. */
const char *cli_shown(const cli *c, size_t i);
/* Forget what calls that succeeded have left in c->err. */
void cli_no_error(cli *c);
/* What a verb returns when a call of the library has failed before any work. c->err holds the
 * failure. */
int cli_refused(const cli *c); /* before any work: 2, but 1 for what is no one's choice */

/* A runtime with the threads the common options ask for and a budget of `memory` bytes; its log
 * lines go to standard error. */
TG_MUST_USE tg_status cli_runtime(cli *c, uint64_t memory, tg_runtime **out);

/* The most memory this process has had resident (VmHWM), in bytes; 0 where it is not told. */
uint64_t cli_rss_peak(void);

/* Quantile q of a histogram of the recorder, at most the longest that was seen, in ns. */
double cli_quantile(const uint64_t *buckets, double q, uint64_t max_ns);

/* "1.5 GiB", "812 KiB", "17 B" into room (24 bytes or more). */
const char *cli_bytes_text(uint64_t bytes, char *room, size_t cap);

/* Fill err from errno: "WHAT 'PATH': words of the system"; TG_NOT_FOUND or TG_IO. */
tg_status cli_fail_errno(tg_error *err, const char *path, const char *what);

/* A file whole, with a NUL behind it; tg_free(). TG_OVER_BUDGET above `limit` bytes. */
TG_MUST_USE tg_status cli_read_file(const char *path, uint64_t limit, char **text, size_t *len,
                                    tg_error *err);

/* Free what a pointer variable holds at the end of its scope. */
#define CLI_AUTO(free_fn) __attribute__((cleanup(free_fn)))

static inline void cli_auto_runtime(tg_runtime **rt)
{
    tg_runtime_free(*rt);
}
void cli_auto_free(void *pointer_variable); /* tg_free() */

#endif
