/* unit/codec/make.h - what the codec tests share: codecs with room of exactly the
 * size asked for, so that the address sanitizer sees one byte too many. */
#ifndef TG_TESTS_CODEC_MAKE_H
#define TG_TESTS_CODEC_MAKE_H

#include "check.h"
#include "codec/codecs.h"

#include <stdlib.h>

static inline uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Data of a kind: 0 zeros, 1 noise, 2 a noisy 16-bit ramp as a camera makes, 3 text-like. */
enum { KINDS = 4 };
static inline void make_data(uint8_t *p, size_t n, int kind, uint64_t seed)
{
    uint64_t s = seed;
    for (size_t i = 0; i < n; i++) {
        uint64_t r = kind == 0 ? 0 : next_random(&s);
        uint64_t ramp = 1000 + i / 64 + (r & 7);
        switch (kind) {
        case 2:
            p[i] = (uint8_t)(ramp >> (8 * (i & 1)));
            break;
        case 3:
            p[i] = (uint8_t) "the tide"[r & 7];
            break;
        default:
            p[i] = (uint8_t)r;
            break;
        }
    }
}

static inline void codec_auto(tg_codec **c)
{
    if (*c != NULL)
        (*c)->ops->free(*c);
}
typedef tg_codec *codec;

/* Encode into room of exactly the bound; *out is what was made. */
static inline tg_status encode(const tg_codec *c, tg_bytes src, tg_buf *out, tg_error *err)
{
    void *ctx = NULL;
    size_t cap = c->ops->bound(c, src.len), n = SIZE_MAX;
    tg_status st = c->ops->context_new(c, src.len, true, &ctx, err);

    if (st == TG_OK)
        st = tg_buf_resize(out, cap, err);
    if (st == TG_OK) {
        st = c->ops->encode(c, ctx, src, out->data, cap, &n, err);
        if (st == TG_OK && n > cap)
            abort();
        if (st == TG_OK)
            out->len = n;
    }
    if (ctx != NULL)
        c->ops->context_free(c, ctx);
    return st;
}

/* Decode a copy of exactly the bytes of src into room of exactly cap. *n as the codec leaves
 * it. */
static inline tg_status decode(const tg_codec *c, tg_bytes src, size_t cap, tg_buf *out,
                               size_t *n, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) copy = tg_alloc(src.len);
    void *ctx = NULL;
    tg_status st = copy == NULL ? TG_NO_MEMORY : tg_buf_resize(out, cap, err);

    if (st != TG_OK)
        return st;
    memcpy(copy, src.data, src.len);
    st = c->ops->context_new(c, cap, false, &ctx, err);
    if (st == TG_OK)
        st = c->ops->decode(c, ctx, (tg_bytes){copy, src.len}, out->data, cap, n, err);
    if (ctx != NULL)
        c->ops->context_free(c, ctx);
    return st;
}

/* Bytes from hexadecimal digits; spaces are passed over. */
static inline tg_bytes hex(const char *s, uint8_t *room, size_t cap)
{
    size_t n = 0, digits = 0;
    for (; *s != '\0'; s++) {
        const char *at = strchr("0123456789abcdef", *s);
        if (at == NULL)
            continue;
        if (n == cap)
            abort();
        room[n] = (uint8_t)((digits % 2 == 0 ? 0 : room[n]) << 4 | (at - "0123456789abcdef"));
        n += digits++ % 2;
    }
    return (tg_bytes){room, n};
}

#endif
