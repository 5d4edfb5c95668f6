#include "ims/ibd.h"
#include "ims/peaks.h"
#include "make_imzml.h"

#include <math.h>
#include <unistd.h>

typedef struct plain_peak {
    double mz;
    float intensity;
    uint32_t pixel;
    uint64_t order;
} plain_peak;

static int by_mz(const void *a, const void *b)
{
    const plain_peak *x = a, *y = b;
    if (x->mz != y->mz)
        return x->mz < y->mz ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* All peaks the plain way: read, filter, sort. The caller frees. */
static plain_peak *plain_sort(const tg_imzml *m, uint64_t *n)
{
    plain_peak *all = malloc((m->n_peaks + 1) * sizeof *all);
    TG_AUTO_PTR(tg_ibd) r = NULL;
    tg_ibd_spectrum s;
    *n = 0;
    if (all == NULL || tg_ibd_new(&r, m, 0, m->n_spectra, 1 << 20, NULL) != TG_OK)
        abort();
    while (tg_ibd_next(r, &s, NULL, NULL) == TG_OK)
        for (uint32_t i = 0; i < s.at->count; i++)
            if (s.intensity[i] > 0 && s.mz[i] > 0 && s.mz[i] < 1e5) {
                all[*n] = (plain_peak){s.mz[i], s.intensity[i], tg_imzml_pixel(m, s.at), *n};
                ++*n;
            }
    qsort(all, *n, sizeof *all, by_mz);
    return all;
}

static void compare(tg_peaks *p, const plain_peak *want, uint64_t n)
{
    const tg_peaks_info *i = tg_peaks_get_info(p);
    uint64_t at = 0, bad = 0;
    CHECK_U64(i->n_peaks, n);
    for (uint32_t k = 0; k < i->n_segments; k++) {
        tg_peak_view v;
        REQUIRE_OK(tg_peaks_pin(p, k, &v, NULL, NULL));
        for (size_t j = 0; j < v.n && at < n; j++, at++)
            bad += v.mz[j] != want[at].mz || v.intensity[j] != want[at].intensity ||
                   v.pixel[j] != want[at].pixel;
        tg_peaks_unpin(p, &v);
    }
    CHECK_U64(at, n);
    CHECK_U64(bad, 0);
}

static tg_runtime *runtime(uint64_t memory, uint32_t threads)
{
    tg_runtime_options o = {.size = sizeof o, .memory_bytes = memory, .threads = threads};
    tg_runtime *rt = NULL;
    if (tg_runtime_new(&o, &rt, NULL) != TG_OK)
        abort();
    return rt;
}

/* Sort with that much memory, read back, compare; returns what was built. */
static tg_peaks_built check_store(tg_store *source, const char *path, uint64_t memory,
                                  uint32_t threads, uint64_t segment)
{
    tg_peaks_built built = {0};
    TG_AUTO_PTR(tg_runtime) rt = runtime(memory, threads);
    TG_AUTO_PTR(tg_store) out = NULL;
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_peaks) p = NULL;
    tg_peaks_options o = {.segment_bytes = segment, .spill_dir = "."};
    tg_error e = {0};
    uint64_t n;

    tg_status st =
        source != NULL
            ? tg_imzml_open_store(&m, source, "t.imzML", NULL, tg_runtime_budget(rt), NULL, &e)
            : tg_imzml_open(&m, path, NULL, tg_runtime_budget(rt), NULL, &e);
    if (st == TG_OK)
        st = tg_store_open_mem(&out, &e);
    if (st == TG_OK)
        st = tg_peaks_build(m, out, "a/peaks.zarr", &o, rt, &built, NULL, &e);
    if (st == TG_OK)
        st = tg_peaks_open(&p, out, "a/peaks.zarr", tg_runtime_budget(rt), NULL, &e);
    if (st == TG_OK)
        st = tg_peaks_cache(p, 2, 0, threads > 1, &e);
    if (st != TG_OK)
        test_failed(__FILE__, __LINE__, e.msg);
    if (st != TG_OK)
        return built;
    plain_peak *want = plain_sort(m, &n);
    compare(p, want, n);
    CHECK_U64(built.n_peaks, n);
    free(want);
    tg_peaks_free(tg_steal(p));
    tg_imzml_free(tg_steal(m));
    CHECK_U64(tg_budget_used(tg_runtime_budget(rt)), 0);
    return built;
}

#define SYNTHETIC TG_TEST_DATA "/data/ims/synthetic-own/synthetic.imzML"

static void any_memory_gives_the_same_order(void)
{
    static const struct {
        const char *name;
        uint64_t memory, segment;
        uint32_t threads;
    } rows[] = {
        {"all in memory, one thread", (uint64_t)64 << 20, (uint64_t)1 << 20, 1},
        {"all in memory, two threads", (uint64_t)64 << 20, (uint64_t)64 << 20, 2},
        {"spilled, one thread", (uint64_t)9 << 20, (uint64_t)1 << 20, 1},
        {"spilled, three threads", (uint64_t)11 << 20, (uint64_t)100000, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_row = rows[i].name;
        tg_peaks_built b =
            check_store(NULL, SYNTHETIC, rows[i].memory, rows[i].threads, rows[i].segment);
        CHECK((b.spilled_bytes > 0) == (rows[i].memory < (uint64_t)20 << 20));
        CHECK(b.runs == 0 || b.runs > 2);
        test_row = "";
    }
}

static void every_kind_of_data_set(void)
{
    for (int bits = 0; bits < 8; bits++) {
        made d = {.continuous = bits & 1,
                  .deflated = (bits & 2) != 0,
                  .reversed = (bits & 4) != 0,
                  .mz_type = 1,
                  .width = 40,
                  .height = 30,
                  .count = 700,
                  .leave_out = 7};
        char row[32];
        (void)snprintf(row, sizeof row, "bits %d", bits);
        test_row = row;
        tg_store *store = make_store(&d);
        tg_peaks_built all = check_store(store, NULL, (uint64_t)128 << 20, 2, 1 << 20);
        tg_peaks_built few = check_store(store, NULL, (uint64_t)9 << 20, 1, 1 << 18);
        CHECK_U64(all.n_peaks, few.n_peaks);
        CHECK(all.runs == 0 && few.runs > 1);
        tg_store_free(store);
        test_row = "";
    }
}

/* 47, 49: what is no peak never becomes one. */
static void useless_values_are_dropped_and_counted(void)
{
    static const double mz[] = {100, 200, NAN, -5, 1e35, 300, 400, 500, 0, 150};
    static const float in[] = {1, 0, 5, 5, 5, -2, INFINITY, NAN, 3, 7};
    for (int fixed = 0; fixed < 2; fixed++) {
        made d = {.width = 1, .height = 1, .count = 10, .mz_type = 1};
        tg_text x = {0};
        made_ibd b = {0};
        TG_AUTO_PTR(tg_store) store = NULL;
        TG_AUTO_PTR(tg_store) out = NULL;
        TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)16 << 20, 1);
        TG_AUTO_PTR(tg_imzml) m = NULL;
        TG_AUTO_PTR(tg_peaks) p = NULL;
        tg_peaks_built built;
        tg_peaks_options o = {
            .segment_bytes = 1 << 16, .spill_dir = ".", .drop_infinite = fixed};
        tg_peak_view v;
        make_files(&d, &x, &b);
        memcpy(b.data + 16, mz, sizeof mz);
        memcpy(b.data + 16 + sizeof mz, in, sizeof in);
        REQUIRE_OK(tg_store_open_mem(&store, NULL));
        REQUIRE_OK(tg_store_open_mem(&out, NULL));
        REQUIRE_OK(tg_store_put(store, "t.imzML", x.data, x.len, NULL, NULL));
        REQUIRE_OK(tg_store_put(store, "t.ibd", b.data, b.len, NULL, NULL));
        REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, NULL));
        REQUIRE_OK(tg_peaks_build(m, out, "p", &o, rt, &built, NULL, NULL));
        REQUIRE_OK(tg_peaks_open(&p, out, "p", NULL, NULL, NULL));
        REQUIRE_OK(tg_peaks_cache(p, 1, 0, false, NULL));
        CHECK_U64(built.n_peaks, fixed ? 2 : 3); /* 100, 150 and the infinite one at 400 */
        CHECK_U64(built.dropped_mz, 4);
        CHECK_U64(built.dropped_intensity, 1);
        CHECK_U64(built.infinite, 1);
        CHECK_U64(m->odd[TG_ODD_MZ].count, 4);
        CHECK_U64(m->odd[TG_ODD_INTENSITY].count, 2);
        CHECK(m->odd[TG_ODD_UNSORTED].count == 1);
        REQUIRE_OK(tg_peaks_pin(p, 0, &v, NULL, NULL));
        CHECK(v.mz[0] == 100 && v.mz[1] == 150 && v.intensity[1] == 7);
        tg_peaks_unpin(p, &v);
        tg_text_free(&x);
        free(b.data);
    }
}

/* 11, 22, 29: what the file does not say the values show; what the user says holds. */
static void profile_data_are_told(void)
{
    static const struct {
        const char *name;
        bool close; /* neighbours within 3 ppm */
        bool tagged;
        tg_ims_kind kind;
        bool told;
    } rows[] = {
        {"tagged centroid, is centroid", false, true, TG_IMS_KIND_AS_DECLARED, false},
        {"tagged centroid, is profile", true, true, TG_IMS_KIND_AS_DECLARED, true},
        {"no tag, is centroid", false, false, TG_IMS_KIND_AS_DECLARED, true},
        {"no tag, said to be centroid", false, false, TG_IMS_KIND_CENTROID, false},
        {"looks like profile, said to be centroid", true, false, TG_IMS_KIND_CENTROID, false},
        {"tagged centroid, said to be profile", false, true, TG_IMS_KIND_PROFILE, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum { N = 12 };
        made d = {
            .width = 4, .height = 2, .count = N, .mz_type = 1, .no_tags = !rows[i].tagged};
        tg_imzml_options o = {.kind = rows[i].kind};
        tg_peaks_options po = {.segment_bytes = 1 << 16, .spill_dir = "."};
        TG_AUTO(tg_text) x = {0};
        made_ibd b = {0};
        TG_AUTO_PTR(tg_store) store = NULL;
        TG_AUTO_PTR(tg_store) out = NULL;
        TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)16 << 20, 1);
        TG_AUTO_PTR(tg_imzml) m = NULL;
        tg_peaks_built built;
        double mz[N];
        test_row = rows[i].name;
        make_files(&d, &x, &b);
        for (int k = 0; k < N; k++)
            mz[k] = 500 * (1 + 1e-6 * k);
        for (size_t k = 0; k < 8 && rows[i].close; k++)
            memcpy(b.data + 16 + k * (sizeof mz + N * sizeof(float)), mz, sizeof mz);
        REQUIRE_OK(tg_store_open_mem(&store, NULL));
        REQUIRE_OK(tg_store_open_mem(&out, NULL));
        REQUIRE_OK(tg_store_put(store, "t.imzML", x.data, x.len, NULL, NULL));
        REQUIRE_OK(tg_store_put(store, "t.ibd", b.data, b.len, NULL, NULL));
        REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", &o, NULL, NULL, NULL));
        REQUIRE_OK(tg_peaks_build(m, out, "p", &po, rt, &built, NULL, NULL));
        CHECK((m->odd[TG_ODD_PROFILE].count > 0) == rows[i].told);
        free(b.data);
        test_row = "";
    }
}

static void radix_sort_is_stable_for_every_spread(void)
{
    enum { N = 20000 };
    static tg_peak p[N], scratch[N];
    static const uint64_t masks[] = {0, 1, 0xfff, 0xffffffff, UINT64_MAX >> 12};
    for (size_t k = 0; k < sizeof masks / sizeof masks[0]; k++) {
        uint64_t state = 88172645463325252u, bad = 0;
        for (uint32_t i = 0; i < N; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            /* a third lies on one m/z, and a third within a hair of it */
            uint64_t spread = i % 3 == 0 ? 0 : i % 3 == 1 ? state & 0xff : state & masks[k];
            p[i] = (tg_peak){0x4059000000000000u + spread, 1, i};
        }
        tg_peaks_sort(p, scratch, N);
        for (uint32_t i = 1; i < N; i++)
            bad += p[i - 1].key > p[i].key ||
                   (p[i - 1].key == p[i].key && p[i - 1].pixel > p[i].pixel);
        CHECK_U64(bad, 0);
    }
}

static void bounds_find_segments(void)
{
    TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)64 << 20, 1);
    TG_AUTO_PTR(tg_store) out = NULL;
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_peaks) p = NULL;
    tg_peaks_built built;
    tg_peaks_options o = {.segment_bytes = 16 * 10000, .spill_dir = "."};
    uint32_t first, end;
    REQUIRE_OK(tg_store_open_mem(&out, NULL));
    REQUIRE_OK(tg_imzml_open(&m, SYNTHETIC, NULL, NULL, NULL, NULL));
    REQUIRE_OK(tg_peaks_build(m, out, "", &o, rt, &built, NULL, NULL));
    REQUIRE_OK(tg_peaks_open(&p, out, "", NULL, NULL, NULL));
    const tg_peaks_info *i = tg_peaks_get_info(p);
    tg_peaks_segments(p, 0, i->mz_min / 2, &first, &end);
    CHECK(first == end);
    tg_peaks_segments(p, i->mz_max * 2, i->mz_max * 3, &first, &end);
    CHECK(first == end && first == i->n_segments);
    tg_peaks_segments(p, 0, 1e5, &first, &end);
    CHECK(first == 0 && end == i->n_segments);
    tg_peaks_segments(p, 500, 500.002, &first, &end);
    CHECK(end - first <= 2);
    CHECK(tg_peaks_rank(p, 0) == 0);
    CHECK(tg_peaks_rank(p, 1e5) == (double)i->n_peaks);
    double half = tg_peaks_rank(p, 500);
    CHECK(half >= 10000.0 * first && half <= 10000.0 * end);
}

/* A store without its group document is none; a changed byte is found and named. */
static void half_and_damaged_stores(void)
{
    made d = {.width = 10, .height = 10, .count = 50};
    TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)16 << 20, 1);
    TG_AUTO_PTR(tg_store) out = NULL;
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_peaks) p = NULL;
    TG_AUTO_PTR(tg_peaks) none = NULL;
    TG_AUTO(tg_buf) chunk = {0};
    TG_AUTO(tg_buf) document = {0};
    tg_peaks_built built;
    tg_peaks_options o = {.segment_bytes = 1 << 14, .spill_dir = "."};
    tg_peak_view v;
    tg_error e = {0};
    tg_store *store = make_store(&d);
    REQUIRE_OK(tg_store_open_mem(&out, NULL));
    REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, NULL));
    REQUIRE_OK(tg_peaks_build(m, out, "p", &o, rt, &built, NULL, NULL));

    REQUIRE_OK(tg_store_get(out, "p/pixel/c/1", tg_range_all(), 1 << 20, &chunk, NULL, NULL));
    chunk.data[17] ^= 4;
    REQUIRE_OK(tg_store_put(out, "p/pixel/c/1", chunk.data, chunk.len, NULL, NULL));
    REQUIRE_OK(tg_peaks_open(&p, out, "p", NULL, NULL, NULL));
    REQUIRE_OK(tg_peaks_cache(p, 1, 0, false, NULL));
    CHECK_STATUS(tg_peaks_pin(p, 0, &v, NULL, &e), TG_OK);
    tg_peaks_unpin(p, &v);
    CHECK_STATUS(tg_peaks_pin(p, 1, &v, NULL, &e), TG_CORRUPT);
    CHECK(strstr(e.msg, "chunk 'p/pixel/c/1' of the peak store: crc32c") == e.msg);
    CHECK(strcmp(e.key, "p/pixel/c/1") == 0);
    CHECK_STATUS(tg_peaks_pin(p, 0, &v, NULL, &e), TG_OK); /* and the slot is free again */
    tg_peaks_unpin(p, &v);

    REQUIRE_OK(
        tg_store_get(out, "p/zarr.json", tg_range_all(), 1 << 20, &document, NULL, NULL));
    char *major = strstr((char *)document.data, "\"major\":1");
    REQUIRE(major != NULL);
    major[8] = '7';
    REQUIRE_OK(tg_store_put(out, "p/zarr.json", document.data, document.len, NULL, NULL));
    CHECK_STATUS(tg_peaks_open(&none, out, "p", NULL, NULL, &e), TG_UNSUPPORTED);
    CHECK(strstr(e.msg, "version 7 of the format") != NULL);
    REQUIRE_OK(tg_store_remove(out, "p/zarr.json", NULL, NULL));
    CHECK_STATUS(tg_peaks_open(&none, out, "p", NULL, NULL, &e), TG_NOT_FOUND);
    tg_imzml_free(tg_steal(m));
    tg_store_free(store);
}

static tg_status build_open_pin(tg_imzml *m, tg_runtime *rt)
{
    TG_AUTO_PTR(tg_store) out = NULL;
    TG_AUTO_PTR(tg_peaks) p = NULL;
    tg_peaks_built built;
    tg_peaks_options o = {.segment_bytes = 1 << 14, .spill_dir = "."};
    tg_peak_view v;
    tg_error e = {0};
    TG_TRY(tg_store_open_mem(&out, &e));
    TG_TRY(tg_peaks_build(m, out, "p", &o, rt, &built, NULL, &e));
    TG_TRY(tg_peaks_open(&p, out, "p", NULL, NULL, &e));
    TG_TRY(tg_peaks_cache(p, 1, 0, false, &e));
    TG_TRY(tg_peaks_pin(p, 0, &v, NULL, &e));
    tg_peaks_unpin(p, &v);
    return TG_OK;
}

static void every_allocation_may_fail(void)
{
    made d = {.width = 5, .height = 4, .count = 30};
    TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)16 << 20, 1);
    tg_imzml *m = NULL;
    tg_store *store = make_store(&d);
    REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, NULL));
    CHECK_EVERY_ALLOC(build_open_pin(m, rt));
    tg_imzml_free(m);
    tg_store_free(store);
}

static void what_cannot_fit_is_refused_with_both_numbers(void)
{
    made d = {.width = 20, .height = 20, .count = 500};
    TG_AUTO_PTR(tg_runtime) rt = runtime((uint64_t)1 << 20, 1);
    TG_AUTO_PTR(tg_store) out = NULL;
    tg_imzml *m = NULL;
    tg_peaks_built built;
    tg_peaks_options o = {.segment_bytes = 1 << 20, .spill_dir = "."};
    tg_error e = {0};
    tg_store *store = make_store(&d);
    REQUIRE_OK(tg_store_open_mem(&out, NULL));
    REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, NULL));
    CHECK_STATUS(tg_peaks_build(m, out, "p", &o, rt, &built, NULL, &e), TG_OVER_BUDGET);
    CHECK(strstr(e.msg, "sorting the peaks wants ") == e.msg);
    CHECK(strstr(e.msg, "1048576 of the budget are free") != NULL);
    tg_imzml_free(m);
    tg_store_free(store);
}

static const struct test tests[] = {
    {"any_memory_gives_the_same_order", any_memory_gives_the_same_order},
    {"every_kind_of_data_set", every_kind_of_data_set},
    {"useless_values_are_dropped_and_counted", useless_values_are_dropped_and_counted},
    {"profile_data_are_told", profile_data_are_told},
    {"radix_sort_is_stable_for_every_spread", radix_sort_is_stable_for_every_spread},
    {"bounds_find_segments", bounds_find_segments},
    {"half_and_damaged_stores", half_and_damaged_stores},
    {"every_allocation_may_fail", every_allocation_may_fail},
    {"what_cannot_fit_is_refused_with_both_numbers",
     what_cannot_fit_is_refused_with_both_numbers},
};

TEST_MAIN(tests)
