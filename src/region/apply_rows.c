/* A run of a function that makes rows of a table and no OUT. Its folder lies beside the table;
 * the file of rows is its journal. */
#include "base/clock.h"
#include "region/apply_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static tg_status open_table(job *j, tg_error *err)
{
    const tg_apply_options *o = j->o;
    tg_row_target *t = &j->target;
    char tables[1200];

    TG_TRY(tg_row_target_parse(t, o->table, o->table_backend, err));
    t->store = o->in_store;
    t->format = j->in->meta->info.format;
    (void)snprintf(t->image, sizeof t->image, "%s", j->level.image);
    if (t->file[0] != '\0') {
        TG_TRY(tg_folder_open(&j->folder, t->file, "", true, err));
    } else {
        if (tg_store_dir(o->in_store) < 0)
            return tg_fail(err, TG_UNSUPPORTED, "%s: tables are written into directories only",
                           tg_store_describe(o->in_store));
        TG_TRY(tg_path_join(tables, sizeof tables, t->image, "tables", err));
        TG_TRY(tg_path_join(j->out_path, sizeof j->out_path, tables, t->name, err));
        TG_TRY(tg_folder_open(&j->folder, tg_store_path(o->in_store), j->out_path, true, err));
    }
    j->has_folder = true;
    return tg_apply_lock(j, "lock-0", err);
}

/* Each pixel counts once in a label's row; rows of regions may share pixels. */
static tg_status check_row_policy(const job *j, tg_error *err)
{
    const char *policy = j->o->policy;

    if (j->o->base != NULL && strcmp(j->o->base, "input") == 0)
        return tg_fail(err, TG_INVALID, "--base input: there is no OUT");
    if (j->fn->facts.rows != TG_ROWS_OF_LABELS || policy == NULL ||
        strcmp(policy, "error") == 0)
        return TG_OK;
    return tg_fail(err, TG_INVALID,
                   "policy '%.40s': rows that are merged over regions need regions that do not "
                   "overlap (policy error), or per=region",
                   policy);
}

static tg_status check_row_memory(const job *j, tg_error *err)
{
    const tg_budget *budget = tg_runtime_budget(j->rt);
    const uint64_t need = tg_row_table_bytes(j->fn) + (j->n + 1) * sizeof(uint32_t);
    const uint64_t have = tg_budget_total(budget) - tg_budget_used(budget);

    return need <= have ? TG_OK
                        : tg_fail(err, TG_OVER_BUDGET,
                                  "the table takes %" PRIu64 " bytes at least, --memory leaves "
                                  "%" PRIu64,
                                  need, have);
}

static tg_status look_back_rows(job *j, tg_row_past *past, tg_error *err)
{
    bool exists = false;

    TG_TRY(tg_row_look(&j->folder, j->plan, past, err));
    j->report->resumed = past->begun && !past->other;
    if (past->other) {
        TG_TRY(tg_apply_tidy(j, err));
        return TG_INCOMPLETE;
    }
    if (past->begun || j->o->table_overwrite)
        return TG_OK;
    TG_TRY(tg_row_target_exists(&j->target, &exists, j->cancel, err));
    return exists ? tg_fail(err, TG_EXISTS, "'%.200s' is there (--overwrite replaces it)",
                            j->o->table)
                  : TG_OK;
}

static tg_status call_for_rows(job *j, tg_row_past *past, tg_error *err)
{
    const bool all = past->all;
    tg_budget *budget = tg_runtime_budget(j->rt);

    if (!all) {
        TG_TRY(tg_row_log_open(&j->rows, &j->folder, j->plan, j->fn->facts.n_values,
                               j->facts.commit_ms, past, err));
        TG_TRY(tg_apply_run_plan(j, 0, false, err));
        tg_row_log_free(tg_steal(j->rows));
    }
    TG_TRY(tg_row_table_write(&j->target, &j->folder, j->plan, j->fn, budget,
                              &j->report->table_rows, j->cancel, err));
    tg_crash_point();
    return tg_row_log_end(&j->folder, err);
}

tg_status tg_apply_rows(job *j, int64_t began, tg_error *err)
{
    TG_AUTO(tg_row_past) past = {0};

    TG_TRY(open_table(j, err));
    TG_TRY(tg_apply_read_list(j, err));
    TG_TRY(check_row_policy(j, err));
    TG_TRY(tg_apply_set_facts(j, err));
    if (j->fn->facts.rows != TG_ROWS_OF_LABELS)
        j->facts.policy = TG_POLICY_LAST; /* nothing is written: regions may overlap */
    TG_TRY(tg_apply_make_plan(j, err));
    TG_TRY(check_row_memory(j, err));
    j->report->plan_seconds = (double)(tg_clock_ns() - began) * 1e-9;
    TG_TRY(look_back_rows(j, &past, err));
    j->report->was_done = past.ended;
    j->begun = true;
    if (!past.ended)
        TG_TRY(call_for_rows(j, &past, err));
    return tg_apply_tidy(j, err);
}
