/* Documents for tests: a good one with one member replaced, removed or added. */
#ifndef TG_TESTS_ZARR_DOCS_H
#define TG_TESTS_ZARR_DOCS_H

#include "zarr/zarr.h"

#include <stdio.h>
#include <string.h>

struct member {
    const char *key, *text;
};

#define BYTES_LE "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}"
#define CRC32C   "{\"name\":\"crc32c\"}"
#define SHARDING(inner, location, index)                                                      \
    "{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":" inner ",\"codecs\":" \
    "[" BYTES_LE "],\"index_codecs\":" index ",\"index_location\":\"" location "\"}}"

static const struct member docs_v3[] = {
    {"zarr_format", "3"},
    {"node_type", "\"array\""},
    {"shape", "[6]"},
    {"data_type", "\"int16\""},
    {"chunk_grid", "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2]}}"},
    {"chunk_key_encoding", "{\"name\":\"default\",\"configuration\":{\"separator\":\"/\"}}"},
    {"fill_value", "-1"},
    {"codecs", "[" BYTES_LE "]"},
};
static const struct member docs_v2[] = {
    {"zarr_format", "2"},   {"shape", "[6]"},     {"chunks", "[2]"},  {"dtype", "\"<i2\""},
    {"compressor", "null"}, {"fill_value", "-1"}, {"order", "\"C\""}, {"filters", "null"},
};

/* changes: members that replace those of the same key or come at the end; text NULL removes;
 * ends with key NULL. */
static inline char *docs_make(const struct member *base, size_t n, const struct member *changes)
{
    tg_text t = {0};
    bool used[8] = {false};

    tg_text_add(&t, "{");
    for (size_t i = 0; i < n; i++) {
        const char *text = base[i].text;
        for (size_t c = 0; changes != NULL && changes[c].key != NULL; c++)
            if (strcmp(changes[c].key, base[i].key) == 0) {
                text = changes[c].text;
                used[c] = true;
            }
        if (text != NULL)
            tg_text_addf(&t, "%s\"%s\":%s", t.len > 1 ? "," : "", base[i].key, text);
    }
    for (size_t c = 0; changes != NULL && changes[c].key != NULL; c++)
        if (!used[c] && changes[c].text != NULL)
            tg_text_addf(&t, ",\"%s\":%s", changes[c].key, changes[c].text);
    tg_text_add(&t, "}");
    return tg_text_steal(&t);
}

static inline char *docs_make_v3(const struct member *changes)
{
    return docs_make(docs_v3, sizeof docs_v3 / sizeof docs_v3[0], changes);
}
static inline char *docs_make_v2(const struct member *changes)
{
    return docs_make(docs_v2, sizeof docs_v2 / sizeof docs_v2[0], changes);
}

static inline tg_status docs_parse_v3(tg_array_meta **out, const struct member *changes,
                                      tg_error *err)
{
    TG_AUTO(tg_str) text = docs_make_v3(changes);
    return tg_array_meta_parse_v3(out, text, strlen(text), err);
}
static inline tg_status docs_parse_v2(tg_array_meta **out, const struct member *changes,
                                      const char *attributes, tg_error *err)
{
    TG_AUTO(tg_str) text = docs_make_v2(changes);
    return tg_array_meta_parse_v2(out, text, strlen(text), attributes,
                                  attributes == NULL ? 0 : strlen(attributes), err);
}

#endif
