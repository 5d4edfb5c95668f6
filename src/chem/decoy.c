/* chem/decoy.c - MT19937 (Matsumoto and Nishimura 1998) and decoy adducts. */
#include "chem/decoy.h"

#include <string.h>

#define N 624
#define M 397

void tg_mt19937_seed(tg_mt19937 *r, uint32_t seed)
{
    r->state[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        r->state[i] = 1812433253u * (r->state[i - 1] ^ (r->state[i - 1] >> 30)) + i;
    r->at = N;
}

static void refill(tg_mt19937 *r)
{
    for (uint32_t i = 0; i < N; i++) {
        uint32_t y = (r->state[i] & 0x80000000u) | (r->state[(i + 1) % N] & 0x7fffffffu);
        r->state[i] = r->state[(i + M) % N] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfu : 0);
    }
    r->at = 0;
}

uint32_t tg_mt19937_next(tg_mt19937 *r)
{
    if (r->at == N)
        refill(r);
    uint32_t y = r->state[r->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint32_t tg_mt19937_up_to(tg_mt19937 *r, uint32_t max)
{
    uint32_t mask = max, v;

    if (max == 0)
        return 0;
    for (uint32_t shift = 1; shift < 32; shift *= 2)
        mask |= mask >> shift;
    do {
        v = tg_mt19937_next(r) & mask;
    } while (v > max);
    return v;
}

void tg_mt19937_shuffle(tg_mt19937 *r, uint8_t *items, uint32_t n)
{
    for (uint32_t i = n; i-- > 1;) {
        uint32_t j = tg_mt19937_up_to(r, i);
        uint8_t x = items[i];
        items[i] = items[j];
        items[j] = x;
    }
}

static const char *const adducts[TG_N_DECOY_ADDUCTS] = {
    "+He", "+Li", "+Be", "+B",  "+C",  "+N",  "+O",  "+F",  "+Ne", "+Mg", "+Al", "+Si",
    "+P",  "+S",  "+Cl", "+Ar", "+Ca", "+Sc", "+Ti", "+V",  "+Cr", "+Mn", "+Fe", "+Co",
    "+Ni", "+Cu", "+Zn", "+Ga", "+Ge", "+As", "+Se", "+Br", "+Kr", "+Rb", "+Sr", "+Y",
    "+Zr", "+Nb", "+Mo", "+Ru", "+Rh", "+Pd", "+Ag", "+Cd", "+In", "+Sn", "+Sb", "+Te",
    "+I",  "+Xe", "+Cs", "+Ba", "+La", "+Ce", "+Pr", "+Nd", "+Sm", "+Eu", "+Gd", "+Tb",
    "+Dy", "+Ho", "+Ir", "+Th", "+Pt", "+Os", "+Yb", "+Lu", "+Bi", "+Pb", "+Re", "+Tl",
    "+Tm", "+U",  "+W",  "+Au", "+Er", "+Hf", "+Hg", "+Ta",
};

const char *tg_decoy_adduct(uint32_t i)
{
    return adducts[i];
}

static bool is_excluded(const char *adduct, const char *const *exclude, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(adduct, exclude[i]) == 0)
            return true;
    return false;
}

void tg_decoys_init(tg_decoys *d, uint32_t seed, uint32_t sample, const char *const *exclude,
                    size_t n_exclude)
{
    tg_mt19937_seed(&d->rng, seed);
    d->n_candidates = 0;
    for (uint32_t i = 0; i < TG_N_DECOY_ADDUCTS; i++)
        if (!is_excluded(adducts[i], exclude, n_exclude))
            d->candidates[d->n_candidates++] = (uint8_t)i;
    d->sample = sample < d->n_candidates ? sample : d->n_candidates;
}

void tg_decoys_draw(tg_decoys *d, uint8_t out[TG_N_DECOY_ADDUCTS])
{
    memcpy(out, d->candidates, d->n_candidates);
    tg_mt19937_shuffle(&d->rng, out, d->n_candidates);
}
