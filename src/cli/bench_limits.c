/* cli/bench_limits.c - bench limits: what memory and disk of this machine give at most. */
#include "bench.h"
#include "tidegate/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MEMORY_BYTES ((uint64_t)4 << 30) /* moved through memory in one measurement */
#define DISK_BYTES   ((uint64_t)2 << 30)
#define BLOCK_BYTES  ((size_t)8 << 20)
#define MOST_ROUNDS  99

/* --- The machine -------------------------------------------------------------- */

/* The value behind the first line of a file under /proc that begins with `name`. */
static void proc_value(const char *path, const char *name, char *room, size_t cap)
{
    char line[512];
    room[0] = '\0';
    FILE *f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        const char *value = strchr(line, ':');
        value = value != NULL ? value + 1 + strspn(value + 1, " \t") : "";
        (void)snprintf(room, cap, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (f != NULL)
        (void)fclose(f);
}

static const char *file_system_name(const char *dir, char *room, size_t cap)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {{0xEF53, "ext4"},      {0x58465342, "xfs"}, {0x9123683E, "btrfs"},
                 {0x01021994, "tmpfs"}, {0x6969, "nfs"},     {0x794C7630, "overlay"},
                 {0xF2F52010, "f2fs"},  {0x2FC12FC1, "zfs"}};
    struct statfs fs;
    if (statfs(dir, &fs) != 0)
        return "unknown";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((unsigned long)fs.f_type == known[i].magic)
            return known[i].name;
    (void)snprintf(room, cap, "0x%lx", (unsigned long)fs.f_type);
    return room;
}

void bench_machine_json(json_out *j, const char *dir)
{
    char cpu[128], memory[64], fs[32];
    struct utsname u = {0};
    (void)uname(&u);
    proc_value("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    if (cpu[0] == '\0')
        proc_value("/proc/cpuinfo", "CPU part", cpu, sizeof cpu);
    proc_value("/proc/meminfo", "MemTotal", memory, sizeof memory);
    json_open(j, "machine");
    json_text(j, "cpu", cpu);
    json_i64(j, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    json_u64(j, "memory_bytes", strtoull(memory, NULL, 10) * 1024);
    json_text(j, "kernel", u.release);
    json_text(j, "architecture", u.machine);
    json_text(j, "file_system", file_system_name(dir, fs, sizeof fs));
    json_text(j, "crc32c", tg_crc32c_form());
    json_close(j);
}

/* --- Memory ------------------------------------------------------------------- */

static void crc_run(void *arg, bench_result *result)
{
    const bench_run *run = arg;
    bench_pool pool;
    size_t bytes = (size_t)(run->height * run->width);
    uint32_t sum = 0;
    result->status = pool_new(&pool, bytes, run->frames, BENCH_NOISE, NULL, &result->err);
    if (result->status != TG_OK)
        return;
    double start = bench_now();
    for (uint64_t i = 0; i < run->frames; i++)
        sum ^= tg_crc32c(0, pool_frame(&pool, i), bytes);
    __asm__ volatile("" : : "r"(sum));
    result->seconds = bench_now() - start;
    result->frames = run->frames;
    result->bytes_in = run->frames * bytes;
    pool_free(&pool);
}

/* --- All of them --------------------------------------------------------------- */

typedef struct limit {
    const char *name, *words;
    bench_fn fn;
    void *arg;
    double rate[MOST_ROUNDS]; /* MiB/s */
    size_t n;
    tg_error err; /* of the last one that failed */
} limit;

static void measure(limit *l)
{
    bench_result r;
    bench_in_child(l->fn, l->arg, &r);
    if (r.status == TG_OK)
        l->rate[l->n++] = r.mib_per_s;
    else
        l->err = r.err;
}

static void report(cli *c, limit *l)
{
    json_open(&c->json, l->name);
    json_open_list(&c->json, "rounds");
    for (size_t i = 0; i < l->n; i++)
        json_double(&c->json, NULL, l->rate[i]);
    json_close_list(&c->json);
    double median = bench_median(l->rate, l->n);
    json_double(&c->json, "mib_per_s", median);
    if (l->n == 0)
        json_error(&c->json, "error", &l->err);
    json_close(&c->json);
    if (c->common->json)
        return;
    if (l->n > 0)
        (void)printf("%-42s %8.0f MiB/s   (%.0f to %.0f)\n", l->words, median, l->rate[0],
                     l->rate[l->n - 1]);
    else
        (void)printf("%-42s      not measured: %s\n", l->words, l->err.msg);
}

int bench_limits(cli *c, const bench_options *o)
{
    uint64_t disk = o->bytes > 0 ? o->bytes : o->quick ? DISK_BYTES / 16 : DISK_BYTES;
    uint64_t memory = o->quick ? MEMORY_BYTES / 16 : MEMORY_BYTES;
    bench_run copy = {.height = 2048,
                      .width = 4096,
                      .dtype = {TG_DT_UINT, 1},
                      .frames = memory / BLOCK_BYTES,
                      .memory_bytes = (uint64_t)256 << 20};
    floor_job ring = {.dir = o->dir,
                      .frames = disk / BLOCK_BYTES > 0 ? disk / BLOCK_BYTES : 1,
                      .frame_bytes = BLOCK_BYTES,
                      .block_bytes = BLOCK_BYTES,
                      .ring = 4,
                      .direct = true};
    floor_job one = ring, buffered = ring;
    one.ring = 1;
    buffered.direct = false;
    limit limits[] = {
        {.name = "memcpy", .words = "memcpy, one thread", .fn = memcpy_run, .arg = &copy},
        {.name = "crc32c", .words = "crc32c, one thread", .fn = crc_run, .arg = &copy},
        {.name = "direct_ring4",
         .words = "disk: O_DIRECT, ring of 4 and a writer",
         .fn = floor_run,
         .arg = &ring},
        {.name = "direct_one",
         .words = "disk: O_DIRECT, one block at a time",
         .fn = floor_run,
         .arg = &one},
        {.name = "buffered",
         .words = "disk: write(2) and fsync",
         .fn = floor_run,
         .arg = &buffered},
    };
    enum { N = sizeof limits / sizeof limits[0] };
    for (uint64_t round = 0; round < o->rounds; round++)
        for (size_t i = 0; i < N && !tg_cancel_requested(c->cancel); i++)
            measure(&limits[i]);

    bench_machine_json(&c->json, o->dir);
    json_text(&c->json, "dir", o->dir);
    json_u64(&c->json, "disk_bytes", disk);
    bool all = true;
    for (size_t i = 0; i < N; i++) {
        report(c, &limits[i]);
        all &= limits[i].n > 0 || limits[i].err.code == TG_UNSUPPORTED;
        if (limits[i].n == 0 && limits[i].err.code != TG_UNSUPPORTED && c->err.code == TG_OK)
            c->err = limits[i].err;
    }
    if (tg_cancel_requested(c->cancel)) {
        c->err.code = TG_OK;
        return CLI_INCOMPLETE;
    }
    return all ? CLI_DONE : CLI_FAILED;
}
