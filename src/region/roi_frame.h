/* region/roi_frame.h - tables of boxes: which columns mean what. For CSV files and the backends
 * of Fractal's tables alike. */
#ifndef TG_REGION_ROI_FRAME_H
#define TG_REGION_ROI_FRAME_H

#include "region/roi_build.h"
#include "table/frame.h"

/* The boxes of a frame, by the names of its columns (docs/formats/regions.md). source: as in
 * roi_read.h, may be NULL. format: of the set. */
TG_MUST_USE tg_status tg_roi_from_frame(tg_roi_set *out, const tg_frame *f, const char *format,
                                        const tg_roi_source *source, size_t limit,
                                        tg_error *err);
/* Only lengths as Fractal has them (x_micrometer, len_x_micrometer, ...). instance: the column
 * of the labels, NULL: "label". */
TG_MUST_USE tg_status tg_roi_from_fractal(tg_roi_set *out, const tg_frame *f,
                                          const char *format, const char *instance,
                                          size_t limit, tg_error *err);
/* The columns that tg_roi_from_fractal() looks at, ended by NULL. */
extern const char *const tg_roi_fractal_columns[];

#endif
