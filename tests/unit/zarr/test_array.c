#include "check.h"
#include "zarr/zarr.h"

/* --- A model: the array as it should be, in plain memory ------------------ */

#define MODEL_ITEMS 4096

typedef struct model {
    tg_shape shape;
    uint16_t items[MODEL_ITEMS];
} model;

static uint32_t seed;
static uint32_t next_random(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void random_box(const tg_shape *shape, uint64_t *start, uint64_t *n)
{
    for (uint32_t i = 0; i < shape->ndim; i++) {
        start[i] = next_random((uint32_t)shape->n[i]);
        n[i] = 1 + next_random((uint32_t)(shape->n[i] - start[i]));
    }
}

static uint16_t *model_at(model *m, const uint64_t *start, int64_t *strides)
{
    size_t at = 0;
    tg_strides_c(&m->shape, 2, strides);
    for (uint32_t i = 0; i < m->shape.ndim; i++)
        at += (size_t)start[i] * (size_t)strides[i];
    return m->items + at / 2;
}

/* Write random items (now and then all fill) to both; then read random boxes of both. */
static void write_both(tg_array *a, model *m, uint16_t fill)
{
    static uint16_t src[MODEL_ITEMS];
    uint64_t start[TG_MAX_NDIM], n[TG_MAX_NDIM];
    int64_t strides[TG_MAX_NDIM], c[TG_MAX_NDIM];
    tg_shape part = {.ndim = m->shape.ndim};
    const bool all_fill = next_random(4) == 0;

    random_box(&m->shape, start, n);
    memcpy(part.n, n, sizeof n);
    for (size_t i = 0; i < MODEL_ITEMS; i++)
        src[i] = all_fill ? fill : (uint16_t)next_random(65536);
    uint16_t *at = model_at(m, start, strides);
    tg_strides_c(&part, 2, c);
    tg_nd_copy(at, strides, src, c, &part, 2);
    tg_error err = {0};
    if (tg_array_write(a, start, n, src, NULL, NULL, &err) != TG_OK)
        test_failed(__FILE__, __LINE__, err.msg);
}

static void read_both(tg_array *a, model *m)
{
    static uint16_t got[MODEL_ITEMS], want[MODEL_ITEMS];
    uint64_t start[TG_MAX_NDIM], n[TG_MAX_NDIM], items = 0;
    int64_t strides[TG_MAX_NDIM], c[TG_MAX_NDIM];
    tg_shape part = {.ndim = m->shape.ndim};

    random_box(&m->shape, start, n);
    memcpy(part.n, n, sizeof n);
    tg_strides_c(&part, 2, c);
    tg_nd_copy(want, c, model_at(m, start, strides), strides, &part, 2);
    tg_error err = {0};
    if (tg_array_read(a, start, n, got, NULL, NULL, &err) != TG_OK)
        test_failed(__FILE__, __LINE__, err.msg);
    REQUIRE_OK(tg_shape_items(&part, &items, NULL));
    CHECK(memcmp(got, want, (size_t)items * 2) == 0);
}

struct layout {
    const char *name;
    int format;
    uint32_t ndim;
    uint64_t shape[3], chunk[3], shard[3]; /* shard[0] 0: none */
    bool start;
    const char *codec;
    char separator;
};

static const struct layout layouts[] = {
    {"v3 0-d", 3, 0, {0}, {0}, {0}, false, "none", '/'},
    {"v3 0-d shard (SH12)", 3, 0, {0}, {0}, {9}, false, "none", '/'},
    {"v3 1-d", 3, 1, {100}, {7}, {0}, false, "none", '/'},
    {"v3 2-d zstd", 3, 2, {20, 31}, {6, 8}, {0}, false, "zstd:1", '.'},
    {"v3 chunk beyond shape (W22)", 3, 2, {5, 6}, {50, 60}, {0}, false, "gzip:1", '/'},
    {"v3 shard, end", 3, 2, {20, 31}, {3, 4}, {9, 16}, false, "none", '/'},
    {"v3 shard, start", 3, 2, {20, 31}, {3, 4}, {9, 16}, true, "none", '/'},
    {"v3 shard, zstd, start", 3, 3, {9, 10, 11}, {2, 3, 4}, {4, 6, 8}, true, "zstd:1", '/'},
    {"v3 shard, zstd, end", 3, 3, {9, 10, 11}, {2, 3, 4}, {4, 6, 8}, false, "zstd:1", '.'},
    {"v3 shard of one chunk", 3, 1, {100}, {7}, {7}, false, "none", '/'},
    {"S4 inner chunk of 1", 3, 2, {6, 7}, {1, 7}, {4, 7}, false, "none", '/'},
    {"S7 last shard partial", 3, 1, {50}, {4}, {16}, true, "blosc:lz4:5", '/'},
    {"v2 1-d", 2, 1, {100}, {7}, {0}, false, "none", '.'},
    {"v2 2-d nested lz4", 2, 2, {20, 31}, {6, 8}, {0}, false, "lz4", '/'},
    {"v2 0-d", 2, 0, {0}, {0}, {0}, false, "none", '.'},
};

static tg_status create(tg_store *s, const struct layout *l, const void *fill, tg_array **a)
{
    const tg_array_options o = {.size = sizeof o,
                                .format = l->format,
                                .dtype = {TG_DT_UINT, 2},
                                .ndim = l->ndim,
                                .shape = l->shape,
                                .chunk = l->chunk,
                                .shard = l->shard[0] == 0 ? NULL : l->shard,
                                .index_at_start = l->start,
                                .codec = l->codec,
                                .separator = l->separator,
                                .fill = fill};
    return tg_array_create(s, "g/x", &o, a, NULL, NULL);
}

static void random_writes_and_reads_agree(void)
{
    static model m;
    const uint16_t fill = 7;

    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_array) a = NULL;
        TG_AUTO_PTR(tg_array) again = NULL;
        test_row = layouts[i].name;
        seed = 1 + (uint32_t)i;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(create(s, &layouts[i], &fill, &a));
        m.shape.ndim = layouts[i].ndim;
        memcpy(m.shape.n, layouts[i].shape, sizeof layouts[i].shape);
        for (size_t k = 0; k < MODEL_ITEMS; k++)
            m.items[k] = fill;
        for (int round = 0; round < 40; round++) {
            write_both(a, &m, fill);
            read_both(a, &m);
            read_both(a, &m);
        }
        REQUIRE_OK(tg_array_open(s, "g/x", &again, NULL, NULL));
        for (int round = 0; round < 20; round++)
            read_both(again, &m);
    }
}

/* --- Strides --------------------------------------------------------------- */

static void strides_of_any_sign(void)
{
    const struct layout l = {"", 3, 2, {4, 6}, {2, 3}, {0}, false, "none", '/'};
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    uint16_t src[24], got[24];
    const uint64_t zero[2] = {0, 0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(create(s, &l, NULL, &a));
    for (uint16_t i = 0; i < 24; i++)
        src[i] = (uint16_t)(i + 1);
    const int64_t transposed[2] = {2, 8}; /* the buffer is (6, 4) */
    REQUIRE_OK(tg_array_write(a, zero, l.shape, src, transposed, NULL, NULL));
    REQUIRE_OK(tg_array_read(a, zero, l.shape, got, NULL, NULL, NULL));
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 6; x++)
            CHECK_U64(got[y * 6 + x], src[x * 4 + y]);
    const int64_t backward[2] = {-12, -2};
    REQUIRE_OK(tg_array_read(a, zero, l.shape, got + 23, backward, NULL, NULL));
    for (int i = 0; i < 24; i++)
        CHECK_U64(got[23 - i], src[i % 6 * 4 + i / 6]);
    const int64_t broadcast[2] = {0, 2};
    REQUIRE_OK(tg_array_write(a, zero, l.shape, src, broadcast, NULL, NULL));
    REQUIRE_OK(tg_array_read(a, zero, l.shape, got, NULL, NULL, NULL));
    CHECK(memcmp(got, src, 12) == 0 && memcmp(got + 18, src, 12) == 0);
}

/* --- What is stored, and what it costs ------------------------------------ */

static bool has(tg_store *s, const char *key)
{
    uint64_t n = 0;
    return tg_store_size(s, key, &n, NULL, NULL) == TG_OK;
}

static void w8_fill_is_compared_bit_by_bit(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    const uint64_t shape[1] = {4}, chunk[1] = {2}, zero[1] = {0};
    const tg_array_options o = {
        .size = sizeof o, .dtype = {TG_DT_FLOAT, 8}, .ndim = 1, .shape = shape, .chunk = chunk};
    const double minus[4] = {-0.0, -0.0, 0.0, 0.0};
    double got[4];

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_array_create(s, "x", &o, &a, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, zero, shape, minus, NULL, NULL, NULL));
    CHECK(has(s, "x/c/0") && !has(s, "x/c/1"));
    REQUIRE_OK(tg_array_read(a, zero, shape, got, NULL, NULL, NULL));
    CHECK(memcmp(got, minus, sizeof got) == 0);
}

static void chunks_that_become_fill_go_away(void)
{
    for (int sharded = 0; sharded < 2; sharded++) {
        struct layout l = {"", 3, 1, {8}, {2}, {0}, false, "none", '/'};
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_array) a = NULL;
        const uint64_t zero[1] = {0}, two[1] = {2}, four[1] = {4}, six[1] = {6};
        const uint16_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, zeros[8] = {0};

        l.shard[0] = sharded ? 4 : 0;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(create(s, &l, NULL, &a));
        REQUIRE_OK(tg_array_write(a, zero, l.shape, ones, NULL, NULL, NULL));
        CHECK(has(s, "g/x/c/0") && has(s, "g/x/c/1"));
        REQUIRE_OK(tg_array_write(a, zero, four, zeros, NULL, NULL, NULL));
        CHECK(!has(s, "g/x/c/0")); /* SH9: no shard of an index alone */
        CHECK(has(s, sharded ? "g/x/c/1" : "g/x/c/2"));
        REQUIRE_OK(tg_array_write(a, four, two, zeros, NULL, NULL, NULL));
        CHECK(has(s, sharded ? "g/x/c/1" : "g/x/c/3"));
        REQUIRE_OK(tg_array_write(a, six, two, zeros, NULL, NULL, NULL));
        CHECK(!has(s, "g/x/c/1") && !has(s, "g/x/c/3"));
    }
}

/* V2-5: without a fill value a missing chunk is undefined, so zeros must be stored. */
static void zeros_are_stored_where_there_is_no_fill(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    const char *doc = "{\"zarr_format\":2,\"shape\":[2],\"chunks\":[2],\"dtype\":\"|u1\","
                      "\"compressor\":null,\"fill_value\":null,\"order\":\"C\","
                      "\"filters\":null}";
    const uint64_t zero[1] = {0}, two[1] = {2};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_store_put(s, ".zarray", doc, strlen(doc), NULL, NULL));
    REQUIRE_OK(tg_array_open(s, "", &a, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, zero, two, "\0", NULL, NULL, NULL));
    CHECK(has(s, "0"));
}

static void covered_units_are_written_without_a_read(void)
{
    for (int sharded = 0; sharded < 2; sharded++) {
        struct layout l = {"", 3, 1, {10}, {2}, {0}, false, "none", '/'};
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_store) counted = NULL;
        TG_AUTO_PTR(tg_array) a = NULL;
        const uint64_t zero[1] = {0}, three[1] = {3};
        const uint16_t ones[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

        l.shard[0] = sharded ? 4 : 0;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(tg_store_open_count(&counted, s, NULL));
        REQUIRE_OK(create(counted, &l, NULL, &a));
        tg_store_counts before = tg_store_counted(counted);
        REQUIRE_OK(tg_array_write(a, zero, l.shape, ones, NULL, NULL, NULL));
        tg_store_counts after = tg_store_counted(counted);
        CHECK_U64(after.gets - before.gets, 0); /* also the last, partial one */
        CHECK_U64(after.puts - before.puts, sharded ? 3 : 5);
        REQUIRE_OK(tg_array_write(a, zero, three, ones, NULL, NULL, NULL));
        CHECK(tg_store_counted(counted).gets > after.gets);
        CHECK_U64(tg_store_counted(counted).puts - after.puts, sharded ? 1 : 2);
    }
}

/* SH8: one request for the index, one for the chunks. */
static void a_shard_is_read_with_two_requests(void)
{
    const struct layout l = {"", 3, 2, {8, 8}, {2, 2}, {8, 8}, false, "none", '/'};
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_store) counted = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    uint16_t items[64];
    const uint64_t zero[2] = {0, 0};

    for (uint16_t i = 0; i < 64; i++)
        items[i] = (uint16_t)(i + 1);
    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_store_open_count(&counted, s, NULL));
    REQUIRE_OK(create(counted, &l, NULL, &a));
    REQUIRE_OK(tg_array_write(a, zero, l.shape, items, NULL, NULL, NULL));
    tg_store_counts before = tg_store_counted(counted);
    REQUIRE_OK(tg_array_read(a, zero, l.shape, items, NULL, NULL, NULL));
    CHECK_U64(tg_store_counted(counted).gets - before.gets, 2);
    for (uint16_t i = 0; i < 64; i++)
        CHECK_U64(items[i], i + 1u);
}

/* --- Resize ---------------------------------------------------------------- */

static void resize_removes_what_is_outside(void)
{
    for (int nested = 0; nested < 2; nested++) {
        const struct layout l = {
            "", 3, 2, {9, 9}, {3, 3}, {0}, false, "none", nested ? '/' : '.'};
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_array) a = NULL;
        TG_AUTO_PTR(tg_array) again = NULL;
        uint16_t items[81], fill = 0;
        const uint64_t zero[2] = {0, 0}, small[2] = {4, 9},
                       big[2] = {UINT64_C(1000000000000000), 9};
        const uint64_t at[2] = {6, 0}, one[2] = {1, 1};
        tg_array_info info = {.size = sizeof info};

        memset(items, 1, sizeof items);
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(create(s, &l, &fill, &a));
        REQUIRE_OK(tg_array_write(a, zero, l.shape, items, NULL, NULL, NULL));
        REQUIRE_OK(tg_array_resize(a, small, NULL, NULL));
        CHECK(has(s, nested ? "g/x/c/1/2" : "g/x/c.1.2"));
        CHECK(!has(s, nested ? "g/x/c/2/0" : "g/x/c.2.0"));
        REQUIRE_OK(tg_array_resize(a, big, NULL, NULL)); /* W11 */
        REQUIRE_OK(tg_array_get_info(a, &info, NULL));
        CHECK_U64(info.shape[0], big[0]);
        REQUIRE_OK(tg_array_open(s, "g/x", &again, NULL, NULL));
        REQUIRE_OK(tg_array_read(again, at, one, items, NULL, NULL, NULL));
        CHECK_U64(items[0], 0);
    }
}

static void m31_zero_length(void)
{
    const struct layout l = {"", 3, 2, {3, 0}, {2, 2}, {0}, false, "none", '/'};
    const uint64_t zero[2] = {0, 0}, shape[2] = {3, 4}, at[2] = {0, 3}, one[2] = {3, 1};
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    uint16_t items[3] = {4, 5, 6};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(create(s, &l, NULL, &a));
    REQUIRE_OK(tg_array_read(a, zero, l.shape, items, NULL, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, zero, l.shape, items, NULL, NULL, NULL));
    REQUIRE_OK(tg_array_resize(a, shape, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, at, one, items, NULL, NULL, NULL));
    memset(items, 0, sizeof items);
    REQUIRE_OK(tg_array_read(a, at, one, items, NULL, NULL, NULL));
    CHECK(items[0] == 4 && items[2] == 6);
}

/* --- What is refused ------------------------------------------------------- */

static void requests_outside_are_refused(void)
{
    const struct layout l = {"", 3, 1, {8}, {2}, {0}, false, "none", '/'};
    const uint64_t rows[][2] = {
        {0, 9}, {9, 0}, {8, 1}, {UINT64_MAX, 2}, {2, UINT64_MAX},
    };
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    uint16_t items[16] = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(create(s, &l, NULL, &a));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_STATUS(tg_array_read(a, &rows[i][0], &rows[i][1], items, NULL, NULL, NULL),
                     TG_INVALID);
        CHECK_STATUS(tg_array_write(a, &rows[i][0], &rows[i][1], items, NULL, NULL, NULL),
                     TG_INVALID);
    }
}

static void what_stands_in_the_way_of_create(void)
{
    const struct layout l = {"", 3, 1, {8}, {2}, {0}, false, "none", '/'};
    const uint64_t zero[1] = {0};
    const uint16_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    TG_AUTO_PTR(tg_array) b = NULL;
    tg_array_options o = {.size = sizeof o,
                          .dtype = {TG_DT_UINT, 2},
                          .ndim = 1,
                          .shape = l.shape,
                          .chunk = l.chunk};
    tg_error err = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(create(s, &l, NULL, &a));
    REQUIRE_OK(tg_array_write(a, zero, l.shape, ones, NULL, NULL, NULL));
    CHECK_STATUS(tg_array_create(s, "g/x", &o, &b, NULL, &err), TG_EXISTS);
    CHECK_STATUS(tg_array_create(s, "g", &o, &b, NULL, &err), TG_EXISTS);
    CHECK_STATUS(tg_array_create(s, "g/x/y", &o, &b, NULL, &err), TG_INVALID);
    REQUIRE_OK(tg_store_remove(s, "g/x/zarr.json", NULL, NULL));
    CHECK_STATUS(tg_array_create(s, "g/x", &o, &b, NULL, &err), TG_EXISTS); /* chunks */
    CHECK(strstr(err.msg, "chunks") != NULL);
    REQUIRE_OK(tg_store_put(s, "g/xy/zarr.json", "{}", 2, NULL, NULL)); /* W4: a sibling */
    o.overwrite = true;
    REQUIRE_OK(tg_array_create(s, "g/x", &o, &b, NULL, NULL));
    CHECK(!has(s, "g/x/c/0") && has(s, "g/xy/zarr.json") && has(s, "g/x/zarr.json"));
    TG_AUTO_PTR(tg_array) group = NULL;
    CHECK_STATUS(tg_array_open(s, "g", &group, NULL, &err), TG_INVALID);
    CHECK_STATUS(tg_array_open(s, "none", &group, NULL, &err), TG_NOT_FOUND); /* W2 */
}

/* A chunk of 4 GiB can be seen before it is read. */
static void worst_bytes_tell_before_anything_is_read(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) small = NULL;
    TG_AUTO_PTR(tg_array) big = NULL;
    const uint64_t shape[1] = {UINT64_C(1) << 40}, chunk[1] = {UINT64_C(4) << 30},
                   tiny[1] = {1024}, shard[1] = {UINT64_C(1) << 24};
    tg_array_options o = {.size = sizeof o,
                          .dtype = {TG_DT_UINT, 1},
                          .ndim = 1,
                          .shape = shape,
                          .chunk = chunk,
                          .codec = "zstd:1"};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_array_create(s, "big", &o, &big, NULL, NULL));
    CHECK(tg_array_worst_bytes(big) > (size_t)8 << 30);
    o.chunk = tiny;
    o.shard = shard;
    REQUIRE_OK(tg_array_create(s, "small", &o, &small, NULL, NULL));
    CHECK(tg_array_worst_bytes(small) > 16384 * 16);
    CHECK(tg_array_worst_bytes(small) < (size_t)16 << 20); /* not the shard */
}

static void a_call_takes_no_more_than_worst_bytes(void)
{
    static uint8_t items[1 << 20];
    static const char *const codecs[] = {"none", "zstd:3", "blosc:lz4:5", "gzip:6"};

    for (size_t c = 0; c < 4; c++)
        for (int sharded = 0; sharded < 3; sharded++) {
            TG_AUTO_PTR(tg_store) s = NULL;
            TG_AUTO_PTR(tg_array) a = NULL;
            const uint64_t shape[1] = {sizeof items}, chunk[1] = {64 << 10},
                           shard[1] = {256 << 10}, at[1] = {1000}, n[1] = {sizeof items - 2000};
            const tg_array_options o = {.size = sizeof o,
                                        .dtype = {TG_DT_UINT, 1},
                                        .ndim = 1,
                                        .shape = shape,
                                        .chunk = chunk,
                                        .shard = sharded ? shard : NULL,
                                        .index_at_start = sharded == 2,
                                        .codec = codecs[c]};
            test_row = codecs[c];
            seed = 5;
            for (size_t i = 0; i < sizeof items; i++)
                items[i] = (uint8_t)next_random(16);
            REQUIRE_OK(tg_store_open_mem(&s, NULL));
            REQUIRE_OK(tg_array_create(s, "x", &o, &a, NULL, NULL));
            REQUIRE_OK(tg_array_write(a, at, n, items, NULL, NULL, NULL));
            size_t live = tg_mem_live();
            tg_mem_reset();
            REQUIRE_OK(tg_array_read(a, at, n, items, NULL, NULL, NULL));
            CHECK(tg_mem_highwater() - live <= tg_array_worst_bytes(a));
            live = tg_mem_live();
            tg_mem_reset();
            /* The store keeps what is written, too: count only what is beyond that. */
            REQUIRE_OK(tg_array_write(a, at, n, items, NULL, NULL, NULL));
            CHECK(tg_mem_highwater() - live <=
                  tg_array_worst_bytes(a) + (sharded ? (256 << 10) + 4096 : (64 << 10) + 4096));
        }
}

/* --- Damage and faults ----------------------------------------------------- */

static void c20_a_damaged_chunk_is_an_error_that_names_it(void)
{
    for (int sharded = 0; sharded < 2; sharded++) {
        struct layout l = {"", 3, 1, {8}, {4}, {0}, false, "none", '/'};
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_array) a = NULL;
        TG_AUTO(tg_buf) bytes = {0};
        const uint64_t zero[1] = {0};
        uint16_t items[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        tg_error err = {0};

        l.shard[0] = sharded ? 8 : 0;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(create(s, &l, NULL, &a));
        REQUIRE_OK(tg_array_write(a, zero, l.shape, items, NULL, NULL, NULL));
        REQUIRE_OK(tg_store_get(s, "g/x/c/0", tg_range_all(), 1000, &bytes, NULL, NULL));
        for (size_t bit = 0; bit < bytes.len * 8; bit++) {
            bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            REQUIRE_OK(tg_store_put(s, "g/x/c/0", bytes.data, bytes.len, NULL, NULL));
            CHECK_STATUS(tg_array_read(a, zero, l.shape, items, NULL, NULL, &err), TG_CORRUPT);
            CHECK(strcmp(err.key, "g/x/c/0") == 0 && strstr(err.msg, "g/x/c/0") != NULL);
            bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t len = 0; len < bytes.len; len++) { /* V3-20: also a length of 0 */
            REQUIRE_OK(tg_store_put(s, "g/x/c/0", bytes.data, len, NULL, NULL));
            CHECK_STATUS(tg_array_read(a, zero, l.shape, items, NULL, NULL, &err), TG_CORRUPT);
            CHECK(strcmp(err.key, "g/x/c/0") == 0);
        }
        bytes.data[0] ^= 1; /* and nothing is written over what cannot be read */
        REQUIRE_OK(tg_store_put(s, "g/x/c/0", bytes.data, bytes.len, NULL, NULL));
        const uint64_t one[1] = {1};
        CHECK_STATUS(tg_array_write(a, one, one, items, NULL, NULL, &err), TG_CORRUPT);
    }
}

static tg_status use_array(tg_store *s)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    const uint64_t shape[1] = {16}, chunk[1] = {2}, shard[1] = {8}, at[1] = {3}, n[1] = {9};
    const tg_array_options o = {.size = sizeof o,
                                .dtype = {TG_DT_UINT, 2},
                                .ndim = 1,
                                .shape = shape,
                                .chunk = chunk,
                                .shard = shard,
                                .codec = "zstd:1"};
    uint16_t items[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, got[16] = {0};

    TG_TRY(tg_array_create(s, "a/x", &o, &a, NULL, NULL));
    TG_TRY(tg_array_write(a, at, n, items, NULL, NULL, NULL));
    TG_TRY(tg_array_write(a, n, at, items, NULL, NULL, NULL));
    TG_TRY(tg_array_read(a, at, n, got, NULL, NULL, NULL));
    CHECK(got[0] == 1 && got[5] == 6 && got[6] == 1);
    return tg_array_resize(a, n, NULL, NULL);
}

static tg_status use_array_in_memory(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_TRY(tg_store_open_mem(&s, NULL));
    return use_array(s);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(use_array_in_memory());
}

static void every_store_call_may_fail(void)
{
    for (long n = 1; n < 500; n++) {
        TG_AUTO_PTR(tg_store) inner = NULL;
        TG_AUTO_PTR(tg_store) s = NULL;
        REQUIRE_OK(tg_store_open_mem(&inner, NULL));
        REQUIRE_OK(tg_store_open_fault(&s, inner, NULL));
        tg_store_fail_at(s, n, n % 2 == 0);
        tg_status st = use_array(s);
        if (st == TG_OK) {
            CHECK(n > 10);
            return;
        }
        CHECK_STATUS(st, TG_IO);
    }
    CHECK(false);
}

static void a_cancelled_call_says_so(void)
{
    const struct layout l = {"", 3, 1, {8}, {2}, {0}, false, "none", '/'};
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_cancel *c = NULL;
    uint16_t items[8] = {1};
    const uint64_t zero[1] = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(create(s, &l, NULL, &a));
    REQUIRE_OK(tg_cancel_new(&c, NULL));
    tg_cancel_request(c);
    CHECK_STATUS(tg_array_write(a, zero, l.shape, items, NULL, c, NULL), TG_CANCELLED);
    CHECK_STATUS(tg_array_read(a, zero, l.shape, items, NULL, c, NULL), TG_CANCELLED);
    tg_cancel_free(c);
}

/* Readers with numcodecs below 0.16 need the size in the frame header of zstd: bits 7 and 6, or
 * 5, of the byte behind the magic number. */
static void c1_zstd_frames_say_their_size(void)
{
    const struct layout l = {"", 2, 1, {8}, {8}, {0}, false, "zstd:1", '.'};
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    TG_AUTO(tg_buf) bytes = {0};
    const uint64_t zero[1] = {0};
    const uint16_t items[8] = {1, 2, 3, 4, 5, 6, 7, 8};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(create(s, &l, NULL, &a));
    REQUIRE_OK(tg_array_write(a, zero, l.shape, items, NULL, NULL, NULL));
    REQUIRE_OK(tg_store_get(s, "g/x/0", tg_range_all(), 1000, &bytes, NULL, NULL));
    CHECK(bytes.len > 5 && (bytes.data[4] & 0xe0) != 0);
}

/* --- Small things ---------------------------------------------------------- */

static void m25_nested_chunks_that_nobody_declared(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    const char *doc = "{\"zarr_format\":2,\"shape\":[2,2],\"chunks\":[1,1],\"dtype\":\"|u1\","
                      "\"compressor\":null,\"fill_value\":0,\"order\":\"C\",\"filters\":null}";
    const uint64_t zero[2] = {0, 0}, all[2] = {2, 2};
    uint8_t got[4];

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_store_put(s, "x/.zarray", doc, strlen(doc), NULL, NULL));
    REQUIRE_OK(tg_store_put(s, "x/1/0", "\5", 1, NULL, NULL));
    REQUIRE_OK(tg_array_open(s, "x", &a, NULL, NULL));
    REQUIRE_OK(tg_array_read(a, zero, all, got, NULL, NULL, NULL));
    CHECK(got[0] == 0 && got[2] == 5);
}

static void chunk_read_gives_whole_chunks(void)
{
    for (int sharded = 0; sharded < 2; sharded++) {
        struct layout l = {"", 3, 1, {7}, {2}, {0}, sharded == 1, "zstd:1", '/'};
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_array) a = NULL;
        TG_AUTO_PTR(tg_chain_context) ctx = NULL;
        const uint64_t zero[1] = {0};
        const uint16_t fill = 9, items[7] = {1, 2, 9, 9, 5, 6, 7};
        uint16_t got[2];
        bool missing = false;

        l.shard[0] = sharded ? 4 : 0;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(create(s, &l, &fill, &a));
        REQUIRE_OK(tg_array_write(a, zero, l.shape, items, NULL, NULL, NULL));
        const tg_array_meta *m = tg_array_get_meta(a);
        REQUIRE_OK(tg_chain_context_new(tg_array_meta_chain(m), false, &ctx, NULL));
        TG_AUTO(tg_mem_ptr) scratch = tg_alloc(tg_chunk_scratch_bytes(m));
        const uint16_t want[8] = {1, 2, 9, 9, 5, 6, 7, 9};
        for (uint64_t i = 0; i < 4; i++) {
            REQUIRE_OK(
                tg_chunk_read(a, ctx, &i, scratch, (uint8_t *)got, &missing, NULL, NULL));
            CHECK(memcmp(got, want + 2 * i, 4) == 0 && missing == (i == 1));
        }
    }
}

static const struct test tests[] = {
    {"random_writes_and_reads_agree", random_writes_and_reads_agree},
    {"strides_of_any_sign", strides_of_any_sign},
    {"w8_fill_is_compared_bit_by_bit", w8_fill_is_compared_bit_by_bit},
    {"chunks_that_become_fill_go_away", chunks_that_become_fill_go_away},
    {"zeros_are_stored_where_there_is_no_fill", zeros_are_stored_where_there_is_no_fill},
    {"covered_units_are_written_without_a_read", covered_units_are_written_without_a_read},
    {"a_shard_is_read_with_two_requests", a_shard_is_read_with_two_requests},
    {"resize_removes_what_is_outside", resize_removes_what_is_outside},
    {"m31_zero_length", m31_zero_length},
    {"requests_outside_are_refused", requests_outside_are_refused},
    {"what_stands_in_the_way_of_create", what_stands_in_the_way_of_create},
    {"worst_bytes_tell_before_anything_is_read", worst_bytes_tell_before_anything_is_read},
    {"a_call_takes_no_more_than_worst_bytes", a_call_takes_no_more_than_worst_bytes},
    {"c20_a_damaged_chunk_is_an_error_that_names_it",
     c20_a_damaged_chunk_is_an_error_that_names_it},
    {"every_allocation_may_fail", every_allocation_may_fail},
    {"every_store_call_may_fail", every_store_call_may_fail},
    {"c1_zstd_frames_say_their_size", c1_zstd_frames_say_their_size},
    {"a_cancelled_call_says_so", a_cancelled_call_says_so},
    {"m25_nested_chunks_that_nobody_declared", m25_nested_chunks_that_nobody_declared},
    {"chunk_read_gives_whole_chunks", chunk_read_gives_whole_chunks},
};

TEST_MAIN(tests)
