/* ims/png.c - PNG chunks around what libdeflate compresses. Rows are not filtered: ion images
 * are noise and emptiness, of which filters make more bytes in more time, and half of each
 * pixel is a mask that repeats (docs/decisions/png-without-filters.md). */
#include "ims/png.h"

#include "base/text.h"

#include <libdeflate.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEVEL         1
#define CONTEXT_BYTES ((uint64_t)256 << 10) /* measured: 204800 at this level */
#define PIXEL         4                     /* bytes: grey and alpha, big-endian */
#define FRAME_BYTES   12u                   /* length, name and sum of a chunk */
#define HEAD_BYTES    (8 + FRAME_BYTES + 13)
#define TEXT_BYTES    (4u * (FRAME_BYTES + 16 + 192)) /* four of them at most */
#define MOST_CHUNK    ((uint64_t)INT32_MAX)

struct tg_png {
    uint32_t width, height;
    struct libdeflate_compressor *deflate;
    uint8_t *rows; /* height of them: a byte that names the filter, then pixels */
    uint8_t *room; /* for the file */
    size_t row_bytes, packed_bytes; /* the most that the rows become */
};

static uint64_t rows_bytes(uint32_t width, uint32_t height)
{
    return ((uint64_t)width * PIXEL + 1) * height;
}

/* What libdeflate says of its bound: 5 bytes for each block of at least 10000, and a wrapper.
 */
static uint64_t most_packed(uint64_t n)
{
    return n + (n / 10000 + 1) * 5 + 64;
}

static uint64_t file_bytes(uint32_t width, uint32_t height)
{
    return most_packed(rows_bytes(width, height)) + (uint64_t)HEAD_BYTES +
           (uint64_t)TEXT_BYTES + (uint64_t)2 * FRAME_BYTES;
}

uint64_t tg_png_bytes(uint32_t width, uint32_t height)
{
    return sizeof(tg_png) + rows_bytes(width, height) + file_bytes(width, height) +
           CONTEXT_BYTES;
}

void tg_png_free(tg_png *p)
{
    if (p == NULL)
        return;
    libdeflate_free_compressor(p->deflate);
    tg_free(p->rows);
    tg_free(p->room);
    tg_free(p);
}

tg_status tg_png_new(tg_png **out, uint32_t width, uint32_t height, const uint32_t *positions,
                     uint64_t n_pixels, tg_error *err)
{
    if (most_packed(rows_bytes(width, height)) > MOST_CHUNK)
        return tg_fail(err, TG_UNSUPPORTED, "a PNG of %u x %u pixels is larger than 2 GiB",
                       width, height);
    TG_AUTO_PTR(tg_png) p = tg_calloc(1, sizeof *p);
    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a PNG");
    p->width = width;
    p->height = height;
    p->row_bytes = (size_t)width * PIXEL + 1;
    p->packed_bytes = (size_t)most_packed(rows_bytes(width, height));
    p->rows = tg_calloc(height, p->row_bytes);
    p->room = tg_alloc((size_t)file_bytes(width, height));
    p->deflate = libdeflate_alloc_compressor(LEVEL);
    if (p->rows == NULL || p->room == NULL || p->deflate == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a PNG of %u x %u", width, height);
    for (uint64_t i = 0; i < n_pixels; i++) {
        uint32_t y = positions[i] / width, x = positions[i] % width;
        memset(p->rows + y * p->row_bytes + 1 + (size_t)x * PIXEL + 2, 0xff, 2);
    }
    *out = tg_steal(p);
    return TG_OK;
}

/* --- Pixels ------------------------------------------------------------------------------ */

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

static void fill_rows(tg_png *p, const float *values, float min, float max)
{
    uint16_t nothing = grey_of(0, min, max); /* most pixels, as a rule */
    for (uint32_t y = 0; y < p->height; y++) {
        const float *v = values + (size_t)y * p->width;
        uint8_t *pixel = p->rows + y * p->row_bytes + 1;
        for (uint32_t x = 0; x < p->width; x++, pixel += PIXEL) {
            uint16_t g = v[x] == 0 ? nothing : grey_of(v[x], min, max);
            pixel[0] = (uint8_t)(g >> 8);
            pixel[1] = (uint8_t)g;
        }
    }
}

/* --- Chunks --------------------------------------------------------------------------------
 */

static void store_be(uint8_t *dst, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        dst[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Put the frame around n bytes that lie behind room for a length and a name; returns the end.
 */
static uint8_t *end_chunk(uint8_t *chunk, const char name[4], size_t n)
{
    store_be(chunk, (uint32_t)n);
    memcpy(chunk + 4, name, 4);
    store_be(chunk + 8 + n, libdeflate_crc32(0, chunk + 4, n + 4));
    return chunk + FRAME_BYTES + n;
}

static uint8_t *add_text(uint8_t *chunk, const char *key, const char *value)
{
    int n = snprintf((char *)chunk + 8, TEXT_BYTES / 4 - FRAME_BYTES, "%s%c%s", key, 0, value);
    return end_chunk(chunk, "tEXt", (size_t)n);
}

static uint8_t *add_texts(uint8_t *at, const tg_png_text *t, float min, float max)
{
    char number[32];

    tg_format_double(number, sizeof number, (double)min);
    at = add_text(at, "ims:min", number);
    tg_format_double(number, sizeof number, (double)max);
    at = add_text(at, "ims:max", number);
    if (t->ion == NULL)
        return at;
    at = add_text(at, "ims:ion", t->ion);
    (void)snprintf(number, sizeof number, "%d", t->peak);
    return add_text(at, "ims:peak", number);
}

static uint8_t *add_head(uint8_t *at, uint32_t width, uint32_t height)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const uint8_t kind[5] = {16, 4, 0, 0, 0}; /* bits, grey with alpha; usual ways */

    memcpy(at, signature, sizeof signature);
    at += sizeof signature;
    store_be(at + 8, width);
    store_be(at + 12, height);
    memcpy(at + 16, kind, sizeof kind);
    return end_chunk(at, "IHDR", 13);
}

tg_status tg_png_encode(tg_png *p, const float *values, tg_png_text text, tg_bytes *out,
                        tg_error *err)
{
    float min, max;

    if (text.ion != NULL && strlen(text.ion) >= 160)
        return tg_fail(err, TG_INVALID, "ion '%.40s...': longer than 159 characters", text.ion);
    limits(values, (size_t)p->width * p->height, &min, &max);
    fill_rows(p, values, min, max);
    uint8_t *at = add_texts(add_head(p->room, p->width, p->height), &text, min, max);
    size_t n = libdeflate_zlib_compress(p->deflate, p->rows, p->row_bytes * p->height, at + 8,
                                        p->packed_bytes);
    if (n == 0)
        return tg_fail(err, TG_INVALID, "PNG: no room for the compressed image");
    at = end_chunk(end_chunk(at, "IDAT", n), "IEND", 0);
    *out = (tg_bytes){p->room, (size_t)(at - p->room)};
    return TG_OK;
}
