/* cli/report_page.h - the frame of a report page: style, headings, cards, tables. */
#ifndef TG_CLI_REPORT_PAGE_H
#define TG_CLI_REPORT_PAGE_H

#include "report.h"

void page_begin(FILE *f, const char *title, const char *verdict, bool good);
void page_end(FILE *f);
void page_tile(FILE *f, const char *label, const char *value, const char *small);
/* A card with a heading and a sentence below it, which may be NULL. */
void page_card_begin(FILE *f, const char *heading, const char *words, bool wide);
void page_card_end(FILE *f);
/* A key for the colours: name and class of each, ended by NULL. */
void page_key(FILE *f, const char *const *names_and_classes);
void page_rows(FILE *f, const report_rows *rows);
/* The cards that end every report, the end of the cards, and of the page. */
void page_tables(FILE *f, const report_rows *numbers, const report_rows *settings);

/* A series to draw, of at most `room` points. */
typedef struct page_series {
    double *x, *y;
    size_t n;
} page_series;

bool page_series_new(page_series *s, size_t room); /* false: no memory; may be freed */
void page_series_free(page_series *s);
void page_series_push(page_series *s, double x, double y);
double page_series_highest(const page_series *s);

#endif
