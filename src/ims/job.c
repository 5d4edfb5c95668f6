/* ims/job.c - from options to peaks, ions and units. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include "ims/job.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "ims/write_out.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_SIGMA  .001238
#define DEFAULT_PPM    3.0
#define DEFAULT_DECOYS 20
#define DEFAULT_SEED   42
#define LEAST_SEGMENT  ((uint64_t)4096)
#define MANY_IMAGES    ((uint64_t)1024)
#define SCORED_BYTES   ((uint64_t)512)      /* results and ranks beside each that is kept */
#define MOST_KEPT      ((uint64_t)64 << 20) /* of memory, for images until they are written */
#define MAX_MZ_WIDTH   1e5                  /* ppm */

double tg_job_seconds(int64_t since_ns)
{
    return (double)(tg_clock_ns() - since_ns) * 1e-9;
}

void tg_job_relay(void *user, const tg_progress *p)
{
    tg_job *j = user;
    if (tg_cancel_requested(j->cancel) && j->sorting != NULL)
        tg_cancel_request(j->sorting);
    if (j->o.progress != NULL)
        j->o.progress(j->o.progress_user, p);
}

/* --- Options ------------------------------------------------------------------------------ */

static tg_status check_numbers(const tg_annotate_options *o, tg_error *err)
{
    if (o->version != 0 && o->version != 1 && o->version != 3)
        return tg_fail(err, TG_INVALID, "mode v%d: want v1 or v3", o->version);
    if (!(o->ppm >= 0 && o->ppm < MAX_MZ_WIDTH))
        return tg_fail(err, TG_INVALID, "ppm %g: want a number above 0", o->ppm);
    if (!(o->sigma >= 0 && o->sigma < 100))
        return tg_fail(err, TG_INVALID, "sigma %g: want a number above 0, in u", o->sigma);
    if (!(o->resolving_power >= 0 && isfinite(o->resolving_power)) ||
        (o->resolving_power > 0 && !(o->power_mz > 0 && isfinite(o->power_mz))))
        return tg_fail(err, TG_INVALID,
                       "resolving power %g at m/z %g: want two numbers above 0",
                       o->resolving_power, o->power_mz);
    if (!(o->fdr >= 0))
        return tg_fail(err, TG_INVALID, "fdr %g: want a number from 0 on", o->fdr);
    if (o->segment_bytes != 0 && o->segment_bytes < LEAST_SEGMENT)
        return tg_fail(err, TG_INVALID, "segments of %llu bytes: %llu are the least",
                       (unsigned long long)o->segment_bytes, (unsigned long long)LEAST_SEGMENT);
    return TG_OK;
}

static tg_status check_place(const tg_annotate_options *o, tg_error *err)
{
    if (o->out[0] == '\0')
        return tg_fail(err, TG_INVALID, "annotate wants a place for the results");
    if (strstr(o->out, "://") != NULL || strchr(o->out, '|') != NULL)
        return tg_fail(err, TG_UNSUPPORTED, "'%.200s': results go to a local directory",
                       o->out);
    return TG_OK;
}

static tg_status check_options(const tg_annotate_options *o, bool bare, tg_error *err)
{
    if (o->data == NULL || (o->out == NULL && !bare))
        return tg_fail(err, TG_INVALID, "annotate wants data and a place for the results");
    if (o->out != NULL)
        TG_TRY(check_place(o, err));
    if (bare)
        return check_numbers(o, err);
    if (o->n_databases == 0 || o->n_databases > TG_ANNOTATE_DATABASES)
        return tg_fail(err, TG_INVALID, "%zu databases: want 1 to %d", o->n_databases,
                       TG_ANNOTATE_DATABASES);
    if (o->part_auto && o->n_parts == 0)
        return tg_fail(err, TG_INVALID, "part auto: of how many parts?");
    if (o->n_parts > 0 && !o->part_auto && o->part >= o->n_parts)
        return tg_fail(err, TG_INVALID, "part %u of %u: parts count from 0", o->part,
                       o->n_parts);
    return check_numbers(o, err);
}

static tg_instrument instrument_of(tg_annotate_instrument i)
{
    return i == TG_INSTRUMENT_TOF ? TG_TOF : i == TG_INSTRUMENT_FTICR ? TG_FTICR : TG_ORBITRAP;
}

static void fill_defaults(tg_job *j)
{
    const tg_annotate_options *o = &j->o;
    tg_instrument instrument = instrument_of(o->instrument);

    j->version = o->version == 0 ? 3 : o->version;
    j->segment_bytes = o->segment_bytes == 0 ? TG_ANNOTATE_SEGMENT : o->segment_bytes;
    if (j->o.fdr == 0)
        j->o.fdr = 0.5;
    if (j->o.n_parts == 0 && !j->o.merge) /* a merge counts them */
        j->o.n_parts = 1;
    j->deadline_ns = o->deadline_seconds > 0
                         ? tg_clock_ns() + (int64_t)fmin(o->deadline_seconds * 1e9, 9e18)
                         : INT64_MAX;
    j->imager = (tg_imager_options){
        .ppm = o->ppm == 0 ? DEFAULT_PPM : o->ppm,
        .min_px = 1,
        .levels = TG_CHAOS_LEVELS,
        .fixed = o->fixed,
        .isotope = {.version = j->version,
                    .instrument = instrument,
                    .sigma = o->resolving_power > 0
                                 ? tg_sigma_of_resolving_power(instrument, o->resolving_power,
                                                               o->power_mz)
                             : o->sigma > 0 ? o->sigma
                                            : DEFAULT_SIGMA,
                    .divide_by_charge = o->fixed},
    };
}

/* The charge decides the default adducts, and so the ions. */
static void fill_ions(tg_job *j, int charge)
{
    const tg_annotate_options *o = &j->o;
    size_t n = 0;

    j->charge = charge;
    j->imager.isotope.charge = charge;
    j->default_adducts[n++] = charge > 0 ? "+H" : "-H";
    j->default_adducts[n++] = charge > 0 ? "+Na" : "+Cl";
    if (charge > 0)
        j->default_adducts[n++] = "+K";
    j->ions = (tg_ion_options){
        .adducts = o->n_adducts > 0 ? o->adducts : j->default_adducts,
        .n_adducts = o->n_adducts > 0 ? o->n_adducts : n,
        .losses = o->losses,
        .n_losses = o->n_losses,
        .mods = o->mods,
        .n_mods = o->n_mods,
        .version = j->version,
        .fixed = o->fixed,
        .decoys = o->decoys == 0 ? DEFAULT_DECOYS : o->decoys,
        .seed = o->has_seed ? o->seed : DEFAULT_SEED,
    };
}

/* --- Files -----------------------------------------------------------------------------------
 */

static tg_status open_databases(tg_job *j, tg_error *err)
{
    tg_moldb_options options = {.strict = j->o.strict_db, .fixed = j->o.fixed};

    j->dbs = tg_calloc(j->o.n_databases, sizeof *j->dbs);
    if (j->dbs == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for databases");
    for (size_t i = 0; i < j->o.n_databases; i++) {
        TG_TRY(tg_moldb_open(&j->dbs[i], j->o.databases[i], &options, j->budget, NULL,
                             j->cancel, err));
        j->n_dbs = i + 1;
        for (size_t k = 0; k < i; k++)
            if (strcmp(j->dbs[k]->name, j->dbs[i]->name) == 0)
                return tg_fail(err, TG_INVALID, "two databases are named '%s'",
                               j->dbs[i]->name);
        if (j->dbs[i]->n_notes > 0)
            tg_runtime_log(j->rt, "database '%s': %llu rows are odd; first: %.*s",
                           j->dbs[i]->name, (unsigned long long)j->dbs[i]->n_notes,
                           (int)strcspn(j->dbs[i]->notes.data, "\n"), j->dbs[i]->notes.data);
    }
    return TG_OK;
}

static tg_status name_side_dir(tg_job *j, tg_error *err)
{
    TG_AUTO(tg_text) t = {0};
    if (j->o.out == NULL)
        return TG_OK;
    size_t n = strlen(j->o.out);
    while (n > 1 && j->o.out[n - 1] == '/')
        n--;
    tg_text_add_n(&t, j->o.out, n);
    tg_text_add(&t, ".tidegate");
    TG_TRY(tg_text_status(&t, err));
    j->side_dir = tg_text_steal(&t);
    return TG_OK;
}

static tg_status make_job(tg_job **out, tg_runtime *rt, const tg_annotate_options *options,
                          bool bare, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_job) j = NULL;

    if (options->size != sizeof *options)
        return tg_fail(err, TG_INVALID, "options of %zu bytes, want %zu", options->size,
                       sizeof *options);
    TG_TRY(check_options(options, bare, err));
    j = tg_calloc(1, sizeof *j);
    if (j == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to annotate");
    j->rt = rt;
    j->budget = tg_runtime_budget(rt);
    j->o = *options;
    j->cancel = cancel;
    if (j->o.part_auto)
        TG_TRY(tg_part_parse("auto", j->o.n_parts, &j->o.part, err));
    fill_defaults(j);
    TG_TRY(name_side_dir(j, err));
    TG_TRY(tg_cancel_new(&j->sorting, err));
    if (j->deadline_ns != INT64_MAX)
        tg_cancel_deadline(j->sorting, (double)(j->deadline_ns - tg_clock_ns()) * 1e-9);
    TG_TRY(tg_ims_source_open(&j->source, options->data, cancel, err));
    if (!bare)
        TG_TRY(open_databases(j, err));
    *out = tg_steal(j);
    return TG_OK;
}

tg_status tg_job_new(tg_job **out, tg_runtime *rt, const tg_annotate_options *options,
                     const tg_cancel *cancel, tg_error *err)
{
    return make_job(out, rt, options, false, cancel, err);
}

tg_status tg_job_bare(tg_job **out, tg_runtime *rt, const tg_annotate_options *options,
                      const tg_cancel *cancel, tg_error *err)
{
    return make_job(out, rt, options, true, cancel, err);
}

void tg_job_free(tg_job *j)
{
    if (j == NULL)
        return;
    tg_unit_plan_free(j->plan);
    tg_ion_space_free(j->space);
    tg_peaks_free(j->peaks);
    tg_store_free(j->peak_home);
    tg_free(j->peak_dir);
    for (size_t i = 0; i < j->n_dbs; i++)
        tg_moldb_free(j->dbs[i]);
    tg_free(j->dbs);
    tg_ims_source_close(&j->source);
    tg_cancel_free(j->sorting);
    tg_free(j->side_dir);
    tg_free(j->peak_prefix);
    tg_free(j->digest);
    tg_free(j);
}

/* --- Sorted peaks
 * -------------------------------------------------------------------------------- */

static bool is_local(const char *url)
{
    return strstr(url, "://") == NULL && strchr(url, '|') == NULL;
}

/* The store in which sorted peaks live: beside the data, so that every later annotation finds
 * them; beside the results where nothing can be written there. */
static tg_status open_peak_home(tg_job *j, tg_error *err)
{
    tg_store_options options = {.size = sizeof options, .mode = TG_STORE_OPEN_OR_CREATE};
    TG_AUTO(tg_text) path = {0};

    if (is_local(j->o.data)) {
        tg_text_addf(&path, "%s.tidegate", j->o.data);
        TG_TRY(tg_text_status(&path, err));
        if (tg_store_open_fs(&j->peak_home, path.data, &options, NULL) == TG_OK) {
            j->peak_dir = tg_text_steal(&path);
            j->beside_data = true;
            return TG_OK;
        }
        if (j->side_dir == NULL)
            return tg_fail(err, TG_INVALID,
                           "'%s' cannot be made: where are the sorted peaks to go?", path.data);
        tg_runtime_log(j->rt, "'%s' cannot be made: sorted peaks go to '%s'", path.data,
                       j->side_dir);
    }
    if (j->side_dir == NULL)
        return tg_fail(err, TG_INVALID, "'%.200s': where are the sorted peaks to go?",
                       j->o.data);
    j->peak_dir = tg_strdup(j->side_dir);
    if (j->peak_dir == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a path");
    return tg_store_open_fs(&j->peak_home, j->side_dir, &options, err);
}

static tg_status name_peaks(tg_job *j, tg_error *err)
{
    TG_AUTO(tg_text) t = {0};
    const tg_ims_options *r = &j->o.reading;

    tg_text_addf(&t, "peaks-%s-%d%d%d%d-%llu.zarr", j->data.digest, (int)r->strict,
                 r->duplicates_fail, r->grid_from_3d, j->o.fixed,
                 (unsigned long long)(j->segment_bytes / TG_PEAK_BYTES));
    TG_TRY(tg_text_status(&t, err));
    j->peak_prefix = tg_text_steal(&t);
    return TG_OK;
}

static tg_status open_data(tg_job *j, tg_imzml **m, tg_error *err)
{
    tg_imzml_options reading = tg_imzml_options_of(&j->o.reading);
    TG_TRY(tg_imzml_open_store(m, j->source.store, j->source.xml_key, &reading, j->budget,
                               j->sorting, err));
    for (int k = 0; k < TG_N_ODDITIES; k++)
        if ((*m)->odd[k].count > 0)
            tg_runtime_log(j->rt, "%s", (*m)->odd[k].first);
    return TG_OK;
}

static tg_status sort_peaks(tg_job *j, tg_imzml *m, tg_error *err)
{
    tg_peaks_options options = {
        .segment_bytes = j->segment_bytes,
        .drop_infinite = j->o.fixed,
        .spill_dir = j->peak_dir,
        .progress = tg_job_relay,
        .progress_user = j,
    };
    return tg_peaks_build(m, j->peak_home, j->peak_prefix, &options, j->rt, &j->built,
                          j->sorting, err);
}

static tg_status open_peaks(tg_job *j, tg_error *err)
{
    return tg_peaks_open(&j->peaks, j->peak_home, j->peak_prefix, j->budget, j->cancel, err);
}

tg_status tg_job_find_peaks(tg_job *j, tg_error *err)
{
    const tg_store_options options = {.size = sizeof options, .mode = TG_STORE_READ};
    TG_AUTO(tg_text) path = {0};

    if (!is_local(j->o.data))
        return TG_NOT_FOUND;
    tg_text_addf(&path, "%s.tidegate", j->o.data);
    TG_TRY(tg_text_status(&path, err));
    if (tg_store_open_fs(&j->peak_home, path.data, &options, NULL) != TG_OK)
        return TG_NOT_FOUND;
    tg_identity_recall(&j->data, &j->source, j->o.data, j->peak_home, j->cancel);
    if (j->data.digest[0] == '\0')
        TG_TRY(tg_identity_make(&j->data, &j->source, NULL, j->sorting, err));
    TG_TRY(name_peaks(j, err));
    return open_peaks(j, err);
}

static bool is_peak_store(void *user, const char *name)
{
    bool *found = user;
    *found = strncmp(name, "peaks-", 6) == 0;
    return !*found;
}

/* Nothing was sorted here yet: then the data are read once, for their peaks, and their digest
 * comes by the way. */
static tg_status is_first_run(tg_job *j, bool *first, tg_error *err)
{
    bool found = false;
    TG_TRY(tg_store_list(j->peak_home, "", is_peak_store, &found, j->cancel, err));
    *first = !found;
    return TG_OK;
}

tg_peaks_info tg_job_expected_peaks(const tg_job *j, const tg_imzml *m)
{
    uint64_t most = j->segment_bytes / TG_PEAK_BYTES;
    tg_peaks_info i = {.n_peaks = m->n_peaks,
                       .segment_peaks = most < m->n_peaks ? most : m->n_peaks,
                       .n_pixels = m->n_pixels,
                       .n_spectra = m->n_spectra,
                       .polarity = m->positive == m->negative ? 0
                                   : m->positive              ? 1
                                                              : -1,
                       .width = m->width,
                       .height = m->height};
    i.segment_peaks = i.segment_peaks == 0 ? 1 : i.segment_peaks;
    i.n_segments = (i.n_peaks + i.segment_peaks - 1) / i.segment_peaks;
    return i;
}

/* As if all targets of a small database were kept, of a large one some; and the table of what
 * has a score is there. How many there are nobody knows yet. */
static uint64_t least_of_images(const tg_peaks_info *info, const tg_ion_space *space)
{
    uint64_t n = space->first_formula[space->n_dbs] * space->n_targets;
    n = n < MANY_IMAGES ? n : MANY_IMAGES;
    return tg_write_images_least(info, n) + n * SCORED_BYTES;
}

tg_status tg_job_check_budget(tg_job *j, const tg_imzml *m, tg_error *err)
{
    TG_AUTO_PTR(tg_ion_space) space = NULL;
    tg_peaks_info info = tg_job_expected_peaks(j, m);
    uint64_t largest, total = tg_budget_total(j->budget), least;
    /* the index of spectra goes, tables of the sorted peaks come */
    uint64_t used = tg_budget_used(j->budget) - m->reserved + tg_peaks_table_bytes(&info);

    if (j->n_dbs == 0)
        return TG_OK; /* no ions */
    fill_ions(j, j->o.polarity != 0 ? j->o.polarity : m->negative && !m->positive ? -1 : 1);
    TG_TRY(tg_ion_space_new(&space, (const tg_moldb *const *)j->dbs, j->n_dbs, &j->ions, err));
    TG_TRY(tg_units_most(space, &largest, j->sorting, err));
    least = tg_sweep_least(&info, largest, TG_MOST_UNITS);
    if (j->o.images != TG_IMAGES_NONE) {
        uint64_t images = least_of_images(&info, space);
        least = images > least ? images : least;
    }
    if (used + least <= total)
        return TG_OK;
    return tg_fail(err, TG_OVER_BUDGET,
                   "annotating wants %llu bytes, the budget is %llu: smaller segments of "
                   "sorted peaks than %llu bytes want less",
                   (unsigned long long)(used + least), (unsigned long long)total,
                   (unsigned long long)(info.segment_peaks * TG_PEAK_BYTES));
}

static tg_status find_or_sort(tg_job *j, tg_error *err)
{
    TG_AUTO_PTR(tg_imzml) m = NULL;
    bool first = false;

    if (j->data.digest[0] == '\0')
        TG_TRY(is_first_run(j, &first, err));
    if (first)
        TG_TRY(open_data(j, &m, err));
    if (j->data.digest[0] == '\0')
        TG_TRY(tg_identity_make(&j->data, &j->source, m == NULL ? NULL : &m->xml_crc32c,
                                j->sorting, err));
    TG_TRY(name_peaks(j, err));
    tg_status st = open_peaks(j, err);
    j->sorted_before = st == TG_OK;
    if (st != TG_NOT_FOUND)
        return st;
    if (m == NULL)
        TG_TRY(open_data(j, &m, err));
    TG_TRY(tg_job_check_budget(j, m, err));
    TG_TRY(sort_peaks(j, m, err));
    tg_imzml_free(tg_steal(m)); /* its index makes room */
    return open_peaks(j, err);
}

/* A note that cannot be left costs the next run a pass over the .imzML, no more. */
static void leave_note(tg_job *j)
{
    tg_error why = {0};
    if (j->beside_data && !j->data_was_known &&
        tg_identity_note(&j->data, j->peak_home, j->cancel, &why) != TG_OK)
        tg_runtime_log(j->rt, "no note of the data: %s", why.msg);
}

tg_status tg_job_peaks(tg_job *j, tg_error *err)
{
    int64_t start = tg_clock_ns();

    if (j->peak_home == NULL)
        TG_TRY(open_peak_home(j, err));
    tg_identity_recall(&j->data, &j->source, j->o.data, j->peak_home, j->cancel);
    j->data_was_known = j->data.digest[0] != '\0';
    tg_status st = find_or_sort(j, err);
    if (st == TG_CANCELLED)
        return tg_fail(err, TG_CANCELLED, "stopped while the peaks were sorted");
    if (st == TG_OK)
        leave_note(j);
    j->sort_seconds = tg_job_seconds(start);
    return st;
}

/* --- Ions and units
 * -------------------------------------------------------------------------------- */

static void add_words(tg_text *t, const char *what, const char *const *words, size_t n)
{
    tg_text_addf(t, "%s", what);
    for (size_t i = 0; i < n; i++)
        tg_text_addf(t, " %s", words[i]);
    tg_text_add(t, "\n");
}

static tg_status make_digest(tg_job *j, tg_error *err)
{
    TG_AUTO(tg_text) t = {0};
    const tg_imager_options *m = &j->imager;
    char sigma[32], ppm[32];

    tg_format_double(sigma, sizeof sigma, m->isotope.sigma);
    tg_format_double(ppm, sizeof ppm, m->ppm);
    tg_text_addf(&t, "data %s reading %d%d\n", j->data.digest, (int)j->o.reading.strict,
                 j->o.reading.grid_from_3d);
    for (size_t i = 0; i < j->n_dbs; i++)
        tg_text_addf(&t, "database %s %llu %08x\n", j->dbs[i]->name,
                     (unsigned long long)j->dbs[i]->bytes, j->dbs[i]->crc32c);
    add_words(&t, "adducts", j->ions.adducts, j->ions.n_adducts);
    add_words(&t, "losses", j->ions.losses, j->ions.n_losses);
    add_words(&t, "mods", j->ions.mods, j->ions.n_mods);
    tg_text_addf(&t, "mode v%d%s\ncharge %d\ninstrument %s\nsigma %s\nppm %s\n", j->version,
                 j->o.fixed ? " fixed" : "", j->charge,
                 tg_instrument_name(m->isotope.instrument), sigma, ppm);
    tg_text_addf(&t, "decoys %u\nseed %u\n", j->ions.decoys, j->ions.seed);
    TG_TRY(tg_text_status(&t, err));
    j->scores_crc32c = tg_crc32c(0, t.data, t.len);
    tg_text_addf(&t, "units %u\nparts %u\n", j->plan->n_units, j->o.n_parts);
    TG_TRY(tg_text_status(&t, err));
    j->digest = tg_text_steal(&t);
    return TG_OK;
}

void tg_job_charge(tg_job *j, int polarity)
{
    if (j->o.polarity != 0 && polarity != 0 && polarity != j->o.polarity)
        tg_runtime_log(j->rt, "the data say %s polarity, the options %s",
                       polarity > 0 ? "positive" : "negative",
                       j->o.polarity > 0 ? "positive" : "negative");
    fill_ions(j, j->o.polarity != 0 ? j->o.polarity : polarity != 0 ? polarity : 1);
}

tg_status tg_job_space(tg_job *j, int polarity, tg_error *err)
{
    tg_job_charge(j, polarity);
    return tg_ion_space_new(&j->space, (const tg_moldb *const *)j->dbs, j->n_dbs, &j->ions,
                            err);
}

tg_status tg_job_ions(tg_job *j, tg_error *err)
{
    TG_TRY(tg_job_space(j, tg_peaks_get_info(j->peaks)->polarity, err));
    TG_TRY(tg_units_plan(&j->plan, j->space, j->peaks, j->imager.ppm, j->cancel, err));
    return make_digest(j, err);
}

/* --- Images that wait ----------------------------------------------------------------------
 */

bool tg_job_keeps_images(const tg_job *j)
{
    return j->o.images == TG_IMAGES_ALL || (j->o.images == TG_IMAGES_FDR && j->o.n_parts > 1);
}

uint64_t tg_job_kept_room(const tg_job *j, uint64_t free)
{
    const uint64_t room = free / 8 < MOST_KEPT ? free / 8 : MOST_KEPT;
    tg_sweep_memory m;

    if (!tg_job_keeps_images(j) ||
        room < tg_keeper_least_bytes(tg_peaks_get_info(j->peaks)->n_pixels) ||
        tg_sweep_plan(&m, j->peaks, j->plan, true, free - room,
                      tg_pool_width(tg_runtime_pool(j->rt)), NULL) != TG_OK)
        return 0;
    return room;
}
