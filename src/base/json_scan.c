/* base/json_scan.c - the strict pass over JSON text. Builds nothing. */
#include "base/json_scan.h"

#include "base/mem.h"
#include "tidegate/text.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NUMBER = 700 }; /* characters; as many as tg_parse_double() takes for certain */

typedef struct level {
    char kind;     /* '{' or '[' */
    size_t number; /* of all that were opened */
} level;

typedef struct key_place {
    const char *text; /* with its quotes */
    size_t len, object;
} key_place;

typedef struct scanner {
    const char *text;
    size_t len, pos;
    bool allow_nan;
    size_t n_members;
    level levels[TG_JSON_MAX_DEPTH]; /* the arrays and objects that are open */
    size_t depth;
    size_t n_opened;
    key_place *keys; /* NULL, or room for all members: where each key stands */
    tg_error *err;
} scanner;

static tg_status bad(scanner *s, size_t at, const char *what)
{
    tg_status st = tg_fail(s->err, TG_CORRUPT, "JSON: %s at byte %zu", what, at);
    tg_error_at(s->err, NULL, at);
    return st;
}

static void skip_space(scanner *s)
{
    while (s->pos < s->len && strchr(" \t\r\n", s->text[s->pos]) != NULL &&
           s->text[s->pos] != '\0')
        s->pos++;
}

static bool at(const scanner *s, char c)
{
    return s->pos < s->len && s->text[s->pos] == c;
}

static bool is_digit(const scanner *s)
{
    return s->pos < s->len && s->text[s->pos] >= '0' && s->text[s->pos] <= '9';
}

static bool take_word(scanner *s, const char *word)
{
    size_t n = strlen(word);
    if (s->len - s->pos < n || memcmp(s->text + s->pos, word, n) != 0)
        return false;
    s->pos += n;
    return true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four hex digits behind "\u"; -1 if they are not there. */
static int take_hex4(scanner *s)
{
    int v = 0;
    for (int i = 0; i < 4; i++, s->pos++) {
        int digit = s->pos < s->len ? hex_value(s->text[s->pos]) : -1;
        if (digit < 0)
            return -1;
        v = v * 16 + digit;
    }
    return v;
}

static tg_status scan_escape(scanner *s, bool is_key)
{
    size_t start = s->pos++;
    char c = '\0';

    if (s->pos < s->len)
        c = s->text[s->pos++];
    if (c != 'u')
        return c != '\0' && strchr("\"\\/bfnrt", c) != NULL ? TG_OK
                                                            : bad(s, start, "bad escape");
    int v = take_hex4(s);
    if (v < 0)
        return bad(s, start, "bad \\u escape");
    if (v == 0 && is_key)
        return bad(s, start, "NUL in a key");
    if (v >= 0xDC00 && v <= 0xDFFF)
        return bad(s, start, "lone surrogate");
    if (v >= 0xD800 && v <= 0xDBFF) {
        if (!take_word(s, "\\u"))
            return bad(s, start, "lone surrogate");
        int low = take_hex4(s);
        if (low < 0xDC00 || low > 0xDFFF)
            return bad(s, start, "lone surrogate");
    }
    return TG_OK;
}

static tg_status scan_string(scanner *s, bool is_key)
{
    size_t start = s->pos++, plain = s->pos;

    for (;;) {
        if (s->pos >= s->len)
            return bad(s, start, "string without an end");
        unsigned char c = (unsigned char)s->text[s->pos];
        if (c < 0x20)
            return bad(s, s->pos, "control character in a string");
        if (c != '"' && c != '\\') {
            s->pos++;
            continue;
        }
        if (!tg_utf8_valid(s->text + plain, s->pos - plain))
            return bad(s, plain, "invalid UTF-8 in a string");
        if (c == '"')
            break;
        tg_status st = scan_escape(s, is_key);
        if (st != TG_OK)
            return st;
        plain = s->pos;
    }
    s->pos++;
    return TG_OK;
}

/* Is the decimal number digits[0..n) at most `most` (also decimal)? No leading zeros in either.
 */
static bool at_most(const char *digits, size_t n, const char *most)
{
    size_t m = strlen(most);
    return n != m ? n < m : memcmp(digits, most, n) <= 0;
}

static tg_status scan_number(scanner *s)
{
    size_t start = s->pos;
    bool negative = at(s, '-'), whole = true;

    s->pos += negative;
    if (s->allow_nan && take_word(s, "Infinity"))
        return TG_OK;
    size_t digits = s->pos;
    if (!is_digit(s))
        return bad(s, start, "value expected");
    while (is_digit(s))
        s->pos++;
    size_t n = s->pos - digits;
    if (n > 1 && s->text[digits] == '0')
        return bad(s, start, "number with a leading zero");
    if (at(s, '.')) {
        whole = false;
        s->pos++;
        if (!is_digit(s))
            return bad(s, start, "number without digits behind its point");
        while (is_digit(s))
            s->pos++;
    }
    if (at(s, 'e') || at(s, 'E')) {
        whole = false;
        s->pos++;
        s->pos += at(s, '+') || at(s, '-');
        if (!is_digit(s))
            return bad(s, start, "number without digits in its exponent");
        while (is_digit(s))
            s->pos++;
    }
    if (whole)
        return at_most(s->text + digits, n,
                       negative ? "9223372036854775808" : "18446744073709551615")
                   ? TG_OK
                   : bad(s, start, "integer beyond 64 bits");
    char room[MAX_NUMBER + 1];
    double v;
    n = s->pos - start;
    if (n > MAX_NUMBER)
        return bad(s, start, "number of more than 700 characters");
    memcpy(room, s->text + start, n);
    room[n] = '\0';
    return tg_parse_double(room, &v, NULL) == TG_OK
               ? TG_OK
               : bad(s, start, "number too large for a double");
}

static tg_status scan_scalar(scanner *s)
{
    if (at(s, '"'))
        return scan_string(s, false);
    if (take_word(s, "true") || take_word(s, "false") || take_word(s, "null"))
        return TG_OK;
    if (s->allow_nan && (take_word(s, "NaN") || take_word(s, "Infinity")))
        return TG_OK;
    return scan_number(s);
}

static tg_status scan_key(scanner *s)
{
    if (!at(s, '"'))
        return bad(s, s->pos, "key expected");
    size_t start = s->pos;
    tg_status st = scan_string(s, true);
    if (st != TG_OK)
        return st;
    if (s->keys != NULL)
        s->keys[s->n_members] =
            (key_place){s->text + start, s->pos - start, s->levels[s->depth - 1].number};
    skip_space(s);
    if (!at(s, ':'))
        return bad(s, s->pos, "':' expected");
    s->pos++;
    s->n_members++;
    skip_space(s);
    return TG_OK;
}

/* Behind a value: closes what ends here, or goes on to the next value; *done at the end of all.
 */
static tg_status scan_after_value(scanner *s, bool *done)
{
    for (;;) {
        skip_space(s);
        if (s->depth == 0) {
            *done = true;
            return s->pos == s->len ? TG_OK : bad(s, s->pos, "text behind the document");
        }
        char kind = s->levels[s->depth - 1].kind;
        if (at(s, kind == '{' ? '}' : ']')) {
            s->pos++;
            s->depth--;
            continue;
        }
        if (!at(s, ','))
            return bad(s, s->pos, "',' expected");
        s->pos++;
        skip_space(s);
        return kind == '{' ? scan_key(s) : TG_OK;
    }
}

/* At a bracket; *empty: its end was met at once. */
static tg_status scan_open(scanner *s, bool *empty)
{
    if (s->depth == TG_JSON_MAX_DEPTH)
        return bad(s, s->pos, "nested more than 64 deep");
    char kind = s->text[s->pos++];
    s->levels[s->depth++] = (level){kind, s->n_opened++};
    skip_space(s);
    *empty = at(s, kind == '{' ? '}' : ']');
    return kind == '{' && !*empty ? scan_key(s) : TG_OK;
}

static tg_status scan(scanner *s)
{
    bool done = false;

    skip_space(s);
    while (!done) {
        bool empty = true;
        if (at(s, '{') || at(s, '['))
            TG_TRY(scan_open(s, &empty));
        else
            TG_TRY(scan_scalar(s));
        if (empty)
            TG_TRY(scan_after_value(s, &done));
    }
    return TG_OK;
}

tg_status tg_json_scan(const char *text, size_t len, bool allow_nan, size_t *n_members,
                       tg_error *err)
{
    scanner s = {.text = text, .len = len, .allow_nan = allow_nan, .err = err};
    TG_TRY(scan(&s));
    *n_members = s.n_members;
    return TG_OK;
}

/* --- Keys that stand twice ------------------------------------------------- */

static int by_object_and_text(const void *left, const void *right)
{
    const key_place *a = left, *b = right;
    if (a->object != b->object)
        return a->object < b->object ? -1 : 1;
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    int order = memcmp(a->text, b->text, a->len);
    if (order != 0)
        return order;
    return a->text < b->text ? -1 : a->text > b->text;
}

tg_status tg_json_twice(const char *text, size_t len, bool allow_nan, size_t n_members,
                        tg_error *err)
{
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array(n_members, sizeof(key_place));
    scanner s = {.text = text, .len = len, .allow_nan = allow_nan, .keys = room, .err = err};

    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to look at %zu keys", n_members);
    TG_TRY(scan(&s));
    qsort(s.keys, n_members, sizeof s.keys[0], by_object_and_text);
    for (size_t i = 1; i < n_members; i++) {
        const key_place *a = &s.keys[i - 1], *b = &s.keys[i];
        if (a->object != b->object || a->len != b->len || memcmp(a->text, b->text, a->len) != 0)
            continue;
        size_t where = (size_t)(b->text - text);
        tg_status st = tg_fail(err, TG_CORRUPT, "JSON: the key %.*s stands twice, at byte %zu",
                               (int)(b->len < 100 ? b->len : 100), b->text, where);
        tg_error_at(err, NULL, where);
        return st;
    }
    /* Written in two ways, one of them with escapes. */
    return tg_fail(err, TG_CORRUPT, "JSON: an object has the same key twice");
}
