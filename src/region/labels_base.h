/* region/labels_base.h - the labels that OUT had before and keeps: new ones begin behind them.
 */
#ifndef TG_REGION_LABELS_BASE_H
#define TG_REGION_LABELS_BASE_H

#include "region/engine.h"

/* The greatest item of OUT that no region of the plan (but those whose bit is set in `failed`,
 * which may be NULL) writes; 0 where OUT is new. Found before OUT is changed and kept in the
 * folder for who takes the run up. */
TG_MUST_USE tg_status tg_labels_base(const tg_engine_options *options, const uint8_t *failed,
                                     uint64_t *base, const tg_cancel *cancel, tg_error *err);
#define TG_LABELS_BASE_FILE "labels-base"

#endif
