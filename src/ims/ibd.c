/* ims/ibd.c - batches of ranges, and arrays of any type as double and float. Drops nothing:
 * what a value means is decided by who asked for it. */
#include "ims/ibd.h"

#include "chem/sort.h"
#include "ims/inflate.h"

#include <string.h>

#define MAX_RANGES 32768 /* of a batch */

typedef struct range {
    uint64_t offset;
    uint32_t len;
    uint32_t slot; /* 2 * spectrum of the batch + array */
} range;

struct tg_ibd {
    const tg_imzml *m;
    uint64_t next, end; /* spectra not yet handed out */
    uint64_t first;     /* of the batch in the room */
    uint64_t n_batch;
    uint8_t *room;
    size_t room_bytes;
    range *ranges;
    tg_span *spans;
    uint64_t *places; /* of each slot in the room */
    double *mz;
    float *intensity;
    uint8_t *inflated;
    bool has_mz;
    tg_spectrum mz_of; /* whose m/z array is in mz */
    uint64_t requests, bytes_read;
};

static uint64_t room_for(const tg_imzml *m, uint64_t batch_bytes)
{
    return batch_bytes > m->max_spectrum_bytes ? batch_bytes : m->max_spectrum_bytes;
}

static uint64_t n_ranges(const tg_imzml *m)
{
    return m->n_spectra * 2 < MAX_RANGES ? m->n_spectra * 2 : MAX_RANGES;
}

uint64_t tg_ibd_bytes(const tg_imzml *m, uint64_t batch_bytes)
{
    return room_for(m, batch_bytes) +
           n_ranges(m) * (sizeof(range) + sizeof(tg_span) + sizeof(uint64_t)) +
           (uint64_t)m->max_count * (sizeof(double) + sizeof(float) + 8) +
           TG_IMS_INFLATE_BYTES + 4096;
}

tg_status tg_ibd_new(tg_ibd **out, const tg_imzml *m, uint64_t first, uint64_t end,
                     uint64_t batch_bytes, tg_error *err)
{
    TG_AUTO_PTR(tg_ibd) r = tg_calloc(1, sizeof *r);
    if (r == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to read spectra");
    r->m = m;
    r->next = first;
    r->end = end;
    r->room_bytes = room_for(m, batch_bytes);
    r->room = tg_alloc(r->room_bytes + 1);
    r->ranges = tg_alloc_array(n_ranges(m), sizeof *r->ranges);
    r->spans = tg_alloc_array(n_ranges(m), sizeof *r->spans);
    r->places = tg_alloc_array(n_ranges(m), sizeof *r->places);
    r->mz = tg_alloc_array((size_t)m->max_count + 1, sizeof *r->mz);
    r->intensity = tg_alloc_array((size_t)m->max_count + 1, sizeof *r->intensity);
    r->inflated = tg_alloc_array((size_t)m->max_count + 1, 8);
    if (r->room == NULL || r->ranges == NULL || r->spans == NULL || r->places == NULL ||
        r->mz == NULL || r->intensity == NULL || r->inflated == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to read %zu bytes of spectra",
                       r->room_bytes);
    *out = tg_steal(r);
    return TG_OK;
}

void tg_ibd_free(tg_ibd *r)
{
    if (r == NULL)
        return;
    tg_free(r->room);
    tg_free(r->ranges);
    tg_free(r->spans);
    tg_free(r->places);
    tg_free(r->mz);
    tg_free(r->intensity);
    tg_free(r->inflated);
    tg_free(r);
}

/* --- A batch ------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const range *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static bool same_mz(const tg_spectrum *a, const tg_spectrum *b)
{
    return a->offset[TG_IMS_MZ] == b->offset[TG_IMS_MZ] &&
           a->encoded[TG_IMS_MZ] == b->encoded[TG_IMS_MZ] && a->count == b->count &&
           a->type[TG_IMS_MZ] == b->type[TG_IMS_MZ] &&
           a->deflated[TG_IMS_MZ] == b->deflated[TG_IMS_MZ];
}

/* Take spectra while their bytes fit. Returns the number of ranges. */
static size_t choose_batch(tg_ibd *r)
{
    uint64_t bytes = 0;
    size_t n = 0;
    const tg_spectrum *before = r->has_mz ? &r->mz_of : NULL;

    r->first = r->next;
    r->n_batch = 0;
    bool rising = true;
    for (uint64_t i = r->next; i < r->end && n + 2 <= n_ranges(r->m); i++) {
        const tg_spectrum *s = tg_imzml_spectrum(r->m, i);
        bool skip = before != NULL && same_mz(s, before);
        uint64_t more =
            (skip ? 0 : s->encoded[TG_IMS_MZ]) + (uint64_t)s->encoded[TG_IMS_INTENSITY];
        if (bytes + more > r->room_bytes)
            break;
        bytes += more;
        for (int k = skip ? 1 : 0; k < 2; k++) {
            if (s->encoded[k] == 0)
                continue;
            r->ranges[n] =
                (range){s->offset[k], s->encoded[k], (uint32_t)(2 * r->n_batch) + (uint32_t)k};
            rising = rising && (n == 0 || r->ranges[n - 1].offset <= r->ranges[n].offset);
            n++;
        }
        r->n_batch++;
        before = s;
    }
    if (!rising)
        tg_heap_sort(r->ranges, n, sizeof *r->ranges, by_offset);
    return n;
}

/* Join sorted ranges to spans and say where each lands. Gaps are only read where there is room
 * left for them. */
static size_t join_ranges(tg_ibd *r, size_t n)
{
    size_t n_spans = 0;
    uint64_t used = 0, wanted = 0, span_end = 0;

    for (size_t i = 0; i < n; i++)
        wanted += r->ranges[i].len;
    for (size_t i = 0; i < n; i++) {
        const range *g = &r->ranges[i];
        uint64_t end = g->offset + g->len;
        bool joins = n_spans > 0 && g->offset <= span_end;
        if (n_spans > 0 && !joins && g->offset - span_end <= TG_IBD_GAP) {
            uint64_t gap = g->offset - span_end;
            joins = used + gap + wanted <= r->room_bytes;
        }
        if (!joins) {
            r->spans[n_spans++] = (tg_span){g->offset, 0, r->room + used};
            span_end = g->offset;
        }
        tg_span *s = &r->spans[n_spans - 1];
        r->places[g->slot] = (uint64_t)((uint8_t *)s->dst - r->room) + (g->offset - s->offset);
        if (end > span_end) {
            used += end - span_end;
            s->len += (size_t)(end - span_end);
            span_end = end;
        }
        wanted -= g->len;
    }
    return n_spans;
}

static tg_status load_batch(tg_ibd *r, const tg_cancel *cancel, tg_error *err)
{
    size_t n_spans = join_ranges(r, choose_batch(r));

    if (n_spans == 0)
        return TG_OK;
    for (size_t i = 0; i < n_spans; i++)
        r->bytes_read += r->spans[i].len;
    r->requests += n_spans;
    tg_status st = tg_store_get_ranges(r->m->source.store, r->m->source.ibd_key, r->spans,
                                       n_spans, cancel, err);
    if (st != TG_OK)
        tg_error_prefix(err, "spectra %llu to %llu", (unsigned long long)r->first,
                        (unsigned long long)(r->first + r->n_batch - 1));
    return st;
}

/* --- Values ------------------------------------------------------------------------------ */

static uint64_t load_le(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static double item_f32(const uint8_t *p)
{
    uint32_t bits = (uint32_t)load_le(p, 4);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static double item_f64(const uint8_t *p)
{
    uint64_t bits = load_le(p, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void to_double(const uint8_t *src, tg_ims_type type, size_t n, double *dst)
{
    switch (type) {
    case TG_IMS_F32:
        for (size_t i = 0; i < n; i++)
            dst[i] = item_f32(src + 4 * i);
        break;
    case TG_IMS_F64:
        for (size_t i = 0; i < n; i++)
            dst[i] = item_f64(src + 8 * i);
        break;
    case TG_IMS_I32:
        for (size_t i = 0; i < n; i++)
            dst[i] = (int32_t)(uint32_t)load_le(src + 4 * i, 4);
        break;
    case TG_IMS_I64:
        for (size_t i = 0; i < n; i++)
            dst[i] = (double)(int64_t)load_le(src + 8 * i, 8);
        break;
    case TG_IMS_NO_TYPE:
        break;
    }
}

static void to_float(const uint8_t *src, tg_ims_type type, size_t n, float *dst)
{
    switch (type) {
    case TG_IMS_F32:
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)item_f32(src + 4 * i);
        break;
    case TG_IMS_F64:
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)item_f64(src + 8 * i);
        break;
    case TG_IMS_I32:
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)(int32_t)(uint32_t)load_le(src + 4 * i, 4);
        break;
    case TG_IMS_I64:
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)(int64_t)load_le(src + 8 * i, 8);
        break;
    case TG_IMS_NO_TYPE:
        break;
    }
}

/* The bytes of an array, inflated if need be. */
static tg_status array_bytes(tg_ibd *r, const tg_spectrum *s, uint64_t slot, int which,
                             const uint8_t **out, tg_error *err)
{
    const uint8_t *p = s->encoded[which] == 0 ? r->room : r->room + r->places[slot];

    *out = p;
    if (!s->deflated[which])
        return TG_OK;
    size_t want = (size_t)s->count * tg_ims_type_bytes(s->type[which]);
    *out = r->inflated;
    tg_status st = tg_ims_inflate((tg_bytes){p, s->encoded[which]}, r->inflated, want, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "%s array at byte %llu", which == TG_IMS_MZ ? "m/z" : "intensity",
                        (unsigned long long)s->offset[which]);
        tg_error_at(err, r->m->source.ibd_key, s->offset[which]);
    }
    return st;
}

static tg_status decode(tg_ibd *r, const tg_spectrum *s, uint64_t in_batch, bool keep_mz,
                        tg_error *err)
{
    const uint8_t *p;

    if (!keep_mz) {
        r->has_mz = false;
        TG_TRY(array_bytes(r, s, 2 * in_batch, TG_IMS_MZ, &p, err));
        to_double(p, s->type[TG_IMS_MZ], s->count, r->mz);
        r->mz_of = *s;
        r->has_mz = true;
    }
    TG_TRY(array_bytes(r, s, 2 * in_batch + 1, TG_IMS_INTENSITY, &p, err));
    to_float(p, s->type[TG_IMS_INTENSITY], s->count, r->intensity);
    return TG_OK;
}

tg_status tg_ibd_next(tg_ibd *r, tg_ibd_spectrum *out, const tg_cancel *cancel, tg_error *err)
{
    if (r->next == r->end)
        return TG_CLOSED;
    if (r->next >= r->first + r->n_batch)
        TG_TRY(load_batch(r, cancel, err));
    const tg_spectrum *s = tg_imzml_spectrum(r->m, r->next);
    bool keep = r->has_mz && same_mz(s, &r->mz_of);
    tg_status st = decode(r, s, r->next - r->first, keep, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "spectrum %llu", (unsigned long long)r->next);
        return st;
    }
    *out = (tg_ibd_spectrum){r->next, s, r->mz, r->intensity, keep};
    r->next++;
    return TG_OK;
}

uint64_t tg_ibd_requests(const tg_ibd *r)
{
    return r->requests;
}

uint64_t tg_ibd_bytes_read(const tg_ibd *r)
{
    return r->bytes_read;
}
