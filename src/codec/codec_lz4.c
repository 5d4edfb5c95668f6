/* codec/codec_lz4.c - numcodecs' "lz4": the decoded size as u32le, then one raw
 * LZ4 block. Not the LZ4 frame format. */
#include "codec/codecs.h"

#include <limits.h>
#include <lz4.h>
#include <string.h>

typedef struct lz4_codec {
    tg_codec codec;
    int acceleration; /* 1: densest */
} lz4_codec;

enum { HEADER = 4 };

static const lz4_codec *self(const tg_codec *c)
{
    return (const lz4_codec *)(const void *)c;
}

static size_t bound(const tg_codec *c, size_t n)
{
    (void)c;
    return n > LZ4_MAX_INPUT_SIZE ? SIZE_MAX : HEADER + (size_t)LZ4_compressBound((int)n);
}

static size_t context_bytes(const tg_codec *c, size_t n, bool encode)
{
    (void)c;
    (void)n;
    return encode ? (size_t)LZ4_sizeofState() : 0;
}

static tg_status context_new(const tg_codec *c, size_t n, bool encode, void **ctx,
                             tg_error *err)
{
    size_t bytes = context_bytes(c, n, encode);
    void *made = encode ? tg_alloc(bytes) : NULL;

    if (encode && made == NULL)
        return tg_fail(err, TG_NO_MEMORY, "lz4: no memory for a context of %zu bytes", bytes);
    *ctx = made;
    return TG_OK;
}

static void context_free(const tg_codec *c, void *ctx)
{
    (void)c;
    tg_free(ctx);
}

static tg_status encode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst, size_t cap,
                        size_t *n, tg_error *err)
{
    if (src.len > LZ4_MAX_INPUT_SIZE || cap < bound(c, src.len))
        return tg_fail(err, TG_INVALID, "lz4: %zu bytes into %zu, want at most %d into %zu",
                       src.len, cap, LZ4_MAX_INPUT_SIZE, bound(c, src.len));
    int rc = LZ4_compress_fast_extState(ctx, (const char *)src.data, (char *)dst + HEADER,
                                        (int)src.len, LZ4_compressBound((int)src.len),
                                        self(c)->acceleration);
    if (rc <= 0)
        return tg_fail(err, TG_INVALID, "lz4: no room for the result");
    for (int i = 0; i < HEADER; i++)
        dst[i] = (uint8_t)(src.len >> (8 * i));
    *n = HEADER + (size_t)rc;
    return TG_OK;
}

static tg_status decode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst, size_t cap,
                        size_t *n, tg_error *err)
{
    size_t want = 0;

    (void)c;
    (void)ctx;
    if (src.len < HEADER || src.len - HEADER > INT_MAX)
        return tg_fail(err, TG_CORRUPT, "lz4: %zu bytes, want a header of %d and a block",
                       src.len, HEADER);
    for (int i = 0; i < HEADER; i++)
        want |= (size_t)src.data[i] << (8 * i);
    if (want > cap || want > INT_MAX)
        return tg_fail(err, TG_CORRUPT, "lz4: header says %zu bytes, want at most %zu", want,
                       cap);
    int rc = LZ4_decompress_safe((const char *)src.data + HEADER, (char *)dst,
                                 (int)(src.len - HEADER), (int)want);
    if (rc < 0 || (size_t)rc != want)
        return tg_fail(err, TG_CORRUPT, "lz4: the block is bad, header says %zu bytes", want);
    *n = want;
    return TG_OK;
}

static bool detects(const tg_codec *c)
{
    (void)c;
    return false;
}

static tg_status write_config(const tg_codec *c, int zarr_format, tg_json **out, tg_error *err)
{
    tg_json *at;

    TG_AUTO_PTR(tg_json) root = NULL;
    TG_TRY(tg_config_begin(zarr_format == 3 ? "numcodecs.lz4" : "lz4", zarr_format, &root, &at,
                           err));
    TG_TRY(tg_json_set(at, "acceleration", tg_json_new_i64(self(c)->acceleration), err));
    *out = tg_steal(root);
    return TG_OK;
}

static void codec_free(tg_codec *c)
{
    tg_free(c);
}

static const tg_codec_ops ops = {
    .name = "lz4",
    .bound = bound,
    .context_bytes = context_bytes,
    .context_new = context_new,
    .context_free = context_free,
    .encode = encode,
    .decode = decode,
    .detects_damage = detects,
    .write_config = write_config,
    .free = codec_free,
};

tg_status tg_lz4_new(tg_codec **out, int acceleration, tg_error *err)
{
    lz4_codec *c = tg_alloc(sizeof *c);
    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a codec");
    *c = (lz4_codec){{&ops}, acceleration};
    *out = &c->codec;
    return TG_OK;
}

tg_status tg_lz4_open(tg_codec **out, const tg_config *config, tg_error *err)
{
    static const char *const keys[] = {"acceleration"};
    int acceleration = 1;

    TG_TRY(tg_config_int(config, "acceleration", INT_MIN, INT_MAX, &acceleration, err));
    TG_TRY(tg_config_only(config, keys, 1, err));
    return tg_lz4_new(out, acceleration, err);
}

const char *tg_lz4_version(void)
{
    return LZ4_versionString();
}
