/* codec/chain.c - what a chain is and can tell of itself. Knows no metadata and
 * does not run. */
#include "codec/chain.h"

#include <stdio.h>
#include <string.h>

/* --- Making one ---------------------------------------------------------- */

tg_status tg_chain_new(tg_chain **out, tg_dtype dtype, const tg_shape *chunk, tg_error *err)
{
    uint64_t n_items;
    size_t bytes;

    TG_TRY(tg_shape_items(chunk, &n_items, err));
    TG_TRY(tg_shape_bytes(chunk, dtype.size, &bytes, err));
    if (dtype.kind == TG_DT_STRING && n_items >= UINT32_MAX)
        return tg_fail(err, TG_INVALID, "vlen-utf8: %llu strings in a chunk, want below 2^32",
                       (unsigned long long)n_items);
    tg_chain *c = tg_calloc(1, sizeof *c);
    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a codec chain");
    c->dtype = dtype;
    c->shape = *chunk;
    c->n_items = n_items;
    c->items_bytes = bytes;
    for (uint32_t i = 0; i < TG_MAX_NDIM; i++)
        c->order[i] = i;
    *out = c;
    return TG_OK;
}

void tg_chain_free(tg_chain *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->n; i++)
        c->codecs[i]->ops->free(c->codecs[i]);
    tg_free(c);
}

tg_status tg_chain_transpose(tg_chain *c, const uint32_t *order, tg_error *err)
{
    uint32_t both[TG_MAX_NDIM] = {0}, seen = 0;

    for (uint32_t i = 0; i < c->shape.ndim; i++) {
        if (order[i] >= c->shape.ndim || (seen >> order[i] & 1) != 0)
            return tg_fail(err, TG_CORRUPT, "transpose: order is no permutation of %u axes",
                           (unsigned)c->shape.ndim);
        seen |= (uint32_t)1 << order[i];
        both[i] = c->order[order[i]];
    }
    c->transposed = false;
    for (uint32_t i = 0; i < c->shape.ndim; i++) {
        c->order[i] = both[i];
        c->transposed |= both[i] != i;
    }
    return TG_OK;
}

tg_status tg_chain_add(tg_chain *c, tg_codec *codec, tg_error *err)
{
    if (c->n == TG_CHAIN_MOST) {
        codec->ops->free(codec);
        return tg_fail(err, TG_UNSUPPORTED, "codecs: more than %d", TG_CHAIN_MOST);
    }
    c->codecs[c->n++] = codec;
    return TG_OK;
}

/* --- What it is ---------------------------------------------------------- */

bool tg_chain_is_strings(const tg_chain *c)
{
    return c->dtype.kind == TG_DT_STRING;
}

static bool is_crc(const tg_chain *c, size_t k)
{
    return tg_codec_is_crc32c(c->codecs[k]);
}

size_t tg_chain_swap_bytes(const tg_chain *c)
{
    bool host_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    return c->big_endian == host_big ? 1 : tg_dtype_swap_bytes(c->dtype);
}

bool tg_chain_is_packed(const tg_chain *c)
{
    return c->transposed || tg_chain_swap_bytes(c) > 1;
}

bool tg_chain_is_raw(const tg_chain *c)
{
    return !tg_chain_is_strings(c) && !tg_chain_is_packed(c) &&
           (c->n == 0 || (c->n == 1 && is_crc(c, 0)));
}

bool tg_chain_has_crc32c_last(const tg_chain *c)
{
    return c->n > 0 && is_crc(c, c->n - 1);
}

bool tg_chain_reads_alike(const tg_chain *a, const tg_chain *b)
{
    bool alike =
        a->n == b->n && tg_chain_is_strings(a) == tg_chain_is_strings(b) &&
        tg_chain_swap_bytes(a) == tg_chain_swap_bytes(b) && a->transposed == b->transposed &&
        (!a->transposed || memcmp(a->order, b->order, a->shape.ndim * sizeof a->order[0]) == 0);

    for (size_t i = 0; alike && i < a->n; i++)
        alike = a->codecs[i]->ops == b->codecs[i]->ops;
    return alike;
}

void tg_chain_text(const tg_chain *c, char *dst)
{
    int n = snprintf(dst, TG_CHAIN_TEXT_BYTES, "%s%s%s", c->transposed ? "transpose " : "",
                     tg_chain_is_strings(c) ? "vlen-utf8" : "bytes",
                     c->big_endian ? " (big-endian)" : "");

    for (size_t i = 0; i < c->n && n > 0 && n < TG_CHAIN_TEXT_BYTES; i++)
        n += snprintf(dst + n, (size_t)(TG_CHAIN_TEXT_BYTES - n), " %s",
                      c->codecs[i]->ops->name);
}

bool tg_chain_is_fixed_size(const tg_chain *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (!is_crc(c, k))
            return false;
    return !tg_chain_is_strings(c);
}

bool tg_chain_detects_damage(const tg_chain *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->codecs[k]->ops->detects_damage(c->codecs[k]))
            return true;
    return false;
}

/* --- Sizes --------------------------------------------------------------- */

size_t tg_chain_input_bound(const tg_chain *c, size_t k, size_t plain)
{
    size_t n = plain;

    for (size_t i = 0; i < k && n != SIZE_MAX; i++)
        n = c->codecs[i]->ops->bound(c->codecs[i], n);
    return n;
}

size_t tg_chain_bound(const tg_chain *c, size_t text_bytes)
{
    size_t plain = c->items_bytes;

    if (tg_chain_is_strings(c) && (__builtin_mul_overflow(c->n_items + 1, 4, &plain) ||
                                   __builtin_add_overflow(plain, text_bytes, &plain)))
        return SIZE_MAX;
    return tg_chain_input_bound(c, c->n, plain);
}
