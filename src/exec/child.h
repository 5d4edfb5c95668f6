/* exec/child.h - commands of the user's, each in a process group of its own, none of which
 * outlives us.
 *
 * A command is run by `sh -c`. It ends by itself, or its group is killed: in the order "see
 * that it has ended and leave it a zombie, kill what is left of its group, reap", so that no
 * number is used for a process that is not ours. If we die first, however, the guard kills the
 * groups: one process (a shell that reads our orders from a socket, whose end of file is our
 * death). Every command waits at a gate until the guard knows its group.
 *
 * The program must not ignore SIGCHLD nor reap children that are not its own. */
#ifndef TG_EXEC_CHILD_H
#define TG_EXEC_CHILD_H

#include "base/error.h"
#include "tidegate/cancel.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Threads: all functions from any. */
typedef struct tg_guard tg_guard;

/* folder, if not NULL, is removed with all that is in it when the guard ends. */
TG_MUST_USE tg_status tg_guard_new(tg_guard **out, const char *folder, tg_error *err);
void tg_guard_free(tg_guard *g); /* all children have ended; may be NULL */

#define TG_CHILD_TAIL 512 /* bytes of standard error that are kept */

/* One at a time may use it. {.pid = 0} is none. */
typedef struct tg_child {
    tg_guard *guard;
    pid_t pid; /* of its process group, too */
    int ended; /* readable when it has; -1: this kernel cannot say */
    int stderr_fd;
    size_t tail_len;
    char tail[TG_CHILD_TAIL]; /* the last of what it wrote to standard error */
} tg_child;

/* Run `command`, with nothing on standard input and output; passed[i] is its descriptor 3 + i.
 * env NULL: ours. */
TG_MUST_USE tg_status tg_child_start(tg_child *c, tg_guard *g, const char *command,
                                     char *const *env, const int *passed, uint32_t n_passed,
                                     tg_error *err);

typedef enum tg_child_event {
    TG_CHILD_ENDED,
    TG_CHILD_READABLE, /* fd has something to read, or its other end is closed */
    TG_CHILD_LATE,     /* until_ns (tg_clock_ns()) is reached */
    TG_CHILD_CANCELLED
} tg_child_event;

/* When a call of at most `ms` (0: any time) that begins now is late. */
int64_t tg_child_deadline(uint64_t ms);
/* What comes first; what is written to standard error meanwhile is taken. fd -1: none. */
tg_child_event tg_child_wait(tg_child *c, int fd, int64_t until_ns, const tg_cancel *cancel);

/* Kill what is left of its group, and reap it. *status as from waitid(): how it ended, if it
 * had before; may be NULL. Does nothing for none. */
typedef struct tg_child_status {
    bool known;    /* false: somebody else has reaped it */
    bool signaled; /* by the signal `code`; else it returned `code` */
    int code;
} tg_child_status;
void tg_child_end(tg_child *c, tg_child_status *status);

/* "ended with status 3: <last line of standard error>", after tg_child_end(). */
void tg_child_describe(const tg_child *c, const tg_child_status *status, char *room,
                       size_t cap);

#endif
