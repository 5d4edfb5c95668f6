/* Tables: made, opened, appended to, read. What lies in the columns is Zarr's. */
#include "table/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_COLUMNS = 4096 };

typedef struct column {
    char *name;
    tg_array *array;
    tg_dtype dtype;
} column;

struct tg_table {
    uint32_t n;
    column *columns;
    uint64_t rows;
};

void tg_table_free(tg_table *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; t->columns != NULL && i < t->n; i++) {
        tg_free(t->columns[i].name);
        tg_array_free(t->columns[i].array);
    }
    tg_free(t->columns);
    tg_free(t);
}

uint64_t tg_table_rows(const tg_table *t)
{
    return t->rows;
}

uint32_t tg_table_n_columns(const tg_table *t)
{
    return t->n;
}

tg_table_column tg_table_column_at(const tg_table *t, uint32_t i)
{
    return (tg_table_column){t->columns[i].name, t->columns[i].dtype};
}

uint32_t tg_table_find(const tg_table *t, const char *name)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->columns[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

size_t tg_table_worst_bytes(const tg_table *t)
{
    size_t worst = 0;

    for (uint32_t i = 0; i < t->n; i++) {
        size_t bytes = tg_array_worst_bytes(t->columns[i].array);
        worst = bytes > worst ? bytes : worst;
    }
    return worst;
}

/* --- Making and opening ----------------------------------------------------------- */

static tg_status new_table(tg_table **out, uint32_t n, tg_error *err)
{
    TG_AUTO_PTR(tg_table) t = tg_calloc(1, sizeof *t);

    if (n > MOST_COLUMNS)
        return tg_fail(err, TG_INVALID, "table: %" PRIu32 " columns, %d are the most", n,
                       MOST_COLUMNS);
    if (t == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    t->columns = tg_calloc(n == 0 ? 1 : n, sizeof *t->columns);
    if (t->columns == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    t->n = n;
    *out = tg_steal(t);
    return TG_OK;
}

static tg_status check_columns(const tg_table_options *o, tg_error *err)
{
    if (o->dataframe && (o->n_columns == 0 || o->columns[0].dtype.kind != TG_DT_STRING))
        return tg_fail(err, TG_INVALID, "dataframe: the first column must be its index, text");
    for (uint32_t i = 0; i < o->n_columns; i++) {
        const tg_table_column *c = &o->columns[i];
        if (c->dtype.kind == TG_DT_NONE || c->dtype.kind == TG_DT_RAW)
            return tg_fail(err, TG_INVALID,
                           "column '%.60s': a number, bool or string is wanted", c->name);
        if (strchr(c->name, '/') != NULL)
            return tg_fail(err, TG_INVALID, "column '%.60s': no '/' in a name", c->name);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(o->columns[k].name, c->name) == 0)
                return tg_fail(err, TG_INVALID, "column '%.60s' is there twice", c->name);
    }
    return TG_OK;
}

static tg_status dataframe_attributes(tg_json *object, const char *index, tg_error *err)
{
    TG_TRY(tg_json_set(object, "encoding-type", tg_json_new_string("dataframe"), err));
    TG_TRY(tg_json_set(object, "encoding-version", tg_json_new_string("0.2.0"), err));
    return tg_json_set(object, "_index", tg_json_new_string(index), err);
}

/* The caller's attributes and the order of the columns, as text. */
static tg_status group_attributes(const tg_table_options *o, char **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) object = NULL;
    TG_AUTO_PTR(tg_json) order = tg_json_new_array();
    const char *text = o->attributes == NULL ? "{}" : o->attributes;

    if (order == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    TG_TRY(tg_json_parse(&object, text, strlen(text), (tg_json_options){0}, err));
    if (tg_json_kind_of(object) != TG_JSON_OBJECT)
        return tg_fail(err, TG_INVALID, "attributes: want an object");
    if (o->dataframe)
        TG_TRY(dataframe_attributes(object, o->columns[0].name, err));
    for (uint32_t i = o->dataframe; i < o->n_columns; i++)
        TG_TRY(tg_json_append(order, tg_json_new_string(o->columns[i].name), err));
    TG_TRY(tg_json_set(object, "column-order", tg_steal(order), err));
    return tg_json_write(object, false, (tg_json_options){0}, out, err);
}

static const char *column_attributes(const tg_table_options *o, const tg_table_column *c)
{
    if (!o->dataframe)
        return NULL;
    return c->dtype.kind == TG_DT_STRING
               ? "{\"encoding-type\":\"string-array\",\"encoding-version\":\"0.2.0\"}"
               : "{\"encoding-type\":\"array\",\"encoding-version\":\"0.2.0\"}";
}

static tg_status create_column(tg_store *store, const char *path, const tg_table_options *o,
                               const tg_table_column *c, column *out, const tg_cancel *cancel,
                               tg_error *err)
{
    const bool text = c->dtype.kind == TG_DT_STRING;
    const uint64_t rows = 0, usual = text ? 4096 : 65536;
    const uint64_t chunk = o->chunk_rows == 0 ? usual : o->chunk_rows;
    const tg_array_options a = {.size = sizeof a,
                                .format = o->format,
                                .dtype = c->dtype,
                                .ndim = 1,
                                .shape = &rows,
                                .chunk = &chunk,
                                .codec = o->codec,
                                .no_checksum = o->no_checksum,
                                .attributes = column_attributes(o, c)};
    char child[1024];

    TG_TRY(tg_path_join(child, sizeof child, path, c->name, err));
    out->dtype = c->dtype;
    out->name = tg_strdup(c->name);
    if (out->name == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    return tg_array_create(store, child, &a, &out->array, cancel, err);
}

tg_status tg_table_create(tg_table **out, tg_store *store, const char *path,
                          const tg_table_options *options, const tg_cancel *cancel,
                          tg_error *err)
{
    TG_AUTO_PTR(tg_table) t = NULL;
    TG_AUTO(tg_str) attributes = NULL;

    TG_TRY(check_columns(options, err));
    TG_TRY(group_attributes(options, &attributes, err));
    TG_TRY(new_table(&t, options->n_columns, err));
    if (options->overwrite)
        TG_TRY(tg_node_remove(store, path, cancel, err));
    TG_TRY(tg_group_create(store, path, options->format, attributes, cancel, err));
    for (uint32_t i = 0; i < t->n; i++)
        TG_TRY(create_column(store, path, options, &options->columns[i], &t->columns[i], cancel,
                             err));
    *out = tg_steal(t);
    return TG_OK;
}

static tg_status open_column(tg_store *store, const char *path, const char *name, column *out,
                             const tg_cancel *cancel, tg_error *err)
{
    tg_array_info info = {.size = sizeof info};
    char child[1024];

    TG_TRY(tg_path_join(child, sizeof child, path, name, err));
    TG_TRY(tg_array_open(store, child, &out->array, cancel, err));
    TG_TRY(tg_array_get_info(out->array, &info, err));
    if (info.ndim != 1)
        return tg_fail(err, TG_INVALID, "column '%.200s' has %" PRIu32 " dimensions, want 1",
                       child, info.ndim);
    out->dtype = info.dtype;
    out->name = tg_strdup(name);
    return out->name == NULL ? tg_fail(err, TG_NO_MEMORY, "table") : TG_OK;
}

static tg_status open_listed(tg_table **out, tg_store *store, const char *path,
                             const tg_json *order, const tg_json *index,
                             const tg_cancel *cancel, tg_error *err)
{
    const uint32_t before = tg_json_kind_of(index) == TG_JSON_STRING; /* a dataframe's index */
    TG_AUTO_PTR(tg_table) t = NULL;
    const char *name = NULL;

    if (tg_json_size(order) > MOST_COLUMNS)
        return tg_fail(err, TG_CORRUPT, "'column-order' has %zu names", tg_json_size(order));
    TG_TRY(new_table(&t, (uint32_t)tg_json_size(order) + before, err));
    for (uint32_t i = 0; i < t->n; i++) {
        const tg_json *v = i < before ? index : tg_json_at(order, i - before);
        TG_TRY(tg_json_string(v, &name, NULL, err));
        TG_TRY(open_column(store, path, name, &t->columns[i], cancel, err));
    }
    *out = tg_steal(t);
    return TG_OK;
}

/* Arrays that we cannot read, groups and pictures are no columns; what fails otherwise fails.
 */
static tg_status is_column(tg_store *store, const char *path, const char *name, bool *is,
                           const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};
    char child[1024];

    *is = false;
    TG_TRY(tg_path_join(child, sizeof child, path, name, err));
    tg_status st = tg_array_open(store, child, &a, cancel, err);
    if (st == TG_INVALID || st == TG_UNSUPPORTED)
        return TG_OK;
    if (st == TG_OK)
        st = tg_array_get_info(a, &info, err);
    *is = st == TG_OK && info.ndim == 1;
    return st;
}

static void free_names(char ***names)
{
    tg_names_free(*names);
}

static tg_status open_found(tg_table **out, tg_store *store, const char *path,
                            const tg_cancel *cancel, tg_error *err)
{
    __attribute__((cleanup(free_names))) char **names = NULL;
    TG_AUTO_PTR(tg_table) t = NULL;
    uint32_t n = 0;

    TG_TRY(tg_node_children(store, path, &names, cancel, err));
    while (names[n] != NULL)
        n++;
    TG_TRY(new_table(&t, n, err));
    t->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool is = false;
        TG_TRY(is_column(store, path, names[i], &is, cancel, err));
        if (!is)
            continue;
        t->n++;
        TG_TRY(open_column(store, path, names[i], &t->columns[t->n - 1], cancel, err));
    }
    *out = tg_steal(t);
    return TG_OK;
}

tg_status tg_table_open(tg_table **out, tg_store *store, const char *path,
                        const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    TG_AUTO_PTR(tg_json) attributes = NULL;
    TG_AUTO_PTR(tg_table) t = NULL;

    TG_TRY(tg_node_open(store, path, &node, cancel, err));
    if (tg_node_kind_of(node) != TG_NODE_GROUP)
        return tg_fail(err, TG_INVALID, "'%.200s' is an array, want a group of columns", path);
    const char *text = tg_node_attributes(node);
    TG_TRY(tg_json_parse(&attributes, text, strlen(text), (tg_json_options){.allow_nan = true},
                         err));
    const tg_json *order = tg_json_get(attributes, "column-order");
    if (tg_json_kind_of(order) == TG_JSON_ARRAY)
        TG_TRY(open_listed(&t, store, path, order, tg_json_get(attributes, "_index"), cancel,
                           err));
    else
        TG_TRY(open_found(&t, store, path, cancel, err));
    for (uint32_t i = 0; i < t->n; i++) {
        uint64_t rows = tg_array_meta_info(tg_array_get_meta(t->columns[i].array))->shape[0];
        t->rows = i == 0 || rows < t->rows ? rows : t->rows;
    }
    *out = tg_steal(t);
    return TG_OK;
}

/* --- Rows ------------------------------------------------------------------------- */

static tg_status write_column(const column *c, const tg_table_block *b, uint64_t first,
                              uint64_t n, const tg_cancel *cancel, tg_error *err)
{
    if (c->dtype.kind == TG_DT_STRING)
        return tg_array_write_strings(c->array, first, n, b->offsets, b->text, cancel, err);
    return tg_array_write(c->array, &first, &n, b->items, NULL, cancel, err);
}

static tg_status append(tg_table *t, const tg_table_block *blocks, uint64_t n_rows,
                        const tg_cancel *cancel, tg_error *err)
{
    const uint64_t rows = t->rows + n_rows;

    for (uint32_t i = 0; i < t->n; i++) {
        tg_array_set_shape(t->columns[i].array, &rows);
        TG_TRY(write_column(&t->columns[i], &blocks[i], t->rows, n_rows, cancel, err));
    }
    for (uint32_t i = 0; i < t->n; i++)
        TG_TRY(tg_array_resize(t->columns[i].array, &rows, cancel, err));
    return TG_OK;
}

tg_status tg_table_append(tg_table *t, const tg_table_block *blocks, uint64_t n_rows,
                          const tg_cancel *cancel, tg_error *err)
{
    uint64_t rows = 0;

    if (__builtin_add_overflow(t->rows, n_rows, &rows))
        return tg_fail(err, TG_INVALID, "table: more than 2^64 rows");
    if (n_rows == 0)
        return TG_OK;
    tg_status st = append(t, blocks, n_rows, cancel, err);
    if (st == TG_OK)
        t->rows = rows;
    else /* what was written beyond is not there, as far as anyone can see */
        for (uint32_t i = 0; i < t->n; i++)
            tg_array_set_shape(t->columns[i].array, &t->rows);
    return st;
}

static tg_status check_range(const tg_table *t, uint32_t i, bool text, uint64_t first,
                             uint64_t n, tg_error *err)
{
    if (i >= t->n)
        return tg_fail(err, TG_INVALID, "table: no column %" PRIu32 ", it has %" PRIu32, i,
                       t->n);
    if ((t->columns[i].dtype.kind == TG_DT_STRING) != text)
        return tg_fail(err, TG_INVALID, "column '%.60s' %s strings", t->columns[i].name,
                       text ? "does not hold" : "holds");
    if (first > t->rows || n > t->rows - first)
        return tg_fail(err, TG_INVALID,
                       "table: %" PRIu64 " rows from %" PRIu64 ", it has %" PRIu64, n, first,
                       t->rows);
    return TG_OK;
}

tg_status tg_table_read(tg_table *t, uint32_t i, uint64_t first, uint64_t n, void *dst,
                        const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(check_range(t, i, false, first, n, err));
    return tg_array_read(t->columns[i].array, &first, &n, dst, NULL, cancel, err);
}

tg_status tg_table_read_strings(tg_table *t, uint32_t i, uint64_t first, uint64_t n,
                                size_t limit, uint64_t **offsets, char **text,
                                const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(check_range(t, i, true, first, n, err));
    return tg_array_read_strings(t->columns[i].array, first, n, limit, offsets, text, cancel,
                                 err);
}
