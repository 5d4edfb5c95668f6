/* chem/sort.h - sorting in place: no memory of its own, unlike the C library's. */
#ifndef TG_CHEM_SORT_H
#define TG_CHEM_SORT_H

#include <stddef.h>

/* Heap sort of n items of `size` bytes (at most TG_SORT_MAX_ITEM), rising by compare. Not
 * stable: compare must tell apart what must not be mixed up. */
#define TG_SORT_MAX_ITEM 64
void tg_heap_sort(void *base, size_t n, size_t size,
                  int (*compare)(const void *, const void *));

#endif
