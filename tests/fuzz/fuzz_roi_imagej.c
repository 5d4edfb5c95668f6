/* fuzz_roi_imagej.c - any bytes as an ImageJ .roi: one region with a box and a name that is
 * UTF-8, or a refusal. */
#include "region/roi_read.h"
#include "tidegate/text.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TG_AUTO(tg_roi_set) s = {0};
    const tg_bytes bytes = {size == 0 ? (const uint8_t *)"" : data, size};
    uint8_t mask[64];

    if (tg_roi_read_imagej(&s, bytes, "a", (size_t)1 << 20, NULL) != TG_OK)
        return 0;
    if (s.list.n != 1 || s.list.n_axes < 2 || s.list.name == NULL ||
        !tg_utf8_valid(s.list.names, (size_t)s.list.name[1]))
        abort();
    for (uint32_t i = 0; i < s.list.n_axes; i++)
        if (!isfinite(s.list.start[i]) || !(s.list.length[i] >= 0))
            abort();
    tg_roi_outline_mask(&s.outlines, 0, (int64_t)s.list.start[s.list.n_axes - 2], 0, 8, 8,
                        mask);
    return 0;
}
