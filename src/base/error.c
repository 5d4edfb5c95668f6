/* base/error.c - filling in error reports. Knows no file, no key, no job. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *tg_status_name(tg_status code)
{
    switch (code) {
#define X(c, name) \
    case c:        \
        return name;
        TG_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

/* The whole report is new: nothing of an earlier failure may show through. */
static void start(tg_error *err, tg_status code, int sys)
{
    err->code = code;
    err->sys = sys;
    err->offset = TG_NO_OFFSET;
    err->key[0] = '\0';
    err->msg[0] = '\0';
}

tg_status(tg_fail)(tg_error *err, tg_status code, const char *fmt, ...)
{
    if (err != NULL) {
        va_list ap;
        va_start(ap, fmt);
        start(err, code, 0);
        (void)vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
    }
    return code;
}

static tg_status status_from_errno(int e)
{
    switch (e) {
    case ENOENT:
        return TG_NOT_FOUND;
    case EEXIST:
        return TG_EXISTS;
    case ENOMEM:
        return TG_NO_MEMORY;
    default:
        return TG_IO;
    }
}

tg_status(tg_fail_errno)(tg_error *err, const char *fmt, ...)
{
    int e = errno;
    tg_status code = status_from_errno(e);

    if (err != NULL) {
        va_list ap;
        va_start(ap, fmt);
        start(err, code, e);
        (void)vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
        char why[96];
        if (strerror_r(e, why, sizeof why) != 0)
            (void)snprintf(why, sizeof why, "errno %d", e);
        size_t n = strlen(err->msg);
        (void)snprintf(err->msg + n, sizeof err->msg - n, ": %s", why);
    }
    return code;
}

void tg_error_prefix(tg_error *err, const char *fmt, ...)
{
    char old[sizeof err->msg];
    va_list ap;

    if (err == NULL || err->code == TG_OK)
        return;
    memcpy(old, err->msg, sizeof old);
    va_start(ap, fmt);
    (void)vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->msg);
    (void)snprintf(err->msg + n, sizeof err->msg - n, ": %.*s", (int)(sizeof old - 1), old);
}

void tg_error_at(tg_error *err, const char *key, uint64_t offset)
{
    if (err == NULL || err->code == TG_OK)
        return;
    if (err->offset == TG_NO_OFFSET)
        err->offset = offset;
    if (key != NULL && err->key[0] == '\0') {
        size_t n = strlen(key), cap = sizeof err->key - 1;
        (void)snprintf(err->key, sizeof err->key, "%s", n > cap ? key + (n - cap) : key);
    }
}
