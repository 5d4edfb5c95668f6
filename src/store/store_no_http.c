/* store/store_no_http.c - a build without libcurl says so. */
#include "store/store.h"

tg_status tg_store_open_http(tg_store **out, const char *scheme, const char *path,
                             const tg_store_options *options, tg_error *err)
{
    (void)out;
    (void)path;
    (void)options;
    return tg_fail(err, TG_UNSUPPORTED,
                   "%s: HTTP is not built in (libcurl 7.85 or newer was not there)", scheme);
}

tg_store_net tg_store_net_used(const tg_store *s)
{
    (void)s;
    return (tg_store_net){0};
}
