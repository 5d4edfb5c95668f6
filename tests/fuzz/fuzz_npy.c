/* fuzz_npy.c - any bytes as the beginning of a .npy file: refused with a message, or read, and
 * then a header of our own says the same. */
#include "region/npy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char room[1280];
    tg_npy npy, again;
    tg_error err = {0};

    if (tg_npy_parse(&npy, data, size, &err) != TG_OK) {
        if (err.msg[0] == '\0')
            abort();
        return 0;
    }
    if (npy.data_start > size || npy.shape.ndim > TG_MAX_NDIM || npy.dtype.kind == TG_DT_NONE)
        abort();
    const size_t n = tg_npy_header(room, npy.dtype, &npy.shape);
    if (n % 64 != 0 || tg_npy_parse(&again, (const uint8_t *)room, n, &err) != TG_OK ||
        again.data_start != n || again.swapped || again.fortran ||
        again.dtype.kind != npy.dtype.kind || again.dtype.size != npy.dtype.size ||
        !tg_shape_equal(&again.shape, &npy.shape))
        abort();
    return 0;
}
