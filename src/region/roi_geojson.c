/* GeoJSON, as QuPath writes and reads it: a FeatureCollection, a list of features, or one. The
 * text is checked whole, then a feature at a time becomes a tree, so that memory does not grow
 * with their number. */
#include "region/roi_build.h"
#include "region/roi_span.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- One feature
 * ------------------------------------------------------------------------------- */

typedef struct plane { /* -1: not said, or all */
    double c, z, t;
} plane;

/* What a feature is, before it is added: the corners of its box. */
typedef struct extent {
    double low[2], high[2]; /* x, y */
} extent;

typedef struct walk {
    tg_roi_builder *b;
    tg_buf ring; /* coordinates of one */
    bool planes; /* add t and z, and c */
    bool channels;
} walk;

static void walk_auto(walk *w)
{
    tg_buf_free(&w->ring);
}

static tg_status want(const tg_json *object, const char *key, tg_json_kind kind,
                      const tg_json **out, tg_error *err)
{
    *out = tg_json_get(object, key);
    if (tg_json_kind_of(*out) != kind)
        return tg_fail(err, TG_CORRUPT, "'%s': got %s, want %s", key,
                       *out == NULL ? "none" : tg_json_kind_name(tg_json_kind_of(*out)),
                       tg_json_kind_name(kind));
    return TG_OK;
}

static tg_status coordinate(const tg_json *point, size_t i, double *out, tg_error *err)
{
    TG_TRY(tg_json_double(tg_json_at(point, i), out, err));
    if (!isfinite(*out) || fabs(*out) > TG_ROI_EXACT)
        return tg_fail(err, TG_CORRUPT, "a coordinate of %.17g", *out);
    return TG_OK;
}

static tg_status read_ring(walk *w, const tg_json *ring, extent *e, tg_error *err)
{
    const size_t n = tg_json_size(ring);

    if (tg_json_kind_of(ring) != TG_JSON_ARRAY || n < 3)
        return tg_fail(err, TG_CORRUPT, "a ring of %zu points, want 3 or more", n);
    if (w->ring.len < n * 2 * sizeof(double))
        TG_TRY(tg_buf_resize(&w->ring, n * 4 * sizeof(double), err));
    double *xy = (double *)(void *)w->ring.data;
    for (size_t i = 0; i < n; i++) {
        const tg_json *point = tg_json_at(ring, i);
        if (tg_json_kind_of(point) != TG_JSON_ARRAY || tg_json_size(point) < 2)
            return tg_fail(err, TG_CORRUPT, "point %zu of a ring: want [x, y]", i);
        for (size_t k = 0; k < 2; k++) {
            TG_TRY(coordinate(point, k, &xy[2 * i + k], err));
            e->low[k] = fmin(e->low[k], xy[2 * i + k]);
            e->high[k] = fmax(e->high[k], xy[2 * i + k]);
        }
    }
    return tg_roi_add_ring(w->b, xy, n, err);
}

static tg_status read_polygon(walk *w, const tg_json *rings, extent *e, tg_error *err)
{
    if (tg_json_kind_of(rings) != TG_JSON_ARRAY || tg_json_size(rings) == 0)
        return tg_fail(err, TG_CORRUPT, "a polygon without rings");
    for (size_t i = 0; i < tg_json_size(rings); i++)
        TG_TRY(read_ring(w, tg_json_at(rings, i), e, err));
    return TG_OK;
}

static tg_status read_geometry(walk *w, const tg_json *geometry, extent *e, tg_error *err)
{
    const tg_json *type = NULL, *coordinates = NULL;
    const char *name = NULL;

    TG_TRY(want(geometry, "type", TG_JSON_STRING, &type, err));
    TG_TRY(tg_json_string(type, &name, NULL, err));
    const bool many = strcmp(name, "MultiPolygon") == 0;
    if (!many && strcmp(name, "Polygon") != 0)
        return tg_fail(err, TG_UNSUPPORTED,
                       "a geometry of type '%.40s' has no area, want Polygon or MultiPolygon",
                       name);
    TG_TRY(want(geometry, "coordinates", TG_JSON_ARRAY, &coordinates, err));
    if (!many)
        return read_polygon(w, coordinates, e, err);
    if (tg_json_size(coordinates) == 0)
        return tg_fail(err, TG_CORRUPT, "a MultiPolygon of none");
    for (size_t i = 0; i < tg_json_size(coordinates); i++)
        TG_TRY(read_polygon(w, tg_json_at(coordinates, i), e, err));
    return TG_OK;
}

static tg_status plane_member(const tg_json *from, const char *key, double *out, tg_error *err)
{
    const tg_json *v = tg_json_get(from, key);
    int64_t n = 0;

    if (v == NULL || tg_json_kind_of(v) == TG_JSON_NULL)
        return TG_OK;
    TG_TRY(tg_json_i64(v, &n, err));
    if (n < -1 || n > INT32_MAX)
        return tg_fail(err, TG_CORRUPT, "plane: %s is %" PRId64, key, n);
    *out = (double)n;
    return TG_OK;
}

/* QuPath's default plane is z 0, t 0, all channels. */
static tg_status read_plane(const tg_json *geometry, plane *p, tg_error *err)
{
    const tg_json *from = tg_json_get(geometry, "plane");

    *p = (plane){-1, 0, 0};
    if (from == NULL || tg_json_kind_of(from) == TG_JSON_NULL)
        return TG_OK;
    TG_TRY(plane_member(from, "c", &p->c, err));
    TG_TRY(plane_member(from, "z", &p->z, err));
    TG_TRY(plane_member(from, "t", &p->t, err));
    if (p->z < 0 || p->t < 0)
        return tg_fail(err, TG_CORRUPT, "plane: z and t of 0 or more are wanted");
    return TG_OK;
}

/* properties.name, else the classification's, else the feature's id. */
static void read_name(const tg_json *feature, const char **name, size_t *len)
{
    const tg_json *properties = tg_json_get(feature, "properties");
    const tg_json *kind = tg_json_get(properties, "classification");
    const tg_json *from[] = {tg_json_get(properties, "name"), tg_json_get(kind, "name"),
                             tg_json_get(feature, "id")};

    *name = NULL;
    *len = 0;
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
        if (tg_json_kind_of(from[i]) == TG_JSON_STRING &&
            tg_json_string(from[i], name, len, NULL) == TG_OK)
            return;
}

static tg_status open_feature(const span *s, tg_json **feature, const tg_json **geometry,
                              tg_error *err)
{
    const tg_json *type = NULL;
    const char *name = NULL;

    TG_TRY(tg_json_parse(feature, s->at, (size_t)(s->end - s->at), (tg_json_options){0}, err));
    if (tg_json_kind_of(*feature) != TG_JSON_OBJECT)
        return tg_fail(err, TG_CORRUPT, "got %s, want a feature",
                       tg_json_kind_name(tg_json_kind_of(*feature)));
    TG_TRY(want(*feature, "type", TG_JSON_STRING, &type, err));
    TG_TRY(tg_json_string(type, &name, NULL, err));
    if (strcmp(name, "Feature") != 0)
        return tg_fail(err, TG_CORRUPT, "type '%.40s', want 'Feature'", name);
    return want(*feature, "geometry", TG_JSON_OBJECT, geometry, err);
}

/* The first walk: does any feature name a plane but the first? */
static tg_status look_feature(walk *w, const span *s, tg_error *err)
{
    TG_AUTO_PTR(tg_json) feature = NULL;
    const tg_json *geometry = NULL;
    plane p;

    TG_TRY(open_feature(s, &feature, &geometry, err));
    TG_TRY(read_plane(geometry, &p, err));
    w->planes = w->planes || p.z > 0 || p.t > 0;
    w->channels = w->channels || p.c >= 0;
    return TG_OK;
}

static tg_status add_feature(walk *w, const span *s, tg_error *err)
{
    TG_AUTO_PTR(tg_json) feature = NULL;
    const tg_json *geometry = NULL;
    extent e = {{INFINITY, INFINITY}, {-INFINITY, -INFINITY}};
    double start[5], length[5];
    tg_roi_new r = {.start = start, .length = length};
    uint32_t n = 0;
    plane p;

    TG_TRY(open_feature(s, &feature, &geometry, err));
    TG_TRY(read_plane(geometry, &p, err));
    TG_TRY(read_geometry(w, geometry, &e, err));
    if (w->channels && p.c < 0)
        return tg_fail(err, TG_CORRUPT, "no channel, but other features name one");
    const double planes[] = {p.t, p.c, p.z};
    const bool has[] = {w->planes, w->channels, w->planes};
    for (size_t i = 0; i < 3; i++)
        if (has[i]) {
            start[n] = planes[i];
            length[n++] = 1;
        }
    for (int k = 1; k >= 0; k--) { /* y, then x: whole pixels that the outline touches */
        start[n] = floor(e.low[k]);
        length[n] = ceil(e.high[k]) - start[n];
        n++;
    }
    read_name(feature, &r.name, &r.name_len);
    return tg_roi_add(w->b, &r, err);
}

/* --- The whole -------------------------------------------------------------------------------
 */

static bool is_text(const char *p, const char *word)
{
    const size_t len = strlen(word);
    return p != NULL && *p == '"' && strncmp(p + 1, word, len) == 0 && p[1 + len] == '"';
}

/* The list of features; NULL in *list: the text is one feature, *one. */
static tg_status find_features(const char *text, const char **list, span *one, tg_error *err)
{
    const char *p = text;

    *list = p;
    if (*p == '[')
        return TG_OK;
    const char *type = find_member(p, "type");
    if (is_text(type, "Feature")) {
        *list = NULL;
        *one = (span){p, skip_value(p)};
        return TG_OK;
    }
    *list = find_member(p, "features");
    if (!is_text(type, "FeatureCollection") || *list == NULL || **list != '[')
        return tg_fail(err, TG_CORRUPT,
                       "GeoJSON: want a FeatureCollection with its features, a list of "
                       "features, or one");
    return TG_OK;
}

typedef tg_status (*feature_fn)(walk *w, const span *s, tg_error *err);

static tg_status each_feature(walk *w, const char *list, const span *one, feature_fn fn,
                              tg_error *err)
{
    const char *p = list;
    span s;

    if (list == NULL)
        return fn(w, one, err);
    for (uint64_t i = 0; next_item(&p, &s); i++) {
        const tg_status st = fn(w, &s, err);
        if (st != TG_OK) {
            tg_error_prefix(err, "feature %" PRIu64, i);
            return st;
        }
    }
    return TG_OK;
}

static tg_status read_checked(tg_roi_set *out, const char *text, size_t limit, tg_error *err)
{
    TG_AUTO(tg_roi_builder) b = {0};
    TG_AUTO(walk) w = {.b = &b};
    const char *list = NULL;
    span one = {0};

    TG_TRY(find_features(text, &list, &one, err));
    TG_TRY(each_feature(&w, list, &one, look_feature, err));
    const char *axes = w.channels ? (w.planes ? "tczyx" : "cyx") : (w.planes ? "tzyx" : "yx");
    tg_roi_begin(&b, "geojson", axes, NULL, limit);
    TG_TRY(each_feature(&w, list, &one, add_feature, err));
    return tg_roi_finish(&b, out, err);
}

tg_status tg_roi_read_geojson(tg_roi_set *out, tg_bytes text, size_t limit, tg_error *err)
{
    const char *at = NULL;

    TG_TRY(check_walkable(text, &at, err));
    return read_checked(out, at, limit, err);
}
