/* ims/parts.c - the parts of an annotation one by one, each timed alone: for benchmarks. */
#include "base/clock.h"
#include "ims/db.h"
#include "ims/job.h"
#include "ims/xml.h"

#include <string.h>

#define XML_ROOM  ((size_t)1 << 20)
#define XML_TURNS 3
#define PEAKS     "peaks.zarr"
#define N_TOUCHED 400    /* pixels of an ion, as in annotation of real data */
#define N_PIXELS  120000 /* of the data set they lie in */
#define N_IONS    200    /* sets of images made */
#define METRICS   40000  /* ions scored in a round */
#define CHAOS_NS  300000000

typedef struct timing {
    const tg_ims_parts_options *o;
    tg_ims_parts *out;
    tg_runtime *rt;
    tg_budget *budget;
    const tg_cancel *cancel;
    int64_t start;
} timing;

/* --- The document ----------------------------------------------------------------------- */

static void add(const timing *t, int part, double count)
{
    t->out->seconds[part] += tg_job_seconds(t->start);
    t->out->count[part] += count;
}

static tg_status read_bare(timing *t, const tg_imzml *m, uint8_t *room, tg_error *err)
{
    uint64_t bytes;

    TG_TRY(tg_store_size(m->source.store, m->source.xml_key, &bytes, t->cancel, err));
    t->start = tg_clock_ns();
    TG_TRY(
        tg_xml_read_bare(m->source.store, m->source.xml_key, room, XML_ROOM, t->cancel, err));
    add(t, TG_IMS_PART_EXPAT, (double)bytes);
    return TG_OK;
}

/* In turns with the bare parser, which reads it once before. */
static tg_status time_xml(timing *t, tg_imzml **m, uint8_t *room, tg_error *err)
{
    TG_TRY(tg_imzml_open(m, t->o->data, NULL, t->budget, t->cancel, err));
    for (int i = 0; i < XML_TURNS; i++) {
        TG_TRY(read_bare(t, *m, room, err));
        tg_imzml_free(tg_steal(*m));
        t->start = tg_clock_ns();
        TG_TRY(tg_imzml_open(m, t->o->data, NULL, t->budget, t->cancel, err));
        add(t, TG_IMS_PART_XML, t->out->count[TG_IMS_PART_EXPAT] / (i + 1));
    }
    return TG_OK;
}

/* --- The sort ------------------------------------------------------------------------------
 */

static tg_status time_sort(timing *t, tg_imzml *m, tg_error *err)
{
    const tg_store_options how = {
        .size = sizeof how, .mode = TG_STORE_OPEN_OR_CREATE, .no_sync = true};
    const tg_peaks_options o = {.segment_bytes = TG_ANNOTATE_SEGMENT,
                                .spill_dir = t->o->scratch};
    TG_AUTO_PTR(tg_store) store = NULL;
    tg_peaks_built built;

    TG_TRY(tg_store_open_fs(&store, t->o->scratch, &how, err));
    TG_TRY(tg_peaks_build(m, store, PEAKS, &o, t->rt, &built, t->cancel, err));
    t->out->seconds[TG_IMS_PART_SORT] = built.first_seconds;
    t->out->count[TG_IMS_PART_SORT] = (double)built.n_peaks;
    return TG_OK;
}

static tg_status time_data(timing *t, tg_error *err)
{
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO(tg_mem_ptr) room = tg_alloc(XML_ROOM);

    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a document");
    TG_TRY(tg_budget_reserve(t->budget, XML_ROOM, "a document", err));
    tg_status st = time_xml(t, &m, room, err);
    tg_budget_release(t->budget, XML_ROOM);
    return st != TG_OK ? st : time_sort(t, m, err);
}

/* --- Centroids -----------------------------------------------------------------------------
 */

static tg_status each_formula(timing *t, tg_isotope *iso, const tg_moldb *db, tg_error *err)
{
    tg_centroids c;

    t->start = tg_clock_ns();
    for (uint64_t i = 0; i < db->n_formulas; i++) {
        const tg_status st = tg_isotope_centroids(iso, tg_moldb_formula(db, i), &c, err);
        if (st == TG_OK)
            t->out->centroids += c.n;
        else if (st == TG_INVALID || st == TG_UNSUPPORTED)
            t->out->refused++;
        else
            return st;
    }
    add(t, TG_IMS_PART_CENTROIDS, (double)db->n_formulas);
    return TG_OK;
}

static tg_status time_centroids(timing *t, tg_error *err)
{
    const tg_moldb_options how = {0};
    const tg_instrument kind = t->o->instrument == TG_INSTRUMENT_TOF        ? TG_TOF
                               : t->o->instrument == TG_INSTRUMENT_ORBITRAP ? TG_ORBITRAP
                                                                            : TG_FTICR;
    const tg_isotope_settings settings = {
        .version = 3,
        .instrument = kind,
        .sigma = tg_sigma_of_resolving_power(kind, t->o->resolving_power, 200),
        .charge = 1};
    TG_AUTO_PTR(tg_moldb) db = NULL;
    TG_AUTO_PTR(tg_isotope) iso = NULL;

    TG_TRY(tg_moldb_open(&db, t->o->formulas, &how, t->budget, NULL, t->cancel, err));
    TG_TRY(tg_budget_reserve(t->budget, TG_ISOTOPE_CONTEXT_BYTES, "isotope patterns", err));
    tg_status st = tg_isotope_new(&iso, &settings, err);
    if (st == TG_OK)
        st = each_formula(t, iso, db, err);
    tg_budget_release(t->budget, TG_ISOTOPE_CONTEXT_BYTES);
    return st;
}

/* --- Metrics --------------------------------------------------------------------------------
 */

static void make_values(float *v, size_t n)
{
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(seed >> 8) * 0x1p-24f + 0.5f;
    }
}

static double score(const float *values, const double theory[TG_N_IMAGES])
{
    const float *images[TG_N_IMAGES];
    double sums[TG_N_IMAGES] = {0};

    for (int k = 0; k < TG_N_IMAGES; k++) {
        images[k] = values + (size_t)k * N_TOUCHED;
        for (int i = 0; i < N_TOUCHED; i++)
            sums[k] += images[0][i] > 0 ? (double)images[k][i] : 0;
    }
    return tg_score_spectral(sums, theory) *
           tg_score_spatial(images, N_TOUCHED, N_PIXELS, theory);
}

static tg_status time_metrics(timing *t, tg_error *err)
{
    static const double theory[TG_N_IMAGES] = {100, 40, 10, 2};
    const size_t each = (size_t)TG_N_IMAGES * N_TOUCHED;
    TG_AUTO(tg_mem_ptr) owner = tg_alloc_array(each * N_IONS, sizeof(float));
    float *values = owner;
    double sum = 0;

    if (values == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for images");
    make_values(values, each * N_IONS);
    t->start = tg_clock_ns();
    for (size_t i = 0; i < METRICS; i++)
        sum += score(values + i % N_IONS * each, theory);
    add(t, TG_IMS_PART_METRICS, METRICS);
    return sum > 0 ? TG_OK : tg_fail(err, TG_CORRUPT, "scores of made-up images are %g", sum);
}

/* --- Chaos ---------------------------------------------------------------------------------
 */

static void measure_images(timing *t, tg_chaos *c)
{
    const tg_ims_parts_options *o = t->o;
    tg_chaos_result r = {0};
    double n = 0;

    t->start = tg_clock_ns();
    do {
        for (size_t i = 0; i < o->n_images; i++) {
            tg_chaos_measure(c, o->images + i * o->height * o->width, o->height, o->width,
                             TG_CHAOS_LEVELS, false, &r);
            t->out->chaos = i == 0 ? r.score : t->out->chaos;
        }
        n += (double)o->n_images;
    } while (tg_clock_ns() - t->start < CHAOS_NS);
    add(t, TG_IMS_PART_CHAOS, n);
}

static tg_status time_chaos(timing *t, tg_error *err)
{
    const size_t bytes = tg_chaos_bytes(t->o->height, t->o->width);
    TG_AUTO_PTR(tg_chaos) c = NULL;

    if (bytes == SIZE_MAX)
        return tg_fail(err, TG_INVALID, "images of %zu x %zu pixels", t->o->height,
                       t->o->width);
    TG_TRY(tg_budget_reserve(t->budget, bytes, "an image", err));
    tg_status st = tg_chaos_new(&c, t->o->height, t->o->width, err);
    if (st == TG_OK)
        measure_images(t, c);
    tg_budget_release(t->budget, bytes);
    return st;
}

/* --- All of them ---------------------------------------------------------------------------
 */

tg_status tg_ims_time_parts(tg_runtime *rt, const tg_ims_parts_options *options,
                            tg_ims_parts *out, const tg_cancel *cancel, tg_error *err)
{
    timing t = {options, out, rt, tg_runtime_budget(rt), cancel, 0};

    if (options->size != sizeof *options || out->size != sizeof *out)
        return tg_fail(err, TG_INVALID, "parts of %zu and %zu bytes, want %zu and %zu",
                       options->size, out->size, sizeof *options, sizeof *out);
    *out = (tg_ims_parts){.size = sizeof *out};
    if (options->data != NULL)
        TG_TRY(time_data(&t, err));
    if (options->formulas != NULL)
        TG_TRY(time_centroids(&t, err));
    if (options->images != NULL && options->n_images > 0)
        TG_TRY(time_chaos(&t, err));
    return time_metrics(&t, err);
}
