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

#define JOURNAL_ROOM  ((size_t)256 << 10)
#define MOST_MANIFEST ((size_t)64 << 20)

typedef struct stage {
    tg_job *j;
    tg_annotate_result *result;
    tg_store *out;
    tg_ims_side side;
    tg_fd part_lock, merge_lock;
    uint64_t kept_bytes; /* of images, on the disk */
    bool was_whole;      /* a manifest lies in `out`, and `resume` asks for no more than that */
    const tg_cancel *cancel;
} stage;

/* --- Folders ---------------------------------------------------------------------------- */

static tg_status remove_journals(const stage *s, tg_error *err)
{
    static const char *const endings[] = {".journal", ".lock"};
    for (uint32_t i = 0; i < s->j->o.n_parts; i++)
        for (int k = 0; k < 2; k++) {
            char name[TG_PART_NAME_BYTES];
            tg_part_name(name, i, s->j->o.n_parts, endings[k]);
            TG_TRY(tg_ims_side_remove(&s->side, name, err));
        }
    TG_TRY(tg_ims_side_remove_all(&s->side, TG_SPILL_NAME, err));
    return tg_ims_side_remove(&s->side, TG_MERGE_LOCK, err);
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
    s->was_whole = s->j->o.resume || s->j->o.merge;
    if (s->was_whole)
        return TG_OK;
    if (s->j->o.overwrite)
        return tg_store_remove(s->out, "manifest.json", s->cancel, err);
    return tg_fail(err, TG_EXISTS, "'%s' holds an annotation", s->j->o.out);
}

const char *const tg_output_names[] = {"annotations.csv",  "fdr_curve.csv",   "scores.csv",
                                       "tic.png",          "zarr.json",       "images/",
                                       "ion_images.zarr/", TG_ANNDATA_FOLDER, NULL};

/* Results go to a local folder, so folders in it can go whole. */
static tg_status remove_old_results(stage *s, tg_error *err)
{
    tg_ims_side out = {-1, s->j->o.out};
    TG_TRY(tg_ims_side_open(&out, s->j->o.out, err));
    tg_status st = tg_ims_side_remove_dead(&out, err);
    if (st == TG_OK)
        st = tg_ims_side_remove_all(&out, "annotations.partial.csv", err);
    for (size_t i = 0; tg_output_names[i] != NULL && st == TG_OK; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(tg_output_names[i], "/"),
                       tg_output_names[i]);
        st = tg_ims_side_remove_all(&out, name, err);
    }
    tg_ims_side_close(&out);
    return st;
}

/* --- Scoring
 * ----------------------------------------------------------------------------------- */

static tg_status begin_journal(stage *s, const char *name, tg_journal **out, tg_error *err)
{
    tg_bytes digest = {(const uint8_t *)s->j->digest, strlen(s->j->digest)};
    tg_bytes none = {digest.data, 0};
    TG_AUTO_PTR(tg_journal) journal = NULL;

    TG_TRY(tg_journal_create(&journal, s->side.dir, name, TG_ANNOTATE_JOURNAL_KIND,
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

    tg_part_name(name, o->part, o->n_parts, ".journal");
    bool there = tg_ims_side_has(&s->side, name);
    if (there && o->overwrite && !o->resume) {
        TG_TRY(tg_ims_side_remove(&s->side, name, err));
        there = false;
    }
    if (!there)
        return begin_journal(s, name, out, err);
    if (!o->resume)
        return tg_fail(err, TG_EXISTS,
                       "'%s/%s': an annotation was begun; resume it, or replace it",
                       s->j->side_dir, name);
    return tg_journal_open(out, s->side.dir, name, TG_ANNOTATE_JOURNAL_KIND,
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

static tg_status fits(const tg_job *j, tg_error *err)
{
    tg_sweep_memory m;
    return tg_sweep_plan(&m, j->peaks, j->plan, false,
                         tg_budget_total(j->budget) - tg_budget_used(j->budget),
                         tg_pool_width(tg_runtime_pool(j->rt)), err);
}

static tg_status make_keeper(stage *s, tg_keeper **out, tg_error *err)
{
    tg_job *j = s->j;
    const uint64_t room =
        tg_job_kept_room(j, tg_budget_total(j->budget) - tg_budget_used(j->budget));

    if (room > 0)
        return tg_keeper_new(out, &s->side, j->scores_crc32c,
                             tg_peaks_get_info(j->peaks)->n_pixels, room, j->budget, err);
    if (tg_job_keeps_images(j))
        tg_runtime_log(j->rt,
                       "no memory to keep images while ions are scored: they are extracted "
                       "again");
    return TG_OK;
}

static tg_status score(stage *s, tg_error *err)
{
    tg_job *j = s->j;
    int64_t start = tg_clock_ns();
    TG_AUTO_PTR(tg_journal) journal = NULL;
    TG_AUTO_PTR(tg_keeper) keeper = NULL;
    TG_AUTO_PTR(tg_results) before = NULL;
    tg_sweep_options options = {.imager = j->imager,
                                .deadline_ns = j->deadline_ns,
                                .progress = tg_job_relay,
                                .progress_user = j};

    TG_TRY(fits(j, err)); /* nothing is begun that cannot be done */
    TG_TRY(open_journal(s, &journal, err));
    TG_TRY(tg_results_read(&before, s->side.dir, j->o.n_parts, j->plan->n_units, j->digest,
                           j->budget, err));
    TG_TRY(cut_parts(j, &options.first_unit, &options.end_unit, err));
    options.unit_done = before->unit_done;
    TG_TRY(make_keeper(s, &keeper, err));
    options.keeper = keeper;
    TG_TRY(tg_sweep_run(j->space, j->peaks, j->plan, &options, j->rt, journal, &s->result->late,
                        s->cancel, err));
    if (keeper != NULL) {
        TG_TRY(tg_keeper_flush(keeper, err));
        s->kept_bytes = tg_keeper_spilled(keeper);
    }
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

/* Of the parts that end at the same time one merges; who is late finds it at work, or all done
 * and the folder gone. A lock of a process that died is free. */
static tg_status win_merge(stage *s, bool *won, tg_error *err)
{
    uint64_t size;
    tg_error why = {0};

    *won = true;
    if (s->j->o.n_parts == 1)
        return TG_OK;
    tg_status st = tg_ims_side_lock(&s->side, TG_MERGE_LOCK, &s->merge_lock, &why);
    *won = st == TG_OK && (s->j->o.overwrite || tg_store_size(s->out, "manifest.json", &size,
                                                              s->cancel, NULL) != TG_OK);
    if (st == TG_OK || st == TG_BUSY || st == TG_NOT_FOUND)
        return TG_OK;
    if (err != NULL)
        *err = why;
    return st;
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

static tg_status write_images(stage *s, const tg_results *results, const tg_ranking *ranking,
                              tg_error *err)
{
    tg_job *j = s->j;
    TG_AUTO_PTR(tg_kept) kept = NULL;
    tg_error why = {0};

    if (tg_job_keeps_images(j) &&
        tg_kept_open(&kept, &s->side, j->scores_crc32c, tg_peaks_get_info(j->peaks)->n_pixels,
                     j->budget, &why) != TG_OK)
        tg_runtime_log(j->rt, "kept images are not used: %s", why.msg);
    return tg_write_images(j, results, ranking, kept, s->out, &s->result->images,
                           &s->result->images_kept, s->cancel, err);
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
        TG_TRY(write_images(s, results, ranking, err));
    s->result->image_seconds = tg_job_seconds(start);
    s->result->image_memory = tg_budget_stage_peak(j->budget);
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

    TG_TRY(tg_results_read(&results, s->side.dir, j->o.n_parts, j->plan->n_units, j->digest,
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
    s->result->rank_memory = tg_budget_stage_peak(j->budget);
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
    r->spilled_bytes = j->built.spilled_bytes + s->kept_bytes;
    r->sorted_before = j->sorted_before;
    r->sort_seconds = j->sort_seconds;
}

/* `resume` of what is done: a task of an array that is given out again, say. */
static tg_status say_what_is_there(stage *s, tg_error *err)
{
    TG_AUTO(tg_buf) text = {0};
    TG_TRY(tg_store_get(s->out, "manifest.json", tg_range_all(), MOST_MANIFEST, &text,
                        s->cancel, err));
    TG_TRY(tg_read_manifest(s->j, (const char *)text.data, text.len, s->result, err));
    count_reading(s);
    s->result->whole = true;
    s->result->fraction_done = 1;
    (void)tg_sys_unlink(AT_FDCWD, s->j->side_dir, AT_REMOVEDIR);
    return TG_OK;
}

/* The deadline came while the peaks were sorted: nothing has a score. */
static tg_status late_before_scores(stage *s, tg_error *err)
{
    s->result->late = true;
    return tg_store_put(s->out, "annotations.partial.csv", TG_ANNOTATION_COLUMNS,
                        strlen(TG_ANNOTATION_COLUMNS), s->cancel, err);
}

/* With a whole annotation in `out` there is nothing to go on with, nor to merge. */
static tg_status count_parts(stage *s, tg_error *err)
{
    s->j->o.n_parts = 1;
    return s->was_whole ? TG_OK : tg_ims_side_count_parts(&s->side, &s->j->o.n_parts, err);
}

/* From before the first byte is written, so that others see that a run is at work. */
static tg_status lock_part(stage *s, tg_error *err)
{
    char name[TG_PART_NAME_BYTES];
    tg_part_name(name, s->j->o.part, s->j->o.n_parts, ".lock");
    return tg_ims_side_lock(&s->side, name, &s->part_lock, err);
}

static tg_status run_stages(stage *s, tg_error *err)
{
    tg_job *j = s->j;

    TG_TRY(open_out(s, err));
    TG_TRY(tg_ims_side_open(&s->side, j->side_dir, err));
    if (j->o.merge && j->o.n_parts == 0)
        TG_TRY(count_parts(s, err));
    if (!j->o.merge && !s->was_whole)
        TG_TRY(lock_part(s, err));
    (void)tg_budget_stage_peak(j->budget);
    tg_status st = tg_job_peaks(j, err);
    s->result->sort_memory = tg_budget_stage_peak(j->budget);
    if (st == TG_TIMED_OUT)
        return late_before_scores(s, err);
    TG_TRY(st);
    for (size_t d = 0; d < j->n_dbs; d++)
        s->result->formulas += j->dbs[d]->n_formulas;
    TG_TRY(tg_job_ions(j, err));
    if (s->was_whole)
        return say_what_is_there(s, err);
    if (!j->o.merge)
        TG_TRY(score(s, err));
    s->result->score_memory = tg_budget_stage_peak(j->budget);
    TG_TRY(finish(s, err));
    count_reading(s);
    return s->result->whole ? clean_up(s, err) : TG_OK;
}

tg_status tg_job_run(tg_job *j, tg_annotate_result *result, const tg_cancel *cancel,
                     tg_error *err)
{
    stage s = {.j = j,
               .result = result,
               .side = {.dir = -1},
               .part_lock = -1,
               .merge_lock = -1,
               .cancel = cancel};
    tg_status st = run_stages(&s, err);

    tg_fd_auto(&s.part_lock);
    tg_fd_auto(&s.merge_lock);
    tg_ims_side_close(&s.side);
    tg_store_free(s.out);
    return st;
}

tg_status tg_annotate(tg_runtime *rt, const tg_annotate_options *options,
                      tg_annotate_result *result, const tg_cancel *cancel, tg_error *err)
{
    int64_t start = tg_clock_ns();
    TG_AUTO_PTR(tg_job) j = NULL;

    if (result->size != sizeof *result)
        return tg_fail(err, TG_INVALID, "result of %zu bytes, want %zu", result->size,
                       sizeof *result);
    *result = (tg_annotate_result){.size = sizeof *result};
    TG_TRY(tg_job_new(&j, rt, options, cancel, err));
    tg_status st = tg_job_run(j, result, cancel, err);
    result->seconds = tg_job_seconds(start);
    return st;
}
