/* exec/thread.c - the threads that a job keeps for itself. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setname_np() */
#endif
#include "exec/exec.h"

#include <signal.h>
#include <stdio.h>

struct tg_thread {
    pthread_t id;
    char name[16];
    void (*fn)(void *);
    void *user;
};

static void *run(void *arg)
{
    tg_thread *t = arg;
    (void)pthread_setname_np(pthread_self(), t->name); /* for debuggers only */
    t->fn(t->user);
    return NULL;
}

tg_status tg_thread_start(tg_thread **out, const char *name, void (*fn)(void *user), void *user,
                          tg_error *err)
{
    enum { STACK_BYTES = 512 << 10 };
    tg_thread *t = tg_calloc(1, sizeof *t);
    pthread_attr_t attr;
    sigset_t all, old;

    if (t == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a thread");
    (void)snprintf(t->name, sizeof t->name, "tg-%s", name);
    t->fn = fn;
    t->user = user;
    /* Signals are the program's business: they go to its own threads. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    tg_must(pthread_attr_init(&attr));
    tg_must(pthread_attr_setstacksize(&attr, STACK_BYTES));
    int rc = pthread_create(&t->id, &attr, run, t);
    tg_must(pthread_attr_destroy(&attr));
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        tg_free(t);
        return tg_fail(err, TG_NO_MEMORY, "cannot start thread '%s': error %d", name, rc);
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
    tg_free(t);
}
