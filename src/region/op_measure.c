/* Operations that make rows of a table and no array: measure (a row for each label, as
 * scikit-image's regionprops_table) and stats (a row for each region).
 *
 * Sums of integers are exact in 128 bits, squares of those up to 32 bits too. Others are summed
 * in doubles around the first value, so that a large offset costs nothing, in C order; parts of
 * a label are merged in list order. So a table depends on the regions, not on who ran them. */
#include "region/op.h"
#include "region/op_other.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

#define MOST_AXES TG_OP_LABEL_AXES
#define MOST_SLOTS \
    1024 /* labels of a region in memory; what is full is handed on and begun anew */
#define NAME_BYTES 24

/* Values of a row as it is added: these, then of each axis its first and last item and the sum
 * of its places. */
enum {
    V_PLACE, /* along the axis that labels lack */
    V_AREA,
    V_MIN,
    V_MAX,
    V_SUM,            /* integers: an int128 in two places; floats: a double */
    V_SQUARES = 6,    /* integers up to 32 bits: an uint128 in two places; else ... */
    V_AROUND = 6,     /* ... sum of values less the first, */
    V_AROUND_SQUARES, /* ... of the squares of that, */
    V_FIRST,          /* ... and the first */
    V_AXES
};
enum { A_LOW, A_HIGH, A_SUM, A_N };

typedef enum exactness { EXACT_SQUARES, EXACT_SUM, DOUBLES } exactness;

struct tg_op_table {
    tg_op_labels labels; /* array NULL: IN is the label image */
    bool has_labels, intensity;
    exactness exact;
    uint32_t n_axes;          /* of the labels */
    uint32_t axis[MOST_AXES]; /* of IN */
    uint32_t key_axis;        /* of IN; UINT32_MAX: none */
    uint32_t n_values;
    char names[3 * MOST_AXES + 8][NAME_BYTES];
    const char *columns[3 * MOST_AXES + 8];
};

void tg_op_table_free(tg_op_table *m)
{
    if (m == NULL)
        return;
    tg_op_other_close(&m->labels.other);
    tg_free(m);
}

/* --- One row
 * --------------------------------------------------------------------------------- */

static int128 get_sum(const double *v)
{
    int128 s;
    memcpy(&s, v + V_SUM, sizeof s);
    return s;
}

static void put_sum(double *v, int128 s)
{
    memcpy(v + V_SUM, &s, sizeof s);
}

static uint128 get_squares(const double *v)
{
    uint128 s;
    memcpy(&s, v + V_SQUARES, sizeof s);
    return s;
}

static void put_squares(double *v, uint128 s)
{
    memcpy(v + V_SQUARES, &s, sizeof s);
}

/* NaN wins, as in numpy. */
static double least(double a, double b)
{
    return isnan(a) || (!isnan(b) && a < b) ? a : b;
}

static double greatest(double a, double b)
{
    return isnan(a) || (!isnan(b) && a > b) ? a : b;
}

static void begin_row(double *v, const tg_op_table *m, double place)
{
    memset(v, 0, m->n_values * sizeof *v);
    v[V_PLACE] = place;
    v[V_MIN] = INFINITY;
    v[V_MAX] = -INFINITY;
    for (uint32_t a = 0; a < m->n_axes; a++) {
        v[V_AXES + a * A_N + A_LOW] = INFINITY;
        v[V_AXES + a * A_N + A_HIGH] = -INFINITY;
    }
}

static void merge_row(const tg_function *f, double *into, const double *more)
{
    const tg_op_table *m = ((const tg_op *)f)->table;

    into[V_MIN] = least(into[V_MIN], more[V_MIN]);
    into[V_MAX] = greatest(into[V_MAX], more[V_MAX]);
    if (m->exact == DOUBLES)
        into[V_SUM] += more[V_SUM];
    else
        put_sum(into, get_sum(into) + get_sum(more));
    if (m->exact == EXACT_SQUARES) {
        put_squares(into, get_squares(into) + get_squares(more));
    } else {
        const double d = more[V_FIRST] - into[V_FIRST], n = more[V_AREA];
        into[V_AROUND_SQUARES] += more[V_AROUND_SQUARES] + 2 * d * more[V_AROUND] + n * d * d;
        into[V_AROUND] += more[V_AROUND] + n * d;
    }
    into[V_AREA] += more[V_AREA];
    for (uint32_t a = 0; a < m->n_axes; a++) {
        double *to = into + V_AXES + (size_t)a * A_N;
        const double *from = more + V_AXES + (size_t)a * A_N;
        to[A_LOW] = least(to[A_LOW], from[A_LOW]);
        to[A_HIGH] = greatest(to[A_HIGH], from[A_HIGH]);
        to[A_SUM] += from[A_SUM];
    }
}

static double mean_of(const tg_op_table *m, const double *v)
{
    return m->exact == DOUBLES ? v[V_SUM] / v[V_AREA]
                               : (double)((long double)get_sum(v) / (long double)v[V_AREA]);
}

/* Of the population, as numpy.std: squares of what is left of the whole part of the mean, which
 * no large offset cancels. */
static double deviation(const tg_op_table *m, const double *v)
{
    const double n = v[V_AREA];
    double left;

    if (m->exact == EXACT_SQUARES) {
        const int128 count = (int128)n, sum = get_sum(v), whole = sum / count;
        const int128 rest = sum - whole * count;
        const int128 squares = (int128)get_squares(v) - 2 * whole * sum + count * whole * whole;
        left = (double)((long double)squares - (long double)rest * (long double)rest / n);
    } else {
        left = v[V_AROUND_SQUARES] - v[V_AROUND] * v[V_AROUND] / n;
    }
    return sqrt(left < 0 ? 0 : left / n);
}

static void finish_row(const tg_function *f, const double *v, double *to)
{
    const tg_op_table *m = ((const tg_op *)f)->table;
    const double *axes = v + V_AXES;

    *to++ = v[V_AREA];
    for (uint32_t a = 0; a < m->n_axes; a++)
        *to++ = axes[a * A_N + A_LOW];
    for (uint32_t a = 0; a < m->n_axes; a++)
        *to++ = axes[a * A_N + A_HIGH] + 1;
    for (uint32_t a = 0; a < m->n_axes; a++)
        *to++ = axes[a * A_N + A_SUM] / v[V_AREA];
    if (!m->intensity)
        return;
    *to++ = mean_of(m, v);
    *to++ = v[V_MIN];
    *to++ = v[V_MAX];
    *to++ = m->exact == DOUBLES ? v[V_SUM] : (double)get_sum(v);
    *to = deviation(m, v);
}

/* --- Items into a row
 * ------------------------------------------------------------------------ */

static void add_whole(const tg_op_table *m, double *v, const double *x, size_t n)
{
    int64_t sum = 0; /* of at most TG_OP_BLOCK items of 32 bits */
    uint128 squares = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (int64_t)x[i];
        v[V_MIN] = x[i] < v[V_MIN] ? x[i] : v[V_MIN];
        v[V_MAX] = x[i] > v[V_MAX] ? x[i] : v[V_MAX];
    }
    for (size_t i = 0; i < n; i++) {
        const int64_t w = (int64_t)x[i];
        squares += (uint128)((uint64_t)(w < 0 ? -w : w)) * (uint64_t)(w < 0 ? -w : w);
    }
    (void)m;
    put_sum(v, get_sum(v) + sum);
    put_squares(v, get_squares(v) + squares);
}

/* Floats, and integers of 64 bits, whose sum is exact all the same. */
static void add_around(const tg_op_table *m, double *v, const double *x,
                       const long double *wide, size_t n)
{
    if (v[V_AREA] == 0 && n > 0)
        v[V_FIRST] = x[0];
    for (size_t i = 0; i < n; i++) {
        const double d = x[i] - v[V_FIRST];
        v[V_AROUND] += d;
        v[V_AROUND_SQUARES] += d * d;
        v[V_MIN] = least(v[V_MIN], x[i]);
        v[V_MAX] = greatest(v[V_MAX], x[i]);
        if (m->exact == DOUBLES)
            v[V_SUM] += x[i];
        else
            put_sum(v, get_sum(v) + (int128)wide[i]);
    }
}

/* A row of items of IN, at most TG_OP_BLOCK. */
typedef struct strip {
    double x[TG_OP_BLOCK];
    long double wide[TG_OP_BLOCK];
    uint64_t label[TG_OP_BLOCK];
} strip;

static void load_items(const tg_op_table *m, tg_dtype t, strip *s, const char *src,
                       int64_t step, size_t n)
{
    if (!m->intensity)
        return;
    tg_items_load(s->x, t, src, step, n);
    if (m->exact == EXACT_SUM)
        tg_items_load_wide(s->wide, t, src, step, n);
}

static void add_items(const tg_op_table *m, double *v, const strip *s, size_t from, size_t n)
{
    if (m->intensity && m->exact == EXACT_SQUARES)
        add_whole(m, v, s->x + from, n);
    else if (m->intensity)
        add_around(m, v, s->x + from, s->wide + from, n);
    v[V_AREA] += (double)n;
}

/* n items from `at` on, side by side along the last axis of IN. */
static void add_places(const tg_op_table *m, double *v, const uint64_t *at, uint32_t last,
                       size_t n)
{
    for (uint32_t a = 0; a < m->n_axes; a++) {
        const uint32_t d = m->axis[a];
        const double low = (double)at[d], high = d == last ? low + (double)(n - 1) : low;
        double *to = v + V_AXES + (size_t)a * A_N;
        to[A_LOW] = low < to[A_LOW] ? low : to[A_LOW];
        to[A_HIGH] = high > to[A_HIGH] ? high : to[A_HIGH];
        to[A_SUM] += (low + high) * (double)n / 2; /* whole: one factor is even */
    }
}

/* --- Labels of a region, as many at once as have a slot
 * ----------------------------------------- */

typedef struct slots {
    const tg_op_table *m;
    const tg_region_call *c;
    uint64_t *label; /* of each slot */
    double *rows;
    uint16_t *hash; /* 2 x MOST_SLOTS places: slot + 1 */
    size_t n;
} slots;

static size_t slots_bytes(const tg_op_table *m)
{
    return MOST_SLOTS * (sizeof(uint64_t) + m->n_values * sizeof(double)) +
           (size_t)2 * MOST_SLOTS * sizeof(uint16_t);
}

static tg_status hand_on(slots *s, tg_error *err)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->c->row(s->c->row_user, s->label[i], s->rows + i * s->m->n_values) != 0)
            return tg_fail(err, TG_IO, "a row of the table could not be kept");
    s->n = 0;
    memset(s->hash, 0, (size_t)2 * MOST_SLOTS * sizeof *s->hash);
    return TG_OK;
}

static tg_status row_of(slots *s, uint64_t label, double place, double **out, tg_error *err)
{
    const size_t mask = 2 * MOST_SLOTS - 1;
    size_t at = (size_t)((label * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)place) >> 40) & mask;

    for (; s->hash[at] != 0; at = (at + 1) & mask) {
        const size_t i = s->hash[at] - (size_t)1;
        *out = s->rows + i * s->m->n_values;
        if (s->label[i] == label && (*out)[V_PLACE] == place)
            return TG_OK;
    }
    if (s->n == MOST_SLOTS) {
        TG_TRY(hand_on(s, err));
        return row_of(s, label, place, out, err);
    }
    s->label[s->n] = label;
    *out = s->rows + s->n * s->m->n_values;
    begin_row(*out, s->m, place);
    s->hash[at] = (uint16_t)++s->n;
    return TG_OK;
}

/* --- measure
 * ------------------------------------------------------------------------------------- */

static tg_status add_strip(slots *s, strip *p, const uint64_t *at, size_t n, tg_error *err)
{
    const tg_op_table *m = s->m;
    const uint32_t last = s->c->in.ndim - 1;
    uint64_t place[TG_MAX_NDIM];
    double *row = NULL;

    memcpy(place, at, s->c->in.ndim * sizeof *place);
    for (size_t i = 0, k = 0; i < n; i = k) {
        for (k = i + 1; k < n && p->label[k] == p->label[i] && m->key_axis != last;)
            k++;
        if (p->label[i] == 0)
            continue;
        place[last] = at[last] + i;
        const double key = m->key_axis == UINT32_MAX ? 0 : (double)place[m->key_axis];
        TG_TRY(row_of(s, p->label[i], key, &row, err));
        add_items(m, row, p, i, k - i);
        add_places(m, row, place, last, k - i);
    }
    return TG_OK;
}

static tg_status measure_rows(slots *s, const tg_label_view *l, const tg_cancel *cancel,
                              tg_error *err)
{
    const tg_region_call *c = s->c;
    const uint32_t last = c->in.ndim - 1;
    const int64_t step = tg_view_step(&c->in);
    uint64_t at[TG_MAX_NDIM];
    strip p;
    tg_rows r;

    tg_rows_of(&r, c->in.ndim, c->region);
    do {
        const char *src = tg_rows_at(&r, &c->in, c->before), *labels = l->data;
        for (uint32_t d = 0; d < last; d++) {
            at[d] = c->in_start[d] + c->before[d] + r.index[d];
            labels += (int64_t)r.index[d] * l->strides[d];
        }
        for (size_t x = 0; x < r.length; x += TG_OP_BLOCK) {
            const size_t n = r.length - x < TG_OP_BLOCK ? r.length - x : TG_OP_BLOCK;
            at[last] = c->in_start[last] + c->before[last] + x;
            TG_TRY(tg_label_load(s->m->labels.dtype, p.label,
                                 labels + (int64_t)x * l->strides[last], l->strides[last], n,
                                 err));
            load_items(s->m, c->in.dtype, &p, src + (int64_t)x * step, step, n);
            TG_TRY(add_strip(s, &p, at, n, err));
        }
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    return TG_OK;
}

static tg_status call_measure(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                              tg_error *err)
{
    const tg_op_table *m = op->table;
    const size_t room =
        m->has_labels ? (size_t)tg_op_labels_items(&m->labels, c->region) * m->labels.dtype.size
                      : 0;
    TG_AUTO(tg_mem_ptr) labels = tg_alloc(room + 1);
    TG_AUTO(tg_mem_ptr) table = tg_calloc(1, slots_bytes(m));
    slots s = {.m = m, .c = c, .label = table};
    tg_label_view l;

    if (labels == NULL || table == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu bytes of labels", room);
    s.rows = (double *)(void *)(s.label + MOST_SLOTS);
    s.hash = (uint16_t *)(void *)(s.rows + (size_t)MOST_SLOTS * m->n_values);
    for (uint32_t d = 0; d < c->in.ndim; d++)
        if (c->region[d] == 0)
            return TG_OK;
    if (m->has_labels)
        TG_TRY(tg_op_labels_read(&m->labels, c, labels, &l, cancel, err));
    else
        tg_op_labels_of_in(c, &l);
    TG_TRY(measure_rows(&s, &l, cancel, err));
    return hand_on(&s, err);
}

static uint64_t scratch_measure(const tg_op *op, const tg_shape *in, const tg_shape *out)
{
    const tg_op_table *m = op->table;
    uint64_t n = slots_bytes(m);

    (void)out;
    if (m->has_labels)
        n += tg_op_labels_bytes(&m->labels, in->n);
    return n;
}

/* --- stats
 * --------------------------------------------------------------------------------------- */

static tg_status call_stats(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                            tg_error *err)
{
    const tg_op_table *m = op->table;
    const int64_t step = tg_view_step(&c->in);
    double row[V_AXES];
    strip p;
    tg_rows r;

    begin_row(row, m, 0);
    tg_rows_of(&r, c->in.ndim, c->region);
    if (!r.any)
        return TG_OK;
    do {
        const char *src = tg_rows_at(&r, &c->in, c->before);
        for (size_t x = 0; x < r.length; x += TG_OP_BLOCK) {
            const size_t n = r.length - x < TG_OP_BLOCK ? r.length - x : TG_OP_BLOCK;
            load_items(m, c->in.dtype, &p, src + (int64_t)x * step, step, n);
            add_items(m, row, &p, 0, n);
        }
        TG_TRY(tg_cancel_check(cancel, err));
    } while (tg_rows_next(&r));
    if (c->row(c->row_user, c->label, row) != 0)
        return tg_fail(err, TG_IO, "a row of the table could not be kept");
    return TG_OK;
}

/* --- Parameters
 * -------------------------------------------------------------------------------- */

static void add_column(tg_op_table *m, tg_function_facts *f, const char *name, int axis)
{
    char *to = m->names[f->n_columns];

    if (axis < 0)
        (void)snprintf(to, NAME_BYTES, "%s", name);
    else
        (void)snprintf(to, NAME_BYTES, "%s-%d", name, axis);
    m->columns[f->n_columns++] = to;
}

static void set_columns(tg_op_table *m, tg_function_facts *f, const char *count,
                        const char *prefix)
{
    static const char *const of_items[] = {"mean", "min", "max", "sum", "std"};
    char name[NAME_BYTES];

    add_column(m, f, count, -1);
    for (uint32_t a = 0; a < 2 * m->n_axes; a++)
        add_column(m, f, "bbox", (int)a);
    for (uint32_t a = 0; a < m->n_axes; a++)
        add_column(m, f, "centroid", (int)a);
    for (int i = 0; i < 5 && m->intensity; i++) {
        (void)snprintf(name, sizeof name, "%s%s", prefix, of_items[i]);
        add_column(m, f, name, -1);
    }
    f->columns = m->columns;
    f->n_values = m->n_values = V_AXES + A_N * m->n_axes;
}

static tg_status make_table(tg_op *op, tg_error *err)
{
    tg_op_table *m = tg_calloc(1, sizeof *m);

    if (m == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for operation '%s'", op->kind->name);
    op->table = m;
    m->key_axis = UINT32_MAX;
    m->intensity = true;
    m->exact = op->in_dtype.kind == TG_DT_FLOAT ? DOUBLES
               : tg_items_wide(op->in_dtype)    ? EXACT_SUM
                                                : EXACT_SQUARES;
    op->f.facts.has_out = false;
    op->f.facts.in_place = false;
    op->merge_row = merge_row;
    op->finish_row = finish_row;
    return op->in_shape.ndim > 0 ? TG_OK
                                 : tg_fail(err, TG_UNSUPPORTED,
                                           "%s of an array without dimensions", op->kind->name);
}

/* Dimensions of IN that the labels lack: one may be longer than an item, and becomes a column.
 */
static tg_status find_key(tg_op *op, const tg_function_env *env, tg_error *err)
{
    static const char *const usual = "plane";
    tg_op_table *m = op->table;
    bool has[TG_MAX_NDIM] = {false};

    for (uint32_t a = 0; a < m->n_axes; a++)
        has[m->axis[a]] = true;
    for (uint32_t d = 0; d < op->in_shape.ndim; d++) {
        if (has[d] || op->in_shape.n[d] == 1)
            continue;
        if (m->key_axis != UINT32_MAX)
            return tg_fail(err, TG_UNSUPPORTED,
                           "operation 'measure': the labels lack more than one axis of IN");
        m->key_axis = d;
        op->f.facts.has_key = true;
        op->f.facts.key = env->axes != NULL && env->axes[d] != NULL ? env->axes[d] : usual;
    }
    return TG_OK;
}

static tg_status open_labels(tg_op *op, const tg_function_env *env, const char *path,
                             tg_error *err)
{
    tg_op_table *m = op->table;
    const tg_op_other *o = &m->labels.other;
    const size_t skip =
        env->image == NULL || env->image[0] == '\0' ? 0 : strlen(env->image) + 1;

    TG_TRY(tg_op_labels_open(&m->labels, env, "operation 'measure': labels", path, err));
    m->has_labels = true;
    m->n_axes = m->labels.n_axes;
    memcpy(m->axis, m->labels.axis, sizeof m->axis);
    if (o->own == NULL && o->level.in_image && strlen(o->level.image) > skip)
        (void)snprintf(op->f.facts.label_path, sizeof op->f.facts.label_path, "%s",
                       o->level.image + skip);
    return find_key(op, env, err);
}

static tg_status labels_are_in(tg_op *op, tg_error *err)
{
    tg_op_table *m = op->table;

    m->intensity = false;
    m->labels.dtype = op->in_dtype;
    m->labels.n_axes = m->n_axes = op->in_shape.ndim;
    TG_TRY(tg_op_labels_check(&m->labels, "operation 'measure': IN", err));
    for (uint32_t a = 0; a < m->n_axes; a++)
        m->axis[a] = a;
    return TG_OK;
}

static tg_status setup_measure(tg_op *op, tg_op_text *t, const tg_function_env *env,
                               tg_error *err)
{
    static const char *const words[] = {"label", "region", NULL};
    const char *path = NULL;
    int per = 0;

    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(make_table(op, err));
    TG_TRY(tg_op_string(t, "labels", &path, err));
    TG_TRY(tg_op_word(t, "per", words, &per, err));
    op->f.facts.rows = per == 0 ? TG_ROWS_OF_LABELS : TG_ROWS_OF_REGIONS;
    if (path != NULL)
        TG_TRY(open_labels(op, env, path, err));
    else
        TG_TRY(labels_are_in(op, err));
    set_columns(op->table, &op->f.facts, "area", "intensity_");
    return TG_OK;
}

static tg_status setup_stats(tg_op *op, tg_op_text *t, const tg_function_env *env,
                             tg_error *err)
{
    (void)t;
    (void)env;
    TG_TRY(tg_op_need_numbers(op, err));
    TG_TRY(make_table(op, err));
    op->f.facts.rows = TG_ROWS_PLAIN;
    set_columns(op->table, &op->f.facts, "count", "");
    return TG_OK;
}

const tg_op_kind tg_ops_table[] = {
    {"measure", "labels, per", setup_measure, call_measure, scratch_measure},
    {"stats", "", setup_stats, call_stats, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
