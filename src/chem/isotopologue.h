/* chem/isotopologue.h - the fine structure of an isotope pattern: every isotopologue of at
 * least 1e-4 of the most abundant one.
 *
 * Threads: one thread at a time per object. */
#ifndef TG_CHEM_ISOTOPOLOGUE_H
#define TG_CHEM_ISOTOPOLOGUE_H

#include "base/auto.h"
#include "chem/formula.h"

#define TG_MAX_ISOTOPOLOGUES 100000
#define TG_ISOTOPOLOGUE_CUT  1e-4

typedef struct tg_isotopologue {
    double mass;      /* in u, of the neutral atoms */
    double intensity; /* of the most abundant: 1 */
} tg_isotopologue;

typedef struct tg_pattern tg_pattern; /* tables and room, used again for every formula */

TG_MUST_USE tg_status tg_pattern_new(tg_pattern **out, tg_error *err);
void tg_pattern_free(tg_pattern *p);
TG_DEFINE_AUTO_PTR(tg_pattern, tg_pattern_free)

/* By ascending mass; borrowed until the next call, and may be changed meanwhile. atoms->n > 0;
 * labels are not looked at. TG_UNSUPPORTED: more than TG_MAX_ISOTOPOLOGUES. */
TG_MUST_USE tg_status tg_pattern_list(tg_pattern *p, const tg_atoms *atoms,
                                      tg_isotopologue **list, size_t *n, tg_error *err);

#endif
