/* cli/record_table.c - the frame tables of a recording as one CSV file: a line per row, a
 * column per array of the table, and the array's name in front where there are several. */
#include "place.h"
#include "record.h"
#include "tidegate/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BATCH_ROWS   1024 /* rows read at a time */
#define BATCH_TEXT   (4 << 20)
#define MOST_COLUMNS (RECORD_MAX_COLUMNS + 16)

static const struct {
    const char *name;
    bool on_plates; /* elsewhere it may be a user's */
} own_columns[] = {{"sequence", false},  {"index", false},  {"time_device", false},
                   {"time_host", false}, {"status", false}, {"well", true},
                   {"field", true},      {"crc32c", false}};
enum { N_OWN = sizeof own_columns / sizeof own_columns[0] };

/* One column, and the batch of it that was read last. */
typedef struct column {
    const char *name;
    tg_array *array;
    tg_array_info info;
    unsigned char *items;
    uint64_t *offsets;
    char *text;
} column;

typedef struct table {
    recording *r;
    cli_place place;
    FILE *file;
    column column[MOST_COLUMNS];
    uint32_t n;
    uint64_t rows;
    const char *array; /* its name, for the first field; NULL: no such field */
} table;

static void drop_batch(column *c)
{
    tg_free(c->offsets);
    tg_free(c->text);
    c->offsets = NULL;
    c->text = NULL;
}

static void close_columns(table *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        drop_batch(&t->column[i]);
        tg_free(t->column[i].items);
        tg_array_free(t->column[i].array);
    }
    memset(t->column, 0, sizeof t->column);
    t->n = 0;
}

/* A column that is not there (crc32c with --checksum off) is passed over. */
static tg_status open_column(table *t, const char *group, const char *name)
{
    cli *c = t->r->c;
    column *col = &t->column[t->n];
    CLI_AUTO(cli_auto_free) char *path = place_join(group, name);
    if (path == NULL)
        return cli_fail(&c->err, TG_NO_MEMORY, "no memory for the table");
    tg_error err;
    tg_status st = tg_array_open(t->place.store, path, &col->array, NULL, &err);
    if (st == TG_NOT_FOUND)
        return TG_OK;
    if (st != TG_OK) {
        c->err = err;
        return st;
    }
    t->n++;
    col->name = name;
    col->info.size = sizeof col->info;
    st = tg_array_get_info(col->array, &col->info, &c->err);
    if (st != TG_OK)
        return st;
    if (col->info.ndim != 1)
        return cli_fail(&c->err, TG_CORRUPT, "'%s' has %u dimensions, want 1", path,
                        col->info.ndim);
    /* After a crash columns may differ by the rows of one commit: the shortest one counts. */
    if (t->n == 1 || col->info.shape[0] < t->rows)
        t->rows = col->info.shape[0];
    if (col->info.dtype.kind != TG_DT_STRING) {
        col->items = tg_alloc_array(BATCH_ROWS, col->info.dtype.size);
        if (col->items == NULL)
            return cli_fail(&c->err, TG_NO_MEMORY, "no memory for the table");
    }
    return TG_OK;
}

static tg_status open_columns(table *t, const char *array)
{
    CLI_AUTO(cli_auto_free) char *group = place_join(array, "frames");
    CLI_AUTO(cli_auto_free)
    char *path = group != NULL ? place_join(t->place.prefix, group) : NULL;
    if (path == NULL)
        return cli_fail(&t->r->c->err, TG_NO_MEMORY, "no memory for the table");
    tg_status st = TG_OK;
    for (int i = 0; st == TG_OK && i < N_OWN; i++)
        if (!own_columns[i].on_plates || t->r->plate != NULL)
            st = open_column(t, path, own_columns[i].name);
    for (uint32_t i = 0; st == TG_OK && i < t->r->layout.array.n_columns; i++)
        st = open_column(t, path, t->r->layout.columns[i].name);
    return st;
}

/* RFC 4180: quoted where it holds a separator, a quote or a line end. */
static void write_field(FILE *f, const char *s, size_t len)
{
    bool quote = false;
    for (size_t i = 0; i < len && !quote; i++)
        quote = strchr(",\"\r\n", s[i]) != NULL;
    if (quote)
        (void)putc('"', f);
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '"')
            (void)putc('"', f);
        (void)putc(s[i], f);
    }
    if (quote)
        (void)putc('"', f);
}

static tg_status read_batch(table *t, uint64_t first, uint64_t n)
{
    tg_status st = TG_OK;
    for (uint32_t i = 0; st == TG_OK && i < t->n; i++) {
        column *c = &t->column[i];
        drop_batch(c);
        st = c->items != NULL
                 ? tg_array_read(c->array, &first, &n, c->items, NULL, NULL, &t->r->c->err)
                 : tg_array_read_strings(c->array, first, n, BATCH_TEXT, &c->offsets, &c->text,
                                         NULL, &t->r->c->err);
    }
    return st;
}

static void write_item(FILE *f, const column *c, uint64_t row)
{
    char text[64];
    if (c->items == NULL) {
        write_field(f, c->text + c->offsets[row],
                    (size_t)(c->offsets[row + 1] - c->offsets[row]));
        return;
    }
    tg_item_text(c->info.dtype, c->items + row * c->info.dtype.size, text, sizeof text);
    bool quoted = text[0] == '"'; /* "NaN", "Infinity": JSON's quotes are not CSV's */
    size_t len = strlen(text);
    (void)fwrite(text + quoted, 1, len - (quoted ? 2 : 0), f);
}

static tg_status write_rows(table *t)
{
    for (uint64_t first = 0; first < t->rows; first += BATCH_ROWS) {
        uint64_t n = t->rows - first < BATCH_ROWS ? t->rows - first : BATCH_ROWS;
        tg_status st = read_batch(t, first, n);
        if (st != TG_OK)
            return st;
        for (uint64_t row = 0; row < n; row++) {
            if (t->array != NULL) {
                write_field(t->file, t->array, strlen(t->array));
                (void)putc(',', t->file);
            }
            for (uint32_t i = 0; i < t->n; i++) {
                if (i > 0)
                    (void)putc(',', t->file);
                write_item(t->file, &t->column[i], row);
            }
            (void)putc('\n', t->file);
        }
        if (ferror(t->file) != 0)
            break; /* told at the end */
    }
    return TG_OK;
}

static void write_names(table *t)
{
    if (t->array != NULL)
        (void)fputs("array,", t->file);
    for (uint32_t i = 0; i < t->n; i++) {
        if (i > 0)
            (void)putc(',', t->file);
        write_field(t->file, t->column[i].name, strlen(t->column[i].name));
    }
    (void)putc('\n', t->file);
}

static tg_status write_all(table *t)
{
    recording *r = t->r;
    for (uint32_t i = 0; i < r->n; i++) {
        t->array = r->n > 1 ? r->source[i].name : NULL;
        tg_status st = open_columns(t, r->source[i].name);
        if (st == TG_OK && i == 0)
            write_names(t);
        if (st == TG_OK)
            st = write_rows(t);
        close_columns(t);
        if (st != TG_OK)
            return st;
    }
    return TG_OK;
}

tg_status record_write_table(recording *r)
{
    static table t; /* large, and there is one */
    const char *path = r->o->table;
    t = (table){.r = r};
    tg_status st = place_open(r->c, r->c->operands.item[0], &t.place);
    if (st == TG_OK) {
        t.file = fopen(path, "we");
        if (t.file == NULL)
            st = cli_fail_errno(&r->c->err, path, "write");
    }
    if (t.file != NULL) {
        st = write_all(&t);
        bool bad = ferror(t.file) != 0;
        if ((fclose(t.file) != 0 || bad) && st == TG_OK)
            st = cli_fail_errno(&r->c->err, path, "write");
    }
    place_close(&t.place);
    return st;
}
