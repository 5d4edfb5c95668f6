/* exec/pipeline.c - make in turn, work in parallel, consume in order. Knows nothing of memory:
 * next() takes it, sink() and drop() give it back.
 *
 * Every thread does the same: it makes an item if nobody else is making one and there is room,
 * works on it, and consumes whatever is ready at the head if nobody else does. So a thread that
 * waits in next() never stands in the way of the memory it waits for: those who work consume
 * what they have finished, and on a failure drop it at once. */
#include "exec/pool.h"

typedef struct slot {
    void *item;
    bool ready; /* worked on; waits for its turn */
} slot;

typedef struct line {
    const tg_pipeline *spec;
    const tg_cancel *cancel;
    tg_mutex lock; /* guards all below */
    tg_cond changed;
    slot *slots;       /* item i lies in slot i % depth */
    uint64_t made;     /* items made so far: the number of the next */
    uint64_t consumed; /* items consumed so far */
    bool making;       /* a thread is in next() */
    bool consuming;    /* a thread is in sink() */
    bool ended;        /* next() said so, or something failed */
    tg_status status;  /* of the first failure */
    tg_error error;
} line;

static slot *slot_of(line *l, uint64_t number)
{
    return &l->slots[number % l->spec->depth];
}

/* Take a finished item that nobody will consume any more; NULL: none. */
static void *take_leftover(line *l)
{
    TG_LOCKED(&l->lock);
    for (uint32_t i = 0; i < l->spec->depth; i++) {
        slot *s = &l->slots[i];
        if (!s->ready)
            continue;
        s->ready = false;
        return s->item;
    }
    return NULL;
}

static void drop_leftovers(line *l)
{
    for (void *item; (item = take_leftover(l)) != NULL;)
        l->spec->drop(l->spec->user, item);
}

static bool has_failed(line *l)
{
    TG_LOCKED(&l->lock);
    return l->status != TG_OK;
}

static void fail_line(line *l, tg_status st, const tg_error *e)
{
    {
        TG_LOCKED(&l->lock);
        if (l->status == TG_OK) {
            l->status = st;
            l->error = *e;
        }
        l->ended = true;
        tg_cond_broadcast(&l->changed);
    }
    drop_leftovers(l);
}

/* --- Making -------------------------------------------------------------- */

/* Wait until this thread may make an item; false: there will be none. */
static bool begin_making(line *l)
{
    TG_LOCKED(&l->lock);
    while (!l->ended && (l->making || l->made - l->consumed == l->spec->depth))
        tg_cond_wait(&l->changed, &l->lock);
    if (l->ended)
        return false;
    l->making = true;
    return true;
}

static void end_making(line *l, tg_status st, uint64_t *number)
{
    TG_LOCKED(&l->lock);
    l->making = false;
    if (st == TG_OK)
        *number = l->made++;
    else
        l->ended = true;
    /* One more may make one; but the end concerns all. */
    if (l->ended)
        tg_cond_broadcast(&l->changed);
    else
        tg_cond_signal(&l->changed);
}

/* The next item and its number; false: no more. */
static bool make(line *l, void **item, uint64_t *number)
{
    tg_error e = {0};
    if (!begin_making(l))
        return false;
    tg_status st = tg_cancel_check(l->cancel, &e);
    if (st == TG_OK)
        st = l->spec->next(l->spec->user, item, &e);
    end_making(l, st, number);
    if (st != TG_OK && st != TG_CLOSED)
        fail_line(l, st, &e);
    return st == TG_OK;
}

/* --- Consuming ----------------------------------------------------------- */

/* Take the head if it is ready and nobody is consuming. */
static bool begin_consuming(line *l, void **item)
{
    TG_LOCKED(&l->lock);
    slot *head = slot_of(l, l->consumed);
    if (l->consuming || !head->ready || l->status != TG_OK)
        return false;
    l->consuming = true;
    head->ready = false;
    *item = head->item;
    return true;
}

static void end_consuming(line *l)
{
    TG_LOCKED(&l->lock);
    l->consuming = false;
    l->consumed++;
    tg_cond_signal(&l->changed);
}

/* Consume what is ready, in order. Whoever finished an item meanwhile found us here and left it
 * to us, so look once more after each. */
static void consume(line *l)
{
    for (void *item; begin_consuming(l, &item);) {
        tg_error e = {0};
        tg_status st = tg_cancel_check(l->cancel, &e);
        if (st == TG_OK)
            st = l->spec->sink(l->spec->user, item, &e);
        else
            l->spec->drop(l->spec->user, item);
        if (st != TG_OK)
            fail_line(l, st, &e);
        end_consuming(l);
    }
}

/* --- A thread ------------------------------------------------------------ */

static void put_ready(line *l, void *item, uint64_t number)
{
    TG_LOCKED(&l->lock);
    *slot_of(l, number) = (slot){item, true};
}

static void run_thread(void *user, uint32_t worker)
{
    line *l = user;
    void *item = NULL;
    uint64_t number = 0;
    while (make(l, &item, &number)) {
        tg_error e = {0};
        tg_status st = l->spec->work(l->spec->user, item, worker, &e);
        if (st != TG_OK) {
            l->spec->drop(l->spec->user, item);
            fail_line(l, st, &e);
            return;
        }
        put_ready(l, item, number);
        if (has_failed(l))
            drop_leftovers(l);
        else
            consume(l);
    }
}

tg_status tg_pipeline_run(tg_pool *p, const tg_pipeline *pipeline, const tg_cancel *cancel,
                          tg_error *err)
{
    line l = {.spec = pipeline, .cancel = cancel};

    TG_ASSERT_UNLOCKED();
    if (pipeline->depth == 0)
        return tg_fail(err, TG_INVALID, "a pipeline needs a depth of 1 or more");
    l.slots = tg_calloc(pipeline->depth, sizeof *l.slots);
    if (l.slots == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a pipeline of depth %u",
                       pipeline->depth);
    tg_mutex_init(&l.lock);
    tg_cond_init(&l.changed);
    tg_pool_gang(p, run_thread, &l);
    tg_cond_destroy(&l.changed);
    tg_mutex_destroy(&l.lock);
    tg_free(l.slots);
    if (l.status != TG_OK && err != NULL)
        *err = l.error;
    return l.status;
}
