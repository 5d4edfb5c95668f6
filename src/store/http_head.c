/* store/http_head.c - header lines of HTTP, read strictly (RFC 9110). Knows no connection. */
#include "store/http_head.h"

#include <string.h>
#include <strings.h>

typedef struct text {
    const char *at;
    size_t n;
} text;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static text trim(const char *s, size_t n)
{
    while (n > 0 && is_blank(s[0])) {
        s++;
        n--;
    }
    while (n > 0 && is_blank(s[n - 1]))
        n--;
    return (text){s, n};
}

static bool is(text t, const char *word)
{
    return t.n == strlen(word) && strncasecmp(t.at, word, t.n) == 0;
}

/* Takes word from the front, letters in any case. */
static bool take(text *t, const char *word)
{
    size_t n = strlen(word);
    if (t->n < n || strncasecmp(t->at, word, n) != 0)
        return false;
    *t = (text){t->at + n, t->n - n};
    return true;
}

/* Takes digits from the front; what does not fit 63 bits is no number. */
static bool take_number(text *t, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;

    for (; i < t->n && t->at[i] >= '0' && t->at[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(t->at[i] - '0');
        if (v > (INT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *t = (text){t->at + i, t->n - i};
    *out = v;
    return i > 0;
}

static void keep(char *dst, size_t cap, text t)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    size_t n = t.n < cap ? t.n : cap - 1;

    memcpy(dst, t.at, n);
    dst[n] = '\0';
    if (n == t.n)
        return;
    for (size_t i = 0; i < t.n; i++)
        sum = (sum ^ (unsigned char)t.at[i]) * UINT64_C(0x100000001b3);
    for (size_t i = 1; i <= 16; i++, sum >>= 4)
        dst[n - i] = "0123456789abcdef"[sum & 15];
}

/* --- Content-Range ---------------------------------------------------------------- */

/* bytes FIRST-LAST/TOTAL, or '*' in place of the range (a 416) or of the total. */
static bool parse_range(tg_http_head *h, text v)
{
    uint64_t first = TG_HTTP_UNKNOWN, last = 0, total = TG_HTTP_UNKNOWN;

    if (!take(&v, "bytes") || v.n == 0 || !is_blank(v.at[0]))
        return false;
    v = trim(v.at, v.n);
    if (!take(&v, "*") &&
        (!take_number(&v, &first) || !take(&v, "-") || !take_number(&v, &last) || last < first))
        return false;
    if (!take(&v, "/") || (!is(v, "*") && (!take_number(&v, &total) || v.n > 0)))
        return false;
    if (total != TG_HTTP_UNKNOWN && first != TG_HTTP_UNKNOWN && last >= total)
        return false;
    h->has_range = true;
    h->first = first;
    h->end = first == TG_HTTP_UNKNOWN ? TG_HTTP_UNKNOWN : last + 1;
    h->total = total;
    return true;
}

/* --- Retry-After -------------------------------------------------------------------- */

static bool take_month(text *t, uint64_t *out)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (uint64_t i = 0; i < 12; i++) {
        const char name[4] = {names[3 * i], names[3 * i + 1], names[3 * i + 2], '\0'};
        if (take(t, name)) {
            *out = i + 1;
            return true;
        }
    }
    return false;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" as seconds since 1970. */
static bool parse_date(text v, int64_t *out)
{
    uint64_t day, month, year, hour, minute, second;

    if (v.n != 29 || v.at[3] != ',' || v.at[4] != ' ')
        return false;
    v = (text){v.at + 5, v.n - 5};
    if (!take_number(&v, &day) || !take(&v, " ") || !take_month(&v, &month) || !take(&v, " ") ||
        !take_number(&v, &year) || !take(&v, " ") || !take_number(&v, &hour) ||
        !take(&v, ":") || !take_number(&v, &minute) || !take(&v, ":") ||
        !take_number(&v, &second) || !is(v, " GMT"))
        return false;
    if (day < 1 || day > 31 || year < 1970 || year > 9999 || hour > 23 || minute > 59 ||
        second > 60)
        return false;
    /* days since 1970-01-01, with years that begin in March */
    uint64_t y = month <= 2 ? year - 1 : year, m = month <= 2 ? month + 9 : month - 3;
    int64_t days = (int64_t)(365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1);
    *out = (days - 719468) * 86400 + (int64_t)(hour * 3600 + minute * 60 + second);
    return true;
}

/* What cannot be read is as good as not said. */
static void parse_retry(tg_http_head *h, text v, int64_t utc_s)
{
    text number = v;
    uint64_t seconds;
    int64_t date;

    if (take_number(&number, &seconds) && number.n == 0)
        h->retry_after = (int64_t)seconds;
    else if (parse_date(v, &date))
        h->retry_after = date > utc_s ? date - utc_s : 0;
}

/* --- Lines ---------------------------------------------------------------------------- */

void tg_http_head_begin(tg_http_head *h)
{
    *h = (tg_http_head){.length = TG_HTTP_UNKNOWN,
                        .first = TG_HTTP_UNKNOWN,
                        .end = TG_HTTP_UNKNOWN,
                        .total = TG_HTTP_UNKNOWN,
                        .retry_after = -1};
}

static bool parse_status(tg_http_head *h, text v)
{
    uint64_t status;

    while (v.n > 0 && !is_blank(v.at[0])) /* the version */
        v = (text){v.at + 1, v.n - 1};
    v = trim(v.at, v.n);
    if (!take_number(&v, &status) || status < 100 || status > 999 ||
        (v.n > 0 && !is_blank(v.at[0])))
        return false;
    h->status = (int)status;
    return true;
}

/* A second one that says something else is a fault: two readers would take two lengths. */
static bool parse_length(tg_http_head *h, text v)
{
    uint64_t n;
    if (!take_number(&v, &n) || v.n > 0 || (h->length != TG_HTTP_UNKNOWN && h->length != n))
        return false;
    h->length = n;
    return true;
}

/* False: it is there and is not what it should be. */
static bool parse_field(tg_http_head *h, text name, text v, int64_t utc_s)
{
    if (is(name, "content-length"))
        return parse_length(h, v);
    if (is(name, "content-range"))
        return !h->has_range && parse_range(h, v);
    if (is(name, "etag"))
        keep(h->etag, sizeof h->etag, v);
    else if (is(name, "last-modified"))
        keep(h->modified, sizeof h->modified, v);
    else if (is(name, "retry-after"))
        parse_retry(h, v, utc_s);
    else if (is(name, "content-encoding") && !is(v, "identity"))
        keep(h->coding, sizeof h->coding, (text){v.at, v.n < 15 ? v.n : 15});
    return true;
}

void tg_http_head_line(tg_http_head *h, const char *line, size_t n, int64_t utc_s)
{
    text all = trim(line, n), rest = all;
    bool good = true;

    if (all.n == 0)
        return;
    if (take(&rest, "HTTP/")) {
        tg_http_head_begin(h);
        good = parse_status(h, rest);
    } else {
        const char *colon = memchr(all.at, ':', all.n);
        size_t before = colon == NULL ? all.n : (size_t)(colon - all.at);
        if (colon != NULL)
            good = parse_field(h, (text){all.at, before}, trim(colon + 1, all.n - before - 1),
                               utc_s);
    }
    if (good || h->bad[0] != '\0')
        return;
    keep(h->bad, sizeof h->bad, (text){all.at, all.n < 79 ? all.n : 79});
    for (char *p = h->bad; *p != '\0'; p++) /* it is printed */
        if (*p < ' ' || *p > '~')
            *p = '?';
}
