/* table/anndata.h - AnnData groups (encoding 0.1.0), formats 2 and 3: a matrix X of
 * observations by variables, and a table for each of the two. What anndata, scanpy and ngio
 * open. The bytes are in docs/formats/anndata.md.
 *
 * Written in pieces, in any order: rows of obs, rows of var, and X. Until tg_anndata_close()
 * the group does not say that it is an AnnData, so a reader never takes half a one for a whole.
 * Threads: one call at a time; but X dense is an array, with an array's rules. */
#ifndef TG_TABLE_ANNDATA_H
#define TG_TABLE_ANNDATA_H

#include "table/table.h"

typedef struct tg_anndata tg_anndata;

typedef enum tg_anndata_x {
    TG_ANNDATA_NO_X,
    TG_ANNDATA_DENSE,
    TG_ANNDATA_CSR, /* rows of X are appended: what each observation holds */
    TG_ANNDATA_CSC  /* columns of X are appended: what each variable holds */
} tg_anndata_x;

typedef struct tg_anndata_options {
    int format;            /* 2 or 3; 0: 3 */
    uint64_t n_obs, n_var; /* of a dense X: its shape. Sparse: as many as are appended, 0 */
    tg_anndata_x x;
    tg_dtype x_dtype; /* a number; anndata's users expect float32 or float64 */
    /* Dense: items of a chunk along obs and var; 0: 4096, and all up to 256. Sparse: items of a
     * chunk of data and indices in chunk[0]; 0: 65536. */
    uint64_t chunk[2];
    /* Sparse: a number that the items of X do not exceed. Below 2^31, as n_obs and n_var must
     * then be, indices take 4 bytes; 0: not known, 8 bytes. */
    uint64_t most_items;
    /* The names of the rows, strings, come first, under `index` (NULL: "_index"); then these.
     */
    const tg_table_column *obs, *var;
    uint32_t n_obs_columns, n_var_columns;
    const char *obs_index, *var_index;
    uint64_t chunk_rows; /* of obs and var, as in tg_table_options */
    const char *codec;   /* as in tg_array_options */
    bool no_checksum;
    const char *attributes; /* JSON object, beside the encoding's; NULL: none */
    bool overwrite;         /* replace a node of this path */
} tg_anndata_options;

/* Ancestors become groups. TG_EXISTS: a node is there. */
TG_MUST_USE tg_status tg_anndata_create(tg_anndata **out, tg_store *store, const char *path,
                                        const tg_anndata_options *options,
                                        const tg_cancel *cancel, tg_error *err);
/* Borrowed. Rows are appended with tg_table_append(): block 0 is the names. */
tg_table *tg_anndata_obs(tg_anndata *a);
tg_table *tg_anndata_var(tg_anndata *a);
/* X, if it is dense: n_obs x n_var, filled with 0, to be written box by box. Else NULL. */
tg_array *tg_anndata_dense(tg_anndata *a);
/* n more rows (CSR) or columns (CSC) of a sparse X. Row i has the items [begin[i], begin[i +
 * 1]) of indices and values (native, of x_dtype), with ascending indices. They are gathered to
 * whole chunks, so any n will do. TG_INVALID: indices that do not ascend, or beyond what
 * most_items promised; nothing was added then. */
TG_MUST_USE tg_status tg_anndata_append(tg_anndata *a, uint64_t n, const uint64_t *begin,
                                        const uint64_t *indices, const void *values,
                                        const tg_cancel *cancel, tg_error *err);
/* The most bytes that a call takes beyond the caller's buffers, what is gathered included. */
size_t tg_anndata_worst_bytes(const tg_anndata *a);
/* Write what is pending, and that this is an AnnData. TG_INVALID: obs, var and X do not agree
 * in their numbers of rows and columns. Only free may follow. */
TG_MUST_USE tg_status tg_anndata_close(tg_anndata *a, const tg_cancel *cancel, tg_error *err);
/* What was not closed stays a group that says nothing of itself. a may be NULL. */
void tg_anndata_free(tg_anndata *a);
TG_DEFINE_AUTO_PTR(tg_anndata, tg_anndata_free)

#endif
