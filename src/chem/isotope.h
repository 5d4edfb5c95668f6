/* chem/isotope.h - isotope patterns: the isotopologues of an ion, and the centroids that an
 * instrument of finite resolving power would report of them.
 *
 * The grid on which a profile is sampled decides the last digits of a centroid, and so which
 * peaks lie in its window; it is therefore the reference's grid, sample for sample.
 *
 * Threads: one thread at a time per object. */
#ifndef TG_CHEM_ISOTOPE_H
#define TG_CHEM_ISOTOPE_H

#include "base/auto.h"
#include "chem/formula.h"

#define TG_MAX_CENTROIDS         4
#define TG_SIGMA_TO_FWHM         2.3548200450309493
#define TG_ISOTOPE_CONTEXT_BYTES ((size_t)16 << 20) /* most memory that one object takes */

typedef enum tg_instrument { TG_TOF, TG_ORBITRAP, TG_FTICR } tg_instrument;

typedef struct tg_isotope_settings {
    int version;              /* 1 or 3 */
    tg_instrument instrument; /* version 1 takes every one for a TOF */
    double sigma;             /* of a peak at m/z 200, in u; > 0 */
    int charge;               /* +1, -1, ...; 0: no electron mass is taken */
    bool divide_by_charge;    /* not in the reference: m/z = mass / |charge| */
} tg_isotope_settings;

/* sigma at m/z 200 of an instrument with this resolving power (m / FWHM) at `mz`. */
double tg_sigma_of_resolving_power(tg_instrument instrument, double power, double mz);
/* "tof", "orbitrap", "fticr". */
TG_MUST_USE tg_status tg_instrument_parse(const char *name, tg_instrument *out, tg_error *err);
const char *tg_instrument_name(tg_instrument instrument);

typedef struct tg_centroids {
    uint32_t n;                         /* 1 .. TG_MAX_CENTROIDS */
    double mz[TG_MAX_CENTROIDS];        /* ascending, then zeros */
    double intensity[TG_MAX_CENTROIDS]; /* percent of the largest, zeros behind */
} tg_centroids;

typedef struct tg_isotope tg_isotope;

TG_MUST_USE tg_status tg_isotope_new(tg_isotope **out, const tg_isotope_settings *settings,
                                     tg_error *err);
void tg_isotope_free(tg_isotope *iso);
TG_DEFINE_AUTO_PTR(tg_isotope, tg_isotope_free)

/* The four largest centroids of an ion. TG_INVALID: the text is no formula, or has labelled
 * atoms only. TG_UNSUPPORTED: too many isotopologues, or too many grid steps; such an ion is
 * left out. */
TG_MUST_USE tg_status tg_isotope_centroids(tg_isotope *iso, const char *ion, tg_centroids *out,
                                           tg_error *err);

/* Is anything seen at the first centroid? A failure ends the calculation and is returned. */
typedef tg_status (*tg_seen_fn)(void *user, double mz, bool *seen, tg_error *err);
/* The same, but as soon as it is certain where the first centroid lies, `seen` is asked (it may
 * be asked not at all): if nothing is there the rest is not calculated, and *left is set. Most
 * decoys end here, after a fraction of their profile. */
TG_MUST_USE tg_status tg_isotope_centroids_seen(tg_isotope *iso, const char *ion,
                                                tg_seen_fn seen, void *user, tg_centroids *out,
                                                bool *left, tg_error *err);

#endif
