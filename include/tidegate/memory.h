/* tidegate/memory.h - memory that passes between the library and its caller.
 *
 * Strings and arrays that a call hands out (`T **out`) are freed with
 * tg_free(). The library itself takes memory nowhere else. */
#ifndef TG_MEMORY_H
#define TG_MEMORY_H

#include "tidegate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

TG_API void *tg_alloc(size_t size); /* NULL when out of memory; never for size 0 alone */
TG_API void *tg_alloc_array(size_t n, size_t size); /* NULL also when n * size overflows */
TG_API void *tg_calloc(size_t n, size_t size);      /* as tg_alloc_array(), zeroed */
TG_API void tg_free(void *p);                       /* p may be NULL */
TG_API char *tg_strdup(const char *s);

#ifdef __cplusplus
}
#endif
#endif
