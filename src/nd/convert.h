/* nd/convert.h - items of one type as items of another. Pure. */
#ifndef TG_ND_CONVERT_H
#define TG_ND_CONVERT_H

#include "nd/nd.h"

/* Can items of `from` become items of `to`? Numbers and bool can; complex only complex, of real
 * numbers; raw bytes and strings only themselves. */
bool tg_nd_can_convert(tg_dtype from, tg_dtype to);
/* n items, contiguous; dst and src do not overlap. Integers saturate; a float becomes an
 * integer by rounding half to even, NaN by 0; a float beyond the range of a smaller one is
 * infinity; not 0 is true. Returns how many items did not fit. */
uint64_t tg_nd_convert(void *dst, tg_dtype to, const void *src, tg_dtype from, size_t n);

#endif
