/* ims/imzml.h - the index of an imaging mass spectrometry data set: where each spectrum's
 * arrays lie in the .ibd file, and which pixel it belongs to. Made from the .imzML by one
 * streaming pass; 40 bytes a spectrum.
 *
 * Pixels are those that have a spectrum, numbered 0 .. n_pixels - 1 in the order of rows of the
 * bounding box. Spectra with the same (x, y) share a pixel. */
#ifndef TG_IMS_IMZML_H
#define TG_IMS_IMZML_H

#include "exec/exec.h"
#include "ims/source.h"
#include "tidegate/annotate.h"

typedef enum tg_ims_type {
    TG_IMS_NO_TYPE,
    TG_IMS_F32,
    TG_IMS_F64,
    TG_IMS_I32,
    TG_IMS_I64
} tg_ims_type;
size_t tg_ims_type_bytes(tg_ims_type t);

enum { TG_IMS_MZ, TG_IMS_INTENSITY }; /* which array */

typedef struct tg_spectrum {
    uint64_t offset[2];  /* in the ibd, of the m/z and the intensity array */
    uint32_t encoded[2]; /* bytes there */
    uint32_t count;      /* values of each */
    int32_t x, y;        /* as written in the file */
    uint8_t type[2];     /* tg_ims_type */
    uint8_t deflated[2];
} tg_spectrum;

/* What is odd but no failure. Counted; the first of each kind is told in words. */
typedef enum tg_ims_oddity {
    TG_ODD_UUID,      /* the ibd's differs, or there is none */
    TG_ODD_COUNT,     /* spectrumList count is not the number of spectra */
    TG_ODD_LENGTH,    /* encoded length does not fit the number of values */
    TG_ODD_TYPE,      /* accession and name of a term disagree */
    TG_ODD_MODE,      /* declared continuous or processed, but is not */
    TG_ODD_PROFILE,   /* profile data, or not known */
    TG_ODD_DUPLICATE, /* spectra on one pixel */
    TG_ODD_PLANES,    /* more than one z */
    TG_ODD_DENSITY,   /* few pixels in a large box */
    TG_ODD_ONE_PIXEL, /* all spectra on one pixel */
    TG_ODD_SKIPPED,   /* lenient: spectra left out */
    TG_ODD_TRUNCATED, /* lenient: the ibd ends early */
    TG_ODD_UNSORTED,  /* m/z values of a spectrum do not rise */
    TG_ODD_MZ,        /* m/z values not finite or outside (0, 1e5): dropped */
    TG_ODD_INTENSITY, /* intensities that are not finite */
    TG_N_ODDITIES
} tg_ims_oddity;

typedef struct tg_ims_odd {
    uint64_t count;
    char first[200];
} tg_ims_odd;

const char *tg_ims_oddity_name(tg_ims_oddity kind);

typedef enum tg_ims_strictness {
    TG_IMS_NORMAL,
    TG_IMS_STRICT,
    TG_IMS_LENIENT
} tg_ims_strictness;

typedef struct tg_imzml_options {
    tg_ims_strictness strictness;
    bool duplicates_fail; /* two spectra on one pixel are a failure */
    bool grid_from_3d;    /* pixels from 3DPositionX/Y (um) over the pixel size */
    tg_ims_kind kind;
} tg_imzml_options;
tg_imzml_options tg_imzml_options_of(const tg_ims_options *o);

typedef enum tg_ims_sum { TG_SUM_NONE, TG_SUM_MD5, TG_SUM_SHA1, TG_SUM_SHA256 } tg_ims_sum;

typedef struct tg_imzml {
    tg_ims_source source;
    /* as declared */
    bool declared_continuous, declared_processed, declared_centroid, declared_profile;
    bool positive, negative;
    uint8_t uuid[16];
    bool has_uuid;
    tg_ims_sum sum;
    char sum_hex[65]; /* lower case */
    uint64_t declared_spectra, declared_width, declared_height;
    double pixel_size[2]; /* um, 0: not given */
    uint32_t xml_crc32c;
    /* as found */
    uint64_t n_spectra, n_peaks;
    uint64_t ibd_bytes;
    bool continuous; /* more than one spectrum, and all share one m/z array */
    bool truncated;  /* lenient: spectra at the end are missing */
    bool kind_given; /* centroid or profile by the options: not judged */
    uint32_t width, height;
    int32_t x_min, y_min;
    uint64_t n_pixels;
    uint32_t *positions;         /* of the pixels in the box: row * width + column, rising */
    uint64_t max_spectrum_bytes; /* in the ibd, both arrays */
    uint32_t max_count;
    tg_ims_odd odd[TG_N_ODDITIES];
    /* the index, in blocks that never move */
    tg_spectrum **blocks;
    size_t n_blocks, cap_blocks;
    tg_budget *budget; /* NULL: not counted */
    uint64_t reserved;
} tg_imzml;

/* Reads and checks everything but the ibd's arrays and checksum. budget may be NULL. TG_CORRUPT
 * names the spectrum and what is wrong, TG_OVER_BUDGET: the index does not fit. */
TG_MUST_USE tg_status tg_imzml_open(tg_imzml **out, const char *url,
                                    const tg_imzml_options *options, tg_budget *budget,
                                    const tg_cancel *cancel, tg_error *err);
void tg_imzml_free(tg_imzml *m);
TG_DEFINE_AUTO_PTR(tg_imzml, tg_imzml_free)

#define TG_SPECTRA_PER_BLOCK 4096
static inline tg_spectrum *tg_imzml_spectrum(const tg_imzml *m, uint64_t i)
{
    return &m->blocks[i / TG_SPECTRA_PER_BLOCK][i % TG_SPECTRA_PER_BLOCK];
}
/* The pixel of a spectrum. */
uint32_t tg_imzml_pixel(const tg_imzml *m, const tg_spectrum *s);

/* Count an oddity; the first of its kind keeps its words. */
void tg_ims_note(tg_ims_odd odd[TG_N_ODDITIES], tg_ims_oddity kind, uint64_t count,
                 const char *fmt, ...) TG_PRINTF(4, 5);

/* They that were met, as the members of a JSON array. */
void tg_ims_oddities_json(tg_text *out, const tg_ims_odd odd[TG_N_ODDITIES]);

/* For tests and fuzzing: the same from a store that the caller keeps. */
TG_MUST_USE tg_status tg_imzml_open_store(tg_imzml **out, tg_store *store, const char *key,
                                          const tg_imzml_options *options, tg_budget *budget,
                                          const tg_cancel *cancel, tg_error *err);

#endif
