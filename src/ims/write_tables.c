/* ims/write_tables.c - annotations, scores and FDR curve as CSV. */
#include "base/csv.h"
#include "base/text.h"
#include "chem/sort.h"
#include "ims/write_out.h"

#include <math.h>
#include <string.h>

#define ROOM ((size_t)256 << 10) /* text that is gathered before it is written */

/* A growing text that goes to an object piece by piece. */
typedef struct table {
    tg_object *object;
    tg_text text;
    uint64_t bytes;
} table;

static tg_status table_begin(table *t, tg_store *out, const char *key, const char *header,
                             tg_error *err)
{
    *t = (table){0};
    TG_TRY(tg_object_begin(out, key, (tg_object_options){0}, &t->object, NULL, err));
    tg_text_add(&t->text, header);
    return TG_OK;
}

static tg_status table_flush(table *t, size_t most, tg_error *err)
{
    TG_TRY(tg_text_status(&t->text, err));
    if (t->text.len <= most)
        return TG_OK;
    TG_TRY(tg_object_write(t->object, t->text.data, t->text.len, NULL, err));
    t->bytes += t->text.len;
    t->text.len = 0;
    return TG_OK;
}

static tg_status table_end(table *t, tg_error *err)
{
    TG_TRY(table_flush(t, 0, err));
    return tg_object_seal(t->object, t->bytes, NULL, err);
}

static void table_free(table *t)
{
    tg_text_free(&t->text);
    tg_object_free(t->object);
}

static void add_number(tg_text *t, double v)
{
    char s[32];
    if (isnan(v)) {
        tg_text_add(t, ",");
        return;
    }
    tg_format_double(s, sizeof s, v);
    tg_text_addf(t, ",%s", s);
}

/* A float has fewer digits than its value as a double shows. */
static void add_float(tg_text *t, float v)
{
    tg_text_addf(t, ",%.9g", (double)v);
}

/* --- annotations.csv --------------------------------------------------------------------- */

static void add_molecules(tg_text *t, const tg_moldb *db, uint64_t formula, bool ids,
                          tg_text *room)
{
    bool first = true;
    room->len = 0;
    for (uint64_t i = db->first[formula]; i < db->first[formula + 1]; i++) {
        const char *s = ids ? db->molecules[i].id : db->molecules[i].name;
        if (s[0] == '\0')
            continue;
        if (!first)
            tg_text_add(room, " | ");
        tg_text_add(room, s);
        first = false;
    }
    tg_csv_write(t, first ? "" : room->data, ',', false);
    t->failed |= room->failed;
}

static tg_status add_row(const tg_job *j, const tg_results *results, const tg_annotation *a,
                         tg_text *t, tg_text *room, tg_error *err)
{
    tg_ion_result r;
    tg_ion ion;
    uint64_t formula;
    const tg_ion_target *target = &j->space->targets[a->target];
    size_t d = tg_ion_db_of(j->space, a->formula, &formula);
    const tg_moldb *db = j->dbs[d];

    TG_TRY(tg_results_get(results, a->found, &r, err));
    TG_TRY(tg_ion_make_at(j->space, a->formula, a->target, &ion, err));
    tg_csv_write(t, db->name, ',', true);
    tg_csv_write(t, tg_moldb_formula(db, formula), ',', false);
    tg_csv_write(t, target->adduct, ',', false);
    tg_csv_write(t, target->loss, ',', false);
    tg_csv_write(t, target->mod, ',', false);
    tg_csv_write(t, ion.text, ',', false);
    add_number(t, r.mz[0]);
    add_number(t, a->fdr);
    add_number(t, r.msm);
    add_number(t, r.chaos);
    add_number(t, r.spatial);
    add_number(t, r.spectral);
    tg_text_addf(t, ",%u", r.n_pixels[0]);
    add_number(t, r.mz_err_abs);
    add_number(t, r.mz_err_rel);
    add_float(t, r.min[0]);
    add_float(t, r.max[0]);
    add_float(t, r.total[0]);
    add_molecules(t, db, formula, false, room);
    add_molecules(t, db, formula, true, room);
    tg_text_add(t, "\n");
    return TG_OK;
}

static tg_status add_rows(const tg_job *j, const tg_results *results, const tg_ranking *ranking,
                          bool whole, table *t, uint64_t *n_rows, tg_error *err)
{
    TG_AUTO(tg_text) room = {0};
    tg_text_add(&room, " "); /* so that it holds a string from the start */
    for (uint64_t i = 0; i < ranking->n_rows; i++) {
        const tg_annotation *a = &ranking->rows[i];
        if (whole && !tg_row_is_kept(j, a))
            continue;
        TG_TRY(add_row(j, results, a, &t->text, &room, err));
        TG_TRY(table_flush(t, ROOM, err));
        ++*n_rows;
    }
    return TG_OK;
}

tg_status tg_write_tables(const tg_job *j, const tg_results *results, const tg_ranking *ranking,
                          tg_store *out, bool whole, uint64_t *n_rows, tg_error *err)
{
    table t;
    *n_rows = 0;
    TG_TRY(table_begin(&t, out, whole ? "annotations.csv" : "annotations.partial.csv",
                       TG_ANNOTATION_COLUMNS, err));
    tg_status st = add_rows(j, results, ranking, whole, &t, n_rows, err);
    if (st == TG_OK)
        st = table_end(&t, err);
    else
        tg_object_abort(t.object);
    table_free(&t);
    if (st != TG_OK || !whole)
        return st;
    return tg_store_put(out, "fdr_curve.csv", ranking->curve.data, ranking->curve.len, NULL,
                        err);
}

/* --- scores.csv -----------------------------------------------------------------------------
 */

typedef struct by_place {
    double mz;
    const tg_found *found;
} by_place;

static int rising_mz(const void *a, const void *b)
{
    const by_place *x = a, *y = b;
    if (x->mz != y->mz)
        return x->mz < y->mz ? -1 : 1;
    return memcmp(x->found->hash, y->found->hash, sizeof x->found->hash);
}

static tg_status add_score(const tg_job *j, const tg_results *results, const tg_found *f,
                           tg_text *t, tg_error *err)
{
    tg_ion_result r;
    tg_ion ion;
    uint64_t formula;

    TG_TRY(tg_results_get(results, f, &r, err));
    TG_TRY(tg_ion_make_at(j->space, r.formula, r.modifier, &ion, err));
    size_t d = tg_ion_db_of(j->space, r.formula, &formula);
    tg_csv_write(t, ion.text, ',', true);
    tg_csv_write(t, tg_moldb_formula(j->dbs[d], formula), ',', false);
    tg_csv_write(t, j->space->modifiers[r.modifier].text, ',', false);
    tg_text_addf(t, ",%s", r.modifier < j->space->n_targets ? "target" : "decoy");
    add_number(t, r.msm);
    add_number(t, r.chaos);
    add_number(t, r.spatial);
    add_number(t, r.spectral);
    for (int k = 0; k < TG_N_IMAGES; k++)
        add_number(t, r.mz[k]);
    for (int k = 0; k < TG_N_IMAGES; k++)
        add_float(t, r.intensity[k]);
    for (int k = 0; k < TG_N_IMAGES; k++)
        tg_text_addf(t, ",%u", r.n_pixels[k]);
    for (int k = 0; k < TG_N_IMAGES; k++)
        add_float(t, r.total[k]);
    add_number(t, r.mz_err_abs);
    add_number(t, r.mz_err_rel);
    tg_text_add(t, "\n");
    return TG_OK;
}

static tg_status order_by_mz(const tg_results *results, by_place *order, tg_error *err)
{
    for (uint64_t i = 0; i < results->n_found; i++) {
        tg_ion_result r;
        TG_TRY(tg_results_get(results, &results->found[i], &r, err));
        order[i] = (by_place){r.mz[0], &results->found[i]};
    }
    tg_heap_sort(order, results->n_found, sizeof *order, rising_mz);
    return TG_OK;
}

static tg_status write_scores(const tg_job *j, const tg_results *results, by_place *order,
                              tg_store *out, tg_error *err)
{
    table t;
    TG_TRY(order_by_mz(results, order, err));
    TG_TRY(table_begin(&t, out, "scores.csv",
                       "ion,formula,modifier,kind,msm,chaos,spatial,spectral,mz0,mz1,mz2,mz3,"
                       "int0,int1,int2,int3,n_pixels0,n_pixels1,n_pixels2,n_pixels3,total0,"
                       "total1,total2,total3,mz_err_abs,mz_err_rel\n",
                       err));
    tg_status st = TG_OK;
    for (uint64_t i = 0; i < results->n_found && st == TG_OK; i++) {
        st = add_score(j, results, order[i].found, &t.text, err);
        if (st == TG_OK)
            st = table_flush(&t, ROOM, err);
    }
    if (st == TG_OK)
        st = table_end(&t, err);
    else
        tg_object_abort(t.object);
    table_free(&t);
    return st;
}

tg_status tg_write_scores(const tg_job *j, const tg_results *results, tg_store *out,
                          tg_error *err)
{
    uint64_t bytes = (results->n_found + 1) * sizeof(by_place);
    TG_TRY(tg_budget_reserve(j->budget, bytes, "table of scores", err));
    by_place *order = tg_alloc(bytes);
    tg_status st = order == NULL ? tg_fail(err, TG_NO_MEMORY, "no memory for %llu scores",
                                           (unsigned long long)results->n_found)
                                 : write_scores(j, results, order, out, err);
    tg_free(order);
    tg_budget_release(j->budget, bytes);
    return st;
}
