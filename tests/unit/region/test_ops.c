/* The built-in operations against values that scipy 1.17 gives. */
#include "check.h"
#include "region/function.h"

#include <math.h>

#define ROWS 5
#define COLS 7

static tg_region_view view_of(void *data, tg_dtype t, uint64_t rows, uint64_t cols,
                              int64_t row_bytes)
{
    tg_region_view v = {.data = data, .dtype = t, .ndim = 2};
    v.shape[0] = rows;
    v.shape[1] = cols;
    v.strides[0] = row_bytes;
    v.strides[1] = (int64_t)t.size;
    return v;
}

static tg_status run(const char *op, tg_region_call *c, uint64_t before_y, uint64_t before_x,
                     tg_error *err)
{
    tg_shape in = {2, {0}};
    tg_function *f = NULL;
    memcpy(in.n, c->in.shape, sizeof in.n);
    tg_function_env env = {
        .in_shape = &in, .in_dtype = c->in.dtype, .in_chunk = &in, .jobs = 1};
    tg_status st = tg_function_open(&f, 'o', op, &env, err);
    if (st != TG_OK)
        return st;
    c->size = sizeof *c;
    c->n_rois = 1;
    c->before[0] = before_y;
    c->before[1] = before_x;
    memcpy(c->region, c->out.shape, sizeof c->region);
    st = f->ops->call(f, c, 0, NULL, err);
    tg_function_free(f);
    return st;
}

static const tg_dtype f64 = {TG_DT_FLOAT, 8}, u8 = {TG_DT_UINT, 1}, u16 = {TG_DT_UINT, 2},
                      u32 = {TG_DT_UINT, 4};

/* scipy.ndimage.gaussian_filter(((arange(35) * 7919) % 1000).reshape(5, 7), 1.0) */
static const double blurred[ROWS * COLS] = {
    375.76248942484119, 544.95371673999443, 621.59541824741575, 577.92129700074634,
    517.9144420901506,  513.52073325029744, 563.94550368480975, 475.50277578521388,
    525.9209315828648,  523.30570735940773, 473.48896793360854, 437.45624734346472,
    470.49069914949268, 560.62967230649667, 551.89264278161579, 521.20465864001267,
    472.29929254090291, 454.49283921920266, 483.7687180446851,  523.98161061826511,
    568.62142027093387, 537.39829386565589, 488.84683562979467, 435.83020629054391,
    453.3121969497891,  536.55570326515431, 571.09957968699223, 559.53454233907019,
    575.71112884616446, 525.15485108610642, 465.27952864593976, 456.31296421860469,
    494.02329051573469, 490.83525619547549, 456.43583845055269};

static void fill_image(double *a)
{
    for (int i = 0; i < ROWS * COLS; i++)
        a[i] = (i * 7919) % 1000;
}

static void gaussian_equals_scipy(void)
{
    double a[ROWS * COLS], got[ROWS * COLS] = {0};
    tg_error err = {0};
    fill_image(a);
    tg_region_call c = {.in = view_of(a, f64, ROWS, COLS, COLS * INT64_C(8)),
                        .out = view_of(got, f64, ROWS, COLS, COLS * INT64_C(8))};
    REQUIRE_OK(run("gaussian:sigma=1", &c, 0, 0, &err));
    for (int i = 0; i < ROWS * COLS; i++)
        CHECK(fabs(got[i] - blurred[i]) <= 1e-13 * blurred[i]);
}

static void gaussian_of_a_part_is_that_of_the_whole(void)
{
    double a[ROWS * COLS];
    uint16_t in[ROWS * COLS], got[2 * 3] = {0};
    tg_error err = {0};
    fill_image(a);
    for (int i = 0; i < ROWS * COLS; i++)
        in[i] = (uint16_t)a[i];
    /* The halo is cut off by the array's border on all sides. */
    tg_region_call c = {.in = view_of(in, u16, ROWS, COLS, COLS * INT64_C(2)),
                        .out = view_of(got, u16, 2, 3, 6)};
    REQUIRE_OK(run("gaussian:sigma=1", &c, 1, 2, &err));
    for (int y = 0; y < 2; y++)
        for (int x = 0; x < 3; x++)
            CHECK_U64(got[y * 3 + x], (uint64_t)nearbyint(blurred[(y + 1) * COLS + x + 2]));
}

/* scipy.ndimage's median_filter, minimum_filter, maximum_filter and uniform_filter of the same.
 */
static const struct {
    const char *op;
    double want[ROWS * COLS];
} boxes[] = {{"median:size=3", {352, 433, 757, 676, 595, 595, 514, 433, 704, 704, 623, 542,
                                514, 514, 433, 352, 271, 271, 461, 542, 813, 732, 651, 570,
                                542, 489, 461, 380, 651, 570, 489, 489, 408, 408, 327}},
             {"median:size=2,4", {919, 838, 838, 838, 757, 676, 595, 433, 433, 433, 676, 595,
                                  595, 595, 785, 704, 623, 542, 461, 461, 461, 785, 704, 623,
                                  623, 623, 623, 813, 651, 570, 489, 489, 489, 489, 813}},
             {"min:size=4,3",
              {0,  0,  190, 109, 28,  28, 28, 0,  0,  190, 109, 28,  28, 28, 0,  0,   56, 56,
               28, 28, 28,  218, 137, 56, 56, 28, 28, 28,  218, 137, 56, 56, 56, 246, 246}},
             {"max:size=2,5", {919, 919, 919, 919, 838, 757, 676, 919, 919, 919, 919, 947,
                               947, 947, 866, 866, 866, 785, 947, 947, 947, 866, 866, 975,
                               975, 975, 975, 975, 732, 732, 975, 975, 975, 975, 975}},
             {"mean:size=3,2",
              {144.33333333333334,
               437.16666666666663,
               689.5,
               608.5,
               527.5,
               446.5,
               532.1666666666667,
               433.0,
               559.1666666666667,
               644.8333333333335,
               563.8333333333335,
               482.8333333333335,
               401.8333333333335,
               487.5000000000001,
               532.6666666666666,
               492.16666666666663,
               411.16666666666663,
               330.16666666666663,
               415.83333333333326,
               501.4999999999999,
               587.1666666666665,
               632.3333333333334,
               591.8333333333334,
               510.83333333333337,
               429.83333333333337,
               515.5,
               601.1666666666666,
               520.1666666666666,
               587.6666666666666,
               547.1666666666666,
               466.16666666666663,
               385.16666666666663,
               470.83333333333326,
               556.4999999999999,
               475.4999999999999}}};

static void boxes_equal_scipy(void)
{
    double a[ROWS * COLS];
    fill_image(a);
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++) {
        double got[ROWS * COLS] = {0}, part[2 * 3] = {0};
        tg_error err = {0};
        tg_region_call c = {.in = view_of(a, f64, ROWS, COLS, COLS * INT64_C(8)),
                            .out = view_of(got, f64, ROWS, COLS, COLS * INT64_C(8))};
        test_row = boxes[i].op;
        REQUIRE_OK(run(boxes[i].op, &c, 0, 0, &err));
        for (int k = 0; k < ROWS * COLS; k++)
            CHECK(fabs(got[k] - boxes[i].want[k]) <= 1e-12 * boxes[i].want[k]);
        c.out = view_of(part, f64, 2, 3, 24);
        REQUIRE_OK(run(boxes[i].op, &c, 1, 2, &err));
        for (int k = 0; k < 6; k++)
            CHECK(part[k] == got[(k / 3 + 1) * COLS + k % 3 + 2]);
    }
    test_row = "";
}

/* 64-bit integers lose nothing; a window wider than the array mirrors more than once. */
static void boxes_are_exact_for_every_type(void)
{
    uint64_t a[3] = {UINT64_MAX, UINT64_MAX - 2, UINT64_MAX - 1}, got[3] = {0};
    int64_t s[3] = {INT64_MIN + 1, INT64_MAX - 1, -1}, least[3] = {0};
    tg_error err = {0};
    tg_region_call c = {.in = view_of(a, (tg_dtype){TG_DT_UINT, 8}, 1, 3, 24),
                        .out = view_of(got, (tg_dtype){TG_DT_UINT, 8}, 1, 3, 24)};
    REQUIRE_OK(run("median:size=1,3", &c, 0, 0, &err));
    CHECK_U64(got[0], UINT64_MAX);
    CHECK_U64(got[1], UINT64_MAX - 1);
    CHECK_U64(got[2], UINT64_MAX - 1);
    c.in = view_of(s, (tg_dtype){TG_DT_INT, 8}, 1, 3, 24);
    c.out = view_of(least, (tg_dtype){TG_DT_INT, 8}, 1, 3, 24);
    REQUIRE_OK(run("min:size=15", &c, 0, 0, &err));
    for (int i = 0; i < 3; i++)
        CHECK(least[i] == INT64_MIN + 1);
    REQUIRE_OK(run("max:size=1,2", &c, 0, 0, &err));
    CHECK(least[0] == INT64_MIN + 1 && least[1] == INT64_MAX - 1 && least[2] == INT64_MAX - 1);
}

static uint8_t spots[20] = {1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1};

static void label_equals_scipy(void)
{
    static const struct {
        const char *op;
        uint32_t want[20];
    } rows[] = {
        {"label", {1, 0, 2, 0, 3, 0, 4, 0, 0, 3, 5, 0, 0, 6, 0, 5, 5, 0, 0, 7}},
        {"label:connectivity=2", {1, 0, 1, 0, 2, 0, 1, 0, 0, 2, 1, 0, 0, 2, 0, 1, 1, 0, 0, 2}}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t got[20] = {0};
        tg_error err = {0};
        tg_region_call c = {.in = view_of(spots, u8, 4, 5, 5),
                            .out = view_of(got, u32, 4, 5, 20)};
        test_row = rows[i].op;
        REQUIRE_OK(run(rows[i].op, &c, 0, 0, &err));
        for (int k = 0; k < 20; k++)
            CHECK_U64(got[k], rows[i].want[k]);
    }
    test_row = "";
}

/* Numbers are dense within the region, and what meets in the halo is one. */
static void label_sees_the_halo(void)
{
    uint8_t in[9] = {1, 0, 1, 1, 0, 1, 1, 1, 1};
    uint32_t got[3] = {9, 9, 9};
    tg_error err = {0};
    tg_region_call c = {.in = view_of(in, u8, 3, 3, 3), .out = view_of(got, u32, 1, 3, 12)};
    REQUIRE_OK(run("label", &c, 1, 0, &err));
    CHECK(got[0] == 1 && got[1] == 0 && got[2] == 1);
}

static void wrong_parameters_are_named(void)
{
    static const struct {
        const char *op, *says;
    } rows[] = {{"gaussian", "sigma"},
                {"gaussian:sigma=-1", "sigma"},
                {"gaussian:sigma=1,size=3", "size"},
                {"gaussian:sigma=1,2,3", "sigma"},
                {"median", "size"},
                {"min:size=0", "size"},
                {"mean:size=2.5", "size"},
                {"median:size=2000", "size"},
                {"label:connectivity=3", "connectivity"},
                {"blur:sigma=1", "gaussian"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t got[20] = {0};
        tg_error err = {0};
        tg_region_call c = {.in = view_of(spots, u8, 4, 5, 5),
                            .out = view_of(got, u32, 4, 5, 20)};
        test_row = rows[i].op;
        CHECK_STATUS(run(rows[i].op, &c, 0, 0, &err), TG_INVALID);
        CHECK(strstr(err.msg, rows[i].says) != NULL);
    }
    test_row = "";
}

static tg_status open_and_call(const char *op)
{
    double a[ROWS * COLS], got[ROWS * COLS] = {0};
    fill_image(a);
    tg_region_call c = {.in = view_of(a, f64, ROWS, COLS, COLS * INT64_C(8)),
                        .out = view_of(got, f64, ROWS, COLS, COLS * INT64_C(8))};
    return run(op, &c, 0, 0, NULL);
}

static void memory_may_run_out(void)
{
    CHECK_EVERY_ALLOC(open_and_call("gaussian:sigma=1"));
    CHECK_EVERY_ALLOC(open_and_call("median:size=3"));
    CHECK_EVERY_ALLOC(open_and_call("label"));
}

static void what_cannot_be_written_is_refused(void)
{
    tg_function f = {.facts = {.has_out = true}};
    tg_error err = {0};

    CHECK_STATUS(tg_function_deliverable(&f, false, true, &err), TG_OK);
    CHECK_STATUS(tg_function_deliverable(&f, true, true, &err), TG_INVALID);
    CHECK(strstr(err.msg, "makes no rows") != NULL);
    f.facts.n_columns = 3;
    CHECK_STATUS(tg_function_deliverable(&f, true, true, &err), TG_UNSUPPORTED);
    CHECK(strstr(err.msg, "3 columns of a table") != NULL);
    f.facts.has_out = false;
    CHECK_STATUS(tg_function_deliverable(&f, true, false, &err), TG_OK);
    CHECK_STATUS(tg_function_deliverable(&f, true, true, &err), TG_INVALID);
    CHECK_STATUS(tg_function_deliverable(&f, false, false, &err), TG_INVALID);
    f.facts = (tg_function_facts){0};
    CHECK_STATUS(tg_function_deliverable(&f, false, false, &err), TG_UNSUPPORTED);
    CHECK(strstr(err.msg, "neither an array") != NULL);
}

static const struct test tests[] = {
    {"what_cannot_be_written_is_refused", what_cannot_be_written_is_refused},
    {"gaussian_equals_scipy", gaussian_equals_scipy},
    {"gaussian_of_a_part_is_that_of_the_whole", gaussian_of_a_part_is_that_of_the_whole},
    {"boxes_equal_scipy", boxes_equal_scipy},
    {"boxes_are_exact_for_every_type", boxes_are_exact_for_every_type},
    {"label_equals_scipy", label_equals_scipy},
    {"label_sees_the_halo", label_sees_the_halo},
    {"wrong_parameters_are_named", wrong_parameters_are_named},
    {"memory_may_run_out", memory_may_run_out},
};
TEST_MAIN(tests)
