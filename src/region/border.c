/* Fragments for units that several parts write: appended, checksummed, one file a part. */
#include "region/border.h"

#include "base/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct tg_border {
    const tg_folder *folder;
    uint32_t part;
    char name[32];
    int fd;
    tg_mutex lock; /* guards all below; held for I/O */
    tg_appender file;
    uint32_t sum;
};

static tg_status add_bytes(tg_border *b, const void *data, size_t n, tg_error *err)
{
    b->sum = tg_crc32c(b->sum, data, n);
    return tg_appender_write(&b->file, data, n, NULL, err);
}

static tg_status begin(tg_border *b, uint64_t fingerprint, tg_error *err)
{
    const uint32_t version = TG_BORDER_VERSION;

    b->fd = tg_sys_open(b->folder->dir, b->name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (b->fd < 0)
        return tg_folder_fail(b->folder, "make", b->name, err);
    b->file = (tg_appender){.fd = b->fd, .name = b->name, .align = 1, .gather = 1};
    TG_TRY(add_bytes(b, "TGBORDER", 8, err));
    TG_TRY(add_bytes(b, &version, sizeof version, err));
    TG_TRY(add_bytes(b, &b->part, sizeof b->part, err));
    return add_bytes(b, &fingerprint, sizeof fingerprint, err);
}

tg_status tg_border_new(tg_border **out, const tg_folder *folder, uint32_t part,
                        uint64_t fingerprint, tg_error *err)
{
    tg_border *b = tg_calloc(1, sizeof *b);

    if (b == NULL)
        return tg_fail(err, TG_NO_MEMORY, "border of the part");
    b->folder = folder;
    b->part = part;
    b->fd = -1;
    tg_mutex_init(&b->lock);
    (void)snprintf(b->name, sizeof b->name, "border-%" PRIu32, part);
    tg_status st = begin(b, fingerprint, err);
    if (st != TG_OK) {
        tg_border_free(b);
        return st;
    }
    *out = b;
    return TG_OK;
}

void tg_border_free(tg_border *b)
{
    if (b == NULL)
        return;
    if (b->fd >= 0)
        (void)tg_sys_close(b->fd); /* abandoned, or synced */
    tg_arena_unmap(&b->file.block);
    tg_mutex_destroy(&b->lock);
    tg_free(b);
}

/* Rows of the cut, in C order: fn for each. */
typedef tg_status (*row_fn)(void *user, const void *row, size_t n, tg_error *err);

static tg_status each_row_of(const uint8_t *data, const int64_t *strides, const tg_patch *patch,
                             const tg_box *cut, size_t size, row_fn fn, void *user,
                             tg_error *err)
{
    const uint32_t ndim = cut->shape.ndim;
    const size_t n = (ndim == 0 ? 1 : (size_t)cut->shape.n[ndim - 1]) * size;
    uint64_t index[TG_MAX_NDIM];
    tg_box rows = *cut;

    if (ndim > 0)
        rows.shape.n[ndim - 1] = 1;
    memcpy(index, cut->start, sizeof index);
    do {
        const uint8_t *p = data;
        for (uint32_t d = 0; d < ndim; d++)
            p += (int64_t)(index[d] - patch->box.start[d]) * strides[d];
        TG_TRY(fn(user, p, n, err));
    } while (tg_box_next(&rows, index));
    return TG_OK;
}

static tg_status each_row(const tg_patch *patch, const tg_box *cut, size_t size, row_fn fn,
                          void *user, tg_error *err)
{
    TG_TRY(each_row_of(patch->data, patch->strides, patch, cut, size, fn, user, err));
    return patch->keep == NULL
               ? TG_OK
               : each_row_of(patch->keep, patch->keep_strides, patch, cut, 1, fn, user, err);
}

static tg_status sum_row(void *user, const void *row, size_t n, tg_error *err)
{
    uint32_t *sum = user;

    (void)err;
    *sum = tg_crc32c(*sum, row, n);
    return TG_OK;
}

static tg_status write_row(void *user, const void *row, size_t n, tg_error *err)
{
    return add_bytes(user, row, n, err);
}

tg_status tg_border_add(tg_border *b, uint32_t unit, uint32_t region, const tg_patch *patch,
                        const tg_box *cut, size_t item_bytes, tg_error *err)
{
    uint32_t head[6] = {unit, region, 0, 0, 0, 0};
    uint64_t bytes = item_bytes + (patch->keep != NULL);

    for (uint32_t d = 0; d < cut->shape.ndim; d++)
        bytes *= cut->shape.n[d];
    memcpy(&head[2], &bytes, sizeof bytes);
    TG_TRY(each_row(patch, cut, item_bytes, sum_row, &head[4], err));
    head[5] = tg_crc32c(0, head, 20);
    TG_LOCKED_FOR_IO(&b->lock);
    TG_TRY(add_bytes(b, head, sizeof head, err));
    return each_row(patch, cut, item_bytes, write_row, b, err);
}

static tg_status write_marker(const tg_border *b, tg_error *err)
{
    char name[32], fresh[40];
    uint8_t text[16];
    const uint64_t bytes = tg_appender_at(&b->file);

    memcpy(text, &bytes, 8);
    memcpy(text + 8, &b->sum, 4);
    const uint32_t sum = tg_crc32c(0, text, 12);
    memcpy(text + 12, &sum, 4);
    (void)snprintf(name, sizeof name, "done-%" PRIu32, b->part);
    (void)snprintf(fresh, sizeof fresh, "%s.new", name);
    TG_AUTO(tg_fd) fd = tg_sys_open(b->folder->dir, fresh, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0)
        return tg_folder_fail(b->folder, "make", fresh, err);
    TG_TRY(tg_fd_write_at(fd, text, sizeof text, 0, fresh, err));
    if (tg_sys_fdatasync(fd) != 0)
        return tg_folder_fail(b->folder, "sync", fresh, err);
    TG_TRY(tg_fd_close(&fd, fresh, err));
    tg_crash_point();
    if (tg_sys_rename(b->folder->dir, fresh, b->folder->dir, name) != 0)
        return tg_folder_fail(b->folder, "make", name, err);
    return tg_dir_sync(b->folder->dir, b->folder->path, err);
}

tg_status tg_border_end(tg_border *b, tg_error *err)
{
    TG_LOCKED_FOR_IO(&b->lock);
    TG_TRY(tg_appender_flush(&b->file, NULL, err));
    tg_crash_point();
    if (tg_sys_fdatasync(b->fd) != 0)
        return tg_folder_fail(b->folder, "sync", b->name, err);
    TG_TRY(tg_dir_sync(b->folder->dir, b->folder->path, err));
    tg_crash_point();
    return write_marker(b, err);
}

tg_status tg_border_is_done(const tg_folder *folder, uint32_t part, uint64_t *length,
                            tg_error *err)
{
    uint8_t text[16];
    uint32_t sum;
    char name[32];
    struct stat info;

    *length = 0;
    (void)snprintf(name, sizeof name, "done-%" PRIu32, part);
    TG_AUTO(tg_fd) fd = tg_sys_open(folder->dir, name, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return errno == ENOENT ? TG_OK : tg_folder_fail(folder, "open", name, err);
    if (tg_sys_stat_fd(fd, &info) != 0)
        return tg_folder_fail(folder, "look at", name, err);
    if (info.st_size != sizeof text)
        return tg_fail(err, TG_CORRUPT, "'%.200s/%s': %lld bytes, want 16", folder->path, name,
                       (long long)info.st_size);
    TG_TRY(tg_fd_read_at(fd, text, sizeof text, 0, name, err));
    memcpy(&sum, text + 12, 4);
    if (sum != tg_crc32c(0, text, 12))
        return tg_fail(err, TG_CORRUPT, "'%.200s/%s': crc32c %08x, want %08x", folder->path,
                       name, tg_crc32c(0, text, 12), sum);
    memcpy(length, text, 8);
    return TG_OK;
}
