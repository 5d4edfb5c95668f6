/* store/store_http.c - what lies below a URL as a store: read only, never listed. Decides which
 * bytes to ask for and whether an answer is what was asked for; nothing of a version other
 * than the first one seen gets out. */
#include "store/http.h"

#include <string.h>

#define JOIN_GAP     ((uint64_t)256 << 10) /* read, and dropped, rather than asked for apart */
#define MOST_REQUEST ((uint64_t)16 << 20)
#define MOST_SKIPPED ((uint64_t)1 << 20) /* of a value that comes whole */
#define MOST_IDLE    64
#define OWN_BYTES    ((uint64_t)12 << 20)

typedef struct http_store {
    tg_store base;
    char *root; /* encoded, with user and password, without a '/' at its end */
    tg_http_pins pins;
    tg_http_counters counters;
    tg_mutex lock; /* guards idle, n_idle */
    tg_http_client *idle[MOST_IDLE];
    size_t n_idle;
} http_store;

/* --- URLs -------------------------------------------------------------------------- */

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~/", c) != NULL);
}

static void add_encoded(tg_text *t, unsigned char c)
{
    tg_text_addf(t, "%%%02X", c);
}

/* A key means its bytes. */
static void add_key(tg_text *t, const char *key)
{
    for (; *key != '\0'; key++) {
        if (is_plain((unsigned char)*key))
            tg_text_add_n(t, key, 1);
        else
            add_encoded(t, (unsigned char)*key);
    }
}

static tg_status bad_url(const char *what, tg_error *err)
{
    return tg_fail(err, TG_INVALID, "%s; want http://host[:port]/path", what);
}

/* A URL is encoded by whoever writes it; only what can never stand in one is encoded here. */
static tg_status make_root(const char *scheme, const char *path, tg_text *out, tg_error *err)
{
    size_t n = strlen(path), host = strcspn(path, "/");

    while (n > host && path[n - 1] == '/')
        n--;
    if (host == 0 || path[host - 1] == '@')
        return bad_url("a URL without a host", err);
    if (strcspn(path, "?#") < n)
        return tg_fail(err, TG_INVALID,
                       "a URL with a '?' or '#' part cannot be the root of a store; %%3F and "
                       "%%23 are the characters");
    tg_text_addf(out, "%s://", scheme);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)path[i];
        if (c < ' ' || c == 0x7f)
            return bad_url("a URL with a control character", err);
        if (c == ' ' || c > 0x7f || strchr("\"<>\\^`{}", c) != NULL)
            add_encoded(out, c);
        else
            tg_text_add_n(out, path + i, 1);
    }
    return tg_text_status(out, err);
}

/* --- Clients -------------------------------------------------------------------------- */

static tg_http_client *take_idle(http_store *h)
{
    TG_LOCKED(&h->lock);
    return h->n_idle > 0 ? h->idle[--h->n_idle] : NULL;
}

/* False: it is one too many. */
static bool put_idle(http_store *h, tg_http_client *c)
{
    TG_LOCKED(&h->lock);
    if (h->n_idle == MOST_IDLE)
        return false;
    h->idle[h->n_idle++] = c;
    return true;
}

static tg_status run(http_store *h, const char *key, tg_http_call *call,
                     const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_text) url = {0};
    tg_http_client *c = take_idle(h);

    tg_text_addf(&url, "%s/", h->root);
    add_key(&url, key);
    TG_TRY(tg_text_status(&url, err));
    if (c == NULL)
        TG_TRY(tg_http_client_new(&c, err));
    call->url = url.data;
    tg_status st = tg_http_run(c, call, &h->counters, cancel, err);
    if (st != TG_OK)
        tg_error_prefix(err, "'%.200s'", key);
    if (!put_idle(h, c))
        tg_http_client_free(c);
    return st;
}

/* --- One call --------------------------------------------------------------------------- */

typedef struct reading {
    http_store *store;
    const char *key;
    /* where the bytes go */
    const tg_span *spans;
    size_t n_spans;
    /* what is asked for next: spans[span] from its byte `within` on; or the one range */
    size_t span, within;
    tg_range one;
    bool is_one, asked;
    /* of the one range */
    tg_span whole; /* its place: all the caller's room at first */
    uint64_t total;
    uint64_t too_large; /* bytes that there is no room for; 0: fits */
    bool try_size;      /* a suffix that the server does not understand */
} reading;

/* Statuses that say nothing of ranges. */
static tg_status judge_status(const reading *r, const tg_http_head *h, tg_error *err)
{
    uint64_t had;
    tg_status st;

    if (h->bad[0] != '\0')
        return tg_fail(err, TG_CORRUPT, "answered %d with the header '%s'", h->status, h->bad);
    if (h->status == 200 || h->status == 206 || h->status == 416) {
        if (h->coding[0] == '\0')
            return TG_OK;
        return tg_fail(err, TG_UNSUPPORTED,
                       "the server sends it with Content-Encoding %s though asked not to",
                       h->coding);
    }
    if (h->status == 404 || h->status == 410) {
        if (tg_http_pin_total(&r->store->pins, r->key, &had))
            return tg_fail(err, TG_CORRUPT,
                           "changed while it was read: answered %d, and had %llu bytes",
                           h->status, (unsigned long long)had);
        return tg_fail(err, TG_NOT_FOUND, "answered %d", h->status);
    }
    st = tg_fail(err, TG_IO, "answered %d%s", h->status,
                 h->status == 401 ? ": it wants a user and a password"
                 : h->status == 403
                     ? ": no leave to read it (where names are secret, this may also mean that "
                       "it is not there)"
                     : "");
    if (err != NULL)
        err->sys = h->status;
    return st;
}

static tg_status no_parts(uint64_t first, uint64_t want, tg_error *err)
{
    tg_status st =
        tg_fail(err, TG_UNSUPPORTED,
                "the server does not send parts of a value (answered 200, want 206), "
                "and %llu bytes at byte %llu are wanted",
                (unsigned long long)want, (unsigned long long)first);
    tg_error_at(err, NULL, first);
    return st;
}

/* The whole value comes, and [first, first + want) of it is wanted. */
static tg_status take_whole(const reading *r, tg_http_fetch *f, const tg_http_head *h,
                            uint64_t first, uint64_t want, tg_error *err)
{
    TG_TRY(tg_http_pin_check(&r->store->pins, r->key, h, h->length, err));
    f->skip = first;
    f->want = want;
    f->spare = MOST_SKIPPED;
    if (want == h->length || (h->length == TG_HTTP_UNKNOWN ? first : h->length) <= MOST_SKIPPED)
        return TG_OK;
    return no_parts(first, want, err);
}

/* Bytes [first, end) are wanted, of which the front is already there. */
static tg_status answer_part(const reading *r, tg_http_fetch *f, const tg_http_head *h,
                             tg_error *err)
{
    uint64_t first = f->range.offset + f->got, end = f->range.offset + f->range.len, at, len;

    if (h->status == 200) {
        if (h->length != TG_HTTP_UNKNOWN)
            TG_TRY(tg_range_resolve(f->range, h->length, &at, &len, err));
        return take_whole(r, f, h, first, end - first, err);
    }
    if (!h->has_range)
        return tg_fail(err, TG_CORRUPT,
                       "answered %d without Content-Range, want bytes %llu-%llu", h->status,
                       (unsigned long long)first, (unsigned long long)end - 1);
    TG_TRY(tg_http_pin_check(&r->store->pins, r->key, h, h->total, err));
    if (h->total != TG_HTTP_UNKNOWN)
        TG_TRY(tg_range_resolve(f->range, h->total, &at, &len, err));
    if (h->status == 416 || h->first != first || h->end != end ||
        (h->length != TG_HTTP_UNKNOWN && h->length != end - first)) {
        tg_status st =
            tg_fail(err, TG_CORRUPT,
                    "answered %d with bytes %lld-%lld (%lld bytes), want bytes %llu-%llu",
                    h->status, (long long)h->first, (long long)h->end - 1, (long long)h->length,
                    (unsigned long long)first, (unsigned long long)end - 1);
        tg_error_at(err, NULL, first);
        return st;
    }
    f->skip = f->spare = 0;
    f->want = end - first;
    return TG_OK;
}

/* The one range whose length was not known. */
static tg_status answer_one(reading *r, tg_http_fetch *f, const tg_http_head *h, tg_error *err)
{
    bool last = f->range.kind == TG_RANGE_LAST;
    uint64_t first = 0, len = h->length;

    f->got = f->span = f->within = 0;
    if (h->status == 200) {
        r->total = h->length;
        if (last && len != TG_HTTP_UNKNOWN)
            TG_TRY(tg_range_resolve(f->range, h->length, &first, &len, err));
        r->try_size = last && len == TG_HTTP_UNKNOWN;
    } else if (last && h->status == 206 && h->has_range && h->total != TG_HTTP_UNKNOWN) {
        TG_TRY(tg_http_pin_check(&r->store->pins, r->key, h, h->total, err));
        r->total = h->total;
        TG_TRY(tg_range_resolve(f->range, h->total, &first, &len, err));
        r->try_size = h->first != first || h->end != first + len ||
                      (h->length != TG_HTTP_UNKNOWN && h->length != len);
    } else if (last) {
        r->try_size = true;
    } else {
        return tg_fail(err, TG_CORRUPT, "answered %d where the whole was asked for, want 200",
                       h->status);
    }
    if (r->try_size)
        return tg_fail(err, TG_UNSUPPORTED, "the last %llu bytes come otherwise",
                       (unsigned long long)f->range.len);
    if (len != TG_HTTP_UNKNOWN && len > r->whole.len) {
        r->too_large = len;
        return tg_fail(err, TG_OVER_BUDGET, "%llu bytes to read, room for %zu",
                       (unsigned long long)len, r->whole.len);
    }
    if (h->status == 200)
        return take_whole(r, f, h, first, len, err);
    f->skip = f->spare = 0;
    f->want = len;
    return TG_OK;
}

static tg_status on_answer(void *user, tg_http_fetch *f, const tg_http_head *h, tg_error *err)
{
    reading *r = user;
    TG_TRY(judge_status(r, h, err));
    return r->is_one ? answer_one(r, f, h, err) : answer_part(r, f, h, err);
}

/* Bytes behind each other in the value, each to its place; those between the spans nowhere. */
static void scatter(const reading *r, tg_http_fetch *f, const uint8_t *data, size_t n)
{
    uint64_t at = f->range.offset + f->got;

    while (n > 0 && f->span < r->n_spans) {
        const tg_span *s = &r->spans[f->span];
        uint64_t to = s->offset + f->within;
        size_t part = s->len - f->within;
        if (part == 0) {
            f->span++;
            f->within = 0;
            continue;
        }
        if (to > at) { /* a gap */
            size_t gap = to - at < n ? (size_t)(to - at) : n;
            at += gap;
            data += gap;
            n -= gap;
            continue;
        }
        part = part < n ? part : n;
        memcpy((uint8_t *)s->dst + f->within, data, part);
        f->within += part;
        at += part;
        data += part;
        n -= part;
    }
}

static tg_status on_body(void *user, tg_http_fetch *f, const uint8_t *data, size_t n,
                         tg_error *err)
{
    reading *r = user;

    if (r->is_one && f->want == TG_HTTP_UNKNOWN && n > r->whole.len - f->got) {
        r->too_large = 2 * (uint64_t)r->whole.len + 4096; /* nobody knows how much comes */
        return tg_fail(err, TG_OVER_BUDGET,
                       "more than %zu bytes to read, for which there is room", r->whole.len);
    }
    size_t drop = f->skip < n ? (size_t)f->skip : n;
    f->skip -= drop;
    data += drop;
    n -= drop;
    if (n > f->want) { /* of a value that comes whole */
        uint64_t more = n - f->want;
        if (more > f->spare)
            return f->spare == 0 ? tg_fail(err, TG_CORRUPT,
                                           "the answer goes on after the bytes asked for")
                                 : no_parts(f->range.offset, f->range.len, err);
        f->spare -= more;
        n = (size_t)f->want;
    }
    if (r->is_one)
        memcpy((uint8_t *)r->whole.dst + f->got, data, n);
    else
        scatter(r, f, data, n);
    f->got += n;
    if (f->want != TG_HTTP_UNKNOWN)
        f->want -= n;
    return TG_OK;
}

static tg_status on_end(void *user, tg_http_fetch *f, tg_error *err)
{
    reading *r = user;

    (void)err;
    if (f->want != 0 && f->want != TG_HTTP_UNKNOWN)
        return TG_INCOMPLETE;
    if (r->is_one && f->want == TG_HTTP_UNKNOWN)
        r->total = f->got;
    r->whole.len = r->is_one ? (size_t)f->got : r->whole.len;
    return TG_OK;
}

/* As much of the spans as one request takes: neighbours, and those with little between. */
static bool next_part(reading *r, tg_http_fetch *f)
{
    while (r->span < r->n_spans && r->within == r->spans[r->span].len) {
        r->span++;
        r->within = 0;
    }
    if (r->span == r->n_spans)
        return false;
    const tg_span *s = &r->spans[r->span];
    uint64_t first = s->offset + r->within, end = first;
    f->span = r->span;
    f->within = r->within;
    for (; r->span < r->n_spans; r->span++, r->within = 0) {
        s = &r->spans[r->span];
        uint64_t from = s->offset + r->within, room = MOST_REQUEST - (end - first);
        if (from < end || from - end > JOIN_GAP || from - end >= room)
            break;
        uint64_t part = s->len - r->within;
        room -= from - end;
        end = from + (part < room ? part : room);
        if (part > room) {
            r->within += (size_t)room;
            break;
        }
    }
    f->range = tg_range_at(first, end - first);
    return true;
}

static bool on_next(void *user, tg_http_fetch *f)
{
    reading *r = user;
    if (!r->is_one)
        return next_part(r, f);
    f->range = r->one;
    bool first = !r->asked;
    r->asked = true;
    return first;
}

static tg_status read_now(reading *r, const tg_cancel *cancel, tg_error *err)
{
    tg_http_call call = {
        .user = r, .next = on_next, .answer = on_answer, .body = on_body, .end = on_end};
    return run(r->store, r->key, &call, cancel, err);
}

/* --- Size ------------------------------------------------------------------------------ */

typedef struct sizing {
    reading r;
    bool with_get; /* the first byte instead of HEAD */
} sizing;

static bool size_next(void *user, tg_http_fetch *f)
{
    sizing *z = user;
    f->range = z->with_get ? tg_range_at(0, 1) : tg_range_all();
    bool first = !z->r.asked;
    z->r.asked = true;
    return first;
}

static tg_status size_answer(void *user, tg_http_fetch *f, const tg_http_head *h, tg_error *err)
{
    sizing *z = user;

    (void)f;
    if (!z->with_get && (h->status == 405 || h->status == 501))
        return TG_OK;
    TG_TRY(judge_status(&z->r, h, err));
    z->r.total = h->status == 200 ? h->length : h->has_range ? h->total : TG_HTTP_UNKNOWN;
    if (z->r.total == TG_HTTP_UNKNOWN && !z->with_get)
        return TG_OK;
    if (z->r.total == TG_HTTP_UNKNOWN)
        return tg_fail(err, TG_UNSUPPORTED,
                       "answered %d with neither Content-Length nor a total in Content-Range: "
                       "its size is not known",
                       h->status);
    TG_TRY(tg_http_pin_check(&z->r.store->pins, z->r.key, h, z->r.total, err));
    /* the body is not wanted: TG_CLOSED ends the call */
    return z->with_get ? TG_CLOSED : TG_OK;
}

static tg_status size_body(void *user, tg_http_fetch *f, const uint8_t *data, size_t n,
                           tg_error *err)
{
    (void)user;
    (void)f;
    (void)data;
    (void)n;
    (void)err;
    return TG_OK;
}

static tg_status size_end(void *user, tg_http_fetch *f, tg_error *err)
{
    (void)user;
    (void)f;
    (void)err;
    return TG_OK;
}

static tg_status http_size(tg_store *s, const char *key, uint64_t *bytes,
                           const tg_cancel *cancel, tg_error *err)
{
    http_store *h = (http_store *)s;
    tg_status st = TG_OK;

    if (tg_http_pin_total(&h->pins, key, bytes))
        return TG_OK;
    sizing z = {.r = {.store = h, .key = key, .total = TG_HTTP_UNKNOWN}};
    tg_http_call call = {.head = true,
                         .user = &z,
                         .next = size_next,
                         .answer = size_answer,
                         .body = size_body,
                         .end = size_end};
    TG_TRY(run(h, key, &call, cancel, err));
    if (z.r.total == TG_HTTP_UNKNOWN) {
        z.with_get = true;
        z.r.asked = call.head = false;
        st = run(h, key, &call, cancel, err);
    }
    if (st != TG_OK && st != TG_CLOSED)
        return st;
    *bytes = z.r.total;
    return TG_OK;
}

/* --- Reading ---------------------------------------------------------------------------- */

static tg_status http_get_ranges(tg_store *s, const char *key, const tg_span *spans, size_t n,
                                 const tg_cancel *cancel, tg_error *err)
{
    reading r = {.store = (http_store *)s, .key = key, .spans = spans, .n_spans = n};
    return read_now(&r, cancel, err);
}

static tg_status get_at(tg_store *s, const char *key, tg_range range, void *dst, size_t cap,
                        size_t *n, uint64_t *total, const tg_cancel *cancel, tg_error *err)
{
    http_store *h = (http_store *)s;
    uint64_t size = 0, offset, len;

    if (range.len > cap) {
        *n = range.len > SIZE_MAX ? SIZE_MAX : (size_t)range.len;
        return tg_fail(err, TG_OVER_BUDGET, "'%s' has %llu bytes to read, room for %zu", key,
                       (unsigned long long)range.len, cap);
    }
    if (range.len == 0 || range.offset > INT64_MAX - range.len ||
        tg_http_pin_total(&h->pins, key, &size)) {
        TG_TRY(http_size(s, key, &size, cancel, err));
        TG_TRY(tg_range_resolve(range, size, &offset, &len, err));
    }
    const tg_span span = {range.offset, (size_t)range.len, dst};
    TG_TRY(http_get_ranges(s, key, &span, 1, cancel, err));
    if (total != NULL)
        TG_TRY(http_size(s, key, total, cancel, err));
    *n = (size_t)range.len;
    return TG_OK;
}

static tg_status http_get_into(tg_store *s, const char *key, tg_range range, void *dst,
                               size_t cap, size_t *n, uint64_t *total, const tg_cancel *cancel,
                               tg_error *err)
{
    http_store *h = (http_store *)s;
    uint64_t size = 0, offset, len;

    if (range.kind == TG_RANGE_AT)
        return get_at(s, key, range, dst, cap, n, total, cancel, err);
    if (range.kind == TG_RANGE_ALL ||
        (range.len > 0 && !tg_http_pin_total(&h->pins, key, &size))) {
        reading r = {.store = h,
                     .key = key,
                     .one = range,
                     .is_one = true,
                     .whole = {0, cap, dst},
                     .total = TG_HTTP_UNKNOWN};
        tg_status st = read_now(&r, cancel, err);
        if (st == TG_OVER_BUDGET && r.too_large > 0)
            *n = r.too_large > SIZE_MAX ? SIZE_MAX : (size_t)r.too_large;
        if (st == TG_OK) {
            *n = r.whole.len;
            if (total != NULL)
                *total = r.total;
        }
        if (!r.try_size)
            return st;
    }
    TG_TRY(http_size(s, key, &size, cancel, err));
    TG_TRY(tg_range_resolve(range, size, &offset, &len, err));
    return get_at(s, key, tg_range_at(offset, len), dst, cap, n, total, cancel, err);
}

/* --- Open ----------------------------------------------------------------------------------
 */

static void http_free(tg_store *s)
{
    http_store *h = (http_store *)s;

    for (size_t i = 0; i < h->n_idle; i++)
        tg_http_client_free(h->idle[i]);
    tg_mutex_destroy(&h->pins.lock);
    tg_mutex_destroy(&h->lock);
    tg_free(h->pins.at);
    tg_free(h->root);
    tg_free(h);
}

static const tg_store_ops http_ops = {
    .name = "HTTP",
    .get_into = http_get_into,
    .get_ranges = http_get_ranges,
    .size = http_size,
    .free = http_free,
};

tg_status tg_store_open_http(tg_store **out, const char *scheme, const char *path,
                             const tg_store_options *options, tg_error *err)
{
    TG_AUTO(tg_text) root = {0};
    TG_AUTO(tg_str) shown = NULL;

    TG_TRY(make_root(scheme, path, &root, err));
    shown = tg_store_url_shown(root.data);
    if (shown == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    if (options != NULL && options->mode != TG_STORE_READ)
        return tg_fail(err, TG_UNSUPPORTED, "'%.200s': a URL can be read, not written", shown);
    TG_TRY(tg_http_load(err));
    http_store *h = tg_calloc(1, sizeof *h);
    if (h == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    tg_store_init(&h->base, &http_ops);
    tg_mutex_init(&h->lock);
    tg_mutex_init(&h->pins.lock);
    TG_AUTO_PTR(tg_store) s = &h->base;
    h->root = tg_text_steal(&root);
    h->base.caps = TG_STORE_IS_REMOTE;
    h->base.own_bytes = OWN_BYTES;
    h->pins.at = tg_calloc(TG_HTTP_PINS, sizeof *h->pins.at);
    if (h->pins.at == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a store");
    TG_TRY(tg_store_set_what(s, "HTTP", shown, err));
    *out = tg_steal(s);
    return TG_OK;
}

tg_store_net tg_store_net_used(const tg_store *s)
{
    while (s->inner != NULL)
        s = s->inner;
    if (s->ops != &http_ops)
        return (tg_store_net){0};
    const http_store *h = (const http_store *)s;
    return (tg_store_net){.requests = atomic_load(&h->counters.requests),
                          .retries = atomic_load(&h->counters.retries),
                          .bytes = atomic_load(&h->counters.bytes)};
}
