/* codec/chain_run.c - running a chain: which step reads from where and writes to
 * where, in how much room. Two rules save copies: a checksum is added and taken
 * off in place, and the last step that moves bytes writes where the caller
 * wants them. Knows no metadata. */
#include "codec/chain.h"

#include <assert.h>
#include <string.h>

typedef enum step_kind {
    STEP_COPY,
    STEP_PACK,   /* items to encoded order and byte order */
    STEP_UNPACK, /* encoded order to items */
    STEP_ADD,    /* a sum behind the data, in place */
    STEP_CHECK,  /* and off again */
    STEP_CODEC
} step_kind;

typedef struct step {
    step_kind kind;
    size_t k;    /* the codec */
    size_t most; /* bytes that it may give */
} step;

typedef struct plan {
    size_t n, n_moves; /* steps; those that write to another place */
    size_t half;       /* bytes of each scratch half */
    size_t n_halves;   /* 0 to 2: values between moves take turns */
    step steps[TG_CHAIN_MOST + 2];
} plan;

struct tg_chain_context {
    const tg_chain *chain;
    bool encode;
    plan plan;
    uint8_t *scratch;
    void *codecs[TG_CHAIN_MOST];
};

/* --- The plan ------------------------------------------------------------ */

static bool moves(step_kind kind)
{
    return kind != STEP_ADD && kind != STEP_CHECK;
}

static void add(plan *p, step_kind kind, size_t k, size_t most)
{
    p->steps[p->n++] = (step){kind, k, most};
    p->n_moves += moves(kind);
}

/* Where the i-th of the moves writes: scratch half 0 or 1, or -1: to the caller's room. */
static int half_of(const plan *p, size_t move)
{
    return move + 1 == p->n_moves ? -1 : (int)((p->n_moves - 2 - move) % 2);
}

static void size_scratch(plan *p)
{
    size_t move = 0;
    int where = -1;

    for (size_t i = 0; i < p->n; i++) {
        if (moves(p->steps[i].kind))
            where = half_of(p, move++);
        if (where >= 0 && p->steps[i].most > p->half)
            p->half = p->steps[i].most;
    }
    p->n_halves = p->n_moves > 2 ? 2 : p->n_moves - 1;
}

static void plan_encode(plan *p, const tg_chain *c, size_t plain)
{
    *p = (plan){0};
    if (tg_chain_is_packed(c))
        add(p, STEP_PACK, 0, plain);
    for (size_t k = 0; k < c->n; k++) {
        bool ours = p->n_moves > 0; /* the value lies in room of ours: not the caller's items */
        add(p, ours && tg_codec_is_crc32c(c->codecs[k]) ? STEP_ADD : STEP_CODEC, k,
            tg_chain_input_bound(c, k + 1, plain));
    }
    if (p->n_moves == 0)
        add(p, STEP_COPY, 0, plain);
    size_scratch(p);
}

/* The most that undoing codec k may give. Another writer's encoder may have
 * needed more room than ours would, so between two of them there is some more. */
static size_t output_most(const tg_chain *c, size_t k, size_t plain)
{
    size_t n = tg_chain_input_bound(c, k, plain), slack = 0;

    for (size_t i = 0; i < k; i++)
        if (!tg_codec_is_crc32c(c->codecs[i]))
            slack = n / 8 + 4096;
    return n > SIZE_MAX - slack ? SIZE_MAX : n + slack;
}

static void plan_decode(plan *p, const tg_chain *c, size_t plain)
{
    *p = (plan){0};
    for (size_t k = c->n; k-- > 0;) {
        bool in_place = tg_codec_is_crc32c(c->codecs[k]) && (k > 0 || c->transposed);
        add(p, in_place ? STEP_CHECK : STEP_CODEC, k, output_most(c, k, plain));
    }
    if (c->transposed)
        add(p, STEP_UNPACK, 0, plain);
    if (p->n_moves == 0)
        add(p, STEP_COPY, 0, plain);
    size_scratch(p);
}

static void make_plan(plan *p, const tg_chain *c, size_t plain, bool encode)
{
    if (encode)
        plan_encode(p, c, plain);
    else
        plan_decode(p, c, plain);
}

/* --- Contexts ------------------------------------------------------------ */

static bool scratch_bytes(const plan *p, size_t *bytes)
{
    return !__builtin_mul_overflow(p->half, p->n_halves, bytes);
}

/* The largest value that codec k meets on its array side. */
static size_t codec_plain(const tg_chain *c, size_t k, size_t plain, bool encode)
{
    return encode ? tg_chain_input_bound(c, k, plain) : output_most(c, k, plain);
}

size_t tg_chain_plain_context_bytes(const tg_chain *c, size_t plain, bool encode)
{
    enum { HEADER = 64 }; /* the allocator's, per block */
    plan p;
    size_t total, scratch;

    make_plan(&p, c, plain, encode);
    if (!scratch_bytes(&p, &scratch))
        return SIZE_MAX;
    total = sizeof(tg_chain_context) + HEADER;
    bool over = __builtin_add_overflow(total, scratch, &total);
    for (size_t k = 0; k < c->n; k++) {
        const tg_codec *codec = c->codecs[k];
        size_t n = codec->ops->context_bytes(codec, codec_plain(c, k, plain, encode), encode);
        over |= __builtin_add_overflow(total, n, &total);
        over |= __builtin_add_overflow(total, (size_t)HEADER, &total);
    }
    return over ? SIZE_MAX : total;
}

void tg_chain_context_free(tg_chain_context *ctx)
{
    if (ctx == NULL)
        return;
    for (size_t k = 0; k < ctx->chain->n; k++) {
        const tg_codec *codec = ctx->chain->codecs[k];
        if (ctx->codecs[k] != NULL)
            codec->ops->context_free(codec, ctx->codecs[k]);
    }
    tg_free(ctx->scratch);
    tg_free(ctx);
}

tg_status tg_chain_plain_context(const tg_chain *c, size_t plain, bool encode,
                                 tg_chain_context **out, tg_error *err)
{
    size_t bytes;

    TG_AUTO_PTR(tg_chain_context) ctx = tg_calloc(1, sizeof *ctx);
    if (ctx == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a codec context");
    ctx->chain = c;
    ctx->encode = encode;
    make_plan(&ctx->plan, c, plain, encode);
    if (encode && tg_chain_input_bound(c, c->n, plain) == SIZE_MAX)
        return tg_fail(err, TG_INVALID, "codecs: a chunk of %zu bytes is too large", plain);
    bool fits = scratch_bytes(&ctx->plan, &bytes);
    if (fits && bytes > 0)
        ctx->scratch = tg_alloc(bytes);
    if (!fits || (bytes > 0 && ctx->scratch == NULL))
        return tg_fail(err, TG_NO_MEMORY, "no memory for %zu x %zu bytes between codecs",
                       ctx->plan.n_halves, ctx->plan.half);
    for (size_t k = 0; k < c->n; k++) {
        const tg_codec *codec = c->codecs[k];
        TG_TRY(codec->ops->context_new(codec, codec_plain(c, k, plain, encode), encode,
                                       &ctx->codecs[k], err));
    }
    *out = tg_steal(ctx);
    return TG_OK;
}

size_t tg_chain_context_bytes(const tg_chain *c, bool encode)
{
    return tg_chain_is_strings(c) ? sizeof(tg_chain_context)
                                  : tg_chain_plain_context_bytes(c, c->items_bytes, encode);
}

/* What strings need depends on their text: each call makes its own. */
tg_status tg_chain_context_new(const tg_chain *c, bool encode, tg_chain_context **out,
                               tg_error *err)
{
    static const tg_chain nothing;

    return tg_chain_is_strings(c) ? tg_chain_plain_context(&nothing, 0, encode, out, err)
                                  : tg_chain_plain_context(c, c->items_bytes, encode, out, err);
}

/* --- Steps --------------------------------------------------------------- */

static tg_status exactly(size_t got, size_t want, tg_error *err)
{
    if (got == want)
        return TG_OK;
    return tg_fail(err, TG_CORRUPT, "chunk: %zu bytes after decoding, want %zu", got, want);
}

static tg_shape encoded_shape(const tg_chain *c)
{
    tg_shape s = {.ndim = c->shape.ndim};
    for (uint32_t i = 0; i < s.ndim; i++)
        s.n[i] = c->shape.n[c->order[i]];
    return s;
}

/* The strides of the items, by axis of what is encoded. */
static void item_strides(const tg_chain *c, int64_t *strides)
{
    int64_t plain[TG_MAX_NDIM];

    tg_strides_c(&c->shape, c->dtype.size, plain);
    for (uint32_t i = 0; i < c->shape.ndim; i++)
        strides[i] = plain[c->order[i]];
}

static void pack(const tg_chain *c, const uint8_t *items, uint8_t *dst)
{
    size_t unit = tg_chain_swap_bytes(c);
    int64_t from[TG_MAX_NDIM], to[TG_MAX_NDIM];
    tg_shape s = encoded_shape(c);

    if (!c->transposed) {
        tg_nd_swap(dst, items, c->items_bytes / unit, unit);
        return;
    }
    item_strides(c, from);
    tg_strides_c(&s, c->dtype.size, to);
    tg_nd_copy(dst, to, items, from, &s, c->dtype.size);
    tg_nd_swap(dst, dst, c->items_bytes / unit, unit);
}

static void unpack(const tg_chain *c, const uint8_t *src, uint8_t *items)
{
    int64_t from[TG_MAX_NDIM], to[TG_MAX_NDIM];
    tg_shape s = encoded_shape(c);

    tg_strides_c(&s, c->dtype.size, from);
    item_strides(c, to);
    tg_nd_copy(items, to, src, from, &s, c->dtype.size);
}

typedef struct room {
    uint8_t *to;
    size_t cap;
} room;

/* One step that writes elsewhere: cur becomes what it wrote. */
static tg_status move(tg_chain_context *ctx, const step *s, room r, tg_bytes *cur,
                      tg_error *err)
{
    const tg_chain *c = ctx->chain;
    const tg_codec *codec = c->n == 0 ? NULL : c->codecs[s->k];
    size_t n = cur->len;

    switch (s->kind) {
    case STEP_PACK:
        pack(c, cur->data, r.to);
        break;
    case STEP_UNPACK:
        TG_TRY(exactly(cur->len, c->items_bytes, err));
        unpack(c, cur->data, r.to);
        break;
    case STEP_CODEC:
        assert(codec != NULL); /* such a step comes from a codec */
        TG_TRY((ctx->encode ? codec->ops->encode : codec->ops->decode)(
            codec, ctx->codecs[s->k], *cur, r.to, r.cap, &n, err));
        break;
    default:
        if (cur->len > r.cap)
            return tg_fail(err, TG_CORRUPT, "chunk: %zu bytes, want %zu", cur->len, r.cap);
        memcpy(r.to, cur->data, cur->len);
        break;
    }
    *cur = (tg_bytes){r.to, n};
    return TG_OK;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): what is written to goes through `room` */
tg_status tg_chain_run(tg_chain_context *ctx, tg_bytes src, uint8_t *dst, size_t cap, size_t *n,
                       tg_error *err)
{
    const plan *p = &ctx->plan;
    tg_bytes cur = src;
    room r = {NULL, 0};
    size_t at = 0;

    for (size_t i = 0; i < p->n; i++) {
        const step *s = &p->steps[i];
        if (s->kind == STEP_CHECK) {
            TG_TRY(tg_crc32c_check(cur, &cur.len, err));
            continue;
        }
        if (s->kind == STEP_ADD) {
            tg_crc32c_append(r.to, cur.len);
            cur.len += TG_CRC32C_BYTES;
            continue;
        }
        int half = half_of(p, at++);
        r = half < 0 ? (room){dst, cap}
                     : (room){ctx->scratch + p->half * (size_t)half, s->most};
        TG_TRY(move(ctx, s, r, &cur, err));
    }
    *n = cur.len;
    return TG_OK;
}

/* --- Whole chunks -------------------------------------------------------- */

tg_status tg_chain_encode(const tg_chain *c, tg_chain_context *ctx, tg_bytes items,
                          uint8_t *dst, size_t cap, size_t *n, tg_error *err)
{
    assert(ctx->chain == c && ctx->encode);
    if (items.len != c->items_bytes || cap < tg_chain_bound(c, 0))
        return tg_fail(err, TG_INVALID, "chunk: %zu bytes into room for %zu, want %zu into %zu",
                       items.len, cap, c->items_bytes, tg_chain_bound(c, 0));
    return tg_chain_run(ctx, items, dst, cap, n, err);
}

/* Readers of other libraries take any byte but 0 for true; there is one true here. */
static void normalise_bools(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = p[i] != 0;
}

tg_status tg_chain_decode(const tg_chain *c, tg_chain_context *ctx, tg_bytes src,
                          uint8_t *items, size_t items_bytes, tg_error *err)
{
    size_t n = 0, unit = tg_chain_swap_bytes(c);

    assert(ctx->chain == c && !ctx->encode);
    if (items_bytes != c->items_bytes)
        return tg_fail(err, TG_INVALID, "chunk: room for %zu bytes, want %zu", items_bytes,
                       c->items_bytes);
    TG_TRY(tg_chain_run(ctx, src, items, items_bytes, &n, err));
    TG_TRY(exactly(n, items_bytes, err));
    if (unit > 1)
        tg_nd_swap(items, items, items_bytes / unit, unit);
    if (c->dtype.kind == TG_DT_BOOL)
        normalise_bools(items, items_bytes);
    return TG_OK;
}
