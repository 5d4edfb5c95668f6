/* Every system call of the stores that write files fails once, and from then
 * on: each failure is reported by the step that met it, a step that reports none
 * has done what it promises, and what was there before is whole. */
#include "base/sys.h"
#include "contract/stores.h"
#include "store/zip_write.h"

#include <errno.h>

/* --- The table of system calls ------------------------------------------------------ */

enum call {
    OPEN,
    CLOSE,
    PREAD,
    PWRITE,
    FSYNC,
    FDATASYNC,
    TRUNCATE,
    ALLOCATE,
    RENAME,
    RENAME_NEW,
    LINK,
    UNLINK,
    MKDIR,
    STAT,
    ALIGN,
    DIRECT,
    WRITE_OUT,
    DROP,
    CHECK_FD,
    N_CALLS
};
static const char *const call_names[N_CALLS] = {
    "open",         "close",      "pread",      "pwrite",     "fsync",  "fdatasync", "truncate",
    "allocate",     "rename",     "rename_new", "link",       "unlink", "mkdir",     "stat",
    "direct_align", "set_direct", "write_out",  "drop_cache", "check"};

static struct {
    long count, at; /* calls so far, and the one that fails; at 0: none */
    int error;      /* 0: a short write */
    bool sticky, no_rename_new;
    bool loud;       /* a call failed whose failure somebody must report */
    bool struck;     /* any call failed */
    enum call first; /* the first that did */
    long calls[N_CALLS], hits[N_CALLS];
} f;

static bool strike(enum call c, bool loud)
{
    f.calls[c]++;
    f.count++;
    if (f.at == 0 || f.count < f.at || (f.count > f.at && !f.sticky))
        return false;
    if (f.error == 0 && c != PWRITE)
        return false;
    f.hits[c]++;
    if (!f.struck)
        f.first = c;
    f.struck = true;
    f.loud = f.loud || (loud && f.error != 0 && f.error != EINTR);
    errno = f.error;
    return true;
}

static bool written(int fd)
{
    return (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

static int f_open(int dir, const char *path, int flags, mode_t mode)
{
    return strike(OPEN, true) ? -1 : tg_sys_kernel.open_at(dir, path, flags, mode);
}
static int f_beneath(int dir, const char *path, int flags, mode_t mode)
{
    return strike(OPEN, true) ? -1 : tg_sys_kernel.open_beneath(dir, path, flags, mode);
}
static int f_close(int fd)
{
    bool fails = strike(CLOSE, written(fd));
    int e = errno;
    int rc = tg_sys_kernel.close_fd(fd);
    errno = fails ? e : errno;
    return fails ? -1 : rc;
}
static ssize_t f_pread(int fd, void *p, size_t n, off_t at)
{
    return strike(PREAD, true) ? -1 : tg_sys_kernel.pread_fd(fd, p, n, at);
}
static ssize_t f_pwrite(int fd, const void *p, size_t n, off_t at)
{
    if (!strike(PWRITE, true))
        return tg_sys_kernel.pwrite_fd(fd, p, n, at);
    if (f.error != 0)
        return -1;
    size_t part = n > 4096 ? n / 2 / 4096 * 4096 : n; /* a direct write takes whole units */
    return tg_sys_kernel.pwrite_fd(fd, p, part, at);
}
/* Durability is not under test: a sync that need not fail does nothing. */
static int f_fsync(int fd)
{
    (void)fd;
    return strike(FSYNC, true) ? -1 : 0;
}
static int f_fdatasync(int fd)
{
    (void)fd;
    return strike(FDATASYNC, true) ? -1 : 0;
}
static int f_truncate(int fd, off_t len)
{
    return strike(TRUNCATE, true) ? -1 : tg_sys_kernel.truncate_fd(fd, len);
}
static int f_allocate(int fd, off_t at, off_t len)
{
    /* No room to reserve: the writes find out. */
    bool full = f.error == ENOSPC || f.error == EDQUOT;
    return strike(ALLOCATE, !full) ? -1 : tg_sys_kernel.allocate_fd(fd, at, len);
}
static int f_rename(int d, const char *a, int e, const char *b)
{
    return strike(RENAME, true) ? -1 : tg_sys_kernel.rename_at(d, a, e, b);
}
static int f_rename_new(int d, const char *a, int e, const char *b)
{
    if (f.no_rename_new) {
        errno = EINVAL;
        return -1;
    }
    return strike(RENAME_NEW, true) ? -1 : tg_sys_kernel.rename_new_at(d, a, e, b);
}
static int f_link(int d, const char *a, int e, const char *b)
{
    return strike(LINK, true) ? -1 : tg_sys_kernel.link_at(d, a, e, b);
}
static int f_unlink(int d, const char *path, int flags)
{
    return strike(UNLINK, false) ? -1 : tg_sys_kernel.unlink_at(d, path, flags);
}
static int f_mkdir(int d, const char *path, mode_t mode)
{
    return strike(MKDIR, true) ? -1 : tg_sys_kernel.mkdir_at(d, path, mode);
}
static int f_stat_fd(int fd, struct stat *st)
{
    return strike(STAT, true) ? -1 : tg_sys_kernel.stat_fd(fd, st);
}
static int f_stat(int d, const char *path, struct stat *st, int flags)
{
    return strike(STAT, false) ? -1 : tg_sys_kernel.stat_at(d, path, st, flags);
}
static int f_align(int fd, uint32_t *m, uint32_t *o)
{
    return strike(ALIGN, true) ? -1 : tg_sys_kernel.direct_align(fd, m, o);
}
static int f_direct(int fd, bool on)
{
    return strike(DIRECT, false) ? -1 : tg_sys_kernel.set_direct(fd, on);
}
static int f_write_out(int fd, off_t at, off_t len, bool wait)
{
    return strike(WRITE_OUT, wait) ? -1 : tg_sys_kernel.write_out(fd, at, len, wait);
}
static int f_drop(int fd, off_t at, off_t len)
{
    return strike(DROP, false) ? -1 : tg_sys_kernel.drop_cache(fd, at, len);
}

static int f_check(int fd)
{
    (void)fd;
    return strike(CHECK_FD, true) ? -1 : 0;
}

static tg_sys faulty(void)
{
    tg_sys t = tg_sys_kernel;
    t.open_at = f_open;
    t.open_beneath = f_beneath;
    t.close_fd = f_close;
    t.pread_fd = f_pread;
    t.pwrite_fd = f_pwrite;
    t.fsync_fd = f_fsync;
    t.fdatasync_fd = f_fdatasync;
    t.truncate_fd = f_truncate;
    t.allocate_fd = f_allocate;
    t.rename_at = f_rename;
    t.rename_new_at = f_rename_new;
    t.link_at = f_link;
    t.unlink_at = f_unlink;
    t.mkdir_at = f_mkdir;
    t.stat_fd = f_stat_fd;
    t.stat_at = f_stat;
    t.direct_align = f_align;
    t.set_direct = f_direct;
    t.write_out = f_write_out;
    t.drop_cache = f_drop;
    t.check_fd = f_check;
    return t;
}

/* --- What is done ---------------------------------------------------------------------- */

#define BIG ((size_t)7 << 20 >> 2) /* past the page cache, and not a multiple of anything */

static char folder[TEST_PATH];
static tg_arena data; /* of value 1 */
static size_t hidden_len = BIG + 77;

struct step {
    const char *key;
    size_t old_len, new_len; /* 0: none before; none after */
    bool done;
    tg_status st;
};
enum {
    PUT_OLD,
    PUT_BIG,
    PUT_NEW,
    LAZY_NEW,
    LAZY_OLD,
    SYNC,
    HIDDEN,
    SEEN,
    REMOVE,
    LIST,
    SHUT,
    N_STEPS
};

static const struct step plan[N_STEPS] = {
    [PUT_OLD] = {"keep/old", 100, 200, false, TG_OK},
    [PUT_BIG] = {"keep/big", 300, BIG, false, TG_OK},
    [PUT_NEW] = {"d/e/new", 0, 50, false, TG_OK},
    [LAZY_NEW] = {"l/new", 0, 60, false, TG_OK},
    [LAZY_OLD] = {"l/old", 70, 80, false, TG_OK},
    [SYNC] = {NULL, 0, 0, false, TG_OK},
    [HIDDEN] = {"o/hidden", 90, BIG + 77, false, TG_OK},
    [SEEN] = {"o/seen", 0, 40000, false, TG_OK},
    [REMOVE] = {"gone", 10, 0, false, TG_OK},
    [LIST] = {NULL, 0, 0, false, TG_OK},
    [SHUT] = {NULL, 0, 0, false, TG_OK},
};
static struct step steps[N_STEPS];
static int n_reported;
static int only = -1; /* the one step to do; -1: all */

/* Old values are number 0, new ones number 1. */
static uint8_t old_bytes[300];

static bool count_names(void *user, const char *name)
{
    (void)name;
    ++*(int *)user;
    return true;
}

static tg_status write_object(tg_store *s, const char *key, size_t len, bool seen,
                              tg_error *err)
{
    TG_AUTO_PTR(tg_object) o = NULL;
    TG_TRY(tg_object_begin(s, key, (tg_object_options){.size_hint = len, .visible = seen}, &o,
                           NULL, err));
    tg_status st = TG_OK;
    size_t part = seen ? 8192 : 600000;
    for (size_t at = 0; at < len && st == TG_OK; at += part) {
        size_t n = len - at < part ? len - at : part;
        st = seen ? tg_object_write_at(o, at, data.data + at, part, NULL, err)
                  : tg_object_write(o, data.data + at, n, NULL, err);
        if (st == TG_OK && at == part)
            st = tg_object_sync(o, NULL, err);
    }
    if (st == TG_OK)
        st = tg_object_seal(o, len, NULL, err);
    if (st != TG_OK)
        tg_object_abort(o);
    return st;
}

static tg_status do_step(tg_store *s, int i, tg_error *err)
{
    const struct step *p = &plan[i];
    int n = 0;

    switch (i) {
    case PUT_OLD:
    case PUT_BIG:
        return tg_store_put(s, p->key, data.data, p->new_len, NULL, err);
    case PUT_NEW:
        return tg_store_put_new(s, p->key, data.data, p->new_len, NULL, err);
    case LAZY_NEW:
    case LAZY_OLD:
        return tg_store_put_lazy(s, p->key, data.data, p->new_len, NULL, err);
    case SYNC:
        return tg_store_sync(s, NULL, err);
    case HIDDEN:
    case SEEN:
        return write_object(s, p->key, steps[i].new_len, i == SEEN, err);
    case REMOVE:
        return tg_store_remove(s, p->key, NULL, err);
    case LIST:
        return tg_store_list(s, "", count_names, &n, NULL, err);
    default:
        return tg_store_close(s, err);
    }
}

static bool applies(const tg_store *s, int i)
{
    if (i == HIDDEN || i == SEEN)
        return (tg_store_caps(s) & TG_STORE_CAN_WRITE_AT) != 0;
    return i != REMOVE || (tg_store_caps(s) & TG_STORE_CAN_REMOVE) != 0;
}

static void check_report(const tg_error *err)
{
    n_reported++;
    CHECK(err->msg[0] != '\0');
    CHECK(f.error == 0 || err->sys == f.error || err->code == TG_NO_MEMORY ||
          /* errno values that are answers elsewhere keep their code */
          err->sys != 0);
    CHECK(strchr(err->msg, '\'') != NULL); /* names something */
}

static struct kind {
    const char *name;
    bool zip, buffered;
} kinds[] = {
    {"direct", false, false},
    {"buffered", false, true},
    {"zip", true, false},
    {"zip buffered", true, true},
};

static tg_status open_store(tg_store **s, const struct kind *k, tg_store_mode mode,
                            tg_error *err)
{
    char path[TEST_PATH + 16];
    tg_store_options o = {sizeof o, mode, k->buffered, false};
    (void)snprintf(path, sizeof path, "%s/%s", folder, k->zip ? "s.zip" : "s");
    return k->zip ? tg_store_open_zip(s, path, &o, err) : tg_store_open_fs(s, path, &o, err);
}

static void run(const struct kind *k)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_error err = {0};

    memcpy(steps, plan, sizeof steps);
    steps[HIDDEN].new_len = hidden_len;
    n_reported = 0;
    if (open_store(&s, k, TG_STORE_READ_WRITE, &err) != TG_OK) {
        check_report(&err);
        return;
    }
    for (int i = 0; i < N_STEPS; i++) {
        if (!applies(s, i) || (only >= 0 && i != only && i != SHUT))
            continue;
        memset(&err, 0, sizeof err);
        steps[i].done = true;
        steps[i].st = do_step(s, i, &err);
        if (steps[i].st != TG_OK)
            check_report(&err);
    }
}

/* --- What must be so afterwards --------------------------------------------------------- */

static bool is_value(tg_store *s, const char *key, size_t len, uint64_t number)
{
    TG_AUTO(tg_buf) b = {0};
    tg_status st = tg_store_get(s, key, tg_range_all(), 16 << 20, &b, NULL, NULL);
    if (len == 0)
        return st == TG_NOT_FOUND;
    if (st != TG_OK || b.len != len)
        return false;
    return number == 0 ? memcmp(b.data, old_bytes, len) == 0
                       : memcmp(b.data, data.data, len) == 0;
}

static void check_steps(tg_store *s, bool only_old)
{
    char what[64];
    for (int i = 0; i < N_STEPS; i++) {
        const struct step *p = &steps[i];
        if (p->key == NULL)
            continue;
        bool old = is_value(s, p->key, p->old_len, 0), new = is_value(s, p->key, p->new_len, 1);
        bool ok = !p->done || only_old ? old : p->st == TG_OK ? new : old || new;
        if (i == SEEN && p->done && p->st != TG_OK)
            ok =
                true; /* seen while it grows: may be there in part if its removal failed, too */
        (void)snprintf(what, sizeof what, "%s: neither old nor new", p->key);
        if (!ok)
            test_failed(__FILE__, __LINE__, what);
    }
}

static bool known_name(void *user, const char *name)
{
    static const char *const names[] = {"keep/", "d/",  "l/",  "o/",     "gone", "e/",
                                        "old",   "big", "new", "hidden", "seen"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    *(bool *)user = false;
    return true;
}

static void check_store(const struct kind *k, uint64_t base_bytes)
{
    static const char *const prefixes[] = {"", "keep/", "d/", "d/e/", "l/", "o/"};
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_error err = {0};
    bool known = true, closed = steps[SHUT].done && steps[SHUT].st == TG_OK;

    tg_status st = open_store(&s, k, TG_STORE_READ, &err);
    if (k->zip && !closed && st != TG_OK) {
        /* A ZIP whose writer failed is made whole from its journal: here, as it was. */
        char path[TEST_PATH + 16];
        (void)snprintf(path, sizeof path, "%s/s.zip", folder);
        st = tg_zip_reopen(&s, path, base_bytes, NULL, &err);
        closed = false;
    } else if (k->zip) {
        closed = true;
    }
    if (st != TG_OK) {
        test_failed(__FILE__, __LINE__, err.msg);
        return;
    }
    check_steps(s, k->zip && !closed);
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        CHECK_STATUS(tg_store_list(s, prefixes[i], known_name, &known, NULL, NULL), TG_OK);
    CHECK(known);
}

static void prepare(const struct kind *k)
{
    TG_AUTO_PTR(tg_store) s = NULL;

    test_remove(AT_FDCWD, folder);
    REQUIRE(mkdir(folder, 0777) == 0);
    REQUIRE_OK(open_store(&s, k, TG_STORE_CREATE, NULL));
    for (int i = 0; i < N_STEPS; i++) {
        if (plan[i].old_len > 0)
            REQUIRE_OK(tg_store_put(s, plan[i].key, old_bytes, plan[i].old_len, NULL, NULL));
    }
    REQUIRE_OK(tg_store_close(s, NULL));
}

static int open_files(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        (void)closedir(d);
    return n;
}

static uint64_t archive_bytes(void)
{
    char path[TEST_PATH + 16];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/s.zip", folder);
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* One run with the fault at call `at`; false once the run is over before it comes. */
static bool one_run(const struct kind *k, long at)
{
    static char row[160];
    tg_sys table = faulty();

    f.at = 0;
    tg_sys_use(&table); /* syncs that do nothing, and no fault yet */
    prepare(k);
    uint64_t base = archive_bytes();
    int files = open_files();
    size_t live = tg_mem_live();
    f.at = at;
    f.count = 0;
    f.struck = f.loud = false;
    (void)snprintf(row, sizeof row, "%s: call %ld fails, errno %d, %s", k->name, at, f.error,
                   f.sticky ? "for good" : "once");
    test_row = row;
    run(k);
    f.at = 0;
    if (f.loud && n_reported == 0)
        test_failed(__FILE__, __LINE__, call_names[f.first]);
    if (f.error == 0 || (f.error == EINTR && f.struck && f.first != CLOSE &&
                         f.first != RENAME && f.first != RENAME_NEW && f.first != LINK &&
                         f.first != MKDIR && f.first != UNLINK && f.first != STAT))
        CHECK_U64((uint64_t)n_reported, 0); /* tried again */
    CHECK_U64((uint64_t)open_files(), (uint64_t)files);
    CHECK_U64(tg_mem_live(), live);
    check_store(k, base);
    tg_sys_use(NULL);
    return f.count >= at;
}

static void sweep(const struct kind *k, int error, bool sticky)
{
    f.error = error;
    f.sticky = sticky;
    for (long at = 1; test_failures < 20 && one_run(k, at); at++) {
    }
}

static void begin(void)
{
    test_folder(folder);
    f.no_rename_new = false;
    if (data.data == NULL && tg_arena_map(&data, 9 << 20, NULL) != TG_OK)
        exit(1);
    test_fill(data.data, data.len, 1, 0);
    test_fill(old_bytes, sizeof old_bytes, 0, 0);
}

static void every_call_fails(void)
{
    static const struct {
        int error;
        bool sticky;
    } faults[] = {
        {ENOSPC, true}, {EDQUOT, false}, {EIO, false}, {EINTR, false}, {0, false},
    };
    begin();
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
            sweep(&kinds[k], faults[i].error, faults[i].sticky);
    }
    test_remove(AT_FDCWD, folder);
}

/* Long enough that pages are written out and dropped behind the writer. */
static void every_call_fails_behind_a_long_object(void)
{
    begin();
    only = HIDDEN;
    hidden_len = (8 << 20) + 5;
    sweep(&kinds[1], EIO, false);
    sweep(&kinds[1], ENOSPC, true);
    only = -1;
    hidden_len = BIG + 77;
    test_remove(AT_FDCWD, folder);
}

/* A file system that cannot rename without replacing: link and unlink instead. */
static void every_call_fails_without_rename_new(void)
{
    begin();
    f.no_rename_new = true;
    sweep(&kinds[1], EIO, false);
    sweep(&kinds[1], ENOSPC, true);
    f.no_rename_new = false;
    test_remove(AT_FDCWD, folder);
}

/* Each kind of call was met, or this test has tested less than it says. */
static void coverage(void)
{
    bool direct = f.calls[DIRECT] > 0; /* not where the file system has no O_DIRECT */
    test_row = "coverage";
    for (int i = 0; i < N_CALLS; i++) {
        printf("     %-12s %8ld calls %6ld failed\n", call_names[i], f.calls[i], f.hits[i]);
        if (f.hits[i] == 0 && (direct || i != DIRECT))
            test_failed(__FILE__, __LINE__, call_names[i]);
    }
}

static const struct test tests[] = {
    {"every_call_fails", every_call_fails},
    {"every_call_fails_without_rename_new", every_call_fails_without_rename_new},
    {"every_call_fails_behind_a_long_object", every_call_fails_behind_a_long_object},
    {"coverage", coverage},
};

TEST_MAIN(tests)
