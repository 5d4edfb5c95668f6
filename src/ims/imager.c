/* ims/imager.c - windows of the sorted peaks to sparse images, and images to scores. Compiled
 * without contraction: what lies in a window must not depend on the machine. */
#include "ims/imager.h"

#include <math.h>
#include <string.h>

#define MARGIN                                                                     \
    2 /* empty rows that stay beside an occupied one: dilation and erosion reach 1 \
       */

typedef struct axis {
    uint32_t n;         /* of the box */
    uint32_t *place;    /* of a row in the small image, for the kept ones */
    uint32_t *occupied; /* epoch in which it last was */
} axis;

struct tg_imager {
    tg_peaks *peaks;
    const tg_peaks_info *info;
    tg_imager_options options;
    tg_isotope *isotope;
    tg_chaos *chaos;
    /* a sparse set of pixels: slot_of[p] < n && touched[slot_of[p]] == p */
    uint32_t *slot_of, *touched;
    size_t n;
    float *values[TG_N_IMAGES];
    uint64_t n_entries[TG_N_IMAGES]; /* peaks of each image */
    float *small;                    /* image 0, its empty rows and columns left out */
    axis rows, columns;
    uint32_t epoch;
};

size_t tg_imager_bytes(const tg_peaks_info *info)
{
    size_t chaos = tg_chaos_bytes(info->height, info->width);
    if (chaos == SIZE_MAX)
        return SIZE_MAX;
    return chaos + (size_t)info->width * info->height * sizeof(float) +
           info->n_pixels * (2 * sizeof(uint32_t) + TG_N_IMAGES * sizeof(float)) +
           ((size_t)info->width + info->height) * 2 * sizeof(uint32_t) +
           TG_ISOTOPE_CONTEXT_BYTES;
}

static bool axis_new(axis *a, uint32_t n)
{
    a->n = n;
    a->place = tg_alloc_array(n, sizeof *a->place);
    a->occupied = tg_calloc(n, sizeof *a->occupied);
    return a->place != NULL && a->occupied != NULL;
}

static bool take_room(tg_imager *m)
{
    size_t n = m->info->n_pixels;
    bool good = axis_new(&m->rows, m->info->height);
    good = axis_new(&m->columns, m->info->width) && good;
    m->slot_of = tg_calloc(n, sizeof *m->slot_of);
    m->touched = tg_calloc(n, sizeof *m->touched);
    good = good && m->slot_of != NULL && m->touched != NULL;
    for (int k = 0; k < TG_N_IMAGES; k++) {
        m->values[k] = tg_alloc_array(n, sizeof(float));
        good = good && m->values[k] != NULL;
    }
    m->small = tg_alloc_array((size_t)m->info->width * m->info->height, sizeof(float));
    return good && m->small != NULL;
}

tg_status tg_imager_new(tg_imager **out, tg_peaks *peaks, const tg_imager_options *options,
                        tg_error *err)
{
    TG_AUTO_PTR(tg_imager) m = tg_calloc(1, sizeof *m);
    if (m == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for ion images");
    m->peaks = peaks;
    m->info = tg_peaks_get_info(peaks);
    m->options = *options;
    TG_TRY(tg_isotope_new(&m->isotope, &options->isotope, err));
    TG_TRY(tg_chaos_new(&m->chaos, m->info->height, m->info->width, err));
    if (!take_room(m))
        return tg_fail(err, TG_NO_MEMORY, "no memory for ion images of %llu pixels",
                       (unsigned long long)m->info->n_pixels);
    *out = tg_steal(m);
    return TG_OK;
}

static void axis_free(axis *a)
{
    tg_free(a->place);
    tg_free(a->occupied);
}

void tg_imager_free(tg_imager *m)
{
    if (m == NULL)
        return;
    tg_isotope_free(m->isotope);
    tg_chaos_free(m->chaos);
    axis_free(&m->rows);
    axis_free(&m->columns);
    tg_free(m->slot_of);
    tg_free(m->touched);
    for (int k = 0; k < TG_N_IMAGES; k++)
        tg_free(m->values[k]);
    tg_free(m->small);
    tg_free(m);
}

tg_status tg_imager_centroids(tg_imager *m, const char *ion, tg_centroids *out, tg_error *err)
{
    return tg_isotope_centroids(m->isotope, ion, out, err);
}

/* --- Extraction --------------------------------------------------------------------------- */

/* First peak not below x. */
static size_t lower_bound(const double *mz, size_t n, double x)
{
    size_t lo = 0;
    while (n > 0) {
        size_t half = n / 2;
        if (mz[lo + half] < x) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo;
}

/* First peak above x. */
static size_t upper_bound(const double *mz, size_t n, double x)
{
    size_t lo = 0;
    while (n > 0) {
        size_t half = n / 2;
        if (mz[lo + half] <= x) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo;
}

typedef void (*window_fn)(void *user, const tg_peak_view *v, size_t from, size_t to);

/* Both ends of a window belong to it. A window is one range of the one sorted sequence,
 * wherever the segments are cut. */
static tg_status each_peak(tg_imager *m, double mz, window_fn fn, void *user,
                           const tg_cancel *cancel, tg_error *err)
{
    double half = mz * m->options.ppm * 1e-6, lower = mz - half, upper = mz + half;
    uint32_t first, end;

    tg_peaks_segments(m->peaks, lower, upper, &first, &end);
    for (uint32_t s = first; s < end; s++) {
        tg_peak_view v;
        TG_TRY(tg_peaks_pin(m->peaks, s, &v, cancel, err));
        size_t from = lower_bound(v.mz, v.n, lower), to = upper_bound(v.mz, v.n, upper);
        if (from < to)
            fn(user, &v, from, to);
        tg_peaks_unpin(m->peaks, &v);
    }
    return TG_OK;
}

typedef struct looking {
    tg_imager *m;
    uint64_t n;
    const tg_cancel *cancel;
} looking;

static void count_peaks(void *user, const tg_peak_view *v, size_t from, size_t to)
{
    looking *l = user;
    (void)v;
    l->n += to - from;
}

static tg_status is_seen(void *user, double mz, bool *seen, tg_error *err)
{
    looking *l = user;
    TG_TRY(each_peak(l->m, mz, count_peaks, l, l->cancel, err));
    *seen = l->n > 0 && l->n >= l->m->options.min_px;
    return TG_OK;
}

tg_status tg_imager_centroids_seen(tg_imager *m, const char *ion, tg_centroids *out, bool *left,
                                   const tg_cancel *cancel, tg_error *err)
{
    looking l = {m, 0, cancel};
    return tg_isotope_centroids_seen(m->isotope, ion, is_seen, &l, out, left, err);
}

typedef struct adding {
    tg_imager *m;
    int k;
} adding;

static void add_peaks(void *user, const tg_peak_view *v, size_t from, size_t to)
{
    adding *a = user;
    tg_imager *m = a->m;
    float *values = m->values[a->k];

    for (size_t i = from; i < to; i++) {
        uint32_t p = v->pixel[i], slot = m->slot_of[p];
        if (slot >= m->n || m->touched[slot] != p) {
            slot = (uint32_t)m->n++;
            m->slot_of[p] = slot;
            m->touched[slot] = p;
            for (int k = 0; k < TG_N_IMAGES; k++)
                m->values[k][slot] = 0;
        }
        values[slot] += v->intensity[i];
    }
    m->n_entries[a->k] += to - from;
}

tg_status tg_imager_extract(tg_imager *m, const tg_centroids *c, bool early,
                            const tg_cancel *cancel, tg_error *err)
{
    m->n = 0;
    memset(m->n_entries, 0, sizeof m->n_entries);
    for (uint32_t k = 0; k < c->n; k++) {
        adding a = {m, (int)k};
        TG_TRY(each_peak(m, c->mz[k], add_peaks, &a, cancel, err));
        if (m->n_entries[k] < m->options.min_px) {
            for (size_t i = 0; i < m->n; i++)
                m->values[k][i] = 0;
            m->n_entries[k] = 0;
        }
        if (early && k == 0 && m->n_entries[0] == 0)
            return TG_OK;
    }
    return TG_OK;
}

size_t tg_imager_pixels(const tg_imager *m, const uint32_t **pixels)
{
    *pixels = m->touched;
    return m->n;
}

const float *tg_imager_image(const tg_imager *m, int k)
{
    return m->n_entries[k] > 0 ? m->values[k] : NULL;
}

/* --- Scores ---------------------------------------------------------------------------------
 */

/* Number the rows that hold something and those beside them. */
static uint32_t number_kept(axis *a, uint32_t epoch)
{
    uint32_t n = 0;
    memset(a->place, 0, a->n * sizeof *a->place);
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->occupied[i] != epoch)
            continue;
        uint32_t to = i + MARGIN >= a->n ? a->n - 1 : i + MARGIN;
        for (uint32_t k = i < MARGIN ? 0 : i - MARGIN; k <= to; k++)
            a->place[k] = 1;
    }
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t kept = a->place[i];
        a->place[i] = n;
        n += kept;
    }
    return n;
}

static double chaos_of(tg_imager *m)
{
    const float *image = m->values[0];
    uint32_t width = m->info->width;
    tg_chaos_result r;

    m->epoch++;
    for (size_t i = 0; i < m->n; i++) {
        if (!(image[i] > 0))
            continue;
        uint32_t at = m->info->positions[m->touched[i]], row = at / width;
        m->rows.occupied[row] = m->epoch;
        m->columns.occupied[at - row * width] = m->epoch;
    }
    size_t h = number_kept(&m->rows, m->epoch), w = number_kept(&m->columns, m->epoch);
    memset(m->small, 0, h * w * sizeof *m->small);
    for (size_t i = 0; i < m->n; i++) {
        uint32_t at = m->info->positions[m->touched[i]], row = at / width;
        if (image[i] > 0)
            m->small[m->rows.place[row] * w + m->columns.place[at - row * width]] = image[i];
    }
    tg_chaos_measure(m->chaos, m->small, h, w, m->options.levels, m->options.fixed, &r);
    return r.score;
}

/* Sums where the first image is above 0, and pixels that are not 0. An image that is not there
 * is all 0. The four go side by side: each sum adds in the order of the pixels, whose latency
 * would be most of the time one after the other. */
static void sum_images(const tg_imager *m, double sums[TG_N_IMAGES], tg_scores *out)
{
    const float *a = m->values[0], *b = m->values[1], *c = m->values[2], *d = m->values[3];
    uint32_t n[TG_N_IMAGES] = {0};
    double sa = 0, sb = 0, sc = 0, sd = 0;

    for (size_t i = 0; i < m->n; i++) {
        bool lit = a[i] > 0;
        sa += lit ? (double)a[i] : 0;
        sb += lit ? (double)b[i] : 0;
        sc += lit ? (double)c[i] : 0;
        sd += lit ? (double)d[i] : 0;
        n[0] += a[i] != 0;
        n[1] += b[i] != 0;
        n[2] += c[i] != 0;
        n[3] += d[i] != 0;
    }
    sums[0] = sa;
    sums[1] = sb;
    sums[2] = sc;
    sums[3] = sd;
    for (int k = 0; k < TG_N_IMAGES; k++) {
        out->n_images += m->n_entries[k] > 0;
        out->n_pixels[k] = m->n_entries[k] > 0 ? n[k] : 0;
    }
}

void tg_imager_score(tg_imager *m, const tg_centroids *c, tg_scores *out)
{
    double sums[TG_N_IMAGES];
    const float *images[TG_N_IMAGES];

    *out = (tg_scores){0};
    sum_images(m, sums, out);
    if (m->n_entries[0] == 0 || out->n_images < 2)
        return; /* no complete set: a decoy is passed over, a target comes out as 0 */
    out->spectral = tg_score_spectral(sums, c->intensity);
    if (!(out->spectral > 0))
        return;
    for (int k = 0; k < TG_N_IMAGES; k++)
        images[k] = tg_imager_image(m, k);
    out->spatial = tg_score_spatial(images, m->n, m->info->n_pixels, c->intensity);
    if (!(out->spatial > 0))
        return;
    out->chaos = chaos_of(m);
    out->msm = out->chaos * out->spatial * out->spectral;
    if (!(out->msm > 0))
        out->msm = 0;
}

/* --- Statistics
 * ------------------------------------------------------------------------------- */

typedef struct moments {
    long double weight, sum;
} moments;

static void add_moments(void *user, const tg_peak_view *v, size_t from, size_t to)
{
    moments *q = user;
    for (size_t i = from; i < to; i++) {
        q->weight += v->intensity[i];
        q->sum += (long double)v->intensity[i] * (float)v->mz[i];
    }
}

static float finite(float v)
{
    return isnan(v) ? 0 : isinf(v) ? (v > 0 ? 0x1.fffffep127f : -0x1.fffffep127f) : v;
}

static void image_stats(const tg_imager *m, int k, tg_ion_stats *out)
{
    double total = 0; /* in float it would lose the last digits of large images */
    float min = m->n < m->info->n_pixels || m->n == 0 ? 0 : INFINITY, max = 0;
    for (size_t i = 0; i < m->n && m->n_entries[k] > 0; i++) {
        float v = finite(m->values[k][i]);
        total += v;
        min = v < min ? v : min;
        max = v > max ? v : max;
    }
    out->total[k] = finite((float)total);
    out->min[k] = m->n_entries[k] > 0 ? min : 0;
    out->max[k] = max;
}

tg_status tg_imager_stats(tg_imager *m, const tg_centroids *c, tg_ion_stats *out,
                          const tg_cancel *cancel, tg_error *err)
{
    double mean[TG_N_IMAGES] = {0}, weights = 0, sum = 0;

    *out = (tg_ion_stats){0};
    for (int k = 0; k < TG_N_IMAGES; k++) {
        moments q = {0, 0};
        image_stats(m, k, out);
        mean[k] = c->mz[k];
        if (m->n_entries[k] == 0)
            continue;
        TG_TRY(each_peak(m, c->mz[k], add_moments, &q, cancel, err));
        mean[k] = q.weight > 0 && isfinite(q.weight) ? (double)(q.sum / q.weight) : c->mz[k];
    }
    out->mz_err_abs = mean[0] - c->mz[0];
    for (int k = 1; k < TG_N_IMAGES; k++) {
        weights += c->intensity[k];
        sum += c->intensity[k] * (mean[k] - c->mz[k] - out->mz_err_abs);
    }
    out->mz_err_rel = weights > 0 ? sum / weights : 0;
    return TG_OK;
}
