/* ims/peak_sort.c - radix sort of peaks: by the leading digits that differ, then by insertion.
 */
#include "ims/peak_sort.h"

#include <stdbool.h>

#define DIGIT_BITS 11
#define N_DIGITS   (1u << DIGIT_BITS)
#define LEADING    3 /* digits that leave a spread of m/z few neighbours in the wrong order */

static void key_range(const tg_peak *p, size_t n, uint64_t *least, uint64_t *spread)
{
    uint64_t lo = UINT64_MAX, hi = 0;
    for (size_t i = 0; i < n; i++) {
        lo = p[i].key < lo ? p[i].key : lo;
        hi = p[i].key > hi ? p[i].key : hi;
    }
    *least = lo;
    *spread = hi - lo;
}

/* One stable pass by (key - least) >> shift; false: all have the same digit, nothing moved. */
static bool pass(const tg_peak *from, tg_peak *to, size_t n, uint64_t least, unsigned shift)
{
    size_t at[N_DIGITS] = {0}, sum = 0;

    for (size_t i = 0; i < n; i++)
        at[((from[i].key - least) >> shift) & (N_DIGITS - 1)]++;
    for (size_t d = 0; d < N_DIGITS; d++) {
        size_t count = at[d];
        if (count == n)
            return false;
        at[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[at[((from[i].key - least) >> shift) & (N_DIGITS - 1)]++] = from[i];
    return true;
}

/* Sort by the digits from `lowest` bits up to `bits`. */
static void sort_digits(tg_peak *peaks, tg_peak *scratch, size_t n, uint64_t least,
                        unsigned lowest, unsigned bits)
{
    tg_peak *from = peaks, *to = scratch;
    for (unsigned shift = lowest; shift < bits; shift += DIGIT_BITS)
        if (pass(from, to, n, least, shift)) {
            tg_peak *swap = from;
            from = to;
            to = swap;
        }
    if (from != peaks)
        memcpy(peaks, from, n * sizeof *peaks);
}

/* Insertion, stable; false when more than `most` moves were needed: the order is then still one
 * in which equal keys are in order. */
static bool insert_all(tg_peak *p, size_t n, size_t most)
{
    size_t moves = 0;
    for (size_t i = 1; i < n; i++) {
        if (p[i - 1].key <= p[i].key)
            continue;
        tg_peak x = p[i];
        size_t k = i;
        for (; k > 0 && p[k - 1].key > x.key; k--)
            p[k] = p[k - 1];
        p[k] = x;
        moves += i - k;
        if (moves > most)
            return false;
    }
    return true;
}

void tg_peaks_sort(tg_peak *peaks, tg_peak *scratch, size_t n)
{
    uint64_t least, spread;

    if (n < 2)
        return;
    key_range(peaks, n, &least, &spread);
    unsigned bits = spread == 0 ? 0 : 64 - (unsigned)__builtin_clzll(spread);
    unsigned lowest = bits > LEADING * DIGIT_BITS ? bits - LEADING * DIGIT_BITS : 0;
    sort_digits(peaks, scratch, n, least, lowest, bits);
    if (lowest > 0 && !insert_all(peaks, n, 4 * n))
        sort_digits(peaks, scratch, n, least, 0, bits); /* many m/z within a hair's breadth */
}
