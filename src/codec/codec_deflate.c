/* codec/codec_deflate.c - gzip (RFC 1952, any number of members) and zlib (RFC
 * 1950, one stream) by libdeflate, which works on whole buffers. What follows
 * the data is refused: it is no part of either format. */
#include "codec/codecs.h"

#include <libdeflate.h>
#include <string.h>

typedef struct deflate_codec {
    tg_codec codec;
    int level; /* 0 to 9; -1, in zarr_format 2 only: the default */
} deflate_codec;

enum { DEFAULT_LEVEL = 6 };
#define MOST (SIZE_MAX / 4)

static const deflate_codec *self(const tg_codec *c)
{
    return (const deflate_codec *)(const void *)c;
}

/* libdeflate's for both formats: 5 bytes per stored block of at least 10,000,
 * and the larger of the two wrappers. It does not depend on the level. */
static size_t bound(const tg_codec *c, size_t n)
{
    (void)c;
    return n > MOST ? SIZE_MAX : libdeflate_gzip_compress_bound(NULL, n);
}

/* libdeflate 1.14 takes its contexts from malloc() and tells no size. Measured:
 * 6784, 204800 and 671744 bytes at levels 0, 1 and 2 to 9; 11568 to decode. */
static size_t context_bytes(const tg_codec *c, size_t n, bool encode)
{
    (void)n;
    if (!encode)
        return 16 << 10;
    return self(c)->level == 0 ? 16 << 10 : self(c)->level == 1 ? 256 << 10 : 704 << 10;
}

typedef struct context {
    struct libdeflate_compressor *encoder; /* one of the two is NULL */
    struct libdeflate_decompressor *decoder;
} context;

static void context_free(const tg_codec *c, void *ctx)
{
    context *x = ctx;

    (void)c;
    if (x == NULL)
        return;
    libdeflate_free_compressor(x->encoder);
    libdeflate_free_decompressor(x->decoder);
    tg_free(x);
}

static tg_status context_new(const tg_codec *c, size_t n, bool encode, void **ctx,
                             tg_error *err)
{
    int level = self(c)->level < 0 ? DEFAULT_LEVEL : self(c)->level;
    context *x = tg_calloc(1, sizeof *x);

    if (x != NULL && encode)
        x->encoder = libdeflate_alloc_compressor(level);
    else if (x != NULL)
        x->decoder = libdeflate_alloc_decompressor();
    if (x == NULL || (x->encoder == NULL && x->decoder == NULL)) {
        tg_free(x);
        return tg_fail(err, TG_NO_MEMORY, "%s: no memory for a context of %zu bytes",
                       c->ops->name, context_bytes(c, n, encode));
    }
    *ctx = x;
    return TG_OK;
}

static tg_status encoded(size_t rc, const tg_codec *c, size_t *n, tg_error *err)
{
    if (rc == 0)
        return tg_fail(err, TG_INVALID, "%s: no room for the result", c->ops->name);
    *n = rc;
    return TG_OK;
}

static struct libdeflate_compressor *encoder_of(const context *x)
{
    return x->encoder;
}

static tg_status gzip_encode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst,
                             size_t cap, size_t *n, tg_error *err)
{
    return encoded(libdeflate_gzip_compress(encoder_of(ctx), src.data, src.len, dst, cap), c, n,
                   err);
}

static tg_status zlib_encode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst,
                             size_t cap, size_t *n, tg_error *err)
{
    return encoded(libdeflate_zlib_compress(encoder_of(ctx), src.data, src.len, dst, cap), c, n,
                   err);
}

/* One member or stream at the beginning of src: how much of it was read, how
 * much written. */
typedef enum libdeflate_result decode_one_fn(struct libdeflate_decompressor *, const void *in,
                                             size_t in_n, void *out, size_t out_n,
                                             size_t *in_used, size_t *out_used);

static tg_status decode_one(const tg_codec *c, const context *x, decode_one_fn *fn,
                            tg_bytes *src, uint8_t *dst, size_t cap, size_t *n, tg_error *err)
{
    size_t used = 0, got = 0;
    enum libdeflate_result rc =
        fn(x->decoder, src->data, src->len, dst + *n, cap - *n, &used, &got);

    if (rc == LIBDEFLATE_INSUFFICIENT_SPACE)
        return tg_fail(err, TG_CORRUPT, "%s: more than %zu bytes", c->ops->name, cap);
    if (rc != LIBDEFLATE_SUCCESS)
        return tg_fail(err, TG_CORRUPT, "%s: bad data", c->ops->name);
    *n += got;
    *src = (tg_bytes){src->data + used, src->len - used};
    return TG_OK;
}

static tg_status gzip_decode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst,
                             size_t cap, size_t *n, tg_error *err)
{
    size_t total = 0;

    do {
        TG_TRY(decode_one(c, ctx, libdeflate_gzip_decompress_ex, &src, dst, cap, &total, err));
    } while (src.len > 0);
    *n = total;
    return TG_OK;
}

static tg_status zlib_decode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst,
                             size_t cap, size_t *n, tg_error *err)
{
    size_t total = 0;

    TG_TRY(decode_one(c, ctx, libdeflate_zlib_decompress_ex, &src, dst, cap, &total, err));
    if (src.len > 0)
        return tg_fail(err, TG_CORRUPT, "zlib: %zu bytes after the data", src.len);
    *n = total;
    return TG_OK;
}

/* gzip has a CRC-32 of the data. zlib's Adler-32 is a sum: bytes that change
 * place or make up for each other pass it, and one flipped bit can do that. */
static bool gzip_detects(const tg_codec *c)
{
    (void)c;
    return true;
}

static bool zlib_detects(const tg_codec *c)
{
    (void)c;
    return false;
}

static tg_status write_config(const tg_codec *c, int zarr_format, tg_json **out, tg_error *err)
{
    /* Zarr v3 knows no zlib but numcodecs'. */
    bool foreign = zarr_format == 3 && strcmp(c->ops->name, "zlib") == 0;
    tg_json *at;

    TG_AUTO_PTR(tg_json) root = NULL;
    TG_TRY(tg_config_begin(foreign ? "numcodecs.zlib" : c->ops->name, zarr_format, &root, &at,
                           err));
    TG_TRY(tg_json_set(at, "level", tg_json_new_i64(self(c)->level), err));
    *out = tg_steal(root);
    return TG_OK;
}

static void codec_free(tg_codec *c)
{
    tg_free(c);
}

static const tg_codec_ops gzip_ops = {
    .name = "gzip",
    .bound = bound,
    .context_bytes = context_bytes,
    .context_new = context_new,
    .context_free = context_free,
    .encode = gzip_encode,
    .decode = gzip_decode,
    .detects_damage = gzip_detects,
    .write_config = write_config,
    .free = codec_free,
};

static const tg_codec_ops zlib_ops = {
    .name = "zlib",
    .bound = bound,
    .context_bytes = context_bytes,
    .context_new = context_new,
    .context_free = context_free,
    .encode = zlib_encode,
    .decode = zlib_decode,
    .detects_damage = zlib_detects,
    .write_config = write_config,
    .free = codec_free,
};

tg_status tg_deflate_new(tg_codec **out, tg_deflate_form form, int level, tg_error *err)
{
    const tg_codec_ops *ops = form == TG_DEFLATE_GZIP ? &gzip_ops : &zlib_ops;

    if (level < -1 || level > 9)
        return tg_fail(err, TG_INVALID, "%s: level %d, want 0 to 9", ops->name, level);
    deflate_codec *c = tg_alloc(sizeof *c);
    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a codec");
    *c = (deflate_codec){{ops}, level};
    *out = &c->codec;
    return TG_OK;
}

static tg_status open_form(tg_codec **out, tg_deflate_form form, const tg_config *config,
                           tg_error *err)
{
    static const char *const keys[] = {"level"};
    int level = 1; /* numcodecs' default */

    TG_TRY(tg_config_int(config, "level", config->zarr_format == 2 ? -1 : 0, 9, &level, err));
    TG_TRY(tg_config_only(config, keys, 1, err));
    return tg_deflate_new(out, form, level, err);
}

tg_status tg_gzip_open(tg_codec **out, const tg_config *config, tg_error *err)
{
    return open_form(out, TG_DEFLATE_GZIP, config, err);
}

tg_status tg_zlib_open(tg_codec **out, const tg_config *config, tg_error *err)
{
    return open_form(out, TG_DEFLATE_ZLIB, config, err);
}

const char *tg_deflate_version(void)
{
    return LIBDEFLATE_VERSION_STRING;
}
