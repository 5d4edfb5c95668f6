/* region/roi_write.h - lists of regions into the formats that others read. */
#ifndef TG_REGION_ROI_WRITE_H
#define TG_REGION_ROI_WRITE_H

#include "ome/level.h"
#include "region/roi_read.h"

/* Make a list of whole pixels out of one of lengths: by the rule, over a level's array. What
 * lies outside is cut, what is empty stays, empty; axes beside y and x that all take whole are
 * left out. limit: bytes beside the list. */
TG_MUST_USE tg_status tg_roi_to_pixels(tg_roi_set *s, const tg_ome_level *level,
                                       tg_px_rule rule, tg_roi_rounding *rounding, size_t limit,
                                       tg_error *err);

/* Only what the rule would do; memory: none that grows. */
TG_MUST_USE tg_status tg_roi_look(const tg_roi_list *l, const tg_ome_level *level,
                                  tg_px_rule rule, tg_roi_rounding *rounding, tg_error *err);

/* Into a local file, by its ending: .json (in the list's unit), .csv (pixels as name, label,
 * z0, z1, y0, y1, x0, x1; lengths as Fractal has them), .geojson (pixels only). It is there
 * whole or not at all. TG_EXISTS: there is one, and not overwrite; TG_UNSUPPORTED: axes or a
 * unit that the format has no form for. */
TG_MUST_USE tg_status tg_roi_write_file(const tg_roi_set *s, const char *path, bool overwrite,
                                        const tg_cancel *cancel, tg_error *err);

typedef struct tg_roi_table_options {
    const char *backend; /* "anndata", "csv", "json"; NULL: "anndata" */
    int format;          /* of Zarr: 2 or 3 */
    bool overwrite;      /* replace the table of this name */
    /* Of the array that a list of pixels is of: it becomes micrometers by its scale. Axes that
     * the list does not have are taken whole. NULL: 1, and a z of 0 to 1. */
    const tg_ome_level *level;
} tg_roi_table_options;

/* Into the table image/tables/NAME of an image's store, as ngio and Fractal read it, and its
 * name into the list of tables; a masking table where the list is of objects of a label image
 * of this image. The name is listed last: a reader never finds a table that is not whole. */
TG_MUST_USE tg_status tg_roi_write_table(const tg_roi_set *s, tg_store *store,
                                         const char *image, const char *name,
                                         const tg_roi_table_options *options,
                                         const tg_cancel *cancel, tg_error *err);

/* --- For writers -------------------------------------------------------------------------- */

/* The group `tables` of an image, and the way to it; what is there stays. */
TG_MUST_USE tg_status tg_roi_make_tables(tg_store *store, const char *tables, int format,
                                         const tg_cancel *cancel, tg_error *err);
/* Into its list of tables, if the name is not there. */
TG_MUST_USE tg_status tg_roi_list_table(tg_store *store, const char *tables, const char *name,
                                        const tg_cancel *cancel, tg_error *err);
/* Region i's name into room, "roi_<i>" where it has none; its length. */
size_t tg_roi_name(const tg_roi_list *l, uint64_t i, const char **name, char room[32]);
/* The shortest text that reads back the same; whole numbers without a fraction. */
void tg_roi_number(tg_text *t, double v);

#endif
