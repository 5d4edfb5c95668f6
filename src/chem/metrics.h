/* chem/metrics.h - the scores of one ion: how its isotope images agree with theory and with
 * each other, and how spatially ordered the first one is.
 *
 * Threads: pure functions; a tg_chaos is one thread's. */
#ifndef TG_CHEM_METRICS_H
#define TG_CHEM_METRICS_H

#include "base/auto.h"
#include "base/error.h"

#include <stdbool.h>

#define TG_N_IMAGES         4  /* isotope images of an ion */
#define TG_CHAOS_LEVELS     30 /* of the procedure */
#define TG_CHAOS_MAX_LEVELS 32

/* Pattern match. sums[k]: of image k over the pixels where image 0 is above 0, 0 for a missing
 * image. theory: intensities of the centroids, in any unit. 0 where it means nothing. */
double tg_score_spectral(const double sums[TG_N_IMAGES], const double theory[TG_N_IMAGES]);

/* Correlation of images 1-3 with image 0, weighted by theory. images[k]: n_touched values, NULL
 * for a missing image; touched pixels are all those that any image has a value for, the other
 * n_pixels - n_touched are 0 in all of them. In [0, 1]. */
double tg_score_spatial(const float *const images[TG_N_IMAGES], size_t n_touched,
                        uint64_t n_pixels, const double theory[TG_N_IMAGES]);

/* Spatial chaos. */
typedef struct tg_chaos tg_chaos;

/* Bytes that tg_chaos_new() takes for images of up to max_h rows of up to max_w pixels.
 * SIZE_MAX: too large. */
size_t tg_chaos_bytes(size_t max_h, size_t max_w);
TG_MUST_USE tg_status tg_chaos_new(tg_chaos **out, size_t max_h, size_t max_w, tg_error *err);
void tg_chaos_free(tg_chaos *c);
TG_DEFINE_AUTO_PTR(tg_chaos, tg_chaos_free)

typedef struct tg_chaos_result {
    double raw;   /* 1 - mean number of components / pixels above 0; NaN: no pixel above 0 */
    double score; /* raw, or 0 where raw means nothing or, unless fixed, is near 1 */
    uint64_t n_positive;
    uint32_t components[TG_CHAOS_MAX_LEVELS]; /* of each level, the lowest first */
} tg_chaos_result;

/* image: h x w values in rows, h <= max_h, w <= max_w; NaN and values <= 0 are never set. 1 <=
 * levels <= TG_CHAOS_MAX_LEVELS. */
void tg_chaos_measure(tg_chaos *c, const float *image, size_t h, size_t w, uint32_t levels,
                      bool fixed, tg_chaos_result *out);

#endif
