/* base/text.c - strict reading of sizes, durations and numbers, shortest doubles, UTF-8.
 * Nothing here depends on the locale, and nothing changes it: a number goes to and from the C
 * library as digits and a power of ten, without a decimal point. */
#include "base/text.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Whole numbers ------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits at *s, which moves behind them. False: none, or more than 64 bits. */
static bool take_u64(const char **s, uint64_t *v)
{
    const char *p = *s;
    uint64_t sum = 0;
    for (; is_digit(*p); p++)
        if (__builtin_mul_overflow(sum, 10u, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum))
            return false;
    if (p == *s)
        return false;
    *s = p;
    *v = sum;
    return true;
}

tg_status tg_parse_u64(const char *s, uint64_t *v, tg_error *err)
{
    const char *p = s;
    uint64_t got;
    if (!take_u64(&p, &got) || *p != '\0')
        return tg_fail(err, TG_INVALID, "'%s': want a whole number from 0 to 2^64-1", s);
    *v = got;
    return TG_OK;
}

tg_status tg_parse_i64(const char *s, int64_t *v, tg_error *err)
{
    bool minus = *s == '-';
    const char *p = s + minus;
    uint64_t got;
    if (!take_u64(&p, &got) || *p != '\0' || got > (uint64_t)INT64_MAX + minus)
        return tg_fail(err, TG_INVALID, "'%s': want a whole number from -2^63 to 2^63-1", s);
    *v = minus ? (int64_t)(0 - got) : (int64_t)got;
    return TG_OK;
}

/* --- Sizes and durations ------------------------------------------------- */

static bool unit_of_size(const char *name, unsigned *shift)
{
    static const char *const names[] = {"", "KiB", "MiB", "GiB", "TiB"};
    for (unsigned i = 0; i < 5; i++)
        if (strcmp(name, names[i]) == 0) {
            *shift = 10 * i;
            return true;
        }
    return false;
}

/* "256M", "1gb", "2 GiB": what was meant. "": nothing known. */
static const char *size_meant(const char *unit)
{
    unit += *unit == ' ';
    switch (*unit | 32) {
    case 'k':
        return "KiB";
    case 'm':
        return "MiB";
    case 'g':
        return "GiB";
    case 't':
        return "TiB";
    default:
        return "";
    }
}

/* Up to nine digits after a point, as billionths. */
static bool take_fraction(const char **s, uint64_t *billionths)
{
    *billionths = 0;
    if (**s != '.')
        return true;
    const char *p = *s + 1;
    uint64_t weight = 100000000;
    for (; is_digit(*p) && weight > 0; p++, weight /= 10)
        *billionths += weight * (uint64_t)(*p - '0');
    bool any = p > *s + 1 && !is_digit(*p);
    *s = p;
    return any;
}

tg_status tg_parse_size(const char *s, uint64_t *bytes, tg_error *err)
{
    const char *p = s;
    uint64_t whole, part;
    unsigned shift;

    if (!take_u64(&p, &whole) || !take_fraction(&p, &part))
        return tg_fail(err, TG_INVALID, "'%s': want a size such as 4096, 64KiB or 1.5GiB", s);
    if (!unit_of_size(p, &shift)) {
        const char *meant = size_meant(p);
        return meant[0] == '\0'
                   ? tg_fail(err, TG_INVALID,
                             "'%s': want a size in bytes, KiB, MiB, GiB or TiB", s)
                   : tg_fail(err, TG_INVALID, "'%s': did you mean %.*s%s? (1 %s is 1024^%u)", s,
                             (int)(p - s), s, meant, meant,
                             meant[0] == 'K'   ? 1u
                             : meant[0] == 'M' ? 2u
                             : meant[0] == 'G' ? 3u
                                               : 4u);
    }
    if (shift == 0 && part != 0)
        return tg_fail(err, TG_INVALID, "'%s': want whole bytes, or a unit", s);
    if (whole > UINT64_MAX >> shift)
        return tg_fail(err, TG_INVALID, "'%s': more than 2^64-1 bytes", s);
    __extension__ typedef unsigned __int128 wide; /* part x unit: up to 70 bits */
    *bytes = (whole << shift) + (uint64_t)(((wide)part << shift) / 1000000000);
    return TG_OK;
}

tg_status tg_parse_duration(const char *s, double *seconds, tg_error *err)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    const char *p = s;
    uint64_t whole, part;

    if (!take_u64(&p, &whole) || !take_fraction(&p, &part))
        return tg_fail(err, TG_INVALID, "'%s': want a duration such as 90s, 10m or 500ms", s);
    if (*p == '\0')
        return tg_fail(err, TG_INVALID, "'%s': a duration needs a unit: did you mean %ss?", s,
                       s);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(p, units[i].name) != 0)
            continue;
        double value = ((double)whole + (double)part * 1e-9) * units[i].seconds;
        if (!(value > 0))
            return tg_fail(err, TG_INVALID, "'%s': want a duration above zero", s);
        *seconds = value;
        return TG_OK;
    }
    return tg_fail(err, TG_INVALID, "'%s': want a duration in ms, s, m or h", s);
}

/* --- Doubles ------------------------------------------------------------- */

#define MAX_DIGITS 800 /* more than any double's exact value has before or after its point */

typedef struct decimal {
    char digits[MAX_DIGITS + 32]; /* sign and digits, then room for the exponent */
    size_t n;
    int64_t exponent; /* the value is digits * 10^exponent */
} decimal;

static bool take_digits(const char **s, decimal *d)
{
    for (; is_digit(**s); (*s)++) {
        if (d->n == MAX_DIGITS)
            return false;
        d->digits[d->n++] = **s;
    }
    return true;
}

static bool take_exponent(const char **s, decimal *d)
{
    if ((**s | 32) != 'e')
        return true;
    const char *p = *s + 1;
    bool minus = *p == '-';
    p += *p == '-' || *p == '+';
    uint64_t e = 0;
    const char *first = p;
    for (; is_digit(*p); p++)
        e = e > 99999 ? e : e * 10 + (uint64_t)(*p - '0');
    d->exponent += minus ? -(int64_t)e : (int64_t)e;
    *s = p;
    return p > first;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point. */
static bool take_decimal(const char **s, decimal *d)
{
    d->n = 0;
    d->exponent = 0;
    if (**s == '-')
        d->digits[d->n++] = '-';
    *s += **s == '-' || **s == '+';
    size_t sign = d->n;
    if (!take_digits(s, d))
        return false;
    if (**s == '.') {
        const char *point = ++*s;
        if (!take_digits(s, d))
            return false;
        d->exponent -= *s - point;
    }
    return d->n > sign && take_exponent(s, d);
}

static double decimal_value(decimal *d)
{
    (void)snprintf(d->digits + d->n, sizeof d->digits - d->n, "e%lld", (long long)d->exponent);
    return strtod(d->digits, NULL);
}

tg_status tg_parse_double(const char *s, double *v, tg_error *err)
{
    decimal d;
    const char *p = s;
    if (!take_decimal(&p, &d) || *p != '\0')
        return tg_fail(err, TG_INVALID, "'%s': want a decimal number", s);
    double got = decimal_value(&d);
    if (isinf(got))
        return tg_fail(err, TG_INVALID, "'%s': beyond the range of a double", s);
    *v = got;
    return TG_OK;
}

/* n significant digits of |v|, nearest: as a whole number of n digits, and its power of ten. */
static uint64_t round_to(double v, int n, int *exponent)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%.*e", n - 1, fabs(v));
    uint64_t digits = 0;
    const char *p = text;
    for (; *p != 'e'; p++) /* passes over the point, whatever the locale calls it */
        if (is_digit(*p))
            digits = digits * 10 + (uint64_t)(*p - '0');
    *exponent = (int)strtol(p + 1, NULL, 10) - (n - 1);
    return digits;
}

static double value_of(uint64_t digits, int exponent)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits, exponent);
    return strtod(text, NULL);
}

/* The fewest digits that read back as |v|. Up to 15 digits any decimal survives the way through
 * a normal double, so 15 rounded digits less their zeros are the fewest if they read back. With
 * 16 the nearest decimal may lie just outside where a further one does not (at powers of two):
 * both neighbours of the 17 digits are tried. */
static uint64_t shortest(double v, int *exponent)
{
    double want = fabs(v);
    for (int n = want < DBL_MIN ? 1 : 15; n <= 15; n++) {
        uint64_t digits = round_to(v, n, exponent);
        if (value_of(digits, *exponent) == want)
            return digits;
    }
    uint64_t digits = round_to(v, 17, exponent);
    uint64_t below = digits / 10, nearest = below + (digits % 10 >= 5);
    uint64_t tries[] = {nearest, nearest == below ? below + 1 : below};
    for (int i = 0; i < 2; i++)
        if (value_of(tries[i], *exponent + 1) == want) {
            *exponent += 1;
            return tries[i];
        }
    return digits;
}

/* As Python writes them: a point from 1e-4 up to 1e16, an exponent of two digits or more
 * outside. */
static void layout(char *dst, size_t cap, const char *sign, const char *digits, int point)
{
    int n = (int)strlen(digits);
    if (point <= -4 || point > 16)
        (void)snprintf(dst, cap, "%s%c%s%se%+03d", sign, digits[0], n > 1 ? "." : "",
                       digits + 1, point - 1);
    else if (point <= 0)
        (void)snprintf(dst, cap, "%s0.%.*s%s", sign, -point, "0000", digits);
    else if (point >= n)
        (void)snprintf(dst, cap, "%s%s%.*s.0", sign, digits, point - n, "0000000000000000");
    else
        (void)snprintf(dst, cap, "%s%.*s.%s", sign, point, digits, digits + point);
}

void tg_format_double(char *dst, size_t cap, double v)
{
    const char *sign = signbit(v) ? "-" : "";
    if (isnan(v)) {
        (void)snprintf(dst, cap, "NaN");
        return;
    }
    if (isinf(v)) {
        (void)snprintf(dst, cap, "%sInfinity", sign);
        return;
    }
    if (v == 0) {
        (void)snprintf(dst, cap, "%s0.0", sign);
        return;
    }
    int exponent;
    uint64_t digits = shortest(v, &exponent);
    for (; digits % 10 == 0; digits /= 10)
        exponent++;
    char text[24];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)digits);
    layout(dst, cap, sign, text, n + exponent);
}

/* --- UTF-8 --------------------------------------------------------------- */

/* Bytes of the character at s, of which n > 0 are there; 0: none that is allowed. */
static size_t utf8_step(const unsigned char *s, size_t n)
{
    unsigned char lowest = 0x80, highest = 0xbf; /* of the second byte */
    size_t len;
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        len = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        len = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        len = 4;
    else
        return 0;
    if (s[0] == 0xe0)
        lowest = 0xa0; /* below: overlong */
    else if (s[0] == 0xed)
        highest = 0x9f; /* above: surrogates */
    else if (s[0] == 0xf0)
        lowest = 0x90;
    else if (s[0] == 0xf4)
        highest = 0x8f; /* above: beyond U+10FFFF */
    if (len > n || s[1] < lowest || s[1] > highest)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

bool tg_utf8_valid(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    for (size_t step; n > 0; p += step, n -= step) {
        step = utf8_step(p, n);
        if (step == 0)
            return false;
    }
    return true;
}
