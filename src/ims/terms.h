/* ims/terms.h - the controlled vocabulary that an imzML reader must know, and the numbers that
 * stand in its attributes. */
#ifndef TG_IMS_TERMS_H
#define TG_IMS_TERMS_H

#include "base/error.h"

#include <stdbool.h>

/* A term's number; those of the imaging vocabulary have TG_TERM_IMS set. 0: none that could be
 * read. */
#define TG_TERM_IMS 0x80000000u
#define TG_IMS(n)   (TG_TERM_IMS | (n))
#define TG_MS(n)    (n)

typedef struct tg_cv_param {
    uint32_t term;
    const char *accession, *name, *value; /* never NULL */
} tg_cv_param;

/* From an element's attributes. The accession decides; where it is missing or no number, the
 * name does. */
tg_cv_param tg_cv_param_of(const char **attributes);

/* "IMS:1000050" -> its number with TG_TERM_IMS; 0 if it is none. */
uint32_t tg_term_of_accession(const char *accession);
/* Of a term's name, for the terms that the reader uses; 0 if unknown. */
uint32_t tg_term_of_name(const char *name);

/* A whole number, also written like 1.156e+09 if that is exact and below 2^53. *negative: there
 * was a minus sign, *v is then its size. False: no such number. */
bool tg_term_integer(const char *text, uint64_t *v, bool *negative);

#endif
