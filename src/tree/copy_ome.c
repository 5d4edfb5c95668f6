/* copy: OME-NGFF metadata between 0.4 (members among the attributes, each with its version) and
 * 0.5 (members in "ome", which has one). Other versions stay as they are. */
#include "base/json.h"
#include "tree/copy.h"
#include "zarr/meta.h"
#include "zarr/node.h"

#include <string.h>

static const char *const members[] = {
    "multiscales", "omero",       "plate",  "well",
    "labels",      "image-label", "series", "bioformats2raw.layout"};
enum { N_MEMBERS = sizeof members / sizeof members[0] };

/* Members that are objects with a version of their own in 0.4. */
static bool has_version(const char *member)
{
    return strcmp(member, "plate") == 0 || strcmp(member, "well") == 0 ||
           strcmp(member, "image-label") == 0;
}

static bool is_text(const tg_json *v, const char *text)
{
    const char *s = NULL;
    return tg_json_string(v, &s, NULL, NULL) == TG_OK && strcmp(s, text) == 0;
}

/* A copy of a member in the other version's form: version NULL: without. */
static tg_status with_version(tg_json *object, const char *version, tg_error *err)
{
    if (tg_json_kind_of(object) != TG_JSON_OBJECT)
        return TG_OK;
    tg_json_remove(object, "version");
    return version == NULL ? TG_OK
                           : tg_json_set(object, "version", tg_json_new_string(version), err);
}

static tg_status convert_list(const tg_json *from, const char *version, tg_json **out,
                              tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();

    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "attributes");
    for (size_t i = 0; i < tg_json_size(from); i++) {
        TG_AUTO_PTR(tg_json) item = NULL;
        TG_TRY(tg_json_copy(&item, tg_json_at(from, i), err));
        TG_TRY(with_version(item, version, err));
        TG_TRY(tg_json_append(list, tg_steal(item), err));
    }
    *out = tg_steal(list);
    return TG_OK;
}

static tg_status convert_member(const char *name, const tg_json *from, const char *version,
                                tg_json *to, tg_error *err)
{
    TG_AUTO_PTR(tg_json) made = NULL;

    if (strcmp(name, "multiscales") == 0 && tg_json_kind_of(from) == TG_JSON_ARRAY) {
        TG_TRY(convert_list(from, version, &made, err));
    } else {
        TG_TRY(tg_json_copy(&made, from, err));
        if (has_version(name))
            TG_TRY(with_version(made, version, err));
        else if (strcmp(name, "omero") == 0)
            TG_TRY(with_version(made, version, err));
    }
    return tg_json_set(to, name, tg_steal(made), err);
}

/* 0.4, as far as the members say so; "labels" and "series" have no version. */
static bool is_0_4(const tg_json *attributes)
{
    const tg_json *scales = tg_json_get(attributes, "multiscales");
    bool any = false;

    for (size_t i = 0; i < N_MEMBERS; i++)
        any |= tg_json_get(attributes, members[i]) != NULL;
    for (size_t i = 0; i < tg_json_size(scales); i++) {
        const tg_json *v = tg_json_get(tg_json_at(scales, i), "version");
        if (v != NULL && !is_text(v, "0.4"))
            return false;
    }
    return any;
}

static tg_status to_0_5(tg_json *attributes, tg_error *err)
{
    TG_AUTO_PTR(tg_json) ome = tg_json_new_object();

    if (!is_0_4(attributes) || tg_json_get(attributes, "ome") != NULL)
        return TG_OK;
    if (ome == NULL)
        return tg_fail(err, TG_NO_MEMORY, "attributes");
    TG_TRY(tg_json_set(ome, "version", tg_json_new_string("0.5"), err));
    for (size_t i = 0; i < N_MEMBERS; i++) {
        const tg_json *v = tg_json_get(attributes, members[i]);
        if (v == NULL)
            continue;
        TG_TRY(convert_member(members[i], v, NULL, ome, err));
        tg_json_remove(attributes, members[i]);
    }
    return tg_json_set(attributes, "ome", tg_steal(ome), err);
}

static tg_status to_0_4(tg_json *attributes, tg_error *err)
{
    TG_AUTO_PTR(tg_json) ome = NULL;
    const tg_json *found = tg_json_get(attributes, "ome");

    if (tg_json_kind_of(found) != TG_JSON_OBJECT ||
        !is_text(tg_json_get(found, "version"), "0.5"))
        return TG_OK;
    TG_TRY(tg_json_copy(&ome, found, err));
    tg_json_remove(attributes, "ome");
    for (size_t i = 0; i < tg_json_size(ome); i++) {
        const char *name = tg_json_key_at(ome, i);
        if (strcmp(name, "version") != 0)
            TG_TRY(convert_member(name, tg_json_at(ome, i), "0.4", attributes, err));
    }
    return TG_OK;
}

tg_status copy_ome(tg_json **attributes, int from_format, int to_format, tg_error *err)
{
    if (from_format == to_format)
        return TG_OK;
    return to_format == 3 ? to_0_5(*attributes, err) : to_0_4(*attributes, err);
}

/* --- Names of dimensions ------------------------------------------------------ */

static tg_status axis_names(const tg_json *scale, uint32_t ndim, char ***names, tg_error *err)
{
    const tg_json *axes = tg_json_get(scale, "axes");
    const char *name = NULL;

    if (tg_json_size(axes) != ndim)
        return TG_OK;
    char **list = tg_calloc((size_t)ndim + 1, sizeof *list);
    for (uint32_t i = 0; list != NULL && i < ndim; i++) {
        if (tg_json_string(tg_json_get(tg_json_at(axes, i), "name"), &name, NULL, NULL) !=
            TG_OK) {
            tg_names_free(list);
            return TG_OK;
        }
        list[i] = tg_strdup(name);
        if (list[i] == NULL) {
            tg_names_free(list);
            list = NULL;
        }
    }
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "names of dimensions");
    *names = list;
    return TG_OK;
}

/* Is `below` (a path below the group) one of its datasets? */
static tg_status look_in(const copy_job *j, const char *group, const char *below, uint32_t ndim,
                         char ***names, tg_error *err)
{
    TG_AUTO_PTR(tg_node) n = NULL;
    TG_AUTO_PTR(tg_json) attributes = NULL;

    tg_status st = tg_node_open(j->src, group, &n, j->cancel, err);
    if (st != TG_OK)
        return st == TG_NOT_FOUND ? TG_OK : st;
    const char *text = tg_node_attributes(n);
    TG_TRY(tg_json_parse(&attributes, text, strlen(text), (tg_json_options){.allow_nan = true},
                         err));
    const tg_json *scales = tg_json_get(attributes, "multiscales");
    for (size_t i = 0; i < tg_json_size(scales); i++) {
        const tg_json *datasets = tg_json_get(tg_json_at(scales, i), "datasets");
        for (size_t k = 0; k < tg_json_size(datasets); k++)
            if (is_text(tg_json_get(tg_json_at(datasets, k), "path"), below))
                return axis_names(tg_json_at(scales, i), ndim, names, err);
    }
    return TG_OK;
}

tg_status copy_ome_names(const copy_job *j, const char *path, uint32_t ndim, char ***names,
                         tg_error *err)
{
    char group[TG_PATH_BYTES];
    size_t root = strlen(j->src_path);

    *names = NULL;
    memcpy(group, path, strlen(path) + 1);
    for (char *slash; *names == NULL && strlen(group) > root;) {
        slash = strrchr(group, '/');
        *(slash == NULL ? group : slash) = '\0';
        size_t n = strlen(group);
        TG_TRY(look_in(j, group, path + n + (n > 0), ndim, names, err));
    }
    return TG_OK;
}
