/* tidegate/region.h: from what the user asks for to a plan, a run of it in this process, and
 * the tidying. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "region/apply_job.h"
#include "region/base.h"
#include "region/labels.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tg_apply_close(job *j)
{
    while (j->n_locks > 0)
        tg_apply_unlock(j);
    if (j->has_folder)
        tg_folder_close(&j->folder);
    tg_row_log_free(j->rows);
    tg_plan_free(j->plan);
    tg_function_free(j->fn);
    tg_mask_free(j->mask);
    tg_array_free(j->in);
    tg_array_free(j->made);
    tg_store_free(j->own_in);
    tg_store_free(j->own_out);
    tg_roi_set_destroy(&j->set);
    tg_free(j->bounds);
    tg_budget_release(tg_runtime_budget(j->rt), j->list_bytes);
}

/* --- IN, OUT, the function ---------------------------------------------------------------- */

tg_status tg_apply_open_in(job *j, tg_error *err)
{
    const tg_apply_options *o = j->o;

    TG_TRY(tg_ome_level_read(&j->level, o->in_store, o->in_path == NULL ? "" : o->in_path,
                             j->cancel, err));
    TG_TRY(tg_array_open(o->in_store, j->level.array, &j->in, j->cancel, err));
    if (j->in->meta->info.dtype.kind == TG_DT_STRING)
        return tg_fail(err, TG_INVALID, "IN holds strings");
    for (uint32_t d = 0; d < j->level.ndim; d++)
        j->axes[d] = j->level.axis[d][0] == '\0' ? NULL : j->level.axis[d];
    return TG_OK;
}

/* A built-in operation is one computing while another waits for the disk. */
static uint32_t jobs_of(const job *j)
{
    const uint32_t threads = tg_runtime_threads(j->rt);
    if (j->o->jobs > 0)
        return j->o->jobs;
    return j->o->fn == NULL && j->o->kind == 'o' ? 2 * threads : threads;
}

tg_status tg_apply_open_function(job *j, tg_error *err)
{
    const tg_array_meta *m = j->in->meta;
    tg_shape shape = {.ndim = m->info.ndim};

    memcpy(shape.n, m->info.shape, shape.ndim * sizeof *shape.n);
    const tg_function_env env = {.in_shape = &shape,
                                 .in_dtype = m->info.dtype,
                                 .in_chunk = &m->chunk,
                                 .axes = j->axes,
                                 .scale = j->level.scale,
                                 .jobs = jobs_of(j),
                                 .timeout_ms = j->o->call_timeout_ms,
                                 .wanted = j->o->dtype,
                                 .planned = j->planned,
                                 .in_store = j->o->in_store,
                                 .image = j->level.image,
                                 .cancel = j->cancel,
                                 .budget = tg_runtime_budget(j->rt)};
    if (j->o->fn != NULL)
        return tg_function_of(&j->fn, j->o->fn, j->o->fn_user, &env, err);
    if (j->o->kind == 0 || j->o->function == NULL)
        return tg_fail(err, TG_INVALID,
                       "no function: an operation, a plug-in, a command or a "
                       "worker is wanted");
    return tg_function_open(&j->fn, j->o->kind, j->o->function, &env, err);
}

static bool same_file(const tg_store *a, const char *a_path, const tg_store *b,
                      const char *b_path)
{
    static const char *const names[] = {"zarr.json", ".zarray"};
    char x[1100], y[1100];
    struct stat s, t;

    if (tg_store_dir(a) < 0 || tg_store_dir(b) < 0)
        return a == b && strcmp(a_path, b_path) == 0;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(x, sizeof x, "%s%s%s", a_path, a_path[0] == '\0' ? "" : "/", names[i]);
        (void)snprintf(y, sizeof y, "%s%s%s", b_path, b_path[0] == '\0' ? "" : "/", names[i]);
        if (tg_sys_stat(tg_store_dir(a), x, &s, 0) == 0 &&
            tg_sys_stat(tg_store_dir(b), y, &t, 0) == 0 && s.st_dev == t.st_dev &&
            s.st_ino == t.st_ino)
            return true;
    }
    return false;
}

tg_status tg_apply_lock(job *j, const char *name, tg_error *err)
{
    assert(j->n_locks < sizeof j->lock / sizeof *j->lock);
    char *dst = j->lock[j->n_locks];
    (void)snprintf(dst, sizeof *j->lock, "%s", name);
    TG_TRY(tg_folder_lock(&j->folder, dst, err));
    j->n_locks++;
    return TG_OK;
}

void tg_apply_unlock(job *j)
{
    if (j->n_locks > 0)
        tg_folder_unlock(&j->folder, j->lock[--j->n_locks]);
}

static tg_status open_folder(job *j, tg_error *err)
{
    if (tg_store_dir(j->out_store) < 0)
        return j->in_place ? tg_fail(err, TG_UNSUPPORTED,
                                     "%s: only what is a directory can be "
                                     "changed in place",
                                     tg_store_describe(j->out_store))
                           : TG_OK;
    TG_TRY(tg_folder_open(&j->folder, tg_store_path(j->out_store), j->out_path, true, err));
    j->has_folder = true;
    return tg_apply_lock(j, "lock-0", err);
}

/* OUT like IN, but for what the function changes. A mark in the folder tells a run that takes
 * this one up that OUT is its own. */
static tg_status make_out(job *j, tg_error *err)
{
    const tg_array_info *info = &j->in->meta->info;
    const tg_function_facts *f = &j->fn->facts;
    uint64_t chunk[TG_MAX_NDIM], shard[TG_MAX_NDIM];
    const tg_array_options ao = {.size = sizeof ao,
                                 .format = info->format,
                                 .dtype = j->o->dtype != NULL ? *j->o->dtype : f->out_dtype,
                                 .ndim = f->out_shape.ndim,
                                 .shape = f->out_shape.n,
                                 .chunk = chunk,
                                 .shard = info->sharded && j->has_folder ? shard : NULL,
                                 .codec = j->o->codec,
                                 .dimension_names =
                                     info->format == 3 ? info->dimension_name : NULL};

    for (uint32_t d = 0; d < f->out_shape.ndim; d++) {
        const uint64_t n = f->out_shape.n[d] > 0 ? f->out_shape.n[d] : 1;
        chunk[d] = info->chunk[d] < n ? info->chunk[d] : n;
        assert(info->chunk[d] > 0);
        shard[d] = info->shard[d] / info->chunk[d] * chunk[d];
        while (shard[d] > chunk[d] && shard[d] - chunk[d] >= n)
            shard[d] -= chunk[d];
    }
    if (j->has_folder) {
        TG_AUTO(tg_fd) fd = tg_sys_open(j->folder.dir, "out-new", O_WRONLY | O_CREAT, 0666);
        if (fd < 0)
            return tg_folder_fail(&j->folder, "make", "out-new", err);
        TG_TRY(tg_dir_sync(j->folder.dir, j->folder.path, err));
    }
    tg_crash_point();
    return tg_array_create(j->out_store, j->out_path, &ao, &j->made, j->cancel, err);
}

static tg_status open_out(job *j, tg_error *err)
{
    const tg_apply_options *o = j->o;
    const char *path = o->out_path == NULL ? "" : o->out_path;

    if (!o->in_place && o->out_store == NULL)
        return tg_fail(err, TG_INVALID, "no OUT: name one, or change IN in place");
    j->in_place = o->in_place || same_file(o->in_store, j->level.array, o->out_store, path);
    j->out_store = o->in_place ? o->in_store : o->out_store;
    (void)snprintf(j->out_path, sizeof j->out_path, "%s", o->in_place ? j->level.array : path);
    if (j->in_place && !j->fn->facts.in_place)
        return tg_fail(err, TG_INVALID,
                       "the function cannot be applied in place: what it makes "
                       "is no array like IN");
    TG_TRY(open_folder(j, err));
    if (o->in_place) {
        j->out = j->in;
        return TG_OK;
    }
    tg_status st = tg_array_open(j->out_store, j->out_path, &j->made, j->cancel, err);
    j->out_new = !j->in_place && j->has_folder && tg_folder_exists(&j->folder, "out-new");
    if (st == TG_NOT_FOUND) {
        j->out_new = j->made_now = true;
        st = make_out(j, err);
    }
    j->out = j->made;
    return st;
}

static tg_status check_out(const job *j, tg_error *err)
{
    const tg_function_facts *f = &j->fn->facts;

    if (j->out == NULL)
        return TG_OK;
    const tg_array_info *info = &j->out->meta->info;
    bool same = info->ndim == f->out_shape.ndim;
    for (uint32_t d = 0; same && d < info->ndim; d++)
        same = info->shape[d] == f->out_shape.n[d];
    return same ? TG_OK
                : tg_fail(err, TG_INVALID,
                          "OUT '%.200s' has another shape than what the "
                          "function makes of IN",
                          j->out_path);
}

/* --- The plan --------------------------------------------------------------------------------
 */

/* Of the list only what the plan takes stays: boxes in pixels, labels and names. */
static void shrink_list(job *j, uint64_t bounds)
{
    tg_roi_list *l = &j->set.list;
    uint64_t left = bounds;

    const tg_roi_outlines *o = &j->set.outlines;

    tg_free(tg_steal(l->start));
    tg_free(tg_steal(l->length));
    if (o->ring == NULL || j->o->policy == NULL || strcmp(j->o->policy, "mask") != 0)
        tg_roi_outlines_destroy(&j->set.outlines);
    /* Twice: arrays that grow have room to spare. */
    left += l->label == NULL ? 0 : 2 * l->n * sizeof *l->label;
    left +=
        o->ring == NULL ? 0 : 2 * (l->n + 1 + o->n_rings + 1 + 2 * o->n_points) * sizeof *o->xy;
    left += l->name == NULL ? 0 : 2 * ((l->n + 1) * sizeof *l->name + l->name[l->n]);
    if (left >= j->list_bytes)
        return;
    tg_budget_release(tg_runtime_budget(j->rt), j->list_bytes - left);
    j->list_bytes = left;
}

static tg_status take_boxes(job *j, const tg_shape *shape, tg_px_rule rule, tg_error *err)
{
    const uint64_t n = j->set.list.n * 2 * shape->ndim, bytes = (n + 1) * sizeof *j->bounds;

    TG_TRY(tg_budget_reserve(tg_runtime_budget(j->rt), bytes, "boxes of regions", err));
    j->list_bytes += bytes;
    j->n = j->set.list.n;
    j->bounds = tg_alloc_array((size_t)n + 1, sizeof *j->bounds);
    if (j->bounds == NULL)
        return tg_fail(err, TG_NO_MEMORY, "boxes of regions");
    TG_TRY(tg_rois_boxes(&j->set.list, shape, j->axes, j->level.scale, rule, j->bounds,
                         &j->facts.rounding, err));
    shrink_list(j, bytes);
    return TG_OK;
}

tg_status tg_apply_read_list(job *j, tg_error *err)
{
    tg_budget *budget = tg_runtime_budget(j->rt);
    tg_shape shape = {.ndim = j->level.ndim};
    const uint64_t have = tg_budget_total(budget) - tg_budget_used(budget);
    tg_px_rule rule = TG_PX_NGIO;
    tg_roi_source source = {.store = j->o->in_store,
                            .image = j->level.image,
                            .array = &shape,
                            .axes = j->axes,
                            .limit = (size_t)(have / 2)};

    if (j->o->rois == NULL)
        return tg_fail(err, TG_INVALID, "which regions? (--rois)");
    if (j->o->px_rule != NULL)
        TG_TRY(tg_px_rule_parse(j->o->px_rule, &rule, err));
    memcpy(shape.n, j->level.shape, sizeof shape.n);
    TG_TRY(tg_budget_reserve(budget, have / 2, "list of regions", err));
    j->list_bytes = have / 2;
    TG_TRY(tg_roi_read(&j->set, j->o->rois, &source, j->cancel, err));
    if (!j->set.list.in_pixels && !j->level.in_image)
        return tg_fail(
            err, TG_INVALID,
            "the regions are in %s, and IN is no array of an image that says how large "
            "a pixel is",
            j->set.list.unit);
    if (j->set.list.n >= UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "more than 2^32 - 2 regions");
    return take_boxes(j, &shape, rule, err);
}

/* Of the metadata, but for attributes: what it says of items, chunks and codecs. */
static tg_status sum_metadata(const tg_array *a, uint32_t *crc, tg_error *err)
{
    TG_AUTO_PTR(tg_json) none = tg_json_new_object();
    TG_AUTO(tg_str) document = NULL;
    TG_AUTO(tg_str) attributes = NULL;

    if (none == NULL)
        return tg_fail(err, TG_NO_MEMORY, "metadata of an array");
    TG_TRY(
        tg_array_meta_write(a->meta, a->meta->info.shape, none, &document, &attributes, err));
    *crc = tg_crc32c(0, document, strlen(document));
    return TG_OK;
}

tg_status tg_apply_describe(tg_plan_array *p, const tg_array *a, const tg_store *s,
                            const char *path, tg_error *err)
{
    *p = (tg_plan_array){.url = tg_store_path(s) == NULL ? "" : tg_store_path(s),
                         .path = path,
                         .dtype = a->meta->info.dtype,
                         .chunk = a->meta->chunk,
                         .shard = a->meta->shard};
    p->shape.ndim = a->meta->info.ndim;
    memcpy(p->shape.n, a->meta->info.shape, p->shape.ndim * sizeof *p->shape.n);
    return sum_metadata(a, &p->metadata_crc, err);
}

static tg_status set_halo(job *j, tg_error *err)
{
    const uint32_t ndim = j->level.ndim;
    uint32_t n = j->o->n_halo;

    if (n > ndim)
        return tg_fail(err, TG_INVALID, "halo of %u axes, IN has %u", n, ndim);
    for (uint32_t d = 0; d < ndim; d++)
        j->facts.halo[d] = j->fn->facts.halo[d];
    const bool one = n == 1;
    if (one)
        n = ndim < 2 ? ndim : 2;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t h = j->o->halo[one ? 0 : i];
        uint64_t *to = &j->facts.halo[ndim - n + i];
        *to = h > *to ? h : *to;
    }
    return TG_OK;
}

static tg_status choose(const char *what, const char *word, const char *const words[2],
                        int *out, tg_error *err)
{
    for (int i = 0; i < 2; i++)
        if (word == NULL || strcmp(word, words[i]) == 0) {
            *out = word == NULL ? 0 : i;
            return TG_OK;
        }
    return tg_fail(err, TG_INVALID, "%s '%.60s': want %s or %s", what, word, words[0],
                   words[1]);
}

/* What the list says of its regions' shapes. */
static tg_status set_mask(job *j, tg_error *err)
{
    static const char *const outlined[] = {"geojson", "imagej"};
    tg_plan_facts *f = &j->facts;
    const char *labels = j->set.labels;
    bool has = labels != NULL;

    for (size_t i = 0; i < sizeof outlined / sizeof *outlined; i++)
        has |= strcmp(j->set.format, outlined[i]) == 0;
    if (!has)
        return tg_fail(
            err, TG_INVALID,
            "policy mask: '%.200s' holds boxes and no objects: want a masking table, "
            "labels:PATH, GeoJSON or ImageJ's ROIs",
            j->o->rois);
    if (labels != NULL && same_file(j->o->in_store, labels, j->out_store, j->out_path))
        return tg_fail(
            err, TG_INVALID,
            "policy mask: the label image '%.200s' is OUT, which changes while it is "
            "read: name another OUT",
            labels);
    TG_TRY(tg_mask_open(&j->mask, f, j->o->in_store, labels, j->cancel, err));
    return labels == NULL ? TG_OK
                          : tg_apply_describe(&f->mask, tg_mask_array(j->mask), j->o->in_store,
                                              tg_mask_path(j->mask), err);
}

tg_status tg_apply_set_facts(job *j, tg_error *err)
{
    static const char *const bases[2] = {"fill", "input"};
    static const char *const reads[2] = {"snapshot", "sequential"};
    tg_plan_facts *f = &j->facts;
    int word = 0;

    TG_TRY(tg_apply_describe(&f->in, j->in, j->o->in_store, j->level.array, err));
    if (j->out != NULL)
        TG_TRY(tg_apply_describe(&f->out, j->out, j->out_store, j->out_path, err));
    f->out_new = j->out_new;
    f->in_place = j->in_place;
    f->keep_undo = j->o->keep_undo;
    f->kind = j->o->fn != NULL ? 0 : j->o->kind;
    f->text = j->o->fn != NULL ? "" : j->o->function;
    f->rois = j->o->rois;
    TG_TRY(tg_policy_parse(j->o->policy == NULL ? "error" : j->o->policy, &f->policy, err));
    TG_TRY(choose("base", j->o->base, bases, &word, err));
    f->base = word == 1 ? TG_BASE_INPUT : TG_BASE_OUT;
    TG_TRY(choose("read", j->o->read, reads, &word, err));
    f->read = word == 1 ? TG_READ_SEQUENTIAL : TG_READ_SNAPSHOT;
    TG_TRY(set_halo(j, err));
    f->pad = j->o->pad == NULL ? "" : j->o->pad;
    f->commit_ms = j->o->commit_interval_ms > 0 ? j->o->commit_interval_ms : 1000;
    f->parts = 1;
    f->options = "";
    for (uint32_t d = 0; d < j->level.ndim; d++) {
        f->out_step[d] = j->fn->facts.out_step[d] > 0 ? j->fn->facts.out_step[d] : 1;
        f->axes[d] = j->axes[d];
        f->scale[d] = j->level.scale[d];
    }
    return f->policy == TG_POLICY_MASK && j->out != NULL ? set_mask(j, err) : TG_OK;
}

/* Units that --base input adds have no label, and names that are empty. */
static tg_status extend_list(const job *j, tg_roi_list *l, tg_error *err)
{
    const size_t old = (size_t)l->n, n = (size_t)j->n;

    if (l->label != NULL) {
        uint64_t *label = tg_calloc(n + 1, sizeof *label);
        if (label == NULL)
            return tg_fail(err, TG_NO_MEMORY, "labels of regions");
        memcpy(label, l->label, old * sizeof *label);
        tg_free(l->label);
        l->label = label;
    }
    if (l->name != NULL) {
        uint64_t *name = tg_alloc_array(n + 1, sizeof *name);
        if (name == NULL)
            return tg_fail(err, TG_NO_MEMORY, "names of regions");
        memcpy(name, l->name, (old + 1) * sizeof *name);
        for (size_t k = old + 1; k <= n; k++)
            name[k] = name[old];
        tg_free(l->name);
        l->name = name;
    }
    return TG_OK;
}

/* --base input: units that no region touches become IN's by regions of their own, behind the
 * list. */
static tg_status add_base(job *j, tg_error *err)
{
    tg_budget *budget = tg_runtime_budget(j->rt);
    const tg_array_meta *in = j->in->meta;
    tg_shape shape = {.ndim = in->info.ndim};

    if (j->facts.base != TG_BASE_INPUT || j->in_place || j->out == NULL)
        return TG_OK;
    memcpy(shape.n, in->info.shape, shape.ndim * sizeof *shape.n);
    bool same = j->out->meta->info.ndim == shape.ndim;
    for (uint32_t d = 0; same && d < shape.ndim; d++)
        same = j->out->meta->info.shape[d] == shape.n[d];
    if (!same)
        return tg_fail(err, TG_INVALID, "--base input: OUT's shape is not IN's");
    const uint64_t limit = (tg_budget_total(budget) - tg_budget_used(budget)) / 4;
    TG_TRY(tg_budget_reserve(budget, limit, "units that no region touches", err));
    j->list_bytes += limit;
    TG_TRY(tg_base_regions(&j->bounds, &j->n, &shape, &j->out->meta->shard, limit, err));
    if (j->n >= UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "more than 2^32 - 2 regions and units");
    /* Boxes, labels and names of all; those of the list alone are reserved, too. */
    const uint64_t took = (j->n + 1) * (2 * (uint64_t)shape.ndim + 2) * sizeof *j->bounds;
    if (took < limit) {
        tg_budget_release(budget, limit - took);
        j->list_bytes -= limit - took;
    }
    return extend_list(j, &j->set.list, err);
}

tg_status tg_apply_make_plan(job *j, tg_error *err)
{
    TG_TRY(add_base(j, err));
    tg_budget *budget = tg_runtime_budget(j->rt);
    const tg_roi_list *l = &j->set.list;
    const uint64_t fixed = tg_engine_fixed_bytes(j->in, j->out, j->facts.policy);
    const uint64_t total = tg_budget_total(budget);
    tg_plan_cost cost = {j->fn, j->mask};
    const tg_plan_spec spec = {.facts = j->facts,
                               .n = j->n,
                               .bounds = j->bounds,
                               .label = l->label,
                               .name = l->name,
                               .names = l->names,
                               .n_masked = l->n,
                               .outlines = j->mask == NULL ? NULL : &j->set.outlines,
                               .region_bytes = tg_plan_region_bytes,
                               .region_bytes_user = &cost,
                               .memory_bytes = total > fixed ? total - fixed : 0};

    if (total <= fixed)
        return tg_fail(err, TG_OVER_BUDGET,
                       "the run takes %llu bytes for one chunk and its codecs, beside regions; "
                       "--memory is %llu",
                       (unsigned long long)fixed, (unsigned long long)total);
    TG_TRY(tg_plan_make(&j->plan, &spec, budget, j->cancel, err));
    j->report->rois = j->set.list.n;
    j->report->empty = tg_plan_get_stats(j->plan)->empty;
    j->report->not_snapped = j->facts.rounding.not_snapped;
    j->report->clamped = j->facts.rounding.clamped;
    tg_roi_set_destroy(&j->set);
    tg_free(tg_steal(j->bounds));
    tg_budget_release(budget, j->list_bytes);
    j->list_bytes = 0;
    return TG_OK;
}

/* --- The run
 * ------------------------------------------------------------------------------------ */

/* Added to what is there: one call may run a part and merge all. */
static void fill_report(const job *j, const tg_engine_result *r)
{
    tg_apply_report *p = j->report;

    p->calls += r->calls;
    p->failed += r->failed;
    p->units_read += r->units_read;
    p->units_written += r->units_written;
    p->bytes_read += r->bytes_read;
    p->bytes_written += r->bytes_written;
    p->spilled_bytes += r->spilled_bytes;
    p->saturated += r->saturated;
    p->commits += r->commits;
    if (r->parked_peak_bytes > p->parked_peak_bytes)
        p->parked_peak_bytes = r->parked_peak_bytes;
    if (r->memory_peak > p->memory_peak_bytes)
        p->memory_peak_bytes = r->memory_peak;
    if (r->in_flight_peak > p->in_flight_peak)
        p->in_flight_peak = r->in_flight_peak;
    if (r->why[0] != '\0') {
        p->first_failed = r->first_failed;
        memcpy(p->why, r->why, sizeof p->why);
    }
    if (p->n_samples > 0) /* the series is the part's */
        return;
    _Static_assert(sizeof p->samples == sizeof r->samples, "one series");
    memcpy(p->samples, r->samples, sizeof p->samples);
    p->n_samples = r->n_samples;
    p->n_slowest = r->n_slowest;
    for (uint32_t i = 0; i < r->n_slowest; i++) {
        p->slowest_region[i] = r->slowest[i].region;
        p->slowest_seconds[i] = r->slowest[i].seconds;
    }
}

tg_status tg_apply_run_plan(job *j, uint32_t part, bool merge, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) room = tg_calloc(1, sizeof(tg_engine_result));
    tg_engine_result *r = room;
    const tg_engine_options eo = {.rt = j->rt,
                                  .plan = j->plan,
                                  .in = j->in,
                                  .out = j->out,
                                  .fn = j->fn,
                                  .mask = j->mask,
                                  .rows = j->rows,
                                  .folder = j->has_folder ? &j->folder : NULL,
                                  .part = part,
                                  .in_parts = j->planned && !merge,
                                  .merge = merge,
                                  .jobs = jobs_of(j),
                                  .skip = j->o->skip_failed,
                                  .retries = j->o->retries,
                                  .n_called = j->report->rois,
                                  .progress = j->o->progress,
                                  .progress_user = j->o->progress_user};

    if (r == NULL)
        return tg_fail(err, TG_NO_MEMORY, "report");
    tg_status st = (j->facts.policy == TG_POLICY_LABELS ? tg_labels_run : tg_engine_run)(
        &eo, r, j->cancel, err);
    fill_report(j, r);
    return st;
}

static void add_quoted(tg_text *t, const char *s)
{
    tg_text_add(t, "\"");
    for (; s != NULL && *s != '\0'; s++) {
        if (*s == '"' || *s == '\\')
            tg_text_addf(t, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            tg_text_addf(t, "\\u%04x", (unsigned)(unsigned char)*s);
        else
            tg_text_add_n(t, s, 1);
    }
    tg_text_add(t, "\"");
}

void tg_apply_mark(const job *j, char *dst)
{
    (void)snprintf(dst, TG_MARK_BYTES, "%016" PRIx64 " %" PRIu64 "\n",
                   tg_plan_fingerprint(j->plan), j->run);
}

/* Everything but the journal, whose last record says that the run had ended; then that; then
 * what says that it was one in parts. */
tg_status tg_apply_tidy(job *j, tg_error *err)
{
    static const char *const waste[] = {"new-",    "swap-", "undo-copy",
                                        "border-", "done-", "out-new"};

    tg_crash_point();
    for (size_t i = 0; i < sizeof waste / sizeof *waste; i++)
        TG_TRY(tg_folder_drop_all(&j->folder, NULL, waste[i], err));
    TG_TRY(tg_labels_tidy(&j->folder, err));
    if (!j->o->keep_undo) {
        TG_TRY(tg_folder_drop_all(&j->folder, "undo", "u", err));
        if (tg_sys_unlink(j->folder.dir, "undo", AT_REMOVEDIR) != 0 && errno != ENOENT)
            return tg_folder_fail(&j->folder, "remove", "undo", err);
    }
    tg_crash_point();
    TG_TRY(tg_folder_drop_all(&j->folder, NULL, "journal-", err));
    TG_TRY(tg_folder_drop_all(&j->folder, NULL, "rows-", err));
    tg_crash_point();
    if (j->planned) /* who is alive will find that all is done, and remove its own */
        (void)!tg_folder_check_idle(&j->folder, "lock-merge", NULL);
    TG_TRY(tg_folder_drop_all(&j->folder, NULL, "in-parts", err));
    tg_crash_point();
    while (j->n_locks > 0)
        tg_apply_unlock(j);
    return j->o->keep_undo ? tg_dir_sync(j->folder.dir, j->folder.path, err)
                           : tg_folder_remove(&j->folder, err);
}

/* An earlier run: *ended if it was this one and only the tidying is left to do. One that ended
 * with other parameters is tidied away. */
static tg_status look_back(job *j, bool *ended, tg_error *err)
{
    tg_commit_past past;

    *ended = false;
    if (!j->has_folder)
        return TG_OK;
    if (tg_folder_exists(&j->folder, "undoing"))
        return tg_fail(err, TG_INVALID, "an undo was stopped half way: run `undo` again first");
    if (tg_folder_exists(&j->folder, "in-parts"))
        return tg_fail(err, TG_INVALID,
                       "'%.200s' holds a run in parts that is not finished: `finish` it, or "
                       "`clean` to give it up",
                       j->folder.path);
    TG_TRY(tg_commit_replay(&j->folder, j->plan, 0, false, NULL, NULL, &past, err));
    const bool begun = past.begun && !past.other, again = past.other;
    j->report->resumed = begun;
    *ended = past.ended && !past.other;
    tg_commit_past_destroy(&past);
    if (again) {
        TG_TRY(tg_apply_tidy(j, err));
        return TG_INCOMPLETE;
    }
    /* What an earlier run has kept is the past of that one, not of this. */
    return begun ? TG_OK : tg_folder_drop_all(&j->folder, "undo", "u", err);
}

/* What made OUT, for who finds it. */
tg_status tg_apply_write_attributes(const job *j, tg_error *err)
{
    TG_AUTO(tg_text) t = {0};
    const tg_plan_facts *f = tg_plan_get_facts(j->plan);

    tg_text_addf(&t, "{\"tidegate\": {\"version\": ");
    add_quoted(&t, TG_VERSION_STRING);
    tg_text_add(&t, ", \"function\": ");
    add_quoted(&t, f->text);
    tg_text_addf(&t, ", \"kind\": \"%c\", \"policy\": \"%s\", \"rois\": ",
                 f->kind == 0 ? '-' : f->kind, tg_policy_name(f->policy));
    add_quoted(&t, f->rois);
    tg_text_addf(&t, ", \"digest\": \"%016llx\", \"source\": ",
                 (unsigned long long)tg_plan_fingerprint(j->plan));
    add_quoted(&t, f->in.url);
    tg_text_add(&t, ", \"path\": ");
    add_quoted(&t, f->in.path);
    if (f->pad[0] != '\0') {
        tg_text_add(&t, ", \"pad\": ");
        add_quoted(&t, f->pad);
    }
    if (j->planned)
        tg_text_addf(&t, ", \"run\": %" PRIu64, j->run);
    tg_text_add(&t, "}}");
    TG_TRY(tg_text_status(&t, err));
    return tg_attributes_set(j->out_store, j->out_path, t.data, true, NULL, err);
}

static tg_status end_run(job *j, tg_error *err)
{
    if (j->out != NULL)
        TG_TRY(tg_apply_write_attributes(j, err));
    return j->has_folder ? tg_apply_tidy(j, err) : TG_OK;
}

/* Refused before any work: nothing is left of it. */
void tg_apply_take_back(job *j)
{
    if (j->has_folder ? tg_folder_exists(&j->folder, "journal-0") ||
                            tg_folder_exists(&j->folder, "rows-0")
                      : j->report->calls > 0 || j->report->units_written > 0)
        return;
    if (j->made_now)
        (void)!tg_node_remove(j->out_store, j->out_path, NULL, NULL); /* the refusal counts */
    if (!j->has_folder)
        return;
    if (j->made_now)
        (void)!tg_folder_drop(&j->folder, "out-new", NULL);
    while (j->n_locks > 0)
        tg_apply_unlock(j);
    (void)!tg_folder_remove(&j->folder, NULL); /* unless there is more in it */
}

tg_status tg_apply_open(job *j, tg_error *err)
{
    TG_TRY(tg_apply_open_in(j, err));
    TG_TRY(tg_apply_open_function(j, err));
    TG_TRY(tg_function_deliverable(j->fn, j->o->table != NULL,
                                   j->o->in_place || j->o->out_store != NULL, err));
    if (!j->fn->facts.has_out)
        return TG_OK;
    TG_TRY(tg_apply_read_list(j, err));
    TG_TRY(open_out(j, err));
    return check_out(j, err);
}

static tg_status apply(job *j, tg_error *err)
{
    const int64_t began = tg_clock_ns();
    bool ended = false;

    TG_TRY(tg_apply_open(j, err));
    if (!j->fn->facts.has_out)
        return tg_apply_rows(j, began, err);
    TG_TRY(tg_apply_set_facts(j, err));
    TG_TRY(tg_apply_make_plan(j, err));
    j->report->plan_seconds = (double)(tg_clock_ns() - began) * 1e-9;
    TG_TRY(look_back(j, &ended, err));
    j->report->was_done = ended;
    j->begun = true;
    if (!ended)
        TG_TRY(tg_apply_run_plan(j, 0, false, err));
    return end_run(j, err);
}

tg_status tg_apply(tg_runtime *rt, const tg_apply_options *options, tg_apply_report *report,
                   const tg_cancel *cancel, tg_error *err)
{
    const int64_t began = tg_clock_ns();
    const size_t size = report->size;

    if (options->size != sizeof *options || size != sizeof *report)
        return tg_fail(err, TG_INVALID, "tg_apply: sizes %zu and %zu, want %zu and %zu",
                       options->size, size, sizeof *options, sizeof *report);
    tg_status st = TG_INCOMPLETE;
    for (int i = 0; i < 2 && st == TG_INCOMPLETE; i++) { /* again: an old run was in the way */
        *report = (tg_apply_report){.size = size};
        TG_AUTO(job)
        j = {.rt = rt, .o = options, .report = report, .cancel = cancel, .folder = {.dir = -1}};
        st = apply(&j, err);
        if (st != TG_OK && st != TG_INCOMPLETE)
            tg_apply_take_back(&j);
    }
    report->seconds = (double)(tg_clock_ns() - began) * 1e-9;
    return st;
}

/* What a finished run said of OUT is not so any more. */
static tg_status forget_attributes(const tg_folder *folder, tg_store *out_store,
                                   const char *out_path, tg_error *err)
{
    static const char *const key = "tidegate", *const none = NULL;

    if (tg_folder_has(folder, "journal-") || tg_folder_has(folder, "in-parts"))
        return TG_OK; /* it is an earlier run's, and true again */
    tg_status st = tg_attributes_edit(out_store, out_path, 1, &key, &none, NULL, err);
    if (st != TG_NOT_FOUND)
        return st;
    if (err != NULL)
        *err = (tg_error){.offset = TG_NO_OFFSET};
    return TG_OK;
}

/* The journals go first: what they call done will not be. A mark keeps a run, or a part of one,
 * from beginning in between. */
static tg_status undo_in(const tg_folder *folder, tg_store *out_store, const char *out_path,
                         tg_array *out, uint64_t *n, tg_error *err)
{
    static const char *const waste[] = {"new-", "border-", "done-", "in-parts"};

    if (!tg_folder_exists(folder, "undo"))
        return tg_fail(err, TG_NOT_FOUND, "there is nothing to undo: no run with --keep-undo");
    const bool again = tg_folder_exists(folder, "undoing");
    TG_AUTO(tg_fd) fd = tg_sys_open(folder->dir, "undoing", O_WRONLY | O_CREAT, 0666);
    if (fd < 0)
        return tg_folder_fail(folder, "make", "undoing", err);
    TG_TRY(tg_dir_sync(folder->dir, folder->path, err));
    tg_status st = tg_folder_check_idle(folder, "lock-0", err);
    if (st != TG_OK) {
        if (!again)
            (void)!tg_folder_drop(folder, "undoing", NULL); /* who is at work matters more */
        return st;
    }
    tg_crash_point();
    if (!again)
        TG_TRY(forget_attributes(folder, out_store, out_path, err));
    TG_TRY(tg_folder_drop_all(folder, NULL, "journal-", err));
    TG_TRY(tg_undo_all(folder, out, n, err));
    for (size_t i = 0; i < sizeof waste / sizeof *waste; i++)
        TG_TRY(tg_folder_drop_all(folder, NULL, waste[i], err));
    TG_TRY(tg_labels_tidy(folder, err));
    if (tg_sys_unlink(folder->dir, "undo", AT_REMOVEDIR) != 0 && errno != ENOENT)
        return tg_folder_fail(folder, "remove", "undo", err);
    tg_crash_point();
    return tg_folder_drop(folder, "undoing", err);
}

tg_status tg_apply_undo(tg_store *out_store, const char *out_path, uint64_t *n,
                        const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_array) out = NULL;
    tg_folder folder;

    *n = 0;
    if (out_path == NULL)
        out_path = "";
    if (tg_store_dir(out_store) < 0)
        return tg_fail(err, TG_UNSUPPORTED, "%s is no directory", tg_store_describe(out_store));
    TG_TRY(tg_array_open(out_store, out_path, &out, cancel, err));
    tg_status st = tg_folder_open(&folder, tg_store_path(out_store), out_path, false, err);
    if (st != TG_OK)
        return st == TG_NOT_FOUND ? tg_fail(err, TG_NOT_FOUND,
                                            "there is nothing to undo: no "
                                            "run with --keep-undo")
                                  : st;
    st = tg_folder_lock(&folder, "lock-0", err);
    const bool locked = st == TG_OK;
    if (st == TG_OK)
        st = undo_in(&folder, out_store, out_path, out, n, err);
    if (locked)
        tg_folder_unlock(&folder, "lock-0");
    if (st == TG_OK)
        st = tg_folder_remove(&folder, err);
    tg_folder_close(&folder);
    return st;
}
