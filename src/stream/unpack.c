/* Frames as cameras and callers lay them out, to dense native rows. Knows nothing of rings. */
#include "stream/unpack.h"

#include "nd/nd.h"

#include <assert.h>
#include <string.h>

uint32_t tg_pixel_bits(tg_pixel_format f)
{
    switch (f) {
    case TG_PIXEL_MONO10P:
    case TG_PIXEL_MONO10_PACKED:
        return 10;
    case TG_PIXEL_MONO12P:
    case TG_PIXEL_MONO12_PACKED:
        return 12;
    case TG_PIXEL_PLAIN:
        break;
    }
    return 0;
}

static bool is_bit_string(tg_pixel_format f)
{
    return f == TG_PIXEL_MONO10P || f == TG_PIXEL_MONO12P;
}

uint64_t tg_pixels_bytes(tg_pixel_format f, uint64_t n, size_t item_bytes)
{
    uint64_t bytes = 0;
    if (f == TG_PIXEL_PLAIN)
        return __builtin_mul_overflow(n, item_bytes, &bytes) ? UINT64_MAX : bytes;
    if (n > UINT64_MAX / 16)
        return UINT64_MAX;
    return is_bit_string(f) ? (n * tg_pixel_bits(f) + 7) / 8 : n / 2 * 3 + n % 2 * 2;
}

/* --- One pixel, as the format is written down ----------------------------- */

static uint16_t one_of_bits(const uint8_t *src, uint64_t i, uint32_t bits)
{
    uint64_t bit = i * bits;
    const uint8_t *p = src + bit / 8;
    uint32_t v = p[0];
    if (bit % 8 + bits > 8)
        v |= (uint32_t)p[1] << 8;
    return (uint16_t)(v >> bit % 8 & ((1U << bits) - 1)); /* 10 and 12 bits touch 2 bytes */
}

static uint16_t one_of_pair(const uint8_t *src, uint64_t i, uint32_t bits)
{
    const uint8_t *p = src + i / 2 * 3;
    uint32_t low = i % 2 == 0 ? p[1] : (uint32_t)p[1] >> 4;
    uint32_t high = i % 2 == 0 ? p[0] : p[2];
    return (uint16_t)(high << (bits - 8) | (low & ((1U << (bits - 8)) - 1)));
}

static uint16_t one(tg_pixel_format f, const uint8_t *src, uint64_t i)
{
    return is_bit_string(f) ? one_of_bits(src, i, tg_pixel_bits(f))
                            : one_of_pair(src, i, tg_pixel_bits(f));
}

/* --- Four pixels at once --------------------------------------------------
 *
 * Four pixels are 5 or 6 bytes in every format, so whole bytes lie between one four and the
 * next. Each is spread over a 64-bit word with a few shifts and masks. */

static inline uint64_t spread_10p(uint64_t v)
{
    return (v & 0x3FF) | (v << 6 & 0x3FF0000) | (v << 12 & 0x3FF00000000) |
           (v << 18 & 0x3FF000000000000);
}

static inline uint64_t spread_12p(uint64_t v)
{
    return (v & 0xFFF) | (v << 4 & 0xFFF0000) | (v << 8 & 0xFFF00000000) |
           (v << 12 & 0xFFF000000000000);
}

static inline uint64_t pair_10(uint64_t v)
{
    return (v << 2 & 0x3FC03FC) | (v >> 8 & 0x3) | (v << 4 & 0x30000);
}

static inline uint64_t pair_12(uint64_t v)
{
    return (v << 4 & 0xFFF0FF0) | (v >> 8 & 0xF);
}

static inline uint64_t spread(tg_pixel_format f, uint64_t v)
{
    switch (f) {
    case TG_PIXEL_MONO10P:
        return spread_10p(v);
    case TG_PIXEL_MONO12P:
        return spread_12p(v);
    case TG_PIXEL_MONO10_PACKED:
        return pair_10(v) | pair_10(v >> 24) << 32;
    default:
        return pair_12(v) | pair_12(v >> 24) << 32;
    }
}

/* fours * 4 pixels from bit `shift` of src on. Reads 8 bytes for each four. Inlined with a
 * constant format, so that the switch is outside of the loop. */
static inline __attribute__((always_inline)) void
unpack_fours(tg_pixel_format f, uint16_t *dst, const uint8_t *src, uint32_t shift, size_t fours)
{
    size_t step = f == TG_PIXEL_MONO10P ? 5 : 6;
    for (size_t i = 0; i < fours; i++) {
        uint64_t v = 0;
        memcpy(&v, src + i * step, sizeof v);
        v = spread(f, v >> shift);
        memcpy(dst + 4 * i, &v, sizeof v);
    }
}

static void unpack_fast(tg_pixel_format f, uint16_t *dst, const uint8_t *src, uint32_t shift,
                        size_t fours)
{
    switch (f) {
    case TG_PIXEL_MONO10P:
        unpack_fours(TG_PIXEL_MONO10P, dst, src, shift, fours);
        break;
    case TG_PIXEL_MONO12P:
        unpack_fours(TG_PIXEL_MONO12P, dst, src, shift, fours);
        break;
    case TG_PIXEL_MONO10_PACKED:
        unpack_fours(TG_PIXEL_MONO10_PACKED, dst, src, shift, fours);
        break;
    default:
        unpack_fours(TG_PIXEL_MONO12_PACKED, dst, src, shift, fours);
        break;
    }
}

void tg_unpack(tg_pixel_format f, uint16_t *dst, const uint8_t *src, uint64_t first, size_t n)
{
    size_t done = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (!is_bit_string(f) && first % 2 != 0 && n > 0)
        dst[done++] = one(f, src, first); /* the second one of its pair */
    uint64_t bit = (first + done) * (is_bit_string(f) ? tg_pixel_bits(f) : 12);
    uint64_t bytes = tg_pixels_bytes(f, first + n, 2) - bit / 8; /* from there to the end */
    size_t step = f == TG_PIXEL_MONO10P ? 5 : 6;
    size_t fours = (n - done) / 4;
    size_t safe = bytes < 8 ? 0 : (size_t)((bytes - 8) / step) + 1; /* loads within bytes */
    if (fours > safe)
        fours = safe;
    unpack_fast(f, dst + done, src + bit / 8, (uint32_t)(bit % 8), fours);
    done += 4 * fours;
#endif
    for (; done < n; done++)
        dst[done] = one(f, src, first + done);
}

/* --- Views ---------------------------------------------------------------- */

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

/* Does (n - 1) * stride, summed over all, stay within half the address space? */
static bool reach_fits(const uint64_t n[3], const int64_t stride[3])
{
    uint64_t reach = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t part = 0;
        if (__builtin_mul_overflow(n[i] - 1, magnitude(stride[i]), &part) ||
            __builtin_add_overflow(reach, part, &reach) || reach > INT64_MAX / 2)
            return false;
    }
    return true;
}

static tg_status check_packed(const tg_frame_layout *l, tg_dtype dtype, tg_error *err)
{
    if (tg_pixel_bits(l->pixels) == 0)
        return tg_fail(err, TG_INVALID, "unknown pixel format %d", (int)l->pixels);
    if (dtype.kind != TG_DT_UINT || dtype.size != 2)
        return tg_fail(err, TG_INVALID, "packed pixels go into uint16 arrays only");
    if (l->byte_swapped || l->item_stride != 0)
        return tg_fail(err, TG_INVALID, "packed pixels have no byte order and no item stride");
    return TG_OK;
}

/* Pitches that were left at 0. */
static tg_status fill_in(tg_frame_view *v, tg_error *err)
{
    uint64_t items = 0, row = 0, frame = 0;
    bool packed = v->pixels != TG_PIXEL_PLAIN;
    bool bad = __builtin_mul_overflow(v->height, v->width, &items);
    if (packed)
        row = magnitude(v->row_pitch);
    else if (v->row_pitch != 0)
        row = magnitude(v->row_pitch);
    else
        bad |= __builtin_mul_overflow(v->width, magnitude(v->item_stride), &row);
    bad |= __builtin_mul_overflow(v->height, row, &frame);
    if (packed && v->row_pitch == 0)
        frame = tg_pixels_bytes(v->pixels, items, v->item_bytes);
    if (bad || row > INT64_MAX / 2 || frame > INT64_MAX / 2)
        return tg_fail(err, TG_INVALID, "a frame of these strides does not fit memory");
    if (!packed && v->row_pitch == 0)
        v->row_pitch = (int64_t)row;
    if (v->frame_pitch == 0)
        v->frame_pitch = (int64_t)frame;
    return TG_OK;
}

static size_t swap_unit(const tg_frame_layout *l, tg_dtype dtype)
{
    size_t unit = dtype.kind == TG_DT_COMPLEX ? dtype.size / 2 : dtype.size;
    return l->byte_swapped && dtype.kind != TG_DT_RAW && unit > 1 ? unit : 0;
}

tg_status tg_frame_view_init(tg_frame_view *v, const void *frames, size_t count,
                             const tg_frame_layout *layout, uint64_t height, uint64_t width,
                             tg_dtype dtype, tg_error *err)
{
    static const tg_frame_layout plain = {.size = sizeof plain};
    const tg_frame_layout *l = layout == NULL ? &plain : layout;
    if (height == 0 || width == 0 || dtype.size == 0)
        return tg_fail(err, TG_INVALID, "a frame without items");
    if (l->pixels != TG_PIXEL_PLAIN)
        TG_TRY(check_packed(l, dtype, err));
    tg_frame_view made = {.base = frames,
                          .pixels = l->pixels,
                          .height = height,
                          .width = width,
                          .item_bytes = dtype.size,
                          .swap_bytes = swap_unit(l, dtype),
                          .row_pitch = l->row_pitch,
                          .item_stride = l->item_stride == 0 ? dtype.size : l->item_stride,
                          .frame_pitch = l->frame_pitch};
    TG_TRY(fill_in(&made, err));
    const uint64_t n[3] = {count == 0 ? 1 : count, height, width};
    const int64_t stride[3] = {made.frame_pitch, made.row_pitch, made.item_stride};
    if (!reach_fits(n, stride))
        return tg_fail(err, TG_INVALID, "frames of these strides do not fit memory");
    made.direct = made.pixels == TG_PIXEL_PLAIN && made.swap_bytes == 0 &&
                  made.item_stride == (int64_t)made.item_bytes;
    made.dense = made.direct &&
                 (height == 1 || magnitude(made.row_pitch) == width * dtype.size) &&
                 (height == 1 || made.row_pitch > 0);
    *v = made;
    return TG_OK;
}

void tg_frame_view_advance(tg_frame_view *v)
{
    v->base += v->frame_pitch;
}

static void gather(uint8_t *dst, const uint8_t *src, size_t n, int64_t stride, size_t size)
{
    switch (size) {
    case 1:
        for (size_t i = 0; i < n; i++)
            dst[i] = src[(int64_t)i * stride];
        break;
    case 2:
        for (size_t i = 0; i < n; i++)
            memcpy(dst + 2 * i, src + (int64_t)i * stride, 2);
        break;
    case 4:
        for (size_t i = 0; i < n; i++)
            memcpy(dst + 4 * i, src + (int64_t)i * stride, 4);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            memcpy(dst + size * i, src + (int64_t)i * stride, size);
        break;
    }
}

void tg_frame_view_read(const tg_frame_view *v, uint64_t y, uint64_t x, size_t n, void *dst)
{
    assert(y < v->height && x <= v->width && n <= v->width - x);
    if (v->pixels != TG_PIXEL_PLAIN) {
        bool one_run = v->row_pitch == 0;
        const uint8_t *src = one_run ? v->base : tg_frame_view_row(v, y);
        tg_unpack(v->pixels, dst, src, (one_run ? y * v->width : 0) + x, n);
        return;
    }
    const uint8_t *src = tg_frame_view_row(v, y) + (int64_t)x * v->item_stride;
    size_t items = v->swap_bytes == 0 ? 0 : n * v->item_bytes / v->swap_bytes;
    bool packed_items = v->item_stride == (int64_t)v->item_bytes;
    if (!packed_items)
        gather(dst, src, n, v->item_stride, v->item_bytes);
    else if (v->swap_bytes == 0)
        memcpy(dst, src, n * v->item_bytes);
    if (v->swap_bytes != 0)
        tg_nd_swap(dst, packed_items ? src : dst, items, v->swap_bytes);
}
