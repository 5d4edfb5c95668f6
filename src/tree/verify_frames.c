/* verify: the frames of an array GROUP/0 against the frame table GROUP/frames
 * (docs/formats/frame-table.md): no more frames than rows, and each frame's pixels
 * against its CRC-32C. */
#include "tree/verify_frames.h"

#include "tidegate/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- The table ---------------------------------------------------------------- */

/* "GROUP/0" -> "GROUP/frames/NAME"; false: not a level 0. */
static bool column_path(const tg_array *image, const char *name, char *dst, size_t cap)
{
    const char *slash = strrchr(image->path, '/');
    const char *leaf = slash == NULL ? image->path : slash + 1;

    if (strcmp(leaf, "0") != 0)
        return false;
    int n = snprintf(dst, cap, "%.*sframes/%s", (int)(leaf - image->path), image->path, name);
    return n > 0 && (size_t)n < cap;
}

/* A 1-D column of this type; *out NULL if there is none. */
static tg_status open_column(verify_job *j, const tg_array *image, const char *name,
                             tg_dtype want, tg_array **out, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    char path[TG_PATH_BYTES];

    if (!column_path(image, name, path, sizeof path))
        return TG_OK;
    tg_status st = tg_array_open(j->store, path, &a, j->cancel, err);
    if (st == TG_NOT_FOUND ||
        verify_is_finding(st)) /* the walk comes to it, and tells what is wrong */
        return TG_OK;
    if (st != TG_OK)
        return st;
    const tg_array_info *info = &a->meta->info;
    if (info->ndim == 1 && info->dtype.kind == want.kind && info->dtype.size == want.size)
        *out = tg_steal(a);
    return TG_OK;
}

/* Along the first dimension `extent` places are taken, so at least that many frames came,
 * whatever the order in which the outer dimensions arrived. */
static void check_length(verify_job *j, const verify_frames *f)
{
    verify_layout l[VERIFY_LAYOUTS];
    uint32_t n = verify_layouts(f->image, l);
    const tg_array_info *info = &f->image->meta->info;
    tg_error why = {0};
    bool fits = n == 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t extent = info->shape[l[i].axis];
        fits |= extent <= f->rows;
    }
    if (fits)
        return;
    (void)tg_fail(&why, TG_CORRUPT,
                  "array '%.200s' says more frames than the frame table, "
                  "which has %" PRIu64 " rows",
                  f->image->path, f->rows);
    verify_bad(j, f->image->path, "shape", &why);
}

tg_status verify_frames_open(verify_job *j, tg_array *image, verify_frames *f, tg_error *err)
{
    f->image = image;
    if (image->meta->info.ndim == 0 || image->meta->info.dtype.kind == TG_DT_STRING)
        return TG_OK;
    TG_TRY(open_column(j, image, "index", (tg_dtype){TG_DT_INT, 8}, &f->index, err));
    if (f->index == NULL)
        return TG_OK;
    TG_TRY(open_column(j, image, "crc32c", (tg_dtype){TG_DT_UINT, 4}, &f->crc, err));
    f->rows = f->index->meta->info.shape[0];
    if (f->crc != NULL && f->crc->meta->info.shape[0] < f->rows)
        f->rows = f->crc->meta->info.shape[0];
    check_length(j, f);
    return TG_OK;
}

void verify_frames_close(verify_frames *f)
{
    tg_array_free(f->index);
    tg_array_free(f->crc);
}

/* --- Where the frames lie -------------------------------------------------------- */

static bool layout_of(const tg_array_info *info, bool axis_last, uint32_t frame_dims,
                      verify_layout *l)
{
    tg_shape frame = {.ndim = frame_dims}, outer = {.ndim = info->ndim - frame_dims};

    *l = (verify_layout){.axis = axis_last ? info->ndim - 1 : 0,
                         .first = axis_last ? 0 : info->ndim - frame_dims,
                         .frame_dims = frame_dims};
    for (uint32_t i = 0; i < info->ndim; i++) {
        bool inside = i >= l->first && i < l->first + frame_dims;
        if (inside)
            frame.n[i - l->first] = info->shape[i];
        else
            outer.n[axis_last ? i - frame_dims : i] = info->shape[i];
    }
    return tg_shape_items(&outer, &l->n_frames, NULL) == TG_OK &&
           tg_shape_bytes(&frame, info->dtype.size, &l->frame_bytes, NULL) == TG_OK &&
           l->frame_bytes > 0;
}

static bool is_named(const tg_array_info *info, uint32_t i, const char *name)
{
    return info->dimension_name[i] != NULL && strcmp(info->dimension_name[i], name) == 0;
}

uint32_t verify_layouts(const tg_array *image, verify_layout l[VERIFY_LAYOUTS])
{
    const tg_array_info *info = &image->meta->info;
    const uint32_t ndim = info->ndim;
    uint32_t n = 0;

    if (ndim >= 2 && is_named(info, ndim - 1, "x")) /* the names say it */
        return layout_of(info, false, is_named(info, ndim - 2, "y") ? 2 : 1, l);
    if (ndim == 3 && is_named(info, 0, "y"))
        return layout_of(info, true, 2, l);
    if (ndim >= 3) /* format 2 has no names: the first frames will tell */
        n += layout_of(info, false, 2, &l[n]);
    if (ndim == 3)
        n += layout_of(info, true, 2, &l[n]);
    if (ndim >= 2)
        n += layout_of(info, false, 1, &l[n]);
    return n;
}

/* --- Reading frames ---------------------------------------------------------------- */

tg_status verify_read_frames(tg_array *image, const verify_layout *l, uint64_t first,
                             uint64_t n, uint8_t *dst, const tg_cancel *cancel, tg_error *err)
{
    const tg_array_info *info = &image->meta->info;
    const size_t item = info->dtype.size;
    uint64_t start[TG_MAX_NDIM] = {0}, count[TG_MAX_NDIM];
    int64_t strides[TG_MAX_NDIM];
    tg_shape outer = {.ndim = info->ndim - l->frame_dims}, frame = {.ndim = l->frame_dims};

    for (uint32_t i = 0; i < outer.ndim; i++)
        outer.n[i] = info->shape[l->first == 0 ? i + l->frame_dims : i];
    for (uint32_t i = 0; i < frame.ndim; i++)
        frame.n[i] = info->shape[l->first + i];
    tg_unravel(&outer, first, start + (l->first == 0 ? l->frame_dims : 0));
    for (uint32_t i = 0; i < info->ndim; i++) {
        count[i] = 1;
        strides[i] = 0;
    }
    for (uint32_t i = 0; i < frame.ndim; i++) {
        start[l->first + i] = 0;
        count[l->first + i] = frame.n[i];
    }
    tg_strides_c(&frame, item, strides + l->first);
    if (outer.ndim > 0) { /* the fastest of the outer dimensions */
        uint32_t along = l->first == 0 ? info->ndim - 1 : l->first - 1;
        count[along] = n;
        strides[along] = (int64_t)l->frame_bytes;
    }
    return tg_array_read(image, start, count, dst, strides, cancel, err);
}

uint32_t verify_frame_crc(tg_dtype t, uint8_t *frame, size_t bytes)
{
    const uint16_t one = 1;
    const uint32_t unit = t.kind == TG_DT_COMPLEX ? t.size / 2 : t.size;
    uint8_t low = 0;

    memcpy(&low, &one, 1);
    if (low == 0 && unit > 1 && t.kind != TG_DT_RAW) /* the sum is of little-endian items */
        tg_nd_swap(frame, frame, bytes / unit, unit);
    return tg_crc32c(0, frame, bytes);
}
