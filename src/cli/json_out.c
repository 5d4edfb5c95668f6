/* cli/json_out.c - builds JSON text, a member at a time. */
#include "json_out.h"

#include "args.h"
#include "tidegate/memory.h"
#include "tidegate/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

void json_free(json_out *j)
{
    tg_free(j->text);
    *j = (json_out){0};
}

static void put(json_out *j, const char *s, size_t n)
{
    if (j->failed)
        return;
    if (j->cap - j->len <= n) {
        size_t cap = (j->len + n + 1) * 2;
        char *text = cap > n ? tg_alloc(cap) : NULL;
        if (text == NULL) {
            j->failed = true;
            return;
        }
        if (j->len > 0)
            memcpy(text, j->text, j->len);
        tg_free(j->text);
        j->text = text;
        j->cap = cap;
    }
    memcpy(j->text + j->len, s, n);
    j->len += n;
    j->text[j->len] = '\0';
}

static void puts_(json_out *j, const char *s)
{
    put(j, s, strlen(s));
}

/* Bytes of the UTF-8 character at s, 0 if it is none. */
static size_t utf8_length(const char *s)
{
    for (size_t n = 1; n <= 4 && s[n - 1] != '\0'; n++)
        if (tg_utf8_valid(s, n))
            return n;
    return 0;
}

static void put_string(json_out *j, const char *s)
{
    puts_(j, "\"");
    while (*s != '\0') {
        unsigned char c = (unsigned char)*s;
        size_t n = utf8_length(s);
        char escape[8];
        if (c == '"' || c == '\\') {
            put(j, "\\", 1);
            put(j, s, 1);
        } else if (c < 0x20 || c == 0x7f) {
            (void)snprintf(escape, sizeof escape, "\\u%04x", c);
            puts_(j, escape);
        } else if (n == 0) {
            puts_(j, "\xef\xbf\xbd");
        } else {
            put(j, s, n);
        }
        s += n == 0 ? 1 : n;
    }
    puts_(j, "\"");
}

/* What goes before a member: a comma unless it is the first of its object or list, and the key.
 */
static void begin(json_out *j, const char *key)
{
    bool first = j->len == 0 || strchr("{[", j->text[j->len - 1]) != NULL;
    if (!first)
        puts_(j, ",");
    if (key != NULL) {
        put_string(j, key);
        puts_(j, ":");
    }
}

void json_open(json_out *j, const char *key)
{
    begin(j, key);
    puts_(j, "{");
}

void json_close(json_out *j)
{
    puts_(j, "}");
}

void json_open_list(json_out *j, const char *key)
{
    begin(j, key);
    puts_(j, "[");
}

void json_close_list(json_out *j)
{
    puts_(j, "]");
}

/* White space between the words goes, so that the whole stays one line. */
void json_raw(json_out *j, const char *key, const char *json)
{
    bool in_string = false;
    const char *from = json, *p = json;
    begin(j, key);
    for (; *p != '\0'; p++) {
        if (in_string) {
            if (*p == '\\' && p[1] != '\0')
                p++;
            else if (*p == '"')
                in_string = false;
        } else if (*p == '"') {
            in_string = true;
        } else if (strchr(" \t\r\n", *p) != NULL) {
            put(j, from, (size_t)(p - from));
            from = p + 1;
        }
    }
    put(j, from, (size_t)(p - from));
}

void json_u64(json_out *j, const char *key, uint64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, v);
    json_raw(j, key, text);
}

void json_i64(json_out *j, const char *key, int64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, v);
    json_raw(j, key, text);
}

void json_double(json_out *j, const char *key, double v)
{
    char text[32] = "null";
    if (isfinite(v))
        tg_format_double(text, sizeof text, v);
    json_raw(j, key, text);
}

void json_bool(json_out *j, const char *key, bool v)
{
    json_raw(j, key, v ? "true" : "false");
}

void json_null(json_out *j, const char *key)
{
    json_raw(j, key, "null");
}

void json_text(json_out *j, const char *key, const char *s)
{
    if (s == NULL) {
        json_null(j, key);
        return;
    }
    begin(j, key);
    put_string(j, s);
}

void json_error(json_out *j, const char *key, const tg_error *err)
{
    json_open(j, key);
    json_text(j, "code", tg_status_name(err->code));
    json_text(j, "message", err->msg);
    json_text(j, "key", err->key[0] != '\0' ? err->key : NULL);
    if (err->offset == TG_NO_OFFSET)
        json_null(j, "offset");
    else
        json_u64(j, "offset", err->offset);
    json_i64(j, "errno", err->sys);
    json_close(j);
}

tg_status json_print(const json_out *members, FILE *to, tg_error *err)
{
    if (members->failed)
        return cli_fail(err, TG_NO_MEMORY, "no memory for the JSON report");
    errno = 0;
    if (fprintf(to, "{%s}\n", members->text != NULL ? members->text : "") < 0 ||
        fflush(to) != 0)
        return cli_fail(err, TG_IO, "standard output cannot be written (errno %d)", errno);
    return TG_OK;
}
