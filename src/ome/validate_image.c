/* Rules of images: multiscales, their arrays, omero, labels. */
#include "base/error.h"
#include "ome/validate.h"

#include <string.h>

typedef struct axes {
    uint32_t n;
    const char *name[TG_OME_MAX_AXES];
} axes;

/* --- axes (N2) ------------------------------------------------------------- */

static tg_status check_axis(const ome_node *n, const tg_json *v, axes *a, int *rank,
                            tg_error *err)
{
    const char *name = NULL, *type = "";
    if (tg_json_string(tg_json_get(v, "name"), &name, NULL, NULL) != TG_OK)
        return ome_wrong(err, n, "axes[%u].name: want a string", (unsigned)a->n);
    for (uint32_t i = 0; i < a->n; i++)
        if (strcmp(a->name[i], name) == 0)
            return ome_wrong(err, n, "axes: two are named '%.40s'", name);
    if (tg_json_kind_of(tg_json_get(v, "type")) != TG_JSON_NULL)
        TG_TRY(ome_optional(n, v, "type", TG_JSON_STRING, err));
    TG_TRY(ome_optional(n, v, "unit", TG_JSON_STRING, err));
    type = ome_text(tg_json_get(v, "type"), type);
    *rank = strcmp(type, "time") == 0 ? 0 : strcmp(type, "space") == 0 ? 2 : 1;
    a->name[a->n++] = name;
    return TG_OK;
}

static tg_status check_axes(const ome_node *n, const tg_json *multiscale, axes *a,
                            tg_error *err)
{
    const tg_json *list = NULL;
    uint32_t of_rank[3] = {0};
    int last = 0;
    TG_TRY(ome_list(n, multiscale, "axes", &list, err));
    if (tg_json_size(list) < 2 || tg_json_size(list) > TG_OME_MAX_AXES)
        return ome_wrong(err, n, "axes: %zu, want 2 to %d", tg_json_size(list),
                         TG_OME_MAX_AXES);
    for (size_t i = 0; i < tg_json_size(list); i++) {
        int rank = 0;
        TG_TRY(check_axis(n, tg_json_at(list, i), a, &rank, err));
        if (rank < last)
            return ome_wrong(err, n,
                             "axes: want time, then channel, then space; '%.40s' is late",
                             a->name[i]);
        last = rank;
        of_rank[rank]++;
    }
    if (of_rank[0] > 1 || of_rank[1] > 1 || of_rank[2] < 2 || of_rank[2] > 3)
        return ome_wrong(
            err, n,
            "axes: %u of time, %u of channel or another type, %u of space; want at "
            "most 1, at most 1, and 2 or 3",
            (unsigned)of_rank[0], (unsigned)of_rank[1], (unsigned)of_rank[2]);
    return TG_OK;
}

/* --- coordinateTransformations (N3, N4) ------------------------------------ */

static tg_status check_transform(const ome_node *n, const tg_json *v, const char *want,
                                 uint32_t n_axes, tg_error *err)
{
    const char *type = "";
    type = ome_text(tg_json_get(v, "type"), type);
    if (strcmp(type, want) != 0)
        return ome_wrong(err, n, "coordinateTransformations: type '%.40s', want '%s'", type,
                         want);
    const tg_json *list = tg_json_get(v, want);
    if (tg_json_kind_of(list) != TG_JSON_ARRAY || tg_json_size(list) != n_axes)
        return ome_wrong(err, n, "coordinateTransformations: %s: want %u numbers", want,
                         (unsigned)n_axes);
    for (size_t i = 0; i < n_axes; i++) {
        double number = 0;
        if (tg_json_double(tg_json_at(list, i), &number, NULL) != TG_OK)
            return ome_wrong(err, n, "coordinateTransformations: %s[%zu]: want a number", want,
                             i);
    }
    return TG_OK;
}

static tg_status check_transforms(const ome_node *n, const tg_json *object, uint32_t n_axes,
                                  tg_error *err)
{
    const tg_json *list = NULL;
    TG_TRY(ome_list(n, object, "coordinateTransformations", &list, err));
    if (tg_json_size(list) > 2)
        return ome_wrong(err, n,
                         "coordinateTransformations: %zu, want one scale and at most one "
                         "translation",
                         tg_json_size(list));
    TG_TRY(check_transform(n, tg_json_at(list, 0), "scale", n_axes, err));
    if (tg_json_size(list) == 2)
        TG_TRY(check_transform(n, tg_json_at(list, 1), "translation", n_axes, err));
    return TG_OK;
}

/* --- datasets and their arrays (N1, N3, N9) -------------------------------- */

static tg_status check_names(const ome_node *array, const tg_array_info *info, const axes *a,
                             tg_error *err)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const char *name = info->dimension_name[i];
        if (name == NULL || strcmp(name, a->name[i]) != 0)
            return ome_wrong(err, array,
                             "dimension_names[%u]: got %.40s, want '%.40s' as the axis",
                             (unsigned)i, name == NULL ? "none" : name, a->name[i]);
    }
    return TG_OK;
}

static tg_status check_separator(const ome_node *array, tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = NULL;
    const char *text = tg_node_metadata(array->node), *separator = ".";
    tg_status st =
        tg_json_parse(&doc, text, strlen(text), (tg_json_options){.allow_nan = true}, err);
    TG_TRY(st);
    separator = ome_text(tg_json_get(doc, "dimension_separator"), separator);
    return strcmp(separator, "/") == 0
               ? TG_OK
               : ome_wrong(err, array, "dimension_separator: got '%.4s', want '/'", separator);
}

static tg_status open_info(const ome_check *c, const ome_node *array, tg_array_info *info,
                           tg_array **out, tg_error *err)
{
    tg_error own = {0};
    tg_status st = tg_array_open(c->store, array->path, out, c->cancel, &own);
    if (st == TG_OK)
        return tg_array_get_info(*out, info, err);
    if (st == TG_IO || st == TG_NO_MEMORY || st == TG_CANCELLED || st == TG_TIMED_OUT) {
        if (err != NULL)
            *err = own;
        return st;
    }
    return ome_wrong(err, array, "%s", own.msg);
}

/* larger: shape of the level before; ndim 0: this is the first. */
static tg_status check_array(const ome_check *c, const ome_node *n, const char *path,
                             const axes *a, tg_shape *larger, bool *integers, tg_error *err)
{
    TG_AUTO(ome_node) array = {0};
    TG_AUTO_PTR(tg_array) opened = NULL;
    tg_array_info info = {.size = sizeof info};
    TG_TRY(ome_open_child(c, n, path, &array, err));
    if (tg_node_kind_of(array.node) != TG_NODE_ARRAY)
        return ome_wrong(err, &array, "a group, want an array");
    TG_TRY(open_info(c, &array, &info, &opened, err));
    if (info.ndim != a->n)
        return ome_wrong(err, &array, "%u dimensions, want %u as there are axes",
                         (unsigned)info.ndim, (unsigned)a->n);
    for (uint32_t i = 0; i < info.ndim && larger->ndim != 0; i++)
        if (info.shape[i] > larger->n[i])
            return ome_wrong(err, &array,
                             "larger along '%.40s' than the level before: want the highest "
                             "resolution first",
                             a->name[i]);
    larger->ndim = info.ndim;
    memcpy(larger->n, info.shape, sizeof larger->n);
    *integers &= info.dtype.kind == TG_DT_INT || info.dtype.kind == TG_DT_UINT;
    return c->format == 3 ? check_names(&array, &info, a, err) : check_separator(&array, err);
}

static tg_status check_datasets(const ome_check *c, const ome_node *n,
                                const tg_json *multiscale, const axes *a, bool *integers,
                                uint32_t *levels, tg_error *err)
{
    const tg_json *list = NULL;
    tg_shape larger = {0};
    TG_TRY(ome_list(n, multiscale, "datasets", &list, err));
    for (size_t i = 0; i < tg_json_size(list); i++) {
        const tg_json *v = tg_json_at(list, i);
        const char *path = NULL;
        if (tg_json_string(tg_json_get(v, "path"), &path, NULL, NULL) != TG_OK)
            return ome_wrong(err, n, "datasets[%zu].path: want a string", i);
        TG_TRY(check_transforms(n, v, a->n, err));
        TG_TRY(check_array(c, n, path, a, &larger, integers, err));
    }
    *levels = (uint32_t)tg_json_size(list);
    return TG_OK;
}

static tg_status check_multiscale(const ome_check *c, const ome_node *n, const tg_json *v,
                                  bool *integers, uint32_t *levels, tg_error *err)
{
    axes a = {0};
    const char *version = c->version;
    if (tg_json_kind_of(v) != TG_JSON_OBJECT)
        return ome_wrong(err, n, "multiscales: want objects");
    version = ome_text(tg_json_get(v, "version"), version);
    if (strcmp(version, c->version) != 0)
        return ome_wrong(err, n, "multiscales: version '%.16s', want '%s' in Zarr format %d",
                         version, c->version, c->format);
    TG_TRY(ome_optional(n, v, "name", TG_JSON_STRING, err));
    TG_TRY(check_axes(n, v, &a, err));
    if (tg_json_get(v, "coordinateTransformations") != NULL)
        TG_TRY(check_transforms(n, v, a.n, err));
    return check_datasets(c, n, v, &a, integers, levels, err);
}

/* --- omero (N5) ------------------------------------------------------------ */

static tg_status check_channel(const ome_node *n, size_t i, const tg_json *v, tg_error *err)
{
    static const char *const window[] = {"min", "max", "start", "end"};
    const char *color = "";
    color = ome_text(tg_json_get(v, "color"), color);
    if (strlen(color) != 6 || strspn(color, "0123456789abcdefABCDEF") != 6)
        return ome_wrong(err, n, "omero.channels[%zu].color: want 6 hex digits", i);
    for (size_t k = 0; k < 4; k++) {
        double number = 0;
        const tg_json *w = tg_json_get(tg_json_get(v, "window"), window[k]);
        if (tg_json_double(w, &number, NULL) != TG_OK)
            return ome_wrong(err, n, "omero.channels[%zu].window.%s: want a number", i,
                             window[k]);
    }
    return TG_OK;
}

static tg_status check_omero(const ome_node *n, tg_error *err)
{
    const tg_json *omero = tg_json_get(n->members, "omero"), *channels = NULL;
    if (omero == NULL)
        return TG_OK;
    if (tg_json_kind_of(omero) != TG_JSON_OBJECT)
        return ome_wrong(err, n, "omero: want an object");
    channels = tg_json_get(omero, "channels");
    if (tg_json_kind_of(channels) != TG_JSON_ARRAY)
        return ome_wrong(err, n, "omero.channels: want a list");
    for (size_t i = 0; i < tg_json_size(channels); i++)
        TG_TRY(check_channel(n, i, tg_json_at(channels, i), err));
    return TG_OK;
}

tg_status ome_check_image(const ome_check *c, const ome_node *n, uint32_t *levels,
                          bool *integers, tg_error *err)
{
    const tg_json *list = NULL;
    bool all_integers = true;
    TG_TRY(ome_list(n, n->members, "multiscales", &list, err));
    for (size_t i = 0; i < tg_json_size(list); i++) {
        uint32_t count = 0;
        TG_TRY(check_multiscale(c, n, tg_json_at(list, i), &all_integers, &count, err));
        if (i == 0)
            *levels = count;
    }
    *integers = all_integers;
    return check_omero(n, err);
}

/* --- labels (N6) ----------------------------------------------------------- */

static tg_status check_label_values(const ome_node *n, const tg_json *list, const char *key,
                                    tg_error *err)
{
    for (size_t i = 0; i < tg_json_size(list); i++) {
        const tg_json *v = tg_json_get(tg_json_at(list, i), "label-value");
        if (tg_json_kind_of(v) != TG_JSON_INT && tg_json_kind_of(v) != TG_JSON_DOUBLE)
            return ome_wrong(err, n, "image-label.%s[%zu].label-value: want a number", key, i);
        for (size_t k = 0; k < i; k++)
            if (tg_json_equal(tg_json_get(tg_json_at(list, k), "label-value"), v))
                return ome_wrong(err, n, "image-label.%s[%zu]: a label-value that was there",
                                 key, i);
    }
    return TG_OK;
}

static tg_status check_rgba(const ome_node *n, const tg_json *colors, tg_error *err)
{
    for (size_t i = 0; i < tg_json_size(colors); i++) {
        const tg_json *rgba = tg_json_get(tg_json_at(colors, i), "rgba");
        bool bad = rgba != NULL && tg_json_size(rgba) != 4;
        for (size_t k = 0; k < tg_json_size(rgba); k++) {
            uint64_t v = 0;
            bad |= tg_json_u64(tg_json_at(rgba, k), &v, NULL) != TG_OK || v > 255;
        }
        if (bad)
            return ome_wrong(err, n, "image-label.colors[%zu].rgba: want 4 numbers up to 255",
                             i);
    }
    return TG_OK;
}

tg_status ome_check_label(const ome_node *n, tg_error *err)
{
    static const char *const lists[] = {"colors", "properties"};
    const tg_json *label = tg_json_get(n->members, "image-label");
    if (tg_json_kind_of(label) != TG_JSON_OBJECT)
        return ome_wrong(err, n, "image-label: want an object");
    for (size_t i = 0; i < 2; i++) {
        const tg_json *list = NULL;
        if (tg_json_get(label, lists[i]) == NULL)
            continue;
        TG_TRY(ome_list(n, label, lists[i], &list, err));
        TG_TRY(check_label_values(n, list, lists[i], err));
    }
    TG_TRY(ome_optional(n, label, "source", TG_JSON_OBJECT, err));
    TG_TRY(ome_optional(n, tg_json_get(label, "source"), "image", TG_JSON_STRING, err));
    return check_rgba(n, tg_json_get(label, "colors"), err);
}

tg_status ome_check_labels(const ome_check *c, const ome_node *n, uint32_t levels,
                           tg_error *err)
{
    const tg_json *list = tg_json_get(n->members, "labels");
    if (tg_json_kind_of(list) != TG_JSON_ARRAY)
        return ome_wrong(err, n, "labels: want a list");
    for (size_t i = 0; i < tg_json_size(list); i++) {
        TG_AUTO(ome_node) label = {0};
        const char *path = NULL;
        uint32_t found = 0;
        bool integers = false;
        if (tg_json_string(tg_json_at(list, i), &path, NULL, NULL) != TG_OK)
            return ome_wrong(err, n, "labels[%zu]: want a string", i);
        TG_TRY(ome_open_child(c, n, path, &label, err));
        TG_TRY(ome_check_image(c, &label, &found, &integers, err));
        if (tg_json_get(label.members, "image-label") != NULL)
            TG_TRY(ome_check_label(&label, err));
        if (!integers)
            return ome_wrong(err, &label, "a label image whose dtype is no integer");
        if (levels != 0 && found != levels)
            return ome_wrong(err, &label, "%u levels, want %u as the image has",
                             (unsigned)found, (unsigned)levels);
    }
    return TG_OK;
}
