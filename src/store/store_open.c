/* store/store_open.c - from a path or URL to the store behind it. Knows which
 * stores there are, and nothing of how they work. */
#include "base/sys.h"
#include "store/store.h"
#include "store/url.h"

#include <fcntl.h>
#include <string.h>

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    if (n <= k)
        return false;
    for (size_t i = 0; i < k; i++) {
        char c = s[n - k + i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != end[i])
            return false;
    }
    return true;
}

/* A name like a ZIP's is one, unless there is a directory of that name. */
static bool is_zip(const tg_url *u)
{
    struct stat st;

    if (u->zip)
        return true;
    return (ends_in(u->path, ".zip") || ends_in(u->path, ".ozx")) &&
           !(tg_sys_stat(AT_FDCWD, u->path, &st, 0) == 0 && S_ISDIR(st.st_mode));
}

static tg_status open_file(const tg_url *u, const tg_store_options *options, tg_store **out,
                           tg_error *err)
{
    struct stat st;

    if (is_zip(u))
        return tg_store_open_zip(out, u->path, options, err);
    if (tg_sys_stat(AT_FDCWD, u->path, &st, 0) == 0 && !S_ISDIR(st.st_mode))
        return tg_fail(err, TG_INVALID,
                       "'%s' is not a directory; if it is a ZIP file, say '%s|zip:'", u->path,
                       u->path);
    return tg_store_open_fs(out, u->path, options, err);
}

static tg_status open_memory(const tg_url *u, const tg_store_options *options, tg_store **out,
                             tg_error *err)
{
    tg_store_mode mode = options == NULL ? TG_STORE_READ : options->mode;

    if (u->zip)
        return tg_fail(err, TG_UNSUPPORTED, "memory://%s: a ZIP must be a file", u->path);
    if (mode == TG_STORE_READ || mode == TG_STORE_READ_WRITE)
        return tg_fail(err, TG_NOT_FOUND,
                       "memory://%s: what is in memory is there only for whoever made it",
                       u->path);
    TG_TRY(tg_store_open_mem(out, err));
    tg_status st = tg_store_set_what(*out, "memory", u->path, err);
    if (st != TG_OK) {
        tg_store_free(*out);
        *out = NULL;
    }
    return st;
}

static tg_status open_url(const tg_url *u, const tg_store_options *options, tg_store **out,
                          tg_error *err)
{
    static const char *const remote[] = {"s3", "s3+http", "s3+https", "gs"};

    if (strcmp(u->scheme, "file") == 0)
        return open_file(u, options, out, err);
    if (strcmp(u->scheme, "memory") == 0)
        return open_memory(u, options, out, err);
    if (strcmp(u->scheme, "http") == 0 || strcmp(u->scheme, "https") == 0)
        return u->zip ? tg_fail(err, TG_UNSUPPORTED, "a ZIP must be a file")
                      : tg_store_open_http(out, u->scheme, u->path, options, err);
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++) {
        if (strcmp(u->scheme, remote[i]) == 0)
            return tg_fail(err, TG_UNSUPPORTED, "%s://%s: %s stores are not built in",
                           u->scheme, u->path, u->scheme);
    }
    return tg_fail(err, TG_UNSUPPORTED, "%s://%s: no such kind of store as '%s'", u->scheme,
                   u->path, u->scheme);
}

tg_status tg_store_open(const char *url, const tg_store_options *options, tg_store **out,
                        char **prefix, tg_error *err)
{
    TG_AUTO(tg_url) u = {0};
    TG_AUTO_PTR(tg_store) s = NULL;

    TG_TRY(tg_url_parse(&u, url, err));
    if (prefix == NULL && u.inner[0] != '\0')
        return tg_fail(err, TG_INVALID, "'%s': a path inside the store is not wanted here",
                       url);
    tg_status st = open_url(&u, options, &s, err);
    if (st != TG_OK) {
        TG_AUTO(tg_str) shown = tg_store_url_shown(url);
        tg_error_at(err, shown, TG_NO_OFFSET);
        return st;
    }
    if (prefix != NULL)
        *prefix = tg_steal(u.inner);
    *out = tg_steal(s);
    return TG_OK;
}
