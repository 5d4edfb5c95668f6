/* codec/chain_strings.c - chunks of strings: their encoded size is not known
 * before they are seen, so each call makes the contexts it needs. Not for
 * frames: for names and table columns. */
#include "codec/chain.h"

static tg_status demand_strings(const tg_chain *c, tg_error *err)
{
    if (tg_chain_is_strings(c))
        return TG_OK;
    return tg_fail(err, TG_INVALID, "chunk: the items are no strings");
}

tg_status tg_chain_encode_strings(const tg_chain *c, tg_chain_context *ctx, const tg_strings *s,
                                  tg_buf *out, tg_error *err)
{
    size_t plain, bound, n = 0;

    (void)ctx;
    TG_TRY(demand_strings(c, err));
    if (s->n != c->n_items)
        return tg_fail(err, TG_INVALID, "chunk: %zu strings, want %llu", s->n,
                       (unsigned long long)c->n_items);
    TG_TRY(tg_vlen_bytes(s, &plain, err));
    TG_AUTO(tg_buf) raw = {0};
    TG_TRY(tg_buf_resize(&raw, plain, err));
    TG_TRY(tg_vlen_encode(s, raw.data, err));
    if (c->n == 0) {
        tg_buf_move(out, &raw);
        return TG_OK;
    }
    bound = tg_chain_input_bound(c, c->n, plain);
    TG_AUTO_PTR(tg_chain_context) own = NULL;
    TG_TRY(tg_chain_plain_context(c, plain, true, &own, err));
    TG_AUTO(tg_buf) encoded = {0};
    TG_TRY(tg_buf_resize(&encoded, bound, err));
    TG_TRY(tg_chain_run(own, (tg_bytes){raw.data, raw.len}, encoded.data, bound, &n, err));
    encoded.len = n;
    tg_buf_move(out, &encoded);
    return TG_OK;
}

static tg_status decode_into(const tg_chain *c, tg_bytes src, size_t cap, tg_buf *out,
                             tg_error *err)
{
    size_t n = 0;

    TG_AUTO_PTR(tg_chain_context) own = NULL;
    TG_AUTO(tg_buf) plain = {0};
    TG_TRY(tg_chain_plain_context(c, cap, false, &own, err));
    TG_TRY(tg_buf_resize(&plain, cap, err));
    TG_TRY(tg_chain_run(own, src, plain.data, cap, &n, err));
    plain.len = n;
    tg_buf_move(out, &plain);
    return TG_OK;
}

/* No format but some frames says how much text there is, so the room grows until the text
 * fits, or the caller's limit says no. What is corrupt is so in any room: such a
 * chunk costs a few attempts. */
static tg_status decode_growing(const tg_chain *c, tg_bytes src, size_t most, tg_buf *out,
                                tg_error *err)
{
    size_t cap = src.len > SIZE_MAX / 8 ? most : src.len * 4 + 4096;

    for (;;) {
        cap = cap < most ? cap : most;
        tg_status st = decode_into(c, src, cap, out, err);
        if (st != TG_CORRUPT || cap == most)
            return st;
        cap = cap > SIZE_MAX / 8 ? SIZE_MAX : cap * 8;
    }
}

tg_status tg_chain_decode_strings(const tg_chain *c, tg_chain_context *ctx, tg_bytes src,
                                  size_t limit, tg_strings *out, tg_error *err)
{
    size_t most = SIZE_MAX;

    (void)ctx;
    TG_TRY(demand_strings(c, err));
    if (c->n == 0)
        return tg_vlen_decode(src, c->n_items, limit, out, err);
    if (__builtin_mul_overflow(c->n_items + 1, 4, &most) ||
        __builtin_add_overflow(most, limit, &most))
        most = SIZE_MAX;
    TG_AUTO(tg_buf) plain = {0};
    TG_TRY(decode_growing(c, src, most, &plain, err));
    return tg_vlen_decode((tg_bytes){plain.data, plain.len}, c->n_items, limit, out, err);
}
