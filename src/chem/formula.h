/* chem/formula.h - sum formulas, modifiers, and the ions that they make.
 *
 * Two readers of formulas: the compatible one does what METASPACE does with what molecule
 * databases hold, odd text included; the fixed one sums repeated symbols and refuses what it
 * does not know. A modifier is a chemical modification, a neutral loss and an adduct in one
 * string, such as "-H2O+Na"; "", "[M]+" and "[M]-" change nothing.
 *
 * Threads: pure functions. */
#ifndef TG_CHEM_FORMULA_H
#define TG_CHEM_FORMULA_H

#include "base/error.h"
#include "chem/elements.h"

#include <stdbool.h>

#define TG_FORMULA_BYTES   512 /* longest formula text, with the NUL */
#define TG_FORMULA_SYMBOLS 40  /* most different symbols in one formula */
#define TG_MODIFIER_PARTS  24  /* most symbol counts in one modifier */
#define TG_MAX_ATOMS       1000000000

typedef struct tg_symbol_count {
    uint16_t at, len; /* of the symbol in the text */
    int32_t count;
} tg_symbol_count;

typedef struct tg_formula {
    char text[TG_FORMULA_BYTES]; /* cleaned */
    uint32_t n;
    tg_symbol_count counts[TG_FORMULA_SYMBOLS]; /* in order of first appearance */
} tg_formula;

typedef struct tg_modifier {
    char text[TG_FORMULA_BYTES];
    uint32_t n;
    tg_symbol_count parts[TG_MODIFIER_PARTS]; /* count < 0: taken away; in order */
} tg_modifier;

/* Compatible: '.' and '=' are deleted, text that is no symbol is passed over, a repeated symbol
 * replaces the count before. fixed: repeats add up; TG_INVALID for text that is no symbol, for
 * an unknown element. Both: TG_INVALID for what does not fit, for counts above TG_MAX_ATOMS. */
TG_MUST_USE tg_status tg_formula_parse(tg_formula *out, const char *text, bool fixed,
                                       tg_error *err);
/* TG_INVALID unless it is ([+-](Symbol[count])+)+ or one of the empty ones. */
TG_MUST_USE tg_status tg_modifier_parse(tg_modifier *out, const char *text, tg_error *err);
/* The ion's formula as text, the name by which equal ions are known: C H N O P S, then the
 * other symbols by bytes. TG_NOT_FOUND: there is no such ion (a count below 0 at any step, or
 * nothing left). TG_INVALID: it does not fit. */
TG_MUST_USE tg_status tg_ion_formula(const tg_formula *formula, const tg_modifier *modifier,
                                     char *dst, size_t cap, tg_error *err);

/* What an upload to METASPACE checks of a database's formula: every symbol is an element, it is
 * made of symbols and counts only, without '.'. TG_INVALID says what is wrong. */
TG_MUST_USE tg_status tg_formula_check_strict(const char *text, tg_error *err);

/* --- Atoms of elements, for isotope patterns ------------------------------ */

typedef struct tg_atoms {
    uint32_t n;
    struct {
        uint16_t element; /* place in tg_element_table */
        uint32_t count;   /* > 0 */
    } of[TG_FORMULA_SYMBOLS];
    uint32_t labels[TG_N_LABELS];
} tg_atoms;

/* The strict reader: symbols and counts, parentheses with a count behind, parts joined by '.'
 * with a count in front, by '+' or by '-' (taken away). TG_INVALID names the place for an
 * unknown element, a number that is too big, a count below zero, anything else. A formula of
 * nothing is TG_INVALID; one of labelled atoms alone has n = 0. */
TG_MUST_USE tg_status tg_atoms_parse(tg_atoms *out, const char *text, tg_error *err);

#endif
