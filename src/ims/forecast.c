/* ims/forecast.c - what an annotation will take, stage by stage, before it is begun: memory
 * from the same plans that the stages make, time from small samples of their work on this
 * machine. */
#include "base/clock.h"
#include "chem/sort.h"
#include "ims/ibd.h"
#include "ims/job.h"
#include "ims/write_out.h"

#include <math.h>
#include <string.h>

#define SAMPLE_IONS  ((uint64_t)128)
#define SAMPLE_SLOTS 8
#define SAMPLE_PEAKS ((uint64_t)1 << 20)
#define SAMPLE_BATCH ((uint64_t)8 << 20)
#define NS           1e-9
/* Guesses, where there is nothing to measure yet. */
#define SECONDS_OF_PEAK  5e-9 /* visited for an image */
#define SECONDS_OF_PIXEL 1e-8 /* of the box, when an image is scored or encoded */
#define BYTES_A_SECOND   1e9  /* of a disk */

typedef struct forecaster {
    tg_job *j;
    tg_annotate_forecast *out;
    tg_imzml *data; /* where the peaks are not sorted; else NULL */
    tg_peaks_info info;
    uint64_t slot_bytes, free;
    uint32_t width, n_units;
    double walk_seconds; /* of all ions once */
    tg_ion_record *sample;
    uint64_t n_sample, step, seen, n_targets;
    tg_error *err;
} forecaster;

static double since(int64_t start)
{
    return tg_job_seconds(start);
}

/* A stage's memory: with what is held all along, and never more than the budget gives. */
static uint64_t with_held(const forecaster *f, uint64_t bytes)
{
    const uint64_t total = tg_budget_total(f->j->budget), used = total - f->free;
    return bytes > f->free ? total : used + bytes;
}

/* --- Sorting ------------------------------------------------------------------------------ */

/* Spectra from the front, as a sort reads them: seconds for each peak. */
static tg_status time_sort(forecaster *f, double *per_peak, tg_error *err)
{
    const tg_imzml *m = f->data;
    TG_AUTO_PTR(tg_ibd) reader = NULL;
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array(2 * SAMPLE_PEAKS, sizeof(tg_peak));
    tg_peak *peaks = room;
    tg_ibd_spectrum s;
    uint64_t n = 0;
    const int64_t start = tg_clock_ns();

    if (peaks == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a sample");
    TG_TRY(tg_ibd_new(&reader, m, 0, m->n_spectra, SAMPLE_BATCH, err));
    tg_status st;
    while ((st = tg_ibd_next(reader, &s, f->j->cancel, err)) == TG_OK &&
           n + s.at->count <= SAMPLE_PEAKS)
        for (uint32_t i = 0; i < s.at->count; i++)
            if (s.intensity[i] > 0 && s.mz[i] > 0)
                peaks[n++] = (tg_peak){tg_peak_key(s.mz[i]), s.intensity[i], 0};
    if (st != TG_OK && st != TG_CLOSED)
        return st;
    tg_peaks_sort(peaks, peaks + SAMPLE_PEAKS, n);
    *per_peak = n > 0 ? since(start) / (double)n : 0;
    return TG_OK;
}

static tg_status forecast_sort(forecaster *f, tg_error *err)
{
    tg_annotate_forecast *o = f->out;
    const uint64_t sample = 2 * SAMPLE_PEAKS * sizeof(tg_peak);
    uint64_t bytes, spilled;
    double per_peak = 0;

    if (f->data == NULL)
        return TG_OK;
    TG_TRY(tg_peaks_build_plan(f->data, f->j->segment_bytes, f->free, f->width, &bytes,
                               &spilled, err));
    const uint64_t reader = tg_ibd_bytes(f->data, SAMPLE_BATCH);
    if (sample + reader <= f->free) {
        TG_TRY(tg_budget_reserve(f->j->budget, sample + reader, "a sample", err));
        tg_status st = time_sort(f, &per_peak, err);
        tg_budget_release(f->j->budget, sample + reader);
        TG_TRY(st);
    }
    o->sort.memory_bytes = with_held(f, bytes);
    o->spilled_bytes = spilled;
    o->sort.seconds = (double)f->data->n_peaks * per_peak +
                      (double)(f->data->n_peaks * TG_PEAK_BYTES + 2 * spilled) / BYTES_A_SECOND;
    return TG_OK;
}

/* --- Ions --------------------------------------------------------------------------------- */

static tg_status take_sample(void *user, const tg_ion_step *step, tg_error *err)
{
    forecaster *f = user;
    tg_ion ion;
    tg_status st = tg_ion_make(f->j->space, step->parsed, step->modifier, &ion, err);
    if (st == TG_NOT_FOUND)
        return TG_OK;
    TG_TRY(st);
    f->n_targets += step->set == TG_NO_SET;
    if (f->seen++ % f->step != 0)
        return TG_OK;
    if (f->n_sample == SAMPLE_IONS) { /* full: every second one goes */
        for (uint64_t i = 0; i < SAMPLE_IONS / 2; i++)
            f->sample[i] = f->sample[2 * i];
        f->n_sample = SAMPLE_IONS / 2;
        f->step *= 2;
    }
    f->sample[f->n_sample++] =
        (tg_ion_record){ion.mass, (uint32_t)step->formula, step->modifier};
    return TG_OK;
}

static int by_mass(const void *a, const void *b)
{
    const tg_ion_record *x = a, *y = b;
    return x->mass < y->mass ? -1 : x->mass > y->mass;
}

static tg_status sample_ions(forecaster *f, tg_error *err)
{
    const tg_job *j = f->j;
    const int64_t start = tg_clock_ns();

    f->step = 1;
    for (size_t d = 0; d < j->n_dbs; d++)
        TG_TRY(tg_ions_walk(j->space, d, TG_ALL_TARGETS, take_sample, f, j->cancel, err));
    f->walk_seconds = since(start);
    tg_heap_sort(f->sample, f->n_sample, sizeof *f->sample, by_mass);
    return TG_OK;
}

/* Without sorted peaks: isotopes, and a guess at what lies in the windows. */
static tg_status time_isotopes(const forecaster *f, double *per_ion, tg_error *err)
{
    const tg_job *j = f->j;
    TG_AUTO_PTR(tg_isotope) iso = NULL;
    tg_centroids c;
    double mass = 0;
    const int64_t start = tg_clock_ns();

    TG_TRY(tg_isotope_new(&iso, &j->imager.isotope, err));
    for (uint64_t i = 0; i < f->n_sample; i++) {
        tg_ion ion;
        TG_TRY(
            tg_ion_make_at(j->space, f->sample[i].formula, f->sample[i].modifier, &ion, err));
        if (tg_isotope_centroids(iso, ion.text, &c, NULL) == TG_OK)
            mass += c.mz[0];
    }
    const double n = (double)(f->n_sample > 0 ? f->n_sample : 1);
    const double windows = TG_N_IMAGES * 2 * mass / n * j->imager.ppm * 1e-6 / 1000;
    *per_ion = since(start) / n + windows * (double)f->info.n_peaks * SECONDS_OF_PEAK +
               (double)f->info.width * f->info.height * SECONDS_OF_PIXEL / 10;
    return TG_OK;
}

static tg_status score_one(const forecaster *f, tg_imager *m, const tg_ion_record *r,
                           tg_error *err)
{
    tg_ion ion;
    tg_centroids c;
    tg_scores scores;
    tg_ion_stats stats;
    bool left;

    TG_TRY(tg_ion_make_at(f->j->space, r->formula, r->modifier, &ion, err));
    tg_status st = tg_imager_centroids_seen(m, ion.text, &c, &left, f->j->cancel, err);
    if (st == TG_INVALID || st == TG_UNSUPPORTED || (st == TG_OK && left))
        return TG_OK;
    TG_TRY(st);
    TG_TRY(tg_imager_extract(m, &c, true, f->j->cancel, err));
    tg_imager_score(m, &c, &scores);
    return scores.msm > 0 ? tg_imager_stats(m, &c, &stats, f->j->cancel, err) : TG_OK;
}

/* Each ion twice: the first time loads its segments. */
static tg_status time_scores(const forecaster *f, double *per_ion, double *per_segment,
                             tg_error *err)
{
    TG_AUTO_PTR(tg_imager) m = NULL;
    double first = 0, second = 0;

    TG_TRY(tg_imager_new(&m, f->j->peaks, &f->j->imager, err));
    for (uint64_t i = 0; i < f->n_sample; i++) {
        const int64_t start = tg_clock_ns();
        TG_TRY(score_one(f, m, &f->sample[i], err));
        const int64_t loaded = tg_clock_ns();
        TG_TRY(score_one(f, m, &f->sample[i], err));
        first += (double)(loaded - start) * NS;
        second += since(loaded);
    }
    const uint64_t loads = tg_peaks_counted(f->j->peaks).loads;
    *per_ion = f->n_sample > 0 ? second / (double)f->n_sample : 0;
    *per_segment = loads > 0 ? fmax(0, first - second) / (double)loads : 0;
    return TG_OK;
}

static tg_status time_sorted(const forecaster *f, double *per_ion, double *per_segment,
                             tg_error *err)
{
    const size_t imager = tg_imager_bytes(&f->info);
    const uint64_t n = f->info.n_segments < SAMPLE_SLOTS ? f->info.n_segments : SAMPLE_SLOTS;
    const uint64_t slots = n == 0 ? 1 : n;

    if (imager == SIZE_MAX || imager + slots * f->slot_bytes > f->free)
        return time_isotopes(f, per_ion, err);
    TG_TRY(tg_budget_reserve(f->j->budget, imager, "a sample", err));
    tg_status st = tg_peaks_cache(f->j->peaks, (uint32_t)slots, slots, false, err);
    if (st == TG_OK)
        st = time_scores(f, per_ion, per_segment, err);
    tg_peaks_uncache(f->j->peaks);
    tg_budget_release(f->j->budget, imager);
    return st;
}

/* What the sweep will really plan, where there are peaks to plan with; else the most that it
 * can take. */
static tg_status plan_score(const forecaster *f, tg_sweep_memory *m, uint64_t *bytes,
                            tg_error *err)
{
    const tg_job *j = f->j;
    const uint64_t results = tg_results_bytes(0, f->n_units, j->o.n_parts);
    const uint64_t free = f->free > results ? f->free - results : 0;
    uint64_t kept, largest;

    if (f->data == NULL) {
        kept = tg_job_kept_room(j, free);
        TG_TRY(tg_sweep_plan(m, j->peaks, j->plan, kept > 0, free - kept, f->width, err));
    } else {
        kept = tg_job_keeps_images(j) ? free / 8 : 0;
        TG_TRY(tg_units_most(j->space, &largest, j->cancel, err));
        tg_sweep_most(m, &f->info, largest, f->seen, kept > 0, free - kept, f->width);
    }
    *bytes = results + kept + m->total;
    return TG_OK;
}

static tg_status forecast_score(forecaster *f, tg_error *err)
{
    tg_annotate_forecast *o = f->out;
    tg_sweep_memory m = {0};
    uint64_t bytes;
    double per_ion = 0, per_segment = 0;

    TG_TRY(plan_score(f, &m, &bytes, err));
    if (f->data == NULL) {
        TG_TRY(time_sorted(f, &per_ion, &per_segment, err));
    } else {
        TG_TRY(time_isotopes(f, &per_ion, err));
        per_segment = (double)f->slot_bytes / BYTES_A_SECOND;
    }
    o->workers = m.workers;
    o->score.memory_bytes = with_held(f, bytes);
    o->score.seconds = (double)f->seen * per_ion / m.workers +
                       ((double)f->seen / (double)m.batch_ions + 1) * f->walk_seconds +
                       (double)f->info.n_segments * per_segment;
    return TG_OK;
}

/* --- Ranks and images ----------------------------------------------------------------------
 */

/* As if every ion had a score; what comes of it cannot be known. */
static void forecast_rest(forecaster *f)
{
    const tg_job *j = f->j;
    tg_annotate_forecast *o = f->out;
    const uint64_t ranks =
        tg_results_bytes(f->seen, f->n_units, j->o.n_parts) +
        tg_rank_bytes(f->n_targets, f->seen - f->n_targets, j->space->decoys.sample);

    o->rank.memory_bytes = with_held(f, ranks);
    o->rank.seconds = 3 * f->walk_seconds;
    if (j->o.images == TG_IMAGES_NONE)
        return;
    o->images.memory_bytes =
        with_held(f, ranks + tg_write_images_most(&f->info, tg_job_keeps_images(j),
                                                  f->n_targets, f->width));
    o->images.seconds = (double)f->n_targets * TG_N_IMAGES * f->info.width * f->info.height *
                        SECONDS_OF_PIXEL / f->width;
}

/* --- All of it -----------------------------------------------------------------------------
 */

/* The data's index, then what a run holds when the index is gone and the tables are open. */
static tg_status open_data(forecaster *f, tg_imzml **data, tg_error *err)
{
    tg_job *j = f->j;
    const tg_imzml_options reading = tg_imzml_options_of(&j->o.reading);
    tg_status st = tg_job_find_peaks(j, err);
    if (st == TG_OK) {
        f->info = *tg_peaks_get_info(j->peaks);
        f->slot_bytes = tg_peaks_slot_bytes(j->peaks);
        return TG_OK;
    }
    if (st != TG_NOT_FOUND)
        return st;
    TG_TRY(tg_imzml_open(data, j->o.data, &reading, j->budget, j->cancel, err));
    f->data = *data;
    f->info = tg_job_expected_peaks(j, f->data);
    f->slot_bytes = tg_peaks_slot_bytes_of(f->info.segment_peaks);
    return tg_job_check_budget(j, f->data, err);
}

static uint64_t free_of(const tg_job *j)
{
    return tg_budget_total(j->budget) - tg_budget_used(j->budget);
}

static tg_status forecast(forecaster *f, tg_error *err)
{
    tg_job *j = f->j;
    TG_AUTO_PTR(tg_imzml) data = NULL;
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array(SAMPLE_IONS, sizeof *f->sample);

    f->sample = room;
    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a sample");
    TG_TRY(open_data(f, &data, err));
    f->free = free_of(j);
    TG_TRY(forecast_sort(f, err));
    if (f->data != NULL) { /* the index goes, the tables come */
        const uint64_t tables = tg_peaks_table_bytes(&f->info), held = f->data->reserved;
        f->free = f->free + held > tables ? f->free + held - tables : 0;
    }
    TG_TRY(f->data == NULL ? tg_job_ions(j, err) : tg_job_space(j, f->info.polarity, err));
    f->n_units = f->data == NULL ? j->plan->n_units : TG_MOST_UNITS;
    TG_TRY(sample_ions(f, err));
    TG_TRY(forecast_score(f, err));
    forecast_rest(f);
    f->sample = NULL;
    return TG_OK;
}

static void sum_up(forecaster *f)
{
    tg_annotate_forecast *o = f->out;
    const tg_annotate_stage *stages[] = {&o->sort, &o->score, &o->rank, &o->images};

    o->spectra = f->info.n_spectra;
    o->pixels = f->info.n_pixels;
    o->peaks = f->info.n_peaks;
    o->segments = f->info.n_segments;
    o->sorted_before = f->data == NULL;
    o->ions = f->seen;
    o->budget_bytes = tg_budget_total(f->j->budget);
    for (size_t d = 0; d < f->j->n_dbs; d++)
        o->formulas += f->j->dbs[d]->n_formulas;
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        o->seconds += stages[i]->seconds;
        o->memory_bytes = stages[i]->memory_bytes > o->memory_bytes ? stages[i]->memory_bytes
                                                                    : o->memory_bytes;
    }
}

tg_status tg_annotate_plan(tg_runtime *rt, const tg_annotate_options *options,
                           tg_annotate_forecast *out, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_job) j = NULL;

    if (out->size != sizeof *out)
        return tg_fail(err, TG_INVALID, "forecast of %zu bytes, want %zu", out->size,
                       sizeof *out);
    *out = (tg_annotate_forecast){.size = sizeof *out};
    TG_TRY(tg_job_new(&j, rt, options, cancel, err));
    forecaster f = {.j = j, .out = out, .width = tg_pool_width(tg_runtime_pool(rt))};
    TG_TRY(forecast(&f, err));
    sum_up(&f);
    return TG_OK;
}
