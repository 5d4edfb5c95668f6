/* ims/units.h - the work of an annotation cut into units: ranges of ion mass of nearly equal
 * cost, the same on every machine. A unit's ions are made again whenever they are wanted. */
#ifndef TG_IMS_UNITS_H
#define TG_IMS_UNITS_H

#include "ims/ions.h"
#include "ims/peaks.h"

typedef struct tg_unit_plan {
    uint64_t n_candidates; /* ions before equal ones are joined */
    uint64_t n_none;       /* formula and modifier that make no ion */
    uint32_t n_units;
    uint32_t *first_bin; /* of each unit, in bins of mass; n_units + 1 places */
    uint64_t *counts;    /* candidates of each unit */
    uint32_t *ends;      /* first and last bin of each unit that holds one */
    uint64_t *weights;   /* its estimated cost */
} tg_unit_plan;

/* Bytes that planning takes while it runs and keeps. */
#define TG_UNIT_PLAN_BYTES ((uint64_t)2 << 20)

TG_MUST_USE tg_status tg_units_plan(tg_unit_plan **out, const tg_ion_space *s,
                                    const tg_peaks *peaks, double ppm, const tg_cancel *cancel,
                                    tg_error *err);
/* Before there are peaks: no unit of any plan of these ions is larger. */
TG_MUST_USE tg_status tg_units_most(const tg_ion_space *s, uint64_t *largest,
                                    const tg_cancel *cancel, tg_error *err);
#define TG_MOST_UNITS 2048
void tg_unit_plan_free(tg_unit_plan *p);
TG_DEFINE_AUTO_PTR(tg_unit_plan, tg_unit_plan_free)
/* The unit to which an ion of this mass belongs. */
uint32_t tg_unit_of(const tg_unit_plan *p, int64_t mass);

/* The most that the ions of `n` units in a row lie apart and their windows reach beyond, as
 * segments of the peaks: so many must be in memory for each to be read once. */
uint64_t tg_units_reach(const tg_unit_plan *p, const tg_peaks *peaks, uint32_t n);

/* One unique ion, by the first formula and modifier that make it. */
typedef struct tg_ion_record {
    int64_t mass;
    uint32_t formula, modifier;
} tg_ion_record;

/* The unique ions of units [first, end), by rising mass; first_record[i] is where those of unit
 * first + i begin, end - first + 1 places. room: as many records as the units have
 * candidates. */
TG_MUST_USE tg_status tg_units_collect(const tg_unit_plan *p, const tg_ion_space *s,
                                       uint32_t first, uint32_t end, tg_ion_record *room,
                                       uint64_t cap, uint64_t *first_record,
                                       const tg_cancel *cancel, tg_error *err);

#endif
