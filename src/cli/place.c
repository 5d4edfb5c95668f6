/* cli/place.c - opens what a PATH operand names. */
#include "place.h"

#include "tidegate/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

tg_status place_open(cli *c, const char *path, cli_place *place)
{
    tg_status st = tg_store_open(path, NULL, &place->store, &place->prefix, &c->err);
    if (st == TG_OK && place->prefix == NULL) {
        place->prefix = tg_strdup("");
        if (place->prefix == NULL)
            st = cli_fail(&c->err, TG_NO_MEMORY, "no memory to open '%.200s'", path);
    }
    return st;
}

void place_close(cli_place *place)
{
    tg_free(place->prefix);
    tg_store_free(place->store);
    *place = (cli_place){0};
}

char *place_join(const char *parent, const char *name)
{
    size_t room = strlen(parent) + strlen(name) + 2;
    char *joined = tg_alloc(room);
    if (joined != NULL)
        (void)snprintf(joined, room, "%s%s%s", parent, parent[0] != '\0' ? "/" : "", name);
    return joined;
}

const char *extents_text(const uint64_t *v, uint32_t ndim, char *room, size_t cap)
{
    size_t n = 0;
    room[0] = '\0';
    for (uint32_t i = 0; i <= ndim && n < cap; i++) {
        int k = i == ndim
                    ? snprintf(room + n, cap - n, ndim == 0 ? "()" : ")")
                    : snprintf(room + n, cap - n, "%s%" PRIu64, i == 0 ? "(" : ", ", v[i]);
        n += k > 0 ? (size_t)k : 0;
    }
    return room;
}
