/* chem/fdr.c - ranks targets and decoys. */
#include "chem/fdr.h"

#include "base/mem.h"
#include "chem/sort.h"

#include <math.h>

static int falling(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int rising(const void *a, const void *b)
{
    return falling(b, a);
}

typedef struct ranked {
    double score;
    size_t place;
} ranked;

static int ranked_falling(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->place > y->place ? 1 : x->place < y->place ? -1 : 0;
}

static int decoy_order(const void *a, const void *b)
{
    const tg_decoy_score *x = a, *y = b;
    if (x->set != y->set)
        return x->set < y->set ? -1 : 1;
    return x->score < y->score ? 1 : x->score > y->score ? -1 : 0;
}

static int decoy_falling(const void *a, const void *b)
{
    return falling(&((const tg_decoy_score *)a)->score, &((const tg_decoy_score *)b)->score);
}

/* Targets by falling score, each with its place. The caller frees. */
static tg_status rank_targets(const double *targets, size_t n, ranked **out, tg_error *err)
{
    ranked *r = tg_alloc_array(n + 1, sizeof *r);
    if (r == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to rank %zu targets", n);
    for (size_t i = 0; i < n; i++)
        r[i] = (ranked){targets[i], i};
    tg_heap_sort(r, n, sizeof *r, ranked_falling);
    *out = r;
    return TG_OK;
}

/* For each distinct score of a target: decoys that score as high, over ratio, over targets that
 * do. Ties are one step. decoys fall; out is by rank. */
static void share_of_decoys(const ranked *t, size_t n, const tg_decoy_score *d, size_t n_decoys,
                            double ratio, double plus, double *out, size_t out_step)
{
    size_t n_d = 0;
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && t[end].score == t[i].score)
            end++;
        while (n_d < n_decoys && d[n_d].score >= t[i].score)
            n_d++;
        double share = ((double)n_d + plus) / ratio / ((double)end + plus);
        for (; i < end; i++)
            out[i * out_step] = share;
    }
}

static double median(double *v, uint32_t n)
{
    tg_heap_sort(v, n, sizeof *v, rising);
    return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static const double levels[] = {0.05, 0.1, 0.2, 0.5};

/* Ranked targets get the first level whose least accepted score they reach. */
static void digitise(const ranked *t, size_t n, const double *share, double *fdr)
{
    for (size_t i = 0; i < n; i++)
        fdr[t[i].place] = 1;
    size_t done = 0; /* ranks below it have their level: an earlier level accepts them */
    for (size_t l = 0; l < sizeof levels / sizeof levels[0]; l++) {
        size_t last = 0;
        for (size_t i = 0; i < n; i++)
            if (share[i] < levels[l])
                last = i + 1;
        for (; done < last; done++) /* equal scores have equal shares: none is split */
            fdr[t[done].place] = levels[l];
    }
}

tg_status tg_fdr_v1(const double *targets, size_t n_targets, tg_decoy_score *decoys,
                    size_t n_decoys, uint32_t n_sets, double *raw, double *fdr, tg_error *err)
{
    ranked *order;
    TG_TRY(rank_targets(targets, n_targets, &order, err));
    TG_AUTO(tg_mem_ptr) order_owner = order;
    TG_AUTO(tg_mem_ptr) room = NULL;
    size_t cells;
    if (n_sets == 0 || __builtin_mul_overflow(n_targets + 1, (size_t)n_sets + 1, &cells))
        return tg_fail(err, TG_INVALID, "%zu targets, %u decoy sets", n_targets, n_sets);
    double *share = room = tg_alloc_array(cells, sizeof *share);
    if (share == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to rank %zu targets", n_targets);

    tg_heap_sort(decoys, n_decoys, sizeof *decoys, decoy_order);
    size_t at = 0;
    for (uint32_t s = 0; s < n_sets; s++) {
        size_t end = at;
        while (end < n_decoys && decoys[end].set == s)
            end++;
        share_of_decoys(order, n_targets, decoys + at, end - at, 1, 0, share + s, n_sets);
        at = end;
    }
    double *medians = share + n_targets * n_sets;
    for (size_t i = 0; i < n_targets; i++) {
        medians[i] = median(share + i * n_sets, n_sets);
        if (raw != NULL)
            raw[order[i].place] = medians[i];
    }
    digitise(order, n_targets, medians, fdr);
    return TG_OK;
}

tg_status tg_fdr_v3(const double *targets, size_t n_targets, tg_decoy_score *decoys,
                    size_t n_decoys, uint32_t n_sets, bool clip, double *fdr, tg_error *err)
{
    ranked *order;
    TG_TRY(rank_targets(targets, n_targets, &order, err));
    TG_AUTO(tg_mem_ptr) order_owner = order;
    double *share = tg_alloc_array(n_targets + 1, sizeof *share);
    TG_AUTO(tg_mem_ptr) room = share;
    if (share == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to rank %zu targets", n_targets);
    if (n_sets == 0)
        return tg_fail(err, TG_INVALID, "no decoys");

    tg_heap_sort(decoys, n_decoys, sizeof *decoys, decoy_falling);
    share_of_decoys(order, n_targets, decoys, n_decoys, n_sets, 1, share, 1);
    double least = INFINITY;
    for (size_t i = n_targets; i-- > 0;) {
        least = share[i] < least ? share[i] : least;
        fdr[order[i].place] = clip && least > 1 ? 1 : least;
    }
    return TG_OK;
}

double tg_fdr_level(double fdr)
{
    double r = nearbyint(fdr * 100) / 100;
    for (size_t l = 0; l < sizeof levels / sizeof levels[0]; l++)
        if (r <= levels[l])
            return levels[l];
    return 1;
}
