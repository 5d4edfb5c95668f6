#include "check.h"
#include "ome/level.h"
#include "store/store.h"

#define AXES                                                            \
    "\"axes\":[{\"name\":\"t\",\"type\":\"time\",\"unit\":\"second\"}," \
    "{\"name\":\"y\",\"type\":\"space\",\"unit\":\"micrometer\"},{\"name\":\"x\"}]"
#define LEVEL(path, s)                                                                       \
    "{\"path\":\"" path "\",\"coordinateTransformations\":[{\"type\":\"scale\",\"scale\":" s \
    "},{\"type\":\"translation\",\"translation\":[0,5,5]}]}"
#define IMAGE(datasets)                                                            \
    "{\"multiscales\":[{\"version\":\"0.4\"," AXES ",\"datasets\":[" datasets "]," \
    "\"coordinateTransformations\":[{\"type\":\"scale\",\"scale\":[10,1,1]}]}]}"
#define OME5(datasets) \
    "{\"ome\":{\"version\":\"0.5\",\"multiscales\":[{" AXES ",\"datasets\":[" datasets "]}]}}"

static tg_status add_array(tg_store *s, int format, const char *path, const char *const *names)
{
    static const uint64_t shape[] = {2, 4, 6};
    const tg_array_options o = {.size = sizeof o,
                                .format = format,
                                .dtype = {TG_DT_UINT, 1},
                                .ndim = 3,
                                .shape = shape,
                                .dimension_names = names};
    tg_array *a = NULL;
    tg_status st = tg_array_create(s, path, &o, &a, NULL, NULL);
    tg_array_free(a);
    return st;
}

static void levels_of_both_versions(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_ome_level l;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_group_create(
        s, "p/im", 2, IMAGE(LEVEL("0", "[0.5,0.25,0.25]") "," LEVEL("r/1", "[0.5,0.5,0.5]")),
        NULL, NULL));
    REQUIRE_OK(add_array(s, 2, "p/im/0", NULL));
    REQUIRE_OK(add_array(s, 2, "p/im/r/1", NULL));
    REQUIRE_OK(tg_ome_level_read(&l, s, "p/im", NULL, NULL));
    CHECK(strcmp(l.array, "p/im/0") == 0 && strcmp(l.image, "p/im") == 0 && l.in_image);
    CHECK(l.ndim == 3 && l.scale[0] == 5 && l.scale[1] == 0.25 && l.level == 0);
    CHECK(strcmp(l.axis[1], "y") == 0 && strcmp(l.unit[1], "micrometer") == 0);
    CHECK(strcmp(l.unit[0], "second") == 0 && l.unit[2][0] == '\0');
    REQUIRE_OK(tg_ome_level_read(&l, s, "p/im/r/1", NULL, NULL));
    CHECK(strcmp(l.image, "p/im") == 0 && l.level == 1 && l.scale[2] == 0.5);
    REQUIRE_OK(tg_group_create(s, "q", 3, OME5(LEVEL("0", "[1,2,3]")), NULL, NULL));
    REQUIRE_OK(add_array(s, 3, "q/0", NULL));
    REQUIRE_OK(tg_ome_level_read(&l, s, "q/0", NULL, NULL));
    CHECK(l.in_image && l.scale[2] == 3 && l.shape[2] == 6);
}

static void an_array_of_no_image(void)
{
    static const char *const names[] = {"z", NULL, "x"};
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_ome_level l;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(add_array(s, 3, "a", names));
    REQUIRE_OK(tg_ome_level_read(&l, s, "a", NULL, NULL));
    CHECK(!l.in_image && l.image[0] == '\0' && strcmp(l.array, "a") == 0);
    CHECK(l.scale[0] == 1 && strcmp(l.axis[0], "z") == 0 && l.axis[1][0] == '\0');
    REQUIRE_OK(tg_group_create(s, "g", 3, NULL, NULL, NULL));
    REQUIRE_OK(add_array(s, 3, "g/h/b", names));
    REQUIRE_OK(tg_ome_level_read(&l, s, "g/h/b", NULL, NULL));
    CHECK(!l.in_image && strcmp(l.image, "g/h") == 0);
    CHECK_STATUS(tg_ome_level_read(&l, s, "g", NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_ome_level_read(&l, s, "none", NULL, NULL), TG_NOT_FOUND);
}

static void what_does_not_fit(void)
{
    static const char *const bad[] = {
        OME5(LEVEL("0", "[1,2]")),
        OME5(LEVEL("0", "[1,0,1]")),
        OME5(LEVEL("0", "[1,-1,1]")),
        OME5(LEVEL("0", "[1,1e308,1]")),
        "{\"ome\":{\"multiscales\":[{\"axes\":[],\"datasets\":[{\"path\":\"0\"}]}]}}",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        tg_ome_level l;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(tg_group_create(s, "q", 3, bad[i], NULL, NULL));
        REQUIRE_OK(add_array(s, 3, "q/0", NULL));
        CHECK_STATUS(tg_ome_level_read(&l, s, "q", NULL, NULL), i == 3 ? TG_OK : TG_CORRUPT);
    }
}

static const struct test tests[] = {
    {"levels_of_both_versions", levels_of_both_versions},
    {"an_array_of_no_image", an_array_of_no_image},
    {"what_does_not_fit", what_does_not_fit},
};

TEST_MAIN(tests)
