/* Frames: columns in memory, and how CSV and JSON become some. */
#include "table/frame.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_COLUMNS = 4096 };
#define EXACT 9007199254740992.0 /* 2^53 */

void tg_frame_destroy(tg_frame *f)
{
    for (uint32_t i = 0; i < f->n_columns; i++) {
        tg_free(f->columns[i].name);
        tg_free(f->columns[i].number);
        tg_free(f->columns[i].offsets);
        tg_free(f->columns[i].text);
    }
    tg_free(f->columns);
    *f = (tg_frame){0};
}

const tg_frame_column *tg_frame_find(const tg_frame *f, const char *name)
{
    for (uint32_t i = 0; i < f->n_columns; i++)
        if (strcmp(f->columns[i].name, name) == 0)
            return &f->columns[i];
    return NULL;
}

void tg_frame_text(const tg_frame_column *c, uint64_t row, char room[32], const char **s,
                   size_t *len)
{
    if (c->number == NULL) {
        *s = c->text + c->offsets[row];
        *len = (size_t)(c->offsets[row + 1] - c->offsets[row]);
        return;
    }
    const double v = c->number[row];
    if (isnan(v))
        room[0] = '\0';
    else if (fabs(v) < EXACT && v == floor(v))
        (void)snprintf(room, 32, "%.0f", v == 0 ? 0 : v);
    else
        tg_format_double(room, 32, v);
    *s = room;
    *len = strlen(room);
}

tg_status tg_frame_charge(tg_frame *f, uint64_t bytes, tg_error *err)
{
    if (bytes > f->limit - f->bytes)
        return tg_fail(err, TG_OVER_BUDGET,
                       "a table of more than %zu bytes (with %" PRIu64
                       " more), and no more than %zu may be used",
                       f->bytes, bytes, f->limit);
    f->bytes += (size_t)bytes;
    return TG_OK;
}

static tg_status grow(tg_frame *f, tg_error *err)
{
    tg_frame_column *more = tg_calloc((size_t)f->n_columns + 16, sizeof *more);

    if (more == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    if (f->n_columns > 0)
        memcpy(more, f->columns, f->n_columns * sizeof *more);
    tg_free(f->columns);
    f->columns = more;
    return TG_OK;
}

static tg_status add_room(tg_frame *f, tg_frame_column *c, bool text, tg_error *err)
{
    uint64_t bytes = 0;

    if (__builtin_mul_overflow(f->n + (text ? 1 : 0), sizeof(double), &bytes))
        return tg_fail(err, TG_OVER_BUDGET, "a table of %" PRIu64 " rows", f->n);
    TG_TRY(tg_frame_charge(f, bytes, err));
    if (text)
        c->offsets = tg_calloc((size_t)f->n + 1, sizeof *c->offsets);
    else
        c->number = tg_calloc((size_t)f->n == 0 ? 1 : (size_t)f->n, sizeof *c->number);
    if (c->offsets == NULL && c->number == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    for (uint64_t i = 0; !text && i < f->n; i++)
        c->number[i] = (double)NAN;
    return TG_OK;
}

tg_status tg_frame_add(tg_frame *f, const char *name, size_t name_len, bool text,
                       tg_frame_column **out, tg_error *err)
{
    if (f->n_columns == MOST_COLUMNS)
        return tg_fail(err, TG_UNSUPPORTED, "a table of more than %d columns", MOST_COLUMNS);
    if (memchr(name, '\0', name_len) != NULL)
        return tg_fail(err, TG_CORRUPT, "a column's name holds a NUL");
    TG_TRY(tg_frame_charge(f, name_len + 1, err));
    if (f->n_columns % 16 == 0)
        TG_TRY(grow(f, err));
    tg_frame_column *c = &f->columns[f->n_columns];
    c->name = tg_alloc(name_len + 1);
    if (c->name == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    if (name_len > 0)
        memcpy(c->name, name, name_len);
    c->name[name_len] = '\0';
    f->n_columns++; /* destroyed with the frame from here on */
    for (uint32_t i = 0; i + 1 < f->n_columns; i++)
        if (strcmp(f->columns[i].name, c->name) == 0)
            return tg_fail(err, TG_CORRUPT, "column '%.60s' is there twice", c->name);
    *out = c;
    return add_room(f, c, text, err);
}

/* --- CSV -------------------------------------------------------------------------------- */

/* An empty field, "nan" as pandas and polars write it, or a number. */
static bool read_number(const char *field, double *v)
{
    if (field[0] == '\0' || strcasecmp(field, "nan") == 0) {
        *v = (double)NAN;
        return true;
    }
    return tg_parse_double(field, v, NULL) == TG_OK;
}

typedef struct csv_facts { /* of one column, from the first walk */
    bool text, rounded;
    uint64_t chars;
} csv_facts;

static tg_status next_row(tg_csv *csv, uint32_t want, const char *const **fields, bool *end,
                          tg_error *err)
{
    size_t n = 0;

    TG_TRY(tg_csv_next(csv, fields, &n, err));
    *end = n == 0;
    if (n != 0 && n != want)
        return tg_fail(err, TG_CORRUPT, "line %zu: %zu fields, the header has %" PRIu32,
                       tg_csv_line(csv), n, want);
    return TG_OK;
}

/* Whole numbers that a double cannot hold are told, not passed on as others. */
static bool is_rounded(const char *field, double v)
{
    return fabs(v) >= EXACT && strpbrk(field, ".eEnN") == NULL;
}

static tg_status csv_walk(tg_bytes text, uint32_t n, csv_facts *facts, uint64_t *rows,
                          tg_error *err)
{
    TG_AUTO_PTR(tg_csv) csv = NULL;
    const char *const *fields = NULL;
    bool end = false;
    double v = 0;

    TG_TRY(tg_csv_open(&csv, text, '\0', err));
    TG_TRY(next_row(csv, n, &fields, &end, err));
    for (*rows = 0;; (*rows)++) {
        TG_TRY(next_row(csv, n, &fields, &end, err));
        if (end)
            return TG_OK;
        for (uint32_t i = 0; i < n; i++) {
            facts[i].chars += strlen(fields[i]);
            if (facts[i].text)
                continue;
            facts[i].text = !read_number(fields[i], &v);
            facts[i].rounded = facts[i].rounded || is_rounded(fields[i], v);
        }
    }
}

static tg_status csv_columns(tg_frame *f, const char *const *names, uint32_t n,
                             const csv_facts *facts, tg_error *err)
{
    tg_frame_column *c = NULL;

    for (uint32_t i = 0; i < n; i++) {
        TG_TRY(tg_frame_add(f, names[i], strlen(names[i]), facts[i].text, &c, err));
        c->rounded = facts[i].rounded;
        if (!facts[i].text)
            continue;
        TG_TRY(tg_frame_charge(f, facts[i].chars + 1, err));
        c->text = tg_calloc((size_t)facts[i].chars + 1, 1);
        if (c->text == NULL)
            return tg_fail(err, TG_NO_MEMORY, "table");
    }
    return TG_OK;
}

static void csv_cell(tg_frame_column *c, uint64_t row, const char *field)
{
    if (c->number != NULL) {
        (void)read_number(field, &c->number[row]);
        return;
    }
    const size_t len = strlen(field);
    memcpy(c->text + c->offsets[row], field, len);
    c->offsets[row + 1] = c->offsets[row] + len;
}

tg_status tg_frame_csv(tg_frame *f, tg_bytes text, const char *as_text, size_t limit,
                       tg_error *err)
{
    TG_AUTO_PTR(tg_csv) csv = NULL;
    TG_AUTO(tg_mem_ptr) room = NULL;
    TG_AUTO(tg_frame) made = {.index = UINT32_MAX, .limit = limit};
    const char *const *fields = NULL;
    size_t n = 0;
    bool end = false;

    TG_TRY(tg_csv_open(&csv, text, '\0', err));
    TG_TRY(tg_csv_next(csv, &fields, &n, err));
    if (n == 0)
        return tg_fail(err, TG_CORRUPT, "CSV: empty, want a header line");
    if (n > MOST_COLUMNS)
        return tg_fail(err, TG_UNSUPPORTED, "CSV: %zu columns, %d are the most", n,
                       MOST_COLUMNS);
    csv_facts *facts = room = tg_calloc(n, sizeof *facts);
    if (facts == NULL)
        return tg_fail(err, TG_NO_MEMORY, "table");
    for (size_t i = 0; i < n; i++)
        facts[i].text = as_text != NULL && strcmp(fields[i], as_text) == 0;
    TG_TRY(csv_walk(text, (uint32_t)n, facts, &made.n, err));
    TG_TRY(csv_columns(&made, fields, (uint32_t)n, facts, err));
    for (uint64_t row = 0; row < made.n; row++) {
        TG_TRY(next_row(csv, (uint32_t)n, &fields, &end, err));
        for (size_t i = 0; i < n; i++)
            csv_cell(&made.columns[i], row, fields[i]);
    }
    *f = made;
    made = (tg_frame){0};
    return TG_OK;
}

/* --- JSON columns ------------------------------------------------------------------------- */

static bool json_is_text(const tg_json *items)
{
    for (size_t i = 0; i < tg_json_size(items); i++)
        if (tg_json_kind_of(tg_json_at(items, i)) == TG_JSON_STRING)
            return true;
    return false;
}

static tg_status json_number(const tg_json *v, double *out, bool *rounded, tg_error *err)
{
    bool yes = false;

    switch (tg_json_kind_of(v)) {
    case TG_JSON_NULL:
        return TG_OK; /* NaN */
    case TG_JSON_BOOL:
        TG_TRY(tg_json_bool(v, &yes, err));
        *out = yes;
        return TG_OK;
    default:
        TG_TRY(tg_json_double(v, out, err));
        *rounded = *rounded || (tg_json_kind_of(v) == TG_JSON_INT && fabs(*out) >= EXACT);
        return TG_OK;
    }
}

static tg_status json_texts(tg_frame *f, tg_frame_column *c, const tg_json *items,
                            tg_error *err)
{
    TG_AUTO(tg_text) text = {0};
    const char *s = NULL;
    size_t len = 0;

    for (size_t i = 0; i < f->n; i++) {
        if (tg_json_kind_of(tg_json_at(items, i)) != TG_JSON_NULL) {
            TG_TRY(tg_json_string(tg_json_at(items, i), &s, &len, err));
            TG_TRY(tg_frame_charge(f, 2 * len, err)); /* as it grows */
            tg_text_add_n(&text, s, len);
        }
        c->offsets[i + 1] = text.len;
    }
    tg_text_add(&text, "");
    TG_TRY(tg_text_status(&text, err));
    c->text = tg_text_steal(&text);
    return TG_OK;
}

static tg_status json_column(tg_frame *f, const tg_json *all, size_t i, tg_error *err)
{
    const char *name = tg_json_key_at(all, i);
    const tg_json *items = tg_json_at(all, i);
    tg_frame_column *c = NULL;

    if (tg_json_kind_of(items) != TG_JSON_ARRAY)
        return tg_fail(err, TG_CORRUPT, "want a list, got %s",
                       tg_json_kind_name(tg_json_kind_of(items)));
    if (i == 0)
        f->n = tg_json_size(items);
    if (tg_json_size(items) != f->n)
        return tg_fail(err, TG_CORRUPT, "%zu items, the first column has %" PRIu64,
                       tg_json_size(items), f->n);
    TG_TRY(tg_frame_add(f, name, strlen(name), json_is_text(items), &c, err));
    if (c->number == NULL)
        return json_texts(f, c, items, err);
    for (size_t k = 0; k < f->n; k++)
        TG_TRY(json_number(tg_json_at(items, k), &c->number[k], &c->rounded, err));
    return TG_OK;
}

tg_status tg_frame_json(tg_frame *f, const char *json, size_t limit, tg_error *err)
{
    TG_AUTO_PTR(tg_json) all = NULL;
    TG_AUTO(tg_frame) made = {.index = UINT32_MAX, .limit = limit};

    /* A tree takes about ten times its text (base/json.h). */
    if (strlen(json) > limit / 12)
        return tg_fail(err, TG_OVER_BUDGET,
                       "a table of %zu bytes of JSON takes %zu to read, and no more than %zu "
                       "may be used",
                       strlen(json), strlen(json) * 12, limit);
    TG_TRY(tg_json_parse(&all, json, strlen(json), (tg_json_options){.allow_nan = true}, err));
    if (tg_json_kind_of(all) != TG_JSON_OBJECT)
        return tg_fail(err, TG_CORRUPT, "a table: want an object of columns");
    for (size_t i = 0; i < tg_json_size(all); i++) {
        const tg_status st = json_column(&made, all, i, err);
        if (st != TG_OK) {
            tg_error_prefix(err, "column '%.60s'", tg_json_key_at(all, i));
            return st;
        }
    }
    *f = made;
    made = (tg_frame){0};
    return TG_OK;
}
