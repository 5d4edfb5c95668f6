/* exec/pipeline.c - serial next, parallel work, sink in order. Every item in flight holds one
 * of `depth` slots from before next() until after sink(), so a slow first item holds back those
 * behind it, and memory with them. */
#include "exec/pool.h"

#include <string.h>

enum slot_state { SLOT_EMPTY, SLOT_WORKING, SLOT_DONE };

typedef struct slot {
    enum slot_state state;
    void *item;
} slot;

typedef struct run {
    const tg_pipeline *line;
    const tg_cancel *cancel;
    tg_mutex lock; /* guards all below */
    tg_cond changed;
    slot *slots;   /* item number i is in slots[i % depth] */
    uint64_t made; /* items that next() has made */
    uint64_t sunk; /* items that sink() has taken */
    bool making;   /* a thread is inside next() */
    bool sinking;  /* a thread is inside sink() */
    bool ended;    /* next() has said TG_CLOSED */
    tg_status status;
    tg_error failed;
} run;

static void fail(run *r, tg_status st, const tg_error *err)
{
    if (r->status == TG_OK) {
        r->status = st;
        r->failed = *err;
    }
    tg_cond_broadcast(&r->changed);
}

static slot *slot_of(run *r, uint64_t i)
{
    return &r->slots[i % r->line->depth];
}

/* Each of the three is called with the lock held, gives it up for the user's function, and
 * holds it again on return. */
static void do_sink(run *r)
{
    slot *s = slot_of(r, r->sunk);
    tg_error err = {0};

    r->sinking = true;
    tg_mutex_unlock(&r->lock);
    tg_status st = r->line->sink(r->line->user, s->item, &err);
    tg_mutex_lock(&r->lock);
    r->sinking = false;
    *s = (slot){SLOT_EMPTY, NULL};
    r->sunk++;
    if (st != TG_OK)
        fail(r, st, &err);
    tg_cond_broadcast(&r->changed);
}

static void do_next_and_work(run *r, uint32_t worker)
{
    tg_error err = {0};
    void *item = NULL;

    r->making = true;
    tg_mutex_unlock(&r->lock);
    tg_status st = tg_cancel_check(r->cancel, &err);
    if (st == TG_OK)
        st = r->line->next(r->line->user, &item, &err);
    tg_mutex_lock(&r->lock);
    r->making = false;
    if (st != TG_OK) {
        r->ended = true;
        if (st != TG_CLOSED)
            fail(r, st, &err);
        tg_cond_broadcast(&r->changed);
        return;
    }
    slot *s = slot_of(r, r->made++);
    *s = (slot){SLOT_WORKING, item};
    tg_cond_broadcast(&r->changed);
    tg_mutex_unlock(&r->lock);
    st = r->line->work(r->line->user, item, worker, &err);
    tg_mutex_lock(&r->lock);
    s->state = SLOT_DONE;
    if (st != TG_OK)
        fail(r, st, &err);
    tg_cond_broadcast(&r->changed);
}

static void pipeline_worker(void *arg, uint32_t worker)
{
    run *r = arg;

    tg_mutex_lock(&r->lock);
    while (r->status == TG_OK) {
        if (!r->sinking && r->sunk < r->made && slot_of(r, r->sunk)->state == SLOT_DONE)
            do_sink(r);
        else if (!r->making && !r->ended && r->made - r->sunk < r->line->depth)
            do_next_and_work(r, worker);
        else if (r->ended && r->sunk == r->made)
            break;
        else
            tg_cond_wait(&r->changed, &r->lock);
    }
    tg_mutex_unlock(&r->lock);
}

tg_status tg_pipeline_run(tg_pool *p, const tg_pipeline *pipeline, const tg_cancel *cancel,
                          tg_error *err)
{
    run r = {.line = pipeline, .cancel = cancel};

    if (pipeline->depth == 0)
        return tg_fail(err, TG_INVALID, "a pipeline needs a depth of 1 or more");
    r.slots = tg_calloc(pipeline->depth, sizeof *r.slots);
    if (r.slots == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a pipeline of depth %u",
                       pipeline->depth);
    tg_mutex_init(&r.lock);
    tg_cond_init(&r.changed);
    tg_pool_gang(p, pipeline_worker, &r);
    for (uint64_t i = r.sunk; i < r.made; i++) /* only after a failure */
        pipeline->drop(pipeline->user, slot_of(&r, i)->item);
    tg_cond_destroy(&r.changed);
    tg_mutex_destroy(&r.lock);
    tg_free(r.slots);
    if (r.status != TG_OK && err != NULL)
        *err = r.failed;
    return r.status;
}
