/* multiscales, omero and bioformats2raw documents. Knows nothing of stores. */
#include "ome/members.h"

#include <inttypes.h>
#include <string.h>

static const char *axis_type(const tg_ome_axis *a)
{
    if (a->type != NULL)
        return a->type;
    if (strcmp(a->name, "t") == 0)
        return "time";
    if (strcmp(a->name, "c") == 0)
        return "channel";
    return strlen(a->name) == 1 && strchr("xyz", a->name[0]) != NULL ? "space" : "custom";
}

static bool is_type(const tg_ome_axis *a, const char *type)
{
    return strcmp(axis_type(a), type) == 0;
}

/* Time is 0, channel or custom 1, space 2: the order that the axes must have. */
static int rank_of(const tg_ome_axis *a)
{
    if (is_type(a, "time"))
        return 0;
    return is_type(a, "space") ? 2 : 1;
}

static tg_status check_order(const tg_ome_image *image, tg_error *err)
{
    uint32_t of_rank[3] = {0};
    for (uint32_t i = 0; i < image->n_axes; i++) {
        const tg_ome_axis *a = &image->axes[i];
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(image->axes[k].name, a->name) == 0)
                return tg_fail(err, TG_UNSUPPORTED, "OME-NGFF: two axes are named '%s'",
                               a->name);
        if (i > 0 && rank_of(a) < rank_of(a - 1))
            return tg_fail(err, TG_UNSUPPORTED,
                           "OME-NGFF has no form for axis '%s' (%s) behind '%s' (%s): it wants "
                           "time, then channel, then space",
                           a->name, axis_type(a), (a - 1)->name, axis_type(a - 1));
        of_rank[rank_of(a)]++;
    }
    if (of_rank[0] > 1 || of_rank[1] > 1 || of_rank[2] < 2 || of_rank[2] > 3)
        return tg_fail(
            err, TG_UNSUPPORTED,
            "OME-NGFF has no form for %u time, %u channel or other and %u space axes: "
            "it wants at most 1, at most 1, and 2 or 3",
            (unsigned)of_rank[0], (unsigned)of_rank[1], (unsigned)of_rank[2]);
    return TG_OK;
}

tg_status tg_ome_image_check(const tg_ome_image *image, tg_error *err)
{
    if (image->n_axes < 2 || image->n_axes > TG_OME_MAX_AXES)
        return tg_fail(err, TG_UNSUPPORTED,
                       "OME-NGFF has no form for %u axes: it wants 2 to %d",
                       (unsigned)image->n_axes, TG_OME_MAX_AXES);
    if (image->n_levels < 1 || image->n_levels > TG_OME_MAX_LEVELS)
        return tg_fail(err, TG_UNSUPPORTED, "OME-NGFF: %u levels, want 1 to %d",
                       (unsigned)image->n_levels, TG_OME_MAX_LEVELS);
    return check_order(image, err);
}

/* --- multiscales ---------------------------------------------------------- */

static tg_status no_memory(tg_error *err)
{
    return tg_fail(err, TG_NO_MEMORY, "no memory for OME-NGFF metadata");
}

static tg_status make_axes(const tg_ome_image *image, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) axes = tg_json_new_array();
    for (uint32_t i = 0; axes != NULL && i < image->n_axes; i++) {
        const tg_ome_axis *a = &image->axes[i];
        TG_AUTO_PTR(tg_json) axis = tg_json_new_object();
        if (axis == NULL)
            return no_memory(err);
        TG_TRY(tg_json_set(axis, "name", tg_json_new_string(a->name), err));
        TG_TRY(tg_json_set(axis, "type", tg_json_new_string(axis_type(a)), err));
        if (a->unit != NULL && a->unit[0] != '\0')
            TG_TRY(tg_json_set(axis, "unit", tg_json_new_string(a->unit), err));
        TG_TRY(tg_json_append(axes, tg_steal(axis), err));
    }
    if (axes == NULL)
        return no_memory(err);
    *out = tg_steal(axes);
    return TG_OK;
}

/* {"type": "scale", "scale": [...]}, or translation. */
static tg_status add_transform(tg_json *list, const char *type, const double *v, uint32_t n,
                               tg_error *err)
{
    TG_AUTO_PTR(tg_json) transform = tg_json_new_object();
    TG_AUTO_PTR(tg_json) values = tg_json_new_array();
    if (transform == NULL || values == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < n; i++)
        TG_TRY(tg_json_append(values, tg_json_new_double(v[i]), err));
    TG_TRY(tg_json_set(transform, "type", tg_json_new_string(type), err));
    TG_TRY(tg_json_set(transform, type, tg_steal(values), err));
    return tg_json_append(list, tg_steal(transform), err);
}

static bool is_decimated(const tg_ome_image *image)
{
    return image->method != NULL && strcmp(image->method, "decimate") == 0;
}

/* A pixel of a smaller level lies in the middle of the block that it was made from; a decimated
 * one where its first pixel lay. */
static tg_status make_transforms(const tg_ome_image *image, uint32_t level, tg_json **out,
                                 tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    double scale[TG_OME_MAX_AXES] = {0}, shift[TG_OME_MAX_AXES] = {0};
    double factor = (double)(UINT64_C(1) << level);
    if (list == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < image->n_axes; i++) {
        double step = image->axes[i].scale > 0 ? image->axes[i].scale : 1;
        bool halved = i + 2 >= image->n_axes;
        scale[i] = halved ? step * factor : step;
        shift[i] = halved ? step * (factor - 1) / 2 : 0;
    }
    TG_TRY(add_transform(list, "scale", scale, image->n_axes, err));
    if (level > 0 && !is_decimated(image))
        TG_TRY(add_transform(list, "translation", shift, image->n_axes, err));
    *out = tg_steal(list);
    return TG_OK;
}

static tg_status make_datasets(const tg_ome_image *image, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) datasets = tg_json_new_array();
    if (datasets == NULL)
        return no_memory(err);
    for (uint32_t level = 0; level < image->n_levels; level++) {
        const char path[3] = {(char)('0' + (level < 10 ? level : level / 10)),
                              (char)(level < 10 ? '\0' : '0' + level % 10), '\0'};
        TG_AUTO_PTR(tg_json) dataset = tg_json_new_object();
        TG_AUTO_PTR(tg_json) transforms = NULL;
        if (dataset == NULL)
            return no_memory(err);
        TG_TRY(make_transforms(image, level, &transforms, err));
        TG_TRY(tg_json_set(dataset, "path", tg_json_new_string(path), err));
        TG_TRY(tg_json_set(dataset, "coordinateTransformations", tg_steal(transforms), err));
        TG_TRY(tg_json_append(datasets, tg_steal(dataset), err));
    }
    *out = tg_steal(datasets);
    return TG_OK;
}

/* How the levels were made: the strict schemas ask for it. */
static tg_status add_method(const tg_ome_image *image, tg_json *multiscale, tg_error *err)
{
    const char *method = image->n_levels > 1 && image->method != NULL ? image->method : "none";
    TG_AUTO_PTR(tg_json) metadata = tg_json_new_object();
    if (metadata == NULL)
        return no_memory(err);
    const char *text = image->n_levels > 1
                           ? "blocks of 2 x 2 pixels of the level before, frame by frame"
                           : "one level, as recorded";
    TG_TRY(tg_json_set(metadata, "description", tg_json_new_string(text), err));
    TG_TRY(tg_json_set(metadata, "method", tg_json_new_string("tidegate"), err));
    TG_TRY(tg_json_set(multiscale, "type", tg_json_new_string(method), err));
    return tg_json_set(multiscale, "metadata", tg_steal(metadata), err);
}

static tg_status make_multiscales(const tg_ome_image *image, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    TG_AUTO_PTR(tg_json) one = tg_json_new_object();
    TG_AUTO_PTR(tg_json) axes = NULL;
    TG_AUTO_PTR(tg_json) datasets = NULL;
    const char *name = image->name != NULL && image->name[0] != '\0' ? image->name : "image";
    if (list == NULL || one == NULL)
        return no_memory(err);
    TG_TRY(make_axes(image, &axes, err));
    TG_TRY(make_datasets(image, &datasets, err));
    if (image->version == TG_OME_0_4)
        TG_TRY(tg_json_set(one, "version", tg_json_new_string("0.4"), err));
    TG_TRY(tg_json_set(one, "name", tg_json_new_string(name), err));
    TG_TRY(tg_json_set(one, "axes", tg_steal(axes), err));
    TG_TRY(tg_json_set(one, "datasets", tg_steal(datasets), err));
    TG_TRY(add_method(image, one, err));
    TG_TRY(tg_json_append(list, tg_steal(one), err));
    *out = tg_steal(list);
    return TG_OK;
}

/* --- omero ---------------------------------------------------------------- */

static const char *channel_color(const tg_ome_image *image, uint32_t i)
{
    static const char *const colors[] = {"00FF00", "FF00FF", "00FFFF",
                                         "FFFF00", "FF0000", "0000FF"};
    if (image->channels[i].color != NULL)
        return image->channels[i].color;
    return image->n_channels == 1 ? "FFFFFF" : colors[i % (sizeof colors / sizeof *colors)];
}

/* Least and greatest value of the pixels. */
static void value_range(const tg_ome_image *image, tg_json **least, tg_json **most)
{
    tg_dtype t = image->dtype;
    uint32_t bits = t.size * 8;
    if (image->bits > 0 && image->bits < bits)
        bits = image->bits;
    if (t.kind == TG_DT_UINT && bits > 0) {
        *least = tg_json_new_u64(0);
        *most = tg_json_new_u64(UINT64_MAX >> (64 - bits));
    } else if (t.kind == TG_DT_INT && bits > 0) {
        int64_t top = (int64_t)(UINT64_MAX >> 1 >> (64 - bits));
        *least = tg_json_new_i64(-top - 1);
        *most = tg_json_new_i64(top);
    } else {
        *least = tg_json_new_double(0);
        *most = tg_json_new_double(1);
    }
}

static tg_status make_window(const tg_ome_image *image, uint32_t channel, tg_json **out,
                             tg_error *err)
{
    static const char *const names[] = {"min", "max", "start", "end"};
    TG_AUTO_PTR(tg_json) window = tg_json_new_object();
    if (window == NULL)
        return no_memory(err);
    for (int i = 0; i < 4; i++) {
        tg_json *range[2] = {NULL, NULL};
        value_range(image, &range[0], &range[1]);
        tg_json_free(range[1 - i % 2]);
        if (i % 2 == 1 && image->channels[channel].most > 0) {
            tg_json_free(range[1]);
            range[1] = tg_json_new_double(image->channels[channel].most);
        }
        TG_TRY(tg_json_set(window, names[i], range[i % 2], err));
    }
    *out = tg_steal(window);
    return TG_OK;
}

static tg_status add_channel(const tg_ome_image *image, uint32_t i, tg_json *list,
                             tg_error *err)
{
    TG_AUTO_PTR(tg_json) channel = tg_json_new_object();
    TG_AUTO_PTR(tg_json) window = NULL;
    const char *name = image->channels[i].name == NULL ? "" : image->channels[i].name;
    if (channel == NULL)
        return no_memory(err);
    TG_TRY(make_window(image, i, &window, err));
    TG_TRY(tg_json_set(channel, "label", tg_json_new_string(name), err));
    TG_TRY(tg_json_set(channel, "color", tg_json_new_string(channel_color(image, i)), err));
    TG_TRY(tg_json_set(channel, "active", tg_json_new_bool(true), err));
    TG_TRY(tg_json_set(channel, "coefficient", tg_json_new_double(1), err));
    TG_TRY(tg_json_set(channel, "family", tg_json_new_string("linear"), err));
    TG_TRY(tg_json_set(channel, "inverted", tg_json_new_bool(false), err));
    TG_TRY(tg_json_set(channel, "window", tg_steal(window), err));
    return tg_json_append(list, tg_steal(channel), err);
}

static tg_status make_omero(const tg_ome_image *image, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) omero = tg_json_new_object();
    TG_AUTO_PTR(tg_json) channels = tg_json_new_array();
    TG_AUTO_PTR(tg_json) rdefs = tg_json_new_object();
    if (omero == NULL || channels == NULL || rdefs == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < image->n_channels; i++)
        TG_TRY(add_channel(image, i, channels, err));
    const char *model = image->n_channels == 1 ? "greyscale" : "color";
    TG_TRY(tg_json_set(rdefs, "defaultT", tg_json_new_u64(0), err));
    TG_TRY(tg_json_set(rdefs, "defaultZ", tg_json_new_u64(0), err));
    TG_TRY(tg_json_set(rdefs, "model", tg_json_new_string(model), err));
    TG_TRY(tg_json_set(omero, "channels", tg_steal(channels), err));
    TG_TRY(tg_json_set(omero, "rdefs", tg_steal(rdefs), err));
    *out = tg_steal(omero);
    return TG_OK;
}

/* --- Together ------------------------------------------------------------- */

/* Members of 0.5 lie in "ome" beside its version, those of 0.4 in the attributes. */
static tg_status finish(tg_ome_version version, tg_json **members, tg_json **out, tg_error *err)
{
    if (version == TG_OME_0_4) {
        *out = tg_steal(*members);
        return TG_OK;
    }
    TG_AUTO_PTR(tg_json) root = tg_json_new_object();
    if (root == NULL)
        return no_memory(err);
    TG_TRY(tg_json_set(root, "ome", tg_steal(*members), err));
    *out = tg_steal(root);
    return TG_OK;
}

static tg_status begin(tg_ome_version version, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) members = tg_json_new_object();
    if (members == NULL)
        return no_memory(err);
    if (version == TG_OME_0_5)
        TG_TRY(tg_json_set(members, "version", tg_json_new_string("0.5"), err));
    *out = tg_steal(members);
    return TG_OK;
}

tg_status tg_ome_members(tg_ome_version version, const char *key, tg_json *value, tg_json **out,
                         tg_error *err)
{
    TG_AUTO_PTR(tg_json) owned = value;
    TG_AUTO_PTR(tg_json) members = NULL;
    TG_TRY(begin(version, &members, err));
    TG_TRY(tg_json_set(members, key, tg_steal(owned), err));
    return finish(version, &members, out, err);
}

tg_status tg_ome_image_attributes(const tg_ome_image *image, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) members = NULL;
    TG_AUTO_PTR(tg_json) part = NULL;
    TG_TRY(tg_ome_image_check(image, err));
    TG_TRY(begin(image->version, &members, err));
    TG_TRY(make_multiscales(image, &part, err));
    TG_TRY(tg_json_set(members, "multiscales", tg_steal(part), err));
    if (image->n_channels > 0) {
        TG_TRY(make_omero(image, &part, err));
        TG_TRY(tg_json_set(members, "omero", tg_steal(part), err));
    }
    return finish(image->version, &members, out, err);
}

tg_status tg_ome_collection_attributes(tg_ome_version version, const char *const *paths,
                                       uint32_t n, tg_json **root, tg_json **ome_group,
                                       tg_error *err)
{
    TG_AUTO_PTR(tg_json) top = NULL;
    TG_AUTO_PTR(tg_json) group = NULL;
    TG_AUTO_PTR(tg_json) series = tg_json_new_array();
    if (series == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < n; i++)
        TG_TRY(tg_json_append(series, tg_json_new_string(paths[i]), err));
    TG_TRY(tg_ome_members(version, "bioformats2raw.layout", tg_json_new_u64(3), &top, err));
    TG_TRY(tg_ome_members(version, "series", tg_steal(series), &group, err));
    *root = tg_steal(top);
    *ome_group = tg_steal(group);
    return TG_OK;
}
