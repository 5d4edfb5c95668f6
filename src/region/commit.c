/* Group commits, by a thread of their own: a unit that waits is committed within the interval
 * also while all calls are long. */
#include "region/commit.h"

#include "base/clock.h"
#include "zarr/array.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SYNC_EACH   16 /* temporaries that are synced one by one; above, the file system is */
#define DIRS_EACH   16
#define COPY_BYTES  ((size_t)1 << 16)
#define BEGIN_BYTES ((size_t)64 << 10)

typedef struct waiting {
    uint32_t unit;
    tg_commit_how how;
    uint64_t bytes;
} waiting;

struct tg_commit {
    tg_commit_options o;
    tg_journal *journal;
    tg_thread *thread;
    bool resumed;

    tg_mutex lock; /* guards all below but batch, which is the thread's */
    tg_cond changed;
    waiting queue[TG_COMMIT_QUEUE];
    size_t n_queue;
    int64_t since_ns; /* when the first in the queue came */
    bool busy, flush, stop;
    uint64_t n_commits;
    tg_error failed;

    waiting batch[TG_COMMIT_QUEUE];
    size_t n_batch;
    uint32_t units[TG_COMMIT_QUEUE], new_units[TG_COMMIT_QUEUE];
    uint64_t new_bytes[TG_COMMIT_QUEUE];
    char dirs[DIRS_EACH][TG_KEY_BYTES]; /* of OUT, with new entries */
    size_t n_dirs;
    bool many_dirs, made_dirs;
};

/* --- The journal -------------------------------------------------------------------- */

void tg_commit_journal_name(uint32_t part, bool finish, char *dst)
{
    if (finish)
        (void)snprintf(dst, 32, "journal-finish");
    else
        (void)snprintf(dst, 32, "journal-%" PRIu32, part);
}

/* What a result depends on, a line each: for who must say what differs. */
void tg_commit_describe(const tg_plan *plan, tg_text *t)
{
    const tg_plan_facts *f = tg_plan_get_facts(plan);

    tg_text_addf(t, "function\t%c %s\n", f->kind == 0 ? '-' : f->kind,
                 f->text == NULL ? "" : f->text);
    tg_text_addf(t, "policy\t%s\n", tg_policy_name(f->policy));
    tg_text_addf(t, "regions\t%s, %" PRIu64 "\n", f->rois == NULL ? "" : f->rois,
                 tg_plan_n_regions(plan));
    tg_text_addf(t, "source\t%s %s\n", f->in.url, f->in.path);
    tg_text_addf(t, "base\t%s\n", f->base == TG_BASE_INPUT ? "input" : "out");
    tg_text_addf(t, "read\t%s\n", f->read == TG_READ_SEQUENTIAL ? "sequential" : "snapshot");
    tg_text_add(t, "halo\t");
    for (uint32_t d = 0; d < f->in.shape.ndim; d++)
        tg_text_addf(t, "%s%" PRIu64, d == 0 ? "" : ",", f->halo[d]);
    tg_text_addf(t, "\nparts\t%" PRIu32 "\n", f->parts);
    tg_text_addf(t, "pad\t%s\n", f->pad == NULL || f->pad[0] == '\0' ? "none" : f->pad);
}

/* The first line that differs, named. */
static tg_status name_difference(const tg_folder *folder, const char *was, size_t was_len,
                                 const char *is, tg_error *err)
{
    const char *end = was + was_len;

    while (was < end && *is != '\0') {
        size_t n = strcspn(is, "\n");
        const char *stop = memchr(was, '\n', (size_t)(end - was));
        size_t m = stop == NULL ? (size_t)(end - was) : (size_t)(stop - was);
        if (n != m || memcmp(was, is, n) != 0) {
            size_t name = strcspn(is, "\t\n");
            size_t skip = m > name ? name + 1 : m;
            return tg_fail(err, TG_INVALID,
                           "'%.160s' holds an unfinished run whose %.*s is '%.*s', not '%.*s': "
                           "run that one again to end it, or `clean` to give it up",
                           folder->path, (int)name, is, (int)(m - skip), was + skip,
                           (int)(n - name - 1), is + name + 1);
        }
        was += m + 1;
        is += n + (is[n] == '\n');
    }
    return tg_fail(err, TG_INVALID,
                   "'%.200s' holds an unfinished run over other regions or another array: run "
                   "that one again to end it, or `clean` to give it up",
                   folder->path);
}

typedef struct replay {
    const tg_folder *folder;
    const tg_plan *plan;
    tg_commit_past *past;
    void (*failed)(void *user, uint32_t region);
    void *user;
    tg_error mismatch;
} replay;

tg_status tg_commit_compare(const tg_folder *folder, const tg_plan *plan, tg_bytes p,
                            tg_error *differs, tg_error *err)
{
    TG_AUTO(tg_text) now = {0};
    uint64_t fingerprint;

    if (p.len < sizeof fingerprint)
        return tg_fail(err, TG_CORRUPT, "a begin record of %zu bytes", p.len);
    memcpy(&fingerprint, p.data, sizeof fingerprint);
    tg_commit_describe(plan, &now);
    TG_TRY(tg_text_status(&now, err));
    const char *was = (const char *)p.data + sizeof fingerprint;
    const size_t len = p.len - sizeof fingerprint;
    if (fingerprint != tg_plan_fingerprint(plan) || len != now.len ||
        memcmp(was, now.data, len) != 0)
        (void)name_difference(folder, was, len, now.data, differs);
    return TG_OK;
}

static tg_status replay_done(const replay *r, tg_bytes p, tg_error *err)
{
    for (size_t at = 0; at + 4 <= p.len; at += 4) {
        uint32_t u;
        memcpy(&u, p.data + at, 4);
        if (u >= tg_plan_n_units(r->plan))
            return tg_fail(err, TG_CORRUPT, "unit %" PRIu32 " is not of this plan", u);
        r->past->n_done += (r->past->done[u / 8] >> (u % 8) & 1) == 0;
        r->past->done[u / 8] |= (uint8_t)(1U << (u % 8));
    }
    return TG_OK;
}

static tg_status replay_record(void *user, uint16_t type, tg_bytes p, uint64_t offset,
                               tg_error *err)
{
    replay *r = user;
    uint32_t k;

    (void)offset;
    if (r->mismatch.code != TG_OK && type != TG_APPLY_END)
        return TG_OK; /* its numbers mean nothing here */
    switch (type) {
    case TG_APPLY_BEGIN:
        r->past->begun = true;
        return tg_commit_compare(r->folder, r->plan, p, &r->mismatch, err);
    case TG_APPLY_DONE:
        return replay_done(r, p, err);
    case TG_APPLY_END:
        r->past->ended = true;
        return TG_OK;
    case TG_APPLY_FAILED:
        if (p.len < sizeof k)
            return tg_fail(err, TG_CORRUPT, "a failure record of %zu bytes", p.len);
        memcpy(&k, p.data, sizeof k);
        r->past->n_failed++;
        if (r->failed != NULL && k < tg_plan_n_regions(r->plan))
            r->failed(r->user, k);
        return TG_OK;
    default:
        return TG_OK; /* of a newer minor version */
    }
}

void tg_commit_past_destroy(tg_commit_past *p)
{
    tg_free(p->done);
    *p = (tg_commit_past){0};
}

tg_status tg_commit_replay(const tg_folder *folder, const tg_plan *plan, uint32_t part,
                           bool finish, void (*failed)(void *user, uint32_t region), void *user,
                           tg_commit_past *past, tg_error *err)
{
    replay r = {folder, plan, past, failed, user, {0}};
    char name[32];

    *past = (tg_commit_past){0};
    tg_commit_journal_name(part, finish, name);
    if (!tg_folder_exists(folder, name))
        return TG_OK;
    past->done = tg_calloc((size_t)tg_plan_n_units(plan) / 8 + 1, 1);
    if (past->done == NULL)
        return tg_fail(err, TG_NO_MEMORY, "units that are done");
    tg_status st =
        tg_journal_replay(folder->dir, name, TG_APPLY_JOURNAL_KIND, TG_APPLY_JOURNAL_MAJOR,
                          NULL, replay_record, &r, NULL, err);
    if (st == TG_CORRUPT || st == TG_UNSUPPORTED || st == TG_IO)
        tg_error_prefix(err, "'%.160s/%s'", folder->path, name);
    if (st == TG_OK && r.mismatch.code != TG_OK && !past->ended) {
        if (err != NULL)
            *err = r.mismatch;
        st = r.mismatch.code;
    }
    past->other = past->ended && r.mismatch.code != TG_OK;
    if (st != TG_OK)
        tg_commit_past_destroy(past);
    return st;
}

static tg_status open_journal(tg_commit *c, const tg_commit_past *past, tg_error *err)
{
    const int dir = c->o.folder->dir;
    const uint64_t fingerprint = tg_plan_fingerprint(c->o.plan);
    TG_AUTO(tg_text) text = {0};
    const tg_bytes none = {(const uint8_t *)"", 0};
    char name[32];

    tg_commit_journal_name(c->o.part, c->o.finish, name);
    if (past->begun)
        return tg_journal_open(&c->journal, dir, name, TG_APPLY_JOURNAL_KIND,
                               TG_APPLY_JOURNAL_MAJOR, BEGIN_BYTES, err);
    /* One without its first record is of a run that had not begun. */
    TG_TRY(tg_folder_drop(c->o.folder, name, err));
    TG_TRY(tg_journal_create(&c->journal, dir, name, TG_APPLY_JOURNAL_KIND,
                             TG_APPLY_JOURNAL_MAJOR, 0, BEGIN_BYTES, err));
    tg_commit_describe(c->o.plan, &text);
    TG_TRY(tg_text_status(&text, err));
    TG_TRY(tg_journal_add(c->journal, TG_APPLY_BEGIN,
                          (tg_bytes){(const uint8_t *)&fingerprint, sizeof fingerprint},
                          (tg_bytes){(const uint8_t *)text.data, text.len}, none, err));
    return tg_journal_sync(c->journal, err);
}

/* --- Steps of a commit ---------------------------------------------------------------- */

void tg_commit_name(const tg_commit *c, uint32_t unit, char *dst)
{
    if (c->o.finish)
        (void)snprintf(dst, 48, "new-f-%" PRIu32, unit);
    else
        (void)snprintf(dst, 48, "new-%" PRIu32 "-%" PRIu32, c->o.part, unit);
}

static tg_status sync_file(const tg_commit *c, const char *name, tg_error *err)
{
    TG_AUTO(tg_fd) fd = tg_sys_open(c->o.folder->dir, name, O_RDONLY | O_NONBLOCK, 0);

    if (fd < 0)
        return tg_folder_fail(c->o.folder, "open", name, err);
    return tg_sys_fdatasync(fd) == 0 ? TG_OK : tg_folder_fail(c->o.folder, "sync", name, err);
}

static tg_status sync_all(const tg_commit *c, int dir, tg_error *err)
{
    return tg_sys_sync_fs(dir) == 0
               ? TG_OK
               : tg_folder_fail(c->o.folder, "sync the file system of", "", err);
}

static tg_status sync_temporaries(const tg_commit *c, tg_error *err)
{
    char name[48];

    if (c->n_batch > SYNC_EACH)
        return sync_all(c, c->o.folder->dir, err);
    for (size_t i = 0; i < c->n_batch; i++) {
        tg_commit_name(c, c->batch[i].unit, name);
        if (c->batch[i].how == TG_COMMIT_NEW)
            TG_TRY(sync_file(c, name, err));
    }
    return TG_OK;
}

/* The unit's key, and its place in undo/. */
static void names_of(const tg_commit *c, uint32_t u, char key[TG_KEY_BYTES],
                     char undo[TG_UNDO_BYTES])
{
    tg_plan_unit unit;

    tg_plan_unit_get(c->o.plan, u, &unit);
    tg_unit_key(c->o.out, unit.index, key);
    tg_undo_name(c->o.out->meta->info.ndim, unit.index, undo);
}

static tg_status copy_bytes(const tg_commit *c, int from, int to, const char *name,
                            tg_error *err)
{
    TG_AUTO(tg_mem_ptr) room = tg_alloc(COPY_BYTES);
    uint64_t at = 0;

    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "copy to undo/");
    for (ssize_t n; (n = tg_sys_pread(from, room, COPY_BYTES, (off_t)at)) != 0;
         at += (uint64_t)n) {
        if (n < 0)
            return tg_folder_fail(c->o.folder, "read what is copied to", name, err);
        TG_TRY(tg_fd_write_at(to, room, (size_t)n, at, name, err));
    }
    return tg_sys_fdatasync(to) == 0 ? TG_OK : tg_folder_fail(c->o.folder, "sync", name, err);
}

/* Where the file system has no hard links. */
static tg_status copy_to_undo(const tg_commit *c, const char *key, const char *undo,
                              tg_error *err)
{
    const int dir = c->o.folder->dir;
    char name[32];
    (void)snprintf(name, sizeof name, "undo-copy-%" PRIu32, c->o.part); /* parts run at once */
    TG_AUTO(tg_fd)
    from = tg_sys_open(tg_store_dir(c->o.out->store), key, O_RDONLY | O_NONBLOCK, 0);
    TG_AUTO(tg_fd) to = tg_sys_open(dir, name, O_RDWR | O_CREAT | O_TRUNC, 0666);

    if (from < 0 || to < 0)
        return tg_folder_fail(c->o.folder, "copy to", undo, err);
    TG_TRY(copy_bytes(c, from, to, undo, err));
    TG_TRY(tg_fd_close(&to, name, err));
    return tg_sys_rename(dir, name, dir, undo) == 0
               ? TG_OK
               : tg_folder_fail(c->o.folder, "make", undo, err);
}

static tg_status note_absent(const tg_commit *c, const char *undo, tg_error *err)
{
    char name[TG_UNDO_BYTES + 8];

    (void)snprintf(name, sizeof name, "%s.absent", undo);
    TG_AUTO(tg_fd) fd = tg_sys_open(c->o.folder->dir, name, O_WRONLY | O_CREAT, 0666);
    return fd >= 0 ? TG_OK : tg_folder_fail(c->o.folder, "make", name, err);
}

/* What is there already is older, and what is to be kept: an earlier run died after it. */
static tg_status link_undo(const tg_commit *c, uint32_t u, tg_error *err)
{
    char key[TG_KEY_BYTES], undo[TG_UNDO_BYTES], absent[TG_UNDO_BYTES + 8];

    names_of(c, u, key, undo);
    (void)snprintf(absent, sizeof absent, "%s.absent", undo);
    if (c->resumed && tg_folder_exists(c->o.folder, absent))
        return TG_OK;
    if (tg_sys_link(tg_store_dir(c->o.out->store), key, c->o.folder->dir, undo) == 0 ||
        errno == EEXIST)
        return TG_OK;
    if (errno == ENOENT || errno == ENOTDIR)
        return note_absent(c, undo, err);
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK)
        return copy_to_undo(c, key, undo, err);
    return tg_folder_fail(c->o.folder, "link to", undo, err);
}

static tg_status link_undos(const tg_commit *c, tg_error *err)
{
    TG_AUTO(tg_fd) dir = tg_sys_open(c->o.folder->dir, "undo", O_RDONLY | O_DIRECTORY, 0);

    if (dir < 0)
        return tg_folder_fail(c->o.folder, "open", "undo", err);
    for (size_t i = 0; i < c->n_batch; i++) {
        tg_crash_point();
        if (c->batch[i].how != TG_COMMIT_KEEP)
            TG_TRY(link_undo(c, c->batch[i].unit, err));
    }
    return tg_dir_sync(dir, "undo", err);
}

static void note_dir(tg_commit *c, const char *key)
{
    const char *slash = strrchr(key, '/');
    const size_t n = slash == NULL ? 0 : (size_t)(slash - key);

    for (size_t i = c->n_dirs; i-- > 0;)
        if (strlen(c->dirs[i]) == n && memcmp(c->dirs[i], key, n) == 0)
            return;
    if (c->n_dirs == DIRS_EACH) {
        c->many_dirs = true;
        return;
    }
    memcpy(c->dirs[c->n_dirs], key, n);
    c->dirs[c->n_dirs++][n] = '\0';
}

static tg_status make_parents(tg_commit *c, const char *key, tg_error *err)
{
    char path[TG_KEY_BYTES];

    for (const char *p = key; (p = strchr(p, '/')) != NULL; p++) {
        memcpy(path, key, (size_t)(p - key));
        path[p - key] = '\0';
        if (tg_sys_mkdir(tg_store_dir(c->o.out->store), path, 0777) != 0 && errno != EEXIST)
            return tg_fail_errno(err, "make folder '%.200s'", path);
    }
    c->made_dirs = true;
    return TG_OK;
}

static tg_status name_key(tg_status st, const char *key, tg_error *err)
{
    tg_error_at(err, key, TG_NO_OFFSET);
    return st;
}

static tg_status publish(tg_commit *c, const waiting *w, tg_error *err)
{
    const int to = tg_store_dir(c->o.out->store);
    char key[TG_KEY_BYTES], undo[TG_UNDO_BYTES], name[48];

    if (w->how == TG_COMMIT_KEEP)
        return TG_OK;
    names_of(c, w->unit, key, undo);
    if (w->how == TG_COMMIT_REMOVE) {
        if (tg_sys_unlink(to, key, 0) == 0)
            note_dir(c, key);
        else if (errno != ENOENT && errno != ENOTDIR)
            return name_key(tg_fail_errno(err, "remove '%.200s'", key), key, err);
        return TG_OK;
    }
    tg_commit_name(c, w->unit, name);
    note_dir(c, key);
    if (tg_sys_rename(c->o.folder->dir, name, to, key) == 0)
        return TG_OK;
    if (errno == ENOENT) {
        TG_TRY(make_parents(c, key, err));
        if (tg_sys_rename(c->o.folder->dir, name, to, key) == 0)
            return TG_OK;
    }
    return name_key(
        tg_fail_errno(err, "rename '%.160s/%s' to '%.160s'", c->o.folder->path, name, key), key,
        err);
}

static tg_status sync_dirs(tg_commit *c, tg_error *err)
{
    const int root = tg_store_dir(c->o.out->store);

    if (c->many_dirs || c->made_dirs)
        return sync_all(c, root, err);
    for (size_t i = 0; i < c->n_dirs; i++) {
        const char *path = c->dirs[i][0] == '\0' ? "." : c->dirs[i];
        TG_AUTO(tg_fd) dir = tg_sys_open(root, path, O_RDONLY | O_DIRECTORY, 0);
        if (dir < 0)
            return tg_fail_errno(err, "open folder '%.200s'", path);
        TG_TRY(tg_dir_sync(dir, path, err));
    }
    return TG_OK;
}

static tg_status write_done(tg_commit *c, tg_error *err)
{
    const tg_bytes none = {(const uint8_t *)"", 0};
    size_t n_new = 0;

    for (size_t i = 0; i < c->n_batch; i++) {
        c->units[i] = c->batch[i].unit;
        if (c->batch[i].how != TG_COMMIT_NEW)
            continue;
        c->new_units[n_new] = c->batch[i].unit;
        c->new_bytes[n_new++] = c->batch[i].bytes;
    }
    {
        TG_LOCKED_FOR_IO(&c->lock); /* records of failed regions come from other threads */
        TG_TRY(tg_journal_add(c->journal, TG_APPLY_DONE,
                              (tg_bytes){(const uint8_t *)c->units, 4 * c->n_batch}, none, none,
                              err));
        if (n_new > 0 && (c->o.in_parts || c->o.finish)) /* for tg_commit_check_published() */
            TG_TRY(tg_journal_add(c->journal, TG_APPLY_SIZES,
                                  (tg_bytes){(const uint8_t *)c->new_units, 4 * n_new},
                                  (tg_bytes){(const uint8_t *)c->new_bytes, 8 * n_new}, none,
                                  err));
        TG_TRY(tg_journal_flush(c->journal, err));
    }
    return tg_journal_datasync(c->journal, err);
}

static tg_status drop_undo(const tg_commit *c, const uint32_t *units, size_t n, tg_error *err)
{
    char key[TG_KEY_BYTES], undo[TG_UNDO_BYTES], absent[TG_UNDO_BYTES + 8];

    for (size_t i = 0; i < n; i++) {
        names_of(c, units[i], key, undo);
        (void)snprintf(absent, sizeof absent, "%s.absent", undo);
        TG_TRY(tg_folder_drop(c->o.folder, undo, err));
        TG_TRY(tg_folder_drop(c->o.folder, absent, err));
    }
    return TG_OK;
}

static tg_status commit_batch(tg_commit *c, tg_error *err)
{
    c->n_dirs = 0;
    c->many_dirs = c->made_dirs = false;
    tg_crash_point();
    TG_TRY(sync_temporaries(c, err));
    tg_crash_point();
    if (c->o.undo)
        TG_TRY(link_undos(c, err));
    for (size_t i = 0; i < c->n_batch; i++) {
        tg_crash_point();
        TG_TRY(publish(c, &c->batch[i], err));
    }
    tg_crash_point();
    TG_TRY(sync_dirs(c, err));
    tg_crash_point();
    TG_TRY(write_done(c, err));
    tg_crash_point();
    if (c->o.undo && !c->o.keep_undo && !c->o.hold_undo)
        TG_TRY(drop_undo(c, c->units, c->n_batch, err));
    tg_crash_point();
    if (c->o.done != NULL)
        c->o.done(c->o.user, c->units, c->n_batch);
    return TG_OK;
}

/* --- The thread ------------------------------------------------------------------------- */

/* Wait until there is something to commit; false: the end. */
static bool take_batch(tg_commit *c)
{
    TG_LOCKED(&c->lock);
    for (;;) {
        const int64_t due = c->since_ns + (int64_t)c->o.interval_ms * 1000000;
        if (c->failed.code != TG_OK || (c->stop && c->n_queue == 0))
            return false;
        if (c->n_queue > 0 &&
            (c->flush || c->stop || c->n_queue >= TG_COMMIT_QUEUE / 2 || tg_clock_ns() >= due))
            break;
        if (c->n_queue == 0)
            tg_cond_wait(&c->changed, &c->lock);
        else
            (void)tg_cond_wait_until(&c->changed, &c->lock, due);
    }
    memcpy(c->batch, c->queue, c->n_queue * sizeof *c->queue);
    c->n_batch = c->n_queue;
    c->n_queue = 0;
    c->busy = true;
    tg_cond_broadcast(&c->changed);
    return true;
}

static void run_thread(void *user)
{
    tg_commit *c = user;

    while (take_batch(c)) {
        tg_error err = {0};
        tg_status st = commit_batch(c, &err);
        TG_LOCKED(&c->lock);
        c->busy = false;
        c->n_commits++;
        if (st != TG_OK && c->failed.code == TG_OK)
            c->failed = err;
        tg_cond_broadcast(&c->changed);
    }
}

static tg_status failure_of(const tg_commit *c, tg_error *err)
{
    if (c->failed.code != TG_OK && err != NULL)
        *err = c->failed;
    return c->failed.code;
}

tg_status tg_commit_add(tg_commit *c, uint32_t unit, tg_commit_how how, uint64_t bytes,
                        tg_error *err)
{
    TG_LOCKED(&c->lock);
    while (c->n_queue == TG_COMMIT_QUEUE && c->failed.code == TG_OK)
        tg_cond_wait(&c->changed, &c->lock);
    TG_TRY(failure_of(c, err));
    if (c->n_queue == 0)
        c->since_ns = tg_clock_ns();
    c->queue[c->n_queue++] = (waiting){unit, how, bytes};
    if (c->n_queue == 1 || c->n_queue >= TG_COMMIT_QUEUE / 2)
        tg_cond_broadcast(&c->changed);
    return TG_OK;
}

tg_status tg_commit_failed_region(tg_commit *c, uint32_t region, const char *why, tg_error *err)
{
    const tg_bytes none = {(const uint8_t *)"", 0};

    TG_LOCKED_FOR_IO(&c->lock);
    return tg_journal_add(c->journal, TG_APPLY_FAILED,
                          (tg_bytes){(const uint8_t *)&region, sizeof region},
                          (tg_bytes){(const uint8_t *)why, strlen(why)}, none, err);
}

tg_status tg_commit_flush(tg_commit *c, tg_error *err)
{
    TG_LOCKED(&c->lock);
    c->flush = true;
    tg_cond_broadcast(&c->changed);
    while ((c->n_queue > 0 || c->busy) && c->failed.code == TG_OK)
        tg_cond_wait(&c->changed, &c->lock);
    c->flush = false;
    return failure_of(c, err);
}

tg_status tg_commit_drop_undo(tg_commit *c, const uint32_t *units, size_t n, tg_error *err)
{
    return c->o.keep_undo ? TG_OK : drop_undo(c, units, n, err);
}

tg_status tg_commit_end(tg_commit *c, tg_error *err)
{
    const tg_bytes none = {(const uint8_t *)"", 0};

    TG_TRY(tg_commit_flush(c, err));
    TG_LOCKED_FOR_IO(&c->lock);
    if (!c->o.in_parts)
        TG_TRY(tg_journal_add(c->journal, TG_APPLY_END, none, none, none, err));
    return tg_journal_sync(c->journal, err);
}

uint64_t tg_commit_count(const tg_commit *c)
{
    return c->n_commits;
}

tg_status tg_commit_new(tg_commit **out, const tg_commit_options *options,
                        const tg_commit_past *past, tg_error *err)
{
    tg_commit *c = tg_calloc(1, sizeof *c);

    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "group commits");
    c->o = *options;
    c->resumed = past->begun || tg_folder_exists(c->o.folder, "undo");
    tg_mutex_init(&c->lock);
    tg_cond_init(&c->changed);
    tg_status st = open_journal(c, past, err);
    if (st == TG_OK && c->o.undo && tg_sys_mkdir(c->o.folder->dir, "undo", 0777) != 0 &&
        errno != EEXIST)
        st = tg_folder_fail(c->o.folder, "make folder", "undo", err);
    if (st == TG_OK)
        st = tg_dir_sync(c->o.folder->dir, c->o.folder->path, err);
    if (st == TG_OK)
        st = tg_thread_start(&c->thread, "commit", run_thread, c, err);
    if (st != TG_OK) {
        tg_commit_free(c);
        return st;
    }
    *out = c;
    return TG_OK;
}

void tg_commit_free(tg_commit *c)
{
    if (c == NULL)
        return;
    {
        TG_LOCKED(&c->lock);
        c->stop = true;
        c->n_queue = 0;
        tg_cond_broadcast(&c->changed);
    }
    tg_thread_join(c->thread);
    tg_journal_free(c->journal);
    tg_cond_destroy(&c->changed);
    tg_mutex_destroy(&c->lock);
    tg_free(c);
}
