/* region/function.h - the function of a plan, whatever it is made of: a built-in operation, a
 * plug-in, a command, a worker, a program's own. Knows arrays' shapes, not arrays. */
#ifndef TG_REGION_FUNCTION_H
#define TG_REGION_FUNCTION_H

#include "nd/nd.h"
#include "tidegate/cancel.h"
#include "tidegate/plugin.h"

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
    bool outside;       /* may take long or wait (worker, command): cancelled by its token */
    bool fold;          /* brings a fold of its own (policy user) */
    uint32_t n_columns; /* of the output table, label and region name not counted */
    const char *const *columns;
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
} tg_function_ops;

struct tg_function {
    const tg_function_ops *ops;
    tg_function_facts facts;
};

/* kind: 'o' --op NAME[:k=v,...], 'p' --plugin FILE.so[:SYM], 'e' --exec CMD, 'w' --worker CMD.
 * text as the user gave it. TG_INVALID names the parameter, what it got and what it wanted, and
 * lists what is known. */
TG_MUST_USE tg_status tg_function_open(tg_function **out, char kind, const char *text,
                                       const tg_function_env *env, tg_error *err);
/* A program's own function of one output of IN's shape; facts may be changed before use. */
TG_MUST_USE tg_status tg_function_of(tg_function **out, tg_region_fn fn, void *user,
                                     const tg_function_env *env, tg_error *err);
/* TG_UNSUPPORTED: what it makes cannot be written: rows of a table, or no array at all. */
TG_MUST_USE tg_status tg_function_deliverable(const tg_function *f, tg_error *err);
void tg_function_free(tg_function *f); /* may be NULL */

#endif
