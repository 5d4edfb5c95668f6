/* chem/isotopologue.c - enumerates isotopologues: for each element the count vectors around its
 * most likely one, then the products of the elements, each cut at 1e-4 of the best. Knows no
 * instrument and no charge. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* M_PI */
#endif
#include "chem/isotopologue.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

#define N_FACTORIALS 1024

typedef struct peak {
    double mass, log_p;
} peak;

typedef struct peak_list {
    peak *at;
    size_t n, cap;
} peak_list;

typedef struct state {
    uint16_t count[TG_MAX_ISOTOPES];
} state;

struct tg_pattern {
    double log_p[TG_N_ISOTOPES]; /* of the normalised abundance */
    double log_factorial[N_FACTORIALS];
    peak_list element, product, next;
    /* count vectors of one element met so far, and where each lies in `slots` */
    state *states;
    double *state_log_p;
    size_t n_states, states_cap;
    uint32_t *slots; /* place in states + 1; 0: free */
    size_t n_slots;
    tg_isotopologue *out;
    size_t out_cap;
};

/* --- Room ----------------------------------------------------------------- */

static tg_status grow(void **at, size_t *cap, size_t used, size_t item, tg_error *err)
{
    size_t want = *cap == 0 ? 64 : *cap * 2;
    void *p = tg_alloc_array(want, item);
    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu isotopologues", want);
    if (used > 0)
        memcpy(p, *at, used * item);
    tg_free(*at);
    *at = p;
    *cap = want;
    return TG_OK;
}

static tg_status too_many(tg_error *err)
{
    return tg_fail(err, TG_UNSUPPORTED, "more than %d isotopologues", TG_MAX_ISOTOPOLOGUES);
}

static tg_status push(peak_list *l, double mass, double log_p, tg_error *err)
{
    if (l->n == TG_MAX_ISOTOPOLOGUES)
        return too_many(err);
    if (l->n == l->cap) {
        void *at = l->at;
        TG_TRY(grow(&at, &l->cap, l->n, sizeof *l->at, err));
        l->at = at;
    }
    l->at[l->n++] = (peak){mass, log_p};
    return TG_OK;
}

/* --- One element ----------------------------------------------------------- */

static double log_factorial(const tg_pattern *p, uint32_t n)
{
    if (n < N_FACTORIALS)
        return p->log_factorial[n];
    double x = n; /* Stirling: exact to a double from here on */
    return (x + 0.5) * log(x) - x + 0.5 * log(2 * M_PI) + 1 / (12 * x) - 1 / (360 * x * x * x);
}

/* Two isotopes: walk from the mode to both sides. */
static tg_status list_two(tg_pattern *p, const tg_element *e, uint32_t n, tg_error *err)
{
    const tg_isotope_entry *iso = &tg_isotope_table[e->first];
    const double *lp = &p->log_p[e->first];
    double cut = log(TG_ISOTOPOLOGUE_CUT), lf_n = log_factorial(p, n);
    uint32_t mode = (uint32_t)((n + 1.0) * exp(lp[1]));
    if (mode > n)
        mode = n;
    double best = -INFINITY;
    /* the mode may be off by one where both neighbours are nearly equal */
    for (uint32_t k = mode > 0 ? mode - 1 : 0; k <= n && k <= mode + 1; k++) {
        double v =
            lf_n - log_factorial(p, k) - log_factorial(p, n - k) + k * lp[1] + (n - k) * lp[0];
        if (v > best) {
            best = v;
            mode = k;
        }
    }
    for (int side = 0; side < 2; side++) {
        for (uint32_t step = (uint32_t)side;; step++) {
            if (side == 0 ? step > mode : mode + step > n)
                break;
            uint32_t k = side == 0 ? mode - step : mode + step;
            double v = lf_n - log_factorial(p, k) - log_factorial(p, n - k) + k * lp[1] +
                       (n - k) * lp[0] - best;
            if (v < cut)
                break;
            TG_TRY(push(&p->element, (n - k) * iso[0].mass + k * iso[1].mass, v, err));
        }
    }
    return TG_OK;
}

static double vector_log_p(const tg_pattern *p, const tg_element *e, double lf_n,
                           const state *s)
{
    double v = lf_n;
    for (uint32_t i = 0; i < e->n; i++)
        v += s->count[i] * p->log_p[e->first + i] - log_factorial(p, s->count[i]);
    return v;
}

static size_t hash_of(const state *s, uint32_t n)
{
    uint64_t h = 1469598103934665603u;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ s->count[i]) * 1099511628211u;
    return (size_t)(h ^ (h >> 29));
}

static tg_status rehash(tg_pattern *p, uint32_t n, tg_error *err)
{
    size_t want = p->n_slots == 0 ? 256 : p->n_slots * 2;
    uint32_t *slots = tg_calloc(want, sizeof *slots);
    if (slots == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu isotopologues", want);
    for (size_t i = 0; i < p->n_states; i++) {
        size_t h = hash_of(&p->states[i], n) & (want - 1);
        while (slots[h] != 0)
            h = (h + 1) & (want - 1);
        slots[h] = (uint32_t)i + 1;
    }
    tg_free(p->slots);
    p->slots = slots;
    p->n_slots = want;
    return TG_OK;
}

static tg_status grow_states(tg_pattern *p, tg_error *err)
{
    size_t cap = p->states_cap;
    void *at = p->states;
    TG_TRY(grow(&at, &cap, p->n_states, sizeof *p->states, err));
    p->states = at;
    cap = p->states_cap;
    at = p->state_log_p;
    TG_TRY(grow(&at, &cap, p->n_states, sizeof *p->state_log_p, err));
    p->state_log_p = at;
    p->states_cap = cap;
    return TG_OK;
}

/* Add a count vector unless it is there or below the cut. */
static tg_status visit(tg_pattern *p, const tg_element *e, double lf_n, double floor_log_p,
                       const state *s, tg_error *err)
{
    if ((p->n_states + 1) * 2 > p->n_slots)
        TG_TRY(rehash(p, e->n, err));
    size_t h = hash_of(s, e->n) & (p->n_slots - 1);
    for (; p->slots[h] != 0; h = (h + 1) & (p->n_slots - 1))
        if (memcmp(p->states[p->slots[h] - 1].count, s->count, e->n * sizeof s->count[0]) == 0)
            return TG_OK;
    double v = vector_log_p(p, e, lf_n, s);
    if (v < floor_log_p)
        return TG_OK;
    if (p->n_states == TG_MAX_ISOTOPOLOGUES)
        return too_many(err);
    if (p->n_states == p->states_cap)
        TG_TRY(grow_states(p, err));
    p->states[p->n_states] = *s;
    p->state_log_p[p->n_states] = v;
    p->slots[h] = (uint32_t)++p->n_states;
    return TG_OK;
}

/* The most likely count vector: rounded expectation, then moved an atom at a time while that is
 * better (a multinomial has one hill). */
static state find_mode(const tg_pattern *p, const tg_element *e, uint32_t n, double lf_n)
{
    state s = {{0}};
    uint32_t used = 0, most = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        s.count[i] = (uint16_t)(n * exp(p->log_p[e->first + i]));
        used += s.count[i];
        if (p->log_p[e->first + i] > p->log_p[e->first + most])
            most = i;
    }
    s.count[most] = (uint16_t)(s.count[most] + n - used);
    double best = vector_log_p(p, e, lf_n, &s);
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < e->n; i++)
            for (uint32_t j = 0; j < e->n; j++) {
                if (i == j || s.count[i] == 0)
                    continue;
                state t = s;
                t.count[i]--;
                t.count[j]++;
                double v = vector_log_p(p, e, lf_n, &t);
                if (v > best) {
                    best = v;
                    s = t;
                    moved = true;
                }
            }
    }
    return s;
}

/* Three isotopes or more: flood from the mode. The vectors above any cut are connected by moves
 * of one atom. */
static tg_status list_many(tg_pattern *p, const tg_element *e, uint32_t n, tg_error *err)
{
    const tg_isotope_entry *iso = &tg_isotope_table[e->first];
    double lf_n = log_factorial(p, n);
    state s = find_mode(p, e, n, lf_n);
    double best = vector_log_p(p, e, lf_n, &s), cut = best + log(TG_ISOTOPOLOGUE_CUT);

    if (p->n_slots > 0)
        memset(p->slots, 0, p->n_slots * sizeof *p->slots);
    p->n_states = 0;
    TG_TRY(visit(p, e, lf_n, cut, &s, err));
    for (size_t k = 0; k < p->n_states; k++) {
        double mass = 0;
        for (uint32_t i = 0; i < e->n; i++) {
            mass += p->states[k].count[i] * iso[i].mass;
            for (uint32_t j = 0; j < e->n; j++) {
                s = p->states[k];
                if (i == j || s.count[i] == 0)
                    continue;
                s.count[i]--;
                s.count[j]++;
                TG_TRY(visit(p, e, lf_n, cut, &s, err));
            }
        }
        TG_TRY(push(&p->element, mass, p->state_log_p[k] - best, err));
    }
    return TG_OK;
}

/* --- Sorting: Shell's, in place ------------------------------------------- */

static const size_t gaps[] = {57844, 25709, 11426, 5078, 2257, 1003, 446,
                              198,   88,    39,    17,   8,    3,    1};

static void sort_by_log_p(peak *a, size_t n)
{
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (size_t i = gaps[g]; i < n; i++) {
            peak x = a[i];
            size_t k = i;
            for (; k >= gaps[g] && a[k - gaps[g]].log_p < x.log_p; k -= gaps[g])
                a[k] = a[k - gaps[g]];
            a[k] = x;
        }
}

static void sort_by_mass(peak *a, size_t n)
{
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (size_t i = gaps[g]; i < n; i++) {
            peak x = a[i];
            size_t k = i;
            for (; k >= gaps[g] && a[k - gaps[g]].mass > x.mass; k -= gaps[g])
                a[k] = a[k - gaps[g]];
            a[k] = x;
        }
}

/* --- Products ---------------------------------------------------------------- */

static tg_status list_element(tg_pattern *p, const tg_element *e, uint32_t n, tg_error *err)
{
    p->element.n = 0;
    if (n > UINT16_MAX)
        return too_many(err);
    if (e->n == 1)
        return push(&p->element, n * tg_isotope_table[e->first].mass, 0, err);
    if (e->n == 2)
        return list_two(p, e, n, err);
    return list_many(p, e, n, err);
}

static tg_status multiply(tg_pattern *p, tg_error *err)
{
    double cut = log(TG_ISOTOPOLOGUE_CUT);
    p->next.n = 0;
    for (size_t i = 0; i < p->product.n; i++) {
        peak a = p->product.at[i];
        for (size_t k = 0; k < p->element.n; k++) {
            peak b = p->element.at[k];
            if (a.log_p + b.log_p < cut)
                break; /* the element's list falls */
            TG_TRY(push(&p->next, a.mass + b.mass, a.log_p + b.log_p, err));
        }
    }
    peak_list swap = p->product;
    p->product = p->next;
    p->next = swap;
    return TG_OK;
}

tg_status tg_pattern_list(tg_pattern *p, const tg_atoms *atoms, tg_isotopologue **list,
                          size_t *n, tg_error *err)
{
    p->product.n = 0;
    TG_TRY(push(&p->product, 0, 0, err));
    for (uint32_t i = 0; i < atoms->n; i++) {
        const tg_element *e = &tg_element_table[atoms->of[i].element];
        TG_TRY(list_element(p, e, atoms->of[i].count, err));
        sort_by_log_p(p->element.at, p->element.n);
        TG_TRY(multiply(p, err));
    }
    while (p->out_cap < p->product.n) {
        void *at = p->out;
        TG_TRY(grow(&at, &p->out_cap, 0, sizeof *p->out, err));
        p->out = at;
    }
    sort_by_mass(p->product.at, p->product.n);
    for (size_t i = 0; i < p->product.n; i++)
        p->out[i] = (tg_isotopologue){p->product.at[i].mass, exp(p->product.at[i].log_p)};
    *list = p->out;
    *n = p->product.n;
    return TG_OK;
}

/* --- Tables --------------------------------------------------------------------- */

static void fill_tables(tg_pattern *p)
{
    long double sum = 0;
    for (uint32_t i = 0; i < N_FACTORIALS; i++) {
        sum += i > 1 ? logl((long double)i) : 0;
        p->log_factorial[i] = (double)sum;
    }
    for (size_t e = 0; e < TG_N_ELEMENTS; e++) {
        double total = 0;
        const tg_element *el = &tg_element_table[e];
        for (uint32_t i = el->first; i < (uint32_t)el->first + el->n; i++)
            total += tg_isotope_table[i].abundance;
        for (uint32_t i = el->first; i < (uint32_t)el->first + el->n; i++)
            p->log_p[i] = log(tg_isotope_table[i].abundance / total);
    }
}

tg_status tg_pattern_new(tg_pattern **out, tg_error *err)
{
    tg_pattern *p = tg_calloc(1, sizeof *p);
    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for isotope tables");
    fill_tables(p);
    *out = p;
    return TG_OK;
}

void tg_pattern_free(tg_pattern *p)
{
    if (p == NULL)
        return;
    tg_free(p->element.at);
    tg_free(p->product.at);
    tg_free(p->next.at);
    tg_free(p->states);
    tg_free(p->state_log_p);
    tg_free(p->slots);
    tg_free(p->out);
    tg_free(p);
}
