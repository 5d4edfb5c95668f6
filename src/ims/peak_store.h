/* ims/peak_store.h - the documents and columns of a peak store; between peak_write.c, which
 * makes them, and peaks.c, which reads them. */
#ifndef TG_IMS_PEAK_STORE_H
#define TG_IMS_PEAK_STORE_H

#include "base/mem.h"
#include "store/store.h"

#define TG_PEAK_STORE_MAJOR 1
#define TG_COLUMN_SUM       4 /* bytes of the crc32c behind each chunk */

enum { TG_COLUMN_MZ, TG_COLUMN_INTENSITY, TG_COLUMN_PIXEL, TG_N_COLUMNS };
extern const char *const tg_column_names[TG_N_COLUMNS];
extern const size_t tg_column_sizes[TG_N_COLUMNS];

/* The zarr.json of a one-dimensional array of chunks that are raw little-endian items and their
 * crc32c. dtype: "float64", "float32", "uint32". */
TG_MUST_USE tg_status tg_column_document(tg_text *out, const char *dtype, uint64_t n,
                                         uint64_t chunk, const char *dimension, tg_error *err);

/* One chunk: n * item bytes at data, behind which there is room for the sum. */
TG_MUST_USE tg_status tg_column_put(tg_store *store, const char *prefix, const char *name,
                                    uint64_t chunk, uint8_t *data, size_t bytes,
                                    const tg_cancel *cancel, tg_error *err);
/* The reverse, verified; dst has room for bytes and the sum. */
TG_MUST_USE tg_status tg_column_get(tg_store *store, const char *prefix, const char *name,
                                    uint64_t chunk, uint8_t *dst, size_t bytes,
                                    const tg_cancel *cancel, tg_error *err);
/* prefix/name, checked to fit. */
#define TG_PEAK_KEY_BYTES 1024
TG_MUST_USE tg_status tg_peak_key_join(char dst[TG_PEAK_KEY_BYTES], const char *prefix,
                                       const char *name, tg_error *err);

#endif
