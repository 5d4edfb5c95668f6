/* Rows of a table as CSV, a block of rows at a time. */
#include "base/csv.h"
#include "table/table.h"

#include <string.h>

enum { BLOCK_ROWS = 4096, MOST_ITEM = 16 };
#define TEXT_LIMIT ((size_t)16 << 20)

/* One column's part of the block. */
typedef struct cells {
    tg_dtype dtype;
    uint8_t *items;
    uint64_t *offsets;
    char *text;
} cells;

typedef struct page {
    cells *columns;
    uint32_t n;
    tg_text lines;
} page;

static void page_auto(page *p)
{
    for (uint32_t i = 0; p->columns != NULL && i < p->n; i++) {
        tg_free(p->columns[i].items);
        tg_free(p->columns[i].offsets);
        tg_free(p->columns[i].text);
    }
    tg_free(p->columns);
    tg_text_free(&p->lines);
}

/* Fill-value JSON, without the quotes of "NaN"; complex as Python and numpy write it. */
static void item_field(tg_dtype t, const uint8_t *item, char *dst, size_t cap)
{
    char re[48], im[48];
    const tg_dtype part = {TG_DT_FLOAT, t.size / 2};
    size_t n = 0;

    if (t.kind == TG_DT_COMPLEX) {
        item_field(part, item, re, sizeof re);
        item_field(part, item + part.size, im, sizeof im);
        TG_AUTO(tg_text) joined = {0};
        tg_text_addf(&joined, "%s%s%sj", re, im[0] == '-' ? "" : "+", im);
        if (joined.data != NULL && joined.len < cap)
            memcpy(dst, joined.data, joined.len + 1);
        return;
    }
    tg_item_text(t, item, dst, cap);
    for (const char *at = dst; *at != '\0'; at++)
        if (*at != '"')
            dst[n++] = *at;
    dst[n] = '\0';
}

static tg_status load(tg_table *t, page *p, uint64_t first, uint64_t n, const tg_cancel *cancel,
                      tg_error *err)
{
    for (uint32_t i = 0; i < p->n; i++) {
        cells *c = &p->columns[i];
        if (c->dtype.kind == TG_DT_STRING) {
            tg_free(tg_steal(c->offsets));
            tg_free(tg_steal(c->text));
            TG_TRY(tg_table_read_strings(t, i, first, n, TEXT_LIMIT, &c->offsets, &c->text,
                                         cancel, err));
        } else {
            TG_TRY(tg_table_read(t, i, first, n, c->items, cancel, err));
        }
    }
    return TG_OK;
}

static tg_status add_string(page *p, const cells *c, uint64_t row, bool first, tg_error *err)
{
    size_t len = (size_t)(c->offsets[row + 1] - c->offsets[row]);
    TG_AUTO(tg_text) field = {0};

    tg_text_add_n(&field, c->text + c->offsets[row], len);
    TG_TRY(tg_text_status(&field, err));
    tg_csv_write(&p->lines, field.data == NULL ? "" : field.data, ',', first);
    return TG_OK;
}

static tg_status add_row(page *p, uint64_t row, tg_error *err)
{
    char field[128];

    for (uint32_t i = 0; i < p->n; i++) {
        const cells *c = &p->columns[i];
        if (c->dtype.kind == TG_DT_STRING) {
            TG_TRY(add_string(p, c, row, i == 0, err));
            continue;
        }
        item_field(c->dtype, c->items + row * c->dtype.size, field, sizeof field);
        tg_csv_write(&p->lines, field, ',', i == 0);
    }
    tg_text_add(&p->lines, "\n");
    return tg_text_status(&p->lines, err);
}

static tg_status hand_out(page *p, tg_table_write_fn write, void *user, tg_error *err)
{
    TG_TRY(tg_text_status(&p->lines, err));
    if (p->lines.len > 0)
        TG_TRY(write(user, p->lines.data, p->lines.len, err));
    p->lines.len = 0;
    return TG_OK;
}

static tg_status make_page(const tg_table *t, page *p, bool header, tg_error *err)
{
    p->columns = tg_calloc(tg_table_n_columns(t) + 1, sizeof *p->columns);
    if (p->columns == NULL)
        return tg_fail(err, TG_NO_MEMORY, "CSV");
    p->n = tg_table_n_columns(t);
    for (uint32_t i = 0; i < p->n; i++) {
        const tg_table_column c = tg_table_column_at(t, i);
        p->columns[i].dtype = c.dtype;
        if (c.dtype.kind != TG_DT_STRING && c.dtype.size > MOST_ITEM)
            return tg_fail(err, TG_UNSUPPORTED, "column '%.60s' has no form in CSV", c.name);
        p->columns[i].items = tg_alloc_array(BLOCK_ROWS, MOST_ITEM);
        if (p->columns[i].items == NULL)
            return tg_fail(err, TG_NO_MEMORY, "CSV");
        if (header)
            tg_csv_write(&p->lines, c.name, ',', i == 0);
    }
    if (header)
        tg_text_add(&p->lines, "\n");
    return tg_text_status(&p->lines, err);
}

tg_status tg_table_csv(tg_table *t, uint64_t first, uint64_t n, bool header,
                       tg_table_write_fn write, void *user, const tg_cancel *cancel,
                       tg_error *err)
{
    TG_AUTO(page) p = {0};

    if (first > tg_table_rows(t) || n > tg_table_rows(t) - first)
        return tg_fail(err, TG_INVALID, "table: rows beyond its end");
    TG_TRY(make_page(t, &p, header, err));
    TG_TRY(hand_out(&p, write, user, err));
    for (uint64_t at = 0; at < n;) {
        uint64_t rows = n - at < BLOCK_ROWS ? n - at : BLOCK_ROWS;
        TG_TRY(load(t, &p, first + at, rows, cancel, err));
        for (uint64_t row = 0; row < rows; row++)
            TG_TRY(add_row(&p, row, err));
        TG_TRY(hand_out(&p, write, user, err));
        at += rows;
    }
    return TG_OK;
}
