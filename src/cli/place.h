/* cli/place.h - the store and the node that a PATH operand names. */
#ifndef TG_CLI_PLACE_H
#define TG_CLI_PLACE_H

#include "cli.h"
#include "tidegate/array.h"
#include "tidegate/store.h"

typedef struct cli_place {
    tg_store *store;
    char *prefix;      /* the node within the store, "" for its root */
    bool made;         /* the store was not there before */
    size_t root_bytes; /* of the path: a store's root that was not there; 0: it was */
} cli_place;

/* On failure c->err says why; it names recover where a recorder's journal explains it. */
TG_MUST_USE tg_status place_open(cli *c, const char *path, cli_place *place);
void place_close(cli_place *place);

/* The same, but the store's root is the outermost group that the path lies in, as for a place
 * to write to: so that an array's image, its scale and its tables are seen. */
TG_MUST_USE tg_status place_open_around(cli *c, const char *path, cli_place *place);

/* A place to write to. In a directory the store's root is the outermost group that the path
 * lies in without a gap ("x.zarr/a/b": x.zarr), so that what is kept at the root (ancestors,
 * consolidated metadata) follows; of what is not there, the first folder named "*.zarr". make:
 * what is not there is made, and place_undo() takes it away again as long as nothing was
 * written. */
TG_MUST_USE tg_status place_open_writing(cli *c, const char *path, bool make, cli_place *place);
void place_undo(cli *c, const char *path, cli_place *place);
/* May a node be made here? TG_EXISTS: not in the middle of files that are no Zarr, nor (unless
 * overwrite) where there is a node. */
TG_MUST_USE tg_status place_check_free(cli *c, const cli_place *place, bool overwrite);
/* The end of what was written: what was pending is finished. */
TG_MUST_USE tg_status place_finish(cli *c, cli_place *place);

/* "a/b" from "a" and "b", "b" from "" and "b"; tg_free(). NULL: no memory. */
char *place_join(const char *parent, const char *name);

/* "(265, 772, 1032)" of ndim extents into room. */
const char *extents_text(const uint64_t *v, uint32_t ndim, char *room, size_t cap);

#endif
