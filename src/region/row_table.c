/* From the rows of all regions to a table: sorted and merged, then a CSV or JSON file, or a
 * table of an image, as ngio reads it. */
#include "base/csv.h"
#include "region/roi_write.h"
#include "region/rows.h"
#include "table/anndata.h"
#include "tidegate/text.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_ROWS 1024
#define PIECE      ((size_t)64 << 10)

/* --- Where it goes ---------------------------------------------------------------------------
 */

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n > m && strcmp(s + n - m, end) == 0;
}

tg_status tg_row_target_parse(tg_row_target *t, const char *text, const char *backend,
                              tg_error *err)
{
    static const char *const backends[] = {"anndata", "csv", "json"};
    const bool table = strncmp(text, "table:", 6) == 0;
    bool known = backend == NULL;

    for (size_t i = 0; i < 3; i++)
        known |= backend != NULL && strcmp(backend, backends[i]) == 0;
    if (!known)
        return tg_fail(err, TG_INVALID, "table: backend '%.40s': want anndata, csv or json",
                       backend);
    if (table ? text[6] == '\0' || strchr(text, '/') != NULL || strlen(text) > 100
              : !(ends_with(text, ".csv") || ends_with(text, ".json")) ||
                    strlen(text) >= sizeof t->file)
        return tg_fail(err, TG_INVALID,
                       "table '%.200s': want FILE.csv, FILE.json or table:NAME", text);
    if (!table && backend != NULL)
        return tg_fail(err, TG_INVALID, "table '%.200s': a backend is of table:NAME", text);
    t->file[0] = t->name[0] = '\0';
    if (table)
        (void)snprintf(t->name, sizeof t->name, "%s", text + 6);
    else
        (void)snprintf(t->file, sizeof t->file, "%s", text);
    t->backend = backend != NULL ? backend : "anndata";
    return TG_OK;
}

static tg_status table_path(const tg_row_target *t, char tables[1200], char path[1400],
                            tg_error *err)
{
    TG_TRY(tg_path_join(tables, 1200, t->image, "tables", err));
    return tg_path_join(path, 1400, tables, t->name, err);
}

tg_status tg_row_target_exists(const tg_row_target *t, bool *exists, const tg_cancel *cancel,
                               tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    char tables[1200], path[1400];
    struct stat info;

    if (t->file[0] != '\0') {
        *exists = tg_sys_stat(AT_FDCWD, t->file, &info, 0) == 0;
        return TG_OK;
    }
    TG_TRY(table_path(t, tables, path, err));
    *exists = tg_node_open(t->store, path, &node, cancel, NULL) == TG_OK;
    return TG_OK;
}

/* --- Rows in order ---------------------------------------------------------------------------
 */

typedef struct column {
    enum { COLUMN_REGION, COLUMN_LABEL, COLUMN_KEY, COLUMN_VALUE } kind;
    const char *name;
    uint32_t value; /* of the function's columns */
} column;

typedef struct table {
    const tg_plan *plan;
    const tg_function *fn;
    const tg_function_facts *facts;
    column *columns;
    uint32_t n_columns;
    tg_row_sort *sort;
    uint64_t n;     /* rows */
    double *values; /* of a row, finished */
    const tg_cancel *cancel;
} table;

static void table_auto(table *t)
{
    tg_row_sort_free(t->sort);
    tg_free(t->columns);
    tg_free(t->values);
}

static bool has_labels(const tg_plan *plan)
{
    tg_plan_region r;

    for (uint64_t k = 0; k < tg_plan_n_regions(plan); k++) {
        tg_plan_region_get(plan, k, &r);
        if (r.label != 0)
            return true;
    }
    return false;
}

static tg_status set_columns(table *t, tg_error *err)
{
    const tg_function_facts *f = t->facts;
    uint32_t n = 0;

    t->columns = tg_alloc_array((size_t)f->n_columns + 3, sizeof *t->columns);
    t->values = tg_alloc_array((size_t)f->n_columns + 1, sizeof *t->values);
    if (t->columns == NULL || t->values == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    if (f->rows != TG_ROWS_OF_LABELS)
        t->columns[n++] = (column){COLUMN_REGION, "region", 0};
    if (f->rows != TG_ROWS_PLAIN || has_labels(t->plan))
        t->columns[n++] = (column){COLUMN_LABEL, "label", 0};
    if (f->has_key)
        t->columns[n++] = (column){COLUMN_KEY, f->key, 0};
    for (uint32_t i = 0; i < f->n_columns; i++)
        t->columns[n++] = (column){COLUMN_VALUE, f->columns[i], i};
    t->n_columns = n;
    return TG_OK;
}

static void merge(void *user, double *into, const double *more)
{
    const table *t = user;
    t->fn->ops->merge_row(t->fn, into, more);
}

static tg_status add_row(void *user, uint32_t region, uint64_t label, uint64_t number,
                         const double *values, tg_error *err)
{
    const table *t = user;
    const uint64_t place = t->facts->has_key ? (uint64_t)values[0] : 0;
    const uint64_t keys[3][TG_ROW_KEYS] = {{region, number, label, place},
                                           {label, place, region, number},
                                           {region, label, place, number}};

    return tg_row_sort_add(t->sort, keys[t->facts->rows], values, t->cancel, err);
}

static uint64_t label_of(const table *t, const uint64_t key[TG_ROW_KEYS])
{
    return key[t->facts->rows == TG_ROWS_PLAIN       ? 2
               : t->facts->rows == TG_ROWS_OF_LABELS ? 0
                                                     : 1];
}

static uint64_t place_of(const table *t, const uint64_t key[TG_ROW_KEYS])
{
    return key[t->facts->rows == TG_ROWS_PLAIN       ? 3
               : t->facts->rows == TG_ROWS_OF_LABELS ? 1
                                                     : 2];
}

static size_t region_of(const table *t, const uint64_t key[TG_ROW_KEYS], char room[32],
                        const char **name)
{
    tg_plan_region r;

    tg_plan_region_get(t->plan, key[0], &r);
    *name = room;
    if (r.name == NULL || r.name[0] == '\0')
        return (size_t)snprintf(room, 32, "roi_%" PRIu64, key[0]);
    *name = r.name; /* valid as long as the plan */
    return strlen(r.name);
}

static void finish(const table *t, const double *values)
{
    if (t->fn->ops->finish_row != NULL)
        t->fn->ops->finish_row(t->fn, values, t->values);
    else
        memcpy(t->values, values, t->facts->n_columns * sizeof *values);
}

static tg_status count_row(void *user, const uint64_t key[TG_ROW_KEYS], const double *values,
                           tg_error *err)
{
    table *t = user;

    (void)key;
    (void)values;
    (void)err;
    t->n++;
    return TG_OK;
}

/* --- Files
 * ----------------------------------------------------------------------------------- */

typedef struct sink {
    const table *t;
    tg_object *object;
    tg_text text;
    uint64_t bytes, n; /* n: rows of the column so far */
    uint32_t column;   /* of JSON */
} sink;

static void sink_auto(sink *k)
{
    tg_text_free(&k->text);
    tg_object_free(k->object);
}

static tg_status hand_on(sink *k, size_t from, tg_error *err)
{
    TG_TRY(tg_text_status(&k->text, err));
    if (k->object == NULL || k->text.len <= from) /* kept whole: a table's JSON */
        return TG_OK;
    TG_TRY(tg_object_write(k->object, k->text.data, k->text.len, k->t->cancel, err));
    k->bytes += k->text.len;
    k->text.len = 0;
    return TG_OK;
}

static void add_number(tg_text *t, double v, bool json)
{
    if (isfinite(v))
        tg_roi_number(t, v);
    else if (json)
        tg_text_add(t, "null");
    else
        tg_text_add(t, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

static tg_status add_text(tg_text *t, const char *s, size_t len, bool json, tg_error *err)
{
    TG_AUTO(tg_text) field = {0};
    TG_AUTO(tg_str) quoted = NULL;

    tg_text_add_n(&field, s, len);
    tg_text_add(&field, "");
    TG_TRY(tg_text_status(&field, err));
    if (!json) {
        tg_csv_write(t, field.data, ',', true);
        return TG_OK;
    }
    TG_AUTO_PTR(tg_json) v = tg_json_new_string(field.data);
    if (v == NULL)
        return tg_fail(err, TG_NO_MEMORY, "JSON");
    TG_TRY(tg_json_write(v, false, (tg_json_options){0}, &quoted, err));
    tg_text_add(t, quoted);
    return TG_OK;
}

static tg_status add_cell(sink *k, const column *c, const uint64_t key[TG_ROW_KEYS], bool json,
                          tg_error *err)
{
    const char *name = NULL;
    char room[32];

    switch (c->kind) {
    case COLUMN_REGION: {
        const size_t len = region_of(k->t, key, room, &name);
        return add_text(&k->text, name, len, json, err);
    }
    case COLUMN_LABEL:
        tg_text_addf(&k->text, "%" PRIu64, label_of(k->t, key));
        return TG_OK;
    case COLUMN_KEY:
        tg_text_addf(&k->text, "%" PRIu64, place_of(k->t, key));
        return TG_OK;
    default:
        add_number(&k->text, k->t->values[c->value], json);
        return TG_OK;
    }
}

static tg_status csv_row(void *user, const uint64_t key[TG_ROW_KEYS], const double *values,
                         tg_error *err)
{
    sink *k = user;
    const table *t = k->t;

    finish(t, values);
    for (uint32_t i = 0; i < t->n_columns; i++) {
        tg_text_add(&k->text, i > 0 ? "," : "");
        TG_TRY(add_cell(k, &t->columns[i], key, false, err));
    }
    tg_text_add(&k->text, "\n");
    return hand_on(k, PIECE, err);
}

static tg_status write_csv(sink *k, tg_error *err)
{
    const table *t = k->t;

    for (uint32_t i = 0; i < t->n_columns; i++)
        tg_text_addf(&k->text, "%s%s", i > 0 ? "," : "", t->columns[i].name);
    tg_text_add(&k->text, "\n");
    TG_TRY(tg_row_sort_each(t->sort, csv_row, k, t->cancel, err));
    return hand_on(k, 0, err);
}

static tg_status json_cell(void *user, const uint64_t key[TG_ROW_KEYS], const double *values,
                           tg_error *err)
{
    sink *k = user;

    finish(k->t, values);
    tg_text_add(&k->text, k->n++ > 0 ? "," : "");
    TG_TRY(add_cell(k, &k->t->columns[k->column], key, true, err));
    return hand_on(k, PIECE, err);
}

/* {"column": [cells]}: the rows are walked once a column. */
static tg_status write_json(sink *k, tg_error *err)
{
    const table *t = k->t;

    tg_text_add(&k->text, "{");
    for (k->column = 0; k->column < t->n_columns; k->column++) {
        const char *name = t->columns[k->column].name;
        tg_text_add(&k->text, k->column > 0 ? ",\n" : "");
        TG_TRY(add_text(&k->text, name, strlen(name), true, err));
        tg_text_add(&k->text, ":[");
        k->n = 0;
        TG_TRY(tg_row_sort_each(t->sort, json_cell, k, t->cancel, err));
        tg_text_add(&k->text, "]");
    }
    tg_text_add(&k->text, "}\n");
    return hand_on(k, 0, err);
}

typedef tg_status (*write_fn)(sink *k, tg_error *err);

static tg_status write_object(const table *t, tg_store *store, const char *key, write_fn write,
                              tg_error *err)
{
    TG_AUTO(sink) k = {.t = t};

    TG_TRY(tg_object_begin(store, key, (tg_object_options){0}, &k.object, t->cancel, err));
    tg_status st = write(&k, err);
    if (st == TG_OK)
        st = tg_object_seal(k.object, k.bytes, t->cancel, err);
    if (st != TG_OK)
        tg_object_abort(k.object);
    return st;
}

static tg_status write_file(const table *t, const char *path, tg_error *err)
{
    const tg_store_options mode = {.size = sizeof mode, .mode = TG_STORE_READ_WRITE};
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO(tg_str) folder = tg_strdup(path);

    if (folder == NULL)
        return tg_fail(err, TG_NO_MEMORY, "'%.200s'", path);
    if (slash != NULL)
        folder[slash == path ? 1 : slash - path] = '\0';
    TG_TRY(tg_store_open_fs(&store, slash == NULL ? "." : folder, &mode, err));
    TG_TRY(write_object(t, store, name, ends_with(path, ".csv") ? write_csv : write_json, err));
    return tg_store_close(store, err);
}

/* --- Tables of an image
 * ----------------------------------------------------------------------- */

/* Is a row what its label names? Then the label is the index of the table. */
static bool by_label(const table *t)
{
    return t->facts->rows == TG_ROWS_OF_LABELS && !t->facts->has_key;
}

static tg_status table_attributes(const table *t, const tg_row_target *to, char **out,
                                  tg_error *err)
{
    TG_AUTO_PTR(tg_json) a = tg_json_new_object();
    TG_AUTO_PTR(tg_json) region = tg_json_new_object();
    const bool features = by_label(t);
    char path[1200];

    if (a == NULL || region == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    TG_TRY(tg_json_set(a, "table_version", tg_json_new_string("1"), err));
    TG_TRY(tg_json_set(a, "type",
                       tg_json_new_string(features ? "feature_table" : "generic_table"), err));
    TG_TRY(tg_json_set(a, "backend", tg_json_new_string(to->backend), err));
    TG_TRY(tg_json_set(a, "index_key", tg_json_new_string(features ? "label" : "row"), err));
    TG_TRY(tg_json_set(a, "index_type", tg_json_new_string("int"), err));
    if (features && t->facts->label_path[0] != '\0') {
        (void)snprintf(path, sizeof path, "../%s", t->facts->label_path);
        TG_TRY(tg_json_set(region, "path", tg_json_new_string(path), err));
        TG_TRY(tg_json_set(a, "region", tg_steal(region), err));
    }
    if (features)
        TG_TRY(tg_json_set(a, "instance_key", tg_json_new_string("label"), err));
    return tg_json_write(a, false, (tg_json_options){0}, out, err);
}

/* Rows of an AnnData that were not written yet. */
typedef struct anndata_rows {
    const table *t;
    tg_anndata *a;
    uint64_t at; /* of the first */
    uint32_t n, n_values;
    double *x;         /* BLOCK_ROWS x n_values */
    uint64_t *numbers; /* BLOCK_ROWS x n_numbers: columns of obs that are no text */
    uint64_t index_offsets[BLOCK_ROWS + 1], region_offsets[BLOCK_ROWS + 1];
    tg_text index, regions;
} anndata_rows;

static void anndata_rows_free(anndata_rows *r)
{
    tg_text_free(&r->index);
    tg_text_free(&r->regions);
    tg_free(r->x);
    tg_free(r->numbers);
    tg_free(r);
}
TG_DEFINE_AUTO_PTR(anndata_rows, anndata_rows_free)

/* Columns of obs beside the index, in order. */
static uint32_t obs_columns(const table *t, tg_table_column c[3])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n_columns; i++) {
        const column *k = &t->columns[i];
        if (k->kind == COLUMN_REGION)
            c[n++] = (tg_table_column){k->name, {TG_DT_STRING, 0}};
        else if (k->kind == COLUMN_KEY || (k->kind == COLUMN_LABEL && !by_label(t)))
            c[n++] = (tg_table_column){k->name, {TG_DT_UINT, 8}};
    }
    return n;
}

static tg_status flush_rows(anndata_rows *r, tg_error *err)
{
    const uint64_t start[2] = {r->at, 0}, count[2] = {r->n, r->n_values};
    tg_table_column columns[3];
    const uint32_t n_columns = obs_columns(r->t, columns);
    tg_table_block blocks[4] = {{0}};
    uint32_t n_numbers = 0;

    if (r->n == 0)
        return TG_OK;
    tg_text_add(&r->index, "");
    tg_text_add(&r->regions, "");
    TG_TRY(tg_text_status(&r->index, err));
    TG_TRY(tg_text_status(&r->regions, err));
    blocks[0] = (tg_table_block){.offsets = r->index_offsets, .text = r->index.data};
    for (uint32_t i = 0; i < n_columns; i++)
        blocks[1 + i] =
            columns[i].dtype.kind == TG_DT_STRING
                ? (tg_table_block){.offsets = r->region_offsets, .text = r->regions.data}
                : (tg_table_block){.items = r->numbers + (size_t)BLOCK_ROWS * n_numbers++};
    TG_TRY(tg_array_write(tg_anndata_dense(r->a), start, count, r->x, NULL, r->t->cancel, err));
    TG_TRY(tg_table_append(tg_anndata_obs(r->a), blocks, r->n, r->t->cancel, err));
    r->at += r->n;
    r->n = 0;
    r->index.len = r->regions.len = 0;
    return TG_OK;
}

static tg_status anndata_row(void *user, const uint64_t key[TG_ROW_KEYS], const double *values,
                             tg_error *err)
{
    anndata_rows *r = user;
    const table *t = r->t;
    uint32_t n_numbers = 0;
    const char *name = NULL;
    char room[32];

    finish(t, values);
    memcpy(r->x + (size_t)r->n * r->n_values, t->values, r->n_values * sizeof(double));
    tg_text_addf(&r->index, "%" PRIu64, by_label(t) ? label_of(t, key) : r->at + r->n);
    r->index_offsets[r->n + 1] = r->index.len;
    for (uint32_t i = 0; i < t->n_columns; i++) {
        const column *c = &t->columns[i];
        if (c->kind == COLUMN_REGION)
            tg_text_add_n(&r->regions, name, region_of(t, key, room, &name));
        else if (c->kind == COLUMN_KEY || (c->kind == COLUMN_LABEL && !by_label(t)))
            r->numbers[(size_t)BLOCK_ROWS * n_numbers++ + r->n] =
                c->kind == COLUMN_KEY ? place_of(t, key) : label_of(t, key);
    }
    r->region_offsets[++r->n] = r->regions.len;
    return r->n == BLOCK_ROWS ? flush_rows(r, err) : TG_OK;
}

static tg_status write_var(const table *t, tg_anndata *a, tg_error *err)
{
    TG_AUTO(tg_text) names = {0};
    TG_AUTO(tg_mem_ptr) room = tg_calloc((size_t)t->facts->n_columns + 1, sizeof(uint64_t));
    uint64_t *offsets = room;

    if (offsets == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    for (uint32_t i = 0; i < t->facts->n_columns; i++) {
        tg_text_add(&names, t->facts->columns[i]);
        offsets[i + 1] = names.len;
    }
    TG_TRY(tg_text_status(&names, err));
    const tg_table_block block = {.offsets = offsets, .text = names.data};
    return tg_table_append(tg_anndata_var(a), &block, t->facts->n_columns, t->cancel, err);
}

static tg_status write_anndata(const table *t, const tg_row_target *to, const char *path,
                               const char *attributes, tg_error *err)
{
    TG_AUTO_PTR(tg_anndata) a = NULL;
    TG_AUTO_PTR(anndata_rows) r = tg_calloc(1, sizeof *r);
    tg_table_column columns[3];
    const tg_anndata_options o = {.format = to->format,
                                  .n_obs = t->n,
                                  .n_var = t->facts->n_columns,
                                  .x = TG_ANNDATA_DENSE,
                                  .x_dtype = {TG_DT_FLOAT, 8},
                                  .chunk = {BLOCK_ROWS, 0},
                                  .obs = columns,
                                  .n_obs_columns = obs_columns(t, columns),
                                  .obs_index = by_label(t) ? "label" : "row",
                                  .chunk_rows = BLOCK_ROWS,
                                  .attributes = attributes};

    if (r == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    r->t = t;
    r->n_values = t->facts->n_columns;
    r->x = tg_alloc_array(BLOCK_ROWS * (size_t)r->n_values + 1, sizeof(double));
    r->numbers = tg_alloc_array((size_t)BLOCK_ROWS * 3, sizeof(uint64_t));
    if (r->x == NULL || r->numbers == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    TG_TRY(tg_anndata_create(&a, to->store, path, &o, t->cancel, err));
    r->a = a;
    TG_TRY(tg_row_sort_each(t->sort, anndata_row, r, t->cancel, err));
    TG_TRY(flush_rows(r, err));
    TG_TRY(write_var(t, a, err));
    return tg_anndata_close(a, t->cancel, err);
}

static tg_status write_json_group(const table *t, const tg_row_target *to, const char *path,
                                  tg_error *err)
{
    enum { MOST_CELLS = 200000 }; /* it is one document of attributes, read whole by everyone */
    TG_AUTO(sink) k = {.t = t};
    char key[1600];

    if (t->n * t->n_columns > MOST_CELLS)
        return tg_fail(err, TG_UNSUPPORTED,
                       "a JSON table of %" PRIu64 " rows and %" PRIu32
                       " columns, up to %d cells are written: use anndata",
                       t->n, t->n_columns, MOST_CELLS);
    TG_TRY(write_json(&k, err));
    tg_text_add(&k.text, "");
    TG_TRY(tg_text_status(&k.text, err));
    TG_TRY(tg_path_join(key, sizeof key, path, "table", err));
    return tg_group_create(to->store, key, to->format, k.text.data, t->cancel, err);
}

/* A table to be made, wherever. */
typedef struct new_table {
    const table *t;
    const tg_row_target *to;
    const char *attributes;
} new_table;

static tg_status make_table(void *user, const char *path, const tg_cancel *cancel,
                            tg_error *err)
{
    const new_table *n = user;
    const tg_row_target *to = n->to;
    char key[1600];

    if (strcmp(to->backend, "anndata") == 0)
        return write_anndata(n->t, to, path, n->attributes, err);
    TG_TRY(tg_group_create(to->store, path, to->format, n->attributes, cancel, err));
    TG_TRY(tg_path_join(key, sizeof key, path, "table.csv", err));
    return strcmp(to->backend, "csv") == 0 ? write_object(n->t, to->store, key, write_csv, err)
                                           : write_json_group(n->t, to, path, err);
}

static tg_status write_table(const table *t, const tg_row_target *to, tg_error *err)
{
    TG_AUTO(tg_str) attributes = NULL;
    char tables[1200], path[1400];

    TG_TRY(table_path(to, tables, path, err));
    TG_TRY(table_attributes(t, to, &attributes, err));
    TG_TRY(tg_roi_make_tables(to->store, tables, to->format, t->cancel, err));
    new_table n = {t, to, attributes};
    TG_TRY(tg_node_replace(to->store, path, make_table, &n, t->cancel, err));
    return tg_roi_list_table(to->store, tables, to->name, t->cancel, err);
}

/* --- All of it -------------------------------------------------------------------------------
 */

uint64_t tg_row_table_bytes(const tg_function *fn)
{
    return TG_ROW_SORT_LEAST + PIECE +
           (uint64_t)(BLOCK_ROWS + 1) * (fn->facts.n_columns + 8) * 4 * sizeof(double);
}

static tg_status sort_rows(table *t, const tg_folder *folder, tg_error *err)
{
    TG_AUTO(tg_row_past) past = {0};

    TG_TRY(tg_row_look(folder, t->plan, &past, err));
    TG_TRY(tg_row_each(folder, &past, t->facts->n_values, add_row, t, err));
    return tg_row_sort_each(t->sort, count_row, t, t->cancel, err);
}

/* No more room than all rows take, and no more than half of what there is. */
static size_t sort_room(const tg_folder *folder, uint64_t have)
{
    struct stat info = {.st_size = 0};
    uint64_t want = tg_sys_stat(folder->dir, "rows-0", &info, 0) == 0
                        ? 2 * (uint64_t)info.st_size + TG_ROW_SORT_LEAST
                        : TG_ROW_SORT_LEAST;

    want = want < have / 2 ? want : have / 2;
    want = want < SIZE_MAX / 4 ? want : SIZE_MAX / 4;
    return want > TG_ROW_SORT_LEAST ? (size_t)want : TG_ROW_SORT_LEAST;
}

static tg_status write_all(table *t, const tg_row_target *to, const tg_folder *folder,
                           size_t room, tg_error *err)
{
    static const uint32_t groups[] = {0, 2, 3};
    const tg_row_sort_options o = {
        .folder = folder,
        .n_values = t->facts->n_values,
        .n_group = t->fn->ops->merge_row == NULL ? 0 : groups[t->facts->rows],
        .merge = merge,
        .user = t,
        .room = room};

    TG_TRY(set_columns(t, err));
    TG_TRY(tg_row_sort_new(&t->sort, &o, err));
    TG_TRY(sort_rows(t, folder, err));
    tg_crash_point();
    return to->file[0] != '\0' ? write_file(t, to->file, err) : write_table(t, to, err);
}

tg_status tg_row_table_write(const tg_row_target *to, const tg_folder *folder,
                             const tg_plan *plan, const tg_function *fn, tg_budget *budget,
                             uint64_t *n, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(table) t = {.plan = plan, .fn = fn, .facts = &fn->facts, .cancel = cancel};
    const uint64_t have = tg_budget_total(budget) - tg_budget_used(budget);
    const size_t room = sort_room(folder, have);
    const uint64_t bytes =
        room + tg_row_table_bytes(fn) + (tg_plan_n_regions(plan) + 1) * sizeof(uint32_t);

    TG_TRY(tg_budget_reserve(budget, bytes, "rows of the table", err));
    tg_status st = write_all(&t, to, folder, room, err);
    tg_row_sort_free(tg_steal(t.sort));
    tg_budget_release(budget, bytes);
    *n = t.n;
    return st;
}
