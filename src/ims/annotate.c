/* ims/annotate.c - the stages of an annotation one after the other, and what survives between
 * runs: a journal a part, in a folder beside the results. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include "base/clock.h"
#include "base/sys.h"
#include "ims/write_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define JOURNAL_ROOM ((size_t)256 << 10)
#define LOCK_NAME    "merge.lock"

typedef struct stage {
    tg_job *j;
    tg_annotate_result *result;
    tg_store *out;
    tg_fd side; /* the folder beside the results */
    const tg_cancel *cancel;
} stage;

/* --- Folders ---------------------------------------------------------------------------- */

static tg_status open_side(stage *s, tg_error *err)
{
    const char *path = s->j->side_dir;
    if (tg_sys_mkdir(AT_FDCWD, path, 0777) != 0 && errno != EEXIST)
        return tg_fail_errno(err, "make '%s'", path);
    s->side = tg_sys_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (s->side < 0)
        return tg_fail_errno(err, "open '%s'", path);
    return TG_OK;
}

static bool exists(const stage *s, const char *name)
{
    struct stat st;
    return tg_sys_stat(s->side, name, &st, 0) == 0;
}

static tg_status remove_name(const stage *s, const char *name, tg_error *err)
{
    if (tg_sys_unlink(s->side, name, 0) != 0 && errno != ENOENT)
        return tg_fail_errno(err, "remove '%s/%s'", s->j->side_dir, name);
    return TG_OK;
}

static tg_status remove_journals(const stage *s, tg_error *err)
{
    for (uint32_t i = 0; i < s->j->o.n_parts; i++) {
        char name[TG_PART_NAME_BYTES];
        tg_part_name(name, i, s->j->o.n_parts);
        TG_TRY(remove_name(s, name, err));
    }
    return remove_name(s, LOCK_NAME, err);
}

/* --- The results' own store ----------------------------------------------------------------
 */

static tg_status open_out(stage *s, tg_error *err)
{
    /* results are synced together, and the manifest behind them */
    tg_store_options options = {
        .size = sizeof options, .mode = TG_STORE_OPEN_OR_CREATE, .no_sync = true};
    uint64_t size;

    TG_TRY(tg_store_open_fs(&s->out, s->j->o.out, &options, err));
    tg_status st = tg_store_size(s->out, "manifest.json", &size, s->cancel, err);
    if (st == TG_NOT_FOUND)
        return TG_OK;
    TG_TRY(st);
    if (s->j->o.overwrite)
        return tg_store_remove(s->out, "manifest.json", s->cancel, err);
    return tg_fail(err, TG_EXISTS, "'%s' holds an annotation", s->j->o.out);
}

typedef struct removal {
    tg_store *store;
    char name[4096];
    bool found;
} removal;

static bool take_first(void *user, const char *name)
{
    removal *r = user;
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    r->found = true;
    return false;
}

/* Everything below a prefix that ends in '/': results of an earlier annotation. */
static tg_status remove_below(tg_store *store, const char *prefix, const tg_cancel *cancel,
                              tg_error *err)
{
    for (;;) {
        removal r = {.store = store};
        TG_TRY(tg_store_list(store, prefix, take_first, &r, cancel, err));
        if (!r.found)
            return TG_OK;
        size_t n = strlen(r.name);
        TG_TRY(r.name[n - 1] == '/' ? remove_below(store, r.name, cancel, err)
                                    : tg_store_remove(store, r.name, cancel, err));
    }
}

static tg_status remove_old_results(stage *s, tg_error *err)
{
    static const char *const files[] = {"annotations.csv", "annotations.partial.csv",
                                        "fdr_curve.csv", "scores.csv", "tic.png"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        tg_status st = tg_store_remove(s->out, files[i], s->cancel, err);
        if (st != TG_OK && st != TG_NOT_FOUND)
            return st;
    }
    TG_TRY(remove_below(s->out, "images/", s->cancel, err));
    return remove_below(s->out, "ion_images.zarr/", s->cancel, err);
}

/* --- Scoring
 * ----------------------------------------------------------------------------------- */

static tg_status begin_journal(stage *s, const char *name, tg_journal **out, tg_error *err)
{
    tg_bytes digest = {(const uint8_t *)s->j->digest, strlen(s->j->digest)};
    tg_bytes none = {digest.data, 0};
    TG_AUTO_PTR(tg_journal) journal = NULL;

    TG_TRY(tg_journal_create(&journal, s->side, name, TG_ANNOTATE_JOURNAL_KIND,
                             TG_ANNOTATE_JOURNAL_MAJOR, 0, JOURNAL_ROOM, err));
    TG_TRY(tg_journal_add(journal, TG_RECORD_DIGEST, digest, none, none, err));
    TG_TRY(tg_journal_sync(journal, err));
    *out = tg_steal(journal);
    return TG_OK;
}

/* The part's journal: a new one, or that of the run which is taken up again. */
static tg_status open_journal(stage *s, tg_journal **out, tg_error *err)
{
    const tg_annotate_options *o = &s->j->o;
    char name[TG_PART_NAME_BYTES];

    tg_part_name(name, o->part, o->n_parts);
    bool there = exists(s, name);
    if (there && o->overwrite && !o->resume) {
        TG_TRY(remove_name(s, name, err));
        there = false;
    }
    if (!there)
        return begin_journal(s, name, out, err);
    if (!o->resume)
        return tg_fail(err, TG_EXISTS,
                       "'%s/%s': an annotation was begun; resume it, or replace it",
                       s->j->side_dir, name);
    return tg_journal_open(out, s->side, name, TG_ANNOTATE_JOURNAL_KIND,
                           TG_ANNOTATE_JOURNAL_MAJOR, JOURNAL_ROOM, err);
}

static tg_status cut_parts(const tg_job *j, uint32_t *first, uint32_t *end, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) owner = tg_alloc_array((size_t)j->o.n_parts + 1, sizeof(uint64_t));
    uint64_t *cut = owner;
    if (cut == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %u parts", j->o.n_parts);
    TG_TRY(tg_units_cut(j->plan->weights, j->plan->n_units, j->o.n_parts, cut, err));
    *first = (uint32_t)cut[j->o.part];
    *end = (uint32_t)cut[j->o.part + 1];
    return TG_OK;
}

static tg_status score(stage *s, tg_error *err)
{
    tg_job *j = s->j;
    int64_t start = tg_clock_ns();
    TG_AUTO_PTR(tg_journal) journal = NULL;
    TG_AUTO_PTR(tg_results) before = NULL;
    tg_sweep_options options = {.imager = j->imager,
                                .deadline_ns = j->deadline_ns,
                                .progress = tg_job_relay,
                                .progress_user = j};

    TG_TRY(open_journal(s, &journal, err));
    TG_TRY(tg_results_read(&before, s->side, j->o.n_parts, j->plan->n_units, j->digest,
                           j->budget, err));
    TG_TRY(cut_parts(j, &options.first_unit, &options.end_unit, err));
    options.unit_done = before->unit_done;
    TG_TRY(tg_sweep_run(j->space, j->peaks, j->plan, &options, j->rt, journal, &s->result->late,
                        s->cancel, err));
    if (!s->result->late) {
        tg_bytes none = {(const uint8_t *)"", 0};
        TG_TRY(tg_journal_add(journal, TG_RECORD_END, none, none, none, err));
    }
    TG_TRY(tg_journal_sync(journal, err));
    s->result->score_seconds = tg_job_seconds(start);
    return tg_journal_close(journal, err); /* freed at the end of the scope */
}

/* --- Putting together
 * ------------------------------------------------------------------------------ */

/* Of the parts that end at the same time one merges. Whoever died while it did is forgotten by
 * `merge` and `resume`. */
static tg_status win_merge(const stage *s, bool *won, tg_error *err)
{
    const tg_annotate_options *o = &s->j->o;
    *won = true;
    if (o->n_parts == 1)
        return TG_OK;
    if (o->merge || o->resume)
        TG_TRY(remove_name(s, LOCK_NAME, err));
    tg_fd fd = tg_sys_open(s->side, LOCK_NAME, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0 && errno != EEXIST)
        return tg_fail_errno(err, "make '%s/%s'", s->j->side_dir, LOCK_NAME);
    *won = fd >= 0;
    tg_fd_auto(&fd);
    return TG_OK;
}

static void fill_result(stage *s, const tg_results *results, const tg_ranking *ranking)
{
    tg_annotate_result *r = s->result;
    r->ions = results->n_ions;
    r->fraction_done = results->n_units == 0 ? 1 : (double)results->n_done / results->n_units;
    r->n_databases = (uint32_t)s->j->n_dbs;
    memcpy(r->annotated, ranking->below, sizeof r->annotated);
    for (size_t d = 0; d < s->j->n_dbs; d++) {
        memcpy(r->database_annotated[d], ranking->db_below[d], sizeof r->database_annotated[d]);
        (void)snprintf(r->database_name[d], sizeof r->database_name[d], "%s",
                       s->j->dbs[d]->name);
    }
}

static tg_status write_whole(stage *s, const tg_results *results, const tg_ranking *ranking,
                             tg_error *err)
{
    tg_job *j = s->j;
    int64_t start = tg_clock_ns();

    TG_TRY(remove_old_results(s, err));
    TG_TRY(tg_write_tables(j, results, ranking, s->out, true, &s->result->rows, err));
    if (j->o.scores)
        TG_TRY(tg_write_scores(j, results, s->out, err));
    if (j->o.images != TG_IMAGES_NONE)
        TG_TRY(tg_write_images(j, ranking, s->out, &s->result->images, s->cancel, err));
    s->result->image_seconds = tg_job_seconds(start);
    TG_TRY(tg_store_sync(s->out, s->cancel, err));
    TG_TRY(tg_write_manifest(j, results, ranking, s->result->rows, s->result->images, s->out,
                             err));
    return tg_store_sync(s->out, s->cancel, err);
}

static tg_status finish(stage *s, tg_error *err)
{
    tg_job *j = s->j;
    bool won;
    int64_t start = tg_clock_ns();
    TG_AUTO_PTR(tg_results) results = NULL;
    TG_AUTO_PTR(tg_ranking) ranking = NULL;

    TG_TRY(tg_results_read(&results, s->side, j->o.n_parts, j->plan->n_units, j->digest,
                           j->budget, err));
    bool whole = results->n_done == results->n_units;
    s->result->fraction_done = (double)results->n_done / results->n_units;
    s->result->ions = results->n_ions;
    if (!whole && !s->result->late && !j->o.merge)
        return TG_OK; /* other parts are not done */
    if (!whole && j->o.merge)
        return tg_fail(err, TG_BUSY, "%u of %u units are done: not all parts have ended",
                       results->n_done, results->n_units);
    TG_TRY(tg_rank(&ranking, j->space, j->plan, results, j->budget, s->cancel, err));
    fill_result(s, results, ranking);
    s->result->rank_seconds = tg_job_seconds(start);
    if (!whole)
        return tg_write_tables(j, results, ranking, s->out, false, &s->result->rows, err);
    TG_TRY(win_merge(s, &won, err));
    if (!won)
        return TG_OK;
    TG_TRY(write_whole(s, results, ranking, err));
    s->result->whole = true;
    return TG_OK;
}

/* The folder goes with what is in it; it stays where it holds what is not ours, or sorted
 * peaks that found no other place. */
static tg_status clean_up(stage *s, tg_error *err)
{
    TG_TRY(remove_journals(s, err));
    (void)tg_sys_unlink(AT_FDCWD, s->j->side_dir, AT_REMOVEDIR);
    return TG_OK;
}

/* --- All stages
 * -------------------------------------------------------------------------------------- */

static void count_reading(stage *s)
{
    tg_job *j = s->j;
    tg_annotate_result *r = s->result;
    const tg_peaks_info *info = tg_peaks_get_info(j->peaks);
    tg_peaks_counts c = tg_peaks_counted(j->peaks);

    r->spectra = info->n_spectra;
    r->pixels = info->n_pixels;
    r->peaks = info->n_peaks;
    r->cut_data = info->truncated;
    r->segments = c.loads;
    r->requests = j->built.requests + c.requests;
    r->spilled_bytes = j->built.spilled_bytes;
    r->sorted_before = j->sorted_before;
    r->sort_seconds = j->sort_seconds;
}

static tg_status run_stages(stage *s, tg_error *err)
{
    tg_job *j = s->j;

    TG_TRY(open_out(s, err));
    TG_TRY(open_side(s, err));
    tg_status st = tg_job_peaks(j, err);
    if (st == TG_TIMED_OUT) {
        s->result->late = true;
        return TG_OK;
    }
    TG_TRY(st);
    for (size_t d = 0; d < j->n_dbs; d++)
        s->result->formulas += j->dbs[d]->n_formulas;
    TG_TRY(tg_job_ions(j, err));
    if (!j->o.merge)
        TG_TRY(score(s, err));
    TG_TRY(finish(s, err));
    count_reading(s);
    return s->result->whole ? clean_up(s, err) : TG_OK;
}

tg_status tg_annotate(tg_runtime *rt, const tg_annotate_options *options,
                      tg_annotate_result *result, const tg_cancel *cancel, tg_error *err)
{
    int64_t start = tg_clock_ns();
    TG_AUTO_PTR(tg_job) j = NULL;
    stage s = {.result = result, .side = -1, .cancel = cancel};

    if (result->size != sizeof *result)
        return tg_fail(err, TG_INVALID, "result of %zu bytes, want %zu", result->size,
                       sizeof *result);
    *result = (tg_annotate_result){.size = sizeof *result};
    TG_TRY(tg_job_new(&j, rt, options, cancel, err));
    s.j = j;
    tg_status st = run_stages(&s, err);
    result->seconds = tg_job_seconds(start);
    tg_fd_auto(&s.side);
    tg_store_free(s.out);
    return st;
}
