/* What people type behind --op, taken apart and read. Knows no operation's meaning. */
#include "base/text.h"
#include "region/op.h"

#include <stdio.h>
#include <string.h>

void tg_op_text_destroy(tg_op_text *t)
{
    tg_free(t->room);
    *t = (tg_op_text){0};
}

/* The end of a word that ends at `stop` or the terminator; a backslash takes the next character
 * as it is. The word is compacted in place and terminated; *more: stop was there. */
static char *cut_word(char *s, char stop, bool *more)
{
    char *to = s, *p = s;
    for (; *p != '\0' && *p != stop; p++) {
        if (*p == '\\' && p[1] != '\0')
            p++;
        *to++ = *p;
    }
    *more = *p == stop;
    char *next = *more ? p + 1 : p;
    *to = '\0';
    return next;
}

static tg_status add_param(tg_op_text *t, const char *key, const char *value, tg_error *err)
{
    if (key[0] == '\0')
        return tg_fail(err, TG_INVALID, "operation '%s': a parameter without a name", t->name);
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->param[i].key, key) == 0)
            return tg_fail(err, TG_INVALID, "operation '%s': parameter '%s' is given twice",
                           t->name, key);
    if (t->n == TG_OP_MAX_PARAMS)
        return tg_fail(err, TG_INVALID, "operation '%s': more than %d parameters", t->name,
                       TG_OP_MAX_PARAMS);
    tg_op_param *p = &t->param[t->n++];
    p->key = key;
    p->value[p->n++] = value;
    return TG_OK;
}

static tg_status add_value(tg_op_text *t, const char *value, tg_error *err)
{
    if (t->n == 0)
        return tg_fail(err, TG_INVALID, "operation '%s': got '%s', want NAME=VALUE", t->name,
                       value);
    tg_op_param *p = &t->param[t->n - 1];
    if (p->n == TG_MAX_NDIM)
        return tg_fail(err, TG_INVALID,
                       "operation '%s': parameter '%s' has more than %d values", t->name,
                       p->key, TG_MAX_NDIM);
    p->value[p->n++] = value;
    return TG_OK;
}

/* An '=' before the next comma makes it a key. */
static char *find_equals(char *s)
{
    for (; *s != '\0' && *s != ','; s++) {
        if (*s == '\\' && s[1] != '\0')
            s++;
        else if (*s == '=')
            return s;
    }
    return NULL;
}

tg_status tg_op_parse(tg_op_text *t, const char *text, tg_error *err)
{
    TG_AUTO(tg_op_text) r = {0};
    r.room = tg_strdup(text);
    if (r.room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the text of an operation");
    char *p = strchr(r.room, ':');
    bool more = p != NULL;
    if (p != NULL)
        *p++ = '\0';
    r.name = r.room;
    if (r.name[0] == '\0')
        return tg_fail(err, TG_INVALID, "operation '%.100s': no name before ':'", text);
    while (more) {
        char *equals = find_equals(p);
        if (equals != NULL) {
            *equals = '\0';
            char *value = equals + 1;
            char *next = cut_word(value, ',', &more);
            TG_TRY(add_param(&r, p, value, err));
            p = next;
        } else {
            char *next = cut_word(p, ',', &more);
            TG_TRY(add_value(&r, p, err));
            p = next;
        }
    }
    *t = r;
    r = (tg_op_text){0};
    return TG_OK;
}

static tg_op_param *find(tg_op_text *t, const char *key)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->param[i].key, key) == 0) {
            t->param[i].used = true;
            return &t->param[i];
        }
    return NULL;
}

static tg_status read_number(const tg_op_text *t, const tg_op_param *p, uint32_t i, double *v,
                             tg_error *err)
{
    tg_status st = tg_parse_double(p->value[i], v, err);
    if (st != TG_OK)
        tg_error_prefix(err, "operation '%s': parameter '%s'", t->name, p->key);
    return st;
}

static tg_status want_n(const tg_op_text *t, const tg_op_param *p, uint32_t n, tg_error *err)
{
    if (p->n != n)
        return tg_fail(err, TG_INVALID, "operation '%s': parameter '%s' got %u values, want %u",
                       t->name, p->key, p->n, n);
    return TG_OK;
}

tg_status tg_op_number(tg_op_text *t, const char *key, double *v, bool *given, tg_error *err)
{
    tg_op_param *p = find(t, key);
    if (given != NULL)
        *given = p != NULL;
    if (p == NULL)
        return TG_OK;
    TG_TRY(want_n(t, p, 1, err));
    return read_number(t, p, 0, v, err);
}

tg_status tg_op_pair(tg_op_text *t, const char *key, double v[2], bool *given, tg_error *err)
{
    tg_op_param *p = find(t, key);
    *given = p != NULL;
    if (p == NULL)
        return TG_OK;
    TG_TRY(want_n(t, p, 2, err));
    TG_TRY(read_number(t, p, 0, &v[0], err));
    TG_TRY(read_number(t, p, 1, &v[1], err));
    if (!(v[0] < v[1]))
        return tg_fail(err, TG_INVALID,
                       "operation '%s': parameter '%s' got %s,%s, want a smaller number first",
                       t->name, key, p->value[0], p->value[1]);
    return TG_OK;
}

tg_status tg_op_word(tg_op_text *t, const char *key, const char *const *words, int *which,
                     tg_error *err)
{
    tg_op_param *p = find(t, key);
    char known[128] = "";
    if (p == NULL)
        return TG_OK;
    TG_TRY(want_n(t, p, 1, err));
    for (int i = 0; words[i] != NULL; i++) {
        size_t len = strlen(known);
        if (strcmp(words[i], p->value[0]) == 0) {
            *which = i;
            return TG_OK;
        }
        (void)snprintf(known + len, sizeof known - len, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    return tg_fail(err, TG_INVALID,
                   "operation '%s': parameter '%s' got '%.60s', want one of %s", t->name, key,
                   p->value[0], known);
}

tg_status tg_op_string(tg_op_text *t, const char *key, const char **v, tg_error *err)
{
    tg_op_param *p = find(t, key);
    if (p == NULL)
        return TG_OK;
    TG_TRY(want_n(t, p, 1, err));
    *v = p->value[0];
    return TG_OK;
}

tg_status tg_op_axis(const char *name, const tg_function_env *env, uint32_t *axis,
                     tg_error *err)
{
    char known[160] = "";
    uint64_t number = 0;
    uint32_t ndim = env->in_shape->ndim;
    for (uint32_t d = 0; d < ndim; d++) {
        const char *a = env->axes != NULL ? env->axes[d] : NULL;
        size_t len = strlen(known);
        if (a != NULL && strcmp(a, name) == 0) {
            *axis = d;
            return TG_OK;
        }
        if (a != NULL)
            (void)snprintf(known + len, sizeof known - len, "%s, ", a);
    }
    if (tg_parse_u64(name, &number, NULL) == TG_OK && number < ndim) {
        *axis = (uint32_t)number;
        return TG_OK;
    }
    return tg_fail(err, TG_INVALID, "axis '%.40s' is not one of the array's: %s0 to %d", name,
                   known, (int)ndim - 1);
}

/* Names by which files call what is no direction in space. */
bool tg_axis_is_space(const char *name)
{
    static const char *const words[] = {"c", "t", "channel", "time", "frame", NULL};
    for (int i = 0; name != NULL && words[i] != NULL; i++)
        if (strcmp(words[i], name) == 0)
            return false;
    return true;
}

tg_status tg_op_axes(tg_op *op, tg_op_text *t, const tg_function_env *env, tg_error *err)
{
    tg_op_param *p = find(t, "axes");
    for (uint32_t d = 0; d < op->in_shape.ndim; d++)
        op->active[d] = p == NULL && tg_axis_is_space(env->axes != NULL ? env->axes[d] : NULL);
    for (uint32_t i = 0; p != NULL && i < p->n; i++) {
        uint32_t d = 0;
        tg_status st = tg_op_axis(p->value[i], env, &d, err);
        if (st != TG_OK) {
            tg_error_prefix(err, "operation '%s': parameter 'axes'", t->name);
            return st;
        }
        op->active[d] = true;
    }
    return TG_OK;
}

tg_status tg_op_per_axis(const tg_op *op, tg_op_text *t, const char *key, double *v,
                         bool *given, tg_error *err)
{
    tg_op_param *p = find(t, key);
    uint32_t ndim = op->in_shape.ndim;
    if (given != NULL)
        *given = p != NULL;
    if (p == NULL)
        return TG_OK;
    if (p->n != 1 && p->n != ndim)
        return tg_fail(err, TG_INVALID,
                       "operation '%s': parameter '%s' got %u values, want 1 or %u, one a "
                       "dimension",
                       t->name, key, p->n, ndim);
    for (uint32_t d = 0; d < ndim; d++)
        if (p->n > 1 || op->active[d])
            TG_TRY(read_number(t, p, p->n > 1 ? d : 0, &v[d], err));
    return TG_OK;
}

tg_status tg_op_dtype(tg_op *op, tg_op_text *t, tg_error *err)
{
    const char *name = NULL;
    tg_dtype out = op->f.facts.out_dtype;
    TG_TRY(tg_op_string(t, "dtype", &name, err));
    if (name == NULL)
        return TG_OK;
    tg_status st = tg_dtype_parse(name, &out, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "operation '%s': parameter 'dtype'", t->name);
        return st;
    }
    if (!tg_items_number(out))
        return tg_fail(
            err, TG_INVALID,
            "operation '%s': parameter 'dtype' got '%s', want an integer, a float or "
            "bool",
            t->name, name);
    op->f.facts.out_dtype = out;
    return TG_OK;
}

tg_status tg_op_need_numbers(const tg_op *op, tg_error *err)
{
    char room[16];
    if (!tg_items_number(op->in_dtype))
        return tg_fail(
            err, TG_UNSUPPORTED,
            "operation '%s': the array's items are %s, want integers, floats or bool",
            op->kind->name, tg_dtype_name(op->in_dtype, room));
    return TG_OK;
}
