/* One dimension after the other, so that corners come from what was padded before. */
#include "region/pad.h"

#include "tidegate/array.h"

#include <inttypes.h>
#include <string.h>

/* --- The user's words -----------------------------------------------------------------------
 */

static bool is_constant(const char *text)
{
    return strncmp(text, "constant", 8) == 0 && (text[8] == '\0' || text[8] == ':');
}

tg_status tg_pad_parse_kind(const char *text, tg_pad_kind *out, tg_error *err)
{
    static const char *const words[] = {[TG_PAD_NONE] = "",
                                        [TG_PAD_CONSTANT] = "fill",
                                        [TG_PAD_EDGE] = "edge",
                                        [TG_PAD_REFLECT] = "reflect",
                                        [TG_PAD_SYMMETRIC] = "symmetric"};

    if (text == NULL)
        text = "";
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        if (strcmp(text, words[i]) == 0) {
            *out = (tg_pad_kind)i;
            return TG_OK;
        }
    if (!is_constant(text))
        return tg_fail(err, TG_INVALID,
                       "pad '%.60s': want constant[:VALUE], fill, edge, reflect or symmetric",
                       text);
    *out = TG_PAD_CONSTANT;
    return TG_OK;
}

tg_status tg_pad_parse(const char *text, tg_dtype t, const uint8_t *fill, tg_pad *out,
                       tg_error *err)
{
    tg_pad p = {.kind = TG_PAD_NONE};

    TG_TRY(tg_pad_parse_kind(text, &p.kind, err));
    if (p.kind == TG_PAD_CONSTANT && !is_constant(text)) {
        if (fill != NULL)
            memcpy(p.item, fill, t.size);
    } else if (p.kind == TG_PAD_CONSTANT && text[8] == ':') {
        tg_status st = tg_item_parse(t, text + 9, p.item, err);
        if (st != TG_OK) {
            tg_error_prefix(err, "pad '%.60s'", text);
            return TG_INVALID;
        }
    }
    *out = p;
    return TG_OK;
}

tg_status tg_pad_check(tg_pad_kind kind, uint64_t halo, uint64_t extent, uint32_t dimension,
                       tg_error *err)
{
    const uint64_t most = kind == TG_PAD_REFLECT     ? extent - (extent > 0)
                          : kind == TG_PAD_SYMMETRIC ? extent
                                                     : UINT64_C(1) << 40;

    if (kind == TG_PAD_NONE || halo <= most)
        return TG_OK;
    return tg_fail(err, TG_INVALID,
                   "pad: a halo of %" PRIu64 " items along dimension %" PRIu32
                   ", which has %" PRIu64 ": want at most %" PRIu64,
                   halo, dimension, extent, most);
}

/* --- Margins --------------------------------------------------------------------------------
 */

/* Where item i, outside of [from, to), is taken from. */
static uint64_t source(tg_pad_kind kind, uint64_t i, uint64_t from, uint64_t to)
{
    const uint64_t edge = kind == TG_PAD_SYMMETRIC;

    if (kind == TG_PAD_EDGE)
        return i < from ? from : to - 1;
    return i < from ? from + (from - i) - edge : to - 1 - (i - (to - 1)) + edge;
}

typedef struct slabs {
    const tg_pad *p;
    uint8_t *view;
    int64_t strides[TG_MAX_NDIM];
    tg_shape shape; /* of one slab */
    uint64_t skip;  /* bytes to its first item along the other dimensions */
    size_t item;
} slabs;

static void pad_along(const slabs *s, uint32_t d, uint64_t from, uint64_t to, uint64_t n)
{
    for (uint64_t i = from > 0 ? 0 : to; i < n; i = i + 1 == from ? to : i + 1) {
        uint8_t *dst = s->view + s->skip + (int64_t)i * s->strides[d];
        if (s->p->kind == TG_PAD_CONSTANT) {
            tg_nd_fill(dst, s->strides, &s->shape, s->item, s->p->item);
            continue;
        }
        const uint64_t at = source(s->p->kind, i, from, to);
        tg_nd_copy(dst, s->strides, s->view + s->skip + (int64_t)at * s->strides[d], s->strides,
                   &s->shape, s->item);
    }
}

/* NOLINTNEXTLINE(readability-non-const-parameter): it is written through the slabs */
void tg_pad_fill(const tg_pad *p, uint8_t *view, const tg_shape *shape, const tg_box *there,
                 size_t item_bytes)
{
    slabs s = {.p = p, .view = view, .item = item_bytes};

    tg_strides_c(shape, item_bytes, s.strides);
    for (uint32_t d = 0; d < shape->ndim; d++) {
        s.shape = there->shape;
        s.skip = 0;
        for (uint32_t k = 0; k < d; k++) /* whole by now */
            s.shape.n[k] = shape->n[k];
        for (uint32_t k = d + 1; k < shape->ndim; k++)
            s.skip += there->start[k] * (uint64_t)s.strides[k];
        s.shape.n[d] = 1;
        pad_along(&s, d, there->start[d], there->start[d] + there->shape.n[d], shape->n[d]);
    }
}
