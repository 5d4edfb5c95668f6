/* How much memory one chunk can cost: encoded, decoded, index, contexts. The sums
 * stick at SIZE_MAX, which says that the chunk cannot be processed. */
#include "zarr/array.h"

size_t tg_add_bytes(size_t a, size_t b)
{
    size_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

size_t tg_mul_bytes(size_t a, size_t b)
{
    size_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

/* Bytes that others left behind a chunk, or spent on frames of their own. */
#define SLACK  ((size_t)4096)
#define GATHER ((size_t)1 << 20)

size_t tg_encoded_limit(const tg_array_meta *m)
{
    return tg_add_bytes(tg_chain_bound(m->chain, TG_CHUNK_TEXT_BYTES), SLACK);
}

size_t tg_gather_bytes(const tg_array_meta *m)
{
    size_t one = tg_encoded_limit(m);
    size_t all = tg_mul_bytes(one, (size_t)m->n_inner);
    size_t most = all < GATHER ? all : GATHER;
    return one > most ? one : most;
}

/* Encoded index, its entries, and the order of a read. */
static size_t index_bytes(const tg_array_meta *m)
{
    if (!m->info.sharded)
        return 0;
    size_t n = (size_t)m->n_inner;
    return tg_add_bytes(tg_shard_index_bytes(m),
                        tg_mul_bytes(n, sizeof(tg_shard_entry) + sizeof(uint32_t)));
}

static size_t decoded_bytes(const tg_array_meta *m)
{
    if (m->info.dtype.kind != TG_DT_STRING)
        return m->chunk_bytes;
    uint64_t items = 0;
    if (tg_shape_items(&m->chunk, &items, NULL) != TG_OK || items >= SIZE_MAX)
        return SIZE_MAX;
    /* Old and new strings, offsets and text. */
    return tg_mul_bytes(2,
                        tg_add_bytes(tg_mul_bytes((size_t)items + 1, 8), TG_CHUNK_TEXT_BYTES));
}

/* Lists of spans, and the like, that do not grow with the data. */
#define BOOKKEEPING ((size_t)64 << 10)

/* Shards below this are put whole: one write, no temporary object. */
#define BLOCK ((size_t)4 << 20)

size_t tg_shard_buffer_bytes(const tg_array_meta *m, uint32_t store_caps)
{
    size_t one = tg_chain_bound(m->chain, TG_CHUNK_TEXT_BYTES);
    size_t all = tg_add_bytes(tg_mul_bytes(one, (size_t)m->n_inner), tg_shard_index_bytes(m));

    return all <= BLOCK || (store_caps & TG_STORE_CAN_WRITE_AT) == 0 ? all : 0;
}

size_t tg_worst_bytes(const tg_array_meta *m, uint32_t store_caps)
{
    const bool writes = (store_caps & TG_STORE_CAN_WRITE) != 0;
    size_t bytes = tg_add_bytes(tg_gather_bytes(m), decoded_bytes(m));
    size_t context = tg_chain_context_bytes(m->chain, false);

    bytes = tg_add_bytes(bytes, index_bytes(m));
    if (writes) {
        context = tg_add_bytes(context, tg_chain_context_bytes(m->chain, true));
        bytes = tg_add_bytes(bytes, tg_chain_bound(m->chain, TG_CHUNK_TEXT_BYTES));
        if (m->info.sharded) { /* the new index beside the old */
            bytes = tg_add_bytes(bytes, index_bytes(m));
            bytes = tg_add_bytes(bytes, tg_shard_buffer_bytes(m, store_caps));
        }
    }
    return tg_add_bytes(bytes, tg_add_bytes(context, BOOKKEEPING));
}
