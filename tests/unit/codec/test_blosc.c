/* Frames that no honest encoder makes. libblosc must not see the harmful ones. */
#include "make.h"

typedef struct header {
    uint8_t version, flags, item;
    uint32_t nbytes, block, cbytes;
} header;

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static void put_header(uint8_t *p, header h)
{
    p[0] = h.version;
    p[1] = 1;
    p[2] = h.flags;
    p[3] = h.item;
    put_u32(p + 4, h.nbytes);
    put_u32(p + 8, h.block);
    put_u32(p + 12, h.cbytes);
}

static tg_status decode_frame(tg_bytes src, size_t cap, tg_error *err)
{
    tg_blosc_options o = {.level = 5, .item_bytes = 1};
    TG_AUTO(tg_buf) out = {0};
    codec c = NULL;
    size_t n = 77;

    TG_TRY(tg_blosc_new(&c, &o, err));
    tg_status st = decode(c, src, cap, &out, &n, err);
    c->ops->free(c);
    CHECK(st == TG_OK || n == 77);
    return st;
}

static void headers(void)
{
    static const struct {
        const char *name;
        header h;
        tg_status want;
    } rows[] = {
        {"good, stored", {2, 0x02, 1, 24, 24, 40}, TG_OK},
        {"version 1", {1, 0x02, 1, 24, 24, 40}, TG_CORRUPT},
        {"version 3", {3, 0x02, 1, 24, 24, 40}, TG_CORRUPT},
        {"more than room", {2, 0x02, 1, 25, 24, 41}, TG_CORRUPT},
        {"huge", {2, 0x02, 1, 0x7f000018, 24, 40}, TG_CORRUPT},
        {"negative", {2, 0x02, 1, 0xffffffff, 24, 40}, TG_CORRUPT},
        {"longer than there is", {2, 0x02, 1, 24, 24, 41}, TG_CORRUPT},
        {"longer than it may be", {2, 0x02, 1, 20, 20, 40}, TG_CORRUPT},
        {"shorter than a header", {2, 0x02, 1, 24, 24, 15}, TG_CORRUPT},
        {"no block", {2, 0x02, 1, 24, 0, 40}, TG_CORRUPT},
        {"block beyond the data", {2, 0x02, 1, 24, 25, 40}, TG_CORRUPT},
        {"negative block", {2, 0x02, 1, 24, 0x80000000, 40}, TG_CORRUPT},
        {"no item", {2, 0x02, 0, 24, 24, 40}, TG_CORRUPT},
        {"unknown compressor", {2, 0xc0, 1, 24, 24, 40}, TG_CORRUPT},
        {"more blocks than bytes", {2, 0x10, 1, 24, 1, 40}, TG_CORRUPT},
    };
    uint8_t frame[40];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_row = rows[i].name;
        memset(frame, 3, sizeof frame);
        put_header(frame, rows[i].h);
        CHECK_STATUS(decode_frame((tg_bytes){frame, sizeof frame}, 24, NULL), rows[i].want);
        for (size_t n = 0; n < sizeof frame; n++)
            CHECK_STATUS(decode_frame((tg_bytes){frame, n}, 24, NULL), TG_CORRUPT);
    }
    put_header(frame, (header){2, 0x02, 1, 0, 0, 16});
    CHECK_STATUS(decode_frame((tg_bytes){frame, 16}, 24, NULL), TG_OK); /* of nothing */
}

/* A blosclz stream whose match length, added up 255 at a time, passes 2^31:
 * libblosc 1.21.3 then writes far outside its room. In one large block, and in
 * the first of many small ones, where a limit on blocks would not see it. */
static void blosclz_lengths_that_wrap(void)
{
    static const struct {
        const char *name;
        uint32_t block;
        tg_status want;
    } rows[] = {
        {"one block", (8 << 20) + (1 << 18), TG_UNSUPPORTED},
        {"8 MiB blocks", 8 << 20, TG_UNSUPPORTED},
        {"small blocks", 1 << 16, TG_CORRUPT},
        {"just below", (8 << 20) - 1, TG_CORRUPT},
    };
    const uint32_t nbytes = 20 << 20, stream = 8421625;
    TG_AUTO(tg_buf) frame = {0};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t n_blocks = (nbytes + rows[i].block - 1) / rows[i].block;
        uint32_t first = 16 + 4 * n_blocks, len = first + 4 + stream;
        test_row = rows[i].name;
        tg_buf_free(&frame);
        REQUIRE_OK(tg_buf_resize(&frame, len, NULL));
        put_header(frame.data, (header){2, 0x10, 1, nbytes, rows[i].block, len});
        for (uint32_t b = 0; b < n_blocks; b++)
            put_u32(frame.data + 16 + 4 * (size_t)b, first);
        put_u32(frame.data + first, stream);
        uint8_t *p = frame.data + first + 4;
        memset(p, 0xff, stream);
        p[0] = 0; /* one literal, then a match of any length */
        p[1] = 'A';
        p[2] = 0xe0;
        p[stream - 22] = 1;
        memset(p + stream - 21, 0, 21);
        CHECK_STATUS(decode_frame((tg_bytes){frame.data, frame.len}, nbytes, NULL),
                     rows[i].want);
    }
}

/* Every field of a good frame of each compressor, damaged: an end, in the room given. */
static void mutations(void)
{
    static uint8_t plain[70000];
    uint64_t seed = 1;
    size_t refused = 0;

    for (int i = 0; i < TG_BLOSC_COMPRESSORS; i++) {
        TG_AUTO(tg_buf) enc = {0};
        TG_AUTO(tg_buf) dec = {0};
        tg_blosc_options o = {i, 5, i % 3, 2, i % 2 ? 4096 : 0};
        codec c = NULL;
        test_row = tg_blosc_names[i];
        make_data(plain, sizeof plain, 2, 1);
        REQUIRE_OK(tg_blosc_new(&c, &o, NULL));
        tg_status st = encode(c, (tg_bytes){plain, sizeof plain}, &enc, NULL);
        CHECK_STATUS(st, TG_OK);
        for (int round = 0; round < 1500 && st == TG_OK; round++) {
            size_t at[3], n = 0;
            uint8_t old[3];
            /* The header and the offsets of blocks more often than the rest. */
            for (int k = 0; k < 3; k++) {
                at[k] = next_random(&seed) % (k == 0 ? 16 : k == 1 ? 100 : enc.len);
                old[k] = enc.data[at[k]];
            }
            for (int k = 0; k < 1 + round % 3; k++)
                enc.data[at[round % 4 == 0 ? 2 : k]] = (uint8_t)next_random(&seed);
            tg_status got =
                decode(c, (tg_bytes){enc.data, enc.len}, sizeof plain, &dec, &n, NULL);
            CHECK(got == TG_OK || got == TG_CORRUPT || got == TG_UNSUPPORTED);
            refused += got != TG_OK;
            for (int k = 3; k-- > 0;)
                enc.data[at[k]] = old[k];
        }
        c->ops->free(c);
    }
    CHECK(refused > 1000);
}

static const struct test tests[] = {
    {"headers", headers},
    {"blosclz_lengths_that_wrap", blosclz_lengths_that_wrap},
    {"mutations", mutations},
};

TEST_MAIN(tests)
