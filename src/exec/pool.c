/* exec/pool.c - one pool of threads a process, lent to one gang of work after another. */
#include "exec/pool.h"

#include <stdatomic.h>
#include <stdio.h>

/* A gang asks for helpers; a free thread joins the oldest gang that still has a place. */
typedef struct gang {
    struct gang *next;
    void (*fn)(void *user, uint32_t worker);
    void *user;
    uint32_t next_worker; /* the number the next helper gets */
    uint32_t running;     /* helpers inside fn */
    bool closed;          /* the caller is back: nobody joins any more */
} gang;

struct tg_pool {
    tg_mutex lock; /* guards all below and every gang in the list */
    tg_cond work;  /* a gang was added, or the pool ends */
    tg_cond idle;  /* a helper left its gang */
    gang *gangs;
    bool ending;
    uint32_t n_helpers;
    tg_thread **helpers;
};

/* The first gang with a place, or NULL. */
static gang *open_gang(const tg_pool *p)
{
    gang *g = p->gangs;
    while (g != NULL && (g->closed || g->next_worker > p->n_helpers))
        g = g->next;
    return g;
}

static void help(void *arg)
{
    tg_pool *p = arg;

    tg_mutex_lock(&p->lock);
    for (;;) {
        gang *g = open_gang(p);
        if (g == NULL && p->ending)
            break;
        if (g == NULL) {
            tg_cond_wait(&p->work, &p->lock);
            continue;
        }
        uint32_t worker = g->next_worker++;
        g->running++;
        tg_mutex_unlock(&p->lock);
        g->fn(g->user, worker);
        tg_mutex_lock(&p->lock);
        g->running--;
        tg_cond_broadcast(&p->idle);
    }
    tg_mutex_unlock(&p->lock);
}

tg_status tg_pool_new(tg_pool **out, uint32_t n_threads, tg_error *err)
{
    tg_pool *p = tg_calloc(1, sizeof *p);
    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a pool");
    tg_mutex_init(&p->lock);
    tg_cond_init(&p->work);
    tg_cond_init(&p->idle);
    uint32_t want = n_threads > 0 ? n_threads - 1 : 0;
    p->helpers = tg_calloc(want + 1, sizeof(tg_thread *));
    tg_status st =
        p->helpers == NULL ? tg_fail(err, TG_NO_MEMORY, "no memory for a pool") : TG_OK;
    while (st == TG_OK && p->n_helpers < want) {
        st = tg_thread_start(&p->helpers[p->n_helpers], "pool", help, p, err);
        if (st == TG_OK) {
            TG_LOCKED(&p->lock);
            p->n_helpers++;
        }
    }
    if (st != TG_OK) {
        tg_pool_free(p);
        return st;
    }
    *out = p;
    return TG_OK;
}

void tg_pool_free(tg_pool *p)
{
    if (p == NULL)
        return;
    tg_mutex_lock(&p->lock);
    p->ending = true;
    tg_cond_broadcast(&p->work);
    tg_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_helpers; i++)
        tg_thread_join(p->helpers[i]);
    tg_free(p->helpers);
    tg_cond_destroy(&p->idle);
    tg_cond_destroy(&p->work);
    tg_mutex_destroy(&p->lock);
    tg_free(p);
}

uint32_t tg_pool_width(const tg_pool *p)
{
    return p->n_helpers + 1;
}

void tg_pool_gang(tg_pool *p, void (*fn)(void *user, uint32_t worker), void *user)
{
    gang g = {.fn = fn, .user = user, .next_worker = 1};

    TG_ASSERT_UNLOCKED();
    tg_mutex_lock(&p->lock);
    gang **end = &p->gangs;
    while (*end != NULL)
        end = &(*end)->next;
    *end = &g;
    tg_cond_broadcast(&p->work);
    tg_mutex_unlock(&p->lock);

    fn(user, 0);

    tg_mutex_lock(&p->lock);
    g.closed = true;
    while (g.running > 0)
        tg_cond_wait(&p->idle, &p->lock);
    for (gang **at = &p->gangs; *at != NULL; at = &(*at)->next) {
        if (*at == &g) {
            *at = g.next;
            break;
        }
    }
    tg_mutex_unlock(&p->lock);
}

/* --- each ------------------------------------------------------------------ */

typedef struct each {
    uint64_t n;
    tg_each_fn fn;
    void *user;
    const tg_cancel *cancel;
    _Atomic uint64_t next;
    atomic_bool stop;
    tg_mutex lock; /* guards failed */
    tg_error failed;
    tg_status status;
} each;

static void each_failed(each *e, tg_status st, const tg_error *err)
{
#if TG_PLANT == 11
    return;
#endif
    TG_LOCKED(&e->lock);
    if (e->status == TG_OK) {
        e->status = st;
        e->failed = *err;
        atomic_store(&e->stop, true);
    }
}

static void each_worker(void *arg, uint32_t worker)
{
    each *e = arg;

    while (!atomic_load(&e->stop)) {
        uint64_t i = atomic_fetch_add(&e->next, 1);
        if (i >= e->n)
            return;
        tg_error err = {0};
        tg_status st = tg_cancel_check(e->cancel, &err);
        TG_ASSERT_UNLOCKED(); /* also: fn left none locked the time before */
        if (st == TG_OK)
            st = e->fn(e->user, i, worker, &err);
        if (st != TG_OK)
            each_failed(e, st, &err);
    }
}

tg_status tg_pool_each(tg_pool *p, uint64_t n, tg_each_fn fn, void *user,
                       const tg_cancel *cancel, tg_error *err)
{
    each e = {.n = n, .fn = fn, .user = user, .cancel = cancel};

    tg_mutex_init(&e.lock);
    if (n == 1)
        each_worker(&e, 0); /* nobody to wake */
    else if (n > 1)
        tg_pool_gang(p, each_worker, &e);
    tg_mutex_destroy(&e.lock);
    if (e.status != TG_OK && err != NULL)
        *err = e.failed;
    return e.status;
}
