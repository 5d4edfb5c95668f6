/* chem/sort.c - heap sort. */
#include "chem/sort.h"

#include <assert.h>
#include <string.h>

/* Let the item in `hole` sink until its children are not larger. */
static void sink(char *items, size_t hole, size_t n, size_t size,
                 int (*compare)(const void *, const void *))
{
    char item[TG_SORT_MAX_ITEM];

    memcpy(item, items + hole * size, size);
    for (size_t child; (child = 2 * hole + 1) < n; hole = child) {
        if (child + 1 < n && compare(items + child * size, items + (child + 1) * size) < 0)
            child++;
        if (compare(item, items + child * size) >= 0)
            break;
        memcpy(items + hole * size, items + child * size, size);
    }
    memcpy(items + hole * size, item, size);
}

void tg_heap_sort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
    char *items = base, last[TG_SORT_MAX_ITEM];

    assert(size <= TG_SORT_MAX_ITEM);
    for (size_t i = n / 2; i-- > 0;)
        sink(items, i, n, size, compare);
    for (size_t end = n; end-- > 1;) {
        memcpy(last, items + end * size, size);
        memcpy(items + end * size, items, size);
        memcpy(items, last, size);
        sink(items, 0, end, size, compare);
    }
}
