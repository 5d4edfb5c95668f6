/* ims/imzml_spectrum.c - judges what an .imzML says of one spectrum: numbers, types, lengths,
 * ranges, position. */
#include "ims/imzml_read.h"

static const char *const array_names[] = {"m/z", "intensity"};

static tg_status check_number(const tg_term_number *n, const char *what, int which,
                              tg_error *err)
{
    if (!n->given)
        return tg_fail(err, TG_CORRUPT, "%s array has no %s", array_names[which], what);
    if (n->bad)
        return tg_fail(err, TG_CORRUPT, "%s array: %s is no whole number below 2^64",
                       array_names[which], what);
    if (n->negative)
        return tg_fail(err, TG_CORRUPT, "%s array: %s is -%llu, below 0", array_names[which],
                       what, (unsigned long long)n->v);
    return TG_OK;
}

/* 32-bit writers print offsets above 2^31 as negative numbers: they are right but for 2^32s. */
static void unwrap_offset(tg_imzml_reader *r, tg_term_number *n)
{
    if (r->options.strictness != TG_IMS_LENIENT || !n->given || n->bad || !n->negative ||
        n->v > (uint64_t)1 << 31)
        return;
    n->v = ((uint64_t)1 << 32) - n->v;
    n->negative = false;
    while (n->v < r->last_offset)
        n->v += (uint64_t)1 << 32;
}

/* The width that count and encoded length leave open, if it is that of a float. */
static void settle_type(tg_array_state *a)
{
    if (!a->direct.type_in_doubt || a->direct.deflated || !a->encoded.given || a->count.v == 0)
        return;
    uint64_t width = a->encoded.v / a->count.v;
    if (a->encoded.v % a->count.v == 0 && (width == 4 || width == 8))
        a->direct.type = width == 4 ? TG_IMS_F32 : TG_IMS_F64;
}

static tg_status check_type(const tg_array_state *a, int which, tg_error *err)
{
    if (a->direct.unsupported != 0)
        return tg_fail(err, TG_UNSUPPORTED, "%s array: encoding MS:%u is not supported",
                       array_names[which], a->direct.unsupported);
    if (a->direct.type == TG_IMS_NO_TYPE)
        return tg_fail(err, TG_CORRUPT, "%s array has no known type", array_names[which]);
    return TG_OK;
}

/* Length and encoded length must fit each other; the smaller one is safe to read. */
static tg_status settle_length(tg_imzml_reader *r, tg_array_state *a, int which, tg_error *err)
{
    uint64_t size = tg_ims_type_bytes(a->direct.type), bytes;
    bool over = __builtin_mul_overflow(a->count.v, size, &bytes);

    if (!a->encoded.given && !a->direct.deflated && !over) {
        a->encoded = (tg_term_number){.given = true, .v = bytes};
        return TG_OK;
    }
    TG_TRY(check_number(&a->encoded, "encoded length", which, err));
    if (a->direct.deflated) {
        if (over || bytes / 1040 > a->encoded.v + 1) /* deflate reaches 1032 : 1 */
            return tg_fail(err, TG_CORRUPT,
                           "%s array: %llu values cannot come out of %llu bytes",
                           array_names[which], (unsigned long long)a->count.v,
                           (unsigned long long)a->encoded.v);
        return TG_OK;
    }
    if (!over && bytes == a->encoded.v)
        return TG_OK;
    if (r->options.strictness == TG_IMS_STRICT)
        return tg_fail(err, TG_CORRUPT, "%s array: %llu values of %llu bytes, but %llu bytes",
                       array_names[which], (unsigned long long)a->count.v,
                       (unsigned long long)size, (unsigned long long)a->encoded.v);
    tg_ims_note(r->m->odd, TG_ODD_LENGTH, 1,
                "spectrum %llu: %s array of %llu values of %llu bytes in %llu bytes",
                (unsigned long long)r->n_seen, array_names[which],
                (unsigned long long)a->count.v, (unsigned long long)size,
                (unsigned long long)a->encoded.v);
    if (over || a->encoded.v < bytes)
        a->count.v = a->encoded.v / size;
    a->encoded.v = a->count.v * size;
    return TG_OK;
}

static tg_status check_range(const tg_imzml_reader *r, const tg_array_state *a, int which,
                             tg_error *err)
{
    uint64_t end;
    if (a->count.v > UINT32_MAX || a->encoded.v > UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "%s array of %llu values in %llu bytes is too long",
                       array_names[which], (unsigned long long)a->count.v,
                       (unsigned long long)a->encoded.v);
    if (a->encoded.v == 0)
        return TG_OK;
    if (__builtin_add_overflow(a->offset.v, a->encoded.v, &end) || end > r->m->ibd_bytes)
        return tg_fail(err, TG_INCOMPLETE,
                       "%s array ends at byte %llu + %llu, but the .ibd has %llu bytes",
                       array_names[which], (unsigned long long)a->offset.v,
                       (unsigned long long)a->encoded.v, (unsigned long long)r->m->ibd_bytes);
    return TG_OK;
}

static tg_status settle_array(tg_imzml_reader *r, int which, tg_error *err)
{
    tg_array_state *a = &r->found[which];

    if (!r->has[which])
        return tg_fail(err, TG_CORRUPT, "no %s array", array_names[which]);
    if (!a->count.given)
        a->count = r->default_count;
    unwrap_offset(r, &a->offset);
    TG_TRY(check_number(&a->offset, "offset", which, err));
    TG_TRY(check_number(&a->count, "length", which, err));
    settle_type(a);
    TG_TRY(check_type(a, which, err));
    TG_TRY(settle_length(r, a, which, err));
    return check_range(r, a, which, err);
}

static tg_status settle_axis(const tg_term_number *n, const char *axis, int32_t *out,
                             tg_error *err)
{
    if (!n->given)
        return tg_fail(err, TG_CORRUPT, "no position %s", axis);
    if (n->bad || n->v > INT32_MAX)
        return tg_fail(err, TG_CORRUPT, "position %s is no whole number of 31 bits", axis);
    *out = n->negative ? -(int32_t)n->v : (int32_t)n->v;
    return TG_OK;
}

static tg_status settle_3d(const tg_imzml_reader *r, int axis, int32_t *out, tg_error *err)
{
    if (!r->has_3d[axis])
        return tg_fail(err, TG_CORRUPT, "no 3DPosition%c", 'X' + axis);
    if (r->m->pixel_size[axis] == 0)
        return tg_fail(err, TG_CORRUPT, "a grid from 3D positions needs the pixel size");
    double v = r->position_3d[axis] / r->m->pixel_size[axis];
    if (!(v > -1e9 && v < 1e9))
        return tg_fail(err, TG_CORRUPT, "3DPosition%c is out of range", 'X' + axis);
    *out = (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
    return TG_OK;
}

static tg_status settle_position(const tg_imzml_reader *r, tg_spectrum *s, tg_error *err)
{
    if (r->options.grid_from_3d) {
        TG_TRY(settle_3d(r, 0, &s->x, err));
        return settle_3d(r, 1, &s->y, err);
    }
    TG_TRY(settle_axis(&r->x, "x", &s->x, err));
    return settle_axis(&r->y, "y", &s->y, err);
}

tg_status tg_imzml_settle(tg_imzml_reader *r, tg_spectrum *s, tg_error *err)
{
    TG_TRY(settle_position(r, s, err));
    TG_TRY(settle_array(r, TG_IMS_MZ, err));
    TG_TRY(settle_array(r, TG_IMS_INTENSITY, err));
    const tg_array_state *mz = &r->found[TG_IMS_MZ], *in = &r->found[TG_IMS_INTENSITY];
    if (mz->count.v != in->count.v)
        return tg_fail(err, TG_CORRUPT,
                       "m/z array of %llu values at %llu, intensity array of %llu at %llu",
                       (unsigned long long)mz->count.v, (unsigned long long)mz->offset.v,
                       (unsigned long long)in->count.v, (unsigned long long)in->offset.v);
    s->count = (uint32_t)mz->count.v;
    for (int k = 0; k < 2; k++) {
        const tg_array_state *a = &r->found[k];
        s->offset[k] = a->offset.v;
        s->encoded[k] = (uint32_t)a->encoded.v;
        s->type[k] = a->direct.type;
        s->deflated[k] = a->direct.deflated;
    }
    return TG_OK;
}
