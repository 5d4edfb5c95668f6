/* base/json_scan.c - the strict pass over JSON text. Builds nothing. */
#include "base/json_scan.h"

#include "tidegate/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scanner {
    const char *text;
    size_t len, pos;
    bool allow_nan;
    size_t n_members;
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
    char c = s->pos < s->len ? s->text[s->pos++] : '\0';

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
    char room[64]; /* a longer number is finite or not by its first digits and exponent all the
                      same */
    if (s->pos - start < sizeof room) {
        memcpy(room, s->text + start, s->pos - start);
        room[s->pos - start] = '\0';
        if (!isfinite(strtod(room, NULL)))
            return bad(s, start, "number too large for a double");
    } else if (s->pos - start > 1024) {
        return bad(s, start, "number of more than 1024 characters");
    }
    return TG_OK;
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
    tg_status st = scan_string(s, true);
    if (st != TG_OK)
        return st;
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
static tg_status scan_after_value(scanner *s, char *open, size_t *depth, bool *done)
{
    for (;;) {
        skip_space(s);
        if (*depth == 0) {
            *done = true;
            return s->pos == s->len ? TG_OK : bad(s, s->pos, "text behind the document");
        }
        char inside = open[*depth - 1];
        if (at(s, inside == '{' ? '}' : ']')) {
            s->pos++;
            (*depth)--;
            continue;
        }
        if (!at(s, ','))
            return bad(s, s->pos, "',' expected");
        s->pos++;
        skip_space(s);
        return inside == '{' ? scan_key(s) : TG_OK;
    }
}

tg_status tg_json_scan(const char *text, size_t len, bool allow_nan, size_t *n_members,
                       tg_error *err)
{
    scanner s = {.text = text, .len = len, .allow_nan = allow_nan, .err = err};
    char open[TG_JSON_MAX_DEPTH];
    size_t depth = 0;
    bool done = false;

    skip_space(&s);
    while (!done) {
        if (at(&s, '{') || at(&s, '[')) {
            if (depth == TG_JSON_MAX_DEPTH)
                return bad(&s, s.pos, "nested more than 64 deep");
            char kind = text[s.pos++];
            open[depth++] = kind;
            skip_space(&s);
            if (!at(&s, kind == '{' ? '}' : ']')) {
                if (kind == '{')
                    TG_TRY(scan_key(&s));
                continue;
            }
        } else {
            TG_TRY(scan_scalar(&s));
        }
        TG_TRY(scan_after_value(&s, open, &depth, &done));
    }
    *n_members = s.n_members;
    return TG_OK;
}
