/* fuzz_journal.c - any bytes as a journal file: a replay that ends, or a refusal. An odd first
 * byte has the sums made right first, so that the frames themselves are tried; then what is
 * replayed is what lies there, and going on after it adds one record. */
#include "base/journal.h"
#include "journal_file.h"

#include <fcntl.h>

enum { HEADER = JOURNAL_HEADER, FRAME = JOURNAL_FRAME, MOST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    static uint8_t file[MOST];
    uint64_t end = 0;

    bool right = size > 0 && (data[0] & 1) != 0;
    size = size > MOST ? MOST : size;
    if (size > 0)
        memcpy(file, data, size);
    size_t want = right ? journal_make_right(file, size) : 0;
    const char *path = journal_in_a_file(file, size);
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
