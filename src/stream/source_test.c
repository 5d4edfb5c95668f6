/* The synthetic camera: pixels that are a hash of array, sequence and place, made about as fast
 * as memory can be written, from a block of noise that stays in the first cache. */
#include "base/clock.h"
#include "base/error.h"
#include "nd/nd.h"
#include "stream/source.h"

#include <assert.h>
#include <string.h>
#include <time.h>

enum { BLOCK_WORDS = 4096, BLOCK_BYTES = 8 * BLOCK_WORDS };

typedef struct test_source {
    tg_source base;
    uint32_t array;
    size_t frame_bytes;
    uint64_t mask;               /* as in memory */
    uint64_t sequence;           /* of the next frame */
    int64_t start_ns;            /* when the first frame was due; 0: not started */
    tg_buf frame;                /* for callers without room; empty until then */
    uint64_t noise[BLOCK_WORDS]; /* as in memory */
} test_source;

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* A word whose bytes in memory are those of v, lowest first. */
static uint64_t as_in_memory(uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(v);
#else
    return v;
#endif
}

/* Bits that are kept, over a word of items: floats are finite, bools 0 or 1. */
static uint64_t item_mask(tg_dtype t)
{
    size_t part = t.kind == TG_DT_COMPLEX ? t.size / 2 : t.size;
    if (t.kind == TG_DT_BOOL)
        return UINT64_C(0x0101010101010101);
    if (t.kind != TG_DT_FLOAT && t.kind != TG_DT_COMPLEX)
        return UINT64_MAX;
    switch (part) {
    case 2:
        return UINT64_C(0xBFFFBFFFBFFFBFFF);
    case 4:
        return UINT64_C(0xBFFFFFFFBFFFFFFF);
    default:
        return UINT64_C(0xBFFFFFFFFFFFFFFF);
    }
}

static uint64_t frame_key(uint32_t array, uint64_t sequence)
{
    return mix(mix(array + UINT64_C(0x9E3779B97F4A7C15)) + sequence);
}

void tg_source_test_pixel(uint32_t array, uint64_t sequence, uint64_t y, uint64_t x,
                          uint64_t width, tg_dtype dtype, void *item)
{
    uint64_t at = (y * width + x) * dtype.size;
    uint8_t bytes[16] = {0};
    assert(dtype.size >= 1 && dtype.size <= 16);
    for (uint32_t i = 0; i < dtype.size; i++, at++) {
        uint64_t word = at / 8;
        uint64_t key = mix(frame_key(array, sequence) + word / BLOCK_WORDS);
        word = (mix(word % BLOCK_WORDS + 1) ^ key) & item_mask(dtype);
        bytes[i] = (uint8_t)(word >> at % 8 * 8);
    }
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    uint32_t part = dtype.kind == TG_DT_COMPLEX ? dtype.size / 2 : dtype.size;
    for (uint32_t i = 0; i < dtype.size; i++)
        ((uint8_t *)item)[i] = bytes[i / part * part + part - 1 - i % part];
#else
    memcpy(item, bytes, dtype.size);
#endif
}

/* Whole words [first, first + n) of one block. */
static void fill_words(const test_source *s, uint8_t *dst, size_t first, size_t n, uint64_t key)
{
    const uint64_t *noise = s->noise + first;
    for (size_t i = 0; i < n; i++) {
        uint64_t word = (noise[i] ^ key) & s->mask;
        memcpy(dst + 8 * i, &word, 8);
    }
}

/* Bytes [at, at + n) of the frame with that key. */
static void fill_bytes(const test_source *s, uint8_t *dst, size_t at, size_t n,
                       uint64_t frame_key_value)
{
    while (n > 0) {
        size_t word = at / 8;
        uint64_t key = as_in_memory(mix(frame_key_value + word / BLOCK_WORDS));
        size_t in_block = word % BLOCK_WORDS;
        if (at % 8 != 0 || n < 8) {
            uint64_t one = (s->noise[in_block] ^ key) & s->mask;
            size_t part = 8 - at % 8 < n ? 8 - at % 8 : n;
            memcpy(dst, (const uint8_t *)&one + at % 8, part);
            dst += part, at += part, n -= part;
            continue;
        }
        size_t words = BLOCK_WORDS - in_block < n / 8 ? BLOCK_WORDS - in_block : n / 8;
        fill_words(s, dst, in_block, words, key);
        dst += 8 * words, at += 8 * words, n -= 8 * words;
    }
}

/* Bytes [at, at + n), whole items, as native ones. */
static void fill_items(const test_source *s, uint8_t *dst, size_t at, size_t n, uint64_t key)
{
    fill_bytes(s, dst, at, n, key);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    tg_dtype t = s->base.info.dtype;
    size_t unit = t.kind == TG_DT_COMPLEX ? t.size / 2 : t.size;
    if (unit > 1)
        tg_nd_swap(dst, dst, n / unit, unit);
#endif
}

/* Wait until the frame is due. */
static tg_status pace(test_source *s, int64_t *due, const tg_cancel *cancel, tg_error *err)
{
    int64_t now = tg_clock_ns();
    if (s->start_ns == 0)
        s->start_ns = now;
    *due = now;
    if (s->base.info.fps == 0)
        return TG_OK;
    *due = s->start_ns + (int64_t)((double)s->sequence * 1e9 / s->base.info.fps);
    while (now < *due) {
        TG_TRY(tg_cancel_check(cancel, err));
        int64_t until = *due - now > TG_SOURCE_LOOK_NS ? now + TG_SOURCE_LOOK_NS : *due;
        struct timespec t = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        now = tg_clock_ns();
    }
    return TG_OK;
}

static tg_status next(tg_source *base, void *room, size_t pitch, tg_source_frame *frame,
                      const tg_cancel *cancel, tg_error *err)
{
    test_source *s = (test_source *)base;
    size_t row = (size_t)base->info.width * base->info.dtype.size;
    int64_t due = 0;
    if (room == NULL && s->frame.data == NULL)
        TG_TRY(tg_buf_resize(&s->frame, s->frame_bytes, err));
    TG_TRY(pace(s, &due, cancel, err));
    uint8_t *dst = room == NULL ? s->frame.data : room;
    uint64_t key = frame_key(s->array, s->sequence);
    if (room == NULL || pitch == row)
        fill_items(s, dst, 0, s->frame_bytes, key);
    else
        for (size_t y = 0; y < base->info.height; y++)
            fill_items(s, dst + y * pitch, y * row, row, key);
    frame->pixels = dst;
    frame->bytes = s->frame_bytes;
    frame->layout.row_pitch = room == NULL ? 0 : (int64_t)pitch;
    frame->meta.id = s->sequence++;
    frame->meta.time_device_ns = due - s->start_ns;
    frame->meta.time_host_ns = tg_clock_utc_ns();
    return TG_OK;
}

static void close_test(tg_source *base)
{
    test_source *s = (test_source *)base;
    tg_buf_free(&s->frame);
    tg_free(s);
}

static const tg_source_ops test_ops = {.next = next, .close = close_test};

tg_status tg_source_open_test(const tg_source_options *options, const tg_source_spec *spec,
                              tg_source **out, tg_error *err)
{
    size_t bytes = 0;
    TG_TRY(tg_source_frame_bytes(spec->height, spec->width, spec->dtype, &bytes, err));
    test_source *s = tg_calloc(1, sizeof *s);
    if (s == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a test source");
    s->base.ops = &test_ops;
    s->base.info = (tg_source_info){.size = sizeof s->base.info,
                                    .kind = TG_SOURCE_TEST,
                                    .name = "test",
                                    .dtype = spec->dtype,
                                    .bits = spec->dtype.size * 8,
                                    .height = spec->height,
                                    .width = spec->width,
                                    .fps = spec->fps,
                                    .ids = TG_ID_64,
                                    .buffer_bytes = bytes,
                                    .fills = true,
                                    .can_wait = true};
    s->array = options->array;
    s->frame_bytes = bytes;
    s->mask = as_in_memory(item_mask(spec->dtype));
    for (uint64_t i = 0; i < BLOCK_WORDS; i++)
        s->noise[i] = as_in_memory(mix(i + 1));
    *out = &s->base;
    return TG_OK;
}
