/* Operations that look at another array: illumination (profiles as large as a region, Fractal's
 * formula) and fill (with labels: only where a label image says so). */
#include "region/op.h"
#include "region/op_other.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct tg_op_mask {
    tg_op_labels labels; /* of fill; array NULL: none */
    bool outside;
    /* Of illumination: items of a region along two axes of IN, C order. */
    double *flat, *dark; /* flat: divided by its largest; dark NULL: none */
    uint32_t axis[2];
    uint64_t shape[2];
    tg_budget *budget;
    uint64_t reserved;
};

void tg_op_mask_free(tg_op_mask *m)
{
    if (m == NULL)
        return;
    tg_op_other_close(&m->labels.other);
    tg_free(m->flat);
    tg_free(m->dark);
    if (m->budget != NULL)
        tg_budget_release(m->budget, m->reserved);
    tg_free(m);
}

static tg_status make_mask(tg_op *op, tg_error *err)
{
    op->mask = tg_calloc(1, sizeof *op->mask);
    return op->mask != NULL
               ? TG_OK
               : tg_fail(err, TG_NO_MEMORY, "no memory for operation '%s'", op->kind->name);
}

/* --- illumination ----------------------------------------------------------------------------
 */

static tg_status reserve(tg_op_mask *m, tg_budget *budget, uint64_t bytes, tg_error *err)
{
    if (budget == NULL)
        return TG_OK;
    TG_TRY(tg_budget_reserve(budget, bytes, "a profile of the illumination", err));
    m->budget = budget;
    m->reserved += bytes;
    return TG_OK;
}

/* The last two dimensions; others must be one item long. */
static tg_status profile_shape(const tg_op_other *o, const char *what, uint64_t shape[2],
                               tg_error *err)
{
    const uint32_t n = o->level.ndim;

    for (uint32_t d = 0; d + 2 < n; d++)
        if (o->level.shape[d] != 1)
            return tg_fail(err, TG_INVALID,
                           "%s: %" PRIu64 " items along dimension %" PRIu32 ", want one plane",
                           what, o->level.shape[d], d);
    if (n < 2)
        return tg_fail(err, TG_INVALID, "%s: %" PRIu32 " dimensions, want 2", what, n);
    shape[0] = o->level.shape[n - 2];
    shape[1] = o->level.shape[n - 1];
    return TG_OK;
}

static tg_status read_profile(const tg_op_other *o, double *to, uint64_t n,
                              const tg_cancel *cancel, tg_error *err)
{
    const tg_array_info *info = &o->array->meta->info;
    const uint64_t start[TG_MAX_NDIM] = {0};
    TG_AUTO(tg_mem_ptr) items = tg_alloc_array((size_t)n + 1, info->dtype.size);

    if (items == NULL)
        return tg_fail(err, TG_NO_MEMORY, "a profile");
    TG_TRY(tg_array_read(o->array, start, info->shape, items, NULL, cancel, err));
    tg_items_load(to, info->dtype, items, info->dtype.size, (size_t)n);
    return TG_OK;
}

/* Into *out, as doubles; the second profile must be as large as the first. */
static tg_status load_profile(tg_op *op, const tg_function_env *env, const char *what,
                              const char *path, double **out, tg_error *err)
{
    tg_op_mask *m = op->mask;
    tg_op_other o = {0};
    uint64_t shape[2] = {0, 0};

    tg_status st = tg_op_other_open(&o, env, what, path, err);
    if (st != TG_OK)
        return st;
    const tg_dtype t = o.array->meta->info.dtype;
    const uint64_t worst = tg_array_worst_bytes(o.array);
    st = tg_items_number(t) ? profile_shape(&o, what, shape, err)
                            : tg_fail(err, TG_INVALID, "%s: no numbers", what);
    if (st == TG_OK && m->flat != NULL && memcmp(shape, m->shape, sizeof shape) != 0)
        st = tg_fail(err, TG_INVALID, "%s is not as large as the first", what);
    if (st == TG_OK &&
        (shape[0] > UINT32_MAX || shape[1] > UINT32_MAX || worst > UINT64_MAX / 4))
        st = tg_fail(err, TG_UNSUPPORTED, "%s is too large", what);
    const uint64_t n = st == TG_OK ? shape[0] * shape[1] : 0;
    if (st == TG_OK && n > SIZE_MAX / 64)
        st = tg_fail(err, TG_UNSUPPORTED, "%s is too large", what);
    if (st == TG_OK)
        st = reserve(m, env->budget, n * (8 + t.size) + worst, err);
    if (st == TG_OK) {
        memcpy(m->shape, shape, sizeof shape);
        *out = tg_alloc_array((size_t)n + 1, sizeof **out);
        st = *out == NULL ? tg_fail(err, TG_NO_MEMORY, "%s", what)
                          : read_profile(&o, *out, n, env->cancel, err);
    }
    tg_op_other_close(&o);
    return st;
}

/* y and x where IN's axes have names, else the last two. */
static tg_status find_plane(const tg_op *op, const tg_function_env *env, uint32_t axis[2],
                            tg_error *err)
{
    const uint32_t ndim = op->in_shape.ndim;

    if (ndim < 2)
        return tg_fail(
            err, TG_UNSUPPORTED,
            "operation 'illumination': IN has %" PRIu32 " dimensions, want 2 at least", ndim);
    axis[0] = ndim - 2;
    axis[1] = ndim - 1;
    for (uint32_t d = 0; env->axes != NULL && d < ndim; d++) {
        if (env->axes[d] != NULL && strcmp(env->axes[d], "y") == 0)
            axis[0] = d;
        if (env->axes[d] != NULL && strcmp(env->axes[d], "x") == 0)
            axis[1] = d;
    }
    return TG_OK;
}

static tg_status divide_by_largest(double *v, uint64_t n, tg_error *err)
{
    double most = -INFINITY;

    for (uint64_t i = 0; i < n; i++)
        most = v[i] > most ? v[i] : most;
    if (!(most > 0))
        return tg_fail(err, TG_INVALID, "operation 'illumination': flat has no number above 0");
    for (uint64_t i = 0; i < n; i++)
        v[i] /= most;
    return TG_OK;
}

static tg_status setup_illumination(tg_op *op, tg_op_text *t, const tg_function_env *env,
                                    tg_error *err)
{
    const char *flat = NULL, *dark = NULL;

    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(make_mask(op, err));
    TG_TRY(tg_op_string(t, "flat", &flat, err));
    TG_TRY(tg_op_string(t, "dark", &dark, err));
    TG_TRY(tg_op_number(t, "background", &op->value, NULL, err));
    if (flat == NULL)
        return tg_fail(err, TG_INVALID, "operation 'illumination' wants flat=PATH");
    tg_op_mask *m = op->mask;
    TG_TRY(find_plane(op, env, m->axis, err));
    TG_TRY(load_profile(op, env, "operation 'illumination': flat", flat, &m->flat, err));
    TG_TRY(divide_by_largest(m->flat, m->shape[0] * m->shape[1], err));
    if (dark != NULL)
        TG_TRY(load_profile(op, env, "operation 'illumination': dark", dark, &m->dark, err));
    return tg_op_dtype(op, t, err);
}

/* n items along a row of the plane; step: of the profiles, 0 where the row lies across it. */
static void correct(const tg_op *op, double *v, const double *flat, const double *dark,
                    size_t step, size_t n, bool whole)
{
    const double background = op->value;

    for (size_t i = 0; dark != NULL && i < n; i++) {
        v[i] -= dark[i * step];
        v[i] = v[i] < 0 ? 0 : v[i];
    }
    for (size_t i = 0; i < n; i++) {
        const double x = v[i] <= background ? 0 : v[i] - background;
        v[i] = x / flat[i * step];
    }
    for (size_t i = 0; whole && i < n; i++)
        v[i] = trunc(v[i]); /* as numpy's astype */
}

static tg_status call_illumination(const tg_op *op, const tg_region_call *c,
                                   const tg_cancel *cancel, tg_error *err)
{
    const tg_op_mask *m = op->mask;
    const uint32_t last = c->in.ndim - 1, y = m->axis[0], x = m->axis[1];
    const size_t width = (size_t)m->shape[1];
    const size_t step = last == x ? 1 : last == y ? width : 0;
    const bool whole = c->out.dtype.kind == TG_DT_INT || c->out.dtype.kind == TG_DT_UINT;
    double v[TG_OP_BLOCK];
    tg_rows r;

    if (c->region[y] != m->shape[0] || c->region[x] != m->shape[1])
        return tg_fail(err, TG_INVALID,
                       "a region of %" PRIu64 " by %" PRIu64
                       " items, and the profile has %" PRIu64 " by %" PRIu64,
                       c->region[y], c->region[x], m->shape[0], m->shape[1]);
    tg_rows_of(&r, c->out.ndim, c->out.shape);
    if (!r.any)
        return TG_OK;
    do {
        const char *src = tg_rows_at(&r, &c->in, c->before);
        char *dst = tg_rows_at(&r, &c->out, NULL);
        const size_t at =
            (y < last ? (size_t)r.index[y] * width : 0) + (x < last ? (size_t)r.index[x] : 0);
        for (size_t i = 0; i < r.length; i += TG_OP_BLOCK) {
            const size_t n = r.length - i < TG_OP_BLOCK ? r.length - i : TG_OP_BLOCK;
            tg_items_load(v, c->in.dtype, src + (int64_t)i * tg_view_step(&c->in),
                          tg_view_step(&c->in), n);
            correct(op, v, m->flat + at + i * step,
                    m->dark == NULL ? NULL : m->dark + at + i * step, step, n, whole);
            tg_items_store(c->out.dtype, dst + (int64_t)i * tg_view_step(&c->out),
                           tg_view_step(&c->out), v, n);
        }
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

/* --- fill ------------------------------------------------------------------------------------
 */

static tg_status setup_fill(tg_op *op, tg_op_text *t, const tg_function_env *env, tg_error *err)
{
    static const char *const words[] = {"inside", "outside", NULL};
    const char *path = NULL;
    int where = 0;

    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(tg_op_number(t, "value", &op->value, NULL, err));
    TG_TRY(tg_op_string(t, "labels", &path, err));
    TG_TRY(tg_op_word(t, "where", words, &where, err));
    if (path == NULL && where != 0)
        return tg_fail(err, TG_INVALID,
                       "operation 'fill': where=outside of what? (labels=PATH)");
    if (path != NULL) {
        TG_TRY(make_mask(op, err));
        op->mask->outside = where == 1;
        TG_TRY(
            tg_op_labels_open(&op->mask->labels, env, "operation 'fill': labels", path, err));
    }
    return tg_op_dtype(op, t, err);
}

/* Runs of items inside (or outside) become the value. */
static void fill_runs(const tg_op *op, const tg_region_call *c, const uint64_t *label,
                      char *dst, size_t n)
{
    const int64_t step = tg_view_step(&c->out);
    unsigned char item[16] = {0};

    tg_items_store(c->out.dtype, item, 0, &op->value, 1);
    for (size_t i = 0; i < n; i++) {
        const bool inside = c->label != 0 ? label[i] == c->label : label[i] != 0;
        if (inside != op->mask->outside)
            memcpy(dst + (int64_t)i * step, item, c->out.dtype.size);
    }
}

static tg_status fill_masked(const tg_op *op, const tg_region_call *c, const tg_label_view *l,
                             const tg_cancel *cancel, tg_error *err)
{
    const uint32_t last = c->out.ndim - 1;
    uint64_t label[TG_OP_BLOCK];
    tg_rows r;

    tg_rows_of(&r, c->out.ndim, c->out.shape);
    do {
        const char *src = l->data;
        char *dst = tg_rows_at(&r, &c->out, NULL);
        for (uint32_t d = 0; d < last; d++)
            src += (int64_t)r.index[d] * l->strides[d];
        for (size_t i = 0; i < r.length; i += TG_OP_BLOCK) {
            const size_t n = r.length - i < TG_OP_BLOCK ? r.length - i : TG_OP_BLOCK;
            TG_TRY(tg_label_load(op->mask->labels.dtype, label,
                                 src + (int64_t)i * l->strides[last], l->strides[last], n,
                                 err));
            fill_runs(op, c, label, dst + (int64_t)i * tg_view_step(&c->out), n);
        }
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

static tg_status call_fill(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                           tg_error *err)
{
    tg_label_view l;

    if (op->mask == NULL) {
        tg_op_fill(op, c);
        return TG_OK;
    }
    const tg_op_labels *labels = &op->mask->labels;
    const uint64_t n = tg_op_labels_items(labels, c->region);
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array((size_t)n + 1, labels->dtype.size);
    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %" PRIu64 " labels", n);
    if (tg_view_items(&c->out) == 0)
        return TG_OK;
    TG_TRY(tg_op_cast(op, c, cancel, err));
    TG_TRY(tg_op_labels_read(labels, c, room, &l, cancel, err));
    return fill_masked(op, c, &l, cancel, err);
}

static uint64_t scratch_fill(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    (void)out;
    return op->mask == NULL ? 0 : tg_op_labels_bytes(&op->mask->labels, in->n);
}

const tg_op_kind tg_ops_mask[] = {
    {"fill", "value, labels, where, dtype", setup_fill, call_fill, scratch_fill},
    {"illumination", "flat, dark, background, dtype", setup_illumination, call_illumination,
     NULL},
    {NULL, NULL, NULL, NULL, NULL}};
