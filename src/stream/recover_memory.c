/* stream/recover_memory.c - see the header. A map is a table of open addressing, at most half
 * full, whose hash is seeded so that keys cannot be chosen to collide. */
#include "stream/recover_memory.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

enum { ROOM_STEP = 1 << 16 }; /* the budget is asked in steps, not for each record */

static tg_status no_memory(tg_error *err)
{
    return tg_fail(err, TG_NO_MEMORY, "no memory for what the journal says");
}

tg_status tg_room_take(tg_room *room, uint64_t bytes, tg_error *err)
{
    uint64_t want, more;

    if (__builtin_add_overflow(room->used, bytes, &want))
        return tg_fail(err, TG_CORRUPT, "the journal speaks of %" PRIu64 " bytes of chunks",
                       bytes);
    if (want > room->reserved) {
        more = want - room->reserved;
        more = more < ROOM_STEP ? ROOM_STEP : more;
        TG_TRY(tg_budget_reserve(room->budget, more, "what the journal says", err));
        room->reserved += more;
    }
    room->used = want;
    return TG_OK;
}

void tg_room_give(tg_room *room, uint64_t bytes)
{
    room->used -= bytes;
}

void tg_room_free(tg_room *room)
{
    if (room->reserved > 0)
        tg_budget_release(room->budget, room->reserved);
    room->reserved = room->used = 0;
}

/* --- Lists ------------------------------------------------------------------------------ */

static tg_status grow_list(tg_room *room, tg_list *l, tg_error *err)
{
    size_t cap = l->cap == 0 ? 16 : l->cap * 2;

    TG_TRY(tg_room_take(room, (uint64_t)cap * l->size, err));
    uint8_t *grown = tg_alloc_array(cap, l->size);
    if (grown == NULL) {
        tg_room_give(room, (uint64_t)cap * l->size);
        return no_memory(err);
    }
    if (l->n > 0)
        memcpy(grown, l->items, l->n * l->size);
    tg_free(l->items);
    tg_room_give(room, (uint64_t)l->cap * l->size);
    l->items = grown;
    l->cap = cap;
    return TG_OK;
}

tg_status tg_list_add(tg_room *room, tg_list *l, void **item, tg_error *err)
{
    if (tg_list_is_full(l))
        TG_TRY(grow_list(room, l, err));
    *item = (uint8_t *)l->items + l->n++ * l->size;
    memset(*item, 0, l->size);
    return TG_OK;
}

void tg_list_drop(tg_list *l, size_t n)
{
    uint8_t *items = l->items;

    if (n == 0)
        return;
    memmove(items, items + n * l->size, (l->n - n) * l->size);
    l->n -= n;
}

void tg_list_free(tg_list *l)
{
    tg_free(l->items);
    l->items = NULL;
    l->n = l->cap = 0;
}

/* --- Maps ------------------------------------------------------------------------------- */

#define NO_KEY UINT64_MAX

static size_t place_of(const tg_map *m, uint64_t key)
{
    uint64_t z = key ^ m->seed;

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    size_t i = (size_t)z & (m->cap - 1);
    while (m->entries[2 * i] != NO_KEY && m->entries[2 * i] != key)
        i = (i + 1) & (m->cap - 1);
    return i;
}

uint64_t tg_map_get(const tg_map *m, uint64_t key)
{
    if (m->cap == 0 || key == NO_KEY)
        return 0;
    size_t i = place_of(m, key);
    return m->entries[2 * i] == key ? m->entries[2 * i + 1] : 0;
}

void tg_map_put(tg_map *m, uint64_t key, uint64_t value)
{
    if (m->cap == 0 || key == NO_KEY)
        return;
    size_t i = place_of(m, key);
    if (m->entries[2 * i] == key)
        m->entries[2 * i + 1] = value;
}

/* Into a table with room for as many again as have a value. */
static tg_status grow_map(tg_room *room, tg_map *m, tg_error *err)
{
    tg_map grown = {.cap = 64, .seed = m->seed};
    size_t used = 0;

    if (m->cap == 0)
        grown.seed = (uint64_t)tg_clock_ns() ^ (uint64_t)(uintptr_t)room;
    for (size_t i = 0; i < m->cap; i++)
        used += m->entries[2 * i] != NO_KEY && m->entries[2 * i + 1] != 0;
    while (grown.cap < used * 4)
        grown.cap *= 2;
    TG_TRY(tg_room_take(room, (uint64_t)grown.cap * 16, err));
    grown.entries = tg_alloc_array(grown.cap, 16);
    if (grown.entries == NULL) {
        tg_room_give(room, (uint64_t)grown.cap * 16);
        return no_memory(err);
    }
    for (size_t i = 0; i < grown.cap; i++)
        grown.entries[2 * i] = NO_KEY;
    for (size_t i = 0; i < m->cap; i++) {
        if (m->entries[2 * i] == NO_KEY || m->entries[2 * i + 1] == 0)
            continue;
        size_t at = place_of(&grown, m->entries[2 * i]);
        memcpy(grown.entries + 2 * at, m->entries + 2 * i, 16);
        grown.n++;
    }
    tg_room_give(room, (uint64_t)m->cap * 16);
    tg_free(m->entries);
    *m = grown;
    return TG_OK;
}

tg_status tg_map_set(tg_room *room, tg_map *m, uint64_t key, uint64_t value, tg_error *err)
{
    if (key == NO_KEY)
        return tg_fail(err, TG_CORRUPT, "the journal speaks of number %" PRIu64, key);
    if ((m->n + 1) * 2 > m->cap)
        TG_TRY(grow_map(room, m, err));
    size_t i = place_of(m, key);
    if (m->entries[2 * i] == NO_KEY) {
        m->entries[2 * i] = key;
        m->n++;
    }
    m->entries[2 * i + 1] = value;
    return TG_OK;
}

void tg_map_free(tg_map *m)
{
    tg_free(m->entries);
    *m = (tg_map){0};
}

void tg_map_free_in(tg_room *room, tg_map *m)
{
    tg_room_give(room, (uint64_t)m->cap * 16);
    tg_map_free(m);
}
