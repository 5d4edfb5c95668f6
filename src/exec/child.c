/* exec/child.h: spawned, never forked, for we have threads. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pipe2(), SOCK_CLOEXEC */
#endif
#include "exec/child.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/sync.h"
#include "base/sys.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Descriptors that a child is given are first moved here, out of the way of the numbers that
 * they get there. */
#define FIRST_FD 16

static int move_up(int fd)
{
    if (fd < 0)
        return -1;
    const int to = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
    (void)tg_sys_close(fd);
    return to;
}

/* --- Spawning ------------------------------------------------------------------------------
 */

typedef struct spawn_request {
    char *const *argv;
    char *const *env;
    const int *fds; /* fds[i] becomes i; -1: /dev/null */
    uint32_t n_fds;
    bool session;
} spawn_request;

/* As a program finds it: no signal blocked, none ignored, whatever our threads do. */
static int set_attributes(posix_spawnattr_t *a, bool session)
{
    sigset_t none, all;
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGKILL);
    (void)sigdelset(&all, SIGSTOP);
    flags |= session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    int e = posix_spawnattr_setflags(a, flags);
    if (e == 0)
        e = posix_spawnattr_setsigmask(a, &none);
    if (e == 0)
        e = posix_spawnattr_setsigdefault(a, &all);
    return e != 0 ? e : posix_spawnattr_setpgroup(a, 0);
}

static int set_files(posix_spawn_file_actions_t *f, const spawn_request *r)
{
    int e = 0;

    for (uint32_t i = 0; i < r->n_fds && e == 0; i++)
        e = r->fds[i] < 0 ? posix_spawn_file_actions_addopen(f, (int)i, "/dev/null", O_RDWR, 0)
                          : posix_spawn_file_actions_adddup2(f, r->fds[i], (int)i);
    return e;
}

/* 0, or an errno. */
static int spawn(pid_t *pid, const spawn_request *r)
{
    posix_spawnattr_t a;
    posix_spawn_file_actions_t f;
    int e = posix_spawnattr_init(&a);

    if (e != 0)
        return e;
    e = posix_spawn_file_actions_init(&f);
    if (e == 0) {
        e = set_attributes(&a, r->session);
        if (e == 0)
            e = set_files(&f, r);
        if (e == 0)
            e = posix_spawn(pid, "/bin/sh", &f, &a, r->argv, r->env);
        (void)posix_spawn_file_actions_destroy(&f);
    }
    (void)posix_spawnattr_destroy(&a);
    return e;
}

static tg_status fail_spawn(int e, const char *what, tg_error *err)
{
    errno = e;
    return tg_fail_errno(err, "start %s", what);
}

static void reap(pid_t pid, siginfo_t *how)
{
    int rc;

    do
        rc = waitid(P_PID, (id_t)pid, how, WEXITED);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        how->si_code = 0;
}

/* --- The guard -----------------------------------------------------------------------------
 */

struct tg_guard {
    tg_mutex lock; /* of the socket: orders are whole */
    int socket;
    pid_t pid;
};

/* Orders: "+ GROUP" and "- GROUP"; at their end, what is left is killed. */
static const char guard_script[] = "trap '' HUP INT QUIT TERM PIPE\n"
                                   "all=' '\n"
                                   "while read -r order group; do\n"
                                   "    case $order in\n"
                                   "    +) all=\"$all$group \" ;;\n"
                                   "    -) all=\"${all%% $group *} ${all#* $group }\" ;;\n"
                                   "    esac\n"
                                   "done\n"
                                   "for group in $all; do\n"
                                   "    kill -s KILL -- \"-$group\" 2>/dev/null\n"
                                   "done\n"
                                   "[ -z \"$1\" ] || rm -rf -- \"$1\"\n";

tg_status tg_guard_new(tg_guard **out, const char *folder, tg_error *err)
{
    char *const argv[] = {(char[]){"sh"},
                          (char[]){"-c"},
                          (char *)(uintptr_t)guard_script,
                          (char[]){"tidegate-guard"},
                          (char *)(uintptr_t)(folder == NULL ? "" : folder),
                          NULL};
    int pair[2];
    tg_guard *g = tg_calloc(1, sizeof *g);

    if (g == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a guard");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        tg_free(g);
        return tg_fail_errno(err, "a socket for the guard");
    }
    pair[0] = move_up(pair[0]);
    pair[1] = move_up(pair[1]);
    const int fds[3] = {pair[1], -1, -1};
    int e = pair[0] < 0 || pair[1] < 0 ? EMFILE : 0;
    if (e == 0)
        e = spawn(&g->pid, &(spawn_request){argv, environ, fds, 3, true});
    (void)tg_sys_close(pair[1]);
    if (e != 0) {
        (void)tg_sys_close(pair[0]);
        tg_free(g);
        return fail_spawn(e, "the guard, /bin/sh", err);
    }
    g->socket = pair[0];
    tg_mutex_init(&g->lock);
    *out = g;
    return TG_OK;
}

void tg_guard_free(tg_guard *g)
{
    siginfo_t how = {0};

    if (g == NULL)
        return;
    (void)tg_sys_close(g->socket);
    reap(g->pid, &how);
    tg_mutex_destroy(&g->lock);
    tg_free(g);
}

static bool order(tg_guard *g, char what, pid_t group)
{
    char line[32];
    const int n = snprintf(line, sizeof line, "%c %d\n", what, (int)group);
    TG_LOCKED_FOR_IO(&g->lock);

    for (int at = 0; at < n;) {
        const ssize_t sent = send(g->socket, line + at, (size_t)(n - at), MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        at += sent > 0 ? (int)sent : 0;
    }
    return true;
}

/* --- A child -------------------------------------------------------------------------------
 */

/* The command is at standard input until it may go. */
static const char gate[] =
    "read -r tidegate_go || exit 125; unset tidegate_go; exec </dev/null; ";

typedef struct ends {
    int gate[2], err[2];
    int fds[3 + 4]; /* of the child, moved up; -1: /dev/null */
} ends;

static void close_ends(ends *p)
{
    int *const all[] = {&p->gate[0], &p->gate[1], &p->err[0], &p->err[1]};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (*all[i] >= 0)
            (void)tg_sys_close(*all[i]);
    for (size_t i = 3; i < sizeof p->fds / sizeof *p->fds; i++)
        if (p->fds[i] >= 0)
            (void)tg_sys_close(p->fds[i]);
}

static bool open_ends(ends *p, const int *passed, uint32_t n_passed)
{
    *p = (ends){{-1, -1}, {-1, -1}, {-1, -1, -1, -1, -1, -1, -1}};
    if (pipe2(p->gate, O_CLOEXEC) != 0 || pipe2(p->err, O_CLOEXEC) != 0)
        return false;
    p->gate[0] = move_up(p->gate[0]);
    p->err[1] = move_up(p->err[1]);
    bool ok = p->gate[0] >= 0 && p->err[1] >= 0;
    for (uint32_t i = 0; i < n_passed && ok; i++) {
        p->fds[3 + i] = fcntl(passed[i], F_DUPFD_CLOEXEC, FIRST_FD);
        ok = p->fds[3 + i] >= 0;
    }
    p->fds[0] = p->gate[0];
    p->fds[2] = p->err[1];
    return ok;
}

static int watch(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
#else
    (void)pid;
    return -1;
#endif
}

/* Let it run once the guard knows of it. */
static tg_status let_go(tg_child *c, int gate_fd, tg_error *err)
{
    if (order(c->guard, '+', c->pid) && tg_sys_write(gate_fd, "\n", 1) == 1)
        return TG_OK;
    return tg_fail(err, TG_IO, "the guard of our processes has ended: somebody has killed it");
}

tg_status tg_child_start(tg_child *c, tg_guard *g, const char *command, char *const *env,
                         const int *passed, uint32_t n_passed, tg_error *err)
{
    TG_AUTO(tg_text) script = {0};
    ends p;

    *c = (tg_child){.guard = g, .ended = -1, .stderr_fd = -1};
    tg_text_add(&script, gate);
    tg_text_add(&script, command);
    TG_TRY(tg_text_status(&script, err));
    char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, script.data, NULL};
    int e = open_ends(&p, passed, n_passed) ? 0 : errno;
    if (e == 0)
        e = spawn(&c->pid, &(spawn_request){argv, env == NULL ? environ : env, p.fds,
                                            3 + n_passed, false});
    if (e != 0) {
        close_ends(&p);
        c->pid = 0;
        return fail_spawn(e, "/bin/sh", err);
    }
    c->stderr_fd = p.err[0];
    p.err[0] = -1;
    (void)fcntl(c->stderr_fd, F_SETFL, O_NONBLOCK);
    c->ended = watch(c->pid);
    tg_status st = let_go(c, p.gate[1], err);
    close_ends(&p);
    if (st != TG_OK)
        tg_child_end(c, NULL);
    return st;
}

static void keep_tail(tg_child *c, const char *text, size_t n)
{
    if (n >= TG_CHILD_TAIL) {
        memcpy(c->tail, text + n - TG_CHILD_TAIL, TG_CHILD_TAIL);
        c->tail_len = TG_CHILD_TAIL;
        return;
    }
    if (c->tail_len + n > TG_CHILD_TAIL) {
        const size_t keep = TG_CHILD_TAIL - n;
        memmove(c->tail, c->tail + c->tail_len - keep, keep);
        c->tail_len = keep;
    }
    memcpy(c->tail + c->tail_len, text, n);
    c->tail_len += n;
}

/* What is there of standard error, but not for ever. */
static void take_stderr(tg_child *c)
{
    char text[4096];

    for (int i = 0; i < 64 && c->stderr_fd >= 0; i++) {
        const ssize_t n = tg_sys_read(c->stderr_fd, text, sizeof text);
        if (n > 0) {
            keep_tail(c, text, (size_t)n);
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            (void)tg_sys_close(c->stderr_fd);
            c->stderr_fd = -1;
        } else {
            return;
        }
    }
}

static bool has_ended(const tg_child *c)
{
    siginfo_t how = {0};
    const int rc = waitid(P_PID, (id_t)c->pid, &how, WEXITED | WNOHANG | WNOWAIT);

    return rc != 0 ? errno == ECHILD : how.si_pid != 0;
}

int64_t tg_child_deadline(uint64_t ms)
{
    const int64_t now = tg_clock_ns();

    return ms == 0 || ms > (uint64_t)(INT64_MAX - now) / 1000000 ? INT64_MAX
                                                                 : now + (int64_t)ms * 1000000;
}

tg_child_event tg_child_wait(tg_child *c, int fd, int64_t until_ns, const tg_cancel *cancel)
{
    for (;;) {
        struct pollfd p[3] = {{.fd = fd, .events = POLLIN},
                              {.fd = c->ended, .events = POLLIN},
                              {.fd = c->stderr_fd, .events = POLLIN}};
        /* A token wakes nobody, and without pidfd neither does the end of a child. */
        int64_t wait = c->ended < 0 ? 2 : 50;
        const int64_t left = (until_ns - tg_clock_ns() + 999999) / 1000000;

        if (left < wait)
            wait = left > 0 ? left : 0;
        TG_ASSERT_UNLOCKED();
        const int n = poll(p, 3, (int)wait);
        if (n > 0 && p[2].revents != 0)
            take_stderr(c);
        if (n > 0 && p[0].revents != 0)
            return TG_CHILD_READABLE;
        if (has_ended(c)) {
            take_stderr(c);
            return TG_CHILD_ENDED;
        }
        if (tg_cancel_requested(cancel))
            return TG_CHILD_CANCELLED;
        if (tg_clock_ns() >= until_ns)
            return TG_CHILD_LATE;
    }
}

void tg_child_end(tg_child *c, tg_child_status *status)
{
    siginfo_t how = {0};

    if (c->pid == 0)
        return;
    /* It is a zombie, or alive: its number, and its group's, are its own until it is reaped. */
    (void)kill(-c->pid, SIGKILL);
    take_stderr(c);
    (void)order(c->guard, '-', c->pid); /* before the number is free for others */
    reap(c->pid, &how);
    if (status != NULL)
        *status = (tg_child_status){.known = how.si_code != 0,
                                    .signaled = how.si_code != CLD_EXITED,
                                    .code = how.si_status};
    if (c->ended >= 0)
        (void)tg_sys_close(c->ended);
    if (c->stderr_fd >= 0)
        (void)tg_sys_close(c->stderr_fd);
    c->ended = c->stderr_fd = -1;
    c->pid = 0;
}

/* The last line that has anything in it; what a terminal would act on is a '?'. */
static void last_line(const tg_child *c, char *room, size_t cap)
{
    size_t end = c->tail_len, at, n = 0;

    while (end > 0 && (unsigned char)c->tail[end - 1] <= ' ')
        end--;
    for (at = end; at > 0 && c->tail[at - 1] != '\n' && c->tail[at - 1] != '\r';)
        at--;
    const bool text = tg_utf8_valid(c->tail + at, end - at);
    for (; at < end && n + 1 < cap; at++) {
        const unsigned char b = (unsigned char)c->tail[at];
        room[n++] = (b >= ' ' && b != 0x7f && (b < 0x80 || text)) ? (char)b : '?';
    }
    while (n > 0 && !tg_utf8_valid(room, n)) /* a character that was cut */
        n--;
    room[n] = '\0';
}

void tg_child_describe(const tg_child *c, const tg_child_status *status, char *room, size_t cap)
{
    char line[256];

    last_line(c, line, sizeof line);
    if (!status->known)
        (void)snprintf(room, cap, "ended, and somebody else has reaped it%s%s",
                       line[0] == '\0' ? "" : ": ", line);
    else
        (void)snprintf(room, cap, "%s %d%s%s",
                       status->signaled ? "was killed by signal" : "ended with status",
                       status->code, line[0] == '\0' ? "" : ": ", line);
}
