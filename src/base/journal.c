/* base/journal.c - writing and replaying a file of framed records. Knows nothing of what they
 * mean. */
#include "base/journal.h"

#include "base/crc32c.h"
#include "base/sys.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { HEADER_BYTES = 24, FRAME_BYTES = 12 };

static const char magic[8] = {'T', 'G', 'J', 'O', 'U', 'R', 'N', 'L'};

struct tg_journal {
    tg_fd fd;
    char *path;
    uint8_t *buffer;
    size_t cap, fill;
    uint64_t written; /* bytes of the file that were handed to the kernel */
    tg_error failed;  /* the first failure; code TG_OK: none */
};

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The sum of a frame: its length, type and place, so that neither a torn length nor stale bytes
 * of an older file that lie elsewhere pass. The payload is added by the caller. */
static uint32_t frame_sum(const uint8_t *frame, uint64_t offset)
{
    uint8_t place[8];
#if TG_PLANT == 14
    offset = 0;
#endif
    put32(place, (uint32_t)offset);
    put32(place + 4, (uint32_t)(offset >> 32));
    return tg_crc32c(tg_crc32c(0, place, sizeof place), frame, 8);
}

static void make_header(uint8_t *h, uint32_t kind, uint32_t major, uint32_t minor)
{
    memcpy(h, magic, sizeof magic);
    put32(h + 8, major);
    put32(h + 12, minor);
    put32(h + 16, kind);
    put32(h + 20, tg_crc32c(0, h, 20));
}

/* --- Writing --------------------------------------------------------------- */

static void latch(tg_journal *j, tg_status st, const tg_error *e)
{
    if (j->failed.code != TG_OK)
        return;
    j->failed = *e;
    j->failed.code = st;
}

static tg_status again(const tg_journal *j, tg_error *err)
{
    if (err != NULL)
        *err = j->failed;
    return j->failed.code;
}

static tg_status new_journal(tg_journal **out, const char *path, size_t buffer_bytes,
                             tg_error *err)
{
    TG_AUTO_PTR(tg_journal) j = tg_calloc(1, sizeof *j);
    if (j == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a journal");
    j->fd = -1;
    j->cap = buffer_bytes < 4096 ? 4096 : buffer_bytes;
    j->path = tg_strdup(path);
    j->buffer = tg_alloc(j->cap);
    if (j->path == NULL || j->buffer == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a journal of %zu bytes", j->cap);
    *out = tg_steal(j);
    return TG_OK;
}

static tg_status fail_at(const char *what, const char *path, tg_error *err)
{
    tg_status st = tg_fail_errno(err, "%s '%s'", what, path);
    tg_error_at(err, path, TG_NO_OFFSET);
    return st;
}

static tg_status sync_parent(int dir, const char *path, tg_error *err)
{
    char parent[4096];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);

    if (n >= sizeof parent)
        return tg_fail(err, TG_INVALID, "path of %zu bytes is too long", strlen(path));
    (void)snprintf(parent, sizeof parent, "%.*s", (int)n, slash == NULL ? "." : path);
    TG_AUTO(tg_fd) fd = tg_sys_open(dir, parent, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fail_at("open directory", parent, err);
    return tg_dir_sync(fd, parent, err);
}

/* Give the file its name, which nothing has yet. */
static tg_status publish(int dir, const char *from, const char *path, tg_error *err)
{
    if (tg_sys_rename_new(dir, from, dir, path) == 0)
        return TG_OK;
    if (errno != ENOSYS && errno != EINVAL)
        return fail_at("create", path, err);
    /* A file system that cannot rename so: a second name, and the first removed. */
    if (tg_sys_link(dir, from, dir, path) != 0 || tg_sys_unlink(dir, from, 0) != 0)
        return fail_at("create", path, err);
    return TG_OK;
}

/* The journal gets its name when its header is durable: a process that dies here leaves no
 * journal that nobody can read. What it leaves instead is written over by the next. */
static tg_status create_file(tg_journal *j, int dir, const char *fresh, const uint8_t *header,
                             tg_error *err)
{
    j->fd = tg_sys_open(dir, fresh, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (j->fd < 0)
        return fail_at("create", fresh, err);
    TG_TRY(tg_fd_write_at(j->fd, header, HEADER_BYTES, 0, j->path, err));
    j->written = HEADER_BYTES;
    TG_TRY(tg_journal_sync(j, err));
    TG_TRY(publish(dir, fresh, j->path, err));
    tg_status st = sync_parent(dir, j->path, err);
    if (st != TG_OK)
        (void)tg_sys_unlink(dir, j->path, 0); /* not durable, so not made */
    return st;
}

tg_status tg_journal_create(tg_journal **out, int dir, const char *path, uint32_t kind,
                            uint32_t major, uint32_t minor, size_t buffer_bytes, tg_error *err)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    TG_AUTO(tg_text) fresh = {0};
    uint8_t header[HEADER_BYTES];

    TG_TRY(new_journal(&j, path, buffer_bytes, err));
    tg_text_addf(&fresh, "%s.new", path);
    TG_TRY(tg_text_status(&fresh, err));
    make_header(header, kind, major, minor);
    tg_status st = create_file(j, dir, fresh.data, header, err);
    if (st != TG_OK) {
        (void)tg_sys_unlink(dir, fresh.data, 0); /* the failure is reported already */
        return st;
    }
    *out = tg_steal(j);
    return TG_OK;
}

static tg_status ignore_record(void *user, uint16_t type, tg_bytes payload, uint64_t offset,
                               tg_error *err)
{
    (void)user, (void)type, (void)payload, (void)offset, (void)err;
    return TG_OK;
}

/* Cut what lies behind the last whole record, durably, before anything is added: it must never
 * be found again behind new records, also not after a power cut. */
static tg_status cut(const tg_journal *j, uint64_t end, tg_error *err)
{
    struct stat st;
    if (tg_sys_stat_fd(j->fd, &st) != 0)
        return fail_at("stat", j->path, err);
    if ((uint64_t)st.st_size <= end)
        return TG_OK;
    if (tg_sys_truncate(j->fd, (off_t)end) != 0)
        return fail_at("truncate", j->path, err);
    return tg_sys_fdatasync(j->fd) == 0 ? TG_OK : fail_at("sync", j->path, err);
}

tg_status tg_journal_open(tg_journal **out, int dir, const char *path, uint32_t kind,
                          uint32_t major, size_t buffer_bytes, tg_error *err)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    uint64_t end = 0;

    TG_TRY(tg_journal_replay(dir, path, kind, major, NULL, ignore_record, NULL, &end, err));
    TG_TRY(new_journal(&j, path, buffer_bytes, err));
    j->fd = tg_sys_open(dir, path, O_WRONLY, 0);
    if (j->fd < 0)
        return fail_at("open", path, err);
    TG_TRY(cut(j, end, err));
    j->written = end;
    *out = tg_steal(j);
    return TG_OK;
}

static tg_status write_out(tg_journal *j, const void *data, size_t n, tg_error *err)
{
    tg_error e = {0};
    tg_status st = tg_fd_write_at(j->fd, data, n, j->written, j->path, &e);
    if (st != TG_OK) {
        latch(j, st, &e);
        return again(j, err);
    }
    j->written += n;
    return TG_OK;
}

tg_status tg_journal_flush(tg_journal *j, tg_error *err)
{
    if (j->failed.code != TG_OK)
        return again(j, err);
    if (j->fill > 0)
        TG_TRY(write_out(j, j->buffer, j->fill, err));
    j->fill = 0;
    return TG_OK;
}

static tg_status add_bytes(tg_journal *j, tg_bytes b, tg_error *err)
{
    if (b.len == 0)
        return TG_OK;
    if (b.len > j->cap - j->fill)
        TG_TRY(tg_journal_flush(j, err));
    if (b.len > j->cap)
        return write_out(j, b.data, b.len, err);
    memcpy(j->buffer + j->fill, b.data, b.len);
    j->fill += b.len;
    return TG_OK;
}

tg_status tg_journal_add(tg_journal *j, uint16_t type, tg_bytes a, tg_bytes b, tg_bytes c,
                         tg_error *err)
{
    uint8_t frame[FRAME_BYTES] = {0};
    size_t len = a.len + b.len + c.len;

    if (j->failed.code != TG_OK)
        return again(j, err);
    if (a.len > TG_JOURNAL_MAX_RECORD || b.len > TG_JOURNAL_MAX_RECORD ||
        c.len > TG_JOURNAL_MAX_RECORD || len > TG_JOURNAL_MAX_RECORD)
        return tg_fail(err, TG_INVALID, "journal record of %zu bytes, at most %u", len,
                       (unsigned)TG_JOURNAL_MAX_RECORD);
    put32(frame, (uint32_t)len);
    frame[4] = (uint8_t)type;
    frame[5] = (uint8_t)(type >> 8);
    uint32_t sum = frame_sum(frame, j->written + j->fill);
    sum = tg_crc32c(tg_crc32c(tg_crc32c(sum, a.data, a.len), b.data, b.len), c.data, c.len);
    put32(frame + 8, sum);
    /* Small records stay whole in one write; a large one is allowed to tear: its sum tells. */
    if (FRAME_BYTES + len > j->cap - j->fill)
        TG_TRY(tg_journal_flush(j, err));
    TG_TRY(add_bytes(j, (tg_bytes){frame, sizeof frame}, err));
    TG_TRY(add_bytes(j, a, err));
    TG_TRY(add_bytes(j, b, err));
    return add_bytes(j, c, err);
}

tg_status tg_journal_sync(tg_journal *j, tg_error *err)
{
    TG_TRY(tg_journal_flush(j, err));
    if (tg_sys_fdatasync(j->fd) == 0)
        return TG_OK;
    tg_error e = {0};
    latch(j, fail_at("sync", j->path, &e), &e);
    return again(j, err);
}

tg_status tg_journal_datasync(const tg_journal *j, tg_error *err)
{
    if (tg_sys_fdatasync(j->fd) == 0)
        return TG_OK;
    tg_status st = tg_fail_errno(err, "sync '%s'", j->path);
    tg_error_at(err, j->path, TG_NO_OFFSET);
    return st;
}

uint64_t tg_journal_bytes(const tg_journal *j)
{
    return j->written + j->fill;
}

tg_status tg_journal_close(tg_journal *j, tg_error *err)
{
    TG_TRY(tg_journal_flush(j, err));
    return tg_fd_close(&j->fd, j->path, err);
}

void tg_journal_free(tg_journal *j)
{
    if (j == NULL)
        return;
    tg_fd_auto(&j->fd);
    tg_free(j->path);
    tg_free(j->buffer);
    tg_free(j);
}

/* --- Replay ---------------------------------------------------------------- */

/* Reads forward through a window, so that small records cost no system call each. */
typedef struct reader {
    int fd;
    const char *path;
    uint64_t size, window_at; /* of the file; offset of the window */
    tg_buf window;
} reader;

enum { WINDOW_BYTES = 1 << 18 };

/* n bytes at offset, borrowed until the next call; *data NULL if the file ends before. */
static tg_status peek(reader *r, uint64_t offset, size_t n, const uint8_t **data, tg_error *err)
{
    *data = NULL;
    if (offset > r->size || n > r->size - offset)
        return TG_OK;
    if (offset < r->window_at || offset - r->window_at > r->window.len ||
        n > r->window.len - (size_t)(offset - r->window_at)) {
        size_t want = n > WINDOW_BYTES ? n : WINDOW_BYTES;
        if (want > r->size - offset)
            want = (size_t)(r->size - offset);
        tg_buf_free(&r->window);
        TG_TRY(tg_buf_resize(&r->window, want, err));
        TG_TRY(tg_fd_read_at(r->fd, r->window.data, want, offset, r->path, err));
        r->window_at = offset;
    }
    *data = r->window.data + (offset - r->window_at);
    return TG_OK;
}

static tg_status check_header(const reader *r, const uint8_t *h, uint32_t kind, uint32_t major,
                              tg_error *err)
{
    if (h == NULL || memcmp(h, magic, sizeof magic) != 0)
        return tg_fail(err, TG_CORRUPT, "'%s' is no journal of tidegate's: no magic", r->path);
    if (get32(h + 20) != tg_crc32c(0, h, 20))
        return tg_fail(err, TG_CORRUPT, "'%s': header checksum: got %08x, want %08x", r->path,
                       (unsigned)get32(h + 20), (unsigned)tg_crc32c(0, h, 20));
    if (get32(h + 16) != kind)
        return tg_fail(err, TG_UNSUPPORTED, "'%s' is a journal of kind %u, want %u", r->path,
                       (unsigned)get32(h + 16), (unsigned)kind);
    if (get32(h + 8) > major)
        return tg_fail(err, TG_UNSUPPORTED,
                       "'%s' has journal version %u, this program reads up to %u", r->path,
                       (unsigned)get32(h + 8), (unsigned)major);
    return TG_OK;
}

/* The record at offset: its frame and payload, borrowed; *payload NULL at the first that is not
 * whole. */
static tg_status next_record(reader *r, uint64_t offset, uint16_t *type,
                             const uint8_t **payload, uint32_t *len, tg_error *err)
{
    const uint8_t *frame = NULL;

    *payload = NULL;
    TG_TRY(peek(r, offset, FRAME_BYTES, &frame, err));
    if (frame == NULL || get32(frame) > TG_JOURNAL_MAX_RECORD)
        return TG_OK;
    *len = get32(frame);
    TG_TRY(peek(r, offset, FRAME_BYTES + *len, &frame, err));
    if (frame == NULL ||
        tg_crc32c(frame_sum(frame, offset), frame + FRAME_BYTES, *len) != get32(frame + 8))
        return TG_OK;
    *type = (uint16_t)(frame[4] | frame[5] << 8);
    *payload = frame + FRAME_BYTES;
    return TG_OK;
}

tg_status tg_journal_longest(int dir, const char *path, uint64_t *bytes, tg_error *err)
{
    TG_AUTO(tg_fd) fd = tg_sys_open(dir, path, O_RDONLY | O_NONBLOCK, 0);
    struct stat st;
    const uint8_t *frame = NULL;
    tg_status result;

    *bytes = 0;
    if (fd < 0 || tg_sys_stat_fd(fd, &st) != 0)
        return fail_at("open", path, err);
    reader r = {.fd = fd, .path = path, .size = (uint64_t)st.st_size};
    for (uint64_t at = HEADER_BYTES;; at += FRAME_BYTES + (uint64_t)get32(frame)) {
        result = peek(&r, at, FRAME_BYTES, &frame, err);
        if (result != TG_OK || frame == NULL || get32(frame) > TG_JOURNAL_MAX_RECORD ||
            get32(frame) > r.size - at - FRAME_BYTES)
            break;
        *bytes = get32(frame) > *bytes ? get32(frame) : *bytes;
    }
    tg_buf_free(&r.window);
    return result;
}

tg_status tg_journal_replay(int dir, const char *path, uint32_t kind, uint32_t major,
                            tg_journal_header *header, tg_journal_fn fn, void *user,
                            uint64_t *end, tg_error *err)
{
    TG_AUTO(tg_fd) fd = tg_sys_open(dir, path, O_RDONLY | O_NONBLOCK, 0);
    TG_AUTO(tg_buf) window = {0};
    struct stat st;
    uint64_t offset = HEADER_BYTES;
    const uint8_t *h = NULL;

    if (fd < 0 || tg_sys_stat_fd(fd, &st) != 0) {
        return fail_at("open", path, err);
    }
    reader r = {.fd = fd, .path = path, .size = (uint64_t)st.st_size};
    tg_status result = peek(&r, 0, HEADER_BYTES, &h, err);
    if (result == TG_OK)
        result = check_header(&r, h, kind, major, err);
    if (result == TG_OK && header != NULL)
        *header = (tg_journal_header){get32(h + 16), get32(h + 8), get32(h + 12)};
    while (result == TG_OK) {
        const uint8_t *payload = NULL;
        uint16_t type = 0;
        uint32_t len = 0;
        result = next_record(&r, offset, &type, &payload, &len, err);
        if (result != TG_OK || payload == NULL)
            break;
        result = fn(user, type, (tg_bytes){payload, len}, offset, err);
        offset += FRAME_BYTES + (uint64_t)len;
    }
    tg_buf_move(&window, &r.window); /* freed with the scope */
    if (result != TG_OK)
        tg_error_at(err, path, offset);
    else if (end != NULL)
        *end = offset;
    return result;
}
