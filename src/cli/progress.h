/* cli/progress.h - says on standard error how far the work is: a live line on a terminal, a
 * line every few seconds elsewhere, JSON lines with --progress json. */
#ifndef TG_CLI_PROGRESS_H
#define TG_CLI_PROGRESS_H

#include "tidegate/progress.h"

#include <pthread.h>
#include <stdbool.h>

typedef enum cli_progress_mode {
    CLI_PROGRESS_AUTO,
    CLI_PROGRESS_JSON,
    CLI_PROGRESS_NONE
} cli_progress_mode;

typedef struct cli_progress {
    cli_progress_mode mode;
    bool terminal;        /* standard error is one */
    pthread_mutex_t lock; /* guards what follows, and the lines of standard error */
    int columns;          /* of the terminal */
    bool live;            /* a live line is on the screen */
    double printed_at;    /* seconds of the stage; < 0: never */
    double rate;          /* items a second, smoothed */
    tg_progress last;     /* the report before */
    double budget;        /* bytes, for the memory shown; 0: not shown */
} cli_progress;

void cli_progress_init(cli_progress *p, cli_progress_mode mode);
/* A tg_progress_fn; user is a cli_progress. */
void cli_progress_report(void *user, const tg_progress *report);
/* A tg_log_fn: one line that is not progress. */
void cli_progress_log(void *user, const char *line);
/* Take the live line off the screen, so that others may print. */
void cli_progress_end(cli_progress *p);

#endif
