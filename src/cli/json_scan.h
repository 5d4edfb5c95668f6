/* cli/json_scan.h - finds members in JSON that the library has read and handed on: documents
 * known to be valid, so that nothing is checked twice. */
#ifndef TG_CLI_JSON_SCAN_H
#define TG_CLI_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* A value within a document; at NULL: none. */
typedef struct json_part {
    const char *at;
    size_t len;
} json_part;

/* The member of this name of an object; none if it has no such member or is no object. */
json_part json_member(json_part object, const char *key);
/* Item i of a list; none past the end. */
json_part json_item(json_part list, size_t i);
/* A string's text without its quotes, escapes as they stand; none of other values. */
json_part json_string_of(json_part value);

#endif
