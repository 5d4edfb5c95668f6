/* Plates: what a file may say, where frames go, which documents come out. */
#include "base/json.h"
#include "check.h"
#include "ome/ome.h"

static tg_status parse(const char *text, tg_ome_plate **out, tg_error *err)
{
    return tg_ome_plate_parse(out, text, strlen(text), err);
}

static void names_are_counted_or_given(void)
{
    TG_AUTO_PTR(tg_ome_plate) p = NULL;
    CHECK_STATUS(parse("{\"rows\": 28, \"columns\": [\"7\", \"x9\"], \"frames\": 5}", &p, NULL),
                 TG_OK);
    REQUIRE(p != NULL);
    CHECK_U64(tg_ome_plate_wells(p), 56);
    CHECK_U64(tg_ome_plate_images(p), 56);
    CHECK_U64(tg_ome_plate_frames(p), 5);
    CHECK(strcmp(tg_ome_plate_well_path(p, 0), "A/7") == 0);
    CHECK(strcmp(tg_ome_plate_well_path(p, 51), "Z/x9") == 0);
    CHECK(strcmp(tg_ome_plate_well_path(p, 52), "AA/7") == 0);
    CHECK(strcmp(tg_ome_plate_well_path(p, 55), "AB/x9") == 0);
}

static void every_order_puts_frames_where_it_says(void)
{
    enum { WELLS = 3, FIELDS = 2, FRAMES = 4 };
    static const char *const words[] = {"well", "field", "frame"};
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int o = 0; o < 6; o++) {
        TG_AUTO_PTR(tg_ome_plate) p = NULL;
        char text[256];
        const uint64_t extent[3] = {WELLS, FIELDS, FRAMES};
        (void)snprintf(text, sizeof text,
                       "{\"rows\": 1, \"columns\": 3, \"fields\": 2, \"frames\": 4, "
                       "\"order\": [\"%s\", \"%s\", \"%s\"]}",
                       words[orders[o][0]], words[orders[o][1]], words[orders[o][2]]);
        test_row = text;
        CHECK_STATUS(parse(text, &p, NULL), TG_OK);
        REQUIRE(p != NULL);
        uint64_t at[3] = {0}, n = 0;
        for (at[orders[o][0]] = 0; at[orders[o][0]] < extent[orders[o][0]]; at[orders[o][0]]++)
            for (at[orders[o][1]] = 0; at[orders[o][1]] < extent[orders[o][1]];
                 at[orders[o][1]]++)
                for (at[orders[o][2]] = 0; at[orders[o][2]] < extent[orders[o][2]];
                     at[orders[o][2]]++, n++) {
                    uint64_t image = 99, frame = 99;
                    CHECK_STATUS(tg_ome_plate_locate(p, n, &image, &frame, NULL), TG_OK);
                    CHECK_U64(image, at[0] * FIELDS + at[1]);
                    CHECK_U64(frame, at[2]);
                }
        uint64_t image = 0, frame = 0;
        CHECK_STATUS(tg_ome_plate_locate(p, n, &image, &frame, NULL), TG_INVALID);
        CHECK(tg_ome_plate_interleaved(p) == (orders[o][2] != 2));
    }
    test_row = "";
}

static void time_lapses_have_no_end(void)
{
    TG_AUTO_PTR(tg_ome_plate) p = NULL;
    uint64_t image = 0, frame = 0;
    CHECK_STATUS(parse("{\"rows\": 1, \"columns\": 2, \"fields\": 3, "
                       "\"order\": [\"frame\", \"well\", \"field\"]}",
                       &p, NULL),
                 TG_OK);
    REQUIRE(p != NULL);
    CHECK_STATUS(tg_ome_plate_locate(p, 6000000001, &image, &frame, NULL), TG_OK);
    CHECK_U64(image, 1);
    CHECK_U64(frame, 1000000000);
}

static void chosen_wells(void)
{
    TG_AUTO_PTR(tg_ome_plate) p = NULL;
    char path[16];
    CHECK_STATUS(parse("{\"rows\": 2, \"columns\": 3, \"wells\": [\"B/3\", \"A/1\"], "
                       "\"fields\": 12, \"frames\": 1}",
                       &p, NULL),
                 TG_OK);
    REQUIRE(p != NULL);
    CHECK_U64(tg_ome_plate_images(p), 24);
    CHECK_STATUS(tg_ome_plate_image_path(p, 11, path, sizeof path, NULL), TG_OK);
    CHECK(strcmp(path, "B/3/11") == 0);
    CHECK_STATUS(tg_ome_plate_image_path(p, 12, path, sizeof path, NULL), TG_OK);
    CHECK(strcmp(path, "A/1/0") == 0);
    CHECK_STATUS(tg_ome_plate_image_path(p, 11, path, 6, NULL), TG_INVALID);
}

static void what_is_no_plate(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"[]", "object"},
        {"{\"rows\": 1", "plate"},
        {"{\"columns\": 1, \"frames\": 1}", "rows"},
        {"{\"rows\": 1, \"frames\": 1}", "columns"},
        {"{\"rows\": 0, \"columns\": 1, \"frames\": 1}", "rows"},
        {"{\"rows\": -1, \"columns\": 1, \"frames\": 1}", "rows"},
        {"{\"rows\": 1001, \"columns\": 1, \"frames\": 1}", "rows"},
        {"{\"rows\": [], \"columns\": 1, \"frames\": 1}", "rows"},
        {"{\"rows\": [\"A\", \"A\"], \"columns\": 1, \"frames\": 1}", "'A' twice"},
        {"{\"rows\": [\"A b\"], \"columns\": 1, \"frames\": 1}", "rows[0]"},
        {"{\"rows\": [\"..\"], \"columns\": 1, \"frames\": 1}", "rows[0]"},
        {"{\"rows\": [\"A\\u0000\"], \"columns\": 1, \"frames\": 1}", "rows[0]"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"wells\": [\"A/1\\u0000\"]}",
         "wells[0]"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"name\": \"p\\u0000\"}", "name"},
        {"{\"rows\": [3], \"columns\": 1, \"frames\": 1}", "rows[0]"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"wells\": [\"A/2\"]}", "wells[0]"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"wells\": [\"A\"]}", "wells[0]"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"wells\": [5]}", "wells[0]"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"wells\": []}", "wells"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"wells\": [\"A/1\", \"A/1\"]}",
         "twice"},
        {"{\"rows\": 200, \"columns\": 200, \"frames\": 1}", "wells"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"fields\": 0}", "fields"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"fields\": 1.5}", "fields"},
        {"{\"rows\": 1, \"columns\": 1}", "frames"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 99999999999}", "frames"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"order\": \"well\"}", "order"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"order\": [\"well\", \"field\"]}",
         "order"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"order\": [\"well\", \"well\", "
         "\"frame\"]}",
         "order"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"name\": 7}", "name"},
        {"{\"rows\": 1, \"columns\": 1, \"frames\": 1, \"colour\": 7}", "colour"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TG_AUTO_PTR(tg_ome_plate) p = NULL;
        tg_error err = {0};
        test_row = rows[i].text;
        CHECK_STATUS(parse(rows[i].text, &p, &err), TG_INVALID);
        CHECK(strstr(err.msg, rows[i].says) != NULL);
        CHECK(p == NULL);
    }
    test_row = "";
}

static bool same(const tg_json *got, const char *want)
{
    TG_AUTO_PTR(tg_json) parsed = NULL;
    return tg_json_parse(&parsed, want, strlen(want), (tg_json_options){false}, NULL) ==
               TG_OK &&
           tg_json_equal(got, parsed);
}

static void documents(void)
{
    TG_AUTO_PTR(tg_ome_plate) p = NULL;
    CHECK_STATUS(parse("{\"name\": \"p\", \"rows\": 1, \"columns\": 2, \"wells\": [\"A/2\"], "
                       "\"fields\": 2, \"frames\": 1, \"acquisition\": \"first\"}",
                       &p, NULL),
                 TG_OK);
    REQUIRE(p != NULL);
    TG_AUTO_PTR(tg_json) plate = NULL;
    TG_AUTO_PTR(tg_json) well = NULL;
    TG_AUTO_PTR(tg_json) old = NULL;
    CHECK_STATUS(tg_ome_plate_attributes(p, TG_OME_0_5, &plate, NULL), TG_OK);
    CHECK_STATUS(tg_ome_well_attributes(p, TG_OME_0_5, 0, &well, NULL), TG_OK);
    CHECK_STATUS(tg_ome_well_attributes(p, TG_OME_0_4, 0, &old, NULL), TG_OK);
    CHECK(same(plate,
               "{\"ome\":{\"version\":\"0.5\",\"plate\":{\"name\":\"p\","
               "\"rows\":[{\"name\":\"A\"}],\"columns\":[{\"name\":\"1\"},{\"name\":\"2\"}],"
               "\"wells\":[{\"path\":\"A/2\",\"rowIndex\":0,\"columnIndex\":1}],"
               "\"acquisitions\":[{\"id\":0,\"name\":\"first\",\"maximumfieldcount\":2}],"
               "\"field_count\":2}}}"));
    CHECK(same(well, "{\"ome\":{\"version\":\"0.5\",\"well\":{\"images\":[{\"path\":\"0\","
                     "\"acquisition\":0},{\"path\":\"1\",\"acquisition\":0}]}}}"));
    CHECK(same(old, "{\"well\":{\"version\":\"0.4\",\"images\":[{\"path\":\"0\","
                    "\"acquisition\":0},{\"path\":\"1\",\"acquisition\":0}]}}"));
}

static tg_status parse_and_free(void)
{
    TG_AUTO_PTR(tg_ome_plate) p = NULL;
    return parse("{\"rows\": 2, \"columns\": 3, \"frames\": 1}", &p, NULL);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(parse_and_free());
}

static const struct test tests[] = {
    {"names are counted or given", names_are_counted_or_given},
    {"every order puts frames where it says", every_order_puts_frames_where_it_says},
    {"time lapses have no end", time_lapses_have_no_end},
    {"chosen wells", chosen_wells},
    {"what is no plate", what_is_no_plate},
    {"documents", documents},
    {"every allocation may fail", every_allocation_may_fail},
};
TEST_MAIN(tests)
