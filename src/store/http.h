/* store/http.h - what the files of the HTTP store share.
 *
 * store_http.c  the backend: which bytes are wanted, and whether an answer holds them
 * http_pins.c   which version of each value was seen
 * http_curl.c   connections, retries, redirects, time-outs: the only file that knows libcurl
 * http_head.c   header lines */
#ifndef TG_STORE_HTTP_H
#define TG_STORE_HTTP_H

#include "base/sync.h"
#include "store/http_head.h"
#include "store/store.h"

#include <stdatomic.h>

#define TG_HTTP_PARALLEL 4 /* requests of one call that are under way at once */

/* --- http_pins.c ------------------------------------------------------------- */

/* The version of each value that was read last, so that no two answers of different versions
 * are put together. Of the values not read for long the version is forgotten. */
#define TG_HTTP_PINS 4096

typedef struct tg_http_pin {
    uint64_t key;   /* a sum of it; 0: free */
    uint64_t total; /* TG_HTTP_UNKNOWN: not known */
    char etag[72], modified[40];
} tg_http_pin;

typedef struct tg_http_pins {
    tg_mutex lock; /* guards at, turn */
    tg_http_pin *at;
    uint32_t turn;
} tg_http_pins;

/* Remember the version that an answer tells of, or hold it against the one remembered:
 * TG_CORRUPT if the value changed. total: its size, if the answer says so. */
TG_MUST_USE tg_status tg_http_pin_check(tg_http_pins *p, const char *key, const tg_http_head *h,
                                        uint64_t total, tg_error *err);
/* The size remembered. */
bool tg_http_pin_total(tg_http_pins *p, const char *key, uint64_t *total);

/* --- http_curl.c ------------------------------------------------------------------ */

/* One request of a call. */
typedef struct tg_http_fetch {
    tg_range range; /* of the value */
    uint64_t got;   /* bytes of it that are in place: a retry asks for the rest */
    /* the caller's own */
    uint64_t skip, want; /* of the answer's body: bytes before those wanted, bytes wanted */
    uint64_t spare;      /* bytes that may come behind them */
    size_t span;         /* where the next byte goes */
    size_t within;
} tg_http_fetch;

typedef struct tg_http_call {
    const char *url; /* encoded, with its user and password */
    bool head;       /* HEAD, not GET */
    void *user;
    /* The next request; false: no more. */
    bool (*next)(void *user, tg_http_fetch *f);
    /* Headers have come: a failure ends the call. Statuses worth a retry are not handed on. */
    tg_status (*answer)(void *user, tg_http_fetch *f, const tg_http_head *h, tg_error *err);
    /* Some bytes of the body. */
    tg_status (*body)(void *user, tg_http_fetch *f, const uint8_t *data, size_t n,
                      tg_error *err);
    /* The body has ended; TG_INCOMPLETE: before its time, so try again. */
    tg_status (*end)(void *user, tg_http_fetch *f, tg_error *err);
} tg_http_call;

/* The connections of one thread, kept open from call to call. */
typedef struct tg_http_client tg_http_client;

typedef struct tg_http_counters {
    atomic_uint_least64_t requests, retries, bytes;
} tg_http_counters;

/* Load libcurl, once for the process. TG_UNSUPPORTED: it is not there, or too old. */
TG_MUST_USE tg_status tg_http_load(tg_error *err);
TG_MUST_USE tg_status tg_http_client_new(tg_http_client **out, tg_error *err);
void tg_http_client_free(tg_http_client *c);
TG_DEFINE_AUTO_PTR(tg_http_client, tg_http_client_free)
/* Run a call's requests, TG_HTTP_PARALLEL at a time, each until it is done or was tried as
 * often as is allowed. The first failure ends the others. */
TG_MUST_USE tg_status tg_http_run(tg_http_client *c, const tg_http_call *call,
                                  tg_http_counters *counters, const tg_cancel *cancel,
                                  tg_error *err);

#endif
