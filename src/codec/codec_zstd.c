/* codec/codec_zstd.c - Zstandard frames (RFC 8878). Contexts lie in memory of
 * ours, sized for the largest value, so that no call takes any. Decoding is in
 * one shot into the caller's room: a frame's window needs no memory, whatever
 * its header says, and a frame that says no content size is no special case. */
#define ZSTD_STATIC_LINKING_ONLY /* contexts in given memory */
#include "codec/codecs.h"

#include <zstd.h>

typedef struct zstd_codec {
    tg_codec codec;
    int level; /* 0: zstd's default */
    bool checksum;
} zstd_codec;

/* The largest value for which zstd's own arithmetic is safe everywhere. */
#define MOST (SIZE_MAX / 4)

static const zstd_codec *self(const tg_codec *c)
{
    return (const zstd_codec *)(const void *)c;
}

static size_t zstd_bound(const tg_codec *c, size_t n)
{
    (void)c;
    return n > MOST ? SIZE_MAX : ZSTD_compressBound(n);
}

static ZSTD_compressionParameters parameters(int level, size_t n)
{
    return ZSTD_getCParams(level, n == 0 ? 1 : n, 0); /* 0 would mean: not known */
}

size_t tg_zstd_encoder_bytes(int level, size_t n)
{
    return ZSTD_estimateCCtxSize_usingCParams(parameters(level, n));
}

int tg_zstd_max_level(void)
{
    return ZSTD_maxCLevel();
}

static size_t zstd_context_bytes(const tg_codec *c, size_t n, bool encode)
{
    return encode ? tg_zstd_encoder_bytes(self(c)->level, n) : ZSTD_estimateDCtxSize();
}

/* The parameters for the largest value hold for smaller ones too: zstd would
 * choose others by size, and some of those take more room than was made. */
static size_t fix_parameters(ZSTD_CCtx *z, const zstd_codec *c, size_t n)
{
    ZSTD_compressionParameters p = parameters(c->level, n);
    const struct {
        ZSTD_cParameter name;
        int value;
    } set[] = {
        {ZSTD_c_compressionLevel, c->level},
        {ZSTD_c_windowLog, (int)p.windowLog},
        {ZSTD_c_hashLog, (int)p.hashLog},
        {ZSTD_c_chainLog, (int)p.chainLog},
        {ZSTD_c_searchLog, (int)p.searchLog},
        {ZSTD_c_minMatch, (int)p.minMatch},
        {ZSTD_c_targetLength, (int)p.targetLength},
        {ZSTD_c_strategy, (int)p.strategy},
        {ZSTD_c_checksumFlag, c->checksum},
        {ZSTD_c_contentSizeFlag, 1}, /* a static context has no defaults */
    };

    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        size_t rc = ZSTD_CCtx_setParameter(z, set[i].name, set[i].value);
        if (ZSTD_isError(rc))
            return rc;
    }
    return 0;
}

static tg_status zstd_context_new(const tg_codec *c, size_t n, bool encode, void **ctx,
                                  tg_error *err)
{
    size_t bytes = zstd_context_bytes(c, n, encode), rc = 0;

    TG_AUTO(tg_mem_ptr) room = tg_alloc(bytes);
    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "zstd: no memory for a context of %zu bytes", bytes);
    /* Both contexts begin where the room begins. */
    void *made = encode ? (void *)ZSTD_initStaticCCtx(room, bytes)
                        : (void *)ZSTD_initStaticDCtx(room, bytes);
    if (made == NULL)
        return tg_fail(err, TG_UNSUPPORTED, "zstd: no context in %zu bytes", bytes);
    if (encode)
        rc = fix_parameters(made, self(c), n);
    if (ZSTD_isError(rc))
        return tg_fail(err, TG_INVALID, "zstd: level %d: %s", self(c)->level,
                       ZSTD_getErrorName(rc));
    *ctx = made;
    (void)tg_steal(room);
    return TG_OK;
}

static void zstd_context_free(const tg_codec *c, void *ctx)
{
    (void)c;
    tg_free(ctx);
}

static tg_status zstd_encode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst,
                             size_t cap, size_t *n, tg_error *err)
{
    size_t rc = ZSTD_compress2(ctx, dst, cap, src.data, src.len);

    (void)c;
    if (ZSTD_isError(rc))
        return tg_fail(err, TG_NO_MEMORY, "zstd: %zu bytes: %s", src.len,
                       ZSTD_getErrorName(rc));
    *n = rc;
    return TG_OK;
}

static tg_status zstd_decode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst,
                             size_t cap, size_t *n, tg_error *err)
{
    (void)c;
    if (src.len == 0)
        return tg_fail(err, TG_CORRUPT, "zstd: no frame in 0 bytes");
    size_t rc = ZSTD_decompressDCtx(ctx, dst, cap, src.data, src.len);
    if (ZSTD_isError(rc))
        return tg_fail(err, TG_CORRUPT, "zstd: %zu bytes into %zu: %s", src.len, cap,
                       ZSTD_getErrorName(rc));
    *n = rc;
    return TG_OK;
}

static bool zstd_detects(const tg_codec *c)
{
    return self(c)->checksum;
}

static tg_status zstd_write(const tg_codec *c, int zarr_format, tg_json **out, tg_error *err)
{
    tg_json *at;

    TG_AUTO_PTR(tg_json) root = NULL;
    TG_TRY(tg_config_begin(c->ops->name, zarr_format, &root, &at, err));
    TG_TRY(tg_json_set(at, "level", tg_json_new_i64(self(c)->level), err));
    if (self(c)->checksum) /* "should be omitted if false" */
        TG_TRY(tg_json_set(at, "checksum", tg_json_new_bool(true), err));
    *out = tg_steal(root);
    return TG_OK;
}

static void zstd_free(tg_codec *c)
{
    tg_free(c);
}

static const tg_codec_ops ops = {
    .name = "zstd",
    .bound = zstd_bound,
    .context_bytes = zstd_context_bytes,
    .context_new = zstd_context_new,
    .context_free = zstd_context_free,
    .encode = zstd_encode,
    .decode = zstd_decode,
    .detects_damage = zstd_detects,
    .write_config = zstd_write,
    .free = zstd_free,
};

tg_status tg_zstd_new(tg_codec **out, int level, bool checksum, tg_error *err)
{
    if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel())
        return tg_fail(err, TG_INVALID, "zstd: level %d, want %d to %d", level,
                       ZSTD_minCLevel(), ZSTD_maxCLevel());
    zstd_codec *c = tg_alloc(sizeof *c);
    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a codec");
    *c = (zstd_codec){{&ops}, level, checksum};
    *out = &c->codec;
    return TG_OK;
}

tg_status tg_zstd_open(tg_codec **out, const tg_config *config, tg_error *err)
{
    static const char *const keys[] = {"level", "checksum"};
    int level = 0;
    bool checksum = false;

    TG_TRY(tg_config_int(config, "level", ZSTD_minCLevel(), ZSTD_maxCLevel(), &level, err));
    TG_TRY(tg_config_bool(config, "checksum", &checksum, err));
    TG_TRY(tg_config_only(config, keys, 2, err));
    return tg_zstd_new(out, level, checksum, err);
}

const char *tg_zstd_version(void)
{
    return ZSTD_versionString();
}
