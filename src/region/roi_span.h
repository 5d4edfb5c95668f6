/* region/roi_span.h - lists in long JSON texts, an item at a time: the text is checked whole,
 * then each item is found by its brackets and becomes a tree of its own, so that memory does
 * not grow with their number. */
#ifndef TG_REGION_ROI_SPAN_H
#define TG_REGION_ROI_SPAN_H

#include "base/json.h"
#include "base/json_scan.h"

#include <string.h>

/* --- Walking a checked text
 * --------------------------------------------------------------------
 *
 * check_walkable() has passed, so these need not look out for faults. */

typedef struct span {
    const char *at, *end;
} span;

static inline const char *skip_space(const char *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')
        p++;
    return p;
}

static inline const char *skip_string(const char *p)
{
    for (p++; *p != '"'; p++)
        p += *p == '\\';
    return p + 1;
}

static inline const char *skip_value(const char *p)
{
    int depth = 0;

    do {
        p = skip_space(p);
        if (*p == '"') {
            p = skip_string(p);
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
        } else if (*p == '}' || *p == ']') {
            depth--;
            p++;
        } else if (*p == ',' || *p == ':') {
            p++;
        } else { /* a number or a word */
            while (strchr(",:]} \t\r\n", *p) == NULL)
                p++;
        }
    } while (depth > 0);
    return p;
}

/* The value of a member of the object at p; NULL: it has none. The first, if it is there twice.
 */
static inline const char *find_member(const char *p, const char *key)
{
    const size_t len = strlen(key);

    for (p = skip_space(p + 1); *p == '"';) {
        const char *name = p + 1, *end = skip_string(p);
        const char *value = skip_space(skip_space(end) + 1);
        if ((size_t)(end - 1 - name) == len && memcmp(name, key, len) == 0)
            return value;
        p = skip_space(skip_value(value));
        if (*p == ',')
            p = skip_space(p + 1);
    }
    return NULL;
}

/* The next item of the list at *p ('[' or ',' before it); false at its end. */
static inline bool next_item(const char **p, span *item)
{
    if (**p == ']') /* perhaps the text's last byte */
        return false;
    const char *at = skip_space(*p + 1);
    if (*at == ']')
        return false;
    item->at = at;
    item->end = skip_value(at);
    *p = skip_space(item->end);
    return true;
}

/* May a text be walked: is it JSON, and an object or a list, at whose bracket every walk ends
 * at the latest (so that no NUL is needed behind it)? *at: its first bracket. */
static inline tg_status check_walkable(tg_bytes text, const char **at, tg_error *err)
{
    size_t n_members = 0;

    TG_TRY(tg_json_scan((const char *)text.data, text.len, false, &n_members, err));
    *at = skip_space((const char *)text.data);
    if (**at != '{' && **at != '[')
        return tg_fail(err, TG_CORRUPT, "JSON: want an object or a list");
    return TG_OK;
}

#endif
