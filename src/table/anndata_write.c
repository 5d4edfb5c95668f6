/* AnnData groups, written piece by piece. What anndata's readers want of each element is in
 * docs/formats/anndata.md; tables are table.c's. */
#include "table/anndata.h"

#include <inttypes.h>
#include <string.h>

#define ARRAY_ENCODING "{\"encoding-type\":\"array\",\"encoding-version\":\"0.2.0\"}"
#define DICT_ENCODING  "{\"encoding-type\":\"dict\",\"encoding-version\":\"0.1.0\"}"

enum { PATH_BYTES = 1024 };

/* A 1-D array of numbers that grows; items wait here until they fill a chunk. */
typedef struct growing {
    tg_array *array;
    tg_buf pending; /* room of one chunk */
    size_t item_bytes;
    uint64_t chunk;
    uint64_t n; /* items in all, pending included */
} growing;

struct tg_anndata {
    tg_store *store;
    char path[PATH_BYTES];
    tg_anndata_x kind;
    uint64_t n_obs, n_var;
    tg_table *obs, *var;
    tg_array *dense;
    growing data, indices, indptr;
    bool wide; /* indices of 8 bytes */
    uint64_t most_items, n_major, greatest;
};

void tg_anndata_free(tg_anndata *a)
{
    if (a == NULL)
        return;
    tg_table_free(a->obs);
    tg_table_free(a->var);
    tg_array_free(a->dense);
    growing *const g[] = {&a->data, &a->indices, &a->indptr};
    for (size_t i = 0; i < sizeof g / sizeof g[0]; i++) {
        tg_array_free(g[i]->array);
        tg_buf_free(&g[i]->pending);
    }
    tg_free(a);
}

tg_table *tg_anndata_obs(tg_anndata *a)
{
    return a->obs;
}

tg_table *tg_anndata_var(tg_anndata *a)
{
    return a->var;
}

tg_array *tg_anndata_dense(tg_anndata *a)
{
    return a->dense;
}

size_t tg_anndata_worst_bytes(const tg_anndata *a)
{
    const growing *const g[] = {&a->data, &a->indices, &a->indptr};
    const tg_table *const tables[] = {a->obs, a->var};
    size_t worst = a->dense == NULL ? 0 : tg_array_worst_bytes(a->dense), held = 0;

    for (size_t i = 0; i < 2; i++) {
        const size_t bytes = tg_table_worst_bytes(tables[i]);
        worst = bytes > worst ? bytes : worst;
    }
    for (size_t i = 0; i < sizeof g / sizeof g[0]; i++) {
        const size_t bytes = g[i]->array == NULL ? 0 : tg_array_worst_bytes(g[i]->array);
        worst = bytes > worst ? bytes : worst;
        held += g[i]->pending.len;
    }
    return worst > SIZE_MAX - held ? SIZE_MAX : worst + held;
}

/* --- Arrays that grow --------------------------------------------------------------- */

static tg_status growing_create(growing *g, const tg_anndata *a, const char *name,
                                tg_dtype dtype, const tg_anndata_options *o,
                                const tg_cancel *cancel, tg_error *err)
{
    const uint64_t none = 0;
    char path[PATH_BYTES];

    g->item_bytes = dtype.size;
    g->chunk = o->chunk[0] == 0 ? 65536 : o->chunk[0];
    const tg_array_options options = {.size = sizeof options,
                                      .format = o->format,
                                      .dtype = dtype,
                                      .ndim = 1,
                                      .shape = &none,
                                      .chunk = &g->chunk,
                                      .codec = o->codec,
                                      .no_checksum = o->no_checksum,
                                      .attributes = ARRAY_ENCODING};
    if (g->chunk > SIZE_MAX / g->item_bytes)
        return tg_fail(err, TG_INVALID, "AnnData: a chunk of %" PRIu64 " items", g->chunk);
    TG_TRY(tg_buf_resize(&g->pending, (size_t)g->chunk * g->item_bytes, err));
    TG_TRY(tg_path_join(path, sizeof path, a->path, name, err));
    return tg_array_create(a->store, path, &options, &g->array, cancel, err);
}

/* Items [first, n) are in pending; the array's metadata does not speak of them yet. */
static tg_status growing_flush(growing *g, const tg_cancel *cancel, tg_error *err)
{
    const uint64_t held = g->n % g->chunk == 0 && g->n > 0 ? g->chunk : g->n % g->chunk;
    const uint64_t first = g->n - held;

    if (held == 0)
        return TG_OK;
    tg_array_set_shape(g->array, &g->n);
    return tg_array_write(g->array, &first, &held, g->pending.data, NULL, cancel, err);
}

static tg_status growing_add(growing *g, const void *items, uint64_t n, const tg_cancel *cancel,
                             tg_error *err)
{
    const uint8_t *from = items;

    while (n > 0) {
        const uint64_t at = g->n % g->chunk;
        const uint64_t take = n < g->chunk - at ? n : g->chunk - at;
        memcpy(g->pending.data + at * g->item_bytes, from, (size_t)take * g->item_bytes);
        g->n += take;
        if (g->n % g->chunk == 0)
            TG_TRY(growing_flush(g, cancel, err));
        from += take * g->item_bytes;
        n -= take;
    }
    return TG_OK;
}

/* Indices are kept as the array has them: 4 or 8 bytes. */
static tg_status growing_add_index(growing *g, uint64_t value, const tg_cancel *cancel,
                                   tg_error *err)
{
    const int64_t wide = (int64_t)value;
    const int32_t narrow = (int32_t)value;

    return growing_add(g, g->item_bytes == 8 ? (const void *)&wide : &narrow, 1, cancel, err);
}

static tg_status growing_close(growing *g, const tg_cancel *cancel, tg_error *err)
{
    if (g->n % g->chunk != 0)
        TG_TRY(growing_flush(g, cancel, err));
    return tg_array_resize(g->array, &g->n, cancel, err);
}

/* --- Making ------------------------------------------------------------------------- */

static tg_status create_frame(tg_table **out, const tg_anndata *a, const char *name,
                              const char *index, const tg_table_column *columns, uint32_t n,
                              const tg_anndata_options *o, const tg_cancel *cancel,
                              tg_error *err)
{
    char path[PATH_BYTES];
    TG_AUTO(tg_mem_ptr) room = tg_calloc((size_t)n + 1, sizeof *columns);
    tg_table_column *all = room;

    if (all == NULL)
        return tg_fail(err, TG_NO_MEMORY, "AnnData");
    all[0] = (tg_table_column){index == NULL ? "_index" : index, {TG_DT_STRING, 0}};
    if (n > 0)
        memcpy(all + 1, columns, n * sizeof *columns);
    const tg_table_options options = {.format = o->format,
                                      .columns = all,
                                      .n_columns = n + 1,
                                      .chunk_rows = o->chunk_rows,
                                      .codec = o->codec,
                                      .no_checksum = o->no_checksum,
                                      .dataframe = true};
    TG_TRY(tg_path_join(path, sizeof path, a->path, name, err));
    return tg_table_create(out, a->store, path, &options, cancel, err);
}

static tg_status create_dense(tg_anndata *a, const tg_anndata_options *o,
                              const tg_cancel *cancel, tg_error *err)
{
    const uint64_t shape[2] = {o->n_obs, o->n_var};
    const uint64_t columns = o->n_var == 0 ? 1 : o->n_var < 256 ? o->n_var : 256;
    const uint64_t chunk[2] = {o->chunk[0] == 0 ? 4096 : o->chunk[0],
                               o->chunk[1] == 0 ? columns : o->chunk[1]};
    const tg_array_options options = {.size = sizeof options,
                                      .format = o->format,
                                      .dtype = o->x_dtype,
                                      .ndim = 2,
                                      .shape = shape,
                                      .chunk = chunk,
                                      .codec = o->codec,
                                      .no_checksum = o->no_checksum,
                                      .attributes = ARRAY_ENCODING};
    char path[PATH_BYTES];

    TG_TRY(tg_path_join(path, sizeof path, a->path, "X", err));
    return tg_array_create(a->store, path, &options, &a->dense, cancel, err);
}

static tg_status create_sparse(tg_anndata *a, const tg_anndata_options *o,
                               const tg_cancel *cancel, tg_error *err)
{
    const tg_dtype index = {TG_DT_INT, a->wide ? 8 : 4};
    char path[PATH_BYTES];

    TG_TRY(tg_path_join(path, sizeof path, a->path, "X", err));
    TG_TRY(tg_group_create(a->store, path, o->format, NULL, cancel, err));
    TG_TRY(growing_create(&a->data, a, "X/data", o->x_dtype, o, cancel, err));
    TG_TRY(growing_create(&a->indices, a, "X/indices", index, o, cancel, err));
    TG_TRY(growing_create(&a->indptr, a, "X/indptr", index, o, cancel, err));
    return growing_add_index(&a->indptr, 0, cancel, err);
}

static tg_status create_empty_dicts(const tg_anndata *a, int format, const tg_cancel *cancel,
                                    tg_error *err)
{
    static const char *const names[] = {"layers", "obsm", "obsp", "uns", "varm", "varp"};
    char path[PATH_BYTES];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        TG_TRY(tg_path_join(path, sizeof path, a->path, names[i], err));
        TG_TRY(tg_group_create(a->store, path, format, DICT_ENCODING, cancel, err));
    }
    return TG_OK;
}

static bool is_number(tg_dtype t)
{
    return t.kind == TG_DT_BOOL || t.kind == TG_DT_INT || t.kind == TG_DT_UINT ||
           t.kind == TG_DT_FLOAT;
}

static tg_status check_options(const tg_anndata_options *o, const char *path, tg_error *err)
{
    char room[16];

    if (o->x != TG_ANNDATA_NO_X && !is_number(o->x_dtype))
        return tg_fail(err, TG_INVALID, "AnnData: X of %s, a number is wanted",
                       tg_dtype_name(o->x_dtype, room));
    if (strlen(path) >= PATH_BYTES)
        return tg_fail(err, TG_INVALID, "AnnData: a path of %zu bytes, less than %d is wanted",
                       strlen(path), PATH_BYTES);
    return TG_OK;
}

tg_status tg_anndata_create(tg_anndata **out, tg_store *store, const char *path,
                            const tg_anndata_options *o, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(check_options(o, path, err));
    TG_AUTO_PTR(tg_anndata) a = tg_calloc(1, sizeof *a);
    if (a == NULL)
        return tg_fail(err, TG_NO_MEMORY, "AnnData");
    a->store = store;
    memcpy(a->path, path, strlen(path) + 1);
    a->kind = o->x;
    a->n_obs = o->n_obs;
    a->n_var = o->n_var;
    a->most_items = o->most_items;
    a->wide = o->most_items == 0 || o->most_items > INT32_MAX;
    if (o->overwrite)
        TG_TRY(tg_node_remove(store, path, cancel, err));
    TG_TRY(tg_group_create(store, path, o->format, o->attributes, cancel, err));
    TG_TRY(create_frame(&a->obs, a, "obs", o->obs_index, o->obs, o->n_obs_columns, o, cancel,
                        err));
    TG_TRY(create_frame(&a->var, a, "var", o->var_index, o->var, o->n_var_columns, o, cancel,
                        err));
    TG_TRY(create_empty_dicts(a, o->format, cancel, err));
    if (o->x == TG_ANNDATA_DENSE)
        TG_TRY(create_dense(a, o, cancel, err));
    else if (o->x != TG_ANNDATA_NO_X)
        TG_TRY(create_sparse(a, o, cancel, err));
    *out = tg_steal(a);
    return TG_OK;
}

/* --- Sparse X ----------------------------------------------------------------------- */

static tg_status check_row(const tg_anndata *a, uint64_t from, uint64_t to,
                           const uint64_t *indices, uint64_t *greatest, tg_error *err)
{
    const uint64_t most = a->wide ? INT64_MAX : INT32_MAX;

    for (uint64_t i = from; i < to; i++) {
        if (i > from && indices[i] <= indices[i - 1])
            return tg_fail(err, TG_INVALID,
                           "sparse X: index %" PRIu64 " behind %" PRIu64 ", want ascending",
                           indices[i], indices[i - 1]);
        if (indices[i] > most)
            return tg_fail(err, TG_INVALID, "sparse X: index %" PRIu64 " is above %" PRIu64,
                           indices[i], most);
    }
    if (to > from && indices[to - 1] > *greatest)
        *greatest = indices[to - 1];
    return TG_OK;
}

static tg_status check_rows(const tg_anndata *a, uint64_t n, const uint64_t *begin,
                            const uint64_t *indices, uint64_t *greatest, tg_error *err)
{
    uint64_t items = 0;

    for (uint64_t i = 0; i < n; i++) {
        if (begin[i + 1] < begin[i])
            return tg_fail(err, TG_INVALID, "sparse X: row %" PRIu64 " ends before it begins",
                           i);
        TG_TRY(check_row(a, begin[i], begin[i + 1], indices, greatest, err));
    }
    if (n > 0 && __builtin_add_overflow(a->data.n, begin[n] - begin[0], &items))
        return tg_fail(err, TG_INVALID, "sparse X: more than 2^64 items");
    if (a->most_items != 0 && items > a->most_items)
        return tg_fail(err, TG_INVALID,
                       "sparse X: %" PRIu64 " items, %" PRIu64 " were said to be the most",
                       items, a->most_items);
    return TG_OK;
}

tg_status tg_anndata_append(tg_anndata *a, uint64_t n, const uint64_t *begin,
                            const uint64_t *indices, const void *values,
                            const tg_cancel *cancel, tg_error *err)
{
    uint64_t greatest = a->greatest;

    if (a->kind != TG_ANNDATA_CSR && a->kind != TG_ANNDATA_CSC)
        return tg_fail(err, TG_INVALID, "AnnData: X is not sparse");
    TG_TRY(check_rows(a, n, begin, indices, &greatest, err));
    if (n == 0)
        return TG_OK;
    TG_TRY(growing_add(&a->data, (const uint8_t *)values + begin[0] * a->data.item_bytes,
                       begin[n] - begin[0], cancel, err));
    for (uint64_t i = begin[0]; i < begin[n]; i++)
        TG_TRY(growing_add_index(&a->indices, indices[i], cancel, err));
    const uint64_t before = a->data.n - begin[n];
    for (uint64_t i = 1; i <= n; i++)
        TG_TRY(growing_add_index(&a->indptr, before + begin[i], cancel, err));
    a->n_major += n;
    a->greatest = greatest;
    return TG_OK;
}

/* --- The end ------------------------------------------------------------------------ */

static tg_status check_agrees(const char *what, uint64_t got, uint64_t want, tg_error *err)
{
    if (got == want)
        return TG_OK;
    return tg_fail(err, TG_INVALID, "AnnData: %" PRIu64 " %s of X, but %" PRIu64 " named", got,
                   what, want);
}

static tg_status close_sparse(tg_anndata *a, const tg_cancel *cancel, tg_error *err)
{
    const bool by_row = a->kind == TG_ANNDATA_CSR;
    const uint64_t n_obs = tg_table_rows(a->obs), n_var = tg_table_rows(a->var);
    const uint64_t n_minor = by_row ? n_var : n_obs;
    TG_AUTO(tg_text) attributes = {0};
    char path[PATH_BYTES];

    TG_TRY(check_agrees(by_row ? "rows" : "columns", a->n_major, by_row ? n_obs : n_var, err));
    if (a->data.n > 0 && a->greatest >= n_minor)
        return tg_fail(err, TG_INVALID, "sparse X: index %" PRIu64 ", but %" PRIu64 " named",
                       a->greatest, n_minor);
    TG_TRY(growing_close(&a->data, cancel, err));
    TG_TRY(growing_close(&a->indices, cancel, err));
    TG_TRY(growing_close(&a->indptr, cancel, err));
    tg_text_addf(&attributes,
                 "{\"encoding-type\":\"%s\",\"encoding-version\":\"0.1.0\","
                 "\"shape\":[%" PRIu64 ",%" PRIu64 "]}",
                 by_row ? "csr_matrix" : "csc_matrix", n_obs, n_var);
    TG_TRY(tg_text_status(&attributes, err));
    TG_TRY(tg_path_join(path, sizeof path, a->path, "X", err));
    return tg_attributes_set(a->store, path, attributes.data, false, cancel, err);
}

tg_status tg_anndata_close(tg_anndata *a, const tg_cancel *cancel, tg_error *err)
{
    if (a->kind == TG_ANNDATA_DENSE) {
        TG_TRY(check_agrees("rows", a->n_obs, tg_table_rows(a->obs), err));
        TG_TRY(check_agrees("columns", a->n_var, tg_table_rows(a->var), err));
    } else if (a->kind != TG_ANNDATA_NO_X) {
        TG_TRY(close_sparse(a, cancel, err));
    }
    return tg_attributes_set(a->store, a->path,
                             "{\"encoding-type\":\"anndata\",\"encoding-version\":\"0.1.0\"}",
                             true, cancel, err);
}
