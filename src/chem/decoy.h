/* chem/decoy.h - the random numbers and the decoy adducts of the reference procedure.
 *
 * Threads: one thread at a time per object. */
#ifndef TG_CHEM_DECOY_H
#define TG_CHEM_DECOY_H

#include "base/error.h"

#include <stdbool.h>

/* MT19937 with the classic seeding by one 32-bit number. */
typedef struct tg_mt19937 {
    uint32_t state[624];
    uint32_t at;
} tg_mt19937;

void tg_mt19937_seed(tg_mt19937 *r, uint32_t seed);
uint32_t tg_mt19937_next(tg_mt19937 *r);
/* Uniform in [0, max], both included: outputs masked with the smallest 2^k - 1 >= max, those
 * above max thrown away. max 0 draws nothing. */
uint32_t tg_mt19937_up_to(tg_mt19937 *r, uint32_t max);
/* For i = n - 1 down to 1: swap items i and a draw from [0, i]. */
void tg_mt19937_shuffle(tg_mt19937 *r, uint8_t *items, uint32_t n);

#define TG_N_DECOY_ADDUCTS 80
/* "+He", "+Li", ... in the order of the procedure; i < TG_N_DECOY_ADDUCTS. */
const char *tg_decoy_adduct(uint32_t i);

typedef struct tg_decoys {
    tg_mt19937 rng;
    uint8_t candidates[TG_N_DECOY_ADDUCTS]; /* places in the list of adducts */
    uint32_t n_candidates;
    uint32_t sample; /* decoys of each draw, <= n_candidates */
} tg_decoys;

/* exclude: strings that are target adducts, modifications or losses, and so no decoys. sample:
 * how many are wanted; fewer if there are fewer candidates. */
void tg_decoys_init(tg_decoys *d, uint32_t seed, uint32_t sample, const char *const *exclude,
                    size_t n_exclude);
/* The next draw: d->sample places in the list of adducts; the i-th belongs to decoy set i. A
 * fresh list is shuffled each time, the generator goes on. v1 draws once per formula and target
 * modifier (formulas outside), v3 once per formula. */
void tg_decoys_draw(tg_decoys *d, uint8_t out[TG_N_DECOY_ADDUCTS]);

#endif
