/* tidegate/store.h - a flat map from keys to bytes: a directory, a ZIP file, memory.
 *
 * A key is a non-empty, '/'-separated path without a leading slash, such as
 * "image/c/0/1/2"; no part of it is empty, "." or "..", none holds NUL. A store
 * knows nothing of Zarr.
 *
 * Threads: every call but close and free may be made from any number of threads at once. */
#ifndef TG_STORE_H
#define TG_STORE_H

#include "tidegate/cancel.h"
#include "tidegate/error.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_store tg_store;

typedef enum tg_store_mode {
    TG_STORE_READ,       /* must exist */
    TG_STORE_READ_WRITE, /* must exist */
    TG_STORE_CREATE,     /* must not exist (TG_EXISTS) */
    TG_STORE_OPEN_OR_CREATE
} tg_store_mode;

typedef struct tg_store_options {
    size_t size; /* sizeof(tg_store_options) */
    tg_store_mode mode;
    bool buffered; /* never O_DIRECT; default: where the file system has it */
    bool no_sync;  /* puts are atomic but not synced one by one (tests, caches) */
} tg_store_options;

/* Open "dir", "file:///dir", "x.zip", "memory://name", "http(s)://host/path" (to read; it
 * cannot be listed), or a pipeline such as "x.zip|zip:inner/path" (path part after the last
 * adapter becomes *prefix, "" if none; freed by the caller; prefix may be NULL only if there is
 * none). options may be NULL: TG_STORE_READ.
 */
TG_API TG_MUST_USE tg_status tg_store_open(const char *url, const tg_store_options *options,
                                           tg_store **out, char **prefix, tg_error *err);
/* A URL as it may be printed: without a user and a password. tg_free() it. NULL: no memory. */
TG_API char *tg_store_url_shown(const char *url);
/* Finish what is pending (a ZIP file's directory, say) and report failures.
 * No call but tg_store_free() may follow. */
TG_API TG_MUST_USE tg_status tg_store_close(tg_store *s, tg_error *err);
/* Free the store. What was not closed is abandoned. s may be NULL. */
TG_API void tg_store_free(tg_store *s);

/* Bytes of a value. TG_NOT_FOUND if there is no such key. */
TG_API TG_MUST_USE tg_status tg_store_size(tg_store *s, const char *key, uint64_t *bytes,
                                           const tg_cancel *cancel, tg_error *err);
/* The names right below prefix ("" or ending in '/'), sorted by bytes: keys whole, deeper ones
 * cut after the next '/' (and ending in it). Temporary names of writers are left out. Return
 * false to stop. */
typedef bool (*tg_list_fn)(void *user, const char *name);
TG_API TG_MUST_USE tg_status tg_store_list(tg_store *s, const char *prefix, tg_list_fn fn,
                                           void *user, const tg_cancel *cancel, tg_error *err);
/* Remove a key; TG_NOT_FOUND if there is none; TG_UNSUPPORTED in a ZIP. */
TG_API TG_MUST_USE tg_status tg_store_remove(tg_store *s, const char *key,
                                             const tg_cancel *cancel, tg_error *err);
/* "directory '/data/x.zarr'", for messages; borrowed. */
TG_API const char *tg_store_describe(const tg_store *s);

#ifdef __cplusplus
}
#endif
#endif
