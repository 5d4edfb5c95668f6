/* ims/png.h - ion images as 16-bit grey with alpha: the mask of sampled pixels. */
#ifndef TG_IMS_PNG_H
#define TG_IMS_PNG_H

#include "base/mem.h"

#include <stdint.h>

/* What lies beside an image as text chunks, so that grey can become intensity again. */
typedef struct tg_png_text {
    const char *ion; /* "ims:ion" */
    int peak;        /* "ims:peak", from 0; < 0: neither ion nor peak */
    float min, max;  /* "ims:min", "ims:max": intensities of grey 0 and 65535 */
} tg_png_text;

/* Memory for one image of width x height. */
uint64_t tg_png_bytes(uint32_t width, uint32_t height);

/* A PNG of `values` (height rows of width), grey = trunc((v - min) / (max - min) * 65535), min
 * taken over the whole box; alpha 65535 at the n_pixels `positions` that were sampled, else 0.
 * A constant image is 65535 wherever it is above 0. */
TG_MUST_USE tg_status tg_png_encode(const float *values, uint32_t width, uint32_t height,
                                    const uint32_t *positions, uint64_t n_pixels,
                                    tg_png_text text, tg_buf *out, tg_error *err);

#endif
