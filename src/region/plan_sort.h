/* region/plan_sort.h - sorting by 64-bit keys without a comparison. */
#ifndef TG_REGION_PLAN_SORT_H
#define TG_REGION_PLAN_SORT_H

#include <stdint.h>

typedef struct tg_plan_key {
    uint64_t key;
    uint32_t at;
} tg_plan_key;

/* Ascending, stable, by the lowest `bits` of the keys; room holds n too, its content after is
 * of no meaning. */
void tg_plan_sort(tg_plan_key *keys, tg_plan_key *room, uint64_t n, uint32_t bits);
/* Ascending, in place. */
void tg_plan_sort_u64(uint64_t *v, uint64_t n);
uint32_t tg_plan_bits(uint64_t v); /* 0 for 0 */

#endif
