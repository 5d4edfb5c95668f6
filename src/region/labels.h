/* region/labels.h - policy labels: objects that regions find become one label image, with
 * numbers that are unique and dense, in list order; what touches across regions is one object.
 *
 * Three passes, each a run of the engine. Gather: what the function makes goes to an array of
 * 64-bit items in the run's folder, `labels.zarr`, as (region + 1) << 32 | label; of several
 * regions the last that has a label wins. Scan: that array is read once, and says which objects
 * there are and which touch (stitch.h). Number: the regions once more, from that array to OUT,
 * each object by its number. A run that was killed takes up the first or the last pass where it
 * was; the scan is done again. */
#ifndef TG_REGION_LABELS_H
#define TG_REGION_LABELS_H

#include "region/engine.h"

/* As tg_engine_run(), of a plan with policy labels, not in parts, into a directory. */
TG_MUST_USE tg_status tg_labels_run(const tg_engine_options *options, tg_engine_result *result,
                                    const tg_cancel *cancel, tg_error *err);
/* Remove what it leaves in the folder. */
TG_MUST_USE tg_status tg_labels_tidy(const tg_folder *folder, tg_error *err);

#endif
