/* region/plan_make.c - making a plan: what is asked becomes boxes, then units, order, parts. */
#include "region/plan_sort.h"
#include "region/plan_state.h"

#include <string.h>

/* OUT is coarser: a region is grown to whole steps, but not along a dimension of one step,
 * which is what a projection leaves. */
static void snap(const tg_plan *p, uint64_t *b)
{
    for (uint32_t i = 0; i < p->ndim; i++) {
        uint64_t step = p->facts.out_step[i], *end = &b[p->ndim + i], rest = *end % step;
        if (step == 1 || p->out.array.n[i] == 1)
            continue;
        b[i] -= b[i] % step;
        if (rest != 0)
            *end =
                step - rest < p->in.array.n[i] - *end ? *end + (step - rest) : p->in.array.n[i];
    }
}

static bool is_empty(const uint64_t *b, uint32_t ndim)
{
    for (uint32_t i = 0; i < ndim; i++)
        if (b[i] >= b[ndim + i])
            return true;
    return false;
}

static tg_status take_boxes(tg_plan *p, const tg_plan_spec *spec, tg_error *err)
{
    uint64_t width = 2 * (uint64_t)p->ndim, b[2 * TG_MAX_NDIM], write[2 * TG_MAX_NDIM];
    TG_TRY(tg_plan_take(p, TG_PLAN_BOX, p->n * width, p->wide ? 8 : 4, err));
    TG_TRY(tg_plan_take(p, TG_PLAN_ANCHOR, p->n, sizeof(uint32_t), err));
    uint32_t *anchor = p->section[TG_PLAN_ANCHOR].data;
    void *box = p->section[TG_PLAN_BOX].data;
    for (uint64_t k = 0; k < p->n; k++) {
        memcpy(b, spec->bounds + k * width, width * sizeof *b);
        for (uint32_t i = 0; i < p->ndim; i++)
            if (b[i] > b[p->ndim + i] || b[p->ndim + i] > p->in.array.n[i])
                return tg_fail(err, TG_INVALID,
                               "region %llu: %llu to %llu in dimension %u of %llu items",
                               (unsigned long long)k, (unsigned long long)b[i],
                               (unsigned long long)b[p->ndim + i], i,
                               (unsigned long long)p->in.array.n[i]);
        bool empty = is_empty(b, p->ndim);
        if (!empty) {
            snap(p, b);
            tg_plan_write_bounds(p, b, write);
            empty = is_empty(write, p->ndim);
        }
        if (empty) {
            anchor[k] = TG_PLAN_NONE;
            p->stats.empty++;
        }
        for (uint64_t i = 0; i < width; i++)
            tg_plan_set_coord(box, p->wide, k * width + i, b[i]);
    }
    return TG_OK;
}

static tg_status take_names(tg_plan *p, const tg_plan_spec *spec, tg_error *err)
{
    if (spec->label != NULL) {
        TG_TRY(tg_plan_take(p, TG_PLAN_LABEL, p->n, sizeof(uint64_t), err));
        memcpy(p->section[TG_PLAN_LABEL].data, spec->label, p->n * sizeof(uint64_t));
    }
    if (spec->name == NULL)
        return TG_OK;
    /* Each gets a NUL, so that a name is a C string where it lies. */
    uint64_t bytes = spec->name[p->n] - spec->name[0] + p->n, at = 0;
    TG_TRY(tg_plan_take(p, TG_PLAN_NAME, p->n + 1, sizeof(uint64_t), err));
    TG_TRY(tg_plan_take(p, TG_PLAN_NAMES, bytes, 1, err));
    uint64_t *name = p->section[TG_PLAN_NAME].data;
    char *names = p->section[TG_PLAN_NAMES].data;
    for (uint64_t k = 0; k < p->n; k++) {
        uint64_t n = spec->name[k + 1] - spec->name[k];
        name[k] = at;
        if (n > 0)
            memcpy(names + at, spec->names + spec->name[k], n);
        at += n + 1;
    }
    name[p->n] = at;
    return TG_OK;
}

static tg_status take_outlines(tg_plan *p, const tg_plan_spec *spec, tg_error *err)
{
    const tg_roi_outlines *o = spec->outlines;
    if (o == NULL || o->ring == NULL)
        return TG_OK;
    TG_TRY(tg_plan_take(p, TG_PLAN_RING, p->n + 1, sizeof *o->ring, err));
    TG_TRY(tg_plan_take(p, TG_PLAN_POINT, o->n_rings + 1, sizeof *o->point, err));
    TG_TRY(tg_plan_take(p, TG_PLAN_XY, o->n_points, 2 * sizeof *o->xy, err));
    uint64_t *ring = p->section[TG_PLAN_RING].data;
    for (uint64_t k = 0; k <= p->n; k++)
        ring[k] = o->ring[k < spec->n_masked ? k : spec->n_masked];
    if (o->n_rings == 0)
        return TG_OK;
    memcpy(p->section[TG_PLAN_POINT].data, o->point, (o->n_rings + 1) * sizeof *o->point);
    memcpy(p->section[TG_PLAN_XY].data, o->xy, o->n_points * 2 * sizeof *o->xy);
    return TG_OK;
}

/* Has each object a label, and no two the same? */
static tg_status are_apart(const tg_plan_spec *spec, tg_budget *budget, bool *apart,
                           tg_error *err)
{
    const uint64_t n = spec->n_masked, bytes = n * sizeof(uint64_t);
    *apart = spec->facts.policy == TG_POLICY_MASK && spec->facts.mask.shape.ndim != 0 &&
             spec->label != NULL;
    if (!*apart)
        return TG_OK;
    if (budget != NULL)
        TG_TRY(tg_budget_reserve(budget, bytes, "labels of regions", err));
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array((size_t)n + 1, sizeof(uint64_t));
    uint64_t *v = room;
    if (v != NULL && n > 0) {
        memcpy(v, spec->label, bytes);
        tg_plan_sort_u64(v, n);
        *apart = v[0] != 0;
        for (uint64_t k = 1; k < n && *apart; k++)
            *apart = v[k] != v[k - 1];
    }
    if (budget != NULL)
        tg_budget_release(budget, bytes);
    return v != NULL ? TG_OK : tg_fail(err, TG_NO_MEMORY, "labels of regions");
}

static tg_status check_costs(const tg_plan *p, const tg_plan_spec *spec, tg_error *err)
{
    tg_plan_region r;
    if (spec->region_bytes == NULL)
        return TG_OK;
    for (uint64_t k = 0; k < p->n; k++) {
        if (tg_plan_is_empty(p, k))
            continue;
        tg_plan_region_get(p, k, &r);
        uint64_t bytes = spec->region_bytes(spec->region_bytes_user, &p->facts, &r);
        if (bytes > spec->memory_bytes)
            return tg_fail(
                err, TG_OVER_BUDGET,
                "region %llu%s%.40s%s needs %llu bytes with its halo, its result and "
                "the chunks it touches, and the memory is %llu: want more memory, "
                "smaller regions or smaller chunks",
                (unsigned long long)k, r.name == NULL ? "" : " '", r.name == NULL ? "" : r.name,
                r.name == NULL ? "" : "'", (unsigned long long)bytes,
                (unsigned long long)spec->memory_bytes);
    }
    return TG_OK;
}

static tg_status make(tg_plan *p, const tg_plan_spec *spec, const tg_cancel *cancel,
                      tg_error *err)
{
    p->facts = spec->facts;
    TG_TRY(are_apart(spec, p->budget, &p->facts.mask_apart, err));
    TG_TRY(tg_plan_derive(p, err));
    TG_TRY(tg_plan_facts_json(p, &p->header, err));
    TG_TRY(tg_plan_facts_read(p, err));
    TG_TRY(take_boxes(p, spec, err));
    TG_TRY(take_names(p, spec, err));
    TG_TRY(take_outlines(p, spec, err));
    TG_TRY(tg_plan_overlaps(p, cancel, err));
    TG_TRY(tg_plan_conflicts(p, cancel, err));
    TG_TRY(tg_plan_index(p, cancel, err));
    TG_TRY(tg_plan_divide(p, err));
    TG_TRY(tg_plan_cover(p, cancel, err));
    TG_TRY(check_costs(p, spec, err));
    return tg_plan_make_fingerprint(p, err);
}

tg_status tg_plan_make(tg_plan **out, const tg_plan_spec *spec, tg_budget *budget,
                       const tg_cancel *cancel, tg_error *err)
{
    if (spec->n >= UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "%llu regions: want fewer than %u",
                       (unsigned long long)spec->n, UINT32_MAX);
    TG_AUTO_PTR(tg_plan) p = tg_calloc(1, sizeof *p);
    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plan");
    p->n = spec->n;
    p->budget = budget;
    TG_TRY(make(p, spec, cancel, err));
    *out = tg_steal(p);
    return TG_OK;
}
