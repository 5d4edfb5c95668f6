/* region/plan_state.h - a plan as its own files see it: sections of plain arrays, which lie in
 * memory where it was made and in the mapped file where it was opened (docs/formats/plan.md).
 */
#ifndef TG_REGION_PLAN_STATE_H
#define TG_REGION_PLAN_STATE_H

#include "base/json.h"
#include "region/plan.h"

#include <stdatomic.h>

#define TG_PLAN_NONE UINT32_MAX /* no unit: the region is empty */

/* In the order of the file. n regions, u units, l links, s sources, i issued; coordinates are
 * of 4 bytes, of 8 where an extent is 2^32 or more. */
typedef enum tg_plan_section_id {
    TG_PLAN_BOX,          /* n x ndim starts and ndim ends, in IN */
    TG_PLAN_LABEL,        /* n x 8, or nothing */
    TG_PLAN_NAME,         /* n + 1 x 8 offsets into NAMES, or nothing */
    TG_PLAN_NAMES,        /* each ends with a NUL */
    TG_PLAN_ANCHOR,       /* n x 4 */
    TG_PLAN_LINK_FIRST,   /* n + 1 x 4 */
    TG_PLAN_LINK,         /* l x tg_plan_link */
    TG_PLAN_UNIT,         /* u x tg_plan_unit_record */
    TG_PLAN_UNIT_FIRST,   /* u + 1 x 4 */
    TG_PLAN_UNIT_REGION,  /* l x 4 */
    TG_PLAN_UNIT_WRITERS, /* u x inner x 4 */
    TG_PLAN_UNIT_COVER,   /* u x inner */
    TG_PLAN_PIECE_AT,     /* n x 4, or nothing */
    TG_PLAN_PIECE_N,      /* n, or nothing */
    TG_PLAN_PIECE,        /* as BOX, in OUT */
    TG_PLAN_SOURCE,       /* s x 8: place in C order of IN's grid of units */
    TG_PLAN_READERS,      /* s x inner x 4 */
    TG_PLAN_READ_FIRST,   /* n + 1 x 4 */
    TG_PLAN_READ,         /* x 4 */
    TG_PLAN_ISSUED,       /* i x 4 */
    TG_PLAN_PART_UNIT,    /* parts + 1 x 4 */
    TG_PLAN_PART_ISSUED,  /* parts + 1 x 4 */
    TG_PLAN_BEFORE,       /* n x 4, or nothing */
    TG_PLAN_AFTER_FIRST,  /* n + 1 x 4, or nothing */
    TG_PLAN_AFTER,        /* x 4 */
    TG_PLAN_RING,         /* n + 1 x 8, or nothing: outlines as tg_roi_outlines has them */
    TG_PLAN_POINT,        /* rings + 1 x 8, or nothing */
    TG_PLAN_XY,           /* x 16 */
    TG_PLAN_SECTIONS
} tg_plan_section_id;

enum { /* of tg_plan_unit_record.flags */
       TG_PLAN_BORDER = 1,
       TG_PLAN_FOREIGN_READS = 2,
       TG_PLAN_ORDERED = 4,
       TG_PLAN_FULL = 8
};

typedef struct tg_plan_unit_record {
    uint64_t linear; /* place in C order of OUT's grid of units */
    uint64_t weight;
    uint32_t n_reading;
    uint32_t part;
    uint32_t flags;
    uint32_t zero;
} tg_plan_unit_record;

enum { TG_PLAN_MAX_PIECES = 64 };
#define TG_PLAN_WINS_NOTHING UINT8_MAX /* in PIECE_N */

typedef struct tg_plan_section {
    void *data; /* of a mapped plan only read */
    uint64_t bytes;
} tg_plan_section;

/* The units that an array is stored in. */
typedef struct tg_plan_grid {
    tg_shape array, chunk, unit;
    tg_shape grid;  /* units of the array */
    tg_shape inner; /* chunks of a unit */
    uint32_t n_inner;
} tg_plan_grid;

/* The pages of the file that are resident. */
typedef struct tg_plan_window {
    uint8_t *base;
    uint64_t bytes;
    atomic_uint *touched; /* a bit per slice of the address space */
    uint64_t first_slice;
    uint64_t n_words;
    atomic_ullong n_touched; /* slices */
    uint64_t most;
} tg_plan_window;

struct tg_plan {
    tg_plan_facts facts; /* strings borrowed from header */
    tg_json *header;
    uint64_t n;
    uint32_t n_units, n_links, n_sources, n_issued;
    uint32_t ndim; /* of IN */
    bool wide;     /* coordinates of 8 bytes */
    bool padded;
    tg_plan_grid out, in;
    tg_plan_section section[TG_PLAN_SECTIONS];
    tg_plan_window window; /* base NULL: sections are the plan's own memory */
    tg_plan_stats stats;
    uint64_t fingerprint;
    tg_budget *budget;
    uint64_t reserved;
};

/* n items of item_bytes for a section, zeroed, from the budget. */
TG_MUST_USE tg_status tg_plan_take(tg_plan *p, tg_plan_section_id id, uint64_t n,
                                   size_t item_bytes, tg_error *err);
void tg_plan_drop(tg_plan *p, tg_plan_section_id id);

/* An array that grows out of the plan's budget; becomes a section or is freed. */
typedef struct tg_plan_vec {
    uint8_t *data;
    uint64_t n, cap; /* items */
    size_t item_bytes;
} tg_plan_vec;
TG_MUST_USE tg_status tg_plan_vec_room(tg_plan *p, tg_plan_vec *v, uint64_t more,
                                       tg_error *err);
void tg_plan_vec_free(tg_plan *p, tg_plan_vec *v);
void tg_plan_vec_move(tg_plan *p, tg_plan_vec *v, tg_plan_section_id id);

/* Of facts: grids, ndim, wide. TG_INVALID where it cannot be planned. */
TG_MUST_USE tg_status tg_plan_derive(tg_plan *p, tg_error *err);
/* Facts as the JSON object of the header (a root), and back: facts borrow its strings. */
TG_MUST_USE tg_status tg_plan_facts_json(const tg_plan *p, tg_json **out, tg_error *err);
TG_MUST_USE tg_status tg_plan_facts_read(tg_plan *p, tg_error *err);
TG_MUST_USE tg_status tg_plan_make_fingerprint(tg_plan *p, tg_error *err);

static inline const void *tg_plan_data(const tg_plan *p, tg_plan_section_id id)
{
    return p->section[id].data;
}
void tg_plan_touch(const tg_plan *p, const void *at, uint64_t bytes);

/* Coordinates of ndim starts and ndim ends at place i. */
static inline uint64_t tg_plan_coord(const void *data, bool wide, uint64_t i)
{
    return wide ? ((const uint64_t *)data)[i] : ((const uint32_t *)data)[i];
}
static inline void tg_plan_set_coord(void *data, bool wide, uint64_t i, uint64_t v)
{
    if (wide)
        ((uint64_t *)data)[i] = v;
    else
        ((uint32_t *)data)[i] = (uint32_t)v;
}

/* The region at k as starts and ends (2 x ndim), and what it writes in OUT. */
void tg_plan_bounds(const tg_plan *p, uint64_t k, uint64_t *bounds);
void tg_plan_write_bounds(const tg_plan *p, const uint64_t *region, uint64_t *write);
void tg_plan_read_bounds(const tg_plan *p, const uint64_t *region, uint64_t *read);

/* Steps of making, each on what the ones before made (plan_make.c). */
TG_MUST_USE tg_status tg_plan_overlaps(tg_plan *p, const tg_cancel *cancel, tg_error *err);
TG_MUST_USE tg_status tg_plan_conflicts(tg_plan *p, const tg_cancel *cancel, tg_error *err);
TG_MUST_USE tg_status tg_plan_index(tg_plan *p, const tg_cancel *cancel, tg_error *err);
TG_MUST_USE tg_status tg_plan_divide(tg_plan *p, tg_error *err);
TG_MUST_USE tg_status tg_plan_cover(tg_plan *p, const tg_cancel *cancel, tg_error *err);

/* Of a mapped plan whose sums are right: sizes are taken from the sections. TG_CORRUPT. */
TG_MUST_USE tg_status tg_plan_check(tg_plan *p, tg_error *err);

const char *tg_plan_name(const tg_plan *p, uint64_t k); /* NULL: none */

static inline bool tg_plan_is_empty(const tg_plan *p, uint64_t k)
{
    return ((const uint32_t *)tg_plan_data(p, TG_PLAN_ANCHOR))[k] == TG_PLAN_NONE;
}

/* Ascending, in place; for short lists. */
void tg_plan_sort_short(uint32_t *v, uint32_t n);

#endif
