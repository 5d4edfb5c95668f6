/* Fill values: JSON to the bytes of one native item and back, exactly. Numbers
 * keep all 64 bits, NaNs their payload. Knows types, not arrays. */
#include "zarr/fill.h"

#include "base/text.h"
#include "nd/half.h"
#include "tidegate/array.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tg_status refuse(const tg_json *v, tg_dtype t, const char *want, tg_error *err)
{
    char room[16];
    return tg_fail(err, TG_CORRUPT, "fill value of %s: got %s, want %s", tg_dtype_name(t, room),
                   tg_json_kind_name(tg_json_kind_of(v)), want);
}

/* --- Integers ------------------------------------------------------------ */

static tg_status out_of_range(tg_dtype t, tg_error *err)
{
    char room[16];
    return tg_fail(err, TG_CORRUPT, "fill value does not fit %s", tg_dtype_name(t, room));
}

static tg_status store_signed(int64_t v, tg_dtype t, uint8_t *item, tg_error *err)
{
    int64_t limit = t.size == 8 ? INT64_MAX : ((int64_t)1 << (8 * t.size - 1)) - 1;

    if (v > limit || v < -limit - 1)
        return out_of_range(t, err);
    int8_t v8 = (int8_t)v;
    int16_t v16 = (int16_t)v;
    int32_t v32 = (int32_t)v;
    const void *from[] = {&v8, &v16, &v32, &v};
    memcpy(item, from[t.size == 1 ? 0 : t.size == 2 ? 1 : t.size == 4 ? 2 : 3], t.size);
    return TG_OK;
}

static tg_status store_unsigned(uint64_t v, tg_dtype t, uint8_t *item, tg_error *err)
{
    if (t.size < 8 && v >> (8 * t.size) != 0)
        return out_of_range(t, err);
    uint8_t v8 = (uint8_t)v;
    uint16_t v16 = (uint16_t)v;
    uint32_t v32 = (uint32_t)v;
    const void *from[] = {&v8, &v16, &v32, &v};
    memcpy(item, from[t.size == 1 ? 0 : t.size == 2 ? 1 : t.size == 4 ? 2 : 3], t.size);
    return TG_OK;
}

/* 1.0 for an integer type is what other writers make of it; 1.5 is not. */
static tg_status integral_double(double d, tg_dtype t, uint8_t *item, tg_error *err)
{
    if (!(floor(d) == d))
        return tg_fail(err, TG_CORRUPT, "fill value of an integer type has a fraction");
    if (t.kind == TG_DT_INT)
        /* cppcheck-suppress incorrectLogicOperator ; it does not read hexadecimal doubles */
        return d >= -0x1p63 && d < 0x1p63 ? store_signed((int64_t)d, t, item, err)
                                          : out_of_range(t, err);
    return d >= 0 && d < 0x1p64 ? store_unsigned((uint64_t)d, t, item, err)
                                : out_of_range(t, err);
}

static tg_status parse_int_text(const char *s, tg_dtype t, uint8_t *item, tg_error *err)
{
    int64_t i = 0;
    uint64_t u = 0;

    if (t.kind == TG_DT_INT) {
        TG_TRY(tg_parse_i64(s, &i, err));
        return store_signed(i, t, item, err);
    }
    TG_TRY(tg_parse_u64(s, &u, err));
    return store_unsigned(u, t, item, err);
}

static tg_status parse_int(const tg_json *v, tg_dtype t, int format, uint8_t *item,
                           tg_error *err)
{
    const char *text = NULL;
    double d = 0;
    int64_t i = 0;
    uint64_t u = 0;

    switch (tg_json_kind_of(v)) {
    case TG_JSON_INT:
        if (t.kind == TG_DT_INT)
            return tg_json_i64(v, &i, NULL) == TG_OK ? store_signed(i, t, item, err)
                                                     : out_of_range(t, err);
        return tg_json_u64(v, &u, NULL) == TG_OK ? store_unsigned(u, t, item, err)
                                                 : out_of_range(t, err);
    case TG_JSON_DOUBLE:
        TG_TRY(tg_json_double(v, &d, err));
        return integral_double(d, t, item, err);
    case TG_JSON_STRING:
        if (format == 2) {
            TG_TRY(tg_json_string(v, &text, NULL, err));
            if (parse_int_text(text, t, item, NULL) == TG_OK)
                return TG_OK;
        }
        return refuse(v, t, "an integer", err);
    default:
        return refuse(v, t, "an integer", err);
    }
}

/* --- Floats -------------------------------------------------------------- */

static tg_status store_float(double d, uint32_t size, uint8_t *item, tg_error *err)
{
    uint16_t half = 0;
    float single = 0;

    if (size == 8) {
        memcpy(item, &d, 8);
        return TG_OK;
    }
    if (size == 4) {
        if (isfinite(d) && fabs(d) >= 0x1.ffffffp127)
            return out_of_range((tg_dtype){TG_DT_FLOAT, size}, err);
        single = (float)d;
        memcpy(item, &single, 4);
        return TG_OK;
    }
    half = tg_half_from_double(d);
    if (isfinite(d) && (half & 0x7fff) == 0x7c00)
        return out_of_range((tg_dtype){TG_DT_FLOAT, size}, err);
    memcpy(item, &half, 2);
    return TG_OK;
}

static void store_nan(uint32_t size, uint8_t *item)
{
    uint16_t half = 0x7e00;
    uint32_t single = UINT32_C(0x7fc00000);
    uint64_t two = UINT64_C(0x7ff8000000000000);
    const void *from = size == 2 ? (const void *)&half : size == 4 ? (void *)&single : &two;
    memcpy(item, from, size);
}

/* "0x7fc00001": the bits, most significant digit first, all of them. */
static tg_status parse_bits(const char *hex, uint32_t size, uint8_t *item, tg_error *err)
{
    uint64_t bits = 0;
    size_t n = strlen(hex);

    if (n != 2 * (size_t)size || strspn(hex, "0123456789abcdefABCDEF") != n)
        return tg_fail(err, TG_CORRUPT, "fill value '0x%.40s': want %u hex digits", hex,
                       2 * size);
    bits = strtoull(hex, NULL, 16);
    return store_unsigned(bits, (tg_dtype){TG_DT_UINT, size}, item, err);
}

static tg_status parse_float_text(const char *s, uint32_t size, uint8_t *item, tg_error *err)
{
    double d = 0;

    if (strcmp(s, "NaN") == 0) {
        store_nan(size, item);
        return TG_OK;
    }
    if (strcmp(s, "Infinity") == 0 || strcmp(s, "-Infinity") == 0)
        return store_float(s[0] == '-' ? -(double)INFINITY : (double)INFINITY, size, item, err);
    if (strncmp(s, "0x", 2) == 0)
        return parse_bits(s + 2, size, item, err);
    if (tg_parse_double(s, &d, NULL) != TG_OK)
        return tg_fail(err, TG_CORRUPT,
                       "fill value '%.40s': want a number, \"NaN\", "
                       "\"Infinity\", \"-Infinity\" or \"0x...\"",
                       s);
    return store_float(d, size, item, err);
}

static tg_status parse_float(const tg_json *v, uint32_t size, uint8_t *item, tg_error *err)
{
    const char *text = NULL;
    double d = 0;

    switch (tg_json_kind_of(v)) {
    case TG_JSON_INT:
    case TG_JSON_DOUBLE:
        TG_TRY(tg_json_double(v, &d, err));
        if (isnan(d)) {
            store_nan(size, item);
            return TG_OK;
        }
        return store_float(d, size, item, err);
    case TG_JSON_STRING:
        TG_TRY(tg_json_string(v, &text, NULL, err));
        return parse_float_text(text, size, item, err);
    default:
        return refuse(v, (tg_dtype){TG_DT_FLOAT, size}, "a number", err);
    }
}

static tg_status parse_complex(const tg_json *v, tg_dtype t, uint8_t *item, tg_error *err)
{
    if (tg_json_kind_of(v) != TG_JSON_ARRAY || tg_json_size(v) != 2)
        return refuse(v, t, "a list of two numbers", err);
    TG_TRY(parse_float(tg_json_at(v, 0), t.size / 2, item, err));
    return parse_float(tg_json_at(v, 1), t.size / 2, item + t.size / 2, err);
}

/* --- Booleans and raw bytes ---------------------------------------------- */

static tg_status parse_bool(const tg_json *v, tg_dtype t, uint8_t *item, tg_error *err)
{
    double d = 0;
    bool b = false;

    if (tg_json_kind_of(v) == TG_JSON_BOOL) {
        TG_TRY(tg_json_bool(v, &b, err));
        item[0] = b;
        return TG_OK;
    }
    if (tg_json_double(v, &d, NULL) != TG_OK || (d != 0 && d != 1))
        return refuse(v, t, "true or false", err);
    item[0] = d != 0;
    return TG_OK;
}

static int base64_digit(char c)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

static tg_status parse_base64(const char *s, size_t len, tg_dtype t, uint8_t *item,
                              tg_error *err)
{
    uint32_t bits = 0, n_bits = 0;
    size_t made = 0, i = 0;

    memset(item, 0, t.size);
    if (len == 0)
        return TG_OK;
    for (; i < len && s[i] != '='; i++) {
        int digit = base64_digit(s[i]);
        if (digit < 0)
            return tg_fail(err, TG_CORRUPT, "fill value: byte %zu is no base64", i);
        bits = bits << 6 | (uint32_t)digit;
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        if (made == t.size)
            return tg_fail(err, TG_CORRUPT, "fill value: more than the %u bytes of an item",
                           t.size);
        item[made++] = (uint8_t)(bits >> n_bits);
    }
    if (made != t.size || len % 4 != 0 || len - i > 2)
        return tg_fail(err, TG_CORRUPT, "fill value: %zu bytes of base64, want %u", made,
                       t.size);
    return TG_OK;
}

static tg_status parse_raw(const tg_json *v, tg_dtype t, int format, uint8_t *item,
                           tg_error *err)
{
    const char *text = NULL;
    size_t len = 0;
    uint64_t byte = 0;

    if (format == 2 && tg_json_kind_of(v) == TG_JSON_STRING) {
        TG_TRY(tg_json_string(v, &text, &len, err));
        return parse_base64(text, len, t, item, err);
    }
    if (format == 2 && tg_json_u64(v, &byte, NULL) == TG_OK && byte == 0) {
        memset(item, 0, t.size);
        return TG_OK;
    }
    if (tg_json_kind_of(v) != TG_JSON_ARRAY || tg_json_size(v) != t.size)
        return refuse(v, t, format == 2 ? "base64" : "a list with one integer a byte", err);
    for (uint32_t i = 0; i < t.size; i++) {
        if (tg_json_u64(tg_json_at(v, i), &byte, NULL) != TG_OK || byte > 255)
            return tg_fail(err, TG_CORRUPT, "fill value: item %u is not in 0..255", i);
        item[i] = (uint8_t)byte;
    }
    return TG_OK;
}

tg_status tg_fill_parse(const tg_json *v, tg_dtype t, int format, uint8_t *item, tg_error *err)
{
    switch (t.kind) {
    case TG_DT_BOOL:
        return parse_bool(v, t, item, err);
    case TG_DT_INT:
    case TG_DT_UINT:
        return parse_int(v, t, format, item, err);
    case TG_DT_FLOAT:
        return parse_float(v, t.size, item, err);
    case TG_DT_COMPLEX:
        return parse_complex(v, t, item, err);
    case TG_DT_RAW:
        return parse_raw(v, t, format, item, err);
    case TG_DT_NONE:
    case TG_DT_STRING:
        break;
    }
    return tg_fail(err, TG_INVALID, "fill value: not a type of fixed size");
}

/* --- Items as text ------------------------------------------------------- */

static uint64_t load_unsigned(const uint8_t *item, uint32_t size)
{
    uint16_t v16 = 0;
    uint32_t v32 = 0;
    uint64_t v64 = 0;

    switch (size) {
    case 1:
        return item[0];
    case 2:
        memcpy(&v16, item, 2);
        return v16;
    case 4:
        memcpy(&v32, item, 4);
        return v32;
    default:
        memcpy(&v64, item, 8);
        return v64;
    }
}

static int64_t load_signed(const uint8_t *item, uint32_t size)
{
    uint64_t u = load_unsigned(item, size);
    switch (size) {
    case 1:
        return (int8_t)u;
    case 2:
        return (int16_t)u;
    case 4:
        return (int32_t)u;
    default:
        return (int64_t)u;
    }
}

static double load_float(const uint8_t *item, uint32_t size)
{
    float single = 0;
    double two = 0;

    if (size == 2)
        return tg_half_to_double((uint16_t)load_unsigned(item, 2));
    if (size == 4) {
        memcpy(&single, item, 4);
        return (double)single;
    }
    memcpy(&two, item, 8);
    return two;
}

/* The double with the fewest decimal digits that still rounds to this item: 0.1 for the float
 * nearest to 0.1, whose own decimals are 0.100000001490116. */
static double shortest(const uint8_t *item, uint32_t size)
{
    double v = load_float(item, size);
    uint8_t back[8];
    char text[40];

    for (int digits = 1; size < 8 && digits < 10; digits++) {
        (void)snprintf(text, sizeof text, "%.*e", digits - 1, v);
        double d = strtod(text, NULL);
        if (store_float(d, size, back, NULL) == TG_OK && memcmp(back, item, size) == 0)
            return d;
    }
    return v;
}

static void float_text(const uint8_t *item, uint32_t size, char *dst, size_t cap)
{
    double v = load_float(item, size);
    uint8_t nan[8];

    store_nan(size, nan);
    if (isinf(v))
        (void)snprintf(dst, cap, "%s", v < 0 ? "\"-Infinity\"" : "\"Infinity\"");
    else if (!isnan(v))
        tg_format_double(dst, cap, shortest(item, size));
    else if (memcmp(nan, item, size) == 0)
        (void)snprintf(dst, cap, "\"NaN\"");
    else
        (void)snprintf(dst, cap, "\"0x%0*" PRIx64 "\"", (int)(2 * size),
                       load_unsigned(item, size));
}

static void raw_text(const uint8_t *item, uint32_t size, char *dst, size_t cap)
{
    size_t n = 0;

    for (uint32_t i = 0; i < size && n + 8 < cap; i++)
        n += (size_t)snprintf(dst + n, cap - n, "%c%u", i == 0 ? '[' : ',', item[i]);
    if (n + 1 < cap)
        (void)snprintf(dst + n, cap - n, "]");
}

void tg_item_text(tg_dtype t, const void *item, char *dst, size_t cap)
{
    const uint8_t *bytes = item;
    char re[40], im[40];

    if (cap == 0)
        return;
    dst[0] = '\0';
    switch (t.kind) {
    case TG_DT_BOOL:
        (void)snprintf(dst, cap, "%s", bytes[0] != 0 ? "true" : "false");
        return;
    case TG_DT_INT:
        (void)snprintf(dst, cap, "%" PRId64, load_signed(bytes, t.size));
        return;
    case TG_DT_UINT:
        (void)snprintf(dst, cap, "%" PRIu64, load_unsigned(bytes, t.size));
        return;
    case TG_DT_FLOAT:
        float_text(bytes, t.size, dst, cap);
        return;
    case TG_DT_COMPLEX:
        float_text(bytes, t.size / 2, re, sizeof re);
        float_text(bytes + t.size / 2, t.size / 2, im, sizeof im);
        (void)snprintf(dst, cap, "[%s,%s]", re, im);
        return;
    case TG_DT_RAW:
        raw_text(bytes, t.size, dst, cap);
        return;
    case TG_DT_NONE:
    case TG_DT_STRING:
        return;
    }
}

/* --- Items as JSON ------------------------------------------------------- */

static tg_status raw_list(const uint8_t *item, uint32_t size, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();

    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "fill value");
    for (uint32_t i = 0; i < size; i++)
        TG_TRY(tg_json_append(list, tg_json_new_u64(item[i]), err));
    *out = tg_steal(list);
    return TG_OK;
}

static tg_status raw_base64(const uint8_t *item, uint32_t size, tg_json **out, tg_error *err)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    TG_AUTO(tg_text) text = {0};

    for (uint32_t i = 0; i < size; i += 3) {
        uint32_t left = size - i;
        uint32_t b = (uint32_t)item[i] << 16 | (left > 1 ? (uint32_t)item[i + 1] << 8 : 0) |
                     (left > 2 ? item[i + 2] : 0);
        char quad[4] = {digits[b >> 18], digits[b >> 12 & 63],
                        left > 1 ? digits[b >> 6 & 63] : '=', left > 2 ? digits[b & 63] : '='};
        tg_text_add_n(&text, quad, 4);
    }
    TG_TRY(tg_text_status(&text, err));
    *out = tg_json_new_string(text.data == NULL ? "" : text.data);
    return *out == NULL ? tg_fail(err, TG_NO_MEMORY, "fill value") : TG_OK;
}

/* Format 2 has one NaN. */
static void plain_nans(tg_dtype t, uint8_t *item)
{
    uint32_t size = t.kind == TG_DT_COMPLEX ? t.size / 2 : t.size;

    for (uint32_t at = 0; at < t.size; at += size)
        if (isnan(load_float(item + at, size)))
            store_nan(size, item + at);
}

tg_status tg_fill_json(tg_dtype t, int format, const void *item, tg_json **out, tg_error *err)
{
    char text[128];
    uint8_t plain[16];

    if (format == 2 && (t.kind == TG_DT_FLOAT || t.kind == TG_DT_COMPLEX)) {
        memcpy(plain, item, t.size);
        plain_nans(t, plain);
        item = plain;
    }

    if (t.kind == TG_DT_RAW)
        return format == 2 ? raw_base64(item, t.size, out, err)
                           : raw_list(item, t.size, out, err);
    tg_item_text(t, item, text, sizeof text);
    return tg_json_parse(out, text, strlen(text), (tg_json_options){0}, err);
}

/* A word that is no JSON is what a fill value has in quotes: NaN, 0x7fc00000. */
static tg_status parse_typed(const char *text, tg_json **out, tg_error *err)
{
    if (tg_json_parse(out, text, strlen(text), (tg_json_options){0}, NULL) == TG_OK)
        return TG_OK;
    *out = tg_json_new_string(text);
    return *out == NULL ? tg_fail(err, TG_NO_MEMORY, "fill value") : TG_OK;
}

tg_status tg_item_parse(tg_dtype t, const char *text, void *item, tg_error *err)
{
    TG_AUTO_PTR(tg_json) v = NULL;

    if (t.kind == TG_DT_STRING || t.kind == TG_DT_NONE)
        return tg_fail(err, TG_INVALID, "a string is no item of a buffer");
    if (!tg_utf8_valid(text, strlen(text)))
        return tg_fail(err, TG_INVALID, "the value is not valid UTF-8");
    TG_TRY(parse_typed(text, &v, err));
    tg_status st = tg_fill_parse(v, t, 3, item, err);
    if (st != TG_CORRUPT)
        return st;
    if (err != NULL) /* not from a file: from the caller */
        err->code = TG_INVALID;
    return TG_INVALID;
}
