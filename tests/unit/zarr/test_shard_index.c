#include "check.h"
#include "docs.h"

#define INDEX_CRC "[" BYTES_LE "," CRC32C "]"
#define NONE      UINT64_MAX

static tg_status open_shard(tg_array_meta **m, const char *location, const char *index)
{
    char codecs[600];
    (void)snprintf(codecs, sizeof codecs,
                   "[{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[2],"
                   "\"codecs\":[" BYTES_LE "],\"index_codecs\":%s,\"index_location\":\"%s\"}}]",
                   index, location);
    const struct member changes[] = {
        {"codecs", codecs},
        {"chunk_grid", "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[6]}}"},
        {NULL, NULL}};
    return docs_parse_v3(m, changes, NULL);
}

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

/* Shards that other implementations wrote (zarr.md A.2). */
struct vector {
    const char *name, *location, *index, *hex;
    tg_shard_entry want[3];
};

static const struct vector vectors[] = {
    {"end_crc",
     "end",
     INDEX_CRC,
     "010002000500060000000000000000000400000000000000ffffffffffffffffffffffffffffffff04000000"
     "0000000004000000000000009390c7f3",
     {{0, 4}, {NONE, NONE}, {4, 4}}},
    {"S2 start_crc",
     "start",
     INDEX_CRC,
     "34000000000000000400000000000000ffffffffffffffffffffffffffffffff380000000000000004000000"
     "00000000ac8382ba0100020005000600",
     {{52, 4}, {NONE, NONE}, {56, 4}}},
    {"S1 end_nocrc",
     "end",
     "[" BYTES_LE "]",
     "010002000500060000000000000000000400000000000000ffffffffffffffffffffffffffffffff04000000"
     "000000000400000000000000",
     {{0, 4}, {NONE, NONE}, {4, 4}}},
    {"S14 start_rev_gap",
     "start",
     INDEX_CRC,
     "3e00000000000000040000000000000045000000000000000400000000000000370000000000000004000000"
     "000000000a486f0ceeeeee05000600eeeeee01000200eeeeee03000400",
     {{62, 4}, {69, 4}, {55, 4}}},
};

static void vectors_of_others_decode(void)
{
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const struct vector *v = &vectors[i];
        TG_AUTO_PTR(tg_array_meta) m = NULL;
        tg_shard_entry got[3];
        uint8_t shard[256], again[64];
        tg_error err = {0};
        test_row = v->name;
        REQUIRE_OK(open_shard(&m, v->location, v->index));
        size_t n = from_hex(v->hex, shard), bytes = tg_shard_index_bytes(m);
        CHECK(tg_shard_index_at_start(m) == (v->location[0] == 's'));
        const uint8_t *index = tg_shard_index_at_start(m) ? shard : shard + n - bytes;
        CHECK_STATUS(tg_shard_index_decode(m, (tg_bytes){index, bytes}, n, got, &err), TG_OK);
        CHECK(memcmp(got, v->want, sizeof got) == 0);
        REQUIRE_OK(tg_shard_index_encode(m, got, again, NULL));
        CHECK(memcmp(index, again, bytes) == 0);
    }
}

static void big_endian_index(void)
{
    const tg_shard_entry entries[3] = {{0x0102, 3}, {NONE, NONE}, {7, 8}};
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    tg_shard_entry got[3];
    uint8_t index[48];

    REQUIRE_OK(
        open_shard(&m, "end", "[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"big\"}}]"));
    CHECK_U64(tg_shard_index_bytes(m), 48);
    REQUIRE_OK(tg_shard_index_encode(m, entries, index, NULL));
    CHECK(memcmp(index, "\0\0\0\0\0\0\1\2\0\0\0\0\0\0\0\3", 16) == 0);
    REQUIRE_OK(tg_shard_index_decode(m, (tg_bytes){index, 48}, 1000, got, NULL));
    CHECK(memcmp(got, entries, sizeof got) == 0);
}

struct damage {
    const char *name, *location;
    tg_shard_entry bad; /* in place of entry 1 */
    uint64_t value_bytes;
    tg_status want;
    const char *words;
};

/* The index has 48 bytes; with 100 in all, chunks lie in 0..52 or 48..100. */
static const struct damage damages[] = {
    {"fits to the byte", "end", {4, 48}, 100, TG_OK, NULL},
    {"S13 over the index at the end", "end", {5, 48}, 100, TG_CORRUPT, "0..52"},
    {"S13 over the index at the start", "start", {47, 4}, 100, TG_CORRUPT, "48..100"},
    {"fits behind the index", "start", {48, 52}, 100, TG_OK, NULL},
    {"S13 beyond the shard", "start", {48, 53}, 100, TG_CORRUPT, "48..100"},
    {"S13 size overflow", "end", {UINT64_MAX - 3, 8}, 100, TG_CORRUPT, "0..52"},
    {"S13 size overflow, offset in range",
     "end",
     {8, UINT64_MAX - 3},
     100,
     TG_CORRUPT,
     "0..52"},
    {"SH4 half empty, offset", "end", {NONE, 4}, 100, TG_CORRUPT, "half empty"},
    {"SH4 half empty, length", "end", {0, NONE}, 100, TG_CORRUPT, "half empty"},
    {"SH4 no bytes", "end", {4, 0}, 100, TG_CORRUPT, "no bytes"},
    {"SH8 shard shorter than its index", "end", {NONE, NONE}, 40, TG_CORRUPT, "index alone"},
};

static void sh7_entries_are_checked(void)
{
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const struct damage *d = &damages[i];
        tg_shard_entry entries[3] = {{NONE, NONE}, d->bad, {NONE, NONE}};
        TG_AUTO_PTR(tg_array_meta) m = NULL;
        tg_shard_entry got[3];
        uint8_t index[48];
        tg_error err = {0};
        test_row = d->name;
        REQUIRE_OK(open_shard(&m, d->location, "[" BYTES_LE "]"));
        for (int b = 0; b < 48; b++) /* by hand: encode refuses half an entry */
            index[b] =
                (uint8_t)((b % 16 < 8 ? entries[b / 16].offset : entries[b / 16].nbytes) >>
                          (8 * (b % 8)));
        CHECK_STATUS(tg_shard_index_decode(m, (tg_bytes){index, 48}, d->value_bytes, got, &err),
                     d->want);
        if (d->words != NULL && strstr(err.msg, d->words) == NULL)
            test_failed(__FILE__, __LINE__, err.msg);
    }
}

static void sh7_every_flipped_bit_is_seen(void)
{
    const tg_shard_entry entries[3] = {{0, 4}, {NONE, NONE}, {4, 4}};
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    tg_shard_entry got[3];
    uint8_t index[52];

    REQUIRE_OK(open_shard(&m, "end", INDEX_CRC));
    REQUIRE_OK(tg_shard_index_encode(m, entries, index, NULL));
    for (size_t bit = 0; bit < sizeof index * 8; bit++) {
        index[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK_STATUS(tg_shard_index_decode(m, (tg_bytes){index, 52}, 1 << 20, got, NULL),
                     TG_CORRUPT);
        index[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    CHECK_STATUS(tg_shard_index_decode(m, (tg_bytes){index, 51}, 1 << 20, got, NULL),
                 TG_CORRUPT);
    CHECK_STATUS(tg_shard_index_decode(m, (tg_bytes){index, 52}, 1 << 20, got, NULL), TG_OK);
}

static void encode_refuses_half_an_entry(void)
{
    const tg_shard_entry entries[3] = {{0, 4}, {NONE, 4}, {NONE, NONE}};
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    uint8_t index[52];

    REQUIRE_OK(open_shard(&m, "end", INDEX_CRC));
    CHECK_STATUS(tg_shard_index_encode(m, entries, index, NULL), TG_INVALID);
}

/* transpose [1, 0] before sharding: shard (4, 6) becomes (6, 4); inner chunks of (3, 2) there
 * are chunks of (2, 3) here, and the index lists the grid of 2 x 2 column by column. */
static void s11_transpose_before_sharding(void)
{
    const struct member changes[] = {
        {"shape", "[4,6]"},
        {"chunk_grid", "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[4,6]}}"},
        {"codecs",
         "[{\"name\":\"transpose\",\"configuration\":{\"order\":[1,0]}},{\"name\":"
         "\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[2,2],\"codecs\":[" BYTES_LE
         "],\"index_codecs\":[" BYTES_LE "]}}]"},
        {NULL, NULL}};
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    tg_shard_entry entries[6], got[6];
    uint8_t index[96];

    REQUIRE_OK(docs_parse_v3(&m, changes, NULL));
    CHECK(tg_array_meta_info(m)->chunk[0] == 2 && tg_array_meta_info(m)->chunk[1] == 2);
    for (uint64_t i = 0; i < 6; i++)
        entries[i] = (tg_shard_entry){i, 1};
    REQUIRE_OK(tg_shard_index_encode(m, entries, index, NULL));
    /* The array's grid is 2 x 3, the index's 3 x 2: its second entry is chunk (1, 0) here. */
    CHECK_U64(index[0], 0);
    CHECK_U64(index[16], 3);
    CHECK_U64(index[32], 1);
    REQUIRE_OK(tg_shard_index_decode(m, (tg_bytes){index, 96}, 1000, got, NULL));
    CHECK(memcmp(entries, got, sizeof got) == 0);
}

static const struct test tests[] = {
    {"vectors_of_others_decode", vectors_of_others_decode},
    {"big_endian_index", big_endian_index},
    {"sh7_entries_are_checked", sh7_entries_are_checked},
    {"sh7_every_flipped_bit_is_seen", sh7_every_flipped_bit_is_seen},
    {"encode_refuses_half_an_entry", encode_refuses_half_an_entry},
    {"s11_transpose_before_sharding", s11_transpose_before_sharding},
};

TEST_MAIN(tests)
