/* Chains: each step in its place and order, in no more room than asked for. */
#include "make.h"

#include <pthread.h>

static tg_status open_json(tg_chain **out, const char *codecs, tg_dtype dtype, tg_shape shape,
                           tg_error *err)
{
    TG_AUTO_PTR(tg_json) json = NULL;
    TG_TRY(tg_json_parse(&json, codecs, strlen(codecs), (tg_json_options){0}, err));
    return tg_chain_open_v3(out, json, dtype, &shape, err);
}

#define LITTLE   "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}"
#define BIG      "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"big\"}}"
#define ORDER(o) "{\"name\":\"transpose\",\"configuration\":{\"order\":" o "}}"

/* The rows: steps of a chain, in words that the oracle below follows. */
static const struct row {
    const char *name, *codecs;
    bool raw, crc_last, fixed, detects;
    uint32_t order[3];
    bool big;
    const char *after; /* z zstd, g gzip, b blosc, c crc32c */
} rows[] = {
    {"bytes", "[" LITTLE "]", true, false, true, false, {0, 1, 2}, false, ""},
    {"short name", "[\"bytes\"]", true, false, true, false, {0, 1, 2}, false, ""},
    {"crc", "[" LITTLE ",\"crc32c\"]", true, true, true, true, {0, 1, 2}, false, "c"},
    {"crc crc",
     "[" LITTLE ",\"crc32c\",\"crc32c\"]",
     false,
     true,
     true,
     true,
     {0, 1, 2},
     false,
     "cc"},
    {"big", "[" BIG "]", false, false, true, false, {0, 1, 2}, true, ""},
    {"big crc", "[" BIG ",\"crc32c\"]", false, true, true, true, {0, 1, 2}, true, "c"},
    {"turned",
     "[" ORDER("[2,0,1]") "," LITTLE "]",
     false,
     false,
     true,
     false,
     {2, 0, 1},
     false,
     ""},
    {"turned crc",
     "[" ORDER("[1,2,0]") "," LITTLE ",\"crc32c\"]",
     false,
     true,
     true,
     true,
     {1, 2, 0},
     false,
     "c"},
    {"turned twice",
     "[" ORDER("[2,0,1]") "," ORDER("[0,2,1]") "," LITTLE "]",
     false,
     false,
     true,
     false,
     {2, 1, 0},
     false,
     ""},
    {"there and back",
     "[" ORDER("[2,0,1]") "," ORDER("[1,2,0]") "," LITTLE "]",
     true,
     false,
     true,
     false,
     {0, 1, 2},
     false,
     ""},
    {"F", "[" ORDER("\"F\"") "," LITTLE "]", false, false, true, false, {2, 1, 0}, false, ""},
    {"C", "[" ORDER("\"C\"") "," LITTLE "]", true, false, true, false, {0, 1, 2}, false, ""},
    {"zstd", "[" LITTLE ",\"zstd\"]", false, false, false, false, {0, 1, 2}, false, "z"},
    {"zstd crc",
     "[" LITTLE ",\"zstd\",\"crc32c\"]",
     false,
     true,
     false,
     true,
     {0, 1, 2},
     false,
     "zc"},
    {"crc zstd",
     "[" LITTLE ",\"crc32c\",\"zstd\"]",
     false,
     false,
     false,
     true,
     {0, 1, 2},
     false,
     "cz"},
    {"crc blosc crc",
     "[" LITTLE ",\"crc32c\",\"blosc\",\"crc32c\"]",
     false,
     true,
     false,
     true,
     {0, 1, 2},
     false,
     "cbc"},
    {"two",
     "[" LITTLE ",\"gzip\",\"zstd\"]",
     false,
     false,
     false,
     true,
     {0, 1, 2},
     false,
     "gz"},
    {"three",
     "[" LITTLE ",\"zstd\",\"gzip\",\"blosc\"]",
     false,
     false,
     false,
     true,
     {0, 1, 2},
     false,
     "zgb"},
    {"all of it",
     "[" ORDER("[1,2,0]") "," BIG ",\"crc32c\",\"zstd\",\"crc32c\",\"crc32c\","
                          "\"gzip\",\"blosc\",\"crc32c\"]",
     false,
     true,
     false,
     true,
     {1, 2, 0},
     true,
     "czccgbc"},
    {"big zstd", "[" BIG ",\"zstd\"]", false, false, false, false, {0, 1, 2}, true, "z"},
    {"turned big zstd",
     "[" ORDER("[2,1,0]") "," BIG ",\"zstd\"]",
     false,
     false,
     false,
     false,
     {2, 1, 0},
     true,
     "z"},
    {"turned crc zstd",
     "[" ORDER("[2,1,0]") "," LITTLE ",\"crc32c\",\"zstd\"]",
     false,
     false,
     false,
     true,
     {2, 1, 0},
     false,
     "cz"},
    {"numcodecs'",
     "[" LITTLE ",{\"name\":\"numcodecs.zstd\",\"configuration\":{\"level\":0,"
     "\"checksum\":false}}]",
     false,
     false,
     false,
     false,
     {0, 1, 2},
     false,
     "z"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0], MOST = 16 * 5 * 6 * 7 };

/* Undo the bytes -> bytes codecs of `after` one by one, last first, by the
 * codecs alone; what remains must be the items in the order and byte order of the row. */
static bool peel(const char *after, tg_bytes src, tg_buf *out)
{
    TG_AUTO(tg_buf) cur = {0};

    if (tg_buf_resize(&cur, src.len, NULL) != TG_OK)
        return false;
    memcpy(cur.data, src.data, src.len);
    for (size_t k = strlen(after); k-- > 0;) {
        TG_AUTO(tg_buf) next = {0};
        codec c = NULL;
        size_t n = 0;
        tg_blosc_options o = {.item_bytes = 1};
        tg_status st = after[k] == 'z'   ? tg_zstd_new(&c, 0, false, NULL)
                       : after[k] == 'g' ? tg_deflate_new(&c, TG_DEFLATE_GZIP, 1, NULL)
                       : after[k] == 'b' ? tg_blosc_new(&c, &o, NULL)
                                         : tg_crc32c_new(&c, NULL);
        if (st == TG_OK)
            st = decode(c, (tg_bytes){cur.data, cur.len}, (size_t)MOST * 3, &next, &n, NULL);
        if (c != NULL)
            c->ops->free(c);
        if (st != TG_OK)
            return false;
        next.len = n;
        tg_buf_move(&cur, &next);
    }
    tg_buf_move(out, &cur);
    return true;
}

/* B[b] = A[a] with b[i] = a[order[i]], each unit reversed if big. */
static void naive_pack(const struct row *r, const tg_shape *s, tg_dtype t, const uint8_t *items,
                       uint8_t *out)
{
    size_t unit = r->big ? tg_dtype_swap_bytes(t) : 1;

    for (uint64_t i = 0; i < s->n[0] * s->n[1] * s->n[2]; i++) {
        uint64_t a[3] = {i / s->n[2] / s->n[1], i / s->n[2] % s->n[1], i % s->n[2]}, at = 0;
        for (int k = 0; k < 3; k++)
            at = at * s->n[r->order[k]] + a[r->order[k]];
        for (size_t b = 0; b < t.size; b++)
            out[at * t.size + b] = items[i * t.size + (b / unit * unit + unit - 1 - b % unit)];
    }
}

static const tg_dtype dtypes[] = {{TG_DT_UINT, 1}, {TG_DT_INT, 2},     {TG_DT_FLOAT, 4},
                                  {TG_DT_UINT, 8}, {TG_DT_COMPLEX, 8}, {TG_DT_COMPLEX, 16},
                                  {TG_DT_RAW, 3}};
static const tg_shape shapes[] = {
    {3, {5, 6, 7}}, {3, {1, 1, 1}}, {3, {2, 1, 9}}, {3, {4, 0, 3}}};

static void one_round(const struct row *r, tg_dtype t, tg_shape s)
{
    static uint8_t items[MOST], want[MOST], back[MOST + 1];
    size_t bytes, n = SIZE_MAX;
    TG_AUTO_PTR(tg_chain) c = NULL;
    TG_AUTO_PTR(tg_chain_context) to = NULL;
    TG_AUTO_PTR(tg_chain_context) from = NULL;
    TG_AUTO(tg_buf) enc = {0};
    TG_AUTO(tg_buf) plain = {0};

    REQUIRE_OK(tg_shape_bytes(&s, t.size, &bytes, NULL));
    REQUIRE_OK(open_json(&c, r->codecs, t, s, NULL));
    make_data(items, bytes, 2, bytes);
    size_t live = tg_mem_live();
    REQUIRE_OK(tg_chain_context_new(c, true, &to, NULL));
    CHECK(tg_mem_live() - live <= tg_chain_context_bytes(c, true));
    live = tg_mem_live();
    REQUIRE_OK(tg_chain_context_new(c, false, &from, NULL));
    CHECK(tg_mem_live() - live <= tg_chain_context_bytes(c, false));
    REQUIRE_OK(tg_buf_resize(&enc, tg_chain_bound(c, 0), NULL));

    tg_mem_fail_at(1); /* running takes no memory */
    REQUIRE_OK(tg_chain_encode(c, to, (tg_bytes){items, bytes}, enc.data, enc.len, &n, NULL));
    back[bytes] = 0xEE;
    REQUIRE_OK(tg_chain_decode(c, from, (tg_bytes){enc.data, n}, back, bytes, NULL));
    tg_mem_fail_at(0);
    CHECK(memcmp(items, back, bytes) == 0 && back[bytes] == 0xEE);
    REQUIRE(n <= enc.len);
    if (tg_chain_is_fixed_size(c))
        CHECK_U64(n, enc.len);

    REQUIRE(peel(r->after, (tg_bytes){enc.data, n}, &plain));
    naive_pack(r, &s, t, items, want);
    CHECK_U64(plain.len, bytes);
    REQUIRE(memcmp(plain.data, want, bytes) == 0);

    CHECK_STATUS(
        tg_chain_encode(c, to, (tg_bytes){items, bytes}, enc.data, enc.len - 1, &n, NULL),
        enc.len == 0 ? TG_OK : TG_INVALID);
}

static void chains_equal_their_steps(void)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
                test_row = rows[i].name;
                if (s == 3 && rows[i].after[0] == '\0')
                    continue; /* nothing at all to encode */
                one_round(&rows[i], dtypes[t], shapes[s]);
                tg_mem_fail_at(0);
            }
        }
    }
}

static void what_a_chain_tells(void)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        TG_AUTO_PTR(tg_chain) c = NULL;
        test_row = rows[i].name;
        REQUIRE_OK(open_json(&c, rows[i].codecs, dtypes[1], shapes[0], NULL));
        CHECK(tg_chain_is_raw(c) == rows[i].raw);
        CHECK(tg_chain_has_crc32c_last(c) == rows[i].crc_last);
        CHECK(tg_chain_is_fixed_size(c) == rows[i].fixed);
        CHECK(tg_chain_detects_damage(c) == rows[i].detects);
    }
    /* One byte has no order. */
    TG_AUTO_PTR(tg_chain) c = NULL;
    REQUIRE_OK(open_json(&c, "[" BIG "]", dtypes[0], shapes[0], NULL));
    CHECK(tg_chain_is_raw(c));
}

/* Too short, too long, damaged: never data. */
static void chains_find_damage(void)
{
    static uint8_t items[420], back[420];

    make_data(items, sizeof items, 2, 1);
    for (size_t i = 0; i < N_ROWS; i++) {
        TG_AUTO_PTR(tg_chain) c = NULL;
        TG_AUTO_PTR(tg_chain_context) to = NULL;
        TG_AUTO_PTR(tg_chain_context) from = NULL;
        TG_AUTO(tg_buf) enc = {0};
        size_t n = 0;
        test_row = rows[i].name;
        REQUIRE_OK(open_json(&c, rows[i].codecs, dtypes[1], shapes[0], NULL));
        REQUIRE_OK(tg_chain_context_new(c, true, &to, NULL));
        REQUIRE_OK(tg_chain_context_new(c, false, &from, NULL));
        REQUIRE_OK(tg_buf_resize(&enc, tg_chain_bound(c, 0) + 1, NULL));
        REQUIRE_OK(tg_chain_encode(c, to, (tg_bytes){items, 420}, enc.data, enc.len, &n, NULL));
        enc.data[n] = 0;
        for (size_t len = 0; len < n; len++)
            CHECK_STATUS(tg_chain_decode(c, from, (tg_bytes){enc.data, len}, back, 420, NULL),
                         TG_CORRUPT);
        tg_status longer =
            tg_chain_decode(c, from, (tg_bytes){enc.data, n + 1}, back, 420, NULL);
        bool blosc_last = rows[i].after[0] && rows[i].after[strlen(rows[i].after) - 1] == 'b';
        CHECK_STATUS(longer, blosc_last ? TG_OK : TG_CORRUPT);
        for (size_t bit = 0; bit < n * 8; bit++) {
            enc.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            tg_status st = tg_chain_decode(c, from, (tg_bytes){enc.data, n}, back, 420, NULL);
            enc.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (rows[i].detects && st == TG_OK)
                CHECK(memcmp(items, back, 420) == 0);
            if (rows[i].crc_last) /* the outermost: it sees every bit */
                CHECK_STATUS(st, TG_CORRUPT);
        }
    }
}

/* A bomb gives no more than the chunk, whatever it says of itself. */
static void bombs(void)
{
    static const char *const chains[] = {
        "[\"bytes\",\"zstd\"]", "[\"bytes\",\"gzip\"]", "[\"bytes\",\"blosc\"]",
        "[\"bytes\",{\"name\":\"numcodecs.lz4\"}]", "[\"bytes\",\"gzip\",\"zstd\"]"};
    enum { BOMB = 1 << 22, CHUNK = 1000 };

    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        TG_AUTO_PTR(tg_chain) large = NULL;
        TG_AUTO_PTR(tg_chain) small = NULL;
        TG_AUTO_PTR(tg_chain_context) to = NULL;
        TG_AUTO_PTR(tg_chain_context) from = NULL;
        TG_AUTO(tg_buf) items = {0};
        TG_AUTO(tg_buf) enc = {0};
        TG_AUTO(tg_buf) back = {0};
        size_t n = 0;
        test_row = chains[i];
        REQUIRE_OK(open_json(&large, chains[i], dtypes[0], (tg_shape){1, {BOMB}}, NULL));
        REQUIRE_OK(open_json(&small, chains[i], dtypes[0], (tg_shape){1, {CHUNK}}, NULL));
        REQUIRE_OK(tg_buf_resize(&items, BOMB, NULL));
        memset(items.data, 0, BOMB);
        REQUIRE_OK(tg_buf_resize(&enc, tg_chain_bound(large, 0), NULL));
        REQUIRE_OK(tg_buf_resize(&back, CHUNK, NULL));
        REQUIRE_OK(tg_chain_context_new(large, true, &to, NULL));
        REQUIRE_OK(tg_chain_encode(large, to, (tg_bytes){items.data, BOMB}, enc.data, enc.len,
                                   &n, NULL));
        CHECK(n < BOMB / 100);
        tg_mem_reset();
        size_t before = tg_mem_highwater();
        REQUIRE_OK(tg_chain_context_new(small, false, &from, NULL));
        CHECK_STATUS(
            tg_chain_decode(small, from, (tg_bytes){enc.data, n}, back.data, CHUNK, NULL),
            TG_CORRUPT);
        CHECK(tg_mem_highwater() - before < 400000);
    }
}

/* Reading takes any byte but 0 for true; there is one true afterwards. */
static void bools_are_0_or_1(void)
{
    static const uint8_t stored[] = {0, 1, 2, 255, 128, 0}, want[] = {0, 1, 1, 1, 1, 0};
    uint8_t got[6];
    TG_AUTO_PTR(tg_chain) c = NULL;
    TG_AUTO_PTR(tg_chain_context) from = NULL;

    REQUIRE_OK(
        open_json(&c, "[\"bytes\"]", (tg_dtype){TG_DT_BOOL, 1}, (tg_shape){1, {6}}, NULL));
    REQUIRE_OK(tg_chain_context_new(c, false, &from, NULL));
    REQUIRE_OK(tg_chain_decode(c, from, (tg_bytes){stored, 6}, got, 6, NULL));
    CHECK(memcmp(got, want, 6) == 0);
}

/* v2's order F: the first index varies fastest. */
static void v2_order_and_byte_order(void)
{
    static const uint16_t items[6] = {0x0001, 0x0203, 0x0405, 0x0607, 0x0809, 0x0a0b};
    static const struct {
        const char *name;
        char byte_order, order;
        uint8_t want[12];
    } v2[] = {
        {"<C", '<', 'C', {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10}},
        {">C", '>', 'C', {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
        {"<F", '<', 'F', {1, 0, 7, 6, 3, 2, 9, 8, 5, 4, 11, 10}},
        {">F", '>', 'F', {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}},
    };
    for (size_t i = 0; i < 4; i++) {
        uint8_t enc[12];
        uint16_t back[6];
        size_t n = 0;
        TG_AUTO_PTR(tg_chain) c = NULL;
        TG_AUTO_PTR(tg_chain_context) to = NULL;
        TG_AUTO_PTR(tg_chain_context) from = NULL;
        test_row = v2[i].name;
        REQUIRE_OK(tg_chain_open_v2(&c, NULL, NULL, v2[i].byte_order, v2[i].order, dtypes[1],
                                    &(tg_shape){2, {2, 3}}, NULL));
        REQUIRE_OK(tg_chain_context_new(c, true, &to, NULL));
        REQUIRE_OK(tg_chain_context_new(c, false, &from, NULL));
        REQUIRE_OK(
            tg_chain_encode(c, to, (tg_bytes){(const uint8_t *)items, 12}, enc, 12, &n, NULL));
        CHECK(n == 12 && memcmp(enc, v2[i].want, 12) == 0);
        REQUIRE_OK(tg_chain_decode(c, from, (tg_bytes){enc, 12}, (uint8_t *)back, 12, NULL));
        CHECK(memcmp(back, items, 12) == 0);
    }
}

static void chunks_too_large(void)
{
    TG_AUTO_PTR(tg_chain) c = NULL;
    tg_error err = {0};
    tg_shape s = {1, {((uint64_t)1 << 31) - 16}};

    /* C8: refused when the array is made, before anything is written. */
    CHECK_STATUS(tg_chain_open_text(&c, "blosc:lz4", true, 3, dtypes[0], &s, &err), TG_INVALID);
    CHECK(strstr(err.msg, "2147483632") != NULL);
    s.n[0]--;
    REQUIRE_OK(tg_chain_open_text(&c, "blosc:lz4", true, 3, dtypes[0], &s, &err));
    CHECK_U64(tg_chain_bound(c, 0), ((uint64_t)1 << 31) - 1 + 4);
    tg_chain_free(tg_steal(c));
    s = (tg_shape){2, {(uint64_t)1 << 40, (uint64_t)1 << 40}};
    CHECK_STATUS(tg_chain_open_text(&c, "none", false, 3, dtypes[0], &s, &err), TG_INVALID);
    s = (tg_shape){1, {UINT64_MAX}};
    CHECK_STATUS(tg_chain_open_text(&c, "none", true, 3, dtypes[0], &s, &err), TG_INVALID);
}

typedef struct worker {
    pthread_t thread;
    const tg_chain *chain;
    int failed;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    uint8_t items[420], enc[2000], back[420];
    size_t n;
    TG_AUTO_PTR(tg_chain_context) to = NULL;
    TG_AUTO_PTR(tg_chain_context) from = NULL;

    w->failed = tg_chain_context_new(w->chain, true, &to, NULL) != TG_OK ||
                tg_chain_context_new(w->chain, false, &from, NULL) != TG_OK;
    for (uint64_t i = 0; i < 200 && !w->failed; i++) {
        make_data(items, sizeof items, (int)(i % KINDS), i);
        w->failed =
            tg_chain_encode(w->chain, to, (tg_bytes){items, 420}, enc, sizeof enc, &n, NULL) !=
                TG_OK ||
            tg_chain_decode(w->chain, from, (tg_bytes){enc, n}, back, 420, NULL) != TG_OK ||
            memcmp(items, back, sizeof items) != 0;
    }
    return NULL;
}

/* One chain, a context a thread. */
static void many_threads(void)
{
    TG_AUTO_PTR(tg_chain) c = NULL;
    worker workers[4] = {0};

    REQUIRE_OK(open_json(&c, rows[18].codecs, dtypes[1], shapes[0], NULL));
    for (int i = 0; i < 4; i++) {
        workers[i].chain = c;
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
        CHECK(!workers[i].failed);
    }
}

static tg_status all_of_it(void)
{
    uint8_t items[420] = {0}, enc[2000], back[420];
    size_t n;
    TG_AUTO_PTR(tg_chain) c = NULL;
    TG_AUTO_PTR(tg_chain_context) to = NULL;
    TG_AUTO_PTR(tg_chain_context) from = NULL;

    TG_TRY(open_json(&c, rows[18].codecs, dtypes[1], shapes[0], NULL));
    TG_TRY(tg_chain_context_new(c, true, &to, NULL));
    TG_TRY(tg_chain_context_new(c, false, &from, NULL));
    TG_TRY(tg_chain_encode(c, to, (tg_bytes){items, 420}, enc, sizeof enc, &n, NULL));
    return tg_chain_decode(c, from, (tg_bytes){enc, n}, back, 420, NULL);
}

static void every_allocation(void)
{
    CHECK(strcmp(rows[18].name, "all of it") == 0);
    CHECK_EVERY_ALLOC(all_of_it());
}

static const struct test tests[] = {
    {"chains_equal_their_steps", chains_equal_their_steps},
    {"what_a_chain_tells", what_a_chain_tells},
    {"chains_find_damage", chains_find_damage},
    {"bombs", bombs},
    {"bools_are_0_or_1", bools_are_0_or_1},
    {"v2_order_and_byte_order", v2_order_and_byte_order},
    {"chunks_too_large", chunks_too_large},
    {"many_threads", many_threads},
    {"every_allocation", every_allocation},
};

TEST_MAIN(tests)
