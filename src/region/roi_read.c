/* What the words of --rois name, and who reads it. */
#include "region/roi_frame.h"

#include <string.h>

enum { PATH_BYTES = 1024 };

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n > m && strcmp(s + n - m, end) == 0;
}

/* A file whole. Paths are the user's: nothing of a store's rules holds for the folder. */
static tg_status load(const char *path, size_t limit, tg_buf *out, const tg_cancel *cancel,
                      tg_error *err)
{
    const tg_store_options mode = {.size = sizeof mode, .mode = TG_STORE_READ};
    const char *slash = strrchr(path, '/');
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO(tg_str) folder = tg_strdup(path);

    if (folder == NULL)
        return tg_fail(err, TG_NO_MEMORY, "'%.200s'", path);
    if (slash != NULL)
        folder[slash == path ? 1 : slash - path] = '\0';
    TG_TRY(tg_store_open_fs(&store, slash == NULL ? "." : folder, &mode, err));
    return tg_store_get(store, slash == NULL ? path : slash + 1, tg_range_all(), limit, out,
                        cancel, err);
}

static tg_status read_text(tg_roi_set *out, const char *path, const tg_roi_source *source,
                           const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_buf) text = {0};
    tg_roi_source rest = *source;

    TG_TRY(load(path, source->limit / 2, &text, cancel, err));
    const tg_bytes bytes = {text.data, text.len};
    rest.limit -= text.len;
    if (ends_with(path, ".geojson"))
        return tg_roi_read_geojson(out, bytes, rest.limit, err);
    if (ends_with(path, ".roi"))
        return tg_roi_read_imagej(out, bytes, "", rest.limit, err);
    if (ends_with(path, ".json"))
        return tg_roi_read_json(out, bytes, rest.limit, err);
    return tg_roi_read_csv(out, bytes, &rest, err);
}

static tg_status check_store(const char *text, const tg_roi_source *source, tg_error *err)
{
    if (source->store != NULL)
        return TG_OK;
    return tg_fail(err, TG_INVALID, "'%.60s' lies in an image: name that, too", text);
}

static tg_status below_image(char *dst, const tg_roi_source *source, const char *folder,
                             const char *name, tg_error *err)
{
    char path[PATH_BYTES];
    const char *image = source->image == NULL ? "" : source->image;

    if (folder == NULL)
        return tg_path_join(dst, PATH_BYTES, image, name, err);
    TG_TRY(tg_path_join(path, sizeof path, image, folder, err));
    return tg_path_join(dst, PATH_BYTES, path, name, err);
}

static tg_status read_source(tg_roi_set *out, const char *text, const tg_roi_source *source,
                             const tg_cancel *cancel, tg_error *err)
{
    char path[PATH_BYTES];

    if (strncmp(text, "table:", 6) == 0) {
        TG_TRY(check_store(text, source, err));
        TG_TRY(below_image(path, source, "tables", text + 6, err));
        return tg_roi_read_table(out, source->store, path, source->limit, cancel, err);
    }
    if (strncmp(text, "labels:", 7) == 0) {
        TG_TRY(check_store(text, source, err));
        TG_TRY(below_image(path, source, NULL, text + 7, err));
        return tg_roi_read_labels(out, source->store, path, source->limit, cancel, err);
    }
    if (strncmp(text, "grid:", 5) == 0) {
        if (source->array == NULL)
            return tg_fail(err, TG_INVALID, "'%.60s': of which array?", text);
        return tg_roi_grid(out, text + 5, source->array, source->axes, source->limit, err);
    }
    if (ends_with(text, ".zip"))
        return tg_roi_read_roiset(out, text, source->limit, cancel, err);
    if (ends_with(text, ".csv") || ends_with(text, ".tsv") || ends_with(text, ".geojson") ||
        ends_with(text, ".roi") || ends_with(text, ".json"))
        return read_text(out, text, source, cancel, err);
    return tg_fail(err, TG_INVALID,
                   "regions '%.200s': want FILE.json, FILE.csv, FILE.geojson, FILE.zip, "
                   "FILE.roi, table:NAME, grid:SIZE[/STEP] or labels:PATH",
                   text);
}

tg_status tg_roi_read(tg_roi_set *out, const char *text, const tg_roi_source *source,
                      const tg_cancel *cancel, tg_error *err)
{
    const tg_status st = read_source(out, text, source, cancel, err);

    if (st == TG_CORRUPT || st == TG_UNSUPPORTED) {
        if (strncmp(text, "table:", 6) != 0) /* it names itself */
            tg_error_prefix(err, "'%.200s'", text);
        tg_error_at(err, text, TG_NO_OFFSET);
    }
    return st;
}
