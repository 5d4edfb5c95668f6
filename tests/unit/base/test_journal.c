#include "base/journal.h"
#include "base/sys.h"
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { KIND = 9, MAJOR = 1 };

static char dir_path[] = "/tmp/tg-journal-XXXXXX";
static int dir = -1;

static void begin(void)
{
    if (dir < 0 && mkdtemp(dir_path) != NULL)
        dir = open(dir_path, O_RDONLY | O_DIRECTORY);
    (void)unlinkat(dir, "j", 0);
    (void)unlinkat(dir, "j.new", 0);
}

__attribute__((destructor)) static void clean_up(void)
{
    if (dir >= 0) {
        (void)unlinkat(dir, "j", 0);
        (void)rmdir(dir_path);
    }
}

static tg_bytes bytes(const char *s)
{
    return (tg_bytes){(const uint8_t *)s, strlen(s)};
}

static tg_status add(tg_journal *j, uint16_t type, const char *s, tg_error *err)
{
    return tg_journal_add(j, type, bytes("<"), bytes(s), bytes(">"), err);
}

/* What a replay saw, as "type:payload;". */
static tg_status note(void *user, uint16_t type, tg_bytes payload, uint64_t offset,
                      tg_error *err)
{
    (void)offset;
    (void)err;
    tg_text_addf(user, "%u:%.*s;", (unsigned)type, (int)payload.len,
                 (const char *)payload.data);
    return TG_OK;
}

static tg_status replay(tg_text *seen, uint64_t *end, tg_error *err)
{
    return tg_journal_replay(dir, "j", KIND, MAJOR, NULL, note, seen, end, err);
}

static tg_status write_three(tg_error *err)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    TG_TRY(tg_journal_create(&j, dir, "j", KIND, MAJOR, 0, 4096, err));
    TG_TRY(add(j, 1, "one", err));
    TG_TRY(add(j, 2, "", err));
    TG_TRY(add(j, 3, "three", err));
    return tg_journal_close(j, err);
}

static void what_was_added_comes_back_in_order(void)
{
    TG_AUTO(tg_text) seen = {0};
    tg_error e = {0};
    uint64_t end = 0;

    begin();
    REQUIRE_OK(write_three(&e));
    REQUIRE_OK(replay(&seen, &end, &e));
    CHECK(strcmp(seen.data, "1:<one>;2:<>;3:<three>;") == 0);
    CHECK_U64(end, 24 + 3 * 12 + 5 + 2 + 7);
}

static void large_records_pass_the_buffer(void)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    TG_AUTO(tg_buf) big = {0};
    TG_AUTO(tg_text) seen = {0};
    tg_error e = {0};

    begin();
    REQUIRE_OK(tg_buf_resize(&big, 1 << 20, &e));
    memset(big.data, 'x', big.len);
    REQUIRE_OK(tg_journal_create(&j, dir, "j", KIND, MAJOR, 0, 4096, &e));
    REQUIRE_OK(add(j, 1, "small", &e));
    REQUIRE_OK(tg_journal_add(j, 2, bytes("<"), (tg_bytes){big.data, big.len}, bytes(">"), &e));
    REQUIRE_OK(add(j, 3, "after", &e));
    REQUIRE_OK(tg_journal_sync(j, &e));
    REQUIRE_OK(replay(&seen, NULL, &e));
    CHECK_U64(seen.len, strlen("1:<small>;2:<>;3:<after>;") + big.len);
    CHECK_STATUS(tg_journal_add(j, 4, (tg_bytes){big.data, (size_t)TG_JOURNAL_MAX_RECORD + 1},
                                bytes(""), bytes(""), &e),
                 TG_INVALID);
}

/* At every length and with every byte changed: a prefix of the records, never another. */
static void a_damaged_journal_ends_before_the_damage(void)
{
    tg_error e = {0};
    char whole[128];
    ssize_t n = 0;

    begin();
    REQUIRE_OK(write_three(&e));
    TG_AUTO(tg_fd) fd = openat(dir, "j", O_RDWR);
    n = pread(fd, whole, sizeof whole, 0);
    REQUIRE(n == 24 + 3 * 12 + 5 + 2 + 7);
    for (ssize_t cut = 24; cut < n; cut++) {
        TG_AUTO(tg_text) seen = {0};
        CHECK(ftruncate(fd, cut) == 0);
        CHECK_STATUS(replay(&seen, NULL, &e), TG_OK);
        CHECK(strncmp("1:<one>;2:<>;3:<three>;", seen.len == 0 ? "" : seen.data, seen.len) ==
              0);
        CHECK(seen.len < strlen("1:<one>;2:<>;3:<three>;"));
        CHECK(pwrite(fd, whole, (size_t)n, 0) == n);
    }
    for (ssize_t i = 24; i < n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            TG_AUTO(tg_text) seen = {0};
            char flipped = (char)(whole[i] ^ (1 << bit));
            CHECK(pwrite(fd, &flipped, 1, i) == 1);
            CHECK_STATUS(replay(&seen, NULL, &e), TG_OK);
            CHECK(seen.len < strlen("1:<one>;2:<>;3:<three>;"));
            CHECK(strncmp("1:<one>;2:<>;3:<three>;", seen.len == 0 ? "" : seen.data,
                          seen.len) == 0);
            CHECK(pwrite(fd, &whole[i], 1, i) == 1);
        }
    }
    for (ssize_t i = 0; i < 24; i++) {
        TG_AUTO(tg_text) seen = {0};
        char flipped = (char)(whole[i] ^ 1);
        CHECK(pwrite(fd, &flipped, 1, i) == 1);
        CHECK(replay(&seen, NULL, &e) != TG_OK);
        CHECK(pwrite(fd, &whole[i], 1, i) == 1);
    }
}

/* A record copied to another place in the file is not believed there. */
static void a_record_counts_only_at_its_own_place(void)
{
    TG_AUTO(tg_text) seen = {0};
    tg_error e = {0};
    char record[17];

    begin();
    REQUIRE_OK(write_three(&e));
    TG_AUTO(tg_fd) fd = openat(dir, "j", O_RDWR);
    REQUIRE(pread(fd, record, sizeof record, 24) == sizeof record);
    REQUIRE(pwrite(fd, record, sizeof record, 24 + 17) == sizeof record);
    CHECK_STATUS(replay(&seen, NULL, &e), TG_OK);
    CHECK(strcmp(seen.data, "1:<one>;") == 0);
}

static void going_on_cuts_the_torn_end_first(void)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    TG_AUTO(tg_text) seen = {0};
    tg_error e = {0};
    uint64_t end = 0;

    begin();
    REQUIRE_OK(write_three(&e));
    REQUIRE_OK(replay(&seen, &end, &e));
    TG_AUTO(tg_fd) fd = openat(dir, "j", O_RDWR);
    REQUIRE(ftruncate(fd, (off_t)end - 1) == 0);
    REQUIRE_OK(tg_journal_open(&j, dir, "j", KIND, MAJOR, 4096, &e));
    REQUIRE_OK(add(j, 4, "four", &e));
    REQUIRE_OK(tg_journal_close(j, &e));
    tg_text_free(&seen);
    REQUIRE_OK(replay(&seen, NULL, &e));
    CHECK(strcmp(seen.data, "1:<one>;2:<>;4:<four>;") == 0);
}

static void refusals_name_what_they_met(void)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    TG_AUTO(tg_text) seen = {0};
    tg_error e = {0};

    begin();
    CHECK_STATUS(replay(&seen, NULL, &e), TG_NOT_FOUND);
    REQUIRE_OK(tg_journal_create(&j, dir, "j", KIND, MAJOR + 1, 0, 0, &e));
    CHECK_STATUS(replay(&seen, NULL, &e), TG_UNSUPPORTED);
    CHECK(strstr(e.msg, "version 2") != NULL && strcmp(e.key, "j") == 0);
    CHECK_STATUS(tg_journal_replay(dir, "j", KIND + 1, 2, NULL, note, &seen, NULL, &e),
                 TG_UNSUPPORTED);
    tg_journal_free(tg_steal(j));
    CHECK_STATUS(tg_journal_create(&j, dir, "j", KIND, MAJOR, 0, 0, &e), TG_EXISTS);
}

/* --- Failing system calls --------------------------------------------------- */

static long calls_left, hits;
static int calls_errno;
static bool for_good;

static bool should_fail(void)
{
    if (calls_left == 0 || (calls_left > 1 && --calls_left > 0))
        return false;
    if (!for_good)
        calls_left = 0;
    hits++;
    errno = calls_errno;
    return true;
}

static ssize_t failing_pwrite(int fd, const void *b, size_t n, off_t o)
{
    return should_fail() ? -1 : tg_sys_kernel.pwrite_fd(fd, b, n, o);
}
static int failing_fdatasync(int fd)
{
    return should_fail() ? -1 : tg_sys_kernel.fdatasync_fd(fd);
}
static int failing_fsync(int fd)
{
    return should_fail() ? -1 : tg_sys_kernel.fsync_fd(fd);
}
static int failing_close(int fd)
{
    bool fail = should_fail();
    int rc = tg_sys_kernel.close_fd(fd);
    if (fail)
        errno = calls_errno;
    return fail ? -1 : rc;
}
static int failing_open(int d, const char *p, int f, mode_t m)
{
    return should_fail() ? -1 : tg_sys_kernel.open_at(d, p, f, m);
}

static int failing_rename(int od, const char *op, int nd, const char *np)
{
    return should_fail() ? -1 : tg_sys_kernel.rename_new_at(od, op, nd, np);
}

static bool exists(const char *name)
{
    return faccessat(dir, name, F_OK, 0) == 0;
}

static tg_status write_and_sync(tg_error *err)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    TG_TRY(tg_journal_create(&j, dir, "j", KIND, MAJOR, 0, 4096, err));
    TG_TRY(add(j, 1, "one", err));
    TG_TRY(tg_journal_sync(j, err));
    TG_TRY(add(j, 2, "two", err));
    return tg_journal_close(j, err);
}

static void every_failing_call_is_reported(void)
{
    tg_sys table = tg_sys_kernel;
    enum { DIRECTORY_CLOSE = 7 }; /* open, write, sync, rename, open directory, sync it */
    int failures = 0;

    table.pwrite_fd = failing_pwrite;
    table.fdatasync_fd = failing_fdatasync;
    table.fsync_fd = failing_fsync;
    table.close_fd = failing_close;
    table.open_at = failing_open;
    table.rename_new_at = failing_rename;
    for (int round = 0; round < 2; round++) {
        for (long n = 1; n < 100; n++) {
            tg_error e = {0};
            begin();
            calls_left = n;
            hits = 0;
            calls_errno = round == 0 ? ENOSPC : EIO;
            for_good = round == 1;
            tg_sys_use(&table);
            tg_status st = write_and_sync(&e);
            tg_sys_use(NULL);
            if (hits == 0)
                break;
            failures++;
            /* The only call whose failure may pass is the close of a directory that was only
             * read. */
            if (st == TG_OK) {
                TG_AUTO(tg_text) seen = {0};
                CHECK(n == DIRECTORY_CLOSE && !for_good);
                CHECK_STATUS(replay(&seen, NULL, &e), TG_OK);
                continue;
            }
            CHECK_STATUS(st, TG_IO);
            CHECK_U64((uint64_t)e.sys, (uint64_t)calls_errno);
            CHECK(e.key[0] != '\0');
            CHECK(exists("j") == (n >= DIRECTORY_CLOSE) && !exists("j.new"));
        }
        calls_left = 0;
    }
    CHECK(failures >= 16);
}

static int no_rename(int od, const char *op, int nd, const char *np)
{
    (void)od, (void)op, (void)nd, (void)np;
    errno = EINVAL;
    return -1;
}

static void a_file_system_that_cannot_rename_so(void)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    tg_sys table = tg_sys_kernel;
    tg_error e = {0};

    begin();
    table.rename_new_at = no_rename;
    tg_sys_use(&table);
    CHECK_STATUS(write_three(&e), TG_OK);
    CHECK_STATUS(tg_journal_create(&j, dir, "j", KIND, MAJOR, 0, 0, &e), TG_EXISTS);
    tg_sys_use(NULL);
    CHECK(!exists("j.new"));
}

/* What a process leaves that was killed before its journal had a name. */
static void an_unfinished_creation_is_no_obstacle(void)
{
    TG_AUTO(tg_text) seen = {0};
    tg_error e = {0};

    begin();
    TG_AUTO(tg_fd) fd = openat(dir, "j.new", O_WRONLY | O_CREAT, 0666);
    REQUIRE(write(fd, "TGJOURNLxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 48) == 48);
    CHECK_STATUS(replay(&seen, NULL, &e), TG_NOT_FOUND);
    CHECK_STATUS(write_three(&e), TG_OK);
    CHECK(!exists("j.new"));
    CHECK_STATUS(replay(&seen, NULL, &e), TG_OK);
    CHECK(strcmp(seen.data, "1:<one>;2:<>;3:<three>;") == 0);
}

static int n_syncs;
static int counted_fdatasync(int fd)
{
    n_syncs++;
    return tg_sys_kernel.fdatasync_fd(fd);
}

static void the_cut_is_durable_before_anything_is_added(void)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    tg_sys table = tg_sys_kernel;
    tg_error e = {0};
    struct stat st;

    begin();
    REQUIRE_OK(write_three(&e));
    TG_AUTO(tg_fd) fd = openat(dir, "j", O_WRONLY | O_APPEND);
    REQUIRE(write(fd, "torn", 4) == 4);
    table.fdatasync_fd = counted_fdatasync;
    n_syncs = 0;
    tg_sys_use(&table);
    CHECK_STATUS(tg_journal_open(&j, dir, "j", KIND, MAJOR, 0, &e), TG_OK);
    CHECK(n_syncs == 1);
    REQUIRE(fstat(fd, &st) == 0);
    CHECK_U64((uint64_t)st.st_size, tg_journal_bytes(j));
    tg_journal_free(tg_steal(j));
    CHECK_STATUS(tg_journal_open(&j, dir, "j", KIND, MAJOR, 0, &e), TG_OK);
    CHECK(n_syncs == 1); /* nothing to cut */
    tg_sys_use(NULL);
}

static ssize_t failing_pread(int fd, void *b, size_t n, off_t o)
{
    return should_fail() ? -1 : tg_sys_kernel.pread_fd(fd, b, n, o);
}
static int failing_stat(int fd, struct stat *st)
{
    return should_fail() ? -1 : tg_sys_kernel.stat_fd(fd, st);
}
static int failing_truncate(int fd, off_t n)
{
    return should_fail() ? -1 : tg_sys_kernel.truncate_fd(fd, n);
}

/* An unreadable journal is no short one: nothing may be cut because a disk failed. */
static void a_failing_read_is_no_end(void)
{
    tg_sys table = tg_sys_kernel;
    tg_error e = {0};
    struct stat before, after;
    int failures = 0;

    begin();
    REQUIRE_OK(write_three(&e));
    TG_AUTO(tg_fd) fd = openat(dir, "j", O_WRONLY | O_APPEND);
    REQUIRE(write(fd, "torn", 4) == 4);
    REQUIRE(fstat(fd, &before) == 0);
    table.open_at = failing_open;
    table.pread_fd = failing_pread;
    table.stat_fd = failing_stat;
    table.truncate_fd = failing_truncate;
    for (long n = 1; n < 20; n++) {
        TG_AUTO_PTR(tg_journal) j = NULL;
        calls_left = n, calls_errno = EIO, for_good = false, hits = 0;
        tg_sys_use(&table);
        tg_status st = tg_journal_open(&j, dir, "j", KIND, MAJOR, 0, &e);
        tg_sys_use(NULL);
        calls_left = 0;
        if (hits == 0) {
            CHECK_STATUS(st, TG_OK);
            break;
        }
        failures++;
        CHECK_STATUS(st, TG_IO);
        CHECK(strcmp(e.key, "j") == 0);
        REQUIRE(fstat(fd, &after) == 0);
        CHECK_U64((uint64_t)after.st_size, (uint64_t)before.st_size);
    }
    CHECK(failures >= 5);
}

static void the_first_failure_is_sticky(void)
{
    TG_AUTO_PTR(tg_journal) j = NULL;
    tg_sys table = tg_sys_kernel;
    tg_error e = {0};

    begin();
    table.fdatasync_fd = failing_fdatasync;
    REQUIRE_OK(tg_journal_create(&j, dir, "j", KIND, MAJOR, 0, 4096, &e));
    calls_left = 1, calls_errno = EIO, for_good = false;
    tg_sys_use(&table);
    CHECK_STATUS(tg_journal_sync(j, &e), TG_IO);
    tg_sys_use(NULL);
    e = (tg_error){0};
    CHECK_STATUS(add(j, 1, "x", &e), TG_IO);
    CHECK_U64((uint64_t)e.sys, EIO);
    CHECK_STATUS(tg_journal_close(j, &e), TG_IO);
}

static void every_allocation_may_fail(void)
{
    tg_error e = {0};
    begin();
    CHECK_EVERY_ALLOC((begin(), write_three(&e)));
}

static const struct test tests[] = {
    {"what_was_added_comes_back_in_order", what_was_added_comes_back_in_order},
    {"large_records_pass_the_buffer", large_records_pass_the_buffer},
    {"a_damaged_journal_ends_before_the_damage", a_damaged_journal_ends_before_the_damage},
    {"a_record_counts_only_at_its_own_place", a_record_counts_only_at_its_own_place},
    {"going_on_cuts_the_torn_end_first", going_on_cuts_the_torn_end_first},
    {"refusals_name_what_they_met", refusals_name_what_they_met},
    {"every_failing_call_is_reported", every_failing_call_is_reported},
    {"a_file_system_that_cannot_rename_so", a_file_system_that_cannot_rename_so},
    {"an_unfinished_creation_is_no_obstacle", an_unfinished_creation_is_no_obstacle},
    {"the_cut_is_durable_before_anything_is_added",
     the_cut_is_durable_before_anything_is_added},
    {"a_failing_read_is_no_end", a_failing_read_is_no_end},
    {"the_first_failure_is_sticky", the_first_failure_is_sticky},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
