/* ims/ions.h - every ion that an annotation looks for: the formulas of its databases times the
 * target modifiers, and their decoys. Never a list: a walk that makes them one by one, the same
 * each time.
 *
 * A modifier is a place in one table: first the target modifiers (modifications outside, then
 * losses, adducts inside), then for each prefix (modification and loss) the decoy adducts.
 *
 * Threads: a space is read-only once made. */
#ifndef TG_IMS_IONS_H
#define TG_IMS_IONS_H

#include "chem/decoy.h"
#include "chem/formula.h"
#include "ims/db.h"

#define TG_ION_BYTES     128
#define TG_MAX_MODIFIERS 4096  /* targets; prefixes times decoy adducts come on top */
#define TG_MAX_ION_ATOMS 30000 /* of one element: more has no pattern */

typedef struct tg_ion_options {
    const char *const *adducts, *const *losses, *const *mods; /* without the empty ones */
    size_t n_adducts, n_losses, n_mods;
    int version; /* 1 or 3 */
    bool fixed;
    uint32_t decoys, seed;
} tg_ion_options;

typedef struct tg_ion_target {
    uint32_t prefix;                 /* modification and loss */
    const char *adduct, *loss, *mod; /* "" where there is none */
} tg_ion_target;

typedef struct tg_ion_space {
    const tg_moldb *const *dbs;
    size_t n_dbs;
    uint64_t *first_formula; /* of each database; n_dbs + 1 places */
    tg_ion_options options;
    tg_modifier *modifiers;
    tg_ion_target *targets;
    uint32_t n_targets, n_prefixes, n_modifiers;
    tg_decoys decoys; /* before the first draw */
} tg_ion_space;

/* dbs and the strings of options must outlive it. TG_INVALID: a modifier that is none, no
 * adduct, one given twice, too many. */
TG_MUST_USE tg_status tg_ion_space_new(tg_ion_space **out, const tg_moldb *const *dbs,
                                       size_t n_dbs, const tg_ion_options *options,
                                       tg_error *err);
void tg_ion_space_free(tg_ion_space *s);
TG_DEFINE_AUTO_PTR(tg_ion_space, tg_ion_space_free)

#define TG_ALL_TARGETS UINT32_MAX
#define TG_NO_SET      UINT32_MAX

typedef struct tg_ion_step {
    uint64_t formula; /* in all databases together */
    const tg_formula *parsed;
    uint32_t modifier;
    uint32_t set; /* of a decoy; TG_NO_SET: a target */
} tg_ion_step;

/* Visit the ions of one database: for each formula the target, then its decoys, for each target
 * modifier or only for one. In version 3 the decoys of a formula are shared by the adducts of a
 * prefix and come once. A failure of fn ends the walk. */
typedef tg_status (*tg_ion_fn)(void *user, const tg_ion_step *step, tg_error *err);
TG_MUST_USE tg_status tg_ions_walk(const tg_ion_space *s, size_t db, uint32_t target,
                                   tg_ion_fn fn, void *user, const tg_cancel *cancel,
                                   tg_error *err);

typedef struct tg_ion {
    char text[TG_ION_BYTES]; /* its name: equal ions have equal ones */
    uint64_t hash[2];        /* of the name */
    int64_t mass;            /* of its most abundant isotopes, in 1e-9 u: exact, so equal too */
} tg_ion;

/* TG_NOT_FOUND: there is no such ion, or it holds what is no element. */
TG_MUST_USE tg_status tg_ion_make(const tg_ion_space *s, const tg_formula *formula,
                                  uint32_t modifier, tg_ion *out, tg_error *err);
/* The same from the place of a formula. */
TG_MUST_USE tg_status tg_ion_make_at(const tg_ion_space *s, uint64_t formula, uint32_t modifier,
                                     tg_ion *out, tg_error *err);
/* The database of a formula, and its place there. */
size_t tg_ion_db_of(const tg_ion_space *s, uint64_t formula, uint64_t *place);

#endif
