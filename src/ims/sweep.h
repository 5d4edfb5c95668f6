/* ims/sweep.h - scores the ions of a part's units: one pass over the sorted peaks, in order of
 * m/z. */
#ifndef TG_IMS_SWEEP_H
#define TG_IMS_SWEEP_H

#include "ims/keeper.h"
#include "ims/results.h"
#include "ims/units.h"

typedef struct tg_sweep_options {
    tg_imager_options imager;
    uint32_t first_unit, end_unit; /* of the part */
    const uint8_t *unit_done;      /* those that need not be done again */
    tg_keeper *keeper;             /* of the images of targets; NULL: they are not kept */
    int64_t deadline_ns;           /* no unit is begun after it; INT64_MAX: none */
    tg_progress_fn progress;
    void *progress_user;
} tg_sweep_options;

typedef struct tg_sweep_memory {
    uint32_t workers, slots;
    uint64_t near;       /* segments that the ions at work touch */
    bool prefetch;       /* a slot is left for it */
    uint64_t batch_ions; /* records that are made at a time */
    uint64_t per_worker, total;
} tg_sweep_memory;

/* How a sweep would use `free` bytes, images kept or not; TG_OVER_BUDGET with what would be
 * enough. */
TG_MUST_USE tg_status tg_sweep_plan(tg_sweep_memory *out, const tg_peaks *peaks,
                                    const tg_unit_plan *plan, bool keeps, uint64_t free,
                                    uint32_t width, tg_error *err);

/* The least free bytes for any of that, before there are peaks or units: of info the pixels,
 * the box and the segments are looked at; `largest`: ions of the largest unit. */
uint64_t tg_sweep_least(const tg_peaks_info *info, uint64_t largest, uint64_t n_units);

/* The most that a sweep can take of `free` bytes, before the peaks are sorted; of info and
 * largest as tg_sweep_least(). */
void tg_sweep_most(tg_sweep_memory *out, const tg_peaks_info *info, uint64_t largest,
                   uint64_t n_candidates, bool keeps, uint64_t free, uint32_t width);
/* Adds a record to the journal for each unit. *late (may be NULL): the deadline left units. */
TG_MUST_USE tg_status tg_sweep_run(const tg_ion_space *s, tg_peaks *peaks,
                                   const tg_unit_plan *plan, const tg_sweep_options *options,
                                   tg_runtime *rt, tg_journal *journal, bool *late,
                                   const tg_cancel *cancel, tg_error *err);

#endif
