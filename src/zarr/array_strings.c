/* Strings in and out of 1-D arrays. A chunk is n strings, length before each; its
 * text has no bound but the one the caller sets. */
#include "zarr/array.h"

#include <inttypes.h>
#include <string.h>

static tg_status check_array(const tg_array *a, tg_error *err)
{
    if (a->meta->info.dtype.kind != TG_DT_STRING)
        return tg_fail(err, TG_INVALID, "array '%.200s' does not hold strings", a->path);
    if (a->meta->info.ndim != 1)
        return tg_fail(err, TG_UNSUPPORTED,
                       "array '%.200s': strings of %" PRIu32 " dimensions, only 1 is supported",
                       a->path, a->meta->info.ndim);
    return TG_OK;
}

/* A decoder that is stopped at a limit cannot tell too much from nonsense. It is given what
 * tg_array_worst_bytes() counts, so that a smaller limit of the caller's is noticed as such. */
static size_t chunk_limit(size_t limit)
{
    return limit > TG_CHUNK_TEXT_BYTES ? limit : TG_CHUNK_TEXT_BYTES;
}

/* --- Reading --------------------------------------------------------------- */

typedef struct reader {
    tg_array *a;
    tg_box request;
    size_t limit;
    tg_chain_context *ctx;
    uint64_t *offsets;
    tg_text text;
    uint64_t n; /* strings so far */
} reader;

static void reader_auto(reader *r)
{
    tg_chain_context_free(r->ctx);
    tg_free(r->offsets);
    tg_text_free(&r->text);
}

static tg_status add_string(reader *r, const char *s, size_t len, tg_error *err)
{
    if (len > r->limit - r->text.len)
        return tg_fail(err, TG_OVER_BUDGET, "more than %zu bytes of text", r->limit);
    tg_text_add_n(&r->text, s, len);
    r->offsets[++r->n] = r->text.len;
    return tg_text_status(&r->text, err);
}

static tg_status add_fill(reader *r, uint64_t n, tg_error *err)
{
    size_t len = 0;
    const char *fill = tg_array_meta_fill_text(r->a->meta, &len);

    for (uint64_t i = 0; i < n; i++)
        TG_TRY(add_string(r, fill, len, err));
    return TG_OK;
}

static tg_status read_chunk(void *user, const uint64_t *chunk_index, tg_bytes encoded,
                            tg_error *err)
{
    reader *r = user;
    const tg_array_meta *m = r->a->meta;
    TG_AUTO(tg_strings) s = {0};
    tg_box box, part;

    TG_TRY(tg_chunk_box(r->a, false, chunk_index, &box, err));
    if (!tg_box_intersect(&box, &r->request, &part))
        return TG_OK;
    if (encoded.data == NULL)
        return add_fill(r, part.shape.n[0], err);
    if (r->ctx == NULL)
        TG_TRY(tg_chain_context_new(m->chain, false, &r->ctx, err));
    TG_TRY(tg_chain_decode_strings(m->chain, r->ctx, encoded, chunk_limit(r->limit), &s, err));
    size_t first = (size_t)(part.start[0] - box.start[0]);
    for (size_t i = first; i < first + (size_t)part.shape.n[0]; i++)
        TG_TRY(add_string(r, s.text + s.offsets[i], (size_t)(s.offsets[i + 1] - s.offsets[i]),
                          err));
    return TG_OK;
}

static tg_status read_all(reader *r, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_unit_buffers) b = {0};
    tg_box units;

    if (r->request.shape.n[0] == 0)
        return TG_OK;
    tg_grid_cover(&r->request, &r->a->meta->shard, &units);
    for (uint64_t i = 0; i < units.shape.n[0]; i++) {
        const uint64_t index = units.start[0] + i;
        TG_TRY(tg_unit_read(r->a, &b, &index, &r->request, chunk_limit(r->limit), read_chunk, r,
                            cancel, err));
    }
    return TG_OK;
}

tg_status tg_array_read_strings(tg_array *a, uint64_t start, uint64_t count, size_t limit,
                                uint64_t **offsets, char **text, const tg_cancel *cancel,
                                tg_error *err)
{
    TG_AUTO(reader) r = {.a = a, .limit = limit};

    TG_TRY(check_array(a, err));
    TG_TRY(tg_request_box(a, &start, &count, &r.request, err));
    r.offsets = count >= SIZE_MAX ? NULL : tg_calloc((size_t)count + 1, sizeof *r.offsets);
    if (r.offsets == NULL)
        return tg_fail(err, TG_NO_MEMORY, "offsets of %" PRIu64 " strings", count);
    TG_TRY(read_all(&r, cancel, err));
    tg_text_add_n(&r.text, "", 0); /* not NULL, also where all are empty */
    TG_TRY(tg_text_status(&r.text, err));
    *offsets = tg_steal(r.offsets);
    *text = tg_text_steal(&r.text);
    return TG_OK;
}

/* --- Writing --------------------------------------------------------------- */

typedef struct writer {
    tg_array *a;
    tg_box request;
    const uint64_t *offsets; /* of the strings from request.start on */
    const char *text;
    tg_chain_context *decode, *encode;
    uint64_t *chunk_offsets; /* of one chunk */
    tg_text chunk_text;
    tg_buf encoded;
} writer;

static void writer_auto(writer *w)
{
    tg_chain_context_free(w->decode);
    tg_chain_context_free(w->encode);
    tg_free(w->chunk_offsets);
    tg_text_free(&w->chunk_text);
    tg_buf_free(&w->encoded);
}

/* String i of the chunk as it shall be: new, old, or fill. */
static void pick(const writer *w, const tg_strings *old, uint64_t item, size_t i,
                 const char **s, size_t *len)
{
    const uint64_t start = w->request.start[0];

    if (item >= start && item - start < w->request.shape.n[0]) {
        const uint64_t *at = w->offsets + (item - start);
        *s = w->text + at[0];
        *len = (size_t)(at[1] - at[0]);
    } else if (old->offsets != NULL) {
        *s = old->text + old->offsets[i];
        *len = (size_t)(old->offsets[i + 1] - old->offsets[i]);
    } else {
        *s = tg_array_meta_fill_text(w->a->meta, len);
    }
}

static tg_status fill_chunk(writer *w, const tg_strings *old, const tg_box *box, bool *all_fill,
                            tg_error *err)
{
    const size_t n = (size_t)box->shape.n[0];
    size_t fill_len = 0;
    const char *fill = tg_array_meta_fill_text(w->a->meta, &fill_len);

    if (w->chunk_offsets == NULL)
        w->chunk_offsets = tg_calloc(n + 1, sizeof *w->chunk_offsets);
    if (w->chunk_offsets == NULL)
        return tg_fail(err, TG_NO_MEMORY, "offsets of %zu strings", n);
    w->chunk_text.len = 0;
    *all_fill = true;
    for (size_t i = 0; i < n; i++) {
        const char *s = NULL;
        size_t len = 0;
        pick(w, old, box->start[0] + i, i, &s, &len);
        *all_fill &= len == fill_len && memcmp(s, fill, len) == 0;
        tg_text_add_n(&w->chunk_text, s, len);
        w->chunk_offsets[i + 1] = w->chunk_text.len;
    }
    tg_text_add_n(&w->chunk_text, "", 0);
    return tg_text_status(&w->chunk_text, err);
}

static tg_status make_chunk(void *user, const uint64_t *chunk_index, tg_bytes old,
                            tg_bytes *out, tg_error *err)
{
    writer *w = user;
    const tg_array_meta *m = w->a->meta;
    TG_AUTO(tg_strings) was = {0};
    bool all_fill = false;
    tg_box box;

    TG_TRY(tg_chunk_box(w->a, false, chunk_index, &box, err));
    if (old.data != NULL) {
        if (w->decode == NULL)
            TG_TRY(tg_chain_context_new(m->chain, false, &w->decode, err));
        TG_TRY(
            tg_chain_decode_strings(m->chain, w->decode, old, TG_CHUNK_TEXT_BYTES, &was, err));
    }
    TG_TRY(fill_chunk(w, &was, &box, &all_fill, err));
    *out = (tg_bytes){NULL, 0};
    if (all_fill)
        return TG_OK;
    if (w->encode == NULL)
        TG_TRY(tg_chain_context_new(m->chain, true, &w->encode, err));
    const tg_strings s = {w->chunk_offsets, w->chunk_text.data, (size_t)box.shape.n[0]};
    TG_TRY(tg_chain_encode_strings(m->chain, w->encode, &s, &w->encoded, err));
    *out = (tg_bytes){w->encoded.data, w->encoded.len};
    return TG_OK;
}

static tg_status check_offsets(const uint64_t *offsets, uint64_t count, tg_error *err)
{
    for (uint64_t i = 0; i < count; i++)
        if (offsets[i + 1] < offsets[i])
            return tg_fail(err, TG_INVALID,
                           "strings: offset %" PRIu64 " is below the one before", i + 1);
    return TG_OK;
}

tg_status tg_array_write_strings(tg_array *a, uint64_t start, uint64_t count,
                                 const uint64_t *offsets, const char *text,
                                 const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(writer) w = {.a = a, .offsets = offsets, .text = text};
    TG_AUTO(tg_unit_buffers) b = {0};
    tg_box units;

    TG_TRY(check_array(a, err));
    TG_TRY(check_offsets(offsets, count, err));
    TG_TRY(tg_request_box(a, &start, &count, &w.request, err));
    if (count == 0)
        return TG_OK;
    tg_grid_cover(&w.request, &a->meta->shard, &units);
    for (uint64_t i = 0; i < units.shape.n[0]; i++) {
        const uint64_t index = units.start[0] + i;
        TG_TRY(tg_unit_write(a, &b, &index, &w.request, make_chunk, &w, cancel, err));
    }
    return TG_OK;
}
