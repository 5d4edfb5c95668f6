/* ZIP files: what is written, what is refused, how a crash is healed. */
#include "contract/stores.h"
#include "store/zip_write.h"

#include <libdeflate.h>

static char folder[TEST_PATH], path[TEST_PATH + 8];

static void begin(void)
{
    test_folder(folder);
    (void)snprintf(path, sizeof path, "%s/x.zip", folder);
}

static void end(void)
{
    test_remove(AT_FDCWD, folder);
}

static tg_status open_as(tg_store **s, tg_store_mode mode, tg_error *err)
{
    tg_store_options o = {sizeof o, mode, false, false};
    return tg_store_open_zip(s, path, &o, err);
}

static uint64_t file_size(void)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static bool holds(tg_store *s, const char *key, const char *text)
{
    TG_AUTO(tg_buf) b = {0};
    return tg_store_get(s, key, tg_range_all(), 1 << 20, &b, NULL, NULL) == TG_OK &&
           b.len == strlen(text) && memcmp(b.data, text, b.len) == 0;
}

/* --- Bytes of a small archive, to be damaged ------------------------------------- */

static uint8_t bytes[1 << 18];
static size_t n_bytes;

static void save(void)
{
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL && fwrite(bytes, 1, n_bytes, f) == n_bytes && fclose(f) == 0);
}

static void load(void)
{
    FILE *f = fopen(path, "rb");
    n_bytes = f == NULL ? 0 : fread(bytes, 1, sizeof bytes, f);
    if (f != NULL)
        (void)fclose(f);
}

static void make_small(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    (void)unlink(path);
    REQUIRE_OK(open_as(&s, TG_STORE_CREATE, NULL));
    REQUIRE_OK(tg_store_put(s, "a/b", "first value", 11, NULL, NULL));
    REQUIRE_OK(tg_store_put(s, "cc", "second", 6, NULL, NULL));
    REQUIRE_OK(tg_store_close(s, NULL));
    load();
}

/* Offset of the n-th record with this signature. */
static size_t record(uint32_t sig, int n)
{
    for (size_t i = 0; i + 4 <= n_bytes; i++) {
        if (memcmp(bytes + i, (uint8_t[]){'P', 'K', (uint8_t)sig, (uint8_t)(sig >> 8)}, 4) ==
                0 &&
            n-- == 0)
            return i;
    }
    CHECK(false);
    return 0;
}

enum { LOCAL = 0x0403, CENTRAL = 0x0201, END = 0x0605 };

struct patch {
    const char *name;
    int kind, nth;
    size_t at; /* in the record */
    const char *with;
    size_t len;
    tg_status opens, gets; /* opening; getting "a/b" */
    const char *says;
};

#define BYTES(s) s, sizeof(s) - 1
static const struct patch patches[] = {
    {"untouched", END, 0, 20, BYTES("\0"), TG_OK, TG_OK, ""},
    {"no end", END, 0, 0, BYTES("XX"), TG_INCOMPLETE, TG_OK, "recover"},
    {"comment too long", END, 0, 20, BYTES("\1\0"), TG_INCOMPLETE, TG_OK, "recover"},
    {"several parts", END, 0, 4, BYTES("\1\0"), TG_UNSUPPORTED, TG_OK, "parts"},
    {"fewer entries said", END, 0, 10, BYTES("\1\0"), TG_CORRUPT, TG_OK, "more entries"},
    {"more entries said", END, 0, 10, BYTES("\3\0"), TG_CORRUPT, TG_OK, "entries"},
    {"a lot more said", END, 0, 10, BYTES("\xfe\xff"), TG_CORRUPT, TG_OK, "room"},
    {"directory before file", END, 0, 12, BYTES("\xff\xff\xff\0"), TG_CORRUPT, TG_OK, "before"},
    {"directory size shorter", END, 0, 12, BYTES("\x10"), TG_CORRUPT, TG_OK, ""},
    {"directory offset beyond", END, 0, 16, BYTES("\xff\xff"), TG_CORRUPT, TG_OK, "before"},
    {"zip64 without locator", END, 0, 16, BYTES("\xff\xff\xff\xff"), TG_CORRUPT, TG_OK, ""},
    {"no central signature", CENTRAL, 0, 0, BYTES("X"), TG_CORRUPT, TG_OK, "no entry"},
    {"second not there", CENTRAL, 1, 0, BYTES("X"), TG_CORRUPT, TG_OK, "no entry"},
    {"name too long", CENTRAL, 1, 28, BYTES("\xff\xff"), TG_CORRUPT, TG_OK, "within"},
    {"extra too long", CENTRAL, 1, 30, BYTES("\xff\xff"), TG_CORRUPT, TG_OK, "within"},
    {"comment into the next", CENTRAL, 0, 32, BYTES("\5"), TG_CORRUPT, TG_OK, ""},
    {"absolute name", CENTRAL, 0, 46, BYTES("/ab"), TG_CORRUPT, TG_OK, "no name"},
    {"name leads out", CENTRAL, 0, 46, BYTES("../"), TG_CORRUPT, TG_OK, "no name"},
    {"name of dots", CENTRAL, 1, 46, BYTES(".."), TG_CORRUPT, TG_OK, "no name"},
    {"backslash", CENTRAL, 0, 46, BYTES("a\\b"), TG_CORRUPT, TG_OK, "no name"},
    {"drive letter", CENTRAL, 0, 46, BYTES("C:b"), TG_CORRUPT, TG_OK, "no name"},
    {"NUL in the name", CENTRAL, 0, 46, BYTES("a\0b"), TG_CORRUPT, TG_OK, "no name"},
    {"empty part", CENTRAL, 0, 46, BYTES("a//"), TG_CORRUPT, TG_OK, "no name"},
    {"bad UTF-8, marked", CENTRAL, 0, 8, "\0\x08\0\0\0\0\0\0\0\0", 2, TG_OK, TG_OK, ""},
    {"header beyond", CENTRAL, 0, 42, BYTES("\xff\xff\xff\x7f"), TG_CORRUPT, TG_OK, "beyond"},
    {"header in the directory", CENTRAL, 0, 42, BYTES("\x60"), TG_CORRUPT, TG_OK, ""},
    {"both share bytes", CENTRAL, 1, 42, BYTES("\0"), TG_CORRUPT, TG_OK, "inside"},
    {"on another disk", CENTRAL, 0, 34, BYTES("\1"), TG_UNSUPPORTED, TG_OK, "parts"},
    {"two sizes", CENTRAL, 0, 24, BYTES("\x0c"), TG_CORRUPT, TG_OK, "two sizes"},
    {"huge and stored", CENTRAL, 0, 20, BYTES("\xfe\xff\xff\xff\xfe\xff\xff\xff"), TG_CORRUPT,
     TG_OK, "beyond"},
    {"deflate bomb", CENTRAL, 0, 10, "\x08\0\0\0\x21\0\0\0\0\0\x0b\0\0\0\xff\xff\xff\x7f", 18,
     TG_CORRUPT, TG_OK, "deflate"},
    {"encrypted", CENTRAL, 0, 8, BYTES("\1"), TG_OK, TG_UNSUPPORTED, "encrypted"},
    {"other method", CENTRAL, 0, 10, BYTES("\x5d"), TG_OK, TG_UNSUPPORTED, "method 93"},
    {"symbolic link", CENTRAL, 0, 40, BYTES("\xff\xa1"), TG_OK, TG_UNSUPPORTED, "symbolic"},
    {"other crc", CENTRAL, 0, 16, BYTES("\0\0"), TG_OK, TG_CORRUPT, "differ"},
    {"other name inside", CENTRAL, 0, 46, BYTES("a/c"), TG_OK, TG_NOT_FOUND, "a/b"},
    {"no local signature", LOCAL, 0, 0, BYTES("X"), TG_OK, TG_CORRUPT, "no local"},
    {"local name differs", LOCAL, 0, 30, BYTES("x"), TG_OK, TG_CORRUPT, "differ"},
    {"local size differs", LOCAL, 0, 18, BYTES("\1"), TG_OK, TG_CORRUPT, "differ"},
    {"local method differs", LOCAL, 0, 8, BYTES("\x08"), TG_OK, TG_CORRUPT, "differ"},
    {"local extra too long", LOCAL, 0, 28, BYTES("\x70"), TG_OK, TG_CORRUPT, ""},
    {"local extra far too long", LOCAL, 0, 28, BYTES("\xff\xff"), TG_OK, TG_CORRUPT, "beyond"},
    {"a byte of the value", LOCAL, 0, 35, BYTES("X"), TG_OK, TG_CORRUPT, "crc32"},
};

static void damaged(void)
{
    begin();
    for (size_t i = 0; i < sizeof patches / sizeof patches[0]; i++) {
        const struct patch *p = &patches[i];
        TG_AUTO_PTR(tg_store) s = NULL;
        tg_error err = {0};
        char dst[64];
        size_t n;
        test_row = p->name;
        make_small();
        memcpy(bytes + record((uint32_t)p->kind, p->nth) + p->at, p->with, p->len);
        save();
        tg_status st = open_as(&s, TG_STORE_READ, &err);
        CHECK_STATUS(st, p->opens);
        if (st == TG_OK) {
            st = tg_store_get_into(s, "a/b", tg_range_all(), dst, sizeof dst, &n, NULL, NULL,
                                   &err);
            CHECK_STATUS(st, p->gets);
            CHECK(holds(s, "cc", "second"));
        } else {
            CHECK(strcmp(err.key, path) == 0 || err.offset != TG_NO_OFFSET);
        }
        if (st != TG_OK && strstr(err.msg, p->says) == NULL)
            test_failed(__FILE__, __LINE__, err.msg);
    }
    end();
}

/* A file cut anywhere is whole, unfinished or damaged: never another value. */
static void cut_anywhere(void)
{
    begin();
    make_small();
    size_t whole = n_bytes;
    for (size_t n = 0; n < whole; n++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        n_bytes = n;
        save();
        CHECK(open_as(&s, TG_STORE_READ, NULL) ==
              (n > 0 && n < 4 ? TG_CORRUPT : TG_INCOMPLETE));
    }
    end();
}

static void not_a_zip(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_error err = {0};

    begin();
    memset(bytes, 'x', 70000 > sizeof bytes ? sizeof bytes : 70000);
    n_bytes = sizeof bytes;
    save();
    CHECK_STATUS(open_as(&s, TG_STORE_READ, &err), TG_CORRUPT);
    CHECK(strstr(err.msg, path) != NULL && strcmp(err.key, path) == 0);
    end();
}

/* The longest comment there can be, with what looks like an end record in it; and bytes before
 * the archive, as of a program that unpacks itself. */
static void comment_and_prefix(void)
{
    begin();
    for (int prefix = 0; prefix < 2; prefix++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_store) w = NULL;
        make_small();
        size_t end_at = record(END, 0), comment = 65535 - 700;
        memmove(bytes + 600 * prefix, bytes, n_bytes);
        memset(bytes, '#', prefix ? 600 : 0);
        end_at += 600 * (size_t)prefix;
        n_bytes += 600 * (size_t)prefix;
        bytes[end_at + 20] = (uint8_t)comment;
        bytes[end_at + 21] = (uint8_t)(comment >> 8);
        memset(bytes + n_bytes, 'c', comment);
        memcpy(bytes + n_bytes + 50, bytes + end_at, 22);
        n_bytes += comment;
        save();
        REQUIRE_OK(open_as(&s, TG_STORE_READ, NULL));
        CHECK(holds(s, "a/b", "first value") && holds(s, "cc", "second"));
        tg_status st = open_as(&w, TG_STORE_READ_WRITE, NULL);
        CHECK_STATUS(st, prefix ? TG_UNSUPPORTED : TG_OK);
        if (prefix)
            break;
        /* Appending keeps the comment. */
        REQUIRE_OK(tg_store_put(w, "new", "third", 5, NULL, NULL));
        REQUIRE_OK(tg_store_close(w, NULL));
        load();
        CHECK(bytes[n_bytes - 1] == 'c' && bytes[n_bytes - comment] == 'c');
        CHECK(memcmp(bytes + n_bytes - comment - 22, "PK\5\6", 4) == 0);
        TG_AUTO_PTR(tg_store) r = NULL;
        REQUIRE_OK(open_as(&r, TG_STORE_READ, NULL));
        CHECK(holds(r, "a/b", "first value") && holds(r, "new", "third"));
    }
    end();
}

/* --- Compressed entries, made here ------------------------------------------------- */

/* Turn the first entry into a deflated one of `size` bytes of "zarr", descriptor or not. */
static void make_deflated(size_t size, bool descriptor, uint8_t *value)
{
    static uint8_t packed[1 << 15];
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
    for (size_t i = 0; i < size; i++)
        value[i] = (uint8_t)("zarr"[i % 4] + (i / 5000));
    size_t n = libdeflate_deflate_compress(c, value, size, packed, sizeof packed);
    libdeflate_free_compressor(c);
    CHECK(n > 0);

    TG_AUTO_PTR(tg_store) s = NULL;
    (void)unlink(path);
    REQUIRE_OK(open_as(&s, TG_STORE_CREATE, NULL));
    REQUIRE_OK(tg_store_put(s, "a/b", packed, n, NULL, NULL));
    REQUIRE_OK(tg_store_put(s, "cc", "second", 6, NULL, NULL));
    REQUIRE_OK(tg_store_close(s, NULL));
    load();
    uint32_t crc = libdeflate_crc32(0, value, size);
    uint8_t *l = bytes + record(LOCAL, 0), *d = bytes + record(CENTRAL, 0);
    l[8] = d[10] = 8;
    for (int i = 0; i < 4; i++) {
        l[14 + i] = d[16 + i] = (uint8_t)(crc >> 8 * i);
        l[22 + i] = d[24 + i] = (uint8_t)(size >> 8 * i);
    }
    if (descriptor) {
        l[6] = d[8] = 8;
        memset(l + 14, 0, 12);
    }
    save();
}

static void deflated(void)
{
    static uint8_t value[20000], got[20400];
    size_t n;

    begin();
    for (int descriptor = 0; descriptor < 2; descriptor++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        make_deflated(sizeof value, descriptor, value);
        REQUIRE_OK(open_as(&s, TG_STORE_READ, NULL));
        REQUIRE_OK(
            tg_store_get_into(s, "a/b", tg_range_all(), got, sizeof got, &n, NULL, NULL, NULL));
        CHECK(n == sizeof value && memcmp(got, value, n) == 0);
        REQUIRE_OK(tg_store_get_into(s, "a/b", tg_range_at(4999, 3), got, sizeof got, &n, NULL,
                                     NULL, NULL));
        CHECK(n == 3 && memcmp(got, value + 4999, 3) == 0);
        REQUIRE_OK(tg_store_get_into(s, "a/b", tg_range_last(7), got, sizeof got, &n, NULL,
                                     NULL, NULL));
        CHECK(n == 7 && memcmp(got, value + sizeof value - 7, 7) == 0);
        CHECK_STATUS(
            tg_store_get_into(s, "a/b", tg_range_all(), got, 100, &n, NULL, NULL, NULL),
            TG_OVER_BUDGET);
        CHECK_U64(n, sizeof value);
    }
    static const int off[] = {1, 256, -512}; /* from the true size */
    for (size_t i = 0; i < 3; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        size_t size = sizeof value + (size_t)off[i];
        make_deflated(sizeof value, false, value);
        for (int j = 0; j < 2; j++) {
            bytes[record(CENTRAL, 0) + 24 + (size_t)j] = (uint8_t)(size >> 8 * j);
            bytes[record(LOCAL, 0) + 22 + (size_t)j] = (uint8_t)(size >> 8 * j);
        }
        save();
        REQUIRE_OK(open_as(&s, TG_STORE_READ, NULL));
        CHECK_STATUS(
            tg_store_get_into(s, "a/b", tg_range_all(), got, sizeof got, &n, NULL, NULL, NULL),
            TG_CORRUPT);
    }
    end();
}

/* --- Writing ------------------------------------------------------------------------- */

static void duplicates_and_order(void)
{
    begin();
    make_small(); /* "a/b" and "cc" */
    memcpy(bytes + record(CENTRAL, 1) + 46, "dd", 2);
    memcpy(bytes + record(LOCAL, 1) + 30, "dd", 2);
    save();
    for (int round = 0; round < 3; round++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        char text[32];
        REQUIRE_OK(open_as(&s, TG_STORE_READ_WRITE, NULL));
        (void)snprintf(text, sizeof text, "round %d", round);
        REQUIRE_OK(tg_store_put(s, "a/b", text, strlen(text), NULL, NULL));
        CHECK(holds(s, "a/b", text) && holds(s, "dd", "second"));
        REQUIRE_OK(tg_store_close(s, NULL));
    }
    load();
    /* One record for each name, of the newest: readers that take the first of two agree. */
    size_t n = 0;
    for (size_t i = 0; i + 4 < n_bytes; i++)
        n += memcmp(bytes + i, "PK\1\2", 4) == 0 && i > record(LOCAL, 4);
    CHECK_U64(n, 2);
    TG_AUTO_PTR(tg_store) s = NULL;
    REQUIRE_OK(open_as(&s, TG_STORE_READ, NULL));
    CHECK(holds(s, "a/b", "round 2") && holds(s, "dd", "second"));
    uint64_t size = file_size();
    TG_AUTO_PTR(tg_store) idle = NULL;
    REQUIRE_OK(open_as(&idle, TG_STORE_READ_WRITE, NULL));
    REQUIRE_OK(tg_store_close(idle, NULL));
    CHECK_U64(file_size(), size); /* nothing put, nothing written */
    end();
}

/* Two central records of one name, as zarr-python's overwriting makes them: the last wins. */
static void last_of_two_names_wins(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    begin();
    (void)unlink(path);
    REQUIRE_OK(open_as(&s, TG_STORE_CREATE, NULL));
    REQUIRE_OK(tg_store_put(s, "k1", "old", 3, NULL, NULL));
    REQUIRE_OK(tg_store_put(s, "k2", "new", 3, NULL, NULL));
    REQUIRE_OK(tg_store_close(s, NULL));
    load();
    bytes[record(LOCAL, 1) + 31] = bytes[record(CENTRAL, 1) + 47] = '1';
    save();
    TG_AUTO_PTR(tg_store) r = NULL;
    REQUIRE_OK(open_as(&r, TG_STORE_READ, NULL));
    CHECK(holds(r, "k1", "new"));
    end();
}

static void aligned(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO(tg_arena) a = {0};
    tg_zip_record r[4];
    static const size_t lens[] = {TG_ZIP_ALIGN_MIN - 1, TG_ZIP_ALIGN_MIN, (1 << 20) + 13,
                                  3 << 20};

    begin();
    REQUIRE_OK(tg_arena_map(&a, 3 << 20, NULL));
    REQUIRE_OK(open_as(&s, TG_STORE_CREATE, NULL));
    for (size_t i = 0; i < 4; i++) {
        char key[8] = {'k', (char)('0' + i)};
        test_fill(a.data, lens[i], i, 0);
        REQUIRE_OK(tg_zip_append(s, key, a.data, lens[i], NULL, &r[i], NULL, NULL));
        CHECK_U64(r[i].len, lens[i]);
        CHECK(r[i].crc32 == tg_zip_crc32(0, a.data, lens[i]));
        CHECK(lens[i] < TG_ZIP_ALIGN_MIN || r[i].data_offset % 4096 == 0);
        CHECK(i == 0 || r[i].header_offset == r[i - 1].data_offset + r[i - 1].len);
    }
    REQUIRE_OK(tg_store_close(s, NULL));
    TG_AUTO_PTR(tg_store) in = NULL;
    REQUIRE_OK(open_as(&in, TG_STORE_READ, NULL));
    for (size_t i = 0; i < 4; i++) {
        TG_AUTO(tg_buf) b = {0};
        char key[8] = {'k', (char)('0' + i)};
        REQUIRE_OK(tg_store_get(in, key, tg_range_all(), 4 << 20, &b, NULL, NULL));
        CHECK(b.len == lens[i] && test_same(b.data, b.len, i, 0));
        REQUIRE_OK(tg_store_get(in, key, tg_range_at(1000, 5), 5, &b, NULL, NULL));
        CHECK(test_same(b.data, 5, i, 1000));
    }
    end();
}

/* --- Recovery -------------------------------------------------------------------------- */

/* Kill a writer after `kept` of 5 entries are in its journal, with rubbish at the end, then
 * make the archive whole; twice, as if the first try was killed, too. */
static void recovered_at(int kept, uint64_t base)
{
    tg_zip_record r[5];
    char key[8] = "k0";
    char text[32];

    {
        TG_AUTO_PTR(tg_store) s = NULL;
        REQUIRE_OK(open_as(&s, base == 0 ? TG_STORE_CREATE : TG_STORE_READ_WRITE, NULL));
        CHECK_U64(tg_zip_base_bytes(s), base);
        for (int i = 0; i < 5; i++) {
            key[1] = (char)('0' + i);
            (void)snprintf(text, sizeof text, "value %d", i);
            REQUIRE_OK(tg_zip_append(s, key, text, strlen(text), NULL, &r[i], NULL, NULL));
        }
        REQUIRE_OK(tg_store_sync(s, NULL, NULL));
    } /* freed, not closed */
    FILE *f = fopen(path, "ab");
    CHECK(f != NULL && fwrite("PK\3\4 half an entry", 1, 18, f) == 18 && fclose(f) == 0);
    TG_AUTO_PTR(tg_store) closed = NULL;
    CHECK_STATUS(open_as(&closed, TG_STORE_READ, NULL), TG_INCOMPLETE);

    for (int round = 0; round < 2; round++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        REQUIRE_OK(tg_zip_reopen(&s, path, base, NULL, NULL));
        for (int i = 0; i < kept; i++) {
            key[1] = (char)('0' + i);
            REQUIRE_OK(tg_zip_adopt(s, key, &r[i], NULL));
        }
        key[1] = '0';
        tg_zip_record wrong = r[0];
        wrong.crc32 ^= 1;
        CHECK_STATUS(tg_zip_adopt(s, key, &wrong, NULL), TG_CORRUPT);
        wrong = r[0];
        wrong.header_offset += 1;
        CHECK_STATUS(tg_zip_adopt(s, key, &wrong, NULL), TG_CORRUPT);
        REQUIRE_OK(tg_store_put(s, "zarr.json", "{}", 2, NULL, NULL));
        if (round == 0 && kept < 5)
            continue; /* killed again */
        REQUIRE_OK(tg_store_close(s, NULL));
    }
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_error err = {0};
    if (open_as(&s, TG_STORE_READ, &err) != TG_OK) {
        test_failed(__FILE__, __LINE__, err.msg);
        return;
    }
    CHECK(holds(s, "zarr.json", "{}"));
    CHECK(base == 0 || holds(s, "a/b", "first value"));
    for (int i = 0; i < 5; i++) {
        key[1] = (char)('0' + i);
        (void)snprintf(text, sizeof text, "value %d", i);
        CHECK(holds(s, key, text) == (i < kept));
    }
}

static void recovered(void)
{
    begin();
    for (int kept = 0; kept <= 5; kept++) {
        (void)unlink(path);
        recovered_at(kept, 0);
        make_small();
        recovered_at(kept, n_bytes);
    }
    end();
}

/* More entries than 16 bits count: the zip64 end record. */
static void many_entries(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_store) in = NULL;
    const int n = 70000;
    char key[32];

    begin();
    tg_store_options o = {sizeof o, TG_STORE_CREATE, true, true};
    REQUIRE_OK(tg_store_open_zip(&s, path, &o, NULL));
    size_t before = tg_mem_live();
    for (int i = 0; i < n; i++) {
        (void)snprintf(key, sizeof key, "image/c/%d/%d/0", i / 256, i % 256);
        if (tg_store_put(s, key, &i, sizeof i, NULL, NULL) != TG_OK)
            test_failed(__FILE__, __LINE__, key);
    }
    CHECK((tg_mem_live() - before) / (size_t)n < 100); /* bytes an entry */
    REQUIRE_OK(tg_store_close(s, NULL));
    REQUIRE_OK(open_as(&in, TG_STORE_READ, NULL));
    for (int i = 0; i < n; i += 997) {
        int got = -1;
        size_t len;
        (void)snprintf(key, sizeof key, "image/c/%d/%d/0", i / 256, i % 256);
        REQUIRE_OK(tg_store_get_into(in, key, tg_range_all(), &got, sizeof got, &len, NULL,
                                     NULL, NULL));
        CHECK(got == i);
    }
    end();
}

/* Beyond 4 GiB, in a file with holes: offsets and a size that need zip64. */
static void beyond_4_gib(void)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO_PTR(tg_store) in = NULL;
    tg_zip_record r = {0};
    const uint64_t hole = ((uint64_t)4 << 30) + 12345;

    begin();
    REQUIRE_OK(open_as(&s, TG_STORE_CREATE, NULL));
    REQUIRE_OK(tg_zip_append(s, "low", "near", 4, NULL, &r, NULL, NULL));
    REQUIRE_OK(tg_store_close(s, NULL));
    tg_store_free(s);
    s = NULL;
    /* A local header of an entry that reaches beyond 4 GiB, its zeros never written. */
    load();
    uint8_t h[64] = {0};
    memcpy(h, bytes, 30);
    static uint8_t zeros[1 << 20];
    uint32_t crc = 0;
    for (uint64_t at = 0; at < hole; at += sizeof zeros)
        crc = tg_zip_crc32(crc, zeros,
                           hole - at < sizeof zeros ? (size_t)(hole - at) : sizeof zeros);
    for (int i = 0; i < 4; i++)
        h[14 + i] = (uint8_t)(crc >> 8 * i);
    memset(h + 18, 0xff, 8);
    h[4] = 45;
    h[26] = 3;
    h[28] = 20;
    memcpy(h + 30, "big\1\0\x10\0", 7);
    for (int i = 0; i < 8; i++)
        h[37 + i] = h[45 + i] = (uint8_t)(hole >> 8 * i);
    int fd = open(path, O_WRONLY);
    CHECK(pwrite(fd, h, 53, 100) == 53 && ftruncate(fd, (off_t)(153 + hole)) == 0);
    (void)close(fd);

    REQUIRE_OK(tg_zip_reopen(&s, path, 0, NULL, NULL));
    REQUIRE_OK(tg_zip_adopt(s, "low", &r, NULL));
    REQUIRE_OK(tg_zip_adopt(s, "big", &(tg_zip_record){100, 153, hole, crc}, NULL));
    REQUIRE_OK(tg_zip_append(s, "high", "far", 3, NULL, &r, NULL, NULL));
    CHECK(r.header_offset == 153 + hole);
    REQUIRE_OK(tg_store_close(s, NULL));
    REQUIRE_OK(open_as(&in, TG_STORE_READ, NULL));
    CHECK(holds(in, "low", "near") && holds(in, "high", "far"));
    uint64_t size = 0;
    REQUIRE_OK(tg_store_size(in, "big", &size, NULL, NULL));
    CHECK_U64(size, hole);
    uint8_t got[4] = {1, 1, 1, 1};
    size_t n;
    REQUIRE_OK(tg_store_get_into(in, "big", tg_range_last(4), got, 4, &n, NULL, NULL, NULL));
    CHECK(memcmp(got, zeros, 4) == 0);
    end();
}

static const struct test tests[] = {
    {"damaged", damaged},
    {"cut_anywhere", cut_anywhere},
    {"not_a_zip", not_a_zip},
    {"comment_and_prefix", comment_and_prefix},
    {"deflated", deflated},
    {"duplicates_and_order", duplicates_and_order},
    {"last_of_two_names_wins", last_of_two_names_wins},
    {"aligned", aligned},
    {"recovered", recovered},
    {"many_entries", many_entries},
    {"beyond_4_gib", beyond_4_gib},
};

TEST_MAIN(tests)
