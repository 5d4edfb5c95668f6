/* region/apply_job.h - one call of tg_apply() and its like: what apply.c (one process) and
 * apply_parts.c (several) share. */
#ifndef TG_REGION_APPLY_JOB_H
#define TG_REGION_APPLY_JOB_H

#include "ome/level.h"
#include "region/engine.h"
#include "region/roi_read.h"
#include "region/rois.h"
#include "tidegate/region.h"

typedef struct job {
    tg_runtime *rt;
    const tg_apply_options *o;
    tg_apply_report *report;
    const tg_cancel *cancel;
    tg_ome_level level;
    const char *axes[TG_MAX_NDIM];
    tg_array *in, *made;
    tg_array *out; /* in, made, or NULL */
    char out_path[1024];
    tg_store *out_store;
    tg_function *fn;
    tg_mask *mask; /* policy mask */
    tg_plan *plan;
    tg_folder folder;
    bool has_folder, in_place, out_new;
    bool made_now, begun; /* OUT is of this call; the run has begun */
    tg_roi_set set;
    uint64_t *bounds;
    uint64_t n;          /* of bounds: the list, and what --base input adds */
    uint64_t list_bytes; /* reserved for the list */
    tg_plan_facts facts;
    tg_row_target target; /* of a function that makes rows */
    tg_row_log *rows;
    char lock[2][32]; /* held */
    uint32_t n_locks;
    /* Of a run of a planned job: */
    bool planned;
    tg_store *own_in, *own_out;
    tg_apply_options options;
    tg_dtype dtype;      /* that the function makes */
    uint64_t run;        /* how often OUT was made by this plan's like, this time counted */
    bool finished, ours; /* the plan is; the folder is the plan's */
    char urls[2][4096], text[200]; /* what the plan's facts borrow */
} job;

void tg_apply_close(job *j);
static inline void job_auto(job *j)
{
    tg_apply_close(j);
}

TG_MUST_USE tg_status tg_apply_open_in(job *j, tg_error *err);
TG_MUST_USE tg_status tg_apply_open_function(job *j, tg_error *err);
TG_MUST_USE tg_status tg_apply_read_list(job *j, tg_error *err);
/* IN and the function; if that makes an array, the list, OUT with its folder and lock-0, which
 * is made if need be. */
TG_MUST_USE tg_status tg_apply_open(job *j, tg_error *err);
TG_MUST_USE tg_status tg_apply_set_facts(job *j, tg_error *err);
TG_MUST_USE tg_status tg_apply_describe(tg_plan_array *p, const tg_array *a, const tg_store *s,
                                        const char *path, tg_error *err);
TG_MUST_USE tg_status tg_apply_make_plan(job *j, tg_error *err);
/* One part, or the merge of all; what it did is added to the report. */
TG_MUST_USE tg_status tg_apply_run_plan(job *j, uint32_t part, bool merge, tg_error *err);
/* What made OUT, for who finds it. */
TG_MUST_USE tg_status tg_apply_write_attributes(const job *j, tg_error *err);
/* Nothing of the run is left, but undo/ where it is to be kept; the last that goes is what says
 * that it was one. */
TG_MUST_USE tg_status tg_apply_tidy(job *j, tg_error *err);
/* The rest of a run that makes rows of a table; began: the clock when it did. */
TG_MUST_USE tg_status tg_apply_rows(job *j, int64_t began, tg_error *err);
/* Refused before any work: nothing is left of it. */
void tg_apply_take_back(job *j);

TG_MUST_USE tg_status tg_apply_lock(job *j, const char *name, tg_error *err);
void tg_apply_unlock(job *j); /* the one taken last */

/* The mark of a plan's folder, "DIGEST RUN\n", into room of TG_MARK_BYTES. */
#define TG_MARK_BYTES 48
void tg_apply_mark(const job *j, char *dst);

#endif
