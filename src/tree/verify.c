/* verify: a walk over the nodes below a path; each array's units, and the frames
 * of those that have a frame table beside them. */
#include "tree/verify_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void verify_bad(verify_job *j, const char *key, const char *what, const tg_error *why)
{
    j->result.bad++;
    if (j->bad != NULL)
        j->bad(j->user, key, what, why);
}

bool verify_is_finding(tg_status st)
{
    return st == TG_CORRUPT || st == TG_IO || st == TG_UNSUPPORTED || st == TG_INVALID;
}

static tg_status verify_array(verify_job *j, const char *path, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_error why = {0};
    verify_frames f = {0};

    tg_status st = tg_array_open(j->store, path, &a, j->cancel, &why);
    if (verify_is_finding(st)) {
        verify_bad(j, path, "", &why);
        return TG_OK;
    }
    if (st != TG_OK) {
        if (err != NULL)
            *err = why;
        return st;
    }
    st = verify_frames_open(j, a, &f, err);
    if (st == TG_OK)
        st = verify_units(j, a, f.crc != NULL, err);
    if (st == TG_OK && f.crc != NULL)
        st = verify_frames_run(j, &f, err);
    verify_frames_close(&f);
    return st;
}

/* TG_NOT_FOUND: no node. Depth is bounded by the length of a path. */
static tg_status walk(verify_job *j, const char *path, tg_error *err);

static tg_status walk_children(verify_job *j, const char *path, tg_error *err)
{
    char child[TG_PATH_BYTES];
    char **names = NULL;

    tg_status st = tg_node_children(j->store, path, &names, j->cancel, err);
    for (size_t i = 0; st == TG_OK && names[i] != NULL; i++) {
        st = tg_path_join(child, sizeof child, path, names[i], err);
        if (st == TG_OK)
            st = walk(j, child, err);
        if (st == TG_NOT_FOUND) /* removed since it was listed */
            st = TG_OK;
    }
    tg_names_free(names);
    return st;
}

static tg_status walk(verify_job *j, const char *path, tg_error *err)
{
    TG_AUTO_PTR(tg_node) n = NULL;
    tg_error why = {0};

    tg_status st = tg_node_open(j->store, path, &n, j->cancel, &why);
    if (st == TG_OK && tg_node_kind_of(n) == TG_NODE_ARRAY)
        return verify_array(j, path, err);
    if (st == TG_OK)
        return walk_children(j, path, err);
    if (verify_is_finding(st)) {
        verify_bad(j, path, "", &why);
        return TG_OK;
    }
    if (err != NULL)
        *err = why;
    return st;
}

tg_status tg_verify(tg_runtime *rt, tg_store *store, const char *path, tg_verify_fn bad,
                    void *user, tg_progress_fn progress, void *progress_user,
                    tg_verify_result *result, const tg_cancel *cancel, tg_error *err)
{
    verify_job j = {.rt = rt, .store = store, .bad = bad, .user = user, .cancel = cancel};
    TG_AUTO_PTR(tg_reporter) reporter = NULL;
    char clean[TG_PATH_BYTES];
    const size_t size = result->size;

    if (size == 0)
        return tg_fail(err, TG_INVALID, "verify: 'size' of the result is not set");
    TG_TRY(tg_path_normalise(clean, sizeof clean, path, err));
    TG_TRY(tg_reporter_new(&reporter, progress, progress_user, "verify", 0, err));
    j.reporter = reporter;
    tg_budget *budget = tg_runtime_budget(rt);
    const uint64_t own = tg_store_own_bytes(store);
    TG_TRY(tg_budget_reserve(budget, own, "connections", err));
    tg_status st = walk(&j, clean, err);
    tg_budget_release(budget, own);
    if (st != TG_OK)
        return st;
    memcpy(result, &j.result, size < sizeof j.result ? size : sizeof j.result);
    result->size = size;
    return TG_OK;
}
