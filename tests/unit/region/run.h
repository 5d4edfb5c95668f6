/* Random plans and what comes of them: the list-order loop, pixel by pixel. */
#ifndef TG_TESTS_REGION_RUN_H
#define TG_TESTS_REGION_RUN_H

#include "check.h"
#include "region/base.h"
#include "region/engine.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint64_t rng_state = 1;
static inline uint64_t rng(uint64_t below)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return below == 0 ? 0 : rng_state % below;
}

#define MAX_ITEMS   4096
#define MAX_REGIONS 24

/* One random case. Items are uint16. */
typedef struct scenario {
    uint32_t ndim;
    uint64_t shape[4], chunk[4], shard[4], in_chunk[4], halo[4];
    bool sharded, in_sharded, in_place, out_there, zstd, compressed, base_input;
    tg_policy policy;
    const char *pad; /* "": none */
    uint32_t n, parts, jobs;
    uint64_t bounds[MAX_REGIONS * 8];
    uint16_t in[MAX_ITEMS], out[MAX_ITEMS], want[MAX_ITEMS];
    bool written[MAX_ITEMS];
    /* Policy mask: the objects of a label image that lacks the first `lacks` dimensions, or
     * (outlined) triangles in y and x, twice their corners. */
    bool outlined;
    uint32_t lacks;
    uint64_t label[MAX_REGIONS];
    uint16_t labels[MAX_ITEMS];
    double corner[MAX_REGIONS * 6];
    uint64_t items, memory;
    char dir[128];
} scenario;

static inline uint64_t s_items(const scenario *s)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < s->ndim; d++)
        n *= s->shape[d];
    return n;
}

/* --- The function: what a region sees and where it is --------------------------------------
 */

typedef struct probe {
    tg_function base;
    atomic_uint calls, in_flight, peak;
    unsigned hold; /* all wait until so many are in flight */
    int64_t fail;  /* this region fails; -1: none */
} probe;

static inline uint16_t probe_item(uint16_t here, uint16_t corner, uint16_t far, uint64_t roi)
{
    return (uint16_t)(here * 3u + corner + far * 5u + roi * 7u + 2u);
}

static tg_status probe_call(tg_function *f, const tg_region_call *c, uint32_t number,
                            const tg_cancel *cancel, tg_error *err)
{
    probe *p = (probe *)f;
    unsigned now = atomic_fetch_add(&p->in_flight, 1) + 1, peak = atomic_load(&p->peak);
    uint64_t index[TG_MAX_NDIM] = {0};
    tg_box all = {.shape = {.ndim = c->out.ndim}};

    (void)number;
    (void)cancel;
    while (now > peak && !atomic_compare_exchange_weak(&p->peak, &peak, now))
        ;
    atomic_fetch_add(&p->calls, 1);
    for (int i = 0; i < 60000 && atomic_load(&p->peak) < p->hold; i++)
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
    atomic_fetch_sub(&p->in_flight, 1);
    if ((int64_t)c->roi == p->fail)
        return tg_fail(err, TG_INVALID, "told to fail");
    memcpy(all.shape.n, c->out.shape, c->out.ndim * sizeof *all.shape.n);
    do {
        const uint8_t *in = c->in.data;
        uint8_t *out = c->out.data;
        uint16_t here, corner, far, item;
        int64_t last = 0;
        memcpy(&corner, in, 2);
        for (uint32_t d = 0; d < c->in.ndim; d++)
            last += (int64_t)(c->in.shape[d] - 1) * c->in.strides[d];
        memcpy(&far, in + last, 2);
        for (uint32_t d = 0; d < c->out.ndim; d++) {
            in += (int64_t)(index[d] + c->before[d]) * c->in.strides[d];
            out += (int64_t)index[d] * c->out.strides[d];
        }
        memcpy(&here, in, 2);
        item = probe_item(here, corner, far, c->roi);
        memcpy(out, &item, 2);
    } while (tg_box_next(&all, index));
    return TG_OK;
}

static tg_status probe_fold(tg_function *f, const tg_region_view *base,
                            const tg_region_view *patch, uint64_t roi, tg_error *err)
{
    uint64_t index[TG_MAX_NDIM] = {0};
    tg_box all = {.shape = {.ndim = base->ndim}};

    (void)f;
    (void)err;
    memcpy(all.shape.n, base->shape, base->ndim * sizeof *all.shape.n);
    do {
        uint8_t *a = base->data;
        const uint8_t *b = patch->data;
        uint16_t x, y;
        for (uint32_t d = 0; d < base->ndim; d++) {
            a += (int64_t)index[d] * base->strides[d];
            b += (int64_t)index[d] * patch->strides[d];
        }
        memcpy(&x, a, 2);
        memcpy(&y, b, 2);
        x = (uint16_t)(x * 31u + y + roi);
        memcpy(a, &x, 2);
    } while (tg_box_next(&all, index));
    return TG_OK;
}

static void probe_free(tg_function *f)
{
    (void)f;
}

static inline void probe_init(probe *p)
{
    static const tg_function_ops ops = {
        .call = probe_call, .fold = probe_fold, .free = probe_free};
    *p = (probe){.base = {.ops = &ops}, .fail = -1};
    p->base.facts.has_out = true;
    p->base.facts.out_dtype = (tg_dtype){TG_DT_UINT, 2};
    p->base.facts.fold = true;
}

/* --- The loop
 * ---------------------------------------------------------------------------------- */

static inline uint64_t s_at(const scenario *s, const uint64_t *index)
{
    uint64_t n = 0;
    for (uint32_t d = 0; d < s->ndim; d++)
        n = n * s->shape[d] + index[d];
    return n;
}

static inline double s_weight(const scenario *s, uint64_t k, const uint64_t *index)
{
    const uint64_t *b = &s->bounds[k * 2 * s->ndim];
    double w = 1;
    for (uint32_t d = 0; d < s->ndim; d++) {
        uint64_t lo = index[d] - b[d], hi = b[s->ndim + d] - 1 - index[d];
        uint64_t near = lo < hi ? lo : hi;
        if (near < s->halo[d])
            w *= (double)(near + 1) / (double)(s->halo[d] + 1);
    }
    return w;
}

static inline uint16_t s_clip(double v)
{
    v = rint(v);
    return v < 0 ? 0 : v > 65535 ? 65535 : (uint16_t)v;
}

static inline bool s_inside(const scenario *s, uint64_t k, const uint64_t *index)
{
    const uint64_t *b = &s->bounds[k * 2 * s->ndim];
    for (uint32_t d = 0; d < s->ndim; d++)
        if (index[d] < b[d] || index[d] >= b[s->ndim + d])
            return false;
    return true;
}

/* Is the centre of the pixel inside the triangle? Crossings of a ray to the right. */
static inline bool s_in_triangle(const double *xy, double x, double y)
{
    bool inside = false;
    for (int i = 0; i < 3; i++) {
        const double *a = xy + 2 * (size_t)i, *b = xy + 2 * (size_t)((i + 1) % 3);
        if ((a[1] > y) != (b[1] > y) && x < a[0] + (y - a[1]) * (b[0] - a[0]) / (b[1] - a[1]))
            inside = !inside;
    }
    return inside;
}

static inline uint64_t s_label_at(const scenario *s, const uint64_t *index)
{
    uint64_t n = 0;
    for (uint32_t d = s->lacks; d < s->ndim; d++)
        n = n * s->shape[d] + index[d];
    return n;
}

/* Policy mask: is the pixel, which lies in its box, the region's own? */
static inline bool s_owned(const scenario *s, uint64_t k, const uint64_t *index)
{
    if (s->policy != TG_POLICY_MASK)
        return true;
    if (s->outlined)
        return s_in_triangle(&s->corner[6 * k], (double)index[s->ndim - 1] + 0.5,
                             (double)index[s->ndim - 2] + 0.5);
    const uint64_t label = s->labels[s_label_at(s, index)];
    return s->label[k] != 0 ? label == s->label[k] : label != 0;
}

/* What a call sees at a place that may lie outside of IN. */
static inline uint16_t s_beyond(const scenario *s, const int64_t *at)
{
    uint64_t index[4];

    for (uint32_t d = 0; d < s->ndim; d++) {
        const int64_t n = (int64_t)s->shape[d], x = at[d];
        int64_t y = x < 0 ? 0 : x >= n ? n - 1 : x; /* edge, or cut */
        if (x != y && s->pad[0] == 'c')
            return 77;
        if (x != y && s->pad[0] == 'f')
            return 0;
        if (s->pad[0] == 'r')
            y = x < 0 ? -x : x >= n ? 2 * (n - 1) - x : x;
        if (s->pad[0] == 's')
            y = x < 0 ? -x - 1 : x >= n ? 2 * n - 1 - x : x;
        index[d] = (uint64_t)y;
    }
    return s->in[s_at(s, index)];
}

static inline uint16_t s_patch(const scenario *s, uint64_t k, const uint64_t *index)
{
    const uint64_t *b = &s->bounds[k * 2 * s->ndim];
    int64_t corner[4], far[4];
    for (uint32_t d = 0; d < s->ndim; d++) {
        corner[d] = (int64_t)b[d] - (int64_t)s->halo[d];
        far[d] = (int64_t)(b[s->ndim + d] + s->halo[d]) - 1;
    }
    return probe_item(s->in[s_at(s, index)], s_beyond(s, corner), s_beyond(s, far), k);
}

static inline void s_expect_pixel(scenario *s, const uint64_t *index, int64_t skip)
{
    const uint64_t at = s_at(s, index);
    uint64_t sum = 0, n = 0;
    double v = 0, w = 0;
    const uint16_t base = s->base_input ? s->in[at] : s->out[at];
    uint16_t now = base;

    /* Who wins a pixel is planned: one that fails leaves its own as they were. */
    const bool won = s->policy == TG_POLICY_LAST || s->policy == TG_POLICY_FIRST;
    for (uint64_t k = 0; k < s->n; k++) {
        if (!s_inside(s, k, index) || !s_owned(s, k, index) || ((int64_t)k == skip && !won))
            continue;
        const uint16_t x = (int64_t)k == skip ? base : s_patch(s, k, index);
        const double weight = s_weight(s, k, index);
        switch (s->policy) {
        case TG_POLICY_FIRST:
            now = n == 0 ? x : now;
            break;
        case TG_POLICY_MAX:
            now = n == 0 || x > now ? x : now;
            break;
        case TG_POLICY_MIN:
            now = n == 0 || x < now ? x : now;
            break;
        case TG_POLICY_OR:
            now = (uint16_t)(n == 0 ? x : now | x);
            break;
        case TG_POLICY_AND:
            now = (uint16_t)(n == 0 ? x : now & x);
            break;
        case TG_POLICY_NONZERO:
            now = x != 0 ? x : now;
            break;
        case TG_POLICY_USER:
            now = (uint16_t)(now * 31u + x + k);
            break;
        default:
            now = x;
            break;
        }
        sum += x;
        v += weight * (double)x;
        w += weight;
        n++;
    }
    if (n > 0 && s->policy == TG_POLICY_SUM)
        now = sum > 65535 ? 65535 : (uint16_t)sum;
    if (n > 0 && s->policy == TG_POLICY_MEAN) {
        uint64_t q = sum / n, r = sum % n;
        now = (uint16_t)(2 * r > n || (2 * r == n && q % 2 == 1) ? q + 1 : q);
    }
    if (n > 0 && s->policy == TG_POLICY_BLEND)
        now = s_clip(v / w);
    s->want[at] = now;
    s->written[at] = n > 0;
}

static inline void s_expect(scenario *s, int64_t skip)
{
    uint64_t index[TG_MAX_NDIM] = {0};
    tg_box all = {.shape = {.ndim = s->ndim}};

    memcpy(all.shape.n, s->shape, s->ndim * sizeof *s->shape);
    do
        s_expect_pixel(s, index, skip);
    while (tg_box_next(&all, index));
}

/* --- Arrays
 * -------------------------------------------------------------------------------------- */

typedef struct opened {
    tg_store *in_store, *out_store, *label_store;
    tg_array *in, *out;
    tg_mask *mask;
} opened;

static inline void close_arrays(opened *o)
{
    tg_mask_free(o->mask);
    tg_array_free(o->in);
    if (o->out != o->in)
        tg_array_free(o->out);
    tg_store_free(o->in_store);
    tg_store_free(o->out_store);
    tg_store_free(o->label_store);
    *o = (opened){0};
}

static inline void s_path(const scenario *s, const char *name, char *dst)
{
    (void)snprintf(dst, 160, "%s/%s", s->dir, name);
}

/* Of the scenario's shape but for its first `lacks` dimensions. */
static inline tg_status make_array_at(const scenario *s, const char *name, uint32_t lacks,
                                      const uint64_t *chunk, const uint64_t *shard,
                                      const uint16_t *items, tg_error *err)
{
    static const uint64_t zero[4];
    const tg_store_options so = {
        .size = sizeof so, .mode = TG_STORE_OPEN_OR_CREATE, .no_sync = true};
    const tg_array_options ao = {.size = sizeof ao,
                                 .dtype = {TG_DT_UINT, 2},
                                 .ndim = s->ndim - lacks,
                                 .shape = s->shape + lacks,
                                 .chunk = chunk + lacks,
                                 .shard = shard,
                                 .codec = s->compressed ? "zstd:1" : "none"};
    char path[160];
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;

    s_path(s, name, path);
    TG_TRY(tg_store_open(path, &so, &store, NULL, err));
    TG_TRY(tg_array_create(store, "", &ao, &a, NULL, err));
    return items == NULL ? TG_OK
                         : tg_array_write(a, zero, s->shape + lacks, items, NULL, NULL, err);
}

static inline tg_status make_array(const scenario *s, const char *name, const uint64_t *chunk,
                                   const uint64_t *shard, const uint16_t *items, tg_error *err)
{
    return make_array_at(s, name, 0, chunk, shard, items, err);
}

static inline tg_status open_arrays(const scenario *s, opened *o, tg_error *err)
{
    const tg_store_options so = {.size = sizeof so, .mode = TG_STORE_READ_WRITE};
    char path[160];

    *o = (opened){0};
    s_path(s, "in.zarr", path);
    TG_TRY(tg_store_open(path, &so, &o->in_store, NULL, err));
    TG_TRY(tg_array_open(o->in_store, "", &o->in, NULL, err));
    s_path(s, s->in_place ? "in.zarr" : "out.zarr", path);
    TG_TRY(tg_store_open(path, &so, &o->out_store, NULL, err));
    return tg_array_open(o->out_store, "", &o->out, NULL, err);
}

static inline void describe_array(tg_plan_array *p, const tg_array *a, const char *url)
{
    *p = (tg_plan_array){.url = url,
                         .path = "",
                         .dtype = a->meta->info.dtype,
                         .chunk = a->meta->chunk,
                         .shard = a->meta->shard};
    p->shape.ndim = a->meta->info.ndim;
    memcpy(p->shape.n, a->meta->info.shape, p->shape.ndim * sizeof *p->shape.n);
}

static inline tg_status open_mask(const scenario *s, opened *o, tg_plan_facts *f, tg_error *err)
{
    static const char *const names[] = {"t", "z", "y", "x"};
    const tg_store_options so = {.size = sizeof so, .mode = TG_STORE_READ};
    char path[160];

    for (uint32_t d = 0; d < s->ndim; d++)
        f->axes[d] = s->outlined ? names[4 - s->ndim + d] : NULL;
    if (!s->outlined) {
        s_path(s, "labels.zarr", path);
        TG_TRY(tg_store_open(path, &so, &o->label_store, NULL, err));
    }
    TG_TRY(tg_mask_open(&o->mask, f, o->label_store, s->outlined ? NULL : "", NULL, err));
    if (!s->outlined)
        describe_array(&f->mask, tg_mask_array(o->mask), "in");
    return TG_OK;
}

static inline tg_status make_plan(const scenario *s, opened *o, tg_plan **plan, tg_error *err)
{
    uint64_t ring[MAX_REGIONS + 1], point[MAX_REGIONS + 1];
    double corner[MAX_REGIONS * 6];
    const tg_roi_outlines outlines = {s->n, 3 * s->n, ring, point, corner};
    tg_plan_spec spec = {.n = s->n, .n_masked = s->n};
    tg_plan_facts *f = &spec.facts;
    const size_t width = (size_t)2 * s->ndim;
    uint64_t *bounds = tg_alloc_array((size_t)s->n * width + 1, sizeof *bounds);

    if (bounds == NULL)
        return TG_NO_MEMORY;
    memcpy(bounds, s->bounds, (size_t)s->n * width * sizeof *bounds);

    describe_array(&f->in, o->in, "in");
    describe_array(&f->out, o->out, "out");
    f->out_new = !s->out_there && !s->in_place;
    f->in_place = s->in_place;
    f->text = "probe";
    f->rois = "random";
    f->options = "";
    f->policy = s->policy;
    f->pad = s->pad;
    f->base = s->base_input ? TG_BASE_INPUT : TG_BASE_OUT;
    f->parts = s->parts == 0 ? 1 : s->parts;
    f->commit_ms = 1 + rng(20);
    for (uint32_t d = 0; d < s->ndim; d++) {
        f->halo[d] = s->halo[d];
        f->out_step[d] = 1;
        f->scale[d] = 1;
    }
    for (uint64_t k = 0; k <= s->n; k++)
        ring[k] = k, point[k] = 3 * k;
    memcpy(corner, s->corner, sizeof corner);
    if (s->policy == TG_POLICY_MASK && s->outlined)
        spec.outlines = &outlines;
    tg_status st = !s->base_input ? TG_OK
                                  : tg_base_regions(&bounds, &spec.n, &f->in.shape,
                                                    &f->out.shard, 1 << 20, err);
    spec.bounds = bounds;
    TG_AUTO(tg_mem_ptr) label = tg_calloc((size_t)spec.n + 1, sizeof(uint64_t));
    if (label != NULL)
        memcpy(label, s->label, s->n * sizeof *s->label);
    if (s->policy == TG_POLICY_MASK)
        spec.label = label;
    if (st == TG_OK && s->policy == TG_POLICY_MASK)
        st = open_mask(s, o, f, err);
    if (st == TG_OK)
        st = tg_plan_make(plan, &spec, NULL, NULL, err);
    tg_free(bounds);
    return st;
}

static inline tg_status read_result(const scenario *s, uint16_t *items, tg_error *err)
{
    static const uint64_t zero[4];
    opened o;
    tg_status st = open_arrays(s, &o, err);

    if (st == TG_OK)
        st = tg_array_read(o.out, zero, s->shape, items, NULL, NULL, err);
    close_arrays(&o);
    return st;
}

/* --- Random cases
 * ----------------------------------------------------------------------------------- */

static inline bool overlaps(const scenario *s, uint64_t a, uint64_t b)
{
    const uint64_t *x = &s->bounds[a * 2 * s->ndim], *y = &s->bounds[b * 2 * s->ndim];
    for (uint32_t d = 0; d < s->ndim; d++)
        if (x[d] >= y[s->ndim + d] || y[d] >= x[s->ndim + d])
            return false;
    return true;
}

static inline void random_regions(scenario *s)
{
    const uint32_t n = 1 + (uint32_t)rng(MAX_REGIONS);

    s->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t *b = &s->bounds[s->n * 2 * s->ndim];
        for (uint32_t d = 0; d < s->ndim; d++) {
            b[d] = rng(s->shape[d]);
            b[s->ndim + d] = b[d] + 1 + rng(s->shape[d] - b[d]);
        }
        bool clash = false;
        for (uint32_t k = 0; k < s->n && s->policy == TG_POLICY_ERROR; k++)
            clash |= overlaps(s, k, s->n);
        s->n += !clash;
    }
}

/* Labels in patches; each region with a label of its own, or some with the same, or none. */
static inline void random_masks(scenario *s)
{
    const bool apart = rng(2);
    uint64_t items = 1;

    s->outlined = s->ndim > 1 && rng(3) == 0;
    s->lacks = (uint32_t)rng(s->ndim);
    for (uint32_t d = s->lacks; d < s->ndim; d++)
        items *= s->shape[d];
    for (uint64_t i = 0; i < items; i++)
        s->labels[i] =
            i > 0 && rng(3) > 0 ? s->labels[i - 1] : (uint16_t)rng(apart ? s->n + 1 : 4);
    for (uint64_t k = 0; k < s->n; k++)
        s->label[k] = apart ? s->n - k : rng(4);
    for (uint64_t k = 0; k < s->n && s->outlined; k++)
        for (uint32_t i = 0; i < 6; i++) {
            const uint32_t d = s->ndim - 1 - i % 2;
            const uint64_t *b = &s->bounds[k * 2 * s->ndim];
            s->corner[6 * k + i] =
                (double)b[d] + (double)rng(4 * (b[s->ndim + d] - b[d]) + 1) / 4 + 0.125;
        }
}

static inline void random_pad(scenario *s)
{
    static const char *const pads[] = {"",     "",     "",        "",         "constant:77",
                                       "fill", "edge", "reflect", "symmetric"};

    s->pad = pads[rng(sizeof pads / sizeof *pads)];
    for (uint32_t d = 0; d < s->ndim; d++) {
        const uint64_t most = s->shape[d] - (s->pad[0] == 'r');
        if ((s->pad[0] == 'r' || s->pad[0] == 's') && s->halo[d] > most)
            s->halo[d] = most;
    }
}

static inline void random_scenario(scenario *s, const char *dir)
{
    static const tg_policy policies[] = {
        TG_POLICY_ERROR,   TG_POLICY_LAST, TG_POLICY_FIRST, TG_POLICY_MAX,  TG_POLICY_MIN,
        TG_POLICY_OR,      TG_POLICY_AND,  TG_POLICY_SUM,   TG_POLICY_MEAN, TG_POLICY_BLEND,
        TG_POLICY_NONZERO, TG_POLICY_USER, TG_POLICY_MASK};
    memset(s, 0, sizeof *s);
    (void)snprintf(s->dir, sizeof s->dir, "%s", dir);
    s->ndim = 1 + (uint32_t)rng(4);
    const uint64_t most = s->ndim == 1 ? 200 : s->ndim == 2 ? 40 : s->ndim == 3 ? 12 : 7;
    s->sharded = rng(2);
    s->in_place = rng(3) == 0;
    s->in_sharded = s->in_place ? s->sharded : rng(2);
    s->out_there = rng(2);
    s->compressed = rng(2);
    s->policy = policies[rng(sizeof policies / sizeof *policies)];
    s->jobs = 1 + (uint32_t)rng(6);
    s->parts = 1;
    for (uint32_t d = 0; d < s->ndim; d++) {
        s->shape[d] = 1 + rng(most);
        s->chunk[d] = 1 + rng(s->shape[d] < 9 ? s->shape[d] : 9);
        s->shard[d] = s->chunk[d] * (1 + rng(3));
        s->in_chunk[d] = s->in_place ? s->chunk[d] : 1 + rng(s->shape[d] + 2);
        s->halo[d] = rng(3);
    }
    s->items = s_items(s);
    for (uint64_t i = 0; i < s->items; i++) {
        s->in[i] = (uint16_t)rng(9000);
        s->out[i] = (uint16_t)(s->out_there ? rng(65536) : 0);
    }
    if (s->in_place)
        memcpy(s->out, s->in, sizeof s->out);
    random_regions(s);
    if (s->policy == TG_POLICY_MASK)
        random_masks(s);
    s->base_input = !s->in_place && rng(3) == 0;
    random_pad(s);
}

static inline tg_status make_arrays(const scenario *s, tg_error *err)
{
    uint64_t shard[4];
    for (uint32_t d = 0; d < s->ndim; d++)
        shard[d] = s->in_place ? s->shard[d] : s->in_chunk[d] * 2;
    TG_TRY(make_array(s, "in.zarr", s->in_chunk, s->in_sharded ? shard : NULL, s->in, err));
    if (s->policy == TG_POLICY_MASK && !s->outlined)
        TG_TRY(make_array_at(s, "labels.zarr", s->lacks, s->in_chunk, NULL, s->labels, err));
    if (s->in_place)
        return TG_OK;
    return make_array(s, "out.zarr", s->chunk, s->sharded ? s->shard : NULL,
                      s->out_there ? s->out : NULL, err);
}

static inline void remove_tree(const char *path)
{
    char command[256];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command) != 0)
        (void)fprintf(stderr, "cannot remove %s\n", path);
}

/* --- Where
 * ------------------------------------------------------------------------------------
 */

static char root[64];

static inline const char *fresh_dir(void)
{
    static char dir[128];
    static int n;
    (void)snprintf(dir, sizeof dir, "%s/%d", root, n++);
    (void)mkdir(dir, 0777);
    return dir;
}

static void remove_root(void)
{
    remove_tree(root);
}

/* In memory where that can be had: nothing here depends on what a disk keeps, and each plan
 * syncs some ten times. */
__attribute__((constructor)) static void make_root(void)
{
    (void)snprintf(root, sizeof root, "/dev/shm/tg-region-XXXXXX");
    if (mkdtemp(root) == NULL) {
        (void)snprintf(root, sizeof root, "/tmp/tg-region-XXXXXX");
        if (mkdtemp(root) == NULL)
            abort();
    }
    (void)atexit(remove_root);
}

/* Is every unit as before or as after? */
static inline void check_units(const scenario *s)
{
    static uint16_t got[MAX_ITEMS];
    static uint8_t is[MAX_ITEMS]; /* of units: bit 0 not old, bit 1 not new */
    uint64_t index[TG_MAX_NDIM] = {0}, unit[4];
    tg_box all = {.shape = {.ndim = s->ndim}};
    tg_error err = {0};

    memset(is, 0, sizeof is);
    memcpy(all.shape.n, s->shape, s->ndim * sizeof *s->shape);
    if (read_result(s, got, &err) != TG_OK) {
        test_failed(__FILE__, __LINE__, err.msg);
        return;
    }
    do {
        const uint64_t at = s_at(s, index);
        for (uint32_t d = 0; d < s->ndim; d++) {
            const uint64_t n = s->sharded ? s->shard[d] : s->chunk[d];
            unit[d] = index[d] / n * n;
        }
        is[s_at(s, unit)] |= (uint8_t)((got[at] != s->out[at]) | (got[at] != s->want[at]) << 1);
    } while (tg_box_next(&all, index));
    for (uint64_t i = 0; i < s->items; i++)
        if (is[i] == 3) {
            test_failed(__FILE__, __LINE__, "a unit is neither old nor new");
            return;
        }
}

#endif
