/* store/file_append.c - adding to the end of a file in whole units of direct
 * I/O. Knows nothing of what it writes. */
#include "base/sys.h"
#include "store/file_io.h"

#include <string.h>

/* Write the first n bytes of the block, whole units, and keep the rest. */
static tg_status write_block(tg_appender *a, size_t n, size_t padded, const tg_cancel *cancel,
                             tg_error *err)
{
    if (padded == 0)
        return TG_OK;
    TG_TRY(tg_file_write(a->fd, a->block.data, padded, a->end, a->align, a->name, cancel, err));
    memmove(a->block.data, a->block.data + n, a->fill - n);
    a->end += n;
    a->fill -= n;
    a->there = 0;
    return TG_OK;
}

tg_status tg_appender_flush(tg_appender *a, const tg_cancel *cancel, tg_error *err)
{
    size_t padded = (a->fill + a->align - 1) / a->align * a->align;

    if (a->fill == 0 || a->fill == a->there)
        return TG_OK;
    memset(a->block.data + a->fill, 0, padded - a->fill);
    return write_block(a, a->fill / a->align * a->align, padded, cancel, err);
}

tg_status tg_appender_finish(tg_appender *a, const tg_cancel *cancel, tg_error *err)
{
    const size_t whole = a->fill / a->align * a->align;

    TG_TRY(write_block(a, whole, whole, cancel, err));
    if (a->fill == 0 || a->fill == a->there)
        return TG_OK;
    if (a->align > 1 && tg_sys_set_direct(a->fd, false) != 0)
        return tg_file_fail("end direct I/O of", a->name, err);
    a->align = 1;
    return write_block(a, a->fill, a->fill, cancel, err);
}

/* Whole units from the caller's own memory, where both sides are aligned. *n: bytes taken. */
static tg_status write_straight(tg_appender *a, const uint8_t *p, size_t len, size_t *n,
                                const tg_cancel *cancel, tg_error *err)
{
    *n = 0;
    if (len < a->align || len < a->gather || a->fill % a->align != 0 ||
        (uintptr_t)p % a->align != 0)
        return TG_OK;
    TG_TRY(write_block(a, a->fill, a->fill, cancel, err));
    size_t whole = len / a->align * a->align;
    TG_TRY(tg_file_write(a->fd, p, whole, a->end, a->align, a->name, cancel, err));
    a->end += whole;
    *n = whole;
    return TG_OK;
}

tg_status tg_appender_write(tg_appender *a, const void *data, size_t len,
                            const tg_cancel *cancel, tg_error *err)
{
    const uint8_t *p = data;

    if (len > INT64_MAX || tg_appender_at(a) > INT64_MAX - len - TG_FILE_BLOCK)
        return tg_fail(err, TG_INVALID, "'%s' would end beyond 2^63 bytes", a->name);
    while (len > 0) {
        size_t n;
        TG_TRY(write_straight(a, p, len, &n, cancel, err));
        if (n == 0) {
            if (a->block.data == NULL)
                TG_TRY(tg_arena_map(&a->block, TG_FILE_BLOCK, err));
            n = len < TG_FILE_BLOCK - a->fill ? len : TG_FILE_BLOCK - a->fill;
            memcpy(a->block.data + a->fill, p, n);
            a->fill += n;
            if (a->fill == TG_FILE_BLOCK)
                TG_TRY(write_block(a, a->fill, a->fill, cancel, err));
        }
        p += n;
        len -= n;
    }
    return TG_OK;
}

tg_status tg_appender_seek(tg_appender *a, uint64_t end, tg_error *err)
{
    size_t part = (size_t)(end % a->align);

    if (part > 0 && a->block.data == NULL)
        TG_TRY(tg_arena_map(&a->block, TG_FILE_BLOCK, err));
    if (part > 0) {
        /* Direct reads are whole units, too: this one may end with the file. */
        ssize_t got = tg_sys_pread(a->fd, a->block.data, a->align, (off_t)(end - part));
        if (got < 0)
            return tg_file_fail("read the end of", a->name, err);
        if ((size_t)got < part)
            return tg_fail(err, TG_CORRUPT, "'%s' has fewer bytes than %llu", a->name,
                           (unsigned long long)end);
    }
    a->fill = a->there = part;
    a->end = end - part;
    return TG_OK;
}
