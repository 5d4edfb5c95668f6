/* region/base.h - what --base input adds to a list: units that no region touches become IN's,
 * too. */
#ifndef TG_REGION_BASE_H
#define TG_REGION_BASE_H

#include "base/mem.h"
#include "nd/nd.h"

/* *bounds (n regions of ndim starts and ndim ends, within the array) is replaced by a longer
 * one: behind the list, a region of one item, its first, for each unit of the array that none
 * touches, in C order. For functions whose OUT has IN's shape. *n becomes the new number.
 * TG_OVER_BUDGET: more than `limit` bytes. */
TG_MUST_USE tg_status tg_base_regions(uint64_t **bounds, uint64_t *n, const tg_shape *array,
                                      const tg_shape *unit, uint64_t limit, tg_error *err);

#endif
