/* region/function.h - the function of a plan, whatever it is made of: a built-in operation, a
 * plug-in, a command, a worker, a program's own. Knows arrays' shapes, not arrays. */
#ifndef TG_REGION_FUNCTION_H
#define TG_REGION_FUNCTION_H

#include "exec/exec.h"
#include "nd/nd.h"
#include "tidegate/cancel.h"
#include "tidegate/plugin.h"
#include "tidegate/store.h"

/* Rows of a table: as they are added, in list order; one for each label (and key) of all
 * regions, merged; one for each label of each region. */
typedef enum tg_row_kind { TG_ROWS_PLAIN, TG_ROWS_OF_LABELS, TG_ROWS_OF_REGIONS } tg_row_kind;

/* What it makes of an array of this shape and type; filled by tg_function_open(). */
typedef struct tg_function_facts {
    bool has_out;       /* false: rows only (measure, stats) */
    tg_shape out_shape; /* of OUT for this IN */
    tg_dtype
        out_dtype; /* unless the user asks for another: then results are cast, saturating */
    uint64_t halo[TG_MAX_NDIM]; /* the least it needs; the user's may be larger */
    uint64_t
        out_step[TG_MAX_NDIM]; /* items of IN per item of OUT: 1, or K of downsample:K; a
                                * dimension that project removes to length 1: IN's extent */
    bool in_place;             /* may OUT be IN? */
    bool labels;               /* makes local labels 1..n per region (policy labels) */
    uint32_t connectivity;     /* of items of two regions' objects that touch: how many of */
    bool across[TG_MAX_NDIM];  /* ... these dimensions may differ, by one, at once */
    bool outside;       /* may take long or wait (worker, command): cancelled by its token */
    bool fold;          /* brings a fold of its own (policy user) */
    uint32_t n_columns; /* of the output table, label and region name not counted */
    const char *const *columns;
    uint32_t n_values; /* doubles of a row as it is added; n_columns where it is not finished */
    bool has_key;      /* the first of them is a place along an axis, and a column of its own */
    const char *key;   /* its name */
    tg_row_kind rows;
    char label_path[128]; /* of the label image that rows are of, below IN's image; "": none */
} tg_function_facts;

typedef struct tg_function tg_function;

typedef struct tg_function_env {
    const tg_shape *in_shape;
    tg_dtype in_dtype;
    const tg_shape *in_chunk;
    const char *const *axes; /* names, NULL where unknown */
    const double *scale;     /* NULL: all 1 */
    uint32_t jobs;           /* calls that may overlap: slot is in [0, jobs) */
    uint64_t timeout_ms;     /* of one call; 0: none */
    const tg_dtype *wanted;  /* --dtype, where what is made is the user's to say; NULL: IN's */
    bool planned;            /* wanted is what it makes, as an earlier opening has said */
    tg_store *in_store;      /* for operations that read another array; NULL: none can */
    const char *image;       /* path of IN's image in it: labels/ lies below */
    const tg_cancel *cancel;
    tg_budget *budget; /* what is read when it is opened is reserved here; NULL: nowhere */
} tg_function_env;

typedef struct tg_function_ops {
    /* Thread-safe; no two calls with one slot overlap. A failure is this region's: TG_CANCELLED
     * by cancel, else any status; the message does not name the region, the engine does. */
    tg_status (*call)(tg_function *f, const tg_region_call *call, uint32_t slot,
                      const tg_cancel *cancel, tg_error *err);
    /* Bytes that one call takes beyond in and out, at most. NULL: none. */
    uint64_t (*scratch_bytes)(const tg_function *f, const tg_shape *in, const tg_shape *out);
    /* Policy user: fold `patch` into `base`, both of one shape, in list order. NULL: none. */
    tg_status (*fold)(tg_function *f, const tg_region_view *base, const tg_region_view *patch,
                      uint64_t roi, tg_error *err);
    void (*free)(tg_function *f);
    /* Rows of one label: values of `more`, which come later, into those of `into`. NULL: rows
     * are never merged. */
    void (*merge_row)(const tg_function *f, double *into, const double *more);
    /* n_values of a row to n_columns of the table. NULL: they are the same. */
    void (*finish_row)(const tg_function *f, const double *values, double *columns);
} tg_function_ops;

struct tg_function {
    const tg_function_ops *ops;
    tg_function_facts facts;
};

/* Is an axis of this name (NULL: unknown) a direction in space? Channels and time are not. */
bool tg_axis_is_space(const char *name);
/* kind: 'o' --op NAME[:k=v,...], 'p' --plugin FILE.so[:SYM], 'e' --exec CMD, 'w' --worker CMD.
 * text as the user gave it. TG_INVALID names the parameter, what it got and what it wanted, and
 * lists what is known. */
TG_MUST_USE tg_status tg_function_open(tg_function **out, char kind, const char *text,
                                       const tg_function_env *env, tg_error *err);
/* A program's own function of one output of IN's shape; facts may be changed before use. */
TG_MUST_USE tg_status tg_function_of(tg_function **out, tg_region_fn fn, void *user,
                                     const tg_function_env *env, tg_error *err);
/* TG_INVALID: what it makes has no place: rows without a table, a table without rows, no array
 * where there is an OUT. TG_UNSUPPORTED: rows and an array. */
TG_MUST_USE tg_status tg_function_deliverable(const tg_function *f, bool has_table,
                                              bool has_out, tg_error *err);
void tg_function_free(tg_function *f); /* may be NULL */

#endif
