/* Is what the parts of a run have written there when all is merged? A file system or a store
 * that drops writes without a word is found out before OUT is called done. */
#include "base/journal.h"
#include "region/commit.h"
#include "zarr/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct arrival {
    const tg_plan *plan;
    tg_array *out;
    uint64_t n_missing;
    char names[300]; /* of the first, for the message */
    size_t len;
} arrival;

static void see_unit(arrival *a, uint32_t u, uint64_t bytes)
{
    char key[TG_KEY_BYTES];
    tg_plan_unit unit;
    struct stat st;

    tg_plan_unit_get(a->plan, u, &unit);
    tg_unit_key(a->out, unit.index, key);
    const bool there = tg_sys_stat(tg_store_dir(a->out->store), key, &st, 0) == 0;
    if (there && (uint64_t)st.st_size == bytes)
        return;
    a->n_missing++;
    char text[TG_KEY_BYTES + 64];
    int n =
        there ? snprintf(text, sizeof text, "%s'%.200s' (%" PRIu64 " bytes, want %" PRIu64 ")",
                         a->len == 0 ? "" : ", ", key, (uint64_t)st.st_size, bytes)
              : snprintf(text, sizeof text, "%s'%.200s' (not there)", a->len == 0 ? "" : ", ",
                         key);
    if (n > 0 && a->len + (size_t)n < sizeof a->names) {
        memcpy(a->names + a->len, text, (size_t)n + 1);
        a->len += (size_t)n;
    }
}

static tg_status see_sizes(void *user, uint16_t type, tg_bytes p, uint64_t offset,
                           tg_error *err)
{
    arrival *a = user;
    const size_t n = p.len / 12;
    uint64_t bytes;
    uint32_t u;

    (void)offset;
    if (type != TG_APPLY_SIZES)
        return TG_OK;
    for (size_t i = 0; i < n; i++) {
        memcpy(&u, p.data + 4 * i, 4);
        memcpy(&bytes, p.data + 4 * n + 8 * i, 8);
        if (u >= tg_plan_n_units(a->plan))
            return tg_fail(err, TG_CORRUPT, "unit %" PRIu32 " is not of this plan", u);
        see_unit(a, u, bytes);
    }
    return TG_OK;
}

tg_status tg_commit_check_published(const tg_folder *folder, const tg_plan *plan, tg_array *out,
                                    tg_error *err)
{
    const uint32_t parts = tg_plan_get_facts(plan)->parts;
    arrival a = {.plan = plan, .out = out};
    tg_status st = TG_OK;
    char name[32];

    for (uint32_t part = 0; st == TG_OK && part <= parts; part++) {
        tg_commit_journal_name(part, part == parts, name);
        if (tg_folder_exists(folder, name))
            st = tg_journal_replay(folder->dir, name, TG_APPLY_JOURNAL_KIND,
                                   TG_APPLY_JOURNAL_MAJOR, NULL, see_sizes, &a, NULL, err);
    }
    if (st == TG_OK && a.n_missing > 0)
        return tg_fail(err, TG_CORRUPT,
                       "%" PRIu64 " units that were written are not as they were left: %s: put "
                       "them back and `finish`, or `clean` and plan again",
                       a.n_missing, a.names);
    return st;
}
