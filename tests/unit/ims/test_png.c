#include "base/text.h"
#include "check.h"
#include "ims/inflate.h"
#include "ims/png.h"

#include <math.h>

#define MOST_PIXELS 4096

/* A reader of its own: every chunk's sum, rows without filters. */
typedef struct image {
    uint32_t width, height, n_texts;
    char texts[4][256]; /* "key=value" */
    uint16_t grey[MOST_PIXELS], alpha[MOST_PIXELS];
} image;

static uint32_t load(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t crc32_slowly(const uint8_t *p, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void read_pixels(image *m, const uint8_t *data, size_t n)
{
    static uint8_t rows[MOST_PIXELS * 5];
    size_t stride = (size_t)m->width * 4 + 1;
    REQUIRE(m->width * m->height <= MOST_PIXELS);
    REQUIRE_OK(tg_ims_inflate((tg_bytes){data, n}, rows, stride * m->height, NULL));
    for (uint32_t y = 0; y < m->height; y++) {
        CHECK_U64(rows[y * stride], 0);
        for (uint32_t x = 0; x < m->width; x++) {
            uint32_t v = load(rows + y * stride + 1 + (size_t)4 * x);
            m->grey[y * m->width + x] = (uint16_t)(v >> 16);
            m->alpha[y * m->width + x] = (uint16_t)v;
        }
    }
}

static void read_text(image *m, const uint8_t *data, size_t n)
{
    const uint8_t *end = memchr(data, 0, n);
    REQUIRE(end != NULL && m->n_texts < 4);
    (void)snprintf(m->texts[m->n_texts++], sizeof m->texts[0], "%s=%.*s", (const char *)data,
                   (int)(n - (size_t)(end - data) - 1), (const char *)end + 1);
}

static void read_png(image *m, tg_bytes file)
{
    static const uint8_t kind[5] = {16, 4, 0, 0, 0};
    bool ended = false;
    *m = (image){0};
    REQUIRE(file.len > 8 && memcmp(file.data, "\x89PNG\r\n\x1a\n", 8) == 0);
    for (size_t at = 8; at < file.len;) {
        const uint8_t *chunk = file.data + at;
        size_t n = load(chunk);
        REQUIRE(at + n + 12 <= file.len && !ended);
        CHECK_U64(load(chunk + 8 + n), crc32_slowly(chunk + 4, n + 4));
        if (memcmp(chunk + 4, "IHDR", 4) == 0) {
            m->width = load(chunk + 8);
            m->height = load(chunk + 12);
            CHECK(n == 13 && memcmp(chunk + 16, kind, 5) == 0);
        } else if (memcmp(chunk + 4, "IDAT", 4) == 0) {
            read_pixels(m, chunk + 8, n);
        } else if (memcmp(chunk + 4, "tEXt", 4) == 0) {
            read_text(m, chunk + 8, n);
        }
        ended = memcmp(chunk + 4, "IEND", 4) == 0;
        at += n + 12;
    }
    CHECK(ended);
}

static void check_image(const float *values, const uint16_t *want, const char *min,
                        const char *max)
{
    static const uint32_t positions[5] = {0, 1, 2, 4, 5}; /* of 3 x 2 */
    static image m;
    TG_AUTO_PTR(tg_png) p = NULL;
    tg_bytes file;
    char text[64];

    REQUIRE_OK(tg_png_new(&p, 3, 2, positions, 5, NULL));
    REQUIRE_OK(tg_png_encode(p, values, (tg_png_text){"C6H12O6K", 2}, &file, NULL));
    read_png(&m, file);
    CHECK(m.width == 3 && m.height == 2);
    for (int i = 0; i < 6; i++) {
        CHECK_U64(m.grey[i], want[i]);
        CHECK_U64(m.alpha[i], i == 3 ? 0 : 65535);
    }
    REQUIRE(m.n_texts == 4);
    (void)snprintf(text, sizeof text, "ims:min=%s", min);
    CHECK(strcmp(m.texts[0], text) == 0);
    (void)snprintf(text, sizeof text, "ims:max=%s", max);
    CHECK(strcmp(m.texts[1], text) == 0);
    CHECK(strcmp(m.texts[2], "ims:ion=C6H12O6K") == 0);
    CHECK(strcmp(m.texts[3], "ims:peak=2") == 0);
}

static void grey_is_the_share_of_the_range(void)
{
    const float values[6] = {0, 1, 2, 0, 4, 3};
    const uint16_t want[6] = {0, 16383, 32767, 0, 65535, 49151};
    check_image(values, want, "0.0", "4.0");
}

static void the_least_of_a_full_box_is_black(void)
{
    const float values[6] = {1, 1, 2, 3, 5, 3};
    const uint16_t want[6] = {0, 0, 16383, 32767, 65535, 32767};
    check_image(values, want, "1.0", "5.0");
}

static void a_constant_image_is_white_where_it_is_above_0(void)
{
    const float some[6] = {7, 7, 7, 7, 7, 7}, none[6] = {0};
    const uint16_t white[6] = {65535, 65535, 65535, 65535, 65535, 65535}, black[6] = {0};
    check_image(some, white, "7.0", "7.0");
    check_image(none, black, "0.0", "0.0");
}

static void infinite_intensities_are_the_greatest(void)
{
    const float values[6] = {0, INFINITY, 2, 0, NAN, 4};
    const uint16_t want[6] = {0, 65535, 32767, 0, 0, 65535};
    check_image(values, want, "0.0", "4.0");
}

static void an_encoder_keeps_nothing_of_the_image_before(void)
{
    static float values[64 * 64];
    static uint32_t positions[64 * 64];
    static image m;
    TG_AUTO_PTR(tg_png) p = NULL;
    tg_bytes file;
    uint32_t state = 1;

    for (uint32_t i = 0; i < 64 * 64; i++)
        positions[i] = i;
    REQUIRE_OK(tg_png_new(&p, 64, 64, positions, 64 * 64, NULL));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 64 * 64; i++) {
            state = state * 1664525 + 1013904223;
            values[i] = round == 1 ? 0 : (float)(state >> 16); /* noise: it grows */
        }
        values[0] = 0;
        values[1] = 65535;
        REQUIRE_OK(tg_png_encode(p, values, (tg_png_text){0}, &file, NULL));
        read_png(&m, file);
        CHECK_U64(m.n_texts, 2);
        for (int i = 0; i < 64 * 64; i++)
            CHECK_U64(m.grey[i], (uint16_t)values[i]);
    }
}

static tg_status encode_once(void)
{
    const float values[4] = {1, 2, 3, 4};
    const uint32_t positions[1] = {2};
    TG_AUTO_PTR(tg_png) p = NULL;
    tg_bytes file;
    TG_TRY(tg_png_new(&p, 2, 2, positions, 1, NULL));
    return tg_png_encode(p, values, (tg_png_text){0}, &file, NULL);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(encode_once());
}

static void what_no_chunk_holds_is_refused(void)
{
    TG_AUTO_PTR(tg_png) p = NULL;
    tg_error err = {0};
    CHECK_STATUS(tg_png_new(&p, 30000, 30000, NULL, 0, &err), TG_UNSUPPORTED);
    CHECK(strstr(err.msg, "30000 x 30000") != NULL);
    CHECK(p == NULL);
}

static const struct test tests[] = {
    {"grey_is_the_share_of_the_range", grey_is_the_share_of_the_range},
    {"the_least_of_a_full_box_is_black", the_least_of_a_full_box_is_black},
    {"a_constant_image_is_white_where_it_is_above_0",
     a_constant_image_is_white_where_it_is_above_0},
    {"infinite_intensities_are_the_greatest", infinite_intensities_are_the_greatest},
    {"an_encoder_keeps_nothing_of_the_image_before",
     an_encoder_keeps_nothing_of_the_image_before},
    {"every_allocation_may_fail", every_allocation_may_fail},
    {"what_no_chunk_holds_is_refused", what_no_chunk_holds_is_refused},
};

TEST_MAIN(tests)
