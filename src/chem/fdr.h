/* chem/fdr.h - false discovery rates of targets against decoys, by both procedures.
 *
 * Threads: pure functions. */
#ifndef TG_CHEM_FDR_H
#define TG_CHEM_FDR_H

#include "base/error.h"

#include <stdbool.h>

/* One decoy above 0 and the decoy set (0 ..) to which it belongs. */
typedef struct tg_decoy_score {
    double score;
    uint32_t set;
} tg_decoy_score;

/* Version 1: for each of n_sets decoy sets the share of decoys among what scores as high or
 * higher, per target; of these the median; then the level (of 0.05, 0.1, 0.2, 0.5, else 1)
 * whose least accepted score the target reaches. targets: in any order. raw (may be NULL): the
 * medians; fdr: the levels. decoys are reordered. Takes n_targets *
 * (n_sets + 3) doubles. */
TG_MUST_USE tg_status tg_fdr_v1(const double *targets, size_t n_targets, tg_decoy_score *decoys,
                                size_t n_decoys, uint32_t n_sets, double *raw, double *fdr,
                                tg_error *err);
/* Version 3: all decoys in one ranking, n_sets times as many as targets by construction;
 * (decoys + 1) / n_sets / (targets + 1), made monotone from the lowest score up. May exceed 1
 * unless clip. */
TG_MUST_USE tg_status tg_fdr_v3(const double *targets, size_t n_targets, tg_decoy_score *decoys,
                                size_t n_decoys, uint32_t n_sets, bool clip, double *fdr,
                                tg_error *err);

/* Smallest level of 0.05, 0.1, 0.2, 0.5 that the FDR rounded to two digits does not exceed;
 * else
 * 1. For display. */
double tg_fdr_level(double fdr);

#endif
