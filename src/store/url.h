/* store/url.h - what tg_store_open() is told, taken apart. Pure text.
 *
 *     root|adapter:path|adapter:path...
 *
 * root: a path as the system knows it, file:///abs, memory://name, or another
 * scheme://. Percent signs stand for bytes in URLs and in adapters' paths, not
 * in a plain path. Adapters: zip first and once; zarr, zarr2, zarr3 only add
 * their path. */
#ifndef TG_STORE_URL_H
#define TG_STORE_URL_H

#include "base/mem.h"

#include <stdbool.h>

typedef struct tg_url {
    char *scheme; /* lower case; "file" for a plain path too */
    char *path;   /* of the root, decoded; what follows :// for any other scheme */
    bool zip;     /* the adapter was named */
    char *inner;  /* the adapters' paths joined: "" or a key */
} tg_url;

/* TG_INVALID, TG_UNSUPPORTED (an adapter that is not here) with the part it is about. */
TG_MUST_USE tg_status tg_url_parse(tg_url *out, const char *text, tg_error *err);
/* Percent signs of part of a URL's path taken as the bytes they stand for. *out: tg_free(). */
TG_MUST_USE tg_status tg_url_decode(char **out, const char *text, tg_error *err);
void tg_url_free(tg_url *u);
static inline void tg_url_auto(tg_url *u)
{
    tg_url_free(u);
}

#endif
