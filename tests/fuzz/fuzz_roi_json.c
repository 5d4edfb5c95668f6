/* fuzz_roi_json.c - any bytes as our JSON of regions: boxes that become pixels by every rule,
 * or a refusal. */
#include "region/roi_read.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const axes[] = {"z", "y", "x"};
    static const double scale[] = {2, 0.5, 0.1625};
    const tg_shape array = {3, {5, 100, 1000}};
    TG_AUTO(tg_roi_set) s = {0};
    const tg_bytes text = {size == 0 ? (const uint8_t *)"" : data, size};

    if (tg_roi_read_json(&s, text, (size_t)1 << 20, NULL) != TG_OK)
        return 0;
    uint64_t *bounds = tg_alloc_array((size_t)s.list.n + 1, 6 * sizeof *bounds);
    if (bounds == NULL)
        abort();
    for (int rule = TG_PX_NGIO; rule <= TG_PX_OUTER; rule++)
        if (tg_rois_boxes(&s.list, &array, axes, scale, (tg_px_rule)rule, bounds, NULL, NULL) ==
            TG_OK)
            for (uint64_t i = 0; i < s.list.n; i++)
                for (int k = 0; k < 3; k++)
                    if (bounds[6 * i + k] > bounds[6 * i + 3 + k] ||
                        bounds[6 * i + 3 + k] > array.n[k])
                        abort();
    tg_free(bounds);
    return 0;
}
