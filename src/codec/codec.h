/* codec/codec.h - arrays to bytes and bytes to bytes. A codec knows no store
 * and no thread, and takes no memory while it works: it writes into room of its
 * caller's, and keeps a context that was made before the work began.
 *
 * A chain is what Zarr's metadata lists: array -> array codecs (transpose), one
 * array -> bytes codec (bytes, vlen-utf8), bytes -> bytes codecs. Sharding is
 * not here: it needs a store's ranges (zarr/shard.h).
 *
 * Threads: a chain is read-only once made, so many threads may use it at once,
 * each with a context of its own. */
#ifndef TG_CODEC_CODEC_H
#define TG_CODEC_CODEC_H

#include "base/json.h"
#include "base/mem.h"
#include "nd/nd.h"

/* --- bytes -> bytes ------------------------------------------------------ */

typedef struct tg_codec tg_codec;

typedef struct tg_codec_ops {
    const char
        *name; /* as in zarr.json: "crc32c", "zstd", "gzip", "blosc"; v2 only: "zlib", "lz4" */
    /* The most bytes that n bytes can become, n or more. SIZE_MAX: too many for this codec. */
    size_t (*bound)(const tg_codec *, size_t n);
    /* Memory that one thread's context takes for values of up to n bytes: what a caller
     * reserves. */
    size_t (*context_bytes)(const tg_codec *, size_t n, bool encode);
    tg_status (*context_new)(const tg_codec *, size_t n, bool encode, void **ctx, tg_error *);
    void (*context_free)(const tg_codec *, void *ctx);
    /* Write what src becomes to dst, and its length to *n. src and dst do not overlap. On
     * failure *n is unchanged; what dst then holds means nothing. encode needs a cap of
     * bound(src.len) or more. For decode cap is the most it may produce: if there is more, src
     * is TG_CORRUPT. */
    tg_status (*encode)(const tg_codec *, void *ctx, tg_bytes src, uint8_t *dst, size_t cap,
                        size_t *n, tg_error *);
    tg_status (*decode)(const tg_codec *, void *ctx, tg_bytes src, uint8_t *dst, size_t cap,
                        size_t *n, tg_error *);
    /* Does a flipped bit in the encoded bytes never give other data? It is TG_CORRUPT, or hit
     * a byte that carries none, such as the time in a gzip header. (`verify` asks.) */
    bool (*detects_damage)(const tg_codec *);
    /* The configuration as JSON for the given format (3: {"name","configuration"}, 2:
     * {"id",...}); new root. */
    tg_status (*write_config)(const tg_codec *, int zarr_format, tg_json **out, tg_error *);
    void (*free)(tg_codec *);
} tg_codec_ops;

struct tg_codec {
    const tg_codec_ops *ops;
};

/* --- The chain ----------------------------------------------------------- */

typedef struct tg_chain tg_chain;

/* Zarr v3: the list "codecs" (without a sharding_indexed member). dtype and shape: of the chunk
 * that goes in. TG_UNSUPPORTED names an unknown codec, TG_CORRUPT a bad configuration. */
TG_MUST_USE tg_status tg_chain_open_v3(tg_chain **out, const tg_json *codecs, tg_dtype dtype,
                                       const tg_shape *chunk, tg_error *err);
/* Zarr v2: byte order of the dtype ('<', '>', '|'), order 'C' or 'F', "filters" and
 * "compressor" (NULL or null: none). */
TG_MUST_USE tg_status tg_chain_open_v2(tg_chain **out, const tg_json *filters,
                                       const tg_json *compressor, char byte_order, char order,
                                       tg_dtype dtype, const tg_shape *chunk, tg_error *err);
/* What people type: "none", "zstd:3", "blosc:lz4:5:shuffle", "gzip:6", in v2 also "zlib:6" and
 * "lz4"; checksum adds crc32c at the end in v3, turns on zstd's own in v2. TG_INVALID says what
 * is wanted, or that the chunk is too large for the codec. */
TG_MUST_USE tg_status tg_chain_open_text(tg_chain **out, const char *text, bool checksum,
                                         int zarr_format, tg_dtype dtype, const tg_shape *chunk,
                                         tg_error *err);
void tg_chain_free(tg_chain *c); /* may be NULL */
TG_DEFINE_AUTO_PTR(tg_chain, tg_chain_free)

/* The metadata of the chain: v3 the "codecs" array; v2 *filters and *compressor (null nodes if
 * none). New roots. */
TG_MUST_USE tg_status tg_chain_write_v3(const tg_chain *c, tg_json **codecs, tg_error *err);
TG_MUST_USE tg_status tg_chain_write_v2(const tg_chain *c, tg_json **filters,
                                        tg_json **compressor, tg_error *err);

/* Are encoded bytes the items as they lie in memory (native byte order, C order), and behind
 * them at most one crc32c? Who writes such a chunk piece by piece needs no context: it copies
 * with tg_crc32c_copy() and, if tg_chain_has_crc32c_last(), puts the sum behind, as u32le. */
bool tg_chain_is_raw(const tg_chain *c);
bool tg_chain_has_crc32c_last(const tg_chain *c);
/* Does the one decode what the other encodes to the same items? They may differ in what a value
 * says of itself, such as the level. */
bool tg_chain_reads_alike(const tg_chain *a, const tg_chain *b);
/* The codecs' names, as "transpose bytes zstd crc32c"; dst holds TG_CHAIN_TEXT_BYTES. */
enum { TG_CHAIN_TEXT_BYTES = 512 };
void tg_chain_text(const tg_chain *c, char *dst);
bool tg_chain_is_fixed_size(const tg_chain *c); /* encoded length depends on the shape only */
bool tg_chain_detects_damage(const tg_chain *c);
/* The most bytes that an encoded chunk can be; SIZE_MAX: chunk too large for a codec. Strings:
 * of a chunk whose text is `text_bytes` long in all. */
size_t tg_chain_bound(const tg_chain *c, size_t text_bytes);

/* One thread's contexts and scratch. bytes: what tg_chain_context_new() takes; the caller has
 * reserved it. */
typedef struct tg_chain_context tg_chain_context;
size_t tg_chain_context_bytes(const tg_chain *c, bool encode);
TG_MUST_USE tg_status tg_chain_context_new(const tg_chain *c, bool encode,
                                           tg_chain_context **out, tg_error *err);
void tg_chain_context_free(tg_chain_context *ctx);
TG_DEFINE_AUTO_PTR(tg_chain_context, tg_chain_context_free)

/* A whole chunk: native-endian items in C order, shape.items * dtype.size bytes, to encoded
 * bytes and back. decode demands exactly the chunk's bytes: more or less is TG_CORRUPT. Not for
 * strings. */
TG_MUST_USE tg_status tg_chain_encode(const tg_chain *c, tg_chain_context *ctx, tg_bytes items,
                                      uint8_t *dst, size_t cap, size_t *n, tg_error *err);
TG_MUST_USE tg_status tg_chain_decode(const tg_chain *c, tg_chain_context *ctx, tg_bytes src,
                                      uint8_t *items, size_t items_bytes, tg_error *err);
/* Strings (TG_DT_STRING); ctx is not used and may be NULL, for what a call needs depends on the
 * text: it takes that itself. Encode replaces *out. n_items strings as offsets (n_items + 1,
 * from 0, in bytes) into text (UTF-8). decode grows both buffers to at most limit bytes of
 * text. */
typedef struct tg_strings {
    uint64_t *offsets;
    char *text;
    size_t n;
} tg_strings;                        /* owned by whoever got it: tg_strings_free() */
void tg_strings_free(tg_strings *s); /* s becomes empty */
static inline void tg_strings_auto(tg_strings *s)
{
    tg_strings_free(s);
}
TG_MUST_USE tg_status tg_chain_encode_strings(const tg_chain *c, tg_chain_context *ctx,
                                              const tg_strings *s, tg_buf *out, tg_error *err);
TG_MUST_USE tg_status tg_chain_decode_strings(const tg_chain *c, tg_chain_context *ctx,
                                              tg_bytes src, size_t limit, tg_strings *out,
                                              tg_error *err);

/* "zstd 1.5.4\nblosc 1.21.3\n..." into room of cap bytes; returns room. 256 bytes are enough.
 */
const char *tg_codec_libraries(char *room, size_t cap);

#endif
