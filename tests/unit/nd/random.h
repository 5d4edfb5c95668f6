/* unit/nd/random.h - the pseudo-random numbers of the property tests; a test that
 * fails prints its round, and the same seed gives the same rounds. */
#ifndef TG_TESTS_ND_RANDOM_H
#define TG_TESTS_ND_RANDOM_H

#include <stdint.h>

typedef struct rng {
    uint64_t state;
} rng;

static inline uint64_t rng_next(rng *r) /* splitmix64 */
{
    uint64_t z = (r->state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline uint64_t rng_below(rng *r, uint64_t n)
{
    return rng_next(r) % n;
}

#endif
