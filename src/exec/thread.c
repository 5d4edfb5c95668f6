/* exec/thread.c - the only file that starts threads. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setname_np() */
#endif
#include "exec/exec.h"

#include <signal.h>
#include <stdio.h>

/* As the main thread's: functions of the user run on the pool, in any language. */
#define STACK_BYTES ((size_t)8 << 20)

struct tg_thread {
    pthread_t id;
    tg_arena stack;
    char name[16]; /* as much as Linux takes */
    void (*fn)(void *);
    void *user;
};

static void *run(void *arg)
{
    tg_thread *t = arg;
#ifdef __linux__
    (void)pthread_setname_np(pthread_self(), t->name); /* for debuggers only */
#endif
    t->fn(t->user);
    return NULL;
}

/* Signals are the program's business: they go to its own threads. */
static int create_without_signals(tg_thread *t)
{
    pthread_attr_t attr;
    sigset_t all, old;

    (void)sigfillset(&all);
    tg_must(pthread_attr_init(&attr));
    int rc = pthread_attr_setstack(&attr, t->stack.data, t->stack.len);
    tg_must(pthread_sigmask(SIG_SETMASK, &all, &old));
    if (rc == 0)
        rc = pthread_create(&t->id, &attr, run, t);
    tg_must(pthread_sigmask(SIG_SETMASK, &old, NULL));
    tg_must(pthread_attr_destroy(&attr));
    return rc;
}

static void free_thread(tg_thread *t)
{
    tg_stack_unmap(&t->stack);
    tg_free(t);
}

tg_status tg_thread_start(tg_thread **out, const char *name, void (*fn)(void *user), void *user,
                          tg_error *err)
{
    tg_thread *t = tg_calloc(1, sizeof *t);
    if (t == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for thread '%s'", name);
    (void)snprintf(t->name, sizeof t->name, "tg-%s", name);
    t->fn = fn;
    t->user = user;
    tg_status st = tg_stack_map(&t->stack, STACK_BYTES, err);
    if (st == TG_OK) {
        int rc = create_without_signals(t);
        if (rc != 0)
            st = tg_fail(err, TG_NO_MEMORY, "cannot start thread '%s': error %d", name, rc);
    }
    if (st != TG_OK) {
        free_thread(t);
        return st;
    }
    *out = t;
    return TG_OK;
}

void tg_thread_join(tg_thread *t)
{
    if (t == NULL)
        return;
    TG_ASSERT_UNLOCKED();
    tg_must(pthread_join(t->id, NULL));
    free_thread(t);
}
