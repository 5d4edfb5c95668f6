/* cli/json_out.h - builds the one JSON object that --json prints, and the lines of
 * --progress json. Knows no verb. */
#ifndef TG_CLI_JSON_OUT_H
#define TG_CLI_JSON_OUT_H

#include "tidegate/error.h"

#include <stdbool.h>
#include <stdio.h>

/* A growing text of JSON members. Zero-initialise. Out of memory is remembered and reported
 * once, by json_print(). */
typedef struct json_out {
    char *text;
    size_t len, cap;
    bool failed;
} json_out;

void json_free(json_out *j);
/* key NULL: inside a list, or the outermost object. */
void json_open(json_out *j, const char *key);
void json_close(json_out *j);
void json_open_list(json_out *j, const char *key);
void json_close_list(json_out *j);
void json_u64(json_out *j, const char *key, uint64_t v);
void json_i64(json_out *j, const char *key, int64_t v);
/* NaN and infinities, which JSON has no form for, become null. */
void json_double(json_out *j, const char *key, double v);
void json_bool(json_out *j, const char *key, bool v);
void json_null(json_out *j, const char *key);
/* s NULL: null. Bytes that are not UTF-8 become U+FFFD. */
void json_text(json_out *j, const char *key, const char *s);
/* Text that is JSON already. */
void json_raw(json_out *j, const char *key, const char *json);
/* {"code":...,"message":...,"key":...,"offset":...,"errno":...} */
void json_error(json_out *j, const char *key, const tg_error *err);
/* The members as one object on one line. TG_NO_MEMORY if any of them could not be kept, TG_IO
 * if the stream does not take it. */
TG_MUST_USE tg_status json_print(const json_out *members, FILE *to, tg_error *err);

#endif
