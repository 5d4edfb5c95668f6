/* ims/peaks.h - the peak store: all peaks of a data set, sorted by m/z once, as a Zarr group of
 * three columns in segments of one object each (docs/formats/peak-store.md).
 *
 * A segment is read whole and its checksums verified; segments that were read stay in a cache
 * of slots until the slots are needed.
 *
 * Threads: pinning and unpinning from many threads; all else from one. */
#ifndef TG_IMS_PEAKS_H
#define TG_IMS_PEAKS_H

#include "ims/imzml.h"
#include "ims/peak_sort.h"

#define TG_PEAK_BYTES 16 /* of a peak in its three columns */

/* --- Building ------------------------------------------------------------------------ */

typedef struct tg_peaks_options {
    uint64_t segment_bytes; /* three columns together */
    bool drop_infinite;     /* the fixed mode */
    const char *spill_dir;  /* an existing local directory, for sorted runs */
    tg_progress_fn progress;
    void *progress_user;
} tg_peaks_options;

typedef struct tg_peaks_built {
    uint64_t n_peaks, dropped_mz, dropped_intensity, infinite;
    uint64_t runs, spilled_bytes, requests, bytes_read;
    double first_seconds; /* until all runs were sorted and spilled */
} tg_peaks_built;

/* Sort the peaks of m and write the store at `prefix` (a group of its own; its document comes
 * last, and makes it one). What of the budget is free is used. m->odd gains what the arrays
 * show. TG_OVER_BUDGET says what would be enough. */
TG_MUST_USE tg_status tg_peaks_build(tg_imzml *m, tg_store *store, const char *prefix,
                                     const tg_peaks_options *options, tg_runtime *rt,
                                     tg_peaks_built *built, const tg_cancel *cancel,
                                     tg_error *err);
/* What of `free` bytes a build would take, and spill to the disk. TG_OVER_BUDGET: as it would.
 */
TG_MUST_USE tg_status tg_peaks_build_plan(const tg_imzml *m, uint64_t segment_bytes,
                                          uint64_t free, uint32_t width, uint64_t *bytes,
                                          uint64_t *spilled, tg_error *err);
/* The least free budget with which a data set can be sorted. */
uint64_t tg_peaks_build_bytes(const tg_imzml *m, uint64_t segment_bytes);

/* --- Reading ---------------------------------------------------------------------------- */

typedef struct tg_peaks tg_peaks;

typedef struct tg_peaks_info {
    uint64_t n_peaks, segment_peaks, n_segments;
    uint64_t n_pixels, n_spectra;
    uint32_t width, height;
    double mz_min, mz_max;
    const uint32_t *positions; /* of the pixels in the box */
    const float *tic;          /* sum of intensities of each pixel */
    int polarity;              /* +1, -1, 0: not known or both */
    bool truncated;            /* a cut ibd was read as far as it goes */
    const char *oddities;      /* what was odd about the data, a JSON array */
} tg_peaks_info;

/* TG_NOT_FOUND: there is none, or it was never finished. The tables of pixels and segments are
 * reserved from the budget. */
TG_MUST_USE tg_status tg_peaks_open(tg_peaks **out, tg_store *store, const char *prefix,
                                    tg_budget *budget, const tg_cancel *cancel, tg_error *err);
void tg_peaks_free(tg_peaks *p);
TG_DEFINE_AUTO_PTR(tg_peaks, tg_peaks_free)
const tg_peaks_info *tg_peaks_get_info(const tg_peaks *p);

/* The windows of an ion lie this near to the mass of its most abundant isotopes, in u: those of
 * nearly all, and an ion beyond costs a segment read again. */
#define TG_ION_REACH 6.0
/* Most segments that a range of m/z of this width touches. */
uint64_t tg_peaks_reach(const tg_peaks *p, double width);

/* What a sweep wants beside the segments, and how many of those its ions touch at a time. */
typedef struct tg_peaks_share {
    const char *what;
    uint64_t own, per_worker;     /* bytes */
    uint64_t reach, reach_beside; /* segments: of a worker alone, of each among others */
} tg_peaks_share;
/* Divide `free` bytes between workers, at most `width`, and slots. Ions come by rising m/z, and
 * the segment that lies furthest behind gives way: with as many slots as segments are touched
 * at a time each is read once, so workers are left out rather than slots. TG_OVER_BUDGET: not
 * even one worker and two segments. */
TG_MUST_USE tg_status tg_peaks_divide(const tg_peaks_share *share, uint64_t n_segments,
                                      uint64_t slot_bytes, uint64_t free, uint32_t width,
                                      uint32_t *workers, uint32_t *slots, tg_error *err);
/* The least with which that works. */
uint64_t tg_peaks_least(const tg_peaks_share *share, uint64_t n_segments, uint64_t slot_bytes);

/* Take n_slots slots for segments from the budget, before the first pin. near: segments this
 * far behind the one that is loaded are likely to be wanted again, those further behind are
 * not. prefetch: a thread loads the segment behind the one that was loaded last. */
TG_MUST_USE tg_status tg_peaks_cache(tg_peaks *p, uint32_t n_slots, uint64_t near,
                                     bool prefetch, tg_error *err);
/* Give the slots back; nothing is pinned. */
void tg_peaks_uncache(tg_peaks *p);
uint64_t tg_peaks_slot_bytes(const tg_peaks *p);
uint64_t tg_peaks_table_bytes(const tg_peaks_info *i); /* taken while it is open */
uint64_t tg_peaks_slot_bytes_of(uint64_t segment_peaks);

typedef struct tg_peak_view {
    uint32_t segment, slot;
    size_t n;
    const double *mz;
    const float *intensity;
    const uint32_t *pixel;
} tg_peak_view;

/* Hold a segment in memory. A thread pins one at a time, and waits while all slots are pinned
 * by others. */
TG_MUST_USE tg_status tg_peaks_pin(tg_peaks *p, uint32_t segment, tg_peak_view *view,
                                   const tg_cancel *cancel, tg_error *err);
void tg_peaks_unpin(tg_peaks *p, const tg_peak_view *view);

/* First and one past the last segment that may hold peaks of [lower, upper]. */
void tg_peaks_segments(const tg_peaks *p, double lower, double upper, uint32_t *first,
                       uint32_t *end);
/* Number of peaks in the segments before m/z, by the segments' bounds and even spacing within:
 * an estimate, for costs. */
double tg_peaks_rank(const tg_peaks *p, double mz);

typedef struct tg_peaks_counts {
    uint64_t loads, requests, bytes;
} tg_peaks_counts;
tg_peaks_counts tg_peaks_counted(tg_peaks *p);

#endif
