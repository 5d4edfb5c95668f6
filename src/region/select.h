/* region/select.h - the k-th of n items without sorting them. */
#ifndef TG_REGION_SELECT_H
#define TG_REGION_SELECT_H

#include <stddef.h>

/* static void NAME(ITEM *v, size_t n, size_t k): afterwards v[k] is what it would be if v were
 * sorted by KEY(item), of type KEY_TYPE, and no item before it is greater, none behind it less.
 * n is not 0, and no key is NaN. */
#define TG_DEFINE_SELECT(NAME, ITEM, KEY_TYPE, KEY)                \
    static void NAME(ITEM *v, size_t n, size_t k)                  \
    {                                                              \
        size_t low = 0, high = n - 1;                              \
        while (low < high) {                                       \
            const KEY_TYPE pivot = KEY(v[low + (high - low) / 2]); \
            size_t i = low, j = high;                              \
            for (;;) {                                             \
                while (KEY(v[i]) < pivot)                          \
                    i++;                                           \
                while (KEY(v[j]) > pivot)                          \
                    j--;                                           \
                if (i >= j)                                        \
                    break;                                         \
                const ITEM swap = v[i];                            \
                v[i++] = v[j];                                     \
                v[j--] = swap;                                     \
            }                                                      \
            if (k <= j)                                            \
                high = j;                                          \
            else                                                   \
                low = j + 1;                                       \
        }                                                          \
    }

#endif
