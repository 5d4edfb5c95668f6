#include "check.h"
#include "zarr/zarr.h"

#define N 23

static const char *const words[] = {
    "", "a", "gr\xc3\xbc\xc3\x9f", "", "a longer string, 31 bytes long", "z"};

typedef struct strings {
    uint64_t offsets[N + 1];
    char text[4096];
} strings;

static void make(strings *s, size_t n, size_t shift)
{
    s->offsets[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const char *w = words[(i * 7 + shift) % 6];
        memcpy(s->text + s->offsets[i], w, strlen(w) + 1);
        s->offsets[i + 1] = s->offsets[i] + strlen(w);
    }
}

static const struct {
    const char *name;
    int format;
    uint64_t chunk, shard;
    bool start;
    const char *codec, *fill;
} layouts[] = {
    {"v3", 3, 5, 0, false, "none", ""},
    {"v3 zstd", 3, 5, 0, false, "zstd:1", "none"},
    {"v3 shard", 3, 3, 9, false, "none", ""},
    {"v3 shard at start", 3, 3, 9, true, "gzip:1", "fill"},
    {"v3 one chunk", 3, 100, 0, false, "none", ""},
    {"v2", 2, 5, 0, false, "none", ""},
    {"v2 zstd", 2, 5, 0, false, "zstd:1", "x"},
};

static tg_status create(tg_store *s, size_t i, tg_array **a)
{
    const uint64_t shape = N;
    const tg_array_options o = {.size = sizeof o,
                                .format = layouts[i].format,
                                .dtype = {TG_DT_STRING, 0},
                                .ndim = 1,
                                .shape = &shape,
                                .chunk = &layouts[i].chunk,
                                .shard = layouts[i].shard == 0 ? NULL : &layouts[i].shard,
                                .index_at_start = layouts[i].start,
                                .codec = layouts[i].codec,
                                .fill = layouts[i].fill};
    return tg_array_create(s, "s", &o, a, NULL, NULL);
}

static void check_read(tg_array *a, uint64_t start, uint64_t n, const char *const *want)
{
    uint64_t *offsets = NULL;
    char *text = NULL;

    REQUIRE_OK(tg_array_read_strings(a, start, n, 1 << 16, &offsets, &text, NULL, NULL));
    CHECK_U64(offsets[0], 0);
    for (uint64_t i = 0; i < n; i++) {
        size_t len = (size_t)(offsets[i + 1] - offsets[i]);
        CHECK(len == strlen(want[start + i]) &&
              memcmp(text + offsets[i], want[start + i], len) == 0);
    }
    tg_free(offsets);
    tg_free(text);
}

static void write_read_and_change(void)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_array) a = NULL;
        const char *want[N];
        strings src;
        test_row = layouts[i].name;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(create(s, i, &a));
        for (size_t k = 0; k < N; k++)
            want[k] = layouts[i].fill;
        check_read(a, 0, N, want);
        make(&src, 11, 1);
        REQUIRE_OK(tg_array_write_strings(a, 7, 11, src.offsets, src.text, NULL, NULL));
        for (size_t k = 0; k < 11; k++)
            want[7 + k] = words[(k * 7 + 1) % 6];
        check_read(a, 0, N, want);
        make(&src, 4, 3);
        REQUIRE_OK(tg_array_write_strings(a, 19, 4, src.offsets, src.text, NULL, NULL));
        for (size_t k = 0; k < 4; k++)
            want[19 + k] = words[(k * 7 + 3) % 6];
        REQUIRE_OK(tg_array_write_strings(a, 8, 4, src.offsets, src.text, NULL, NULL));
        for (size_t k = 0; k < 4; k++)
            want[8 + k] = words[(k * 7 + 3) % 6];
        check_read(a, 0, N, want);
        for (uint64_t start = 0; start < N; start++)
            check_read(a, start, (N - start + 1) / 2, want);
        CHECK(strcmp(tg_array_fill_text(a, NULL), layouts[i].fill) == 0);
    }
}

static void all_fill_is_not_stored(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    strings src;
    uint64_t n = 0;
    const uint64_t empty[6] = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(create(s, 0, &a));
    make(&src, 5, 1);
    REQUIRE_OK(tg_array_write_strings(a, 5, 5, src.offsets, src.text, NULL, NULL));
    CHECK(tg_store_size(s, "s/c/1", &n, NULL, NULL) == TG_OK);
    REQUIRE_OK(tg_array_write_strings(a, 5, 5, empty, "", NULL, NULL));
    CHECK(tg_store_size(s, "s/c/1", &n, NULL, NULL) == TG_NOT_FOUND);
}

static void limits_and_wrong_use(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    strings src;
    uint64_t *offsets = NULL;
    char *text = NULL;
    const uint64_t zero[1] = {0}, down[3] = {0, 5, 2};
    uint8_t item[16];
    tg_error err = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(create(s, 1, &a));
    make(&src, N, 0);
    REQUIRE_OK(tg_array_write_strings(a, 0, N, src.offsets, src.text, NULL, NULL));
    CHECK_STATUS(tg_array_read_strings(a, 0, N, 10, &offsets, &text, NULL, &err),
                 TG_OVER_BUDGET);
    CHECK(offsets == NULL && text == NULL && err.msg[0] != '\0');
    REQUIRE_OK(tg_array_read_strings(a, 0, 0, 0, &offsets, &text, NULL, NULL));
    CHECK(offsets[0] == 0 && text != NULL);
    tg_free(offsets);
    tg_free(text);
    CHECK_STATUS(tg_array_read_strings(a, 1, N, 1 << 16, &offsets, &text, NULL, NULL),
                 TG_INVALID);
    CHECK_STATUS(tg_array_write_strings(a, 0, 2, down, "abcde", NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_array_read(a, zero, zero, item, NULL, NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_array_write(a, zero, zero, item, NULL, NULL, NULL), TG_INVALID);
    REQUIRE_OK(tg_store_put(s, "s/c/0", "\5\0\0\0\377\377\377\377", 8, NULL, NULL));
    CHECK_STATUS(tg_array_read_strings(a, 0, 1, 1 << 16, &offsets, &text, NULL, &err),
                 TG_CORRUPT);
    CHECK(strstr(err.msg, "s/c/0") != NULL);
}

static tg_status use_in_memory(size_t layout)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    strings src;
    uint64_t *offsets = NULL;
    char *text = NULL;

    make(&src, 11, 1);
    TG_TRY(tg_store_open_mem(&s, NULL));
    TG_TRY(create(s, layout, &a));
    TG_TRY(tg_array_write_strings(a, 7, 11, src.offsets, src.text, NULL, NULL));
    TG_TRY(tg_array_write_strings(a, 6, 8, src.offsets, src.text, NULL, NULL));
    TG_TRY(tg_array_read_strings(a, 2, 20, 1 << 16, &offsets, &text, NULL, NULL));
    tg_free(offsets);
    tg_free(text);
    return TG_OK;
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(use_in_memory(1));
    CHECK_EVERY_ALLOC(use_in_memory(2));
}

static const struct test tests[] = {
    {"write_read_and_change", write_read_and_change},
    {"all_fill_is_not_stored", all_fill_is_not_stored},
    {"limits_and_wrong_use", limits_and_wrong_use},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
