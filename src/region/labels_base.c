/* One chunk of OUT after the other; items that regions write are cleared before it is looked
 * for the greatest. */
#include "region/labels_base.h"

#include "tidegate/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct look {
    const tg_engine_options *o;
    const uint8_t *failed;
    const tg_cancel *cancel;
    uint8_t *items;   /* of a chunk, 8 bytes each */
    uint8_t *planned; /* a bit for each unit of OUT's grid */
    uint64_t greatest;
} look;

static void clear_region(const look *l, uint32_t k, const tg_box *chunk)
{
    static const uint64_t zero;
    int64_t strides[TG_MAX_NDIM];
    uint8_t *at = l->items;
    tg_plan_region r;
    tg_box part;

    if (l->failed != NULL && (l->failed[k / 8] >> (k % 8) & 1) != 0)
        return;
    tg_plan_region_get(l->o->plan, k, &r);
    if (!tg_box_intersect(chunk, &r.write, &part))
        return;
    tg_strides_c(&chunk->shape, sizeof zero, strides);
    for (uint32_t d = 0; d < part.shape.ndim; d++)
        at += (int64_t)(part.start[d] - chunk->start[d]) * strides[d];
    tg_nd_fill(at, strides, &part.shape, sizeof zero, &zero);
}

/* The chunk at `inside` of the unit; regions: those that write the unit. */
static tg_status look_at(look *l, const uint64_t *index, const uint64_t *inside,
                         const uint32_t *regions, uint32_t n, tg_error *err)
{
    const tg_array_meta *m = l->o->out->meta;
    tg_box chunk = {.shape = m->chunk}, array = {.shape = {.ndim = m->info.ndim}}, part;
    uint64_t items = 1, saturated = 0;

    memcpy(array.shape.n, m->info.shape, m->info.ndim * sizeof *m->info.shape);
    for (uint32_t d = 0; d < m->info.ndim; d++)
        chunk.start[d] = (index[d] * m->grid.n[d] + inside[d]) * m->chunk.n[d];
    if (!tg_box_intersect(&chunk, &array, &part))
        return TG_OK;
    TG_TRY(tg_array_read(l->o->out, part.start, part.shape.n, l->items, NULL, l->cancel, err));
    for (uint32_t d = 0; d < m->info.ndim; d++)
        items *= part.shape.n[d];
    tg_cast_items(l->items, items, m->info.dtype, (tg_dtype){TG_DT_UINT, 8}, &saturated);
    for (uint32_t i = 0; i < n; i++)
        clear_region(l, regions[i], &part);
    for (uint64_t i = 0; i < items; i++) {
        uint64_t v;
        memcpy(&v, l->items + 8 * i, sizeof v);
        l->greatest = v > l->greatest ? v : l->greatest;
    }
    return tg_cancel_check(l->cancel, err);
}

static tg_status look_at_unit(look *l, const uint64_t *index, const uint32_t *regions,
                              uint32_t n, tg_error *err)
{
    const tg_array_meta *m = l->o->out->meta;
    tg_box inner = {.shape = m->grid};
    uint64_t inside[TG_MAX_NDIM] = {0};

    do {
        TG_TRY(look_at(l, index, inside, regions, n, err));
    } while (tg_box_next(&inner, inside));
    return TG_OK;
}

static void grid_of(const tg_array_meta *m, tg_box *units)
{
    tg_shape shape = {.ndim = m->info.ndim};

    *units = (tg_box){.shape = {.ndim = 0}};
    memcpy(shape.n, m->info.shape, m->info.ndim * sizeof *m->info.shape);
    tg_grid_shape(&shape, &m->shard, &units->shape);
}

static tg_status look_everywhere(look *l, const tg_box *units, tg_error *err)
{
    const tg_plan *p = l->o->plan;
    uint64_t index[TG_MAX_NDIM] = {0};
    tg_plan_unit unit;

    for (uint64_t u = 0; u < tg_plan_n_units(p); u++) {
        tg_plan_unit_get(p, u, &unit);
        const uint64_t at = tg_ravel(&units->shape, unit.index);
        l->planned[at / 8] |= (uint8_t)(1U << (at % 8));
        if (!unit.full || l->failed != NULL)
            TG_TRY(
                look_at_unit(l, unit.index, tg_plan_unit_regions(p, u), unit.n_writing, err));
    }
    do {
        const uint64_t at = tg_ravel(&units->shape, index);
        if ((l->planned[at / 8] >> (at % 8) & 1) == 0)
            TG_TRY(look_at_unit(l, index, NULL, 0, err));
    } while (tg_box_next(units, index));
    return TG_OK;
}

static tg_status find(const tg_engine_options *o, const uint8_t *failed, uint64_t *base,
                      const tg_cancel *cancel, tg_error *err)
{
    tg_budget *budget = tg_runtime_budget(o->rt);
    const tg_array_meta *m = o->out->meta;
    look l = {.o = o, .failed = failed, .cancel = cancel};
    uint64_t n_units, items;
    tg_box units;

    grid_of(m, &units);
    TG_TRY(tg_shape_items(&units.shape, &n_units, err));
    TG_TRY(tg_shape_items(&m->chunk, &items, err));
    if (n_units == 0)
        return TG_OK;
    const uint64_t bytes = n_units / 8 + 1 + items * 8 + tg_array_worst_bytes(o->out);
    TG_TRY(tg_budget_reserve(budget, bytes, "labels that are there before", err));
    l.items = tg_run_buffer_new((size_t)items * 8);
    l.planned = tg_calloc((size_t)n_units / 8 + 1, 1);
    tg_status st = l.items == NULL || l.planned == NULL
                       ? tg_fail(err, TG_NO_MEMORY, "labels that are there before")
                       : look_everywhere(&l, &units, err);
    tg_run_buffer_free(l.items, (size_t)items * 8);
    tg_free(l.planned);
    tg_budget_release(budget, bytes);
    *base = l.greatest;
    return st;
}

/* --- Kept ----------------------------------------------------------------------------------
 */

static tg_status read_kept(const tg_folder *f, uint64_t *base, bool *have, tg_error *err)
{
    char text[24];
    TG_AUTO(tg_fd) fd = tg_sys_open(f->dir, TG_LABELS_BASE_FILE, O_RDONLY | O_NONBLOCK, 0);

    *have = fd >= 0;
    if (fd < 0)
        return errno == ENOENT ? TG_OK : tg_folder_fail(f, "open", TG_LABELS_BASE_FILE, err);
    const ssize_t n = tg_sys_read(fd, text, sizeof text - 1);
    if (n < 0)
        return tg_folder_fail(f, "read", TG_LABELS_BASE_FILE, err);
    text[n] = '\0';
    return tg_parse_u64(text, base, err);
}

static tg_status write_kept(const tg_folder *f, uint64_t base, tg_error *err)
{
    static const char fresh[] = "new-labels-base";
    char text[24];
    const int n = snprintf(text, sizeof text, "%" PRIu64, base);
    TG_AUTO(tg_fd) fd = tg_sys_open(f->dir, fresh, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    if (fd < 0)
        return tg_folder_fail(f, "make", fresh, err);
    TG_TRY(tg_fd_write_at(fd, text, (size_t)n, 0, fresh, err));
    if (tg_sys_fdatasync(fd) != 0)
        return tg_folder_fail(f, "sync", fresh, err);
    TG_TRY(tg_fd_close(&fd, fresh, err));
    tg_crash_point();
    if (tg_sys_rename(f->dir, fresh, f->dir, TG_LABELS_BASE_FILE) != 0)
        return tg_folder_fail(f, "make", TG_LABELS_BASE_FILE, err);
    return tg_dir_sync(f->dir, f->path, err);
}

tg_status tg_labels_base(const tg_engine_options *o, const uint8_t *failed, uint64_t *base,
                         const tg_cancel *cancel, tg_error *err)
{
    bool have = false;

    *base = 0;
    if (tg_plan_get_facts(o->plan)->out_new)
        return TG_OK;
    TG_TRY(read_kept(o->folder, base, &have, err));
    if (have)
        return TG_OK;
    TG_TRY(find(o, failed, base, cancel, err));
    return write_kept(o->folder, *base, err);
}
