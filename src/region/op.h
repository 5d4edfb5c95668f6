/* region/op.h - the built-in operations, for the op_*.c files only: what they have in common
 * and how their parameters are read. */
#ifndef TG_REGION_OP_H
#define TG_REGION_OP_H

#include "base/mem.h"
#include "region/function.h"
#include "region/items.h"

/* "NAME:k=v,v,k=v" taken apart. */
#define TG_OP_MAX_PARAMS 16

typedef struct tg_op_param {
    const char *key;
    const char *value[TG_MAX_NDIM]; /* a list goes on until the next key */
    uint32_t n;
    bool used;
} tg_op_param;

typedef struct tg_op_text {
    char *room; /* all strings lie here */
    const char *name;
    tg_op_param param[TG_OP_MAX_PARAMS];
    uint32_t n;
} tg_op_text;

/* TG_INVALID: no name, a value without a key, a key twice, too many. Knows no operation. */
TG_MUST_USE tg_status tg_op_parse(tg_op_text *t, const char *text, tg_error *err);
void tg_op_text_destroy(tg_op_text *t);
static inline void tg_op_text_auto(tg_op_text *t)
{
    tg_op_text_destroy(t);
}

/* Parameters; a getter marks what it has read, so that a key nobody reads is refused. An absent
 * one leaves the value alone; *given (may be NULL) says which. */
TG_MUST_USE tg_status tg_op_number(tg_op_text *t, const char *key, double *v, bool *given,
                                   tg_error *err);
TG_MUST_USE tg_status tg_op_pair(tg_op_text *t, const char *key, double v[2], bool *given,
                                 tg_error *err);
TG_MUST_USE tg_status tg_op_word(tg_op_text *t, const char *key, const char *const *words,
                                 int *which, tg_error *err);
TG_MUST_USE tg_status tg_op_string(tg_op_text *t, const char *key, const char **v,
                                   tg_error *err);

typedef struct tg_op_kind tg_op_kind;
typedef struct tg_op_table tg_op_table; /* op_measure.c */
typedef struct tg_op_mask tg_op_mask;   /* op_mask.c */

typedef struct tg_op {
    tg_function f; /* first */
    const tg_op_kind *kind;
    tg_shape in_shape;
    tg_dtype in_dtype;
    bool active[TG_MAX_NDIM]; /* axes that a filter or the connectivity goes along */
    double value, low, high;
    double from[2], to[2];
    bool from_given, to_given;
    int method;
    uint64_t size[TG_MAX_NDIM]; /* of the window */
    double sigma[TG_MAX_NDIM];
    double *weights[TG_MAX_NDIM];                    /* of gaussian: [0, radius] */
    uint64_t below[TG_MAX_NDIM], above[TG_MAX_NDIM]; /* reach of the window to either side */
    int64_t shift[TG_MAX_NDIM];
    tg_op_table *table; /* owned; NULL: it makes no rows */
    tg_op_mask *mask;   /* owned; NULL: it has none */
    void (*merge_row)(const tg_function *f, double *into, const double *more);
    void (*finish_row)(const tg_function *f, const double *values, double *columns);
} tg_op;

void tg_op_table_free(tg_op_table *m); /* may be NULL */
void tg_op_mask_free(tg_op_mask *m);   /* may be NULL */

struct tg_op_kind {
    const char *name;
    const char *params; /* for messages */
    tg_status (*setup)(tg_op *op, tg_op_text *t, const tg_function_env *env, tg_error *err);
    tg_status (*call)(const tg_op *op, const tg_region_call *c, const tg_cancel *cancel,
                      tg_error *err);
    uint64_t (*scratch)(const tg_op *op, const tg_shape *in, const tg_shape *out);
};

extern const tg_op_kind tg_ops_pixel[], tg_ops_level[], tg_ops_filter[], tg_ops_box[],
    tg_ops_label[], tg_ops_reduce[], tg_ops_table[],
    tg_ops_mask[]; /* each ends with a NULL name */

/* A row's worth of scratch that lies on the stack. */
#define TG_OP_BLOCK 512

/* axes=y,x by name or number: sets op->active. Without it: all axes but those that the array
 * names as channel or time. */
TG_MUST_USE tg_status tg_op_axes(tg_op *op, tg_op_text *t, const tg_function_env *env,
                                 tg_error *err);
TG_MUST_USE tg_status tg_op_axis(const char *name, const tg_function_env *env, uint32_t *axis,
                                 tg_error *err);
/* One number for all active axes, or one a dimension of the array. */
TG_MUST_USE tg_status tg_op_per_axis(const tg_op *op, tg_op_text *t, const char *key, double *v,
                                     bool *given, tg_error *err);
/* The whole of out becomes op->value; in becomes out, cast. */
void tg_op_fill(const tg_op *op, const tg_region_call *c);
TG_MUST_USE tg_status tg_op_cast(const tg_op *op, const tg_region_call *c,
                                 const tg_cancel *cancel, tg_error *err);
TG_MUST_USE tg_status tg_op_dtype(tg_op *op, tg_op_text *t, tg_error *err); /* dtype= */
TG_MUST_USE tg_status tg_op_need_numbers(const tg_op *op, tg_error *err);

#endif
