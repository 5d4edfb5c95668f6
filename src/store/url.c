/* store/url.c - taking store URLs and pipelines apart. Opens nothing. */
#include "store/url.h"

#include "store/store.h"

#include <string.h>

void tg_url_free(tg_url *u)
{
    tg_free(u->scheme);
    tg_free(u->path);
    tg_free(u->inner);
    *u = (tg_url){0};
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* scheme = letter *( letter / digit / "+" / "-" / "." ): its length, 0 if there is none. */
static size_t scheme_len(const char *s, size_t len)
{
    size_t n = 0;
    while (n < len && (is_letter(s[n]) || (n > 0 && ((s[n] >= '0' && s[n] <= '9') ||
                                                     strchr("+-.", s[n]) != NULL))))
        n++;
    return n;
}

static tg_status keep(char **out, const char *s, size_t n, bool lower, tg_error *err)
{
    char *p = tg_alloc(n + 1);
    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a URL");
    for (size_t i = 0; i < n; i++)
        p[i] = lower && s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] - 'A' + 'a') : s[i];
    p[n] = '\0';
    *out = p;
    return TG_OK;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decode n bytes of a URL's path. A coded '/' would make two segments of one, and a NUL cut the
 * name, so neither is taken. */
static tg_status decode(tg_text *out, const char *s, size_t n, tg_error *err)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '#' || c == '?')
            return tg_fail(err, TG_INVALID,
                           "'%.*s': a '%c' part is not supported; %%%02X is the character",
                           (int)n, s, c, c);
        if (c == '%') {
            int hi = n - i > 2 ? hex(s[i + 1]) : -1;
            int lo = hi >= 0 ? hex(s[i + 2]) : -1;
            if (lo < 0 || hi * 16 + lo == 0 || hi * 16 + lo == '/')
                return tg_fail(err, TG_INVALID,
                               "'%.*s': '%%' must be followed by two hexadecimal digits of a "
                               "byte other than 00 and 2F",
                               (int)n, s);
            c = (char)(hi * 16 + lo);
            i += 2;
        }
        tg_text_add_n(out, &c, 1);
    }
    tg_text_add_n(out, "", 0);
    return tg_text_status(out, err);
}

/* --- The root -------------------------------------------------------------------- */

static tg_status parse_file(tg_url *u, const char *rest, size_t n, tg_error *err)
{
    static const char local[] = "localhost";
    TG_AUTO(tg_text) path = {0};
    size_t host = 0;

    while (host < n && rest[host] != '/')
        host++;
    bool is_local = host == 0;
    if (host == sizeof local - 1) {
        is_local = true;
        for (size_t i = 0; i < host; i++)
            is_local = is_local && (rest[i] | 0x20) == local[i];
    }
    if (!is_local)
        return tg_fail(err, TG_INVALID, "'file://%.*s': a file is on this host: file:///path",
                       (int)n, rest);
    if (host == n)
        return tg_fail(err, TG_INVALID, "'file://%.*s' names no path", (int)n, rest);
    TG_TRY(decode(&path, rest + host, n - host, err));
    u->path = tg_text_steal(&path);
    return TG_OK;
}

static tg_status parse_root(tg_url *u, const char *s, size_t n, tg_error *err)
{
    size_t len = scheme_len(s, n);

    if (n == 0)
        return tg_fail(err, TG_INVALID, "an empty path names no store");
    if (len == 0 || n - len < 3 || strncmp(s + len, "://", 3) != 0) {
        TG_TRY(keep(&u->scheme, "file", 4, false, err));
        return keep(&u->path, s, n, false, err);
    }
    TG_TRY(keep(&u->scheme, s, len, true, err));
    const char *rest = s + len + 3;
    n -= len + 3;
    if (strcmp(u->scheme, "file") == 0)
        return parse_file(u, rest, n, err);
    if (strcmp(u->scheme, "memory") != 0)
        return keep(&u->path, rest, n, false, err); /* its own parser decodes it */
    TG_AUTO(tg_text) path = {0};
    TG_TRY(decode(&path, rest, n, err));
    u->path = tg_text_steal(&path);
    return u->path != NULL ? TG_OK : keep(&u->path, "", 0, false, err);
}

/* --- Adapters -------------------------------------------------------------------- */

/* Add an adapter's path to the inner one: '/' at both ends dropped, runs of them one. */
static tg_status join(tg_text *inner, const char *s, size_t n, tg_error *err)
{
    while (n > 0) {
        size_t part = 0;
        while (part < n && s[part] != '/')
            part++;
        if (part > 0) {
            if (inner->len > 0)
                tg_text_add(inner, "/");
            TG_TRY(decode(inner, s, part, err));
        }
        part += part < n;
        s += part;
        n -= part;
    }
    return tg_text_status(inner, err);
}

static bool is(const char *s, size_t n, const char *word)
{
    return n == strlen(word) && strncmp(s, word, n) == 0;
}

static tg_status parse_adapter(tg_url *u, const char *s, size_t n, bool first, tg_text *inner,
                               tg_error *err)
{
    TG_AUTO(tg_str) name = NULL;
    size_t len = scheme_len(s, n);

    if (n == 0)
        return tg_fail(err, TG_INVALID, "a '|' with nothing between it and the next");
    if (len == 0 || (len < n && s[len] != ':'))
        return tg_fail(err, TG_INVALID, "'|%.*s': want |adapter:path, such as |zip:inner/path",
                       (int)n, s);
    TG_TRY(keep(&name, s, len, true, err));
    bool zip = is(name, len, "zip");
    if (!zip && !is(name, len, "zarr") && !is(name, len, "zarr2") && !is(name, len, "zarr3"))
        return tg_fail(err, TG_UNSUPPORTED,
                       "adapter '%s' is not built in (zip, zarr, zarr2, zarr3 are)", name);
    if (zip && !first)
        return tg_fail(err, TG_UNSUPPORTED,
                       "'|%.*s': a ZIP inside something else cannot be read", (int)n, s);
    u->zip = u->zip || zip;
    return len == n ? TG_OK : join(inner, s + len + 1, n - len - 1, err);
}

static tg_status parse(tg_url *u, const char *text, tg_error *err)
{
    TG_AUTO(tg_text) inner = {0};
    size_t n = strcspn(text, "|");

    TG_TRY(parse_root(u, text, n, err));
    for (bool first = true; text[n] == '|'; first = false) {
        text += n + 1;
        n = strcspn(text, "|");
        TG_TRY(parse_adapter(u, text, n, first, &inner, err));
    }
    if (inner.len > 0 && !tg_store_key_valid(inner.data))
        return tg_fail(err, TG_INVALID, "'%.200s' leads nowhere inside a store", inner.data);
    if (inner.len == 0)
        return keep(&u->inner, "", 0, false, err);
    u->inner = tg_text_steal(&inner);
    return TG_OK;
}

tg_status tg_url_parse(tg_url *out, const char *text, tg_error *err)
{
    TG_AUTO(tg_url) u = {0};

    TG_TRY(parse(&u, text, err));
    *out = u;
    u = (tg_url){0};
    return TG_OK;
}

tg_status tg_url_decode(char **out, const char *text, tg_error *err)
{
    TG_AUTO(tg_text) t = {0};
    TG_TRY(decode(&t, text, strlen(text), err));
    *out = tg_text_steal(&t);
    return TG_OK;
}

char *tg_store_url_shown(const char *url)
{
    char *shown = tg_strdup(url);
    char *host = shown == NULL ? NULL : strstr(shown, "://");

    if (host == NULL)
        return shown;
    host += 3;
    char *end = host + strcspn(host, "/|"), *at = end;
    while (at > host && at[-1] != '@')
        at--;
    if (at > host)
        memmove(host, at, strlen(at) + 1);
    return shown;
}
