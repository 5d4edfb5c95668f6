/* cli/region.h - "0:2,:,5": the part of an array that the user names. Pure. */
#ifndef TG_CLI_REGION_H
#define TG_CLI_REGION_H

#include "args.h"

typedef struct cli_region {
    uint32_t ndim;
    uint64_t start[TG_MAX_NDIM], count[TG_MAX_NDIM];
    bool
        single[TG_MAX_NDIM]; /* one index was named: the dimension is dropped from the result */
} cli_region;

/* text NULL: everything. Per dimension "a:b", "a:", ":b", ":" or one index; negative ones count
 * from the end; dimensions not named are whole. TG_INVALID: more dimensions than the array has,
 * or an index beyond its extent: nothing is cut silently. */
TG_MUST_USE tg_status region_parse(const char *text, const uint64_t *shape, uint32_t ndim,
                                   cli_region *out, tg_error *err);
/* Items; false if there are more than 2^64 - 1. */
bool region_items(const cli_region *r, uint64_t *items);

/* Boxes that cover a region in C order, each at most `most` items (1 or more), cut at multiples
 * of the chunk where the room allows. Zero-initialise but for region, most and chunk. */
typedef struct region_walk {
    const cli_region *region;
    const uint64_t *chunk;
    uint64_t most;
    bool begun;
    uint64_t start[TG_MAX_NDIM], count[TG_MAX_NDIM]; /* the box */
} region_walk;
bool region_next(region_walk *w);

#endif
