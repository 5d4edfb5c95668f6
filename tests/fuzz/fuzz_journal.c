/* fuzz_journal.c - any bytes as a journal file: a replay that ends, or a refusal. */
#include "base/journal.h"
#include "base/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tg_status check_record(void *user, uint16_t type, tg_bytes payload, uint64_t offset,
                              tg_error *err)
{
    size_t size = *(size_t *)user;
    (void)type;
    (void)err;
    if (offset + 12 + payload.len > size)
        abort();
    return TG_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64] = "/tmp/tg-fuzz-journal-XXXXXX";
    static int fd = -1;
    tg_error err = {0};
    uint64_t end = 0;

    if (fd < 0) {
        if ((fd = mkstemp(path)) < 0 || unlink(path) != 0)
            abort();
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    if (tg_journal_replay(AT_FDCWD, path, 1, 1, NULL, check_record, &size, &end, &err) ==
            TG_OK &&
        end > size)
        abort();
    return 0;
}
