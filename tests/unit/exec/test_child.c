/* Commands of the user's: how they end, and that they do. That the guard kills them when we die
 * is for tests/cli/check_functions.py. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkdtemp() */
#endif
#include "check.h"
#include "exec/child.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define FOREVER INT64_MAX

/* One for all: it ends when we do. */
static tg_guard *the_guard(void)
{
    static tg_guard *guard;

    if (guard == NULL)
        CHECK_STATUS(tg_guard_new(&guard, NULL, NULL), TG_OK);
    return guard;
}

/* From its start to its end, in words. */
static tg_child_event run(const char *command, char *const *env, int64_t until,
                          const tg_cancel *cancel, char words[400])
{
    tg_child c;
    tg_child_status how = {.known = false};
    tg_error err = {0};

    words[0] = '\0';
    if (tg_child_start(&c, the_guard(), command, env, NULL, 0, &err) != TG_OK) {
        (void)snprintf(words, 400, "%.399s", err.msg);
        return TG_CHILD_READABLE;
    }
    const tg_child_event event = tg_child_wait(&c, -1, until, cancel);
    tg_child_end(&c, &how);
    CHECK_U64((uint64_t)c.pid, 0);
    tg_child_describe(&c, &how, words, 400);
    tg_child_end(&c, &how); /* does nothing */
    return event;
}

static void how_they_end(void)
{
    static const struct row {
        const char *name, *command, *want;
    } rows[] = {
        {"well", "true", "ended with status 0"},
        {"with a status", "exit 3", "ended with status 3"},
        {"by a signal", "kill -9 $$", "was killed by signal 9"},
        {"by one that we block", "kill -TERM $$", "was killed by signal 15"},
        {"with words", "echo one >&2; echo two >&2; exit 1", "ended with status 1: two"},
        {"standard output goes nowhere", "echo one; exit 1", "ended with status 1"},
        {"standard input has nothing", "cat; exit 4", "ended with status 4"},
        {"a last line of blanks", "printf 'one\\n  \\n\\t\\n' >&2", "ended with status 0: one"},
        {"what a terminal would do", "printf 'a\\033[2Jb' >&2", "ended with status 0: a?[2Jb"},
        {"UTF-8", "printf 'gr\\303\\274n' >&2", "ended with status 0: gr\xc3\xbcn"},
        {"no UTF-8", "printf 'gr\\374n' >&2", "ended with status 0: gr?n"},
        {"no such command", "no-such-command 2>/dev/null", "ended with status 127"},
        {"a pipe that others have open", "sleep 600 & exit 5", "ended with status 5"},
    };
    char words[400];
    sigset_t term, old;

    REQUIRE(sigemptyset(&term) == 0 && sigaddset(&term, SIGTERM) == 0);
    REQUIRE(pthread_sigmask(SIG_BLOCK, &term, &old) == 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_row = rows[i].name;
        CHECK_U64(run(rows[i].command, NULL, FOREVER, NULL, words), TG_CHILD_ENDED);
        if (strcmp(words, rows[i].want) != 0)
            test_failed(__FILE__, __LINE__, words);
    }
    test_row = "";
    REQUIRE(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
}

static void much_of_standard_error(void)
{
    char words[400];

    CHECK_U64(run("head -c 3000000 /dev/zero | tr '\\0' x >&2; printf '\\nlast' >&2", NULL,
                  FOREVER, NULL, words),
              TG_CHILD_ENDED);
    CHECK(strcmp(words, "ended with status 0: last") == 0);
    CHECK_U64(run("head -c 3000000 /dev/zero | tr '\\0' x >&2", NULL, FOREVER, NULL, words),
              TG_CHILD_ENDED);
    CHECK_U64(strlen(words), strlen("ended with status 0: ") + 255);
}

static void late_and_cancelled(void)
{
    tg_cancel *cancel = NULL;
    char words[400];

    CHECK_U64(run("sleep 600", NULL, tg_child_deadline(20), NULL, words), TG_CHILD_LATE);
    CHECK(strcmp(words, "was killed by signal 9") == 0);
    CHECK_U64(run("trap '' TERM HUP; echo on >&2; while :; do sleep 600; done", NULL,
                  tg_child_deadline(20), NULL, words),
              TG_CHILD_LATE);
    REQUIRE_OK(tg_cancel_new(&cancel, NULL));
    tg_cancel_request(cancel);
    CHECK_U64(run("sleep 600", NULL, FOREVER, cancel, words), TG_CHILD_CANCELLED);
    tg_cancel_free(cancel);
    CHECK(tg_child_deadline(0) == INT64_MAX && tg_child_deadline(UINT64_MAX) == INT64_MAX);
}

static void environment(void)
{
    char *const env[] = {(char[]){"A=one two"}, (char[]){"PATH=/usr/bin:/bin"}, NULL};
    char words[400];

    CHECK_U64(run("echo \"$A/$tidegate_go/$HOME\" >&2", env, FOREVER, NULL, words),
              TG_CHILD_ENDED);
    CHECK(strcmp(words, "ended with status 0: one two//") == 0);
}

/* Descriptors 3 and 4, also where ours have such numbers already. */
static void passed_descriptors(void)
{
    int a[2], b[2];
    tg_child c;
    char text[8] = "";

    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a) == 0);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b) == 0);
    REQUIRE_OK(tg_child_start(&c, the_guard(), "echo three >&3; echo four >&4; sleep 600", NULL,
                              (int[]){b[1], a[1]}, 2, NULL));
    CHECK_U64(tg_child_wait(&c, b[0], FOREVER, NULL), TG_CHILD_READABLE);
    CHECK(read(b[0], text, sizeof text) == 6 && memcmp(text, "three\n", 6) == 0);
    CHECK_U64(tg_child_wait(&c, a[0], FOREVER, NULL), TG_CHILD_READABLE);
    CHECK(read(a[0], text, sizeof text) == 5 && memcmp(text, "four\n", 5) == 0);
    const pid_t pid = c.pid;
    tg_child_end(&c, NULL);
    CHECK(kill(pid, 0) != 0 && errno == ESRCH);
    for (int i = 0; i < 2; i++) {
        (void)close(a[i]);
        (void)close(b[i]);
    }
}

/* The next descriptor that is free: the same after as before, if nothing was left open. */
static int next_fd(void)
{
    const int fd = dup(0);

    (void)close(fd);
    return fd;
}

static tg_status start_and_end(const char *folder)
{
    tg_guard *g = NULL;
    tg_child c = {.pid = 0};
    tg_error err = {0};

    tg_status st = tg_guard_new(&g, folder, &err);
    if (st == TG_OK)
        st = tg_child_start(&c, g, "exit 2", NULL, NULL, 0, &err);
    if (st == TG_OK)
        (void)tg_child_wait(&c, -1, FOREVER, NULL);
    tg_child_end(&c, NULL);
    tg_guard_free(g);
    return st;
}

static void no_memory(void)
{
    const int before = next_fd();

    CHECK_EVERY_ALLOC(start_and_end(NULL));
    CHECK_U64((uint64_t)next_fd(), (uint64_t)before);
}

static void folder_goes_with_the_guard(void)
{
    char folder[] = "/tmp/tidegate it's $HOME XXXXXX", file[64];

    REQUIRE(mkdtemp(folder) != NULL);
    (void)snprintf(file, sizeof file, "%s/x", folder);
    FILE *f = fopen(file, "w");
    REQUIRE(f != NULL && fclose(f) == 0);
    REQUIRE_OK(start_and_end(folder));
    CHECK(access(folder, F_OK) != 0 && errno == ENOENT);
}

static const struct test tests[] = {
    {"how_they_end", how_they_end},
    {"much_of_standard_error", much_of_standard_error},
    {"late_and_cancelled", late_and_cancelled},
    {"environment", environment},
    {"passed_descriptors", passed_descriptors},
    {"no_memory", no_memory},
    {"folder_goes_with_the_guard", folder_goes_with_the_guard},
};

TEST_MAIN(tests)
