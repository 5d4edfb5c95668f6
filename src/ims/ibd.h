/* ims/ibd.h - reads the spectra of a data set in the order of its index, in few large requests.
 *
 * Spectra are taken in batches; the ranges of a batch are sorted and joined over gaps of at
 * most 64 KiB. An m/z array that the spectrum before has too is kept, not read again.
 *
 * Threads: one thread at a time. */
#ifndef TG_IMS_IBD_H
#define TG_IMS_IBD_H

#include "ims/imzml.h"

#define TG_IBD_GAP ((uint64_t)64 << 10)

typedef struct tg_ibd tg_ibd;

/* Memory that a reader with batches of about batch_bytes takes; a spectrum that is larger makes
 * them larger. */
uint64_t tg_ibd_bytes(const tg_imzml *m, uint64_t batch_bytes);
/* Reads spectra [first, end). m must outlive the reader. */
TG_MUST_USE tg_status tg_ibd_new(tg_ibd **out, const tg_imzml *m, uint64_t first, uint64_t end,
                                 uint64_t batch_bytes, tg_error *err);
void tg_ibd_free(tg_ibd *r);
TG_DEFINE_AUTO_PTR(tg_ibd, tg_ibd_free)

typedef struct tg_ibd_spectrum {
    uint64_t index;
    const tg_spectrum *at;
    const double *mz;       /* at->count values, as in the file */
    const float *intensity; /* rounded to float */
    bool same_mz;           /* the same array as that of the spectrum before */
} tg_ibd_spectrum;

/* The next one; its arrays are borrowed until the next call. TG_CLOSED at the end. TG_CORRUPT
 * names the spectrum. */
TG_MUST_USE tg_status tg_ibd_next(tg_ibd *r, tg_ibd_spectrum *out, const tg_cancel *cancel,
                                  tg_error *err);
/* Requests made and bytes read so far. */
uint64_t tg_ibd_requests(const tg_ibd *r);
uint64_t tg_ibd_bytes_read(const tg_ibd *r);

#endif
