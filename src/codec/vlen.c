/* codec/vlen.c - "vlen-utf8": strings as u32le count, then for each u32le length
 * and its bytes. Knows no chain and no JSON. */
#include "base/text.h"
#include "codec/codecs.h"

#include <string.h>

enum { WORD = 4 };

static void put_u32(uint8_t *at, uint64_t v)
{
    for (int i = 0; i < WORD; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

void tg_strings_free(tg_strings *s)
{
    tg_free(s->offsets);
    tg_free(s->text);
    *s = (tg_strings){0};
}

tg_status tg_vlen_bytes(const tg_strings *s, size_t *bytes, tg_error *err)
{
    size_t total, text = s->n == 0 ? 0 : (size_t)s->offsets[s->n];

    if (s->n > UINT32_MAX || __builtin_mul_overflow(s->n + 1, (size_t)WORD, &total) ||
        __builtin_add_overflow(total, text, &total))
        return tg_fail(err, TG_INVALID, "vlen-utf8: %zu strings of %zu bytes are too many",
                       s->n, text);
    *bytes = total;
    return TG_OK;
}

tg_status tg_vlen_encode(const tg_strings *s, uint8_t *dst, tg_error *err)
{
    put_u32(dst, s->n);
    dst += WORD;
    for (size_t i = 0; i < s->n; i++) {
        uint64_t len = s->offsets[i + 1] - s->offsets[i];
        const char *text = s->text + s->offsets[i];
        if (len > UINT32_MAX)
            return tg_fail(err, TG_INVALID, "vlen-utf8: string %zu is 4 GiB or longer", i);
        if (!tg_utf8_valid(text, (size_t)len))
            return tg_fail(err, TG_INVALID, "vlen-utf8: string %zu is not UTF-8", i);
        put_u32(dst, len);
        if (len > 0)
            memcpy(dst + WORD, text, (size_t)len);
        dst += WORD + len;
    }
    return TG_OK;
}

/* Walk the lengths: does all of src belong to strings, and how long is the text? */
static tg_status measure(tg_bytes src, uint64_t n_items, size_t limit, size_t *text,
                         tg_error *err)
{
    size_t at = WORD;

    if (src.len < WORD || get_u32(src.data) != n_items)
        return tg_fail(err, TG_CORRUPT, "vlen-utf8: %u strings in %zu bytes, want %llu",
                       src.len < WORD ? 0u : (unsigned)get_u32(src.data), src.len,
                       (unsigned long long)n_items);
    for (uint64_t i = 0; i < n_items; i++) {
        if (src.len - at < WORD || src.len - at - WORD < get_u32(src.data + at))
            return tg_fail(err, TG_CORRUPT,
                           "vlen-utf8: string %llu at byte %zu does not fit %zu bytes",
                           (unsigned long long)i, at, src.len);
        at += WORD + (size_t)get_u32(src.data + at);
    }
    if (at != src.len)
        return tg_fail(err, TG_CORRUPT, "vlen-utf8: %zu bytes after the strings", src.len - at);
    *text = src.len - WORD * ((size_t)n_items + 1);
    if (*text > limit)
        return tg_fail(err, TG_CORRUPT, "vlen-utf8: %zu bytes of text, want at most %zu", *text,
                       limit);
    return TG_OK;
}

tg_status tg_vlen_decode(tg_bytes src, uint64_t n_items, size_t limit, tg_strings *out,
                         tg_error *err)
{
    size_t text, at = WORD;

    TG_TRY(measure(src, n_items, limit, &text, err));
    TG_AUTO(tg_strings) s = {.n = (size_t)n_items};
    s.offsets = tg_alloc_array((size_t)n_items + 1, sizeof s.offsets[0]);
    s.text = tg_alloc(text + 1);
    if (s.offsets == NULL || s.text == NULL)
        return tg_fail(err, TG_NO_MEMORY, "vlen-utf8: no memory for %zu bytes of text", text);
    s.offsets[0] = 0;
    for (size_t i = 0; i < s.n; i++) {
        size_t len = get_u32(src.data + at);
        char *to = s.text + s.offsets[i];
        memcpy(to, src.data + at + WORD, len);
        if (!tg_utf8_valid(to, len))
            return tg_fail(err, TG_CORRUPT, "vlen-utf8: string %zu is not UTF-8", i);
        s.offsets[i + 1] = s.offsets[i] + len;
        at += WORD + len;
    }
    tg_strings_free(out);
    *out = s;
    s = (tg_strings){0};
    return TG_OK;
}
