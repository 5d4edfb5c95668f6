/* codec/chain_text.c - chains as people type them: "zstd:3", "blosc:lz4:5:shuffle". */
#include "base/text.h"
#include "codec/chain.h"

#include <stdio.h>
#include <string.h>

enum { MOST_WORDS = 4, WORD_ROOM = 24 };

typedef struct words {
    size_t n;
    char word[MOST_WORDS][WORD_ROOM];
} words;

static tg_status misuse(const char *text, const char *want, tg_error *err)
{
    return tg_fail(err, TG_INVALID, "codec '%.60s': want %s", text, want);
}

static tg_status split(const char *text, words *w, tg_error *err)
{
    *w = (words){0};
    for (const char *at = text;;) {
        size_t len = strcspn(at, ":");
        if (w->n == MOST_WORDS || len >= WORD_ROOM)
            return misuse(text, "at most four short words with ':' between", err);
        memcpy(w->word[w->n++], at, len);
        if (at[len] == '\0')
            return TG_OK;
        at += len + 1;
    }
}

/* The i-th word as a number, if there is one. */
static tg_status number(const char *text, const words *w, size_t i, int64_t min, int64_t max,
                        int *out, tg_error *err)
{
    char want[64];
    int64_t v;

    if (i >= w->n)
        return TG_OK;
    (void)snprintf(want, sizeof want, "a number from %lld to %lld as word %zu", (long long)min,
                   (long long)max, i + 1);
    if (tg_parse_i64(w->word[i], &v, NULL) != TG_OK || v < min || v > max)
        return misuse(text, want, err);
    *out = (int)v;
    return TG_OK;
}

static bool pick(const char *word, const char *const *from, size_t n, int *out)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, from[i]) == 0) {
            *out = (int)i;
            return true;
        }
    }
    return false;
}

static tg_status parse_zstd(const char *text, const words *w, bool checksum, tg_codec **out,
                            tg_error *err)
{
    int level = 3;

    if (w->n > 2)
        return misuse(text, "zstd[:LEVEL]", err);
    TG_TRY(number(text, w, 1, -131072, 22, &level, err));
    return tg_zstd_new(out, level, checksum, err);
}

static tg_status parse_deflate(const char *text, const words *w, tg_deflate_form form,
                               tg_codec **out, tg_error *err)
{
    int level = 6;

    if (w->n > 2)
        return misuse(text, "gzip[:LEVEL] or zlib[:LEVEL]", err);
    TG_TRY(number(text, w, 1, 0, 9, &level, err));
    return tg_deflate_new(out, form, level, err);
}

static tg_status parse_lz4(const char *text, const words *w, tg_codec **out, tg_error *err)
{
    int acceleration = 1;

    if (w->n > 2)
        return misuse(text, "lz4[:ACCELERATION]", err);
    TG_TRY(number(text, w, 1, 1, 65537, &acceleration, err));
    return tg_lz4_new(out, acceleration, err);
}

static tg_status parse_blosc(const char *text, const words *w, uint32_t item_bytes,
                             tg_codec **out, tg_error *err)
{
    static const char want[] = "blosc:CNAME[:LEVEL[:SHUFFLE]], CNAME one of blosclz lz4 lz4hc "
                               "zlib snappy zstd, SHUFFLE noshuffle, shuffle or bitshuffle";
    /* An item of one byte has no bytes to sort, but bits. */
    tg_blosc_options o = {.level = 5,
                          .shuffle = item_bytes == 1 ? 2 : 1,
                          .item_bytes =
                              item_bytes == 0 || item_bytes > 255 ? 1 : (int)item_bytes};

    if (w->n < 2 || !pick(w->word[1], tg_blosc_names, TG_BLOSC_COMPRESSORS, &o.compressor))
        return misuse(text, want, err);
    TG_TRY(number(text, w, 2, 0, 9, &o.level, err));
    if (w->n > 3 && !pick(w->word[3], tg_blosc_shuffles, TG_BLOSC_SHUFFLES, &o.shuffle))
        return misuse(text, want, err);
    return tg_blosc_new(out, &o, err);
}

/* A codec, or *out NULL for "none". In Zarr v2 zstd's own checksum is what proves data whole.
 */
static tg_status parse(const char *text, bool checksum, int zarr_format, uint32_t item_bytes,
                       tg_codec **out, tg_error *err)
{
    bool v2 = zarr_format == 2;
    words w;

    *out = NULL;
    TG_TRY(split(text, &w, err));
    const char *name = w.word[0];
    if (strcmp(name, "none") == 0 && w.n == 1)
        return TG_OK;
    if (strcmp(name, "zstd") == 0)
        return parse_zstd(text, &w, v2 && checksum, out, err);
    if (strcmp(name, "gzip") == 0)
        return parse_deflate(text, &w, TG_DEFLATE_GZIP, out, err);
    if (strcmp(name, "blosc") == 0)
        return parse_blosc(text, &w, item_bytes, out, err);
    if (strcmp(name, "zlib") == 0 && v2)
        return parse_deflate(text, &w, TG_DEFLATE_ZLIB, out, err);
    if (strcmp(name, "lz4") == 0 && v2)
        return parse_lz4(text, &w, out, err);
    return misuse(text,
                  v2 ? "none, zstd[:L], gzip[:L], blosc:CNAME[:L[:SHUFFLE]], zlib[:L] or lz4"
                     : "none, zstd[:L], gzip[:L] or blosc:CNAME[:L[:SHUFFLE]]",
                  err);
}

tg_status tg_chain_open_text(tg_chain **out, const char *text, bool checksum, int zarr_format,
                             tg_dtype dtype, const tg_shape *chunk, tg_error *err)
{
    tg_codec *codec;

    TG_AUTO_PTR(tg_chain) c = NULL;
    TG_TRY(tg_chain_new(&c, dtype, chunk, err));
    TG_TRY(parse(text, checksum, zarr_format, dtype.size, &codec, err));
    if (codec != NULL)
        TG_TRY(tg_chain_add(c, codec, err));
    if (checksum && zarr_format == 3) {
        TG_TRY(tg_crc32c_new(&codec, err));
        TG_TRY(tg_chain_add(c, codec, err));
    }
    if (!tg_chain_is_strings(c) && tg_chain_bound(c, 0) == SIZE_MAX)
        return tg_fail(err, TG_INVALID, "codec '%.60s': a chunk of %zu bytes is too large",
                       text, c->items_bytes);
    *out = tg_steal(c);
    return TG_OK;
}
