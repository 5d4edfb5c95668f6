/* region/plan_join.c - a tree of packs of 16 boxes over the Morton order of their centres.
 * Knows boxes, no regions. */
#include "region/plan_join.h"

#include "base/mem.h"
#include "region/plan_sort.h"

#include <string.h>

enum { LANES = TG_JOIN_LANES, MAX_LEVELS = 9 }; /* 16^8 = 2^32 */

/* A pack holds, per dimension, 16 starts, and then, per dimension, 16 ends: int32_t if all
 * coordinates fit (four compared at once), else uint64_t. Lanes that hold nothing overlap
 * nothing. */
typedef struct level {
    uint64_t n;           /* packs */
    uint8_t *coords;      /* n packs */
    uint32_t *low, *high; /* per lane: least and greatest list position below it */
} level;

struct tg_join {
    uint32_t ndim;
    bool wide;
    size_t pack_bytes;
    uint32_t n_levels;
    level levels[MAX_LEVELS]; /* 0: the boxes themselves, low is their position */
};

/* --- Packs ---------------------------------------------------------------- */

static void set_lane(const tg_join *j, uint8_t *pack, uint32_t lane, const uint64_t *bounds)
{
    for (uint32_t d = 0; d < 2 * j->ndim; d++)
        if (j->wide)
            ((uint64_t *)(void *)pack)[(size_t)d * LANES + lane] = bounds[d];
        else
            ((int32_t *)(void *)pack)[(size_t)d * LANES + lane] = (int32_t)bounds[d];
}

static void get_lane(const tg_join *j, const uint8_t *pack, uint32_t lane, uint64_t *bounds)
{
    for (uint32_t d = 0; d < 2 * j->ndim; d++)
        bounds[d] =
            j->wide ? ((const uint64_t *)(const void *)pack)[(size_t)d * LANES + lane]
                    : (uint64_t)((const int32_t *)(const void *)pack)[(size_t)d * LANES + lane];
}

static uint32_t bits_of(const int32_t *m)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < LANES; i++)
        bits |= (uint32_t)(m[i] & 1) << i;
    return bits;
}

static uint32_t overlap_narrow(const int32_t *pack, uint32_t ndim, const uint64_t *q)
{
    int32_t m[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        m[i] = -1;
    for (uint32_t d = 0; d < ndim; d++) {
        const int32_t *lo = pack + (size_t)d * LANES, *hi = pack + (size_t)(ndim + d) * LANES;
        int32_t from = (int32_t)q[d], to = (int32_t)q[ndim + d];
        for (uint32_t i = 0; i < LANES; i++)
            m[i] &= -(lo[i] < to) & -(hi[i] > from);
    }
    return bits_of(m);
}

static uint32_t overlap_wide(const uint64_t *pack, uint32_t ndim, const uint64_t *q)
{
    int32_t m[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        m[i] = -1;
    for (uint32_t d = 0; d < ndim; d++) {
        const uint64_t *lo = pack + (size_t)d * LANES, *hi = pack + (size_t)(ndim + d) * LANES;
        for (uint32_t i = 0; i < LANES; i++)
            m[i] &= -(lo[i] < q[ndim + d]) & -(hi[i] > q[d]);
    }
    return bits_of(m);
}

/* Lanes of a pack whose boxes overlap q. */
static uint32_t overlap(const tg_join *j, const uint8_t *pack, const uint64_t *q)
{
    return j->wide ? overlap_wide((const uint64_t *)(const void *)pack, j->ndim, q)
                   : overlap_narrow((const int32_t *)(const void *)pack, j->ndim, q);
}

/* --- Order ---------------------------------------------------------------- */

/* Of the centre, by the top bits of each extent; at most 33 bits in all. */
static uint64_t key_of(const uint64_t *b, uint32_t ndim, const uint32_t *shift)
{
    uint64_t c[TG_MAX_NDIM], key = 0;
    uint32_t bits = 33 / ndim;
    if (bits == 0)
        bits = 1;
    for (uint32_t d = 0; d < ndim; d++)
        c[d] = (b[d] + (b[ndim + d] - b[d]) / 2) >> shift[d];
    uint32_t dims = ndim > 33 ? 33 : ndim;
    for (uint32_t bit = bits; bit-- > 0;)
        for (uint32_t d = 0; d < dims; d++)
            key = key << 1 | (c[d] >> bit & 1);
    return key;
}

/* --- Making --------------------------------------------------------------- */

static uint64_t packs_of(uint64_t n)
{
    return n / LANES + (n % LANES != 0);
}

uint64_t tg_join_bytes(uint64_t n, uint32_t ndim, uint64_t extent)
{
    const uint64_t item = extent > INT32_MAX ? sizeof(uint64_t) : sizeof(int32_t);
    uint64_t lanes = 0;
    for (uint64_t m = packs_of(n); m > 0; m = m == 1 ? 0 : packs_of(m))
        lanes += m * LANES;
    /* While keys are sorted there are two lists of them; while the tree is made, one. */
    const uint64_t tree = lanes * (2 * (uint64_t)ndim * item + 2 * sizeof(uint32_t));
    const uint64_t keys = (n + 1) * sizeof(tg_plan_key);
    return keys + (tree > keys ? tree : keys) + 4096;
}

static tg_status no_memory(uint64_t n, tg_error *err)
{
    return tg_fail(err, TG_NO_MEMORY, "no memory for a tree of %llu boxes",
                   (unsigned long long)n);
}

static tg_status make_level(tg_join *j, level *l, uint64_t packs, tg_error *err)
{
    l->n = packs;
    l->coords = tg_alloc_array(packs, j->pack_bytes);
    l->low = tg_alloc_array(packs, LANES * sizeof *l->low);
    l->high = tg_alloc_array(packs, LANES * sizeof *l->high);
    return l->coords != NULL && l->low != NULL && l->high != NULL
               ? TG_OK
               : no_memory(packs * LANES, err);
}

static void put(const tg_join *j, level *l, uint64_t i, const uint64_t *bounds, uint32_t low,
                uint32_t high)
{
    set_lane(j, l->coords + i / LANES * j->pack_bytes, (uint32_t)(i % LANES), bounds);
    l->low[i] = low;
    l->high[i] = high;
}

/* The last pack's free lanes: end before they start. */
static void close_level(const tg_join *j, level *l, uint64_t used)
{
    uint64_t nothing[2 * TG_MAX_NDIM];
    for (uint32_t d = 0; d < j->ndim; d++) {
        nothing[d] = j->wide ? UINT64_MAX : INT32_MAX;
        nothing[j->ndim + d] = 0;
    }
    for (uint64_t i = used; i < l->n * LANES; i++)
        put(j, l, i, nothing, 0, 0);
}

/* The box around a pack's lanes, and the positions in it. */
static void put_pack(const tg_join *j, const level *below, uint64_t pack, uint64_t used,
                     level *l)
{
    uint64_t around[2 * TG_MAX_NDIM], b[2 * TG_MAX_NDIM];
    uint32_t low = UINT32_MAX, high = 0;
    for (uint64_t i = pack * LANES; i < (pack + 1) * LANES && i < used; i++) {
        get_lane(j, below->coords + pack * j->pack_bytes, (uint32_t)(i % LANES), b);
        for (uint32_t d = 0; d < j->ndim; d++) {
            bool first = i % LANES == 0;
            around[d] = first || b[d] < around[d] ? b[d] : around[d];
            around[j->ndim + d] = first || b[j->ndim + d] > around[j->ndim + d]
                                      ? b[j->ndim + d]
                                      : around[j->ndim + d];
        }
        low = below->low[i] < low ? below->low[i] : low;
        high = below->high[i] > high ? below->high[i] : high;
    }
    put(j, l, pack, around, low, high);
}

static tg_status make_levels(tg_join *j, const tg_join_spec *spec, const tg_plan_key *e,
                             uint64_t n, tg_error *err)
{
    uint64_t b[2 * TG_MAX_NDIM];
    if (n == 0)
        return TG_OK;
    TG_TRY(make_level(j, &j->levels[0], packs_of(n), err));
    j->n_levels = 1;
    for (uint64_t i = 0; i < n; i++) {
        (void)spec->box(spec->user, e[i].at, b);
        put(j, &j->levels[0], i, b, e[i].at, e[i].at);
    }
    close_level(j, &j->levels[0], n);
    for (uint64_t used = n; j->levels[j->n_levels - 1].n > 1;) {
        level *below = &j->levels[j->n_levels - 1], *l = below + 1;
        TG_TRY(make_level(j, l, packs_of(below->n), err));
        j->n_levels++;
        for (uint64_t pack = 0; pack < below->n; pack++)
            put_pack(j, below, pack, used, l);
        close_level(j, l, below->n);
        used = below->n;
    }
    return TG_OK;
}

/* The entries of all boxes that hold something. */
static uint64_t find_entries(tg_join *j, const tg_join_spec *spec, tg_plan_key *e)
{
    uint64_t b[2 * TG_MAX_NDIM], most[TG_MAX_NDIM] = {0}, n = 0;
    uint32_t shift[TG_MAX_NDIM], bits = 33 / spec->ndim == 0 ? 1 : 33 / spec->ndim;
    for (uint64_t i = 0; i < spec->n; i++) {
        if (!spec->box(spec->user, i, b))
            continue;
        e[n++].at = (uint32_t)i;
        for (uint32_t d = 0; d < spec->ndim; d++)
            most[d] = b[spec->ndim + d] > most[d] ? b[spec->ndim + d] : most[d];
    }
    for (uint32_t d = 0; d < spec->ndim; d++) {
        uint32_t have = tg_plan_bits(most[d]);
        shift[d] = have > bits ? have - bits : 0;
        j->wide = j->wide || most[d] > INT32_MAX;
    }
    for (uint64_t i = 0; i < n; i++) {
        (void)spec->box(spec->user, e[i].at, b);
        e[i].key = key_of(b, spec->ndim, shift);
    }
    return n;
}

tg_status tg_join_new(tg_join **out, const tg_join_spec *spec, tg_error *err)
{
    tg_join *j = tg_calloc(1, sizeof *j);
    if (j == NULL)
        return no_memory(spec->n, err);
    TG_AUTO(tg_mem_ptr) entries = tg_alloc_array(spec->n + 1, sizeof(tg_plan_key));
    tg_plan_key *room = tg_alloc_array(spec->n + 1, sizeof *room);
    tg_status st = entries != NULL && room != NULL ? TG_OK : no_memory(spec->n, err);
    uint64_t n = 0;
    if (st == TG_OK) {
        j->ndim = spec->ndim;
        n = find_entries(j, spec, entries);
        j->pack_bytes =
            (size_t)2 * j->ndim * LANES * (j->wide ? sizeof(uint64_t) : sizeof(int32_t));
        tg_plan_sort(entries, room, n, 33);
    }
    tg_free(room); /* before the tree is made: never all three at once */
    if (st == TG_OK)
        st = make_levels(j, spec, entries, n, err);
    if (st != TG_OK)
        tg_join_free(j);
    else
        *out = j;
    return st;
}

void tg_join_free(tg_join *j)
{
    if (j == NULL)
        return;
    for (uint32_t i = 0; i < MAX_LEVELS; i++) {
        tg_free(j->levels[i].coords);
        tg_free(j->levels[i].low);
        tg_free(j->levels[i].high);
    }
    tg_free(j);
}

/* --- Walking -------------------------------------------------------------- */

typedef struct batch { /* 16 neighbours that ask at once */
    const tg_join *j;
    const tg_join_walk *walk;
    uint32_t alive; /* bits of lanes */
    uint32_t k[LANES];
    uint64_t q[LANES][2 * TG_MAX_NDIM];
    uint64_t around[2 * TG_MAX_NDIM];
    uint32_t bound; /* the least k of them (later), else the greatest */
} batch;

typedef struct place {
    uint32_t level;
    uint64_t pack;
} place;

static void grow(uint64_t *q, uint32_t ndim, const uint64_t *by, bool wide)
{
    uint64_t most = wide ? UINT64_MAX : INT32_MAX;
    for (uint32_t d = 0; d < ndim && by != NULL; d++) {
        q[d] -= q[d] < by[d] ? q[d] : by[d];
        q[ndim + d] = by[d] > most - q[ndim + d] ? most : q[ndim + d] + by[d];
    }
}

static tg_status begin_batch(batch *b, uint64_t pack, tg_error *err)
{
    const tg_join *j = b->j;
    const level *l = &j->levels[0];
    b->alive = 0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint64_t *q = b->q[lane];
        get_lane(j, l->coords + pack * j->pack_bytes, lane, q);
        if (q[0] >= q[j->ndim])
            continue;
        b->k[lane] = l->low[pack * LANES + lane];
        TG_TRY(b->walk->begin(b->walk->user, lane, b->k[lane], q, err));
        grow(q, j->ndim, b->walk->grow, j->wide);
        bool first = b->alive == 0;
        for (uint32_t d = 0; d < j->ndim; d++) {
            uint64_t *lo = &b->around[d], *hi = &b->around[j->ndim + d];
            *lo = first || q[d] < *lo ? q[d] : *lo;
            *hi = first || q[j->ndim + d] > *hi ? q[j->ndim + d] : *hi;
        }
        uint32_t k = b->k[lane];
        if (first || (b->walk->later ? k < b->bound : k > b->bound))
            b->bound = k;
        b->alive |= 1U << lane;
    }
    return TG_OK;
}

static void hit_leaf(batch *b, uint64_t pack)
{
    const tg_join *j = b->j;
    const level *l = &j->levels[0];
    const uint8_t *coords = l->coords + pack * j->pack_bytes;
    for (uint32_t alive = b->alive; alive != 0; alive &= alive - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(alive);
        uint32_t hits = overlap(j, coords, b->q[lane]);
        while (hits != 0) { /* the farthest first: it is the likeliest to end this k */
            uint32_t at = b->walk->later ? 31 - (uint32_t)__builtin_clz(hits)
                                         : (uint32_t)__builtin_ctz(hits);
            uint32_t other = l->low[pack * LANES + at];
            uint64_t bounds[2 * TG_MAX_NDIM];
            hits &= ~(1U << at);
            if (b->walk->later ? other <= b->k[lane] : other >= b->k[lane])
                continue;
            get_lane(j, coords, at, bounds);
            if (!b->walk->hit(b->walk->user, lane, b->k[lane], other, bounds)) {
                b->alive &= ~(1U << lane);
                break;
            }
        }
    }
}

/* Lanes of an inner pack below which there may be a hit. */
static uint32_t open_lanes(const batch *b, const place *at)
{
    const level *l = &b->j->levels[at->level];
    uint32_t lanes = overlap(b->j, l->coords + at->pack * b->j->pack_bytes, b->around);
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        uint64_t i = at->pack * LANES + lane;
        if (b->walk->later ? l->high[i] <= b->bound : l->low[i] >= b->bound)
            lanes &= ~(1U << lane);
    }
    return lanes;
}

static void run_batch(batch *b)
{
    place stack[MAX_LEVELS * LANES];
    uint32_t n = 0;
    stack[n++] = (place){b->j->n_levels - 1, 0};
    while (n > 0 && b->alive != 0) {
        place at = stack[--n];
        if (at.level == 0) {
            hit_leaf(b, at.pack);
            continue;
        }
        uint32_t lanes = open_lanes(b, &at);
        while (lanes != 0) { /* what is pushed last is next */
            uint32_t lane = b->walk->later ? (uint32_t)__builtin_ctz(lanes)
                                           : 31 - (uint32_t)__builtin_clz(lanes);
            lanes &= ~(1U << lane);
            stack[n++] = (place){at.level - 1, at.pack * LANES + lane};
        }
    }
}

tg_status tg_join_run(const tg_join *j, const tg_join_walk *walk, const tg_cancel *cancel,
                      tg_error *err)
{
    batch b = {.j = j, .walk = walk};
    for (uint64_t pack = 0; j->n_levels > 0 && pack < j->levels[0].n; pack++) {
        if (pack % 64 == 0)
            TG_TRY(tg_cancel_check(cancel, err));
        TG_TRY(begin_batch(&b, pack, err));
        uint32_t asked = b.alive;
        run_batch(&b);
        for (; asked != 0; asked &= asked - 1) {
            uint32_t lane = (uint32_t)__builtin_ctz(asked);
            TG_TRY(walk->end(walk->user, lane, b.k[lane], err));
        }
    }
    return TG_OK;
}
