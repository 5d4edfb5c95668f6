/* ims/png.c - libspng behind one call: the only file that includes its header. */
#include "ims/png.h"

#include "base/text.h"

#include <math.h>
#include <spng.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

/* --- Memory of the library ------------------------------------------------------------ */

typedef struct block {
    alignas(max_align_t) size_t size;
} block;

static void *take(size_t n)
{
    block *b = n > SIZE_MAX - sizeof *b ? NULL : tg_alloc(sizeof *b + n);
    if (b == NULL)
        return NULL;
    b->size = n;
    return b + 1;
}

static void give_back(void *p)
{
    if (p != NULL)
        tg_free((block *)p - 1);
}

static void *take_again(void *p, size_t n)
{
    void *q = take(n);
    if (q == NULL || p == NULL)
        return q;
    size_t old = ((block *)p - 1)->size;
    memcpy(q, p, old < n ? old : n);
    give_back(p);
    return q;
}

static void *take_zeros(size_t n, size_t size)
{
    size_t bytes;
    void *p = __builtin_mul_overflow(n, size, &bytes) ? NULL : take(bytes);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

/* --- Pixels ------------------------------------------------------------------------------ */

uint64_t tg_png_bytes(uint32_t width, uint32_t height)
{
    /* the frame, and an encoded image in a buffer that doubles while the old one is there */
    return (uint64_t)width * height * (4 + 3 * 6) + ((uint64_t)1 << 20);
}

static void limits(const float *v, size_t n, float *min, float *max)
{
    float lo = INFINITY, hi = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        float x = isfinite(v[i]) ? v[i] : 0;
        lo = x < lo ? x : lo;
        hi = x > hi ? x : hi;
    }
    *min = lo;
    *max = hi;
}

static uint16_t grey_of(float v, float min, float max)
{
    if (!isfinite(v))
        v = v > 0 ? max : 0;
    if (max == min)
        return v > 0 ? 65535 : 0;
    double g = ((double)v - (double)min) / ((double)max - (double)min) * 65535;
    return g <= 0 ? 0 : g >= 65535 ? 65535 : (uint16_t)g;
}

static void fill_frame(uint16_t *frame, const float *values, size_t n, float min, float max,
                       const uint32_t *positions, uint64_t n_pixels)
{
    for (size_t i = 0; i < n; i++) {
        frame[2 * i] = grey_of(values[i], min, max);
        frame[2 * i + 1] = 0;
    }
    for (uint64_t i = 0; i < n_pixels; i++)
        frame[2 * (size_t)positions[i] + 1] = 65535;
}

/* --- Encoding ------------------------------------------------------------------------------
 */

static tg_status spng_failure(int rc, tg_error *err)
{
    return tg_fail(err, rc == SPNG_EMEM ? TG_NO_MEMORY : TG_INVALID, "PNG: %s",
                   spng_strerror(rc));
}

#define N_TEXTS 4

/* The library keeps pointers: the words must live until the image is encoded. */
typedef struct words {
    char min[32], max[32], peak[16], ion[160];
    struct spng_text chunks[N_TEXTS];
} words;

static int set_text(spng_ctx *ctx, const tg_png_text *t, words *w)
{
    static const char *const keys[N_TEXTS] = {"ims:min", "ims:max", "ims:ion", "ims:peak"};
    char *const values[N_TEXTS] = {w->min, w->max, w->ion, w->peak};

    memset(w, 0, sizeof *w);
    tg_format_double(w->min, sizeof w->min, (double)t->min);
    tg_format_double(w->max, sizeof w->max, (double)t->max);
    (void)snprintf(w->ion, sizeof w->ion, "%s", t->ion == NULL ? "" : t->ion);
    (void)snprintf(w->peak, sizeof w->peak, "%d", t->peak);
    for (int i = 0; i < N_TEXTS; i++) {
        (void)snprintf(w->chunks[i].keyword, sizeof w->chunks[i].keyword, "%s", keys[i]);
        w->chunks[i].type = SPNG_TEXT;
        w->chunks[i].text = values[i];
        w->chunks[i].length = strlen(values[i]);
    }
    return spng_set_text(ctx, w->chunks, t->peak < 0 ? 2 : N_TEXTS);
}

static tg_status encode(spng_ctx *ctx, const uint16_t *frame, uint32_t width, uint32_t height,
                        const tg_png_text *text, tg_buf *out, tg_error *err)
{
    struct spng_ihdr head = {.width = width,
                             .height = height,
                             .bit_depth = 16,
                             .color_type = SPNG_COLOR_TYPE_GRAYSCALE_ALPHA};
    words w;
    size_t n;
    int rc = spng_set_option(ctx, SPNG_ENCODE_TO_BUFFER, 1);
    if (rc == 0)
        rc = spng_set_option(ctx, SPNG_IMG_COMPRESSION_LEVEL, 1);
    if (rc == 0)
        rc = spng_set_ihdr(ctx, &head);
    if (rc == 0)
        rc = set_text(ctx, text, &w);
    if (rc == 0)
        rc = spng_encode_image(ctx, frame, (size_t)width * height * 4, SPNG_FMT_PNG,
                               SPNG_ENCODE_FINALIZE);
    if (rc != 0)
        return spng_failure(rc, err);
    uint8_t *png = spng_get_png_buffer(ctx, &n, &rc);
    if (png == NULL)
        return spng_failure(rc, err);
    tg_status st = tg_buf_resize(out, n, err);
    if (st == TG_OK)
        memcpy(out->data, png, n);
    give_back(png);
    return st;
}

tg_status tg_png_encode(const float *values, uint32_t width, uint32_t height,
                        const uint32_t *positions, uint64_t n_pixels, tg_png_text text,
                        tg_buf *out, tg_error *err)
{
    struct spng_alloc alloc = {take, take_again, take_zeros, give_back};
    size_t n = (size_t)width * height;
    TG_AUTO(tg_mem_ptr) owner = tg_alloc_array(n, 2 * sizeof(uint16_t));
    uint16_t *frame = owner;

    if (frame == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for an image of %u x %u", width, height);
    limits(values, n, &text.min, &text.max);
    fill_frame(frame, values, n, text.min, text.max, positions, n_pixels);
    spng_ctx *ctx = spng_ctx_new2(&alloc, SPNG_CTX_ENCODER);
    if (ctx == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a PNG");
    tg_status st = encode(ctx, frame, width, height, &text, out, err);
    spng_ctx_free(ctx);
    return st;
}
