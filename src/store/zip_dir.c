/* store/zip_dir.c - the table of a ZIP's entries: blocks that never move, a hash
 * table, and an order made when somebody lists. Knows no file. */
#include "store/zip_dir.h"

#include "store/zip_format.h"

#include <string.h>

#define BLOCK_ENTRIES 1024u
#define TEXT_BYTES    65536u

void tg_zip_dir_free(zip_dir *d)
{
    for (uint32_t i = 0; i < d->n_blocks; i++)
        tg_free(d->blocks[i]);
    for (uint32_t i = 0; i < d->n_texts; i++)
        tg_free(d->texts[i]);
    tg_free(d->blocks);
    tg_free(d->texts);
    tg_free(d->slots);
    tg_free(d->sorted);
    *d = (zip_dir){0};
}

zip_entry *tg_zip_dir_at(const zip_dir *d, uint32_t i)
{
    return &d->blocks[i / BLOCK_ENTRIES][i % BLOCK_ENTRIES];
}

const char *tg_zip_dir_name(const zip_dir *d, const zip_entry *e)
{
    return d->texts[e->name / TEXT_BYTES] + e->name % TEXT_BYTES;
}

static uint32_t hash(const char *name, size_t len)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a, and a mix, for its low bits are weak */
    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)name[i]) * 1099511628211u;
    return (uint32_t)((h ^ h >> 29) * 0xbf58476d1ce4e5b9u >> 32);
}

/* The slot of name, or the free one where it would go. */
static uint32_t *find_slot(const zip_dir *d, const char *name, size_t len)
{
    for (uint32_t i = hash(name, len);; i++) {
        uint32_t *slot = &d->slots[i & (d->n_slots - 1)];
        if (*slot == 0)
            return slot;
        const zip_entry *e = tg_zip_dir_at(d, *slot - 1);
        if (e->name_len == len && memcmp(tg_zip_dir_name(d, e), name, len) == 0)
            return slot;
    }
}

zip_entry *tg_zip_dir_find(const zip_dir *d, const char *name)
{
    if (d->n_slots == 0)
        return NULL;
    uint32_t slot = *find_slot(d, name, strlen(name));
    return slot == 0 ? NULL : tg_zip_dir_at(d, slot - 1);
}

/* One more pointer at the end of a list. */
static tg_status add_block(void ***list, uint32_t *n, uint32_t *cap, size_t bytes,
                           tg_error *err)
{
    if (*n == *cap) {
        uint32_t more = *cap == 0 ? 16 : *cap * 2;
        void **p = tg_alloc_array(more, sizeof *p);
        if (p == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for a ZIP directory");
        if (*n > 0)
            memcpy(p, *list, *n * sizeof *p);
        tg_free(*list);
        *list = p;
        *cap = more;
    }
    void *block = tg_alloc(bytes);
    if (block == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a ZIP directory");
    (*list)[(*n)++] = block;
    return TG_OK;
}

/* At most half full, so that a search ends soon. */
static tg_status grow_slots(zip_dir *d, tg_error *err)
{
    if (d->n < d->n_slots / 2)
        return TG_OK;
    zip_dir bigger = *d;
    bigger.n_slots = d->n_slots == 0 ? 64 : d->n_slots * 2;
    bigger.slots = tg_calloc(bigger.n_slots, sizeof *d->slots);
    if (bigger.slots == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a ZIP directory of %u entries",
                       bigger.n_slots);
    for (uint32_t i = 0; i < d->n; i++) {
        const zip_entry *e = tg_zip_dir_at(d, i);
        *find_slot(&bigger, tg_zip_dir_name(d, e), e->name_len) = i + 1;
    }
    tg_free(d->slots);
    *d = bigger;
    return TG_OK;
}

static tg_status add_text(zip_dir *d, const char *name, size_t len, uint32_t *at, tg_error *err)
{
    if (d->n_texts == 0 || TEXT_BYTES - d->text_used <= len) {
        void **list = (void **)d->texts;
        tg_status st = add_block(&list, &d->n_texts, &d->text_cap, TEXT_BYTES, err);
        d->texts = (char **)list;
        TG_TRY(st);
        d->text_used = 0;
    }
    char *p = d->texts[d->n_texts - 1] + d->text_used;
    memcpy(p, name, len);
    p[len] = '\0';
    *at = (d->n_texts - 1) * TEXT_BYTES + d->text_used;
    d->text_used += (uint32_t)len + 1;
    return TG_OK;
}

static tg_status make_room(zip_dir *d, tg_error *err)
{
    if (d->n >= UINT32_MAX / 4 || d->n_texts >= UINT32_MAX / TEXT_BYTES)
        return tg_fail(err, TG_OVER_BUDGET, "ZIP directory of more than %u entries", d->n);
    TG_TRY(grow_slots(d, err));
    if (d->n < d->n_blocks * BLOCK_ENTRIES)
        return TG_OK;
    void **list = (void **)d->blocks;
    tg_status st =
        add_block(&list, &d->n_blocks, &d->block_cap, BLOCK_ENTRIES * sizeof(zip_entry), err);
    d->blocks = (zip_entry **)list;
    return st;
}

tg_status tg_zip_dir_set(zip_dir *d, const char *name, size_t len, zip_entry e, tg_error *err)
{
    uint32_t *slot = d->n_slots == 0 ? NULL : find_slot(d, name, len);

    e.name_len = (uint16_t)len;
    if (slot != NULL && *slot != 0) {
        zip_entry *old = tg_zip_dir_at(d, *slot - 1);
        e.name = old->name;
        *old = e;
        return TG_OK;
    }
    TG_TRY(make_room(d, err));
    TG_TRY(add_text(d, name, len, &e.name, err));
    *tg_zip_dir_at(d, d->n) = e;
    *find_slot(d, name, len) = ++d->n;
    tg_free(d->sorted);
    d->sorted = NULL;
    return TG_OK;
}

/* --- Order ----------------------------------------------------------------- */

typedef bool (*less_fn)(const zip_dir *d, uint32_t a, uint32_t b);

static bool name_less(const zip_dir *d, uint32_t a, uint32_t b)
{
    return strcmp(tg_zip_dir_name(d, tg_zip_dir_at(d, a)),
                  tg_zip_dir_name(d, tg_zip_dir_at(d, b))) < 0;
}

static bool header_less(const zip_dir *d, uint32_t a, uint32_t b)
{
    return tg_zip_dir_at(d, a)->header < tg_zip_dir_at(d, b)->header;
}

static void sift_down(const zip_dir *d, uint32_t *at, uint32_t root, uint32_t n, less_fn less)
{
    for (;;) {
        uint32_t child = 2 * root + 1;
        if (child >= n)
            return;
        if (child + 1 < n && less(d, at[child], at[child + 1]))
            child++;
        if (!less(d, at[root], at[child]))
            return;
        uint32_t t = at[root];
        at[root] = at[child];
        at[child] = t;
        root = child;
    }
}

/* Heap sort: no memory of its own, no bad case for a hostile file. */
static tg_status sorted_by(const zip_dir *d, less_fn less, uint32_t **out, tg_error *err)
{
    uint32_t *at = tg_alloc_array(d->n == 0 ? 1 : d->n, sizeof *at);
    bool in_order = true;

    if (at == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to sort %u entries", d->n);
    for (uint32_t i = 0; i < d->n; i++) {
        at[i] = i;
        in_order = in_order && (i == 0 || less(d, i - 1, i));
    }
    for (uint32_t i = in_order ? 0 : d->n / 2; i-- > 0;)
        sift_down(d, at, i, d->n, less);
    for (uint32_t end = in_order ? 0 : d->n; end-- > 1;) {
        uint32_t t = at[0];
        at[0] = at[end];
        at[end] = t;
        sift_down(d, at, 0, end, less);
    }
    *out = at;
    return TG_OK;
}

tg_status tg_zip_dir_sort(zip_dir *d, tg_error *err)
{
    return d->sorted != NULL ? TG_OK : sorted_by(d, name_less, &d->sorted, err);
}

const char *tg_zip_dir_sorted_name(const zip_dir *d, uint32_t i)
{
    return i < d->n ? tg_zip_dir_name(d, tg_zip_dir_at(d, d->sorted[i])) : NULL;
}

uint32_t tg_zip_dir_lower_bound(const zip_dir *d, const char *from, size_t len)
{
    uint32_t lo = 0, hi = d->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (strncmp(tg_zip_dir_sorted_name(d, mid), from, len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

tg_status tg_zip_dir_check_overlap(const zip_dir *d, tg_error *err)
{
    uint32_t *order;
    uint64_t end = 0;
    tg_status st = TG_OK;

    TG_TRY(sorted_by(d, header_less, &order, err));
    for (uint32_t i = 0; i < d->n && st == TG_OK; i++) {
        const zip_entry *e = tg_zip_dir_at(d, order[i]);
        if (e->header < end) {
            st = tg_fail(err, TG_CORRUPT, "entry '%s' begins inside the one before it",
                         tg_zip_dir_name(d, e));
            tg_error_at(err, tg_zip_dir_name(d, e), e->header);
        }
        /* The least it can take: the local name and extra field may be longer. */
        end = e->header + ZIP_LOCAL_BYTES + e->stored;
    }
    tg_free(order);
    return st;
}
