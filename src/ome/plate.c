/* A plate from its JSON file: names, wells, fields, and the order in which frames arrive. */
#include "ome/plate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NAMES_MAX = TG_OME_PLATE_ROWS,
    WELLS_MAX = 10000,
    FIELDS_MAX = 100000,
};

void tg_ome_plate_free(tg_ome_plate *p)
{
    if (p == NULL)
        return;
    tg_json_free(p->document);
    tg_free(p->rows);
    tg_free(p->columns);
    tg_free(p->wells);
    tg_free(p);
}

/* --- Rows and columns ------------------------------------------------------ */

static bool is_name(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    return n > 0 && n <= PLATE_NAME_MAX && s[n] == '\0';
}

/* 0 -> A, 25 -> Z, 26 -> AA; or 0 -> 1. */
static void counted_name(bool letters, uint32_t i, plate_name *out)
{
    char digits[PLATE_NAME_MAX + 1];
    size_t n = 0;
    uint64_t v = (uint64_t)i + 1;
    while (v > 0 && n < PLATE_NAME_MAX) {
        digits[n++] = (char)(letters ? 'A' + (v - 1) % 26 : '0' + v % 10);
        v = letters ? (v - 1) / 26 : v / 10;
    }
    for (size_t k = 0; k < n; k++)
        out->text[k] = digits[n - 1 - k];
    out->text[n] = '\0';
}

static tg_status take_name(const tg_json *list, const char *key, uint32_t i, plate_name *names,
                           tg_error *err)
{
    const char *text = NULL;
    size_t len;
    if (tg_json_string(tg_json_at(list, i), &text, &len, NULL) != TG_OK || !is_name(text) ||
        strlen(text) != len)
        return tg_fail(err, TG_INVALID,
                       "plate: %s[%" PRIu32 "]: want 1 to %d letters and digits", key, i,
                       PLATE_NAME_MAX);
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(names[k].text, text) == 0)
            return tg_fail(err, TG_INVALID, "plate: %s has '%s' twice", key, text);
    memcpy(names[i].text, text, strlen(text) + 1);
    return TG_OK;
}

/* A list of names, or how many. */
static tg_status take_names(const tg_json *document, const char *key, bool letters,
                            plate_name **out, uint32_t *n, tg_error *err)
{
    const tg_json *v = tg_json_get(document, key);
    bool is_list = tg_json_kind_of(v) == TG_JSON_ARRAY;
    uint64_t count = tg_json_size(v);
    if (v == NULL || (!is_list && tg_json_u64(v, &count, NULL) != TG_OK) || count < 1 ||
        count > NAMES_MAX)
        return tg_fail(err, TG_INVALID, "plate: %s: want a list of names or a number, 1 to %d",
                       key, NAMES_MAX);
    plate_name *names = tg_calloc((size_t)count, sizeof *names);
    if (names == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plate");
    *out = names; /* the plate's, also on failure */
    *n = (uint32_t)count;
    for (uint32_t i = 0; i < *n; i++)
        if (is_list)
            TG_TRY(take_name(v, key, i, names, err));
        else
            counted_name(letters, i, &names[i]);
    return TG_OK;
}

/* --- Wells ----------------------------------------------------------------- */

static bool find_name(const plate_name *names, uint32_t n, const char *text, size_t len,
                      uint32_t *at)
{
    for (uint32_t i = 0; i < n; i++)
        if (strlen(names[i].text) == len && memcmp(names[i].text, text, len) == 0) {
            *at = i;
            return true;
        }
    return false;
}

static void name_well(const tg_ome_plate *p, plate_well *w)
{
    (void)snprintf(w->path, sizeof w->path, "%s/%s", p->rows[w->row].text,
                   p->columns[w->column].text);
}

static tg_status take_well(tg_ome_plate *p, const tg_json *v, uint32_t i, tg_error *err)
{
    const char *text = "";
    size_t len = 0;
    plate_well *w = &p->wells[i];
    if (tg_json_string(v, &text, &len, NULL) != TG_OK)
        text = "";
    size_t row = strcspn(text, "/");
    if (text[row] != '/' || strlen(text) != len ||
        !find_name(p->rows, p->n_rows, text, row, &w->row) ||
        !find_name(p->columns, p->n_columns, text + row + 1, strlen(text + row + 1),
                   &w->column))
        return tg_fail(err, TG_INVALID,
                       "plate: wells[%" PRIu32 "] is '%.40s', want ROW/COLUMN of the plate's",
                       i, text);
    name_well(p, w);
    for (uint32_t k = 0; k < i; k++)
        if (p->wells[k].row == w->row && p->wells[k].column == w->column)
            return tg_fail(err, TG_INVALID, "plate: wells has '%s' twice", w->path);
    return TG_OK;
}

static tg_status take_wells(tg_ome_plate *p, tg_error *err)
{
    const tg_json *v = tg_json_get(p->document, "wells");
    uint64_t n = v == NULL ? (uint64_t)p->n_rows * p->n_columns : tg_json_size(v);
    if ((v != NULL && tg_json_kind_of(v) != TG_JSON_ARRAY) || n < 1 || n > WELLS_MAX)
        return tg_fail(err, TG_INVALID, "plate: wells: want a list of 1 to %d ROW/COLUMN",
                       WELLS_MAX);
    p->wells = tg_calloc((size_t)n, sizeof *p->wells);
    if (p->wells == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plate");
    p->n_wells = (uint32_t)n;
    for (uint32_t i = 0; i < p->n_wells; i++) {
        if (v != NULL) {
            TG_TRY(take_well(p, tg_json_at(v, i), i, err));
            continue;
        }
        p->wells[i].row = i / p->n_columns;
        p->wells[i].column = i % p->n_columns;
        name_well(p, &p->wells[i]);
    }
    return TG_OK;
}

/* --- Fields, frames, order ------------------------------------------------- */

static tg_status take_number(const tg_ome_plate *p, const char *key, uint64_t missing,
                             uint64_t most, uint64_t *out, tg_error *err)
{
    const tg_json *v = tg_json_get(p->document, key);
    uint64_t n = missing;
    if (v != NULL && (tg_json_u64(v, &n, NULL) != TG_OK || n > most))
        return tg_fail(err, TG_INVALID, "plate: %s: want a number up to %" PRIu64, key, most);
    *out = n;
    return TG_OK;
}

static tg_status take_order(tg_ome_plate *p, tg_error *err)
{
    static const char *const words[PLATE_LOOPS] = {"well", "field", "frame"};
    const tg_json *v = tg_json_get(p->document, "order");
    bool seen[PLATE_LOOPS] = {false};
    for (size_t i = 0; i < PLATE_LOOPS; i++) {
        const char *text = v == NULL ? words[i] : "";
        if (v != NULL)
            text = ome_text(tg_json_at(v, i), text);
        size_t k = 0;
        while (k < PLATE_LOOPS && strcmp(words[k], text) != 0)
            k++;
        if (k == PLATE_LOOPS || seen[k] || (v != NULL && tg_json_size(v) != PLATE_LOOPS))
            return tg_fail(err, TG_INVALID,
                           "plate: order: want \"well\", \"field\", \"frame\" in the order in "
                           "which they change, the slowest first");
        seen[k] = true;
        p->order[i] = (tg_ome_loop)k;
    }
    return TG_OK;
}

static tg_status check_members(const tg_json *document, tg_error *err)
{
    static const char *const known[] = {"name",   "rows",   "columns",     "wells",
                                        "fields", "frames", "acquisition", "order"};
    if (tg_json_kind_of(document) != TG_JSON_OBJECT)
        return tg_fail(err, TG_INVALID, "plate: want an object, got %s",
                       tg_json_kind_name(tg_json_kind_of(document)));
    for (size_t i = 0; i < tg_json_size(document); i++) {
        const char *key = tg_json_key_at(document, i);
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(known[k], key) != 0)
            k++;
        if (k == sizeof known / sizeof *known)
            return tg_fail(
                err, TG_INVALID,
                "plate: unknown member '%.60s'; known are name, rows, columns, wells, "
                "fields, frames, order, acquisition",
                key);
    }
    return TG_OK;
}

static tg_status check_words(const tg_ome_plate *p, tg_error *err)
{
    static const char *const words[] = {"name", "acquisition"};
    for (size_t i = 0; i < 2; i++) {
        const tg_json *v = tg_json_get(p->document, words[i]);
        const char *text;
        size_t len;
        if (v != NULL && (tg_json_string(v, &text, &len, NULL) != TG_OK || strlen(text) != len))
            return tg_fail(err, TG_INVALID, "plate: %s: want a string, without NUL", words[i]);
    }
    return TG_OK;
}

tg_status tg_ome_plate_parse(tg_ome_plate **out, const char *text, size_t len, tg_error *err)
{
    TG_AUTO_PTR(tg_ome_plate) p = tg_calloc(1, sizeof *p);
    uint64_t fields = 0;
    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plate");
    tg_status st = tg_json_parse(&p->document, text, len, (tg_json_options){false}, err);
    if (st == TG_CORRUPT) {
        tg_error_prefix(err, "plate");
        return TG_INVALID; /* what a user wrote, not what a disk lost */
    }
    TG_TRY(st);
    TG_TRY(check_members(p->document, err));
    TG_TRY(check_words(p, err));
    TG_TRY(take_names(p->document, "rows", true, &p->rows, &p->n_rows, err));
    TG_TRY(take_names(p->document, "columns", false, &p->columns, &p->n_columns, err));
    TG_TRY(take_wells(p, err));
    TG_TRY(take_number(p, "fields", 1, FIELDS_MAX, &fields, err));
    TG_TRY(take_number(p, "frames", 0, UINT32_MAX, &p->n_frames, err));
    TG_TRY(take_order(p, err));
    if (fields == 0)
        return tg_fail(err, TG_INVALID, "plate: fields: want 1 or more");
    if (p->n_frames == 0 && p->order[0] != TG_OME_LOOP_FRAME)
        return tg_fail(err, TG_INVALID,
                       "plate: frames per field are needed unless \"frame\" is first in order");
    p->n_fields = (uint32_t)fields;
    *out = tg_steal(p);
    return TG_OK;
}

/* --- Asking ---------------------------------------------------------------- */

uint32_t tg_ome_plate_wells(const tg_ome_plate *p)
{
    return p->n_wells;
}

uint32_t tg_ome_plate_fields(const tg_ome_plate *p)
{
    return p->n_fields;
}

uint64_t tg_ome_plate_images(const tg_ome_plate *p)
{
    return (uint64_t)p->n_wells * p->n_fields;
}

uint64_t tg_ome_plate_frames(const tg_ome_plate *p)
{
    return p->n_frames;
}

const char *tg_ome_plate_well_path(const tg_ome_plate *p, uint32_t well)
{
    return p->wells[well].path;
}

uint32_t tg_ome_plate_well_row(const tg_ome_plate *p, uint32_t well)
{
    return p->wells[well].row;
}

const char *tg_ome_plate_row_name(const tg_ome_plate *p, uint32_t row)
{
    return p->rows[row].text;
}

tg_status tg_ome_plate_image_path(const tg_ome_plate *p, uint64_t image, char *dst, size_t cap,
                                  tg_error *err)
{
    int n = snprintf(dst, cap, "%s/%" PRIu64, p->wells[image / p->n_fields].path,
                     image % p->n_fields);
    return n >= 0 && (size_t)n < cap
               ? TG_OK
               : tg_fail(err, TG_INVALID, "the path of field %" PRIu64 " does not fit", image);
}

tg_status tg_ome_plate_locate(const tg_ome_plate *p, uint64_t n, uint64_t *image,
                              uint64_t *frame, tg_error *err)
{
    const uint64_t extent[PLATE_LOOPS] = {p->n_wells, p->n_fields, p->n_frames};
    uint64_t at[PLATE_LOOPS] = {0}, left = n;
    for (int i = PLATE_LOOPS - 1; i > 0; i--) {
        at[p->order[i]] = left % extent[p->order[i]];
        left /= extent[p->order[i]];
    }
    uint64_t slowest = extent[p->order[0]];
    if (slowest != 0 && left >= slowest)
        return tg_fail(err, TG_INVALID, "frame %" PRIu64 " is beyond the plate's last one", n);
    at[p->order[0]] = left;
    *image = at[TG_OME_LOOP_WELL] * p->n_fields + at[TG_OME_LOOP_FIELD];
    *frame = at[TG_OME_LOOP_FRAME];
    return TG_OK;
}

tg_ome_loop tg_ome_plate_loop(const tg_ome_plate *p, uint32_t i)
{
    return p->order[i];
}

size_t tg_ome_plate_bytes(const tg_ome_plate *p)
{
    enum {
        NODE = 160, /* of the file's tree: a name or a path */
        MADE = 1280 /* of the attributes: an object of up to three members, and its text */
    };
    size_t names = (size_t)p->n_rows + p->n_columns;
    return sizeof *p + names * (sizeof *p->rows + NODE + MADE) +
           p->n_wells * (sizeof *p->wells + NODE + MADE) + (size_t)p->n_fields * MADE;
}

bool tg_ome_plate_interleaved(const tg_ome_plate *p)
{
    return p->order[PLATE_LOOPS - 1] != TG_OME_LOOP_FRAME;
}
