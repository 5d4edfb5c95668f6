/* region/plan_file.c - a plan as a file (docs/formats/plan.md): written whole, opened mapped.
 * What it holds is checked by plan_check.c. */
#include "base/crc32c.h"
#include "base/sys.h"
#include "region/plan_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a plan is mapped as it lies in its file: little-endian"
#endif

enum {
    MAJOR = 2,
    MINOR = 0,
    PREFIX = 64, /* bytes before the table */
    ENTRY = 16,  /* bytes of a section in the table */
    ALIGN = 64,  /* of sections */
    MAX_JSON = 1 << 24,
    BLOCK = 1 << 20, /* summed and dropped at a time */
    MIN_WINDOW = 1 << 20
};

/* The first bytes of the file. */
typedef struct prefix {
    char magic[8];
    uint32_t major, minor;
    uint64_t file_bytes;
    uint32_t json_bytes;
    uint32_t n_sections;
    uint64_t fingerprint;
    uint32_t data_crc;   /* of everything from the first section to the end */
    uint32_t header_crc; /* of the prefix with this as zero, the table and the JSON */
    uint64_t zero[2];
} prefix;
_Static_assert(sizeof(prefix) == PREFIX, "the file's first bytes");

typedef struct entry {
    uint64_t offset, bytes;
} entry;
_Static_assert(sizeof(entry) == ENTRY, "a section in the table");

static const char magic[8] = {'T', 'G', 'R', 'P', 'L', 'A', 'N', '\n'};

static uint64_t aligned(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* --- Writing -------------------------------------------------------------- */

static tg_status set_counts(tg_json *o, const tg_plan *p, tg_error *err)
{
    const tg_plan_stats *s = &p->stats;
    const struct {
        const char *key;
        uint64_t v;
    } counts[] = {{"regions", p->n},
                  {"empty", s->empty},
                  {"wins_nothing", s->wins_nothing},
                  {"unclipped", s->unclipped},
                  {"pieces", s->pieces},
                  {"pairs", s->pairs},
                  {"pairs_capped", s->pairs_capped},
                  {"border_units", s->border_units},
                  {"border_items", s->border_items},
                  {"items", s->items},
                  {"most_writing", s->most_writing}};
    TG_AUTO_PTR(tg_json) v = tg_json_new_object();
    if (v == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plan's header");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        TG_TRY(tg_json_set(v, counts[i].key, tg_json_new_u64(counts[i].v), err));
    return tg_json_set(o, "counts", tg_steal(v), err);
}

static tg_status make_json(const tg_plan *p, char **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) o = NULL;
    TG_TRY(tg_plan_facts_json(p, &o, err));
    TG_TRY(set_counts(o, p, err));
    return tg_json_write(o, false, (tg_json_options){0}, out, err);
}

/* The table, and the sum of what it speaks of. */
static uint64_t lay_out(const tg_plan *p, uint64_t first, entry *table, uint32_t *crc)
{
    static const uint8_t zeros[ALIGN];
    uint64_t at = first;
    *crc = 0;
    for (int i = 0; i < TG_PLAN_SECTIONS; i++) {
        const tg_plan_section *s = &p->section[i];
        table[i] = (entry){at, s->bytes};
        if (s->bytes != 0)
            *crc = tg_crc32c(*crc, s->data, s->bytes);
        *crc = tg_crc32c(*crc, zeros, aligned(s->bytes) - s->bytes);
        at += aligned(s->bytes);
    }
    return at;
}

static tg_status write_sections(const tg_plan *p, int fd, const entry *table, const char *path,
                                tg_error *err)
{
    for (int i = 0; i < TG_PLAN_SECTIONS; i++)
        if (table[i].bytes != 0)
            TG_TRY(tg_fd_write_at(fd, p->section[i].data, table[i].bytes, table[i].offset, path,
                                  err));
    return TG_OK;
}

static tg_status write_file(const tg_plan *p, int fd, const char *path, tg_error *err)
{
    TG_AUTO(tg_str) json = NULL;
    TG_AUTO(tg_buf) head = {0};
    entry table[TG_PLAN_SECTIONS];
    TG_TRY(make_json(p, &json, err));
    size_t json_bytes = strlen(json);
    if (json_bytes > MAX_JSON)
        return tg_fail(err, TG_UNSUPPORTED, "a plan's header of %zu bytes", json_bytes);
    uint64_t first = aligned(PREFIX + sizeof table + json_bytes);
    prefix h = {.major = MAJOR,
                .minor = MINOR,
                .json_bytes = (uint32_t)json_bytes,
                .n_sections = TG_PLAN_SECTIONS,
                .fingerprint = p->fingerprint};
    memcpy(h.magic, magic, sizeof magic);
    h.file_bytes = lay_out(p, first, table, &h.data_crc);
    TG_TRY(tg_buf_resize(&head, first, err));
    memset(head.data, 0, head.len);
    memcpy(head.data, &h, sizeof h);
    memcpy(head.data + PREFIX, table, sizeof table);
    memcpy(head.data + PREFIX + sizeof table, json, json_bytes);
    h.header_crc = tg_crc32c(0, head.data, head.len);
    memcpy(head.data, &h, sizeof h);
    TG_TRY(tg_fd_write_at(fd, head.data, head.len, 0, path, err));
    TG_TRY(write_sections(p, fd, table, path, err));
    if (tg_sys_truncate(fd, (off_t)h.file_bytes) != 0) /* zeros behind the last section */
        return tg_fail_errno(err, "set the size of %s", path);
    return TG_OK;
}

static tg_status fail_at(const char *what, const char *path, tg_error *err)
{
    tg_status st = tg_fail_errno(err, "%s %s", what, path);
    tg_error_at(err, path, TG_NO_OFFSET);
    return st;
}

static tg_status write_fresh(const tg_plan *p, int dir, const char *fresh, tg_error *err)
{
    TG_AUTO(tg_fd) fd = tg_sys_open(dir, fresh, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0)
        return fail_at("create", fresh, err);
    TG_TRY(write_file(p, fd, fresh, err));
    if (tg_sys_fdatasync(fd) != 0)
        return fail_at("sync", fresh, err);
    return tg_fd_close(&fd, fresh, err);
}

static tg_status sync_parent(int dir, const char *path, tg_error *err)
{
    const char *slash = strrchr(path, '/');
    TG_AUTO(tg_text) parent = {0};
    if (slash == NULL)
        tg_text_add(&parent, ".");
    else
        tg_text_add_n(&parent, path, slash == path ? 1 : (size_t)(slash - path));
    TG_TRY(tg_text_status(&parent, err));
    TG_AUTO(tg_fd) fd = tg_sys_open(dir, parent.data, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fail_at("open directory", parent.data, err);
    return tg_dir_sync(fd, parent.data, err);
}

tg_status tg_plan_write(const tg_plan *p, int dir, const char *path, tg_error *err)
{
    TG_AUTO(tg_text) fresh = {0};
    tg_text_addf(&fresh, "%s.new", path);
    TG_TRY(tg_text_status(&fresh, err));
    tg_status st = write_fresh(p, dir, fresh.data, err);
    if (st == TG_OK && tg_sys_rename(dir, fresh.data, dir, path) != 0)
        st = fail_at("rename", fresh.data, err);
    if (st != TG_OK) {
        (void)tg_sys_unlink(dir, fresh.data, 0); /* the failure is reported already */
        return st;
    }
    return sync_parent(dir, path, err);
}

/* --- Opening -------------------------------------------------------------- */

static tg_status read_prefix(int fd, const char *path, prefix *h, tg_error *err)
{
    struct stat st;
    if (tg_sys_stat_fd(fd, &st) != 0)
        return fail_at("stat", path, err);
    if (!S_ISREG(st.st_mode) || st.st_size < PREFIX)
        return tg_fail(err, TG_CORRUPT, "not a plan: a file of %lld bytes",
                       (long long)st.st_size);
    TG_TRY(tg_fd_read_at(fd, h, sizeof *h, 0, path, err));
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return tg_fail(err, TG_CORRUPT, "not a plan: it does not begin with TGRPLAN");
    if (h->major != MAJOR)
        return tg_fail(err, TG_UNSUPPORTED, "a plan of version %u.%u: this reads %d", h->major,
                       h->minor, MAJOR);
    if (h->file_bytes != (uint64_t)st.st_size)
        return tg_fail(err, TG_CORRUPT, "the plan has %lld bytes, its header says %llu",
                       (long long)st.st_size, (unsigned long long)h->file_bytes);
    if (h->json_bytes > MAX_JSON || h->n_sections != TG_PLAN_SECTIONS)
        return tg_fail(err, TG_CORRUPT, "the plan's header: %u bytes of JSON, %u sections",
                       h->json_bytes, h->n_sections);
    return TG_OK;
}

static tg_status get_count(const tg_json *counts, const char *key, uint64_t *out, tg_error *err)
{
    const tg_json *v = tg_json_get(counts, key);
    return v == NULL || tg_json_u64(v, out, err) != TG_OK
               ? tg_fail(err, TG_CORRUPT, "the header's counts: no '%s'", key)
               : TG_OK;
}

static tg_status read_counts(tg_plan *p, tg_error *err)
{
    const tg_json *c = tg_json_get(p->header, "counts");
    uint64_t most, capped;
    TG_TRY(get_count(c, "regions", &p->n, err));
    TG_TRY(get_count(c, "empty", &p->stats.empty, err));
    TG_TRY(get_count(c, "wins_nothing", &p->stats.wins_nothing, err));
    TG_TRY(get_count(c, "unclipped", &p->stats.unclipped, err));
    TG_TRY(get_count(c, "pieces", &p->stats.pieces, err));
    TG_TRY(get_count(c, "pairs", &p->stats.pairs, err));
    TG_TRY(get_count(c, "pairs_capped", &capped, err));
    TG_TRY(get_count(c, "border_units", &p->stats.border_units, err));
    TG_TRY(get_count(c, "border_items", &p->stats.border_items, err));
    TG_TRY(get_count(c, "items", &p->stats.items, err));
    TG_TRY(get_count(c, "most_writing", &most, err));
    p->stats.most_writing = (uint32_t)most;
    p->stats.pairs_capped = capped != 0;
    return TG_OK;
}

static tg_status read_header(tg_plan *p, int fd, const char *path, prefix *h, entry *table,
                             tg_error *err)
{
    size_t table_bytes = sizeof(entry) * TG_PLAN_SECTIONS;
    uint64_t first = aligned(PREFIX + table_bytes + h->json_bytes);
    TG_AUTO(tg_buf) head = {0};
    if (first > h->file_bytes)
        return tg_fail(err, TG_CORRUPT, "the plan ends within its header");
    TG_TRY(tg_buf_resize(&head, first, err));
    TG_TRY(tg_fd_read_at(fd, head.data, head.len, 0, path, err));
    memset(head.data + offsetof(prefix, header_crc), 0, sizeof h->header_crc);
    uint32_t crc = tg_crc32c(0, head.data, head.len);
    if (crc != h->header_crc)
        return tg_fail(err, TG_CORRUPT, "the plan's header: crc32c %08x, want %08x", crc,
                       h->header_crc);
    memcpy(table, head.data + PREFIX, table_bytes);
    for (int i = 0; i < TG_PLAN_SECTIONS; i++) {
        if (table[i].offset != first || table[i].bytes > h->file_bytes - first)
            return tg_fail(err, TG_CORRUPT, "the plan's section %d lies at %llu, want %llu", i,
                           (unsigned long long)table[i].offset, (unsigned long long)first);
        first += aligned(table[i].bytes);
        if (first > h->file_bytes)
            return tg_fail(err, TG_CORRUPT, "the plan's section %d ends behind the file", i);
    }
    if (first != h->file_bytes)
        return tg_fail(err, TG_CORRUPT, "the plan has %llu bytes behind its sections",
                       (unsigned long long)(h->file_bytes - first));
    TG_TRY(tg_json_parse(&p->header, (const char *)head.data + PREFIX + table_bytes,
                         h->json_bytes, (tg_json_options){0}, err));
    TG_TRY(tg_plan_facts_read(p, err));
    return read_counts(p, err);
}

static tg_status map_file(tg_plan *p, int fd, const prefix *h, const entry *table,
                          uint64_t window_bytes, const char *path, tg_error *err)
{
    tg_plan_window *w = &p->window;
    enum { SLICE = 1 << 18 };
    uint64_t most = window_bytes < MIN_WINDOW ? MIN_WINDOW : window_bytes;
    uint64_t words = (h->file_bytes / SLICE + 2) / 32 + 1;
    if (most > h->file_bytes)
        most = h->file_bytes;
    if (p->budget != NULL)
        TG_TRY(tg_budget_reserve(p->budget, most + words * sizeof *w->touched,
                                 "the window on the plan", err));
    p->reserved += most + words * sizeof *w->touched;
    w->touched = tg_calloc(words, sizeof *w->touched);
    if (w->touched == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for the window on a plan");
    void *at = mmap(NULL, h->file_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return fail_at("map", path, err);
    w->base = at;
    w->bytes = h->file_bytes;
    w->n_words = words;
    w->first_slice = (uintptr_t)at / SLICE;
    w->most = most / SLICE;
    for (int i = 0; i < TG_PLAN_SECTIONS; i++)
        p->section[i] = (tg_plan_section){w->base + table[i].offset, table[i].bytes};
    return TG_OK;
}

static tg_status check_sum(const tg_plan *p, const prefix *h, uint64_t first, tg_error *err)
{
    uint32_t crc = 0;
    for (uint64_t at = first; at < h->file_bytes; at += BLOCK) {
        uint64_t n = h->file_bytes - at < BLOCK ? h->file_bytes - at : BLOCK;
        tg_plan_touch(p, p->window.base + at, n);
        crc = tg_crc32c(crc, p->window.base + at, n);
    }
    return crc == h->data_crc
               ? TG_OK
               : tg_fail(err, TG_CORRUPT, "the plan: crc32c %08x, want %08x", crc, h->data_crc);
}

static tg_status open_plan(tg_plan *p, int fd, const char *path, uint64_t window_bytes,
                           tg_error *err)
{
    prefix h;
    entry table[TG_PLAN_SECTIONS];
    TG_TRY(read_prefix(fd, path, &h, err));
    TG_TRY(read_header(p, fd, path, &h, table, err));
    if (tg_plan_derive(p, err) != TG_OK)
        return TG_CORRUPT;
    p->fingerprint = h.fingerprint;
    p->stats.file_bytes = h.file_bytes;
    TG_TRY(map_file(p, fd, &h, table, window_bytes, path, err));
    TG_TRY(check_sum(p, &h, table[0].offset, err));
    return tg_plan_check(p, err);
}

tg_status tg_plan_open(tg_plan **out, int dir, const char *path, uint64_t window_bytes,
                       tg_budget *budget, tg_error *err)
{
    TG_AUTO(tg_fd) fd = tg_sys_open(dir, path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return errno == ENOENT ? tg_fail(err, TG_NOT_FOUND, "no plan %s", path)
                               : fail_at("open", path, err);
    TG_AUTO_PTR(tg_plan) p = tg_calloc(1, sizeof *p);
    if (p == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a plan");
    p->budget = budget;
    tg_status st = open_plan(p, fd, path, window_bytes, err);
    if (st == TG_OK) {
        *out = tg_steal(p);
        return TG_OK;
    }
    tg_error_prefix(err, "plan '%s'", path);
    tg_error_at(err, path, TG_NO_OFFSET);
    return st == TG_INVALID ? TG_CORRUPT : st;
}
