/* Runs are sorted in one half of the block by way of the other, and written one behind the
 * other. When there are as many as can be merged at once, they become one, behind them. */
#include "region/sorter.h"

#include "base/crc32c.h"
#include "base/mem.h"

#include <fcntl.h>
#include <string.h>

#define READ_PAIRS ((size_t)128) /* of each run, while runs are merged */

typedef struct run {
    uint64_t at, n; /* pairs from the file's start on, how many */
    uint32_t sum;   /* crc32c */
} run;

typedef struct source { /* a run that is read */
    uint64_t left;      /* pairs that are not in the block yet */
    size_t fill, next;
    uint32_t sum;
} source;

struct tg_sorter {
    const tg_folder *folder;
    int fd;
    tg_arena block; /* pairs, and as much room again */
    size_t cap, n;  /* of pairs in one half */
    run *runs;
    source *sources;
    uint32_t *heap; /* of sources, the least first */
    size_t n_runs, max_runs, n_heap;
    uint64_t end; /* of the file, in pairs */
    uint64_t spilled;
    bool reading, begun; /* begun: `last` has been given */
    size_t at;           /* no runs: next in memory */
    tg_pair last;
};

static const char *const file_name = "sort";

static bool less(const tg_pair *x, const tg_pair *y)
{
    return x->a != y->a ? x->a < y->a : x->b < y->b;
}

static tg_pair *half(const tg_sorter *s, size_t i)
{
    return (tg_pair *)(void *)s->block.data + i * s->cap;
}

/* --- Making ------------------------------------------------------------------------------ */

tg_status tg_sorter_new(tg_sorter **out, const tg_folder *folder, size_t bytes, tg_error *err)
{
    TG_AUTO_PTR(tg_sorter) s = tg_calloc(1, sizeof *s);

    if (s == NULL)
        return tg_fail(err, TG_NO_MEMORY, "sorter");
    s->fd = -1;
    s->folder = folder;
    if (bytes < TG_SORTER_LEAST)
        bytes = TG_SORTER_LEAST;
    /* A run costs its part of the block while it is read, and its records. */
    const size_t each = READ_PAIRS * sizeof(tg_pair) + sizeof(run) + sizeof(source) + 4;
    s->max_runs = (bytes - 4096) / each;
    s->cap = s->max_runs * READ_PAIRS / 2;
    s->runs = tg_calloc(s->max_runs, sizeof *s->runs);
    s->sources = tg_calloc(s->max_runs, sizeof *s->sources);
    s->heap = tg_calloc(s->max_runs, sizeof *s->heap);
    if (s->runs == NULL || s->sources == NULL || s->heap == NULL)
        return tg_fail(err, TG_NO_MEMORY, "runs of a sorter");
    TG_TRY(tg_arena_reserve(&s->block, 2 * s->cap * sizeof(tg_pair), err));
    *out = tg_steal(s);
    return TG_OK;
}

void tg_sorter_free(tg_sorter *s)
{
    if (s == NULL)
        return;
    if (s->fd >= 0)
        (void)tg_sys_close(s->fd); /* nobody reads it any more */
    tg_arena_unmap(&s->block);
    tg_free(s->runs);
    tg_free(s->sources);
    tg_free(s->heap);
    tg_free(s);
}

uint64_t tg_sorter_spilled(const tg_sorter *s)
{
    return s->spilled;
}

/* --- Sorting ------------------------------------------------------------------------------ */

static void merge_two(const tg_pair *x, size_t nx, const tg_pair *y, size_t ny, tg_pair *to)
{
    while (nx > 0 && ny > 0) {
        const bool second = less(y, x);
        *to++ = second ? *y : *x;
        y += second;
        ny -= second;
        x += !second;
        nx -= !second;
    }
    memcpy(to, nx > 0 ? x : y, (nx + ny) * sizeof *to);
}

/* What is in the first half, sorted, each pair once. */
static void sort_block(tg_sorter *s)
{
    tg_pair *from = half(s, 0), *to = half(s, 1);

    for (size_t width = 1; width < s->n; width *= 2) {
        for (size_t at = 0; at < s->n; at += 2 * width) {
            const size_t nx = s->n - at < width ? s->n - at : width;
            const size_t rest = s->n - at - nx, ny = rest < width ? rest : width;
            merge_two(from + at, nx, from + at + nx, ny, to + at);
        }
        tg_pair *t = from;
        from = to;
        to = t;
    }
    to = half(s, 0);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const tg_pair x = from[i];
        if (n == 0 || less(&to[n - 1], &x))
            to[n++] = x;
    }
    s->n = n;
}

/* --- The file ----------------------------------------------------------------------------- */

static tg_status open_file(tg_sorter *s, tg_error *err)
{
    if (s->fd >= 0)
        return TG_OK;
    s->fd = tg_sys_open(s->folder->dir, file_name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (s->fd < 0)
        return tg_folder_fail(s->folder, "make", file_name, err);
    return tg_folder_drop(s->folder, file_name, err);
}

static tg_status write_pairs(tg_sorter *s, run *r, const tg_pair *pairs, size_t n,
                             tg_error *err)
{
    const size_t bytes = n * sizeof *pairs;

    r->sum = tg_crc32c(r->sum, pairs, bytes);
    TG_TRY(tg_fd_write_at(s->fd, pairs, bytes, s->end * sizeof *pairs, file_name, err));
    r->n += n;
    s->end += n;
    s->spilled += bytes;
    return TG_OK;
}

/* --- Merging ------------------------------------------------------------------------------ */

static tg_pair *part(const tg_sorter *s, uint32_t i, size_t *cap)
{
    *cap = 2 * s->cap / s->n_runs;
    return half(s, 0) + i * *cap;
}

static tg_status refill(tg_sorter *s, uint32_t i, tg_error *err)
{
    const run *r = &s->runs[i];
    source *from = &s->sources[i];
    size_t cap;
    tg_pair *to = part(s, i, &cap);
    const size_t n = from->left < cap ? (size_t)from->left : cap;

    TG_TRY(tg_fd_read_at(s->fd, to, n * sizeof *to, (r->at + r->n - from->left) * sizeof *to,
                         file_name, err));
    from->sum = tg_crc32c(from->sum, to, n * sizeof *to);
    from->left -= n;
    from->fill = n;
    from->next = 0;
    if (from->left == 0 && from->sum != r->sum)
        return tg_fail(err, TG_CORRUPT, "'%.200s/%s' at byte %llu: crc32c %08x, want %08x",
                       s->folder->path, file_name, (unsigned long long)(r->at * sizeof *to),
                       from->sum, r->sum);
    return TG_OK;
}

static const tg_pair *head_of(const tg_sorter *s, uint32_t i)
{
    size_t cap;
    return part(s, i, &cap) + s->sources[i].next;
}

static void sink(tg_sorter *s, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= s->n_heap)
            return;
        if (child + 1 < s->n_heap &&
            less(head_of(s, s->heap[child + 1]), head_of(s, s->heap[child])))
            child++;
        if (!less(head_of(s, s->heap[child]), head_of(s, s->heap[at])))
            return;
        const uint32_t t = s->heap[at];
        s->heap[at] = s->heap[child];
        s->heap[child] = t;
        at = child;
    }
}

static tg_status begin_merge(tg_sorter *s, tg_error *err)
{
    s->n_heap = 0;
    for (uint32_t i = 0; i < s->n_runs; i++) {
        s->sources[i] = (source){.left = s->runs[i].n};
        TG_TRY(refill(s, i, err)); /* no run is empty */
        s->heap[s->n_heap++] = i;
    }
    for (size_t at = s->n_heap; at-- > 0;)
        sink(s, at);
    return TG_OK;
}

static tg_status next_merged(tg_sorter *s, tg_pair *out, bool *have, tg_error *err)
{
    *have = s->n_heap > 0;
    if (!*have)
        return TG_OK;
    const uint32_t i = s->heap[0];
    source *from = &s->sources[i];
    *out = *head_of(s, i);
    if (++from->next == from->fill) {
        if (from->left > 0)
            TG_TRY(refill(s, i, err));
        else
            s->heap[0] = s->heap[--s->n_heap];
    }
    sink(s, 0);
    return TG_OK;
}

/* All runs become one, through room that the first of them needs no more: it lies apart. */
static tg_status join_runs(tg_sorter *s, tg_error *err)
{
    tg_pair room[64], x;
    run whole = {.at = s->end};
    size_t n = 0;
    bool have;

    TG_TRY(begin_merge(s, err));
    for (;;) {
        TG_TRY(next_merged(s, &x, &have, err));
        if (!have)
            break;
        if (n > 0 && !less(&room[n - 1], &x))
            continue;
        if (n == 64) { /* the last stays, to compare with */
            TG_TRY(write_pairs(s, &whole, room, n - 1, err));
            room[0] = room[n - 1];
            n = 1;
        }
        room[n++] = x;
    }
    TG_TRY(write_pairs(s, &whole, room, n, err));
    s->runs[0] = whole;
    s->n_runs = 1;
    return TG_OK;
}

static tg_status spill(tg_sorter *s, tg_error *err)
{
    run r = {.at = s->end};

    sort_block(s);
    if (2 * s->n <= s->cap) /* most were equal: there is room again */
        return TG_OK;
    TG_TRY(open_file(s, err));
    TG_TRY(write_pairs(s, &r, half(s, 0), s->n, err));
    s->n = 0;
    s->runs[s->n_runs++] = r;
    return s->n_runs == s->max_runs ? join_runs(s, err) : TG_OK;
}

/* --- Its use ------------------------------------------------------------------------------ */

tg_status tg_sorter_add(tg_sorter *s, const tg_pair *pairs, size_t n, tg_error *err)
{
    if (s->reading)
        return tg_fail(err, TG_INVALID, "a sorter that is read takes nothing more");
    while (n > 0) {
        const size_t room = s->cap - s->n, now = n < room ? n : room;
        memcpy(half(s, 0) + s->n, pairs, now * sizeof *pairs);
        s->n += now;
        pairs += now;
        n -= now;
        if (s->n == s->cap)
            TG_TRY(spill(s, err));
    }
    return TG_OK;
}

tg_status tg_sorter_begin(tg_sorter *s, tg_error *err)
{
    if (!s->reading) {
        run r = {.at = s->end};
        sort_block(s);
        if (s->n_runs > 0 && s->n > 0) {
            TG_TRY(write_pairs(s, &r, half(s, 0), s->n, err));
            s->runs[s->n_runs++] = r;
            s->n = 0;
        }
    }
    s->reading = true;
    s->begun = false;
    s->at = 0;
    return s->n_runs > 0 ? begin_merge(s, err) : TG_OK;
}

tg_status tg_sorter_next(tg_sorter *s, tg_pair *out, bool *have, tg_error *err)
{
    if (s->n_runs == 0) {
        *have = s->at < s->n;
        if (*have)
            *out = half(s, 0)[s->at++];
        return TG_OK;
    }
    do {
        TG_TRY(next_merged(s, out, have, err));
    } while (*have && s->begun && !less(&s->last, out));
    s->begun = true;
    s->last = *out;
    return TG_OK;
}
