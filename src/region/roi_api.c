/* tidegate/rois.h: a list that is held for a program, its memory the runtime's. */
#include "exec/exec.h"
#include "region/roi_write.h"
#include "tidegate/rois.h"
#include "zarr/zarr.h"

#include <inttypes.h>
#include <string.h>

struct tg_rois {
    tg_budget *budget;
    uint64_t reserved;
    tg_store *store; /* borrowed */
    bool has_level;
    int format; /* of the image's nodes */
    tg_ome_level level;
    tg_roi_set set;
    tg_roi_rounding rounding;
};

void tg_rois_free(tg_rois *r)
{
    if (r == NULL)
        return;
    tg_roi_set_destroy(&r->set);
    if (r->budget != NULL)
        tg_budget_release(r->budget, r->reserved);
    tg_free(r);
}
TG_DEFINE_AUTO_PTR(tg_rois, tg_rois_free)

static tg_status read_level(tg_rois *r, const tg_rois_options *o, const tg_cancel *cancel,
                            tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;

    if (o->store == NULL)
        return TG_OK;
    const char *path = o->image == NULL ? "" : o->image;
    TG_TRY(tg_ome_level_read(&r->level, o->store, path, cancel, err));
    TG_TRY(tg_node_open(o->store, path, &node, cancel, err));
    r->format = tg_node_format(node);
    r->has_level = true;
    return TG_OK;
}

static void level_axes(const tg_ome_level *level, const char **axes, tg_shape *shape)
{
    shape->ndim = level->ndim;
    memcpy(shape->n, level->shape, sizeof shape->n);
    for (uint32_t i = 0; i < level->ndim; i++)
        axes[i] = level->axis[i][0] == '\0' ? NULL : level->axis[i];
}

/* Half of what is free for the list; as much again for its boxes in pixels. */
static tg_status read_set(tg_rois *r, const tg_rois_options *o, const tg_cancel *cancel,
                          tg_error *err)
{
    const char *axes[TG_MAX_NDIM];
    tg_shape shape;
    tg_roi_source source = {.store = o->store, .limit = (size_t)(r->reserved / 2)};

    if (r->has_level) {
        level_axes(&r->level, axes, &shape);
        source.image = r->level.image;
        source.array = &shape;
        source.axes = axes;
    }
    return tg_roi_read(&r->set, o->rois, &source, cancel, err);
}

static tg_status round_all(tg_rois *r, const tg_rois_options *o, tg_error *err)
{
    tg_px_rule rule = TG_PX_NGIO;

    if (o->px_rule != NULL)
        TG_TRY(tg_px_rule_parse(o->px_rule, &rule, err));
    if (!r->has_level) {
        if (o->to_pixels && !r->set.list.in_pixels)
            return tg_fail(err, TG_INVALID, "lengths become pixels of which image?");
        return TG_OK;
    }
    if (!r->set.list.in_pixels && !r->level.in_image)
        return tg_fail(
            err, TG_INVALID,
            "the regions are in %s, and '%.200s' is no array of an image that says how "
            "large a pixel is",
            r->set.list.unit, r->level.array);
    if (o->to_pixels)
        return tg_roi_to_pixels(&r->set, &r->level, rule, &r->rounding,
                                (size_t)(r->reserved / 2), err);
    return tg_roi_look(&r->set.list, &r->level, rule, &r->rounding, err);
}

tg_status tg_rois_open(tg_runtime *rt, const tg_rois_options *o, tg_rois **out,
                       const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_rois) r = tg_calloc(1, sizeof *r);

    if (r == NULL)
        return tg_fail(err, TG_NO_MEMORY, "regions");
    r->rounding.first_not_snapped = UINT64_MAX;
    tg_budget *budget = tg_runtime_budget(rt);
    const uint64_t bytes = tg_budget_total(budget) - tg_budget_used(budget);
    TG_TRY(tg_budget_reserve(budget, bytes, "a list of regions", err));
    r->budget = budget;
    r->reserved = bytes;
    r->store = o->store;
    TG_TRY(read_level(r, o, cancel, err));
    TG_TRY(read_set(r, o, cancel, err));
    TG_TRY(round_all(r, o, err));
    *out = tg_steal(r);
    return TG_OK;
}

tg_status tg_rois_get_info(const tg_rois *r, tg_rois_info *info, tg_error *err)
{
    const tg_roi_list *l = &r->set.list;
    tg_rois_info all = {.size = info->size};

    if (info->size < sizeof all)
        return tg_fail(err, TG_INVALID, "tg_rois_info: size %zu, want %zu", info->size,
                       sizeof all);
    all.n = l->n;
    all.n_axes = l->n_axes;
    for (uint32_t i = 0; i < l->n_axes; i++)
        all.axis[i] = l->axes[i];
    all.unit = l->unit;
    all.format = r->set.format;
    all.labels = r->set.labels;
    all.array = r->has_level ? r->level.array : NULL;
    all.ndim = r->level.ndim;
    all.not_snapped = r->rounding.not_snapped;
    all.first_not_snapped = r->rounding.first_not_snapped;
    all.clamped = r->rounding.clamped;
    all.empty = r->rounding.empty;
    *info = all;
    return TG_OK;
}

tg_status tg_rois_get(const tg_rois *r, uint64_t i, tg_rois_region *region, tg_error *err)
{
    const tg_roi_list *l = &r->set.list;
    tg_rois_region one = {.size = region->size};

    if (region->size < sizeof one)
        return tg_fail(err, TG_INVALID, "tg_rois_region: size %zu, want %zu", region->size,
                       sizeof one);
    if (i >= l->n)
        return tg_fail(err, TG_INVALID, "region %" PRIu64 " of %" PRIu64, i, l->n);
    if (l->name != NULL && l->name[i + 1] > l->name[i]) {
        one.name = l->names + l->name[i];
        one.name_len = (size_t)(l->name[i + 1] - l->name[i]);
    }
    one.label = l->label == NULL ? 0 : l->label[i];
    for (uint32_t k = 0; k < l->n_axes; k++) {
        one.start[k] = l->start[i * l->n_axes + k];
        one.end[k] = one.start[k] + l->length[i * l->n_axes + k];
    }
    *region = one;
    return TG_OK;
}

tg_status tg_rois_write(const tg_rois *r, const tg_rois_write_options *o,
                        const tg_cancel *cancel, tg_error *err)
{
    const tg_roi_table_options table = {.backend = o->backend,
                                        .format = r->format,
                                        .overwrite = o->overwrite,
                                        .level = r->has_level ? &r->level : NULL};

    if (strncmp(o->to, "table:", 6) != 0)
        return tg_roi_write_file(&r->set, o->to, o->overwrite, cancel, err);
    if (r->store == NULL)
        return tg_fail(err, TG_INVALID, "'%.60s': below which image?", o->to);
    return tg_roi_write_table(&r->set, r->store, r->level.image, o->to + 6, &table, cancel,
                              err);
}
