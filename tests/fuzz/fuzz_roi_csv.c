/* fuzz_roi_csv.c - any bytes as a CSV file of boxes: as many regions as rows at most, all edges
 * numbers, or a refusal. */
#include "region/roi_read.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TG_AUTO(tg_roi_set) s = {0};
    const tg_bytes text = {size == 0 ? (const uint8_t *)"" : data, size};
    const tg_roi_source source = {.limit = (size_t)1 << 20};
    uint64_t lines = 1;

    if (tg_roi_read_csv(&s, text, &source, NULL) != TG_OK)
        return 0;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n' || data[i] == '\r';
    if (s.list.n > lines)
        abort();
    for (uint64_t i = 0; i < s.list.n * s.list.n_axes; i++)
        if (!isfinite(s.list.start[i]) || !(s.list.length[i] >= 0))
            abort();
    return 0;
}
