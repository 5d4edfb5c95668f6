/* ims/peak_write.c - columns, tables and documents of a peak store. */
#include "ims/peak_write.h"

#include "ims/peak_store.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct tg_peak_writer {
    tg_store *store;
    char *prefix;
    uint64_t n_peaks, segment_peaks, n_segments;
    uint64_t added;
    uint64_t segment; /* that is being filled */
    size_t filled;
    uint8_t *columns[TG_N_COLUMNS];
    double *bounds; /* first and last m/z of each segment; the sum goes behind */
};

static uint64_t n_segments_of(uint64_t n_peaks, uint64_t segment_peaks)
{
    return (n_peaks + segment_peaks - 1) / segment_peaks;
}

uint64_t tg_peak_writer_bytes(uint64_t segment_peaks)
{
    return segment_peaks * 16 + 4096;
}

static void close_segment(tg_peak_writer *w)
{
    const double *mz = (const double *)(const void *)w->columns[TG_COLUMN_MZ];
    w->bounds[2 * w->segment] = mz[0];
    w->bounds[2 * w->segment + 1] = mz[w->filled - 1];
}

tg_status tg_peak_writer_new(tg_peak_writer **out, tg_store *store, const char *prefix,
                             uint64_t n_peaks, uint64_t segment_peaks, tg_error *err)
{
    TG_AUTO_PTR(tg_peak_writer) w = tg_calloc(1, sizeof *w);
    if (w == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to write peaks");
    w->store = store;
    w->n_peaks = n_peaks;
    w->segment_peaks = segment_peaks;
    w->n_segments = n_segments_of(n_peaks, segment_peaks);
    w->prefix = tg_strdup(prefix);
    w->bounds = tg_calloc(2 * w->n_segments + 1, sizeof *w->bounds);
    bool failed = w->prefix == NULL || w->bounds == NULL;
    for (int c = 0; c < TG_N_COLUMNS; c++) {
        w->columns[c] = tg_alloc(segment_peaks * tg_column_sizes[c] + TG_COLUMN_SUM);
        failed = failed || w->columns[c] == NULL;
    }
    if (failed)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a segment of %llu peaks",
                       (unsigned long long)segment_peaks);
    *out = tg_steal(w);
    return TG_OK;
}

void tg_peak_writer_free(tg_peak_writer *w)
{
    if (w == NULL)
        return;
    tg_free(w->prefix);
    tg_free(w->bounds);
    for (int c = 0; c < TG_N_COLUMNS; c++)
        tg_free(w->columns[c]);
    tg_free(w);
}

static tg_status flush(tg_peak_writer *w, const tg_cancel *cancel, tg_error *err)
{
    close_segment(w);
    for (int c = 0; c < TG_N_COLUMNS; c++) {
        size_t bytes = w->segment_peaks * tg_column_sizes[c];
        size_t used = w->filled * tg_column_sizes[c];
        memset(w->columns[c] + used, 0, bytes - used);
        TG_TRY(tg_column_put(w->store, w->prefix, tg_column_names[c], w->segment, w->columns[c],
                             bytes, cancel, err));
    }
    w->segment++;
    w->filled = 0;
    return TG_OK;
}

tg_status tg_peak_writer_add(tg_peak_writer *w, const tg_peak *peaks, size_t n,
                             const tg_cancel *cancel, tg_error *err)
{
    assert(w->added + n <= w->n_peaks);
    while (n > 0) {
        size_t room = (size_t)w->segment_peaks - w->filled, part = n < room ? n : room;
        uint64_t *mz = (uint64_t *)(void *)w->columns[TG_COLUMN_MZ] + w->filled;
        float *intensity = (float *)(void *)w->columns[TG_COLUMN_INTENSITY] + w->filled;
        uint32_t *pixel = (uint32_t *)(void *)w->columns[TG_COLUMN_PIXEL] + w->filled;
        for (size_t i = 0; i < part; i++) {
            mz[i] = peaks[i].key;
            intensity[i] = peaks[i].intensity;
            pixel[i] = peaks[i].pixel;
        }
        w->filled += part;
        w->added += part;
        peaks += part;
        n -= part;
        if (w->filled == w->segment_peaks)
            TG_TRY(flush(w, cancel, err));
    }
    return TG_OK;
}

/* --- Tables and documents ---------------------------------------------------------- */

/* A whole array of one chunk. */
static tg_status put_table(tg_peak_writer *w, const char *name, const char *dtype,
                           const void *data, uint64_t n, size_t item, const char *dimension,
                           const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_text) doc = {0};
    TG_AUTO(tg_buf) chunk = {0};
    char key[TG_PEAK_KEY_BYTES], last[64];
    size_t bytes = (size_t)n * item;

    TG_TRY(tg_buf_resize(&chunk, (bytes == 0 ? item : bytes) + TG_COLUMN_SUM, err));
    memset(chunk.data, 0, chunk.len);
    if (bytes > 0)
        memcpy(chunk.data, data, bytes);
    TG_TRY(tg_column_put(w->store, w->prefix, name, 0, chunk.data, bytes == 0 ? item : bytes,
                         cancel, err));
    TG_TRY(tg_column_document(&doc, dtype, n, n, dimension, err));
    (void)snprintf(last, sizeof last, "%s/zarr.json", name);
    TG_TRY(tg_peak_key_join(key, w->prefix, last, err));
    return tg_store_put_lazy(w->store, key, doc.data, doc.len, cancel, err);
}

static tg_status put_column_documents(tg_peak_writer *w, const tg_cancel *cancel, tg_error *err)
{
    static const char *const dtypes[TG_N_COLUMNS] = {"float64", "float32", "uint32"};
    for (int c = 0; c < TG_N_COLUMNS; c++) {
        TG_AUTO(tg_text) doc = {0};
        char key[TG_PEAK_KEY_BYTES], last[64];
        TG_TRY(tg_column_document(&doc, dtypes[c], w->n_peaks, w->segment_peaks, "peak", err));
        (void)snprintf(last, sizeof last, "%s/zarr.json", tg_column_names[c]);
        TG_TRY(tg_peak_key_join(key, w->prefix, last, err));
        TG_TRY(tg_store_put_lazy(w->store, key, doc.data, doc.len, cancel, err));
    }
    return TG_OK;
}

static int polarity_of(const tg_imzml *m)
{
    return (m->positive ? 1 : 0) - (m->negative ? 1 : 0);
}

static tg_status group_document(tg_peak_writer *w, const tg_imzml *m, tg_text *out,
                                tg_error *err)
{
    tg_text_addf(out,
                 "{\"zarr_format\":3,\"node_type\":\"group\",\"attributes\":{"
                 "\"tidegate_peak_store\":{\"major\":%d,\"minor\":0,\"n_peaks\":%llu,"
                 "\"segment_peaks\":%llu,\"n_spectra\":%llu,\"n_pixels\":%llu,\"width\":%u,"
                 "\"height\":%u,\"polarity\":%d,\"truncated\":%s,\"imzml_crc32c\":%u,"
                 "\"ibd_bytes\":%llu,\"oddities\":[",
                 TG_PEAK_STORE_MAJOR, (unsigned long long)w->n_peaks,
                 (unsigned long long)w->segment_peaks, (unsigned long long)m->n_spectra,
                 (unsigned long long)m->n_pixels, m->width, m->height, polarity_of(m),
                 m->truncated ? "true" : "false", m->xml_crc32c,
                 (unsigned long long)m->ibd_bytes);
    tg_ims_oddities_json(out, m->odd);
    tg_text_add(out, "]}}}\n");
    return tg_text_status(out, err);
}

tg_status tg_peak_writer_finish(tg_peak_writer *w, const tg_imzml *m, const float *tic,
                                const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_text) doc = {0};
    char key[TG_PEAK_KEY_BYTES];

    assert(w->added == w->n_peaks);
    if (w->filled > 0)
        TG_TRY(flush(w, cancel, err));
    TG_TRY(put_column_documents(w, cancel, err));
    TG_TRY(put_table(w, "segment_bounds", "float64", w->bounds, 2 * w->n_segments,
                     sizeof(double), "bound", cancel, err));
    TG_TRY(put_table(w, "position", "uint32", m->positions, m->n_pixels, sizeof(uint32_t),
                     "sampled_pixel", cancel, err));
    TG_TRY(put_table(w, "tic", "float32", tic, m->n_pixels, sizeof(float), "sampled_pixel",
                     cancel, err));
    TG_TRY(tg_store_sync(w->store, cancel, err));
    TG_TRY(group_document(w, m, &doc, err));
    TG_TRY(tg_peak_key_join(key, w->prefix, "zarr.json", err));
    return tg_store_put(w->store, key, doc.data, doc.len, cancel, err);
}
