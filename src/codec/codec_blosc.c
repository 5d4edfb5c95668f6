/* codec/codec_blosc.c - Blosc 1 frames by libblosc, one thread, no global state.
 * A frame is checked before libblosc sees it: 1.21 trusts sizes inside a
 * blosclz stream and can be made to write beyond its room. */
#include "codec/codecs.h"

#include <blosc.h>
#include <string.h>

typedef struct blosc_codec {
    tg_codec codec;
    tg_blosc_options o;
} blosc_codec;

const char *const tg_blosc_names[TG_BLOSC_COMPRESSORS] = {"blosclz", "lz4",    "lz4hc",
                                                          "zlib",    "snappy", "zstd"};
const char *const tg_blosc_shuffles[TG_BLOSC_SHUFFLES] = {"noshuffle", "shuffle", "bitshuffle"};
enum { ZSTD = 5 }; /* in tg_blosc_names */

static const blosc_codec *self(const tg_codec *c)
{
    return (const blosc_codec *)(const void *)c;
}

static size_t bound(const tg_codec *c, size_t n)
{
    (void)c;
    return n > BLOSC_MAX_BUFFERSIZE ? SIZE_MAX : n + BLOSC_MAX_OVERHEAD;
}

/* The blocks that libblosc cuts n bytes into are at most 1 MiB unless told otherwise. */
static size_t block_bytes(const blosc_codec *c, size_t n)
{
    size_t block = c->o.block > 0 ? (size_t)c->o.block : 1 << 20;

    return block < n ? block : n;
}

/* libblosc has no contexts that last: each call takes two blocks and what its
 * compressor takes from malloc(), and gives it back. 320 KiB covers the state
 * of zlib and lz4hc, measured 262-268 KiB, and of each decoder. A decoder's block is
 * what the frame says, checked to be no larger than the value. */
static size_t context_bytes(const tg_codec *c, size_t n, bool encode)
{
    size_t block = encode ? block_bytes(self(c), n) : n, state = (size_t)320 << 10, both;

    if (encode && self(c)->o.compressor == ZSTD && self(c)->o.level > 0) {
        /* As libblosc maps its levels to those of zstd. */
        int level = self(c)->o.level == 9 ? tg_zstd_max_level() : self(c)->o.level * 2 - 1;
        state += tg_zstd_encoder_bytes(level, block);
    }
    return __builtin_mul_overflow(block, 2, &both) || both > SIZE_MAX - state ? SIZE_MAX
                                                                              : both + state;
}

static tg_status context_new(const tg_codec *c, size_t n, bool encode, void **ctx,
                             tg_error *err)
{
    (void)c;
    (void)n;
    (void)encode;
    (void)err;
    *ctx = NULL;
    return TG_OK;
}

static void context_free(const tg_codec *c, void *ctx)
{
    (void)c;
    (void)ctx;
}

static tg_status encode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst, size_t cap,
                        size_t *n, tg_error *err)
{
    const tg_blosc_options *o = &self(c)->o;
    int rc;

    (void)ctx;
    if (src.len > BLOSC_MAX_BUFFERSIZE)
        return tg_fail(err, TG_INVALID, "blosc: %zu bytes, want at most %d", src.len,
                       BLOSC_MAX_BUFFERSIZE);
    /* Not all of a larger room: frames then grow beyond what readers accept. */
    cap = cap < src.len + BLOSC_MAX_OVERHEAD ? cap : src.len + BLOSC_MAX_OVERHEAD;
    rc = blosc_compress_ctx(o->level, o->shuffle, (size_t)o->item_bytes, src.len, src.data, dst,
                            cap, tg_blosc_names[o->compressor], (size_t)o->block, 1);
    if (rc <= 0)
        return tg_fail(err, TG_NO_MEMORY, "blosc: %s cannot compress %zu bytes (%d)",
                       tg_blosc_names[o->compressor], src.len, rc);
    *n = (size_t)rc;
    return TG_OK;
}

/* --- Checking a frame ---------------------------------------------------- */

typedef struct frame {
    const uint8_t *data;
    size_t cbytes; /* of the whole frame */
    size_t nbytes; /* decoded */
    size_t block, item;
    uint8_t flags;
} frame;

enum {
    HEADER = 16,
    FLAG_COPIED = 0x02,   /* stored as it is */
    FLAG_NO_SPLIT = 0x10, /* a block is one stream, not one per byte of an item */
    MOST_SPLITS = 16,
    LEAST_SPLIT = 128, /* bytes of a stream */
    BLOSCLZ_BLOCK = 8 << 20
};

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static tg_status read_header(tg_bytes src, frame *f, tg_error *err)
{
    const uint8_t *p = src.data;

    if (src.len < HEADER)
        return tg_fail(err, TG_CORRUPT, "blosc: %zu bytes, want a header of %d", src.len,
                       HEADER);
    if (p[0] != BLOSC_VERSION_FORMAT)
        return tg_fail(err, TG_CORRUPT, "blosc: frame version %u, want %d", (unsigned)p[0],
                       BLOSC_VERSION_FORMAT);
    *f = (frame){p, u32_at(p + 12), u32_at(p + 4), u32_at(p + 8), p[3], p[2]};
    return TG_OK;
}

static tg_status check_header(const frame *f, size_t len, size_t cap, tg_error *err)
{
    if (f->nbytes > cap || f->nbytes > BLOSC_MAX_BUFFERSIZE)
        return tg_fail(err, TG_CORRUPT, "blosc: header says %zu bytes, want at most %zu",
                       f->nbytes, cap);
    /* What follows the frame is passed over: such chunks are in the wild. */
    if (f->cbytes < HEADER || f->cbytes > len || f->cbytes > f->nbytes + HEADER)
        return tg_fail(err, TG_CORRUPT,
                       "blosc: header says a frame of %zu bytes for %zu, there are %zu",
                       f->cbytes, f->nbytes, len);
    if (f->nbytes > 0 && (f->block == 0 || f->block > f->nbytes || f->item == 0))
        return tg_fail(err, TG_CORRUPT, "blosc: blocks of %zu bytes, items of %zu", f->block,
                       f->item);
    return TG_OK;
}

/* The streams of one block: none decodes from more bytes than it makes. */
static tg_status check_block(const frame *f, size_t at, size_t bytes, tg_error *err)
{
    bool whole = bytes == f->block, split = whole && (f->flags & FLAG_NO_SPLIT) == 0 &&
                                            f->item <= MOST_SPLITS &&
                                            bytes / f->item >= LEAST_SPLIT;
    size_t n = split ? f->item : 1, room = bytes / n;

    for (size_t i = 0; i < n; i++) {
        if (at > f->cbytes - 4)
            return tg_fail(err, TG_CORRUPT, "blosc: a stream begins at byte %zu of %zu", at,
                           f->cbytes);
        size_t len = u32_at(f->data + at);
        at += 4;
        if (len > f->cbytes - at || len > room)
            return tg_fail(err, TG_CORRUPT,
                           "blosc: a stream of %zu bytes at byte %zu of %zu, want %zu or less",
                           len, at, f->cbytes, room);
        at += len;
    }
    return TG_OK;
}

/* libblosc's blosclz adds up lengths of matches in 31 bits, 255 a byte, and
 * writes where the sum, wrapped, says: a stream of 8.4 MB is enough. Streams
 * are no longer than what they decode to, so smaller blocks cannot hold one. */
static tg_status check_blosclz(const frame *f, tg_error *err)
{
    size_t n = f->nbytes / f->block + (f->nbytes % f->block != 0);

    if (f->block >= BLOSCLZ_BLOCK)
        return tg_fail(err, TG_UNSUPPORTED,
                       "blosc: blosclz blocks of %zu bytes, want less than %d: libblosc "
                       "cannot be trusted with them",
                       f->block, BLOSCLZ_BLOCK);
    if (n > (f->cbytes - HEADER) / 4)
        return tg_fail(err, TG_CORRUPT, "blosc: %zu blocks in %zu bytes", n, f->cbytes);
    for (size_t i = 0; i < n; i++) {
        size_t rest = f->nbytes - i * f->block;
        TG_TRY(check_block(f, u32_at(f->data + HEADER + 4 * i),
                           rest < f->block ? rest : f->block, err));
    }
    return TG_OK;
}

static tg_status decode(const tg_codec *c, void *ctx, tg_bytes src, uint8_t *dst, size_t cap,
                        size_t *n, tg_error *err)
{
    frame f;

    (void)c;
    (void)ctx;
    TG_TRY(read_header(src, &f, err));
    TG_TRY(check_header(&f, src.len, cap, err));
    bool blosclz = f.flags >> 5 == 0 && (f.flags & FLAG_COPIED) == 0;
    if (blosclz && f.nbytes > 0)
        TG_TRY(check_blosclz(&f, err));
    int rc = f.nbytes == 0 ? 0 : blosc_decompress_ctx(src.data, dst, f.nbytes, 1);
    if (rc < 0 || (size_t)rc != f.nbytes)
        return tg_fail(err, TG_CORRUPT, "blosc: a frame of %zu bytes does not decode to %zu",
                       f.cbytes, f.nbytes);
    *n = f.nbytes;
    return TG_OK;
}

static bool detects(const tg_codec *c)
{
    (void)c;
    return false;
}

/* --- Configuration ------------------------------------------------------- */

static tg_status write_config(const tg_codec *c, int zarr_format, tg_json **out, tg_error *err)
{
    const tg_blosc_options *o = &self(c)->o;
    tg_json *at;

    TG_AUTO_PTR(tg_json) root = NULL;
    TG_TRY(tg_config_begin("blosc", zarr_format, &root, &at, err));
    TG_TRY(tg_json_set(at, "cname", tg_json_new_string(tg_blosc_names[o->compressor]), err));
    TG_TRY(tg_json_set(at, "clevel", tg_json_new_i64(o->level), err));
    if (zarr_format == 2) {
        TG_TRY(tg_json_set(at, "shuffle", tg_json_new_i64(o->shuffle), err));
    } else {
        TG_TRY(
            tg_json_set(at, "shuffle", tg_json_new_string(tg_blosc_shuffles[o->shuffle]), err));
        TG_TRY(tg_json_set(at, "typesize", tg_json_new_i64(o->item_bytes), err));
    }
    TG_TRY(tg_json_set(at, "blocksize", tg_json_new_i64(o->block), err));
    *out = tg_steal(root);
    return TG_OK;
}

static void codec_free(tg_codec *c)
{
    tg_free(c);
}

static const tg_codec_ops ops = {
    .name = "blosc",
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

tg_status tg_blosc_new(tg_codec **out, const tg_blosc_options *o, tg_error *err)
{
    blosc_codec *c = tg_alloc(sizeof *c);
    if (c == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a codec");
    *c = (blosc_codec){{&ops}, *o};
    *out = &c->codec;
    return TG_OK;
}

/* numcodecs' shuffle is a number, -1 for what suits the item; v3's is a word. */
static tg_status read_shuffle(const tg_config *config, tg_blosc_options *o, tg_error *err)
{
    if (config->zarr_format == 3)
        return tg_config_word(config, "shuffle", tg_blosc_shuffles, TG_BLOSC_SHUFFLES,
                              &o->shuffle, err);
    TG_TRY(tg_config_int(config, "shuffle", -1, 2, &o->shuffle, err));
    if (o->shuffle == -1)
        o->shuffle = config->item_bytes == 1 ? 2 : 1;
    return TG_OK;
}

/* An item that libblosc's header has no room for is a stream of bytes to it. */
static int item_for_blosc(size_t item_bytes)
{
    return item_bytes == 0 || item_bytes > BLOSC_MAX_TYPESIZE ? 1 : (int)item_bytes;
}

tg_status tg_blosc_open(tg_codec **out, const tg_config *config, tg_error *err)
{
    static const char *const keys[] = {"cname", "clevel", "shuffle", "typesize", "blocksize"};
    tg_blosc_options o = {.compressor = 1, .level = 5, .shuffle = 1};

    TG_TRY(tg_config_word(config, "cname", tg_blosc_names, TG_BLOSC_COMPRESSORS, &o.compressor,
                          err));
    TG_TRY(tg_config_int(config, "clevel", 0, 9, &o.level, err));
    TG_TRY(read_shuffle(config, &o, err));
    TG_TRY(tg_config_int(config, "blocksize", 0, BLOSC_MAX_BLOCKSIZE, &o.block, err));
    o.item_bytes = item_for_blosc(config->item_bytes);
    if (config->zarr_format == 3) { /* v2: always the item's, whatever a key says */
        int given = o.item_bytes;
        TG_TRY(tg_config_int(config, "typesize", 1, INT32_MAX, &given, err));
        o.item_bytes = item_for_blosc((size_t)given);
    }
    TG_TRY(tg_config_only(config, keys, sizeof keys / sizeof keys[0], err));
    return tg_blosc_new(out, &o, err);
}

const char *tg_blosc_version(void)
{
    return blosc_get_version_string();
}
