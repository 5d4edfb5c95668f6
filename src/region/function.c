/* Opens the function of a plan by its kind. The built-in operations meet their table here. */
#include "region/function.h"

#include "base/text.h"
#include "region/function_kinds.h"
#include "region/op.h"
#include "tidegate/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const tg_op_kind *const groups[] = {tg_ops_pixel, tg_ops_level, tg_ops_filter,
                                           tg_ops_box,   tg_ops_label, tg_ops_reduce,
                                           tg_ops_mask,  tg_ops_table, NULL};

static const tg_op_kind *find_kind(const char *name)
{
    for (int g = 0; groups[g] != NULL; g++)
        for (const tg_op_kind *k = groups[g]; k->name != NULL; k++)
            if (strcmp(k->name, name) == 0)
                return k;
    return NULL;
}

static tg_status fail_unknown(const char *name, tg_error *err)
{
    char known[400] = "";
    for (int g = 0; groups[g] != NULL; g++)
        for (const tg_op_kind *k = groups[g]; k->name != NULL; k++) {
            size_t len = strlen(known);
            (void)snprintf(known + len, sizeof known - len, " %s", k->name);
        }
    return tg_fail(err, TG_INVALID, "operation '%.60s' is unknown; known are%s", name, known);
}

static tg_status call_op(tg_function *f, const tg_region_call *call, uint32_t slot,
                         const tg_cancel *cancel, tg_error *err)
{
    const tg_op *op = (const tg_op *)f;
    (void)slot;
    return op->kind->call(op, call, cancel, err);
}

static uint64_t scratch_op(const tg_function *f, const tg_shape *in, const tg_shape *out)
{
    const tg_op *op = (const tg_op *)f;
    return op->kind->scratch != NULL ? op->kind->scratch(op, in, out) : 0;
}

static void free_op(tg_function *f)
{
    tg_op *op = (tg_op *)f;
    for (uint32_t d = 0; d < TG_MAX_NDIM; d++)
        tg_free(op->weights[d]);
    tg_op_table_free(op->table);
    tg_op_mask_free(op->mask);
    tg_free(op);
}

static void merge_op(const tg_function *f, double *into, const double *more)
{
    ((const tg_op *)f)->merge_row(f, into, more);
}

static void finish_op(const tg_function *f, const double *values, double *columns)
{
    ((const tg_op *)f)->finish_row(f, values, columns);
}

static const tg_function_ops op_ops = {call_op, scratch_op, NULL, free_op, NULL, NULL};
static const tg_function_ops row_ops = {call_op, scratch_op, NULL,
                                        free_op, merge_op,   finish_op};

static tg_status check_all_used(const tg_op_text *t, const tg_op_kind *k, tg_error *err)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (!t->param[i].used)
            return tg_fail(err, TG_INVALID,
                           "operation '%s' has no parameter '%.60s'; it has %s", k->name,
                           t->param[i].key, k->params[0] ? k->params : "none");
    return TG_OK;
}

void tg_function_plain_facts(tg_function_facts *facts, const tg_function_env *env)
{
    facts->has_out = true;
    facts->out_shape = *env->in_shape;
    facts->out_dtype = env->in_dtype;
    facts->in_place = true;
    facts->connectivity = 1;
    for (uint32_t d = 0; d < TG_MAX_NDIM; d++) {
        facts->out_step[d] = 1;
        facts->across[d] = d < env->in_shape->ndim &&
                           tg_axis_is_space(env->axes == NULL ? NULL : env->axes[d]);
    }
}

static tg_status open_op(tg_function **out, const char *text, const tg_function_env *env,
                         tg_error *err)
{
    TG_AUTO(tg_op_text) t = {0};
    TG_TRY(tg_op_parse(&t, text, err));
    const tg_op_kind *kind = find_kind(t.name);
    if (kind == NULL)
        return fail_unknown(t.name, err);
    tg_op *op = tg_calloc(1, sizeof *op);
    if (op == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for operation '%s'", kind->name);
    op->f.ops = &op_ops;
    op->kind = kind;
    op->in_shape = *env->in_shape;
    op->in_dtype = env->in_dtype;
    tg_function_plain_facts(&op->f.facts, env);
    tg_status st = kind->setup(op, &t, env, err);
    if (st == TG_OK)
        st = check_all_used(&t, kind, err);
    if (op->merge_row != NULL)
        op->f.ops = &row_ops;
    if (st != TG_OK) {
        free_op(&op->f);
        return st;
    }
    *out = &op->f;
    return TG_OK;
}

/* --- A program's own --- */

typedef struct own_function {
    tg_function f;
    tg_region_fn fn;
    void *user;
} own_function;

tg_status tg_function_call_fn(tg_region_fn fn, void *user, const tg_region_call *call,
                              tg_error *err)
{
    char message[256] = "";
    tg_region_call mine = *call;

    mine.message = message;
    const int rc = fn(&mine, user);
    message[sizeof message - 1] = '\0';
    if (rc != 0)
        return tg_fail(err, TG_IO, "the function says %d%s%s", rc, message[0] ? ": " : "",
                       message);
    return TG_OK;
}

static tg_status call_own(tg_function *f, const tg_region_call *call, uint32_t slot,
                          const tg_cancel *cancel, tg_error *err)
{
    const own_function *own = (const own_function *)f;
    (void)slot;
    (void)cancel;
    return tg_function_call_fn(own->fn, own->user, call, err);
}

static void free_own(tg_function *f)
{
    tg_free(f);
}

static const tg_function_ops own_ops = {call_own, NULL, NULL, free_own, NULL, NULL};

tg_status tg_function_of(tg_function **out, tg_region_fn fn, void *user,
                         const tg_function_env *env, tg_error *err)
{
    own_function *own = tg_calloc(1, sizeof *own);
    if (own == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a function");
    own->f.ops = &own_ops;
    own->fn = fn;
    own->user = user;
    tg_function_plain_facts(&own->f.facts, env);
    *out = &own->f;
    return TG_OK;
}

tg_status tg_function_open(tg_function **out, char kind, const char *text,
                           const tg_function_env *env, tg_error *err)
{
    switch (kind) {
    case 'o':
        return open_op(out, text, env, err);
    case 'p':
        return tg_function_open_plugin(out, text, env, err);
    case 'e':
        return tg_function_open_exec(out, text, env, err);
    case 'w':
        return tg_function_open_worker(out, text, env, err);
    default:
        return tg_fail(err, TG_UNSUPPORTED, "functions of kind '%c' are not built in", kind);
    }
}

tg_status tg_function_deliverable(const tg_function *f, bool has_table, bool has_out,
                                  tg_error *err)
{
    const bool rows = f->facts.n_columns > 0;

    if (rows && f->facts.has_out)
        return tg_fail(err, TG_UNSUPPORTED,
                       "the function makes an array and %" PRIu32
                       " columns of a table: both at once are not there yet",
                       f->facts.n_columns);
    if (!rows && !f->facts.has_out)
        return tg_fail(err, TG_UNSUPPORTED,
                       "the function makes neither an array nor rows of a table");
    if (rows && !has_table)
        return tg_fail(err, TG_INVALID,
                       "the function makes rows of a table: where to? (--table)");
    if (rows && has_out)
        return tg_fail(err, TG_INVALID, "the function makes rows of a table and no OUT");
    if (!rows && has_table)
        return tg_fail(err, TG_INVALID, "--table: the function makes no rows");
    return TG_OK;
}

void tg_function_free(tg_function *f)
{
    if (f != NULL)
        f->ops->free(f);
}
