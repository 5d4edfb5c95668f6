/* cli/main.c - the command tidegate: signals, the verb, and the one place that prints failures
 * and the object of --json. */
#include "cli.h"
#include "tidegate/memory.h"
#include "tidegate/store.h"
#include "tidegate/version.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <string.h>

static tg_cancel *stop; /* what the signal handler requests; set before the handler is */

/* The first signal asks for an orderly end, the second has the default action: it kills. */
static void on_signal(int number)
{
    (void)number;
    tg_cancel_request(stop);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
}

static void set_signals(void)
{
    struct sigaction act = {.sa_handler = on_signal};
    (void)sigemptyset(&act.sa_mask);
    struct sigaction was;
    /* A shell starts background jobs with SIGINT ignored: that stays. */
    if (sigaction(SIGINT, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
        (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
    /* A reader that has gone away and a file that may not grow are errors that we report. */
    act.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &act, NULL);
    (void)sigaction(SIGXFSZ, &act, NULL);
}

/* What is given back shall leave the process, for the ceiling counts what is resident: glibc
 * would keep freed blocks, in a heap for each thread, and the more so the larger they were. */
static void set_allocator(void)
{
#ifdef __GLIBC__
    /* No thread runs yet. */
    (void)mallopt(M_MMAP_THRESHOLD, 256 << 10); /* NOLINT(concurrency-mt-unsafe) */
    (void)mallopt(M_TRIM_THRESHOLD, 512 << 10); /* NOLINT(concurrency-mt-unsafe) */
    (void)mallopt(M_ARENA_MAX, 2);              /* NOLINT(concurrency-mt-unsafe) */
#endif
}

static void print_error(const char *verb, const tg_error *err)
{
    (void)fprintf(stderr, "tidegate%s%s: %s\n", verb != NULL ? " " : "",
                  verb != NULL ? verb : "",
                  err->msg[0] != '\0' ? err->msg : tg_status_name(err->code));
}

/* {"error":{...}, what the verb has collected}. */
static int print_json_object(const json_out *members, const tg_error *failure, int status)
{
    json_out whole = {0};
    tg_error err;
    if (failure != NULL)
        json_error(&whole, "error", failure);
    if (members->failed)
        whole.failed = true;
    else if (members->len > 0 && failure != NULL)
        json_raw(&whole, NULL, members->text);
    const json_out *printed = failure != NULL || members->failed ? &whole : members;
    if (json_print(printed, stdout, &err) != TG_OK) {
        print_error(NULL, &err);
        status = CLI_FAILED;
    }
    json_free(&whole);
    return status;
}

/* --json may stand behind the option that is wrong: whether it was asked for is looked up in
 * the words themselves. */
static bool asks_for_json(int n, const char *const *args)
{
    for (int i = 0; i < n && strcmp(args[i], "--") != 0; i++)
        if (strcmp(args[i], "--json") == 0)
            return true;
    return false;
}

static int usage_error(const char *verb, bool json, const tg_error *err)
{
    json_out none = {0};
    print_error(verb, err);
    return json ? print_json_object(&none, err, CLI_USAGE) : CLI_USAGE;
}

/* What was printed to standard output must have arrived. */
static int check_output(int status)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return status;
    (void)fputs("tidegate: standard output cannot be written\n", stderr);
    return CLI_FAILED;
}

static int run_verb(const cli_verb *verb, int n, const char *const *args)
{
    static union {
        cli_common common;
        long double align;
        unsigned char bytes[CLI_OPTIONS_BYTES];
    } options;
    cli c = {.verb = verb, .common = &options.common, .cancel = stop};

    tg_status st = cli_parse_verb(verb, n, args, &options, &c.operands, &c.err);
    if (st != TG_OK)
        return usage_error(verb->name, asks_for_json(n, args), &c.err);
    if (c.common->help) {
        cli_print_verb_help(verb);
        return check_output(CLI_DONE);
    }

    for (size_t i = 0; i < c.operands.n; i++)
        c.shown[i] = tg_store_url_shown(c.operands.item[i]);
    cli_no_error(&c);
    cli_progress_init(&c.progress, (cli_progress_mode)c.common->progress);
    c.progress.budget = (double)c.common->memory;
    int status = verb->run(&c, &options);
    cli_progress_end(&c.progress);
    if (status == CLI_DONE)
        cli_no_error(&c);
    if (c.err.code != TG_OK)
        print_error(verb->name, &c.err);
    if (c.common->json)
        status = print_json_object(&c.json, c.err.code != TG_OK ? &c.err : NULL, status);
    json_free(&c.json);
    for (size_t i = 0; i < CLI_MAX_OPERANDS; i++)
        tg_free(c.shown[i]);
    return check_output(status);
}

static int print_version(void)
{
    (void)printf("tidegate %s\n%s", tg_version(), tg_libraries());
    const char *list = tg_libraries();
    if (list[0] != '\0' && list[strlen(list) - 1] != '\n')
        (void)putchar('\n');
    return check_output(CLI_DONE);
}

static int unknown_verb(const char *name, bool json)
{
    tg_error err;
    const char *near = cli_nearest_verb(name);
    if (near != NULL)
        (void)cli_fail(&err, TG_INVALID, "unknown verb '%.60s': did you mean '%s'?", name,
                       near);
    else
        (void)cli_fail(&err, TG_INVALID, "unknown verb '%.60s' (tidegate --help lists them)",
                       name);
    return usage_error(NULL, json, &err);
}

int main(int argc, char **argv)
{
    const char *const *args = (const char *const *)argv;
    const char *first = argc > 1 ? args[1] : "--help";
    if (argc < 2 || strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 ||
        (strcmp(first, "help") == 0 && argc == 2)) {
        cli_print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? CLI_USAGE : check_output(CLI_DONE);
    }
    if (strcmp(first, "--version") == 0)
        return print_version();

    bool json = asks_for_json(argc - 1, args + 1);
    if (strcmp(first, "help") == 0) {
        const cli_verb *verb = cli_find_verb(args[2]);
        if (verb == NULL)
            return unknown_verb(args[2], json);
        cli_print_verb_help(verb);
        return check_output(CLI_DONE);
    }
    const cli_verb *verb = cli_find_verb(first);
    if (verb == NULL)
        return unknown_verb(first, json);

    tg_error err;
    if (tg_cancel_new(&stop, &err) != TG_OK) {
        print_error(NULL, &err);
        return CLI_FAILED;
    }
    set_signals();
    set_allocator();
    return run_verb(verb, argc - 2, args + 2); /* `stop` lives as long as signals may come */
}
