/* fuzz/journal_file.h - bytes as a journal file whose sums are right: docs/formats/journal.md,
 * once more. */
#ifndef TG_FUZZ_JOURNAL_FILE_H
#define TG_FUZZ_JOURNAL_FILE_H

#include "base/crc32c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOURNAL_HEADER = 24, JOURNAL_FRAME = 12 };

static inline uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

/* Returns the end of the last whole record. */
static inline size_t journal_make_right(uint8_t *file, size_t size)
{
    static const uint8_t start[20] = {'T', 'G', 'J', 'O', 'U', 'R', 'N', 'L', 1, 0,
                                      0,   0,   0,   0,   0,   0,   1,   0,   0, 0};
    if (size < JOURNAL_HEADER)
        return 0;
    memcpy(file, start, sizeof start);
    put32(file + 20, tg_crc32c(0, file, 20));
    size_t at = JOURNAL_HEADER;
    while (size - at >= JOURNAL_FRAME && get32(file + at) <= size - at - JOURNAL_FRAME) {
        uint8_t place[8] = {0};
        size_t len = get32(file + at);
        put32(place, (uint32_t)at);
        uint32_t sum = tg_crc32c(tg_crc32c(0, place, sizeof place), file + at, 8);
        put32(file + at + 8, tg_crc32c(sum, file + at + JOURNAL_FRAME, len));
        at += JOURNAL_FRAME + len;
    }
    return at;
}

/* The path of a file without a name, with these bytes; one for all calls. */
static inline const char *journal_in_a_file(const uint8_t *file, size_t size)
{
    static char path[64] = "/tmp/tg-fuzz-journal-XXXXXX";
    static int fd = -1;

    if (fd < 0) {
        if ((fd = mkstemp(path)) < 0 || unlink(path) != 0)
            abort();
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, file, size, 0) != (ssize_t)size)
        abort();
    return path;
}

#endif
