/* Rows of the frame table to bytes and back. Knows nothing of Zarr or files. */
#include "stream/frame_row.h"

#include "base/text.h"

#include <inttypes.h>
#include <string.h>

static const char *const own_columns[] = {"sequence",  "index",  "time_device",
                                          "time_host", "status", "crc32c"};

static bool is_own(const char *name)
{
    for (size_t i = 0; i < sizeof own_columns / sizeof *own_columns; i++)
        if (strcmp(name, own_columns[i]) == 0)
            return true;
    return false;
}

/* A node name that every file system and reader takes: of letters, digits, '-', '_', '.'. */
static bool is_node_name(const char *name)
{
    size_t n =
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.");
    return n > 0 && name[n] == '\0' && n <= TG_FRAME_NAME_MAX &&
           name[strspn(name, ".")] != '\0' && strncmp(name, "__", 2) != 0 && name[0] != '.' &&
           strcmp(name, "zarr.json") != 0;
}

static bool is_column_dtype(tg_dtype t)
{
    switch (t.kind) {
    case TG_DT_BOOL:
        return t.size == 1;
    case TG_DT_INT:
    case TG_DT_UINT:
        return t.size == 1 || t.size == 2 || t.size == 4 || t.size == 8;
    case TG_DT_FLOAT:
        return t.size == 2 || t.size == 4 || t.size == 8;
    case TG_DT_STRING:
        return true;
    default:
        return false;
    }
}

static tg_status check_column(const tg_frame_columns *c, const tg_stream_column *column,
                              tg_error *err)
{
    const char *name = column->name == NULL ? "" : column->name;
    if (!is_node_name(name))
        return tg_fail(err, TG_INVALID,
                       "column '%s': want a name of 1 to %d letters, digits, '-', '_', '.'",
                       name, TG_FRAME_NAME_MAX);
    if (is_own(name))
        return tg_fail(err, TG_INVALID, "column '%s': every frame table has one of its own",
                       name);
    for (uint32_t i = 0; i < c->n; i++)
        if (strcmp(c->at[i].name, name) == 0)
            return tg_fail(err, TG_INVALID, "column '%s' is named twice", name);
    if (!is_column_dtype(column->dtype))
        return tg_fail(err, TG_INVALID,
                       "column '%s': want an integer, float, bool or string dtype", name);
    return TG_OK;
}

tg_status tg_frame_columns_init(tg_frame_columns *c, const tg_stream_column *columns,
                                uint32_t n, tg_error *err)
{
    tg_frame_columns made = {0};
    if (n > TG_FRAME_COLUMNS_MAX)
        return tg_fail(err, TG_INVALID, "%" PRIu32 " columns, at most %d", n,
                       TG_FRAME_COLUMNS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        TG_TRY(check_column(&made, &columns[i], err));
        bool is_text = columns[i].dtype.kind == TG_DT_STRING;
        memcpy(made.at[i].name, columns[i].name, strlen(columns[i].name) + 1);
        made.at[i].dtype = columns[i].dtype;
        made.values_bound += is_text ? 2 + TG_FRAME_TEXT_MAX : columns[i].dtype.size;
        made.values_least += is_text ? 2 : columns[i].dtype.size;
        made.n++;
    }
    *c = made;
    return TG_OK;
}

static void store_le(uint8_t *dst, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t load_le(const uint8_t *src, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)src[i] << (8 * i);
    return v;
}

/* One native item to little-endian bytes, and (its own inverse) back. */
static void copy_item(uint8_t *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; i < n / 2; i++) {
        uint8_t byte = dst[i];
        dst[i] = dst[n - 1 - i];
        dst[n - 1 - i] = byte;
    }
#endif
}

static tg_status pack_text(const char *name, const char *text, uint8_t *dst, size_t cap,
                           size_t *used, tg_error *err)
{
    size_t len = text == NULL ? 0 : strnlen(text, TG_FRAME_TEXT_MAX + 1);
    if (len > TG_FRAME_TEXT_MAX)
        return tg_fail(err, TG_INVALID, "column '%s': a string of more than %d bytes", name,
                       TG_FRAME_TEXT_MAX);
    if (len > 0 && !tg_utf8_valid(text, len))
        return tg_fail(err, TG_INVALID, "column '%s': the string is not UTF-8", name);
    if (cap < 2 + len)
        return tg_fail(err, TG_OVER_BUDGET, "column '%s': %zu bytes, room for %zu", name,
                       2 + len, cap);
    store_le(dst, len, 2);
    if (len > 0)
        memcpy(dst + 2, text, len);
    *used = 2 + len;
    return TG_OK;
}

static tg_status pack_item(const char *name, tg_dtype t, const void *item, uint8_t *dst,
                           size_t cap, size_t *used, tg_error *err)
{
    if (cap < t.size)
        return tg_fail(err, TG_OVER_BUDGET, "column '%s': %u bytes, room for %zu", name,
                       (unsigned)t.size, cap);
    if (item == NULL)
        memset(dst, 0, t.size);
    else if (t.kind == TG_DT_BOOL)
        dst[0] = *(const uint8_t *)item != 0; /* no other byte may reach the file */
    else
        copy_item(dst, item, t.size);
    *used = t.size;
    return TG_OK;
}

tg_status tg_frame_values_pack(const tg_frame_columns *c, const void *const *values,
                               uint8_t *dst, size_t cap, size_t *n, tg_error *err)
{
    size_t at = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const void *value = values == NULL ? NULL : values[i];
        size_t used = 0;
        if (c->at[i].dtype.kind == TG_DT_STRING)
            TG_TRY(pack_text(c->at[i].name, value, dst + at, cap - at, &used, err));
        else
            TG_TRY(pack_item(c->at[i].name, c->at[i].dtype, value, dst + at, cap - at, &used,
                             err));
        at += used;
    }
    *n = at;
    return TG_OK;
}

/* Length of the packed value at the start of src. */
static tg_status value_bytes(const char *name, tg_dtype t, tg_bytes src, size_t *n,
                             tg_error *err)
{
    size_t need = t.kind == TG_DT_STRING ? 2 : t.size;
    if (src.len >= need && t.kind == TG_DT_STRING)
        need += (size_t)load_le(src.data, 2);
    if (src.len < need)
        return tg_fail(err, TG_CORRUPT, "frame row, column '%s': %zu bytes, want %zu", name,
                       src.len, need);
    if (t.kind == TG_DT_STRING &&
        (need - 2 > TG_FRAME_TEXT_MAX || !tg_utf8_valid((const char *)src.data + 2, need - 2)))
        return tg_fail(err, TG_CORRUPT,
                       "frame row, column '%s': a string that is too long or not UTF-8", name);
    if (t.kind == TG_DT_BOOL && src.data[0] > 1)
        return tg_fail(err, TG_CORRUPT, "frame row, column '%s': bool %u, want 0 or 1", name,
                       (unsigned)src.data[0]);
    *n = need;
    return TG_OK;
}

tg_status tg_frame_values_check(const tg_frame_columns *c, tg_bytes src, size_t *n,
                                tg_error *err)
{
    size_t at = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        size_t used = 0;
        tg_bytes rest = {src.data + at, src.len - at};
        TG_TRY(value_bytes(c->at[i].name, c->at[i].dtype, rest, &used, err));
        at += used;
    }
    *n = at;
    return TG_OK;
}

void tg_frame_row_encode(const tg_frame_row *row, uint8_t dst[TG_FRAME_ROW_BYTES])
{
    store_le(dst, row->sequence, 8);
    store_le(dst + 8, (uint64_t)row->index, 8);
    store_le(dst + 16, (uint64_t)row->time_device, 8);
    store_le(dst + 24, (uint64_t)row->time_host, 8);
    dst[32] = row->status;
    store_le(dst + 33, row->crc32c, 4);
}

tg_status tg_frame_row_decode(tg_bytes src, tg_frame_row *row, tg_error *err)
{
    if (src.len < TG_FRAME_ROW_BYTES)
        return tg_fail(err, TG_CORRUPT, "frame row: %zu bytes, want %d", src.len,
                       TG_FRAME_ROW_BYTES);
    const uint8_t *p = src.data;
    tg_frame_row got = {.sequence = load_le(p, 8),
                        .index = (int64_t)load_le(p + 8, 8),
                        .time_device = (int64_t)load_le(p + 16, 8),
                        .time_host = (int64_t)load_le(p + 24, 8),
                        .status = p[32],
                        .crc32c = (uint32_t)load_le(p + 33, 4)};
    if (got.status > TG_FRAME_RESET || got.index < TG_NO_INDEX)
        return tg_fail(err, TG_CORRUPT, "frame row: status %u, index %" PRId64,
                       (unsigned)got.status, got.index);
    *row = got;
    return TG_OK;
}

tg_status tg_frame_row_read(const tg_frame_columns *c, tg_bytes src, tg_frame_row *row,
                            tg_bytes *values, size_t *used, tg_error *err)
{
    tg_frame_row got = {0};
    size_t n = 0;
    TG_TRY(tg_frame_row_decode(src, &got, err));
    tg_bytes rest = {src.data + TG_FRAME_ROW_BYTES, src.len - TG_FRAME_ROW_BYTES};
    TG_TRY(tg_frame_values_check(c, rest, &n, err));
    *row = got;
    *values = (tg_bytes){rest.data, n};
    *used = TG_FRAME_ROW_BYTES + n;
    return TG_OK;
}
