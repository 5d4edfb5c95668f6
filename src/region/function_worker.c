/* Workers: a process for each slot that stays, and is called over memory that both have mapped.
 * docs/functions.md is the protocol. What a worker says and writes is believed in nothing: its
 * lines are bounded and parsed, its memory cannot shrink under us, and what it makes of the
 * memory is read once, as items. One that breaks the protocol, dies or is late is killed, and
 * another one started for the next call of the slot. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create(), F_ADD_SEALS */
#endif
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/text.h"
#include "exec/child.h"
#include "region/function_kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define PROTOCOL   1
#define LINE_BYTES 4096 /* the most that a worker says at once */
#define ALIGNMENT  64
#define GRACE_MS   5000  /* to end by itself, once its socket is closed */
#define START_MS   60000 /* at least, with --call-timeout */

typedef struct worker {
    tg_child child; /* pid 0: none runs */
    int socket;
    int memory;
    uint8_t *map;
    size_t mapped;
    uint64_t calls;
} worker;

typedef struct worker_function {
    tg_function f;
    tg_guard *guard;
    char *command;
    uint64_t timeout_ms;
    size_t in_size; /* of an item */
    tg_text hello;  /* a first line without the worker's own number */
    uint32_t n;
    worker w[]; /* by slot */
} worker_function;

/* --- Lines ---------------------------------------------------------------------------------
 */

static void add_string(tg_text *t, const char *s)
{
    const size_t n = tg_utf8_valid(s, strlen(s)) ? strlen(s) : 0;

    tg_text_add(t, "\"");
    for (size_t i = 0; i < n; i++)
        if (s[i] == '"' || s[i] == '\\')
            tg_text_addf(t, "\\%c", s[i]);
        else if ((unsigned char)s[i] < ' ')
            tg_text_addf(t, "\\u%04x", (unsigned)(unsigned char)s[i]);
        else
            tg_text_add_n(t, s + i, 1);
    tg_text_add(t, "\"");
}

static void add_list(tg_text *t, const char *name, const uint64_t *list, uint32_t n)
{
    tg_text_addf(t, ", \"%s\": [", name);
    for (uint32_t d = 0; d < n; d++)
        tg_text_addf(t, "%s%" PRId64, d == 0 ? "" : ", ", (int64_t)list[d]);
    tg_text_add(t, "]");
}

static void add_scale(tg_text *t, const double *scale, uint32_t n)
{
    char number[40];

    tg_text_add(t, ", \"scale\": [");
    for (uint32_t d = 0; d < n; d++) {
        tg_format_double(number, sizeof number, scale[d]);
        tg_text_addf(t, "%s%s", d == 0 ? "" : ", ", number);
    }
    tg_text_add(t, "]");
}

static void add_hello(tg_text *t, const tg_function_env *env, tg_dtype out)
{
    char a[16], b[16];
    double scale[TG_MAX_NDIM];
    const uint32_t ndim = env->in_shape->ndim;

    tg_text_addf(t,
                 "{\"tidegate_worker\": %d, \"in_dtype\": \"%s\", \"out_dtype\": \"%s\", "
                 "\"workers\": %" PRIu32 ", \"axes\": [",
                 PROTOCOL, tg_dtype_name(env->in_dtype, a), tg_dtype_name(out, b), env->jobs);
    for (uint32_t d = 0; d < ndim; d++) {
        tg_text_add(t, d == 0 ? "" : ", ");
        add_string(t, env->axes == NULL || env->axes[d] == NULL ? "" : env->axes[d]);
        scale[d] = env->scale == NULL || !(env->scale[d] > 0) ? 1 : env->scale[d];
    }
    tg_text_add(t, "]");
    add_list(t, "shape", env->in_shape->n, ndim);
    add_scale(t, scale, ndim);
}

static void add_view(tg_text *t, const char *name, const tg_region_view *v, uint64_t offset)
{
    char room[16];

    tg_text_addf(t, ", \"%s\": {\"offset\": %" PRIu64 ", \"dtype\": \"%s\"", name, offset,
                 tg_dtype_name(v->dtype, room));
    add_list(t, "shape", v->shape, v->ndim);
    tg_text_add(t, ", \"strides\": [");
    for (uint32_t d = 0; d < v->ndim; d++)
        tg_text_addf(t, "%s%" PRId64, d == 0 ? "" : ", ", v->strides[d]);
    tg_text_add(t, "]}");
}

static void add_call(tg_text *t, const tg_region_call *c, const worker *w, uint64_t out_offset)
{
    const uint32_t ndim = c->in.ndim;

    tg_text_addf(t, "{\"call\": %" PRIu64 ", \"roi\": %" PRIu64 ", \"rois\": %" PRIu64,
                 w->calls, c->roi, c->n_rois);
    tg_text_addf(t, ", \"label\": %" PRIu64 ", \"memory\": %zu, \"name\": ", c->label,
                 w->mapped);
    add_string(t, c->name);
    add_view(t, "in", &c->in, 0);
    add_view(t, "out", &c->out, out_offset);
    add_list(t, "in_start", c->in_start, ndim);
    add_list(t, "out_start", c->out_start, c->out.ndim);
    add_list(t, "before", c->before, ndim);
    add_list(t, "region", c->region, ndim);
    add_scale(t, c->scale, ndim);
    tg_text_add(t, "}\n");
}

/* Text of a worker's, on one line and of no more than 300 bytes. */
static void clean(char room[304], const char *text)
{
    size_t n = strlen(text);

    n = n > 300 ? 300 : n;
    while (n > 0 && !tg_utf8_valid(text, n)) /* a character that was cut */
        n--;
    for (size_t i = 0; i < n; i++)
        room[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i];
    room[n] = '\0';
}

/* --- A worker's life -----------------------------------------------------------------------
 */

static void stop_worker(worker *w, tg_child_status *how)
{
    if (w->socket >= 0)
        (void)tg_sys_close(w->socket);
    tg_child_end(&w->child, how);
    if (w->map != NULL)
        (void)munmap(w->map, w->mapped);
    if (w->memory >= 0)
        (void)tg_sys_close(w->memory);
    w->socket = w->memory = -1;
    w->map = NULL;
    w->mapped = 0;
}

static tg_status late(worker *w, tg_child_event event, uint64_t ms, tg_error *err)
{
    stop_worker(w, NULL);
    return event == TG_CHILD_CANCELLED
               ? tg_fail(err, TG_CANCELLED, "stopped")
               : tg_fail(err, TG_TIMED_OUT,
                         "the worker has not answered after %" PRIu64 " ms and is killed", ms);
}

/* Its end of the socket is closed: most likely it is dying. */
static tg_status gone(worker *w, tg_error *err)
{
    tg_child_status how = {.known = false};
    char words[400];

    const bool ended =
        tg_child_wait(&w->child, -1, tg_child_deadline(GRACE_MS), NULL) == TG_CHILD_ENDED;
    stop_worker(w, &how);
    if (!ended)
        return tg_fail(err, TG_IO, "the worker has closed its socket without an answer");
    tg_child_describe(&w->child, &how, words, sizeof words);
    return tg_fail(err, TG_IO, "the worker %s", words);
}

static tg_status junk(worker *w, const char *line, size_t n, const char *want, tg_error *err)
{
    char words[304];

    stop_worker(w, NULL);
    for (size_t i = 0; i < n && i < 120; i++)
        words[i] = line[i] >= ' ' && line[i] <= '~' ? line[i] : '?';
    words[n < 120 ? n : 120] = '\0';
    return tg_fail(err, TG_CORRUPT, "the worker says '%s'%s, want %s; it is killed", words,
                   n > 120 ? "..." : "", want);
}

static tg_status send_line(worker *w, const tg_text *t, int64_t until, uint64_t ms,
                           const tg_cancel *cancel, tg_error *err)
{
    for (size_t at = 0; at < t->len;) {
        const ssize_t n =
            send(w->socket, t->data + at, t->len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            /* It does not read. Nobody waits on a socket to be written to but here: look again
             * soon, and see that it lives. */
            const int64_t soon = tg_clock_ns() + 5000000;
            const tg_child_event event =
                tg_child_wait(&w->child, -1, soon < until ? soon : until, cancel);
            if (event == TG_CHILD_ENDED)
                return gone(w, err);
            if (event == TG_CHILD_CANCELLED || tg_clock_ns() >= until)
                return late(w, event, ms, err);
        } else if (n < 0 && errno != EINTR) {
            return gone(w, err);
        }
    }
    return TG_OK;
}

/* The one line that answers, without its end. */
static tg_status receive_line(worker *w, char line[LINE_BYTES + 1], size_t *len, int64_t until,
                              uint64_t ms, const tg_cancel *cancel, tg_error *err)
{
    size_t n = 0;

    for (;;) {
        const tg_child_event event = tg_child_wait(&w->child, w->socket, until, cancel);
        if (event == TG_CHILD_LATE || event == TG_CHILD_CANCELLED)
            return late(w, event, ms, err);
        const ssize_t got = recv(w->socket, line + n, LINE_BYTES - n, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN) ||
            (got < 0 && event == TG_CHILD_ENDED))
            return gone(w, err);
        n += got > 0 ? (size_t)got : 0;
        const char *end = memchr(line, '\n', n);
        if (end != NULL && end + 1 != line + n)
            return junk(w, line, n, "one line", err);
        if (end == NULL && n == LINE_BYTES)
            return junk(w, line, n, "a line of at most 4096 bytes", err);
        if (end != NULL) {
            *len = n - 1;
            line[n - 1] = '\0';
            return TG_OK;
        }
    }
}

static tg_status make_memory(worker *w, tg_error *err)
{
    w->memory = memfd_create("tidegate-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (w->memory < 0)
        return tg_fail_errno(err, "memory that is shared with a worker");
    /* It may not become shorter than what we have mapped, whoever wants it. */
    if (fcntl(w->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return tg_fail_errno(err, "seal the memory that is shared with a worker");
    return TG_OK;
}

static tg_status spawn_worker(worker_function *f, worker *w, tg_error *err)
{
    int pair[2];

    TG_TRY(make_memory(w, err));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return tg_fail_errno(err, "a socket for a worker");
    w->socket = pair[0];
    const int passed[2] = {pair[1], w->memory};
    tg_status st = tg_child_start(&w->child, f->guard, f->command, NULL, passed, 2, err);
    (void)tg_sys_close(pair[1]);
    return st;
}

/* Start the worker of a slot and hear that it is ready; what it says is the caller's to free.
 */
static tg_status start_worker(worker_function *f, worker *w, tg_json **ready,
                              const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_text) hello = {0};
    char line[LINE_BYTES + 1];
    size_t n = 0;
    const uint64_t ms =
        f->timeout_ms == 0 || f->timeout_ms > START_MS ? f->timeout_ms : START_MS;
    const int64_t until = tg_child_deadline(ms);

    tg_text_addf(&hello, "%s, \"worker\": %u}\n", f->hello.data, (unsigned)(w - f->w));
    TG_TRY(tg_text_status(&hello, err));
    w->calls = 0;
    tg_status st = spawn_worker(f, w, err);
    if (st != TG_OK) {
        stop_worker(w, NULL);
        return st;
    }
    TG_TRY(send_line(w, &hello, until, ms, cancel, err));
    TG_TRY(receive_line(w, line, &n, until, ms, cancel, err));
    uint64_t version = 0;
    if (tg_json_parse(ready, line, n, (tg_json_options){.allow_nan = false}, NULL) != TG_OK)
        return junk(w, line, n, "{\"ready\": 1}", err);
    const char *words = NULL;
    char text[304];
    if (tg_json_string(tg_json_get(*ready, "error"), &words, NULL, NULL) == TG_OK) {
        stop_worker(w, NULL);
        clean(text, words);
        return tg_fail(err, TG_INVALID, "the worker refuses: %s", text);
    }
    if (tg_json_u64(tg_json_get(*ready, "ready"), &version, NULL) != TG_OK)
        return junk(w, line, n, "{\"ready\": 1}", err);
    if (version == PROTOCOL)
        return TG_OK;
    stop_worker(w, NULL);
    return tg_fail(err, TG_UNSUPPORTED,
                   "the worker speaks version %" PRIu64 " of the protocol, want %d", version,
                   PROTOCOL);
}

/* --- A call --------------------------------------------------------------------------------
 */

static tg_status view_bytes(const tg_region_view *v, size_t *bytes, tg_error *err)
{
    tg_shape s = {.ndim = v->ndim};

    memcpy(s.n, v->shape, v->ndim * sizeof *s.n);
    return tg_shape_bytes(&s, v->dtype.size, bytes, err);
}

static size_t out_offset_of(size_t in_bytes)
{
    return (in_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static tg_status map_memory(worker *w, size_t bytes, tg_error *err)
{
    if (w->map != NULL && bytes <= w->mapped)
        return TG_OK;
    if (w->map != NULL)
        (void)munmap(w->map, w->mapped);
    w->map = NULL;
    w->mapped = 0;
    if (tg_sys_truncate(w->memory, (off_t)bytes) != 0)
        return tg_fail_errno(err, "make the memory that is shared with a worker %zu bytes",
                             bytes);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->memory, 0);
    if (map == MAP_FAILED)
        return tg_fail_errno(err, "map %zu bytes that are shared with a worker", bytes);
    w->map = map;
    w->mapped = bytes;
    return TG_OK;
}

static tg_status check_answer(worker *w, const char *line, size_t n, tg_error *err)
{
    TG_AUTO_PTR(tg_json) answer = NULL;
    uint64_t call = 0;
    const char *words = NULL;
    char text[304];
    bool ok = false;

    if (tg_json_parse(&answer, line, n, (tg_json_options){.allow_nan = false}, NULL) != TG_OK ||
        tg_json_u64(tg_json_get(answer, "call"), &call, NULL) != TG_OK || call != w->calls) {
        char want[64];
        (void)snprintf(want, sizeof want, "{\"call\": %" PRIu64 ", \"ok\": true}", w->calls);
        return junk(w, line, n, want, err);
    }
    if (tg_json_string(tg_json_get(answer, "error"), &words, NULL, NULL) == TG_OK) {
        clean(text, words);
        return tg_fail(err, TG_IO, "the function says: %s", text);
    }
    if (tg_json_bool(tg_json_get(answer, "ok"), &ok, NULL) == TG_OK && ok)
        return TG_OK;
    return junk(w, line, n, "\"ok\": true or an \"error\"", err);
}

static tg_status exchange(worker_function *f, worker *w, const tg_region_call *call,
                          size_t out_offset, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_text) line = {0};
    char answer[LINE_BYTES + 1];
    size_t n = 0;
    const int64_t until = tg_child_deadline(f->timeout_ms);

    w->calls++;
    add_call(&line, call, w, out_offset);
    TG_TRY(tg_text_status(&line, err));
    TG_TRY(send_line(w, &line, until, f->timeout_ms, cancel, err));
    TG_TRY(receive_line(w, answer, &n, until, f->timeout_ms, cancel, err));
    return check_answer(w, answer, n, err);
}

static tg_status call_worker(tg_function *function, const tg_region_call *call, uint32_t slot,
                             const tg_cancel *cancel, tg_error *err)
{
    worker_function *f = (worker_function *)function;
    worker *w = &f->w[slot];
    size_t in = 0, out = 0;

    TG_TRY(view_bytes(&call->in, &in, err));
    TG_TRY(view_bytes(&call->out, &out, err));
    /* One that has ended since it answered, or says what it was not asked, is not this region's
     * failure. */
    if (w->child.pid != 0 && tg_child_wait(&w->child, w->socket, 0, NULL) != TG_CHILD_LATE)
        stop_worker(w, NULL);
    if (w->child.pid == 0) {
        TG_AUTO_PTR(tg_json) ready = NULL;
        TG_TRY(start_worker(f, w, &ready, cancel, err));
    }
    const size_t out_offset = out_offset_of(in);
    tg_status st = map_memory(w, out_offset + out + 1, err);
    if (st != TG_OK) {
        stop_worker(w, NULL);
        return st;
    }
    memcpy(w->map, call->in.data, in);
    TG_TRY(exchange(f, w, call, out_offset, cancel, err));
    memcpy(call->out.data, w->map + out_offset, out);
    return TG_OK;
}

static uint64_t scratch_of_worker(const tg_function *f, const tg_shape *in, const tg_shape *out)
{
    const uint64_t most = UINT64_MAX / 8, page = 4096;
    size_t a = 0, b = 0;
    const worker_function *w = (const worker_function *)f;

    /* Shared memory is ours as much as the worker's. */
    if (tg_shape_bytes(in, w->in_size, &a, NULL) != TG_OK ||
        tg_shape_bytes(out, f->facts.out_dtype.size, &b, NULL) != TG_OK || a > most / 2 ||
        b > most / 2)
        return most;
    return (out_offset_of(a) + b + 1 + page - 1) / page * page + LINE_BYTES;
}

static void free_worker(tg_function *function)
{
    worker_function *f = (worker_function *)function;

    /* All are told at once, and have the same time to end by themselves. */
    for (uint32_t i = 0; i < f->n; i++)
        if (f->w[i].socket >= 0)
            (void)shutdown(f->w[i].socket, SHUT_RDWR);
    const int64_t until = tg_child_deadline(GRACE_MS);
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->w[i].child.pid != 0)
            (void)tg_child_wait(&f->w[i].child, -1, until, NULL);
        stop_worker(&f->w[i], NULL);
    }
    tg_guard_free(f->guard);
    tg_text_free(&f->hello);
    tg_free(f->command);
    tg_free(f);
}

static const tg_function_ops worker_ops = {
    .call = call_worker, .scratch_bytes = scratch_of_worker, .free = free_worker};

/* --- Opening -------------------------------------------------------------------------------
 */

/* What the first worker says about what it makes and needs. */
static tg_status take_facts(worker_function *f, const tg_json *ready, uint32_t ndim,
                            tg_error *err)
{
    const tg_json *dtype = tg_json_get(ready, "dtype"), *halo = tg_json_get(ready, "halo");
    const char *name = NULL;
    tg_function_facts *facts = &f->f.facts;

    if (dtype != NULL && tg_json_kind_of(dtype) != TG_JSON_NULL) {
        if (tg_json_string(dtype, &name, NULL, NULL) != TG_OK ||
            tg_dtype_parse(name, &facts->out_dtype, NULL) != TG_OK ||
            facts->out_dtype.kind == TG_DT_STRING)
            return tg_fail(err, TG_INVALID,
                           "the worker's dtype '%.40s': want a type of numbers, such as uint16",
                           name == NULL ? "" : name);
    }
    if (halo == NULL || tg_json_kind_of(halo) == TG_JSON_NULL)
        return TG_OK;
    if (tg_json_kind_of(halo) != TG_JSON_ARRAY || tg_json_size(halo) > ndim)
        return tg_fail(err, TG_INVALID,
                       "the worker's halo: want a list of at most %" PRIu32 " numbers", ndim);
    const uint32_t n = (uint32_t)tg_json_size(halo);
    for (uint32_t i = 0; i < n; i++)
        if (tg_json_u64(tg_json_at(halo, i), &facts->halo[ndim - n + i], NULL) != TG_OK)
            return tg_fail(err, TG_INVALID, "the worker's halo: want whole numbers from 0 on");
    return TG_OK;
}

/* Whatever the command did, it is the user's to mend. */
static tg_status refuse(const char *text, tg_error *err)
{
    tg_error_prefix(err, "'%.80s'", text);
    if (err != NULL)
        err->code = TG_INVALID;
    return TG_INVALID;
}

static tg_status open_worker(worker_function *f, const char *text, const tg_function_env *env,
                             tg_error *err)
{
    TG_AUTO_PTR(tg_json) ready = NULL;

    f->command = tg_strdup(text);
    add_hello(&f->hello, env, f->f.facts.out_dtype);
    if (f->command == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for workers");
    TG_TRY(tg_text_status(&f->hello, err));
    TG_TRY(tg_guard_new(&f->guard, NULL, err));
    if (env->planned) /* who merges calls none, and may have no GPU */
        return TG_OK;
    /* One now: a command that is no worker is refused before any work. */
    tg_status st = start_worker(f, &f->w[0], &ready, env->cancel, err);
    if (st == TG_IO || st == TG_CORRUPT || st == TG_TIMED_OUT)
        st = refuse(text, err);
    TG_TRY(st);
    return take_facts(f, ready, env->in_shape->ndim, err);
}

tg_status tg_function_open_worker(tg_function **out, const char *text,
                                  const tg_function_env *env, tg_error *err)
{
    const uint32_t n = env->jobs > 0 ? env->jobs : 1;
    worker_function *f = tg_calloc(1, sizeof *f + n * sizeof(worker));

    if (f == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for workers");
    f->f.ops = &worker_ops;
    f->n = n;
    for (uint32_t i = 0; i < n; i++)
        f->w[i] = (worker){.socket = -1, .memory = -1};
    f->timeout_ms = env->timeout_ms;
    f->in_size = env->in_dtype.size;
    tg_function_plain_facts(&f->f.facts, env);
    f->f.facts.out_dtype = env->wanted != NULL ? *env->wanted : env->in_dtype;
    f->f.facts.outside = true;
    tg_status st = open_worker(f, text, env, err);
    if (st != TG_OK) {
        free_worker(&f->f);
        return st;
    }
    *out = &f->f;
    return TG_OK;
}
