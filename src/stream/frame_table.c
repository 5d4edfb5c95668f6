/* Rows to columns, columns to chunks, chunks to shapes that readers see. Knows nothing of
 * frames, journals or commits: it is told when. */
#include "stream/frame_table.h"

#include "base/crc32c.h"
#include "stream/frame_columns.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* --- Chunks --------------------------------------------------------------- */

static tg_status put(tg_frame_table *t, const char *key, const void *data, size_t len,
                     const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(tg_store_put_lazy(t->store, key, data, len, cancel, err));
    t->puts++;
    return TG_OK;
}

/* (recover) Is this very value in the store? What cannot be read is not. */
static bool is_there(tg_frame_table *t, const char *key, const void *data, size_t len,
                     const tg_cancel *cancel)
{
    TG_AUTO(tg_buf) old = {0};
    return tg_store_get(t->store, key, tg_range_all(), len + 1, &old, cancel, NULL) == TG_OK &&
           old.len == len && memcmp(old.data, data, len) == 0;
}

/* Items [from, chunk_rows) of the chunk become fill value: deterministic bytes. */
static void pad_items(const frame_column *c, uint64_t from)
{
    const tg_array_info *info = tg_array_meta_info(c->meta);
    tg_shape rest = {1, {c->chunk_rows - from}};
    int64_t stride[1] = {c->dtype.size};
    tg_nd_fill(c->items + from * c->dtype.size, stride, &rest, c->dtype.size, info->fill);
}

static tg_status encode_text(tg_frame_table *t, frame_column *c, uint64_t from, tg_error *err)
{
    for (uint64_t i = from; i < c->chunk_rows; i++)
        c->text.offsets[i + 1] = c->text.offsets[i];
    return tg_chain_encode_strings(tg_array_meta_chain(c->meta), NULL, &c->text, &t->encoded,
                                   err);
}

/* Put the chunk that holds the last row. in_chunk: rows of it that there are. */
static tg_status put_chunk(tg_frame_table *t, frame_column *c, uint64_t chunk,
                           uint64_t in_chunk, const tg_cancel *cancel, tg_error *err)
{
    char name[TG_CHUNK_KEY_BYTES], key[FRAME_PATH_MAX + TG_CHUNK_KEY_BYTES];
    size_t len = (size_t)c->chunk_rows * c->dtype.size;
    const uint8_t *data = c->items;
    tg_chunk_key(c->meta, &chunk, name);
    TG_TRY(tg_path_join(key, sizeof key, c->path, name, err));
    if (c->dtype.kind == TG_DT_STRING) {
        TG_TRY(encode_text(t, c, in_chunk, err));
        data = t->encoded.data;
        len = t->encoded.len;
    } else {
        pad_items(c, in_chunk);
        uint32_t sum = c->sum ? tg_crc32c(0, c->items, len) : 0;
        for (size_t i = 0; i < FRAME_SUM_BYTES && c->sum; i++)
            c->items[len++] = (uint8_t)(sum >> (8 * i));
    }
    if (!t->options.rebuild || !is_there(t, key, data, len, cancel))
        TG_TRY(put(t, key, data, len, cancel, err));
    c->stored = chunk * c->chunk_rows + in_chunk;
    return TG_OK;
}

/* --- Rows ----------------------------------------------------------------- */

/* Chunks are native bytes (the chain is raw) and files are little-endian: where the two differ
 * no table opens, so nothing is swapped here. */
static void set_item(const frame_column *c, uint64_t at, const void *item)
{
    memcpy(c->items + at * c->dtype.size, item, c->dtype.size);
}

/* Rows count along all fields, well and field fastest: tg_layout_split_index(). */
static void split_index(const tg_frame_table *t, int64_t *index, int32_t *well, int32_t *field)
{
    uint64_t at = (uint64_t)*index, image = at % t->options.images;
    *well = (int32_t)(image / t->options.fields);
    *field = (int32_t)(image % t->options.fields);
    *index = (int64_t)(at / t->options.images);
}

static void set_own(tg_frame_table *t, const tg_frame_row *row)
{
    int64_t index = row->index;
    int32_t well = -1, field = -1;
    const void *item[FRAME_OWN_COLUMNS] = {&row->sequence,  &index,       &row->time_device,
                                           &row->time_host, &row->status, &well,
                                           &field,          &row->crc32c};
    if (t->options.images > 0 && index != TG_NO_INDEX)
        split_index(t, &index, &well, &field);
    for (uint32_t i = 0; i < t->n_own; i++)
        set_item(&t->column[i], frame_in_chunk(&t->column[i], t->rows), item[t->own[i]]);
}

/* The packed value at p; returns its length. */
static size_t set_user(frame_column *c, uint64_t at, const uint8_t *p)
{
    if (c->dtype.kind != TG_DT_STRING) {
        set_item(c, at, p);
        return c->dtype.size;
    }
    size_t len = (size_t)p[0] | (size_t)p[1] << 8;
    uint64_t start = at == 0 ? 0 : c->text.offsets[at];
    assert(len <= TG_FRAME_TEXT_MAX);
    c->text.offsets[0] = 0;
    memcpy(c->text.text + start, p + 2, len);
    c->text.offsets[at + 1] = start + len;
    return 2 + len;
}

tg_status tg_frame_table_add(tg_frame_table *t, const tg_frame_row *row, tg_bytes values,
                             const tg_cancel *cancel, tg_error *err)
{
    size_t at = 0;
    set_own(t, row);
    for (uint32_t i = t->n_own; i < t->n_columns; i++) {
        frame_column *c = &t->column[i];
        at += set_user(c, frame_in_chunk(c, t->rows), values.data + at);
    }
    assert(at == values.len);
    (void)at;
    t->rows++;
    for (uint32_t i = 0; i < t->n_columns; i++) {
        frame_column *c = &t->column[i];
        if (frame_in_chunk(c, t->rows) == 0)
            TG_TRY(put_chunk(t, c, t->rows / c->chunk_rows - 1, c->chunk_rows, cancel, err));
    }
    return TG_OK;
}

uint64_t tg_frame_table_rows(const tg_frame_table *t)
{
    return t->rows;
}

uint64_t tg_frame_table_puts(const tg_frame_table *t)
{
    return t->puts;
}

/* --- What readers see ----------------------------------------------------- */

static tg_status put_partial_chunks(tg_frame_table *t, const tg_cancel *cancel, tg_error *err)
{
    for (uint32_t i = 0; i < t->n_columns; i++) {
        frame_column *c = &t->column[i];
        if (c->stored != t->rows)
            TG_TRY(put_chunk(t, c, t->rows / c->chunk_rows, frame_in_chunk(c, t->rows), cancel,
                             err));
    }
    t->written = t->rows;
    return TG_OK;
}

tg_status tg_frame_table_write(tg_frame_table *t, const tg_cancel *cancel, tg_error *err)
{
    return t->options.once ? TG_OK : put_partial_chunks(t, cancel, err);
}

/* One document, if there is one. */
static tg_status put_document(tg_frame_table *t, const char *path, const char *name,
                              const char *doc, const tg_cancel *cancel, tg_error *err)
{
    char key[FRAME_PATH_MAX + 16];
    if (doc == NULL)
        return TG_OK;
    TG_TRY(tg_path_join(key, sizeof key, path, name, err));
    if (t->options.rebuild && is_there(t, key, doc, strlen(doc), cancel))
        return TG_OK;
    return put(t, key, doc, strlen(doc), cancel, err);
}

tg_status frame_put_documents(tg_frame_table *t, const char *path, bool is_array, char *doc,
                              char *attrs_doc, const tg_cancel *cancel, tg_error *err)
{
    const char *name = t->options.format == 3 ? "zarr.json" : is_array ? ".zarray" : ".zgroup";
    tg_status st = put_document(t, path, name, doc, cancel, err);
    if (st == TG_OK)
        st = put_document(t, path, ".zattrs", attrs_doc, cancel, err);
    tg_free(doc);
    tg_free(attrs_doc);
    return st;
}

tg_status frame_put_shapes(tg_frame_table *t, uint64_t rows, const tg_cancel *cancel,
                           tg_error *err)
{
    for (uint32_t i = 0; i < t->n_columns; i++) {
        frame_column *c = &t->column[i];
        char *doc = NULL, *attrs_doc = NULL;
        TG_TRY(tg_array_meta_write(c->meta, &rows, NULL, &doc, &attrs_doc, err));
        /* The attributes of an array never change after it was made. */
        if (t->published != UINT64_MAX && t->options.format == 2) {
            tg_free(attrs_doc);
            attrs_doc = NULL;
        }
        TG_TRY(frame_put_documents(t, c->path, true, doc, attrs_doc, cancel, err));
    }
    t->published = rows;
    t->uneven = false;
    return TG_OK;
}

tg_status tg_frame_table_publish(tg_frame_table *t, uint64_t rows, const tg_cancel *cancel,
                                 tg_error *err)
{
    if (t->options.once || (rows == t->published && !t->uneven))
        return TG_OK;
    assert(rows <= t->written);
    return frame_put_shapes(t, rows, cancel, err);
}

tg_status tg_frame_table_finish(tg_frame_table *t, const tg_cancel *cancel, tg_error *err)
{
    TG_TRY(put_partial_chunks(t, cancel, err));
    if (!t->options.once)
        TG_TRY(tg_store_sync(t->store, cancel, err)); /* before any shape covers them */
    else if (t->published == UINT64_MAX)
        TG_TRY(frame_put_group(t, cancel, err));
    return t->published == t->rows && !t->uneven ? TG_OK
                                                 : frame_put_shapes(t, t->rows, cancel, err);
}

tg_status tg_frame_table_trim(tg_frame_table *t, const tg_cancel *cancel, tg_error *err)
{
    assert(t->published != UINT64_MAX);
    for (uint32_t i = 0; i < t->n_columns; i++) {
        const frame_column *c = &t->column[i];
        /* A run that died put chunks in order, so the first that is missing is the last. */
        for (uint64_t chunk = (t->published + c->chunk_rows - 1) / c->chunk_rows;; chunk++) {
            char name[TG_CHUNK_KEY_BYTES], key[FRAME_PATH_MAX + TG_CHUNK_KEY_BYTES];
            tg_chunk_key(c->meta, &chunk, name);
            TG_TRY(tg_path_join(key, sizeof key, c->path, name, err));
            tg_error own = {0};
            tg_status st = tg_store_remove(t->store, key, cancel, &own);
            if (st == TG_NOT_FOUND || st == TG_UNSUPPORTED)
                break;
            if (st != TG_OK && err != NULL)
                *err = own;
            TG_TRY(st);
            t->puts++;
        }
    }
    return TG_OK;
}
