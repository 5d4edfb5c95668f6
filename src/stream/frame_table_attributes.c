/* What the attributes of a frame table say about its columns and its image. */
#include "stream/frame_columns.h"

#include <inttypes.h>
#include <string.h>

const frame_own_column frame_own[FRAME_OWN_COLUMNS] = {
    {FRAME_ALWAYS,
     "sequence",
     {TG_DT_UINT, 8},
     0,
     NULL,
     "number of the frame, unwrapped to 64 bits"},
    {FRAME_ALWAYS,
     "index",
     {TG_DT_INT, 8},
     -1,
     NULL,
     "place of the pixels along the frame axis; -1: there are none"},
    {FRAME_ALWAYS,
     "time_device",
     {TG_DT_INT, 8},
     INT64_MIN,
     "nanosecond",
     "the source's own clock; -9223372036854775808: not known"},
    {FRAME_ALWAYS,
     "time_host",
     {TG_DT_INT, 8},
     INT64_MIN,
     "nanosecond",
     "arrival by the recorder's clock, since 1970-01-01T00:00:00Z"},
    {FRAME_ALWAYS, "status", {TG_DT_UINT, 1}, 0, NULL, "what became of the frame, see status"},
    {FRAME_ON_PLATES,
     "well",
     {TG_DT_INT, 4},
     -1,
     NULL,
     "of the plate's wells the one that has the pixels, from 0; -1: there are none"},
    {FRAME_ON_PLATES,
     "field",
     {TG_DT_INT, 4},
     -1,
     NULL,
     "of the well's fields the one that has the pixels, from 0; -1: there are none"},
    {FRAME_SUMMED,
     "crc32c",
     {TG_DT_UINT, 4},
     0,
     NULL,
     "CRC-32C of the frame's items, little-endian in C order; 0 without pixels"},
};

static const char *const status_names[] = {"ok",      "lost",   "dropped",  "skipped",
                                           "partial", "failed", "repeated", "reset"};

uint32_t frame_own_columns(const tg_frame_table_options *options,
                           uint8_t own[FRAME_OWN_COLUMNS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < FRAME_OWN_COLUMNS; i++)
        if (frame_own[i].when == FRAME_ALWAYS ||
            (frame_own[i].when == FRAME_ON_PLATES && options->images > 0) ||
            (frame_own[i].when == FRAME_SUMMED && options->checksum))
            own[n++] = (uint8_t)i;
    return n;
}

static tg_status describe_column(const char *name, const char *unit, const char *text,
                                 tg_json *list, tg_error *err)
{
    TG_AUTO_PTR(tg_json) column = tg_json_new_object();
    if (column == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for attributes");
    TG_TRY(tg_json_set(column, "name", tg_json_new_string(name), err));
    if (unit != NULL)
        TG_TRY(tg_json_set(column, "unit", tg_json_new_string(unit), err));
    TG_TRY(tg_json_set(column, "description", tg_json_new_string(text), err));
    return tg_json_append(list, tg_steal(column), err);
}

static tg_status add_columns(const tg_frame_table_options *o, tg_json *table, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for attributes");
    uint8_t own[FRAME_OWN_COLUMNS];
    uint32_t n = frame_own_columns(o, own);
    for (uint32_t i = 0; i < n; i++) {
        const frame_own_column *c = &frame_own[own[i]];
        TG_TRY(describe_column(c->name, c->unit, c->description, list, err));
    }
    for (uint32_t i = 0; i < o->users.n; i++)
        TG_TRY(describe_column(o->users.at[i].name, NULL, "the user's", list, err));
    return tg_json_set(table, "columns", tg_steal(list), err);
}

static tg_status add_axes(tg_frame_axes axes, tg_json *table, tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for attributes");
    for (uint32_t i = 0; i < axes.n; i++)
        TG_TRY(tg_json_append(list, tg_json_new_u64(axes.first + i), err));
    return tg_json_set(table, "frame_axes", tg_steal(list), err);
}

static tg_status add_status(tg_json *table, tg_error *err)
{
    TG_AUTO_PTR(tg_json) names = tg_json_new_object();
    if (names == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for attributes");
    for (uint32_t i = 0; i < sizeof status_names / sizeof *status_names; i++) {
        const char code[2] = {(char)('0' + i), '\0'};
        TG_TRY(tg_json_set(names, code, tg_json_new_string(status_names[i]), err));
    }
    return tg_json_set(table, "status", tg_steal(names), err);
}

tg_status frame_table_attributes(const tg_frame_table_options *options, tg_json **out,
                                 tg_error *err)
{
    TG_AUTO_PTR(tg_json) root = tg_json_new_object();
    TG_AUTO_PTR(tg_json) table = tg_json_new_object();
    if (root == NULL || table == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for attributes");
    TG_TRY(tg_json_set(table, "version", tg_json_new_u64(1), err));
    TG_TRY(tg_json_set(table, "rows",
                       tg_json_new_string("one for each frame offered, lost or skipped"), err));
    TG_TRY(add_axes(options->axes, table, err));
    TG_TRY(add_columns(options, table, err));
    TG_TRY(add_status(table, err));
    TG_TRY(tg_json_set(root, "frame_table", tg_steal(table), err));
    *out = tg_steal(root);
    return TG_OK;
}

/* --- Reading them ------------------------------------------------------------------------- */

/* One axis behind the other, all of them the image's. */
static bool read_axes(const tg_json *list, uint32_t ndim, tg_frame_axes *axes)
{
    size_t n = tg_json_size(list);
    uint64_t axis, first = 0;

    if (tg_json_kind_of(list) != TG_JSON_ARRAY || n >= ndim)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (tg_json_u64(tg_json_at(list, i), &axis, NULL) != TG_OK)
            return false;
        first = i == 0 ? axis : first;
        if (axis >= ndim || axis != first + i)
            return false;
    }
    *axes = (tg_frame_axes){(uint32_t)first, (uint32_t)n};
    return true;
}

tg_status tg_frame_table_axes(tg_store *store, const char *group, uint32_t ndim,
                              tg_frame_axes *axes, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    TG_AUTO_PTR(tg_json) root = NULL;
    char frames[FRAME_PATH_MAX];

    TG_TRY(tg_path_join(frames, sizeof frames, group == NULL ? "" : group, "frames", err));
    TG_TRY(tg_node_open(store, frames, &node, cancel, err));
    const char *text = tg_node_attributes(node);
    TG_TRY(tg_json_parse(&root, text, strlen(text), (tg_json_options){.allow_nan = true}, err));
    const tg_json *list = tg_json_get(tg_json_get(root, "frame_table"), "frame_axes");
    *axes = (tg_frame_axes){0, ndim > 3 ? ndim - 2 : 1};
    if (list == NULL || read_axes(list, ndim, axes))
        return TG_OK;
    return tg_fail(err, TG_CORRUPT,
                   "'%s': frame_table.frame_axes of an image with %" PRIu32
                   " axes: want consecutive axes of it, fewer than all",
                   frames, ndim);
}

uint64_t tg_frame_axes_count(tg_frame_axes axes, const uint64_t *shape)
{
    uint64_t n = 1;

    if (axes.n == 0)
        return shape[0] > 0;
    for (uint32_t i = 0; i < axes.n; i++)
        if (__builtin_mul_overflow(n, shape[axes.first + i], &n))
            return UINT64_MAX;
    return n;
}
