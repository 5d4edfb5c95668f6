/* fuzz_roi_geojson.c - any bytes as GeoJSON: regions whose boxes hold their outlines, or a
 * refusal; never more memory than the limit and what reading one feature takes. */
#include "region/roi_read.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TG_AUTO(tg_roi_set) s = {0};
    const tg_bytes text = {size == 0 ? (const uint8_t *)"" : data, size};
    uint8_t mask[64];

    if (tg_roi_read_geojson(&s, text, (size_t)1 << 20, NULL) != TG_OK)
        return 0;
    for (uint64_t i = 0; i < s.list.n; i++) {
        const uint32_t n = s.list.n_axes;
        const double y = s.list.start[i * n + n - 2], x = s.list.start[i * n + n - 1];
        const double h = s.list.length[i * n + n - 2], w = s.list.length[i * n + n - 1];
        for (uint64_t k = s.outlines.ring[i]; k < s.outlines.ring[i + 1]; k++)
            for (uint64_t p = s.outlines.point[k]; p < s.outlines.point[k + 1]; p++) {
                const double px = s.outlines.xy[2 * p], py = s.outlines.xy[2 * p + 1];
                if (!(px >= x && px <= x + w && py >= y && py <= y + h))
                    abort();
            }
        tg_roi_outline_mask(&s.outlines, i, (int64_t)y, (int64_t)x, 8, 8, mask);
    }
    return 0;
}
