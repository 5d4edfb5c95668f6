/* External sort of rows in a given room: sorted runs go to one nameless file and are merged, so
 * many at once as have room for a block each. Rows of one group are merged while they are
 * handed out, in the order of all their keys: so the sums of doubles depend on nothing but
 * that. */
#include "base/crc32c.h"
#include "region/rows.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)64 << 10) /* of a run that is read or written */
#define FILE_NAME   "row-runs"

/* Of a run's file: blocks of u32 rows, u32 crc32c of them, the rows. */
typedef struct run {
    uint64_t offset, end;
} run;

typedef struct block_head {
    uint32_t n, sum;
} block_head;

struct tg_row_sort {
    tg_row_sort_options o;
    size_t row_bytes;
    tg_arena room;
    size_t most, n; /* rows in memory */
    uint8_t *rows;
    uint32_t *order, *spare; /* of the rows in memory */
    bool ended;
    int fd;
    uint64_t file_bytes;
    run *runs;
    size_t n_runs, cap_runs;
};

tg_status tg_row_sort_new(tg_row_sort **out, const tg_row_sort_options *o, tg_error *err)
{
    tg_row_sort *s = tg_calloc(1, sizeof *s);

    if (s == NULL)
        return tg_fail(err, TG_NO_MEMORY, "sort of rows");
    s->fd = -1;
    s->o = *o;
    s->row_bytes = TG_ROW_KEYS * sizeof(uint64_t) + o->n_values * sizeof(double);
    tg_status st = s->row_bytes + sizeof(block_head) <= BLOCK_BYTES
                       ? tg_arena_map(&s->room, o->room, err)
                       : tg_fail(err, TG_UNSUPPORTED, "rows of %zu bytes", s->row_bytes);
    if (st != TG_OK) {
        tg_row_sort_free(s);
        return st;
    }
    s->most = o->room / (s->row_bytes + 2 * sizeof(uint32_t));
    if (s->most > UINT32_MAX)
        s->most = UINT32_MAX;
    s->rows = s->room.data;
    s->order = (uint32_t *)(void *)(s->rows + s->most * s->row_bytes);
    s->spare = s->order + s->most;
    *out = s;
    return TG_OK;
}

void tg_row_sort_free(tg_row_sort *s)
{
    if (s == NULL)
        return;
    if (s->fd >= 0)
        (void)tg_sys_close(s->fd); /* nobody reads it any more */
    tg_arena_unmap(&s->room);
    tg_free(s->runs);
    tg_free(s);
}

static int compare_rows(const uint8_t *a, const uint8_t *b)
{
    uint64_t x[TG_ROW_KEYS], y[TG_ROW_KEYS];

    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    for (int i = 0; i < TG_ROW_KEYS; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static const uint8_t *row_at(const tg_row_sort *s, uint32_t i)
{
    return s->rows + i * s->row_bytes;
}

static void merge_halves(const tg_row_sort *s, const uint32_t *from, uint32_t *to, size_t low,
                         size_t middle, size_t high)
{
    size_t a = low, b = middle;

    for (size_t i = low; i < high; i++)
        if (b >= high ||
            (a < middle && compare_rows(row_at(s, from[a]), row_at(s, from[b])) <= 0))
            to[i] = from[a++];
        else
            to[i] = from[b++];
}

/* Bottom up; the order ends in s->order. */
static void sort_memory(tg_row_sort *s)
{
    for (size_t i = 0; i < s->n; i++)
        s->order[i] = (uint32_t)i;
    for (size_t width = 1; width < s->n; width *= 2) {
        for (size_t low = 0; low < s->n; low += 2 * width) {
            const size_t middle = low + width < s->n ? low + width : s->n;
            const size_t high = middle + width < s->n ? middle + width : s->n;
            merge_halves(s, s->order, s->spare, low, middle, high);
        }
        uint32_t *swap = s->order;
        s->order = s->spare;
        s->spare = swap;
    }
}

/* --- Runs
 * -------------------------------------------------------------------------------------
 */

typedef struct writer {
    tg_row_sort *s;
    uint8_t *block; /* BLOCK_BYTES */
    uint32_t n;
} writer;

static tg_status flush_block(writer *w, tg_error *err)
{
    tg_row_sort *s = w->s;
    const size_t bytes = w->n * s->row_bytes;
    const block_head h = {w->n, tg_crc32c(0, w->block + sizeof h, bytes)};

    if (w->n == 0)
        return TG_OK;
    memcpy(w->block, &h, sizeof h);
    TG_TRY(tg_fd_write_at(s->fd, w->block, sizeof h + bytes, s->file_bytes, FILE_NAME, err));
    s->file_bytes += sizeof h + bytes;
    w->n = 0;
    return TG_OK;
}

static tg_status put_row(writer *w, const uint8_t *row, tg_error *err)
{
    const size_t bytes = w->s->row_bytes;

    memcpy(w->block + sizeof(block_head) + w->n++ * bytes, row, bytes);
    return sizeof(block_head) + (w->n + 1) * bytes > BLOCK_BYTES ? flush_block(w, err) : TG_OK;
}

static tg_status begin_run(tg_row_sort *s, tg_error *err)
{
    if (s->fd < 0) {
        s->fd = tg_sys_open(s->o.folder->dir, FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (s->fd < 0)
            return tg_folder_fail(s->o.folder, "make", FILE_NAME, err);
        TG_TRY(tg_folder_drop(s->o.folder, FILE_NAME, err));
    }
    if (s->n_runs == s->cap_runs) {
        const size_t cap = s->cap_runs == 0 ? 64 : 2 * s->cap_runs;
        run *more = tg_alloc_array(cap, sizeof *more);
        if (more == NULL)
            return tg_fail(err, TG_NO_MEMORY, "runs of rows");
        if (s->n_runs > 0)
            memcpy(more, s->runs, s->n_runs * sizeof *more);
        tg_free(s->runs);
        s->runs = more;
        s->cap_runs = cap;
    }
    s->runs[s->n_runs] = (run){s->file_bytes, 0};
    return TG_OK;
}

static tg_status write_memory(tg_row_sort *s, tg_error *err)
{
    uint8_t block[BLOCK_BYTES];
    writer w = {.s = s, .block = block};

    sort_memory(s);
    TG_TRY(begin_run(s, err));
    for (size_t i = 0; i < s->n; i++)
        TG_TRY(put_row(&w, row_at(s, s->order[i]), err));
    TG_TRY(flush_block(&w, err));
    s->runs[s->n_runs++].end = s->file_bytes;
    s->n = 0;
    return TG_OK;
}

tg_status tg_row_sort_add(tg_row_sort *s, const uint64_t key[TG_ROW_KEYS], const double *values,
                          const tg_cancel *cancel, tg_error *err)
{
    uint8_t *row;

    if (s->n == s->most) {
        TG_TRY(tg_cancel_check(cancel, err));
        TG_TRY(write_memory(s, err));
    }
    row = s->rows + s->n++ * s->row_bytes;
    memcpy(row, key, TG_ROW_KEYS * sizeof *key);
    memcpy(row + TG_ROW_KEYS * sizeof *key, values, s->o.n_values * sizeof *values);
    return TG_OK;
}

/* --- Merging
 * ----------------------------------------------------------------------------------
 */

typedef struct reader {
    uint64_t next, end; /* of the run, what was not read yet */
    uint8_t *block;
    uint32_t at, n;
} reader;

/* A heap of readers, the least row on top. */
typedef struct merger {
    const tg_row_sort *s;
    reader *readers;
    size_t *heap, n;
} merger;

static const uint8_t *row_of(const merger *m, size_t r)
{
    const reader *d = &m->readers[r];
    return d->block + sizeof(block_head) + d->at * m->s->row_bytes;
}

static tg_status read_block(const tg_row_sort *s, reader *d, tg_error *err)
{
    block_head h;

    TG_TRY(tg_fd_read_at(s->fd, &h, sizeof h, d->next, FILE_NAME, err));
    const size_t bytes = h.n * s->row_bytes;
    if (h.n == 0 || sizeof h + bytes > BLOCK_BYTES)
        return tg_fail(err, TG_CORRUPT, "'%s': a block of %" PRIu32 " rows", FILE_NAME, h.n);
    TG_TRY(
        tg_fd_read_at(s->fd, d->block + sizeof h, bytes, d->next + sizeof h, FILE_NAME, err));
    if (tg_crc32c(0, d->block + sizeof h, bytes) != h.sum)
        return tg_fail(err, TG_CORRUPT, "'%s': crc32c of a block is not %08" PRIx32, FILE_NAME,
                       h.sum);
    d->next += sizeof h + bytes;
    d->n = h.n;
    d->at = 0;
    return TG_OK;
}

static void sift_down(merger *m, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t c = 2 * i + 1; c <= 2 * i + 2 && c < m->n; c++)
            if (compare_rows(row_of(m, m->heap[c]), row_of(m, m->heap[least])) < 0)
                least = c;
        if (least == i)
            return;
        const size_t swap = m->heap[i];
        m->heap[i] = m->heap[least];
        m->heap[least] = swap;
        i = least;
    }
}

static tg_status merge_begin(merger *m, const run *runs, size_t n, tg_error *err)
{
    for (size_t i = 0; i < n; i++) {
        m->readers[i] = (reader){.next = runs[i].offset,
                                 .end = runs[i].end,
                                 .block = m->s->room.data + (i + 1) * BLOCK_BYTES};
        TG_TRY(read_block(m->s, &m->readers[i], err));
        m->heap[i] = i;
    }
    m->n = n;
    for (size_t i = n / 2; i-- > 0;)
        sift_down(m, i);
    return TG_OK;
}

/* The top row was taken. */
static tg_status merge_next(merger *m, tg_error *err)
{
    reader *d = &m->readers[m->heap[0]];

    if (++d->at == d->n && d->next < d->end)
        TG_TRY(read_block(m->s, d, err));
    if (d->at == d->n)
        m->heap[0] = m->heap[--m->n];
    sift_down(m, 0);
    return TG_OK;
}

typedef tg_status (*take_fn)(void *user, const uint8_t *row, tg_error *err);

static tg_status merge_runs(tg_row_sort *s, const run *runs, size_t n, take_fn take, void *user,
                            const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) readers = tg_alloc_array(n, sizeof(reader));
    TG_AUTO(tg_mem_ptr) heap = tg_alloc_array(n, sizeof(size_t));
    merger m = {.s = s, .readers = readers, .heap = heap};
    uint32_t count = 0;

    if (readers == NULL || heap == NULL)
        return tg_fail(err, TG_NO_MEMORY, "merge of rows");
    TG_TRY(merge_begin(&m, runs, n, err));
    while (m.n > 0) {
        TG_TRY(take(user, row_of(&m, m.heap[0]), err));
        TG_TRY(merge_next(&m, err));
        if (++count % 65536 == 0)
            TG_TRY(tg_cancel_check(cancel, err));
    }
    return TG_OK;
}

static tg_status take_to_run(void *user, const uint8_t *row, tg_error *err)
{
    return put_row(user, row, err);
}

/* How many runs have room for a block each, beside the one that is written. */
static size_t fan_in(const tg_row_sort *s)
{
    return s->o.room / BLOCK_BYTES - 1;
}

static tg_status merge_some(tg_row_sort *s, size_t n, const tg_cancel *cancel, tg_error *err)
{
    writer w = {.s = s, .block = s->room.data};

    TG_TRY(begin_run(s, err));
    const run made = s->runs[s->n_runs];
    TG_TRY(merge_runs(s, s->runs, n, take_to_run, &w, cancel, err));
    TG_TRY(flush_block(&w, err));
    memmove(s->runs, s->runs + n, (s->n_runs - n) * sizeof *s->runs);
    s->n_runs -= n;
    s->runs[s->n_runs++] = (run){made.offset, s->file_bytes};
    return TG_OK;
}

/* After the last row: few enough runs that they can be merged at once, or all in memory. */
static tg_status end_adding(tg_row_sort *s, const tg_cancel *cancel, tg_error *err)
{
    if (s->ended)
        return TG_OK;
    if (s->n_runs == 0)
        sort_memory(s);
    else if (s->n > 0)
        TG_TRY(write_memory(s, err));
    s->ended = true;
    while (s->n_runs > fan_in(s)) {
        const size_t over = s->n_runs - fan_in(s) + 1;
        TG_TRY(merge_some(s, over < fan_in(s) ? over : fan_in(s), cancel, err));
    }
    return TG_OK;
}

/* --- Handing out
 * ----------------------------------------------------------------------------- */

typedef struct folding {
    const tg_row_sort *s;
    tg_row_sorted_fn fn;
    void *user;
    bool has;
    uint64_t key[TG_ROW_KEYS];
    double *values;
} folding;

static tg_status hand_on(folding *f, tg_error *err)
{
    if (!f->has)
        return TG_OK;
    f->has = false;
    return f->fn(f->user, f->key, f->values, err);
}

static tg_status take_to_fold(void *user, const uint8_t *row, tg_error *err)
{
    folding *f = user;
    const tg_row_sort_options *o = &f->s->o;
    const uint8_t *values = row + TG_ROW_KEYS * sizeof(uint64_t);
    uint64_t key[TG_ROW_KEYS];

    memcpy(key, row, sizeof key);
    if (f->has && o->n_group > 0 && memcmp(key, f->key, o->n_group * sizeof *key) == 0) {
        memcpy(f->values + o->n_values, values, o->n_values * sizeof(double));
        o->merge(o->user, f->values, f->values + o->n_values);
        return TG_OK;
    }
    TG_TRY(hand_on(f, err));
    memcpy(f->key, key, sizeof key);
    memcpy(f->values, values, o->n_values * sizeof(double));
    f->has = true;
    return TG_OK;
}

tg_status tg_row_sort_each(tg_row_sort *s, tg_row_sorted_fn fn, void *user,
                           const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) values = tg_alloc_array(2 * (size_t)s->o.n_values + 1, sizeof(double));
    folding f = {.s = s, .fn = fn, .user = user, .values = values};

    if (values == NULL)
        return tg_fail(err, TG_NO_MEMORY, "rows");
    TG_TRY(end_adding(s, cancel, err));
    for (size_t i = 0; s->n_runs == 0 && i < s->n; i++)
        TG_TRY(take_to_fold(&f, row_at(s, s->order[i]), err));
    if (s->n_runs > 0)
        TG_TRY(merge_runs(s, s->runs, s->n_runs, take_to_fold, &f, cancel, err));
    return hand_on(&f, err);
}
