/* The index of a shard: 16 bytes (offset, length) an inner chunk, with or without
 * a checksum, to entries and back. Every entry of a file is checked before it is
 * believed. */
#include "base/crc32c.h"
#include "zarr/meta.h"

#include <inttypes.h>
#include <string.h>

#define EMPTY UINT64_MAX

uint64_t tg_shard_chunks(const tg_array_meta *m)
{
    return m->n_inner;
}

bool tg_shard_index_at_start(const tg_array_meta *m)
{
    return m->index_at_start;
}

size_t tg_shard_index_bytes(const tg_array_meta *m)
{
    return (size_t)m->n_inner * 16 + (m->index_crc32c ? 4 : 0);
}

/* --- Order --------------------------------------------------------------- */

/* Entries come in C order of the array's dimensions; the index lists them in C order of the
 * dimensions that a transpose before sharding_indexed made of them. */
typedef struct walk {
    const tg_array_meta *m;
    tg_shape grid; /* of the index */
    bool permuted;
} walk;

static walk walk_of(const tg_array_meta *m)
{
    walk w = {m, m->grid, false};

    for (uint32_t i = 0; i < m->info.ndim; i++) {
        w.grid.n[i] = m->grid.n[m->index_order[i]];
        w.permuted |= m->index_order[i] != i;
    }
    return w;
}

/* Where the entry of linear position i of the array's order stands in the index. */
static uint64_t place_in_index(const walk *w, uint64_t i)
{
    uint64_t in_array[TG_MAX_NDIM], in_index[TG_MAX_NDIM];

    if (!w->permuted)
        return i;
    tg_unravel(&w->m->grid, i, in_array);
    for (uint32_t d = 0; d < w->grid.ndim; d++)
        in_index[d] = in_array[w->m->index_order[d]];
    return tg_ravel(&w->grid, in_index);
}

/* --- Bytes --------------------------------------------------------------- */

static void put_u64(uint8_t *dst, uint64_t v, bool big_endian)
{
    for (int i = 0; i < 8; i++)
        dst[big_endian ? 7 - i : i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_u64(const uint8_t *src, bool big_endian)
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++)
        v |= (uint64_t)src[big_endian ? 7 - i : i] << (8 * i);
    return v;
}

static uint32_t get_u32(const uint8_t *src)
{
    return (uint32_t)src[0] | (uint32_t)src[1] << 8 | (uint32_t)src[2] << 16 |
           (uint32_t)src[3] << 24;
}

tg_status tg_shard_index_encode(const tg_array_meta *m, const tg_shard_entry *entries,
                                uint8_t *dst, tg_error *err)
{
    const walk w = walk_of(m);
    const size_t n_bytes = (size_t)m->n_inner * 16;

    for (uint64_t i = 0; i < m->n_inner; i++) {
        const tg_shard_entry *e = &entries[i];
        if ((e->offset == EMPTY) != (e->nbytes == EMPTY))
            return tg_fail(err, TG_INVALID, "shard index: entry %" PRIu64 " is half empty", i);
        uint8_t *at = dst + place_in_index(&w, i) * 16;
        put_u64(at, e->offset, m->index_big_endian);
        put_u64(at + 8, e->nbytes, m->index_big_endian);
    }
    if (m->index_crc32c) {
        uint32_t crc = tg_crc32c(0, dst, n_bytes);
        for (int i = 0; i < 4; i++)
            dst[n_bytes + (size_t)i] = (uint8_t)(crc >> (8 * i));
    }
    return TG_OK;
}

/* --- Checks -------------------------------------------------------------- */

static tg_status check_sum(const tg_array_meta *m, tg_bytes index, tg_error *err)
{
    size_t n = (size_t)m->n_inner * 16;

    if (index.len != tg_shard_index_bytes(m))
        return tg_fail(err, TG_CORRUPT, "shard index: %zu bytes, want %zu", index.len,
                       tg_shard_index_bytes(m));
    if (!m->index_crc32c)
        return TG_OK;
    uint32_t got = tg_crc32c(0, index.data, n), want = get_u32(index.data + n);
    if (got != want)
        return tg_fail(err, TG_CORRUPT,
                       "shard index: crc32c is %08" PRIx32 ", stored is %08" PRIx32, got, want);
    return TG_OK;
}

/* The chunk lies in the shard, and not over the index. */
static tg_status check_entry(const tg_array_meta *m, const tg_shard_entry *e, uint64_t i,
                             uint64_t value_bytes, tg_error *err)
{
    const uint64_t index_bytes = tg_shard_index_bytes(m);
    const uint64_t first = m->index_at_start ? index_bytes : 0;
    const uint64_t end = m->index_at_start ? value_bytes : value_bytes - index_bytes;
    uint64_t last = 0;

    if (e->offset == EMPTY && e->nbytes == EMPTY)
        return TG_OK;
    if (e->offset == EMPTY || e->nbytes == EMPTY)
        return tg_fail(err, TG_CORRUPT, "shard index: entry %" PRIu64 " is half empty", i);
    if (e->nbytes == 0)
        return tg_fail(err, TG_CORRUPT, "shard index: entry %" PRIu64 " has no bytes", i);
#if TG_PLANT == 8
    last = e->offset + e->nbytes;
    if (e->offset < first || last > end)
#else
    if (__builtin_add_overflow(e->offset, e->nbytes, &last) || e->offset < first || last > end)
#endif
        return tg_fail(err, TG_CORRUPT,
                       "shard index: entry %" PRIu64 " is %" PRIu64 " bytes at %" PRIu64
                       ", chunks lie in %" PRIu64 "..%" PRIu64,
                       i, e->nbytes, e->offset, first, end);
    return TG_OK;
}

tg_status tg_shard_index_decode(const tg_array_meta *m, tg_bytes index, uint64_t value_bytes,
                                tg_shard_entry *entries, tg_error *err)
{
    const walk w = walk_of(m);

    TG_TRY(check_sum(m, index, err));
    if (value_bytes < index.len)
        return tg_fail(err, TG_CORRUPT, "shard: %" PRIu64 " bytes, its index alone has %zu",
                       value_bytes, index.len);
    for (uint64_t i = 0; i < m->n_inner; i++) {
        uint64_t place = place_in_index(&w, i);
        const uint8_t *at = index.data + place * 16;
        entries[i].offset = get_u64(at, m->index_big_endian);
        entries[i].nbytes = get_u64(at + 8, m->index_big_endian);
        TG_TRY(check_entry(m, &entries[i], place, value_bytes, err));
    }
    return TG_OK;
}
