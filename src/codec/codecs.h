/* codec/codecs.h - the codecs there are, for codec/ only: how each is made from
 * its parameters and from its configuration. */
#ifndef TG_CODEC_CODECS_H
#define TG_CODEC_CODECS_H

#include "codec/codec.h"
#include "codec/config.h"

typedef struct tg_blosc_options {
    int compressor; /* index into tg_blosc_names */
    int level;      /* 0 to 9 */
    int shuffle;    /* 0 none, 1 bytes, 2 bits */
    int item_bytes; /* 1 to 255 */
    int block;      /* bytes; 0: libblosc decides */
} tg_blosc_options;

enum { TG_BLOSC_COMPRESSORS = 6, TG_BLOSC_SHUFFLES = 3 };
extern const char *const tg_blosc_names[TG_BLOSC_COMPRESSORS];
extern const char *const tg_blosc_shuffles[TG_BLOSC_SHUFFLES];

typedef enum tg_deflate_form { TG_DEFLATE_GZIP, TG_DEFLATE_ZLIB } tg_deflate_form;

TG_MUST_USE tg_status tg_crc32c_new(tg_codec **out, tg_error *err);
TG_MUST_USE tg_status tg_zstd_new(tg_codec **out, int level, bool checksum, tg_error *err);
TG_MUST_USE tg_status tg_deflate_new(tg_codec **out, tg_deflate_form form, int level,
                                     tg_error *err);
TG_MUST_USE tg_status tg_blosc_new(tg_codec **out, const tg_blosc_options *o, tg_error *err);
TG_MUST_USE tg_status tg_lz4_new(tg_codec **out, int acceleration, tg_error *err);

typedef tg_status tg_codec_open_fn(tg_codec **out, const tg_config *config, tg_error *err);
tg_codec_open_fn tg_crc32c_open, tg_zstd_open, tg_gzip_open, tg_zlib_open, tg_blosc_open,
    tg_lz4_open;

/* crc32c is the one codec that a chain runs in place. */
bool tg_codec_is_crc32c(const tg_codec *c);
enum { TG_CRC32C_BYTES = 4 };
/* Write the sum of data behind it. */
void tg_crc32c_append(uint8_t *data, size_t n);
/* Compare the sum behind the data with it; *n: its length without the sum. */
TG_MUST_USE tg_status tg_crc32c_check(tg_bytes src, size_t *n, tg_error *err);

/* What zstd takes for compressing n bytes at a level, for blosc's estimate too. */
size_t tg_zstd_encoder_bytes(int level, size_t n);
int tg_zstd_max_level(void);

/* "zstd 1.5.4" and the like, one per library. */
const char *tg_zstd_version(void);
const char *tg_deflate_version(void);
const char *tg_lz4_version(void);
const char *tg_blosc_version(void);

/* vlen-utf8: u32le n, then n times u32le length and the bytes. */
TG_MUST_USE tg_status tg_vlen_bytes(const tg_strings *s, size_t *bytes, tg_error *err);
/* dst has tg_vlen_bytes(). TG_INVALID: a string that is not UTF-8 or is 4 GiB long. */
TG_MUST_USE tg_status tg_vlen_encode(const tg_strings *s, uint8_t *dst, tg_error *err);
/* Exactly n_items strings with at most limit bytes of text in all. */
TG_MUST_USE tg_status tg_vlen_decode(tg_bytes src, uint64_t n_items, size_t limit,
                                     tg_strings *out, tg_error *err);

#endif
