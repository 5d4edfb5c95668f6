/* NGFF documents of images: whole documents, and the layouts that have none. */
#include "base/json.h"
#include "check.h"
#include "ome/ome.h"

#include <stdlib.h>

static const tg_ome_channel two[] = {{"DAPI", "0000FF", 0}, {"GFP", NULL, 0}};

static tg_ome_image cells(tg_ome_version version)
{
    return (tg_ome_image){.version = version,
                          .name = "cells",
                          .axes = {{"t", NULL, "second", 0.5},
                                   {"c", NULL, NULL, 0},
                                   {"y", NULL, "micrometer", 0.25},
                                   {"x", NULL, "micrometer", 0.125}},
                          .n_axes = 4,
                          .n_levels = 2,
                          .method = "mean",
                          .dtype = {TG_DT_UINT, 2},
                          .bits = 12,
                          .channels = two,
                          .n_channels = 2};
}

#define AXES                                                            \
    "\"axes\":[{\"name\":\"t\",\"type\":\"time\",\"unit\":\"second\"}," \
    "{\"name\":\"c\",\"type\":\"channel\"},"                            \
    "{\"name\":\"y\",\"type\":\"space\",\"unit\":\"micrometer\"},"      \
    "{\"name\":\"x\",\"type\":\"space\",\"unit\":\"micrometer\"}],"
#define DATASETS                                                   \
    "\"datasets\":[{\"path\":\"0\",\"coordinateTransformations\":" \
    "[{\"type\":\"scale\",\"scale\":[0.5,1.0,0.25,0.125]}]},"      \
    "{\"path\":\"1\",\"coordinateTransformations\":"               \
    "[{\"type\":\"scale\",\"scale\":[0.5,1.0,0.5,0.25]},"          \
    "{\"type\":\"translation\",\"translation\":[0.0,0.0,0.125,0.0625]}]}],"
#define METHOD                                                                               \
    "\"type\":\"mean\",\"metadata\":{\"description\":\"blocks of 2 x 2 pixels of the level " \
    "before, frame by frame\",\"method\":\"tidegate\"}"
#define CHANNEL(name, color)                                                               \
    "{\"label\":\"" name "\",\"color\":\"" color "\",\"active\":true,\"coefficient\":1.0," \
    "\"family\":\"linear\",\"inverted\":false,"                                            \
    "\"window\":{\"min\":0,\"max\":4095,\"start\":0,\"end\":4095}}"
#define OMERO                                                          \
    "\"omero\":{\"channels\":[" CHANNEL("DAPI", "0000FF") "," CHANNEL( \
        "GFP", "FF00FF") "],\"rdefs\":{\"defaultT\":0,\"defaultZ\":0,\"model\":\"color\"}}"

static void whole_documents(void)
{
    static const struct {
        const char *name;
        tg_ome_version version;
        const char *want;
    } rows[] = {
        {"0.5", TG_OME_0_5,
         "{\"ome\":{\"version\":\"0.5\",\"multiscales\":[{\"name\":\"cells\"," AXES DATASETS
             METHOD "}]," OMERO "}}"},
        {"0.4", TG_OME_0_4,
         "{\"multiscales\":[{\"version\":\"0.4\",\"name\":\"cells\"," AXES DATASETS METHOD
         "}]," OMERO "}"},
    };
    for (size_t i = 0; i < 2; i++) {
        TG_AUTO_PTR(tg_json) got = NULL;
        TG_AUTO_PTR(tg_json) want = NULL;
        TG_AUTO(tg_str) text = NULL;
        tg_ome_image image = cells(rows[i].version);
        test_row = rows[i].name;
        CHECK_STATUS(tg_ome_image_attributes(&image, &got, NULL), TG_OK);
        CHECK_STATUS(tg_json_parse(&want, rows[i].want, strlen(rows[i].want),
                                   (tg_json_options){false}, NULL),
                     TG_OK);
        CHECK(tg_json_equal(got, want));
        if (!tg_json_equal(got, want) &&
            tg_json_write(got, true, (tg_json_options){false}, &text, NULL) == TG_OK)
            fprintf(stderr, "%s\n", text);
    }
    test_row = "";
}

static const tg_json *first_of(const tg_json *root, const char *key)
{
    const tg_json *ome = tg_json_get(root, "ome");
    return tg_json_at(tg_json_get(ome, key), 0);
}

static void decimated_levels_are_not_shifted(void)
{
    TG_AUTO_PTR(tg_json) got = NULL;
    tg_ome_image image = cells(TG_OME_0_5);
    image.method = "decimate";
    image.n_levels = 12; /* two digits of a path, too */
    CHECK_STATUS(tg_ome_image_attributes(&image, &got, NULL), TG_OK);
    const tg_json *datasets = tg_json_get(first_of(got, "multiscales"), "datasets");
    CHECK_U64(tg_json_size(datasets), 12);
    for (size_t i = 0; i < tg_json_size(datasets); i++) {
        const tg_json *d = tg_json_at(datasets, i);
        const char *path = "";
        CHECK_U64(tg_json_size(tg_json_get(d, "coordinateTransformations")), 1);
        CHECK_STATUS(tg_json_string(tg_json_get(d, "path"), &path, NULL, NULL), TG_OK);
        CHECK_U64(strtoul(path, NULL, 10), i);
    }
}

static void windows_follow_the_dtype(void)
{
    static const struct {
        const char *name;
        tg_dtype dtype;
        uint32_t bits;
        double least, most;
    } rows[] = {
        {"uint8", {TG_DT_UINT, 1}, 0, 0, 255},
        {"int16", {TG_DT_INT, 2}, 0, -32768, 32767},
        {"uint16 of 10 bits", {TG_DT_UINT, 2}, 10, 0, 1023},
        {"more bits than there are", {TG_DT_UINT, 1}, 12, 0, 255},
        {"uint64", {TG_DT_UINT, 8}, 0, 0, 18446744073709551615.0},
        {"int64", {TG_DT_INT, 8}, 0, -9223372036854775808.0, 9223372036854775807.0},
        {"float32", {TG_DT_FLOAT, 4}, 0, 0, 1},
        {"bool", {TG_DT_BOOL, 1}, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TG_AUTO_PTR(tg_json) got = NULL;
        tg_ome_image image = cells(TG_OME_0_5);
        image.dtype = rows[i].dtype;
        image.bits = rows[i].bits;
        test_row = rows[i].name;
        CHECK_STATUS(tg_ome_image_attributes(&image, &got, NULL), TG_OK);
        const tg_json *omero = tg_json_get(tg_json_get(got, "ome"), "omero");
        const tg_json *w = tg_json_get(tg_json_at(tg_json_get(omero, "channels"), 0), "window");
        double least = 7, most = 7;
        CHECK_STATUS(tg_json_double(tg_json_get(w, "start"), &least, NULL), TG_OK);
        CHECK_STATUS(tg_json_double(tg_json_get(w, "end"), &most, NULL), TG_OK);
        CHECK(least == rows[i].least && most == rows[i].most);
    }
    test_row = "";
}

static void layouts_without_a_form_are_refused(void)
{
    static const struct {
        const char *name, *axes; /* a letter an axis */
    } rows[] = {
        {"frame axis last", "yxt"},
        {"six axes", "tcpzyx"},
        {"channel behind space", "tyxc"},
        {"channel before time", "ctyx"},
        {"lines", "tx"},
        {"one axis", "x"},
        {"twice", "tyy"},
        {"two that are neither time nor space", "cpyx"},
        {"time behind z", "ztyx"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static const char *const letters[] = {"t", "c", "p", "z", "y", "x"};
        TG_AUTO_PTR(tg_json) got = NULL;
        tg_error err = {0};
        tg_ome_image image = cells(TG_OME_0_5);
        test_row = rows[i].name;
        image.n_axes = (uint32_t)strlen(rows[i].axes);
        for (uint32_t k = 0; k < image.n_axes && k < TG_OME_MAX_AXES; k++)
            for (size_t l = 0; l < 6; l++)
                if (letters[l][0] == rows[i].axes[k])
                    image.axes[k] = (tg_ome_axis){.name = letters[l]};
        CHECK_STATUS(tg_ome_image_check(&image, &err), TG_UNSUPPORTED);
        CHECK_STATUS(tg_ome_image_attributes(&image, &got, NULL), TG_UNSUPPORTED);
        CHECK(strstr(err.msg, "OME-NGFF") != NULL && got == NULL);
    }
    test_row = "";
    tg_ome_image plane = cells(TG_OME_0_5);
    plane.n_axes = 2;
    plane.axes[0] = (tg_ome_axis){.name = "y"};
    plane.axes[1] = (tg_ome_axis){.name = "x"};
    CHECK_STATUS(tg_ome_image_check(&plane, NULL), TG_OK);
}

static void collections_list_their_series(void)
{
    static const char *const paths[] = {"left", "right/top"};
    TG_AUTO_PTR(tg_json) root = NULL;
    TG_AUTO_PTR(tg_json) group = NULL;
    CHECK_STATUS(tg_ome_collection_attributes(TG_OME_0_5, paths, 2, &root, &group, NULL),
                 TG_OK);
    const tg_json *ome = tg_json_get(root, "ome");
    uint64_t layout = 0;
    CHECK_STATUS(tg_json_u64(tg_json_get(ome, "bioformats2raw.layout"), &layout, NULL), TG_OK);
    CHECK_U64(layout, 3);
    const tg_json *series = tg_json_get(tg_json_get(group, "ome"), "series");
    const char *second = "";
    CHECK_U64(tg_json_size(series), 2);
    CHECK_STATUS(tg_json_string(tg_json_at(series, 1), &second, NULL, NULL), TG_OK);
    CHECK(strcmp(second, "right/top") == 0);
}

static const struct test tests[] = {
    {"whole documents", whole_documents},
    {"decimated levels are not shifted", decimated_levels_are_not_shifted},
    {"windows follow the dtype", windows_follow_the_dtype},
    {"layouts without a form are refused", layouts_without_a_form_are_refused},
    {"collections list their series", collections_list_their_series},
};
TEST_MAIN(tests)
