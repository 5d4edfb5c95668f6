/* fuzz/fuzz_imzml.c - any bytes as .imzML, over an .ibd of 4 KiB: the document, then every
 * array that it says is there, in each of the three ways of strictness. */
#include "ims/ibd.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_as(tg_store *store, tg_ims_strictness how)
{
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_ibd) r = NULL;
    tg_imzml_options o = {.strictness = how, .grid_from_3d = how == TG_IMS_STRICT};
    tg_ibd_spectrum s;
    tg_error e = {0};

    if (tg_imzml_open_store(&m, store, "t.imzML", &o, NULL, NULL, &e) != TG_OK)
        return;
    /* an inflated array may be long: what a budget would refuse is left alone */
    if (m->max_count > 1 << 22 || tg_ibd_new(&r, m, 0, m->n_spectra, 4096, &e) != TG_OK)
        return;
    while (tg_ibd_next(r, &s, NULL, &e) == TG_OK)
        if (tg_imzml_pixel(m, s.at) >= m->n_pixels)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t ibd[4096];
    TG_AUTO_PTR(tg_store) store = NULL;

    for (size_t i = 0; i < sizeof ibd; i++)
        ibd[i] = (uint8_t)(i * 37);
    if (tg_store_open_mem(&store, NULL) != TG_OK ||
        tg_store_put(store, "t.imzML", data, size, NULL, NULL) != TG_OK ||
        tg_store_put(store, "t.ibd", ibd, sizeof ibd, NULL, NULL) != TG_OK)
        abort();
    for (int how = TG_IMS_NORMAL; how <= TG_IMS_LENIENT; how++)
        open_as(store, (tg_ims_strictness)how);
    return 0;
}
