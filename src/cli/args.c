/* cli/args.c - reads GNU long options into a verb's own struct, by a table. Pure: no input but
 * its arguments, no output but its results. */
#include "args.h"

#include "tidegate/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tg_status cli_fail(tg_error *err, tg_status code, const char *fmt, ...)
{
    if (err == NULL)
        return code;
    *err = (tg_error){.code = code, .offset = TG_NO_OFFSET};
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    return code;
}

void cli_prefix(tg_error *err, const char *fmt, ...)
{
    char words[160], old[sizeof err->msg];
    memcpy(old, err->msg, sizeof old);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    int room = (int)(sizeof err->msg - strlen(words) - sizeof ": ");
    (void)snprintf(err->msg, sizeof err->msg, "%s: %.*s", words, room, old);
}

/* --- The nearest word ---------------------------------------------------- */

#define LONGEST_WORD 48

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][LONGEST_WORD + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= nb; j++) {
        before[j] = 0;
        last[j] = j;
    }
    for (size_t i = 1; i <= na; i++) {
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t same = a[i - 1] == b[j - 1] ? 0 : 1;
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + same);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        size_t *t = before;
        before = last;
        last = now;
        now = t;
    }
    return last[nb];
}

const char *cli_nearest(const char *s, const char *const *words, size_t n)
{
    size_t len = strlen(s), best = SIZE_MAX;
    const char *nearest = NULL;
    if (len == 0 || len > LONGEST_WORD)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t word = strlen(words[i]);
        /* A beginning of the word is meant as its abbreviation. */
        size_t d = word > len && len >= 3 && strncmp(s, words[i], len) == 0
                       ? 1
                       : (word <= LONGEST_WORD ? edit_distance(s, len, words[i], word) : best);
        if (d < best) {
            best = d;
            nearest = words[i];
        }
    }
    return best <= 1 + len / 4 ? nearest : NULL;
}

/* --- Values -------------------------------------------------------------- */

static tg_status parse_text(const char *s, const char **out, tg_error *err)
{
    if (s[0] == '\0')
        return cli_fail(err, TG_INVALID, "the value is empty");
    if (!tg_utf8_valid(s, strlen(s)))
        return cli_fail(err, TG_INVALID, "the value is not valid UTF-8");
    *out = s;
    return TG_OK;
}

static tg_status parse_count(const char *s, uint64_t least, uint64_t *out, tg_error *err)
{
    uint64_t v = 0;
    tg_status st = tg_parse_u64(s, &v, err);
    if (st == TG_OK && v < least)
        st = cli_fail(err, TG_INVALID, "got %s, want 1 or more", s);
    if (st == TG_OK)
        *out = v;
    return st;
}

static tg_status parse_size(const char *s, uint64_t *out, tg_error *err)
{
    uint64_t v = 0;
    tg_status st = tg_parse_size(s, &v, err);
    if (st == TG_OK && v == 0)
        st = cli_fail(err, TG_INVALID, "got 0 bytes, want 1 or more");
    if (st == TG_OK)
        *out = v;
    return st;
}

static tg_status parse_positive(const char *s, double *out, tg_error *err)
{
    double v = 0;
    tg_status st = tg_parse_double(s, &v, err);
    if (st == TG_OK && !(v > 0))
        st = cli_fail(err, TG_INVALID, "got %s, want a number above 0", s);
    if (st == TG_OK)
        *out = v;
    return st;
}

tg_status cli_parse_extents(const char *s, cli_extents *out, tg_error *err)
{
    cli_extents e = {0};
    const char *p = s;
    for (;;) {
        char word[24];
        size_t len = strcspn(p, ",");
        if (e.n == TG_MAX_NDIM)
            return cli_fail(err, TG_INVALID, "more than %d numbers", TG_MAX_NDIM);
        if (len == 0 || len >= sizeof word)
            return cli_fail(err, TG_INVALID,
                            "got '%.60s', want numbers with commas between them", s);
        memcpy(word, p, len);
        word[len] = '\0';
        if (parse_count(word, 1, &e.v[e.n], err) != TG_OK)
            return cli_fail(err, TG_INVALID,
                            "got '%.60s', want whole numbers of 1 or more, "
                            "with commas between them",
                            s);
        e.n++;
        if (p[len] == '\0')
            break;
        p += len + 1;
    }
    *out = e;
    return TG_OK;
}

static tg_status parse_shape(const char *s, cli_extents *out, tg_error *err)
{
    cli_extents e = {0};
    if (cli_parse_extents(s, &e, err) != TG_OK || e.n != 2)
        return cli_fail(err, TG_INVALID, "got '%.60s', want H,W: height first, as in 772,1032",
                        s);
    *out = e;
    return TG_OK;
}

tg_status cli_parse_choice(const char *words, const char *s, int *out, tg_error *err)
{
    size_t len = strlen(s);
    int i = 0;
    for (const char *w = words;; i++) {
        size_t word = strcspn(w, "|");
        if (word == len && strncmp(w, s, len) == 0) {
            *out = i;
            return TG_OK;
        }
        if (w[word] == '\0')
            break;
        w += word + 1;
    }
    return cli_fail(err, TG_INVALID, "got '%.60s', want %s", s, words);
}

static tg_status parse_list(const char *s, cli_list *list, tg_error *err)
{
    const char *item = NULL;
    tg_status st = parse_text(s, &item, err);
    if (st != TG_OK)
        return st;
    if (list->n == CLI_MAX_REPEATS)
        return cli_fail(err, TG_INVALID, "given more than %d times", CLI_MAX_REPEATS);
    list->item[list->n++] = item;
    return TG_OK;
}

static tg_status parse_value(const cli_option *o, const char *s, void *at, tg_error *err)
{
    switch (o->kind) {
    case CLI_FLAG:
        return cli_fail(err, TG_INVALID, "takes no value, got '%.60s'", s);
    case CLI_TEXT:
        return parse_text(s, at, err);
    case CLI_SIZE:
        return parse_size(s, at, err);
    case CLI_DURATION:
        return tg_parse_duration(s, at, err);
    case CLI_SECONDS:
        return parse_positive(s, at, NULL) == TG_OK ? TG_OK : tg_parse_duration(s, at, err);
    case CLI_COUNT:
        return parse_count(s, 1, at, err);
    case CLI_NATURAL:
        return parse_count(s, 0, at, err);
    case CLI_NUMBER:
        return parse_positive(s, at, err);
    case CLI_SHAPE:
        return parse_shape(s, at, err);
    case CLI_EXTENTS:
        return cli_parse_extents(s, at, err);
    case CLI_DTYPE:
        return tg_dtype_parse(s, at, err);
    case CLI_CHOICE:
        return cli_parse_choice(o->arg, s, at, err);
    case CLI_LIST:
        return parse_list(s, at, err);
    }
    return cli_fail(err, TG_INVALID, "unknown kind of option");
}

/* --- Options ------------------------------------------------------------- */

static const cli_option *find_option(const cli_options *tables, size_t n_tables,
                                     const char *name, size_t len)
{
    for (size_t t = 0; t < n_tables; t++)
        for (size_t i = 0; i < tables[t].n; i++) {
            const cli_option *o = &tables[t].table[i];
            if (strlen(o->name) == len && strncmp(o->name, name, len) == 0)
                return o;
        }
    return NULL;
}

static tg_status unknown_option(const cli_options *tables, size_t n_tables, const char *arg,
                                tg_error *err)
{
    const char *words[128];
    size_t n = 0;
    for (size_t t = 0; t < n_tables; t++)
        for (size_t i = 0; i < tables[t].n && n < 128; i++)
            words[n++] = tables[t].table[i].name;

    char name[LONGEST_WORD + 2];
    const char *bare = arg + strspn(arg, "-");
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(bare, "="), bare);
    const char *near = cli_nearest(name, words, n);
    if (near != NULL)
        return cli_fail(err, TG_INVALID, "unknown option '%.80s': did you mean --%s?", arg,
                        near);
    return cli_fail(err, TG_INVALID, "unknown option '%.80s' (--help lists them)", arg);
}

/* One option at args[*i]; *i moves on to its last word. */
static tg_status take_option(const cli_options *tables, size_t n_tables, int n,
                             const char *const *args, int *i, void *into, tg_error *err)
{
    const char *arg = args[*i], *name = arg + 2;
    size_t len = strcspn(name, "=");
    const cli_option *o = find_option(tables, n_tables, name, len);
    if (o == NULL)
        return unknown_option(tables, n_tables, arg, err);

    void *at = (char *)into + o->at;
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    if (o->kind == CLI_FLAG && value == NULL) {
        *(bool *)at = true;
        return TG_OK;
    }
    if (value == NULL) {
        if (*i + 1 >= n || strncmp(args[*i + 1], "--", 2) == 0)
            return cli_fail(err, TG_INVALID, "--%s needs a value: --%s %s", o->name, o->name,
                            o->arg);
        value = args[++*i];
    }
    tg_status st = parse_value(o, value, at, err);
    if (st != TG_OK && err != NULL)
        cli_prefix(err, "--%s", o->name);
    return st;
}

static tg_status take_operand(const char *arg, cli_operands *operands, tg_error *err)
{
    if (operands->n == CLI_MAX_OPERANDS)
        return cli_fail(err, TG_INVALID, "more than %d operands", CLI_MAX_OPERANDS);
    if (arg[0] == '\0')
        return cli_fail(err, TG_INVALID, "operand %zu is empty", operands->n + 1);
    operands->item[operands->n++] = arg;
    return TG_OK;
}

tg_status cli_parse(const cli_options *tables, size_t n_tables, int n, const char *const *args,
                    void *into, cli_operands *operands, tg_error *err)
{
    bool only_operands = false;
    operands->n = 0;
    for (int i = 0; i < n; i++) {
        const char *arg = args[i];
        tg_status st = TG_OK;
        if (!only_operands && strcmp(arg, "--") == 0)
            only_operands = true;
        else if (!only_operands && strncmp(arg, "--", 2) == 0)
            st = take_option(tables, n_tables, n, args, &i, into, err);
        else if (!only_operands && arg[0] == '-' && arg[1] != '\0')
            st = unknown_option(tables, n_tables, arg, err);
        else
            st = take_operand(arg, operands, err);
        if (st != TG_OK)
            return st;
    }
    return TG_OK;
}
