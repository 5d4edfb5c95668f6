/* Rules of plates and wells (N7). */
#include "base/error.h"
#include "ome/validate.h"

#include <inttypes.h>
#include <string.h>

static const char *name_at(const tg_json *list, size_t i)
{
    const char *name = "";
    name = ome_text(tg_json_get(tg_json_at(list, i), "name"), name);
    return name;
}

static tg_status check_names(const ome_node *n, const tg_json *plate, const char *key,
                             const tg_json **out, tg_error *err)
{
    const tg_json *list = NULL;
    TG_TRY(ome_list(n, plate, key, &list, err));
    for (size_t i = 0; i < tg_json_size(list); i++) {
        if (!ome_is_name(name_at(list, i)))
            return ome_wrong(err, n, "plate.%s[%zu].name: want letters and digits", key, i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(name_at(list, k), name_at(list, i)) == 0)
                return ome_wrong(err, n, "plate.%s: '%.40s' twice", key, name_at(list, i));
    }
    *out = list;
    return TG_OK;
}

static tg_status check_acquisitions(const ome_node *n, const tg_json *list, tg_error *err)
{
    if (list != NULL && tg_json_kind_of(list) != TG_JSON_ARRAY)
        return ome_wrong(err, n, "plate.acquisitions: want a list");
    for (size_t i = 0; i < tg_json_size(list); i++) {
        const tg_json *v = tg_json_at(list, i);
        uint64_t id = 0, count = 1;
        const tg_json *most = tg_json_get(v, "maximumfieldcount");
        if (tg_json_u64(tg_json_get(v, "id"), &id, NULL) != TG_OK)
            return ome_wrong(err, n, "plate.acquisitions[%zu].id: want a number from 0 on", i);
        for (size_t k = 0; k < i; k++)
            if (tg_json_equal(tg_json_get(tg_json_at(list, k), "id"), tg_json_get(v, "id")))
                return ome_wrong(err, n, "plate.acquisitions: id %" PRIu64 " twice", id);
        if (most != NULL && (tg_json_u64(most, &count, NULL) != TG_OK || count == 0))
            return ome_wrong(err, n,
                             "plate.acquisitions[%zu].maximumfieldcount: want 1 or more", i);
        TG_TRY(ome_optional(n, v, "name", TG_JSON_STRING, err));
        TG_TRY(ome_optional(n, v, "description", TG_JSON_STRING, err));
        TG_TRY(ome_optional(n, v, "starttime", TG_JSON_INT, err));
        TG_TRY(ome_optional(n, v, "endtime", TG_JSON_INT, err));
    }
    return TG_OK;
}

/* path must be ROW/COLUMN of the indexes. */
static tg_status check_place(const ome_node *n, size_t i, const tg_json *well,
                             const tg_json *rows, const tg_json *columns, const char **path,
                             tg_error *err)
{
    uint64_t row = 0, column = 0;
    if (tg_json_string(tg_json_get(well, "path"), path, NULL, NULL) != TG_OK)
        return ome_wrong(err, n, "plate.wells[%zu].path: want a string", i);
    if (tg_json_u64(tg_json_get(well, "rowIndex"), &row, NULL) != TG_OK ||
        tg_json_u64(tg_json_get(well, "columnIndex"), &column, NULL) != TG_OK ||
        row >= tg_json_size(rows) || column >= tg_json_size(columns))
        return ome_wrong(err, n,
                         "plate.wells[%zu]: want a rowIndex and a columnIndex within the "
                         "plate",
                         i);
    const char *row_name = name_at(rows, (size_t)row);
    const char *column_name = name_at(columns, (size_t)column);
    size_t len = strlen(row_name);
    if (strncmp(*path, row_name, len) != 0 || (*path)[len] != '/' ||
        strcmp(*path + len + 1, column_name) != 0)
        return ome_wrong(err, n,
                         "plate.wells[%zu].path: '%.40s', want '%.40s/%.40s' by its indexes", i,
                         *path, row_name, column_name);
    return TG_OK;
}

static tg_status check_wells(const ome_check *c, const ome_node *n, const tg_json *plate,
                             const tg_json *rows, const tg_json *columns, tg_error *err)
{
    const tg_json *wells = NULL, *acquisitions = tg_json_get(plate, "acquisitions");
    TG_TRY(ome_list(n, plate, "wells", &wells, err));
    for (size_t i = 0; i < tg_json_size(wells); i++) {
        TG_AUTO(ome_node) well = {0};
        const char *path = NULL;
        TG_TRY(tg_cancel_check(c->cancel, err));
        TG_TRY(check_place(n, i, tg_json_at(wells, i), rows, columns, &path, err));
        TG_TRY(ome_open_child(c, n, path, &well, err));
        TG_TRY(ome_check_well(c, &well, acquisitions, err));
    }
    return TG_OK;
}

tg_status ome_check_plate(const ome_check *c, const ome_node *n, tg_error *err)
{
    const tg_json *plate = tg_json_get(n->members, "plate"), *rows = NULL, *columns = NULL;
    const char *version = c->version;
    uint64_t count = 1;
    if (tg_json_kind_of(plate) != TG_JSON_OBJECT)
        return ome_wrong(err, n, "plate: want an object");
    version = ome_text(tg_json_get(plate, "version"), version);
    if (strcmp(version, c->version) != 0)
        return ome_wrong(err, n, "plate.version: '%.16s', want '%s'", version, c->version);
    TG_TRY(ome_optional(n, plate, "name", TG_JSON_STRING, err));
    const tg_json *fields = tg_json_get(plate, "field_count");
    if (fields != NULL && (tg_json_u64(fields, &count, NULL) != TG_OK || count == 0))
        return ome_wrong(err, n, "plate.field_count: want 1 or more");
    TG_TRY(check_names(n, plate, "rows", &rows, err));
    TG_TRY(check_names(n, plate, "columns", &columns, err));
    TG_TRY(check_acquisitions(n, tg_json_get(plate, "acquisitions"), err));
    return check_wells(c, n, plate, rows, columns, err);
}

/* An image's acquisition must be one of the plate's; with several it must name one. */
static tg_status check_acquisition(const ome_node *n, size_t i, const tg_json *image,
                                   const tg_json *acquisitions, tg_error *err)
{
    const tg_json *v = tg_json_get(image, "acquisition");
    uint64_t id = 0;
    if (v == NULL)
        return tg_json_size(acquisitions) < 2
                   ? TG_OK
                   : ome_wrong(err, n,
                               "well.images[%zu]: want the acquisition, the plate has %zu", i,
                               tg_json_size(acquisitions));
    if (tg_json_u64(v, &id, NULL) != TG_OK)
        return ome_wrong(err, n, "well.images[%zu].acquisition: want a number from 0 on", i);
    if (acquisitions == NULL)
        return TG_OK;
    for (size_t k = 0; k < tg_json_size(acquisitions); k++)
        if (tg_json_equal(tg_json_get(tg_json_at(acquisitions, k), "id"), v))
            return TG_OK;
    return ome_wrong(
        err, n, "well.images[%zu].acquisition: the plate has none with id %" PRIu64, i, id);
}

tg_status ome_check_well(const ome_check *c, const ome_node *n, const tg_json *acquisitions,
                         tg_error *err)
{
    const tg_json *well = tg_json_get(n->members, "well"), *images = NULL;
    if (tg_json_kind_of(well) != TG_JSON_OBJECT)
        return ome_wrong(err, n, "well: want an object");
    TG_TRY(ome_list(n, well, "images", &images, err));
    for (size_t i = 0; i < tg_json_size(images); i++) {
        TG_AUTO(ome_node) image = {0};
        const char *path = "";
        path = ome_text(tg_json_get(tg_json_at(images, i), "path"), path);
        if (!ome_is_name(path))
            return ome_wrong(err, n, "well.images[%zu].path: want letters and digits", i);
        for (size_t k = 0; k < i; k++)
            if (tg_json_equal(tg_json_get(tg_json_at(images, k), "path"),
                              tg_json_get(tg_json_at(images, i), "path")))
                return ome_wrong(err, n, "well.images: '%.40s' twice", path);
        TG_TRY(check_acquisition(n, i, tg_json_at(images, i), acquisitions, err));
        TG_TRY(ome_open_child(c, n, path, &image, err));
        TG_TRY(ome_check_image_tree(c, &image, err));
    }
    return TG_OK;
}
