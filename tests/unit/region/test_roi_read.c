#include "check.h"
#include "region/roi_build.h"
#include "region/roi_read.h"
#include "table/anndata.h"
#include "tidegate/array.h"

#include <stdlib.h>
#include <unistd.h>

#define LIMIT ((size_t)128 << 20) /* reading strings takes 64 MiB at worst */

static tg_bytes bytes_of(const char *s)
{
    return (tg_bytes){(const uint8_t *)s, strlen(s)};
}

static const char *all_axes(const tg_roi_list *l, char room[TG_ROI_MAX_AXES + 1])
{
    for (uint32_t i = 0; i < l->n_axes; i++)
        room[i] = l->axes[i][0];
    room[l->n_axes] = '\0';
    return room;
}

/* Region i as "name:label 1+2 3+4": start+length of each axis. */
static const char *region_text(const tg_roi_list *l, uint64_t i, char *room, size_t cap)
{
    TG_AUTO(tg_text) t = {0};

    if (l->name != NULL)
        tg_text_add_n(&t, l->names + l->name[i], (size_t)(l->name[i + 1] - l->name[i]));
    if (l->label != NULL)
        tg_text_addf(&t, ":%" PRIu64, l->label[i]);
    for (uint32_t k = 0; k < l->n_axes; k++)
        tg_text_addf(&t, " %g+%g", l->start[i * l->n_axes + k], l->length[i * l->n_axes + k]);
    (void)snprintf(room, cap, "%s", t.data);
    return room;
}

/* want: axes, then the regions, '|' between all. */
static void check_set(const tg_roi_set *s, const char *want)
{
    TG_AUTO(tg_text) got = {0};
    char room[300];

    tg_text_add(&got, all_axes(&s->list, room));
    for (uint64_t i = 0; i < s->list.n; i++)
        tg_text_addf(&got, "|%s", region_text(&s->list, i, room, sizeof room));
    CHECK(got.data != NULL && strcmp(got.data, want) == 0);
    if (got.data != NULL && strcmp(got.data, want) != 0)
        fprintf(stderr, "   got %s\n  want %s\n", got.data, want);
}

/* --- CSV -------------------------------------------------------------------------------- */

static void csv_by_its_header(void)
{
    static const struct {
        const char *name, *csv, *want;
        bool exact;
    } rows[] = {
        {"pairs", "name,y0,y1,x0,x1\na,0,64,32,96\n007,1,2,3,4\n",
         "yx|a 0+64 32+64|007 1+1 3+1", true},
        {"pairs with z, any order, more columns",
         "x0,x1,score,z0,z1,y0,y1,label\n1,2,.5,3,4,5,6,9\n", "zyx|:9 3+1 5+1 1+1", true},
        {"parts of pixels", "y0,y1,x0,x1\n0.5,1,0,1\n", "yx| 0.5+0.5 0+1", false},
        {"skimage 2-D", "label,bbox-0,bbox-1,bbox-2,bbox-3,area\n1,2,3,5,8,15\n4,0,0,1,1,1\n",
         "yx|:1 2+3 3+5|:4 0+1 0+1", true},
        {"skimage 3-D", "bbox-0,bbox-1,bbox-2,bbox-3,bbox-4,bbox-5\n0,1,2,3,4,5\n",
         "zyx| 0+3 1+3 2+3", true},
        {"coco", "x,y,w,h\n10,20,3,4\n", "yx| 20+4 10+3", true},
        {"coco, other words", "name;x;y;width;height\nb;1;2;3;4\n", "yx|b 2+4 1+3", true},
        {"fractal",
         "FieldIndex,x_micrometer,y_micrometer,z_micrometer,len_x_micrometer,"
         "len_y_micrometer,len_z_micrometer\nFOV_1,0,1.5,0,416,351,1\n",
         "zyx|FOV_1 0+1 1.5+351 0+416", false},
        {"napari",
         "index,shape-type,vertex-index,axis-0,axis-1\n"
         "0,rectangle,0,-0.5,9.5\n0,rectangle,1,-0.5,19.5\n0,rectangle,2,9.5,19.5\n"
         "0,rectangle,3,9.5,9.5\n1,polygon,0,1,1\n1,polygon,1,3,1\n1,polygon,2,2,4\n",
         "yx|0 0+10 10+10|1 1.5+2 1.5+3", false},
        {"napari in planes",
         "index,shape-type,vertex-index,axis-0,axis-1,axis-2\n"
         "3,ellipse,0,5,0,0\n3,ellipse,1,5,2,2\n",
         "zyx|3 5+1 0.5+2 0.5+2", false},
        {"none", "y0,y1,x0,x1\n", "yx", true},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_roi_set) s = {0};
        tg_error err = {0};
        test_row = rows[i].name;
        const tg_roi_source source = {.limit = LIMIT};
        tg_status st = tg_roi_read_csv(&s, bytes_of(rows[i].csv), &source, &err);
        if (st != TG_OK)
            fprintf(stderr, "%s\n", err.msg);
        CHECK_STATUS(st, TG_OK);
        if (st == TG_OK) {
            check_set(&s, rows[i].want);
            CHECK(s.list.exact == rows[i].exact);
            CHECK(s.list.in_pixels == (strcmp(rows[i].name, "fractal") != 0));
        }
    }
    test_row = "";
}

static void places_take_the_axes_of_the_array(void)
{
    static const char *const axes[] = {"t", "y", "x"};
    const tg_shape array = {3, {5, 10, 10}};
    const tg_roi_source source = {.limit = LIMIT, .array = &array, .axes = axes};
    TG_AUTO(tg_roi_set) s = {0};

    REQUIRE_OK(tg_roi_read_csv(
        &s, bytes_of("bbox-0,bbox-1,bbox-2,bbox-3,bbox-4,bbox-5\n0,1,2,3,4,5\n"), &source,
        NULL));
    check_set(&s, "tyx| 0+3 1+3 2+3");
}

static void csv_that_is_refused(void)
{
    static const struct {
        const char *name, *csv;
        tg_status status;
        const char *says;
    } rows[] = {
        {"empty", "", TG_CORRUPT, "header"},
        {"no boxes", "a,b,c,d\n1,2,3,4\n", TG_CORRUPT, "names no boxes"},
        {"numbers without a header", "0,64,0,64\n1,2,3,4\n", TG_CORRUPT, ""},
        {"two forms", "x,y,w,h,y0,y1,x0,x1\n1,2,3,4,5,6,7,8\n", TG_CORRUPT, "fits both"},
        {"half a pair", "y0,y1,x0\n1,2,3\n", TG_CORRUPT, "'x0' without 'x1'"},
        {"half of coco", "x,y,w\n1,2,3\n", TG_CORRUPT, "without w and h"},
        {"odd bbox", "bbox-0,bbox-1,bbox-2\n1,2,3\n", TG_CORRUPT, "even"},
        {"text", "y0,y1,x0,x1\n1,2,3,b\n", TG_CORRUPT, "'x1' holds text"},
        {"missing", "y0,y1,x0,x1\n1,2,3,\n", TG_CORRUPT, "region 0"},
        {"backwards", "y0,y1,x0,x1\n0,1,0,1\n5,4,0,1\n", TG_CORRUPT, "region 1"},
        {"short row", "y0,y1,x0,x1\n0,1,0\n", TG_CORRUPT, "line 2"},
        {"twice", "y0,y1,x0,x0\n0,1,0,1\n", TG_CORRUPT, "twice"},
        {"far", "y0,y1,x0,x1\n0,1e17,0,1\n", TG_CORRUPT, "2^53"},
        {"label below 0", "y0,y1,x0,x1,label\n0,1,0,1,-1\n", TG_CORRUPT, "label"},
        {"label in parts", "y0,y1,x0,x1,label\n0,1,0,1,1.5\n", TG_CORRUPT, "label"},
        {"label rounded", "y0,y1,x0,x1,label\n0,1,0,1,9007199254740993\n", TG_CORRUPT, "2^53"},
        {"a line", "index,shape-type,vertex-index,axis-0,axis-1\n0,line,0,1,1\n",
         TG_UNSUPPORTED, "line"},
        {"shapes of no type", "index,axis-0,axis-1\n0,1,1\n", TG_CORRUPT, "shape-type"},
        {"4 places",
         "bbox-0,bbox-1,bbox-2,bbox-3,bbox-4,bbox-5,bbox-6,bbox-7\n"
         "0,0,0,0,1,1,1,1\n",
         TG_CORRUPT, "4 axes"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_roi_set) s = {0};
        tg_error err = {0};
        const tg_roi_source source = {.limit = LIMIT};
        test_row = rows[i].name;
        CHECK_STATUS(tg_roi_read_csv(&s, bytes_of(rows[i].csv), &source, &err), rows[i].status);
        CHECK(strstr(err.msg, rows[i].says) != NULL);
        if (strstr(err.msg, rows[i].says) == NULL)
            fprintf(stderr, "%s\n", err.msg);
        CHECK(s.list.start == NULL);
    }
    test_row = "";
}

static void a_limit_holds(void)
{
    TG_AUTO(tg_text) csv = {0};
    TG_AUTO(tg_roi_set) s = {0};
    tg_error err = {0};

    tg_text_add(&csv, "name,y0,y1,x0,x1\n");
    for (int i = 0; i < 3000; i++)
        tg_text_addf(&csv, "r%d,0,1,%d,%d\n", i, i, i + 1);
    for (size_t limit = 0; limit < 800000; limit += 20000) {
        const tg_roi_source source = {.limit = limit};
        size_t before = tg_mem_live();
        tg_mem_reset();
        tg_status st = tg_roi_read_csv(&s, bytes_of(csv.data), &source, &err);
        CHECK(st == TG_OK || st == TG_OVER_BUDGET);
        /* beside them: the reader's widest row, a table of columns, what the text grows by */
        CHECK(tg_mem_highwater() - before <= limit + 16384);
        if (st == TG_OK) {
            CHECK_U64(s.list.n, 3000);
            CHECK(limit > 100000);
            return;
        }
    }
    CHECK(false);
}

/* --- GeoJSON ------------------------------------------------------------------------------ */

#define SQUARE(a, b)                                                                      \
    "{\"type\":\"Polygon\",\"coordinates\":[[[" #a "," #a "],[" #b "," #a "],[" #b "," #b \
    "],[" #a "," #b "],[" #a "," #a "]]]}"
#define FEATURE(geometry, more) "{\"type\":\"Feature\"" more ",\"geometry\":" geometry "}"

static void geojson(void)
{
    static const struct {
        const char *name, *json, *want;
    } rows[] = {
        {"collection",
         "{\"type\":\"FeatureCollection\", \"features\" : [" FEATURE(
             SQUARE(1.5, 4),
             ",\"id\":\"u\",\"properties\":{\"objectType\":\"annotation\",\"name\":\"A "
             "[\\\"1\"}") " , " FEATURE(SQUARE(0, 2),
                                        ",\"properties\":{\"classification\":{\"name\":"
                                        "\"Tumor\",\"color\":[1,2,3]}}") "]}",
         "yx|A [\"1 1+3 1+3|Tumor 0+2 0+2"},
        {"bare list", "[" FEATURE(SQUARE(-3, 2), ",\"id\":\"only\"") "]", "yx|only -3+5 -3+5"},
        {"one feature", " \n" FEATURE(SQUARE(1, 2), "") " ", "yx| 1+1 1+1"},
        {"none", "{\"features\":[ ],\"type\":\"FeatureCollection\"}", "yx"},
        {"many parts",
         "[" FEATURE("{\"type\":\"MultiPolygon\",\"coordinates\":[[[[0,0],[1,0],[1,1]]],"
                     "[[[8,9],[10,9],[10.5,12]],[[9,9.5],[9.5,9.5],[9.5,10]]]]}",
                     "") "]",
         "yx| 0+12 0+11"},
        {"planes",
         "[" FEATURE("{\"type\":\"Polygon\",\"plane\":{\"c\":-1,\"z\":3,\"t\":0},"
                     "\"coordinates\":[[[0,0],[1,0],[1,1]]]}",
                     "") "," FEATURE(SQUARE(0, 1), "") "]",
         "tzyx| 0+1 3+1 0+1 0+1| 0+1 0+1 0+1 0+1"},
        {"the first plane is all planes",
         "[" FEATURE("{\"type\":\"Polygon\",\"plane\":{\"c\":-1,\"z\":0,\"t\":0},"
                     "\"coordinates\":[[[0,0],[1,0],[1,1]]]}",
                     "") "]",
         "yx| 0+1 0+1"},
        {"channel",
         "[" FEATURE("{\"type\":\"Polygon\",\"plane\":{\"c\":2,\"z\":0,\"t\":0},"
                     "\"coordinates\":[[[0,0],[1,0],[1,1]]]}",
                     "") "]",
         "cyx| 2+1 0+1 0+1"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_roi_set) s = {0};
        tg_error err = {0};
        test_row = rows[i].name;
        tg_status st = tg_roi_read_geojson(&s, bytes_of(rows[i].json), LIMIT, &err);
        if (st != TG_OK)
            fprintf(stderr, "%s\n", err.msg);
        CHECK_STATUS(st, TG_OK);
        if (st == TG_OK)
            check_set(&s, rows[i].want);
    }
    test_row = "";
}

static void geojson_that_is_refused(void)
{
    static const struct {
        const char *name, *json;
        tg_status status;
        const char *says;
    } rows[] = {
        {"empty", "", TG_CORRUPT, ""},
        {"no JSON", "[{]", TG_CORRUPT, ""},
        {"a number", "3", TG_CORRUPT, "JSON"},
        {"another object", "{\"rois\":[]}", TG_CORRUPT, "FeatureCollection"},
        {"a geometry", SQUARE(1, 2), TG_CORRUPT, "FeatureCollection"},
        {"no list", "{\"type\":\"FeatureCollection\",\"features\":{}}", TG_CORRUPT,
         "FeatureCollection"},
        {"a point",
         "[" FEATURE(SQUARE(0, 1), "") "," FEATURE("{\"type\":\"Point\","
                                                   "\"coordinates\":[1,2]}",
                                                   "") "]",
         TG_UNSUPPORTED, "feature 1: a geometry of"},
        {"no geometry", "[{\"type\":\"Feature\",\"geometry\":null}]", TG_CORRUPT, "geometry"},
        {"two points",
         "[" FEATURE("{\"type\":\"Polygon\",\"coordinates\":[[[0,0],[1,1]]]}", "") "]",
         TG_CORRUPT, "3 or more"},
        {"words",
         "[" FEATURE("{\"type\":\"Polygon\",\"coordinates\":[[[0,0],[1,1],[1,\"b\"]]]}",
                     "") "]",
         TG_CORRUPT, ""},
        {"far",
         "[" FEATURE("{\"type\":\"Polygon\",\"coordinates\":[[[0,0],[1,1],[1,1e300]]]}",
                     "") "]",
         TG_CORRUPT, "coordinate"},
        {"a plane below",
         "[" FEATURE("{\"type\":\"Polygon\",\"plane\":{\"z\":-1},"
                     "\"coordinates\":[[[0,0],[1,1],[1,0]]]}",
                     "") "]",
         TG_CORRUPT, "plane"},
        {"some channels",
         "[" FEATURE("{\"type\":\"Polygon\",\"plane\":{\"c\":1},"
                     "\"coordinates\":[[[0,0],[1,1],[1,0]]]}",
                     "") "," FEATURE(SQUARE(0, 1), "") "]",
         TG_CORRUPT, "feature 1"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_roi_set) s = {0};
        tg_error err = {0};
        test_row = rows[i].name;
        CHECK_STATUS(tg_roi_read_geojson(&s, bytes_of(rows[i].json), LIMIT, &err),
                     rows[i].status);
        CHECK(strstr(err.msg, rows[i].says) != NULL);
        if (strstr(err.msg, rows[i].says) == NULL)
            fprintf(stderr, "%s\n", err.msg);
    }
    test_row = "";
    TG_AUTO(tg_roi_set) s = {0};
    CHECK_STATUS(
        tg_roi_read_geojson(&s, bytes_of("[" FEATURE(SQUARE(0, 1), "") "]"), 1000, NULL),
        TG_OVER_BUDGET);
}

static void outlines_are_pixels_by_their_centres(void)
{
    static const char triangle[] = "[" FEATURE(
        "{\"type\":\"Polygon\",\"coordinates\":[[[0,0],[4,0],[0,4],[0,0]]]}", "") "]";
    static const char ring[] =
        "[" FEATURE("{\"type\":\"Polygon\",\"coordinates\":[[[1,1],[6,1],[6,6],[1,6]],"
                    "[[2,2],[5,2],[5,5],[2,5]]]}",
                    "") "]";
    TG_AUTO(tg_roi_set) s = {0};
    uint8_t mask[49];

    REQUIRE_OK(tg_roi_read_geojson(&s, bytes_of(triangle), LIMIT, NULL));
    CHECK_U64(s.outlines.n_points, 3); /* the first point is not there twice */
    tg_roi_outline_mask(&s.outlines, 0, 0, 0, 4, 4, mask);
    /* Centres on the hypotenuse (x + y = 4) belong to the right of it: outside. */
    CHECK(memcmp(mask, "\1\1\1\0\1\1\0\0\1\0\0\0\0\0\0\0", 16) == 0);
    tg_roi_outline_mask(&s.outlines, 0, 1, -1, 2, 3, mask); /* a part that begins outside */
    CHECK(memcmp(mask, "\0\1\1\0\1\0", 6) == 0);
    tg_roi_set_destroy(&s);
    REQUIRE_OK(tg_roi_read_geojson(&s, bytes_of(ring), LIMIT, NULL));
    tg_roi_outline_mask(&s.outlines, 0, 0, 0, 7, 7, mask);
    for (int y = 0; y < 7; y++)
        for (int x = 0; x < 7; x++) {
            const bool in = x >= 1 && x < 6 && y >= 1 && y < 6;
            const bool hole = x >= 2 && x < 5 && y >= 2 && y < 5;
            CHECK_U64(mask[7 * y + x], in && !hole);
        }
    const tg_roi_outlines none = {0};
    tg_roi_outline_mask(&none, 0, 0, 0, 2, 2, mask);
    CHECK(memcmp(mask, "\1\1\1\1", 4) == 0);
}

/* --- ImageJ ------------------------------------------------------------------------------- */

typedef struct roi_file {
    uint8_t b[1024];
    size_t len;
} roi_file;

static void put16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
    put16(p, v >> 16);
    put16(p + 2, v & 0xffff);
}

static void put_f32(uint8_t *p, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put32(p, bits);
}

/* A header: version 228, a type, top, left, bottom, right. */
static roi_file roi_of(unsigned type, int top, int left, int bottom, int right)
{
    roi_file f = {.len = 64};
    memcpy(f.b, "Iout", 4);
    put16(f.b + 4, 228);
    f.b[6] = (uint8_t)type;
    put16(f.b + 8, (unsigned)top & 0xffff);
    put16(f.b + 10, (unsigned)left & 0xffff);
    put16(f.b + 12, (unsigned)bottom & 0xffff);
    put16(f.b + 14, (unsigned)right & 0xffff);
    return f;
}

static void add_header2(roi_file *f, unsigned c, unsigned z, unsigned t, const char *name)
{
    put32(f->b + 60, (uint32_t)f->len);
    uint8_t *h = f->b + f->len;
    put32(h + 4, c);
    put32(h + 8, z);
    put32(h + 12, t);
    put32(h + 16, (uint32_t)f->len + 64);
    put32(h + 20, (uint32_t)strlen(name));
    f->len += 64;
    for (; *name != '\0'; name++, f->len += 2)
        put16(f->b + f->len, (unsigned char)*name);
}

static void check_roi(const char *row, const roi_file *f, const char *want)
{
    TG_AUTO(tg_roi_set) s = {0};
    tg_error err = {0};

    test_row = row;
    tg_status st = tg_roi_read_imagej(&s, (tg_bytes){f->b, f->len}, "file", LIMIT, &err);
    if (st != TG_OK)
        fprintf(stderr, "%s\n", err.msg);
    CHECK_STATUS(st, TG_OK);
    if (st == TG_OK)
        check_set(&s, want);
    test_row = "";
}

static roi_file polygon_roi(void)
{
    static const int x[] = {0, 10, 10}, y[] = {0, 0, 5};
    roi_file f = roi_of(0, 2, 3, 7, 13);

    put16(f.b + 16, 3);
    for (int i = 0; i < 3; i++) {
        put16(f.b + 64 + 2 * i, (unsigned)x[i]);
        put16(f.b + 70 + 2 * i, (unsigned)y[i]);
    }
    f.len = 76;
    return f;
}

static void imagej(void)
{
    roi_file f = roi_of(1, 2, 3, 10, 20);
    check_roi("rectangle", &f, "yx|file 2+8 3+17");
    add_header2(&f, 0, 4, 2, "A\xe9");
    check_roi("planes and a name", &f, "tzyx|A\xc3\xa9 1+1 3+1 2+8 3+17");
    f = roi_of(1, 2, 3, 10, 20);
    put32(f.b + 56, 7);
    check_roi("slice of a stack", &f, "zyx|file 6+1 2+8 3+17");
    f = roi_of(1, 2, 3, 10, 20);
    put16(f.b + 50, 128);
    put_f32(f.b + 18, 3.25f);
    put_f32(f.b + 22, 2.5f);
    put_f32(f.b + 26, 1.5f);
    put_f32(f.b + 30, 4);
    check_roi("parts of pixels", &f, "yx|file 2.5+4 3.25+1.5");
    f = roi_of(1, 0, 60000, 10, 60010);
    check_roi("beyond 32767", &f, "yx|file 0+10 60000+10");
    f = roi_of(1, -4, -4, 4, 4);
    check_roi("below 0", &f, "yx|file -4+8 -4+8");
    f = polygon_roi();
    check_roi("polygon", &f, "yx|file 2+5 3+10");
    TG_AUTO(tg_roi_set) s = {0};
    REQUIRE_OK(tg_roi_read_imagej(&s, (tg_bytes){f.b, f.len}, "", LIMIT, NULL));
    CHECK(s.list.name == NULL); /* nothing names it */
    CHECK_U64(s.outlines.n_points, 3);
    CHECK(s.outlines.xy[2] == 13 && s.outlines.xy[3] == 2 && s.outlines.xy[5] == 7);
}

static void imagej_ovals_and_composites(void)
{
    TG_AUTO(tg_roi_set) s = {0};
    uint8_t mask[64];
    uint64_t n = 0;
    roi_file f = roi_of(2, 0, 0, 8, 8);

    REQUIRE_OK(tg_roi_read_imagej(&s, (tg_bytes){f.b, f.len}, "", LIMIT, NULL));
    tg_roi_outline_mask(&s.outlines, 0, 0, 0, 8, 8, mask);
    for (int i = 0; i < 64; i++)
        n += mask[i];
    CHECK_U64(n, 52); /* centres within 4 of (4, 4) */
    tg_roi_set_destroy(&s);

    /* Two squares, the second inside the first: move, 3 lines, close, twice. */
    static const float path[] = {0, 0, 0, 1, 4, 0, 1, 4, 4, 1, 0, 4, 4,
                                 0, 1, 1, 1, 3, 1, 1, 3, 3, 1, 1, 3, 4};
    f = roi_of(1, 0, 0, 4, 4);
    put32(f.b + 36, sizeof path / sizeof path[0]);
    for (size_t i = 0; i < sizeof path / sizeof path[0]; i++)
        put_f32(f.b + 64 + 4 * i, path[i]);
    f.len = 64 + sizeof path;
    REQUIRE_OK(tg_roi_read_imagej(&s, (tg_bytes){f.b, f.len}, "", LIMIT, NULL));
    CHECK_U64(s.outlines.n_rings, 2);
    tg_roi_outline_mask(&s.outlines, 0, 0, 0, 4, 4, mask);
    CHECK(memcmp(mask, "\1\1\1\1\1\0\0\1\1\0\0\1\1\1\1\1", 16) == 0);
}

static void imagej_that_is_refused(void)
{
    roi_file f = roi_of(1, 2, 3, 10, 20);
    tg_error err = {0};
    TG_AUTO(tg_roi_set) s = {0};

    for (size_t len = 0; len < f.len; len++)
        CHECK_STATUS(tg_roi_read_imagej(&s, (tg_bytes){f.b, len}, "", LIMIT, &err), TG_CORRUPT);
    f = roi_of(10, 2, 3, 2, 3);
    CHECK_STATUS(tg_roi_read_imagej(&s, (tg_bytes){f.b, f.len}, "", LIMIT, &err),
                 TG_UNSUPPORTED);
    CHECK(strstr(err.msg, "point") != NULL);
    f = roi_of(99, 2, 3, 2, 3);
    CHECK_STATUS(tg_roi_read_imagej(&s, (tg_bytes){f.b, f.len}, "", LIMIT, &err), TG_CORRUPT);
    f = roi_of(1, 9, 3, 2, 3);
    CHECK_STATUS(tg_roi_read_imagej(&s, (tg_bytes){f.b, f.len}, "", LIMIT, &err), TG_CORRUPT);
    f = polygon_roi();
    CHECK_STATUS(tg_roi_read_imagej(&s, (tg_bytes){f.b, f.len - 1}, "", LIMIT, &err),
                 TG_CORRUPT);
    f = roi_of(1, 2, 3, 10, 20);
    put32(f.b + 60, 60); /* a second header that does not fit */
    CHECK_STATUS(tg_roi_read_imagej(&s, (tg_bytes){f.b, f.len}, "", LIMIT, &err), TG_CORRUPT);
    f = roi_of(1, 2, 3, 10, 20);
    put32(f.b + 36, 1u << 30); /* a composite beyond the file */
    CHECK_STATUS(tg_roi_read_imagej(&s, (tg_bytes){f.b, f.len}, "", LIMIT, &err), TG_CORRUPT);
}

static void roi_sets_keep_their_order(void)
{
    char dir[] = "/tmp/tg-roiset-XXXXXX", path[64], other[64];
    const tg_store_options mode = {.size = sizeof mode, .mode = TG_STORE_CREATE};
    TG_AUTO_PTR(tg_store) zip = NULL;
    TG_AUTO(tg_roi_set) s = {0};
    roi_file b = roi_of(1, 1, 2, 3, 4), a = polygon_roi();
    const tg_roi_source source = {.limit = LIMIT};

    REQUIRE(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof path, "%s/RoiSet.zip", dir);
    (void)snprintf(other, sizeof other, "%s/none.zip", dir);
    REQUIRE_OK(tg_store_open_zip(&zip, path, &mode, NULL));
    REQUIRE_OK(tg_store_put(zip, "sub/z.roi", b.b, b.len, NULL, NULL));
    REQUIRE_OK(tg_store_put(zip, "read.me", "x", 1, NULL, NULL));
    REQUIRE_OK(tg_store_put(zip, "a.roi", a.b, a.len, NULL, NULL));
    REQUIRE_OK(tg_store_close(zip, NULL));
    REQUIRE_OK(tg_roi_read(&s, path, &source, NULL, NULL));
    check_set(&s, "yx|z 1+2 2+2|a 2+5 3+10");
    CHECK(strcmp(s.format, "imagej") == 0 && s.list.exact);
    CHECK_U64(s.outlines.ring[1], 0); /* a rectangle's outline is its box */
    CHECK_U64(s.outlines.ring[2], 1);
    CHECK_STATUS(tg_roi_read(&s, other, &source, NULL, NULL), TG_NOT_FOUND);
    (void)unlink(path);
    (void)rmdir(dir);
}

/* --- Label images ---------------------------------------------------------------------------
 */

static void boxes_of_labels(void)
{
    static const char image[] =
        "{\"ome\":{\"version\":\"0.5\",\"multiscales\":[{\"axes\":[{\"name\":\"z\"},"
        "{\"name\":\"y\"},{\"name\":\"x\"}],\"datasets\":[{\"path\":\"0\"}]}]}}";
    const uint64_t shape[] = {2, 9, 11}, chunk[] = {1, 4, 4}, zero[] = {0, 0, 0};
    const tg_array_options o = {
        .size = sizeof o, .dtype = {TG_DT_UINT, 4}, .ndim = 3, .shape = shape, .chunk = chunk};
    uint32_t px[2][9][11] = {{{0}}};
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    TG_AUTO(tg_roi_set) set = {0};
    tg_roi_source source = {.image = "im", .limit = LIMIT};

    px[0][0][0] = 7;
    px[1][3][4] = px[1][4][3] = 4000000000;
    for (int x = 2; x < 11; x++)
        px[0][8][x] = 5;
    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_group_create(s, "im/labels/n", 3, image, NULL, NULL));
    REQUIRE_OK(tg_array_create(s, "im/labels/n/0", &o, &a, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, zero, shape, px, NULL, NULL, NULL));
    source.store = s;
    REQUIRE_OK(tg_roi_read(&set, "labels:labels/n", &source, NULL, NULL));
    check_set(&set, "zyx|:5 0+1 8+1 2+9|:7 0+1 0+1 0+1|:4000000000 1+1 3+2 3+2");
    CHECK(strcmp(set.labels, "im/labels/n/0") == 0);
    tg_roi_set_destroy(&set);
    CHECK_STATUS(tg_roi_read_labels(&set, s, "im/labels/n/0", 2000, NULL, NULL),
                 TG_OVER_BUDGET);
    CHECK_STATUS(tg_roi_read(&set, "labels:labels", &source, NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_roi_read(&set, "labels:none", &source, NULL, NULL), TG_NOT_FOUND);
}

static void more_labels_than_fit_are_refused(void)
{
    const uint64_t n = 20000, chunk = 1000, zero = 0;
    const tg_array_options o = {
        .size = sizeof o, .dtype = {TG_DT_UINT, 4}, .ndim = 1, .shape = &n, .chunk = &chunk};
    static uint32_t px[20000];
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    TG_AUTO(tg_roi_set) set = {0};

    for (uint32_t i = 0; i < 20000; i++)
        px[i] = 3 * (19999 - i) + 1;
    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_array_create(s, "a", &o, &a, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, &zero, &n, px, NULL, NULL, NULL));
    CHECK_STATUS(tg_roi_read_labels(&set, s, "a", 1000000, NULL, NULL), TG_OVER_BUDGET);
    REQUIRE_OK(tg_roi_read_labels(&set, s, "a", (size_t)4 << 20, NULL, NULL));
    CHECK_U64(set.list.n, n);
    for (uint64_t i = 0; i < n; i++)
        CHECK(set.list.label[i] == 3 * i + 1 && set.list.start[i] == (double)(n - 1 - i));
}

/* --- Tables --------------------------------------------------------------------------------
 */

static const char *const numbers[] = {"x_micrometer",     "y_micrometer",
                                      "z_micrometer",     "len_x_micrometer",
                                      "len_y_micrometer", "len_z_micrometer"};

/* Columns of X are `n_x` of the numbers, the rest are integers of obs, as ngio may have it. */
static tg_status write_table(tg_store *s, int format, uint32_t n_x, tg_error *err)
{
    static const char attributes[] =
        "{\"type\":\"masking_roi_table\",\"fractal_table_version\":\"1\",\"instance_key\":"
        "\"label\",\"region\":{\"path\":\"../labels/nuclei\"}}";
    tg_table_column obs[7];
    const int32_t items[6][2] = {{0, 10}, {1, 20}, {0, 0}, {5, 6}, {7, 8}, {1, 1}};
    static const uint64_t offsets[] = {0, 2, 4};
    TG_AUTO_PTR(tg_anndata) a = NULL;
    TG_AUTO(tg_text) var = {0};
    uint64_t var_offsets[7] = {0};

    for (uint32_t i = 0; i < 6 - n_x; i++)
        obs[i] = (tg_table_column){numbers[n_x + i], {TG_DT_INT, 4}};
    obs[6 - n_x] = (tg_table_column){"label", {TG_DT_STRING, 0}};
    const uint32_t n_obs = 6 - n_x + 1;
    const tg_anndata_options o = {.format = format,
                                  .n_obs = 2,
                                  .n_var = n_x,
                                  .x = TG_ANNDATA_DENSE,
                                  .x_dtype = {TG_DT_FLOAT, 4},
                                  .obs = obs,
                                  .n_obs_columns = n_obs,
                                  .attributes = attributes};
    TG_TRY(tg_anndata_create(&a, s, "im/tables/t", &o, NULL, err));
    for (uint32_t i = 0; i < n_x; i++) {
        const uint64_t start[] = {0, i}, count[] = {2, 1};
        const float column[] = {(float)items[i][0], (float)items[i][1]};
        TG_TRY(tg_array_write(tg_anndata_dense(a), start, count, column, NULL, NULL, err));
        tg_text_add(&var, numbers[i]);
        var_offsets[i + 1] = var.len;
    }
    tg_text_add(&var, "");
    TG_TRY(tg_text_status(&var, err));
    tg_table_block rows[8] = {{.offsets = offsets, .text = "n1n2"}};
    for (uint32_t i = 0; i < 6 - n_x; i++)
        rows[1 + i].items = items[n_x + i];
    rows[n_obs] = (tg_table_block){.offsets = offsets, .text = "1733"};
    TG_TRY(tg_table_append(tg_anndata_obs(a), rows, 2, NULL, err));
    const tg_table_block names = {.offsets = var_offsets, .text = var.data};
    TG_TRY(tg_table_append(tg_anndata_var(a), &names, n_x, NULL, err));
    return tg_anndata_close(a, NULL, err);
}

static void tables_as_anndata(void)
{
    for (int format = 2; format <= 3; format++)
        for (uint32_t n_x = 1; n_x <= 6; n_x++) {
            TG_AUTO_PTR(tg_store) s = NULL;
            TG_AUTO(tg_roi_set) set = {0};
            tg_roi_source source = {.image = "im", .limit = LIMIT};
            tg_error err = {0};
            REQUIRE_OK(tg_store_open_mem(&s, NULL));
            REQUIRE_OK(write_table(s, format, n_x, NULL));
            source.store = s;
            tg_status st = tg_roi_read(&set, "table:t", &source, NULL, &err);
            if (st != TG_OK)
                fprintf(stderr, "%s\n", err.msg);
            REQUIRE(st == TG_OK);
            check_set(&set, "zyx|n1:17 0+1 1+7 0+5|n2:33 0+1 20+8 10+6");
            CHECK(!set.list.in_pixels && strcmp(set.list.unit, "micrometer") == 0);
            CHECK(set.labels != NULL && strcmp(set.labels, "im/labels/nuclei") == 0);
        }
}

#define JSON_TABLE(label)                                                             \
    "{\"FieldIndex\":[\"a\",\"b\"],\"x_micrometer\":[0,1.5],\"y_micrometer\":[2,3],"  \
    "\"len_x_micrometer\":[1,1],\"len_y_micrometer\":[4,5],\"t_second\":[null,null]," \
    "\"len_t_second\":[NaN,NaN],\"label\":" label "}"

static tg_status json_table(tg_store *s, const char *attributes, const char *columns)
{
    TG_TRY(tg_group_create(s, "tables/j", 2, attributes, NULL, NULL));
    TG_TRY(tg_group_create(s, "tables/j/table", 2, NULL, NULL, NULL));
    return tg_store_put(s, "tables/j/table/.zattrs", columns, strlen(columns), NULL, NULL);
}

static void tables_as_json_and_csv(void)
{
    static const char csv[] = "\"FieldIndex\",\"x_micrometer\",\"y_micrometer\","
                              "\"len_x_micrometer\",\"len_y_micrometer\"\n\"01\",0,2,1,4\n";
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO(tg_roi_set) set = {0};
    tg_roi_source source = {.limit = LIMIT};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    source.store = s;
    REQUIRE_OK(json_table(s, "{\"backend\":\"json\",\"index_key\":\"FieldIndex\"}",
                          JSON_TABLE("[4,null]")));
    REQUIRE_OK(tg_roi_read(&set, "table:j", &source, NULL, NULL));
    check_set(&set, "yx|a:4 2+4 0+1|b:0 3+5 1.5+1");
    CHECK(set.labels == NULL);
    tg_roi_set_destroy(&set);
    REQUIRE_OK(tg_group_create(s, "tables/c", 3,
                               "{\"backend\":\"csv\",\"index_key\":\"FieldIndex\","
                               "\"type\":\"roi_table\",\"table_version\":\"1\"}",
                               NULL, NULL));
    REQUIRE_OK(tg_store_put(s, "tables/c/table.csv", csv, strlen(csv), NULL, NULL));
    REQUIRE_OK(tg_roi_read(&set, "table:c", &source, NULL, NULL));
    check_set(&set, "yx|01 2+4 0+1");
}

static void tables_that_are_refused(void)
{
    static const struct {
        const char *name, *attributes, *columns;
        tg_status status;
        const char *says;
    } rows[] = {
        {"parquet", "{\"backend\":\"parquet\"}", "{}", TG_UNSUPPORTED, "parquet"},
        {"a backend of tomorrow", "{\"backend\":\"x\"}", "{}", TG_UNSUPPORTED, "'x'"},
        {"a version of tomorrow", "{\"backend\":\"json\",\"table_version\":\"2\"}", "{}",
         TG_UNSUPPORTED, "'2'"},
        {"features", "{\"backend\":\"json\",\"type\":\"feature_table\"}", "{}", TG_INVALID,
         "feature_table"},
        {"no columns", "{\"backend\":\"json\"}", "{\"a\":[1]}", TG_CORRUPT, "y_micrometer"},
        {"not AnnData", "{}", "{}", TG_NOT_FOUND, "obs"},
        {"uneven", "{\"backend\":\"json\"}", "{\"a\":[1],\"b\":[]}", TG_CORRUPT, "'b'"},
        {"no list", "{\"backend\":\"json\"}", "{\"a\":1}", TG_CORRUPT, "'a'"},
        {"masking without labels", "{\"backend\":\"json\",\"type\":\"masking_roi_table\"}",
         JSON_TABLE("[null,null]"), TG_CORRUPT, "labels"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO(tg_roi_set) set = {0};
        tg_roi_source source = {.limit = LIMIT};
        tg_error err = {0};
        test_row = rows[i].name;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(json_table(s, rows[i].attributes, rows[i].columns));
        source.store = s;
        CHECK_STATUS(tg_roi_read(&set, "table:j", &source, NULL, &err), rows[i].status);
        CHECK(strstr(err.msg, rows[i].says) != NULL);
        if (strstr(err.msg, rows[i].says) == NULL)
            fprintf(stderr, "%s\n", err.msg);
    }
    test_row = "";
}

static void words_of_rois(void)
{
    static const char *const bad[] = {"", "x", "x.txt", ".csv", "table:t", "labels:l"};
    TG_AUTO(tg_roi_set) set = {0};
    const tg_roi_source source = {.limit = LIMIT};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_row = bad[i];
        CHECK_STATUS(tg_roi_read(&set, bad[i], &source, NULL, NULL), TG_INVALID);
    }
    test_row = "";
    CHECK_STATUS(tg_roi_read(&set, "/tmp/none-of-this/a.csv", &source, NULL, NULL),
                 TG_NOT_FOUND);
}

static tg_status all_in_memory(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO(tg_roi_set) csv = {0};
    TG_AUTO(tg_roi_set) json = {0};
    TG_AUTO(tg_roi_set) table = {0};
    TG_AUTO(tg_roi_set) roi = {0};
    const roi_file f = polygon_roi();
    const tg_roi_source source = {.limit = LIMIT};

    TG_TRY(tg_roi_read_csv(&csv, bytes_of("name,label,y0,y1,x0,x1\na,1,0,64,32,96\n"), &source,
                           NULL));
    TG_TRY(
        tg_roi_read_geojson(&json, bytes_of("[" FEATURE(SQUARE(0, 1), "") "]"), LIMIT, NULL));
    TG_TRY(tg_roi_read_imagej(&roi, (tg_bytes){f.b, f.len}, "n", LIMIT, NULL));
    TG_TRY(tg_store_open_mem(&s, NULL));
    TG_TRY(write_table(s, 3, 3, NULL));
    return tg_roi_read_table(&table, s, "im/tables/t", LIMIT, NULL, NULL);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(all_in_memory());
}

static const struct test tests[] = {
    {"csv_by_its_header", csv_by_its_header},
    {"places_take_the_axes_of_the_array", places_take_the_axes_of_the_array},
    {"csv_that_is_refused", csv_that_is_refused},
    {"a_limit_holds", a_limit_holds},
    {"geojson", geojson},
    {"geojson_that_is_refused", geojson_that_is_refused},
    {"outlines_are_pixels_by_their_centres", outlines_are_pixels_by_their_centres},
    {"imagej", imagej},
    {"imagej_ovals_and_composites", imagej_ovals_and_composites},
    {"imagej_that_is_refused", imagej_that_is_refused},
    {"roi_sets_keep_their_order", roi_sets_keep_their_order},
    {"boxes_of_labels", boxes_of_labels},
    {"more_labels_than_fit_are_refused", more_labels_than_fit_are_refused},
    {"tables_as_anndata", tables_as_anndata},
    {"tables_as_json_and_csv", tables_as_json_and_csv},
    {"tables_that_are_refused", tables_that_are_refused},
    {"words_of_rois", words_of_rois},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
