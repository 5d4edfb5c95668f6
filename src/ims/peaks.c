/* ims/peaks.c - opens a peak store and holds its segments in a cache of slots. */
#include "ims/peaks.h"

#include "base/json.h"
#include "ims/peak_store.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define DOCUMENT_LIMIT ((size_t)1 << 20)
#define NO_SEGMENT     UINT32_MAX

typedef enum slot_state { SLOT_EMPTY, SLOT_LOADING, SLOT_READY } slot_state;

typedef struct slot {
    uint8_t *columns[TG_N_COLUMNS];
    uint32_t segment;
    slot_state state;
    uint32_t pins;
} slot;

struct tg_peaks {
    tg_store *store;
    char *prefix;
    tg_budget *budget;
    uint64_t reserved, slot_bytes;
    tg_peaks_info info;
    double *bounds; /* first and last m/z of each segment */
    uint32_t *positions;
    float *tic;
    char *oddities;

    tg_mutex lock;      /* guards all below */
    tg_cond changed;    /* a slot may be free, or is loaded */
    uint32_t n_waiting; /* for that */
    tg_cond wanted;     /* work for the thread that loads ahead, or its end */
    slot *slots;
    uint32_t n_slots;
    uint64_t near;     /* how far behind a segment may still be wanted */
    uint32_t *slot_of; /* of each segment, or NO_SEGMENT */
    tg_peaks_counts counts;
    /* the thread that loads ahead */
    tg_thread *thread;
    uint32_t ahead; /* segment to load, or NO_SEGMENT */
    bool closing;
};

/* --- Opening ---------------------------------------------------------------------------- */

static tg_status number(const tg_json *o, const char *name, uint64_t most, uint64_t *out,
                        tg_error *err)
{
    const tg_json *v = tg_json_get(o, name);
    if (v == NULL)
        return tg_fail(err, TG_CORRUPT, "no member '%s'", name);
    TG_TRY(tg_json_u64(v, out, err));
    if (*out > most)
        return tg_fail(err, TG_CORRUPT, "'%s' is %llu, %llu is the most", name,
                       (unsigned long long)*out, (unsigned long long)most);
    return TG_OK;
}

static tg_status read_info(tg_peaks_info *i, const tg_json *o, tg_error *err)
{
    uint64_t major, width, height;
    int64_t polarity;

    TG_TRY(number(o, "major", UINT32_MAX, &major, err));
    if (major > TG_PEAK_STORE_MAJOR)
        return tg_fail(err, TG_UNSUPPORTED,
                       "version %llu of the format, %d is the newest known",
                       (unsigned long long)major, TG_PEAK_STORE_MAJOR);
    TG_TRY(number(o, "n_peaks", (uint64_t)1 << 48, &i->n_peaks, err));
    TG_TRY(number(o, "segment_peaks", (uint64_t)1 << 32, &i->segment_peaks, err));
    TG_TRY(number(o, "n_spectra", UINT32_MAX, &i->n_spectra, err));
    TG_TRY(number(o, "n_pixels", UINT32_MAX, &i->n_pixels, err));
    TG_TRY(number(o, "width", UINT32_MAX, &width, err));
    TG_TRY(number(o, "height", UINT32_MAX, &height, err));
    if (tg_json_get(o, "polarity") == NULL)
        return tg_fail(err, TG_CORRUPT, "no member 'polarity'");
    TG_TRY(tg_json_i64(tg_json_get(o, "polarity"), &polarity, err));
    if (i->segment_peaks == 0 || i->n_pixels == 0 || width * height < i->n_pixels)
        return tg_fail(err, TG_CORRUPT, "%llu pixels in %llu x %llu, segments of %llu peaks",
                       (unsigned long long)i->n_pixels, (unsigned long long)width,
                       (unsigned long long)height, (unsigned long long)i->segment_peaks);
    i->width = (uint32_t)width;
    i->height = (uint32_t)height;
    i->polarity = polarity > 0 ? 1 : polarity < 0 ? -1 : 0;
    i->n_segments = (i->n_peaks + i->segment_peaks - 1) / i->segment_peaks;
    if (i->n_segments >= NO_SEGMENT)
        return tg_fail(err, TG_CORRUPT, "%llu segments", (unsigned long long)i->n_segments);
    return TG_OK;
}

static tg_status read_oddities(tg_peaks *p, const tg_json *o, tg_error *err)
{
    const tg_json *odd = tg_json_get(o, "oddities"), *cut = tg_json_get(o, "truncated");
    if (odd == NULL || tg_json_kind_of(odd) != TG_JSON_ARRAY || cut == NULL)
        return tg_fail(err, TG_CORRUPT, "no members 'oddities' and 'truncated'");
    TG_TRY(tg_json_bool(cut, &p->info.truncated, err));
    TG_TRY(tg_json_write(odd, false, (tg_json_options){0}, &p->oddities, err));
    p->info.oddities = p->oddities;
    return TG_OK;
}

static tg_status read_document(tg_peaks *p, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_buf) text = {0};
    TG_AUTO_PTR(tg_json) doc = NULL;
    char key[TG_PEAK_KEY_BYTES];

    TG_TRY(tg_peak_key_join(key, p->prefix, "zarr.json", err));
    TG_TRY(tg_store_get(p->store, key, tg_range_all(), DOCUMENT_LIMIT, &text, cancel, err));
    tg_status st =
        tg_json_parse(&doc, (const char *)text.data, text.len, (tg_json_options){0}, err);
    if (st == TG_OK) {
        const tg_json *a = tg_json_get(doc, "attributes");
        const tg_json *o = a == NULL ? NULL : tg_json_get(a, "tidegate_peak_store");
        st =
            o == NULL ? tg_fail(err, TG_CORRUPT, "no peak store") : read_info(&p->info, o, err);
        if (st == TG_OK)
            st = read_oddities(p, o, err);
    }
    if (st != TG_OK)
        tg_error_prefix(err, "'%s'", key);
    return st;
}

static tg_status read_table(tg_peaks *p, const char *name, void *out, uint64_t n, size_t item,
                            const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_buf) chunk = {0};
    size_t bytes = (size_t)(n == 0 ? 1 : n) * item;

    TG_TRY(tg_buf_resize(&chunk, bytes + TG_COLUMN_SUM, err));
    TG_TRY(tg_column_get(p->store, p->prefix, name, 0, chunk.data, bytes, cancel, err));
    memcpy(out, chunk.data, (size_t)n * item);
    return TG_OK;
}

/* Bounds decide what is looked at, positions where a pixel is written: neither is believed. */
static tg_status check_tables(tg_peaks *p, tg_error *err)
{
    tg_peaks_info *i = &p->info;
    uint64_t box = (uint64_t)i->width * i->height;

    for (uint64_t k = 0; k < 2 * i->n_segments; k++)
        if (!(p->bounds[k] > 0) || (k > 0 && p->bounds[k] < p->bounds[k - 1]))
            return tg_fail(err, TG_CORRUPT, "bounds of segment %llu do not rise",
                           (unsigned long long)k / 2);
    for (uint64_t k = 0; k < i->n_pixels; k++)
        if (p->positions[k] >= box || (k > 0 && p->positions[k] <= p->positions[k - 1]))
            return tg_fail(err, TG_CORRUPT, "positions of pixels do not rise");
    i->mz_min = i->n_segments > 0 ? p->bounds[0] : 0;
    i->mz_max = i->n_segments > 0 ? p->bounds[2 * i->n_segments - 1] : 0;
    return TG_OK;
}

uint64_t tg_peaks_table_bytes(const tg_peaks_info *i)
{
    return i->n_segments * (2 * sizeof(double) + sizeof(uint32_t)) +
           i->n_pixels * (sizeof(uint32_t) + sizeof(float)) + 4096;
}

static tg_status read_tables(tg_peaks *p, const tg_cancel *cancel, tg_error *err)
{
    tg_peaks_info *i = &p->info;
    uint64_t bytes = tg_peaks_table_bytes(i);

    if (p->budget != NULL) {
        TG_TRY(tg_budget_reserve(p->budget, bytes, "tables of the peak store", err));
        p->reserved = bytes;
    }
    p->bounds = tg_alloc_array(2 * i->n_segments + 1, sizeof(double));
    p->positions = tg_alloc_array(i->n_pixels, sizeof(uint32_t));
    p->tic = tg_alloc_array(i->n_pixels, sizeof(float));
    p->slot_of = tg_alloc_array(i->n_segments + 1, sizeof(uint32_t));
    if (p->bounds == NULL || p->positions == NULL || p->tic == NULL || p->slot_of == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %llu pixels",
                       (unsigned long long)i->n_pixels);
    for (uint64_t k = 0; k < i->n_segments; k++)
        p->slot_of[k] = NO_SEGMENT;
    TG_TRY(read_table(p, "segment_bounds", p->bounds, 2 * i->n_segments, sizeof(double), cancel,
                      err));
    TG_TRY(read_table(p, "position", p->positions, i->n_pixels, sizeof(uint32_t), cancel, err));
    TG_TRY(read_table(p, "tic", p->tic, i->n_pixels, sizeof(float), cancel, err));
    i->positions = p->positions;
    i->tic = p->tic;
    return check_tables(p, err);
}

tg_status tg_peaks_open(tg_peaks **out, tg_store *store, const char *prefix, tg_budget *budget,
                        const tg_cancel *cancel, tg_error *err)
{
    tg_peaks *made = tg_calloc(1, sizeof *made);
    if (made == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a peak store");
    tg_mutex_init(&made->lock);
    tg_cond_init(&made->changed);
    tg_cond_init(&made->wanted);
    TG_AUTO_PTR(tg_peaks) p = made;
    p->store = store;
    p->budget = budget;
    p->ahead = NO_SEGMENT;
    p->prefix = tg_strdup(prefix);
    if (p->prefix == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a peak store");
    TG_TRY(read_document(p, cancel, err));
    TG_TRY(read_tables(p, cancel, err));
    *out = tg_steal(p);
    return TG_OK;
}

static void stop_thread(tg_peaks *p)
{
    if (p->thread == NULL)
        return;
    {
        TG_LOCKED(&p->lock);
        p->closing = true;
        tg_cond_broadcast(&p->wanted);
    }
    tg_thread_join(p->thread);
    p->thread = NULL;
    p->closing = false;
}

void tg_peaks_uncache(tg_peaks *p)
{
    stop_thread(p);
    for (uint32_t k = 0; k < p->n_slots; k++)
        for (int c = 0; c < TG_N_COLUMNS; c++)
            tg_free(p->slots[k].columns[c]);
    tg_free(p->slots);
    p->slots = NULL;
    p->n_slots = 0;
    for (uint64_t k = 0; p->slot_of != NULL && k < p->info.n_segments; k++)
        p->slot_of[k] = NO_SEGMENT;
    if (p->budget != NULL)
        tg_budget_release(p->budget, p->slot_bytes);
    p->slot_bytes = 0;
}

void tg_peaks_free(tg_peaks *p)
{
    if (p == NULL)
        return;
    tg_peaks_uncache(p);
    tg_free(p->slot_of);
    tg_free(p->bounds);
    tg_free(p->positions);
    tg_free(p->tic);
    tg_free(p->oddities);
    tg_free(p->prefix);
    if (p->budget != NULL)
        tg_budget_release(p->budget, p->reserved);
    tg_cond_destroy(&p->changed);
    tg_cond_destroy(&p->wanted);
    tg_mutex_destroy(&p->lock);
    tg_free(p);
}

const tg_peaks_info *tg_peaks_get_info(const tg_peaks *p)
{
    return &p->info;
}

/* --- Loading ------------------------------------------------------------------------------ */

static tg_status load_columns(tg_peaks *p, slot *s, uint32_t segment, const tg_cancel *cancel,
                              tg_error *err)
{
    for (int c = 0; c < TG_N_COLUMNS; c++)
        TG_TRY(tg_column_get(p->store, p->prefix, tg_column_names[c], segment, s->columns[c],
                             p->info.segment_peaks * tg_column_sizes[c], cancel, err));
    return TG_OK;
}

static size_t peaks_of(const tg_peaks *p, uint32_t segment)
{
    uint64_t before = segment * p->info.segment_peaks, left = p->info.n_peaks - before;
    return (size_t)(left < p->info.segment_peaks ? left : p->info.segment_peaks);
}

/* Searches rely on the order, images on the pixels: a sum is no proof of either. */
static tg_status check_segment(const tg_peaks *p, const slot *s, uint32_t segment,
                               tg_error *err)
{
    const double *mz = (const double *)(const void *)s->columns[TG_COLUMN_MZ];
    const uint32_t *pixel = (const uint32_t *)(const void *)s->columns[TG_COLUMN_PIXEL];
    size_t n = peaks_of(p, segment);
    bool good = mz[0] == p->bounds[(size_t)2 * segment] &&
                mz[n - 1] == p->bounds[(size_t)2 * segment + 1];

    for (size_t i = 1; i < n; i++)
        good = good && mz[i - 1] <= mz[i];
    for (size_t i = 0; i < n; i++)
        good = good && pixel[i] < p->info.n_pixels;
    if (!good)
        return tg_fail(err, TG_CORRUPT, "segment %u of the peak store is not in order",
                       segment);
    return TG_OK;
}

/* The slot of the segment furthest behind: ions come by rising m/z, so that one is wanted no
 * more if any is. One that was never used comes first only while that is still near: its memory
 * would have to be made, and the other's is there. Or NULL. Lock held. */
static slot *find_victim(tg_peaks *p, uint32_t segment)
{
    slot *best = NULL, *empty = NULL;
    for (uint32_t k = 0; k < p->n_slots; k++) {
        slot *s = &p->slots[k];
        if (s->state == SLOT_EMPTY)
            empty = empty != NULL ? empty : s;
        else if (s->state == SLOT_READY && s->pins == 0 &&
                 (best == NULL || s->segment < best->segment))
            best = s;
    }
    const bool far = best != NULL && (uint64_t)best->segment + p->near < segment;
    return far || empty == NULL ? best : empty;
}

static void claim(tg_peaks *p, slot *s, uint32_t segment)
{
    if (s->state != SLOT_EMPTY)
        p->slot_of[s->segment] = NO_SEGMENT;
    s->state = SLOT_LOADING;
    s->segment = segment;
    p->slot_of[segment] = (uint32_t)(s - p->slots);
}

/* Load into a claimed slot, with no lock held; then say so. */
static tg_status load_slot(tg_peaks *p, slot *s, bool pin, const tg_cancel *cancel,
                           tg_error *err)
{
    uint32_t segment = s->segment;
    tg_status st = load_columns(p, s, segment, cancel, err);
    if (st == TG_OK)
        st = check_segment(p, s, segment, err);

    TG_LOCKED(&p->lock);
    p->counts.loads++;
    p->counts.requests += TG_N_COLUMNS;
    p->counts.bytes += p->info.segment_peaks * TG_PEAK_BYTES;
    s->state = st == TG_OK ? SLOT_READY : SLOT_EMPTY;
    s->pins = st == TG_OK && pin;
    if (st != TG_OK)
        p->slot_of[segment] = NO_SEGMENT;
    tg_cond_broadcast(&p->changed);
    return st;
}

static void load_ahead(void *user)
{
    tg_peaks *p = user;
    for (;;) {
        slot *s = NULL;
        {
            TG_LOCKED(&p->lock);
            while (!p->closing && p->ahead == NO_SEGMENT)
                tg_cond_wait(&p->wanted, &p->lock);
            if (p->closing)
                return;
            uint32_t segment = p->ahead;
            p->ahead = NO_SEGMENT;
            if (segment < p->info.n_segments && p->slot_of[segment] == NO_SEGMENT)
                s = find_victim(p, segment);
            if (s != NULL)
                claim(p, s, segment);
        }
        if (s != NULL) /* a failure will be found again by whoever needs it */
            (void)!load_slot(p, s, false, NULL, NULL);
    }
}

uint64_t tg_peaks_slot_bytes_of(uint64_t segment_peaks)
{
    return segment_peaks * TG_PEAK_BYTES + (size_t)TG_N_COLUMNS * 64 + sizeof(slot);
}

uint64_t tg_peaks_slot_bytes(const tg_peaks *p)
{
    return tg_peaks_slot_bytes_of(p->info.segment_peaks);
}

static tg_status make_slots(tg_peaks *p, uint32_t n, tg_error *err)
{
    p->slots = tg_calloc(n, sizeof *p->slots);
    if (p->slots == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %u segments", n);
    p->n_slots = n;
    for (uint32_t k = 0; k < n; k++)
        for (int c = 0; c < TG_N_COLUMNS; c++) {
            p->slots[k].columns[c] =
                tg_alloc(p->info.segment_peaks * tg_column_sizes[c] + TG_COLUMN_SUM);
            if (p->slots[k].columns[c] == NULL)
                return tg_fail(err, TG_NO_MEMORY, "no memory for %u segments", n);
        }
    return TG_OK;
}

tg_status tg_peaks_cache(tg_peaks *p, uint32_t n_slots, uint64_t near, bool prefetch,
                         tg_error *err)
{
    uint64_t bytes = n_slots * tg_peaks_slot_bytes(p);
    assert(p->n_slots == 0);
    if (p->budget != NULL) {
        TG_TRY(tg_budget_reserve(p->budget, bytes, "segments of the peak store", err));
        p->slot_bytes = bytes;
    }
    p->near = near;
    TG_TRY(make_slots(p, n_slots, err));
    if (!prefetch)
        return TG_OK;
    return tg_thread_start(&p->thread, "tg-prefetch", load_ahead, p, err);
}

/* --- Pinning --------------------------------------------------------------------------------
 */

static void fill_view(const tg_peaks *p, const slot *s, tg_peak_view *v)
{
    *v = (tg_peak_view){
        .segment = s->segment,
        .slot = (uint32_t)(s - p->slots),
        .n = peaks_of(p, s->segment),
        .mz = (const double *)(const void *)s->columns[TG_COLUMN_MZ],
        .intensity = (const float *)(const void *)s->columns[TG_COLUMN_INTENSITY],
        .pixel = (const uint32_t *)(const void *)s->columns[TG_COLUMN_PIXEL],
    };
}

/* Pinned if it is in memory; else a slot to load it into. Waits while neither is to be had. */
static slot *pin_or_claim(tg_peaks *p, uint32_t segment, bool *load)
{
    TG_LOCKED(&p->lock);
    for (;;) {
        uint32_t at = p->slot_of[segment];
        if (at != NO_SEGMENT && p->slots[at].state == SLOT_READY) {
            p->slots[at].pins++;
            *load = false;
            return &p->slots[at];
        }
        slot *s = at == NO_SEGMENT ? find_victim(p, segment) : NULL;
        if (s != NULL) {
            claim(p, s, segment);
            *load = true;
            if (p->thread != NULL) {
                p->ahead = segment + 1;
                tg_cond_broadcast(&p->wanted);
            }
            return s;
        }
        p->n_waiting++;
        tg_cond_wait(&p->changed, &p->lock);
        p->n_waiting--;
    }
}

tg_status tg_peaks_pin(tg_peaks *p, uint32_t segment, tg_peak_view *view,
                       const tg_cancel *cancel, tg_error *err)
{
    bool load;
    slot *s = pin_or_claim(p, segment, &load);
    if (load)
        TG_TRY(load_slot(p, s, true, cancel, err));
    fill_view(p, s, view);
    return TG_OK;
}

void tg_peaks_unpin(tg_peaks *p, const tg_peak_view *view)
{
    TG_LOCKED(&p->lock);
    slot *s = &p->slots[view->slot];
    if (--s->pins == 0 && p->n_waiting > 0)
        tg_cond_broadcast(&p->changed);
}

/* --- Bounds --------------------------------------------------------------------------------
 */

/* First segment whose last m/z is not below mz; n_segments if none. */
static uint32_t first_reaching(const tg_peaks *p, double mz)
{
    uint64_t lo = 0, hi = p->info.n_segments;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (p->bounds[2 * mid + 1] < mz)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (uint32_t)lo;
}

void tg_peaks_segments(const tg_peaks *p, double lower, double upper, uint32_t *first,
                       uint32_t *end)
{
    uint64_t e = *first = first_reaching(p, lower);
    while (e < p->info.n_segments && p->bounds[2 * e] <= upper)
        e++;
    *end = (uint32_t)e;
}

uint64_t tg_peaks_reach(const tg_peaks *p, double width)
{
    uint64_t most = 1;
    for (uint64_t k = 0; k < p->info.n_segments; k++) {
        uint32_t from, to;
        double lower = p->bounds[2 * k + 1]; /* its last peak, as in the worst case */
        tg_peaks_segments(p, lower, lower + width, &from, &to);
        most = to - from > most ? to - from : most;
    }
    return most;
}

/* --- Sharing memory --------------------------------------------------------------------- */

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t tg_peaks_least(const tg_peaks_share *share, uint64_t n_segments, uint64_t slot_bytes)
{
    /* an image may lie across the border of two */
    return share->own + share->per_worker + (n_segments > 1 ? 2 : 1) * slot_bytes;
}

tg_status tg_peaks_divide(const tg_peaks_share *share, uint64_t n_segments, uint64_t slot_bytes,
                          uint64_t free, uint32_t width, uint32_t *workers, uint32_t *slots,
                          tg_error *err)
{
    uint64_t least = tg_peaks_least(share, n_segments, slot_bytes);

    if (least > free)
        return tg_fail(err, TG_OVER_BUDGET,
                       "%s wants %llu bytes, %llu of the budget are free: %llu are two "
                       "segments of sorted peaks",
                       share->what, (unsigned long long)least, (unsigned long long)free,
                       (unsigned long long)(2 * slot_bytes));
    n_segments = n_segments == 0 ? 1 : n_segments;
    for (uint32_t w = width; w > 0; w--) {
        uint64_t used = share->own + w * share->per_worker;
        uint64_t wanted =
            w == 1 ? 1 : smaller(w * share->reach_beside, n_segments); /* one does as it can */
        uint64_t room = used > free ? 0 : (free - used) / slot_bytes;
        if (room < wanted)
            continue;
        *workers = w;
        *slots = (uint32_t)smaller(room, n_segments);
        return TG_OK;
    }
    return tg_fail(err, TG_OVER_BUDGET, "%s: no worker", share->what);
}

double tg_peaks_rank(const tg_peaks *p, double mz)
{
    uint32_t s = first_reaching(p, mz);
    double before = (double)s * (double)p->info.segment_peaks;
    if (s == p->info.n_segments)
        return (double)p->info.n_peaks;
    double a = p->bounds[(size_t)2 * s], b = p->bounds[(size_t)2 * s + 1];
    double share = mz <= a || b <= a ? 0 : (mz - a) / (b - a);
    return before + share * (double)peaks_of(p, s);
}

tg_peaks_counts tg_peaks_counted(tg_peaks *p)
{
    TG_LOCKED(&p->lock);
    return p->counts;
}
