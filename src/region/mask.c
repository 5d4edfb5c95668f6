/* An outline becomes a small label image of one plane, so that either kind of mask is laid over
 * a region's box by the same walk. */
#include "region/mask.h"

#include "region/items.h"
#include "region/op_other.h"

#include <inttypes.h>
#include <string.h>

struct tg_mask {
    tg_op_labels labels; /* array NULL: outlines */
    uint32_t y, x;       /* of outlines: dimensions */
};

enum { BLOCK = 512 };

/* --- Opening --------------------------------------------------------------------------------
 */

static tg_status check_out(const tg_plan_facts *f, tg_error *err)
{
    for (uint32_t d = 0; d < f->in.shape.ndim; d++)
        if (f->out_step[d] != 1 || f->out.shape.n[d] != f->in.shape.n[d])
            return tg_fail(err, TG_INVALID,
                           "policy mask: OUT has %" PRIu64 " items along dimension %" PRIu32
                           ", IN has %" PRIu64 ", and masks are of IN's items",
                           f->out.shape.n[d], d, f->in.shape.n[d]);
    return TG_OK;
}

static tg_status open_labels(tg_mask *m, const tg_plan_facts *f, tg_store *store,
                             const char *labels, const tg_cancel *cancel, tg_error *err)
{
    const tg_function_env env = {.in_shape = &f->in.shape, .axes = f->axes};
    tg_op_other *o = &m->labels.other;

    tg_status st = tg_ome_level_read(&o->level, store, labels, cancel, err);
    if (st == TG_OK)
        st = tg_array_open(store, o->level.array, &o->array, cancel, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "policy mask: labels '%.200s'", labels);
        return st;
    }
    return tg_op_labels_fit(&m->labels, &env, "policy mask: labels", labels, err);
}

static tg_status find_axis(const tg_plan_facts *f, const char *name, uint32_t *d, tg_error *err)
{
    for (*d = 0; *d < f->in.shape.ndim; ++*d)
        if (f->axes[*d] != NULL && strcmp(f->axes[*d], name) == 0)
            return TG_OK;
    return tg_fail(err, TG_INVALID,
                   "policy mask: outlines lie in y and x, and IN has no axis %s", name);
}

static tg_status open_mask(tg_mask *m, const tg_plan_facts *f, tg_store *store,
                           const char *labels, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(check_out(f, err));
    if (labels != NULL)
        return open_labels(m, f, store, labels, cancel, err);
    TG_TRY(find_axis(f, "y", &m->y, err));
    return find_axis(f, "x", &m->x, err);
}

tg_status tg_mask_open(tg_mask **out, const tg_plan_facts *f, tg_store *store,
                       const char *labels, const tg_cancel *cancel, tg_error *err)
{
    tg_mask *m = tg_calloc(1, sizeof *m);

    if (m == NULL)
        return tg_fail(err, TG_NO_MEMORY, "masks of regions");
    tg_status st = open_mask(m, f, store, labels, cancel, err);
    if (st != TG_OK)
        tg_mask_free(m);
    else
        *out = m;
    return st;
}

void tg_mask_free(tg_mask *m)
{
    if (m == NULL)
        return;
    tg_op_other_close(&m->labels.other);
    tg_free(m);
}

const tg_array *tg_mask_array(const tg_mask *m)
{
    return m->labels.other.array;
}

const char *tg_mask_path(const tg_mask *m)
{
    return m->labels.other.level.array;
}

/* --- One region -----------------------------------------------------------------------------
 */

static uint64_t room_bytes(const tg_mask *m, const tg_shape *write)
{
    uint64_t n;

    if (m->labels.other.array != NULL)
        return tg_op_labels_items(&m->labels, write->n) * m->labels.dtype.size;
    return __builtin_mul_overflow(write->n[m->y], write->n[m->x], &n) ? UINT64_MAX / 64 : n;
}

uint64_t tg_mask_bytes(const tg_mask *m, const tg_shape *write)
{
    if (m == NULL)
        return 0;
    return room_bytes(m, write) +
           (m->labels.other.array != NULL ? tg_array_worst_bytes(m->labels.other.array) : 0);
}

/* Inside is 1. */
static void draw_outline(const tg_mask *m, const tg_plan *plan, uint64_t k, const tg_box *box,
                         uint8_t *room, tg_label_view *v)
{
    const uint64_t height = box->shape.n[m->y], width = box->shape.n[m->x];
    tg_roi_outlines o;

    tg_plan_outlines(plan, k, &o);
    tg_roi_outline_mask(&o, k, (int64_t)box->start[m->y], (int64_t)box->start[m->x], height,
                        width, room);
    *v = (tg_label_view){.data = (const char *)room};
    v->strides[m->y] = (int64_t)width;
    v->strides[m->x] = 1;
}

static tg_status lay_row(tg_dtype t, uint64_t want, const char *src, int64_t step, size_t n,
                         uint8_t *keep, tg_error *err)
{
    uint64_t label[BLOCK];

    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t some = n - i < BLOCK ? n - i : BLOCK;
        TG_TRY(tg_label_load(t, label, src + (int64_t)i * step, step, some, err));
        for (size_t j = 0; j < some; j++)
            keep[i + j] = want != 0 ? label[j] == want : label[j] != 0;
    }
    return TG_OK;
}

static tg_status lay(tg_dtype t, uint64_t want, const tg_label_view *v, const tg_shape *shape,
                     uint8_t *keep, tg_error *err)
{
    tg_rows r;

    tg_rows_of(&r, shape->ndim, shape->n);
    if (!r.any)
        return TG_OK;
    do {
        const char *src = v->data;
        for (uint32_t d = 0; d < r.ndim; d++)
            src += (int64_t)r.index[d] * v->strides[d];
        TG_TRY(lay_row(t, want, src, v->strides[r.ndim], r.length, keep, err));
        keep += r.length;
    } while (tg_rows_next(&r));
    return TG_OK;
}

tg_status tg_mask_fill(const tg_mask *m, const tg_plan *plan, uint64_t k,
                       const tg_plan_region *r, uint8_t *keep, const tg_cancel *cancel,
                       tg_error *err)
{
    const bool image = m->labels.other.array != NULL;
    const tg_box *box = &r->write;
    TG_AUTO(tg_mem_ptr) room = tg_alloc((size_t)room_bytes(m, &box->shape) + 1);
    tg_label_view v;

    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "mask of a region");
    if (!image) {
        draw_outline(m, plan, k, box, room, &v);
        return lay((tg_dtype){TG_DT_UINT, 1}, 1, &v, &box->shape, keep, err);
    }
    TG_TRY(tg_op_labels_read_box(&m->labels, box->start, box->shape.n, room, &v, cancel, err));
    tg_status st = lay(m->labels.dtype, r->label, &v, &box->shape, keep, err);
    if (st != TG_OK)
        tg_error_prefix(err, "policy mask: labels '%.200s'", tg_mask_path(m));
    return st;
}
