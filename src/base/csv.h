/* base/csv.h - reading and writing of separated values (RFC 4180, and TSV). */
#ifndef TG_BASE_CSV_H
#define TG_BASE_CSV_H

#include "base/mem.h"

#include <stdbool.h>

/* Reads a text that is whole in memory, a row at a time, with no allocation per row beyond
 * growth to the widest row. Quoted fields may hold separators, quotes ("" ) and line ends. A
 * UTF-8 byte order mark and CRLF are accepted. */
typedef struct tg_csv tg_csv;

/* text stays the caller's and must outlive the reader. separator '\0': judged by the first line
 * (tab, comma or semicolon, whichever it has most of). */
TG_MUST_USE tg_status tg_csv_open(tg_csv **out, tg_bytes text, char separator, tg_error *err);
/* The next row: *n fields, each terminated, borrowed until the next call. *n = 0 at the end.
 * Empty lines are passed over. TG_CORRUPT with the line: an open quote, bytes after a closing
 * quote, a NUL. */
TG_MUST_USE tg_status tg_csv_next(tg_csv *csv, const char *const **fields, size_t *n,
                                  tg_error *err);
size_t tg_csv_line(const tg_csv *csv); /* of the row last read, from 1 */
char tg_csv_separator(const tg_csv *csv);
void tg_csv_free(tg_csv *csv);
TG_DEFINE_AUTO_PTR(tg_csv, tg_csv_free)

/* Add a field to a line that is being written; quoted where it must be. first: no separator
 * before it. */
void tg_csv_write(tg_text *line, const char *field, char separator, bool first);

#endif
