/* ims/peak_write.h - takes peaks in order and writes the segments of a peak store. */
#ifndef TG_IMS_PEAK_WRITE_H
#define TG_IMS_PEAK_WRITE_H

#include "ims/imzml.h"
#include "ims/peak_sort.h"

typedef struct tg_peak_writer tg_peak_writer;

/* n_peaks in all must be known. segment_peaks: of all segments but the last, which is padded to
 * it. */
TG_MUST_USE tg_status tg_peak_writer_new(tg_peak_writer **out, tg_store *store,
                                         const char *prefix, uint64_t n_peaks,
                                         uint64_t segment_peaks, tg_error *err);
uint64_t tg_peak_writer_bytes(uint64_t segment_peaks);
TG_MUST_USE tg_status tg_peak_writer_add(tg_peak_writer *w, const tg_peak *peaks, size_t n,
                                         const tg_cancel *cancel, tg_error *err);
/* All peaks are there: the last segment, the tables, the documents; the group's comes last,
 * when all else is durable. tic: one number a pixel. */
TG_MUST_USE tg_status tg_peak_writer_finish(tg_peak_writer *w, const tg_imzml *m,
                                            const float *tic, const tg_cancel *cancel,
                                            tg_error *err);
void tg_peak_writer_free(tg_peak_writer *w);
TG_DEFINE_AUTO_PTR(tg_peak_writer, tg_peak_writer_free)

#endif
