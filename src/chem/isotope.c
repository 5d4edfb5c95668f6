/* chem/isotope.c - from isotopologues to centroids: samples the profile that an instrument
 * would see on the reference's grid and takes the centroid of every peak. Compiled without
 * contraction of floating-point operations: the grid must not depend on the machine. */
#include "chem/isotope.h"

#include "base/mem.h"
#include "chem/isotopologue.h"

#include <math.h>
#include <string.h>

#define WINDOW     15 /* samples that a peak is judged by */
#define CENTRE     7
#define CHUNK      1024
#define MAX_STEPS  100000000u
#define MIN_HEIGHT 1e-4

/* Who is asked about the first centroid, and what it lies at in truth. */
typedef struct asking {
    tg_seen_fn seen; /* NULL: nobody, or asked already */
    void *user;
    double shift; /* of labelled atoms */
    bool left;
} asking;

struct tg_isotope {
    tg_isotope_settings settings;
    asking ask;
    tg_pattern *pattern;
    double reach; /* in sigmas: how far an isotopologue is felt */
    double max_exponent;
    void (*add)(double *restrict y, const double *restrict x,
                const double *restrict inverse_sigma, size_t n, double m, double a,
                double max_exponent);
    /* samples: the last WINDOW - 1 of the chunk before, then new ones */
    double x[CHUNK], y[CHUNK], inverse_sigma[CHUNK];
};

/* --- Instruments ------------------------------------------------------------------ */

double tg_sigma_of_resolving_power(tg_instrument instrument, double power, double mz)
{
    double at_200 = instrument == TG_FTICR      ? power * mz / 200
                    : instrument == TG_ORBITRAP ? power * sqrt(mz / 200)
                                                : power;
    return 200 / at_200 / TG_SIGMA_TO_FWHM;
}

static const char *const instrument_names[] = {"tof", "orbitrap", "fticr"};

tg_status tg_instrument_parse(const char *name, tg_instrument *out, tg_error *err)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(name, instrument_names[i]) == 0) {
            *out = (tg_instrument)i;
            return TG_OK;
        }
    return tg_fail(err, TG_INVALID, "instrument '%.40s': want tof, orbitrap or fticr", name);
}

const char *tg_instrument_name(tg_instrument instrument)
{
    return instrument_names[instrument];
}

/* sigma at m. base: m/z of the most abundant isotopologue, to which version 1 scales. */
static double sigma_at(const tg_isotope_settings *s, double m, double base)
{
    if (s->version == 1)
        return s->sigma * m / base;
    double r = m / 200;
    switch (s->instrument) {
    case TG_ORBITRAP:
        return s->sigma * r * sqrt(r);
    case TG_FTICR:
        return s->sigma * r * r;
    case TG_TOF:
        break;
    }
    return s->sigma * r;
}

/* --- The profile -------------------------------------------------------------------- */

/* e^-t for t in [0, 100], without branches so that a loop over it runs on vectors; within 1e-15
 * relative. */
static inline double exp_minus(double t)
{
    const double shift = 0x1.8p52;
    double n = -t * 1.4426950408889634 + shift;
    uint64_t bits;
    memcpy(&bits, &n, sizeof bits);
    n -= shift;
    double r = (-t - n * 0x1.62e42fefa0000p-1) - n * 0x1.cf79abc9e3b3ap-40;
    double p = 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    uint64_t value;
    memcpy(&value, &p, sizeof value);
    value += bits << 52; /* the low bits of the shifted n are n itself */
    memcpy(&p, &value, sizeof p);
    return p;
}

static inline void add_samples(double *restrict y, const double *restrict x,
                               const double *restrict inverse_sigma, size_t n, double m,
                               double a, double max_exponent)
{
    for (size_t k = 0; k < n; k++) {
        double d = (m - x[k]) * inverse_sigma[k];
        double t = 0.5 * d * d;
        double inside = t <= max_exponent ? a : 0.0;
        t = t <= max_exponent ? t : max_exponent;
        y[k] += inside * exp_minus(t);
    }
}

/* The same operations on wider vectors, and so the same digits. */
typedef void (*add_fn)(double *restrict y, const double *restrict x,
                       const double *restrict inverse_sigma, size_t n, double m, double a,
                       double max_exponent);

static void add_plain(double *restrict y, const double *restrict x,
                      const double *restrict inverse_sigma, size_t n, double m, double a,
                      double max_exponent)
{
    add_samples(y, x, inverse_sigma, n, m, a, max_exponent);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void
add_avx2(double *restrict y, const double *restrict x, const double *restrict inverse_sigma,
         size_t n, double m, double a, double max_exponent)
{
    add_samples(y, x, inverse_sigma, n, m, a, max_exponent);
}

__attribute__((target("avx512f,avx512dq,avx512vl"))) static void
add_avx512(double *restrict y, const double *restrict x, const double *restrict inverse_sigma,
           size_t n, double m, double a, double max_exponent)
{
    add_samples(y, x, inverse_sigma, n, m, a, max_exponent);
}

static add_fn choose_add(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return add_avx512;
    return __builtin_cpu_supports("avx2") ? add_avx2 : add_plain;
}
#else
static add_fn choose_add(void)
{
    return add_plain;
}
#endif

typedef struct grid {
    const tg_isotope *iso;
    const tg_isotopologue *m; /* mass holds m/z, ascending */
    size_t n;
    double base;
    size_t p;     /* the isotopologue that sigma is of */
    double sigma; /* only changes when p advances, and p advances only through a gap */
    double step, x, start;
    bool gap;
    uint64_t n_samples; /* made so far */
    uint32_t zeros;     /* samples in a row that lay in a gap */
    double near;        /* the end of a gap, when there is too little of it to be skipped */
    size_t first;       /* isotopologues before it are out of reach for good */
} grid;

static void advance_state(grid *g)
{
    double reach = g->iso->reach * g->sigma;
    if (g->x > g->m[g->p].mass + reach)
        g->gap = true;
    if (g->gap && g->p + 1 < g->n && g->x >= g->m[g->p + 1].mass - reach) {
        g->gap = false;
        g->p++;
        g->sigma = sigma_at(&g->iso->settings, g->m[g->p].mass, g->base);
    }
    g->zeros = g->gap ? g->zeros + 1 : 0;
}

/* In a gap every sample is 0 and x grows by the step. Within one power of two each addition of
 * the step adds the same multiple of x's last place, so that k additions are one multiplication
 * and one addition, both exact. Leaves at least a window of zeros on both sides. */
static void skip_gap(grid *g)
{
    if (g->zeros < WINDOW || g->p + 1 >= g->n || g->x < g->near)
        return;
    double target = g->m[g->p + 1].mass - g->iso->reach * g->sigma;
    double inc = (g->x + g->step) - g->x;
    int exponent;
    (void)frexp(g->x, &exponent);
    double end = fmin(target, ldexp(1, exponent)), ulp = ldexp(1, exponent - 53);
    if (inc <= 0 || fabs(g->step - inc) == ulp / 2)
        return; /* a tie is rounded now up, now down */
    double k = floor((end - g->x) / inc) - 2 * WINDOW;
    if (k < 1) {
        g->near = end; /* nor will there be anything to skip before it */
        return;
    }
    g->x += k * inc;
    g->n_samples += (uint64_t)k;
}

/* The next abscissa, or false at the end. */
static bool next_sample(grid *g)
{
    if (g->n_samples < WINDOW) {
        g->x = g->start + ((double)g->n_samples - CENTRE) * g->step;
        advance_state(g);
        g->n_samples++;
        return true;
    }
    g->step = g->sigma * TG_SIGMA_TO_FWHM / 25;
    skip_gap(g);
    double x = g->x + g->step;
    if (x > g->m[g->n - 1].mass + g->iso->reach * g->sigma)
        return false;
    g->x = x;
    advance_state(g);
    g->n_samples++;
    return true;
}

/* Within reach of the isotopologue that sigma is of nothing changes but x: samples up to where
 * that ends, as next_sample() would make them. Returns where the room ends. */
static size_t next_samples(tg_isotope *iso, grid *g, size_t n)
{
    if (g->gap || g->n_samples < WINDOW)
        return n;
    const double step = g->sigma * TG_SIGMA_TO_FWHM / 25, inverse = 1 / g->sigma;
    const double end = g->m[g->p].mass + iso->reach * g->sigma;
    const size_t first = n;
    double x = g->x + step;
    for (; n < CHUNK && x <= end; x += step) {
        iso->x[n] = x;
        iso->inverse_sigma[n++] = inverse;
    }
    if (n > first) {
        g->x = iso->x[n - 1];
        g->n_samples += n - first;
        g->step = step;
        g->zeros = 0;
    }
    return n;
}

/* Sum the isotopologues felt by samples [from, to). */
static void fill_values(tg_isotope *iso, grid *g, size_t from, size_t to)
{
    double min_inverse = INFINITY;
    memset(iso->y + from, 0, (to - from) * sizeof *iso->y);
    for (size_t k = from; k < to; k++)
        min_inverse = iso->inverse_sigma[k] < min_inverse ? iso->inverse_sigma[k] : min_inverse;
    double reach = iso->reach / min_inverse * (1 + 1e-12);
    while (g->first < g->n && g->m[g->first].mass + reach < iso->x[from])
        g->first++;
    size_t lo = from, hi = from;
    for (size_t i = g->first; i < g->n && g->m[i].mass - reach <= iso->x[to - 1]; i++) {
        double m = g->m[i].mass;
        while (lo < to && iso->x[lo] < m - reach)
            lo++;
        if (hi < lo)
            hi = lo;
        while (hi < to && iso->x[hi] <= m + reach)
            hi++;
        iso->add(iso->y + lo, iso->x + lo, iso->inverse_sigma + lo, hi - lo, m,
                 g->m[i].intensity, iso->max_exponent);
    }
}

/* --- Peaks -------------------------------------------------------------------------- */

typedef struct best {
    uint32_t n;
    double mz[TG_MAX_CENTROIDS], height[TG_MAX_CENTROIDS]; /* by falling height */
} best;

static void keep_if_best(best *b, double mz, double height)
{
    uint32_t k = b->n;
    while (k > 0 && b->height[k - 1] < height) /* equal heights: the lower m/z stays in front */
        k--;
    if (k == TG_MAX_CENTROIDS)
        return;
    uint32_t last = b->n < TG_MAX_CENTROIDS ? b->n++ : TG_MAX_CENTROIDS - 1;
    for (uint32_t i = last; i > k; i--) {
        b->mz[i] = b->mz[i - 1];
        b->height[i] = b->height[i - 1];
    }
    b->mz[k] = mz;
    b->height[k] = height;
}

/* x and y are a window; its centre is a peak. The valley to the left belongs to it, that to the
 * right does not. */
static void take_centroid(best *b, const double *x, const double *y)
{
    int left = CENTRE, right = CENTRE + 1;
    while (left > 0 && y[left - 1] < y[left])
        left--;
    while (right < WINDOW - 1 && y[right + 1] <= y[right])
        right++;
    if (right == WINDOW - 1)
        right++; /* fell to the end of the window */
    double sum = 0, weighted = 0, height = 0;
    for (int k = left; k < right; k++) {
        sum += y[k];
        weighted += x[k] * y[k];
        height = y[k] > height ? y[k] : height;
    }
    keep_if_best(b, weighted / sum, height);
}

static void find_peaks(best *b, const double *x, const double *y, size_t n)
{
    for (size_t c = CENTRE; c + CENTRE < n; c++)
        if (y[c - 1] < y[c] && y[c] >= y[c + 1] && y[c] >= MIN_HEIGHT)
            take_centroid(b, x + c - CENTRE, y + c - CENTRE);
}

/* --- The first centroid ------------------------------------------------------------------ */

/* The most peaks that isotopologues from i on can still make above a height: a cluster of them,
 * that is those within reach of each other, is never higher than its sum, has no more peaks
 * than members, and only one if they lie within two sigmas. */
static uint32_t most_above(const grid *g, size_t i, double height)
{
    double reach = 2 * g->iso->reach;
    uint32_t n = 0;

    while (i < g->n) {
        double sigma = sigma_at(&g->iso->settings, g->m[i].mass, g->base);
        double first = g->m[i].mass, last = first, sum = 0;
        uint32_t members = 0;
        for (; i < g->n && g->m[i].mass - last <= reach * sigma * (1 + 1e-3); i++) {
            last = g->m[i].mass;
            sum += g->m[i].intensity;
            members++;
        }
        if (sum * (1 + 1e-9) > height)
            n += last - first <= 2 * sigma ? 1 : members;
    }
    return n;
}

static double sum_from(const grid *g, size_t i)
{
    double sum = 0;
    for (; i < g->n; i++)
        sum += g->m[i].intensity;
    return sum;
}

/* Between clusters: is the lowest of the best peaks so far sure to be the first centroid? What
 * fell out of the best four never comes back, and what is to come lies higher. */
static bool first_is_certain(const grid *g, const best *b, double *mz)
{
    uint32_t low = 0;
    if (b->n == 0)
        return false;
    for (uint32_t k = 1; k < b->n; k++)
        if (b->mz[k] < b->mz[low])
            low = k;
    double rest = sum_from(g, g->p + 1);
    double top = b->height[0] > rest ? b->height[0] : rest;
    if (b->height[low] < MIN_HEIGHT * top * (1 + 1e-9))
        return false;
    *mz = b->mz[low];
    return low + most_above(g, g->p + 1, b->height[low]) < TG_MAX_CENTROIDS;
}

/* TG_CLOSED: nothing is seen there. */
static tg_status ask_first(tg_isotope *iso, const grid *g, const best *b, tg_error *err)
{
    double mz;
    bool seen = true;
    if (iso->ask.seen == NULL || !first_is_certain(g, b, &mz))
        return TG_OK;
    tg_seen_fn fn = iso->ask.seen;
    iso->ask.seen = NULL;
    TG_TRY(fn(iso->ask.user, mz + iso->ask.shift, &seen, err));
    iso->ask.left = !seen;
    return seen ? TG_OK : TG_CLOSED;
}

/* Samples up to the end of the room; where somebody is to be asked, up to the end of a
 * cluster. */
static size_t take_samples(tg_isotope *iso, grid *g, size_t n, bool *more, bool *cluster_ends)
{
    *cluster_ends = false;
    while ((n = next_samples(iso, g, n)) < CHUNK && !*cluster_ends &&
           (*more = next_sample(g))) {
        iso->x[n] = g->x;
        iso->inverse_sigma[n] = 1 / g->sigma;
        n++;
        *cluster_ends = iso->ask.seen != NULL && g->zeros == WINDOW && g->p + 1 < g->n;
    }
    return n;
}

static tg_status sample_profile(tg_isotope *iso, grid *g, best *b, tg_error *err)
{
    size_t n = 0; /* samples in the room; those carried over come first */
    bool cluster_ends;
    for (bool more = true; more;) {
        size_t from = n;
        n = take_samples(iso, g, n, &more, &cluster_ends);
        if (g->n_samples > MAX_STEPS)
            return tg_fail(err, TG_UNSUPPORTED,
                           "profile takes more than %u steps: peaks are too narrow", MAX_STEPS);
        if (n > from)
            fill_values(iso, g, from, n);
        find_peaks(b, iso->x, iso->y, n);
        if (cluster_ends)
            TG_TRY(ask_first(iso, g, b, err));
        if (more) {
            size_t keep = WINDOW - 1;
            memmove(iso->x, iso->x + n - keep, keep * sizeof *iso->x);
            memmove(iso->y, iso->y + n - keep, keep * sizeof *iso->y);
            n = keep;
        }
    }
    return TG_OK;
}

/* --- Centroids ------------------------------------------------------------------------ */

static void finish(const best *b, tg_centroids *out)
{
    *out = (tg_centroids){0};
    for (uint32_t i = 0; i < b->n; i++) {
        double intensity = b->height[i] / b->height[0];
        if (intensity < MIN_HEIGHT)
            break;
        uint32_t k = out->n++;
        for (; k > 0 && out->mz[k - 1] > b->mz[i]; k--) {
            out->mz[k] = out->mz[k - 1];
            out->intensity[k] = out->intensity[k - 1];
        }
        out->mz[k] = b->mz[i];
        out->intensity[k] = intensity * 100;
    }
}

/* The pattern's masses become m/z, in place. */
static double charge_masses(const tg_isotope_settings *s, tg_isotopologue *m, size_t n)
{
    double electrons = s->charge * TG_ELECTRON_MASS;
    double divide = s->divide_by_charge && s->charge != 0 ? fabs((double)s->charge) : 1;
    double base = 0, top = -1;
    for (size_t i = 0; i < n; i++) {
        m[i].mass = (m[i].mass - electrons) / divide;
        if (m[i].intensity > top) {
            top = m[i].intensity;
            base = m[i].mass;
        }
    }
    return base;
}

static tg_status profile_centroids(tg_isotope *iso, tg_isotopologue *m, size_t n,
                                   tg_centroids *out, tg_error *err)
{
    grid g = {.iso = iso, .m = m, .n = n};
    best b = {0};

    g.base = charge_masses(&iso->settings, m, n);
    if (m[0].mass <= 0)
        return tg_fail(err, TG_INVALID, "an ion of no mass");
    if (n == 1) {
        *out = (tg_centroids){1, {m[0].mass}, {100}};
        return TG_OK;
    }
    g.sigma = sigma_at(&iso->settings, m[0].mass, g.base);
    g.step = g.sigma * TG_SIGMA_TO_FWHM / 25;
    g.start = m[0].mass - iso->reach * g.sigma;
    TG_TRY(sample_profile(iso, &g, &b, err));
    if (b.n == 0)
        return tg_fail(err, TG_UNSUPPORTED, "profile has no peak");
    finish(&b, out);
    return TG_OK;
}

static double label_shift(const tg_isotope *iso, const tg_atoms *atoms)
{
    double mass = 0;
    for (int i = 0; i < TG_N_LABELS; i++)
        mass += atoms->labels[i] * tg_label_mass(i);
    int z = iso->settings.charge == 0 ? 1 : iso->settings.charge;
    return mass / fabs((double)z);
}

tg_status tg_isotope_centroids(tg_isotope *iso, const char *ion, tg_centroids *out,
                               tg_error *err)
{
    bool left;
    return tg_isotope_centroids_seen(iso, ion, NULL, NULL, out, &left, err);
}

tg_status tg_isotope_centroids_seen(tg_isotope *iso, const char *ion, tg_seen_fn seen,
                                    void *user, tg_centroids *out, bool *left, tg_error *err)
{
    tg_atoms atoms;
    tg_isotopologue *list;
    tg_centroids c;
    size_t n;

    *left = false;
    tg_status st = tg_atoms_parse(&atoms, ion, err);
    if (st == TG_OK && atoms.n == 0)
        return tg_fail(err, TG_INVALID, "'%.80s': labelled atoms only", ion);
    if (st == TG_OK)
        st = tg_pattern_list(iso->pattern, &atoms, &list, &n, err);
    if (st == TG_OK) {
        iso->ask = (asking){seen, user, label_shift(iso, &atoms), false};
        st = profile_centroids(iso, list, n, &c, err);
    }
    *left = st == TG_CLOSED && iso->ask.left;
    if (*left)
        return TG_OK;
    if (st != TG_OK) {
        tg_error_prefix(err, "ion %.80s", ion);
        return st;
    }
    for (uint32_t i = 0; i < c.n; i++)
        c.mz[i] += iso->ask.shift;
    *out = c;
    return TG_OK;
}

static tg_status check_settings(const tg_isotope_settings *s, tg_error *err)
{
    if (s->version != 1 && s->version != 3)
        return tg_fail(err, TG_INVALID, "isotope version %d: want 1 or 3", s->version);
    if (!(s->sigma > 0) || !isfinite(s->sigma))
        return tg_fail(err, TG_INVALID, "sigma %g: want a number above 0", s->sigma);
    return TG_OK;
}

tg_status tg_isotope_new(tg_isotope **out, const tg_isotope_settings *settings, tg_error *err)
{
    TG_TRY(check_settings(settings, err));
    TG_AUTO_PTR(tg_isotope) iso = tg_calloc(1, sizeof *iso);
    if (iso == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for isotope tables");
    iso->settings = *settings;
    iso->reach = settings->version == 1 ? 12 : 6;
    iso->max_exponent = iso->reach * iso->reach / 2;
    iso->add = choose_add();
    TG_TRY(tg_pattern_new(&iso->pattern, err));
    *out = tg_steal(iso);
    return TG_OK;
}

void tg_isotope_free(tg_isotope *iso)
{
    if (iso == NULL)
        return;
    tg_pattern_free(iso->pattern);
    tg_free(iso);
}
