/* copy: a hierarchy, node by node. Data first, documents after it, the root's last. */
#include "tree/copy.h"

#include "base/clock.h"
#include "zarr/node.h"

#include <stdio.h>
#include <string.h>

/* The nodes of the source, parents before their children. */
typedef struct nodes {
    tg_text paths; /* each ended by NUL, after 'g' or 'a' */
    uint64_t n_arrays, n_groups;
    uint64_t sum;   /* of all documents and options: what plan this is */
    uint64_t place; /* of the destination's path */
} nodes;

static void nodes_auto(nodes *n)
{
    tg_text_free(&n->paths);
}

/* FNV-1a: not against malice, but to tell one plan from another. */
static void sum_bytes(nodes *n, const void *data, size_t len)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < len; i++)
        n->sum = (n->sum ^ p[i]) * UINT64_C(0x100000001b3);
}

static void sum_text(nodes *n, const char *s)
{
    sum_bytes(n, s == NULL ? "" : s, s == NULL ? 1 : strlen(s) + 1);
}

static void sum_numbers(nodes *n, const uint64_t *v, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (int bit = 0; bit < 64; bit += 8)
            n->sum = (n->sum ^ (v[i] >> bit & 0xff)) * UINT64_C(0x100000001b3);
}

static void sum_options(nodes *n, const copy_job *j)
{
    const tg_copy_options *o = j->o;
    const uint64_t numbers[] = {(uint64_t)o->format, o->chunk_ndim, o->shard_ndim, o->no_shards,
                                o->dtype.kind,       o->dtype.size, o->region_ndim};

    n->sum = UINT64_C(0xcbf29ce484222325);
    sum_numbers(n, numbers, sizeof numbers / sizeof numbers[0]);
    sum_numbers(n, o->chunk, o->chunk_ndim);
    sum_numbers(n, o->shard, o->shard_ndim);
    sum_numbers(n, o->start, o->region_ndim);
    sum_numbers(n, o->count, o->region_ndim);
    sum_text(n, o->codec);
    sum_text(n, tg_store_describe(j->src));
    sum_text(n, j->src_path);
    sum_text(n, j->dst_path);
}

static void sum_place(nodes *n, const copy_job *j)
{
    n->sum = UINT64_C(0xcbf29ce484222325);
    sum_text(n, j->dst_path);
    n->place = n->sum;
}

static tg_status walk(const copy_job *j, const char *path, nodes *n, tg_error *err);

static tg_status walk_children(const copy_job *j, const char *path, nodes *n, tg_error *err)
{
    char child[TG_PATH_BYTES];
    char **names = NULL;

    tg_status st = tg_node_children(j->src, path, &names, j->cancel, err);
    for (size_t i = 0; st == TG_OK && names[i] != NULL; i++) {
        st = tg_path_join(child, sizeof child, path, names[i], err);
        if (st == TG_OK)
            st = walk(j, child, n, err);
    }
    tg_names_free(names);
    return st;
}

static tg_status walk(const copy_job *j, const char *path, nodes *n, tg_error *err)
{
    TG_AUTO_PTR(tg_node) node = NULL;

    TG_TRY(tg_node_open(j->src, path, &node, j->cancel, err));
    const bool is_array = tg_node_kind_of(node) == TG_NODE_ARRAY;
    tg_text_add(&n->paths, is_array ? "a" : "g");
    tg_text_add_n(&n->paths, path, strlen(path) + 1);
    TG_TRY(tg_text_status(&n->paths, err));
    n->n_arrays += is_array;
    n->n_groups += !is_array;
    sum_text(n, path);
    sum_text(n, tg_node_metadata(node));
    sum_text(n, tg_node_attributes(node));
    return is_array ? TG_OK : walk_children(j, path, n, err);
}

/* Where a node goes. */
static tg_status target(const copy_job *j, const char *path, char dst[TG_PATH_BYTES],
                        tg_error *err)
{
    const char *below = path + strlen(j->src_path);

    below += *below == '/';
    if (*below != '\0')
        return tg_path_join(dst, TG_PATH_BYTES, j->dst_path, below, err);
    memcpy(dst, j->dst_path, strlen(j->dst_path) + 1);
    return TG_OK;
}

/* --- Arrays ---------------------------------------------------------------------- */

static tg_status choose_box(const copy_job *j, const tg_array *a, tg_box *box, tg_error *err)
{
    const tg_array_info *info = &a->meta->info;
    const tg_copy_options *o = j->o;

    box->shape.ndim = info->ndim;
    memset(box->start, 0, sizeof box->start);
    memcpy(box->shape.n, info->shape, sizeof box->shape.n);
    if (o->region_ndim == 0)
        return TG_OK;
    if (o->region_ndim != info->ndim)
        return tg_fail(err, TG_INVALID, "region: %u dimensions, the array has %u",
                       (unsigned)o->region_ndim, (unsigned)info->ndim);
    return tg_request_box(a, o->start, o->count, box, err);
}

static tg_status open_array(copy_job *j, const char *path, copy_array *c, tg_error *err)
{
    TG_AUTO_PTR(tg_array_meta) m = NULL;
    char dst[TG_PATH_BYTES];
    char **names = NULL;

    TG_TRY(tg_array_open(j->src, path, &c->a, j->cancel, err));
    TG_TRY(choose_box(j, c->a, &c->box, err));
    TG_TRY(copy_ome_names(j, path, c->a->meta->info.ndim, &names, err));
    tg_status st = copy_array_meta(j, c->a, &c->box, (const char *const *)names, &m, err);
    tg_names_free(names);
    if (st != TG_OK)
        return st;
    TG_TRY(target(j, path, dst, err));
    TG_TRY(tg_array_unpublished(j->dst, dst, tg_steal(m), &c->b, err));
    return copy_array_plan(c, err);
}

static tg_status check_array(copy_job *j, const char *path, uint64_t *units, tg_error *err)
{
    copy_array c = {.j = j};

    tg_status st = open_array(j, path, &c, err);
    *units += st == TG_OK ? c.n_visits * (j->o->verify ? 2 : 1) : 0;
    copy_array_close(&c);
    return st;
}

/* The document of the root is not put yet: *root is that array then. */
static tg_status run_array(copy_job *j, uint32_t number, const char *path, bool is_root,
                           tg_array **root, tg_error *err)
{
    copy_array c = {.j = j, .number = number};

    tg_status st = open_array(j, path, &c, err);
    if (st == TG_OK)
        st = copy_array_run(&c, err);
    if (st == TG_OK && is_root)
        *root = tg_steal(c.b);
    else if (st == TG_OK)
        st = tg_array_publish(c.b, j->cancel, err);
    copy_array_close(&c);
    return st;
}

/* --- All nodes ---------------------------------------------------------------------- */

static tg_status check_nodes(copy_job *j, const nodes *n, tg_error *err)
{
    uint64_t units = 0;

    if (j->o->region_ndim > 0 && n->paths.data[0] != 'a')
        return tg_fail(err, TG_INVALID, "a region is part of an array, '%.200s' is a group",
                       j->src_path);
    for (size_t at = 0; at < n->paths.len; at += strlen(n->paths.data + at) + 1)
        if (n->paths.data[at] == 'a')
            TG_TRY(check_array(j, n->paths.data + at + 1, &units, err));
    const tg_progress all = {.stage = "copy", .total = units};
    tg_reporter_set(j->reporter, &all, false);
    return TG_OK;
}

/* Groups from the last to the first: children before their parents. */
static tg_status put_groups(copy_job *j, const nodes *n, tg_error *err)
{
    char dst[TG_PATH_BYTES];

    for (size_t end = n->paths.len; end > 0;) {
        size_t at = end - 1; /* at the NUL */
        while (at > 0 && n->paths.data[at - 1] != '\0')
            at--;
        if (at > 0 && n->paths.data[at] == 'g') {
            TG_TRY(target(j, n->paths.data + at + 1, dst, err));
            TG_TRY(copy_group(j, n->paths.data + at + 1, dst, err));
        }
        end = at;
    }
    return TG_OK;
}

static tg_status put_root(copy_job *j, const nodes *n, tg_array *root, tg_error *err)
{
    int format = j->o->format;

    TG_TRY(tg_store_sync(j->dst, NULL, err));
    if (format == 0) {
        TG_AUTO_PTR(tg_node) node = NULL;
        TG_TRY(tg_node_open(j->src, j->src_path, &node, j->cancel, err));
        format = tg_node_format(node);
    }
    TG_TRY(tg_make_ancestors(j->dst, j->dst_path, format, j->cancel, err));
    TG_TRY(root != NULL ? tg_array_publish(root, j->cancel, err)
                        : copy_group(j, n->paths.data + 1, j->dst_path, err));
    TG_TRY(tg_store_sync(j->dst, NULL, err));
    return tg_consolidated_drop(j->dst, j->dst_path, j->cancel, err);
}

static tg_status run_nodes(copy_job *j, const nodes *n, tg_error *err)
{
    TG_AUTO_PTR(tg_array) root = NULL;
    uint32_t number = 0;

    for (size_t at = 0; at < n->paths.len; at += strlen(n->paths.data + at) + 1)
        if (n->paths.data[at] == 'a')
            TG_TRY(run_array(j, number++, n->paths.data + at + 1, at == 0, &root, err));
    TG_TRY(put_groups(j, n, err));
    TG_TRY(put_root(j, n, root, err));
    return tg_store_sync(j->dst, NULL, err);
}

/* --- The destination ------------------------------------------------------------------ */

static bool stop_at_first(void *user, const char *name)
{
    bool *found = user;
    (void)name;
    *found = true;
    return false;
}

/* A node may go, files that are none may not. */
static tg_status clear_place(copy_job *j, tg_error *err)
{
    char prefix[TG_PATH_BYTES + 1];
    tg_node_kind kind = TG_NODE_GROUP;
    bool found = false, files = false;

    tg_status st = tg_node_probe(j->dst, j->dst_path, &found, &kind, j->cancel, err);
    if (st != TG_OK && !(j->o->overwrite && (st == TG_CORRUPT || st == TG_UNSUPPORTED)))
        return st;
    found |= st != TG_OK;
    if (found && !j->o->overwrite)
        return tg_fail(err, TG_EXISTS, "%s: there is %s at '%.200s' (overwrite replaces it)",
                       tg_store_describe(j->dst),
                       kind == TG_NODE_ARRAY ? "an array" : "a group", j->dst_path);
    (void)snprintf(prefix, sizeof prefix, "%s%s", j->dst_path,
                   j->dst_path[0] == '\0' ? "" : "/");
    TG_TRY(tg_store_list(j->dst, prefix, stop_at_first, &files, j->cancel, err));
    if (!files)
        return TG_OK;
    if (!found && !(j->log.owned && j->o->overwrite))
        return tg_fail(err, TG_EXISTS,
                       "%s: '%.200s' is not empty and no Zarr node: nothing is put there",
                       tg_store_describe(j->dst), j->dst_path);
    TG_TRY(copy_log_clearing(&j->log, err));
    return tg_node_erase(j->dst, j->dst_path, j->cancel, err);
}

static tg_status begin(copy_job *j, const nodes *n, tg_error *err)
{
    TG_TRY(copy_log_open(&j->log, j->dst, n->sum, n->place, j->o->overwrite, err));
    if (j->log.begun)
        return TG_OK;
    tg_status st = clear_place(j, err);
    if (st == TG_OK)
        return copy_log_begin(&j->log, err);
    if (!j->log.resumed) /* nothing was begun */
        copy_log_forget(&j->log);
    return st;
}

tg_status copy_commit(copy_job *j, uint32_t array, const uint64_t *units, size_t n,
                      tg_error *err)
{
    j->committed_ns = tg_clock_ns();
    if (n == 0)
        return TG_OK;
    TG_TRY(tg_store_sync(j->dst, NULL, err));
    return copy_log_done(&j->log, array, units, n, err);
}

static tg_status run(copy_job *j, nodes *n, tg_error *err)
{
    sum_place(n, j);
    sum_options(n, j);
    TG_TRY(walk(j, j->src_path, n, err));
    TG_TRY(check_nodes(j, n, err));
    TG_TRY(begin(j, n, err));
    TG_TRY(run_nodes(j, n, err));
    return copy_log_end(&j->log, err);
}

/* --- The call ---------------------------------------------------------------------------- */

static tg_status check_options(const tg_copy_options *o, const tg_copy_result *r, tg_error *err)
{
    if (o->size != sizeof *o || r->size == 0)
        return tg_fail(err, TG_INVALID, "copy: 'size' of options or result is not set");
    if (o->format != 0 && o->format != 2 && o->format != 3)
        return tg_fail(err, TG_INVALID, "zarr format %d, want 2 or 3", o->format);
    if (o->chunk_ndim > TG_MAX_NDIM || o->shard_ndim > TG_MAX_NDIM ||
        o->region_ndim > TG_MAX_NDIM)
        return tg_fail(err, TG_INVALID, "more than %d dimensions", TG_MAX_NDIM);
    if (o->no_shards && o->shard_ndim > 0)
        return tg_fail(err, TG_INVALID, "shards, and none");
    if (o->format == 2 && o->shard_ndim > 0)
        return tg_fail(err, TG_INVALID, "shards: not in Zarr format 2");
    for (uint32_t i = 0; i < o->chunk_ndim; i++)
        if (o->chunk[i] == 0)
            return tg_fail(err, TG_INVALID, "chunk extent %u is 0", (unsigned)i);
    for (uint32_t i = 0; i < o->shard_ndim; i++)
        if (o->shard[i] == 0)
            return tg_fail(err, TG_INVALID, "shard extent %u is 0", (unsigned)i);
    return TG_OK;
}

typedef struct wraps {
    tg_store *in, *out, *lazy;
} wraps;

static void wraps_auto(wraps *w)
{
    tg_store_free(w->lazy);
    tg_store_free(w->out);
    tg_store_free(w->in);
}

static void report(const copy_job *j, const nodes *n, const wraps *w, tg_copy_result *result)
{
    const size_t size = result->size;
    const tg_copy_result all = {.size = size,
                                .arrays = n->n_arrays,
                                .groups = n->n_groups,
                                .units = atomic_load(&j->units),
                                .units_encoded = atomic_load(&j->units_encoded),
                                .units_resumed = atomic_load(&j->units_resumed),
                                .bytes_in = tg_store_counted(w->in).get_bytes,
                                .bytes_out = tg_store_counted(w->out).put_bytes,
                                .saturated = atomic_load(&j->saturated)};
    memcpy(result, &all, size < sizeof all ? size : sizeof all);
}

tg_status tg_copy(tg_runtime *rt, tg_store *src, const char *src_path, tg_store *dst,
                  const char *dst_path, const tg_copy_options *options, tg_progress_fn progress,
                  void *progress_user, tg_copy_result *result, const tg_cancel *cancel,
                  tg_error *err)
{
    TG_AUTO(nodes) n = {0};
    TG_AUTO(wraps) w = {0};
    TG_AUTO_PTR(tg_reporter) reporter = NULL;
    char from[TG_PATH_BYTES], to[TG_PATH_BYTES];
    copy_job j = {.rt = rt, .o = options, .cancel = cancel, .log = {.side = {.dir = -1}}};

    TG_TRY(check_options(options, result, err));
    TG_TRY(tg_path_normalise(from, sizeof from, src_path, err));
    TG_TRY(tg_path_normalise(to, sizeof to, dst_path, err));
    TG_TRY(tg_node_path_check(to, err));
    TG_TRY(tg_reporter_new(&reporter, progress, progress_user, "copy", 0, err));
    TG_TRY(tg_store_open_count(&w.in, src, err));
    TG_TRY(tg_store_open_count(&w.out, dst, err));
    TG_TRY(tg_store_open_lazy(&w.lazy, w.out, err));
    j.src = w.in;
    j.dst = w.lazy;
    j.src_path = from;
    j.dst_path = to;
    j.reporter = reporter;
    j.committed_ns = tg_clock_ns();
    tg_budget *budget = tg_runtime_budget(rt);
    const uint64_t own = tg_store_own_bytes(src);
    TG_TRY(tg_budget_reserve(budget, own, "connections", err));
    tg_status st = run(&j, &n, err);
    tg_budget_release(budget, own);
    copy_log_free(&j.log);
    report(&j, &n, &w, result);
    return st;
}
