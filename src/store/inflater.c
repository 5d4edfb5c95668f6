/* store/inflater.c - zlib's states kept along a value, so that parts of it are read in little
 * memory. Knows no ZIP. */
#include "store/inflater.h"

#include "base/mem.h"
#include "base/sys.h"
#include "store/inflate.h"

#include <string.h>
#include <zlib.h>

#define BLOCK     ((size_t)64 << 10)
#define LEAST_GAP ((uint64_t)1 << 20) /* between kept states */

typedef struct point {
    z_stream z;
    uint64_t in, out;
} point;

struct tg_inflater {
    tg_deflated of;
    point now; /* its input lies in `block` from next_in on */
    bool live; /* now.z is initialised */
    bool ended;
    uint64_t gap;
    point kept[TG_INFLATER_POINTS]; /* the i-th at or behind (i + 1) * gap */
    size_t n_kept;
    uint64_t summed; /* bytes from the front that are in crc */
    uint32_t crc;
    uint8_t block[BLOCK], dropped[BLOCK];
};

tg_status tg_inflater_new(tg_inflater **out, const tg_deflated *of, tg_error *err)
{
    tg_inflater *f = tg_calloc(1, sizeof *f);
    if (f == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to inflate");
    f->of = *of;
    f->gap = of->size / (TG_INFLATER_POINTS + 1) + 1;
    f->gap = f->gap > LEAST_GAP ? f->gap : LEAST_GAP;
    *out = f;
    return TG_OK;
}

static void end_now(tg_inflater *f)
{
    if (f->live)
        (void)inflateEnd(&f->now.z);
    f->live = f->ended = false;
}

void tg_inflater_free(tg_inflater *f)
{
    if (f == NULL)
        return;
    end_now(f);
    for (size_t i = 0; i < f->n_kept; i++)
        (void)inflateEnd(&f->kept[i].z);
    tg_free(f);
}

/* Stand at the front, or at the last kept state that is not behind `offset`; or stay, where
 * that is nearer. */
static tg_status go_near(tg_inflater *f, uint64_t offset, tg_error *err)
{
    point *from = NULL;

    for (size_t i = 0; i < f->n_kept && f->kept[i].out <= offset; i++)
        from = &f->kept[i];
    if (f->live && f->now.out <= offset && (from == NULL || from->out <= f->now.out))
        return TG_OK;
    end_now(f);
    f->now = (point){.z = {.zalloc = tg_zlib_alloc, .zfree = tg_zlib_free}};
    int rc =
        from == NULL ? inflateInit2(&f->now.z, -MAX_WBITS) : inflateCopy(&f->now.z, &from->z);
    if (rc != Z_OK)
        return tg_fail(err, TG_NO_MEMORY, "no memory to inflate");
    f->live = true;
    f->now.in = from == NULL ? 0 : from->in;
    f->now.out = from == NULL ? 0 : from->out;
    f->now.z.avail_in = 0;
    return TG_OK;
}

/* A state that cannot be kept for want of memory is done without. */
static void keep_state(tg_inflater *f)
{
    if (f->n_kept == TG_INFLATER_POINTS || f->now.out < (f->n_kept + 1) * f->gap)
        return;
    point *p = &f->kept[f->n_kept];
    *p = (point){.in = f->now.in - f->now.z.avail_in, .out = f->now.out};
    if (inflateCopy(&p->z, &f->now.z) == Z_OK)
        f->n_kept++;
}

static tg_status damaged(const tg_inflater *f, const char *name, const char *what,
                         tg_error *err)
{
    tg_status st = tg_fail(err, TG_CORRUPT,
                           "entry '%s': deflate data %s at byte %llu of %llu, which made "
                           "%llu bytes of %llu",
                           name, what, (unsigned long long)(f->now.in - f->now.z.avail_in),
                           (unsigned long long)f->of.stored, (unsigned long long)f->now.out,
                           (unsigned long long)f->of.size);
    tg_error_at(err, name, f->of.at + f->now.in - f->now.z.avail_in);
    return st;
}

static tg_status fill(tg_inflater *f, const char *name, tg_error *err)
{
    uint64_t left = f->of.stored - f->now.in;
    size_t n = left < BLOCK ? (size_t)left : BLOCK;

    if (f->now.z.avail_in > 0 || n == 0)
        return TG_OK;
    TG_TRY(tg_fd_read_at(f->of.fd, f->block, n, f->of.at + f->now.in, name, err));
    f->now.z.next_in = f->block;
    f->now.z.avail_in = (unsigned)n;
    f->now.in += n;
    return TG_OK;
}

/* The next n bytes, at least one and at most a block. */
static tg_status make(tg_inflater *f, uint8_t *dst, size_t n, const char *name, tg_error *err)
{
    f->now.z.next_out = dst;
    f->now.z.avail_out = (unsigned)n;
    while (f->now.z.avail_out > 0 && !f->ended) {
        TG_TRY(fill(f, name, err));
        unsigned in = f->now.z.avail_in, out = f->now.z.avail_out;
        int rc = inflate(&f->now.z, Z_NO_FLUSH);
        f->now.out += out - f->now.z.avail_out;
        f->ended = rc == Z_STREAM_END;
        if (rc == Z_MEM_ERROR)
            return tg_fail(err, TG_NO_MEMORY, "no memory to inflate");
        if ((rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR) ||
            (!f->ended && in == f->now.z.avail_in && out == f->now.z.avail_out))
            return damaged(f, name, in == 0 ? "ends early" : "is damaged", err);
    }
    return f->now.z.avail_out == 0 ? TG_OK : damaged(f, name, "ends early", err);
}

/* All is made: nothing may be left over, in either direction. */
static tg_status check_end(tg_inflater *f, const char *name, tg_error *err)
{
    uint8_t more;

    while (!f->ended) {
        f->now.z.next_out = &more;
        f->now.z.avail_out = 1;
        TG_TRY(fill(f, name, err));
        int rc = inflate(&f->now.z, Z_NO_FLUSH);
        if (f->now.z.avail_out == 0)
            return damaged(f, name, "goes on", err);
        f->ended = rc == Z_STREAM_END;
        if (!f->ended && (rc != Z_OK || (f->now.z.avail_in == 0 && f->now.in == f->of.stored)))
            return damaged(f, name, "has no end", err);
    }
    if (f->now.in - f->now.z.avail_in != f->of.stored)
        return damaged(f, name, "ends early", err);
    return TG_OK;
}

static tg_status sum(tg_inflater *f, uint64_t at, const uint8_t *data, size_t n,
                     const char *name, tg_error *err)
{
    if (at > f->summed || at + n <= f->summed)
        return TG_OK;
    size_t known = (size_t)(f->summed - at);
    f->crc = tg_zip_crc32(f->crc, data + known, n - known);
    f->summed = at + n;
    if (f->summed < f->of.size || f->crc == f->of.crc)
        return TG_OK;
    return tg_fail(err, TG_CORRUPT, "entry '%s': crc32 %08x, want %08x", name, f->crc,
                   f->of.crc);
}

tg_status tg_inflater_read(tg_inflater *f, uint64_t offset, size_t len, void *dst,
                           const char *name, const tg_cancel *cancel, tg_error *err)
{
    uint64_t end = offset + len;

    if (len == 0)
        return TG_OK;
    TG_TRY(go_near(f, offset, err));
    while (f->now.out < end) {
        uint64_t at = f->now.out, left = (at < offset ? offset : end) - at;
        size_t n = left < BLOCK ? (size_t)left : BLOCK;
        uint8_t *to = at < offset ? f->dropped : (uint8_t *)dst + (at - offset);
        TG_TRY(tg_cancel_check(cancel, err));
        keep_state(f);
        TG_TRY(make(f, to, n, name, err));
        TG_TRY(sum(f, at, to, n, name, err));
    }
    return f->now.out == f->of.size ? check_end(f, name, err) : TG_OK;
}
