/* Lists of regions as files: our JSON, CSV, GeoJSON. Written a piece at a time. */
#include "region/roi_write.h"

#include "base/csv.h"
#include "base/json.h"
#include "tidegate/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 16 };

size_t tg_roi_name(const tg_roi_list *l, uint64_t i, const char **name, char room[32])
{
    if (l->name != NULL && l->name[i + 1] > l->name[i]) {
        *name = l->names + l->name[i];
        return (size_t)(l->name[i + 1] - l->name[i]);
    }
    *name = room;
    return (size_t)snprintf(room, 32, "roi_%" PRIu64, i);
}

void tg_roi_number(tg_text *t, double v)
{
    char room[40];

    if (fabs(v) <= 9007199254740992.0 && v == floor(v))
        (void)snprintf(room, sizeof room, "%.0f", v == 0 ? 0 : v);
    else
        tg_format_double(room, sizeof room, v);
    tg_text_add(t, room);
}

/* --- To pixels ------------------------------------------------------------------------------
 */

static void axes_of(const tg_ome_level *level, const char **axes, tg_shape *shape)
{
    shape->ndim = level->ndim;
    memcpy(shape->n, level->shape, sizeof shape->n);
    for (uint32_t i = 0; i < level->ndim; i++)
        axes[i] = level->axis[i];
}

/* One region at a time, as lists of one: the rounding adds up. */
tg_status tg_roi_look(const tg_roi_list *l, const tg_ome_level *level, tg_px_rule rule,
                      tg_roi_rounding *rounding, tg_error *err)
{
    tg_roi_rounding all = {.first_not_snapped = UINT64_MAX}, one;
    tg_roi_list single = *l;
    uint64_t bounds[2 * TG_MAX_NDIM];
    const char *axes[TG_MAX_NDIM];
    tg_shape shape;

    axes_of(level, axes, &shape);
    single.n = 1;
    for (uint64_t i = 0; i < l->n; i++) {
        single.start = l->start + i * l->n_axes;
        single.length = l->length + i * l->n_axes;
        TG_TRY(tg_rois_boxes(&single, &shape, axes, level->scale, rule, bounds, &one, err));
        if (one.not_snapped > 0 && all.not_snapped == 0)
            all.first_not_snapped = i;
        all.not_snapped += one.not_snapped;
        all.clamped += one.clamped;
        all.empty += one.empty;
    }
    *rounding = all;
    return TG_OK;
}

/* The boxes of one axis, from those of the array's dimension `dim`. */
static void take_axis(tg_roi_list *l, uint32_t to, const uint64_t *bounds, uint32_t ndim,
                      uint32_t dim)
{
    for (uint64_t i = 0; i < l->n; i++) {
        const uint64_t *b = bounds + i * 2 * ndim;
        l->start[i * l->n_axes + to] = (double)b[dim];
        l->length[i * l->n_axes + to] = (double)(b[ndim + dim] - b[dim]);
    }
}

static uint32_t find_dim(const char *const *axes, uint32_t ndim, const char *name)
{
    uint32_t dim = 0;

    while (dim < ndim && strcmp(axes[dim], name) != 0)
        dim++;
    return dim;
}

/* Do all regions take all of the array's dimension? */
static bool all_whole(const tg_roi_list *l, const uint64_t *bounds, const tg_shape *shape,
                      uint32_t dim)
{
    for (uint64_t i = 0; i < l->n; i++) {
        const uint64_t *b = bounds + i * 2 * shape->ndim;
        if (b[dim] != 0 || b[shape->ndim + dim] != shape->n[dim])
            return false;
    }
    return true;
}

/* Axes that the array lacks are gone, and those beside y and x that all regions take whole,
 * which says the same: so a box of all planes has a form in formats of the plane. */
static void take_axes(tg_roi_list *l, const uint64_t *bounds, const char *const *axes,
                      const tg_shape *shape)
{
    const uint32_t had = l->n_axes, ndim = shape->ndim;
    uint32_t kept = 0;

    for (uint32_t a = 0; a < had; a++) {
        const uint32_t dim = find_dim(axes, ndim, l->axes[a]);
        const bool planar = strcmp(l->axes[a], "y") == 0 || strcmp(l->axes[a], "x") == 0;
        if (dim == ndim || (!planar && all_whole(l, bounds, shape, dim)))
            continue;
        take_axis(l, kept, bounds, ndim, dim);
        memmove(l->axes[kept++], l->axes[a], sizeof l->axes[a]);
    }
    for (uint64_t i = 0; i < l->n && kept < had; i++) {
        memmove(l->start + i * kept, l->start + i * had, kept * sizeof(double));
        memmove(l->length + i * kept, l->length + i * had, kept * sizeof(double));
    }
    l->n_axes = kept;
}

tg_status tg_roi_to_pixels(tg_roi_set *s, const tg_ome_level *level, tg_px_rule rule,
                           tg_roi_rounding *rounding, size_t limit, tg_error *err)
{
    tg_roi_list *l = &s->list;
    const uint64_t each = 2 * (uint64_t)level->ndim * sizeof(uint64_t);
    const char *axes[TG_MAX_NDIM];
    tg_shape shape;

    axes_of(level, axes, &shape);
    if (each > 0 && l->n > limit / each)
        return tg_fail(err, TG_OVER_BUDGET,
                       "boxes of %" PRIu64 " regions take %" PRIu64 " bytes each, and no more "
                       "than %zu may be used",
                       l->n, each, limit);
    TG_AUTO(tg_mem_ptr) bounds = tg_alloc_array((size_t)l->n + 1, (size_t)each + 1);
    if (bounds == NULL)
        return tg_fail(err, TG_NO_MEMORY, "boxes");
    TG_TRY(tg_rois_boxes(l, &shape, axes, level->scale, rule, bounds, rounding, err));
    take_axes(l, bounds, axes, &shape);
    l->in_pixels = l->exact = true;
    (void)snprintf(l->unit, sizeof l->unit, "px");
    return TG_OK;
}

/* --- Pieces of a file
 * ------------------------------------------------------------------------- */

typedef struct sink {
    tg_object *object;
    tg_text text;
    uint64_t bytes;
    const tg_cancel *cancel;
} sink;

static void sink_auto(sink *k)
{
    tg_text_free(&k->text);
    tg_object_free(k->object);
}

static tg_status hand_on(sink *k, size_t from, tg_error *err)
{
    TG_TRY(tg_text_status(&k->text, err));
    if (k->text.len <= from)
        return TG_OK;
    TG_TRY(tg_object_write(k->object, k->text.data, k->text.len, k->cancel, err));
    k->bytes += k->text.len;
    k->text.len = 0;
    return TG_OK;
}

/* A string of JSON, quotes and all. */
static tg_status add_string(tg_text *t, const char *s, size_t len, tg_error *err)
{
    TG_AUTO(tg_text) copy = {0};
    TG_AUTO(tg_str) text = NULL;

    tg_text_add_n(&copy, s, len);
    tg_text_add(&copy, "");
    TG_TRY(tg_text_status(&copy, err));
    TG_AUTO_PTR(tg_json) v = tg_json_new_string(copy.data);
    if (v == NULL)
        return tg_fail(err, TG_NO_MEMORY, "JSON");
    TG_TRY(tg_json_write(v, false, (tg_json_options){0}, &text, err));
    tg_text_add(t, text);
    return TG_OK;
}

/* --- JSON
 * ------------------------------------------------------------------------------------- */

static tg_status json_region(const tg_roi_list *l, uint64_t i, tg_text *t, tg_error *err)
{
    tg_text_add(t, i == 0 ? "\n{" : ",\n{");
    if (l->name != NULL && l->name[i + 1] > l->name[i]) {
        tg_text_add(t, "\"name\":");
        TG_TRY(
            add_string(t, l->names + l->name[i], (size_t)(l->name[i + 1] - l->name[i]), err));
        tg_text_add(t, ",");
    }
    tg_text_add(t, "\"box\":[");
    for (uint32_t k = 0; k < l->n_axes; k++) {
        const double start = l->start[i * l->n_axes + k];
        tg_text_add(t, k == 0 ? "[" : ",[");
        tg_roi_number(t, start);
        tg_text_add(t, ",");
        tg_roi_number(t, start + l->length[i * l->n_axes + k]);
        tg_text_add(t, "]");
    }
    tg_text_add(t, "]");
    if (l->label != NULL && l->label[i] != 0)
        tg_text_addf(t, ",\"label\":%" PRIu64, l->label[i]);
    tg_text_add(t, "}");
    return TG_OK;
}

static tg_status write_json(const tg_roi_set *s, sink *k, tg_error *err)
{
    const tg_roi_list *l = &s->list;

    tg_text_add(&k->text, "{\"axes\":[");
    for (uint32_t i = 0; i < l->n_axes; i++) {
        tg_text_add(&k->text, i == 0 ? "" : ",");
        TG_TRY(add_string(&k->text, l->axes[i], strlen(l->axes[i]), err));
    }
    tg_text_add(&k->text, "],\"unit\":");
    TG_TRY(add_string(&k->text, l->unit, strlen(l->unit), err));
    tg_text_add(&k->text, ",\"rois\":[");
    for (uint64_t i = 0; i < l->n; i++) {
        TG_TRY(json_region(l, i, &k->text, err));
        TG_TRY(hand_on(k, PIECE, err));
    }
    tg_text_add(&k->text, "\n]}\n");
    return TG_OK;
}

/* --- CSV
 * -------------------------------------------------------------------------------------- */

static tg_status csv_header(const tg_roi_list *l, tg_text *t, tg_error *err)
{
    tg_text_add(t, l->in_pixels ? "name" : "FieldIndex");
    if (l->label != NULL)
        tg_text_add(t, ",label");
    for (uint32_t i = 0; i < l->n_axes; i++) {
        const char *a = l->axes[i];
        if (strlen(a) != 1 || strchr(l->in_pixels ? "tczyx" : "tzyx", a[0]) == NULL)
            return tg_fail(err, TG_UNSUPPORTED, "CSV has no columns for the axis '%s'", a);
        if (l->in_pixels)
            tg_text_addf(t, ",%s0,%s1", a, a);
        else if (a[0] == 't')
            tg_text_add(t, ",t_second,len_t_second");
        else
            tg_text_addf(t, ",%s_micrometer,len_%s_micrometer", a, a);
    }
    tg_text_add(t, "\n");
    return TG_OK;
}

static tg_status csv_row(const tg_roi_list *l, uint64_t i, tg_text *t, tg_error *err)
{
    TG_AUTO(tg_text) field = {0};
    char room[32];
    const char *name = NULL;
    const size_t len = tg_roi_name(l, i, &name, room);

    tg_text_add_n(&field, name, len);
    tg_text_add(&field, "");
    TG_TRY(tg_text_status(&field, err));
    tg_csv_write(t, field.data, ',', true);
    if (l->label != NULL)
        tg_text_addf(t, ",%" PRIu64, l->label[i]);
    for (uint32_t k = 0; k < l->n_axes; k++) {
        const double start = l->start[i * l->n_axes + k], length = l->length[i * l->n_axes + k];
        tg_text_add(t, ",");
        tg_roi_number(t, start);
        tg_text_add(t, ",");
        tg_roi_number(t, l->in_pixels ? start + length : length);
    }
    tg_text_add(t, "\n");
    return TG_OK;
}

static tg_status write_csv(const tg_roi_set *s, sink *k, tg_error *err)
{
    const tg_roi_list *l = &s->list;

    if (!l->in_pixels && strcmp(l->unit, "micrometer") != 0)
        return tg_fail(err, TG_UNSUPPORTED, "CSV has no columns for the unit '%s'", l->unit);
    TG_TRY(csv_header(l, &k->text, err));
    for (uint64_t i = 0; i < l->n; i++) {
        TG_TRY(csv_row(l, i, &k->text, err));
        TG_TRY(hand_on(k, PIECE, err));
    }
    return TG_OK;
}

/* --- GeoJSON
 * ---------------------------------------------------------------------------------- */

typedef struct planes {
    uint32_t x, y, c, z, t; /* places of the axes; UINT32_MAX: none */
} planes;

static tg_status find_planes(const tg_roi_list *l, planes *p, tg_error *err)
{
    uint32_t *const at[] = {&p->t, &p->c, &p->z, &p->y, &p->x};
    static const char letters[] = "tczyx";

    for (size_t i = 0; i < 5; i++)
        *at[i] = UINT32_MAX;
    for (uint32_t i = 0; i < l->n_axes; i++) {
        const char *found = strlen(l->axes[i]) == 1 ? strchr(letters, l->axes[i][0]) : NULL;
        if (found == NULL)
            return tg_fail(err, TG_UNSUPPORTED, "GeoJSON has no form for the axis '%s'",
                           l->axes[i]);
        *at[found - letters] = i;
    }
    if (!l->in_pixels)
        return tg_fail(err, TG_UNSUPPORTED,
                       "GeoJSON is in pixels, the list in %s: name the image and a rule",
                       l->unit);
    if (p->x == UINT32_MAX || p->y == UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "GeoJSON needs the axes y and x");
    return TG_OK;
}

/* A feature lies in one plane, or (c) in all. */
static tg_status plane_of(const tg_roi_list *l, uint64_t i, uint32_t axis, double none,
                          double *out, tg_error *err)
{
    *out = none;
    if (axis == UINT32_MAX)
        return TG_OK;
    *out = l->start[i * l->n_axes + axis];
    if (l->length[i * l->n_axes + axis] != 1 || *out != floor(*out) || *out < 0)
        return tg_fail(err, TG_UNSUPPORTED,
                       "region %" PRIu64 " is not one plane of %s, as GeoJSON has it", i,
                       l->axes[axis]);
    return TG_OK;
}

static void ring_text(const double *xy, uint64_t n, tg_text *t)
{
    tg_text_add(t, "[");
    for (uint64_t i = 0; i <= n; i++) { /* closed: the first point again */
        const double *p = xy + 2 * (i == n ? 0 : i);
        tg_text_add(t, i == 0 ? "[" : ",[");
        tg_roi_number(t, p[0]);
        tg_text_add(t, ",");
        tg_roi_number(t, p[1]);
        tg_text_add(t, "]");
    }
    tg_text_add(t, "]");
}

static void outline_text(const tg_roi_set *s, uint64_t i, const planes *p, tg_text *t)
{
    const tg_roi_list *l = &s->list;
    const tg_roi_outlines *o = &s->outlines;
    const double *start = l->start + i * l->n_axes, *length = l->length + i * l->n_axes;
    const double x = start[p->x], y = start[p->y];
    const double right = x + length[p->x], bottom = y + length[p->y];
    const double box[] = {x, y, right, y, right, bottom, x, bottom};

    if (o->ring == NULL || o->ring[i] == o->ring[i + 1]) {
        ring_text(box, 4, t);
        return;
    }
    for (uint64_t k = o->ring[i]; k < o->ring[i + 1]; k++) {
        tg_text_add(t, k == o->ring[i] ? "" : ",");
        ring_text(o->xy + 2 * o->point[k], o->point[k + 1] - o->point[k], t);
    }
}

static tg_status feature(const tg_roi_set *s, uint64_t i, const planes *p, tg_text *t,
                         tg_error *err)
{
    const tg_roi_list *l = &s->list;
    double c = -1, z = 0, time = 0;
    char room[32];
    const char *name = NULL;
    const size_t len = tg_roi_name(l, i, &name, room);

    TG_TRY(plane_of(l, i, p->c, -1, &c, err));
    TG_TRY(plane_of(l, i, p->z, 0, &z, err));
    TG_TRY(plane_of(l, i, p->t, 0, &time, err));
    tg_text_add(t, i == 0 ? "\n" : ",\n");
    tg_text_add(t, "{\"type\":\"Feature\",\"geometry\":{\"type\":\"Polygon\"");
    if (c >= 0 || z > 0 || time > 0)
        tg_text_addf(t, ",\"plane\":{\"c\":%.0f,\"z\":%.0f,\"t\":%.0f}", c, z, time);
    tg_text_add(t, ",\"coordinates\":[");
    outline_text(s, i, p, t);
    tg_text_add(t, "]},\"properties\":{\"objectType\":\"annotation\",\"name\":");
    TG_TRY(add_string(t, name, len, err));
    tg_text_add(t, "}}");
    return TG_OK;
}

static tg_status write_geojson(const tg_roi_set *s, sink *k, tg_error *err)
{
    planes p;

    TG_TRY(find_planes(&s->list, &p, err));
    tg_text_add(&k->text, "{\"type\":\"FeatureCollection\",\"features\":[");
    for (uint64_t i = 0; i < s->list.n; i++) {
        TG_TRY(feature(s, i, &p, &k->text, err));
        TG_TRY(hand_on(k, PIECE, err));
    }
    tg_text_add(&k->text, "\n]}\n");
    return TG_OK;
}

/* --- Files
 * --------------------------------------------------------------------------------------- */

typedef tg_status (*write_fn)(const tg_roi_set *s, sink *k, tg_error *err);

static write_fn writer_of(const char *path)
{
    const char *dot = strrchr(path, '.');

    if (dot == NULL)
        return NULL;
    return strcmp(dot, ".json") == 0      ? write_json
           : strcmp(dot, ".csv") == 0     ? write_csv
           : strcmp(dot, ".geojson") == 0 ? write_geojson
                                          : NULL;
}

tg_status tg_roi_write_file(const tg_roi_set *s, const char *path, bool overwrite,
                            const tg_cancel *cancel, tg_error *err)
{
    const tg_store_options mode = {.size = sizeof mode, .mode = TG_STORE_READ_WRITE};
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    const write_fn write = writer_of(path);
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO(tg_str) folder = tg_strdup(path);
    uint64_t bytes = 0;

    if (folder == NULL)
        return tg_fail(err, TG_NO_MEMORY, "'%.200s'", path);
    if (write == NULL)
        return tg_fail(err, TG_INVALID,
                       "'%.200s': want FILE.json, FILE.csv or FILE.geojson to write", path);
    if (slash != NULL)
        folder[slash == path ? 1 : slash - path] = '\0';
    TG_TRY(tg_store_open_fs(&store, slash == NULL ? "." : folder, &mode, err));
    if (!overwrite && tg_store_size(store, name, &bytes, cancel, NULL) != TG_NOT_FOUND)
        return tg_fail(err, TG_EXISTS, "'%.200s' is there (--overwrite replaces it)", path);
    TG_AUTO(sink) k = {.cancel = cancel};
    TG_TRY(tg_object_begin(store, name, (tg_object_options){0}, &k.object, cancel, err));
    tg_status st = write(s, &k, err);
    if (st == TG_OK)
        st = hand_on(&k, 0, err);
    if (st == TG_OK)
        st = tg_object_seal(k.object, k.bytes, cancel, err);
    if (st != TG_OK)
        tg_object_abort(k.object);
    tg_object_free(tg_steal(k.object));
    TG_TRY(st);
    return tg_store_close(store, err);
}
