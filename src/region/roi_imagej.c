/* ImageJ's .roi files and the ZIP files of its ROI manager, from their bytes: big-endian, a
 * header of 64, coordinates, a second header. Every offset comes from the file. */
#include "region/roi_build.h"
#include "store/zip.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { /* docs/formats/regions.md */
       HEADER = 64,
       AT_VERSION = 4,
       AT_TYPE = 6,
       AT_BOX = 8, /* top, left, bottom, right */
       AT_N = 16,
       AT_FLOATS = 18, /* of a rectangle with parts of pixels: x, y, width, height */
       AT_SHAPE_SIZE = 36,
       AT_OPTIONS = 50,
       AT_POSITION = 56,
       AT_HEADER2 = 60,
       SUB_PIXEL = 128, /* an option */
       HEADER2 = 24,    /* what is read of it: c at 4, z, t, name's offset, its length */
       MOST_NAME = 4096
};

enum {
    POLYGON,
    RECTANGLE,
    OVAL,
    LINE,
    FREELINE,
    POLYLINE,
    NO_ROI,
    FREEHAND,
    TRACED,
    ANGLE,
    POINT
};

static uint16_t get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)get_u16(p) << 16 | get_u16(p + 2);
}

static double get_f32(const uint8_t *p)
{
    const uint32_t bits = get_u32(p);
    float v;
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

/* Edges are signed, but images have grown past 32767: what is far below 0 is that. */
static int32_t get_edge(const uint8_t *p)
{
    const uint16_t raw = get_u16(p);
    const int32_t v = raw < 0x8000 ? raw : (int32_t)raw - 65536;
    return v < -5000 ? v + 65536 : v;
}

typedef struct roi {
    double start[5], length[5]; /* t, c, z, y, x; 0 length: all */
    double top, left, bottom, right;
    char name[3 * MOST_NAME + 1];
    size_t name_len;
    uint32_t n_points;
    double *xy;     /* n_points; NULL: the box is its outline, or an ellipse in it */
    uint32_t *ring; /* of several rings: n_rings + 1 places in xy; NULL: one */
    uint32_t n_rings;
    size_t limit; /* of xy */
} roi;

static void roi_auto(roi *r)
{
    tg_free(r->xy);
    tg_free(r->ring);
}

static tg_status room_for_points(roi *r, size_t n, tg_error *err)
{
    if (n > r->limit / (2 * sizeof(double)))
        return tg_fail(err, TG_OVER_BUDGET,
                       "%zu points of an outline, and no more than %zu bytes may be used", n,
                       r->limit);
    r->xy = tg_alloc_array(n, 2 * sizeof(double));
    if (r->xy == NULL)
        return tg_fail(err, TG_NO_MEMORY, "%zu points", n);
    return TG_OK;
}

static tg_status read_box(tg_bytes b, roi *r, tg_error *err)
{
    const bool floats = get_u16(b.data + AT_VERSION) >= 223 &&
                        (get_u16(b.data + AT_OPTIONS) & SUB_PIXEL) != 0 &&
                        (b.data[AT_TYPE] == RECTANGLE || b.data[AT_TYPE] == OVAL);
    const uint8_t *p = b.data + AT_BOX;

    r->top = get_edge(p);
    r->left = get_edge(p + 2);
    r->bottom = get_edge(p + 4);
    r->right = get_edge(p + 6);
    if (floats) {
        p = b.data + AT_FLOATS;
        r->left = get_f32(p);
        r->top = get_f32(p + 4);
        r->right = r->left + get_f32(p + 8);
        r->bottom = r->top + get_f32(p + 12);
    }
    if (!(r->bottom >= r->top) || !(r->right >= r->left) || !isfinite(r->bottom + r->right))
        return tg_fail(err, TG_CORRUPT, "rows %.17g to %.17g, columns %.17g to %.17g", r->top,
                       r->bottom, r->left, r->right);
    return TG_OK;
}

/* n x-coordinates, then n y-coordinates: from the box's corner in whole pixels, and behind them
 * (sub-pixel) as floats from the image's. */
static tg_status read_points(tg_bytes b, roi *r, tg_error *err)
{
    const uint32_t n = get_u16(b.data + AT_N);
    const bool floats =
        get_u16(b.data + AT_VERSION) >= 222 && (get_u16(b.data + AT_OPTIONS) & SUB_PIXEL) != 0;
    const size_t need = HEADER + (size_t)n * (floats ? 12 : 4);

    if (n == 0)
        return TG_OK;
    if (b.len < need)
        return tg_fail(err, TG_CORRUPT, "%zu bytes, %" PRIu32 " points need %zu", b.len, n,
                       need);
    TG_TRY(room_for_points(r, n, err));
    assert(r->xy != NULL);
    for (size_t i = 0; i < n; i++) {
        double *xy = r->xy + 2 * i;
        if (floats) {
            const uint8_t *p = b.data + HEADER + 4 * (size_t)n + 4 * i;
            xy[0] = get_f32(p);
            xy[1] = get_f32(p + 4 * (size_t)n);
        } else {
            const uint8_t *p = b.data + HEADER + 2 * i;
            xy[0] = r->left + (int16_t)get_u16(p);
            xy[1] = r->top + (int16_t)get_u16(p + 2 * (size_t)n);
        }
        if (!isfinite(xy[0]) || !isfinite(xy[1]))
            return tg_fail(err, TG_CORRUPT, "point %zu is no number", i);
    }
    r->n_points = n;
    return TG_OK;
}

/* An ellipse as its polygon: no pixel centre of an image that has one is nearer to its edge. */
static tg_status ellipse(roi *r, tg_error *err)
{
    enum { N = 256 };
    const double two_pi = 6.283185307179586;

    TG_TRY(room_for_points(r, N, err));
    for (size_t i = 0; i < N; i++) {
        const double at = two_pi * (double)i / N;
        r->xy[2 * i] = (r->left + r->right) / 2 + (r->right - r->left) / 2 * cos(at);
        r->xy[2 * i + 1] = (r->top + r->bottom) / 2 + (r->bottom - r->top) / 2 * sin(at);
    }
    r->n_points = N;
    return TG_OK;
}

/* --- Composites: floats, each segment a code and its points
 * --------------------------------------
 */

enum { MOVE, LINE_TO, QUADRATIC, CUBIC, CLOSE, CURVE_STEPS = 32 };

/* Point at t of the curve of `order` with control points p (order + 1 of them). */
static void curve_at(const double *p, int order, double t, double *out)
{
    double q[8];

    memcpy(q, p, ((size_t)order + 1) * 2 * sizeof(double));
    for (int level = order; level > 0; level--)
        for (int i = 0; i < 2 * level; i++)
            q[i] += t * (q[i + 2] - q[i]);
    out[0] = q[0];
    out[1] = q[1];
}

/* A segment's points behind those that are there. p: the last point and the segment's own. */
static void add_segment(roi *r, const double *p, int order)
{
    const int steps = order == 1 ? 1 : CURVE_STEPS;

    for (int k = 1; k <= steps; k++)
        curve_at(p, order, (double)k / steps, r->xy + 2 * (size_t)r->n_points++);
}

static tg_status read_segment(tg_bytes b, size_t *at, size_t end, roi *r, tg_error *err)
{
    double p[8] = {0};
    const double code = get_f32(b.data + *at);
    const int kind = code >= MOVE && code <= CLOSE && code == floor(code) ? (int)code : -1;
    const int order = kind == CUBIC ? 3 : kind == QUADRATIC ? 2 : 1;
    const size_t need = kind == CLOSE ? 4 : 4 + 8 * (size_t)order;

    if (kind < 0 || end - *at < need || (kind != MOVE && r->n_rings == 0))
        return tg_fail(err, TG_CORRUPT, "a segment of code %g at byte %zu of %zu", code, *at,
                       end);
    for (size_t i = 0; i < (need - 4) / 4; i++) {
        p[2 + i] = get_f32(b.data + *at + 4 + 4 * i);
        if (!isfinite(p[2 + i]))
            return tg_fail(err, TG_CORRUPT, "a point that is no number at byte %zu", *at);
    }
    *at += need;
    if (kind == MOVE) {
        r->ring[r->n_rings++] = r->n_points;
        memcpy(r->xy + 2 * (size_t)r->n_points++, p + 2, 2 * sizeof(double));
    } else if (kind != CLOSE) {
        memcpy(p, r->xy + 2 * (size_t)(r->n_points - 1), 2 * sizeof(double));
        add_segment(r, p, order);
    }
    return TG_OK;
}

static tg_status read_composite(tg_bytes b, uint32_t n, roi *r, tg_error *err)
{
    size_t at = HEADER;

    if (n > (b.len - HEADER) / 4)
        return tg_fail(err, TG_CORRUPT, "a composite of %" PRIu32 " numbers in %zu bytes", n,
                       b.len);
    /* The most points a number can make: a quadratic curve, 5 of them, makes CURVE_STEPS. */
    TG_TRY(room_for_points(r, ((size_t)n / 5 + 1) * CURVE_STEPS, err));
    r->ring = tg_alloc_array((size_t)n + 2, sizeof *r->ring);
    if (r->ring == NULL)
        return tg_fail(err, TG_NO_MEMORY, "%" PRIu32 " segments", n);
    while (at < HEADER + 4 * (size_t)n)
        TG_TRY(read_segment(b, &at, HEADER + 4 * (size_t)n, r, err));
    r->ring[r->n_rings] = r->n_points;
    return TG_OK;
}

/* --- Names and planes
 * --------------------------------------------------------------------------- */

/* UTF-16 to UTF-8; what is no character becomes U+FFFD. */
static size_t utf8_of(uint32_t c, char *dst)
{
    if (c < 0x80) {
        dst[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        dst[0] = (char)(0xc0 | c >> 6);
        dst[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        dst[0] = (char)(0xe0 | c >> 12);
        dst[1] = (char)(0x80 | (c >> 6 & 0x3f));
        dst[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    dst[0] = (char)(0xf0 | c >> 18);
    dst[1] = (char)(0x80 | (c >> 12 & 0x3f));
    dst[2] = (char)(0x80 | (c >> 6 & 0x3f));
    dst[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

static void read_name(const uint8_t *p, uint32_t n, roi *r)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = get_u16(p + 2 * (size_t)i);
        const uint32_t next = i + 1 < n ? get_u16(p + 2 * (size_t)i + 2) : 0;
        if (c >= 0xd800 && c < 0xdc00 && next >= 0xdc00 && next < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (next - 0xdc00);
            i++;
        } else if ((c >= 0xd800 && c < 0xe000) || c == 0) {
            c = 0xfffd;
        }
        r->name_len += utf8_of(c, r->name + r->name_len);
    }
}

/* Positions count from 1; 0: all. */
static void set_plane(roi *r, int axis, uint32_t position)
{
    if (position == 0)
        return;
    r->start[axis] = (double)position - 1;
    r->length[axis] = 1;
}

static tg_status read_second(tg_bytes b, roi *r, tg_error *err)
{
    const uint32_t at = get_u32(b.data + AT_HEADER2);
    uint32_t c = 0, z = 0, t = 0;

    if (at != 0 && get_u16(b.data + AT_VERSION) >= 218) {
        if (at > b.len || b.len - at < HEADER2)
            return tg_fail(err, TG_CORRUPT, "a second header at byte %" PRIu32 " of %zu", at,
                           b.len);
        const uint8_t *h = b.data + at;
        const uint32_t name = get_u32(h + 16), n = get_u32(h + 20);
        c = get_u32(h + 4);
        z = get_u32(h + 8);
        t = get_u32(h + 12);
        if (n > MOST_NAME || (n > 0 && (name > b.len || b.len - name < 2 * (size_t)n)))
            return tg_fail(err, TG_CORRUPT,
                           "a name of %" PRIu32 " characters at byte %" PRIu32 " of %zu", n,
                           name, b.len);
        read_name(b.data + name, n, r);
    }
    /* A plain stack's slice is its z: an array that has none refuses it by name. */
    if (c == 0 && z == 0 && t == 0)
        z = get_u32(b.data + AT_POSITION);
    set_plane(r, 0, t);
    set_plane(r, 1, c);
    set_plane(r, 2, z);
    return TG_OK;
}

static tg_status parse(tg_bytes b, roi *r, tg_error *err)
{
    static const char *const names[] = {"polygon",  "rectangle", "oval",   "line",
                                        "freeline", "polyline",  "no ROI", "freehand",
                                        "traced",   "angle",     "point"};

    if (b.len < HEADER || memcmp(b.data, "Iout", 4) != 0)
        return tg_fail(err, TG_CORRUPT, "no ImageJ ROI: %zu bytes, want 'Iout' and a header",
                       b.len);
    const uint8_t type = b.data[AT_TYPE];
    const bool composite = type == RECTANGLE && get_u32(b.data + AT_SHAPE_SIZE) > 0;
    if (type > POINT)
        return tg_fail(err, TG_CORRUPT, "type %u is none of ImageJ's", type);
    if (type != POLYGON && type != RECTANGLE && type != OVAL && type != FREEHAND &&
        type != TRACED)
        return tg_fail(err, TG_UNSUPPORTED, "a %s has no area", names[type]);
    TG_TRY(read_box(b, r, err));
    if (composite)
        TG_TRY(read_composite(b, get_u32(b.data + AT_SHAPE_SIZE), r, err));
    else if (type == OVAL)
        TG_TRY(ellipse(r, err));
    else if (type != RECTANGLE)
        TG_TRY(read_points(b, r, err));
    TG_TRY(read_second(b, r, err));
    r->start[3] = r->top;
    r->length[3] = r->bottom - r->top;
    r->start[4] = r->left;
    r->length[4] = r->right - r->left;
    return TG_OK;
}

/* --- Sets of them
 * ------------------------------------------------------------------------------ */

/* Axes that some ROI names a plane of; y and x always. A list has one set of axes for all, so
 * two walks: which, then the boxes. */
typedef struct axes {
    bool has[5], all[5]; /* some have, some do not */
    char names[6];
} axes;

static void note_axes(axes *a, const roi *r)
{
    for (int i = 0; i < 5; i++) {
        a->has[i] = a->has[i] || i > 2 || r->length[i] > 0;
        a->all[i] = a->all[i] || (i <= 2 && r->length[i] == 0);
    }
}

static tg_status name_axes(axes *a, tg_error *err)
{
    static const char letters[] = "tczyx";
    size_t n = 0;

    for (int i = 0; i < 5; i++) {
        if (i <= 2 && a->has[i] && a->all[i])
            return tg_fail(err, TG_UNSUPPORTED,
                           "some ROIs lie in one plane of %c, others in all: not in one list",
                           letters[i]);
        if (a->has[i])
            a->names[n++] = letters[i];
    }
    return TG_OK;
}

static tg_status add_outline(tg_roi_builder *b, const roi *r, tg_error *err)
{
    const uint32_t whole[2] = {0, r->n_points}, n = r->ring == NULL ? 1 : r->n_rings;
    const uint32_t *ring = r->ring == NULL ? whole : r->ring;

    for (uint32_t i = 0; i < n; i++)
        if (ring[i + 1] - ring[i] >= 3)
            TG_TRY(tg_roi_add_ring(b, r->xy + 2 * (size_t)ring[i], ring[i + 1] - ring[i], err));
    return TG_OK;
}

static tg_status add(tg_roi_builder *b, const axes *a, const roi *r, const char *name,
                     size_t name_len, tg_error *err)
{
    double start[5], length[5];
    uint32_t n = 0;

    for (int i = 0; i < 5; i++)
        if (a->has[i]) {
            start[n] = r->start[i];
            length[n++] = r->length[i];
        }
    if (r->n_points >= 3)
        TG_TRY(add_outline(b, r, err));
    const tg_roi_new one = {start, length, r->name_len > 0 ? r->name : name,
                            r->name_len > 0 ? r->name_len : name_len, 0};
    return tg_roi_add(b, &one, err);
}

tg_status tg_roi_read_imagej(tg_roi_set *out, tg_bytes bytes, const char *name, size_t limit,
                             tg_error *err)
{
    TG_AUTO(tg_roi_builder) b = {0};
    TG_AUTO(roi) r = {.limit = limit};
    axes a = {0};

    TG_TRY(parse(bytes, &r, err));
    note_axes(&a, &r);
    TG_TRY(name_axes(&a, err));
    tg_roi_begin(&b, "imagej", a.names, NULL, limit);
    TG_TRY(add(&b, &a, &r, name, strlen(name), err));
    return tg_roi_finish(&b, out, err);
}

/* --- ROI manager's ZIP
 * ---------------------------------------------------------------------------- */

typedef struct roiset {
    tg_store *zip;
    tg_roi_builder b;
    bool second; /* walk: what the axes are is known, regions are added */
    axes a;
    tg_buf bytes;
    size_t limit;
    const tg_cancel *cancel;
    tg_error *err;
    tg_status st;
    uint64_t n;
} roiset;

static void roiset_auto(roiset *s)
{
    tg_roi_builder_auto(&s->b);
    tg_buf_free(&s->bytes);
}

static tg_status take_entry(roiset *s, const char *key, size_t name_len, tg_error *err)
{
    TG_AUTO(roi) r = {.limit = s->limit};

    TG_TRY(tg_store_get(s->zip, key, tg_range_all(), s->limit, &s->bytes, s->cancel, err));
    TG_TRY(parse((tg_bytes){s->bytes.data, s->bytes.len}, &r, err));
    s->n++;
    if (!s->second) {
        note_axes(&s->a, &r);
        return TG_OK;
    }
    const char *slash = strrchr(key, '/');
    const size_t folder = slash == NULL ? 0 : (size_t)(slash + 1 - key);
    return add(&s->b, &s->a, &r, key + folder, name_len - folder, err);
}

static bool each_entry(void *user, const char *key)
{
    roiset *s = user;
    const size_t len = strlen(key);

    if (len < 4 || strcmp(key + len - 4, ".roi") != 0)
        return true; /* a folder, or what a Mac adds */
    s->st = take_entry(s, key, len - 4, s->err);
    if (s->st != TG_OK)
        tg_error_prefix(s->err, "entry '%.200s'", key);
    return s->st == TG_OK;
}

static tg_status read_entries(roiset *s, tg_roi_set *out, tg_error *err)
{
    tg_zip_each_key(s->zip, each_entry, s);
    TG_TRY(s->st);
    if (s->n == 0)
        return tg_fail(err, TG_CORRUPT, "a ZIP file that holds no .roi");
    TG_TRY(name_axes(&s->a, err));
    tg_roi_begin(&s->b, "imagej", s->a.names, NULL, s->limit);
    s->second = true;
    tg_zip_each_key(s->zip, each_entry, s);
    TG_TRY(s->st);
    return tg_roi_finish(&s->b, out, err);
}

tg_status tg_roi_read_roiset(tg_roi_set *out, const char *zip, size_t limit,
                             const tg_cancel *cancel, tg_error *err)
{
    const tg_store_options mode = {.size = sizeof mode, .mode = TG_STORE_READ};
    TG_AUTO_PTR(tg_store) store = NULL;

    TG_TRY(tg_store_open_zip(&store, zip, &mode, err));
    TG_AUTO(roiset)
    s = {.zip = store, .limit = limit / 2, .cancel = cancel, .err = err, .st = TG_OK};
    return read_entries(&s, out, err);
}
