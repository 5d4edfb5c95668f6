/* T7: power cuts, by the contract of the calls alone. What a recorder does to files is logged;
 * then each prefix of that log is taken as all that happened before the power went, and of what
 * no sync covers some is there and some is not: nothing, all, or a random part, down to single
 * sectors. Recovery must find each frame that was said to be durable, and never a false one. */
#include "base/sync.h"
#include "faults.h"
#include "recording.h"

#include <stdlib.h>
#include <sys/stat.h>

#define ARRAY(...)                                                                            \
    {                                                                                         \
        .size = sizeof(tg_stream_array), .dtype = {TG_DT_UINT, 2}, .height = 16, .width = 20, \
        __VA_ARGS__                                                                           \
    }
enum { ITEMS = 16 * 20, FRAMES = 11, SECTOR = 512, MOST_OPS = 20000, MOST_FILES = 600 };

/* --- The log --------------------------------------------------------------------------- */

typedef enum op_kind {
    WRITE,
    CUT,
    ENTRY,
    GONE,
    MOVE,
    FOLDER,
    SYNC,
    SYNC_ALL,
    ACKNOWLEDGED
} op_kind;

typedef struct op {
    op_kind kind;
    uint64_t file;           /* inode; 0: a directory */
    uint64_t at, n;          /* WRITE: bytes; CUT: length; ACKNOWLEDGED: frames */
    uint8_t *data;           /* WRITE */
    size_t upto;             /* SYNC: operations before that one are covered */
    char path[160], to[160]; /* of entries; SYNC of a directory: its path */
} op;

static op ops[MOST_OPS];
static size_t n_ops;
static tg_mutex op_lock;
static char op_root[256];            /* what is below it is logged */
static int kept[MOST_FILES], n_kept; /* open, so that no inode's number is used again */

static op *add_op(op_kind kind)
{
    if (n_ops == MOST_OPS)
        abort();
    ops[n_ops] = (op){.kind = kind};
    return &ops[n_ops++];
}

/* Relative to the root; false: not below it. */
static bool below_root(int dir, const char *name, char out[160])
{
    char base[400] = "", whole[800], link[64];
    size_t n = strlen(op_root);

    if (name[0] == '/' || dir == AT_FDCWD) {
        (void)snprintf(whole, sizeof whole, "%s", name);
    } else {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t len = readlink(link, base, sizeof base - 1);
        if (len <= 0)
            return false;
        base[len] = '\0';
        (void)snprintf(whole, sizeof whole, "%s%s%s", base, name[0] == '\0' ? "" : "/", name);
    }
    if (strncmp(whole, op_root, n) != 0 || (whole[n] != '\0' && whole[n] != '/'))
        return false;
    (void)snprintf(out, 160, "%s", whole[n] == '/' ? whole + n + 1 : "");
    return true;
}

static uint64_t inode_of(int fd, bool *is_dir)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        abort();
    *is_dir = S_ISDIR(st.st_mode);
    return (uint64_t)st.st_ino;
}

static uint64_t inode_at(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_ino : 0;
}

static void note_opened(int dir, const char *name, int flags, bool was_there, int fd)
{
    char path[160];
    bool is_dir;

    if (fd < 0 || (flags & (O_CREAT | O_TRUNC)) == 0 || !below_root(dir, name, path))
        return;
    uint64_t file = inode_of(fd, &is_dir);
    if (n_kept == MOST_FILES)
        abort();
    kept[n_kept++] = dup(fd);
    op *o = add_op(was_there ? CUT : ENTRY);
    o->file = file;
    if (!was_there)
        (void)snprintf(o->path, sizeof o->path, "%s", path);
    else if ((flags & O_TRUNC) == 0)
        n_ops--;
}

#define LOGGED TG_LOCKED_FOR_IO(&op_lock)

static int l_open_at(int dir, const char *name, int flags, mode_t mode)
{
    LOGGED;
    bool there = inode_at(dir, name) != 0;
    int fd = REAL.open_at(dir, name, flags, mode);
    note_opened(dir, name, flags, there, fd);
    return fd;
}

static int l_open_beneath(int dir, const char *name, int flags, mode_t mode)
{
    LOGGED;
    bool there = inode_at(dir, name) != 0;
    int fd = REAL.open_beneath(dir, name, flags, mode);
    note_opened(dir, name, flags, there, fd);
    return fd;
}

static void note_write(int fd, const void *b, ssize_t n, uint64_t at)
{
    bool is_dir;

    if (n <= 0)
        return;
    op *o = add_op(WRITE);
    o->file = inode_of(fd, &is_dir);
    o->at = at;
    o->n = (uint64_t)n;
    o->data = malloc((size_t)n);
    if (o->data == NULL)
        abort();
    memcpy(o->data, b, (size_t)n);
}

static ssize_t l_pwrite_fd(int fd, const void *b, size_t n, off_t at)
{
    LOGGED;
    ssize_t done = REAL.pwrite_fd(fd, b, n, at);
    note_write(fd, b, done, (uint64_t)at);
    return done;
}

static ssize_t l_write_fd(int fd, const void *b, size_t n)
{
    LOGGED;
    ssize_t done = REAL.write_fd(fd, b, n);
    off_t end = lseek(fd, 0, SEEK_CUR);
    if (done > 0 && end >= done)
        note_write(fd, b, done, (uint64_t)(end - done));
    return done;
}

/* What was done before it began is covered, from its end on. */
static int note_sync(int fd, int (*call)(int), op_kind kind)
{
    size_t upto;
    {
        LOGGED;
        upto = n_ops;
    }
    int rc = call(fd);
    LOGGED;
    if (rc != 0)
        return rc;
    bool is_dir;
    op *o = add_op(kind);
    o->file = inode_of(fd, &is_dir);
    o->upto = upto;
    if (is_dir && kind == SYNC) {
        o->file = 0;
        if (!below_root(fd, "", o->path))
            n_ops--;
    }
    return rc;
}

static int l_fsync_fd(int fd)
{
    return note_sync(fd, REAL.fsync_fd, SYNC);
}

static int l_fdatasync_fd(int fd)
{
    return note_sync(fd, REAL.fdatasync_fd, SYNC);
}

static int l_sync_fs(int fd)
{
    return note_sync(fd, REAL.sync_fs, SYNC_ALL);
}

static int l_truncate_fd(int fd, off_t len)
{
    bool is_dir;
    LOGGED;
    int rc = REAL.truncate_fd(fd, len);
    if (rc == 0) {
        op *o = add_op(CUT);
        o->file = inode_of(fd, &is_dir);
        o->n = (uint64_t)len;
    }
    return rc;
}

static int note_move(int rc, int a, const char *from, int b, const char *to)
{
    if (rc != 0)
        return rc;
    op *o = add_op(MOVE);
    o->file = inode_at(b, to);
    if (!below_root(b, to, o->to))
        abort();
    if (!below_root(a, from, o->path))
        o->path[0] = '\0';
    return rc;
}

static int l_rename_at(int a, const char *from, int b, const char *to)
{
    LOGGED;
    return note_move(REAL.rename_at(a, from, b, to), a, from, b, to);
}

static int l_rename_new_at(int a, const char *from, int b, const char *to)
{
    LOGGED;
    return note_move(REAL.rename_new_at(a, from, b, to), a, from, b, to);
}

static int l_link_at(int a, const char *from, int b, const char *to)
{
    LOGGED;
    int rc = REAL.link_at(a, from, b, to);
    if (rc == 0) {
        op *o = add_op(ENTRY);
        o->file = inode_at(b, to);
        if (!below_root(b, to, o->path))
            abort();
    }
    return rc;
}

static int l_unlink_at(int dir, const char *name, int flags)
{
    LOGGED;
    int rc = REAL.unlink_at(dir, name, flags);
    if (rc == 0) {
        op *o = add_op(GONE);
        if (!below_root(dir, name, o->path))
            n_ops--;
    }
    return rc;
}

static int l_mkdir_at(int dir, const char *name, mode_t mode)
{
    LOGGED;
    int rc = REAL.mkdir_at(dir, name, mode);
    if (rc == 0) {
        op *o = add_op(FOLDER);
        if (!below_root(dir, name, o->path))
            n_ops--;
    }
    return rc;
}

static void log_begin(const char *root)
{
    static tg_sys table;

    for (size_t i = 0; i < n_ops; i++)
        free(ops[i].data);
    n_ops = 0;
    (void)snprintf(op_root, sizeof op_root, "%s", root);
    table = REAL;
    table.open_at = l_open_at;
    table.open_beneath = l_open_beneath;
    table.pwrite_fd = l_pwrite_fd;
    table.write_fd = l_write_fd;
    table.fsync_fd = l_fsync_fd;
    table.fdatasync_fd = l_fdatasync_fd;
    table.sync_fs = l_sync_fs;
    table.truncate_fd = l_truncate_fd;
    table.rename_at = l_rename_at;
    table.rename_new_at = l_rename_new_at;
    table.link_at = l_link_at;
    table.unlink_at = l_unlink_at;
    table.mkdir_at = l_mkdir_at;
    tg_sys_use(&table);
}

static void log_end(void)
{
    tg_sys_use(NULL);
    for (int i = 0; i < n_kept; i++)
        (void)close(kept[i]);
    n_kept = 0;
}

/* --- What is left ------------------------------------------------------------------------- */

typedef struct left_file {
    uint64_t file;
    uint8_t *data;
    size_t size, cap;
} left_file;

typedef struct left_entry {
    char path[160];
    uint64_t file; /* 0: a directory */
    bool gone;
} left_entry;

static left_file files[MOST_FILES];
static left_entry entries[MOST_OPS];
static size_t n_files, n_entries;
static uint64_t dice_state;

static uint64_t dice(void)
{
    dice_state = hash3(dice_state, 7, 1);
    return dice_state;
}

static left_file *file_of(uint64_t number)
{
    for (size_t i = 0; i < n_files; i++)
        if (files[i].file == number)
            return &files[i];
    if (n_files == MOST_FILES)
        abort();
    files[n_files] = (left_file){.file = number};
    return &files[n_files++];
}

static void resize(left_file *f, size_t size)
{
    if (size > f->cap) {
        f->cap = size * 2;
        f->data = realloc(f->data, f->cap);
        if (f->data == NULL)
            abort();
    }
    if (size > f->size)
        memset(f->data + f->size, 0, size - f->size);
    f->size = size;
}

/* share: of 256 that many of its sectors arrive. */
static void put_bytes(const op *o, uint64_t share)
{
    left_file *f = file_of(o->file);

    for (uint64_t at = 0, n; at < o->n; at += n) {
        n = SECTOR - (o->at + at) % SECTOR;
        n = n < o->n - at ? n : o->n - at;
        if ((dice() & 255) >= share)
            continue;
        if (o->at + at + n > f->size)
            resize(f, (size_t)(o->at + at + n));
        memcpy(f->data + o->at + at, o->data + at, (size_t)n);
    }
}

static left_entry *entry_of(const char *path, bool make)
{
    for (size_t i = 0; i < n_entries; i++)
        if (strcmp(entries[i].path, path) == 0)
            return &entries[i];
    if (!make)
        return NULL;
    left_entry *e = &entries[n_entries++];
    *e = (left_entry){.gone = true};
    (void)snprintf(e->path, sizeof e->path, "%s", path);
    return e;
}

static void set_entry(const char *path, uint64_t file)
{
    left_entry *e = entry_of(path, true);
    e->file = file;
    e->gone = false;
}

static void apply(const op *o, uint64_t share)
{
    left_entry *e;

    switch (o->kind) {
    case WRITE:
        put_bytes(o, share);
        return;
    case CUT:
        resize(file_of(o->file), (size_t)o->n);
        return;
    case ENTRY:
        set_entry(o->path, o->file);
        return;
    case FOLDER:
        set_entry(o->path, 0);
        return;
    case MOVE:
        if (o->path[0] != '\0' && (e = entry_of(o->path, false)) != NULL)
            e->gone = true;
        set_entry(o->to, o->file);
        return;
    case GONE:
        if ((e = entry_of(o->path, false)) != NULL)
            e->gone = true;
        return;
    default:
        return;
    }
}

static bool is_in(const char *path, const char *dir)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path);
    return strlen(dir) == n && strncmp(path, dir, n) == 0;
}

/* Does a sync within the prefix cover operation i? */
static bool covered(size_t i, size_t prefix)
{
    const op *o = &ops[i];

    for (size_t j = i + 1; j < prefix; j++) {
        if ((ops[j].kind != SYNC && ops[j].kind != SYNC_ALL) || ops[j].upto <= i)
            continue;
        if (ops[j].kind == SYNC_ALL)
            return true;
        if (o->kind == WRITE || o->kind == CUT) {
            if (ops[j].file == o->file)
                return true;
        } else if (ops[j].file == 0 && is_in(o->kind == MOVE ? o->to : o->path, ops[j].path)) {
            return true;
        }
    }
    return false;
}

static bool folder_is_there(const char *path)
{
    char dir[160];

    (void)snprintf(dir, sizeof dir, "%.159s", path);
    for (char *slash; (slash = strrchr(dir, '/')) != NULL;) {
        *slash = '\0';
        const left_entry *e = entry_of(dir, false);
        if (e == NULL || e->gone || e->file != 0)
            return false;
    }
    return true;
}

static void write_file(const char *path, const left_file *f)
{
    FILE *out = fopen(path, "wb");

    if (out == NULL || (f->size > 0 && fwrite(f->data, 1, f->size, out) != f->size) ||
        fclose(out) != 0)
        abort();
}

/* Entries stand in the order in which they were made: a folder before what is in it. */
static void lay_out(const char *root)
{
    char path[700];

    if (mkdir(root, 0777) != 0)
        abort();
    for (size_t i = 0; i < n_entries; i++) {
        const left_entry *e = &entries[i];
        if (e->gone || !folder_is_there(e->path))
            continue;
        (void)snprintf(path, sizeof path, "%.500s/%.159s", root, e->path);
        if (e->file != 0)
            write_file(path, file_of(e->file));
        else if (mkdir(path, 0777) != 0)
            abort();
    }
}

/* share: of 256 that many of what no sync covers. */
static uint64_t crash(const char *root, size_t prefix, uint64_t share)
{
    uint64_t acknowledged = 0;

    for (size_t i = 0; i < n_files; i++)
        files[i].size = 0;
    n_entries = 0;
    for (size_t i = 0; i < prefix; i++) {
        if (ops[i].kind == ACKNOWLEDGED)
            acknowledged = ops[i].n;
        if (covered(i, prefix))
            apply(&ops[i], 256);
        else if (ops[i].kind == WRITE)
            apply(&ops[i], share);
        else if ((dice() & 255) < share)
            apply(&ops[i], 256);
    }
    lay_out(root);
    return acknowledged;
}

/* --- Recording and recovering ------------------------------------------------------------- */

typedef struct workload {
    const char *name;
    tg_stream_array array;
    bool zip, live;
} workload;

static const workload workloads[] = {
    {"chunk files", ARRAY(.no_shards = true, .chunk_frames = 1), false, false},
    {"chunk files, k 4", ARRAY(.no_shards = true, .chunk_frames = 4), false, false},
    {"sharded, k 2", ARRAY(.shard_frames = 4, .chunk_frames = 2), false, false},
    {"live", ARRAY(.live = true, .chunk_frames = 1), false, true},
    {"zstd", ARRAY(.shard_frames = 6, .chunk_frames = 3, .codec = "zstd:1"), false, false},
    {"zip", ARRAY(.chunk_frames = 2), true, false},
};

static void acknowledge(tg_stream *s)
{
    tg_stream_stats t = {.size = sizeof t};

    tg_stream_get_stats(s, UINT32_MAX, &t);
    TG_LOCKED(&op_lock);
    add_op(ACKNOWLEDGED)->n = t.durable;
}

static void record(const workload *w, const char *path)
{
    tg_runtime *rt = new_runtime((uint64_t)32 << 20);
    tg_stream *s = NULL;
    tg_error err = {0};
    uint8_t frame[ITEMS * 2];
    tg_stream_options o = {.size = sizeof o,
                           .path = path,
                           .arrays = &w->array,
                           .n_arrays = 1,
                           .commit_interval = 0.005};

    CHECK_OK(tg_stream_open(rt, &o, &s, &err));
    for (uint64_t i = 0; s != NULL && i < FRAMES; i++) {
        make_frame(frame, 0, i, ITEMS, 2);
        CHECK_OK(tg_stream_append(s, 0, frame, 1, NULL, NULL, NULL, &err));
        if (i % 3 == 2)
            CHECK_OK(tg_stream_flush(
                s, i == 5 && !w->zip ? TG_LEVEL_PUBLISHED : TG_LEVEL_DURABLE, 0, &err));
        acknowledge(s);
    }
    if (s != NULL)
        CHECK_OK(tg_stream_close(s, NULL, &err));
    tg_runtime_free(rt);
    TG_LOCKED(&op_lock);
    add_op(ACKNOWLEDGED)->n = FRAMES;
}

static void shell(const char *line, const char *path)
{
    CHECK(setenv("P", path, 1) == 0 && system(line) == 0);
}

static uint64_t states, found;

/* Before recover a directory shows only true frames (a live index may be torn: an error). */
static void check_state(const workload *w, const char *path, uint64_t acknowledged)
{
    tg_recover_result r = {.size = sizeof r};
    tg_error err = {0};
    char lock[700];
    tg_runtime *rt = new_runtime((uint64_t)32 << 20);

    (void)snprintf(lock, sizeof lock, "%s.tidegate/lock", path);
    (void)unlink(lock); /* its owner, this process, is still there */
    uint64_t before = w->zip ? UINT64_MAX : shape_of(path, "0", 0);
    if (before != UINT64_MAX && !w->live)
        check_frames(path, "0", 0, before);
    tg_status st = tg_recover(rt, path, &r, &err);
    if (st != TG_OK && acknowledged > 0) {
        fprintf(stderr, "%s: recover: %s\n", test_row, err.msg);
        test_failed(__FILE__, __LINE__, "recovered");
    }
    uint64_t after = st == TG_OK ? shape_of(path, "0", 0) : UINT64_MAX;
    if (after == UINT64_MAX) {
        CHECK_U64(acknowledged, 0);
    } else {
        CHECK(after >= acknowledged && after <= FRAMES);
        CHECK(before == UINT64_MAX || after >= before);
        check_frames(path, "0", 0, after);
        found += after;
    }
    tg_runtime_free(rt);
    states++;
}

static void cut_after(const workload *w, const char *root, size_t prefix)
{
    static const uint64_t shares[] = {0, 256, 128, 230};
    char row[128], path[400];

    for (size_t i = 0; i < sizeof shares / sizeof shares[0] && test_failures == 0; i++) {
        (void)snprintf(row, sizeof row, "%s, after operation %zu of %zu, %d of 256 unsynced",
                       w->name, prefix, n_ops, (int)shares[i]);
        test_row = row;
        dice_state = prefix * 4 + i;
        (void)snprintf(path, sizeof path, "%s/x.%s", root, w->zip ? "zip" : "zarr");
        uint64_t acknowledged = crash(root, prefix, shares[i]);
        check_state(w, path, acknowledged);
        if (test_failures == 0 || getenv("TG_KEEP") == NULL)
            shell("rm -rf \"$P\"", root);
    }
    test_row = "";
}

/* In memory where there is some: thousands of recoveries, each with its syncs. */
static const char *crash_root(void)
{
    static char root[64];

    (void)snprintf(root, sizeof root, "%s/tg-replay-%d",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    return root;
}

static void power_cuts_everywhere(void)
{
    size_t step = getenv("TG_SOAK") == NULL ? 13 : 1;

    tg_mutex_init(&op_lock);
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0] && test_failures == 0; i++) {
        const workload *w = &workloads[i];
        const char *root = scratch(w->name);
        char path[400];
        REQUIRE(mkdir(root, 0777) == 0);
        (void)snprintf(path, sizeof path, "%s/x.%s", root, w->zip ? "zip" : "zarr");
        log_begin(root);
        record(w, path);
        log_end();
        for (size_t at = 1 + i; at <= n_ops && test_failures == 0; at += step)
            cut_after(w, crash_root(), at);
        cut_after(w, crash_root(), n_ops);
        printf("     %s: %zu operations\n", w->name, n_ops);
    }
    for (size_t i = 0; i < n_ops; i++)
        free(ops[i].data);
    for (size_t i = 0; i < n_files; i++)
        free(files[i].data);
    tg_mutex_destroy(&op_lock);
    printf("     %d states, %d frames compared\n", (int)states, (int)found);
    CHECK(states > 100 && found > 100);
}

static const struct test tests[] = {{"power_cuts_everywhere", power_cuts_everywhere}};
TEST_MAIN(tests)
