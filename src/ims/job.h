/* ims/job.h - what the stages of an annotation share: its options with all defaults filled in,
 * its databases, its sorted peaks, its ions and units. */
#ifndef TG_IMS_JOB_H
#define TG_IMS_JOB_H

#include "ims/identity.h"
#include "ims/sweep.h"
#include "tidegate/annotate.h"

typedef struct tg_job {
    tg_runtime *rt;
    tg_budget *budget;
    tg_annotate_options o; /* as given */
    int version, charge;
    tg_imager_options imager;
    const char *default_adducts[3];
    tg_ion_options ions;
    tg_moldb **dbs;
    size_t n_dbs;
    tg_ims_source source;
    tg_identity data; /* of the two files; known with the peaks */
    bool data_was_known;
    char *side_dir;      /* <out>.tidegate */
    tg_store *peak_home; /* may be there before the peaks are asked for: a test's */
    char *peak_dir;      /* its place, where runs are spilled, too */
    bool beside_data;
    char *peak_prefix;
    uint64_t segment_bytes;
    tg_peaks *peaks;
    tg_ion_space *space;
    tg_unit_plan *plan;
    char *digest;           /* what scores depend on, a line each */
    uint32_t scores_crc32c; /* of that, but how it is cut into units and parts */
    /* told while the peaks were sorted */
    tg_peaks_built built;
    bool sorted_before;
    double sort_seconds;
    /* relays progress, and the caller's wish to stop to the token with the deadline */
    int64_t deadline_ns;
    tg_cancel *sorting;
    const tg_cancel *cancel;
} tg_job;

/* Options are judged and files opened, nothing is written. */
TG_MUST_USE tg_status tg_job_new(tg_job **out, tg_runtime *rt,
                                 const tg_annotate_options *options, const tg_cancel *cancel,
                                 tg_error *err);
/* The same without databases, and `out` may be NULL: to look at the data. */
TG_MUST_USE tg_status tg_job_bare(tg_job **out, tg_runtime *rt,
                                  const tg_annotate_options *options, const tg_cancel *cancel,
                                  tg_error *err);
void tg_job_free(tg_job *j);
TG_DEFINE_AUTO_PTR(tg_job, tg_job_free)

/* Open the sorted peaks; sort them first if no earlier run did. TG_TIMED_OUT: the deadline came
 * before they were. */
TG_MUST_USE tg_status tg_job_peaks(tg_job *j, tg_error *err);
/* Open the sorted peaks if they are there; makes no folder, and TG_NOT_FOUND if there are none.
 */
TG_MUST_USE tg_status tg_job_find_peaks(tg_job *j, tg_error *err);
/* Segments and pixels as the sorted peaks will have them, at most. */
tg_peaks_info tg_job_expected_peaks(const tg_job *j, const tg_imzml *m);
/* Sorting takes long: what cannot be annotated in this budget is refused before it. */
TG_MUST_USE tg_status tg_job_check_budget(tg_job *j, const tg_imzml *m, tg_error *err);
/* The charge of ions, by the options and by what the data say. tg_job_ions() does it, too. */
void tg_job_charge(tg_job *j, int polarity);
/* And the ions; tg_job_ions() does that, too. */
TG_MUST_USE tg_status tg_job_space(tg_job *j, int polarity, tg_error *err);
/* With the peaks: charge, ions, units, digest. */
TG_MUST_USE tg_status tg_job_ions(tg_job *j, tg_error *err);

/* All stages, as tg_annotate(). A test may have put a store of its own in `source` and as
 * `peak_home`, with `peak_dir`. */
TG_MUST_USE tg_status tg_job_run(tg_job *j, tg_annotate_result *result, const tg_cancel *cancel,
                                 tg_error *err);

/* Images whose FDR is not known when they are there: of parts, which another process merges,
 * and where all are wanted. One process that wants the best ones extracts those again. */
bool tg_job_keeps_images(const tg_job *j);
/* With peaks and units: memory for kept images, an eighth of `free` bytes at most; 0: none are
 * kept, or the sweep would not have enough beside it. */
uint64_t tg_job_kept_room(const tg_job *j, uint64_t free);

/* For progress callbacks of the stages. */
void tg_job_relay(void *user, const tg_progress *p);

double tg_job_seconds(int64_t since_ns);

#endif
