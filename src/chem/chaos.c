/* chem/chaos.c - the measure of spatial chaos in one pass. The procedure counts the 4-connected
 * components of an image above each of `levels` thresholds, every binary image first dilated by
 * a plus and then eroded by a square. Both are monotone, so one image of the highest level at
 * which each pixel is still set holds all of them; pixels are then added from the highest level
 * down, and a forest of sets counts the components on the way. */
#include "base/mem.h"
#include "chem/metrics.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct tg_chaos {
    size_t max_h, max_w;
    uint8_t *level;   /* q: thresholds strictly below the pixel; a border of 0 around */
    uint8_t *dilated; /* a border of 255: what lies outside does not erode */
    uint8_t *closed;  /* g: a border of 0 */
    uint32_t *parent; /* of the padded image */
    uint32_t *order;  /* padded places of pixels, by falling g */
};

/* Places of an image with a border of one pixel. */
static size_t padded(size_t h, size_t w)
{
    size_t n;
    if (h > UINT32_MAX - 2 || w > UINT32_MAX - 2 || __builtin_mul_overflow(h + 2, w + 2, &n) ||
        n > UINT32_MAX)
        return SIZE_MAX;
    return n;
}

size_t tg_chaos_bytes(size_t max_h, size_t max_w)
{
    size_t n = padded(max_h, max_w);
    return n == SIZE_MAX ? SIZE_MAX : n * (3 + 2 * sizeof(uint32_t)) + sizeof(tg_chaos) + 512;
}

tg_status tg_chaos_new(tg_chaos **out, size_t max_h, size_t max_w, tg_error *err)
{
    size_t n = padded(max_h, max_w);
    if (n == SIZE_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "an image of %zu x %zu pixels is too large", max_h,
                       max_w);
    TG_AUTO_PTR(tg_chaos) c = tg_calloc(1, sizeof *c);
    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for an image of %zu pixels", n);
    c->max_h = max_h;
    c->max_w = max_w;
    c->level = tg_alloc(n);
    c->dilated = tg_alloc(n);
    c->closed = tg_alloc(n);
    c->parent = tg_alloc_array(n, sizeof *c->parent);
    c->order = tg_alloc_array(n, sizeof *c->order);
    if (c->level == NULL || c->dilated == NULL || c->closed == NULL || c->parent == NULL ||
        c->order == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for an image of %zu pixels", n);
    *out = tg_steal(c);
    return TG_OK;
}

void tg_chaos_free(tg_chaos *c)
{
    if (c == NULL)
        return;
    tg_free(c->level);
    tg_free(c->dilated);
    tg_free(c->closed);
    tg_free(c->parent);
    tg_free(c->order);
    tg_free(c);
}

static float maximum(const float *image, size_t n)
{
    float m = 0;
    for (size_t i = 0; i < n; i++)
        m = image[i] > m ? image[i] : m;
    return m;
}

/* q of every pixel. The division gives it but for a rounding; the thresholds decide. */
static uint64_t quantise(tg_chaos *c, const float *image, size_t h, size_t w, float max,
                         uint32_t levels)
{
    float threshold[TG_CHAOS_MAX_LEVELS + 2];
    float scale = (float)levels / max;
    uint64_t positive = 0;

    assert(levels >= 1 && levels <= TG_CHAOS_MAX_LEVELS);
    for (uint32_t i = 0; i < levels; i++)
        threshold[i] = (float)(max * (float)i) / (float)levels;
    threshold[levels] = threshold[levels + 1] = INFINITY;
    memset(c->level, 0, (h + 2) * (w + 2));
    for (size_t y = 0; y < h; y++) {
        uint8_t *row = c->level + (y + 1) * (w + 2) + 1;
        for (size_t x = 0; x < w; x++) {
            float v = image[y * w + x];
            if (!(v > 0))
                continue;
            float guess = v * scale;
            uint32_t q = guess < (float)levels ? (uint32_t)guess : levels;
            for (; threshold[q] < v; q++) /* ends at the infinite one */
                assert(q < levels);
            while (q > 0 && threshold[q - 1] >= v)
                q--;
            row[x] = (uint8_t)q;
            positive++;
        }
    }
    return positive;
}

static inline uint8_t max2(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}
static inline uint8_t min2(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

static void dilate(const uint8_t *restrict q, uint8_t *restrict d, size_t h, size_t w)
{
    size_t stride = w + 2;
    memset(d, 255, (h + 2) * stride);
    for (size_t y = 1; y <= h; y++) {
        const uint8_t *at = q + y * stride + 1;
        uint8_t *to = d + y * stride + 1;
        for (size_t x = 0; x < w; x++)
            to[x] = max2(max2(max2(at[x], at[x - stride]), max2(at[x + stride], (at - 1)[x])),
                         at[x + 1]);
    }
}

/* rows: room for the least of three rows. */
static void erode(const uint8_t *restrict d, uint8_t *restrict g, uint8_t *restrict rows,
                  size_t h, size_t w)
{
    size_t stride = w + 2;
    memset(g, 0, (h + 2) * stride);
    for (size_t y = 1; y <= h; y++) {
        const uint8_t *at = d + y * stride;
        uint8_t *to = g + y * stride + 1;
        for (size_t x = 0; x < stride; x++)
            rows[x] = min2(min2(at[x], (at - stride)[x]), at[x + stride]);
        for (size_t x = 0; x < w; x++)
            to[x] = min2(min2(rows[x], rows[x + 1]), rows[x + 2]);
    }
}

static inline uint32_t find(uint32_t *parent, uint32_t p)
{
    while (parent[p] != p) {
        parent[p] = parent[parent[p]];
        p = parent[p];
    }
    return p;
}

/* Places of all pixels with g > 0, by falling g; first[v] .. first[v - 1] holds those of g = v.
 */
static void sort_pixels(tg_chaos *c, size_t h, size_t w, size_t first[TG_CHAOS_MAX_LEVELS + 2])
{
    size_t stride = w + 2, n[TG_CHAOS_MAX_LEVELS + 2] = {0};
    const uint8_t *g = c->closed;

    for (size_t p = stride; p < (h + 1) * stride; p++)
        n[g[p]]++;
    size_t at = 0;
    for (int v = TG_CHAOS_MAX_LEVELS; v >= 1; v--) {
        first[v] = at;
        at += n[v];
        n[v] = first[v];
    }
    first[0] = at;
    for (size_t p = stride; p < (h + 1) * stride; p++)
        if (g[p] > 0)
            c->order[n[g[p]]++] = (uint32_t)p;
}

/* Put p's set and that of its neighbour together; returns 1 if they were two. */
static inline uint32_t join(uint32_t *parent, uint32_t *root, uint32_t neighbour)
{
    uint32_t r = find(parent, neighbour);
    if (r == *root)
        return 0;
    if (r < *root) {
        parent[*root] = r;
        *root = r;
    } else {
        parent[r] = *root;
    }
    return 1;
}

static uint32_t add_pixels(tg_chaos *c, size_t from, size_t to, uint8_t v, uint32_t stride)
{
    const uint8_t *g = c->closed;
    uint32_t *parent = c->parent, joined = 0;

    for (size_t i = from; i < to; i++) {
        uint32_t p = c->order[i], root = p;
        parent[p] = p;
        /* neighbours of the same level that come later will do the joining */
        if (g[p - 1] >= v)
            joined += join(parent, &root, p - 1);
        if (g[p - stride] >= v)
            joined += join(parent, &root, p - stride);
        if (g[p + 1] > v)
            joined += join(parent, &root, p + 1);
        if (g[p + stride] > v)
            joined += join(parent, &root, p + stride);
    }
    return (uint32_t)(to - from) - joined;
}

static double score_of(double raw, bool fixed, uint64_t components)
{
    if (isnan(raw))
        return 0;
    if (fixed)
        return components == 0 ? 0 : raw;
    return fabs(raw - 1) <= 1e-8 + 1e-5 ? 0 : raw;
}

void tg_chaos_measure(tg_chaos *c, const float *image, size_t h, size_t w, uint32_t levels,
                      bool fixed, tg_chaos_result *out)
{
    size_t first[TG_CHAOS_MAX_LEVELS + 2];
    uint32_t n = 0;
    uint64_t sum = 0;
    float max = maximum(image, h * w);

    assert(h <= c->max_h && w <= c->max_w);
    *out = (tg_chaos_result){.raw = NAN};
    if (!(max > 0))
        return;
    out->n_positive = quantise(c, image, h, w, max, levels);
    dilate(c->level, c->dilated, h, w);
    erode(c->dilated, c->closed, c->level, h, w);
    sort_pixels(c, h, w, first);
    for (uint32_t v = levels; v >= 1; v--) {
        n += add_pixels(c, first[v], first[v - 1], (uint8_t)v, (uint32_t)w + 2);
        out->components[v - 1] = n;
        sum += n;
    }
    out->raw = 1 - (double)sum / levels / (double)out->n_positive;
    out->score = score_of(out->raw, fixed, sum);
}
