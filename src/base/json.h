/* base/json.h - JSON documents, exact: 64-bit integers, the text of numbers,
 * key order. Built on json-c, whose header only json.c includes.
 *
 * Reading refuses what json-c would change without a word: integers beyond 64
 * bits, NUL in a key, duplicate keys, invalid UTF-8, nesting deeper than 64,
 * anything after the document. Failures are TG_CORRUPT with the byte offset, TG_OVER_BUDGET for
 * a text of more than TG_JSON_MAX_BYTES.
 *
 * A tg_json is a node. The root owns the tree and is freed; all others are
 * borrowed from it. Threads: a tree may be read by many threads at once. */
#ifndef TG_BASE_JSON_H
#define TG_BASE_JSON_H

#include "base/mem.h"

#include <stdbool.h>

typedef struct tg_json tg_json; /* opaque: never defined */

/* Of one document. A tree takes about ten times the bytes of its text, from no budget: what may
 * be larger (a list of regions) is read by a reader of its own. */
#define TG_JSON_MAX_BYTES ((size_t)64 << 20)

typedef enum tg_json_kind {
    TG_JSON_NULL,
    TG_JSON_BOOL,
    TG_JSON_INT,    /* written without fraction or exponent, fits int64 or uint64 */
    TG_JSON_DOUBLE, /* any other number, and the bare tokens NaN, Infinity, -Infinity */
    TG_JSON_STRING,
    TG_JSON_ARRAY,
    TG_JSON_OBJECT
} tg_json_kind;

typedef struct tg_json_options {
    bool allow_nan; /* accept the bare tokens NaN, Infinity, -Infinity (attributes in the wild)
                     */
} tg_json_options;

TG_MUST_USE tg_status tg_json_parse(tg_json **out, const char *text, size_t len,
                                    tg_json_options options, tg_error *err);
void tg_json_free(tg_json *root); /* may be NULL */
TG_DEFINE_AUTO_PTR(tg_json, tg_json_free)
/* A deep copy, a root of its own. */
TG_MUST_USE tg_status tg_json_copy(tg_json **out, const tg_json *from, tg_error *err);
/* Key order does not count, 1 and 1.0 differ, NaN equals NaN. */
bool tg_json_equal(const tg_json *a, const tg_json *b);

tg_json_kind tg_json_kind_of(const tg_json *v);   /* NULL is TG_JSON_NULL */
const char *tg_json_kind_name(tg_json_kind kind); /* "integer", "string", ... for messages */

/* Objects. get returns NULL if there is no such key; a key that holds null gives a node of kind
 * TG_JSON_NULL, so the two can be told apart. */
const tg_json *tg_json_get(const tg_json *object, const char *key);
size_t tg_json_size(const tg_json *v); /* members of an object, items of an array, else 0 */
const char *tg_json_key_at(const tg_json *object, size_t i); /* in the order of the text */
const tg_json *tg_json_at(const tg_json *v,
                          size_t i); /* of an array or object; NULL past the end */

/* Scalars; each says in its message which kind it got. */
TG_MUST_USE tg_status tg_json_u64(const tg_json *v, uint64_t *out, tg_error *err);
TG_MUST_USE tg_status tg_json_i64(const tg_json *v, int64_t *out, tg_error *err);
TG_MUST_USE tg_status tg_json_double(const tg_json *v, double *out,
                                     tg_error *err); /* ints too */
TG_MUST_USE tg_status tg_json_bool(const tg_json *v, bool *out, tg_error *err);
/* Borrowed, terminated; *len may be NULL. A string may hold NULs inside. */
TG_MUST_USE tg_status tg_json_string(const tg_json *v, const char **out, size_t *len,
                                     tg_error *err);

/* Making documents. Each gives a root, which set/append then take over (also on failure). */
tg_json *tg_json_new_object(void); /* NULL: no memory */
tg_json *tg_json_new_array(void);
tg_json *tg_json_new_u64(uint64_t v);
tg_json *tg_json_new_i64(int64_t v);
tg_json *tg_json_new_double(double v); /* shortest text that reads back the same */
tg_json *tg_json_new_bool(bool v);
tg_json *tg_json_new_string(const char *s);
tg_json *tg_json_new_null(void);
/* value NULL: TG_NO_MEMORY, so that tg_json_new_*() can be passed straight in. An old value is
 * freed. */
TG_MUST_USE tg_status tg_json_set(tg_json *object, const char *key, tg_json *value,
                                  tg_error *err);
TG_MUST_USE tg_status tg_json_append(tg_json *array, tg_json *value, tg_error *err);
void tg_json_remove(tg_json *object, const char *key);
tg_json *tg_json_get_mutable(tg_json *object, const char *key);

/* The document as text: indented by two spaces, or in one line. NaN and infinities are written
 * as bare tokens if allow_nan, else TG_INVALID with the path of the value. The caller frees
 * *out. */
TG_MUST_USE tg_status tg_json_write(const tg_json *v, bool pretty, tg_json_options options,
                                    char **out, tg_error *err);

#endif
