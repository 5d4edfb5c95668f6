/* The file of rows: appended by many calls at once, one journal for all. A region counts once
 * its "done" is there whole; rows of a call that did not come so far are never looked at. */
#include "region/rows.h"

#include "base/clock.h"
#include "base/journal.h"
#include "base/sync.h"
#include "region/commit.h"

#include <inttypes.h>
#include <string.h>

#define KIND  0x57524754u /* "TGRW" */
#define MAJOR 1
#define NAME  "rows-0"
#define LEFT  UINT32_MAX /* attempt of a region that is left out for good */

enum { RECORD_BEGIN = 1, RECORD_ROWS, RECORD_DONE, RECORD_FAILED, RECORD_ALL, RECORD_END };

/* What begins a record of rows. */
typedef struct rows_head {
    uint32_t region, attempt;
    uint64_t first; /* number of the first row within the call */
} rows_head;

struct tg_row_log {
    const tg_folder *folder;
    uint32_t n_values;
    uint64_t interval_ms;
    tg_row_past past; /* attempt: only read while calls run */

    tg_mutex lock; /* guards all below; held for I/O */
    tg_journal *journal;
    uint32_t last_attempt;
    int64_t synced_ns;
};

/* --- What is there ---------------------------------------------------------------------------
 */

void tg_row_past_destroy(tg_row_past *p)
{
    tg_free(p->attempt);
    *p = (tg_row_past){0};
}

typedef struct look {
    const tg_folder *folder;
    const tg_plan *plan;
    tg_row_past *past;
    tg_error differs;
} look;

static tg_status see_region(const look *k, uint16_t type, tg_bytes p, tg_error *err)
{
    rows_head h = {0, LEFT, 0};

    if (p.len < (type == RECORD_FAILED ? 4 : sizeof h))
        return tg_fail(err, TG_CORRUPT, "a record of rows of %zu bytes", p.len);
    memcpy(&h, p.data, type == RECORD_FAILED ? 4 : sizeof h);
    if (h.region >= tg_plan_n_regions(k->plan))
        return tg_fail(err, TG_CORRUPT, "region %" PRIu32 " is not of this plan", h.region);
    if (h.attempt != LEFT && h.attempt > k->past->last_attempt)
        k->past->last_attempt = h.attempt;
    if (type == RECORD_ROWS)
        return TG_OK;
    k->past->n_done += k->past->attempt[h.region] == 0;
    k->past->n_failed += type == RECORD_FAILED;
    k->past->attempt[h.region] = h.attempt;
    return TG_OK;
}

static tg_status see_record(void *user, uint16_t type, tg_bytes p, uint64_t offset,
                            tg_error *err)
{
    look *k = user;

    (void)offset;
    switch (type) {
    case RECORD_BEGIN:
        k->past->begun = true;
        return tg_commit_compare(k->folder, k->plan, p, &k->differs, err);
    case RECORD_ROWS:
    case RECORD_DONE:
    case RECORD_FAILED:
        return k->differs.code != TG_OK ? TG_OK : see_region(k, type, p, err);
    case RECORD_ALL:
        k->past->all = true;
        return TG_OK;
    case RECORD_END:
        k->past->ended = true;
        return TG_OK;
    default:
        return TG_OK; /* of a newer minor version */
    }
}

tg_status tg_row_look(const tg_folder *folder, const tg_plan *plan, tg_row_past *past,
                      tg_error *err)
{
    look k = {.folder = folder, .plan = plan, .past = past};

    *past = (tg_row_past){0};
    past->attempt = tg_calloc((size_t)tg_plan_n_regions(plan) + 1, sizeof *past->attempt);
    if (past->attempt == NULL)
        return tg_fail(err, TG_NO_MEMORY, "regions that are done");
    if (!tg_folder_exists(folder, NAME))
        return TG_OK;
    tg_status st =
        tg_journal_replay(folder->dir, NAME, KIND, MAJOR, NULL, see_record, &k, NULL, err);
    if (st == TG_CORRUPT || st == TG_UNSUPPORTED || st == TG_IO)
        tg_error_prefix(err, "'%.160s/%s'", folder->path, NAME);
    past->other = past->ended && k.differs.code != TG_OK;
    if (st == TG_OK && k.differs.code != TG_OK && !past->ended) {
        if (err != NULL)
            *err = k.differs;
        st = k.differs.code;
    }
    if (st != TG_OK)
        tg_row_past_destroy(past);
    return st;
}

/* --- Writing ---------------------------------------------------------------------------------
 */

static tg_status begin(const tg_row_log *l, const tg_plan *plan, tg_error *err)
{
    const uint64_t fingerprint = tg_plan_fingerprint(plan);
    const tg_bytes none = {(const uint8_t *)"", 0};
    TG_AUTO(tg_text) text = {0};

    tg_commit_describe(plan, &text);
    TG_TRY(tg_text_status(&text, err));
    TG_TRY(tg_journal_add(l->journal, RECORD_BEGIN,
                          (tg_bytes){(const uint8_t *)&fingerprint, sizeof fingerprint},
                          (tg_bytes){(const uint8_t *)text.data, text.len}, none, err));
    return tg_journal_sync(l->journal, err);
}

static tg_status open_file(tg_row_log *l, const tg_plan *plan, tg_error *err)
{
    const int dir = l->folder->dir;

    if (l->past.begun)
        return tg_journal_open(&l->journal, dir, NAME, KIND, MAJOR, TG_ROW_LOG_BYTES, err);
    /* One without its first record is of a run that had not begun. */
    TG_TRY(tg_folder_drop(l->folder, NAME, err));
    TG_TRY(tg_journal_create(&l->journal, dir, NAME, KIND, MAJOR, 0, TG_ROW_LOG_BYTES, err));
    return begin(l, plan, err);
}

tg_status tg_row_log_open(tg_row_log **out, const tg_folder *folder, const tg_plan *plan,
                          uint32_t n_values, uint64_t interval_ms, tg_row_past *past,
                          tg_error *err)
{
    tg_row_log *l = tg_calloc(1, sizeof *l);

    if (l == NULL)
        return tg_fail(err, TG_NO_MEMORY, "rows of a table");
    tg_mutex_init(&l->lock);
    l->folder = folder;
    l->n_values = n_values;
    l->interval_ms = interval_ms;
    l->past = *past;
    *past = (tg_row_past){0};
    l->last_attempt = l->past.last_attempt;
    l->synced_ns = tg_clock_ns();
    tg_status st = open_file(l, plan, err);
    if (st != TG_OK) {
        tg_row_log_free(l);
        return st;
    }
    *out = l;
    return TG_OK;
}

void tg_row_log_free(tg_row_log *l)
{
    if (l == NULL)
        return;
    tg_journal_free(l->journal);
    tg_row_past_destroy(&l->past);
    tg_mutex_destroy(&l->lock);
    tg_free(l);
}

bool tg_row_log_is_done(const tg_row_log *l, uint64_t region)
{
    return l->past.attempt[region] != 0;
}

void tg_row_begin(tg_row_call *c, uint32_t region)
{
    c->region = region;
    c->n = 0;
    c->n_buffered = 0;
    c->failed = (tg_error){0};
    TG_LOCKED(&c->log->lock);
    c->attempt = ++c->log->last_attempt;
}

static size_t row_items(const tg_row_log *l)
{
    return TG_ROW_HEAD + (size_t)l->n_values;
}

static tg_status write_rows(tg_row_call *c, uint16_t type, tg_error *err)
{
    const rows_head h = {c->region, c->attempt, c->n - c->n_buffered};
    const tg_bytes none = {(const uint8_t *)"", 0};

    TG_LOCKED_FOR_IO(&c->log->lock);
    TG_TRY(tg_journal_add(c->log->journal, type, (tg_bytes){(const uint8_t *)&h, sizeof h},
                          (tg_bytes){(const uint8_t *)c->buffer,
                                     c->n_buffered * row_items(c->log) * sizeof(double)},
                          none, err));
    c->n_buffered = 0;
    return TG_OK;
}

int tg_row_add(void *user, uint64_t label, const double *values)
{
    tg_row_call *c = user;
    const size_t items = row_items(c->log);

    if (c->failed.code != TG_OK)
        return 1;
    double *row = c->buffer + c->n_buffered * items;
    memcpy(row, &label, sizeof label);
    memcpy(row + 1, &c->n, sizeof c->n);
    memcpy(row + TG_ROW_HEAD, values, c->log->n_values * sizeof *values);
    c->n++;
    c->n_buffered++;
    if ((c->n_buffered + 1) * items * sizeof(double) > TG_ROW_BUFFER)
        return write_rows(c, RECORD_ROWS, &c->failed) == TG_OK ? 0 : 1;
    return 0;
}

/* Once an interval, by whoever finds it due. */
static tg_status sync_if_due(tg_row_log *l, tg_error *err)
{
    {
        TG_LOCKED_FOR_IO(&l->lock);
        if (tg_clock_ns() - l->synced_ns < (int64_t)l->interval_ms * 1000000)
            return TG_OK;
        l->synced_ns = tg_clock_ns();
        TG_TRY(tg_journal_flush(l->journal, err));
    }
    return tg_journal_datasync(l->journal, err);
}

tg_status tg_row_done(tg_row_call *c, const char *why, tg_error *err)
{
    const tg_bytes none = {(const uint8_t *)"", 0};

    if (c->failed.code != TG_OK) {
        if (err != NULL)
            *err = c->failed;
        return c->failed.code;
    }
    if (why == NULL) {
        TG_TRY(write_rows(c, RECORD_DONE, err));
    } else {
        TG_LOCKED_FOR_IO(&c->log->lock);
        TG_TRY(tg_journal_add(c->log->journal, RECORD_FAILED,
                              (tg_bytes){(const uint8_t *)&c->region, sizeof c->region},
                              (tg_bytes){(const uint8_t *)why, strlen(why)}, none, err));
    }
    tg_crash_point();
    return sync_if_due(c->log, err);
}

tg_status tg_row_log_sync(tg_row_log *l, bool all, tg_error *err)
{
    const tg_bytes none = {(const uint8_t *)"", 0};

    TG_LOCKED_FOR_IO(&l->lock);
    tg_crash_point();
    if (all)
        TG_TRY(tg_journal_add(l->journal, RECORD_ALL, none, none, none, err));
    return tg_journal_sync(l->journal, err);
}

tg_status tg_row_log_end(const tg_folder *folder, tg_error *err)
{
    const tg_bytes none = {(const uint8_t *)"", 0};
    TG_AUTO_PTR(tg_journal) j = NULL;

    TG_TRY(tg_journal_open(&j, folder->dir, NAME, KIND, MAJOR, 4096, err));
    TG_TRY(tg_journal_add(j, RECORD_END, none, none, none, err));
    return tg_journal_sync(j, err);
}

/* --- Reading ---------------------------------------------------------------------------------
 */

typedef struct walk {
    const tg_row_past *past;
    size_t items; /* of a row */
    tg_row_fn fn;
    void *user;
} walk;

static tg_status hand_rows(void *user, uint16_t type, tg_bytes p, uint64_t offset,
                           tg_error *err)
{
    const walk *w = user;
    const size_t row = w->items * sizeof(double);
    double values[TG_ROW_BUFFER / sizeof(double)];
    uint64_t label, number;
    rows_head h;

    (void)offset;
    if (type != RECORD_ROWS && type != RECORD_DONE)
        return TG_OK;
    memcpy(&h, p.data, sizeof h);
    if (w->past->attempt[h.region] != h.attempt)
        return TG_OK;
    if ((p.len - sizeof h) % row != 0)
        return tg_fail(err, TG_CORRUPT, "rows of another size");
    for (size_t at = sizeof h; at < p.len; at += row) {
        memcpy(&label, p.data + at, 8);
        memcpy(&number, p.data + at + 8, 8);
        memcpy(values, p.data + at + 16, row - 16);
        TG_TRY(w->fn(w->user, h.region, label, number, values, err));
    }
    return TG_OK;
}

tg_status tg_row_each(const tg_folder *folder, const tg_row_past *past, uint32_t n_values,
                      tg_row_fn fn, void *user, tg_error *err)
{
    walk w = {.past = past, .items = TG_ROW_HEAD + (size_t)n_values, .fn = fn, .user = user};

    return tg_journal_replay(folder->dir, NAME, KIND, MAJOR, NULL, hand_rows, &w, NULL, err);
}
