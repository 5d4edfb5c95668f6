/* ims/db.c - reads molecule databases. Knows no mass and no adduct. */
#include "ims/db.h"

#include "base/crc32c.h"
#include "base/csv.h"
#include "chem/formula.h"
#include "chem/sort.h"
#include "ims/source.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_UPLOAD_ROWS  100000
#define MAX_UPLOAD_VALUE 2500
#define MAX_COLUMNS      3

enum { COLUMN_ID, COLUMN_NAME, COLUMN_FORMULA };
static const char *const column_names[MAX_COLUMNS] = {"id", "name", "formula"};

typedef struct loader {
    tg_moldb *db;
    tg_moldb_options options;
    size_t column[MAX_COLUMNS]; /* place in the row, SIZE_MAX: none */
    size_t n_fields;            /* of the header */
    char *pool_at;
    tg_text *faults; /* strict: one line each */
    uint64_t n_faults;
} loader;

/* --- Telling ------------------------------------------------------------------------ */

static void note(tg_moldb *db, uint64_t line, const char *what)
{
    if (db->n_notes++ < TG_MOLDB_NOTES)
        tg_text_addf(&db->notes, "line %llu: %s\n", (unsigned long long)line, what);
}

static void fault(loader *l, uint64_t line, const char *column, const char *what)
{
    l->n_faults++;
    tg_text_addf(l->faults, "line %llu: %s: %s\n", (unsigned long long)line, column, what);
}

/* --- The header ----------------------------------------------------------------------- */

static bool is_column(const char *field, const char *name)
{
    while (*field == ' ')
        field++;
    size_t n = strlen(name);
    if (strncasecmp(field, name, n) != 0)
        return false;
    for (field += n; *field == ' '; field++) {
    }
    return *field == '\0';
}

static size_t find_column(const char *const *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (is_column(fields[i], name))
            return i;
    return SIZE_MAX;
}

static tg_status read_header(loader *l, tg_csv *csv, tg_error *err)
{
    const char *const *fields;

    TG_TRY(tg_csv_next(csv, &fields, &l->n_fields, err));
    TG_AUTO(tg_text) missing = {0};
    for (int c = 0; c < MAX_COLUMNS; c++) {
        l->column[c] = find_column(fields, l->n_fields, column_names[c]);
        bool needed = l->options.strict || c == COLUMN_FORMULA;
        if (c == COLUMN_FORMULA && l->column[c] == SIZE_MAX && !l->options.strict)
            l->column[c] = find_column(fields, l->n_fields, "sf");
        if (needed && l->column[c] == SIZE_MAX)
            tg_text_addf(&missing, "%s'%s'", missing.len > 0 ? ", " : "", column_names[c]);
    }
    if (missing.len == 0)
        return TG_OK;
    TG_TRY(tg_text_status(&missing, err));
    return tg_fail(err, TG_CORRUPT, "missing columns: %s", missing.data);
}

/* --- Rows ----------------------------------------------------------------------------- */

static bool is_blank(const char *s)
{
    return s[strspn(s, " \t\r\n")] == '\0';
}

static const char *keep(loader *l, const char *s)
{
    size_t n = strlen(s) + 1;
    char *at = l->pool_at;
    memcpy(at, s, n);
    l->pool_at += n;
    return at;
}

static const char *field_of(const loader *l, const char *const *fields, size_t n, int column)
{
    return l->column[column] < n ? fields[l->column[column]] : "";
}

static bool row_passes_upload(loader *l, uint64_t line, const char *const *fields, size_t n)
{
    uint64_t before = l->n_faults;
    tg_error e = {0};

    for (int c = 0; c < MAX_COLUMNS; c++) {
        const char *v = field_of(l, fields, n, c);
        if (is_blank(v))
            fault(l, line, column_names[c], "empty value");
        else if (strlen(v) > MAX_UPLOAD_VALUE)
            fault(l, line, column_names[c], "longer than 2500 characters");
        else if (c == COLUMN_FORMULA && tg_formula_check_strict(v, &e) != TG_OK)
            fault(l, line, column_names[c], e.msg);
    }
    return l->n_faults == before;
}

/* Deleting '.' and '=' may change what a formula says: tell what is read. */
static void tell_cleaned(loader *l, uint64_t line, const char *text, const tg_formula *f)
{
    char ion[TG_FORMULA_BYTES], what[400];
    tg_modifier none = {.n = 0};
    if (strpbrk(text, ".=") == NULL)
        return;
    if (tg_ion_formula(f, &none, ion, sizeof ion, NULL) != TG_OK)
        (void)snprintf(ion, sizeof ion, "nothing");
    (void)snprintf(what, sizeof what, "'%.150s' is read as %.150s", text, ion);
    note(l->db, line, what);
}

static void tell_unknown(loader *l, uint64_t line, const tg_formula *f)
{
    char what[200];
    for (uint32_t i = 0; i < f->n; i++) {
        const char *symbol = f->text + f->counts[i].at;
        if (tg_element_find(symbol, f->counts[i].len) >= 0 ||
            tg_label_find(symbol, f->counts[i].len) >= 0)
            continue;
        (void)snprintf(what, sizeof what, "'%.100s': unknown element %.*s: has no ion", f->text,
                       f->counts[i].len < 20 ? f->counts[i].len : 20, symbol);
        note(l->db, line, what);
        return;
    }
}

static bool row_is_usable(loader *l, uint64_t line, const char *formula)
{
    tg_formula f;
    tg_error e = {0};

    if (is_blank(formula)) {
        note(l->db, line, "no formula: left out");
        return false;
    }
    if (tg_formula_parse(&f, formula, l->options.fixed, &e) != TG_OK) {
        tg_error_prefix(&e, "left out");
        note(l->db, line, e.msg);
        return false;
    }
    if (f.n == 0) {
        note(l->db, line, "formula holds no symbol: left out");
        return false;
    }
    tell_cleaned(l, line, formula, &f);
    tell_unknown(l, line, &f);
    return true;
}

static tg_status read_rows(loader *l, tg_csv *csv, uint64_t *n_rows, tg_error *err)
{
    const char *const *fields;
    size_t n;

    for (*n_rows = 0;; ++*n_rows) {
        TG_TRY(tg_csv_next(csv, &fields, &n, err));
        if (n == 0)
            return TG_OK;
        uint64_t line = tg_csv_line(csv);
        const char *formula = field_of(l, fields, n, COLUMN_FORMULA);
        bool good = l->options.strict ? row_passes_upload(l, line, fields, n)
                                      : row_is_usable(l, line, formula);
        if (!good)
            continue;
        l->db->molecules[l->db->n_molecules++] =
            (tg_molecule){keep(l, formula), keep(l, field_of(l, fields, n, COLUMN_ID)),
                          keep(l, field_of(l, fields, n, COLUMN_NAME)), line};
    }
}

static tg_status judge_upload(const loader *l, uint64_t n_rows, tg_error *err)
{
    if (n_rows > MAX_UPLOAD_ROWS)
        return tg_fail(err, TG_CORRUPT, "%llu rows, %d are the most",
                       (unsigned long long)n_rows, MAX_UPLOAD_ROWS);
    if (l->n_faults == 0)
        return TG_OK;
    TG_TRY(tg_text_status(l->faults, err));
    size_t first = strcspn(l->faults->data, "\n");
    return tg_fail(err, TG_CORRUPT, "%llu broken values; %.*s", (unsigned long long)l->n_faults,
                   (int)(first < 300 ? first : 300), l->faults->data);
}

/* --- Sorting ---------------------------------------------------------------------------- */

static int by_formula(const void *a, const void *b)
{
    const tg_molecule *x = a, *y = b;
    int d = strcmp(x->formula, y->formula);
    return d != 0 ? d : x->line < y->line ? -1 : x->line > y->line;
}

static void index_formulas(tg_moldb *db)
{
    tg_heap_sort(db->molecules, db->n_molecules, sizeof *db->molecules, by_formula);
    for (uint64_t i = 0; i < db->n_molecules; i++)
        if (i == 0 || strcmp(db->molecules[i].formula, db->molecules[i - 1].formula) != 0)
            db->first[db->n_formulas++] = i;
    db->first[db->n_formulas] = db->n_molecules;
}

/* --- Opening ---------------------------------------------------------------------------- */

static tg_status take_room(tg_moldb *db, tg_bytes text, tg_error *err)
{
    uint64_t lines = 2;
    for (size_t i = 0; i < text.len; i++)
        lines += text.data[i] == '\n' || text.data[i] == '\r';
    /* a field takes its own bytes and the separator behind it, absent ones a byte */
    uint64_t pool = text.len + lines * MAX_COLUMNS + 16;
    uint64_t bytes = pool + lines * (sizeof *db->molecules + sizeof *db->first);
    if (db->budget != NULL) {
        TG_TRY(tg_budget_reserve(db->budget, bytes, "molecule database", err));
        db->reserved = bytes;
    }
    db->pool = tg_alloc(pool);
    db->molecules = tg_alloc_array(lines, sizeof *db->molecules);
    db->first = tg_alloc_array(lines, sizeof *db->first);
    if (db->pool == NULL || db->molecules == NULL || db->first == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %llu molecules",
                       (unsigned long long)lines);
    return TG_OK;
}

static tg_status load(loader *l, tg_bytes text, tg_error *err)
{
    TG_AUTO_PTR(tg_csv) csv = NULL;
    uint64_t n_rows;

    TG_TRY(take_room(l->db, text, err));
    l->pool_at = l->db->pool;
    TG_TRY(tg_csv_open(&csv, text, '\0', err));
    if (l->options.strict && tg_csv_separator(csv) != '\t')
        return tg_fail(err, TG_CORRUPT,
                       "missing columns: 'id', 'name', 'formula' (not separated by tabs)");
    TG_TRY(read_header(l, csv, err));
    TG_TRY(read_rows(l, csv, &n_rows, err));
    if (n_rows == 0)
        return tg_fail(err, TG_CORRUPT, "no rows");
    if (l->options.strict)
        TG_TRY(judge_upload(l, n_rows, err));
    if (l->db->n_molecules == 0)
        return tg_fail(err, TG_CORRUPT, "no row with a formula; first: %.*s",
                       (int)strcspn(l->db->notes.data == NULL ? "" : l->db->notes.data, "\n"),
                       l->db->notes.data == NULL ? "" : l->db->notes.data);
    TG_TRY(tg_text_status(&l->db->notes, err));
    index_formulas(l->db);
    return TG_OK;
}

tg_status tg_moldb_parse(tg_moldb **out, const char *name, tg_bytes text,
                         const tg_moldb_options *options, tg_budget *budget, tg_text *notes,
                         tg_error *err)
{
    TG_AUTO(tg_text) own = {0};
    TG_AUTO_PTR(tg_moldb) db = tg_calloc(1, sizeof *db);
    if (db == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a database");
    db->budget = budget;
    db->name = tg_strdup(name);
    if (db->name == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a database");
    db->bytes = text.len;
    db->crc32c = tg_crc32c(0, text.data, text.len);
    loader l = {.db = db, .faults = notes != NULL ? notes : &own};
    if (options != NULL)
        l.options = *options;
    tg_status st = load(&l, text, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "database '%s'", name);
        return st;
    }
    *out = tg_steal(db);
    return TG_OK;
}

/* "a/b/hmdb.v4.csv" -> "hmdb.v4". The caller frees. */
static char *stem_of(const char *key)
{
    const char *slash = strrchr(key, '/');
    char *stem = tg_strdup(slash == NULL ? key : slash + 1);
    char *dot = stem == NULL ? NULL : strrchr(stem, '.');
    if (dot != NULL && dot != stem)
        *dot = '\0';
    return stem;
}

static tg_status open_key(tg_moldb **out, tg_store *store, const char *key,
                          const tg_moldb_options *options, tg_budget *budget, tg_text *notes,
                          const tg_cancel *cancel, tg_error *err)
{
    uint64_t size;
    TG_AUTO(tg_buf) text = {0};
    TG_AUTO(tg_str) stem = stem_of(key);

    if (stem == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a name");
    TG_TRY(tg_store_size(store, key, &size, cancel, err));
    if (size > SIZE_MAX / 4)
        return tg_fail(err, TG_OVER_BUDGET, "'%s' has %llu bytes", key,
                       (unsigned long long)size);
    TG_TRY(tg_store_get(store, key, tg_range_all(), (size_t)size, &text, cancel, err));
    return tg_moldb_parse(out, stem, (tg_bytes){text.data, text.len}, options, budget, notes,
                          err);
}

tg_status tg_moldb_open(tg_moldb **out, const char *url, const tg_moldb_options *options,
                        tg_budget *budget, tg_text *notes, const tg_cancel *cancel,
                        tg_error *err)
{
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO(tg_str) key = NULL;
    uint64_t size = 0;

    TG_TRY(tg_ims_open_parent(url, NULL, &store, &key, err));
    TG_TRY(tg_store_size(store, key, &size, cancel, err));
    if (budget != NULL)
        TG_TRY(tg_budget_reserve(budget, size, "text of a molecule database", err));
    tg_status st = open_key(out, store, key, options, budget, notes, cancel, err);
    if (budget != NULL)
        tg_budget_release(budget, size);
    return st;
}

void tg_moldb_free(tg_moldb *db)
{
    if (db == NULL)
        return;
    tg_free(db->name);
    tg_free(db->pool);
    tg_free(db->molecules);
    tg_free(db->first);
    tg_text_free(&db->notes);
    if (db->budget != NULL)
        tg_budget_release(db->budget, db->reserved);
    tg_free(db);
}
