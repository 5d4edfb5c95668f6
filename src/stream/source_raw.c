/* Raw frames, one behind the other, from standard input, a FIFO or a file. What waits is a
 * poll() that looks at the cancel token, never a read. */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include "base/clock.h"
#include "base/sys.h"
#include "stream/source.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    PIPE_BYTES = 1 << 20, /* what a pipe holds: fewer turns between us and the writer */
    STAGE_BYTES = 256 << 10,
    STAGED_FRAME = STAGE_BYTES / 2, /* smaller frames are read many at a time */
};

typedef struct raw_source {
    tg_source base;
    int fd;
    bool close_fd;
    size_t frame_bytes;
    uint64_t offset; /* bytes handed out, for messages */
    tg_buf frame;    /* for callers without room; empty until then */
    tg_buf stage;    /* small frames only */
    size_t stage_at, stage_end;
} raw_source;

/* Until there is something to read, or the other end is closed. */
static tg_status wait_readable(const raw_source *s, const tg_cancel *cancel, tg_error *err)
{
    for (;;) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        TG_TRY(tg_cancel_check(cancel, err));
        int n = poll(&p, 1, (int)(TG_SOURCE_LOOK_NS / 1000000));
        if (n > 0)
            return TG_OK; /* an error on it is reported by the read */
        if (n < 0 && errno != EINTR)
            return tg_fail_errno(err, "source '%s'", s->base.info.name);
    }
}

/* Some bytes, at most n; *got 0: the end. */
static tg_status read_some(raw_source *s, uint8_t *dst, size_t n, size_t *got,
                           const tg_cancel *cancel, tg_error *err)
{
    for (;;) {
        TG_TRY(wait_readable(s, cancel, err));
        ssize_t r = tg_sys_read(s->fd, dst, n);
        if (r >= 0) {
            *got = (size_t)r;
            return TG_OK;
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
            tg_status st = tg_fail_errno(err, "source '%s'", s->base.info.name);
            tg_error_at(err, s->base.info.name, s->offset);
            return st;
        }
    }
}

/* What is left of the stage first. */
static size_t take_staged(raw_source *s, uint8_t *dst, size_t n)
{
    size_t have = s->stage_end - s->stage_at;
    size_t part = have < n ? have : n;
    if (part > 0)
        memcpy(dst, s->stage.data + s->stage_at, part);
    s->stage_at += part;
    return part;
}

/* n bytes, fewer only at the end of the input. */
static tg_status read_bytes(raw_source *s, uint8_t *dst, size_t n, size_t *got,
                            const tg_cancel *cancel, tg_error *err)
{
    size_t have = take_staged(s, dst, n);
    while (have < n) {
        size_t part = 0;
        if (s->stage.len > 0) {
            TG_TRY(read_some(s, s->stage.data, s->stage.len, &s->stage_end, cancel, err));
            s->stage_at = 0;
            part = take_staged(s, dst + have, n - have);
        } else {
            TG_TRY(read_some(s, dst + have, n - have, &part, cancel, err));
        }
        if (part == 0)
            break;
        have += part;
    }
    *got = have;
    return TG_OK;
}

static tg_status read_rows(raw_source *s, uint8_t *dst, size_t pitch, size_t *got,
                           const tg_cancel *cancel, tg_error *err)
{
    size_t row = (size_t)s->base.info.width * s->base.info.dtype.size;
    *got = 0;
    for (uint64_t y = 0; y < s->base.info.height; y++) {
        size_t part = 0;
        TG_TRY(read_bytes(s, dst + y * pitch, row, &part, cancel, err));
        *got += part;
        if (part < row)
            break;
    }
    return TG_OK;
}

static tg_status next(tg_source *base, void *room, size_t pitch, tg_source_frame *frame,
                      const tg_cancel *cancel, tg_error *err)
{
    raw_source *s = (raw_source *)base;
    size_t row = (size_t)base->info.width * base->info.dtype.size, got = 0;
    if (room == NULL && s->frame.data == NULL)
        TG_TRY(tg_buf_resize(&s->frame, s->frame_bytes, err));
    uint8_t *dst = room == NULL ? s->frame.data : room;
    bool dense = room == NULL || pitch == row;
    tg_status st = dense ? read_bytes(s, dst, s->frame_bytes, &got, cancel, err)
                         : read_rows(s, dst, pitch, &got, cancel, err);
    s->offset += got;
    if (st != TG_OK) {
        base->ended = true; /* the rest of a frame cannot be told from the next one */
        return st;
    }
    base->ended = got < s->frame_bytes;
    if (got == 0)
        return tg_fail(err, TG_CLOSED, "source '%s' has ended", base->info.name);
    frame->pixels = base->ended ? NULL : dst;
    frame->bytes = got;
    frame->layout.row_pitch = dense ? 0 : (int64_t)pitch;
    frame->meta.partial = base->ended;
    frame->meta.time_host_ns = tg_clock_utc_ns();
    return TG_OK;
}

static void close_raw(tg_source *base)
{
    raw_source *s = (raw_source *)base;
    if (s->close_fd && s->fd >= 0)
        (void)tg_sys_close(s->fd); /* only read from */
    tg_buf_free(&s->frame);
    tg_buf_free(&s->stage);
    tg_free(s);
}

static const tg_source_ops raw_ops = {.next = next, .close = close_raw};

static tg_status open_input(raw_source *s, const char *path, tg_error *err)
{
    struct stat st;
    if (strcmp(path, "-") == 0) {
        s->fd = STDIN_FILENO;
    } else {
        /* Not blocking: opening a FIFO would wait for its writer, and no signal would help. */
        s->fd = tg_sys_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
        s->close_fd = true;
    }
    if (s->fd < 0 || tg_sys_stat_fd(s->fd, &st) != 0)
        return tg_fail_errno(err, "source '%s'", path);
    if (S_ISDIR(st.st_mode))
        return tg_fail(err, TG_INVALID, "source '%s' is a directory, want a file of raw frames",
                       path);
#ifdef F_SETPIPE_SZ
    if (S_ISFIFO(st.st_mode))
        (void)fcntl(s->fd, F_SETPIPE_SZ, PIPE_BYTES); /* a wish: the system has a limit */
#endif
    return TG_OK;
}

static tg_status init(raw_source *s, const tg_source_options *o, const char *path,
                      tg_error *err)
{
    TG_TRY(tg_source_frame_bytes(o->height, o->width, o->dtype, &s->frame_bytes, err));
    TG_TRY(open_input(s, path, err));
    if (s->frame_bytes < STAGED_FRAME)
        TG_TRY(tg_buf_resize(&s->stage, STAGE_BYTES, err));
    tg_source_info *info = &s->base.info;
    *info = (tg_source_info){.size = sizeof *info,
                             .kind = TG_SOURCE_RAW,
                             .dtype = o->dtype,
                             .bits = o->dtype.size * 8,
                             .height = o->height,
                             .width = o->width,
                             .fps = o->fps,
                             .ids = TG_ID_NONE,
                             .buffer_bytes = s->frame_bytes,
                             .fills = true,
                             .can_wait = true};
    size_t n = strlen(path), keep = n < sizeof info->name ? n : sizeof info->name - 1;
    memcpy(info->name, path + n - keep, keep); /* the end of a long path tells more */
    return TG_OK;
}

tg_status tg_source_open_raw(const tg_source_options *options, const tg_source_spec *spec,
                             tg_source **out, tg_error *err)
{
    raw_source *s = tg_calloc(1, sizeof *s);
    if (s == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for source '%s'", spec->text);
    s->base.ops = &raw_ops;
    s->fd = -1;
    tg_status st = init(s, options, spec->text, err);
    if (st != TG_OK) {
        close_raw(&s->base);
        return st;
    }
    *out = &s->base;
    return TG_OK;
}
