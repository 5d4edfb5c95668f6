/* Levels of images, read from the metadata of the image's group. Translations are not looked
 * at: positions are counted from the first pixel, as Fractal and ngio do. */
#include "ome/level.h"

#include "base/json.h"
#include "zarr/zarr.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ABOVE = 2 }; /* parts of a dataset's path: "0", "resolutions/0" */

static tg_status attributes_of(tg_store *store, const char *path, tg_node_kind *kind,
                               tg_json **out, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;

    TG_TRY(tg_node_open(store, path, &node, cancel, err));
    *kind = tg_node_kind_of(node);
    const char *text = tg_node_attributes(node);
    return tg_json_parse(out, text, strlen(text), (tg_json_options){.allow_nan = true}, err);
}

/* The image in a group's attributes, or NULL. */
static const tg_json *image_of(const tg_json *attributes)
{
    const tg_json *ome = tg_json_get(attributes, "ome");

    return tg_json_at(tg_json_get(ome != NULL ? ome : attributes, "multiscales"), 0);
}

static const char *text_of(const tg_json *object, const char *key)
{
    const tg_json *v = tg_json_get(object, key);
    const char *s = NULL;

    if (tg_json_kind_of(v) != TG_JSON_STRING || tg_json_string(v, &s, NULL, NULL) != TG_OK)
        return NULL;
    return s;
}

static tg_status put_path(char dst[1024], const char *src, size_t n, tg_error *err)
{
    if (n >= 1024)
        return tg_fail(err, TG_INVALID, "path '%.80s...': longer than 1023 bytes", src);
    memcpy(dst, src, n);
    dst[n] = '\0';
    return TG_OK;
}

static tg_status put_name(char *dst, const tg_json *axis, const char *key, tg_error *err)
{
    const char *s = text_of(axis, key);

    if (s != NULL && strlen(s) >= TG_OME_NAME_BYTES)
        return tg_fail(err, TG_CORRUPT, "an axis with a %s of %zu bytes", key, strlen(s));
    (void)snprintf(dst, TG_OME_NAME_BYTES, "%s", s == NULL ? "" : s);
    return TG_OK;
}

/* --- Axes and scales
 * ---------------------------------------------------------------------------- */

static tg_status multiply(tg_ome_level *l, const tg_json *transforms, tg_error *err)
{
    for (size_t i = 0; i < tg_json_size(transforms); i++) {
        const tg_json *t = tg_json_at(transforms, i), *scale = tg_json_get(t, "scale");
        const char *type = text_of(t, "type");
        if (type == NULL || strcmp(type, "scale") != 0)
            continue;
        if (tg_json_size(scale) != l->ndim)
            return tg_fail(err, TG_CORRUPT,
                           "a scale of %zu numbers for an array of %" PRIu32 " dimensions",
                           tg_json_size(scale), l->ndim);
        for (uint32_t k = 0; k < l->ndim; k++) {
            double v = 0;
            TG_TRY(tg_json_double(tg_json_at(scale, k), &v, err));
            l->scale[k] *= v;
            if (!(l->scale[k] > 0) || !isfinite(l->scale[k]))
                return tg_fail(err, TG_CORRUPT, "a scale of %.17g", l->scale[k]);
        }
    }
    return TG_OK;
}

static tg_status read_axes(tg_ome_level *l, const tg_json *image, tg_error *err)
{
    const tg_json *axes = tg_json_get(image, "axes");

    if (tg_json_size(axes) != l->ndim)
        return tg_fail(err, TG_CORRUPT, "%zu axes for an array of %" PRIu32 " dimensions",
                       tg_json_size(axes), l->ndim);
    for (uint32_t i = 0; i < l->ndim; i++) {
        const tg_json *axis = tg_json_at(axes, i);
        TG_TRY(put_name(l->axis[i], axis, "name", err));
        TG_TRY(put_name(l->unit[i], axis, "unit", err));
    }
    return TG_OK;
}

/* An array whose metadata name no axis: the last three are z, y and x, those before d0, d1...
 */
static void name_axes(tg_ome_level *l)
{
    static const char usual[] = "zyx";
    for (uint32_t i = 0; i < l->ndim; i++) {
        const uint32_t behind = l->ndim - 1 - i;
        if (behind < 3)
            l->axis[i][0] = usual[2 - behind];
        else
            (void)snprintf(l->axis[i], sizeof l->axis[i], "d%" PRIu32, i);
    }
}

static tg_status read_array(tg_ome_level *l, tg_store *store, const tg_cancel *cancel,
                            tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};

    TG_TRY(tg_array_open(store, l->array, &a, cancel, err));
    TG_TRY(tg_array_get_info(a, &info, err));
    l->ndim = info.ndim;
    memcpy(l->shape, info.shape, sizeof l->shape);
    bool named = false;
    for (uint32_t i = 0; i < l->ndim; i++)
        named |= info.dimension_name[i] != NULL;
    if (!named)
        name_axes(l);
    for (uint32_t i = 0; i < l->ndim; i++) {
        const char *name = info.dimension_name[i];
        l->scale[i] = 1;
        if (name != NULL && strlen(name) < TG_OME_NAME_BYTES)
            memcpy(l->axis[i], name, strlen(name) + 1);
    }
    return TG_OK;
}

/* The array is known; `image` says what its axes are. */
static tg_status read_image(tg_ome_level *l, const tg_json *image, tg_error *err)
{
    const tg_json *dataset = tg_json_at(tg_json_get(image, "datasets"), l->level);

    l->in_image = true;
    TG_TRY(read_axes(l, image, err));
    TG_TRY(multiply(l, tg_json_get(dataset, "coordinateTransformations"), err));
    return multiply(l, tg_json_get(image, "coordinateTransformations"), err);
}

/* --- Which level
 * ----------------------------------------------------------------------------------- */

static tg_status from_group(tg_ome_level *l, tg_store *store, const char *path,
                            const tg_json *image, const tg_cancel *cancel, tg_error *err)
{
    const char *first = text_of(tg_json_at(tg_json_get(image, "datasets"), 0), "path");

    if (first == NULL)
        return tg_fail(err, TG_INVALID, "'%.200s' is a group and no image", path);
    TG_TRY(put_path(l->image, path, strlen(path), err));
    TG_TRY(tg_path_join(l->array, sizeof l->array, path, first, err));
    TG_TRY(read_array(l, store, cancel, err));
    return read_image(l, image, err);
}

/* Is the array at l->image/rest one of this image's datasets? */
static bool find_dataset(tg_ome_level *l, const tg_json *image, const char *rest)
{
    const tg_json *list = tg_json_get(image, "datasets");

    for (size_t i = 0; i < tg_json_size(list) && i < UINT32_MAX; i++) {
        const char *path = text_of(tg_json_at(list, i), "path");
        if (path != NULL && strcmp(path, rest) == 0) {
            l->level = (uint32_t)i;
            return true;
        }
    }
    return false;
}

/* An array: the image is a group above it that lists it. */
static tg_status from_array(tg_ome_level *l, tg_store *store, const char *path,
                            const tg_cancel *cancel, tg_error *err)
{
    const char *slash = path + strlen(path);

    TG_TRY(put_path(l->array, path, strlen(path), err));
    TG_TRY(read_array(l, store, cancel, err));
    for (int up = 0; up < MOST_ABOVE && slash != path; up++) {
        TG_AUTO_PTR(tg_json) attributes = NULL;
        tg_node_kind kind;
        while (slash > path && *--slash != '/')
            ;
        TG_TRY(put_path(l->image, path, (size_t)(slash - path), err));
        const tg_status st = attributes_of(store, l->image, &kind, &attributes, cancel, err);
        if (st == TG_NOT_FOUND)
            break; /* the store begins below it */
        TG_TRY(st);
        const char *rest = slash == path && *slash != '/' ? slash : slash + 1;
        if (find_dataset(l, image_of(attributes), rest))
            return read_image(l, image_of(attributes), err);
    }
    slash = strrchr(path, '/');
    return put_path(l->image, path, slash == NULL ? 0 : (size_t)(slash - path), err);
}

tg_status tg_ome_level_read(tg_ome_level *out, tg_store *store, const char *path,
                            const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_json) attributes = NULL;
    tg_node_kind kind;
    tg_ome_level *l = out;

    *l = (tg_ome_level){0};
    TG_TRY(attributes_of(store, path, &kind, &attributes, cancel, err));
    if (kind == TG_NODE_GROUP)
        return from_group(l, store, path, image_of(attributes), cancel, err);
    return from_array(l, store, path, cancel, err);
}
