/* ims/rank.h - false discovery rates: for each database and target modifier, the scores of its
 * targets against those of their decoys. */
#ifndef TG_IMS_RANK_H
#define TG_IMS_RANK_H

#include "ims/ions.h"
#include "ims/results.h"
#include "ims/units.h"

typedef struct tg_annotation {
    uint32_t db, target; /* target modifier */
    uint64_t formula;
    const tg_found *found;
    double msm;
    double fdr_raw; /* version 1: the median */
    double fdr;     /* NaN: not known, decoys are missing */
} tg_annotation;

typedef struct tg_ranking {
    tg_annotation *rows; /* by database, then falling score, then formula and modifier */
    uint64_t n_rows;     /* targets with a score above 0 */
    uint64_t below[4];   /* targets with FDR <= 0.05, 0.1, 0.2, 0.5 */
    uint64_t (*db_below)[4];
    size_t n_dbs;
    tg_text curve; /* CSV: database, modifier, msm, targets, decoys, fdr */
    bool whole;    /* every database and modifier has its FDR */
    tg_budget *budget;
    uint64_t reserved;
} tg_ranking;

/* Only databases and modifiers whose targets and decoys were all scored get an FDR. */
TG_MUST_USE tg_status tg_rank(tg_ranking **out, const tg_ion_space *s, const tg_unit_plan *plan,
                              const tg_results *results, tg_budget *budget,
                              const tg_cancel *cancel, tg_error *err);
/* Memory of a ranking at most, if that many targets and decoys of all databases have a score.
 */
uint64_t tg_rank_bytes(uint64_t n_targets, uint64_t n_decoys, uint32_t sample);
void tg_ranking_free(tg_ranking *r);
TG_DEFINE_AUTO_PTR(tg_ranking, tg_ranking_free)

/* "-H2O+Na": the text of a target modifier, for tables. */
const char *tg_target_text(const tg_ion_space *s, uint32_t target);

#endif
