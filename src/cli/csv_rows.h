/* cli/csv_rows.h - rows of a CSV file that the command wrote itself, in flat memory: a field is
 * cut where it is longer than its room. */
#ifndef TG_CLI_CSV_ROWS_H
#define TG_CLI_CSV_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CSV_FIELDS = 32, CSV_FIELD_BYTES = 256 };

typedef struct csv_rows {
    FILE *f;
    size_t n; /* fields of the row */
    char field[CSV_FIELDS][CSV_FIELD_BYTES];
} csv_rows;

/* False: there is none. */
bool csv_rows_open(csv_rows *r, const char *path);
/* False at the end of the file. */
bool csv_rows_next(csv_rows *r);
void csv_rows_close(csv_rows *r);
/* A field as a number; NAN if it is none, or empty, or missing. */
double csv_rows_number(const csv_rows *r, size_t field);
/* A field; "" if the row has no such one. */
const char *csv_rows_text(const csv_rows *r, size_t field);

#endif
