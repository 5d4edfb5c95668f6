/* copy: the journal beside the destination that says which units are durable
 * (docs/formats/copy-journal.md). */
#include "tree/copy.h"

#include <string.h>

#define LOG_FILE "copy.journal"
#define LOG_KIND UINT32_C(0x59504f43) /* "COPY" */
enum { LOG_MAJOR = 1, LOG_MINOR = 0, LOG_BUFFER = 64 << 10 };
enum { RECORD_PLAN = 1, RECORD_BEGUN = 2, RECORD_DONE = 3, RECORD_CLEARING = 4 };

static void put64(uint8_t *dst, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        dst[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get64(const uint8_t *src)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)src[i] << (8 * i);
    return v;
}

typedef struct reading {
    bool has_plan, begun, clearing;
    uint64_t plan, place;
    uint32_t array;
    uint8_t *bits;
    uint64_t n_units;
} reading;

static tg_status read_record(void *user, uint16_t type, tg_bytes payload, uint64_t offset,
                             tg_error *err)
{
    reading *r = user;

    (void)offset;
    (void)err;
    if (type == RECORD_PLAN && payload.len == 16) {
        r->plan = get64(payload.data);
        r->place = get64(payload.data + 8);
        r->has_plan = true;
    } else if (type == RECORD_BEGUN) {
        r->begun = r->clearing = true;
    } else if (type == RECORD_CLEARING) {
        r->clearing = true;
    } else if (type == RECORD_DONE && r->bits != NULL && payload.len >= 8 &&
               get64(payload.data) == r->array) {
        for (size_t at = 8; at + 8 <= payload.len; at += 8) {
            uint64_t unit = get64(payload.data + at);
            if (unit < r->n_units)
                r->bits[unit / 8] |= (uint8_t)(1u << unit % 8);
        }
    }
    return TG_OK;
}

static tg_status make_journal(copy_log *l, uint64_t plan, uint64_t at, tg_error *err)
{
    uint8_t payload[16];

    TG_TRY(tg_journal_create(&l->journal, l->side.dir, LOG_FILE, LOG_KIND, LOG_MAJOR, LOG_MINOR,
                             LOG_BUFFER, err));
    put64(payload, plan);
    put64(payload + 8, at);
    TG_TRY(tg_journal_add(l->journal, RECORD_PLAN, (tg_bytes){payload, 16},
                          (tg_bytes){payload, 0}, (tg_bytes){payload, 0}, err));
    return tg_journal_sync(l->journal, err);
}

static tg_status open_journal(copy_log *l, uint64_t plan, uint64_t at, bool overwrite,
                              tg_error *err)
{
    reading r = {0};

    if (tg_side_has(&l->side, LOG_FILE)) {
        TG_TRY(tg_journal_replay(l->side.dir, LOG_FILE, LOG_KIND, LOG_MAJOR, NULL, read_record,
                                 &r, NULL, err));
        l->resumed = r.has_plan && r.plan == plan;
        l->begun = l->resumed && r.begun;
        l->owned = r.has_plan && r.place == at && r.clearing;
        if (l->resumed)
            return tg_journal_open(&l->journal, l->side.dir, LOG_FILE, LOG_KIND, LOG_MAJOR,
                                   LOG_BUFFER, err);
        if (r.has_plan && !overwrite)
            return tg_fail(err, TG_EXISTS,
                           "an unfinished copy of another source, or with other options, is "
                           "here: give the same again, or overwrite it");
        TG_TRY(tg_side_remove(&l->side, LOG_FILE, err));
    }
    return make_journal(l, plan, at, err);
}

tg_status copy_log_open(copy_log *l, tg_store *dst, uint64_t plan, uint64_t at, bool overwrite,
                        tg_error *err)
{
    *l = (copy_log){.side = {.dir = -1}};
    if ((tg_store_caps(dst) & TG_STORE_IS_LOCAL) == 0 || tg_store_path(dst) == NULL)
        return TG_OK;
    TG_TRY(tg_side_open(&l->side, tg_store_path(dst), err));
    return open_journal(l, plan, at, overwrite, err);
}

static tg_status note(copy_log *l, uint16_t type, tg_error *err)
{
    const tg_bytes none = {(const uint8_t *)"", 0};

    if (l->journal == NULL)
        return TG_OK;
    TG_TRY(tg_journal_add(l->journal, type, none, none, none, err));
    return tg_journal_sync(l->journal, err);
}

tg_status copy_log_clearing(copy_log *l, tg_error *err)
{
    l->owned = l->journal != NULL;
    return note(l, RECORD_CLEARING, err);
}

tg_status copy_log_begin(copy_log *l, tg_error *err)
{
    if (l->begun)
        return TG_OK;
    l->begun = l->journal != NULL;
    return note(l, RECORD_BEGUN, err);
}

tg_status copy_log_done(copy_log *l, uint32_t array, const uint64_t *units, size_t n,
                        tg_error *err)
{
    enum { AT_ONCE = 512 };
    uint8_t payload[8 * (AT_ONCE + 1)];

    if (l->journal == NULL || n == 0)
        return TG_OK;
    put64(payload, array);
    for (size_t at = 0; at < n;) {
        size_t k = 0;
        for (; k < AT_ONCE && at < n; k++)
            put64(payload + 8 * (k + 1), units[at++]);
        TG_TRY(tg_journal_add(l->journal, RECORD_DONE, (tg_bytes){payload, 8 * (k + 1)},
                              (tg_bytes){payload, 0}, (tg_bytes){payload, 0}, err));
    }
    return tg_journal_sync(l->journal, err);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): written through the reading */
tg_status copy_log_read(const copy_log *l, uint32_t array, uint8_t *bits, uint64_t n_units,
                        tg_error *err)
{
    reading r = {.array = array, .bits = bits, .n_units = n_units};

    return tg_journal_replay(l->side.dir, LOG_FILE, LOG_KIND, LOG_MAJOR, NULL, read_record, &r,
                             NULL, err);
}

tg_status copy_log_end(copy_log *l, tg_error *err)
{
    if (l->journal == NULL)
        return TG_OK;
    TG_TRY(tg_journal_close(l->journal, err));
    tg_journal_free(tg_steal(l->journal));
    TG_TRY(tg_side_remove(&l->side, LOG_FILE, err));
    return tg_side_close(&l->side, err);
}

void copy_log_forget(copy_log *l)
{
    tg_status st = copy_log_end(l, NULL);
    (void)st; /* already failing */
}

void copy_log_free(copy_log *l)
{
    tg_journal_free(tg_steal(l->journal));
    tg_side_free(&l->side, true); /* the journal stays: the folder is not empty then */
}
