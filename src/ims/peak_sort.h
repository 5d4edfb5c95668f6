/* ims/peak_sort.h - peaks as records, and sorting them by m/z without mixing up equal ones. */
#ifndef TG_IMS_PEAK_SORT_H
#define TG_IMS_PEAK_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* key: the bits of the m/z, a positive double, whose order is that of the number. */
typedef struct tg_peak {
    uint64_t key;
    float intensity;
    uint32_t pixel;
} tg_peak;

static inline uint64_t tg_peak_key(double mz)
{
    uint64_t key;
    memcpy(&key, &mz, sizeof key);
    return key;
}

static inline double tg_peak_mz(uint64_t key)
{
    double mz;
    memcpy(&mz, &key, sizeof mz);
    return mz;
}

/* Rising by key; equal keys keep their order. scratch: room for n records. The result is in
 * peaks. */
void tg_peaks_sort(tg_peak *peaks, tg_peak *scratch, size_t n);

#endif
