/* chem/atoms.c - the strict reader of formulas, for isotope patterns. */
#include "chem/formula.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH  16
#define BIG_NUMBER 3000 /* a number above it takes no further digit */

typedef struct reader {
    const char *text;
    size_t i;
    int64_t elements[TG_N_ELEMENTS], labels[TG_N_LABELS];
    uint16_t order[TG_N_ELEMENTS]; /* elements by first appearance */
    uint32_t n_order;
    bool seen[TG_N_ELEMENTS];
} reader;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static tg_status read_number(reader *r, int64_t *out, tg_error *err)
{
    if (!is_digit(r->text[r->i])) {
        *out = 1;
        return TG_OK;
    }
    size_t start = r->i;
    int64_t v = 0;
    for (; is_digit(r->text[r->i]); r->i++) {
        if (v > BIG_NUMBER)
            return tg_fail(err, TG_INVALID, "'%.80s': the number is too big at position %zu",
                           r->text, start);
        v = v * 10 + (r->text[r->i] - '0');
    }
    *out = v;
    return TG_OK;
}

static tg_status add_atoms(reader *r, size_t at, size_t len, int64_t count, tg_error *err)
{
    int element = tg_element_find(r->text + at, len), label = tg_label_find(r->text + at, len);
    int64_t *sum;
    if (element >= 0) {
        if (!r->seen[element])
            r->order[r->n_order++] = (uint16_t)element;
        r->seen[element] = true;
        sum = &r->elements[element];
    } else if (label >= 0) {
        sum = &r->labels[label];
    } else {
        return tg_fail(err, TG_INVALID, "'%.80s': unknown element %.*s at position %zu",
                       r->text, (int)len, r->text + at, at);
    }
    *sum += count;
    if (*sum > TG_MAX_ATOMS || *sum < -TG_MAX_ATOMS)
        return tg_fail(err, TG_INVALID, "'%.80s': the number is too big", r->text);
    return TG_OK;
}

/* A run of symbols and groups. factor: what its counts are multiplied by. The count
 * behind a group is found before the group is read. */
static tg_status read_part(reader *r, int64_t factor, int depth, tg_error *err);

static tg_status read_group(reader *r, int64_t factor, int depth, tg_error *err)
{
    size_t open = r->i++;
    int64_t count = 1;

    if (depth == MAX_DEPTH)
        return tg_fail(err, TG_INVALID, "'%.80s': parentheses deeper than %d", r->text,
                       MAX_DEPTH);
    size_t inside = r->i;
    int level = 1;
    size_t close = inside;
    for (; r->text[close] != '\0'; close++) {
        level += r->text[close] == '(' ? 1 : r->text[close] == ')' ? -1 : 0;
        if (level == 0)
            break;
    }
    if (r->text[close] == '\0')
        return tg_fail(err, TG_INVALID, "'%.80s': '(' at position %zu is never closed", r->text,
                       open);
    r->i = close + 1;
    TG_TRY(read_number(r, &count, err));
    size_t end = r->i;
    int64_t product = 0;
    if (__builtin_mul_overflow(factor, count, &product) || product > TG_MAX_ATOMS ||
        product < -TG_MAX_ATOMS)
        return tg_fail(err, TG_INVALID, "'%.80s': the number is too big", r->text);
    r->i = inside;
    TG_TRY(read_part(r, product, depth + 1, err));
    if (r->i != close)
        return tg_fail(err, TG_INVALID, "'%.80s': '%c' is no part of a formula", r->text,
                       r->text[r->i]);
    r->i = end;
    return TG_OK;
}

static tg_status read_part(reader *r, int64_t factor, int depth, tg_error *err)
{
    for (;;) {
        char c = r->text[r->i];
        if (c == '(') {
            TG_TRY(read_group(r, factor, depth, err));
        } else if (c >= 'A' && c <= 'Z') {
            size_t at = r->i++;
            int64_t count;
            while (r->text[r->i] >= 'a' && r->text[r->i] <= 'z')
                r->i++;
            size_t len = r->i - at;
            TG_TRY(read_number(r, &count, err));
            TG_TRY(add_atoms(r, at, len, count * factor, err));
        } else {
            return TG_OK;
        }
    }
}

static tg_status read_all(reader *r, tg_error *err)
{
    int64_t sign = 1;
    for (;;) {
        int64_t factor;
        size_t start = r->i;
        TG_TRY(read_number(r, &factor, err));
        TG_TRY(read_part(r, sign * factor, 0, err));
        char c = r->text[r->i];
        if (c != '\0' && c != '.' && c != '+' && c != '-')
            return tg_fail(err, TG_INVALID,
                           "'%.80s': '%c' at position %zu is no part of a formula", r->text, c,
                           r->i);
        if (r->i == start && c != '+' && c != '-')
            return tg_fail(err, TG_INVALID, "'%.80s': nothing at position %zu", r->text, start);
        if (c == '\0')
            return TG_OK;
        sign = c == '-' ? -1 : c == '+' ? 1 : sign;
        r->i++;
    }
}

tg_status tg_atoms_parse(tg_atoms *out, const char *text, tg_error *err)
{
    reader r = {.text = text};

    TG_TRY(read_all(&r, err));
    *out = (tg_atoms){0};
    bool any = false;
    for (uint32_t k = 0; k < r.n_order; k++) {
        uint16_t e = r.order[k];
        if (r.elements[e] < 0)
            return tg_fail(err, TG_INVALID, "'%.80s': fewer than 0 atoms of %s", text,
                           tg_element_table[e].symbol);
        if (r.elements[e] == 0)
            continue;
        if (out->n == TG_FORMULA_SYMBOLS)
            return tg_fail(err, TG_INVALID, "'%.80s': more than %d elements", text,
                           TG_FORMULA_SYMBOLS);
        out->of[out->n].element = e;
        out->of[out->n++].count = (uint32_t)r.elements[e];
        any = true;
    }
    for (int k = 0; k < TG_N_LABELS; k++) {
        if (r.labels[k] < 0)
            return tg_fail(err, TG_INVALID, "'%.80s': fewer than 0 labelled atoms", text);
        out->labels[k] = (uint32_t)r.labels[k];
        any = any || r.labels[k] > 0;
    }
    if (!any)
        return tg_fail(err, TG_INVALID, "'%.80s': a formula of nothing", text);
    return TG_OK;
}
