/* store/zip_read.c - the bytes of one entry: a range of a stored one, or what a
 * deflated one becomes. Knows no directory. */
#include "store/zip.h"
#include "store/zip_format.h"

#include <string.h>

/* What is stored in at most so many bytes is inflated at once where all of it is wanted. */
#define AT_ONCE_MAX ((uint64_t)16 << 20)

static tg_status bad(tg_error *err, const zip_entry *e, const char *name, const char *what)
{
    tg_status st = tg_fail(err, TG_CORRUPT, "entry '%s' at byte %llu: %s", name,
                           (unsigned long long)e->header, what);
    tg_error_at(err, name, e->header);
    return st;
}

/* Does the local header say the same as the directory? A file where they differ shows different
 * things to different readers. Sizes may be absent (a descriptor follows the data) or in a
 * zip64 field. */
static bool same(const uint8_t *h, const zip_entry *e)
{
    if (zip_min(zip_u16(h + 8), 255) != e->method)
        return false;
    if ((zip_u16(h + 6) & ZIP_FLAG_DESCRIPTOR) != 0)
        return true;
    return zip_u32(h + 14) == e->crc &&
           (zip_u32(h + 18) == ZIP_MAX32 || zip_u32(h + 18) == e->stored) &&
           (zip_u32(h + 22) == ZIP_MAX32 || zip_u32(h + 22) == e->size);
}

tg_status tg_zip_locate(int fd, const zip_entry *e, const char *name, uint64_t *data,
                        tg_error *err)
{
    uint8_t h[ZIP_LOCAL_BYTES + TG_STORE_KEY_MAX];
    size_t n = ZIP_LOCAL_BYTES + (e->recoded ? 0 : e->name_len);

    TG_TRY(tg_fd_read_at(fd, h, n, e->header, name, err));
    if (zip_u32(h) != ZIP_LOCAL_SIG)
        return bad(err, e, name, "no local header there");
    if (!same(h, e) || (!e->recoded && (zip_u16(h + 26) != e->name_len ||
                                        memcmp(h + ZIP_LOCAL_BYTES, name, e->name_len) != 0)))
        return bad(err, e, name, "the local header and the directory differ");
    *data = e->header + ZIP_LOCAL_BYTES + zip_u16(h + 26) + zip_u16(h + 28);
    return TG_OK;
}

static tg_status check_crc(const zip_entry *e, const char *name, const void *p, tg_error *err)
{
    uint32_t got = tg_zip_crc32(0, p, (size_t)e->size);
    if (got == e->crc)
        return TG_OK;
    tg_status st = tg_fail(err, TG_CORRUPT, "entry '%s' at byte %llu: crc32 %08x, want %08x",
                           name, (unsigned long long)e->header, got, e->crc);
    tg_error_at(err, name, e->header);
    return st;
}

/* The whole value of a deflated entry into dst, which has room for it. */
static tg_status inflate_entry(int fd, const zip_entry *e, const char *name, uint64_t data,
                               void *dst, tg_error *err)
{
    TG_AUTO(tg_buf) packed = {0};

    TG_TRY(tg_buf_resize(&packed, (size_t)e->stored, err));
    TG_TRY(tg_fd_read_at(fd, packed.data, packed.len, data, name, err));
    tg_status st = tg_inflate(packed.data, packed.len, dst, (size_t)e->size, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "entry '%s'", name);
        tg_error_at(err, name, e->header);
        return st;
    }
    return check_crc(e, name, dst, err);
}

static zip_part *find_part(zip_store *z, const zip_entry *e)
{
    for (size_t i = 0; i < TG_ZIP_PARTS; i++)
        if (z->parts[i].inflater != NULL && z->parts[i].header == e->header)
            return &z->parts[i];
    return NULL;
}

/* A part of a large value, by the inflater that knows it already if there is one. */
static tg_status read_large(zip_store *z, const zip_entry *e, const char *name, uint64_t data,
                            uint64_t offset, size_t len, void *dst, const tg_cancel *cancel,
                            tg_error *err)
{
    const tg_deflated of = {z->fd, data, e->stored, e->size, e->crc};

    TG_LOCKED_FOR_IO(&z->inflating);
    zip_part *p = find_part(z, e);
    if (p == NULL) {
        p = &z->parts[z->part_turn++ % TG_ZIP_PARTS];
        tg_inflater_free(p->inflater);
        *p = (zip_part){NULL, e->header};
        TG_TRY(tg_inflater_new(&p->inflater, &of, err));
    }
    tg_status st = tg_inflater_read(p->inflater, offset, len, dst, name, cancel, err);
    if (st != TG_OK) {
        tg_inflater_free(p->inflater);
        *p = (zip_part){NULL, 0};
    }
    return st;
}

static tg_status read_deflated(zip_store *z, const zip_entry *e, const char *name,
                               uint64_t data, uint64_t offset, size_t len, void *dst,
                               const tg_cancel *cancel, tg_error *err)
{
    const int fd = z->fd;
    TG_AUTO(tg_buf) whole = {0};

    if (len == e->size && e->stored <= AT_ONCE_MAX)
        return inflate_entry(fd, e, name, data, dst, err);
    if (e->size > TG_ZIP_SMALL)
        return read_large(z, e, name, data, offset, len, dst, cancel, err);
    TG_TRY(tg_buf_resize(&whole, (size_t)e->size, err));
    TG_TRY(inflate_entry(fd, e, name, data, whole.data, err));
    memcpy(dst, whole.data + offset, len);
    return TG_OK;
}

static tg_status check_kind(const zip_entry *e, const char *name, tg_error *err)
{
    if ((e->flags & (ZIP_FLAG_ENCRYPTED | ZIP_FLAG_STRONG | ZIP_FLAG_MASKED)) != 0)
        return tg_fail(err, TG_UNSUPPORTED, "entry '%s' is encrypted", name);
    if (e->link)
        return tg_fail(err, TG_UNSUPPORTED, "entry '%s' is a symbolic link", name);
    if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
        return tg_fail(err, TG_UNSUPPORTED,
                       "entry '%s' has compression method %d; stored and deflated can be read",
                       name, e->method);
    return TG_OK;
}

tg_status tg_zip_read(zip_store *z, const zip_entry *e, const char *name, uint64_t limit,
                      tg_range range, void *dst, size_t cap, size_t *n, const tg_cancel *cancel,
                      tg_error *err)
{
    const int fd = z->fd;
    uint64_t offset, len, data;

    TG_TRY(check_kind(e, name, err));
    TG_TRY(tg_range_resolve(range, e->size, &offset, &len, err));
    if (len > cap) {
        *n = len > SIZE_MAX ? SIZE_MAX : (size_t)len;
        return tg_fail(err, TG_OVER_BUDGET, "'%s' has %llu bytes to read, room for %zu", name,
                       (unsigned long long)len, cap);
    }
    TG_TRY(tg_zip_locate(fd, e, name, &data, err));
    if (data > limit || e->stored > limit - data)
        return bad(err, e, name, "its data would end beyond the directory's beginning");
    if (e->method == ZIP_DEFLATED) {
        TG_TRY(read_deflated(z, e, name, data, offset, (size_t)len, dst, cancel, err));
    } else {
        TG_TRY(tg_fd_read_at(fd, dst, (size_t)len, data + offset, name, err));
        if (len == e->size) /* else there is nothing to hold it against */
            TG_TRY(check_crc(e, name, dst, err));
    }
    *n = (size_t)len;
    return TG_OK;
}
