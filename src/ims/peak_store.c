/* ims/peak_store.c - plain Zarr v3 columns with one chunk an object. */
#include "ims/peak_store.h"

#include "base/crc32c.h"

#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "columns are written as they lie in memory");

const char *const tg_column_names[TG_N_COLUMNS] = {"mz", "intensity", "pixel"};
const size_t tg_column_sizes[TG_N_COLUMNS] = {8, 4, 4};

tg_status tg_column_document(tg_text *out, const char *dtype, uint64_t n, uint64_t chunk,
                             const char *dimension, tg_error *err)
{
    tg_text_addf(
        out,
        "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[%llu],\"data_type\":\"%s\","
        "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[%llu]}},"
        "\"chunk_key_encoding\":{\"name\":\"default\",\"configuration\":{\"separator\":\"/\"}},"
        "\"fill_value\":%s,\"codecs\":[{\"name\":\"bytes\",\"configuration\":{\"endian\":"
        "\"little\"}},{\"name\":\"crc32c\"}],\"attributes\":{},\"dimension_names\":[\"%s\"]}\n",
        (unsigned long long)n, dtype, (unsigned long long)(chunk == 0 ? 1 : chunk),
        dtype[0] == 'f' ? "0.0" : "0", dimension);
    return tg_text_status(out, err);
}

tg_status tg_peak_key_join(char dst[TG_PEAK_KEY_BYTES], const char *prefix, const char *name,
                           tg_error *err)
{
    int n =
        snprintf(dst, TG_PEAK_KEY_BYTES, "%s%s%s", prefix, prefix[0] != '\0' ? "/" : "", name);
    if (n < 0 || n >= TG_PEAK_KEY_BYTES)
        return tg_fail(err, TG_INVALID, "key '%.80s...' is too long", prefix);
    return TG_OK;
}

static tg_status chunk_key(char dst[TG_PEAK_KEY_BYTES], const char *prefix, const char *name,
                           uint64_t chunk, tg_error *err)
{
    char last[64];
    (void)snprintf(last, sizeof last, "%s/c/%llu", name, (unsigned long long)chunk);
    return tg_peak_key_join(dst, prefix, last, err);
}

tg_status tg_column_put(tg_store *store, const char *prefix, const char *name, uint64_t chunk,
                        uint8_t *data, size_t bytes, const tg_cancel *cancel, tg_error *err)
{
    char key[TG_PEAK_KEY_BYTES];
    uint32_t sum = tg_crc32c(0, data, bytes);

    TG_TRY(chunk_key(key, prefix, name, chunk, err));
    memcpy(data + bytes, &sum, sizeof sum);
    return tg_store_put_lazy(store, key, data, bytes + sizeof sum, cancel, err);
}

tg_status tg_column_get(tg_store *store, const char *prefix, const char *name, uint64_t chunk,
                        uint8_t *dst, size_t bytes, const tg_cancel *cancel, tg_error *err)
{
    char key[TG_PEAK_KEY_BYTES];
    size_t n;
    uint32_t got, want;

    TG_TRY(chunk_key(key, prefix, name, chunk, err));
    TG_TRY(tg_store_get_into(store, key, tg_range_all(), dst, bytes + sizeof want, &n, NULL,
                             cancel, err));
    if (n != bytes + sizeof want) {
        tg_status st =
            tg_fail(err, TG_CORRUPT, "chunk '%s' of the peak store: %zu bytes, want %zu", key,
                    n, bytes + sizeof want);
        tg_error_at(err, key, TG_NO_OFFSET);
        return st;
    }
    memcpy(&want, dst + bytes, sizeof want);
    got = tg_crc32c(0, dst, bytes);
    if (got == want)
        return TG_OK;
    tg_status st =
        tg_fail(err, TG_CORRUPT, "chunk '%s' of the peak store: crc32c %08x, want %08x", key,
                got, want);
    tg_error_at(err, key, TG_NO_OFFSET);
    return st;
}
