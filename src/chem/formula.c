/* chem/formula.c - the compatible and the fixed reader of formulas, modifiers, ion names. Knows
 * no mass. */
#include "chem/formula.h"

#include <stdio.h>
#include <string.h>

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}
static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A symbol and its count at text[*i], which is an upper case letter. */
static tg_status read_symbol(const char *text, size_t *i, tg_symbol_count *out, tg_error *err)
{
    size_t start = *i, k = start + 1;
    int64_t count = 0;

    while (is_lower(text[k]))
        k++;
    out->at = (uint16_t)start;
    out->len = (uint16_t)(k - start);
    if (!is_digit(text[k]))
        count = 1;
    for (; is_digit(text[k]); k++) {
        count = count * 10 + (text[k] - '0');
        if (count > TG_MAX_ATOMS)
            return tg_fail(err, TG_INVALID, "'%.40s': more than %d atoms of %.*s", text,
                           TG_MAX_ATOMS, out->len, text + start);
    }
    out->count = (int32_t)count;
    *i = k;
    return TG_OK;
}

static tg_status copy_text(char *dst, const char *text, bool clean, tg_error *err)
{
    size_t n = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (clean && (*c == '.' || *c == '='))
            continue;
        if (n + 1 >= TG_FORMULA_BYTES)
            return tg_fail(err, TG_INVALID, "'%.40s...': longer than %d characters", text,
                           TG_FORMULA_BYTES - 1);
        dst[n++] = *c;
    }
    dst[n] = '\0';
    return TG_OK;
}

static tg_symbol_count *find_symbol(tg_symbol_count *counts, uint32_t n, const char *text,
                                    const char *symbol, size_t len)
{
    for (uint32_t i = 0; i < n; i++)
        if (counts[i].len == len && memcmp(text + counts[i].at, symbol, len) == 0)
            return &counts[i];
    return NULL;
}

static tg_status check_known(const char *text, const tg_symbol_count *s, tg_error *err)
{
    const char *symbol = text + s->at;
    if (tg_element_find(symbol, s->len) >= 0 || tg_label_find(symbol, s->len) >= 0)
        return TG_OK;
    return tg_fail(err, TG_INVALID, "'%.80s': unknown element %.*s", text, s->len, symbol);
}

static tg_status add_count(tg_formula *f, const tg_symbol_count *s, bool fixed, tg_error *err)
{
    tg_symbol_count *old = find_symbol(f->counts, f->n, f->text, f->text + s->at, s->len);
    if (old != NULL) {
        int64_t sum = fixed ? (int64_t)old->count + s->count : s->count;
        if (sum > TG_MAX_ATOMS)
            return tg_fail(err, TG_INVALID, "'%.40s': more than %d atoms of %.*s", f->text,
                           TG_MAX_ATOMS, s->len, f->text + s->at);
        old->count = (int32_t)sum;
        return TG_OK;
    }
    if (f->n == TG_FORMULA_SYMBOLS)
        return tg_fail(err, TG_INVALID, "'%.40s...': more than %d different symbols", f->text,
                       TG_FORMULA_SYMBOLS);
    f->counts[f->n++] = *s;
    return TG_OK;
}

tg_status tg_formula_parse(tg_formula *out, const char *text, bool fixed, tg_error *err)
{
    out->n = 0;
    TG_TRY(copy_text(out->text, text, !fixed, err));
    for (size_t i = 0; out->text[i] != '\0';) {
        tg_symbol_count s;
        if (!is_upper(out->text[i])) {
            if (fixed)
                return tg_fail(err, TG_INVALID, "'%.80s': '%c' is no part of a formula", text,
                               out->text[i]);
            i++;
            continue;
        }
        TG_TRY(read_symbol(out->text, &i, &s, err));
        if (fixed)
            TG_TRY(check_known(out->text, &s, err));
        TG_TRY(add_count(out, &s, fixed, err));
    }
    return TG_OK;
}

tg_status tg_modifier_parse(tg_modifier *out, const char *text, tg_error *err)
{
    out->n = 0;
    TG_TRY(copy_text(out->text, text, false, err));
    if (strcmp(text, "[M]+") == 0 || strcmp(text, "[M]-") == 0)
        return TG_OK;
    for (size_t i = 0; out->text[i] != '\0';) {
        char sign = out->text[i++];
        if ((sign != '+' && sign != '-') || !is_upper(out->text[i]))
            return tg_fail(err, TG_INVALID,
                           "modifier '%.80s': want +H, -H2O+Na and the like, or [M]+, [M]-",
                           text);
        while (is_upper(out->text[i])) {
            if (out->n == TG_MODIFIER_PARTS)
                return tg_fail(err, TG_INVALID, "modifier '%.40s...': more than %d symbols",
                               text, TG_MODIFIER_PARTS);
            tg_symbol_count *s = &out->parts[out->n++];
            TG_TRY(read_symbol(out->text, &i, s, err));
            if (sign == '-')
                s->count = -s->count;
        }
    }
    return TG_OK;
}

/* --- Ion names ------------------------------------------------------------ */

/* A count whose symbol may lie in the formula's text or in the modifier's. */
typedef struct ion_count {
    const char *symbol;
    uint32_t len;
    int32_t count;
} ion_count;

static int first_rank(const ion_count *c)
{
    static const char first[] = "CHNOPS";
    const char *at = c->len == 1 ? strchr(first, c->symbol[0]) : NULL;
    return at == NULL ? (int)sizeof first : (int)(at - first);
}

static bool comes_before(const ion_count *a, const ion_count *b)
{
    int ra = first_rank(a), rb = first_rank(b);
    if (ra != rb)
        return ra < rb;
    int d = memcmp(a->symbol, b->symbol, a->len < b->len ? a->len : b->len);
    return d != 0 ? d < 0 : a->len < b->len;
}

static ion_count *find_ion_count(ion_count *c, uint32_t n, const char *symbol, size_t len)
{
    for (uint32_t i = 0; i < n; i++)
        if (c[i].len == len && memcmp(c[i].symbol, symbol, len) == 0)
            return &c[i];
    return NULL;
}

static tg_status apply_part(ion_count *c, uint32_t *n, uint32_t cap, const tg_modifier *m,
                            const tg_symbol_count *p, tg_error *err)
{
    const char *symbol = m->text + p->at;
    ion_count *old = find_ion_count(c, *n, symbol, p->len);
    if (old == NULL) {
        if (*n == cap)
            return tg_fail(err, TG_INVALID, "modifier '%.40s': too many symbols", m->text);
        old = &c[(*n)++];
        *old = (ion_count){symbol, p->len, 0};
    }
    int64_t sum = (int64_t)old->count + p->count;
    if (sum > TG_MAX_ATOMS)
        return tg_fail(err, TG_INVALID, "modifier '%.40s': more than %d atoms", m->text,
                       TG_MAX_ATOMS);
    if (sum < 0)
        return tg_fail(err, TG_NOT_FOUND, "no such ion: %.*s falls below 0", (int)p->len,
                       symbol);
    old->count = (int32_t)sum;
    return TG_OK;
}

static void sort_counts(ion_count *c, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        ion_count x = c[i];
        uint32_t k = i;
        for (; k > 0 && comes_before(&x, &c[k - 1]); k--)
            c[k] = c[k - 1];
        c[k] = x;
    }
}

static size_t put_number(char *dst, int32_t v)
{
    char digits[12];
    size_t n = 0, out = 0;
    for (; v > 0; v /= 10)
        digits[n++] = (char)('0' + v % 10);
    while (n > 0)
        dst[out++] = digits[--n];
    return out;
}

static tg_status write_ion(const ion_count *c, uint32_t n, char *dst, size_t cap, tg_error *err)
{
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (c[i].count == 0)
            continue;
        if (at + c[i].len + 12 > cap)
            return tg_fail(err, TG_INVALID, "ion formula is longer than %zu characters", cap);
        memcpy(dst + at, c[i].symbol, c[i].len);
        at += c[i].len;
        if (c[i].count > 1)
            at += put_number(dst + at, c[i].count);
    }
    if (at == 0)
        return tg_fail(err, TG_NOT_FOUND, "no such ion: nothing is left");
    dst[at] = '\0';
    return TG_OK;
}

tg_status tg_ion_formula(const tg_formula *formula, const tg_modifier *modifier, char *dst,
                         size_t cap, tg_error *err)
{
    ion_count c[TG_FORMULA_SYMBOLS + TG_MODIFIER_PARTS];
    uint32_t n = 0;

    for (; n < formula->n; n++)
        c[n] = (ion_count){formula->text + formula->counts[n].at, formula->counts[n].len,
                           formula->counts[n].count};
    for (uint32_t i = 0; i < modifier->n; i++)
        TG_TRY(apply_part(c, &n, sizeof c / sizeof c[0], modifier, &modifier->parts[i], err));
    sort_counts(c, n);
    return write_ion(c, n, dst, cap, err);
}

tg_status tg_formula_check_strict(const char *text, tg_error *err)
{
    tg_formula f;
    if (strchr(text, '.') != NULL)
        return tg_fail(err, TG_INVALID, "'%.80s': '.' is not allowed in a formula", text);
    TG_TRY(tg_formula_parse(&f, text, true, err));
    if (f.n == 0)
        return tg_fail(err, TG_INVALID, "'%.80s': no formula", text);
    return TG_OK;
}
