/* region/plan_sort.c - a radix sort, and a shell sort for short runs. */
#include "region/plan_sort.h"

#include <string.h>

void tg_plan_sort(tg_plan_key *keys, tg_plan_key *room, uint64_t n, uint32_t bits)
{
    tg_plan_key *from = keys, *to = room;
    for (uint32_t shift = 0; shift < bits; shift += 11) {
        uint64_t count[2049] = {0};
        for (uint64_t i = 0; i < n; i++)
            count[(from[i].key >> shift & 2047) + 1]++;
        for (uint32_t v = 0; v < 2048; v++)
            count[v + 1] += count[v];
        for (uint64_t i = 0; i < n; i++)
            to[count[from[i].key >> shift & 2047]++] = from[i];
        tg_plan_key *t = from;
        from = to;
        to = t;
    }
    if (from != keys && n > 0)
        memcpy(keys, from, n * sizeof *keys);
}

void tg_plan_sort_u64(uint64_t *v, uint64_t n)
{
    uint64_t gap = 1;
    while (gap < n / 3)
        gap = gap * 3 + 1;
    for (; gap > 0; gap /= 3)
        for (uint64_t i = gap; i < n; i++) {
            uint64_t x = v[i], at = i;
            for (; at >= gap && v[at - gap] > x; at -= gap)
                v[at] = v[at - gap];
            v[at] = x;
        }
}

uint32_t tg_plan_bits(uint64_t v)
{
    return v == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(v);
}
