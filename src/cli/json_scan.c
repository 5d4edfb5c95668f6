/* cli/json_scan.c - finds members in valid JSON. Stops at the end of a part whatever it holds.
 */
#include "json_scan.h"

#include <string.h>

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && strchr(" \t\r\n", *p) != NULL)
        p++;
    return p;
}

static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\' && p + 1 < end)
            p++;
    return p < end ? p + 1 : end;
}

/* Behind the value that begins at p. */
static const char *skip_value(const char *p, const char *end)
{
    int depth = 0;
    while (p < end) {
        if (*p == '"') {
            p = skip_string(p, end);
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
        } else if (*p == '}' || *p == ']') {
            if (depth == 0)
                return p;
            depth--;
            p++;
        } else if (depth == 0 && strchr(", \t\r\n", *p) != NULL) {
            return p;
        } else {
            p++;
            continue;
        }
        if (depth == 0)
            return p;
    }
    return end;
}

/* The first entry of an object or list, or NULL. */
static const char *enter(json_part p, char bracket)
{
    if (p.at == NULL || p.len < 2 || p.at[0] != bracket)
        return NULL;
    return skip_space(p.at + 1, p.at + p.len - 1);
}

/* From behind a value to the next entry, or NULL at the end. */
static const char *next_entry(const char *p, const char *end)
{
    p = skip_space(p, end);
    return p < end && *p == ',' ? skip_space(p + 1, end) : NULL;
}

static bool key_is(const char *p, const char *after, const char *key)
{
    size_t n = strlen(key);
    return (size_t)(after - p) == n + 2 && strncmp(p + 1, key, n) == 0;
}

json_part json_member(json_part object, const char *key)
{
    const char *end = object.at + object.len - (object.len > 0);
    for (const char *p = enter(object, '{'); p != NULL && p < end && *p == '"';) {
        const char *after = skip_string(p, end), *value = skip_space(after, end);
        if (value >= end)
            break;
        value = skip_space(value + 1, end); /* behind the colon */
        const char *last = skip_value(value, end);
        if (key_is(p, after, key))
            return (json_part){value, (size_t)(last - value)};
        p = next_entry(last, end);
    }
    return (json_part){0};
}

json_part json_item(json_part list, size_t i)
{
    const char *end = list.at + list.len - (list.len > 0);
    for (const char *p = enter(list, '['); p != NULL && p < end; i--) {
        const char *last = skip_value(p, end);
        if (i == 0)
            return (json_part){p, (size_t)(last - p)};
        p = next_entry(last, end);
    }
    return (json_part){0};
}

json_part json_string_of(json_part value)
{
    if (value.at == NULL || value.len < 2 || value.at[0] != '"')
        return (json_part){0};
    return (json_part){value.at + 1, value.len - 2};
}
