/* Boxes of the objects of a label image, found chunk by chunk. Memory: one chunk, and a table
 * of the labels seen. */
#include "base/json.h"
#include "region/roi_build.h"
#include "zarr/zarr.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024 };

/* The table's slots are runs of 1 + 2 ndim numbers: the label (0: free), then of each axis the
 * first and the last item that has it. */
typedef struct walk {
    tg_array *a;
    tg_array_info info;
    uint64_t *slots;
    uint64_t n, n_slots; /* a power of two */
    size_t stride;       /* numbers in a slot */
    size_t limit;        /* bytes of the slots */
} walk;

static void walk_auto(walk *w)
{
    tg_free(w->slots);
}

static uint64_t hash(uint64_t v)
{
    v *= UINT64_C(0x9e3779b97f4a7c15);
    return v ^ v >> 29;
}

static uint64_t *slot_of(uint64_t *slots, uint64_t n_slots, size_t stride, uint64_t label)
{
    uint64_t i = hash(label) & (n_slots - 1);

    while (slots[i * stride] != 0 && slots[i * stride] != label)
        i = (i + 1) & (n_slots - 1);
    return slots + i * stride;
}

static tg_status grow(walk *w, tg_error *err)
{
    const uint64_t n = w->n_slots == 0 ? 256 : 2 * w->n_slots;
    const size_t slot = w->stride * sizeof *w->slots;

    if (n > w->limit / slot / 2) /* old and new are there at once, and the list after them */
        return tg_fail(err, TG_OVER_BUDGET,
                       "boxes of more than %" PRIu64 " labels, and no more than %zu bytes may "
                       "be used",
                       w->n, w->limit);
    uint64_t *more = tg_calloc((size_t)n, slot);
    if (more == NULL)
        return tg_fail(err, TG_NO_MEMORY, "%" PRIu64 " labels", w->n);
    for (uint64_t i = 0; i < w->n_slots; i++) {
        const uint64_t *old = w->slots + i * w->stride;
        if (old[0] != 0)
            memcpy(slot_of(more, n, w->stride, old[0]), old, slot);
    }
    tg_free(w->slots);
    w->slots = more;
    w->n_slots = n;
    return TG_OK;
}

/* Items [x0, x1) of the last axis at `at` hold the label. */
static tg_status note_run(walk *w, uint64_t label, const uint64_t *at, uint64_t x0, uint64_t x1,
                          tg_error *err)
{
    const uint32_t last = w->info.ndim - 1;

    if (w->n >= w->n_slots / 4 * 3)
        TG_TRY(grow(w, err));
    uint64_t *f = slot_of(w->slots, w->n_slots, w->stride, label);
    const bool is_new = f[0] == 0;
    w->n += is_new;
    f[0] = label;
    for (uint32_t i = 0; i < w->info.ndim; i++) {
        const uint64_t low = i == last ? x0 : at[i], high = i == last ? x1 - 1 : at[i];
        f[1 + 2 * i] = is_new || low < f[1 + 2 * i] ? low : f[1 + 2 * i];
        f[2 + 2 * i] = is_new || high > f[2 + 2 * i] ? high : f[2 + 2 * i];
    }
    return TG_OK;
}

static tg_status load(const walk *w, const uint8_t *p, uint64_t *out, tg_error *err)
{
    const tg_dtype t = w->info.dtype;
    uint8_t b8;
    uint16_t b16;
    uint32_t b32;

    switch (t.size) {
    case 1:
        memcpy(&b8, p, 1);
        *out = b8;
        break;
    case 2:
        memcpy(&b16, p, 2);
        *out = b16;
        break;
    case 4:
        memcpy(&b32, p, 4);
        *out = b32;
        break;
    default:
        memcpy(out, p, 8);
        break;
    }
    if (t.kind == TG_DT_INT && (*out >> (8 * t.size - 1) & 1) != 0)
        return tg_fail(err, TG_CORRUPT, "a label below 0");
    return TG_OK;
}

static tg_status note_row(walk *w, const uint8_t *row, uint64_t n, const uint64_t *at,
                          tg_error *err)
{
    const uint32_t size = w->info.dtype.size;
    const uint64_t x = at[w->info.ndim - 1];

    for (uint64_t i = 0; i < n;) {
        uint64_t k = i + 1, label = 0;
        while (k < n && memcmp(row + k * size, row + i * size, size) == 0)
            k++;
        TG_TRY(load(w, row + i * size, &label, err));
        if (label != 0)
            TG_TRY(note_run(w, label, at, x + i, x + k, err));
        i = k;
    }
    return TG_OK;
}

static tg_status note_chunk(walk *w, const tg_box *box, const uint8_t *items, tg_error *err)
{
    const uint32_t last = w->info.ndim - 1;
    const uint64_t width = box->shape.n[last];
    tg_box rows = *box;
    uint64_t at[TG_MAX_NDIM];
    const uint8_t *row = items;

    rows.shape.n[last] = 1;
    memcpy(at, box->start, sizeof at);
    do {
        TG_TRY(note_row(w, row, width, at, err));
        row += width * w->info.dtype.size;
    } while (tg_box_next(&rows, at));
    return TG_OK;
}

static tg_status walk_chunks(walk *w, uint8_t *items, const tg_cancel *cancel, tg_error *err)
{
    tg_box all = {.shape = {.ndim = w->info.ndim}}, chunks;
    tg_shape chunk = {.ndim = w->info.ndim};
    uint64_t index[TG_MAX_NDIM];

    memcpy(all.shape.n, w->info.shape, sizeof all.shape.n);
    memcpy(chunk.n, w->info.chunk, sizeof chunk.n);
    tg_grid_cover(&all, &chunk, &chunks);
    for (uint32_t i = 0; i < w->info.ndim; i++)
        if (w->info.shape[i] == 0)
            return TG_OK;
    memcpy(index, chunks.start, sizeof index);
    do {
        tg_box box, part;
        if (!tg_grid_chunk_box(index, &chunk, &box) || !tg_box_intersect(&box, &all, &part))
            continue;
        TG_TRY(tg_array_read(w->a, part.start, part.shape.n, items, NULL, cancel, err));
        TG_TRY(note_chunk(w, &part, items, err));
    } while (tg_box_next(&chunks, index));
    return TG_OK;
}

static int by_label(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static tg_status to_set(walk *w, const char *axes, size_t limit, tg_roi_set *out, tg_error *err)
{
    TG_AUTO(tg_roi_builder) b = {0};
    double start[TG_ROI_MAX_AXES], length[TG_ROI_MAX_AXES];
    const size_t slot = w->stride * sizeof *w->slots;
    uint64_t n = 0;

    for (uint64_t i = 0; i < w->n_slots; i++)
        if (w->slots[i * w->stride] != 0)
            memmove(w->slots + n++ * w->stride, w->slots + i * w->stride, slot);
    if (n > 0)
        qsort(w->slots, (size_t)n, slot, by_label);
    tg_roi_begin(&b, "labels", axes, NULL, limit);
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t *f = w->slots + k * w->stride;
        for (uint32_t i = 0; i < w->info.ndim; i++) {
            start[i] = (double)f[1 + 2 * i];
            length[i] = (double)(f[2 + 2 * i] - f[1 + 2 * i] + 1);
        }
        TG_TRY(tg_roi_add(&b, &(tg_roi_new){start, length, NULL, 0, f[0]}, err));
    }
    return tg_roi_finish(&b, out, err);
}

/* --- Which array
 * ------------------------------------------------------------------------------- */

static tg_status copy_path(char *dst, size_t cap, const char *path, tg_error *err)
{
    if (strlen(path) >= cap)
        return tg_fail(err, TG_INVALID, "path '%.80s...': longer than %zu bytes", path, cap);
    memcpy(dst, path, strlen(path) + 1);
    return TG_OK;
}

/* The first level of a label image's group, or the path itself. */
static tg_status first_level(tg_store *store, const char *path, char *dst, size_t cap,
                             char axes[TG_ROI_MAX_AXES + 1], const tg_cancel *cancel,
                             tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;
    TG_AUTO_PTR(tg_json) attributes = NULL;
    const char *level = NULL, *name = NULL;

    TG_TRY(tg_node_open(store, path, &node, cancel, err));
    axes[0] = '\0';
    if (tg_node_kind_of(node) == TG_NODE_ARRAY)
        return copy_path(dst, cap, path, err);
    const char *text = tg_node_attributes(node);
    TG_TRY(tg_json_parse(&attributes, text, strlen(text), (tg_json_options){.allow_nan = true},
                         err));
    const tg_json *ome = tg_json_get(attributes, "ome");
    const tg_json *image =
        tg_json_at(tg_json_get(ome != NULL ? ome : attributes, "multiscales"), 0);
    const tg_json *list = tg_json_get(image, "axes");
    const tg_json *dataset = tg_json_at(tg_json_get(image, "datasets"), 0);
    if (tg_json_kind_of(tg_json_get(dataset, "path")) != TG_JSON_STRING)
        return tg_fail(err, TG_INVALID, "'%.200s' is a group and no image", path);
    for (size_t i = 0; i < tg_json_size(list) && i < TG_ROI_MAX_AXES; i++) {
        TG_TRY(tg_json_string(tg_json_get(tg_json_at(list, i), "name"), &name, NULL, err));
        axes[i] = name[0];
        axes[i + 1] = '\0';
    }
    TG_TRY(tg_json_string(tg_json_get(dataset, "path"), &level, NULL, err));
    return tg_path_join(dst, cap, path, level, err);
}

/* By the image's axes, the array's names, or the usual ones of so many. */
static tg_status name_axes(const walk *w, char axes[TG_ROI_MAX_AXES + 1], tg_error *err)
{
    static const char usual[] = "tczyx";
    const uint32_t n = w->info.ndim;

    if (strlen(axes) == n)
        return TG_OK;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = w->info.dimension_name[i];
        axes[i] = name != NULL && strlen(name) == 1 ? name[0]
                  : n <= 3                          ? usual[5 - n + i]
                                                    : '\0';
        if (axes[i] == '\0')
            return tg_fail(err, TG_UNSUPPORTED,
                           "axis %" PRIu32 " of the label image has no name of one letter", i);
    }
    axes[n] = '\0';
    return TG_OK;
}

static tg_status check_labels(const walk *w, const char *path, tg_error *err)
{
    const tg_dtype t = w->info.dtype;
    char room[16];

    if (t.kind != TG_DT_UINT && t.kind != TG_DT_INT && t.kind != TG_DT_BOOL)
        return tg_fail(err, TG_INVALID, "'%.200s': labels of %s, want whole numbers", path,
                       tg_dtype_name(t, room));
    if (w->info.ndim == 0 || w->info.ndim > TG_ROI_MAX_AXES)
        return tg_fail(err, TG_UNSUPPORTED, "'%.200s': %" PRIu32 " dimensions, want 1 to %d",
                       path, w->info.ndim, TG_ROI_MAX_AXES);
    return TG_OK;
}

/* Bytes of a decoded chunk and what reading it takes; TG_OVER_BUDGET. */
static tg_status chunk_bytes(const walk *w, size_t limit, size_t *bytes, tg_error *err)
{
    tg_shape chunk = {.ndim = w->info.ndim};
    const size_t worst = tg_array_worst_bytes(w->a);

    for (uint32_t i = 0; i < w->info.ndim; i++)
        chunk.n[i] = w->info.chunk[i] < w->info.shape[i] ? w->info.chunk[i] : w->info.shape[i];
    TG_TRY(tg_shape_bytes(&chunk, w->info.dtype.size, bytes, err));
    if (worst > limit || *bytes > limit - worst)
        return tg_fail(err, TG_OVER_BUDGET,
                       "a chunk of labels takes %zu bytes to read, and no more than %zu may be "
                       "used",
                       worst > SIZE_MAX - *bytes ? SIZE_MAX : worst + *bytes, limit);
    return TG_OK;
}

tg_status tg_roi_read_labels(tg_roi_set *out, tg_store *store, const char *path, size_t limit,
                             const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    TG_AUTO(walk) w = {.info = {.size = sizeof w.info}};
    TG_AUTO(tg_buf) items = {0};
    char array[PATH_BYTES], axes[TG_ROI_MAX_AXES + 1] = "";
    size_t bytes = 0;

    TG_TRY(first_level(store, path, array, sizeof array, axes, cancel, err));
    TG_TRY(tg_array_open(store, array, &a, cancel, err));
    w.a = a;
    TG_TRY(tg_array_get_info(a, &w.info, err));
    TG_TRY(check_labels(&w, array, err));
    TG_TRY(name_axes(&w, axes, err));
    TG_TRY(chunk_bytes(&w, limit, &bytes, err));
    w.limit = limit - bytes - tg_array_worst_bytes(a);
    w.stride = 1 + 2 * (size_t)w.info.ndim;
    TG_TRY(tg_buf_resize(&items, bytes == 0 ? 1 : bytes, err));
    TG_TRY(walk_chunks(&w, items.data, cancel, err));
    tg_buf_free(&items);
    TG_TRY(to_set(&w, axes, limit - (size_t)w.n_slots * w.stride * sizeof *w.slots, out, err));
    out->labels = tg_strdup(array);
    if (out->labels != NULL)
        return TG_OK;
    tg_roi_set_destroy(out);
    return tg_fail(err, TG_NO_MEMORY, "labels");
}
