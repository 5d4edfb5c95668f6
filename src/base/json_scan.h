/* base/json_scan.h - one pass over JSON text that refuses what a lenient parser
 * would change without a word. Private to json.c. */
#ifndef TG_BASE_JSON_SCAN_H
#define TG_BASE_JSON_SCAN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { TG_JSON_MAX_DEPTH = 64 };

/* RFC 8259, and: valid UTF-8, no lone surrogates, no NUL in a key, integers within 64 bits,
 * finite doubles, nesting of at most TG_JSON_MAX_DEPTH, nothing behind the document. allow_nan:
 * the bare tokens NaN, Infinity, -Infinity pass. *n_members: key-value pairs in all objects
 * together, by which the caller finds keys that stand twice. Failures are TG_CORRUPT with the
 * byte. */
TG_MUST_USE tg_status tg_json_scan(const char *text, size_t len, bool allow_nan,
                                   size_t *n_members, tg_error *err);
/* Of a document that passed, and of whose n_members > 1 some object has a key twice: TG_CORRUPT
 * with that key and its second place. */
TG_MUST_USE tg_status tg_json_twice(const char *text, size_t len, bool allow_nan,
                                    size_t n_members, tg_error *err);

#endif
