/* region/roi_read.h - lists of regions out of what people have: what --rois names. The formats
 * are in docs/formats/regions.md. Guesses are refused: a header or a member says what a number
 * means, or the file is not read. */
#ifndef TG_REGION_ROI_READ_H
#define TG_REGION_ROI_READ_H

#include "region/rois.h"
#include "store/store.h"
#include "tidegate/cancel.h"

/* A list, and what its source said beside it. */
typedef struct tg_roi_set {
    tg_roi_list list;
    char format[16]; /* "json", "csv", "geojson", "imagej", "table", "grid", "labels" */
    /* Where regions are objects of a label image (masking tables, `labels:`): its path in the
     * image's store; region i is there where it equals label[i]. NULL: none. */
    char *labels;
    tg_roi_outlines outlines;
} tg_roi_set;

void tg_roi_outlines_destroy(tg_roi_outlines *o);
void tg_roi_set_destroy(tg_roi_set *s);
static inline void tg_roi_set_auto(tg_roi_set *s)
{
    tg_roi_set_destroy(s);
}

/* What the words of --rois are relative to. */
typedef struct tg_roi_source {
    tg_store *store;   /* the image's; NULL: only files can be read */
    const char *image; /* path of the image's group in it: tables/ and labels/ lie below */
    /* The array that the regions are of: for grids, and for files that name axes by their
     * place. axes NULL: not known, then two are y, x and three are z, y, x. */
    const tg_shape *array;
    const char *const *axes;
    size_t limit; /* most bytes that the set and reading it may take */
} tg_roi_source;

/* text: "FILE.json", "FILE.csv" (also .tsv), "FILE.geojson", "FILE.zip" or "FILE.roi" (ImageJ),
 * "table:NAME", "grid:SIZE[/STEP]", "labels:PATH" (a label image of the image's store; a group
 * means its first level). TG_NOT_FOUND: no such file or table; TG_INVALID: not one of these;
 * TG_CORRUPT with row, feature or entry: what cannot be, or could mean two things;
 * TG_UNSUPPORTED: a form by name that is not read; TG_OVER_BUDGET: both numbers. */
TG_MUST_USE tg_status tg_roi_read(tg_roi_set *out, const char *text,
                                  const tg_roi_source *source, const tg_cancel *cancel,
                                  tg_error *err);

/* Boxes of SIZE (the last two axes where it is one number, else as many as it has), one every
 * STEP (SIZE), in C order; those at the border are cut. TG_INVALID: not "SIZE[/STEP]". */
TG_MUST_USE tg_status tg_roi_grid(tg_roi_set *out, const char *text, const tg_shape *array,
                                  const char *const *axes, size_t limit, tg_error *err);

/* --- One format each; limit is beside the text, source as above (may be NULL where it is not
 * named) */

TG_MUST_USE tg_status tg_roi_read_json(tg_roi_set *out, tg_bytes text, size_t limit,
                                       tg_error *err);
TG_MUST_USE tg_status tg_roi_read_csv(tg_roi_set *out, tg_bytes text,
                                      const tg_roi_source *source, tg_error *err);
TG_MUST_USE tg_status tg_roi_read_geojson(tg_roi_set *out, tg_bytes text, size_t limit,
                                          tg_error *err);
/* One .roi; name: used where the file has none. */
TG_MUST_USE tg_status tg_roi_read_imagej(tg_roi_set *out, tg_bytes roi, const char *name,
                                         size_t limit, tg_error *err);
TG_MUST_USE tg_status tg_roi_read_roiset(tg_roi_set *out, const char *zip, size_t limit,
                                         const tg_cancel *cancel, tg_error *err);
/* A table of Fractal or ngio at a path of the store. */
TG_MUST_USE tg_status tg_roi_read_table(tg_roi_set *out, tg_store *store, const char *path,
                                        size_t limit, const tg_cancel *cancel, tg_error *err);
/* Boxes of all labels but 0, by label, axes from the array's names or their number. */
TG_MUST_USE tg_status tg_roi_read_labels(tg_roi_set *out, tg_store *store, const char *path,
                                         size_t limit, const tg_cancel *cancel, tg_error *err);

#endif
