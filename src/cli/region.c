/* cli/region.c - the part of an array that the user names, and how to walk through it within a
 * given room. */
#include "region.h"

#include "tidegate/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* An index or an end: -1 is the last item. */
static tg_status parse_index(const char *s, size_t len, uint64_t extent, uint64_t *out,
                             tg_error *err)
{
    char word[24];
    int64_t v = 0;
    if (len == 0 || len >= sizeof word)
        return cli_fail(err, TG_INVALID, "got '%.*s', want a whole number", (int)len, s);
    memcpy(word, s, len);
    word[len] = '\0';
    if (tg_parse_i64(word, &v, err) != TG_OK)
        return cli_fail(err, TG_INVALID, "got '%s', want a whole number", word);
    uint64_t from_end = (uint64_t)0 - (uint64_t)v;
    if ((v < 0 && from_end > extent) || (v >= 0 && (uint64_t)v > extent))
        return cli_fail(err, TG_INVALID, "%s is beyond the extent %" PRIu64, word, extent);
    *out = v < 0 ? extent - from_end : (uint64_t)v;
    return TG_OK;
}

static tg_status parse_part(const char *s, size_t len, uint64_t extent, uint64_t *start,
                            uint64_t *count, bool *single, tg_error *err)
{
    const char *colon = memchr(s, ':', len);
    uint64_t from = 0, to = extent;
    tg_status st = TG_OK;
    *single = colon == NULL;
    if (colon == NULL) {
        st = parse_index(s, len, extent, &from, err);
        if (st == TG_OK && from == extent)
            st = cli_fail(err, TG_INVALID, "%.*s is beyond the extent %" PRIu64, (int)len, s,
                          extent);
        to = from + 1;
    } else {
        size_t left = (size_t)(colon - s), right = len - left - 1;
        if (left > 0)
            st = parse_index(s, left, extent, &from, err);
        if (st == TG_OK && right > 0)
            st = parse_index(colon + 1, right, extent, &to, err);
        if (st == TG_OK && to < from)
            st = cli_fail(err, TG_INVALID, "%.*s ends before it begins", (int)len, s);
    }
    if (st != TG_OK)
        return st;
    *start = from;
    *count = to - from;
    return TG_OK;
}

tg_status region_parse(const char *text, const uint64_t *shape, uint32_t ndim, cli_region *out,
                       tg_error *err)
{
    cli_region r = {.ndim = ndim};
    for (uint32_t d = 0; d < ndim; d++)
        r.count[d] = shape[d];
    uint32_t d = 0;
    for (const char *p = text; p != NULL; d++) {
        size_t len = strcspn(p, ",");
        if (d == ndim)
            return cli_fail(err, TG_INVALID, "more dimensions than the array's %u", ndim);
        tg_status st =
            parse_part(p, len, shape[d], &r.start[d], &r.count[d], &r.single[d], err);
        if (st != TG_OK) {
            if (err != NULL)
                cli_prefix(err, "dimension %u", d);
            return st;
        }
        p = p[len] == ',' ? p + len + 1 : NULL;
    }
    *out = r;
    return TG_OK;
}

bool region_items(const cli_region *r, uint64_t *items)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < r->ndim; d++)
        if (r->count[d] == 0) {
            *items = 0;
            return true;
        }
    for (uint32_t d = 0; d < r->ndim; d++)
        if (__builtin_mul_overflow(n, r->count[d], &n))
            return false;
    *items = n;
    return true;
}

/* How many items along dimension d a box that begins at `from` may take, if one item along d
 * costs `inner`: to the end, or to the last chunk border within the room. */
static uint64_t take(const region_walk *w, uint32_t d, uint64_t from, uint64_t inner)
{
    uint64_t end = w->region->start[d] + w->region->count[d], most = w->most / inner;
    most = most == 0 ? 1 : most;
    if (end - from <= most)
        return end - from;
    uint64_t border = (from + most) / w->chunk[d] * w->chunk[d];
    return border > from ? border - from : most;
}

/* The dimension along which boxes are cut: all behind it fit whole. */
static uint32_t cut_dimension(const region_walk *w, uint64_t *inner)
{
    uint32_t d = w->region->ndim;
    *inner = 1;
    while (d > 1) {
        uint64_t more;
        if (__builtin_mul_overflow(*inner, w->region->count[d - 1], &more) || more > w->most)
            break;
        *inner = more;
        d--;
    }
    return d == 0 ? 0 : d - 1;
}

static bool first_box(region_walk *w)
{
    w->begun = true;
    for (uint32_t d = 0; d < w->region->ndim; d++) {
        if (w->region->count[d] == 0)
            return false;
        w->start[d] = w->region->start[d];
    }
    return true;
}

bool region_next(region_walk *w)
{
    const cli_region *r = w->region;
    uint64_t inner;
    uint32_t cut = cut_dimension(w, &inner);
    if (!w->begun) {
        if (!first_box(w))
            return false;
    } else {
        if (r->ndim == 0)
            return false;
        w->start[cut] += w->count[cut];
        uint32_t d = cut;
        while (w->start[d] == r->start[d] + r->count[d]) {
            if (d == 0)
                return false;
            w->start[d] = r->start[d];
            w->start[--d]++;
        }
    }
    for (uint32_t d = 0; d < r->ndim; d++)
        w->count[d] = d < cut ? 1 : r->count[d];
    if (r->ndim > 0)
        w->count[cut] = take(w, cut, w->start[cut], inner);
    return true;
}
