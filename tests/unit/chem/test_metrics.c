#include "chem/metrics.h"
#include "table.h"

#include <math.h>

static void check_chaos_row(const table *t, const table *images, tg_chaos *c)
{
    size_t h = (size_t)atol(t->fields[2]), w = (size_t)atol(t->fields[3]);
    uint32_t levels = (uint32_t)atol(t->fields[4]);
    float *image = malloc(h * w * sizeof *image);
    tg_chaos_result r;
    if (image == NULL)
        abort();
    memcpy(image, images->text + atol(t->fields[5]), h * w * sizeof *image);
    tg_chaos_measure(c, image, h, w, levels, false, &r);
    free(image);

    double raw = table_number(t, 6), score = table_number(t, 7);
    CHECK(isnan(raw) ? isnan(r.raw) : fabs(r.raw - raw) <= 1e-9);
    CHECK(fabs(r.score - score) <= 1e-9);
    CHECK_U64(r.n_positive, strtoull(t->fields[8], NULL, 10));
    uint32_t level = 0;
    for (char *p = t->fields[9], *end; level < levels; level++, p = end) {
        uint64_t want = strtoull(p, &end, 10);
        if (end == p)
            break;
        CHECK_U64(r.components[level], want);
    }
    CHECK_U64(level, levels);
}

static void every_reference_chaos(void)
{
    table t, images;
    size_t rows = 0;
    TG_AUTO_PTR(tg_chaos) c = NULL;
    REQUIRE_OK(tg_chaos_new(&c, 1000, 1000, NULL));
    REQUIRE(table_open(&t, "chaos_cases.csv"));
    REQUIRE(table_open(&images, "chaos_images.f32"));
    CHECK(table_next(&t));
    while (table_next(&t)) {
        test_row = t.fields[1];
        check_chaos_row(&t, &images, c);
        test_row = "";
        rows++;
    }
    CHECK_U64(rows, 43);
    table_close(&t);
    table_close(&images);
}

/* A whole image of one blob: the procedure takes it for degenerate, the fixed mode does not. */
static void a_large_blob_scores_only_when_fixed(void)
{
    size_t side = 400;
    tg_chaos_result r;
    float *image = malloc(side * side * sizeof *image);
    TG_AUTO_PTR(tg_chaos) c = NULL;
    REQUIRE(image != NULL);
    REQUIRE_OK(tg_chaos_new(&c, side, side, NULL));
    for (size_t i = 0; i < side * side; i++)
        image[i] = 7;
    tg_chaos_measure(c, image, side, side, TG_CHAOS_LEVELS, false, &r);
    CHECK(r.score == 0 && r.components[0] == 1 && r.components[29] == 1);
    tg_chaos_measure(c, image, side, side, TG_CHAOS_LEVELS, true, &r);
    CHECK(fabs(r.score - (1 - 1.0 / 160000)) < 1e-12);
    for (size_t i = 0; i < side * side; i++)
        image[i] = i % 3 == 0 ? NAN : -1;
    tg_chaos_measure(c, image, side, side, TG_CHAOS_LEVELS, true, &r);
    CHECK(r.score == 0 && isnan(r.raw) && r.n_positive == 0);
    free(image);
}

/* Components of one level found the slow way, for images of any shape. */
static uint32_t flood(uint8_t *set, size_t h, size_t w, size_t *stack)
{
    uint32_t n = 0;
    for (size_t p = 0; p < h * w; p++) {
        if (set[p] == 0)
            continue;
        size_t top = 0;
        stack[top++] = p;
        set[p] = 0;
        n++;
        while (top > 0) {
            size_t q = stack[--top], y = q / w, x = q % w;
            size_t next[4] = {x > 0 ? q - 1 : q, x + 1 < w ? q + 1 : q, y > 0 ? q - w : q,
                              y + 1 < h ? q + w : q};
            for (int i = 0; i < 4; i++)
                if (set[next[i]] != 0) {
                    set[next[i]] = 0;
                    stack[top++] = next[i];
                }
        }
    }
    return n;
}

static uint8_t pixel(const uint8_t *b, size_t h, size_t w, long y, long x, uint8_t outside)
{
    return y < 0 || x < 0 || y >= (long)h || x >= (long)w ? outside
                                                          : b[(size_t)y * w + (size_t)x];
}

static uint32_t components_by_definition(const float *image, size_t h, size_t w, float level)
{
    static uint8_t b[900], d[900], e[900];
    static size_t stack[900];
    for (size_t p = 0; p < h * w; p++)
        b[p] = image[p] > level;
    for (size_t p = 0; p < h * w; p++) {
        long y = (long)(p / w), x = (long)(p % w);
        d[p] = b[p] | pixel(b, h, w, y - 1, x, 0) | pixel(b, h, w, y + 1, x, 0) |
               pixel(b, h, w, y, x - 1, 0) | pixel(b, h, w, y, x + 1, 0);
    }
    for (size_t p = 0; p < h * w; p++) {
        e[p] = 1;
        for (long dy = -1; dy <= 1; dy++)
            for (long dx = -1; dx <= 1; dx++)
                e[p] &= pixel(d, h, w, (long)(p / w) + dy, (long)(p % w) + dx, 1);
    }
    return flood(e, h, w, stack);
}

static void equals_thirty_labellings_on_random_images(void)
{
    uint32_t seed = 12345;
    float image[900];
    TG_AUTO_PTR(tg_chaos) c = NULL;
    REQUIRE_OK(tg_chaos_new(&c, 30, 30, NULL));
    for (int round = 0; round < 200; round++) {
        size_t h = 1 + (size_t)round % 30, w = 1 + (size_t)(round * 7) % 30;
        float max = 0;
        for (size_t p = 0; p < h * w; p++) {
            seed = seed * 1664525 + 1013904223;
            uint32_t v = seed >> 8;
            image[p] = v % 100 < (uint32_t)(round % 100) ? (float)(v % 5000) : 0;
            max = image[p] > max ? image[p] : max;
        }
        tg_chaos_result r;
        tg_chaos_measure(c, image, h, w, TG_CHAOS_LEVELS, false, &r);
        for (uint32_t l = 0; max > 0 && l < TG_CHAOS_LEVELS; l++)
            CHECK_U64(r.components[l],
                      components_by_definition(image, h, w, (float)(max * (float)l) / 30));
    }
}

static void every_reference_score(void)
{
    table t, images;
    size_t rows = 0;
    REQUIRE(table_open(&t, "metric_cases.csv"));
    REQUIRE(table_open(&images, "metric_images.f32"));
    CHECK(table_next(&t));
    while (table_next(&t)) {
        size_t n = (size_t)atol(t.fields[2]);
        float *all = malloc(4 * n * sizeof *all);
        REQUIRE(all != NULL);
        memcpy(all, images.text + atol(t.fields[3]), 4 * n * sizeof *all);
        const float *const image[4] = {all, all + n, all + 2 * n, all + 3 * n};
        double theory[4], sums[4] = {0};
        for (size_t k = 0; k < 4; k++) {
            theory[k] = table_number(&t, 4 + k);
            for (size_t p = 0; p < n; p++)
                sums[k] += all[p] > 0 ? (double)image[k][p] : 0;
        }
        test_row = t.fields[0];
        CHECK(fabs(tg_score_spatial(image, n, n, theory) - table_number(&t, 8)) <= 1e-6);
        CHECK(fabs(tg_score_spectral(sums, theory) - table_number(&t, 9)) <= 1e-6);
        test_row = "";
        free(all);
        rows++;
    }
    CHECK_U64(rows, 60);
    table_close(&t);
    table_close(&images);
}

/* Values of pyImagingMSpec's own tests. */
static void upstream_anchors(void)
{
    enum { N = 100000 };
    static float x[3][N];
    static const double even[4] = {100, 1, 1, 0}, two_to_one[4] = {100, 2, 1, 0};
    const float *const image[4] = {x[0], x[1], x[2], NULL};
    for (size_t i = 0; i < N; i++) {
        double v = (double)i / (N - 1);
        x[0][i] = (float)v;
        x[1][i] = (float)(v * v);
        x[2][i] = (float)(v * v * v);
    }
    CHECK(fabs(tg_score_spatial(image, N, N, even) - .942379675) < 1e-6);
    CHECK(fabs(tg_score_spatial(image, N, N, two_to_one) - .9510015266667) < 1e-6);

    static const double equal[4] = {1, 1, 1, 1}, one[4] = {4, 0, 0, 0};
    CHECK(fabs(tg_score_spectral(equal, one) - .5) < 1e-12);
    CHECK(tg_score_spectral(one, one) == 0);
    CHECK(tg_score_spectral((double[4]){INFINITY, 1, 0, 0}, equal) == 0);
    CHECK(tg_score_spectral((double[4]){0}, equal) == 0);
}

/* Zeros that are left out count like zeros that are there. */
static void untouched_pixels_count(void)
{
    float dense[4][50] = {{0}}, sparse[4][10];
    const double theory[4] = {100, 30, 10, 3};
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 10; i++)
            dense[k][i * 5] = sparse[k][i] = (float)((i * 7 + k * 3) % 11);
    double a = tg_score_spatial((const float *const[4]){dense[0], dense[1], dense[2], dense[3]},
                                50, 50, theory);
    double b = tg_score_spatial(
        (const float *const[4]){sparse[0], sparse[1], sparse[2], sparse[3]}, 10, 50, theory);
    CHECK(a > 0 && fabs(a - b) < 1e-12);
    CHECK(tg_score_spatial((const float *const[4]){dense[0], NULL, NULL, NULL}, 50, 50,
                           theory) == 0);
    CHECK(tg_score_spatial((const float *const[4]){NULL, dense[0], NULL, NULL}, 50, 50,
                           theory) == 0);
}

static tg_status make_chaos(void)
{
    tg_chaos *c = NULL;
    tg_status st = tg_chaos_new(&c, 10, 10, NULL);
    tg_chaos_free(c);
    return st;
}

static void every_allocation_may_fail(void)
{
    tg_chaos *c = NULL;
    CHECK_EVERY_ALLOC(make_chaos());
    CHECK_STATUS(tg_chaos_new(&c, SIZE_MAX / 2, 10, NULL), TG_UNSUPPORTED);
}

static const struct test tests[] = {
    {"every_reference_chaos", every_reference_chaos},
    {"a_large_blob_scores_only_when_fixed", a_large_blob_scores_only_when_fixed},
    {"equals_thirty_labellings_on_random_images", equals_thirty_labellings_on_random_images},
    {"every_reference_score", every_reference_score},
    {"upstream_anchors", upstream_anchors},
    {"untouched_pixels_count", untouched_pixels_count},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
