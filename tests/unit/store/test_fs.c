/* What only a directory has: links, special files, temporaries, two processes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_PATH, syscall() */
#endif
#include "base/sys.h"
#include "base/sys_kernel.h"
#include "contract/stores.h"
#include "store/store.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

static char folder[TEST_PATH];
static int root = -1; /* folder/s */

static tg_store *open_store(tg_store_mode mode)
{
    char path[TEST_PATH + 8];
    tg_store *s = NULL;
    tg_error err = {0};
    (void)snprintf(path, sizeof path, "%s/s", folder);
    tg_store_options o = {sizeof o, mode, false, false};
    if (tg_store_open_fs(&s, path, &o, &err) != TG_OK)
        test_failed(__FILE__, __LINE__, err.msg);
    return s;
}

static tg_store *begin(void)
{
    test_folder(folder);
    tg_store *s = open_store(TG_STORE_CREATE);
    root = s == NULL ? -1 : tg_store_dir(s);
    return s;
}

static void end(void)
{
    test_remove(AT_FDCWD, folder);
}

static void write_file(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(close(fd) == 0);
}

static tg_status get(tg_store *s, const char *key, char *text)
{
    size_t n = 0;
    tg_status st = tg_store_get_into(s, key, tg_range_all(), text, 63, &n, NULL, NULL, NULL);
    text[st == TG_OK ? n : 0] = '\0';
    return st;
}

static bool note(void *user, const char *name)
{
    char *text = user;
    size_t n = strlen(text);
    (void)snprintf(text + n, 512 - n, "%s ", name);
    return true;
}

/* Emulators and sandboxes may not have it. */
static bool knows_openat2(void)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {O_PATH | O_CLOEXEC, 0, 0};
    long fd = syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how);
    if (fd >= 0)
        (void)close((int)fd);
    return fd >= 0;
}

/* follows: links that stay inside, as openat2 can; without it, none is followed. */
static void links_are_kept_inside(bool follows)
{
    TG_AUTO_PTR(tg_store) s = begin();
    char text[512];
    REQUIRE(s != NULL);
    int up = open(folder, O_RDONLY | O_DIRECTORY);

    write_file(up, "secret", "out of the store");
    write_file(root, "in", "inside");
    CHECK(mkdirat(root, "d", 0777) == 0);
    write_file(root, "d/value", "in d");
    CHECK(symlinkat("../in", root, "d/good") == 0);
    CHECK(symlinkat("d", root, "e") == 0);
    CHECK(symlinkat("../../secret", root, "d/bad") == 0);
    CHECK(symlinkat("/etc/passwd", root, "absolute") == 0);
    CHECK(symlinkat("..", root, "up") == 0);
    CHECK(symlinkat("nowhere", root, "dangling") == 0);
    CHECK(symlinkat("loop", root, "loop") == 0);
    CHECK_STATUS(get(s, "d/good", text), follows ? TG_OK : TG_UNSUPPORTED);
    CHECK_STATUS(get(s, "e/value", text), follows ? TG_OK : TG_UNSUPPORTED);
    CHECK_STATUS(get(s, "d/bad", text), TG_UNSUPPORTED);
    CHECK_STATUS(get(s, "absolute", text), TG_UNSUPPORTED);
    CHECK_STATUS(get(s, "up/secret", text), TG_UNSUPPORTED);
    CHECK_STATUS(get(s, "dangling", text), follows ? TG_NOT_FOUND : TG_UNSUPPORTED);
    CHECK_STATUS(get(s, "loop", text), TG_UNSUPPORTED);
    CHECK_STATUS(tg_store_put(s, "up/new", "x", 1, NULL, NULL), TG_UNSUPPORTED);
    CHECK(faccessat(up, "new", F_OK, 0) != 0);
    CHECK_STATUS(tg_store_remove(s, "up/secret", NULL, NULL), TG_UNSUPPORTED);
    CHECK(faccessat(up, "secret", F_OK, 0) == 0);
    text[0] = '\0';
    CHECK_STATUS(tg_store_list(s, "d/", note, text, NULL, NULL), TG_OK);
    CHECK(strcmp(text, follows ? "good value " : "value ") == 0);
    CHECK_STATUS(tg_store_list(s, "up/", note, text, NULL, NULL), TG_UNSUPPORTED);
    /* A put replaces a link, not what it points to. */
    CHECK_STATUS(tg_store_put(s, "d/bad", "mine", 4, NULL, NULL), TG_OK);
    CHECK_STATUS(get(s, "d/bad", text), TG_OK);
    CHECK(strcmp(text, "mine") == 0);
    int fd = openat(up, "secret", O_RDONLY);
    CHECK(read(fd, text, 63) == 16);
    (void)close(fd);
    (void)close(up);
    end();
}

static void links(void)
{
    tg_sys table = tg_sys_kernel;

    test_row = "one segment at a time";
    table.open_beneath = tg_kernel_walk_beneath;
    tg_sys_use(&table);
    links_are_kept_inside(false);
    tg_sys_use(NULL);
    test_row = "";
    if (knows_openat2())
        links_are_kept_inside(true);
}

static void walk(void)
{
    TG_AUTO_PTR(tg_store) s = begin();
    REQUIRE(s != NULL);
    write_file(root, "v", "");
    int fd = tg_kernel_walk_beneath(root, "d/../../secret", O_RDONLY, 0);
    CHECK(fd < 0 && (errno == EXDEV || errno == ENOENT));
    fd = tg_kernel_walk_beneath(root, "..", O_RDONLY, 0);
    CHECK(fd < 0 && errno == EXDEV);
    fd = tg_kernel_walk_beneath(root, "v/x", O_RDONLY, 0);
    CHECK(fd < 0 && errno == ENOTDIR);
    fd = tg_kernel_walk_beneath(root, "", O_RDONLY, 0);
    CHECK(fd < 0 && errno == ENOENT);
    end();
}

/* None of these may block, or be taken for a value. */
static void special_files(void)
{
    TG_AUTO_PTR(tg_store) s = begin();
    char text[64];
    REQUIRE(s != NULL);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);

    CHECK(mkfifoat(root, "fifo", 0666) == 0);
    (void)snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/sock", root);
    CHECK(bind(sock, (struct sockaddr *)&a, sizeof a) == 0);
    CHECK_STATUS(get(s, "fifo", text), TG_CORRUPT);
    CHECK_STATUS(get(s, "sock", text), TG_CORRUPT);
    CHECK_STATUS(get(s, "fifo/x", text), TG_NOT_FOUND);
    tg_object *o = NULL;
    CHECK_STATUS(tg_object_begin(s, "fifo",
                                 (tg_object_options){.visible = true, .reopen = true}, &o, NULL,
                                 NULL),
                 TG_CORRUPT);
    CHECK_STATUS(tg_store_put(s, "fifo", "x", 1, NULL, NULL), TG_OK); /* replaced */
    CHECK_STATUS(get(s, "fifo", text), TG_OK);
    (void)close(sock);
    end();
}

static void temporaries_are_not_listed(void)
{
    TG_AUTO_PTR(tg_store) s = begin();
    char text[512] = "";
    REQUIRE(s != NULL);

    write_file(root, ".tg-tmp-1-2", "");
    write_file(root, "c.0123456789abcdef.partial", "");
    write_file(root, "partial", "");
    write_file(root, "b\\c", "");
    CHECK(mkfifoat(root, "fifo", 0666) == 0);
    CHECK(mkdirat(root, "d", 0777) == 0);
    CHECK(symlinkat("d", root, "link") == 0);
    CHECK(symlinkat("/etc", root, "out") == 0);
    CHECK_STATUS(tg_store_list(s, "", note, text, NULL, NULL), TG_OK);
    CHECK(strcmp(text, knows_openat2() ? "d/ link/ partial " : "d/ partial ") == 0);
    end();
}

static void in_the_way(void)
{
    TG_AUTO_PTR(tg_store) s = begin();
    tg_error err = {0};
    char long_part[400];
    REQUIRE(s != NULL);

    CHECK_STATUS(tg_store_put(s, "a", "x", 1, NULL, NULL), TG_OK);
    CHECK_STATUS(tg_store_put(s, "a/b", "x", 1, NULL, &err), TG_INVALID);
    CHECK(strstr(err.msg, "below another value") != NULL);
    CHECK_STATUS(tg_store_put(s, "a/b/c", "x", 1, NULL, NULL), TG_INVALID);
    CHECK_STATUS(tg_store_put(s, "d/e", "x", 1, NULL, NULL), TG_OK);
    CHECK_STATUS(tg_store_put(s, "d", "x", 1, NULL, &err), TG_INVALID);
    CHECK(strstr(err.msg, "prefix of other values") != NULL);
    memset(long_part, 'k', sizeof long_part);
    long_part[sizeof long_part - 1] = '\0';
    CHECK_STATUS(tg_store_put(s, long_part, "x", 1, NULL, NULL), TG_INVALID);
    char text[64];
    CHECK_STATUS(get(s, long_part, text), TG_NOT_FOUND);
    end();
}

static void read_only(void)
{
    TG_AUTO_PTR(tg_store) s = begin();
    REQUIRE(s != NULL);
    TG_AUTO_PTR(tg_store) r = open_store(TG_STORE_READ);
    tg_error err = {0};
    REQUIRE(r != NULL);

    CHECK_STATUS(tg_store_put(r, "a", "x", 1, NULL, &err), TG_UNSUPPORTED);
    CHECK_STATUS(tg_store_remove(r, "a", NULL, NULL), TG_UNSUPPORTED);
    CHECK(strstr(err.msg, "/s'") != NULL);
    CHECK(tg_store_caps(r) == TG_STORE_IS_LOCAL);
    CHECK(strstr(tg_store_path(r), folder) == tg_store_path(r));
    end();
}

/* A writer that is killed leaves its temporary, and the old value. */
static void left_open(void)
{
    TG_AUTO_PTR(tg_store) s = begin();
    char text[512] = "";
    tg_object *o = NULL;
    REQUIRE(s != NULL);

    CHECK_STATUS(tg_store_put(s, "v", "old", 3, NULL, NULL), TG_OK);
    CHECK_STATUS(
        tg_object_begin(s, "v", (tg_object_options){.size_hint = 1 << 20}, &o, NULL, NULL),
        TG_OK);
    CHECK_STATUS(tg_object_write(o, "half", 4, NULL, NULL), TG_OK);
    tg_object_free(o); /* neither sealed nor aborted */
    CHECK_STATUS(get(s, "v", text), TG_OK);
    CHECK(strcmp(text, "old") == 0);
    text[0] = '\0';
    CHECK_STATUS(tg_store_list(s, "", note, text, NULL, NULL), TG_OK);
    CHECK(strcmp(text, "v ") == 0);
    end();
}

/* Room reserved beyond the end is given back. */
static void exact_length_on_disk(void)
{
    TG_AUTO_PTR(tg_store) s = begin();
    tg_object *o = NULL;
    struct stat st;
    REQUIRE(s != NULL);

    CHECK_STATUS(
        tg_object_begin(s, "v", (tg_object_options){.size_hint = 8 << 20}, &o, NULL, NULL),
        TG_OK);
    CHECK_STATUS(tg_object_write(o, "0123456789", 10, NULL, NULL), TG_OK);
    CHECK_STATUS(tg_object_seal(o, 10, NULL, NULL), TG_OK);
    tg_object_free(o);
    CHECK(fstatat(root, "v", &st, 0) == 0);
    CHECK_U64((uint64_t)st.st_size, 10);
    CHECK(st.st_blocks * 512 < 1 << 20);
    end();
}

/* Large values that the page cache does not hold are read past it, into any address, from any
 * byte, to any byte: what is there is what was put. */
static void past_the_cache(void)
{
    enum { LEN = (1 << 20) + 4097, MORE = 8192 };
    static const size_t starts[] = {0, 1, 511, 512, 4096, 70000};
    static const size_t shifts[] = {0, 4, 512, 4095};
    tg_store *s = begin();
    uint8_t *want = malloc(LEN);
    void *room = NULL;
    CHECK(want != NULL && posix_memalign(&room, 4096, LEN + MORE) == 0);
    for (size_t i = 0; i < LEN; i++)
        want[i] = (uint8_t)(i * 2654435761u >> 13);
    REQUIRE_OK(tg_store_put(s, "large", want, LEN, NULL, NULL));
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        for (size_t k = 0; k < sizeof shifts / sizeof *shifts; k++) {
            /* At the same place in its block as in the file, and shifted by so many bytes. */
            uint8_t *at = (uint8_t *)room + (starts[i] + shifts[k]) % 4096;
            const size_t len = LEN - starts[i] - i * 3;
            const tg_span span = {starts[i], len, at};
            size_t n = 0;
            TG_AUTO(tg_fd) fd = openat(root, "large", O_RDONLY);
            CHECK(fd >= 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
            memset(room, 0x55, LEN + MORE);
            REQUIRE_OK(tg_store_get_ranges(s, "large", &span, 1, NULL, NULL));
            CHECK(memcmp(at, want + starts[i], len) == 0 && at[len] == 0x55);
            CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
            REQUIRE_OK(
                tg_store_get_into(s, "large", tg_range_all(), at, LEN, &n, NULL, NULL, NULL));
            CHECK(n == LEN && memcmp(at, want, LEN) == 0 && at[LEN] == 0x55);
        }
    const tg_span beyond = {LEN - 70000, 70001, room};
    CHECK(tg_store_get_ranges(s, "large", &beyond, 1, NULL, NULL) != TG_OK);
    free(room);
    free(want);
    tg_store_free(s);
    end();
}

static const struct test tests[] = {
    {"past_the_cache", past_the_cache},
    {"links", links},
    {"walk", walk},
    {"special_files", special_files},
    {"temporaries_are_not_listed", temporaries_are_not_listed},
    {"in_the_way", in_the_way},
    {"read_only", read_only},
    {"left_open", left_open},
    {"exact_length_on_disk", exact_length_on_disk},
};

TEST_MAIN(tests)
