/* ROI tables of Fractal and ngio: a group of attributes that say what it is, kept as AnnData,
 * CSV or JSON. */
#include "base/json.h"
#include "region/roi_frame.h"

#include <string.h>

enum { PATH_BYTES = 1024 };

typedef struct table_facts {
    tg_json *attributes;
    const char *type, *backend, *index_key, *instance_key, *region;
} table_facts;

static void table_facts_auto(table_facts *t)
{
    tg_json_free(t->attributes);
}

static const char *text_member(const tg_json *object, const char *key)
{
    const tg_json *v = tg_json_get(object, key);
    const char *s = NULL;

    if (tg_json_kind_of(v) != TG_JSON_STRING || tg_json_string(v, &s, NULL, NULL) != TG_OK)
        return NULL;
    return s;
}

static tg_status read_facts(table_facts *t, tg_store *store, const char *path,
                            const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;

    TG_TRY(tg_node_open(store, path, &node, cancel, err));
    if (tg_node_kind_of(node) != TG_NODE_GROUP)
        return tg_fail(err, TG_INVALID, "'%.200s' is an array, want a group", path);
    const char *text = tg_node_attributes(node);
    TG_TRY(tg_json_parse(&t->attributes, text, strlen(text),
                         (tg_json_options){.allow_nan = true}, err));
    t->type = text_member(t->attributes, "type");
    t->backend = text_member(t->attributes, "backend");
    t->index_key = text_member(t->attributes, "index_key");
    t->instance_key = text_member(t->attributes, "instance_key");
    t->region = text_member(tg_json_get(t->attributes, "region"), "path");
    return TG_OK;
}

/* ngio writes table_version, tasks-core before it fractal_table_version; "1" is all there is.
 */
static tg_status check_facts(const table_facts *t, tg_error *err)
{
    const char *version = text_member(t->attributes, "table_version");

    if (version == NULL)
        version = text_member(t->attributes, "fractal_table_version");
    if (version != NULL && strcmp(version, "1") != 0)
        return tg_fail(err, TG_UNSUPPORTED, "a table of version '%.40s', want '1'", version);
    if (t->type != NULL && strcmp(t->type, "roi_table") != 0 &&
        strcmp(t->type, "masking_roi_table") != 0 && strcmp(t->type, "generic_roi_table") != 0)
        return tg_fail(err, TG_INVALID,
                       "a table of type '%.60s', want roi_table or masking_roi_table", t->type);
    return TG_OK;
}

/* What a backend's name stands for. */
static const char *backend_of(const table_facts *t)
{
    static const char *const names[][2] = {
        {"anndata", "anndata"}, {"anndata_v1", "anndata"},
        {"csv", "csv"},         {"experimental_csv_v1", "csv"},
        {"json", "json"},       {"experimental_json_v1", "json"},
        {"parquet", "parquet"}, {"experimental_parquet_v1", "parquet"},
    };

    if (t->backend == NULL)
        return "anndata"; /* the only one there was */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(t->backend, names[i][0]) == 0)
            return names[i][1];
    return "";
}

static tg_status read_csv(tg_frame *f, tg_store *store, const char *path, const char *index,
                          size_t limit, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_buf) text = {0};
    char key[PATH_BYTES];

    TG_TRY(tg_path_join(key, sizeof key, path, "table.csv", err));
    TG_TRY(tg_store_get(store, key, tg_range_all(), limit / 2, &text, cancel, err));
    return tg_frame_csv(f, (tg_bytes){text.data, text.len}, index, limit - text.len, err);
}

static tg_status read_json(tg_frame *f, tg_store *store, const char *path, size_t limit,
                           const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    char key[PATH_BYTES];

    TG_TRY(tg_path_join(key, sizeof key, path, "table", err));
    TG_TRY(tg_node_open(store, key, &node, cancel, err));
    return tg_frame_json(f, tg_node_attributes(node), limit, err);
}

static tg_status read_frame(tg_frame *f, const table_facts *t, tg_store *store,
                            const char *path, size_t limit, const tg_cancel *cancel,
                            tg_error *err)
{
    const char *backend = backend_of(t);
    const char *wanted[16] = {0};
    size_t n = 0;

    if (strcmp(backend, "csv") == 0)
        return read_csv(f, store, path, t->index_key, limit, cancel, err);
    if (strcmp(backend, "json") == 0)
        return read_json(f, store, path, limit, cancel, err);
    if (strcmp(backend, "anndata") != 0)
        return tg_fail(err, TG_UNSUPPORTED,
                       "a table of backend '%.60s', want anndata, csv or json", t->backend);
    for (; tg_roi_fractal_columns[n] != NULL; n++)
        wanted[n] = tg_roi_fractal_columns[n];
    wanted[n] = t->instance_key;
    return tg_frame_anndata(f, store, path, wanted, limit, cancel, err);
}

/* Which column names the rows: an AnnData's index, else the one that the attributes say. */
static void set_index(tg_frame *f, const table_facts *t)
{
    const tg_frame_column *c = t->index_key == NULL ? NULL : tg_frame_find(f, t->index_key);

    if (f->index == UINT32_MAX && c != NULL)
        f->index = (uint32_t)(c - f->columns);
}

/* "../labels/nuclei" is said from the folder of tables: labels/nuclei of the image. */
static tg_status set_labels(tg_roi_set *set, const table_facts *t, const char *path,
                            tg_error *err)
{
    const char *at = t->region;
    const char *tables = strstr(path, "tables/");
    char label[PATH_BYTES], whole[PATH_BYTES];
    size_t image = 0;

    if (at == NULL)
        return TG_OK;
    for (const char *next = tables; next != NULL; next = strstr(next + 1, "tables/"))
        image = (size_t)(next - path);
    while (strncmp(at, "../", 3) == 0)
        at += 3;
    if (image >= sizeof label)
        return tg_fail(err, TG_INVALID, "a path of %zu bytes", image);
    memcpy(label, path, image);
    label[image > 0 ? image - 1 : 0] = '\0';
    TG_TRY(tg_path_join(whole, sizeof whole, label, at, err));
    set->labels = tg_strdup(whole);
    return set->labels == NULL ? tg_fail(err, TG_NO_MEMORY, "table") : TG_OK;
}

static tg_status read_table(tg_roi_set *set, const table_facts *t, tg_store *store,
                            const char *path, size_t limit, const tg_cancel *cancel,
                            tg_error *err)
{
    const bool masking = t->type != NULL && strcmp(t->type, "masking_roi_table") == 0;
    TG_AUTO(tg_frame) f = {0};

    TG_TRY(check_facts(t, err));
    TG_TRY(read_frame(&f, t, store, path, limit, cancel, err));
    set_index(&f, t);
    TG_TRY(tg_roi_from_fractal(set, &f, "table", t->instance_key, limit, err));
    if (!masking)
        return TG_OK;
    if (set->list.label == NULL && set->list.n > 0)
        return tg_fail(err, TG_CORRUPT, "a masking table without labels (column '%.60s')",
                       t->instance_key == NULL ? "label" : t->instance_key);
    return set_labels(set, t, path, err);
}

tg_status tg_roi_read_table(tg_roi_set *out, tg_store *store, const char *path, size_t limit,
                            const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(table_facts) t = {0};
    TG_AUTO(tg_roi_set) set = {0};

    TG_TRY(read_facts(&t, store, path, cancel, err));
    const tg_status st = read_table(&set, &t, store, path, limit, cancel, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "table '%.200s'", path);
        return st;
    }
    *out = set;
    set = (tg_roi_set){0};
    return TG_OK;
}
