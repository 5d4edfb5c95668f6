/* stream/unpack.h - a frame in the caller's memory, read as dense rows of native items whatever
 * its pitch, strides, byte order and packing. Pure: no memory, no I/O. */
#ifndef TG_STREAM_UNPACK_H
#define TG_STREAM_UNPACK_H

#include "base/error.h"
#include "tidegate/stream.h"

#include <stdbool.h>
#include <stdint.h>

/* Packed frames without a row pitch are one run of pixels, as cameras send them: at odd widths
 * a row may begin inside a byte. With a row pitch each row begins with a whole byte.
 *
 *   Mono10p, Mono12p   pixel i has bits [i * b, (i + 1) * b) of a little-endian bit string
 *   Mono10Packed       2 pixels in 3 bytes: A9..A2, then B1 B0 in bits 5..4 and A1 A0 in bits
 *                      1..0, then B9..B2
 *   Mono12Packed       A11..A4, then B3..B0 in the high and A3..A0 in the low half, then
 * B11..B4
 *
 * Values stay in the low bits of the uint16. A last pixel without a partner takes 2 bytes. */
uint32_t tg_pixel_bits(tg_pixel_format f); /* of a packed format: 10, 12; 0 for PLAIN */
/* Bytes of n packed pixels, or with PLAIN n items; UINT64_MAX: too many. */
uint64_t tg_pixels_bytes(tg_pixel_format f, uint64_t n, size_t item_bytes);
/* Pixels [first, first + n) of the packed run at src into dst. Reads no byte beyond
 * tg_pixels_bytes(f, first + n, 2). */
void tg_unpack(tg_pixel_format f, uint16_t *dst, const uint8_t *src, uint64_t first, size_t n);

typedef struct tg_frame_view {
    const uint8_t *base; /* of row 0 */
    tg_pixel_format pixels;
    uint64_t height, width;
    size_t item_bytes;
    size_t swap_bytes;   /* unit whose bytes are reversed; 0: none */
    int64_t row_pitch;   /* 0 for packed frames that are one run */
    int64_t item_stride; /* PLAIN */
    int64_t frame_pitch;
    bool direct; /* rows lie in memory as they are stored: no conversion */
    bool dense;  /* direct, and one row follows the other */
} tg_frame_view;

/* How the first of `count` frames at `frames` is read. layout NULL: dense and native. height
 * and width in items, at least 1. TG_INVALID: a packed format for another dtype than uint16, or
 * with an item stride or swapped bytes; strides whose products overflow. Nothing at `frames` is
 * read. */
TG_MUST_USE tg_status tg_frame_view_init(tg_frame_view *v, const void *frames, size_t count,
                                         const tg_frame_layout *layout, uint64_t height,
                                         uint64_t width, tg_dtype dtype, tg_error *err);
/* The view of the next frame of the same call. */
void tg_frame_view_advance(tg_frame_view *v);
/* Row y as it is stored, if `direct`: width * item_bytes bytes. */
static inline const uint8_t *tg_frame_view_row(const tg_frame_view *v, uint64_t y)
{
    return v->base + (int64_t)y * v->row_pitch;
}
/* Items [x, x + n) of row y, dense and native, to dst (any alignment for PLAIN, of uint16 for
 * packed pixels). */
void tg_frame_view_read(const tg_frame_view *v, uint64_t y, uint64_t x, size_t n, void *dst);

#endif
