/* cli/place.h - the store and the node that a PATH operand names. */
#ifndef TG_CLI_PLACE_H
#define TG_CLI_PLACE_H

#include "cli.h"
#include "tidegate/array.h"
#include "tidegate/store.h"

typedef struct cli_place {
    tg_store *store;
    char *prefix; /* the node within the store, "" for its root */
} cli_place;

/* On failure c->err says why; it names recover where a recorder's journal explains it. */
TG_MUST_USE tg_status place_open(cli *c, const char *path, cli_place *place);
void place_close(cli_place *place);

/* "a/b" from "a" and "b", "b" from "" and "b"; tg_free(). NULL: no memory. */
char *place_join(const char *parent, const char *name);

/* "(265, 772, 1032)" of ndim extents into room. */
const char *extents_text(const uint64_t *v, uint32_t ndim, char *room, size_t cap);

#endif
