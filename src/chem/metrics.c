/* chem/metrics.c - pattern match and image correlation. */
#include "chem/metrics.h"

#include <math.h>

static double norm(const double v[TG_N_IMAGES])
{
    double sum = 0;
    for (int k = 0; k < TG_N_IMAGES; k++)
        sum += v[k] * v[k];
    return sqrt(sum);
}

double tg_score_spectral(const double sums[TG_N_IMAGES], const double theory[TG_N_IMAGES])
{
    double t = norm(theory), s = norm(sums), off = 0;

    if (t == 0 || s == 0)
        return 0;
    for (int k = 0; k < TG_N_IMAGES; k++)
        off += fabs(theory[k] / t - sums[k] / s);
    double v = 1 - off / TG_N_IMAGES;
    /* exactly 1 is taken for degenerate: a single image that can only fit */
    return isnan(v) || v == 1 ? 0 : v;
}

/* Sums of products of what is left of the means; pixels that were never touched lie at -mean.
 */
static double correlation(const float *a, const float *b, size_t n, double n_pixels)
{
    double sum_a = 0, sum_b = 0, ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < n; i++) {
        sum_a += a[i];
        sum_b += b[i];
    }
    double mean_a = sum_a / n_pixels, mean_b = sum_b / n_pixels, rest = n_pixels - (double)n;
    for (size_t i = 0; i < n; i++) {
        double da = a[i] - mean_a, db = b[i] - mean_b;
        ab += da * db;
        aa += da * da;
        bb += db * db;
    }
    ab += rest * mean_a * mean_b;
    aa += rest * mean_a * mean_a;
    bb += rest * mean_b * mean_b;
    double r = ab / sqrt(aa * bb);
    return isfinite(r) ? r : 0;
}

static bool is_constant(const float *a, size_t n, uint64_t n_pixels)
{
    for (size_t i = 1; i < n; i++)
        if (a[i] != a[0])
            return false;
    return n == 0 || n == n_pixels || a[0] == 0;
}

double tg_score_spatial(const float *const images[TG_N_IMAGES], size_t n_touched,
                        uint64_t n_pixels, const double theory[TG_N_IMAGES])
{
    int n_images = 0;
    size_t positive = 0;
    double weights = 0, sum = 0;

    for (int k = 0; k < TG_N_IMAGES; k++)
        n_images += images[k] != NULL;
    if (n_images < 2 || images[0] == NULL)
        return 0;
    for (size_t i = 0; i < n_touched && positive < 2; i++)
        positive += images[0][i] > 0;
    for (int k = 1; k < TG_N_IMAGES; k++)
        weights += theory[k];
    if (positive < 2 || weights == 0 || is_constant(images[0], n_touched, n_pixels))
        return 0;
    for (int k = 1; k < TG_N_IMAGES; k++)
        if (images[k] != NULL && !is_constant(images[k], n_touched, n_pixels))
            sum += theory[k] * correlation(images[0], images[k], n_touched, (double)n_pixels);
    double v = sum / weights;
    return v > 1 ? 1 : v > 0 ? v : 0;
}
