/* Plans of random geometry, held against what a loop over every pixel says. */
#include "check.h"
#include "region/plan.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* --- Random cases --------------------------------------------------------- */

static uint64_t state = 1;

static uint64_t rnd(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
}

enum { MAX_REGIONS = 24, MAX_ITEMS = 20000 };

typedef struct world {
    tg_plan_spec spec;
    uint64_t bounds[MAX_REGIONS * 8], label[MAX_REGIONS];
    uint64_t name[MAX_REGIONS + 1];
    char names[MAX_REGIONS * 8];
    tg_roi_outlines outlines; /* policy mask: of the first regions, some without a ring */
    uint64_t ring[MAX_REGIONS + 1], point[2 * MAX_REGIONS + 1];
    double xy[2 * 8 * MAX_REGIONS];
    tg_plan *plan;
    bool opened; /* read back from a file */
} world;

static const char *directory(void)
{
    static char path[64] = "/tmp/tg-plan-XXXXXX";
    static bool made;
    if (!made && mkdtemp(path) == NULL)
        abort();
    made = true;
    return path;
}

static void fill_array(tg_plan_array *a, uint32_t ndim)
{
    static const uint64_t most[] = {0, 300, 40, 14, 8};
    *a = (tg_plan_array){.url = "/x.zarr", .path = "0", .dtype = {TG_DT_UINT, 2}};
    a->shape.ndim = a->chunk.ndim = a->shard.ndim = ndim;
    bool sharded = rnd(2) == 0;
    for (uint32_t i = 0; i < ndim; i++) {
        a->shape.n[i] = 1 + rnd(most[ndim]);
        a->chunk.n[i] = 1 + rnd(ndim == 1 ? 20 : 6);
        a->shard.n[i] = a->chunk.n[i] * (sharded ? 1 + rnd(3) : 1);
    }
}

static void fill_outlines(world *w)
{
    tg_roi_outlines *o = &w->outlines;
    *o = (tg_roi_outlines){.ring = w->ring, .point = w->point, .xy = w->xy};
    w->spec.outlines = o;
    w->spec.n_masked = rnd(w->spec.n + 1);
    for (uint64_t k = 0; k < w->spec.n_masked; k++) {
        for (uint64_t i = rnd(3); i > 0; i--) {
            o->n_points += 3 + rnd(2);
            w->point[++o->n_rings] = o->n_points;
        }
        w->ring[k + 1] = o->n_rings;
    }
    for (uint64_t i = 0; i < 2 * o->n_points; i++)
        w->xy[i] = (double)rnd(100) / 4;
}

/* Each item has a number, so that an outline in the wrong place is seen. */
static void check_outlines(const world *w)
{
    const tg_roi_outlines *o = &w->outlines;
    for (uint64_t k = 0; k < w->spec.n; k++) {
        const bool masked = k < w->spec.n_masked;
        const uint64_t first = w->ring[masked ? k : w->spec.n_masked];
        const uint64_t end = masked ? w->ring[k + 1] : first;
        tg_roi_outlines got;
        tg_plan_outlines(w->plan, k, &got);
        if (w->spec.outlines == NULL) {
            CHECK(got.ring == NULL);
            continue;
        }
        CHECK(got.ring[k] == first && got.ring[k + 1] == end);
        for (uint64_t i = first; i < end; i++) {
            CHECK(got.point[i] == o->point[i] && got.point[i + 1] == o->point[i + 1]);
            for (uint64_t n = 2 * o->point[i]; n < 2 * o->point[i + 1]; n++)
                CHECK(got.xy[n] == o->xy[n]); /* NOLINT: the same bits */
        }
    }
}

/* Objects of one label image share no pixel, if each has a label of its own. */
static void check_apart(const world *w)
{
    const tg_plan_facts *f = tg_plan_get_facts(w->plan);
    bool apart = w->spec.facts.mask.shape.ndim > 0 && w->spec.label != NULL;
    for (uint64_t a = 0; a < w->spec.n_masked && apart; a++) {
        apart = w->label[a] != 0;
        for (uint64_t b = 0; b < a && apart; b++)
            apart = w->label[a] != w->label[b];
    }
    CHECK_U64(f->mask_apart, apart);
    CHECK_U64(tg_plan_is_ordered(f),
              f->policy == TG_POLICY_NONZERO || (f->policy == TG_POLICY_MASK && !apart));
}

static void fill_world(world *w, tg_policy policy)
{
    tg_plan_facts *f = &w->spec.facts;
    uint32_t ndim = 1 + (uint32_t)rnd(4);
    *w = (world){0};
    fill_array(&f->in, ndim);
    f->in_place = rnd(3) == 0;
    f->out = f->in;
    for (uint32_t i = 0; i < ndim; i++) {
        f->out_step[i] = 1;
        f->halo[i] = rnd(2) == 0 ? 0 : rnd(4);
        f->scale[i] = 0.5;
        if (!f->in_place && rnd(5) == 0) {
            f->out_step[i] = rnd(3) == 0 ? f->in.shape.n[i] : 2 + rnd(3);
            f->out.shape.n[i] = (f->in.shape.n[i] + f->out_step[i] - 1) / f->out_step[i];
        }
        if (!f->in_place && rnd(4) == 0) {
            f->out.chunk.n[i] = 1 + rnd(5);
            f->out.shard.n[i] = f->out.chunk.n[i] * (1 + rnd(2));
        }
    }
    f->axes[0] = "y";
    f->kind = 'o';
    f->text = "copy";
    f->rois = "grid:8/4";
    f->policy = policy;
    f->parts = 1 + (uint32_t)rnd(7);
    f->commit_ms = 1000;
    f->options = "{\"jobs\":2}";
    if (rnd(4) == 0) {
        f->read = TG_READ_SEQUENTIAL;
        f->parts = f->in_place ? 1 : f->parts;
    }
    w->spec.n = rnd(MAX_REGIONS + 1);
    for (uint64_t k = 0; k < w->spec.n; k++) {
        uint64_t *b = w->bounds + k * 2 * ndim;
        w->label[k] = rnd(5);
        w->name[k + 1] = w->name[k] + rnd(3);
        if (k > 0 && rnd(8) == 0) { /* once more */
            memcpy(b, w->bounds + rnd(k) * 2 * ndim, 2 * ndim * sizeof *b);
            continue;
        }
        for (uint32_t i = 0; i < ndim; i++) {
            b[i] = rnd(f->in.shape.n[i] + 1);
            b[ndim + i] = b[i] + rnd(f->in.shape.n[i] - b[i] + 1);
            if (rnd(6) == 0) {
                b[i] = 0;
                b[ndim + i] = f->in.shape.n[i];
            }
        }
    }
    memset(w->names, 'n', sizeof w->names);
    w->spec.bounds = w->bounds;
    w->spec.label = rnd(2) == 0 ? w->label : NULL;
    w->spec.name = rnd(2) == 0 ? w->name : NULL;
    w->spec.names = w->names;
    if (policy == TG_POLICY_MASK && rnd(2) == 0) {
        fill_outlines(w);
    } else if (policy == TG_POLICY_MASK) {
        f->mask = f->in;
        f->mask.path = "labels";
        w->spec.n_masked = rnd(w->spec.n < 4 ? w->spec.n + 1 : 4);
    }
}

/* --- A loop over everything ----------------------------------------------- */

static bool holds(const tg_box *b, const uint64_t *at)
{
    for (uint32_t i = 0; i < b->shape.ndim; i++)
        if (at[i] < b->start[i] || at[i] - b->start[i] >= b->shape.n[i])
            return false;
    return true;
}

static bool wins(const tg_plan *p, uint64_t k, const tg_plan_region *r, const uint64_t *at)
{
    tg_box piece;
    if (r->empty || r->wins_nothing || !holds(&r->write, at))
        return false;
    if (r->n_pieces == 0)
        return true;
    for (uint32_t i = 0; i < r->n_pieces; i++) {
        tg_plan_piece(p, k, i, &piece);
        if (holds(&piece, at))
            return true;
    }
    return false;
}

static bool same_box(const tg_box *b, const uint64_t *lo, const uint64_t *hi)
{
    for (uint32_t i = 0; i < b->shape.ndim; i++)
        if (b->start[i] != lo[i] || b->start[i] + b->shape.n[i] != hi[i])
            return false;
    return true;
}

/* Boxes as the header of plan.h has them. */
static void check_boxes(const world *w, uint64_t k, const tg_plan_region *r)
{
    const tg_plan_facts *f = &w->spec.facts;
    uint32_t ndim = f->in.shape.ndim;
    uint64_t lo[4], hi[4], wlo[4], whi[4];
    bool empty = false;
    for (uint32_t i = 0; i < ndim; i++) {
        uint64_t step = f->out_step[i];
        lo[i] = w->bounds[(k * 2) * ndim + i];
        hi[i] = w->bounds[(k * 2 + 1) * ndim + i];
        empty = empty || lo[i] >= hi[i];
        wlo[i] = lo[i] / step;
        whi[i] = (hi[i] + step - 1) / step;
    }
    CHECK(r->empty == empty);
    if (empty)
        return;
    for (uint32_t i = 0; i < ndim; i++)
        if (f->out_step[i] > 1 && f->out.shape.n[i] > 1) {
            lo[i] = wlo[i] * f->out_step[i];
            hi[i] = whi[i] * f->out_step[i];
            hi[i] = hi[i] < f->in.shape.n[i] ? hi[i] : f->in.shape.n[i];
        }
    CHECK(same_box(&r->region, lo, hi));
    CHECK(same_box(&r->write, wlo, whi));
    for (uint32_t i = 0; i < ndim; i++) {
        lo[i] = lo[i] > f->halo[i] ? lo[i] - f->halo[i] : 0;
        hi[i] = hi[i] + f->halo[i] < f->in.shape.n[i] ? hi[i] + f->halo[i] : f->in.shape.n[i];
    }
    CHECK(same_box(&r->read, lo, hi));
    CHECK_U64(r->label, w->spec.label == NULL ? 0 : w->label[k]);
    CHECK((r->name == NULL) == (w->spec.name == NULL));
    if (r->name != NULL)
        CHECK_U64(strlen(r->name), w->name[k + 1] - w->name[k]);
}

/* Each pixel belongs to the region that the policy says, or, where a region was not clipped, to
 * the last of the unit's list that has it. */
static void check_pixel(const world *w, const tg_plan_region *r, const uint64_t *at)
{
    const tg_plan *p = w->plan;
    tg_policy policy = w->spec.facts.policy;
    uint32_t n = 0, winner = UINT32_MAX;
    if (policy != TG_POLICY_LAST && policy != TG_POLICY_FIRST)
        return;
    for (uint32_t k = 0; k < w->spec.n; k++)
        if (!r[k].empty && holds(&r[k].write, at)) {
            if (policy == TG_POLICY_LAST || n == 0)
                winner = k;
            n++;
        }
    if (winner != UINT32_MAX)
        CHECK(wins(p, winner, &r[winner], at));
    uint32_t claims = 0;
    for (uint32_t k = 0; k < w->spec.n; k++)
        claims += wins(p, k, &r[k], at);
    if (tg_plan_get_stats(p)->unclipped == 0)
        CHECK_U64(claims, n > 0);
}

typedef struct tally { /* of one unit, by a loop over its pixels */
    uint64_t writers[512], pixels[512], written[512];
    bool region[MAX_REGIONS];
} tally;

static void tally_unit(const world *w, const tg_plan_region *r, const tg_box *box, tally *t)
{
    const tg_plan_facts *f = &w->spec.facts;
    uint64_t at[TG_MAX_NDIM];
    tg_shape inner;
    bool wrote[512][MAX_REGIONS] = {{false}};
    *t = (tally){0};
    tg_grid_shape(&f->out.shard, &f->out.chunk, &inner);
    memcpy(at, box->start, sizeof at);
    do {
        uint64_t c[TG_MAX_NDIM];
        for (uint32_t i = 0; i < inner.ndim; i++)
            c[i] = (at[i] - box->start[i]) / f->out.chunk.n[i];
        uint64_t chunk = tg_ravel(&inner, c);
        bool any = false;
        t->pixels[chunk]++;
        check_pixel(w, r, at);
        for (uint32_t k = 0; k < w->spec.n; k++)
            if (wins(w->plan, k, &r[k], at)) {
                any = true;
                wrote[chunk][k] = t->region[k] = true;
            }
        t->written[chunk] += any;
    } while (tg_box_next(box, at));
    for (uint32_t c = 0; c < 512; c++)
        for (uint32_t k = 0; k < w->spec.n; k++)
            t->writers[c] += wrote[c][k];
}

static void check_unit(const world *w, const tg_plan_region *r, uint32_t u)
{
    const tg_plan *p = w->plan;
    tg_plan_unit unit;
    tally t;
    tg_plan_unit_get(p, u, &unit);
    tg_box box = tg_plan_unit_box(p, u);
    tally_unit(w, r, &box, &t);
    const uint32_t *list = tg_plan_unit_regions(p, u);
    const uint32_t *writers = tg_plan_unit_writers(p, u);
    uint32_t n = 0;
    bool border = false, full = true;
    for (uint32_t i = 0; i < w->spec.n; i++) {
        uint32_t k = w->spec.facts.policy == TG_POLICY_FIRST ? (uint32_t)w->spec.n - 1 - i : i;
        if (!t.region[k])
            continue;
        CHECK(n < unit.n_writing && list[n] == k);
        border = border || r[k].part != unit.part;
        n++;
    }
    CHECK_U64(unit.n_writing, n);
    CHECK(unit.border == border);
    bool keeps = tg_policy_keeps_base(w->spec.facts.policy);
    for (uint32_t c = 0; c < unit.n_inner; c++) {
        tg_coverage want = t.writers[c] == 0                       ? TG_COVER_NONE
                           : t.written[c] == t.pixels[c] && !keeps ? TG_COVER_FULL
                                                                   : TG_COVER_PARTIAL;
        CHECK_U64(writers[c], t.writers[c]);
        CHECK(tg_plan_unit_coverage(p, u, c) == want);
        full = full && (want == TG_COVER_FULL || t.pixels[c] == 0);
    }
    CHECK(unit.full == full);
    if (w->spec.facts.in_place) {
        uint32_t reading = 0;
        bool foreign = false;
        tg_box cut;
        for (uint32_t k = 0; k < w->spec.n; k++)
            if (!r[k].empty && tg_box_intersect(&r[k].read, &box, &cut)) {
                reading++;
                foreign = foreign || r[k].part != unit.part;
            }
        CHECK_U64(unit.n_reading, reading);
        CHECK(unit.foreign_reads == foreign);
    }
}

static void check_links(const world *w, const tg_plan_region *r, uint32_t k)
{
    const tg_plan *p = w->plan;
    const tg_plan_link *links;
    const uint32_t *sources;
    tg_plan_unit unit;
    uint32_t n = tg_plan_region_units(p, k, &links);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(i == 0 || links[i].at > links[i - 1].at);
        CHECK_U64(tg_plan_unit_regions(p, links[i].at)[links[i].rank], k);
    }
    uint64_t touched = 1, s_touched = 1;
    for (uint32_t i = 0; i < r[k].write.shape.ndim && !r[k].empty; i++) {
        tg_box c;
        tg_grid_cover(&r[k].write, &w->spec.facts.out.shard, &c);
        touched *= c.shape.n[i];
        tg_grid_cover(&r[k].read, &w->spec.facts.in.shard, &c);
        s_touched *= c.shape.n[i];
    }
    CHECK(r[k].empty ? n == 0 : n <= touched && (n == touched || r[k].n_pieces > 0 || n == 0));
    CHECK((n == 0) == (r[k].empty || r[k].wins_nothing));
    n = tg_plan_region_sources(p, k, &sources);
    CHECK_U64(n, r[k].empty ? 0 : s_touched);
    if (r[k].empty)
        return;
    tg_plan_unit_get(p, r[k].anchor, &unit);
    for (uint32_t i = 0; i < r[k].write.shape.ndim; i++)
        CHECK_U64(unit.index[i], r[k].write.start[i] / w->spec.facts.out.shard.n[i]);
    CHECK_U64(unit.part, r[k].part);
}

static void check_sources(const world *w, const tg_plan_region *r)
{
    const tg_plan *p = w->plan;
    const tg_plan_facts *f = &w->spec.facts;
    tg_shape inner;
    uint64_t sum = 0, want = 0;
    tg_grid_shape(&f->in.shard, &f->in.chunk, &inner);
    for (uint64_t s = 0; s < tg_plan_n_sources(p); s++) {
        uint64_t index[TG_MAX_NDIM], c[TG_MAX_NDIM];
        const uint32_t *readers = tg_plan_source_readers(p, s);
        tg_plan_source_index(p, s, index);
        for (uint32_t i = 0; i < tg_plan_source_n_inner(p); i++) {
            tg_box chunk = {.shape = f->in.chunk}, cut;
            uint32_t n = 0;
            tg_unravel(&inner, i, c);
            for (uint32_t d = 0; d < inner.ndim; d++)
                chunk.start[d] = index[d] * f->in.shard.n[d] + c[d] * f->in.chunk.n[d];
            for (uint32_t k = 0; k < w->spec.n; k++)
                n += !r[k].empty && tg_box_intersect(&chunk, &r[k].read, &cut);
            CHECK_U64(readers[i], n);
            sum += n;
        }
    }
    for (uint32_t k = 0; k < w->spec.n; k++) {
        tg_box c;
        uint64_t n = 1;
        tg_grid_cover(&r[k].read, &f->in.chunk, &c);
        for (uint32_t i = 0; i < inner.ndim; i++)
            n *= c.shape.n[i];
        want += r[k].empty ? 0 : n;
    }
    CHECK_U64(sum, want);
}

static void check_order(const world *w, const tg_plan_region *r)
{
    const tg_plan *p = w->plan;
    uint32_t before = 0, before_anchor = 0, n = 0;
    uint64_t first, end, at = 0;
    for (uint32_t k = 0; k < w->spec.n; k++)
        n += !r[k].empty;
    CHECK_U64(tg_plan_n_issued(p), n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = tg_plan_issued(p, i);
        CHECK(i == 0 || r[k].anchor > before_anchor ||
              (r[k].anchor == before_anchor && k > before));
        before = k;
        before_anchor = r[k].anchor;
    }
    for (uint32_t part = 0; part < w->spec.facts.parts; part++) {
        tg_plan_part_regions(p, part, &first, &end);
        CHECK_U64(first, at);
        for (at = first; at < end; at++)
            CHECK_U64(r[tg_plan_issued(p, at)].part, part);
    }
    CHECK_U64(at, n);
}

static void check_waiting(const world *w, const tg_plan_region *r)
{
    const tg_plan_facts *f = tg_plan_get_facts(w->plan);
    bool on = w->spec.facts.read == TG_READ_SEQUENTIAL && w->spec.facts.in_place;
    CHECK((f->read == TG_READ_SEQUENTIAL) == on);
    for (uint32_t k = 0; k < w->spec.n; k++) {
        const uint32_t *after;
        uint32_t n = tg_plan_after(w->plan, k, &after), seen = 0, before = 0;
        tg_box cut;
        for (uint32_t j = 0; j < w->spec.n && on; j++) {
            if (j == k || r[j].empty || r[k].empty)
                continue;
            bool conflict = tg_box_intersect(&r[j].write, &r[k].read, &cut) ||
                            tg_box_intersect(&r[j].read, &r[k].write, &cut);
            if (conflict && j < k)
                before++;
            if (conflict && j > k) {
                CHECK(seen < n && after[seen] == j);
                seen++;
            }
        }
        CHECK_U64(n, seen);
        CHECK_U64(tg_plan_n_before(w->plan, k), before);
    }
}

static uint64_t count_pairs(const world *w)
{
    uint64_t pairs = 0, ndim = w->spec.facts.in.shape.ndim;
    for (uint64_t a = 0; a < w->spec.n; a++)
        for (uint64_t b = a + 1; b < w->spec.n; b++) {
            bool meet = true;
            for (uint32_t i = 0; i < ndim; i++) {
                uint64_t step = w->spec.facts.out_step[i], e[4];
                for (int side = 0; side < 2; side++) {
                    const uint64_t *v = w->bounds + (side == 0 ? a : b) * 2 * ndim;
                    meet = meet && v[i] < v[ndim + i];
                    e[side * 2] = v[i] / step;
                    e[side * 2 + 1] = (v[ndim + i] + step - 1) / step;
                }
                meet = meet && e[0] < e[3] && e[2] < e[1];
            }
            pairs += meet;
        }
    return pairs;
}

static void check_all(const world *w)
{
    tg_plan_region r[MAX_REGIONS];
    uint64_t touched = 0, ndim = w->spec.facts.in.shape.ndim;
    for (uint32_t k = 0; k < w->spec.n; k++) {
        tg_plan_region_get(w->plan, k, &r[k]);
        check_boxes(w, k, &r[k]);
    }
    for (uint32_t k = 0; k < w->spec.n; k++)
        check_links(w, r, k);
    for (uint32_t u = 0; u < tg_plan_n_units(w->plan); u++) {
        check_unit(w, r, u);
        touched++;
    }
    (void)ndim;
    CHECK_U64(touched, tg_plan_n_units(w->plan));
    check_sources(w, r);
    check_order(w, r);
    check_waiting(w, r);
    check_outlines(w);
    check_apart(w);
    if (w->spec.facts.policy == TG_POLICY_LAST || w->spec.facts.policy == TG_POLICY_FIRST)
        if (tg_plan_get_facts(w->plan)->read == TG_READ_SNAPSHOT)
            CHECK_U64(tg_plan_get_stats(w->plan)->pairs, count_pairs(w));
}

/* The plan of a world, through a file or not. */
static tg_status make(world *w, bool through_file, tg_error *err)
{
    char path[96];
    tg_plan *made = NULL;
    TG_TRY(tg_plan_make(&made, &w->spec, NULL, NULL, err));
    if (!through_file) {
        w->plan = made;
        return TG_OK;
    }
    (void)snprintf(path, sizeof path, "%s/plan", directory());
    tg_status st = tg_plan_write(made, AT_FDCWD, path, err);
    if (st == TG_OK)
        st = tg_plan_open(&w->plan, AT_FDCWD, path, 0, NULL, err);
    if (st == TG_OK)
        CHECK_U64(tg_plan_fingerprint(w->plan), tg_plan_fingerprint(made));
    tg_plan_free(made);
    w->opened = true;
    return st;
}

static void test_random(void)
{
    static world w;
    static const tg_policy policies[] = {TG_POLICY_LAST,    TG_POLICY_FIRST, TG_POLICY_SUM,
                                         TG_POLICY_NONZERO, TG_POLICY_ERROR, TG_POLICY_MASK};
    uint64_t made = 0, refused = 0;
    for (int i = 0; i < 1500 && test_failures == 0; i++) {
        char row[64];
        tg_error err = {0};
        (void)snprintf(row, sizeof row, "case %d", i);
        test_row = row;
        state = 0x9E3779B97F4A7C15U * (uint64_t)(i + 1);
        fill_world(&w, policies[rnd(6)]);
        tg_status st = make(&w, i % 2 == 1, &err);
        uint64_t pairs = w.spec.facts.policy == TG_POLICY_ERROR ? count_pairs(&w) : 0;
        CHECK_STATUS(st, pairs > 0 ? TG_INVALID : TG_OK);
        if (st == TG_OK) {
            made++;
            check_all(&w);
        } else if (pairs > 0) {
            char words[64];
            (void)snprintf(words, sizeof words, "(%" PRIu64 " pair", pairs);
            CHECK(strstr(err.msg, words) != NULL);
            refused++;
        } else {
            fprintf(stderr, "%s\n", err.msg);
        }
        tg_plan_free(w.plan);
        test_row = "";
    }
    CHECK(made > 800);
    CHECK(refused > 50);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"random", test_random}};
    char path[96];
    int failed = 0;
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        test_failures = 0;
        tests[i].run();
        printf("%s %s\n", test_failures ? "FAIL" : "ok  ", tests[i].name);
        failed += test_failures != 0;
    }
    (void)snprintf(path, sizeof path, "%s/plan", directory());
    (void)unlink(path);
    (void)rmdir(directory());
    return failed != 0;
}
