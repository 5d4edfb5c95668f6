/* ims/peak_build.c - from spectra to a peak store: fills runs in the order of spectra, sorts
 * and spills them beside each other, merges them into segments. What fits in memory is never
 * spilled. */
#include "base/clock.h"
#include "ims/ibd.h"
#include "ims/peak_merge.h"
#include "ims/peak_write.h"
#include "ims/peaks.h"

#include <math.h>

#define BATCH_BYTES   ((uint64_t)32 << 20) /* of the input, at most: few requests */
#define LEAST_BATCH   ((uint64_t)256 << 10)
#define LEAST_RUN     ((uint64_t)64 << 10) /* peaks */
#define MARGIN        ((uint64_t)1 << 20)
#define MAX_DEPTH     3
#define MAX_MZ        1e5
#define COLUMN_TILE   16 /* columns of a transposed tile: one line of memory */
#define JUDGE_SPECTRA 500

typedef struct run {
    tg_peak *peaks, *scratch;
    size_t n;
    bool sorted;
    bool everything; /* the only one */
} run;

typedef struct builder {
    tg_imzml *m;
    const tg_peaks_options *options;
    tg_peaks_built *built;
    tg_ibd *reader;
    const tg_cancel *cancel;
    tg_reporter *reporter;
    size_t capacity; /* peaks of a run */
    run runs[MAX_DEPTH];
    run *free[MAX_DEPTH];
    size_t n_free;
    tg_mutex lock; /* guards free, n_free */
    double *tic;
    /* the spectrum that is being cut into runs */
    tg_ibd_spectrum now;
    uint32_t now_at, now_pixel;
    bool has_now, ended;
    bool one_axis; /* continuous, m/z rising: columns can be gathered */
    uint64_t judged, profile_like;
    tg_peak_runs *spill;
    run *kept;       /* all the peaks, in memory */
    uint64_t n_runs; /* made so far */
} builder;

/* --- Judging values --------------------------------------------------------------------- */

static bool mz_is_usable(double mz)
{
    return mz > 0 && mz < MAX_MZ; /* false for NaN */
}

/* What the array shows that no single peak does. */
static void judge_spectrum(builder *b, const tg_ibd_spectrum *s)
{
    uint32_t n = s->at->count, close = 0;
    bool rising = true;

    if (s->same_mz)
        return;
    for (uint32_t i = 1; i < n; i++) {
        rising = rising && !(s->mz[i] < s->mz[i - 1]);
        close += s->mz[i] - s->mz[i - 1] < s->mz[i] * 3e-6;
    }
    if (!rising)
        tg_ims_note(b->m->odd, TG_ODD_UNSORTED, 1, "spectrum %llu: m/z values do not rise",
                    (unsigned long long)s->index);
    if (b->judged < JUDGE_SPECTRA && n > 10) {
        b->judged++;
        b->profile_like += close > n / 2;
    }
}

static void judge_profile(builder *b)
{
    if (b->m->kind_given || b->m->declared_profile || b->judged == 0 ||
        b->profile_like * 2 <= b->judged)
        return;
    tg_ims_note(b->m->odd, TG_ODD_PROFILE, 1,
                "looks like profile data: most neighbours lie within 3 ppm");
}

/* Should the peak be kept? Counts what is dropped for being no number. */
static bool take_peak(builder *b, const tg_ibd_spectrum *s, uint32_t i)
{
    float v = s->intensity[i];

    if (!mz_is_usable(s->mz[i])) {
        b->built->dropped_mz++;
        tg_ims_note(b->m->odd, TG_ODD_MZ, 1, "spectrum %llu: m/z %g: dropped",
                    (unsigned long long)s->index, s->mz[i]);
        return false;
    }
    if (!isfinite(v)) {
        tg_ims_note(b->m->odd, TG_ODD_INTENSITY, 1, "spectrum %llu: intensity %g at m/z %.6f",
                    (unsigned long long)s->index, (double)v, s->mz[i]);
        b->built->infinite += v > 0;
        return v > 0 && !b->options->drop_infinite;
    }
    b->built->dropped_intensity += v < 0;
    return v > 0;
}

/* --- Filling a run --------------------------------------------------------------------------
 */

static tg_status next_spectrum(builder *b, tg_error *err)
{
    tg_status st = tg_ibd_next(b->reader, &b->now, b->cancel, err);
    if (st == TG_CLOSED) {
        b->ended = true;
        return TG_OK;
    }
    TG_TRY(st);
    judge_spectrum(b, &b->now);
    b->now_at = 0;
    b->now_pixel = tg_imzml_pixel(b->m, b->now.at);
    b->has_now = true;
    tg_reporter_add(b->reporter, 1,
                    (uint64_t)b->now.at->encoded[0] + (uint64_t)b->now.at->encoded[1]);
    return TG_OK;
}

static void take_from_spectrum(builder *b, run *r)
{
    const tg_ibd_spectrum *s = &b->now;
    double sum = 0;
    uint32_t i = b->now_at;

    for (; i < s->at->count && r->n < b->capacity; i++) {
        if (!take_peak(b, s, i))
            continue;
        r->peaks[r->n++] = (tg_peak){tg_peak_key(s->mz[i]), s->intensity[i], b->now_pixel};
        sum += s->intensity[i];
    }
    b->tic[b->now_pixel] += sum;
    b->now_at = i;
    b->has_now = i < s->at->count;
}

static tg_status fill_run(builder *b, run *r, tg_error *err)
{
    while (r->n < b->capacity) {
        if (!b->has_now)
            TG_TRY(next_spectrum(b, err));
        if (b->ended)
            return TG_OK;
        take_from_spectrum(b, r);
    }
    return TG_OK;
}

/* Continuous data: rows of intensities are gathered, then read by columns, which are in m/z
 * order already. scratch holds the rows, and behind them their pixels. */
static void read_columns(run *r, const double *mz, size_t n_rows, size_t n_columns)
{
    const float *rows = (const float *)(const void *)r->scratch;
    const uint32_t *pixels = (const uint32_t *)(const void *)(rows + n_rows * n_columns);

    for (size_t tile = 0; tile < n_columns; tile += COLUMN_TILE)
        for (size_t c = tile; c < n_columns && c < tile + COLUMN_TILE; c++) {
            uint64_t key = tg_peak_key(mz[c]);
            for (size_t k = 0; k < n_rows; k++) {
                float v = rows[k * n_columns + c];
                if (v > 0) /* what is not finite was settled when the row came */
                    r->peaks[r->n++] = (tg_peak){key, v, pixels[k]};
            }
        }
}

static void take_row(builder *b, float *row)
{
    double sum = 0;
    for (uint32_t i = 0; i < b->now.at->count; i++) {
        row[i] = take_peak(b, &b->now, i) ? b->now.intensity[i] : 0;
        sum += row[i];
    }
    b->tic[b->now_pixel] += sum;
    b->has_now = false;
}

static tg_status fill_columns(builder *b, run *r, tg_error *err)
{
    size_t n_columns = b->m->max_count, most = b->capacity / n_columns, n_rows = 0;
    float *rows = (float *)(void *)r->scratch;
    TG_AUTO(tg_mem_ptr) owner = tg_alloc_array(most, sizeof(uint32_t));
    uint32_t *pixels = owner;

    if (pixels == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu rows", most);
    while (n_rows < most) {
        TG_TRY(next_spectrum(b, err));
        if (b->ended)
            break;
        pixels[n_rows] = b->now_pixel;
        take_row(b, rows + n_rows++ * n_columns);
    }
    memcpy(rows + n_rows * n_columns, pixels, n_rows * sizeof *pixels);
    read_columns(r, b->now.mz, n_rows, n_columns);
    r->sorted = true;
    return TG_OK;
}

/* --- The pipeline: fill, sort, spill --------------------------------------------------------
 */

static tg_status next_run(void *user, void **item, tg_error *err)
{
    builder *b = user;
    run *r;

    if (b->ended)
        return TG_CLOSED;
    {
        TG_LOCKED(&b->lock);
        r = b->free[--b->n_free]; /* there is one: no more runs exist than the pipeline's depth
                                   */
    }
    r->n = 0;
    r->sorted = false;
    tg_status st = b->one_axis ? fill_columns(b, r, err) : fill_run(b, r, err);
    if (st != TG_OK || (r->n == 0 && b->ended)) {
        TG_LOCKED(&b->lock);
        b->free[b->n_free++] = r;
        return st != TG_OK ? st : TG_CLOSED;
    }
    r->everything = b->n_runs++ == 0 && b->ended;
    *item = r;
    return TG_OK;
}

static tg_status sort_run(void *user, void *item, uint32_t worker, tg_error *err)
{
    run *r = item;
    (void)user;
    (void)worker;
    (void)err;
    if (!r->sorted)
        tg_peaks_sort(r->peaks, r->scratch, r->n);
    return TG_OK;
}

static void give_back(void *user, void *item)
{
    builder *b = user;
    TG_LOCKED(&b->lock);
    b->free[b->n_free++] = item;
}

static tg_status spill_run(void *user, void *item, tg_error *err)
{
    builder *b = user;
    run *r = item;

    b->built->n_peaks += r->n;
    if (r->everything) {
        b->kept = r;
        return TG_OK;
    }
    if (b->spill->fd < 0)
        TG_TRY(tg_peak_runs_open(b->spill, b->options->spill_dir, err));
    tg_status st = tg_peak_runs_add(b->spill, r->peaks, r->n, err);
    give_back(b, r);
    return st;
}

static void free_runs(builder *b)
{
    for (int i = 0; i < MAX_DEPTH; i++) {
        tg_free(b->runs[i].peaks);
        tg_free(b->runs[i].scratch);
        b->runs[i] = (run){0};
    }
}

static tg_status make_runs(builder *b, uint32_t depth, tg_error *err)
{
    for (uint32_t i = 0; i < depth; i++) {
        b->runs[i].peaks = tg_alloc_array(b->capacity, sizeof(tg_peak));
        b->runs[i].scratch = tg_alloc_array(b->capacity + 1, sizeof(tg_peak));
        if (b->runs[i].peaks == NULL || b->runs[i].scratch == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for runs of %zu peaks", b->capacity);
        b->free[b->n_free++] = &b->runs[i];
    }
    return TG_OK;
}

/* --- Memory
 * ------------------------------------------------------------------------------------ */

typedef struct plan {
    uint64_t fixed; /* sums of pixels, tables, the writer's segment */
    uint64_t batch, reader, runs;
    uint64_t capacity;
    uint32_t depth;
} plan;

static uint64_t segment_peaks_of(uint64_t segment_bytes, uint64_t n_peaks)
{
    uint64_t n = segment_bytes / TG_PEAK_BYTES;
    n = n == 0 ? 1 : n;
    return n < n_peaks ? n : n_peaks == 0 ? 1 : n_peaks;
}

static uint64_t fixed_bytes(const tg_imzml *m, uint64_t segment_bytes)
{
    uint64_t segment = segment_peaks_of(segment_bytes, m->n_peaks);
    /* sums in double, then float, and a table on its way out */
    return m->n_pixels * (sizeof(double) + 2 * sizeof(float)) + tg_peak_writer_bytes(segment) +
           m->n_peaks / segment * 32 + MARGIN;
}

uint64_t tg_peaks_build_bytes(const tg_imzml *m, uint64_t segment_bytes)
{
    uint64_t peaks =
        m->n_peaks + m->max_count < LEAST_RUN ? m->n_peaks + m->max_count : LEAST_RUN;
    return fixed_bytes(m, segment_bytes) + tg_ibd_bytes(m, LEAST_BATCH) +
           2 * (peaks + 1) * sizeof(tg_peak);
}

static tg_status make_plan(plan *p, const tg_imzml *m, uint64_t segment_bytes, uint64_t free,
                           uint32_t width, tg_error *err)
{
    uint64_t least = tg_peaks_build_bytes(m, segment_bytes);
    if (free < least)
        return tg_fail(err, TG_OVER_BUDGET,
                       "sorting the peaks wants %llu bytes, %llu of the budget are free",
                       (unsigned long long)least, (unsigned long long)free);
    p->fixed = fixed_bytes(m, segment_bytes);
    p->batch = free / 8 < BATCH_BYTES ? free / 8 : BATCH_BYTES;
    p->batch = p->batch < m->ibd_bytes ? p->batch : m->ibd_bytes;
    p->reader = tg_ibd_bytes(m, p->batch);
    if (p->fixed + p->reader + 2 * LEAST_RUN * sizeof(tg_peak) > free) {
        p->batch = LEAST_BATCH;
        p->reader = tg_ibd_bytes(m, p->batch);
    }
    uint64_t most = (free - p->fixed - p->reader) / (2 * sizeof(tg_peak));
    uint64_t all = m->n_peaks + m->max_count;
    p->depth = all < most || width < 2 ? 1 : width < MAX_DEPTH ? width : MAX_DEPTH;
    p->capacity = all < most ? all : most / p->depth - 1;
    p->capacity = p->capacity == 0 ? 1 : p->capacity;
    p->runs = (uint64_t)2 * p->depth * (p->capacity + 1) * sizeof(tg_peak);
    return TG_OK;
}

tg_status tg_peaks_build_plan(const tg_imzml *m, uint64_t segment_bytes, uint64_t free,
                              uint32_t width, uint64_t *bytes, uint64_t *spilled, tg_error *err)
{
    plan p = {0};
    TG_TRY(make_plan(&p, m, segment_bytes, free, width, err));
    *bytes = p.fixed + p.reader + p.runs;
    *spilled = p.capacity < m->n_peaks ? m->n_peaks * TG_PEAK_BYTES : 0;
    return TG_OK;
}

/* --- Writing
 * ----------------------------------------------------------------------------------- */

typedef struct writing {
    tg_peak_writer *writer;
    const tg_cancel *cancel;
    tg_reporter *reporter;
} writing;

static tg_status write_peaks(void *user, const tg_peak *peaks, size_t n, tg_error *err)
{
    writing *w = user;
    tg_reporter_add(w->reporter, n, n * TG_PEAK_BYTES);
    return tg_peak_writer_add(w->writer, peaks, n, w->cancel, err);
}

static tg_status merge_runs(builder *b, writing *w, uint64_t room, tg_error *err)
{
    uint64_t n = b->spill->n, each = n == 0 ? 0 : room / n / sizeof(tg_peak);

    if (n == 0)
        return TG_OK;
    each = each > 64 ? each - 32 : 0; /* the tree and the output buffer */
    if (each > (uint64_t)1 << 18)
        each = (uint64_t)1 << 18;
    if (each < TG_MERGE_LEAST)
        return tg_fail(err, TG_OVER_BUDGET,
                       "merging %llu runs wants %llu bytes, %llu of the budget are free",
                       (unsigned long long)n,
                       (unsigned long long)tg_peak_merge_bytes(n, TG_MERGE_LEAST + 32),
                       (unsigned long long)room);
    return tg_peak_merge(b->spill, each, write_peaks, w, w->cancel, err);
}

static tg_status write_store(builder *b, tg_store *store, const char *prefix, uint64_t room,
                             tg_error *err)
{
    const tg_peaks_options *o = b->options;
    uint64_t n = b->built->n_peaks;
    TG_AUTO_PTR(tg_peak_writer) writer = NULL;
    TG_AUTO_PTR(tg_reporter) reporter = NULL;
    TG_AUTO(tg_mem_ptr) owner = tg_alloc_array(b->m->n_pixels, sizeof(float));
    float *tic = owner;

    if (tic == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %llu pixels",
                       (unsigned long long)b->m->n_pixels);
    for (uint64_t i = 0; i < b->m->n_pixels; i++)
        tic[i] = (float)b->tic[i];
    TG_TRY(tg_peak_writer_new(&writer, store, prefix, n, segment_peaks_of(o->segment_bytes, n),
                              err));
    TG_TRY(tg_reporter_new(&reporter, o->progress, o->progress_user, "merge", n, err));
    writing w = {writer, b->cancel, reporter};
    if (b->kept != NULL)
        TG_TRY(write_peaks(&w, b->kept->peaks, b->kept->n, err));
    else
        free_runs(b);
    if (b->kept == NULL)
        TG_TRY(merge_runs(b, &w, room, err));
    return tg_peak_writer_finish(writer, b->m, tic, b->cancel, err);
}

/* --- All of it
 * ------------------------------------------------------------------------------------ */

/* Columns can be gathered where all spectra share one m/z array that rises and holds no value
 * twice; and where a row of them fits. */
static tg_status find_axis(builder *b, tg_error *err)
{
    const tg_imzml *m = b->m;
    TG_AUTO_PTR(tg_ibd) first = NULL;
    tg_ibd_spectrum s;

    if (!m->continuous || m->max_count == 0 || b->capacity / m->max_count < 4)
        return TG_OK;
    TG_TRY(tg_ibd_new(&first, m, 0, 1, 1, err));
    TG_TRY(tg_ibd_next(first, &s, b->cancel, err));
    bool rising = true;
    for (uint32_t i = 1; i < s.at->count; i++)
        rising = rising && s.mz[i] > s.mz[i - 1];
    b->one_axis = rising;
    return TG_OK;
}

static tg_status build(builder *b, const plan *p, tg_store *store, const char *prefix,
                       tg_runtime *rt, tg_error *err)
{
    tg_pipeline line = {.user = b,
                        .next = next_run,
                        .work = sort_run,
                        .sink = spill_run,
                        .drop = give_back,
                        .depth = p->depth};
    TG_AUTO_PTR(tg_ibd) reader = NULL;
    TG_AUTO_PTR(tg_reporter) reporter = NULL;

    b->capacity = p->capacity;
    TG_TRY(find_axis(b, err));
    TG_TRY(make_runs(b, p->depth, err));
    TG_TRY(tg_ibd_new(&reader, b->m, 0, b->m->n_spectra, p->batch, err));
    TG_TRY(tg_reporter_new(&reporter, b->options->progress, b->options->progress_user, "sort",
                           b->m->n_spectra, err));
    b->reader = reader;
    b->reporter = reporter;
    const int64_t start = tg_clock_ns();
    TG_TRY(tg_pipeline_run(tg_runtime_pool(rt), &line, b->cancel, err));
    b->built->first_seconds = (double)(tg_clock_ns() - start) * 1e-9;
    b->built->requests = tg_ibd_requests(reader);
    b->built->bytes_read = tg_ibd_bytes_read(reader);
    b->built->runs = b->spill->n;
    b->built->spilled_bytes = b->spill->bytes;
    judge_profile(b);
    tg_ibd_free(tg_steal(reader));
    tg_reporter_free(tg_steal(reporter));
    return write_store(b, store, prefix, p->reader + p->runs, err);
}

tg_status tg_peaks_build(tg_imzml *m, tg_store *store, const char *prefix,
                         const tg_peaks_options *options, tg_runtime *rt, tg_peaks_built *built,
                         const tg_cancel *cancel, tg_error *err)
{
    tg_budget *budget = tg_runtime_budget(rt);
    uint64_t free = tg_budget_total(budget) - tg_budget_used(budget);
    tg_peak_runs spill = {.fd = -1};
    plan p;

    *built = (tg_peaks_built){0};
    TG_TRY(make_plan(&p, m, options->segment_bytes, free, tg_pool_width(tg_runtime_pool(rt)),
                     err));
    builder b = {.m = m, .options = options, .built = built, .cancel = cancel, .spill = &spill};
    uint64_t reserved = p.fixed + p.reader + p.runs;
    TG_TRY(tg_budget_reserve(budget, reserved, "sorting the peaks", err));
    b.tic = tg_calloc(m->n_pixels, sizeof *b.tic);
    tg_mutex_init(&b.lock);
    tg_status st = b.tic == NULL ? tg_fail(err, TG_NO_MEMORY, "no memory for %llu pixels",
                                           (unsigned long long)m->n_pixels)
                                 : build(&b, &p, store, prefix, rt, err);
    tg_mutex_destroy(&b.lock);
    free_runs(&b);
    tg_free(b.tic);
    tg_peak_runs_close(&spill);
    tg_budget_release(budget, reserved);
    return st;
}
