/* chem/elements.h - the isotopes of the elements. Masses in u; abundances as measured, not
 * normalised. */
#ifndef TG_CHEM_ELEMENTS_H
#define TG_CHEM_ELEMENTS_H

#include <stddef.h>
#include <stdint.h>

#define TG_N_ISOTOPES    310
#define TG_N_ELEMENTS    106
#define TG_MAX_ISOTOPES  10 /* of one element (tin) */
#define TG_ELECTRON_MASS 0.00054857990924

typedef struct tg_isotope_entry {
    double mass, abundance;
} tg_isotope_entry;

typedef struct tg_element {
    char symbol[4];
    uint16_t first, n; /* in tg_isotope_table */
} tg_element;

extern const tg_isotope_entry tg_isotope_table[TG_N_ISOTOPES];
extern const tg_element tg_element_table[TG_N_ELEMENTS];

/* Place of an element in the table, or -1. */
int tg_element_find(const char *symbol, size_t len);

/* Atoms of an isotope label, such as Cx for 13C: one fixed mass, no isotopes. Place in the
 * table of labels (Cx Nx Hx Ox Sx), or -1. */
#define TG_N_LABELS 5
int tg_label_find(const char *symbol, size_t len);
double tg_label_mass(int label);

#endif
