/* store/http_curl.c - requests through libcurl: several at a time, tried again where that may
 * help. Knows no store.
 *
 * The library is loaded when the first URL is opened, not linked: with the thirty that it needs
 * it takes 6 MiB and 7 ms of every process (docs/decisions/http.md). */
#define CURL_DISABLE_TYPECHECK /* its checks are macros that take no function pointer */
#include "base/clock.h"
#include "base/text.h"
#include "store/http.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY        "libcurl.so.4"
#define OLDEST         0x075500 /* 7.85: protocols by name */
#define MOST_REDIRECTS 5L
#define TRIES          6
#define SECONDS        20 /* to connect; without 1 KiB/s */
#define FIRST_PAUSE_NS INT64_C(100000000)
#define MOST_PAUSE_NS  INT64_C(20000000000)
#define MOST_WAIT_S    120                  /* that a server may ask for */
#define MOST_BODY      ((uint64_t)64 << 10) /* of an answer that nobody wants */
#define LOOK_MS        100                  /* at the cancel token */

/* --- The library -------------------------------------------------------------- */

/* clang-format off */
#define FUNCTIONS(X)                                                                         \
    X(global_init) X(version_info) X(easy_init) X(easy_setopt) X(easy_getinfo) X(easy_reset) \
    X(easy_cleanup) X(easy_strerror) X(multi_init) X(multi_add_handle)                       \
    X(multi_remove_handle) X(multi_perform) X(multi_info_read) X(multi_poll)                 \
    X(multi_cleanup) X(multi_strerror) X(slist_append) X(slist_free_all)
/* clang-format on */

static struct {
    bool loaded;
    struct curl_slist *headers;
#define X(name) __typeof__(curl_##name) *name;
    FUNCTIONS(X)
#undef X
} curl;
static tg_mutex loading = PTHREAD_MUTEX_INITIALIZER; /* guards curl until it is loaded */

static tg_status find_functions(void *library, tg_error *err)
{
    static const char *const names[] = {
#define X(name) "curl_" #name,
        FUNCTIONS(X)
#undef X
    };
    void *found[sizeof names / sizeof names[0]] = {NULL};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found[i] = dlsym(library, names[i]);
        if (found[i] == NULL)
            return tg_fail(err, TG_UNSUPPORTED, "HTTP: %s has no function %s", LIBRARY,
                           names[i]);
    }
    size_t i = 0;
#define X(name) memcpy(&curl.name, &found[i++], sizeof curl.name);
    FUNCTIONS(X)
#undef X
    return TG_OK;
}

tg_status tg_http_load(tg_error *err)
{
    TG_LOCKED_FOR_IO(&loading);
    if (curl.loaded)
        return TG_OK;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why =
            dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own in glibc */
        return tg_fail(err, TG_UNSUPPORTED, "HTTP needs %s: %.200s", LIBRARY,
                       why == NULL ? "it cannot be loaded" : why);
    }
    TG_TRY(find_functions(library, err));
    const curl_version_info_data *version = curl.version_info(CURLVERSION_NOW);
    if (version->version_num < OLDEST)
        return tg_fail(err, TG_UNSUPPORTED, "HTTP: %s is version %s, want 7.85 or newer",
                       LIBRARY, version->version);
    if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return tg_fail(err, TG_NO_MEMORY, "HTTP: %s does not start", LIBRARY);
    /* what a server made smaller would have other offsets */
    curl.headers = curl.slist_append(NULL, "Accept-Encoding: identity");
    if (curl.headers == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for HTTP");
    curl.loaded = true;
    return TG_OK;
}

/* --- Clients ------------------------------------------------------------------------ */

typedef struct slot {
    struct running *run;
    CURL *easy;
    bool active; /* holds a fetch that is not done */
    bool sent;   /* and it is under way */
    int64_t due; /* else when to send it */
    int tries;
    tg_http_fetch fetch;
    tg_http_head head;
    bool answered;    /* its headers were handed on, or are no use */
    bool retry;       /* they said: later */
    bool unwanted;    /* its body is dropped */
    uint64_t body;    /* bytes of it */
    tg_status status; /* of a callback */
    char why[CURL_ERROR_SIZE];
} slot;

struct tg_http_client {
    CURLM *multi;
    slot slots[TG_HTTP_PARALLEL];
    uint64_t random;
};

typedef struct running {
    tg_http_client *client;
    const tg_http_call *call;
    tg_http_counters *counters;
    tg_error *err;
    int tries;
    long seconds;
} running;

/* A whole number of the environment in [1, most]; what is none is not heeded. */
static long setting(const char *name, long usual, long most)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe): nobody sets it */
    uint64_t v = 0;
    if (text == NULL || tg_parse_u64(text, &v, NULL) != TG_OK || v < 1 || v > (uint64_t)most)
        return usual;
    return (long)v;
}

tg_status tg_http_client_new(tg_http_client **out, tg_error *err)
{
    TG_AUTO_PTR(tg_http_client) c = tg_calloc(1, sizeof *c);
    bool made = c != NULL;

    if (made) {
        c->multi = curl.multi_init();
        c->random = (uint64_t)tg_clock_ns() ^ (uint64_t)(uintptr_t)c;
        made = c->multi != NULL;
    }
    for (size_t i = 0; made && i < TG_HTTP_PARALLEL; i++) {
        c->slots[i].easy = curl.easy_init();
        made = c->slots[i].easy != NULL;
    }
    if (!made)
        return tg_fail(err, TG_NO_MEMORY, "no memory for connections");
    *out = tg_steal(c);
    return TG_OK;
}

void tg_http_client_free(tg_http_client *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < TG_HTTP_PARALLEL; i++)
        curl.easy_cleanup(c->slots[i].easy);
    if (c->multi != NULL)
        (void)curl.multi_cleanup(c->multi);
    tg_free(c);
}

/* --- Answers ------------------------------------------------------------------------- */

static bool worth_a_retry(int status)
{
    return status == 408 || status == 429 || status == 509 ||
           (status >= 500 && status <= 504 && status != 501);
}

static bool is_redirect(int status)
{
    return status >= 300 && status < 400 && status != 304;
}

/* All headers of one answer are there. */
static void take_answer(slot *s)
{
    const tg_http_head *h = &s->head;

    if (h->status < 200 || is_redirect(h->status)) /* libcurl goes on by itself, or fails */
        return;
    s->answered = true;
    s->retry = worth_a_retry(h->status);
    if (!s->retry)
        s->status = s->run->call->answer(s->run->call->user, &s->fetch, h, s->run->err);
    s->unwanted = s->retry || s->status != TG_OK;
}

/* Is it cheaper to read what nobody wants than to make a new connection? */
static bool keep_reading(const slot *s)
{
    return s->head.length != TG_HTTP_UNKNOWN && s->head.length <= MOST_BODY;
}

static size_t on_header(char *line, size_t one, size_t n, void *user)
{
    slot *s = user;
    (void)one;
    if (n > 0 && line[0] != '\r' && line[0] != '\n') {
        tg_http_head_line(&s->head, line, n, tg_clock_utc_ns() / 1000000000);
        return n;
    }
    take_answer(s);
    return s->unwanted && !keep_reading(s) ? 0 : n;
}

static size_t on_body(char *data, size_t one, size_t n, void *user)
{
    slot *s = user;
    (void)one;
    s->body += n;
    if (s->unwanted || !s->answered)
        return s->body <= MOST_BODY ? n : 0;
    atomic_fetch_add_explicit(&s->run->counters->bytes, n, memory_order_relaxed);
    s->status = s->run->call->body(s->run->call->user, &s->fetch, (const uint8_t *)data, n,
                                   s->run->err);
    return s->status == TG_OK ? n : 0;
}

/* --- Requests --------------------------------------------------------------------------- */

static void set_options(slot *s)
{
    const tg_http_call *call = s->run->call;
    CURL *e = s->easy;

    curl.easy_reset(e); /* connections stay */
    (void)curl.easy_setopt(e, CURLOPT_URL, call->url);
    (void)curl.easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    (void)curl.easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)curl.easy_setopt(e, CURLOPT_NOBODY, call->head ? 1L : 0L);
    (void)curl.easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl.easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    /* what was asked for over TLS is not fetched without it */
    (void)curl.easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR,
                           strncmp(call->url, "https", 5) == 0 ? "https" : "http,https");
    (void)curl.easy_setopt(e, CURLOPT_FOLLOWLOCATION, 1L);
    (void)curl.easy_setopt(e, CURLOPT_MAXREDIRS, MOST_REDIRECTS);
    (void)curl.easy_setopt(e, CURLOPT_CONNECTTIMEOUT, s->run->seconds);
    (void)curl.easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1024L);
    (void)curl.easy_setopt(e, CURLOPT_LOW_SPEED_TIME, s->run->seconds);
    (void)curl.easy_setopt(e, CURLOPT_BUFFERSIZE, 128L << 10);
    (void)curl.easy_setopt(e, CURLOPT_HTTPHEADER, curl.headers);
    (void)curl.easy_setopt(e, CURLOPT_USERAGENT, "tidegate");
    (void)curl.easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl.easy_setopt(e, CURLOPT_HEADERDATA, s);
    (void)curl.easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl.easy_setopt(e, CURLOPT_WRITEDATA, s);
    (void)curl.easy_setopt(e, CURLOPT_PRIVATE, s);
    (void)curl.easy_setopt(e, CURLOPT_ERRORBUFFER, s->why);
}

static tg_status send_request(slot *s)
{
    const tg_http_fetch *f = &s->fetch;
    char range[64] = "";

    set_options(s);
    if (f->range.kind == TG_RANGE_LAST)
        (void)snprintf(range, sizeof range, "-%llu", (unsigned long long)f->range.len);
    else if (f->range.kind == TG_RANGE_AT)
        (void)snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, f->range.offset + f->got,
                       f->range.offset + f->range.len - 1);
    CURLcode set = curl.easy_setopt(s->easy, CURLOPT_RANGE, range[0] == '\0' ? NULL : range);
    tg_http_head_begin(&s->head);
    s->answered = s->retry = s->unwanted = false;
    s->body = 0;
    s->why[0] = '\0';
    if (set != CURLE_OK || curl.multi_add_handle(s->run->client->multi, s->easy) != CURLM_OK)
        return tg_fail(s->run->err, TG_NO_MEMORY, "no memory for a request");
    s->sent = true;
    s->tries++;
    atomic_fetch_add_explicit(&s->run->counters->requests, 1, memory_order_relaxed);
    return TG_OK;
}

static bool may_pass(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2_STREAM:
        return true;
    default:
        return false;
    }
}

/* Names no user and no password: libcurl's own words do not, unless they quote the URL. */
static const char *words(const slot *s, CURLcode code)
{
    return s->why[0] == '\0' || strchr(s->why, '@') != NULL ? curl.easy_strerror(code) : s->why;
}

static tg_status give_up(const slot *s, CURLcode code)
{
    const tg_http_fetch *f = &s->fetch;
    uint64_t at = (f->range.kind == TG_RANGE_AT ? f->range.offset : 0) + f->got;
    char wanted[48] = "";
    tg_status st;

    if (f->want > 0)
        (void)snprintf(wanted, sizeof wanted, " of %llu", (unsigned long long)f->want);
    if (s->retry)
        st = tg_fail(s->run->err, TG_IO, "at byte %llu: answered %d after %d tries",
                     (unsigned long long)at, s->head.status, s->tries);
    else if (code == CURLE_OK)
        st = tg_fail(s->run->err, TG_IO,
                     "at byte %llu: the answer ends after %llu bytes%s (%d tries)",
                     (unsigned long long)at, (unsigned long long)f->got, wanted, s->tries);
    else
        st = tg_fail(s->run->err, TG_IO, "at byte %llu: %.150s, got %llu bytes%s (%d tries)",
                     (unsigned long long)at, words(s, code), (unsigned long long)f->got, wanted,
                     s->tries);
    if (s->run->err != NULL)
        s->run->err->sys = s->head.status;
    tg_error_at(s->run->err, NULL, at);
    return st;
}

/* A random part of a pause that doubles, so that many clients do not come back together. */
static int64_t pause_ns(slot *s)
{
    int64_t most = FIRST_PAUSE_NS << (s->tries < 10 ? s->tries - 1 : 9);
    uint64_t *x = &s->run->client->random;

    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    most = most < MOST_PAUSE_NS ? most : MOST_PAUSE_NS;
    int64_t pause = (int64_t)((*x >> 33) % (uint64_t)most);
    if (s->retry && s->head.retry_after > 0) {
        int64_t asked = s->head.retry_after * 1000000000;
        pause = pause > asked ? pause : asked;
    }
    return pause;
}

static tg_status try_again(slot *s, CURLcode code)
{
    if (s->retry && s->head.retry_after > MOST_WAIT_S)
        return tg_fail(s->run->err, TG_IO,
                       "answered %d and asks to wait for %lld s, %d s are the most",
                       s->head.status, (long long)s->head.retry_after, MOST_WAIT_S);
    if (s->tries >= s->run->tries)
        return give_up(s, code);
    atomic_fetch_add_explicit(&s->run->counters->retries, 1, memory_order_relaxed);
    s->due = tg_clock_ns() + pause_ns(s);
    return TG_OK;
}

/* libcurl has done with a request. */
static tg_status finish(slot *s, CURLcode code)
{
    (void)curl.multi_remove_handle(s->run->client->multi, s->easy);
    s->sent = false;
    if (s->status != TG_OK)
        return s->status;
    if (s->retry)
        return try_again(s, code);
    if (code == CURLE_OK && s->answered) {
        tg_status st = s->run->call->end(s->run->call->user, &s->fetch, s->run->err);
        s->active = st == TG_INCOMPLETE;
        return s->active ? try_again(s, code) : st;
    }
    if (code == CURLE_OK)
        return tg_fail(s->run->err, TG_IO, "answered %d without a place to look at",
                       s->head.status);
    if (may_pass(code))
        return try_again(s, code);
    return give_up(s, code);
}

/* --- Calls ---------------------------------------------------------------------------------
 */

/* Send what is due. *wait_ms: until the next is. */
static tg_status send_due(running *r, bool *more, int *wait_ms, bool *busy)
{
    int64_t now = tg_clock_ns();

    *busy = false;
    for (size_t i = 0; i < TG_HTTP_PARALLEL; i++) {
        slot *s = &r->client->slots[i];
        if (!s->active && *more) {
            s->fetch = (tg_http_fetch){.got = 0};
            *more = s->active = r->call->next(r->call->user, &s->fetch);
            s->tries = 0;
            s->due = now;
            s->status = TG_OK;
        }
        if (s->active && !s->sent && s->due <= now)
            TG_TRY(send_request(s));
        if (s->active && !s->sent && (s->due - now) / 1000000 < *wait_ms)
            *wait_ms = (int)((s->due - now) / 1000000) + 1;
        *busy = *busy || s->active;
    }
    return TG_OK;
}

static tg_status take_done(running *r, bool *any)
{
    for (*any = false;; *any = true) {
        int left = 0;
        const CURLMsg *m = curl.multi_info_read(r->client->multi, &left);
        if (m == NULL)
            return TG_OK;
        if (m->msg != CURLMSG_DONE)
            continue;
        char *private = NULL;
        CURLcode code = m->data.result;
        (void)curl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private);
        for (size_t i = 0; i < TG_HTTP_PARALLEL; i++)
            if ((char *)&r->client->slots[i] == private)
                TG_TRY(finish(&r->client->slots[i], code));
    }
}

static tg_status run_all(running *r, const tg_cancel *cancel)
{
    bool more = true, busy = true;

    for (;;) {
        int wait_ms = LOOK_MS, n = 0;
        bool done = false; /* then others may start at once */
        TG_TRY(tg_cancel_check(cancel, r->err));
        TG_TRY(send_due(r, &more, &wait_ms, &busy));
        if (!busy)
            return TG_OK;
        CURLMcode rc = curl.multi_perform(r->client->multi, &n);
        TG_TRY(take_done(r, &done));
        if (rc == CURLM_OK && !done)
            rc = curl.multi_poll(r->client->multi, NULL, 0, wait_ms, NULL);
        if (rc != CURLM_OK)
            return tg_fail(r->err, TG_IO, "%.100s", curl.multi_strerror(rc));
    }
}

tg_status tg_http_run(tg_http_client *c, const tg_http_call *call, tg_http_counters *counters,
                      const tg_cancel *cancel, tg_error *err)
{
    running r = {.client = c, .call = call, .counters = counters, .err = err};

    TG_ASSERT_UNLOCKED();
    r.tries = (int)setting("TIDEGATE_HTTP_TRIES", TRIES, 100);
    r.seconds = setting("TIDEGATE_HTTP_TIMEOUT", SECONDS, 3600);
    for (size_t i = 0; i < TG_HTTP_PARALLEL; i++) {
        c->slots[i].run = &r;
        c->slots[i].active = c->slots[i].sent = false;
    }
    tg_status st = run_all(&r, cancel);
    for (size_t i = 0; i < TG_HTTP_PARALLEL; i++)
        if (c->slots[i].sent)
            (void)curl.multi_remove_handle(c->multi, c->slots[i].easy);
    return st;
}
