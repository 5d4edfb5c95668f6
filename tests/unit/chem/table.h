/* unit/chem/table.h - reads the reference tables of tests/data/ims for the tests. */
#ifndef TG_TESTS_CHEM_TABLE_H
#define TG_TESTS_CHEM_TABLE_H

#include "check.h"

#include <stdlib.h>

typedef struct table {
    char *text;
    size_t bytes;
    char *at; /* the next row */
    size_t n_fields, line;
    char *fields[32];
} table;

static inline int table_load(table *t, const char *folder, const char *name)
{
    char path[1024];
    *t = (table){0};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return 0;
    (void)fseek(f, 0, SEEK_END);
    t->bytes = (size_t)ftell(f);
    rewind(f);
    t->text = malloc(t->bytes + 1);
    if (t->text == NULL || fread(t->text, 1, t->bytes, f) != t->bytes)
        abort();
    (void)fclose(f);
    t->text[t->bytes] = '\0';
    t->at = t->text;
    return 1;
}

static inline int table_open(table *t, const char *name)
{
    return table_load(t, TG_TEST_DATA "/data/ims/reference", name);
}

static inline void table_close(table *t)
{
    free(t->text);
    *t = (table){0};
}

/* Cuts a field out of the row at *p and moves behind its separator; *last: the row ends. */
static inline char *table_field(char **p, int *last)
{
    char *start = *p, *end;
    if (*start == '"') {
        start++;
        end = strchr(start, '"');
        *end++ = '\0';
    } else {
        end = start + strcspn(start, ",\r\n");
    }
    *last = *end != ',';
    char *next = end;
    if (*next == '\r')
        next++;
    if (*next != '\0')
        next++;
    *end = '\0';
    *p = next;
    return start;
}

static inline int table_next(table *t)
{
    int last = 0;
    if (*t->at == '\0')
        return 0;
    t->line++;
    for (t->n_fields = 0; !last && t->n_fields < 32;)
        t->fields[t->n_fields++] = table_field(&t->at, &last);
    return 1;
}

static inline double table_number(const table *t, size_t i)
{
    return strtod(t->fields[i], NULL);
}

#endif
