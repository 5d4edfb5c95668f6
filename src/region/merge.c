/* The merge of a plan's parts: units that several parts write, or read and write, are folded
 * here in list order from the fragments that the parts have left (region/border.h). One unit
 * after the other, so that what is in memory is one unit's accumulators. */
#include "base/crc32c.h"
#include "region/engine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILE_HEAD = 24,
    HEAD = 24
}; /* bytes before the fragments, and before the items of one */

static bool is_merged(const tg_plan *p, uint64_t u, tg_plan_unit *unit)
{
    tg_plan_unit_get(p, u, unit);
    return unit->border || unit->foreign_reads;
}

uint64_t tg_merge_n_fragments(const tg_plan *p)
{
    tg_plan_unit unit;
    uint64_t n = 0;

    for (uint64_t u = 0; u < tg_plan_n_units(p); u++)
        n += is_merged(p, u, &unit) ? unit.n_writing : 0;
    return n;
}

/* --- What the parts have left ----------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const merge_fragment *x = a, *y = b;

    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    return x->region == y->region ? 0 : x->region < y->region ? -1 : 1;
}

static uint64_t cut_bytes(const engine *e, uint32_t unit, const tg_plan_region *r, tg_box *cut)
{
    const tg_box box = tg_plan_unit_box(e->o.plan, unit);
    uint64_t n = tg_run_fold_bytes(e);

    if (!tg_box_intersect(&box, &r->write, cut))
        return 0;
    for (uint32_t d = 0; d < cut->shape.ndim; d++)
        n *= cut->shape.n[d];
    return n;
}

static tg_status bad_file(uint32_t part, uint64_t at, const char *what, tg_error *err)
{
    return tg_fail(err, TG_CORRUPT, "'border-%" PRIu32 "' at byte %" PRIu64 ": %s", part, at,
                   what);
}

static tg_status add_fragment(engine *e, uint32_t part, uint64_t at, const uint8_t *head,
                              uint64_t *bytes, tg_error *err)
{
    uint32_t unit, region, sum;
    tg_plan_region r;
    tg_plan_unit info;
    tg_box cut;

    memcpy(&unit, head, 4);
    memcpy(&region, head + 4, 4);
    memcpy(bytes, head + 8, 8);
    memcpy(&sum, head + 20, 4);
    if (sum != tg_crc32c(0, head, 20))
        return bad_file(part, at, "the sum of a fragment's head is wrong", err);
    if (unit >= tg_plan_n_units(e->o.plan) || region >= tg_plan_n_regions(e->o.plan) ||
        !is_merged(e->o.plan, unit, &info))
        return bad_file(part, at, "a fragment of no unit that is shared", err);
    tg_plan_region_get(e->o.plan, region, &r);
    if (r.empty || r.part != part || *bytes != cut_bytes(e, unit, &r, &cut) || *bytes == 0)
        return bad_file(part, at, "a fragment that is not of this plan", err);
    if (e->n_fragments == e->cap_fragments)
        return bad_file(part, at, "more fragments than the plan has", err);
    e->fragments[e->n_fragments++] = (merge_fragment){unit, region, part, 0, at + HEAD};
    return TG_OK;
}

static tg_status index_file(engine *e, uint32_t part, int fd, const char *name, uint64_t length,
                            tg_error *err)
{
    const uint64_t fingerprint = tg_plan_fingerprint(e->o.plan);
    uint8_t head[HEAD];
    uint64_t bytes = 0;

    TG_TRY(tg_fd_read_at(fd, head, FILE_HEAD, 0, name, err));
    const uint32_t version = TG_BORDER_VERSION;
    if (memcmp(head, "TGBORDER", 8) != 0 || memcmp(head + 8, &version, 4) != 0 ||
        memcmp(head + 12, &part, 4) != 0 || memcmp(head + 16, &fingerprint, 8) != 0)
        return bad_file(part, 0, "of another version, part or plan", err);
    for (uint64_t at = FILE_HEAD; at < length; at += HEAD + bytes) {
        if (length - at < HEAD)
            return bad_file(part, at, "a fragment is cut short", err);
        TG_TRY(tg_fd_read_at(fd, head, HEAD, at, name, err));
        TG_TRY(add_fragment(e, part, at, head, &bytes, err));
        if (bytes > length - at - HEAD)
            return bad_file(part, at, "a fragment is cut short", err);
    }
    return TG_OK;
}

static tg_status open_border(const engine *e, uint32_t part, int *fd, char name[32],
                             tg_error *err)
{
    (void)snprintf(name, 32, "border-%" PRIu32, part);
    *fd = tg_sys_open(e->o.folder->dir, name, O_RDONLY | O_NONBLOCK, 0);
    return *fd >= 0 ? TG_OK : tg_folder_fail(e->o.folder, "open", name, err);
}

static void note_failed(void *user, uint32_t region)
{
    engine *e = user;
    e->failed_bits[region / 8] |= (uint8_t)(1U << (region % 8));
}

/* Its units are its own: what a journal says of others is wrong. */
static tg_status check_done(const engine *e, uint32_t part, const tg_commit_past *past,
                            tg_error *err)
{
    tg_plan_unit unit;

    for (uint64_t u = 0; u < tg_plan_n_units(e->o.plan); u++) {
        const bool merged = is_merged(e->o.plan, u, &unit);
        const bool done = past->done != NULL && (past->done[u / 8] >> (u % 8) & 1) != 0;
        if (done && (merged || unit.part != part))
            return tg_fail(err, TG_CORRUPT,
                           "unit %" PRIu64 " is part %" PRIu32 "'s, and part %" PRIu32
                           " says that it wrote it",
                           u, unit.part, part);
        if (!done && !merged && unit.part == part && unit.n_writing > 0)
            return tg_fail(err, TG_CORRUPT,
                           "part %" PRIu32 " says that it is done, but its unit %" PRIu64
                           " is not",
                           part, u);
    }
    return TG_OK;
}

static tg_status index_part(engine *e, uint32_t part, tg_error *err)
{
    TG_AUTO(tg_fd) fd = -1;
    tg_commit_past past;
    uint64_t length = 0;
    char name[32];

    TG_TRY(tg_border_is_done(e->o.folder, part, &length, err));
    if (length < FILE_HEAD)
        return tg_fail(err, TG_INCOMPLETE, "part %" PRIu32 " is not done", part);
    TG_TRY(tg_commit_replay(e->o.folder, e->o.plan, part, false, note_failed, e, &past, err));
    e->past.n_failed += past.n_failed;
    tg_status st = check_done(e, part, &past, err);
    tg_commit_past_destroy(&past);
    TG_TRY(st);
    TG_TRY(open_border(e, part, &fd, name, err));
    return index_file(e, part, fd, name, length, err);
}

static tg_status check_twice(const engine *e, tg_error *err)
{
    for (uint64_t i = 1; i < e->n_fragments; i++)
        if (compare(&e->fragments[i - 1], &e->fragments[i]) == 0)
            return tg_fail(err, TG_CORRUPT,
                           "region %" PRIu32 " of unit %" PRIu32 " is there twice",
                           e->fragments[i].region, e->fragments[i].unit);
    return TG_OK;
}

tg_status tg_merge_prepare(engine *e, tg_error *err)
{
    e->cap_fragments = tg_merge_n_fragments(e->o.plan);
    e->fragments = tg_calloc((size_t)e->cap_fragments + 1, sizeof *e->fragments);
    e->failed_bits = tg_calloc((size_t)tg_plan_n_regions(e->o.plan) / 8 + 1, 1);
    if (e->fragments == NULL || e->failed_bits == NULL)
        return tg_fail(err, TG_NO_MEMORY, "fragments of the parts");
    for (uint32_t i = 0; i < e->facts->parts; i++)
        TG_TRY(index_part(e, i, err));
    if (e->n_fragments > 0)
        qsort(e->fragments, (size_t)e->n_fragments, sizeof *e->fragments, compare);
    e->r.failed = e->past.n_failed;
    return check_twice(e, err);
}

/* --- Folding ------------------------------------------------------------------------------ */

typedef struct reader {
    engine *e;
    slot *s;
    int fd; /* of `part`; -1: none */
    uint32_t part;
    char name[32];
} reader;

static void reader_auto(const reader *r)
{
    if (r->fd >= 0)
        (void)tg_sys_close(r->fd); /* only read from */
}

static bool has_failed(const engine *e, uint32_t k)
{
    return (e->failed_bits[k / 8] >> (k % 8) & 1) != 0;
}

static tg_status read_items(reader *r, const merge_fragment *f, uint64_t bytes, tg_error *err)
{
    uint8_t head[HEAD];
    uint32_t want;

    if (r->fd < 0 || r->part != f->part) {
        reader_auto(r);
        r->fd = -1;
        r->part = f->part;
        TG_TRY(open_border(r->e, f->part, &r->fd, r->name, err));
    }
    TG_TRY(tg_fd_read_at(r->fd, head, HEAD, f->offset - HEAD, r->name, err));
    TG_TRY(tg_fd_read_at(r->fd, r->s->out, (size_t)bytes, f->offset, r->name, err));
    memcpy(&want, head + 16, 4);
    const uint32_t got = tg_crc32c(0, r->s->out, (size_t)bytes);
    return got == want
               ? TG_OK
               : tg_fail(err, TG_CORRUPT, "'%s' at byte %" PRIu64 ": crc32c %08x, want %08x",
                         r->name, f->offset, got, want);
}

/* Where the first item of the whole would be, of what begins with the first of the cut. */
static const uint8_t *origin_of(const uint8_t *first, const tg_patch *patch, const tg_box *cut,
                                const int64_t *strides)
{
    uintptr_t at = (uintptr_t)first;

    for (uint32_t d = 0; d < cut->shape.ndim; d++)
        at -= (uintptr_t)(cut->start[d] - patch->box.start[d]) * (uintptr_t)strides[d];
    return (const uint8_t *)at; /* NOLINT(performance-no-int-to-ptr): never read there */
}

/* The result of the region as far as it lies in the unit, at its place in the whole of it. */
static tg_status get_patch(reader *r, uint32_t u, tg_patch *patch, tg_error *err)
{
    const engine *e = r->e;
    const merge_fragment key = {.unit = u, .region = r->s->k};
    const merge_fragment *f =
        bsearch(&key, e->fragments, (size_t)e->n_fragments, sizeof key, compare);
    tg_box cut;

    if (f == NULL)
        return tg_fail(err, TG_CORRUPT,
                       "unit %" PRIu32 ": what region %" PRIu32 " makes of it is missing", u,
                       r->s->k);
    const uint64_t bytes = cut_bytes(e, u, &r->s->r, &cut);
    TG_TRY(read_items(r, f, bytes, err));
    *patch = (tg_patch){.box = r->s->r.write};
    tg_strides_c(&cut.shape, e->acc.dtype.size, patch->strides);
    patch->data = origin_of(r->s->out, patch, &cut, patch->strides);
    if (e->facts->policy != TG_POLICY_MASK)
        return TG_OK;
    tg_strides_c(&cut.shape, 1, patch->keep_strides);
    const uint8_t *keep = r->s->out + bytes / tg_run_fold_bytes(e) * e->acc.dtype.size;
    patch->keep = origin_of(keep, patch, &cut, patch->keep_strides);
    return TG_OK;
}

static tg_status merge_unit(reader *r, uint32_t u, const tg_plan_unit *unit, tg_error *err)
{
    engine *e = r->e;
    const uint32_t *regions = tg_plan_unit_regions(e->o.plan, u);
    bool last = false;

    r->s->unit = u;
    for (uint32_t i = 0; i < unit->n_writing; i++) {
        tg_patch patch;
        TG_TRY(tg_run_issue_fragment(e, r->s, regions[i], err));
        live_unit *live = e->live[u];
        const bool failed = has_failed(e, regions[i]);
        tg_status st = failed ? TG_OK : get_patch(r, u, &patch, err);
        if (st == TG_OK)
            st = tg_run_fold_fragment(e, r->s, live, failed ? NULL : &patch, &last, err);
        tg_run_end_fragment(e);
        TG_TRY(st);
        if (last)
            TG_TRY(tg_run_flush_unit(e, live, err));
    }
    return TG_OK;
}

tg_status tg_merge_run(engine *e, slot *s, tg_error *err)
{
    __attribute__((cleanup(reader_auto))) reader r = {.e = e, .s = s, .fd = -1};
    tg_plan_unit unit;

    for (uint32_t u = 0; u < tg_plan_n_units(e->o.plan); u++)
        if (is_merged(e->o.plan, u, &unit) && !tg_run_unit_is_done(e, u))
            TG_TRY(merge_unit(&r, u, &unit, err));
    return TG_OK;
}
