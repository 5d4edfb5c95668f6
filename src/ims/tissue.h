/* ims/tissue.h - a made-up tissue with known truth: which ions are planted where, what else is
 * in its spectra, and the peaks of any pixel. Drawn from a seed alone, so that it needs no
 * memory that grows with the picture.
 *
 * In it are ions of the project's formulas in six shapes; families of peaks that look like
 * isotopes and belong to no formula, without which no decoy would ever score; and noise. */
#ifndef TG_IMS_MODEL_H
#define TG_IMS_MODEL_H

#include "base/mem.h"
#include "ims/peak_sort.h"

#include <stdbool.h>

#define TG_N_TISSUE_FORMULAS 343
#define TG_TISSUE_ISOTOPES   4
extern const char *const tg_tissue_formulas[TG_N_TISSUE_FORMULAS];

typedef struct tg_tissue_options {
    uint32_t width, height;
    uint64_t seed;
    uint32_t planted, families; /* planted: at most 3 * TG_N_TISSUE_FORMULAS */
    uint32_t noise;             /* peaks in a pixel */
    uint32_t fill;   /* so many peaks in every pixel, by more noise; 0: as they come */
    bool continuous; /* peaks lie on one axis */
} tg_tissue_options;

typedef struct tg_planted {
    uint32_t formula, adduct; /* 0 +H, 1 +Na, 2 +K */
    char ion[64];
    uint32_t shape;
    double amplitude;
    uint32_t n;
    double mz[TG_TISSUE_ISOTOPES], share[TG_TISSUE_ISOTOPES]; /* of the largest isotope */
} tg_planted;

extern const char *const tg_tissue_adducts[3];

typedef struct tg_tissue tg_tissue;

TG_MUST_USE tg_status tg_tissue_new(tg_tissue **out, const tg_tissue_options *options,
                                    tg_error *err);
void tg_tissue_free(tg_tissue *m);
TG_DEFINE_AUTO_PTR(tg_tissue, tg_tissue_free)
/* Memory of a tissue. */
uint64_t tg_tissue_bytes(const tg_tissue_options *options);

const tg_planted *tg_tissue_planted(const tg_tissue *m, uint32_t i);
/* A corner is missing: no spectrum there. */
bool tg_tissue_has_pixel(const tg_tissue *m, uint32_t x, uint32_t y);

/* The peaks of a pixel by rising m/z, the tissue's until the next call. Pixel of a record: its
 * place on the axis, with `continuous`. layer: another spectrum of the same pixel. */
void tg_tissue_pixel(tg_tissue *m, uint32_t x, uint32_t y, uint32_t layer,
                     const tg_peak **peaks, size_t *n);
/* The one m/z axis of continuous data. */
const double *tg_tissue_axis(const tg_tissue *m, size_t *n);

#endif
