/* region/plan.h - the plan of a run: which pixels each region reads and writes, which units it
 * touches, in which order and by which part. Made once, stored as one file, mapped by every
 * process (docs/formats/plan.md). Pure but for that file: it opens no array. */
#ifndef TG_REGION_PLAN_H
#define TG_REGION_PLAN_H

#include "exec/exec.h"
#include "nd/nd.h"
#include "region/function.h"
#include "region/rois.h"
#include "tidegate/cancel.h"

typedef enum tg_policy {
    TG_POLICY_ERROR,
    TG_POLICY_LAST,
    TG_POLICY_FIRST,
    TG_POLICY_MAX,
    TG_POLICY_MIN,
    TG_POLICY_OR,
    TG_POLICY_AND,
    TG_POLICY_SUM,
    TG_POLICY_MEAN,
    TG_POLICY_BLEND,
    TG_POLICY_NONZERO,
    TG_POLICY_MASK,
    TG_POLICY_LABELS,
    TG_POLICY_USER
} tg_policy;
TG_MUST_USE tg_status tg_policy_parse(const char *name, tg_policy *out, tg_error *err);
const char *tg_policy_name(tg_policy p);

/* Does the result depend on the order in which contributions arrive, so that they must be
 * folded in order? last and first do not: their boxes are clipped when planned (but see
 * tg_plan_unit.ordered). Integers' sum and mean, max and min do not: of floats, NaN wins as the
 * one canonical NaN, and max takes +0 over -0, min -0 over +0. */
bool tg_policy_ordered(tg_policy p, tg_dtype out_dtype);

/* The same of a plan: objects of one label image share no pixel. */
typedef struct tg_plan_facts tg_plan_facts;
bool tg_plan_is_ordered(const tg_plan_facts *f);

/* May a pixel that a region writes keep what was there before (mask, nonzero, user)? Then no
 * unit counts as covered, and its old content is needed. */
bool tg_policy_keeps_base(tg_policy p);

/* --- What is planned ------------------------------------------------------ */

typedef enum tg_base_kind { TG_BASE_OUT, TG_BASE_INPUT } tg_base_kind;           /* --base */
typedef enum tg_read_kind { TG_READ_SNAPSHOT, TG_READ_SEQUENTIAL } tg_read_kind; /* --read */

typedef struct tg_plan_array { /* strings borrowed */
    const char *url;           /* of the store, so that another process finds it */
    const char *path;          /* of the array in it */
    tg_dtype dtype;
    tg_shape shape;
    tg_shape chunk;        /* what is decoded */
    tg_shape shard;        /* what is stored: the unit; equal to chunk if not sharded */
    uint32_t metadata_crc; /* crc32c of the metadata document but for attributes */
} tg_plan_array;

/* Everything that holds for the plan as a whole: kept in its header. Strings are borrowed: of
 * the caller in tg_plan_spec, of the plan in tg_plan_facts(). */
struct tg_plan_facts {
    tg_plan_array in, out; /* out.shape.ndim 0: none, the function makes rows only */
    bool out_new;          /* OUT is made by this run: what is not written is fill value */
    bool in_place;         /* OUT is IN */
    bool keep_undo;
    char kind; /* of the function, as tg_function_open() has it; 0: a program's own */
    const char *text;
    const char *rois; /* what the list came from, as the user gave it */
    tg_policy policy;
    /* Policy mask: the label image of which the regions are objects; no dimensions: what is
     * inside their outlines is theirs. */
    tg_plan_array mask;
    bool mask_apart; /* each has a label of its own: no pixel is two regions'; set when made */
    tg_base_kind base;
    tg_read_kind read; /* sequential where OUT is not IN is snapshot: the same */
    const char *pad;   /* what a call sees beyond IN (region/pad.h); NULL, "": nothing */
    uint64_t halo[TG_MAX_NDIM];     /* in IN's items */
    uint64_t out_step[TG_MAX_NDIM]; /* tg_function_facts.out_step */
    uint64_t commit_ms;
    uint32_t parts;
    const char *axes[TG_MAX_NDIM]; /* of IN; NULL: unknown */
    double scale[TG_MAX_NDIM];
    /* One JSON object of the engine's own (jobs, on-error, ...), kept as it is; "" : none. */
    const char *options;
    tg_roi_rounding rounding;
};

/* Positions below: regions by list order, units by Morton order of their index (ties: C order).
 * Threads: all accessors may overlap. What they point to stays valid until tg_plan_free(). */
typedef struct tg_plan tg_plan;

typedef struct tg_plan_region {
    tg_box read; /* in IN, halo included, clipped */
    tg_shape in; /* what a call sees: of `read`, padded as far as the halo goes */
    uint64_t before[TG_MAX_NDIM]; /* items of that before the region */
    tg_box region;    /* in IN. Where OUT is coarser: grown to whole steps, so that it is what
                       * `write` is made of; a dimension of one step stays as it is */
    tg_box write;     /* in OUT; no OUT: `region`, of which nothing is written */
    bool empty;       /* nothing to write: never called, and in no unit's list */
    uint64_t label;   /* 0: none */
    const char *name; /* terminated; NULL: named by its position */
    uint32_t part;    /* that calls it */
    uint32_t anchor;  /* unit of write.start: its part calls it */
    /* Rectangles of `write` that it wins (last, first); 0 pieces: all of write, unless
     * wins_nothing (called all the same, in no unit's list). */
    uint32_t n_pieces;
    bool wins_nothing;
} tg_plan_region;

typedef struct tg_plan_unit {
    uint64_t index[TG_MAX_NDIM]; /* in units of OUT's grid */
    uint32_t n_writing; /* regions that write (win) pixels of it; 0: all lost theirs to none */
    uint32_t n_reading; /* in place: regions that read pixels of it, else 0 */
    uint32_t n_inner;   /* inner chunks of a whole unit: OUT's shard / chunk */
    uint32_t part;      /* that owns it */
    bool border;        /* regions of other parts write it too: folded by finish */
    bool foreign_reads; /* in place: regions of other parts read it: published by finish */
    bool ordered; /* a region in it was not clipped (too many pieces) or the policy asks for
                   * it: fold in the order of the list below, the later over the earlier */
    bool full;    /* every pixel within the array is written: old content is not needed */
    uint64_t weight;
} tg_plan_unit;

/* A region that writes a unit, seen from either side. */
typedef struct tg_plan_link {
    uint32_t at;   /* position of the other: unit, or region */
    uint32_t rank; /* of the region in the unit's list */
} tg_plan_link;

typedef enum tg_coverage { TG_COVER_NONE, TG_COVER_PARTIAL, TG_COVER_FULL } tg_coverage;

/* --- Making --------------------------------------------------------------- */

typedef struct tg_plan_spec {
    tg_plan_facts facts;
    uint64_t n;             /* regions, below 2^32 */
    const uint64_t *bounds; /* of tg_rois_boxes() for IN's shape */
    const uint64_t *label;  /* n, or NULL */
    const uint64_t *name;   /* n + 1 offsets into names, or NULL */
    const char *names;
    /* Policy mask: the first n_masked regions are objects (others are never called), and what
     * they are bounded by, if not by a label image. Only read while the plan is made. */
    uint64_t n_masked;
    const tg_roi_outlines *outlines;
    /* What one region costs at least while it is in flight, bytes, and what the least budget of
     * the run is: a region above it is refused, TG_OVER_BUDGET with both numbers. NULL: none is
     * refused. The engine hands in tg_plan_region_bytes(). */
    uint64_t (*region_bytes)(void *user, const tg_plan_facts *facts, const tg_plan_region *r);
    void *region_bytes_user;
    uint64_t memory_bytes;
} tg_plan_spec;

/* Memory of the plan is reserved from the budget (NULL: none is) as it grows and given back by
 * tg_plan_free(). TG_INVALID: two regions overlap and the policy is error (both are named, and
 * how many pairs there are), sequential reads in more than one part, a halo that cannot be
 * padded. */
TG_MUST_USE tg_status tg_plan_make(tg_plan **out, const tg_plan_spec *spec, tg_budget *budget,
                                   const tg_cancel *cancel, tg_error *err);
/* The same plan gives the same bytes. Made as path.new, synced, renamed. */
TG_MUST_USE tg_status tg_plan_write(const tg_plan *p, int dir, const char *path, tg_error *err);
/* The file is mapped; at most window_bytes of it stay resident (at least 1 MiB), reserved from
 * the budget (NULL: not reserved). Everything in it is checked, so that no accessor can be led
 * astray: TG_CORRUPT; TG_UNSUPPORTED names a newer version. The file must not change meanwhile.
 */
TG_MUST_USE tg_status tg_plan_open(tg_plan **out, int dir, const char *path,
                                   uint64_t window_bytes, tg_budget *budget, tg_error *err);
void tg_plan_free(tg_plan *p); /* may be NULL */
TG_DEFINE_AUTO_PTR(tg_plan, tg_plan_free)

/* --- Asking --------------------------------------------------------------- */

const tg_plan_facts *tg_plan_get_facts(const tg_plan *p);
/* Of arrays, boxes, function, policy, base, read mode, halo: what the result depends on, not
 * names nor parts. */
uint64_t tg_plan_fingerprint(const tg_plan *p);
uint64_t tg_plan_n_regions(const tg_plan *p);
uint64_t tg_plan_n_units(const tg_plan *p);
/* Only the first ndim places of what lies in *out are set. */
void tg_plan_region_get(const tg_plan *p, uint64_t k, tg_plan_region *out);
void tg_plan_piece(const tg_plan *p, uint64_t k, uint32_t i, tg_box *piece);
/* For tg_roi_outline_mask() of region k, and of no other. ring NULL: none has an outline. */
void tg_plan_outlines(const tg_plan *p, uint64_t k, tg_roi_outlines *out);
/* The units in which region k wins a pixel, ascending. */
uint32_t tg_plan_region_units(const tg_plan *p, uint64_t k, const tg_plan_link **links);
void tg_plan_unit_get(const tg_plan *p, uint64_t u, tg_plan_unit *out);
tg_box tg_plan_unit_box(const tg_plan *p, uint64_t u); /* items of OUT, clipped to it */
/* The regions that write unit u, in the order in which they are to be folded: list order, for
 * `first` the reverse of it. n_writing positions; rank is the place here. */
const uint32_t *tg_plan_unit_regions(const tg_plan *p, uint64_t u);
/* Per inner chunk, n_inner in C order of the unit: how far it is written (those wholly outside
 * the array: none), and by how many regions. */
tg_coverage tg_plan_unit_coverage(const tg_plan *p, uint64_t u, uint32_t inner);
const uint32_t *tg_plan_unit_writers(const tg_plan *p, uint64_t u);

/* Stored units of IN that regions read (shards, chunks if not sharded), by Morton order. */
uint64_t tg_plan_n_sources(const tg_plan *p);
void tg_plan_source_index(const tg_plan *p, uint64_t s, uint64_t *index);
/* Per inner chunk, in C order of the unit, how many regions read it. */
const uint32_t *tg_plan_source_readers(const tg_plan *p, uint64_t s);
uint32_t tg_plan_source_n_inner(const tg_plan *p);
/* The sources that region k reads, ascending. */
uint32_t tg_plan_region_sources(const tg_plan *p, uint64_t k, const uint32_t **sources);

/* Regions in the order in which they are issued (that of their anchor, then the list's), empty
 * ones left out. Those of a part are a contiguous run of it. */
uint64_t tg_plan_n_issued(const tg_plan *p);
uint32_t tg_plan_issued(const tg_plan *p, uint64_t i);
void tg_plan_part_regions(const tg_plan *p, uint32_t part, uint64_t *first, uint64_t *end);
void tg_plan_part_units(const tg_plan *p, uint32_t part, uint64_t *first, uint64_t *end);

/* Sequential reads: region k may run when all n_before have taken effect; the regions that
 * wait for it, ascending. 0 and none in a snapshot's plan. */
uint32_t tg_plan_n_before(const tg_plan *p, uint64_t k);
uint32_t tg_plan_after(const tg_plan *p, uint64_t k, const uint32_t **regions);

typedef struct tg_plan_stats {
    uint64_t empty, wins_nothing, unclipped; /* regions */
    uint64_t pieces;
    uint64_t pairs;    /* that overlap (last, first) or conflict (sequential) */
    bool pairs_capped; /* there are more */
    uint64_t border_units, border_items, items; /* of units, within the array */
    uint32_t most_writing;                      /* regions in one unit */
    uint64_t file_bytes;
} tg_plan_stats;
const tg_plan_stats *tg_plan_get_stats(const tg_plan *p);

/* --- Of the engine -------------------------------------------------------- */

typedef struct tg_mask tg_mask;
typedef struct tg_plan_cost {
    const tg_function *fn;
    const tg_mask *mask; /* NULL: none */
} tg_plan_cost;

/* For tg_plan_spec.region_bytes (user: a tg_plan_cost): what a region takes while it is in
 * flight, with its halo, its result, its scratch and the inner chunks that it touches. */
uint64_t tg_plan_region_bytes(void *user, const tg_plan_facts *facts, const tg_plan_region *r);

#endif
