/* ims/results.h - what a sweep finds out, as records of a journal (docs/formats/annotate.md):
 * one record a unit, with every ion whose score is above 0. */
#ifndef TG_IMS_RESULTS_H
#define TG_IMS_RESULTS_H

#include "base/journal.h"
#include "ims/imager.h"
#include "ims/side.h"

#define TG_ANNOTATE_JOURNAL_KIND  0x4e414754u /* "TGAN" */
#define TG_ANNOTATE_JOURNAL_MAJOR 1u

enum {
    TG_RECORD_DIGEST = 1, /* text: everything that the scores depend on */
    TG_RECORD_UNIT = 2,   /* tg_unit_head, then its tg_ion_results */
    TG_RECORD_END = 3     /* the part has no unit left */
};

typedef struct tg_unit_head {
    uint32_t unit, n_results;
    uint64_t n_ions;    /* unique ions looked for */
    uint64_t n_skipped; /* of them: without an isotope pattern */
} tg_unit_head;

/* One ion, as it lies in the file: little-endian, no padding. */
typedef struct tg_ion_result {
    uint64_t hash[2];
    double mz[TG_MAX_CENTROIDS];
    double msm, chaos, spatial, spectral;
    double mz_err_abs, mz_err_rel;
    float intensity[TG_MAX_CENTROIDS]; /* percent; the full digits come from the ion again */
    float total[TG_N_IMAGES], min[TG_N_IMAGES], max[TG_N_IMAGES];
    uint32_t n_pixels[TG_N_IMAGES];
    uint32_t formula, modifier;
} tg_ion_result;
_Static_assert(sizeof(tg_ion_result) == 184, "records are written as they lie in memory");
_Static_assert(sizeof(tg_unit_head) == 24, "records are written as they lie in memory");

/* --- The table of all that was found -------------------------------------------------------
 */

typedef struct tg_found {
    uint64_t hash[2];
    double msm;
    uint64_t offset; /* of its tg_ion_result in the journal of its part */
    uint32_t part;
    uint32_t unused;
} tg_found;

typedef struct tg_results {
    tg_found *found; /* by hash */
    uint64_t n_found;
    uint8_t *unit_done; /* n_units */
    uint32_t n_units, n_done;
    uint32_t n_parts, n_ended; /* parts whose journal says that they ended */
    uint64_t n_ions, n_skipped;
    int *fds; /* of the journals, for reading results again */
    char **paths;
    tg_budget *budget;
    uint64_t reserved;
} tg_results;

/* Read the journals of all parts in dir; one that is not there adds nothing. digest must be
 * theirs: TG_INVALID says that another run's options were others. Cut records at an end are
 * ignored, and so is what other processes add while this reads. */
TG_MUST_USE tg_status tg_results_read(tg_results **out, int dir, uint32_t n_parts,
                                      uint32_t n_units, const char *digest, tg_budget *budget,
                                      tg_error *err);
/* Memory that this takes for n_found ions. */
static inline uint64_t tg_results_bytes(uint64_t n_found, uint32_t n_units, uint32_t n_parts)
{
    return n_found * sizeof(tg_found) + n_units + n_parts * (sizeof(int) + 64 + sizeof(char *));
}
void tg_results_free(tg_results *r);
TG_DEFINE_AUTO_PTR(tg_results, tg_results_free)
/* NULL: its score was 0. */
const tg_found *tg_results_find(const tg_results *r, const uint64_t hash[2]);
TG_MUST_USE tg_status tg_results_get(const tg_results *r, const tg_found *f, tg_ion_result *out,
                                     tg_error *err);

#endif
