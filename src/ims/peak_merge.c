/* ims/peak_merge.c - a spill file of runs and a tree of losers over them. */
#include "ims/peak_merge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define OUT_PEAKS 8192

/* --- The file ---------------------------------------------------------------------- */

tg_status tg_peak_runs_open(tg_peak_runs *r, const char *dir, tg_error *err)
{
    TG_AUTO(tg_text) path = {0};

    *r = (tg_peak_runs){.fd = -1};
    for (int try = 0; try < 1000; try++) {
        tg_text_free(&path);
        tg_text_addf(&path, "%s/.tg-tmp-runs-%ld-%d", dir, (long)getpid(), try);
        TG_TRY(tg_text_status(&path, err));
        r->fd = tg_sys_open(AT_FDCWD, path.data, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (r->fd >= 0 || errno != EEXIST)
            break;
    }
    if (r->fd < 0)
        return tg_fail_errno(err, "make '%s'", path.data);
    if (tg_sys_unlink(AT_FDCWD, path.data, 0) != 0) {
        tg_status st = tg_fail_errno(err, "unlink '%s'", path.data);
        tg_fd_auto(&r->fd);
        return st;
    }
    r->path = tg_text_steal(&path);
    return TG_OK;
}

void tg_peak_runs_close(tg_peak_runs *r)
{
    tg_fd_auto(&r->fd);
    tg_free(r->path);
    tg_free(r->at);
    *r = (tg_peak_runs){.fd = -1};
}

static tg_status grow(tg_peak_runs *r, tg_error *err)
{
    size_t want = r->cap == 0 ? 64 : r->cap * 2;
    tg_peak_run *at = tg_alloc_array(want, sizeof *at);
    if (at == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu runs", want);
    if (r->n > 0)
        memcpy(at, r->at, r->n * sizeof *at);
    tg_free(r->at);
    r->at = at;
    r->cap = want;
    return TG_OK;
}

tg_status tg_peak_runs_add(tg_peak_runs *r, const tg_peak *peaks, size_t n, tg_error *err)
{
    if (r->n == r->cap)
        TG_TRY(grow(r, err));
    TG_TRY(tg_fd_write_at(r->fd, peaks, n * sizeof *peaks, r->bytes, r->path, err));
    r->at[r->n++] = (tg_peak_run){r->bytes, n};
    r->bytes += n * sizeof *peaks;
    return TG_OK;
}

/* --- The tree ------------------------------------------------------------------------ */

typedef struct source {
    tg_peak *buffer;
    size_t at, n;          /* in the buffer */
    uint64_t offset, left; /* in the file, not yet read */
} source;

typedef struct merger {
    const tg_peak_runs *runs;
    size_t n;
    size_t peaks_each;
    source *sources;
    uint64_t *keys;   /* of each source's next peak; UINT64_MAX: it has none */
    uint32_t *losers; /* losers[0] is the winner */
    tg_peak *room, *out;
} merger;

uint64_t tg_peak_merge_bytes(uint64_t n_runs, uint64_t peaks_each)
{
    return n_runs * (peaks_each * sizeof(tg_peak) + sizeof(source) + sizeof(uint64_t) +
                     2 * sizeof(uint32_t)) +
           OUT_PEAKS * sizeof(tg_peak) + 4096;
}

static tg_status refill(merger *g, size_t i, tg_error *err)
{
    source *s = &g->sources[i];
    size_t n = s->left < g->peaks_each ? (size_t)s->left : g->peaks_each;

    s->at = 0;
    s->n = n;
    if (n == 0) {
        g->keys[i] = UINT64_MAX;
        return TG_OK;
    }
    TG_TRY(tg_fd_read_at(g->runs->fd, s->buffer, n * sizeof *s->buffer, s->offset,
                         g->runs->path, err));
    s->offset += n * sizeof *s->buffer;
    s->left -= n;
    g->keys[i] = s->buffer[0].key;
    return TG_OK;
}

/* Does source a come before b? Runs were cut in the order of spectra. */
static inline bool before(const merger *g, uint32_t a, uint32_t b)
{
    return g->keys[a] != g->keys[b] ? g->keys[a] < g->keys[b] : a < b;
}

/* Play source i up the tree from its leaf. */
static inline void replay(merger *g, uint32_t i)
{
    uint32_t winner = i;
    for (size_t node = (i + g->n) / 2; node > 0; node /= 2)
        if (before(g, g->losers[node], winner)) {
            uint32_t swap = g->losers[node];
            g->losers[node] = winner;
            winner = swap;
        }
    g->losers[0] = winner;
}

/* Winners of all pairs, from the leaves up: leaf i is node n + i. */
static void build_tree(merger *g, uint32_t *winners)
{
    for (size_t node = 2 * g->n - 1; node > 0; node--) {
        if (node >= g->n) {
            winners[node] = (uint32_t)(node - g->n);
            continue;
        }
        uint32_t a = winners[2 * node], b = winners[2 * node + 1];
        bool first = before(g, a, b);
        winners[node] = first ? a : b;
        g->losers[node] = first ? b : a;
    }
    g->losers[0] = winners[1];
}

static tg_status run(merger *g, tg_peak_sink sink, void *user, const tg_cancel *cancel,
                     tg_error *err)
{
    size_t n = 0;
    for (;;) {
        uint32_t w = g->losers[0];
        if (g->keys[w] == UINT64_MAX)
            break;
        source *s = &g->sources[w];
        g->out[n++] = s->buffer[s->at++];
        if (s->at < s->n)
            g->keys[w] = s->buffer[s->at].key;
        else
            TG_TRY(refill(g, w, err));
        replay(g, w);
        if (n == OUT_PEAKS) {
            TG_TRY(tg_cancel_check(cancel, err));
            TG_TRY(sink(user, g->out, n, err));
            n = 0;
        }
    }
    return n == 0 ? TG_OK : sink(user, g->out, n, err);
}

tg_status tg_peak_merge(const tg_peak_runs *r, uint64_t peaks_each, tg_peak_sink sink,
                        void *user, const tg_cancel *cancel, tg_error *err)
{
    merger g = {.runs = r, .n = r->n, .peaks_each = (size_t)peaks_each};

    if (r->n == 0)
        return TG_OK;
    TG_AUTO(tg_mem_ptr) sources = g.sources = tg_calloc(r->n, sizeof *g.sources);
    TG_AUTO(tg_mem_ptr) keys = g.keys = tg_alloc_array(r->n, sizeof *g.keys);
    TG_AUTO(tg_mem_ptr) losers = g.losers = tg_calloc(r->n + 1, sizeof *g.losers);
    TG_AUTO(tg_mem_ptr) winners = tg_alloc_array(2 * r->n, sizeof(uint32_t));
    TG_AUTO(tg_mem_ptr) room = g.room = tg_alloc_array(r->n, peaks_each * sizeof *g.room);
    TG_AUTO(tg_mem_ptr) out = g.out = tg_alloc_array(OUT_PEAKS, sizeof *g.out);
    if (sources == NULL || keys == NULL || losers == NULL || winners == NULL || room == NULL ||
        out == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to merge %zu runs", r->n);
    for (size_t i = 0; i < r->n; i++) {
        g.sources[i] = (source){
            .buffer = g.room + i * peaks_each, .offset = r->at[i].offset, .left = r->at[i].n};
        TG_TRY(refill(&g, i, err));
    }
    build_tree(&g, winners);
    return run(&g, sink, user, cancel, err);
}
