/* zarr.json of an array: whatever is read must be written so that it reads the same. */
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
    char key[TG_CHUNK_KEY_BYTES];
    uint64_t index[TG_MAX_NDIM] = {0}, back[TG_MAX_NDIM];
    tg_error err = {0};

    if (tg_array_meta_parse_v3(&m, (const char *)data, size, &err) != TG_OK) {
        must(m == NULL && err.msg[0] != '\0');
        return 0;
    }
    const tg_array_info *info = tg_array_meta_info(m);
    must(tg_array_meta_write(m, info->shape, NULL, &doc, &attrs, NULL) == TG_OK);
    must(attrs == NULL);
    must(tg_array_meta_parse_v3(&again, doc, strlen(doc), NULL) == TG_OK);
    const tg_array_info *now = tg_array_meta_info(again);
    must(now->ndim == info->ndim && memcmp(now->shape, info->shape, sizeof now->shape) == 0);
    must(memcmp(now->chunk, info->chunk, sizeof now->chunk) == 0);
    must(memcmp(now->shard, info->shard, sizeof now->shard) == 0);
    must(memcmp(now->fill, info->fill, sizeof now->fill) == 0);
    must(now->dtype.kind == info->dtype.kind && now->dtype.size == info->dtype.size);
    tg_chunk_key(m, index, key);
    must(tg_chunk_key_parse(m, key, back));
    (void)tg_chunk_scratch_bytes(m);
    return 0;
}
