/* The validator: what we write is valid in both versions, and every rule has a document that
 * breaks it. */
#include "base/json.h"
#include "check.h"
#include "ome/ome.h"
#include "zarr/zarr.h"

#include <stdlib.h>

/* --- Hierarchies ------------------------------------------------------------ */

static const char multiscales[] =
    "\"multiscales\":[{\"name\":\"i\",\"axes\":[{\"name\":\"t\",\"type\":\"time\"},"
    "{\"name\":\"y\",\"type\":\"space\",\"unit\":\"micrometer\"},"
    "{\"name\":\"x\",\"type\":\"space\",\"unit\":\"micrometer\"}],"
    "\"datasets\":[{\"path\":\"0\",\"coordinateTransformations\":[{\"type\":\"scale\","
    "\"scale\":[1,0.5,0.5]}]},{\"path\":\"1\",\"coordinateTransformations\":[{\"type\":"
    "\"scale\","
    "\"scale\":[1,1,1]},{\"type\":\"translation\",\"translation\":[0,0.25,0.25]}]}],"
    "\"coordinateTransformations\":[{\"type\":\"scale\",\"scale\":[2,1,1]}]}],"
    "\"omero\":{\"channels\":[{\"color\":\"FFffFF\",\"window\":{\"min\":0,\"max\":255,"
    "\"start\":0,\"end\":255}}]}";

static const char image_label[] =
    ",\"image-label\":{\"colors\":[{\"label-value\":1,\"rgba\":[255,0,0,255]},"
    "{\"label-value\":2}],\"properties\":[{\"label-value\":1,\"area\":5}],"
    "\"source\":{\"image\":\"../../\"}}";

static const char plate[] =
    "\"plate\":{\"name\":\"p\",\"rows\":[{\"name\":\"A\"},{\"name\":\"B\"}],"
    "\"columns\":[{\"name\":\"1\"},{\"name\":\"2\"}],"
    "\"wells\":[{\"path\":\"A/1\",\"rowIndex\":0,\"columnIndex\":0},"
    "{\"path\":\"B/2\",\"rowIndex\":1,\"columnIndex\":1}],"
    "\"acquisitions\":[{\"id\":0,\"maximumfieldcount\":1},{\"id\":3}],\"field_count\":1}";

static const char well[] = "\"well\":{\"images\":[{\"path\":\"0\",\"acquisition\":3}]}";

/* Members of the version's place: {"ome": {...}} or bare, with one text replaced. */
static char *members(int format, const char *text, const char *find, const char *replace)
{
    TG_AUTO(tg_text) t = {0};
    const char *at = find == NULL ? NULL : strstr(text, find);
    tg_text_add(&t, format == 3 ? "{\"ome\":{\"version\":\"0.5\"," : "{");
    if (at == NULL) {
        CHECK(find == NULL);
        tg_text_add(&t, text);
    } else {
        tg_text_add_n(&t, text, (size_t)(at - text));
        tg_text_add(&t, replace);
        tg_text_add(&t, at + strlen(find));
    }
    tg_text_add(&t, format == 3 ? "}}" : "}");
    return tg_text_steal(&t);
}

static void put_group(tg_store *s, int format, const char *path, const char *text,
                      const char *find, const char *replace)
{
    TG_AUTO(tg_str) attributes = members(format, text, find, replace);
    CHECK_STATUS(tg_group_create(s, path, format, attributes, NULL, NULL), TG_OK);
}

typedef struct array_kind {
    uint64_t height[2]; /* of both levels */
    tg_dtype dtype;
    const char *first_name; /* dimension, v3 */
    char separator;
    uint32_t ndim;
} array_kind;
static const array_kind usual = {{8, 4}, {TG_DT_UINT, 2}, "t", '/', 3};

static void put_arrays(tg_store *s, int format, const char *path, const array_kind *k)
{
    for (int level = 0; level < 2; level++) {
        TG_AUTO_PTR(tg_array) a = NULL;
        char key[128];
        const char *names[] = {k->first_name, "y", "x"};
        const uint64_t shape[] = {2, k->height[level], 8 >> level}, chunk[] = {1, 8, 8};
        tg_array_options o = {.size = sizeof o,
                              .format = format,
                              .dtype = k->dtype,
                              .ndim = k->ndim,
                              .shape = shape,
                              .chunk = chunk,
                              .separator = k->separator,
                              .dimension_names = format == 3 ? names : NULL};
        CHECK_STATUS(tg_path_join(key, sizeof key, path, level == 0 ? "0" : "1", NULL), TG_OK);
        CHECK_STATUS(tg_array_create(s, key, &o, &a, NULL, NULL), TG_OK);
    }
}

static void put_image(tg_store *s, int format, const char *path, const char *find,
                      const char *replace)
{
    put_group(s, format, path, multiscales, find, replace);
    put_arrays(s, format, path, &usual);
}

static tg_ome_verdict judge(tg_store *s, const char *path)
{
    tg_ome_verdict v = {.size = sizeof v};
    CHECK_STATUS(tg_ome_validate(s, path, &v, NULL, NULL), TG_OK);
    return v;
}

static void check_valid(tg_store *s, const char *kind, int format)
{
    tg_ome_verdict v = judge(s, "");
    CHECK(v.valid);
    CHECK(strcmp(v.kind, kind) == 0);
    CHECK(strcmp(v.version, format == 3 ? "0.5" : "0.4") == 0);
    if (!v.valid)
        fprintf(stderr, "%s\n", v.message);
}

static void check_invalid(tg_store *s, const char *says)
{
    tg_ome_verdict v = judge(s, "");
    CHECK(!v.valid);
    CHECK(strstr(v.message, says) != NULL);
    if (strstr(v.message, says) == NULL)
        fprintf(stderr, "%s: says '%s', want '%s'\n", test_row, v.message, says);
}

static tg_store *mem_store(void)
{
    tg_store *s = NULL;
    CHECK_STATUS(tg_store_open_mem(&s, NULL), TG_OK);
    return s;
}

static void put_label(tg_store *s, int format, const char *path, const char *find,
                      const char *replace)
{
    char text[4096];
    (void)snprintf(text, sizeof text, "%s%s", multiscales, image_label);
    put_group(s, format, path, text, find, replace);
    put_arrays(s, format, path, &usual);
}

static void put_plate(tg_store *s, int format, const char *find, const char *replace,
                      const char *well_find, const char *well_replace)
{
    put_group(s, format, "", plate, find, replace);
    put_group(s, format, "A/1", well, well_find, well_replace);
    put_group(s, format, "B/2", well, NULL, NULL);
    put_image(s, format, "A/1/0", NULL, NULL);
    put_image(s, format, "B/2/0", NULL, NULL);
}

/* --- The tests -------------------------------------------------------------- */

static void what_is_right_is_valid(void)
{
    for (int format = 2; format <= 3; format++) {
        TG_AUTO_PTR(tg_store) image = mem_store();
        TG_AUTO_PTR(tg_store) whole_plate = mem_store();
        TG_AUTO_PTR(tg_store) many = mem_store();
        put_image(image, format, "", NULL, NULL);
        check_valid(image, "image", format);
        put_group(image, format, "labels", "\"labels\":[\"cells\"]", NULL, NULL);
        put_label(image, format, "labels/cells", NULL, NULL);
        check_valid(image, "image", format);
        CHECK(strcmp(judge(image, "labels").kind, "labels") == 0);
        CHECK(strcmp(judge(image, "labels/cells").kind, "label") == 0);
        CHECK(judge(image, "labels").valid && judge(image, "labels/cells").valid);
        put_plate(whole_plate, format, NULL, NULL, NULL, NULL);
        check_valid(whole_plate, "plate", format);
        CHECK(judge(whole_plate, "A/1").valid);
        CHECK(strcmp(judge(whole_plate, "A/1").kind, "well") == 0);
        put_group(many, format, "", "\"bioformats2raw.layout\":3", NULL, NULL);
        put_image(many, format, "0", NULL, NULL);
        check_valid(many, "collection", format);
        put_group(many, format, "OME", "\"series\":[\"0\",\"left\"]", NULL, NULL);
        check_invalid(many, "'left'");
        put_image(many, format, "left", NULL, NULL);
        check_valid(many, "collection", format);
    }
}

/* The documents that a recorder writes. */
static void what_we_write_is_valid(void)
{
    static const char *const names[] = {"t", "y", "x"};
    for (int format = 2; format <= 3; format++) {
        TG_AUTO_PTR(tg_store) s = mem_store();
        TG_AUTO_PTR(tg_json) attributes = NULL;
        TG_AUTO(tg_str) text = NULL;
        const tg_ome_channel channel = {"GFP", NULL, 0};
        tg_ome_image image = {.version = format == 3 ? TG_OME_0_5 : TG_OME_0_4,
                              .n_axes = 3,
                              .n_levels = 2,
                              .method = "mean",
                              .dtype = {TG_DT_UINT, 2},
                              .channels = &channel,
                              .n_channels = 1};
        for (int i = 0; i < 3; i++)
            image.axes[i].name = names[i];
        CHECK_STATUS(tg_ome_image_attributes(&image, &attributes, NULL), TG_OK);
        CHECK_STATUS(tg_json_write(attributes, false, (tg_json_options){false}, &text, NULL),
                     TG_OK);
        CHECK_STATUS(tg_group_create(s, "", format, text, NULL, NULL), TG_OK);
        put_arrays(s, format, "", &usual);
        check_valid(s, "image", format);
    }
}

typedef struct wrong {
    const char *name, *find, *replace, *says;
} wrong;

static void images_that_break_a_rule(void)
{
    static const wrong rows[] = {
        {"no multiscale", "\"multiscales\":[{", "\"multiscales\":[],\"o\":[{", "multiscales"},
        {"multiscales no list", "\"multiscales\":[{", "\"multiscales\":7,\"o\":[{",
         "multiscales"},
        {"axes no list", "\"axes\":[", "\"axes\":{},\"o\":[", "axes"},
        {"axis without a name", "{\"name\":\"t\",", "{", "axes[0].name"},
        {"axis twice", "{\"name\":\"y\",", "{\"name\":\"x\",", "two are named 'x'"},
        {"axis type a number", "\"type\":\"time\"", "\"type\":4", "type"},
        {"axis unit a number", "\"unit\":\"micrometer\"", "\"unit\":4", "unit"},
        {"one axis of space", "{\"name\":\"y\",\"type\":\"space\"",
         "{\"name\":\"y\",\"type\":\"channel\"", "axes"},
        {"time late", "{\"name\":\"t\",\"type\":\"time\"},",
         "{\"name\":\"t\",\"type\":\"space\"},"
         "{\"name\":\"u\",\"type\":\"time\"},",
         "late"},
        {"two times", "{\"name\":\"t\",\"type\":\"time\"},",
         "{\"name\":\"t\",\"type\":\"time\"},{\"name\":\"u\",\"type\":\"time\"},", "axes"},
        {"six axes", "{\"name\":\"t\",\"type\":\"time\"},",
         "{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"d\"},{\"name\":\"e\"},", "6"},
        {"datasets empty", "\"datasets\":[", "\"datasets\":[],\"o\":[", "datasets"},
        {"dataset without a path", "{\"path\":\"0\",", "{", "path"},
        {"dataset that is missing", "{\"path\":\"0\",", "{\"path\":\"7\",", "'7'"},
        {"dataset outside", "{\"path\":\"0\",", "{\"path\":\"../0\",", ".."},
        {"dataset of a group", "{\"path\":\"0\",", "{\"path\":\"sub\",", "want an array"},
        {"no transformation",
         "\"coordinateTransformations\":[{\"type\":\"scale\","
         "\"scale\":[1,0.5,0.5]}]",
         "\"o\":1", "coordinateTransformations"},
        {"translation first", "\"scale\",\"scale\":[1,0.5,0.5]",
         "\"translation\",\"translation\":[1,0.5,0.5]", "want 'scale'"},
        {"scale of two numbers", "[1,0.5,0.5]", "[1,0.5]", "3 numbers"},
        {"scale of words", "[1,0.5,0.5]", "[1,\"a\",0.5]", "scale[1]"},
        {"two scales", "\"translation\",\"translation\":[0,0.25,0.25]",
         "\"scale\",\"scale\":[0,0.25,0.25]", "want 'translation'"},
        {"short translation", "[0,0.25,0.25]", "[0,0.25]", "3 numbers"},
        {"scale of all levels", "[2,1,1]", "[2,1]", "3 numbers"},
        {"channel without a color", "\"color\":\"FFffFF\",", "", "color"},
        {"color of 5 digits", "FFffFF", "FFffF", "color"},
        {"color of letters", "FFffFF", "FFffFG", "color"},
        {"window without an end", "\"start\":0,\"end\":255", "\"start\":0", "window.end"},
        {"channels no list", "\"channels\":[", "\"channels\":4,\"o\":[", "channels"},
        {"another version", "{\"name\":\"i\",", "{\"name\":\"i\",\"version\":\"0.1\",", "0.1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int format = 2; format <= 3; format++) {
            TG_AUTO_PTR(tg_store) s = mem_store();
            test_row = rows[i].name;
            put_image(s, format, "", rows[i].find, rows[i].replace);
            CHECK_STATUS(tg_group_create(s, "sub", format, NULL, NULL, NULL), TG_OK);
            check_invalid(s, rows[i].says);
        }
    test_row = "";
}

static void arrays_that_break_a_rule(void)
{
    static const struct {
        const char *name, *says;
        array_kind kind;
        int format; /* 0: both */
    } rows[] = {
        {"the second level is larger",
         "'1': larger",
         {{4, 8}, {TG_DT_UINT, 2}, "t", '/', 3},
         0},
        {"dimensions and axes", "dimensions", {{8, 4}, {TG_DT_UINT, 2}, "t", '/', 2}, 0},
        {"another dimension name",
         "dimension_names[0]",
         {{8, 4}, {TG_DT_UINT, 2}, "time", '/', 3},
         3},
        {"no dimension name", "dimension_names[0]", {{8, 4}, {TG_DT_UINT, 2}, NULL, '/', 3}, 3},
        {"separator", "dimension_separator", {{8, 4}, {TG_DT_UINT, 2}, "t", '.', 3}, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int format = 2; format <= 3; format++) {
            TG_AUTO_PTR(tg_store) s = mem_store();
            if (rows[i].format != 0 && rows[i].format != format)
                continue;
            test_row = rows[i].name;
            put_group(s, format, "", multiscales, NULL, NULL);
            put_arrays(s, format, "", &rows[i].kind);
            check_invalid(s, rows[i].says);
        }
    test_row = "";
}

static void labels_that_break_a_rule(void)
{
    static const wrong rows[] = {
        {"label-value twice", "{\"label-value\":2}", "{\"label-value\":1}", "colors[1]"},
        {"no label-value", "{\"label-value\":2}", "{}", "label-value"},
        {"rgba of 3", "[255,0,0,255]", "[255,0,0]", "rgba"},
        {"rgba of 256", "[255,0,0,255]", "[256,0,0,255]", "rgba"},
        {"property without a value", "{\"label-value\":1,\"area\":5}", "{\"area\":5}",
         "properties[0]"},
        {"source a string", "\"source\":{\"image\":\"../../\"}", "\"source\":\"x\"", "source"},
        {"image-label a list", "\"image-label\":{", "\"image-label\":[],\"o\":{",
         "image-label"},
        {"one level",
         ",{\"path\":\"1\",\"coordinateTransformations\":[{\"type\":\"scale\","
         "\"scale\":[1,1,1]},{\"type\":\"translation\",\"translation\":[0,0.25,0.25]}]}",
         "", "1 levels, want 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TG_AUTO_PTR(tg_store) s = mem_store();
        test_row = rows[i].name;
        put_image(s, 3, "", NULL, NULL);
        put_group(s, 3, "labels", "\"labels\":[\"cells\"]", NULL, NULL);
        put_label(s, 3, "labels/cells", rows[i].find, rows[i].replace);
        check_invalid(s, rows[i].says);
    }
    test_row = "labels that are no integers";
    TG_AUTO_PTR(tg_store) s = mem_store();
    put_image(s, 3, "", NULL, NULL);
    put_group(s, 3, "labels", "\"labels\":[\"cells\"]", NULL, NULL);
    put_group(s, 3, "labels/cells", multiscales, NULL, NULL);
    const array_kind floats = {{8, 4}, {TG_DT_FLOAT, 4}, "t", '/', 3};
    put_arrays(s, 3, "labels/cells", &floats);
    check_invalid(s, "integer");
    test_row = "a label that is missing";
    TG_AUTO_PTR(tg_store) none = mem_store();
    put_image(none, 3, "", NULL, NULL);
    put_group(none, 3, "labels", "\"labels\":[\"cells\"]", NULL, NULL);
    check_invalid(none, "labels/cells");
    test_row = "";
}

static void plates_that_break_a_rule(void)
{
    static const wrong rows[] = {
        {"no rows", "\"rows\":[", "\"rows\":[],\"o\":[", "rows: want"},
        {"row name", "{\"name\":\"A\"}", "{\"name\":\"A-\"}", "rows[0].name"},
        {"row twice", "{\"name\":\"B\"}", "{\"name\":\"A\"}", "'A' twice"},
        {"column a number", "{\"name\":\"1\"}", "{\"name\":1}", "columns[0].name"},
        {"no wells", "\"wells\":[", "\"wells\":[],\"o\":[", "wells: want"},
        {"index beyond", "\"rowIndex\":1", "\"rowIndex\":2", "wells[1]"},
        {"no index", "\"rowIndex\":1,", "", "wells[1]"},
        {"path and indexes", "\"rowIndex\":1", "\"rowIndex\":0", "'B/2', want 'A/2'"},
        {"well that is missing", "\"path\":\"A/1\",\"rowIndex\":0,\"columnIndex\":0",
         "\"path\":\"A/2\",\"rowIndex\":0,\"columnIndex\":1", "A/2"},
        {"acquisition id twice", "{\"id\":3}", "{\"id\":0}", "id 0 twice"},
        {"acquisition id below 0", "{\"id\":3}", "{\"id\":-3}", "acquisitions[1].id"},
        {"field count of 0", "\"field_count\":1", "\"field_count\":0", "field_count"},
        {"maximum of 0", "\"maximumfieldcount\":1", "\"maximumfieldcount\":0",
         "maximumfieldcount"},
        {"acquisition of the images", "{\"id\":3}", "{\"id\":4}", "none with id 3"},
        {"plate a list", "\"plate\":{", "\"plate\":[],\"o\":{", "plate"},
    };
    static const wrong wells[] = {
        {"no images", "\"images\":[", "\"images\":[],\"o\":[", "images: want"},
        {"image path", "\"path\":\"0\"", "\"path\":\"a/b\"", "images[0].path"},
        {"image that is missing", "\"path\":\"0\"", "\"path\":\"5\"", "A/1/5"},
        {"no acquisition", ",\"acquisition\":3", "", "the plate has 2"},
        {"acquisition a word", "\"acquisition\":3", "\"acquisition\":\"x\"", "acquisition"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TG_AUTO_PTR(tg_store) s = mem_store();
        test_row = rows[i].name;
        put_plate(s, 2 + (int)(i % 2), rows[i].find, rows[i].replace, NULL, NULL);
        check_invalid(s, rows[i].says);
    }
    for (size_t i = 0; i < sizeof wells / sizeof *wells; i++) {
        TG_AUTO_PTR(tg_store) s = mem_store();
        test_row = wells[i].name;
        put_plate(s, 2 + (int)(i % 2), NULL, NULL, wells[i].find, wells[i].replace);
        check_invalid(s, wells[i].says);
    }
    test_row = "";
}

static void versions_and_formats_go_together(void)
{
    TG_AUTO_PTR(tg_store) s = mem_store();
    test_row = "bare members in Zarr 3";
    TG_AUTO(tg_str) bare = members(2, multiscales, NULL, NULL);
    CHECK_STATUS(tg_group_create(s, "bare", 3, bare, NULL, NULL), TG_OK);
    CHECK(!judge(s, "bare").valid);
    test_row = "ome in Zarr 2";
    TG_AUTO(tg_str) nested = members(3, multiscales, NULL, NULL);
    TG_AUTO_PTR(tg_store) old = mem_store();
    CHECK_STATUS(tg_group_create(old, "", 2, nested, NULL, NULL), TG_OK);
    CHECK(!judge(old, "").valid);
    test_row = "another ome.version";
    CHECK_STATUS(tg_group_create(s, "later", 3, "{\"ome\":{\"version\":\"0.9\"}}", NULL, NULL),
                 TG_OK);
    CHECK(strstr(judge(s, "later").message, "0.9") != NULL);
    test_row = "an array";
    put_image(s, 3, "image", NULL, NULL);
    CHECK(strstr(judge(s, "image/0").message, "array") != NULL);
    test_row = "nothing there";
    tg_ome_verdict v = {.size = sizeof v};
    CHECK_STATUS(tg_ome_validate(s, "nowhere", &v, NULL, NULL), TG_NOT_FOUND);
    test_row = "";
}

/* What the store could not read is no verdict. */
static void a_failing_store_is_an_error(void)
{
    TG_AUTO_PTR(tg_store) s = mem_store();
    put_plate(s, 3, NULL, NULL, NULL, NULL);
    tg_status st = TG_IO;
    long n = 0;
    while (st == TG_IO && n < 1000) {
        TG_AUTO_PTR(tg_store) failing = NULL;
        tg_ome_verdict v = {.size = sizeof v};
        CHECK_STATUS(tg_store_open_fault(&failing, s, NULL), TG_OK);
        tg_store_fail_at(failing, ++n, false);
        st = tg_ome_validate(failing, "", &v, NULL, NULL);
        CHECK(st == TG_IO || (st == TG_OK && v.valid));
    }
    CHECK_STATUS(st, TG_OK);
    CHECK(n > 10);
}

static tg_store *alloc_store;
static tg_status validate_once(void)
{
    tg_ome_verdict v = {.size = sizeof v};
    tg_status st = tg_ome_validate(alloc_store, "", &v, NULL, NULL);
    return st == TG_OK && !v.valid ? TG_INVALID : st;
}

static void every_allocation_may_fail(void)
{
    alloc_store = mem_store();
    put_plate(alloc_store, 3, NULL, NULL, NULL, NULL);
    CHECK_EVERY_ALLOC(validate_once());
    tg_store_free(alloc_store);
}

static const struct test tests[] = {
    {"what is right is valid", what_is_right_is_valid},
    {"what we write is valid", what_we_write_is_valid},
    {"images that break a rule", images_that_break_a_rule},
    {"arrays that break a rule", arrays_that_break_a_rule},
    {"labels that break a rule", labels_that_break_a_rule},
    {"plates that break a rule", plates_that_break_a_rule},
    {"versions and formats go together", versions_and_formats_go_together},
    {"a failing store is an error", a_failing_store_is_an_error},
    {"every allocation may fail", every_allocation_may_fail},
};
TEST_MAIN(tests)
