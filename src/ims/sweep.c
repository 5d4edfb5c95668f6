/* ims/sweep.c - batches of units, a unit a worker at a time. */
#include "ims/sweep.h"

#include "base/clock.h"

#include <string.h>

#define LEAST_BATCH ((uint64_t)4096)
#define MOST_BATCH  ((uint64_t)1 << 19)
#define MARGIN      ((uint64_t)1 << 20)
#define SYNC_NS     1000000000
#define MAX_DEPTH   512 /* units on their way */

/* A unit on its way: handed out, scored, recorded. */
typedef struct unit {
    tg_unit_head head;
    uint8_t *results;
    /* of the unit, where there are fewer than threads; else the thread's */
    tg_imager *imager;
    tg_image_coder *coder;
} unit;

typedef struct sweep {
    const tg_ion_space *s;
    tg_peaks *peaks;
    const tg_unit_plan *plan;
    const tg_sweep_options *options;
    const tg_cancel *cancel;
    tg_imager **imagers;
    tg_image_coder **coders; /* one with each imager, if images are kept; else NULL */
    uint32_t n_imagers;
    unit *units; /* `depth` of them */
    uint32_t depth;
    tg_ion_record *records;
    uint64_t *first_record;
    uint32_t first, end; /* units of the batch */
    uint32_t next;       /* to be handed out */
    bool late;
    tg_reporter *reporter;
    tg_journal *journal; /* one thread at a time is in the sink */
    int64_t synced_ns;
    tg_mutex lock; /* guards all below */
    unit *free[MAX_DEPTH];
    uint32_t n_free;
} sweep;

/* --- Memory ---------------------------------------------------------------------------------
 */

static uint64_t largest_unit(const tg_unit_plan *p)
{
    uint64_t most = 1;
    for (uint32_t u = 0; u < p->n_units; u++)
        most = p->counts[u] > most ? p->counts[u] : most;
    return most;
}

/* An imager, and the results of two units: one may wait for its turn while the next is done. */
static uint64_t worker_bytes(const tg_peaks_info *info, uint64_t largest, bool keeps)
{
    size_t imager = tg_imager_bytes(info);
    if (imager == SIZE_MAX)
        return UINT64_MAX / 4;
    return imager + (keeps ? tg_image_coder_bytes(info->n_pixels, true) : 0) +
           2 * largest * sizeof(tg_ion_result) + 4096;
}

/* How many records are made at a time. */
static uint64_t batch_of(const tg_unit_plan *plan, uint64_t free)
{
    uint64_t least = largest_unit(plan) > LEAST_BATCH ? largest_unit(plan) : LEAST_BATCH;
    uint64_t n = free / 8 / sizeof(tg_ion_record);

    n = n < MOST_BATCH ? n : MOST_BATCH;
    n = n < plan->n_candidates ? n : plan->n_candidates;
    return n > least ? n : least;
}

static uint64_t own_bytes(uint64_t batch_ions, uint64_t n_units)
{
    return batch_ions * sizeof(tg_ion_record) + (n_units + 1) * sizeof(uint64_t) + MARGIN;
}

tg_status tg_sweep_plan(tg_sweep_memory *out, const tg_peaks *peaks, const tg_unit_plan *plan,
                        bool keeps, uint64_t free, uint32_t width, tg_error *err)
{
    uint64_t slot = tg_peaks_slot_bytes(peaks);
    uint64_t n_segments = tg_peaks_get_info(peaks)->n_segments;
    tg_sweep_memory m = {.batch_ions = batch_of(plan, free)};
    tg_peaks_share share = {
        .what = "annotating",
        .per_worker = worker_bytes(tg_peaks_get_info(peaks), largest_unit(plan), keeps),
        .reach = tg_peaks_reach(peaks, 2 * TG_ION_REACH),
        .reach_beside = tg_units_reach(plan, peaks, 2)};

    share.own = own_bytes(m.batch_ions, plan->n_units);
    if (tg_peaks_least(&share, n_segments, slot) > free) { /* more walks then */
        m.batch_ions = batch_of(plan, 0);
        share.own = own_bytes(m.batch_ions, plan->n_units);
    }
    TG_TRY(tg_peaks_divide(&share, n_segments, slot, free,
                           width < MAX_DEPTH / 2 ? width : MAX_DEPTH / 2, &m.workers, &m.slots,
                           err));
    m.near = m.workers == 1 ? share.reach : m.workers * share.reach_beside;
    m.prefetch = m.slots > m.near;
    m.per_worker = share.per_worker;
    m.total = share.own + m.workers * m.per_worker + m.slots * slot;
    *out = m;
    return TG_OK;
}

uint64_t tg_sweep_least(const tg_peaks_info *info, uint64_t largest, uint64_t n_units)
{
    tg_peaks_share share = {
        .own = own_bytes(largest > LEAST_BATCH ? largest : LEAST_BATCH, n_units),
        .per_worker = worker_bytes(info, largest, false)};
    return tg_peaks_least(&share, info->n_segments,
                          tg_peaks_slot_bytes_of(info->segment_peaks));
}

void tg_sweep_most(tg_sweep_memory *out, const tg_peaks_info *info, uint64_t largest,
                   uint64_t n_candidates, bool keeps, uint64_t free, uint32_t width)
{
    uint64_t batch = n_candidates < MOST_BATCH ? n_candidates : MOST_BATCH;
    batch = batch > largest ? batch : largest;
    batch = batch > LEAST_BATCH ? batch : LEAST_BATCH;
    *out = (tg_sweep_memory){.workers = width,
                             .batch_ions = batch,
                             .per_worker = worker_bytes(info, largest, keeps)};
    out->total = own_bytes(batch, TG_MOST_UNITS) + width * out->per_worker +
                 info->n_segments * tg_peaks_slot_bytes_of(info->segment_peaks);
    out->total = out->total < free ? out->total : free;
}

/* --- A unit
 * ------------------------------------------------------------------------------------ */

static void store_result(unit *u, const tg_ion *ion, const tg_ion_record *rec,
                         const tg_centroids *c, const tg_scores *sc, const tg_ion_stats *st)
{
    tg_ion_result r = {
        .hash = {ion->hash[0], ion->hash[1]},
        .msm = sc->msm,
        .chaos = sc->chaos,
        .spatial = sc->spatial,
        .spectral = sc->spectral,
        .mz_err_abs = st->mz_err_abs,
        .mz_err_rel = st->mz_err_rel,
        .formula = rec->formula,
        .modifier = rec->modifier,
    };
    for (int k = 0; k < TG_N_IMAGES; k++) {
        r.mz[k] = c->mz[k];
        r.intensity[k] = (float)c->intensity[k];
        r.n_pixels[k] = sc->n_pixels[k];
        r.total[k] = st->total[k];
        r.min[k] = st->min[k];
        r.max[k] = st->max[k];
    }
    memcpy(u->results + (size_t)u->head.n_results++ * sizeof r, &r, sizeof r);
}

static tg_status keep_images(const sweep *w, const tg_imager *imager, tg_image_coder *coder,
                             const tg_ion *ion, tg_error *err)
{
    const tg_touched images = tg_touched_by(imager);
    tg_bytes record;
    tg_image_ref ref;
    TG_TRY(tg_image_encode(coder, &images, &record, err));
    return tg_keeper_add(w->options->keeper, ion->hash, record, &ref, err);
}

/* Score one ion; it is stored if that is above 0. */
static tg_status score_ion(sweep *w, unit *u, tg_imager *imager, tg_image_coder *coder,
                           const tg_ion_record *rec, tg_error *err)
{
    tg_ion ion;
    tg_centroids c;
    tg_scores scores;
    tg_ion_stats stats;
    bool left;

    TG_TRY(tg_ion_make_at(w->s, rec->formula, rec->modifier, &ion, err));
    tg_status st = tg_imager_centroids_seen(imager, ion.text, &c, &left, w->cancel, err);
    if (st == TG_INVALID || st == TG_UNSUPPORTED) {
        u->head.n_skipped++;
        return TG_OK;
    }
    TG_TRY(st);
    if (left)
        return TG_OK;
    TG_TRY(tg_imager_extract(imager, &c, true, w->cancel, err));
    tg_imager_score(imager, &c, &scores);
    if (!(scores.msm > 0))
        return TG_OK;
    TG_TRY(tg_imager_stats(imager, &c, &stats, w->cancel, err));
    store_result(u, &ion, rec, &c, &scores, &stats);
    return coder != NULL && rec->modifier < w->s->n_targets
               ? keep_images(w, imager, coder, &ion, err)
               : TG_OK;
}

static bool is_late(sweep *w)
{
    w->late = w->late || tg_clock_ns() >= w->options->deadline_ns;
    return w->late;
}

static tg_status next_unit(void *user, void **item, tg_error *err)
{
    sweep *w = user;
    (void)err;
    while (w->next < w->end && w->options->unit_done[w->next] != 0)
        w->next++;
    if (w->next == w->end || is_late(w))
        return TG_CLOSED;
    TG_LOCKED(&w->lock);
    unit *u = w->free[--w->n_free]; /* there is one: no more exist than the pipeline is deep */
    u->head = (tg_unit_head){.unit = w->next++};
    *item = u;
    return TG_OK;
}

static tg_status score_unit(void *user, void *item, uint32_t thread, tg_error *err)
{
    sweep *w = user;
    unit *u = item;
    tg_imager *imager = u->imager != NULL ? u->imager : w->imagers[thread];
    tg_image_coder *coder = u->imager != NULL   ? u->coder
                            : w->coders != NULL ? w->coders[thread]
                                                : NULL;
    uint32_t i = u->head.unit - w->first;
    uint64_t from = w->first_record[i], to = w->first_record[i + 1];

    for (uint64_t k = from; k < to; k++) {
        if (k % 64 == 0)
            TG_TRY(tg_cancel_check(w->cancel, err));
        TG_TRY(score_ion(w, u, imager, coder, &w->records[k], err));
    }
    u->head.n_ions = to - from;
    return TG_OK;
}

static void give_back(void *user, void *item)
{
    sweep *w = user;
    TG_LOCKED(&w->lock);
    w->free[w->n_free++] = item;
}

static tg_status write_record(sweep *w, const unit *u, tg_error *err)
{
    tg_bytes head = {(const uint8_t *)&u->head, sizeof u->head};
    tg_bytes results = {u->results, (size_t)u->head.n_results * sizeof(tg_ion_result)};
    tg_bytes none = {head.data, 0};
    int64_t now = tg_clock_ns();

    TG_TRY(tg_journal_add(w->journal, TG_RECORD_UNIT, head, results, none, err));
    if (now - w->synced_ns < SYNC_NS)
        return tg_journal_flush(w->journal, err); /* survives a kill */
    w->synced_ns = now;
    return tg_journal_sync(w->journal, err);
}

static tg_status record_unit(void *user, void *item, tg_error *err)
{
    sweep *w = user;
    tg_status st = write_record(w, item, err);
    give_back(w, item);
    tg_reporter_add(w->reporter, 1, 0);
    return st;
}

/* --- Batches
 * ----------------------------------------------------------------------------------- */

/* Units from `first` on whose candidates fit; those done already are passed over in front. */
static void choose_batch(sweep *w, uint64_t cap)
{
    uint64_t n = 0;
    while (w->first < w->options->end_unit && w->options->unit_done[w->first] != 0)
        w->first++;
    for (w->end = w->first; w->end < w->options->end_unit; w->end++) {
        n += w->plan->counts[w->end];
        if (n > cap && w->end > w->first)
            return;
    }
}

static tg_status run_batches(sweep *w, const tg_sweep_memory *m, tg_pool *pool, tg_error *err)
{
    tg_pipeline line = {.user = w,
                        .next = next_unit,
                        .work = score_unit,
                        .sink = record_unit,
                        .drop = give_back,
                        .depth = w->depth};
    for (w->first = w->options->first_unit;; w->first = w->end) {
        choose_batch(w, m->batch_ions);
        if (w->first == w->options->end_unit || is_late(w))
            return TG_OK;
        TG_TRY(tg_units_collect(w->plan, w->s, w->first, w->end, w->records, m->batch_ions,
                                w->first_record, w->cancel, err));
        w->next = w->first;
        TG_TRY(tg_pipeline_run(pool, &line, w->cancel, err));
    }
}

static tg_status make_coders(sweep *w, tg_error *err)
{
    if (w->options->keeper == NULL)
        return TG_OK;
    w->coders = tg_calloc(w->n_imagers, sizeof(tg_image_coder *));
    if (w->coders == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %u workers", w->n_imagers);
    for (uint32_t i = 0; i < w->n_imagers; i++)
        TG_TRY(tg_image_coder_new(&w->coders[i], tg_peaks_get_info(w->peaks)->n_pixels, true,
                                  err));
    return TG_OK;
}

/* With an imager for each thread two units a thread are on their way; else one for each imager,
 * which it brings along. */
static tg_status make_units(sweep *w, const tg_sweep_memory *m, uint32_t width, tg_error *err)
{
    bool own = m->workers < width;
    uint64_t bytes = largest_unit(w->plan) * sizeof(tg_ion_result);

    w->depth = own ? m->workers : 2 * m->workers;
    w->imagers = tg_calloc(m->workers, sizeof(tg_imager *));
    w->units = tg_calloc(w->depth, sizeof *w->units);
    if (w->imagers == NULL || w->units == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %u workers", m->workers);
    w->n_imagers = m->workers;
    for (uint32_t i = 0; i < m->workers; i++)
        TG_TRY(tg_imager_new(&w->imagers[i], w->peaks, &w->options->imager, err));
    TG_TRY(make_coders(w, err));
    for (uint32_t i = 0; i < w->depth; i++) {
        w->units[i].imager = own ? w->imagers[i] : NULL;
        w->units[i].coder = own && w->coders != NULL ? w->coders[i] : NULL;
        w->units[i].results = tg_alloc(bytes);
        if (w->units[i].results == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for the results of a unit");
        w->free[w->n_free++] = &w->units[i];
    }
    w->records = tg_alloc_array(m->batch_ions, sizeof *w->records);
    w->first_record = tg_alloc_array((size_t)w->plan->n_units + 1, sizeof *w->first_record);
    if (w->records == NULL || w->first_record == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %llu ions",
                       (unsigned long long)m->batch_ions);
    return TG_OK;
}

static void free_units(sweep *w)
{
    for (uint32_t i = 0; i < w->n_imagers; i++) {
        tg_imager_free(w->imagers[i]);
        if (w->coders != NULL)
            tg_image_coder_free(w->coders[i]);
    }
    for (uint32_t i = 0; w->units != NULL && i < w->depth; i++)
        tg_free(w->units[i].results);
    tg_free(w->imagers);
    tg_free(w->coders);
    tg_free(w->units);
    tg_free(w->records);
    tg_free(w->first_record);
}

static uint32_t units_left(const tg_sweep_options *o)
{
    uint32_t n = 0;
    for (uint32_t u = o->first_unit; u < o->end_unit; u++)
        n += o->unit_done[u] == 0;
    return n;
}

tg_status tg_sweep_run(const tg_ion_space *s, tg_peaks *peaks, const tg_unit_plan *plan,
                       const tg_sweep_options *options, tg_runtime *rt, tg_journal *journal,
                       bool *late, const tg_cancel *cancel, tg_error *err)
{
    tg_budget *budget = tg_runtime_budget(rt);
    tg_sweep_memory m;
    sweep w = {.s = s,
               .peaks = peaks,
               .plan = plan,
               .options = options,
               .cancel = cancel,
               .journal = journal,
               .synced_ns = tg_clock_ns()};

    TG_TRY(tg_sweep_plan(&m, peaks, plan, options->keeper != NULL,
                         tg_budget_total(budget) - tg_budget_used(budget),
                         tg_pool_width(tg_runtime_pool(rt)), err));
    uint64_t own = m.total - m.slots * tg_peaks_slot_bytes(peaks);
    TG_TRY(tg_budget_reserve(budget, own, "annotating", err));
    tg_mutex_init(&w.lock);
    tg_status st = tg_peaks_cache(peaks, m.slots, m.near, m.prefetch, err);
    if (st == TG_OK)
        st = make_units(&w, &m, tg_pool_width(tg_runtime_pool(rt)), err);
    if (st == TG_OK)
        st = tg_reporter_new(&w.reporter, options->progress, options->progress_user, "annotate",
                             units_left(options), err);
    if (st == TG_OK)
        st = run_batches(&w, &m, tg_runtime_pool(rt), err);
    if (st == TG_OK)
        st = tg_journal_sync(journal, err);
    tg_reporter_free(w.reporter);
    free_units(&w);
    tg_peaks_uncache(peaks);
    tg_mutex_destroy(&w.lock);
    tg_budget_release(budget, own);
    if (late != NULL)
        *late = w.late;
    return st;
}
