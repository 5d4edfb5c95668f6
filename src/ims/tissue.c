/* ims/tissue.c - draws a tissue and the peaks of its pixels. */
#include "ims/tissue.h"

#include "chem/isotope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MZ_LEAST        100.0
#define MZ_MOST         1000.0
#define DETECTION_LIMIT 300.0
#define JITTER_PPM      0.7
#define PIXEL_SPREAD    0.25 /* of the logarithm of an ion's amount */
#define ISOTOPE_SPREAD  0.06
#define ISOTOPE_STEP    1.00335
#define SIGMA           .001238
#define N_SHAPES        6

const char *const tg_tissue_adducts[3] = {"+H", "+Na", "+K"};

/* xoshiro256++ of Blackman and Vigna, seeded by splitmix64. */
typedef struct generator {
    uint64_t s[4];
    double spare; /* a normal number that is left over */
    bool has_spare;
} generator;

/* Peaks that look like the isotopes of something, in a small disc. */
typedef struct family {
    double mz, amplitude, carbons;
    double x, y, radius; /* 0 to 1 */
    uint32_t axis;       /* place of its first peak */
} family;

struct tg_tissue {
    tg_tissue_options o;
    tg_planted *planted;
    uint32_t *planted_axis;
    family *families;
    uint32_t *near; /* families that reach the row */
    uint32_t n_near, row;
    tg_peak *peaks, *scratch;
    size_t n, cap;
    double *axis;
    size_t n_axis, noise_axis; /* noise lies on the axis behind it */
    uint32_t *place;           /* of an axis entry as drawn, in the sorted axis */
};

/* --- Numbers -------------------------------------------------------------------------- */

static uint64_t split(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static generator generator_of(uint64_t seed, uint64_t what)
{
    generator g = {.spare = 0};
    uint64_t state = seed ^ (what * 0xd1342543de82ef95u);
    for (int i = 0; i < 4; i++)
        g.s[i] = split(&state);
    return g;
}

static uint64_t rotate(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static uint64_t draw(generator *g)
{
    uint64_t r = rotate(g->s[0] + g->s[3], 23) + g->s[0], t = g->s[1] << 17;
    g->s[2] ^= g->s[0];
    g->s[3] ^= g->s[1];
    g->s[1] ^= g->s[2];
    g->s[0] ^= g->s[3];
    g->s[2] ^= t;
    g->s[3] = rotate(g->s[3], 45);
    return r;
}

/* 0 to below 1 */
static double uniform(generator *g)
{
    return (double)(draw(g) >> 11) * 0x1p-53;
}

static uint32_t below(generator *g, uint32_t n)
{
    return (uint32_t)((draw(g) >> 32) * n >> 32);
}

static double normal(generator *g)
{
    if (g->has_spare) {
        g->has_spare = false;
        return g->spare;
    }
    double r = sqrt(-2 * log(1 - uniform(g))), a = 6.283185307179586 * uniform(g);
    g->spare = r * sin(a);
    g->has_spare = true;
    return r * cos(a);
}

static double log_uniform(generator *g, double from, double to)
{
    return pow(10, from + (to - from) * uniform(g));
}

/* --- What is planted -------------------------------------------------------------------- */

static tg_status make_ion(tg_planted *p, tg_isotope *isotope, tg_error *err)
{
    tg_formula f;
    tg_modifier modifier;
    tg_centroids c;

    TG_TRY(tg_formula_parse(&f, tg_tissue_formulas[p->formula], false, err));
    TG_TRY(tg_modifier_parse(&modifier, tg_tissue_adducts[p->adduct], err));
    TG_TRY(tg_ion_formula(&f, &modifier, p->ion, sizeof p->ion, err));
    TG_TRY(tg_isotope_centroids(isotope, p->ion, &c, err));
    p->n = c.n;
    for (uint32_t k = 0; k < c.n; k++) {
        p->mz[k] = c.mz[k];
        p->share[k] = c.intensity[k] / 100;
    }
    return TG_OK;
}

/* Without repetition: the first places of a shuffle. */
static tg_status plant(tg_tissue *m, tg_error *err)
{
    uint16_t order[3 * TG_N_TISSUE_FORMULAS];
    generator g = generator_of(m->o.seed, 1);
    TG_AUTO_PTR(tg_isotope) isotope = NULL;
    tg_isotope_settings settings = {
        .version = 3, .instrument = TG_ORBITRAP, .sigma = SIGMA, .charge = 1};

    TG_TRY(tg_isotope_new(&isotope, &settings, err));
    for (uint32_t i = 0; i < 3 * TG_N_TISSUE_FORMULAS; i++)
        order[i] = (uint16_t)i;
    for (uint32_t i = 0; i < m->o.planted; i++) {
        uint32_t k = i + below(&g, 3 * TG_N_TISSUE_FORMULAS - i);
        uint16_t swap = order[i];
        order[i] = order[k];
        order[k] = swap;
        m->planted[i] = (tg_planted){.formula = order[i] / 3,
                                     .adduct = order[i] % 3,
                                     .shape = i % N_SHAPES,
                                     .amplitude = log_uniform(&g, 2.75, 5)};
        TG_TRY(make_ion(&m->planted[i], isotope, err));
    }
    return TG_OK;
}

static void draw_families(tg_tissue *m)
{
    generator g = generator_of(m->o.seed, 2);
    for (uint32_t i = 0; i < m->o.families; i++) {
        family *f = &m->families[i];
        f->mz = MZ_LEAST + (MZ_MOST - MZ_LEAST) * uniform(&g);
        f->amplitude = log_uniform(&g, 2.75, 4.5);
        f->carbons = f->mz * (0.03 + 0.04 * uniform(&g));
        f->x = uniform(&g);
        f->y = uniform(&g);
        f->radius = 0.04 + 0.08 * uniform(&g);
    }
}

/* Of an isotope k of a family, to the first. */
static double family_share(const family *f, uint32_t k)
{
    double p = f->carbons * 0.0108, share = 1;
    for (uint32_t i = 1; i <= k; i++)
        share *= p / i;
    return share;
}

/* --- Where ------------------------------------------------------------------------------- */

static double disc(double u, double v, double x, double y, double r)
{
    double d = ((u - x) * (u - x) + (v - y) * (v - y)) / (r * r);
    return d < 1 ? 1 - 0.5 * d : 0;
}

/* How much of an ion there is at a place, 0 to 1. */
static double shape_at(uint32_t shape, double u, double v)
{
    double d = hypot(u - 0.5, v - 0.5);
    switch (shape) {
    case 0: /* a disc */
        return disc(u, v, 0.4, 0.45, 0.32);
    case 1: /* a ring */
        return d > 0.25 && d < 0.42 ? 1 : 0;
    case 2: /* a slope */
        return u > 0.15 ? u : 0;
    case 3: /* stripes */
        return fmod(v * 5, 1) < 0.55 ? 0.9 : 0;
    case 4: /* two spots */
        return disc(u, v, 0.3, 0.3, 0.2) + disc(u, v, 0.7, 0.72, 0.22);
    default: /* a half, with a hole */
        return v > 0.4 && d > 0.12 ? 0.8 : 0;
    }
}

bool tg_tissue_has_pixel(const tg_tissue *m, uint32_t x, uint32_t y)
{
    uint32_t w = m->o.width / 8, h = m->o.height / 8; /* a triangle of a corner is missing */
    if (w == 0 || h == 0)
        return true;
    return (uint64_t)(m->o.width - 1 - x) * h + (uint64_t)y * w >= (uint64_t)w * h;
}

/* --- A pixel ------------------------------------------------------------------------------ */

static void add_peak(tg_tissue *m, double mz, double intensity, uint32_t drawn)
{
    if (m->n < m->cap && intensity >= DETECTION_LIMIT)
        m->peaks[m->n++] = (tg_peak){tg_peak_key(mz), (float)intensity,
                                     m->place != NULL ? m->place[drawn] : 0};
}

static double moved(const tg_tissue *m, generator *g, double mz)
{
    return m->o.continuous ? mz : mz * (1 + JITTER_PPM * 1e-6 * normal(g));
}

static void add_planted(tg_tissue *m, generator *g, double u, double v)
{
    for (uint32_t i = 0; i < m->o.planted; i++) {
        const tg_planted *p = &m->planted[i];
        double amount = p->amplitude * shape_at(p->shape, u, v);
        if (amount < DETECTION_LIMIT / 4)
            continue;
        amount *= exp(PIXEL_SPREAD * normal(g));
        for (uint32_t k = 0; k < p->n; k++)
            add_peak(m, moved(m, g, p->mz[k]),
                     amount * p->share[k] * exp(ISOTOPE_SPREAD * normal(g)),
                     m->planted_axis != NULL ? m->planted_axis[i] + k : 0);
    }
}

static void find_near(tg_tissue *m, uint32_t row)
{
    double v = (row + 0.5) / m->o.height;
    if (m->row == row)
        return;
    m->row = row;
    m->n_near = 0;
    for (uint32_t i = 0; i < m->o.families; i++)
        if (fabs(m->families[i].y - v) < m->families[i].radius)
            m->near[m->n_near++] = i;
}

static void add_families(tg_tissue *m, generator *g, double u, double v)
{
    for (uint32_t i = 0; i < m->n_near; i++) {
        const family *f = &m->families[m->near[i]];
        double amount = f->amplitude * disc(u, v, f->x, f->y, f->radius);
        if (amount < DETECTION_LIMIT / 4)
            continue;
        amount *= exp(PIXEL_SPREAD * normal(g));
        for (uint32_t k = 0; k < TG_TISSUE_ISOTOPES; k++)
            add_peak(m, moved(m, g, f->mz + k * ISOTOPE_STEP),
                     amount * family_share(f, k) * exp(ISOTOPE_SPREAD * normal(g)),
                     f->axis + k);
    }
}

static void add_noise(tg_tissue *m, generator *g)
{
    uint32_t n = m->o.noise;
    if (m->o.fill > m->n + n)
        n = m->o.fill - (uint32_t)m->n;
    for (uint32_t i = 0; i < n; i++) {
        double r = uniform(g), intensity = DETECTION_LIMIT * (1 + 9 * r * r * r);
        if (m->o.continuous) {
            uint32_t k =
                (uint32_t)m->noise_axis + below(g, (uint32_t)(m->n_axis - m->noise_axis));
            add_peak(m, m->axis[m->place[k]], intensity, k);
        } else {
            add_peak(m, MZ_LEAST + (MZ_MOST - MZ_LEAST) * uniform(g), intensity, 0);
        }
    }
}

void tg_tissue_pixel(tg_tissue *m, uint32_t x, uint32_t y, uint32_t layer,
                     const tg_peak **peaks, size_t *n)
{
    double u = (x + 0.5) / m->o.width, v = (y + 0.5) / m->o.height;
    uint64_t pixel = ((uint64_t)layer * m->o.height + y) * m->o.width + x;
    generator g = generator_of(m->o.seed, 16 + pixel);

    m->n = 0;
    find_near(m, y);
    add_planted(m, &g, u, v);
    add_families(m, &g, u, v);
    add_noise(m, &g);
    tg_peaks_sort(m->peaks, m->scratch, m->n);
    *peaks = m->peaks;
    *n = m->n;
}

/* --- The axis of continuous data -----------------------------------------------------------
 */

static size_t axis_length(const tg_tissue_options *o)
{
    return ((size_t)o->planted + o->families) * TG_TISSUE_ISOTOPES + 8 * (size_t)o->noise + 1;
}

/* Entries as they are drawn in m->peaks' records; sorted, each knows where it came from. */
static tg_status make_axis(tg_tissue *m, tg_error *err)
{
    size_t n = axis_length(&m->o), at = 0;
    generator g = generator_of(m->o.seed, 3);

    m->planted_axis = tg_alloc_array(m->o.planted + 1, sizeof *m->planted_axis);
    m->axis = tg_alloc_array(n, sizeof *m->axis);
    m->place = tg_alloc_array(n, sizeof *m->place);
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array(2 * n, sizeof(tg_peak));
    tg_peak *entries = room;
    if (m->planted_axis == NULL || m->axis == NULL || m->place == NULL || entries == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for an axis of %zu", n);
    for (uint32_t i = 0; i < m->o.planted; i++) {
        m->planted_axis[i] = (uint32_t)at;
        for (uint32_t k = 0; k < m->planted[i].n; k++)
            entries[at++].key = tg_peak_key(m->planted[i].mz[k]);
    }
    for (uint32_t i = 0; i < m->o.families; i++) {
        m->families[i].axis = (uint32_t)at;
        for (uint32_t k = 0; k < TG_TISSUE_ISOTOPES; k++)
            entries[at++].key = tg_peak_key(m->families[i].mz + k * ISOTOPE_STEP);
    }
    m->noise_axis = at;
    while (at < n)
        entries[at++].key = tg_peak_key(MZ_LEAST + (MZ_MOST - MZ_LEAST) * uniform(&g));
    m->n_axis = at;
    for (size_t i = 0; i < at; i++) {
        entries[i].intensity = 0;
        entries[i].pixel = (uint32_t)i;
    }
    tg_peaks_sort(entries, entries + n, at);
    for (size_t i = 0; i < at; i++) {
        m->axis[i] = tg_peak_mz(entries[i].key);
        m->place[entries[i].pixel] = (uint32_t)i;
    }
    return TG_OK;
}

const double *tg_tissue_axis(const tg_tissue *m, size_t *n)
{
    *n = m->n_axis;
    return m->axis;
}

const tg_planted *tg_tissue_planted(const tg_tissue *m, uint32_t i)
{
    return &m->planted[i];
}

/* --- Life ------------------------------------------------------------------------------------
 */

/* Of one pixel, were all of it there at once. */
static size_t most_peaks(const tg_tissue_options *o)
{
    size_t n = ((size_t)o->planted + o->families) * TG_TISSUE_ISOTOPES + o->noise;
    return n > o->fill ? n : (size_t)o->fill;
}

uint64_t tg_tissue_bytes(const tg_tissue_options *o)
{
    uint64_t n = 2 * (uint64_t)most_peaks(o) * sizeof(tg_peak) +
                 (uint64_t)o->planted * (sizeof(tg_planted) + 4) +
                 (uint64_t)o->families * (sizeof(family) + 4) + TG_ISOTOPE_CONTEXT_BYTES;
    return n + (o->continuous ? axis_length(o) * (12 + 2 * sizeof(tg_peak)) : 0) + 4096;
}

static tg_status check_options(const tg_tissue_options *o, tg_error *err)
{
    const uint32_t most = 1 << 24;
    if (o->width == 0 || o->height == 0 || o->width > 65536 || o->height > 65536)
        return tg_fail(err, TG_INVALID, "%u x %u pixels: want 1 to 65536", o->width, o->height);
    if (o->planted > 3 * TG_N_TISSUE_FORMULAS)
        return tg_fail(err, TG_INVALID, "%u planted ions: there are %d", o->planted,
                       3 * TG_N_TISSUE_FORMULAS);
    if (o->families > most || o->noise > most || o->fill > most)
        return tg_fail(err, TG_INVALID, "more than %u families or peaks in a pixel", most);
    return TG_OK;
}

tg_status tg_tissue_new(tg_tissue **out, const tg_tissue_options *options, tg_error *err)
{
    TG_TRY(check_options(options, err));
    TG_AUTO_PTR(tg_tissue) m = tg_calloc(1, sizeof *m);
    if (m == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for made-up data");
    m->o = *options;
    m->row = UINT32_MAX;
    m->cap = most_peaks(options);
    m->planted = tg_calloc(options->planted + 1, sizeof *m->planted);
    m->families = tg_calloc(options->families + 1, sizeof *m->families);
    m->near = tg_alloc_array(options->families + 1, sizeof *m->near);
    m->peaks = tg_alloc_array(m->cap + 1, sizeof *m->peaks);
    m->scratch = tg_alloc_array(m->cap + 1, sizeof *m->scratch);
    if (m->planted == NULL || m->families == NULL || m->near == NULL || m->peaks == NULL ||
        m->scratch == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu peaks", m->cap);
    TG_TRY(plant(m, err));
    draw_families(m);
    if (options->continuous)
        TG_TRY(make_axis(m, err));
    *out = tg_steal(m);
    return TG_OK;
}

void tg_tissue_free(tg_tissue *m)
{
    if (m == NULL)
        return;
    tg_free(m->planted);
    tg_free(m->planted_axis);
    tg_free(m->families);
    tg_free(m->near);
    tg_free(m->peaks);
    tg_free(m->scratch);
    tg_free(m->axis);
    tg_free(m->place);
    tg_free(m);
}
