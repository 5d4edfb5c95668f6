/* fuzz_journal.c - any bytes as a journal file: a replay that ends, or a refusal. An odd first
 * byte has the sums made right first, so that the frames themselves are tried; then what is
 * replayed is what lies there, and going on after it adds one record. */
#include "base/crc32c.h"
#include "base/journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER = 24, FRAME = 12, MOST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

/* docs/formats/journal.md, once more. Returns the end of the last whole record. */
static size_t make_right(uint8_t *file, size_t size)
{
    static const uint8_t start[20] = {'T', 'G', 'J', 'O', 'U', 'R', 'N', 'L', 1, 0,
                                      0,   0,   0,   0,   0,   0,   1,   0,   0, 0};
    if (size < HEADER)
        return 0;
    memcpy(file, start, sizeof start);
    put32(file + 20, tg_crc32c(0, file, 20));
    size_t at = HEADER;
    while (size - at >= FRAME && get32(file + at) <= size - at - FRAME) {
        uint8_t place[8] = {0};
        size_t len = get32(file + at);
        put32(place, (uint32_t)at);
        uint32_t sum = tg_crc32c(tg_crc32c(0, place, sizeof place), file + at, 8);
        put32(file + at + 8, tg_crc32c(sum, file + at + FRAME, len));
        at += FRAME + len;
    }
    return at;
}

typedef struct seen {
    const uint8_t *file;
    uint64_t end; /* of the last record */
} seen;

static tg_status check_record(void *user, uint16_t type, tg_bytes payload, uint64_t offset,
                              tg_error *err)
{
    seen *s = user;
    (void)err;
    if (offset != s->end || type != (s->file[offset + 4] | s->file[offset + 5] << 8) ||
        memcmp(payload.data, s->file + offset + FRAME, payload.len) != 0)
        abort();
    s->end = offset + FRAME + payload.len;
    return TG_OK;
}

static tg_status nothing(void *user, uint16_t type, tg_bytes payload, uint64_t offset,
                         tg_error *err)
{
    (void)user, (void)type, (void)payload, (void)offset, (void)err;
    return TG_OK;
}

static void go_on(const char *path, uint64_t end)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    uint64_t now = 0;
    tg_bytes b = {(const uint8_t *)"tide", 4};
    if (tg_journal_open(&j, AT_FDCWD, path, 1, 1, 0, NULL) != TG_OK ||
        tg_journal_add(j, 7, b, b, b, NULL) != TG_OK || tg_journal_close(j, NULL) != TG_OK ||
        tg_journal_replay(AT_FDCWD, path, 1, 1, NULL, nothing, NULL, &now, NULL) != TG_OK ||
        now != end + FRAME + 12)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64] = "/tmp/tg-fuzz-journal-XXXXXX";
    static int fd = -1;
    static uint8_t file[MOST];
    uint64_t end = 0;

    if (fd < 0) {
        if ((fd = mkstemp(path)) < 0 || unlink(path) != 0)
            abort();
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    bool right = size > 0 && (data[0] & 1) != 0;
    size = size > MOST ? MOST : size;
    if (size > 0)
        memcpy(file, data, size);
    size_t want = right ? make_right(file, size) : 0;
    if (ftruncate(fd, 0) != 0 || pwrite(fd, file, size, 0) != (ssize_t)size)
        abort();
    seen s = {file, HEADER};
    tg_status st = tg_journal_replay(AT_FDCWD, path, 1, 1, NULL, check_record, &s, &end, NULL);
    if (st == TG_OK && (end != s.end || end > size))
        abort();
    if (want > 0 && (st != TG_OK || end != want))
        abort();
    if (st == TG_OK)
        go_on(path, end);
    return 0;
}
