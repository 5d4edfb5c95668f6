/* The front end of frame sources: reads what people type, opens the kind it names, checks
 * arguments. Knows nothing of where frames go. */
#include "stream/source.h"

#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- Source strings ------------------------------------------------------- */

enum { SPEC_PART_MAX = 64 };

/* Copy text[0..n) into a terminated part of the spec. */
static tg_status take_part(char part[SPEC_PART_MAX], const char *text, size_t n,
                           const char *spec, tg_error *err)
{
    if (n == 0 || n >= SPEC_PART_MAX)
        return tg_fail(err, TG_INVALID,
                       "source '%.80s': want test:WxH:DTYPE[@FPS], such as test:1032x772:u8@53",
                       spec);
    memcpy(part, text, n);
    part[n] = '\0';
    return TG_OK;
}

static tg_status parse_extent(const char *text, const char *spec, uint64_t *out, tg_error *err)
{
    uint64_t v = 0;
    if (tg_parse_u64(text, &v, NULL) != TG_OK || v == 0 || v > INT32_MAX)
        return tg_fail(err, TG_INVALID, "source '%.80s': extent '%s', want 1 to %d", spec, text,
                       INT32_MAX);
    *out = v;
    return TG_OK;
}

static tg_status parse_fps(const char *text, const char *spec, double *out, tg_error *err)
{
    double v = 0;
    if (tg_parse_double(text, &v, NULL) != TG_OK || !(v >= 1e-6 && v <= 1e9))
        return tg_fail(err, TG_INVALID,
                       "source '%.80s': '%s' frames per second, want 1e-6 to 1e9", spec, text);
    *out = v;
    return TG_OK;
}

/* "WxH:DTYPE[@FPS]", the part behind "test:". */
static tg_status parse_test(const char *spec, const char *text, tg_source_spec *out,
                            tg_error *err)
{
    char part[SPEC_PART_MAX];
    size_t width = strcspn(text, "x:@");
    const char *rest = text + width + (text[width] == 'x');
    size_t height = strcspn(rest, ":@");
    TG_TRY(take_part(part, text, text[width] == 'x' ? width : 0, spec, err));
    TG_TRY(parse_extent(part, spec, &out->width, err));
    TG_TRY(take_part(part, rest, rest[height] == ':' ? height : 0, spec, err));
    TG_TRY(parse_extent(part, spec, &out->height, err));
    rest += height + 1;
    size_t dtype = strcspn(rest, "@");
    TG_TRY(take_part(part, rest, dtype, spec, err));
    TG_TRY(tg_dtype_parse(part, &out->dtype, err));
    if (rest[dtype] == '@') {
        TG_TRY(take_part(part, rest + dtype + 1, strlen(rest + dtype + 1), spec, err));
        TG_TRY(parse_fps(part, spec, &out->fps, err));
    }
    size_t bytes = 0;
    return tg_source_frame_bytes(out->height, out->width, out->dtype, &bytes, err);
}

tg_status tg_source_spec_parse(const char *text, tg_source_spec *out, tg_error *err)
{
    tg_source_spec got = {.kind = TG_SOURCE_RAW, .text = text};
    if (text == NULL || text[0] == '\0')
        return tg_fail(err, TG_INVALID,
                       "an empty source: want test:WxH:DTYPE[@FPS], -, a file "
                       "or aravis[:ID]");
    if (strncmp(text, "test:", 5) == 0) {
        got.kind = TG_SOURCE_TEST;
        TG_TRY(parse_test(text, text + 5, &got, err));
    } else if (strcmp(text, "aravis") == 0) {
        got = (tg_source_spec){.kind = TG_SOURCE_ARAVIS, .text = ""};
    } else if (strncmp(text, "aravis:", 7) == 0) {
        got = (tg_source_spec){.kind = TG_SOURCE_ARAVIS, .text = text + 7};
        if (got.text[0] == '\0')
            return tg_fail(err, TG_INVALID,
                           "source 'aravis:': want a camera's id behind the ':'");
    }
    *out = got;
    return TG_OK;
}

/* Could text[0..n) be a path of nodes, "cam" or "left/cam"? */
static bool is_name(const char *text, size_t n)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./";
    if (n == 0 || strspn(text, letters) < n)
        return false;
    for (size_t at = 0; at < n;) {
        size_t len = strcspn(text + at, "/=");
        if (len == 0 || strspn(text + at, ".") >= len)
            return false; /* "a//b", "./a", "a/../b" are paths of files */
        at += len + 1;
        if (at == n)
            return false; /* "a/" */
    }
    return true;
}

tg_status tg_source_split(const char *text, char *name, size_t cap, const char **source,
                          tg_error *err)
{
    const char *equals = strchr(text, '=');
    size_t n = equals == NULL ? 0 : (size_t)(equals - text);
    if (!is_name(text, n)) {
        n = 0;
        equals = NULL;
    }
    const char *rest = equals == NULL ? text : equals + 1;
    if (rest[0] == '\0')
        return tg_fail(err, TG_INVALID, "'%.80s': no source", text);
    if (n >= cap)
        return tg_fail(err, TG_INVALID, "'%.80s': a name of %zu bytes, at most %zu", text, n,
                       cap - 1);
    memcpy(name, text, n);
    name[n] = '\0';
    *source = rest;
    return TG_OK;
}

/* --- The public calls ----------------------------------------------------- */

tg_status tg_source_frame_bytes(uint64_t height, uint64_t width, tg_dtype dtype, size_t *bytes,
                                tg_error *err)
{
    uint64_t items = 0, n = 0;
    if (height == 0 || width == 0 || dtype.size == 0)
        return tg_fail(err, TG_INVALID, "frames of %" PRIu64 " x %" PRIu64 " items of %u bytes",
                       height, width, (unsigned)dtype.size);
    if (__builtin_mul_overflow(height, width, &items) ||
        __builtin_mul_overflow(items, dtype.size, &n) || n > SIZE_MAX / 4)
        return tg_fail(err, TG_INVALID, "frames of %" PRIu64 " x %" PRIu64 " do not fit memory",
                       height, width);
    *bytes = (size_t)n;
    return TG_OK;
}

static tg_status check_options(const tg_source_options *o, const tg_source_spec *spec,
                               tg_error *err)
{
    bool shaped = o->height != 0 || o->width != 0 || o->dtype.kind != TG_DT_NONE;
    if (spec->kind != TG_SOURCE_RAW && shaped)
        return tg_fail(err, TG_INVALID, "source '%s' has a shape and dtype of its own",
                       o->spec);
    if (spec->kind != TG_SOURCE_ARAVIS && o->n_features != 0)
        return tg_fail(err, TG_INVALID, "source '%s' is no camera: it has no feature '%s'",
                       o->spec, o->features[0]);
    if (spec->kind == TG_SOURCE_RAW && (o->height == 0 || o->width == 0))
        return tg_fail(err, TG_INVALID, "source '%s': raw frames need a shape", o->spec);
    if (spec->kind == TG_SOURCE_RAW && o->dtype.kind == TG_DT_NONE)
        return tg_fail(err, TG_INVALID, "source '%s': raw frames need a dtype", o->spec);
    return TG_OK;
}

tg_status tg_source_open(const tg_source_options *options, tg_source **out, tg_error *err)
{
    tg_source_spec spec = {.kind = TG_SOURCE_RAW};
    if (options == NULL || options->size != sizeof *options || out == NULL)
        return tg_fail(err, TG_INVALID, "source options of another version");
    TG_TRY(tg_source_spec_parse(options->spec, &spec, err));
    TG_TRY(check_options(options, &spec, err));
    switch (spec.kind) {
    case TG_SOURCE_TEST:
        return tg_source_open_test(options, &spec, out, err);
    case TG_SOURCE_RAW:
        return tg_source_open_raw(options, &spec, out, err);
    case TG_SOURCE_ARAVIS:
        return tg_source_open_aravis(options, &spec, out, err);
    }
    return tg_fail(err, TG_INVALID, "no such kind of source");
}

void tg_source_get_info(const tg_source *s, tg_source_info *info)
{
    assert(info->size == sizeof *info);
    *info = s->info;
    info->size = sizeof *info;
}

tg_status tg_source_next(tg_source *s, void *room, size_t row_pitch, tg_source_frame *frame,
                         const tg_cancel *cancel, tg_error *err)
{
    size_t row = (size_t)s->info.width * s->info.dtype.size;
    size_t pitch = row_pitch == 0 ? row : row_pitch;
    if (frame == NULL || frame->size != sizeof *frame)
        return tg_fail(err, TG_INVALID, "a source frame of another version");
    if (pitch < row)
        return tg_fail(err, TG_INVALID, "rows %zu bytes apart, want %zu", pitch, row);
    if (s->ended)
        return tg_fail(err, TG_CLOSED, "source '%s' has ended", s->info.name);
    TG_TRY(tg_cancel_check(cancel, err));
    tg_source_frame got = {.size = sizeof got,
                           .layout = {.size = sizeof got.layout},
                           .meta = {.size = sizeof got.meta, .time_device_ns = INT64_MIN}};
    tg_status st = s->ops->next(s, room, pitch, &got, cancel, err);
    if (st == TG_OK)
        *frame = got;
    return st;
}

void tg_source_stop(tg_source *s)
{
    if (!s->ended && s->ops->stop != NULL)
        s->ops->stop(s);
    s->ended = true;
}

void tg_source_close(tg_source *s)
{
    if (s == NULL)
        return;
    tg_source_stop(s);
    s->ops->close(s);
}
