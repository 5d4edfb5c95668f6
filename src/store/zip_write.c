/* store/zip_write.c - appending to a ZIP: each value whole, its header with size
 * and CRC before it, one after the other; the directory after the last. An old
 * directory stays in the file and is left behind. */
#include "store/zip_write.h"

#include "base/text.h"
#include "store/zip.h"
#include "store/zip_format.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define ALIGN 4096u
#define GATHER                                                                     \
    ((size_t)64 << 10) /* entries below this go out with their header in one write \
                        */
#define HEADER_ROOM (ZIP_LOCAL_BYTES + TG_STORE_KEY_MAX + 20 + 2 * ALIGN)
#define DOS_DATE    0x0021 /* 1980-01-01, the first there is: equal values make equal files */

/* --- One thread at a time --------------------------------------------------------- */

static void turn_begin(zip_store *z)
{
    TG_LOCKED(&z->lock);
    while (z->busy)
        tg_cond_wait(&z->idle, &z->lock);
    z->busy = true;
}

static void turn_end(zip_store *z)
{
    TG_LOCKED(&z->lock);
    z->busy = false;
    tg_cond_signal(&z->idle);
}

static tg_status fail_again(zip_store *z, tg_error *err)
{
    if (z->failed.code != TG_OK && err != NULL)
        *err = z->failed;
    return z->failed.code;
}

/* A failure that leaves the file in a state we do not know: all that follows fails alike. */
static tg_status fail_for_good(zip_store *z, tg_status st, const tg_error *own, tg_error *err)
{
    if (st != TG_OK && z->failed.code == TG_OK)
        z->failed = *own;
    if (st != TG_OK && err != NULL)
        *err = *own;
    return st;
}

/* --- Headers ---------------------------------------------------------------------- */

static bool is_ascii(const char *s)
{
    while (*s != '\0' && (uint8_t)*s < 128)
        s++;
    return *s == '\0';
}

/* What a local header and a record of the directory have in common: version to flags to sizes.
 */
static uint8_t *put_common(uint8_t *p, const char *name, const zip_entry *e, bool zip64)
{
    p = zip_put16(p, zip64 ? 45 : 20);
    p = zip_put16(p, is_ascii(name) ? 0 : ZIP_FLAG_UTF8);
    p = zip_put16(p, ZIP_STORED);
    p = zip_put16(p, 0);
    p = zip_put16(p, DOS_DATE);
    p = zip_put32(p, e->crc);
    p = zip_put32(p, e->size >= ZIP_MAX32 ? ZIP_MAX32 : e->size);
    p = zip_put32(p, e->size >= ZIP_MAX32 ? ZIP_MAX32 : e->size);
    return zip_put16(p, e->name_len);
}

/* An extra field that makes the data begin on a multiple of ALIGN. */
static uint8_t *put_padding(uint8_t *p, uint64_t at)
{
    size_t pad = (ALIGN - at % ALIGN) % ALIGN;

    if (pad == 0)
        return p;
    if (pad < 6) /* the field's own head and the alignment in it */
        pad += ALIGN;
    memset(p, 0, pad);
    zip_put16(zip_put16(zip_put16(p, ZIP_EXTRA_ALIGN), pad - 4), ALIGN);
    return p + pad;
}

static size_t put_local(uint8_t *dst, const char *name, const zip_entry *e)
{
    bool zip64 = e->size >= ZIP_MAX32;
    uint8_t *p = put_common(zip_put32(dst, ZIP_LOCAL_SIG), name, e, zip64);
    uint8_t *extra_len = p;

    p += 2;
    memcpy(p, name, e->name_len);
    p += e->name_len;
    uint8_t *extra = p;
    if (zip64) {
        p = zip_put16(zip_put16(p, ZIP_EXTRA_ZIP64), 16);
        p = zip_put64(zip_put64(p, e->size), e->size);
    }
    if (e->size >= TG_ZIP_ALIGN_MIN)
        p = put_padding(p, e->header + (uint64_t)(p - dst));
    zip_put16(extra_len, (uint64_t)(p - extra));
    return (size_t)(p - dst);
}

static size_t put_central(uint8_t *dst, const char *name, const zip_entry *e)
{
    bool big = e->size >= ZIP_MAX32, far = e->header >= ZIP_MAX32;
    uint8_t *p = zip_put32(dst, ZIP_CENTRAL_SIG);

    p = zip_put16(p, ZIP_MADE_BY_UNIX << 8 | 45);
    p = put_common(p, name, e, big || far);
    p = zip_put16(p, big || far ? 4 + (big ? 16 : 0) + (far ? 8 : 0) : 0);
    p = zip_put16(p, 0); /* comment */
    p = zip_put16(p, 0); /* disk */
    p = zip_put16(p, 0); /* internal attributes */
    p = zip_put32(p, (uint64_t)0100644 << 16);
    p = zip_put32(p, far ? ZIP_MAX32 : e->header);
    memcpy(p, name, e->name_len);
    p += e->name_len;
    if (big || far)
        p = zip_put16(zip_put16(p, ZIP_EXTRA_ZIP64), (big ? 16 : 0) + (far ? 8 : 0));
    if (big)
        p = zip_put64(zip_put64(p, e->size), e->size);
    if (far)
        p = zip_put64(p, e->header);
    return (size_t)(p - dst);
}

/* --- Entries ---------------------------------------------------------------------- */

/* Keep the page cache small behind a buffered archive. */
static tg_status follow(zip_store *z, uint64_t from, tg_error *err)
{
    tg_extent start, finish;

    if (z->direct || !z->can_write_out)
        return TG_OK;
    tg_behind_add(&z->behind, (tg_extent){from, z->out.end - from}, &start, &finish);
    return tg_behind_run(z->out_fd, start, finish, &z->can_write_out, z->path, err);
}

static tg_status write_entry(zip_store *z, const char *name, zip_entry *e, const void *data,
                             uint64_t *data_offset, const tg_cancel *cancel, tg_error *err)
{
    uint8_t header[HEADER_ROOM];
    size_t n = put_local(header, name, e);

    *data_offset = e->header + n;
    TG_TRY(tg_appender_write(&z->out, header, n, cancel, err));
    TG_TRY(tg_appender_write(&z->out, data, (size_t)e->size, cancel, err));
    return tg_appender_flush(&z->out, cancel, err);
}

static tg_status enter(zip_store *z, const char *name, zip_entry e, tg_error *err)
{
    TG_LOCKED(&z->lock);
    return tg_zip_dir_set(&z->dir, name, strlen(name), e, err);
}

/* It is this thread's turn. After a failure the next entry goes to the same place. */
static tg_status append(zip_store *z, const char *key, const void *data, size_t len,
                        uint32_t crc, tg_zip_record *record, const tg_cancel *cancel,
                        tg_error *err)
{
    zip_entry e = {.header = tg_appender_at(&z->out),
                   .stored = len,
                   .size = len,
                   .crc = crc,
                   .name_len = (uint16_t)strlen(key),
                   .method = ZIP_STORED,
                   .added = true};
    tg_error own = {0};
    uint64_t data_offset = 0;

    z->changed = true;
    tg_status st = write_entry(z, key, &e, data, &data_offset, cancel, err);
    if (st == TG_OK)
        st = enter(z, key, e, err);
    if (st != TG_OK) {
        tg_status back = tg_appender_seek(&z->out, e.header, &own);
        (void)fail_for_good(z, back, &own, NULL); /* what is reported is the first failure */
        return st;
    }
    *record = (tg_zip_record){e.header, data_offset, len, crc};
    /* The kernel tells of a failed write-out once: a sync to come would not know. */
    return fail_for_good(z, follow(z, e.header, &own), &own, err);
}

static bool is_there(zip_store *z, const char *key)
{
    TG_LOCKED(&z->lock);
    return tg_zip_dir_find(&z->dir, key) != NULL;
}

static tg_status put(zip_store *z, const char *key, const void *data, size_t len,
                     const uint32_t *crc, unsigned how, tg_zip_record *record,
                     const tg_cancel *cancel, tg_error *err)
{
    if (!tg_utf8_valid(key, strlen(key)))
        return tg_fail(err, TG_INVALID, "'%s' is not UTF-8, as names in a ZIP are", key);
    uint32_t sum = crc != NULL ? *crc : tg_zip_crc32(0, data, len);
    turn_begin(z);
    tg_status st = fail_again(z, err);
    if (st == TG_OK && (how & TG_PUT_NEW) != 0 && is_there(z, key))
        st = tg_fail(err, TG_EXISTS, "'%s' is there already", key);
    if (st == TG_OK)
        st = append(z, key, data, len, sum, record, cancel, err);
    turn_end(z);
    return st;
}

tg_status tg_zip_put(tg_store *s, const char *key, const void *data, size_t len, unsigned how,
                     const tg_cancel *cancel, tg_error *err)
{
    tg_zip_record record;
    return put((zip_store *)s, key, data, len, NULL, how, &record, cancel, err);
}

tg_status tg_zip_append(tg_store *zip, const char *key, const void *data, size_t len,
                        const uint32_t *crc32, tg_zip_record *record, const tg_cancel *cancel,
                        tg_error *err)
{
    zip_store *z = (zip_store *)zip;
    tg_status st;

    if (!tg_store_key_valid(key))
        st = tg_fail(err, TG_INVALID, "'%s' is no key", key);
    else if (z->out_fd < 0)
        st = tg_fail(err, TG_UNSUPPORTED, "opened for reading");
    else if ((st = tg_cancel_check(cancel, err)) == TG_OK)
        st = put(z, key, data, len, crc32, 0, record, cancel, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "%s", tg_store_describe(zip));
        tg_error_at(err, key, TG_NO_OFFSET);
    }
    return st;
}

tg_status tg_zip_adopt(tg_store *zip, const char *key, const tg_zip_record *r, tg_error *err)
{
    zip_store *z = (zip_store *)zip;
    zip_entry e = {.header = r->header_offset,
                   .stored = r->len,
                   .size = r->len,
                   .crc = r->crc32,
                   .method = ZIP_STORED,
                   .added = true};
    uint64_t data;
    struct stat st;

    if (z->out_fd < 0 || !tg_store_key_valid(key) || !tg_utf8_valid(key, strlen(key)))
        return tg_fail(err, TG_INVALID, "%s: '%s' cannot be an entry", tg_store_describe(zip),
                       key);
    e.name_len = (uint16_t)strlen(key);
    if (r->header_offset < z->base_bytes)
        return tg_fail(err, TG_CORRUPT, "%s: '%s' would lie in the archive before it",
                       tg_store_describe(zip), key);
    TG_TRY(tg_zip_locate(z->fd, &e, key, &data, err));
    if (tg_sys_stat_fd(z->fd, &st) != 0)
        return tg_file_fail("stat", z->path, err);
    if (data != r->data_offset || r->len > (uint64_t)st.st_size ||
        data > (uint64_t)st.st_size - r->len)
        return tg_fail(err, TG_CORRUPT, "%s: '%s' at byte %llu is not whole",
                       tg_store_describe(zip), key, (unsigned long long)data);
    TG_TRY(enter(z, key, e, err));
    z->changed = true;
    return data + r->len > tg_appender_at(&z->out)
               ? tg_appender_seek(&z->out, data + r->len, err)
               : TG_OK;
}

/* --- The directory ------------------------------------------------------------------ */

typedef struct copying {
    zip_store *z;
    uint64_t kept;
} copying;

/* Keep a record of the old directory as it is, unless its value was replaced. */
static tg_status copy_record(void *user, const zip_central *c, tg_error *err)
{
    copying *k = user;
    const zip_entry *e = tg_zip_dir_find(&k->z->dir, c->name);
    bool is_dir = c->name[c->name_len - 1] == '/';

    if (!is_dir && (e == NULL || e->added || e->header != c->entry.header))
        return TG_OK;
    k->kept++;
    return tg_appender_write(&k->z->out, c->bytes, c->len, NULL, err);
}

static tg_status write_added(zip_store *z, uint64_t *n, tg_error *err)
{
    uint8_t record[ZIP_CENTRAL_BYTES + TG_STORE_KEY_MAX + 28];

    for (uint32_t i = 0; i < z->dir.n; i++) {
        const zip_entry *e = tg_zip_dir_at(&z->dir, i);
        if (!e->added)
            continue;
        size_t len = put_central(record, tg_zip_dir_name(&z->dir, e), e);
        TG_TRY(tg_appender_write(&z->out, record, len, NULL, err));
        *n += 1;
    }
    return TG_OK;
}

static tg_status write_end(zip_store *z, uint64_t at, uint64_t bytes, uint64_t n, tg_error *err)
{
    uint8_t r[ZIP_END64_BYTES + ZIP_LOCATOR_BYTES + ZIP_END_BYTES], *p = r;

    if (n >= ZIP_MAX16 || at >= ZIP_MAX32 || bytes >= ZIP_MAX32) {
        p = zip_put64(zip_put32(p, ZIP_END64_SIG), ZIP_END64_BYTES - 12);
        p = zip_put16(zip_put16(p, ZIP_MADE_BY_UNIX << 8 | 45), 45);
        p = zip_put32(zip_put32(p, 0), 0);
        p = zip_put64(zip_put64(p, n), n);
        p = zip_put64(zip_put64(p, bytes), at);
        p = zip_put32(zip_put32(p, ZIP_LOCATOR_SIG), 0);
        p = zip_put32(zip_put64(p, at + bytes), 1);
    }
    p = zip_put16(zip_put16(zip_put32(p, ZIP_END_SIG), 0), 0);
    p = zip_put16(zip_put16(p, zip_min(n, ZIP_MAX16)), zip_min(n, ZIP_MAX16));
    p = zip_put32(zip_put32(p, zip_min(bytes, ZIP_MAX32)), zip_min(at, ZIP_MAX32));
    p = zip_put16(p, z->old.comment_len);
    return tg_appender_write(&z->out, r, (size_t)(p - r), NULL, err);
}

static tg_status copy_comment(zip_store *z, tg_error *err)
{
    TG_AUTO(tg_buf) comment = {0};

    if (z->old.comment_len == 0)
        return TG_OK;
    TG_TRY(tg_buf_resize(&comment, z->old.comment_len, err));
    TG_TRY(tg_fd_read_at(z->fd, comment.data, comment.len, z->old.comment, z->path, err));
    return tg_appender_write(&z->out, comment.data, comment.len, NULL, err);
}

static tg_status write_directory(zip_store *z, tg_error *err)
{
    copying k = {z, 0};
    uint64_t at = tg_appender_at(&z->out), n = 0;

    if (z->base_bytes > 0)
        TG_TRY(tg_zip_each_central(z->fd, &z->old, copy_record, &k, err));
    n = k.kept;
    TG_TRY(write_added(z, &n, err));
    TG_TRY(write_end(z, at, tg_appender_at(&z->out) - at, n, err));
    TG_TRY(copy_comment(z, err));
    TG_TRY(tg_appender_flush(&z->out, NULL, err));
    return tg_file_truncate(z->out_fd, tg_appender_at(&z->out), z->path, err);
}

/* Durable: the file, and once the directory entry that leads to it. */
static tg_status sync_file(zip_store *z, tg_error *err)
{
    TG_TRY(tg_file_sync(z->out_fd, z->path, err));
    if (z->entry_durable)
        return TG_OK;
    TG_TRY(tg_file_sync_entry(z->path, err));
    z->entry_durable = true;
    return TG_OK;
}

tg_status tg_zip_sync(tg_store *s, const tg_cancel *cancel, tg_error *err)
{
    zip_store *z = (zip_store *)s;
    tg_error own = {0};

    (void)cancel;
    if (z->out_fd < 0)
        return TG_OK;
    turn_begin(z);
    tg_status st = fail_again(z, err);
    if (st == TG_OK)
        st = fail_for_good(z, sync_file(z, &own), &own, err);
    turn_end(z);
    return st;
}

static tg_status finish(zip_store *z, tg_error *err)
{
    /* The entries first: a directory must not lead to bytes that a power cut has lost. */
    if (!z->no_sync)
        TG_TRY(sync_file(z, err));
    TG_TRY(write_directory(z, err));
    if (!z->no_sync)
        TG_TRY(sync_file(z, err));
    return TG_OK;
}

tg_status tg_zip_close(tg_store *s, tg_error *err)
{
    zip_store *z = (zip_store *)s;

    if (z->out_fd < 0)
        return TG_OK;
    TG_TRY(fail_again(z, err));
    if (z->changed)
        TG_TRY(finish(z, err));
    return tg_file_close(&z->out_fd, z->path, err);
}

/* --- Opening ------------------------------------------------------------------------- */

tg_status tg_zip_open_out(zip_store *z, bool create, bool buffered, tg_error *err)
{
    size_t align = 1;
    int flags = O_RDWR | O_NONBLOCK | (create ? O_CREAT | O_EXCL : 0);

    z->out_fd = tg_sys_open(AT_FDCWD, z->path, flags, 0666);
    if (z->out_fd < 0)
        return tg_file_fail(create ? "create" : "open", z->path, err);
    z->changed = create;
    if (!buffered)
        TG_TRY(tg_file_try_direct(z->out_fd, z->path, create, &align, err));
    z->direct = align > 1;
    z->can_write_out = true;
    z->out = (tg_appender){.fd = z->out_fd, .name = z->path, .align = align, .gather = GATHER};
    return tg_arena_map(&z->out.block, TG_FILE_BLOCK, err);
}
