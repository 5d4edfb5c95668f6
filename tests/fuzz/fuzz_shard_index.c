/* A shard of another writer: first byte: index at the start (1), big-endian (2), checksum (4),
 * transposed (8); the rest is the shard. An index that is believed must lie within it, and
 * encode to the bytes that it was. */
#include "zarr/zarr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHUNKS = 6 };

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void make_doc(char *dst, size_t cap, unsigned how)
{
    int n = snprintf(
        dst, cap,
        "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[4,6],\"data_type\":\"uint8\","
        "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[4,6]}},"
        "\"chunk_key_encoding\":{\"name\":\"default\"},\"fill_value\":0,\"codecs\":[%s"
        "{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[2,2],\"codecs\":["
        "{\"name\":\"bytes\"}],\"index_codecs\":[{\"name\":\"bytes\",\"configuration\":{"
        "\"endian\":\"%s\"}}%s],\"index_location\":\"%s\"}}]}",
        (how & 8) != 0 ? "{\"name\":\"transpose\",\"configuration\":{\"order\":[1,0]}}," : "",
        (how & 2) != 0 ? "big" : "little", (how & 4) != 0 ? ",{\"name\":\"crc32c\"}" : "",
        (how & 1) != 0 ? "start" : "end");
    must(n > 0 && (size_t)n < cap);
}

static void read_all(const char *doc, const uint8_t *shard, size_t size)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    const uint64_t zero[2] = {0, 0}, shape[2] = {4, 6};
    uint8_t items[24];

    must(tg_store_open_mem(&s, NULL) == TG_OK);
    must(tg_store_put(s, "zarr.json", doc, strlen(doc), NULL, NULL) == TG_OK);
    must(tg_store_put(s, "c/0/0", shard, size, NULL, NULL) == TG_OK);
    must(tg_array_open(s, "", &a, NULL, NULL) == TG_OK);
    tg_status st = tg_array_read(a, zero, shape, items, NULL, NULL, NULL);
    must(st == TG_OK || st == TG_CORRUPT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    tg_shard_entry entries[CHUNKS];
    uint8_t again[CHUNKS * 16 + 4];
    char doc[800];

    if (size == 0)
        return 0;
    make_doc(doc, sizeof doc, data[0]);
    const uint8_t *shard = data + 1;
    size--;
    must(tg_array_meta_parse_v3(&m, doc, strlen(doc), NULL) == TG_OK);
    must(tg_shard_chunks(m) == CHUNKS);
    read_all(doc, shard, size);
    const size_t n = tg_shard_index_bytes(m);
    if (size < n)
        return 0;
    const uint8_t *index = tg_shard_index_at_start(m) ? shard : shard + size - n;
    if (tg_shard_index_decode(m, (tg_bytes){index, n}, size, entries, NULL) != TG_OK)
        return 0;
    for (int i = 0; i < CHUNKS; i++)
        must(entries[i].offset == UINT64_MAX ||
             (entries[i].nbytes <= size && entries[i].offset <= size - entries[i].nbytes));
    must(tg_shard_index_encode(m, entries, again, NULL) == TG_OK);
    must(memcmp(again, index, n) == 0);
    return 0;
}
