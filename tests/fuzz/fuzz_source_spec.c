/* fuzz_source_spec.c - what people type for a source: refused, or read into what it says. What
 * is read is whole: extents that fit, a dtype with a size, text that lies within. */
#include "base/mem.h"
#include "stream/camera_format.h"
#include "stream/source.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_spec(const char *text)
{
    tg_source_spec s = {.kind = TG_SOURCE_RAW};
    tg_error err = {0};
    size_t bytes = 0;
    if (tg_source_spec_parse(text, &s, &err) != TG_OK) {
        if (err.code != TG_INVALID || err.msg[0] == '\0')
            abort();
        return;
    }
    if (s.kind == TG_SOURCE_TEST &&
        (tg_source_frame_bytes(s.height, s.width, s.dtype, &bytes, &err) != TG_OK ||
         bytes == 0 || s.fps < 0))
        abort();
    if (s.kind != TG_SOURCE_TEST && s.text[0] != '\0' &&
        (s.text < text || s.text > text + strlen(text)))
        abort();
}

/* The pixel format of a camera comes from the camera. */
static void check_format(const char *text)
{
    tg_camera_format f = {.pixels = TG_PIXEL_PLAIN};
    if (tg_camera_format_parse(text, &f, NULL) == TG_OK &&
        (f.bits < 8 || f.bits > 16 || f.dtype.size != (f.bits == 8 ? 1U : 2U) ||
         strlen(f.bayer) % 2 != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = tg_alloc(size + 1), name[32];
    const char *source = NULL;
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    check_spec(text);
    check_format(text);
    if (tg_source_split(text, name, sizeof name, &source, NULL) == TG_OK) {
        size_t n = strlen(name);
        if (source[0] == '\0' || source != text + (n > 0 ? n + 1 : 0) ||
            strncmp(text, name, n) != 0)
            abort();
        check_spec(source);
    }
    tg_free(text);
    return 0;
}
