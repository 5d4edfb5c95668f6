/* ims/results.c - reads the journals of an annotation into one table. */
#include "ims/results.h"

#include "base/sys.h"
#include "chem/sort.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define RECORD_HEAD 12 /* bytes of a journal record before its payload */

typedef struct reading {
    tg_results *r;
    const char *digest;
    uint32_t part;
    uint64_t end;  /* of what belongs to the snapshot */
    bool counting; /* first only to know how many there are */
    bool has_digest;
} reading;

static tg_status check_digest(reading *k, tg_bytes text, tg_error *err)
{
    size_t n = strlen(k->digest), same = 0;
    if (text.len == n && memcmp(text.data, k->digest, n) == 0) {
        k->has_digest = true;
        return TG_OK;
    }
    while (same < n && same < text.len && (char)text.data[same] == k->digest[same])
        same++;
    while (same > 0 && k->digest[same - 1] != '\n')
        same--;
    return tg_fail(
        err, TG_INVALID, "was begun with other options: it has '%.*s', this run '%.*s'",
        (int)strcspn((const char *)text.data + same, "\n") < (int)(text.len - same)
            ? (int)strcspn((const char *)text.data + same, "\n")
            : (int)(text.len - same),
        (const char *)text.data + same, (int)strcspn(k->digest + same, "\n"), k->digest + same);
}

static tg_status take_unit(reading *k, tg_bytes p, uint64_t offset, tg_error *err)
{
    tg_results *r = k->r;
    tg_unit_head h;

    if (p.len < sizeof h)
        return tg_fail(err, TG_CORRUPT, "unit record of %zu bytes", p.len);
    memcpy(&h, p.data, sizeof h);
    if (h.unit >= r->n_units ||
        p.len != sizeof h + (uint64_t)h.n_results * sizeof(tg_ion_result))
        return tg_fail(err, TG_CORRUPT, "unit %u with %u results in %zu bytes", h.unit,
                       h.n_results, p.len);
    if (k->counting) {
        r->n_found += h.n_results;
        return TG_OK;
    }
    if (r->unit_done[h.unit] != 0)
        return TG_OK; /* done by two parts: the same results */
    r->unit_done[h.unit] = 1;
    r->n_done++;
    r->n_ions += h.n_ions;
    r->n_skipped += h.n_skipped;
    for (uint32_t i = 0; i < h.n_results; i++) {
        tg_ion_result x;
        uint64_t at = sizeof h + (uint64_t)i * sizeof x;
        memcpy(&x, p.data + at, sizeof x);
        r->found[r->n_found++] =
            (tg_found){{x.hash[0], x.hash[1]}, x.msm, offset + RECORD_HEAD + at, k->part, 0};
    }
    return TG_OK;
}

static tg_status on_record(void *user, uint16_t type, tg_bytes payload, uint64_t offset,
                           tg_error *err)
{
    reading *k = user;
    if (type == TG_RECORD_DIGEST)
        return check_digest(k, payload, err);
    if (offset >= k->end)
        return TG_OK; /* was added since the first pass */
    if (!k->has_digest)
        return tg_fail(err, TG_CORRUPT, "does not begin with its options");
    if (type == TG_RECORD_UNIT)
        return take_unit(k, payload, offset, err);
    if (type == TG_RECORD_END && !k->counting)
        k->r->n_ended++;
    return TG_OK;
}

/* Counts the records of each journal and notes where they end; or reads those up to there, for
 * other parts may be at work. */
static tg_status read_parts(tg_results *r, int dir, const char *digest, uint64_t *ends,
                            bool counting, tg_error *err)
{
    for (uint32_t part = 0; part < r->n_parts; part++) {
        char name[TG_PART_NAME_BYTES];
        tg_journal_header header;
        uint64_t end = 0;
        reading k = {r, digest, part, counting ? UINT64_MAX : ends[part], counting, false};
        tg_part_name(name, part, r->n_parts, ".journal");
        tg_status st =
            tg_journal_replay(dir, name, TG_ANNOTATE_JOURNAL_KIND, TG_ANNOTATE_JOURNAL_MAJOR,
                              &header, on_record, &k, &end, err);
        if (st != TG_OK && st != TG_NOT_FOUND) {
            tg_error_prefix(err, "journal '%s'", name);
            return st;
        }
        if (counting)
            ends[part] = st == TG_OK ? end : 0;
    }
    return TG_OK;
}

static int by_hash(const void *a, const void *b)
{
    const tg_found *x = a, *y = b;
    if (x->hash[0] != y->hash[0])
        return x->hash[0] < y->hash[0] ? -1 : 1;
    return x->hash[1] < y->hash[1] ? -1 : x->hash[1] > y->hash[1];
}

static tg_status open_journals(tg_results *r, int dir, tg_error *err)
{
    for (uint32_t part = 0; part < r->n_parts; part++) {
        char name[TG_PART_NAME_BYTES];
        tg_part_name(name, part, r->n_parts, ".journal");
        r->paths[part] = tg_strdup(name);
        if (r->paths[part] == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for a name");
        r->fds[part] = tg_sys_open(dir, name, O_RDONLY | O_NONBLOCK, 0);
    }
    return TG_OK;
}

static tg_status take_room(tg_results *r, tg_error *err)
{
    uint64_t bytes = tg_results_bytes(r->n_found, r->n_units, r->n_parts);
    if (r->budget != NULL) {
        TG_TRY(tg_budget_reserve(r->budget, bytes, "scores of ions", err));
        r->reserved = bytes;
    }
    r->found = tg_alloc_array(r->n_found + 1, sizeof *r->found);
    r->unit_done = tg_calloc(r->n_units + 1, 1);
    r->fds = tg_alloc_array(r->n_parts, sizeof *r->fds);
    r->paths = tg_calloc(r->n_parts, sizeof(char *));
    if (r->found == NULL || r->unit_done == NULL || r->fds == NULL || r->paths == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %llu scores",
                       (unsigned long long)r->n_found);
    for (uint32_t i = 0; i < r->n_parts; i++)
        r->fds[i] = -1;
    return TG_OK;
}

tg_status tg_results_read(tg_results **out, int dir, uint32_t n_parts, uint32_t n_units,
                          const char *digest, tg_budget *budget, tg_error *err)
{
    TG_AUTO_PTR(tg_results) r = tg_calloc(1, sizeof *r);
    if (r == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for scores");
    r->n_parts = n_parts;
    r->n_units = n_units;
    r->budget = budget;
    TG_AUTO(tg_mem_ptr) owner = tg_calloc(n_parts, sizeof(uint64_t));
    uint64_t *ends = owner;
    if (ends == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %u parts", n_parts);
    TG_TRY(read_parts(r, dir, digest, ends, true, err));
    TG_TRY(take_room(r, err));
    r->n_found = 0;
    TG_TRY(read_parts(r, dir, digest, ends, false, err));
    TG_TRY(open_journals(r, dir, err));
    tg_heap_sort(r->found, r->n_found, sizeof *r->found, by_hash);
    *out = tg_steal(r);
    return TG_OK;
}

void tg_results_free(tg_results *r)
{
    if (r == NULL)
        return;
    for (uint32_t i = 0; r->fds != NULL && i < r->n_parts; i++)
        tg_fd_auto(&r->fds[i]);
    for (uint32_t i = 0; r->paths != NULL && i < r->n_parts; i++)
        tg_free(r->paths[i]);
    tg_free(r->fds);
    tg_free(r->paths);
    tg_free(r->found);
    tg_free(r->unit_done);
    if (r->budget != NULL)
        tg_budget_release(r->budget, r->reserved);
    tg_free(r);
}

const tg_found *tg_results_find(const tg_results *r, const uint64_t hash[2])
{
    uint64_t lo = 0, hi = r->n_found;
    tg_found key = {.hash = {hash[0], hash[1]}};
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        int d = by_hash(&r->found[mid], &key);
        if (d == 0)
            return &r->found[mid];
        if (d < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

tg_status tg_results_get(const tg_results *r, const tg_found *f, tg_ion_result *out,
                         tg_error *err)
{
    return tg_fd_read_at(r->fds[f->part], out, sizeof *out, f->offset, r->paths[f->part], err);
}
