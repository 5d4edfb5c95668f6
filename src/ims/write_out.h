/* ims/write_out.h - what an annotation leaves behind: tables, images, manifest. */
#ifndef TG_IMS_WRITE_OUT_H
#define TG_IMS_WRITE_OUT_H

#include "ims/job.h"
#include "ims/rank.h"
#include "zarr/zarr.h"

#define TG_OUT_KEY_BYTES  256
#define TG_ANNDATA_NAME   "anndata.zarr"
#define TG_ANNDATA_FOLDER "anndata.zarr/"

#define TG_ANNOTATION_COLUMNS                                                              \
    "database,formula,adduct,neutral_loss,chem_mod,ion,mz,fdr,msm,chaos,spatial,spectral," \
    "n_pixels,mz_err_abs,mz_err_rel,min_intensity,max_intensity,total_intensity,"          \
    "molecule_names,molecule_ids\n"

/* Names of all that an annotation writes, but its manifest and what it leaves at a deadline; a
 * folder's ends in '/'. Ended by NULL. */
extern const char *const tg_output_names[];

/* annotations.csv and fdr_curve.csv; or, where not all is scored, annotations.partial.csv:
 * every target with a score, its FDR only where it is known. *n_rows: written. */
TG_MUST_USE tg_status tg_write_tables(const tg_job *j, const tg_results *results,
                                      const tg_ranking *ranking, tg_store *out, bool whole,
                                      uint64_t *n_rows, tg_error *err);
/* scores.csv: every ion with a score, by m/z, with the values of all its peaks. */
TG_MUST_USE tg_status tg_write_scores(const tg_job *j, const tg_results *results, tg_store *out,
                                      tg_error *err);
/* manifest.json, written last: its digests make the results whole. */
TG_MUST_USE tg_status tg_write_manifest(const tg_job *j, const tg_results *results,
                                        const tg_ranking *ranking, uint64_t n_rows,
                                        uint64_t n_images, tg_store *out, tg_error *err);
/* What a manifest says came of it, into r. TG_INVALID: it is of other data or options. */
TG_MUST_USE tg_status tg_read_manifest(const tg_job *j, const char *text, size_t len,
                                       tg_annotate_result *r, tg_error *err);
/* tic.png; the ion images as PNG (those that `kept` has are not extracted; NULL: none), and
 * their first peaks as one OME-Zarr stack. */
TG_MUST_USE tg_status tg_write_images(tg_job *j, const tg_results *results,
                                      const tg_ranking *ranking, const tg_kept *kept,
                                      tg_store *out, uint64_t *n_images, uint64_t *n_kept,
                                      const tg_cancel *cancel, tg_error *err);
/* An ion whose images are written, once, whatever the databases that hold it. */
typedef struct tg_kept_ion {
    double mz;
    uint64_t formula;
    uint64_t hash[2];
    uint32_t target;
    float most; /* of its first image */
    double fdr; /* the least */
} tg_kept_ion;

/* Memory of tg_write_anndata(), that of the ions aside. */
uint64_t tg_anndata_memory(const tg_peaks_info *info);
/* The planes of the stack, one an ion, as pixels x ions. */
TG_MUST_USE tg_status tg_write_anndata(const tg_job *j, const tg_results *results,
                                       tg_array *stack, const tg_kept_ion *ions,
                                       uint64_t n_ions, tg_store *out, const tg_cancel *cancel,
                                       tg_error *err);
/* The least free bytes for that, if the images of n_ions are kept; of info as
 * tg_sweep_least(). */
uint64_t tg_write_images_least(const tg_peaks_info *info, uint64_t n_ions);
/* The most, with images kept before or not. */
uint64_t tg_write_images_most(const tg_peaks_info *info, bool kept, uint64_t n_ions,
                              uint32_t width);
/* Is the row to be written? */
static inline bool tg_row_is_kept(const tg_job *j, const tg_annotation *a)
{
    return a->fdr <= j->o.fdr; /* false for NaN */
}

#endif
