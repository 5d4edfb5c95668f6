/* codec/chain.h - what a chain is made of, for codec/ only. */
#ifndef TG_CODEC_CHAIN_H
#define TG_CODEC_CHAIN_H

#include "codec/codecs.h"

enum { TG_CHAIN_MOST = 16 };

struct tg_chain {
    tg_dtype dtype;
    tg_shape shape; /* of the chunk that goes in */
    uint64_t n_items;
    size_t items_bytes; /* 0 for strings */
    /* array -> array: axis i of what is encoded is axis order[i] of the items. */
    bool transposed;
    uint32_t order[TG_MAX_NDIM];
    /* array -> bytes: bytes, or vlen-utf8 where dtype is a string. */
    bool big_endian;
    /* bytes -> bytes. */
    size_t n;
    tg_codec *codecs[TG_CHAIN_MOST];
};

/* A chain of only the array -> bytes codec; checks shape and type. */
TG_MUST_USE tg_status tg_chain_new(tg_chain **out, tg_dtype dtype, const tg_shape *chunk,
                                   tg_error *err);
/* order: a permutation of the chunk's axes, applied after those before it. */
TG_MUST_USE tg_status tg_chain_transpose(tg_chain *c, const uint32_t *order, tg_error *err);
/* Takes codec over, also on failure. */
TG_MUST_USE tg_status tg_chain_add(tg_chain *c, tg_codec *codec, tg_error *err);

bool tg_chain_is_strings(const tg_chain *c);
/* Bytes of the unit that is reversed on this host; 1: nothing is. */
size_t tg_chain_swap_bytes(const tg_chain *c);
/* Do items change place or byte order before the first bytes -> bytes codec? */
bool tg_chain_is_packed(const tg_chain *c);
/* The most bytes that codec k is given when `plain` bytes are encoded. */
size_t tg_chain_input_bound(const tg_chain *c, size_t k, size_t plain);

/* As tg_chain_context_new() and _bytes(), for a value of `plain` bytes. */
size_t tg_chain_plain_context_bytes(const tg_chain *c, size_t plain, bool encode);
TG_MUST_USE tg_status tg_chain_plain_context(const tg_chain *c, size_t plain, bool encode,
                                             tg_chain_context **out, tg_error *err);
/* The steps of a chain, in ctx's direction, from src to dst. Decoding gives at most cap bytes.
 */
TG_MUST_USE tg_status tg_chain_run(tg_chain_context *ctx, tg_bytes src, uint8_t *dst,
                                   size_t cap, size_t *n, tg_error *err);

#endif
