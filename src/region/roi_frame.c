/* Tables of boxes. Five forms, told apart by the names of their columns alone; a header that
 * fits none, or two, is refused. */
#include "region/roi_frame.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const tg_roi_fractal_columns[] = {"x_micrometer",
                                              "y_micrometer",
                                              "z_micrometer",
                                              "len_x_micrometer",
                                              "len_y_micrometer",
                                              "len_z_micrometer",
                                              "t_second",
                                              "len_t_second",
                                              "label",
                                              NULL};

/* Where a box's numbers are: per axis a column of starts, and one of ends or of lengths. */
typedef struct box_columns {
    char axes[TG_ROI_MAX_AXES + 1]; /* slowest first */
    uint32_t n;
    const tg_frame_column *start[TG_ROI_MAX_AXES], *end[TG_ROI_MAX_AXES];
    bool ends; /* exclusive ends, not lengths */
    const tg_frame_column *name, *label;
    const char *unit; /* NULL: pixels */
} box_columns;

static tg_status check_numbers(const tg_frame_column *c, tg_error *err)
{
    if (c->number == NULL)
        return tg_fail(err, TG_CORRUPT, "column '%.60s' holds text, want numbers", c->name);
    return TG_OK;
}

/* A label is a whole number of 0 or more. */
static tg_status read_label(const tg_frame_column *c, uint64_t row, uint64_t *label,
                            tg_error *err)
{
    char room[32];
    const char *s = NULL;
    size_t len = 0;
    uint64_t v = 0;

    tg_frame_text(c, row, room, &s, &len);
    if (c->number != NULL && isnan(c->number[row])) {
        *label = 0;
        return TG_OK;
    }
    for (size_t i = 0; i < len; i++)
        if (s[i] < '0' || s[i] > '9' || __builtin_mul_overflow(v, UINT64_C(10), &v) ||
            __builtin_add_overflow(v, (uint64_t)(s[i] - '0'), &v))
            return tg_fail(err, TG_CORRUPT, "%s '%.*s': want a whole number of 0 or more",
                           c->name, len > 40 ? 40 : (int)len, s);
    if (len == 0 || (c->number != NULL && v > (uint64_t)TG_ROI_EXACT))
        return tg_fail(err, TG_CORRUPT, "%s '%.*s': want a whole number up to 2^53", c->name,
                       (int)len, s);
    *label = v;
    return TG_OK;
}

static tg_status add_row(tg_roi_builder *b, const box_columns *k, uint64_t row, tg_error *err)
{
    double start[TG_ROI_MAX_AXES], length[TG_ROI_MAX_AXES];
    tg_roi_new r = {.start = start, .length = length};
    char room[32];

    for (uint32_t i = 0; i < k->n; i++) {
        start[i] = k->start[i]->number[row];
        length[i] = k->end[i]->number[row] - (k->ends ? start[i] : 0);
    }
    if (k->name != NULL)
        tg_frame_text(k->name, row, room, &r.name, &r.name_len);
    if (k->label != NULL)
        TG_TRY(read_label(k->label, row, &r.label, err));
    return tg_roi_add(b, &r, err);
}

static tg_status add_rows(tg_roi_set *out, const tg_frame *f, const box_columns *k,
                          const char *format, size_t limit, tg_error *err)
{
    TG_AUTO(tg_roi_builder) b = {0};

    for (uint32_t i = 0; i < k->n; i++) {
        TG_TRY(check_numbers(k->start[i], err));
        TG_TRY(check_numbers(k->end[i], err));
    }
    if (k->label != NULL && k->label->rounded)
        return tg_fail(err, TG_CORRUPT, "column '%.60s' holds labels beyond 2^53",
                       k->label->name);
    if (f->bytes > limit)
        return tg_fail(err, TG_OVER_BUDGET, "a table of %zu bytes, and %zu may be used",
                       f->bytes, limit);
    tg_roi_begin(&b, format, k->axes, k->unit, limit - f->bytes);
    for (uint64_t row = 0; row < f->n; row++) {
        const tg_status st = add_row(&b, k, row, err);
        if (st != TG_OK) {
            tg_error_prefix(err, "region %" PRIu64, row);
            return st;
        }
    }
    return tg_roi_finish(&b, out, err);
}

static void add_axis(box_columns *k, char axis, const tg_frame_column *start,
                     const tg_frame_column *end)
{
    k->axes[k->n] = axis;
    k->start[k->n] = start;
    k->end[k->n] = end;
    k->n++;
}

/* Both columns of an axis or none. *has: both. */
static tg_status pair(const tg_frame *f, const char *start, const char *end,
                      const tg_frame_column **s, const tg_frame_column **e, bool *has,
                      tg_error *err)
{
    *s = tg_frame_find(f, start);
    *e = tg_frame_find(f, end);
    *has = *s != NULL && *e != NULL;
    if (!*has && (*s != NULL || *e != NULL))
        return tg_fail(err, TG_CORRUPT, "column '%s' without '%s'", *s != NULL ? start : end,
                       *s != NULL ? end : start);
    return TG_OK;
}

static const tg_frame_column *names_of(const tg_frame *f)
{
    const tg_frame_column *name = tg_frame_find(f, "name");

    if (f->index != UINT32_MAX)
        return &f->columns[f->index];
    return name != NULL ? name : tg_frame_find(f, "FieldIndex");
}

/* --- Lengths, as Fractal and ngio have them
 * --------------------------------------------------- */

static bool is_missing(const tg_frame_column *c, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (c->number == NULL || !isnan(c->number[i]))
            return false;
    return true;
}

tg_status tg_roi_from_fractal(tg_roi_set *out, const tg_frame *f, const char *format,
                              const char *instance, size_t limit, tg_error *err)
{
    static const char axes[] = "tzyx";
    box_columns k = {.unit = "micrometer", .name = names_of(f)};
    const tg_frame_column *s = NULL, *e = NULL;

    for (const char *a = axes; *a != '\0'; a++) {
        char start[32], length[32];
        bool has = false;
        const char *unit = *a == 't' ? "second" : "micrometer";
        (void)snprintf(start, sizeof start, "%c_%s", *a, unit);
        (void)snprintf(length, sizeof length, "len_%c_%s", *a, unit);
        TG_TRY(pair(f, start, length, &s, &e, &has, err));
        if (!has && (*a == 'y' || *a == 'x'))
            return tg_fail(err, TG_CORRUPT, "no columns '%s' and '%s'", start, length);
        if (has && !(*a == 't' && is_missing(s, f->n) && is_missing(e, f->n)))
            add_axis(&k, *a, s, e);
    }
    k.label = tg_frame_find(f, instance == NULL ? "label" : instance);
    return add_rows(out, f, &k, format, limit, err);
}

/* --- The axes of places ---------------------------------------------------------------------
 */

/* The n axes that numbers by place speak of: all of the array's where its number is n, else y,
 * x and z, y, x. */
static tg_status place_axes(const tg_roi_source *source, uint32_t n, char axes[], tg_error *err)
{
    static const char usual[] = "zyx";

    if (source != NULL && source->axes != NULL && source->array != NULL &&
        source->array->ndim == n) {
        for (uint32_t i = 0; i < n; i++) {
            const char *name = source->axes[i];
            if (name == NULL || strlen(name) != 1)
                return tg_fail(err, TG_UNSUPPORTED,
                               "columns by place, and axis %" PRIu32
                               " of the array has no name of one letter",
                               i);
            axes[i] = name[0];
        }
        axes[n] = '\0';
        return TG_OK;
    }
    if (n != 2 && n != 3)
        return tg_fail(err, TG_CORRUPT,
                       "%" PRIu32 " axes by place, and the array's are not known: want 2 or 3",
                       n);
    memcpy(axes, usual + (3 - n), n + 1);
    return TG_OK;
}

/* --- skimage: bbox-0 .. bbox-(2n-1), starts and then exclusive ends
 * ---------------------------- */

static tg_status skimage(const tg_frame *f, const tg_roi_source *source, box_columns *k,
                         tg_error *err)
{
    char name[32], axes[TG_ROI_MAX_AXES + 1];
    const tg_frame_column *c[2 * TG_ROI_MAX_AXES];
    uint32_t n = 0;

    for (; n < 2 * TG_ROI_MAX_AXES; n++) {
        (void)snprintf(name, sizeof name, "bbox-%" PRIu32, n);
        c[n] = tg_frame_find(f, name);
        if (c[n] == NULL)
            break;
    }
    if (n % 2 != 0)
        return tg_fail(err, TG_CORRUPT, "%" PRIu32 " columns 'bbox-i', want an even number", n);
    TG_TRY(place_axes(source, n / 2, axes, err));
    k->ends = true;
    for (uint32_t i = 0; i < n / 2; i++)
        add_axis(k, axes[i], c[i], c[n / 2 + i]);
    return TG_OK;
}

/* --- COCO: x, y, w, h
 * --------------------------------------------------------------------------- */

static const tg_frame_column *either(const tg_frame *f, const char *a, const char *b)
{
    const tg_frame_column *c = tg_frame_find(f, a);
    return c != NULL ? c : tg_frame_find(f, b);
}

static tg_status coco(const tg_frame *f, const tg_roi_source *source, box_columns *k,
                      tg_error *err)
{
    (void)source;
    const tg_frame_column *w = either(f, "w", "width"), *h = either(f, "h", "height");
    const tg_frame_column *x = tg_frame_find(f, "x"), *y = tg_frame_find(f, "y");

    if (w == NULL || h == NULL || x == NULL || y == NULL)
        return tg_fail(err, TG_CORRUPT, "x and y without w and h, or the reverse");
    add_axis(k, 'y', y, h);
    add_axis(k, 'x', x, w);
    return TG_OK;
}

/* --- Pairs: z0, z1, y0, y1, x0, x1
 * ---------------------------------------------------------------- */

static tg_status pairs(const tg_frame *f, const tg_roi_source *source, box_columns *k,
                       tg_error *err)
{
    static const char axes[] = "tczyx";

    (void)source;
    k->ends = true;
    for (const char *a = axes; *a != '\0'; a++) {
        const char start[] = {*a, '0', '\0'}, end[] = {*a, '1', '\0'};
        const tg_frame_column *s = NULL, *e = NULL;
        bool has = false;
        TG_TRY(pair(f, start, end, &s, &e, &has, err));
        if (has)
            add_axis(k, *a, s, e);
    }
    return TG_OK;
}

/* --- napari shapes: a row a vertex
 * ------------------------------------------------------------- */

typedef struct shapes {
    const tg_frame_column *index, *type, *axis[TG_ROI_MAX_AXES];
    uint32_t n;
} shapes;

/* Vertices of one shape are rows that follow each other. napari's pixel (0, 0) has its centre,
 * not its corner, at (0, 0): half a pixel is added. */
static tg_status add_shape(tg_roi_builder *b, const shapes *k, uint64_t first, uint64_t end,
                           tg_error *err)
{
    double start[TG_ROI_MAX_AXES], length[TG_ROI_MAX_AXES];
    char room[32];
    const char *type = NULL;
    size_t len = 0;

    tg_frame_text(k->type, first, room, &type, &len);
    if (!((len == 9 && memcmp(type, "rectangle", 9) == 0) ||
          (len == 7 && (memcmp(type, "polygon", 7) == 0 || memcmp(type, "ellipse", 7) == 0))))
        return tg_fail(err, TG_UNSUPPORTED,
                       "a shape of type '%.*s', want rectangle, polygon or ellipse",
                       len > 40 ? 40 : (int)len, type);
    for (uint32_t i = 0; i < k->n; i++) {
        double low = k->axis[i]->number[first], high = low;
        for (uint64_t row = first; row < end; row++) {
            const double v = k->axis[i]->number[row];
            if (!isfinite(v))
                return tg_fail(err, TG_CORRUPT, "a vertex that is no number");
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        /* Axes before the last two are planes that the shape lies in, whole numbers. */
        const bool plane = i + 2 < k->n && low == high && low == floor(low);
        start[i] = plane ? low : low + 0.5;
        length[i] = plane ? 1 : high - low;
    }
    tg_roi_new r = {.start = start, .length = length};
    tg_frame_text(k->index, first, room, &r.name, &r.name_len);
    return tg_roi_add(b, &r, err);
}

static tg_status napari(tg_roi_set *out, const tg_frame *f, const tg_roi_source *source,
                        const char *format, size_t limit, tg_error *err)
{
    TG_AUTO(tg_roi_builder) b = {0};
    shapes k = {.index = tg_frame_find(f, "index"), .type = tg_frame_find(f, "shape-type")};
    char name[32], axes[TG_ROI_MAX_AXES + 1];

    for (; k.n < TG_ROI_MAX_AXES; k.n++) {
        (void)snprintf(name, sizeof name, "axis-%" PRIu32, k.n);
        k.axis[k.n] = tg_frame_find(f, name);
        if (k.axis[k.n] == NULL)
            break;
        TG_TRY(check_numbers(k.axis[k.n], err));
    }
    if (k.index == NULL || k.index->number == NULL || k.type == NULL || k.n < 2)
        return tg_fail(err, TG_CORRUPT,
                       "a table of napari's shapes needs index, shape-type, axis-0, axis-1");
    TG_TRY(place_axes(source, k.n, axes, err));
    tg_roi_begin(&b, format, axes, NULL, limit > f->bytes ? limit - f->bytes : 0);
    for (uint64_t first = 0; first < f->n;) {
        uint64_t end = first + 1;
        while (end < f->n && k.index->number[end] == k.index->number[first])
            end++;
        const tg_status st = add_shape(&b, &k, first, end, err);
        if (st != TG_OK) {
            tg_error_prefix(err, "row %" PRIu64, first);
            return st;
        }
        first = end;
    }
    return tg_roi_finish(&b, out, err);
}

/* --- Which of them
 * ---------------------------------------------------------------------------- */

typedef struct form {
    const char *name;
    const char *marks[6]; /* one of these columns: it may be this form */
    tg_status (*columns)(const tg_frame *, const tg_roi_source *, box_columns *, tg_error *);
} form;

enum { FRACTAL, SKIMAGE, COCO, PAIRS, NAPARI, N_FORMS };
static const form forms[N_FORMS] = {
    [FRACTAL] = {"Fractal's lengths (x_micrometer, len_x_micrometer, ...)",
                 {"x_micrometer", "len_x_micrometer", "y_micrometer", "len_y_micrometer"},
                 NULL},
    [SKIMAGE] = {"skimage's bbox-0, bbox-1, ...", {"bbox-0", "bbox-1"}, skimage},
    [COCO] = {"x, y, w, h", {"w", "h", "width", "height"}, coco},
    [PAIRS] = {"pairs (z0, z1, y0, y1, x0, x1)", {"y0", "y1", "x0", "x1"}, pairs},
    [NAPARI] = {"napari's shapes (index, shape-type, axis-0, ...)",
                {"shape-type", "vertex-index", "axis-0"},
                NULL},
};

static bool has_mark(const tg_frame *f, const form *m)
{
    for (size_t i = 0; i < sizeof m->marks / sizeof m->marks[0]; i++)
        if (m->marks[i] != NULL && tg_frame_find(f, m->marks[i]) != NULL)
            return true;
    return false;
}

static tg_status which_form(const tg_frame *f, int *out, tg_error *err)
{
    *out = -1;
    for (int i = 0; i < N_FORMS; i++) {
        if (!has_mark(f, &forms[i]))
            continue;
        if (*out >= 0)
            return tg_fail(err, TG_CORRUPT,
                           "the header fits both %s and %s: which are the boxes?",
                           forms[*out].name, forms[i].name);
        *out = i;
    }
    if (*out < 0)
        return tg_fail(err, TG_CORRUPT, "the header names no boxes: want %s; %s; %s; %s; or %s",
                       forms[0].name, forms[1].name, forms[2].name, forms[3].name,
                       forms[4].name);
    return TG_OK;
}

tg_status tg_roi_from_frame(tg_roi_set *out, const tg_frame *f, const char *format,
                            const tg_roi_source *source, size_t limit, tg_error *err)
{
    box_columns k = {.name = names_of(f), .label = tg_frame_find(f, "label")};
    int which = -1;

    TG_TRY(which_form(f, &which, err));
    if (which == FRACTAL)
        return tg_roi_from_fractal(out, f, format, NULL, limit, err);
    if (which == NAPARI)
        return napari(out, f, source, format, limit, err);
    TG_TRY(forms[which].columns(f, source, &k, err));
    return add_rows(out, f, &k, format, limit, err);
}

tg_status tg_roi_read_csv(tg_roi_set *out, tg_bytes text, const tg_roi_source *source,
                          tg_error *err)
{
    const size_t limit = source == NULL ? SIZE_MAX : source->limit;
    TG_AUTO(tg_frame) f = {0};

    TG_TRY(tg_frame_csv(&f, text, "name", limit, err));
    return tg_roi_from_frame(out, &f, "csv", source, limit, err);
}
