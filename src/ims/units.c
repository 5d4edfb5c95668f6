/* ims/units.c - a histogram of ion masses, units of it, and the ions of a unit. */
#include "ims/units.h"

#include "chem/sort.h"

#include <math.h>
#include <string.h>

#define BINS_PER_U 16
#define N_BINS     ((uint32_t)1 << 16) /* 4096 u; what is heavier is in the last */
#define MAX_UNITS  TG_MOST_UNITS
#define UNIT_IONS                                                              \
    32 /* of a small annotation: units at work at one time lie near each other \
        */

static uint32_t bin_of(int64_t mass)
{
    int64_t bin = mass / (1000000000 / BINS_PER_U);
    return bin < 0 ? 0 : bin >= N_BINS ? N_BINS - 1 : (uint32_t)bin;
}

/* --- The histogram -------------------------------------------------------------------------
 */

typedef struct counter {
    const tg_ion_space *s;
    uint32_t *counts;
    uint64_t n, none;
} counter;

static tg_status count_ion(void *user, const tg_ion_step *step, tg_error *err)
{
    counter *c = user;
    tg_ion ion;
    tg_status st = tg_ion_make(c->s, step->parsed, step->modifier, &ion, err);
    if (st == TG_NOT_FOUND) {
        c->none++;
        return TG_OK;
    }
    TG_TRY(st);
    c->counts[bin_of(ion.mass)]++;
    c->n++;
    return TG_OK;
}

/* Peaks in a window at the middle of a bin, from the bounds of segments alone. */
static double window_peaks(const tg_peaks *peaks, uint32_t bin, double ppm)
{
    double mz = (bin + 0.5) / BINS_PER_U, wide = 2.0;
    double density =
        (tg_peaks_rank(peaks, mz + wide) - tg_peaks_rank(peaks, mz - wide)) / (2 * wide);
    return density * 2 * mz * ppm * 1e-6;
}

static double ion_cost(const tg_peaks *peaks, uint32_t bin, double ppm)
{
    double n = window_peaks(peaks, bin, ppm);
    /* centroids; visits of peaks; and with many peaks the images, which chaos looks at whole */
    return 16 + 0.1 * n;
}

/* Bins are added to a unit until it has its share of the cost. */
static void cut_units(tg_unit_plan *p, const uint32_t *counts, const double *costs,
                      double share, uint64_t most_ions)
{
    double cost = 0;
    uint64_t n = 0;
    uint32_t *ends = p->ends;

    p->n_units = 0;
    p->first_bin[0] = 0;
    for (uint32_t b = 0; b < N_BINS; b++) {
        bool full = n > 0 && (cost + costs[b] > share || n + counts[b] > most_ions);
        if (full && p->n_units + 1 < MAX_UNITS) {
            p->counts[p->n_units] = n;
            p->weights[p->n_units] = (uint64_t)cost + 1;
            p->first_bin[++p->n_units] = b;
            cost = 0;
            n = 0;
            ends += 2;
        }
        if (counts[b] > 0) {
            ends[0] = n == 0 ? b : ends[0];
            ends[1] = b;
        }
        cost += costs[b];
        n += counts[b];
    }
    p->counts[p->n_units] = n;
    p->weights[p->n_units] = (uint64_t)cost + 1;
    p->first_bin[++p->n_units] = N_BINS;
}

static uint64_t units_wanted(uint64_t n_candidates)
{
    uint64_t n = n_candidates / UNIT_IONS + 1;
    return n < MAX_UNITS / 2 ? n : MAX_UNITS / 2;
}

/* Most ions of a unit, but for a bin that holds more. */
static uint64_t most_of(uint64_t n_candidates)
{
    return n_candidates / units_wanted(n_candidates) * 4 + UNIT_IONS;
}

static tg_status make_units(tg_unit_plan *p, const uint32_t *counts, const tg_peaks *peaks,
                            double ppm, tg_error *err)
{
    double total = 0;
    TG_AUTO(tg_mem_ptr) owner = tg_alloc_array(N_BINS, sizeof(double));
    double *costs = owner;

    if (costs == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for units");
    for (uint32_t b = 0; b < N_BINS; b++) {
        costs[b] = counts[b] == 0 ? 0 : counts[b] * ion_cost(peaks, b, ppm);
        total += costs[b];
    }
    uint64_t n = units_wanted(p->n_candidates);
    cut_units(p, counts, costs, total / (double)n, most_of(p->n_candidates));
    return TG_OK;
}

tg_status tg_units_most(const tg_ion_space *s, uint64_t *largest, const tg_cancel *cancel,
                        tg_error *err)
{
    TG_AUTO(tg_mem_ptr) owner = tg_calloc(N_BINS, sizeof(uint32_t));
    counter c = {.s = s, .counts = owner};

    if (owner == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for units");
    for (size_t d = 0; d < s->n_dbs; d++)
        TG_TRY(tg_ions_walk(s, d, TG_ALL_TARGETS, count_ion, &c, cancel, err));
    *largest = most_of(c.n) < c.n ? most_of(c.n) : c.n;
    for (uint32_t b = 0; b < N_BINS; b++)
        *largest = c.counts[b] > *largest ? c.counts[b] : *largest;
    return TG_OK;
}

tg_status tg_units_plan(tg_unit_plan **out, const tg_ion_space *s, const tg_peaks *peaks,
                        double ppm, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_unit_plan) p = tg_calloc(1, sizeof *p);
    TG_AUTO(tg_mem_ptr) owner = tg_calloc(N_BINS, sizeof(uint32_t));
    counter c = {.s = s, .counts = owner};

    if (p == NULL || owner == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for units");
    p->first_bin = tg_calloc(MAX_UNITS + 1, sizeof *p->first_bin);
    p->counts = tg_calloc(MAX_UNITS, sizeof *p->counts);
    p->weights = tg_calloc(MAX_UNITS, sizeof *p->weights);
    p->ends = tg_calloc(MAX_UNITS, 2 * sizeof *p->ends);
    if (p->first_bin == NULL || p->counts == NULL || p->weights == NULL || p->ends == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for units");
    for (size_t d = 0; d < s->n_dbs; d++)
        TG_TRY(tg_ions_walk(s, d, TG_ALL_TARGETS, count_ion, &c, cancel, err));
    p->n_candidates = c.n;
    p->n_none = c.none;
    TG_TRY(make_units(p, c.counts, peaks, ppm, err));
    *out = tg_steal(p);
    return TG_OK;
}

void tg_unit_plan_free(tg_unit_plan *p)
{
    if (p == NULL)
        return;
    tg_free(p->first_bin);
    tg_free(p->counts);
    tg_free(p->weights);
    tg_free(p->ends);
    tg_free(p);
}

uint32_t tg_unit_of(const tg_unit_plan *p, int64_t mass)
{
    uint32_t bin = bin_of(mass), lo = 0, hi = p->n_units;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (p->first_bin[mid] <= bin)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

uint64_t tg_units_reach(const tg_unit_plan *p, const tg_peaks *peaks, uint32_t n)
{
    uint64_t most = 1;
    for (uint32_t u = 0; u < p->n_units; u++) {
        uint32_t last = p->n_units - u < n ? p->n_units - 1 : u + n - 1, from, to;
        tg_peaks_segments(peaks, (double)p->ends[(size_t)2 * u] / BINS_PER_U - TG_ION_REACH,
                          (double)(p->ends[(size_t)2 * last + 1] + 1) / BINS_PER_U +
                              TG_ION_REACH,
                          &from, &to);
        most = to - from > most ? to - from : most;
    }
    return most;
}

/* --- The ions of units
 * ------------------------------------------------------------------------ */

typedef struct collector {
    const tg_ion_space *s;
    uint32_t from_bin, to_bin;
    tg_ion_record *records;
    uint64_t n, cap;
} collector;

static tg_status collect_ion(void *user, const tg_ion_step *step, tg_error *err)
{
    collector *c = user;
    tg_ion ion;
    tg_status st = tg_ion_make(c->s, step->parsed, step->modifier, &ion, err);
    if (st == TG_NOT_FOUND)
        return TG_OK;
    TG_TRY(st);
    uint32_t bin = bin_of(ion.mass);
    if (bin < c->from_bin || bin >= c->to_bin)
        return TG_OK;
    if (c->n == c->cap)
        return tg_fail(err, TG_OVER_BUDGET, "a unit has more than %llu ions",
                       (unsigned long long)c->cap);
    c->records[c->n++] = (tg_ion_record){ion.mass, (uint32_t)step->formula, step->modifier};
    return TG_OK;
}

static int by_mass(const void *a, const void *b)
{
    const tg_ion_record *x = a, *y = b;
    if (x->mass != y->mass)
        return x->mass < y->mass ? -1 : 1;
    if (x->formula != y->formula)
        return x->formula < y->formula ? -1 : 1;
    return x->modifier < y->modifier ? -1 : x->modifier > y->modifier;
}

/* Keep one record of each name among records [from, to) of one mass; returns where the kept
 * ones end. */
static tg_status join_equal(const tg_ion_space *s, tg_ion_record *r, uint64_t from, uint64_t to,
                            uint64_t *at, tg_error *err)
{
    uint64_t kept_from = *at;
    for (uint64_t i = from; i < to; i++) {
        tg_ion ion, other;
        bool new_name = true;
        TG_TRY(tg_ion_make_at(s, r[i].formula, r[i].modifier, &ion, err));
        for (uint64_t k = kept_from; k < *at && new_name; k++) {
            TG_TRY(tg_ion_make_at(s, r[k].formula, r[k].modifier, &other, err));
            new_name = strcmp(ion.text, other.text) != 0;
        }
        if (new_name)
            r[(*at)++] = r[i];
    }
    return TG_OK;
}

static tg_status join_all(collector *c, tg_error *err)
{
    uint64_t at = 0;
    for (uint64_t from = 0, to; from < c->n; from = to) {
        for (to = from + 1; to < c->n && c->records[to].mass == c->records[from].mass;)
            to++;
        if (to - from == 1)
            c->records[at++] = c->records[from];
        else
            TG_TRY(join_equal(c->s, c->records, from, to, &at, err));
    }
    c->n = at;
    return TG_OK;
}

tg_status tg_units_collect(const tg_unit_plan *p, const tg_ion_space *s, uint32_t first,
                           uint32_t end, tg_ion_record *room, uint64_t cap,
                           uint64_t *first_record, const tg_cancel *cancel, tg_error *err)
{
    collector c = {s, p->first_bin[first], p->first_bin[end], room, 0, cap};

    for (size_t d = 0; d < s->n_dbs; d++)
        TG_TRY(tg_ions_walk(s, d, TG_ALL_TARGETS, collect_ion, &c, cancel, err));
    tg_heap_sort(c.records, c.n, sizeof *c.records, by_mass);
    TG_TRY(join_all(&c, err));
    uint64_t at = 0;
    for (uint32_t u = first; u < end; u++) {
        first_record[u - first] = at;
        while (at < c.n && bin_of(c.records[at].mass) < p->first_bin[u + 1])
            at++;
    }
    first_record[end - first] = at;
    return TG_OK;
}
