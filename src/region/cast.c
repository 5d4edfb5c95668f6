/* From one type of items to another in place, block by block. */
#include "nd/convert.h"
#include "region/accum.h"

#include <string.h>

enum { BLOCK = 256, WIDEST = 8 };

tg_status tg_cast_check(tg_dtype from, tg_dtype to, tg_error *err)
{
    char a[16], b[16];
    const bool same = from.kind == to.kind && from.size == to.size;

    if (same ? from.kind != TG_DT_STRING
             : to.kind != TG_DT_COMPLEX && tg_nd_can_convert(from, to))
        return TG_OK;
    return tg_fail(err, TG_INVALID, "items of %s cannot become %s", tg_dtype_name(from, a),
                   tg_dtype_name(to, b));
}

/* Items that grow are moved from the last block to the first, so that none is written over
 * before it is read. Floats that become floats are rounded and not counted. */
void tg_cast_items(uint8_t *data, uint64_t n, tg_dtype from, tg_dtype to, uint64_t *saturated)
{
    const uint64_t blocks = (n + BLOCK - 1) / BLOCK;
    uint8_t block[(size_t)BLOCK * WIDEST];

    if (from.kind == to.kind && from.size == to.size)
        return;
    for (uint64_t b = 0; b < blocks; b++) {
        const uint64_t at = (to.size > from.size ? blocks - 1 - b : b) * BLOCK;
        const uint64_t m = n - at < BLOCK ? n - at : BLOCK;
        memcpy(block, data + at * from.size, m * from.size);
        const uint64_t lost = tg_nd_convert(data + at * to.size, to, block, from, m);
        *saturated += to.kind == TG_DT_FLOAT ? 0 : lost;
    }
}
