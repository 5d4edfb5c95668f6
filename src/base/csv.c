/* base/csv.c - separated values, a row at a time. Knows nothing of columns' meaning. */
#include "base/csv.h"

#include <string.h>

static const char byte_order_mark[] = "\xef\xbb\xbf";

struct tg_csv {
    tg_bytes text;
    size_t pos, line, row_line;
    char separator;
    tg_buf room;         /* the fields of the row, unquoted, each terminated */
    const char **fields; /* into room */
    size_t cap;
};

/* The separator that the first line has most of, outside quotes; a comma if it has none. */
static char judge_separator(tg_bytes text)
{
    static const char candidates[] = {',', '\t', ';'};
    size_t counts[sizeof candidates] = {0}, best = 0;
    bool quoted = false;

    for (size_t i = 0;
         i < text.len && (quoted || (text.data[i] != '\n' && text.data[i] != '\r')); i++) {
        char c = (char)text.data[i];
        if (c == '"')
            quoted = !quoted;
        for (size_t k = 0; !quoted && k < sizeof candidates; k++)
            counts[k] += c == candidates[k];
    }
    for (size_t k = 1; k < sizeof candidates; k++)
        if (counts[k] > counts[best])
            best = k;
    return candidates[best];
}

tg_status tg_csv_open(tg_csv **out, tg_bytes text, char separator, tg_error *err)
{
    tg_csv *csv = tg_calloc(1, sizeof *csv);
    if (csv == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to read separated values");
    if (text.len >= 3 && memcmp(text.data, byte_order_mark, 3) == 0)
        text = (tg_bytes){text.data + 3, text.len - 3};
    csv->text = text;
    csv->line = 1;
    csv->separator = separator;
    if (separator == '\0')
        csv->separator = judge_separator(text);
    *out = csv;
    return TG_OK;
}

void tg_csv_free(tg_csv *csv)
{
    if (csv == NULL)
        return;
    tg_buf_free(&csv->room);
    tg_free(csv->fields);
    tg_free(csv);
}

size_t tg_csv_line(const tg_csv *csv)
{
    return csv->row_line;
}

char tg_csv_separator(const tg_csv *csv)
{
    return csv->separator;
}

static bool more(const tg_csv *csv)
{
    return csv->pos < csv->text.len;
}

static char here(const tg_csv *csv)
{
    return (char)csv->text.data[csv->pos];
}

/* Past "\n", "\r\n" or "\r" if one is here. */
static bool take_line_end(tg_csv *csv)
{
    size_t start = csv->pos;
    if (more(csv) && here(csv) == '\r')
        csv->pos++;
    if (more(csv) && here(csv) == '\n')
        csv->pos++;
    csv->line += csv->pos > start;
    return csv->pos > start;
}

/* Where the row at pos ends (the offset of its line end), and how many fields it has: a quote
 * opens only at the start of a field, as in take_field(), so that the two agree on every input.
 */
static void measure_row(const tg_csv *csv, size_t *end, size_t *n_fields)
{
    bool quoted = false, field_begins = true;
    size_t i = csv->pos;

    *n_fields = 1;
    for (; i < csv->text.len; i++) {
        char c = (char)csv->text.data[i];
        if (quoted) {
            bool doubled = c == '"' && i + 1 < csv->text.len && csv->text.data[i + 1] == '"';
            i += doubled;
            quoted = doubled || c != '"';
            continue;
        }
        if (c == '\n' || c == '\r')
            break;
        quoted = c == '"' && field_begins;
        field_begins = c == csv->separator;
        *n_fields += field_begins;
    }
    *end = i;
}

static tg_status make_room(tg_csv *csv, size_t bytes, size_t n_fields, tg_error *err)
{
    if (csv->room.len < bytes) {
        TG_AUTO(tg_buf) bigger = {0};
        TG_TRY(tg_buf_resize(&bigger, bytes * 2, err));
        tg_buf_move(&csv->room, &bigger);
    }
    if (csv->cap < n_fields) {
        const char **p = tg_alloc_array(n_fields * 2, sizeof *p);
        if (p == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for a row of %zu fields", n_fields);
        tg_free(csv->fields);
        csv->fields = p;
        csv->cap = n_fields * 2;
    }
    return TG_OK;
}

static tg_status bad_row(const tg_csv *csv, const char *what, tg_error *err)
{
    return tg_fail(err, TG_CORRUPT, "line %zu: %s", csv->line, what);
}

/* A quoted field, from its opening quote to behind its closing one; dst receives it without
 * quotes. */
static tg_status take_quoted(tg_csv *csv, char **dst, tg_error *err)
{
    size_t opened = csv->line;

    for (csv->pos++; more(csv); csv->pos++) {
        char c = here(csv);
        if (c == '\0')
            return bad_row(csv, "a NUL", err);
        csv->line += c == '\n';
        if (c == '"') {
            csv->pos++;
            if (!more(csv) || here(csv) != '"')
                return TG_OK;
        }
        *(*dst)++ = c;
    }
    csv->line = opened;
    return bad_row(csv, "a quote is opened and never closed", err);
}

static tg_status take_field(tg_csv *csv, char **dst, tg_error *err)
{
    if (more(csv) && here(csv) == '"') {
        TG_TRY(take_quoted(csv, dst, err));
        if (more(csv) && here(csv) != csv->separator && here(csv) != '\n' && here(csv) != '\r')
            return bad_row(csv, "text behind a closing quote", err);
    }
    while (more(csv) && here(csv) != csv->separator && here(csv) != '\n' && here(csv) != '\r') {
        if (here(csv) == '\0')
            return bad_row(csv, "a NUL", err);
        *(*dst)++ = here(csv);
        csv->pos++;
    }
    *(*dst)++ = '\0';
    return TG_OK;
}

tg_status tg_csv_next(tg_csv *csv, const char *const **fields, size_t *n, tg_error *err)
{
    size_t end = 0, n_fields = 0;

    while (take_line_end(csv)) {
    }
    *n = 0;
    *fields = NULL;
    csv->row_line = csv->line;
    if (!more(csv))
        return TG_OK;
    measure_row(csv, &end, &n_fields);
    TG_TRY(make_room(csv, end - csv->pos + n_fields + 1, n_fields, err));

    char *dst = (char *)csv->room.data;
    for (size_t i = 0;; i++) {
        csv->fields[i] = dst;
        TG_TRY(take_field(csv, &dst, err));
        *n = i + 1;
        if (!more(csv) || here(csv) != csv->separator)
            break;
        csv->pos++;
    }
    (void)take_line_end(csv);
    *fields = csv->fields;
    return TG_OK;
}

void tg_csv_write(tg_text *line, const char *field, char separator, bool first)
{
    if (!first)
        tg_text_add_n(line, &separator, 1);
    const char special[] = {separator, '"', '\n', '\r', '\0'};
    /* At the start of a text a byte order mark is none of the field's, unless it is quoted. */
    if (strpbrk(field, special) == NULL && strncmp(field, byte_order_mark, 3) != 0) {
        tg_text_add(line, field);
        return;
    }
    tg_text_add(line, "\"");
    for (const char *quote; (quote = strchr(field, '"')) != NULL; field = quote + 1) {
        tg_text_add_n(line, field, (size_t)(quote - field));
        tg_text_add(line, "\"\"");
    }
    tg_text_add(line, field);
    tg_text_add(line, "\"");
}
