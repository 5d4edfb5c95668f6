/* Reads PFNC names: a colour filter, bits, and how pixels are packed. */
#include "stream/camera_format.h"

#include <string.h>

/* Skip `word` at *s if it is there. */
static bool take(const char **s, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*s, word, n) != 0)
        return false;
    *s += n;
    return true;
}

static bool take_filter(const char **s, tg_camera_format *f)
{
    static const char *const filters[] = {"RG", "GR", "GB", "BG"};
    if (take(s, "Mono"))
        return true;
    if (!take(s, "Bayer"))
        return false;
    for (size_t i = 0; i < 4; i++)
        if (take(s, filters[i])) {
            memcpy(f->bayer, filters[i], 3);
            return true;
        }
    return false;
}

static bool take_bits(const char **s, tg_camera_format *f)
{
    static const struct {
        const char *word;
        uint32_t bits;
    } known[] = {{"8", 8}, {"10", 10}, {"12", 12}, {"14", 14}, {"16", 16}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (take(s, known[i].word)) {
            f->bits = known[i].bits;
            f->dtype = (tg_dtype){TG_DT_UINT, f->bits == 8 ? 1 : 2};
            return true;
        }
    return false;
}

static bool take_packing(const char **s, tg_camera_format *f)
{
    bool ten = f->bits == 10, twelve = f->bits == 12;
    if (take(s, "Packed"))
        f->pixels = ten ? TG_PIXEL_MONO10_PACKED : TG_PIXEL_MONO12_PACKED;
    else if (take(s, "p"))
        f->pixels = ten ? TG_PIXEL_MONO10P : TG_PIXEL_MONO12P;
    else
        return true;
    return ten || twelve;
}

tg_status tg_camera_format_parse(const char *name, tg_camera_format *out, tg_error *err)
{
    tg_camera_format f = {.pixels = TG_PIXEL_PLAIN};
    const char *s = name;
    if (!take_filter(&s, &f) || !take_bits(&s, &f) || !take_packing(&s, &f) || *s != '\0')
        return tg_fail(
            err, TG_UNSUPPORTED,
            "pixel format '%.60s': want Mono or Bayer of 8, 10, 12, 14 or 16 bits, or "
            "of 10 or 12 bits packed (p, Packed)",
            name);
    *out = f;
    return TG_OK;
}
