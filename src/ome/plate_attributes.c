/* The documents of a plate and its wells. */
#include "ome/plate.h"

static tg_status no_memory(tg_error *err)
{
    return tg_fail(err, TG_NO_MEMORY, "no memory for a plate's metadata");
}

/* [{"name": ...}, ...] */
static tg_status set_names(tg_json *plate, const char *key, const plate_name *names, uint32_t n,
                           tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    if (list == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        TG_AUTO_PTR(tg_json) item = tg_json_new_object();
        if (item == NULL)
            return no_memory(err);
        TG_TRY(tg_json_set(item, "name", tg_json_new_string(names[i].text), err));
        TG_TRY(tg_json_append(list, tg_steal(item), err));
    }
    return tg_json_set(plate, key, tg_steal(list), err);
}

static tg_status set_wells(const tg_ome_plate *p, tg_json *plate, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    if (list == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < p->n_wells; i++) {
        const plate_well *w = &p->wells[i];
        TG_AUTO_PTR(tg_json) item = tg_json_new_object();
        if (item == NULL)
            return no_memory(err);
        TG_TRY(tg_json_set(item, "path", tg_json_new_string(w->path), err));
        TG_TRY(tg_json_set(item, "rowIndex", tg_json_new_u64(w->row), err));
        TG_TRY(tg_json_set(item, "columnIndex", tg_json_new_u64(w->column), err));
        TG_TRY(tg_json_append(list, tg_steal(item), err));
    }
    return tg_json_set(plate, "wells", tg_steal(list), err);
}

/* A recording is one acquisition. */
static tg_status set_acquisition(const tg_ome_plate *p, tg_json *plate, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    TG_AUTO_PTR(tg_json) one = tg_json_new_object();
    const char *name = NULL;
    if (list == NULL || one == NULL)
        return no_memory(err);
    TG_TRY(tg_json_set(one, "id", tg_json_new_u64(0), err));
    if (tg_json_string(tg_json_get(p->document, "acquisition"), &name, NULL, NULL) == TG_OK)
        TG_TRY(tg_json_set(one, "name", tg_json_new_string(name), err));
    TG_TRY(tg_json_set(one, "maximumfieldcount", tg_json_new_u64(p->n_fields), err));
    TG_TRY(tg_json_append(list, tg_steal(one), err));
    return tg_json_set(plate, "acquisitions", tg_steal(list), err);
}

tg_status tg_ome_plate_attributes(const tg_ome_plate *p, tg_ome_version version, tg_json **out,
                                  tg_error *err)
{
    TG_AUTO_PTR(tg_json) plate = tg_json_new_object();
    const char *name = "plate";
    if (plate == NULL)
        return no_memory(err);
    name = ome_text(tg_json_get(p->document, "name"), name);
    if (version == TG_OME_0_4)
        TG_TRY(tg_json_set(plate, "version", tg_json_new_string("0.4"), err));
    TG_TRY(tg_json_set(plate, "name", tg_json_new_string(name), err));
    TG_TRY(set_names(plate, "rows", p->rows, p->n_rows, err));
    TG_TRY(set_names(plate, "columns", p->columns, p->n_columns, err));
    TG_TRY(set_wells(p, plate, err));
    TG_TRY(set_acquisition(p, plate, err));
    TG_TRY(tg_json_set(plate, "field_count", tg_json_new_u64(p->n_fields), err));
    return tg_ome_members(version, "plate", tg_steal(plate), out, err);
}

static tg_status add_field(uint64_t field, tg_json *list, tg_error *err)
{
    TG_AUTO_PTR(tg_json) item = tg_json_new_object();
    TG_AUTO(tg_text) path = {0};
    if (item == NULL)
        return no_memory(err);
    tg_text_addf(&path, "%u", (unsigned)field);
    TG_TRY(tg_text_status(&path, err));
    TG_TRY(tg_json_set(item, "path", tg_json_new_string(path.data), err));
    TG_TRY(tg_json_set(item, "acquisition", tg_json_new_u64(0), err));
    return tg_json_append(list, tg_steal(item), err);
}

tg_status tg_ome_well_attributes(const tg_ome_plate *p, tg_ome_version version, uint32_t well,
                                 tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) doc = tg_json_new_object();
    TG_AUTO_PTR(tg_json) images = tg_json_new_array();
    (void)well; /* all have the same fields */
    if (doc == NULL || images == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < p->n_fields; i++)
        TG_TRY(add_field(i, images, err));
    if (version == TG_OME_0_4)
        TG_TRY(tg_json_set(doc, "version", tg_json_new_string("0.4"), err));
    TG_TRY(tg_json_set(doc, "images", tg_steal(images), err));
    return tg_ome_members(version, "well", tg_steal(doc), out, err);
}
