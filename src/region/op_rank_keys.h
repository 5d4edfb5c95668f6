/* region/op_rank_keys.h - the functions of op_rank.c for one type of keys: included by it once
 * a type, with KEY, BITS (unsigned), GREATEST and NAME(word) defined. */

typedef KEY NAME(loose) __attribute__((aligned(1), may_alias)); /* anywhere in memory */

/* The same way there and back: the sign of all turned, or the rest of negative ones. */
TG_INLINE KEY NAME(turned)(KEY v, BITS sign, BITS rest)
{
    const BITS negative =
        (BITS)(0 - ((BITS)v >> (8 * sizeof(KEY) - 1))); /* all bits, or none */
    return (KEY)((BITS)v ^ sign ^ (negative & rest));
}

/* Floats alone, where NaN is to be as a conversion by way of doubles leaves it. */
TG_INLINE KEY NAME(quieted)(KEY v, KEY rest, KEY infinity, KEY keep, KEY quiet)
{
    return (KEY)((v & rest) > infinity ? (v & keep) | quiet : v);
}

TG_INLINE void NAME(turn_side)(NAME(loose) *restrict dst, const NAME(loose) *restrict src,
                               size_t n, const turns *how)
{
    const BITS sign = (BITS)how->sign, rest = (BITS)how->rest;
    const KEY infinity = (KEY)how->infinity, keep = (KEY)how->keep, quiet = (KEY)how->quiet;
    if (how->quiet == 0)
        for (size_t i = 0; i < n; i++)
            dst[i] = NAME(turned)(src[i], sign, rest);
    else
        for (size_t i = 0; i < n; i++)
            dst[i] = NAME(quieted)(NAME(turned)(src[i], sign, rest), (KEY)rest, infinity, keep,
                                   quiet);
}

TG_INLINE void NAME(turn_rows)(char *dst, int64_t to, const char *src, int64_t from, size_t n,
                               const turns *how)
{
    if (to == (int64_t)sizeof(KEY) && from == (int64_t)sizeof(KEY))
        NAME(turn_side)((NAME(loose) *)dst, (const NAME(loose) *)src, n, how);
    else
        for (size_t i = 0; i < n; i++)
            NAME(turn_side)
    ((NAME(loose) *)(dst + (int64_t)i * to), (const NAME(loose) *)(src + (int64_t)i * from), 1,
     how);
}

TG_DEFINE_WIDER(NAME(turn), NAME(turn_rows),
                (char *dst, int64_t to, const char *src, int64_t from, size_t n,
                 const turns *how),
                (dst, to, src, from, n, how))

/* --- Pairs --- */

TG_INLINE void NAME(pairs_of)(bool greater, const KEY *restrict in, const KEY *restrict other,
                              size_t n, KEY *restrict out)
{
    if (greater)
        for (size_t i = 0; i < n; i++)
            out[i] = in[i] > other[i] ? in[i] : other[i];
    else
        for (size_t i = 0; i < n; i++)
            out[i] = in[i] < other[i] ? in[i] : other[i];
}

TG_DEFINE_WIDER(NAME(pairs), NAME(pairs_of),
                (bool greater, const KEY *in, const KEY *other, size_t n, KEY *out),
                (greater, in, other, n, out))

/* --- Medians: many windows at once, each lane one of them. What cannot be the median any more
 * is forgotten: of a little more than half of the items the least and the greatest go, and the
 * next one comes, until three are left. --- */

#define LANES (LANE_BYTES / sizeof(KEY))

typedef struct NAME(lanes) {
    KEY v[LANES];
} NAME(lanes);

TG_INLINE void NAME(order)(NAME(lanes) * a, NAME(lanes) * b)
{
    for (size_t j = 0; j < LANES; j++) {
        const KEY x = a->v[j], y = b->v[j];
        a->v[j] = x < y ? x : y;
        b->v[j] = x < y ? y : x;
    }
}

/* The least of s[0, m) comes to the front, the greatest to the end. */
TG_INLINE void NAME(put_ends)(NAME(lanes) * s, size_t m)
{
    for (size_t i = 0; i < m / 2; i++)
        NAME(order)(&s[i], &s[m - 1 - i]);
    for (size_t i = 1; i < (m + 1) / 2; i++)
        NAME(order)(&s[0], &s[i]);
    for (size_t i = m / 2; i < m - 1; i++)
        NAME(order)(&s[i], &s[m - 1]);
}

/* from NULL: as if above all. */
TG_INLINE void NAME(fetch)(NAME(lanes) * to, const KEY *from, size_t at, size_t m)
{
    if (from == NULL)
        m = 0;
    else
        memcpy(to->v, from + at, m * sizeof *from);
    for (size_t j = m; j < LANES; j++)
        to->v[j] = GREATEST;
}

/* n, odd, from 3 on; items of m <= LANES windows from `at` on. */
TG_INLINE void NAME(middle)(NAME(lanes) * s, const void *const *from, size_t n, size_t at,
                            size_t m, KEY *to)
{
    size_t k = (n + 1) / 2 + 1, next = k;

    for (size_t i = 0; i < k; i++)
        NAME(fetch)(&s[i], from[i], at, m);
    for (;; k--) {
        NAME(put_ends)(s, k);
        if (next == n)
            break;
        NAME(fetch)(&s[0], from[next++], at, m);
    }
    memcpy(to + at, s[1].v, m * sizeof *to);
}

TG_INLINE void NAME(medians_of)(const void *const *from, size_t n, size_t length, KEY *to)
{
    NAME(lanes) s[TG_MOST_MEDIAN / 2 + 3];

    memset(s, 0, (n / 2 + 3) * sizeof *s);
    for (size_t at = 0; at < length; at += LANES)
        NAME(middle)(s, from, n, at, length - at < LANES ? length - at : LANES, to);
}

TG_DEFINE_WIDER(NAME(medians), NAME(medians_of),
                (const void *const *from, size_t n, size_t length, KEY *to),
                (from, n, length, to))

/* --- One window --- */

TG_DEFINE_SELECT(NAME(select), KEY, KEY, ITSELF)

#undef LANES
#undef KEY
#undef BITS
#undef GREATEST
#undef NAME
