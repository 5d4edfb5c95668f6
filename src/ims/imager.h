/* ims/imager.h - one ion at a time: its isotope images out of the peak store, and their scores.
 *
 * Images are sparse: the pixels that any of them touches, in the order in which they were first
 * touched, with four values each. Threads: one imager a thread; they share the store. */
#ifndef TG_IMS_IMAGER_H
#define TG_IMS_IMAGER_H

#include "chem/isotope.h"
#include "chem/metrics.h"
#include "ims/peaks.h"

typedef struct tg_imager_options {
    double ppm;
    uint32_t min_px; /* an image of fewer peaks is none */
    uint32_t levels; /* of chaos */
    bool fixed;
    tg_isotope_settings isotope;
} tg_imager_options;

typedef struct tg_scores {
    double msm, chaos, spatial, spectral;
    uint32_t n_pixels[TG_N_IMAGES];
    uint32_t n_images;
} tg_scores;

typedef struct tg_ion_stats {
    double mz_err_abs, mz_err_rel;
    float total[TG_N_IMAGES], min[TG_N_IMAGES], max[TG_N_IMAGES]; /* over all sampled pixels */
} tg_ion_stats;

typedef struct tg_imager tg_imager;

/* Memory of one imager. SIZE_MAX: the box is too large for chaos. */
size_t tg_imager_bytes(const tg_peaks_info *info);
TG_MUST_USE tg_status tg_imager_new(tg_imager **out, tg_peaks *peaks,
                                    const tg_imager_options *options, tg_error *err);
void tg_imager_free(tg_imager *m);
TG_DEFINE_AUTO_PTR(tg_imager, tg_imager_free)

/* Centroids of the ion. Status as tg_isotope_centroids(). */
TG_MUST_USE tg_status tg_imager_centroids(tg_imager *m, const char *ion, tg_centroids *out,
                                          tg_error *err);
/* The same for scoring: *left, with no centroids, if the first image is sure to be empty. */
TG_MUST_USE tg_status tg_imager_centroids_seen(tg_imager *m, const char *ion, tg_centroids *out,
                                               bool *left, const tg_cancel *cancel,
                                               tg_error *err);
/* Images of these centroids; stops after the first one if that is empty and `early`. */
TG_MUST_USE tg_status tg_imager_extract(tg_imager *m, const tg_centroids *c, bool early,
                                        const tg_cancel *cancel, tg_error *err);
/* Of the images extracted last. */
void tg_imager_score(tg_imager *m, const tg_centroids *c, tg_scores *out);
TG_MUST_USE tg_status tg_imager_stats(tg_imager *m, const tg_centroids *c, tg_ion_stats *out,
                                      const tg_cancel *cancel, tg_error *err);

/* The images extracted last: n touched pixels, values of image k (NULL: none). */
size_t tg_imager_pixels(const tg_imager *m, const uint32_t **pixels);
const float *tg_imager_image(const tg_imager *m, int k);

#endif
