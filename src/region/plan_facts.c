/* region/plan_facts.c - what holds for a plan as a whole, as JSON and back, and its
 * fingerprint. Knows no sections. */
#include "base/crc32c.h"
#include "region/plan_state.h"

#include <inttypes.h>
#include <string.h>

/* --- Out ------------------------------------------------------------------ */

static const char *text_of(const char *s)
{
    return s == NULL ? "" : s;
}

static tg_status set_text(tg_json *o, const char *key, const char *s, tg_error *err)
{
    return tg_json_set(o, key, tg_json_new_string(text_of(s)), err);
}

static tg_status set_u64(tg_json *o, const char *key, uint64_t v, tg_error *err)
{
    return tg_json_set(o, key, tg_json_new_u64(v), err);
}

static tg_status set_bool(tg_json *o, const char *key, bool v, tg_error *err)
{
    return tg_json_set(o, key, tg_json_new_bool(v), err);
}

static tg_status set_extents(tg_json *o, const char *key, const uint64_t *v, uint32_t n,
                             tg_error *err)
{
    TG_AUTO_PTR(tg_json) list = tg_json_new_array();
    if (list == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plan's header");
    for (uint32_t i = 0; i < n; i++)
        TG_TRY(tg_json_append(list, tg_json_new_u64(v[i]), err));
    return tg_json_set(o, key, tg_steal(list), err);
}

static tg_status set_array(tg_json *o, const char *key, const tg_plan_array *a, tg_error *err)
{
    char room[16];
    TG_AUTO_PTR(tg_json) v = tg_json_new_object();
    if (v == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plan's header");
    TG_TRY(set_text(v, "url", a->url, err));
    TG_TRY(set_text(v, "path", a->path, err));
    TG_TRY(set_text(v, "dtype", tg_dtype_name(a->dtype, room), err));
    TG_TRY(set_extents(v, "shape", a->shape.n, a->shape.ndim, err));
    TG_TRY(set_extents(v, "chunk", a->chunk.n, a->chunk.ndim, err));
    TG_TRY(set_extents(v, "shard", a->shard.n, a->shard.ndim, err));
    TG_TRY(set_u64(v, "metadata_crc", a->metadata_crc, err));
    return tg_json_set(o, key, tg_steal(v), err);
}

static tg_status set_axes(tg_json *o, const tg_plan_facts *f, tg_error *err)
{
    TG_AUTO_PTR(tg_json) axes = tg_json_new_array();
    TG_AUTO_PTR(tg_json) scale = tg_json_new_array();
    if (axes == NULL || scale == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plan's header");
    for (uint32_t i = 0; i < f->in.shape.ndim; i++) {
        TG_TRY(tg_json_append(
            axes, f->axes[i] == NULL ? tg_json_new_null() : tg_json_new_string(f->axes[i]),
            err));
        TG_TRY(
            tg_json_append(scale, tg_json_new_double(f->scale[i] == 0 ? 1 : f->scale[i]), err));
    }
    TG_TRY(tg_json_set(o, "axes", tg_steal(axes), err));
    return tg_json_set(o, "scale", tg_steal(scale), err);
}

static tg_status set_rounding(tg_json *o, const tg_roi_rounding *r, tg_error *err)
{
    TG_AUTO_PTR(tg_json) v = tg_json_new_object();
    if (v == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plan's header");
    TG_TRY(set_u64(v, "not_snapped", r->not_snapped, err));
    TG_TRY(set_u64(v, "first_not_snapped", r->first_not_snapped, err));
    TG_TRY(set_u64(v, "clamped", r->clamped, err));
    TG_TRY(set_u64(v, "empty", r->empty, err));
    return tg_json_set(o, "rounding", tg_steal(v), err);
}

tg_status tg_plan_facts_json(const tg_plan *p, tg_json **out, tg_error *err)
{
    const tg_plan_facts *f = &p->facts;
    char kind[2] = {f->kind, '\0'};
    TG_AUTO_PTR(tg_json) o = tg_json_new_object();
    if (o == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plan's header");
    TG_TRY(set_array(o, "in", &f->in, err));
    if (f->out.shape.ndim != 0)
        TG_TRY(set_array(o, "out", &f->out, err));
    TG_TRY(set_bool(o, "out_new", f->out_new, err));
    TG_TRY(set_bool(o, "in_place", f->in_place, err));
    TG_TRY(set_bool(o, "keep_undo", f->keep_undo, err));
    TG_TRY(set_text(o, "kind", kind, err));
    TG_TRY(set_text(o, "text", f->text, err));
    TG_TRY(set_text(o, "rois", f->rois, err));
    TG_TRY(set_text(o, "policy", tg_policy_name(f->policy), err));
    if (f->mask.shape.ndim != 0)
        TG_TRY(set_array(o, "mask", &f->mask, err));
    TG_TRY(set_bool(o, "mask_apart", f->mask_apart, err));
    TG_TRY(set_text(o, "base", f->base == TG_BASE_INPUT ? "input" : "out", err));
    TG_TRY(set_text(o, "read", f->read == TG_READ_SEQUENTIAL ? "sequential" : "snapshot", err));
    TG_TRY(set_text(o, "pad", f->pad, err));
    TG_TRY(set_extents(o, "halo", f->halo, f->in.shape.ndim, err));
    TG_TRY(set_extents(o, "out_step", f->out_step, f->in.shape.ndim, err));
    TG_TRY(set_u64(o, "commit_ms", f->commit_ms, err));
    TG_TRY(set_u64(o, "parts", f->parts, err));
    TG_TRY(set_axes(o, f, err));
    TG_TRY(set_text(o, "options", f->options, err));
    TG_TRY(set_rounding(o, &f->rounding, err));
    *out = tg_steal(o);
    return TG_OK;
}

/* --- In ------------------------------------------------------------------- */

static tg_status member(const tg_json *o, const char *key, const tg_json **out, tg_error *err)
{
    *out = tg_json_get(o, key);
    return *out != NULL ? TG_OK : tg_fail(err, TG_CORRUPT, "the header lacks '%s'", key);
}

static tg_status named(tg_status st, const char *key, tg_error *err)
{
    if (st == TG_OK || st == TG_NO_MEMORY)
        return st;
    tg_error_prefix(err, "the header's '%s'", key);
    return TG_CORRUPT;
}

static tg_status get_u64(const tg_json *o, const char *key, uint64_t *out, tg_error *err)
{
    const tg_json *v;
    TG_TRY(member(o, key, &v, err));
    return named(tg_json_u64(v, out, err), key, err);
}

static tg_status get_u32(const tg_json *o, const char *key, uint32_t *out, tg_error *err)
{
    uint64_t v;
    TG_TRY(get_u64(o, key, &v, err));
    if (v > UINT32_MAX)
        return tg_fail(err, TG_CORRUPT, "the header's '%s': %" PRIu64, key, v);
    *out = (uint32_t)v;
    return TG_OK;
}

static tg_status get_bool(const tg_json *o, const char *key, bool *out, tg_error *err)
{
    const tg_json *v;
    TG_TRY(member(o, key, &v, err));
    return named(tg_json_bool(v, out, err), key, err);
}

static tg_status get_text(const tg_json *o, const char *key, const char **out, tg_error *err)
{
    const tg_json *v;
    size_t len;
    TG_TRY(member(o, key, &v, err));
    TG_TRY(named(tg_json_string(v, out, &len, err), key, err));
    if (strlen(*out) != len)
        return tg_fail(err, TG_CORRUPT, "the header's '%s' holds a NUL", key);
    return TG_OK;
}

static tg_status get_list(const tg_json *o, const char *key, uint32_t ndim, const tg_json **out,
                          tg_error *err)
{
    TG_TRY(member(o, key, out, err));
    if (tg_json_kind_of(*out) != TG_JSON_ARRAY || tg_json_size(*out) != ndim)
        return tg_fail(err, TG_CORRUPT, "the header's '%s': want a list of %u", key, ndim);
    return TG_OK;
}

static tg_status get_extents(const tg_json *o, const char *key, uint32_t ndim, uint64_t *v,
                             tg_error *err)
{
    const tg_json *list;
    TG_TRY(get_list(o, key, ndim, &list, err));
    for (uint32_t i = 0; i < ndim; i++)
        TG_TRY(named(tg_json_u64(tg_json_at(list, i), &v[i], err), key, err));
    return TG_OK;
}

static tg_status get_array(const tg_json *o, const char *key, tg_plan_array *a, tg_error *err)
{
    const tg_json *v, *shape;
    const char *dtype;
    TG_TRY(member(o, key, &v, err));
    TG_TRY(get_text(v, "url", &a->url, err));
    TG_TRY(get_text(v, "path", &a->path, err));
    TG_TRY(get_text(v, "dtype", &dtype, err));
    TG_TRY(named(tg_dtype_parse(dtype, &a->dtype, err), "dtype", err));
    TG_TRY(member(v, "shape", &shape, err));
    size_t n = tg_json_size(shape);
    if (n == 0 || n > TG_MAX_NDIM)
        return tg_fail(err, TG_CORRUPT, "the header's '%s' has %zu dimensions", key, n);
    a->shape.ndim = a->chunk.ndim = a->shard.ndim = (uint32_t)n;
    TG_TRY(get_extents(v, "shape", (uint32_t)n, a->shape.n, err));
    TG_TRY(get_extents(v, "chunk", (uint32_t)n, a->chunk.n, err));
    TG_TRY(get_extents(v, "shard", (uint32_t)n, a->shard.n, err));
    return get_u32(v, "metadata_crc", &a->metadata_crc, err);
}

static tg_status get_axes(const tg_json *o, tg_plan_facts *f, tg_error *err)
{
    const tg_json *axes, *scale;
    TG_TRY(get_list(o, "axes", f->in.shape.ndim, &axes, err));
    TG_TRY(get_list(o, "scale", f->in.shape.ndim, &scale, err));
    for (uint32_t i = 0; i < f->in.shape.ndim; i++) {
        const tg_json *axis = tg_json_at(axes, i);
        f->axes[i] = NULL;
        if (tg_json_kind_of(axis) != TG_JSON_NULL)
            TG_TRY(named(tg_json_string(axis, &f->axes[i], NULL, err), "axes", err));
        TG_TRY(named(tg_json_double(tg_json_at(scale, i), &f->scale[i], err), "scale", err));
    }
    return TG_OK;
}

static tg_status get_rounding(const tg_json *o, tg_roi_rounding *r, tg_error *err)
{
    const tg_json *v;
    TG_TRY(member(o, "rounding", &v, err));
    TG_TRY(get_u64(v, "not_snapped", &r->not_snapped, err));
    TG_TRY(get_u64(v, "first_not_snapped", &r->first_not_snapped, err));
    TG_TRY(get_u64(v, "clamped", &r->clamped, err));
    return get_u64(v, "empty", &r->empty, err);
}

static tg_status get_words(const tg_json *o, tg_plan_facts *f, tg_error *err)
{
    const char *kind, *policy, *base, *read;
    TG_TRY(get_text(o, "kind", &kind, err));
    TG_TRY(get_text(o, "text", &f->text, err));
    TG_TRY(get_text(o, "rois", &f->rois, err));
    TG_TRY(get_text(o, "options", &f->options, err));
    TG_TRY(get_text(o, "policy", &policy, err));
    TG_TRY(get_text(o, "base", &base, err));
    TG_TRY(get_text(o, "read", &read, err));
    TG_TRY(get_text(o, "pad", &f->pad, err));
    f->kind = kind[0];
    TG_TRY(named(tg_policy_parse(policy, &f->policy, err), "policy", err));
    f->base = strcmp(base, "input") == 0 ? TG_BASE_INPUT : TG_BASE_OUT;
    f->read = strcmp(read, "sequential") == 0 ? TG_READ_SEQUENTIAL : TG_READ_SNAPSHOT;
    return TG_OK;
}

tg_status tg_plan_facts_read(tg_plan *p, tg_error *err)
{
    const tg_json *o = p->header;
    tg_plan_facts f = {0};
    TG_TRY(get_array(o, "in", &f.in, err));
    if (tg_json_get(o, "out") != NULL)
        TG_TRY(get_array(o, "out", &f.out, err));
    if (tg_json_get(o, "mask") != NULL)
        TG_TRY(get_array(o, "mask", &f.mask, err));
    TG_TRY(get_bool(o, "mask_apart", &f.mask_apart, err));
    TG_TRY(get_bool(o, "out_new", &f.out_new, err));
    TG_TRY(get_bool(o, "in_place", &f.in_place, err));
    TG_TRY(get_bool(o, "keep_undo", &f.keep_undo, err));
    TG_TRY(get_words(o, &f, err));
    TG_TRY(get_extents(o, "halo", f.in.shape.ndim, f.halo, err));
    TG_TRY(get_extents(o, "out_step", f.in.shape.ndim, f.out_step, err));
    TG_TRY(get_u64(o, "commit_ms", &f.commit_ms, err));
    TG_TRY(get_u32(o, "parts", &f.parts, err));
    TG_TRY(get_axes(o, &f, err));
    TG_TRY(get_rounding(o, &f.rounding, err));
    p->facts = f;
    return TG_OK;
}

/* --- Fingerprint ---------------------------------------------------------- */

static void add_extents(tg_text *t, const uint64_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        tg_text_addf(t, "%" PRIu64 ",", v[i]);
    tg_text_add(t, ";");
}

static void add_array(tg_text *t, const tg_plan_array *a)
{
    char room[16];
    if (a->shape.ndim == 0)
        return;
    tg_text_addf(t, "%s;%s;%08x;", a->path, tg_dtype_name(a->dtype, room), a->metadata_crc);
    add_extents(t, a->shape.n, a->shape.ndim);
    add_extents(t, a->chunk.n, a->chunk.ndim);
    add_extents(t, a->shard.n, a->shard.ndim);
}

tg_status tg_plan_make_fingerprint(tg_plan *p, tg_error *err)
{
    const tg_plan_facts *f = &p->facts;
    TG_AUTO(tg_text) t = {0};
    add_array(&t, &f->in);
    add_array(&t, &f->out);
    add_array(&t, &f->mask);
    tg_text_addf(&t, "%d%d%d;%d;%d;", f->in_place, f->out_new, f->kind, f->base, f->read);
    tg_text_addf(&t, "%s;%s;%s;", f->text, tg_policy_name(f->policy), text_of(f->pad));
    add_extents(&t, f->halo, f->in.shape.ndim);
    add_extents(&t, f->out_step, f->in.shape.ndim);
    TG_TRY(tg_text_status(&t, err));
    uint32_t boxes = 0;
    static const tg_plan_section_id of[] = {TG_PLAN_BOX, TG_PLAN_LABEL, TG_PLAN_RING,
                                            TG_PLAN_POINT, TG_PLAN_XY};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (p->section[of[i]].bytes != 0)
            boxes = tg_crc32c(boxes, p->section[of[i]].data, p->section[of[i]].bytes);
    p->fingerprint = (uint64_t)tg_crc32c(0, t.data, t.len) << 32 | boxes;
    return TG_OK;
}
