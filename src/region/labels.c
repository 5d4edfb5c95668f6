/* The three passes, one after the other, and what lies between them. */
#include "region/labels.h"

#include "region/labels_base.h"
#include "region/labels_pass.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SCRATCH    "labels.zarr"
#define LEAST_SORT ((uint64_t)8 * TG_SORTER_LEAST)
#define MOST_SORT  ((uint64_t)96 << 20)
#define SORTERS    ((uint64_t)3) /* at once */

typedef struct labels {
    const tg_engine_options *o;
    const tg_plan_facts *facts;
    const tg_cancel *cancel;
    tg_engine_result *r;
    tg_budget *budget;
    tg_text path; /* of the array between the passes */
    tg_store *store;
    tg_array *between;
    tg_folder folder; /* of the first pass */
    tg_plan *plan;    /* of it */
    uint8_t *failed;  /* bits of regions; NULL: none can fail */
    uint64_t reserved;
    tg_sorter *objects, *touching;
    tg_numbers *numbers;
} labels;

static void labels_auto(labels *l)
{
    tg_numbers_free(l->numbers);
    tg_sorter_free(l->objects);
    tg_sorter_free(l->touching);
    tg_plan_free(l->plan);
    tg_folder_close(&l->folder);
    tg_array_free(l->between);
    tg_store_free(l->store);
    tg_text_auto(&l->path);
    tg_free(l->failed);
    tg_budget_release(l->budget, l->reserved);
}

static tg_status reserve(labels *l, uint64_t bytes, tg_error *err)
{
    TG_TRY(tg_budget_reserve(l->budget, bytes, "labels", err));
    l->reserved += bytes;
    return TG_OK;
}

static void release(labels *l, uint64_t bytes)
{
    tg_budget_release(l->budget, bytes);
    l->reserved -= bytes;
}

static uint64_t available(const labels *l)
{
    const uint64_t total = tg_budget_total(l->budget), used = tg_budget_used(l->budget);
    return total > used ? total - used : 0;
}

static void shape_of(const tg_array *a, tg_shape *shape)
{
    *shape = (tg_shape){.ndim = a->meta->info.ndim};
    memcpy(shape->n, a->meta->info.shape, shape->ndim * sizeof *shape->n);
}

static void describe(tg_plan_array *p, const tg_array *a, const char *url)
{
    *p = (tg_plan_array){.url = url,
                         .path = "",
                         .dtype = a->meta->info.dtype,
                         .chunk = a->meta->chunk,
                         .shard = a->meta->shard};
    shape_of(a, &p->shape);
}

/* --- Refusing ------------------------------------------------------------------------------
 */

static tg_status check(const labels *l, tg_error *err)
{
    const tg_function_facts *f = &l->o->fn->facts;
    const tg_dtype given = f->out_dtype, out = l->o->out->meta->info.dtype;
    tg_shape in, to;

    if (l->facts->kind == 'o' && !f->labels)
        return tg_fail(err, TG_INVALID,
                       "policy labels: the operation makes no labels: want one that numbers "
                       "objects, such as label");
    if (given.kind != TG_DT_UINT && given.kind != TG_DT_INT)
        return tg_fail(err, TG_INVALID, "policy labels: the function makes no whole numbers");
    if (out.kind != TG_DT_UINT && out.kind != TG_DT_INT)
        return tg_fail(err, TG_INVALID, "policy labels: OUT holds no whole numbers");
    if (l->facts->base == TG_BASE_INPUT)
        return tg_fail(err, TG_INVALID,
                       "policy labels and --base input: IN's items are no labels");
    if (l->o->folder == NULL)
        return tg_fail(err, TG_UNSUPPORTED, "policy labels: OUT must be a directory");
    shape_of(l->o->in, &in);
    shape_of(l->o->out, &to);
    if (in.ndim == 0 || in.ndim != to.ndim || memcmp(in.n, to.n, in.ndim * sizeof *in.n) != 0)
        return tg_fail(err, TG_UNSUPPORTED, "policy labels: OUT must have IN's shape");
    return TG_OK;
}

/* --- The array between ----------------------------------------------------------------------
 */

static tg_status make_between(labels *l, tg_error *err)
{
    const tg_array_info *in = &l->o->in->meta->info;
    const tg_array_options ao = {.size = sizeof ao,
                                 .format = 3,
                                 .dtype = {TG_DT_UINT, 8},
                                 .ndim = in->ndim,
                                 .shape = in->shape,
                                 .chunk = in->chunk,
                                 .shard = in->sharded ? in->shard : NULL,
                                 .codec = "blosc:lz4:1:shuffle",
                                 .overwrite = true};

    tg_array_free(tg_steal(l->between));
    return tg_array_create(l->store, "", &ao, &l->between, l->cancel, err);
}

static tg_status open_between(labels *l, tg_error *err)
{
    const tg_store_options so = {.size = sizeof so, .mode = TG_STORE_OPEN_OR_CREATE};

    tg_text_addf(&l->path, "%s/%s", l->o->folder->path, SCRATCH);
    TG_TRY(tg_text_status(&l->path, err));
    TG_TRY(tg_store_open_fs(&l->store, l->path.data, &so, err));
    TG_TRY(tg_folder_open(&l->folder, l->path.data, "", true, err));
    if (!tg_folder_exists(&l->folder, "journal-0")) /* nothing is in it, if it is there */
        return make_between(l, err);
    return tg_array_open(l->store, "", &l->between, l->cancel, err);
}

/* The regions once more, for another plan. */
static tg_status copy_bounds(const tg_plan *p, uint32_t ndim, uint64_t *bounds)
{
    tg_plan_region r;

    for (uint64_t k = 0; k < tg_plan_n_regions(p); k++) {
        uint64_t *b = bounds + k * 2 * ndim;
        tg_plan_region_get(p, k, &r);
        for (uint32_t d = 0; d < ndim; d++) {
            b[d] = r.region.start[d];
            b[ndim + d] = r.region.start[d] + r.region.shape.n[d];
        }
    }
    return TG_OK;
}

static tg_status plan_gather(labels *l, tg_error *err)
{
    const uint64_t n = tg_plan_n_regions(l->o->plan);
    const uint32_t ndim = l->o->in->meta->info.ndim;
    const uint64_t bytes = n * 2 * ndim * sizeof(uint64_t);
    tg_plan_spec spec = {.facts = *l->facts, .n = n};

    TG_TRY(reserve(l, bytes, err));
    TG_AUTO(tg_mem_ptr) bounds = tg_alloc((size_t)bytes + 1);
    if (bounds == NULL)
        return tg_fail(err, TG_NO_MEMORY, "boxes of regions");
    TG_TRY(copy_bounds(l->o->plan, ndim, bounds));
    spec.bounds = bounds;
    describe(&spec.facts.out, l->between, l->path.data);
    spec.facts.out_new = true;
    spec.facts.in_place = spec.facts.keep_undo = false;
    spec.facts.read = TG_READ_SNAPSHOT;
    TG_TRY(tg_plan_make(&l->plan, &spec, l->budget, l->cancel, err));
    release(l, bytes);
    return TG_OK;
}

/* --- Gather ---------------------------------------------------------------------------------
 */

static void note_failed(void *user, uint32_t region)
{
    labels *l = user;
    if (l->failed != NULL)
        l->failed[region / 8] |= (uint8_t)(1U << (region % 8));
}

static tg_status look_back(labels *l, bool *begun, bool *ended, tg_error *err)
{
    tg_commit_past past;

    TG_TRY(tg_commit_replay(&l->folder, l->plan, 0, false, note_failed, l, &past, err));
    *begun = past.begun;
    *ended = past.ended && !past.other;
    const bool other = past.other;
    tg_commit_past_destroy(&past);
    if (!other) {
        if (!*begun) /* killed between the first file and the first record */
            return tg_folder_drop_all(&l->folder, NULL, "journal-", err);
        return TG_OK;
    }
    /* One with other parameters, whose last pass had not begun. */
    *begun = false;
    if (l->failed != NULL)
        memset(l->failed, 0, (size_t)tg_plan_n_regions(l->plan) / 8 + 1);
    TG_TRY(tg_folder_drop_all(&l->folder, NULL, "", err));
    return make_between(l, err);
}

static tg_status run_gather(labels *l, tg_error *err)
{
    const uint64_t bits = tg_plan_n_regions(l->plan) / 8 + 1;
    tg_engine_options eo = *l->o;
    bool begun = false, ended = false;
    tg_gather_pass pass;

    if (l->o->skip) {
        TG_TRY(reserve(l, bits, err));
        l->failed = tg_calloc((size_t)bits, 1);
        if (l->failed == NULL)
            return tg_fail(err, TG_NO_MEMORY, "regions that failed");
    }
    TG_TRY(look_back(l, &begun, &ended, err));
    if (ended)
        return TG_OK;
    tg_gather_init(&pass, l->o->fn, l->o->plan);
    eo.plan = l->plan;
    eo.out = l->between;
    eo.fn = &pass.f;
    eo.folder = &l->folder;
    eo.labels = true;
    tg_status st = tg_engine_run(&eo, l->r, l->cancel, err);
    if (st != TG_OK && !begun && l->r->calls == 0) /* refused: nothing is left of it */
        (void)!tg_labels_tidy(l->o->folder, NULL);
    TG_TRY(st);
    return l->o->skip ? look_back(l, &begun, &ended, err) : TG_OK;
}

/* --- Scan ------------------------------------------------------------------------------------
 */

static bool is_chunk(const labels *l, const tg_plan_unit *unit, uint32_t inner,
                     const uint32_t *writers, tg_box *box)
{
    const tg_array_meta *m = l->between->meta;
    tg_box array = {.shape = {.ndim = 0}}, chunk = {.shape = m->chunk};
    uint64_t inside[TG_MAX_NDIM];

    if (writers[inner] == 0)
        return false;
    shape_of(l->between, &array.shape);
    tg_unravel(&m->grid, inner, inside);
    for (uint32_t d = 0; d < m->info.ndim; d++)
        chunk.start[d] = (unit->index[d] * m->grid.n[d] + inside[d]) * m->chunk.n[d];
    return tg_box_intersect(&chunk, &array, box);
}

/* A region for each chunk that anything was written to; bounds NULL: only count. */
static uint64_t each_chunk(const labels *l, uint64_t *bounds)
{
    const uint32_t ndim = l->between->meta->info.ndim;
    uint64_t n = 0;
    tg_plan_unit unit;
    tg_box box;

    for (uint64_t u = 0; u < tg_plan_n_units(l->plan); u++) {
        tg_plan_unit_get(l->plan, u, &unit);
        const uint32_t *writers = tg_plan_unit_writers(l->plan, u);
        for (uint32_t i = 0; i < unit.n_inner; i++) {
            if (!is_chunk(l, &unit, i, writers, &box))
                continue;
            for (uint32_t d = 0; d < ndim && bounds != NULL; d++) {
                bounds[n * 2 * ndim + d] = box.start[d];
                bounds[n * 2 * ndim + ndim + d] = box.start[d] + box.shape.n[d];
            }
            n++;
        }
    }
    return n;
}

static tg_status plan_scan(labels *l, tg_plan **out, tg_error *err)
{
    const uint32_t ndim = l->between->meta->info.ndim;
    const tg_function_facts *f = &l->o->fn->facts;
    const uint64_t n = each_chunk(l, NULL), bytes = n * 2 * ndim * sizeof(uint64_t);
    tg_plan_spec spec = {.n = n};

    TG_TRY(reserve(l, bytes, err));
    TG_AUTO(tg_mem_ptr) bounds = tg_alloc((size_t)bytes + 1);
    if (bounds == NULL)
        return tg_fail(err, TG_NO_MEMORY, "chunks of labels");
    (void)each_chunk(l, bounds);
    spec.bounds = bounds;
    spec.facts.text = spec.facts.rois = spec.facts.options = "";
    describe(&spec.facts.in, l->between, l->path.data);
    spec.facts.policy = TG_POLICY_MAX;
    spec.facts.parts = 1;
    for (uint32_t d = 0; d < ndim; d++) {
        spec.facts.halo[d] = f->across[d];
        spec.facts.out_step[d] = 1;
    }
    spec.facts.out.url = spec.facts.out.path = "";
    TG_TRY(tg_plan_make(out, &spec, l->budget, l->cancel, err));
    release(l, bytes);
    return TG_OK;
}

/* More of one pass for the report. */
static void add_result(tg_engine_result *r, const tg_engine_result *more)
{
    r->spilled_bytes += more->spilled_bytes;
    r->memory_peak = more->memory_peak > r->memory_peak ? more->memory_peak : r->memory_peak;
    r->seconds += more->seconds;
    r->commits += more->commits;
}

static tg_status scan_with(labels *l, tg_scan_pass *pass, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) room = tg_calloc(1, sizeof(tg_engine_result));
    TG_AUTO_PTR(tg_plan) plan = NULL;
    tg_engine_result *r = room;
    tg_engine_options eo = *l->o;

    if (r == NULL)
        return tg_fail(err, TG_NO_MEMORY, "report");
    pass->objects = l->objects;
    pass->touching = l->touching;
    TG_TRY(plan_scan(l, &plan, err));
    eo.plan = plan;
    eo.in = l->between;
    eo.out = NULL;
    eo.fn = &pass->f;
    eo.folder = NULL;
    eo.skip = false;
    eo.retries = 0;
    eo.n_called = 0;
    eo.labels = true;
    TG_TRY(tg_engine_run(&eo, r, l->cancel, err));
    add_result(l->r, r);
    return TG_OK;
}

static tg_status run_scan(labels *l, uint64_t sort_bytes, tg_error *err)
{
    tg_scan_pass pass;

    TG_TRY(tg_sorter_new(&l->objects, l->o->folder, (size_t)sort_bytes, err));
    TG_TRY(tg_sorter_new(&l->touching, l->o->folder, (size_t)sort_bytes, err));
    tg_status st = tg_scan_init(&pass, &l->o->fn->facts, l->between->meta->info.ndim, err);
    if (st == TG_OK)
        st = scan_with(l, &pass, err);
    tg_scan_destroy(&pass);
    return st;
}

/* --- Number ----------------------------------------------------------------------------------
 */

static uint64_t greatest_of(tg_dtype t)
{
    const uint32_t bits = t.size * 8 - (t.kind == TG_DT_INT);
    return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static tg_status stitch(labels *l, tg_error *err)
{
    const uint64_t greatest = greatest_of(l->o->out->meta->info.dtype);
    uint64_t have = available(l) / 3 / (SORTERS + 2), n = 0, base = 0;
    char name[16];

    have = have < LEAST_SORT ? LEAST_SORT : have > MOST_SORT ? MOST_SORT : have;
    TG_TRY(reserve(l, have * (SORTERS + 2) + TG_NUMBERS_BYTES, err));
    TG_TRY(run_scan(l, have, err));
    TG_TRY(tg_labels_base(l->o, l->failed, &base, l->cancel, err));
    TG_TRY(tg_stitch(&l->numbers, l->objects, l->touching, l->o->folder, (size_t)have, base, &n,
                     &l->r->spilled_bytes, err));
    l->r->spilled_bytes += tg_sorter_spilled(l->objects) + tg_sorter_spilled(l->touching);
    tg_sorter_free(tg_steal(l->objects));
    tg_sorter_free(tg_steal(l->touching));
    release(l, have * (SORTERS + 2));
    if (base <= greatest && n <= greatest - base)
        return TG_OK;
    return tg_fail(err, TG_INVALID,
                   "%" PRIu64 " objects, numbered from %" PRIu64
                   " on: OUT's items are %s, up to %" PRIu64 ": want a wider --dtype",
                   n, base + 1, tg_dtype_name(l->o->out->meta->info.dtype, name), greatest);
}

/* What the report says of the whole: calls are those of the user's function, what is written is
 * what went to OUT. */
static void join_results(labels *l, const tg_engine_result *last)
{
    tg_engine_result *r = l->r;

    r->units_written = last->units_written;
    r->spilled_bytes += r->bytes_written; /* to the array between */
    r->bytes_written = last->bytes_written;
    r->saturated = last->saturated;
    if (last->failed > r->failed) {
        r->first_failed = last->first_failed;
        memcpy(r->why, last->why, sizeof r->why);
    }
    r->failed = last->failed > r->failed ? last->failed : r->failed;
    add_result(r, last);
}

static tg_status run_number(labels *l, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) room = tg_calloc(1, sizeof(tg_engine_result));
    const uint32_t jobs = l->o->jobs > 0 ? l->o->jobs : tg_runtime_threads(l->o->rt);
    const uint64_t bytes = jobs * sizeof(tg_number_cache);
    tg_engine_result *last = room;
    tg_engine_options eo = *l->o;
    tg_number_pass pass;

    TG_TRY(reserve(l, bytes, err));
    TG_AUTO(tg_mem_ptr) caches = tg_calloc(jobs, sizeof(tg_number_cache));
    if (last == NULL || caches == NULL)
        return tg_fail(err, TG_NO_MEMORY, "caches of numbers");
    tg_number_init(&pass, l->numbers, caches, l->failed);
    eo.in = l->between;
    eo.fn = &pass.f;
    eo.retries = 0;
    eo.labels = true;
    tg_status st = tg_engine_run(&eo, last, l->cancel, err);
    join_results(l, last);
    return st;
}

tg_status tg_labels_run(const tg_engine_options *options, tg_engine_result *result,
                        const tg_cancel *cancel, tg_error *err)
{
    __attribute__((cleanup(labels_auto))) labels l = {
        .o = options,
        .facts = tg_plan_get_facts(options->plan),
        .cancel = cancel,
        .r = result,
        .budget = tg_runtime_budget(options->rt),
        .folder = {.dir = -1},
    };

    *result = (tg_engine_result){0};
    TG_TRY(check(&l, err));
    TG_TRY(open_between(&l, err));
    TG_TRY(plan_gather(&l, err));
    TG_TRY(run_gather(&l, err));
    TG_TRY(stitch(&l, err));
    tg_plan_free(tg_steal(l.plan));
    return run_number(&l, err);
}

tg_status tg_labels_tidy(const tg_folder *folder, tg_error *err)
{
    TG_TRY(tg_folder_drop_tree(folder, SCRATCH ".tidegate", err));
    TG_TRY(tg_folder_drop_tree(folder, SCRATCH, err));
    return tg_folder_drop(folder, TG_LABELS_BASE_FILE, err);
}
