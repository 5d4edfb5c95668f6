/* stream/ring.c - slabs and rows of one array, under one short lock. */
#include "stream/ring.h"

#include "base/clock.h"

void tg_ring_init(tg_ring *r)
{
    *r = (tg_ring){0};
    tg_mutex_init(&r->lock);
    tg_cond_init(&r->room);
}

void tg_ring_destroy(tg_ring *r)
{
    tg_cond_destroy(&r->room);
    tg_mutex_destroy(&r->lock);
}

static void count_used(tg_ring *r)
{
    atomic_store_explicit(&r->used, r->touched - (uint32_t)(r->free_in - r->free_out),
                          memory_order_relaxed);
}

/* Wait for room until `until_ns`; < 0: for ever. The lock is held. */
static tg_status wait_for_room(tg_ring *r, int64_t wait_ns, int64_t until_ns)
{
    if (r->woken)
        return TG_CANCELLED;
    if (wait_ns == 0)
        return TG_BUSY;
    if (wait_ns < 0)
        tg_cond_wait(&r->room, &r->lock);
    else if (!tg_cond_wait_until(&r->room, &r->lock, until_ns))
        return TG_TIMED_OUT;
    return TG_OK;
}

tg_status tg_ring_take(tg_ring *r, int64_t wait_ns, uint32_t *slab, int64_t *waited_ns)
{
    TG_LOCKED(&r->lock);
    int64_t start = 0;

#if TG_PLANT == 5
    if (r->free_in == r->free_out) {
        *slab = (uint32_t)(r->in % r->n_slabs);
        return TG_OK;
    }
#endif
    while (r->free_in == r->free_out) {
        /* Slabs that are still being touched come whatever the disk does: they are waited for
         * also by a producer that does not wait. */
        bool certain = r->touched < r->n_slabs;
        start = start == 0 ? tg_clock_ns() : start;
        TG_TRY(wait_for_room(r, certain ? -1 : wait_ns, start + wait_ns));
    }
    *slab = r->free_ids[r->free_out++ % r->n_slabs];
    count_used(r);
    if (waited_ns != NULL)
        *waited_ns = start == 0 ? 0 : tg_clock_ns() - start;
    return TG_OK;
}

tg_status tg_ring_take_oldest(tg_ring *r, bool shift, tg_layer *layer, tg_mark *before)
{
    TG_LOCKED(&r->lock);

    for (uint64_t i = r->claimed; i < r->in; i++) {
        tg_layer *found = &r->layers[i % r->n_layers];
        if (r->slabs[found->slab].pins > 0 || r->slabs[found->slab].tailed || found->padded)
            return TG_NOT_FOUND;
        *layer = *found;
        *before = i > r->out ? r->layers[(i - 1) % r->n_layers].mark : r->popped;
        for (uint64_t j = i; j + 1 < r->in; j++)
            r->layers[j % r->n_layers] = r->layers[(j + 1) % r->n_layers];
        r->in--;
        r->dropped_frames += layer->frames;
        if (shift)
            r->shift++;
        return TG_OK;
    }
    return TG_NOT_FOUND;
}

void tg_ring_open(tg_ring *r, uint32_t slab, uint64_t layer)
{
    TG_LOCKED(&r->lock);
    r->slabs[slab].layer = layer;
    r->slabs[slab].filled = r->slabs[slab].frames = 0;
    r->slabs[slab].tailed = false;
    r->slabs[slab].padded = 0;
}

tg_mark tg_ring_settled(const tg_ring *r, tg_mark mark)
{
    mark.slots -= r->shift * r->layer_slots;
    mark.frames -= r->dropped_frames;
    return mark;
}

void tg_ring_advance(tg_ring *r, uint32_t slab, uint32_t filled, bool pixels, tg_mark head)
{
    TG_LOCKED(&r->lock);

    if (slab != TG_NO_SLAB) {
        tg_slab *s = &r->slabs[slab];
        s->filled = filled;
        s->frames += pixels;
    }
    r->head = head;
}

static void push_layer(tg_ring *r, const tg_layer *layer)
{
    r->layers[r->in % r->n_layers] = *layer;
    r->in++;
}

void tg_ring_queue(tg_ring *r, const tg_layer *layer)
{
    TG_LOCKED(&r->lock);
    push_layer(r, layer);
}

tg_status tg_ring_queue_copy(tg_ring *r, uint32_t of, uint64_t layer_of, uint32_t filled,
                             const tg_layer *layer)
{
    TG_LOCKED(&r->lock);
    /* The caller has it pinned. What was written meanwhile waits to be freed; what is queued
     * comes before the copy. */
    if (r->slabs[of].layer != layer_of || r->slabs[of].freed)
        return TG_CLOSED;
    for (uint64_t i = r->out; i < r->in; i++)
        if (r->layers[i % r->n_layers].slab == of)
            return TG_CLOSED;
    r->slabs[of].padded = filled;
    push_layer(r, layer);
    return TG_OK;
}

/* --- Rows ----------------------------------------------------------------- */

uint64_t tg_ring_row_at(const tg_ring *r, uint64_t position)
{
    uint64_t left = r->rows_bytes - position % r->rows_bytes;
    return left < r->row_most ? position + left : position;
}

tg_status tg_ring_row(tg_ring *r, int64_t wait_ns, uint64_t *position, uint8_t **dst)
{
    uint64_t at = tg_ring_row_at(r, *position);
    TG_LOCKED(&r->lock);
    int64_t start = 0;

    while (at + r->row_most - r->rows_freed > r->rows_bytes) {
        start = start == 0 ? tg_clock_ns() : start;
        TG_TRY(wait_for_room(r, wait_ns, start + wait_ns));
    }
    *position = at;
    *dst = r->rows + at % r->rows_bytes;
    return TG_OK;
}

void tg_ring_free_rows(tg_ring *r, uint64_t position)
{
    TG_LOCKED(&r->lock);
    r->rows_freed = position;
    tg_cond_broadcast(&r->room);
}

/* --- Workers, writer, committer ------------------------------------------- */

bool tg_ring_claim(tg_ring *r, uint64_t *place, tg_layer *layer)
{
    TG_LOCKED(&r->lock);

    if (r->claimed == r->in)
        return false;
    *place = r->claimed++;
    tg_layer *found = &r->layers[*place % r->n_layers];
    found->number -= r->shift;
    found->delta = r->shift * r->layer_slots;
    found->mark = tg_ring_settled(r, found->mark);
    *layer = *found;
    return true;
}

void tg_ring_ready(tg_ring *r, uint64_t place, const tg_layer *layer)
{
    TG_LOCKED(&r->lock);
    r->layers[place % r->n_layers] = *layer;
    r->layers[place % r->n_layers].ready = true;
}

bool tg_ring_peek(tg_ring *r, uint32_t ahead, tg_layer *layer)
{
    TG_LOCKED(&r->lock);

    for (uint64_t i = r->out; i <= r->out + ahead; i++)
        if (i >= r->claimed || !r->layers[i % r->n_layers].ready)
            return false;
    *layer = r->layers[(r->out + ahead) % r->n_layers];
    return true;
}

void tg_ring_pop(tg_ring *r, uint32_t n)
{
    TG_LOCKED(&r->lock);
    if (n > 0)
        r->popped = r->layers[(r->out + n - 1) % r->n_layers].mark;
    r->out += n;
}

void tg_ring_add(tg_ring *r, uint32_t slab)
{
    TG_LOCKED(&r->lock);
    r->free_ids[r->free_in++ % r->n_slabs] = slab;
    r->touched++;
    tg_cond_broadcast(&r->room);
}

/* The lock is held. */
static void give_back(tg_ring *r, uint32_t slab)
{
    if (r->slabs[slab].pins > 0) {
        r->slabs[slab].freed = true;
        return;
    }
    r->free_ids[r->free_in++ % r->n_slabs] = slab;
    count_used(r);
    tg_cond_broadcast(&r->room);
}

void tg_ring_release(tg_ring *r, uint32_t slab)
{
    TG_LOCKED(&r->lock);
    give_back(r, slab);
}

void tg_ring_pin(tg_ring *r, uint32_t slab)
{
    r->slabs[slab].pins++;
}

void tg_ring_unpin(tg_ring *r, uint32_t slab)
{
    TG_LOCKED(&r->lock);

    if (--r->slabs[slab].pins == 0 && r->slabs[slab].freed) {
        r->slabs[slab].freed = false;
        give_back(r, slab);
    }
}

bool tg_ring_any_frames(const tg_ring *r, const uint32_t *open, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (open[i] != TG_NO_SLAB && r->slabs[open[i]].frames > 0)
            return true;
    return false;
}

bool tg_ring_is_idle(const tg_ring *r)
{
    return r->in == r->out;
}

void tg_ring_wake(tg_ring *r)
{
    TG_LOCKED(&r->lock);
    r->woken = true;
    tg_cond_broadcast(&r->room);
}
