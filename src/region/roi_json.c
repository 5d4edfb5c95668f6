/* Our own form: {"axes":["y","x"],"unit":"px","rois":[{"name":"a","box":[[0,64],[32,96]]}]}. */
#include "region/roi_build.h"
#include "region/roi_span.h"

#include <inttypes.h>
#include <string.h>

static tg_status read_head(tg_roi_list *l, const char *text, tg_error *err)
{
    TG_AUTO_PTR(tg_json) axes = NULL;
    TG_AUTO_PTR(tg_json) unit = NULL;
    const char *at = find_member(text, "axes"), *said = find_member(text, "unit");
    const char *name = "px";
    size_t len = 0;

    if (at == NULL || *at != '[')
        return tg_fail(err, TG_CORRUPT, "no list 'axes'");
    TG_TRY(tg_json_parse(&axes, at, (size_t)(skip_value(at) - at), (tg_json_options){0}, err));
    if (tg_json_size(axes) == 0 || tg_json_size(axes) > TG_ROI_MAX_AXES)
        return tg_fail(err, TG_CORRUPT, "%zu axes, want 1 to %d", tg_json_size(axes),
                       TG_ROI_MAX_AXES);
    for (l->n_axes = 0; l->n_axes < tg_json_size(axes); l->n_axes++) {
        TG_TRY(tg_json_string(tg_json_at(axes, l->n_axes), &name, &len, err));
        if (len == 0 || len >= sizeof l->axes[0] || strlen(name) != len)
            return tg_fail(err, TG_CORRUPT, "an axis '%.40s': want 1 to %zu bytes", name,
                           sizeof l->axes[0] - 1);
        for (uint32_t k = 0; k < l->n_axes; k++)
            if (strcmp(l->axes[k], name) == 0)
                return tg_fail(err, TG_CORRUPT, "axis '%s' is there twice", name);
        memcpy(l->axes[l->n_axes], name, len + 1);
    }
    name = "px";
    if (said != NULL) {
        TG_TRY(tg_json_parse(&unit, said, (size_t)(skip_value(said) - said),
                             (tg_json_options){0}, err));
        TG_TRY(tg_json_string(unit, &name, &len, err));
    }
    if (name[0] == '\0' || strlen(name) >= sizeof l->unit)
        return tg_fail(err, TG_CORRUPT, "a unit '%.40s'", name);
    l->in_pixels = strcmp(name, "px") == 0;
    l->exact = l->in_pixels;
    memcpy(l->unit, name, strlen(name) + 1);
    return TG_OK;
}

static tg_status read_box(const tg_json *box, uint32_t n, double *start, double *length,
                          tg_error *err)
{
    if (tg_json_kind_of(box) != TG_JSON_ARRAY || tg_json_size(box) != n)
        return tg_fail(err, TG_CORRUPT, "'box' of %zu pairs, want one an axis: %" PRIu32,
                       tg_json_size(box), n);
    for (uint32_t i = 0; i < n; i++) {
        const tg_json *pair = tg_json_at(box, i);
        double end = 0;
        if (tg_json_kind_of(pair) != TG_JSON_ARRAY || tg_json_size(pair) != 2)
            return tg_fail(err, TG_CORRUPT, "'box': want [start, end] of axis %" PRIu32, i);
        TG_TRY(tg_json_double(tg_json_at(pair, 0), &start[i], err));
        TG_TRY(tg_json_double(tg_json_at(pair, 1), &end, err));
        length[i] = end - start[i];
    }
    return TG_OK;
}

static tg_status add_item(tg_roi_builder *b, const span *s, tg_error *err)
{
    TG_AUTO_PTR(tg_json) item = NULL;
    double start[TG_ROI_MAX_AXES], length[TG_ROI_MAX_AXES];
    tg_roi_new r = {.start = start, .length = length};

    TG_TRY(tg_json_parse(&item, s->at, (size_t)(s->end - s->at), (tg_json_options){0}, err));
    TG_TRY(read_box(tg_json_get(item, "box"), b->set.list.n_axes, start, length, err));
    if (tg_json_get(item, "name") != NULL)
        TG_TRY(tg_json_string(tg_json_get(item, "name"), &r.name, &r.name_len, err));
    if (tg_json_get(item, "label") != NULL)
        TG_TRY(tg_json_u64(tg_json_get(item, "label"), &r.label, err));
    return tg_roi_add(b, &r, err);
}

static tg_status read_items(tg_roi_builder *b, const char *list, tg_error *err)
{
    const char *p = list;
    span s;

    for (uint64_t i = 0; next_item(&p, &s); i++) {
        const tg_status st = add_item(b, &s, err);
        if (st != TG_OK) {
            tg_error_prefix(err, "region %" PRIu64, i);
            return st;
        }
    }
    return TG_OK;
}

tg_status tg_roi_read_json(tg_roi_set *out, tg_bytes text, size_t limit, tg_error *err)
{
    TG_AUTO(tg_roi_builder) b = {0};
    const char *at = NULL;

    TG_TRY(check_walkable(text, &at, err));
    const char *list = *at == '{' ? find_member(at, "rois") : NULL;
    if (list == NULL || *list != '[')
        return tg_fail(err, TG_CORRUPT, "want {\"axes\":[...],\"unit\":...,\"rois\":[...]}");
    tg_roi_begin(&b, "json", "", NULL, limit);
    TG_TRY(read_head(&b.set.list, at, err));
    TG_TRY(read_items(&b, list, err));
    return tg_roi_finish(&b, out, err);
}
