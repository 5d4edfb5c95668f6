/* Chunks of strings. */
#include "make.h"

static tg_status open_json(tg_chain **out, const char *codecs, uint64_t n, tg_error *err)
{
    TG_AUTO_PTR(tg_json) json = NULL;
    TG_TRY(tg_json_parse(&json, codecs, strlen(codecs), (tg_json_options){0}, err));
    return tg_chain_open_v3(out, json, (tg_dtype){TG_DT_STRING, 0}, &(tg_shape){1, {n}}, err);
}

/* n strings from a list; the text lies in one block. */
static tg_status make(tg_strings *s, const char *const *list, size_t n)
{
    size_t total = 0;

    for (size_t i = 0; i < n; i++)
        total += strlen(list[i]);
    s->n = n;
    s->offsets = tg_alloc_array(n + 1, sizeof s->offsets[0]);
    s->text = tg_alloc(total + 1);
    if (s->offsets == NULL || s->text == NULL)
        return TG_NO_MEMORY;
    s->offsets[0] = 0;
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(list[i]);
        memcpy(s->text + s->offsets[i], list[i], len);
        s->offsets[i + 1] = s->offsets[i] + len;
    }
    return TG_OK;
}

static bool same(const tg_strings *a, const tg_strings *b)
{
    return a->n == b->n &&
           memcmp(a->offsets, b->offsets, (a->n + 1) * sizeof a->offsets[0]) == 0 &&
           memcmp(a->text, b->text, (size_t)a->offsets[a->n]) == 0;
}

static const char *const words[] = {"ab", "\xc3\xa7", "", "a longer one with \xe2\x82\xac",
                                    "\xf0\x9f\x8c\x8a"};

static void golden(void)
{
    uint8_t want[64];
    tg_bytes bytes = hex("03000000 02000000 6162 02000000 c3a7 00000000", want, sizeof want);
    TG_AUTO_PTR(tg_chain) c = NULL;
    TG_AUTO(tg_strings) s = {0};
    TG_AUTO(tg_strings) back = {0};
    TG_AUTO(tg_buf) enc = {0};

    REQUIRE_OK(open_json(&c, "[\"vlen-utf8\"]", 3, NULL));
    REQUIRE_OK(make(&s, words, 3));
    REQUIRE_OK(tg_chain_encode_strings(c, NULL, &s, &enc, NULL));
    CHECK_U64(enc.len, bytes.len);
    CHECK(memcmp(enc.data, bytes.data, enc.len) == 0);
    CHECK_U64(tg_chain_bound(c, 4), enc.len);
    REQUIRE_OK(tg_chain_decode_strings(c, NULL, bytes, 4, &back, NULL));
    CHECK(same(&s, &back));
}

static const char *const chains[] = {
    "[\"vlen-utf8\"]",
    "[\"vlen-utf8\",\"crc32c\"]",
    "[\"vlen-utf8\",\"zstd\",\"crc32c\"]",
    "[\"vlen-utf8\",\"gzip\"]",
    "[\"vlen-utf8\",\"blosc\"]",
    "[\"vlen-utf8\",{\"name\":\"zstd\",\"configuration\":{\"level\":3}},\"gzip\"]",
};
enum { N_CHAINS = sizeof chains / sizeof chains[0] };

static void round_trips(void)
{
    for (size_t i = 0; i < N_CHAINS; i++) {
        TG_AUTO_PTR(tg_chain) c = NULL;
        TG_AUTO_PTR(tg_chain_context) ctx = NULL;
        TG_AUTO(tg_strings) s = {0};
        TG_AUTO(tg_strings) back = {0};
        TG_AUTO(tg_buf) enc = {0};
        test_row = chains[i];
        REQUIRE_OK(open_json(&c, chains[i], 5, NULL));
        CHECK(!tg_chain_is_raw(c) && !tg_chain_is_fixed_size(c));
        REQUIRE_OK(tg_chain_context_new(c, true, &ctx, NULL));
        REQUIRE_OK(make(&s, words, 5));
        REQUIRE_OK(tg_chain_encode_strings(c, ctx, &s, &enc, NULL));
        CHECK(enc.len <= tg_chain_bound(c, (size_t)s.offsets[5]));
        REQUIRE_OK(
            tg_chain_decode_strings(c, ctx, (tg_bytes){enc.data, enc.len}, 1000, &back, NULL));
        CHECK(same(&s, &back));
        /* A byte less of text than there is. */
        CHECK_STATUS(tg_chain_decode_strings(c, ctx, (tg_bytes){enc.data, enc.len},
                                             (size_t)s.offsets[5] - 1, &back, NULL),
                     TG_CORRUPT);
        CHECK(same(&s, &back)); /* unchanged on failure */
        for (size_t len = 0; len < enc.len; len++)
            CHECK_STATUS(
                tg_chain_decode_strings(c, ctx, (tg_bytes){enc.data, len}, 1000, &back, NULL),
                TG_CORRUPT);
    }
}

/* Text that is far longer than its code: the room grows to it, and to no more
 * than the limit. */
static void long_text(void)
{
    enum { LONG = 3000000 };
    TG_AUTO(tg_buf) text = {0};

    REQUIRE_OK(tg_buf_resize(&text, LONG + 1, NULL));
    memset(text.data, 'x', LONG);
    text.data[LONG] = '\0';
    for (size_t i = 0; i < N_CHAINS; i++) {
        const char *one[] = {(const char *)text.data};
        TG_AUTO_PTR(tg_chain) c = NULL;
        TG_AUTO(tg_strings) s = {0};
        TG_AUTO(tg_strings) back = {0};
        TG_AUTO(tg_buf) enc = {0};
        test_row = chains[i];
        REQUIRE_OK(open_json(&c, chains[i], 1, NULL));
        REQUIRE_OK(make(&s, one, 1));
        REQUIRE_OK(tg_chain_encode_strings(c, NULL, &s, &enc, NULL));
        tg_bytes src = {enc.data, enc.len};
        REQUIRE_OK(tg_chain_decode_strings(c, NULL, src, LONG, &back, NULL));
        CHECK(same(&s, &back));
        tg_mem_reset();
        size_t before = tg_mem_highwater();
        CHECK_STATUS(tg_chain_decode_strings(c, NULL, src, 100000, &back, NULL), TG_CORRUPT);
        CHECK(tg_mem_highwater() - before < 500000);
    }
}

static void bad_bytes(void)
{
    static const struct {
        const char *name, *bytes;
    } rows[] = {
        {"nothing", ""},
        {"too few", "01000000 00000000"},
        {"too many", "03000000 00000000 00000000 00000000"},
        {"huge count", "ffffffff 00000000 00000000"},
        {"cut count", "020000"},
        {"no length", "02000000 00000000"},
        {"cut length", "02000000 00000000 000000"},
        {"cut text", "02000000 00000000 03000000 6162"},
        {"length wraps", "02000000 00000000 ffffffff 6162"},
        {"first takes all", "02000000 04000000 00000000"},
        {"bytes behind", "02000000 00000000 00000000 00"},
        {"not UTF-8", "02000000 00000000 01000000 ff"},
        {"cut UTF-8", "02000000 01000000 c3 01000000 a7"},
        {"surrogate", "02000000 00000000 03000000 eda080"},
        {"overlong", "02000000 00000000 02000000 c080"},
    };
    uint8_t room[64];
    TG_AUTO_PTR(tg_chain) c = NULL;

    REQUIRE_OK(open_json(&c, "[\"vlen-utf8\"]", 2, NULL));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO(tg_strings) s = {0};
        tg_bytes src = hex(rows[i].bytes, room, sizeof room);
        TG_AUTO(tg_mem_ptr) exact = tg_alloc(src.len);
        test_row = rows[i].name;
        REQUIRE(exact != NULL);
        memcpy(exact, src.data, src.len);
        CHECK_STATUS(
            tg_chain_decode_strings(c, NULL, (tg_bytes){exact, src.len}, 100, &s, NULL),
            TG_CORRUPT);
        CHECK(s.text == NULL);
    }
    /* A NUL is a character. */
    TG_AUTO(tg_strings) s = {0};
    REQUIRE_OK(tg_chain_decode_strings(c, NULL, hex("02000000 01000000 00 00000000", room, 64),
                                       100, &s, NULL));
    CHECK_U64(s.offsets[2], 1);
}

static void bad_strings(void)
{
    static const char *const bad[] = {"good", "\xff"};
    TG_AUTO_PTR(tg_chain) c = NULL;
    TG_AUTO_PTR(tg_chain) numbers = NULL;
    TG_AUTO(tg_strings) s = {0};
    TG_AUTO(tg_buf) out = {0};

    REQUIRE_OK(open_json(&c, "[\"vlen-utf8\"]", 2, NULL));
    REQUIRE_OK(make(&s, bad, 2));
    CHECK_STATUS(tg_chain_encode_strings(c, NULL, &s, &out, NULL), TG_INVALID);
    s.n = 1;
    CHECK_STATUS(tg_chain_encode_strings(c, NULL, &s, &out, NULL), TG_INVALID);
    REQUIRE_OK(tg_chain_open_text(&numbers, "none", false, 3, (tg_dtype){TG_DT_UINT, 1},
                                  &(tg_shape){1, {1}}, NULL));
    CHECK_STATUS(tg_chain_encode_strings(numbers, NULL, &s, &out, NULL), TG_INVALID);
    CHECK(out.data == NULL);
    CHECK_STATUS(open_json(&c, "[\"vlen-utf8\"]", (uint64_t)1 << 32, NULL), TG_INVALID);
}

static tg_status all_of_it(const char *codecs)
{
    TG_AUTO_PTR(tg_chain) c = NULL;
    TG_AUTO(tg_strings) s = {0};
    TG_AUTO(tg_strings) back = {0};
    TG_AUTO(tg_buf) enc = {0};

    TG_TRY(open_json(&c, codecs, 5, NULL));
    TG_TRY(make(&s, words, 5));
    TG_TRY(tg_chain_encode_strings(c, NULL, &s, &enc, NULL));
    return tg_chain_decode_strings(c, NULL, (tg_bytes){enc.data, enc.len}, 100, &back, NULL);
}

static void every_allocation(void)
{
    for (size_t i = 0; i < N_CHAINS; i++) {
        test_row = chains[i];
        CHECK_EVERY_ALLOC(all_of_it(chains[i]));
    }
}

static const struct test tests[] = {
    {"golden", golden},           {"round_trips", round_trips},
    {"long_text", long_text},     {"bad_bytes", bad_bytes},
    {"bad_strings", bad_strings}, {"every_allocation", every_allocation},
};

TEST_MAIN(tests)
