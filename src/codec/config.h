/* codec/config.h - reading a codec's configuration from metadata, for codec/
 * only. In zarr_format 3 a key that is not known is refused: it may change what
 * the bytes mean. In zarr_format 2 it is passed over, as numcodecs' versions
 * add keys freely. */
#ifndef TG_CODEC_CONFIG_H
#define TG_CODEC_CONFIG_H

#include "base/json.h"

typedef struct tg_config {
    const char *codec;   /* its name, for messages */
    const tg_json *json; /* an object, or NULL: no configuration */
    int zarr_format;
    size_t item_bytes; /* of the array: blosc's typesize where the metadata has none */
} tg_config;

bool tg_config_has(const tg_config *c, const char *key);
/* Each leaves *out as it is if the key is missing. A value of another kind or out of range is
 * TG_CORRUPT. */
TG_MUST_USE tg_status tg_config_int(const tg_config *c, const char *key, int64_t min,
                                    int64_t max, int *out, tg_error *err);
TG_MUST_USE tg_status tg_config_bool(const tg_config *c, const char *key, bool *out,
                                     tg_error *err);
/* One of n words; *out is its index. */
TG_MUST_USE tg_status tg_config_word(const tg_config *c, const char *key,
                                     const char *const *words, size_t n, int *out,
                                     tg_error *err);
/* Are there no keys but these (n of them)? Asks nothing in zarr_format 2. */
TG_MUST_USE tg_status tg_config_only(const tg_config *c, const char *const *keys, size_t n,
                                     tg_error *err);

/* Writing: an object with the name of a codec under "name" (3) or "id" (2); its
 * configuration, to be filled, under *at: a member of it (3) or itself (2). */
TG_MUST_USE tg_status tg_config_begin(const char *codec, int zarr_format, tg_json **out,
                                      tg_json **at, tg_error *err);

#endif
