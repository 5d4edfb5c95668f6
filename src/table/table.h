/* table/table.h - a table: a Zarr group whose columns are equally long 1-D arrays, numbers or
 * strings. The group's attribute "column-order" lists their names.
 *
 * Rows are appended in blocks. A block is written before any shape says that it is there, so a
 * reader finds rows whole or not at all; between two columns' shapes it finds the shorter.
 * Threads: one call at a time. */
#ifndef TG_TABLE_TABLE_H
#define TG_TABLE_TABLE_H

#include "zarr/zarr.h"

typedef struct tg_table tg_table;

typedef struct tg_table_column {
    const char *name; /* a node's name */
    tg_dtype dtype;   /* any but raw bytes */
} tg_table_column;

typedef struct tg_table_options {
    int format; /* 2 or 3; 0: 3 */
    const tg_table_column *columns;
    uint32_t n_columns;
    uint64_t chunk_rows;    /* 0: 65536, of strings 4096 */
    const char *codec;      /* as in tg_array_options */
    bool no_checksum;       /* as in tg_array_options */
    const char *attributes; /* JSON object, beside "column-order"; NULL: none */
    bool overwrite;         /* replace a node of this path */
    /* Also a dataframe of AnnData (encoding 0.2.0): its first column, of strings, is the index,
     * which "column-order" leaves out. */
    bool dataframe;
} tg_table_options;

/* A table of no rows; ancestors become groups. */
TG_MUST_USE tg_status tg_table_create(tg_table **out, tg_store *store, const char *path,
                                      const tg_table_options *options, const tg_cancel *cancel,
                                      tg_error *err);
/* Columns in the order of the attribute (of a dataframe the index first), or, without it, all
 * 1-D arrays of the group by name. TG_INVALID: a column that is no 1-D array; the store must
 * outlive the table. */
TG_MUST_USE tg_status tg_table_open(tg_table **out, tg_store *store, const char *path,
                                    const tg_cancel *cancel, tg_error *err);
void tg_table_free(tg_table *t); /* may be NULL */
TG_DEFINE_AUTO_PTR(tg_table, tg_table_free)

uint64_t tg_table_rows(const tg_table *t); /* of the shortest column */
uint32_t tg_table_n_columns(const tg_table *t);
tg_table_column tg_table_column_at(const tg_table *t, uint32_t i); /* name borrowed */
/* The number of a column; UINT32_MAX: none of this name. */
uint32_t tg_table_find(const tg_table *t, const char *name);
/* The most bytes that a call takes beyond the caller's buffers. */
size_t tg_table_worst_bytes(const tg_table *t);

/* Rows of one column: numbers as native items, strings as n + 1 offsets into text. */
typedef struct tg_table_block {
    const void *items;
    const uint64_t *offsets;
    const char *text;
} tg_table_block;
/* n_rows more rows, one block a column, in the order of the columns. Blocks that begin and end
 * at multiples of chunk_rows are written without a read. On failure the table is as long as
 * before. */
TG_MUST_USE tg_status tg_table_append(tg_table *t, const tg_table_block *blocks,
                                      uint64_t n_rows, const tg_cancel *cancel, tg_error *err);

/* Rows [first, first + n) of a column of numbers. */
TG_MUST_USE tg_status tg_table_read(tg_table *t, uint32_t column, uint64_t first, uint64_t n,
                                    void *dst, const tg_cancel *cancel, tg_error *err);
/* The same of strings: as tg_array_read_strings(). */
TG_MUST_USE tg_status tg_table_read_strings(tg_table *t, uint32_t column, uint64_t first,
                                            uint64_t n, size_t limit, uint64_t **offsets,
                                            char **text, const tg_cancel *cancel,
                                            tg_error *err);

/* Rows [first, first + n) as CSV (RFC 4180, LF), a header line before them if asked for. write
 * is handed whole lines, some thousand rows at a time. Floats as the shortest text that reads
 * back the same, NaN and Infinity as these words, complex as re+imj. */
typedef tg_status (*tg_table_write_fn)(void *user, const char *text, size_t len, tg_error *err);
TG_MUST_USE tg_status tg_table_csv(tg_table *t, uint64_t first, uint64_t n, bool header,
                                   tg_table_write_fn write, void *user, const tg_cancel *cancel,
                                   tg_error *err);

#endif
