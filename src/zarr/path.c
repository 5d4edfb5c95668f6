/* Paths of nodes and names below them. A path here has no empty part, no "." and
 * no "..", so that nothing read from a file can name what lies outside the store. */
#include "zarr/path.h"

#include "zarr/zarr.h"

#include <stdio.h>
#include <string.h>

/* One part of a key: not empty, not "." or "..", no control character. */
static tg_status check_part(const char *part, size_t len, tg_error *err)
{
    if (len == 0)
        return tg_fail(err, TG_INVALID, "path: a part of it is empty");
    if ((len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.'))
        return tg_fail(err, TG_INVALID, "path: '%.*s' is not allowed in it", (int)len, part);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)part[i] < 0x20 || part[i] == '\\' || part[i] == 0x7f)
            return tg_fail(err, TG_INVALID, "path: byte 0x%02x is not allowed in it",
                           (unsigned)(unsigned char)part[i]);
    return TG_OK;
}

static tg_status check_parts(const char *key, tg_error *err)
{
    const char *at = key;

    for (;;) {
        size_t len = strcspn(at, "/");
        TG_TRY(check_part(at, len, err));
        if (at[len] == '\0')
            return TG_OK;
        at += len + 1;
    }
}

tg_status tg_path_join(char *dst, size_t cap, const char *path, const char *name, tg_error *err)
{
    if (path[0] != '\0')
        TG_TRY(check_parts(path, err));
    TG_TRY(check_parts(name, err));
    if (strlen(path) + strlen(name) + 2 > cap)
        return tg_fail(err, TG_INVALID, "path '%.80s/%.80s': longer than %zu bytes", path, name,
                       cap - 1);
    (void)snprintf(dst, cap, "%s%s%s", path, path[0] == '\0' ? "" : "/", name);
    return TG_OK;
}

tg_status tg_path_normalise(char *dst, size_t cap, const char *path, tg_error *err)
{
    size_t n = 0;

    for (const char *at = path; *at != '\0'; at++) {
        char c = *at == '\\' ? '/' : *at;
        if (c == '/' && (n == 0 || dst[n - 1] == '/'))
            continue;
        if (n + 1 >= cap)
            return tg_fail(err, TG_INVALID, "path '%.80s...': longer than %zu bytes", path,
                           cap - 1);
        dst[n++] = c;
    }
    if (n > 0 && dst[n - 1] == '/')
        n--;
    dst[n] = '\0';
    return n == 0 ? TG_OK : check_parts(dst, err);
}

static bool is_reserved(const char *name, size_t len)
{
    static const char *const reserved[] = {"zarr.json", ".zarray", ".zgroup", ".zattrs",
                                           ".zmetadata"};

    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strlen(reserved[i]) == len && memcmp(name, reserved[i], len) == 0)
            return true;
    return (len >= 2 && name[0] == '_' && name[1] == '_') || strspn(name, ".") >= len;
}

bool tg_node_name_ok(const char *name)
{
    size_t len = strlen(name);
    return strcspn(name, "/") == len && check_part(name, len, NULL) == TG_OK &&
           !is_reserved(name, len);
}

tg_status tg_node_path_check(const char *path, tg_error *err)
{
    for (const char *at = path; *at != '\0';) {
        size_t len = strcspn(at, "/");
        TG_TRY(check_part(at, len, err));
        if (is_reserved(at, len))
            return tg_fail(err, TG_INVALID, "path '%.200s': '%.*s' cannot name a node", path,
                           (int)len, at);
        at += len;
        at += *at == '/';
    }
    return TG_OK;
}
