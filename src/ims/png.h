/* ims/png.h - ion images as 16-bit grey with alpha: the mask of sampled pixels. */
#ifndef TG_IMS_PNG_H
#define TG_IMS_PNG_H

#include "base/mem.h"

#include <stdint.h>

/* What lies beside an image as text chunks, so that grey can become intensity again: "ims:min"
 * and "ims:max", the intensities of grey 0 and 65535, and these. */
typedef struct tg_png_text {
    const char *ion; /* "ims:ion"; NULL: none, and no peak */
    int peak;        /* "ims:peak", from 0 */
} tg_png_text;

/* Encodes images of one size and one mask, one after the other, in room of its own. */
typedef struct tg_png tg_png;

/* Memory of an encoder for images of width x height. */
uint64_t tg_png_bytes(uint32_t width, uint32_t height);
/* Alpha is 65535 at the n_pixels `positions` that were sampled, else 0. TG_UNSUPPORTED: more
 * than 2 GiB a chunk. */
TG_MUST_USE tg_status tg_png_new(tg_png **out, uint32_t width, uint32_t height,
                                 const uint32_t *positions, uint64_t n_pixels, tg_error *err);
void tg_png_free(tg_png *p);
TG_DEFINE_AUTO_PTR(tg_png, tg_png_free)

/* A PNG of `values` (height rows of width), grey = trunc((v - min) / (max - min) * 65535), min
 * taken over the whole box. A constant image is 65535 wherever it is above 0. *out is borrowed
 * until the next call. */
TG_MUST_USE tg_status tg_png_encode(tg_png *p, const float *values, tg_png_text text,
                                    tg_bytes *out, tg_error *err);

#endif
