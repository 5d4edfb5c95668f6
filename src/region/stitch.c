/* Components of a graph that need not fit memory: its edges are turned into stars around the
 * least object of each component by two steps in turn (R. Kiveris et al., Connected Components
 * in MapReduce and Beyond, 2014), each of which is a sort and a pass. */
#include "region/stitch.h"

#include "base/mem.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

typedef struct maker {
    const tg_folder *folder;
    size_t bytes;
    uint64_t spilled;
} maker;

static tg_status add_one(tg_sorter *s, uint64_t a, uint64_t b, tg_error *err)
{
    const tg_pair p = {a, b};
    return tg_sorter_add(s, &p, 1, err);
}

static void drop(maker *m, tg_sorter **s)
{
    if (*s != NULL)
        m->spilled += tg_sorter_spilled(*s);
    tg_sorter_free(*s);
    *s = NULL;
}

/* --- Stars -------------------------------------------------------------------------------- */

/* One reading of sorted edges, and what comes of it. */
typedef struct reading {
    tg_sorter *made;
    uint64_t of, least; /* whose edges are read; the least of what it is hung on */
    bool begun, *changed;
} reading;

/* Is this the first edge of its object? */
static bool is_first(reading *s, const tg_pair *e)
{
    const bool first = !s->begun || e->a != s->of;

    s->begun = true;
    s->of = e->a;
    return first;
}

static tg_status each_edge(maker *m, tg_sorter *edges,
                           tg_status (*see)(reading *s, const tg_pair *e, tg_error *err),
                           tg_sorter **out, bool *changed, tg_error *err)
{
    TG_AUTO_PTR(tg_sorter) made = NULL;
    reading s = {0};
    bool have = true;
    tg_pair e;

    TG_TRY(tg_sorter_new(&made, m->folder, m->bytes, err));
    TG_TRY(tg_sorter_begin(edges, err));
    s.made = made;
    s.changed = changed;
    for (;;) {
        TG_TRY(tg_sorter_next(edges, &e, &have, err));
        if (!have)
            break;
        TG_TRY(see(&s, &e, err));
    }
    *out = tg_steal(made);
    return TG_OK;
}

/* Edges lead down: a > b. */
static tg_status both_ways(reading *s, const tg_pair *e, tg_error *err)
{
    if (e->a == e->b)
        return TG_OK;
    TG_TRY(add_one(s->made, e->a, e->b, err));
    return add_one(s->made, e->b, e->a, err);
}

/* Every greater neighbour of an object is hung on the least of its neighbours and itself. */
static tg_status large_star(reading *s, const tg_pair *e, tg_error *err)
{
    if (is_first(s, e))
        s->least = e->b < e->a ? e->b : e->a;
    if (e->b < e->a)
        return TG_OK;
    *s->changed |= s->least != e->a;
    return add_one(s->made, e->b, s->least, err);
}

/* An object and its lesser neighbours are hung on the least of them. */
static tg_status small_star(reading *s, const tg_pair *e, tg_error *err)
{
    if (is_first(s, e)) {
        s->least = e->b;
        return add_one(s->made, e->a, s->least, err);
    }
    *s->changed = true;
    return add_one(s->made, e->b, s->least, err);
}

static tg_status next_stars(maker *m, tg_sorter *edges, tg_sorter **out, bool *changed,
                            tg_error *err)
{
    TG_AUTO_PTR(tg_sorter) both = NULL;
    TG_AUTO_PTR(tg_sorter) large = NULL;

    TG_TRY(each_edge(m, edges, both_ways, &both, changed, err));
    TG_TRY(each_edge(m, both, large_star, &large, changed, err));
    drop(m, &both);
    TG_TRY(each_edge(m, large, small_star, out, changed, err));
    drop(m, &large);
    return TG_OK;
}

/* Each object but the least of its component, with that. Takes `touching`. */
static tg_status make_stars(maker *m, tg_sorter *touching, tg_sorter **out, tg_error *err)
{
    TG_AUTO_PTR(tg_sorter) edges = NULL;
    bool changed = true;

    TG_TRY(next_stars(m, touching, &edges, &changed, err));
    changed = true; /* what was given leads either way */
    while (changed) {
        TG_AUTO_PTR(tg_sorter) made = NULL;
        changed = false;
        TG_TRY(next_stars(m, edges, &made, &changed, err));
        drop(m, &edges);
        edges = tg_steal(made);
    }
    *out = tg_steal(edges);
    return TG_OK;
}

/* --- Numbers ------------------------------------------------------------------------------ */

#define INDEX_ENTRIES ((size_t)(TG_NUMBERS_BYTES - 65536) / sizeof(uint64_t))

/* The file: pairs (object, number) by object, read by blocks of TG_NUMBERS_BLOCK. */
struct tg_numbers {
    const tg_folder *folder;
    int fd;
    uint64_t n;
    uint64_t step; /* blocks from one entry of the index to the next */
    size_t n_index;
    uint64_t *index; /* first object of every step-th block */
};

static const char *const file_name = "numbers";

void tg_numbers_free(tg_numbers *t)
{
    if (t == NULL)
        return;
    if (t->fd >= 0)
        (void)tg_sys_close(t->fd); /* nobody reads it any more */
    tg_free(t->index);
    tg_free(t);
}

/* (least of the component, object) of each object. */
static tg_status join_roots(maker *m, tg_sorter *objects, tg_sorter *stars, tg_sorter **out,
                            tg_error *err)
{
    TG_AUTO_PTR(tg_sorter) made = NULL;
    tg_pair o, star = {0, 0};
    bool have, more;

    TG_TRY(tg_sorter_new(&made, m->folder, m->bytes, err));
    TG_TRY(tg_sorter_begin(objects, err));
    TG_TRY(tg_sorter_begin(stars, err));
    TG_TRY(tg_sorter_next(stars, &star, &more, err));
    for (;;) {
        TG_TRY(tg_sorter_next(objects, &o, &have, err));
        if (!have)
            break;
        while (more && star.a < o.a)
            TG_TRY(tg_sorter_next(stars, &star, &more, err));
        TG_TRY(add_one(made, more && star.a == o.a ? star.b : o.a, o.a, err));
    }
    *out = tg_steal(made);
    return TG_OK;
}

/* (object, number); numbers go by the least of the component. */
static tg_status number_roots(maker *m, tg_sorter *rooted, uint64_t base, uint64_t *n,
                              tg_sorter **out, tg_error *err)
{
    TG_AUTO_PTR(tg_sorter) made = NULL;
    uint64_t root = 0;
    bool have;
    tg_pair p;

    *n = 0;
    TG_TRY(tg_sorter_new(&made, m->folder, m->bytes, err));
    TG_TRY(tg_sorter_begin(rooted, err));
    for (;;) {
        TG_TRY(tg_sorter_next(rooted, &p, &have, err));
        if (!have)
            break;
        if (*n == 0 || p.a != root) {
            root = p.a;
            ++*n;
        }
        TG_TRY(add_one(made, p.b, base + *n, err));
    }
    *out = tg_steal(made);
    return TG_OK;
}

/* An entry too many: every second one is left out. */
static void thin_index(tg_numbers *t)
{
    for (size_t i = 0; 2 * i < t->n_index; i++)
        t->index[i] = t->index[2 * i];
    t->n_index = (t->n_index + 1) / 2;
    t->step *= 2;
}

static tg_status write_block(tg_numbers *t, const tg_pair *pairs, size_t n, tg_error *err)
{
    const uint64_t block = t->n / TG_NUMBERS_BLOCK;

    if (n == 0)
        return TG_OK;
    if (block % t->step == 0) {
        if (t->n_index == INDEX_ENTRIES)
            thin_index(t);
        if (block % t->step == 0)
            t->index[t->n_index++] = pairs[0].a;
    }
    TG_TRY(
        tg_fd_write_at(t->fd, pairs, n * sizeof *pairs, t->n * sizeof *pairs, file_name, err));
    t->n += n;
    return TG_OK;
}

static tg_status fill_numbers(tg_numbers *t, tg_sorter *numbered, tg_error *err)
{
    tg_pair block[TG_NUMBERS_BLOCK];
    size_t n = 0;
    bool have = true;

    t->fd = tg_sys_open(t->folder->dir, file_name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (t->fd < 0)
        return tg_folder_fail(t->folder, "make", file_name, err);
    TG_TRY(tg_folder_drop(t->folder, file_name, err));
    TG_TRY(tg_sorter_begin(numbered, err));
    for (;;) {
        TG_TRY(tg_sorter_next(numbered, &block[n], &have, err));
        if (!have)
            break;
        if (++n == TG_NUMBERS_BLOCK) {
            TG_TRY(write_block(t, block, n, err));
            n = 0;
        }
    }
    return write_block(t, block, n, err);
}

static tg_status make_numbers(maker *m, tg_sorter *numbered, tg_numbers **out, tg_error *err)
{
    TG_AUTO_PTR(tg_numbers) t = tg_calloc(1, sizeof *t);

    if (t == NULL)
        return tg_fail(err, TG_NO_MEMORY, "numbers of objects");
    t->folder = m->folder;
    t->fd = -1;
    t->step = 1;
    t->index = tg_alloc_array(INDEX_ENTRIES, sizeof *t->index);
    if (t->index == NULL)
        return tg_fail(err, TG_NO_MEMORY, "numbers of objects");
    TG_TRY(fill_numbers(t, numbered, err));
    m->spilled += t->n * sizeof(tg_pair);
    *out = tg_steal(t);
    return TG_OK;
}

tg_status tg_stitch(tg_numbers **out, tg_sorter *objects, tg_sorter *touching,
                    const tg_folder *folder, size_t bytes, uint64_t base, uint64_t *n,
                    uint64_t *spilled, tg_error *err)
{
    TG_AUTO_PTR(tg_sorter) stars = NULL;
    TG_AUTO_PTR(tg_sorter) rooted = NULL;
    TG_AUTO_PTR(tg_sorter) numbered = NULL;
    maker m = {folder, bytes, 0};

    TG_TRY(make_stars(&m, touching, &stars, err));
    TG_TRY(join_roots(&m, objects, stars, &rooted, err));
    drop(&m, &stars);
    TG_TRY(number_roots(&m, rooted, base, n, &numbered, err));
    drop(&m, &rooted);
    TG_TRY(make_numbers(&m, numbered, out, err));
    drop(&m, &numbered);
    *spilled += m.spilled;
    return TG_OK;
}

/* --- Looking ------------------------------------------------------------------------------ */

/* The last of the first n that is not beyond `object`; n if there is none. */
static uint64_t last_below(const tg_pair *pairs, uint64_t n, uint64_t object)
{
    uint64_t low = 0, high = n;

    while (low < high) {
        const uint64_t at = low + (high - low) / 2;
        if (pairs[at].a <= object)
            low = at + 1;
        else
            high = at;
    }
    return low == 0 ? n : low - 1;
}

static uint64_t first_block(const tg_numbers *t, uint64_t object)
{
    size_t low = 0, high = t->n_index;

    while (low < high) {
        const size_t at = low + (high - low) / 2;
        if (t->index[at] <= object)
            low = at + 1;
        else
            high = at;
    }
    return (low == 0 ? 0 : (uint64_t)low - 1) * t->step;
}

static tg_status read_block(const tg_numbers *t, tg_number_cache *c, uint64_t at, tg_error *err)
{
    const uint64_t left = t->n - at;

    c->n = left < TG_NUMBERS_BLOCK ? left : TG_NUMBERS_BLOCK;
    c->at = at;
    return tg_fd_read_at(t->fd, c->block, (size_t)c->n * sizeof *c->block,
                         at * sizeof *c->block, file_name, err);
}

/* The block that has the object if any has; blocks of one entry of the index are halved. */
static tg_status find_block(const tg_numbers *t, tg_number_cache *c, uint64_t object,
                            tg_error *err)
{
    uint64_t low = first_block(t, object), high = low + t->step;

    if (c->n > 0 && c->block[0].a <= object && object <= c->block[c->n - 1].a)
        return TG_OK;
    while (low < high && low * TG_NUMBERS_BLOCK < t->n) {
        const uint64_t at = low + (high - low) / 2;
        if (at * TG_NUMBERS_BLOCK >= t->n) {
            high = at;
            continue;
        }
        TG_TRY(read_block(t, c, at * TG_NUMBERS_BLOCK, err));
        if (object < c->block[0].a)
            high = at;
        else if (object > c->block[c->n - 1].a)
            low = at + 1;
        else
            return TG_OK;
    }
    return TG_OK;
}

tg_status tg_number_of(const tg_numbers *t, tg_number_cache *cache, uint64_t object,
                       uint64_t *number, tg_error *err)
{
    tg_pair *recent = &cache->recent[(object ^ object >> 32) % 1024];

    if (recent->b == 0 || recent->a != object) {
        TG_TRY(find_block(t, cache, object, err));
        const uint64_t at = last_below(cache->block, cache->n, object);
        if (at == cache->n || cache->block[at].a != object)
            return tg_fail(err, TG_CORRUPT,
                           "'%.200s/%s': object %" PRIx64 " is not in it, and it was found",
                           t->folder->path, file_name, object);
        *recent = cache->block[at];
    }
    *number = recent->b;
    return TG_OK;
}
