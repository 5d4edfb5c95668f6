/* codec/codec_crc32c.c - four bytes behind the data that prove it whole: CRC-32C,
 * little-endian, as Zarr v3 has it. */
#include "base/crc32c.h"
#include "codec/codecs.h"

#include <assert.h>
#include <string.h>

static size_t crc_bound(const tg_codec *c, size_t n)
{
    (void)c;
    return n > SIZE_MAX - TG_CRC32C_BYTES ? SIZE_MAX : n + TG_CRC32C_BYTES;
}

static size_t crc_context_bytes(const tg_codec *c, size_t n, bool encode)
{
    (void)c;
    (void)n;
    (void)encode;
    return 0;
}

static tg_status crc_context_new(const tg_codec *c, size_t n, bool encode, void **ctx,
                                 tg_error *err)
{
    (void)c;
    (void)n;
    (void)encode;
    (void)err;
    *ctx = NULL;
    return TG_OK;
}

static void crc_context_free(const tg_codec *c, void *ctx)
{
    (void)c;
    (void)ctx;
}

static void put_sum(uint8_t *at, uint32_t sum)
{
    for (int i = 0; i < TG_CRC32C_BYTES; i++)
        at[i] = (uint8_t)(sum >> (8 * i));
}

static uint32_t get_sum(const uint8_t *at)
{
    uint32_t sum = 0;
    for (int i = 0; i < TG_CRC32C_BYTES; i++)
        sum |= (uint32_t)at[i] << (8 * i);
    return sum;
}

void tg_crc32c_append(uint8_t *data, size_t n)
{
    put_sum(data + n, tg_crc32c(0, data, n));
}

static tg_status compare(uint32_t got, uint32_t want, tg_error *err)
{
    if (got == want)
        return TG_OK;
    return tg_fail(err, TG_CORRUPT, "crc32c: the data have %08x, the sum behind them is %08x",
                   (unsigned)got, (unsigned)want);
}

static tg_status body_of(tg_bytes src, size_t *n, tg_error *err)
{
    if (src.len < TG_CRC32C_BYTES)
        return tg_fail(err, TG_CORRUPT, "crc32c: %zu bytes, want %d or more", src.len,
                       TG_CRC32C_BYTES);
    *n = src.len - TG_CRC32C_BYTES;
    return TG_OK;
}

tg_status tg_crc32c_check(tg_bytes src, size_t *n, tg_error *err)
{
    size_t body;

    TG_TRY(body_of(src, &body, err));
    TG_TRY(compare(tg_crc32c(0, src.data, body), get_sum(src.data + body), err));
    *n = body;
    return TG_OK;
}

static tg_status crc_encode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst,
                            size_t cap, size_t *n, tg_error *err)
{
    (void)c;
    (void)ctx;
    (void)cap; /* for assert() only */
    (void)err;
    assert(cap >= crc_bound(c, src.len));
    put_sum(dst + src.len, tg_crc32c_copy(0, dst, src.data, src.len));
    *n = src.len + TG_CRC32C_BYTES;
    return TG_OK;
}

static tg_status crc_decode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst,
                            size_t cap, size_t *n, tg_error *err)
{
    size_t body;

    (void)c;
    (void)ctx;
    TG_TRY(body_of(src, &body, err));
    if (body > cap)
        return tg_fail(err, TG_CORRUPT, "crc32c: %zu bytes of data, want at most %zu", body,
                       cap);
    TG_TRY(compare(tg_crc32c_copy(0, dst, src.data, body), get_sum(src.data + body), err));
    *n = body;
    return TG_OK;
}

static bool crc_detects(const tg_codec *c)
{
    (void)c;
    return true;
}

static tg_status crc_write(const tg_codec *c, int zarr_format, tg_json **out, tg_error *err)
{
    tg_json *at;

    TG_AUTO_PTR(tg_json) root = NULL;
    TG_TRY(tg_config_begin(c->ops->name, zarr_format, &root, &at, err));
    if (zarr_format == 3)
        tg_json_remove(root, "configuration"); /* the specification has none */
    *out = tg_steal(root);
    return TG_OK;
}

static void crc_free(tg_codec *c)
{
    tg_free(c);
}

static const tg_codec_ops ops = {
    .name = "crc32c",
    .bound = crc_bound,
    .context_bytes = crc_context_bytes,
    .context_new = crc_context_new,
    .context_free = crc_context_free,
    .encode = crc_encode,
    .decode = crc_decode,
    .detects_damage = crc_detects,
    .write_config = crc_write,
    .free = crc_free,
};

bool tg_codec_is_crc32c(const tg_codec *c)
{
    return c->ops == &ops;
}

tg_status tg_crc32c_new(tg_codec **out, tg_error *err)
{
    tg_codec *c = tg_alloc(sizeof *c);
    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a codec");
    c->ops = &ops;
    *out = c;
    return TG_OK;
}

tg_status tg_crc32c_open(tg_codec **out, const tg_config *config, tg_error *err)
{
    TG_TRY(tg_config_only(config, NULL, 0, err));
    return tg_crc32c_new(out, err);
}
