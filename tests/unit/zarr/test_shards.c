/* Shards on every store: other implementations' bytes, large ones that go out chunk by chunk,
 * and what a rewrite keeps. */
#include "check.h"
#include "docs.h"

#include <stdlib.h>
#include <unistd.h>

#define INDEX_CRC "[" BYTES_LE "," CRC32C "]"

static size_t from_hex(const char *hex, uint8_t *dst)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned byte = 0;
        (void)sscanf(hex + 2 * i, "%2x", &byte);
        dst[i] = (uint8_t)byte;
    }
    return n;
}

static const struct {
    const char *name, *shape, *location, *index, *hex;
    size_t n;
    int16_t want[6];
} vectors[] = {
    {"end_crc",
     "[6]",
     "end",
     INDEX_CRC,
     "010002000500060000000000000000000400000000000000ffffffffffffffffffffffffffffffff04000000"
     "0000000004000000000000009390c7f3",
     6,
     {1, 2, -1, -1, 5, 6}},
    {"S2 start_crc",
     "[6]",
     "start",
     INDEX_CRC,
     "34000000000000000400000000000000ffffffffffffffffffffffffffffffff380000000000000004000000"
     "00000000ac8382ba0100020005000600",
     6,
     {1, 2, -1, -1, 5, 6}},
    {"S1 end_nocrc",
     "[6]",
     "end",
     "[" BYTES_LE "]",
     "010002000500060000000000000000000400000000000000ffffffffffffffffffffffffffffffff04000000"
     "000000000400000000000000",
     6,
     {1, 2, -1, -1, 5, 6}},
    {"S14 start_rev_gap",
     "[6]",
     "start",
     INDEX_CRC,
     "3e00000000000000040000000000000045000000000000000400000000000000370000000000000004000000"
     "000000000a486f0ceeeeee05000600eeeeee01000200eeeeee03000400",
     6,
     {1, 2, 3, 4, 5, 6}},
    {"S7 overhang",
     "[5]",
     "end",
     INDEX_CRC,
     "01000200030004000500ffff0000000000000000040000000000000004000000000000000400000000000000"
     "08000000000000000400000000000000bafc3ced",
     5,
     {1, 2, 3, 4, 5}},
};

static tg_status put_vector(tg_store *s, size_t i, tg_array **a)
{
    char codecs[600];
    uint8_t bytes[256];
    (void)snprintf(codecs, sizeof codecs,
                   "[{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[2],"
                   "\"codecs\":[" BYTES_LE "],\"index_codecs\":%s,\"index_location\":\"%s\"}}]",
                   vectors[i].index, vectors[i].location);
    const struct member changes[] = {
        {"codecs", codecs},
        {"shape", vectors[i].shape},
        {"chunk_grid", "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[6]}}"},
        {NULL, NULL}};
    TG_AUTO(tg_str) doc = docs_make_v3(changes);
    TG_TRY(tg_store_put(s, "x/zarr.json", doc, strlen(doc), NULL, NULL));
    TG_TRY(tg_store_put(s, "x/c/0", bytes, from_hex(vectors[i].hex, bytes), NULL, NULL));
    return tg_array_open(s, "x", a, NULL, NULL);
}

static void a2_shards_of_others_read_and_change(void)
{
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_array) a = NULL;
        const uint64_t zero = 0, n = vectors[i].n, three = 3, one = 1;
        int16_t got[6] = {0}, nine = 9;
        tg_error err = {0};
        test_row = vectors[i].name;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(put_vector(s, i, &a));
        if (tg_array_read(a, &zero, &n, got, NULL, NULL, &err) != TG_OK)
            test_failed(__FILE__, __LINE__, err.msg);
        CHECK(memcmp(got, vectors[i].want, n * 2) == 0);
        REQUIRE_OK(tg_array_write(a, &three, &one, &nine, NULL, NULL, NULL));
        REQUIRE_OK(tg_array_read(a, &zero, &n, got, NULL, NULL, NULL));
        for (size_t k = 0; k < n; k++)
            CHECK(got[k] == (k == 3 ? 9 : vectors[i].want[k]));
    }
}

/* --- Large shards on real stores ------------------------------------------ */

static char root[64];

static tg_status open_store(int kind, tg_store **s)
{
    const tg_store_options o = {
        .size = sizeof o, .mode = TG_STORE_OPEN_OR_CREATE, .no_sync = true};
    char path[100];

    if (kind == 0)
        return tg_store_open_mem(s, NULL);
    (void)snprintf(path, sizeof path, "%s/%s", root, kind == 1 ? "dir" : "a.zip");
    return kind == 1 ? tg_store_open_fs(s, path, &o, NULL)
                     : tg_store_open_zip(s, path, &o, NULL);
}

static void fill_random(uint32_t *items, size_t n)
{
    uint32_t seed = 12345;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        items[i] = seed & 0xfff0ff;
    }
}

/* 8 MiB a shard: beyond what is put whole, so it goes out through an object, twice over if the
 * index stands first. A ZIP takes it whole. */
static void large_shards_on_every_store(void)
{
    enum { ITEMS = 5 << 19 };
    static const char *const names[] = {"memory", "directory", "zip"};
    const uint64_t shape = ITEMS, chunk = 1 << 16, shard = 1 << 21, zero = 0, at = 100000,
                   n = 70000, all = ITEMS;
    TG_AUTO(tg_mem_ptr) want_room = tg_alloc(ITEMS * 4);
    TG_AUTO(tg_mem_ptr) got_room = tg_alloc(ITEMS * 4);
    uint32_t *want = want_room, *got = got_room;

    REQUIRE(want != NULL && got != NULL);
    for (int kind = 0; kind < 3; kind++)
        for (int layout = 0; layout < 4; layout++) {
            TG_AUTO_PTR(tg_store) s = NULL;
            TG_AUTO_PTR(tg_array) a = NULL;
            char path[16];
            const tg_array_options o = {.size = sizeof o,
                                        .dtype = {TG_DT_UINT, 4},
                                        .ndim = 1,
                                        .shape = &shape,
                                        .chunk = &chunk,
                                        .shard = &shard,
                                        .index_at_start = layout % 2 == 1,
                                        .codec = layout < 2 ? "none" : "zstd:1"};
            test_row = names[kind];
            (void)snprintf(path, sizeof path, "a%d", layout);
            REQUIRE_OK(open_store(kind, &s));
            REQUIRE_OK(tg_array_create(s, path, &o, &a, NULL, NULL));
            fill_random(want, ITEMS);
            memset(want + 3 * chunk, 0, chunk * 4);
            REQUIRE_OK(tg_array_write(a, &zero, &all, want, NULL, NULL, NULL));
            memset(want + at, 5, n * 4);
            REQUIRE_OK(tg_array_write(a, &at, &n, want + at, NULL, NULL, NULL));
            REQUIRE_OK(tg_array_read(a, &zero, &all, got, NULL, NULL, NULL));
            CHECK(memcmp(got, want, ITEMS * 4) == 0);
            if (kind < 2)
                CHECK(tg_array_worst_bytes(a) < (size_t)6 << 20);
            else /* whole, in memory */
                CHECK(tg_array_worst_bytes(a) > (size_t)8 << 20);
            REQUIRE_OK(tg_store_close(s, NULL));
        }
}

/* A shard on its way out chunk by chunk: wherever the store fails, the old one stays whole. */
static void a_fault_leaves_the_old_shard(void)
{
    enum { ITEMS = 5 << 18 };
    const uint64_t shape = ITEMS, chunk = 1 << 17, zero = 0, at = 200000, n = 200000;
    TG_AUTO(tg_mem_ptr) was_room = tg_alloc(ITEMS * 4);
    TG_AUTO(tg_mem_ptr) got_room = tg_alloc(ITEMS * 4);
    uint32_t *was = was_room, *got = got_room;

    REQUIRE(was != NULL && got != NULL);
    fill_random(was, ITEMS);
    for (int start = 0; start < 2; start++) {
        const tg_array_options o = {.size = sizeof o,
                                    .dtype = {TG_DT_UINT, 4},
                                    .ndim = 1,
                                    .shape = &shape,
                                    .chunk = &chunk,
                                    .shard = &shape,
                                    .index_at_start = start == 1};
        TG_AUTO_PTR(tg_store) inner = NULL;
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_array) a = NULL;
        long fault = 1;
        tg_status st = TG_IO;

        REQUIRE_OK(tg_store_open_mem(&inner, NULL));
        REQUIRE_OK(tg_store_open_fault(&s, inner, NULL));
        REQUIRE_OK(tg_array_create(s, "x", &o, &a, NULL, NULL));
        REQUIRE_OK(tg_array_write(a, &zero, &shape, was, NULL, NULL, NULL));
        for (; st != TG_OK && fault < 200; fault++) {
            tg_store_fail_at(s, fault, false);
            st = tg_array_write(a, &at, &n, was, NULL, NULL, NULL);
            tg_store_fail_at(s, 0, false);
            if (st == TG_OK)
                break;
            CHECK_STATUS(st, TG_IO);
            REQUIRE_OK(tg_array_read(a, &zero, &shape, got, NULL, NULL, NULL));
            CHECK(memcmp(got, was, ITEMS * 4) == 0);
        }
        CHECK_STATUS(st, TG_OK);
        CHECK(fault > 12); /* ten chunks go out, one by one */
        REQUIRE_OK(tg_array_read(a, &at, &n, got, NULL, NULL, NULL));
        CHECK(memcmp(got, was, n * 4) == 0);
    }
}

/* S8: a shard that shrinks is replaced, not written over. */
static void s8_a_smaller_shard_has_no_stale_tail(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    const uint64_t shape = 8, chunk = 2, zero = 0, six = 6;
    const tg_array_options o = {.size = sizeof o,
                                .dtype = {TG_DT_UINT, 2},
                                .ndim = 1,
                                .shape = &shape,
                                .chunk = &chunk,
                                .shard = &shape};
    uint16_t items[8] = {1, 2, 3, 4, 5, 6, 7, 8}, zeros[6] = {0}, got[8];
    uint64_t before = 0, after = 0;

    REQUIRE_OK(open_store(1, &s));
    REQUIRE_OK(tg_array_create(s, "s8", &o, &a, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, &zero, &shape, items, NULL, NULL, NULL));
    REQUIRE_OK(tg_store_size(s, "s8/c/0", &before, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, &zero, &six, zeros, NULL, NULL, NULL));
    REQUIRE_OK(tg_store_size(s, "s8/c/0", &after, NULL, NULL));
    CHECK_U64(before - after, 3 * 8); /* three chunks of 4 bytes and a checksum of 4 */
    REQUIRE_OK(tg_array_read(a, &zero, &shape, got, NULL, NULL, NULL));
    CHECK(got[5] == 0 && got[6] == 7 && got[7] == 8);
    REQUIRE_OK(tg_store_close(s, NULL));
}

/* Chunks that a write does not touch keep their bytes, also bytes that we would not make. */
static void untouched_chunks_are_spliced_not_recoded(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    TG_AUTO(tg_buf) shard = {0};
    const uint64_t shape = 6, zero = 0, one = 1, two = 2;
    const struct member changes[] = {
        {"codecs", "[" SHARDING("[2]", "end", INDEX_CRC) "]"},
        {"chunk_grid", "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[6]}}"},
        {"data_type", "\"bool\""},
        {"fill_value", "false"},
        {NULL, NULL}};
    TG_AUTO(tg_str) doc = docs_make_v3(changes);
    uint8_t items[6] = {1, 0, 1, 1, 0, 1};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_store_put(s, "zarr.json", doc, strlen(doc), NULL, NULL));
    REQUIRE_OK(tg_array_open(s, "", &a, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, &zero, &shape, items, NULL, NULL, NULL));
    REQUIRE_OK(tg_store_get(s, "c/0", tg_range_all(), 1000, &shard, NULL, NULL));
    shard.data[4] = 7; /* a true that another writer wrote; decoding makes 1 of it */
    REQUIRE_OK(tg_store_put(s, "c/0", shard.data, shard.len, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, &one, &one, "\1", NULL, NULL, NULL));
    REQUIRE_OK(tg_store_get(s, "c/0", tg_range_all(), 1000, &shard, NULL, NULL));
    CHECK(shard.data[0] == 1 && shard.data[1] == 1 && shard.data[4] == 7);
    REQUIRE_OK(tg_array_read(a, &two, &two, items, NULL, NULL, NULL));
}

static const struct test tests[] = {
    {"a2_shards_of_others_read_and_change", a2_shards_of_others_read_and_change},
    {"large_shards_on_every_store", large_shards_on_every_store},
    {"a_fault_leaves_the_old_shard", a_fault_leaves_the_old_shard},
    {"s8_a_smaller_shard_has_no_stale_tail", s8_a_smaller_shard_has_no_stale_tail},
    {"untouched_chunks_are_spliced_not_recoded", untouched_chunks_are_spliced_not_recoded},
};

static int run(int argc, char **argv)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        test_failures = 0;
        test_row = "";
        tests[i].run();
        printf("%s %s\n", test_failures ? "FAIL" : "ok  ", tests[i].name);
        failed += test_failures != 0;
    }
    return failed != 0;
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    char command[100];

    (void)snprintf(root, sizeof root, "%s/tg-shards-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    if (mkdtemp(root) == NULL)
        return 1;
    int failed = run(argc, argv);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command) != 0 || failed;
}
