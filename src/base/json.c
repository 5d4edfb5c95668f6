/* base/json.c - JSON trees on json-c, the only file that sees its header.
 *
 * json-c has no node for null: &null_node stands for it wherever a node is handed out. Doubles
 * carry their own text, so that what is read is written back as it was. */
#include "base/json.h"

#include "base/json_scan.h"
#include "tidegate/text.h"

#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static char null_node;

static tg_json *wrap(json_object *o)
{
    return o == NULL ? (tg_json *)(void *)&null_node : (tg_json *)(void *)o;
}

static json_object *unwrap(const tg_json *v)
{
    /* json-c takes no const; what only reads does not change the tree. */
    union {
        const void *c;
        void *m;
    } p = {v};
    return v == NULL || p.m == &null_node ? NULL : p.m;
}

void tg_json_free(tg_json *root)
{
    (void)json_object_put(unwrap(root));
}

/* --- Reading --------------------------------------------------------------- */

static size_t count_members(json_object *o)
{
    size_t n = 0;
    if (json_object_is_type(o, json_type_object)) {
        json_object_object_foreach(o, key, value)
        {
            (void)key;
            n += 1 + count_members(value);
        }
    } else if (json_object_is_type(o, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(o); i++)
            n += count_members(json_object_array_get_idx(o, i));
    }
    return n;
}

tg_status tg_json_parse(tg_json **out, const char *text, size_t len, tg_json_options options,
                        tg_error *err)
{
    size_t n_members = 0;

    if (len > TG_JSON_MAX_BYTES)
        return tg_fail(err, TG_OVER_BUDGET, "JSON of %zu bytes, at most %zu", len,
                       TG_JSON_MAX_BYTES);
    TG_TRY(tg_json_scan(text, len, options.allow_nan, &n_members, err));
    json_tokener *tok = json_tokener_new_ex(TG_JSON_MAX_DEPTH + 1);
    if (tok == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to read JSON");
    json_object *o = json_tokener_parse_ex(tok, text, (int)len);
    enum json_tokener_error e = json_tokener_get_error(tok);
    if (e == json_tokener_continue) /* a bare number: only a further byte can end it */
        o = json_tokener_parse_ex(tok, "", 1), e = json_tokener_get_error(tok);
    json_tokener_free(tok);
    if (e != json_tokener_success) {
        (void)json_object_put(o);
        return tg_fail(err, TG_CORRUPT, "JSON: %s", json_tokener_error_desc(e));
    }
    if (count_members(o) != n_members) {
        (void)json_object_put(o);
        return tg_json_twice(text, len, options.allow_nan, n_members, err);
    }
    *out = wrap(o);
    return TG_OK;
}

tg_status tg_json_copy(tg_json **out, const tg_json *from, tg_error *err)
{
    json_object *o = NULL;
    if (unwrap(from) != NULL && json_object_deep_copy(unwrap(from), &o, NULL) != 0)
        return tg_fail(err, TG_NO_MEMORY, "no memory to copy JSON");
    *out = wrap(o);
    return TG_OK;
}

static bool equal_members(json_object *a, json_object *b)
{
    if (json_object_object_length(a) != json_object_object_length(b))
        return false;
    json_object_object_foreach(a, key, value)
    {
        json_object *other = NULL;
        if (!json_object_object_get_ex(b, key, &other) ||
            !tg_json_equal(wrap(value), wrap(other)))
            return false;
    }
    return true;
}

static bool equal_items(json_object *a, json_object *b)
{
    size_t n = json_object_array_length(a);
    if (n != json_object_array_length(b))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!tg_json_equal(wrap(json_object_array_get_idx(a, i)),
                           wrap(json_object_array_get_idx(b, i))))
            return false;
    return true;
}

bool tg_json_equal(const tg_json *a, const tg_json *b)
{
    json_object *x = unwrap(a), *y = unwrap(b);
    tg_json_kind kind = tg_json_kind_of(a);
    if (kind != tg_json_kind_of(b))
        return false;
    if (kind == TG_JSON_OBJECT)
        return equal_members(x, y);
    if (kind == TG_JSON_ARRAY)
        return equal_items(x, y);
    if (kind == TG_JSON_DOUBLE && isnan(json_object_get_double(x)))
        return isnan(json_object_get_double(y)); /* json-c: no NaN equals any */
    return json_object_equal(x, y) != 0;
}

tg_json_kind tg_json_kind_of(const tg_json *v)
{
    switch (json_object_get_type(unwrap(v))) {
    case json_type_boolean:
        return TG_JSON_BOOL;
    case json_type_double:
        return TG_JSON_DOUBLE;
    case json_type_int:
        return TG_JSON_INT;
    case json_type_object:
        return TG_JSON_OBJECT;
    case json_type_array:
        return TG_JSON_ARRAY;
    case json_type_string:
        return TG_JSON_STRING;
    case json_type_null:
        break;
    }
    return TG_JSON_NULL;
}

const char *tg_json_kind_name(tg_json_kind kind)
{
    static const char *const names[] = {
        [TG_JSON_NULL] = "null",     [TG_JSON_BOOL] = "boolean",  [TG_JSON_INT] = "integer",
        [TG_JSON_DOUBLE] = "number", [TG_JSON_STRING] = "string", [TG_JSON_ARRAY] = "array",
        [TG_JSON_OBJECT] = "object",
    };
    return names[kind];
}

const tg_json *tg_json_get(const tg_json *object, const char *key)
{
    json_object *found = NULL, *o = unwrap(object);
    if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &found))
        return NULL;
    return wrap(found);
}

tg_json *tg_json_get_mutable(tg_json *object, const char *key)
{
    json_object *found = NULL, *o = unwrap(object);
    if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &found))
        return NULL;
    return wrap(found);
}

size_t tg_json_size(const tg_json *v)
{
    switch (tg_json_kind_of(v)) {
    case TG_JSON_OBJECT:
        return (size_t)json_object_object_length(unwrap(v));
    case TG_JSON_ARRAY:
        return json_object_array_length(unwrap(v));
    default:
        return 0;
    }
}

static struct lh_entry *entry_at(const tg_json *object, size_t i)
{
    if (tg_json_kind_of(object) != TG_JSON_OBJECT)
        return NULL;
    struct lh_entry *e = lh_table_head(json_object_get_object(unwrap(object)));
    while (e != NULL && i-- > 0)
        e = lh_entry_next(e);
    return e;
}

const char *tg_json_key_at(const tg_json *object, size_t i)
{
    struct lh_entry *e = entry_at(object, i);
    return e == NULL ? NULL : (const char *)lh_entry_k(e);
}

const tg_json *tg_json_at(const tg_json *v, size_t i)
{
    if (tg_json_kind_of(v) == TG_JSON_ARRAY)
        return i < tg_json_size(v) ? wrap(json_object_array_get_idx(unwrap(v), i)) : NULL;
    struct lh_entry *e = entry_at(v, i);
    return e == NULL ? NULL : wrap((json_object *)lh_entry_v(e));
}

static tg_status wrong_kind(const tg_json *v, const char *want, tg_error *err)
{
    return tg_fail(err, TG_CORRUPT, "got %s, want %s",
                   v == NULL ? "nothing" : tg_json_kind_name(tg_json_kind_of(v)), want);
}

tg_status tg_json_u64(const tg_json *v, uint64_t *out, tg_error *err)
{
    if (tg_json_kind_of(v) != TG_JSON_INT)
        return wrong_kind(v, "an integer", err);
    int64_t s = json_object_get_int64(unwrap(v));
    if (s < 0)
        return tg_fail(err, TG_CORRUPT, "got %lld, want an integer of 0 or more", (long long)s);
    *out = json_object_get_uint64(unwrap(v));
    return TG_OK;
}

tg_status tg_json_i64(const tg_json *v, int64_t *out, tg_error *err)
{
    if (tg_json_kind_of(v) != TG_JSON_INT)
        return wrong_kind(v, "an integer", err);
    int64_t s = json_object_get_int64(unwrap(v));
    uint64_t u = json_object_get_uint64(unwrap(v));
    if (s == INT64_MAX && u > INT64_MAX) /* json-c saturates */
        return tg_fail(err, TG_CORRUPT, "got %llu, want an integer below 2^63",
                       (unsigned long long)u);
    *out = s;
    return TG_OK;
}

tg_status tg_json_double(const tg_json *v, double *out, tg_error *err)
{
    tg_json_kind kind = tg_json_kind_of(v);
    if (kind != TG_JSON_INT && kind != TG_JSON_DOUBLE)
        return wrong_kind(v, "a number", err);
    int64_t s = json_object_get_int64(unwrap(v));
    if (kind == TG_JSON_DOUBLE)
        *out = json_object_get_double(unwrap(v));
    else
        *out = s < 0 ? (double)s : (double)json_object_get_uint64(unwrap(v));
    return TG_OK;
}

tg_status tg_json_bool(const tg_json *v, bool *out, tg_error *err)
{
    if (tg_json_kind_of(v) != TG_JSON_BOOL)
        return wrong_kind(v, "true or false", err);
    *out = json_object_get_boolean(unwrap(v)) != 0;
    return TG_OK;
}

tg_status tg_json_string(const tg_json *v, const char **out, size_t *len, tg_error *err)
{
    if (tg_json_kind_of(v) != TG_JSON_STRING)
        return wrong_kind(v, "a string", err);
    *out = json_object_get_string(unwrap(v));
    if (len != NULL)
        *len = (size_t)json_object_get_string_len(unwrap(v));
    return TG_OK;
}

/* --- Making ---------------------------------------------------------------- */

/* NULL from json-c is "no memory" here, and stays NULL. */
static tg_json *made(json_object *o)
{
    return (tg_json *)(void *)o;
}

tg_json *tg_json_new_object(void)
{
    return made(json_object_new_object());
}

tg_json *tg_json_new_array(void)
{
    return made(json_object_new_array());
}

tg_json *tg_json_new_u64(uint64_t v)
{
    return made(json_object_new_uint64(v));
}

tg_json *tg_json_new_i64(int64_t v)
{
    return made(json_object_new_int64(v));
}

tg_json *tg_json_new_double(double v)
{
    char text[40];
    tg_format_double(text, sizeof text, v);
    return made(json_object_new_double_s(v, text));
}

tg_json *tg_json_new_bool(bool v)
{
    return made(json_object_new_boolean(v));
}

tg_json *tg_json_new_string(const char *s)
{
    return made(json_object_new_string(s));
}

tg_json *tg_json_new_null(void)
{
    return wrap(NULL);
}

tg_status tg_json_set(tg_json *object, const char *key, tg_json *value, tg_error *err)
{
    if (value == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for JSON member '%s'", key);
    if (json_object_object_add(unwrap(object), key, unwrap(value)) == 0)
        return TG_OK;
    tg_json_free(value);
    return tg_fail(err, TG_NO_MEMORY, "no memory for JSON member '%s'", key);
}

tg_status tg_json_append(tg_json *array, tg_json *value, tg_error *err)
{
    if (value != NULL && json_object_array_add(unwrap(array), unwrap(value)) == 0)
        return TG_OK;
    tg_json_free(value);
    return tg_fail(err, TG_NO_MEMORY, "no memory for a JSON item");
}

void tg_json_remove(tg_json *object, const char *key)
{
    json_object_object_del(unwrap(object), key);
}

/* --- Writing --------------------------------------------------------------- */

typedef struct writer {
    tg_text text;
    bool pretty, allow_nan;
    char path[256]; /* of the value at hand, for messages */
} writer;

static void write_string(tg_text *t, const char *s, size_t n)
{
    tg_text_add(t, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        const char *named = c == '\0' ? NULL : strchr("\"\"\\\\\bb\ff\nn\rr\tt", c);
        size_t plain = i;
        while (plain < n && (unsigned char)s[plain] >= 0x20 && s[plain] != '"' &&
               s[plain] != '\\')
            plain++;
        if (plain > i) {
            tg_text_add_n(t, s + i, plain - i);
            i = plain - 1;
        } else if (named != NULL) {
            tg_text_addf(t, "\\%c", named[1]);
        } else {
            tg_text_addf(t, "\\u%04x", c);
        }
    }
    tg_text_add(t, "\"");
}

static tg_status write_double(writer *w, json_object *o, tg_error *err)
{
    double v = json_object_get_double(o);
    if (!isfinite(v) && !w->allow_nan)
        return tg_fail(err, TG_INVALID, "JSON cannot hold %s (at '%s')",
                       isnan(v) ? "NaN"
                       : v > 0  ? "Infinity"
                                : "-Infinity",
                       w->path);
    const char *own = json_object_get_userdata(o);
    char room[40];
    if (!isfinite(v))
        own = isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity";
    else if (own == NULL)
        tg_format_double(room, sizeof room, v);
    tg_text_add(&w->text, own != NULL ? own : room);
    return TG_OK;
}

static void write_break(writer *w, size_t depth)
{
    if (w->pretty) {
        tg_text_add(&w->text, "\n");
        for (size_t i = 0; i < depth; i++)
            tg_text_add(&w->text, "  ");
    }
}

static tg_status write_value(writer *w, const tg_json *v, size_t depth, tg_error *err);

/* Members or items between brackets, each on a line of its own when pretty; short lists of
 * scalars stay in one. */
static tg_status write_many(writer *w, const tg_json *v, size_t depth, tg_error *err)
{
    bool object = tg_json_kind_of(v) == TG_JSON_OBJECT, lines = object;
    size_t n = tg_json_size(v), at = strlen(w->path);
    struct lh_entry *e = entry_at(v, 0);

    for (size_t i = 0; !object && i < n; i++)
        lines |= tg_json_size(tg_json_at(v, i)) > 0;
    tg_text_add(&w->text, object ? "{" : "[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            tg_text_add(&w->text, lines || !w->pretty ? "," : ", ");
        if (lines)
            write_break(w, depth + 1);
        const tg_json *item = object ? wrap((json_object *)lh_entry_v(e)) : tg_json_at(v, i);
        if (object) {
            const char *key = (const char *)lh_entry_k(e);
            (void)snprintf(w->path + at, sizeof w->path - at, "/%s", key);
            write_string(&w->text, key, strlen(key));
            tg_text_add(&w->text, w->pretty ? ": " : ":");
            e = lh_entry_next(e);
        } else {
            (void)snprintf(w->path + at, sizeof w->path - at, "/%zu", i);
        }
        TG_TRY(write_value(w, item, depth + 1, err));
        w->path[at] = '\0';
    }
    if (lines && n > 0)
        write_break(w, depth);
    tg_text_add(&w->text, object ? "}" : "]");
    return TG_OK;
}

static tg_status write_value(writer *w, const tg_json *v, size_t depth, tg_error *err)
{
    json_object *o = unwrap(v);

    switch (tg_json_kind_of(v)) {
    case TG_JSON_NULL:
        tg_text_add(&w->text, "null");
        break;
    case TG_JSON_BOOL:
        tg_text_add(&w->text, json_object_get_boolean(o) ? "true" : "false");
        break;
    case TG_JSON_INT:
        if (json_object_get_int64(o) < 0)
            tg_text_addf(&w->text, "%lld", (long long)json_object_get_int64(o));
        else
            tg_text_addf(&w->text, "%llu", (unsigned long long)json_object_get_uint64(o));
        break;
    case TG_JSON_DOUBLE:
        return write_double(w, o, err);
    case TG_JSON_STRING:
        write_string(&w->text, json_object_get_string(o),
                     (size_t)json_object_get_string_len(o));
        break;
    case TG_JSON_ARRAY:
    case TG_JSON_OBJECT:
        return write_many(w, v, depth, err);
    }
    return TG_OK;
}

tg_status tg_json_write(const tg_json *v, bool pretty, tg_json_options options, char **out,
                        tg_error *err)
{
    writer w = {.pretty = pretty, .allow_nan = options.allow_nan};

    tg_status st = write_value(&w, v, 0, err);
    if (st == TG_OK)
        st = tg_text_status(&w.text, err);
    if (st == TG_OK)
        *out = tg_text_steal(&w.text);
    tg_text_free(&w.text);
    return st;
}
