/* fuzz_plate.c - any bytes for a plate's file: refused as the user's mistake, or a plate whose
 * frames all have a place and whose documents can be made. */
#include "ome/ome.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_places(const tg_ome_plate *p)
{
    uint64_t frames = tg_ome_plate_frames(p);
    uint64_t n = tg_ome_plate_images(p) * (frames == 0 ? 2 : frames);
    for (uint64_t i = 0; i < n && i < 64; i++) {
        uint64_t image = 0, frame = 0;
        char path[80];
        if (tg_ome_plate_locate(p, n - 1 - i, &image, &frame, NULL) != TG_OK ||
            image >= tg_ome_plate_images(p) || (frames != 0 && frame >= frames) ||
            tg_ome_plate_image_path(p, image, path, sizeof path, NULL) != TG_OK)
            abort();
    }
    uint64_t image = 0, frame = 0;
    if (frames != 0 && tg_ome_plate_locate(p, n, &image, &frame, NULL) != TG_INVALID)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TG_AUTO_PTR(tg_ome_plate) p = NULL;
    TG_AUTO_PTR(tg_json) plate = NULL;
    tg_error err = {0};
    tg_status st = tg_ome_plate_parse(&p, (const char *)data, size, &err);
    if (st != TG_OK) {
        if (st != TG_INVALID || err.msg[0] == '\0')
            abort();
        return 0;
    }
    check_places(p);
    if (tg_ome_plate_attributes(p, TG_OME_0_5, &plate, &err) != TG_OK)
        abort();
    return 0;
}
