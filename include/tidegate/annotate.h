/* tidegate/annotate.h - imaging mass spectrometry: look at data sets, annotate them. */
#ifndef TG_ANNOTATE_H
#define TG_ANNOTATE_H

#include "tidegate/cancel.h"
#include "tidegate/error.h"
#include "tidegate/progress.h"
#include "tidegate/runtime.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Data sets ------------------------------------------------------------ */

typedef enum tg_ims_strict {
    TG_IMS_AS_USUAL,  /* oddities are told, faults end the reading */
    TG_IMS_ALL_RULES, /* lengths that do not fit each other are faults, too */
    TG_IMS_FORGIVING  /* broken spectra are left out, a cut file is used as far as it goes */
} tg_ims_strict;

typedef enum tg_ims_kind {                          /* of spectra */
                           TG_IMS_KIND_AS_DECLARED, /* and told if the values look otherwise */
                           TG_IMS_KIND_CENTROID,
                           TG_IMS_KIND_PROFILE
} tg_ims_kind;

typedef struct tg_ims_options {
    size_t size; /* sizeof(tg_ims_options) */
    tg_ims_strict strict;
    bool duplicates_fail; /* two spectra on one pixel are a fault; else they are added up */
    bool grid_from_3d;    /* pixels from the user parameters 3DPositionX, 3DPositionY */
    tg_ims_kind kind; /* for the note on profile data, which is taken when peaks are sorted */
} tg_ims_options;

/* What an .imzML says and what was found odd, as one JSON object; the caller's, tg_free(). url:
 * a path, "x.zip|zip:a.imzML", a URL of a store. options may be NULL. */
TG_API TG_MUST_USE tg_status tg_ims_info(tg_runtime *rt, const char *url,
                                         const tg_ims_options *options, char **json,
                                         const tg_cancel *cancel, tg_error *err);

/* Is the .ibd the one that the .imzML was written with, and whole: UUID, checksum if one is
 * declared, every range, every array inflated. *bad: number of things that are not; each is
 * told to `tell` in a line. TG_OK also if there are some. */
TG_API TG_MUST_USE tg_status tg_ims_verify(tg_runtime *rt, const char *url,
                                           void (*tell)(void *user, const char *line),
                                           void *user, uint64_t *bad, tg_progress_fn progress,
                                           void *progress_user, const tg_cancel *cancel,
                                           tg_error *err);

/* --- Made-up data with known truth ----------------------------------------- */

typedef enum tg_ims_number {
    TG_IMS_NUMBER_F64,
    TG_IMS_NUMBER_F32,
    TG_IMS_NUMBER_I32,
    TG_IMS_NUMBER_I64
} tg_ims_number;

typedef enum tg_ims_broken {
    TG_IMS_BROKEN_NOT,
    TG_IMS_BROKEN_UUID,     /* the two files have different ones */
    TG_IMS_BROKEN_CHECKSUM, /* not that of the .ibd */
    TG_IMS_BROKEN_CUT       /* a quarter of the .ibd is missing */
} tg_ims_broken;

typedef struct tg_ims_generate_options {
    size_t size;                   /* sizeof(tg_ims_generate_options) */
    const char *out;               /* path without extension; nothing there is replaced */
    uint32_t width, height, depth; /* planes: further spectra of the same pixels, with a z */
    uint64_t seed;
    uint32_t planted;  /* ions: formulas of the project's list with +H, +Na or +K */
    uint32_t families; /* of isotopes that belong to no formula, in small discs */
    uint32_t noise;    /* peaks in each spectrum */
    uint32_t fill;     /* so many peaks in each spectrum, by more noise; 0: as they come */
    bool continuous;   /* one m/z axis */
    bool deflated;     /* zlib arrays */
    bool zero_based, shuffled;
    tg_ims_number mz, intensity;
    tg_ims_broken broken;
    tg_progress_fn progress;
    void *progress_user;
} tg_ims_generate_options;

typedef struct tg_ims_generate_result {
    size_t size; /* sizeof(tg_ims_generate_result), set by the caller */
    uint64_t spectra, peaks, xml_bytes, ibd_bytes;
} tg_ims_generate_result;

/* Write OUT.imzML and OUT.ibd, OUT.db.csv (the formulas) and OUT.truth.csv (the planted ions).
 * The same bytes for the same options on the same machine. Memory does not grow with the number
 * of spectra. TG_EXISTS: one of the files is there. */
TG_API TG_MUST_USE tg_status tg_ims_generate(tg_runtime *rt,
                                             const tg_ims_generate_options *options,
                                             tg_ims_generate_result *result,
                                             const tg_cancel *cancel, tg_error *err);

/* --- Annotation ----------------------------------------------------------- */

typedef enum tg_annotate_instrument {
    TG_INSTRUMENT_ORBITRAP,
    TG_INSTRUMENT_TOF,
    TG_INSTRUMENT_FTICR
} tg_annotate_instrument;

typedef enum tg_annotate_images {
    TG_IMAGES_FDR, /* of ions with FDR <= fdr */
    TG_IMAGES_ALL, /* of every target ion with a score above 0 */
    TG_IMAGES_NONE
} tg_annotate_images;

typedef struct tg_annotate_options {
    size_t size;      /* sizeof(tg_annotate_options) */
    const char *data; /* the .imzML, as for tg_ims_info() */
    const char *out;  /* a local directory; made if it is not there */
    tg_ims_options reading;
    const char *const *databases; /* CSV or TSV files */
    size_t n_databases;
    bool strict_db; /* METASPACE's upload rules */
    const char *const *adducts, *const *losses, *const *mods;
    size_t n_adducts; /* 0: +H +Na +K, or -H +Cl by the polarity */
    size_t n_losses, n_mods;
    int polarity; /* +1, -1; 0: by the data, + if that does not say */
    int version;  /* of the procedure: 1 or 3; 0: 3 */
    bool fixed;   /* with the reference's defects mended (docs/annotation.md) */
    tg_annotate_instrument instrument;
    double sigma;                     /* of a peak at m/z 200; 0: .001238 */
    double resolving_power, power_mz; /* instead of sigma; 0: none */
    double ppm;                       /* 0: 3 */
    uint32_t decoys;                  /* 0: 20 */
    bool has_seed;                    /* else 42 */
    uint32_t seed;
    double fdr; /* rows and images up to it; 0: 0.5 */
    tg_annotate_images images;
    bool scores;             /* also scores.csv: every ion with a score, decoys too */
    uint64_t segment_bytes;  /* of sorted peaks per object and read; 0: TG_ANNOTATE_SEGMENT */
    double deadline_seconds; /* no work is begun after it; 0: none */
    uint32_t part, n_parts;  /* n_parts 0: all */
    bool part_auto; /* part is the index of a job array or MPI rank in the environment */
    bool merge;     /* only put the parts together; n_parts 0: as many as were begun */
    bool resume;    /* go on where an earlier run was stopped; nothing to do if all is done */
    bool overwrite; /* replace an earlier annotation in `out` */
    tg_progress_fn progress;
    void *progress_user;
} tg_annotate_options;

#define TG_ANNOTATE_DATABASES 64      /* most in one run */
#define TG_ANNOTATE_SEGMENT   4194304 /* bytes, also the default of the command: 4 MiB */

typedef struct tg_annotate_result {
    size_t size; /* sizeof(tg_annotate_result), set by the caller */
    uint64_t spectra, pixels, peaks;
    uint64_t formulas;     /* unique neutral formulas */
    uint64_t ions;         /* unique ions looked for, decoys included, as far as it went */
    uint64_t annotated[4]; /* targets with FDR <= .05, .1, .2, .5, all databases together */
    uint32_t n_databases;
    uint64_t database_annotated[TG_ANNOTATE_DATABASES][4];
    char database_name[TG_ANNOTATE_DATABASES][64];
    uint64_t rows, images; /* written */
    uint64_t images_kept;  /* of these: kept while the ions were scored, not extracted again */
    uint64_t segments;     /* that were read, for scores and for images */
    uint64_t requests;     /* for the input, the segments and the images */
    uint64_t spilled_bytes;
    bool sorted_before; /* the sorted peaks of an earlier run were used */
    double fraction_done;
    double sort_seconds, score_seconds, rank_seconds, image_seconds, seconds;
    /* most that was reserved of the budget while a stage ran */
    uint64_t sort_memory, score_memory, rank_memory, image_memory;
    bool whole;    /* all units are done and merged */
    bool late;     /* the deadline was reached */
    bool cut_data; /* a cut .ibd was read as far as it goes */
} tg_annotate_result;

/* Annotate: sort the peaks once (beside the data, for later runs too), score every ion, rank,
 * write `out`: annotations.csv, fdr_curve.csv, images, manifest.json. What is scored is kept in
 * `<out>.tidegate/` until all is merged. TG_OK also at a deadline (late; what is done is in
 * annotations.partial.csv) and for a part that is not the last. TG_CANCELLED: `resume` goes on.
 * TG_BUSY: another process is at the same part; or `merge` before all parts are done.
 * TG_EXISTS: out has an annotation, or one that was begun. TG_OVER_BUDGET, TG_INVALID: refused
 * before any work. */
TG_API TG_MUST_USE tg_status tg_annotate(tg_runtime *rt, const tg_annotate_options *options,
                                         tg_annotate_result *result, const tg_cancel *cancel,
                                         tg_error *err);

/* --- What it will take ------------------------------------------------------------ */

typedef struct tg_annotate_stage {
    uint64_t memory_bytes; /* reserved of the budget, at most */
    double seconds;        /* an estimate, from samples measured on this machine */
} tg_annotate_stage;

typedef struct tg_annotate_forecast {
    size_t size; /* sizeof(tg_annotate_forecast), set by the caller */
    uint64_t spectra, pixels, peaks, formulas, segments;
    uint64_t ions;      /* before equal ones are joined */
    bool sorted_before; /* an earlier run's sorted peaks are there */
    uint32_t workers;   /* ions scored side by side */
    uint64_t spilled_bytes, budget_bytes;
    tg_annotate_stage sort, score;
    tg_annotate_stage rank,
        images;            /* memory: as if every ion had a score, capped at the budget */
    uint64_t memory_bytes; /* of the stage that takes most */
    double seconds;
} tg_annotate_forecast;

/* Memory and time of an annotation by these options, stage by stage. Nothing is written, and
 * little is read: the .imzML, if no run has sorted the peaks yet, and samples. Refuses what
 * tg_annotate() would refuse, with the same words. */
TG_API TG_MUST_USE tg_status tg_annotate_plan(tg_runtime *rt,
                                              const tg_annotate_options *options,
                                              tg_annotate_forecast *out,
                                              const tg_cancel *cancel, tg_error *err);

/* --- Formats of ion images, compared -------------------------------------------------- */

enum {
    TG_IMAGE_RAW,     /* pixel and value, 8 bytes */
    TG_IMAGE_DEFLATE, /* these, by zlib's level 6 */
    TG_IMAGE_ZSTD,    /* differences of pixels and values, by level 1: what blocks hold */
    TG_IMAGE_BITS,    /* pixels in as few bits as the last one wants, and values */
    TG_IMAGE_PNG16,   /* the whole box in 65536 steps: not exact */
    TG_N_IMAGE_FORMATS
};

typedef struct tg_image_format {
    const char *name;
    bool exact;
    uint64_t bytes, memory_bytes; /* of all images; what one thread takes to encode */
    double seconds;
} tg_image_format;

typedef struct tg_image_formats {
    size_t size;             /* sizeof(tg_image_formats), set by the caller */
    uint64_t images, pixels; /* pixels: that are not 0, of all images */
    tg_image_format of[TG_N_IMAGE_FORMATS];
} tg_image_formats;

/* Encode images of the targets of an annotation, some 2000 at most, in each format, in this
 * thread. Writes nothing but the sorted peaks, if no run has. */
TG_API TG_MUST_USE tg_status tg_ims_image_formats(tg_runtime *rt,
                                                  const tg_annotate_options *options,
                                                  tg_image_formats *out,
                                                  const tg_cancel *cancel, tg_error *err);

/* --- Parts of an annotation, timed alone ----------------------------------------------- */

enum {
    TG_IMS_PART_XML,       /* bytes of the .imzML, read into the table of spectra */
    TG_IMS_PART_EXPAT,     /* the same bytes, by a bare parser that does nothing with them */
    TG_IMS_PART_SORT,      /* peaks, read, sorted and spilled: the first pass */
    TG_IMS_PART_CENTROIDS, /* formulas */
    TG_IMS_PART_METRICS,   /* ions of 400 pixels in each of 4 images: spectral and spatial */
    TG_IMS_PART_CHAOS,     /* images */
    TG_N_IMS_PARTS
};

typedef struct tg_ims_parts_options {
    size_t size;         /* sizeof(tg_ims_parts_options) */
    const char *data;    /* an .imzML; NULL leaves out the parts that want it */
    const char *scratch; /* an existing folder that may be filled */
    const char *formulas;
    tg_annotate_instrument instrument; /* of the centroids, which have one positive charge */
    double resolving_power;            /* at m/z 200 */
    const float *images;               /* n_images of height rows; NULL leaves chaos out */
    size_t n_images, height, width;
} tg_ims_parts_options;

typedef struct tg_ims_parts {
    size_t size;                                           /* sizeof, set by the caller */
    double count[TG_N_IMS_PARTS], seconds[TG_N_IMS_PARTS]; /* 0: left out */
    uint64_t centroids, refused; /* of all formulas, to compare; those that have none */
    double chaos;                /* of the first image */
} tg_ims_parts;

/* One round: each part once, in this thread. */
TG_API TG_MUST_USE tg_status tg_ims_time_parts(tg_runtime *rt,
                                               const tg_ims_parts_options *options,
                                               tg_ims_parts *out, const tg_cancel *cancel,
                                               tg_error *err);

/* --- One ion ------------------------------------------------------------------ */

typedef struct tg_ion_peak {
    double mz, intensity;   /* theoretical; percent of the highest peak */
    uint64_t n_pixels;      /* of its image that are above 0 */
    double total, min, max; /* of its image, over all pixels with a spectrum */
} tg_ion_peak;

typedef struct tg_ion_view {
    size_t size; /* sizeof(tg_ion_view), set by the caller */
    char ion[128];
    int charge;
    uint32_t width, height;
    uint64_t pixels; /* with a spectrum */
    uint32_t n_peaks;
    tg_ion_peak peak[4]; /* by m/z */
    double msm, chaos, spatial, spectral;
    double mz_err_abs, mz_err_rel;
    uint32_t images; /* written */
    double seconds;
} tg_ion_view;

/* Images and scores of one ion, "C37H71O8P+K", by the options of an annotation; its databases,
 * parts and ranks are not looked at. With options->out the images go there as ION_PEAK.png; it
 * may be NULL. The peaks are sorted first if no run did. TG_INVALID: no such ion; TG_EXISTS:
 * out holds an annotation. */
TG_API TG_MUST_USE tg_status tg_annotate_ion(tg_runtime *rt, const tg_annotate_options *options,
                                             const char *ion, tg_ion_view *view,
                                             const tg_cancel *cancel, tg_error *err);

#ifdef __cplusplus
}
#endif
#endif
