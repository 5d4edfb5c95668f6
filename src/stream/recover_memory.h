/* stream/recover_memory.h - lists and maps that grow as a journal is read, under the budget.
 * A journal may be hostile: whatever order its records come in, adding and finding cost the
 * same. */
#ifndef TG_STREAM_RECOVER_MEMORY_H
#define TG_STREAM_RECOVER_MEMORY_H

#include "exec/exec.h"

/* What was reserved, and what of that is in use. */
typedef struct tg_room {
    tg_budget *budget;
    uint64_t reserved, used;
} tg_room;

/* TG_OVER_BUDGET, with both numbers. */
TG_MUST_USE tg_status tg_room_take(tg_room *room, uint64_t bytes, tg_error *err);
void tg_room_give(tg_room *room, uint64_t bytes); /* back, to be taken again */
void tg_room_free(tg_room *room);                 /* all of it goes back to the budget */

/* An array of items of `size` bytes. */
typedef struct tg_list {
    void *items;
    size_t n, cap, size;
} tg_list;

/* *item is zeroed, and moves when the next one is added. */
TG_MUST_USE tg_status tg_list_add(tg_room *room, tg_list *l, void **item, tg_error *err);
void tg_list_drop(tg_list *l, size_t n); /* the first n */
static inline bool tg_list_is_full(const tg_list *l)
{
    return l->n == l->cap;
}
void tg_list_free(tg_list *l);

/* Numbers to numbers; a value of 0 is none. Keys below UINT64_MAX. */
typedef struct tg_map {
    uint64_t *entries; /* key, value */
    size_t n, cap;     /* keys, those whose value is 0 again among them */
    uint64_t seed;
} tg_map;

uint64_t tg_map_get(const tg_map *m, uint64_t key);
void tg_map_put(tg_map *m, uint64_t key, uint64_t value); /* of a key that has one */
static inline void tg_map_clear(tg_map *m, uint64_t key)
{
    tg_map_put(m, key, 0);
}
TG_MUST_USE tg_status tg_map_set(tg_room *room, tg_map *m, uint64_t key, uint64_t value,
                                 tg_error *err);
void tg_map_free(tg_map *m);
void tg_map_free_in(tg_room *room, tg_map *m); /* and its room may be taken again */

#endif
