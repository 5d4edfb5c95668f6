/* region/rows.h - rows that a function adds while it is called, on their way to a table: kept
 * in a file beside the output until all regions are done, then sorted, merged and written.
 *
 * rows.c        the file: `rows-PART`, a journal (docs/formats/rows.md)
 * row_sort.c    external sort within a given room
 * row_table.c   the table: CSV, JSON, a table of an image */
#ifndef TG_REGION_ROWS_H
#define TG_REGION_ROWS_H

#include "base/json.h"
#include "exec/exec.h"
#include "region/folder.h"
#include "region/plan.h"
#include "zarr/zarr.h"

/* --- The file ------------------------------------------------------------------------------
 */

/* A row as it is kept: the label and the number of the row within its region's call, then as
 * many doubles as the function's facts.n_values says. */
#define TG_ROW_HEAD      2
#define TG_ROW_BUFFER    ((size_t)64 << 10) /* of one call, at most so many wait in memory */
#define TG_ROW_LOG_BYTES ((size_t)1 << 20)  /* what the file itself takes */

typedef struct tg_row_past {
    uint32_t *attempt; /* of each region: the one whose rows count; 0: not done */
    uint32_t last_attempt;
    uint64_t n_done, n_failed;
    bool begun; /* by this very run */
    bool all;   /* regions are done */
    bool ended; /* the table is written */
    bool other; /* of other parameters, and ended */
} tg_row_past;
void tg_row_past_destroy(tg_row_past *p);
static inline void tg_row_past_auto(tg_row_past *p)
{
    tg_row_past_destroy(p);
}

typedef struct tg_row_log tg_row_log;

/* What an earlier run has left. TG_INVALID: an unfinished one of other parameters. */
TG_MUST_USE tg_status tg_row_look(const tg_folder *folder, const tg_plan *plan,
                                  tg_row_past *past, tg_error *err);
/* Begin, or go on after `past`, which is taken over. */
TG_MUST_USE tg_status tg_row_log_open(tg_row_log **out, const tg_folder *folder,
                                      const tg_plan *plan, uint32_t n_values,
                                      uint64_t interval_ms, tg_row_past *past, tg_error *err);
void tg_row_log_free(tg_row_log *l); /* may be NULL */
bool tg_row_log_is_done(const tg_row_log *l, uint64_t region);

/* One call's rows; any number of calls overlap. */
typedef struct tg_row_call {
    tg_row_log *log;
    uint32_t region, attempt;
    uint64_t n;     /* rows so far */
    double *buffer; /* TG_ROW_BUFFER bytes, the caller's */
    size_t n_buffered;
    tg_error failed;
} tg_row_call;
void tg_row_begin(tg_row_call *c, uint32_t region);
/* tg_region_call.row; user: the tg_row_call. */
int tg_row_add(void *user, uint64_t label, const double *values);
/* The region is done. A region whose call failed is forgotten, unless it is left out for good
 * (why not NULL). */
TG_MUST_USE tg_status tg_row_done(tg_row_call *c, const char *why, tg_error *err);
/* What was added is durable; all: and all regions are done. */
TG_MUST_USE tg_status tg_row_log_sync(tg_row_log *l, bool all, tg_error *err);
/* The table is written. */
TG_MUST_USE tg_status tg_row_log_end(const tg_folder *folder, tg_error *err);

/* Every row that counts, in any order. */
typedef tg_status (*tg_row_fn)(void *user, uint32_t region, uint64_t label, uint64_t number,
                               const double *values, tg_error *err);
TG_MUST_USE tg_status tg_row_each(const tg_folder *folder, const tg_row_past *past,
                                  uint32_t n_values, tg_row_fn fn, void *user, tg_error *err);

/* --- Sorting --------------------------------------------------------------------------------
 */

#define TG_ROW_KEYS 4
typedef struct tg_row_sort tg_row_sort;

typedef struct tg_row_sort_options {
    const tg_folder *folder;
    uint32_t n_values;
    uint32_t
        n_group; /* rows whose first n_group keys are equal are merged, in order; 0: none */
    void (*merge)(void *user, double *into, const double *more);
    void *user;
    size_t room; /* bytes; at least TG_ROW_SORT_LEAST */
} tg_row_sort_options;
#define TG_ROW_SORT_LEAST ((size_t)256 << 10)

TG_MUST_USE tg_status tg_row_sort_new(tg_row_sort **out, const tg_row_sort_options *o,
                                      tg_error *err);
/* No two rows have all keys equal. */
TG_MUST_USE tg_status tg_row_sort_add(tg_row_sort *s, const uint64_t key[TG_ROW_KEYS],
                                      const double *values, const tg_cancel *cancel,
                                      tg_error *err);
/* Rows ascending by their keys; as often as wanted, after the last add. */
typedef tg_status (*tg_row_sorted_fn)(void *user, const uint64_t key[TG_ROW_KEYS],
                                      const double *values, tg_error *err);
TG_MUST_USE tg_status tg_row_sort_each(tg_row_sort *s, tg_row_sorted_fn fn, void *user,
                                       const tg_cancel *cancel, tg_error *err);
void tg_row_sort_free(tg_row_sort *s); /* may be NULL */
TG_DEFINE_AUTO_PTR(tg_row_sort, tg_row_sort_free)

/* --- The table ------------------------------------------------------------------------------
 */

typedef struct tg_row_target {
    char file[1024]; /* FILE.csv or FILE.json; "": a table of an image */
    tg_store *store; /* of the image */
    char image[1024], name[128];
    int format;          /* of Zarr */
    const char *backend; /* "anndata", "csv", "json" */
} tg_row_target;

/* "FILE.csv", "FILE.json" or "table:NAME". */
TG_MUST_USE tg_status tg_row_target_parse(tg_row_target *t, const char *text,
                                          const char *backend, tg_error *err);
TG_MUST_USE tg_status tg_row_target_exists(const tg_row_target *t, bool *exists,
                                           const tg_cancel *cancel, tg_error *err);
/* Bytes of the budget that the next takes at least, beside a place for each region. */
uint64_t tg_row_table_bytes(const tg_function *fn);
/* Sort what the file beside holds and write it, over what is there. *n: rows of the table. */
TG_MUST_USE tg_status tg_row_table_write(const tg_row_target *t, const tg_folder *folder,
                                         const tg_plan *plan, const tg_function *fn,
                                         tg_budget *budget, uint64_t *n,
                                         const tg_cancel *cancel, tg_error *err);

#endif
