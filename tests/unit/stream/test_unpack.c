/* Packed, swapped, strided frames against readers that go bit by bit and byte by byte. */
#include "check.h"
#include "stream/unpack.h"

#include <stdlib.h>

static uint64_t state = 88172645463325252U;
static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* --- Naive packers, written from the formats' descriptions ---------------- */

static void put_bit(uint8_t *p, uint64_t bit, unsigned v)
{
    p[bit / 8] = (uint8_t)((p[bit / 8] & ~(1U << bit % 8)) | v << bit % 8);
}

static void pack(tg_pixel_format f, uint8_t *dst, uint64_t i, unsigned v)
{
    unsigned bits = tg_pixel_bits(f);
    for (unsigned b = 0; b < bits; b++) {
        unsigned bit = v >> b & 1;
        if (f == TG_PIXEL_MONO10P || f == TG_PIXEL_MONO12P) {
            put_bit(dst, i * bits + b, bit);
            continue;
        }
        /* GigE: the 8 high bits in byte 0 (2), the low ones in byte 1 from bit 0 (4). */
        uint8_t *three = dst + i / 2 * 3;
        unsigned low = bits - 8;
        if (b >= low)
            put_bit(three + (i % 2) * 2, b - low, bit);
        else
            put_bit(three + 1, (i % 2) * 4 + b, bit);
    }
}

static const tg_pixel_format formats[] = {TG_PIXEL_MONO10P, TG_PIXEL_MONO12P,
                                          TG_PIXEL_MONO10_PACKED, TG_PIXEL_MONO12_PACKED};
static const char *const names[] = {"Mono10p", "Mono12p", "Mono10Packed", "Mono12Packed"};

/* An exact allocation, so that a sanitizer sees a read beyond the packed bytes. */
static uint8_t *packed_run(tg_pixel_format f, const uint16_t *pixels, uint64_t n)
{
    uint8_t *p = calloc(1, (size_t)tg_pixels_bytes(f, n, 2));
    for (uint64_t i = 0; p != NULL && i < n; i++)
        pack(f, p, i, pixels[i]);
    return p;
}

static void known_bytes(void)
{
    static const uint8_t src[] = {0xAB, 0x12, 0xCD};
    static const struct {
        const char *name;
        tg_pixel_format f;
        uint16_t first, second;
    } rows[] = {
        {"Mono12p", TG_PIXEL_MONO12P, 0x2AB, 0xCD1},
        {"Mono10p", TG_PIXEL_MONO10P, 0x2AB, 0x344},
        {"Mono12Packed", TG_PIXEL_MONO12_PACKED, 0xAB2, 0xCD1},
        {"Mono10Packed", TG_PIXEL_MONO10_PACKED, 0xAB << 2 | 2, 0xCD << 2 | 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint16_t got[2] = {0};
        test_row = rows[i].name;
        tg_unpack(rows[i].f, got, src, 0, 2);
        CHECK_U64(got[0], rows[i].first);
        CHECK_U64(got[1], rows[i].second);
    }
    test_row = "";
}

static void every_start_and_length(void)
{
    enum { N = 70 };
    uint16_t pixels[N], got[N + 1];
    for (int f = 0; f < 4; f++) {
        test_row = names[f];
        for (int i = 0; i < N; i++)
            pixels[i] = (uint16_t)(next_random() & ((1U << tg_pixel_bits(formats[f])) - 1));
        for (uint64_t end = 0; end <= N; end++) {
            uint8_t *src = packed_run(formats[f], pixels, end);
            REQUIRE(src != NULL);
            uint64_t bad = 0;
            for (uint64_t first = 0; first <= end; first++) {
                size_t n = (size_t)(end - first);
                got[n] = 0xBEEF; /* must stay */
                tg_unpack(formats[f], got, src, first, n);
                bad += memcmp(got, pixels + first, n * 2) != 0 || got[n] != 0xBEEF;
            }
            CHECK_U64(bad, 0);
            free(src);
        }
    }
    test_row = "";
}

static void frames_of_odd_width(void)
{
    static const struct {
        uint64_t h, w;
    } sizes[] = {{1, 1}, {3, 1}, {5, 7}, {4, 33}, {7, 129}, {2, 64}};
    tg_dtype u16 = {TG_DT_UINT, 2};
    for (int f = 0; f < 4; f++) {
        test_row = names[f];
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            uint64_t h = sizes[s].h, w = sizes[s].w, bad = 0;
            uint64_t row_bytes = tg_pixels_bytes(formats[f], w, 2), pitch = row_bytes + 3;
            uint16_t *want = calloc(2 * h * w, 2), *row = calloc(w, 2);
            uint8_t *run = calloc(1, 2 * tg_pixels_bytes(formats[f], h * w, 2));
            uint8_t *rows = calloc(1, h * pitch);
            REQUIRE(want != NULL && row != NULL && run != NULL && rows != NULL);
            for (uint64_t i = 0; i < 2 * h * w; i++) {
                want[i] = (uint16_t)(next_random() & ((1U << tg_pixel_bits(formats[f])) - 1));
                uint64_t frame = i / (h * w), at = i % (h * w);
                pack(formats[f], run + frame * tg_pixels_bytes(formats[f], h * w, 2), at,
                     want[i]);
                if (frame == 0)
                    pack(formats[f], rows + at / w * pitch, at % w, want[i]);
            }
            tg_frame_layout one_run = {.size = sizeof one_run, .pixels = formats[f]};
            tg_frame_layout padded = one_run;
            padded.row_pitch = (int64_t)pitch;
            tg_frame_view v = {0}, p = {0};
            CHECK_STATUS(tg_frame_view_init(&v, run, 2, &one_run, h, w, u16, NULL), TG_OK);
            CHECK_STATUS(tg_frame_view_init(&p, rows, 1, &padded, h, w, u16, NULL), TG_OK);
            CHECK(!v.direct && !p.direct);
            for (uint64_t y = 0; y < h; y++) {
                uint64_t x = next_random() % w;
                tg_frame_view_read(&v, y, x, (size_t)(w - x), row);
                bad += memcmp(row, want + y * w + x, (w - x) * 2) != 0;
                tg_frame_view_read(&p, y, x, (size_t)(w - x), row);
                bad += memcmp(row, want + y * w + x, (w - x) * 2) != 0;
            }
            tg_frame_view_advance(&v);
            tg_frame_view_read(&v, h - 1, 0, (size_t)w, row);
            bad += memcmp(row, want + (2 * h - 1) * w, w * 2) != 0;
            CHECK_U64(bad, 0);
            free(want);
            free(row);
            free(run);
            free(rows);
        }
    }
    test_row = "";
}

/* Any mixture of strides and byte order, against one byte at a time. */
static void plain_frames(void)
{
    static const tg_dtype dtypes[] = {{TG_DT_UINT, 1}, {TG_DT_UINT, 2},    {TG_DT_FLOAT, 4},
                                      {TG_DT_INT, 8},  {TG_DT_COMPLEX, 8}, {TG_DT_COMPLEX, 16}};
    enum { ROOM = 1 << 16 };
    uint8_t *room = malloc(ROOM), *got = malloc(ROOM);
    REQUIRE(room != NULL && got != NULL);
    for (int i = 0; i < ROOM; i++)
        room[i] = (uint8_t)next_random();
    uint64_t bad = 0;
    for (int trial = 0; trial < 2000; trial++) {
        tg_dtype t = dtypes[next_random() % 6];
        uint64_t h = 1 + next_random() % 8, w = 1 + next_random() % 40;
        int64_t item = next_random() % 2 ? 0 : (int64_t)(t.size + next_random() % 3);
        int64_t real_item = item == 0 ? (int64_t)t.size : item;
        int64_t row =
            next_random() % 2 ? 0 : (int64_t)w * real_item + (int64_t)(next_random() % 9);
        int64_t real_row = row == 0 ? (int64_t)w * real_item : row;
        const uint8_t *base = room;
        if (row != 0 && next_random() % 2) { /* rows upwards */
            base = room + (int64_t)(h - 1) * row;
            row = -row;
            real_row = row;
        }
        tg_frame_layout l = {.size = sizeof l,
                             .row_pitch = row,
                             .item_stride = item,
                             .byte_swapped = next_random() % 2};
        tg_frame_view v = {0};
        CHECK_STATUS(tg_frame_view_init(&v, base, 1, &l, h, w, t, NULL), TG_OK);
        size_t unit = t.kind == TG_DT_COMPLEX ? t.size / 2 : t.size;
        for (uint64_t y = 0; y < h; y++) {
            tg_frame_view_read(&v, y, 0, (size_t)w, got);
            for (uint64_t x = 0; x < w; x++)
                for (size_t b = 0; b < t.size; b++) {
                    size_t from = l.byte_swapped ? b / unit * unit + unit - 1 - b % unit : b;
                    bad += got[x * t.size + b] !=
                           base[(int64_t)y * real_row + (int64_t)x * real_item + (int64_t)from];
                }
            if (v.direct)
                bad += memcmp(tg_frame_view_row(&v, y), got, w * t.size) != 0;
        }
        if (v.dense)
            bad += memcmp(v.base + (h - 1) * w * t.size, got, w * t.size) != 0;
    }
    CHECK_U64(bad, 0);
    free(room);
    free(got);
}

static void what_is_no_frame_is_refused(void)
{
    static const struct {
        const char *name;
        tg_frame_layout layout;
        uint64_t h, w;
        tg_dtype dtype;
        size_t count;
    } rows[] = {
        {"packed into uint8", {.pixels = TG_PIXEL_MONO12P}, 2, 2, {TG_DT_UINT, 1}, 1},
        {"packed and swapped",
         {.pixels = TG_PIXEL_MONO12P, .byte_swapped = true},
         2,
         2,
         {TG_DT_UINT, 2},
         1},
        {"packed and strided",
         {.pixels = TG_PIXEL_MONO10P, .item_stride = 2},
         2,
         2,
         {TG_DT_UINT, 2},
         1},
        {"unknown format", {.pixels = (tg_pixel_format)17}, 2, 2, {TG_DT_UINT, 2}, 1},
        {"no rows", {0}, 0, 2, {TG_DT_UINT, 2}, 1},
        {"strings", {0}, 2, 2, {TG_DT_STRING, 0}, 1},
        {"items beyond 64 bits", {0}, UINT64_C(1) << 40, UINT64_C(1) << 40, {TG_DT_UINT, 2}, 1},
        {"pitch beyond 64 bits", {.row_pitch = INT64_MAX}, 3, 2, {TG_DT_UINT, 2}, 1},
        {"least pitch", {.row_pitch = INT64_MIN}, 3, 2, {TG_DT_UINT, 2}, 1},
        {"frames beyond 64 bits", {.frame_pitch = INT64_MAX / 4}, 2, 2, {TG_DT_UINT, 2}, 9},
        {"packed pixels beyond 64 bits",
         {.pixels = TG_PIXEL_MONO12P},
         UINT64_C(1) << 31,
         UINT64_C(1) << 32,
         {TG_DT_UINT, 2},
         1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t byte = 0;
        tg_frame_view v = {0};
        test_row = rows[i].name;
        CHECK_STATUS(tg_frame_view_init(&v, &byte, rows[i].count, &rows[i].layout, rows[i].h,
                                        rows[i].w, rows[i].dtype, NULL),
                     TG_INVALID);
        CHECK(v.base == NULL);
    }
    test_row = "";
}

static const struct test tests[] = {
    {"known bytes", known_bytes},
    {"every start and length", every_start_and_length},
    {"frames of odd width", frames_of_odd_width},
    {"plain frames", plain_frames},
    {"what is no frame is refused", what_is_no_frame_is_refused},
};
TEST_MAIN(tests)
