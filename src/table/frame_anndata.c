/* Frames out of AnnData groups: X's columns and those of obs, dense, categorical or nullable.
 */
#include "nd/half.h"
#include "table/frame.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PATH_BYTES = 1024, BLOCK = 4096 };
#define EXACT 9007199254740992.0 /* 2^53 */

typedef struct reader {
    tg_frame *f;
    tg_store *store;
    const char *path; /* of the AnnData */
    const char *const *wanted;
    const tg_cancel *cancel;
} reader;

/* One of the two tables: what its attributes say. */
typedef struct frame_group {
    char path[PATH_BYTES];
    tg_json *attributes;
    const char *index; /* name of the index's column */
} frame_group;

static void frame_group_auto(frame_group *g)
{
    tg_json_free(g->attributes);
}

/* A column of strings of one array. */
typedef struct words {
    uint64_t *offsets;
    char *text;
    uint64_t n;
} words;

static void words_auto(words *w)
{
    tg_free(w->offsets);
    tg_free(w->text);
}

static bool is_wanted(const reader *r, const char *name, size_t len)
{
    if (r->wanted == NULL)
        return true;
    for (const char *const *w = r->wanted; *w != NULL; w++)
        if (strlen(*w) == len && memcmp(*w, name, len) == 0)
            return true;
    return false;
}

/* What can be read at all, beside what the frame takes for good. */
static size_t room_left(const reader *r)
{
    return r->f->limit - r->f->bytes;
}

static tg_status check_worst(const reader *r, tg_array *a, tg_error *err)
{
    const size_t worst = tg_array_worst_bytes(a);

    if (worst <= room_left(r))
        return TG_OK;
    return tg_fail(
        err, TG_OVER_BUDGET,
        "'%.200s': a chunk takes %zu bytes to read, and no more than %zu may be used",
        tg_array_path(a), worst, room_left(r));
}

static tg_status node_attributes(const reader *r, const char *path, tg_json **out,
                                 tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;

    TG_TRY(tg_node_open(r->store, path, &node, r->cancel, err));
    const char *text = tg_node_attributes(node);
    return tg_json_parse(out, text, strlen(text), (tg_json_options){.allow_nan = true}, err);
}

static const char *text_member(const tg_json *object, const char *key)
{
    const char *s = "";
    const tg_json *v = tg_json_get(object, key);

    if (tg_json_kind_of(v) == TG_JSON_STRING && tg_json_string(v, &s, NULL, NULL) != TG_OK)
        s = "";
    return s;
}

static tg_status open_1d(const reader *r, const char *path, tg_array **out, uint64_t *n,
                         tg_dtype *dtype, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};

    TG_TRY(tg_array_open(r->store, path, &a, r->cancel, err));
    TG_TRY(tg_array_get_info(a, &info, err));
    if (info.ndim != 1)
        return tg_fail(err, TG_CORRUPT, "'%.200s': %" PRIu32 " dimensions, want 1", path,
                       info.ndim);
    *n = info.shape[0];
    *dtype = info.dtype;
    TG_TRY(check_worst(r, a, err));
    *out = tg_steal(a);
    return TG_OK;
}

static tg_status check_rows(const reader *r, const char *path, uint64_t n, tg_error *err)
{
    if (n == r->f->n)
        return TG_OK;
    return tg_fail(err, TG_CORRUPT, "'%.200s': %" PRIu64 " rows, the index has %" PRIu64, path,
                   n, r->f->n);
}

/* --- Numbers ------------------------------------------------------------------------------ */

static double item_number(tg_dtype t, const uint8_t *p)
{
#define LOAD(type)                 \
    do {                           \
        type v_;                   \
        memcpy(&v_, p, sizeof v_); \
        return (double)v_;         \
    } while (0)
    if (t.kind == TG_DT_BOOL)
        return p[0] != 0;
    if (t.kind == TG_DT_FLOAT && t.size == 2) {
        uint16_t half;
        memcpy(&half, p, sizeof half);
        return tg_half_to_double(half);
    }
    if (t.kind == TG_DT_FLOAT && t.size == 4)
        LOAD(float);
    if (t.kind == TG_DT_FLOAT)
        LOAD(double);
    if (t.kind == TG_DT_INT)
        switch (t.size) {
        case 1:
            LOAD(int8_t);
        case 2:
            LOAD(int16_t);
        case 4:
            LOAD(int32_t);
        default:
            LOAD(int64_t);
        }
    switch (t.size) {
    case 1:
        LOAD(uint8_t);
    case 2:
        LOAD(uint16_t);
    case 4:
        LOAD(uint32_t);
    default:
        LOAD(uint64_t);
    }
#undef LOAD
}

static bool is_number(tg_dtype t)
{
    return t.kind == TG_DT_BOOL || t.kind == TG_DT_INT || t.kind == TG_DT_UINT ||
           t.kind == TG_DT_FLOAT;
}

/* Column `j` of a matrix (2 dimensions), or an array of 1, into c->number. */
static tg_status read_numbers(const reader *r, tg_array *a, uint64_t j, tg_frame_column *c,
                              tg_error *err)
{
    tg_array_info info = {.size = sizeof info};
    uint8_t items[BLOCK * sizeof(uint64_t)];

    TG_TRY(tg_array_get_info(a, &info, err));
    if (!is_number(info.dtype))
        return tg_fail(err, TG_UNSUPPORTED, "'%.200s': items that are no numbers",
                       tg_array_path(a));
    for (uint64_t at = 0; at < r->f->n;) {
        const uint64_t n = r->f->n - at < BLOCK ? r->f->n - at : BLOCK;
        const uint64_t start[2] = {at, j}, count[2] = {n, 1};
        TG_TRY(tg_array_read(a, start, count, items, NULL, r->cancel, err));
        for (uint64_t i = 0; i < n; i++) {
            const double v = item_number(info.dtype, items + i * info.dtype.size);
            c->number[at + i] = v;
            c->rounded = c->rounded || (info.dtype.kind != TG_DT_FLOAT && fabs(v) >= EXACT);
        }
        at += n;
    }
    return TG_OK;
}

/* --- Strings ------------------------------------------------------------------------------ */

static tg_status read_words(const reader *r, const char *path, words *w, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_dtype dtype = {0};

    TG_TRY(open_1d(r, path, &a, &w->n, &dtype, err));
    if (dtype.kind != TG_DT_STRING)
        return tg_fail(err, TG_CORRUPT, "'%.200s': numbers, want strings", path);
    /* The text may be there twice while it grows, beside the offsets. */
    if (w->n >= room_left(r) / 8)
        return tg_fail(err, TG_OVER_BUDGET,
                       "'%.200s': %" PRIu64 " strings, and no more than %zu bytes may be used",
                       path, w->n, room_left(r));
    const size_t left = (room_left(r) - (size_t)w->n * 8) / 3;
    return tg_array_read_strings(a, 0, w->n, left, &w->offsets, &w->text, r->cancel, err);
}

static tg_status add_words(const reader *r, const char *name, const char *path, tg_error *err)
{
    TG_AUTO(words) w = {0};
    tg_frame_column *c = NULL;

    TG_TRY(read_words(r, path, &w, err));
    TG_TRY(check_rows(r, path, w.n, err));
    TG_TRY(tg_frame_add(r->f, name, strlen(name), true, &c, err));
    TG_TRY(tg_frame_charge(r->f, w.offsets[w.n] + 1, err));
    tg_free(c->offsets);
    c->offsets = tg_steal(w.offsets);
    c->text = tg_steal(w.text);
    return TG_OK;
}

static tg_status add_numbers(const reader *r, const char *name, const char *path, tg_array *a,
                             uint64_t n, tg_error *err)
{
    tg_frame_column *c = NULL;

    TG_TRY(check_rows(r, path, n, err));
    TG_TRY(tg_frame_add(r->f, name, strlen(name), false, &c, err));
    return read_numbers(r, a, 0, c, err);
}

static tg_status add_array(const reader *r, const char *name, const char *path, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_dtype dtype = {0};
    uint64_t n = 0;

    TG_TRY(open_1d(r, path, &a, &n, &dtype, err));
    if (dtype.kind == TG_DT_STRING)
        return add_words(r, name, path, err);
    return add_numbers(r, name, path, a, n, err);
}

/* --- Categorical and nullable columns -------------------------------------------------------
 */

static tg_status bad_code(const char *path, double code, uint64_t n, tg_error *err)
{
    return tg_fail(err, TG_CORRUPT, "'%.200s': code %.17g of %" PRIu64 " categories", path,
                   code, n);
}

static tg_status spell(const reader *r, const char *path, const double *codes, const words *w,
                       tg_frame_column *c, tg_error *err)
{
    uint64_t len = 0;

    for (uint64_t i = 0; i < r->f->n; i++) {
        const double code = codes[i];
        if (!(code >= -1 && code < (double)w->n))
            return bad_code(path, code, w->n, err);
        if (code >= 0) /* -1: missing */
            len += w->offsets[(uint64_t)code + 1] - w->offsets[(uint64_t)code];
        c->offsets[i + 1] = len;
    }
    TG_TRY(tg_frame_charge(r->f, len + 1, err));
    c->text = tg_calloc((size_t)len + 1, 1);
    if (c->text == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    for (uint64_t i = 0; i < r->f->n; i++)
        if (codes[i] >= 0)
            memcpy(c->text + c->offsets[i], w->text + w->offsets[(uint64_t)codes[i]],
                   (size_t)(c->offsets[i + 1] - c->offsets[i]));
    return TG_OK;
}

/* A part of a column's group, as a frame of its own of as many rows. */
static tg_status read_part(const reader *r, const char *path, const char *name, uint64_t rows,
                           tg_frame *part, tg_error *err)
{
    const reader own = {part, r->store, r->path, NULL, r->cancel};
    char child[PATH_BYTES];
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_dtype dtype = {0};
    uint64_t n = 0;

    *part = (tg_frame){.limit = room_left(r), .index = UINT32_MAX};
    TG_TRY(tg_path_join(child, sizeof child, path, name, err));
    TG_TRY(open_1d(&own, child, &a, &n, &dtype, err));
    part->n = rows == UINT64_MAX ? n : rows;
    return dtype.kind == TG_DT_STRING ? add_words(&own, name, child, err)
                                      : add_numbers(&own, name, child, a, n, err);
}

static tg_status add_categorical(const reader *r, const char *name, const char *path,
                                 tg_error *err)
{
    TG_AUTO(tg_frame) codes = {0};
    TG_AUTO(tg_frame) categories = {0};
    tg_frame_column *c = NULL;

    TG_TRY(read_part(r, path, "codes", r->f->n, &codes, err));
    TG_TRY(read_part(r, path, "categories", UINT64_MAX, &categories, err));
    const double *code = codes.columns[0].number;
    tg_frame_column *kinds = &categories.columns[0];
    if (code == NULL)
        return tg_fail(err, TG_CORRUPT, "'%.200s': codes are strings", path);
    TG_TRY(tg_frame_add(r->f, name, strlen(name), kinds->number == NULL, &c, err));
    if (kinds->number == NULL) {
        const words w = {kinds->offsets, kinds->text, categories.n};
        return spell(r, path, code, &w, c, err);
    }
    c->rounded = kinds->rounded;
    for (uint64_t i = 0; i < r->f->n; i++) {
        if (!(code[i] >= -1 && code[i] < (double)categories.n))
            return bad_code(path, code[i], categories.n, err);
        if (code[i] >= 0)
            c->number[i] = kinds->number[(uint64_t)code[i]];
    }
    return TG_OK;
}

static tg_status add_nullable(const reader *r, const char *name, const char *path,
                              tg_error *err)
{
    TG_AUTO(tg_frame) mask = {0};
    TG_AUTO(tg_frame) values = {0};
    tg_frame_column *c = NULL;

    TG_TRY(read_part(r, path, "mask", r->f->n, &mask, err));
    TG_TRY(read_part(r, path, "values", r->f->n, &values, err));
    const double *missing = mask.columns[0].number, *v = values.columns[0].number;
    if (missing == NULL || v == NULL)
        return tg_fail(err, TG_UNSUPPORTED, "'%.200s': nullable strings", path);
    TG_TRY(tg_frame_add(r->f, name, strlen(name), false, &c, err));
    c->rounded = values.columns[0].rounded;
    for (uint64_t i = 0; i < r->f->n; i++)
        if (missing[i] == 0)
            c->number[i] = v[i];
    return TG_OK;
}

static tg_status add_column(const reader *r, const char *group, const char *name, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    TG_AUTO_PTR(tg_json) attributes = NULL;
    char path[PATH_BYTES];

    TG_TRY(tg_path_join(path, sizeof path, group, name, err));
    TG_TRY(tg_node_open(r->store, path, &node, r->cancel, err));
    if (tg_node_kind_of(node) == TG_NODE_ARRAY)
        return add_array(r, name, path, err);
    TG_TRY(node_attributes(r, path, &attributes, err));
    const char *encoding = text_member(attributes, "encoding-type");
    if (strcmp(encoding, "categorical") == 0)
        return add_categorical(r, name, path, err);
    if (strcmp(encoding, "nullable-integer") == 0 || strcmp(encoding, "nullable-boolean") == 0)
        return add_nullable(r, name, path, err);
    return tg_fail(err, TG_UNSUPPORTED, "'%.200s': a column of encoding '%.60s'", path,
                   encoding);
}

/* --- obs, var, X
 * ------------------------------------------------------------------------------
 */

static tg_status open_group(const reader *r, const char *name, frame_group *g, tg_error *err)
{
    TG_TRY(tg_path_join(g->path, sizeof g->path, r->path, name, err));
    TG_TRY(node_attributes(r, g->path, &g->attributes, err));
    g->index = text_member(g->attributes, "_index");
    if (g->index[0] == '\0')
        return tg_fail(err, TG_CORRUPT,
                       "'%.200s': no attribute '_index', is this a dataframe of AnnData?",
                       g->path);
    return TG_OK;
}

static tg_status read_index(const reader *r, const frame_group *g, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    char path[PATH_BYTES];
    tg_dtype dtype = {0};

    TG_TRY(tg_path_join(path, sizeof path, g->path, g->index, err));
    TG_TRY(open_1d(r, path, &a, &r->f->n, &dtype, err));
    r->f->index = 0;
    return add_array(r, g->index, path, err);
}

static tg_status read_obs(const reader *r, const frame_group *g, tg_error *err)
{
    const tg_json *order = tg_json_get(g->attributes, "column-order");
    const char *name = NULL;
    size_t len = 0;

    for (size_t i = 0; i < tg_json_size(order); i++) {
        TG_TRY(tg_json_string(tg_json_at(order, i), &name, &len, err));
        if (len == strlen(name) && is_wanted(r, name, len) && strcmp(name, g->index) != 0)
            TG_TRY(add_column(r, g->path, name, err));
    }
    return TG_OK;
}

static tg_status open_x(const reader *r, const words *var, tg_array **out, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    TG_AUTO_PTR(tg_json) attributes = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};
    char path[PATH_BYTES];

    TG_TRY(tg_path_join(path, sizeof path, r->path, "X", err));
    TG_TRY(tg_node_open(r->store, path, &node, r->cancel, err));
    if (tg_node_kind_of(node) != TG_NODE_ARRAY) {
        TG_TRY(node_attributes(r, path, &attributes, err));
        return tg_fail(err, TG_UNSUPPORTED, "'%.200s': X of encoding '%.60s'", path,
                       text_member(attributes, "encoding-type"));
    }
    TG_TRY(tg_array_open(r->store, path, &a, r->cancel, err));
    TG_TRY(tg_array_get_info(a, &info, err));
    if (info.ndim != 2 || info.shape[0] != r->f->n || info.shape[1] != var->n)
        return tg_fail(err, TG_CORRUPT,
                       "'%.200s': %" PRIu32 " dimensions of %" PRIu64 " x %" PRIu64
                       " items, obs and var name %" PRIu64 " x %" PRIu64,
                       path, info.ndim, info.shape[0], info.ndim == 2 ? info.shape[1] : 0,
                       r->f->n, var->n);
    TG_TRY(check_worst(r, a, err));
    *out = tg_steal(a);
    return TG_OK;
}

static bool has_column(const tg_frame *f, const char *name, size_t len)
{
    for (uint32_t i = 0; i < f->n_columns; i++)
        if (strlen(f->columns[i].name) == len && memcmp(f->columns[i].name, name, len) == 0)
            return true;
    return false;
}

static tg_status read_x(const reader *r, const words *var, tg_error *err)
{
    TG_AUTO_PTR(tg_array) x = NULL;
    tg_frame_column *c = NULL;

    for (uint64_t j = 0; j < var->n; j++) {
        const char *name = var->text + var->offsets[j];
        const size_t len = (size_t)(var->offsets[j + 1] - var->offsets[j]);
        if (!is_wanted(r, name, len) || has_column(r->f, name, len))
            continue;
        if (x == NULL)
            TG_TRY(open_x(r, var, &x, err));
        TG_TRY(tg_frame_add(r->f, name, len, false, &c, err));
        TG_TRY(read_numbers(r, x, j, c, err));
    }
    return TG_OK;
}

static tg_status read_all(const reader *r, tg_error *err)
{
    TG_AUTO(frame_group) obs = {0};
    TG_AUTO(frame_group) var = {0};
    TG_AUTO(words) names = {0};
    char path[PATH_BYTES];

    TG_TRY(open_group(r, "obs", &obs, err));
    TG_TRY(read_index(r, &obs, err));
    TG_TRY(read_obs(r, &obs, err));
    TG_TRY(open_group(r, "var", &var, err));
    TG_TRY(tg_path_join(path, sizeof path, var.path, var.index, err));
    TG_TRY(read_words(r, path, &names, err));
    return read_x(r, &names, err);
}

tg_status tg_frame_anndata(tg_frame *f, tg_store *store, const char *path,
                           const char *const *wanted, size_t limit, const tg_cancel *cancel,
                           tg_error *err)
{
    TG_AUTO(tg_frame) made = {.index = UINT32_MAX, .limit = limit};
    const reader r = {&made, store, path, wanted, cancel};

    TG_TRY(read_all(&r, err));
    *f = made;
    made = (tg_frame){0};
    return TG_OK;
}
