/* table/frame.h - a small table whole in memory, whatever it was kept in: an AnnData group,
 * CSV, JSON columns. Numbers are doubles, bools 0 and 1, what is missing is NaN or "".
 *
 * Every reader takes the most bytes that frame and reading may take together: more is
 * TG_OVER_BUDGET with both numbers. */
#ifndef TG_TABLE_FRAME_H
#define TG_TABLE_FRAME_H

#include "base/csv.h"
#include "zarr/zarr.h"

typedef struct tg_frame_column {
    char *name;
    double *number;    /* n; NULL: text */
    bool rounded;      /* some whole number of the source lies beyond 2^53 */
    uint64_t *offsets; /* n + 1, into text */
    char *text;
} tg_frame_column;

typedef struct tg_frame {
    uint64_t n; /* rows */
    uint32_t n_columns;
    tg_frame_column *columns;
    uint32_t index; /* the column of the rows' names; UINT32_MAX: none is known */
    size_t bytes;   /* that it holds */
    size_t limit;   /* that it may hold, and what reading it takes */
} tg_frame;

void tg_frame_destroy(tg_frame *f); /* f becomes empty */
static inline void tg_frame_auto(tg_frame *f)
{
    tg_frame_destroy(f);
}

/* NULL: no column of this name. */
const tg_frame_column *tg_frame_find(const tg_frame *f, const char *name);
/* A cell as text: numbers as the shortest that reads back the same, whole ones without a
 * fraction, a missing one as "". *s is borrowed from the frame or lies in room. */
void tg_frame_text(const tg_frame_column *c, uint64_t row, char room[32], const char **s,
                   size_t *len);

/* A header line and rows of as many fields. A column whose every field is a number ("nan" and
 * empty ones too) is one of numbers, but not the one called `as_text` (NULL: none).
 * TG_CORRUPT with the line: a row of more or fewer fields, a name twice. */
TG_MUST_USE tg_status tg_frame_csv(tg_frame *f, tg_bytes csv, const char *as_text, size_t limit,
                                   tg_error *err);
/* {"column": [items], ...}, all of one length; null is missing. */
TG_MUST_USE tg_status tg_frame_json(tg_frame *f, const char *json, size_t limit, tg_error *err);
/* The columns of obs, and those of a dense X under the names of var; obs first, so it wins.
 * Those named in `wanted`, which ends with NULL, and the index; NULL: all. Strings may be
 * categorical, numbers nullable. TG_UNSUPPORTED names an encoding that is not read (only if it
 * is wanted). */
TG_MUST_USE tg_status tg_frame_anndata(tg_frame *f, tg_store *store, const char *path,
                                       const char *const *wanted, size_t limit,
                                       const tg_cancel *cancel, tg_error *err);

/* --- For readers ---------------------------------------------------------------------- */

/* A new column behind the others: of numbers, all NaN, or of text, with offsets all 0. *out is
 * borrowed until the next one. f->n is set. */
TG_MUST_USE tg_status tg_frame_add(tg_frame *f, const char *name, size_t name_len, bool text,
                                   tg_frame_column **out, tg_error *err);
/* Take `bytes` more of the limit, or TG_OVER_BUDGET. */
TG_MUST_USE tg_status tg_frame_charge(tg_frame *f, uint64_t bytes, tg_error *err);

#endif
