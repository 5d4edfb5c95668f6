/* nd/dtype.c - the names of item types, as people and numpy write them. */
#include "nd/nd.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    tg_dtype type;
} names[] = {
    {"bool", {TG_DT_BOOL, 1}},         {"int8", {TG_DT_INT, 1}},
    {"int16", {TG_DT_INT, 2}},         {"int32", {TG_DT_INT, 4}},
    {"int64", {TG_DT_INT, 8}},         {"uint8", {TG_DT_UINT, 1}},
    {"uint16", {TG_DT_UINT, 2}},       {"uint32", {TG_DT_UINT, 4}},
    {"uint64", {TG_DT_UINT, 8}},       {"float16", {TG_DT_FLOAT, 2}},
    {"float32", {TG_DT_FLOAT, 4}},     {"float64", {TG_DT_FLOAT, 8}},
    {"complex64", {TG_DT_COMPLEX, 8}}, {"complex128", {TG_DT_COMPLEX, 16}},
    {"string", {TG_DT_STRING, 0}},
};
enum { N_NAMES = sizeof names / sizeof names[0] };

static bool is_known(tg_dtype_kind kind, uint64_t size)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (names[i].type.kind == kind && names[i].type.size == size)
            return true;
    return kind == TG_DT_RAW && size > 0 && size <= UINT32_MAX;
}

/* Decimal digits to the end of s, at most 9 of them, no leading zero; else 0. */
static uint64_t number(const char *s)
{
    uint64_t v = 0;
    size_t n = strspn(s, "0123456789");

    if (n == 0 || n > 9 || s[n] != '\0' || s[0] == '0')
        return 0;
    for (; *s != '\0'; s++)
        v = v * 10 + (uint64_t)(*s - '0');
    return v;
}

static tg_dtype_kind kind_of(char letter)
{
    switch (letter) {
    case 'b':
        return TG_DT_BOOL;
    case 'i':
        return TG_DT_INT;
    case 'u':
        return TG_DT_UINT;
    case 'f':
        return TG_DT_FLOAT;
    case 'c':
        return TG_DT_COMPLEX;
    case 'V':
        return TG_DT_RAW;
    default:
        return TG_DT_NONE;
    }
}

static bool set_if_known(tg_dtype_kind kind, uint64_t size, tg_dtype *out)
{
    if (!is_known(kind, size))
        return false;
    *out = (tg_dtype){kind, (uint32_t)size};
    return true;
}

/* A letter and a number: bits where a type has so many ("u8", "u16", "f64"),
 * else bytes ("u2", "f4"). */
static bool parse_short(const char *name, tg_dtype *out)
{
    uint64_t n = number(name + 1);
    tg_dtype_kind kind = kind_of(name[0]);

    if (name[0] == 'r')
        return n % 8 == 0 && set_if_known(TG_DT_RAW, n / 8, out);
    if (kind == TG_DT_NONE)
        return false;
    if (kind != TG_DT_RAW && kind != TG_DT_BOOL && n % 8 == 0 && set_if_known(kind, n / 8, out))
        return true;
    return set_if_known(kind, n, out);
}

static bool parse_typestr(const char *s, tg_dtype *out)
{
    if (strcmp(s, "|O") == 0) {
        *out = (tg_dtype){TG_DT_STRING, 0};
        return true;
    }
    return s[0] != '\0' && strchr("<>|=", s[0]) != NULL && s[1] != '\0' &&
           set_if_known(kind_of(s[1]), number(s + 2), out);
}

tg_status tg_dtype_parse(const char *name, tg_dtype *out, tg_error *err)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        if (strcmp(name, names[i].name) == 0) {
            *out = names[i].type;
            return TG_OK;
        }
    }
    if (name[0] != '\0' && parse_short(name, out))
        return TG_OK;
    if (name[0] != '>' && parse_typestr(name, out))
        return TG_OK;
    return tg_fail(err, TG_INVALID,
                   "data type '%s': want bool, int8 to int64, uint8 to uint64, float16 to "
                   "float64, complex64, complex128, string or r<bits>%s",
                   name, name[0] == '>' ? "; byte order is not part of it" : "");
}

tg_status tg_dtype_parse_typestr(const char *s, tg_dtype *out, char *byte_order, tg_error *err)
{
    tg_dtype t;

    if (!parse_typestr(s, &t))
        return tg_fail(err, TG_UNSUPPORTED,
                       "data type '%s': want < > or |, then b1, i, u, f, c or V and a number "
                       "of bytes",
                       s);
    if (t.size > 1 && t.kind != TG_DT_RAW && s[0] != '<' && s[0] != '>')
        return tg_fail(err, TG_CORRUPT, "data type '%s': want a byte order, < or >", s);
    *out = t;
    *byte_order = s[0] == '=' || t.kind == TG_DT_RAW || t.size <= 1 ? '|' : s[0];
    return TG_OK;
}

const char *tg_dtype_name(tg_dtype t, char room[16])
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (names[i].type.kind == t.kind && names[i].type.size == t.size)
            return names[i].name;
    if (t.kind != TG_DT_RAW)
        return "none";
    (void)snprintf(room, 16, "r%llu", (unsigned long long)t.size * 8);
    return room;
}

size_t tg_dtype_swap_bytes(tg_dtype t)
{
    if (t.kind == TG_DT_COMPLEX)
        return t.size / 2;
    return t.kind == TG_DT_RAW || t.size == 0 ? 1 : t.size;
}
