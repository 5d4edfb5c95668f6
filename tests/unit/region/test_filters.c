/* The filters on odd shapes, ranks 1 to 4 and every type, with and without wider vectors,
 * against the formulas item by item. */
#include "base/wider.h"
#include "check.h"
#include "region/function.h"
#include "region/items.h"

#include <math.h>
#include <stdlib.h>

typedef struct image {
    tg_dtype dtype;
    tg_shape shape;
    size_t items;
    char *data;
} image;

static const tg_dtype types[] = {{TG_DT_BOOL, 1},  {TG_DT_INT, 1},   {TG_DT_UINT, 1},
                                 {TG_DT_INT, 2},   {TG_DT_UINT, 2},  {TG_DT_INT, 4},
                                 {TG_DT_UINT, 4},  {TG_DT_INT, 8},   {TG_DT_UINT, 8},
                                 {TG_DT_FLOAT, 2}, {TG_DT_FLOAT, 4}, {TG_DT_FLOAT, 8}};
#define N_TYPES (sizeof types / sizeof *types)

/* Some larger than a tile. */
static const tg_shape shapes[] = {{1, {1}},          {1, {61}},        {2, {1, 7}},
                                  {2, {9, 1}},       {2, {37, 53}},    {3, {3, 5, 70}},
                                  {3, {19, 23, 41}}, {4, {3, 4, 5, 9}}};

static uint64_t state = 88172645463325252u;
static uint64_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void image_free(image *m)
{
    free(m->data);
}

static image image_new(tg_dtype t, tg_shape shape)
{
    image m = {t, shape, 1, NULL};
    for (uint32_t d = 0; d < shape.ndim; d++)
        m.items *= (size_t)shape.n[d];
    m.data = calloc(m.items, 8);
    return m;
}

/* Any bits of integers; floats without NaN and infinities. */
static image random_image(tg_dtype t, tg_shape shape)
{
    image m = image_new(t, shape);
    for (size_t i = 0; i < m.items; i++) {
        uint64_t bits = random_bits();
        const double v = (double)(int64_t)(bits >> 40) / 64 - 100000;
        bits = t.kind == TG_DT_BOOL ? bits & 1 : bits >> 11;
        if (t.kind == TG_DT_FLOAT)
            tg_items_store(t, m.data + i * t.size, (int64_t)t.size, &v, 1);
        else
            memcpy(m.data + i * t.size, &bits, t.size);
    }
    return m;
}

static tg_region_view view_of(const image *m)
{
    tg_region_view v = {.data = m->data, .dtype = m->dtype, .ndim = m->shape.ndim};
    int64_t stride = (int64_t)m->dtype.size;
    for (uint32_t d = v.ndim; d-- > 0;) {
        v.shape[d] = m->shape.n[d];
        v.strides[d] = stride;
        stride *= (int64_t)v.shape[d];
    }
    return v;
}

static void run(const char *op, const image *in, const image *out, bool plain)
{
    tg_function *f = NULL;
    tg_error err = {0};
    tg_shape shape = in->shape;
    const tg_function_env env = {
        .in_shape = &shape, .in_dtype = in->dtype, .in_chunk = &shape, .jobs = 1};
    REQUIRE_OK(tg_function_open(&f, 'o', op, &env, &err));
    tg_region_call c = {.size = sizeof c, .n_rois = 1, .in = view_of(in), .out = view_of(out)};
    memcpy(c.region, c.out.shape, sizeof c.region);
    tg_wider_off = plain;
    CHECK_STATUS(f->ops->call(f, &c, 0, NULL, &err), TG_OK);
    tg_wider_off = false;
    tg_function_free(f);
}

/* --- Item by item --- */

static size_t mirrored(int64_t x, size_t n)
{
    const int64_t period = 2 * (int64_t)n;
    x = (x % period + period) % period;
    return (size_t)(x < (int64_t)n ? x : period - 1 - x);
}

/* One axis of doubles, each result by fold(items, size, user) of the size items around it. */
typedef double (*fold_fn)(const double *items, size_t size, const void *user);

static void fold_axis(double *a, const tg_shape *shape, uint32_t axis, size_t size,
                      size_t below, fold_fn fold, const void *user)
{
    size_t outer = 1, inner = 1, n = (size_t)shape->n[axis];
    for (uint32_t d = 0; d < shape->ndim; d++) {
        outer *= d < axis ? (size_t)shape->n[d] : 1;
        inner *= d > axis ? (size_t)shape->n[d] : 1;
    }
    double *line = calloc(n, sizeof *line), *items = calloc(size, sizeof *items);
    for (size_t at = 0; at < outer * inner; at++) {
        double *first = a + at / inner * n * inner + at % inner;
        for (size_t i = 0; i < n; i++)
            line[i] = first[i * inner];
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < size; k++)
                items[k] = line[mirrored((int64_t)(i + k) - (int64_t)below, n)];
            first[i * inner] = fold(items, size, user);
        }
    }
    free(line);
    free(items);
}

static double weigh(const double *items, size_t size, const void *user)
{
    const double *w = user;
    const size_t radius = size / 2;
    double sum = items[radius] * w[0];
    for (size_t k = radius; k > 0; k--) {
        const double pair = items[radius - k] + items[radius + k], product = pair * w[k];
        sum += product;
    }
    return sum;
}

/* With the widest vectors there are, and without. */
static void check_runs(const char *op, const image *in, const image *want)
{
    const tg_dtype t = want->dtype;
    image got = image_new(t, want->shape), plain = image_new(t, want->shape);

    test_row = op;
    run(op, in, &got, false);
    run(op, in, &plain, true);
    CHECK(memcmp(got.data, want->data, want->items * t.size) == 0);
    CHECK(memcmp(plain.data, want->data, want->items * t.size) == 0);
    test_row = "";
    image_free(&got);
    image_free(&plain);
}

static void check_gaussian(tg_dtype t, tg_shape shape, double sigma)
{
    char op[64];
    double w[64], sum = 1;
    const size_t radius = (size_t)(4 * sigma + 0.5);
    image in = random_image(t, shape), want = image_new(t, shape);
    double *a = calloc(in.items, sizeof *a);
    w[0] = 1;
    for (size_t i = 1; i <= radius; i++) {
        w[i] = exp(-0.5 / (sigma * sigma) * (double)(i * i));
        sum += 2 * w[i];
    }
    for (size_t i = 0; i <= radius; i++)
        w[i] /= sum;
    tg_items_load(a, t, in.data, (int64_t)t.size, in.items);
    for (uint32_t d = 0; d < shape.ndim; d++)
        fold_axis(a, &shape, d, 2 * radius + 1, radius, weigh, w);
    tg_items_store(t, want.data, (int64_t)t.size, a, in.items);
    (void)snprintf(op, sizeof op, "gaussian:sigma=%g", sigma);
    check_runs(op, &in, &want);
    free(a);
    image_free(&in);
    image_free(&want);
}

static void gaussian_is_its_formula_in_every_bit(void)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < N_TYPES; k++)
            check_gaussian(types[k], shapes[i], 0.7 + (double)((i + k) % 4));
}

/* Tiles meet within the region. */
static void gaussian_of_tiles_is_that_of_the_whole(void)
{
    check_gaussian(types[4], (tg_shape){1, {300007}}, 2);
    check_gaussian(types[10], (tg_shape){2, {411, 607}}, 3);
    check_gaussian(types[2], (tg_shape){3, {43, 71, 97}}, 1.5);
    check_gaussian(types[11], (tg_shape){4, {9, 8, 31, 83}}, 0.6);
}

/* --- Boxes --- */

typedef struct box {
    const char *name;
    uint64_t size[4];
} box;

static int compare(const void *a, const void *b)
{
    const long double x = *(const long double *)a, y = *(const long double *)b;
    return (x > y) - (x < y);
}

/* The items of the window around item `at`, sorted; how many. */
static size_t window_of(const long double *a, const tg_shape *shape, const box *o, size_t at,
                        long double *window)
{
    tg_shape box_shape = {shape->ndim, {0}};
    size_t n = 0;
    tg_rows r;
    memcpy(box_shape.n, o->size, shape->ndim * sizeof *o->size);
    box_shape.n[box_shape.ndim++] = 1; /* so that the index has all dimensions */
    tg_rows_of(&r, box_shape.ndim, box_shape.n);
    do {
        size_t rest = at, from = 0, step = 1;
        for (uint32_t d = shape->ndim; d-- > 0;) {
            const size_t extent = (size_t)shape->n[d];
            const int64_t x = (int64_t)(rest % extent + r.index[d]) - (int64_t)(o->size[d] / 2);
            from += mirrored(x, extent) * step;
            rest /= extent;
            step *= extent;
        }
        window[n++] = a[from];
    } while (tg_rows_next(&r));
    qsort(window, n, sizeof *window, compare);
    return n;
}

static double add(const double *items, size_t size, const void *user)
{
    double sum = items[0];
    (void)user;
    for (size_t k = 1; k < size; k++)
        sum += items[k];
    return sum;
}

static void make_means(const image *in, const box *o, image *want)
{
    double *a = calloc(in->items, sizeof *a), n = 1;
    tg_items_load(a, in->dtype, in->data, (int64_t)in->dtype.size, in->items);
    for (uint32_t d = 0; d < in->shape.ndim; d++) {
        n *= (double)o->size[d];
        fold_axis(a, &in->shape, d, (size_t)o->size[d], (size_t)o->size[d] / 2, add, NULL);
    }
    for (size_t i = 0; i < in->items; i++)
        a[i] /= n;
    tg_items_store(want->dtype, want->data, (int64_t)want->dtype.size, a, in->items);
    free(a);
}

static void make_ranks(const image *in, const box *o, image *want)
{
    size_t n = 1;
    for (uint32_t d = 0; d < in->shape.ndim; d++)
        n *= (size_t)o->size[d];
    long double *a = calloc(in->items, sizeof *a), *window = calloc(n, sizeof *window);
    tg_items_load_wide(a, in->dtype, in->data, (int64_t)in->dtype.size, in->items);
    for (size_t i = 0; i < in->items; i++) {
        (void)window_of(a, &in->shape, o, i, window);
        const size_t k = strcmp(o->name, "min") == 0   ? 0
                         : strcmp(o->name, "max") == 0 ? n - 1
                                                       : n / 2;
        tg_items_store_wide(want->dtype, want->data + i * want->dtype.size, 0, &window[k], 1);
    }
    free(a);
    free(window);
}

static void check_box(tg_dtype t, tg_shape shape, const box *o)
{
    char op[96];
    int n = snprintf(op, sizeof op, "%s:size=", o->name);
    image in = random_image(t, shape), want = image_new(t, shape);
    for (uint32_t d = 0; d < shape.ndim; d++)
        n += snprintf(op + n, sizeof op - (size_t)n, "%s%u", d > 0 ? "," : "",
                      (unsigned)o->size[d]);
    if (strcmp(o->name, "mean") == 0)
        make_means(&in, o, &want);
    else
        make_ranks(&in, o, &want);
    check_runs(op, &in, &want);
    image_free(&in);
    image_free(&want);
}

/* Windows in lanes and one by one, spans that double and that overlap, sums that follow. */
static void boxes_are_their_formulas_in_every_bit(void)
{
    static const box boxes[] = {
        {"median", {3, 3, 3, 1}},  {"median", {4, 2, 3, 2}},   {"median", {1, 1, 1, 1}},
        {"median", {9, 17, 1, 2}}, {"median", {17, 16, 1, 1}}, {"median", {5, 5, 7, 1}},
        {"min", {3, 3, 3, 3}},     {"min", {5, 1, 4, 2}},      {"min", {1, 15, 2, 7}},
        {"max", {2, 9, 3, 3}},     {"max", {17, 6, 1, 4}},     {"mean", {3, 5, 2, 2}},
        {"mean", {4, 31, 1, 3}},   {"mean", {30, 1, 26, 2}}};
    static const tg_shape few[] = {{1, {1}},         {1, {131}},    {2, {1, 7}},
                                   {2, {9, 1}},      {2, {12, 67}}, {3, {3, 5, 34}},
                                   {4, {3, 4, 5, 9}}};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        for (size_t k = 0; k < N_TYPES; k++)
            for (size_t o = 0; o < sizeof boxes / sizeof *boxes; o++)
                if ((i + k + o) % 2 == 0) /* each box and type with half of the shapes */
                    check_box(types[k], few[i], &boxes[o]);
}

static void boxes_of_tiles_are_those_of_the_whole(void)
{
    check_box(types[4], (tg_shape){2, {301, 523}}, &(box){"median", {3, 3}});
    check_box(types[2], (tg_shape){2, {411, 407}}, &(box){"min", {5, 5}});
    check_box(types[8], (tg_shape){1, {150001}}, &(box){"max", {6}});
    check_box(types[4], (tg_shape){2, {411, 607}}, &(box){"mean", {9, 29}});
    check_box(types[10], (tg_shape){3, {43, 71, 97}}, &(box){"mean", {3, 4, 5}});
}

/* --- Levels and labels --- */

/* Small numbers are counted, doubles of the same values selected. */
static void percentile_counts_as_it_selects(void)
{
    static const char *const ops[] = {"percentile:q=0", "percentile:q=37.3", "percentile:q=50",
                                      "percentile:q=99.99", "percentile:q=100"};
    const tg_shape shape = {2, {261, 257}};
    for (size_t k = 0; k < 5; k++) {
        const tg_dtype u8 = {TG_DT_UINT, 1};
        image in = random_image(types[k], shape), same = image_new(types[11], shape);
        image got = image_new(u8, shape), want = image_new(u8, shape);
        tg_items_load((double *)(void *)same.data, in.dtype, in.data, (int64_t)in.dtype.size,
                      in.items);
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
            test_row = ops[i];
            run(ops[i], &in, &got, false);
            run(ops[i], &same, &want, false);
            CHECK(memcmp(got.data, want.data, want.items) == 0);
        }
        image_free(&in);
        image_free(&same);
        image_free(&got);
        image_free(&want);
    }
    test_row = "";
}

/* Do two items touch, different along 1 to `most` axes, by one? */
static bool touch(const tg_shape *shape, size_t a, size_t b, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t d = shape->ndim; d-- > 0;) {
        const size_t x = a % (size_t)shape->n[d], y = b % (size_t)shape->n[d];
        if (x + 1 < y || y + 1 < x)
            return false;
        n += x != y;
        a /= (size_t)shape->n[d];
        b /= (size_t)shape->n[d];
    }
    return n > 0 && n <= most;
}

/* Each item takes the least number of those it touches, until none changes. */
static void make_labels(const image *in, uint32_t connectivity, uint32_t *want)
{
    uint32_t n = 0;
    for (size_t i = 0; i < in->items; i++)
        want[i] = in->data[i] != 0 ? (uint32_t)i + 1 : 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t a = 0; a < in->items; a++)
            for (size_t b = 0; b < in->items; b++)
                if (want[b] != 0 && want[b] < want[a] &&
                    touch(&in->shape, a, b, connectivity)) {
                    want[a] = want[b];
                    changed = true;
                }
    }
    for (size_t i = 0; i < in->items; i++)
        if (want[i] == (uint32_t)i + 1)
            want[i] = ++n;
        else if (want[i] != 0)
            want[i] = want[want[i] - 1];
}

static void label_is_its_definition(void)
{
    static const tg_shape few[] = {{1, {37}},        {2, {1, 19}},   {2, {23, 1}},
                                   {2, {17, 19}},    {3, {5, 6, 9}}, {3, {2, 1, 40}},
                                   {4, {3, 4, 3, 7}}};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        for (uint32_t connectivity = 1; connectivity <= few[i].ndim; connectivity++) {
            char op[64];
            image in = random_image(types[0], few[i]);
            image got = image_new(types[6], few[i]), want = image_new(types[6], few[i]);
            for (size_t k = 0; k < in.items; k++) /* a third */
                in.data[k] = random_bits() % 3 == 0;
            make_labels(&in, connectivity, (uint32_t *)(void *)want.data);
            (void)snprintf(op, sizeof op, "label:connectivity=%u", (unsigned)connectivity);
            test_row = op;
            run(op, &in, &got, false);
            CHECK(memcmp(got.data, want.data, want.items * sizeof(uint32_t)) == 0);
            test_row = "";
            image_free(&in);
            image_free(&got);
            image_free(&want);
        }
}

/* Stores that round, saturate and count, rows of every length, items apart or side by side. */
static double nearest(double v, double least, double greatest, uint64_t *over)
{
    const double r = isnan(v) ? 0 : nearbyint(v);
    *over += isnan(v) || r < least || r > greatest;
    return r < least ? least : r > greatest ? greatest : r;
}

#define MOST 45

static void check_store(tg_dtype t, size_t n, int64_t stride, bool wild)
{
    double values[MOST], back[MOST], least, greatest;
    char room[MOST * 16];
    uint64_t over = 0;
    tg_items_range(t, &least, &greatest);
    const double odd[] = {NAN,          INFINITY,       -INFINITY,       least - 0.5,
                          least - 0.51, greatest + 0.5, greatest + 0.49, greatest,
                          least,        -0.25};
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = random_bits();
        values[i] = least + (double)(r >> 11) * 0x1p-53 * (greatest - least);
        if (r % 3 == 0)
            values[i] = floor(values[i]) + 0.5 < greatest ? floor(values[i]) + 0.5 : greatest;
        if (wild && r % 5 == 0)
            values[i] = odd[r / 5 % (sizeof odd / sizeof *odd)];
    }
    for (int plain = 0; plain < 2; plain++) {
        tg_wider_off = plain != 0;
        memset(room, 0x5a, sizeof room);
        *tg_items_saturated() = 0;
        tg_items_store(t, room, stride, values, n);
        tg_items_load(back, t, room, stride, n);
        over = 0;
        for (size_t i = 0; i < n; i++)
            CHECK(back[i] == nearest(values[i], least, greatest, &over));
        CHECK_U64(*tg_items_saturated(), over);
        CHECK_U64((uint8_t)room[n > 0 ? (size_t)stride * (n - 1) + t.size : 0], 0x5a);
    }
    tg_wider_off = false;
}

static void stores_round_and_saturate(void)
{
    for (size_t k = 1; k < 7; k++) /* integers of up to 32 bits */
        for (size_t n = 0; n <= MOST; n++)
            for (int64_t apart = 1; apart <= 2; apart++) {
                check_store(types[k], n, apart * (int64_t)types[k].size, false);
                check_store(types[k], n, apart * (int64_t)types[k].size, true);
            }
}

static const struct test tests[] = {
    {"gaussian_is_its_formula_in_every_bit", gaussian_is_its_formula_in_every_bit},
    {"gaussian_of_tiles_is_that_of_the_whole", gaussian_of_tiles_is_that_of_the_whole},
    {"boxes_are_their_formulas_in_every_bit", boxes_are_their_formulas_in_every_bit},
    {"boxes_of_tiles_are_those_of_the_whole", boxes_of_tiles_are_those_of_the_whole},
    {"percentile_counts_as_it_selects", percentile_counts_as_it_selects},
    {"label_is_its_definition", label_is_its_definition},
    {"stores_round_and_saturate", stores_round_and_saturate},
};
TEST_MAIN(tests)
