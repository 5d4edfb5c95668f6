/* Frame tables made, and opened again where a recorder ended or died. */
#include "stream/frame_columns.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    SMALL_FRAME = 256 << 10,
    SMALL_FRAME_ROWS = 65536,
    LARGE_FRAME_ROWS = 4096,
    /* Metadata, contexts and what a put of a document takes for a moment. */
    COLUMN_OVERHEAD = 16 << 10,
};

uint64_t tg_frame_table_chunk_rows(uint64_t frame_bytes)
{
    return frame_bytes < SMALL_FRAME ? SMALL_FRAME_ROWS : LARGE_FRAME_ROWS;
}

static uint64_t column_rows(const tg_frame_table_options *o, tg_dtype t)
{
    return t.kind == TG_DT_STRING ? TG_FRAME_TEXT_ROWS
                                  : tg_frame_table_chunk_rows(o->frame_bytes);
}

/* Text of a chunk of strings at most, and offsets. */
enum {
    TEXT_BYTES = TG_FRAME_TEXT_ROWS * TG_FRAME_TEXT_MAX,
    TEXT_OFFSETS = TG_FRAME_TEXT_ROWS + 1,
};

size_t tg_frame_table_bytes(const tg_frame_table_options *options)
{
    size_t bytes = sizeof(tg_frame_table), largest = 0;
    bool strings = false;
    uint8_t own[FRAME_OWN_COLUMNS];
    uint32_t n = frame_own_columns(options, own);
    for (uint32_t i = 0; i < n + options->users.n; i++) {
        tg_dtype t = i < n ? frame_own[own[i]].dtype : options->users.at[i - n].dtype;
        size_t chunk = (size_t)column_rows(options, t) * t.size + FRAME_SUM_BYTES;
        if (t.kind == TG_DT_STRING)
            chunk = TEXT_BYTES + TEXT_OFFSETS * sizeof(uint64_t);
        strings |= t.kind == TG_DT_STRING;
        largest = chunk > largest ? chunk : largest;
        bytes += chunk + COLUMN_OVERHEAD;
    }
    /* The encoded text while it grows; opening decodes one chunk at a time. */
    return bytes + (strings ? 3 * (size_t)TEXT_BYTES : 0) + 2 * largest;
}

void tg_frame_table_free(tg_frame_table *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; i < t->n_columns; i++) {
        frame_column *c = &t->column[i];
        tg_array_meta_free(c->own_meta);
        tg_array_free(c->array);
        tg_free(c->items);
        tg_strings_free(&c->text);
    }
    tg_buf_free(&t->encoded);
    tg_free(t);
}

/* A table whose columns have names and paths, and nothing more. */
static tg_status new_table(tg_frame_table **out, tg_store *store,
                           const tg_frame_table_options *options, tg_error *err)
{
    TG_AUTO_PTR(tg_frame_table) t = tg_calloc(1, sizeof *t);
    if (t == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a frame table");
    t->store = store;
    t->options = *options;
    t->options.group = NULL; /* the caller's; path has it */
    t->published = UINT64_MAX;
    const char *group = options->group == NULL ? "" : options->group;
    TG_TRY(tg_path_join(t->path, sizeof t->path, group, "frames", err));
    t->n_own = frame_own_columns(options, t->own);
    for (uint32_t i = 0; i < t->n_own + options->users.n; i++) {
        frame_column *c = &t->column[i];
        uint32_t user = i - t->n_own;
        const char *name =
            i < t->n_own ? frame_own[t->own[i]].name : options->users.at[user].name;
        c->dtype = i < t->n_own ? frame_own[t->own[i]].dtype : options->users.at[user].dtype;
        c->chunk_rows = column_rows(options, c->dtype);
        TG_TRY(tg_path_join(c->path, sizeof c->path, t->path, name, err));
        t->n_columns++;
    }
    *out = tg_steal(t);
    return TG_OK;
}

/* The memory of a column whose meta is known. */
static tg_status take_memory(frame_column *c, tg_error *err)
{
    const tg_chain *chain = tg_array_meta_chain(c->meta);
    if (c->dtype.kind == TG_DT_STRING) {
        c->text.n = TG_FRAME_TEXT_ROWS;
        c->text.offsets = tg_calloc(TEXT_OFFSETS, sizeof *c->text.offsets);
        c->text.text = tg_alloc(TEXT_BYTES);
        if (c->text.offsets == NULL || c->text.text == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for a column of strings");
        return TG_OK;
    }
    if (!tg_chain_is_raw(chain))
        return tg_fail(err, TG_UNSUPPORTED, "'%s': its chunks are compressed or reordered",
                       c->path);
    c->sum = tg_chain_has_crc32c_last(chain);
    c->items = tg_alloc((size_t)c->chunk_rows * c->dtype.size + FRAME_SUM_BYTES);
    return c->items != NULL ? TG_OK
                            : tg_fail(err, TG_NO_MEMORY, "no memory for column '%s'", c->path);
}

/* --- Create --------------------------------------------------------------- */

static tg_status make_meta(const tg_frame_table *t, uint32_t i, tg_array_meta **out,
                           tg_error *err)
{
    const frame_column *c = &t->column[i];
    const uint64_t none = 0;
    int64_t fill = i < t->n_own ? frame_own[t->own[i]].fill : 0;
    uint64_t native[2] = {(uint64_t)fill, 0}; /* little-endian: its first bytes, if shorter */
    assert(c->dtype.size == 8 || fill == 0 || fill == -1);
    static const char *const rows[] = {"frame"};
    tg_array_options o = {.size = sizeof o,
                          .format = t->options.format,
                          .dtype = c->dtype,
                          .ndim = 1,
                          .shape = &none,
                          .chunk = &c->chunk_rows,
                          .no_checksum = !t->options.checksum,
                          .fill = c->dtype.kind == TG_DT_STRING ? NULL : native,
                          .dimension_names = t->options.format == 3 ? rows : NULL};
    return tg_array_meta_new(out, &o, err);
}

tg_status frame_put_group(tg_frame_table *t, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_json) attributes = NULL;
    char *doc = NULL, *attrs_doc = NULL;
    TG_TRY(frame_table_attributes(&t->options, &attributes, err));
    TG_TRY(tg_group_documents(t->options.format, attributes, &doc, &attrs_doc, err));
    return frame_put_documents(t, t->path, false, doc, attrs_doc, cancel, err);
}

tg_status tg_frame_table_create(tg_frame_table **out, tg_store *store,
                                const tg_frame_table_options *options, const tg_cancel *cancel,
                                tg_error *err)
{
    TG_AUTO_PTR(tg_frame_table) t = NULL;
    TG_TRY(new_table(&t, store, options, err));
    for (uint32_t i = 0; i < t->n_columns; i++) {
        frame_column *c = &t->column[i];
        TG_TRY(make_meta(t, i, &c->own_meta, err));
        c->meta = c->own_meta;
        TG_TRY(take_memory(c, err));
    }
    if (!options->once) {
        TG_TRY(frame_put_group(t, cancel, err));
        TG_TRY(frame_put_shapes(t, 0, cancel, err));
    }
    *out = tg_steal(t);
    return TG_OK;
}

/* --- Open ----------------------------------------------------------------- */

static bool same_dtype(tg_dtype a, tg_dtype b)
{
    return a.kind == b.kind && (a.kind == TG_DT_STRING || a.size == b.size);
}

static tg_status open_column(tg_frame_table *t, frame_column *c, uint64_t rows,
                             const tg_cancel *cancel, tg_error *err)
{
    tg_array_info info = {.size = sizeof info};
    tg_error own = {0};
    tg_status st = tg_array_open(t->store, c->path, &c->array, cancel, &own);
    if (st == TG_NOT_FOUND)
        return tg_fail(err, TG_NOT_FOUND, "'%s': no such column in the table that is there",
                       c->path);
    if (st != TG_OK && err != NULL)
        *err = own;
    TG_TRY(st);
    TG_TRY(tg_array_get_info(c->array, &info, err));
    c->meta = tg_array_get_meta(c->array);
    if (info.ndim != 1 || !same_dtype(info.dtype, c->dtype) || info.sharded ||
        info.chunk[0] != c->chunk_rows || info.format != t->options.format)
        return tg_fail(err, TG_INVALID,
                       "'%s': another dtype, format or chunk than this recorder's", c->path);
    if (rows > info.shape[0])
        return tg_fail(err, TG_INVALID, "'%s': %" PRIu64 " rows, want %" PRIu64 " or more",
                       c->path, info.shape[0], rows);
    t->uneven |= t->published != UINT64_MAX && t->published != info.shape[0];
    if (t->published == UINT64_MAX || t->published > info.shape[0])
        t->published = info.shape[0];
    return take_memory(c, err);
}

static tg_status read_text(frame_column *c, uint64_t start, uint64_t count,
                           const tg_cancel *cancel, tg_error *err)
{
    uint64_t *offsets = NULL;
    char *text = NULL;
    TG_TRY(tg_array_read_strings(c->array, start, count, TEXT_BYTES, &offsets, &text, cancel,
                                 err));
    memcpy(c->text.offsets, offsets, ((size_t)count + 1) * sizeof *offsets);
    if (offsets[count] > 0)
        memcpy(c->text.text, text, (size_t)offsets[count]);
    tg_free(offsets);
    tg_free(text);
    return TG_OK;
}

/* The rows of the last, partial chunk. */
static tg_status read_back(frame_column *c, uint64_t rows, const tg_cancel *cancel,
                           tg_error *err)
{
    uint64_t count = frame_in_chunk(c, rows), start = rows - count;
    c->stored = rows;
    if (count == 0)
        return TG_OK;
    if (c->dtype.kind == TG_DT_STRING)
        return read_text(c, start, count, cancel, err);
    return tg_array_read(c->array, &start, &count, c->items, NULL, cancel, err);
}

/* Columns that the recorder would leave short. */
static tg_status check_names(tg_frame_table *t, const tg_cancel *cancel, tg_error *err)
{
    char **names = NULL;
    TG_TRY(tg_node_children(t->store, t->path, &names, cancel, err));
    const char *extra = NULL;
    for (size_t i = 0; names[i] != NULL && extra == NULL; i++) {
        extra = names[i];
        for (uint32_t k = 0; k < t->n_columns; k++)
            if (strcmp(strrchr(t->column[k].path, '/') + 1, names[i]) == 0)
                extra = NULL;
    }
    tg_status st = extra == NULL
                       ? TG_OK
                       : tg_fail(err, TG_INVALID,
                                 "'%s' has a column '%s' that this recorder does not fill",
                                 t->path, extra);
    tg_names_free(names);
    return st;
}

tg_status tg_frame_table_open(tg_frame_table **out, tg_store *store,
                              const tg_frame_table_options *options, uint64_t rows,
                              const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_frame_table) t = NULL;
    TG_TRY(new_table(&t, store, options, err));
    for (uint32_t i = 0; i < t->n_columns; i++)
        TG_TRY(open_column(t, &t->column[i], rows, cancel, err));
    TG_TRY(check_names(t, cancel, err));
    for (uint32_t i = 0; i < t->n_columns; i++)
        TG_TRY(read_back(&t->column[i], rows, cancel, err));
    t->rows = t->written = rows;
    *out = tg_steal(t);
    return TG_OK;
}

/* --- Looking -------------------------------------------------------------- */

static tg_status array_rows(tg_store *store, const char *path, uint64_t *rows,
                            const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};
    TG_TRY(tg_array_open(store, path, &a, cancel, err));
    TG_TRY(tg_array_get_info(a, &info, err));
    if (info.ndim != 1)
        return tg_fail(err, TG_CORRUPT, "'%s': %u dimensions, want 1", path,
                       (unsigned)info.ndim);
    *rows = info.shape[0];
    return TG_OK;
}

tg_status tg_frame_table_length(tg_store *store, const char *group, uint64_t *rows,
                                const tg_cancel *cancel, tg_error *err)
{
    char frames[FRAME_PATH_MAX], path[FRAME_PATH_MAX];
    char **names = NULL;
    uint64_t least = UINT64_MAX;
    TG_TRY(tg_path_join(frames, sizeof frames, group == NULL ? "" : group, "frames", err));
    TG_TRY(tg_node_children(store, frames, &names, cancel, err));
    tg_status st =
        names[0] != NULL ? TG_OK : tg_fail(err, TG_NOT_FOUND, "'%s': no frame table", frames);
    for (size_t i = 0; names[i] != NULL && st == TG_OK; i++) {
        uint64_t n = 0;
        st = tg_path_join(path, sizeof path, frames, names[i], err);
        if (st == TG_OK)
            st = array_rows(store, path, &n, cancel, err);
        least = n < least ? n : least;
    }
    tg_names_free(names);
    if (st == TG_OK)
        *rows = least;
    return st;
}

/* What one of our own columns has in row `at`. A table need not have all of them. */
static tg_status read_own(tg_store *store, const char *frames, uint32_t i, uint64_t at,
                          void *item, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    char path[FRAME_PATH_MAX];
    tg_array_info info = {.size = sizeof info};
    const uint64_t one = 1;
    TG_TRY(tg_path_join(path, sizeof path, frames, frame_own[i].name, err));
    TG_TRY(tg_array_open(store, path, &a, cancel, err));
    TG_TRY(tg_array_get_info(a, &info, err));
    if (!same_dtype(info.dtype, frame_own[i].dtype))
        return tg_fail(err, TG_CORRUPT, "'%s': another dtype than a frame table's", path);
    return tg_array_read(a, &at, &one, item, NULL, cancel, err);
}

tg_status tg_frame_table_last(tg_store *store, const char *group, tg_frame_row *row,
                              const tg_cancel *cancel, tg_error *err)
{
    char frames[FRAME_PATH_MAX];
    uint64_t rows = 0;
    tg_frame_row got = {0};
    int32_t well, field;
    void *item[FRAME_OWN_COLUMNS] = {&got.sequence,  &got.index,  &got.time_device,
                                     &got.time_host, &got.status, &well,
                                     &field,         &got.crc32c};
    TG_TRY(tg_path_join(frames, sizeof frames, group == NULL ? "" : group, "frames", err));
    TG_TRY(tg_frame_table_length(store, group, &rows, cancel, err));
    if (rows == 0)
        return tg_fail(err, TG_NOT_FOUND, "'%s' has no rows", frames);
    for (uint32_t i = 0; i < FRAME_OWN_COLUMNS; i++) {
        tg_error own = {0};
        tg_status st = read_own(store, frames, i, rows - 1, item[i], cancel, &own);
        if (st == TG_NOT_FOUND && frame_own[i].when != FRAME_ALWAYS)
            continue;
        if (st != TG_OK && err != NULL)
            *err = own;
        TG_TRY(st);
    }
    *row = got;
    return TG_OK;
}
