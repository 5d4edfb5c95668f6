#include "check.h"
#include "exec/exec.h"
#include "tidegate/checksum.h"
#include "tidegate/verify.h"
#include "zarr/zarr.h"

typedef struct found {
    int n;
    char key[8][80], what[8][80], why[8][300];
} found;

static void note(void *user, const char *key, const char *what, const tg_error *why)
{
    found *f = user;
    if (f->n < 8) {
        (void)snprintf(f->key[f->n], sizeof f->key[0], "%.79s", key);
        (void)snprintf(f->what[f->n], sizeof f->what[0], "%.79s", what);
        (void)snprintf(f->why[f->n], sizeof f->why[0], "%.299s", why->msg);
    }
    f->n++;
}

static tg_status verify(tg_store *s, const char *path, uint64_t memory, tg_verify_result *r,
                        found *f, tg_error *err)
{
    const tg_runtime_options o = {.size = sizeof o, .memory_bytes = memory, .threads = 3};
    TG_AUTO_PTR(tg_runtime) rt = NULL;

    *r = (tg_verify_result){.size = sizeof *r};
    TG_TRY(tg_runtime_new(&o, &rt, err));
    tg_status st = tg_verify(rt, s, path, note, f, NULL, NULL, r, NULL, err);
    CHECK_U64(tg_runtime_memory_used(rt), 0);
    return st;
}

#define MIB ((uint64_t)1 << 20)

static tg_status make(tg_store *s, const char *path, int format, bool sharded, bool no_checksum,
                      const char *codec)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    const uint64_t shape[2] = {6, 8}, chunk[2] = {2, 4}, shard[2] = {4, 8}, zero[2] = {0, 0};
    const tg_array_options o = {.size = sizeof o,
                                .format = format,
                                .dtype = {TG_DT_UINT, 2},
                                .ndim = 2,
                                .shape = shape,
                                .chunk = chunk,
                                .shard = sharded ? shard : NULL,
                                .codec = codec,
                                .no_checksum = no_checksum};
    uint16_t items[48];

    for (uint16_t i = 0; i < 48; i++)
        items[i] = (uint16_t)(i + 1);
    TG_TRY(tg_array_create(s, path, &o, &a, NULL, NULL));
    return tg_array_write(a, zero, shape, items, NULL, NULL, NULL);
}

static tg_status flip(tg_store *s, const char *key, size_t byte)
{
    TG_AUTO(tg_buf) b = {0};
    TG_TRY(tg_store_get(s, key, tg_range_all(), 1 << 20, &b, NULL, NULL));
    b.data[byte < b.len ? byte : b.len - 1] ^= 4;
    return tg_store_put(s, key, b.data, b.len, NULL, NULL);
}

static const struct {
    const char *name;
    int format;
    bool sharded, no_checksum;
    const char *codec, *damage; /* key below the array; NULL: none */
    size_t byte;
    uint64_t ok, bad, unverifiable;
    const char *what;
} rows[] = {
    {"sums right", 3, false, false, "none", NULL, 0, 6, 0, 0, NULL},
    {"a bit in a chunk", 3, false, false, "none", "c/1/0", 5, 5, 1, 0, ""},
    {"no sums", 3, false, true, "none", NULL, 0, 0, 0, 6, NULL},
    {"format 2, raw", 2, false, true, "none", NULL, 0, 0, 0, 6, NULL},
    {"format 2, zstd", 2, false, false, "zstd:1", "2/1", 0, 0, 1, 5, ""},
    {"shards right", 3, true, false, "none", NULL, 0, 6, 0, 0, NULL},
    {"a bit in a shard's chunk", 3, true, false, "none", "c/0/0", 21, 5, 1, 0,
     "shard 0, chunk 1"},
    {"a bit in a shard's index", 3, true, false, "none", "c/0/0", 9999, 2, 1, 0, ""},
};

static void what_is_damaged_is_told(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        tg_verify_result r;
        found f = {0};
        char key[40];
        test_row = rows[i].name;
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(make(s, "g/x", rows[i].format, rows[i].sharded, rows[i].no_checksum,
                        rows[i].codec));
        (void)snprintf(key, sizeof key, "g/x/%s", rows[i].damage == NULL ? "" : rows[i].damage);
        if (rows[i].damage != NULL)
            REQUIRE_OK(flip(s, key, rows[i].byte));
        REQUIRE_OK(verify(s, "", 64 * MIB, &r, &f, NULL));
        CHECK_U64(r.ok, rows[i].ok);
        CHECK_U64(r.bad, rows[i].bad);
        CHECK_U64(r.unverifiable, rows[i].unverifiable);
        CHECK(r.bytes > 0);
        CHECK_U64((uint64_t)f.n, rows[i].bad);
        if (rows[i].bad > 0) {
            CHECK(strcmp(f.key[0], key) == 0);
            CHECK(strcmp(f.what[0], rows[i].what) == 0);
            CHECK(f.why[0][0] != '\0');
        }
    }
}

static void every_flipped_bit_is_found(void)
{
    for (int sharded = 0; sharded < 2; sharded++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO(tg_buf) b = {0};
        const char *key = "x/c/0/0";
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(make(s, "x", 3, sharded == 1, false, "none"));
        REQUIRE_OK(tg_store_get(s, key, tg_range_all(), 1 << 20, &b, NULL, NULL));
        for (size_t byte = 0; byte < b.len; byte += 3) {
            tg_verify_result r;
            found f = {0};
            b.data[byte] ^= 1;
            REQUIRE_OK(tg_store_put(s, key, b.data, b.len, NULL, NULL));
            REQUIRE_OK(verify(s, "x", 64 * MIB, &r, &f, NULL));
            CHECK(r.bad >= 1);
            b.data[byte] ^= 1;
        }
    }
}

static void damaged_metadata_is_a_finding(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_verify_result r;
    found f = {0};
    const char *group = "{\"zarr_format\":3,\"node_type\":\"group\",\"x\":1}";

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(make(s, "a", 3, false, false, "none"));
    REQUIRE_OK(tg_store_put(s, "b/zarr.json", "{", 1, NULL, NULL));
    REQUIRE_OK(tg_store_put(s, "c/zarr.json", group, strlen(group), NULL, NULL));
    REQUIRE_OK(verify(s, "", 64 * MIB, &r, &f, NULL));
    CHECK(r.ok == 6 && r.bad == 2 && f.n == 2);
    CHECK(strcmp(f.key[0], "b") == 0 && strcmp(f.key[1], "c") == 0);
    CHECK_STATUS(verify(s, "none", 64 * MIB, &r, &f, NULL), TG_NOT_FOUND);
    CHECK_STATUS(verify(s, "../x", 64 * MIB, &r, &f, NULL), TG_INVALID);
}

/* --- Frame tables ------------------------------------------------------------- */

enum { N = 9, H = 4, W = 5 };

static uint16_t pixel(int frame, int y, int x)
{
    return (uint16_t)(frame * 100 + y * 10 + x + 1);
}

static tg_status put_column(tg_store *s, const char *path, tg_dtype t, uint64_t n_rows,
                            const void *items)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    const uint64_t zero = 0, chunk = 4;
    const tg_array_options o = {
        .size = sizeof o, .dtype = t, .ndim = 1, .shape = &n_rows, .chunk = &chunk};
    TG_TRY(tg_array_create(s, path, &o, &a, NULL, NULL));
    return tg_array_write(a, &zero, &n_rows, items, NULL, NULL, NULL);
}

/* Frames in order with one row each, and a row without pixels in front. */
static tg_status make_frames(tg_store *s, int format, bool last, uint64_t n_rows)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    const uint64_t first_shape[3] = {N, H, W}, last_shape[3] = {H, W, N}, zero[3] = {0};
    const uint64_t first_chunk[3] = {2, H, W}, last_chunk[3] = {H, W, 2};
    const tg_array_options o = {.size = sizeof o,
                                .format = format,
                                .dtype = {TG_DT_UINT, 2},
                                .ndim = 3,
                                .shape = last ? last_shape : first_shape,
                                .chunk = last ? last_chunk : first_chunk,
                                .no_checksum = true};
    uint16_t items[N * H * W], frame[H * W];
    int64_t index[N + 1] = {-1};
    uint32_t crc[N + 1] = {0};

    for (int f = 0; f < N; f++) {
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                size_t at =
                    last ? (size_t)((y * W + x) * N + f) : (size_t)((f * H + y) * W + x);
                items[at] = frame[y * W + x] = pixel(f, y, x);
            }
        index[f + 1] = f;
        crc[f + 1] = tg_crc32c(0, frame, sizeof frame);
    }
    TG_TRY(tg_array_create(s, "cam/0", &o, &a, NULL, NULL));
    TG_TRY(tg_array_write(a, zero, o.shape, items, NULL, NULL, NULL));
    TG_TRY(tg_group_create(s, "cam/frames", 3, NULL, NULL, NULL));
    TG_TRY(put_column(s, "cam/frames/index", (tg_dtype){TG_DT_INT, 8}, n_rows, index));
    return put_column(s, "cam/frames/crc32c", (tg_dtype){TG_DT_UINT, 4}, n_rows, crc);
}

static void frames_are_compared_with_their_table(void)
{
    for (int i = 0; i < 4; i++) {
        const bool last = i % 2 == 1;
        const int format = i < 2 ? 3 : 2;
        TG_AUTO_PTR(tg_store) s = NULL;
        tg_verify_result r;
        found f = {0};
        REQUIRE_OK(tg_store_open_mem(&s, NULL));
        REQUIRE_OK(make_frames(s, format, last, N + 1));
        REQUIRE_OK(verify(s, "", 64 * MIB, &r, &f, NULL));
        CHECK_U64(r.bad, 0);
        CHECK_U64(r.unverifiable, 0);
        CHECK_U64(r.ok, N + 6); /* frames, and three chunks of each column */
        /* The last frame: it is alone in its chunk. */
        REQUIRE_OK(flip(s,
                        format == 3 ? (last ? "cam/0/c/0/0/4" : "cam/0/c/4/0/0")
                                    : (last ? "cam/0/0/0/4" : "cam/0/4/0/0"),
                        8));
        REQUIRE_OK(verify(s, "cam", 64 * MIB, &r, &f, NULL));
        CHECK(r.bad == 1 && f.n == 1);
        CHECK(strcmp(f.key[0], "cam/0") == 0 && strcmp(f.what[0], "frame 8, row 9") == 0);
    }
}

static void a_lost_chunk_is_not_silence(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_verify_result r;
    found f = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(make_frames(s, 3, false, N + 1));
    REQUIRE_OK(tg_store_remove(s, "cam/0/c/1/0/0", NULL, NULL));
    REQUIRE_OK(verify(s, "", 64 * MIB, &r, &f, NULL));
    CHECK_U64(r.bad, 2); /* both frames of the chunk read as fill, and the table knows better */
}

static void a_shape_that_says_more_than_the_table(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_verify_result r;
    found f = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(make_frames(s, 3, false, 4));
    REQUIRE_OK(verify(s, "", 64 * MIB, &r, &f, NULL));
    CHECK(r.bad == 1 && f.n == 1);
    CHECK(strcmp(f.what[0], "shape") == 0 && strstr(f.why[0], "4 rows") != NULL);
}

/* --- Limits and faults ---------------------------------------------------------- */

static void a_budget_that_cannot_hold_a_chunk_is_refused(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    const uint64_t shape = UINT64_C(1) << 33, chunk = UINT64_C(4) << 30;
    const tg_array_options o = {.size = sizeof o,
                                .dtype = {TG_DT_UINT, 1},
                                .ndim = 1,
                                .shape = &shape,
                                .chunk = &chunk};
    tg_verify_result r;
    found f = {0};
    tg_error err = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_array_create(s, "x", &o, &a, NULL, NULL));
    CHECK_STATUS(verify(s, "", 256 * MIB, &r, &f, &err), TG_OVER_BUDGET);
    CHECK(err.msg[0] != '\0');
}

static void a_huge_and_empty_shape_costs_nothing(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    const uint64_t shape[2] = {UINT64_C(1) << 40, UINT64_C(1) << 40}, chunk[2] = {16, 16},
                   at[2] = {UINT64_C(1) << 30, 5}, one[2] = {1, 1};
    const tg_array_options o = {
        .size = sizeof o, .dtype = {TG_DT_UINT, 1}, .ndim = 2, .shape = shape, .chunk = chunk};
    tg_verify_result r;
    found f = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_array_create(s, "x", &o, &a, NULL, NULL));
    REQUIRE_OK(tg_array_write(a, at, one, "\1", NULL, NULL, NULL));
    REQUIRE_OK(verify(s, "", 64 * MIB, &r, &f, NULL));
    CHECK(r.ok == 1 && r.bad == 0);
}

static void strings_are_verified(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    const uint64_t shape = 4, chunk = 2, offsets[5] = {0, 1, 3, 3, 6};
    const tg_array_options o = {.size = sizeof o,
                                .dtype = {TG_DT_STRING, 0},
                                .ndim = 1,
                                .shape = &shape,
                                .chunk = &chunk};
    tg_verify_result r;
    found f = {0};

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(tg_array_create(s, "x", &o, &a, NULL, NULL));
    REQUIRE_OK(tg_array_write_strings(a, 0, 4, offsets, "abcdef", NULL, NULL));
    REQUIRE_OK(verify(s, "", 128 * MIB, &r, &f, NULL));
    CHECK(r.ok == 2 && r.bad == 0);
    REQUIRE_OK(flip(s, "x/c/1", 8));
    REQUIRE_OK(verify(s, "", 128 * MIB, &r, &f, NULL));
    CHECK(r.ok == 1 && r.bad == 1 && strcmp(f.key[0], "x/c/1") == 0);
}

static void a_fault_of_the_store_is_told_or_fails(void)
{
    TG_AUTO_PTR(tg_store) inner = NULL;

    REQUIRE_OK(tg_store_open_mem(&inner, NULL));
    REQUIRE_OK(make_frames(inner, 3, false, N + 1));
    for (long n = 1; n < 400; n++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        tg_verify_result r;
        found f = {0};
        REQUIRE_OK(tg_store_open_fault(&s, inner, NULL));
        tg_store_fail_at(s, n, false);
        tg_status st = verify(s, "", 64 * MIB, &r, &f, NULL);
        if (st == TG_OK && r.bad == 0 && r.ok == N + 6) {
            CHECK(n > 20);
            return;
        }
        if (st != TG_OK)
            CHECK_STATUS(st, TG_IO);
        else
            CHECK(r.bad > 0 || r.ok < N + 6);
    }
    CHECK(false);
}

static void a_cancelled_verify_says_so(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    const tg_runtime_options o = {.size = sizeof o, .threads = 2};
    tg_verify_result r = {.size = sizeof r};
    tg_cancel *c = NULL;

    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    REQUIRE_OK(make(s, "x", 3, false, false, "none"));
    REQUIRE_OK(tg_runtime_new(&o, &rt, NULL));
    REQUIRE_OK(tg_cancel_new(&c, NULL));
    tg_cancel_request(c);
    CHECK_STATUS(tg_verify(rt, s, "", NULL, NULL, NULL, NULL, &r, c, NULL), TG_CANCELLED);
    tg_cancel_free(c);
}

static tg_store *shared;
static tg_status verify_once(void)
{
    tg_verify_result r;
    found f = {0};
    return verify(shared, "", 64 * MIB, &r, &f, NULL);
}

static void every_allocation_may_fail(void)
{
    REQUIRE_OK(tg_store_open_mem(&shared, NULL));
    REQUIRE_OK(make_frames(shared, 3, false, N + 1));
    REQUIRE_OK(make(shared, "y", 3, true, false, "zstd:1"));
    CHECK_EVERY_ALLOC(verify_once());
    tg_store_free(shared);
}

static const struct test tests[] = {
    {"what_is_damaged_is_told", what_is_damaged_is_told},
    {"every_flipped_bit_is_found", every_flipped_bit_is_found},
    {"damaged_metadata_is_a_finding", damaged_metadata_is_a_finding},
    {"frames_are_compared_with_their_table", frames_are_compared_with_their_table},
    {"a_lost_chunk_is_not_silence", a_lost_chunk_is_not_silence},
    {"a_shape_that_says_more_than_the_table", a_shape_that_says_more_than_the_table},
    {"a_budget_that_cannot_hold_a_chunk_is_refused",
     a_budget_that_cannot_hold_a_chunk_is_refused},
    {"a_huge_and_empty_shape_costs_nothing", a_huge_and_empty_shape_costs_nothing},
    {"strings_are_verified", strings_are_verified},
    {"a_fault_of_the_store_is_told_or_fails", a_fault_of_the_store_is_told_or_fails},
    {"a_cancelled_verify_says_so", a_cancelled_verify_says_so},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
