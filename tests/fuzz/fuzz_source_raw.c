/* fuzz_source_raw.c - raw frames of any size from an input of any length, dense or into rows
 * with a pitch: the frames are the input, byte for byte, and what is left over at its end is
 * said to be a part of a frame. Six bytes say what the frames are. */
#include "tidegate/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 16, ROW_MOST = 64 * 8 };

static const char *in_a_file(const uint8_t *data, size_t size)
{
    static char path[64] = "/tmp/tg-fuzz-raw-XXXXXX";
    static int fd = -1;

    if (fd < 0) {
        if ((fd = mkstemp(path)) < 0 || unlink(path) != 0)
            abort();
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    return path;
}

/* A frame of `height` rows is the next bytes of the input. */
static void check_rows(const tg_source_frame *f, const uint8_t *want, size_t height, size_t row,
                       size_t pitch)
{
    for (size_t y = 0; y < height; y++)
        if (memcmp((const uint8_t *)f->pixels + y * pitch, want + y * row, row) != 0)
            abort();
}

static void read_all(tg_source *s, const uint8_t *want, size_t size, size_t height, size_t row,
                     size_t pitch)
{
    static uint8_t room[64 * (ROW_MOST + 64)];
    size_t at = 0, frame = height * row;
    tg_error err = {0};
    tg_status st;

    for (;;) {
        tg_source_frame f = {.size = sizeof f};
        st = tg_source_next(s, pitch == 0 ? NULL : room, pitch, &f, NULL, &err);
        if (st != TG_OK)
            break;
        if (f.bytes > size - at || (f.pixels != NULL && f.bytes != frame))
            abort();
        if (f.pixels != NULL)
            check_rows(&f, want + at, height, row, pitch == 0 ? row : pitch);
        else if (!f.meta.partial || f.bytes != (size - at) % frame)
            abort();
        at += (size_t)f.bytes;
    }
    if (st != TG_CLOSED || at != size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t sizes[] = {1, 2, 4, 8};
    tg_source *s = NULL;

    if (size < 6)
        return 0;
    tg_source_options o = {.size = sizeof o,
                           .height = data[0],
                           .width = data[1],
                           .dtype = {TG_DT_UINT, sizes[data[2] & 3]},
                           .fps = data[3] == 0 ? 0 : (double)data[3] - 8};
    size_t extra = data[4] & 63, row = (size_t)(o.width * o.dtype.size);
    bool with_room = (data[5] & 1) != 0;
    data += 6;
    size = size - 6 > MOST ? MOST : size - 6;
    o.spec = in_a_file(data, size);
    tg_error err = {0};
    tg_status st = tg_source_open(&o, &s, &err);
    if (st != TG_OK) {
        if (st != TG_INVALID || err.msg[0] == '\0')
            abort();
        return 0;
    }
    if (o.height == 0 || o.width == 0)
        abort();
    if (o.height > 64 || o.width > 64)
        with_room = false;
    read_all(s, data, size, (size_t)o.height, row, with_room ? row + extra : 0);
    tg_source_close(s);
    return 0;
}
