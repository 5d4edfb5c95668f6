/* stream/frame_columns.h - inside of the frame table: its columns, shared by frame_table.c
 * (rows in, chunks and shapes out), frame_table_open.c (made, read back) and
 * frame_table_attributes.c. */
#ifndef TG_STREAM_FRAME_COLUMNS_H
#define TG_STREAM_FRAME_COLUMNS_H

#include "stream/frame_table.h"
#include "zarr/zarr.h"

enum {
    FRAME_OWN_COLUMNS = 8, /* sequence .. crc32c */
    FRAME_PATH_MAX = 512,
    FRAME_SUM_BYTES = 4, /* of a chunk, behind its items */
};

typedef struct frame_column {
    char path[FRAME_PATH_MAX]; /* of the array */
    tg_dtype dtype;
    uint64_t chunk_rows;       /* a power of 2 */
    tg_array *array;           /* owns the meta of a table that was opened, else NULL */
    tg_array_meta *own_meta;   /* of one that was made, else NULL */
    const tg_array_meta *meta; /* either */
    uint8_t *items;            /* chunk_rows of them, and room for a sum; NULL for strings */
    tg_strings text;           /* strings: offsets of the rows of the chunk, their bytes */
    bool sum;                  /* crc32c behind the chunk */
    uint64_t stored;           /* rows that chunks in the store cover */
} frame_column;

struct tg_frame_table {
    tg_store *store;
    tg_frame_table_options options;
    char path[FRAME_PATH_MAX]; /* of the group "frames" */
    uint32_t n_columns;        /* own ones first */
    uint32_t n_own;
    uint8_t own[FRAME_OWN_COLUMNS]; /* which of frame_own */
    frame_column column[FRAME_OWN_COLUMNS + TG_FRAME_COLUMNS_MAX];
    uint64_t rows;      /* added */
    uint64_t written;   /* covered by chunks in all columns */
    uint64_t published; /* in the shapes; UINT64_MAX: no shape was put yet */
    bool uneven;        /* a crash left columns of different lengths */
    uint64_t puts;
    tg_buf encoded; /* a chunk of strings */
};

typedef enum frame_when { FRAME_ALWAYS, FRAME_ON_PLATES, FRAME_SUMMED } frame_when;

/* Name, dtype and fill value of one of our own columns; what it means, for the attributes. */
typedef struct frame_own_column {
    frame_when when;
    const char *name;
    tg_dtype dtype;
    int64_t fill;
    const char *unit; /* NULL: none */
    const char *description;
} frame_own_column;
extern const frame_own_column frame_own[FRAME_OWN_COLUMNS];

/* Columns of our own that a table with these options has: their places in frame_own, and how
 * many they are. */
uint32_t frame_own_columns(const tg_frame_table_options *options,
                           uint8_t own[FRAME_OWN_COLUMNS]);

/* Where row `row` lies within its chunk. */
static inline uint64_t frame_in_chunk(const frame_column *c, uint64_t row)
{
    return row & (c->chunk_rows - 1);
}

/* Attributes of the group "frames". */
TG_MUST_USE tg_status frame_table_attributes(const tg_frame_table_options *options,
                                             tg_json **out, tg_error *err);
/* Put the document(s) of a group or array at path: *doc and *attrs_doc are freed. */
TG_MUST_USE tg_status frame_put_documents(tg_frame_table *t, const char *path, bool is_array,
                                          char *doc, char *attrs_doc, const tg_cancel *cancel,
                                          tg_error *err);
/* The documents of the group (not for a table that was opened). */
TG_MUST_USE tg_status frame_put_group(tg_frame_table *t, const tg_cancel *cancel,
                                      tg_error *err);
TG_MUST_USE tg_status frame_put_shapes(tg_frame_table *t, uint64_t rows,
                                       const tg_cancel *cancel, tg_error *err);

#endif
