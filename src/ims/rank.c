/* ims/rank.c - walks over the ions again, looks up their scores, and ranks. */
#include "ims/rank.h"

#include "base/csv.h"
#include "base/text.h"
#include "chem/fdr.h"
#include "chem/sort.h"

#include <math.h>
#include <string.h>

const char *tg_target_text(const tg_ion_space *s, uint32_t target)
{
    return s->modifiers[target].text;
}

typedef struct ranker {
    const tg_ion_space *s;
    const tg_unit_plan *plan;
    const tg_results *results;
    tg_ranking *out;
    /* of one database and modifier */
    bool counting, whole;
    uint64_t n_targets, n_decoys;
    tg_annotation *targets;
    tg_decoy_score *decoys;
} ranker;

static tg_status visit(void *user, const tg_ion_step *step, tg_error *err)
{
    ranker *k = user;
    tg_ion ion;
    tg_status st = tg_ion_make(k->s, step->parsed, step->modifier, &ion, err);
    if (st == TG_NOT_FOUND)
        return TG_OK;
    TG_TRY(st);
    const tg_found *f = tg_results_find(k->results, ion.hash);
    if (f == NULL) {
        k->whole = k->whole && k->results->unit_done[tg_unit_of(k->plan, ion.mass)] != 0;
        return TG_OK;
    }
    if (step->set == TG_NO_SET) {
        if (!k->counting)
            k->targets[k->n_targets] =
                (tg_annotation){.formula = step->formula, .found = f, .msm = f->msm};
        k->n_targets++;
    } else {
        if (!k->counting)
            k->decoys[k->n_decoys] = (tg_decoy_score){f->msm, step->set};
        k->n_decoys++;
    }
    return TG_OK;
}

static tg_status walk(ranker *k, size_t db, uint32_t target, bool counting,
                      const tg_cancel *cancel, tg_error *err)
{
    k->counting = counting;
    k->whole = true;
    k->n_targets = k->n_decoys = 0;
    return tg_ions_walk(k->s, db, target, visit, k, cancel, err);
}

/* --- Rates
 * ------------------------------------------------------------------------------------ */

static tg_status rate(ranker *k, double *scores, double *fdr, double *raw, tg_error *err)
{
    const tg_ion_options *o = &k->s->options;
    uint32_t sets = k->s->decoys.sample;

    for (uint64_t i = 0; i < k->n_targets; i++)
        scores[i] = k->targets[i].msm;
    if (o->version == 1)
        TG_TRY(tg_fdr_v1(scores, k->n_targets, k->decoys, k->n_decoys, sets, raw, fdr, err));
    else
        TG_TRY(
            tg_fdr_v3(scores, k->n_targets, k->decoys, k->n_decoys, sets, o->fixed, fdr, err));
    for (uint64_t i = 0; i < k->n_targets; i++) {
        k->targets[i].fdr = fdr[i];
        k->targets[i].fdr_raw = o->version == 1 ? raw[i] : fdr[i];
    }
    return TG_OK;
}

static void count_levels(ranker *k, size_t db)
{
    static const double levels[4] = {0.05, 0.1, 0.2, 0.5};
    for (uint64_t i = 0; i < k->n_targets; i++)
        for (int l = 0; l < 4; l++)
            if (k->targets[i].fdr <= levels[l]) {
                k->out->below[l]++;
                k->out->db_below[db][l]++;
            }
}

static int by_score(const void *a, const void *b)
{
    const tg_annotation *x = a, *y = b;
    if (x->db != y->db)
        return x->db < y->db ? -1 : 1;
    if (x->msm != y->msm)
        return x->msm > y->msm ? -1 : 1;
    if (x->formula != y->formula)
        return x->formula < y->formula ? -1 : 1;
    return x->target < y->target ? -1 : x->target > y->target;
}

static int decoy_by_score(const void *a, const void *b)
{
    const tg_decoy_score *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score;
}

/* A line for each distinct score: what a plot of the FDR over the score needs. */
static void write_curve(ranker *k, size_t db, uint32_t target)
{
    tg_text *t = &k->out->curve;
    uint64_t d = 0;

    tg_heap_sort(k->decoys, k->n_decoys, sizeof *k->decoys, decoy_by_score);
    for (uint64_t i = 0; i < k->n_targets; i++) {
        const tg_annotation *a = &k->targets[i];
        if (i + 1 < k->n_targets && k->targets[i + 1].msm == a->msm)
            continue;
        while (d < k->n_decoys && k->decoys[d].score >= a->msm)
            d++;
        char msm[32], fdr[32];
        tg_format_double(msm, sizeof msm, a->msm);
        tg_format_double(fdr, sizeof fdr, a->fdr);
        tg_csv_write(t, k->s->dbs[db]->name, ',', true);
        tg_csv_write(t, tg_target_text(k->s, target), ',', false);
        tg_text_addf(t, ",%s,%llu,%llu,%s\n", msm, (unsigned long long)i + 1,
                     (unsigned long long)d, fdr);
    }
}

/* The rows of one database and modifier, at k->targets. */
static tg_status rank_one(ranker *k, size_t db, uint32_t target, const tg_cancel *cancel,
                          tg_error *err)
{
    TG_TRY(walk(k, db, target, true, cancel, err));
    TG_AUTO(tg_mem_ptr) decoys = k->decoys = tg_alloc_array(k->n_decoys + 1, sizeof *k->decoys);
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array(3 * (k->n_targets + 1), sizeof(double));
    double *numbers = room;
    if (decoys == NULL || room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to rank %llu decoys",
                       (unsigned long long)k->n_decoys);
    TG_TRY(walk(k, db, target, false, cancel, err));
    for (uint64_t i = 0; i < k->n_targets; i++) {
        k->targets[i].db = (uint32_t)db;
        k->targets[i].target = target;
        k->targets[i].fdr = k->targets[i].fdr_raw = NAN;
    }
    if (!k->whole) {
        k->out->whole = false;
        return TG_OK;
    }
    TG_TRY(rate(k, numbers, numbers + k->n_targets, numbers + 2 * k->n_targets, err));
    tg_heap_sort(k->targets, k->n_targets, sizeof *k->targets, by_score);
    count_levels(k, db);
    write_curve(k, db, target);
    return TG_OK;
}

/* --- All of them
 * ------------------------------------------------------------------------------- */

static tg_status count_rows(ranker *k, uint64_t *rows, uint64_t *most, const tg_cancel *cancel,
                            tg_error *err)
{
    *rows = *most = 0;
    for (size_t d = 0; d < k->s->n_dbs; d++)
        for (uint32_t t = 0; t < k->s->n_targets; t++) {
            TG_TRY(walk(k, d, t, true, cancel, err));
            *rows += k->n_targets;
            uint64_t n = k->n_targets * (k->s->decoys.sample + 3) * sizeof(double) +
                         k->n_decoys * sizeof(tg_decoy_score);
            *most = n > *most ? n : *most;
        }
    return TG_OK;
}

uint64_t tg_rank_bytes(uint64_t n_targets, uint64_t n_decoys, uint32_t sample)
{
    return n_targets * (sizeof(tg_annotation) + 96 + (sample + 3) * sizeof(double)) +
           n_decoys * sizeof(tg_decoy_score) + 4096;
}

static tg_status rank_all(ranker *k, const tg_cancel *cancel, tg_error *err)
{
    tg_ranking *r = k->out;
    uint64_t rows, most;

    TG_TRY(count_rows(k, &rows, &most, cancel, err));
    uint64_t bytes = rows * (sizeof *r->rows + 96) + most + 4096; /* 96: a line of the curve */
    TG_TRY(tg_budget_reserve(r->budget, bytes, "ranking", err));
    r->reserved = bytes;
    r->rows = tg_alloc_array(rows + 1, sizeof *r->rows);
    r->db_below = tg_calloc(k->s->n_dbs, sizeof *r->db_below);
    if (r->rows == NULL || r->db_below == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %llu annotations",
                       (unsigned long long)rows);
    tg_text_add(&r->curve, "database,modifier,msm,targets,decoys,fdr\n");
    for (size_t d = 0; d < k->s->n_dbs; d++)
        for (uint32_t t = 0; t < k->s->n_targets; t++) {
            k->targets = r->rows + r->n_rows;
            TG_TRY(rank_one(k, d, t, cancel, err));
            r->n_rows += k->n_targets;
        }
    tg_heap_sort(r->rows, r->n_rows, sizeof *r->rows, by_score);
    return tg_text_status(&r->curve, err);
}

tg_status tg_rank(tg_ranking **out, const tg_ion_space *s, const tg_unit_plan *plan,
                  const tg_results *results, tg_budget *budget, const tg_cancel *cancel,
                  tg_error *err)
{
    TG_AUTO_PTR(tg_ranking) r = tg_calloc(1, sizeof *r);
    if (r == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to rank");
    r->budget = budget;
    r->whole = true;
    r->n_dbs = s->n_dbs;
    ranker k = {.s = s, .plan = plan, .results = results, .out = r};
    TG_TRY(rank_all(&k, cancel, err));
    *out = tg_steal(r);
    return TG_OK;
}

void tg_ranking_free(tg_ranking *r)
{
    if (r == NULL)
        return;
    tg_free(r->rows);
    tg_free(r->db_below);
    tg_text_free(&r->curve);
    tg_budget_release(r->budget, r->reserved);
    tg_free(r);
}
