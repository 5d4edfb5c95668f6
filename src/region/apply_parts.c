/* tidegate/region.h: a job by several processes: plan, one part, the merge, status. What they
 * share lies in the folder beside OUT: docs/formats/apply.md. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* realpath() */
#endif
#include "base/clock.h"
#include "exec/exec.h"
#include "region/apply_job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES ((uint64_t)8 << 20) /* of the plan's file, at most resident */

static tg_status check_sizes(size_t options, size_t report, tg_error *err)
{
    return options == sizeof(tg_apply_options) && report == sizeof(tg_apply_report)
               ? TG_OK
               : tg_fail(err, TG_INVALID, "sizes %zu and %zu, want %zu and %zu", options,
                         report, sizeof(tg_apply_options), sizeof(tg_apply_report));
}

/* The path of a store as other processes find it; PATH_MAX bytes. */
static tg_status absolute(const tg_store *s, char *dst, tg_error *err)
{
    return tg_store_path(s) != NULL && realpath(tg_store_path(s), dst) != NULL
               ? TG_OK
               : tg_fail(err, TG_UNSUPPORTED,
                         "%s: only directories can be planned for other processes",
                         tg_store_describe(s));
}

/* --- Which plan the folder and OUT are of ----------------------------------------------------
 */

/* What OUT's attributes say of the run that made it; digest "": nothing. */
static tg_status read_attributes(tg_store *s, const char *path, char digest[24], uint64_t *run,
                                 tg_error *err)
{
    TG_AUTO_PTR(tg_json) o = NULL;
    tg_node *node = NULL;
    const char *text = NULL;

    digest[0] = '\0';
    *run = 0;
    TG_TRY(tg_node_open(s, path, &node, NULL, err));
    const char *attributes = tg_node_attributes(node);
    tg_status st =
        tg_json_parse(&o, attributes, strlen(attributes), (tg_json_options){true}, err);
    tg_node_free(node);
    TG_TRY(st);
    const tg_json *made = tg_json_get(o, "tidegate");
    const tg_json *d = tg_json_get(made, "digest"), *n = tg_json_get(made, "run");
    if (tg_json_kind_of(d) == TG_JSON_STRING && tg_json_string(d, &text, NULL, NULL) == TG_OK)
        (void)snprintf(digest, 24, "%.20s", text);
    if (n != NULL && tg_json_u64(n, run, NULL) != TG_OK)
        *run = 0;
    return TG_OK;
}

/* Has this plan been finished? What made OUT says so, and was written when all was done. A plan
 * that was made after it is another time, also if all else is the same. */
static tg_status look_at_out(job *j, tg_error *err)
{
    char digest[24], want[24];
    uint64_t run;

    TG_TRY(read_attributes(j->own_out, j->out_path, digest, &run, err));
    (void)snprintf(want, sizeof want, "%016" PRIx64, tg_plan_fingerprint(j->plan));
    j->finished = strcmp(digest, want) == 0 && run >= j->run;
    return TG_OK;
}

static void look_at_mark(job *j)
{
    char want[TG_MARK_BYTES], got[TG_MARK_BYTES + 1];
    TG_AUTO(tg_fd) fd = tg_sys_open(j->folder.dir, "in-parts", O_RDONLY | O_NONBLOCK, 0);
    const ssize_t n = fd < 0 ? 0 : tg_sys_read(fd, got, TG_MARK_BYTES);

    got[n < 0 ? 0 : n] = '\0';
    tg_apply_mark(j, want);
    j->ours = strcmp(got, want) == 0;
}

static tg_status write_mark(const job *j, tg_error *err)
{
    char text[TG_MARK_BYTES];
    const int dir = j->folder.dir;

    tg_apply_mark(j, text);
    TG_AUTO(tg_fd) fd = tg_sys_open(dir, "in-parts.new", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0)
        return tg_folder_fail(&j->folder, "make", "in-parts.new", err);
    TG_TRY(tg_fd_write_at(fd, text, strlen(text), 0, "in-parts.new", err));
    if (tg_sys_fdatasync(fd) != 0)
        return tg_folder_fail(&j->folder, "sync", "in-parts.new", err);
    TG_TRY(tg_fd_close(&fd, "in-parts.new", err));
    tg_crash_point();
    if (tg_sys_rename(dir, "in-parts.new", dir, "in-parts") != 0)
        return tg_folder_fail(&j->folder, "make", "in-parts", err);
    return tg_dir_sync(dir, j->folder.path, err);
}

/* --- The plan
 * ---------------------------------------------------------------------------------- */

/* What is not in the facts, and the number of this run: a plan in place may be made again when
 * it was finished, and is then another. */
static tg_status set_options(job *j, tg_error *err)
{
    char digest[24], dtype[16];
    uint64_t run;

    TG_TRY(read_attributes(j->out_store, j->out_path, digest, &run, err));
    j->run = run + 1;
    (void)snprintf(j->text, sizeof j->text,
                   "{\"skip\": %s, \"retries\": %" PRIu32 ", \"timeout_ms\": %" PRIu64
                   ", \"called\": %" PRIu64 ", \"dtype\": \"%s\", \"run\": %" PRIu64 "}",
                   j->o->skip_failed ? "true" : "false", j->o->retries, j->o->call_timeout_ms,
                   j->set.list.n, tg_dtype_name(j->fn->facts.out_dtype, dtype), j->run);
    j->facts.options = j->text;
    return TG_OK;
}

/* Nothing of another run is in the way, and none begins now: lock-0 is held. */
static tg_status clear_folder(job *j, tg_error *err)
{
    if (tg_folder_exists(&j->folder, "undoing"))
        return tg_fail(err, TG_INVALID, "an undo was stopped half way: run `undo` again first");
    if (tg_folder_has(&j->folder, "journal-"))
        return tg_fail(err, TG_INVALID,
                       "'%.200s' holds a run that has begun: end it, or `clean` to give it up",
                       j->folder.path);
    /* What an earlier run has kept is the past of that one, not of this. */
    return tg_folder_drop_all(&j->folder, "undo", "u", err);
}

static tg_status write_plan(job *j, const char *path, uint32_t parts, tg_error *err)
{
    TG_TRY(absolute(j->o->in_store, j->urls[0], err));
    TG_TRY(absolute(j->out_store, j->urls[1], err));
    TG_TRY(tg_apply_set_facts(j, err));
    if (j->facts.policy == TG_POLICY_LABELS)
        return tg_fail(err, TG_UNSUPPORTED, "policy labels: not in parts yet");
    TG_TRY(set_options(j, err));
    j->facts.in.url = j->urls[0];
    j->facts.out.url = j->urls[1];
    j->facts.parts = parts;
    TG_TRY(tg_apply_make_plan(j, err));
    TG_TRY(tg_apply_lock(j, "lock-merge", err)); /* nobody tidies away what is made now */
    TG_TRY(clear_folder(j, err));
    TG_TRY(tg_plan_write(j->plan, AT_FDCWD, path, err));
    j->begun = true;
    return write_mark(j, err);
}

static tg_status plan(job *j, const char *path, uint32_t parts, tg_error *err)
{
    TG_TRY(tg_apply_open(j, err));
    if (j->out == NULL || !j->has_folder)
        return tg_fail(err, TG_UNSUPPORTED, "in parts OUT must be a directory");
    return write_plan(j, path, parts, err);
}

tg_status tg_apply_plan(tg_runtime *rt, const tg_apply_options *options, const char *path,
                        uint32_t parts, tg_apply_report *report, const tg_cancel *cancel,
                        tg_error *err)
{
    const int64_t began = tg_clock_ns();

    TG_TRY(check_sizes(options->size, report->size, err));
    if (parts == 0 || parts > 65536)
        return tg_fail(err, TG_INVALID, "%" PRIu32 " parts: want 1 to 65536", parts);
    if (options->fn != NULL)
        return tg_fail(err, TG_INVALID, "a program's own function is in no other process");
    *report = (tg_apply_report){.size = sizeof *report, .parts = parts};
    TG_AUTO(job)
    j = {.rt = rt, .o = options, .report = report, .cancel = cancel, .folder = {.dir = -1}};
    tg_status st = plan(&j, path, parts, err);
    if (st != TG_OK && !j.begun)
        tg_apply_take_back(&j);
    report->seconds = report->plan_seconds = (double)(tg_clock_ns() - began) * 1e-9;
    return st;
}

static tg_status read_options(job *j, tg_error *err)
{
    const char *text = j->facts.options, *dtype = NULL;
    TG_AUTO_PTR(tg_json) o = NULL;
    uint64_t retries = 0;

    TG_TRY(tg_json_parse(&o, text, strlen(text), (tg_json_options){0}, err));
    TG_TRY(tg_json_bool(tg_json_get(o, "skip"), &j->options.skip_failed, err));
    TG_TRY(tg_json_u64(tg_json_get(o, "timeout_ms"), &j->options.call_timeout_ms, err));
    TG_TRY(tg_json_u64(tg_json_get(o, "retries"), &retries, err));
    TG_TRY(tg_json_u64(tg_json_get(o, "called"), &j->report->rois, err));
    TG_TRY(tg_json_u64(tg_json_get(o, "run"), &j->run, err));
    TG_TRY(tg_json_string(tg_json_get(o, "dtype"), &dtype, NULL, err));
    TG_TRY(tg_dtype_parse(dtype, &j->dtype, err));
    j->options.dtype = &j->dtype;
    if (j->report->rois > tg_plan_n_regions(j->plan))
        return tg_fail(err, TG_CORRUPT, "the plan calls %" PRIu64 " of %" PRIu64 " regions",
                       j->report->rois, tg_plan_n_regions(j->plan));
    j->options.retries = retries > 1000 ? 1000 : (uint32_t)retries;
    return TG_OK;
}

static tg_status check_array(const char *what, const tg_plan_array *p, const tg_array *a,
                             const tg_store *s, tg_error *err)
{
    tg_plan_array now;

    TG_TRY(tg_apply_describe(&now, a, s, p->path, err));
    bool same = p->shape.ndim == now.shape.ndim && p->dtype.kind == now.dtype.kind &&
                p->dtype.size == now.dtype.size && p->metadata_crc == now.metadata_crc;
    for (uint32_t d = 0; same && d < p->shape.ndim; d++)
        same = p->shape.n[d] == now.shape.n[d] && p->chunk.n[d] == now.chunk.n[d] &&
               p->shard.n[d] == now.shard.n[d];
    return same ? TG_OK
                : tg_fail(err, TG_INVALID,
                          "%s is another array than when it was planned ('%.200s')", what,
                          p->url);
}

static tg_status open_planned_mask(job *j, tg_error *err)
{
    const tg_plan_array *labels = &j->facts.mask;
    const bool image = labels->shape.ndim != 0;

    TG_TRY(tg_mask_open(&j->mask, &j->facts, j->own_in, image ? labels->path : NULL, j->cancel,
                        err));
    return image
               ? check_array("the label image", labels, tg_mask_array(j->mask), j->own_in, err)
               : TG_OK;
}

static tg_status open_planned(job *j, const char *path, tg_error *err)
{
    const tg_store_options so = {.size = sizeof so, .mode = TG_STORE_READ_WRITE};

    TG_TRY(tg_plan_open(&j->plan, AT_FDCWD, path, WINDOW_BYTES, tg_runtime_budget(j->rt), err));
    j->facts = *tg_plan_get_facts(j->plan);
    if (j->facts.out.shape.ndim == 0)
        return tg_fail(err, TG_UNSUPPORTED, "plan '%.200s' has no OUT", path);
    TG_TRY(tg_store_open(j->facts.in.url, NULL, &j->own_in, NULL, err));
    TG_TRY(tg_store_open(j->facts.out.url, &so, &j->own_out, NULL, err));
    j->report->parts = j->facts.parts;
    j->planned = true;
    j->out_new = j->facts.out_new;
    j->in_place = j->facts.in_place;
    j->out_store = j->own_out;
    (void)snprintf(j->out_path, sizeof j->out_path, "%s", j->facts.out.path);
    j->options.in_store = j->own_in;
    j->options.in_path = j->facts.in.path;
    j->options.kind = j->facts.kind;
    j->options.function = j->facts.text;
    j->options.keep_undo = j->facts.keep_undo;
    TG_TRY(read_options(j, err));
    TG_TRY(tg_apply_open_in(j, err));
    TG_TRY(tg_apply_open_function(j, err));
    TG_TRY(tg_array_open(j->own_out, j->out_path, &j->made, j->cancel, err));
    j->out = j->made;
    TG_TRY(check_array("IN", &j->facts.in, j->in, j->own_in, err));
    TG_TRY(check_array("OUT", &j->facts.out, j->out, j->own_out, err));
    return j->facts.policy == TG_POLICY_MASK ? open_planned_mask(j, err) : TG_OK;
}

/* The folder that the plan was made for. j->finished: it is gone, or only waste. */
static tg_status open_begun(job *j, tg_error *err)
{
    TG_TRY(look_at_out(j, err));
    tg_status st = tg_folder_open(&j->folder, j->facts.out.url, j->out_path, false, err);
    j->has_folder = st == TG_OK;
    if (st != TG_OK && st != TG_NOT_FOUND)
        return st;
    if (j->has_folder)
        look_at_mark(j);
    if (!j->finished && !j->ours) /* by another, between the two looks? */
        TG_TRY(look_at_out(j, err));
    return j->finished || j->ours
               ? TG_OK
               : tg_fail(err, TG_INVALID,
                         "OUT holds nothing of this plan: it was given up; plan again");
}

static tg_status check_no_undo(const job *j, tg_error *err)
{
    return tg_folder_exists(&j->folder, "undoing")
               ? tg_fail(err, TG_INVALID,
                         "an undo is at work, or was stopped half way: run "
                         "`undo` again, then plan again")
               : TG_OK;
}

/* A lock, or the news that all is finished: the folder may be gone by now, and who tidies takes
 * the locks of the dead. */
static tg_status lock_or_finished(job *j, const char *name, tg_error *err)
{
    tg_status st = tg_apply_lock(j, name, err);

    if (st == TG_OK)
        return check_no_undo(j, err);
    TG_TRY(look_at_out(j, NULL));
    return j->finished ? TG_OK : st;
}

/* --- The merge
 * --------------------------------------------------------------------------------- */

static tg_status run_merge(job *j, tg_error *err)
{
    tg_commit_past past = {0};

    TG_TRY(tg_commit_replay(&j->folder, j->plan, 0, true, NULL, NULL, &past, err));
    const bool ended = past.ended;
    tg_commit_past_destroy(&past);
    if (!ended)
        TG_TRY(tg_apply_run_plan(j, 0, true, err));
    TG_TRY(tg_commit_check_published(&j->folder, j->plan, j->out, err));
    tg_crash_point();
    TG_TRY(tg_apply_write_attributes(j, err));
    j->report->merged = true;
    j->finished = true;
    return TG_OK;
}

/* All parts are done, or even all is finished but for the tidying. */
static tg_status merge(job *j, tg_error *err)
{
    TG_TRY(lock_or_finished(j, "lock-merge", err));
    if (j->n_locks == 0)
        return TG_OK;
    TG_TRY(look_at_out(j, err));
    look_at_mark(j); /* whoever plans the next run has this lock, too */
    if (!j->finished && !j->ours)
        return tg_fail(err, TG_INVALID, "OUT holds nothing of this plan any more");
    if (!j->finished)
        TG_TRY(run_merge(j, err));
    return j->ours ? tg_apply_tidy(j, err) : TG_OK;
}

/* --- One part
 * ---------------------------------------------------------------------------------- */

static tg_status is_done(const job *j, uint32_t part, bool *done, tg_error *err)
{
    uint64_t length = 0;

    TG_TRY(tg_border_is_done(&j->folder, part, &length, err));
    *done = length > 0;
    return TG_OK;
}

static tg_status lock_part(job *j, uint32_t part, tg_error *err)
{
    char name[32];

    (void)snprintf(name, sizeof name, "lock-%" PRIu32, part);
    return lock_or_finished(j, name, err);
}

/* The next part that is neither done nor a live process's: its lock is the claim. None, with
 * all done: *part is the number of parts. */
static tg_status claim_part(job *j, uint32_t *part, tg_error *err)
{
    bool busy = false, done = false;

    for (*part = 0; *part < j->facts.parts; ++*part) {
        TG_TRY(is_done(j, *part, &done, err));
        if (done)
            continue;
        tg_status st = lock_part(j, *part, err);
        if (st == TG_BUSY) {
            busy = true;
            continue;
        }
        TG_TRY(st);
        if (j->finished)
            return TG_OK;
        TG_TRY(is_done(j, *part, &done, err)); /* between the look and the lock? */
        if (!done)
            return TG_OK;
        tg_apply_unlock(j);
    }
    return busy ? tg_fail(err, TG_BUSY, "each part that is not done is a live process's")
                : TG_OK;
}

/* The part that `text` names, with its lock, which is the caller's to give back. */
static tg_status take_part(job *j, const char *text, uint32_t *part, tg_error *err)
{
    if (strcmp(text, "auto") == 0 && !tg_part_in_environment())
        return claim_part(j, part, err);
    TG_TRY(tg_part_parse(text, j->facts.parts, part, err));
    return lock_part(j, *part, err);
}

static tg_status run_part(job *j, const char *text, tg_error *err)
{
    uint32_t part = 0;
    bool done = true;

    tg_status st = take_part(j, text, &part, err);
    j->report->part = part;
    TG_TRY(st);
    if (!j->finished && part < j->facts.parts)
        TG_TRY(is_done(j, part, &done, err));
    if (!done) /* or it was tidied away meanwhile */
        TG_TRY(look_at_out(j, err));
    j->report->was_done = done || j->finished;
    if (!j->report->was_done)
        TG_TRY(tg_apply_run_plan(j, part, false, err));
    tg_apply_unlock(j);
    return TG_OK;
}

static tg_status find_missing(job *j, tg_error *err)
{
    tg_apply_report *r = j->report;
    bool done;

    r->n_missing = 0;
    for (uint32_t i = 0; i < j->facts.parts; i++) {
        TG_TRY(is_done(j, i, &done, err));
        if (done)
            continue;
        if (r->n_missing < TG_APPLY_MISSING)
            r->missing[r->n_missing] = i;
        r->n_missing++;
    }
    if (r->n_missing == 0)
        return TG_OK;
    TG_TRY(look_at_out(j, err)); /* or they were tidied away meanwhile */
    if (j->finished)
        r->n_missing = 0;
    return TG_OK;
}

/* --- Both
 * -------------------------------------------------------------------------------------- */

static tg_status run_and_merge(job *j, const char *text, tg_error *err)
{
    const bool alone = text == NULL; /* only the merge */
    uint32_t part;

    if (!alone && strcmp(text, "auto") != 0) /* wrong, also where all is finished */
        TG_TRY(tg_part_parse(text, j->facts.parts, &part, err));
    j->report->was_done = j->finished;
    if (!alone && !j->finished)
        TG_TRY(run_part(j, text, err));
    if (!j->finished)
        TG_TRY(find_missing(j, err));
    if (j->report->n_missing > 0)
        return !alone ? TG_OK
                      : tg_fail(err, TG_INCOMPLETE,
                                "%" PRIu64 " of %" PRIu32
                                " parts are not done, the first: %" PRIu32,
                                j->report->n_missing, j->facts.parts, j->report->missing[0]);
    if (j->finished && !j->ours)
        return TG_OK;
    tg_status st = merge(j, err);
    return st == TG_BUSY && (!alone || j->finished) ? TG_OK : st;
}

/* Who goes last removes the folder: the one that merged could not while others had locks in it,
 * or was killed when nothing else was left. */
static void leave(job *j)
{
    while (j->n_locks > 0)
        tg_apply_unlock(j);
    if (!j->finished || !j->has_folder || tg_folder_has(&j->folder, "in-parts") ||
        tg_folder_has(&j->folder, "journal-"))
        return;
    (void)!tg_folder_check_idle(&j->folder, "", NULL);
    (void)!tg_folder_remove(&j->folder, NULL); /* if it is empty */
}

tg_status tg_apply_run(tg_runtime *rt, const char *path, const char *part,
                       const tg_apply_options *options, tg_apply_report *report,
                       const tg_cancel *cancel, tg_error *err)
{
    const int64_t began = tg_clock_ns();

    TG_TRY(check_sizes(options->size, report->size, err));
    *report = (tg_apply_report){.size = sizeof *report};
    TG_AUTO(job)
    j = {.rt = rt, .report = report, .cancel = cancel, .folder = {.dir = -1}};
    j.options = *options;
    j.o = &j.options;
    tg_status st = open_planned(&j, path, err);
    report->part = report->parts;
    if (st == TG_OK)
        st = open_begun(&j, err);
    if (st == TG_OK)
        st = run_and_merge(&j, part, err);
    leave(&j);
    report->seconds = (double)(tg_clock_ns() - began) * 1e-9;
    return st;
}

tg_status tg_apply_status(tg_runtime *rt, const char *path, tg_apply_report *report,
                          tg_error *err)
{
    TG_TRY(check_sizes(sizeof(tg_apply_options), report->size, err));
    *report = (tg_apply_report){.size = sizeof *report};
    TG_AUTO(job)
    j = {.rt = rt, .report = report, .folder = {.dir = -1}};
    j.options.size = sizeof j.options;
    j.o = &j.options;
    TG_TRY(open_planned(&j, path, err));
    TG_TRY(open_begun(&j, err));
    if (!j.finished)
        TG_TRY(find_missing(&j, err));
    report->was_done = j.finished;
    return TG_OK;
}
