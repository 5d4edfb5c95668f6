/* What codec.h promises of every codec, held for each of them. */
#include "make.h"

typedef struct subject {
    const char *name;
    tg_codec *codec;
} subject;

enum { MOST = 64 };
static subject subjects[MOST];
static size_t n_subjects;

static void free_subjects(void)
{
    for (size_t i = 0; i < n_subjects; i++)
        subjects[i].codec->ops->free(subjects[i].codec);
}

static void add(const char *name, tg_status st, tg_codec **c)
{
    if (st != TG_OK || n_subjects == MOST)
        abort();
    subjects[n_subjects++] = (subject){name, *c};
}

/* Before main(): each test may then be run alone. */
__attribute__((constructor)) static void make_subjects(void)
{
    static char names[MOST][40];
    static const int zstd_levels[] = {-131072, -5, 0, 1, 3, 9, 15, 19, 22};
    tg_codec *c = NULL;

    if (atexit(free_subjects) != 0)
        abort();
    add("crc32c", tg_crc32c_new(&c, NULL), &c);
    for (size_t i = 0; i < sizeof zstd_levels / sizeof zstd_levels[0]; i++) {
        char *name = names[n_subjects];
        (void)snprintf(name, sizeof names[0], "zstd %d%s", zstd_levels[i], i % 2 ? " sum" : "");
        add(name, tg_zstd_new(&c, zstd_levels[i], i % 2 == 1, NULL), &c);
    }
    for (int level = -1; level <= 9; level++) {
        char *name = names[n_subjects];
        (void)snprintf(name, sizeof names[0], "%s %d", level % 2 ? "gzip" : "zlib", level);
        add(name,
            tg_deflate_new(&c, level % 2 ? TG_DEFLATE_GZIP : TG_DEFLATE_ZLIB, level, NULL), &c);
    }
    add("lz4 1", tg_lz4_new(&c, 1, NULL), &c);
    add("lz4 50", tg_lz4_new(&c, 50, NULL), &c);
    for (int i = 0; i < TG_BLOSC_COMPRESSORS * 3; i++) {
        char *name = names[n_subjects];
        static const int levels[] = {5, 0, 9}, sizes[] = {1, 2, 3, 4, 8, 16, 17, 255};
        tg_blosc_options o = {i % TG_BLOSC_COMPRESSORS, levels[i / TG_BLOSC_COMPRESSORS],
                              (i + i / TG_BLOSC_COMPRESSORS) % 3, sizes[i % 8],
                              i % 5 == 4 ? 1000 : 0};
        (void)snprintf(name, sizeof names[0], "blosc %s %d %d %d", tg_blosc_names[o.compressor],
                       o.level, o.shuffle, o.item_bytes);
        add(name, tg_blosc_new(&c, &o, NULL), &c);
    }
}

static void round_trip(const tg_codec *c, tg_bytes plain)
{
    TG_AUTO(tg_buf) enc = {0};
    TG_AUTO(tg_buf) dec = {0};
    tg_error err = {0};
    size_t n = SIZE_MAX;

    if (encode(c, plain, &enc, &err) != TG_OK ||
        decode(c, (tg_bytes){enc.data, enc.len}, plain.len, &dec, &n, &err) != TG_OK) {
        test_failed(__FILE__, __LINE__, err.msg);
        return;
    }
    CHECK_U64(n, plain.len);
    REQUIRE(memcmp(dec.data, plain.data, plain.len) == 0);
    if (plain.len == 0)
        return;
    /* One byte less room: there is more than it may produce. */
    n = 77;
    CHECK_STATUS(decode(c, (tg_bytes){enc.data, enc.len}, plain.len - 1, &dec, &n, NULL),
                 TG_CORRUPT);
    CHECK_U64(n, 77);
}

static void every_small_size(void)
{
    uint8_t data[300];

    for (size_t s = 0; s < n_subjects; s++) {
        test_row = subjects[s].name;
        for (size_t n = 0; n <= 300; n += n < 70 || n > 250 ? 1 : 7) {
            make_data(data, n, (int)(n % KINDS), n);
            round_trip(subjects[s].codec, (tg_bytes){data, n});
        }
    }
}

static void large_values(void)
{
    TG_AUTO(tg_buf) data = {0};

    REQUIRE_OK(tg_buf_resize(&data, (1 << 20) + 3, NULL));
    for (size_t s = 0; s < n_subjects; s++) {
        test_row = subjects[s].name;
        for (int kind = 0; kind < KINDS; kind++) {
            bool slow = strstr(subjects[s].name, "22") || strstr(subjects[s].name, "19") ||
                        strstr(subjects[s].name, "zstd 15") || strstr(subjects[s].name, "9");
            size_t n = slow ? 150001 : data.len;
            make_data(data.data, n, kind, s);
            round_trip(subjects[s].codec, (tg_bytes){data.data, n});
        }
    }
}

static void bounds_never_wrap(void)
{
    static const size_t sizes[] = {SIZE_MAX,       SIZE_MAX - 1,     SIZE_MAX - 15,
                                   SIZE_MAX / 2,   SIZE_MAX / 4 + 1, (size_t)1 << 40,
                                   (size_t)1 << 31};

    for (size_t s = 0; s < n_subjects; s++) {
        const tg_codec *c = subjects[s].codec;
        test_row = subjects[s].name;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            CHECK(c->ops->bound(c, sizes[i]) >= sizes[i]);
        CHECK_U64(c->ops->bound(c, SIZE_MAX), SIZE_MAX);
    }
}

/* A context made for a large value serves smaller ones, one after another. */
static void contexts_are_reused(void)
{
    TG_AUTO(tg_buf) data = {0};
    TG_AUTO(tg_buf) enc = {0};
    TG_AUTO(tg_buf) dec = {0};
    enum { LARGEST = 300000 };

    REQUIRE_OK(tg_buf_resize(&data, LARGEST, NULL));
    for (size_t s = 0; s < n_subjects; s++) {
        const tg_codec *c = subjects[s].codec;
        void *to = NULL, *from = NULL;
        test_row = subjects[s].name;
        REQUIRE_OK(c->ops->context_new(c, LARGEST, true, &to, NULL));
        REQUIRE_OK(c->ops->context_new(c, LARGEST, false, &from, NULL));
        REQUIRE_OK(tg_buf_resize(&enc, c->ops->bound(c, LARGEST), NULL));
        REQUIRE_OK(tg_buf_resize(&dec, LARGEST, NULL));
        static const size_t sizes[] = {LARGEST, 0,      1,      100,   16384,
                                       16385,   131072, 131073, 262145};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            size_t n = 0, m = 0;
            make_data(data.data, sizes[i], i % 2 ? 3 : 2, i);
            tg_bytes plain = {data.data, sizes[i]};
            tg_mem_fail_at(1); /* no call takes memory of ours */
            tg_status a = c->ops->encode(c, to, plain, enc.data, enc.len, &n, NULL);
            tg_status b =
                c->ops->decode(c, from, (tg_bytes){enc.data, n}, dec.data, sizes[i], &m, NULL);
            tg_mem_fail_at(0);
            CHECK_STATUS(a, TG_OK);
            CHECK_STATUS(b, TG_OK);
            CHECK(m == sizes[i] && memcmp(dec.data, data.data, m) == 0);
        }
        if (to != NULL)
            c->ops->context_free(c, to);
        if (from != NULL)
            c->ops->context_free(c, from);
    }
}

/* Every prefix and every flipped bit: an end without a crash; and where the
 * codec says so, never other data. */
static void damage(void)
{
    uint8_t plain[400];
    size_t cut_found = 0, flips_found = 0;

    for (size_t s = 0; s < n_subjects; s++) {
        const tg_codec *c = subjects[s].codec;
        TG_AUTO(tg_buf) enc = {0};
        TG_AUTO(tg_buf) dec = {0};
        test_row = subjects[s].name;
        make_data(plain, sizeof plain, s % 3 == 0 ? 3 : 2, s);
        REQUIRE_OK(encode(c, (tg_bytes){plain, sizeof plain}, &enc, NULL));
        for (size_t keep = 0; keep < enc.len; keep++) {
            size_t n = 77;
            tg_status st = decode(c, (tg_bytes){enc.data, keep}, sizeof plain, &dec, &n, NULL);
            /* What is missing is always noticed: at the latest by the length. */
            CHECK(st == TG_CORRUPT || n != sizeof plain);
            CHECK(st == TG_OK || n == 77);
            cut_found += st == TG_CORRUPT;
        }
        for (size_t bit = 0; bit < enc.len * 8; bit++) {
            size_t n = 77;
            enc.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            tg_status st =
                decode(c, (tg_bytes){enc.data, enc.len}, sizeof plain, &dec, &n, NULL);
            enc.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            CHECK(st == TG_OK || st == TG_CORRUPT || st == TG_UNSUPPORTED);
            if (st == TG_OK && c->ops->detects_damage(c))
                CHECK(n != sizeof plain || memcmp(dec.data, plain, n) == 0);
            flips_found += st != TG_OK;
        }
    }
    CHECK(cut_found > 1000 && flips_found > 1000);
}

static void config_round_trip(void)
{
    for (size_t s = 0; s < n_subjects; s++) {
        const tg_codec *c = subjects[s].codec;
        for (int format = 2; format <= 3; format++) {
            TG_AUTO_PTR(tg_json) json = NULL;
            TG_AUTO(tg_str) text = NULL;
            test_row = subjects[s].name;
            REQUIRE_OK(c->ops->write_config(c, format, &json, NULL));
            REQUIRE_OK(tg_json_write(json, false, (tg_json_options){0}, &text, NULL));
            CHECK(strstr(text, c->ops->name) != NULL);
        }
    }
}

static tg_status all_of_it(const tg_codec *c)
{
    TG_AUTO(tg_buf) enc = {0};
    TG_AUTO(tg_buf) dec = {0};
    size_t n;

    TG_TRY(encode(c, (tg_bytes){(const uint8_t *)"hello", 5}, &enc, NULL));
    return decode(c, (tg_bytes){enc.data, enc.len}, 5, &dec, &n, NULL);
}

static void every_allocation(void)
{
    for (size_t s = 0; s < n_subjects; s++) {
        test_row = subjects[s].name;
        CHECK_EVERY_ALLOC(all_of_it(subjects[s].codec));
    }
}

static void context_sizes_are_told(void)
{
    for (size_t s = 0; s < n_subjects; s++) {
        const tg_codec *c = subjects[s].codec;
        test_row = subjects[s].name;
        for (int encode_it = 0; encode_it < 2; encode_it++) {
            size_t live = tg_mem_live();
            void *ctx = NULL;
            REQUIRE_OK(c->ops->context_new(c, 100000, encode_it != 0, &ctx, NULL));
            CHECK(tg_mem_live() - live <= c->ops->context_bytes(c, 100000, encode_it != 0));
            if (ctx != NULL)
                c->ops->context_free(c, ctx);
        }
    }
}

static const struct test tests[] = {
    {"every_small_size", every_small_size},
    {"large_values", large_values},
    {"bounds_never_wrap", bounds_never_wrap},
    {"contexts_are_reused", contexts_are_reused},
    {"damage", damage},
    {"config_round_trip", config_round_trip},
    {"every_allocation", every_allocation},
    {"context_sizes_are_told", context_sizes_are_told},
};

TEST_MAIN(tests)
