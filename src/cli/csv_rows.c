/* cli/csv_rows.c - rows of a CSV file. */
#include "csv_rows.h"

#include "tidegate/text.h"

#include <math.h>
#include <string.h>

bool csv_rows_open(csv_rows *r, const char *path)
{
    r->n = 0;
    r->f = fopen(path, "re");
    return r->f != NULL;
}

void csv_rows_close(csv_rows *r)
{
    if (r->f != NULL)
        (void)fclose(r->f);
    r->f = NULL;
}

static void keep(csv_rows *r, size_t *len, int c)
{
    if (r->n < CSV_FIELDS && *len + 1 < CSV_FIELD_BYTES)
        r->field[r->n][(*len)++] = (char)c;
}

/* A character cut in its middle is no text: its first bytes go. */
static void end_field(csv_rows *r, size_t *len)
{
    if (r->n == CSV_FIELDS)
        return;
    char *s = r->field[r->n];
    if (*len + 1 == CSV_FIELD_BYTES) {
        while (*len > 0 && ((unsigned char)s[*len - 1] & 0xC0) == 0x80)
            --*len;
        *len -= *len > 0 && ((unsigned char)s[*len - 1] & 0x80) != 0;
    }
    s[*len] = '\0';
    r->n++;
    *len = 0;
}

bool csv_rows_next(csv_rows *r)
{
    bool quoted = false;
    size_t len = 0;
    int c = getc(r->f);

    r->n = 0;
    if (c == EOF)
        return false;
    for (; c != EOF && (quoted || c != '\n'); c = getc(r->f)) {
        if (c == '"') {
            int after = quoted ? getc(r->f) : 0;
            if (quoted && after == '"')
                keep(r, &len, '"');
            else if (quoted && after != EOF)
                (void)ungetc(after, r->f);
            quoted = !quoted || after == '"';
        } else if (c == ',' && !quoted) {
            end_field(r, &len);
        } else if (c != '\r' || quoted) {
            keep(r, &len, c);
        }
    }
    end_field(r, &len);
    return true;
}

const char *csv_rows_text(const csv_rows *r, size_t field)
{
    return field < r->n ? r->field[field] : "";
}

double csv_rows_number(const csv_rows *r, size_t field)
{
    double v;
    return tg_parse_double(csv_rows_text(r, field), &v, NULL) == TG_OK ? v : NAN;
}
