/* fuzz_roi_table.c - hostile attributes of a ROI table and of the AnnData in it: a line each
 * for the table, obs and var (attributes), X (zarr.json), and the JSON backend's columns.
 * Regions or a refusal, whatever they say. */
#include "region/roi_read.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* {"zarr_format": 3, ...} around attributes. */
static tg_status put_group(tg_store *s, const char *path, const char *attributes, size_t len)
{
    TG_AUTO(tg_text) doc = {0};
    TG_AUTO(tg_text) key = {0};

    tg_text_add(&doc, "{\"zarr_format\":3,\"node_type\":\"group\",\"attributes\":");
    tg_text_add_n(&doc, attributes, len);
    tg_text_add(&doc, "}");
    tg_text_addf(&key, "%s/zarr.json", path);
    TG_TRY(tg_text_status(&doc, NULL));
    return tg_store_put(s, key.data, doc.data, doc.len, NULL, NULL);
}

static tg_status put_names(tg_store *s, const char *path)
{
    static const char doc[] =
        "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[2],\"data_type\":\"string\","
        "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2]}},"
        "\"chunk_key_encoding\":{\"name\":\"default\"},\"fill_value\":\"x_micrometer\","
        "\"codecs\":[{\"name\":\"vlen-utf8\"}]}";
    return tg_store_put(s, path, doc, strlen(doc), NULL, NULL);
}

static tg_status build(tg_store *s, const char *text, size_t size)
{
    static const char *const paths[] = {"t", "t/obs", "t/var", "t/X/zarr.json", "t/table"};

    for (int i = 0; i < 5; i++) {
        const char *end = memchr(text, '\n', size);
        const size_t len = end == NULL ? size : (size_t)(end - text);
        TG_TRY(i == 3 ? tg_store_put(s, paths[i], text, len, NULL, NULL)
                      : put_group(s, paths[i], text, len));
        text += end == NULL ? len : len + 1;
        size -= end == NULL ? len : len + 1;
    }
    TG_TRY(put_names(s, "t/obs/_index/zarr.json"));
    TG_TRY(put_names(s, "t/obs/label/zarr.json"));
    return put_names(s, "t/var/_index/zarr.json");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TG_AUTO(tg_roi_set) set = {0};
    TG_AUTO_PTR(tg_store) s = NULL;

    if (tg_store_open_mem(&s, NULL) != TG_OK)
        abort();
    if (build(s, size == 0 ? "" : (const char *)data, size) == TG_OK &&
        tg_roi_read_table(&set, s, "t", (size_t)128 << 20, NULL, NULL) == TG_OK &&
        (set.list.start == NULL || set.list.n_axes < 2))
        abort();
    return 0;
}
