/* ROI tables as ngio writes them: table_version 1, AnnData, CSV or JSON, and the list of
 * tables. */
#include "base/csv.h"
#include "base/json.h"
#include "region/roi_write.h"
#include "table/anndata.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { T, Z, Y, X, N_AXES };
enum { PATH_BYTES = 1024, MOST_CSV = 32 << 20 };
static const char letters[] = "tzyx";

/* What the table says of each region: start and length of t, z, y, x. */
typedef struct rows {
    const tg_roi_list *l;
    bool masking, has_t;
    uint32_t axis[N_AXES]; /* place in the list; UINT32_MAX: none */
    double scale[N_AXES];  /* of a list of pixels */
    double whole[N_AXES];  /* length where the list does not say */
} rows;

static const char *unit_of(int axis)
{
    return axis == T ? "second" : "micrometer";
}

static tg_status find_axes(rows *r, const tg_ome_level *level, tg_error *err)
{
    for (int a = 0; a < N_AXES; a++) {
        r->axis[a] = UINT32_MAX;
        r->scale[a] = r->whole[a] = 1;
        for (uint32_t k = 0; level != NULL && k < level->ndim; k++)
            if (level->axis[k][0] == letters[a] && level->axis[k][1] == '\0') {
                r->whole[a] = level->scale[k] * (double)level->shape[k];
                r->scale[a] = level->scale[k];
            }
        if (!r->l->in_pixels)
            r->scale[a] = 1;
    }
    for (uint32_t i = 0; i < r->l->n_axes; i++) {
        const char *name = r->l->axes[i];
        const char *found = strlen(name) == 1 ? strchr(letters, name[0]) : NULL;
        if (found == NULL)
            return tg_fail(err, TG_UNSUPPORTED, "a ROI table has no column for the axis '%s'",
                           name);
        r->axis[found - letters] = i;
    }
    r->has_t = r->axis[T] != UINT32_MAX;
    if (r->axis[X] == UINT32_MAX || r->axis[Y] == UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "a ROI table needs the axes y and x");
    if (!r->l->in_pixels && strcmp(r->l->unit, "micrometer") != 0)
        return tg_fail(err, TG_UNSUPPORTED, "a ROI table is in micrometer, the list in %s",
                       r->l->unit);
    return TG_OK;
}

static double value(const rows *r, uint64_t i, int axis, bool length)
{
    const uint32_t k = r->axis[axis];

    if (k == UINT32_MAX)
        return length ? r->whole[axis] : 0;
    return (length ? r->l->length : r->l->start)[i * r->l->n_axes + k] * r->scale[axis];
}

/* ngio's order: x, y, z, their lengths, then t. */
typedef struct number_column {
    int axis;
    bool length;
    char name[32];
} number_column;

static uint32_t number_columns(const rows *r, number_column c[8])
{
    static const int order[] = {X, Y, Z};
    uint32_t n = 0;

    for (int length = 0; length < 2; length++)
        for (int i = 0; i < 3; i++)
            c[n++] = (number_column){.axis = order[i], .length = length != 0};
    for (int length = 0; length < 2 && r->has_t; length++)
        c[n++] = (number_column){.axis = T, .length = length != 0};
    for (uint32_t i = 0; i < n; i++)
        (void)snprintf(c[i].name, sizeof c[i].name, "%s%c_%s", c[i].length ? "len_" : "",
                       letters[c[i].axis], unit_of(c[i].axis));
    return n;
}

/* What names a row: the label in a masking table, else the region's name. */
static size_t row_name(const rows *r, uint64_t i, const char **name, char room[32])
{
    if (!r->masking)
        return tg_roi_name(r->l, i, name, room);
    *name = room;
    return (size_t)snprintf(room, 32, "%" PRIu64, r->l->label[i]);
}

static bool has_label_column(const rows *r)
{
    return r->l->label != NULL && !r->masking;
}

/* --- Attributes
 * ------------------------------------------------------------------------------- */

static tg_status table_attributes(const rows *r, const tg_roi_set *s, const char *image,
                                  const char *backend, char **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) a = tg_json_new_object();
    TG_AUTO_PTR(tg_json) region = tg_json_new_object();
    const size_t skip = image[0] == '\0' ? 0 : strlen(image) + 1;
    char path[PATH_BYTES];

    if (a == NULL || region == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    TG_TRY(tg_json_set(a, "table_version", tg_json_new_string("1"), err));
    TG_TRY(tg_json_set(
        a, "type", tg_json_new_string(r->masking ? "masking_roi_table" : "roi_table"), err));
    TG_TRY(tg_json_set(a, "backend", tg_json_new_string(backend), err));
    TG_TRY(tg_json_set(a, "index_key", tg_json_new_string(r->masking ? "label" : "FieldIndex"),
                       err));
    TG_TRY(tg_json_set(a, "index_type", tg_json_new_string(r->masking ? "int" : "str"), err));
    if (r->masking) {
        (void)snprintf(path, sizeof path, "../%s", s->labels + skip);
        /* A level of a label image stands for the image: "labels/n/0" is "labels/n". */
        char *second = strchr(path + strlen("../labels/"), '/');
        if (second != NULL)
            *second = '\0';
        TG_TRY(tg_json_set(region, "path", tg_json_new_string(path), err));
        TG_TRY(tg_json_set(a, "region", tg_steal(region), err));
        TG_TRY(tg_json_set(a, "instance_key", tg_json_new_string("label"), err));
    }
    return tg_json_write(a, false, (tg_json_options){0}, out, err);
}

/* Of a label image of this image? */
static bool is_masking(const tg_roi_set *s, const char *image)
{
    const size_t n = strlen(image), skip = n == 0 ? 0 : n + 1;

    if (s->labels == NULL || s->list.label == NULL || strlen(s->labels) < skip ||
        strncmp(s->labels, image, n) != 0 || (n > 0 && s->labels[n] != '/') ||
        strncmp(s->labels + skip, "labels/", 7) != 0)
        return false;
    for (uint64_t i = 0; i < s->list.n; i++)
        if (s->list.label[i] == 0)
            return false;
    return true;
}

/* --- AnnData
 * ------------------------------------------------------------------------------------ */

static tg_status write_numbers(const rows *r, tg_array *x, const number_column *c, uint32_t n,
                               const tg_cancel *cancel, tg_error *err)
{
    enum { BLOCK = 4096 };
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array((size_t)BLOCK * 8, sizeof(double));
    double *block = room;

    if (block == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    for (uint64_t at = 0; at < r->l->n; at += BLOCK) {
        const uint64_t left = r->l->n - at, count[2] = {left < BLOCK ? left : BLOCK, n};
        const uint64_t start[2] = {at, 0};
        for (uint64_t i = 0; i < count[0]; i++)
            for (uint32_t k = 0; k < n; k++)
                block[i * n + k] = value(r, at + i, c[k].axis, c[k].length);
        TG_TRY(tg_array_write(x, start, count, block, NULL, cancel, err));
    }
    return TG_OK;
}

static tg_status write_names(const rows *r, tg_table *obs, const tg_cancel *cancel,
                             tg_error *err)
{
    enum { BLOCK = 4096 };
    uint64_t offsets[BLOCK + 1] = {0};
    char room[32];

    for (uint64_t at = 0; at < r->l->n; at += BLOCK) {
        const uint64_t n = r->l->n - at < BLOCK ? r->l->n - at : BLOCK;
        TG_AUTO(tg_text) text = {0};
        for (uint64_t i = 0; i < n; i++) {
            const char *name = NULL;
            const size_t len = row_name(r, at + i, &name, room);
            tg_text_add_n(&text, name, len);
            offsets[i + 1] = text.len;
        }
        tg_text_add(&text, "");
        TG_TRY(tg_text_status(&text, err));
        const tg_table_block blocks[] = {
            {.offsets = offsets, .text = text.data},
            {.items = has_label_column(r) ? r->l->label + at : NULL}};
        TG_TRY(tg_table_append(obs, blocks, n, cancel, err));
    }
    return TG_OK;
}

static tg_status write_anndata(const rows *r, tg_store *store, const char *path,
                               const char *attributes, const tg_roi_table_options *o,
                               const tg_cancel *cancel, tg_error *err)
{
    static const tg_table_column label = {"label", {TG_DT_UINT, 8}};
    number_column c[8];
    const uint32_t n = number_columns(r, c);
    const tg_anndata_options options = {.format = o->format,
                                        .n_obs = r->l->n,
                                        .n_var = n,
                                        .x = TG_ANNDATA_DENSE,
                                        .x_dtype = {TG_DT_FLOAT, 8},
                                        .obs = &label,
                                        .n_obs_columns = has_label_column(r),
                                        .obs_index = r->masking ? "label" : "FieldIndex",
                                        .chunk_rows = 4096,
                                        .attributes = attributes};
    TG_AUTO_PTR(tg_anndata) a = NULL;
    TG_AUTO(tg_text) names = {0};
    uint64_t offsets[9] = {0};

    TG_TRY(tg_anndata_create(&a, store, path, &options, cancel, err));
    TG_TRY(write_numbers(r, tg_anndata_dense(a), c, n, cancel, err));
    TG_TRY(write_names(r, tg_anndata_obs(a), cancel, err));
    for (uint32_t i = 0; i < n; i++) {
        tg_text_add(&names, c[i].name);
        offsets[i + 1] = names.len;
    }
    TG_TRY(tg_text_status(&names, err));
    const tg_table_block block = {.offsets = offsets, .text = names.data};
    TG_TRY(tg_table_append(tg_anndata_var(a), &block, n, cancel, err));
    return tg_anndata_close(a, cancel, err);
}

/* --- CSV and JSON
 * -------------------------------------------------------------------------------- */

static tg_status csv_text(const rows *r, tg_text *t, tg_error *err)
{
    number_column c[8];
    const uint32_t n = number_columns(r, c);
    char room[32];

    tg_text_add(t, r->masking ? "label" : "FieldIndex");
    for (uint32_t k = 0; k < n; k++)
        tg_text_addf(t, ",%s", c[k].name);
    tg_text_add(t, has_label_column(r) ? ",label\n" : "\n");
    for (uint64_t i = 0; i < r->l->n; i++) {
        TG_AUTO(tg_text) field = {0};
        const char *name = NULL;
        const size_t len = row_name(r, i, &name, room);
        tg_text_add_n(&field, name, len);
        tg_text_add(&field, "");
        TG_TRY(tg_text_status(&field, err));
        tg_csv_write(t, field.data, ',', true);
        for (uint32_t k = 0; k < n; k++) {
            tg_text_add(t, ",");
            tg_roi_number(t, value(r, i, c[k].axis, c[k].length));
        }
        if (has_label_column(r))
            tg_text_addf(t, ",%" PRIu64, r->l->label[i]);
        tg_text_add(t, "\n");
        if (t->len > MOST_CSV) /* it is put whole */
            return tg_fail(err, TG_UNSUPPORTED,
                           "a CSV table of more than %d bytes: use anndata", MOST_CSV);
    }
    return tg_text_status(t, err);
}

static tg_status write_csv(const rows *r, tg_store *store, const char *path,
                           const char *attributes, int format, const tg_cancel *cancel,
                           tg_error *err)
{
    TG_AUTO(tg_text) t = {0};
    char key[PATH_BYTES];

    TG_TRY(tg_path_join(key, sizeof key, path, "table.csv", err));
    TG_TRY(csv_text(r, &t, err));
    TG_TRY(tg_group_create(store, path, format, attributes, cancel, err));
    return tg_store_put(store, key, t.data, t.len, cancel, err);
}

static tg_status json_text(const rows *r, char **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) all = tg_json_new_object();
    TG_AUTO_PTR(tg_json) names = tg_json_new_array();
    TG_AUTO_PTR(tg_json) labels = tg_json_new_array();
    number_column c[8];
    const uint32_t n = number_columns(r, c);
    char room[32];

    if (all == NULL || names == NULL || labels == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    for (uint64_t i = 0; i < r->l->n; i++) {
        TG_AUTO(tg_text) field = {0};
        const char *name = NULL;
        const size_t len = row_name(r, i, &name, room);
        tg_text_add_n(&field, name, len);
        tg_text_add(&field, "");
        TG_TRY(tg_text_status(&field, err));
        TG_TRY(tg_json_append(names,
                              r->masking ? tg_json_new_u64(r->l->label[i])
                                         : tg_json_new_string(field.data),
                              err));
        if (has_label_column(r))
            TG_TRY(tg_json_append(labels, tg_json_new_u64(r->l->label[i]), err));
    }
    TG_TRY(tg_json_set(all, r->masking ? "label" : "FieldIndex", tg_steal(names), err));
    for (uint32_t k = 0; k < n; k++) {
        TG_AUTO_PTR(tg_json) items = tg_json_new_array();
        if (items == NULL)
            return tg_fail(err, TG_NO_MEMORY, "table");
        for (uint64_t i = 0; i < r->l->n; i++)
            TG_TRY(tg_json_append(
                items, tg_json_new_double(value(r, i, c[k].axis, c[k].length)), err));
        TG_TRY(tg_json_set(all, c[k].name, tg_steal(items), err));
    }
    if (has_label_column(r))
        TG_TRY(tg_json_set(all, "label", tg_steal(labels), err));
    return tg_json_write(all, false, (tg_json_options){0}, out, err);
}

static tg_status write_json(const rows *r, tg_store *store, const char *path,
                            const char *attributes, int format, const tg_cancel *cancel,
                            tg_error *err)
{
    enum { MOST = 100000 }; /* it is one document of attributes, read whole by everyone */
    TG_AUTO(tg_str) columns = NULL;
    char key[PATH_BYTES];

    if (r->l->n > MOST)
        return tg_fail(err, TG_UNSUPPORTED,
                       "a JSON table of %" PRIu64 " regions, up to %d are written: use anndata",
                       r->l->n, MOST);
    TG_TRY(tg_path_join(key, sizeof key, path, "table", err));
    TG_TRY(json_text(r, &columns, err));
    TG_TRY(tg_group_create(store, path, format, attributes, cancel, err));
    return tg_group_create(store, key, format, columns, cancel, err);
}

/* --- The list of tables
 * ------------------------------------------------------------------------------ */

tg_status tg_roi_list_table(tg_store *store, const char *tables, const char *name,
                            const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    TG_AUTO_PTR(tg_json) attributes = NULL;
    TG_AUTO_PTR(tg_json) patch = tg_json_new_object();
    TG_AUTO_PTR(tg_json) names = tg_json_new_array();
    TG_AUTO(tg_str) text = NULL;
    const char *one = NULL;

    if (patch == NULL || names == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    TG_TRY(tg_node_open(store, tables, &node, cancel, err));
    const char *old = tg_node_attributes(node);
    TG_TRY(tg_json_parse(&attributes, old, strlen(old), (tg_json_options){.allow_nan = true},
                         err));
    const tg_json *list = tg_json_get(attributes, "tables");
    for (size_t i = 0; i < tg_json_size(list); i++) {
        TG_TRY(tg_json_string(tg_json_at(list, i), &one, NULL, err));
        if (strcmp(one, name) == 0)
            return TG_OK;
        TG_TRY(tg_json_append(names, tg_json_new_string(one), err));
    }
    TG_TRY(tg_json_append(names, tg_json_new_string(name), err));
    TG_TRY(tg_json_set(patch, "tables", tg_steal(names), err));
    TG_TRY(tg_json_write(patch, false, (tg_json_options){0}, &text, err));
    return tg_attributes_set(store, tables, text, true, cancel, err);
}

/* tables, and the way to it; what is there stays. */
tg_status tg_roi_make_tables(tg_store *store, const char *tables, int format,
                             const tg_cancel *cancel, tg_error *err)
{
    const tg_status st = tg_group_create(store, tables, format, "{\"tables\":[]}", cancel, err);

    return st == TG_EXISTS ? TG_OK : st;
}

/* A table to be made, wherever. */
typedef struct new_table {
    const rows *r;
    tg_store *store;
    const char *attributes, *backend;
    const tg_roi_table_options *o;
} new_table;

static tg_status make_table(void *user, const char *path, const tg_cancel *cancel,
                            tg_error *err)
{
    const new_table *t = user;

    if (strcmp(t->backend, "anndata") == 0)
        return write_anndata(t->r, t->store, path, t->attributes, t->o, cancel, err);
    if (strcmp(t->backend, "csv") == 0)
        return write_csv(t->r, t->store, path, t->attributes, t->o->format, cancel, err);
    return write_json(t->r, t->store, path, t->attributes, t->o->format, cancel, err);
}

tg_status tg_roi_write_table(const tg_roi_set *s, tg_store *store, const char *image,
                             const char *name, const tg_roi_table_options *o,
                             const tg_cancel *cancel, tg_error *err)
{
    const char *backend = o->backend == NULL ? "anndata" : o->backend;
    rows r = {.l = &s->list, .masking = is_masking(s, image)};
    char tables[PATH_BYTES], path[PATH_BYTES];
    TG_AUTO(tg_str) attributes = NULL;

    if (strcmp(backend, "anndata") != 0 && strcmp(backend, "csv") != 0 &&
        strcmp(backend, "json") != 0)
        return tg_fail(err, TG_INVALID, "backend '%.40s': want anndata, csv or json", backend);
    if (strchr(name, '/') != NULL)
        return tg_fail(err, TG_INVALID, "table '%.60s': no '/' in a name", name);
    TG_TRY(tg_path_join(tables, sizeof tables, image, "tables", err));
    TG_TRY(tg_path_join(path, sizeof path, tables, name, err));
    TG_TRY(find_axes(&r, o->level, err));
    TG_TRY(table_attributes(&r, s, image, backend, &attributes, err));
    TG_TRY(tg_roi_make_tables(store, tables, o->format, cancel, err));
    new_table t = {&r, store, attributes, backend, o};
    TG_TRY(o->overwrite ? tg_node_replace(store, path, make_table, &t, cancel, err)
                        : make_table(&t, path, cancel, err));
    return tg_roi_list_table(store, tables, name, cancel, err);
}
