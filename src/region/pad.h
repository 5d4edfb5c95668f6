/* region/pad.h - what a call sees beyond the border of IN (--pad): by names of numpy.pad. Pure:
 * knows no plan, no file. */
#ifndef TG_REGION_PAD_H
#define TG_REGION_PAD_H

#include "nd/nd.h"

typedef enum tg_pad_kind {
    TG_PAD_NONE,     /* nothing: the view ends with the array */
    TG_PAD_CONSTANT, /* item: of "constant:VALUE" (0), of "fill" IN's fill value */
    TG_PAD_EDGE,     /* a a a | a b c | c c c; scipy: nearest */
    TG_PAD_REFLECT,  /* d c b | a b c d | c b a; scipy: mirror */
    TG_PAD_SYMMETRIC /* c b a | a b c d | d c b; scipy: reflect */
} tg_pad_kind;

typedef struct tg_pad {
    tg_pad_kind kind;
    uint8_t item[16];
} tg_pad;

/* The kind alone. NULL and "": none. TG_INVALID. */
TG_MUST_USE tg_status tg_pad_parse_kind(const char *text, tg_pad_kind *out, tg_error *err);
/* And the item: of this type, fill (NULL: zeros) the array's. TG_INVALID: no such value. */
TG_MUST_USE tg_status tg_pad_parse(const char *text, tg_dtype t, const uint8_t *fill,
                                   tg_pad *out, tg_error *err);
/* May a margin of `halo` items be made of an array of `extent`? TG_INVALID, with both: a
 * mirror shows each item once at most. */
TG_MUST_USE tg_status tg_pad_check(tg_pad_kind kind, uint64_t halo, uint64_t extent,
                                   uint32_t dimension, tg_error *err);
/* Items of `view`, dense, C order, outside of `there`, a box of it that is not empty. */
void tg_pad_fill(const tg_pad *p, uint8_t *view, const tg_shape *shape, const tg_box *there,
                 size_t item_bytes);

#endif
