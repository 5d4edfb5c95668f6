/* Byte 0 is a number of strings, the rest their bytes: an error, or strings that encode to the
 * same bytes again. */
#include "codec/codecs.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TG_AUTO(tg_strings) s = {0};
    size_t n = 0;

    if (size == 0)
        return 0;
    tg_bytes src = {data + 1, size - 1};
    tg_status st = tg_vlen_decode(src, data[0], 4096, &s, NULL);
    if (st == TG_CORRUPT)
        return 0;
    if (st != TG_OK || tg_vlen_bytes(&s, &n, NULL) != TG_OK || n != src.len)
        abort();
    TG_AUTO(tg_mem_ptr) again = tg_alloc(n);
    if (again == NULL || tg_vlen_encode(&s, again, NULL) != TG_OK ||
        memcmp(again, src.data, n) != 0)
        abort();
    return 0;
}
