/* .zarray, and behind the first NUL .zattrs: what is read must be written so that it reads the
 * same. */
#include "zarr/zarr.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    TG_AUTO_PTR(tg_array_meta) again = NULL;
    TG_AUTO(tg_str) doc = NULL;
    TG_AUTO(tg_str) attrs = NULL;
    const char *text = (const char *)data;
    const char *nul = size == 0 ? NULL : memchr(data, 0, size);
    size_t len = nul == NULL ? size : (size_t)(nul - text);
    tg_error err = {0};

    if (tg_array_meta_parse_v2(&m, text, len, nul == NULL ? NULL : nul + 1,
                               nul == NULL ? 0 : size - len - 1, &err) != TG_OK) {
        must(m == NULL && err.msg[0] != '\0');
        return 0;
    }
    const tg_array_info *info = tg_array_meta_info(m);
    must(tg_array_meta_write(m, info->shape, NULL, &doc, &attrs, NULL) == TG_OK);
    must(tg_array_meta_parse_v2(&again, doc, strlen(doc), attrs,
                                attrs == NULL ? 0 : strlen(attrs), NULL) == TG_OK);
    const tg_array_info *now = tg_array_meta_info(again);
    must(now->ndim == info->ndim && memcmp(now->shape, info->shape, sizeof now->shape) == 0);
    must(memcmp(now->chunk, info->chunk, sizeof now->chunk) == 0);
    must(memcmp(now->fill, info->fill, sizeof now->fill) == 0);
    must(now->dtype.kind == info->dtype.kind && now->has_fill == info->has_fill);
    return 0;
}
