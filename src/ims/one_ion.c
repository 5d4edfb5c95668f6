/* ims/one_ion.c - one ion of a data set: its isotope images, their numbers, its scores. */
#include "base/clock.h"
#include "ims/job.h"
#include "ims/png.h"
#include "ims/write_out.h"

#include <stdio.h>
#include <string.h>

typedef struct looking {
    tg_job *j;
    tg_ion_view *view;
    tg_store *out; /* NULL: no images are written */
    tg_imager *imager;
    float *box;
    tg_png *png;
} looking;

/* "C37H71O8P+K" into formula and modifier, and these into the ion's name. */
static tg_status name_ion(const char *text, bool fixed, char *dst, size_t cap, tg_error *err)
{
    tg_formula formula;
    tg_modifier modifier;
    char room[TG_FORMULA_BYTES];
    const size_t n = strcspn(text, "+-");

    if (n == 0 || n >= sizeof room)
        return tg_fail(err, TG_INVALID, "ion '%.80s': want formula and adduct, as C6H12O6+Na",
                       text);
    (void)snprintf(room, sizeof room, "%.*s", (int)n, text);
    TG_TRY(tg_formula_check_strict(room, err));
    TG_TRY(tg_formula_parse(&formula, room, fixed, err));
    TG_TRY(tg_modifier_parse(&modifier, text + n, err));
    tg_status st = tg_ion_formula(&formula, &modifier, dst, cap, err);
    if (st != TG_NOT_FOUND)
        return st;
    return tg_fail(err, TG_INVALID, "ion '%.80s': more atoms are taken away than there are",
                   text);
}

static tg_status write_image(const looking *l, int k, tg_error *err)
{
    const tg_peaks_info *info = tg_peaks_get_info(l->j->peaks);
    const float *values = tg_imager_image(l->imager, k);
    const uint32_t *pixels;
    const size_t n = tg_imager_pixels(l->imager, &pixels);
    tg_bytes file;
    char key[TG_OUT_KEY_BYTES];

    memset(l->box, 0, (size_t)info->width * info->height * sizeof *l->box);
    for (size_t i = 0; i < n; i++)
        l->box[info->positions[pixels[i]]] = values[i];
    TG_TRY(tg_png_encode(l->png, l->box, (tg_png_text){l->view->ion, k}, &file, err));
    (void)snprintf(key, sizeof key, "%s_%d.png", l->view->ion, k);
    return tg_store_put(l->out, key, file.data, file.len, l->j->cancel, err);
}

static void fill_view(tg_ion_view *v, const tg_centroids *c, const tg_scores *s,
                      const tg_ion_stats *q)
{
    v->n_peaks = c->n;
    v->msm = s->msm;
    v->chaos = s->chaos;
    v->spatial = s->spatial;
    v->spectral = s->spectral;
    v->mz_err_abs = q->mz_err_abs;
    v->mz_err_rel = q->mz_err_rel;
    for (uint32_t k = 0; k < c->n; k++)
        v->peak[k] = (tg_ion_peak){.mz = c->mz[k],
                                   .intensity = c->intensity[k],
                                   .n_pixels = s->n_pixels[k],
                                   .total = (double)q->total[k],
                                   .min = (double)q->min[k],
                                   .max = (double)q->max[k]};
}

static tg_status look(looking *l, tg_error *err)
{
    const tg_job *j = l->j;
    tg_centroids c;
    tg_scores scores;
    tg_ion_stats stats;

    tg_status st = tg_imager_centroids(l->imager, l->view->ion, &c, err);
    if (st == TG_UNSUPPORTED)
        return tg_fail(err, TG_INVALID, "ion '%s' has too many isotopologues", l->view->ion);
    TG_TRY(st);
    TG_TRY(tg_imager_extract(l->imager, &c, false, j->cancel, err));
    tg_imager_score(l->imager, &c, &scores);
    TG_TRY(tg_imager_stats(l->imager, &c, &stats, j->cancel, err));
    fill_view(l->view, &c, &scores, &stats);
    for (int k = 0; k < (int)c.n && l->out != NULL; k++)
        if (tg_imager_image(l->imager, k) != NULL) {
            TG_TRY(write_image(l, k, err));
            l->view->images++;
        }
    return TG_OK;
}

static tg_status make_room(looking *l, tg_error *err)
{
    const tg_peaks_info *info = tg_peaks_get_info(l->j->peaks);
    TG_TRY(tg_imager_new(&l->imager, l->j->peaks, &l->j->imager, err));
    TG_TRY(
        tg_png_new(&l->png, info->width, info->height, info->positions, info->n_pixels, err));
    l->box = tg_alloc_array((size_t)info->width * info->height, sizeof *l->box);
    if (l->box == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for an image");
    return tg_peaks_cache(l->j->peaks, 1, 0, false, err);
}

static tg_status look_within(looking *l, tg_error *err)
{
    const tg_peaks_info *info = tg_peaks_get_info(l->j->peaks);
    const size_t imager = tg_imager_bytes(info);
    const uint64_t box = (uint64_t)info->width * info->height * sizeof(float);
    const uint64_t bytes = imager == SIZE_MAX
                               ? UINT64_MAX / 2
                               : imager + box + tg_png_bytes(info->width, info->height);

    TG_TRY(tg_budget_reserve(l->j->budget, bytes, "images of an ion", err));
    tg_status st = make_room(l, err);
    if (st == TG_OK)
        st = look(l, err);
    tg_peaks_uncache(l->j->peaks);
    tg_imager_free(l->imager);
    tg_png_free(l->png);
    tg_free(l->box);
    tg_budget_release(l->j->budget, bytes);
    return st;
}

/* A folder of the user's for the images; the results of an annotation are listed in its
 * manifest, and nothing is put beside them. */
static tg_status open_out(looking *l, tg_error *err)
{
    const tg_store_options options = {.size = sizeof options, .mode = TG_STORE_OPEN_OR_CREATE};
    uint64_t size;
    if (l->j->o.out == NULL)
        return TG_OK;
    TG_TRY(tg_store_open_fs(&l->out, l->j->o.out, &options, err));
    if (tg_store_size(l->out, "manifest.json", &size, l->j->cancel, NULL) != TG_NOT_FOUND)
        return tg_fail(
            err, TG_EXISTS,
            "'%s' holds an annotation: images of one ion go to a folder of their own",
            l->j->o.out);
    return TG_OK;
}

static tg_status run(looking *l, tg_error *err)
{
    tg_job *j = l->j;
    const int64_t start = tg_clock_ns();

    TG_TRY(open_out(l, err));
    TG_TRY(tg_job_peaks(j, err));
    tg_job_charge(j, tg_peaks_get_info(j->peaks)->polarity);
    const tg_peaks_info *info = tg_peaks_get_info(j->peaks);
    l->view->charge = j->charge;
    l->view->width = info->width;
    l->view->height = info->height;
    l->view->pixels = info->n_pixels;
    TG_TRY(look_within(l, err));
    l->view->seconds = tg_job_seconds(start);
    return TG_OK;
}

tg_status tg_annotate_ion(tg_runtime *rt, const tg_annotate_options *options, const char *ion,
                          tg_ion_view *view, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_job) j = NULL;
    looking l = {.view = view};

    if (view->size != sizeof *view)
        return tg_fail(err, TG_INVALID, "view of %zu bytes, want %zu", view->size,
                       sizeof *view);
    *view = (tg_ion_view){.size = sizeof *view};
    TG_TRY(name_ion(ion, options->fixed, view->ion, sizeof view->ion, err));
    TG_TRY(tg_job_bare(&j, rt, options, cancel, err));
    l.j = j;
    tg_status st = run(&l, err);
    tg_store_free(l.out);
    return st;
}
