/* store/zip_central.c - finding and reading the directory of a ZIP file, which
 * may be hostile: every number is checked against the size of the file. Knows
 * nothing of values. */
#include "base/text.h"
#include "store/zip.h"
#include "store/zip_format.h"

#include <string.h>

static tg_status bad(tg_error *err, uint64_t at, const char *what)
{
    tg_status st = tg_fail(err, TG_CORRUPT, "ZIP directory at byte %llu: %s",
                           (unsigned long long)at, what);
    tg_error_at(err, NULL, at);
    return st;
}

/* --- The end record ---------------------------------------------------------- */

static tg_status no_end(int fd, uint64_t size, tg_error *err)
{
    uint8_t sig[4] = {0};

    if (size >= sizeof sig)
        TG_TRY(tg_fd_read_at(fd, sig, sizeof sig, 0, "the ZIP file", err));
    if (size == 0 || zip_u32(sig) == ZIP_LOCAL_SIG)
        return tg_fail(err, TG_INCOMPLETE,
                       "a ZIP file without its directory: its writer did not close it "
                       "(tidegate recover makes it whole from the writer's journal)");
    return tg_fail(err, TG_CORRUPT, "not a ZIP file: no directory at its end");
}

/* The last end record whose comment ends with the file. Only the last 64 KiB can hold one. */
static const uint8_t *search_end(const uint8_t *tail, size_t len)
{
    for (size_t i = len < ZIP_END_BYTES ? 0 : len - ZIP_END_BYTES + 1; i-- > 0;) {
        if (zip_u32(tail + i) == ZIP_END_SIG &&
            i + ZIP_END_BYTES + zip_u16(tail + i + 20) == len)
            return tail + i;
    }
    return NULL;
}

/* An end record of zip64 stands before the locator, which stands before the end record. *has:
 * whether there is one. *before: what the directory's records end at. */
static tg_status read_end64(int fd, uint64_t end_at, uint8_t *record, bool *has,
                            uint64_t *before, tg_error *err)
{
    uint8_t locator[ZIP_LOCATOR_BYTES];

    *has = false;
    *before = end_at;
    if (end_at < ZIP_LOCATOR_BYTES + ZIP_END64_BYTES)
        return TG_OK;
    TG_TRY(tg_fd_read_at(fd, locator, sizeof locator, end_at - sizeof locator, "the ZIP file",
                         err));
    if (zip_u32(locator) != ZIP_LOCATOR_SIG)
        return TG_OK;
    if (zip_u32(locator + 4) != 0 || zip_u32(locator + 16) > 1)
        return tg_fail(err, TG_UNSUPPORTED, "a ZIP file in several parts");
    /* Where it says, or, if something was put before the archive, right before the locator. */
    uint64_t said = zip_u64(locator + 8);
    uint64_t near = end_at - ZIP_LOCATOR_BYTES - ZIP_END64_BYTES;
    for (int i = 0; i < 2; i++) {
        uint64_t at = i == 0 ? said : near;
        if (at > near)
            continue;
        TG_TRY(tg_fd_read_at(fd, record, ZIP_END64_BYTES, at, "the ZIP file", err));
        if (zip_u32(record) == ZIP_END64_SIG) {
            *before = at;
            *has = true;
            return TG_OK;
        }
    }
    return bad(err, said, "no zip64 end record");
}

/* A field of the end record: the zip64 one where there is one, and both must agree. */
static bool take(uint64_t small, uint64_t max, bool has64, uint64_t large, uint64_t *v)
{
    *v = has64 ? large : small;
    return !has64 || small == max || small == large;
}

tg_status tg_zip_find_end(int fd, uint64_t size, zip_end *end, tg_error *err)
{
    TG_AUTO(tg_buf) tail = {0};
    uint8_t r64[ZIP_END64_BYTES] = {0};
    uint64_t at, before, disk;
    bool has64;

    TG_TRY(tg_buf_resize(&tail, (size_t)zip_min(size, ZIP_COMMENT_MAX + ZIP_END_BYTES), err));
    TG_TRY(tg_fd_read_at(fd, tail.data, tail.len, size - tail.len, "the ZIP file", err));
    const uint8_t *r = search_end(tail.data, tail.len);
    if (r == NULL)
        return no_end(fd, size, err);
    uint64_t end_at = size - tail.len + (uint64_t)(r - tail.data);
    TG_TRY(read_end64(fd, end_at, r64, &has64, &before, err));
    if (!take(zip_u16(r + 4), ZIP_MAX16, has64, zip_u32(r64 + 16), &disk) || disk != 0 ||
        !take(zip_u16(r + 6), ZIP_MAX16, has64, zip_u32(r64 + 20), &disk) || disk != 0)
        return tg_fail(err, TG_UNSUPPORTED, "a ZIP file in several parts");
    if (!take(zip_u16(r + 10), ZIP_MAX16, has64, zip_u64(r64 + 32), &end->entries) ||
        !take(zip_u32(r + 12), ZIP_MAX32, has64, zip_u64(r64 + 40), &end->bytes) ||
        !take(zip_u32(r + 16), ZIP_MAX32, has64, zip_u64(r64 + 48), &at))
        return bad(err, end_at, "the end record and its zip64 form differ");
    if (end->bytes > before || at > before - end->bytes)
        return bad(err, end_at, "it would begin before the file");
    if (end->entries > end->bytes / ZIP_CENTRAL_BYTES)
        return bad(err, end_at, "more entries than it has room for");
    end->at = before - end->bytes;
    end->shift = end->at - at;
    end->comment = end_at + ZIP_END_BYTES;
    end->comment_len = zip_u16(r + 20);
    return TG_OK;
}

/* --- Names --------------------------------------------------------------------- */

/* The upper half of code page 437, which names are in that do not say otherwise. */
static const uint16_t cp437[128] = {
    0x00c7, 0x00fc, 0x00e9, 0x00e2, 0x00e4, 0x00e0, 0x00e5, 0x00e7, 0x00ea, 0x00eb, 0x00e8,
    0x00ef, 0x00ee, 0x00ec, 0x00c4, 0x00c5, 0x00c9, 0x00e6, 0x00c6, 0x00f4, 0x00f6, 0x00f2,
    0x00fb, 0x00f9, 0x00ff, 0x00d6, 0x00dc, 0x00a2, 0x00a3, 0x00a5, 0x20a7, 0x0192, 0x00e1,
    0x00ed, 0x00f3, 0x00fa, 0x00f1, 0x00d1, 0x00aa, 0x00ba, 0x00bf, 0x2310, 0x00ac, 0x00bd,
    0x00bc, 0x00a1, 0x00ab, 0x00bb, 0x2591, 0x2592, 0x2593, 0x2502, 0x2524, 0x2561, 0x2562,
    0x2556, 0x2555, 0x2563, 0x2551, 0x2557, 0x255d, 0x255c, 0x255b, 0x2510, 0x2514, 0x2534,
    0x252c, 0x251c, 0x2500, 0x253c, 0x255e, 0x255f, 0x255a, 0x2554, 0x2569, 0x2566, 0x2560,
    0x2550, 0x256c, 0x2567, 0x2568, 0x2564, 0x2565, 0x2559, 0x2558, 0x2552, 0x2553, 0x256b,
    0x256a, 0x2518, 0x250c, 0x2588, 0x2584, 0x258c, 0x2590, 0x2580, 0x03b1, 0x00df, 0x0393,
    0x03c0, 0x03a3, 0x03c3, 0x00b5, 0x03c4, 0x03a6, 0x0398, 0x03a9, 0x03b4, 0x221e, 0x03c6,
    0x03b5, 0x2229, 0x2261, 0x00b1, 0x2265, 0x2264, 0x2320, 0x2321, 0x00f7, 0x2248, 0x00b0,
    0x2219, 0x00b7, 0x221a, 0x207f, 0x00b2, 0x25a0, 0x00a0};

/* At most 3 bytes for each of n. */
static size_t recode(const char *raw, size_t n, char *dst)
{
    char *p = dst;
    for (size_t i = 0; i < n; i++) {
        uint8_t b = (uint8_t)raw[i];
        unsigned c = b < 128 ? b : cp437[b - 128];
        if (c < 0x80) {
            *p++ = (char)c;
        } else if (c < 0x800) {
            *p++ = (char)(0xc0 | c >> 6);
            *p++ = (char)(0x80 | (c & 0x3f));
        } else {
            *p++ = (char)(0xe0 | c >> 12);
            *p++ = (char)(0x80 | (c >> 6 & 0x3f));
            *p++ = (char)(0x80 | (c & 0x3f));
        }
    }
    *p = '\0';
    return (size_t)(p - dst);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A key, or one with a '/' at its end: nothing that leads out when somebody unpacks it. */
static bool name_ok(char *name, size_t len)
{
    bool is_dir = len > 1 && name[len - 1] == '/';

    if (len == 0 || strlen(name) != len || (len > 1 && is_letter(name[0]) && name[1] == ':'))
        return false;
    if (is_dir)
        name[len - 1] = '\0';
    bool ok = tg_store_key_valid(name);
    if (is_dir)
        name[len - 1] = '/';
    return ok;
}

/* --- Records --------------------------------------------------------------------- */

#define WINDOW ((size_t)256 << 10) /* the longest record has 46 + 3 * 65535 bytes */

typedef struct window {
    int fd;
    uint64_t at, end; /* of the file: what was not read yet */
    tg_buf room;
    size_t pos, have; /* unread bytes of room */
} window;

/* At least n unread bytes. */
static tg_status need(window *w, size_t n, tg_error *err)
{
    if (w->have >= n)
        return TG_OK;
    memmove(w->room.data, w->room.data + w->pos, w->have);
    w->pos = 0;
    size_t more = (size_t)zip_min(w->end - w->at, WINDOW - w->have);
    TG_TRY(tg_fd_read_at(w->fd, w->room.data + w->have, more, w->at, "the ZIP file", err));
    w->have += more;
    w->at += more;
    return w->have >= n ? TG_OK : bad(err, w->at, "it ends within a record");
}

/* The zip64 extra field holds, in this order, those of the three that are at their maximum. */
static bool take_zip64(const uint8_t *extra, size_t len, zip_entry *e)
{
    uint64_t *want[3] = {&e->size, &e->stored, &e->header};
    bool missing = false;

    for (int i = 0; i < 3; i++)
        missing = missing || *want[i] == ZIP_MAX32;
    while (missing && len >= 4) {
        size_t n = zip_u16(extra + 2);
        if (n > len - 4)
            return false;
        if (zip_u16(extra) == ZIP_EXTRA_ZIP64) {
            const uint8_t *p = extra + 4;
            for (int i = 0; i < 3; i++) {
                if (*want[i] != ZIP_MAX32)
                    continue;
                if (n < 8)
                    return false;
                *want[i] = zip_u64(p);
                p += 8;
                n -= 8;
            }
            return true;
        }
        extra += 4 + n;
        len -= 4 + n;
    }
    return true; /* exactly 4 GiB - 1 without the field is legal */
}

static zip_entry entry_of(const uint8_t *r)
{
    uint16_t method = zip_u16(r + 10);
    uint32_t mode = zip_u32(r + 38) >> 16;
    return (zip_entry){
        .flags = zip_u16(r + 8),
        .method = (uint8_t)zip_min(method, 255),
        .crc = zip_u32(r + 16),
        .stored = zip_u32(r + 20),
        .size = zip_u32(r + 24),
        .header = zip_u32(r + 42),
        .link = r[5] == ZIP_MADE_BY_UNIX && (mode & 0170000) == 0120000,
    };
}

static tg_status check_sizes(zip_entry *e, const zip_end *end, uint64_t at, tg_error *err)
{
    bool open = (e->flags & ZIP_FLAG_ENCRYPTED) == 0;

    if (e->header > UINT64_MAX - end->shift)
        return bad(err, at, "an entry lies beyond the directory");
    e->header += end->shift;
    if (e->header > end->at || end->at - e->header < ZIP_LOCAL_BYTES ||
        e->stored > end->at - e->header - ZIP_LOCAL_BYTES)
        return bad(err, at, "an entry lies beyond the directory");
    if (open && e->method == ZIP_STORED && e->stored != e->size)
        return bad(err, at, "a stored entry has two sizes");
    if (open && e->method == ZIP_DEFLATED && e->size / 1032 > e->stored)
        return bad(err, at, "an entry claims more than deflate can make of its bytes");
    return TG_OK;
}

/* name has room for 3 bytes for each of the raw name's, and a NUL. */
static tg_status parse(window *w, const zip_end *end, char *name, zip_central *c, tg_error *err)
{
    uint64_t at = w->at - w->have;

    TG_TRY(need(w, ZIP_CENTRAL_BYTES, err));
    const uint8_t *r = w->room.data + w->pos;
    if (zip_u32(r) != ZIP_CENTRAL_SIG)
        return bad(err, at, "no entry there");
    size_t n = zip_u16(r + 28), extra = zip_u16(r + 30);
    c->len = ZIP_CENTRAL_BYTES + n + extra + zip_u16(r + 32);
    TG_TRY(need(w, c->len, err));
    c->bytes = r = w->room.data + w->pos;
    c->entry = entry_of(r);
    const char *raw = (const char *)r + ZIP_CENTRAL_BYTES;
    bool utf8 = tg_utf8_valid(raw, n);
    if (!utf8 && (c->entry.flags & ZIP_FLAG_UTF8) != 0)
        return bad(err, at, "a name is marked as UTF-8 and is not");
    if (utf8) { /* many writers forget the mark */
        memcpy(name, raw, n);
        name[n] = '\0';
        c->name_len = n;
    } else {
        c->name_len = recode(raw, n, name);
        c->entry.recoded = true;
    }
    c->name = name;
    if (!name_ok(name, c->name_len)) {
        tg_status st = tg_fail(err, TG_CORRUPT,
                               "ZIP directory at byte %llu: '%.200s' is no name for a value",
                               (unsigned long long)at, name);
        tg_error_at(err, name, at);
        return st;
    }
    if (zip_u16(r + 34) != 0 && zip_u16(r + 34) != ZIP_MAX16)
        return tg_fail(err, TG_UNSUPPORTED, "a ZIP file in several parts");
    if (!take_zip64(r + ZIP_CENTRAL_BYTES + n, extra, &c->entry))
        return bad(err, at, "an extra field is damaged");
    return check_sizes(&c->entry, end, at, err);
}

static tg_status each(window *w, const zip_end *end, char *name, zip_central_fn fn, void *user,
                      tg_error *err)
{
    for (uint64_t i = 0; i < end->entries; i++) {
        zip_central c = {0};
        TG_TRY(parse(w, end, name, &c, err));
        TG_TRY(fn(user, &c, err));
        w->pos += c.len;
        w->have -= c.len;
    }
    return w->have == 0 && w->at == w->end
               ? TG_OK
               : bad(err, w->at - w->have, "more entries than the end record says");
}

tg_status tg_zip_each_central(int fd, const zip_end *end, zip_central_fn fn, void *user,
                              tg_error *err)
{
    TG_AUTO(tg_str) name = tg_alloc(3 * 65536 + 1);
    TG_AUTO(tg_buf) room = {0};

    if (name == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to read a ZIP directory");
    TG_TRY(tg_buf_resize(&room, WINDOW, err));
    window w = {fd, end->at, end->at + end->bytes, room, 0, 0};
    return each(&w, end, name, fn, user, err);
}
